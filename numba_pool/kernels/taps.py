"""Windows whose lanes are channels: in channels-last memory, and in images that `turned` makes of planes.

A program says which windows there are, and which elements they hold (see `_program`). Sixteen channels at a time, the
elements of a window are taken one after the other; those of a large window by several programs (see `_stages`).
"""

import numpy as np
from numba import types

from ..simd import (
    LANES,
    LINE,
    fence,
    infinite_lanes,
    is_counted,
    memory,
    misaligned,
    nine_numbers,
    number,
    pool_run,
    wide_registers,
)
from ._asking import AHEAD, ASKED_LATE
from ._compile import by_types, copied, helper, worker
from ._job import COUNTS, FLOAT32, INSIDE, Call, Windows
from ._program import COLUMNS, HEADER, MOST_TAPS, ROW, ROW_AT, ROW_LISTS, ROW_TAPS, ROW_WIDTH, ROWS, RUN
from ._reductions import beside, divisor_of, nothing, numbers, shared
from ._stages import STAGE_AT, STAGE_MADE, STAGE_ROWS, bands_of, stages_of
from ._staging import begins_line, streams

BAND = 192 << 10  # bytes of a band: half of a small second cache
MOST_CHANNELS, LEAST_CHANNELS = 512, 64  # that are walked together; at least, where threads share channels
MOST_BETWEEN = 2  # elements of a plane for each that a window takes, where memory is asked for ahead
FEW_TAPS = 4  # of windows that are light work
SHIFTED_CHANNELS, SHIFTED_TAPS = 48, 4  # from which on it pays to begin with a cache line
FEW_UNITS = 16  # units of work: where there are fewer, channels are shared among threads


def plan(job: Windows) -> Call | None:
    """Sixteen channels last or more."""
    if not job.last or job.channels < LANES or not job.outputs or not job.images or job.taps > MOST_TAPS:
        return None
    C, stages, (depth, height, _) = job.channels, stages_of(job), job.axes
    shared = min(C // LEAST_CHANNELS, -(-FEW_UNITS // (job.images * depth.n * height.n)))
    groups = max(-(-C // MOST_CHANNELS), shared)
    wide = -(-C // (groups * LANES)) * LANES if groups > 1 else C
    bands = bands_of(job, stages, most_elements(job, wide), wide == C)
    units, one = job.images * -(-C // wide) * len(bands.bands), several(stages)
    # A load that straddles two cache lines takes twice as long, and NumPy's large arrays begin 16 bytes behind a line.
    # Registers that are as wide as a line straddle at every load, narrower ones at every second or fourth.
    shifted = True if wide_registers() and C % LANES == 0 and C >= SHIFTED_CHANNELS and wide == C else None
    extra = one, None if one or job.section else asked_for(job), shifted, C, wide, job.size, job.outputs
    light = not job.gradient and job.most <= FEW_TAPS
    return job.made(window_taps, units, (*bands, *extra), job.additions, light)


def asked_for(job):
    """What a walk asks for ahead of itself: (elements ahead, elements for each window, cache lines for each vector of
    results). None for arrays that are not large, and for windows with much between them that nobody reads: to ask for
    that would take far longer than to pool.
    """
    if job.read < ASKED_LATE or job.size > MOST_BETWEEN * job.taps * job.outputs:
        return None
    depth, height, width = job.axes
    rows = (depth.most - 1) * depth.step * height.size + (height.most - 1) * height.step + 1  # that a window spans
    lines = -(-job.size * LANES * job.dtype.itemsize // (job.outputs * LINE))
    return rows * width.size * job.channels + AHEAD, job.size * job.channels // job.outputs, lines


def several(stages):
    """An argument of walks, whose type says whether there are several stages: None if there is one. So a call of one
    stage compiles nothing for several.
    """
    return True if len(stages) > 1 else None


def most_elements(job: Windows, wide: int) -> int:
    """How many elements of one plane, or one channel, a band takes, if `wide` of them are walked together."""
    return max(BAND // (wide * max(job.dtype.itemsize, FLOAT32)), 1)


def rows_of_program(lo, hi, program, start, x, carried, y, index, begin, sizes, by, ask, lead, none, top):
    """Run the program that stands at `start` for rows [lo, hi) of windows. All arrays are given by their memory.

    `begin` is where pixel 0 of the plane begins in x, and window 0 of the plane in y and `index`, in elements. `sizes`
    are how many elements the next pixel is further on in x, and the next window in y and `index`, and how many channels
    are walked, sixteen or more. `carried` is None, or has the indices of what stands in x, as the stage before left it.
    `by` is what `shared` returns. `ask` is None; for large arrays it is what `asked_for` returns, and whether to store
    past the caches. `lead` is None, or what `lead_to_line` returns. Returns the larger of `top` and all maxima, lane by
    lane.
    """
    columns, rows = number(program, start + COLUMNS), number(program, start + ROWS)
    (at_image, at_result), (E, F, C), (divisor, reciprocal) = begin, sizes, by
    for run in range(start + HEADER, rows, RUN):
        column, out, count, step, apart, wide, behind, taps, across = nine_numbers(program, run)
        for row in range(lo, hi):
            at_row = rows + row * ROW
            spot, first = column + number(program, at_row + ROW_AT), behind + number(program, at_row + ROW_LISTS)
            share = share_of(x, carried, divisor, reciprocal, across, number(program, at_row + ROW_WIDTH))
            places = at_image + spot * E, at_result + (row * columns + out) * F, spot
            top = pool_run(x, carried, y, index, places, (step * E, apart * F, step), (count, wide * C, E), program,
                           first, nine_numbers(program, first), (number(program, at_row + ROW_TAPS), taps), share,
                           reciprocal, asked_from(ask, at_image, row * columns + out, apart),
                           lead_for(lead, taps * number(program, at_row + ROW_TAPS)), none, top)
    return top


def share_of(x, carried, divisor, pair, across, down):
    """What `pool_run` takes as `by`, for windows whose columns contribute `across` to the divisor, and rows `down`."""


@by_types(share_of)
def _share_of(x, carried, divisor, pair, across, down):
    if isinstance(divisor, types.NoneType) or not (is_counted(x) or not isinstance(carried, types.NoneType)):
        return lambda x, carried, divisor, pair, across, down: divisor_of(divisor, across * down)

    as_number = np.float32 if divisor == types.float32 else np.float64

    def uncounted(x, carried, divisor, pair, across, down):
        inside = (across >> INSIDE) * (down >> INSIDE)
        return divisor + pair[0] * as_number((across & COUNTS) * (down & COUNTS) - inside)

    return uncounted


def lead_to_line(shifted, x):
    """With which lane a walk begins, so that its second vector, and all behind it, begin with a cache line; None if
    `shifted` is None. The first vector and the last reach over others then.
    """


@by_types(lead_to_line)
def _lead_to_line(shifted, x):
    if isinstance(shifted, types.NoneType):
        return lambda shifted, x: None
    return lambda shifted, x: -misaligned(x, 0)


def lead_for(lead, taps):
    """The `lead` of windows of so many taps: 0 for few, which do not gain."""


@by_types(lead_for)
def _lead_for(lead, taps):
    if isinstance(lead, types.NoneType):
        return lambda lead, taps: None
    return lambda lead, taps: lead if taps >= SHIFTED_TAPS else 0


def asked_from(ask, at_image, window, apart):
    """Where `pool_run` begins to ask for memory, of a run that begins with this window of a plane."""


@by_types(asked_from)
def _asked_from(ask, at_image, window, apart):
    if isinstance(ask, types.NoneType):
        return lambda ask, at_image, window, apart: None
    return lambda ask, at_image, window, apart: (at_image + ask[0] + window * ask[1], apart * ask[1], ask[2], ask[3])


pool_rows, pool_rows_here = helper(rows_of_program), copied(rows_of_program)


def with_past(ask, x, y, index, C):
    """What walks of C channels take as `ask`."""


@by_types(with_past)
def _with_past(ask, x, y, index, C):
    if isinstance(ask, types.NoneType):
        return lambda ask, x, y, index, C: None

    def whole_lines(ask, x, y, index, C):
        return ask[0], ask[1], ask[2], streams(y, x, index) and C % LANES == 0 and begins_line(y, index)

    return whole_lines


def undivided(divisors):
    """What `shared` returns for sums that are not divided yet."""


@by_types(undivided)
def _undivided(divisors):
    if isinstance(divisors, types.NoneType):
        return lambda divisors: (None, None)
    one, zero = divisors.dtype(1), divisors.dtype(0)
    return lambda divisors: (one, (one, zero))


def room_between(several, x, index, divisors, stages, wide):
    """Two arrays for what is between stages, of `wide` channels, and two for its indices or counts; None for a single
    stage. Each has room for what any stage writes of a band. By turns a stage reads one of the two, and writes the
    other.
    """


@by_types(room_between)
def _room_between(several, x, index, divisors, stages, wide):
    if isinstance(several, types.NoneType):
        return lambda several, x, index, divisors, stages, wide: None

    def room(several, x, index, divisors, stages, wide):
        most = 0
        for stage in range(stages.shape[0] - 1):
            size = stages[stage, STAGE_ROWS] * stages[stage, STAGE_MADE] * wide
            if size > most:
                most = size
        more = most if stages.shape[0] > 2 else 0
        places, more_places = beside(index, x, divisors, most), beside(index, x, divisors, more)
        return numbers(x, divisors, most), numbers(x, divisors, more), places, more_places

    return room


def pool_band(band, programs, stages, x, carried, y, index, room, begin, sizes, divisors, by, none, top):
    """Run the stages of one band, with `room` between them; None if there is one stage. `band` is its row of the table
    `Bands.bands`. `begin` and `sizes` are what `pool_rows` takes: for x of the first stage, and for y of the last one.
    So are `carried`, of the first, and `by`, of the last. Returns what that returns.
    """


@by_types(pool_band)
def _pool_band(band, programs, stages, x, carried, y, index, room, begin, sizes, divisors, by, none, top):
    if not isinstance(room, types.NoneType):
        return pool_stages

    def one(band, programs, stages, x, carried, y, index, room, begin, sizes, divisors, by, none, top):
        return pool_rows(band[2], band[2] + band[3], memory(programs), stages[0, STAGE_AT], x, carried, y, index, begin,
                         sizes, by, None, None, none, top)

    return one


def pool_stages(band, programs, stages, x, carried, y, index, room, begin, sizes, divisors, by, none, top):
    a, b, places, more_places = memory(room[0]), memory(room[1]), memory(room[2]), memory(room[3])
    # The arrays between stages hold the rows of this band alone: row `first` of the plane stands at their beginning.
    (at, to), (E, F, wide), last, table = begin, sizes, stages.shape[0] - 1, memory(programs)
    first, count, made = band[2], band[3], stages[0, STAGE_MADE] * wide
    top = pool_rows(first, first + count, table, stages[0, STAGE_AT], x, carried, a, places, (at, -first * made),
                    (E, wide, wide), undivided(divisors), None, None, none, top)
    for stage in range(1, last):
        read = -first * made
        first, count, made = band[2 + 2 * stage], band[3 + 2 * stage], stages[stage, STAGE_MADE] * wide
        top = pool_rows(first, first + count, table, stages[stage, STAGE_AT], a, places, b, more_places,
                        (read, -first * made), (wide, wide, wide), undivided(divisors), None, None, none, top)
        a, b, places, more_places = b, a, more_places, places
    read, first, count = -first * made, band[2 + 2 * last], band[3 + 2 * last]
    return pool_rows(first, first + count, table, stages[last, STAGE_AT], a, places, y, index, (read, to),
                     (wide, F, wide), by, None, None, none, top)


@worker
def window_taps(lo, hi, x, y, index, divisors, programs, stages, bands, several, ask, shifted, C, wide, P, O):
    """Units [lo, hi): bands of `wide` channels, counted through all C channels and all images. The last channels of an
    image are `wide` as well: they reach back over those before them. An image has P pixels, and O windows.
    """
    none, many, groups = nothing(x, divisors), bands.shape[0], (C + wide - 1) // wide
    room, top = room_between(several, x, index, divisors, stages, wide), none
    large, lead = with_past(ask, x, y, index, C), lead_to_line(shifted, x)
    for unit in range(lo, hi):
        image, channel = unit // (many * groups), unit // many % groups * wide
        if channel > C - wide:
            channel = C - wide
        band, begin = bands[unit % many], (image * P * C + channel, image * O * C + channel)
        if several is None:
            top = pool_rows_here(band[2], band[2] + band[3], memory(programs), stages[0, STAGE_AT], memory(x), None,
                                 memory(y), memory(index), begin, (C, C, wide), shared(divisors), large, lead, none,
                                 top)
        else:
            top = pool_band(band, programs, stages, memory(x), None, memory(y), memory(index), room, begin,
                            (C, C, wide), divisors, shared(divisors), none, top)
    if ask is not None:
        fence()
    return infinite_lanes(top)
