"""Windows chosen for an output size."""

from __future__ import annotations  # help() shows them by name

from .. import _arguments as checks
from ._layer import Average, Maximum, OutputSize, given


class _AdaptiveMaxPool(Maximum):
    output_size: OutputSize

    def __init__(self, output_size: OutputSize, *, return_indices: bool = False, nan_policy: str = "propagate",
                 channel_axis: int | None = None) -> None:
        super().__init__(**given(locals()))

    def _check(self) -> None:
        checks.adaptive((1,) * self._rank, self.output_size)
        super()._check()


class AdaptiveMaxPool1d(_AdaptiveMaxPool, function="adaptive_max_pool1d"): ...
class AdaptiveMaxPool2d(_AdaptiveMaxPool, function="adaptive_max_pool2d"): ...
class AdaptiveMaxPool3d(_AdaptiveMaxPool, function="adaptive_max_pool3d"): ...


class _AdaptiveAvgPool(Average):
    output_size: OutputSize

    _sliding = False

    def __init__(self, output_size: OutputSize, *, nan_policy: str = "propagate", min_count: int | None = None,
                 channel_axis: int | None = None) -> None:
        super().__init__(**given(locals()))

    def _check(self) -> None:
        checks.adaptive((1,) * self._rank, self.output_size)
        super()._check()


class AdaptiveAvgPool1d(_AdaptiveAvgPool, function="adaptive_avg_pool1d"): ...
class AdaptiveAvgPool2d(_AdaptiveAvgPool, function="adaptive_avg_pool2d"): ...
class AdaptiveAvgPool3d(_AdaptiveAvgPool, function="adaptive_avg_pool3d"): ...
