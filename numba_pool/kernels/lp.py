"""Power means without the mean: (sum |x|^p)^(1/p) over windows, and its gradient.

Both directions walk by rows, in loops that are vectors. Where a power or a sum is beyond the range of float64, of
float32 never up to p = 6, windows are done again one by one: their largest magnitude is divided out first. Windows for
infinite p are done so at once; the gradients of these, and of dilated ones, by a plain loop over planes.
"""

import numpy as np
from numba import njit, types

from .._windows import CHANNELS, DEPTH, HEADER, HEIGHT, LAST, MOST_H, MOST_W, OUT_D, OUT_H, OUT_W, STEP, TAPS, WIDTH
from ..simd import (
    LANES,
    add,
    convert,
    greater,
    indices,
    lanes_inside,
    load,
    load_some,
    not_negative,
    pick,
    select,
    splat,
    store,
    store_some,
)
from ._compile import by_types, helper, worker
from ._reductions import next_place, place_of
from .powers import raise_all

ROUND = 32  # numbers that LLVM takes in one turn of a loop; what is left over it takes one by one
CHUNK = 1 << 12  # numbers whose powers are taken together: they stay in the first cache, or nearly
FEW, LONGEST = 4, 1 << 14  # windows, fewer than which are summed one by one, and of the longest row that has tables
MORE_ROWS = 4  # times as many as a window takes, or those that the next chunk takes, too, are too large a share
LARGE = 1 << 17  # numbers of one row of windows, a MiB, that are not taken together


@njit(inline="always")
def whole_turns(size):
    """`size`, or what it takes to leave nothing over."""
    return (size + ROUND - 1) // ROUND * ROUND


@njit(inline="always")
def take(x, at, size, values, to):
    """As many elements of x, from `at` on, as float64 values from `to` on; 1 in the rest of the last turn."""
    one = splat(x, 1)
    for i in range(0, whole_turns(size), LANES):
        store(values, to + i, convert(values, load_some(x, at + i, lanes_inside(i, size), one)))


@njit(inline="always")
def give(values, size, y, at):
    """As many of the first values, rounded, as elements of y from `at` on."""
    for i in range(0, size, LANES):
        store_some(y, at + i, convert(y, load(values, i)), lanes_inside(i, size))


@njit(inline="always")
def is_stray(v, least, most):
    """Whether a magnitude is neither 0 nor infinite nor NaN, nor between these two."""
    return ((v > 0.0) & (v < least)) | ((v > most) & (v < np.inf))


@helper
def strays(values, size, least, most):
    """How many of the first values are."""
    count = 0
    if least == 0.0 and most == np.inf:  # none
        return count
    for i in range(np.uintp(size)):
        count += is_stray(abs(values[i]), least, most)
    return count


@njit(inline="always")
def chunk_of(row, hi, room, g):
    """The chunk of rows that begins with this one: its end, and the first row and the number of rows of the input that
    windows take, or those in their first slice. Of a single slice a chunk may be several planes.
    """
    H, OD, OH = g[HEIGHT], g[OUT_D], g[OUT_H]
    flat = g[DEPTH] == OD == 1
    q, od, oh = place_of(row, OD, OH)
    depth, starts, stops = g[HEADER + od], HEADER + 3 * OD, HEADER + 3 * OD + OH
    slices = max((g[HEADER + OD + od] - depth + g[STEP] - 1) // g[STEP], 1)
    base = (q * g[DEPTH] + depth) * H
    first = stop = base + min(g[starts + oh], H)  # of an empty window
    end = row
    while end < hi and (oh < OH or flat):
        if oh == OH:
            oh, base = 0, base + H
        if g[starts + oh] < g[stops + oh]:
            top = min(first, base + g[starts + oh])  # a dilated window may begin before the one above it
            bottom = max(stop, base + g[stops + oh])
            if end > row and (bottom - top) * slices > room:
                break
            first, stop = top, bottom
        end, oh = end + 1, oh + 1
    return end, first, stop - first


@helper
def lanes_along(g):
    """How vectors of sums hold windows along a row, sixteen at a time: the first of two vectors, or -1 if they do not;
    and for each tap its lanes, -1 where a window has fewer.
    """
    OW, taps = g[OUT_W], g[MOST_W]
    starts = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H]
    bases = np.full((OW + LANES - 1) // LANES, -1, np.int64)
    some = taps <= 2 * LANES and OW <= LONGEST
    lanes = np.full(bases.size * taps * LANES if some else 0, -1, np.int32)
    for v in range(bases.size if some else 0):
        if min(LANES, OW - v * LANES) < FEW:
            break
        low, high = g[WIDTH], 0
        for ow in range(v * LANES, min(v * LANES + LANES, OW)):
            low, high = min(low, g[starts + ow]), max(high, g[starts + OW + ow])
        if high - low > 2 * LANES:
            continue
        bases[v] = low
        for ow in range(v * LANES, min(v * LANES + LANES, OW)):
            tap = v * taps
            for w in range(g[starts + ow], g[starts + OW + ow], g[STEP + 2]):
                lanes[tap * LANES + ow - v * LANES] = w - low
                tap += 1
    return bases, lanes


@njit(inline="always")
def sum_down(values, sums, q, od, oh, first, rows, wide, g):
    """The sums down the columns of a row of windows. The values are of a chunk's rows, `rows` of each slice from row
    `first` on.
    """
    in_d, in_h = HEADER + od, HEADER + 3 * g[OUT_D] + oh
    zero = splat(sums, 0)
    top = ((q * g[DEPTH] + g[in_d]) * g[HEIGHT] - first) * wide
    for c in range(0, wide, LANES):
        total, slice_at = zero, top + c
        for _ in range(g[in_d], g[in_d + g[OUT_D]], g[STEP]):
            for h in range(g[in_h], g[in_h + g[OUT_H]], g[STEP + 1]):
                total = add(total, load(values, slice_at + h * wide))
            slice_at += rows * wide
        store(sums, c, total)


@njit(inline="always")
def sum_along(sums, totals, to, E, bases, lanes, g):
    """The sums over the windows of a row, of those down its columns, which are E each; as totals from `to` on."""
    OW, dw, zero = g[OUT_W], g[STEP + 2], splat(totals, 0)
    starts = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H]
    stops = starts + OW
    if E > 1:
        for ow in range(OW):
            for c in range(0, E, LANES):  # what is written too far is written again
                total = zero
                for w in range(g[starts + ow], g[stops + ow], dw):
                    total = add(total, load(sums, w * E + c))
                store(totals, to + ow * E + c, total)
        return
    at, taps, none = 0, g[MOST_W], indices(0, 0)
    for first_ow in range(0, OW, LANES):
        base = bases[np.uintp(first_ow // LANES)]
        if base >= 0:
            u, v, total = load(sums, base), load(sums, base + LANES), zero
            for tap in range(at, at + taps * LANES, LANES):
                i = load(lanes, tap)
                total = add(total, select(not_negative(i), pick(u, v, greater(i, none)), zero))
            store(totals, to + first_ow, total)
        else:
            for ow in range(first_ow, min(first_ow + LANES, OW)):
                single = 0.0
                for w in range(g[starts + ow], g[stops + ow], dw):
                    single += sums[np.uintp(w)]
                totals[np.uintp(to + ow)] = single
        at += taps * LANES


@njit(inline="always")
def scale_windows(row, x, y, p, least, most, g):
    """The windows of a row that hold a stray, or for infinite p all: the largest magnitude is divided out first, so
    that no power overflows or vanishes.
    """
    H, W, OD, OH, OW = g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    E = g[CHANNELS] if g[LAST] else 1
    q, od, oh = place_of(row, OD, OH)
    in_d, in_h, in_w = HEADER + od, HEADER + 3 * OD + oh, HEADER + 3 * OD + 3 * OH
    base = q * g[DEPTH]
    for out in range(OW * E):
        ow = out // E
        w0, w1 = g[in_w + ow], g[in_w + OW + ow]
        extreme, first, strayed = 0.0, True, abs(p) == np.inf
        for d in range(g[in_d], g[in_d + OD], dd):
            for h in range(g[in_h], g[in_h + OH], dh):
                for w in range(w0, w1, dw):
                    v = abs(np.float64(x[(((base + d) * H + h) * W + w) * E + out % E]))
                    strayed = strayed or is_stray(v, least, most)
                    if first or v != v or (v > extreme if p > 0 else v < extreme):
                        extreme, first = v, False
        if not strayed:
            continue
        total = extreme
        if extreme != 0 and extreme < np.inf and abs(p) < np.inf:
            total = 0.0
            for d in range(g[in_d], g[in_d + OD], dd):
                for h in range(g[in_h], g[in_h + OH], dh):
                    for w in range(w0, w1, dw):
                        v = abs(np.float64(x[(((base + d) * H + h) * W + w) * E + out % E]))
                        total += (v / extreme) ** p
            total = extreme * total ** (1.0 / p)
        y[row * OW * E + out] = total


@njit(inline="always")
def scale_elements(row, grad, x, y, gx, p, least, most, g):
    """The elements of a row in whose windows a norm is a stray, or a share too large: of each window
    grad * sign(x) * (|x| / y)^(p - 1).
    """
    H, W, OD, OH, OW = g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H], g[OUT_W]
    E = g[CHANNELS] if g[LAST] else 1
    q, od, oh = place_of(row, OD, OH)
    in_d, in_h, in_w = HEADER + od, HEADER + 3 * OD + oh, HEADER + 3 * OD + 3 * OH
    for out in range(OW * E):
        v, strayed, total = np.float64(x[row * OW * E + out]), False, 0.0
        for d in range(g[in_d], g[in_d + OD]):
            for h in range(g[in_h], g[in_h + OH]):
                for w in range(g[in_w + out // E], g[in_w + OW + out // E]):
                    i = (((q * g[DEPTH] + d) * H + h) * W + w) * E + out % E
                    norm, up = abs(np.float64(y[i])), np.float64(grad[i])
                    if norm == 0:
                        continue
                    strayed = strayed or is_stray(norm, least, most) or not abs(norm ** (1.0 - p) * up) < np.inf
                    if v != 0:
                        total += up * np.copysign((abs(v) / norm) ** (p - 1.0), v)
        if strayed:
            gx[row * OW * E + out] = total


def mend_windows(row, end, x, y, p, least, most, g):
    """`scale_windows` of some rows. Halves have no strays: where they might, they are widened."""


@by_types(mend_windows)
def _mend_windows(row, end, x, y, p, least, most, g):
    if isinstance(x.dtype, types.Record):
        return lambda row, end, x, y, p, least, most, g: None

    def mend(row, end, x, y, p, least, most, g):
        for i in range(row, end):
            scale_windows(i, x, y, p, least, most, g)

    return mend


def mend_elements(row, end, grad, x, y, gx, p, least, most, g):
    """The same for `scale_elements`."""


@by_types(mend_elements)
def _mend_elements(row, end, grad, x, y, gx, p, least, most, g):
    if isinstance(x.dtype, types.Record):
        return lambda row, end, grad, x, y, gx, p, least, most, g: None

    def mend(row, end, grad, x, y, gx, p, least, most, g):
        for i in range(row, end):
            scale_elements(i, grad, x, y, gx, p, least, most, g)

    return mend


@worker
def norm_windows(lo, hi, x, y, p, g):
    """Output rows [lo, hi), counted as by `norm_rows`, for infinite p: the largest magnitude, or the smallest."""
    for row in range(lo, hi):
        scale_windows(row, x, y, p, 0.0, np.inf, g)
    return 0


@njit(inline="always")
def room_of(wide, g):
    """Rows of a chunk's windows: a few more than one takes, if these are not large."""
    slices = max(g[TAPS] // (g[MOST_H] * g[MOST_W]), 1)
    return max(CHUNK, min(MORE_ROWS * slices * g[MOST_H] * g[STEP + 1] * wide, LARGE)) // wide


@worker
def norm_rows(lo, hi, x, y, p, least, most, exact, g):
    """Output rows [lo, hi), counted through all planes, or images in channels-last memory. Magnitudes that are not 0
    and outside of [`least`, `most`] are strays. `exact` is for `raise_all`.
    """
    E = g[CHANNELS] if g[LAST] else 1
    wide, long, turns = g[WIDTH] * E, g[OUT_W] * E, whole_turns(g[WIDTH] * E)
    room = room_of(wide, g)
    values, sums, totals = np.ones(turns), np.empty(turns + 2 * LANES), np.ones(0)
    bases, lanes = lanes_along(g)
    row = lo
    while row < hi:
        end, first, rows = chunk_of(row, min(hi, row + max(CHUNK // long, MORE_ROWS)), room, g)
        q, od, oh = place_of(row, g[OUT_D], g[OUT_H])
        count, strayed = (end - row) * long, 0
        if totals.size < count + ROUND + LANES:
            totals = np.ones(count + ROUND + LANES)
        d0, d1 = g[HEADER + od], g[HEADER + g[OUT_D] + od]
        needed = len(range(d0, d1, g[STEP])) * rows * wide
        if needed > LARGE and end == row + 1:  # one row at a time
            for i in range(np.uintp(turns)):
                sums[i] = 0.0
            in_h = HEADER + 3 * g[OUT_D] + oh
            for d in range(d0, d1, g[STEP]):
                for h in range(g[in_h], g[in_h + g[OUT_H]], g[STEP + 1]):
                    take(x, ((q * g[DEPTH] + d) * g[HEIGHT] + h) * wide, wide, values, 0)
                    strayed += strays(values, turns, least, most)
                    raise_all(values, 0, turns, p, exact)
                    for i in range(np.uintp(turns)):
                        sums[i] += values[i]
            sum_along(sums, totals, 0, E, bases, lanes, g)
        else:
            if values.size < needed + 2 * ROUND:
                values = np.ones(needed + 2 * ROUND)
            to = 0
            for d in range(d0, d1, g[STEP]):
                take(x, (first + (d - d0) * g[HEIGHT]) * wide, rows * wide, values, to)
                to += rows * wide
            strayed = strays(values, whole_turns(to), least, most)
            raise_all(values, 0, whole_turns(to), p, exact)
            for i in range(row, end):
                sum_down(values, sums, q, od, oh, first, rows, wide, g)
                sum_along(sums, totals, (i - row) * long, E, bases, lanes, g)
                q, od, oh = next_place(q, od, oh, g[OUT_D], g[OUT_H])
        raise_all(totals, 0, whole_turns(count), np.divide(1.0, p), exact)
        give(totals, count, y, row * long)
        if strayed:
            mend_windows(row, end, x, y, p, least, most, g)
        row = end
    return 0


@helper
def share_out(values, norms, up, size, p, least, most, exact):
    """To `values` what every element of its window is to get of the gradient `up`, but for a power of its own:
    up * norms^(1 - p), or 0 for a norm of 0. Returns how many strayed.
    """
    for i in range(np.uintp(size)):
        values[i] = norms[i]
    strayed = strays(norms, size, least, most)
    raise_all(values, 0, size, 1.0 - p, exact)
    for i in range(np.uintp(size)):
        share = values[i] * up[i]
        values[i] = share if norms[i] != 0.0 else 0.0
        strayed += not abs(values[i]) < np.inf
    return strayed


@helper
def gather_up(powers, elements, totals, size, p, exact):
    """To `powers` the gradients of the elements, of the totals of what their windows share out."""
    for i in range(np.uintp(size)):
        powers[i] = elements[i]
    raise_all(powers, 0, size, p - 1.0, exact)
    for i in range(np.uintp(size)):
        share = np.copysign(powers[i], elements[i]) * totals[i]
        powers[i] = share if elements[i] != 0.0 else 0.0


@worker
def norm_gradient_rows(lo, hi, grad, x, y, gx, p, least, most, exact, g):
    """Rows [lo, hi) of the gradient, counted through all planes, or images in channels-last memory, for windows without
    dilation: sign(x) |x|^(p - 1), times the sum of grad * y^(1 - p) over the windows that hold the element. Norms may
    be strays, as by `norm_rows`. The geometry is the inverse one.
    """
    E = g[CHANNELS] if g[LAST] else 1
    wide, long = g[WIDTH] * E, g[OUT_W] * E
    room = room_of(wide, g)
    values, norms, up = np.ones(0), np.ones(0), np.ones(0)
    sums, totals, elements, powers = np.empty(whole_turns(wide) + 2 * LANES), np.ones(0), np.ones(0), np.ones(0)
    bases, lanes = lanes_along(g)
    row = lo
    while row < hi:
        end, first, rows = chunk_of(row, min(hi, row + max(CHUNK // long, MORE_ROWS)), room, g)
        q, od, oh = place_of(row, g[OUT_D], g[OUT_H])
        d0, d1 = g[HEADER + od], g[HEADER + g[OUT_D] + od]
        needed = max(d1 - d0, 0) * rows * wide + 2 * ROUND
        if values.size < needed:
            values, norms, up = np.ones(needed), np.ones(needed), np.ones(needed)
        to = 0
        for d in range(d0, d1):
            take(y, (first + (d - d0) * g[HEIGHT]) * wide, rows * wide, norms, to)
            take(grad, (first + (d - d0) * g[HEIGHT]) * wide, rows * wide, up, to)
            to += rows * wide
        size = whole_turns(to)
        strayed = share_out(values, norms, up, size, p, least, most, exact)
        count = (end - row) * long
        size = whole_turns(count)
        if elements.size < size:
            totals, elements, powers = np.ones(size + LANES), np.ones(size), np.ones(size)
        for i in range(row, end):
            sum_down(values, sums, q, od, oh, first, rows, wide, g)
            sum_along(sums, totals, (i - row) * long, E, bases, lanes, g)
            q, od, oh = next_place(q, od, oh, g[OUT_D], g[OUT_H])
        take(x, row * long, count, elements, 0)
        gather_up(powers, elements, totals, size, p, exact)
        give(powers, count, gx, row * long)
        if strayed:
            mend_elements(row, end, grad, x, y, gx, p, least, most, g)
        row = end
    return 0


@worker
def norm_gradient_planes(lo, hi, grad, x, y, gx, p, g):
    """Planes [lo, hi) of the gradient, for dilated windows or infinite p: grad * sign(x) * (|x| / y)^(p - 1), added up
    over the windows.

    For p = inf and -inf the gradient is shared evenly by the taps that attain y, as of a vector's norm. It is 0 at 0.
    """
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    P, O = D * H * W, OD * OH * OW
    for q in range(lo, hi):
        if g[LAST]:
            n = q // C
            c = q - n * C
            xo, yo, s = n * P * C + c, n * O * C + c, C
        else:
            xo, yo, s = q * P, q * O, 1
        for i in range(P):
            gx[xo + i * s] = 0
        for o in range(O):
            od = o // (OH * OW)
            oh = o // OW - od * OH
            t = HEADER
            d0, d1 = g[t + od], g[t + OD + od]
            t += 3 * OD
            h0, h1 = g[t + oh], g[t + OH + oh]
            t += 3 * OH + o % OW
            norm, up = np.float64(y[yo + o * s]), np.float64(grad[yo + o * s])
            if norm == 0:
                continue
            ties = 0
            if abs(p) == np.inf:
                for d in range(d0, d1, dd):
                    for h in range(h0, h1, dh):
                        for w in range(g[t], g[t + OW], dw):
                            ties += abs(np.float64(x[xo + ((d * H + h) * W + w) * s])) == norm
            for d in range(d0, d1, dd):
                for h in range(h0, h1, dh):
                    for w in range(g[t], g[t + OW], dw):
                        i = xo + ((d * H + h) * W + w) * s
                        v = np.float64(x[i])
                        if v == 0:
                            continue
                        if abs(p) == np.inf:
                            share = 1.0 / ties if abs(v) == norm else 0.0
                        else:
                            share = (abs(v) / norm) ** (p - 1.0)
                        gx[i] += up * np.copysign(share, v)
    return 0
