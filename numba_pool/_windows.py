"""Where every window of a pooling operation starts and stops, and what all kernels may read of it.

One `Axis` per spatial axis says, for each output position, where its window starts and stops in the input and by how
much its sum is divided, so that padding, dilation, ceil mode, adaptive, fractional and global windows differ only in
these tables. Spatial rank 1 and 2 are rank 3 with leading axes of length one.

The formulas are PyTorch's (``aten/src/ATen/native/Pool.h``), re-derived and checked against version 2.13.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = tuple[int, ...]
T = TypeVar("T")
A = TypeVar("A", bound="Axis")


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


class Axis:
    """The windows along one axis: the taps of output ``o`` are ``range(start[o], stop[o], step)``. What several ask
    for is found once.
    """

    def __init__(self, size: int, start: NDArray[np.int64], stop: NDArray[np.int64], step: int,
                 width: NDArray[np.int64], stride: int, kernel: int, before: int, apart: int = 1) -> None:
        self.size = size  # input length
        self.n = len(start)  # windows
        self.start, self.stop = start, stop  # exclusive; not above start where no tap is valid
        self.step = step
        self.width = width  # what this axis contributes to an average's divisor
        self.stride = stride  # distance of neighbouring windows, 0 where it is not uniform
        self.kernel = kernel  # taps of a window that nothing clips, 0 where it is not uniform
        self.before = before  # padding before the first element
        self.apart = apart  # every how many windows the pattern of their widths repeats

    def replaced(self, **others: Any) -> "Axis":
        """The same but for these."""
        names = "size", "start", "stop", "step", "width", "stride", "kernel", "before", "apart"
        return Axis(**{name: getattr(self, name) for name in names} | others)

    @found_once
    def longest(self) -> int:
        """Taps of the longest window."""
        return max(1, int(-(-(self.stop - self.start).max() // self.step))) if self.n else 1

    @found_once
    def widest(self) -> int:
        """The largest part of a divisor."""
        return int(self.width.max(initial=1))

    @found_once
    def shared(self) -> int:
        """The part of the divisor that all windows have in common, 0 if there is none."""
        return int(self.width[0]) if self.n and (self.width == self.width[0]).all() else 0

    @found_once
    def is_empty(self) -> bool:
        """Whether a window holds no element."""
        return bool((self.start >= self.stop).any())

    @found_once
    def is_whole(self) -> bool:
        """Whether there is one window, and that all of the axis."""
        return bool(self.n == 1 and self.start[0] == 0 and self.stop[0] == self.size and self.step == 1)

    @found_once
    def tables(self) -> bytes:
        """Starts, stops and widths, as they lie in memory."""
        return np.concatenate((self.start, self.stop, self.width)).tobytes()

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
        return Axis(self.n, start, stop, 1, np.ones_like(start), self.stride, self.kernel, self.before,
                    max(self.stride, 1))


# One missing axis: a single window over a single element.
POINT = Axis(1, np.zeros(1, np.int64), np.ones(1, np.int64), 1, np.ones(1, np.int64), 1, 1, 0)


def kept(make: Callable[..., A]) -> Callable[..., A]:
    """Keep short axes between calls, with what was found of them: other shapes often have some of their lengths. All
    that are kept have less than 16 MiB. `make` takes the length and the number of windows first.
    """
    known = lru_cache(maxsize=256)(make)

    def axis(length: int, n: int, *arguments: Any) -> A:
        return (known if max(length, n) <= SHORT else make)(length, n, *arguments)

    return axis


SHORT = 256  # elements, and windows, of an axis that is kept


class UniformAxis(Axis):
    """``n`` windows of ``k`` taps at a constant stride. Their tables are made once somebody asks for them."""

    def __init__(self, length: int, n: int, k: int, s: int, pad: tuple[int, int], d: int, include_pad: bool) -> None:
        self.size, self.n, self.kernel, self.stride, self.step, self.include_pad = length, n, k, s, d, include_pad
        self.before, self.after = pad
        self.apart = 1

    @property
    def bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of windows that nothing clips."""
        first = np.arange(self.n, dtype=np.int64) * self.stride - self.before
        return first, first + self.step * (self.kernel - 1) + 1

    @found_once
    def start(self) -> NDArray[np.int64]:
        """Clipped taps keep their alignment: the first of a clipped window is the first multiple of `step` inside."""
        first, _ = self.bounds
        return np.where(first < 0, first + -(first // self.step) * self.step, first)

    @found_once
    def stop(self) -> NDArray[np.int64]:
        return np.minimum(self.bounds[1], self.size)

    @found_once
    def width(self) -> NDArray[np.int64]:
        """With padding that counts, the padded extent does; what ceil mode lets hang over it does not."""
        first, stop = self.start, self.stop
        if self.include_pad:
            first, last = self.bounds
            stop = np.minimum(last, self.size + self.after)
        taps: NDArray[np.int64] = np.maximum(-(-(stop - first) // self.step), 0)
        return taps

    @property
    def is_cut(self) -> bool:
        """Whether windows are blocks that lie side by side, whole, within the array."""
        k = self.kernel
        return k == self.stride and not self.before and not self.after and self.step == 1 and self.n * k <= self.size

    @property
    def is_even(self) -> bool:
        """Whether all contribute to a divisor as much as one that nothing clips."""
        after = self.after if self.include_pad else 0
        end = (self.n - 1) * self.stride - self.before + self.step * (self.kernel - 1) + 1
        return end <= self.size + after and (self.include_pad or not self.before)


uniform_axis = kept(UniformAxis)


@kept
def adaptive_axis(length: int, n: int) -> Axis:
    """``n`` windows that cover ``length`` elements, overlapping where n does not divide it."""
    o = np.arange(n, dtype=np.int64)
    start, stop = o * length // max(n, 1), -(-(o + 1) * length // max(n, 1))
    if n and length % n == 0:
        return Axis(length, start, stop, 1, stop - start, length // n, length // n, 0)
    return Axis(length, start, stop, 1, stop - start, 0, 0, 0)


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
header = Struct(f"{HEADER}q").pack


VECTOR = 16  # lanes of a vector in kernels


def is_long(kernel: int, size: int) -> bool:
    """Whether windows are much longer than an axis: they are one among the few that there are, and want no row of their
    own length.
    """
    return kernel >= 4 * size + 1024


def runs_alike(axis: Axis, apart: int = 1) -> NDArray[np.int64]:
    """How many windows from each on, `apart` to the next, are alike: as wide, and as far from each other."""
    n = axis.n
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
         tail: tuple[NDArray[Any], ...] = (), apart: bool = False) -> NDArray[np.int64]:
    """Everything a kernel asks of the geometry, in one int64 array (one argument is cheap to pass, twenty are not).

    After the header: starts, stops and counts of D, then of H, then of W, and the runs of W and H; then the `tail`, the
    tables of one kernel. Windows that are taken each for itself, `apart`, have no stride.
    """
    d, h, w = axes
    strides = (0, 0, 0) if apart else (d.stride, h.stride, w.stride)
    tables: tuple[Any, ...] = d.tables, h.tables, w.tables, w.runs.data, h.neighbours.data, *tail
    head = header(channels, d.size, h.size, w.size, d.n, h.n, w.n, d.step, h.step, w.step, *strides,
                  d.kernel, h.kernel, w.kernel, d.before, h.before, w.before, last, planes,
                  min(d.longest * h.longest * w.longest, LIMIT), h.longest, w.longest,
                  HEADER + 3 * (d.n + h.n + w.n) + w.n + h.n if tail else 0, w.apart)
    # To join bytes takes a third of the time that NumPy needs for as many short arrays.
    return np.frombuffer(bytearray().join((head, *tables)), np.int64)


def inverse(axes: tuple[Axis, Axis, Axis]) -> tuple[Axis, Axis, Axis]:
    d, h, w = axes
    return d.inverse, h.inverse, w.inverse


def shared_count(axes: tuple[Axis, Axis, Axis]) -> int:
    """The divisor that all windows have in common, 0 if there is none."""
    d, h, w = axes
    return d.shared * h.shared * w.shared


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
