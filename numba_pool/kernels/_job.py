"""What a kernel is asked: windows over arrays of a shape, to be reduced; and what it answers with, a plan."""

from collections.abc import Callable
from functools import lru_cache
from math import frexp, prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._windows import Axis, found_once, inverse, pack, shared_count
from ..simd import LANES, LARGEST_DIVISOR
from ._staging import STREAMED

Axes = tuple[Axis, Axis, Axis]
Shape = tuple[int, ...]
T = TypeVar("T")

# Sums of more additions in a row are carried in float64. Each adds half an ulp at most: 5x5 windows take eight.
MOST_FLOAT32_ADDITIONS = 8
SHARED = 9  # windows to an element, more than which make it worth while to reduce each row once
FLOAT32 = INDEX = 4  # bytes, where a rule looks at no dtype, and of an index
SINGLE = np.dtype(np.float32)
WIDE_ROW, WIDE_AVERAGE = 64, 32  # elements of a row, from which on it is long for gradients that are written once


class Reduction(NamedTuple):
    """What becomes of the elements of a window. Walks are compiled for each by the types of two arguments:
    `index`, which is None unless positions are wanted, and `divisors`, which is None unless elements are added up.
    """

    summed: bool  # added up and divided; else the largest is found
    indexed: bool = False  # with its position
    # Elements are seen in a mirror (`simd.MIRRORED`), in which the smallest is the largest.
    mirrored: bool = False
    divisor: float = 0  # of every window, in place of what it counts; 0 for none


# How ties and NaN go stands in `simd.comparison`, what an empty window holds in `_reductions.nothing`.
REDUCTIONS = {
    "max": Reduction(summed=False),
    "argmax": Reduction(summed=False, indexed=True),
    "min": Reduction(summed=False, mirrored=True),
    "argmin": Reduction(summed=False, indexed=True, mirrored=True),
    "average": Reduction(summed=True),
    "sum": Reduction(summed=True, divisor=1),
}


class Call(NamedTuple):
    """What is run: a kernel, and what it is called with beside the arrays. Rules make it, up to `rest`."""

    worker: Any
    units: int  # of work: rows of the output, planes, groups of these
    traffic: int  # how much work it is, in the bytes of `SERIAL_BYTES`
    rest: tuple[Any, ...]  # arguments after the arrays, tables last
    shape: Shape = ()  # of the result
    indexed: bool = False  # whether int32 indices follow the result
    # The dtype as which the worker takes arrays, if not their own; for halves not in packs only once this is kept.
    seen: Any = None
    key: Any = None  # under which it is kept between calls
    to_last: Shape | None = None  # the axes of channels-last memory, or None for channels-first memory
    to_first: Shape = ()  # and back
    memory_shape: Shape = ()  # of the result, in memory order
    make: Any = None  # what makes an array for it
    parts: tuple[Any, ...] = ()  # calls for the first section of long rows, those in the middle and the last
    by_index: bool = False  # a gradient that is scattered: its arguments end with the number of ranges to each unit
    otherwise: Any = None  # the call that does what this one may find that it cannot


WALKED = frozenset(("axes", "size", "outputs", "rows", "taps", "additions"))  # what `Windows.walk` finds


class Windows:
    """What is asked: windows over an array, to be reduced, or the gradient of that; all that a rule may ask for.

    `shape` is that of the forward's input, and `windows` are those of the forward along D, H and W. They are None for a
    gradient of maxima, whose indices say where each goes. `axes` are the windows that a kernel walks: for a gradient of
    averages the inverse ones, which of every element hold the gradients that it is made of.
    """

    axes: Axes
    size: int
    outputs: int
    rows: int
    taps: int
    additions: int

    def __init__(self, windows: Axes | None, shape: Shape, rank: int, last: bool, reduction: str = "average",
                 dtype: np.dtype[Any] = SINGLE, divisor: float = 0, *, gradient: bool = False, accumulate: bool = True,
                 output: Shape = (), narrow: bool = False, seen: Any = None, section: bool = False,
                 additions: int | None = None) -> None:
        self.windows, self.shape, self.rank, self.last = windows, shape, rank, last
        self.reduction, self.dtype, self.divisor, self.gradient = reduction, dtype, divisor, gradient
        self.accumulate = accumulate  # whether gradients that meet are added up; else the last is what is left
        self.seen = seen  # the dtype as which a kernel takes the array, if not its own
        self.narrow = narrow  # whether kernels for narrow elements may serve
        self.section = section  # whether this is a part of the work, for which nothing is asked ahead
        self.summed, self.indexed, *_ = REDUCTIONS[reduction]
        self.answers: dict[Any, Any] = {}
        self.output = output or tuple([axis.n for axis in windows or ()])[-rank:]  # windows of a plane
        self.channels = shape[-rank - 1]
        # Of a column of a row: neighbours in memory that are in the same windows.
        self.elements = self.channels if last else 1
        self.planes = prod(shape[:-rank])
        # Planes, or in channels-last memory the images that channels share.
        self.images = prod(shape[: -rank - 1]) if last else self.planes
        self.result = shape if gradient else (*shape[:-rank], *self.output)  # the shape of what is written
        self.read = prod(shape) * dtype.itemsize  # bytes that are read, or of a gradient written
        self.given_additions = additions

    def __getattr__(self, name: str) -> Any:
        """What is known of the axes is found together, once a rule asks: tables of long axes take long."""
        if name not in WALKED or not self.windows:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        self.walk(inverse(self.windows) if self.gradient else self.windows)
        return vars(self)[name]

    def walk(self, axes: Axes) -> None:
        self.axes = d, h, w = axes
        self.size = d.size * h.size * w.size  # elements of a plane that is walked
        self.outputs = d.n * h.n * w.n  # of a plane that is walked
        self.rows = self.images * d.n * h.n  # of what is written, of all planes, or images in channels-last memory
        self.taps = d.longest * h.longest * w.longest
        # One after the other: down the columns of a window, then along them.
        self.additions = d.longest * h.longest + w.longest - 2 if self.given_additions is None else self.given_additions

    def along(self, axes: Axes) -> "Windows":
        """The same, walked along other axes."""
        other = Windows(self.windows, self.shape, self.rank, self.last, self.reduction, self.dtype, self.divisor,
                        gradient=self.gradient, seen=self.seen, section=self.section, additions=self.given_additions)
        other.walk(axes)
        return other

    def part(self, windows: Axes, shape: Shape, rank: int = 0, additions: int | None = None) -> "Windows":
        """The same of windows over a part of the array."""
        return Windows(windows, shape, rank or self.rank, self.last, self.reduction, self.dtype, self.divisor,
                       gradient=self.gradient, section=True, additions=additions)

    def ask(self, question: Callable[["Windows"], T]) -> T:
        """The answer to what several rules ask, found once."""
        try:
            answer: T = self.answers[question]
        except KeyError:
            answer = self.answers[question] = question(self)
        return answer

    @property
    def most(self) -> int:
        """What bounds the taps of every window, and its own divisor."""
        d, h, w = self.axes
        return max(self.taps, d.widest * h.widest * w.widest)

    @found_once
    def far(self) -> bool:
        """Whether the windows of a gradient are more than a vector apart along rows, or not uniform."""
        return self.windows is not None and self.gradient and not 0 < self.windows[2].stride < 16

    @found_once
    def nbytes(self) -> int:
        """Of an array of this shape, if it is float32."""
        return prod(self.shape) * FLOAT32

    @found_once
    def much_in_common(self) -> bool:
        """Whether elements are in so many windows each that rows are worth reducing once, along all these windows."""
        return self.taps * self.outputs > SHARED * self.size

    @found_once
    def wide(self) -> bool:
        """Whether lanes are channels, or elements of long rows, where elements of a gradient are written once each."""
        return self.elements >= LANES or self.shape[-1] * self.elements >= (WIDE_ROW if self.indexed else WIDE_AVERAGE)

    @found_once
    def large(self) -> bool:
        """Whether a gradient is streamed."""
        gradients = self.images * self.elements * prod(self.output)
        return is_streamed(prod(self.shape), gradients, self.dtype.itemsize, self.indexed)

    def call(self, worker: Any, units: int, extra: tuple[Any, ...] = (), tail: tuple[NDArray[Any], ...] = (),
             additions: int | None = None, asks_from: int = 0, light: bool = False) -> Call:
        """The call of a kernel that walks the axes; `extra` are arguments of its own, and `tail` are tables behind
        those of the windows. One that is compiled to ask for what comes, or not to, does so from so many bytes on. It
        is `light` if it does little work for every byte.
        """
        # The kernels of gradients have no use for the stride of the forward.
        tables = pack(self.axes, self.channels, self.last, self.planes, tail, self.gradient and self.last and not tail)
        return self.made(worker, units if self.outputs else 0, (*extra, *self.asked(asks_from), tables),
                         self.additions if additions is None else additions, light)

    def spread(self, worker: Any, units: int, tables: tuple[Any, ...], asks_from: int = 0) -> Call:
        """The call of a kernel that writes every element of a gradient once: if `indexed`, where indices lead to it."""
        rest = *self.asked(asks_from), *tables
        if self.indexed:
            return Call(worker, units, self.read, (self.accumulate, None, *rest), self.shape, True)
        return self.made(worker, units, rest, 0, before=(None, True))

    def asked(self, asks_from: int) -> tuple[Any, ...]:
        if not asks_from:
            return ()
        return (True,) if self.read >= asks_from and not self.section else (None,)

    def made(self, worker: Any, units: int, rest: tuple[Any, ...], additions: int, light: bool = False,
             before: tuple[Any, ...] = (None,)) -> Call:
        """The call with the divisors before the arguments `rest`, and `before` these what stands for no indices."""
        by = None
        if self.summed:
            divisor = self.divisor or shared_count(self.windows or self.axes)
            by = divisors(self.dtype, divisor, additions, 0 if self.gradient else self.most)
        rest = (by, *rest) if self.indexed else (*before, by, *rest)
        return Call(worker, units, self.traffic(light), rest, self.result, self.indexed, self.seen)

    def traffic(self, light: bool = False) -> int:
        """How much work it is, in the bytes of `SERIAL_BYTES`."""
        if self.gradient:
            return self.read
        traffic = max(self.read, 4 * prod(self.result) * self.dtype.itemsize)
        # By measurement: 384 KiB of 16 to 64 channels.
        return traffic * 3 // 4 if light and not self.indexed else traffic


@lru_cache(maxsize=4096)
def divisors(dtype: np.dtype[Any], divisor: float, additions: int, most: int) -> NDArray[Any]:
    """What the kernels of averages divide by, in their arithmetic.

    Machines divide no vectors of integers, so averages of small ones are floats on the way, 2x2/2 of uint8 in a sixth
    of the time. Truncated, they are the same: a quotient s/d that is no integer is at least 1/d below the next one, n,
    and floats of p bits round it to n only within n / 2^p, where n * d < s + d; so s + d < 2^p is enough. What a
    divisor smaller than the window makes wraps around, as only integers do.
    """
    wide = dtype == np.float64 or additions > MOST_FLOAT32_ADDITIONS
    wide = wide or (divisor != 0 and not 2.0**-126 <= abs(divisor) < 2.0**127)  # float32 would make 0 or inf of it
    if dtype.kind in "iu":
        wide = True
        if divisor == int(divisor) and abs(divisor) < 2.0 ** (64 if dtype == np.uint64 else 63):
            together = (most << 8 * dtype.itemsize) + max(divisor, most)
            if together >= 2**53 or not (divisor == 0 or divisor >= most):
                # By 1 and -1 a product gives the same; the division of the smallest integer by -1 ends the process.
                reciprocal = int(divisor) if abs(divisor) == 1 else 0
                return np.array([int(divisor), reciprocal, 0], np.uint64 if dtype == np.uint64 else np.int64)
            wide = together >= 2**24
    exact = divisor != 0 and abs(frexp(divisor)[0]) == 0.5 and 2.0**-100 < abs(divisor) < 2.0**100
    rounded = wide and not exact and 1 <= divisor <= LARGEST_DIVISOR and divisor == int(divisor)
    reciprocals = [1 / divisor if known else 0 for known in (exact, rounded)]
    return np.array([divisor, *reciprocals], np.float64 if wide else np.float32)


def is_streamed(elements: int, gradients: int, itemsize: int, indexed: bool) -> bool:
    """Whether so many elements of a result, from so many gradients, are streamed: as `_staging.streams` has it."""
    return elements * itemsize + gradients * (itemsize + INDEX * indexed) >= STREAMED
