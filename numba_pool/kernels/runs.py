"""Windows that are *runs*: each is one stretch of memory, as a whole plane is, or all columns of some rows."""

import numpy as np

from .._windows import DEPTH, HEIGHT, OUT_D, OUT_H, POINT, WIDTH
from ..simd import (
    LANES,
    MOST_ADDED,
    RECORDS,
    ZEROED,
    add,
    at_least,
    at_most,
    bits_of,
    convert,
    equal,
    even_lanes,
    first_among,
    first_bit,
    first_largest_tap,
    greater,
    indices,
    infinite_lanes,
    lanes_inside,
    largest_tap,
    load,
    load_some,
    memory,
    odd_lanes,
    overtakes,
    select,
    splat,
    store,
    store_some,
    sums_of_every,
    sums_of_lanes,
)
from ._asking import AHEAD, ASKED_LATE, FAR, ask, ask_near, asks
from ._compile import helper, inlined, worker
from ._job import Call, Windows
from ._program import MOST_TAPS
from ._reductions import (
    GROUP,
    averaged,
    begun,
    next_place,
    nothing,
    numbers,
    outside,
    place_of,
    run_of,
    shared,
)
from .pixel_runs import SPAN, average_pixel_runs, window_pixel_runs

# Elements of a run, from which on these kernels are faster than others: for averages; for maxima of rows that are
# shorter than a vector.
RUN, RUN_MAX = 256, 64
PART, MAXIMA_PART = 512, 1 << 12  # channels that are walked together: their sums, or maxima, stay in the first cache
# Elements of a window, all channels together: from `ALONE` on a single window is shared among threads; more than
# `MANY_ELEMENTS` do not fit the first cache.
ALONE, MANY_ELEMENTS = 1 << 16, 1 << 14
# The same as `RUN` if the window is the only one of a plane; and for averages, if the plane is a single row.
PLANE, ROW = 25, 10
FEW_IN_PLANE = 4  # elements of a plane that is one window, up to which other kernels find its maximum faster


def are_runs(job):
    """Whether each window is one stretch of memory: all columns, and either all rows of some slices, or some rows of
    one slice.
    """
    if not job.outputs:
        return False
    depth, height, width = job.axes
    if not width.is_whole:
        return False
    return bool(depth.step == 1 if height.is_whole else height.step == 1 and (depth.stop - depth.start).max() <= 1)


def plan_maxima(job: Windows) -> Call | None:
    """Maxima over runs, channels first: whole planes of more than 4 elements, rows of 16 columns or more, or runs of 64
    elements or more. Other kernels leave most lanes unused there: whole planes of 7x7 take 0.35 to 0.75 of their time,
    3x20 takes 0.15.
    """
    if job.summed or job.last or not job.ask(are_runs):
        return None
    if job.axes[2].size < LANES and job.taps < (FEW_IN_PLANE + 1 if job.outputs == 1 else RUN_MAX):
        return None
    return job.call(window_runs, job.planes * job.outputs, additions=0)


def is_long(job):
    """Whether each window is one stretch of memory (a run), and that is so long that the kernels of this file are
    faster than others: from `RUN` elements on, or from `PLANE` or `ROW` on if it is all there is of a plane.
    """
    least = RUN if job.outputs != 1 else ROW if job.summed and job.size == job.axes[2].size else PLANE
    return job.taps >= least and job.ask(are_runs)


def plan_averages(job: Windows) -> Call | None:
    """Averages over runs of 256 elements or more, or over whole planes of 25 or more, or over whole rows of 10 or more
    if a plane has no other rows.
    """
    if not job.summed or not is_long(job):
        return None
    return average_plan(job)


def plan_twice(job: Windows) -> Call | None:
    """Sums of such windows, from which elements are missing: a call for the sums, which is run once more for the
    counts. Sections have none.
    """
    if not job.counted or job.seen is None:
        return None
    seen = ZEROED[RECORDS.get(job.dtype.name, job.dtype)]
    plain = Windows(job.windows, job.shape, job.rank, job.last, "sum", job.dtype, 1, seen=seen)
    return plan_averages(plain) or plan_rows(plain)


def average_plan(job):
    added = -(-job.taps // LANES) + 3  # additions in a row: to one lane, then of the lanes among each other
    if not job.last:
        return job.call(average_runs, job.rows, additions=added)
    part = part_of(job, PART)
    return job.call(average_pixel_runs, job.rows * -(-job.channels // part), (part,), additions=added)


def plan_pixels(job: Windows) -> Call | None:
    """Maxima over runs of pixels in channels-last memory, with more than sixteen channels: windows that the first cache
    does not hold, and that have few elements in common. The array must fit the caches, or another kernel is faster.
    Planes of 56x56 with 256 channels take 0.55 of the time. And all runs that are too long to be listed.
    """
    if job.summed or not job.last or not is_long(job):
        return None
    if job.taps > MOST_TAPS:
        return pixel_plan(job)
    if not (job.channels > LANES and job.taps * job.channels >= MANY_ELEMENTS and job.nbytes < FAR
            and not job.much_in_common):
        return None
    return pixel_plan(job)


def pixel_plan(job):
    part = part_of(job, MAXIMA_PART)
    return job.call(window_pixel_runs, job.rows * -(-job.channels // part), (part,), additions=0)


LONG = 32  # elements of a part of a row, from which on it is walked as a run


def along_row(job):
    """The same windows seen as runs: if each window is a part of one row, every element of that row is taken for a row
    of one column. None where windows are no such parts, or are short, or share more than half of their elements.
    """
    depth, height, width = job.axes
    if not job.outputs or depth.size != 1 or len(depth.start) != 1 or width.step != 1 or height.longest != 1:
        return None
    if depth.is_empty or depth.widest > 1:  # the divisor counts padded slices
        return None
    if width.longest < LONG or (width.kernel > 2 * width.stride if width.stride else
                                 len(width.start) * width.longest > 2 * width.size):
        return None
    return job.along((height, width, POINT))


def plan_rows(job: Windows) -> Call | None:
    """Windows that are parts of one row, of 32 elements or more, most of which are in no other window."""
    turned = along_row(job) if job.taps >= LONG else None
    if turned is None:
        return None
    if turned.summed:
        return average_plan(turned)
    if turned.last:
        return pixel_plan(turned) if turned.channels > LANES else None
    return turned.call(window_runs, turned.planes * turned.outputs, additions=0)


def part_of(job, most):
    """How many channels of an output pixel are walked together, at most `most`. If there is only one large window, its
    channels are split into four parts, so that threads have something to share.
    """
    parts = -(-job.channels // most)
    if job.rows == 1 and job.taps * job.channels >= ALONE:
        parts = max(parts, min(4, job.channels // (2 * GROUP)), 1)
    return -(-job.channels // parts)


COMPARED = 4 * LANES  # elements of a run that are compared together


@inlined
def starts_of(long):
    """Where the four vectors of a step begin, in a run of at least one vector. In a run shorter than a step, the later
    vectors reach back over earlier ones: to meet an element twice changes no maximum.
    """
    last = at_most(long, COMPARED) - LANES
    return 0, at_most(LANES, last), at_most(2 * LANES, last), last


@inlined
def largest_of(x, at, long, per, line, none):
    """A vector, one of whose lanes is the maximum of the run that begins at x[at]; +inf if there is a NaN. Each step
    asks for the memory of `per` elements ahead.
    """
    if long < LANES:
        return largest_tap(x, at, (0,), lanes_inside(0, long), none)
    starts, last = starts_of(long), at + at_least(long - COMPARED, 0)
    best = largest_tap(x, last, starts, None, none)
    while at < last:
        ask(x, at + AHEAD, at + AHEAD + per, line, False)
        best = greater(largest_tap(x, at, starts, None, none), best)
        at += COMPARED
    return best


@inlined
def first_largest_of(x, at, long, none):
    """The same for a run of at most one step, with a second vector: which element of the run each lane is. Of equal
    elements it is the first.
    """
    if long < LANES:
        a, ia = first_largest_tap(x, at, (0,), (0,), lanes_inside(0, long), none)
    else:
        starts = starts_of(long)
        a, ia = first_largest_tap(x, at, starts, starts, None, none)
    return a, add(ia, indices(0, 1))


@inlined
def largest_steps_of(x, at, long, per, line, none):
    """The same for a run of at least one step, with a second vector: where in the run the step begins that each lane
    comes from. Of equal elements it is the first one's step.
    """
    starts, last = starts_of(long), long - COMPARED
    best, begins, step = largest_tap(x, at, starts, None, none), indices(0, 0), 0
    while step < last:
        step = at_most(step + COMPARED, last)
        ask_near(x, at + step + AHEAD, at + step + AHEAD + per, line)
        v = largest_tap(x, at + step, starts, None, none)
        begins = select(overtakes(v, best), indices(step, 0), begins)
        best = greater(v, best)
    return best, begins


@inlined
def first_equal(x, at, wanted):
    """Which element of the step that begins at x[at] is the first one equal to `wanted`; -1 if none is."""
    bits = (bits_of(equal(load(x, at), wanted)) | bits_of(equal(load(x, at + LANES), wanted)) << LANES
            | bits_of(equal(load(x, at + 2 * LANES), wanted)) << 2 * LANES
            | bits_of(equal(load(x, at + 3 * LANES), wanted)) << 3 * LANES)
    return first_bit(bits) if bits != 0 else -1


@helper
def locate(x, y, index, row, many, firsts, spots, begins, values, none):
    """Find the indices of `many` maxima, and put them to index[row:]. The maxima are in `values`; their runs begin at
    the elements `firsts`, which have the indices `spots`; and each maximum is in the step of its run that begins at
    `begins`. A maximum of 0 becomes the zero that was found, since zeros of both signs are equal. If a run holds NaN,
    its maximum (+inf) may not be found: `nans.put_nans` does the rest.
    """
    source = memory(x)
    for i in range(np.uintp(many)):
        at, out = firsts[i] + begins[i], np.uintp(row) + i
        found = first_equal(source, at, splat(none, values[i]))
        if found < 0:
            index[out] = -1
            continue
        index[out] = spots[i] + begins[i] + found
        if values[i] == 0:
            y[out] = x[np.uintp(at + found)]


@inlined
def kind_of(long, index):
    """Runs of one kind are reduced together: with indices, those of no element, of at most one step, or of several."""
    return 0 if index is None else np.int64(long > 0) + np.int64(long > COMPARED)


@worker
def window_runs(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, of one column each, counted through all planes: maxima over runs. `divisors` is
    None. An empty window has a length of 0 or less.

    Each run is reduced to a vector. Sixteen such vectors are reduced to one, whose lanes are the maxima of sixteen
    windows: in each vector neighbouring lanes are compared, then neighbours among these, and so on. The index of a
    maximum comes along if a run is a single step. In a longer run only the step comes along, and `locate` looks for the
    element in it when the maximum is known.
    """
    P, OD, OH = g[DEPTH] * g[HEIGHT] * g[WIDTH], g[OUT_D], g[OUT_H]
    none, source, line = nothing(x, divisors), memory(x), 64 // x.itemsize
    per, top, alone = COMPARED if asks(x, ASKED_LATE) else 0, none, OD * OH == 1
    values, begins = numbers(x, divisors, LANES * LANES), np.zeros(LANES * LANES, np.int32)
    firsts, longs, spots = np.empty(LANES, np.int64), np.empty(LANES, np.int64), np.empty(LANES, np.int32)
    for i in range(0, LANES * LANES, LANES):
        store(values, i, none)
    q, od, oh = place_of(lo, OD, OH)
    first, next_long, _ = run_of(q, od, oh, g)
    row, spot, whole = lo, first - q * P, at_least(next_long, 0)
    while row < hi:
        many, most, kind = np.uintp(0), np.uintp(at_most(hi - row, LANES)), kind_of(next_long, index)
        while alone and many < most:
            firsts[many], spots[many] = first, spot
            many += np.uintp(1)
            first += P
        while many < most and kind_of(next_long, index) == kind:
            firsts[many], longs[many], spots[many] = first, at_least(next_long, 0), spot
            many += np.uintp(1)
            q, od, oh = next_place(q, od, oh, OD, OH)
            first, next_long, _ = run_of(q, od, oh, g)
            spot = first - q * P
        many, by_steps = np.int64(many), kind == 2
        for i in range(many):
            # The only window of each plane is as long in all: LLVM need not look at its length again.
            at, long = firsts[np.uintp(i)], whole if alone else longs[np.uintp(i)]
            if index is not None:
                if by_steps:
                    a, ia = largest_steps_of(source, at, long, per, line, none)
                else:
                    a, ia = first_largest_of(source, at, long, none)
                store(begins, i * LANES, ia)
            else:
                a = largest_of(source, at, long, per, line, none)
            store(values, i * LANES, a)
        half = LANES * LANES // 2
        while half >= LANES:
            for i in range(0, half, LANES):
                a, b = load(values, 2 * i), load(values, 2 * i + LANES)
                a, b = even_lanes(a, b), odd_lanes(a, b)
                if index is not None:
                    ia, ib = load(begins, 2 * i), load(begins, 2 * i + LANES)
                    a, ia = first_among(a, even_lanes(ia, ib), b, odd_lanes(ia, ib))
                    store(begins, i, ia)
                else:
                    a = greater(a, b)
                store(values, i, a)
            half //= 2
        a = load(values, 0)
        top = greater(a, top)
        store_some(y, row, convert(y, a), lanes_inside(0, many))
        if index is not None:
            if by_steps:
                locate(x, y, index, row, many, firsts, spots, begins, values, none)
            else:
                place = add(load(begins, 0), load(spots, 0)) if kind else indices(-1, 0)
                store_some(index, row, place, lanes_inside(0, many))
        row += many
    return infinite_lanes(top)


# Elements of a run are added up in an order of its own: first every sixteenth element, so that there are sixteen sums;
# then neighbours among these, so that there are eight, and so on. In channels-first memory the sixteen sums are the
# lanes of a vector, in channels-last memory they are sixteen pixels. Long sums of float32 are carried in float64: eight
# elements at a time are added up before they are converted.


@inlined
def lanes_between(x, at, stop, per, line, zero, none, pad):
    """A vector of sixteen sums: lane i is the sum of x[at + i], x[at + i + 16], and so on, before x[stop]. Each step
    asks for the memory of `per` elements ahead.
    """
    sums = none
    while at <= stop - SPAN:
        ask_near(x, at + AHEAD, at + AHEAD + per, line)
        few, = sums_of_every(x, at, LANES, MOST_ADDED, (None,), pad, zero)
        sums = add(sums, convert(none, few))
        at += SPAN
    if at < stop:
        few = zero
        while at <= stop - LANES:
            few = add(few, convert(zero, load(x, at)))
            at += LANES
        if at < stop:
            few = add(few, convert(zero, load_some(x, at, lanes_inside(0, stop - at), pad)))
        sums = add(sums, convert(none, few))
    return sums


@worker
def average_runs(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, of one column each, counted through all planes: averages over runs. Sixteen of them
    are divided at a time.
    """
    P, OD, OH = g[DEPTH] * g[HEIGHT] * g[WIDTH], g[OUT_D], g[OUT_H]
    none, zero, pad = nothing(x, divisors), begun(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    source, line, per = memory(x), 64 // x.itemsize, SPAN if asks(x, ASKED_LATE) else 0
    sums, counts, alone = numbers(x, divisors, LANES * LANES), np.empty(LANES, np.int64), OD * OH == 1
    q, od, oh = place_of(lo, OD, OH)
    first, pixels, taps = run_of(q, od, oh, g)
    row = lo
    while row < hi:
        many = at_most(hi - row, LANES)
        for i in range(many):
            store(sums, i * LANES, lanes_between(source, first, first + pixels, per, line, zero, none, pad))
            counts[np.uintp(i)] = taps
            if alone:
                first += P
            else:
                q, od, oh = next_place(q, od, oh, OD, OH)
                first, pixels, taps = run_of(q, od, oh, g)
        a = averaged(sums_of_lanes(sums, 0), divisor, reciprocal, 1, load(counts, 0))
        store_some(y, row, convert(y, a), lanes_inside(0, many))
        row += many
    return 0
