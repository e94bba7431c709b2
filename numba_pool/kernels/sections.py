"""Work that is cut into sections. Each section is left to another kernel, as if it were all there is.

There are two kinds. The first are long rows, such as signals, that are planes of one row. As a whole a row could not be
shared among threads. Its tables, which have an entry for every window, would take longer to make than the windows: a
maximum over 3 of 16 million samples at stride 2 took 440 ms, in sections it takes 2.2. All sections of a row but the
first and the last have the same windows, and so the same tables. Planes, and volumes, of very many rows are cut
likewise: what is a column of a row is then a row, or a plane. 2x2 maxima of 2.4 million rows of 32 took 470 ms, and
take 50.

The second are gradients of averages whose windows have divisors of their own, as at borders where padding does not
count. A block of planes, or of rows, is divided into memory of the thread's own. The quotients are then spread as the
gradients of windows with a divisor of 1.
"""

from math import gcd, prod
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from .._windows import Axis, Ints, UniformAxis, is_long, three
from ..simd import (
    LANES,
    add,
    convert,
    divide,
    empty,
    equal,
    indices,
    lanes_inside,
    load,
    load_some,
    multiply,
    select,
    splat,
    store,
    store_some,
)
from ._compile import by_types, inlined, worker
from ._driver import call_worker
from ._reductions import GROUP

# The numbers of a `walk`, the table of this kernel. X is the array that is read, Y the one that is written.
# SECTION_ROW_X, SECTION_ROW_Y: elements from one row to the next. SECTION_COLUMN: elements of a column. SECTIONS:
# sections of a row. SECTION_APART_X, SECTION_APART_Y: elements from one section to the next. Behind this header stand
# six numbers for each of three sections: for the first, for the second, which stands for all in the middle, and for the
# last. They are where the section begins and how many elements it has, in X and in Y, and how many units its kernel
# has.
SECTION_ROW_X, SECTION_ROW_Y, SECTION_COLUMN, SECTIONS, SECTION_APART_X, SECTION_APART_Y, SECTION_HEADER = range(7)


SECTION_X, SECTION_X_SIZE, SECTION_Y, SECTION_Y_SIZE, SECTION_UNITS, SECTION_PART = range(6)


# The fewest sections of a row that are worth sharing; how many elements of the result a section has; the fewest
# elements of the result of a row that is cut.
FEWEST_SECTIONS, LONG_SECTION, SHORTEST_ROW = 4, 1 << 15, 1 << 14


SHORT_SECTION = 4  # times a window's length is the least of a section: what it shares with the next one is read twice


# For planes, and volumes, that are cut along their first axis. TALL: the fewest windows along it; tables of fewer are
# kept. TALL_SECTION: elements of the result of a section, so many that its kernel asks for memory ahead and streams: in
# sections of 2^15 all took 1.3 to 3 times as long. MOST_ROWS: windows of a section, at most; its tables are kept.
TALL, TALL_SECTION, MOST_ROWS = 1 << 19, 1 << 21, 1 << 17


SHARED_ROWS = 8  # rows from which on there are enough to share; such rows are cut only if their tables would be large


class Section(NamedTuple):
    """A part of a row: the columns [first, stop) that it takes, the columns [first, stop) of the result that it gives,
    and its windows. In a plane of many rows these are the columns.
    """

    taken: tuple[int, int]
    given: tuple[int, int]
    windows: tuple[UniformAxis, ...]


def sections(axes: tuple[UniformAxis, ...], elements: int, images: int,
             invert: bool) -> tuple[int, tuple[Section, ...]] | None:
    """How rows are cut into sections: into how many, and the first, the second and the last of these. A section takes
    elements and gives windows; if `invert`, for a gradient, it takes windows and gives elements. A column of a row has
    `elements` elements.

    None where planes have several rows, but not very many; where rows are short, or many and not very long, and for
    long windows; for gradients also where planes have several rows, where windows are dilated, or an element between
    them is in none.
    """
    if elements * prod([axis.size if invert else axis.n for axis in axes]) < SHORTEST_ROW:  # nearly all calls
        return None
    along = along_which(axes)
    others, axis, behind = axes[:along], axes[along], axes[along + 1 :]
    if behind and (invert or axis.n < TALL):
        return None
    elements *= prod(each.n for each in behind)
    size, n, k, s, d, before, after = axis.size, axis.n, axis.kernel, axis.stride, axis.step, axis.before, axis.after
    span = d * (k - 1) + 1
    if invert and (s > k or any(each.step > 1 for each in axes)):
        return None
    row, apart = (size, s) if invert else (n, 1)  # sections begin at multiples of `apart`
    long = TALL_SECTION if behind else LONG_SECTION
    wanted = max(FEWEST_SECTIONS, -(-row * elements // long), -(-row // MOST_ROWS))
    count = min(wanted, size // (SHORT_SECTION * span))
    if count < FEWEST_SECTIONS:
        return None
    if images >= SHARED_ROWS and row * elements < SHARED_ROWS * LONG_SECTION:
        return None
    length = row // (count * apart) * apart  # of all sections but the last, which is longer by what is left over
    count = row // max(length, 1)
    if count < FEWEST_SECTIONS:
        return None

    def cut(first: int, stop: int) -> Section:
        """The section that gives columns [first, stop)."""
        if invert:
            taken = max(-(-(first + before - k + 1) // s), 0), min((stop - 1 + before) // s + 1, n)
            begin, end, windows = first, stop, taken
        else:
            taken = max(first * s - before, 0), min((stop - 1) * s - before + span, size)
            begin, end, windows = *taken, (first, stop)
        # For gradients all windows are full, even where they reach beyond the section.
        pad = begin - (windows[0] * s - before), k if invert else size + after - end
        part = UniformAxis(end - begin, windows[1] - windows[0], k, s, pad, d, invert or axis.include_pad)
        return Section(taken, (first, stop), (*others, part, *behind))

    final = (count - 1) * length
    # The sections between the first and the last are alike only if no end of the row cuts off what they take.
    alike = (length + before >= k - 1 and (final - 1 + before) // s < n if invert
             else length * s >= before and (final - 1) * s - before + span <= size
             and (length - 1) * s + span > before and final * s - before < size)  # each section holds elements
    return (count, (cut(0, length), cut(length, 2 * length), cut(final, row))) if alike else None


def along_which(axes: tuple[UniformAxis, ...]) -> int:
    """The axis that is cut: the first with more than one element or window, or the last."""
    return next((i for i, axis in enumerate(axes) if axis.size > 1 or axis.n > 1 or axis.before or axis.after),
                len(axes) - 1)


def walk(axis: UniformAxis, elements: int, count: int, parts: tuple[Section, ...], units: Ints, invert: bool,
         columns: Ints = (1, 1)) -> NDArray[np.int64]:
    """The table of `window_sections` for long rows. `units` has the units of the kernels to which the first section,
    the middle ones and the last are left.
    """
    rows = (axis.n, axis.size) if invert else (axis.size, axis.n)
    _, middle, _ = parts
    step = middle.given[1] - middle.given[0]
    apart = (step // axis.stride, step) if invert else (step * axis.stride, step)
    return walk_numbers(rows, elements, count, apart, [(part.taken, part.given) for part in parts], units, columns)


def walk_numbers(rows: Ints, elements: int, count: int, apart: Ints, spans: list[tuple[tuple[int, int], ...]],
                 units: Ints, columns: Ints = (1, 1)) -> NDArray[np.int64]:
    """The table of `window_sections`. `rows` are the columns of a row that are taken and given, `apart` are the columns
    from one section to the next, `spans` are the ranges of columns that three sections take and give, and `units` are
    the units of their kernels. A column has `elements` elements; in a plane of many rows, one that is taken and one
    that is given are so many `columns` of the plane.
    """
    wide = [n * elements for n in columns]
    numbers = [n * w for n, w in zip(rows, wide)] + [elements, count] + [n * w for n, w in zip(apart, wide)]
    for span, several in zip(spans, units, strict=True):
        for (begin, end), w in zip(span, wide):
            numbers += [begin * w, (end - begin) * w]
        numbers.append(several)
    return np.array(numbers, np.int64)


# For gradients that are divided before they are spread. LARGE_BLOCK: gradients of a block, at most, so that the block
# and its result stay in the second cache. SMALL_BLOCK: elements of a block, at least, so that it is worth a call.
# FEWEST_BLOCKS: fewer blocks are too few for threads to share. LONGEST_UNCUT: longer rows are cut if they can
# be, so that tables do not become large.
LARGE_BLOCK, SMALL_BLOCK, FEWEST_BLOCKS, LONGEST_UNCUT = 1 << 15, 1 << 13, 16, 1 << 17


class Block(NamedTuple):
    """Some planes, or some rows of a plane, whose gradients are spread together: it takes elements [first, stop) of the
    upstream gradients, and gives elements [first, stop) of the result.
    """

    taken: tuple[int, int]
    given: tuple[int, int]
    images: int
    windows: tuple[Axis, Axis, Axis]  # of the forward


class Blocks(NamedTuple):
    """How an array is cut into blocks. Blocks form rows: all planes together are one row, or each plane is a row."""

    rows: int
    row: Ints  # elements of a row: of upstream gradients, and of the result
    number: int  # blocks of a row
    apart: Ints  # elements from one block in the middle to the next: of upstream gradients, and of the result
    parts: tuple[Block, Block, Block]  # the first, the second and the last; all between them are like the second


def blocks(axes: tuple[Axis, Axis, Axis], elements: int, images: int) -> Blocks:
    """How to cut gradients of averages into blocks, where windows have divisors of their own. Blocks are divided and
    spread one by one, and a thread keeps the quotients of one block only. A column has `elements` elements.
    """
    taken, given = prod(len(axis.start) for axis in axes) * elements, prod(axis.size for axis in axes) * elements
    long = axes[2].size > LONGEST_UNCUT
    if taken > LARGE_BLOCK or (images < FEWEST_BLOCKS and given > LARGE_BLOCK) or long:
        cut = cut_planes(axes, elements, images)
        if cut is not None:
            return cut
    group = min(LARGE_BLOCK // max(taken, given // 4), max(images // FEWEST_BLOCKS, SMALL_BLOCK // given))
    group = max(min(group // GROUP * GROUP or group, images), 1)  # some kernels take GROUP planes at a time
    count = -(-images // group)

    def block(first: int, stop: int) -> Block:
        return Block((first * taken, stop * taken), (first * given, stop * given), stop - first, axes)

    return Blocks(1, (images * taken, images * given), count, (group * taken, group * given),
                  (block(0, group), block(group, 2 * group), block((count - 1) * group, images)))


def cut_planes(axes: tuple[Axis, Axis, Axis], elements: int, images: int) -> Blocks | None:
    """The same where each plane is cut along its first axis. Pieces are as many as are wanted, or three. None where the
    pieces between the first and the last are not alike, or have elements that are in no window, or windows are dilated;
    that depends neither on `images` nor on `elements`.
    """
    if any(axis.step > 1 for axis in axes):
        return None
    along = next((i for i, axis in enumerate(axes) if axis.size > 1 or len(axis.start) > 1), 2)
    axis, others = axes[along], axes[along + 1 :]
    taken, given = (prod(n) * elements for n in ([len(a.start) for a in others], [a.size for a in others]))
    wanted = max(-(-FEWEST_BLOCKS // images), -(-taken * len(axis.start) // LARGE_BLOCK), 3)
    period = axis.stride or axis.size // gcd(axis.size, len(axis.start))
    least = max(-(-axis.kernel // period), 1) * period  # shorter pieces are not alike at their ends
    if axis.size < 3 * least or (along == 2 and axis.kernel < axis.stride):
        return None
    held = axis.inverse

    def band(begin: int, end: int, first: int, stop: int) -> Block:
        part = axis.replaced(size=stop - first, start=np.maximum(axis.start[begin:end] - first, 0),
                             stop=np.minimum(axis.stop[begin:end], stop) - first, width=axis.width[begin:end],
                             before=axis.before + first - begin * axis.stride if axis.stride else 0)
        windows = three((*axes[:along], part, *others))
        return Block((begin * taken, end * taken), (first * given, stop * given), 1, windows)

    def tables(block: Block) -> bytes:
        part = block.windows[along]
        return np.stack((part.start, part.stop, part.width)).tobytes()

    lengths = max(axis.size // wanted // period * period, least), axis.size // 3 // period * period
    for length in dict.fromkeys(lengths):
        count = axis.size // length
        firsts = np.arange(count) * length
        stops = np.append(firsts[1:], axis.size)
        begins, ends = held.start[firsts], held.stop[stops - 1]
        if (begins >= ends).any() or is_long(axis.kernel, length):
            continue
        first, *middle, last = map(band, *(of.tolist() for of in (begins, ends, firsts, stops)))
        if len(set(map(tables, middle))) == 1 == max(len(set(np.diff(begins[1:-1]).tolist())), 1):
            apart = int(begins[min(2, count - 1)] - begins[1]) * taken, length * given
            return Blocks(images, (len(axis.start) * taken, axis.size * given), count, apart, (first, middle[0], last))
    return None


def some_indices(room, count):
    """A tuple of an array of `count` indices out of `room`; () if `room` is None."""


@by_types(some_indices)
def _some_indices(room, count):
    if isinstance(room, types.NoneType):
        return lambda room, count: ()
    return lambda room, count: (room[:count],)


def room_for_quotients(shares, size):
    """An array for `size` quotients; None where nothing is divided."""


@by_types(room_for_quotients)
def _room_for_quotients(shares, size):
    if isinstance(shares, types.NoneType):
        return lambda shares, size: None
    return lambda shares, size: empty(shares[0][0], size)


def taken_from(x, begin, size, shares, kind, room):
    """`size` elements of x, from `begin` on. If there are `shares`, these are divided into `room`. An element's divisor
    is the product of two shares of this `kind` of section: the share of its row, and the share of its place in the row.
    The rows that have shares are repeated as often as needed.
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


@inlined
def moved(places, offset, nowhere):
    """Indices that count from another place; -1 stays."""
    return select(equal(places, nowhere), places, add(places, offset))


@worker
def window_sections(lo, hi, x, y, index, shares, kernels, first, middle, last, walk):
    """Sections [lo, hi), counted through all rows, as `sections` or `blocks` cuts them. If there are `shares`, each
    section is divided first; then there are no indices.

    Three kernels do the work: for the first section of a row, for those in the middle, and for the last. `kernels` are
    the addresses of their code, so that the code is not compiled once more as a part of this function. `first`,
    `middle` and `last` are their arguments behind the arrays. Their indices count from the beginning of the section, so
    that its place is added here. What they return is added up.
    """
    many, most, found = walk[SECTIONS], 0, 0
    for part in range(SECTION_HEADER, walk.size, SECTION_PART):
        most = max(most, walk[part + SECTION_X_SIZE])
    quotients = room_for_quotients(shares, most + LANES)
    # The last section is the longest.
    room = empty(index, walk[SECTION_HEADER + 2 * SECTION_PART + SECTION_Y_SIZE] + LANES)
    nowhere = indices(-1, 0)
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
            result = call_worker(kernels[0], units, source, target, places + first)
        elif kind == 1:
            result = call_worker(kernels[1], units, source, target, places + middle)
        else:
            result = call_worker(kernels[2], units, source, target, places + last)
        if result < 0:
            raise MemoryError
        found += result
        if index is not None:
            offset, whole = indices(column // walk[SECTION_COLUMN], 0), count // LANES * LANES
            for i in range(0, whole, LANES):
                store(index, out + i, moved(load(room, i), offset, nowhere))
            store_some(index, out + whole, moved(load(room, whole), offset, nowhere), lanes_inside(0, count - whole))
    return found
