"""Windows that are whole planes."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from ._layer import Average, Maximum


class _GlobalAvgPool(Average):
    """`forward` takes a batch `x` of shape (N, C, *spatial) with 1 to 3 spatial axes, which stay, with size 1.

    As no rank is in the name, three axes are a batch of 1D signals (N, C, L), never one image: pass that as ``x[None]``
    or to `AdaptiveAvgPool2d(1)`.

    Parameters
    ----------
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    def __init__(self, *, channel_axis: int | None = None) -> None:
        super().__init__(channel_axis=channel_axis)

    def _backward_arguments(self) -> dict[str, Any]:
        return {**self._axis}


class _GlobalSumPool(_GlobalAvgPool):
    """`forward` takes a batch `x` of shape (N, C, *spatial) with 1 to 3 spatial axes, which stay, with size 1.

    As no rank is in the name, three axes are a batch of 1D signals (N, C, L), never one image: pass that as
    ``x[None]``.

    Parameters
    ----------
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """


class _GlobalMaxPool(Maximum):
    """`forward` takes a batch `x` of shape (N, C, *spatial) with 1 to 3 spatial axes, which stay, with size 1.

    As no rank is in the name, three axes are a batch of 1D signals (N, C, L), never one image: pass that as
    ``x[None]``.

    Parameters
    ----------
    return_indices : bool
        Let `forward` return ``(y, indices)``: int32, flat within each plane of `x`, row-major.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    def __init__(self, *, return_indices: bool = False, channel_axis: int | None = None) -> None:
        super().__init__(return_indices=return_indices, channel_axis=channel_axis)


class GlobalAvgPool(_GlobalAvgPool, function="global_avg_pool"):
    """Average of every plane: `global_avg_pool` as a layer."""


class GlobalSumPool(_GlobalSumPool, function="global_sum_pool"):
    """Sum of every plane: `global_sum_pool` as a layer."""


class GlobalMaxPool(_GlobalMaxPool, function="global_max_pool"):
    """Maximum of every plane: `global_max_pool` as a layer."""


class GlobalMinPool(_GlobalMaxPool, function="global_min_pool"):
    """Minimum of every plane: `global_min_pool` as a layer."""
