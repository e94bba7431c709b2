"""Gradients, and values to unpool, of windows that share no element, or of averages few: each element is written once.

Whole vectors are written in the order of memory, nothing is cleared before, and no index is used as an address. Of a
maximum every element has one gradient to look at, and takes it if that gradient's index is its own. Which windows there
were, nobody says; the shapes suggest some, and the guess holds if every gradient is taken, so the walk counts. Where it
does not hold, or an index leads out of a plane, `scatter` does the work. Of averages the windows are known, and may lie
apart; in small planes an element may be in up to four, whose gradients are added up, first down the columns.

The result is a sequence of *lines*: the rows of planes, or of images in channels-last memory; or, where rows are
shorter than vectors, a few whole planes together. Tables say which gradients every vector of a line looks at.
"""

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._windows import LIMIT, VECTOR, Axis, guessed_axes, three
from ..simd import (
    LANES,
    add,
    convert,
    equal,
    fence,
    indices,
    lanes_inside,
    load,
    load_some,
    misaligned,
    pick,
    prefetch,
    select,
    splat,
    store,
    store_some,
    stream,
    total,
    wide_registers,
)
from ._asking import ASKED, asks
from ._compile import inlined, worker
from ._job import Axes, Plan, Shape, Spread
from ._reductions import averaged, nothing, shared
from ._staging import streams

# Elements to an index, above which to clear and to scatter is the faster; of vectors of channels.
LARGE_BOX, LARGER_BOX = 6, 16
FEW_ELEMENTS = 1 << 15  # of a result, below which tables, to be handed over at each call for 1 us, are not won back
MOST_FLAT = 1024  # elements of a line of whole planes, or its tables do not stay in the first cache
LONGEST = 1 << 16  # elements of a line, and lines of a plane: tables have a number for each
SOME_STEPS = 64  # vectors of a band of short lines
WIDEST_BOX = 16  # a wider window is mostly zeros, which any kernel writes as fast


def plan(spread: Spread) -> Plan | None:
    """Windows that share no element, or of averages in small planes few: where lanes are channels, or are picked by one
    instruction.
    """
    size, output = spread.shape[-spread.rank :], spread.output
    if not (wide_registers() or spread.channels >= LANES) or 0 in output or not prod(spread.shape):
        return None
    if size[-1] * spread.channels > LONGEST or prod(size[:-1]) > LONGEST or prod(size) > LIMIT:
        return None
    axes = spread.axes or guessed_axes(size, output)
    if axes is None or any(axis.step != 1 or (axis.stop <= axis.start).any() for axis in axes):
        return None
    tables = None
    if wide_registers() and flat_serves(spread):
        tables = flat(three(axes), spread.channels, spread.images, spread.axes is not None)
    elif (spread.wide or spread.large) and (
            spread.axes or spreads(size, output, spread.channels, spread.itemsize, spread.large)):
        tables = rows(three(axes), spread.channels, spread.images)
    if tables is None:
        return None
    return spread.plan(spread_lines, tables.units, (True if tables.several else None, tables.lanes, tables.numbers))


def flat_serves(spread: Spread) -> bool:
    """Whether lines are whole planes: rows are short, and tables for all of a plane stay in the first cache."""
    size = prod(spread.shape[-spread.rank :])
    if spread.wide or size * spread.channels > MOST_FLAT:
        return False
    return spread.axes is not None or (size <= LARGE_BOX * prod(spread.output) and prod(spread.shape) >= FEW_ELEMENTS)


def spreads(size: Shape, output: Shape, channels: int, itemsize: int, large: bool) -> bool:
    """Whether to write every element of a row is faster than to clear it and to scatter: if these are not many to an
    index, and in channels-first memory stand so near each other that lanes are permuted little; or if a `large` result
    is streamed, by whole vectors in which windows lie evenly. Halves are added too slowly.
    """
    if itemsize == 2:
        return True
    along, box = size[-1] // output[-1], prod(size) / prod(output)
    run = channels if channels >= LANES else size[-1] * channels
    if large and run % LANES == 0 and (channels > 1 or LANES % along == 0):
        return True
    if channels == 1:
        return box <= LARGE_BOX and along <= (3 if large else 2)
    return box <= (LARGER_BOX if channels >= LANES and not large else LARGE_BOX)


# The header of the tables: elements and places of a line, and of a step along it; lines and gradients of a plane, or of
# the planes of a line; bands; steps of a line, and gradients that each looks at; those that are loaded at once.
LINE, PLACES, SPAN, LINES, GRADIENTS, BANDS, STEPS, TAPS, NEED, HEADER = range(10)


class Tables(NamedTuple):
    """How vectors walk the lines of a result."""

    units: int  # bands of lines
    # The header. Of every band its first line, and the gradients before it; the same behind the last band. Of every
    # line where the row of gradients begins that it looks at, or -1. Of every step the first of the gradients that each
    # tap loads; where lanes are channels, that of the pixel, or -1.
    numbers: NDArray[np.int64]
    # Of every step, for each tap, which of the loaded gradients each lane looks at, VECTOR for none; then the places of
    # the elements. None where lanes are channels, which stay as they are.
    lanes: NDArray[np.int32] | None

    @property
    def several(self) -> bool:
        """Whether an element looks at more than one gradient."""
        return bool(self.numbers[TAPS] > 1)


def tables(line: int, places: int, span: int, gradients: int, images: int, bands: NDArray[np.int64],
           starts: NDArray[np.int64], steps: NDArray[np.int64], lanes: NDArray[np.int64] | None, need: int) -> Tables:
    header = line, places, span, len(starts), gradients, len(bands) - 1, len(steps), steps.shape[1], need
    numbers = np.concatenate((header, bands.ravel(), starts, steps.ravel()))
    if lanes is None:
        return Tables(images * (len(bands) - 1), numbers, None)
    memory = np.empty(lanes.size + VECTOR, np.int32)
    first = -memory.ctypes.data // memory.itemsize % VECTOR  # or loads cross cache lines, for 1.15 times the time
    memory = memory[first : first + lanes.size]
    memory[:] = lanes.ravel()
    return Tables(images * (len(bands) - 1), numbers, memory)


def picked(sources: NDArray[np.int64], places: NDArray[np.int64],
           gradients: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int] | None:
    """(steps, lanes, need) for a line whose elements look at these gradients, each at some or at negative ones for
    none; None if those of a vector are too far apart.
    """
    rest = -len(sources) % VECTOR
    sources = np.append(sources, np.full((rest, sources.shape[1]), -1), 0).reshape(-1, VECTOR, sources.shape[1])
    places = np.append(places, np.zeros(rest, np.int64)).reshape(-1, 1, VECTOR)
    missing = sources < 0
    first = np.where(missing, gradients - 1, sources).min(axis=1)
    need = int(np.where(missing, 0, sources - first[:, None]).max()) + 1
    if need > VECTOR:
        return None
    first = np.minimum(first, gradients - need)  # no load ends beyond the gradients of the line
    lanes = np.where(missing, VECTOR, sources - first[:, None]).swapaxes(1, 2)
    return first, np.append(lanes, places, 1), need


def windows_at(axis: Axis) -> NDArray[np.int64]:
    """The window that holds each element of an axis, or -1."""
    return np.where(axis.inverse.start < axis.inverse.stop, axis.inverse.start, -1)


def rows(axes: Axes, E: int, images: int) -> Tables | None:
    """Lines that are rows, of E elements to a column; None if windows share elements, or are wide."""
    depth, height, width = axes
    # Of one vector to a pixel, lanes that are picked at once take less time than steps from pixel to pixel.
    straight, taken = E > VECTOR or (E == VECTOR and not wide_registers()), len(width.start) * E
    if any(axis.longest > WIDEST_BOX or axis.inverse.longest > 1 for axis in axes):
        return None
    of, lanes, need = windows_at(width)[:, None], None, VECTOR
    if straight:
        steps = np.where(of < 0, -1, of * E)
    else:
        sources = np.where(of < 0, -1, of * E + np.arange(E)).reshape(-1, 1)
        found = picked(sources, np.repeat(np.arange(width.size), E), taken)
        if found is None:
            return None
        steps, lanes, need = found
    d, h = windows_at(depth)[:, None], windows_at(height)
    starts = np.where((d < 0) | (h < 0), -1, (d * len(height.start) + h) * taken).ravel()
    # No window is in two bands: these end where one begins, along the first axis that there is.
    axis, lines, more = (height, 1, taken) if depth.size == 1 else (depth, height.size, len(height.start) * taken)
    apart = max(1, SOME_STEPS // max(width.size * E * lines * axis.longest // VECTOR, 1))  # windows of a band
    begin = axis.start[::apart]
    bands = np.stack((begin * lines, np.arange(0, len(axis.start), apart) * more), 1)
    bands = np.append(bands, [[depth.size * height.size, len(axis.start) * more]], 0)
    bands[0, 0] = 0
    gradients = len(depth.start) * len(height.start) * taken
    span = E if straight else VECTOR
    return tables(width.size * E, width.size, span, gradients, images, bands, starts, steps, lanes, need)


def flat(axes: Axes, E: int, images: int, summed: bool) -> Tables | None:
    """Lines that are a few planes, or images of E channels; None if too many windows hold an element: more than one, or
    if `summed` two along the last axis by two along the others.
    """
    elements, taken = prod(axis.size for axis in axes) * E, prod(len(axis.start) for axis in axes) * E
    inverses = [axis.inverse for axis in axes]
    most = [inverse.longest for inverse in inverses]
    down, across = most[0] * most[1], most[2]
    if max(down, across) > (2 if summed else 1):
        return None
    sources = np.zeros((1, 1), np.int64)
    for inverse, count in zip(inverses, most):
        window = inverse.start[:, None] + np.arange(count)
        window[window >= inverse.stop[:, None]] = -1 << 40  # which stays negative whatever is added
        grown = sources[:, None, :, None] * inverse.size + window[None, :, None, :]
        sources = grown.reshape(-1, grown.shape[2] * count)
    sources = sources.reshape(-1, 1, down, across)
    if down * across > 1:  # of two by two, column by column
        sources = np.pad(sources, ((0, 0), (0, 0), (0, 2 - down), (0, 2 - across)), constant_values=-1 << 40)
    sources = sources.swapaxes(2, 3).reshape(len(sources), 1, -1)
    sources = (sources * E + np.arange(E)[:, None]).reshape(elements, -1)
    group = max(n for n in range(1, MOST_FLAT // elements + 1) if images % n == 0)
    sources = (np.arange(group)[:, None, None] * taken + sources).reshape(elements * group, -1)
    found = picked(sources, np.tile(np.arange(elements) // E, group), taken * group)
    if found is None:
        return None
    steps, lanes, need = found
    bands = np.array([[0, 0], [1, taken * group]])
    return tables(elements * group, 0, VECTOR, taken * group, images // group, bands, bands[0, :1], steps, lanes, need)


@inlined
def summed(a, grad, base, numbers, s, lanes, k, part, none):
    """The sum of the gradients that four taps load, each column by itself; of the first it is `a`."""
    b, c, d = (load_some(grad, base + numbers[s + np.uintp(1)], part, none),
               load_some(grad, base + numbers[s + np.uintp(2)], part, none),
               load_some(grad, base + numbers[s + np.uintp(3)], part, none))
    b = convert(a, pick(b, none, load(lanes, k + LANES)))
    c = convert(a, pick(c, none, load(lanes, k + 2 * LANES)))
    d = convert(a, pick(d, none, load(lanes, k + 3 * LANES)))
    return add(add(a, b), add(c, d))


AHEAD = 1024  # gradients between those that are read and those that are asked for


@worker
def spread_lines(lo, hi, grad, gx, index, accumulate, divisors, several, lanes, numbers):
    """Bands [lo, hi) of lines, counted through all planes, or images in channels-last memory, as `Tables` has them.

    `index` is None for an average, whose `divisors` are as in `windows`, and `divisors` is None for all else. `several`
    is None where an element looks at one gradient.

    Returns 0, or 1 (the driver, from each chunk) if a gradient was left over: then `gx` is to be written anew.
    """
    bands, line, lines, gradients = numbers[BANDS], numbers[LINE], numbers[LINES], numbers[GRADIENTS]
    steps, span, taps = numbers[STEPS], numbers[SPAN], 1 if several is None else 4
    at_lines = HEADER + 2 * (bands + 1)
    blocks, whole = (span + LANES - 1) // LANES, span % LANES == 0
    if lanes is not None:
        blocks, whole = 1, True  # a constant
    none, zero, nowhere, part = splat(grad, 0), indices(0, 0), indices(-1, 0), lanes_inside(0, numbers[NEED])
    empty, (divisor, reciprocal) = nothing(grad, divisors), shared(divisors)
    one = indices(min(bands, 1), 0)  # not known to be 1, or LLVM makes two instructions of a masked addition
    nil = none
    if divisors is not None:  # by a negative number -0.0, as in every other kernel
        nil = averaged(empty, divisor, reciprocal, 1, empty)
    asking, left = asks(gx, ASKED), 0
    streaming = whole and line % LANES == 0 and streams(gx, grad, index) and misaligned(gx, 0) == 0
    for unit in range(lo, hi):
        q = unit // bands
        band, count = HEADER + 2 * (unit - q * bands), zero
        for n in range(numbers[band], numbers[band + 2]):
            to, row, here = (q * lines + n) * line, numbers[at_lines + n], n * numbers[PLACES]
            end, s, k, places = to + line, np.uintp(at_lines + lines), 0, indices(here, 0)
            if divisors is not None and n > numbers[band] and row == numbers[at_lines + n - 1] and not streaming:
                while to + LANES <= end:  # the same as the line before
                    store(gx, to, load(gx, to - line))
                    to += LANES
                m = lanes_inside(0, end - to)
                store_some(gx, to, load_some(gx, to - line, m, splat(gx, 0)), m)
                continue
            for _ in range(steps):
                of, stop = numbers[s], end
                if lanes is None:
                    stop = to + span
                taken = row >= 0 and (lanes is not None or of >= 0)
                of += q * gradients + row
                for _ in range(blocks):
                    w = nil
                    if not whole:
                        part = lanes_inside(0, min(stop - to, LANES))
                    if taken:
                        if asking:
                            prefetch(grad, of + AHEAD)
                            if index is not None:
                                prefetch(index, of + AHEAD)
                        v = load_some(grad, of, part, none)
                        if lanes is not None:
                            l = load(lanes, k)
                            v = pick(v, none, l)
                        if divisors is not None:
                            w = convert(empty, v)
                            if several is not None:
                                w = summed(w, grad, of - numbers[s], numbers, s, lanes, k, part, none)
                            w = averaged(add(empty, w), divisor, reciprocal, 1, empty)
                        elif index is not None:
                            if accumulate:
                                v = add(none, v)  # -0.0 becomes 0.0
                            if lanes is not None:
                                where = pick(load_some(index, of, part, zero), nowhere, l)
                                hit = equal(where, add(places, load(lanes, k + taps * LANES)))
                            else:
                                hit = equal(load_some(index, of, part, nowhere), places)
                            count = select(hit, add(count, one), count)
                            w = select(hit, v, none)
                    if streaming:
                        stream(gx, to, convert(gx, w))
                    elif to + LANES <= stop:
                        store(gx, to, convert(gx, w))
                    else:
                        store_some(gx, to, convert(gx, w), lanes_inside(0, stop - to))
                    of, to = of + LANES, to + LANES
                if lanes is None:
                    to, places = stop, add(places, one)
                k += (taps + 1) * LANES
                s += np.uintp(taps)
        if index is not None and total(count) != numbers[band + 3] - numbers[band + 1]:
            left = 1
            break
    if streaming:
        fence()
    return left
