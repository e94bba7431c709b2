"""Averages and sums over sliding windows."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from .._dispatch.calls import check_bool
from ..functional.average import check_divisor
from ._layer import Average, Padding, Size, check_windows, given


class _AvgPool(Average):
    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Padding = 0, *, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: float | None = None, dilation: Size = 1,
                 nan_policy: str = "propagate", min_count: int | None = None, channel_axis: int | None = None) -> None:
        super().__init__(**given(locals()))

    def _check(self) -> None:
        arguments: Any = self
        check_windows(self, self._rank)
        check_bool(arguments.count_include_pad, "count_include_pad")
        check_divisor(arguments.divisor_override)
        super()._check()


class AvgPool1d(_AvgPool, function="avg_pool1d"): ...
class AvgPool2d(_AvgPool, function="avg_pool2d"): ...
class AvgPool3d(_AvgPool, function="avg_pool3d"): ...


class _SumPool(Average):
    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Padding = 0, *, ceil_mode: bool = False,
                 dilation: Size = 1, nan_policy: str = "propagate", min_count: int | None = None,
                 channel_axis: int | None = None) -> None:
        super().__init__(**given(locals()))

    def _check(self) -> None:
        check_windows(self, self._rank)
        super()._check()


class SumPool1d(_SumPool, function="sum_pool1d"): ...
class SumPool2d(_SumPool, function="sum_pool2d"): ...
class SumPool3d(_SumPool, function="sum_pool3d"): ...
