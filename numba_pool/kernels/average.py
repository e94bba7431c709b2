"""The gradient of an average for any windows: with divisors of their own, dilated."""

from .._geometry import CHANNELS, DEPTH, HEADER, HEIGHT, LAST, OUT_D, OUT_H, OUT_W, STEP, WIDTH
from ._compile import worker


@worker
def spread_planes(lo, hi, grad, gx, divisor, g):
    """Planes [lo, hi) of the gradient of an average: each upstream element, divided, to every tap of its window."""
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
        for od in range(OD):
            for oh in range(OH):
                for ow in range(OW):
                    t = HEADER
                    d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
                    t += 3 * OD
                    h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
                    t += 3 * OH
                    taps *= g[t + 2 * OW + ow]
                    if divisor == 0 and taps == 0:
                        continue
                    v = grad[yo + ((od * OH + oh) * OW + ow) * s] / (divisor if divisor != 0 else taps)
                    for d in range(d0, d1, dd):
                        for h in range(h0, h1, dh):
                            for w in range(g[t + ow], g[t + OW + ow], dw):
                                gx[xo + ((d * H + h) * W + w) * s] += v
    return 0
