"""What flat indices route: gradients of a maximum, unpooling, and the gather that is unpooling's gradient.

None of these knows the windows: an index says all. Every index is checked before it is used.
"""

import numpy as np
from numba import prange

from ._compile import driver, worker


@worker
def scatter_planes(lo, hi, grad, index, gx, channels, P, O, last, accumulate):
    """Planes [lo, hi): zeros, then `gx[index] += grad` (`= grad` where not `accumulate`), in row-major order.

    Returns how many indices lay outside the plane; -1, a window without a valid tap, is skipped where gradients add up.
    """
    bad = 0
    for q in range(lo, hi):
        if last:
            n = q // channels
            c = q - n * channels
            xo, yo, s = n * P * channels + c, n * O * channels + c, channels
        else:
            xo, yo, s = q * P, q * O, 1
        for i in range(P):
            gx[xo + i * s] = 0
        for o in range(O):
            i = np.int64(index[yo + o * s])
            if 0 <= i < P:
                if accumulate:
                    gx[xo + i * s] += grad[yo + o * s]
                else:
                    gx[xo + i * s] = grad[yo + o * s]
            elif i != -1 or not accumulate:
                bad += 1
    return bad


@driver
def scatter_planes_parallel(chunks, units, grad, index, gx, channels, P, O, last, accumulate):
    bad = 0
    for chunk in prange(chunks):
        bad += scatter_planes(units * chunk // chunks, units * (chunk + 1) // chunks, grad, index, gx, channels, P, O,
                              last, accumulate)
    return bad


@worker
def gather_planes(lo, hi, x, index, y, channels, P, O, last):
    """Planes [lo, hi): `y = x[index]`. Returns how many indices lay outside the plane."""
    bad = 0
    for q in range(lo, hi):
        if last:
            n = q // channels
            c = q - n * channels
            xo, yo, s = n * P * channels + c, n * O * channels + c, channels
        else:
            xo, yo, s = q * P, q * O, 1
        for o in range(O):
            i = np.int64(index[yo + o * s])
            if 0 <= i < P:
                y[yo + o * s] = x[xo + i * s]
            else:
                bad += 1
    return bad


@driver
def gather_planes_parallel(chunks, units, x, index, y, channels, P, O, last):
    bad = 0
    for chunk in prange(chunks):
        bad += gather_planes(units * chunk // chunks, units * (chunk + 1) // chunks, x, index, y, channels, P, O, last)
    return bad
