"""Max pooling, and min pooling, which is max pooling of numbers seen in a mirror."""

from __future__ import annotations  # help() shows them by name

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _arrays as arrays
from .._arrays import Array, Planes
from .._dispatch import plans
from .._dispatch.again import Calls
from .._dispatch.axes import along
from .._dispatch.calls import check_bool, check_pair, forward, scattered
from .._docstrings import documented
from ..kernels._job import REDUCTIONS, Call
from ..kernels.narrow import narrow_rows
from ..simd import OMITTED, SINGLES
from ._missing import check_accepted, extremes, is_float, is_omitted, partial_of

EXTREMES = {  # what docstrings have of them
    "max": {"extreme": "max", "Extreme": "Maximum", "of_2x2": "(array([[[3.]]]), array([[[1]]], dtype=int32))"},
    "min": {"extreme": "min", "Extreme": "Minimum", "of_2x2": "(array([[[0.5]]]), array([[[3]]], dtype=int32))"},
}


def plan_maximum(x: Planes, plan: Callable[..., Call], windows: tuple[Any, ...], return_indices: bool, out: Any,
                 extreme: str = "max", nan_policy: Any = "propagate") -> Call:
    """The maximum, or the minimum, over the windows that `plan` makes of its arguments."""
    reduction, omit = f"arg{extreme}" if return_indices else extreme, is_omitted(nan_policy) and is_float(x.flat)
    several = None if return_indices or omit else arrays.pack_of(x, *([out] if isinstance(out, np.ndarray) else []))
    packs = seen = several
    if REDUCTIONS[reduction].mirrored:
        seen = arrays.mirror(packs or x.flat.dtype)
    if omit:
        seen = OMITTED[seen or arrays.seen_as(x.flat.dtype)]
    if packs is not None:
        axes = -x.rank - 1
        count = x.channels * x.flat.itemsize // packs.itemsize
        call = plan((*x.shape[:axes], count, *x.spatial), x.rank, x.last, *windows, reduction, dtype=packs, seen=seen)
        return call._replace(shape=(*call.shape[:axes], x.channels, *call.shape[-x.rank :]))
    narrow = not return_indices and arrays.is_narrow(x) and not (omit and x.flat.itemsize <= 2)
    call = plan(x.shape, x.rank, x.last, *windows, reduction, dtype=x.flat.dtype, narrow=narrow, seen=seen, omit=omit)
    if call.worker is narrow_rows and not omit:
        single = SINGLES.get(x.flat.dtype.name)
        call = call._replace(seen=arrays.mirror(single or x.flat.dtype) if seen is not None else single)
    return call


def _forward(rank: int, extreme: str) -> Any:
    calls = Calls()

    def plan(x: Planes, _: Any, arguments: tuple[Any, ...], out: Any) -> Call:
        *windows, return_indices, nan_policy = arguments
        return plan_maximum(x, plans.uniform, (*windows, True), return_indices, out, extreme, nan_policy)

    @documented(rank, f"{extreme}_pool", **EXTREMES[extreme])
    def pool(x: ArrayLike, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
             ceil_mode: bool = False, return_indices: bool = False, *, nan_policy: str = "propagate",
             where: ArrayLike | None = None, channel_axis: Any = None, out: Any = None) -> Any:
        """{Extreme} over sliding windows.

        Parameters
        ----------
        padding : ...
            Padded elements never win.

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import {extreme}_pool2d
        >>> {extreme}_pool2d(np.array([[[1.0, 3.0], [2.5, 0.5]]]), 2, return_indices=True)
        {of_2x2}
        """
        if channel_axis is not None:
            return along(pool, locals())
        if where is not None:
            windows = kernel_size, stride, padding, dilation, ceil_mode
            return extremes(partial_of(pool, windows), x, where, nan_policy, return_indices, out, extreme == "max")
        arguments = kernel_size, stride, padding, dilation, ceil_mode, return_indices, nan_policy
        known = calls.again(x, out, arguments)
        if known is not None:
            return known
        p = arrays.planes(x, rank, indices=check_bool(return_indices, "return_indices"))
        check_pair(out, return_indices)
        return calls.long(x, p, arguments, plan, forward, out)

    return pool


def scatter_backward(name: str, rank: int) -> Any:
    """The backward of every maximum: indices say where each gradient goes, whatever the windows were."""
    calls = Calls()

    def plan(grad: Planes, shape: Any, _: Any, out: Any) -> Call:
        return plans.routed(grad.shape, shape, rank, grad.last, grad.flat.dtype)

    @documented(rank, f"{name}_backward")
    def pool_backward(grad_output: ArrayLike, indices: ArrayLike, input_shape: Any, *, nan_policy: str = "propagate",
                      where: ArrayLike | None = None, channel_axis: Any = None, out: Array | None = None) -> Array:
        """Gradient of `{pool}`: every upstream element goes to the element that won its window.

        Parameters
        ----------
        nan_policy, where
            May be what the forward was given. The indices tell which elements won, so that neither is needed.

        Returns
        -------
        array of shape `input_shape` and grad_output's dtype, in which gradients that meet in one element are added up,
            one by one: integers wrap, and a sum of float32 does not count beyond 2^24

        Raises
        ------
        ValueError
            Where an index lies outside its plane.
        """
        if channel_axis is not None:
            return along(pool_backward, locals())
        if where is not None or nan_policy != "propagate":
            check_accepted(nan_policy, where, input_shape)
        return scattered(calls, plan, rank, "grad_output", grad_output, indices, input_shape, out)

    return pool_backward


max_pool1d, max_pool2d, max_pool3d = (_forward(rank, "max") for rank in (1, 2, 3))
min_pool1d, min_pool2d, min_pool3d = (_forward(rank, "min") for rank in (1, 2, 3))
max_pool1d_backward, max_pool2d_backward, max_pool3d_backward = (
    scatter_backward("max_pool", rank) for rank in (1, 2, 3)
)
min_pool1d_backward, min_pool2d_backward, min_pool3d_backward = (
    scatter_backward("min_pool", rank) for rank in (1, 2, 3)
)
