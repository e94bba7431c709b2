"""Gradients of small planes, or images, of windows that share no element or few: over the ends of rows."""

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._windows import VECTOR, Axis, guessed_axes
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
    misaligned,
    not_negative,
    pick,
    prefetch,
    rearrange,
    select,
    splat,
    store,
    store_some,
    stream,
    total,
    wide_registers,
)
from ._asking import ASKED
from ._compile import worker
from ._job import Call, Windows
from ._reductions import averaged, nothing, shared
from ._staging import streams

# Elements to an index, above which `scatter_flat` is the slower; and of a result, below which its tables, to be handed
# over at each call for 1 us, are not won back.
LARGE_BOX, FEW_ELEMENTS = 6, 1 << 15
ASKED_FLAT = ASKED * 4 // 3  # bytes from which on it asks: 2x2/2 of 12 MiB would take 1.1 times as long


def plan(spread: Windows) -> Call | None:
    """Small planes of windows that share no element, or of averages that share some, over the ends of rows."""
    size, output = spread.shape[-spread.rank :], spread.output
    if not wide_registers() or spread.wide or prod(size) * spread.elements > MOST_FLAT or 0 in output:
        return None
    known = not spread.indexed
    if not known and (prod(size) > LARGE_BOX * prod(output) or prod(spread.shape) < FEW_ELEMENTS):
        return None
    sides = spread.windows or guessed_axes(size, output)
    tables = flat(sides, spread.elements, spread.images, known) if sides else None
    if tables is None:
        return None
    return spread.spread(scatter_flat, tables.units, tables[1:], asks_from=ASKED_FLAT)


MOST_FLAT = 1024  # elements of what a `Flat` walks at a time, or its tables do not stay in the first cache


class Flat(NamedTuple):
    """How vectors walk whole planes, over the ends of rows. An element looks at one gradient, or up to four."""

    units: int  # planes or images, or groups of them
    firsts: NDArray[np.int64]  # of every vector, the first gradient that it loads
    lanes: NDArray[np.int32]  # of every vector, VECTOR each: gradients, from that one on, or these and indices
    # Elements and gradients of a unit; gradients that a vector loads, registers that its lanes refer to, 1 or 2, and
    # gradients that an element looks at, 1 or 4.
    header: NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self[1:])


def flat(axes: tuple[Axis, ...], channels: int, images: int, summed: bool) -> Flat | None:
    """These windows, or None if planes are large, or too many hold an element, or a vector meets too many gradients.

    If `summed`, the lanes are the gradients of the windows that hold each element, up to two along the last axis by up
    to two along the others, column by column; what is missing is a lane that is not loaded. Else the windows share no
    element, and the lanes are the gradient of each and its index, -1 for none.
    """
    elements, taken = prod(axis.size for axis in axes) * channels, prod(len(axis.start) for axis in axes) * channels
    if elements > MOST_FLAT or not images * taken:
        return None
    if any(axis.step != 1 or (axis.stop <= axis.start).any() for axis in axes):
        return None
    inverses = [axis.inverse for axis in axes]
    most = [inverse.longest for inverse in inverses]
    rows, columns = prod(most[:-1]), most[-1]
    side = max(rows, columns)
    if side > (2 if summed else 1):
        return None
    # Of every element, the gradients that it looks at; `none` stays negative whatever is added.
    none = -1 << 40
    sources: NDArray[np.int64] = np.zeros((1, 1), np.int64)
    for inverse, count in zip(inverses, most):
        window = inverse.start[:, None] + np.arange(count)
        window[window >= inverse.stop[:, None]] = none
        grown = sources[:, None, :, None] * inverse.size + window[None, :, None, :]
        sources = grown.reshape(-1, grown.shape[2] * count)
    square = np.pad(sources.reshape(-1, rows, columns), ((0, 0), (0, side - rows), (0, side - columns)),
                    constant_values=none).swapaxes(1, 2)
    sources = (square.reshape(-1, 1, side**2) * channels + np.arange(channels)[:, None]).reshape(-1, side**2)
    spots = np.where(sources[:, 0] < 0, -1, np.arange(elements) // channels)
    group = max(n for n in range(1, MOST_FLAT // elements + 1) if images % n == 0)
    sources = (np.arange(group)[:, None, None] * taken + sources).reshape(-1, side**2)
    elements, taken = elements * group, taken * group
    rest = -elements % VECTOR
    sources = np.append(sources, np.repeat(sources[-1:], rest, 0), 0).reshape(-1, VECTOR, side**2)
    spots = np.append(np.tile(spots, group), np.full(rest, -1)).reshape(-1, VECTOR)
    missing = sources < 0
    idle = bool(summed and missing.any())  # lanes to be read that nothing is loaded into
    first = np.where(missing, taken - 1, sources).min(axis=(1, 2))
    need = int(np.where(missing, 0, sources - first[:, None, None]).max()) + 1
    if need + idle > 2 * VECTOR:
        return None
    first = np.minimum(first, taken - need)  # no load ends beyond the unit's gradients
    lanes = np.where(missing, 2 * VECTOR - 1 if summed else 0, sources - first[:, None, None]).swapaxes(1, 2)
    if not summed:
        lanes = np.append(lanes, spots[:, None], 1)
    header = np.array([elements, taken, need, 1 if need + idle <= VECTOR and side == 1 else 2, side**2])
    return Flat(images // group, first, lanes.astype(np.int32).ravel(), header)


AHEAD_FLAT = 512  # the same of `scatter_flat`, and between elements that are written


@worker
def scatter_flat(lo, hi, grad, gx, index, accumulate, divisors, asked, firsts, lanes, g):
    """Units [lo, hi) of a few planes, or images in channels-last memory, each: sixteen elements after the other, in
    whichever rows and planes these are. For every such vector, `firsts` and `lanes` of `geometry.Flat` say which
    gradients its elements look at, in which vectors; for averages, of up to two rows of windows in up to two columns,
    which are added up down the columns first. Arguments and result are as in `scatter_disjoint`.

    What comes, and where to write, is asked for, and large results are streamed, only if `asked` is not None: this is
    compiled for either, or it would take 1.05 to 1.1 times as long in the caches.
    """
    elements, taken, need, two, four = g[0], g[1], g[2], g[3] == 2, g[4] == 4  # four are in two registers
    none, zero = splat(grad, 0), indices(0, 0)
    empty, (divisor, reciprocal) = nothing(grad, divisors), shared(divisors)
    one = indices(min(elements, 1), 0)  # not known to be 1, or LLVM makes two instructions of a masked addition
    part, more, left, streaming = lanes_inside(0, need), lanes_inside(LANES, need), 0, False
    if asked is not None:
        streaming = elements % LANES == 0 and streams(gx, grad, index) and misaligned(gx, 0) == 0
    for unit in range(lo, hi):
        to, end, count, k = unit * elements, (unit + 1) * elements, zero, 0
        for i in range(len(firsts)):
            of = unit * taken + firsts[np.uintp(i)]
            if asked is not None:
                prefetch(grad, of + AHEAD_FLAT)
                if index is not None:
                    prefetch(index, of + AHEAD_FLAT)
                if not streaming:
                    prefetch(gx, to + AHEAD_FLAT)  # a store waits for its line as long as a load does
            v = load_some(grad, of, part, none)
            if divisors is not None:
                a = convert(empty, v)
                if two:
                    b = convert(empty, load_some(grad, of + LANES, more, none))
                    s = pick(a, b, load(lanes, k))
                    if four:
                        s = add(s, pick(a, b, load(lanes, k + LANES)))
                        t = add(pick(a, b, load(lanes, k + 2 * LANES)), pick(a, b, load(lanes, k + 3 * LANES)))
                        s, k = add(s, t), k + 3 * LANES
                else:
                    s = rearrange(a, load(lanes, k))
                k += LANES
                v = convert(gx, averaged(add(empty, s), divisor, reciprocal, 1, empty))
            else:
                l, spots = load(lanes, k), load(lanes, k + LANES)
                k += 2 * LANES
                if two:
                    v = pick(v, load_some(grad, of + LANES, more, none), l)
                else:
                    v = rearrange(v, l)
                if accumulate:
                    v = add(none, v)  # -0.0 becomes 0.0
                hit = not_negative(spots)
                if index is not None:
                    place = load_some(index, of, part, zero)
                    if two:
                        place = pick(place, load_some(index, of + LANES, more, zero), l)
                    else:
                        place = rearrange(place, l)
                    hit = both(hit, equal(place, spots))
                    count = select(hit, add(count, one), count)
                v = convert(gx, select(hit, v, none))
            if streaming:
                stream(gx, to, v)
            elif to + LANES <= end:
                store(gx, to, v)
            else:
                store_some(gx, to, v, lanes_inside(0, end - to))
            to += LANES
        if index is not None and total(count) != taken:
            left = 1
            break
    if streaming:
        fence()
    return left
