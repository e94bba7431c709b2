"""What a block of elements is reduced to: the table of reductions.

A reduction that *accumulates* has a state, which is a tuple of numbers, and four functions: the state of no element,
the state of one element, the state of two parts of a block together, and the result for a state. `walks.py` compiles
them into its loops. To add such a reduction, write its four functions as a class below, put it into `TABLE`, and
say in `plan.py` which dtypes its state and its result have.

The median and the mode keep all elements of a block. Their functions stand in `kept.py`.

The states of sums stand in `sums.py`, and the type that a reduction is to Numba in `kinds.py`.
"""

from typing import Any

import numpy as np
from numba import njit

from .kinds import INLINED, Reduction, extremes, inlined, is_float, number
from .sums import of_pair, picked, total

# The table.


class Sum:
    def empty(R):
        return total(R).empty(R)

    def lift(R):
        return total(R).lift(R)

    def join(R):
        return total(R).join(R)

    def finish(R):
        if is_float(R.out):
            quotient = njit(**INLINED)(of_pair(R))
            return lambda R, s, n: quotient(R, s, 1.0)
        out = number(R.out)
        return lambda R, s, n: out(s[0])


class Mean(Sum):
    def finish(R):
        return of_pair(R) if is_float(R.out) else total(R).quotient(R)


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
        return (lambda R, s, n: nan if s[1] else s[0]) if is_float(R.x) else (lambda R, s, n: picked(R, s[0]))


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
