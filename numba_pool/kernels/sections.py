"""Work that is cut into sections, each left to another kernel as if it were all there is.

Long rows that are all of a plane, as signals are: walked as a whole they are not shared among threads, and their
tables, which have an entry for every window, take longer to make than the windows take: a maximum over 3 of 16 million
samples at stride 2 took 440 ms, 2.2 in sections. All sections but the first and the last of a row have the same
windows, and so the same tables.

Gradients of averages whose windows have divisors of their own, as at padded borders that do not count: a block of
planes or of rows is divided into memory of the thread's own, and what comes out is spread as of windows with a divisor
of 1. 3x3/1 of 16x64x56x56 takes 0.8 ms, 41 by `spread_planes`.
"""

import numpy as np
from numba import types

from .._geometry import (
    SECTION_APART_X,
    SECTION_APART_Y,
    SECTION_COLUMN,
    SECTION_HEADER,
    SECTION_PART,
    SECTION_ROW_X,
    SECTION_ROW_Y,
    SECTION_UNITS,
    SECTION_X,
    SECTION_X_SIZE,
    SECTION_Y,
    SECTION_Y_SIZE,
    SECTIONS,
)
from ..simd import (
    LANES,
    add,
    convert,
    divide,
    indices,
    lanes_inside,
    load,
    load_some,
    multiply,
    splat,
    store,
    store_some,
)
from ._compile import by_types, call_worker, worker
from ._reductions import room_for_indices


def some_indices(room, count):
    """(memory for so many indices,), or () where there is None."""


@by_types(some_indices)
def _some_indices(room, count):
    if isinstance(room, types.NoneType):
        return lambda room, count: ()
    return lambda room, count: (room[:count],)


def room_for_quotients(shares, size):
    """Memory for so many quotients; None where nothing is divided."""


@by_types(room_for_quotients)
def _room_for_quotients(shares, size):
    if isinstance(shares, types.NoneType):
        return lambda shares, size: None
    return lambda shares, size: np.empty(size, shares[0][0].dtype)


def taken_from(x, begin, size, shares, kind, room):
    """`size` elements of x from `begin` on; or their quotients, in `room`, by the shares of that kind of section: by
    what each row of them has, times what each of its elements has. Rows follow each other again and again.
    """


@by_types(taken_from)
def _taken_from(x, begin, size, shares, kind, room):
    if isinstance(shares, types.NoneType):
        return lambda x, begin, size, shares, kind, room: x[begin : begin + size]

    def divided(x, begin, size, shares, kind, room):
        across, down = shares[kind]
        none, zero = splat(x, 0), splat(room, 0)
        at = row = 0
        while at < size:
            factor = splat(room, down[row])
            for i in range(0, across.size, LANES):
                m = lanes_inside(i, across.size)
                count = load_some(across, i, m, splat(room, 1))
                v = convert(zero, load_some(x, begin + at + i, m, none))
                store(room, at + i, divide(v, multiply(count, factor)))
            at, row = at + across.size, row + 1
            if row == down.size:
                row = 0
        return room[:size]

    return divided


@worker
def window_sections(lo, hi, x, y, index, shares, kernels, first, middle, last, walk):
    """Sections [lo, hi), counted through all rows, as `geometry.sections` or `blocks` cuts them. If there are `shares`,
    each is divided first; then there are no indices. `first`, `middle` and `last` are what a kernel takes after the
    arrays, for such a section of a row, and `kernels` where the code of each begins: not named, they need not be
    compiled again. Its indices count from where the section begins.
    """
    many, most = walk[SECTIONS], 0
    for part in range(SECTION_HEADER, walk.size, SECTION_PART):
        most = max(most, walk[part + SECTION_X_SIZE])
    quotients = room_for_quotients(shares, most + LANES)
    room = room_for_indices(index, walk[SECTION_HEADER + 2 * SECTION_PART + SECTION_Y_SIZE] + LANES)  # the last is long
    for unit in range(lo, hi):
        row = unit // many
        number = unit - row * many
        kind = 2 if number == many - 1 else min(number, 1)
        part, further = SECTION_HEADER + kind * SECTION_PART, number - 1 if kind == 1 else 0
        column = walk[part + SECTION_X] + further * walk[SECTION_APART_X]
        begin = row * walk[SECTION_ROW_X] + column
        out = row * walk[SECTION_ROW_Y] + walk[part + SECTION_Y] + further * walk[SECTION_APART_Y]
        count, units = walk[part + SECTION_Y_SIZE], walk[part + SECTION_UNITS]
        source = taken_from(x, begin, walk[part + SECTION_X_SIZE], shares, kind, quotients)
        target = y[out : out + count]
        places = some_indices(room, count)
        if kind == 0:
            failed = call_worker(kernels[0], units, source, target, places + first)
        elif kind == 1:
            failed = call_worker(kernels[1], units, source, target, places + middle)
        else:
            failed = call_worker(kernels[2], units, source, target, places + last)
        if failed:
            raise MemoryError
        if index is not None:
            offset, whole = indices(column // walk[SECTION_COLUMN], 0), count // LANES * LANES
            for i in range(0, whole, LANES):
                store(index, out + i, add(load(room, i), offset))
            store_some(index, out + whole, add(load(room, whole), offset), lanes_inside(0, count - whole))
    return 0
