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
FLOAT32 = INDEX = 4  # bytes, where a plan serves every dtype, and of an index


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


class Plan(NamedTuple):
    """A kernel with its geometry."""

    worker: Any
    tables: NDArray[np.int64]
    units: int  # of work: rows of the output, planes, groups of these
    shared: int = 0  # the divisor that all windows share, or 0
    additions: int = 0  # one after the other, at most
    extra: tuple[Any, ...] = ()  # tables of the kernel's own
    most: int = 0  # bounds the taps of every window and its own divisor; for forward plans
    # A kernel that is compiled to ask for what comes, or not to: bytes from which on it does. 0 for others.
    asks_from: int = 0
    scatters: bool = False  # a gradient's kernel that writes every element once: `extra` follows the divisors
    light: bool = False  # little work for every byte

    def rest(self, nbytes: int) -> tuple[Any, ...]:
        """What the kernel takes after the divisors, for an input (of a gradient, a result) of so many bytes."""
        asked = (True if nbytes >= self.asks_from else None,) if self.asks_from else ()
        if self.scatters:
            return (*asked, *self.extra)
        return (*self.extra, *asked, self.tables)

    def divisors(self, dtype: np.dtype[Any], override: float) -> NDArray[Any]:
        """What tells a kernel to average, and in which arithmetic."""
        return divisors(dtype, override or self.shared, self.additions, self.most)

    def traffic(self, read: int, written: int, indexed: bool) -> int:
        """How much work it is to read and write so many bytes, in those of `SERIAL_BYTES`; for forward plans."""
        traffic = max(read, 4 * written)
        # By measurement: 384 KiB of 16 to 64 channels.
        return traffic * 3 // 4 if self.light and not indexed else traffic


class Job:
    """Windows over arrays of a shape, to be reduced: all that a kernel's rule may ask for.

    For a gradient of averages these are the inverse windows, which of every element hold the gradients that it is made
    of; `forward` are those of the average then.
    """

    def __init__(self, axes: Axes, shape: Shape, rank: int, last: bool, reduction: str = "average", narrow: int = 0,
                 forward: Axes | None = None) -> None:
        self.axes, self.shape, self.rank, self.last = axes, shape, rank, last
        self.forward = forward
        self.narrow = narrow  # bytes of an element that kernels for narrow ones may serve, or 0
        self.reduction = reduction
        self.indexed = REDUCTIONS[reduction].indexed
        self.summed = REDUCTIONS[reduction].summed
        self.answers: dict[Any, Any] = {}

    def ask(self, question: Callable[["Job"], T]) -> T:
        """The answer to what several rules ask, found once."""
        if question not in self.answers:
            self.answers[question] = question(self)
        answer: T = self.answers[question]
        return answer

    @property
    def gradient(self) -> bool:
        return self.forward is not None

    @found_once
    def channels(self) -> int:
        return self.shape[-self.rank - 1]

    @found_once
    def elements(self) -> int:
        """Of a column of a row: neighbours in memory that are in the same windows."""
        return self.channels if self.last else 1

    @found_once
    def planes(self) -> int:
        return prod(self.shape[: -self.rank])

    @found_once
    def images(self) -> int:
        """Planes, or in channels-last memory the images that channels share."""
        return prod(self.shape[: -self.rank - self.last])

    @found_once
    def size(self) -> int:
        """Elements of a plane that is read."""
        return prod(axis.size for axis in self.axes)

    @found_once
    def outputs(self) -> int:
        """Of a plane."""
        return prod(len(axis.start) for axis in self.axes)

    @found_once
    def taps(self) -> int:
        return prod(axis.longest for axis in self.axes)

    @found_once
    def most(self) -> int:
        """What bounds the taps of every window, and its own divisor."""
        return max(self.taps, prod(axis.widest for axis in self.axes))

    @found_once
    def rows(self) -> int:
        """Rows of the result, of all planes, or of all images in channels-last memory."""
        return self.images * len(self.axes[0].start) * len(self.axes[1].start)

    @found_once
    def far(self) -> bool:
        """Whether the windows of a gradient are more than a vector apart along rows, or not uniform."""
        return self.forward is not None and not 0 < self.forward[2].stride < 16

    @found_once
    def nbytes(self) -> int:
        """Of the arrays that are read, if they are float32."""
        return prod(self.shape) * FLOAT32

    @found_once
    def much_in_common(self) -> bool:
        """Whether elements are in so many windows each that rows are worth reducing once, along all these windows."""
        return self.taps * self.outputs > SHARED * self.size

    @found_once
    def additions(self) -> int:
        """One after the other: down the columns of a window, then along them."""
        d, h, w = (axis.longest for axis in self.axes)
        return d * h - 1 + w - 1

    def plan(self, worker: Any, units: int, extra: tuple[Any, ...] = (), tail: tuple[NDArray[Any], ...] = (),
             additions: int | None = None, **others: Any) -> Plan:
        """A plan for this job; `tail` are tables behind those of the windows."""
        axes = self.axes
        if self.gradient and self.last and not tail:  # whose kernels have no use for the stride of the forward
            axes = tuple(axis._replace(stride=0) for axis in axes)  # type: ignore[assignment]
        return Plan(worker, pack(axes, self.channels, self.last, self.planes, tail), units if self.outputs else 0,
                    shared_count(self.forward or axes), self.additions if additions is None else additions, extra,
                    0 if self.gradient else self.most, **others)


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


def inverse_job(axes: Axes, shape: Shape, rank: int, last: bool) -> Job:
    """The gradient of these windows' averages as sums over the windows that hold each element."""
    return Job(inverse(axes), shape, rank, last, "average", forward=axes)


class Spread(NamedTuple):
    """Gradients of windows that may share no element, and where they go."""

    shape: Shape  # of the result
    output: Shape  # windows of a plane
    rank: int
    last: bool
    itemsize: int
    row: int  # elements of a row, from which on rows are long
    axes: Axes | None  # the windows, of averages; or else what the shapes suggest

    @property
    def channels(self) -> int:
        return self.shape[-self.rank - 1] if self.last else 1

    @property
    def images(self) -> int:
        return prod(self.shape[: -self.rank - self.last])

    @property
    def wide(self) -> bool:
        """Whether lanes are channels, or elements of long rows."""
        return self.channels >= LANES or self.shape[-1] * self.channels >= self.row

    @property
    def large(self) -> bool:
        """Whether the result is streamed."""
        gradients = self.images * self.channels * prod(self.output)
        return is_streamed(prod(self.shape), gradients, self.itemsize, self.axes is None)

    def plan(self, worker: Any, units: int, tables: tuple[Any, ...], asks_from: int = 0) -> Plan:
        shared = shared_count(self.axes) if self.axes else 0
        return Plan(worker, tables[-1], units, shared, 0, tables, 0, asks_from, scatters=True)


def is_streamed(elements: int, gradients: int, itemsize: int, indexed: bool) -> bool:
    """Whether so many elements of a result, from so many gradients, are streamed: as `_staging.streams` has it."""
    return elements * itemsize + gradients * (itemsize + INDEX * indexed) >= STREAMED
