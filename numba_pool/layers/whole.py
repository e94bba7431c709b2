"""Windows that are whole planes."""

from __future__ import annotations  # help() shows them by name

from ._layer import Average, Maximum, given


class _GlobalAvgPool(Average):
    _sliding = False

    def __init__(self, *, nan_policy: str = "propagate", min_count: int | None = None,
                 channel_axis: int | None = None) -> None:
        super().__init__(**given(locals()))


class _GlobalMaxPool(Maximum):
    def __init__(self, *, return_indices: bool = False, nan_policy: str = "propagate",
                 channel_axis: int | None = None) -> None:
        super().__init__(**given(locals()))


class GlobalAvgPool(_GlobalAvgPool, function="global_avg_pool"): ...
class GlobalSumPool(_GlobalAvgPool, function="global_sum_pool"): ...
class GlobalMaxPool(_GlobalMaxPool, function="global_max_pool"): ...
class GlobalMinPool(_GlobalMaxPool, function="global_min_pool"): ...
