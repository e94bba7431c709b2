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
from ._layer import Maximum, Size, given


class _FractionalMaxPool(Maximum):
    def __init__(self, kernel_size: Size, output_size: Size | None = None, *,
                 output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                 random_samples: ArrayLike | None = None, rng: Any = None, channel_axis: int | None = None) -> None:
        super().__init__(**given(locals()))

    def _check(self) -> None:
        arguments: Any = self
        checks.sizes(arguments.kernel_size, self._rank, "kernel_size", short=False)
        resolve_output((LIMIT,) * self._rank, arguments.output_size, arguments.output_ratio)
        # With as many planes as there are samples; with none, which take nothing out of a generator, if there are not.
        lead = np.shape(arguments.random_samples)[:-1] if arguments.random_samples is not None else (0, 0)
        empty = Planes(np.empty(0, FLOAT32), (*lead, *(1,) * self._rank), self._rank, False)
        draw(empty, arguments.random_samples, arguments.rng)
        super()._check()


class FractionalMaxPool2d(_FractionalMaxPool, function="fractional_max_pool2d"): ...
class FractionalMaxPool3d(_FractionalMaxPool, function="fractional_max_pool3d"): ...
