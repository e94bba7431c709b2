"""Lp norms, and generalized means."""

from __future__ import annotations  # help() shows them by name

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import Array, ndarray
from .._dispatch.calls import check_bool
from ..functional.lp import check_eps, check_norm
from ._layer import Layer, Padding, Size, check_windows, given


class _LPPool(Layer):
    norm_type: float
    mean: bool
    eps: float

    _integers = False
    _sliding: ClassVar[bool] = True

    def __init__(self, norm_type: float, kernel_size: Size, stride: Size | None = None, padding: Padding = 0, *,
                 ceil_mode: bool = False, dilation: Size = 1, mean: bool = False, eps: float = 0.0,
                 channel_axis: int | None = None) -> None:
        super().__init__(**given(locals()))

    def _check(self) -> None:
        if self._sliding:
            check_windows(self, self._rank)
        check_norm(self.norm_type)
        check_bool(self.mean, "mean")
        check_eps(self.eps, np.dtype(np.float64))

    def forward(self, x: ArrayLike) -> Array:
        """Pool `x`; in training mode, keep it and the result (not copies: do not change them before `backward`)."""
        x = ndarray(x, "x")
        y: Array = self._pool(x, **self._arguments)
        if self.training:
            self._save(x, y, (x, y))
        return y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to `x`."""
        grad_output = ndarray(grad_output, "grad_output")
        return self._used_up(self._pool_backward(grad_output, *self._kept(grad_output), **self._arguments))


class _GlobalLPPool(_LPPool):
    _sliding = False

    def __init__(self, norm_type: float, *, mean: bool = True, eps: float = 1e-6,
                 channel_axis: int | None = None) -> None:
        Layer.__init__(self, **given(locals()))


class LPPool1d(_LPPool, function="lp_pool1d"): ...
class LPPool2d(_LPPool, function="lp_pool2d"): ...
class LPPool3d(_LPPool, function="lp_pool3d"): ...
class GlobalLPPool(_GlobalLPPool, function="global_lp_pool"): ...
