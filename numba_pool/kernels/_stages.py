"""Stages: large windows as programs that are run one after the other. And bands: the pieces of a plane for that.

A large window takes several *stages*, each of which reads what the one before it has left. Maxima go along rows first,
then along columns, then along slices. Sums go down the columns first, since all kernels add them up in this order. So
the time of a window grows with the sum of its extents, not with their product.

A maximum over more than nine elements of an axis may take several stages along this axis alone. All but the last are
*levels*. One over 13 elements is the maximum of four windows of 4 elements, which overlap; the level has found the
maximum of 4 elements at every place before. A level also has windows that begin before the axis, or end behind it, and
are clipped: windows that are clipped themselves are made of these.

A *band* is some rows of windows, and all that their stages read. All stages of a band are run before the next band is
begun, so that the second cache holds what is between them.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from .._windows import Axis, found_once, is_long, uniform_axis
from ..simd import RECORDS
from ._job import Axes, Windows
from ._program import NINE, Table, program

MOST_LEVELS = 6  # of an axis; windows have at most 9^7 elements along it
CONVERTED = 3  # to load a half, and to convert it, takes as long as so many loads
# To store what a stage has found, and to load it for the next one, takes as long as so many loads: of maxima alone; of
# maxima with indices, and of sums.
STORED_MAXIMUM, STORED = 2, 4
MOST_TWICE = 1.25  # rows that the bands of a plane read, some of them twice, for each row that there is, at most


class Made(Axis):
    """Windows that are made of what a stage has found."""

    nested = False

    @found_once
    def most(self) -> int:
        return max(map(len, self.distances[0]), default=0)

    @found_once
    def reach(self) -> Table:
        hops, which = self.distances
        reach: Table = self.start + np.array([each[-1] + 1 if len(each) else 0 for each in hops])[which]
        return reach


class Joined(Made):
    """The windows of an `axis`, made of the windows of a `level`, which have `known` elements each. A window takes as
    few of these as cover it. An element that is in two of them changes no maximum.

    What is an element along other axes, is a window of the level here: its number is that of the last element that it
    would hold if nothing clipped it; or if no window is clipped, of its first. `step_known` is the dilation of both.
    """

    def __init__(self, axis: Axis, level: Axis, known: int) -> None:
        elements, step = axis.lengths, axis.step
        # Where a border clips a window to fewer elements than `known`, one window of the level is just as long, since
        # the border clips that, too. At the start of the axis it is the one that ends where the window ends, at the
        # end of the axis the one that begins where the window begins.
        back = np.where(axis.start < step, np.maximum(known - elements, 0), 0)
        start = axis.start + (known - 1 - back) * step if level.before else axis.start
        super().__init__(level.n, start, start + np.maximum(elements, known), 1, axis.width, axis.stride, 0, 0)
        self.known, self.step_known = known, step

    def hops(self, length: int) -> Table:
        firsts = np.arange(0, length - self.known, self.known, dtype=np.int64)
        return np.append(firsts, length - self.known) * self.step_known


def divided_into(longest: int) -> tuple[int, int]:
    """For windows of so many elements along an axis: how many stages come before the last one, and how many windows of
    the stage before each window joins, nine at most. For longer windows than MOST_LEVELS serve the count is one more.
    """
    count = next((n for n in range(MOST_LEVELS + 1) if NINE ** (n + 1) >= longest), MOST_LEVELS + 1)
    return count, next((n for n in range(2, NINE + 1) if n ** (count + 1) >= longest), NINE)


def levels(axis: Axis, clipped: bool = True) -> list[Axis] | None:
    """The windows of the stages along one axis, each over what the stage before has left: levels, and the windows that
    are made of them; or the axis as it is, where that is not slower. None where levels would be quicker, but there are
    none: windows are too long, or one is empty, or one that no border clips is shorter than those of the last level.
    Unless windows are `clipped`, all have the same length, and are inside of the axis.
    """
    longest, step = axis.longest, axis.step
    count, each = divided_into(longest)
    if count == 0:
        return [axis]
    places = axis.size + each**count
    if axis.n * (2 * longest - NINE) <= places * count * (each + STORED) + axis.n * each:
        return [axis]
    elements = axis.lengths
    inside = (axis.start >= step) & (axis.start + elements * step < axis.size)  # clipped at neither end
    if count > MOST_LEVELS or not elements.all() or each**count > elements[inside].min(initial=longest):
        return None
    made, known = [], 1
    for _ in range(count):
        before, after = ((known * each - known) * step, longest * step) if clipped else (0, 0)
        more = 1 if clipped else -1  # windows than elements
        level: Axis = uniform_axis(axis.size + more * (known - 1) * step, axis.size + more * (known * each - 1) * step,
                                   each, 1, (before, after), known * step, False)
        made.append(level)
        known *= each
    return [*made, Joined(axis, level, known)]


MANY = 32  # columns of a window, and of a row, and windows in a row, from which on sums are made of sums


def are_wide(axis: Axis) -> bool:
    """Whether sums over the windows of an axis are made of sums: for long windows at stride 1 of a long axis."""
    return (axis.stride == 1 and min(axis.kernel, axis.n, axis.size) >= MANY
            and not is_long((axis.kernel - 1) * axis.step, axis.size))


class Summed(Made):
    """Windows at stride 1, made of sums over 1, `few`, few^2, ... elements. A window takes as many of the longest as it
    has room for, then of the next ones. Where borders clip it, it takes the same sums, without those that hold nothing:
    so in which order its elements are added up does not depend on whether zeros stand in the padding.

    The sums over each length stand one after the other, the longest first: `counts` says how many, `leads` how many
    elements before the axis the first of them begins. The windows are those of `axis`, and begin `before` elements
    before it. A window's `stop` says which sums it takes: how many, and how many it skips before them.
    """

    def __init__(self, axis: Axis, kernel: int, before: int, counts: list[int], leads: list[int], few: int) -> None:
        places, done, begin, known, inside = [], 0, 0, few ** (len(counts) - 1), []
        first = np.arange(axis.n, dtype=np.int64) - before
        for count, lead in zip(counts, leads):
            while kernel - done >= known:
                at = lead + done * axis.step
                places.append(begin + at)
                inside.append((first + at >= 0) & (first + at < count))
                done += known
            begin, known = begin + count, known // few
        held = np.array(inside)
        number, skipped = held.sum(0), held.argmax(0)
        self.places = np.array(places, np.int64)
        start = first + self.places[skipped]
        kind = np.where(number > 0, skipped * (len(places) + 1) + number, 0)
        super().__init__(begin, start, start + kind, 1, axis.width, axis.stride, 0, 0, axis.apart)

    def hops(self, length: int) -> Table:
        skipped, number = divmod(length, len(self.places) + 1)
        places: Table = self.places[skipped : skipped + number] - self.places[skipped]
        return places


def sums_along(axis: Axis, forward: Axis, before: int, clipped: bool = True) -> list[Axis]:
    """The windows of the stages of sums along an axis, which begin `before` elements before it; several if they are
    wide, which is asked of the windows of the `forward`, so that the order of additions does not depend on where an
    array ends. `clipped` is what `levels` takes.
    """
    if not are_wide(forward):
        return [axis]
    longest, step = forward.kernel, axis.step
    count, few = divided_into(longest)
    made: list[Axis] = []
    counts, leads, known = [axis.size], [0], 1
    for _ in range(count):
        longer = axis.size + (1 if clipped else -1) * (known * few - 1) * step
        lead = (few - 1) * known * step if clipped else 0
        level = uniform_axis(counts[0], longer, few, 1, (lead, lead), known * step, False)
        # The sums of the longest windows so far make longer ones. All that there is follows these as it is.
        rest = np.arange(sum(counts), dtype=np.int64)
        start, stop = np.append(level.start, rest), np.append(level.stop, rest + 1)
        made.append(Axis(sum(counts), start, stop, known * step, np.ones_like(start), 0, 0, 0))
        counts, leads, known = [longer, *counts], [leads[0] + lead, *leads], known * few
    return [*made, Summed(axis, longest, before, counts, leads, few)]


def begins_before(job: Windows) -> int:
    """How many elements before a row its first window begins, if nothing clips it: of windows at stride 1."""
    forward = (job.windows or job.axes)[2]
    return (forward.kernel - 1) * forward.step - forward.before if job.gradient else forward.before


def same(n: int) -> Axis:
    """The windows along an axis that a stage leaves as it is: of one element each."""
    return uniform_axis(n, n, 1, 1, (0, 0), 1, True)


def is_same(axis: Axis) -> bool:
    """Whether each window holds the element of its own number alone. Dilated windows may hold another one, or none."""
    if axis.longest > 1 or axis.n != axis.size:
        return False
    return bool(axis.lengths.all() and (axis.start == np.arange(axis.n)).all())


def stages_of(job: Windows) -> list[Axes]:
    """The stages of these windows: one or several, as is the quickest. A stage is the windows along D, H and W of what
    the stage before has left.
    """
    depth, height, width = job.axes
    if job.summed:
        made = same(depth.n).replaced(width=depth.width), same(height.n).replaced(width=height.width)
        stages = [(depth, height, same(width.size)), *((*made, axis) for axis in along(job, width))]
        if len(stages) > 2:  # sums of sums, in every memory order
            return stages
    else:
        w, h, d = ([] if is_same(axis) else levels(axis) for axis in (width, height, depth))
        if w is None or h is None or d is None:
            w = h = d = []
        stages = [(same(depth.size), same(height.size), axis) for axis in w]
        stages += [(same(depth.size), axis, same(width.n)) for axis in h]
        stages += [(axis, same(height.n), same(width.n)) for axis in d]
    ways = [[job.axes], stages] if stages else [[job.axes]]
    converted = job.dtype.name in RECORDS
    if converted and not job.indexed:  # also with a first stage that converts every element once, and no more
        as_it_is = same(depth.size), same(height.size), same(width.size)
        ways += [[as_it_is, *way] for way in ways]
    stored = STORED if job.summed or job.indexed else STORED_MAXIMUM
    return min(ways, key=partial(cost, first=CONVERTED if converted else 1, stored=stored))


def along(job: Windows, width: Axis, clipped: bool = True) -> list[Axis]:
    """The windows of the stages along rows alone; or along a piece of them, whose windows are `width`. Unless these are
    `clipped`, padding stands in the piece.
    """
    if job.summed:
        return sums_along(width, (job.windows or job.axes)[2], begins_before(job) if clipped else 0, clipped)
    return levels(width, clipped) or [width]


def down(job: Windows) -> list[Axes]:
    """The stages along D and H alone, where a row is a pixel; none if these leave all as it is."""
    depth, height, _ = job.axes
    if is_same(depth) and is_same(height):
        return []
    h, d = ([] if is_same(axis) else levels(axis) for axis in (height, depth))
    if job.summed or h is None or d is None:
        return [(depth, height, same(1))]
    stages = [(same(depth.size), axis, same(1)) for axis in h] + [(axis, same(height.n), same(1)) for axis in d]
    return min([[job.axes[:2] + (same(1),)], stages], key=partial(cost, first=1, stored=STORED))


def cost(stages: Sequence[Axes], first: int, stored: int) -> int:
    """How long stages take for a plane, counted in loads. A load by the first stage counts as `first` loads, and each
    element between two stages as `stored` loads. Taps beyond nine are taken in a loop, which takes twice as long.
    """
    taps, windows = zip(*((d.most * h.most * w.most, d.n * h.n * w.n) for d, h, w in stages))
    loads = [(n + max(n - NINE, 0)) * count for n, count in zip(taps, windows)]
    return int(loads[0] * first + sum(loads[1:]) + stored * sum(windows[:-1]))


class Bands(NamedTuple):
    """How planes are walked by stages. A row is a row of pixels, or of windows; rows are counted through all slices."""

    programs: Table  # of all stages, one after the other, flat
    # (stages, 4). Of each stage: where its program begins; how many columns a row that it reads has, and how many a row
    # that it writes; and how many rows of a band it writes at most.
    stages: Table
    # (bands, 2 + 2 * stages). Of each band: the first row that the first stage reads, and how many rows; then of each
    # stage the first row that it writes, and how many.
    bands: Table


STAGE_AT, STAGE_READ, STAGE_MADE, STAGE_ROWS = range(4)


def bands_of(job: Windows, stages: Sequence[Axes], most: int, whole: bool = True, begin: int = 0,
             carried: bool = False) -> Bands:
    """The bands of a plane for these stages. A band takes up to `most` elements of a plane; or more, if one row of
    windows does, or if smaller bands would read too many rows twice. `whole` says whether all channels of a pixel are
    walked together. Their programs stand at `begin` of a larger table. `carried` says whether the first stage is given
    the indices of what it reads.
    """
    programs, begins, last = [], [begin], len(stages) - 1
    for i, axes in enumerate(stages):
        # Windows are walked as one where the channels of one pixel follow those of the last without a gap, as they do
        # between stages. But the first stage makes indices of the places of windows, each of which it has to know.
        flat = (whole or 0 < i < last) and (i > 0 or carried or not job.indexed)
        programs.append(program(axes, job.summed, flat, begins[-1]))
        begins.append(begins[-1] + programs[-1].size)
    # A number more, since `reduceat` looks at the end of the last range, too.
    spans = [(np.append(first, 0), np.append(stop, 0)) for first, stop in map(rows_read, stages)]
    read, made = [axes[2].size for axes in stages], [axes[2].n for axes in stages]
    rows = len(spans[-1][0]) - 1

    def taken(bands: Table) -> int:
        """The elements that the largest band takes: those that it reads, and what two stages leave with its indices."""
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
    """The table `Bands.bands`, if a band has so many rows of windows. `spans` are the `rows_read` by each stage, each
    with a number more. What the last stage reads is what the one before it has to write, and so on, back to the first.
    """
    rows, at = len(spans[-1][0]) - 1, 2 * len(spans)
    first = np.arange(0, rows, many)
    pairs, table = np.empty((len(first), 2), np.int64), np.empty((len(first), at + 2), np.int64)
    pairs[:, 0], pairs[:, 1] = first, np.minimum(first + many, rows)
    table[:, at], table[:, at + 1] = pairs[:, 0], pairs[:, 1] - pairs[:, 0]
    for starts, ends in reversed(spans):
        first, stop = np.minimum.reduceat(starts, pairs.ravel())[::2], np.maximum.reduceat(ends, pairs.ravel())[::2]
        pairs[:, 0], pairs[:, 1] = first, np.maximum(stop, first + 1)
        at -= 2
        table[:, at], table[:, at + 1] = first, pairs[:, 1] - first
    return table


def rows_read(axes: Axes) -> tuple[Table, Table]:
    """For each row of windows: the first row that they read and the one behind the last, through all slices. Empty
    windows may begin behind all rows, and are told to begin at the last one.
    """
    depth, height, _ = axes
    rows = depth.size * height.size
    first = np.minimum(depth.start[:, None] * height.size + height.start, rows - 1).ravel()
    last = np.minimum((depth.reach[:, None] - 1) * height.size + height.reach, rows).ravel()
    return first, np.maximum(last, first)
