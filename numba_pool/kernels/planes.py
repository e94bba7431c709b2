"""Windows of small planes in channels-first memory, which become the channels of an image."""

import numpy as np

from .._geometry import CHANNELS, DEPTH, HEIGHT, OUT_D, OUT_H, OUT_W, PLANES, TAPS, WIDTH
from ._asking import ASKED, asks
from ._compile import worker
from ._reductions import GROUP, numbers
from ._vectors import LANES, lanes_inside, prefetch, transpose
from .bands import band_rows, band_size
from .pixels import pixel_rows, tap_lists


@worker
def window_planes(lo, hi, x, y, index, divisors, g):
    """Groups [lo, hi) of 32 small planes in channels-first memory. The planes are turned into the channels of an image
    that fits the second cache, where no lane is idle however short the rows are, and the results are turned back. The
    last group reaches back so that it is whole; there are at least 32 planes, of at least 16 elements.
    """
    planes = g[PLANES]
    P, O = g[DEPTH] * g[HEIGHT] * g[WIDTH], g[OUT_D] * g[OUT_H] * g[OUT_W]
    rows = g[OUT_D] * g[OUT_H]
    image = g.copy()
    image[CHANNELS] = GROUP
    tile = np.empty(P * GROUP, x.dtype)
    result = np.empty(max(O, LANES) * GROUP, y.dtype)
    result_index = np.empty(max(O, LANES) * GROUP if index is not None else 0, np.int32)
    whole, part = lanes_inside(0, LANES), lanes_inside(0, O)
    few = g[TAPS] <= 12  # tap by tap, or rows first: by measurement
    places, hops = tap_lists(g[TAPS] if few else 0)
    stage, stage_index = np.empty_like(y[:0]), np.empty(0, np.int32)  # nothing is streamed
    _, _, _, pixels = band_size(divisors, g)
    band = numbers(x, divisors, 0 if few else pixels * GROUP)
    band_places = np.empty(pixels * GROUP if index is not None and not few else 0, np.int32)
    for group in range(lo, hi):
        first = min(group * GROUP, planes - GROUP)
        for i in range(first * P, (first + GROUP) * P if asks(x, ASKED) else 0, 64 // x.itemsize):
            prefetch(x, i)
        for half in range(0, GROUP, LANES):
            for i in range(0, P, LANES):
                spot = min(i, P - LANES)
                transpose(x, (first + half) * P + spot, P, tile, spot * GROUP + half, GROUP, whole)
        if index is not None:
            if few:
                pixel_rows(0, rows, tile, result, result_index, divisors, image, places, hops, stage, stage_index)
            else:
                band_rows(0, rows, tile, result, result_index, divisors, image, band, band_places)
        elif few:
            pixel_rows(0, rows, tile, result, None, divisors, image, places, hops, stage, stage_index)
        else:
            band_rows(0, rows, tile, result, None, divisors, image, band, band_places)
        for half in range(0, GROUP, LANES):
            for i in range(0, O, LANES):
                spot = max(min(i, O - LANES), 0)
                transpose(result, spot * GROUP + half, GROUP, y, (first + half) * O + spot, O, part)
                if index is not None:
                    transpose(result_index, spot * GROUP + half, GROUP, index, (first + half) * O + spot, O, part)
    return 0
