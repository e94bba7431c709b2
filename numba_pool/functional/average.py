"""Average pooling."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _arrays as arrays
from .. import _geometry as geometry
from .._arrays import Array, Planes, Shape
from .._runtime import launch
from ..kernels import average, windows
from . import _plans as plans
from ._calls import check_bool, input_shape_of, ranked, rows
from ._plans import Plan


def check_divisor(value: Any) -> float:
    """The divisor override as a number, 0.0 for none."""
    if value is None:
        return 0.0
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"divisor_override must be a number, got {value!r}")
    try:
        divisor = float(value)
    except OverflowError:
        raise ValueError(f"divisor_override must be a finite number, got {value!r}") from None
    if divisor == 0 or not np.isfinite(divisor):
        raise ValueError(f"divisor_override must be a finite number other than 0, got {value!r}")
    return divisor


def average_forward(x: Planes, output: Shape, plan: Plan, divisor: float, out: Any) -> Array:
    shape = (*x.lead, *output)
    dtype = x.flat.dtype
    if out is not None:
        arrays.check_out(out, shape, dtype)
    if divisor < 0 and dtype.kind == "u":
        raise ValueError(f"divisor_override must be positive for {dtype}, got {divisor}")
    y = arrays.output(shape, dtype, x.rank, x.last, out, x.flat)
    launch(plan.worker, plan.driver, rows(x, output), x.flat.nbytes,
           arrays.raw(x.flat), arrays.raw(y.flat), None, plan.divisors(dtype, divisor), plan.tables)
    return y.finish()


def average_backward(grad: Planes, shape: Shape, plan: Plan, divisor: float, out: Any) -> Array:
    dtype = grad.flat.dtype
    if out is not None:
        arrays.check_out(out, shape, dtype)
    target = arrays.output(shape, dtype, grad.rank, grad.last, out, grad.flat)
    if plan.worker is average.spread_planes:
        source, written = arrays.widen(grad.flat), arrays.wide_output(target)
        launch(plan.worker, plan.driver, grad.number, written.nbytes, source, written, divisor, plan.tables)
        return arrays.finish(target, written)
    index = (None,) if plan.worker is windows.window_pixels else ()
    launch(plan.worker, plan.driver, rows(grad, shape[-grad.rank :]), target.flat.nbytes,
           arrays.raw(grad.flat), arrays.raw(target.flat), *index, plan.divisors(dtype, divisor), plan.tables)
    return target.finish()


def check_grad(grad: Planes, output: Shape) -> None:
    if grad.spatial != output:
        raise ValueError(f"grad_output must have shape {(*grad.lead, *output)}, that of the output, got {grad.shape}")


def _forward(rank: int) -> Any:
    def avg_pool(x: ArrayLike, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: Any = None, *, dilation: Any = 1,
                 out: Array | None = None) -> Array:
        """Average over sliding windows.

        Parameters
        ----------
        x : array, shape (N, C, {spatial}) or (C, {spatial})
            float32, float64, float16, bfloat16 or any integer type (whose averages truncate toward zero).
        kernel_size, stride, dilation : int or one int per spatial axis
            Stride None stands for the kernel size.
        padding : int, one int or (before, after) pair per axis, 'valid', 'same' or 'same_lower'
        ceil_mode : bool
            Keep a last window that hangs over the end; what hangs over is never counted.
        count_include_pad : bool
            Whether padded elements count in the divisor.
        divisor_override : number other than 0, optional
            Divides every sum, whatever the window holds.
        out : array, optional
            Written and returned.

        Returns
        -------
        array of x's dtype

        Raises
        ------
        ValueError, TypeError
            For arguments out of range or of the wrong type, before anything is written.
        """
        p = arrays.planes(x, rank)
        grid = geometry.grid(p.spatial, kernel_size, stride, padding, dilation, ceil_mode)
        divisor = check_divisor(divisor_override)
        plan = plans.uniform(grid, check_bool(count_include_pad, "count_include_pad"), p.channels, p.last)
        return average_forward(p, grid.output, plan, divisor, out)

    return ranked(avg_pool, rank)


def _backward(rank: int) -> Any:
    def avg_pool_backward(grad_output: ArrayLike, input_shape: Any, kernel_size: Any, stride: Any = None,
                          padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
                          divisor_override: Any = None, *, dilation: Any = 1, out: Array | None = None) -> Array:
        """Gradient of `avg_pool{d}`: every upstream element, divided as the sum was, to all elements of its window.

        Parameters
        ----------
        grad_output : array of the output's shape
        input_shape : tuple
            Shape of the forward's input.
        kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dilation
            As in the forward.
        out : array, optional
            Written and returned.

        Returns
        -------
        array of shape `input_shape` and grad_output's dtype
        """
        grad = arrays.planes(grad_output, rank, "grad_output", integers=False)
        shape = input_shape_of(input_shape, rank, grad.lead)
        grid = geometry.grid(shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode)
        divisor = check_divisor(divisor_override)
        check_grad(grad, grid.output)
        include = check_bool(count_include_pad, "count_include_pad")
        plan = plans.uniform_backward(grid, include, grad.channels, grad.last, divisor != 0)
        return average_backward(grad, shape, plan, divisor, out)

    return ranked(avg_pool_backward, rank)


avg_pool1d, avg_pool2d, avg_pool3d = (_forward(rank) for rank in (1, 2, 3))
avg_pool1d_backward, avg_pool2d_backward, avg_pool3d_backward = (_backward(rank) for rank in (1, 2, 3))
