"""Windows of any sort: the rows of a window are reduced into one line, and the windows along it.

A line has the columns that some neighbouring windows of a row hold; where there is padding, its columns hold nothing.
It stays in the first cache. Of many channels last, 32 are walked at a time: then a column of the line has 32 elements.
Where windows are wide, the line is reduced in passes, after which each column stands for two columns, for four, for
eight and so on: so a window costs the logarithm of its width.

Maxima over many rows come in two parts (van Herk, Gil and Werman). For a block of rows, those of a first window, the
maxima from each row to the block's last one are kept. A later window that begins within the block is one of these,
together with the maximum of the rows behind the block. So a row costs three comparisons, in however many windows it is.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from .._windows import DEPTH, HEADER, HEIGHT, OUT_D, OUT_H, OUT_W, STEP, WIDTH, Axis, is_long
from ..simd import LANES, add, fence, indices, lanes_inside, load, memory, misaligned, splat, store
from ._asking import AHEAD, ASKED, ASKED_LATE, ROWS_BY_TURNS, ask, asks, is_far
from ._compile import by_types, helper, inlined, worker
from ._job import FLOAT32, INDEX, Call, Windows
from ._lanes import list_hops
from ._line import clear, found_at, join_lines, joined, keep, marked, nowhere_of, pass_along, put_found, with_rows
from ._reductions import (
    GROUP,
    averaged,
    held_by,
    lead_of,
    nothing,
    numbers,
    outside,
    place_of,
    room_for_indices,
    shared,
)
from ._staging import STAGE, flush, streams

LINE = 1 << 11  # elements of a line, of short windows: two lines of doubles stay in the first cache
MANY = 32  # columns of a window, and windows of a row, from which on sums are made in passes
MARGIN = GROUP + LANES  # elements behind a line, as far as pairs of vectors reach
ROWS = 8  # of a window, that are read side by side
KEPT = 1 << 20  # bytes of the maxima of rows that are kept; of an input that is walked together
SHARED = 5  # windows of a row to each row of an input, from which on these are kept


def plan(job: Windows) -> Call | None:
    """Whatever is left: any forward, and gradients of averages of windows in channels-last memory."""
    return None if job.gradient and not job.last else line_plan(job)


def plan_sums(job: Windows) -> Call | None:
    """Averages of windows of 32 columns or more at stride 1, and gradients of such: sums of 1, 4, 16, ... columns.

    For every memory order, or sums would not be the same bit for bit in all.
    """
    return line_plan(job) if job.summed and are_wide(job.windows[2]) else None


def line_plan(job: Windows) -> Call:
    return job.call(window_lines, job.rows, (way_of(job, max(job.elements, 1)),))


def are_wide(axis: Axis) -> bool:
    """Whether sums over windows along a line are made in passes."""
    return (axis.stride == 1 and min(axis.kernel, axis.n) >= MANY
            and not is_long((axis.kernel - 1) * axis.step, axis.size))


# The numbers of a way. Elements of a column of the line, and of a pixel in memory; groups of channels; pieces that a
# row of windows is cut into, and windows to each; elements of a line. Whether windows are all alike; how many columns
# passes reduce to one; how many such columns make a window, and how many elements they are apart; columns before the
# first window begins, columns from one window to the next. Rows whose maxima are kept; rows of windows that are walked
# together; rows of the largest window.
(COLUMN, PIXEL, GROUPS, PIECES, PIECE, ROOM, ALIKE, PASSED, TAKEN, HOP, BEFORE, STRIDE, KEEPS, TOGETHER,
 MOST_ROWS) = range(15)


def way_of(job: Windows, pixel: int) -> NDArray[np.int64]:
    """How `window_lines` walks these windows, over pixels of so many elements."""
    _, height, width = job.axes
    column = min(pixel, GROUP)
    windows, stride, kernel, before, step = width.n, width.stride, width.kernel, width.before, width.step
    if job.gradient:  # the windows that hold an element are alike if they follow each other
        along = job.windows[2]
        stride, kernel, before = int(along.stride == 1), along.kernel, along.kernel - 1 - along.before
    reach = (kernel - 1) * step + 1
    alike = stride > 0 and kernel > 0 and not is_long(reach - 1, width.size)
    piece, columns, passed, taken, hop = windows, width.size, 1, kernel, step
    if alike:
        piece = max(min((max(LINE // column, 2 * reach) - reach) // stride + 1, windows), 1)
        columns = (piece - 1) * stride + reach
        # Lanes: windows apart from each other take a vector each, of however few elements a column is.
        lanes = piece * (column if stride == 1 else -(-column // LANES) * LANES)
        doublings = kernel.bit_length() - 1
        if not job.summed and (kernel - 2) * lanes > 3 * doublings * columns * column:
            passed = 1 << doublings
            taken, hop = (1, 0) if passed == kernel else (2, (kernel - passed) * step)
        elif job.summed and are_wide(job.windows[2]):
            passed, taken = kernel, 1
    keeps = 0
    if not job.summed and height.step == 1 and 0 < SHARED * height.stride <= height.longest:
        size = FLOAT32 + INDEX * job.indexed
        room = KEPT // ((height.longest + 2) * size) // column - LANES  # columns whose maxima fit
        if alike and reach * 3 // 2 <= room < columns:  # in smaller pieces
            piece = max((room - reach) // stride + 1, 1)
            columns = (piece - 1) * stride + reach
        keeps = height.longest if columns <= room else 0
    together = KEPT // (width.size * pixel * FLOAT32 * max(height.stride, 1)) if pixel > column else height.n
    return np.array([column, pixel, -(-pixel // column), -(-windows // piece) if piece else 0, piece,
                     columns * column + MARGIN, alike, passed, taken, hop * column, before, stride, keeps,
                     max(together, 2 * height.longest), job.axes[0].longest * height.longest], np.int64)


@helper
def reduce_rows(source, at, spot, count, line, to, span, sizes, none, divisor):
    """Reduce elements [first, stop) of `count` rows, to the line that begins at element `to`.

    `source` has the memory of the input, the hops from the first row to the others in elements and in columns, the
    columns of the elements of a line, and what stands for elements that are not there. The line's first column lies in
    the first row at element `at`, and has the index `spot`.
    """
    x, hops, column_hops, columns, pad = source
    values, places = line
    first, stop = span
    column, pixel = sizes
    further = GROUP + pixel - column  # elements of other channels lie between
    for row in range(0, count, ROWS):
        rows, i = (row, min(row + ROWS, count)), at + first // column * pixel
        for c in range(first, stop, GROUP):
            masks = lanes_inside(c, stop), lanes_inside(c + LANES, stop)
            here = add(indices(spot, 0), load(columns, c)), add(indices(spot, 0), load(columns, c + LANES))
            pair = none, none, nowhere_of(places), nowhere_of(places)
            if row > 0:
                a, ia = found_at(values, places, to + c)
                b, ib = found_at(values, places, to + c + LANES)
                pair = a, b, ia, ib
            a, b, ia, ib = with_rows(pair, column_hops, x, i, hops, rows, masks, here, pad, none, divisor)
            if rows[1] == count:
                ia, ib = marked(masks[0], a, ia), marked(masks[1], b, ib)
            keep(values, places, to + c, a, ia)
            keep(values, places, to + c + LANES, b, ib)
            i += further


def maxima_by_blocks(source, at, spot, held, state, line, tails, span, way, row, none, divisor):
    """A line of maxima of windows over many rows, [h0, h1) of every slice, out of those that are kept.

    Returns the new `state`: the first row of the block, the first row behind it, and up to where those behind it are
    known. The maxima from each row of the block to its last are in `tails`, then that of the rows behind the block.
    """


@by_types(maxima_by_blocks)
def _maxima_by_blocks(source, at, spot, held, state, line, tails, span, way, row, none, divisor):
    if isinstance(divisor, types.NoneType):
        return by_blocks
    # Sums never come here, and need not be compiled for it.
    return lambda source, at, spot, held, state, line, tails, span, way, row, none, divisor: state


def by_blocks(source, at, spot, held, state, line, tails, span, way, row, none, divisor):
    h0, h1, slices = held
    block, behind, known = state
    size, sizes, hop = way[ROOM], (way[COLUMN], way[PIXEL]), row * way[PIXEL]
    last = way[KEEPS] * size
    if h0 >= behind:
        block, behind, known = h0, h1, h1
        for h in range(h1 - 1, h0 - 1, -1):
            to = (h - block) * size
            reduce_rows(source, at + h * hop, spot + h * row, slices, tails, to, span, sizes, none, divisor)
            if h + 1 < h1:
                join_lines(tails, to + size, to, span, divisor)
    for h in range(known, h1):
        to = last if h == behind else last + size
        reduce_rows(source, at + h * hop, spot + h * row, slices, tails, to, span, sizes, none, divisor)
        if h > behind:
            join_lines(tails, to, last, span, divisor)
    for c in range(span[0], span[1], LANES):
        a, ia = found_at(tails[0], tails[1], (h0 - block) * size + c)
        if h1 > behind:
            b, ib = found_at(tails[0], tails[1], last + c)
            a, ia = joined(b, ib, a, ia, divisor)
        keep(line[0], line[1], c, a, ia)
    return block, behind, max(known, h1)


@helper
def take_windows(line, begin, end, to, gathered, way, g, taps, widths, divisors, none):
    """Windows [begin, end) of a row out of a line, behind what has gathered."""
    divisor, reciprocal = shared(divisors)
    values, places = line
    E, OW, hop, starts = way[COLUMN], g[OUT_W], way[HOP], HEADER + 3 * g[OUT_D] + 3 * g[OUT_H]
    if way[ALIKE] and way[STRIDE] == 1:
        for j in range(0, (end - begin) * E, GROUP):
            a, ia = found_at(values, places, j)
            b, ib = found_at(values, places, j + LANES)
            at = j
            for _ in range(1, way[TAKEN]):
                at += hop
                v, iv = found_at(values, places, at)
                a, ia = joined(v, iv, a, ia, divisor)
                v, iv = found_at(values, places, at + LANES)
                b, ib = joined(v, iv, b, ib, divisor)
            width = second = splat(g, 1)
            if divisor is not None and divisor == 0:
                width, second = load(widths, begin * E + j), load(widths, begin * E + j + LANES)
            put_found(to[0], to[1], gathered + j, averaged(a, divisor, reciprocal, taps, width), ia)
            put_found(to[0], to[1], gathered + j + LANES, averaged(b, divisor, reciprocal, taps, second), ib)
        return
    at, taken, two = 0, way[TAKEN], E > LANES
    for o in range(begin, end):  # what is more than a column is written over by the next one
        if way[ALIKE] == 0:
            at = g[starts + o] * E
            taken = max(g[starts + OW + o] * E - at + hop - 1, 0) // hop
        width, i = splat(g, g[starts + 2 * OW + o]), at
        a, b, ia, ib = none, none, nowhere_of(places), nowhere_of(places)
        for _ in range(taken):
            v, iv = found_at(values, places, i)
            a, ia = joined(v, iv, a, ia, divisor)
            if two:
                v, iv = found_at(values, places, i + LANES)
                b, ib = joined(v, iv, b, ib, divisor)
            i += hop
        put_found(to[0], to[1], gathered, averaged(a, divisor, reciprocal, taps, width), ia)
        if two:
            put_found(to[0], to[1], gathered + LANES, averaged(b, divisor, reciprocal, taps, width), ib)
        at, gathered = at + way[STRIDE] * E, gathered + E


@inlined
def on_a_line(array):
    """The part of an array that begins with a cache line: vectors that lie on two lines take twice as long."""
    return array[-misaligned(array, 0) % LANES :]


@inlined
def line_of(x, index, divisors, size):
    """Room for so many elements, and for their indices, or None."""
    places = room_for_indices(index, size + LANES)
    return on_a_line(numbers(x, divisors, size + LANES)), places if index is None else on_a_line(places)


@helper
def room_for_lines(x, y, index, divisors, way, g):
    """Memory for `window_lines`: a line, a second one for sums, and the maxima of rows that are kept; results that
    gather; where columns are, and hops to rows; and what the column of every element of a row adds to its divisor.
    """
    size, E = way[ROOM], way[COLUMN]
    results, tails, many = STAGE + way[PIECE] * E + GROUP, (way[KEEPS] + 2) * size if way[KEEPS] else 0, way[MOST_ROWS]
    columns = np.empty(size, np.int32)
    for i in range(size if index is not None else 0):
        columns[i] = i // E
    own = divisors is not None and divisors[0] == 0 and way[STRIDE] == 1
    widths = np.ones(g[OUT_W] * E + GROUP if own else 0, np.int64)
    starts = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H]
    for i in range(g[OUT_W] * E if own else 0):
        widths[i] = g[starts + 2 * g[OUT_W] + i // E]
    second = size + LANES if way[PASSED] > 1 else LANES
    return (line_of(x, index, divisors, size), on_a_line(numbers(x, divisors, second)),
            line_of(x, index, divisors, tails),
            (np.empty(results, y.dtype), room_for_indices(index, results)),
            (np.empty(many, np.int64), np.empty(many, np.int64), columns), widths)


@inlined
def memories(pair):
    """Where an array begins and the indices that belong to it, or None."""
    return memory(pair[0]), memory(pair[1])


@helper
def line_rows(lo, hi, x, y, index, divisors, way, g, room):
    """The walk of `window_lines`, in memory of its caller's."""
    D, H, W, OD, OH, OW = g[DEPTH], g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H], g[OUT_W]
    E, pixel, pieces, piece, size = way[COLUMN], way[PIXEL], way[PIECES], way[PIECE], way[ROOM] - MARGIN
    line, parts, tails, widths = memories(room[0]), memory(room[1]), memories(room[2]), memory(room[5])
    results, (hops, column_hops, columns) = room[3], room[4]
    to, none, pad = memories(results), nothing(x, divisors), outside(x, divisors)
    source = memory(x), memory(hops), memory(column_hops), memory(columns), pad
    divisor, _ = shared(divisors)
    in_order = way[GROUPS] * pieces == 1  # results come as they lie in memory
    streaming, asking = streams(y, x, index) and pixel == E, asks(x, ASKED if pixel == 1 else ASKED_LATE)
    share, far = D * H * W * pixel // (OD * OH), is_far(x, ROWS_BY_TURNS or pixel > 1)
    lead = lead_of(x, g, share, W * pixel, far)
    deep, high = np.int64(-1), np.int64(-1)
    gathered, done, row = 0, lo * OW * E, lo
    while row < hi:
        q, od, first = place_of(row, OD, OH)
        rows = min(hi - row, OH - first, way[TOGETHER])
        for part in range(way[GROUPS] * pieces):
            channel, begin = min(part // pieces * E, pixel - E), part % pieces * piece  # the last group reaches back
            end, base, state = min(begin + piece, OW), np.int64(0), (np.int64(0), np.int64(-1), np.int64(0))
            if way[ALIKE]:
                base = begin * way[STRIDE] - way[BEFORE]
            inside = min(max(-base, 0) * E, size), max(min((W - base) * E, size), 0)
            for oh in range(first, first + rows):
                d0, d1, h0, h1, taps = held_by(od, oh, g)
                span, spot = inside, d0 * H * W + base
                if d0 >= d1 or h0 >= h1:
                    span = 0, 0
                at = (q * D * H * W + spot) * pixel + channel
                if asking and part == 0:
                    ahead = q * D * H * W * pixel + (od * OH + oh) * share + lead
                    ask(source[0], ahead, ahead + min(share, 4 * AHEAD), 64 // x.itemsize, far)
                clear(line, 0, span[0], none)
                if span[0] < span[1]:
                    tall = 1 if way[KEEPS] else h1 - h0
                    if d1 - d0 != deep or tall != high:
                        deep, high = d1 - d0, tall
                        list_hops(column_hops, 0, deep, high, g)
                        for i in range(hops.size):
                            hops[i] = column_hops[i] * pixel
                    count = ((deep - 1) // g[STEP] + 1) * ((high - 1) // g[STEP + 1] + 1)
                    if way[KEEPS]:
                        state = maxima_by_blocks(source, at, spot, (h0, h1, count), state, line, tails, span, way, W,
                                                 none, divisor)
                    else:
                        reduce_rows(source, at + h0 * W * pixel, spot + h0 * W, count, line, 0, span, (E, pixel), none,
                                    divisor)
                clear(line, span[0] + (span[1] - span[0] + LANES - 1) // LANES * LANES, size, none)
                if way[PASSED] > 1:
                    pass_along(line, parts, size, way[PASSED], g[STEP + 2] * E, divisor)
                take_windows(line, begin, end, to, gathered, way, g, taps, widths, divisors, none)
                gathered += (end - begin) * E
                if in_order and gathered < STAGE and (oh + 1 < first + rows or row + rows < hi):
                    continue
                out = done if in_order else (((q * OD + od) * OH + oh) * OW + begin) * pixel + channel
                put_results(results, gathered, y, index, out, pixel - E, streaming)
                gathered, done = 0, done + gathered
        row += rows
    if streaming:
        fence()


@helper
def put_results(results, count, y, index, out, skip, streaming):
    """What has gathered, to y[out] on: 32 channels of each pixel, if there are others to skip."""
    if skip == 0:
        flush(results[0], 0, count, y, out, streaming)
        if index is not None:
            flush(results[1], 0, count, index, out, streaming)
        return
    for i in range(0, count, GROUP):
        for half in range(i, i + GROUP, LANES):
            store(y, out + half, load(results[0], half))
            if index is not None:
                store(index, out + half, load(results[1], half))
        out += skip


@worker
def window_lines(lo, hi, x, y, index, divisors, way, g):
    """Rows [lo, hi) of the output, counted through all planes or images, of any windows: see above."""
    line_rows(lo, hi, x, y, index, divisors, way, g, room_for_lines(x, y, index, divisors, way, g))
    return 0
