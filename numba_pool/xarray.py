"""Coarsening and pooling along named dimensions of xarray's DataArray and Dataset, by the kernels of `numba_pool`.

Coordinates come along, attributes are kept as xarray keeps them, and variables without the dimensions are left alone.
Arrays of dask inside stay lazy.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial
from math import prod
from typing import Any, Never

import numpy as np
from numpy.typing import DTypeLike

from . import _bindings, blocks, functional
from ._arguments import bounded, grid, integer, shown
from ._dispatch.axes import over
from .blocks.options import BOUNDARIES, SIDES, one_of, word_of

try:
    from xarray import DataArray, Dataset, Variable, align
except ImportError as error:
    raise _bindings.missing("xarray", "xarray", error) from error

from ._dimensions import Sizes, T, check_keywords, coarsened_by_xarray, is_lazy, lengths, per_dim, rebuilt

__all__ = ["coarsen", "pool"]

SUMS = ("mean", "sum")  # for which the core counts elements
MEANS = ("mean", "nanmean")  # which are floats, as in xarray
NAN_IS_TRUE = ("any", "all")  # reductions that skip no NaN by default, as in xarray
POOLS = {"max": "max_pool", "min": "min_pool", "mean": "avg_pool", "sum": "sum_pool", "lp": "lp_pool"}
OWNERS = {"count_include_pad": "mean", "divisor_override": "mean", "norm_type": "lp"}  # keywords of one reduction
INSTEAD = {"nan_policy": ": pass skipna=True or skipna=False", "out": ": results are new",  # the core's keywords
           "dim": ": pass windows"}  # xarray's
OF_POOL = {"min_count": ": pass min_periods", "center": ": pass stride=1, padding='same_lower'"}


def beside(value: Any, name: str, obj: DataArray | Dataset) -> Any:
    """`where` or `weights`: of a DataArray the variable, if its coordinates are those of the object."""
    if isinstance(value, Dataset):
        raise TypeError(f"{name} must be a DataArray or an array, got a Dataset")
    if not isinstance(value, DataArray):
        return value
    if not set(value.dims) <= set(obj.dims):
        raise ValueError(f"{name} must have no dimensions but those of obj, {tuple(obj.dims)}, got {value.dims}")
    try:
        align(obj, value, join="exact", copy=False)
    except ValueError as error:
        odd = [dim for dim in value.indexes if dim in obj.indexes and not value.indexes[dim].equals(obj.indexes[dim])]
        fits = all(value.sizes[dim] == obj.sizes[dim] for dim in value.dims)
        way = f"; or drop them: {name}.drop_vars({(odd[0] if len(odd) == 1 else odd)!r})" if fits and odd else ""
        raise ValueError(f"{name} must have the coordinates of obj: {error}{way}") from None
    return value.variable


def along(value: Any, name: str, own: Hashable, variable: Variable) -> Any:
    """The same as an array that broadcasts against a variable, whose name in a Dataset is `own`.

    Weights with none of its dimensions are alike for all its elements. A mask is not, as a whole: it would hide the
    variable in one place and show it in another.
    """
    if not isinstance(value, Variable):
        return value
    lacking = [dim for dim in value.dims if dim not in variable.dims]
    if not lacking:
        return value.set_dims(variable.dims).data
    if name == "weights" and len(lacking) == value.ndim:
        return np.ones(())
    raise ValueError(f"{name} must have no dimensions but those of each variable that is coarsened, got {value.dims}; "
                     f"variable {own!r} has no {', '.join(map(repr, lacking))}: coarsen it by itself, or "
                     f"obj.drop_vars({own!r})")


def coarsen(obj: T, windows: Mapping[Any, int] | None = None, reduction: Any = "mean", *, boundary: Any = "exact",
            side: Any = "left", coord_func: Any = "mean", skipna: bool | None = None, min_count: int | None = None,
            weights: Any = None, keep_attrs: bool | None = None, where: Any = None, missing: Any = None,
            dtype: DTypeLike | Mapping[Any, DTypeLike] | None = None, rounding: str = "even", median: str = "midpoint",
            ties: str = "first", ignore: Any = None, **unknown: Never) -> T:
    """Reduce blocks along named dimensions to one number each, with their coordinates.

    Parameters
    ----------
    obj : DataArray or Dataset
        Of arrays of NumPy or dask; floats of 16, 32 and 64 bits, bfloat16, integers, bools. Variables of a Dataset that
        have none of the dimensions may be anything.
    windows : dict of dimension: int
        How long a block is along each dimension that is named.
    reduction : str or @njit function
        'mean', 'sum', 'max', 'min', 'median', 'mode', 'first', 'count', 'std', 'var', 'any', 'all', one of these after
        'nan', or a function that is compiled by Numba: as for `numba_pool.coarsen`.
    boundary : {'exact', 'trim', 'short'}, or dict of dimension: one of them
        Where a factor does not divide a dimension: an error; the rest is left out; it is a shorter block. xarray's word
        'pad' is taken for 'short'. Nothing is padded, so that integers remain integers.
    side : {'left', 'right'}, or dict of dimension: one of them
        Where blocks begin to be counted. The rest is at the end for 'left', at the beginning for 'right'.
    coord_func : str, function, or dict of coordinate: one of these
        What becomes of coordinates, as for xarray's `obj.coarsen`: the name of one of xarray's reductions, or a
        function of an array and `axis`. Unless it is a dict, it is for the coordinates that are named like dimensions.
        Others get their mean. Strings have none: pass ``{'station': 'min'}``, say.
    skipna : bool, optional
        Whether NaN is missing. None stands for True, as in xarray; but for 'any' and 'all', to which NaN is true as in
        xarray, for False. With a reduction that begins with 'nan', it must not be False.
    min_count : int, optional
        A block of fewer elements that are there is missing itself: NaN, or `missing`, or of integers without that the
        least value for 'max', the greatest for 'min', and else 0. By default 1; 0 for 'sum', 'count', 'any' and 'all'.
    weights : DataArray or array, optional
        For 'mean': the sum of products by the sum of weights. A DataArray has some of the dimensions of the variables,
        in any order, and the coordinates of obj. Another array has to broadcast against the variables. A variable of a
        Dataset with none of these dimensions is averaged as by equal weights; one with only some of them raises.
    keep_attrs : bool, optional
        Whether attributes are kept. None stands for xarray's option `keep_attrs`, and what xarray does without it.
    where : DataArray or array, of bools, optional
        Elements are missing where it is False. A DataArray has no dimensions but those of each variable.
    dtype : dtype, or dict of variable: dtype, optional
        Of results. By default means of integers and bools are float64, as in xarray; everything else is as for
        `numba_pool.coarsen`, medians of integers being integers. A dict is for a Dataset. It names variables that are
        coarsened; others have the default.
    missing, rounding, median, ties, ignore
        As for `numba_pool.coarsen`: the value of missing elements, how medians are rounded and means whose `dtype` is
        one of integers, which median and which mode is taken, and the value that is the mode only where there is no
        other. There is no `nan_policy`, which `skipna` stands for, and no `out`.

    Returns
    -------
    DataArray or Dataset
        With the dimensions, names and coordinates that xarray's own `obj.coarsen` gives it. Variables of dask, and
        those with weights or a mask of dask, are lazy.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range or of the wrong type, unknown dimensions, coordinates that differ from those of obj,
        variables that are not of numbers. What is wrong in a single variable of a Dataset names it.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray
    >>> from numba_pool.xarray import coarsen
    >>> heights = xarray.DataArray([[1, 4, 5, 9], [2, 4, 5, 8]], {"x": [10, 20, 30, 40]}, ("y", "x"))
    >>> coarsen(heights, {"x": 2}, "max")
    <xarray.DataArray (y: 2, x: 2)> Size: 32B
    array([[4, 9],
           [4, 8]])
    Coordinates:
      * x        (x) float64 16B 15.0 35.0
    Dimensions without coordinates: y
    """
    check_keywords("coarsen", unknown, obj, INSTEAD)
    factors = lengths(obj, windows)
    boundaries, sides = words(boundary, factors, "boundary", BOUNDARIES), words(side, factors, "side", SIDES)
    check_blocks(factors, boundaries, obj)
    check_dtypes(dtype, factors, obj)
    pair = {"where": beside(where, "where", obj), "weights": beside(weights, "weights", obj)}
    options = {"nan_policy": policy(skipna, reduction), "missing": missing, "min_count": min_count,
               "rounding": rounding, "median": median, "ties": ties, "ignore": ignore}

    def around(ds: Dataset) -> Dataset:
        return coarsened_by_xarray(ds, factors, boundaries, sides, coord_func, keep_attrs)

    def made(name: Hashable, variable: Variable, data: Any) -> Any:
        axes = {dim: axis for axis, dim in enumerate(variable.dims) if dim in factors}
        others: dict[str, Any] = {each: along(value, each, name, variable) for each, value in pair.items()}
        home: Any = blocks
        if any(map(is_lazy, (data, *others.values()))):
            from . import dask as home
        return home.coarsen(data, {axes[dim]: factors[dim] for dim in axes}, reduction, **others, **options,
                            dtype=dtype_for(name, dtype, reduction, data.dtype),
                            boundary={axes[dim]: boundaries[dim] for dim in axes},
                            side={axes[dim]: sides[dim] for dim in axes})

    return rebuilt(obj, factors, around, made)


def dtype_for(name: Hashable, dtype: Any, reduction: Any, own: np.dtype[Any]) -> Any:
    """The core's `dtype` for a variable."""
    if isinstance(dtype, Mapping):
        dtype = dtype.get(name)
    return np.float64 if dtype is None and reduction in MEANS and own.kind in "biu" else dtype


def check_dtypes(dtype: Any, factors: Sizes, obj: DataArray | Dataset) -> None:
    """That a dict of dtypes names variables that are coarsened."""
    if not isinstance(dtype, Mapping):
        return
    if isinstance(obj, DataArray):
        raise TypeError(f"dtype must be one dtype for a DataArray, got {dtype}: a dict is for the variables of a "
                        "Dataset")
    names = [name for name, variable in obj.data_vars.items() if not factors.keys().isdisjoint(variable.dims)]
    for name in dtype:
        if name not in names:
            raise ValueError(f"dtype must name variables of obj that are coarsened, which are {names}, got {name!r}")


def words(value: Any, windows: Sizes, name: str, allowed: tuple[str, ...]) -> dict[Hashable, str]:
    """One of the allowed words for each dimension."""
    given = per_dim(value, windows, name, dict.fromkeys(windows, allowed[0]))
    return {dim: word_of(word, name, allowed) for dim, word in given.items()}


def check_blocks(factors: Sizes, boundaries: dict[Hashable, str], obj: DataArray | Dataset) -> None:
    """That blocks can be cut, in terms of dimensions, before xarray or the core says so in others."""
    for dim, factor in factors.items():
        size = obj.sizes[dim]
        if boundaries[dim] == "exact" and size % factor:
            raise ValueError(f"windows must divide the sizes of obj if boundary is 'exact'; {factor} does not divide "
                             f"{size}, the size of {dim!r}: pass boundary='trim' or 'short'")
        if boundaries[dim] == "trim" and 0 < size < factor:
            raise ValueError("windows must be no longer than the dimensions of obj if boundary is 'trim', got "
                             f"{factor} for {dim!r} of size {size}")


def policy(skipna: Any, reduction: Any) -> str:
    """The core's `nan_policy`."""
    if skipna is not None and not isinstance(skipna, (bool, np.bool_)):
        raise TypeError(f"skipna must be True, False or None, got {shown(skipna)}")
    named = isinstance(reduction, str)
    if skipna is not None and not skipna and named and reduction.startswith("nan"):
        raise ValueError(f"skipna must not be False for reduction={reduction!r}, which skips NaN: pass "
                         f"{reduction[3:]!r}")
    skips = not (named and reduction in NAN_IS_TRUE) if skipna is None else skipna
    return "omit" if skips else "propagate"


def pool(obj: T, windows: Mapping[Any, int] | None = None, reduction: str = "max", *, stride: Any = None,
         padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, count_include_pad: bool | None = None,
         divisor_override: float | None = None, norm_type: float | None = None, skipna: bool | None = None,
         min_periods: int | None = None, keep_attrs: bool | None = None, **unknown: Never) -> T:
    """Reduce sliding windows along one to three named dimensions, with the coordinates of their centres.

    Parameters
    ----------
    obj : DataArray or Dataset
        Of arrays of NumPy or dask; floats of 16, 32 and 64 bits, bfloat16, integers; bools for 'mean', or with
        min_periods. Variables that have none of the dimensions may be anything. Where a variable has some of them,
        windows are as long along these.
    windows : dict of dimension: int
        How long a window is along each dimension that is named. All others are as the batch and the channels are to
        `numba_pool.max_pool2d`, in whatever order.
    reduction : {'max', 'min', 'mean', 'sum', 'lp'}
        As `max_pool2d`, `min_pool2d`, `avg_pool2d`, `sum_pool2d` and `lp_pool2d` compute them. Means of integers and
        bools are float64, as in xarray.
    stride : int, or dict of dimension: int, optional
        How far one window is from the next. None stands for the length of windows, as for dimensions that a dict does
        not name.
    padding : int, dict of dimension: int or (before, after), 'valid', 'same' or 'same_lower'
        With 'same' and a stride of 1, the result has the sizes of obj, and for odd windows its coordinates.
    dilation : int, or dict of dimension: int
        How far one element of a window is from the next.
    ceil_mode : bool
        Keep a last window that hangs over the end; what hangs over is never counted.
    count_include_pad : bool, optional
        For 'mean': whether padded elements count in the divisor. By default they do not, unless skipna is False.
    divisor_override : number other than 0, optional
        For 'mean': divides every sum.
    norm_type : float
        For 'lp', which needs it: the order of the norm.
    skipna : bool, optional
        Whether NaN is missing, as is what lies outside of the array: a mean is divided by the number of the others. By
        default it is, but not to 'lp', which does not skip any.
    min_periods : int, optional
        A window of fewer elements that are there is NaN. By default 1; 0 for 'sum', so that the sum of nothing is 0, as
        xarray's own. Given, results of integers and bools are float64, which have NaN. A variable with only some of the
        dimensions has fewer elements in a window.
    keep_attrs : bool, optional
        Whether attributes are kept. None stands for xarray's option `keep_attrs`, and what xarray does in coarsening
        without it.

    Returns
    -------
    DataArray or Dataset
        With dimensions in the order of obj, and its names. Variables of dask are lazy. A coordinate is taken at the
        centre of each window: at the element in the middle, of any dtype, or halfway between the two in the middle, as
        floats if it is of integers. Beyond the ends, which a padded window may have its centre at, it goes on in equal
        steps. Strings and others that have nothing halfway are taken at the earlier of the two, and at the end.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range or of the wrong type, unknown dimensions, variables that are not of numbers. What is
        wrong in a single variable of a Dataset names it.

    Notes
    -----
    With a stride of 1 the values are those of xarray's ``obj.rolling(x=w, min_periods=m)``, for min_periods=m and

    - ``padding={'x': (w - 1, 0)}``: windows that end at each element;
    - ``padding='same_lower'``, which is ``{'x': (w // 2, w - 1 - w // 2)}``: those of ``center=True``, with the odd
      element of an even window before the centre.

    There min_periods is by default the number of elements of a window: the product of all `windows`. It labels windows
    by their elements, and not by their centres: ``.assign_coords(obj.coords)`` does as well.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray
    >>> from numba_pool.xarray import pool
    >>> heights = xarray.DataArray([1, 4, 5, 9, 2], {"x": [10, 20, 30, 40, 50]}, ("x",))
    >>> pool(heights, {"x": 3}, stride=2)
    <xarray.DataArray (x: 2)> Size: 16B
    array([5, 9])
    Coordinates:
      * x        (x) int64 16B 20 40
    """
    check_keywords("pool", unknown, obj, INSTEAD | OF_POOL)
    sizes = lengths(obj, windows)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"windows must name one to three dimensions, got {list(sizes)}")
    family = POOLS[one_of(reduction, "reduction", tuple(POOLS))]
    given = {"count_include_pad": count_include_pad, "divisor_override": divisor_override, "norm_type": norm_type}
    more: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in more:
        if OWNERS[name] != reduction:
            raise ValueError(f"{name} is for the reduction {OWNERS[name]!r} only, got reduction={reduction!r}")
    if reduction == "lp" and norm_type is None:
        raise TypeError("norm_type must be given for the reduction 'lp'")
    skips, least = skipping(skipna, min_periods, reduction)
    if skips:
        more["nan_policy"] = "omit"
    if skips and reduction == "mean":
        more.setdefault("count_include_pad", False)
    if reduction in SUMS and least is not None:
        more["min_count"] = least
    arguments = {"stride": per_dim(sizes if stride is None else stride, sizes, "stride", sizes),
                 "padding": per_dim(padding, sizes, "padding", dict.fromkeys(sizes, 0)),
                 "dilation": per_dim(dilation, sizes, "dilation", dict.fromkeys(sizes, 1))}

    def core_arguments(dims: list[Hashable]) -> dict[str, Any]:
        """The arguments of the core for some of the dimensions."""
        shared = {name: tuple(values[dim] for dim in dims) for name, values in arguments.items()}
        return {"kernel_size": tuple(sizes[dim] for dim in dims), **shared, "ceil_mode": ceil_mode,
                **({"padding": padding} if isinstance(padding, str) else {})}

    every = list(sizes)
    try:
        cut = grid(tuple(obj.sizes[dim] for dim in every), **core_arguments(every))
    except (TypeError, ValueError) as error:
        error.add_note(f"spatial axes are the dimensions {every}")
        raise
    whole = dict(zip(every, cut))
    middles = {dim: 2 * (np.arange(axis.n) * axis.stride - axis.before) + axis.step * (axis.kernel - 1)
               for dim, axis in whole.items()}

    def around(ds: Dataset) -> Dataset:
        moved = {name: at_centres(coord.variable, middles) for name, coord in ds.coords.items()
                 if not set(sizes).isdisjoint(coord.dims)}
        return coarsened_by_xarray(ds.drop_vars(moved).assign_coords(moved), {}, {}, {}, "mean", keep_attrs)

    def made(name: Hashable, variable: Variable, data: Any) -> Any:
        dims = [dim for dim in variable.dims if dim in sizes]
        spatial = tuple(variable.dims.index(dim) for dim in dims)
        function = getattr(functional, f"{family}{len(dims)}d")
        if data.dtype.kind in "biu" and (reduction == "mean" or least is not None):
            data = data.astype(np.float64)
        if reduction not in SUMS and least is not None and least > 1:
            function = partial(of_enough, function, getattr(functional, f"sum_pool{len(dims)}d"), least)
        if not is_lazy(data):
            return over(function, spatial, data, **core_arguments(dims), **more)
        from . import dask

        return dask.over(function, spatial, data, [whole[dim] for dim in dims], {"ceil_mode": ceil_mode, **more})

    return rebuilt(obj, sizes, around, made)


def skipping(skipna: Any, min_periods: Any, reduction: str) -> tuple[bool, int | None]:
    """Whether elements may be missing, and how many must not be, None for the default."""
    skips = reduction != "lp" if skipna is None else policy(skipna, reduction) == "omit"
    if skips and reduction == "lp":
        raise ValueError("skipna must be False or None for reduction='lp', which skips no NaN, got True")
    if min_periods is None:
        return skips, None
    if not skips:
        raise ValueError(f"min_periods must be None where no element is missing, got {min_periods!r} with "
                         f"skipna={skipna!r}, reduction={reduction!r}")
    return skips, bounded(integer(min_periods, "min_periods", "an int or None"), "min_periods", 0)


def of_enough(extremes: Any, sums: Any, least: int, x: Any, nan_policy: str, **windows: Any) -> Any:
    """Maxima or minima, NaN in windows with fewer elements that are not."""
    y = extremes(x, nan_policy=nan_policy, **windows)
    few = sums((~np.isnan(x)).astype(np.min_scalar_type(prod(windows["kernel_size"]))), **windows) < least
    bits = y.view(f"i{y.itemsize}")
    bits |= -few.view(np.int8)  # with all bits set, floats are NaN; a branch would often be mispredicted
    return y


def at_centres(coord: Variable, middles: dict[Hashable, Any]) -> Variable:
    """A coordinate at the centres of windows, which are counted in halves of elements."""
    for dim, twice in middles.items():
        if dim in coord.dims:
            coord = interpolated(coord.to_base_variable(), dim, twice)
    return coord


def interpolated(coord: Variable, dim: Hashable, twice: Any) -> Variable:
    """A coordinate along one dimension at places in halves of elements, which may lie beyond its ends."""
    n = coord.sizes[dim]
    nearest = np.clip(twice // 2, 0, n - 1)  # the one before, of two
    halves = (twice - 2 * nearest).reshape([-1 if other == dim else 1 for other in coord.dims])
    here = coord.isel({dim: nearest})
    if n == 1 or not halves.any() or coord.dtype.kind in "SUb":
        return here
    first = np.minimum(nearest, n - 2)
    start, low, high = (coord.isel({dim: at}).data for at in (nearest, first, first + 1))
    if coord.dtype.kind in "iu":
        start, low, high = (a.astype(np.float64) for a in (start, low, high))
    try:
        data = start + (high - low) * halves / 2
    except TypeError:  # objects that are no dates
        return here
    return Variable(coord.dims, data.astype(start.dtype), coord.attrs, coord.encoding)
