"""Windows of small planes in channels-first memory, which become the channels of an image.

The image of 32 planes fits the second cache. In it no lane is idle however short the rows are; the results are turned
back. The last group of planes reaches back so that it is whole: there are at least 32 planes, of at least 16 elements.
"""

import numpy as np

from .._windows import CHANNELS, DEPTH, HEIGHT, OUT_D, OUT_H, OUT_W, PLANES, TAPS, WIDTH
from ..simd import LANES, lanes_inside, prefetch, transpose, wide_registers
from ._asking import ASKED, asks
from ._compile import helper, worker
from ._job import Call, Windows
from ._lanes import FIRST_TAPS
from ._reductions import GROUP, room_for_indices
from .lines import line_rows, room_for_lines, way_of
from .taps import tap_lists, tap_rows

# Taps, up to which windows are reduced tap by tap; where registers are narrower than a vector, of maxima.
FEW_TAPS, FEW_TAPS_NARROWER = 12, 49
MOST_TURNED = 1 << 12  # elements of planes and their results, up to which even windows that rows serve are turned
MANY_TAPS = 49  # of a maximum, more than which are not picked out of rows
LONG_RUN = 4  # windows in a row that are alike, so many that they are worth a call


def turned(job):
    """Whether to make channels even of planes whose windows could be picked out of rows, of so many elements, and of
    elements of their results: where registers are narrower than a vector, and 32 planes stay in the second cache.

    By rows 3x3/2 of 40x40 planes with indices takes 2.5 times as long there, its average twice; 2x2/2 1.9
    and 1.6 times.
    """
    results = 2 * job.outputs if job.indexed else job.outputs
    return (not job.last and not wide_registers() and job.planes >= GROUP and job.size >= LANES
            and job.taps <= FEW_TAPS_NARROWER and 0 < results <= MOST_TURNED - job.size)


def small(job):
    """Whether planes are many and small, and rows of the result short."""
    return job.ask(turned) or (not job.last and job.planes >= GROUP and 16 <= job.size <= 1024 >= job.outputs > 0
                               and len(job.axes[2].start) <= 20)


def plan_first(job: Windows) -> Call | None:
    """Many small planes turned into channels, before what goes by rows: where registers are narrower than a vector, and
    windows of one long row with indices, or maxima of more than 49 elements.

    1x7 of 17x17 planes takes 1.1 to 1.3 times as long by `window_strips` as tap by tap, of any dtype but float32
    (0.84), which nothing here knows. Windows of many elements take 0.45 to 1 of the time as planes with indices, 0.75
    to 1.05 without, 7x7 up to 1.3.
    """
    if job.last or job.planes < GROUP:
        return None
    one_row = job.indexed and job.taps == job.axes[2].longest > FIRST_TAPS
    large = one_row or (not job.summed and job.taps > MANY_TAPS)
    return plan_of(job) if job.ask(turned) or (large and job.ask(small)) else None


def plan(job: Windows) -> Call | None:
    """32 or more planes of up to 1024 elements, with rows of up to 20 outputs, turned into channels."""
    return plan_of(job) if job.ask(small) else None


def plan_of(job):
    """By the walk that serves these windows. In registers narrower than a vector maxima of 13 to 49 elements take 0.85
    to 1.65 of the time tap by tap if they have little in common.
    """
    narrower = not wide_registers() and not job.summed and not job.much_in_common
    by_taps = job.taps <= (FEW_TAPS_NARROWER if narrower else FEW_TAPS)
    return group_call(job, planes_by_taps if by_taps else planes_by_lines)


def group_call(job, worker):
    extra = ()
    if worker is planes_by_lines:
        extra = way_of(job, GROUP),
    return job.call(worker, -(-job.planes // GROUP), extra)


def plan_gradient_first(job: Windows) -> Call | None:
    """Gradients of many small planes turned into channels where registers are narrower than a vector."""
    return gradient_plan(job) if job.ask(turned) else None


def plan_gradient(job: Windows) -> Call | None:
    """Gradients of 32 or more small planes turned into channels."""
    few = not job.last and job.planes >= GROUP and 16 <= job.size <= 1024 and job.outputs <= 2048
    return gradient_plan(job) if few else None


def gradient_plan(job):
    # Elements by turns in one window and in two make many calls: 3x3/2 of 13x13 planes takes 1.7 times as long.
    alike = wide_registers() or job.axes[2].neighbours.max(initial=0) >= LONG_RUN
    return group_call(job, planes_by_taps if alike and job.taps <= FEW_TAPS else planes_by_lines)


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
    """Groups [lo, hi) of 32 planes, whose windows are reduced tap by tap, as by `window_taps`."""
    image, tile, result, result_index = image_of(x, y, index, g)
    places, hops = tap_lists(g[TAPS])
    for group in range(lo, hi):
        first = turn(x, group, tile, g)
        tap_rows(0, g[OUT_D] * g[OUT_H], tile, result, result_index, divisors, hops, places, image)
        turn_back(result, result_index, first, y, index, g)
    return 0


@worker
def planes_by_lines(lo, hi, x, y, index, divisors, way, g):
    """Groups [lo, hi) of 32 planes, whose windows are reduced line by line, as by `window_lines`."""
    image, tile, result, result_index = image_of(x, y, index, g)
    room = room_for_lines(x, y, index, divisors, way, g)
    for group in range(lo, hi):
        first = turn(x, group, tile, g)
        line_rows(0, g[OUT_D] * g[OUT_H], tile, result, result_index, divisors, way, image, room)
        turn_back(result, result_index, first, y, index, g)
    return 0
