"""Maxima without indices in channels-first memory, for elements narrower than a lane, of one or two bytes and 64 or 32
of them to a vector, and for machines whose registers are narrower than a vector.

Rows are reduced downwards first, in vectors that may begin at any element, to rows so far apart that where one ends the
windows of the next begin; then along. No load or store is masked, for which machines without AVX-512 have slow
instructions, or none: what lies behind a row is overwritten by the next one. Masks of the elements' size stand for
padding. At stride 2 a vector holds pairs, of which the larger is left; a last column that has no pair is masked like
padding.

What is idle is the end of each row, but for stride 1 and same padding, where rows follow each other without a gap, in
and out. Nanoseconds per output, one thread, here / by `windows`:

================ =============== ================ =================
                 3x3/1 of 28x28  2x2/2 of 56x56   3x3/2 of 112x112
================ =============== ================ =================
uint8            0.07 / 0.12     0.10 / 0.18      0.11 / 0.21
float32, AVX2    0.25 / 0.71     0.37 / 0.74      0.51 / 0.97
float32, SSE2    0.67 / 1.61     0.68 / 1.65      1.17 / 2.34
float32, AVX-512 0.27 / 0.18     0.38 / 0.25      0.57 / 0.32
================ =============== ================ =================
"""

import numpy as np

from .._geometry import (
    ALONG,
    ALONG_BEFORE,
    ALONG_HOP,
    BLOCKS,
    DEPTH,
    GROUPED,
    HEIGHT,
    NARROW_BLOCK,
    NARROW_HEADER,
    NARROW_STEP,
    OUT_D,
    OUT_H,
    OUT_W,
    PLANES,
    ROWS_IN,
    ROWS_OUT,
    ROWS_PITCH,
    STRIDE,
    WIDTH,
)
from ..simd import (
    LANES,
    Pack,
    arithmetic,
    kept,
    larger,
    load,
    memory,
    misaligned,
    number,
    prefetch,
    store,
    store_pairs,
)
from ._asking import ASKED, asks
from ._compile import by_types, helper, inlined, worker
from ._reductions import nothing, numbers


def breadth(x):
    """Elements of x to a vector."""


@by_types(breadth)
def _breadth(x):
    element = arithmetic(x)
    many = LANES * (element.count if isinstance(element, Pack) else 1)
    return lambda x: many


@helper
def down(x, origin, table, first, last, rows, to, ahead):
    """Take the steps in table[first:last] from x[origin], into `rows` from `to` on."""
    i = np.uintp(first)
    while i < np.uintp(last):
        at, tap = origin + number(table, i), np.uintp(number(table, i + np.uintp(2)))
        v, hop = load(x, at), number(table, tap)
        if ahead:
            prefetch(x, at + ahead)
        while hop > 0:  # LLVM would unroll a loop that it can count
            v = larger(load(x, at + hop), v)
            if ahead:
                prefetch(x, at + hop + ahead)
            tap += np.uintp(1)
            hop = number(table, tap)
        store(rows, to + number(table, i + np.uintp(1)), v)
        i += np.uintp(NARROW_STEP)


@inlined
def largest(rows, at, hop, masks, phase, apart, taps):
    """The maximum over up to five vectors, `hop` elements apart, where their masks are not 0."""
    none = nothing(rows, None)
    v = kept(load(rows, at), load(masks, phase), none)
    if taps > 1:
        v = larger(kept(load(rows, at + hop), load(masks, phase + apart), none), v)
    if taps > 2:
        v = larger(kept(load(rows, at + 2 * hop), load(masks, phase + 2 * apart), none), v)
    if taps > 3:
        v = larger(kept(load(rows, at + 3 * hop), load(masks, phase + 3 * apart), none), v)
    if taps > 4:
        v = larger(kept(load(rows, at + 4 * hop), load(masks, phase + 4 * apart), none), v)
    return v


@helper
def along(rows, at, start, stop, pitch, hop, taps, masks, stride, y, to):
    """The windows that begin at elements [start, stop) behind rows[at], or at every second one, in whole vectors."""
    many, source = breadth(rows), memory(rows)
    phase, turn, apart, i = start % pitch, many % pitch, pitch + many, start
    while i < stop:
        v = largest(source, at + i, hop, masks, phase, apart, taps)
        if stride == 1:
            store(y, to + i, v)
        else:
            store_pairs(y, to + (i >> 1), v)
        i += many
        phase += turn
        if phase >= pitch:
            phase -= pitch


@helper
def closer(stage, pitch, count, size, y, to):
    """y[to:] = rows of the stage without what is between them, as many of `count` as can be stored in whole vectors
    without one that ends behind the last: how many these are.
    """
    many = breadth(stage)
    covered = -(-size // many) * many
    fit = min(max((count * size - covered) // size + 1, 0), count)
    for row in range(fit):
        for c in range(0, size, many):
            store(y, to + c, load(stage, row * pitch + c))
        to += size
    return fit


@worker
def narrow_rows(lo, hi, x, y, index, divisors, masks, table, g):
    """Units [lo, hi), each a block of rows of the output, of a plane or of a group of planes; the last group reaches
    back so that it is whole. `geometry.narrow` says what the masks and the table are.
    """
    image, W, OW, stride = g[DEPTH] * g[HEIGHT], g[WIDTH], g[OUT_W], g[STRIDE + 2]
    group, blocks, pitch = table[GROUPED], table[BLOCKS], table[ROWS_PITCH]
    taps, hop, before = table[ALONG], table[ALONG_HOP], table[ALONG_BEFORE]
    many, stage_pitch = breadth(x), pitch // stride
    # Helpers take the memory of what the threads share: counting its references, they would wait for each other.
    source, target, steps, allowed = memory(x), memory(y), memory(table), memory(masks)
    # Before the first row a vector that holds the margin, and up to one that aligns it; behind the last one that it
    # ends within, and the margin, of up to MOST_MARGIN elements.
    rows = numbers(x, None, table[ROWS_OUT] * pitch + 4 * many)
    first = 2 * many - misaligned(rows, 0) * (many // LANES)  # begins a cache line
    stage = np.empty((0 if stage_pitch == OW else table[ROWS_OUT] * stage_pitch) + 3 * many, y.dtype)
    ahead = table[ROWS_IN] * W if asks(x, ASKED) else 0
    for unit in range(lo, hi):
        part = unit // blocks
        block = NARROW_HEADER + NARROW_BLOCK * (unit - part * blocks)
        plane = min(part * group, g[PLANES] - group)
        at, size = (plane * image + table[block]) * W, table[block + 1] * W
        begin, end = table[block + 2], table[block + 3]
        out, count = (plane * g[OUT_D] * g[OUT_H] + table[block + 4]) * OW, table[block + 5]
        if at + size + many > x.size:  # the last vector would end behind the array
            copy = np.empty(size + many, x.dtype)
            for i in range(size):
                copy[i] = x[at + i]
            down(memory(copy), 0, steps, begin, end, rows, first, 0)
            copy[0] = x[at]  # or Numba might give its memory back before `down` reads it
        else:
            down(source, at, steps, begin, end, rows, first, ahead)
        starts = count * pitch
        if stage_pitch == OW and starts >= many:
            whole = starts // many * many
            along(rows, first - before, 0, whole, pitch, hop, taps, allowed, stride, target, out)
            if whole < starts:
                along(rows, first - before, starts - many, starts, pitch, hop, taps, allowed, stride, target, out)
        else:
            along(rows, first - before, 0, starts, pitch, hop, taps, allowed, stride, memory(stage), 0)
            for row in range(closer(stage, stage_pitch, count, OW, target, out), count):
                for i in range(OW):
                    y[out + row * OW + i] = stage[row * stage_pitch + i]
    return 0
