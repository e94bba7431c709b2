"""Windows of any sort, in channels-first memory or of few channels: a row at a time is reduced, then along it."""

import numpy as np

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
)
from ..simd import (
    LANES,
    NOWHERE,
    add,
    alive,
    at_least,
    at_most,
    convert,
    fence,
    indices,
    lanes_inside,
    load,
    load_some,
    mark_nan,
    memory,
    select,
    store,
    wide_registers,
    winner,
)
from ._asking import AHEAD, ASKED, ASKED_LATE, ROWS_BY_TURNS, ahead_of, ask, asks, is_far
from ._buffer import by_tails, first_found, found_at, keep, nowhere_of, places_of, stage_found, with_found
from ._compile import helper, inlined, worker
from ._job import Job, Plan
from ._reductions import (
    averaged,
    held_by,
    lead_of,
    nothing,
    numbers,
    outside,
    place_of,
    room_for_indices,
    shared,
    with_tap,
)
from ._staging import STAGE, flush, streams

LARGEST_ROW, LARGE_WINDOW = 1 << 16, 1 << 15  # elements of rows that are buffered, of a window that is read by rows
STRIP = 2048  # elements of a row whose reduction stays in the first cache while rows are read as the memory runs
TALL = 1 << 14  # elements of a window's rows, of which no column after the other is read: strides defeat the machine
SOME_SUMS = 30  # taps of averages, up to which `bands` is the faster in registers narrower than a vector


def plan(job: Job) -> Plan | None:
    """Any other windows in channels-first memory."""
    return job.plan(window_buffered, job.rows)


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
        return job.plan(window_buffered, job.rows)
    return None


def reads_rows_once(job):
    """Whether windows are so large, and so little of them shared, that rows are best read one after the other, as by
    global pooling: `window_bands` takes columns, each from another part of the memory.
    """
    depth, height, width = job.axes
    taps, row = depth.longest * height.longest, width.size * job.channels
    columns = (len(width.start) - 1) * width.stride + (width.kernel - 1) * width.step + 1  # buffered, with padding
    return (taps * row >= LARGE_WINDOW and row <= LARGEST_ROW and columns <= 2 * width.size
            and taps * len(depth.start) * len(height.start) <= 2 * depth.size * height.size)


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


@inlined
def along_row(maxima, g):
    """How windows are reduced along a buffered row: whether they are all alike, by how many doublings, how many taps
    are left over then, and how many elements apart; where the row begins, how much of it counts, and its size.
    """
    W, OW, dw = g[WIDTH], g[OUT_W], g[STEP + 2]
    S, K = g[STRIDE + 2], g[KERNEL + 2]
    E = g[CHANNELS] if g[LAST] else 1
    uniform = (S > 0 and (S == 1 or maxima)) and (OW - 1) * S + (K - 1) * dw < 4 * W + 1024
    width, remaining, hop, passes = 1, K, dw * E, 0
    if maxima and uniform and K > 3:
        while 2 * width <= K:
            width, passes = 2 * width, passes + 1
        remaining, hop = (1, 0) if width == K else (2, (K - width) * dw * E)
    span = ((OW - 1) * S + (K - 1) * dw + 1 if uniform else W) * E
    left = g[BEFORE + 2] * E + LANES if uniform else LANES
    size = left + at_least(W * E, span) + (width * dw * E if passes else 0) + 4 * LANES
    return E, uniform, passes, remaining, hop, left, span, size


@helper
def columns_and_widths(indexed, averages, E, g):
    """The columns of the elements of a row, if an index needs them, and what those of a window contribute to its
    divisor.
    """
    W, OW = g[WIDTH], g[OUT_W]
    columns = np.zeros(W * E + LANES if indexed and E > 1 else 0, np.int32)
    for i in range(W * E if columns.size else 0):
        columns[i] = i // E
    widths = np.ones(OW * E + 2 * LANES if averages else 0, np.int64)
    t = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H] + 2 * OW
    for i in range(OW * E if averages else 0):
        widths[i] = g[t + i // E]
    return columns, widths


@helper
def emptied(x, index, divisors, size):
    """A buffered row that holds nothing, and its indices, or None."""
    values, places = numbers(x, divisors, size), room_for_indices(index, size)
    for i in range(0, size, LANES):
        keep(memory(values), memory(places), at_most(i, size - LANES), nothing(x, divisors), nowhere_of(places))
    return values, places


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
    along = along_row(divisors is None, g)
    row_of = emptied(x, index, divisors, along[-1])
    # The maxima from the rows of a block to its end, and of the rows after it.
    kept = keeps_rows(row_of[0], index, divisors, g)
    room = (g[MOST_H] + 1) * (g[WIDTH] * along[0] + LANES) if kept else 0
    tails_of = numbers(x, divisors, room), room_for_indices(index, room)
    tables = columns_and_widths(index is not None, divisors is not None, along[0], g)
    stages = numbers(y, None, STAGE + 2 * LANES), room_for_indices(index, STAGE + 2 * LANES)
    D, H, W = g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    E, uniform, passes, remaining, hop, left, span, _ = along
    S, dd, dh, dw = g[STRIDE + 2], g[STEP], g[STEP + 1], g[STEP + 2]
    source = memory(x)
    values, places = memory(row_of[0]), memory(row_of[1])
    tails, tail_places = memory(tails_of[0]), memory(tails_of[1])
    stage, stage_index = stages
    columns, widths = memory(tables[0]), memory(tables[1])
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    streaming = streams(y, x, index)
    share, line = D * H * W * E // (OD * OH), 64 // x.itemsize
    asking, far = asks(x, ASKED if E == 1 else ASKED_LATE), is_far(x, ROWS_BY_TURNS or E > 1)
    lead = lead_of(x, g, share, W * E, far)
    below = -(-at_least(4 * AHEAD, ahead_of(x, far)) // at_most(W * E, STRIP)) * dh * W * E
    whole = far and W * E <= STRIP  # rows, which are read in order
    first = left - g[BEFORE + 2] * E  # of the columns that count
    sizes, state = (H, W, E, dd, dh), (np.int64(-1), np.int64(0), np.int64(0), np.int64(0))  # of no literal's type
    starts = HEADER + 3 * OD + 3 * OH
    reach, stride = (remaining - 1) * hop + 1, at_least(hop, 1) if uniform else dw * E
    gathered, done = 0, lo * OW * E
    for row in range(lo, hi):
        q, od, oh = place_of(row, OD, OH)
        d0, d1, h0, h1, taps = held_by(od, oh, g)
        held, plane = (d0, d1, h0, h1), q * D * H * W * E
        if asking:
            ahead = plane + (od * OH + oh) * share + lead
            ask(source, ahead, ahead + at_most(share, 4 * AHEAD), line, far)
        if kept and d0 < d1 and h0 < h1:
            state = by_tails(source, plane, q * OD + od, held, sizes, state, tails, tail_places, g[MOST_H], values,
                             places, left, columns, divisor, none, pad)
        elif d0 < d1 and h0 < h1 and (d1 - d0) * (h1 - h0) * W * E >= TALL:
            # As the memory runs, in strips, and four rows at a time.
            step = dh * W * E
            for strip in range(0, W * E, STRIP):
                fresh = True
                for d in range(d0, d1, dd):
                    h = h0
                    while h < h1:
                        four = h + 3 * dh < h1
                        for c in range(strip, at_most(strip + STRIP, W * E), LANES):
                            m, at = lanes_inside(c, W * E), plane + (d * H + h) * W * E + c
                            if asking:
                                i = at + below
                                for _ in range(4 if four else 1):
                                    ask(source, i, i + LANES, line, whole)
                                    i += step
                            v = load_some(source, at, m, pad)
                            a = none if fresh else load(values, left + c)
                            if index is not None:
                                ia, spot = indices(NOWHERE, 0), places_of((d * H + h) * W, c, columns, E)
                                if fresh:
                                    a, ia = v, spot
                                else:
                                    a, ia = winner(v, spot, a, load(places, left + c))
                            else:
                                a = with_tap(a, convert(none, v), divisor)
                            if four:
                                v1, v2 = load_some(source, at + step, m, pad), load_some(source, at + 2 * step, m, pad)
                                v3 = load_some(source, at + 3 * step, m, pad)
                                if index is not None:
                                    further = indices(dh * W, 0)
                                    spot1 = add(spot, further)
                                    spot2 = add(spot1, further)
                                    a, ia = winner(v1, spot1, a, ia)
                                    a, ia = winner(v2, spot2, a, ia)
                                    a, ia = winner(v3, add(spot2, further), a, ia)
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
                    store(places, left + c, select(lanes_inside(c, W * E), ia, indices(NOWHERE, 0)))
        else:
            for c in range(0, W * E, LANES):
                m = lanes_inside(c, W * E)
                a = none
                if index is not None:
                    ia = indices(NOWHERE, 0)
                    fresh = True
                    d = d0
                    while d < d1:
                        h = h0
                        while h < h1:
                            v = load_some(source, plane + (d * H + h) * W * E + c, m, pad)
                            spot = places_of((d * H + h) * W, c, columns, E)
                            if fresh:
                                a, ia, fresh = v, spot, False
                            else:
                                a, ia = winner(v, spot, a, ia)
                            h += dh
                        d += dd
                    store(places, left + c, select(m, mark_nan(a, ia), indices(NOWHERE, 0)))
                else:
                    d = d0
                    while d < d1:
                        h = h0
                        while h < h1:
                            v = convert(none, load_some(source, plane + (d * H + h) * W * E + c, m, pad))
                            a = with_tap(a, v, divisor)
                            h += dh
                        d += dd
                store(values, left + c, a)
        step = dw * E
        for _ in range(passes):
            for c in range(first, first + span, LANES):
                b, ib = found_at(values, places, c + step)
                a, ia = found_at(values, places, c)
                a, ia = first_found(b, ib, a, ia)
                keep(values, places, c, a, ia)
            step *= 2
        if uniform and S == 1:
            for j in range(0, OW * E, LANES):
                at = first + j
                r, ri = found_at(values, places, at)
                if divisors is not None:
                    r = with_tap(none, r, divisor)
                for tap in range(1, remaining):
                    r, ri = with_found(r, ri, values, places, at + tap * hop, divisor)
                if divisors is not None:
                    r = averaged(r, divisor, reciprocal, taps, load(widths, j))
                stage_found(memory(stage), memory(stage_index), gathered, r, ri)
                gathered += at_most(OW * E - j, LANES)
                if gathered >= STAGE:
                    flush(stage, 0, gathered, y, done, streaming)
                    if index is not None:
                        flush(stage_index, 0, gathered, index, done, streaming)
                    gathered, done = 0, done + gathered
        else:
            for j in range(OW):
                at = first + j * S * E
                end = at + reach
                if not uniform:
                    at, end = left + g[starts + j] * E, left + g[starts + OW + j] * E
                for e in range(0, E, LANES):
                    i, r, ri = at + e, none, nowhere_of(places)
                    while i < end + e:
                        r, ri = with_found(r, ri, values, places, i, divisor)
                        i += stride
                    if divisors is not None:
                        r = averaged(r, divisor, reciprocal, taps, load(widths, j * E))
                    stage_found(memory(stage), memory(stage_index), gathered, r, ri)
                    gathered += at_most(E - e, LANES)
                    if gathered >= STAGE:
                        flush(stage, 0, gathered, y, done, streaming)
                        if index is not None:
                            flush(stage_index, 0, gathered, index, done, streaming)
                        gathered, done = 0, done + gathered
        if passes:  # what doubling left in the margins
            for c in range(first, left, LANES):
                keep(values, places, c, none, nowhere_of(places))
    flush(stage, 0, gathered, y, done, streaming)
    if index is not None:
        flush(stage_index, 0, gathered, index, done, streaming)
    if streaming:
        fence()
    return alive((row_of, tails_of, stages, tables))
