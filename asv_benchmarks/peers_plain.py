"""Peers without a library for pooling: ten lines of Numba, and NumPy alone."""


import numpy as np
from peer_case import Calls, Case, Unsupported, first_of, peer


# ---- what a user of Numba writes in an evening
@peer("njit", "ten lines of @njit", "numba")
def ten_lines(case: Case) -> Calls:
    """Plain loops over planes in `prange`, without a check: no NaN, no index is looked at."""
    import numba

    if case.layout != "nchw":
        raise Unsupported("ten lines know one memory order")
    numba.set_num_threads(case.threads)
    (kh, kw), (sh, sw), pad = case.kernel, case.stride, case.padding
    summed = case.operation in ("avg", "global_avg")
    if case.operation == "global_avg":
        kh, kw = case.shape[2:]

    @numba.njit(parallel=True)
    def largest(x, y, index):
        for q in numba.prange(x.shape[0]):
            for i in range(y.shape[1]):
                for j in range(y.shape[2]):
                    top, left = max(i * sh - pad, 0), max(j * sw - pad, 0)
                    best, at = x[q, top, left], top * x.shape[2] + left
                    for h in range(top, min(i * sh - pad + kh, x.shape[1])):
                        for w in range(left, min(j * sw - pad + kw, x.shape[2])):
                            if x[q, h, w] > best:
                                best, at = x[q, h, w], h * x.shape[2] + w
                    y[q, i, j], index[q, i, j] = best, at

    @numba.njit(parallel=True)
    def mean(x, y):
        for q in numba.prange(x.shape[0]):
            for i in range(y.shape[1]):
                for j in range(y.shape[2]):
                    total = np.float32(0)
                    for h in range(max(i * sh - pad, 0), min(i * sh - pad + kh, x.shape[1])):
                        for w in range(max(j * sw - pad, 0), min(j * sw - pad + kw, x.shape[2])):
                            total += x[q, h, w]
                    y[q, i, j] = total / np.float32(kh * kw)

    @numba.njit(parallel=True)
    def scatter(grad, index, gx):
        for q in numba.prange(gx.shape[0]):
            gx[q, :] = 0
            for i in range(index.shape[1]):
                gx[q, index[q, i]] += grad[q, i]

    @numba.njit(parallel=True)
    def spread(grad, gx):
        for q in numba.prange(gx.shape[0]):
            gx[q] = 0
            for i in range(grad.shape[1]):
                for j in range(grad.shape[2]):
                    for h in range(max(i * sh - pad, 0), min(i * sh - pad + kh, gx.shape[1])):
                        for w in range(max(j * sw - pad, 0), min(j * sw - pad + kw, gx.shape[2])):
                            gx[q, h, w] += grad[q, i, j] / np.float32(kh * kw)

    x, grad = case.arrays()
    planes, (oh, ow) = case.shape[0] * case.shape[1], case.output_shape[2:]
    x, grad = x.reshape(planes, *case.shape[2:]), grad.reshape(planes, oh, ow)

    def forward():
        y = np.empty(grad.shape, np.float32)
        if summed:
            mean(x, y)
            return y.reshape(case.output_shape)
        index = np.empty(grad.shape, np.int32)
        largest(x, y, index)
        return y.reshape(case.output_shape), index

    if case.operation == "max":
        return Calls(forward, values=first_of)
    index = None if summed else forward()[1].reshape(planes, -1)

    def backward():
        gx = np.empty(x.shape, np.float32)
        if summed:
            spread(grad, gx)
        else:
            scatter(grad.reshape(planes, -1), index, gx.reshape(planes, -1))
        return gx.reshape(case.shape)

    return Calls(forward, backward, first_of)


# ---- plain NumPy
def _scatter(case: Case, indices: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """The gradient of max pooling from flat indices, the way it is written in NumPy."""
    result = np.zeros((case.shape[0] * case.shape[1], case.shape[2] * case.shape[3]), grad.dtype)
    planes = np.arange(len(result))[:, None]
    np.add.at(result, (planes, indices.reshape(len(result), -1)), grad.reshape(len(result), -1))
    return result.reshape(case.shape)


def _padded(case: Case, x: np.ndarray, value: float) -> np.ndarray:
    p = case.padding
    return np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)), constant_values=value) if p else x


@peer("numpy_reshape", "NumPy reshape", "numpy")
def numpy_reshape(case: Case) -> Calls:
    """Windows that do not overlap, as two more axes."""
    x, grad = case.arrays()
    if case.operation == "global_avg":
        spread = 1 / np.float32(x.shape[2] * x.shape[3])
        return Calls(lambda: x.mean((2, 3), keepdims=True), lambda: np.broadcast_to(grad * spread, x.shape).copy())
    (kh, kw), (oh, ow) = case.kernel, case.output_shape[2:]
    if case.kernel != case.stride or case.padding:
        raise Unsupported("windows that overlap or are padded")

    def windows():
        return x[:, :, : oh * kh, : ow * kw].reshape(*x.shape[:2], oh, kh, ow, kw)

    if case.operation == "max":
        return Calls(lambda: windows().max((3, 5)))
    if case.operation == "avg":

        def spread_out():
            result = np.zeros_like(x)
            result[:, :, : oh * kh, : ow * kw] = (grad / (kh * kw)).repeat(kh, 2).repeat(kw, 3)
            return result

        return Calls(lambda: windows().mean((3, 5)), spread_out)
    rows, columns = np.arange(oh)[:, None] * kh, np.arange(ow) * kw

    def forward():
        flat = windows().transpose(0, 1, 2, 4, 3, 5).reshape(*x.shape[:2], oh, ow, kh * kw)
        best = flat.argmax(-1)
        indices = (rows + best // kw) * x.shape[3] + columns + best % kw
        return np.take_along_axis(flat, best[..., None], -1)[..., 0], indices

    _, indices = forward()
    return Calls(forward, lambda: _scatter(case, indices, grad), first_of)


@peer("numpy_shifted", "NumPy shifted slices", "numpy")
def numpy_shifted(case: Case) -> Calls:
    """One strided slice of the whole input for each position in the window."""
    if case.operation == "global_avg":
        raise Unsupported("as many slices as pixels")
    x, grad = case.arrays()
    (kh, kw), (sh, sw), (oh, ow), p = case.kernel, case.stride, case.output_shape[2:], case.padding
    taps = [(i, j) for i in range(kh) for j in range(kw)]

    def at(a, i, j):
        return a[:, :, i : i + sh * (oh - 1) + 1 : sh, j : j + sw * (ow - 1) + 1 : sw]

    if case.operation == "max":

        def maximum():
            a = _padded(case, x, -np.inf)
            y = at(a, 0, 0).copy()
            for i, j in taps[1:]:
                np.maximum(y, at(a, i, j), out=y)
            return y

        return Calls(maximum)
    if case.operation == "avg":

        def average():
            a = _padded(case, x, 0)
            y = at(a, 0, 0).copy()
            for i, j in taps[1:]:
                y += at(a, i, j)
            y /= kh * kw
            return y

        def spread_out():
            result = np.zeros_like(_padded(case, x, 0))
            share = grad / (kh * kw)
            for i, j in taps:
                at(result, i, j)[...] += share
            return result[:, :, p : p + x.shape[2], p : p + x.shape[3]]

        return Calls(average, spread_out)
    origin = (np.arange(oh)[:, None] * sh - p) * x.shape[3] + np.arange(ow) * sw - p

    def forward():
        a = _padded(case, x, -np.inf)
        y = at(a, 0, 0).copy()
        indices = np.broadcast_to(origin, y.shape).copy()
        for i, j in taps[1:]:
            v = at(a, i, j)
            better = v > y
            np.copyto(y, v, where=better)
            np.copyto(indices, origin + (i * x.shape[3] + j), where=better)
        return y, indices

    _, indices = forward()
    return Calls(forward, lambda: _scatter(case, indices, grad), first_of)


@peer("numpy_windows", "NumPy sliding windows", "numpy")
def numpy_windows(case: Case) -> Calls:
    """sliding_window_view, reduced over the window's axes."""
    if case.operation == "global_avg":
        raise Unsupported("one window alone: see the mean over axes")
    x, grad = case.arrays()
    (kh, kw), (sh, sw), (oh, ow), p = case.kernel, case.stride, case.output_shape[2:], case.padding
    fill = 0 if case.operation == "avg" else -np.inf

    def windows():
        return np.lib.stride_tricks.sliding_window_view(_padded(case, x, fill), (kh, kw), (2, 3))[:, :, ::sh, ::sw]

    if case.operation == "max":
        return Calls(lambda: windows().max((4, 5)))
    if case.operation == "avg":
        return Calls(lambda: windows().mean((4, 5)))
    if np.prod(case.output_shape) * kh * kw > 2**28:
        raise Unsupported("argmax copies every window: more than 1 GiB")
    origin = (np.arange(oh)[:, None] * sh - p) * x.shape[3] + np.arange(ow) * sw - p

    def forward():
        flat = windows().reshape(*case.output_shape, kh * kw)
        best = flat.argmax(-1)
        return np.take_along_axis(flat, best[..., None], -1)[..., 0], origin + best // kw * x.shape[3] + best % kw

    _, indices = forward()
    return Calls(forward, lambda: _scatter(case, indices, grad), first_of)
