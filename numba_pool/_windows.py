"""Where every window of a pooling operation starts and stops, and the table from which kernels read it.

There is one `Axis` for each spatial axis. For each position of the output it says where the window starts and stops in
the input, and by how much the window's sum is divided. So padding, dilation, ceil mode, adaptive and global windows
differ only in these tables. Arrays of one or two spatial axes have three here, the first of which have length one.
How many windows there are is decided in `_arguments.output_length`.

The formulas are PyTorch's (``aten/src/ATen/native/Pool.h``), re-derived and checked against version 2.13.
"""

from collections.abc import Callable
from functools import lru_cache
from math import gcd
from struct import Struct
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = tuple[int, ...]
T = TypeVar("T")
A = TypeVar("A", bound="Axis")


Pads = tuple[tuple[int, int], ...]


LIMIT = 2**31 - 1  # the largest size argument, and the largest index


class found_once(Generic[T]):
    """As `functools.cached_property`, without its lock, which takes as long as most of what is computed here."""

    def __init__(self, find: Callable[[Any], T]) -> None:
        self.find, self.__doc__ = find, find.__doc__

    def __get__(self, it: Any, _: Any = None) -> T:
        if it is None:  # looked up in the class, not in an instance
            return self  # type: ignore[return-value]
        value = it.__dict__[self.find.__name__] = self.find(it)
        return value


class Axis:
    """The windows along one axis. Window ``o`` holds the elements ``range(start[o], stop[o], step)``. What follows from
    that is computed once, when somebody asks for it.
    """

    nested = True  # whether the `hops` of a window begin with those of shorter ones

    def __init__(self, size: int, start: NDArray[np.int64], stop: NDArray[np.int64], step: int,
                 width: NDArray[np.int64], stride: int, kernel: int, before: int, apart: int = 1) -> None:
        self.size = size  # input length
        self.n = len(start)  # number of windows
        self.start, self.stop = start, stop  # `stop` is exclusive; an empty window has a `stop` not above its `start`
        self.step = step  # dilation
        self.width = width  # the factor that this axis contributes to an average's divisor
        self.stride = stride  # distance of neighbouring windows, 0 if that is not uniform
        self.kernel = kernel  # elements of a window that nothing clips, 0 if that is not uniform
        self.before = before  # padding before the first element
        self.apart = apart  # the pattern of the windows' widths repeats after so many windows

    def replaced(self, **others: Any) -> "Axis":
        """The same axis, with some attributes replaced by `others`."""
        names = "size", "start", "stop", "step", "width", "stride", "kernel", "before", "apart"
        return Axis(**{name: getattr(self, name) for name in names} | others)

    @found_once
    def longest(self) -> int:
        """Elements of the longest window, at least 1."""
        return max(1, int(-(-(self.stop - self.start).max() // self.step))) if self.n else 1

    @found_once
    def lengths(self) -> NDArray[np.int64]:
        """How many elements each window has."""
        lengths: NDArray[np.int64] = np.maximum(-(-(self.stop - self.start) // self.step), 0)
        return lengths

    def hops(self, length: int) -> NDArray[np.int64]:
        """The distances from the first element of a window of `length` elements to all of its elements."""
        return self.longest_hops[:length]

    @found_once
    def longest_hops(self) -> NDArray[np.int64]:
        """Those of the longest window."""
        return np.arange(0, self.longest * self.step, self.step, dtype=np.int64)

    @found_once
    def distances(self) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """The `hops` of windows of all lengths that there are; and for each window which of them are its own."""
        lengths, which = np.unique(self.lengths, return_inverse=True)
        return [self.hops(length) for length in lengths.tolist()], which.ravel()

    @found_once
    def most(self) -> int:
        """The most `hops` that a window has."""
        return int(self.lengths.max(initial=0))

    @found_once
    def reach(self) -> NDArray[np.int64]:
        """Behind which element each window ends; where it begins, if it is empty."""
        reach: NDArray[np.int64] = self.start + np.maximum((self.lengths - 1) * self.step + 1, 0)
        return reach

    @found_once
    def widest(self) -> int:
        """The largest factor that this axis contributes to a divisor."""
        return int(self.width.max(initial=1))

    @found_once
    def shared(self) -> int:
        """The factor that this axis contributes to the divisor of every window; 0 if windows differ."""
        return int(self.width[0]) if self.n and (self.width == self.width[0]).all() else 0

    @found_once
    def is_empty(self) -> bool:
        """Whether a window holds no element."""
        return bool((self.start >= self.stop).any())

    @found_once
    def is_whole(self) -> bool:
        """Whether there is one window, which holds all of the axis."""
        return bool(self.n == 1 and self.start[0] == 0 and self.stop[0] == self.size and self.step == 1)

    @found_once
    def tables(self) -> bytes:
        """The bytes of the starts, the stops and the widths."""
        return np.concatenate((self.start, self.stop, self.width)).tobytes()

    @found_once
    def runs(self) -> NDArray[np.int64]:
        """For each window: how many windows from it on are alike, if one goes from each to the one `apart` further on.
        """
        return self.neighbours if self.apart == 1 else runs_alike(self, self.apart)

    @found_once
    def neighbours(self) -> NDArray[np.int64]:
        """The same for windows that follow each other."""
        return runs_alike(self)

    @found_once
    def inverse(self) -> "Axis":
        """The inverse windows: for every element of the input the range of outputs whose windows hold it."""
        step, stride, i = self.step, self.stride, np.arange(self.size, dtype=np.int64)
        if step == 1:
            start, stop = self.stop.searchsorted(i, side="right"), self.start.searchsorted(i, side="right")
            return Axis(self.n, start, stop, 1, np.ones_like(start), stride, self.kernel, self.before, max(stride, 1))
        # Dilated windows are uniform. Window o holds element i if i + before = o * stride + t * step for some t. Of
        # the windows that reach over an element, every `apart`-th holds it, from one with the right rest on; or none.
        i, common = i + self.before, gcd(step, stride)
        apart = step // common
        rest = i // common * pow(stride // common, -1, apart) % apart
        first = np.maximum(-(((self.kernel - 1) * step - i) // stride), 0)
        start, stop = first + (rest - first) % apart, np.minimum(i // stride, self.n - 1) + 1
        held = (i % common == 0) & (start < stop)
        start, stop = np.where(held, start, 0), np.where(held, stop, 0)
        return Axis(self.n, start, stop, apart, np.ones_like(start), stride, self.kernel, self.before, stride)


# Stands for a missing axis: a single window over a single element.
POINT = Axis(1, np.zeros(1, np.int64), np.ones(1, np.int64), 1, np.ones(1, np.int64), 1, 1, 0)


def kept(make: Callable[..., A]) -> Callable[..., A]:
    """Keep short axes between calls, with everything that was computed of them: arrays of other shapes often have an
    axis in common. All axes that are kept take less than 16 MiB. `make` takes the length and the number of windows
    first.
    """
    known = lru_cache(maxsize=256)(make)

    def axis(length: int, n: int, *arguments: Any) -> A:
        return (known if max(length, n) <= SHORT else make)(length, n, *arguments)

    return axis


SHORT = 256  # elements, and windows, of an axis that is kept, at most


class UniformAxis(Axis):
    """``n`` windows of ``k`` elements at a constant stride. Their tables are made when somebody asks for them."""

    def __init__(self, length: int, n: int, k: int, s: int, pad: tuple[int, int], d: int, include_pad: bool) -> None:
        self.size, self.n, self.kernel, self.stride, self.step, self.include_pad = length, n, k, s, d, include_pad
        self.before, self.after = pad
        self.apart = 1

    @property
    def bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The starts and stops that windows would have if nothing clipped them."""
        first = np.arange(self.n, dtype=np.int64) * self.stride - self.before
        return first, first + self.step * (self.kernel - 1) + 1

    @found_once
    def start(self) -> NDArray[np.int64]:
        """A clipped window of dilated elements starts at the first of its own elements that lies inside. Windows that
        lie in the padding alone start and stop at the end of the axis that is next to them.
        """
        first, _ = self.bounds
        return np.minimum(np.where(first < 0, first % self.step, first), self.size)

    @found_once
    def stop(self) -> NDArray[np.int64]:
        return self.bounds[1].clip(0, self.size)

    @found_once
    def width(self) -> NDArray[np.int64]:
        """The elements of a window that its divisor counts: if padding counts, those in the padded extent, but not what
        ceil mode lets hang over its end; else those inside.
        """
        first, stop = self.start, self.stop
        if self.include_pad:
            first, last = self.bounds
            stop = np.minimum(last, self.size + self.after)
        taps: NDArray[np.int64] = np.maximum(-(-(stop - first) // self.step), 0)
        return taps

    @property
    def is_cut(self) -> bool:
        """Whether windows lie side by side without gaps, and nothing clips them."""
        k = self.kernel
        return k == self.stride and not self.before and not self.after and self.step == 1 and self.n * k <= self.size

    @property
    def is_even(self) -> bool:
        """Whether every window contributes as much to its divisor as one that nothing clips."""
        after = self.after if self.include_pad else 0
        end = (self.n - 1) * self.stride - self.before + self.step * (self.kernel - 1) + 1
        return end <= self.size + after and (self.include_pad or not self.before)


uniform_axis = kept(UniformAxis)


@kept
def adaptive_axis(length: int, n: int) -> Axis:
    """``n`` windows that cover ``length`` elements. They overlap where n does not divide the length."""
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


# The header of the table that `pack` makes. Kernels read it by these numbers: `g[CHANNELS]` and so on.
CHANNELS, DEPTH, HEIGHT, WIDTH, OUT_D, OUT_H, OUT_W = range(7)


STEP, STRIDE, KERNEL, BEFORE = 7, 10, 13, 16  # three numbers each, for D, H and W


# 1 for channels-last memory, else 0; the number of planes; elements of the largest window.
LAST, PLANES, TAPS = 19, 20, 21


MOST_H, MOST_W = 22, 23  # elements of the longest window along H and W


LANES_AT = 24  # where a kernel's own tables (`RowLanes`) stand behind those of the windows; 0 if there are none


APART = 25  # the pattern of the windows' widths along W repeats after so many windows


HEADER = 26
header = Struct(f"{HEADER}q").pack


VECTOR = 16  # lanes of a vector


def is_long(kernel: int, size: int) -> bool:
    """Whether windows are much longer than their axis, as they can be with padding. Then a kernel must not make
    anything that is as long as a window, such as a line with all of its padding: it would be far longer than the axis.
    """
    return kernel >= 4 * size + 1024


def runs_alike(axis: Axis, apart: int = 1) -> NDArray[np.int64]:
    """For each window: how many windows from it on are alike, if one goes from each to the one `apart` further on.
    Alike are windows that are as long, count as much in a divisor, and have the same distance from each to the next.
    """
    n = axis.n
    if not n:
        return np.zeros(0, np.int64)
    start, wide, width = axis.start, axis.stop - axis.start, axis.width
    order = None
    if apart > 1:
        first = np.arange(n) % apart
        order = first.argsort(kind="stable")  # windows 0, apart, 2 * apart, ...; then 1, 1 + apart, ...; and so on
        start, wide, width, first = start[order], wide[order], width[order], first[order]
    alike = (wide[1:] == wide[:-1]) & (width[1:] == width[:-1])
    if order is not None:
        alike &= first[1:] == first[:-1]
    apart_by = start[1:] - start[:-1]
    goes_on = alike[1:] & alike[:-1] & (apart_by[1:] == apart_by[:-1])
    (ends,) = (~goes_on).nonzero()  # windows with which a sequence of alike windows ends
    places = np.arange(len(goes_on))
    further = np.zeros(n, np.int64)  # how many alike windows there are after the first two
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


def outline(axes: tuple[Axis, Axis, Axis], channels: int, last: bool, apart: bool = False) -> Ints:
    """The numbers of the header up to `LAST`. All uniform and adaptive windows follow from them, without tables."""
    d, h, w = axes
    strides = (0, 0, 0) if apart else (d.stride, h.stride, w.stride)
    return (channels, d.size, h.size, w.size, d.n, h.n, w.n, d.step, h.step, w.step, *strides,
            d.kernel, h.kernel, w.kernel, d.before, h.before, w.before, last)


def pack(axes: tuple[Axis, Axis, Axis], channels: int, last: bool, planes: int = 0,
         tail: tuple[NDArray[Any], ...] = (), apart: bool = False) -> NDArray[np.int64]:
    """The table `g` from which a kernel reads everything about its windows, as one int64 array: to pass one argument is
    cheap, to pass twenty is not.

    Behind the header stand starts, stops and widths along D, then along H, then along W. Then comes for each window
    along W, and for each along H, how many from it on are alike. Then comes the `tail`: tables of one kernel alone. If
    windows are taken each for itself (`apart`), their stride is given as 0.
    """
    d, h, w = axes
    tables: tuple[Any, ...] = d.tables, h.tables, w.tables, w.runs.data, h.neighbours.data, *tail
    head = header(*outline(axes, channels, last, apart), planes,
                  min(d.longest * h.longest * w.longest, LIMIT), h.longest, w.longest,
                  HEADER + 3 * (d.n + h.n + w.n) + w.n + h.n if tail else 0, w.apart)
    # To join bytes takes a third of the time that NumPy needs to join as many short arrays.
    return np.frombuffer(bytearray().join((head, *tables)), np.int64)


def inverse(axes: tuple[Axis, Axis, Axis]) -> tuple[Axis, Axis, Axis]:
    d, h, w = axes
    return d.inverse, h.inverse, w.inverse


def shared_count(axes: tuple[Axis, Axis, Axis]) -> int:
    """The divisor that all windows have in common; 0 if windows differ."""
    d, h, w = axes
    return d.shared * h.shared * w.shared


def guess(size: Ints, output: Ints) -> Ints | None:
    """How wide windows are along each axis, if they lie side by side; None if no width fits. Axes have `size` elements,
    and there are `output` windows, one or more.

    Windows of width s cover an axis of n elements n // s times. If several s give the right number, it is the one that
    divides n, or else the smallest.
    """
    box = tuple(n // o if n % o == 0 else n // (o + 1) + 1 for n, o in zip(size, output, strict=True))
    return None if any(o * b > n for n, o, b in zip(size, output, box, strict=True)) else box


def guessed_axes(size: Ints, output: Ints) -> tuple[Axis, ...] | None:
    """The windows whose width `guess` finds, `output` along each axis. None if they would be of one element."""
    box = guess(size, output)
    if not box or max(box) == 1:
        return None
    return tuple(Axis(n, b * np.arange(o), b * np.arange(1, o + 1), 1, np.ones(o, np.int64), b, b, 0)
                 for n, o, b in zip(size, output, box, strict=True))
