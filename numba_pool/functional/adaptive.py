"""Adaptive pooling: the output size is given, the windows follow."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from numpy.typing import ArrayLike

from .. import _arrays as arrays
from .._arrays import Array
from .._dispatch import plans
from .._dispatch.axes import along
from .._dispatch.calls import check_bool, forward, maximum
from .._dispatch.recipes import NO_ARGUMENTS, Recipes
from .._docstrings import documented
from .average import average_backward, average_recipe, serves, spread_recipe
from .maximum import scatter_backward


def _max(rank: int) -> Any:
    recipes = Recipes()

    @documented(rank)
    def adaptive_max_pool(x: ArrayLike, output_size: Any, return_indices: bool = False, *, channel_axis: Any = None,
                          out: Any = None) -> Any:
        """Maximum over windows chosen so that the output has a given size.

        The window of output o along an axis of length L is ``[floor(o*L/O), ceil((o+1)*L/O))``.

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import adaptive_max_pool2d
        >>> adaptive_max_pool2d(np.arange(9.0).reshape(1, 3, 3), 2)
        array([[[4., 5.],
                [7., 8.]]])
        """
        if channel_axis is not None:
            return along(adaptive_max_pool, locals())
        arguments = output_size, return_indices, *NO_ARGUMENTS[2:]
        known = recipes.again(x, out, arguments)
        if known is not None:
            return known
        p = arrays.planes(x, rank, indices=check_bool(return_indices, "return_indices"))
        result, recipe = maximum(p, plans.adaptive, (output_size,), return_indices, out)
        recipes.keep(recipe, x, arguments, None, p)
        return result

    return adaptive_max_pool


def _avg(rank: int) -> Any:
    recipes = Recipes()

    @documented(rank)
    def adaptive_avg_pool(x: ArrayLike, output_size: Any, *, channel_axis: Any = None,
                          out: Array | None = None) -> Array:
        """Average over windows chosen so that the output has a given size.

        The window of output o along an axis of length L is ``[floor(o*L/O), ceil((o+1)*L/O))``.

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import adaptive_avg_pool2d
        >>> adaptive_avg_pool2d(np.arange(9.0).reshape(1, 3, 3), (1, None))
        array([[[3., 4., 5.]]])
        """
        if channel_axis is not None:
            return along(adaptive_avg_pool, locals())
        arguments = output_size, *NO_ARGUMENTS[1:]
        known: Array | None = recipes.again(x, out, arguments)
        if known is not None:
            return known
        p = arrays.planes(x, rank, channels=False)
        recipe = average_recipe(p, plans.adaptive(p.shape, rank, p.last, output_size, "average"), 0.0)
        result: Array = forward(p, recipe, out)
        recipes.keep(recipe, x, arguments, None, p)
        return result

    return adaptive_avg_pool


def _avg_backward(rank: int) -> Any:
    recipes = Recipes()

    @documented(rank)
    def adaptive_avg_pool_backward(grad_output: ArrayLike, input_shape: Any, *, channel_axis: Any = None,
                                   out: Array | None = None) -> Array:
        """Gradient of `adaptive_avg_pool{d}`: every upstream element spread evenly over its window."""
        if channel_axis is not None:
            return along(adaptive_avg_pool_backward, locals())
        known: Array | None = recipes.again(grad_output, out, NO_ARGUMENTS, input_shape)
        if known is not None:
            return known
        grad = arrays.planes(grad_output, rank, "grad_output", integers=False, empty=True)
        call = plans.adaptive_backward(grad.shape, input_shape, rank, grad.last, grad.flat.itemsize)
        recipe = spread_recipe(grad, call, 0.0)
        result = average_backward(grad, recipe, out)
        if serves(recipe, grad):
            recipes.keep(recipe, grad_output, NO_ARGUMENTS, input_shape, grad)
        return result

    return adaptive_avg_pool_backward


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_max(rank) for rank in (1, 2, 3))
adaptive_max_pool1d_backward, adaptive_max_pool2d_backward, adaptive_max_pool3d_backward = (
    scatter_backward("adaptive_max_pool", rank) for rank in (1, 2, 3)
)
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_avg(rank) for rank in (1, 2, 3))
adaptive_avg_pool1d_backward, adaptive_avg_pool2d_backward, adaptive_avg_pool3d_backward = (
    _avg_backward(rank) for rank in (1, 2, 3)
)
