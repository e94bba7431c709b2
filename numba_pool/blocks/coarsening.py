"""`coarsen`: one number for each block of an array."""

from __future__ import annotations  # help() shows them by name

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, product
from math import prod
from operator import mul
from typing import Any, NamedTuple, Never

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .._arguments import has_colours
from .._arrays import Array, Shape, cast, check_out
from .._memory import empty
from . import options as given
from .options import BOUNDARIES, SIDES, Options
from .plan import (
    Call,
    Job,
    Layout,
    Layouts,
    Operands,
    dtypes,
    is_plain,
    job_for,
    layouts_of,
    memory,
    reduce,
    start,
)


class Part(NamedTuple):
    """Blocks of one length along an axis."""

    begin: int  # in the array
    to: int  # in the result
    many: int
    factor: int

    @property
    def source(self) -> slice:
        return slice(self.begin, self.begin + self.many * self.factor)

    @property
    def target(self) -> slice:
        return slice(self.to, self.to + self.many)


Region = tuple[Part, ...]  # a part of an array whose blocks are alike


def parts(length: int, factor: int, boundary: str, side: str, axis: int, shape: Shape) -> tuple[Part, ...]:
    """The blocks of an axis, those of full length and one that is shorter; of an empty axis none."""
    whole, rest = divmod(length, factor)
    if rest == 0:
        return (Part(0, 0, whole, factor),)
    if boundary == "exact":
        way = "name the axes without colours" if axis == len(shape) - 1 and has_colours(shape) else (
            "pass boundary='trim' or 'short'")
        raise ValueError(f"windows must divide the shape {shape} if boundary is 'exact'; {factor} does not divide "
                         f"{length}, the length of axis {axis}: {way}")
    if boundary == "trim":
        if not whole:
            raise ValueError(f"windows must be no longer than the axes of shape {shape} if boundary is 'trim', got "
                             f"{factor} for axis {axis}")
        return (Part(rest if side == "right" else 0, 0, whole, factor),)
    if not whole:
        return (Part(0, 0, 1, rest),)
    if side == "right":
        return Part(0, 0, 1, rest), Part(rest, 1, whole, factor)
    return Part(0, 0, whole, factor), Part(length - rest, whole, 1, rest)


class Blocks(NamedTuple):
    """How an array is cut into blocks."""

    shape: Shape  # of the result
    regions: tuple[Region, ...]
    n: int  # elements of the largest block


def cut(axes: Sequence[tuple[Part, ...]]) -> Blocks:
    """The blocks of an array from those of each axis."""
    shape = tuple(sum(part.many for part in axis) for axis in axes)
    n = 0 if 0 in shape else prod(max(part.factor for part in axis) for axis in axes)
    return Blocks(shape, tuple(product(*axes)), n)


@lru_cache(maxsize=1024)
def cut_by(shape: Shape, factors: tuple[tuple[int, int], ...], boundary: tuple[str, ...],
           side: tuple[str, ...]) -> Blocks:
    """The blocks of an array of a shape. The axes that have factors have a boundary and a side each."""
    axes = [parts(n, 1, "exact", "left", axis, shape) for axis, n in enumerate(shape)]
    for (axis, factor), word, at in zip(factors, boundary, side):
        axes[axis] = parts(shape[axis], factor, word, at, axis, shape)
    return cut(axes)


def blocks(shape: Shape, windows: Any, boundary: Any, side: Any) -> Blocks:
    """The blocks of an array of a shape, from the arguments of `coarsen`."""
    ndim = len(shape)
    factors = given.factors(windows, ndim)
    axes = tuple(factors)
    words = given.per_axis(boundary, ndim, "boundary", BOUNDARIES, axes)
    if words.get(ndim - 1) != "exact" and given.takes_colours(windows, shape):
        raise ValueError(f"windows must name its axes for an array of shape {shape}, whose last axis may hold colours: "
                         f"pass {({i: factors[i] for i in (ndim - 3, ndim - 2)})}, or {tuple(factors.values())} if all "
                         "axes are meant")
    sides = given.per_axis(side, ndim, "side", SIDES, axes)
    return cut_by(shape, tuple(factors.items()), tuple(words.values()), tuple(sides.values()))


def split(a: Any, region: Region) -> Any:
    """A region of an array with two axes for each of its own, blocks and elements of a block; of None that."""
    if a is None:
        return None
    part = a[(*(axis.source for axis in region), ...)]  # also of no axes a view
    return part.reshape([n for axis in region for n in (axis.many, axis.factor)])


def results(y: Array, region: Region) -> Array:
    """The results of a region, with as many axes as `split` gives."""
    at: Any = (*(axis.target for axis in region), ...)
    part: Array = y[at]
    return part.reshape([n for axis in region for n in (axis.many, 1)])


def result_for(shape: Shape, dtype: Any, x: Array) -> Array:
    """Memory for a result, its axes in the order that those of `x` have in memory."""
    if x.flags.c_contiguous:
        return empty(shape, dtype)
    order = sorted(range(len(shape)), key=lambda i: -abs(x.strides[i]))
    return empty(tuple(shape[i] for i in order), dtype).transpose(np.argsort(order) if order else ())


def truncated_means(shape: Shape, factors: Shape, dtype: np.dtype[Any]) -> Job | None:
    """The job of average pooling, for blocks along the last axes of an array in C order. `rest` is all that its walk
    takes after x and y.
    """
    ndim, axes = len(shape), range(len(shape) - len(factors), len(shape))
    cut = cut_by(shape, tuple(zip(axes, factors)), ("trim",) * ndim, ("left",) * ndim)
    call, _ = given.call_for(Options(rounding="truncate"), dtype, cut.n)
    layouts = (*(Layout(s, tuple(accumulate((dtype.itemsize, *s[:0:-1]), mul))[::-1], dtype, True)
                 for s in (shape, cut.shape)), None, None)
    job, = jobs_for(call, layouts, cut)
    if job is None:
        return None
    return job._replace(rest=(None, None, call.value, call.least, call.fill, call.ignored, *job.rest))


NOTHING = {"sum": 0, "count": 0, "any": False, "all": True}  # of no element


def constant(call: Call, n: int) -> Any:
    """What all blocks of n elements give, if that is known without them."""
    name, fewer = call.reduction.name, n < call.least
    if n == 0:
        return call.fill if fewer else NOTHING[name]
    if call.reduction.missing or not (fewer or name == "count"):
        return None
    return call.fill if fewer else n


def part_of(a: Layout | None, region: Region, reduced: bool) -> tuple[Layout | None, int]:
    """The layout that `split` makes of a region, or `results` if `reduced`, and how many elements precede it."""
    if a is None:
        return None, 0
    shape: list[int] = []
    strides: list[int] = []
    begin = 0
    for part, stride in zip(region, a.strides):
        factor = 1 if reduced else part.factor
        shape += part.many, factor
        strides += stride * factor, stride
        begin += stride * (part.to if reduced else part.begin)
    return a._replace(shape=tuple(shape), strides=tuple(strides)), begin // a.dtype.itemsize


@lru_cache(maxsize=1024)
def jobs_for(call: Call, layouts: Layouts, cut: Blocks) -> tuple[Job | None, ...]:
    """What fills the results of each region; None where that is a constant, or `reduce` has to find a way."""
    jobs: list[Job | None] = []
    if not all(map(is_plain, layouts, dtypes(call.reduction))):
        return (None,) * len(cut.regions)
    for region in cut.regions:
        found, begins = zip(*(part_of(a, region, i == 1) for i, a in enumerate(layouts)))
        job = None
        if prod(part.many for part in region) and constant(call, prod(part.factor for part in region)) is None:
            job = job_for(call.reduction, call.function, found, tuple(range(1, 2 * len(region), 2)))
        jobs.append(None if job is None else job._replace(begins=begins))
    return tuple(jobs)


def write(call: Call, operands: Operands, cut: Blocks) -> None:
    """Write the reductions of all blocks of x into y."""
    x, y, mask, weights = operands
    jobs = jobs_for(call, layouts_of(operands), cut)
    memories = [None if a is None else memory(a) for a in operands] if any(jobs) else []
    for region, job in zip(cut.regions, jobs):
        if job is not None:
            start(job, call, memories)
            continue
        value = constant(call, prod(part.factor for part in region))
        if value is not None:
            at: Any = (*(part.target for part in region), ...)
            y[at] = value
        elif prod(part.many for part in region):
            reduce(call, Operands(split(x, region), results(y, region), split(mask, region), split(weights, region)),
                   tuple(range(1, 2 * x.ndim, 2)))


def seen(x: Array) -> Array:
    """Bools as walks take them, and whatever else there is."""
    return x.view(np.uint8) if x.dtype.kind == "b" else x


def delivered(y: Array, dtype: np.dtype[Any]) -> Array:
    """What users get for what walks wrote."""
    if y.dtype == np.uint8 and dtype.kind == "b":
        return y.view(bool)
    return cast(y, dtype)


def coarsened(x: Array, cut: Blocks, options: Options, out: Array | None = None) -> Array:
    """The reductions of all blocks."""
    mask, weights = given.masks(options, x.shape)
    call, dtype = given.call_for(options, x.dtype, cut.n)
    if out is not None:
        check_out(out, cut.shape, dtype)
    target = None if out is None else np.asarray(out)  # walks take no matrix
    if options.name == "first":
        y = first(x, cut, options, call, dtype)
    else:
        kernel = np.dtype(call.reduction.out)
        read = [a for a in (x, mask, weights) if a is not None]
        direct = target is not None and target.dtype == kernel and not any(np.may_share_memory(target, a) for a in read)
        y = target if direct and target is not None else result_for(cut.shape, kernel, x)
        write(call, Operands(seen(x), y, mask, weights), cut)
    if out is None or target is None:
        return delivered(y, dtype)
    if y is not target:
        np.copyto(target, delivered(y, dtype))
    return out


def first(x: Array, cut: Blocks, options: Options, call: Call, dtype: np.dtype[Any]) -> Array:
    """The first element of every block."""
    y = result_for(cut.shape, dtype, x)
    for region in cut.regions:
        begins = tuple(slice(part.source.start, part.source.stop, part.factor) for part in region)
        y[tuple(part.target for part in region)] = cast(x[begins], dtype)
    if call.reduction.missing or call.least > 1:
        there = coarsened(x, cut, options._replace(reduction="nancount" if options.omits else "count", min_count=None,
                                                  dtype=None))
        y[there < call.least] = call.fill
    return y


def reduced(x: Array, axes: tuple[int, ...], options: Options) -> Array:
    """The reductions over whole axes, which are gone from the result."""
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    blocks = cut([(Part(0, 0, m, n // m if m else 1),) for n, m in zip(x.shape, shape)])
    return coarsened(x, blocks, options).reshape([n for i, n in enumerate(shape) if i not in axes])


def coarsen(x: ArrayLike, windows: Any, reduction: Any = "mean", *, boundary: Any = "exact", side: Any = "left",
            nan_policy: str = "propagate", where: ArrayLike | None = None, missing: Any = None,
            min_count: int | None = None, weights: ArrayLike | None = None, dtype: DTypeLike | None = None,
            rounding: str = "even", median: str = "midpoint", ties: str = "first", ignore: Any = None,
            out: Array | None = None, **unknown: Never) -> Array:
    """Reduce blocks of an array that do not overlap to one number each: downsample an image, a volume, labels, a grid.

    Parameters
    ----------
    x : array
        Of any number of axes and any strides; floats of 16, 32 and 64 bits, bfloat16, integers, bools. Masked
        elements of a masked array are missing, as by `where`; the result is a plain array.
    windows : dict of axis: factor, int, or tuple of ints
        How long a block is along each axis that is named; an int stands for all axes, a tuple has one for each. An int
        is an error where the last axis looks like that of colours, and `boundary` is 'short' or 'trim' there: if it has
        3 or 4 elements, and the two before it at least 16 each.
    reduction : str or @njit function
        'mean', 'sum', 'max', 'min', 'median', 'mode' (the most frequent value, as of labels), 'first' (the first
        element of the block), 'count' (of elements that are there), 'std', 'var', 'any' or 'all'. After 'nan', as in
        'nanmean', they stand for ``nan_policy='omit'``. A function that is compiled by Numba takes a 1-D array with
        the elements of a block that are there, in row-major order, and returns a number. After its `recompile` it is
        the new one.
    boundary : {'exact', 'trim', 'short'}, or dict of axis: one of them
        Where a factor does not divide an axis: an error; the rest of the axis is left out; it is a shorter block.
    side : {'left', 'right'}, or dict of axis: one of them
        Where blocks begin to be counted. The rest is at the end for 'left', at the beginning for 'right'.
    nan_policy : {'propagate', 'omit'}
        Whether a block with a NaN gives NaN, or NaN is missing.
    where : array of bools that broadcasts against x, optional
        Elements are missing where it is False.
    missing : number, optional
        Elements that equal it are missing. A result that is missing has this value, or NaN if results are floats.
    min_count : int, optional
        A block of fewer elements that are there is missing itself: NaN, or `missing`, or of integers without that the
        least value for 'max', the greatest for 'min', and else 0. By default 1; 0 for 'sum', 'count', 'any' and 'all'.
        'count', 'any' and 'all' give 0 and False for such a block. It may be more than a block has: then all are
        missing.
    weights : array that broadcasts against x, optional
        For 'mean': the sum of products by the sum of weights. They may be negative. A sum of 0 makes the result
        missing; a NaN or an infinite weight of an element that is there makes it NaN.
    dtype : dtype, optional
        Of the result. By default that of x, but as in NumPy for 'sum', float64 of integers for 'std', 'var' and
        weights, int64 for 'count', and bool for 'any' and 'all'. A float dtype has means of integers unrounded.
        Integers that are too large for it wrap. Means, medians, sums and deviations of floats take no integer dtype.
    rounding : {'even', 'nearest', 'truncate'}
        For 'mean' and 'median' of integers: how they are rounded, once, from the exact value: halves to the even
        integer or away from zero; or toward zero. Of floats it changes nothing.
    median : {'midpoint', 'lower', 'upper'}
        For 'median': which one an even number of elements has.
    ties : {'first', 'lowest'}
        For 'mode': which of equally frequent values it is, that which comes first in the block, or the least.
    ignore : number, optional
        For 'mode': a value, such as the background, that wins only where there is no other.
    out : array, optional
        Written and returned.

    Returns
    -------
    array
        Of as many axes as x. Its memory has the order of x.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range or of the wrong type, before anything is written; also for options that the
        reduction has no use for.

    Notes
    -----
    Means and sums of integers are exact. Those of float32 are added up in float64, those of float64 with the rounding
    errors kept. Nothing is padded, and no copy of x is made: where its memory is in no order that a loop can follow,
    it is copied in pieces of up to 1 MiB.

    Examples
    --------
    >>> import numpy as np
    >>> from numba_pool import coarsen
    >>> image = np.array([[0, 2, 9, 9], [1, 2, 9, 8]], np.uint8)
    >>> coarsen(image, 2)
    array([[1, 9]], dtype=uint8)
    >>> coarsen(image, {1: 3}, "max", boundary="short")
    array([[9, 9],
           [9, 8]], dtype=uint8)
    """
    for name in unknown:
        raise TypeError(f"coarsen() got an unexpected keyword argument {name!r}{given.instead_of(unknown)}")
    a = given.array(x)
    options = given.checked(Options(reduction, nan_policy, where, missing, min_count, weights, dtype, rounding, median,
                                    ties, ignore))
    return coarsened(a, blocks(a.shape, windows, boundary, side), given.with_mask(x, options), out)
