"""Gradients over windows that share no element, and unpooling into such.

What indices route, `indices` adds up at scattered places. Where windows do not overlap, every element of the result
has one gradient to look at, and takes it if that gradient's index is its own: whole vectors, written once, in order,
and no index is ever used as an address. Nanoseconds per gradient of 2x2/2, one thread, here and there: 224x224 images
0.4 and 1.2, from memory to memory; 14x14 of 512 channels last 0.3 and 0.6; 112x112 in the caches 0.4 and 0.55.

Which windows there were, nobody says; `geometry.guess` does, from the shapes. The guess holds if every gradient is
taken, so the kernels count; planes with a gradient each take it wherever in them it belongs. Where the guess does not
hold, or an index leads out of a plane, `indices` does the work.

The gradient of an average is the same without indices, of windows that are known, and may lie apart.

`scatter_disjoint` goes by rows of windows, and takes every gradient it has loaded to all rows of these. Where rows are
shorter than vectors, `scatter_flat` goes by whole planes instead; there an element of an average may also be in up to
four windows, whose gradients it adds up. One thread, ns per element of 14x14 planes, 2x2/2: 0.09 for an average, 0.14
by `rows.window_steps`; 0.11 for a maximum, 0.16 by `indices.scatter_groups`. `scatter_whole` fills planes that are one
window each: 7x7 with 0.06 for an average, 0.08 for a maximum, 0.1 by `indices.scatter_groups`.
"""

from math import prod
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from .._windows import LIMIT, VECTOR, Ints, guess
from ..simd import (
    LANES,
    add,
    both,
    convert,
    equal,
    fence,
    indices,
    lanes_inside,
    load,
    load_some,
    mask_of,
    misaligned,
    prefetch,
    rearrange,
    select,
    splat,
    store_some,
    stream,
    subtract,
    total,
    wide_registers,
)
from ._asking import ASKED, asks
from ._compile import by_types, helper, worker
from ._job import Axes, Call, Shape, Windows
from ._reductions import averaged, nothing, shared
from ._staging import streams

# Elements to an index, above which this is the slower for most, and of vectors of channels.
LARGE_BOX, LARGER_BOX = 6, 16


def plan(spread: Windows) -> Call | None:
    """Windows that share no element, by rows of windows, where channels or rows are long enough."""
    size, output = spread.shape[-spread.rank :], spread.output
    if not wide_registers() or not (spread.wide or spread.large):
        return None
    known = (None, None)
    if not spread.indexed:
        known = boxes(spread.windows)
    elif not spreads(size, output, spread.elements, spread.dtype.itemsize, spread.large):
        return None
    tables = disjoint(size, output, spread.elements, spread.images, *known) if known else None
    return spread.spread(scatter_disjoint, tables.units, tables[1:]) if tables else None


def spreads(size: Shape, output: Shape, channels: int, itemsize: int, large: bool) -> bool:
    """Whether `scatter_disjoint`, which takes its time for every element of a result, is faster than to clear it and
    add to some: if these are not few, and in channels-first memory stand so near each other that lanes are permuted
    little; or if a `large` result is streamed, by whole lines in which windows lie evenly. Halves are added too slowly.

    Otherwise 3x3/3 would take 1.5 times as long, 6x6/6 and larger windows up to 2.8 times, of 24 channels 1.4 and 2.
    """
    if 0 in output or output[-1] > size[-1]:  # of adaptive windows that repeat elements
        return False
    if itemsize == 2:
        return True
    along, box = size[-1] // output[-1], prod(size) / prod(output)
    run = channels if channels >= LANES else size[-1] * channels
    if large and run % LANES == 0 and (channels > 1 or LANES % along == 0):
        return True
    if channels == 1:
        return box <= LARGE_BOX and along <= (3 if large else 2)
    return box <= (LARGER_BOX if channels >= LANES and not large else LARGE_BOX)


def boxes(axes: Axes) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """How wide windows are, and how far from one to the next, that share no element, all alike from the first element
    on. Between them and behind the last ones elements are in none.
    """
    box, apart = [], []
    for axis in axes:
        b = max(int(axis.stop[0]), 1) if len(axis.stop) else 1
        n = int(axis.start[1]) if len(axis.start) > 1 else b
        alike = (axis.start == n * np.arange(len(axis.start))).all() and (axis.stop == axis.start + b).all()
        if not alike or n < b or axis.step != 1:
            return None
        box.append(b)
        apart.append(n)
    return tuple(box), tuple(apart)


AHEAD = 1024  # gradients between those that are read and those that are asked for


@helper
def clear(gx, at, stop, nil):
    """gx[at:stop] = 0, as `nil` has it."""
    for i in range(at, stop, LANES):
        store_some(gx, i, nil, lanes_inside(0, min(stop - i, LANES)))  # of 32 bits, which rows are, but not many rows


# The header of a `Disjoint`.
SIZE_D, SIZE_H, SIZE_W, OUTPUTS_D, OUTPUTS_H = range(5)


APART_D, APART_H = 5, 6  # elements from one window to the next


ROW, COVERED, TAKEN = 7, 8, 9  # elements of a row, those in windows, gradients of a row of windows


BANDS, BAND, STEPS = 10, 11, 12  # bands of a plane, rows of windows of a band, steps of such a row


NEED, PITCH = 13, 14  # gradients that a step loads; numbers in `lanes` from one step to the next, 0 if all are the same


WHOLE, STRAIGHT, VECTORS = 15, 16, 17  # whether all lanes of all steps are used, lanes stay as they are, stores aligned


GAPS = 18  # whether elements between windows are in none


MOST_STEPS, SOME_STEPS = 4096, 64  # of a row of windows; of a band of such rows, if they are short


WIDEST_BOX = 16  # a wider window is mostly zeros, which any kernel writes as fast


class Disjoint(NamedTuple):
    """Windows that share no element, known, or guessed to lie side by side, and how vectors walk them. A *row of
    windows* is one of the output's; a band is some of them, a unit of work.
    """

    units: int
    steps: NDArray[np.int64]  # of a band, 4 numbers each: first gradient, first element, its index, mask of the lanes
    lanes: NDArray[np.int32]  # of every step, or of all: VECTOR gradients and as many indices, from the first's
    hops: NDArray[np.int64]  # elements from a step's to all others of the same windows, and -1
    spots: NDArray[np.int64]  # the same in indices
    header: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self[1:])


def disjoint(size: Ints, output: Ints, channels: int, images: int, box: Ints | None = None,
             apart: Ints | None = None) -> Disjoint | None:
    """Windows that share no element, of `output` along the axes of `size`, or None if they are too wide. They are `box`
    wide and begin `apart` elements from each other, and the last is inside (nobody checks that here); or else they are
    what `guess` finds, if it does.

    A column of a row is `channels` elements. The lanes are elements of a row, or where channels are enough, channels.
    """
    (D, H, W), (OD, OH, OW) = ((1,) * (3 - len(n)) + n for n in (size, output))
    if not images * channels * OD * OH * OW or D * H * W > LIMIT:
        return None
    box = box or guess((D, H, W), (OD, OH, OW))
    apart = apart or box
    if not box or not apart or max(apart) == 1 or max(box) > WIDEST_BOX:
        return None
    sd, sh, sw = apart
    gaps = apart != box
    E, straight = channels, channels >= VECTOR
    row, covered, taken = W * E, OW * sw * E, OW * E
    spots = [(d * H + h) * W for d in range(box[0]) for h in range(box[1])]
    if (OW * -(-E // VECTOR) if straight else -(-covered // VECTOR)) > MOST_STEPS:
        return None
    if straight:
        spots = [spot + w for spot in spots for w in range(box[2])]
        starts = (np.arange(OW, dtype=np.int64)[:, None] * sw * E + np.arange(0, E, VECTOR)).ravel()
        counts = np.minimum(E - starts % E, VECTOR)
    else:
        starts = np.arange(0, covered, VECTOR, dtype=np.int64)
        counts = np.minimum(covered - starts, VECTOR)
    lane = np.arange(VECTOR)
    element = np.minimum(starts[:, None] + lane, starts[:, None] + counts[:, None] - 1)
    used = (lane < counts[:, None]) & (element // E % sw < box[2])
    source = element // E // sw * E + element % E
    first = source.min(axis=1)
    need = int((source.max(axis=1) - first).max()) + 1
    if need > VECTOR:
        return None
    first = np.minimum(first, max(taken - need, 0))  # no load ends beyond the row's gradients
    need = min(need, taken)
    lanes = np.stack((source - first[:, None], element // E - starts[:, None] // E), axis=1)
    m = min(OH, max(1, SOME_STEPS // len(starts)))
    of = np.arange(m)[:, None]
    steps = np.stack((of * taken + first, of * sh * row + starts, of * sh * W + starts // E,
                      np.broadcast_to((used << lane).sum(axis=1), (m, len(starts)))), axis=-1).reshape(-1, 4)
    same = bool((lanes == lanes[0]).all())
    lanes = lanes[:1] if same else np.tile(lanes, (m, 1, 1))
    whole = bool(used.all())
    hops = np.array(spots, np.int64) * E
    vectors = whole and not gaps and not any((table % VECTOR).any() for table in (steps[:, 1], hops, np.array([row])))
    bands = -(-OH // m)
    straight = same and (lanes[0, 0] == lane).all()
    header = np.array([D, H, W, OD, OH, sd, sh, row, covered, taken, bands, m, len(starts), need,
                       0 if same else 2 * VECTOR, whole, straight, vectors, gaps])
    return Disjoint(images * OD * bands, steps.astype(np.int64).ravel(), lanes.astype(np.int32).ravel(),
                    np.array([*hops, -1], np.int64), np.array(spots, np.int64), header.astype(np.int64))


@worker
def scatter_disjoint(lo, hi, grad, gx, index, accumulate, divisors, steps, lanes, hops, spots, g):
    """Bands [lo, hi) of rows of windows, counted through all planes, or images in channels-last memory.

    A step loads the gradients that sixteen elements of a row look at. Hops lead from these to all other elements that
    look at the same, whose indices are `spots` further on; a negative one is the end.

    `index` is None for an average, whose `divisors` are as in `windows`, and `divisors` is None for all else.

    Returns 0, or 1 (the driver, from each chunk) if a gradient was left over: then `gx` is to be written anew.
    """
    D, H, W = g[SIZE_D], g[SIZE_H], g[SIZE_W]
    OD, OH, taken, bands, m, many = g[OUTPUTS_D], g[OUTPUTS_H], g[TAKEN], g[BANDS], g[BAND], g[STEPS]
    sd, sh, row, covered, pitch = g[APART_D], g[APART_H], g[ROW], g[COVERED], g[PITCH]
    none, zero = splat(grad, 0), indices(0, 0)
    empty, (divisor, reciprocal) = nothing(grad, divisors), shared(divisors)
    one = indices(min(m, 1), 0)  # not known to be 1, or LLVM makes two instructions of a masked addition
    nil = none
    if divisors is not None:  # by a negative number -0.0, as in every other kernel
        nil = convert(gx, averaged(empty, divisor, reciprocal, 1, empty))
    l, columns, part = load(lanes, 0), load(lanes, LANES), lanes_inside(0, g[NEED])
    whole, turned, asking = g[WHOLE] != 0, g[STRAIGHT] == 0, asks(gx, ASKED)
    streaming = g[VECTORS] != 0 and streams(gx, grad, index) and misaligned(gx, 0) == 0
    m0, left = lanes_inside(0, LANES), 0
    for unit in range(lo, hi):
        slab = unit // bands
        band = unit - slab * bands
        q = slab // OD
        od = slab - q * OD
        rows = min(m, OH - band * m)
        top = (q * D + od * sd) * H + band * m * sh
        at, first = top * row, (slab * OH + band * m) * taken
        spot = (top - q * D * H) * W
        if g[GAPS]:
            for d in range(od * sd, min(od * sd + sd, D)):
                slice_at, below = (q * D + d) * H, min((band * m + rows) * sh, H)
                clear(gx, (slice_at + band * m * sh) * row, (slice_at + below) * row, nil)
        count, k = zero, 0
        i, end = np.uintp(0), np.uintp(4 * rows * many)
        while i < end:
            of, to = first + steps[i], at + steps[i + np.uintp(1)]
            if asking:
                prefetch(grad, of + AHEAD)
                if index is not None:
                    prefetch(index, of + AHEAD)
            if not whole:
                m0 = mask_of(steps[i + np.uintp(3)])
            if pitch:
                l, columns = load(lanes, k), load(lanes, k + LANES)
                k += pitch
            v = load_some(grad, of, part, none)
            if divisors is not None:
                v = convert(gx, averaged(add(empty, convert(empty, v)), divisor, reciprocal, 1, empty))
            elif accumulate:
                v = add(none, v)  # -0.0 becomes 0.0
            if turned:
                v = rearrange(v, l)
            if index is not None:
                place = load_some(index, of, part, zero)
                if turned:
                    place = rearrange(place, l)
                place = subtract(subtract(place, columns), indices(steps[i + np.uintp(2)], 0))
            w = v
            h = np.uintp(0)
            hop = hops[h]
            while hop >= 0:
                if index is not None:
                    hit = both(equal(place, indices(spot + spots[h], 0)), m0)
                    count = select(hit, add(count, one), count)
                    w = select(hit, v, none)
                if streaming:
                    stream(gx, to + hop, convert(gx, w))
                else:
                    store_some(gx, to + hop, convert(gx, w), m0)
                h += np.uintp(1)
                hop = hops[h]
            i += np.uintp(4)
        if index is not None and total(count) != rows * taken:
            left = 1
            break
        if covered < row and not g[GAPS]:  # columns in no window
            for d in range(sd):
                for r in range(rows * sh):
                    clear(gx, at + (d * H + r) * row + covered, at + (d * H + r + 1) * row, nil)
        if band == bands - 1:  # rows and slices in none
            for d in range(od * sd, min(od * sd + sd, D)):
                clear(gx, ((q * D + d) * H + OH * sh) * row, (q * D + d + 1) * H * row, nil)
            if od == OD - 1:
                clear(gx, (q * D + OD * sd) * H * row, (q + 1) * D * H * row, nil)
    if streaming:
        fence()
    return left


def where_routed(v, index, place, spot, none):
    """A gradient in every lane, but of a maximum only where the place is its index."""


@by_types(where_routed)
def _where_routed(v, index, place, spot, none):
    if isinstance(index, types.NoneType):
        return lambda v, index, place, spot, none: v
    return lambda v, index, place, spot, none: select(equal(place, spot), v, none)
