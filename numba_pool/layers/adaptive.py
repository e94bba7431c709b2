"""Windows chosen for an output size."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from .. import _arguments as checks
from ._layer import Average, Maximum, OutputSize


class _AdaptiveMaxPool(Maximum):
    """`forward` takes `x` of shape (N, C, {spatial}) or (C, {spatial}), and returns `y`, or ``(y, indices)``.

    Parameters
    ----------
    output_size : int or None, or one of them per spatial axis
        How many windows along each axis; they cover it, and may overlap. None keeps an axis.
    return_indices : bool
        Let `forward` return ``(y, indices)``: int32, flat within each plane of `x`, row-major.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    output_size: OutputSize

    def __init__(self, output_size: OutputSize, *, return_indices: bool = False,
                 channel_axis: int | None = None) -> None:
        super().__init__(output_size=output_size, return_indices=return_indices, channel_axis=channel_axis)

    def _check(self) -> None:
        checks.adaptive((1,) * self._rank, self.output_size)
        super()._check()


class AdaptiveMaxPool1d(_AdaptiveMaxPool, function="adaptive_max_pool1d"):
    """Maximum over windows chosen for an output size: `adaptive_max_pool1d` as a layer."""


class AdaptiveMaxPool2d(_AdaptiveMaxPool, function="adaptive_max_pool2d"):
    """Maximum over windows chosen for an output size: `adaptive_max_pool2d` as a layer."""


class AdaptiveMaxPool3d(_AdaptiveMaxPool, function="adaptive_max_pool3d"):
    """Maximum over windows chosen for an output size: `adaptive_max_pool3d` as a layer."""


class _AdaptiveAvgPool(Average):
    """`forward` takes `x` of shape (N, C, {spatial}) or (C, {spatial}).

    Parameters
    ----------
    output_size : int or None, or one of them per spatial axis
        How many windows along each axis; they cover it, and may overlap. None keeps an axis.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    output_size: OutputSize

    def __init__(self, output_size: OutputSize, *, channel_axis: int | None = None) -> None:
        super().__init__(output_size=output_size, channel_axis=channel_axis)

    def _check(self) -> None:
        checks.adaptive((1,) * self._rank, self.output_size)

    def _backward_arguments(self) -> dict[str, Any]:
        return {**self._axis}


class AdaptiveAvgPool1d(_AdaptiveAvgPool, function="adaptive_avg_pool1d"):
    """Average over windows chosen for an output size: `adaptive_avg_pool1d` as a layer."""


class AdaptiveAvgPool2d(_AdaptiveAvgPool, function="adaptive_avg_pool2d"):
    """Average over windows chosen for an output size: `adaptive_avg_pool2d` as a layer."""


class AdaptiveAvgPool3d(_AdaptiveAvgPool, function="adaptive_avg_pool3d"):
    """Average over windows chosen for an output size: `adaptive_avg_pool3d` as a layer."""
