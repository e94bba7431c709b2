"""What flat indices route: gradients of a maximum, unpooling, and the gather that is unpooling's gradient.

None of these knows the windows: an index says all. Every index is checked before it is used, a block at a time: where
the smallest and the largest of a block are good, all are.
"""

import numpy as np
from numba import prange

from ._compile import driver, worker

BLOCK = 2048  # indices checked together; they are still in the first cache when they are used


@worker
def scatter_planes(lo, hi, grad, index, gx, channels, P, O, accumulate, parts):
    """Zeros, then `gx[index] += grad` (`= grad` where not `accumulate`) in row-major order, for units [lo, hi).

    A unit is one of `parts` equal ranges of the elements of a plane (channels 1), or of the pixels of an image in
    channels-last memory. It takes the gradients of its range and leaves the others. A range is zeroed as far as the
    indices have come, so that zeros are still in the cache when gradients are added.

    Returns how many indices lay outside the plane; -1, a window without a valid tap, is skipped where gradients add up.
    """
    bad = 0
    C = channels
    step = max(BLOCK // C, 1)
    for unit in range(lo, hi):
        plane = unit // parts
        part = unit - plane * parts
        first, stop = P * part // parts, P * (part + 1) // parts
        xo, yo = plane * P * C, plane * O * C
        zeroed = first
        for o in range(0, O, step):
            begin, end = yo + o * C, yo + min(o + step, O) * C
            least, most = index[begin], index[begin]
            for k in range(begin, end):
                least, most = min(least, index[k]), max(most, index[k])
            if least < 0 or most >= P:
                for k in range(begin, end):
                    i = index[k]
                    if part == 0 and (i >= P or i < -1 or (i == -1 and not accumulate)):
                        bad += 1
            if most < first or least >= stop:
                continue
            ahead = min(most + 1, stop)
            if ahead > zeroed:
                for k in range(xo + zeroed * C, xo + ahead * C):
                    gx[k] = 0
                zeroed = ahead
            if C == 1 and accumulate and least >= first and most < stop:  # the common case, without a test in its loop
                for k in range(begin, end):
                    gx[xo + np.int64(index[k])] += grad[k]
                continue
            for pixel in range(begin, end, C):
                for c in range(C):
                    i = np.int64(index[pixel + c])
                    if first <= i < stop:
                        if accumulate:
                            gx[xo + i * C + c] += grad[pixel + c]
                        else:
                            gx[xo + i * C + c] = grad[pixel + c]
        for k in range(xo + zeroed * C, xo + stop * C):
            gx[k] = 0
    return bad


@driver
def scatter_planes_parallel(chunks, units, grad, index, gx, channels, P, O, accumulate, parts):
    bad = 0
    for chunk in prange(chunks):
        bad += scatter_planes(units * chunk // chunks, units * (chunk + 1) // chunks, grad, index, gx, channels, P, O,
                              accumulate, parts)
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
