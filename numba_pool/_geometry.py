"""Arguments in, windows out: where every window of a pooling operation starts and stops, or the error.

Pure Python on integers. One `Axis` per spatial axis says, for each output position, where its window starts and stops
in the input and by how much its sum is divided, so that padding, dilation, ceil mode, adaptive, fractional and global
windows differ only in these tables. Spatial rank 1 and 2 are rank 3 with leading axes of length one.

The formulas are PyTorch's (``aten/src/ATen/native/Pool.h``), re-derived and checked against version 2.13.
"""

import operator
from collections.abc import Sequence
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]
MOST_ROOM = 1 << 20  # bytes of the rows of a window, reduced along it
LIMIT = 2**31 - 1  # of every size argument: products of three stay far from where float64 stops counting


class Axis(NamedTuple):
    """The windows along one axis: the taps of output ``o`` are ``range(start[o], stop[o], step)``."""

    size: int  # input length
    start: NDArray[np.int64]
    stop: NDArray[np.int64]  # exclusive; not above start where no tap is valid
    step: int
    width: NDArray[np.int64]  # what this axis contributes to an average's divisor
    stride: int  # distance of neighbouring windows, 0 where it is not uniform
    kernel: int  # taps of a window that nothing clips, 0 where it is not uniform
    before: int  # padding before the first element
    apart: int = 1  # every how many windows the pattern of their widths repeats


# One missing axis: a single window over a single element.
POINT = Axis(1, np.zeros(1, np.int64), np.ones(1, np.int64), 1, np.ones(1, np.int64), 1, 1, 0)


def shown(value: Any) -> str:
    """A value in an error message; of an array its shape, which most likely was meant."""
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None else f"an array; its shape is {shape}"


def integer(value: Any, name: str) -> int:
    """``value`` as an int; bools and floats are not integers here."""
    if type(value) is int:
        return value
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int or a tuple of ints, got {value!r} of type {type(value).__name__}")
    try:
        return operator.index(value)
    except TypeError:  # an array that is no scalar
        raise TypeError(f"{name} must be an int or a tuple of ints, got {shown(value)}") from None


def bounded(value: int, name: str, least: int) -> int:
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    if value > LIMIT:
        raise ValueError(f"{name} must be at most {LIMIT}, got {value}")
    return value


def entries(value: Any, rank: int, name: str, short: bool = True) -> Sequence[Any]:
    """One entry per axis: a scalar, or if `short` a tuple of length one, stands for every axis."""
    if isinstance(value, (tuple, list)):
        if len(value) == 1 and short:
            return tuple(value) * rank
        if len(value) != rank:
            one = "one entry, or " if short else ""
            raise ValueError(f"{name} must have {one}one per spatial axis ({rank}), got {value!r}")
        return value
    return (value,) * rank


def sizes(value: Any, rank: int, name: str, least: int = 1, short: bool = True) -> Ints:
    """An int per spatial axis, each at least ``least``."""
    return tuple(bounded(integer(v, name), name, least) for v in entries(value, rank, name, short))


def strides(value: Any, rank: int, kernel: Ints) -> Ints:
    """The stride per axis; None or an empty tuple stands for the kernel size."""
    if value is None or (isinstance(value, (tuple, list)) and not value):
        return kernel
    return sizes(value, rank, "stride")


def paddings(value: Any, rank: int, size: Ints, kernel: Ints, stride: Ints, dilation: Ints, ceil_mode: bool) -> Pads:
    """(before, after) per axis, from ints, pairs or the names 'valid', 'same' and 'same_lower'."""
    if isinstance(value, str):
        if value == "valid":
            return ((0, 0),) * rank
        if value not in ("same", "same_lower"):
            raise ValueError(f"padding must be ints, pairs, 'valid', 'same' or 'same_lower', got {value!r}")
        pads = []
        for length, k, s, d in zip(size, kernel, stride, dilation):
            total = max(0, (-(-length // s) - 1) * s + d * (k - 1) + 1 - length)
            small = total // 2
            pads.append((small, total - small) if value == "same" else (total - small, small))
        return tuple(pads)
    if rank == 1 and isinstance(value, (tuple, list)) and len(value) == 2:
        raise ValueError(f"padding must have one entry for one spatial axis, which for a pair is ({value!r},), "
                         f"got {value!r}")
    pads = []
    for entry, k, d in zip(entries(value, rank, "padding"), kernel, dilation):
        if isinstance(entry, (tuple, list)):
            if len(entry) != 2:
                raise ValueError(f"padding must be an int or a (before, after) pair per axis, got {value!r}")
            pair = tuple(bounded(integer(v, "padding"), "padding", 0) for v in entry)
            if max(pair) > d * (k - 1):
                raise ValueError(
                    f"padding must be at most the effective kernel size minus 1 on each side, "
                    f"{d * (k - 1)} for kernel_size {k} and dilation {d}, got {entry!r}"
                )
            pads.append((pair[0], pair[1]))
        else:
            p = bounded(integer(entry, "padding"), "padding", 0)
            if p > k // 2:
                raise ValueError(f"padding must be at most half of kernel_size, {k // 2} for a kernel of {k}, got {p}; "
                                 "as a pair (before, after) it may be more")
            pads.append((p, p))
    return tuple(pads)


def output_length(length: int, k: int, s: int, pad: tuple[int, int], d: int, ceil_mode: bool) -> int:
    """Number of windows along one axis."""
    before, after = pad
    n = (length + before + after - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
    if ceil_mode and (n - 1) * s >= length + before:
        n -= 1  # the last window has to start inside the input or the padding before it
    return n


def uniform_axis(length: int, n: int, k: int, s: int, pad: tuple[int, int], d: int, include_pad: bool) -> Axis:
    """``n`` windows of ``k`` taps at a constant stride."""
    before, after = pad
    first = np.arange(n, dtype=np.int64) * s - before
    last = first + d * (k - 1) + 1
    # Clipped taps keep their alignment: the first tap of a clipped window is the first multiple of d inside.
    start = np.where(first < 0, first + -(first // d) * d, first)
    stop = np.minimum(last, length)
    if include_pad:  # the padded extent counts, what ceil mode lets hang over it does not
        end = np.minimum(last, length + after)
        count = -(-(end - first) // d)
    else:
        count = np.maximum(-(-(stop - start) // d), 0)
    return Axis(length, start, stop, d, count, s, k, before)


def adaptive_axis(length: int, n: int) -> Axis:
    """``n`` windows that cover ``length`` elements, overlapping where n does not divide it."""
    o = np.arange(n, dtype=np.int64)
    start, stop = o * length // max(n, 1), -(-(o + 1) * length // max(n, 1))
    if n and length % n == 0:
        return Axis(length, start, stop, 1, stop - start, length // n, length // n, 0)
    return Axis(length, start, stop, 1, stop - start, 0, 0, 0)


class Grid(NamedTuple):
    """What a call with uniform windows comes down to, per spatial axis."""

    size: Ints
    output: Ints
    kernel: Ints
    stride: Ints
    pads: Pads
    dilation: Ints

    def axes(self, include_pad: bool = True) -> tuple[Axis, Axis, Axis]:
        return three(
            tuple(
                uniform_axis(length, n, k, s, pad, d, include_pad)
                for length, n, k, s, pad, d in zip(self.size, self.output, self.kernel, self.stride, self.pads,
                                                   self.dilation)
            )
        )

    def is_even(self, include_pad: bool) -> bool:
        """Whether the divisors of all averages are the same, those of a window that nothing clips."""
        return all(
            (n - 1) * s - before + d * (k - 1) + 1 <= length + (after if include_pad else 0)
            and (include_pad or not before)
            for length, n, k, s, (before, after), d in zip(self.size, self.output, self.kernel, self.stride, self.pads,
                                                           self.dilation)
        )


def grid(size: Ints, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Grid:
    """Validate the window arguments against an input of spatial shape ``size``."""
    rank = len(size)
    if not isinstance(ceil_mode, (bool, np.bool_)):
        raise TypeError(f"ceil_mode must be a bool, got {ceil_mode!r}")
    k = sizes(kernel_size, rank, "kernel_size")
    s = strides(stride, rank, k)
    d = sizes(dilation, rank, "dilation")
    pads = paddings(padding, rank, size, k, s, d, bool(ceil_mode))
    if isinstance(padding, str) and padding != "valid":
        output = tuple(-(-length // step) for length, step in zip(size, s))
    else:
        output = tuple(output_length(*axis, bool(ceil_mode)) for axis in zip(size, k, s, pads, d))
    if min(output) < 1:
        raise ValueError(
            f"kernel_size {k} with stride {s}, padding {pads} and dilation {d} leaves no output "
            f"for an input of spatial shape {size}: output {output}"
        )
    return Grid(size, output, k, s, pads, d)


# The walk of rows in sections: elements from one row to the next, of both arrays; elements of a column, sections of a
# row, elements from one section to the next, of both arrays. Then the first section, those in the middle (the second)
# and the last: where it begins and how many elements it has, in both arrays, and units of its kernel.
SECTION_ROW_X, SECTION_ROW_Y, SECTION_COLUMN, SECTIONS, SECTION_APART_X, SECTION_APART_Y, SECTION_HEADER = range(7)
SECTION_X, SECTION_X_SIZE, SECTION_Y, SECTION_Y_SIZE, SECTION_UNITS, SECTION_PART = range(6)
# Sections of a row, fewer than which are too few to share; elements that one gives; elements of the shortest row that
# is cut: 25,000 maxima over 4 samples take 21 us as a whole, 23 in sections, 15 by two threads.
FEWEST_SECTIONS, LONG_SECTION, SHORTEST_ROW = 4, 1 << 15, 1 << 14
SHORT_SECTION = 4  # times as long as a window, or too much of it is read for the next one, too
SHARED_ROWS = 8  # rows that are enough to share; they are cut where their tables would be large


class Section(NamedTuple):
    """Columns of a row that are taken and given together, [first, stop) of each, and their windows."""

    taken: tuple[int, int]
    given: tuple[int, int]
    windows: Grid


def sections(grid: Grid, elements: int, images: int, invert: bool) -> tuple[int, tuple[Section, ...]] | None:
    """How rows are cut into sections: into how many, and the first, the second and the last of these. What is given is
    a window each; if `invert`, an element, and what is taken are the windows that it is in. A column of a row is so
    many elements.

    None where planes are more than one row, where rows are short, or many and not very long, and for long windows; for
    gradients also where windows are dilated, or elements between them are in none.
    """
    if prod(grid.size[:-1]) != 1 or prod(grid.output[:-1]) != 1 or any(max(pad) for pad in grid.pads[:-1]):
        return None
    size, n, k, s, d = grid.size[-1], grid.output[-1], grid.kernel[-1], grid.stride[-1], grid.dilation[-1]
    before, after = grid.pads[-1]
    span = d * (k - 1) + 1
    if invert and (s > k or max(grid.dilation) > 1):
        return None
    row, apart = (size, s) if invert else (n, 1)  # sections begin at its multiples
    count = min(max(FEWEST_SECTIONS, -(-row * elements // LONG_SECTION)), size // (SHORT_SECTION * span))
    if count < FEWEST_SECTIONS or row * elements < SHORTEST_ROW:
        return None
    if images >= SHARED_ROWS and row * elements < SHARED_ROWS * LONG_SECTION:
        return None
    length = row // (count * apart) * apart  # of all but the last, which has what is left besides
    count = row // max(length, 1)
    if count < FEWEST_SECTIONS:
        return None

    def cut(first: int, stop: int) -> Section:
        """The section that gives these."""
        if invert:
            taken = max(-(-(first + before - k + 1) // s), 0), min((stop - 1 + before) // s + 1, n)
            begin, end, windows = first, stop, taken
        else:
            taken = max(first * s - before, 0), min((stop - 1) * s - before + span, size)
            begin, end, windows = *taken, (first, stop)
        # Gradients are those of windows that are all as wide, also where they leave the section.
        pad = begin - (windows[0] * s - before), k if invert else size + after - end
        return Section(taken, (first, stop),
                       Grid((*grid.size[:-1], end - begin), (*grid.output[:-1], windows[1] - windows[0]), grid.kernel,
                            grid.stride, (*grid.pads[:-1], pad), grid.dilation))

    final = (count - 1) * length
    # Those before it are alike but for the first: nothing that they take is cut off by an end of the row.
    alike = (length + before >= k - 1 and (final - 1 + before) // s < n if invert
             else length * s >= before and (final - 1) * s - before + span <= size)
    return (count, (cut(0, length), cut(length, 2 * length), cut(final, row))) if alike else None


def walk(grid: Grid, elements: int, count: int, parts: tuple[Section, ...], units: Ints,
         invert: bool) -> NDArray[np.int64]:
    """The numbers that a kernel goes by from one section to the next; `units` of the kernel that each is left to."""
    rows = (grid.output[-1], grid.size[-1]) if invert else (grid.size[-1], grid.output[-1])
    _, middle, _ = parts
    step = middle.given[1] - middle.given[0]
    apart = (step // grid.stride[-1], step) if invert else (step * grid.stride[-1], step)
    return walk_numbers(rows, elements, count, apart, [(part.taken, part.given) for part in parts], units)


def walk_numbers(rows: Ints, elements: int, count: int, apart: Ints, spans: list[tuple[tuple[int, int], ...]],
                 units: Ints) -> NDArray[np.int64]:
    """The same for rows of so many columns, what is taken and given from one section to the next, and the spans of
    these in three sections: all of them in columns of so many `elements`.
    """
    numbers = [n * elements for n in rows] + [elements, count] + [n * elements for n in apart]
    for span, several in zip(spans, units, strict=True):
        for begin, end in span:
            numbers += [begin * elements, (end - begin) * elements]
        numbers.append(several)
    return np.array(numbers, np.int64)


# Of gradients that are divided before they are spread: those of a block of planes, or of rows of one, which stay in the
# second cache with what is made of them; elements of a block, fewer than which are not worth a call; blocks, fewer than
# which are too few to share; and elements of the longest row that is not cut, or its tables would be large.
LARGE_BLOCK, SMALL_BLOCK, FEWEST_BLOCKS, LONGEST_UNCUT = 1 << 15, 1 << 13, 16, 1 << 17


class Block(NamedTuple):
    """Planes, or rows of one, whose gradients are spread together: elements [first, stop) of upstream gradients, and of
    what they are spread to.
    """

    taken: tuple[int, int]
    given: tuple[int, int]
    images: int
    windows: tuple[Axis, Axis, Axis]  # of the forward


class Blocks(NamedTuple):
    """All planes together as a row of blocks, or each as one."""

    rows: int
    row: Ints  # elements of a row, of upstream gradients and of what they are spread to
    number: int  # of blocks to a row
    apart: Ints  # elements from one block in the middle to the next, of both
    parts: tuple[Block, Block, Block]  # the first, the second and the last; all between them are like the second


def blocks(axes: tuple[Axis, Axis, Axis], elements: int, images: int) -> Blocks | None:
    """How gradients of windows without dilation, each with a divisor of its own, are cut into blocks, to be divided and
    spread one by one: a thread keeps the quotients of one. A column is so many elements. None for long rows that cannot
    be cut.
    """
    taken, given = prod(len(axis.start) for axis in axes) * elements, prod(axis.size for axis in axes) * elements
    long = axes[2].size > LONGEST_UNCUT
    if taken > LARGE_BLOCK or (images < FEWEST_BLOCKS and given > LARGE_BLOCK) or long:
        cut = bands(axes, elements, images)
        if cut is not None or long:
            return cut
    group = min(LARGE_BLOCK // max(taken, given // 4), max(images // FEWEST_BLOCKS, SMALL_BLOCK // given))
    group = max(min(group // CLUSTER * CLUSTER or group, images), 1)  # some kernels take so many planes at a time
    count = -(-images // group)

    def block(first: int, stop: int) -> Block:
        return Block((first * taken, stop * taken), (first * given, stop * given), stop - first, axes)

    return Blocks(1, (images * taken, images * given), count, (group * taken, group * given),
                  (block(0, group), block(group, 2 * group), block((count - 1) * group, images)))


def bands(axes: tuple[Axis, Axis, Axis], elements: int, images: int) -> Blocks | None:
    """The same for planes that are each cut into bands along their first axis, as many as are wanted, or three. None,
    for whatever images and elements, where these are not alike but for the first and the last, or in no window.
    """
    along = next((i for i, axis in enumerate(axes) if axis.size > 1 or len(axis.start) > 1), 2)
    axis, others = axes[along], axes[along + 1 :]
    taken, given = (prod(n) * elements for n in ([len(a.start) for a in others], [a.size for a in others]))
    wanted = max(-(-FEWEST_BLOCKS // images), -(-taken * len(axis.start) // LARGE_BLOCK), 3)
    period = axis.stride or axis.size // gcd(axis.size, len(axis.start))
    least = max(-(-axis.kernel // period), 1) * period  # shorter ones are not alike at the ends
    if axis.size < 3 * least or (along == 2 and axis.kernel < axis.stride):
        return None
    held = inverse_axis(axis)

    def band(begin: int, end: int, first: int, stop: int) -> Block:
        part = axis._replace(size=stop - first, start=np.maximum(axis.start[begin:end] - first, 0),
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


def adaptive(size: Ints, output_size: Any) -> Ints:
    """Output shape of adaptive pooling; None keeps an axis."""
    rank = len(size)
    return tuple(
        length if v is None else bounded(integer(v, "output_size"), "output_size", 0)
        for v, length in zip(entries(output_size, rank, "output_size"), size)
    )


def adaptive_axes(size: Ints, output: Ints) -> tuple[Axis, Axis, Axis]:
    return three(tuple(adaptive_axis(length, n) for length, n in zip(size, output)))


def input_shape(value: Any, rank: int, lead: Ints) -> Ints:
    """Validate the `input_shape` of a backward against the batch and channel axes of `grad_output`."""
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"input_shape must be a tuple of ints, got {shown(value)}")
    shape = tuple(bounded(integer(n, "input_shape"), "input_shape", 0) for n in value)
    if len(shape) != rank + len(lead):
        raise ValueError(
            f"grad_output and input_shape must have as many axes, got {rank + len(lead)} and {len(shape)} of "
            f"input_shape {shape}"
        )
    if shape[:-rank] != lead:
        raise ValueError(
            f"grad_output and input_shape must agree in the batch and channels, got {lead} and {shape[:-rank]} of "
            f"input_shape {shape}"
        )
    return shape


def check_not_empty(shape: Ints, rank: int) -> None:
    if 0 in shape[-rank:]:
        raise ValueError(f"input_shape must have no empty spatial axis, got {shape}")


def check_output(shape: Ints, expected: Ints, source: str = "") -> None:
    """That a gradient has the shape of the output, `source` being whose: either may be the wrong one."""
    if shape != expected:
        raise ValueError(f"grad_output must have shape {expected}, that of the output{source}, got {shape}")


def three(axes: tuple[Axis, ...]) -> tuple[Axis, Axis, Axis]:
    """The axes as (D, H, W)."""
    d, h, w = (POINT,) * (3 - len(axes)) + axes
    return d, h, w


# The header of a geometry array, before the tables. Kernels index it by these numbers.
CHANNELS, DEPTH, HEIGHT, WIDTH, OUT_D, OUT_H, OUT_W = range(7)
STEP, STRIDE, KERNEL, BEFORE = 7, 10, 13, 16
# 1 for channels-last memory; how many planes there are; elements of the largest window.
LAST, PLANES, TAPS = 19, 20, 21
MOST_H, MOST_W = 22, 23  # elements of the longest window along H and W
LANES_AT = 24  # where a `RowLanes` stands behind the tables, 0 where there is none
APART = 25  # every how many windows along W the pattern of their widths repeats
HEADER = 26
LANES_HEADER = 6  # its numbers before the lanes

VECTOR = 16  # lanes of a vector in kernels
MOST_LANE_TAPS = 16  # columns of a window that `window_rows` picks
FIRST_TAPS = 5  # of these, what it keeps in registers


class RowLanes(NamedTuple):
    """How vectors hold the windows of a row: tap t of output i of a step is a lane of two vectors together."""

    taps: int  # columns of a window at most
    together: int  # rows of the output to a step, 1 or 2; then each vector holds the columns of one
    outputs: int  # elements of a row of the output to a step, at most two vectors of them
    first: int  # element of a row of the input in the first lane of the first step
    advance: int  # elements from one step to the next
    room: int  # lanes of the second vector that are loaded: the last may have to hold nothing
    lanes: NDArray[np.int64]  # (2, FIRST_TAPS, VECTOR): of the first sixteen outputs, and of the second
    columns: NDArray[np.int64]  # (2 * VECTOR,): of the lanes of both vectors
    others: NDArray[np.int32] | None  # flat: of the taps behind the first ones, if there are any


def row_lanes(axis: Axis, invert: bool, channels: int) -> RowLanes | None:
    """For windows along an axis, or if `invert` for the windows that hold each of its elements. A column of a row is
    `channels` elements. None where the windows are not uniform, do not fit into the lanes, or may be empty.
    """
    k, s, d, before = axis.kernel, axis.stride, axis.step, axis.before
    taps = -(-k // s) if invert and s else k
    if not 1 <= taps <= MOST_LANE_TAPS or not len(axis.start) or (axis.start >= axis.stop).any():
        return None
    if d > 1 and (before or invert):
        return None
    n = (axis.size if invert else len(axis.start)) * channels
    phase = before % s
    o, channel = np.divmod(np.arange(2 * VECTOR, dtype=np.int64), channels)
    tap = np.arange(taps, dtype=np.int64)[:, None]
    if invert:  # from the leftmost window to the rightmost, which begins last
        lanes = (phase + o) // s + tap
        missing = (phase + o) % s + (taps - 1 - tap) * s >= k
        first, room = before // s - (taps - 1), VECTOR - 1 if k % s else VECTOR
    else:
        lanes = o * s + tap * d
        missing = np.zeros(lanes.shape, bool)
        first, room = -before, VECTOR
    lanes = lanes * channels + channel
    # Elements whose windows two vectors hold, and one: up to the first that does not fit. The next may fit again, where
    # several elements are in the same windows.
    last = lanes.max(axis=0)
    inside = int(np.logical_and.accumulate(last < VECTOR + room).sum()) // channels
    half = int(np.logical_and.accumulate(last < room).sum())
    together = 2 if n <= min(half, VECTOR) else 1
    if invert:
        inside -= inside % s  # every step begins at the same phase
    if together == 2:  # both rows in a vector of outputs, or one in each
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
    return RowLanes(taps, together, inside * channels, first * channels, advance * channels, room, table,
                    np.arange(2 * VECTOR) // channels, others)


class Strips(NamedTuple):
    """What `window_strips` compiles its code for, by the lengths of tuples, and how it picks windows out of a row."""

    above: Ints  # rows of a window that the one above it has passed on
    below: Ints  # its other rows
    halves: Ints  # where the vectors of windows of a step begin, one or two
    picks: Ints  # the taps along a row of each of these
    rows: Ints  # of windows to a step, one or two; then each has a vector of the input
    planes: Ints  # the same of planes, or images
    table: NDArray[np.int32]  # VECTOR each: lanes of all picks in two vectors, then the places there


def paired(axes: tuple[Axis, Axis, Axis], lanes: RowLanes, channels: int) -> tuple[int, int]:
    """How many (rows of windows, planes) `window_strips` walks at a time: two of one of these where the windows of two
    rows fit into a vector, rows of those that share none and lie within the plane.
    """
    _, height, width = axes
    if lanes.together == 1 or 2 * len(width.start) * channels > VECTOR:
        return 1, 1
    inside = all((axis.stop - axis.start == axis.kernel).all() for axis in (height, width))
    return (2, 1) if inside and height.kernel <= height.stride else (1, 2)


def strips(axes: tuple[Axis, Axis, Axis], lanes: RowLanes, channels: int) -> Strips:
    """For windows whose rows are uniform, without dilation, and columns lie in these lanes."""
    _, height, width = axes
    above = max(height.kernel - height.stride, 0)
    halves = 1 if min(lanes.outputs, len(width.start) * channels) <= VECTOR else 2
    taps = lanes.lanes[:, : lanes.taps]
    if lanes.others is not None:
        taps = np.append(taps, lanes.others.astype(np.int64).reshape(2, -1, VECTOR), axis=1)
    taps = taps[:halves]
    rows, planes = paired(axes, lanes, channels)
    places = lanes.columns
    if rows * planes == 2:
        places = np.append(places[:VECTOR], places[:VECTOR] + (rows - 1) * height.stride * width.size)
    table = np.stack((taps, places[taps])).astype(np.int32).ravel()
    return Strips(tuple(range(above)), tuple(range(above, height.kernel)), tuple(range(0, halves * VECTOR, VECTOR)),
                  tuple(range(halves * lanes.taps)), tuple(range(rows)), tuple(range(planes)), table)


# The numbers of a step: the columns where both vectors begin, its hops, the places of its two vectors of outputs, four
# masks (lanes of both vectors and of both outputs), what its rows add to the divisor, the elements where both vectors
# begin, and which output of its row is its first.
COLUMN_A, COLUMN_B, HOPS, PLACE_A, PLACE_B, MASKS, ROWS_TAPS, AT_A, AT_B, POSITION = range(10)
STEP_SIZE = 10
FEW_STEPS = 8  # are over before they are worth the start: so many at least are walked at a time


def row_steps(axes: tuple[Axis, Axis, Axis], lanes: RowLanes, channels: int) -> NDArray[np.int64]:
    """All steps of a plane, or of an image of so many channels, row by row. A step takes the outputs of a row that two
    vectors hold, or two rows with as many taps.

    Four numbers: how many planes are walked as one, where the steps of a plane alone begin, where those of such a group
    do and end. Then the hops, from the first row of a window to each in columns, and -1 at the end: LLVM unrolls loops
    that it can count, and these are short. Then the steps.
    """
    depth, height, width = axes
    row, long = width.size * channels, len(width.start) * channels
    pairs, outputs = lanes.together == 2, lanes.outputs
    apart = pairs and 2 * long > VECTOR  # each row of a pair has a vector of outputs of its own
    extents = [(max(int(d1 - d0), 0), max(int(h1 - h0), 0), int(d0 * height.size + h0) * width.size, int(nd * nh))
               for d0, d1, nd in zip(depth.start, depth.stop, depth.width)
               for h0, h1, nh in zip(height.start, height.stop, height.width)]
    rows, plane, numbers = len(extents), depth.size * height.size * row, [0, 0, 0, 0]
    listed: dict[tuple[int, int], int] = {}
    for deep, high, *_ in extents:
        if (deep, high) not in listed:
            listed[deep, high] = len(numbers)
            numbers += [(d * height.size + h) * width.size for d in range(0, deep, depth.step)
                        for h in range(0, high, height.step)]
            numbers.append(-1)

    def inside(first: int, stop: int) -> int:
        """The mask of the lanes i with 0 <= first + i < stop."""
        return ((1 << min(max(stop - first, 0), VECTOR)) - 1) & ~((1 << min(max(-first, 0), VECTOR)) - 1)

    def write(planes: int) -> None:
        paired: set[int] = set()
        for i in range(planes * rows):
            if i in paired:
                continue
            deep, high, spot, taps = extents[i % rows]
            for position in range(0, long, long if pairs else outputs):
                c = int(lanes.first + position // outputs * lanes.advance)
                a = b = spot + c // channels
                at_a = i // rows * plane + a * channels
                at_b, c_b = (at_a, c) if pairs else (at_a + VECTOR, c + VECTOR)
                count = long if pairs else min(outputs, long - position)
                out, second = i * long + position, count - VECTOR
                out_b = out + VECTOR
                for j in range(i + 1, min(i + (4 if apart else 2), planes * rows)) if pairs else ():
                    other_deep, other_high, other, other_taps = extents[j % rows]
                    if j not in paired and (other_deep, other_high, other_taps) == (deep, high, taps):
                        paired.add(j)
                        b = other + c // channels
                        at_b = j // rows * plane + b * channels
                        if apart:
                            out_b, second = j * long, long
                        else:
                            count = 2 * long
                        break
                masks = (inside(c, row) | inside(c_b, min(row, c_b + lanes.room)) << VECTOR
                         | inside(0, count) << 2 * VECTOR | inside(0, second) << 3 * VECTOR)
                numbers.extend((a, b, listed[deep, high], out, out_b, masks - (masks >> 63 << 64), taps, at_a, at_b,
                                position))

    alone = len(numbers)
    write(1)
    steps = (len(numbers) - alone) // STEP_SIZE
    group = 2 if pairs and rows % 2 else 1  # or half a step would be idle
    while group * steps < FEW_STEPS:
        group *= 2
    begin = alone
    if group > 1:
        begin = len(numbers)
        write(group)
    numbers[:4] = group, alone, begin, len(numbers)
    return np.array(numbers, np.int64)


class Narrow(NamedTuple):
    """How `narrow_rows` walks planes."""

    table: NDArray[np.int32]  # NARROW_HEADER numbers, NARROW_BLOCK for each block, the steps, the hops
    masks: NDArray[Any]  # for each vector of taps along a row: a number of an element's size, all bits or none
    units: int


# The header: planes to a group, walked as one; blocks of each; elements from one row to the next once rows are reduced
# downwards; the most rows of the input to a block, and of the output; vectors of taps along a row, how far each
# is from the one before, and the first before the row.
GROUPED, BLOCKS, ROWS_PITCH, ROWS_IN, ROWS_OUT, ALONG, ALONG_HOP, ALONG_BEFORE, NARROW_HEADER = range(9)
# A block: its first row of the input, how many; where its steps begin and end; its first row of the output, how many.
NARROW_BLOCK = 6
NARROW_STEP = 3
BLOCK_BYTES = 1 << 13  # of a block's input: what is made of it stays in the first cache besides
MOST_BLOCK_BYTES = 1 << 18  # of the input of a single row of the output
MOST_ALONG, MOST_DOWN = 5, 12  # columns of a window, as many as `narrow.largest` takes; rows in all of its slices
MOST_NARROW_ROWS = 1 << 14  # of the output of a plane or a group, of which each is looked at once
MOST_MARGIN = 16  # elements before a row and behind it that are looked at: no more than a vector
SHORT_ROW = 40  # bytes, below which vectors that end with the row are too few of them in use
MANY_UNITS = 16  # or more are left where planes are walked in groups


def narrow(axes: tuple[Axis, Axis, Axis], planes: int, itemsize: int) -> Narrow | None:
    """For planes of elements of so many bytes. None where windows are not alike along rows at stride 1 or 2, where they
    are large, or may be empty, and where rows are short.
    """
    depth, height, width = axes
    stride, columns, before, row, outputs = width.stride, width.kernel, width.before, width.size, len(width.start)
    whole = depth.size * height.size  # rows of a plane
    if (stride not in (1, 2) or not 1 <= columns <= MOST_ALONG or (stride == 2 and width.step > 1)
            or max(before, (columns - 1) * width.step) > MOST_MARGIN
            or longest(depth) * longest(height) > MOST_DOWN or whole > LIMIT
            or len(depth.start) * len(height.start) > MOST_NARROW_ROWS
            or any(not len(axis.start) or (axis.start >= axis.stop).any() for axis in axes)):
        return None
    vector = max(64 // itemsize, VECTOR)  # elements, as many as the kernel's type says
    flat = stride == height.stride == 1 and outputs == row  # whole vectors, without regard to where rows end
    if not flat and row * itemsize < SHORT_ROW:
        return None
    pitch = max(-(-row // stride), outputs) * stride
    if pitch > stride * outputs and stride == itemsize == 2:  # 3x3/2 of float16, 112x112 to 55x55: 1.16 times as long
        return None
    extents = [(int(d0) * height.size + int(h0), int(d1 - 1) * height.size + int(h1), int(d1 - d0), int(h1 - h0))
               for d0, d1 in zip(depth.start, depth.stop) for h0, h1 in zip(height.start, height.stop)]
    span = max(stop - start for start, stop, *_ in extents)
    if span * row * itemsize > MOST_BLOCK_BYTES:
        return None
    room = max(BLOCK_BYTES // (row * itemsize), span)  # rows of the input to a block
    group = max(1, min(room // whole, planes // MANY_UNITS, MOST_NARROW_ROWS // len(extents)))
    blocks, steps, hops = narrow_blocks(
        [(i * whole + start, i * whole + stop, deep, high)
         for i in range(group) for start, stop, deep, high in extents], axes, room, pitch, vector)
    distances = range(-before, columns * width.step - before, width.step if stride == 1 else 2)
    column = np.arange(pitch + vector) % pitch
    inside = [(column + distance >= 0) & (column + distance < row) for distance in distances]
    if stride == 2 and columns % 2:  # the last column of a window alone
        inside[-1] &= column % 2 == 0
    masks = -np.concatenate(inside).astype(f"u{itemsize}")  # 1 becomes all bits
    steps_at = NARROW_HEADER + NARROW_BLOCK * len(blocks)
    hops_at = steps_at + NARROW_STEP * len(steps)
    numbers = [group, len(blocks), pitch, max(block[1] for block in blocks), max(block[5] for block in blocks),
               len(distances), distances.step, before]
    for bottom, count, begin, end, output, rows in blocks:
        numbers += [bottom, count, steps_at + NARROW_STEP * begin, steps_at + NARROW_STEP * end, output, rows]
    for source, target, taps in steps:
        numbers += [source, target, hops_at + taps]
    return Narrow(np.array(numbers + hops, np.int32), masks, -(-planes // group) * len(blocks))


def narrow_blocks(extents: list[tuple[int, int, int, int]], axes: tuple[Axis, Axis, Axis], room: int, pitch: int,
                  vector: int) -> tuple[list[tuple[int, ...]], list[tuple[int, int, int]], list[int]]:
    """(blocks, steps, hops): rows of the output by blocks of up to `room` rows that take as many of the input. Of each
    row the extent is given: its first row of the input, the one behind its last, and how long its windows are in depth
    and height.

    A step reduces a vector of elements downwards: it begins at an element of the block's input, goes to one of those
    that are left, `pitch` to a row, and finds its other taps by hops, from the first on; 0 is the end of these. Blocks
    that are alike have the same steps.
    """
    depth, height, width = axes
    row = width.size
    blocks: list[tuple[int, ...]] = []
    steps: list[tuple[int, int, int]] = []
    hops: list[int] = []
    listed: dict[tuple[int, int], int] = {}
    walked: dict[tuple[Any, ...], tuple[int, int]] = {}
    first = 0
    while first < len(extents):
        bottom, top = extents[first][:2]
        last = first
        while last < len(extents):
            start, stop = min(bottom, extents[last][0]), max(top, extents[last][1])
            if stop - start > room or last - first == room:  # clipped windows may all begin at the same row
                break
            bottom, top, last = start, stop, last + 1
        rows = tuple((start - bottom, deep, high) for start, _, deep, high in extents[first:last])
        if rows not in walked:
            runs: list[list[int]] = []  # of elements that follow each other: from, to, until, hops
            for i, (start, deep, high) in enumerate(rows):
                if (deep, high) not in listed:
                    listed[deep, high] = len(hops)
                    hops += [(d * height.size + h) * row for d in range(0, deep, depth.step)
                             for h in range(0, high, height.step)][1:] + [0]
                if pitch == row and i and rows[i - 1] == (start - 1, deep, high):
                    runs[-1][2] += row
                else:
                    runs.append([start * row, i * pitch, i * pitch + row, listed[deep, high]])
            begin = len(steps)
            steps += [(source + to - runs_to, to, taps) for source, runs_to, until, taps in runs
                      for to in range(runs_to, until, vector)]
            walked[rows] = begin, len(steps)
        blocks.append((bottom, top - bottom, *walked[rows], first, last - first))
        first = last
    return blocks, steps, hops


def is_long(kernel: int, size: int) -> bool:
    """Whether windows are much longer than an axis: they are one among the few that there are, and want no row of their
    own length.
    """
    return kernel >= 4 * size + 1024


def longest(axis: Axis) -> int:
    """Taps of the longest window along an axis."""
    return max(1, int(-(-(axis.stop - axis.start).max() // axis.step))) if len(axis.start) else 1


def columns_in_room(rows: int, width: int, windows: int, wide: int, size: int) -> int:
    """For how many columns of the output `MOST_ROOM` holds so many rows, and the part of a row of the input, of `width`
    columns, that their windows hold: there are `windows` in a row, each of `wide` columns. A column is `size` bytes.
    """
    apart = -(-width // windows) + 1  # columns of the input for one more of the output
    return (MOST_ROOM // size - wide) // (rows + apart)


def runs(axis: Axis, apart: int = 1) -> NDArray[np.int64]:
    """How many windows from each on, `apart` to the next, are alike: as wide, and as far from each other."""
    n = len(axis.start)
    if not n:
        return np.zeros(0, np.int64)
    first = np.arange(n) % apart
    order = np.argsort(first, kind="stable")  # all that begin with the first, with the second, and so on
    start, wide, width, first = axis.start[order], (axis.stop - axis.start)[order], axis.width[order], first[order]
    alike = (wide[1:] == wide[:-1]) & (width[1:] == width[:-1]) & (first[1:] == first[:-1])
    goes_on = alike[1:] & alike[:-1] & (np.diff(start, 2) == 0)
    ends = np.append(np.flatnonzero(~goes_on), max(n - 2, 0))  # of the windows from which it does not
    further = np.zeros(n, np.int64)  # than one window after the first
    places = np.arange(len(goes_on))
    further[: len(goes_on)] = ends[np.searchsorted(ends, places)] - places
    counts = np.empty(n, np.int64)
    counts[order] = np.where(np.append(alike, False), further + 2, 1)
    return counts


def pack(axes: tuple[Axis, Axis, Axis], channels: int, last: bool, planes: int = 0,
         lanes: RowLanes | None = None) -> NDArray[np.int64]:
    """Everything a kernel asks of the geometry, in one int64 array (one argument is cheap to pass, twenty are not).

    After the header: starts, stops and counts of D, then of H, then of W, and the runs of W and H; then the lanes of
    a row.
    """
    head = np.zeros(HEADER, np.int64)
    head[CHANNELS] = channels
    for i, axis in enumerate(axes):
        head[DEPTH + i] = axis.size
        head[OUT_D + i] = len(axis.start)
        head[STEP + i], head[STRIDE + i] = axis.step, axis.stride
        head[KERNEL + i], head[BEFORE + i] = axis.kernel, axis.before
    most = [longest(axis) for axis in axes]
    head[LAST], head[PLANES], head[TAPS] = last, planes, min(prod(most), LIMIT)
    head[MOST_H], head[MOST_W] = most[1:]
    head[APART] = axes[2].apart
    tables = [head, *(table for axis in axes for table in (axis.start, axis.stop, axis.width)),
              runs(axes[2], axes[2].apart), runs(axes[1])]
    if lanes is not None:
        head[LANES_AT] = sum(map(len, tables))
        tables += [np.array(lanes[:LANES_HEADER]), lanes.lanes.ravel(), lanes.columns]
    return np.concatenate(tables)


def inverse_axis(axis: Axis) -> Axis:
    """For every input position the range of outputs whose windows hold it (of windows without dilation)."""
    i = np.arange(axis.size, dtype=np.int64)
    start = np.searchsorted(axis.stop, i, side="right")
    stop = np.searchsorted(axis.start, i, side="right")
    return Axis(len(axis.start), start, stop, 1, np.ones_like(start), axis.stride, axis.kernel, axis.before,
                max(axis.stride, 1))


def inverse(axes: tuple[Axis, Axis, Axis]) -> tuple[Axis, Axis, Axis]:
    d, h, w = axes
    return inverse_axis(d), inverse_axis(h), inverse_axis(w)


def bits(at: NDArray[np.int64], stop: int) -> NDArray[np.int64]:
    """Of each row of VECTOR places those from 0 on and before `stop`, as the bits of a number."""
    inside: NDArray[np.int64] = (((at >= 0) & (at < stop)) << np.arange(VECTOR)).sum(axis=1)
    return inside


class Phases(NamedTuple):
    """How vectors hold, row by row, what windows along an axis add to its elements. A step is VECTOR elements, or at
    stride 2 the even and the odd ones of twice as many; lane by lane they are in windows that follow each other.

    Tuples, whose lengths kernels are compiled for.
    """

    hops: Ints  # the window in the first lane, for each vector of windows that the first step meets
    odd: Ints  # at stride 2 those of the last of these that hold odd elements
    first: int  # element in the first lane of the first step, 0 or -1
    # Bits of the lanes in use, for every step: of each of these vectors, of even and odd elements, of both vectors of
    # the result.
    masks: NDArray[np.int64]


PHASE_MASKS = 4  # for every step, behind those of windows


def has_phases(axis: Axis) -> bool:
    """Whether windows along an axis are side by side or overlap, at stride 1 or 2, without dilation."""
    return axis.stride in (1, 2) and axis.kernel >= axis.stride and axis.step == 1


def phase_steps(axis: Axis) -> int:
    """How many steps an axis is."""
    return -(-(axis.size + axis.before % axis.stride) // (axis.stride * VECTOR))


def phases(axis: Axis) -> Phases:
    """Those of an axis that has some."""
    k, s, size, windows = axis.kernel, axis.stride, axis.size, len(axis.start)
    first = -(axis.before % s)  # of all elements the first that is as far behind where windows begin as the next ones
    hops = tuple(axis.before // s - i for i in reversed(range(-(-k // s))))
    lane, step = np.arange(VECTOR), np.arange(phase_steps(axis))[:, None]

    element = first + step * s * VECTOR
    masks = [*(bits(hop + step * VECTOR + lane, windows) for hop in hops),
             *(bits(element + phase + s * lane, size) for phase in range(2)),
             *(bits(element + half * VECTOR + lane, size) for half in range(2))]
    return Phases(hops, hops[-(k // s):] if s == 2 else (), first, np.stack(masks, axis=1).ravel())


class Columns(NamedTuple):
    """How vectors hold, row by row, the windows at stride 2 that elements along an axis are in. A step is the even and
    the odd ones of twice VECTOR elements; lane by lane they are in windows that follow each other.

    Tuples, whose lengths kernels are compiled for.
    """

    hops: Ints  # the window in the first lane, for each vector of windows that the first step meets
    even: Ints  # the first of these, which hold even elements
    odd: Ints  # the last of these, which hold odd ones
    # Bits of the lanes in use, for every step: of each of these vectors, of both vectors of the result; and behind the
    # last step one that meets no windows.
    masks: NDArray[np.int64]


def columns(axis: Axis) -> Columns | None:
    """Those of an axis; None where it has none."""
    k, b, size, windows = axis.kernel, axis.before, axis.size, len(axis.start)
    begin = 2 * np.arange(windows) - b
    if not has_phases(axis) or axis.stride != 2 or (axis.start != np.maximum(begin, 0)).any() or (
            axis.stop != np.minimum(begin + k, size)).any():
        return None
    # Element e is in window o if 2 * o - b <= e < 2 * o - b + k.
    even, odd = (range(-((k - 1 - b - phase) // 2), (b + phase) // 2 + 1) for phase in (0, 1))
    hops = tuple(range(even.start, odd.stop))
    lane, step = np.arange(VECTOR), np.arange(-(-size // (2 * VECTOR)))[:, None]
    masks = [*(bits(hop + step * VECTOR + lane, windows) for hop in hops),
             *(bits((2 * step + half) * VECTOR + lane, size) for half in range(2))]
    return Columns(hops, hops[: len(even)], hops[-len(odd):],
                   np.append(np.stack(masks, axis=1).ravel(), np.zeros(len(hops), np.int64)))


def shared_count(axes: tuple[Axis, Axis, Axis]) -> int:
    """The divisor that all windows have in common, 0 if there is none."""
    count = 1
    for axis in axes:
        if not len(axis.width) or (axis.width != axis.width[0]).any():
            return 0
        count *= int(axis.width[0])
    return count


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


def guess(size: Ints, output: Ints) -> Ints | None:
    """How wide the windows are if they lie side by side and there are `output`, one or more, along axes of `size`.

    A stride of s leaves n // s windows: the s that divides n, or else the smallest, if any leaves so many.
    """
    box = tuple(n // o if n % o == 0 else n // (o + 1) + 1 for n, o in zip(size, output, strict=True))
    return None if any(o * b > n for n, o, b in zip(size, output, box, strict=True)) else box


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


class Whole(NamedTuple):
    """Planes that are one window each."""

    units: int
    header: NDArray[np.int64]  # elements of a plane

    @property
    def nbytes(self) -> int:
        return self.header.nbytes


CLUSTER = 2 * VECTOR  # elements that a step loads
# Elements of a window, and columns of a plane, up to which it is worth it: 2x2/2 of 8x8 planes takes 0.68 of the time,
# of 10x10 0.93, of 16x16 1.2; and results of a step, on average, from which on.
MOST_PICKS, CLUSTER_COLUMNS, FEWEST_RESULTS = 4, 8, 4.5


class Clusters(NamedTuple):
    """How two vectors hold all elements of some windows that follow each other: steps over whole small planes."""

    picks: Ints  # as many as a window has elements
    steps: NDArray[np.int64]  # of a group of planes, 3 numbers each: first element, first result, mask of its lanes
    table: NDArray[np.int32]  # of every step, VECTOR each: lanes of all picks, then their places in a plane
    group: int  # planes


def clusters(axes: tuple[Axis, Axis, Axis], planes: int) -> Clusters | None:
    """Those of windows of planes, or None if these are large, or windows have no element or many, or few fit."""
    elements, most = prod(axis.size for axis in axes), prod(map(longest, axes))
    if not 0 < elements <= MOST_FLAT or not 1 < most <= MOST_PICKS or not planes or axes[2].size > CLUSTER_COLUMNS:
        return None
    if any(not len(axis.start) or (axis.start >= axis.stop).any() for axis in axes):
        return None
    group = max(n for n in range(1, MOST_FLAT // elements + 1) if planes % n == 0)
    if group * elements < CLUSTER:
        return None
    # Of every window its elements in order, the last one as often as there are too few.
    taps = np.zeros((1, 1), np.int64)
    for axis in axes:
        count = longest(axis)
        own = axis.start[:, None] + axis.step * np.arange(count)
        own = np.minimum(own, (axis.stop - 1 - (axis.stop - 1 - axis.start) % axis.step)[:, None])
        grown = taps[:, None, :, None] * axis.size + own[None, :, None, :]
        taps = grown.reshape(-1, taps.shape[1] * count)
    places = np.tile(taps, (group, 1))
    taps = (np.arange(group)[:, None, None] * elements + taps).reshape(-1, most)
    steps, table, i = [], [], 0
    low, high = taps.min(axis=1), taps.max(axis=1)
    while i < len(taps):
        inside = (np.maximum.accumulate(high[i : i + VECTOR]) - np.minimum.accumulate(low[i : i + VECTOR])) < CLUSTER
        count = int(np.logical_and.accumulate(inside).sum())
        if not count:
            return None
        first = min(int(low[i : i + count].min()), group * elements - CLUSTER)
        rows = np.minimum(np.arange(i, i + VECTOR), i + count - 1)
        steps.append((first, i, (1 << count) - 1))
        table.append((taps[rows].T - first, places[rows].T))
        i += count
    if len(taps) < FEWEST_RESULTS * len(steps):
        return None
    return Clusters(tuple(range(most)), np.array(steps, np.int64).ravel(), np.array(table, np.int32).ravel(), group)


def guessed_axes(size: Ints, output: Ints) -> tuple[Axis, ...] | None:
    """The windows that `guess` finds, `output` along each axis, if they are of more than one element."""
    box = guess(size, output)
    if not box or max(box) == 1:
        return None
    return tuple(Axis(n, b * np.arange(o), b * np.arange(1, o + 1), 1, np.ones(o, np.int64), b, b, 0)
                 for n, o, b in zip(size, output, box, strict=True))


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
    inverses = [inverse_axis(axis) for axis in axes]
    most = [longest(inverse) for inverse in inverses]
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
