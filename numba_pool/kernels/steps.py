"""Windows picked out of the rows of planes, or of images of few channels, by a list of steps.

A step loads two vectors of the input for each row of a window, reduces these downwards, and picks up to 32 windows out
of the result. Python lists all steps beforehand, so that the walk does nothing but follow the list.

A list is for a *tile* of the output: a small plane, or several; or some rows of a larger plane; or a piece of a long
row. Tiles whose windows hold the same share a list.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._windows import LANES_AT, OUT_D, OUT_H, VECTOR, Ints
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
    put,
    splat,
    store_some,
    twelve_indices,
)
from ._asking import ASKED, ROWS_BY_TURNS, ask, is_far
from ._compile import inlined, worker
from ._job import Axes, Call, Windows
from ._lanes import FEW, FIRST_TAPS, LANES_HEADER, RowLanes, by_rows, picked, reduced_rows, rows_of, widths_of
from ._reductions import averaged, lead_of, nothing, outside, put_nans, shared
from ._staging import SOON, begins_line, flush, staged, stream_lines, streams

MOST_PLANE_STEPS = 1024  # steps of a plane that is one tile, at most: the list takes 80 bytes for each
MOST_TILE_STEPS = 256  # steps of any other tile, at most
FEW_STEPS = 8  # a walk over fewer steps is not worth its start: small planes are listed several at a time
FEW_TILES = 64  # tiles of all planes, at least, so that threads have something to share

# The numbers of a step.
# COLUMN_A, COLUMN_B: the columns of the plane at which its two vectors begin. HOPS: where its list of hops stands.
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
# first row to each of its rows, in columns, with -1 at the end. (A loop that ends at -1 is not unrolled by LLVM, which
# would not pay for so few rows.) Then come the steps.
GROUPED, TILES, FIRST_TILE = range(3)


def plan(job: Windows) -> Call | None:
    """Windows of up to 5 columns; up to 9 or 16 where a column is one element (see `_lanes.by_rows`)."""
    lanes = job.ask(by_rows)
    if lanes is None:
        return None
    tiles, steps = list_steps(job.axes, lanes, job.elements, job.images)
    return job.call(window_steps, job.images * tiles, (lanes.others, steps), (lanes.tables,), asks_from=ASKED)


def list_steps(axes: Axes, lanes: RowLanes, channels: int, images: int) -> tuple[int, NDArray[np.int64]]:
    """How many tiles a plane has, or an image of so many channels; and the list for `window_steps`."""
    depth, height, width = axes
    # For each row of windows: how many slices and rows they hold, their first column, their taps of slices and rows.
    extents = np.stack(np.broadcast_arrays(
        np.maximum(depth.stop - depth.start, 0)[:, None], np.maximum(height.stop - height.start, 0),
        (depth.start[:, None] * height.size + height.start) * width.size, depth.width[:, None] * height.width,
    ), 2).reshape(-1, 4).astype(np.int64)
    long, row = len(width.start) * channels, width.size * channels
    along = -(-long // lanes.outputs)  # steps of a row
    group, spans = tiles_of(len(extents), along, lanes.together, images)
    first_hops, hops = list_hops(axes, extents, FIRST_TILE + TILE_SIZE * len(spans))
    numbers, end = [group, len(spans) - 1], FIRST_TILE + TILE_SIZE * len(spans) + len(hops)
    blocks: list[NDArray[np.int64]] = []
    known: dict[Any, tuple[int, int]] = {}
    for planes, first, stop, begin, until in spans:
        part, c = extents[first:stop].copy(), lanes.first + begin * lanes.advance
        origin = part[0, 2]
        part[:, 2] -= origin
        inside = c >= 0 and c + (until - 1 - begin) * lanes.advance + 2 * VECTOR <= row and until < along
        key = planes, until - begin, None if inside else begin, part.tobytes()
        if key not in known:
            listed = pairs_of_rows if lanes.together == 2 else rows_alone
            block = listed(axes, lanes, channels, part, first_hops[first:stop], planes, range(begin, until))
            known[key] = end, end + block.size
            blocks.append(block.ravel())
            end += block.size
        numbers += [origin + begin * lanes.advance // channels, first * long + begin * lanes.outputs,
                    begin * lanes.outputs, *known[key]]
    return len(spans) - 1, np.concatenate((numbers, hops, *blocks))


def tiles_of(rows: int, along: int, together: int, images: int) -> tuple[int, list[Ints]]:
    """How many planes are walked as a group, and the tiles of a group and of a plane: of how many planes, the range of
    rows, and in a row the range of steps. A plane has so many rows of windows, and a row so many steps `along`.
    """
    steps = -(-rows * along // together)
    if images >= FEW and steps <= MOST_PLANE_STEPS:
        group = 2 if together == 2 and rows % 2 else 1  # or half a step would be idle
        while group * steps < FEW_STEPS:
            group *= 2
        return group, [(planes, 0, rows, 0, along) for planes in (group, 1)]
    most = min(max(steps * images // FEW_TILES, FEW_STEPS), MOST_TILE_STEPS)
    high, wide = max(most // along, 1), min(most, along)
    tiles = [(1, first, min(first + high, rows), begin, min(begin + wide, along))
             for first in range(0, rows, high) for begin in range(0, along, wide)]
    return 1, [tiles[0], *tiles]


def list_hops(axes: Axes, extents: NDArray[np.int64], at: int) -> tuple[NDArray[np.int64], list[int]]:
    """Where each row of windows has its list of hops, and these lists, which begin at number `at`."""
    depth, height, width = axes
    kinds, of = np.unique(extents[:, :2], axis=0, return_inverse=True)
    starts, hops = [], []
    for deep, high in kinds.tolist():
        starts.append(at + len(hops))
        hops += [(d * height.size + h) * width.size for d in range(0, deep, depth.step)
                 for h in range(0, high, height.step)] + [-1]
    return np.array(starts)[of.ravel()], hops


def bits_inside(first: Any, stop: Any) -> Any:
    """The mask of the lanes i with 0 <= first + i < stop, as bits."""
    ends = [np.clip(end, 0, VECTOR).astype(np.uint64) for end in (np.subtract(stop, first), np.negative(first))]
    below = [np.left_shift(np.uint64(1), end) - np.uint64(1) for end in ends]
    return below[0] & ~below[1]


def masks_of(a: Any, b: Any, row: int, room: int, count: Any, second: Any) -> Any:
    """The four masks of steps whose vectors begin at elements a and b of a row of so many elements. They make `count`
    outputs in their first vector of results, and `second` in the other one.
    """
    masks = [bits_inside(a, row), bits_inside(b, np.minimum(row, b + room)), bits_inside(0, count),
             bits_inside(0, second)]
    return sum(mask << np.uint64(i * VECTOR) for i, mask in enumerate(masks)).view(np.int64)


def rows_alone(axes: Axes, lanes: RowLanes, channels: int, extents: NDArray[np.int64], hops: NDArray[np.int64],
               planes: int, steps: range) -> NDArray[np.int64]:
    """Steps of rows of windows, of some planes: each makes as many outputs of a row as two vectors hold."""
    depth, height, width = axes
    row, long, k = width.size * channels, len(width.start) * channels, np.array(steps, np.int64)
    c, position = lanes.first + k * lanes.advance, k * lanes.outputs
    count = np.minimum(lanes.outputs, long - position)
    listed = np.empty((planes * len(extents), len(k), STEP_SIZE), np.int64)
    plane, of = np.divmod(np.arange(len(listed)), len(extents))
    listed[..., COLUMN_A] = extents[of, 2, None] + (c - steps.start * lanes.advance) // channels
    listed[..., COLUMN_B] = listed[..., COLUMN_A]
    listed[..., AT_A] = (plane * depth.size * height.size * row)[:, None] + listed[..., COLUMN_A] * channels
    listed[..., AT_B] = listed[..., AT_A] + VECTOR
    listed[..., POSITION] = position - position[0]
    listed[..., PLACE_A] = (np.arange(len(listed)) * long)[:, None] + listed[..., POSITION]
    listed[..., PLACE_B] = listed[..., PLACE_A] + VECTOR
    listed[..., HOPS], listed[..., ROWS_TAPS] = hops[of, None], extents[of, 3, None]
    listed[..., MASKS] = masks_of(c, c + VECTOR, row, lanes.room, count, count - VECTOR)
    return listed


def pairs_of_rows(axes: Axes, lanes: RowLanes, channels: int, extents: NDArray[np.int64], hops: NDArray[np.int64],
                  planes: int, steps: range) -> NDArray[np.int64]:
    """Steps of short rows of windows, of some planes: each makes two rows, if their windows have as many rows of the
    input. Either both fit into one vector of outputs, or each has a vector of its own.
    """
    depth, height, width = axes
    row, long, c = width.size * channels, len(width.start) * channels, lanes.first
    rows, apart, plane = planes * len(extents), 2 * long > VECTOR, depth.size * height.size * row
    paired: set[int] = set()
    listed, masked = [], []
    for i in range(rows):
        if i in paired:
            continue
        found, kind, count, second, out_b = [i, i], extents[i % len(extents), [0, 1, 3]], long, 0, 0
        for j in range(i + 1, min(i + (4 if apart else 2), rows)):
            if j not in paired and (extents[j % len(extents), [0, 1, 3]] == kind).all():
                paired.add(j)
                found[1] = j
                count, second, out_b = (long, long, j * long) if apart else (2 * long, 0, 0)
                break
        columns = [int(extents[k % len(extents), 2]) + c // channels for k in found]
        at = [k // len(extents) * plane + column * channels for k, column in zip(found, columns, strict=True)]
        listed.append([*columns, hops[i % len(extents)], i * long, out_b or i * long + VECTOR, 0, kind[2], *at, 0])
        masked.append((count, second))
    table, counts = np.array(listed, np.int64), np.array(masked).T
    table[:, MASKS] = masks_of(np.array(c), np.array(c), row, lanes.room, *counts)
    return table


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
            pair = reduced_rows(x, at, steps, steps[i + np.uintp(HOPS)], E, masks, (columns_a, columns_b), spots, index,
                                pad, none, divisor)
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
    put_nans(top, begin, end, x, y, index, divisors, g, E)
    return 0
