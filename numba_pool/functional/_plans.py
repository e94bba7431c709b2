"""Which kernel serves which windows: the one place that chooses.

=============== ================================ ==========================================================
memory          windows                          kernel
=============== ================================ ==========================================================
channels last   any                              `window_pixels`: lanes are channels
channels first  up to 5 columns, stride up to 4  `window_rows`: lanes are columns, 32 of them in registers
channels first  any other                        `window_buffered`: a buffered row, doubling along it
either          different ones for every plane   `max_rows`: the plain loop
=============== ================================ ==========================================================

The gradient of an average is a sum over the windows that hold an element, divided once: `window_pixels` and
`spread_rows` on the inverse geometry where all windows have the same divisor and no dilation, else `spread_planes`.
"""

from collections.abc import Callable
from functools import lru_cache
from math import frexp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _geometry as geometry
from .._arrays import Shape
from .._geometry import Axis, Grid
from ..kernels import average, windows

Axes = tuple[Axis, Axis, Axis]

# Beyond this many taps float32 sums are carried in float64: their error grows with the number of additions.
MOST_FLOAT32_TAPS = 64


class Plan(NamedTuple):
    """A kernel with its geometry."""

    worker: Callable[..., Any]
    driver: Callable[..., Any]
    tables: NDArray[np.int64]
    shared: int  # the divisor that all windows share, or 0
    taps: int  # of the largest window

    def divisors(self, dtype: np.dtype[Any], override: float) -> NDArray[Any]:
        """What tells a kernel to average, and in which arithmetic."""
        return divisors(dtype, override or self.shared, self.taps)


@lru_cache(maxsize=4096)
def divisors(dtype: np.dtype[Any], divisor: float, taps: int) -> NDArray[Any]:
    if dtype.kind in "iu":
        if divisor != int(divisor):
            return np.array([divisor, 0], np.float64)
        return np.array([int(divisor), 0], np.uint64 if dtype == np.uint64 else np.int64)
    exact = divisor != 0 and abs(frexp(divisor)[0]) == 0.5 and 2.0**-100 < abs(divisor) < 2.0**100
    wide = dtype == np.float64 or taps > MOST_FLOAT32_TAPS
    return np.array([divisor, 1 / divisor if exact else 0], np.float64 if wide else np.float32)


def largest_window(axes: Axes) -> int:
    taps = 1
    for axis in axes:
        if len(axis.start):
            taps *= max(1, int(-(-(axis.stop - axis.start).max() // axis.step)))
    return taps


def forward_plan(axes: Axes, channels: int, last: bool) -> Plan:
    w = axes[2]
    if last:
        kernel = windows.window_pixels, windows.window_pixels_parallel
    elif 1 <= w.kernel <= 5 and 1 <= w.stride <= 4 and w.step == 1:
        kernel = windows.window_rows, windows.window_rows_parallel
    else:
        kernel = windows.window_buffered, windows.window_buffered_parallel
    return Plan(*kernel, geometry.pack(axes, channels, last), geometry.shared_count(axes), largest_window(axes))


def inverse_plan(axes: Axes, channels: int, last: bool) -> Plan:
    inverse = geometry.inverse(axes)
    if last:
        kernel = windows.window_pixels, windows.window_pixels_parallel
    else:
        kernel = windows.spread_rows, windows.spread_rows_parallel
    return Plan(*kernel, geometry.pack(inverse, channels, last), geometry.shared_count(axes), largest_window(inverse))


def scattering_plan(axes: Axes, channels: int, last: bool) -> Plan:
    return Plan(average.spread_planes, average.spread_planes_parallel, geometry.pack(axes, channels, last), 0, 1)


def backward_plan(axes: Axes, channels: int, last: bool, override: bool) -> Plan:
    invertible = all(axis.step == 1 and len(axis.start) for axis in axes)
    if invertible and (override or geometry.shared_count(axes)):
        return inverse_plan(axes, channels, last)
    return scattering_plan(axes, channels, last)


@lru_cache(maxsize=4096)
def uniform(windows: Grid, include_pad: bool, channels: int, last: bool) -> Plan:
    return forward_plan(windows.axes(include_pad), channels, last)


@lru_cache(maxsize=4096)
def uniform_backward(windows: Grid, include_pad: bool, channels: int, last: bool, override: bool) -> Plan:
    return backward_plan(windows.axes(include_pad), channels, last, override)


@lru_cache(maxsize=4096)
def adaptive(size: Shape, output: Shape, channels: int, last: bool) -> Plan:
    return forward_plan(geometry.adaptive_axes(size, output), channels, last)


@lru_cache(maxsize=4096)
def adaptive_backward(size: Shape, output: Shape, channels: int, last: bool) -> Plan:
    return backward_plan(geometry.adaptive_axes(size, output), channels, last, False)
