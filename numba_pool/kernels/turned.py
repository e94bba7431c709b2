"""Windows of many planes in channels-first memory: planes are turned into the channels of an image.

What a band of 32 planes reads (see `_stages`) becomes an image with 32 channels, which stays in the second cache. It is
walked as channels-last memory is. So no lane is idle, however short the rows are. Then the results are turned back into
planes. Planes are always taken 32 at a time: the last 32 reach back over those before them.
"""

import numpy as np

from ..simd import (
    LANES,
    at_least,
    at_most,
    convert,
    empty,
    infinite_lanes,
    lanes_inside,
    load_some,
    memory,
    memory_as,
    prefetch,
    splat,
    store_some,
    transpose,
    wide_registers,
)
from ._asking import ASKED, asks
from ._compile import helper, worker
from ._job import Call, Windows
from ._lanes import FIRST_TAPS
from ._program import MOST_TAPS
from ._reductions import GROUP, nothing, shared
from ._stages import STAGE_MADE, STAGE_READ, STAGE_ROWS, bands_of, stages_of
from .taps import most_elements, pool_band, room_between, several

BEGIN = np.int64(0)  # not a literal 0, for which Numba would compile a helper once more
MANY_TAPS = 36  # of a window, above which `steps` would load elements too often
MOST_TURNED = 1 << 12  # elements of a plane, above which windows of two columns had better be picked out of rows


def plan_first(job: Windows) -> Call | None:
    """Planes that are turned although `strips` or `steps` could serve them. Where registers are narrower than a vector,
    these are all: lanes are picked slowly there. But windows of two columns that share no element are picked quickly,
    and long rows of them in large planes take 0.7 to 0.95 of the time by rows. With wide registers these are windows of
    many elements, which take 0.35 to 0.9 of the time, and those of one long row with indices: 0.75 to 0.9.
    """
    width = job.axes[2] if not job.last and job.outputs else None
    if width is None:
        return None
    if wide_registers():
        one_row = job.indexed and job.taps == width.longest > FIRST_TAPS
        return plan(job) if job.taps > MANY_TAPS or one_row else None
    picked = not job.gradient and width.stride >= 2 >= width.longest and job.size > MOST_TURNED
    return None if picked else plan(job)


def plan(job: Windows) -> Call | None:
    """Sixteen planes or more, of sixteen elements or more. Of fewer than 32 planes, 16 are taken at a time."""
    if job.last or job.planes < LANES or job.size < LANES or not job.outputs or job.taps > MOST_TAPS:
        return None
    wide, stages = GROUP if job.planes >= GROUP else LANES, stages_of(job)
    bands = bands_of(job, stages, most_elements(job, wide))
    extra = several(stages), job.planes, wide, job.size, job.outputs
    return job.made(turned_taps, -(-job.planes // wide) * len(bands.bands), (*bands, *extra), job.additions)


@helper
def turn(source, at, pitch, target, to, stride, rows, columns, ahead):
    """Turn planes into the channels of an image, or back: target[to + c * stride + r] = source[at + r * pitch + c] for
    r below `rows` and c below `columns`. There are sixteen columns or more. If there are fewer rows, sixteen are read,
    whatever stands there. Ask for the memory `ahead` elements further on, unless that is 0. Both arrays are given by
    their memory.
    """
    part, wide = lanes_inside(0, rows), at_most(rows, columns)
    # Planes are few, and pixels many. All pixels of sixteen planes are turned, then those of the next: fewer places in
    # memory are written by turns.
    for i in range(0, wide, LANES):
        for j in range(0, at_least(rows, columns), LANES):
            row, column = i, j
            if wide < rows:
                row, column = j, i
            row, column = at_least(at_most(row, rows - LANES), 0), at_most(column, columns - LANES)
            begin = at + row * pitch + column
            for k in range(LANES if ahead else 0):
                prefetch(source, begin + k * pitch + ahead)
            transpose(source, begin, pitch, target, to + column * stride + row, stride, part)


# The same for rows, of which there may be few, or short ones.


@helper
def copy_rows(source, at, pitch, target, to, stride, rows, count):
    """target[to + r * stride + c] = source[at + r * pitch + c] for r below `rows` and c below `count`."""
    for row in range(rows):
        for c in range(0, count, LANES):
            m, i = lanes_inside(c, count), row * pitch + c
            v = load_some(source, at + i, m, splat(source, 0))
            store_some(target, to + row * stride + c, convert(target, v), m)


@helper
def turn_in(source, at, pitch, pixels, near, rows, count):
    """Make an image of 32 channels out of `rows` rows of `count` elements each."""
    high, wide = at_least(rows, LANES), at_least(count, LANES)
    if high > rows or wide > count:
        copy_rows(source, at, pitch, near, BEGIN, wide, rows, count)
        source, at, pitch = near, BEGIN, wide
    turn(source, at, pitch, pixels, BEGIN, np.int64(GROUP), high, wide, BEGIN)


@helper
def turn_out(results, near, target, to, stride, rows, count):
    """The other way round: `rows` rows of `count` elements each, out of an image."""
    if rows < LANES:
        turn(results, BEGIN, np.int64(GROUP), near, BEGIN, count, count, np.int64(LANES), BEGIN)
        copy_rows(near, BEGIN, count, target, to, stride, rows, count)
    else:
        turn(results, BEGIN, np.int64(GROUP), target, to, stride, count, rows, BEGIN)


@worker
def turned_taps(lo, hi, x, y, index, divisors, programs, stages, bands, several, planes, wide, P, O):
    """Units [lo, hi): bands of `wide` planes, counted through all planes. A plane has P elements, and O windows."""
    none, many, last = nothing(x, divisors), bands.shape[0], stages.shape[0] - 1
    row, made, most = stages[0, STAGE_READ], stages[last, STAGE_MADE], 0
    for band in range(many):
        if bands[band, 1] > most:
            most = bands[band, 1]
    pixels = empty(x, (most * row + LANES) * wide)
    results = empty(y, (stages[last, STAGE_ROWS] * made + LANES) * wide)
    found, room = empty(index, results.size), room_between(several, x, index, divisors, stages, wide)
    ahead, top = most * row if asks(x, ASKED) else BEGIN, none
    for unit in range(lo, hi):
        band, plane = bands[unit % many], unit // many * wide
        if plane > planes - wide:
            plane = planes - wide
        first, count, out, outs = band[0] * row, band[1] * row, band[2 + 2 * last] * made, band[3 + 2 * last] * made
        if count < LANES:  # `turn` takes no fewer, so some pixels before the band or behind it come along
            count = LANES
        if first > P - count:
            first = P - count
        # The image has the pixels of this band alone, so pixel 0 of the plane would lie before it; so do the results.
        turn(memory(x), plane * P + first, P, memory(pixels), BEGIN, wide, wide, count, ahead)
        begin = -first * wide, -out * wide
        top = pool_band(band, programs, stages, memory(pixels), None, memory(results), memory(found), room, begin,
                        (wide, wide, wide), divisors, shared(divisors), none, top)
        out += plane * O
        turn(memory(results), BEGIN, wide, memory(y), out, O, outs, wide, BEGIN)
        if index is not None:
            turn(memory_as(found, y), BEGIN, wide, memory_as(index, y), out, O, outs, wide, BEGIN)
    return infinite_lanes(top)
