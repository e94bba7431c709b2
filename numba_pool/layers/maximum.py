"""Maxima and minima over sliding windows."""

from __future__ import annotations  # help() shows them by name

from ._layer import Maximum, Padding, Size, check_windows, given


class _MaxPool(Maximum):
    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Padding = 0, *, dilation: Size = 1,
                 ceil_mode: bool = False, return_indices: bool = False, nan_policy: str = "propagate",
                 channel_axis: int | None = None) -> None:
        super().__init__(**given(locals()))

    def _check(self) -> None:
        check_windows(self, self._rank)
        super()._check()


class MaxPool1d(_MaxPool, function="max_pool1d"): ...
class MaxPool2d(_MaxPool, function="max_pool2d"): ...
class MaxPool3d(_MaxPool, function="max_pool3d"): ...
class MinPool1d(_MaxPool, function="min_pool1d"): ...
class MinPool2d(_MaxPool, function="min_pool2d"): ...
class MinPool3d(_MaxPool, function="min_pool3d"): ...
