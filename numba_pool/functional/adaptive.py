"""Adaptive pooling: the output size is given, the windows follow."""

from __future__ import annotations  # help() shows them by name

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _arrays as arrays
from .._arguments import adaptive as adaptive_size
from .._arrays import Array, Planes, Shape
from .._dispatch import plans
from .._dispatch.again import NO_ARGUMENTS, Calls
from .._dispatch.axes import along
from .._dispatch.calls import check_bool, check_pair, forward
from .._docstrings import documented
from .._windows import Axis, adaptive_axes
from ..kernels._job import REDUCTIONS, Call
from ._missing import Over, averages, averages_backward, extremes, partial_of
from .average import average_backward, plan_average, plan_spread
from .maximum import plan_maximum, scatter_backward


def _max(rank: int) -> Any:
    calls = Calls()

    def plan(x: Planes, _: Any, arguments: tuple[Any, ...], out: Any) -> Call:
        output_size, return_indices, nan_policy, *_ = arguments
        return plan_maximum(x, plans.adaptive, (output_size,), return_indices, out, nan_policy=nan_policy)

    @documented(rank)
    def adaptive_max_pool(x: ArrayLike, output_size: Any, return_indices: bool = False, *,
                          nan_policy: str = "propagate", where: ArrayLike | None = None, channel_axis: Any = None,
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
        if where is not None:
            pool = partial_of(adaptive_max_pool, (output_size,))
            return extremes(pool, x, where, nan_policy, return_indices, out, True)
        arguments = output_size, return_indices, nan_policy, *NO_ARGUMENTS[3:]
        known = calls.again(x, out, arguments)
        if known is not None:
            return known
        p = arrays.planes(x, rank, indices=check_bool(return_indices, "return_indices"))
        check_pair(out, return_indices)
        return calls.long(x, p, arguments, plan, forward, out)

    return adaptive_max_pool


def _avg(rank: int) -> Any:
    calls = Calls()

    def plan(x: Planes, _: Any, arguments: tuple[Any, ...], out: Any) -> Call:
        return plan_average(x, plans.adaptive, arguments[:1], 0)

    @documented(rank)
    def adaptive_avg_pool(x: ArrayLike, output_size: Any, *, nan_policy: str = "propagate",
                          where: ArrayLike | None = None, min_count: int | None = None, channel_axis: Any = None,
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
        if where is not None or nan_policy != "propagate" or min_count is not None:
            return averages(calls, covering(rank, output_size), x, nan_policy, where, min_count, 0, 1, out)
        arguments = output_size, *NO_ARGUMENTS[1:]
        known: Array | None = calls.again(x, out, arguments)
        if known is not None:
            return known
        result: Array = calls.long(x, arrays.planes(x, rank, channels=False), arguments, plan, forward, out)
        return result

    return adaptive_avg_pool


def covering(rank: int, output_size: Any) -> Over:
    """The windows that cover an array."""

    def plan(x: Planes, windows: tuple[Any, ...], divisor: float, least: int | None = None) -> Call:
        return plan_average(x, plans.adaptive, windows, divisor, least)

    def axes(size: Shape, windows: tuple[Any, ...]) -> tuple[Axis, ...]:
        return adaptive_axes(size, adaptive_size(size, *windows))[-rank:]

    return Over(rank, (tuple(output_size) if isinstance(output_size, list) else output_size,), plan, axes)


def plan_adaptive_sums(grad: Planes, shape: Any, _: Any, out: Any) -> Call:
    return plan_spread(grad, plans.adaptive_backward, shape, (), REDUCTIONS["sum"].divisor)


def plan_adaptive_spread(grad: Planes, shape: Any, _: Any, out: Any) -> Call:
    return plan_spread(grad, plans.adaptive_backward, shape, (), 0)


def _avg_backward(rank: int) -> Any:
    calls, sums = Calls(), Calls()

    @documented(rank)
    def adaptive_avg_pool_backward(grad_output: ArrayLike, input_shape: Any, *, nan_policy: str = "propagate",
                                   where: ArrayLike | None = None, min_count: int | None = None,
                                   x: ArrayLike | None = None, channel_axis: Any = None,
                                   out: Array | None = None) -> Array:
        """Gradient of `adaptive_avg_pool{d}`: every upstream element spread evenly over its window.

        Parameters
        ----------
        nan_policy, where, min_count
            As in the forward. Missing elements get 0, and results of too few elements give nothing.
        """
        if channel_axis is not None:
            return along(adaptive_avg_pool_backward, locals())
        if where is not None or nan_policy != "propagate" or min_count is not None:
            over = covering(rank, np.shape(grad_output)[-rank:])

            def spread(grad: Array, summed: bool, out: Any) -> Array:
                p = arrays.planes(grad, rank, "grad_output", integers=False, empty=True)
                kept, plan = (sums, plan_adaptive_sums) if summed else (calls, plan_adaptive_spread)
                result: Array = kept.long(grad, p, NO_ARGUMENTS, plan, average_backward, out, input_shape)
                return result

            return averages_backward(over, spread, grad_output, input_shape, x, nan_policy, where, min_count, 0, 1,
                                     out)
        known: Array | None = calls.again(grad_output, out, NO_ARGUMENTS, input_shape)
        if known is not None:
            return known
        grad = arrays.planes(grad_output, rank, "grad_output", integers=False, empty=True)
        result: Array = calls.long(grad_output, grad, NO_ARGUMENTS, plan_adaptive_spread, average_backward, out,
                                   input_shape)
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
