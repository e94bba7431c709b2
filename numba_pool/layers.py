"""Layers: a function of `numba_pool.functional` with its arguments, and what its backward needs of the last forward.

A layer holds no parameters and does no arithmetic. What an argument means stands with the function of the same name.
"""

from __future__ import annotations  # help() shows them by name

import inspect
from collections.abc import Callable
from functools import update_wrapper
from types import FunctionType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from . import functional as F
from ._arguments import check_output
from ._arrays import Array, array

Function = Callable[..., Any]


class Layer:
    """What all layers share: arguments as attributes, train and eval, repr."""

    _pool: ClassVar[Function]
    _pool_backward: ClassVar[Function]
    _integers: ClassVar[bool] = True  # whether gradients may be

    # Every layer has methods of its own name, for Python's messages about arguments: what they do stands in a class
    # that no user has heard of. No docstring: help() would show it.
    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in ("__init__", "forward", "backward"):
            shared: Any = getattr(cls, name)
            own: Any = FunctionType(shared.__code__, shared.__globals__, name, shared.__defaults__, shared.__closure__)
            own.__kwdefaults__ = shared.__kwdefaults__
            update_wrapper(own, shared).__qualname__ = f"{cls.__qualname__}.{name}"
            setattr(cls, name, own)

    def __init__(self, **arguments: Any) -> None:
        vars(self).update(arguments)
        self.training = True
        self._names = tuple(arguments)
        self._saved: Any = None

    @property
    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names}

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
        """The gradient with respect to the last `x` of `forward`."""
        raise NotImplementedError

    def _state(self, grad_output: ArrayLike) -> Any:
        if self._saved is None:
            raise RuntimeError(
                f"{type(self).__name__}.backward needs a forward in training mode before it: "
                "call train(), then forward(x), then backward(grad_output)"
            )
        shape, saved = self._saved
        if getattr(grad_output, "shape", None) != shape:  # or it is a list, or nothing that can be a gradient
            check_output(array(grad_output, "grad_output", self._integers).shape, shape)
        return saved

    def _save(self, y: Array, what: Any) -> None:
        """Keep what backward needs, and the shape that its gradient must have."""
        self._saved = np.shape(y), what

    def train(self, mode: bool = True) -> Self:
        """Keep what backward needs at every forward."""
        self.training = bool(mode)
        if not self.training:
            self._saved = None
        return self

    def eval(self) -> Self:
        """Forget what was kept for `backward`, and keep no more; maxima then compute indices only to return them."""
        return self.train(False)

    def parameters(self) -> list[Array]:
        """Pooling has none."""
        return []


class _Maximum(Layer):
    """Any maximum: saves the indices, which are all that its backward needs."""

    return_indices: bool

    def forward(self, x: ArrayLike) -> Any:
        """Pool `x`; in training mode, keep the argmax."""
        if not self.training:
            return type(self)._pool(x, **self._arguments)
        y, indices = type(self)._pool(x, **{**self._arguments, "return_indices": True})
        self._save(y, (indices, np.shape(x)))
        return (y, indices) if self.return_indices else y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to the last `x`: each upstream element at the element that won its window."""
        indices, shape = self._state(grad_output)
        gradient: Array = type(self)._pool_backward(grad_output, indices, shape)
        return gradient


class _Average(Layer):
    """Any average: saves the input's shape."""

    _integers = False

    def forward(self, x: ArrayLike) -> Any:
        """Pool `x`; in training mode, keep its shape."""
        y = type(self)._pool(x, **self._arguments)
        if self.training:
            self._save(y, np.shape(x))
        return y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to the last `x`: each upstream element, shared by its window."""
        gradient: Array = type(self)._pool_backward(grad_output, self._state(grad_output),
                                                   **self._backward_arguments())
        return gradient

    def _backward_arguments(self) -> dict[str, Any]:
        return self._arguments


class _MaxPool(_Maximum):
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, *, dilation: Any = 1,
                 ceil_mode: bool = False, return_indices: bool = False) -> None:
        super().__init__(kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation,
                         ceil_mode=ceil_mode, return_indices=return_indices)


class MaxPool1d(_MaxPool):
    """`max_pool1d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.max_pool1d, F.max_pool1d_backward


class MaxPool2d(_MaxPool):
    """`max_pool2d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.max_pool2d, F.max_pool2d_backward


class MaxPool3d(_MaxPool):
    """`max_pool3d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.max_pool3d, F.max_pool3d_backward


class _AvgPool(_Average):
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, *, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: Any = None, dilation: Any = 1) -> None:
        super().__init__(kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
                         count_include_pad=count_include_pad, divisor_override=divisor_override, dilation=dilation)


class AvgPool1d(_AvgPool):
    """`avg_pool1d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.avg_pool1d, F.avg_pool1d_backward


class AvgPool2d(_AvgPool):
    """`avg_pool2d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.avg_pool2d, F.avg_pool2d_backward


class AvgPool3d(_AvgPool):
    """`avg_pool3d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.avg_pool3d, F.avg_pool3d_backward


class _LPPool(Layer):
    _integers = False

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0, *,
                 ceil_mode: bool = False, dilation: Any = 1) -> None:
        super().__init__(norm_type=norm_type, kernel_size=kernel_size, stride=stride, padding=padding,
                         ceil_mode=ceil_mode, dilation=dilation)

    def forward(self, x: ArrayLike) -> Any:
        """Pool `x`; in training mode, keep it and the result (not copies: do not change them before `backward`)."""
        y = type(self)._pool(x, **self._arguments)
        if self.training:
            self._save(y, (x, y))
        return y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to the last `x`."""
        gradient: Array = type(self)._pool_backward(grad_output, *self._state(grad_output), **self._arguments)
        return gradient


class LPPool1d(_LPPool):
    """`lp_pool1d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.lp_pool1d, F.lp_pool1d_backward


class LPPool2d(_LPPool):
    """`lp_pool2d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.lp_pool2d, F.lp_pool2d_backward


class LPPool3d(_LPPool):
    """`lp_pool3d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.lp_pool3d, F.lp_pool3d_backward


class _AdaptiveMaxPool(_Maximum):
    def __init__(self, output_size: Any, *, return_indices: bool = False) -> None:
        super().__init__(output_size=output_size, return_indices=return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """`adaptive_max_pool1d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.adaptive_max_pool1d, F.adaptive_max_pool1d_backward


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """`adaptive_max_pool2d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.adaptive_max_pool2d, F.adaptive_max_pool2d_backward


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """`adaptive_max_pool3d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.adaptive_max_pool3d, F.adaptive_max_pool3d_backward


class _AdaptiveAvgPool(_Average):
    def __init__(self, output_size: Any) -> None:
        super().__init__(output_size=output_size)

    def _backward_arguments(self) -> dict[str, Any]:
        return {}


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """`adaptive_avg_pool1d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.adaptive_avg_pool1d, F.adaptive_avg_pool1d_backward


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """`adaptive_avg_pool2d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.adaptive_avg_pool2d, F.adaptive_avg_pool2d_backward


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """`adaptive_avg_pool3d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.adaptive_avg_pool3d, F.adaptive_avg_pool3d_backward


class _FractionalMaxPool(_Maximum):
    def __init__(self, kernel_size: Any, output_size: Any = None, *, output_ratio: Any = None,
                 return_indices: bool = False, random_samples: Any = None, rng: Any = None) -> None:
        super().__init__(kernel_size=kernel_size, output_size=output_size, output_ratio=output_ratio,
                         return_indices=return_indices, random_samples=random_samples, rng=rng)


class FractionalMaxPool2d(_FractionalMaxPool):
    """`fractional_max_pool2d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.fractional_max_pool2d, F.fractional_max_pool2d_backward


class FractionalMaxPool3d(_FractionalMaxPool):
    """`fractional_max_pool3d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.fractional_max_pool3d, F.fractional_max_pool3d_backward


class _MaxUnpool(Layer):
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, *, output_size: Any = None) -> None:
        super().__init__(kernel_size=kernel_size, stride=stride, padding=padding, output_size=output_size)

    def forward(self, x: ArrayLike, indices: ArrayLike, output_size: Any = None) -> Any:  # type: ignore[override]
        """Put every element of `x` at its index; an `output_size` given here goes before the constructor's."""
        arguments = self._arguments
        if output_size is not None:
            arguments["output_size"] = output_size
        y = type(self)._pool(x, indices, **arguments)
        if self.training:
            self._save(y, indices)
        return y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to the last `x`: the upstream elements at its indices."""
        gradient: Array = type(self)._pool_backward(grad_output, self._state(grad_output))
        return gradient


class MaxUnpool1d(_MaxUnpool):
    """`max_unpool1d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.max_unpool1d, F.max_unpool1d_backward


class MaxUnpool2d(_MaxUnpool):
    """`max_unpool2d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.max_unpool2d, F.max_unpool2d_backward


class MaxUnpool3d(_MaxUnpool):
    """`max_unpool3d` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.max_unpool3d, F.max_unpool3d_backward


class GlobalAvgPool(_Average):
    """`global_avg_pool` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.global_avg_pool, F.global_avg_pool_backward

    def __init__(self) -> None:
        super().__init__()


class GlobalMaxPool(_Maximum):
    """`global_max_pool` as a layer; what the arguments mean is told there."""

    _pool, _pool_backward = F.global_max_pool, F.global_max_pool_backward

    def __init__(self, *, return_indices: bool = False) -> None:
        super().__init__(return_indices=return_indices)
