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

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._windows import DEPTH, HEIGHT, LIMIT, OUT_D, OUT_H, OUT_W, PLANES, STRIDE, VECTOR, WIDTH, Axis
from ..simd import (
    LANES,
    SINGLES,
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
from ._job import Call, Windows
from ._reductions import nothing, numbers


def plan(job: Windows) -> Call | None:
    """Maxima without indices of one or two bytes, or where registers are narrower than a vector, at stride 1 or 2 along
    rows, of up to 5 columns.
    """
    walk = narrow(job.axes, job.planes, job.dtype.itemsize) if job.narrow and job.planes else None
    if walk is None:
        return None
    masks = walk.masks.view(SINGLES.get(walk.masks.dtype.name, walk.masks.dtype))
    return job.call(narrow_rows, walk.units, (masks, walk.table), additions=0)


class Narrow(NamedTuple):
    """How `narrow_rows` walks planes."""

    table: NDArray[np.int32]  # NARROW_HEADER numbers, NARROW_BLOCK for each block, the steps, the hops
    masks: NDArray[Any]  # for each vector of taps along a row: a number of an element's size, all bits or none
    units: int


# The header: planes to a group, walked as one; blocks of each; elements from one row to the next once rows are reduced
# downwards; the most rows of the input to a block, and of the output; vectors of taps along a row, how far each
# is from the one before, and the first before the row.
GROUPED, BLOCKS, ROWS_PITCH, ROWS_IN, ROWS_OUT, ALONG, ALONG_HOP, ALONG_BEFORE, NARROW_HEADER = range(9)


# A block: its first row of the input, how many; where its steps begin and end; its first row of the output, how many.
NARROW_BLOCK = 6


NARROW_STEP = 3


BLOCK_BYTES = 1 << 13  # of a block's input: what is made of it stays in the first cache besides


MOST_BLOCK_BYTES = 1 << 18  # of the input of a single row of the output


MOST_ALONG, MOST_DOWN = 5, 12  # columns of a window, as many as `narrow.largest` takes; rows in all of its slices


MOST_NARROW_ROWS = 1 << 14  # of the output of a plane or a group, of which each is looked at once


MOST_MARGIN = 16  # elements before a row and behind it that are looked at: no more than a vector


SHORT_ROW = 40  # bytes, below which vectors that end with the row are too few of them in use


MANY_UNITS = 16  # or more are left where planes are walked in groups


def narrow(axes: tuple[Axis, Axis, Axis], planes: int, itemsize: int) -> Narrow | None:
    """For planes of elements of so many bytes. None where windows are not alike along rows at stride 1 or 2, where they
    are large, or may be empty, and where rows are short.
    """
    depth, height, width = axes
    stride, columns, before, row, outputs = width.stride, width.kernel, width.before, width.size, len(width.start)
    whole = depth.size * height.size  # rows of a plane
    if (stride not in (1, 2) or not 1 <= columns <= MOST_ALONG or (stride == 2 and width.step > 1)
            or max(before, (columns - 1) * width.step) > MOST_MARGIN
            or depth.longest * height.longest > MOST_DOWN or whole > LIMIT
            or len(depth.start) * len(height.start) > MOST_NARROW_ROWS
            or any(not len(axis.start) or (axis.start >= axis.stop).any() for axis in axes)):
        return None
    vector = max(64 // itemsize, VECTOR)  # elements, as many as the kernel's type says
    flat = stride == height.stride == 1 and outputs == row  # whole vectors, without regard to where rows end
    if not flat and row * itemsize < SHORT_ROW:
        return None
    pitch = max(-(-row // stride), outputs) * stride
    if pitch > stride * outputs and stride == itemsize == 2:  # 3x3/2 of float16, 112x112 to 55x55: 1.16 times as long
        return None
    extents = [(int(d0) * height.size + int(h0), int(d1 - 1) * height.size + int(h1), int(d1 - d0), int(h1 - h0))
               for d0, d1 in zip(depth.start, depth.stop) for h0, h1 in zip(height.start, height.stop)]
    span = max(stop - start for start, stop, *_ in extents)
    if span * row * itemsize > MOST_BLOCK_BYTES:
        return None
    room = max(BLOCK_BYTES // (row * itemsize), span)  # rows of the input to a block
    group = max(1, min(room // whole, planes // MANY_UNITS, MOST_NARROW_ROWS // len(extents)))
    blocks, steps, hops = narrow_blocks(
        [(i * whole + start, i * whole + stop, deep, high)
         for i in range(group) for start, stop, deep, high in extents], axes, room, pitch, vector)
    distances = range(-before, columns * width.step - before, width.step if stride == 1 else 2)
    column = np.arange(pitch + vector) % pitch
    inside = [(column + distance >= 0) & (column + distance < row) for distance in distances]
    if stride == 2 and columns % 2:  # the last column of a window alone
        inside[-1] &= column % 2 == 0
    masks = -np.concatenate(inside).astype(f"u{itemsize}")  # 1 becomes all bits
    steps_at = NARROW_HEADER + NARROW_BLOCK * len(blocks)
    hops_at = steps_at + NARROW_STEP * len(steps)
    numbers = [group, len(blocks), pitch, max(block[1] for block in blocks), max(block[5] for block in blocks),
               len(distances), distances.step, before]
    for bottom, count, begin, end, output, rows in blocks:
        numbers += [bottom, count, steps_at + NARROW_STEP * begin, steps_at + NARROW_STEP * end, output, rows]
    for source, target, taps in steps:
        numbers += [source, target, hops_at + taps]
    return Narrow(np.array(numbers + hops, np.int32), masks, -(-planes // group) * len(blocks))


def narrow_blocks(extents: list[tuple[int, int, int, int]], axes: tuple[Axis, Axis, Axis], room: int, pitch: int,
                  vector: int) -> tuple[list[tuple[int, ...]], list[tuple[int, int, int]], list[int]]:
    """(blocks, steps, hops): rows of the output by blocks of up to `room` rows that take as many of the input. Of each
    row the extent is given: its first row of the input, the one behind its last, and how long its windows are in depth
    and height.

    A step reduces a vector of elements downwards: it begins at an element of the block's input, goes to one of those
    that are left, `pitch` to a row, and finds its other taps by hops, from the first on; 0 is the end of these. Blocks
    that are alike have the same steps.
    """
    depth, height, width = axes
    row = width.size
    blocks: list[tuple[int, ...]] = []
    steps: list[tuple[int, int, int]] = []
    hops: list[int] = []
    listed: dict[tuple[int, int], int] = {}
    walked: dict[tuple[Any, ...], tuple[int, int]] = {}
    first = 0
    while first < len(extents):
        bottom, top = extents[first][:2]
        last = first
        while last < len(extents):
            start, stop = min(bottom, extents[last][0]), max(top, extents[last][1])
            if stop - start > room or last - first == room:  # clipped windows may all begin at the same row
                break
            bottom, top, last = start, stop, last + 1
        rows = tuple((start - bottom, deep, high) for start, _, deep, high in extents[first:last])
        if rows not in walked:
            runs: list[list[int]] = []  # of elements that follow each other: from, to, until, hops
            for i, (start, deep, high) in enumerate(rows):
                if (deep, high) not in listed:
                    listed[deep, high] = len(hops)
                    hops += [(d * height.size + h) * row for d in range(0, deep, depth.step)
                             for h in range(0, high, height.step)][1:] + [0]
                if pitch == row and i and rows[i - 1] == (start - 1, deep, high):
                    runs[-1][2] += row
                else:
                    runs.append([start * row, i * pitch, i * pitch + row, listed[deep, high]])
            begin = len(steps)
            steps += [(source + to - runs_to, to, taps) for source, runs_to, until, taps in runs
                      for to in range(runs_to, until, vector)]
            walked[rows] = begin, len(steps)
        blocks.append((bottom, top - bottom, *walked[rows], first, last - first))
        first = last
    return blocks, steps, hops


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
