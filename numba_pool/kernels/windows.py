"""Reductions over windows: the maximum, the maximum with its flat argmax, and the average.

All three are one walk. What differs is the type of two arguments, by which Numba compiles a walk for each:
`index` is an int32 array, or None for values alone; `divisors` is None for the maximum. For the average it is an array
(divisor, reciprocal) whose dtype is that of the arithmetic: the divisor of every window, or 0 where each has its own
count; and its reciprocal where that is exact, else 0, because a product takes a tenth of a quotient's time.

Order: first down the columns of a window, then from left to right, whichever kernel runs, so that sums are the same bit
for bit in every memory order and for every split of the work. A maximum keeps the first of equals and the last NaN.
"""

import numpy as np
from numba import njit, prange, types
from numba.extending import overload

from .._geometry import (
    BEFORE,
    CHANNELS,
    DEPTH,
    HEADER,
    HEIGHT,
    KERNEL,
    OUT_D,
    OUT_H,
    OUT_W,
    PLANES,
    STEP,
    STRIDE,
    TAPS,
    WIDTH,
)
from ._compile import driver, worker
from ._staging import STAGE, STREAMED, flush
from ._vectors import (
    LANES,
    NOWHERE,
    add,
    arithmetic,
    beats,
    convert,
    divide,
    equal,
    evens,
    every,
    every_twice,
    fence,
    first_of,
    indices,
    lanes_inside,
    larger,
    load,
    load_some,
    mark_nan,
    multiply,
    prefetch,
    select,
    splat,
    store,
    store_first,
    store_some,
    transpose,
    unmark,
)

AHEAD = 2048  # elements between what is read and what is asked for
GROUP = 2 * LANES  # planes that become the channels of an image


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
    if isinstance(x.dtype, types.Record):
        return lambda x, divisors, size: np.empty(size, np.float32)
    return lambda x, divisors, size: np.empty(size, x.dtype)


def shared(divisors):
    """(divisor, reciprocal) out of `divisors`; (None, None) for a maximum."""


@overload(shared)
def _shared(divisors):
    if isinstance(divisors, types.NoneType):
        return lambda divisors: (None, None)
    return lambda divisors: (divisors[0], divisors[1])


# What stands in inner loops takes no arrays: unless LLVM inlines it, Numba counts a reference at each call.


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


@worker
def window_rows(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all planes, in channels-first memory, for windows of up to 5 columns
    at a stride of up to 4: 32 columns of the input in two vectors, reduced downwards in memory and across in registers.
    """
    D, H, W = g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh = g[STEP], g[STEP + 1]
    S, K, before = g[STRIDE + 2], g[KERNEL + 2], g[BEFORE + 2]
    outputs = min(LANES, (2 * LANES - K) // S + 1)
    none = nothing(x, divisors)
    divisor, reciprocal = shared(divisors)
    pad = outside(x, divisors)
    nowhere = indices(NOWHERE, 0)
    streaming = y.size * y.itemsize >= STREAMED
    stage = np.empty_like(y[: STAGE + LANES if streaming else 0])
    stage_index = np.empty(STAGE + LANES if streaming and index is not None else 0, np.int32)
    gathered, done = 0, lo * OW
    # Elements of the input to a row and to an element of the output, and of a cache line.
    share, per, line = D * H * W // (OD * OH), -(-D * H * W // (OD * OH * OW)), 64 // x.itemsize
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
        t += 3 * OH + 2 * OW
        empty = d0 >= d1 or h0 >= h1
        ahead = q * D * H * W + (od * OH + oh) * share + max(share, AHEAD)
        for j in range(0, OW, outputs):
            c = S * j - before
            for i in range(ahead + j * per, ahead + (j + outputs) * per, line):
                prefetch(x, i)
            m0, m1 = lanes_inside(c, W), lanes_inside(c + LANES, W)
            m = lanes_inside(0, min(OW - j, outputs))
            if index is not None:
                if empty:
                    a, b, ia, ib = none, none, nowhere, nowhere
                else:
                    spot = (d0 * H + h0) * W + c
                    a = load_some(x, q * D * H * W + spot, m0, none)
                    b = load_some(x, q * D * H * W + spot + LANES, m1, none)
                    ia, ib = indices(spot, 1), indices(spot + LANES, 1)
                    d, h = d0, h0 + dh
                    while d < d1:  # not range: its length for an unknown step takes a division
                        while h < h1:
                            spot = (d * H + h) * W + c
                            v = load_some(x, q * D * H * W + spot, m0, none)
                            wins = beats(v, a)
                            a, ia = select(wins, v, a), select(wins, indices(spot, 1), ia)
                            v = load_some(x, q * D * H * W + spot + LANES, m1, none)
                            wins = beats(v, b)
                            b, ib = select(wins, v, b), select(wins, indices(spot + LANES, 1), ib)
                            h += dh
                        d, h = d + dd, h0
                    ia, ib = select(m0, mark_nan(a, ia), nowhere), select(m1, mark_nan(b, ib), nowhere)
                r, ri = across_indexed(a, b, ia, ib, K, S)
                if streaming:
                    store(stage_index, gathered, unmark(ri))
                else:
                    store_some(index, row * OW + j, unmark(ri), m)
            else:
                a, b = none, none
                d = d0
                while d < d1:
                    h = h0
                    while h < h1:
                        at = q * D * H * W + (d * H + h) * W + c
                        a = with_tap(a, convert(none, load_some(x, at, m0, pad)), divisor)
                        b = with_tap(b, convert(none, load_some(x, at + LANES, m1, pad)), divisor)
                        h += dh
                    d += dd
                widths = load_some(g, t + j, m, splat(g, 1))
                r = averaged(across(a, b, K, S, divisor), divisor, reciprocal, taps, widths)
            if not streaming:
                store_some(y, row * OW + j, convert(y, r), m)
                continue
            store(stage, gathered, convert(y, r))
            gathered += min(OW - j, outputs)
            if gathered >= STAGE or (row == hi - 1 and j + outputs >= OW):
                flush(stage, 0, gathered, y, done, True)
                if index is not None:
                    flush(stage_index, 0, gathered, index, done, True)
                gathered, done = 0, done + gathered
    if streaming:
        fence()


@njit(inline="always")
def across(a, b, K, S, divisor):
    """Windows of K columns at stride S among the 32 columns a | b, from left to right."""
    if S == 1:
        r = every(a, b, 0, 1)
        if K > 1:
            r = with_tap(r, every(a, b, 1, 1), divisor)
        if K > 2:
            r = with_tap(r, every(a, b, 2, 1), divisor)
        if K > 3:
            r = with_tap(r, every(a, b, 3, 1), divisor)
        if K > 4:
            r = with_tap(r, every(a, b, 4, 1), divisor)
    elif S == 2:
        r = every(a, b, 0, 2)
        if K > 1:
            r = with_tap(r, every(a, b, 1, 2), divisor)
        if K > 2:
            r = with_tap(r, every(a, b, 2, 2), divisor)
        if K > 3:
            r = with_tap(r, every(a, b, 3, 2), divisor)
        if K > 4:
            r = with_tap(r, every(a, b, 4, 2), divisor)
    elif S == 3:
        r = every(a, b, 0, 3)
        if K > 1:
            r = with_tap(r, every(a, b, 1, 3), divisor)
        if K > 2:
            r = with_tap(r, every(a, b, 2, 3), divisor)
        if K > 3:
            r = with_tap(r, every(a, b, 3, 3), divisor)
        if K > 4:
            r = with_tap(r, every(a, b, 4, 3), divisor)
    else:
        r = every(a, b, 0, 4)
        if K > 1:
            r = with_tap(r, every(a, b, 1, 4), divisor)
        if K > 2:
            r = with_tap(r, every(a, b, 2, 4), divisor)
        if K > 3:
            r = with_tap(r, every(a, b, 3, 4), divisor)
        if K > 4:
            r = with_tap(r, every(a, b, 4, 4), divisor)
    return r


@njit(inline="always")
def across_indexed(a, b, ia, ib, K, S):
    """The same for a maximum and its index."""
    if S == 1:
        r, ri = every(a, b, 0, 1), every(ia, ib, 0, 1)
        if K > 1:
            r, ri = first_of(every(a, b, 1, 1), every(ia, ib, 1, 1), r, ri)
        if K > 2:
            r, ri = first_of(every(a, b, 2, 1), every(ia, ib, 2, 1), r, ri)
        if K > 3:
            r, ri = first_of(every(a, b, 3, 1), every(ia, ib, 3, 1), r, ri)
        if K > 4:
            r, ri = first_of(every(a, b, 4, 1), every(ia, ib, 4, 1), r, ri)
    elif S == 2:
        r, ri = every(a, b, 0, 2), every(ia, ib, 0, 2)
        if K > 1:
            r, ri = first_of(every(a, b, 1, 2), every(ia, ib, 1, 2), r, ri)
        if K > 2:
            r, ri = first_of(every(a, b, 2, 2), every(ia, ib, 2, 2), r, ri)
        if K > 3:
            r, ri = first_of(every(a, b, 3, 2), every(ia, ib, 3, 2), r, ri)
        if K > 4:
            r, ri = first_of(every(a, b, 4, 2), every(ia, ib, 4, 2), r, ri)
    elif S == 3:
        r, ri = every(a, b, 0, 3), every(ia, ib, 0, 3)
        if K > 1:
            r, ri = first_of(every(a, b, 1, 3), every(ia, ib, 1, 3), r, ri)
        if K > 2:
            r, ri = first_of(every(a, b, 2, 3), every(ia, ib, 2, 3), r, ri)
        if K > 3:
            r, ri = first_of(every(a, b, 3, 3), every(ia, ib, 3, 3), r, ri)
        if K > 4:
            r, ri = first_of(every(a, b, 4, 3), every(ia, ib, 4, 3), r, ri)
    else:
        r, ri = every(a, b, 0, 4), every(ia, ib, 0, 4)
        if K > 1:
            r, ri = first_of(every(a, b, 1, 4), every(ia, ib, 1, 4), r, ri)
        if K > 2:
            r, ri = first_of(every(a, b, 2, 4), every(ia, ib, 2, 4), r, ri)
        if K > 3:
            r, ri = first_of(every(a, b, 3, 4), every(ia, ib, 3, 4), r, ri)
        if K > 4:
            r, ri = first_of(every(a, b, 4, 4), every(ia, ib, 4, 4), r, ri)
    return r, ri


@driver
def window_rows_parallel(chunks, units, x, y, index, divisors, g):
    for chunk in prange(chunks):
        window_rows(units * chunk // chunks, units * (chunk + 1) // chunks, x, y, index, divisors, g)


@worker
def window_buffered(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all planes, in channels-first memory, for any windows.

    The rows of a window are reduced into one buffered row (its values; for an argmax its indices too) with margins
    that hold nothing. Maxima along it come by doubling, windows of 1, 2, 4, ... columns, so that a wide window costs
    log2 of its width; sums from left to right. Outputs at stride 1 are vectors, others are picked one by one.
    """
    D, H, W = g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    S, K, before = g[STRIDE + 2], g[KERNEL + 2], g[BEFORE + 2]
    uniform = (S > 0 and (S == 1 or divisors is None)) and (OW - 1) * S + (K - 1) * dw < 4 * W + 1024
    # Taps left over after all doubling: `remaining` of them, `hop` columns apart.
    width, remaining, hop, passes = 1, K, dw, 0
    if divisors is None and uniform and K > 3:
        while 2 * width <= K:
            width, passes = 2 * width, passes + 1
        remaining, hop = (1, 0) if width == K else (2, (K - width) * dw)
    span = (OW - 1) * S + (K - 1) * dw + 1 if uniform else W
    left = before + LANES if uniform else LANES
    size = left + max(W, span) + (width * dw if passes else 0) + 4 * LANES
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    nowhere = indices(NOWHERE, 0)
    values = numbers(x, divisors, size)
    wide = numbers(x, divisors, size if passes else 0)
    places = np.empty(size if index is not None else 0, np.int32)
    wide_places = np.empty(size if index is not None and passes else 0, np.int32)
    for i in range(0, size - LANES + 1):
        store(values, i, none)
        if passes:
            store(wide, i, none)
        if index is not None:
            store(places, i, nowhere)
            if passes:
                store(wide_places, i, nowhere)
    share, line = D * H * W // (OD * OH), 64 // x.itemsize
    for row in range(lo, hi):
        q = row // (OD * OH)
        od = row // OH - q * OD
        oh = row - (q * OD + od) * OH
        t = HEADER
        d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
        t += 3 * OD
        h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
        t += 3 * OH
        ahead = q * D * H * W + (od * OH + oh) * share + AHEAD
        for i in range(ahead, ahead + share, line):
            prefetch(x, i)
        first = True
        d = d0
        while d < d1:
            h = h0
            while h < h1:
                spot = (d * H + h) * W
                for c in range(0, W, LANES):
                    m = lanes_inside(c, W)
                    v = convert(none, load_some(x, q * D * H * W + spot + c, m, pad))
                    if index is not None:
                        if first:
                            store(values, left + c, v)
                            store(places, left + c, select(m, indices(spot + c, 1), nowhere))
                        else:
                            a = load(values, left + c)
                            wins = beats(v, a)
                            store(values, left + c, select(wins, v, a))
                            store(places, left + c,
                                  select(wins, indices(spot + c, 1), load(places, left + c)))
                    else:
                        store(values, left + c, with_tap(none if first else load(values, left + c), v, divisor))
                first = False
                h += dh
            d += dd
        if first:  # no row of the window lies inside
            for c in range(0, W, LANES):
                store(values, left + c, none)
                if index is not None:
                    store(places, left + c, nowhere)
        elif index is not None:
            for c in range(0, W, LANES):
                store(places, left + c, mark_nan(load(values, left + c), load(places, left + c)))
        if passes:
            step = dw
            for level in range(passes):
                for c in range(left - before, left - before + span, LANES):
                    if level == 0:
                        a, b = load(values, c), load(values, c + step)
                    else:
                        a, b = load(wide, c), load(wide, c + step)
                    if index is not None:
                        if level == 0:
                            ia, ib = load(places, c), load(places, c + step)
                        else:
                            ia, ib = load(wide_places, c), load(wide_places, c + step)
                        a, ia = first_of(b, ib, a, ia)
                        store(wide_places, c, ia)
                    else:
                        a = larger(b, a)
                    store(wide, c, a)
                step *= 2
        source, source_places = (wide, wide_places) if passes else (values, places)
        if uniform and S == 1:
            for j in range(0, OW, LANES):
                m = lanes_inside(0, OW - j)
                at = left - before + j
                r = load(source, at)
                if index is not None:
                    ri = load(source_places, at)
                    for tap in range(1, remaining):
                        r, ri = first_of(load(source, at + tap * hop), load(source_places, at + tap * hop), r, ri)
                    store_some(index, row * OW + j, unmark(ri), m)
                else:
                    r = with_tap(none, r, divisor)
                    for tap in range(1, remaining):
                        r = with_tap(r, load(source, at + tap * hop), divisor)
                r = averaged(r, divisor, reciprocal, taps, load_some(g, t + 2 * OW + j, m, splat(g, 1)))
                store_some(y, row * OW + j, convert(y, r), m)
        else:
            for j in range(OW):
                if uniform:
                    at = left - before + j * S
                    end, stride = at + (remaining - 1) * hop + 1, max(hop, 1)
                else:
                    at, end, stride = left + g[t + j], left + g[t + OW + j], dw
                r = none
                if index is not None:
                    ri = nowhere
                    while at < end:
                        r, ri = first_of(load(source, at), load(source_places, at), r, ri)
                        at += stride
                    store_first(index, row * OW + j, unmark(ri))
                else:
                    while at < end:
                        r = with_tap(r, load(source, at), divisor)
                        at += stride
                r = averaged(r, divisor, reciprocal, taps, splat(g, g[t + 2 * OW + j]))
                store_first(y, row * OW + j, convert(y, r))


@driver
def window_buffered_parallel(chunks, units, x, y, index, divisors, g):
    for chunk in prange(chunks):
        window_buffered(units * chunk // chunks, units * (chunk + 1) // chunks, x, y, index, divisors, g)


@worker
def window_pixels(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all images, in channels-last memory: the lanes are channels, so that
    any window is the same walk over whole vectors. Taps of a maximum are met in row-major order.
    """
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    none = nothing(x, divisors)
    divisor, reciprocal = shared(divisors)
    pad = outside(x, divisors)
    streaming = y.size * y.itemsize >= STREAMED
    stage = np.empty_like(y[: STAGE + 2 * LANES if streaming else 0])
    stage_index = np.empty(STAGE + 2 * LANES if streaming and index is not None else 0, np.int32)
    gathered, done = 0, lo * OW * C
    share, per, line = D * H * W * C // (OD * OH), -(-D * H * W * C // (OD * OH * OW)), 64 // x.itemsize
    for row in range(lo, hi):
        n = row // (OD * OH)
        od = row // OH - n * OD
        oh = row - (n * OD + od) * OH
        t = HEADER
        d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
        t += 3 * OD
        h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
        t += 3 * OH
        image = n * D * H * W
        ahead = image * C + (od * OH + oh) * share + max(share, AHEAD)
        ow = -1
        while ow + 1 < OW:
            ow += 1
            w0, w1, width = g[t + ow], g[t + OW + ow], g[t + 2 * OW + ow]
            count = taps * width
            for i in range(ahead + ow * per, ahead + (ow + 1) * per, line):
                prefetch(x, i)
            # The second vector: the next channels; or, where there are none, the next window if it is of the same size.
            pair = C <= LANES and ow + 1 < OW
            if pair:
                pair = g[t + OW + ow + 1] - g[t + ow + 1] == w1 - w0 and g[t + 2 * OW + ow + 1] == width
            hop = g[t + ow + 1] - w0 if pair else 0  # in pixels
            beside = hop * C if pair else LANES
            for c in range(0, C, GROUP):
                m0 = lanes_inside(0, C - c)
                m1 = m0 if pair else lanes_inside(LANES, C - c)
                out, after = (row * OW + ow) * C + c, C if pair else LANES
                a, b = none, none
                if index is not None:
                    ia, ib = indices(-1, 0), indices(-1, 0)
                    fresh = True
                    d = d0
                    while d < d1:
                        h = h0
                        while h < h1:
                            w = w0
                            while w < w1:
                                spot = (d * H + h) * W + w
                                v = load_some(x, (image + spot) * C + c, m0, pad)
                                u = load_some(x, (image + spot) * C + c + beside, m1, pad)
                                if fresh:  # the first tap wins even if it is no larger than nothing
                                    fresh = False
                                    a, b, ia, ib = v, u, indices(spot, 0), indices(spot + hop, 0)
                                else:
                                    wins = beats(v, a)
                                    a, ia = select(wins, v, a), select(wins, indices(spot, 0), ia)
                                    wins = beats(u, b)
                                    b, ib = select(wins, u, b), select(wins, indices(spot + hop, 0), ib)
                                w += dw
                            h += dh
                        d += dd
                    if streaming:
                        store(stage_index, gathered, ia)
                        store(stage_index, gathered + after, ib)
                    else:
                        store_some(index, out, ia, m0)
                        store_some(index, out + after, ib, m1)
                elif divisors is None:
                    d = d0
                    while d < d1:
                        h = h0
                        while h < h1:
                            w = w0
                            at = (image + (d * H + h) * W + w) * C + c
                            while w < w1:
                                a = with_tap(a, convert(none, load_some(x, at, m0, pad)), divisor)
                                b = with_tap(b, convert(none, load_some(x, at + beside, m1, pad)), divisor)
                                w, at = w + dw, at + dw * C
                            h += dh
                        d += dd
                else:
                    w = w0
                    while w < w1:
                        column, second = none, none
                        d = d0
                        while d < d1:
                            h = h0
                            while h < h1:
                                at = (image + (d * H + h) * W + w) * C + c
                                column = add(column, convert(none, load_some(x, at, m0, pad)))
                                second = add(second, convert(none, load_some(x, at + beside, m1, pad)))
                                h += dh
                            d += dd
                        a, b = add(a, column), add(b, second)
                        w += dw
                    a = averaged(a, divisor, reciprocal, count, splat(none, 1))
                    b = averaged(b, divisor, reciprocal, count, splat(none, 1))
                if streaming:
                    store(stage, gathered, convert(y, a))
                    store(stage, gathered + after, convert(y, b))
                    gathered += 2 * C if pair else min(C - c, GROUP)
                    if gathered >= STAGE or (row == hi - 1 and ow + pair == OW - 1 and c + GROUP >= C):
                        flush(stage, 0, gathered, y, done, True)
                        if index is not None:
                            flush(stage_index, 0, gathered, index, done, True)
                        gathered, done = 0, done + gathered
                else:
                    store_some(y, out, convert(y, a), m0)
                    store_some(y, out + after, convert(y, b), m1)
            ow += pair
    if streaming:
        fence()


@driver
def window_pixels_parallel(chunks, units, x, y, index, divisors, g):
    for chunk in prange(chunks):
        window_pixels(units * chunk // chunks, units * (chunk + 1) // chunks, x, y, index, divisors, g)


@worker
def spread_rows(lo, hi, grad, gx, divisors, g):
    """Rows [lo, hi) of the gradient of an average, in channels-first memory, for windows without dilation that all have
    the same divisor. The geometry is the inverse one: per input row, the range of output rows whose windows hold it.

    Upstream rows are summed into a buffer with zeros on both sides, and the buffer is spread along the row.
    """
    H, W = g[HEIGHT], g[WIDTH]  # of the upstream gradient
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]  # of the input
    S, K, before = g[STRIDE + 2], g[KERNEL + 2], g[BEFORE + 2]  # of the forward
    margin = LANES + (K if S == 1 or S == 2 else 0)
    buffer = np.zeros(W + 2 * margin + 2 * LANES, divisors.dtype)
    even = evens()
    zero, none = splat(divisors, 0), splat(grad, 0)
    divisor, reciprocal = shared(divisors)
    streaming = gx.size * gx.itemsize >= STREAMED
    stage = np.empty(STAGE + OW + 3 * LANES, gx.dtype)
    line = np.empty(max((W - 1) * S + K, OW + before) + LANES, divisors.dtype)
    gathered, done = LANES, lo * OW
    share = g[DEPTH] * H * W // (OD * OH)
    q = lo // (OD * OH)
    od = lo // OH - q * OD
    oh = lo - (q * OD + od) * OH - 1
    for row in range(lo, hi):
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
        ahead = q * g[DEPTH] * H * W + (od * OH + oh) * share + AHEAD
        for i in range(ahead, ahead + share, 64 // grad.itemsize):
            prefetch(grad, i)
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
        elif S == 2:
            for w in range(-(before & 1), OW, LANES):  # an even column of the padded row
                total = zero
                for tap in range(2 * ((K - 1) // 2), -1, -2):
                    v = every_twice(load(buffer, margin + (w + before - tap) // 2))
                    total = add(total, v if tap + 1 < K else select(even, v, zero))
                v = convert(gx, averaged(total, divisor, reciprocal, 1, zero))
                if w < 0:  # the element before this row is the last of the row before
                    store_some(stage, gathered + w, v, lanes_inside(w, OW))
                else:
                    store(stage, gathered + w, v)
        elif 0 < S < LANES:
            line[:] = 0
            for tap in range(K - 1, -1, -1):  # windows from left to right at every element
                for o in range(W):
                    line[np.uintp(o * S + tap)] += buffer[margin + o]
            for w in range(0, OW, LANES):
                v = convert(gx, averaged(load(line, w + before), divisor, reciprocal, 1, zero))
                store(stage, gathered + w, v)
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
        if gathered >= STAGE or row == hi - 1:
            flush(stage, LANES, gathered - LANES, gx, done, streaming)
            gathered, done = LANES, done + gathered - LANES
    if streaming:
        fence()


@driver
def spread_rows_parallel(chunks, units, grad, gx, divisors, g):
    for chunk in prange(chunks):
        spread_rows(units * chunk // chunks, units * (chunk + 1) // chunks, grad, gx, divisors, g)


@worker
def window_bands(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all images, in channels-last memory, for windows of many taps.

    For 32 channels at a time the rows of a window are reduced into one buffered row of pixels, with margins that hold
    nothing, and the windows are reduced along it: maxima by doubling, windows of 1, 2, 4, ... columns, so that the cost
    of a column grows with log2 of the window's width; sums from left to right.
    """
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    S, K, before = g[STRIDE + 2], g[KERNEL + 2], g[BEFORE + 2]
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    nowhere = indices(NOWHERE, 0)
    width, passes = 1, 0
    span = (OW - 1) * S + (K - 1) * dw + 1
    if divisors is None and S > 0 and K > 3 and span < 4 * W + 1024:
        while 2 * width <= K:
            width, passes = 2 * width, passes + 1
    left = before if passes else 0
    pixels = max(left + W, span + width * dw) if passes else W
    values = numbers(x, divisors, pixels * GROUP)
    places = np.empty(pixels * GROUP if index is not None else 0, np.int32)
    for row in range(lo, hi):
        n = row // (OD * OH)
        od = row // OH - n * OD
        oh = row - (n * OD + od) * OH
        t = HEADER
        d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
        t += 3 * OD
        h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
        t += 3 * OH
        for c in range(0, C, GROUP):
            m0, m1 = lanes_inside(0, C - c), lanes_inside(LANES, C - c)
            for i in range(pixels):
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
                                    a, b, ia, ib = v, u, indices(spot, 0), indices(spot, 0)
                                else:
                                    wins = beats(v, a)
                                    a, ia = select(wins, v, a), select(wins, indices(spot, 0), ia)
                                    wins = beats(u, b)
                                    b, ib = select(wins, u, b), select(wins, indices(spot, 0), ib)
                            else:
                                a, b = with_tap(a, v, divisor), with_tap(b, u, divisor)
                            h += dh
                        d += dd
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


@driver
def window_bands_parallel(chunks, units, x, y, index, divisors, g):
    for chunk in prange(chunks):
        window_bands(units * chunk // chunks, units * (chunk + 1) // chunks, x, y, index, divisors, g)


@njit
def channels_last(lo, hi, x, y, index, divisors, g):
    """The better of the two walks: tap by tap, or rows first (from 13 taps on, by measurement)."""
    if g[TAPS] <= 12:
        window_pixels(lo, hi, x, y, index, divisors, g)
    else:
        window_bands(lo, hi, x, y, index, divisors, g)


@worker
def window_planes(lo, hi, x, y, index, divisors, g):
    """Groups [lo, hi) of 32 small planes in channels-first memory, the planes are turned into
    the channels of an image that fits the second cache, where no lane is idle however short the rows are, and the
    results are turned back. The last group reaches back so that it is whole; there are at least 32 planes, of at
    least 16 elements.
    """
    planes = g[PLANES]
    P, O = g[DEPTH] * g[HEIGHT] * g[WIDTH], g[OUT_D] * g[OUT_H] * g[OUT_W]
    image = g.copy()
    image[CHANNELS] = GROUP
    tile = np.empty(P * GROUP, x.dtype)
    result = np.empty(max(O, LANES) * GROUP, y.dtype)
    result_index = np.empty(max(O, LANES) * GROUP if index is not None else 0, np.int32)
    whole, part = lanes_inside(0, LANES), lanes_inside(0, O)
    for group in range(lo, hi):
        first = min(group * GROUP, planes - GROUP)
        for i in range(first * P, (first + GROUP) * P, 64 // x.itemsize):
            prefetch(x, i)
        for half in range(0, GROUP, LANES):
            for i in range(0, P, LANES):
                spot = min(i, P - LANES)
                transpose(x, (first + half) * P + spot, P, tile, spot * GROUP + half, GROUP, whole)
        if index is not None:
            channels_last(0, g[OUT_D] * g[OUT_H], tile, result, result_index, divisors, image)
        else:
            channels_last(0, g[OUT_D] * g[OUT_H], tile, result, None, divisors, image)
        for half in range(0, GROUP, LANES):
            for i in range(0, O, LANES):
                spot = max(min(i, O - LANES), 0)
                transpose(result, spot * GROUP + half, GROUP, y, (first + half) * O + spot, O, part)
                if index is not None:
                    transpose(result_index, spot * GROUP + half, GROUP, index, (first + half) * O + spot, O, part)


@driver
def window_planes_parallel(chunks, units, x, y, index, divisors, g):
    for chunk in prange(chunks):
        window_planes(units * chunk // chunks, units * (chunk + 1) // chunks, x, y, index, divisors, g)
