"""Elements that are missing: NaN under `nan_policy='omit'`, and those where a mask, `where`, is False.

Kernels know one way to be missing, which is NaN. Maxima see -inf in its place. Sums see 0, and count the others beside.
Floats that a mask hides become NaN in a copy. Integers, and NaN that is not to be omitted, take a second look.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from .. import _arrays as arrays
from .._arguments import bounded, check_output, integer, lengths
from .._arrays import Array, Planes, Shape
from .._dispatch.again import ARGUMENTS, Asked, Calls, run_again
from .._dispatch.calls import forward
from .._runtime import launch
from .._windows import Axis
from ..kernels._job import Call
from ..simd import ONES, ZEROED

POLICIES = "propagate", "omit"


def is_omitted(nan_policy: Any) -> bool:
    """Whether NaN is missing, by a policy that is one of the two."""
    if nan_policy not in POLICIES:
        raise ValueError(f"nan_policy must be 'propagate' or 'omit', got {nan_policy!r}")
    return bool(nan_policy == "omit")


def least_count(min_count: Any, nan_policy: Any, where: Any, least: int) -> int:
    """How many elements a result must have; without them it is NaN. `least` is the default, and no less is allowed."""
    if min_count is None:
        return least
    if where is None and not is_omitted(nan_policy):
        raise ValueError(f"min_count must be None unless elements may be missing, got {min_count!r}: pass "
                         "nan_policy='omit', or where=")
    return max(bounded(integer(min_count, "min_count", "an int or None"), "min_count", 0), least)


def checked(x: Any) -> Array:
    """The argument x as an array of a supported dtype; what `explain` asks by stays that."""
    a = arrays.array(x, "x")
    return a.view(Asked) if isinstance(x, Asked) else a


def is_float(x: Array) -> bool:
    return x.dtype.kind not in "iub"


def filled(x: Array, valid: Array, value: Any) -> Array:
    """A copy in the same memory order, with a value in the place of missing elements."""
    copy = np.array(x, order="K")
    np.copyto(copy, value, where=~valid)
    return copy.view(Asked) if isinstance(x, Asked) else copy


def check_accepted(nan_policy: Any, where: Any, shape: Any) -> None:
    """Check arguments of which a gradient by indices has no need."""
    is_omitted(nan_policy)
    if where is not None:
        arrays.mask_of(where, shape)


def partial_of(pool: Callable[..., Any], windows: tuple[Any, ...]) -> Callable[..., Any]:
    """The function, to which the windows are given by position: it takes an array, and keywords."""
    return lambda x, **others: pool(x, *windows, **others)


def extremes(pool: Callable[..., Any], x: Any, where: Any, nan_policy: Any, return_indices: Any, out: Any,
             lowest: bool) -> Any:
    """The maxima or minima of elements that a mask leaves, `lowest` for maxima. `pool` is the function, to which the
    windows are given: it takes an array, `return_indices`, and `out`.
    """
    omit, x = is_omitted(nan_policy), checked(x)
    mask = arrays.mask_of(where, x.shape)
    if mask.all():
        return pool(x, return_indices=return_indices, nan_policy=nan_policy, out=out)
    a = np.asarray(x)  # looked at before anything is written: `out` may share memory with it
    if is_float(x):
        present = None if omit else np.isnan(a) & mask
        result = pool(filled(x, mask, np.nan), return_indices=return_indices, nan_policy="omit", out=out)
        if present is not None and present.any():
            others = np.full_like(present, -np.inf if lowest else np.inf, a.dtype)
            np.copyto(others, np.nan, where=present)
            y, index = pool(others, return_indices=True)
            put(result, np.isnan(y), np.nan, index)
        return result
    end = np.iinfo(x.dtype).min if lowest else np.iinfo(x.dtype).max
    same = mask & (a == end)
    result = pool(filled(x, mask, end), return_indices=return_indices, out=out)
    if return_indices:
        # An element that is missing may be the first of equal ones.
        y, index = pool((same if lowest else ~same).astype(np.uint8), return_indices=True)
        put(result, result[0] == end, end, np.where(y == lowest, index, -1))
    return result


def put(result: Any, at: Array, value: Any, index: Array) -> None:
    """Put a value, and the indices there, where `at` is True."""
    y, i = result if isinstance(result, (tuple, list)) else (result, None)
    y[at] = value
    if i is not None:
        i[at] = index[at]


class Over(NamedTuple):
    """The windows of averages and sums."""

    rank: int
    windows: tuple[Any, ...]  # the arguments that say which they are
    plan: Callable[..., Call]  # makes a call of an array, these arguments, a divisor, and the least count or None
    axes: Callable[[Shape, tuple[Any, ...]], tuple[Axis, ...]]  # the windows along each axis, of a spatial shape

    def run(self, calls: Calls, x: Any, divisor: float, least: int | None, out: Any) -> Array:
        """The averages of what is no NaN, unless `least` is None: then all are averaged."""
        rest = (None,) * (ARGUMENTS - 1 - len(self.windows))
        arguments = *self.windows, *rest, (divisor, least)
        kept = calls.find(x, arguments)
        known: Array | None = None if kept is None or kept.seen in TWICE else run_again(kept, x, out)
        if known is not None:
            return known

        def plan(p: Planes, _: Any, arguments: tuple[Any, ...], out: Any) -> Call:
            return self.plan(p, arguments[: len(self.windows)], divisor, least)

        def to_run(p: Planes, call: Call, out: Any) -> Any:
            return by_counts(self, p, call, divisor, least or 0, out) if call.seen in TWICE else forward(p, call, out)

        result: Array = calls.long(x, arrays.planes(x, self.rank), arguments, plan, to_run, out)
        return result

    def total(self, x: Array) -> Array:
        """The sums over the windows, with nothing missing."""
        p = arrays.planes(x, self.rank)
        result: Array = forward(p, self.plan(p, self.windows, 1), None)
        return result

    def counts(self, valid: Array) -> Array:
        """How many elements of each window are valid."""
        return self.total(valid.astype(np.float64 if valid[:1].size >= 1 << 24 else np.float32))

    def divisors(self, counts: Array, shape: Shape, divisor: float) -> Array:
        """By what sums are divided: by the divisor, or where that is 0 by the count and the padding that counts."""
        if divisor:
            return np.full_like(counts, divisor, np.float64)
        axes = self.axes(shape[-self.rank :], self.windows)
        wide, inside = (reduce(np.multiply.outer, of) for of in zip(*((axis.width, axis.lengths) for axis in axes)))
        by: Array = counts + (wide - inside)
        return by


def averages(calls: Calls, over: Over, x: Any, nan_policy: Any, where: Any, min_count: Any, divisor: float,
             least: int, out: Any) -> Array:
    """The averages, or sums, of elements that are not missing. `divisor` is as for `plan_average`, and `least` the
    default of `min_count`.
    """
    least, omit = least_count(min_count, nan_policy, where, least), is_omitted(nan_policy)

    x = checked(x)
    mask = None if where is None else arrays.mask_of(where, x.shape)
    hides, counts = mask is not None and not mask.all(), omit and is_float(x)
    if not hides and (counts or min_count is None):
        return over.run(calls, x, divisor, least if counts else None, out)
    mask = np.ones(x.shape, np.bool_) if mask is None else mask
    if not is_float(x):
        return of_integers(over, x, mask, divisor, least, out)
    present = None if omit else np.isnan(np.asarray(x)) & mask  # before anything is written: `out` may share memory
    y = over.run(calls, filled(x, mask, np.nan), divisor, least, out)
    if present is not None and present.any():
        y[over.counts(present) > 0] = np.nan
    return y


TWICE = {ZEROED[dtype]: ONES[dtype] for dtype in ZEROED}


def by_counts(over: Over, p: Planes, call: Call, divisor: float, least: int, out: Any) -> Array:
    """The averages, or sums, by a call that is run twice: for the sums, and for their counts."""
    sums, counts = (arrays.output(call.shape, np.dtype(np.float64), p.rank, p.last, None) for _ in range(2))
    for target, seen in ((sums, call.seen), (counts, TWICE[call.seen])):
        launch(call.worker, call.units, call.traffic, p.flat.view(seen), target.flat, *call.rest)
    enough = counts.result >= least
    by = np.where(enough, over.divisors(counts.result, p.shape, divisor), 1)
    target = arrays.output(call.shape, p.flat.dtype, p.rank, p.last, out, p.flat)
    target.result[...] = arrays.cast(np.where(enough, sums.result / by, np.nan), p.flat.dtype)
    return target.finish()


def of_integers(over: Over, x: Array, mask: Array, divisor: float, least: int, out: Any) -> Array:
    """The same for integers that a mask hides, by sums of 64 bits. Where there are too few elements, the result is 0.
    """
    wide = np.uint64 if x.dtype.kind == "u" else np.int64
    counts = over.counts(mask)
    sums = over.total(filled(np.asarray(x).astype(wide), mask, 0))
    few = counts < least
    by = np.where(few, 1, over.divisors(counts, x.shape, divisor)).astype(wide)
    with np.errstate(all="ignore"):  # the smallest integer divided by -1 wraps
        y, rest = np.divmod(sums, by)
    y += (rest != 0) & ((sums < 0) != (by < 0))  # toward zero
    y[few] = 0
    target = arrays.output(y.shape, x.dtype, over.rank, False, out)
    target.result[...] = y.astype(x.dtype)
    return target.finish()


def averages_backward(over: Over, spread: Callable[[Any, bool, Any], Array], grad_output: Any, shape: Shape, x: Any,
                      nan_policy: Any, where: Any, min_count: Any, divisor: float, least: int, out: Any) -> Array:
    """The gradient of `averages`. `spread` makes that of sums, or averages with nothing missing, of a gradient, whether
    it is of sums, and `out`.
    """
    least, omit = least_count(min_count, nan_policy, where, least), is_omitted(nan_policy)
    shape = lengths(shape, "input_shape")
    valid: Array | None = None if where is None else arrays.mask_of(where, shape)
    if omit:
        if x is None:
            raise TypeError("x must be given with nan_policy='omit', got None: divisors depend on its NaN")
        a = arrays.array(x, "x")
        if a.shape != shape:
            raise ValueError(f"x must have the shape input_shape, {shape}, got {a.shape}")
        numbers = ~np.isnan(a)
        valid = numbers if valid is None else valid & numbers
    g = arrays.array(grad_output, "grad_output", integers=False)
    if valid is None or (min_count is None and valid.all()):
        return spread(g, False, out)
    counts = over.counts(valid)
    check_output(g.shape, counts.shape, f" for input_shape {shape}")
    enough = counts >= max(least, 1)
    by = np.where(enough, over.divisors(counts, shape, divisor), 1)
    wide = np.promote_types(np.float32, g.dtype) if g.dtype.char in arrays.FLOATS else np.dtype(np.float32)
    shares = np.zeros_like(g, wide)  # in the memory order of the gradient
    np.divide(g, by, out=shares, where=enough, casting="same_kind")
    gradient = spread(shares, True, None)
    np.copyto(gradient, 0, where=~valid)
    if out is None:
        return arrays.cast(gradient, g.dtype)
    arrays.check_out(out, shape, g.dtype)
    out[...] = arrays.cast(gradient, g.dtype)
    result: Array = out
    return result
