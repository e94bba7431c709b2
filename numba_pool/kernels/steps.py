"""Windows picked out of the rows of small planes, or of images of few channels, by a list of steps.

A step loads two vectors of the input for each row of a window, reduces these downwards, and picks up to 32 windows out
of the result. Python lists all steps of a plane beforehand, so that the walk does nothing but follow the list.
"""

import numpy as np
from numpy.typing import NDArray

from .._windows import LANES_AT, OUT_D, OUT_H, VECTOR, Axis
from ..simd import (
    LANES,
    at_least,
    at_most,
    convert,
    fence,
    greater,
    load,
    mask_of,
    memory,
    splat,
    store_some,
    twelve_indices,
)
from ._asking import ASKED, ROWS_BY_TURNS, ahead_of, ask, is_far
from ._compile import worker
from ._job import Call, Windows
from ._lanes import (
    FEW,
    FIRST_TAPS,
    LANES_HEADER,
    RowLanes,
    by_rows,
    goes_by_lines,
    picked,
    reduced_rows,
    rows_of,
    widths_of,
)
from ._reductions import (
    averaged,
    nothing,
    outside,
    put_nans,
    shared,
)
from ._staging import SOON, flush, staged, stream_lines, streams

MOST_PLANE_STEPS = 1024  # steps of a plane, at most: the list takes 80 bytes for each


def plan(job: Windows) -> Call | None:
    """Windows that `rows` could serve as well, where there are at least eight planes or images, and these are not too
    large to list all steps of one.
    """
    lanes = job.ask(by_rows)
    if lanes is None or job.images < FEW or goes_by_lines(job):
        return None
    depth, height, width = (len(axis.start) for axis in job.axes)
    if depth * height * -(-width * job.elements // lanes.outputs) // lanes.together > MOST_PLANE_STEPS:
        return None
    extra = lanes.others, row_steps(job.axes, lanes, job.elements)
    return job.call(window_steps, job.images, extra, (lanes.tables,), asks_from=ASKED)


# The numbers of a step.
# COLUMN_A, COLUMN_B: the columns at which its two vectors begin, counted from the beginning of a plane.
# HOPS: where its list of hops stands. PLACE_A, PLACE_B: where its two vectors of results go.
# MASKS: the bits of four masks, for the lanes of both vectors and of both vectors of results.
# ROWS_TAPS: what the rows of its windows contribute to a divisor. AT_A, AT_B: the elements at which its vectors begin.
# POSITION: which element of a row of results is its first.
COLUMN_A, COLUMN_B, HOPS, PLACE_A, PLACE_B, MASKS, ROWS_TAPS, AT_A, AT_B, POSITION = range(10)


STEP_SIZE = 10


FEW_STEPS = 8  # a walk over fewer steps is not worth its start: small planes are listed several at a time


def row_steps(axes: tuple[Axis, Axis, Axis], lanes: RowLanes, channels: int) -> NDArray[np.int64]:
    """The list of all steps of a plane, or of an image of `channels` channels, row by row. A step makes as many outputs
    of a row as two vectors hold; or it makes two short rows, if their windows have as many rows of the input.

    The list begins with four numbers: how many planes are walked as a group; where the steps of a single plane begin;
    where the steps of a group begin, and where they end. Then come the hops: for each extent of a window the distances
    from its first row to each of its rows, in columns, with -1 at the end. (A loop that ends at -1 is not unrolled by
    LLVM, which would not pay for so few rows.) Then come the steps.
    """
    depth, height, width = axes
    row, long = width.size * channels, len(width.start) * channels
    pairs, outputs = lanes.together == 2, lanes.outputs
    apart = pairs and 2 * long > VECTOR  # each row of a pair has a vector of outputs of its own
    extents = [(max(int(d1 - d0), 0), max(int(h1 - h0), 0), int(d0 * height.size + h0) * width.size, int(nd * nh))
               for d0, d1, nd in zip(depth.start, depth.stop, depth.width)
               for h0, h1, nh in zip(height.start, height.stop, height.width)]
    rows, plane, numbers = len(extents), depth.size * height.size * row, [0, 0, 0, 0]
    listed: dict[tuple[int, int], int] = {}
    for deep, high, *_ in extents:
        if (deep, high) not in listed:
            listed[deep, high] = len(numbers)
            numbers += [(d * height.size + h) * width.size for d in range(0, deep, depth.step)
                        for h in range(0, high, height.step)]
            numbers.append(-1)

    def inside(first: int, stop: int) -> int:
        """The mask of the lanes i with 0 <= first + i < stop."""
        return ((1 << min(max(stop - first, 0), VECTOR)) - 1) & ~((1 << min(max(-first, 0), VECTOR)) - 1)

    def write(planes: int) -> None:
        paired: set[int] = set()
        for i in range(planes * rows):
            if i in paired:
                continue
            deep, high, spot, taps = extents[i % rows]
            for position in range(0, long, long if pairs else outputs):
                c = int(lanes.first + position // outputs * lanes.advance)
                a = b = spot + c // channels
                at_a = i // rows * plane + a * channels
                at_b, c_b = (at_a, c) if pairs else (at_a + VECTOR, c + VECTOR)
                count = long if pairs else min(outputs, long - position)
                out, second = i * long + position, count - VECTOR
                out_b = out + VECTOR
                for j in range(i + 1, min(i + (4 if apart else 2), planes * rows)) if pairs else ():
                    other_deep, other_high, other, other_taps = extents[j % rows]
                    if j not in paired and (other_deep, other_high, other_taps) == (deep, high, taps):
                        paired.add(j)
                        b = other + c // channels
                        at_b = j // rows * plane + b * channels
                        if apart:
                            out_b, second = j * long, long
                        else:
                            count = 2 * long
                        break
                masks = (inside(c, row) | inside(c_b, min(row, c_b + lanes.room)) << VECTOR
                         | inside(0, count) << 2 * VECTOR | inside(0, second) << 3 * VECTOR)
                numbers.extend((a, b, listed[deep, high], out, out_b, masks - (masks >> 63 << 64), taps, at_a, at_b,
                                position))

    alone = len(numbers)
    write(1)
    steps = (len(numbers) - alone) // STEP_SIZE
    group = 2 if pairs and rows % 2 else 1  # or half a step would be idle
    while group * steps < FEW_STEPS:
        group *= 2
    begin = alone
    if group > 1:
        begin = len(numbers)
        write(group)
    numbers[:4] = group, alone, begin, len(numbers)
    return np.array(numbers, np.int64)


@worker
def window_steps(lo, hi, x, y, index, divisors, others, steps, asked, g):
    """Planes or images [lo, hi). `steps` is the list that `row_steps` makes, `others` the lanes of windows of more than
    five columns. Memory is asked for ahead, and large results are streamed, only if `asked` is not None.
    """
    OD, OH = g[OUT_D], g[OUT_H]
    E, P, _, long = rows_of(g)
    O = OD * OH * long
    t = g[LANES_AT]
    T, together, outputs = g[t], g[t + 1], g[t + 2]
    l0, l1, l2, l3, l4, k0, k1, k2, k3, k4, columns_a, columns_b = twelve_indices(g, t + LANES_HEADER)
    lanes, further = (l0, l1, l2, l3, l4), (k0, k1, k2, k3, k4)
    more = memory(others)
    second = at_least(T - FIRST_TAPS, 0) * LANES  # where `others` of the second sixteen outputs begin
    two = at_most(long, outputs) > LANES if together == 1 else 2 * long > LANES
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    top = none
    if together != 1:
        columns_b = columns_a
    group, alone, begin, end = steps[0], steps[1], steps[2], steps[3]
    if divisors is not None:
        widths = widths_of(g, long if divisor == 0 else 0, E)
        if together == 2:  # of two rows, in the lanes where their outputs are
            for i in range(long, 2 * LANES):
                widths[i] = widths[i % (LANES if two else long)]
    line = 64 // x.itemsize
    per = -(-group * P * STEP_SIZE // (end - begin))
    far, source = is_far(x, ROWS_BY_TURNS), memory(x)
    # What is streamed gathers in a stage, whose first element is y[base]; rows in pairs are not written in order.
    streaming = False
    if asked is not None:
        streaming = together == 1 and streams(y, x, index)
    size = SOON + 3 * LANES
    target, target_index, base = y, index, 0
    if streaming:
        target, base = staged(y, size), lo * O
        if index is not None:
            target_index = staged(index, size, True)
    plane = lo
    while plane < hi:
        q, step, last_step = plane, begin, end
        plane += group
        if plane > hi:
            plane, step, last_step = q + 1, alone, begin
        ahead, origin = q * P + ahead_of(x, far), q * O - base
        while step < last_step:
            i, step = np.uintp(step), step + STEP_SIZE
            if asked is not None:
                ask(source, ahead, ahead + per, line, far)
                ahead += per
                gathered = origin + steps[i + np.uintp(PLACE_A)]
                if streaming and gathered >= SOON:
                    origin += base
                    _, base = stream_lines(target, target_index, y, index, base, gathered)
                    origin -= base
            spots = steps[i + np.uintp(COLUMN_A)], steps[i + np.uintp(COLUMN_B)]
            at = q * P + steps[i + np.uintp(AT_A)], q * P + steps[i + np.uintp(AT_B)]
            out, bits = origin + steps[i + np.uintp(PLACE_A)], steps[i + np.uintp(MASKS)]
            masks, m = (mask_of(bits), mask_of(bits >> LANES)), mask_of(bits >> 2 * LANES)
            pair = reduced_rows(x, at, steps, steps[i + np.uintp(HOPS)], E, masks, (columns_a, columns_b), spots, index,
                                pad, none, divisor)
            r, ri = picked(pair, lanes, more, 0, T, divisor)
            if index is not None:
                store_some(target_index, out, ri, m)
            if divisors is None:
                top = greater(r, top)
            else:
                taps, width, width_s = 1, splat(g, 1), splat(g, 1)
                if divisor == 0:
                    taps, position = steps[i + np.uintp(ROWS_TAPS)], steps[i + np.uintp(POSITION)]
                    width, width_s = load(widths, position), load(widths, position + LANES)
                r = averaged(r, divisor, reciprocal, taps, width)
            store_some(target, out, convert(y, r), m)
            if two:
                m, out = mask_of(bits >> 3 * LANES), origin + steps[i + np.uintp(PLACE_B)]
                r, ri = picked(pair, further, more, second, T, divisor)
                if index is not None:
                    store_some(target_index, out, ri, m)
                if divisors is None:
                    top = greater(r, top)
                else:
                    r = averaged(r, divisor, reciprocal, taps, width_s)
                store_some(target, out, convert(y, r), m)
    if streaming:
        flush(target, 0, hi * O - base, y, base, True)
        if index is not None:
            flush(target_index, 0, hi * O - base, index, base, True)
        fence()
    put_nans(top, lo * O, hi * O, x, y, index, divisors, g, E)
    return 0
