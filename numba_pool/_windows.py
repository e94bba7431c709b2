"""Where every window of a pooling operation starts and stops, and what all kernels may read of it.

One `Axis` per spatial axis says, for each output position, where its window starts and stops in the input and by how
much its sum is divided, so that padding, dilation, ceil mode, adaptive, fractional and global windows differ only in
these tables. Spatial rank 1 and 2 are rank 3 with leading axes of length one.

The formulas are PyTorch's (``aten/src/ATen/native/Pool.h``), re-derived and checked against version 2.13.
"""

from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = tuple[int, ...]


Pads = tuple[tuple[int, int], ...]


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


def adaptive_axes(size: Ints, output: Ints) -> tuple[Axis, Axis, Axis]:
    return three(tuple(adaptive_axis(length, n) for length, n in zip(size, output)))


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


VECTOR = 16  # lanes of a vector in kernels


def is_long(kernel: int, size: int) -> bool:
    """Whether windows are much longer than an axis: they are one among the few that there are, and want no row of their
    own length.
    """
    return kernel >= 4 * size + 1024


def longest(axis: Axis) -> int:
    """Taps of the longest window along an axis."""
    return max(1, int(-(-(axis.stop - axis.start).max() // axis.step))) if len(axis.start) else 1


def runs_alike(axis: Axis, apart: int = 1) -> NDArray[np.int64]:
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
         tail: tuple[NDArray[Any], ...] = ()) -> NDArray[np.int64]:
    """Everything a kernel asks of the geometry, in one int64 array (one argument is cheap to pass, twenty are not).

    After the header: starts, stops and counts of D, then of H, then of W, and the runs of W and H; then the `tail`, the
    tables of one kernel.
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
              runs_alike(axes[2], axes[2].apart), runs_alike(axes[1])]
    if tail:
        head[LANES_AT] = sum(map(len, tables))
    return np.concatenate([*tables, *tail])


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


def shared_count(axes: tuple[Axis, Axis, Axis]) -> int:
    """The divisor that all windows have in common, 0 if there is none."""
    count = 1
    for axis in axes:
        if not len(axis.width) or (axis.width != axis.width[0]).any():
            return 0
        count *= int(axis.width[0])
    return count


def guess(size: Ints, output: Ints) -> Ints | None:
    """How wide the windows are if they lie side by side and there are `output`, one or more, along axes of `size`.

    A stride of s leaves n // s windows: the s that divides n, or else the smallest, if any leaves so many.
    """
    box = tuple(n // o if n % o == 0 else n // (o + 1) + 1 for n, o in zip(size, output, strict=True))
    return None if any(o * b > n for n, o, b in zip(size, output, box, strict=True)) else box


def guessed_axes(size: Ints, output: Ints) -> tuple[Axis, ...] | None:
    """The windows that `guess` finds, `output` along each axis, if they are of more than one element."""
    box = guess(size, output)
    if not box or max(box) == 1:
        return None
    return tuple(Axis(n, b * np.arange(o), b * np.arange(1, o + 1), 1, np.ones(o, np.int64), b, b, 0)
                 for n, o, b in zip(size, output, box, strict=True))


def is_whole(axis: Axis) -> bool:
    """Whether there is one window, and that all of the axis."""
    return bool(len(axis.start) == 1 and axis.start[0] == 0 and axis.stop[0] == axis.size and axis.step == 1)
