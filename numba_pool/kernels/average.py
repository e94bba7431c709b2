"""Gradients of averages whose windows are far apart: sums over windows are spread along rows, and rows are copied."""


import numpy as np

from .._windows import (
    CHANNELS,
    DEPTH,
    HEADER,
    HEIGHT,
    LAST,
    MOST_W,
    OUT_D,
    OUT_H,
    OUT_W,
    WIDTH,
)
from ..simd import (
    LANES,
    add,
    convert,
    empty,
    fence,
    indices,
    lanes_inside,
    load,
    load_some,
    memory,
    pick,
    rearrange,
    splat,
    store,
)
from ._asking import ASKED, ROWS_BY_TURNS, ask, asks, is_far
from ._compile import helper, worker
from ._job import Call, Windows
from ._reductions import averaged, lead_of, next_place, place_of, shared
from ._staging import STAGE, flush, streams

FEW_COPIES = 3  # elements of a row to a window, from which on there are enough copies
FAR_ROWS = 4  # distance of windows in rows, from which on there are enough rows that are copies


def plan_far(job: Windows) -> Call | None:
    """Gradients of windows far apart, of planes or of up to 16 channels last: many rows and columns are copies of
    others. The kernel takes one vector of a pixel, so it must not be asked for more channels.
    """
    _, height, width = job.windows
    if not job.far or job.elements > LANES or 0 < height.stride < FAR_ROWS or any(axis.step > 1 for axis in job.axes):
        return None
    return job.call(spread_rows, job.rows) if width.size >= FEW_COPIES * width.n else None


LONG_ROW = 1 << 10  # elements of a row, from which on it is streamed by itself, not gathered with others


LISTED = 1 << 14  # elements of a row, up to which `lanes_of` lists the windows of each


@helper
def runs_of(g):
    """The columns that are in other windows than the column before; at the end the number of columns. From one to the
    next, all columns get the same gradient.
    """
    t, OW = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H], g[OUT_W]
    runs, n = np.empty(OW + 1, np.int64), 0
    for w in range(OW):
        if w == 0 or g[t + w] != g[t + w - 1] or g[t + OW + w] != g[t + OW + w - 1]:
            runs[n], n = w, n + 1
    runs[n] = OW
    return runs[: n + 1]


@helper
def lanes_of(g):
    """The windows that hold each element of a row, as lanes of two vectors. For sixteen elements there is a vector of
    their first windows, then a vector of their second windows, and so on. An element of fewer windows has the number of
    the last lane there, which holds 0.
    """
    t, OW = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H], g[OUT_W]
    most = g[MOST_W]
    lanes = np.full((OW + LANES - 1) // LANES * most * LANES, 2 * LANES - 1, np.int32)
    for w in range(OW):
        for o in range(g[t + w], g[t + OW + w]):
            lanes[(w // LANES * most + o - g[t + w]) * LANES + w % LANES] = o
    return lanes


@worker
def spread_rows(lo, hi, grad, gx, index, divisors, g):
    """Rows [lo, hi) of the gradient of an average, counted through all planes, or through all images in channels-last
    memory. Windows have no dilation, and all have the same divisor. The table `g` holds the inverse windows: for each
    row of the result, the range of upstream rows whose windows hold it.

    There is no `index`. The upstream rows of a row are summed into a buffer, and the buffer is spread along the row. If
    the next rows are in the same windows, they are copies of it.
    """
    H, E = g[HEIGHT], g[CHANNELS] if g[LAST] else 1  # rows of the upstream gradient; elements of a column
    W, OW = g[WIDTH] * E, g[OUT_W] * E  # elements of an upstream row, and of a row of the result
    OD, OH, columns = g[OUT_D], g[OUT_H], g[OUT_W]
    buffer = np.zeros(W + 2 * LANES, divisors.dtype)
    zero, none = splat(divisors, 0), splat(grad, 0)
    divisor, reciprocal = shared(divisors)
    streaming = streams(gx, grad, None)
    direct = not streaming or OW >= LONG_ROW
    stage, fresh = empty(gx, 0 if direct else STAGE + OW + LANES), empty(gx, OW + LANES)
    line = empty(divisors, OW + LANES)
    by_lanes = E == 1 and W < 2 * LANES and OW <= LISTED
    runs, lanes = np.empty(0, np.int64), np.empty(0, np.int32)
    if by_lanes:
        lanes = lanes_of(g)
    else:
        runs = runs_of(g)
    at_w = HEADER + 3 * OD + 3 * OH
    gathered, done = 0, lo * OW
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
            store(buffer, c, total)
        if by_lanes:
            a, b, at = load(buffer, 0), load(buffer, LANES), 0
            for w in range(0, OW, LANES):
                total = zero
                for _ in range(g[MOST_W]):
                    total = add(total, pick(a, b, load(lanes, at)))
                    at += LANES
                store(fresh, w, convert(gx, averaged(total, divisor, reciprocal, 1, zero)))
        else:
            for i in range(runs.size - 1):
                o0, o1 = g[at_w + runs[i]] * E, g[at_w + columns + runs[i]] * E
                total = zero
                for o in range(o0, o1, E):
                    total = add(total, load(buffer, o))
                if E == 1:
                    total = rearrange(total, indices(0, 0))
                # The last vector may reach too far, which the next column, or run of columns, overwrites.
                for w in range(runs[i] * E, runs[i + 1] * E, LANES if E == 1 else E):
                    store(line, w, total)
            for w in range(0, OW, LANES):
                store(fresh, w, convert(gx, averaged(load(line, w), divisor, reciprocal, 1, zero)))
        rows = 1  # rows that are in the same windows
        while row + rows < hi and oh + rows < OH:
            t = HEADER + 3 * OD + oh + rows
            if g[t] != h0 or g[t + OH] != h1:
                break
            rows += 1
        row, oh = row + rows, oh + rows - 1
        for _ in range(rows):
            if direct:
                flush(fresh, 0, OW, gx, done, streaming)
                done += OW
                continue
            for w in range(0, OW, LANES):
                store(stage, gathered + w, load(fresh, w))
            gathered += OW
            if gathered >= STAGE:
                flush(stage, 0, gathered, gx, done, True)
                gathered, done = 0, done + gathered
    if streaming:
        flush(stage, 0, gathered, gx, done, True)
        fence()
    return 0
