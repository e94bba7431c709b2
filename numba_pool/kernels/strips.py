"""Windows of few rows with indices: picked along each row of the input once, and passed on downwards in registers."""

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
    lanes_inside,
    load_indices,
    memory,
    passed_on,
    store_some,
)
from ._asking import AHEAD, ASKED, ask, ask_near
from ._compile import worker
from ._job import Call, Windows
from ._lanes import RowLanes, by_rows, goes_by_lines, rows_of
from ._reductions import (
    next_place,
    nothing,
    outside,
    place_of,
    put_nans,
)
from ._staging import SOON, STAGE, flush, staged, stream_lines, streams

# Rows of windows with indices, those of them that none above has, and elements of a result's row where all rows are in
# several windows, and else.
FEW_ROWS, FRESH_ROWS, LONG_ROW, LONGER_ROW = 9, 3, 1 << 12, 1 << 13


def plan(job: Windows) -> Call | None:
    """Windows of a few rows with indices, picked out of rows, whose maxima are passed on downwards.

    Of these up to three rows are in no window above. Of short rows `window_steps` takes two of any plane at a time.
    Where each fills more than half a vector, this is the faster only if rows are in three windows or more: of 9 to 14
    columns 3x3/1 takes 0.47 to 0.9 of the time, 2x2/1 up to 2. Of more than nine rows, too many maxima are passed on
    for registers: 13x3/1 would take 1.8 times as long; and where rows are not shared, few of them make few picks:
    5x5/5 would take 1.2 times. The longest rows had better come one by one: 9x9/1 of 3800 columns would take 1.2 times,
    3x3/2 of 90,000 1.24 times; 3x3/1 of 1080x1920 takes 0.8.
    """
    lanes = job.ask(by_rows) if job.indexed else None
    if lanes is None or goes_by_lines(job):
        return None
    depth, height, width = job.axes
    several = paired(job.axes, lanes, job.elements)
    if not (1 <= height.kernel <= FEW_ROWS and height.stride >= 1 and min(height.kernel, height.stride) <= FRESH_ROWS
            and height.step == 1 == depth.longest and bool((depth.start < depth.stop).all())
            and (lanes.together == 1 or max(several) > 1 or height.kernel >= 3 * height.stride)
            and len(width.start) * job.elements <= (LONG_ROW if height.stride == 1 else LONGER_ROW)):
        return None
    units = -(-job.images // several[1]) if several[1] > 1 else job.rows
    extra = tuple(strips(job.axes, lanes, job.elements))
    # Two results take more of the caches than one: 3x3/2 of 9 MiB with indices would take 1.05 to 1.15 times as long
    # without asking.
    return job.call(window_strips, units, extra, (lanes.tables,), asks_from=ASKED * 2 // 3)


class Strips(NamedTuple):
    """What `window_strips` compiles its code for, by the lengths of tuples, and how it picks windows out of a row."""

    above: Ints  # rows of a window that the one above it has passed on
    below: Ints  # its other rows
    halves: Ints  # where the vectors of windows of a step begin, one or two
    picks: Ints  # the taps along a row of each of these
    rows: Ints  # of windows to a step, one or two; then each has a vector of the input
    planes: Ints  # the same of planes, or images
    table: NDArray[np.int32]  # VECTOR each: lanes of all picks in two vectors, then the places there


def paired(axes: tuple[Axis, Axis, Axis], lanes: RowLanes, channels: int) -> tuple[int, int]:
    """How many (rows of windows, planes) `window_strips` walks at a time: two of one of these where the windows of two
    rows fit into a vector, rows of those that share none and lie within the plane.
    """
    _, height, width = axes
    if lanes.together == 1 or 2 * len(width.start) * channels > VECTOR:
        return 1, 1
    inside = all((axis.stop - axis.start == axis.kernel).all() for axis in (height, width))
    return (2, 1) if inside and height.kernel <= height.stride else (1, 2)


def strips(axes: tuple[Axis, Axis, Axis], lanes: RowLanes, channels: int) -> Strips:
    """For windows whose rows are uniform, without dilation, and columns lie in these lanes."""
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


# Pairs ask in the order of the memory, and so do all whose rows fit twice into a page: on two cores of a Zen 4 3x3/2 of
# 112x112 planes takes 0.75 of the time, of 55x55 0.7, 2x2/2 of 112x112 0.7; on a Xeon 3x3/2 of 224x224 0.8, of 112x112
# 0.88, 3x3/1 0.9; of rows of 1,000 columns and more it would take 1.1 to 1.4. Blocks are as small then as lets what is
# read for one and for the next, and what is written, stay in the first cache, of 32 KiB there, but of eight rows at
# least, since each reads again what it shares with the one above: 3x3/2 of 101x103 takes 0.8 of the time for it.
SHORT, STRIP_BYTES = PAGE // 2, 1 << 13


@worker
def window_strips(lo, hi, x, y, index, divisors, above, below, halves, picks, rows, planes, table, asked, g):
    """Rows [lo, hi) of the output as by `window_rows`, a maximum and its index, for windows of few rows of planes.

    A block of rows is walked in strips of as many columns as two vectors hold, from top to bottom. The maxima along
    each row of the input are picked once, and passed on in registers to all windows that the row is in; then rows are
    compared. In both the first of equals is the one that nothing later is greater than. `geometry.strips` makes the
    tuples, for whose lengths this is compiled to straight code, in 0.7 s more for every other kind of window.

    Where the windows of two rows fit into a vector, two rows are walked at a time, each of which has a vector of the
    input; or two planes (images), where windows share rows or reach beyond: then units [lo, hi) are pairs of planes.

    Nanoseconds per output, one thread, here and by `window_rows` or `window_steps`: 2x2/2 of 56x56 0.41 and 0.55, 3x3/1
    of 28x28 0.28 and 0.5, 3x3/2 of 112x112 0.49 and 0.75, 5x5/2 of 57x57 0.76 and 1.25; in pairs 2x2/2 of 14x14 0.56
    and 0.68, 3x3/2 of 13x13 0.8 and 1.05, 3x3/1 of 8x8 0.4 and, one by one, 0.7.
    """
    H, W, OD, OH = g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H]
    E, P, wide, long = rows_of(g)
    t = g[LANES_AT]
    outputs, c0, advance, S = g[t + 2], g[t + 3], g[t + 4], g[STRIDE + 1]
    # From the first vector of the input to the second, and of the output, where there are two.
    apart, second, two = LANES, LANES, len(halves) > 1
    if len(rows) == 2:
        apart = S * wide
    if len(planes) == 2:
        apart, second, two = P, (OD * OH - 1) * long, True
        lo, hi = lo * OD * OH, hi * OD * OH
    pad, top, source = outside(x, divisors), nothing(x, divisors), memory(x)
    lanes, columns_0 = load_indices(table, 0, picks), load_indices(table, len(picks) * LANES, picks)
    # Each block meets once more the rows that its first windows share with those above, and streams from a stage: of
    # 960 columns 5x5/1 takes half the time in blocks of sixteen rows, and 0.65 from memory, but 3x3/3 of 1920 from
    # there 1.2 times as long.
    few = STAGE if asked is not None and len(above) < 2 * S else 8 * STAGE
    block, share = at_least(at_most(few // long, 16), 2), at_least(len(planes) * P // (OD * OH), 1)
    line, in_order = 64 // x.itemsize, len(rows) + len(planes) > 2 or wide * x.itemsize <= SHORT
    # What the next block reads is asked for as it will be read, or in order: so many pieces at each row of a strip.
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
                if len(rows) == 2 and i + 1 == high:  # one is left
                    mb, m = lanes_inside(c, 0), lanes_inside(0, long)
                fresh = first_maxima(source, at, apart, spot, h + len(above), below, H - 1, wide, W, ma, mb, halves,
                                     lanes, columns, pad)
                found = first_of_rows(passed, fresh, halves, pad)
                passed = passed_on(passed, fresh)
                if asked is not None:  # between loads and stores: before the loads 3x3/2 takes up to 1.2 times as long
                    for _ in range(pieces):
                        if streaming:
                            ask(source, soon, soon + piece, line, False)
                        else:  # 1.05 times as long from the second cache
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
    # The last pair may be one plane.
    put_nans(top, lo * len(planes) * long, at_most(hi * len(planes) * long, y.size), x, y, index, divisors, g, E)
    return 0
