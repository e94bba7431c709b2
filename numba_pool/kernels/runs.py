"""Windows that are a run of memory each: whole planes, or all columns of rows that follow each other."""

import numpy as np

from .._windows import DEPTH, HEIGHT, OUT_D, OUT_H, POINT, WIDTH
from ..simd import (
    LANES,
    MOST_ADDED,
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
from ._reductions import (
    GROUP,
    averaged,
    begun,
    next_place,
    nothing,
    numbers,
    outside,
    place_of,
    put_nans,
    run_of,
    shared,
)
from .pixel_runs import SPAN, average_pixel_runs, window_pixel_runs

# Elements of a window that is a run of memory, from which on kernels for these are the faster: averages, maxima of
# several windows of fewer columns than a vector has.
RUN, RUN_MAX = 256, 64
PART, MAXIMA_PART = 512, 1 << 12  # channels, whose sums, or maxima, stay in the first cache
ALONE, MANY_ELEMENTS = 1 << 16, 1 << 14  # of a window: of those that threads share, that are more than the first cache
# Elements of a plane, and for averages of a row, that is the only window, from which on they are. One thread, rows of
# 10 to 24 take 0.05 to 0.4 of the time; in channels-last memory, of 64 channels, 0.7 to 1.9 times, of 16 up to 3.7.
PLANE, ROW = 25, 10
FEW_IN_PLANE = 4  # elements of such a plane, up to which maxima are not


def are_runs(job):
    """Whether each window is a run of memory: all columns, and all rows of some slices, or some rows of a slice."""
    if not job.outputs:
        return False
    depth, height, width = job.axes
    if not width.is_whole:
        return False
    return bool(depth.step == 1 if height.is_whole else height.step == 1 and (depth.stop - depth.start).max() <= 1)


def plan_maxima(job: Windows) -> Call | None:
    """Maxima of windows that are a run of memory each, channels first: whole planes of more than 4 elements, rows of 16
    columns or more, or runs of 64 elements or more.

    Of whole planes, 5x5 in 0.6 to 1 of the time of what comes next, 7x7 in 0.35 to 0.75; of long rows, which other
    kernels read with most lanes unused, 3x20 in 0.15; 5x8 only take 0.9 of the time at stride 3 and 1.8 times at
    stride 1.
    """
    if job.summed or job.last or not job.ask(are_runs):
        return None
    if job.axes[2].size < LANES and job.taps < (FEW_IN_PLANE + 1 if job.outputs == 1 else RUN_MAX):
        return None
    return job.call(window_runs, job.planes * job.outputs, additions=0)


def is_long(job):
    """Whether windows are runs of so many elements that kernels for these are the faster."""
    least = RUN if job.outputs != 1 else ROW if job.summed and job.size == job.axes[2].size else PLANE
    return job.taps >= least and job.ask(are_runs)


def plan_averages(job: Windows) -> Call | None:
    """Averages of windows that are a run of 256 elements or more, or a whole plane of 25 or more, or row of 10."""
    if not job.summed or not is_long(job):
        return None
    return average_plan(job)


def average_plan(job):
    added = -(-job.taps // LANES) + 3  # lanes, and these among each other
    if not job.last:
        return job.call(average_runs, job.rows, additions=added)
    part = part_of(job, PART)
    return job.call(average_pixel_runs, job.rows * -(-job.channels // part), (part,), additions=added)


def plan_pixels(job: Windows) -> Call | None:
    """Maxima of windows that are a run of pixels in channels-last memory, of more than a vector of channels, of so many
    elements that the first cache does not hold them, and which few windows share.

    They are best passed on from eight pixels to the next. Planes of 56x56 and 256 channels take 0.55 of the time, 8x8
    and 2048 0.85, with indices 0.45, 7x7 and 1280 1 and 0.9, but 7x7 and 128 up to 1.2; from memory, where
    `window_buffered` reads four rows by turns, 1.1 to 1.35.
    """
    if job.summed or not job.last or not is_long(job):
        return None
    if not (job.channels > LANES and job.taps * job.channels >= MANY_ELEMENTS and job.nbytes < FAR
            and not job.much_in_common):
        return None
    return pixel_plan(job)


def pixel_plan(job):
    part = part_of(job, MAXIMA_PART)
    return job.call(window_pixel_runs, job.rows * -(-job.channels // part), (part,), additions=0)


LONG = 32  # elements of a window along a row, from which on it is a run worth the start


def along_row(job):
    """The same windows where each is a long part of one row, as runs of memory: an element of the row becomes a row of
    one column. None where they are not, or share more than half of their elements.
    """
    depth, height, width = job.axes
    if not job.outputs or depth.size != 1 or len(depth.start) != 1 or width.step != 1 or height.longest != 1:
        return None
    if depth.widest > 1:  # padding that counts
        return None
    if width.longest < LONG or (width.kernel > 2 * width.stride if width.stride else
                                 len(width.start) * width.longest > 2 * width.size):
        return None
    return job.along((height, width, POINT))


def plan_rows(job: Windows) -> Call | None:
    """Windows of 32 elements or more of one row each, of which few are shared: each is a run of memory."""
    turned = along_row(job) if job.taps >= LONG else None
    if turned is None:
        return None
    if turned.summed:
        return average_plan(turned)
    if turned.last:
        return pixel_plan(turned) if turned.channels > LANES else None
    return turned.call(window_runs, turned.planes * turned.outputs, additions=0)


def part_of(job, most):
    """How many channels of an output pixel kernels of runs take at a time, up to `most`: parts of a large one that is
    alone, so that threads have something to share; 1x256x56x56 takes half the time, two of these 1.1 times as long.
    """
    parts = -(-job.channels // most)
    if job.rows == 1 and job.taps * job.channels >= ALONE:
        parts = max(parts, min(4, job.channels // (2 * GROUP)), 1)
    return -(-job.channels // parts)


STEP = 4 * LANES  # elements of a run among which a maximum is looked for at a time


@inlined
def starts_of(long):
    """Where the four vectors of a step begin, in a run of a vector or more: those of a short run reach back, and meet
    elements again, which changes no maximum.
    """
    last = at_most(long, STEP) - LANES
    return 0, at_most(LANES, last), at_most(2 * LANES, last), last


@inlined
def largest_of(x, at, long, per, line, none):
    """A vector with the maximum of a run from x[at] on among its lanes, +inf if there is a NaN; which asks for `per`
    elements at each step.
    """
    if long < LANES:
        return largest_tap(x, at, (0,), lanes_inside(0, long), none)
    starts, last = starts_of(long), at + at_least(long - STEP, 0)
    best = largest_tap(x, last, starts, None, none)
    while at < last:
        ask(x, at + AHEAD, at + AHEAD + per, line, False)
        best = greater(largest_tap(x, at, starts, None, none), best)
        at += STEP
    return best


@inlined
def first_largest_of(x, at, long, none):
    """The same for a run of a step or less, and where in it each lane is from: the first of equals."""
    if long < LANES:
        a, ia = first_largest_tap(x, at, (0,), (0,), lanes_inside(0, long), none)
    else:
        starts = starts_of(long)
        a, ia = first_largest_tap(x, at, starts, starts, None, none)
    return a, add(ia, indices(0, 1))


@inlined
def largest_steps_of(x, at, long, per, line, none):
    """The same for a run of a step or more, and where in it the step begins that each lane is from: the first of
    equals.
    """
    starts, last = starts_of(long), long - STEP
    best, begins, step = largest_tap(x, at, starts, None, none), indices(0, 0), 0
    while step < last:
        step = at_most(step + STEP, last)
        ask_near(x, at + step + AHEAD, at + step + AHEAD + per, line)
        v = largest_tap(x, at + step, starts, None, none)
        begins = select(overtakes(v, best), indices(step, 0), begins)
        best = greater(v, best)
    return best, begins


@inlined
def first_equal(x, at, wanted):
    """Which element of a step from x[at] on is the first that is as wanted; -1 if none is."""
    bits = (bits_of(equal(load(x, at), wanted)) | bits_of(equal(load(x, at + LANES), wanted)) << LANES
            | bits_of(equal(load(x, at + 2 * LANES), wanted)) << 2 * LANES
            | bits_of(equal(load(x, at + 3 * LANES), wanted)) << 3 * LANES)
    return first_bit(bits) if bits != 0 else -1


@helper
def locate(x, y, index, row, many, firsts, spots, begins, values, none):
    """Put the indices of `many` maxima, the first of `values`, from row `row` on: of runs that begin at `firsts`, which
    have the indices `spots`, in the steps that begin at `begins`. A zero becomes the one that is there, since those of
    both signs are equal. Where NaN stand for no maximum is left to `put_nans`.
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


@worker
def window_runs(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, of one column each, counted through all planes; `divisors` is None. An empty window
    stops before it starts.

    Vectors of a run are reduced to one, and the lanes of sixteen such, neighbours first, to one vector, of a single
    step with their places. Of longer ones it is looked for when it is known, among the elements of its step.
    Nanoseconds per window, one thread: 7x7 5.2, with its index 7.4; 14x14 14 and 20.
    """
    P, OD, OH = g[DEPTH] * g[HEIGHT] * g[WIDTH], g[OUT_D], g[OUT_H]
    none, source, line = nothing(x, divisors), memory(x), 64 // x.itemsize
    per, top, alone = STEP if asks(x, ASKED_LATE) else 0, none, OD * OH == 1
    values, begins = numbers(x, divisors, LANES * LANES), np.zeros(LANES * LANES, np.int32)
    firsts, spots = np.empty(LANES, np.int64), np.empty(LANES, np.int32)
    for i in range(0, LANES * LANES, LANES):
        store(values, i, none)
    q, od, oh = place_of(lo, OD, OH)
    first, next_long, _ = run_of(q, od, oh, g)
    row, spot = lo, first - q * P
    while row < hi:
        many, most, long = np.uintp(0), np.uintp(at_most(hi - row, LANES)), next_long
        while many < most and next_long == long:  # those of one length together take two thirds of the time
            firsts[many], spots[many] = first, spot
            many += np.uintp(1)
            if alone:
                first += P
            else:
                q, od, oh = next_place(q, od, oh, OD, OH)
                first, next_long, _ = run_of(q, od, oh, g)
                spot = first - q * P
        many, long = np.int64(many), at_least(long, 0)
        by_steps = index is not None and long > STEP
        for i in range(many):
            if index is not None:
                if by_steps:
                    a, ia = largest_steps_of(source, firsts[np.uintp(i)], long, per, line, none)
                else:
                    a, ia = first_largest_of(source, firsts[np.uintp(i)], long, none)
                store(begins, i * LANES, ia)
            else:
                a = largest_of(source, firsts[np.uintp(i)], long, per, line, none)
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
                place = add(load(begins, 0), load(spots, 0)) if long else indices(-1, 0)
                store_some(index, row, place, lanes_inside(0, many))
        row += many
    put_nans(top, lo, hi, x, y, index, divisors, g, 1)
    return 0


# The average of a run has an order of its own: every sixteenth element is added up, then neighbours among these sixteen
# sums, then neighbours among the eight, and so on. In channels-first memory they are the lanes of a vector, in
# channels-last memory pixels. Eight elements at a time are added up before they are converted, which long sums of
# float32 are to float64.


@inlined
def lanes_between(x, at, stop, per, line, zero, none, pad):
    """The sums over x[at : stop] of every sixteenth element from each of the first, which asks for `per` elements at
    each step.
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
    """Rows [lo, hi) of the output, of one column each, counted through all planes: sixteen at a time where a row is all
    there is of a plane.
    """
    P, OD, OH = g[DEPTH] * g[HEIGHT] * g[WIDTH], g[OUT_D], g[OUT_H]
    none, zero, pad = nothing(x, divisors), begun(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    source, line, per = memory(x), 64 // x.itemsize, SPAN if asks(x, ASKED_LATE) else 0
    sums = numbers(x, divisors, LANES * LANES)
    q, od, oh = place_of(lo, OD, OH)
    row = lo
    while row < hi:
        first, pixels, taps = run_of(q, od, oh, g)
        many = at_most(hi - row, LANES) if OD * OH == 1 else 1
        for i in range(many):
            at = first + i * P
            store(sums, i * LANES, lanes_between(source, at, at + pixels, per, line, zero, none, pad))
        a = averaged(sums_of_lanes(sums, 0), divisor, reciprocal, taps, splat(none, 1))
        store_some(y, row, convert(y, a), lanes_inside(0, many))
        row += many
        q, od, oh = next_place(q + many - 1, od, oh, OD, OH)
    return 0
