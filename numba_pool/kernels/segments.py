"""Segments: windows over the rows of an array, each of a length of its own. Lanes are channels: the columns of a row.

`offsets` says where each segment begins, and where the last one ends. It is another one at every call, as sentences and
graphs are. So nothing is planned for a segment: walks read `offsets` themselves.
"""

from math import prod
from struct import Struct
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from .._windows import CHANNELS, DEPTH, HEADER, HEIGHT, LAST, OUT_D, OUT_H, OUT_W, WIDTH
from ..simd import (
    LANES,
    MOST_ADDED,
    at_least,
    at_most,
    average_by_counts,
    convert,
    empty,
    greater,
    indices,
    infinite_lanes,
    is_counted,
    lanes_inside,
    load,
    load_some,
    memory,
    rearrange,
    reduce_down,
    splat,
    store,
    store_some,
    wide_registers,
)
from ._asking import ASKED_LATE, ask
from ._compile import by_types, helper, worker
from ._job import MOST_FLOAT32_ADDITIONS, REDUCTIONS, Call, Shape, counting, divisors
from ._reductions import averaged, beside, nothing, numbers, outside, shared
from .nans import put_missing, put_nans
from .runs import average_runs, window_runs

Table = NDArray[np.int64]

CARRIED = MOST_FLOAT32_ADDITIONS + 1  # additions, for the dtype of sums: a segment may be long
MOST_CHANNELS, LEAST_CHANNELS = 1 << 12, 64  # that are walked together; at least, where threads share channels
FEW_UNITS = 16  # units of work: where there are fewer segments, channels are shared among threads
MOST_PARTS = 128  # parts that segments are divided into, for threads to share
LONG = 32  # rows of a segment on average, from which on segments of one channel are walked as runs
OF_ROWS = 1, 1, 1, 1, 1, -1, 1, 1, 0, 0, 0, 0, 1  # steps, strides, kernels, padding before, and channels last
outlined = Struct(f"{LAST + 1}q").pack
# Bytes of some rows that are walked together: they stay in the first cache from one strip of channels to the next.
BLOCK = 1 << 14
# Vectors of a strip of channels. With indices, four take twice the time of two where registers are narrow.
VECTORS = {False: (0, 0), True: (0, 0, 0, 0)}
# Bytes of a row, from which on it pays to ask for the rows two blocks ahead, if the array comes from memory. The core
# would look ahead in eight rows at once: 100 MB of 256 channels take half of the time that they take without.
LONG_ROW = 512


@helper
def segment_of(offsets, part, parts):
    """The segment with which a part begins. Parts have as much work, which is counted in rows and segments."""
    count, first = offsets.size - 1, offsets[0]
    wanted = (offsets[np.uintp(count)] - first + count) * part // parts + first
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if offsets[np.uintp(middle)] + middle < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def begin_places(places, at, index, row):
    """Begin sixteen `places`: with a row, which they keep if no other has a larger element, or with counts of 0."""


@by_types(begin_places)
def _begin_places(places, at, index, row):
    if isinstance(places, types.NoneType):
        return lambda places, at, index, row: None
    if isinstance(index, types.NoneType):
        return lambda places, at, index, row: store(places, at, indices(0, 0))
    return lambda places, at, index, row: store(places, at, indices(row, 0))


def divided(x, sums, counts, at, divisor, reciprocal, rows, none):
    """The sums of so many rows, divided; where elements are counted, by the counts from counts[at] on. Maxima are
    returned as they are.
    """


@by_types(divided)
def _divided(x, sums, counts, at, divisor, reciprocal, rows, none):
    if isinstance(divisor, types.NoneType) or not is_counted(x):
        return lambda x, sums, counts, at, divisor, reciprocal, rows, none: averaged(
            sums, divisor, reciprocal, rows, splat(none, 1))

    def by_counts(x, sums, counts, at, divisor, reciprocal, rows, none):
        return average_by_counts(sums, load(counts, at), divisor, divisor, divisor, none, none, reciprocal)

    return by_counts


@worker
def segment_rows(lo, hi, x, y, index, divisors, offsets, C, wide, parts, block, asked, vectors):
    """Maxima, sums and averages of segments. Units [lo, hi) are `parts` parts of the segments, for `wide` of the C
    channels of a row, and then for the next ones.

    A block of rows is read in strips of channels, each of as many `vectors`. What was found in the blocks before stays
    in the first cache. Unless `asked` is 0, each strip asks for as much as it reads, of the block after the next.
    """
    none, pad, (divisor, reciprocal) = nothing(x, divisors), outside(x, divisors), shared(divisors)
    one, strip, line = (0,), len(vectors) * LANES, 64 // x.itemsize
    values, spots = numbers(x, divisors, wide + LANES), beside(index, x, divisors, wide + LANES)
    top, unit = none, lo
    while unit < hi:
        group = unit // parts
        begin, stop, c = group * parts, at_most(hi, (group + 1) * parts), group * wide
        many = at_most(C - c, wide)
        for s in range(segment_of(offsets, unit - begin, parts), segment_of(offsets, stop - begin, parts)):
            found, places = memory(values), memory(spots)  # here for the reason given in `average_pixel_runs`
            first, last, to = offsets[np.uintp(s)], offsets[np.uintp(s + 1)], s * C + c
            for i in range(0, many, LANES):
                store(found, i, none)
                begin_places(places, i, index, first if first < last else -1)
            for row in range(first, last, block):
                at, rows, i = row * C + c, at_most(last - row, block), 0
                while i + strip <= many:
                    ahead = at + 2 * block * C + i * rows
                    ask(x, ahead, ahead + strip * rows * asked, line, False)
                    reduce_down(memory(x), found, places, at + i, i, row, rows, C, vectors, None, pad, divisors)
                    i += strip
                while i < many:
                    inside = lanes_inside(i, many)
                    reduce_down(memory(x), found, places, at + i, i, row, rows, C, one, inside, pad, divisors)
                    i += LANES
            for i in range(0, many, LANES):
                inside, v = lanes_inside(i, many), load(found, i)
                if divisors is None:
                    top = greater(v, top)
                v = divided(x, v, places, i, divisor, reciprocal, last - first, none)
                store_some(y, to + i, convert(y, v), inside)
                if index is not None:
                    store_some(index, to + i, load(places, i), inside)
        unit = stop
    return infinite_lanes(top)


@helper
def fill_again(gx, at, stop, stage, period):
    """Fill gx[at:stop] with the first `period` elements of the stage, again and again. Sixteen more stand behind them.
    """
    k = 0
    while at + LANES <= stop:
        store(gx, at, load(stage, k))
        at += LANES
        k += LANES
        if k >= period:
            k -= period
    if at < stop:
        store_some(gx, at, load(stage, k), lanes_inside(0, stop - at))


@worker
def spread_segments(lo, hi, grad, gx, index, divisors, offsets, C, hop, parts):
    """Gradients of sums and averages: all rows of a segment get the same elements, and rows outside of all segments get
    0. Units [lo, hi) are `parts` parts of the rows. There is no `index`.

    A row stands in the stage several times, `hop` elements apart, so that sixteen elements can be read from wherever in
    it. So a segment is filled vector by vector, wherever its rows end.
    """
    rows, none, zero, pad = gx.size // C, nothing(grad, divisors), splat(gx, 0), splat(grad, 0)
    divisor, reciprocal = shared(divisors)
    period = (LANES + hop - 1) // hop * hop
    stage, zeros = empty(gx, period + hop + 2 * LANES), empty(gx, LANES)
    store(zeros, 0, zero)
    at, end = rows * lo // parts, rows * hi // parts
    s = np.searchsorted(offsets, at, side="right") - 1
    while at < end:
        if s < 0 or s >= offsets.size - 1:
            stop = end if s >= 0 else at_most(offsets[0], end)
            fill_again(gx, at * C, stop * C, zeros, LANES)
        else:
            first, last = offsets[np.uintp(s)], offsets[np.uintp(s + 1)]
            stop = at_most(last, end)
            if at < stop:
                for i in range(0, C, LANES):
                    v = convert(none, load_some(grad, s * C + i, lanes_inside(i, C), pad))
                    v = convert(gx, averaged(v, divisor, reciprocal, last - first, splat(none, 1)))
                    if C == 1:
                        v = rearrange(v, indices(0, 0))
                    store(stage, i, v)
                row = load(stage, 0)
                for i in range(hop, period + LANES, hop):
                    store(stage, i, row)
                fill_again(gx, at * C, stop * C, stage, period)
        at, s = at_least(stop, at), s + 1
    return 0


# Rules


def plan(reduction: str, shape: Shape, offsets: Table, dtype: np.dtype[Any], seen: Any = None,
         omit: bool = False) -> Call:
    """The call for segments of an array of a shape (rows, *channels). If `omit`, NaN is missing."""
    rows, C, count = shape[0], prod(shape[1:]), len(offsets) - 1
    summed, indexed, _, divisor = REDUCTIONS[reduction]
    result, read = (count, *shape[1:]), rows * C * dtype.itemsize
    traffic, index = max(read, 4 * count * C * dtype.itemsize), () if indexed else (None,)
    by = None
    if summed:
        by = (counting(dtype, divisor, CARRIED, 0 if divisor else 1) if omit else
              divisors(dtype, divisor, CARRIED, rows if dtype.kind in "iu" else 0))
    otherwise = None
    if not summed and dtype.kind not in "iu":
        again = put_missing if omit else put_nans
        otherwise = Call(again, prod(result), traffic, (*index, outline(rows, C, offsets)))
    always = omit and not summed
    if C == 1 and not (omit and summed) and rows >= LONG * count:
        worker = average_runs if summed else window_runs
        return Call(worker, count, traffic, (*index, by, runs_of(offsets, rows)), result, indexed, seen,
                    always=always, otherwise=otherwise)
    groups = max(-(-C // MOST_CHANNELS), min(C // LEAST_CHANNELS, -(-FEW_UNITS // max(count, 1))))
    wide = C if groups <= 1 else -(-C // (groups * LANES)) * LANES
    parts, row = min(count, MOST_PARTS), C * dtype.itemsize
    block = max(BLOCK // (wide * dtype.itemsize + 1) // MOST_ADDED, 1) * MOST_ADDED
    asked = read >= ASKED_LATE and row >= LONG_ROW and wide == C
    rest = offsets, C, wide, parts, block, int(asked), VECTORS[wide_registers()]
    return Call(segment_rows, parts * -(-C // max(wide, 1)), traffic, (*index, by, *rest), result, indexed, seen,
                always=always, otherwise=otherwise)


def outline(rows: int, C: int, offsets: Table) -> Table:
    """As `_windows.outline`, for segments of rows of C channels: how `nans.window_along` finds them."""
    return np.frombuffer(bytearray().join((outlined(C, 1, 1, rows, 1, 1, len(offsets) - 1, *OF_ROWS), offsets.data)),
                         np.int64)


def runs_of(offsets: Table, rows: int) -> Table:
    """The table of windows from which the walks of `runs` read segments of a single channel, as rows of one column."""
    count = len(offsets) - 1
    table = np.zeros(HEADER + 3 * (count + 2), np.int64)
    table[[CHANNELS, DEPTH, HEIGHT, WIDTH, OUT_D, OUT_H, OUT_W]] = 1, 1, rows, 1, 1, count, 1
    table[HEADER : HEADER + 3] = table[-3:] = 0, 1, 1
    start, stop, width = table[HEADER + 3 : -3].reshape(3, count)
    start[:], stop[:] = offsets[:-1], offsets[1:]
    np.subtract(stop, start, out=width)
    return table


def plan_spread(reduction: str, shape: Shape, offsets: Table, dtype: np.dtype[Any]) -> Call:
    """The call for the gradient of sums and averages; `shape` is that of the gradient."""
    rows, C = shape[0], prod(shape[1:])
    by = divisors(dtype, REDUCTIONS[reduction].divisor, 0, 0)
    parts = min(rows, MOST_PARTS)
    return Call(spread_segments, parts if C else 0, rows * C * dtype.itemsize,
                (None, by, offsets, C, LANES if C == 1 else C, parts), shape)
