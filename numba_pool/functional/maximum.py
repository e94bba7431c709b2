"""Max pooling, and min pooling, which is max pooling of numbers seen in a mirror."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from numpy.typing import ArrayLike

from .. import _arrays as arrays
from .._arrays import Array
from .._dispatch import plans
from .._dispatch.axes import along
from .._dispatch.calls import check_bool, maximum, ranked, scatter_recipe, scattered, scattered_again
from .._dispatch.recipes import NO_ARGUMENTS, Recipes

MIN_EXAMPLE = """>>> import numpy as np
        >>> from numba_pool import min_pool2d
        >>> min_pool2d(np.array([[[1.0, 3.0], [2.5, 0.5]]]), 2, return_indices=True)
        (array([[[0.5]]]), array([[[3]]], dtype=int32))
        """


def _forward(rank: int, extreme: str) -> Any:
    recipes = Recipes()

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
        known = recipes.again(x, out, arguments)
        if known is not None:
            return known
        p = arrays.planes(x, rank, indices=check_bool(return_indices, "return_indices"))
        windows = kernel_size, stride, padding, dilation, ceil_mode, True
        result, recipe = maximum(p, plans.uniform, windows, return_indices, out, extreme)
        recipes.keep(recipe, x, arguments, None, p)
        return result

    pool.__name__ = f"{extreme}_pool"
    if extreme == "min" and pool.__doc__:  # which `python -OO` leaves out
        before, _, _ = pool.__doc__.partition(">>> ")
        pool.__doc__ = before.replace("Maximum", "Minimum") + MIN_EXAMPLE
    return ranked(pool, rank)


def scatter_backward(name: str, forward: str, rank: int) -> Any:
    """The backward of every maximum: indices say where each gradient goes, whatever the windows were."""

    recipes = Recipes()

    def pool_backward(grad_output: ArrayLike, indices: ArrayLike, input_shape: Any, *, channel_axis: Any = None,
                      out: Array | None = None) -> Array:
        if channel_axis is not None:
            return along(pool_backward, locals())
        known = scattered_again(recipes, rank, grad_output, indices, NO_ARGUMENTS, input_shape, out)
        if known is not None:
            return known
        grad = arrays.planes(grad_output, rank, "grad_output", empty=True)
        recipe = scatter_recipe(grad, input_shape, True)
        result = scattered(grad, indices, recipe, out, "grad_output")
        recipes.keep(recipe, grad_output, NO_ARGUMENTS, input_shape, grad)
        return result

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
