"""Any windows, along rows and down columns: maxima along rows first, sums down columns first.

Elements of a column lie a row apart, as pixels do whose channels are the elements of a row. So columns are walked as
windows of such pixels. What goes on along rows is turned, as `turned` turns planes: 32 rows become the channels of an
image, whose pixels are the elements of a row. So all lanes are used, however few planes or channels there are.

Long rows are cut into *pieces*, whose windows are walked by themselves. Where there are few rows, the pieces of a row
that are alike become the channels.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from .._windows import Axis, shared_count
from ..simd import (
    LANES,
    add,
    at_least,
    at_most,
    average_by_counts,
    convert,
    empty,
    equal,
    greater,
    indices,
    infinite_lanes,
    lanes_inside,
    load,
    load_some,
    memory,
    memory_as,
    select,
    splat,
    store,
    store_some,
    wide_registers,
)
from ._compile import by_types, helper, worker
from ._job import COUNTS, Call, Windows, divisors
from ._program import Table
from ._reductions import GROUP, averaged, beside, nothing, numbers, outside, shared
from ._stages import STAGE_MADE, Bands, along, are_wide, bands_of, begins_before, down, same
from .taps import most_elements, pool_band, room_between, several, undivided
from .turned import copy_rows, turn_in, turn_out

PIECE = 1 << 9  # elements of a piece, unless windows are longer: 32 pieces and their results stay in the second cache
LINE = 1 << 11  # elements of a piece at stride 1, which stays in the first cache
MOST_BETWEEN = 1 << 20  # elements between the two ways, if 32 rows have so many
LONG_ROW, LONGER_ROW, FEW_COLUMNS = 64, 1 << 10, 3  # see `plan_first`
LONG_WINDOW = 32  # bytes of a window, see `plan_counted`
TOGETHER = 1 << 12  # rows of several planes that are walked together, at most
BEGIN = np.int64(0)  # not a literal 0, for which Numba would compile a helper once more

# The numbers of a part, which is some pieces of a row that are alike. COLUMN, COLUMNS: the first column of a piece, and
# how many it has. WINDOW, WINDOWS: its first window, and how many. ALIKE: how many pieces there are. COLUMNS_APART,
# WINDOWS_APART: how far each is from the next.
COLUMN, COLUMNS, WINDOW, WINDOWS, ALIKE, COLUMNS_APART, WINDOWS_APART = range(7)


class Across(NamedTuple):
    """How windows are walked along rows."""

    stages: Table  # (parts * stages, 4): `Bands.stages` of each part
    bands: Table  # (parts, 2 + 2 * stages): `Bands.bands` of each part, which has one row
    parts: Table | None  # (parts, 7); None for windows at stride 1, for which nothing is turned
    by_pieces: int  # whether the pieces of a row become channels
    before: int  # columns of padding before a row; below 0 if the first window begins behind its start
    columns: NDArray[np.int32] | None  # if rows have padding and indices are wanted: the column of each element


def plan_first(job: Windows) -> Call | None:
    """Rows that are walked here although `strips` or `steps` could serve them: where registers are narrower than a
    vector, and lanes are picked slowly. Windows of three columns or more take 0.4 to 0.9 of the time if rows are long,
    and if there are enough of them to be turned, or pieces of them.
    """
    if wide_registers() or not job.outputs:
        return None
    depth, height, width = job.axes
    row, rows = min(width.size, width.n) * job.elements, min(depth.size * height.size, depth.n * height.n)
    enough = row >= (LONG_ROW if rows >= LANES else LONGER_ROW)
    return plan(job) if enough and job.elements < LANES and width.longest >= FEW_COLUMNS else None


def plan_counted(job: Windows) -> Call | None:
    """Long windows at stride 1 along signals, whose elements are counted. Here nothing is turned: float64 takes 0.4 to
    0.7 of the time.
    """
    depth, height, width = job.axes
    signals = job.outputs and depth.size * height.size == 1 and width.stride == 1 and width.n >= LONG_ROW
    return plan(job) if signals and not job.last and width.longest * job.dtype.itemsize >= LONG_WINDOW else None


def plan(job: Windows) -> Call:
    """Any windows."""
    kernel = summed_rows if job.summed else window_rows
    if not job.outputs or not job.images:
        return job.made(kernel, 0, (), job.additions)
    (depth, height, width), E, together = job.axes, job.elements, 1
    rows, made, downwards = depth.size * height.size, depth.n * height.n, down(job)
    alone = not downwards  # rows: then it does not matter of which plane a row is
    if alone:
        together = max(n for n in range(1, max(TOGETHER // rows, 1) + 1) if job.images % n == 0)
        downwards = [(same(1), same(rows * together), same(1))]
    between = (max(width.size, width.n) if job.summed else width.n) * E  # elements of a row between the two ways
    most = max(2 * most_elements(job, between), min(4 * GROUP, MOST_BETWEEN // between))
    bands = bands_of(job, downwards, most)
    most_read, most_made = bands.bands[:, 1].max(), bands.bands[:, -1].max()
    programs, across, taken, given = padded(job, bands.programs.size) or turned(job, most_read, bands.programs.size)
    both = several(downwards), several(across.stages[: len(across.stages) // len(across.bands)])  # of the first part
    sizes = tuple(map(int, (E, width.size, width.n, rows, made, together, taken * E, given * E, most_read, most_made)))
    stages, rest = None if alone and not job.summed else bands.stages, (bands.bands, tuple(across), both, sizes)
    if job.summed:
        alike = not job.counted and (job.divisor or shared_count(job.windows or job.axes))
        rest = *rest, None if alike else counts_of(job, together)
    programs = np.concatenate((bands.programs, *programs))
    return job.made(kernel, job.images // together * len(bands.bands), (programs, stages, *rest), job.additions)


def counts_of(job: Windows, planes: int) -> Table:
    """What the rows of each window contribute to its divisor, for so many planes; and then, for each element of a row
    of windows, what its columns contribute. Two vectors more may be read. Where elements are counted, the same follows
    for the rows and columns that lie inside the array; and these are numbers as sums are, which are quickly multiplied.
    """
    tables, made = [[axis.width for axis in job.axes]], []
    if job.counted:
        tables = [[width & COUNTS for width in tables[0]], [axis.lengths for axis in job.axes]]
    for depth, height, width in tables:
        rows = np.tile(np.outer(depth, height).ravel(), planes)
        made += [rows, np.repeat(width, job.elements), np.ones(2 * LANES, np.int64)]
    counts: Table = np.concatenate(made)
    return counts.astype(divisors(job.dtype, job.divisor, job.additions, 0).dtype) if job.counted else counts


Walked = tuple[list[Table], Across, int, int]  # programs along rows; how; the most columns and windows of a piece


def padded(job: Windows, begin: int) -> Walked | None:
    """How windows at stride 1 are walked along rows with their padding; None for others, and for windows that would
    need far more padding than there are columns. The programs stand at `begin` of a table. Sums of sums are always
    walked like this.

    Padding holds the neutral element. It may be the first of equal elements, if they are all as low as that. Then the
    first element of the row is meant; where windows are dilated it is another.
    """
    along_row, width = (job.windows or job.axes)[2], job.axes[2]
    kernel, step = along_row.kernel, width.step
    reach = (kernel - 1) * step + 1
    wide = job.summed and are_wide(along_row)
    if not wide and (along_row.stride != 1 or width.longest < kernel or width.is_empty
                     or width.n * job.elements < LANES or (job.indexed and step > 1)):
        return None
    piece = min(max(LINE // job.elements, 2 * reach), width.n)  # windows
    start = np.arange(piece, dtype=np.int64)
    axis = Axis(piece - 1 + reach, start, start + reach, step, np.ones_like(start), 1, kernel, 0)
    made = one_row(job, along(job, axis, False), begin, True)
    before, taken = begins_before(job), width.n - 1 + reach
    columns = np.repeat(np.arange(taken, dtype=np.int32), job.elements) if job.indexed else None
    return [made.programs], Across(*made[1:], None, 0, before, columns), taken, piece


def turned(job: Windows, rows: int, begin: int) -> Walked:
    """How any windows are walked along rows, `rows` rows at a time."""
    parts, axes = pieces_of(job)
    stages = [[axis] if job.summed else along(job, axis) for axis in axes]
    most = max(map(len, stages))
    programs, tables, bands = [], [], []
    for axis, own in zip(axes, stages):
        made = one_row(job, [same(axis.size)] * (most - len(own)) + own, begin)  # all parts have as many stages
        programs.append(made.programs)
        tables.append(made.stages)
        bands.append(made.bands[0])
        begin += made.programs.size
    by_pieces = rows < min(LANES, parts[:, ALIKE].max())
    across = Across(np.concatenate(tables), np.stack(bands), parts, int(by_pieces), 0, None)
    return programs, across, *parts[:, [COLUMNS, WINDOWS]].max(0).tolist()


def one_row(job: Windows, stages: list[Axis], begin: int, carried: bool = False) -> Bands:
    """The only band of a row, for stages along it."""
    return bands_of(job, [(same(1), same(1), axis) for axis in stages], 1, begin=begin, carried=carried)


def pieces_of(job: Windows) -> tuple[Table, list[Axis]]:
    """The parts of a row, and the windows of a piece of each, counted from its first column."""
    width, E, numbers, axes, shapes = job.axes[2], job.elements, [], [], []
    longest = max(int((width.reach - width.start).max()), 1)
    columns = max(PIECE // E, 2 * longest)
    many = width.n
    if columns < width.size:
        many = min(max((columns - longest) * width.n // width.size, 1), columns)
    for window in range(0, width.n, many):
        # Empty windows may begin and end far outside of the axis.
        start, stop, reach = (np.where(width.lengths, ends, 0)[window : window + many]
                              for ends in (width.start, width.stop, width.reach))
        column = int(min(start.min(), width.size - 1))
        shape = (start - column).tobytes() + (stop - column).tobytes()
        if shapes[-1:] == [shape]:
            part = numbers[-1]
            if part[ALIKE] == 1:
                part[COLUMNS_APART], part[WINDOWS_APART] = column - part[COLUMN], many
            if column == part[COLUMN] + part[ALIKE] * part[COLUMNS_APART]:
                part[ALIKE] += 1
                continue
        size = max(int(reach.max()) - column, 1)
        shapes.append(shape)
        numbers.append([column, size, window, len(start), 1, 0, 0])
        axes.append(width.replaced(size=size, start=start - column, stop=np.minimum(stop - column, size),
                                   width=np.ones_like(start)))
    return np.array(numbers, np.int64), axes


# What a thread has beside its results. `pixels` is an image that is turned, `results` and `found` are what is found
# along its rows, with its indices. `near`, `near_results`, `near_found` are for what is too small to be turned.


def room_along(x, carried, y, index, parts, taken, given, pad):
    """The arrays of `along_rows`, for rows of x of at most `taken` elements and results in y of at most `given`."""


@by_types(room_along)
def _room_along(x, carried, y, index, parts, taken, given, pad):
    if not isinstance(parts, types.NoneType):
        return room_to_turn

    def with_padding(x, carried, y, index, parts, taken, given, pad):
        return filled(empty(x, taken + LANES), pad)

    return with_padding


@helper
def filled(array, value):
    """The array, of which every whole vector holds the same value from now on."""
    v = convert(array, value)
    for i in range(0, array.size - LANES + 1, LANES):
        store(array, i, v)
    return array


def zeroed(array):
    """The array, filled with 0, if its size is a multiple of sixteen; None for None."""


@by_types(zeroed)
def _zeroed(array):
    if isinstance(array, types.NoneType):
        return lambda array: None
    return lambda array: filled(array, splat(array, 0))


def room_to_turn(x, carried, y, index, parts, taken, given, pad):
    taken, given = at_least(taken, LANES), at_least(given, LANES)
    # Channels that no row is turned into hold 0: all lanes are looked at for infinite maxima.
    pixels, near = zeroed(empty(x, (taken + LANES) * GROUP)), zeroed(empty(x, taken * GROUP))
    results, near_results = empty(y, (given + LANES) * GROUP), empty(y, given * GROUP)
    return (pixels, results, empty(index, results.size), near, near_results, empty(index, near_results.size),
            empty(index, GROUP), empty(carried, pixels.size), empty(carried, near.size))


@helper
def put_found(found, near, results, index, to, stride, rows, count, places):
    """`turn_out` for the indices of what is found along rows. They count from where a row begins, so that the `places`
    of the rows in the plane are added; -1 stays.
    """
    none = indices(-1, 0)
    for lane in range(0, GROUP, LANES):
        place = load(places, lane)
        for i in range(lane, count * GROUP, GROUP):
            v = load(found, i)
            store(found, i, select(equal(v, none), v, add(v, place)))
    turn_out(memory_as(found, results), memory_as(near, results), memory_as(index, results), to, stride, rows, count)


def along_rows(source, carried, target, index, begin, pitches, rows, spot, way, room, between, sums, top):
    """Walk the windows along `rows` rows, 32 at most; or along one row whose pieces become channels.

    `begin` is where the first row begins in `source`, and where in `target` and `index`; `pitches` are how far the next
    one is behind it. `spot` is the number of the first row in its plane, how many rows a plane has, and how many
    columns and windows a row. `way` is how to walk: an `Across`, its programs, and the elements of a column. `sums` are
    the divisors, what sums are divided by, and what an empty window holds. Rows that are summed stand between padding.
    Where elements are counted, `carried` has the counts of the source, and `index` is for those of the results; else
    `carried` is None. Returns the larger of `top` and all maxima.
    """


@by_types(along_rows)
def _along_rows(source, carried, target, index, begin, pitches, rows, spot, way, room, between, sums, top):
    return rows_as_they_are if isinstance(way[2], types.NoneType) else rows_turned


def rows_as_they_are(source, carried, target, index, begin, pitches, rows, spot, way, room, between, sums, top):
    (stages, bands, _, _, before, columns, programs, E), (row, high, wide, long), (divisors, by, none) = way, spot, sums
    piece = stages[stages.shape[0] - 1, STAGE_MADE]
    for i in range(rows):
        at, to = begin[0] + i * pitches[0], begin[1] + i * pitches[1]
        if divisors is None:
            copy_rows(source, at, BEGIN, memory(room), before * E, BEGIN, np.int64(1), wide * E)
        for window in range(0, long, piece):
            first = at_most(window, long - piece) * E  # the last piece reaches back over the one before it
            if divisors is None:
                top = pool_band(bands[0], programs, stages, memory(room), memory(columns), target, memory(index),
                                between, (first, to + first), (E, E, E), divisors, by, none, top)
            else:
                pool_band(bands[0], programs, stages, source, memory(carried), target, memory(index), between,
                          (at + first, to + first), (E, E, E), divisors, by, none, top)
        if divisors is None:
            add_place(index, to, long * E, before, (row + i) % high * wide)
    return top


def add_place(index, to, count, before, place):
    """Make indices in the plane out of those in a row with its padding. Its first element has the index `place`."""


@by_types(add_place)
def _add_place(index, to, count, before, place):
    if isinstance(index, types.NoneType):
        return lambda index, to, count, before, place: None

    def add_to_each(index, to, count, before, place):
        zero = indices(0, 0)
        for i in range(0, count, LANES):
            m = lanes_inside(i, count)
            column = add(load_some(index, to + i, m, zero), indices(-before, 0))
            store_some(index, to + i, add(greater(column, zero), indices(place, 0)), m)

    return add_to_each


def rows_turned(source, carried, target, index, begin, pitches, rows, spot, way, room, between, sums, top):
    (stages, bands, parts, by_pieces, _, _, programs, E), (row, high, wide, _), (divisors, by, none) = way, spot, sums
    pixels, results, found, near, near_results, near_found, places, pixel_counts, near_counts = room
    pixel, each = GROUP * E, stages.shape[0] // parts.shape[0]
    for p in range(parts.shape[0]):
        many, count, given = parts[p, ALIKE], parts[p, COLUMNS] * E, parts[p, WINDOWS] * E
        for piece in range(0, many, GROUP if by_pieces else 1):
            column = parts[p, COLUMN] + piece * parts[p, COLUMNS_APART]
            at, to = begin[0] + column * E, begin[1] + (parts[p, WINDOW] + piece * parts[p, WINDOWS_APART]) * E
            lanes, (pitch, stride) = rows, pitches
            if by_pieces:
                lanes = at_most(many - piece, GROUP)
                pitch, stride = parts[p, COLUMNS_APART] * E, parts[p, WINDOWS_APART] * E
            turn_in(source, at, pitch, memory(pixels), memory(near), lanes, count)
            if carried is not None:
                turn_in(memory_as(carried, results), at, pitch, memory_as(pixel_counts, results),
                        memory_as(near_counts, results), lanes, count)
            top = pool_band(bands[p], programs, stages[p * each : (p + 1) * each], memory(pixels),
                            memory(pixel_counts), memory(results), memory(found), between, (BEGIN, BEGIN),
                            (pixel, pixel, pixel), divisors, by, none, top)
            if carried is not None:
                turn_out(memory_as(found, results), memory_as(near_found, results), memory_as(index, results), to,
                         stride, lanes, given)
            elif index is not None:
                for lane in range(GROUP):
                    i = at_most(lane, lanes - 1)
                    if by_pieces:
                        places[lane] = row % high * wide + column + i * parts[p, COLUMNS_APART]
                    else:
                        places[lane] = (row + i) % high * wide + column
                put_found(found, near_found, results, index, to, stride, lanes, given, places)
            turn_out(memory(results), memory(near_results), target, to, stride, lanes, given)
    return top


def between_ways(alone, y, x, divisors, size):
    """An array of `size` numbers for what is found along rows: y itself if `alone` is None."""


@by_types(between_ways)
def _between_ways(alone, y, x, divisors, size):
    if isinstance(alone, types.NoneType):
        return lambda alone, y, x, divisors, size: y
    return lambda alone, y, x, divisors, size: numbers(x, divisors, size)


@helper
def columns_of(x, y, index, lined, places, band, programs, stages, room, to, pitch, long, divisors, none, top):
    """Walk the windows down columns of a band, out of what was found along its rows. The results of the plane begin at
    element `to` of y and `index`. Rows of fewer than sixteen results are `pitch` elements apart at first.
    """
    last = 2 * stages.shape[0]
    out, outs = band[last], band[last + 1]
    if long == pitch:
        return pool_band(band, programs, stages, memory(lined), memory(places), memory(y), memory(index), room,
                         (-band[0] * pitch, to), (pitch, pitch, pitch), divisors, shared(divisors), none, top)
    near, near_index = empty(y, outs * LANES), empty(index, outs * LANES)
    top = pool_band(band, programs, stages, memory(lined), memory(places), memory(near), memory(near_index), room,
                    (-band[0] * pitch, -out * pitch), (pitch, pitch, pitch), divisors, shared(divisors), none, top)
    copy_rows(memory(near), BEGIN, pitch, memory(y), to + out * long, long, outs, long)
    if index is not None:
        copy_rows(memory(near_index), BEGIN, pitch, memory(index), to + out * long, long, outs, long)
    return top


@worker
def window_rows(lo, hi, x, y, index, divisors, programs, stages, bands, across, several, sizes):
    """Units [lo, hi): bands of rows, counted through all planes, or images channels last: maxima. If `stages` is None,
    there is nothing to do down columns.
    """
    (E, W, OW, R, M, together, most_taken, most_given, most_read, _), many = sizes, bands.shape[0]
    wide, long, top = W * E, OW * E, nothing(x, divisors)
    pitch, none, step = at_least(long, LANES), top, GROUP if across[3] == 0 else 1
    lined = between_ways(stages, y, x, divisors, most_read * pitch)
    places = index if stages is None else empty(index, lined.size)
    if stages is not None and long < LANES:
        filled(lined, none)  # all lanes are looked at for infinite maxima
    way = *across, programs, E
    room = room_along(x, None, lined, index, across[2], most_taken, most_given, outside(x, divisors))
    between = room_between(several[1], x, index, divisors, across[0], E if across[2] is None else GROUP * E)
    rest = room_between(several[0], x, index, divisors, stages, pitch)
    for unit in range(lo, hi):
        q, band = unit // many * together, bands[unit % many]
        for r in range(0, band[1], step):
            row, rows = band[0] + r, at_most(band[1] - r, step)
            begin, pitches = ((q * R + row) * wide, (q * M + row) * long), (wide, long)
            if stages is not None:
                begin, pitches = (begin[0], r * pitch), (wide, pitch)
            found = along_rows(memory(x), None, memory(lined), places, begin, pitches, rows, (row, R, W, OW), way,
                               room, between, (divisors, shared(divisors), none), top)
            if stages is None:
                top = found
        if stages is not None:
            top = columns_of(x, y, index, lined, places, band, programs, stages, rest, q * M * long, pitch, long,
                             divisors, none, top)
    return infinite_lanes(top)


def divided_by(counts, divisors):
    """What sums are divided by while they are added up: by the divisor that they share, or if they have `counts` by
    nothing yet.
    """


@by_types(divided_by)
def _divided_by(counts, divisors):
    if isinstance(counts, types.NoneType):
        return lambda counts, divisors: shared(divisors)
    return lambda counts, divisors: undivided(divisors)


@worker
def summed_rows(lo, hi, x, y, index, divisors, programs, stages, bands, across, several, sizes, counts):
    """Units [lo, hi), as in `window_rows`: sums. `counts` is None if all windows have the same divisor, or what
    `counts_of` returns.
    """
    (E, W, OW, R, M, together, most_taken, most_given, most_read, most_made), many = sizes, bands.shape[0]
    wide, long, none, is_padded = W * E, OW * E, nothing(x, divisors), across[2] is None
    lead, step = at_least(across[4], 0) * E, GROUP if across[3] == 0 else 1
    first = lead - across[4] * E  # where the first window begins: behind the lead, if it holds no padding
    pitch = at_least(lead + at_least(wide, LANES), first + most_taken)
    stride = (long + LANES - 1) // LANES * LANES
    lined = filled(numbers(x, divisors, most_made * pitch + 2 * LANES), none)
    results = between_ways(counts, y, x, divisors, GROUP * stride)
    carried, found = zeroed(beside(index, x, divisors, lined.size)), beside(index, x, divisors, results.size)
    way = *across, programs, E
    room = room_along(lined, carried, results, found, across[2], most_taken, most_given, none)
    between = room_between(several[1], x, index, divisors, across[0], E if is_padded else GROUP * E)
    near = zeroed(empty(x, most_read * LANES if wide < LANES else 0))
    for unit in range(lo, hi):
        q, band = unit // many * together, bands[unit % many]
        out, outs = band[2], band[3]
        source, at, row = memory(x), q * R * wide, wide
        if wide < LANES:
            row = np.int64(LANES)
            copy_rows(source, at + band[0] * wide, wide, memory(near), BEGIN, row, band[1], wide)
            source, at = memory(near), -band[0] * row
        pool_band(band, programs, stages, source, None, memory(lined), memory(carried), None, (at, lead - out * pitch),
                  (row, pitch, row), divisors, undivided(divisors), none, none)
        for r in range(0, outs, step):
            rows, to = at_most(outs - r, step), (q * M + out + r) * long
            begin, pitches = (r * pitch + first, BEGIN), (pitch, stride)
            if counts is None:
                begin, pitches = (begin[0], to), (pitch, long)
            along_rows(memory(lined), carried, memory(results), found, begin, pitches, rows, (BEGIN, R, W, OW), way,
                       room, between, (divisors, divided_by(counts, divisors), none), none)
            if counts is not None:
                put_quotients(results, found, stride, rows, counts, out + r, M * together, long, divisors, y, to)
    return 0


@helper
def put_quotients(sums, found, stride, rows, counts, row, columns, long, divisors, y, to):
    """Divide some rows of `long` sums, the first of which is number `row`, and put them into y from element `to` on.
    What columns contribute to a divisor begins with number `columns` of the counts. `found` is None, or has the number
    of elements in each sum.
    """
    (divisor, pair), inside = shared(divisors), counts.size // 2
    for i in range(rows):
        for c in range(0, long, LANES):
            v, across = load(sums, i * stride + c), load(counts, columns + c)
            if found is None:
                v = averaged(v, divisor, pair, counts[row + i], across)
            else:
                v = average_by_counts(v, load(found, i * stride + c), divisor, counts[row + i],
                                      counts[inside + row + i], across, load(counts, inside + columns + c), pair)
            store_some(y, to + i * long + c, convert(y, v), lanes_inside(c, long))
