"""What pooling computes where elements are missing: plain loops over the valid elements of each window."""

import itertools
import math

import numpy as np
from reference import as_planes, flat_taps, numbers, output_shape, padded_taps, quotient, rounded, total


def valid_of(x, where, omit):
    """Which elements are not missing, in the shape of x."""
    valid = np.ones(x.shape, bool) if where is None else np.broadcast_to(where, x.shape).copy()
    return valid & ~np.isnan(x) if omit and x.dtype.kind not in "iu" else valid


def windows_of(x, valid, axes):
    """For each plane, its values and for each window the taps that are valid, and how many places of it are padding."""
    rank, shape = len(axes), x.shape[x.ndim - len(axes) :]
    windows = list(itertools.product(*axes))
    taps = [list(flat_taps(shape, window)) for window in windows]
    padding = [padded_taps(window) - len(each) for window, each in zip(windows, taps, strict=True)]
    for plane, mask in zip(as_planes(x, rank), as_planes(valid, rank), strict=True):
        flat = mask.ravel()
        yield plane, [([t for t in each if flat[t]], more) for each, more in zip(taps, padding, strict=True)]


def extremes(x, valid, axes, largest=True):
    """Values and flat indices of the maximum, or minimum, of every window."""
    shape, values, indices = output_shape(x.shape, axes), [], []
    for plane, windows in windows_of(x, valid, axes):
        flat, nothing = plane.ravel(), nothing_in(x.dtype, largest)
        of = numbers(plane)
        for taps, _ in windows:
            best = -1
            for t in taps:
                ahead = best < 0 or (of[t] > of[best] if largest else of[t] < of[best])
                if ahead or of[t] != of[t]:
                    best = t
            indices.append(best)
            values.append(flat[best] if best >= 0 else nothing)
    return np.array(values, x.dtype).reshape(shape), np.array(indices, np.int32).reshape(shape)


def nothing_in(dtype, largest):
    if dtype.kind not in "iu":
        return np.nan
    return np.iinfo(dtype).min if largest else np.iinfo(dtype).max


def divisor(count, padding, include, override, summed):
    if summed:
        return 1
    return override if override is not None else count + padding * include


def averages(x, valid, axes, include=True, override=None, summed=False, least=None):
    """Averages, or sums; and the averages, or sums, of magnitudes."""
    least = (0 if summed else 1) if least is None else max(least, 0 if summed else 1)
    floats = x.dtype.kind not in "iu"
    found, magnitudes = [], []
    for plane, windows in windows_of(x, valid, axes):
        of = numbers(plane)
        for taps, padding in windows:
            by = divisor(len(taps), padding, include, override, summed)
            if len(taps) < least:
                found.append(np.nan if floats else 0)
                magnitudes.append(0)
                continue
            terms = [of[t] for t in taps]
            if floats:
                found.append(rounded(total(terms) / by, x.dtype))
                magnitudes.append(sum(map(abs, terms)) / abs(by))
            else:
                found.append(quotient(terms, by, x.dtype))
                magnitudes.append(0)
    shape = output_shape(x.shape, axes)
    with np.errstate(all="ignore"):
        return np.array(found).reshape(shape).astype(x.dtype), np.array(magnitudes).reshape(shape)


def averages_backward(grad_output, valid, axes, include=True, override=None, summed=False, least=None):
    least = max(1, least or 0)
    gradient = np.zeros((math.prod(valid.shape[: valid.ndim - len(axes)]), math.prod(valid.shape[-len(axes) :])))
    ups = grad_output.reshape(len(gradient), math.prod(grad_output.shape[-len(axes) :])).astype(np.float64)
    for q, (_, windows) in enumerate(windows_of(valid, valid, axes)):
        for o, (taps, padding) in enumerate(windows):
            if len(taps) >= least:
                gradient[q, taps] += ups[q, o] / divisor(len(taps), padding, include, override, summed)
    return gradient.reshape(valid.shape)
