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
from .._dispatch.calls import check_bool
from .._docstrings import documented
from .._runtime import launch
from ..kernels import lp
from ..kernels._job import Call
from .whole import BATCH, global_rank

# Decimal digits of powers and their sums, of which float64 has 308; of powers that gradients are multiplied with.
MOST_DIGITS, FEWER_DIGITS = 280, 140


def check_norm(value: Any) -> float:
    try:
        p = float(arguments.real(value, "norm_type"))
    except OverflowError:
        raise ValueError(f"norm_type must be a positive number, inf or -inf, got {value!r}") from None
    if not (p > 0 or p == -np.inf):
        raise ValueError(f"norm_type must be a positive number, inf or -inf, got {value!r}")
    return p


def check_eps(value: Any, dtype: np.dtype[Any]) -> float:
    """What magnitudes are raised to, rounded to the dtype, in which equal ones are to be equal."""
    with np.errstate(over="ignore"):
        eps = float(np.array(arguments.real(value, "eps"), np.float64).astype(dtype))
    if not 0 <= eps < np.inf:
        raise ValueError(f"eps must be 0 or a positive number that {dtype} holds, got {value!r}")
    return eps


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


def pooled(p: Planes, call: Call, norm: float, out: Any, mean: bool, eps: float) -> Array:
    """The norms, or means, of the windows that `plans.norms` has planned."""
    tables, _, ranges = call.rest
    target = arrays.output(call.shape, p.flat.dtype, p.rank, p.last, out, p.flat)
    y, shape = target, call.shape
    if ranges is not None:
        shape = *p.lead, *(stop - first for first, stop in ranges)
        y = arrays.output(shape, p.flat.dtype, p.rank, p.last, None)
    reach, exact = limits(MOST_DIGITS, norm, p.flat.dtype)
    seen, seen_out = fitting(reach, p.flat)
    source, written = seen(p.flat), seen_out(y)
    rows, traffic = p.images * prod(shape[-p.rank : -1]), cost(norm) * source.nbytes
    held = tables if mean else tables[:0]
    if abs(norm) == np.inf or launch(lp.norm_rows, rows, traffic, source, None, None, written, norm, reach, exact, eps,
                                     held, tables):
        launch(lp.norm_windows, rows, traffic, source, written, norm, reach, eps, mean, tables)
    result: Array = arrays.finish(y, written)
    if ranges is None:
        return result
    target.result[...] = 0  # windows in the padding alone
    target.result[within(ranges)] = result
    return target.finish()


def pooled_backward(grad_output: ArrayLike, p: Planes, y: ArrayLike, call: Call, norm: float, out: Any, mean: bool,
                    eps: float) -> Array:
    """The gradient of `pooled`."""
    tables, inverted, ranges = call.rest
    g = arrays.array(grad_output, "grad_output", integers=False)
    arguments.check_output(g.shape, call.shape, f" for an x of shape {p.shape}")
    grad, norms = (arrays.like(a, call.shape, p.rank, p.last, name, integers=False, part=within(ranges))
                   for a, name in ((g, "grad_output"), (y, "y")))
    target = arrays.output(p.shape, g.dtype, p.rank, p.last, out, grad, p.flat, norms)
    flats = grad, p.flat, norms
    widest = max((a.dtype for a in flats), key=lambda dtype: dtype.itemsize)
    reach, exact = limits(FEWER_DIGITS, norm - 1, widest)
    by_rows = abs(norm) < np.inf and inverted is not None
    seen, seen_out = fitting(reach if by_rows else (), *flats)
    written, traffic = seen_out(target), cost(norm) * target.flat.nbytes
    up, x, norms = map(seen, flats)
    held = tables if mean else tables[:0]
    if not by_rows or launch(lp.norm_rows, p.images * prod(p.spatial[:-1]), traffic, norms, up, x, written, norm,
                             reach, exact, eps, held, inverted):
        launch(lp.norm_gradient_planes, p.number, traffic, up, x, norms, written, norm, reach if by_rows else None,
               eps, mean, tables)
    result: Array = arrays.finish(target, written)
    return result


def _forward(rank: int) -> Any:
    calls = Calls()

    @documented(rank)
    def lp_pool(x: ArrayLike, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False, *,
                padding: Any = 0, dilation: Any = 1, mean: bool = False, eps: float = 0.0, channel_axis: Any = None,
                out: Array | None = None) -> Array:
        """Lp norm of sliding windows: ``(sum |x|^p)^(1/p)``; with `mean` their generalized mean, as GeM has it.

        Parameters
        ----------
        x : array, shape {shape}
            float32, float64, float16 or bfloat16.
        padding : ...
            Padded elements are left out.
        mean : bool
            Divide the sum by the elements of the window before the root: ``(sum |x|^p / n)^(1/p)``.

        Notes
        -----
        Unlike torch this takes absolute values, and the overhanging windows of `ceil_mode` are not inflated.

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import lp_pool2d
        >>> lp_pool2d(np.array([[[3.0, -4.0]]]), 2, (1, 2))
        array([[[5.]]])
        >>> lp_pool2d(np.array([[[1.0, 7.0]]]), 2, (1, 2), mean=True)
        array([[[5.]]])
        """
        if channel_axis is not None:
            return along(lp_pool, locals())
        p = arrays.planes(x, rank, integers=False)
        call = calls.long(x, p, (kernel_size, stride, padding, dilation, ceil_mode, False, None), plan_windows, planned)
        norm, eps = check_norm(norm_type), check_eps(eps, p.flat.dtype)
        return pooled(p, call, norm, out, check_bool(mean, "mean"), eps)

    return lp_pool


def _backward(rank: int) -> Any:
    calls = Calls()

    @documented(rank)
    def lp_pool_backward(grad_output: ArrayLike, x: ArrayLike, y: ArrayLike, norm_type: float, kernel_size: Any,
                         stride: Any = None, ceil_mode: bool = False, *, padding: Any = 0, dilation: Any = 1,
                         mean: bool = False, eps: float = 0.0, channel_axis: Any = None,
                         out: Array | None = None) -> Array:
        """Gradient of `lp_pool{d}`: ``grad * sign(x) * (|x| / y)^(p - 1)``, with `mean` divided by n, added up over the
        windows.

        It is 0 at x = 0, below `eps`, and where a whole window is zero. For p = inf and -inf it is shared evenly by the
        elements that attain the extreme.

        Parameters
        ----------
        x : array
            The forward's input.
        y : array of the output's shape
            What the forward returned.
        norm_type, kernel_size, stride, ceil_mode, padding, dilation, mean, eps
            As in the forward.

        Returns
        -------
        array of x's shape and grad_output's dtype
        """
        if channel_axis is not None:
            return along(lp_pool_backward, locals())
        p = arrays.planes(x, rank, integers=False)
        call = calls.long(x, p, (kernel_size, stride, padding, dilation, ceil_mode, True, None), plan_windows, planned)
        norm, eps = check_norm(norm_type), check_eps(eps, p.flat.dtype)
        return pooled_backward(grad_output, p, y, call, norm, out, check_bool(mean, "mean"), eps)

    return lp_pool_backward


lp_pool1d, lp_pool2d, lp_pool3d = (_forward(rank) for rank in (1, 2, 3))
lp_pool1d_backward, lp_pool2d_backward, lp_pool3d_backward = (_backward(rank) for rank in (1, 2, 3))


global_norms, global_gradients = Calls(), Calls()


def whole(calls: Calls, x: ArrayLike, backward: bool) -> tuple[Planes, Call]:
    """An array, and the call for its planes, each of which is one window."""
    a = arrays.array(x, "x", integers=False)
    p = arrays.planes(a, global_rank(a.shape, "x"), integers=False)
    call: Call = calls.long(x, p, (p.spatial, None, 0, 1, False, backward, None), plan_windows, planned)
    return p, call


@documented(batch=BATCH)
def global_lp_pool(x: ArrayLike, norm_type: float, *, mean: bool = True, eps: float = 1e-6,
                   channel_axis: Any = None) -> Array:
    """Generalized mean of every plane, as GeM has it: ``(sum |x|^p / n)^(1/p)``; the spatial axes stay, with size 1.

    {batch}

    Parameters
    ----------
    x : array, shape (N, C, *spatial)
        float32, float64, float16 or bfloat16.
    mean : bool
        Divide the sum by the elements of the plane before the root; False makes it a norm.

    Examples
    --------
    >>> import numpy as np
    >>> from numba_pool import global_lp_pool
    >>> global_lp_pool(np.array([[[1.0, 7.0], [0.0, 2.0]]]), 2)[..., 0].round(3)
    array([[5.   , 1.414]])
    """
    if channel_axis is not None:
        return along(global_lp_pool, locals())
    p, call = whole(global_norms, x, False)
    norm, eps = check_norm(norm_type), check_eps(eps, p.flat.dtype)
    return pooled(p, call, norm, None, check_bool(mean, "mean"), eps)


@documented()
def global_lp_pool_backward(grad_output: ArrayLike, x: ArrayLike, y: ArrayLike, norm_type: float, *,
                            mean: bool = True, eps: float = 1e-6, channel_axis: Any = None) -> Array:
    """Gradient of `global_lp_pool`: ``grad * sign(x) * (|x| / y)^(p - 1)``, with `mean` divided by n; 0 below `eps`.

    Parameters
    ----------
    x : array, shape (N, C, *spatial)
        The forward's input.
    y : array, shape (N, C, 1, ...)
        What the forward returned.
    norm_type, mean, eps
        As in the forward.

    Returns
    -------
    array of x's shape and grad_output's dtype
    """
    if channel_axis is not None:
        return along(global_lp_pool_backward, locals())
    p, call = whole(global_gradients, x, True)
    norm, eps = check_norm(norm_type), check_eps(eps, p.flat.dtype)
    return pooled_backward(grad_output, p, y, call, norm, None, check_bool(mean, "mean"), eps)
