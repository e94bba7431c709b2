"""Steps of the walks over rows that are buffered: what a window holds goes from one to the next as its numbers and
their indices, marked where the number is NaN, or None where no indices are wanted.
"""

from numba import types
from numba.extending import overload

from ..simd import (
    LANES,
    NOWHERE,
    add,
    convert,
    first_of,
    indices,
    lanes_inside,
    larger,
    load,
    load_some,
    mark_nan,
    select,
    store,
    unmark,
    winner,
)
from ._compile import INLINED, by_types, inlined
from ._reductions import with_tap


def found_at(values, places, at):
    """(sixteen numbers, their indices or None) of a buffered row."""


@overload(found_at, jit_options=INLINED)
def _found_at(values, places, at):
    if isinstance(places, types.NoneType):
        return lambda values, places, at: (load(values, at), None)
    return lambda values, places, at: (load(values, at), load(places, at))


@inlined
def keep(values, places, at, a, ia):
    """Put them there."""
    store(values, at, a)
    if places is not None:
        store(places, at, ia)


def first_found(b, ib, a, ia):
    """The larger, and of equals the one with the smaller index."""


@overload(first_found, jit_options=INLINED)
def _first_found(b, ib, a, ia):
    if isinstance(ia, types.NoneType):
        return lambda b, ib, a, ia: (larger(b, a), None)
    return lambda b, ib, a, ia: first_of(b, ib, a, ia)


def with_found(a, ia, values, places, at, divisor):
    """The reduction so far and sixteen more of a buffered row."""


@overload(with_found, jit_options=INLINED)
def _with_found(a, ia, values, places, at, divisor):
    if isinstance(places, types.NoneType):
        return lambda a, ia, values, places, at, divisor: (with_tap(a, load(values, at), divisor), None)
    return lambda a, ia, values, places, at, divisor: first_of(load(values, at), load(places, at), a, ia)


def nowhere_of(places):
    """The index of no element, or None."""


@overload(nowhere_of, jit_options=INLINED)
def _nowhere_of(places):
    if isinstance(places, types.NoneType):
        return lambda places: None
    return lambda places: indices(NOWHERE, 0)


@inlined
def places_of(first, c, columns, E):
    """The indices of sixteen elements from element `c` of a row on, whose first column has the index `first`."""
    if E > 1:
        return add(indices(first, 0), load(columns, c))
    return indices(first + c, 1)


def down(x, places, at, spot, held, sizes, m, c, columns, none, pad):
    """The maximum of sixteen elements over the slices of a volume."""


@overload(down, jit_options=INLINED)
def _down(x, places, at, spot, held, sizes, m, c, columns, none, pad):
    def first(x, places, at, spot, held, sizes, m, c, columns, none, pad):
        d0, d1, _, _ = held
        H, W, E, dd, _ = sizes
        a, ia = load_some(x, at + d0 * H * W * E, m, pad), indices(spot + d0 * H * W, 0)
        for d in range(d0 + dd, d1, dd):
            a, ia = winner(load_some(x, at + d * H * W * E, m, pad), indices(spot + d * H * W, 0), a, ia)
        return a, select(m, mark_nan(a, add(ia, places_of(0, c, columns, E))), indices(NOWHERE, 0))

    def alone(x, places, at, spot, held, sizes, m, c, columns, none, pad):
        d0, d1, _, _ = held
        H, W, E, dd, _ = sizes
        a = none
        for d in range(d0, d1, dd):
            a = larger(convert(none, load_some(x, at + d * H * W * E, m, pad)), a)
        return a, None

    return alone if isinstance(places, types.NoneType) else first


def by_tails(x, plane, volume, held, sizes, state, tails, tail_places, most,
             values, places, left, columns, divisor, none, pad):
    """A row of maxima of windows that share many rows, out of the `tails` of a block of rows. Returns the new `state`:
    of which volume the block is, where it begins and ends, and up to where the rows after it are known.
    """


@by_types(by_tails)
def _by_tails(x, plane, volume, held, sizes, state, tails, tail_places, most,
              values, places, left, columns, divisor, none, pad):
    if not isinstance(divisor, types.NoneType):  # never called
        return lambda x, plane, volume, held, sizes, state, tails, tail_places, most, values, places, left, columns, divisor, none, pad: state  # noqa: E501
    return maxima_by_tails


def maxima_by_tails(x, plane, volume, held, sizes, state, tails, tail_places, most,
                    values, places, left, columns, divisor, none, pad):
    _, _, h0, h1 = held
    _, W, E, _, _ = sizes
    of, block, border, known = state
    pitch = W * E + LANES
    top = most * pitch
    if of != volume or h0 >= border:
        of, block, border, known = volume, h0, h1, h1
        for h in range(h1 - 1, h0 - 1, -1):
            for c in range(0, W * E, LANES):
                m, at, to = lanes_inside(c, W * E), plane + h * W * E + c, (h - block) * pitch + c
                a, ia = down(x, places, at, h * W, held, sizes, m, c, columns, none, pad)
                if h + 1 < h1:
                    b, ib = found_at(tails, tail_places, to + pitch)
                    a, ia = first_found(b, ib, a, ia)
                keep(tails, tail_places, to, a, ia)
    for h in range(known, h1):
        for c in range(0, W * E, LANES):
            m, at = lanes_inside(c, W * E), plane + h * W * E + c
            a, ia = down(x, places, at, h * W, held, sizes, m, c, columns, none, pad)
            if h > border:
                b, ib = found_at(tails, tail_places, top + c)
                a, ia = first_found(a, ia, b, ib)
            keep(tails, tail_places, top + c, a, ia)
    for c in range(0, W * E, LANES):
        a, ia = found_at(tails, tail_places, (h0 - block) * pitch + c)
        if h1 > border:
            b, ib = found_at(tails, tail_places, top + c)
            a, ia = first_found(b, ib, a, ia)
        keep(values, places, left + c, a, ia)
    return of, block, border, max(known, h1)


@inlined
def stage_found(stage, stage_index, gathered, r, ri):
    """Sixteen results into the stage."""
    store(stage, gathered, convert(stage, r))
    if stage_index is not None:
        store(stage_index, gathered, unmark(ri))


