"""Windows picked out of the rows of planes, or of images of few channels, row by row: lanes are neighbours in a row."""

import numpy as np

from .._windows import HEIGHT, LANES_AT, MOST_H, MOST_W, OUT_D, OUT_H, STEP, TAPS, WIDTH
from ..simd import (
    LANES,
    at_least,
    at_most,
    convert,
    fence,
    greater,
    lanes_inside,
    load,
    memory,
    put,
    splat,
    store,
    store_some,
    twelve_indices,
)
from ._asking import ASKED, ROWS_BY_TURNS, ask, is_far
from ._compile import worker
from ._job import Call, Windows
from ._lanes import FIRST_TAPS, LANES_HEADER, by_rows, list_hops, picked, reduced_rows, rows_of, widths_of
from ._reductions import (
    averaged,
    held_by,
    lead_of,
    next_place,
    nothing,
    outside,
    place_of,
    put_nans,
    shared,
)
from ._staging import SOON, begins_line, flush, staged, stream_lines, streams


def plan(job: Windows) -> Call | None:
    """Windows of up to 5 columns; up to 9 or 16 where a column is one element (see `_lanes.by_rows`)."""
    lanes = job.ask(by_rows)
    if lanes is None:
        return None
    return job.call(window_rows, job.rows, (lanes.others,), (lanes.tables,), asks_from=ASKED)


@worker
def window_rows(lo, hi, x, y, index, divisors, others, asked, g):
    """Rows [lo, hi) of the output, counted through all planes, or through all images in channels-last memory.

    Two vectors hold 32 neighbouring elements of a row of the input. The rows of the windows are reduced downwards into
    these two vectors, and sixteen windows, or two times sixteen, are picked out of them. The table `g` says which lanes
    belong to a window (`RowLanes`). For a gradient of averages the table holds the inverse windows.

    Memory is asked for ahead, and large results are streamed, only if `asked` is not None. The walk is compiled with
    and without that: small arrays would take 1.1 times as long if it were an `if`.
    """
    H, W, OD, OH = g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H]
    E, P, wide, long = rows_of(g)
    t = g[LANES_AT]
    T, outputs, c0, advance, room = g[t], g[t + 2], g[t + 3], g[t + 4], g[t + 5]
    l0, l1, l2, l3, l4, k0, k1, k2, k3, k4, columns_a, columns_b = twelve_indices(g, t + LANES_HEADER)
    lanes, further = (l0, l1, l2, l3, l4), (k0, k1, k2, k3, k4)
    more = memory(others)
    second = at_least(T - FIRST_TAPS, 0) * LANES  # where `others` of the second sixteen outputs begin
    two = at_most(outputs, long) > LANES
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    top = none
    if divisors is not None:
        counts = widths_of(g, long if divisor == 0 else 0, E)
    streaming = past = False
    if asked is not None:
        streaming = streams(y, x, index)
        past = streaming and outputs == LANES and long % LANES == 0 and begins_line(y, index)
        streaming = streaming and not past
    stage, stage_index = y, index
    if streaming:
        stage = staged(y, SOON + 3 * LANES)
        if index is not None:
            stage_index = staged(index, SOON + 3 * LANES, True)
    gathered, done = 0, lo * long
    most = g[TAPS] // g[MOST_W] + 1
    hops = np.full(g[MOST_H] * most + 1, -1)  # from the first row of a window to each, for every height, and for none
    deep, dh = 0, g[STEP + 1]
    # Elements of the input that there are to a row of the output, and elements of a cache line.
    share, line = P // (OD * OH), 64 // x.itemsize
    far, source = is_far(x, ROWS_BY_TURNS), memory(x)
    per = -(-share * at_most(outputs, long) // long)
    lead = lead_of(x, g, share, wide, far)
    q, od, oh = place_of(lo, OD, OH)
    oh -= 1
    for row in range(lo, hi):
        q, od, oh = next_place(q, od, oh, OD, OH)
        d0, d1, h0, h1, taps = held_by(od, oh, g)
        first = g[MOST_H] * most
        if d0 < d1 and h0 < h1:
            if d1 - d0 != deep:
                deep, hops[:] = d1 - d0, -1
                for i in range(g[MOST_H]):
                    list_hops(hops, i * most, deep, i * dh + 1, g)
            first = (h1 - h0 - 1) // dh * most
        ahead = q * P + (od * OH + oh) * share + lead
        c, spot = c0, (d0 * H + h0) * W + c0 // E
        at, out = q * P + spot * E, row * long
        left = long
        while left > 0:
            if asked is not None:
                ask(source, ahead, ahead + per, line, far)
                ahead += per
            masks = lanes_inside(c, wide), lanes_inside(c + LANES, at_most(wide, c + LANES + room))
            pair = reduced_rows(x, (at, at + LANES), hops, first, E, masks, (columns_a, columns_b), (spot, spot),
                                index, pad, none, divisor)
            r, ri = picked(pair, lanes, more, 0, T, divisor)
            s, si = r, ri
            if two:
                s, si = picked(pair, further, more, second, T, divisor)
            if divisors is None:
                top = greater(r, greater(s, top))
            else:
                widths = splat(g, 1)
                if divisor == 0:
                    widths = load(counts, long - left)
                r = averaged(r, divisor, reciprocal, taps, widths)
                if two:
                    if divisor == 0:
                        widths = load(counts, long - left + LANES)
                    s = averaged(s, divisor, reciprocal, taps, widths)
            count = at_most(left, outputs)
            if streaming:
                store(stage, gathered, convert(y, r))
                store(stage, gathered + LANES, convert(y, s))
                if index is not None:
                    store(stage_index, gathered, ri)
                    store(stage_index, gathered + LANES, si)
                gathered += count
                if gathered >= SOON:
                    gathered, done = stream_lines(stage, stage_index, y, index, done, gathered)
            else:
                m = lanes_inside(0, count)
                put(y, out, convert(y, r), m, past)
                if index is not None:
                    put(index, out, ri, m, past)
                if two:
                    m = lanes_inside(LANES, count)
                    store_some(y, out + LANES, convert(y, s), m)
                    if index is not None:
                        store_some(index, out + LANES, si, m)
            left, out = left - outputs, out + outputs
            c, spot, at = c + advance, spot + advance // E, at + advance
    if streaming:
        flush(stage, 0, gathered, y, done, True)
        if index is not None:
            flush(stage_index, 0, gathered, index, done, True)
    if past or streaming:
        fence()
    put_nans(top, lo * long, hi * long, x, y, index, divisors, g, E)
    return 0
