"""`coarsen`: one number for each block of an array."""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .._arrays import Array, Shape, check_out
from .._memory import empty
from . import options as given
from .options import BOUNDARIES, SIDES, Options
from .plan import Call, Operands, reduce


class Part(NamedTuple):
    """Blocks of one length along an axis."""

    source: slice
    target: slice
    factor: int


def parts(length: int, factor: int, boundary: str, side: str, axis: int, shape: Shape) -> list[Part]:
    """The blocks of an axis, those of full length and one that is shorter; of an empty axis none."""
    whole, rest = divmod(length, factor)
    if rest == 0:
        return [Part(slice(0, length), slice(0, whole), factor)]
    if boundary == "exact":
        raise ValueError(f"windows must divide the shape {shape} if boundary is 'exact'; {factor} does not divide "
                         f"{length}, the length of axis {axis}: pass boundary='trim' or 'short'")
    first = rest if side == "right" else 0
    full = Part(slice(first, first + whole * factor), slice(0, whole), factor)
    if boundary == "trim":
        if not whole:
            raise ValueError(f"windows must be no longer than the axes of shape {shape} if boundary is 'trim', got "
                             f"{factor} for axis {axis}")
        return [full]
    if side == "right":
        short = Part(slice(0, rest), slice(0, 1), rest)
        return [short, full._replace(target=slice(1, whole + 1))] if whole else [short]
    short = Part(slice(length - rest, length), slice(whole, whole + 1), rest)
    return [full, short] if whole else [short]


class Blocks(NamedTuple):
    """How an array is cut into blocks."""

    shape: Shape  # of the result
    axes: list[list[Part]]  # for each axis of the array

    @property
    def n(self) -> int:
        """Elements of the largest block."""
        return prod(max(part.factor for part in axis) for axis in self.axes)

    def regions(self) -> Iterator[tuple[Part, ...]]:
        """Parts of the array whose blocks are alike."""
        return product(*self.axes)


def blocks(shape: Shape, windows: Any, boundary: Any, side: Any) -> Blocks:
    """The blocks of an array of a shape, from the arguments of `coarsen`."""
    ndim = len(shape)
    factors = given.factors(windows, ndim)
    axes = tuple(factors)
    words = given.per_axis(boundary, ndim, "boundary", BOUNDARIES, axes)
    sides = given.per_axis(side, ndim, "side", SIDES, axes)
    cut = [parts(n, factors.get(i, 1), words.get(i, "exact"), sides.get(i, "left"), i, shape)
           for i, n in enumerate(shape)]
    return Blocks(tuple(axis[-1].target.stop for axis in cut), cut)


def split(a: Any, region: tuple[Part, ...]) -> Any:
    """A region of an array with two axes for each of its own, blocks and elements of a block; of None that."""
    if a is None:
        return None
    part = a[(*(axis.source for axis in region), ...)]  # also of no axes a view
    return part.reshape([n for axis in region for n in (axis.target.stop - axis.target.start, axis.factor)])


def result_for(shape: Shape, dtype: Any, x: Array) -> Array:
    """Memory for a result, its axes in the order that those of `x` have in memory."""
    order = sorted(range(len(shape)), key=lambda i: -abs(x.strides[i]))
    return empty(tuple(shape[i] for i in order), dtype).transpose(np.argsort(order) if order else ())


def fill(call: Call, name: str, operands: Operands, axes: tuple[int, ...]) -> None:
    """Write the reductions over some axes."""
    n = prod(operands.x.shape[i] for i in axes)
    if not call.reduction.missing and n < call.least:
        operands.y[...] = call.fill
    elif not call.reduction.missing and name == "count":
        operands.y[...] = n
    else:
        reduce(call, operands, axes)


def seen(x: Array) -> Array:
    """Bools as walks take them, and whatever else there is."""
    return x.view(np.uint8) if x.dtype.kind == "b" else x


def delivered(y: Array, dtype: np.dtype[Any], out: Array | None) -> Array:
    """What users get for what walks wrote."""
    if out is not None:
        if y is not out:
            np.copyto(out, y, casting="unsafe")
        return out
    if y.dtype == np.uint8 and dtype.kind == "b":
        return y.view(bool)
    return y if y.dtype == dtype else y.astype(dtype)


def coarsened(x: Array, cut: Blocks, options: Options, out: Array | None = None) -> Array:
    """The reductions of all blocks."""
    mask, weights = given.masks(options, x.shape)
    call, dtype = given.call_for(options, x.dtype, cut.n)
    if out is not None:
        check_out(out, cut.shape, dtype)
    if options.name == "first":
        return delivered(first(x, cut, options, call), dtype, out)
    kernel = np.dtype(call.reduction.out)
    read = [a for a in (x, mask, weights) if a is not None]
    direct = out is not None and out.dtype == kernel and not any(np.may_share_memory(out, a) for a in read)
    y = out if direct and out is not None else result_for(cut.shape, kernel, x)
    for region in cut.regions():
        at: Any = (*(part.target for part in region), ...)
        target = y[at]
        expanded = target.reshape([n for length in target.shape for n in (length, 1)])
        operands = Operands(split(seen(x), region), expanded, split(mask, region), split(weights, region))
        fill(call, options.name, operands, tuple(range(1, 2 * x.ndim, 2)))
    return delivered(y, dtype, out)


def first(x: Array, cut: Blocks, options: Options, call: Call) -> Array:
    """The first element of every block."""
    y = result_for(cut.shape, x.dtype, x)
    for region in cut.regions():
        begins = tuple(slice(part.source.start, part.source.stop, part.factor) for part in region)
        y[tuple(part.target for part in region)] = x[begins]
    if call.reduction.missing or call.least > 1:
        there = coarsened(x, cut, options._replace(reduction="nancount" if options.omits else "count", min_count=None,
                                                  dtype=None))
        y[there < call.least] = call.fill
    return y


def reduced(x: Array, axes: tuple[int, ...], options: Options) -> Array:
    """The reductions over whole axes, which are gone from the result."""
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    cut = Blocks(shape, [[Part(slice(0, n), slice(0, m), n // m if m else 1)] for n, m in zip(x.shape, shape)])
    return coarsened(x, cut, options).reshape([n for i, n in enumerate(shape) if i not in axes])


def coarsen(x: ArrayLike, windows: Any, reduction: Any = "mean", *, boundary: Any = "exact", side: Any = "left",
            nan_policy: str = "propagate", where: ArrayLike | None = None, missing: Any = None,
            min_count: int | None = None, weights: ArrayLike | None = None, dtype: DTypeLike | None = None,
            rounding: str = "even", median: str = "midpoint", ties: str = "first", ignore: Any = None,
            out: Array | None = None) -> Array:
    """Reduce blocks of an array that do not overlap to one number each: downsample an image, a volume, labels, a grid.

    Parameters
    ----------
    x : array
        Of any number of axes and any strides; floats of 16, 32 and 64 bits, bfloat16, integers, bools. The mask of a
        masked array is ignored: pass ``where=~np.ma.getmaskarray(x)``.
    windows : dict of axis: factor, int, or tuple of ints
        How long a block is along each axis that is named; an int stands for all axes, a tuple has one for each.
    reduction : str or @njit function
        'mean', 'sum', 'max', 'min', 'median', 'mode' (the most frequent value, as of labels), 'first' (the first
        element of the block), 'count' (of elements that are there), 'std', 'var', 'any' or 'all'. After 'nan', as in
        'nanmean', they stand for ``nan_policy='omit'``. A function that is compiled by Numba takes a 1-D array with
        the elements of a block that are there, in row-major order, and returns a number.
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
    weights : array that broadcasts against x, optional
        For 'mean': the sum of products by the sum of weights.
    dtype : dtype, optional
        Of the result. By default that of x, but as in NumPy for 'sum', float64 of integers for 'std', 'var' and
        weights, int64 for 'count', and bool for 'any' and 'all'. A float dtype has means of integers unrounded.
        Integers that are too large for it wrap.
    rounding : {'even', 'nearest', 'truncate'}
        How means and medians of integers are rounded, once, from the exact value: halves to the even integer or away
        from zero; or toward zero.
    median : {'midpoint', 'lower', 'upper'}
        Which median an even number of elements has.
    ties : {'first', 'lowest'}
        Which of equally frequent values is the mode: that which comes first in the block, or the least.
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
        For arguments out of range or of the wrong type, before anything is written.

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
    a = given.array(x)
    options = given.checked(Options(reduction, nan_policy, where, missing, min_count, weights, dtype, rounding, median,
                                    ties, ignore))
    return coarsened(a, blocks(a.shape, windows, boundary, side), options, out)
