"""Windows of many small planes in channels-first memory: 32 planes at a time become the channels of an image.

The image fits the second cache. It is walked as channels-last memory is, so that no lane is idle, however short the
rows are. Then the results are turned back into planes. There are at least 32 planes, of at least 16 elements. The last
group of 32 planes reaches back over the group before it, so that every group is whole.
"""

import numpy as np

from .._windows import CHANNELS, DEPTH, HEIGHT, OUT_D, OUT_H, OUT_W, PLANES, TAPS, WIDTH
from ..simd import LANES, lanes_inside, prefetch, transpose, wide_registers
from ._asking import ASKED, asks
from ._compile import helper, worker
from ._job import Call, Windows
from ._lanes import FIRST_TAPS, by_rows
from ._reductions import GROUP, room_for_indices
from .lines import line_rows, room_for_lines, way_of
from .taps import tap_lists, tap_rows

# Taps of a window, up to which it is reduced tap by tap; the second number is for maxima where registers are narrower
# than a vector.
FEW_TAPS, FEW_TAPS_NARROWER = 12, 49
MOST_TURNED = 1 << 12  # elements of a plane, its results and indices, up to which `turned` says yes
MANY_TAPS = 36  # taps of a window, above which planes had better be turned, if `steps` loaded an element more often:
MOST_LOADS, MOST_LOADS_ALONE = 4, 8  # the second number is for maxima without indices
LONG_RUN = 4  # alike windows side by side, from which on `pixel_block` is worth its start


def turned(job):
    """Whether to turn planes into channels although `steps` could serve them. That pays where registers are narrower
    than a vector, and 32 planes with their results stay in the second cache.

    With AVX2, 3x3/2 maxima with indices of 40x40 planes take 2.5 times as long by rows, 2x2/2 1.9 times.
    """
    results = 2 * job.outputs if job.indexed else job.outputs
    return (not job.last and not wide_registers() and job.planes >= GROUP and job.size >= LANES
            and job.taps <= FEW_TAPS_NARROWER and 0 < results <= MOST_TURNED - job.size)


def small(job):
    """Whether planes are many and small, with short rows of results."""
    return job.ask(turned) or (not job.last and job.planes >= GROUP and 16 <= job.size <= 1024 >= job.outputs > 0
                               and len(job.axes[2].start) <= 20)


def plan_first(job: Windows) -> Call | None:
    """Many small planes that are turned into channels although `strips` or `steps` could serve them: all where
    registers are narrower than a vector, and windows of one row of more than five columns, with indices.

    The first kind is twice as fast turned (see `turned`), the second takes 0.75 to 0.9 of the time for most dtypes.
    """
    if job.last or job.planes < GROUP:
        return None
    one_row = job.indexed and job.taps == job.axes[2].longest > FIRST_TAPS
    return plan_of(job) if job.ask(turned) or (one_row and job.ask(small)) else None


def plan_large(job: Windows) -> Call | None:
    """Many small planes that are turned into channels although `steps` could serve them: windows of more than 36
    elements for which `steps` would load each element many times. They take 0.35 to 0.9 of the time.
    """
    large = not job.last and job.planes >= GROUP and job.taps > MANY_TAPS
    return plan_of(job) if large and job.ask(small) and is_long_by_steps(job) else None


def is_long_by_steps(job):
    """Whether `steps` takes longer for these windows than to turn planes. A step loads two vectors for each row of its
    windows.
    """
    lanes = job.ask(by_rows)
    if lanes is None or not wide_registers():
        return True
    depth, height, width = job.axes
    steps = depth.n * height.n * -(-width.n // lanes.outputs)
    most = MOST_LOADS if job.summed or job.indexed else MOST_LOADS_ALONE
    return steps * depth.longest * height.longest * 2 * LANES > most * job.size


def plan(job: Windows) -> Call | None:
    """32 or more planes of up to 1024 elements, with rows of up to 20 outputs, turned into channels."""
    return plan_of(job) if job.ask(small) else None


def plan_of(job):
    """The call of one of two walks: tap by tap for small windows, and else by lines. In registers narrower than a
    vector, maxima of up to 49 elements go tap by tap as well, unless windows have much in common.
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
    # Where elements are by turns in one window and in two, as with 3x3/2, few neighbours are alike, and tap by tap
    # takes 1.7 times as long in narrow registers.
    alike = wide_registers() or job.axes[2].neighbours.max(initial=0) >= LONG_RUN
    return group_call(job, planes_by_taps if alike and job.taps <= FEW_TAPS else planes_by_lines)


@helper
def image_of(x, y, index, g):
    """The table of an image of 32 planes, and memory for the image, for its results and for their indices."""
    P, O = g[DEPTH] * g[HEIGHT] * g[WIDTH], g[OUT_D] * g[OUT_H] * g[OUT_W]
    image, results = g.copy(), max(O, LANES) * GROUP
    image[CHANNELS] = GROUP
    return image, np.empty(P * GROUP, x.dtype), np.empty(results, y.dtype), room_for_indices(index, results)


@helper
def turn(x, group, pixels, g):
    """Turn a group of planes into an image, `pixels`. Returns the number of the group's first plane."""
    P, whole = g[DEPTH] * g[HEIGHT] * g[WIDTH], lanes_inside(0, LANES)
    first = min(group * GROUP, g[PLANES] - GROUP)
    for i in range(first * P, (first + GROUP) * P if asks(x, ASKED) else 0, 64 // x.itemsize):
        prefetch(x, i)
    for half in range(0, GROUP, LANES):
        for i in range(0, P, LANES):
            spot = min(i, P - LANES)
            transpose(x, (first + half) * P + spot, P, pixels, spot * GROUP + half, GROUP, whole)
    return first


@helper
def turn_back(result, result_index, first, y, index, g):
    """Turn the results of an image, and their indices unless these are None, into planes from number `first` on."""
    planes_from(result, first, y, g)
    if index is not None:
        planes_from(result_index, first, index, g)


@helper
def planes_from(result, first, y, g):
    """Turn the numbers of an image into planes from number `first` on."""
    O = g[OUT_D] * g[OUT_H] * g[OUT_W]
    part = lanes_inside(0, O)
    for half in range(0, GROUP, LANES):
        for i in range(0, O, LANES):
            spot = max(min(i, O - LANES), 0)
            transpose(result, spot * GROUP + half, GROUP, y, (first + half) * O + spot, O, part)


@worker
def planes_by_taps(lo, hi, x, y, index, divisors, g):
    """Groups [lo, hi) of 32 planes. Each becomes an image, whose windows are reduced as by `window_taps`."""
    image, pixels, result, result_index = image_of(x, y, index, g)
    places, hops = tap_lists(g[TAPS])
    found = 0
    for group in range(lo, hi):
        first = turn(x, group, pixels, g)
        found += tap_rows(0, g[OUT_D] * g[OUT_H], pixels, result, result_index, divisors, hops, places, image)
        turn_back(result, result_index, first, y, index, g)
    return found


@worker
def planes_by_lines(lo, hi, x, y, index, divisors, way, g):
    """Groups [lo, hi) of 32 planes. Each becomes an image, whose windows are reduced as by `window_lines`."""
    image, pixels, result, result_index = image_of(x, y, index, g)
    room = room_for_lines(x, y, index, divisors, way, g)
    found = 0
    for group in range(lo, hi):
        first = turn(x, group, pixels, g)
        found += line_rows(0, g[OUT_D] * g[OUT_H], pixels, result, result_index, divisors, way, image, room)
        turn_back(result, result_index, first, y, index, g)
    return found
