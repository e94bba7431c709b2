"""Stages: large windows as programs that are run one after the other; and bands, the pieces of a plane for that.

Maxima are reduced along rows first, then along columns, then along slices. Sums are taken down the columns first, as
they are added up everywhere. A maximum over more than nine elements along an axis is made of *levels*: one over 13 is
that of four overlapping windows of four elements, which the stage before has found at every place. A level also has
windows that begin before the axis, or end behind it, and are clipped. So the time grows with the sum of a window's
extents, not with their product, and with the square root of a long one.

A *band* is some rows of windows and all that their stages read: it is walked while the second cache holds it.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from .._windows import Axis, is_long, uniform_axis
from ..simd import RECORDS
from ._job import Windows
from ._program import NINE, Axes, Table, program

MOST_LEVELS = 3  # of an axis; windows have at most 9^4 elements along it
CONVERTED = 3  # loads that take as long as to load and convert a half
STORED = 2  # loads that take as long as to store what a stage has found, and to load it for the next stage
MOST_TWICE = 1.25  # rows that the bands of a plane read, as a multiple of those that there are: some are in two bands


class Joined(Axis):
    """Windows that are made of shorter ones, of `known` elements each: of as few as cover them, so that maxima stay the
    same. They are places of the level with the shorter ones; two elements of a window are `step_known` apart.
    """

    nested = False

    def __init__(self, axis: Axis, level: Axis, known: int) -> None:
        elements, step = axis.lengths, axis.step
        # A window that is shorter than those of the level is the one that ends where it ends, if it begins at the
        # start of the axis, and else the one that begins where it begins.
        back = np.where(axis.start < step, np.maximum(known - elements, 0), 0)
        start = axis.start + (known - 1 - back) * step
        super().__init__(level.n, start, start + np.maximum(elements, known), 1, axis.width, axis.stride, 0, 0)
        self.known, self.step_known = known, step

    def hops(self, length: int) -> Table:
        firsts = np.arange(0, length - self.known, self.known, dtype=np.int64)
        return np.append(firsts, length - self.known) * self.step_known


def levels(axis: Axis) -> list[Axis] | None:
    """The windows along an axis as windows of windows, the shortest first; as they are if that is not slower. None
    where windows are too long for that, or empty, or of lengths too different.
    """
    longest, step = axis.longest, axis.step
    count = next((n for n in range(MOST_LEVELS + 1) if NINE ** (n + 1) >= longest), MOST_LEVELS + 1)
    if count == 0:
        return [axis]
    each = next((n for n in range(2, NINE + 1) if n ** (count + 1) >= longest), NINE)  # windows that a window joins
    places = axis.size + each**count
    if axis.n * longest <= places * count * (each + STORED) + axis.n * each:
        return [axis]
    elements = axis.lengths
    inside = (axis.start >= step) & (axis.start + elements * step < axis.size)  # clipped at neither end
    if (count > MOST_LEVELS or not elements.all() or each**count > elements[inside].min(initial=longest)
            or is_long(longest * step, axis.size)):
        return None
    made, known = [], 1
    for _ in range(count):
        before = (known * each - known) * step
        level: Axis = uniform_axis(axis.size + (known - 1) * step, axis.size + (known * each - 1) * step, each, 1,
                                   (before, longest * step), known * step, False)
        made.append(level)
        known *= each
    return [*made, Joined(axis, level, known)]


def same(n: int) -> Axis:
    """The windows along an axis that a stage leaves as it is: of one element each."""
    return uniform_axis(n, n, 1, 1, (0, 0), 1, True)


def stages_of(job: Windows) -> list[Axes]:
    """The windows of each stage, along D, H and W of what the stage before has left: in one stage or in several, as is
    the quicker.
    """
    depth, height, width = job.axes
    if job.summed:
        down = same(depth.n).replaced(width=depth.width), same(height.n).replaced(width=height.width)
        stages = [(depth, height, same(width.size)), (*down, width)]
    else:
        w, h, d = (levels(axis) if axis.longest > 1 or axis.n != axis.size else [] for axis in (width, height, depth))
        if w is None or h is None or d is None:
            w = h = d = []
        stages = [(same(depth.size), same(height.size), axis) for axis in w]
        stages += [(same(depth.size), axis, same(width.n)) for axis in h]
        stages += [(axis, same(height.n), same(width.n)) for axis in d]
    ways = [[job.axes], stages] if stages else [[job.axes]]
    converted = job.dtype.name in RECORDS
    if converted and not job.indexed:  # convert all, once
        as_it_is = same(depth.size), same(height.size), same(width.size)
        ways += [[as_it_is, *way] for way in ways]
    return min(ways, key=partial(cost, first=CONVERTED if converted else 1))


def cost(stages: Sequence[Axes], first: int) -> int:
    """What stages cost for a plane, counted in loads; a load by the first stage counts `first` times."""
    loads = [d.most * h.most * w.most * d.n * h.n * w.n for d, h, w in stages]
    return loads[0] * first + sum(loads[1:]) + STORED * sum(d.n * h.n * w.n for d, h, w in stages[:-1])


class Bands(NamedTuple):
    """How planes are walked by stages."""

    programs: Table  # those of all stages, one after the other
    # For each stage: where its program begins, columns of a row that it reads, and that it writes, and how many rows of
    # a band it writes at most.
    stages: Table
    # For each band: the first row that it reads, and how many; then for each stage the same of what it writes.
    bands: Table


STAGE_AT, STAGE_READ, STAGE_MADE, STAGE_ROWS = range(4)


def bands_of(job: Windows, stages: Sequence[Axes], most: int, whole: bool = True) -> Bands:
    """The bands of a plane whose stages are these. A band takes `most` elements of a plane, unless a row of windows
    takes more or too many rows would be in two bands. Are all channels walked together, or the `whole` of a pixel?
    """
    programs, begins, last = [], [0], len(stages) - 1
    for i, axes in enumerate(stages):
        # Windows can be walked as one where their channels lie without a gap. Indices are told from where windows are.
        flat = (whole or 0 < i < last) and (i > 0 or not job.indexed)
        programs.append(program(axes, job.summed, flat, begins[-1]))
        begins.append(begins[-1] + programs[-1].size)
    spans = [rows_read(axes) for axes in stages]
    read, made = [axes[2].size for axes in stages], [axes[2].n for axes in stages]
    rows = len(spans[-1][0])

    def taken(bands: Table) -> int:
        tall = bands[:, 1::2].max(0)
        return int(tall[0] * read[0] + 2 * (1 + job.indexed) * max(tall[1:] * made))

    bands = rows_of_bands(spans, rows)
    all_read, pieces, limit = bands[:, 1:-2:2].sum(), 1, rows
    while taken(bands) > most and pieces < limit:
        tried = min(max(pieces * 2, taken(bands) * pieces // most), limit)
        more = rows_of_bands(spans, -(-rows // tried))
        if more[:, 1:-2:2].sum() > MOST_TWICE * all_read:
            limit = tried // 2
        else:
            bands, pieces = more, tried
    return Bands(np.concatenate(programs), np.stack((begins[:-1], read, made, bands[:, 3::2].max(0)), 1), bands)


def rows_of_bands(spans: Sequence[tuple[Table, Table]], many: int) -> Table:
    """The table of bands of so many rows of windows. `spans` are the `rows_read` by each stage."""
    first = np.arange(0, len(spans[-1][0]), many)
    stop = np.minimum(first + many, len(spans[-1][0]))
    table = [stop - first, first]
    for starts, ends in reversed(spans):
        pairs = np.stack((first, stop), 1).ravel()
        first = np.minimum.reduceat(np.append(starts, 0), pairs)[::2]
        stop = np.maximum(np.maximum.reduceat(np.append(ends, 0), pairs)[::2], first + 1)
        table += [stop - first, first]
    return np.stack(table[::-1], 1)


def rows_read(axes: Axes) -> tuple[Table, Table]:
    """For each row of windows: the first row that they read and the one behind the last, through all slices. Empty
    windows may begin behind all rows, and are told to begin at the last one.
    """
    depth, height, _ = axes
    rows = depth.size * height.size
    first = np.minimum(depth.start[:, None] * height.size + height.start, rows - 1).ravel()
    last = np.minimum((depth.reach[:, None] - 1) * height.size + height.reach, rows).ravel()
    return first, np.maximum(last, first)
