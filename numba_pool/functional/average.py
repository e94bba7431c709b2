"""Average pooling, and sum pooling, which divides by 1."""

from __future__ import annotations  # help() shows them by name

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _arrays as arrays
from .._arguments import grid as window_grid
from .._arguments import real
from .._arrays import Array, Planes, Shape
from .._dispatch import plans
from .._dispatch.again import Calls
from .._dispatch.axes import along
from .._dispatch.calls import check_bool, forward
from .._docstrings import documented
from .._runtime import launch
from .._windows import Axis
from ..kernels._job import REDUCTIONS, Call
from ..simd import COUNTED
from ._missing import Over, averages, averages_backward

# Elements of a row of bytes, from which on blocks are the faster way: 2x2 to 4x4 windows take 0.3 to 0.7 of the time,
# of shorter rows up to twice as long (Zen 5).
LONG_ROW = 512
FEW_ELEMENTS = 16  # of a window


def check_divisor(value: Any) -> float:
    """The divisor override as a number, 0.0 for none; an int of Python if it is one, which no float need be near."""
    if value is None:
        return 0.0
    try:
        divisor = float(real(value, "divisor_override"))
    except OverflowError:
        raise ValueError(f"divisor_override must be a finite number, got {value!r}") from None
    if divisor == 0 or not np.isfinite(divisor):
        raise ValueError(f"divisor_override must be a finite number other than 0, got {value!r}")
    return int(value) if isinstance(value, (int, np.integer)) else divisor


def check_integer_divisor(divisor: float, dtype: np.dtype[Any]) -> None:
    """That integers of this dtype, whose sums have 64 bits, can be divided by it."""
    if not isinstance(divisor, int):
        raise TypeError(f"divisor_override must be an int for {dtype}, got {divisor}: for other divisors pass "
                        "x.astype(np.float64)")
    if divisor < 0 and dtype.kind == "u":
        raise ValueError(f"divisor_override must be positive for {dtype}, got {divisor}")
    least, most = (1, 2**64 - 1) if dtype.kind == "u" else (-(2**63), 2**63 - 1)
    if not least <= divisor <= most:
        raise ValueError(f"divisor_override must be in [{least}, {most}] for {dtype}, got {divisor}")


def plan_average(x: Planes, plan: Callable[..., Call], windows: tuple[Any, ...], divisor: float,
                 least: int | None = None) -> Call:
    """The average over the windows that `plan` makes of its arguments. If there is a `least` count, NaN is missing."""
    dtype = x.flat.dtype
    if least is not None:
        return plan(x.shape, x.rank, x.last, *windows, "average", dtype=dtype, divisor=divisor, omit=True, least=least,
                    seen=COUNTED[arrays.seen_as(dtype)])
    if divisor and dtype.kind in "iu":
        check_integer_divisor(divisor, dtype)
    return plan(x.shape, x.rank, x.last, *windows, "average", dtype=dtype, divisor=divisor)


def plan_blocks(x: Planes, windows: tuple[Any, Any, Any, Any, Any], divisor: float) -> Call | None:
    """Average bytes over windows that do not overlap, as `coarsen` does, where rows are long enough to gain from it."""
    if x.flat.itemsize > 1 or x.spatial[-1] < LONG_ROW or x.last or divisor:
        return None
    axes = window_grid(x.spatial, *windows, x.shape)
    kernel = tuple(axis.kernel for axis in axes)
    if not all(axis.is_cut for axis in axes) or prod(kernel) > FEW_ELEMENTS:
        return None
    from ..blocks.coarsening import truncated_means  # not every import needs it

    job = truncated_means((prod(x.shape[: -x.rank]), *x.spatial), kernel, x.flat.dtype)
    shape = (*x.lead, *(axis.n for axis in axes))
    return None if job is None else Call(job.walk, job.units, job.traffic, job.rest, shape)


def over_sliding(rank: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any,
                 include: Any) -> Over:
    """The windows of a call."""

    def plan(x: Planes, windows: tuple[Any, ...], divisor: float, least: int | None = None) -> Call:
        return plan_average(x, plans.uniform, windows, divisor, least)

    def axes(size: Shape, windows: tuple[Any, ...]) -> tuple[Axis, ...]:
        kernel_size, stride, padding, dilation, ceil_mode, include = windows
        return window_grid(size, kernel_size, stride, padding, dilation, ceil_mode, include_pad=include)

    return Over(rank, (kernel_size, stride, padding, dilation, ceil_mode, include), plan, axes)


def plan_spread(grad: Planes, plan: Callable[..., Call], shape: Any, windows: tuple[Any, ...], divisor: float) -> Call:
    """The gradient of an average over the windows that `plan` makes of its arguments."""
    return plan(grad.shape, shape, grad.rank, grad.last, *windows, dtype=grad.flat.dtype, divisor=divisor)


def average_backward(grad: Planes, call: Call, out: Any) -> Array:
    target = arrays.output(call.shape, grad.flat.dtype, grad.rank, grad.last, out, grad.flat)
    launch(call.worker, call.units, call.traffic, arrays.raw(grad.flat), arrays.raw(target.flat), *call.rest)
    return target.finish()


def _forward(rank: int) -> Any:
    calls = Calls()

    def plan(x: Planes, _: Any, arguments: tuple[Any, ...], out: Any) -> Call:
        kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dilation = arguments
        divisor = check_divisor(divisor_override)
        include = check_bool(count_include_pad, "count_include_pad")
        windows = kernel_size, stride, padding, dilation, ceil_mode
        call = plan_average(x, plans.uniform, (*windows, include), divisor)
        return plan_blocks(x, windows, divisor) or call

    @documented(rank)
    def avg_pool(x: ArrayLike, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: Any = None, *, dilation: Any = 1,
                 nan_policy: str = "propagate", where: ArrayLike | None = None, min_count: int | None = None,
                 channel_axis: Any = None, out: Array | None = None) -> Array:
        """Average over sliding windows.

        Integers are cut off; for means of images and other arrays that round, see `numba_pool.coarsen`.

        Parameters
        ----------
        x : ...
            Averages of integers truncate toward zero.
        padding : ...
            Padded elements are zeros.
        ceil_mode : ...
            What hangs over is never counted.
        count_include_pad : bool
            Whether padded elements count in the divisor.
        divisor_override : number other than 0, optional
            Divides every sum, whatever the window holds. For integers an int of 64 bits, and for unsigned ones a
            positive one; an average that their dtype does not hold wraps.

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import avg_pool2d
        >>> avg_pool2d(np.array([[[1.0, 3.0], [5.0, 7.0]]]), 2)
        array([[[4.]]])
        """
        if channel_axis is not None:
            return along(avg_pool, locals())
        if where is not None or nan_policy != "propagate" or min_count is not None:
            over = over_sliding(rank, kernel_size, stride, padding, dilation, ceil_mode,
                                check_bool(count_include_pad, "count_include_pad"))
            divisor = check_divisor(divisor_override)
            return averages(calls, over, x, nan_policy, where, min_count, divisor, 1, out)
        arguments = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dilation
        known: Array | None = calls.again(x, out, arguments)
        if known is not None:
            return known
        result: Array = calls.long(x, arrays.planes(x, rank), arguments, plan, forward, out)
        return result

    return avg_pool


def _backward(rank: int) -> Any:
    calls = Calls()

    def plan(grad: Planes, shape: Any, arguments: tuple[Any, ...], out: Any) -> Call:
        kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dilation = arguments
        divisor = check_divisor(divisor_override)
        include = check_bool(count_include_pad, "count_include_pad")
        windows = kernel_size, stride, padding, dilation, ceil_mode, include
        return plan_spread(grad, plans.uniform_backward, shape, windows, divisor)

    @documented(rank)
    def avg_pool_backward(grad_output: ArrayLike, input_shape: Any, kernel_size: Any, stride: Any = None,
                          padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
                          divisor_override: Any = None, *, dilation: Any = 1, nan_policy: str = "propagate",
                          where: ArrayLike | None = None, min_count: int | None = None, x: ArrayLike | None = None,
                          channel_axis: Any = None, out: Array | None = None) -> Array:
        """Gradient of `avg_pool{d}`: every upstream element, divided as the sum was, to all elements of its window.

        Parameters
        ----------
        kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dilation
            As in the forward.
        nan_policy, where, min_count
            As in the forward. Missing elements get 0, and results of too few elements give nothing.
        """
        if channel_axis is not None:
            return along(avg_pool_backward, locals())
        if where is not None or nan_policy != "propagate" or min_count is not None:
            over = over_sliding(rank, kernel_size, stride, padding, dilation, ceil_mode,
                                check_bool(count_include_pad, "count_include_pad"))

            def spread(grad: Array, summed: bool, out: Any) -> Array:
                divisor = REDUCTIONS["sum"].divisor if summed else divisor_override
                result: Array = avg_pool_backward(grad, input_shape, kernel_size, stride, padding, ceil_mode,
                                                  count_include_pad, divisor, dilation=dilation, out=out)
                return result

            divisor = check_divisor(divisor_override)
            return averages_backward(over, spread, grad_output, input_shape, x, nan_policy, where, min_count, divisor,
                                     1, out)
        arguments = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dilation
        known: Array | None = calls.again(grad_output, out, arguments, input_shape)
        if known is not None:
            return known
        grad = arrays.planes(grad_output, rank, "grad_output", integers=False)
        result: Array = calls.long(grad_output, grad, arguments, plan, average_backward, out, input_shape)
        return result

    return avg_pool_backward


avg_pool1d, avg_pool2d, avg_pool3d = (_forward(rank) for rank in (1, 2, 3))
avg_pool1d_backward, avg_pool2d_backward, avg_pool3d_backward = (_backward(rank) for rank in (1, 2, 3))


def _sum(rank: int, average: Any) -> Any:
    calls = Calls()

    @documented(rank)
    def sum_pool(x: ArrayLike, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, *,
                 dilation: Any = 1, nan_policy: str = "propagate", where: ArrayLike | None = None,
                 min_count: int | None = None, channel_axis: Any = None, out: Array | None = None) -> Array:
        """Sum over sliding windows: an average before its division.

        Sums of integers wrap in the dtype of `x`; those of `numba_pool.coarsen` have 64 bits.

        Parameters
        ----------
        padding : ...
            Padded elements are zeros.

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import sum_pool2d
        >>> sum_pool2d(np.array([[[1.0, 3.0], [5.0, 7.0]]]), 2)
        array([[[16.]]])
        """
        divisor = REDUCTIONS["sum"].divisor
        if where is not None or nan_policy != "propagate" or min_count is not None:
            if channel_axis is not None:
                return along(sum_pool, locals())
            over = over_sliding(rank, kernel_size, stride, padding, dilation, ceil_mode, True)
            return averages(calls, over, x, nan_policy, where, min_count, divisor, 0, out)
        result: Array = average(x, kernel_size, stride, padding, ceil_mode, True, divisor, dilation=dilation,
                                channel_axis=channel_axis, out=out)
        return result

    return sum_pool


def _sum_backward(rank: int, average: Any) -> Any:
    @documented(rank)
    def sum_pool_backward(grad_output: ArrayLike, input_shape: Any, kernel_size: Any, stride: Any = None,
                          padding: Any = 0, ceil_mode: bool = False, *, dilation: Any = 1,
                          nan_policy: str = "propagate", where: ArrayLike | None = None, min_count: int | None = None,
                          x: ArrayLike | None = None, channel_axis: Any = None, out: Array | None = None) -> Array:
        """Gradient of `sum_pool{d}`: every upstream element to all elements of its window.

        Parameters
        ----------
        kernel_size, stride, padding, ceil_mode, dilation
            As in the forward.
        nan_policy, where, min_count
            As in the forward. Missing elements get 0, and results of too few elements give nothing.
        """
        def spread(grad: Any, _: bool, out: Any) -> Array:
            result: Array = average(grad, input_shape, kernel_size, stride, padding, ceil_mode, True, divisor,
                                    dilation=dilation, channel_axis=channel_axis, out=out)
            return result

        divisor = REDUCTIONS["sum"].divisor
        if where is not None or nan_policy != "propagate" or min_count is not None:
            if channel_axis is not None:
                return along(sum_pool_backward, locals())
            over = over_sliding(rank, kernel_size, stride, padding, dilation, ceil_mode, True)
            return averages_backward(over, spread, grad_output, input_shape, x, nan_policy, where, min_count, divisor,
                                     0, out)
        return spread(grad_output, True, out)

    return sum_pool_backward


sum_pool1d, sum_pool2d, sum_pool3d = map(_sum, (1, 2, 3), (avg_pool1d, avg_pool2d, avg_pool3d))
sum_pool1d_backward, sum_pool2d_backward, sum_pool3d_backward = map(
    _sum_backward, (1, 2, 3), (avg_pool1d_backward, avg_pool2d_backward, avg_pool3d_backward)
)
