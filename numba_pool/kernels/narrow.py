"""Maxima without indices in channels-first memory: for elements of one or two bytes, of which a vector holds 64 or 32,
and for machines whose registers are narrower than a vector.

First the rows of the windows are reduced downwards, in vectors that may begin at any element. The results are rows of
maxima, one for each row of the output, which follow each other in memory at a distance called *pitch*. Then
neighbouring columns of these rows are reduced.

No load or store is masked, since machines without AVX-512 have slow instructions for that, or none. A vector that
reaches beyond the end of a row writes too much, which the next row overwrites. A column of maxima takes part in a
window only up to a *limit*: the largest number that there is, or for padding the lowest. At stride 2 a vector holds
pairs, of which the larger is left; a last column that has no pair has the limit of padding.

At the end of each row some lanes are idle. At stride 1 with "same" padding none are: there rows of the input, and rows
of the output, follow each other without a gap, and all rows are walked as one.
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
    empty,
    finite_or_inf,
    greater,
    infinite_lanes,
    lesser,
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
    """Maxima without indices over windows of up to 5 columns, at stride 1 or 2 along rows: for elements of one or two
    bytes, or where registers are narrower than a vector.
    """
    walk = narrow(job.axes, job.planes, job.dtype.itemsize) if job.narrow and job.planes else None
    if walk is None:
        return None
    return job.call(narrow_rows, walk.units, (limits_of(walk.inside, job.dtype), walk.table), additions=0)


def limits_of(inside: NDArray[np.bool_], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The limit of each column of maxima: the largest number of the dtype for those `inside`, else the lowest. Numbers
    of one or two bytes are seen as packs, in which these are the largest and the lowest unsigned integer.
    """
    if dtype.itemsize <= 2:
        unsigned = np.dtype(f"u{dtype.itemsize}")
        return (-inside.astype(unsigned)).view(SINGLES[unsigned.name])  # a 1 becomes an integer with all bits set
    largest, lowest = (np.inf, -np.inf) if dtype.kind == "f" else (np.iinfo(dtype).max, np.iinfo(dtype).min)
    return np.where(inside, np.array(largest, dtype), np.array(lowest, dtype))


class Narrow(NamedTuple):
    """How `narrow_rows` walks planes."""

    table: NDArray[np.int32]  # a header, NARROW_BLOCK numbers for each block, then the steps, then the hops
    inside: NDArray[np.bool_]  # for each tap along a row: whether it takes part in the window of each column
    units: int


# The header. GROUPED: planes that are walked as a group. BLOCKS: blocks of rows of such a group. ROWS_PITCH: elements
# from one row of maxima to the next. ROWS_IN, ROWS_OUT: the most rows that a block has, of the input and of the output.
# ALONG: how many vectors are compared along a row. ALONG_HOP: elements from one of these to the next. ALONG_BEFORE: how
# many elements before the row the first of them begins.
GROUPED, BLOCKS, ROWS_PITCH, ROWS_IN, ROWS_OUT, ALONG, ALONG_HOP, ALONG_BEFORE, NARROW_HEADER = range(9)


# The numbers of a block: its first row of the input, and how many rows; where its steps begin and end; its first row of
# the output, and how many rows.
NARROW_BLOCK = 6


# The numbers of a step: where its first tap is, and where its maxima go; its first two hops; where further hops begin.
NARROW_STEP = 5


BLOCK_BYTES = 1 << 13  # bytes of the input of a block: they stay in the first cache, together with their maxima


MOST_BLOCK_BYTES = 1 << 18  # bytes of the input of a single row of the output, at most


MOST_ALONG, MOST_DOWN = 5, 12  # columns of a window, as many as `largest` takes; rows of a window in all of its slices


MOST_NARROW_ROWS = 1 << 14  # rows of the output of a plane or a group, at most: Python looks at each


MOST_MARGIN = 16  # elements before a row and behind it that are read, at most: no more than a vector


SHORT_ROW = 40  # bytes of a row, below which too many lanes would be idle


MANY_UNITS = 16  # units of work that are left, at least, where planes are walked in groups


def narrow(axes: tuple[Axis, Axis, Axis], planes: int, itemsize: int) -> Narrow | None:
    """How to walk planes whose elements have `itemsize` bytes. None where windows are not alike along rows at stride 1
    or 2, where windows are large or may be empty, and where rows are short.
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
    flat = stride == height.stride == 1 and outputs == row  # all rows are walked as one, whatever their length
    if not flat and row * itemsize < SHORT_ROW:
        return None
    pitch = max(-(-row // stride), outputs) * stride
    if pitch > stride * outputs and stride == itemsize == 2:  # other kernels are faster: 3x3/2 of float16, 112 to 55
        return None
    extents = [(int(d0) * height.size + int(h0), int(d1 - 1) * height.size + int(h1), int(d1 - d0), int(h1 - h0))
               for d0, d1 in zip(depth.start, depth.stop) for h0, h1 in zip(height.start, height.stop)]
    span = max(stop - start for start, stop, *_ in extents)
    if span * row * itemsize > MOST_BLOCK_BYTES:
        return None
    room = max(BLOCK_BYTES // (row * itemsize), span)  # rows of the input that a block has room for
    group = max(1, min(room // whole, planes // MANY_UNITS, MOST_NARROW_ROWS // len(extents)))
    blocks, steps, hops = narrow_blocks(
        [(i * whole + start, i * whole + stop, deep, high)
         for i in range(group) for start, stop, deep, high in extents], axes, room, pitch, vector)
    distances = range(-before, columns * width.step - before, width.step if stride == 1 else 2)
    column = np.arange(pitch + vector) % pitch
    inside = [(column + distance >= 0) & (column + distance < row) for distance in distances]
    if stride == 2 and columns % 2:  # the last column of a window has no pair
        inside[-1] &= column % 2 == 0
    steps_at = NARROW_HEADER + NARROW_BLOCK * len(blocks)
    hops_at = steps_at + NARROW_STEP * len(steps)
    numbers = [group, len(blocks), pitch, max(block[1] for block in blocks), max(block[5] for block in blocks),
               len(distances), distances.step, before]
    for bottom, count, begin, end, output, rows in blocks:
        numbers += [bottom, count, steps_at + NARROW_STEP * begin, steps_at + NARROW_STEP * end, output, rows]
    for source, target, first in steps:
        numbers += [source, target, *hops[first : first + 2], hops_at + first + 2]
    return Narrow(np.array(numbers + hops, np.int32), np.concatenate(inside), -(-planes // group) * len(blocks))


def narrow_blocks(extents: list[tuple[int, int, int, int]], axes: tuple[Axis, Axis, Axis], room: int,
                  pitch: int, vector: int) -> tuple[list[tuple[int, ...]], list[tuple[int, int, int]], list[int]]:
    """The blocks, the steps and the hops. `extents` has for each row of the output: its first row of the input, the row
    behind its last one, and how many slices and rows its windows have. A block is some rows of the output, which read
    at most `room` rows of the input.

    A step reduces one vector downwards. Three numbers are returned for it: the element of the block's input where its
    first tap is; where its maxima go, among rows that are `pitch` elements apart; and where its hops begin. The hops
    are the distances from the first tap to the others, and 0 ends them. There are at least two before that 0: where a
    window has fewer taps, the first tap is taken once more, by a hop of 0. Blocks that are alike share their steps.
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
            # Stretches of elements that are walked as one: where they are read, where their maxima begin and end, hops.
            runs: list[list[int]] = []
            for i, (start, deep, high) in enumerate(rows):
                if (deep, high) not in listed:
                    listed[deep, high] = len(hops)
                    taps = [(d * height.size + h) * row for d in range(0, deep, depth.step)
                            for h in range(0, high, height.step)]
                    hops += taps[1:] + [0] * max(4 - len(taps), 1)
                if pitch == row and i and rows[i - 1] == (start - 1, deep, high):
                    runs[-1][2] += row
                else:
                    runs.append([start * row, i * pitch, i * pitch + row, listed[deep, high]])
            begin = len(steps)
            steps += [(source + to - runs_to, to, first_hop) for source, runs_to, until, first_hop in runs
                      for to in range(runs_to, until, vector)]
            walked[rows] = begin, len(steps)
        blocks.append((bottom, top - bottom, *walked[rows], first, last - first))
        first = last
    return blocks, steps, hops


def breadth(x):
    """How many elements of x a vector holds."""


@by_types(breadth)
def _breadth(x):
    element = arithmetic(x)
    many = LANES * (element.count if isinstance(element, Pack) else 1)
    return lambda x: many


@inlined
def down(x, origin, table, first, last, rows, to, ahead, top):
    """Reduce rows downwards, by the steps in table[first:last]. The block's input begins at x[origin], its maxima at
    rows[to]. With `ahead`, memory so many elements further is asked for. Returns the larger of `top` and all maxima,
    lane by lane.
    """
    i = np.uintp(first)
    while i < np.uintp(last):
        at, hop, second = origin + number(table, i), number(table, i + np.uintp(2)), number(table, i + np.uintp(3))
        v = greater(finite_or_inf(load(x, at + hop)), finite_or_inf(load(x, at)))
        if ahead:
            prefetch(x, at + ahead)
            prefetch(x, at + hop + ahead)
        if second:
            v = greater(finite_or_inf(load(x, at + second)), v)
            if ahead:
                prefetch(x, at + second + ahead)
        tap = np.uintp(number(table, i + np.uintp(4)))
        hop = number(table, tap)
        while hop > 0:  # not a loop of a known length, which LLVM would unroll
            v = greater(finite_or_inf(load(x, at + hop)), v)
            if ahead:
                prefetch(x, at + hop + ahead)
            tap += np.uintp(1)
            hop = number(table, tap)
        store(rows, to + number(table, i + np.uintp(1)), v)
        top = greater(v, top)
        i += np.uintp(NARROW_STEP)
    return top


@inlined
def limited(rows, at, limits, phase):
    """A vector of maxima, each up to its limit."""
    return lesser(load(rows, at), load(limits, phase))


@inlined
def largest(rows, at, hop, limits, phase, apart, taps):
    """The maximum over up to five vectors, which are `hop` elements apart."""
    v = limited(rows, at, limits, phase)
    if taps > 1:
        v = greater(limited(rows, at + hop, limits, phase + apart), v)
    if taps > 2:
        v = greater(limited(rows, at + 2 * hop, limits, phase + 2 * apart), v)
    if taps > 3:
        v = greater(limited(rows, at + 3 * hop, limits, phase + 3 * apart), v)
    if taps > 4:
        v = greater(limited(rows, at + 4 * hop, limits, phase + 4 * apart), v)
    return v


@helper
def along(rows, at, count, start, stop, phase, pitch, many, hop, taps, limits, stride, y, to, size):
    """Reduce windows along `count` rows of maxima, in vectors of `many` elements: those that begin at elements [start,
    stop) behind rows[at], or at every second of these elements; and the same for each further row. The results of the
    first row go to y[to:], those of the next rows `size` elements further on. Element `start` has the limit of column
    `phase`.
    """
    turn, apart = many % pitch, pitch + many
    for _ in range(count):
        i, column = start, phase
        while i < stop:
            v = largest(rows, at + i, hop, limits, column, apart, taps)
            if stride == 1:
                store(y, to + i, v)
            else:
                store_pairs(y, to + (i >> 1), v)
            i += many
            column += turn
            if column >= pitch:
                column -= pitch
        at, to = at + pitch, to + size


@worker
def narrow_rows(lo, hi, x, y, index, divisors, limits, table, g):
    """Units [lo, hi): blocks of rows of the output, counted through all groups of planes. The last group reaches back
    over the one before it, so that every group is whole. The limits and the table are those of `Narrow`.
    """
    image, W, OW, stride = g[DEPTH] * g[HEIGHT], g[WIDTH], g[OUT_W], g[STRIDE + 2]
    group, blocks, pitch = table[GROUPED], table[BLOCKS], table[ROWS_PITCH]
    taps, hop, before = table[ALONG], table[ALONG_HOP], table[ALONG_BEFORE]
    many = breadth(x)
    # Helpers take the `memory` of arrays: threads that count the references of the same array wait for each other.
    source, target, steps, allowed = memory(x), memory(y), memory(table), memory(limits)
    # Before the first row there is room for the margin, a vector, and for the alignment, up to a vector. Behind the
    # last row there is room for the rest of its last vector, and for the margin, up to MOST_MARGIN elements.
    rows = numbers(x, None, table[ROWS_OUT] * pitch + 4 * many)
    first = 2 * many - misaligned(rows, 0) * (many // LANES)  # the first row begins with a cache line
    origin = first - before  # where the first tap of the first window is
    stage, copy = empty(y, many), empty(x, table[ROWS_IN] * W + many)
    ahead, top = table[ROWS_IN] * W if asks(x, ASKED) else 0, nothing(x, divisors)
    for unit in range(lo, hi):
        found = memory(rows)  # in the loop, since Numba gives an array's memory back behind the last line that names it
        part = unit // blocks
        block = NARROW_HEADER + NARROW_BLOCK * (unit - part * blocks)
        plane = min(part * group, g[PLANES] - group)
        at, size = (plane * image + table[block]) * W, table[block + 1] * W
        begin, end = table[block + 2], table[block + 3]
        out, count = (plane * g[OUT_D] * g[OUT_H] + table[block + 4]) * OW, table[block + 5]
        results = count * OW
        given, start, further = source, at, ahead
        if at + size + many > x.size:  # the last vector would end behind the array
            for i in range(size):
                copy[i] = x[at + i]
            given, start, further = memory(copy), 0, 0
        top = down(given, start, steps, begin, end, found, first, further, top)
        length = OW * stride
        if length == pitch:  # results follow each other as rows of maxima do
            count, length = 1, count * pitch
        # A vector may reach beyond the end of a row; the next row overwrites that. Rows are `free` to do so as long as
        # nothing beyond the unit is written. In the rows behind these the last vector reaches back; a row that is
        # shorter than a vector is written by way of the stage.
        whole, last = length // many * many, length - many
        free = min(max((results - -(-length // many) * many // stride) // OW + 1, 0), count)
        along(found, origin, free, 0, length, 0, pitch, many, hop, taps, allowed, stride, target, out, OW)
        for row in range(free, count):
            at, to = origin + row * pitch, out + row * OW
            if whole == 0:
                along(found, at, 1, 0, many, 0, pitch, many, hop, taps, allowed, stride, memory(stage), 0, OW)
                for i in range(length // stride):
                    y[to + i] = stage[i]
                continue
            along(found, at, 1, 0, whole, 0, pitch, many, hop, taps, allowed, stride, target, to, OW)
            if whole < length:
                along(found, at, 1, last, length, last % pitch, pitch, many, hop, taps, allowed, stride, target, to, OW)
    return infinite_lanes(top)
