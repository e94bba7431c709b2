"""Maxima over windows that have much in common, in channels-last memory: along each row once, then down the columns.

Every range of rows of the output loads each row of a slice once, whatever the windows, if the rows of a window fit
1 MiB, and else block by block of columns. Along rows, and downwards where these have no gaps, the cost of an output
grows with the logarithm of the window's length at most. Nanoseconds, one thread, per output of 64 channels last at
stride 1, here and by `window_bands`, which reads each row again for every window that it is in: 13x13 of 40x40 images
0.8 and 1.55, with indices 1.35 and 2.3; of 32 channels 49x49 of 64x64 0.98 and 9.4.

Equal maxima: the first wins along a row, and among rows, and so does the first of all. NaN is +inf until all is done.
"""

import numpy as np
from numba import types

from .._windows import CHANNELS, DEPTH, HEADER, HEIGHT, MOST_H, MOST_W, OUT_D, OUT_H, OUT_W, STEP, TAPS, WIDTH
from ..simd import (
    LANES,
    any_inf,
    arithmetic,
    convert,
    finite_or_inf,
    greater,
    indices,
    load,
    memory,
    or_nan,
    overtakes,
    select,
    store,
)
from ._asking import FAR
from ._compile import by_types, helper, inlined, worker
from ._job import INDEX, Call, Windows
from ._reductions import GROUP, nothing, numbers, place_of, room_for_indices
from .bands import band_rows, band_size

MOST_ROOM = 1 << 20  # bytes of the rows of a window, reduced along it
SOME_TAPS = 18  # of a window, more than which make it worth while
ASKED_TAPS = 100  # more than which take so long that what comes need not be asked for
FLOAT64 = 8


def plan(job: Windows) -> Call | None:
    """Maxima of more than a vector of channels last, of many taps, of which each element is in many windows.

    One thread, 32 to 1024 channels: 5x5/1 in 0.6 to 1 of the time, 0.4 to 0.75 with indices, 7x7/2 0.5 to 1, 13x13/1
    0.3 to 0.65, 49x49/1 0.1; but 4x4/1 in 0.9 to 1.4. It does not ask for what comes: from memory 7x7/1 would take 1.2
    times as long.
    """
    if job.summed or not job.last or job.channels <= LANES or job.taps <= SOME_TAPS or not job.much_in_common:
        return None
    if not has_room(job) or (job.nbytes >= FAR and job.taps <= ASKED_TAPS):
        return None
    return job.call(window_separable, job.rows)


def has_room(job):
    """Whether `room_for_rows` has room, within 1 MiB, for blocks of half as many columns as a window has, of doubles:
    of narrower ones each column would be in many. A signal of 6000 float64 at 2701/1 would take 55 times as long as by
    `window_bands`.
    """
    depth, height, width = job.axes
    rows = depth.longest * min(height.longest * height.step, height.size) + 1
    wide, windows = (width.longest - 1) * width.step + 1, len(width.start)
    size = GROUP * (FLOAT64 + INDEX if job.indexed else FLOAT64)
    return min(windows, max(wide // 2, 1)) <= columns_in_room(rows, width.size, windows, wide, size)


def columns_in_room(rows: int, width: int, windows: int, wide: int, size: int) -> int:
    """For how many columns of the output `MOST_ROOM` holds so many rows, and the part of a row of the input, of `width`
    columns, that their windows hold: there are `windows` in a row, each of `wide` columns. A column is `size` bytes.
    """
    apart = -(-width // windows) + 1  # columns of the input for one more of the output
    return (MOST_ROOM // size - wide) // (rows + apart)


SOME_ROWS = 4  # of a window, up to which all of them are compared for each row of the output


count_columns = helper(columns_in_room)


# A pair is two vectors of channels and where they are from, which is not looked for if `places` is None.


@inlined
def pair_at(values, places, i):
    ia = ib = indices(-1, 0)
    if places is not None:
        ia, ib = load(places, i), load(places, i + LANES)
    return load(values, i), load(values, i + LANES), ia, ib


@inlined
def put_pair(values, places, i, pair):
    store(values, i, pair[0])
    store(values, i + LANES, pair[1])
    if places is not None:
        store(places, i, pair[2])
        store(places, i + LANES, pair[3])


@inlined
def larger_pair(places, pair, later):
    """The larger, the first where they are equal."""
    a, b, ia, ib = pair
    v, u, iv, iu = later
    if places is not None:
        ia, ib = select(overtakes(v, a), iv, ia), select(overtakes(u, b), iu, ib)
    return greater(v, a), greater(u, b), ia, ib


@helper
def join(values, places, first, then, to, size):
    """The larger of the pairs from values[first] on and of those from values[then] on, to values[to] on."""
    for i in range(0, size, GROUP):
        found = larger_pair(places, pair_at(values, places, first + i), pair_at(values, places, then + i))
        put_pair(values, places, to + i, found)


@helper
def along_row(x, at, spot, second, line, line_places, ring, places, to, starts, block, doubling, g, none):
    """The maxima of a block of windows along a row of the input, in two vectors of channels, to ring[to] on, and their
    places; the first column that they hold is at x[at] and has the place `spot`.

    By `doubling`, windows of 1, 2, 4, ... columns, all of them, to so many columns at last, two of which make one of
    the widest; or column by column, as those are always that the left border leaves fewer columns.
    """
    C, OW, step, nowhere = g[CHANNELS], g[OUT_W], g[STEP + 2], indices(-1, 0)
    begin, end, left, right = block
    W = right - left
    for w in range(W):
        here = indices(spot + w, 0)
        v, u = finite_or_inf(convert(none, load(x, at))), finite_or_inf(convert(none, load(x, at + second)))
        put_pair(line, line_places, w * GROUP, (v, u, here, here))
        at += C
    for ow in range(begin, end):
        first, stop = g[starts + ow] - left, g[starts + OW + ow] - left
        if is_doubled(first, stop, doubling, step, W):
            continue
        pair = none, none, nowhere, nowhere
        if first < stop:
            pair = pair_at(line, line_places, first * GROUP)
            for w in range(first + step, stop, step):
                here, i = indices(spot + w, 0), w * GROUP
                pair = larger_pair(places, pair, (load(line, i), load(line, i + LANES), here, here))
        put_pair(ring, places, to + (ow - begin) * GROUP, pair)
    if doubling == 1:
        return
    width = 1
    while width < doubling:
        hop = width * step * GROUP
        join(line, line_places, 0, hop, 0, W * GROUP - hop)
        width *= 2
    for ow in range(begin, end):
        first, stop = g[starts + ow] - left, g[starts + OW + ow] - left
        if is_doubled(first, stop, doubling, step, W):
            last = first + max((stop - first + step - 1) // step - doubling, 0) * step
            pair = larger_pair(places, pair_at(line, line_places, first * GROUP),
                               pair_at(line, line_places, last * GROUP))
            put_pair(ring, places, to + (ow - begin) * GROUP, pair)


@inlined
def is_doubled(first, stop, doubling, step, W):
    """Whether a window along a row has `doubling` columns, or all up to the row's end, where doubling ends as well."""
    return doubling > 1 and first < stop and (stop - first > (doubling - 1) * step or stop > W - step)


@helper
def doubled(g):
    """How many columns windows are doubled to along a row: 1 where it takes less time to take all that each has."""
    width, passes = 1, 0
    while 2 * width <= g[MOST_W]:
        width, passes = 2 * width, passes + 1
    return width if g[MOST_W] * g[OUT_W] > 4 * passes * g[WIDTH] else 1


@inlined
def span(g):
    """Rows of a slice from the first of a window to its end, behind which a gap may lie."""
    return min(g[MOST_H] * g[STEP + 1], g[HEIGHT])


@inlined
def columns_of(begin, end, g):
    """The columns [left, right) of the input that windows [begin, end) of a row of the output hold."""
    starts = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H]
    left, right = g[WIDTH], np.int64(0)
    for ow in range(starts + begin, starts + end):
        if g[ow] < g[ow + g[OUT_W]]:
            left, right = min(left, g[ow]), max(right, g[ow + g[OUT_W]])
    return left, max(left, right)


@helper
def room_for_rows(x, index, g):
    """How many columns of the output are a block; memory for the columns of the input that one holds, for as many rows
    as a window has, and one, reduced along it; and for places.
    """
    OW, rows = g[OUT_W], g[TAPS] // (g[MOST_H] * g[MOST_W]) * span(g) + 1
    size = GROUP * (numbers(x, None, 0).itemsize + (4 if index is not None else 0))
    most = max(count_columns(rows, g[WIDTH], OW, (g[MOST_W] - 1) * g[STEP + 2] + 1, size), 1)
    block = -(-OW // -(-OW // most))
    row = 0
    for begin in range(0, OW, block):
        left, right = columns_of(begin, min(begin + block, OW), g)
        row = max(row, (right - left) * GROUP)
    rows *= block * GROUP
    return (block, numbers(x, None, row), numbers(x, None, rows), room_for_indices(index, row),
            room_for_indices(index, rows))


def put_nans_by_bands(top, lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output once more, by `band_rows`, if the largest maxima, `top`, say that there may be NaN
    among their images, and there is: to look through every window with +inf for it takes up to a thousand times as long
    as all the rest.
    """


@by_types(put_nans_by_bands)
def _put_nans_by_bands(top, lo, hi, x, y, index, divisors, g):
    if not isinstance(arithmetic(x), types.Float):
        return lambda top, lo, hi, x, y, index, divisors, g: None  # or it is compiled, to be never called

    def again(top, lo, hi, x, y, index, divisors, g):
        if not any_inf(top):
            return
        rows, size, none = g[OUT_D] * g[OUT_H], g[DEPTH] * g[HEIGHT] * g[WIDTH] * g[CHANNELS], nothing(x, divisors)
        found, stop = none, ((hi - 1) // rows + 1) * size
        for i in range(lo // rows * size, stop, LANES):
            found = or_nan(found, convert(none, load(x, min(i, stop - LANES))))
        if any_inf(finite_or_inf(found)):
            _, _, _, pixels = band_size(divisors, g)
            values, places = numbers(x, divisors, pixels * GROUP), room_for_indices(index, pixels * GROUP)
            band_rows(lo, hi, x, y, index, divisors, g, values, places)

    return again


@worker
def window_separable(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all images, in channels-last memory of a vector of channels or more.

    For 32 channels at a time each row of the input is reduced along its windows once, into one of as many buffered rows
    as a window has, and these are reduced downwards for every row of the output. The last channels reach back. Rows
    that do not fit 1 MiB are cut into blocks of columns, each of which reads all columns of its windows.
    """
    separable_rows(lo, hi, x, y, index, divisors, g, room_for_rows(x, index, g))
    return 0


@helper
def separable_rows(lo, hi, x, y, index, divisors, g, room):
    """The walk of `window_separable`, in memory of its caller's.

    Of windows of many rows, without gaps between these, every buffered row becomes the maximum of all rows from it to a
    border, where the first window ended that began behind the border before; what comes after it joins the additional
    row. Two rows make a window.
    """
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh = g[STEP], g[STEP + 1]
    none = top = nothing(x, divisors)
    nowhere = indices(-1, 0)
    high, doubling, block = span(g), doubled(g), room[0]
    source, target, target_index = memory(x), memory(y), memory(index)
    line, ring, line_places, places = memory(room[1]), memory(room[2]), memory(room[3]), memory(room[4])
    bordered = g[MOST_H] > SOME_ROWS and g[TAPS] == g[MOST_H] * g[MOST_W] and dh == 1
    taken = np.empty(g[TAPS] // g[MOST_W] + 1, np.int64)  # where the buffered rows are that make a window
    blocks, groups = -(-OW // block), -(-C // GROUP)
    row = lo
    while row < hi:
        n, od, first = place_of(row, OD, OH)
        rows = min(hi - row, OH - first)
        d0, d1 = g[HEADER + od], g[HEADER + OD + od]
        t, columns = HEADER + 3 * OD + first, HEADER + 3 * OD + 3 * OH
        for part in range(blocks * groups):
            begin, c = part % blocks * block, min(part // blocks * GROUP, C - LANES)
            end = min(begin + block, OW)
            left, right = columns_of(begin, end, g)
            size = (end - begin) * GROUP
            second, known, border, after = min(LANES, C - LANES - c), 0, 0, high * size
            for r in range(rows):
                h0, h1 = g[t + r], g[t + OH + r]
                fresh = known = max(known, h0 - dh + 1, 0)  # cut off by the border, the next may begin before
                while known < h1:
                    to = known % high * size
                    for d in range(d0, d1, dd):
                        spot = (d * H + known) * W + left
                        along_row(source, (n * D * H * W + spot) * C + c, spot, second, line, line_places, ring, places,
                                  to, columns, (begin, end, left, right), doubling, g, none)
                        to += high * size
                    known += 1
                count = 0
                if not bordered:
                    for slot in range(0, (d1 - d0 + dd - 1) // dd * high, high):
                        for h in range(h0, h1, dh):
                            taken[count] = (slot + h % high) * size
                            count += 1
                elif h0 < h1 and d0 < d1:
                    if h0 >= border:
                        border = h1
                        for h in range(h1 - 2, h0 - 1, -1):
                            to = h % high * size
                            join(ring, places, to, (h + 1) % high * size, to, size)
                    else:
                        for h in range(fresh, h1):
                            to = h % high * size
                            join(ring, places, to if h == border else after, to, after, size)
                    taken[0], taken[1] = h0 % high * size, after
                    count = 1 if h1 == border else 2
                out = ((row + r) * OW + begin) * C + c
                for i in range(0, size, GROUP):
                    pair = none, none, nowhere, nowhere
                    if count > 0:
                        pair = pair_at(ring, places, taken[0] + i)
                    for tap in range(1, count):
                        pair = larger_pair(places, pair, pair_at(ring, places, taken[np.uintp(tap)] + i))
                    top = greater(pair[0], greater(pair[1], top))
                    store(target, out, convert(y, pair[0]))
                    store(target, out + second, convert(y, pair[1]))
                    if index is not None:
                        store(target_index, out, pair[2])
                        store(target_index, out + second, pair[3])
                    out += C
        row += rows
    put_nans_by_bands(top, lo, hi, x, y, index, divisors, g)
