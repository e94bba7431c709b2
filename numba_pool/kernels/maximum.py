"""Fractional pooling: maxima over windows that are drawn at random for every plane, with indices and without."""

import numpy as np

from .._windows import CHANNELS, DEPTH, HEIGHT, KERNEL, LAST, OUT_D, OUT_H, OUT_W, WIDTH
from ..simd import beats
from ._compile import worker
from ._reductions import place_of


@worker
def max_drawn(lo, hi, x, y, index, starts, g):
    """Rows [lo, hi) of the output, counted through all planes. All windows have the same size. `starts` has for every
    plane where its windows begin: along D, then along H, then along W. `index` may be None.
    """
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    KD, KH, KW = g[KERNEL], g[KERNEL + 1], g[KERNEL + 2]
    P, O = D * H * W, OD * OH * OW
    for row in range(lo, hi):
        q, od, oh = place_of(row, OD, OH)
        t = q * (OD + OH + OW)
        first = (starts[t + od] * H + starts[t + OD + oh]) * W
        t += OD + OH
        if g[LAST]:
            n = q // C
            c = q - n * C
            xo, yo, s = n * P * C + c, (n * O + (od * OH + oh) * OW) * C + c, C
        else:
            xo, yo, s = q * P, row * OW, 1
        for ow in range(OW):
            at = first + starts[t + ow]
            best, winner = x[np.uintp(xo + at * s)], at
            for d in range(KD):
                for h in range(KH):
                    i = at + (d * H + h) * W
                    for _ in range(KW):
                        v = x[np.uintp(xo + i * s)]
                        wins = beats(v, best)  # not an `if`, whose outcome no processor could foresee
                        best, winner = v if wins else best, i if wins else winner
                        i += 1
            y[np.uintp(yo + ow * s)] = best
            if index is not None:
                index[np.uintp(yo + ow * s)] = winner
    return 0
