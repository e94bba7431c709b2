"""Gradients of maxima whose windows share elements, in channels-last memory.

An element looks at all windows that hold it, and adds up the gradients of those whose index is its own, in row-major
order, as `indices` does. A gradient is looked at as many times as its window has elements, but sixteen channels at a
time, in order, and what is added to is in a register: with two threads 3x3/2 of 55x55 images of 64 channels takes 0.75
of the time, 3x3/1 of 28x28 of 192 channels 0.65, and results that are streamed 0.65 (112x112, 3x3/2). Larger windows
are not worth it: 4x4/1 takes 1.3 times as long, 5x5/1 1.7 times.

In channels-first memory the sixteen are columns, and loads that cross a line twice as many: 0.84 at 3x3/1, and 1.1 to
2.3 at 3x3/2 of 112x112 to 13x13 planes. There `indices` does all of it.
"""

import numpy as np

from .._geometry import CHANNELS, DEPTH, HEADER, HEIGHT, OUT_D, OUT_H, OUT_W, WIDTH
from ._compile import inlined, worker
from ._reductions import GROUP, next_place, place_of
from ._staging import STREAMED, put
from ._vectors import (
    LANES,
    add,
    convert,
    equal,
    fence,
    indices,
    lanes_inside,
    load_some,
    memory,
    misaligned,
    number,
    select,
    splat,
    total,
)


@inlined
def with_gradient(value, count, grad, index, at, mask, spot, none, nowhere, one):
    """`value` and the gradients from `at` on whose index is `spot`, and how many these are, added to `count`."""
    hit = equal(load_some(index, at, mask, nowhere), spot)
    return add(value, load_some(grad, at, hit, none)), select(hit, add(count, one), count)


@worker
def gather_pixels(lo, hi, grad, gx, index, g):
    """Rows [lo, hi) of the result, counted through all images in channels-last memory, whose elements int32 can count;
    `g` is of the inverse geometry: what it calls outputs are elements, and what it calls the input are gradients.

    Returns how many gradients were added (the driver, by all rows). Each window is looked at once by each element that
    it holds, so none was added twice; if not all were, `gx` is to be written anew.
    """
    C, OD, OH, OW = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    D, H, W = g[OUT_D], g[OUT_H], g[OUT_W]
    none, nowhere = splat(grad, 0), indices(-1, 0)
    one, found = indices(min(C, 1), 0), 0  # not known to be 1, or LLVM makes two instructions of a masked addition
    source, where, target, table = memory(grad), memory(index), memory(gx), memory(g)
    firsts = np.empty(OD * OH, np.int64)  # gradients of the rows of windows that hold a row of elements
    rows = memory(firsts)
    past = gx.size * gx.itemsize >= STREAMED and C % LANES == 0 and misaligned(gx, 0) == 0
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
            c = 0
            while c <= C - GROUP:
                a, b = none, none
                for i in range(many):
                    at = number(rows, i) + w0 * C + c
                    for _ in range(w0, w1):
                        a, count = with_gradient(a, count, source, where, at, None, place, none, nowhere, one)
                        b, count = with_gradient(b, count, source, where, at + LANES, None, place, none, nowhere, one)
                        at += C
                put(target, to + c, convert(gx, a), None, past)
                put(target, to + c + LANES, convert(gx, b), None, past)
                c += GROUP
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
