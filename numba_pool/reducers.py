"""Reductions over axes, to hand to `dask.array.coarsen` and to xarray's `.coarsen(...).reduce`.

Both cut an array into blocks by a reshaped view, and call a function with it and the axes inside of the blocks. The
functions here take such a view without a copy, and run the kernels of `numba_pool.coarsen`::

    da.coarsen(numba_pool.reducers.nanmean, x, {0: 2, 1: 2})
    obj.coarsen(y=2, x=2).reduce(numba_pool.reducers.nanmean)

There is one for each reduction of `coarsen`, and one with `nan` before its name, which leaves NaN out.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .blocks import options as given
from .blocks.coarsening import reduced


def _reducer(name: str) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, **keywords: Any) -> Any:
        if hasattr(a, "__dask_graph__"):  # what xarray hands over for arrays of dask
            for argument in ("where", "weights"):  # whose chunks are not those of the array
                if keywords.get(argument) is not None:
                    raise TypeError(f"{argument} must be None for dask arrays: pass it to numba_pool.dask.coarsen")
            axes = _axes(axis, a.ndim)
            whole = a.rechunk(dict.fromkeys(axes, -1))
            meta = reduce(np.empty((0,) * a.ndim, a.dtype), axes, **keywords)
            return whole.map_blocks(reduce, axis=axes, drop_axis=axes, dtype=meta.dtype, meta=meta, **keywords)
        x = given.array(a, "a")
        options = given.with_mask(a, given.from_keywords(name, keywords))
        return reduced(x, _axes(axis, x.ndim), options)[()]

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"""The reduction {name!r} of `numba_pool.coarsen` over whole axes of an array.

    Parameters
    ----------
    a : array
        Of any shape and strides.
    axis : int or tuple of ints, optional
        Axes to reduce; None stands for all.
    **keywords
        `nan_policy`, `where`, `missing`, `min_count`, `weights`, `dtype`, `rounding`, `median`, `ties` and `ignore` of
        `coarsen`. `where` and `weights` have to broadcast against `a`, which under ``da.coarsen`` and xarray's
        ``.coarsen(...).reduce`` is a view that they reshaped: give them to `numba_pool.dask` or `numba_pool.xarray`.

    Returns
    -------
    array without these axes, or a number where none is left
    """
    return reduce


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    each = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted(given.each_once(each, ndim, "axis")))


mean, sum, max, min, median, mode, first, count, std, var, any, all = map(_reducer, given.NAMES)
nanmean, nansum, nanmax, nanmin, nanmedian, nanmode, nanfirst, nancount, nanstd, nanvar, nanany, nanall = (
    _reducer(f"nan{name}") for name in given.NAMES
)

__all__ = [f"{nan}{name}" for nan in ("", "nan") for name in given.NAMES]
