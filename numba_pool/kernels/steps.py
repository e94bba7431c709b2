"""Windows picked out of the rows of planes, or of images of few channels, by a list of steps.

A step loads two vectors of the input for each row of a window, reduces these downwards, and picks up to 32 windows out
of the result. Python lists all steps beforehand, so that the walk does nothing but follow the list.

A list is for a *tile* of the output: a small plane, or several; or some rows of a larger plane; or a piece of a long
row. Tiles whose windows hold the same share a list.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._windows import LANES_AT, OUT_D, OUT_H, SHORT, VECTOR, Axis, Ints
from ..simd import (
    LANES,
    at_least,
    at_most,
    convert,
    fence,
    greater,
    infinite_lanes,
    load,
    mask_of,
    memory,
    put,
    splat,
    store_some,
    twelve_indices,
)
from ._asking import ASKED, ROWS_BY_TURNS, ask, is_far
from ._compile import inlined, worker
from ._job import Axes, Call, Windows
from ._lanes import FEW, FIRST_TAPS, LANES_HEADER, RowLanes, by_rows, picked, reduced_rows, rows_of, widths_of
from ._reductions import averaged, lead_of, nothing, outside, shared
from ._staging import SOON, begins_line, flush, staged, stream_lines, streams

MOST_PLANE_STEPS = 1024  # steps of a plane that is one tile, at most: the list takes 80 bytes for each
MOST_TILE_STEPS = 256  # steps of any other tile, at most, unless there were more than MOST_TILES, which Python looks at
MOST_TILES, LONGEST_LIST = 1 << 12, 1 << 16  # a list has at most so many steps, whatever the number of tiles
# Rows of windows of a plane, and its steps, at most: Python has numbers for each row. Larger planes take 4 GiB or more.
MOST_ROWS, MOST_STEPS = 1 << 20, 1 << 30
FEW_STEPS = 8  # a walk over fewer steps is not worth its start: small planes are listed several at a time
FEW_TILES = 64  # tiles of few planes together, so that threads have something to share

# The numbers of a step.
# COLUMN_A, COLUMN_B: the columns of the plane at which its two vectors begin. HOPS: which of the hops is its first.
# PLACE_A, PLACE_B: where its two vectors of results go. MASKS: the bits of four masks, for the lanes of both vectors
# and of both vectors of results. ROWS_TAPS: what the rows of its windows contribute to a divisor. AT_A, AT_B: the
# elements at which its vectors begin. POSITION: which element of a row of results is its first. All are counted from
# where the tile begins.
COLUMN_A, COLUMN_B, HOPS, PLACE_A, PLACE_B, MASKS, ROWS_TAPS, AT_A, AT_B, POSITION, STEP_SIZE = range(11)

# The numbers of a tile: the column of the plane where its windows begin; the element of the plane's results where its
# results begin, and which element of a row that is; where its steps begin and end.
TILE_COLUMN, TILE_PLACE, TILE_POSITION, TILE_BEGIN, TILE_END, TILE_SIZE = range(6)

# The list begins with two numbers: how many planes are walked as a group, and how many tiles a plane has. Then come the
# tiles: that of a group, then those of a plane. Then come the hops: for each extent of a window the distances from its
# first row to each of its rows, in columns, and a negative number at the end. (A loop that ends at such a number is
# not unrolled by LLVM, which would not pay for so few rows.) Then come the steps.
GROUPED, TILES, FIRST_TILE = range(3)


def plan(job: Windows) -> Call | None:
    """Windows of up to 5 columns; up to 9 or 16 where a column is one element (see `_lanes.by_rows`). No huge planes.
    """
    lanes = job.ask(by_rows)
    if lanes is None:
        return None
    depth, height, _ = job.axes
    if len(depth.start) * len(height.start) > MOST_ROWS or job.outputs * job.elements // lanes.outputs > MOST_STEPS:
        return None
    tiles, steps = list_steps(job.axes, lanes, job.elements, job.images)
    return job.call(window_steps, job.images * tiles, (lanes.others, steps), (lanes.tables,), asks_from=ASKED)


class RowsHeld(NamedTuple):
    """What the windows of each row hold. Distances are counted in rows: a row of the input has another length in the
    next call.
    """

    # For each extent of a window the distances from its first row to each of its rows, with -1 at the end.
    hops: NDArray[np.int64]
    numbers: NDArray[np.int64]  # (rows, STEP_SIZE): what a row of windows adds to the numbers of each of its steps


def rows_held(depth: Axis, height: Axis) -> RowsHeld:
    """What windows along D and H hold."""
    deep, high = (np.maximum(axis.stop - axis.start, 0) for axis in (depth, height))
    tall = int(high.max(initial=0)) + 1
    extents, of = np.unique((deep[:, None] * tall + high).ravel(), return_inverse=True)
    hops: list[int] = []
    begins = []
    for extent in extents.tolist():
        begins.append(len(hops))
        hops += [d * height.size + h for d in range(0, extent // tall, depth.step)
                 for h in range(0, extent % tall, height.step)] + [-1]
    numbers = np.zeros((of.size, STEP_SIZE), np.int64)
    first = (depth.start[:, None] * height.size + height.start).ravel()
    numbers[:, [COLUMN_A, COLUMN_B, AT_A, AT_B]] = first[:, None]
    numbers[:, [PLACE_A, PLACE_B]] = np.arange(of.size)[:, None]
    numbers[:, HOPS] = np.array(begins, np.int64)[of.ravel()]
    numbers[:, ROWS_TAPS] = (depth.width[:, None] * height.width).ravel()
    return RowsHeld(np.array(hops, np.int64), numbers)


def list_steps(axes: Axes, lanes: RowLanes, channels: int, images: int) -> tuple[int, NDArray[np.int64]]:
    """How many tiles a plane has, or an image of so many channels; and the list for `window_steps`."""
    depth, height, width = axes
    wide, row, long = width.size, width.size * channels, len(width.start) * channels
    in_elements = np.array((wide, wide, 1, long, long, 1, 1, row, row, 1))
    # What is made of long axes is not kept: it is too large, and so are their own tables, which would stay with it.
    short = max(depth.n * height.n, width.n) <= SHORT
    held_by, steps_of = (known_rows, known_steps) if short else (rows_held, steps_along)
    (hops, rows), along = held_by(depth, height), steps_of(*lanes[2:6], wide, width.n, channels)

    group, spans = tiles_of(len(rows), len(along), lanes.together, images)
    tiles, blocks, end = [], [], FIRST_TILE + TILE_SIZE * (len(spans) + 1) + len(hops)
    known: dict[Any, tuple[int, int]] = {}
    for first, stop, begin, until in spans:
        part, steps, column = rows, along, 0
        if len(spans) > 1:
            origin = int(rows[first, COLUMN_A])
            part = rows[first:stop] - (origin, origin, 0, first, first, 0, 0, origin, origin, 0)
            steps, column = along[begin:until], origin * wide
        if begin:
            c, at, out = along[begin, [COLUMN_A, AT_A, PLACE_A]].tolist()
            steps, column = steps - (c, c, 0, out, out, 0, 0, at, at, out), column + c
        key = (part.tobytes(), steps.tobytes()) if len(spans) > 1 else ()
        if key not in known:
            blocks.append(listed(part * in_elements, steps, lanes, row, long))
            known[key] = end, end + blocks[-1].size
            end += blocks[-1].size
        position = begin * lanes.outputs
        tiles += [column, first * long + position, position, *known[key]]
    grouped = tiles[:TILE_SIZE]
    if group > 1:
        together = rows_of_planes(rows, depth.size * height.size, group)
        blocks.append(listed(together * in_elements, along, lanes, row, long))
        grouped = [0, 0, 0, end, end + blocks[-1].size]
    # A negative distance, which ends the hops of an extent, is negative in elements as well.
    return len(spans), np.concatenate(([group, len(spans), *grouped, *tiles], hops * wide, *blocks))


def tiles_of(rows: int, along: int, together: int, images: int) -> tuple[int, list[Ints]]:
    """How many planes are walked as a group, and the tiles of a plane: their rows [first, stop), and in a row the steps
    [first, stop). A plane has so many rows of windows, and a row so many steps `along`.
    """
    steps = -(-rows * along // together)
    if steps <= (MOST_PLANE_STEPS if images >= FEW else FEW_TILES):
        group = 2 if together == 2 and rows % 2 else 1  # or half a step would be idle
        while group * steps < FEW_STEPS and group < images:
            group *= 2
        return group, [(0, rows, 0, along)]
    most = max(min(max(steps * images // FEW_TILES, FEW_STEPS), MOST_TILE_STEPS), steps // MOST_TILES)
    most = min(most, LONGEST_LIST)
    high, wide = max(most // along, 1) * together, min(most, along)
    return 1, [(first, min(first + high, rows), begin, min(begin + wide, along))
               for first in range(0, rows, high) for begin in range(0, along, wide)]


def rows_of_planes(rows: NDArray[np.int64], height: int, planes: int) -> NDArray[np.int64]:
    """The numbers of rows, for some planes together, each of so many rows of the input."""
    n = len(rows)
    further = np.array((0, 0, 0, n, n, 0, 0, height, height, 0))
    return (np.arange(planes)[:, None, None] * further + rows).reshape(-1, STEP_SIZE)


def inside(first: int, stop: int) -> int:
    """The mask of the lanes i with 0 <= first + i < stop, as bits."""
    return ((1 << min(max(stop - first, 0), VECTOR)) - 1) & ~((1 << min(max(-first, 0), VECTOR)) - 1)


def masks_of(*masks: int) -> int:
    """Four masks as one int64."""
    bits = sum(mask << i * VECTOR for i, mask in enumerate(masks))
    return bits - (bits >> 63 << 64)


def steps_along(outputs: int, first: int, advance: int, room: int, size: int, windows: int,
                channels: int) -> NDArray[np.int64]:
    """The steps of a row, counted from where the row begins: each makes as many outputs as two vectors hold. The row
    has `size` columns and so many windows; the other numbers are those of `RowLanes`.
    """
    row, long = size * channels, windows * channels
    k = np.arange(-(-long // outputs))
    steps, c = np.zeros((len(k), STEP_SIZE), np.int64), first + k * advance
    steps[:, COLUMN_A] = steps[:, COLUMN_B] = c // channels
    steps[:, AT_A], steps[:, AT_B] = c, c + VECTOR
    steps[:, POSITION] = steps[:, PLACE_A] = k * outputs
    steps[:, PLACE_B] = steps[:, PLACE_A] + VECTOR
    steps[:, MASKS] = masks_of(inside(0, VECTOR), inside(0, room), inside(0, outputs), inside(0, outputs - VECTOR))
    for i in np.flatnonzero((c < 0) | (c + VECTOR + room > row) | ((k + 1) * outputs > long)).tolist():
        a, count = first + i * advance, min(outputs, long - i * outputs)
        b = a + VECTOR
        steps[i, MASKS] = masks_of(inside(a, row), inside(b, min(row, b + room)), inside(0, count),
                                   inside(0, count - VECTOR))
    return steps


known_rows, known_steps = lru_cache(maxsize=256)(rows_held), lru_cache(maxsize=256)(steps_along)


def listed(rows: NDArray[np.int64], along: NDArray[np.int64], lanes: RowLanes, row: int,
           long: int) -> NDArray[np.int64]:
    """The steps of rows of windows: those `along` a row, for each row. A row of the input has `row` elements, and a row
    of windows `long` outputs.
    """
    alone = (rows[:, None] + along).ravel()
    return pairs_of_rows(alone.reshape(-1, STEP_SIZE).tolist(), lanes, row, long) if lanes.together == 2 else alone


def pairs_of_rows(alone: list[list[int]], lanes: RowLanes, row: int, long: int) -> NDArray[np.int64]:
    """Steps that make two rows of windows each, out of a step for each row alone, if the windows of both have as many
    rows of the input. Either both fit into one vector of outputs, or each has a vector of its own.
    """
    apart, c = 2 * long > VECTOR, lanes.first
    loaded = inside(c, row), inside(c, min(row, c + lanes.room))
    paired: set[int] = set()
    steps = []
    for i, one in enumerate(alone):
        if i in paired:
            continue
        other, masks, out_b = one, masks_of(*loaded, inside(0, long)), one[PLACE_A] + VECTOR
        for j in range(i + 1, min(i + (4 if apart else 2), len(alone))):
            if j not in paired and (alone[j][HOPS], alone[j][ROWS_TAPS]) == (one[HOPS], one[ROWS_TAPS]):
                paired.add(j)
                other, masks = alone[j], masks_of(*loaded, inside(0, 2 * long))
                if apart:
                    masks, out_b = masks_of(*loaded, inside(0, long), inside(0, long)), other[PLACE_A]
                break
        steps += [one[COLUMN_A], other[COLUMN_A], one[HOPS], one[PLACE_A], out_b, masks, one[ROWS_TAPS],
                  one[AT_A], other[AT_A], 0]
    return np.array(steps, np.int64)


@inlined
def begin_of_tile(unit, steps, O):
    """The element of all results where those of a tile begin; tiles are counted through all planes."""
    q = unit // steps[TILES]
    return q * O + steps[FIRST_TILE + (unit - q * steps[TILES] + 1) * TILE_SIZE + TILE_PLACE]


@worker
def window_steps(lo, hi, x, y, index, divisors, others, steps, asked, g):
    """Tiles [lo, hi), counted through all planes or images. `steps` is the list that `list_steps` makes, `others` the
    lanes of windows of more than five columns. Memory is asked for ahead, and large results are streamed, only if
    `asked` is not None: small arrays would take 1.1 times as long if that were an `if`.
    """
    E, P, wide, long = rows_of(g)
    O = g[OUT_D] * g[OUT_H] * long
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
    if divisors is not None:
        widths = widths_of(g, long if divisor == 0 else 0, E)
        if together == 2:  # of two rows, in the lanes where their outputs are
            for i in range(long, 2 * LANES):
                widths[i] = widths[i % (LANES if two else long)]
    group, line, far, source = steps[GROUPED], 64 // x.itemsize, is_far(x, ROWS_BY_TURNS), memory(x)
    begin, end = begin_of_tile(lo, steps, O), begin_of_tile(hi, steps, O)
    # Elements of the input that there are to a step, and how far ahead of a tile's beginning memory is asked for.
    per = -(-group * P * STEP_SIZE // (steps[TILES] * (steps[FIRST_TILE + TILE_END] - steps[FIRST_TILE + TILE_BEGIN])))
    lead = lead_of(x, g, P // (g[OUT_D] * g[OUT_H]), wide, far)
    # What is streamed gathers in a stage, whose first element is y[base], or is whole cache lines; rows in pairs are
    # not written in order.
    streaming = past = False
    if asked is not None:
        streaming = together == 1 and streams(y, x, index)
        past = streaming and outputs == LANES and long % LANES == 0 and begins_line(y, index)
        streaming = streaming and not past
    size = SOON + 3 * LANES
    target, target_index, base = y, index, 0
    if streaming:
        target, base = staged(y, size), begin
        if index is not None:
            target_index = staged(index, size, True)
    unit, q, last_tile = lo, lo // steps[TILES], FIRST_TILE + steps[TILES] * TILE_SIZE
    hops = last_tile + TILE_SIZE
    next_tile = FIRST_TILE + (lo - q * steps[TILES] + 1) * TILE_SIZE
    while unit < hi:
        plane, tile = q, next_tile
        if group > 1 and unit + group <= hi:  # a tile is a plane here
            tile, unit, q = FIRST_TILE, unit + group, q + group
        else:
            unit, next_tile = unit + 1, tile + TILE_SIZE
            if tile == last_tile:
                next_tile, q = FIRST_TILE + TILE_SIZE, q + 1
        column, from_position = steps[tile + TILE_COLUMN], steps[tile + TILE_POSITION]
        step, last_step = steps[tile + TILE_BEGIN], steps[tile + TILE_END]
        first, origin = plane * P + column * E, plane * O + steps[tile + TILE_PLACE] - base
        ahead = first + lead
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
            spots = column + steps[i + np.uintp(COLUMN_A)], column + steps[i + np.uintp(COLUMN_B)]
            at = first + steps[i + np.uintp(AT_A)], first + steps[i + np.uintp(AT_B)]
            out, bits = origin + steps[i + np.uintp(PLACE_A)], steps[i + np.uintp(MASKS)]
            masks, m = (mask_of(bits), mask_of(bits >> LANES)), mask_of(bits >> 2 * LANES)
            pair = reduced_rows(x, at, steps, hops + steps[i + np.uintp(HOPS)], E, masks, (columns_a, columns_b), spots,
                                index, pad, none, divisor)
            r, ri = picked(pair, lanes, more, 0, T, divisor)
            if index is not None:
                put(target_index, out, ri, m, past)
            if divisors is None:
                top = greater(r, top)
            else:
                taps, width, width_s = 1, splat(g, 1), splat(g, 1)
                if divisor == 0:
                    taps, position = steps[i + np.uintp(ROWS_TAPS)], from_position + steps[i + np.uintp(POSITION)]
                    width, width_s = load(widths, position), load(widths, position + LANES)
                r = averaged(r, divisor, reciprocal, taps, width)
            put(target, out, convert(y, r), m, past)
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
        flush(target, 0, end - base, y, base, True)
        if index is not None:
            flush(target_index, 0, end - base, index, base, True)
    if past or streaming:
        fence()
    return infinite_lanes(top)
