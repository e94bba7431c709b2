"""What every operation computes, written as plainly as possible: loops over windows, nothing shared with the package.

Arrays are channels first, with or without the batch axis; `rank` is the number of spatial axes. Sums are taken in
float64 (exactly rounded where all terms are finite) and rounded to the dtype at the end.
"""

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np


def per_axis(value, rank):
    """An int for every axis, or one value per axis; a tuple of length one stands for every axis."""
    if not isinstance(value, tuple | list):
        return (value,) * rank
    return tuple(value) * rank if len(value) == 1 else tuple(value)


def pads(padding, shape, kernel, stride, dilation):
    """(before, after) per axis."""
    if padding == "valid":
        return ((0, 0),) * len(shape)
    if padding in ("same", "same_lower"):
        result = []
        for length, k, s, d in zip(shape, kernel, stride, dilation, strict=True):
            outputs = -(-length // s)
            total = max(0, (outputs - 1) * s + d * (k - 1) + 1 - length)
            small, large = total // 2, total - total // 2
            result.append((small, large) if padding == "same" else (large, small))
        return tuple(result)
    return tuple(p if isinstance(p, tuple | list) else (p, p) for p in per_axis(padding, len(shape)))


def output_length(length, kernel, stride, before, after, dilation, ceil_mode):
    room = length + before + after - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return room // stride + 1
    outputs = -(-room // stride) + 1
    # the last window has to start inside the input or the padding before it
    return outputs - 1 if (outputs - 1) * stride >= length + before else outputs


def sliding(shape, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Per axis, for every output: its valid taps, and how many taps lie in the padded extent."""
    rank = len(shape)
    kernel = per_axis(kernel_size, rank)
    stride = kernel if stride is None or stride == () else per_axis(stride, rank)
    dilation = per_axis(dilation, rank)
    axes = []
    for length, k, s, (before, after), d in zip(
        shape, kernel, stride, pads(padding, shape, kernel, stride, dilation), dilation, strict=True
    ):
        axis = []
        for o in range(output_length(length, k, s, before, after, d, ceil_mode)):
            taps = [o * s - before + t * d for t in range(k)]
            padded = sum(-before <= t < length + after for t in taps)
            axis.append(([t for t in taps if 0 <= t < length], padded))
        axes.append(axis)
    return axes


def adaptive(shape, output_size):
    """The same table for adaptive windows."""
    axes = []
    for length, outputs in zip(shape, per_axis(output_size, len(shape)), strict=True):
        outputs = length if outputs is None else outputs
        axis = []
        for o in range(outputs):
            taps = list(range(o * length // outputs, -(-(o + 1) * length // outputs)))
            axis.append((taps, len(taps)))
        axes.append(axis)
    return axes


def whole(shape):
    """The same table for one window over everything."""
    return [[(list(range(length)), length)] for length in shape]


def as_planes(x, rank):
    return x.reshape(math.prod(x.shape[: x.ndim - rank]), *x.shape[x.ndim - rank :])


def output_shape(x_shape, axes):
    return (*x_shape[: len(x_shape) - len(axes)], *(len(axis) for axis in axes))


def numbers(plane):
    """A plane's elements as a flat list of Python numbers, exactly."""
    return (plane if plane.dtype.kind in "iu" else plane.astype(np.float64)).ravel().tolist()


def flat_taps(shape, window):
    """Flat indices of a window's valid taps, row-major; `window` holds one table entry per axis."""
    for position in itertools.product(*(taps for taps, _ in window)):
        flat = 0
        for length, p in zip(shape, position, strict=True):
            flat = flat * length + p
        yield flat


def padded_taps(window):
    return math.prod(padded for _, padded in window)


def scan(values, taps):
    """Index of the winner: greater than the best so far, or NaN; -1 without any tap."""
    best = index = None
    for t in taps:
        v = values[t]
        if index is None or v > best or v != v:
            best, index = v, t
    return -1 if index is None else index


def lowest(dtype):
    return -np.inf if dtype.kind not in "iu" else np.iinfo(dtype).min


def max_windows(x, axes):
    """Values and flat indices of the maximum of every window."""
    rank = len(axes)
    shape = x.shape[x.ndim - rank :]
    y = np.empty(output_shape(x.shape, axes), x.dtype)
    indices = np.empty(y.shape, np.int32)
    windows = [list(flat_taps(shape, w)) for w in itertools.product(*axes)]
    if not y.size:
        return y, indices
    for plane, y_plane, i_plane in zip(
        as_planes(x, rank), y.reshape(-1, len(windows)), indices.reshape(-1, len(windows)), strict=True
    ):
        values, flat = numbers(plane), plane.ravel()
        for o, taps in enumerate(windows):
            i_plane[o] = scan(values, taps)
            y_plane[o] = flat[i_plane[o]] if i_plane[o] >= 0 else lowest(x.dtype)
    return y, indices


def total(terms):
    """The sum, rounded once where that is defined."""
    return math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms)


def rounded(value, dtype):
    """Halves are float32 results rounded once more."""
    return np.float32(value) if dtype.itemsize == 2 else value


def quotient(terms, divisor, dtype):
    """Integers truncate toward zero."""
    if dtype.kind in "iu":
        magnitude = abs(sum(terms)) // abs(divisor)
        return magnitude if (sum(terms) < 0) == (divisor < 0) else -magnitude
    return rounded(total(terms) / divisor, dtype)


def divisor_of(window, count_include_pad, divisor_override):
    if divisor_override is not None:
        return divisor_override
    return padded_taps(window) if count_include_pad else math.prod(len(taps) for taps, _ in window)


def avg_windows(x, axes, count_include_pad=True, divisor_override=None):
    rank = len(axes)
    shape = x.shape[x.ndim - rank :]
    y = np.zeros(output_shape(x.shape, axes), x.dtype)
    windows = list(itertools.product(*axes))
    flats = [list(flat_taps(shape, w)) for w in windows]
    if not y.size:
        return y
    for plane, y_plane in zip(as_planes(x, rank), y.reshape(-1, len(windows)), strict=True):
        values = numbers(plane)
        for o, (window, taps) in enumerate(zip(windows, flats, strict=True)):
            if taps:
                divisor = divisor_of(window, count_include_pad, divisor_override)
                y_plane[o] = quotient([values[t] for t in taps], divisor, x.dtype)
    return y


def avg_windows_backward(grad_output, input_shape, axes, count_include_pad=True, divisor_override=None):
    rank = len(axes)
    shape = input_shape[len(input_shape) - rank :]
    grad = np.zeros((math.prod(input_shape[: len(input_shape) - rank]), math.prod(shape)))
    windows = list(itertools.product(*axes))
    g = grad_output.reshape(len(grad), len(windows)).astype(np.float64)
    for o, window in enumerate(windows):
        for t in flat_taps(shape, window):
            grad[:, t] += g[:, o] / divisor_of(window, count_include_pad, divisor_override)
    return grad.reshape(input_shape).astype(grad_output.dtype)


def scatter_add(grad_output, indices, input_shape, rank):
    """Backward of every maximum: each gradient goes to its index, -1 goes nowhere."""
    at = len(input_shape) - rank
    grad = np.zeros((math.prod(input_shape[:at]), math.prod(input_shape[at:])))
    for plane, g, index in zip(grad, as_planes(grad_output, rank), as_planes(indices, rank), strict=True):
        for value, i in zip(numbers(g), index.ravel(), strict=True):
            if i >= 0:
                plane[i] += value
    return grad.reshape(input_shape).astype(grad_output.dtype)


def norm(terms, p):
    absolute = np.abs(np.asarray(terms, np.float64))
    if p == math.inf:
        return absolute.max(initial=0.0)
    if p == -math.inf:
        return absolute.min()
    return np.sum(absolute**p) ** (1 / p)


def lp_windows(x, axes, p):
    rank = len(axes)
    shape = x.shape[x.ndim - rank :]
    y = np.zeros(output_shape(x.shape, axes), x.dtype)
    flats = [list(flat_taps(shape, w)) for w in itertools.product(*axes)]
    for plane, y_plane in zip(as_planes(x, rank), y.reshape(-1, len(flats)), strict=True):
        values = numbers(plane)
        for o, taps in enumerate(flats):
            if taps:
                y_plane[o] = rounded(norm([values[t] for t in taps], p), x.dtype)
    return y


def lp_windows_backward(grad_output, x, axes, p):
    """d/dx_i (sum |x|^p)^(1/p) = sign(x_i) (|x_i| / y)^(p - 1); 0 where the window is all zero. Finite p only."""
    rank = len(axes)
    shape = x.shape[x.ndim - rank :]
    grad = np.zeros((math.prod(x.shape[: x.ndim - rank]), math.prod(shape)))
    flats = [list(flat_taps(shape, w)) for w in itertools.product(*axes)]
    for row, plane, g in zip(grad, as_planes(x, rank), grad_output.reshape(-1, len(flats)), strict=True):
        values = numbers(plane)
        elements = np.array(values, np.float64)
        for value, taps in zip(numbers(g), flats, strict=True):
            y = norm([values[t] for t in taps], p)
            if y > 0:
                row[taps] += value * np.sign(elements[taps]) * (np.abs(elements[taps]) / y) ** (p - 1)
    return grad.reshape(x.shape).astype(grad_output.dtype)


def norm_gradient_derivative(x, v, p, up=1.0):
    """The derivative, in the elements x of one window, of the sum of v times the gradient of ``up * norm(x, p)``."""
    with localcontext(prec=50):
        x, v, p, up = [Decimal(float(a)) for a in x], [Decimal(float(a)) for a in v], Decimal(p), Decimal(up)
        y = sum(abs(a) ** p for a in x) ** (1 / p)
        if y == 0:
            return [0.0] * len(x)
        slopes = [(abs(a) / y) ** (p - 1) * (1 if a > 0 else -1) if a else Decimal(0) for a in x]
        along = sum(a * slope for a, slope in zip(v, slopes))
        curves = [(abs(a) / y) ** (p - 2) if a or p > 2 else Decimal(1) for a in x]  # where 0 ** 0 is 1
        return [float(up * (p - 1) / y * (b * curve - along * slope)) for b, curve, slope in zip(v, curves, slopes)]


def fractional_starts(length, kernel, outputs, u, dtype):
    """First taps of the pseudo-random windows of one axis, computed in `dtype`."""
    starts = [length - kernel] * outputs
    if outputs > 1:
        alpha = dtype.type(length - kernel) / dtype.type(outputs - 1)
        u = dtype.type(u)
        for i in range(outputs - 1):
            starts[i] = int((dtype.type(i) + u) * alpha) - int(u * alpha)
    return starts


def fractional_max(x, kernel_size, output_size, samples):
    """`samples`: (N, C, rank); unbatched input takes N = 1."""
    rank = samples.shape[-1]
    shape = x.shape[x.ndim - rank :]
    kernel, outputs = per_axis(kernel_size, rank), per_axis(output_size, rank)
    y = np.empty((*x.shape[: x.ndim - rank], *outputs), x.dtype)
    indices = np.empty(y.shape, np.int32)
    # 2D: the first sample drives W and the second H; 3D: T, H, W in order
    order = (1, 0) if rank == 2 else tuple(range(rank))
    for plane, u, y_plane, i_plane in zip(
        as_planes(x, rank), samples.reshape(-1, rank), as_planes(y, rank), as_planes(indices, rank), strict=True
    ):
        axes = [
            [(list(range(s, s + k)), k) for s in fractional_starts(length, k, o, u[which], x.dtype)]
            for length, k, o, which in zip(shape, kernel, outputs, order, strict=True)
        ]
        y_plane[...], i_plane[...] = max_windows(plane, axes)
    return y, indices


def unpool_size(shape, kernel_size, stride=None, padding=0):
    rank = len(shape)
    kernel = per_axis(kernel_size, rank)
    stride = kernel if stride is None else per_axis(stride, rank)
    return tuple(
        (n - 1) * s + k - 2 * p for n, k, s, p in zip(shape, kernel, stride, per_axis(padding, rank), strict=True)
    )


def max_unpool(x, indices, size):
    """Zeros, then one element after the other to its index: of duplicates the last stays."""
    rank = len(size)
    y = np.zeros((*x.shape[: x.ndim - rank], *size), x.dtype)
    for plane, values, index in zip(
        y.reshape(-1, math.prod(size)), as_planes(x, rank), as_planes(indices, rank), strict=True
    ):
        for value, i in zip(values.ravel(), index.ravel(), strict=True):
            plane[i] = value
    return y


def gather(grad_output, indices, rank):
    """Backward of unpooling."""
    grad = np.empty(indices.shape, grad_output.dtype)
    planes = (as_planes(a, rank) for a in (grad, grad_output, indices))
    for plane, g, index in zip(*planes, strict=True):
        plane[...] = g.ravel()[index]
    return grad


def max_pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, *, rank):
    return max_windows(x, sliding(x.shape[x.ndim - rank :], kernel_size, stride, padding, dilation, ceil_mode))


def avg_pool(
    x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None,
    *, dilation=1, rank,
):  # fmt: skip
    axes = sliding(x.shape[x.ndim - rank :], kernel_size, stride, padding, dilation, ceil_mode)
    return avg_windows(x, axes, count_include_pad, divisor_override)


def avg_pool_backward(
    grad_output, input_shape, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
    divisor_override=None, *, dilation=1, rank,
):  # fmt: skip
    axes = sliding(input_shape[len(input_shape) - rank :], kernel_size, stride, padding, dilation, ceil_mode)
    return avg_windows_backward(grad_output, input_shape, axes, count_include_pad, divisor_override)


def lp_pool(x, norm_type, kernel_size, stride=None, ceil_mode=False, *, padding=0, dilation=1, rank):
    axes = sliding(x.shape[x.ndim - rank :], kernel_size, stride, padding, dilation, ceil_mode)
    return lp_windows(x, axes, norm_type)


def lp_pool_backward(
    grad_output, x, norm_type, kernel_size, stride=None, ceil_mode=False, *, padding=0, dilation=1, rank
):
    axes = sliding(x.shape[x.ndim - rank :], kernel_size, stride, padding, dilation, ceil_mode)
    return lp_windows_backward(grad_output, x, axes, norm_type)


def adaptive_max_pool(x, output_size, *, rank):
    return max_windows(x, adaptive(x.shape[x.ndim - rank :], output_size))


def adaptive_avg_pool(x, output_size, *, rank):
    return avg_windows(x, adaptive(x.shape[x.ndim - rank :], output_size))


def adaptive_avg_pool_backward(grad_output, input_shape, output_size, *, rank):
    axes = adaptive(input_shape[len(input_shape) - rank :], output_size)
    return avg_windows_backward(grad_output, input_shape, axes)
