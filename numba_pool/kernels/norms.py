"""Power means without the mean, as by `lp`, of many small planes or images at once: every window by a list of its taps.

Rows of a few windows leave most lanes of `lp.norm_rows` unused. Nanoseconds per element, two threads, here and there,
2x2/2 for p = 2 of 2x2 planes 1.7 and 13, of 7x7 1.4 and 5.9.
"""

import numpy as np
from numpy.typing import NDArray

from .._windows import CHANNELS, DEPTH, HEADER, HEIGHT, LAST, MOST_H, MOST_W, OUT_D, OUT_H, OUT_W, STEP, WIDTH
from ._compile import helper, worker
from .lp import (
    ROUND,
    gather_up,
    give,
    mend_elements,
    mend_windows,
    raise_all,
    share_out,
    strays,
    take,
    whole_turns,
)

MOST_TAPS, FEW = 9, 4  # taps of a window, of so many channels last
TOGETHER = 1 << 10  # elements that are taken together: they and the lists of taps stay in the first cache


def serves(g: NDArray[np.int64]) -> bool:
    """Whether the windows of a geometry are best taken by the lists of their taps; of a gradient the inverse ones.

    One thread, 4x4 to 28x28: 2x2/2 in 0.2 to 0.6 of the time, its gradient in 0.1 to 0.4, 3x3/1 in 0.3 to 0.9; but of
    eight channels last and more, whose rows are long vectors, up to 2.7 times, except gradients of windows apart, 0.7.
    """
    channels = g[CHANNELS] if g[LAST] else 1
    most = max(g[HEIGHT] * g[WIDTH], g[OUT_H] * g[OUT_W]) * channels
    taps = g[MOST_H] * g[MOST_W]
    slice_held = g[DEPTH] == g[OUT_D] == 1 and g[HEADER] < g[HEADER + 1]  # a dilated window may pass it over
    return bool(slice_held and taps <= (MOST_TAPS if channels <= FEW else 1) and 0 < most <= TOGETHER)


@helper
def list_taps(many, g):
    """Where the taps of all windows of so many images are in the memory of these: of every window that of its first
    column and row, of the second row, and so on. One behind the last image stands for taps that there are none of.
    """
    H, W, OH, OW = g[HEIGHT], g[WIDTH], g[OUT_H], g[OUT_W]
    E = g[CHANNELS] if g[LAST] else 1
    starts = HEADER + 3 * g[OUT_D]
    columns = starts + 3 * OH
    high, outputs = g[MOST_H], OH * OW * E
    taps = np.full(high * g[MOST_W] * many * outputs, many * H * W * E, np.int32)
    for oh in range(OH):
        for ow in range(OW):
            to = (oh * OW + ow) * E
            for w in range(g[columns + ow], g[columns + OW + ow], g[STEP + 2]):
                column = to
                for h in range(g[starts + oh], g[starts + OH + oh], g[STEP + 1]):
                    for image in range(many):
                        for e in range(E):
                            taps[column + image * outputs + e] = (image * H * W + h * W + w) * E + e
                    column += many * outputs
                to += high * many * outputs
    return taps


@helper
def add_taps(values, sums, totals, count, taps, apart, high, wide):
    """The sums over `count` windows, down their columns, of `high` elements, and then along these."""
    many, tap = np.uintp(count), np.uintp(0)
    for w in range(wide):
        for i in range(many):
            sums[i] = values[np.uintp(taps[tap + i])]
        tap += np.uintp(apart)
        for _ in range(1, high):
            for i in range(many):
                sums[i] += values[np.uintp(taps[tap + i])]
            tap += np.uintp(apart)
        if w == 0:
            for i in range(many):
                totals[i] = sums[i]
        else:
            for i in range(many):
                totals[i] += sums[i]


@worker
def norm_images(lo, hi, x, y, p, least, most, exact, g):
    """Planes [lo, hi), or images in channels-last memory, each of one slice; the rest is as of `lp.norm_rows`."""
    E = g[CHANNELS] if g[LAST] else 1
    P, outputs = g[HEIGHT] * g[WIDTH] * E, g[OUT_H] * g[OUT_W] * E
    many = max(1, min(TOGETHER // P, hi - lo))
    taps = list_taps(many, g)
    values, totals = np.ones(whole_turns(many * P) + ROUND), np.ones(whole_turns(many * outputs) + ROUND)
    sums = np.empty(many * outputs)
    for first in range(lo, hi, many):
        count = min(many, hi - first)
        size = whole_turns(count * P)
        take(x, first * P, count * P, values, 0)
        strayed = strays(values, size, least, most)
        raise_all(values, 0, size, p, exact)
        values[many * P] = 0.0
        add_taps(values, sums, totals, count * outputs, taps, many * outputs, g[MOST_H], g[MOST_W])
        raise_all(totals, 0, whole_turns(count * outputs), np.divide(1.0, p), exact)
        give(totals, count * outputs, y, first * outputs)
        if strayed:
            mend_windows(first * g[OUT_H], (first + count) * g[OUT_H], x, y, p, least, most, g)
    return 0


@worker
def norm_gradient_images(lo, hi, grad, x, y, gx, p, least, most, exact, g):
    """Planes [lo, hi) of the gradient, or images in channels-last memory, each of one slice; the rest is as of
    `lp.norm_gradient_rows`.
    """
    E = g[CHANNELS] if g[LAST] else 1
    P, outputs = g[HEIGHT] * g[WIDTH] * E, g[OUT_H] * g[OUT_W] * E
    many = max(1, min(TOGETHER // max(P, outputs), hi - lo))
    taps = list_taps(many, g)
    room = whole_turns(many * P) + ROUND
    values, norms, up = np.ones(room), np.ones(room), np.ones(room)
    room = whole_turns(many * outputs) + ROUND
    totals, elements, powers, sums = np.ones(room), np.ones(room), np.ones(room), np.empty(room)
    for first in range(lo, hi, many):
        count = min(many, hi - first)
        size = whole_turns(count * P)
        take(y, first * P, count * P, norms, 0)
        take(grad, first * P, count * P, up, 0)
        strayed = share_out(values, norms, up, size, p, least, most, exact)
        values[many * P] = 0.0
        add_taps(values, sums, totals, count * outputs, taps, many * outputs, g[MOST_H], g[MOST_W])
        size = whole_turns(count * outputs)
        take(x, first * outputs, count * outputs, elements, 0)
        gather_up(powers, elements, totals, size, p, exact)
        give(powers, count * outputs, gx, first * outputs)
        if strayed:
            mend_elements(first * g[OUT_H], (first + count) * g[OUT_H], grad, x, y, gx, p, least, most, g)
    return 0
