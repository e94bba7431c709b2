"""Layers: a function of `numba_pool.functional` with its arguments, and what its backward needs of the last forward.

A layer holds no parameters and does no arithmetic. Type checkers read `__init__.pyi`, which tells the ranks apart.
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

from .. import _arguments as checks
from .. import functional as F
from .._arguments import check_output
from .._arrays import Array, allocate, array, is_last, ndarray
from .._dispatch.axes import channel_axis
from .._dispatch.calls import check_bool
from .._dispatch.refused import NotCompiled
from .._docstrings import SHAPES, entries, joined, names_of, sections
from ..functional._missing import is_omitted

Size: TypeAlias = int | Sequence[int]
OutputSize: TypeAlias = int | Sequence[int | None] | None
Padding: TypeAlias = int | Sequence[int | tuple[int, int]] | str
Result: TypeAlias = Array | tuple[Array, NDArray[np.int32]]

MOST_AXES = 5  # batch, channels and three spatial ones

NOTES = """\
In training mode `forward` keeps what one `backward` needs, and `backward` uses it up. So a network needs a layer for
each place: a layer that was called twice since its last `backward` raises RuntimeError there. Call `eval()` before
passes that no `backward` follows. `train()` forgets those that none followed."""


def given(scope: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an `__init__`, out of its local variables."""
    return {name: value for name, value in scope.items() if name not in ("self", "__class__")}


def docstring(function: Callable[..., Any], names: Sequence[str]) -> str | None:
    """That of a layer with such arguments: what the docstring of its function says of it and of them."""
    if not function.__doc__:  # which `python -OO` leaves out
        return None
    found = sections(function.__doc__)
    told = entries(found["Parameters"])
    taken = " and ".join(f"`{name}`" for name in ("x", "indices") if name in told)
    shape = f"of shape {SHAPES[getattr(function, 'rank', 0)]}"
    if "offsets" in told:  # rows have no planes
        taken, shape = "`x` and `offsets`", "as that does"
    about = f"{found['']}\n\n`{function.__name__}` as a layer: `forward` takes {taken} {shape}."
    return joined({"": about, "Parameters": "\n".join(told[name] for name in names), "Notes": NOTES})


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
    _numba_type_: ClassVar[NotCompiled]

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
            cls._numba_type_ = NotCompiled(cls.__name__)
            cls.__doc__ = docstring(getattr(F, function), names_of(cls.__init__)[1:])

    # Before __init__, where Python would say how many arguments it takes by position, and not that others have names.
    def __new__(cls, *args: Any, **arguments: Any) -> Self:
        if args:
            spec = inspect.getfullargspec(cls.__init__)
            if len(args) >= len(spec.args) and spec.varargs is None and spec.kwonlyargs:
                raise TypeError(f"{cls.__name__}.__init__() takes {', '.join(spec.args[1:]) or 'nothing'} by position, "
                                f"got {len(args)}: name the rest, {', '.join(f'{n}=' for n in spec.kwonlyargs)}")
        return super().__new__(cls)

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
            arguments.pop("channel_axis", None)
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

    def _save(self, x: Array, y: Array, what: Any) -> None:
        """Keep what backward needs, the shape that its gradient must have, and whether the memory of its result has
        channels last though no gradient of one pixel can tell.
        """
        shape = y.shape
        rank = self._rank or len(shape) - 2
        one = shape[-1] == 1 and prod(shape[-rank:]) == 1
        last = one and self.channel_axis is None and is_last(x, rank)
        self._saved = shape, rank if last else 0, what
        self._forwards, self._used = self._forwards + 1, False

    def _forget(self) -> None:
        self._saved = None
        self._forwards = 0
        self._used = False

    def _kept(self, grad_output: Array) -> Any:
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
        if getattr(grad_output, "shape", None) != shape:  # or it is nothing that can be a gradient
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
    axis = channel_axis(axis)
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


class Maximum(Layer):
    """Any maximum or minimum: saves the indices, which are all that its backward needs."""

    return_indices: bool
    nan_policy = "propagate"  # of layers that have none

    def _check(self) -> None:
        check_bool(self.return_indices, "return_indices")
        is_omitted(self.nan_policy)

    def forward(self, x: ArrayLike, *, where: ArrayLike | None = None) -> Result:
        """Pool `x`, without the elements where a mask is False; in training mode, keep the indices of what won."""
        arguments = {**self._arguments, "where": where} if where is not None else self._arguments
        if not self.training:
            result: Result = self._pool(x, **arguments)
            return result
        x = ndarray(x, "x")
        y, indices = self._pool(x, **{**arguments, "return_indices": True})
        self._save(x, y, (indices, x.shape))
        return (y, indices) if self.return_indices else y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to `x`: each upstream element at the element that won its window."""
        grad_output = ndarray(grad_output, "grad_output")
        indices, shape = self._kept(grad_output)
        return self._used_up(self._pool_backward(grad_output, indices, shape, **self._axis))


class Average(Layer):
    """Any average or sum: saves the input's shape, and what tells its missing elements."""

    nan_policy: str
    min_count: int | None

    _integers = False
    _sliding: ClassVar[bool] = True  # whether windows follow from arguments, which the backward takes as well

    def _check(self) -> None:
        is_omitted(self.nan_policy)
        if self.min_count is not None:
            checks.bounded(checks.integer(self.min_count, "min_count", "an int or None"), "min_count", 0)

    def forward(self, x: ArrayLike, *, where: ArrayLike | None = None) -> Array:
        """Pool `x`, without the elements where a mask is False. In training mode, keep its shape; and if elements may
        be missing, `x` and the mask (not copies: do not change them before `backward`).
        """
        x = ndarray(x, "x")
        more = {} if where is None else {"where": where}
        y: Array = self._pool(x, **self._arguments, **more)
        if self.training:
            self._save(x, y, (x.shape, {**more, "x": x} if is_omitted(self.nan_policy) else more))
        return y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to `x`: each upstream element, spread over its window."""
        grad_output = ndarray(grad_output, "grad_output")
        shape, more = self._kept(grad_output)
        arguments = {name: value for name, value in self._arguments.items() if self._sliding or name != "output_size"}
        return self._used_up(self._pool_backward(grad_output, shape, **arguments, **more))
