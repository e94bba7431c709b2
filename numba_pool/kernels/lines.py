"""Windows of any sort: the rows of a window are reduced into one line, then the columns of that line.

A *line* is a small array that stays in the first cache. It has the columns that some neighbouring windows of a row
hold; columns in the padding hold the neutral element. In channels-last memory with many channels, 32 channels are
walked at a time, and a column of the line has 32 elements. Where windows are wide, the line is reduced in passes. After
these, each column stands for itself and its neighbours to the right: two columns, four, eight and so on. So the time of
a window grows with the logarithm of its width.

Maxima over many rows are made of two parts (the algorithm of van Herk, Gil and Werman). The rows of a first window are
a block. For each row of the block, the maxima over the rows from there to the block's end are kept. A later window that
begins within the block has two parts: rows to the block's end, whose maxima are kept, and rows behind the block, whose
maxima grow by a row at a time. So a row takes three comparisons, in however many windows it is. With indices, each row
is first reduced along its windows. Then all parts of a window are joined in the order of memory, and of equal maxima
the one that was there before wins: no indices are compared.
"""

import numpy as np
from numba import types

from .._windows import DEPTH, HEADER, HEIGHT, OUT_D, OUT_H, OUT_W, STEP, WIDTH, Axis, Ints, is_long
from ..simd import (
    LANES,
    add,
    fence,
    greater,
    indices,
    infinite_lanes,
    lanes_inside,
    load,
    memory,
    misaligned,
    number,
    splat,
)
from ._asking import AHEAD, ASKED, ASKED_LATE, ROWS_BY_TURNS, ask, asks, is_far
from ._compile import by_types, helper, inlined, worker
from ._job import FLOAT32, INDEX, Call, Windows
from ._lanes import list_hops
from ._line import (
    clear,
    found_at,
    join_later,
    join_lines,
    join_parts,
    keep,
    nowhere_of,
    pass_along,
    placed,
    put_found,
    with_rows,
)
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

LINE = 1 << 11  # elements of a line, unless windows are longer: two lines of float64 stay in the first cache
MANY = 32  # columns of a window, and windows in a row, from which on sums are made in passes
MARGIN = GROUP + LANES  # elements behind a line: pairs of vectors reach so far beyond its end
ROWS = 8  # rows of a window that are read side by side
BEGIN = np.int64(0)  # not a literal 0, for which Numba would compile a helper once more
KEPT = 1 << 20  # bytes of row maxima that are kept, at most; bytes of the input that all channels walk in turn
KEPT_FROM = 4  # if a row is in more windows than that, row maxima are kept


def plan(job: Windows) -> Call | None:
    """Whatever is left: any forward, and gradients of averages in channels-last memory."""
    return None if job.gradient and not job.last else line_plan(job)


def plan_sums(job: Windows) -> Call | None:
    """Averages of windows of 32 columns or more at stride 1, and their gradients: sums of 1, 4, 16, ... columns. The
    rule does not look at the memory order, so that sums are the same, bit for bit, in each.
    """
    return line_plan(job) if job.summed and are_wide(job.windows[2]) else None


def line_plan(job: Windows) -> Call:
    return job.call(window_lines, job.rows, (way_of(job, max(job.elements, 1)),))


def are_wide(axis: Axis) -> bool:
    """Whether sums over windows along a line are made in passes."""
    return (axis.stride == 1 and min(axis.kernel, axis.n) >= MANY
            and not is_long((axis.kernel - 1) * axis.step, axis.size))


def keeps_rows(height: Axis) -> bool:
    """Whether a row is in so many windows that its maxima are kept for the next ones."""
    return height.step == 1 and 0 < KEPT_FROM * height.stride < height.longest


# The numbers of a `way`, an argument of this kernel.
# COLUMN: elements of a column of the line. PIXEL: elements of a pixel in memory. GROUPS: groups of channels. PIECES:
# into how many pieces a row of windows is cut. PIECE: windows of a piece. ROOM: elements of a line. ALIKE: whether all
# windows are alike. PASSED: how many columns one column stands for after the passes. TAKEN: how many columns of the
# line make a window. HOP: how many elements these are apart. BEFORE: columns of padding before a row. STRIDE: columns
# from one window to the next. APART: elements from one column of a window to the next. KEEPS: rows whose maxima are
# kept. ROWS_FIRST: whether windows are reduced along each row before that row's maxima are kept. TOGETHER: rows of
# windows that are walked for one group of channels, before the next group walks them. MOST_ROWS: rows of the largest
# window.
(COLUMN, PIXEL, GROUPS, PIECES, PIECE, ROOM, ALIKE, PASSED, TAKEN, HOP, BEFORE, STRIDE, APART, KEEPS, ROWS_FIRST,
 TOGETHER, MOST_ROWS) = range(17)


def way_of(job: Windows, pixel: int) -> Ints:
    """What tells `window_lines` how to walk these windows, over pixels of so many elements. It is a tuple, since Numba
    would count the references of an array at every call of a helper.
    """
    _, height, width = job.axes
    column = min(pixel, GROUP)
    windows, stride, kernel, before, step = width.n, width.stride, width.kernel, width.before, width.step
    if job.gradient:  # the windows that an element is in are alike only at stride 1
        along = job.windows[2]
        stride, kernel, before = int(along.stride == 1), along.kernel, along.kernel - 1 - along.before
    reach = (kernel - 1) * step + 1
    alike = stride > 0 and kernel > 0 and not is_long(reach - 1, width.size)
    piece, columns, passed, taken, hop = windows, width.size, 1, kernel, step
    if alike:
        piece = max(min((max(LINE // column, 2 * reach) - reach) // stride + 1, windows), 1)
        columns = (piece - 1) * stride + reach
        # How many lanes the windows of a piece take. At other strides than 1 each window takes whole vectors.
        lanes = piece * (column if stride == 1 else -(-column // LANES) * LANES)
        doublings = kernel.bit_length() - 1
        if not job.summed and (kernel - 2) * lanes > doublings * columns * column:
            passed = 1 << doublings
            taken, hop = (1, 0) if passed == kernel else (2, (kernel - passed) * step)
        elif job.summed and are_wide(job.windows[2]):
            passed, taken = kernel, 1
    keeps = 0
    if not job.summed and keeps_rows(height):
        size = FLOAT32 + INDEX * job.indexed
        room = KEPT // ((height.longest + 2) * size) // column - LANES  # columns whose row maxima fit
        if alike and reach * 3 // 2 <= room < columns:  # smaller pieces fit
            piece = max((room - reach) // stride + 1, 1)
            columns = (piece - 1) * stride + reach
        keeps = height.longest if columns <= room else 0
    rows_first = keeps and alike and job.indexed and job.axes[0].longest == 1 and not width.is_empty
    together = KEPT // (width.size * pixel * FLOAT32 * max(height.stride, 1)) if pixel > column else height.n
    return tuple(map(int, (
        column, pixel, -(-pixel // column), -(-windows // piece) if piece else 0, piece, columns * column + MARGIN,
        alike, passed, taken, hop * column, before, stride, step * column, keeps, rows_first,
        max(together, 2 * height.longest), job.axes[0].longest * height.longest)))


@helper
def reduce_rows(source, at, spot, count, line, to, span, sizes, none, divisor):
    """Reduce `count` rows of the input into elements [first, stop) of a line, which is the `span`. The line begins at
    element `to` of the arrays in `line`.

    `source` has six things: the memory of the input; the distances from the first row to the others, in elements and
    in columns; the column of each element of a line; the vector that stands for missing elements; and what only
    `row_maxima` reads. The line's first column lies in the first row at element `at` of the input, and has the index
    `spot`.
    """
    column, pixel = sizes
    further = GROUP + pixel - column  # between two columns lie the elements of other channels
    for row in range(0, count, ROWS):
        rows, i = (row, min(row + ROWS, count)), at + span[0] // column * pixel
        for c in range(span[0], span[1], GROUP):
            if c + GROUP <= span[1]:
                reduce_columns(source, i, spot, rows, line, to, c, None, None, none, divisor)
            else:
                masks = lanes_inside(c, span[1]), lanes_inside(c + LANES, span[1])
                reduce_columns(source, i, spot, rows, line, to, c, masks[0], masks[1], none, divisor)
            i += further


@inlined
def reduce_columns(source, at, spot, rows, line, to, c, mask, second, none, divisor):
    """Join some `rows` to elements [c, c + 32) of a line, those of two vectors that have masks (None: all)."""
    x, hops, column_hops, columns, pad, _ = source
    values, places = line
    here = add(indices(spot, 0), load(columns, c)), add(indices(spot, 0), load(columns, c + LANES))
    pair = none, none, nowhere_of(places), nowhere_of(places)
    if rows[0] > 0:
        a, ia = found_at(values, places, to + c)
        b, ib = found_at(values, places, to + c + LANES)
        pair = a, b, ia, ib
    a, b, ia, ib = with_rows(pair, column_hops, x, at, hops, rows, (mask, second), here, pad, none, divisor)
    keep(values, places, to + c, a, placed(mask, ia))
    keep(values, places, to + c + LANES, b, placed(second, ib))


def row_maxima(source, at, spot, base, slices, line, tails, to, span, way, none):
    """Make a line of `tails`, from element `to` on: the maximum of each column over one row of every slice; or if
    ROWS_FIRST, the maximum of each window over the columns that it has in that row. Then `line` is overwritten.
    """


@by_types(row_maxima)
def _row_maxima(source, at, spot, base, slices, line, tails, to, span, way, none):
    def all_columns(source, at, spot, base, slices, line, tails, to, span, way, none):
        reduce_rows(source, at, spot, slices, tails, to, span, (way[COLUMN], way[PIXEL]), none, None)

    def rows_first(source, at, spot, base, slices, line, tails, to, span, way, none):
        if way[ROWS_FIRST]:
            row_of_windows(source, at, spot, base, slices, line, tails, to, span, way, none)
        else:
            reduce_rows(source, at, spot, slices, tails, to, span, (way[COLUMN], way[PIXEL]), none, None)

    return all_columns if isinstance(tails[1], types.NoneType) else rows_first


@helper
def row_of_windows(source, at, spot, base, slices, line, tails, to, span, way, none):
    """What `row_maxima` does if ROWS_FIRST."""
    size, E = way[ROOM] - MARGIN, way[COLUMN]
    # A column of padding before the row has the index of the first element of its window: it comes before all others,
    # so that it stays where no element is larger than the neutral one.
    for c in range(0, span[0], LANES):
        first = load(source[5], (base + way[BEFORE]) * E + c)
        keep(line[0], line[1], c, none, add(indices(spot - base, 0), first))
    reduce_rows(source, at, spot, slices, line, BEGIN, span, (E, way[PIXEL]), none, None)
    clear(line, span[0] + (span[1] - span[0] + LANES - 1) // LANES * LANES, size, none)
    pass_along(line, line[0], size, way[PASSED], way[APART], True, None)
    runs, run, apart = way[PIECE], E, way[STRIDE] * E  # of elements: one for each window, or at stride 1 one for all
    if way[STRIDE] == 1:
        runs, run = 1, way[PIECE] * E
    for o in range(runs):
        for c in range(o * apart, o * apart + run, LANES):
            a, ia = found_at(line[0], line[1], c)
            for i in range(1, way[TAKEN]):
                b, ib = found_at(line[0], line[1], c + i * way[HOP])
                a, ia = join_later(b, ib, a, ia, None)
            keep(tails[0], tails[1], to + c - o * (apart - E), a, ia)


def maxima_by_blocks(source, at, spot, base, held, state, line, tails, span, way, row, none, divisor):
    """Make a line of the maxima over rows [h0, h1) of every slice, out of the maxima that are kept (see the top).

    `tails` holds as many lines as a window has rows. First each is the maxima of one row. When a window begins behind
    the block, its rows are the next block: the line of each becomes the maxima from this row to the block's last one.
    One line more has the maxima over the rows behind the block, as far as they are known. Returns the new `state`: the
    first row behind the block, and the first row that is not known.
    """


@by_types(maxima_by_blocks)
def _maxima_by_blocks(source, at, spot, base, held, state, line, tails, span, way, row, none, divisor):
    if isinstance(divisor, types.NoneType):
        return by_blocks
    # An empty function: sums never come here.
    return lambda source, at, spot, base, held, state, line, tails, span, way, row, none, divisor: state


def by_blocks(source, at, spot, base, held, state, line, tails, span, way, row, none, divisor):
    h0, h1, slices = held
    behind, known = state
    size, keeps, hop, in_order, joins = way[ROOM], way[KEEPS], row * way[PIXEL], way[ROWS_FIRST] > 0, span
    if in_order:
        joins = 0, way[PIECE] * way[COLUMN]
    last, begins = keeps * size, h0 >= behind
    for h in range(max(known, h0), h1):
        to = h % keeps * size
        row_maxima(source, at + h * hop, spot + h * row, base, slices, line, tails, to, span, way, none)
        if not begins:
            join_lines(tails, to if h == behind else last, to, last, joins, in_order, divisor)
    if begins:
        behind = h1
        for h in range(h1 - 2, h0 - 1, -1):
            to = h % keeps * size
            join_lines(tails, to, (h + 1) % keeps * size, to, joins, in_order, divisor)
    for c in range(joins[0], joins[1], LANES):
        a, ia = found_at(tails[0], tails[1], h0 % keeps * size + c)
        if h1 > behind:
            b, ib = found_at(tails[0], tails[1], last + c)
            if in_order:
                a, ia = join_later(b, ib, a, ia, divisor)
            else:
                a, ia = join_parts(b, ib, a, ia, divisor)
        keep(line[0], line[1], c, a, ia)
    return behind, max(known, h1)


@helper
def take_windows(line, begin, end, to, out, apart, way, columns, taps, widths, shares, none, top):
    """Reduce the columns of a line to windows [begin, end) of a row. The results go to the arrays `to`, from element
    `out` on. If columns are 32 channels, the results of a window begin `apart` elements behind those of the one before.
    Returns the larger of `top` and all maxima, lane by lane.

    `columns` are a table, where in it the windows' first columns stand, and how many windows there are. `shares` are
    what `shared` returns.
    """
    (divisor, reciprocal), (g, starts, OW) = shares, columns
    values, places = line
    E, hop = way[COLUMN], way[HOP]
    at, two, taken, stride = 0, E > LANES, way[TAKEN], way[STRIDE]
    if way[ROWS_FIRST]:  # each element of the line is a window
        taken = stride = 1
    if way[ALIKE] and stride == 1:
        for j in range(0, (end - begin) * E, GROUP):
            a, ia = found_at(values, places, j)
            b, ib = found_at(values, places, j + LANES)
            at = j
            for _ in range(1, taken):
                at += hop
                v, iv = found_at(values, places, at)
                a, ia = join_parts(v, iv, a, ia, divisor)
                v, iv = found_at(values, places, at + LANES)
                b, ib = join_parts(v, iv, b, ib, divisor)
            width = second = splat(widths, 1)
            if divisor is None:
                top = greater(a, greater(b, top))
            elif divisor == 0:
                width, second = load(widths, begin * E + j), load(widths, begin * E + j + LANES)
            put_found(to[0], to[1], out, averaged(a, divisor, reciprocal, taps, width), ia)
            put_found(to[0], to[1], out + LANES, averaged(b, divisor, reciprocal, taps, second), ib)
            out += apart
        return top
    for o in range(begin, end):  # whole vectors are written; the next window overwrites what is too much
        if way[ALIKE] == 0:
            at = number(g, starts + o) * E
            taken = max(number(g, starts + OW + o) * E - at + hop - 1, 0) // hop
        width, i = splat(widths, number(g, starts + 2 * OW + o)), at
        a, b, ia, ib = none, none, nowhere_of(places), nowhere_of(places)
        for _ in range(taken):
            v, iv = found_at(values, places, i)
            a, ia = join_parts(v, iv, a, ia, divisor)
            if two:
                v, iv = found_at(values, places, i + LANES)
                b, ib = join_parts(v, iv, b, ib, divisor)
            i += hop
        if divisor is None:
            top = greater(a, greater(b, top))
        put_found(to[0], to[1], out, averaged(a, divisor, reciprocal, taps, width), ia)
        if two:
            put_found(to[0], to[1], out + LANES, averaged(b, divisor, reciprocal, taps, width), ib)
        at, out = at + stride * E, out + (apart if E == GROUP else E)
    return top


@inlined
def on_a_line(array):
    """The part of an array that begins with a cache line. To load a vector that lies on two lines takes twice as long.
    """
    return array[-misaligned(array, 0) % LANES :]


@inlined
def line_of(x, index, divisors, size):
    """Two arrays of `size` elements: for the numbers of a line, and for their indices (None if `index` is None)."""
    places = room_for_indices(index, size + LANES)
    return on_a_line(numbers(x, divisors, size + LANES)), places if index is None else on_a_line(places)


@helper
def room_for_lines(x, y, index, divisors, way, g):
    """The memory that `window_lines` works in: a line; a line of partial sums; the row maxima that are kept; results
    that gather; distances of rows, in elements and in columns, and the column of each element of a line; and for each
    element of a row of results the columns that its divisor counts.

    Behind the distances and the columns stands, for each element of a line that may be padding before a row, the first
    column of the row that is in the windows that hold it.
    """
    size, E = way[ROOM], way[COLUMN]
    results, tails, many = STAGE + way[PIECE] * E + GROUP, (way[KEEPS] + 1) * size if way[KEEPS] else 0, way[MOST_ROWS]
    columns = np.empty(size, np.int32)
    for i in range(size if index is not None else 0):
        columns[i] = i // E
    firsts = np.empty(way[BEFORE] * E + LANES if way[ROWS_FIRST] else 0, np.int32)
    for i in range(firsts.size):
        firsts[i] = (i // E - way[BEFORE]) % (way[APART] // E)
    own = divisors is not None and divisors[0] == 0 and way[STRIDE] == 1
    widths = np.ones(g[OUT_W] * E + GROUP if own else 0, np.int64)
    starts = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H]
    for i in range(g[OUT_W] * E if own else 0):
        widths[i] = g[starts + 2 * g[OUT_W] + i // E]
    second = size + LANES if way[PASSED] > 1 else LANES
    return (line_of(x, index, divisors, size), on_a_line(numbers(x, divisors, second)),
            line_of(x, index, divisors, tails),
            (np.empty(results, y.dtype), room_for_indices(index, results)),
            (np.empty(many, np.int64), np.empty(many, np.int64), columns, firsts), widths)


@inlined
def memories(pair):
    """The `memory` of both arrays of a pair: of numbers, and of their indices, which may be None."""
    return memory(pair[0]), memory(pair[1])


@helper
def line_rows(lo, hi, x, y, index, divisors, way, g, room):
    """The walk of `window_lines`, in memory that `room_for_lines` has made."""
    D, H, W, OD, OH, OW = g[DEPTH], g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H], g[OUT_W]
    E, pixel, pieces, piece, size = way[COLUMN], way[PIXEL], way[PIECES], way[PIECE], way[ROOM] - MARGIN
    line, parts, tails, widths = memories(room[0]), memory(room[1]), memories(room[2]), memory(room[5])
    results, (hops, column_hops, columns, firsts) = room[3], room[4]
    to, none, pad = memories(results), nothing(x, divisors), outside(x, divisors)
    source, top = (memory(x), memory(hops), memory(column_hops), memory(columns), pad, memory(firsts)), none
    shares, table = shared(divisors), (memory(g), HEADER + 3 * OD + 3 * OH, OW)
    divisor, _ = shares
    in_order = way[GROUPS] * pieces == 1  # whether results are made in the order of memory
    streaming, asking = streams(y, x, index) and pixel == E, asks(x, ASKED if pixel == 1 else ASKED_LATE)
    # Results of 32 channels are whole vectors, which go to `y` at once. Others gather, and are then moved.
    at_once, apart = E == GROUP and not streaming, pixel if E == GROUP else GROUP
    if at_once:
        to = memory(y), memory(index)
    share, far = D * H * W * pixel // (OD * OH), is_far(x, ROWS_BY_TURNS or pixel > 1)
    lead = lead_of(x, g, share, W * pixel, far)
    deep, high = np.int64(-1), np.int64(-1)
    gathered, done, row = 0, lo * OW * E, lo
    while row < hi:
        q, od, first = place_of(row, OD, OH)
        rows = min(hi - row, OH - first, way[TOGETHER])
        for part in range(way[GROUPS] * pieces):
            channel, begin = min(part // pieces * E, pixel - E), part % pieces * piece  # the last group reaches back
            end, base, state = min(begin + piece, OW), np.int64(0), (np.int64(-1), np.int64(0))
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
                padded = way[ROWS_FIRST] == 0 or span[0] == span[1]  # whether the line's margins are empty
                clear(line, 0, span[0] if padded else 0, none)
                if span[0] < span[1]:
                    tall = 1 if way[KEEPS] else h1 - h0
                    if d1 - d0 != deep or tall != high:
                        deep, high = d1 - d0, tall
                        list_hops(column_hops, BEGIN, deep, high, g)
                        for i in range(hops.size):
                            hops[i] = column_hops[i] * pixel
                    count = ((deep - 1) // g[STEP] + 1) * ((high - 1) // g[STEP + 1] + 1)
                    if way[KEEPS]:
                        state = maxima_by_blocks(source, at, spot, base, (h0, h1, count), state, line, tails, span,
                                                 way, W, none, divisor)
                    else:
                        reduce_rows(source, at + h0 * W * pixel, spot + h0 * W, count, line, BEGIN, span, (E, pixel),
                                    none, divisor)
                if padded:
                    clear(line, span[0] + (span[1] - span[0] + LANES - 1) // LANES * LANES, size, none)
                    if way[PASSED] > 1:
                        pass_along(line, parts, size, way[PASSED], way[APART], False, divisor)
                out = done if in_order else (((q * OD + od) * OH + oh) * OW + begin) * pixel + channel
                top = take_windows(line, begin, end, to, out if at_once else gathered, apart, way, table, taps, widths,
                                   shares, none, top)
                gathered += (end - begin) * E
                if at_once:
                    done, gathered = done + gathered, 0
                elif not in_order or gathered >= STAGE or (oh + 1 == first + rows and row + rows == hi):
                    flush(results[0], 0, gathered, y, out, streaming)
                    if index is not None:
                        flush(results[1], 0, gathered, index, out, streaming)
                    done, gathered = done + gathered, 0
        row += rows
    if streaming:
        fence()
    return infinite_lanes(top)


@worker
def window_lines(lo, hi, x, y, index, divisors, way, g):
    """Rows [lo, hi) of the output, counted through all planes or images, for any windows: see the top of this file."""
    return line_rows(lo, hi, x, y, index, divisors, way, g, room_for_lines(x, y, index, divisors, way, g))
