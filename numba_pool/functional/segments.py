"""Pooling over segments: the rows of ragged batches, such as sentences, graphs and voxels."""

from __future__ import annotations  # help() shows them by name

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _arguments as arguments
from .. import _arrays as arrays
from .._arrays import Array, Planes, Shape
from .._dispatch.again import Calls
from .._dispatch.calls import check_bool, check_pair, forward, scatter
from .._docstrings import documented
from .._runtime import launch
from ..kernels import segments as kernels
from ..kernels._job import REDUCTIONS, Call, Windows
from ..kernels.scatter import plan as plan_scatter
from ..simd import COUNTED, OMITTED, ZEROED
from ._missing import Over, averages, averages_backward, by_counts, checked, extremes, is_float, is_omitted, partial_of
from .maximum import EXTREMES

Offsets = NDArray[np.int64]
INT64, LARGEST = np.dtype(np.int64), np.uint64(2**63 - 1)

OF_SEGMENTS = {  # results of an example
    "max": "(array([3., 5.]), array([0, 3], dtype=int32))", "min": "(array([1., 5.]), array([1, 3], dtype=int32))",
    "avg": "array([2., 5.])", "sum": "array([6., 5.])",
}

def rows_of(value: Any, name: str = "x", integers: bool = True, indices: bool = False) -> Planes:
    """An array of rows, checked: what kernels take, channels last."""
    a = arrays.array(value, name, integers)
    if not a.ndim:
        raise ValueError(f"{name} must have one axis or more, (rows, *channels), got shape ()")
    if indices and a.shape[0] > arrays.INT32_LIMIT:
        raise ValueError(f"return_indices needs at most {arrays.INT32_LIMIT} rows (indices are int32), got shape "
                         f"{a.shape}")
    return Planes(arrays.flat(a, 1, False), a.shape, 1, False)


def integers_of(value: Any, name: str) -> Offsets:
    """A 1-D array of integers, as int64."""
    if value.__class__ is np.ndarray and value.dtype is INT64 and value.ndim == 1 and value.flags.carray:
        return value
    a = np.asarray(arrays.ndarray(value, name))
    if a.dtype.kind not in "iu" and (a.size or isinstance(value, np.ndarray)):  # [] has floats, of which there are none
        raise TypeError(f"{name} must be integers, got {arrays.came(value, a.dtype)}")
    if a.ndim != 1:
        raise ValueError(f"{name} must have one axis, got shape {a.shape}")
    if a.dtype.kind == "u":
        a = np.minimum(a, LARGEST)  # larger ones would be negative
    a = np.ascontiguousarray(a, np.int64)
    return a if a.flags.writeable else arrays.writeable_alias(a)


def offsets_of(value: Any, rows: int, shape: Shape) -> Offsets:
    """Offsets of segments of so many rows, checked."""
    offsets = integers_of(value, "offsets")
    if not offsets.size:
        raise ValueError("offsets must have one entry more than there are segments, got none")
    first, last = int(offsets[0]), int(offsets[-1])
    if first < 0 or last > rows:
        raise ValueError(f"offsets must lie in [0, {rows}], the rows of shape {shape}, got {first} to {last}")
    falls = offsets[1:] < offsets[:-1]
    if np.count_nonzero(falls):  # which takes a quarter of the time of `any`
        at = int(falls.argmax())
        raise ValueError(f"offsets must never fall, got {offsets[at]} and then {offsets[at + 1]} at {at + 1}")
    return offsets


def row_shape(value: Any, grad_shape: Shape) -> Shape:
    """The `input_shape` of a backward, checked against the channels of `grad_output`."""
    shape = arguments.lengths(value, "input_shape")
    if not shape or shape[1:] != grad_shape[1:]:
        raise ValueError(f"grad_output and input_shape must agree in all axes but the first, got {grad_shape} and "
                         f"{shape}")
    return shape


def pooled(reduction: str, x: Any, offsets: Any, out: Any, omit: bool = False) -> Any:
    """The results of all segments, and their indices if the reduction has some. If `omit`, NaN of floats is missing."""
    summed, indexed, mirrored, divisor = REDUCTIONS[reduction]
    rows = rows_of(x, indices=indexed)
    dtype, known = rows.flat.dtype, offsets_of(offsets, rows.shape[0], rows.shape)
    seen = arrays.mirror(dtype) if mirrored else None
    omit = omit and dtype.kind not in "iu"
    if omit and summed and prod(rows.shape[1:]) == 1:
        call = kernels.plan("sum", rows.shape, known, dtype, ZEROED[arrays.seen_as(dtype)])
        return by_counts(over(known), rows, call, divisor, 0 if divisor else 1, out)
    if omit:
        seen = COUNTED[arrays.seen_as(dtype)] if summed else OMITTED[seen or arrays.seen_as(dtype)]
    return forward(rows, kernels.plan(reduction, rows.shape, known, dtype, seen, omit), out)


class Segments(Over):
    """Segments as the windows of averages and sums, of which elements may be missing."""

    def run(self, calls: Any, x: Any, divisor: float, least: int | None, out: Any) -> Array:
        result: Array = pooled("sum" if divisor else "average", x, self.windows[0], out, least is not None)
        return result

    def total(self, x: Array) -> Array:
        result: Array = pooled("sum", x, self.windows[0], None)
        return result

    def counts(self, valid: Array) -> Array:
        return self.total(valid.astype(np.float64))

    def divisors(self, counts: Array, shape: Shape, divisor: float) -> Array:
        return np.full_like(counts, divisor) if divisor else counts


def over(offsets: Any) -> Segments:
    return Segments(1, (offsets,), None, None)  # type: ignore[arg-type]


def mark_empty(result: Any, offsets: Offsets) -> Any:
    """Where a mask was given, empty segments are NaN, also if it hides nothing."""
    y = result[0] if isinstance(result, (tuple, list)) else result
    if is_float(y):
        y[offsets[1:] == offsets[:-1]] = np.nan
    return result


def _extreme(extreme: str) -> Any:
    @documented(0, f"segment_{extreme}_pool", of_segments=OF_SEGMENTS[extreme],
                **EXTREMES[extreme])
    def segment_pool(x: ArrayLike, offsets: ArrayLike, return_indices: bool = False, *, nan_policy: str = "propagate",
                     where: ArrayLike | None = None, out: Any = None) -> Any:
        """{Extreme} over segments of the rows, column by column.

        Parameters
        ----------
        x : array, shape (rows, *channels)
            float32, float64, float16, bfloat16 or any integer type.
        return_indices : bool
            Return ``(y, indices)``: int32 rows of `x`. Ties go to the first row; a NaN wins, the last of several; an
            empty segment has the index -1.

        Returns
        -------
        y : array of shape (segments, *channels) and x's dtype, or (y, indices). Of an empty segment it is what loses to
            all numbers.

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import segment_{extreme}_pool
        >>> segment_{extreme}_pool(np.array([3.0, 1.0, 2.0, 5.0]), [0, 3, 4], return_indices=True)
        {of_segments}
        """
        indexed = check_bool(return_indices, "return_indices")
        check_pair(out, indexed)
        if where is not None:
            x, offsets = checked(x), integers_of(offsets, "offsets")
            pool = partial_of(segment_pool, (offsets,))
            return mark_empty(extremes(pool, x, where, nan_policy, indexed, out, extreme == "max"), offsets)
        return pooled(f"arg{extreme}" if indexed else extreme, x, offsets, out, is_omitted(nan_policy))

    return segment_pool


@lru_cache(maxsize=256)
def plan_route(rows: int, channels: int, count: int, dtype: np.dtype[Any]) -> Call:
    """The call for gradients by indices: segments are windows of one image, whose pixels are the rows."""
    return plan_scatter(Windows(None, (channels, rows), 1, True, "argmax", dtype, gradient=True, output=(count,)))


def _extreme_backward(extreme: str) -> Any:
    @documented(0, f"segment_{extreme}_pool_backward")
    def segment_pool_backward(grad_output: ArrayLike, indices: ArrayLike, input_shape: Any, *,
                              out: Array | None = None) -> Array:
        """Gradient of `{pool}`: every upstream element goes to the row that won its segment.

        Raises
        ------
        ValueError
            Where an index is no row of `input_shape`.
        """
        grad = rows_of(grad_output, "grad_output")
        shape = row_shape(input_shape, grad.shape)
        index = arrays.index_array(indices, grad.shape, 1, False, "grad_output", grad.flat.dtype.kind)
        target = arrays.output(shape, grad.flat.dtype, 1, False, out, grad.flat, index)
        channels = prod(shape[1:])
        if channels:
            route = plan_route(shape[0], channels, grad.shape[0], grad.flat.dtype)
            scatter(route, 1, arrays.raw(grad.flat), index, arrays.raw(target.flat))
        return target.finish()

    return segment_pool_backward


segment_max_pool, segment_min_pool = map(_extreme, ("max", "min"))
segment_max_pool_backward, segment_min_pool_backward = map(_extreme_backward, ("max", "min"))


def _total(name: str, reduction: str, does: str, told: str) -> Any:
    @documented(0, f"segment_{name}_pool", does=does, told=told, kind=name, of_segments=OF_SEGMENTS[name])
    def segment_pool(x: ArrayLike, offsets: ArrayLike, *, nan_policy: str = "propagate", where: ArrayLike | None = None,
                     out: Array | None = None) -> Array:
        """{does} over segments of the rows, column by column.

        Sums of float32 are carried in float64, however long segments are.

        Parameters
        ----------
        x : array, shape (rows, *channels)
            float32, float64, float16, bfloat16 or any integer type. {told}

        Returns
        -------
        array of shape (segments, *channels) and x's dtype; 0 for an empty segment

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import segment_{kind}_pool
        >>> segment_{kind}_pool(np.array([3.0, 1.0, 2.0, 5.0]), [0, 3, 4])
        {of_segments}
        """
        check_pair(out, False)
        if where is not None:
            offsets, divisor = integers_of(offsets, "offsets"), REDUCTIONS[reduction].divisor
            y = averages(Calls(), over(offsets), x, nan_policy, where, None, divisor, 0 if divisor else 1, out)
            return y if divisor else mark_empty(y, offsets)
        result: Array = pooled(reduction, x, offsets, out, is_omitted(nan_policy))
        return result

    return segment_pool


def _total_backward(name: str, reduction: str, share: str) -> Any:
    @documented(0, f"segment_{name}_pool_backward", share=share)
    def segment_pool_backward(grad_output: ArrayLike, offsets: ArrayLike, input_shape: Any, *,
                              nan_policy: str = "propagate", where: ArrayLike | None = None,
                              x: ArrayLike | None = None, out: Array | None = None) -> Array:
        """Gradient of `{pool}`: every upstream element{share} to all rows of its segment.

        Rows in no segment get 0.

        Parameters
        ----------
        nan_policy, where
            As in the forward.
        x : array, optional
            The forward's input, which ``nan_policy='omit'`` needs.
        """
        if where is not None or is_omitted(nan_policy):
            def spread(grad: Array, summed: bool, out: Any) -> Array:
                backward = segment_sum_pool_backward if summed else segment_pool_backward
                result: Array = backward(grad, offsets, input_shape, out=out)
                return result

            shape = arguments.lengths(input_shape, "input_shape")
            offsets = offsets_of(offsets, shape[0] if shape else 0, shape)
            divisor = REDUCTIONS[reduction].divisor
            return averages_backward(over(offsets), spread, grad_output, shape, x, nan_policy, where, None, divisor,
                                     0 if divisor else 1, out)
        grad = rows_of(grad_output, "grad_output", integers=False)
        shape = row_shape(input_shape, grad.shape)
        known = offsets_of(offsets, shape[0], shape)
        arguments.check_output(grad.shape, (len(known) - 1, *shape[1:]), f" for {len(known)} offsets")
        target = arrays.output(shape, grad.flat.dtype, 1, False, out, grad.flat)
        call = kernels.plan_spread(reduction, shape, known, grad.flat.dtype)
        launch(call.worker, call.units, call.traffic, arrays.raw(grad.flat), arrays.raw(target.flat), *call.rest)
        return target.finish()

    return segment_pool_backward


segment_avg_pool = _total("avg", "average", "Average", "Averages of integers are truncated.")
segment_sum_pool = _total("sum", "sum", "Sum", "Sums of integers wrap around.")
segment_avg_pool_backward = _total_backward("avg", "average", ", divided by the number of rows,")
segment_sum_pool_backward = _total_backward("sum", "sum", "")


@documented()
def segment_offsets(*, lengths: ArrayLike | None = None, ids: ArrayLike | None = None,
                    count: int | None = None) -> Offsets:
    """Where segments begin, by their lengths or by the number of the segment that each row is in.

    Parameters
    ----------
    lengths : array of integers
        How many rows each segment has.
    ids : array of integers
        In the place of lengths: for each row the number of its segment, from 0 on. They must be sorted.
    count : int, optional
        How many segments there are; those that no row is in are empty. By default one more than the last of `ids`.

    Returns
    -------
    int64 array, one more than there are segments
        As functions of segments take it.

    Examples
    --------
    >>> from numba_pool import segment_offsets
    >>> segment_offsets(lengths=[2, 0, 3])
    array([0, 2, 2, 5])
    >>> segment_offsets(ids=[0, 0, 2, 2, 2], count=4)
    array([0, 2, 2, 5, 5])
    """
    if (lengths is None) == (ids is None):
        raise TypeError(f"segment_offsets takes either lengths or ids, got {'neither' if ids is None else 'both'}")
    most = None if count is None else arguments.at_least(arguments.integer(count, "count", "an int"), "count", 0)
    name = "ids" if lengths is None else "lengths"
    given = integers_of(ids if lengths is None else lengths, name)
    if given.size and given.min() < 0:
        raise ValueError(f"{name} must not be negative, got {given.min()}")
    if lengths is not None:
        if most not in (None, given.size):
            raise ValueError(f"count must be the number of lengths, {given.size}, got {most}")
        rows = given
    else:
        if (given[1:] < given[:-1]).any():
            raise ValueError("ids must be sorted, so that the rows of a segment lie together: pass ids[order] and "
                             "x[order], with order = np.argsort(ids, kind='stable')")
        last = int(given[-1]) if given.size else -1
        if most is not None and last >= most:
            raise ValueError(f"ids must be less than count, {most}, got {last}")
        rows = np.bincount(given, minlength=last + 1 if most is None else most)
    offsets = np.zeros(rows.size + 1, np.int64)
    np.cumsum(rows, out=offsets[1:])
    return offsets
