"""The gradient of an average: spread along rows, or for any windows (with divisors of their own, dilated)."""

import numpy as np

from .._geometry import BEFORE, CHANNELS, DEPTH, HEADER, HEIGHT, KERNEL, LAST, OUT_D, OUT_H, OUT_W, STEP, STRIDE, WIDTH
from ._asking import ASKED, ROWS_BY_TURNS, ask, asks, is_far
from ._compile import worker
from ._reductions import averaged, lead_of, next_place, place_of, shared
from ._staging import STAGE, STREAMED, flush
from ._vectors import (
    LANES,
    add,
    convert,
    fence,
    indices,
    lanes_inside,
    load,
    load_some,
    memory,
    misaligned,
    put,
    rearrange,
    splat,
    store,
    store_some,
)


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
    asking, far, source = asks(grad, ASKED), is_far(grad, ROWS_BY_TURNS), memory(grad)
    lead = lead_of(grad, g, share, W, far)
    q, od, oh = place_of(lo, OD, OH)
    oh -= 1
    row = lo
    while row < hi:
        q, od, oh = next_place(q, od, oh, OD, OH)
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


@worker
def fill_planes(lo, hi, grad, gx, divisors, g):
    """Planes [lo, hi) of the gradient of an average over whole planes, in channels-first memory: each is one number.
    The geometry is the inverse one.
    """
    P, past = g[OUT_D] * g[OUT_H] * g[OUT_W], gx.size * gx.itemsize >= STREAMED
    zero, none = splat(divisors, 0), splat(grad, 0)
    divisor, reciprocal = shared(divisors)
    to, everywhere = memory(gx), indices(0, 0)
    for q in range(lo, hi):
        v = convert(zero, load_some(grad, q, lanes_inside(0, 1), none))
        v = rearrange(convert(gx, averaged(v, divisor, reciprocal, 1, zero)), everywhere)
        at, stop = q * P, (q + 1) * P
        head = min(-misaligned(to, at) % LANES, P)
        if head:
            store_some(to, at, v, lanes_inside(0, head))
        at += head
        while at <= stop - LANES:
            put(to, at, v, None, past)
            at += LANES
        if at < stop:
            store_some(to, at, v, lanes_inside(0, stop - at))
    if past:
        fence()
    return 0


@worker
def spread_planes(lo, hi, grad, gx, divisor, g):
    """Planes [lo, hi) of the gradient of an average: each upstream element, divided, to every tap of its window."""
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
        for od in range(OD):
            for oh in range(OH):
                for ow in range(OW):
                    t = HEADER
                    d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
                    t += 3 * OD
                    h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
                    t += 3 * OH
                    taps *= g[t + 2 * OW + ow]
                    if divisor == 0 and taps == 0:
                        continue
                    v = grad[yo + ((od * OH + oh) * OW + ow) * s] / (divisor if divisor != 0 else taps)
                    for d in range(d0, d1, dd):
                        for h in range(h0, h1, dh):
                            for w in range(g[t + ow], g[t + OW + ow], dw):
                                gx[xo + ((d * H + h) * W + w) * s] += v
    return 0
