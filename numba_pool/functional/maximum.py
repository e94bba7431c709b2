"""Max pooling, and min pooling, which is max pooling of numbers seen in a mirror."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from numpy.typing import ArrayLike

from .. import _arrays as arrays
from .._arrays import Array
from .._dispatch import plans
from .._dispatch.axes import along
from .._dispatch.calls import check_bool, maximum, scatter_recipe, scattered, scattered_again
from .._dispatch.recipes import NO_ARGUMENTS, Recipes
from .._dispatch.routes import guessed
from .._docstrings import documented

EXTREMES = {  # what docstrings have of them
    "max": {"extreme": "max", "Extreme": "Maximum", "of_2x2": "(array([[[3.]]]), array([[[1]]], dtype=int32))"},
    "min": {"extreme": "min", "Extreme": "Minimum", "of_2x2": "(array([[[0.5]]]), array([[[3]]], dtype=int32))"},
}


def _forward(rank: int, extreme: str) -> Any:
    recipes = Recipes()

    @documented(rank, f"{extreme}_pool", **EXTREMES[extreme])
    def pool(x: ArrayLike, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
             ceil_mode: bool = False, return_indices: bool = False, *, channel_axis: Any = None,
             out: Any = None) -> Any:
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
        arguments = kernel_size, stride, padding, dilation, ceil_mode, return_indices, None
        known = recipes.again(x, out, arguments)
        if known is not None:
            return known
        p = arrays.planes(x, rank, indices=check_bool(return_indices, "return_indices"))
        windows = kernel_size, stride, padding, dilation, ceil_mode, True
        result, recipe = maximum(p, plans.uniform, windows, return_indices, out, extreme)
        recipes.keep(recipe, x, arguments, None, p)
        return result

    return pool


def scatter_backward(name: str, rank: int, uniform: bool = False) -> Any:
    """The backward of every maximum: indices say where each gradient goes, whatever the windows were."""
    recipes = Recipes()
    if uniform:
        guessed.append(recipes)

    @documented(rank, f"{name}_backward")
    def pool_backward(grad_output: ArrayLike, indices: ArrayLike, input_shape: Any, *, channel_axis: Any = None,
                      out: Array | None = None) -> Array:
        """Gradient of `{pool}`: every upstream element goes to the element that won its window.

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
        known = scattered_again(recipes, rank, grad_output, indices, NO_ARGUMENTS, input_shape, out)
        if known is not None:
            return known
        grad = arrays.planes(grad_output, rank, "grad_output", empty=True)
        result, recipe = scattered(grad, indices, scatter_recipe(grad, input_shape, True, uniform), out, "grad_output")
        recipes.keep(recipe, grad_output, NO_ARGUMENTS, input_shape, grad)
        return result

    return pool_backward


max_pool1d, max_pool2d, max_pool3d = (_forward(rank, "max") for rank in (1, 2, 3))
min_pool1d, min_pool2d, min_pool3d = (_forward(rank, "min") for rank in (1, 2, 3))
max_pool1d_backward, max_pool2d_backward, max_pool3d_backward = (
    scatter_backward("max_pool", rank, uniform=True) for rank in (1, 2, 3)
)
min_pool1d_backward, min_pool2d_backward, min_pool3d_backward = (
    scatter_backward("min_pool", rank, uniform=True) for rank in (1, 2, 3)
)
