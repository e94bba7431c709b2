"""Gradients of maxima whose windows share elements, without additions that are scattered.

An element looks at all windows that hold it, and adds up the gradients of those whose index is its own, in row-major
order, as `indices` does. A gradient is looked at as many times as its window has elements, but sixteen at a time.

In channels-last memory the sixteen are channels, and what is added to is in a register: 3x3/2 of 31x31 images of 64
channels takes 0.95 of the time, of 256 channels 0.75 (0.6 with two threads), 2x2/1 0.6, and results that are streamed
0.65 (112x112, 3x3/2). Larger windows are not worth it: 4x4/2 takes 1.2 to 1.5 times as long, 5x5/1 1.7 times.

In channels-first memory the sixteen are windows of a row that follow each other, and a row of windows is added to all
rows of elements that it holds at once. Additions that are scattered take less time in the caches (0.65 ns a gradient of
3x3/2 with one thread, here 0.85), but this reads and writes in order: results of 2^20 elements and more take, with two
threads, 0.45 to 0.85 of the time at stride 1, and of twice as many 0.55 to 0.95 at stride 2, if rows fill vectors.
"""

import numpy as np

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
    PHASE_MASKS,
    STRIDE,
    TAPS,
    WIDTH,
)
from ..simd import (
    LANES,
    add,
    convert,
    equal,
    fence,
    indices,
    interleaved,
    lanes_inside,
    load,
    load_each,
    load_some,
    mask_of,
    memory,
    misaligned,
    number,
    prefetch,
    put,
    select,
    splat,
    store,
    store_some,
    sum_of_hits,
    total,
)
from ._asking import AHEAD
from ._compile import inlined, worker
from ._reductions import GROUP, next_place, numbers, place_of
from ._staging import SOON, flush, staged, stream_lines, streams


@inlined
def with_gradient(value, count, grad, index, at, mask, spot, none, nowhere, one):
    """`value` and the gradients from `at` on whose index is `spot`, and how many these are, added to `count`."""
    hit = equal(load_some(index, at, mask, nowhere), spot)
    return add(value, load_some(grad, at, hit, none)), select(hit, add(count, one), count)


@inlined
def gather_channels(count, starts, grad, index, gx, to, C, spot, none, nowhere, one, past):
    """Whole pairs of vectors of a pixel's channels, to gx[to], out of the gradients that begin at each of a tuple of
    `starts`; to `count` are added all that were added.
    """
    for c in range(0, C - GROUP + 1, GROUP):
        a, b = none, none
        for at in starts:
            a, count = with_gradient(a, count, grad, index, at + c, None, spot, none, nowhere, one)
            b, count = with_gradient(b, count, grad, index, at + c + LANES, None, spot, none, nowhere, one)
        put(gx, to + c, convert(gx, a), None, past)
        put(gx, to + c + LANES, convert(gx, b), None, past)
    return count


@worker
def gather_pixels(lo, hi, grad, gx, index, g):
    """Rows [lo, hi) of the result, counted through all images in channels-last memory, whose elements int32 can count;
    `g` is of the inverse geometry: what it calls outputs are elements, and what it calls the input are gradients.

    Returns how many gradients were added (the driver, by all rows). Each window is looked at once by each element that
    it holds, so none was added twice; if not all were, `gx` is to be written anew.

    One window, two, four or nine are looked at by code of their own: 3x3/2 takes 0.65 to 0.9 of the time for it, 3x3/1
    0.65 to 1.
    """
    C, OD, OH, OW = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    D, H, W = g[OUT_D], g[OUT_H], g[OUT_W]
    none, nowhere = splat(grad, 0), indices(-1, 0)
    one, found = indices(min(C, 1), 0), 0  # not known to be 1, or LLVM makes two instructions of a masked addition
    source, where, target, table = memory(grad), memory(index), memory(gx), memory(g)
    firsts = np.empty(OD * OH, np.int64)  # gradients of the rows of windows that hold a row of elements
    starts = np.empty(g[TAPS], np.int64)  # of the windows that hold an element
    rows, listed = memory(firsts), memory(starts)
    past = streams(gx, grad, index) and C % LANES == 0 and misaligned(gx, 0) == 0
    q, d, h = place_of(lo, D, H)
    h -= 1
    to = lo * W * C
    for _ in range(lo, hi):
        q, d, h = next_place(q, d, h, D, H)
        t, many = HEADER + 3 * D, 0
        for od in range(g[HEADER + d], g[HEADER + D + d]):
            for oh in range(g[t + h], g[t + H + h]):
                firsts[np.uintp(many)] = ((q * OD + od) * OH + oh) * OW * C
                many += 1
        t += 3 * H
        count = indices(0, 0)
        for w in range(W):
            place, w0, w1 = indices((d * H + h) * W + w, 0), number(table, t + w), number(table, t + W + w)
            taken = many * (w1 - w0)
            u = number(rows, 0) + w0 * C
            v = number(rows, 1) + w0 * C if many > 1 else u + C
            if taken == 1:
                count = gather_channels(count, (u,), source, where, target, to, C, place, none, nowhere, one, past)
            elif taken == 2:
                count = gather_channels(count, (u, v), source, where, target, to, C, place, none, nowhere, one, past)
            elif taken == 4 and many == 2:
                count = gather_channels(count, (u, u + C, v, v + C), source, where, target, to, C, place, none, nowhere,
                                        one, past)
            elif taken == 9 and many == 3:
                x = number(rows, 2) + w0 * C
                nine = u, u + C, u + 2 * C, v, v + C, v + 2 * C, x, x + C, x + 2 * C
                count = gather_channels(count, nine, source, where, target, to, C, place, none, nowhere, one, past)
            else:
                n = 0
                for i in range(many):
                    at = number(rows, i) + w0 * C
                    for _ in range(w0, w1):
                        starts[np.uintp(n)] = at
                        n, at = n + 1, at + C
                for c in range(0, C - GROUP + 1, GROUP):
                    a, b = none, none
                    for i in range(n):
                        at = number(listed, i) + c
                        a, count = with_gradient(a, count, source, where, at, None, place, none, nowhere, one)
                        b, count = with_gradient(b, count, source, where, at + LANES, None, place, none, nowhere, one)
                    put(target, to + c, convert(gx, a), None, past)
                    put(target, to + c + LANES, convert(gx, b), None, past)
            c = C // GROUP * GROUP
            while c < C:
                a, m = none, lanes_inside(c, C)
                for i in range(many):
                    at = number(rows, i) + w0 * C + c
                    for _ in range(w0, w1):
                        a, count = with_gradient(a, count, source, where, at, m, place, none, nowhere, one)
                        at += C
                put(target, to + c, convert(gx, a), m, past)
                c += LANES
            to += C
        found += total(count)
    if past:
        fence()
    return found


@inlined
def add_windows(count, sums, slot, rows, apart, ring, grad, index, at, hops, odd, bits, steps, place, pitch, none, one):
    """Add a row of windows, whose gradients begin at grad[at], to `rows` rows of sums: the first at sums[slot], each
    next one `apart` behind it, but within the `ring`, from where to where. The place of an element in the first of
    these rows is in `place`, `pitch` further in the next. To `count` are added all that were added.
    """
    nowhere, edge, step = indices(-1, 0), 0, GROUP if len(odd) > 0 else LANES
    to, end = ring
    for _ in range(steps):
        prefetch(index, at + AHEAD)
        prefetch(grad, at + AHEAD)
        prefetch(grad, at + AHEAD + LANES - 1)  # of float64 the next line
        where, what = load_each(index, at, hops, bits, edge, nowhere), load_each(grad, at, hops, bits, edge, none)
        edge += len(hops)
        even_mask, odd_mask = mask_of(number(bits, edge)), mask_of(number(bits, edge + 1))
        edge += PHASE_MASKS
        spot, here = place, slot
        for _ in range(rows):
            a, count = sum_of_hits(load(sums, here), count, what, where, hops, spot, even_mask, one)
            store(sums, here, a)
            if len(odd) > 0:
                b = load(sums, here + LANES)
                b, count = sum_of_hits(b, count, what, where, odd, add(spot, one), odd_mask, one)
                store(sums, here + LANES, b)
            spot, here = add(spot, pitch), here + apart
            if here >= end:
                here -= end - to
        slot, at, place = slot + step, at + LANES, add(place, indices(step, 0))
    return count


@worker
def gather_rows(lo, hi, grad, gx, index, hops, odd, first, masks, g):
    """Rows [lo, hi) of the result, counted through all planes in channels-first memory, for windows without depth; what
    precedes `g` are the `Phases` of a row, and `g` and what it returns are those of `gather_pixels`.

    As many rows of sums as a window has are in use by turns. Each row of windows is added to all that it holds when the
    first of these is due. Elements at even and odd places of a row are in vectors of their own at stride 2.
    """
    OH, OW, H, W = g[HEIGHT], g[WIDTH], g[OUT_H], g[OUT_W]
    S, K, before = g[STRIDE + 1], g[KERNEL + 1], g[BEFORE + 1]
    two = len(odd) > 0
    step = GROUP if two else LANES
    none, one, found = splat(grad, 0), indices(min(W, 1), 0), 0  # see `gather_pixels`
    across, pitch = indices(first, 2 if two else 1), indices(W, 0)
    source, where, target, table, bits = memory(grad), memory(index), memory(gx), memory(g), memory(masks)
    per = len(hops) + PHASE_MASKS
    steps = masks.size // per
    apart = steps * step
    buffer = numbers(grad, None, K * apart + LANES)
    buffer[:] = 0
    sums, to = memory(buffer), -misaligned(buffer, 0) % LANES
    ring = to, to + K * apart
    streaming = streams(gx, grad, index)
    stage = gx[:0]
    if streaming:
        stage = staged(gx, SOON + W + GROUP)
        target = memory(stage)
    gathered, done = 0, lo * W
    t = HEADER + 3 * g[OUT_D]
    row = lo
    while row < hi:
        q = row // H
        top = row - q * H
        bottom = min(hi - q * H, H)
        oh, slot, count = number(table, t + top), to, indices(0, 0)
        for h in range(top, bottom):
            stop = number(table, t + H + h)
            while oh < stop:
                place = add(across, indices(h * W, 0))
                rows = min(oh * S - before + K, bottom) - h
                count = add_windows(count, sums, slot, rows, apart, ring, source, where, (q * OH + oh) * OW, hops,
                                    odd, bits, steps, place, pitch, none, one)
                oh += 1
            at, edge = (gathered if streaming else row * W) + first, len(hops) + 2
            for _ in range(steps):  # by the array, which so lives as long as its `memory` is in use
                a, b = load(buffer, slot), none
                store(buffer, slot, none)
                if two:
                    b = load(buffer, slot + LANES)
                    store(buffer, slot + LANES, none)
                    a, b = interleaved(a, b)
                store_some(target, at, convert(gx, a), mask_of(number(bits, edge)))
                if two:
                    store_some(target, at + LANES, convert(gx, b), mask_of(number(bits, edge + 1)))
                slot, at, edge = slot + step, at + step, edge + per
            if slot == ring[1]:
                slot = to
            row += 1
            if streaming:
                gathered += W
                if gathered >= SOON:
                    gathered, done = stream_lines(stage, None, gx, None, done, gathered)
        found += total(count)
    if streaming:
        flush(stage, 0, gathered, gx, done, True)
        fence()
    return found
