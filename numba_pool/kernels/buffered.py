"""Windows of any sort, in channels-first memory or of few channels: a row at a time is reduced, then along it."""

import numpy as np
from numba import njit

from .._windows import (
    BEFORE,
    CHANNELS,
    DEPTH,
    HEADER,
    HEIGHT,
    KERNEL,
    LAST,
    MOST_H,
    OUT_D,
    OUT_H,
    OUT_W,
    STEP,
    STRIDE,
    WIDTH,
    longest,
)
from ..simd import (
    LANES,
    NOWHERE,
    add,
    convert,
    fence,
    first_of,
    indices,
    lanes_inside,
    larger,
    load,
    load_some,
    mark_nan,
    memory,
    select,
    store,
    unmark,
    wide_registers,
    winner,
)
from ._asking import AHEAD, ASKED, ASKED_LATE, ROWS_BY_TURNS, ahead_of, ask, asks, is_far
from ._compile import helper, worker
from ._job import Job, Plan
from ._reductions import averaged, lead_of, nothing, numbers, outside, place_of, shared, with_tap
from ._staging import STAGE, flush, streams

LARGEST_ROW, LARGE_WINDOW = 1 << 16, 1 << 15  # elements of rows that are buffered, of a window that is read by rows
SOME_SUMS = 30  # taps of averages, up to which `bands` is the faster in registers narrower than a vector


def plan(job: Job) -> Plan | None:
    """Any other windows in channels-first memory."""
    return job.plan(window_buffered, job.rows, rule=plan)


def plan_pixels(job: Job) -> Plan | None:
    """Up to 16 channels last, or large windows that share few rows; where registers are narrower than a vector, all but
    averages of up to 30 taps.

    Narrow registers do not hold what goes down a column of 32 channels: 9x9/1 of 256 channels takes 0.4 to 0.75 of
    the time, 0.5 with indices; averages 0.7 to 1, but of 5x5/1 1.5 times as long.
    """
    if not job.last:
        return None
    narrower = not wide_registers() and (not job.summed or job.taps > SOME_SUMS)
    if job.channels <= LANES or narrower or reads_rows_once(job):
        return job.plan(window_buffered, job.rows, rule=plan_pixels)
    return None


def reads_rows_once(job):
    """Whether windows are so large, and so little of them shared, that rows are best read one after the other, as by
    global pooling: `window_bands` takes columns, each from another part of the memory.
    """
    depth, height, width = job.axes
    taps, row = longest(depth) * longest(height), width.size * job.channels
    columns = (len(width.start) - 1) * width.stride + (width.kernel - 1) * width.step + 1  # buffered, with padding
    return (taps * row >= LARGE_WINDOW and row <= LARGEST_ROW and columns <= 2 * width.size
            and taps * len(depth.start) * len(height.start) <= 2 * depth.size * height.size)





STRIP = 2048  # elements of a row whose reduction stays in the first cache while rows are read as the memory runs


TALL = 1 << 14  # elements of a window's rows, of which no column after the other is read: strides defeat the machine


@helper
def keeps_rows(values, index, divisors, g):
    """Whether neighbouring windows share so many rows that maxima of rows are kept: with the row itself within 1 MiB.
    Of 1920 to 3840 columns 25x25/1 takes 0.45 of the time then, 49x49/1 0.3.
    """
    if divisors is not None or g[STEP + 1] != 1 or g[MOST_H] < 5 or g[STRIDE + 1] < 1:
        return False
    columns = g[WIDTH] * (g[CHANNELS] if g[LAST] else 1) + 2 * LANES
    size = values.itemsize + (4 if index is not None else 0)
    return 3 * g[STRIDE + 1] <= g[MOST_H] and (g[MOST_H] + 2) * columns * size <= 1 << 20


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
    kept = keeps_rows(values, index, divisors, g)
    pitch = W * E + LANES
    tails = numbers(x, divisors, (g[MOST_H] + 1) * pitch if kept else 0)
    tail_places = np.empty((g[MOST_H] + 1) * pitch if kept and index is not None else 0, np.int32)
    block, border, known, slab = 0, 0, 0, -1
    streaming = streams(y, x, index)
    stage = numbers(y, None, STAGE + 2 * LANES)
    stage_index = np.empty(STAGE + 2 * LANES if index is not None else 0, np.int32)
    gathered, done = 0, lo * OW * E
    share, line = D * H * W * E // (OD * OH), 64 // x.itemsize
    asking, far, source = asks(x, ASKED if E == 1 else ASKED_LATE), is_far(x, ROWS_BY_TURNS or E > 1), memory(x)
    lead = lead_of(x, g, share, W * E, far)
    for row in range(lo, hi):
        q, od, oh = place_of(row, OD, OH)
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
            below = -(-max(4 * AHEAD, ahead_of(x, far)) // min(W * E, STRIP)) * step
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
