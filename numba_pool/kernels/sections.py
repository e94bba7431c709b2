"""Long rows that are all of a plane, as signals are: cut into sections, each a unit of work for another kernel.

A row that is walked as a whole is not shared among threads, and its tables, which have an entry for every window, take
longer to make than the windows take: a maximum over 3 of 16 million samples at stride 2 took 440 ms, 2.2 in sections.
All sections but the first and the last of a row have the same windows, and so the same tables.
"""

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
from ._compile import by_types, call_worker, worker
from ._reductions import room_for_indices
from ._vectors import LANES, add, indices, lanes_inside, load, store, store_some


def some_indices(room, count):
    """(memory for so many indices,), or () where there is None."""


@by_types(some_indices)
def _some_indices(room, count):
    if isinstance(room, types.NoneType):
        return lambda room, count: ()
    return lambda room, count: (room[:count],)


@worker
def window_sections(lo, hi, x, y, index, kernels, first, middle, last, walk):
    """Sections [lo, hi), counted through all rows, as `geometry.sections` cuts them. `first`, `middle` and `last` are
    what a kernel takes after the arrays, for such a section of a row, and `kernels` where the code of each begins: not
    named, they need not be compiled again. Its indices count from where the section begins.
    """
    many = walk[SECTIONS]
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
        source, target = x[begin : begin + walk[part + SECTION_X_SIZE]], y[out : out + count]
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
