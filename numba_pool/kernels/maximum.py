"""Maximum over windows, with and without the flat argmax."""

import numpy as np
from numba import types

from .._geometry import (
    CHANNELS,
    DEPTH,
    HEADER,
    HEIGHT,
    LAST,
    OUT_D,
    OUT_H,
    OUT_W,
    STEP,
    TABLE_PITCH,
    WIDTH,
)
from ._compile import by_types, worker
from ._reductions import place_of


def lowest(array):
    """The value of a window without any valid tap."""
    return -np.inf if array.dtype.kind == "f" else np.iinfo(array.dtype).min


@by_types(lowest)
def _lowest(array):
    if isinstance(array.dtype, types.Float):
        return lambda array: array.dtype.type(-np.inf)
    low = array.dtype.minval
    return lambda array: array.dtype.type(low)


@worker
def max_rows(lo, hi, x, y, index, g):
    """Output rows [lo, hi), counted through all planes; `index` may be None.

    A tap wins if it is greater than the best so far, or NaN: the first of equals, the last NaN.
    """
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    P, O = D * H * W, OD * OH * OW
    low = lowest(x)
    for row in range(lo, hi):
        q, od, oh = place_of(row, OD, OH)
        t = HEADER + q * g[TABLE_PITCH]
        d0, d1 = g[t + od], g[t + OD + od]
        t += 3 * OD
        h0, h1 = g[t + oh], g[t + OH + oh]
        t += 3 * OH
        if g[LAST]:
            n = q // C
            c = q - n * C
            xo, yo, s = n * P * C + c, (n * O + (od * OH + oh) * OW) * C + c, C
        else:
            xo, yo, s = q * P, row * OW, 1
        for ow in range(OW):
            best, at = low, -1
            for d in range(d0, d1, dd):
                for h in range(h0, h1, dh):
                    for w in range(g[t + ow], g[t + OW + ow], dw):
                        i = (d * H + h) * W + w
                        v = x[xo + i * s]
                        if v > best or v != v or at < 0:
                            best, at = v, i
            y[yo + ow * s] = best
            if index is not None:
                index[yo + ow * s] = at
    return 0
