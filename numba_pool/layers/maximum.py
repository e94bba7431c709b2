"""Maxima and minima over sliding windows."""

from __future__ import annotations  # help() shows them by name

from ._layer import Maximum, Padding, Size, check_windows


class _MaxPool(Maximum):
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
