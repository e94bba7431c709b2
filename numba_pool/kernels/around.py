"""Windows most of which lie in the padding alone, as those of a small array with very wide padding. Another kernel
computes the others, the *core*, plane by plane; around these the results are filled with what an empty window holds.

So the tables are those of the core, whatever the padding. A gradient is made of the core's gradients.
"""

from math import prod

import numpy as np
from numpy.typing import NDArray

from .._windows import UniformAxis, uniform_axis
from ..simd import LANES, convert, empty, indices, lanes_inside, memory, store, store_some
from ._compile import by_types, helper, worker
from ._driver import call_worker
from ._reductions import outside
from .rows import copy_rows
from .sections import some_indices

# The table. SIZE: elements of a plane of the input, or of an image in channels-last memory. RESULTS, CORE: windows of
# it, and those of the core, times the elements of a column. UNITS: units of the core's kernel. FIRST, SLICE, ROW: where
# the core begins in a plane of windows, and from one slice to the next, and from one row to the next, in elements.
# SLICES, ROWS, LONG: slices of the core, rows of a slice, and elements of a row.
SIZE, RESULTS, CORE, UNITS, FIRST, SLICE, ROW, SLICES, ROWS, LONG = range(10)


MANY_TIMES, MANY = 4, 1 << 10  # windows for each one of the core, and more of them, from which on that is worth it


def core(axes: tuple[UniformAxis, ...]) -> tuple[tuple[UniformAxis, ...], tuple[int, ...]] | None:
    """The windows of the core along each axis, and the number of the first of them; None unless these are few along an
    axis. Windows beside the core lie in the padding alone. In the core are one or more, which may be empty as well.
    """
    inner, firsts = [], []
    for axis in axes:
        size, n, s, before, span = axis.size, axis.n, axis.stride, axis.before, axis.step * (axis.kernel - 1) + 1
        # The core does not begin behind the start of the axis: padding is not negative.
        first = min(max((before - span) // s + 1, 0), before // s, n - 1)
        stop = max(min(-(-(size + before) // s), n), first + 1)
        firsts.append(first)
        inner.append(uniform_axis(size, stop - first, axis.kernel, s, (before - first * s, min(axis.after, span - 1)),
                                  axis.step, axis.include_pad))
    few = any(axis.n >= MANY_TIMES * part.n + MANY for axis, part in zip(axes, inner))
    return (tuple(inner), tuple(firsts)) if few else None


def table_of(axes: tuple[UniformAxis, ...], inner: tuple[UniformAxis, ...], firsts: tuple[int, ...], elements: int,
             units: int) -> NDArray[np.int64]:
    """The table of these kernels. A column has `elements` elements."""
    n, m, at = ([1] * (3 - len(axes)) + [*of] for of in ([a.n for a in axes], [a.n for a in inner], firsts))
    at[: 3 - len(axes)] = [0] * (3 - len(axes))
    row = n[2] * elements
    numbers = (prod(a.size for a in axes) * elements, n[0] * n[1] * row, prod(m) * elements, units,
               (at[0] * n[1] + at[1]) * row + at[2] * elements, n[1] * row, row, m[0], m[1], m[2] * elements)
    return np.array(numbers, np.int64)


@helper
def fill(array, at, stop, value):
    """Fill the elements [at, stop) of an array, which is given by its memory, with the same vector."""
    while at + LANES <= stop:
        store(array, at, value)
        at += LANES
    if at < stop:
        store_some(array, at, value, lanes_inside(0, stop - at))


@helper
def put_around(core, result, begin, value, table):
    """Put the results of the core into a plane's results, which begin at element `begin`, and `value` all around."""
    done, source = begin, np.int64(0)
    for d in range(table[SLICES]):
        for h in range(table[ROWS]):
            at = begin + table[FIRST] + d * table[SLICE] + h * table[ROW]
            fill(result, done, at, value)
            copy_rows(core, source, table[LONG], result, at, table[LONG], np.int64(1), table[LONG])
            done, source = at + table[LONG], source + table[LONG]
    fill(result, done, begin + table[RESULTS], value)


def put_places(core, index, begin, table):
    """The same for indices; nothing for None."""


@by_types(put_places)
def _put_places(core, index, begin, table):
    if index.name == "none":
        return lambda core, index, begin, table: None
    return lambda core, index, begin, table: put_around(memory(core), memory(index), begin, indices(-1, 0), table)


@worker
def window_core(lo, hi, x, y, index, divisors, kernel, rest, table):
    """Planes [lo, hi), or images in channels-last memory. `kernel` is the address of the code that computes the core of
    a plane, and `rest` are its arguments behind the arrays.
    """
    size, count, found = table[SIZE], table[CORE], 0
    none, room, places = convert(y, outside(x, divisors)), empty(y, count + LANES), empty(index, count + LANES)
    for plane in range(lo, hi):
        result = call_worker(kernel, table[UNITS], x[plane * size : (plane + 1) * size], room[:count],
                             some_indices(places, count) + rest)
        if result < 0:
            raise MemoryError
        found += result
        put_around(memory(room), memory(y), plane * table[RESULTS], none, table)
        put_places(places, index, plane * table[RESULTS], table)
    return found


@worker
def gradient_core(lo, hi, grad, gx, index, divisors, kernel, rest, table):
    """The same for gradients of averages. There is no `index`, and nothing is divided here."""
    size, count, row = table[SIZE], table[CORE], table[LONG]
    room = empty(grad, count + LANES)
    for plane in range(lo, hi):
        begin, to = plane * table[RESULTS] + table[FIRST], np.int64(0)
        for d in range(table[SLICES]):
            copy_rows(memory(grad), begin + d * table[SLICE], table[ROW], memory(room), to, row, table[ROWS], row)
            to += table[ROWS] * row
        if call_worker(kernel, table[UNITS], room[:count], gx[plane * size : (plane + 1) * size], rest) < 0:
            raise MemoryError
    return 0
