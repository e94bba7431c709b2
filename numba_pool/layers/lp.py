"""Lp norms of sliding windows."""

from __future__ import annotations  # help() shows them by name

from numpy.typing import ArrayLike

from .._arrays import Array, ndarray
from ..functional.lp import check_norm
from ._layer import Layer, Padding, Size, check_windows


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
        x = ndarray(x, "x")
        y: Array = self._pool(x, **self._arguments)
        if self.training:
            self._save(x, y, (x, y))
        return y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to `x`."""
        grad_output = ndarray(grad_output, "grad_output")
        return self._used_up(self._pool_backward(grad_output, *self._kept(grad_output), **self._arguments))


class LPPool1d(_LPPool, function="lp_pool1d"):
    """Lp norm of sliding windows, ``(sum |x|^p)^(1/p)``: `lp_pool1d` as a layer."""


class LPPool2d(_LPPool, function="lp_pool2d"):
    """Lp norm of sliding windows, ``(sum |x|^p)^(1/p)``: `lp_pool2d` as a layer."""


class LPPool3d(_LPPool, function="lp_pool3d"):
    """Lp norm of sliding windows, ``(sum |x|^p)^(1/p)``: `lp_pool3d` as a layer."""
