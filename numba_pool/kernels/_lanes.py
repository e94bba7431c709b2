"""Picking: what `steps` and `strips` have in common.

Two vectors hold up to 32 neighbouring elements of a row. Windows are picked out of them: for each tap a table says
which lane of the two vectors belongs to which window.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from .._windows import CHANNELS, DEPTH, HEADER, HEIGHT, LAST, OUT_D, OUT_H, OUT_W, VECTOR, WIDTH, Axis
from ..simd import (
    LANES,
    NOWHERE,
    add,
    at_most,
    convert,
    finite_or_inf,
    first_among,
    greater,
    indices,
    load,
    load_some,
    overtakes,
    pick,
    select,
    wide_registers,
)
from ..simd.vector import I64
from ._compile import INLINED, helper
from ._job import MOST_FLOAT32_ADDITIONS
from ._reductions import joined, numbers_of

MOST_HOPS = 4096  # entries of the list that says where the rows of a window are, for windows of every extent
FEW = 8  # planes, below which threads share parts of planes
FEW_COLUMNS = 9  # columns of windows at stride 1, up to which they are picked out of rows


def by_rows(job):
    """How the windows of a call are picked out of rows, as `RowLanes`; None where another kernel is faster.

    Picking is for channels-first memory, and for up to sixteen channels last, if windows fill enough of a vector. It
    serves windows of up to `FIRST_TAPS` columns. Wider windows are picked only if a column is one element, and then at
    stride 1 only up to `FEW_COLUMNS`, with AVX-512, and if sums are not carried in float64: else `rows` is faster.
    """
    along = job.windows[2]
    if not job.outputs or not 1 <= job.elements <= LANES:
        return None
    if job.axes[0].longest * job.axes[1].longest ** 2 > MOST_HOPS:
        return None
    # Two rows may be picked together, but of few images there would be too few pairs for threads to share.
    lanes = row_lanes(along, job.gradient, job.elements, 2 if job.images >= 2 * FEW else 1)
    if lanes is None:
        return None
    if lanes.taps <= FIRST_TAPS:
        return lanes if lanes.outputs >= min(job.elements, LANES // 2) else None
    long = job.summed and job.additions > MOST_FLOAT32_ADDITIONS
    few = lanes.taps <= FEW_COLUMNS and wide_registers() and not long
    return lanes if job.elements == 1 and (along.stride > 1 or few) else None


LANES_HEADER = 6  # numbers of a `RowLanes` that stand before its lanes


MOST_LANE_TAPS = 16  # columns of a window that are picked, at most


FIRST_TAPS = 5  # columns of a window whose lanes are kept in registers; those of more columns are loaded


class RowLanes(NamedTuple):
    """How windows are picked out of a row. A row is walked in steps. A step loads two vectors of the input, and tap t
    of the step's output i is one of their 32 lanes.
    """

    taps: int  # columns of the widest window
    together: int  # rows of the output to a step, 1 or 2; if 2, each vector holds columns for one of the rows
    outputs: int  # elements of a row of the output to a step, up to two vectors of them
    first: int  # the element of an input's row that is in the first lane of the first step
    advance: int  # elements of an input's row from one step to the next
    room: int  # lanes of the second vector that are loaded; the last lane may be needed for a missing element
    lanes: NDArray[np.int64]  # (2, FIRST_TAPS, VECTOR): the lanes of the first sixteen outputs, and of the others
    columns: NDArray[np.int64]  # (2 * VECTOR,): the column of each lane of both vectors
    others: NDArray[np.int32] | None  # the lanes of further taps, flat, if windows have more than FIRST_TAPS
    tables: NDArray[np.int64]  # numbers, lanes and columns as a kernel reads them, behind the tables of the windows


def row_lanes(axis: Axis, invert: bool, channels: int, most: int = 2) -> RowLanes | None:
    """How to pick windows along an axis; if `invert`, the inverse windows, one for each element of the axis, for a
    gradient. A column has `channels` elements, and a step takes at most `most` rows. None where windows are not
    uniform, do not fit into the lanes, or may be empty.
    """
    if not axis.n or axis.is_empty:
        return None
    n = (axis.size if invert else axis.n) * channels
    return lanes_for(axis.kernel, axis.stride, axis.step, axis.before, min(n, VECTOR + 1), invert, channels, most)


@lru_cache(maxsize=1024)
def lanes_for(k: int, s: int, d: int, before: int, n: int, invert: bool, channels: int, most: int) -> RowLanes | None:
    """The same by numbers alone, so that other shapes find what is kept. `n` is the length of a row of the output; if
    that is more than a vector, `n` is one more than a vector.
    """
    taps = -(-k // s) if invert and s else k
    if not 1 <= taps <= MOST_LANE_TAPS or (d > 1 and (before or invert)):
        return None
    phase = before % s
    o, channel = np.divmod(np.arange(2 * VECTOR, dtype=np.int64), channels)
    tap = np.arange(taps, dtype=np.int64)[:, None]
    if invert:  # taps are windows here, from the leftmost to the rightmost
        lanes = (phase + o) // s + tap
        missing = (phase + o) % s + (taps - 1 - tap) * s >= k
        first, room = before // s - (taps - 1), VECTOR - 1 if k % s else VECTOR
    else:
        lanes = o * s + tap * d
        missing = np.zeros(lanes.shape, bool)
        first, room = -before, VECTOR
    lanes = lanes * channels + channel
    # How many outputs have all their taps in two vectors (`inside`), and in one (`half`). Outputs are counted up to the
    # first that does not fit: a later one may fit again, where neighbours are in the same windows.
    last = lanes.max(axis=0)
    inside = int(np.logical_and.accumulate(last < VECTOR + room).sum()) // channels
    half = int(np.logical_and.accumulate(last < room).sum())
    together = 2 if n <= min(half, VECTOR) else 1
    if invert:
        inside -= inside % s  # every step begins at the same phase
    if together == 2:  # both rows fit into one vector of outputs, or each has a vector of its own
        second = n if 2 * n <= VECTOR else VECTOR
        lanes[:, second : second + n] = lanes[:, :n] + VECTOR
        missing[:, second : second + n] = missing[:, :n]
    if inside * channels < 2:
        return None
    lanes = np.where(missing, 2 * VECTOR - 1, np.minimum(lanes, 2 * VECTOR - 1))
    both = np.stack((lanes[:, :VECTOR], lanes[:, VECTOR:]))
    table = np.zeros((2, FIRST_TAPS, VECTOR), np.int64)
    table[:, :taps] = both[:, :FIRST_TAPS]
    others = both[:, FIRST_TAPS:].astype(np.int32).ravel() if taps > FIRST_TAPS else None
    advance = inside // s if invert else inside * s
    numbers = taps, min(together, most), inside * channels, first * channels, advance * channels, room
    columns = np.arange(2 * VECTOR) // channels
    return RowLanes(*numbers, table, columns, others, np.concatenate((np.array(numbers), table.ravel(), columns)))


@intrinsic
def rows_of(typingctx, g):
    """How many elements there are to a column, to a plane or image, to a row, and to a row of the output."""

    def gen(ctx, b, sig, args):
        C, last, D, H, W, OW = numbers_of(ctx, b, g, args[0], (CHANNELS, LAST, DEPTH, HEIGHT, WIDTH, OUT_W))
        E = b.select(b.icmp_signed("!=", last, I64(0)), C, I64(1))
        row = b.mul(W, E)
        return ctx.make_tuple(b, sig.return_type, [E, b.mul(b.mul(D, H), row), row, b.mul(OW, E)])

    return types.UniTuple(types.int64, 4)(g), gen


@helper
def widths_of(g, size, E):
    """For each of the first `size` elements of an output's row, the columns that its divisor counts; two vectors more
    may be read.
    """
    widths = np.ones(size + 2 * LANES, np.int64)
    t = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H] + 2 * g[OUT_W]
    for i in range(at_most(size, g[OUT_W] * E)):
        widths[i] = g[t + i // E]
    return widths


def reduced_rows(x, at, hops, first, E, masks, columns, spots, index, pad, none, divisor):
    """Reduce the rows of windows downwards, into two vectors: (numbers, numbers, indices or None, indices or None).

    In the windows' first row the vectors begin at the two elements `at` of x. The list of hops, from hops[first] on,
    has the distance of each row from there, in columns; a negative number ends it. The indices are those of maxima, or
    -1 if there are no rows.
    """


@overload(reduced_rows, jit_options=INLINED)
def _reduced_rows(x, at, hops, first, E, masks, columns, spots, index, pad, none, divisor):
    def alone(x, at, hops, first, E, masks, columns, spots, index, pad, none, divisor):
        a, b, tap = none, none, np.uintp(first)
        hop = hops[tap]
        while hop >= 0:
            va = convert(none, load_some(x, at[0] + hop * E, masks[0], pad))
            vb = convert(none, load_some(x, at[1] + hop * E, masks[1], pad))
            if divisor is None:
                va, vb = finite_or_inf(va), finite_or_inf(vb)
            a, b = joined(a, va, divisor), joined(b, vb, divisor)
            tap += np.uintp(1)
            hop = hops[tap]
        return a, b, None, None

    def indexed(x, at, hops, first, E, masks, columns, spots, index, pad, none, divisor):
        a, b, ia, ib, tap = none, none, indices(0, 0), indices(0, 0), np.uintp(first)
        hop = hops[tap]
        if hop < 0:
            return a, b, indices(-1, 0), indices(-1, 0)
        while hop >= 0:
            va = finite_or_inf(load_some(x, at[0] + hop * E, masks[0], pad))
            vb = finite_or_inf(load_some(x, at[1] + hop * E, masks[1], pad))
            ia = select(overtakes(va, a), indices(hop, 0), ia)
            ib = select(overtakes(vb, b), indices(hop, 0), ib)
            a, b = greater(va, a), greater(vb, b)
            tap += np.uintp(1)
            hop = hops[tap]
        nowhere = indices(NOWHERE, 0)
        ia = select(masks[0], add(add(ia, columns[0]), indices(spots[0], 0)), nowhere)
        ib = select(masks[1], add(add(ib, columns[1]), indices(spots[1], 0)), nowhere)
        return a, b, ia, ib

    return alone if isinstance(index, types.NoneType) else indexed


def picked(pair, lanes, others, first, taps, divisor):
    """Reduce sixteen windows, whose columns are lanes of a pair of vectors: (results, indices or None). `pair` is what
    `reduced_rows` returns: two vectors, and the indices of their lanes.

    Column t of window i is lane lanes[t][i] of the two vectors. Columns are joined from left to right. The lanes of
    columns after the fifth stand in `others`, from element `first` on.
    """


@overload(picked, jit_options=INLINED)
def _picked(pair, lanes, others, first, taps, divisor):
    def alone(pair, lanes, others, first, taps, divisor):
        a, b = pair[0], pair[1]
        r = pick(a, b, lanes[0])
        if taps > 1:
            r = joined(r, pick(a, b, lanes[1]), divisor)
        if taps > 2:
            r = joined(r, pick(a, b, lanes[2]), divisor)
        if taps > 3:
            r = joined(r, pick(a, b, lanes[3]), divisor)
        if taps > 4:
            r = joined(r, pick(a, b, lanes[4]), divisor)
        if others is not None:
            for i in range(first, first + (taps - FIRST_TAPS) * LANES, LANES):
                r = joined(r, pick(a, b, load(others, i)), divisor)
        return r, None

    def indexed(pair, lanes, others, first, taps, divisor):
        a, b, ia, ib = pair
        r, ri = pick(a, b, lanes[0]), pick(ia, ib, lanes[0])
        if taps > 1:
            r, ri = first_among(pick(a, b, lanes[1]), pick(ia, ib, lanes[1]), r, ri)
        if taps > 2:
            r, ri = first_among(pick(a, b, lanes[2]), pick(ia, ib, lanes[2]), r, ri)
        if taps > 3:
            r, ri = first_among(pick(a, b, lanes[3]), pick(ia, ib, lanes[3]), r, ri)
        if taps > 4:
            r, ri = first_among(pick(a, b, lanes[4]), pick(ia, ib, lanes[4]), r, ri)
        if others is not None:
            for i in range(first, first + (taps - FIRST_TAPS) * LANES, LANES):
                more = load(others, i)
                r, ri = first_among(pick(a, b, more), pick(ia, ib, more), r, ri)
        return r, ri

    return alone if isinstance(pair[2], types.NoneType) else indexed
