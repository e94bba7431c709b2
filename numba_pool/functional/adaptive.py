"""Adaptive pooling: the output size is given, the windows follow; and global pooling, its case of one window."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from numpy.typing import ArrayLike

from .. import _arrays as arrays
from .. import _geometry as geometry
from .._arrays import Array, Shape
from . import _plans as plans
from ._calls import check_bool, forward, maximum, ranked
from ._recipes import NO_ARGUMENTS, Recipes
from .average import average_backward, average_recipe, serves, spread_recipe
from .maximum import scatter_backward


def _max(rank: int) -> Any:
    recipes = Recipes()

    def adaptive_max_pool(x: ArrayLike, output_size: Any, return_indices: bool = False, *, out: Any = None) -> Any:
        """Maximum over windows chosen so that the output has a given size.

        The window of output o along an axis of length L is ``[floor(o*L/O), ceil((o+1)*L/O))``.

        Parameters
        ----------
        x : array, shape (N, C, {spatial}) or (C, {spatial})
            float32, float64, float16, bfloat16 or any integer type.
        output_size : int or None, or one of them per spatial axis
            None keeps an axis.
        return_indices : bool
            Return ``(y, indices)`` as `max_pool{d}` does.
        out : array or pair (y, indices), optional
            Written and returned.

        Returns
        -------
        y : array of x's dtype, or (y, indices)

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import adaptive_max_pool2d
        >>> adaptive_max_pool2d(np.arange(9.0).reshape(1, 3, 3), 2)
        array([[[4., 5.],
                [7., 8.]]])
        """
        arguments = output_size, return_indices, *NO_ARGUMENTS[2:]
        known = recipes.again(x, out, arguments)
        if known is not None:
            return known
        p = arrays.planes(x, rank, indices=check_bool(return_indices, "return_indices"))
        result, recipe = maximum(p, plans.adaptive, (output_size,), return_indices, out)
        recipes.keep(recipe, x, arguments, None, p)
        return result

    return ranked(adaptive_max_pool, rank)


def _avg(rank: int) -> Any:
    recipes = Recipes()

    def adaptive_avg_pool(x: ArrayLike, output_size: Any, *, out: Array | None = None) -> Array:
        """Average over windows chosen so that the output has a given size.

        The window of output o along an axis of length L is ``[floor(o*L/O), ceil((o+1)*L/O))``.

        Parameters
        ----------
        x : array, shape (N, C, {spatial}) or (C, {spatial})
            float32, float64, float16, bfloat16 or any integer type.
        output_size : int or None, or one of them per spatial axis
            None keeps an axis.
        out : array, optional
            Written and returned.

        Returns
        -------
        array of x's dtype

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import adaptive_avg_pool2d
        >>> adaptive_avg_pool2d(np.arange(9.0).reshape(1, 3, 3), (1, None))
        array([[[3., 4., 5.]]])
        """
        arguments = output_size, *NO_ARGUMENTS[1:]
        known: Array | None = recipes.again(x, out, arguments)
        if known is not None:
            return known
        p = arrays.planes(x, rank, channels=False)
        recipe = average_recipe(p, plans.adaptive(p.shape, rank, p.last, output_size, "average"), 0.0)
        result: Array = forward(p, recipe, out)
        recipes.keep(recipe, x, arguments, None, p)
        return result

    return ranked(adaptive_avg_pool, rank)


def _avg_backward(rank: int) -> Any:
    recipes = Recipes()

    def adaptive_avg_pool_backward(grad_output: ArrayLike, input_shape: Any, *, out: Array | None = None) -> Array:
        """Gradient of `adaptive_avg_pool{d}`: every upstream element spread evenly over its window.

        Parameters
        ----------
        grad_output : array of the output's shape
        input_shape : tuple
            Shape of the forward's input.
        out : array, optional
            Written and returned.

        Returns
        -------
        array of shape `input_shape` and grad_output's dtype
        """
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

    return ranked(adaptive_avg_pool_backward, rank)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_max(rank) for rank in (1, 2, 3))
adaptive_max_pool1d_backward, adaptive_max_pool2d_backward, adaptive_max_pool3d_backward = (
    scatter_backward("adaptive_max_pool", "adaptive_max_pool{d}", rank) for rank in (1, 2, 3)
)
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_avg(rank) for rank in (1, 2, 3))
adaptive_avg_pool1d_backward, adaptive_avg_pool2d_backward, adaptive_avg_pool3d_backward = (
    _avg_backward(rank) for rank in (1, 2, 3)
)


global_maxima, global_averages, global_gradients = Recipes(), Recipes(), Recipes()


def global_rank(shape: Shape, name: str) -> int:
    """Spatial rank of a batched array: global pooling takes (N, C, *spatial) only, as its rank is not in its name."""
    if len(shape) not in (3, 4, 5):
        raise ValueError(f"{name} must have 3 to 5 axes, (N, C, *spatial), got shape {shape}")
    return len(shape) - 2


def global_max_pool(x: ArrayLike, return_indices: bool = False) -> Any:
    """Maximum of every plane; the spatial axes stay, with size 1.

    Parameters
    ----------
    x : array, shape (N, C, *spatial) with 1 to 3 spatial axes
        float32, float64, float16, bfloat16 or any integer type.
    return_indices : bool
        Return ``(y, indices)`` as `max_pool2d` does.

    Returns
    -------
    y : array of shape (N, C, 1, ...) and x's dtype, or (y, indices)

    Examples
    --------
    >>> import numpy as np
    >>> from numba_pool import global_max_pool
    >>> global_max_pool(np.arange(8.0).reshape(1, 2, 2, 2))
    array([[[[3.]],
            [[7.]]]])
    """
    arguments = return_indices, *NO_ARGUMENTS[1:]
    known = global_maxima.again(x, None, arguments)
    if known is not None:
        return known
    a = arrays.array(x, "x")
    rank = global_rank(a.shape, "x")
    p = arrays.planes(a, rank, indices=check_bool(return_indices, "return_indices"))
    result, recipe = maximum(p, plans.adaptive, (1,), return_indices, None)
    global_maxima.keep(recipe, x, arguments, None, p)
    return result


def global_avg_pool(x: ArrayLike) -> Array:
    """Average of every plane; the spatial axes stay, with size 1.

    Parameters
    ----------
    x : array, shape (N, C, *spatial) with 1 to 3 spatial axes
        float32, float64, float16, bfloat16 or any integer type.

    Returns
    -------
    array of shape (N, C, 1, ...) and x's dtype

    Examples
    --------
    >>> import numpy as np
    >>> from numba_pool import global_avg_pool
    >>> global_avg_pool(np.arange(8.0).reshape(1, 2, 2, 2))
    array([[[[1.5]],
            [[5.5]]]])
    """
    known: Array | None = global_averages.again(x, None, NO_ARGUMENTS)
    if known is not None:
        return known
    a = arrays.array(x, "x")
    rank = global_rank(a.shape, "x")
    p = arrays.planes(a, rank)
    recipe = average_recipe(p, plans.adaptive(p.shape, rank, p.last, 1, "average"), 0.0)
    result: Array = forward(p, recipe, None)
    global_averages.keep(recipe, x, NO_ARGUMENTS, None, p)
    return result


def global_avg_pool_backward(grad_output: ArrayLike, input_shape: Any) -> Array:
    """Gradient of `global_avg_pool`.

    Parameters
    ----------
    grad_output : array, shape (N, C, 1, ...)
    input_shape : tuple
        Shape of the forward's input.

    Returns
    -------
    array of shape `input_shape` and grad_output's dtype
    """
    known: Array | None = global_gradients.again(grad_output, None, NO_ARGUMENTS, input_shape)
    if known is not None:
        return known
    g = arrays.array(grad_output, "grad_output", integers=False)
    rank = global_rank(g.shape, "grad_output")
    grad = arrays.planes(g, rank, "grad_output", integers=False)
    geometry.check_output(grad.shape, (*grad.lead, *(1,) * rank))
    call = plans.adaptive_backward(grad.shape, input_shape, rank, grad.last, grad.flat.itemsize)
    recipe = spread_recipe(grad, call, 0.0)
    result = average_backward(grad, recipe, None)
    if serves(recipe, grad):
        global_gradients.keep(recipe, grad_output, NO_ARGUMENTS, input_shape, grad)
    return result


def global_max_pool_backward(grad_output: ArrayLike, indices: ArrayLike, input_shape: Any) -> Array:
    """Gradient of `global_max_pool`.

    Parameters
    ----------
    grad_output : array, shape (N, C, 1, ...)
    indices : int32 or int64 array of the same shape
        As returned by the forward.
    input_shape : tuple
        Shape of the forward's input.

    Returns
    -------
    array of shape `input_shape` and grad_output's dtype
    """
    g = arrays.array(grad_output, "grad_output")
    rank = global_rank(g.shape, "grad_output")
    geometry.check_output(g.shape, (*g.shape[:2], *(1,) * rank))
    backward = (adaptive_max_pool1d_backward, adaptive_max_pool2d_backward, adaptive_max_pool3d_backward)[rank - 1]
    result: Array = backward(g, indices, input_shape)
    return result
