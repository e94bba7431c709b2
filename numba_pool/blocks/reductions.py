"""What a block of elements is reduced to: the table of reductions.

A reduction that *accumulates* has a state, which is a tuple of numbers, and four functions: the state of no element,
the state of one element, the state of two parts of a block together, and the result for a state. `walks.py` compiles
them into its loops. To add such a reduction, write its four functions as a class below, put it into `TABLE`, and
say in `plan.py` which dtypes its state and its result have.

The median and the mode keep all elements of a block. Their functions stand in `kept.py`.

To Numba each reduction is a type of its own, so that a walk is compiled for each, and the disk cache tells them apart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, types
from numba.core.imputils import lower_constant
from numba.extending import models, overload, register_model, typeof_impl

INLINED = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
CALLED = {**INLINED, "forceinline": False}


@dataclass(frozen=True)
class Reduction:
    """A reduction, with everything that its machine code depends on."""

    name: str
    x: str  # dtype of the elements
    out: str  # dtype of the results
    state: str = ""  # how a sum is kept: as a dtype, or as a 'pair', or as 'limbs'; see below
    missing: tuple[str, ...] = ()  # how elements can be missing: 'nan', 'value', 'where'
    option: str = ""  # the rounding of means and medians; the ties of modes
    size: int = 0  # of all blocks, where that is a constant to the compiler

    def __str__(self) -> str:
        words = self.x, "to", self.out, self.state, self.option, *self.missing, str(self.size or "")
        return f"{self.name} of {' '.join(filter(None, words))}"


class ReductionType(types.Type):  # type: ignore[misc]
    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        super().__init__(name=f"Reduction({reduction})")


register_model(ReductionType)(models.OpaqueModel)


@typeof_impl.register(Reduction)  # type: ignore[untyped-decorator]
def type_of(value: Reduction, context: Any) -> ReductionType:
    return ReductionType(value)


@lower_constant(ReductionType)  # type: ignore[untyped-decorator]
def constant(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.get_dummy_value()


def inlined(function: Callable[..., Any]) -> Any:
    """`overload` for what is called in inner loops."""
    return overload(function, jit_options=INLINED)


def number(name: str) -> Any:
    """The type by which compiled code converts to a dtype."""
    return np.dtype(name).type


def is_float(name: str) -> bool:
    return np.dtype(name).kind == "f"


def extremes(name: str) -> tuple[Any, Any]:
    """The least and the greatest value of a dtype."""
    dtype = np.dtype(name)
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    return dtype.type(np.iinfo(dtype).min), dtype.type(np.iinfo(dtype).max)


# States of sums. Each has the sum of no element, of one, of two sums, and as a number of the result's dtype.


class Plain:
    """One number: a float64 for floats of 32 bits, or an integer that is wide enough to be exact."""

    def empty(R):
        zero = number(R.state)(0)
        return lambda R: (zero,)

    def lift(R):
        state = number(R.state)
        return lambda R, v: (state(v),)

    def join(R):
        state = number(R.state)
        return lambda R, a, b: (state(a[0] + b[0]),)

    def value(R):
        out = number(R.out)
        return lambda R, s: out(s[0])

    def quotient(R):
        out = number(R.out)
        if is_float(R.out):
            return lambda R, s, n: out(np.float64(s[0]) / n)
        state, added, divided = number(R.state), ROUNDINGS[R.option], division(R)
        size = R.size
        bits = state(max(size, 1).bit_length() - 1)

        def shifted(R, s, n):
            return out(state(s[0] + state(added(state(s[0] >> bits), state(size)))) >> bits)

        def quotient(R, s, n):
            k = state(max(n, 1))
            q, rest = divided(s[0], k)
            return out(state(q + 1) if state(rest + state(added(q, k))) >= k else q)

        return shifted if size and size & (size - 1) == 0 else quotient


class Pair:
    """A float64 and what it lost by rounding: sums of float64 are right to an ulp. Source: Knuth, TAOCP 2, 4.2.2 B."""

    def empty(R):
        return lambda R: (0.0, 0.0)

    def lift(R):
        return lambda R, v: (v, 0.0)

    def join(R):
        def join(R, a, b):
            s = a[0] + b[0]
            t = s - a[0]
            return s, (a[0] - (s - t)) + (b[0] - t) + (a[1] + b[1])

        return join

    def value(R):
        out = number(R.out)
        # What an infinity lost is a NaN.
        return lambda R, s: out(s[0] + s[1] if s[0] - s[0] == 0.0 else s[0])

    def quotient(R):
        out = number(R.out)
        return lambda R, s, n: out((s[0] + s[1] if s[0] - s[0] == 0.0 else s[0]) / n)


class Limbs:
    """Integers of 64 bits as their upper and their lower 32 bits, so that sums of 2^31 of them are exact."""

    def empty(R):
        return lambda R: (np.int64(0), np.int64(0))

    def lift(R):
        if R.x == "uint64":
            return lambda R, v: (np.int64(v >> np.uint64(32)), np.int64(v & np.uint64(0xFFFFFFFF)))
        return lambda R, v: (v >> np.int64(32), v & np.int64(0xFFFFFFFF))

    def join(R):
        return lambda R, a, b: (a[0] + b[0], a[1] + b[1])

    def value(R):
        out = number(R.out)
        return lambda R, s: out(np.float64(s[0]) * 4294967296.0 + np.float64(s[1]))

    def quotient(R):
        out = number(R.out)
        if np.dtype(R.out).kind == "f":
            return lambda R, s, n: out((np.float64(s[0]) * 4294967296.0 + np.float64(s[1])) / n)
        added, sign = ROUNDINGS[R.option], np.int64(2**63 - 1 if R.x == "uint64" else -1)

        def exact(R, s, n):
            size = np.int64(max(n, 1))
            high = s[0] // size
            rest = np.uint64((s[0] - high * size) << 32) + np.uint64(s[1])
            low = rest // np.uint64(size)
            q = (high << 32) + np.int64(low)
            seen = q & sign  # uint64 from 2^63 on are no negative numbers
            return out(q + 1 if np.int64(rest - low * np.uint64(size)) + added(seen, size) >= size else q)

        return exact


def total(R: Reduction) -> Any:
    """The kind of state that sums of a reduction have."""
    return {"pair": Pair, "limbs": Limbs}.get(R.state, Plain)


def division(R: Reduction) -> Any:
    """A function that divides an integer by a positive one: the quotient rounded down, and the remainder."""
    state, width = number(R.state), np.dtype(R.state).itemsize
    guess = np.float32 if width == 2 else np.float64

    @njit(**INLINED)
    def exactly(s, n):
        q = state(s // n)
        return q, state(s - q * n)

    @njit(**INLINED)
    def by_reciprocal(s, n):
        # Processors divide no vectors of integers. As floats they may come out wrong by one, which the rest tells.
        k = np.int32(n)
        q = np.int32(np.floor(guess(s) * (guess(1) / guess(k))))
        rest = np.int32(s) - q * k
        q = q - 1 if rest < 0 else q + 1 if rest >= k else q
        return state(q), state(np.int32(s) - q * k)

    return exactly if R.size or width == 8 else by_reciprocal


# What is added to the remainder of a quotient `q`, before it is divided by `n` and rounded down once more.


@njit(**INLINED)
def even(q, n):
    """To the nearest integer, halves to the even one."""
    return (n - 1) // 2 + (q & (n + 1) & 1)


@njit(**INLINED)
def nearest(q, n):
    """To the nearest integer, halves away from zero."""
    return n // 2 if q >= 0 else (n - 1) // 2


@njit(**INLINED)
def truncate(q, n):
    """Toward zero."""
    return 0 if q >= 0 else n - 1


ROUNDINGS = {"even": even, "nearest": nearest, "truncate": truncate}


# The table.


class Sum:
    def empty(R):
        return total(R).empty(R)

    def lift(R):
        return total(R).lift(R)

    def join(R):
        return total(R).join(R)

    def finish(R):
        value = njit(**INLINED)(total(R).value(R))
        return lambda R, s, n: value(R, s)


class Mean(Sum):
    def finish(R):
        return total(R).quotient(R)


class Carried(Mean):
    """The mean of elements whose sums are given, as many in each sum as `Call.fill` says."""


class Weighted:
    """The mean with weights: the sum of products, and that of weights."""

    def empty(R):
        return lambda R: (0.0, 0.0)

    def lift(R):
        return lambda R, v, w: (np.float64(v) * w, w)

    def join(R):
        return lambda R, a, b: (a[0] + b[0], a[1] + b[1])

    def finish(R):
        out = number(R.out)
        return lambda R, s, n: out(s[0] / s[1] if s[1] != 0.0 else np.nan)


class Maximum:
    """Of floats with whether one of them is a NaN, which takes fewer instructions than a NaN that wins each time."""

    def empty(R):
        worst = extremes(R.x)[0]
        return (lambda R: (worst, False)) if is_float(R.x) else (lambda R: (worst,))

    def lift(R):
        return (lambda R, v: (v, v != v)) if is_float(R.x) else (lambda R, v: (v,))

    def join(R):
        if is_float(R.x):
            return lambda R, a, b: (b[0] if b[0] > a[0] else a[0], a[1] | b[1])
        return lambda R, a, b: (b[0] if b[0] > a[0] else a[0],)

    def finish(R):
        nan = number(R.x)(np.nan) if is_float(R.x) else 0
        return (lambda R, s, n: nan if s[1] else s[0]) if is_float(R.x) else (lambda R, s, n: s[0])


class Minimum(Maximum):
    def empty(R):
        worst = extremes(R.x)[1]
        return (lambda R: (worst, False)) if is_float(R.x) else (lambda R: (worst,))

    def join(R):
        if is_float(R.x):
            return lambda R, a, b: (b[0] if b[0] < a[0] else a[0], a[1] | b[1])
        return lambda R, a, b: (b[0] if b[0] < a[0] else a[0],)


class Any_:
    """Whether an element is not zero; a NaN is not."""

    def empty(R):
        return lambda R: (np.uint8(0),)

    def lift(R):
        return lambda R, v: (np.uint8(v != 0),)

    def join(R):
        return lambda R, a, b: (np.uint8(a[0] | b[0]),)

    def finish(R):
        return lambda R, s, n: s[0] != 0


class All(Any_):
    def empty(R):
        return lambda R: (np.uint8(1),)

    def join(R):
        return lambda R, a, b: (np.uint8(a[0] & b[0]),)


class Count:
    """How many elements are there, which every reduction with missing ones counts."""

    def empty(R):
        return lambda R: ()

    def lift(R):
        return lambda R, v: ()

    def join(R):
        return lambda R, a, b: ()

    def finish(R):
        return lambda R, s, n: np.int64(n)


class Variance:
    """The mean of a part, the sum of squared distances from it, and its size. Source: Chan, Golub, LeVeque 1979."""

    def empty(R):
        return lambda R: (0.0, 0.0, 0.0)

    def lift(R):
        return lambda R, v: (np.float64(v), np.float64(v - v), 1.0)  # an infinity has no distance from itself

    def join(R):
        def join(R, a, b):
            n = a[2] + b[2]
            share = b[2] / max(n, 1.0)
            d = b[0] - a[0]
            return a[0] + d * share, a[1] + b[1] + d * (a[2] * share * d), n  # 0 if `a` is nothing, however large d

        return join

    def finish(R):
        out = number(R.out)
        return lambda R, s, n: out(s[1] / s[2])


class Deviation(Variance):
    def finish(R):
        out = number(R.out)
        return lambda R, s, n: out(np.sqrt(s[1] / s[2]))


TABLE = {"sum": Sum, "mean": Mean, "carried": Carried, "weighted": Weighted, "max": Maximum, "min": Minimum,
         "any": Any_, "all": All, "count": Count, "var": Variance, "std": Deviation}  # and those of `kept.py`


# What walks call, compiled as the table says. Where elements can be missing, the number of those that are there is the
# last member of every state.


def counter(R: Reduction) -> Any:
    """The type of that number: as wide as the rest of the state, which then stands in vectors of as many lanes."""
    if R.state in ("", "pair", "limbs"):
        return np.int32 if np.dtype(R.x).itemsize <= 4 else np.int64
    return number(R.state)


def empty(R):
    """The state of no element."""


def lift(R, v, ok, w):
    """The state of an element `v`, which is there if `ok`, and whose weight is `w`."""


def join(R, a, b):
    """The state of two parts of a block together."""


def finish(R, s, n, least, fill):
    """The result for the state of a block of `n` elements; `fill` where fewer than `least` of them are there."""


def function(R: Reduction, name: str) -> Any:
    return njit(**INLINED)(getattr(TABLE[R.name], name)(R))


@inlined(empty)
def _(R):
    own = function(R.reduction, "empty")
    if not R.reduction.missing:
        return lambda R: own(R)
    none = counter(R.reduction)(0)
    return lambda R: own(R) + (none,)


@inlined(lift)
def _(R, v, ok, w):
    own, one = function(R.reduction, "lift"), counter(R.reduction)(1)
    if R.reduction.name == "weighted":
        if not R.reduction.missing:
            return lambda R, v, ok, w: own(R, v, w)
        return lambda R, v, ok, w: own(R, v, w) + (one,) if ok else empty(R)
    if not R.reduction.missing:
        return lambda R, v, ok, w: own(R, v)
    if R.reduction.state:  # a sum, to which 0 adds nothing
        zero, none = number(R.reduction.x)(0), counter(R.reduction)(0)
        return lambda R, v, ok, w: own(R, v if ok else zero) + (one if ok else none,)
    return lambda R, v, ok, w: own(R, v) + (one,) if ok else empty(R)


@inlined(join)
def _(R, a, b):
    own = function(R.reduction, "join")
    if not R.reduction.missing:
        return lambda R, a, b: own(R, a, b)
    one = counter(R.reduction)
    return lambda R, a, b: own(R, a[:-1], b[:-1]) + (one(a[-1] + b[-1]),)


@inlined(finish)
def _(R, s, n, least, fill):
    own = function(R.reduction, "finish")
    if R.reduction.name == "carried":
        return lambda R, s, n, least, fill: own(R, s, n * fill)
    if not R.reduction.missing:
        return lambda R, s, n, least, fill: own(R, s, n)

    def finished(R, s, n, least, fill):
        there = s[-1]
        return own(R, s[:-1], there) if there >= least else fill

    return finished
