"""Windows of small planes in channels-first memory, which become the channels of an image.

The image of 32 planes fits the second cache. In it no lane is idle however short the rows are; the results are turned
back. The last group of planes reaches back so that it is whole: there are at least 32 planes, of at least 16 elements.
"""

import numpy as np

from .._geometry import CHANNELS, DEPTH, HEIGHT, OUT_D, OUT_H, OUT_W, PLANES, TAPS, WIDTH
from ..simd import LANES, lanes_inside, prefetch, transpose
from ._asking import ASKED, asks
from ._compile import helper, worker
from ._reductions import GROUP, numbers, room_for_indices
from .bands import band_rows, band_size
from .pixels import pixel_rows, tap_lists
from .separable import room_for_rows, separable_rows


@helper
def image_of(x, y, index, g):
    """The geometry of an image of 32 planes, and memory for it, its results and their indices."""
    P, O = g[DEPTH] * g[HEIGHT] * g[WIDTH], g[OUT_D] * g[OUT_H] * g[OUT_W]
    image, results = g.copy(), max(O, LANES) * GROUP
    image[CHANNELS] = GROUP
    return image, np.empty(P * GROUP, x.dtype), np.empty(results, y.dtype), room_for_indices(index, results)


@helper
def turn(x, group, tile, g):
    """A group of planes into an image. Returns which plane is the first."""
    P, whole = g[DEPTH] * g[HEIGHT] * g[WIDTH], lanes_inside(0, LANES)
    first = min(group * GROUP, g[PLANES] - GROUP)
    for i in range(first * P, (first + GROUP) * P if asks(x, ASKED) else 0, 64 // x.itemsize):
        prefetch(x, i)
    for half in range(0, GROUP, LANES):
        for i in range(0, P, LANES):
            spot = min(i, P - LANES)
            transpose(x, (first + half) * P + spot, P, tile, spot * GROUP + half, GROUP, whole)
    return first


@helper
def turn_back(result, result_index, first, y, index, g):
    """The results of an image, and their indices unless they are None, into planes from `first` on."""
    planes_from(result, first, y, g)
    if index is not None:
        planes_from(result_index, first, index, g)


@helper
def planes_from(result, first, y, g):
    """Numbers of an image into planes from `first` on."""
    O = g[OUT_D] * g[OUT_H] * g[OUT_W]
    part = lanes_inside(0, O)
    for half in range(0, GROUP, LANES):
        for i in range(0, O, LANES):
            spot = max(min(i, O - LANES), 0)
            transpose(result, spot * GROUP + half, GROUP, y, (first + half) * O + spot, O, part)


@worker
def planes_by_taps(lo, hi, x, y, index, divisors, g):
    """Groups [lo, hi) of 32 planes, whose windows are reduced tap by tap, as by `window_pixels`."""
    image, tile, result, result_index = image_of(x, y, index, g)
    places, hops = tap_lists(g[TAPS])
    scratch = places, hops, result[:0], places[:0]  # nothing is streamed
    for group in range(lo, hi):
        first = turn(x, group, tile, g)
        pixel_rows(0, g[OUT_D] * g[OUT_H], tile, result, result_index, divisors, scratch, image)
        turn_back(result, result_index, first, y, index, g)
    return 0


@worker
def planes_by_bands(lo, hi, x, y, index, divisors, g):
    """Groups [lo, hi) of 32 planes, whose averages are made as by `window_bands`."""
    image, tile, result, result_index = image_of(x, y, index, g)
    _, _, _, pixels = band_size(divisors, g)
    values = numbers(x, divisors, pixels * GROUP)
    for group in range(lo, hi):
        first = turn(x, group, tile, g)
        band_rows(0, g[OUT_D] * g[OUT_H], tile, result, result_index, divisors, image, values, None)
        turn_back(result, result_index, first, y, index, g)
    return 0


@worker
def planes_separable(lo, hi, x, y, index, divisors, g):
    """Groups [lo, hi) of 32 planes, whose maxima are found as by `window_separable`."""
    image, tile, result, result_index = image_of(x, y, index, g)
    room = room_for_rows(x, index, g)
    for group in range(lo, hi):
        first = turn(x, group, tile, g)
        separable_rows(0, g[OUT_D] * g[OUT_H], tile, result, result_index, divisors, image, room)
        turn_back(result, result_index, first, y, index, g)
    return 0
