"""Which kernel serves which windows, the first that fits: the one place that chooses.

=============== ======================================= ==================================================
memory          windows                                 kernel
=============== ======================================= ==================================================
channels first  maxima of windows that are a run of     `window_runs`: vectors of the run, then their lanes
                memory, if they are whole planes of
                more than 4 elements, or of 16 or more
                columns, or of 64 or more elements
either          averages of runs of 256 or more         `average_runs`, `average_pixel_runs`: every sixteenth
                elements, of whole planes 25            element, then these sixteen
channels last   maxima of the same runs, of more than   `window_pixel_runs`: eight pixels at a time
                16 channels: see `passes_on`
channels first  maxima of up to 4 elements in planes    `window_clusters`: elements side by side in
                of up to 8 columns                      memory, of which windows are picked
channels first  up to 5 columns at stride 1 or 2, for   `narrow_rows`: rows downwards, then along, in vectors
                maxima without indices, of one or two   of 64 or 32 elements, or without masked loads
                bytes or where there is no AVX-512
either, with    up to 5 columns, and up to 9 or 16 of   `window_rows`: 32 elements of a row in registers,
up to 16        one element each (`by_rows`), uniform   of which windows are picked; `window_steps` where
channels last                                           planes or images are many and not too large;
                                                        `window_strips`, with indices, if windows have
                                                        few rows
channels last   maxima of more than 16 channels, of     `window_separable`: a row of the input along its
                more than 18 elements, of which each    windows, by doubling, then these rows downwards
                is in more than nine windows: see
                `separates`
channels last   more than 8 channels: up to 4 taps, and `window_pixels`: lanes are channels, tap by tap
                up to 12 if windows in a row are alike;
                more than 16: up to 12, with indices
                30; up to 256 if the input is in the
                caches and windows have few elements in
                common, for maxima alone of more than
                32 channels not so few
channels last   of up to 16 channels, any other; large  `window_buffered`: a buffered row, doubling along it
                ones that share few rows
channels last   any other                               `window_bands`: a buffered row, doubling along it
channels first  32 or more planes of up to 1024         `planes_by_taps`, `planes_separable`,
                elements, rows of up to 20 outputs;     `planes_by_bands`: planes become channels, for up to
                before what goes by rows, maxima of     12 taps, and for more of maxima and of averages
                more than 49
channels first  any other                               `window_buffered`: a buffered row, doubling along it
either          different ones for every plane          `max_drawn`: the plain loop
=============== ======================================= ==================================================

Nanoseconds per output of a 3x3/2 maximum with argmax, one thread: 13x13 planes 0.83 by `window_strips`, 1.1 by
`window_steps`; 55x55 planes 0.53 by `window_strips`, 0.74 by `window_steps`; 64 channels last 0.6 by `window_pixels`.
Of a 2x2/2 maximum of 28x28 images of 16 channels last 0.16 by `window_pixels`, 0.24 by `window_steps`.

Where registers are narrower than a vector, without AVX-512, picking windows out of rows takes several times as many
instructions, and columns of 32 channels do not stay in registers. There planes in channels-first memory become channels
for up to 49 taps if 32 of them and their results are up to 4096 elements each (`turns`); maxima that have little in
common are reduced tap by tap up to 49 taps, in channels-last memory if they are asked for with indices; and
`window_buffered` takes the place of `window_bands` but for averages of up to 30 taps. One thread of a Zen 3, ns per
output: 3x3/1 maximum with argmax of 35x35 planes 4.5 before, 2.0 so; its average 3.7 and 1.0; 3x3/2 of 13x13
planes 6.8 and 2.3.

Planes of one long row, as signals are, are cut into sections, which `window_sections` leaves to the kernel that fits
each of them, as if it were all there is; so are the gradients of their averages: see `geometry.sections`.

The gradient of an average is a sum over the windows that hold an element, divided once. That of a whole plane of 25 or
more elements is one number, in channels-first memory by `scatter_whole`. With AVX-512 and where no element is in two
windows, it is by `scatter_disjoint`, or for small planes by `scatter_flat`, also for up to four windows: 2x2/2 of
224x224 planes 0.1 ns an element, 0.23 by `window_rows`; 64 channels last 0.07, 0.15 by `window_pixels`; 4x4/2 of 17x17
planes 0.3, 0.8 by `window_steps`. Else, for windows without dilation: by `spread_steps` at stride 2 along rows of 112
columns or more in channels-first memory (`long_steps`), and by the same kernels on the inverse geometry, with
`spread_rows` in the place of `window_buffered` in channels-first memory, and for windows far apart. These kernels
divide by what all windows share. Where windows have divisors of their own, `window_sections` divides gradients first, a
block of planes or rows at a time, and leaves each to the kernel that fits it: see `geometry.blocks`. Dilated windows,
and what cannot be cut, are left to `spread_planes`.

The gradient of a maximum goes where its index says, by the kernels of `indices`; but with AVX-512 by `scatter_whole`,
too, where it is alone in a plane, by `scatter_disjoint` or `scatter_flat` where windows are small and share no element
(`spreads`), and where small windows do by `gather_pixels` of many channels last and by `gather_rows` of large results
channels first. Which windows there were nobody says: a maximum with indices of such shapes before, or else the shapes
alone, suggest it, and these kernels find out whether it is so.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from math import frexp, prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import _geometry as geometry
from .._arrays import Shape
from .._geometry import FIRST_TAPS, Axis
from ..kernels import average, disjoint, narrow
from ..kernels._asking import ASKED, FAR
from ..kernels._reductions import GROUP
from ..kernels._staging import STREAMED
from ..kernels.bands import window_bands
from ..kernels.buffered import window_buffered
from ..kernels.clusters import window_clusters
from ..kernels.overlapping import gather_pixels, gather_rows
from ..kernels.pixels import window_pixels
from ..kernels.planes import planes_by_bands, planes_by_taps, planes_separable
from ..kernels.rows import window_rows, window_steps, window_strips
from ..kernels.runs import average_pixel_runs, average_runs, window_pixel_runs, window_runs
from ..kernels.separable import window_separable
from ..simd import LANES, LARGEST_DIVISOR, SINGLES, wide_registers

Axes = tuple[Axis, Axis, Axis]
Elements = geometry.Disjoint | geometry.Flat | geometry.Whole
C = TypeVar("C", bound="Call | Route")

# Sums of more additions in a row are carried in float64. Each adds half an ulp at most: 5x5 windows take eight.
MOST_FLOAT32_ADDITIONS = 8

NARROW = {f"max{size}": size for size in (1, 2, 4, 8)}  # bytes of an element, by the reduction
MAXIMA = {"max", "argmax", *NARROW}
# Elements of a window that is a run of memory, from which on kernels for these are the faster: averages, maxima of
# several windows of fewer columns than a vector has.
RUN, RUN_MAX = 256, 64
PART, MAXIMA_PART = 512, 1 << 12  # channels, whose sums, or maxima, stay in the first cache
ALONE, MANY_ELEMENTS = 1 << 16, 1 << 14  # of a window: of those that threads share, that are more than the first cache
PLANE = 25  # elements of a plane that is the only window, from which on they are for averages, and for all gradients
MOST_BYTES = 1 << 30  # of a result and its tables, from which on they are asked for before they are made
FEW = 8  # planes, fewer than which are shared among threads by their rows
FEW_COLUMNS = 9  # of windows at stride 1, up to which these are picked out of rows
# Rows of windows with indices, those of them that none above has, and elements of a result's row where all rows are in
# several windows, and else: see `walks_strips`.
FEW_ROWS, FRESH_ROWS, LONG_ROW, LONGER_ROW = 9, 3, 1 << 12, 1 << 13
# Taps, up to which `window_pixels` is the faster in channels-last memory; by the first of them `planes_by_taps`, too,
# with indices or without.
FEW_TAPS, FEW_TAPS_INDEXED = 12, 30
# The same where registers are narrower than a vector, for maxima; for sums by `window_bands`; elements of planes and
# their results, up to which they are made channels.
FEW_TAPS_NARROWER, SOME_SUMS, MOST_TURNED = 49, 30, 1 << 12
SMALL_PLANE = 1 << 11  # gradients of a plane, up to which all its divisors are listed
MORE_TAPS = 256  # up to which it is where windows have few elements in common: 4x4/4, 7x7/7 in 0.5 to 0.7 of the time
MANY_VECTORS = 16  # of results, so many that a list of as many taps is worth making
SOME_TAPS = 18  # up to which it is for maxima alone, however many windows hold an element, and before `separates`
FEW_TAPS_NARROW = 4  # up to which it is with 9 to 16 channels: 2x2/2 in 0.5 to 0.85 of the time
FAR_ROWS = 4  # distance of windows from which on rows of their gradients are copied often enough
FEW_COPIES = 3  # elements of a row to a window, of several channels each, from which on they are
LONG_RUN = 4  # windows in a row that are alike, so many that they are worth a call
MOST_HOPS = 4096  # rows of windows of every extent, of which kernels keep where they are
MOST_PLANE_STEPS = 1024  # of `window_steps`, 80 bytes each
IN_LINES = 16 << 20  # bytes of a result of whole lines, from which on these are streamed as they come
SHARED = 9  # windows to an element, more than which make it worth while to reduce each row once
ASKED_TAPS = 100  # of a window, more than which take so long that what comes need not be asked for
MANY_TAPS = 49  # of a maximum, more than which are not picked out of rows of small planes
FLOAT64 = 8
FLOAT32 = INDEX = 4  # bytes, where a plan serves every dtype, and of an index
HALF_PAGE = 1 << 11  # bytes
LONGEST_ROW = 2**32 - 256  # elements
# Kernels that are compiled to ask for what comes, or not to, and the bytes from which on they do. Two results take more
# of the caches than one: 3x3/2 of 9 MiB with indices would take 1.05 to 1.15 times as long without. By `scatter_flat`
# 2x2/2 of 12 MiB would take 1.1 times as long with.
ASKED_FLAT = ASKED * 4 // 3
ASKED_BY_ROWS = {window_rows: ASKED, window_steps: ASKED, window_strips: ASKED * 2 // 3}
# Rows of windows to an element, and vectors of windows to a step, up to which there is `spread_steps`; and columns for
# each of the latter, from which on it is the faster: of 56 columns 3x3/2 would take 1.2 times as long, of 112 4x4/2 1.1
# to 1.25.
MOST_STEP_ROWS, MOST_STEP_VECTORS, LONG_STEPS = 3, 3, 56
LARGEST_ROW, LARGE_WINDOW = 1 << 16, 1 << 15  # elements of rows that are buffered, of a window that is read by rows
# Elements of a row from which on `scatter_disjoint` is the faster where lanes are columns: for maxima, for averages.
WIDE_ROW, WIDE_AVERAGE = 64, 32
# Elements to an index, above which `scatter_flat` is the slower, and most of `scatter_disjoint`; of vectors of channels
# the latter, see `spreads`; and of a result, below which tables of `scatter_flat`, to be handed over at each call for
# 1 us, are not won back.
LARGE_BOX, LARGER_BOX, FEW_ELEMENTS = 6, 16, 1 << 15
# Channels, from which on `gather_pixels` is quicker than scattered additions: by it 3x3/2 of 24 channels would take
# twice as long, of 40 1.4 times. Elements of a result, times the stride along rows, from which on `gather_rows` is: of
# half as many 3x3/2 would take 1 to 1.5 times as long. Elements of a window, up to which they are: by the one 4x4/2
# would take 1.2 to 1.5 times as long, by the other 4x4/2 of planes 0.9 to 1.2, 5x5/2 up to 1.3.
MANY_CHANNELS, LARGE_SHARED, FEW_SHARED = 3 * LANES, 1 << 20, 9
MOST_CALLS, MOST_TABLES = 1024, 64 << 20  # what is kept between calls: of each function, and bytes of all tables


class Plan(NamedTuple):
    """A kernel with its geometry."""

    worker: Any
    tables: NDArray[np.int64]
    shared: int  # the divisor that all windows share, or 0
    additions: int  # one after the other, at most
    extra: tuple[Any, ...] = ()  # tables of the kernel's own
    scatter: Elements | None = None  # the tables of a kernel that goes by elements
    most: int = 0  # bounds the taps of every window and its own divisor; for forward plans

    def rest(self, nbytes: int) -> tuple[Any, ...]:
        """What the kernel takes after the divisors, for an input (of a gradient, a result) of so many bytes."""
        least = ASKED_BY_ROWS.get(self.worker)
        asked = () if least is None else (True if nbytes >= least else None,)
        return (*self.extra, *asked, self.tables)

    def divisors(self, dtype: np.dtype[Any], override: float) -> NDArray[Any]:
        """What tells a kernel to average, and in which arithmetic."""
        return divisors(dtype, override or self.shared, self.additions, self.most)

    def traffic(self, read: int, written: int, indexed: bool) -> int:
        """How much work it is to read and write so many bytes, in those of `SERIAL_BYTES`; for forward plans."""
        traffic = max(read, 4 * written)
        quick = self.worker is window_pixels and self.most <= FEW_TAPS_NARROW and not indexed
        return traffic * 3 // 4 if quick else traffic  # by measurement: 384 KiB of 16 to 64 channels


class Scatter(NamedTuple):
    """A kernel for gradients that goes by elements, of which each is in one window, or few."""

    worker: Any
    units: int
    rest: tuple[Any, ...]  # arguments after the arrays
    taken: int = 0  # what it returns if windows are what they were taken for


@lru_cache(maxsize=4096)
def divisors(dtype: np.dtype[Any], divisor: float, additions: int, most: int) -> NDArray[Any]:
    """What the kernels of averages divide by, in their arithmetic.

    Machines divide no vectors of integers, so averages of small ones are floats on the way, 2x2/2 of uint8 in a sixth
    of the time. Truncated, they are the same: a quotient s/d that is no integer is at least 1/d below the next one, n,
    and floats of p bits round it to n only within n / 2^p, where n * d < s + d; so s + d < 2^p is enough. What a
    divisor smaller than the window makes wraps around, as only integers do.
    """
    wide = dtype == np.float64 or additions > MOST_FLOAT32_ADDITIONS
    wide = wide or (divisor != 0 and not 2.0**-126 <= abs(divisor) < 2.0**127)  # float32 would make 0 or inf of it
    if dtype.kind in "iu":
        wide = True
        if divisor == int(divisor) and abs(divisor) < 2.0 ** (64 if dtype == np.uint64 else 63):
            together = (most << 8 * dtype.itemsize) + max(divisor, most)
            if together >= 2**53 or not (divisor == 0 or divisor >= most):
                # By 1 and -1 a product gives the same; the division of the smallest integer by -1 ends the process.
                reciprocal = int(divisor) if abs(divisor) == 1 else 0
                return np.array([int(divisor), reciprocal, 0], np.uint64 if dtype == np.uint64 else np.int64)
            wide = together >= 2**24
    exact = divisor != 0 and abs(frexp(divisor)[0]) == 0.5 and 2.0**-100 < abs(divisor) < 2.0**100
    rounded = wide and not exact and 1 <= divisor <= LARGEST_DIVISOR and divisor == int(divisor)
    reciprocals = [1 / divisor if known else 0 for known in (exact, rounded)]
    return np.array([divisor, *reciprocals], np.float64 if wide else np.float32)


def additions(axes: Axes) -> int:
    """Additions one after the other: down the columns of a window, then along them."""
    d, h, w = (geometry.longest(axis) for axis in axes)
    return d * h - 1 + w - 1


def channels_last(axes: Axes, shape: Shape, rank: int, taps: int, reduction: str = "average") -> Any:
    channels = shape[-rank - 1]
    if reduction != "average" and channels > LANES and separates(axes, shape, taps, reduction == "argmax"):
        return window_separable
    if channels > LANES and taps <= few_taps(reduction == "argmax"):
        return window_pixels
    outputs, vectors = prod(len(axis.start) for axis in axes), prod(shape[:-rank - 1]) * -(-channels // LANES)
    if (channels > LANES // 2 and taps <= MORE_TAPS and prod(shape) * FLOAT32 < FAR  # others ask for what comes
            and outputs * vectors >= MANY_VECTORS):
        loads, elements = taps * outputs, prod(axis.size for axis in axes)
        # Nor averages where pixels are half a page apart: their lines are in the same few places of the first cache.
        spread = reduction != "average" or channels * FLOAT32 % HALF_PAGE != 0
        if spread and loads <= (4 if reduction == "argmax" else 3) * elements:
            return window_pixels
        # Maxima alone are quicker: of 48 to 256 channels 4x4/2 takes 0.5 to 0.8 of the time, 5x5/2 0.67 to 0.9, 6x6/2
        # 0.76 to 1, 4x4/1 0.7 to 0.8; but 7x7/2 1 to 1.4, 5x5/1 0.7 to 1.2, and of 32 channels 5x5/2 1.2.
        if reduction == "max" and channels > GROUP and (loads <= SHARED * elements or taps <= SOME_TAPS):
            return window_pixels
    # Half a vector in use is enough where many windows in a row are alike: 3x3/2 of 16 channels in 0.7 of the time,
    # 0.53 with indices; but the gradient of such averages, whose elements are by turns in one and in two, in 2.7.
    if channels > LANES // 2 and taps <= FEW_TAPS and geometry.runs(axes[2]).max(initial=0) >= LONG_RUN:
        return window_pixels
    if channels <= LANES or reads_rows_once(axes, channels):
        return window_buffered
    # Narrow registers do not hold what goes down a column of 32 channels: 9x9/1 of 256 channels takes 0.4 to 0.75 of
    # the time, 0.5 with indices; averages 0.7 to 1, but of 5x5/1 1.5 times as long.
    return window_buffered if not wide_registers() and (reduction != "average" or taps > SOME_SUMS) else window_bands


def separates(axes: Axes, shape: Shape, taps: int, indexed: bool) -> bool:
    """Whether to reduce each row once, along it: maxima of windows that have much in common, if there is room for the
    rows of one. One thread, 32 to 1024 channels: 5x5/1 in 0.6 to 1 of the time, 0.4 to 0.75 with indices, 7x7/2 0.5 to
    1, 13x13/1 0.3 to 0.65, 49x49/1 0.1; but 4x4/1 in 0.9 to 1.4. It does not ask for what comes: from memory 7x7/1
    would take 1.2 times as long.
    """
    return (taps > SOME_TAPS and have_much_in_common(axes, taps) and has_room(axes, indexed)
            and (prod(shape) * FLOAT32 < FAR or taps > ASKED_TAPS))


def have_much_in_common(axes: Axes, taps: int) -> bool:
    """Whether elements are in so many windows each that rows are worth reducing once, along all these windows."""
    outputs, elements = prod(len(axis.start) for axis in axes), prod(axis.size for axis in axes)
    return taps * outputs > SHARED * elements


def has_room(axes: Axes, indexed: bool) -> bool:
    """Whether `separable.room_for_rows` has room, within 1 MiB, for blocks of half as many columns as a window has, of
    doubles: of narrower ones each column would be in many. A signal of 6000 float64 at 2701/1 would take 55 times as
    long as by `window_bands`.
    """
    depth, height, width = axes
    rows = geometry.longest(depth) * min(geometry.longest(height) * height.step, height.size) + 1
    wide, windows = (geometry.longest(width) - 1) * width.step + 1, len(width.start)
    size = GROUP * (FLOAT64 + INDEX if indexed else FLOAT64)
    return min(windows, max(wide // 2, 1)) <= geometry.columns_in_room(rows, width.size, windows, wide, size)


def few_taps(indexed: bool) -> int:
    """Taps, up to which windows are reduced tap by tap where lanes are channels."""
    if not indexed:
        return FEW_TAPS
    return FEW_TAPS_INDEXED if wide_registers() else FEW_TAPS_NARROWER


def few_taps_of_planes(axes: Axes, taps: int, maxima: bool) -> int:
    """The same where planes become channels. In registers narrower than a vector maxima of 13 to 49 elements take 0.35
    to 1 of the time by `planes_separable` if they have much in common, 0.85 to 1.65 if not.
    """
    return FEW_TAPS if wide_registers() or not maxima or have_much_in_common(axes, taps) else FEW_TAPS_NARROWER


def reads_rows_once(axes: Axes, channels: int) -> bool:
    """Whether windows are so large, and so little of them shared, that rows are best read one after the other, as by
    global pooling: `window_bands` takes columns, each from another part of the memory.
    """
    depth, height, width = axes
    taps, row = geometry.longest(depth) * geometry.longest(height), width.size * channels
    buffered = (len(width.start) - 1) * width.stride + (width.kernel - 1) * width.step + 1  # columns, with padding
    return (taps * row >= LARGE_WINDOW and row <= LARGEST_ROW and buffered <= 2 * width.size
            and taps * len(depth.start) * len(height.start) <= 2 * depth.size * height.size)


def forward_plan(axes: Axes, shape: Shape, rank: int, last: bool, reduction: str) -> tuple[Plan, int]:
    """The kernel for these windows over an input of `shape`, and how many units of work it has.

    The `reduction` is "max", "argmax" (a maximum with its index), "average", or "norm", which has a kernel of its own
    and takes no more than the tables of the windows; or "max1", "max2", "max4" or "max8", a maximum of
    elements of so many bytes that `narrow_rows` may serve.
    """
    indexed, planes = reduction == "argmax", prod(shape[:-rank])
    if reduction in NARROW and planes:
        walk = geometry.narrow(axes, planes, NARROW[reduction])
        if walk is not None:
            masks = walk.masks.view(SINGLES.get(walk.masks.dtype.name, walk.masks.dtype))
            tables = geometry.pack(axes, shape[-rank - 1], last, planes)
            return Plan(narrow.narrow_rows, tables, 0, 0, (masks, walk.table)), walk.units
    outputs = prod(len(axis.start) for axis in axes)
    taps, columns = prod(geometry.longest(axis) for axis in axes), geometry.longest(axes[2])
    run = outputs and are_runs(axes)
    if run and not last and reduction in MAXIMA and goes_by_runs(axes, taps, outputs):
        tables = geometry.pack(axes, shape[-rank - 1], last, planes)
        return Plan(window_runs, tables, 0, 0, most=taps), planes * outputs
    found = geometry.clusters(axes, planes) if not last and reduction in MAXIMA else None
    if found is not None:
        tables = geometry.pack(axes, shape[-rank - 1], last, planes)
        picked = found.group, found.picks, found.steps, found.table
        return Plan(window_clusters, tables, 0, 0, picked, most=taps), planes // found.group
    size = prod(shape[-rank:])
    turned = not last and turns(planes, size, 2 * outputs if indexed else outputs, taps)
    small = turned or (not last and planes >= GROUP and 16 <= size <= 1024 >= outputs > 0
                       and len(axes[2].start) <= 20)
    units = rows(axes, shape, rank, last)
    lanes = None
    # Of windows of one row that are long: 1x7 of 17x17 planes takes 1.1 to 1.3 times as long by `window_strips` as by
    # `planes_by_taps`, of any dtype but float32 (0.84), which nothing here knows.
    # Windows of many elements take 0.45 to 1 of the time as planes with indices, 0.75 to 1.05 without, 7x7 up to 1.3.
    large = small and ((indexed and taps == columns > FIRST_TAPS) or (reduction in MAXIMA and taps > MANY_TAPS))
    pixels = (last and LANES // 2 < shape[-rank - 1] <= LANES and taps <= FEW_TAPS_NARROW and outputs > LANES // 2
              and reduction != "norm")
    run = run and taps >= (PLANE if outputs == 1 else RUN) and (
        reduction == "average" or (last and reduction in MAXIMA and passes_on(axes, shape, rank, taps)))
    if outputs and reduction != "norm" and not turned and not large and not pixels and not run:
        lanes = by_rows(axes, axes[2], shape, rank, last, reduction == "average")
    if run:
        summed, channels = reduction == "average", shape[-rank - 1]
        part = part_of(channels, units, taps, PART if summed else MAXIMA_PART)
        kernel = average_runs
        if last:
            kernel, units = average_pixel_runs if summed else window_pixel_runs, units * -(-channels // part)
    elif lanes is not None:
        kernel, units = rows_kernel(lanes, axes, shape, rank, last, indexed)
    elif last:
        kernel = window_pixels if pixels else channels_last(axes, shape, rank, taps, reduction)
    elif small and taps <= few_taps_of_planes(axes, taps, reduction in MAXIMA):
        kernel, units = planes_by_taps, -(-planes // GROUP)
    elif small and reduction not in MAXIMA:
        kernel, units = planes_by_bands, -(-planes // GROUP)
    elif small and has_room(axes, indexed):
        kernel, units = planes_separable, -(-planes // GROUP)
    else:
        kernel = window_buffered
    if not outputs:
        units = 0
    tables = geometry.pack(axes, shape[-rank - 1], last, planes, lanes)
    extra = (part,) if run and last else extra_tables(kernel, lanes, axes, shape[-rank - 1] if last else 1)
    most = max(taps, prod(int(axis.width.max(initial=1)) for axis in axes))
    added = -(-taps // LANES) + 3 if run else additions(axes)  # lanes, and these among each other
    return Plan(kernel, tables, geometry.shared_count(axes), added, extra, most=most), units


def turns(planes: int, source: int, results: int, taps: int) -> bool:
    """Whether to make channels even of planes whose windows could be picked out of rows, of so many elements, and of
    elements of their results: where registers are narrower than a vector, and 32 planes stay in the second cache.

    By rows 3x3/2 of 40x40 planes with indices takes 2.5 times as long there, its average twice; 2x2/2 1.9
    and 1.6 times.
    """
    return (not wide_registers() and planes >= GROUP and source >= LANES and taps <= FEW_TAPS_NARROWER
            and 0 < results <= MOST_TURNED - source)


def part_of(channels: int, pixels: int, taps: int, most: int) -> int:
    """How many channels of an output pixel kernels of runs take at a time, up to `most`: parts of a large one that is
    alone, so that threads have something to share; 1x256x56x56 takes half the time, two of these 1.1 times as long.
    """
    parts = -(-channels // most)
    if pixels == 1 and taps * channels >= ALONE:
        parts = max(parts, min(4, channels // (2 * GROUP)), 1)
    return -(-channels // parts)


def are_runs(axes: Axes) -> bool:
    """Whether each window is a run of memory: all columns, and all rows of some slices, or some rows of a slice."""
    depth, height, width = axes
    slices = (depth.stop - depth.start).max()
    return bool(is_whole(width) and (depth.step == 1 if is_whole(height) else height.step == 1 and slices <= 1))


def goes_by_runs(axes: Axes, taps: int, outputs: int) -> bool:
    """Whether maxima of windows that are runs of memory are best found as such: of whole planes, 5x5 in 0.6 to 1 of the
    time of what comes next, 7x7 in 0.35 to 0.75; of long rows, which other kernels read with most lanes unused, 3x20 in
    0.15; 5x8 only take 0.9 of the time at stride 3 and 1.8 times at stride 1.
    """
    return axes[2].size >= LANES or taps >= (geometry.MOST_PICKS + 1 if outputs == 1 else RUN_MAX)


def passes_on(axes: Axes, shape: Shape, rank: int, taps: int) -> bool:
    """Whether maxima of runs of pixels, in channels-last memory, are best passed on from eight pixels to the next: of
    more than one vector, of so many elements that the first cache does not hold them, and which few windows share.
    Planes of 56x56 and 256 channels take 0.55 of the time, 8x8 and 2048 0.85, with indices 0.45, 7x7 and 1280 1 and
    0.9, but 7x7 and 128 up to 1.2; from memory, where `window_buffered` reads four rows by turns, 1.1 to 1.35.
    """
    channels = shape[-rank - 1]
    return (channels > LANES and taps * channels >= MANY_ELEMENTS and prod(shape) * FLOAT32 < FAR
            and not have_much_in_common(axes, taps))


def is_whole(axis: Axis) -> bool:
    """Whether there is one window, and that all of the axis."""
    return bool(len(axis.start) == 1 and axis.start[0] == 0 and axis.stop[0] == axis.size and axis.step == 1)


def by_rows(axes: Axes, forward: Axis, shape: Shape, rank: int, last: bool, summed: bool) -> geometry.RowLanes | None:
    """How windows are picked out of rows, where neighbours in memory are columns and enough of a vector is used.

    `axes` are walked; `forward` is the one along rows, and not the same where they are inverse ones. At stride 1 a
    buffered row is the faster for more columns than `FEW_COLUMNS`; without AVX-512 and for long sums of float32, which
    are in float64, for more than `FIRST_TAPS`; and for these at any stride where columns are several elements.
    """
    elements, images = shape[-rank - 1] if last else 1, prod(shape[: -rank - last])
    if not 1 <= elements <= LANES or geometry.longest(axes[0]) * geometry.longest(axes[1]) ** 2 > MOST_HOPS:
        return None
    lanes = geometry.row_lanes(forward, axes[2] is not forward, elements)
    if lanes is None:
        return None
    if images < 2 * FEW:  # of which pairs would be too few for threads to share
        lanes = lanes._replace(together=1)
    if lanes.taps <= FIRST_TAPS:
        return lanes if lanes.outputs >= min(elements, LANES // 2) else None
    long = summed and additions(axes) > MOST_FLOAT32_ADDITIONS
    few = lanes.taps <= FEW_COLUMNS and wide_registers() and not long
    return lanes if elements == 1 and (forward.stride > 1 or few) else None


def extra_tables(kernel: Any, lanes: geometry.RowLanes | None, axes: Axes, elements: int) -> tuple[Any, ...]:
    """What kernels take in addition to the others: those that pick windows out of rows, and pixels their scratch."""
    if lanes is None:
        return (None,) if kernel is window_pixels else ()
    if kernel is window_strips:
        return geometry.strips(axes, lanes, elements)
    steps = (geometry.row_steps(axes, lanes, elements),) if kernel is window_steps else ()
    return lanes.others, *steps


def rows_kernel(lanes: geometry.RowLanes, axes: Axes, shape: Shape, rank: int, last: bool,
                indexed: bool = False) -> tuple[Any, int]:
    """The kernel for these, and its units of work: rows of a result, or whole planes or images if these are small."""
    depth, height, width = (len(axis.start) for axis in axes)
    images, elements = prod(shape[: -rank - last]), shape[-rank - 1] if last else 1
    row = width * elements
    steps = depth * height * -(-row // lanes.outputs) // lanes.together
    # `window_rows` streams whole lines as they come: 2x2/2 of (16, 64, 224, 224) in 0.92 to 0.97 of the time of two
    # threads with indices (1.08 of one), but in 1.05 without; (9, 64, 128, 128) would take 1.2 times as long.
    large = images * depth * height * row * FLOAT32 >= IN_LINES
    lines = indexed and large and lanes.outputs == LANES and row % LANES == 0
    if indexed and not lines and walks_strips(lanes, axes, elements):
        _, planes = geometry.paired(axes, lanes, elements)
        return window_strips, -(-images // planes) if planes > 1 else rows(axes, shape, rank, last)
    if images >= FEW and steps <= MOST_PLANE_STEPS and not lines:
        return window_steps, images
    return window_rows, rows(axes, shape, rank, last)


def walks_strips(lanes: geometry.RowLanes, axes: Axes, elements: int) -> bool:
    """Whether `window_strips` is the faster for a maximum with indices: windows of a few rows of a plane, of which up
    to three are in no window above.

    Of short rows `window_steps` takes two of any plane at a time. Where each fills more than half a vector, it is so
    only if rows are in three windows or more: of 9 to 14 columns 3x3/1 takes 0.47 to 0.9 of the time, 2x2/1 up to 2.
    Of more than nine rows, too many maxima are passed on for registers: 13x3/1 would take 1.8 times as long; and where
    rows are not shared, few of them make few picks: 5x5/5 would take 1.2 times. The longest rows had better come one by
    one: 9x9/1 of 3800 columns would take 1.2 times, 3x3/2 of 90,000 1.24 times; 3x3/1 of 1080x1920 takes 0.8.
    """
    depth, height, width = axes
    return (1 <= height.kernel <= FEW_ROWS and height.stride >= 1 and min(height.kernel, height.stride) <= FRESH_ROWS
            and height.step == 1 == geometry.longest(depth) and bool((depth.start < depth.stop).all())
            and (lanes.together == 1 or max(geometry.paired(axes, lanes, elements)) > 1
                 or height.kernel >= 3 * height.stride)
            and len(width.start) * elements <= (LONG_ROW if height.stride == 1 else LONGER_ROW))


def rows(axes: Axes, shape: Shape, rank: int, last: bool) -> int:
    """Rows of a result, of all planes, or of all images in channels-last memory."""
    return prod(shape[: -rank - last]) * len(axes[0].start) * len(axes[1].start)


def inverse_plan(axes: Axes, shape: Shape, rank: int, last: bool) -> tuple[Plan, int]:
    inverse = geometry.inverse(axes)
    planes, source, result = prod(shape[:-rank]), prod(axis.size for axis in inverse), prod(shape[-rank:])
    taps = prod(geometry.longest(axis) for axis in inverse)
    units = rows(inverse, shape, rank, last)
    # Windows far apart leave rows and columns that are copied: 17x17/17 of 56x56 planes takes 0.3 of the time; but
    # those whose rows differ, 3x32 at strides 1x16, would take 1.2 to 2.1.
    far = not 0 < axes[2].stride < LANES
    columns = None if last else long_steps(axes, inverse)
    if columns is not None:
        tables = geometry.pack(inverse, 1, False)
        return Plan(average.spread_steps, tables, geometry.shared_count(axes), additions(inverse), columns), units
    lanes, turned = None, not last and turns(planes, source, result, taps)
    if not turned and (not far or (not last and 0 < axes[1].stride < FAR_ROWS)):
        lanes = by_rows(inverse, axes[2], shape, rank, last, True)
    if lanes is not None:
        kernel, units = rows_kernel(lanes, inverse, shape, rank, last)
    elif last:
        kernel = channels_last(inverse, shape, rank, taps)
        few = shape[-rank - 1] <= LANES and axes[2].size >= FEW_COPIES * len(axes[2].start)
        if far and few and kernel is window_buffered:
            kernel = average.spread_rows
        # The stride of the forward says nothing here; `spread_rows` alone asks for it.
        inverse = tuple(axis._replace(stride=0) for axis in inverse)  # type: ignore[assignment]
    elif turned or (planes >= GROUP and 16 <= source <= 1024 and result <= 2048):
        # Elements by turns in one window and in two make many calls: 3x3/2 of 13x13 planes takes 1.7 times as long.
        alike = wide_registers() or geometry.runs(inverse[2]).max(initial=0) >= LONG_RUN
        kernel, units = planes_by_taps if alike and taps <= FEW_TAPS else planes_by_bands, -(-planes // GROUP)
    else:
        kernel = average.spread_rows
    tables = geometry.pack(inverse, shape[-rank - 1], last, planes, lanes)
    extra = extra_tables(kernel, lanes, inverse, shape[-rank - 1] if last else 1)
    return Plan(kernel, tables, geometry.shared_count(axes), additions(inverse), extra), units


def long_steps(axes: Axes, inverse: Axes) -> geometry.Columns | None:
    """The tables of `spread_steps`, where it is the fastest: for few windows to an element of long rows."""
    if not wide_registers() or geometry.longest(inverse[0]) * geometry.longest(inverse[1]) > MOST_STEP_ROWS:
        return None
    columns = geometry.columns(axes[2])
    if columns is None or len(columns.hops) > MOST_STEP_VECTORS:
        return None
    return columns if axes[2].size >= LONG_STEPS * len(columns.hops) else None


def scattering_plan(axes: Axes, channels: int, last: bool) -> Plan:
    return Plan(average.spread_planes, geometry.pack(axes, channels, last), 0, 0)


def scatters(shape: Shape, output: Shape, rank: int, last: bool, itemsize: int, row: int,
             axes: Axes | None = None) -> tuple[Any, Elements] | None:
    """The kernel and its tables for windows that share no element, where it is the fastest: these `axes`, for averages,
    which in small planes may share some; or what the shapes suggest.

    Planes of one window are filled, with indices unless they are so few that threads have to share each. Otherwise
    vectors are filled by channels, or by rows of `row` elements or more; or else by small planes, whose rows follow
    each other; with indices, unless these are few or the windows large. In registers of less than 512 bits only
    averages of whole planes are the faster for it.
    """
    size, channels, images = shape[-rank:], shape[-rank - 1] if last else 1, prod(shape[: -rank - last])
    wide = channels >= LANES or shape[-1] * channels >= row
    large = is_streamed(prod(shape), images * channels * prod(output), itemsize, axes is None)
    if (not last and prod(output) == 1 and prod(size) >= PLANE
            and (all(map(is_whole, axes)) if axes
                 else wide_registers() and images >= FEW and prod(size) <= geometry.LIMIT)):
        return disjoint.scatter_whole, geometry.Whole(images, np.array([prod(size)], np.int64))
    if not wide_registers():
        return None
    tables: geometry.Disjoint | geometry.Flat | None = None
    full = axes is not None or (prod(size) <= LARGE_BOX * prod(output) and prod(shape) >= FEW_ELEMENTS)
    if not wide and full and prod(size) * channels <= geometry.MOST_FLAT and 0 not in output:
        sides = axes or geometry.guessed_axes(size, output)
        tables = geometry.flat(sides, channels, images, axes is not None) if sides else None
        if tables is not None:
            return disjoint.scatter_flat, tables
    if (wide or large) and (axes is not None or spreads(size, output, channels, itemsize, large)):
        known = boxes(axes) if axes else (None, None)
        if known is not None:
            tables = geometry.disjoint(size, output, channels, images, *known)
    if tables is None:
        return None
    return disjoint.scatter_disjoint, tables


def is_streamed(elements: int, gradients: int, itemsize: int, indexed: bool) -> bool:
    """Whether so many elements of a result, from so many gradients, are streamed: as `_staging.streams` has it."""
    return elements * itemsize + gradients * (itemsize + INDEX * indexed) >= STREAMED


def scatter_rest(tables: Elements, nbytes: int) -> tuple[Any, ...]:
    """What the kernel of these tables takes after the divisors, for a result of so many bytes."""
    asked = (True if nbytes >= ASKED_FLAT else None,) if isinstance(tables, geometry.Flat) else ()
    return (*asked, *tables[1:])


def spreads(size: Shape, output: Shape, channels: int, itemsize: int, large: bool) -> bool:
    """Whether `scatter_disjoint`, which takes its time for every element of a result, is faster than to clear it and
    add to some: if these are not few, and in channels-first memory stand so near each other that lanes are permuted
    little; or if a `large` result is streamed, by whole lines in which windows lie evenly. Halves are added too slowly.

    Otherwise 3x3/3 would take 1.5 times as long, 6x6/6 and larger windows up to 2.8 times, of 24 channels 1.4 and 2.
    """
    if 0 in output or output[-1] > size[-1]:  # of adaptive windows that repeat elements
        return False
    if itemsize == 2:
        return True
    along, box = size[-1] // output[-1], prod(size) / prod(output)
    run = channels if channels >= LANES else size[-1] * channels
    if large and run % LANES == 0 and (channels > 1 or LANES % along == 0):
        return True
    if channels == 1:
        return box <= LARGE_BOX and along <= (3 if large else 2)
    return box <= (LARGER_BOX if channels >= LANES and not large else LARGE_BOX)


def boxes(axes: Axes) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """How wide windows are, and how far from one to the next, that share no element, all alike from the first element
    on. Between them and behind the last ones elements are in none.
    """
    box, apart = [], []
    for axis in axes:
        b = max(int(axis.stop[0]), 1) if len(axis.stop) else 1
        n = int(axis.start[1]) if len(axis.start) > 1 else b
        alike = (axis.start == n * np.arange(len(axis.start))).all() and (axis.stop == axis.start + b).all()
        if not alike or n < b or axis.step != 1:
            return None
        box.append(b)
        apart.append(n)
    return tuple(box), tuple(apart)


def backward_plan(axes: Axes, shape: Shape, rank: int, last: bool, itemsize: int, override: bool) -> tuple[Plan, int]:
    """The kernel for the gradient of these windows' averages, and how many units of work it has."""
    if override or geometry.shared_count(axes):
        output = tuple(len(axis.start) for axis in axes)[-rank:]
        found = scatters(shape, output, rank, last, itemsize, WIDE_AVERAGE, axes)
        if found is not None:
            worker, steps = found
            return Plan(worker, steps.header, geometry.shared_count(axes), 0, (), steps), steps.units
        if all(map(is_invertible, axes)):
            return inverse_plan(axes, shape, rank, last)
    return scattering_plan(axes, shape[-rank - 1], last), prod(shape[:-rank])


def is_invertible(axis: Axis) -> bool:
    """Whether gradients are sums over the windows that hold an element: these are a range of them, and not long."""
    return axis.step == 1 and len(axis.start) > 0 and not geometry.is_long(axis.kernel, axis.size)


def memory_of(value: Any) -> int:
    """Bytes of all tables in tuples in tuples."""
    if isinstance(value, tuple):
        return sum(map(memory_of, value))
    return int(getattr(value, "nbytes", 0))


class Call(NamedTuple):
    """All that follows from the arguments of a call and the shape of its array."""

    plan: Plan
    shape: Shape  # of the result
    units: int
    # Where long rows are cut into sections: the plans for the first of a row, those in the middle and the last, and
    # what `geometry.walk` says. The plan is the first of these then, and units are sections.
    parts: tuple[Plan, ...] = ()
    walk: NDArray[np.int64] | None = None
    # Where gradients are divided before they are spread: for each part, what each of its rows, or planes, has of the
    # divisor, for each element, and what each of its elements has, for each row.
    shares: tuple[tuple[NDArray[Any], NDArray[Any]], ...] | None = None

    @property
    def nbytes(self) -> int:
        """Of its tables."""
        tables = [(plan.tables, plan.extra, plan.scatter) for plan in self.parts or (self.plan,)]
        return memory_of((self.walk, self.shares, *tables))


PLAIN = frozenset({int, bool, str, tuple, type(None)})


def kinds(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types inside a tuple. As keys (2, 2) and (2.0, True) would be the same, which they are not as arguments."""
    types = tuple(map(type, value))
    if not PLAIN.issuperset(types):
        raise TypeError(f"{value!r} is no key")
    return (types, *[kinds(v) for v in value if v.__class__ is tuple]) if tuple in types else types


class Memory:
    """Bounds the tables that are kept between calls, in whatever dictionaries."""

    def __init__(self) -> None:
        self.places: list[dict[Any, Any]] = []
        self.nbytes = 0

    def takes(self, nbytes: int) -> bool:
        """Whether to keep so many; all others may have to go for it. More than a quarter of all are not kept."""
        if 4 * nbytes > MOST_TABLES:
            return False
        self.nbytes += nbytes
        if self.nbytes > MOST_TABLES:
            for place in self.places:
                place.clear()
            self.nbytes = nbytes
        return True


memory = Memory()


def memoised(function: Callable[..., C]) -> Callable[..., C]:
    """Keep what a call comes down to, keyed by its arguments and their types, lists as tuples; what has no hash besides
    is worked out anew, which takes 100 us.

    The first argument is the shape of an array, which holds nothing but ints.
    """
    memo: dict[Any, C] = {}
    memory.places.append(memo)

    def call(shape: Shape, *args: Any) -> C:
        key: Any
        known = args
        try:
            if list in map(type, args):
                known = tuple(tuple(a) if a.__class__ is list else a for a in args)
            key = shape, kinds(known), known
            kept = memo.get(key)
        except TypeError:
            key = kept = None
        if kept is not None:
            return kept
        # Outside of any handler, whose error a user would read first; of what the key says, as a list may have changed.
        result = function(shape, *known)
        if key is not None:
            if len(memo) >= MOST_CALLS:
                memo.clear()
            if memory.takes(result.nbytes):
                memo[key] = result
        return result

    return call


def sectioned(grid: geometry.Grid, shape: Shape, rank: int, last: bool, result: Shape, include_pad: bool,
              plan: Callable[[Axes, Shape], tuple[Plan, int]], invert: bool = False) -> Call | None:
    """The call for long rows that are cut into sections, each with a `plan` as if it were all there is; or None."""
    elements, images = shape[-rank - 1] if last else 1, prod(shape[: -rank - last])
    cut = geometry.sections(grid, elements, images, invert)
    if cut is None or not images:
        return None
    count, sections = cut
    parts, units = zip(*(plan(section.windows.axes(include_pad), (1, elements, *section.windows.size))
                         for section in sections))
    if any(part.worker is average.spread_planes for part in parts):  # which takes halves widened, and planes
        return None
    return Call(parts[0], result, images * count, parts, geometry.walk(grid, elements, count, sections, units, invert))


def divided(axes: Axes, shape: Shape, rank: int, last: bool, itemsize: int) -> Call | None:
    """The call for gradients of averages that have divisors of their own: by blocks, each divided and then spread by
    the kernel for its windows, as if these had a divisor of 1; or None.
    """
    elements, images = shape[-rank - 1] if last else 1, prod(shape[: -rank - last])
    cut = geometry.blocks(axes, elements, images) if all(map(is_invertible, axes)) and images else None
    if cut is None:
        return None
    # Those of the whole planes, or sums at their ends would be in another arithmetic than in the middle.
    added = additions(geometry.inverse(axes))
    made: dict[tuple[int, int], tuple[Plan, int, tuple[NDArray[Any], NDArray[Any]]]] = {}
    for block in cut.parts:
        if (block.images, id(block.windows)) in made:  # nearly always the second
            continue
        alike = geometry.three(tuple(axis._replace(width=np.ones_like(axis.width)) for axis in block.windows))
        size = tuple(axis.size for axis in alike)
        shape_of = (block.images, elements, *size) if last else (1, block.images, *size)
        plan, units = backward_plan(alike, shape_of, 3, last, itemsize, False)
        depth, height, width = (axis.width.astype(np.float64) for axis in block.windows)
        down, across = np.outer(depth, height).ravel(), np.repeat(width, elements)
        if len(down) * len(across) <= SMALL_PLANE:
            down, across = np.ones(1), np.outer(down, across).ravel()
        dtype = np.float64 if itemsize == 8 else np.float32
        made[block.images, id(block.windows)] = (plan if plan.scatter else plan._replace(additions=added), units,
                                                 (across.astype(dtype), down.astype(dtype)))
    parts, several, shares = zip(*(made[block.images, id(block.windows)] for block in cut.parts))
    walk = geometry.walk_numbers(cut.row, 1, cut.number, cut.apart, [(b.taken, b.given) for b in cut.parts], several)
    return Call(parts[0], shape, cut.rows * cut.number, parts, walk, shares)


def spread(axes: Axes, shape: Shape, rank: int, last: bool, itemsize: int, override: bool) -> Call:
    """The call for the gradient of these windows' averages."""
    call = None if override or geometry.shared_count(axes) else divided(axes, shape, rank, last, itemsize)
    if call is not None:
        return call
    plan, units = backward_plan(axes, shape, rank, last, itemsize, override)
    return Call(plan, shape, units)


def check_memory(result: Shape, *lengths: Shape) -> None:
    """What no memory holds fails here, before tables of its length are made: up to 64 bytes an entry."""
    nbytes = prod(result) + 64 * sum(map(sum, lengths))
    if nbytes > MOST_BYTES:
        np.empty(nbytes, np.int8)


def check_row(shape: Shape, rank: int, last: bool, width: int) -> None:
    """Kernels whose lanes are columns count a row's elements in 32 bits. `width` is the other array's."""
    channels = shape[-rank - 1] if last and shape[-rank - 1] <= LANES else 1
    elements = max(shape[-1], width) * channels
    if elements > LONGEST_ROW:
        raise ValueError(f"a row must have at most {LONGEST_ROW} elements, times the channels in channels-last memory "
                         f"of up to {LANES}, got {elements}")


@memoised
def uniform(shape: Shape, rank: int, last: bool, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
            ceil_mode: bool, include_pad: bool, reduction: str) -> Call:
    grid = geometry.grid(shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode)
    check_row(shape, rank, last, grid.output[-1])
    result = (*shape[:-rank], *grid.output)
    if reduction == "argmax":
        note(grid)
    if reduction != "norm":
        # `narrow_rows` allocates, for every section anew: a maximum over 3 int8 at stride 2 would take 9 times as long.
        kind = "max" if reduction in NARROW else reduction
        call = sectioned(grid, shape, rank, last, result, include_pad,
                         partial(forward_plan, rank=rank, last=last, reduction=kind))
        if call is not None:
            return call
    check_memory(result, grid.output)
    plan, units = forward_plan(grid.axes(include_pad), shape, rank, last, reduction)
    return Call(plan, result, units)


@memoised
def uniform_backward(grad_shape: Shape, input_shape: Any, rank: int, last: bool, itemsize: int, kernel_size: Any,
                     stride: Any, padding: Any, dilation: Any, ceil_mode: bool, include_pad: bool,
                     override: bool) -> Call:
    shape = geometry.input_shape(input_shape, rank, grad_shape[:-rank])
    geometry.check_not_empty(shape, rank)
    grid = geometry.grid(shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode)
    geometry.check_output(grad_shape, (*shape[:-rank], *grid.output), f" for input_shape {shape}")
    check_row(shape, rank, last, grid.output[-1])
    if override or grid.is_even(include_pad):
        call = sectioned(grid, shape, rank, last, shape, True,
                         partial(backward_plan, rank=rank, last=last, itemsize=itemsize, override=override), True)
        if call is not None:
            return call
    check_memory(shape, shape[-rank:], grid.output)
    return spread(grid.axes(include_pad), shape, rank, last, itemsize, override)


@memoised
def norm_backward(shape: Shape, rank: int, last: bool, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                  ceil_mode: bool) -> Call:
    """The call of the forward, and in addition, for windows without dilation, the tables of the inverse geometry."""
    call = uniform(shape, rank, last, kernel_size, stride, padding, dilation, ceil_mode, True, "norm")
    grid = geometry.grid(shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode)
    inverse = () if max(grid.dilation) > 1 else (geometry.pack(geometry.inverse(grid.axes()), shape[-rank - 1], last),)
    return call._replace(plan=call.plan._replace(extra=inverse))


@memoised
def adaptive(shape: Shape, rank: int, last: bool, output_size: Any, reduction: str) -> Call:
    size = shape[-rank:]
    output = geometry.adaptive(size, output_size)
    check_row(shape, rank, last, output[-1])
    check_memory((*shape[:-rank], *output), output)
    plan, units = forward_plan(geometry.adaptive_axes(size, output), shape, rank, last, reduction)
    return Call(plan, (*shape[:-rank], *output), units)


@memoised
def adaptive_backward(grad_shape: Shape, input_shape: Any, rank: int, last: bool, itemsize: int) -> Call:
    shape = geometry.input_shape(input_shape, rank, grad_shape[:-rank])
    geometry.check_not_empty(shape, rank)
    check_row(shape, rank, last, grad_shape[-1])
    check_memory(shape, shape[-rank:], grad_shape[-rank:])
    axes = geometry.adaptive_axes(shape[-rank:], grad_shape[-rank:])
    return spread(axes, shape, rank, last, itemsize, False)


class Route(NamedTuple):
    """What indices need to know of the planes they lead into."""

    shape: Shape  # of the result
    channels: int  # that share an image's pixels in channels-last memory, else 1
    units: int  # images or planes
    plane: int  # elements of a plane that is written
    per_plane: int  # indices of a plane
    scatter: Scatter | None  # for windows that the indices may have come from, where that is worth a try

    @property
    def nbytes(self) -> int:
        """Of its tables."""
        return sum(getattr(table, "nbytes", 0) for table in self.scatter.rest) if self.scatter else 0


# Windows of maxima with indices, by the lengths of their axes before and after: of each the last that was planned.
noted: dict[tuple[Shape, Shape], geometry.Grid] = {}


guessed: list[dict[Any, Any]] = []  # recipes that these have led to


def note(grid: geometry.Grid) -> None:
    """The windows are planned, for the first time. What others of the same lengths have led to would be tried first,
    and kept where it fails.
    """
    if len(noted) >= MOST_CALLS:
        noted.clear()
    if noted.get((grid.size, grid.output), grid) != grid:
        for recipes in guessed:
            recipes.clear()
    noted[grid.size, grid.output] = grid


def gathers(grid: geometry.Grid, shape: Shape, rank: int, last: bool) -> Scatter | None:
    """The kernel for windows that share elements, where it is faster than scattered additions."""
    if not (wide_registers() and prod(grid.kernel) <= FEW_SHARED and set(grid.dilation) == {1}):
        return None
    axes = grid.axes()
    taken = prod(shape[:-rank]) * prod(grid.output)
    worker: Any = gather_pixels
    steps: tuple[Any, ...] = ()
    if last:
        if shape[-rank - 1] < MANY_CHANNELS:
            return None
    elif rank < 3 and prod(shape) >= LARGE_SHARED * axes[2].stride and fills_steps(axes):
        worker, steps = gather_rows, geometry.phases(axes[2])
    else:
        return None
    inverse = geometry.inverse(axes)
    tables = geometry.pack(inverse, shape[-rank - 1], last)
    return Scatter(worker, rows(inverse, shape, rank, last), (*steps, tables), taken)


def fills_steps(axes: Axes) -> bool:
    """Whether rows are more than one step of `gather_rows` and fill three quarters of all, and as many as a window has
    stay in the caches. 3x3/2 takes 0.86 of the time at 80 of 96 elements, 0.96 at 48 of 64, 1.1 at 41 of 64 or 28 of
    32; 3x3/1 0.85 at 36 of 48, 1.15 at 20 of 32.
    """
    _, height, width = axes
    if not geometry.has_phases(width):
        return False
    steps = geometry.phase_steps(width)
    elements = steps * LANES * width.stride
    return steps > 1 and 4 * width.size >= 3 * elements and height.kernel * elements <= LARGEST_ROW


@memoised
def route(grad_shape: Shape, input_shape: Any, rank: int, last: bool, itemsize: int, accumulate: bool,
          windows: tuple[Any, ...] | None) -> Route:
    """Where windows are those of a `Grid`, or whatever shapes suggest."""
    shape = geometry.input_shape(input_shape, rank, grad_shape[:-rank])
    channels = shape[-rank - 1] if last else 1
    units = prod(shape[: -rank - last])
    grid = geometry.Grid(*windows) if windows else None
    scatter = None
    if grid is not None and any(k > s and n > 1 for k, s, n in zip(grid.kernel, grid.stride, grid.output)):
        scatter = gathers(grid, shape, rank, last)
    elif (found := scatters(shape, grad_shape[-rank:], rank, last, itemsize, WIDE_ROW)) is not None:
        worker, tables = found
        nbytes = prod(shape) * itemsize
        scatter = Scatter(worker, tables.units, (accumulate, None, *scatter_rest(tables, nbytes)))
    return Route(shape, channels, units, prod(shape[-rank:]), prod(grad_shape[-rank:]), scatter)
