"""Maxima with indices over windows of few rows. In each row of the input the maxima of all windows' parts are picked
once, and passed on downwards, in registers, to all windows that the row is in.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._windows import BEFORE, DEPTH, HEADER, HEIGHT, LANES_AT, OUT_D, OUT_H, STRIDE, VECTOR, WIDTH, Axis, Ints
from ..simd import (
    LANES,
    PAGE,
    at_least,
    at_most,
    columns_from,
    convert,
    fence,
    first_maxima,
    first_of_rows,
    greater,
    infinite_lanes,
    lanes_inside,
    load_indices,
    memory,
    passed_on,
    store_some,
)
from ._asking import AHEAD, ASKED, ask, ask_near
from ._compile import worker
from ._job import FLOAT32, Call, Windows
from ._lanes import RowLanes, by_rows, rows_of
from ._reductions import (
    next_place,
    nothing,
    outside,
    place_of,
)
from ._staging import SOON, STAGE, flush, staged, stream_lines, streams

# At most: rows of a window; rows of a window that the window above does not have; elements of a row of results, at
# stride 1 and else.
FEW_ROWS, FRESH_ROWS, LONG_ROW, LONGER_ROW = 9, 3, 1 << 12, 1 << 13
IN_LINES = 16 << 20  # bytes of a result, from which on `window_steps` streams its whole cache lines as they come


def plan(job: Windows) -> Call | None:
    """Maxima with indices over windows that can be picked out of rows (`_lanes.by_rows`), under five conditions:

    - windows have at most nine rows: of more, too many maxima are passed on for the registers;
    - at most three of these are not in the window above as well: else there is little to pass on;
    - `steps` does not take two short rows at a time; or two rows of windows fit into a vector here as well; or each row
      of the input is in three windows or more;
    - rows are not very long: those of many thousand columns had better come one by one, as in `steps`;
    - each window holds a row: of rows that there are not, the nearest is taken instead.
    """
    lanes = job.ask(by_rows) if job.indexed else None
    if lanes is None or goes_by_lines(job, lanes):
        return None
    depth, height, width = job.axes
    several = paired(job.axes, lanes, job.elements)
    if not (1 <= height.kernel <= FEW_ROWS and height.stride >= 1 and min(height.kernel, height.stride) <= FRESH_ROWS
            and height.step == 1 == depth.longest and not depth.is_empty and not height.is_empty
            and (lanes.together == 1 or max(several) > 1 or height.kernel >= 3 * height.stride)
            and len(width.start) * job.elements <= (LONG_ROW if height.stride == 1 else LONGER_ROW)):
        return None
    units = -(-job.images // several[1]) if several[1] > 1 else job.rows
    extra = tuple(strips(job.axes, lanes, job.elements))
    # Two results, values and indices, take more of the caches than one: so memory is asked for earlier.
    return job.call(window_strips, units, extra, (lanes.tables,), asks_from=ASKED * 2 // 3)


def goes_by_lines(job: Windows, lanes: RowLanes) -> bool:
    """Whether results come as whole cache lines, and are so large that `window_steps` streams them as they come. It is
    the faster then: 2x2/2 of (16, 64, 224, 224) takes 0.92 to 0.97 of the time with two threads.
    """
    row = len(job.axes[2].start) * job.elements
    large = job.images * job.outputs * job.elements * FLOAT32 >= IN_LINES
    return large and lanes.outputs == LANES and row % LANES == 0


class Strips(NamedTuple):
    """The arguments of `window_strips`. It is compiled for the lengths of the tuples, and `table` says how it picks
    windows out of a row.
    """

    above: Ints  # rows of a window that are in the window above as well
    below: Ints  # its other rows
    halves: Ints  # where the vectors of windows of a step begin: one vector or two
    picks: Ints  # one entry for each tap along a row, of each of these vectors
    rows: Ints  # rows of windows to a step, one or two; if two, each has a vector of the input
    planes: Ints  # planes, or images, to a step: the same
    table: NDArray[np.int32]  # for each pick sixteen lanes of the two vectors, then for each pick the lanes' columns


def paired(axes: tuple[Axis, Axis, Axis], lanes: RowLanes, channels: int) -> tuple[int, int]:
    """How many (rows of windows, planes) `window_strips` walks together. Where two rows of windows fit into a vector,
    these are two rows of the same plane, if windows share no row and nothing clips them; else two planes.
    """
    _, height, width = axes
    if lanes.together == 1 or 2 * len(width.start) * channels > VECTOR:
        return 1, 1
    inside = all((axis.stop - axis.start == axis.kernel).all() for axis in (height, width))
    return (2, 1) if inside and height.kernel <= height.stride else (1, 2)


def strips(axes: tuple[Axis, Axis, Axis], lanes: RowLanes, channels: int) -> Strips:
    """The arguments of `window_strips`, for windows at a constant stride along rows, without dilation."""
    _, height, width = axes
    above = max(height.kernel - height.stride, 0)
    halves = 1 if min(lanes.outputs, len(width.start) * channels) <= VECTOR else 2
    taps = lanes.lanes[:, : lanes.taps]
    if lanes.others is not None:
        taps = np.append(taps, lanes.others.astype(np.int64).reshape(2, -1, VECTOR), axis=1)
    taps = taps[:halves]
    rows, planes = paired(axes, lanes, channels)
    places = lanes.columns
    if rows * planes == 2:
        places = np.append(places[:VECTOR], places[:VECTOR] + (rows - 1) * height.stride * width.size)
    table = np.stack((taps, places[taps])).astype(np.int32).ravel()
    return Strips(tuple(range(above)), tuple(range(above, height.kernel)), tuple(range(0, halves * VECTOR, VECTOR)),
                  tuple(range(halves * lanes.taps)), tuple(range(rows)), tuple(range(planes)), table)


# Memory is asked for in its own order, not strip by strip, where two rows of the input fit into a page (`SHORT` bytes),
# and where two rows or planes are walked together. On two cores of a Zen 4, 3x3/2 of 112x112 planes takes 0.75 of the
# time by that; rows of 1,000 columns and more would take 1.1 to 1.4 times as long. Blocks are small then: `STRIP_BYTES`
# of input, so that a block, the next one, and the results stay in the first cache of 32 KiB; but at least eight rows,
# since a block reads again the rows that it shares with the block above.
SHORT, STRIP_BYTES = PAGE // 2, 1 << 13


@worker
def window_strips(lo, hi, x, y, index, divisors, above, below, halves, picks, rows, planes, table, asked, g):
    """Rows [lo, hi) of the output, counted through all planes: maxima and their indices, for windows of few rows.

    The output is walked in blocks of rows, and a block in strips: as many columns as two vectors hold, from top to
    bottom. In each row of the input the maxima of the windows' parts are picked once. They stay in registers for all
    windows that the row is in. A window is the maximum over what its rows have. Along a row and downwards, a later
    element wins only if it is greater, so that the first of equal elements remains.

    `strips` makes the tuples. The walk is compiled to straight code for their lengths, in 0.7 s for every other kind of
    window. Where two rows of windows fit into a vector, two rows or two planes (images) are walked together, each with
    a vector of the input (see `paired`). If these are two planes, units [lo, hi) are pairs of planes.
    """
    H, W, OD, OH = g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H]
    E, P, wide, long = rows_of(g)
    t = g[LANES_AT]
    outputs, c0, advance, S = g[t + 2], g[t + 3], g[t + 4], g[STRIDE + 1]
    # Elements from the first vector of the input to the second, and the same for the output.
    apart, second, two = LANES, LANES, len(halves) > 1
    if len(rows) == 2:
        apart = S * wide
    if len(planes) == 2:
        apart, second, two = P, (OD * OH - 1) * long, True
        lo, hi = lo * OD * OH, hi * OD * OH
    pad, top, source = outside(x, divisors), nothing(x, divisors), memory(x)
    lanes, columns_0 = load_indices(table, 0, picks), load_indices(table, len(picks) * LANES, picks)
    # A block reads again the rows that its first windows share with the block above: so it is tall where windows share
    # many rows. A block also waits in the stage before it is streamed: so it is low where they share few.
    few = STAGE if asked is not None and len(above) < 2 * S else 8 * STAGE
    block, share = at_least(at_most(few // long, 16), 2), at_least(len(planes) * P // (OD * OH), 1)
    line, in_order = 64 // x.itemsize, len(rows) + len(planes) > 2 or wide * x.itemsize <= SHORT
    # Memory for the next block is asked for in the order in which it will be read, or `in_order` of the memory: at each
    # row of a strip so many `pieces` of `piece` elements, which are `pitch` elements apart.
    pieces, piece, pitch, lead = len(below), 2 * LANES, wide, at_least(block * S * wide, AHEAD)
    skipped = (S - len(below)) * wide  # between windows
    if in_order:
        block = at_most(block, at_least(STRIP_BYTES // (share * x.itemsize), 8))
        block -= block % len(rows)
        pieces, skipped = 1, 0
        piece = pitch = -(-share * len(rows) * at_most(outputs, long) // long)
        lead = (block + 1) * share + len(above) * wide
    streaming = False
    if asked is not None:
        streaming = streams(y, x, index) and len(planes) == 1  # else results are not written in order
    stage, stage_index = y[:0], index[:0]
    target, target_index = memory(y), memory(index)
    if streaming:
        size = SOON + block * long + LANES
        stage, stage_index = staged(y, size), staged(index, size, True)
        target, target_index = memory(stage), memory(stage_index)  # kept alive by `flush` below
    gathered, done = 0, lo * long
    q, od, oh = place_of(lo, OD, OH)
    row = lo
    while row < hi:
        high, first = at_most(at_most(hi - row, OH - oh), block), q * len(planes)
        c, position, soon = c0, 0, first * P + (od * OH + oh) * share + lead
        origin, spot = (first * g[DEPTH] + g[HEADER + od]) * H * wide, g[HEADER + od] * H * W
        begin = ((first * OD + od) * OH + oh) * long
        while position < long:
            count = at_most(outputs, long - position)
            ma, mb = lanes_inside(c, wide), lanes_inside(c + LANES, wide)
            m, n = lanes_inside(0, count), lanes_inside(LANES, count)
            if len(rows) == 2:
                mb, m = ma, lanes_inside(0, 2 * long)
            if len(planes) == 2:
                both = (first + 2) * P <= x.size
                mb, n = lanes_inside(c, wide if both else 0), lanes_inside(-long, long if both else 0)
            columns = columns_from(c // E, columns_0)
            at, h = origin + c, oh * S - g[BEFORE + 1]
            out = (gathered if streaming else begin) + position
            if not in_order:
                soon = at + (h + len(above)) * wide + lead
            passed = first_maxima(source, at, apart, spot, h, above, H - 1, wide, W, ma, mb, halves, lanes, columns,
                                  pad)
            for i in range(0, high, len(rows)):
                if len(rows) == 2 and i + 1 == high:  # one row is left
                    mb, m = lanes_inside(c, 0), lanes_inside(0, long)
                fresh = first_maxima(source, at, apart, spot, h + len(above), below, H - 1, wide, W, ma, mb, halves,
                                     lanes, columns, pad)
                found = first_of_rows(passed, fresh, halves, pad)
                passed = passed_on(passed, fresh)
                if asked is not None:  # between loads and stores: loads would wait for what is asked for before them
                    for _ in range(pieces):
                        if streaming:
                            ask(source, soon, soon + piece, line, False)
                        else:  # from the second cache it would take 1.05 times as long
                            ask_near(source, soon, soon + piece, line)
                        soon += pitch
                    soon += skipped
                top = greater(found[0], top)
                store_some(target, out, convert(y, found[0]), m)
                store_some(target_index, out, found[1], m)
                if two:
                    top = greater(found[-2], top)
                    store_some(target, out + second, convert(y, found[-2]), n)
                    store_some(target_index, out + second, found[-1], n)
                h, out = h + len(rows) * S, out + len(rows) * long
            position, c = position + outputs, c + advance
        row += high
        q, od, oh = next_place(q, od, oh + high - 1, OD, OH)
        if streaming:
            gathered += high * long
            if gathered >= SOON:
                gathered, done = stream_lines(stage, stage_index, y, index, done, gathered)
    if streaming:
        flush(stage, 0, gathered, y, done, True)
        flush(stage_index, 0, gathered, index, done, True)
        fence()
    return infinite_lanes(top)
