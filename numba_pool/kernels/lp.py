"""Power means without the mean: (sum |x|^p)^(1/p) over windows, and its gradient."""

import numpy as np
from numba import njit

from .._geometry import CHANNELS, DEPTH, HEADER, HEIGHT, LAST, OUT_D, OUT_H, OUT_W, STEP, WIDTH
from ._compile import worker
from ._reductions import place_of

LEAST, LARGEST = 1e-280, 1e300  # sums of squares between them have lost nothing


@njit(inline="always")
def root(total, p):
    """The p-th one: of common norms without a power, which takes 25 ns."""
    if p == 2.0:
        return np.sqrt(total)
    return total if p == 1.0 else total ** (1.0 / p)


@worker
def lp_rows(lo, hi, x, y, p, g):
    """Output rows [lo, hi), counted through all planes.

    The window's largest magnitude is divided out first, so that no power overflows or vanishes; but for p = 1 and 2
    only where the plain sum says that it might: 2x2 takes a third of the time.
    """
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    P, O = D * H * W, OD * OH * OW
    for row in range(lo, hi):
        q, od, oh = place_of(row, OD, OH)
        t = HEADER
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
            total = 0.0
            if p == 1.0 or p == 2.0:
                for d in range(d0, d1, dd):
                    for h in range(h0, h1, dh):
                        for w in range(g[t + ow], g[t + OW + ow], dw):
                            v = abs(np.float64(x[xo + ((d * H + h) * W + w) * s]))
                            total += v if p == 1.0 else v * v
                if LEAST < total < LARGEST:
                    y[yo + ow * s] = root(total, p)
                    continue
            extreme, first = 0.0, True
            for d in range(d0, d1, dd):
                for h in range(h0, h1, dh):
                    for w in range(g[t + ow], g[t + OW + ow], dw):
                        v = abs(np.float64(x[xo + ((d * H + h) * W + w) * s]))
                        if first or v != v or (v > extreme if p > 0 else v < extreme):
                            extreme, first = v, False
            total = extreme
            if extreme != 0 and extreme < np.inf and abs(p) < np.inf:
                total = 0.0
                for d in range(d0, d1, dd):
                    for h in range(h0, h1, dh):
                        for w in range(g[t + ow], g[t + OW + ow], dw):
                            v = abs(np.float64(x[xo + ((d * H + h) * W + w) * s])) / extreme
                            if p == 2.0:
                                total += v * v
                            elif p == 1.0:
                                total += v
                            else:
                                total += v**p
                total = extreme * root(total, p)
            y[yo + ow * s] = total
    return 0


@worker
def lp_gradient_planes(lo, hi, grad, x, y, gx, p, g):
    """Planes [lo, hi) of the gradient: grad * sign(x) * (|x| / y)^(p - 1), added up over the windows.

    For p = inf and -inf the gradient is shared evenly by the taps that attain y, as of a vector's norm. It is 0 at 0.
    """
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    P, O = D * H * W, OD * OH * OW
    for q in range(lo, hi):
        if g[LAST]:
            n = q // C
            c = q - n * C
            xo, yo, s = n * P * C + c, n * O * C + c, C
        else:
            xo, yo, s = q * P, q * O, 1
        for i in range(P):
            gx[xo + i * s] = 0
        for o in range(O):
            od = o // (OH * OW)
            oh = o // OW - od * OH
            t = HEADER
            d0, d1 = g[t + od], g[t + OD + od]
            t += 3 * OD
            h0, h1 = g[t + oh], g[t + OH + oh]
            t += 3 * OH + o % OW
            norm, up = np.float64(y[yo + o * s]), np.float64(grad[yo + o * s])
            if norm == 0:
                continue
            ties = 0
            if abs(p) == np.inf:
                for d in range(d0, d1, dd):
                    for h in range(h0, h1, dh):
                        for w in range(g[t], g[t + OW], dw):
                            ties += abs(np.float64(x[xo + ((d * H + h) * W + w) * s])) == norm
            for d in range(d0, d1, dd):
                for h in range(h0, h1, dh):
                    for w in range(g[t], g[t + OW], dw):
                        i = xo + ((d * H + h) * W + w) * s
                        v = np.float64(x[i])
                        if v == 0:
                            continue
                        if abs(p) == np.inf:
                            share = 1.0 / ties if abs(v) == norm else 0.0
                        elif p == 2.0:
                            share = abs(v) / norm
                        elif p == 1.0:
                            share = 1.0
                        else:
                            share = (abs(v) / norm) ** (p - 1.0)
                        gx[i] += up * np.copysign(share, v)
    return 0
