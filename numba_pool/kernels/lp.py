"""Lp norms, (sum |x|^p)^(1/p) over windows, and their gradient: sign(x) |x|^(p - 1), times the sum of grad * y^(1 - p)
over the windows that hold the element. Magnitudes may be raised to `eps` first, and sums divided by the elements of
their windows, so that norms become generalized means; gradients then are those of elements that were not raised.

Both are one walk. Some rows are taken as float64 and lifted: to |x|^p, or to the shares grad * y^(1 - p). These are
added up over windows, first down columns, then from left to right. Then comes the root, or the factor |x|^(p - 1).

Where a power or a sum may be beyond the range of float64, of float32 never up to p = 6, windows are done again one by
one: their largest magnitude is divided out first. So are those for infinite p, and gradients of dilated windows.
"""

import numpy as np

from .._windows import DEPTH, HEADER, HEIGHT, MOST_H, MOST_W, OUT_D, OUT_H, OUT_W, STEP, STRIDE, TAPS, WIDTH
from ..simd import LANES, add, load, splat, store
from ._compile import copied, helper, inlined, worker
from ._lanes import rows_of
from ._reductions import held_by, next_place, place_of
from ._staging import flush
from .powers import ROUND, powers_times

CHUNK = 1 << 12  # numbers whose powers are taken together: they stay in the first cache, or nearly
MORE_ROWS = 4  # times as many as a window takes, or those that the next chunk takes, too, are too large a share
LARGE = 1 << 17  # numbers of one row of windows, a MiB, that are not taken together
MOST_TAPS, FEW = 9, 4  # taps of a window that are listed, of so many channels last
TOGETHER = 1 << 10  # elements of planes whose taps are listed: they and the lists stay in the first cache


@copied
def is_stray(v, reach):
    """Whether a magnitude is neither 0 nor infinite nor NaN, nor between these two."""
    return ((v > 0.0) & (v < reach[0])) | ((v > reach[1]) & (v < np.inf))


@inlined
def raised(v, eps):
    """A magnitude, at least `eps`; NaN stays."""
    return eps if v < eps else v


@helper
def lift(source, up, at, size, values, ups, to, power, reach, exact, eps):
    """What is added up, of the elements from `at` on, as values from `to` on. Returns how many of these strayed."""
    flush(source, at, size, values, to, False)
    begin, end, strayed = np.uintp(to), np.uintp(to + size), 0
    if up is None and eps > 0.0:
        for i in range(begin, end):
            values[i] = raised(abs(values[i]), eps)
    if reach is not None:
        for i in range(begin, end):
            strayed += is_stray(abs(values[i]), reach)
    if up is None:
        powers_times(values, None, to, size, power, exact, False)
    else:
        flush(up, at, size, ups, to, False)
        powers_times(values, ups, to, size, power, exact, False)
    if up is not None and reach is not None:
        for i in range(begin, end):
            strayed += abs(values[i]) == np.inf
    return strayed


@helper
def divide_rows(values, to, count, row, columns, g):
    """Divide the numbers of windows, as values from `to` on, by the elements of these: those of rows from number `row`
    on. `columns` are what each place of a row contributes to these.
    """
    OD, OH, many = g[OUT_D], g[OUT_H], np.uintp(columns.size)
    q, od, oh = place_of(row, OD, OH)
    for first in range(np.uintp(to), np.uintp(to + count), many):
        taps = np.float64(max(g[HEADER + 2 * OD + od] * g[HEADER + 3 * OD + 2 * OH + oh], 1))
        for i in range(many):
            values[first + i] = np.divide(values[first + i], taps * columns[i])
        q, od, oh = next_place(q, od, oh, OD, OH)


@helper
def taps_along(starts, n, most, step, none, g):
    """The taps of n windows along an axis, whose tables are behind `starts`: of every window the first, of every window
    the second, and so on. `none` stands for taps that there are none of.
    """
    taps = np.full(most * n, none, np.int32)
    for o in range(n):
        to = o
        for i in range(g[starts + o], g[starts + n + o], step):
            taps[to] = i
            to += n
    return taps


@helper
def list_taps(many, columns, g, E):
    """Where the taps of all windows of so many images are in the memory of these: of every window that of its first
    column and row, of the second row, and so on. One behind the last image stands for taps that there are none of.
    """
    H, W, OH, OW = g[HEIGHT], g[WIDTH], g[OUT_H], g[OUT_W]
    rows = taps_along(HEADER + 3 * g[OUT_D], OH, g[MOST_H], g[STEP + 1], H, g)
    taps, to = np.full(columns.size * rows.size * many * E, many * H * W * E, np.int32), 0
    for right in range(0, columns.size, OW):
        for down in range(0, rows.size, OH):
            for row in range(many * OH):
                h = rows[down + row % OH]
                for column in columns[right : right + OW]:
                    if h < H and column < W:
                        for e in range(E):
                            taps[to + e] = ((row // OH * H + h) * W + column) * E + e
                    to += E
    return taps


@helper
def add_taps(values, sums, totals, to, count, taps, tap, apart, high, wide):
    """The sums over so many windows, as totals from `to` on: down columns of `high` elements, then along these."""
    many, step, at, out = np.uintp(count), np.uintp(apart), np.uintp(tap), np.uintp(to)
    for w in range(wide):
        part, begin = (totals, out) if w == 0 else (sums, np.uintp(0))
        for i in range(many):
            part[begin + i] = values[np.uintp(taps[at + i])]
        at += step
        for _ in range(1, high):
            for i in range(many):
                part[begin + i] += values[np.uintp(taps[at + i])]
            at += step
        for i in range(many if w > 0 else np.uintp(0)):
            totals[out + i] += sums[i]


@helper
def sum_down(values, sums, q, od, oh, first, rows, wide, g):
    """The sums down the columns of a row of windows. The values are of a chunk's rows, `rows` of each slice from row
    `first` on.
    """
    in_d, in_h = HEADER + od, HEADER + 3 * g[OUT_D] + oh
    top = ((q * g[DEPTH] + g[in_d]) * g[HEIGHT] - first) * wide
    for c in range(0, wide, LANES):
        total, slice_at = splat(sums, 0), top + c
        for _ in range(g[in_d], g[in_d + g[OUT_D]], g[STEP]):
            for h in range(g[in_h], g[in_h + g[OUT_H]], g[STEP + 1]):
                total = add(total, load(values, slice_at + h * wide))
            slice_at += rows * wide
        store(sums, c, total)


@helper
def sum_along(sums, totals, to, columns, E, g):
    """The sums over the windows of a row, of those down its columns, which are E each; as totals from `to` on."""
    W, OW, step = g[WIDTH], g[OUT_W], g[STEP + 2]
    starts = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H]
    if columns.size > 0:
        sums[W] = 0.0
        add_taps(sums, sums, totals, to, OW, columns, 0, OW, g[MOST_W], 1)
        return
    ow = 0
    while ow < OW:  # what is written too far is written again
        # Windows that are alike and each begin a column further are as one of wider columns.
        run = g[starts + 3 * OW + ow] if g[STRIDE + 2] == 1 and g[starts + ow + 1] == g[starts + ow] + 1 else 1
        for c in range(0, run * E, LANES):
            total = splat(totals, 0)
            for w in range(g[starts + ow], g[starts + OW + ow], step):
                total = add(total, load(sums, w * E + c))
            store(totals, to + ow * E + c, total)
        ow += run


@helper
def chunk_of(row, hi, place, planes, most, room, g):
    """The chunk of rows that begins with this one, of some whole planes or of a part of one: its end, and the first row
    and the number of rows of the input that windows take, or those in their first slice.
    """
    H, OD, OH, (q, od, oh) = g[HEIGHT], g[OUT_D], g[OUT_H], place
    if planes > 0:
        stop = min(q + planes, (hi - 1) // OH + 1)
        return min(hi, stop * OH), q * H, (stop - q) * H
    starts, count, depth = HEADER + 3 * OD + oh, min(hi - row, OH - oh, most), g[HEADER + od]
    slices = max((g[HEADER + OD + od] - depth + g[STEP] - 1) // g[STEP], 1)
    while True:  # a dilated window may begin before the one above it
        top, bottom = g[starts : starts + count].min(), g[starts + OH : starts + OH + count].max()
        if count == 1 or (bottom - top) * slices <= room:
            return row + count, (q * g[DEPTH] + depth) * H + top, max(bottom - top, 0)
        count = (count + 1) // 2


@inlined
def list_spots(q, held, ow, spots, g, E):
    """List where the elements of a window are, those of its first channel: of window `ow` of a row, whose windows hold
    slices and rows as by `held_by`. Returns how many.
    """
    d0, d1, h0, h1, _ = held
    columns, count = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H] + ow, 0
    for d in range(d0, d1, g[STEP]):
        for h in range(h0, h1, g[STEP + 1]):
            at = ((q * g[DEPTH] + d) * g[HEIGHT] + h) * g[WIDTH]
            for w in range(g[columns], g[columns + g[OUT_W]], g[STEP + 2]):
                spots[np.uintp(count)] = (at + w) * E
                count += 1
    return count


@worker
def norm_rows(lo, hi, source, up, x, target, p, reach, exact, eps, held, g):
    """Output rows [lo, hi), counted through all planes, or images in channels-last memory.

    Of norms `source` is the input, and `up` and x are None. Of the gradient, for windows without dilation, it is the
    norms, `up` their gradient, x the input, and the geometry the inverse one. Magnitudes that are not 0 and outside of
    `reach` are strays; None if there are none. `exact` is for `raise_all`. Where sums are divided, `held` is the table
    of the windows, which says by how much; else it is empty.
    """
    H, OD, OH = g[HEIGHT], g[OUT_D], g[OUT_H]
    E, _, wide, long = rows_of(g)
    # Rows of a few windows leave most lanes unused: of small planes all windows are summed by lists of their taps.
    flat = g[DEPTH] == OD == 1 and g[HEADER] < g[HEADER + 1]  # a dilated window may pass the slice over
    plane = max(H * wide, OH * long)
    small = flat and plane <= TOGETHER and g[MOST_H] * g[MOST_W] <= (MOST_TAPS if E <= FEW else 1)
    planes = min((TOGETHER if small else CHUNK) // plane, (hi - 1) // OH - lo // OH + 1) if flat else 0
    most = max(CHUNK // long, MORE_ROWS)  # rows of a chunk
    room = max(CHUNK, min(MORE_ROWS * max(g[TAPS] // g[MOST_W], 1) * g[STEP + 1] * wide, LARGE), wide)
    results = planes * OH * long if planes > 0 else min(most, hi - lo) * long
    values, totals = np.empty(room + ROUND), np.empty(results + ROUND)
    sums = np.empty(max(wide, results if small else 0) + ROUND)
    ups, elements, inner, outer = values, values, p, np.divide(1.0, p)
    if up is not None:
        ups, elements, inner, outer = np.empty(values.size), np.empty(totals.size), 1.0 - p, p - 1.0
    listed = small or (E == 1 and g[STRIDE + 2] != 1 and g[OUT_W] > FEW and g[OUT_W] * g[MOST_W] <= LARGE)
    columns = taps_along(HEADER + 3 * OD + 3 * OH, g[OUT_W] if listed else 0, g[MOST_W], g[STEP + 2], g[WIDTH], g)
    taps = list_taps(planes, columns, g, E) if small else columns
    many = held[OUT_W] if held.size > 0 else 0
    shares = np.empty(many * E)  # what columns contribute to the elements of a window
    for i in range(shares.size):
        shares[i] = max(held[HEADER + 3 * held[OUT_D] + 3 * held[OUT_H] + 2 * many + i // E], 1)
    row, strayed = lo, 0
    while row < hi:
        q, od, oh = place_of(row, OD, OH)
        end, first, rows = chunk_of(row, hi, (q, od, oh), planes, most, room // wide, g)
        count, to = (end - row) * long, 0
        slices = range(g[HEADER + od], g[HEADER + OD + od], g[STEP])
        one = len(slices) * rows * wide > room  # row at a time, of a single row of windows
        size, step = (wide, g[STEP + 1] * wide) if one else (rows * wide, max(rows * wide, 1))
        if one:
            sums[:] = 0.0
        for d in slices:
            begin = (first + (d - slices.start) * H) * wide
            for at in range(begin, begin + rows * wide, step):
                strayed += lift(source, up, at, size, values, ups, to, inner, reach, exact, eps)
                if many and up is not None:
                    divide_rows(values, to, size, at // wide, shares, held)
                if not one:
                    to += size
                for i in range(np.uintp(size if one else 0)):
                    sums[i] += values[i]
        if one:
            sum_along(sums, totals, 0, columns, E, g)
        elif small:
            values[planes * H * wide] = 0.0
            add_taps(values, sums, totals, 0, count, taps, oh * long, planes * OH * long, g[MOST_H], g[MOST_W])
        else:
            for to in range(0, count, long):
                sum_down(values, sums, q, od, oh, first, rows, wide, g)
                sum_along(sums, totals, to, columns, E, g)
                q, od, oh = next_place(q, od, oh, OD, OH)
        if many and up is None:
            divide_rows(totals, 0, count, row, shares, held)
        if x is None:
            powers_times(totals, None, 0, count, outer, exact, False)
            flush(totals, 0, count, target, row * long, False)
        else:
            flush(x, row * long, count, elements, 0, False)
            for i in range(np.uintp(count if eps > 0.0 else 0)):
                elements[i] = 0.0 if abs(elements[i]) < eps else elements[i]
            powers_times(elements, totals, 0, count, outer, exact, True)
            flush(elements, 0, count, target, row * long, False)
        row = end
    return strayed


@worker
def norm_windows(lo, hi, x, y, p, reach, eps, mean, g):
    """Output rows [lo, hi), counted as by `norm_rows`: the windows that hold a stray, or for infinite p all. Of these
    the largest magnitude is divided out first, so that no power overflows or vanishes.
    """
    E, spots, infinite, sign = rows_of(g)[0], np.empty(g[TAPS], np.int64), abs(p) == np.inf, np.copysign(1.0, p)
    for row in range(lo, hi):
        q, od, oh = place_of(row, g[OUT_D], g[OUT_H])
        held = held_by(od, oh, g)
        for ow in range(g[OUT_W]):
            count = list_spots(q, held, ow, spots, g, E)
            for e in range(E):
                best, strayed = -np.inf, infinite
                for i in range(np.uintp(count)):
                    v = raised(abs(np.float64(x[np.uintp(spots[i] + e)])), eps)
                    strayed = strayed or is_stray(v, reach)
                    if v != v or v * sign > best:
                        best = v * sign
                extreme = abs(best) if count > 0 else 0.0
                if not strayed:
                    continue
                if 0 < extreme < np.inf and not infinite:
                    total = 0.0
                    for i in range(count):
                        total += (raised(abs(np.float64(x[spots[i] + e])), eps) / extreme) ** p
                    extreme *= (total / count if mean else total) ** (1.0 / p)
                y[(row * g[OUT_W] + ow) * E + e] = extreme
    return 0


@worker
def norm_gradient_planes(lo, hi, grad, x, y, gx, p, reach, eps, mean, g):
    """Planes [lo, hi) of the gradient: grad * sign(x) * (|x| / y)^(p - 1), added up over the windows. Unless `reach` is
    None, of planes with a stray only.

    For p = inf and -inf the gradient is shared evenly by the taps that attain y, as of a vector's norm. It is 0 at 0,
    and below `eps`.
    """
    E, image, _, long = rows_of(g)
    rows, infinite, spots = g[OUT_D] * g[OUT_H], abs(p) == np.inf, np.empty(g[TAPS], np.int64)
    for plane in range(lo, hi):
        q, e = plane // E, plane % E
        outputs, strayed = range(q * rows * long + e, (q + 1) * rows * long, E), reach is None
        if reach is not None:
            for out in outputs:
                norm, up = abs(np.float64(y[out])), np.float64(grad[out])
                strayed |= is_stray(norm, reach) | ((norm > 0) & (abs(norm ** (1.0 - p) * up) == np.inf))
        if not strayed:
            continue
        for i in range(q * image + e, (q + 1) * image, E):
            gx[i] = 0
        for row in range(rows):
            held = held_by(row // g[OUT_H], row % g[OUT_H], g)
            for ow in range(g[OUT_W]):
                out = outputs.start + row * long + ow * E
                norm, up = np.float64(y[out]), np.float64(grad[out])
                count, ties = list_spots(q, held, ow, spots, g, E) if norm != 0 else 0, 0
                for i in range(count if infinite else 0):
                    ties += raised(abs(np.float64(x[spots[i] + e])), eps) == norm
                for i in range(count):
                    v = np.float64(x[spots[i] + e])
                    if v == 0 or abs(v) < eps:
                        continue
                    share = (abs(v) / norm) ** (p - 1.0) if not infinite else 1.0 / ties if abs(v) == norm else 0.0
                    if mean and not infinite:
                        share /= count
                    gx[spots[i] + e] += up * np.copysign(share, v)
    return 0
