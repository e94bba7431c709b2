"""Gradients of windows that share no element, and unpooling: every element of the result is written once.

An element of the input is in one window at most, so it has one gradient to look at. Of an average it takes that
gradient. Of a maximum it takes the gradient if the gradient's index is its own, and else it is 0. So whole vectors are
written in the order of memory, nothing is cleared before, and no index is used as an address.

The windows of an average are known, and may lie apart. The windows of a maximum are not known: the shapes suggest some.
The guess was right if every gradient was taken, so the walk counts them. If it was wrong, or an index leads out of its
plane, `scatter` does the work once more.

The result is a sequence of *lines*. A line is a row of a plane, or of an image in channels-last memory; where rows are
shorter than vectors, a line is a few whole planes. Tables say which gradients each vector of a line looks at.

Elements of overlapping windows, as those of 3x3/2, could look at up to nine gradients each. On a Zen 5 with AVX-512
that takes 1.2 to 2 times as long as to scatter.
"""

from math import prod
from typing import NamedTuple

import numpy as np
from numba import types
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
from ._compile import by_types, worker
from ._job import Axes, Call, Shape, Windows
from ._reductions import averaged, nothing, shared
from ._staging import streams

# Elements of a window, above which `scatter` is faster; the second number is for channels that fill vectors.
LARGE_BOX, LARGER_BOX = 6, 16
FEW_ELEMENTS = 1 << 15  # elements of a result of maxima, below which tables take longer to hand over than they save
MOST_FLAT = 1024  # elements of a line of whole planes, at most: its tables stay in the first cache
LONGEST = 1 << 16  # elements of a line, and lines of a plane, at most: tables have a number for each
SOME_STEPS = 64  # vectors of a band, at least: a band is a few lines that are a unit of work
WIDEST_BOX = 16  # elements of a window along an axis, at most: wider ones give mostly zeros, which any kernel writes


def plan(job: Windows) -> Call | None:
    """Windows that share no element, where lanes are channels, or where lanes are picked by one instruction."""
    size, output, E = job.shape[-job.rank :], job.output, job.elements
    if not (wide_registers() or E >= LANES) or 0 in output or not prod(job.shape):
        return None
    if size[-1] * E > LONGEST or prod(size[:-1]) > LONGEST or prod(size) > LIMIT:
        return None
    axes = job.windows or guessed_axes(size, output)
    if axes is None or any(axis.step != 1 or (axis.stop <= axis.start).any() or axis.inverse.longest > 1
                           for axis in axes):
        return None
    tables = None
    if not job.wide and prod(size) * E <= MOST_FLAT:
        many = prod(size) > LARGE_BOX * prod(output) or prod(job.shape) < FEW_ELEMENTS
        tables = flat(three(axes), E, job.images) if job.windows or not many else None
    elif (job.wide or job.large) and max(axis.longest for axis in axes) <= WIDEST_BOX:
        serves = job.windows or spreads(size, output, E, job.dtype.itemsize, job.large)
        tables = rows(three(axes), E, job.images) if serves else None
    return job.spread(spread_lines, tables.units, (tables.lanes, tables.numbers)) if tables else None


def spreads(size: Shape, output: Shape, channels: int, itemsize: int, large: bool) -> bool:
    """Whether it is faster to write every element of a row than to clear the rows and to scatter.

    It is for small windows, which in channels-first memory must be narrow as well, so that a vector looks at many
    gradients; and for `large` results, which are streamed, if rows are whole vectors in which windows lie evenly. It is
    for halves in any case, which `scatter` adds slowly.
    """
    if itemsize == 2:
        return True
    along, box = size[-1] // output[-1], prod(size) / prod(output)
    run = channels if channels >= LANES else size[-1] * channels
    if large and run % LANES == 0 and (channels > 1 or LANES % along == 0):
        return True
    if channels == 1:
        return box <= LARGE_BOX and along <= (3 if large else 2)
    return box <= (LARGER_BOX if channels % LANES == 0 and not large else LARGE_BOX)


# The header of the tables.
# LINE: elements of a line. PLACES: places of a line, as indices count them. SPAN: elements of a step along a line.
# LINES: lines of a plane, or 1 if a line is several planes. GRADIENTS: gradients of as many lines. BANDS: bands of as
# many lines. STEPS: steps of a line. NEED: gradients that a step loads.
LINE, PLACES, SPAN, LINES, GRADIENTS, BANDS, STEPS, NEED, HEADER = range(9)


class Tables(NamedTuple):
    """How vectors walk the lines of a result."""

    units: int  # bands of lines
    # The header. For each band: its first line, and the number of gradients before it; the same once more behind the
    # last band. For each line: where the row of gradients begins that it looks at, or -1 if it looks at none. For each
    # step: the first gradient that it loads; where lanes are channels, -1 if it loads none.
    numbers: NDArray[np.int64]
    # For each step: which of the loaded gradients each lane looks at (VECTOR if none), and the places of the elements.
    # None where lanes are channels: there each lane looks at its own channel.
    lanes: NDArray[np.int32] | None


def tables(line: int, places: int, span: int, gradients: int, images: int, bands: NDArray[np.int64],
           starts: NDArray[np.int64], first: NDArray[np.int64], lanes: NDArray[np.int64] | None, need: int) -> Tables:
    header = line, places, span, len(starts), gradients, len(bands) - 1, len(first), need
    numbers = np.concatenate((header, bands.ravel(), starts, first))
    if lanes is None:
        return Tables(images * (len(bands) - 1), numbers, None)
    memory = np.empty(lanes.size + VECTOR, np.int32)
    start = -memory.ctypes.data // memory.itemsize % VECTOR  # at a cache line: else it takes 1.15 times as long
    memory = memory[start : start + lanes.size]
    memory[:] = lanes.ravel()
    return Tables(images * (len(bands) - 1), numbers, memory)


def windows_at(*axes: Axis) -> NDArray[np.int64]:
    """For each element, in the order of memory: the number of the window that holds it, or -1 if none does."""
    of = np.zeros(1, np.int64)
    for axis in axes:
        inverse = axis.inverse
        w = np.where(inverse.start < inverse.stop, inverse.start, -1)
        of = np.where((of[:, None] < 0) | (w < 0), -1, of[:, None] * inverse.size + w).ravel()
    return of


def of_channels(windows: NDArray[np.int64], E: int) -> NDArray[np.int64]:
    """For each of E channels of these windows: the number of its gradient, or -1 where there is no window."""
    return np.where(windows[:, None] < 0, -1, windows[:, None] * E + np.arange(E)).ravel()


def picked(sources: NDArray[np.int64], places: NDArray[np.int64],
           gradients: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int] | None:
    """The tables of a line: (first gradients of the steps, lanes, number of gradients that a step loads). `sources`
    says which gradient each element looks at, -1 for none. None if the gradients of a step do not fit into a vector.
    """
    rest = -len(sources) % VECTOR
    sources = np.append(sources, np.full(rest, -1)).reshape(-1, VECTOR)
    places = np.append(places, np.zeros(rest, np.int64)).reshape(-1, VECTOR)
    missing = sources < 0
    first = np.where(missing, gradients - 1, sources).min(axis=1)
    need = int(np.where(missing, 0, sources - first[:, None]).max()) + 1
    if need > VECTOR:
        return None
    first = np.minimum(first, gradients - need)  # no load ends beyond the gradients of the line
    lanes = np.where(missing, VECTOR, sources - first[:, None])
    return first, np.stack((lanes, places), 1), need


def rows(axes: Axes, E: int, images: int) -> Tables | None:
    """The tables for lines that are rows. A column has E elements."""
    depth, height, width = axes
    taken, lanes, need, span = len(width.start) * E, None, VECTOR, E
    columns = windows_at(width)
    # Where a pixel is just one vector and picking is one instruction, picking is faster than a step to each pixel.
    if E > VECTOR or (E == VECTOR and not wide_registers()):
        first = np.where(columns < 0, -1, columns * E)
    else:
        found = picked(of_channels(columns, E), np.repeat(np.arange(width.size), E), taken)
        if found is None:
            return None
        (first, lanes, need), span = found, VECTOR
    lines = windows_at(depth, height)
    # A band ends where a window begins, along the first axis that is longer than 1: so no window is in two bands.
    axis, deep, more = (height, 1, taken) if depth.size == 1 else (depth, height.size, len(height.start) * taken)
    apart = max(1, SOME_STEPS // max(width.size * E * deep * axis.longest // VECTOR, 1))  # windows of a band
    bands = np.stack((axis.start[::apart] * deep, np.arange(0, len(axis.start), apart) * more), 1)
    bands = np.append(bands, [[len(lines), len(axis.start) * more]], 0)
    bands[0, 0] = 0
    gradients = len(depth.start) * len(height.start) * taken
    return tables(width.size * E, width.size, span, gradients, images, bands, np.where(lines < 0, -1, lines * taken),
                  first, lanes, need)


def flat(axes: Axes, E: int, images: int) -> Tables | None:
    """The tables for lines that are a few planes, or a few images of E channels."""
    elements, taken = prod(axis.size for axis in axes) * E, prod(len(axis.start) for axis in axes) * E
    group = max(n for n in range(1, MOST_FLAT // elements + 1) if images % n == 0)
    of = of_channels(windows_at(*axes), E)
    sources = np.where(of < 0, -1, np.arange(group)[:, None] * taken + of).ravel()
    found = picked(sources, np.tile(np.arange(elements) // E, group), taken * group)
    if found is None:
        return None
    bands = np.array([[0, 0], [1, taken * group]])
    return tables(elements * group, 0, VECTOR, taken * group, images // group, bands, bands[0, :1], *found)


AHEAD = 1024  # how many gradients ahead of what is read memory is asked for


def part_of(lanes, need):
    """The mask of the gradients that a step loads; None, for all, where lanes are channels."""


@by_types(part_of)
def _part_of(lanes, need):
    if isinstance(lanes, types.NoneType):
        return lambda lanes, need: None
    return lambda lanes, need: lanes_inside(0, need)


@worker
def spread_lines(lo, hi, grad, gx, index, accumulate, divisors, lanes, numbers):
    """Bands [lo, hi) of lines, counted through all planes, or through all images in channels-last memory. `Tables` says
    what the `lanes` and `numbers` are. `index` is None for an average, and `divisors` is None for all else.

    Returns 0; or 1 if a gradient was not taken: then the guess of the windows was wrong, and `gx` must be written anew.
    """
    bands, line, lines, gradients = numbers[BANDS], numbers[LINE], numbers[LINES], numbers[GRADIENTS]
    steps, span = numbers[STEPS], numbers[SPAN]
    at_lines = HEADER + 2 * (bands + 1)
    blocks, whole = (span + LANES - 1) // LANES, span % LANES == 0
    if lanes is not None:
        blocks, whole = 1, True  # constants, so that LLVM drops the loop
    none, zero, nowhere, part = splat(grad, 0), indices(0, 0), indices(-1, 0), part_of(lanes, numbers[NEED])
    empty, (divisor, reciprocal) = nothing(grad, divisors), shared(divisors)
    one = indices(min(bands, 1), 0)  # not known to be 1, or LLVM makes two instructions of a masked addition
    # The last vector of a pixel reaches back over the one before it. A hit adds `fresh` to the count; in that vector
    # `fresh` is `rest`, so that what it meets again is not counted again.
    back = blocks * LANES - span
    fresh, rest = one, select(lanes_inside(-back, LANES), one, zero)
    # What stands where no gradient does: 0, divided as in every other kernel, by a negative divisor -0.0.
    nil = averaged(convert(empty, none), divisor, reciprocal, 1, empty)
    asking, left = asks(gx, ASKED), 0
    streaming = whole and line % LANES == 0 and streams(gx, grad, index) and misaligned(gx, 0) == 0
    for unit in range(lo, hi):
        q = unit // bands
        band, count = HEADER + 2 * (unit - q * bands), zero
        for n in range(numbers[band], numbers[band + 2]):
            to, row, here = (q * lines + n) * line, numbers[at_lines + n], n * numbers[PLACES]
            end, s, k, places = to + line, np.uintp(at_lines + lines), 0, indices(here, 0)
            if divisors is not None and n > numbers[band] and row == numbers[at_lines + n - 1] and not streaming:
                while to + LANES <= end:  # the line looks at the same gradients as the one before: a copy
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
                for block in range(blocks):
                    w = nil
                    if lanes is None:
                        fresh = one
                        if block == blocks - 1 and back:
                            of, to, fresh = of - back, to - back, rest
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
                            w = averaged(add(empty, convert(empty, v)), divisor, reciprocal, 1, empty)
                        elif index is not None:
                            if accumulate:
                                v = add(none, v)  # -0.0 becomes 0.0
                            if lanes is not None:
                                where = pick(load_some(index, of, part, zero), nowhere, l)
                                hit = equal(where, add(places, load(lanes, k + LANES)))
                            else:
                                hit = equal(load(index, of), places)
                            count = select(hit, add(count, fresh), count)
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
                k, s = k + 2 * LANES, s + np.uintp(1)
        if index is not None and total(count) != numbers[band + 3] - numbers[band + 1]:
            left = 1
            break
    if streaming:
        fence()
    return left
