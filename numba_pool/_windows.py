"""Where every window of a pooling operation starts and stops, and what all kernels may read of it.

One `Axis` per spatial axis says, for each output position, where its window starts and stops in the input and by how
much its sum is divided, so that padding, dilation, ceil mode, adaptive, fractional and global windows differ only in
these tables. Spatial rank 1 and 2 are rank 3 with leading axes of length one.

The formulas are PyTorch's (``aten/src/ATen/native/Pool.h``), re-derived and checked against version 2.13.
"""

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = tuple[int, ...]
T = TypeVar("T")


Pads = tuple[tuple[int, int], ...]


LIMIT = 2**31 - 1  # of every size argument: products of three stay far from where float64 stops counting


class found_once(Generic[T]):
    """As `functools.cached_property`, without its lock, which takes as long as most of what is found."""

    def __init__(self, find: Callable[[Any], T]) -> None:
        self.find, self.__doc__ = find, find.__doc__

    def __get__(self, it: Any, _: Any = None) -> T:
        if it is None:  # asked of the class
            return self  # type: ignore[return-value]
        value = it.__dict__[self.find.__name__] = self.find(it)
        return value


class Windows(NamedTuple):
    """The fields of an `Axis`."""

    size: int  # input length
    start: NDArray[np.int64]
    stop: NDArray[np.int64]  # exclusive; not above start where no tap is valid
    step: int
    width: NDArray[np.int64]  # what this axis contributes to an average's divisor
    stride: int  # distance of neighbouring windows, 0 where it is not uniform
    kernel: int  # taps of a window that nothing clips, 0 where it is not uniform
    before: int  # padding before the first element
    apart: int = 1  # every how many windows the pattern of their widths repeats


class Axis(Windows):
    """The windows along one axis: the taps of output ``o`` are ``range(start[o], stop[o], step)``. What several ask
    for is found once.
    """

    @found_once
    def longest(self) -> int:
        """Taps of the longest window."""
        return max(1, int(-(-(self.stop - self.start).max() // self.step))) if len(self.start) else 1

    @found_once
    def widest(self) -> int:
        """The largest part of a divisor."""
        return int(self.width.max(initial=1))

    @found_once
    def shared(self) -> int:
        """The part of the divisor that all windows have in common, 0 if there is none."""
        return int(self.width[0]) if len(self.width) and (self.width == self.width[0]).all() else 0

    @found_once
    def is_empty(self) -> bool:
        """Whether a window holds no element."""
        return bool((self.start >= self.stop).any())

    @found_once
    def runs(self) -> NDArray[np.int64]:
        """How many windows from each on are alike, `apart` to the next."""
        return self.neighbours if self.apart == 1 else runs_alike(self, self.apart)

    @found_once
    def neighbours(self) -> NDArray[np.int64]:
        """The same, each the next."""
        return runs_alike(self)

    @found_once
    def inverse(self) -> "Axis":
        """For every input position the range of outputs whose windows hold it (of windows without dilation)."""
        i = np.arange(self.size, dtype=np.int64)
        start = self.stop.searchsorted(i, side="right")
        stop = self.start.searchsorted(i, side="right")
        return Axis(len(self.start), start, stop, 1, np.ones_like(start), self.stride, self.kernel, self.before,
                    max(self.stride, 1))


# One missing axis: a single window over a single element.
POINT = Axis(1, np.zeros(1, np.int64), np.ones(1, np.int64), 1, np.ones(1, np.int64), 1, 1, 0)


def kept(make: Callable[..., Axis]) -> Callable[..., Axis]:
    """Keep short axes between calls, with what was found of them: other shapes often have some of their lengths. All
    that are kept have less than 16 MiB. `make` takes the length and the number of windows first.
    """
    known = lru_cache(maxsize=256)(make)

    def axis(length: int, n: int, *arguments: Any) -> Axis:
        return (known if max(length, n) <= SHORT else make)(length, n, *arguments)

    return axis


SHORT = 512  # elements, and windows, of an axis that is kept


@kept
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


@kept
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

    def is_cut(self) -> bool:
        """Whether windows are blocks that lie side by side, whole, within the array."""
        return (self.kernel == self.stride and not any(map(any, self.pads)) and max(self.dilation) == 1
                and all(n * k <= length for n, k, length in zip(self.output, self.kernel, self.size)))

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


def runs_alike(axis: Axis, apart: int = 1) -> NDArray[np.int64]:
    """How many windows from each on, `apart` to the next, are alike: as wide, and as far from each other."""
    n = len(axis.start)
    if not n:
        return np.zeros(0, np.int64)
    start, wide, width = axis.start, axis.stop - axis.start, axis.width
    order = None
    if apart > 1:
        first = np.arange(n) % apart
        order = first.argsort(kind="stable")  # all that begin with the first, with the second, and so on
        start, wide, width, first = start[order], wide[order], width[order], first[order]
    alike = (wide[1:] == wide[:-1]) & (width[1:] == width[:-1])
    if order is not None:
        alike &= first[1:] == first[:-1]
    apart_by = start[1:] - start[:-1]
    goes_on = alike[1:] & alike[:-1] & (apart_by[1:] == apart_by[:-1])
    (ends,) = (~goes_on).nonzero()  # windows from which it does not
    places = np.arange(len(goes_on))
    further = np.zeros(n, np.int64)  # than one window after the first
    further[: len(goes_on)] = np.append(ends, max(n - 2, 0))[ends.searchsorted(places)] - places
    alone = np.ones(n, bool)
    alone[:-1] = ~alike
    further += 2
    further[alone] = 1
    if order is None:
        return further
    counts = np.empty(n, np.int64)
    counts[order] = further
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
    most = [axis.longest for axis in axes]
    head[LAST], head[PLANES], head[TAPS] = last, planes, min(prod(most), LIMIT)
    head[MOST_H], head[MOST_W] = most[1:]
    head[APART] = axes[2].apart
    tables = [head, *(table for axis in axes for table in (axis.start, axis.stop, axis.width)),
              axes[2].runs, axes[1].neighbours]
    if tail:
        head[LANES_AT] = sum(map(len, tables))
    return np.concatenate([*tables, *tail])


def inverse(axes: tuple[Axis, Axis, Axis]) -> tuple[Axis, Axis, Axis]:
    d, h, w = axes
    return d.inverse, h.inverse, w.inverse


def shared_count(axes: tuple[Axis, Axis, Axis]) -> int:
    """The divisor that all windows have in common, 0 if there is none."""
    return prod(axis.shared for axis in axes)


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
