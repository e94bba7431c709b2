"""Maxima over windows at pseudo-random starts."""

from __future__ import annotations  # help() shows them by name

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _arguments as checks
from .._arrays import FLOAT32, Planes
from .._windows import LIMIT
from ..functional.fractional import draw, resolve_output
from ._layer import Maximum, Size


class _FractionalMaxPool(Maximum):
    """`forward` takes `x` of shape (N, C, {spatial}) or (C, {spatial}), and returns `y`, or ``(y, indices)``.

    Parameters
    ----------
    kernel_size : int or one int per spatial axis
        How long a window is along each axis.
    output_size : int or one int per spatial axis
        How many windows along each axis.
    output_ratio : float or one per spatial axis, between 0 and 1
        Output size as a fraction of the input's, rounded down; give this or `output_size`.
    return_indices : bool
        Let `forward` return ``(y, indices)``: int32, flat within each plane of `x`, row-major.
    random_samples : array of floats in [0, 1), shape (N, C, rank) or (C, rank), optional
        What drives the starts of windows. Drawn from `rng` if not given; not both.
    rng : numpy Generator or seed, optional
        A seed gives the same windows at every forward.
    channel_axis : int, optional
        The axis of `x` that holds the channels, -1 for NHWC; results have it at the same place. None: as shown above.
    """

    def __init__(self, kernel_size: Size, output_size: Size | None = None, *,
                 output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                 random_samples: ArrayLike | None = None, rng: Any = None, channel_axis: int | None = None) -> None:
        super().__init__(kernel_size=kernel_size, output_size=output_size, output_ratio=output_ratio,
                         return_indices=return_indices, random_samples=random_samples, rng=rng,
                         channel_axis=channel_axis)

    def _check(self) -> None:
        arguments: Any = self
        checks.sizes(arguments.kernel_size, self._rank, "kernel_size", short=False)
        resolve_output((LIMIT,) * self._rank, arguments.output_size, arguments.output_ratio)
        # With as many planes as there are samples; with none, which take nothing out of a generator, if there are not.
        lead = np.shape(arguments.random_samples)[:-1] if arguments.random_samples is not None else (0, 0)
        empty = Planes(np.empty(0, FLOAT32), (*lead, *(1,) * self._rank), self._rank, False)
        draw(empty, arguments.random_samples, arguments.rng)
        super()._check()


class FractionalMaxPool2d(_FractionalMaxPool, function="fractional_max_pool2d"):
    """Maximum over windows at pseudo-random starts: `fractional_max_pool2d` as a layer."""


class FractionalMaxPool3d(_FractionalMaxPool, function="fractional_max_pool3d"):
    """Maximum over windows at pseudo-random starts: `fractional_max_pool3d` as a layer."""
