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
from .._dispatch.calls import check_bool, check_pair, forward, ranked, scattered
from ..kernels._job import REDUCTIONS, Call
from ..kernels.narrow import narrow_rows
from ..simd import SINGLES

MIN_EXAMPLE = """>>> import numpy as np
        >>> from numba_pool import min_pool2d
        >>> min_pool2d(np.array([[[1.0, 3.0], [2.5, 0.5]]]), 2, return_indices=True)
        (array([[[0.5]]]), array([[[3]]], dtype=int32))
        """


def plan_maximum(x: Planes, plan: Callable[..., Call], windows: tuple[Any, ...], return_indices: bool, out: Any,
                 extreme: str = "max") -> Call:
    """The maximum, or the minimum, over the windows that `plan` makes of its arguments."""
    reduction = f"arg{extreme}" if return_indices else extreme
    packs = None if return_indices else arrays.pack_of(x, *([out] if isinstance(out, np.ndarray) else []))
    seen = packs
    if REDUCTIONS[reduction].mirrored:
        seen = arrays.mirror(packs or x.flat.dtype)
    if packs is not None:
        axes = -x.rank - 1
        count = x.channels * x.flat.itemsize // packs.itemsize
        call = plan((*x.shape[:axes], count, *x.spatial), x.rank, x.last, *windows, reduction, dtype=packs, seen=seen)
        return call._replace(shape=(*call.shape[:axes], x.channels, *call.shape[-x.rank :]))
    narrow = not return_indices and arrays.is_narrow(x)
    call = plan(x.shape, x.rank, x.last, *windows, reduction, dtype=x.flat.dtype, narrow=narrow, seen=seen)
    if call.worker is narrow_rows:
        single = SINGLES.get(x.flat.dtype.name)
        call = call._replace(seen=arrays.mirror(single or x.flat.dtype) if seen is not None else single)
    return call


def _forward(rank: int, extreme: str) -> Any:
    calls = Calls()

    def plan(x: Planes, _: Any, arguments: tuple[Any, ...], out: Any) -> Call:
        *windows, return_indices, _ = arguments
        return plan_maximum(x, plans.uniform, (*windows, True), return_indices, out, extreme)

    def pool(x: ArrayLike, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
             ceil_mode: bool = False, return_indices: bool = False, *, channel_axis: Any = None,
             out: Any = None) -> Any:
        """Maximum over sliding windows.

        Parameters
        ----------
        x : array, shape (N, C, {spatial}) or (C, {spatial})
            float32, float64, float16, bfloat16 or any integer type.
        kernel_size : int or one int per spatial axis
            How long a window is along each axis.
        stride : int or one int per spatial axis, optional
            How far one window is from the next. None stands for the kernel size.
        padding : int, one int or (before, after) pair per axis, 'valid', 'same' or 'same_lower'
            Padded elements never win.
        dilation : int or one int per spatial axis
            How far one element of a window is from the next.
        ceil_mode : bool
            Keep a last window that hangs over the end.
        return_indices : bool
            Return ``(y, indices)``: int32, flat within each plane of `x`, row-major. Ties go to the first element; a
            NaN wins, the last of several; a window without any valid element has the index -1.
        channel_axis : int, optional
            Axis of the channels in all arrays and shapes of the call, -1 for NHWC; None stands for the axis before the
            spatial ones. Nothing is copied.
        out : array or pair (y, indices), optional
            Written and returned.

        Returns
        -------
        y : array of x's dtype, or (y, indices)

        Raises
        ------
        ValueError, TypeError
            For arguments out of range or of the wrong type, before anything is written.

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import max_pool2d
        >>> max_pool2d(np.array([[[1.0, 3.0], [2.5, 0.5]]]), 2, return_indices=True)
        (array([[[3.]]]), array([[[1]]], dtype=int32))
        """
        if channel_axis is not None:
            return along(pool, locals())
        arguments = kernel_size, stride, padding, dilation, ceil_mode, return_indices, None
        known = calls.again(x, out, arguments)
        if known is not None:
            return known
        p = arrays.planes(x, rank, indices=check_bool(return_indices, "return_indices"))
        check_pair(out, return_indices)
        return calls.long(x, p, arguments, plan, forward, out)

    pool.__name__ = f"{extreme}_pool"
    if extreme == "min" and pool.__doc__:  # which `python -OO` leaves out
        before, _, _ = pool.__doc__.partition(">>> ")
        pool.__doc__ = before.replace("Maximum", "Minimum") + MIN_EXAMPLE
    return ranked(pool, rank)


def scatter_backward(name: str, forward: str, rank: int) -> Any:
    """The backward of every maximum: indices say where each gradient goes, whatever the windows were."""

    calls = Calls()

    def plan(grad: Planes, shape: Any, _: Any, out: Any) -> Call:
        return plans.routed(grad.shape, shape, rank, grad.last, grad.flat.dtype)

    def pool_backward(grad_output: ArrayLike, indices: ArrayLike, input_shape: Any, *, channel_axis: Any = None,
                      out: Array | None = None) -> Array:
        if channel_axis is not None:
            return along(pool_backward, locals())
        return scattered(calls, plan, rank, "grad_output", grad_output, indices, input_shape, out)

    pool_backward.__name__ = f"{name}_backward"
    pool_backward.__doc__ = f"""Gradient of `{forward}`: every upstream element goes to the element that won its window.

        Parameters
        ----------
        grad_output : array, shape (N, C, *) or (C, *)
            Gradient with respect to the output.
        indices : int32 or int64 array of the same shape
            As returned by the forward; -1 is skipped.
        input_shape : tuple
            Shape of the forward's input.
        channel_axis : int, optional
            Axis of the channels in all arrays and shapes of the call, -1 for NHWC; None stands for the axis before the
            spatial ones. Nothing is copied.
        out : array, optional
            Written and returned.

        Returns
        -------
        array of shape `input_shape` and grad_output's dtype, in which gradients that meet in one element are added up,
            one by one: integers wrap, and a sum of float32 does not count beyond 2^24

        Raises
        ------
        ValueError
            Also where an index lies outside its plane.
        """
    return ranked(pool_backward, rank)


max_pool1d, max_pool2d, max_pool3d = (_forward(rank, "max") for rank in (1, 2, 3))
min_pool1d, min_pool2d, min_pool3d = (_forward(rank, "min") for rank in (1, 2, 3))
max_pool1d_backward, max_pool2d_backward, max_pool3d_backward = (
    scatter_backward("max_pool", "max_pool{d}", rank) for rank in (1, 2, 3)
)
min_pool1d_backward, min_pool2d_backward, min_pool3d_backward = (
    scatter_backward("min_pool", "min_pool{d}", rank) for rank in (1, 2, 3)
)
