"""Layers: a function of `numba_pool.functional` with its arguments, and what its backward needs of the last forward.

A layer holds no parameters and does no arithmetic. Type checkers read `layers.pyi`, which tells the ranks apart.
"""

from __future__ import annotations  # help() shows them by name

import inspect
from collections.abc import Callable, Sequence
from functools import update_wrapper
from math import prod
from types import FunctionType
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _arguments as checks
from . import functional as F
from ._arguments import check_output
from ._arrays import FLOAT32, Array, Planes, allocate, array, is_last
from ._dispatch.calls import check_bool
from ._windows import LIMIT
from .functional.average import check_divisor
from .functional.fractional import draw, resolve_output
from .functional.lp import check_norm

Size: TypeAlias = int | Sequence[int]
OutputSize: TypeAlias = int | Sequence[int | None] | None
Padding: TypeAlias = int | Sequence[int | tuple[int, int]] | str
Result: TypeAlias = Array | tuple[Array, NDArray[np.int32]]

MOST_AXES = 5  # batch, channels and three spatial ones

NOTES = """
Notes
-----
In training mode `forward` keeps what one `backward` needs, and `backward` uses it up. So a network needs a layer for
each place: a layer that was called twice since its last `backward` raises RuntimeError there. Call `eval()` before
passes that no `backward` follows. `train()` forgets those that none followed.
"""


class Layer:
    """What all layers share: arguments as attributes, train and eval, repr."""

    channel_axis: int | None

    _saved: Any
    _forwards: int  # since the last backward
    _used: bool
    _function: ClassVar[str] = ""
    _backward: ClassVar[str] = ""
    _rank: ClassVar[int] = 0  # 0 where it is for x to say
    _integers: ClassVar[bool] = True  # whether gradients may be

    def __init_subclass__(cls, function: str = "") -> None:
        super().__init_subclass__()
        # Every layer has methods of its own name, for Python's messages about arguments: what they do stands in a class
        # that no user has heard of.
        for name in ("__init__", "forward", "backward"):
            shared: Any = getattr(cls, name)
            own: Any = FunctionType(shared.__code__, shared.__globals__, name, shared.__defaults__, shared.__closure__)
            own.__kwdefaults__ = shared.__kwdefaults__
            update_wrapper(own, shared).__qualname__ = f"{cls.__qualname__}.{name}"
            setattr(cls, name, own)
        if function:
            cls._function, cls._backward = function, f"{function}_backward"
            cls._rank = int(function[-2]) if function[-1] == "d" else 0
            family = inspect.cleandoc(cls.__mro__[1].__doc__ or "")
            text = family.replace("{d}", f"{cls._rank}d").replace("{spatial}", ("*", "L", "H, W", "D, H, W")[cls._rank])
            cls.__doc__ = f"{cls.__doc__}\n\n{text}\n{NOTES}"

    # No docstring: help() would show it beside the class's.
    def __init__(self, **arguments: Any) -> None:
        vars(self).update(arguments)
        self.training = True
        self._names = tuple(arguments)
        self._forget()
        self._check()
        check_channel_axis(self.channel_axis, self._rank)

    def _check(self) -> None:
        """That the arguments can be right, whatever the input: the function checks them against it."""

    @property
    def _arguments(self) -> dict[str, Any]:
        arguments = {name: getattr(self, name) for name in self._names}
        if self.channel_axis is None:  # so that no function is asked for what it may not have
            del arguments["channel_axis"]
        return arguments

    @property
    def _axis(self) -> dict[str, int]:
        return {} if self.channel_axis is None else {"channel_axis": self.channel_axis}

    # Looked up at every call, so that whoever replaces a function of `numba_pool.functional` finds it in layers, too.
    @property
    def _pool(self) -> Callable[..., Any]:
        pool: Callable[..., Any] = getattr(F, self._function)
        return pool

    @property
    def _pool_backward(self) -> Callable[..., Array]:
        backward: Callable[..., Array] = getattr(F, self._backward)
        return backward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The same as `forward`."""
        return self.forward(*args, **kwargs)

    def __repr__(self) -> str:
        """The arguments that differ from the defaults."""
        parameters = inspect.signature(type(self)).parameters
        shown = (
            f"{name}={value!r}"
            for name, value in self._arguments.items()
            if repr(value) != repr(parameters[name].default)
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def forward(self, x: ArrayLike) -> Any:
        """Pool `x`; in training mode, keep what `backward` needs."""
        raise NotImplementedError

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to the `x` of `forward`."""
        raise NotImplementedError

    def _save(self, x: ArrayLike, y: Array, what: Any) -> None:
        """Keep what backward needs, the shape that its gradient must have, and whether the memory of its result has
        channels last though no gradient of one pixel can tell.
        """
        shape = y.shape
        rank = self._rank or len(shape) - 2
        one = shape[-1] == 1 and prod(shape[-rank:]) == 1
        last = one and self.channel_axis is None and is_last(np.asarray(x), rank)
        self._saved = shape, rank if last else 0, what
        self._forwards, self._used = self._forwards + 1, False

    def _forget(self) -> None:
        self._saved = None
        self._forwards = 0
        self._used = False

    def _kept(self, grad_output: ArrayLike) -> Any:
        """What forward has kept for the backward of this gradient."""
        name = type(self).__name__
        if self._forwards > 1:
            times = self._forwards
            self._forget()
            raise RuntimeError(
                f"{name} was called {times} times since its last backward, and it cannot know whose gradient this "
                "is: use one layer for each place of a network, and eval() for passes that no backward follows. "
                "Those calls are forgotten now, as by train()"
            )
        if self._used:
            raise RuntimeError(
                f"{name}.backward has used up what its last forward kept: call forward(x) before every "
                "backward(grad_output), and use one layer for each place of a network"
            )
        if self._saved is None:
            raise RuntimeError(
                f"{name}.backward needs a forward in training mode before it: "
                "call train(), then forward(x), then backward(grad_output)"
            )
        # Whatever becomes of this backward, the next forward begins anew; until then it may be tried again if it fails.
        self._forwards = 0
        shape, _, what = self._saved
        if getattr(grad_output, "shape", None) != shape:  # or it is a list, or nothing that can be a gradient
            check_output(array(grad_output, "grad_output", self._integers).shape, shape)
        return what

    def _used_up(self, gradient: Array) -> Array:
        """The gradient, for which what forward has kept was used: that is gone now."""
        _, rank, _ = self._saved
        if rank and not is_last(gradient, rank):
            ordered = allocate(gradient.shape, gradient.dtype, rank, True)
            ordered[...] = gradient
            gradient = ordered
        self._saved, self._used = None, True
        return gradient

    def train(self, mode: bool = True) -> Self:
        """Keep what backward needs at every forward; begin anew, without the forwards that no backward has followed."""
        self.training = bool(mode)
        self._forget()
        return self

    def eval(self) -> Self:
        """Forget what was kept for `backward`, and keep no more; maxima then compute indices only to return them."""
        return self.train(False)

    def parameters(self) -> list[Array]:
        """Pooling has none."""
        return []


def check_channel_axis(axis: Any, rank: int) -> None:
    """That the argument is None, or an axis that an input of this spatial rank, or of whatever rank for 0, can have."""
    if axis is None:
        return
    if isinstance(axis, (bool, np.bool_)) or not isinstance(axis, (int, np.integer)):
        raise TypeError(f"channel_axis must be an int or None, got {axis!r} of type {type(axis).__name__}")
    axes = rank + 2 if rank else MOST_AXES
    if not -axes <= axis < axes:
        raise ValueError(f"channel_axis must lie in [{-axes}, {axes}), the axes of an input, got {axis}")


def check_windows(layer: Any, rank: int) -> None:
    """The arguments of sliding windows, in the order in which functions check them."""
    check_bool(layer.ceil_mode, "ceil_mode")
    kernel = checks.sizes(layer.kernel_size, rank, "kernel_size")
    stride = checks.strides(layer.stride, rank, kernel)
    dilation = checks.sizes(layer.dilation, rank, "dilation")
    # 'same' depends on the input's size but is right for any
    checks.paddings(layer.padding, rank, kernel, kernel, stride, dilation, layer.ceil_mode)


class _Maximum(Layer):
    """Any maximum or minimum: saves the indices, which are all that its backward needs."""

    return_indices: bool

    def _check(self) -> None:
        check_bool(self.return_indices, "return_indices")

    def forward(self, x: ArrayLike) -> Result:
        """Pool `x`; in training mode, keep the indices of what won."""
        if not self.training:
            result: Result = self._pool(x, **self._arguments)
            return result
        y, indices = self._pool(x, **{**self._arguments, "return_indices": True})
        self._save(x, y, (indices, np.shape(x)))
        return (y, indices) if self.return_indices else y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to `x`: each upstream element at the element that won its window."""
        indices, shape = self._kept(grad_output)
        return self._used_up(self._pool_backward(grad_output, indices, shape, **self._axis))


class _Average(Layer):
    """Any average or sum: saves the input's shape."""

    _integers = False

    def forward(self, x: ArrayLike) -> Array:
        """Pool `x`; in training mode, keep its shape."""
        y: Array = self._pool(x, **self._arguments)
        if self.training:
            self._save(x, y, np.shape(x))
        return y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to `x`: each upstream element, spread over its window."""
        shape = self._kept(grad_output)
        return self._used_up(self._pool_backward(grad_output, shape, **self._backward_arguments()))

    def _backward_arguments(self) -> dict[str, Any]:
        return self._arguments


class _MaxPool(_Maximum):
    """`forward` takes `x` of shape (N, C, {spatial}) or (C, {spatial}), and returns `y`, or ``(y, indices)``.

    Parameters
    ----------
    kernel_size : int or one int per spatial axis
        How long a window is along each axis.
    stride : int or one int per spatial axis, optional
        How far one window is from the next. None stands for the kernel size: windows that touch.
    padding : int, one int or (before, after) pair per axis, 'valid', 'same' or 'same_lower'
        An int is at most half of the kernel size. 'same' gives as many windows as ``ceil(length / stride)``, and the
        odd element of padding to the end; 'same_lower' gives it to the beginning. Padded elements never win.
    dilation : int or one int per spatial axis
        How far one element of a window is from the next.
    ceil_mode : bool
        Keep a last window that hangs over the end.
    return_indices : bool
        Let `forward` return ``(y, indices)``: int32, flat within each plane of `x`, row-major.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Padding = 0, *, dilation: Size = 1,
                 ceil_mode: bool = False, return_indices: bool = False, channel_axis: int | None = None) -> None:
        super().__init__(kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation,
                         ceil_mode=ceil_mode, return_indices=return_indices, channel_axis=channel_axis)

    def _check(self) -> None:
        check_windows(self, self._rank)
        super()._check()


class MaxPool1d(_MaxPool, function="max_pool1d"):
    """Maximum over sliding windows: `max_pool1d` as a layer."""


class MaxPool2d(_MaxPool, function="max_pool2d"):
    """Maximum over sliding windows: `max_pool2d` as a layer."""


class MaxPool3d(_MaxPool, function="max_pool3d"):
    """Maximum over sliding windows: `max_pool3d` as a layer."""


class MinPool1d(_MaxPool, function="min_pool1d"):
    """Minimum over sliding windows: `min_pool1d` as a layer."""


class MinPool2d(_MaxPool, function="min_pool2d"):
    """Minimum over sliding windows: `min_pool2d` as a layer."""


class MinPool3d(_MaxPool, function="min_pool3d"):
    """Minimum over sliding windows: `min_pool3d` as a layer."""


class _AvgPool(_Average):
    """`forward` takes `x` of shape (N, C, {spatial}) or (C, {spatial}).

    Parameters
    ----------
    kernel_size : int or one int per spatial axis
        How long a window is along each axis.
    stride : int or one int per spatial axis, optional
        How far one window is from the next. None stands for the kernel size: windows that touch.
    padding : int, one int or (before, after) pair per axis, 'valid', 'same' or 'same_lower'
        An int is at most half of the kernel size. 'same' gives as many windows as ``ceil(length / stride)``, and the
        odd element of padding to the end; 'same_lower' gives it to the beginning. Padded elements are zeros.
    ceil_mode : bool
        Keep a last window that hangs over the end; what hangs over is never counted.
    count_include_pad : bool
        Whether padded elements count in the divisor.
    divisor_override : number other than 0, optional
        Divides every sum, whatever the window holds.
    dilation : int or one int per spatial axis
        How far one element of a window is from the next.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Padding = 0, *, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: float | None = None, dilation: Size = 1,
                 channel_axis: int | None = None) -> None:
        super().__init__(kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
                         count_include_pad=count_include_pad, divisor_override=divisor_override, dilation=dilation,
                         channel_axis=channel_axis)

    def _check(self) -> None:
        arguments: Any = self
        check_windows(self, self._rank)
        check_bool(arguments.count_include_pad, "count_include_pad")
        check_divisor(arguments.divisor_override)


class AvgPool1d(_AvgPool, function="avg_pool1d"):
    """Average over sliding windows: `avg_pool1d` as a layer."""


class AvgPool2d(_AvgPool, function="avg_pool2d"):
    """Average over sliding windows: `avg_pool2d` as a layer."""


class AvgPool3d(_AvgPool, function="avg_pool3d"):
    """Average over sliding windows: `avg_pool3d` as a layer."""


class _SumPool(_Average):
    """`forward` takes `x` of shape (N, C, {spatial}) or (C, {spatial}). Sums of integers keep their dtype, and wrap.

    Parameters
    ----------
    kernel_size : int or one int per spatial axis
        How long a window is along each axis.
    stride : int or one int per spatial axis, optional
        How far one window is from the next. None stands for the kernel size: windows that touch.
    padding : int, one int or (before, after) pair per axis, 'valid', 'same' or 'same_lower'
        An int is at most half of the kernel size. 'same' gives as many windows as ``ceil(length / stride)``, and the
        odd element of padding to the end; 'same_lower' gives it to the beginning. Padded elements are zeros.
    ceil_mode : bool
        Keep a last window that hangs over the end.
    dilation : int or one int per spatial axis
        How far one element of a window is from the next.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Padding = 0, *, ceil_mode: bool = False,
                 dilation: Size = 1, channel_axis: int | None = None) -> None:
        super().__init__(kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
                         dilation=dilation, channel_axis=channel_axis)

    def _check(self) -> None:
        check_windows(self, self._rank)


class SumPool1d(_SumPool, function="sum_pool1d"):
    """Sum over sliding windows: `sum_pool1d` as a layer."""


class SumPool2d(_SumPool, function="sum_pool2d"):
    """Sum over sliding windows: `sum_pool2d` as a layer."""


class SumPool3d(_SumPool, function="sum_pool3d"):
    """Sum over sliding windows: `sum_pool3d` as a layer."""


class _LPPool(Layer):
    """`forward` takes `x` of shape (N, C, {spatial}) or (C, {spatial}).

    Parameters
    ----------
    norm_type : float
        p > 0; inf is the largest magnitude, -inf the smallest.
    kernel_size : int or one int per spatial axis
        How long a window is along each axis.
    stride : int or one int per spatial axis, optional
        How far one window is from the next. None stands for the kernel size: windows that touch.
    padding : int, one int or (before, after) pair per axis, 'valid', 'same' or 'same_lower'
        An int is at most half of the kernel size. 'same' gives as many windows as ``ceil(length / stride)``, and the
        odd element of padding to the end; 'same_lower' gives it to the beginning. Padded elements are left out.
    ceil_mode : bool
        Keep a last window that hangs over the end.
    dilation : int or one int per spatial axis
        How far one element of a window is from the next.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    norm_type: float

    _integers = False

    def __init__(self, norm_type: float, kernel_size: Size, stride: Size | None = None, padding: Padding = 0, *,
                 ceil_mode: bool = False, dilation: Size = 1, channel_axis: int | None = None) -> None:
        super().__init__(norm_type=norm_type, kernel_size=kernel_size, stride=stride, padding=padding,
                         ceil_mode=ceil_mode, dilation=dilation, channel_axis=channel_axis)

    def _check(self) -> None:
        check_windows(self, self._rank)
        check_norm(self.norm_type)

    def forward(self, x: ArrayLike) -> Array:
        """Pool `x`; in training mode, keep it and the result (not copies: do not change them before `backward`)."""
        y: Array = self._pool(x, **self._arguments)
        if self.training:
            self._save(x, y, (x, y))
        return y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to `x`."""
        return self._used_up(self._pool_backward(grad_output, *self._kept(grad_output), **self._arguments))


class LPPool1d(_LPPool, function="lp_pool1d"):
    """Lp norm of sliding windows, ``(sum |x|^p)^(1/p)``: `lp_pool1d` as a layer."""


class LPPool2d(_LPPool, function="lp_pool2d"):
    """Lp norm of sliding windows, ``(sum |x|^p)^(1/p)``: `lp_pool2d` as a layer."""


class LPPool3d(_LPPool, function="lp_pool3d"):
    """Lp norm of sliding windows, ``(sum |x|^p)^(1/p)``: `lp_pool3d` as a layer."""


class _AdaptiveMaxPool(_Maximum):
    """`forward` takes `x` of shape (N, C, {spatial}) or (C, {spatial}), and returns `y`, or ``(y, indices)``.

    Parameters
    ----------
    output_size : int or None, or one of them per spatial axis
        How many windows along each axis; they cover it, and may overlap. None keeps an axis.
    return_indices : bool
        Let `forward` return ``(y, indices)``: int32, flat within each plane of `x`, row-major.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    output_size: OutputSize

    def __init__(self, output_size: OutputSize, *, return_indices: bool = False,
                 channel_axis: int | None = None) -> None:
        super().__init__(output_size=output_size, return_indices=return_indices, channel_axis=channel_axis)

    def _check(self) -> None:
        checks.adaptive((1,) * self._rank, self.output_size)
        super()._check()


class AdaptiveMaxPool1d(_AdaptiveMaxPool, function="adaptive_max_pool1d"):
    """Maximum over windows chosen for an output size: `adaptive_max_pool1d` as a layer."""


class AdaptiveMaxPool2d(_AdaptiveMaxPool, function="adaptive_max_pool2d"):
    """Maximum over windows chosen for an output size: `adaptive_max_pool2d` as a layer."""


class AdaptiveMaxPool3d(_AdaptiveMaxPool, function="adaptive_max_pool3d"):
    """Maximum over windows chosen for an output size: `adaptive_max_pool3d` as a layer."""


class _AdaptiveAvgPool(_Average):
    """`forward` takes `x` of shape (N, C, {spatial}) or (C, {spatial}).

    Parameters
    ----------
    output_size : int or None, or one of them per spatial axis
        How many windows along each axis; they cover it, and may overlap. None keeps an axis.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    output_size: OutputSize

    def __init__(self, output_size: OutputSize, *, channel_axis: int | None = None) -> None:
        super().__init__(output_size=output_size, channel_axis=channel_axis)

    def _check(self) -> None:
        checks.adaptive((1,) * self._rank, self.output_size)

    def _backward_arguments(self) -> dict[str, Any]:
        return {**self._axis}


class AdaptiveAvgPool1d(_AdaptiveAvgPool, function="adaptive_avg_pool1d"):
    """Average over windows chosen for an output size: `adaptive_avg_pool1d` as a layer."""


class AdaptiveAvgPool2d(_AdaptiveAvgPool, function="adaptive_avg_pool2d"):
    """Average over windows chosen for an output size: `adaptive_avg_pool2d` as a layer."""


class AdaptiveAvgPool3d(_AdaptiveAvgPool, function="adaptive_avg_pool3d"):
    """Average over windows chosen for an output size: `adaptive_avg_pool3d` as a layer."""


class _FractionalMaxPool(_Maximum):
    """`forward` takes `x` of shape (N, C, {spatial}) or (C, {spatial}), and returns `y`, or ``(y, indices)``.

    Parameters
    ----------
    kernel_size : int or one int per spatial axis
        How long a window is along each axis.
    output_size : int or one int per spatial axis
        How many windows along each axis.
    output_ratio : float or one per spatial axis, between 0 and 1
        Output size as a fraction of the input's, rounded down; give this or `output_size`.
    return_indices : bool
        Let `forward` return ``(y, indices)``: int32, flat within each plane of `x`, row-major.
    random_samples : array of floats in [0, 1), shape (N, C, rank) or (C, rank), optional
        What drives the starts of windows. Drawn from `rng` if not given; not both.
    rng : numpy Generator or seed, optional
        A seed gives the same windows at every forward.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    def __init__(self, kernel_size: Size, output_size: Size | None = None, *,
                 output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                 random_samples: ArrayLike | None = None, rng: Any = None, channel_axis: int | None = None) -> None:
        super().__init__(kernel_size=kernel_size, output_size=output_size, output_ratio=output_ratio,
                         return_indices=return_indices, random_samples=random_samples, rng=rng,
                         channel_axis=channel_axis)

    def _check(self) -> None:
        arguments: Any = self
        checks.sizes(arguments.kernel_size, self._rank, "kernel_size", short=False)
        resolve_output((LIMIT,) * self._rank, arguments.output_size, arguments.output_ratio)
        # With as many planes as there are samples; with none, which take nothing out of a generator, if there are not.
        lead = np.shape(arguments.random_samples)[:-1] if arguments.random_samples is not None else (0, 0)
        empty = Planes(np.empty(0, FLOAT32), (*lead, *(1,) * self._rank), self._rank, False)
        draw(empty, arguments.random_samples, arguments.rng)
        super()._check()


class FractionalMaxPool2d(_FractionalMaxPool, function="fractional_max_pool2d"):
    """Maximum over windows at pseudo-random starts: `fractional_max_pool2d` as a layer."""


class FractionalMaxPool3d(_FractionalMaxPool, function="fractional_max_pool3d"):
    """Maximum over windows at pseudo-random starts: `fractional_max_pool3d` as a layer."""


class _MaxUnpool(Layer):
    """`forward` takes `x` of shape (N, C, {spatial}) or (C, {spatial}), and its indices.

    Parameters
    ----------
    kernel_size : int or one int per spatial axis
        As in the pooling that is undone.
    stride : int or one int per spatial axis, optional
        As in the pooling that is undone. None stands for the kernel size.
    padding : int or one int per spatial axis
        As in the pooling that is undone.
    output_size : int or one int per spatial axis, with or without the batch and channel axes, optional
        The spatial shape of what was pooled, or elements may come back to other places.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0, *,
                 output_size: Size | None = None, channel_axis: int | None = None) -> None:
        super().__init__(kernel_size=kernel_size, stride=stride, padding=padding, output_size=output_size,
                         channel_axis=channel_axis)

    def _check(self) -> None:
        arguments: Any = self
        rank, size = self._rank, arguments.output_size
        checks.strides(arguments.stride, rank, checks.sizes(arguments.kernel_size, rank, "kernel_size"))
        checks.sizes(arguments.padding, rank, "padding", least=0)
        if size is None:
            return
        entries = size if isinstance(size, (tuple, list)) else (size,) * rank
        if len(entries) not in (rank, rank + 1, rank + 2):
            raise ValueError(f"output_size must have {rank} entries (or batch and channels too), got {size!r}")
        checks.sizes(tuple(entries[-rank:]), rank, "output_size")
        checks.sizes(tuple(entries[:-rank]), len(entries) - rank, "output_size", least=0)

    def forward(self, x: ArrayLike, indices: ArrayLike,  # type: ignore[override]
                output_size: Size | None = None) -> Array:
        """Put every element of `x` at its index; an `output_size` given here goes before the constructor's."""
        arguments = self._arguments
        if output_size is not None:
            arguments["output_size"] = output_size
        y: Array = self._pool(x, indices, **arguments)
        if self.training:
            self._save(x, y, indices)
        return y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to `x`: the upstream elements at its indices."""
        return self._used_up(self._pool_backward(grad_output, self._kept(grad_output), **self._axis))


class MaxUnpool1d(_MaxUnpool, function="max_unpool1d"):
    """Zeros, with every element at its index: `max_unpool1d` as a layer."""


class MaxUnpool2d(_MaxUnpool, function="max_unpool2d"):
    """Zeros, with every element at its index: `max_unpool2d` as a layer."""


class MaxUnpool3d(_MaxUnpool, function="max_unpool3d"):
    """Zeros, with every element at its index: `max_unpool3d` as a layer."""


class _GlobalAvgPool(_Average):
    """`forward` takes a batch `x` of shape (N, C, *spatial) with 1 to 3 spatial axes, which stay, with size 1.

    As no rank is in the name, three axes are a batch of 1D signals (N, C, L), never one image: pass that as ``x[None]``
    or to `AdaptiveAvgPool2d(1)`.

    Parameters
    ----------
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    def __init__(self, *, channel_axis: int | None = None) -> None:
        super().__init__(channel_axis=channel_axis)

    def _backward_arguments(self) -> dict[str, Any]:
        return {**self._axis}


class _GlobalSumPool(_GlobalAvgPool):
    """`forward` takes a batch `x` of shape (N, C, *spatial) with 1 to 3 spatial axes, which stay, with size 1.

    As no rank is in the name, three axes are a batch of 1D signals (N, C, L), never one image: pass that as
    ``x[None]``.

    Parameters
    ----------
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """


class _GlobalMaxPool(_Maximum):
    """`forward` takes a batch `x` of shape (N, C, *spatial) with 1 to 3 spatial axes, which stay, with size 1.

    As no rank is in the name, three axes are a batch of 1D signals (N, C, L), never one image: pass that as
    ``x[None]``.

    Parameters
    ----------
    return_indices : bool
        Let `forward` return ``(y, indices)``: int32, flat within each plane of `x`, row-major.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    def __init__(self, *, return_indices: bool = False, channel_axis: int | None = None) -> None:
        super().__init__(return_indices=return_indices, channel_axis=channel_axis)


class GlobalAvgPool(_GlobalAvgPool, function="global_avg_pool"):
    """Average of every plane: `global_avg_pool` as a layer."""


class GlobalSumPool(_GlobalSumPool, function="global_sum_pool"):
    """Sum of every plane: `global_sum_pool` as a layer."""


class GlobalMaxPool(_GlobalMaxPool, function="global_max_pool"):
    """Maximum of every plane: `global_max_pool` as a layer."""


class GlobalMinPool(_GlobalMaxPool, function="global_min_pool"):
    """Minimum of every plane: `global_min_pool` as a layer."""
