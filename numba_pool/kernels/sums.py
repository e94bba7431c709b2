"""Averages over many columns at stride 1, and their gradients: sums of 1, 4, 16, ... columns make up every window."""

import numpy as np

from .._windows import (
    BEFORE,
    CHANNELS,
    DEPTH,
    HEADER,
    HEIGHT,
    KERNEL,
    LAST,
    OUT_D,
    OUT_H,
    OUT_W,
    STEP,
    WIDTH,
    is_long,
)
from ..simd import LANES, add, convert, lanes_inside, load, load_some, store, store_some
from ._compile import worker
from ._job import Call, Windows
from ._reductions import GROUP, averaged, held_by, next_place, nothing, numbers, outside, place_of, shared

MANY = 32  # columns of a window, and windows of a row, from which on this is the faster
CHUNK = 1 << 11  # sums that are carried together, of short windows: two arrays of doubles stay in the first cache


def plan(job: Windows) -> Call | None:
    """Averages of windows of 32 columns or more at stride 1, and gradients of such: sums of 1, 4, 16, ... columns.

    For every memory order, or sums would not be the same bit for bit in all.
    """
    depth, height, width = job.axes
    windows = job.windows[2]
    if not job.summed or windows.stride != 1 or windows.kernel < MANY or len(windows.start) < MANY:
        return None
    if width.size * GROUP >= 1 << 32:  # lanes are counted in 32 bits
        return None
    if is_long((windows.kernel - 1) * windows.step, windows.size):
        return None
    if not job.gradient:
        return job.call(average_columns, job.rows)
    # An element is in as many windows, of which the first begins so far before it.
    width = width.replaced(stride=1, kernel=windows.kernel, before=windows.kernel - 1 - windows.before, apart=1)
    return job.along((depth, height, width)).call(average_columns, job.rows, additions=job.additions)


@worker
def average_columns(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all planes, or images in channels-last memory. There is no `index`.

    The rows of a window are added up into a buffer, chunk by chunk of a row, with zeros where there is padding. Then
    `sums`, of so many columns from each on, become those of four times as many; and `parts` become the sums over as
    many columns as the digits of the window's width say, in base 4, from the last digit on. So a window costs the
    logarithm of its width, and rounding errors grow with that only. Of more channels last than 32, 32 are
    taken at a time.
    """
    D, H, W = g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, K, before = g[STEP], g[STEP + 1], g[KERNEL + 2], g[BEFORE + 2]
    C = g[CHANNELS] if g[LAST] else 1
    E = min(C, GROUP)  # channels that are taken together
    hop = g[STEP + 2] * E
    span = (K - 1) * hop
    chunk = min(max(CHUNK, 2 * span) // E, OW) * E
    room = chunk + span + hop + 2 * LANES
    sums, parts = numbers(x, divisors, room), numbers(x, divisors, room)
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    own = divisor == 0
    widths = np.ones(OW * E + LANES if own else LANES, np.int64)
    if own:
        for w in range(OW):
            for e in range(E):
                widths[w * E + e] = g[HEADER + 3 * OD + 3 * OH + 2 * OW + w]
    q, od, oh = place_of(lo, OD, OH)
    for row in range(lo, hi):
        d0, d1, h0, h1, taps = held_by(od, oh, g)
        plane = q * D * H * W * C
        for channel in range(0, C, E):
            first_channel = min(channel, C - E)  # the last ones reach back
            for begin in range(0, OW * E, chunk):
                size = min(chunk, OW * E - begin)
                at = begin - before * E  # of the first element of the buffer, in the row
                c, stop = 0, max(min(size + span, W * E - at), 0)
                while c < -at:
                    store(sums, c, none)
                    c += LANES
                c = max(-at, 0)
                while c < stop:
                    total, m = none, lanes_inside(at + c if C == E else 0, W * E if C == E else LANES)
                    of = at + c if C == E else (at + c) // GROUP * C + (at + c) % GROUP + first_channel
                    for d in range(d0, d1, dd):
                        for h in range(h0, h1, dh):
                            total = add(total, convert(none, load_some(x, plane + (d * H + h) * W * C + of, m, pad)))
                    store(sums, c, total)
                    c += LANES
                while c < size + span:
                    store(sums, c, none)
                    c += LANES
                left, count, wide = K, 0, 1  # digits, columns of the parts, columns of the sums
                while left >= 4:
                    digit, left = left % 4, left // 4
                    step = wide * hop
                    whole = size + span - (4 * wide - 1) * hop  # sums of four times as many columns
                    stop = size + span - max(count + digit * wide - 1, 0) * hop if digit else whole
                    for c in range(0, stop, LANES):
                        a = load(sums, c)
                        b = load(sums, c + step)
                        p, ab = a, add(a, b)
                        if digit > 1:
                            p = ab
                        if digit > 2:
                            p = add(p, load(sums, c + 2 * step))
                        if digit:
                            if count:
                                p = add(p, load(parts, c + digit * step))
                            store(parts, c, p)
                        if c < whole:
                            store(sums, c, add(ab, add(load(sums, c + 2 * step), load(sums, c + 3 * step))))
                    count, wide = count + digit * wide, 4 * wide
                step = wide * hop
                for c in range(0, size, LANES):
                    total = load(sums, c)
                    for i in range(1, left):
                        total = add(total, load(sums, c + i * step))
                    if count:
                        total = add(total, load(parts, c + left * step))
                    total = averaged(total, divisor, reciprocal, taps, load(widths, begin + c if own else 0))
                    to = begin + c
                    if C != E:
                        to = to // GROUP * C + to % GROUP + first_channel
                    store_some(y, row * OW * C + to, convert(y, total), lanes_inside(0, min(size - c, LANES)))
        q, od, oh = next_place(q, od, oh, OD, OH)
    return 0
