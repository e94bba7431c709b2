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
MOST_TILE_STEPS = 256  # steps of any other tile, at most, unless there were more than MOST_TILES, which Python looks at
MOST_TILES, LONGEST_LIST = 1 << 12, 1 << 16  # a list has at most so many steps, whatever the number of tiles
# Rows of windows of a plane, and its steps, at most: Python has numbers for each row. Larger planes take 4 GiB or more.
MOST_ROWS, MOST_STEPS = 1 << 20, 1 << 30
FEW_STEPS = 8  # a walk over fewer steps is not worth its start: small planes are listed several at a time
FEW_TILES = 64  # tiles of few planes together, so that threads have something to share

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
    """What the windows of each row hold."""

    extents: list[Ints]  # slices and rows: all pairs that there are
    numbers: NDArray[np.int64]  # for each row of windows: which of these pairs, the first row, taps of slices and rows


def rows_held(depth: Axis, height: Axis) -> RowsHeld:
    """What windows along D and H hold."""
    deep, high = (np.maximum(axis.stop - axis.start, 0) for axis in (depth, height))
    tall = int(high.max(initial=0)) + 1
    pairs, of = np.unique((deep[:, None] * tall + high).ravel(), return_inverse=True)
    first, taps = depth.start[:, None] * height.size + height.start, depth.width[:, None] * height.width
    return RowsHeld([divmod(pair, tall) for pair in pairs.tolist()],
                    np.stack((of, first.ravel(), taps.ravel()), 1).astype(np.int64))


def list_steps(axes: Axes, lanes: RowLanes, channels: int, images: int) -> tuple[int, NDArray[np.int64]]:
    """How many tiles a plane has, or an image of so many channels; and the list for `window_steps`."""
    depth, height, width = axes
    # What is made of long axes is not kept: it is too large, and so are their own tables, which would stay with it.
    short = max(depth.n * height.n, width.n) <= SHORT
    held_by, steps_of = (known_rows, known_steps) if short else (rows_held, steps_along)
    held, along = held_by(depth, height), steps_of(*lanes[2:6], width.size, len(width.start), channels)
    group, spans = tiles_of(len(held.numbers), len(along), lanes.together, images)
    hops_at = FIRST_TILE + TILE_SIZE * (len(spans) + 1)
    starts, hops = hops_of(held.extents, axes, hops_at)
    listed = pairs_of_rows if lanes.together == 2 else rows_alone
    tiles, blocks, end = [], [], hops_at + len(hops)
    known: dict[Any, tuple[int, int]] = {}
    for first, stop, begin, until in spans:
        rows, steps, column = held.numbers, along, 0
        if len(spans) > 1:
            origin = int(rows[first, 1])
            rows, steps, column = rows[first:stop] - (0, origin, 0), along[begin:until], origin * width.size
        if begin:
            c, at, out = along[begin, [COLUMN_A, AT_A, PLACE_A]].tolist()
            steps, column = steps - (c, c, 0, out, out, 0, 0, at, at, out), column + c
        key = rows.tobytes(), steps.tobytes()
        if key not in known:
            blocks.append(listed(rows, starts, axes, lanes, channels, 1, steps).ravel())
            known[key] = end, end + blocks[-1].size
            end += blocks[-1].size
        position = begin * lanes.outputs
        tiles += [column, first * len(width.start) * channels + position, position, *known[key]]
    grouped = tiles[:TILE_SIZE]
    if group > 1:
        blocks.append(listed(held.numbers, starts, axes, lanes, channels, group, along).ravel())
        grouped = [0, 0, 0, end, end + blocks[-1].size]
    return len(spans), np.concatenate(([group, len(spans), *grouped, *tiles, *hops], *blocks))


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


def hops_of(extents: list[Ints], axes: Axes, at: int) -> tuple[NDArray[np.int64], list[int]]:
    """Where the list of hops of each extent begins, and these lists, which begin at number `at`."""
    depth, height, width = axes
    starts, hops = [], []
    for deep, high in extents:
        starts.append(at + len(hops))
        hops += [(d * height.size + h) * width.size for d in range(0, deep, depth.step)
                 for h in range(0, high, height.step)] + [-1]
    return np.array(starts), hops


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


def rows_alone(rows: NDArray[np.int64], hops: NDArray[np.int64], axes: Axes, lanes: RowLanes, channels: int,
               planes: int, along: NDArray[np.int64]) -> NDArray[np.int64]:
    """The steps of rows of windows, of some planes: those `along` a row, for each row. The numbers of the rows are
    those of `RowsHeld`.
    """
    depth, height, width = axes
    down = np.zeros((planes, len(rows), 1, STEP_SIZE), np.int64)
    kinds, spot, taps = rows.T[..., None]
    down[..., COLUMN_A] = down[..., COLUMN_B] = spot = spot * width.size
    plane = depth.size * height.size * width.size * np.arange(planes)
    down[..., AT_A] = down[..., AT_B] = (plane[:, None, None] + spot) * channels
    long = len(width.start) * channels
    down[..., PLACE_A] = down[..., PLACE_B] = np.arange(0, planes * len(rows) * long, long).reshape(planes, -1, 1)
    down[..., HOPS], down[..., ROWS_TAPS] = hops[kinds], taps
    return down + along


def pairs_of_rows(rows: NDArray[np.int64], hops: NDArray[np.int64], axes: Axes, lanes: RowLanes, channels: int,
                  planes: int, along: NDArray[np.int64]) -> NDArray[np.int64]:
    """Steps of short rows of windows, of some planes: each makes two rows, if their windows have as many rows of the
    input. Either both fit into one vector of outputs, or each has a vector of its own.
    """
    depth, height, width = axes
    row, long, c = width.size * channels, len(width.start) * channels, lanes.first
    apart, plane = 2 * long > VECTOR, depth.size * height.size * row
    held = [tuple(row) for row in rows.tolist()] * planes
    paired: set[int] = set()
    steps = []
    for i, (kind, _, taps) in enumerate(held):
        if i in paired:
            continue
        pair, count, second, out_b = [i, i], long, 0, i * long + VECTOR
        for j in range(i + 1, min(i + (4 if apart else 2), len(held))):
            if j not in paired and (held[j][0], held[j][2]) == (kind, taps):
                paired.add(j)
                pair[1] = j
                count, second, out_b = (long, long, j * long) if apart else (2 * long, 0, out_b)
                break
        columns = [held[j][1] * width.size + c // channels for j in pair]
        at = [j // len(rows) * plane + column * channels for j, column in zip(pair, columns, strict=True)]
        masks = masks_of(inside(c, row), inside(c, min(row, c + lanes.room)), inside(0, count), inside(0, second))
        steps.append([*columns, hops[kind], i * long, out_b, masks, taps, *at, 0])
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
