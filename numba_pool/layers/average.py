"""Averages and sums over sliding windows."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from .._dispatch.calls import check_bool
from ..functional.average import check_divisor
from ._layer import Average, Padding, Size, check_windows


class _AvgPool(Average):
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


class _SumPool(Average):
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
