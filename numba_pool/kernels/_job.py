"""What a kernel's rule is asked, `Windows`, and what it answers with, a `Call`."""

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

# Sums of float32 that take more additions in a row than this are carried in float64. Each addition is off by at most
# half a unit in the last place. Windows of 5x5 take eight: four down a column, four along the row of column sums.
MOST_FLOAT32_ADDITIONS = 8
SHARED = 9  # if an element is in more windows than this on average, each row is reduced once for all of them
FLOAT32 = INDEX = 4  # bytes of an element, where a rule does not look at the dtype, and of an index
SINGLE = np.dtype(np.float32)
WIDE_ROW, WIDE_AVERAGE = 64, 32  # elements of a row from which on `Windows.wide` calls it long: maxima, averages


# Where elements are counted, an axis has two numbers in one as the `width` of each window: what it contributes to the
# divisor, and from bit INSIDE on how many elements it holds.
INSIDE, COUNTS = 32, (1 << 32) - 1


class Reduction(NamedTuple):
    """What becomes of the elements of a window. Numba compiles a walk for each reduction, by the types of two
    arguments: `index` is None unless indices are wanted, and `divisors` is None unless elements are added up.
    """

    summed: bool  # elements are added up and divided; else the largest is found
    indexed: bool = False  # the index of the largest is wanted as well
    # Elements are seen in a mirror (`simd.MIRRORED`), where the smallest element is the largest.
    mirrored: bool = False
    divisor: float = 0  # divides the sum of every window; 0 if each is divided by the number of its elements


# `simd.comparison` decides about ties and NaN, `_reductions.nothing` about empty windows.
REDUCTIONS = {
    "max": Reduction(summed=False),
    "argmax": Reduction(summed=False, indexed=True),
    "min": Reduction(summed=False, mirrored=True),
    "argmin": Reduction(summed=False, indexed=True, mirrored=True),
    "average": Reduction(summed=True),
    "sum": Reduction(summed=True, divisor=1),
}


class Call(NamedTuple):
    """What is run: a kernel, and its arguments beside the arrays. A kernel's rule makes it; the fields from `key` on
    are filled when the call is kept for the next one.
    """

    worker: Any
    units: int  # pieces of work: rows of the output, planes, or groups of planes
    traffic: int  # how much work there is, in bytes that `_runtime.SERIAL_BYTES` is compared with
    rest: tuple[Any, ...]  # arguments after the arrays, tables last
    shape: Shape = ()  # of the result
    indexed: bool = False  # whether int32 indices follow the result
    # The dtype as which the worker takes the arrays, if that is not their own. For single halves it is filled only when
    # the call is kept.
    seen: Any = None
    key: Any = None  # the key under which the call is kept
    to_last: Shape | None = None  # the order of axes that makes arrays channels last; None for channels-first memory
    to_first: Shape = ()  # the order of axes that turns such an array back
    memory_shape: Shape = ()  # of the result, in memory order
    make: Any = None  # the function that makes an array for the result
    parts: tuple[Any, ...] = ()  # of work that is cut: calls for the first section, for those in the middle, the last
    by_index: bool = False  # a gradient that `scatter` computes: its last argument is the number of ranges to a unit
    always: bool = False  # whether `otherwise` is called whatever this one returns
    # The call to make if this one does not return 0: if a gradient's guess of the windows was wrong; or, on the same
    # arrays, if results are infinite, so that their windows may hold NaN.
    otherwise: Any = None


WALKED = frozenset(("axes", "size", "outputs", "rows", "taps", "additions"))  # attributes that `Windows.walk` sets


class Windows:
    """What is asked: to reduce the windows of an array, or the gradient of that. A rule may look at nothing else.

    `shape` is the shape of the forward's input, and `windows` are the forward's windows along D, H and W. A gradient of
    maxima has no `windows` (None), since its indices say where each gradient goes. `axes` are the windows that a kernel
    walks. For a gradient of averages these are the inverse windows: one for each element of the input, which holds the
    outputs whose windows the element was in.
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
                 additions: int | None = None, omit: bool = False, least: int = 0) -> None:
        self.windows, self.shape, self.rank, self.last = windows, shape, rank, last
        self.reduction, self.dtype, self.divisor, self.gradient = reduction, dtype, divisor, gradient
        self.accumulate = accumulate  # whether gradients that meet in an element are added up; else the last one wins
        self.seen = seen  # the dtype as which a kernel takes the array, if that is not its own
        self.narrow = narrow  # whether the kernel for narrow elements may serve
        self.omit = omit  # whether NaN stands for missing elements
        self.least = least  # elements that are not missing, below which a sum or an average is NaN
        self.section = section  # whether this is one piece of a larger array; no memory is asked for ahead then
        self.summed, self.indexed, *_ = REDUCTIONS[reduction]
        self.answers: dict[Any, Any] = {}
        self.output = output or tuple([axis.n for axis in windows or ()])[-rank:]  # windows of a plane
        self.channels = shape[-rank - 1]
        # Elements of one column of a row: neighbours in memory that are in the same windows.
        self.elements = self.channels if last else 1
        self.planes = prod(shape[:-rank])
        # Planes; in channels-last memory images, each of which holds all channels.
        self.images = prod(shape[: -rank - 1]) if last else self.planes
        self.result = shape if gradient else (*shape[:-rank], *self.output)  # the shape of what is written
        self.read = prod(shape) * dtype.itemsize  # bytes that are read, or of a gradient written
        self.given_additions = additions

    def __getattr__(self, name: str) -> Any:
        """The attributes that follow from the axes are set when a rule asks for one of them: tables of long axes take
        long to make.
        """
        if name not in WALKED or not self.windows:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        self.walk(inverse(self.windows) if self.gradient else self.windows)
        return vars(self)[name]

    def walk(self, axes: Axes) -> None:
        if self.counted:
            d, h, w = (axis.replaced(width=axis.width + (axis.lengths << INSIDE)) for axis in axes)
            axes = d, h, w
        self.axes = d, h, w = axes
        self.size = d.size * h.size * w.size  # elements of a plane that is walked
        self.outputs = d.n * h.n * w.n  # windows of a plane that is walked
        self.rows = self.images * d.n * h.n  # rows of what is written, of all planes, or of all images channels last
        self.taps = d.longest * h.longest * w.longest
        # Additions in a row: down the columns of a window, then along the row of their sums.
        self.additions = d.longest * h.longest + w.longest - 2 if self.given_additions is None else self.given_additions

    def along(self, axes: Axes) -> "Windows":
        """The same question, walked along other axes."""
        other = Windows(self.windows, self.shape, self.rank, self.last, self.reduction, self.dtype, self.divisor,
                        gradient=self.gradient, seen=self.seen, section=self.section, additions=self.given_additions,
                        omit=self.omit, least=self.least)
        other.walk(axes)
        return other

    def part(self, windows: Axes, shape: Shape, rank: int = 0, additions: int | None = None,
             small: bool = True) -> "Windows":
        """The same question for windows over a part of the array."""
        return Windows(windows, shape, rank or self.rank, self.last, self.reduction, self.dtype, self.divisor,
                       gradient=self.gradient, section=small, additions=additions, omit=self.omit, least=self.least)

    def ask(self, question: Callable[["Windows"], T]) -> T:
        """What a function returns for these windows. Several rules call the same functions; each is called once, and
        its answer is kept.
        """
        try:
            answer: T = self.answers[question]
        except KeyError:
            answer = self.answers[question] = question(self)
        return answer

    @property
    def counted(self) -> bool:
        """Whether elements are counted while they are added up."""
        return self.omit and self.summed

    @property
    def most(self) -> int:
        """A number that neither the elements of a window nor its divisor exceed."""
        d, h, w = self.axes
        return max(self.taps, d.widest * h.widest * w.widest)

    @found_once
    def far(self) -> bool:
        """Whether the windows of a gradient are more than a vector apart along rows, or not uniform."""
        return self.windows is not None and self.gradient and not 0 < self.windows[2].stride < 16

    @found_once
    def nbytes(self) -> int:
        """Bytes of an array of this shape, if it were float32."""
        return prod(self.shape) * FLOAT32

    @found_once
    def much_in_common(self) -> bool:
        """Whether each element is in so many windows that it pays to reduce each row once, for all of them."""
        return self.taps * self.outputs > SHARED * self.size

    @found_once
    def wide(self) -> bool:
        """Whether a pixel's channels fill a vector, or rows are long: then a gradient whose windows share no element is
        written row by row.
        """
        return self.elements >= LANES or self.shape[-1] * self.elements >= (WIDE_ROW if self.indexed else WIDE_AVERAGE)

    @found_once
    def large(self) -> bool:
        """Whether a gradient is so large that it is written past the caches."""
        gradients = self.images * self.elements * prod(self.output)
        return is_streamed(prod(self.shape), gradients, self.dtype.itemsize, self.indexed)

    def call(self, worker: Any, units: int, extra: tuple[Any, ...] = (), tail: tuple[NDArray[Any], ...] = (),
             additions: int | None = None, asks_from: int = 0, light: bool = False) -> Call:
        """The call of a kernel that walks the axes. `extra` are arguments of the kernel's own, and `tail` are tables of
        its own, which stand behind those of the windows. With `asks_from`, the kernel takes one argument more, which is
        not None if it is to ask for memory ahead: for arrays of that many bytes or more. The kernel is `light` if it
        does little work for every byte.
        """
        # Gradients in channels-last memory have no use for the stride of the forward.
        tables = pack(self.axes, self.channels, self.last, self.planes, tail, self.gradient and self.last and not tail)
        return self.made(worker, units if self.outputs else 0, (*extra, *self.asked(asks_from), tables),
                         self.additions if additions is None else additions, light)

    def spread(self, worker: Any, units: int, tables: tuple[Any, ...], asks_from: int = 0) -> Call:
        """The call of a kernel that writes every element of a gradient once. If `indexed`, it takes indices, which say
        whether an element has won its window.
        """
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
        """The call with the divisors before the arguments `rest`; without indices, `before` stands in their place."""
        by = None
        if self.counted:
            by = counting(self.dtype, self.divisor, additions, self.least)
        elif self.summed:
            divisor = self.divisor or shared_count(self.windows or self.axes)
            by = divisors(self.dtype, divisor, additions, 0 if self.gradient else self.most)
        rest = (by, *rest) if self.indexed else (*before, by, *rest)
        return Call(worker, units, self.traffic(light), rest, self.result, self.indexed, self.seen)

    def traffic(self, light: bool = False) -> int:
        """How much work there is, in bytes that `_runtime.SERIAL_BYTES` is compared with."""
        if self.gradient:
            return self.read
        traffic = max(self.read, 4 * prod(self.result) * self.dtype.itemsize)
        # Light kernels gain from threads only from 384 KiB on, measured with 16 to 64 channels.
        return traffic * 3 // 4 if light and not self.indexed else traffic


@lru_cache(maxsize=4096)
def divisors(dtype: np.dtype[Any], divisor: float, additions: int, most: int) -> NDArray[Any]:
    """The array `divisors` of the kernels of averages: the divisor and its reciprocals, in the dtype in which sums are
    carried.

    No machine divides vectors of integers, so averages of small integers are computed in floats. Truncated, they are
    the same. A quotient s/d that is not whole lies at least 1/d below the next whole number n. Floats of p bits round
    the quotient up to n only if it is within n / 2^p of n; since n * d < s + d, it is never that near if s + d < 2^p.
    Where the divisor is smaller than the window, the result may wrap around, so it is computed in integers.
    """
    wide = dtype == np.float64 or additions > MOST_FLOAT32_ADDITIONS
    wide = wide or (divisor != 0 and not 2.0**-126 <= abs(divisor) < 2.0**127)  # float32 would make 0 or inf of it
    if dtype.kind in "iu":
        together = (most << 8 * dtype.itemsize) + max(divisor, most)
        if together >= 2**53 or not (divisor == 0 or divisor >= most):
            carried = np.dtype(np.uint64 if dtype == np.uint64 else np.int64)
            whole = min(int(divisor), np.iinfo(carried).max)  # unsigned sums that int64 carries are smaller than that
            # A product with 1 or -1 is the same as a division. To divide the smallest integer by -1 would end the
            # process.
            return np.array([whole, whole if abs(whole) == 1 else 0, 0], carried)
        wide = together >= 2**24
    exact = divisor != 0 and abs(frexp(divisor)[0]) == 0.5 and 2.0**-100 < abs(divisor) < 2.0**100
    rounded = wide and not exact and 1 <= divisor <= LARGEST_DIVISOR and divisor == int(divisor)
    reciprocals = [1 / divisor if known else 0 for known in (exact, rounded)]
    return np.array([divisor, *reciprocals], np.float64 if wide else np.float32)


def counting(dtype: np.dtype[Any], divisor: float, additions: int, least: int) -> NDArray[Any]:
    """The same where elements are counted: the divisor, or 0 if there is none but the count; by what the count is
    multiplied in the divisor, 1 or 0; and the least count, below which a result is NaN.
    """
    numbers = divisors(dtype, divisor, additions, 0)
    return np.array([divisor, 0 if divisor else 1, least], numbers.dtype)


def is_streamed(elements: int, gradients: int, itemsize: int, indexed: bool) -> bool:
    """Whether a result of so many elements, made from so many gradients, is written past the caches: the same answer as
    `_staging.streams` gives in a kernel.
    """
    return elements * itemsize + gradients * (itemsize + INDEX * indexed) >= STREAMED
