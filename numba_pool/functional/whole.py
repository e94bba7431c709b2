"""Global pooling: adaptive pooling with one window."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from numpy.typing import ArrayLike

from .. import _arguments as arguments
from .. import _arrays as arrays
from .._arrays import Array, Shape
from .._dispatch import plans
from .._dispatch.again import NO_ARGUMENTS, Calls
from .._dispatch.axes import along
from .._dispatch.calls import check_bool, forward
from .._docstrings import documented
from ..kernels._job import REDUCTIONS
from ._missing import averages, averages_backward, extremes
from .adaptive import (
    adaptive_max_pool1d_backward,
    adaptive_max_pool2d_backward,
    adaptive_max_pool3d_backward,
    covering,
)
from .average import average_backward, plan_average, plan_spread
from .maximum import plan_maximum

global_maxima, global_minima, global_averages, global_sums = Calls(), Calls(), Calls(), Calls()
global_gradients, global_copies = Calls(), Calls()

BATCH = """As no rank is in the name, three axes are a batch of 1D signals (N, C, L), never one image: pass that as
``x[np.newaxis]``. Three axes that look like one image with its channels last, of 3 or 4 channels and at least 16 rows
and columns, are an error: pass signals of such a shape as ``np.expand_dims(x, 1)``."""  # of docstrings


def global_rank(shape: Shape, name: str) -> int:
    """Spatial rank of a batched array: global pooling takes (N, C, *spatial) only, as its rank is not in its name."""
    if len(shape) not in (3, 4, 5):
        way = ": add axes for the batch and the channels" if len(shape) in (1, 2) else ""
        raise ValueError(f"{name} must have 3 to 5 axes, (N, C, *spatial), got shape {shape}{way}")
    return len(shape) - 2


def largest(maxima: Calls, extreme: str, x: ArrayLike, return_indices: bool, nan_policy: Any, where: Any) -> Any:
    """The largest element of every plane, or the smallest."""
    if where is not None:
        def pool(x: Any, return_indices: bool, nan_policy: Any = "propagate", out: Any = None) -> Any:
            return largest(maxima, extreme, x, return_indices, nan_policy, None)

        return extremes(pool, x, where, nan_policy, return_indices, None, extreme == "max")
    arguments = return_indices, nan_policy, *NO_ARGUMENTS[2:]
    known = maxima.again(x, None, arguments)
    if known is not None:
        return known
    a = arrays.array(x, "x")
    rank = global_rank(a.shape, "x")
    p = arrays.planes(a, rank, indices=check_bool(return_indices, "return_indices"))

    def plan(*_: Any) -> Any:
        return plan_maximum(p, plans.adaptive, (1,), return_indices, None, extreme, nan_policy)

    return maxima.long(x, p, arguments, plan, forward)


@documented(batch=BATCH)
def global_max_pool(x: ArrayLike, return_indices: bool = False, *, nan_policy: str = "propagate",
                    where: ArrayLike | None = None, channel_axis: Any = None) -> Any:
    """Maximum of every plane; the spatial axes stay, with size 1.

    {batch}

    Examples
    --------
    >>> import numpy as np
    >>> from numba_pool import global_max_pool
    >>> global_max_pool(np.arange(8.0).reshape(1, 2, 2, 2))
    array([[[[3.]],
            [[7.]]]])
    """
    if channel_axis is not None:
        return along(global_max_pool, locals())
    return largest(global_maxima, "max", x, return_indices, nan_policy, where)


@documented(batch=BATCH)
def global_min_pool(x: ArrayLike, return_indices: bool = False, *, nan_policy: str = "propagate",
                    where: ArrayLike | None = None, channel_axis: Any = None) -> Any:
    """Minimum of every plane; the spatial axes stay, with size 1.

    {batch}

    Examples
    --------
    >>> import numpy as np
    >>> from numba_pool import global_min_pool
    >>> global_min_pool(np.arange(8.0).reshape(1, 2, 2, 2))
    array([[[[0.]],
            [[4.]]]])
    """
    if channel_axis is not None:
        return along(global_min_pool, locals())
    return largest(global_minima, "min", x, return_indices, nan_policy, where)


def mean(kept: Calls, divisor: float, x: ArrayLike, nan_policy: Any, where: Any, min_count: Any) -> Array:
    """The sum of every plane, divided by a number, or if that is 0 by its elements."""
    if where is not None or nan_policy != "propagate" or min_count is not None:
        least = 0 if divisor else 1
        over = covering(global_rank(arrays.array(x, "x").shape, "x"), 1)
        pooled: Array = averages(kept, over, x, nan_policy, where, min_count, divisor, least, None)
        return pooled
    known: Array | None = kept.again(x, None, NO_ARGUMENTS)
    if known is not None:
        return known
    a = arrays.array(x, "x")
    rank = global_rank(a.shape, "x")
    p = arrays.planes(a, rank)

    def plan(*_: Any) -> Any:
        return plan_average(p, plans.adaptive, (1,), divisor)

    result: Array = kept.long(x, p, NO_ARGUMENTS, plan, forward)
    return result


@documented(batch=BATCH)
def global_avg_pool(x: ArrayLike, *, nan_policy: str = "propagate", where: ArrayLike | None = None,
                    min_count: int | None = None, channel_axis: Any = None) -> Array:
    """Average of every plane; the spatial axes stay, with size 1.

    {batch}

    Examples
    --------
    >>> import numpy as np
    >>> from numba_pool import global_avg_pool
    >>> global_avg_pool(np.arange(8.0).reshape(1, 2, 2, 2))
    array([[[[1.5]],
            [[5.5]]]])
    """
    if channel_axis is not None:
        return along(global_avg_pool, locals())
    return mean(global_averages, 0.0, x, nan_policy, where, min_count)


@documented(batch=BATCH)
def global_sum_pool(x: ArrayLike, *, nan_policy: str = "propagate", where: ArrayLike | None = None,
                    min_count: int | None = None, channel_axis: Any = None) -> Array:
    """Sum of every plane; the spatial axes stay, with size 1.

    {batch}

    Parameters
    ----------
    x : ...
        Sums of integers wrap around.

    Examples
    --------
    >>> import numpy as np
    >>> from numba_pool import global_sum_pool
    >>> global_sum_pool(np.arange(8.0).reshape(1, 2, 2, 2))
    array([[[[ 6.]],
            [[22.]]]])
    """
    if channel_axis is not None:
        return along(global_sum_pool, locals())
    return mean(global_sums, REDUCTIONS["sum"].divisor, x, nan_policy, where, min_count)


def spread(gradients: Calls, divisor: float, grad_output: ArrayLike, input_shape: Any, nan_policy: Any = "propagate",
           where: Any = None, min_count: Any = None, x: Any = None) -> Array:
    """Each upstream element, divided as in `mean`, to all elements of its plane."""
    if where is not None or nan_policy != "propagate" or min_count is not None:
        def share(grad: Array, summed: bool, out: Any) -> Array:
            return spread(global_copies, REDUCTIONS["sum"].divisor, grad, input_shape) if summed else spread(
                gradients, divisor, grad, input_shape)

        g = arrays.array(grad_output, "grad_output", integers=False)
        over, least = covering(global_rank(g.shape, "grad_output"), 1), 0 if divisor else 1
        return averages_backward(over, share, grad_output, input_shape, x, nan_policy, where, min_count, divisor,
                                 least, None)
    known: Array | None = gradients.again(grad_output, None, NO_ARGUMENTS, input_shape)
    if known is not None:
        return known
    g = arrays.array(grad_output, "grad_output", integers=False)
    rank = global_rank(g.shape, "grad_output")
    grad = arrays.planes(g, rank, "grad_output", integers=False)
    arguments.check_output(grad.shape, (*grad.lead, *(1,) * rank))

    def plan(_: Any, shape: Any, *others: Any) -> Any:
        return plan_spread(grad, plans.adaptive_backward, shape, (), divisor)

    result: Array = gradients.long(grad_output, grad, NO_ARGUMENTS, plan, average_backward, None, input_shape)
    return result


@documented()
def global_avg_pool_backward(grad_output: ArrayLike, input_shape: Any, *, nan_policy: str = "propagate",
                             where: ArrayLike | None = None, min_count: int | None = None,
                             x: ArrayLike | None = None, channel_axis: Any = None) -> Array:
    """Gradient of `global_avg_pool`."""
    if channel_axis is not None:
        return along(global_avg_pool_backward, locals())
    return spread(global_gradients, 0.0, grad_output, input_shape, nan_policy, where, min_count, x)


@documented()
def global_sum_pool_backward(grad_output: ArrayLike, input_shape: Any, *, nan_policy: str = "propagate",
                             where: ArrayLike | None = None, min_count: int | None = None,
                             x: ArrayLike | None = None, channel_axis: Any = None) -> Array:
    """Gradient of `global_sum_pool`."""
    if channel_axis is not None:
        return along(global_sum_pool_backward, locals())
    return spread(global_copies, REDUCTIONS["sum"].divisor, grad_output, input_shape, nan_policy, where, min_count, x)


@documented()
def global_max_pool_backward(grad_output: ArrayLike, indices: ArrayLike, input_shape: Any, *,
                             nan_policy: str = "propagate", where: ArrayLike | None = None,
                             channel_axis: Any = None) -> Array:
    """Gradient of `global_max_pool`."""
    if channel_axis is not None:
        return along(global_max_pool_backward, locals())
    g = arrays.array(grad_output, "grad_output")
    rank = global_rank(g.shape, "grad_output")
    arguments.check_output(g.shape, (*g.shape[:2], *(1,) * rank))
    backward = (adaptive_max_pool1d_backward, adaptive_max_pool2d_backward, adaptive_max_pool3d_backward)[rank - 1]
    result: Array = backward(g, indices, input_shape, nan_policy=nan_policy, where=where)
    return result


@documented()
def global_min_pool_backward(grad_output: ArrayLike, indices: ArrayLike, input_shape: Any, *,
                             nan_policy: str = "propagate", where: ArrayLike | None = None,
                             channel_axis: Any = None) -> Array:
    """Gradient of `global_min_pool`."""
    return global_max_pool_backward(grad_output, indices, input_shape, nan_policy=nan_policy, where=where,
                                    channel_axis=channel_axis)
