"""Reductions over windows: the maximum, the maximum with its flat argmax, and the average.

All three are one walk. What differs is the type of two arguments, by which Numba compiles a walk for each:
`index` is an int32 array, or None for values alone; `divisors` is None for the maximum. For the average it is an array
(divisor, reciprocal) whose dtype is that of the arithmetic: the divisor of every window, or 0 where each has its own
count; and its reciprocal where that is exact, else 0, because a product takes a tenth of a quotient's time.

Order: first down the columns of a window, then from left to right, whichever kernel runs, so that sums are the same bit
for bit in every memory order and for every split of the work. An argmax is the first of equals, or the last NaN.
"""

import numpy as np
from numba import njit, types
from numba.extending import overload

from .._geometry import (
    APART,
    AT_A,
    AT_B,
    BEFORE,
    CHANNELS,
    COLUMN_A,
    COLUMN_B,
    DEPTH,
    FIRST_TAPS,
    HEADER,
    HEIGHT,
    HOPS,
    KERNEL,
    LANES_AT,
    LANES_HEADER,
    LAST,
    MASKS,
    MOST_H,
    MOST_W,
    OUT_D,
    OUT_H,
    OUT_W,
    PLACE_A,
    PLACE_B,
    PLANES,
    POSITION,
    ROWS_TAPS,
    STEP,
    STEP_SIZE,
    STRIDE,
    TAPS,
    WIDTH,
)
from ._asking import AHEAD, ahead_of, ask, asks, is_far
from ._compile import helper, inlined, worker
from ._staging import SOON, STAGE, STREAMED, begins_line, flush, put, stream_out, whole_lines
from ._vectors import (
    LANES,
    NOWHERE,
    add,
    any_inf,
    arithmetic,
    convert,
    divide,
    equal,
    fence,
    finite_or_inf,
    first_among,
    first_largest_tap,
    first_of,
    greater,
    held_as,
    indices,
    lanes_inside,
    larger,
    largest_tap,
    load,
    load_some,
    mark_nan,
    mask_of,
    memory,
    misaligned,
    multiply,
    number,
    or_nan,
    overtaken,
    overtakes,
    pick,
    prefetch,
    record_kind,
    select,
    splat,
    store,
    store_some,
    sum_of_taps,
    transpose,
    twelve_indices,
    unmark,
    winner,
)

STRIP = 2048  # elements of a row whose reduction stays in the first cache while rows are read as the memory runs
TALL = 1 << 14  # elements of a window's rows, of which no column after the other is read: strides defeat the machine
GROUP = 2 * LANES  # planes that become the channels of an image
ROWS = 1 << 15  # elements of an input, not all of which fit the first cache, that are walked more than once
NINE = 9  # taps, up to which a window in channels-last memory has no loop over them
STRETCH = 8 * STEP_SIZE  # numbers of the steps that `window_steps` takes at a time


def nothing(x, divisors):
    """What an empty window holds: the neutral element of the reduction."""


@overload(nothing)
def _nothing(x, divisors):
    if not isinstance(divisors, types.NoneType):
        return lambda x, divisors: splat(divisors, 0)
    element = arithmetic(x)
    low = -np.inf if isinstance(element, types.Float) else element.minval
    return lambda x, divisors: splat(x, low)


def outside(x, divisors):
    """What stands for an element that is not there: the same, before it is converted for summing."""


@overload(outside)
def _outside(x, divisors):
    if isinstance(divisors, types.NoneType):
        return lambda x, divisors: nothing(x, divisors)
    return lambda x, divisors: splat(x, 0)


def numbers(x, divisors, size):
    """A scratch array of `size` numbers in the arithmetic of the reduction."""


@overload(numbers)
def _numbers(x, divisors, size):
    if not isinstance(divisors, types.NoneType):
        return lambda x, divisors, size: np.empty(size, divisors.dtype)
    dtype = held_as(x)
    return lambda x, divisors, size: np.empty(size, dtype)


def shared(divisors):
    """(divisor, reciprocal) out of `divisors`; (None, None) for a maximum."""


@overload(shared)
def _shared(divisors):
    if isinstance(divisors, types.NoneType):
        return lambda divisors: (None, None)
    return lambda divisors: (divisors[0], divisors[1])


# What stands in inner loops takes no arrays, or the `memory` of them: Numba counts references at each call, which LLVM
# is not always able to leave out again, not even where it inlines the function.


def with_tap(a, v, divisor):
    """The reduction so far and one tap more."""


@overload(with_tap)
def _with_tap(a, v, divisor):
    if isinstance(divisor, types.NoneType):
        return lambda a, v, divisor: larger(v, a)
    return lambda a, v, divisor: add(a, v)


def averaged(total, divisor, reciprocal, taps, widths):
    """The sums over sixteen windows, divided: by what all share, or by `taps` rows times `widths` columns each."""


@overload(averaged)
def _averaged(total, divisor, reciprocal, taps, widths):
    if isinstance(divisor, types.NoneType):
        return lambda total, divisor, reciprocal, taps, widths: total

    def average(total, divisor, reciprocal, taps, widths):
        if reciprocal != 0:
            return multiply(total, splat(total, reciprocal))
        if divisor != 0:
            return divide(total, splat(total, divisor))
        count = multiply(convert(total, widths), splat(total, taps))
        empty = equal(count, splat(total, 0))
        return divide(total, select(empty, splat(total, 1), count))

    return average


def joined(a, v, divisor):
    """The reduction so far and more of the window, for maxima without NaN."""


@overload(joined)
def _joined(a, v, divisor):
    if isinstance(divisor, types.NoneType):
        return lambda a, v, divisor: greater(v, a)
    return lambda a, v, divisor: add(a, v)


@inlined
def picked(a, b, l0, l1, l2, l3, l4, others, first, taps, divisor):
    """Windows from left to right: tap t of window i is lane lt[i] of a and b. For more than five `others` has lanes
    from `first` on.
    """
    r = pick(a, b, l0)
    if taps > 1:
        r = joined(r, pick(a, b, l1), divisor)
    if taps > 2:
        r = joined(r, pick(a, b, l2), divisor)
    if taps > 3:
        r = joined(r, pick(a, b, l3), divisor)
    if taps > 4:
        r = joined(r, pick(a, b, l4), divisor)
    if others is not None:
        for i in range(first, first + (taps - FIRST_TAPS) * LANES, LANES):
            r = joined(r, pick(a, b, load(others, i)), divisor)
    return r


@inlined
def picked_indexed(a, b, ia, ib, l0, l1, l2, l3, l4, others, first, taps):
    """The same for a maximum and its index."""
    r, ri = pick(a, b, l0), pick(ia, ib, l0)
    if taps > 1:
        r, ri = first_among(pick(a, b, l1), pick(ia, ib, l1), r, ri)
    if taps > 2:
        r, ri = first_among(pick(a, b, l2), pick(ia, ib, l2), r, ri)
    if taps > 3:
        r, ri = first_among(pick(a, b, l3), pick(ia, ib, l3), r, ri)
    if taps > 4:
        r, ri = first_among(pick(a, b, l4), pick(ia, ib, l4), r, ri)
    if others is not None:
        for i in range(first, first + (taps - FIRST_TAPS) * LANES, LANES):
            lanes = load(others, i)
            r, ri = first_among(pick(a, b, lanes), pick(ia, ib, lanes), r, ri)
    return r, ri


def is_nan(x, i):
    """Whether x[i] is NaN."""


@overload(is_nan)
def _is_nan(x, i):
    if isinstance(x.dtype, types.Float):
        return lambda x, i: x[i] != x[i]
    if record_kind(x) == "float16":
        return lambda x, i: x[i].float16 & 0x7FFF > 0x7C00
    if record_kind(x) == "bfloat16":
        return lambda x, i: x[i].bfloat16 & 0x7FFF > 0x7F80
    return lambda x, i: False


def is_inf(x, i):
    """Whether x[i] is +inf."""


@overload(is_inf)
def _is_inf(x, i):
    if isinstance(x.dtype, types.Float):
        return lambda x, i: x[i] == np.inf
    if record_kind(x) == "float16":
        return lambda x, i: x[i].float16 == 0x7C00
    if record_kind(x) == "bfloat16":
        return lambda x, i: x[i].bfloat16 == 0x7F80
    return lambda x, i: False


@helper
def put_nans(lo, hi, x, y, index, g, E):
    """The last NaN of every window in rows [lo, hi) of the output, for which +inf stood; columns are E elements."""
    D, H, W = g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    for row in range(lo, hi):
        q = row // (OD * OH)
        od = row // OH - q * OD
        oh = row - (q * OD + od) * OH
        t = HEADER
        d0, d1 = g[t + od], g[t + OD + od]
        t += 3 * OD
        h0, h1 = g[t + oh], g[t + OH + oh]
        t += 3 * OH
        for ow in range(OW):
            for e in range(E):
                last, out = -1, (row * OW + ow) * E + e
                if not is_inf(y, out):
                    continue
                for d in range(d0, d1, g[STEP]):
                    for h in range(h0, h1, g[STEP + 1]):
                        for w in range(g[t + ow], g[t + OW + ow], g[STEP + 2]):
                            spot = (d * H + h) * W + w
                            if is_nan(x, (q * D * H * W + spot) * E + e):
                                last = spot
                if last >= 0:
                    y[out] = x[(q * D * H * W + last) * E + e]
                    if index is not None:
                        index[out] = last


@njit(inline="always")
def rows_of(g):
    """Elements of a column, of a plane or image, of a row, and of a row of the output, where columns are lanes."""
    E = g[CHANNELS] if g[LAST] else 1
    return E, g[DEPTH] * g[HEIGHT] * g[WIDTH] * E, g[WIDTH] * E, g[OUT_W] * E


@helper
def lead_of(x, g, share, row):
    """How far from where the windows of an output row begin it asks for memory, in elements: where they end, since what
    is before is in the caches already. An output row takes `share` elements more, and rows of the input have `row`.
    """
    deep = (g[TAPS] // (g[MOST_H] * g[MOST_W]) - 1) * g[STEP] * g[HEIGHT]
    return max(share, ahead_of(x), (deep + (g[MOST_H] - 1) * g[STEP + 1] + 1) * row)


@helper
def widths_of(g, size, E):
    """What the column of each of the first elements of a row contributes to its divisor; two vectors may be read."""
    widths = np.ones(size + 2 * LANES, np.int64)
    t = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H] + 2 * g[OUT_W]
    for i in range(min(size, g[OUT_W] * E)):
        widths[i] = g[t + i // E]
    return widths


@helper
def list_hops(hops, first, deep, high, g):
    """List the columns from the first row of a window of some extent to each of its rows, from `first` on."""
    for d in range(0, deep, g[STEP]):
        for h in range(0, high, g[STEP + 1]):
            hops[first] = (d * g[HEIGHT] + h) * g[WIDTH]
            first += 1


@worker
def window_rows(lo, hi, x, y, index, divisors, others, g):
    """Rows [lo, hi) of the output, counted through all planes, or images in channels-last memory of few channels, for
    windows whose columns are lanes of two vectors: 32 elements of the input's row are reduced downwards, and the
    windows picked out of them, sixteen or two times sixteen. Which lanes, the geometry says; it may be inverse.
    """
    H, W, OD, OH = g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H]
    E, P, wide, long = rows_of(g)
    t = g[LANES_AT]
    T, outputs, c0, advance, room = g[t], g[t + 2], g[t + 3], g[t + 4], g[t + 5]
    l0, l1, l2, l3, l4, k0, k1, k2, k3, k4, columns_a, columns_b = twelve_indices(g, t + LANES_HEADER)
    more = memory(others)
    second = max(T - FIRST_TAPS, 0) * LANES  # where `others` of the second sixteen outputs begin
    two = min(outputs, long) > LANES
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    nowhere = indices(NOWHERE, 0)
    top = none
    if divisors is not None:
        counts = widths_of(g, long if divisor == 0 else 0, E)
    streaming = y.size * y.itemsize >= STREAMED
    past = streaming and outputs == LANES and long % LANES == 0 and begins_line(y, index)
    streaming = streaming and not past
    stage = y[:0]
    if streaming:
        stage = np.empty_like(y[: SOON + 3 * LANES])
    if index is not None:
        stage_index = index[:0]
        if streaming:
            stage_index = np.empty(SOON + 3 * LANES, np.int32)
    gathered, done = 0, lo * long
    most = g[TAPS] // g[MOST_W]
    hops = np.empty(g[MOST_H] * most, np.int64)  # from the first row of a window to each, for every height
    deep, dh = 0, g[STEP + 1]
    # Elements of the input to a row of the output, and of a cache line.
    share, line = P // (OD * OH), 64 // x.itemsize
    per, lead = -(-share * min(outputs, long) // long) if asks(x) else 0, lead_of(x, g, share, wide)
    far, source = is_far(x), memory(x)
    q = lo // (OD * OH)
    od = lo // OH - q * OD
    oh = lo - (q * OD + od) * OH - 1
    for row in range(lo, hi):
        oh += 1  # the next row of the output; divisions would cost as much as a short row
        if oh == OH:
            oh, od = 0, od + 1
            if od == OD:
                od, q = 0, q + 1
        t = HEADER
        d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
        t += 3 * OD
        h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
        first = stop = 0
        if d0 < d1 and h0 < h1:
            if d1 - d0 != deep:
                deep = d1 - d0
                for i in range(g[MOST_H]):
                    list_hops(hops, i * most, deep, i * dh + 1, g)
            nh = h1 - h0 if dh == 1 else (h1 - h0 + dh - 1) // dh
            nd = 1 if deep == 1 else (deep + g[STEP] - 1) // g[STEP]
            first = (nh - 1) * most
            stop = first + nh * nd
        ahead = q * P + (od * OH + oh) * share + lead
        c, spot = c0, (d0 * H + h0) * W + c0 // E
        at, out = q * P + spot * E, row * long
        left = long
        while left > 0:
            ask(source, ahead, ahead + per, line, far)
            ahead += per
            ma, mb = lanes_inside(c, wide), lanes_inside(c + LANES, min(wide, c + LANES + room))
            a, b = none, none
            if index is not None:
                ia, ib = indices(0, 0), indices(0, 0)
                for tap in range(first, stop):
                    hop = hops[np.uintp(tap)]
                    va = finite_or_inf(load_some(x, at + hop * E, ma, pad))
                    vb = finite_or_inf(load_some(x, at + LANES + hop * E, mb, pad))
                    ia = select(overtakes(va, a), indices(hop, 0), ia)
                    ib = select(overtakes(vb, b), indices(hop, 0), ib)
                    a, b = greater(va, a), greater(vb, b)
                ia = select(ma, add(add(ia, columns_a), indices(spot, 0)), nowhere)
                ib = select(mb, add(add(ib, columns_b), indices(spot, 0)), nowhere)
                r, ri = picked_indexed(a, b, ia, ib, l0, l1, l2, l3, l4, more, 0, T)
                s, si = r, ri
                if two:
                    s, si = picked_indexed(a, b, ia, ib, k0, k1, k2, k3, k4, more, second, T)
                if first == stop:
                    ri, si = indices(-1, 0), indices(-1, 0)
            else:
                for tap in range(first, stop):
                    hop = hops[np.uintp(tap)]
                    va = convert(none, load_some(x, at + hop * E, ma, pad))
                    vb = convert(none, load_some(x, at + LANES + hop * E, mb, pad))
                    if divisors is None:
                        va, vb = finite_or_inf(va), finite_or_inf(vb)
                    a, b = joined(a, va, divisor), joined(b, vb, divisor)
                s = r = picked(a, b, l0, l1, l2, l3, l4, more, 0, T, divisor)
                if two:
                    s = picked(a, b, k0, k1, k2, k3, k4, more, second, T, divisor)
            if divisors is None:
                top = greater(r, greater(s, top))
            else:
                widths = splat(g, 1)
                if divisor == 0:
                    widths = load(counts, long - left)
                r = averaged(r, divisor, reciprocal, taps, widths)
                if two:
                    if divisor == 0:
                        widths = load(counts, long - left + LANES)
                    s = averaged(s, divisor, reciprocal, taps, widths)
            count = min(left, outputs)
            if streaming:
                store(stage, gathered, convert(y, r))
                store(stage, gathered + LANES, convert(y, s))
                if index is not None:
                    store(stage_index, gathered, ri)
                    store(stage_index, gathered + LANES, si)
                gathered += count
                if gathered >= SOON:
                    moved = whole_lines(y, done, gathered)
                    stream_out(stage, moved, y, done)
                    if index is not None:
                        stream_out(stage_index, moved, index, done)
                    gathered, done = gathered - moved, done + moved
            else:
                m = lanes_inside(0, count)
                put(y, out, convert(y, r), m, past)
                if index is not None:
                    put(index, out, ri, m, past)
                if two:
                    m = lanes_inside(LANES, count)
                    store_some(y, out + LANES, convert(y, s), m)
                    if index is not None:
                        store_some(index, out + LANES, si, m)
            left, out = left - outputs, out + outputs
            c, spot, at = c + advance, spot + advance // E, at + advance
    if streaming:
        flush(stage, 0, gathered, y, done, True)
        if index is not None:
            flush(stage_index, 0, gathered, index, done, True)
    if past or streaming:
        fence()
    if divisors is None and any_inf(top):
        put_nans(lo, hi, x, y, index, g, E)
    return 0


@inlined
def picked_along(a, b, l0, l1, l2, l3, l4, others, first, taps, step):
    """Maxima of a row's part of windows, and how many columns after the first tap each lies: the first of equals."""
    r, ri = pick(a, b, l0), indices(0, 0)
    if taps > 1:
        r, ri = overtaken(pick(a, b, l1), indices(step, 0), r, ri)
    if taps > 2:
        r, ri = overtaken(pick(a, b, l2), indices(2 * step, 0), r, ri)
    if taps > 3:
        r, ri = overtaken(pick(a, b, l3), indices(3 * step, 0), r, ri)
    if taps > 4:
        r, ri = overtaken(pick(a, b, l4), indices(4 * step, 0), r, ri)
    if others is not None:
        for tap in range(FIRST_TAPS, taps):
            lanes = load(others, first + (tap - FIRST_TAPS) * LANES)
            r, ri = overtaken(pick(a, b, lanes), indices(tap * step, 0), r, ri)
    return r, ri


@worker
def window_shared(lo, hi, x, y, index, divisors, others, g):
    """Rows [lo, hi) of the output as by `window_rows`, a maximum and its index, for windows of planes that share rows,
    or are one row.

    The maxima along each row of the input are picked once and kept for all windows that the row is in; then rows are
    compared. In both the first of equals is the one that nothing later is greater than. A block of rows is walked in
    strips of as many columns as two vectors hold, from top to bottom. Nanoseconds per output, one thread, here and
    without sharing: 5x5/2 of 57x57 0.86 and 1.25, 3x3/1 of 56x56 0.4 and 0.5, 3x3/2 of 55x55 0.74 both.
    """
    H, W, OD, OH = g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H]
    E, P, wide, long = rows_of(g)
    t = g[LANES_AT]
    T, outputs, c0, advance, room = g[t], g[t + 2], g[t + 3], g[t + 4], g[t + 5]
    l0, l1, l2, l3, l4, k0, k1, k2, k3, k4, columns_a, columns_b = twelve_indices(g, t + LANES_HEADER)
    more = memory(others)
    second = max(T - FIRST_TAPS, 0) * LANES  # where `others` of the second sixteen outputs begin
    two = min(outputs, long) > LANES
    # The columns where windows begin, counted from a strip's first; padding is moved into the row when all is known.
    begin_r, begin_s = pick(columns_a, columns_b, l0), pick(columns_a, columns_b, k0)
    none, pad, zero = nothing(x, divisors), outside(x, divisors), indices(0, 0)
    top, dw = none, g[STEP + 2]
    block = max(4, min(16, STAGE // long))
    kept = ((block - 1) * g[STRIDE + 1] + g[MOST_H]) * 2 * LANES  # two vectors a row
    values, places = numbers(x, divisors, kept + LANES), np.empty(kept + LANES, np.int32)
    v0, p0 = (LANES - misaligned(values, 0)) % LANES, (LANES - misaligned(places, 0)) % LANES
    ahead, wider = max(block * g[STRIDE + 1] * wide, AHEAD), x.itemsize > 4  # the next block of a strip
    asking = asks(x)
    streaming = y.size * y.itemsize >= STREAMED
    stage, stage_index = y[:0], index[:0]
    if streaming:
        stage, stage_index = np.empty_like(y[: block * long]), np.empty(block * long, np.int32)
    row = lo
    while row < hi:
        q = row // (OD * OH)
        od = row // OH - q * OD
        oh = row - (q * OD + od) * OH
        rows = min(hi - row, OH - oh, block)
        table = HEADER + 3 * OD + oh
        first = g[table]  # row of the input that is kept first
        plane = g[HEADER + od] * H
        c, position = c0, 0
        while position < long:
            ma, mb = lanes_inside(c, wide), lanes_inside(c + LANES, min(wide, c + LANES + room))
            mr = lanes_inside(0, min(outputs, long - position))
            ms = lanes_inside(LANES, min(outputs, long - position))
            columns_r, columns_s = add(begin_r, indices(c // E, 0)), add(begin_s, indices(c // E, 0))
            spot = (plane + first) * W
            at, known, stop = q * P + spot * E + c, 0, 0
            for o in range(rows):
                start, stop = (g[table + o] - first) * 2 * LANES, (g[table + OH + o] - first) * 2 * LANES
                while known < stop:
                    if asking:
                        prefetch(x, at + ahead)
                        prefetch(x, at + ahead + LANES)
                        if wider:
                            prefetch(x, at + ahead + LANES // 2)
                            prefetch(x, at + ahead + LANES + LANES // 2)
                    a = finite_or_inf(load_some(x, at, ma, pad))
                    b = finite_or_inf(load_some(x, at + LANES, mb, pad))
                    r, ri = picked_along(a, b, l0, l1, l2, l3, l4, more, 0, T, dw)
                    store(values, v0 + known, r)
                    store(places, p0 + known, add(larger(add(columns_r, ri), zero), indices(spot, 0)))
                    if two:
                        r, ri = picked_along(a, b, k0, k1, k2, k3, k4, more, second, T, dw)
                        store(values, v0 + known + LANES, r)
                        store(places, p0 + known + LANES, add(larger(add(columns_s, ri), zero), indices(spot, 0)))
                    at, spot, known = at + wide, spot + W, known + 2 * LANES
                i = start + 2 * LANES
                r, ri = load(values, v0 + start), load(places, p0 + start)
                s, si = r, ri
                if two:
                    s, si = load(values, v0 + start + LANES), load(places, p0 + start + LANES)
                    while i < stop:
                        r, ri = overtaken(load(values, v0 + i), load(places, p0 + i), r, ri)
                        s, si = overtaken(load(values, v0 + i + LANES), load(places, p0 + i + LANES), s, si)
                        i += 2 * LANES
                else:
                    while i < stop:
                        r, ri = overtaken(load(values, v0 + i), load(places, p0 + i), r, ri)
                        i += 2 * LANES
                top = greater(r, greater(s, top))
                if streaming:
                    out = o * long + position
                    store_some(stage, out, convert(y, r), mr)
                    store_some(stage_index, out, ri, mr)
                    if two:
                        store_some(stage, out + LANES, convert(y, s), ms)
                        store_some(stage_index, out + LANES, si, ms)
                else:
                    out = (row + o) * long + position
                    if asking:
                        prefetch(y, out + block * long)  # a store waits for its line as long as a load does
                        prefetch(index, out + block * long)
                    store_some(y, out, convert(y, r), mr)
                    store_some(index, out, ri, mr)
                    if two:
                        store_some(y, out + LANES, convert(y, s), ms)
                        store_some(index, out + LANES, si, ms)
            position, c = position + outputs, c + advance
        if streaming:
            flush(stage, 0, rows * long, y, row * long, True)
            flush(stage_index, 0, rows * long, index, row * long, True)
        row += rows
    if streaming:
        fence()
    if any_inf(top):
        put_nans(lo, hi, x, y, index, g, E)
    return 0


@worker
def window_steps(lo, hi, x, y, index, divisors, others, steps, g):
    """Planes or images [lo, hi): the same where a plane is not many steps of `window_rows`. Rows may be so short that
    two with as many taps are one step: then each vector is a row of the input.

    All `steps` of a plane are written down, by `geometry.row_steps`; nothing but the vectors is in the way. Nanoseconds
    per output of a 2x2/2 maximum, one thread, here and by `window_rows`: 56x56 0.3 and 0.55, with argmax 0.55 and 0.8;
    112x112 0.3 and 0.42. By `window_planes` and with argmax: 14x14 0.5 here and 0.8, 3x3/2 of 13x13 0.65 and 1.
    """
    OD, OH = g[OUT_D], g[OUT_H]
    E, P, _, long = rows_of(g)
    O = OD * OH * long
    t = g[LANES_AT]
    T, together, outputs = g[t], g[t + 1], g[t + 2]
    l0, l1, l2, l3, l4, k0, k1, k2, k3, k4, columns_a, columns_b = twelve_indices(g, t + LANES_HEADER)
    more = memory(others)
    second = max(T - FIRST_TAPS, 0) * LANES  # where `others` of the second sixteen outputs begin
    two = min(long, outputs) > LANES if together == 1 else 2 * long > LANES
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    nowhere = indices(NOWHERE, 0)
    top = none
    if together != 1:
        columns_b = columns_a
    group, alone, begin, end = steps[0], steps[1], steps[2], steps[3]
    if divisors is not None:
        widths = widths_of(g, long if divisor == 0 else 0, E)
        if together == 2:  # of two rows, in the lanes where their outputs are
            for i in range(long, 2 * LANES):
                widths[i] = widths[i % (LANES if two else long)]
    line = 64 // x.itemsize
    per = min(-(-group * P * STRETCH // max(end - begin, 1)), group * P) if asks(x) else 0
    far, source = is_far(x), memory(x)
    # What is streamed gathers in a stage, whose first element is y[base]; rows in pairs are not written in order.
    streaming = together == 1 and y.size * y.itemsize >= STREAMED
    size = SOON + STRETCH // STEP_SIZE * 2 * LANES
    target, base = y, 0
    if streaming:
        target, base = np.empty_like(y[: size + 2 * LANES]), lo * O
    if index is not None:
        target_index = index
        if streaming:
            target_index = np.empty_like(index[: size + 2 * LANES])
    plane = lo
    while plane < hi:
        q, step, last_step = plane, begin, end
        plane += group
        if plane > hi:
            plane, step, last_step = q + 1, alone, begin
        ahead, origin = q * P + ahead_of(x), q * O - base
        while step < last_step:
            ask(source, ahead, ahead + per, line, far)
            ahead += per
            gathered = origin + steps[step + PLACE_A]
            if streaming and gathered >= SOON:
                moved = whole_lines(y, base, gathered)
                stream_out(target, moved, y, base)
                if index is not None:
                    stream_out(target_index, moved, index, base)
                base, origin = base + moved, origin - moved
            some, step = step, min(step + STRETCH, last_step)
            for start in range(some, step, STEP_SIZE):
                i = np.uintp(start)
                spot_a, spot_b = steps[i + np.uintp(COLUMN_A)], steps[i + np.uintp(COLUMN_B)]
                at_a, at_b = q * P + steps[i + np.uintp(AT_A)], q * P + steps[i + np.uintp(AT_B)]
                first = np.uintp(steps[i + np.uintp(HOPS)])
                out = origin + steps[i + np.uintp(PLACE_A)]
                bits = steps[i + np.uintp(MASKS)]
                ma, mb, m = mask_of(bits), mask_of(bits >> LANES), mask_of(bits >> 2 * LANES)
                a, b = none, none
                if index is not None:
                    ia, ib = indices(0, 0), indices(0, 0)
                    tap, hop = first, steps[first]
                    while hop >= 0:
                        va = finite_or_inf(load_some(x, at_a + hop * E, ma, pad))
                        vb = finite_or_inf(load_some(x, at_b + hop * E, mb, pad))
                        ia = select(overtakes(va, a), indices(hop, 0), ia)
                        ib = select(overtakes(vb, b), indices(hop, 0), ib)
                        a, b = greater(va, a), greater(vb, b)
                        tap += np.uintp(1)
                        hop = steps[tap]
                    ia = select(ma, add(add(ia, columns_a), indices(spot_a, 0)), nowhere)
                    ib = select(mb, add(add(ib, columns_b), indices(spot_b, 0)), nowhere)
                    r, ri = picked_indexed(a, b, ia, ib, l0, l1, l2, l3, l4, more, 0, T)
                    if steps[first] < 0:
                        ri = indices(-1, 0)
                    store_some(target_index, out, ri, m)
                else:
                    tap, hop = first, steps[first]
                    while hop >= 0:
                        va = convert(none, load_some(x, at_a + hop * E, ma, pad))
                        vb = convert(none, load_some(x, at_b + hop * E, mb, pad))
                        if divisors is None:
                            va, vb = finite_or_inf(va), finite_or_inf(vb)
                        a, b = joined(a, va, divisor), joined(b, vb, divisor)
                        tap += np.uintp(1)
                        hop = steps[tap]
                    r = picked(a, b, l0, l1, l2, l3, l4, more, 0, T, divisor)
                if divisors is None:
                    top = greater(r, top)
                else:
                    taps, width, width_s = 1, splat(g, 1), splat(g, 1)
                    if divisor == 0:
                        taps, position = steps[i + np.uintp(ROWS_TAPS)], steps[i + np.uintp(POSITION)]
                        width, width_s = load(widths, position), load(widths, position + LANES)
                    r = averaged(r, divisor, reciprocal, taps, width)
                store_some(target, out, convert(y, r), m)
                if two:
                    m, out = mask_of(bits >> 3 * LANES), origin + steps[i + np.uintp(PLACE_B)]
                    if index is not None:
                        r, ri = picked_indexed(a, b, ia, ib, k0, k1, k2, k3, k4, more, second, T)
                        if steps[first] < 0:
                            ri = indices(-1, 0)
                        store_some(target_index, out, ri, m)
                    else:
                        r = picked(a, b, k0, k1, k2, k3, k4, more, second, T, divisor)
                    if divisors is None:
                        top = greater(r, top)
                    else:
                        r = averaged(r, divisor, reciprocal, taps, width_s)
                    store_some(target, out, convert(y, r), m)
    if streaming:
        flush(target, 0, hi * O - base, y, base, True)
        if index is not None:
            flush(target_index, 0, hi * O - base, index, base, True)
        fence()
    if divisors is None and any_inf(top):
        put_nans(lo * OD * OH, hi * OD * OH, x, y, index, g, E)
    return 0


@helper
def keeps_rows(divisors, g):
    """Whether neighbouring windows share so many rows that maxima of rows are kept, within 512 KiB."""
    if divisors is not None or g[STEP + 1] != 1 or g[MOST_H] < 5 or g[STRIDE + 1] < 1:
        return False
    columns = g[WIDTH] * (g[CHANNELS] if g[LAST] else 1) + 2 * LANES
    return 3 * g[STRIDE + 1] <= g[MOST_H] and (g[MOST_H] + 1) * columns * 12 <= 1 << 19


@worker
def window_buffered(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all planes, for any windows, where neighbours in memory are columns:
    in channels-first memory, or in channels-last memory, whose columns are as many elements apart as it has channels.

    The rows of a window are reduced into one buffered row (its values; for an argmax its indices too) with margins
    that hold nothing. Maxima along it come by doubling, windows of 1, 2, 4, ... columns, so that a wide window costs
    log2 of its width; sums from left to right. Outputs at stride 1 are vectors; others are a vector each, of which the
    next output overwrites all but one column.

    Maxima of many rows come in two parts (van Herk, Gil and Werman). For a block of rows, that of a first window, the
    maxima from every row to the block's end are kept; a later window that begins in the block is one of them and the
    maximum of the rows since. So a row costs three comparisons, however many windows hold it.

    Large windows that share few rows are read as the memory runs, four rows at a time, in strips whose reduction stays
    in the first cache: global averages of 224x224x64 images channels last in 0.17 ns an element, 0.6 column by column.
    """
    D, H, W = g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    S, K, before = g[STRIDE + 2], g[KERNEL + 2], g[BEFORE + 2]
    E = g[CHANNELS] if g[LAST] else 1  # elements of a column
    uniform = (S > 0 and (S == 1 or divisors is None)) and (OW - 1) * S + (K - 1) * dw < 4 * W + 1024
    # Taps left over after all doubling: `remaining` of them, `hop` elements apart.
    width, remaining, hop, passes = 1, K, dw * E, 0
    if divisors is None and uniform and K > 3:
        while 2 * width <= K:
            width, passes = 2 * width, passes + 1
        remaining, hop = (1, 0) if width == K else (2, (K - width) * dw * E)
    span = ((OW - 1) * S + (K - 1) * dw + 1 if uniform else W) * E
    left = before * E + LANES if uniform else LANES
    size = left + max(W * E, span) + (width * dw * E if passes else 0) + 4 * LANES
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    nowhere = indices(NOWHERE, 0)
    values = numbers(x, divisors, size)
    places = np.empty(size if index is not None else 0, np.int32)
    for i in range(0, size, LANES):
        store(values, min(i, size - LANES), none)
        if index is not None:
            store(places, min(i, size - LANES), nowhere)
    columns = np.zeros(W * E + LANES if index is not None and E > 1 else 0, np.int32)  # of the elements of a row
    if columns.size:
        for w in range(W):
            for e in range(E):
                columns[w * E + e] = w
    # What the columns of a window contribute to its divisor.
    widths = np.ones(OW * E + 2 * LANES if divisors is not None else 0, np.int64)
    if divisors is not None:
        for w in range(OW):
            for e in range(E):
                widths[w * E + e] = g[HEADER + 3 * OD + 3 * OH + 2 * OW + w]
    # The maxima from the rows of a block [block, border) to its end, and of the rows [border, known) after it.
    kept = keeps_rows(divisors, g)
    pitch = W * E + LANES
    tails = numbers(x, divisors, (g[MOST_H] + 1) * pitch if kept else 0)
    tail_places = np.empty((g[MOST_H] + 1) * pitch if kept and index is not None else 0, np.int32)
    block, border, known, slab = 0, 0, 0, -1
    streaming = y.size * y.itemsize >= STREAMED
    stage = numbers(y, None, STAGE + 2 * LANES)
    stage_index = np.empty(STAGE + 2 * LANES if index is not None else 0, np.int32)
    gathered, done = 0, lo * OW * E
    share, line = D * H * W * E // (OD * OH), 64 // x.itemsize
    asking, lead, far, source = asks(x), lead_of(x, g, share, W * E), is_far(x), memory(x)
    for row in range(lo, hi):
        q = row // (OD * OH)
        od = row // OH - q * OD
        oh = row - (q * OD + od) * OH
        t = HEADER
        d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
        t += 3 * OD
        h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
        t += 3 * OH
        plane = q * D * H * W * E
        ahead = plane + (od * OH + oh) * share + lead
        if asking:
            ask(source, ahead, ahead + min(share, 4 * AHEAD), line, far)
        if kept and d0 < d1 and h0 < h1:
            if slab != q * OD + od or h0 >= border:
                slab, block, border, known = q * OD + od, h0, h1, h1
                for h in range(h1 - 1, h0 - 1, -1):
                    for c in range(0, W * E, LANES):
                        m, at = lanes_inside(c, W * E), plane + h * W * E + c
                        to = (h - block) * pitch + c
                        if index is not None:
                            a, ia = down_indexed(x, at, d0, d1, dd, H * W * E, h * W, H * W, m, pad, columns, c)
                            if h + 1 < h1:
                                a, ia = first_of(load(tails, to + pitch), load(tail_places, to + pitch), a, ia)
                            store(tail_places, to, ia)
                        else:
                            a = none
                            for d in range(d0, d1, dd):
                                a = larger(convert(none, load_some(x, at + d * H * W * E, m, pad)), a)
                            if h + 1 < h1:
                                a = larger(load(tails, to + pitch), a)
                        store(tails, to, a)
            top = g[MOST_H] * pitch
            for h in range(known, h1):
                for c in range(0, W * E, LANES):
                    m, at = lanes_inside(c, W * E), plane + h * W * E + c
                    if index is not None:
                        a, ia = down_indexed(x, at, d0, d1, dd, H * W * E, h * W, H * W, m, pad, columns, c)
                        if h > border:
                            a, ia = first_of(a, ia, load(tails, top + c), load(tail_places, top + c))
                        store(tail_places, top + c, ia)
                    else:
                        a = none
                        for d in range(d0, d1, dd):
                            a = larger(convert(none, load_some(x, at + d * H * W * E, m, pad)), a)
                        if h > border:
                            a = larger(a, load(tails, top + c))
                    store(tails, top + c, a)
            known = max(known, h1)
            for c in range(0, W * E, LANES):
                at = (h0 - block) * pitch + c
                a = load(tails, at)
                if index is not None:
                    ia = load(tail_places, at)
                    if h1 > border:
                        a, ia = first_of(load(tails, top + c), load(tail_places, top + c), a, ia)
                    store(places, left + c, ia)
                elif h1 > border:
                    a = larger(load(tails, top + c), a)
                store(values, left + c, a)
        elif d0 < d1 and h0 < h1 and (d1 - d0) * (h1 - h0) * W * E >= TALL:
            # As the memory runs, in strips, and four rows at a time.
            step = dh * W * E
            below = -(-max(4 * AHEAD, ahead_of(x)) // min(W * E, STRIP)) * step
            whole = far and W * E <= STRIP  # rows, which are read in order
            for strip in range(0, W * E, STRIP):
                fresh = True
                for d in range(d0, d1, dd):
                    h = h0
                    while h < h1:
                        four = h + 3 * dh < h1
                        for c in range(strip, min(strip + STRIP, W * E), LANES):
                            m, at = lanes_inside(c, W * E), plane + (d * H + h) * W * E + c
                            if asking:
                                i = at + below
                                ask(source, i, i + LANES, line, whole)
                            v = load_some(x, at, m, pad)
                            a = none if fresh else load(values, left + c)
                            if index is not None:
                                ia, spot = nowhere, places_of((d * H + h) * W, c, columns)
                                if fresh:
                                    a, ia = v, spot
                                else:
                                    a, ia = winner(v, spot, a, load(places, left + c))
                            else:
                                a = with_tap(a, convert(none, v), divisor)
                            if four:
                                if asking:
                                    i += step
                                    ask(source, i, i + LANES, line, whole)
                                    i += step
                                    ask(source, i, i + LANES, line, whole)
                                    i += step
                                    ask(source, i, i + LANES, line, whole)
                                v1, v2 = load_some(x, at + step, m, pad), load_some(x, at + 2 * step, m, pad)
                                v3 = load_some(x, at + 3 * step, m, pad)
                                if index is not None:
                                    down = indices(dh * W, 0)
                                    spot1 = add(spot, down)
                                    spot2 = add(spot1, down)
                                    a, ia = winner(v1, spot1, a, ia)
                                    a, ia = winner(v2, spot2, a, ia)
                                    a, ia = winner(v3, add(spot2, down), a, ia)
                                else:
                                    a = with_tap(a, convert(none, v1), divisor)
                                    a = with_tap(a, convert(none, v2), divisor)
                                    a = with_tap(a, convert(none, v3), divisor)
                            if index is not None:
                                store(places, left + c, ia)
                            store(values, left + c, a)
                        fresh = False
                        h += 4 * dh if four else dh
            if index is not None:
                for c in range(0, W * E, LANES):
                    ia = mark_nan(load(values, left + c), load(places, left + c))
                    store(places, left + c, select(lanes_inside(c, W * E), ia, nowhere))
        else:
            for c in range(0, W * E, LANES):
                m = lanes_inside(c, W * E)
                a = none
                if index is not None:
                    ia = nowhere
                    fresh = True
                    d = d0
                    while d < d1:
                        h = h0
                        while h < h1:
                            v = load_some(x, plane + (d * H + h) * W * E + c, m, pad)
                            spot = places_of((d * H + h) * W, c, columns)
                            if fresh:
                                a, ia, fresh = v, spot, False
                            else:
                                a, ia = winner(v, spot, a, ia)
                            h += dh
                        d += dd
                    store(places, left + c, select(m, mark_nan(a, ia), nowhere))
                else:
                    d = d0
                    while d < d1:
                        h = h0
                        while h < h1:
                            v = convert(none, load_some(x, plane + (d * H + h) * W * E + c, m, pad))
                            a = with_tap(a, v, divisor)
                            h += dh
                        d += dd
                store(values, left + c, a)
        step = dw * E
        for _ in range(passes):
            for c in range(left - before * E, left - before * E + span, LANES):
                if index is not None:
                    a, ia = first_of(load(values, c + step), load(places, c + step), load(values, c), load(places, c))
                    store(places, c, ia)
                else:
                    a = larger(load(values, c + step), load(values, c))
                store(values, c, a)
            step *= 2
        if uniform and S == 1:
            for j in range(0, OW * E, LANES):
                at = left - before * E + j
                r = load(values, at)
                if index is not None:
                    ri = load(places, at)
                    for tap in range(1, remaining):
                        r, ri = first_of(load(values, at + tap * hop), load(places, at + tap * hop), r, ri)
                    store(stage_index, gathered, unmark(ri))
                elif divisors is None:
                    for tap in range(1, remaining):
                        r = with_tap(r, load(values, at + tap * hop), divisor)
                else:
                    r = with_tap(none, r, divisor)
                    for tap in range(1, remaining):
                        r = with_tap(r, load(values, at + tap * hop), divisor)
                    r = averaged(r, divisor, reciprocal, taps, load(widths, j))
                store(stage, gathered, convert(stage, r))
                gathered += min(OW * E - j, LANES)
                if gathered >= STAGE:
                    flush(stage, 0, gathered, y, done, streaming)
                    if index is not None:
                        flush(stage_index, 0, gathered, index, done, streaming)
                    gathered, done = 0, done + gathered
        else:
            for j in range(OW):
                if uniform:
                    at = left + (j * S - before) * E
                    end, stride = at + (remaining - 1) * hop + 1, max(hop, 1)
                else:
                    at, end, stride = left + g[t + j] * E, left + g[t + OW + j] * E, dw * E
                for e in range(0, E, LANES):
                    i, r = at + e, none
                    if index is not None:
                        ri = nowhere
                        while i < end + e:
                            r, ri = first_of(load(values, i), load(places, i), r, ri)
                            i += stride
                        store(stage_index, gathered, unmark(ri))
                    else:
                        while i < end + e:
                            r = with_tap(r, load(values, i), divisor)
                            i += stride
                        if divisors is not None:
                            r = averaged(r, divisor, reciprocal, taps, load(widths, j * E))
                    store(stage, gathered, convert(stage, r))
                    gathered += min(E - e, LANES)
                    if gathered >= STAGE:
                        flush(stage, 0, gathered, y, done, streaming)
                        if index is not None:
                            flush(stage_index, 0, gathered, index, done, streaming)
                        gathered, done = 0, done + gathered
        if passes:  # what doubling left in the margins
            for c in range(left - before * E, left, LANES):
                store(values, c, none)
                if index is not None:
                    store(places, c, nowhere)
    flush(stage, 0, gathered, y, done, streaming)
    if index is not None:
        flush(stage_index, 0, gathered, index, done, streaming)
    if streaming:
        fence()
    return 0


@njit(inline="always")
def places_of(first, c, columns):
    """The indices of sixteen elements from element `c` of a row on, whose first column has the index `first`."""
    if columns.size:
        return add(indices(first, 0), load(columns, c))
    return indices(first + c, 1)


@njit(inline="always")
def down_indexed(x, at, d0, d1, dd, step, spot, beside, m, pad, columns, c):
    """The maximum and its marked index of sixteen elements over the slices [d0, d1) of a volume."""
    nowhere = indices(NOWHERE, 0)
    a, ia = load_some(x, at + d0 * step, m, pad), indices(spot + d0 * beside, 0)
    for d in range(d0 + dd, d1, dd):
        a, ia = winner(load_some(x, at + d * step, m, pad), indices(spot + d * beside, 0), a, ia)
    return a, select(m, mark_nan(a, add(ia, places_of(0, c, columns))), nowhere)


@worker
def window_pixels(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all images, in channels-last memory: the lanes are channels, so that
    any window is the same walk over whole vectors, along a list of its taps that neighbouring windows share.
    """
    room = SOON + g[CHANNELS] + LANES
    size = room if y.size * y.itemsize >= STREAMED and room <= 8 * STAGE else 0
    places, hops = tap_lists(g[TAPS])
    stage, stage_index = y[:0], places[:0]  # to allocate nothing takes time, too
    if size:
        stage, stage_index = np.empty_like(y[:size]), np.empty(size if index is not None else 0, np.int32)
    pixel_rows(lo, hi, x, y, index, divisors, g, places, hops, stage, stage_index)
    return 0


@helper
def tap_lists(most):
    """Room for the taps of windows of every extent up to the largest, as distances from the first tap: in pixels and
    in elements. A list that was not made begins with a hop other than 0.
    """
    size = max(most, 1) * max(most, NINE)
    places, hops = np.empty(size, np.int32), np.empty(size, np.int64)
    for i in range(0, size, max(most, NINE)):
        hops[i] = -1
    return places, hops


@helper
def list_taps(hops, places, first, nd, nh, nw, g, by_rows):
    """A list for windows of so many taps along the axes, by rows or by columns. Behind a short one stands its first tap
    again, which changes no maximum, and its place only where that is NaN: `put_nans` then looks for it anyway.
    """
    for tap in range(max(nd * nh * nw, NINE)):
        d = h = w = 0
        if tap < nd * nh * nw:
            if by_rows:
                d, h, w = tap // (nh * nw), tap // nw % nh, tap % nw
            else:
                d, h, w = tap % (nd * nh) // nh, tap % nh, tap // (nd * nh)
        place = (d * g[STEP] * g[HEIGHT] + h * g[STEP + 1]) * g[WIDTH] + w * g[STEP + 2]
        places[first + tap], hops[first + tap] = place, place * g[CHANNELS]


@inlined
def window_at(x, at, index, divisor, lists, taps, short, mask, none, pad):
    """(reduction, place of the winner) of sixteen windows that begin at x[at], in as many channels; the place counts
    from the first tap, -1 if there is none, and is looked for unless `index` is None.

    Their list of taps begins at `first`, and has `taken` of them, `tall` to a column; `short` is its first nine hops
    and places.
    """
    hops, places = lists
    first, taken, tall = taps
    (a, b, c, d, e, f, g, h, i), nine_at = short
    p, q, r, s = nine_at[:4]
    result, place = none, indices(-1, 0)
    if index is not None:
        if 0 < taken <= 4:
            result, place = first_largest_tap(x, at, (a, b, c, d), (p, q, r, s), mask, pad)
        elif 0 < taken <= NINE:
            result, place = first_largest_tap(x, at, (a, b, c, d, e, f, g, h, i), nine_at, mask, pad)
        elif taken > 0:
            result, place = first_largest_tap(x, at, (0,), (0,), mask, pad)
            for tap in range(first + 1, first + taken):
                v = load_some(x, at + number(hops, tap), mask, pad)
                place = select(overtakes(v, result), indices(number(places, tap), 0), place)
                result = greater(finite_or_inf(v), result)
    elif divisor is None:  # has to have types for averages, too: hence `convert`
        if 0 < taken <= 4:
            result = convert(none, largest_tap(x, at, (a, b, c, d), mask, pad))
        elif 0 < taken <= NINE:
            result = convert(none, largest_tap(x, at, (a, b, c, d, e, f, g, h, i), mask, pad))
        else:
            for tap in range(first, first + taken):
                v = convert(none, load_some(x, at + number(hops, tap), mask, pad))
                result = greater(finite_or_inf(v), result)
    elif tall == 2 and taken == 4:
        result = sum_of_taps(x, at, ((a, b), (c, d)), mask, pad, none)
    elif tall == 3 and taken == NINE:
        result = sum_of_taps(x, at, ((a, b, c), (d, e, f), (g, h, i)), mask, pad, none)
    else:
        tap = first
        while tap < first + taken:
            column, bottom = none, tap + tall
            while tap < bottom:
                column = add(column, convert(none, load_some(x, at + number(hops, tap), mask, pad)))
                tap += 1
            result = add(result, column)
    return result, place


@inlined
def short_list(numbers, first):
    """The first nine of a list."""
    return (number(numbers, first), number(numbers, first + 1), number(numbers, first + 2), number(numbers, first + 3),
            number(numbers, first + 4), number(numbers, first + 5), number(numbers, first + 6),
            number(numbers, first + 7), number(numbers, first + 8))


@inlined
def pixel_vector(x, y, index, at, out, spot, count, lists, taps, short, mask, past, divisor, reciprocal, none, pad,
                 top):
    """Sixteen windows that begin at x[at], with the index `spot`, to y[out]. Returns their maximum and `top`."""
    a, place = window_at(x, at, index, divisor, lists, taps, short, mask, none, pad)
    if divisor is None:
        top = greater(a, top)
    a = averaged(a, divisor, reciprocal, count, splat(none, 1))
    put(y, out, convert(y, a), mask, past)
    if index is not None:
        put(index, out, add(place, indices(spot, 0)), mask, past)
    return top


@helper
def short_block(x, y, index, begin, along, down, count, lists, taps, divisor, reciprocal, none, pad, top):
    """The same as `pixel_block` for pixels of a vector or less, and of one tap or more, which go to the caches: 16
    channels in 0.85 of the time, 12 in 0.6 to 0.7. It asks for nothing, which takes registers: with indices 0.9.
    """
    run, advance, step, beside, long, _ = along
    rows, down_at, down_spot, down_out, _ = down
    short = short_list(lists[0], taps[0]), short_list(lists[1], taps[0])
    part = lanes_inside(0, long)
    at, spot, out, _ = begin
    left = run
    for _ in range(rows * run):
        if long == LANES:
            top = pixel_vector(x, y, index, at, out, spot, count, lists, taps, short, None, False, divisor, reciprocal,
                               none, pad, top)
        else:
            top = pixel_vector(x, y, index, at, out, spot, count, lists, taps, short, part, False, divisor, reciprocal,
                               none, pad, top)
        at, spot, out = at + advance, spot + step, out + beside
        left -= 1
        if left == 0:
            left = run
            at, spot, out = at + down_at - run * advance, spot + down_spot - run * step, out + down_out - run * beside
    return top


@helper
def pixel_block(x, y, index, begin, along, down, count, shift, lists, taps, asking, past, divisor, reciprocal, none,
                pad, top):
    """A block of the output whose windows have the same taps: `rows` of `run` pixels each, of `long` elements, which
    may be several pixels, if taps follow each other as they do. Returns the maximum of all of them and `top`.

    To `begin` with, a window is at x[at], has the index `spot` and is y[out], and x[ahead] is asked for; `along` and
    `down` say by how much these grow from a pixel to the next, and from a row.

    A function of its own, so small that LLVM keeps what it needs in registers: within the walk over all rows a pixel of
    64 channels took 1.3 times as long; and row by row 2x2/2 of 8x8 images of 32 channels takes 1.7 times.
    """
    run, advance, step, beside, long, per = along
    rows, down_at, down_spot, down_out, down_ahead = down
    line, far = asking
    short = short_list(lists[0], taps[0]), short_list(lists[1], taps[0])
    begins = LANES - shift if shift else 0
    ends = long + LANES if shift else long
    at, spot, out, ahead = begin
    left = run
    for _ in range(rows * run):
        ask(x, ahead, ahead + per, line, far)
        ahead += per
        c = begins
        while c <= long - GROUP:
            a, p = window_at(x, at + c, index, divisor, lists, taps, short, None, none, pad)
            b, q = window_at(x, at + c + LANES, index, divisor, lists, taps, short, None, none, pad)
            if divisor is None:
                top = greater(a, greater(b, top))
            a = averaged(a, divisor, reciprocal, count, splat(none, 1))
            b = averaged(b, divisor, reciprocal, count, splat(none, 1))
            put(y, out + c, convert(y, a), None, past)
            put(y, out + c + LANES, convert(y, b), None, past)
            if index is not None:
                first = indices(spot, 0)
                put(index, out + c, add(p, first), None, past)
                put(index, out + c + LANES, add(q, first), None, past)
            c += GROUP
        if c <= long - LANES:
            top = pixel_vector(x, y, index, at + c, out + c, spot, count, lists, taps, short, None, past, divisor,
                               reciprocal, none, pad, top)
            c += LANES
        while c < ends:  # what is left, and the first ones
            e = c if c < long else begins - LANES
            top = pixel_vector(x, y, index, at + e, out + e, spot, count, lists, taps, short, lanes_inside(e, long),
                               past, divisor, reciprocal, none, pad, top)
            c += LANES
        at, spot, out = at + advance, spot + step, out + beside
        left -= 1
        if left == 0:  # a loop over rows around this one makes LLVM write all of it anew for each condition
            left = run
            at, spot, out = at + down_at - run * advance, spot + down_spot - run * step, out + down_out - run * beside
            ahead += down_ahead - run * per
    return top


@helper
def pixel_passes(x, y, begin, along, down, lists, taps, none, pad, top):
    """The same as `pixel_block` for maxima of more than nine taps: nine at a time, over all channels, which are then as
    many streams of lines. One vector after the other would jump from pixel to pixel: 7x7 of 512 channels takes 1.6
    times as long. Nothing is asked for.
    """
    run, advance, _, beside, long, _ = along
    rows, down_at, _, down_out, _ = down
    first, taken, _ = taps
    at, _, out, _ = begin
    left = run
    for _ in range(rows * run):
        for tap in range(first, first + taken, NINE):  # the last nine reach back
            hops = short_list(lists[0], min(tap, first + taken - NINE))
            for c in range(0, long, LANES):
                m = lanes_inside(c, long)
                a = convert(none, largest_tap(x, at + c, hops, m, pad))
                if tap > first:
                    a = greater(a, convert(none, load_some(y, out + c, m, pad)))
                top = greater(a, top)
                store_some(y, out + c, convert(y, a), m)
        at, out = at + advance, out + beside
        left -= 1
        if left == 0:
            left = run
            at, out = at + down_at - run * advance, out + down_out - run * beside
    return top


@helper
def pixel_rows(lo, hi, x, y, index, divisors, g, places, hops, stage, stage_index):
    """The walk of `window_pixels`, in memory of its caller's: it takes less time than to allocate for a small image.

    `places` and `hops` are of `tap_lists`, row-major for an argmax and else column by column; the stages take results
    where these are streamed. Vectors of channels go in pairs without masks, and what is left one by one.
    """
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    none = nothing(x, divisors)
    divisor, reciprocal = shared(divisors)
    pad = outside(x, divisors)
    streaming = stage.size > 0
    source, to, to_index, lists = memory(x), memory(y), memory(index), (memory(hops), memory(places))
    if streaming:
        to = memory(stage)
        if index is not None:
            to_index = memory(stage_index)
    most, most_h, most_w = max(g[TAPS], NINE), g[MOST_H], g[MOST_W]
    gathered, done = 0, lo * OW * C
    share, line = D * H * W * C // (OD * OH), 64 // x.itemsize
    asking, far, lead, top = asks(x), is_far(x), lead_of(x, g, share, W * C), none
    past = streaming and C % LANES == 0 and begins_line(y, index)
    # Loads that straddle cache lines cost twice, and NumPy's large arrays begin 16 bytes behind a line. Channels before
    # the first are masked off: one vector more, which pays where there are many, of four taps or more. 3x3/2 of 13x13
    # planes of 256 channels takes 0.83 of the time, 0.92 with indices.
    behind = misaligned(x, 0) if C % LANES == 0 and not past else 0
    many = 4 * GROUP if index is None else 8 * GROUP
    if past:
        streaming, to, to_index = False, memory(y), memory(index)
    # Windows that are alike may have others between them: the gradient of 3x3/2 averages in 0.5 to 0.7 of the time, of
    # 256 channels in 0.93. What is staged comes in order.
    apart = min(g[APART], OW)
    hop = 1 if streaming else apart
    per = -(-share * hop // OW) if asking and C > LANES else 0
    # So many rows of the output are alike, from each on: of an image, or of all where no index begins anew with each.
    alike = HEADER + 3 * OD + 3 * OH + 4 * OW
    pitch = D * H * W * C
    if OH > 1:
        pitch = (g[HEADER + 3 * OD + 1] - g[HEADER + 3 * OD]) * W * C
    endless = index is None and OD == 1 and g[alike] == OH and OH * pitch == D * H * W * C
    row = lo
    while row < hi:
        n = row // (OD * OH)
        od = row // OH - n * OD
        oh = row - (n * OD + od) * OH
        t = HEADER
        d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
        t += 3 * OD
        h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
        rows, down = hi - row, pitch
        if not endless:
            rows = min(rows, g[alike + oh])
            down = (g[t + oh + 1] - h0) * W * C if rows > 1 else 0
        t += 3 * OH
        if streaming:
            rows = 1
        elif asking or g[t + 3 * OW] < OW:  # what is asked for, or walked again for the next run
            rows = min(rows, max(1, (AHEAD if asking else ROWS) // max(share, 1)))
        nd = d1 - d0 if dd == 1 else (d1 - d0 + dd - 1) // dd
        nh = h1 - h0 if dh == 1 else (h1 - h0 + dh - 1) // dh
        spot = (d0 * H + h0) * W
        ahead = n * D * H * W * C + (od * OH + oh) * share + lead
        if asking and C <= LANES:
            ask(source, ahead, ahead + rows * share, line, far)
        row_lists = ((nd - 1) * most_h + nh - 1) * most_w
        ow = phase = 0
        while phase < hop:
            wide = g[t + OW + ow] - g[t + ow]
            nw = wide if dw == 1 else (wide + dw - 1) // dw
            first, taken = 0, 0  # its list of taps: none
            if nd > 0 and nh > 0 and nw > 0:
                first, taken = (row_lists + nw - 1) * most, nd * nh * nw
                if hops[first]:
                    list_taps(hops, places, first, nd, nh, nw, g, index is not None)
            start, run = g[t + ow], g[t + 3 * OW + ow]
            step = g[t + ow + hop] - start if run > 1 else 0
            # Windows a pixel apart: their taps follow each other as they do, so that without indices they are one long
            # pixel: 3x3/1 of 24 channels takes 0.67 of the time, of 192 0.85. Not too long a one, before which all that
            # comes after it is asked for.
            flat = index is None and step == 1 == hop
            if flat:
                run = min(run, STAGE // C + 1)
            if streaming:
                run = 1 if apart > 1 else min(run, (SOON - gathered) // C + 1)
            pixels, long = (1, run * C) if flat else (run, C)
            asked = 0 if phase else per * (run // pixels)
            shift = behind if long >= many and taken >= 4 else 0
            begin = ((n * D * H * W + spot + start) * C, spot + start if taken else 0,
                     gathered if streaming else (row * OW + ow) * C, ahead)
            along = (pixels, step * C, step if taken else 0, hop * C, long, asked)
            below = (rows, down, down // C if taken else 0, OW * C, share)
            among, count = (first, taken, nd * nh), taps * g[t + 2 * OW + ow]
            if index is None and divisors is None and taken > NINE:
                top = pixel_passes(source, to, begin, along, below, lists, among, none, pad, top)
            elif long <= LANES and taken and not past:
                top = short_block(source, to, to_index, begin, along, below, count, lists, among, divisor, reciprocal,
                                  none, pad, top)
            else:
                top = pixel_block(source, to, to_index, begin, along, below, count, shift, lists, among, (line, far),
                                  past, divisor, reciprocal, none, pad, top)
            ow, ahead = ow + run * hop, ahead + run * per
            if ow >= OW:  # on to those that lie between
                phase += 1
                ow = phase
            if streaming:
                gathered += run * C
                if gathered >= SOON:
                    moved = whole_lines(y, done, gathered)
                    stream_out(stage, moved, y, done)
                    if index is not None:
                        stream_out(stage_index, moved, index, done)
                    gathered, done = gathered - moved, done + moved
        row += rows
    if streaming:
        flush(stage, 0, gathered, y, done, True)
        if index is not None:
            flush(stage_index, 0, gathered, index, done, True)
    if past or streaming:
        fence()
    if divisors is None and any_inf(top):
        put_nans(lo, hi, x, y, index, g, C)


@worker
def spread_rows(lo, hi, grad, gx, divisors, g):
    """Rows [lo, hi) of the gradient of an average, in channels-first memory, for windows without dilation that all have
    the same divisor, where more of them hold an element than `window_rows` picks. The geometry is the inverse one: per
    input row, the range of output rows whose windows hold it.

    Upstream rows are summed into a buffer with zeros on both sides, and the buffer is spread along the row.
    """
    H, W = g[HEIGHT], g[WIDTH]  # of the upstream gradient
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]  # of the input
    S, K, before = g[STRIDE + 2], g[KERNEL + 2], g[BEFORE + 2]  # of the forward
    margin = LANES + (K if S == 1 else 0)
    buffer = np.zeros(W + 2 * margin + 2 * LANES, divisors.dtype)
    zero, none, empty = splat(divisors, 0), splat(grad, 0), splat(gx, 0)
    divisor, reciprocal = shared(divisors)
    streaming = gx.size * gx.itemsize >= STREAMED
    stage = np.empty(STAGE + OW + 3 * LANES, gx.dtype)
    line = np.empty(max((W - 1) * S + K, OW + before) + LANES, divisors.dtype)
    gathered, done = LANES, lo * OW
    share = g[DEPTH] * H * W // (OD * OH)
    asking, lead, far, source = asks(grad), lead_of(grad, g, share, W), is_far(grad), memory(grad)
    q = lo // (OD * OH)
    od = lo // OH - q * OD
    oh = lo - (q * OD + od) * OH - 1
    row = lo
    while row < hi:
        oh += 1
        if oh == OH:
            oh, od = 0, od + 1
            if od == OD:
                od, q = 0, q + 1
        t = HEADER
        d0, d1 = g[t + od], g[t + OD + od]
        t += 3 * OD
        h0, h1 = g[t + oh], g[t + OH + oh]
        t += 3 * OH
        ahead = q * g[DEPTH] * H * W + (od * OH + oh) * share + lead
        if asking:
            ask(source, ahead, ahead + share, 64 // grad.itemsize, far)
        for c in range(0, W, LANES):
            m = lanes_inside(c, W)
            total = zero
            for d in range(d0, d1):
                for h in range(h0, h1):
                    v = load_some(grad, q * g[DEPTH] * H * W + (d * H + h) * W + c, m, none)
                    total = add(total, convert(zero, v))
            store(buffer, margin + c, total)
        if S == 1:
            for w in range(0, OW, LANES):
                total = zero
                for o in range(w + before - K + 1, w + before + 1):
                    total = add(total, load(buffer, margin + o))
                store(stage, gathered + w, convert(gx, averaged(total, divisor, reciprocal, 1, zero)))
        elif 0 < S < LANES:
            line[:] = 0
            for tap in range(K - 1, -1, -1):  # windows from left to right at every element
                for o in range(W):
                    line[np.uintp(o * S + tap)] += buffer[margin + o]
            for w in range(0, OW, LANES):
                v = convert(gx, averaged(load(line, w + before), divisor, reciprocal, 1, zero))
                store(stage, gathered + w, v)
        elif 0 < K <= S:  # windows side by side, each of one value; a store that goes too far is overwritten
            at = gathered
            for o in range(W):
                v = convert(gx, averaged(splat(zero, buffer[margin + o]), divisor, reciprocal, 1, zero))
                start, stop = gathered + max(o * S - before, 0), gathered + min(o * S - before + K, OW)
                while at < start:
                    store(stage, at, empty)
                    at += LANES
                at = start
                while at < stop:
                    store(stage, at, v)
                    at += LANES
                at = stop
            while at < gathered + OW:
                store(stage, at, empty)
                at += LANES
        else:
            for w in range(0, OW, LANES):
                final = min(w + LANES, OW) - 1
                if g[t + w] == g[t + final] and g[t + OW + w] == g[t + OW + final]:  # all of the same windows
                    total = zero
                    for o in range(g[t + w], g[t + OW + w]):
                        total = add(total, splat(zero, buffer[margin + o]))
                    store(line, w, total)
                else:
                    for i in range(w, final + 1):
                        line[i] = 0
                        for o in range(g[t + i], g[t + OW + i]):
                            line[i] += buffer[margin + o]
                v = convert(gx, averaged(load(line, w), divisor, reciprocal, 1, zero))
                store(stage, gathered + w, v)
        gathered += OW
        row += 1
        again = 0  # rows of the same windows that follow: one is soon made anew, more are the stage's last row again
        while streaming and row + again < hi and oh + again + 1 < OH:
            t = HEADER + 3 * OD + oh + again + 1
            if g[t] != h0 or g[t + OH] != h1:
                break
            again += 1
        if gathered >= STAGE or row + again == hi or again > 1:
            flush(stage, LANES, gathered - LANES, gx, done, streaming)
            done += gathered - LANES
            if again > 1:
                for _ in range(again):
                    flush(stage, gathered - OW, OW, gx, done, streaming)
                    done += OW
                row, oh = row + again, oh + again
            gathered = LANES
    if streaming:
        fence()
    return 0


@helper
def band_size(divisors, g):
    """(width, passes) of the doubling along a row, and its columns before the image and altogether."""
    W, OW, dw = g[WIDTH], g[OUT_W], g[STEP + 2]
    S, K, before = g[STRIDE + 2], g[KERNEL + 2], g[BEFORE + 2]
    width, passes = 1, 0
    span = (OW - 1) * S + (K - 1) * dw + 1
    if divisors is not None or S <= 0 or K <= 3 or span >= 4 * W + 1024:
        return width, passes, 0, W
    while 2 * width <= K:
        width, passes = 2 * width, passes + 1
    return width, passes, before, max(before + W, span + width * dw)


@worker
def window_bands(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all images, in channels-last memory, for windows of many taps.

    For 32 channels at a time the rows of a window are reduced into one buffered row of pixels, with margins that hold
    nothing, and the windows are reduced along it: maxima by doubling, windows of 1, 2, 4, ... columns, so that the cost
    of a column grows with log2 of the window's width; sums from left to right.
    """
    _, _, _, pixels = band_size(divisors, g)
    values = numbers(x, divisors, pixels * GROUP)
    places = np.empty(pixels * GROUP if index is not None else 0, np.int32)
    band_rows(lo, hi, x, y, index, divisors, g, values, places)
    return 0


@helper
def band_rows(lo, hi, x, y, index, divisors, g, values, places):
    """The walk of `window_bands`, in memory of its caller's."""
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    S, K = g[STRIDE + 2], g[KERNEL + 2]
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    nowhere = indices(NOWHERE, 0)
    width, passes, left, pixels = band_size(divisors, g)
    asking, far, source = asks(x), is_far(x), memory(x)
    share, line = D * H * W * C // (OD * OH), 64 // x.itemsize
    per, lead = -(-share // (-(-C // GROUP) * pixels)) if asking else 0, lead_of(x, g, share, W * C)
    for row in range(lo, hi):
        n = row // (OD * OH)
        od = row // OH - n * OD
        oh = row - (n * OD + od) * OH
        t = HEADER
        d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
        t += 3 * OD
        h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
        t += 3 * OH
        ahead = n * D * H * W * C + (od * OH + oh) * share + lead
        for c in range(0, C, GROUP):
            m0, m1 = lanes_inside(0, C - c), lanes_inside(LANES, C - c)
            for i in range(pixels):
                ask(source, ahead, ahead + per, line, far)
                ahead += per
                w = i - left
                a, b = none, none
                if index is not None:
                    ia, ib = nowhere, nowhere
                if 0 <= w < W:
                    d = d0
                    while d < d1:
                        h = h0
                        while h < h1:
                            spot = (d * H + h) * W + w
                            at = (n * D * H * W + spot) * C + c
                            v = convert(none, load_some(x, at, m0, pad))
                            u = convert(none, load_some(x, at + LANES, m1, pad))
                            if index is not None:
                                if d == d0 and h == h0:
                                    a, b = finite_or_inf(v), finite_or_inf(u)
                                    ia, ib = indices(spot, 0), indices(spot, 0)
                                else:
                                    ia = select(overtakes(v, a), indices(spot, 0), ia)
                                    ib = select(overtakes(u, b), indices(spot, 0), ib)
                                    a, b = greater(finite_or_inf(v), a), greater(finite_or_inf(u), b)
                            elif divisors is None:
                                a, b = greater(finite_or_inf(v), a), greater(finite_or_inf(u), b)
                            else:
                                a, b = with_tap(a, v, divisor), with_tap(b, u, divisor)
                            h += dh
                        d += dd
                    if divisors is None and (any_inf(a) or any_inf(b)):
                        for d in range(d0, d1, dd):
                            for h in range(h0, h1, dh):
                                at = (((n * D + d) * H + h) * W + w) * C + c
                                a = or_nan(a, convert(a, load_some(x, at, m0, pad)))
                                b = or_nan(b, convert(b, load_some(x, at + LANES, m1, pad)))
                store(values, i * GROUP, a)
                store(values, i * GROUP + LANES, b)
                if index is not None:
                    store(places, i * GROUP, mark_nan(a, ia))
                    store(places, i * GROUP + LANES, mark_nan(b, ib))
            step = dw * GROUP
            for _ in range(passes):
                for i in range(0, pixels * GROUP - step, LANES):
                    if index is not None:
                        r, ri = first_of(load(values, i + step), load(places, i + step), load(values, i),
                                         load(places, i))
                        store(places, i, ri)
                    else:
                        r = larger(load(values, i + step), load(values, i))
                    store(values, i, r)
                step *= 2
            for ow in range(OW):
                count = taps * g[t + 2 * OW + ow]
                if passes:
                    first = ow * S * GROUP
                    end = first + (K - width) * dw * GROUP + 1
                    hop = max((K - width) * dw, 1) * GROUP
                else:
                    first, end, hop = g[t + ow] * GROUP, g[t + OW + ow] * GROUP, dw * GROUP
                for half in range(0, GROUP, LANES):
                    m = lanes_inside(half, C - c)
                    r = none
                    out = (row * OW + ow) * C + c + half
                    i = first
                    if index is not None:
                        ri = nowhere
                        while i < end:
                            r, ri = first_of(load(values, i + half), load(places, i + half), r, ri)
                            i += hop
                        store_some(index, out, unmark(ri), m)
                    else:
                        while i < end:
                            r = with_tap(r, load(values, i + half), divisor)
                            i += hop
                    r = averaged(r, divisor, reciprocal, count, splat(none, 1))
                    store_some(y, out, convert(y, r), m)


@worker
def window_planes(lo, hi, x, y, index, divisors, g):
    """Groups [lo, hi) of 32 small planes in channels-first memory. The planes are turned into the channels of an image
    that fits the second cache, where no lane is idle however short the rows are, and the results are turned back. The
    last group reaches back so that it is whole; there are at least 32 planes, of at least 16 elements.
    """
    planes = g[PLANES]
    P, O = g[DEPTH] * g[HEIGHT] * g[WIDTH], g[OUT_D] * g[OUT_H] * g[OUT_W]
    rows = g[OUT_D] * g[OUT_H]
    image = g.copy()
    image[CHANNELS] = GROUP
    tile = np.empty(P * GROUP, x.dtype)
    result = np.empty(max(O, LANES) * GROUP, y.dtype)
    result_index = np.empty(max(O, LANES) * GROUP if index is not None else 0, np.int32)
    whole, part = lanes_inside(0, LANES), lanes_inside(0, O)
    few = g[TAPS] <= 12  # tap by tap, or rows first: by measurement
    places, hops = tap_lists(g[TAPS] if few else 0)
    stage, stage_index = np.empty_like(y[:0]), np.empty(0, np.int32)  # nothing is streamed
    _, _, _, pixels = band_size(divisors, g)
    band = numbers(x, divisors, 0 if few else pixels * GROUP)
    band_places = np.empty(pixels * GROUP if index is not None and not few else 0, np.int32)
    for group in range(lo, hi):
        first = min(group * GROUP, planes - GROUP)
        for i in range(first * P, (first + GROUP) * P if asks(x) else 0, 64 // x.itemsize):
            prefetch(x, i)
        for half in range(0, GROUP, LANES):
            for i in range(0, P, LANES):
                spot = min(i, P - LANES)
                transpose(x, (first + half) * P + spot, P, tile, spot * GROUP + half, GROUP, whole)
        if index is not None:
            if few:
                pixel_rows(0, rows, tile, result, result_index, divisors, image, places, hops, stage, stage_index)
            else:
                band_rows(0, rows, tile, result, result_index, divisors, image, band, band_places)
        elif few:
            pixel_rows(0, rows, tile, result, None, divisors, image, places, hops, stage, stage_index)
        else:
            band_rows(0, rows, tile, result, None, divisors, image, band, band_places)
        for half in range(0, GROUP, LANES):
            for i in range(0, O, LANES):
                spot = max(min(i, O - LANES), 0)
                transpose(result, spot * GROUP + half, GROUP, y, (first + half) * O + spot, O, part)
                if index is not None:
                    transpose(result_index, spot * GROUP + half, GROUP, index, (first + half) * O + spot, O, part)
    return 0
