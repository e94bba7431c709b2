"""Lp pooling."""

from __future__ import annotations  # help() shows them by name

from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _arguments as arguments
from .. import _arrays as arrays
from .._arrays import Array, Planes
from .._dispatch import plans
from .._dispatch.again import Calls
from .._dispatch.axes import along
from .._docstrings import documented
from .._runtime import launch
from ..kernels import lp
from ..kernels._job import Call

# Decimal digits of powers and their sums, of which float64 has 308; of powers that gradients are multiplied with.
MOST_DIGITS, FEWER_DIGITS = 280, 140


def check_norm(value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"norm_type must be an int or a float, got {value!r}")
    try:
        p = float(value)
    except OverflowError:
        raise ValueError(f"norm_type must be a positive number, inf or -inf, got {value!r}") from None
    if not (p > 0 or p == -np.inf):
        raise ValueError(f"norm_type must be a positive number, inf or -inf, got {value!r}")
    return p


def cost(norm: float) -> int:
    """How much work a byte is, beside one that is only read and written."""
    return 4 if norm in (1, 2, 3) else 16


def fitting(reach: Any, *flats: Array) -> Any:
    """How a kernel takes and writes arrays: halves as they are if all are, and there are no strays, else as float32."""
    if reach is None and not any(a.dtype.char in arrays.NATIVE for a in flats):
        return arrays.raw, lambda target: arrays.raw(target.flat)
    return arrays.widen, arrays.wide_output


def limits(digits: int, p: float, dtype: np.dtype[Any]) -> tuple[tuple[float, float] | None, bool]:
    """Between which two numbers powers to the p have up to so many decimal digits, before the point or behind it: None
    if all of the dtype have. And whether the dtype can tell good powers from exact ones.
    """
    exact = dtype == np.float64
    most = digits / abs(p) if p else np.inf
    return None if most > (308 if exact else 45) else (10.0**-most, 10.0**most), exact


def within(ranges: Any) -> Any:
    """The index of the windows in these ranges, which `plans.norms` finds; of all for None."""
    return ... if ranges is None else (..., *(slice(*ends) for ends in ranges))


def plan_windows(x: Planes, _: Any, arguments: tuple[Any, ...], out: Any) -> Call:
    kernel_size, stride, padding, dilation, ceil_mode, backward, _ = arguments
    return plans.norms(x.shape, x.rank, x.last, kernel_size, stride, padding, dilation, ceil_mode, backward)


def planned(p: Planes, call: Call, out: Any) -> Call:
    """What is planned alone: kernels of norms are chosen by the norm, too."""
    return call


def _forward(rank: int) -> Any:
    calls = Calls()

    @documented(rank)
    def lp_pool(x: ArrayLike, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False, *,
                padding: Any = 0, dilation: Any = 1, channel_axis: Any = None,
                out: Array | None = None) -> Array:
        """Lp norm of sliding windows: ``(sum |x|^p)^(1/p)``.

        Parameters
        ----------
        x : array, shape {shape}
            float32, float64, float16 or bfloat16.
        norm_type : float
            p > 0; inf is the largest magnitude, -inf the smallest.
        padding : ...
            Padded elements are left out.

        Notes
        -----
        Unlike torch this takes absolute values, and the overhanging windows of `ceil_mode` are not inflated.

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import lp_pool2d
        >>> lp_pool2d(np.array([[[3.0, -4.0]]]), 2, (1, 2))
        array([[[5.]]])
        """
        if channel_axis is not None:
            return along(lp_pool, locals())
        p = arrays.planes(x, rank, integers=False)
        call = calls.long(x, p, (kernel_size, stride, padding, dilation, ceil_mode, False, None), plan_windows, planned)
        tables, _, ranges = call.rest
        norm, target = check_norm(norm_type), arrays.output(call.shape, p.flat.dtype, rank, p.last, out, p.flat)
        y, shape = target, call.shape
        if ranges is not None:
            shape = *p.lead, *(stop - first for first, stop in ranges)
            y = arrays.output(shape, p.flat.dtype, rank, p.last, None)
        reach, exact = limits(MOST_DIGITS, norm, p.flat.dtype)
        seen, seen_out = fitting(reach, p.flat)
        source, written = seen(p.flat), seen_out(y)
        rows, traffic = p.images * prod(shape[-rank:-1]), cost(norm) * source.nbytes
        if abs(norm) == np.inf or launch(lp.norm_rows, rows, traffic, source, None, None, written, norm, reach, exact,
                                         tables):
            launch(lp.norm_windows, rows, traffic, source, written, norm, reach, tables)
        result: Array = arrays.finish(y, written)
        if ranges is None:
            return result
        target.result[...] = 0  # windows in the padding alone
        target.result[within(ranges)] = result
        return target.finish()

    return lp_pool


def _backward(rank: int) -> Any:
    calls = Calls()

    @documented(rank)
    def lp_pool_backward(grad_output: ArrayLike, x: ArrayLike, y: ArrayLike, norm_type: float, kernel_size: Any,
                         stride: Any = None, ceil_mode: bool = False, *, padding: Any = 0, dilation: Any = 1,
                         channel_axis: Any = None, out: Array | None = None) -> Array:
        """Gradient of `lp_pool{d}`: ``grad * sign(x) * (|x| / y)^(p - 1)``, added up over the windows.

        It is 0 at x = 0 and where a whole window is zero. For p = inf and -inf it is shared evenly by the elements
        that attain the extreme.

        Parameters
        ----------
        x : array
            The forward's input.
        y : array of the output's shape
            What the forward returned.
        norm_type, kernel_size, stride, ceil_mode, padding, dilation
            As in the forward.

        Returns
        -------
        array of x's shape and grad_output's dtype
        """
        if channel_axis is not None:
            return along(lp_pool_backward, locals())
        p = arrays.planes(x, rank, integers=False)
        call = calls.long(x, p, (kernel_size, stride, padding, dilation, ceil_mode, True, None), plan_windows, planned)
        tables, inverted, ranges = call.rest
        norm = check_norm(norm_type)
        g = arrays.array(grad_output, "grad_output", integers=False)
        arguments.check_output(g.shape, call.shape, f" for an x of shape {p.shape}")
        grad = arrays.like(g, call.shape, rank, p.last, "grad_output", integers=False, part=within(ranges))
        pooled = arrays.like(y, call.shape, rank, p.last, "y", integers=False, part=within(ranges))
        target = arrays.output(p.shape, g.dtype, rank, p.last, out, grad, p.flat, pooled)
        flats = grad, p.flat, pooled
        widest = max((a.dtype for a in flats), key=lambda dtype: dtype.itemsize)
        reach, exact = limits(FEWER_DIGITS, norm - 1, widest)
        by_rows = abs(norm) < np.inf and inverted is not None
        seen, seen_out = fitting(reach if by_rows else (), *flats)
        written, traffic = seen_out(target), cost(norm) * target.flat.nbytes
        up, x, norms = map(seen, flats)
        if not by_rows or launch(lp.norm_rows, p.images * prod(p.spatial[:-1]), traffic, norms, up, x, written, norm,
                                 reach, exact, inverted):
            launch(lp.norm_gradient_planes, p.number, traffic, up, x, norms, written, norm, reach if by_rows else None,
                   tables)
        return arrays.finish(target, written)

    return lp_pool_backward


lp_pool1d, lp_pool2d, lp_pool3d = (_forward(rank) for rank in (1, 2, 3))
lp_pool1d_backward, lp_pool2d_backward, lp_pool3d_backward = (_backward(rank) for rank in (1, 2, 3))
