"""Average pooling."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _arrays as arrays
from .. import _geometry as geometry
from .._arrays import Array, Planes, Shape
from .._runtime import launch
from ..kernels import average
from ._calls import Tables, check_bool, input_shape_of, ranked


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


def average_forward(x: Planes, output: Shape, tables: Tables, divisor: float, out: Any) -> Array:
    shape = (*x.lead, *output)
    if out is not None:
        arrays.check_out(out, shape, x.flat.dtype)
    y = arrays.output(shape, x.flat.dtype, x.rank, x.last, out, x.flat)
    source, written = arrays.widen(x.flat), arrays.wide_output(y)
    launch(average.average_rows, average.average_rows_parallel, x.count * int(np.prod(output[:-1])), source.nbytes,
           source, written, divisor, tables)
    return arrays.finish(y, written)


def average_backward(grad: Planes, shape: Shape, tables: Tables, divisor: float, out: Any) -> Array:
    if out is not None:
        arrays.check_out(out, shape, grad.flat.dtype)
    target = arrays.output(shape, grad.flat.dtype, grad.rank, grad.last, out, grad.flat)
    source, written = arrays.widen(grad.flat), arrays.wide_output(target)
    launch(average.spread_planes, average.spread_planes_parallel, grad.count, written.nbytes,
           source, written, divisor, tables)
    return arrays.finish(target, written)


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
        windows = geometry.grid(p.spatial, kernel_size, stride, padding, dilation, ceil_mode)
        divisor = check_divisor(divisor_override)
        tables = geometry.uniform_tables(windows, check_bool(count_include_pad, "count_include_pad"), p.channels, p.last)
        return average_forward(p, windows.output, tables, divisor, out)

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
        windows = geometry.grid(shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode)
        divisor = check_divisor(divisor_override)
        check_grad(grad, windows.output)
        include = check_bool(count_include_pad, "count_include_pad")
        tables = geometry.uniform_tables(windows, include, grad.channels, grad.last)
        return average_backward(grad, shape, tables, divisor, out)

    return ranked(avg_pool_backward, rank)


avg_pool1d, avg_pool2d, avg_pool3d = (_forward(rank) for rank in (1, 2, 3))
avg_pool1d_backward, avg_pool2d_backward, avg_pool3d_backward = (_backward(rank) for rank in (1, 2, 3))
