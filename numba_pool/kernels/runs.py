"""Windows that are a run of memory each: whole planes, or all columns of rows that follow each other."""

import numpy as np

from .._geometry import CHANNELS, DEPTH, HEADER, HEIGHT, OUT_D, OUT_H, WIDTH
from ._asking import AHEAD, ASKED_LATE, ask, asks, is_far
from ._compile import helper, inlined, worker
from ._reductions import GROUP, averaged, begun, next_place, nothing, numbers, outside, place_of, put_nans, shared
from ._vectors import (
    LANES,
    MOST_ADDED,
    NOWHERE,
    add,
    convert,
    even_lanes,
    finite_or_inf,
    first_among,
    greater,
    indices,
    lanes_inside,
    load,
    load_some,
    memory,
    misaligned,
    odd_lanes,
    overtakes,
    select,
    splat,
    store,
    store_some,
    sums_of_every,
    unmark,
)

SPAN = MOST_ADDED * LANES  # elements or pixels that are added up before these sums are converted
MANY = 8 * LANES  # elements of a run, from which on it pays to begin with a cache line


@inlined
def largest_between(x, at, stop, per, line, none):
    """The maxima of every sixteenth element of x[at : stop], +inf if there is a NaN, which asks for `per` elements at
    each step.
    """
    a, b, c, d = none, none, none, none
    while at <= stop - 2 * GROUP:
        ask(x, at + AHEAD, at + AHEAD + per, line, False)
        a = greater(finite_or_inf(load(x, at)), a)
        b = greater(finite_or_inf(load(x, at + LANES)), b)
        c = greater(finite_or_inf(load(x, at + GROUP)), c)
        d = greater(finite_or_inf(load(x, at + GROUP + LANES)), d)
        at += 2 * GROUP
    while at <= stop - LANES:
        a = greater(finite_or_inf(load(x, at)), a)
        at += LANES
    if at < stop:
        b = greater(finite_or_inf(load_some(x, at, lanes_inside(0, stop - at), none)), b)
    return greater(greater(a, b), greater(c, d))


@inlined
def first_between(x, at, stop, spot, per, line, none, nowhere):
    """The same and where they are, from `spot` on: the first of equals; `nowhere` in lanes that have no element."""
    a, place, next_two = none, indices(spot, 1), indices(GROUP, 0)
    if stop - at < LANES:
        place = select(lanes_inside(0, max(stop - at, 0)), place, nowhere)
    ia = place  # also where all are -inf
    if at <= stop - 2 * GROUP:  # two by turns, which do not wait for each other
        b, place_b = none, add(place, indices(LANES, 0))
        ib = place_b
        while at <= stop - 2 * GROUP:
            ask(x, at + AHEAD, at + AHEAD + per, line, False)
            for i in range(0, 2 * GROUP, GROUP):
                v, w = finite_or_inf(load(x, at + i)), finite_or_inf(load(x, at + i + LANES))
                ia, ib = select(overtakes(v, a), place, ia), select(overtakes(w, b), place_b, ib)
                a, b = greater(v, a), greater(w, b)
                place, place_b = add(place, next_two), add(place_b, next_two)
            at += 2 * GROUP
        a, ia = first_among(a, ia, b, ib)
    while at <= stop - LANES:
        v = finite_or_inf(load(x, at))
        ia, a = select(overtakes(v, a), place, ia), greater(v, a)
        place = add(place, indices(LANES, 0))
        at += LANES
    if at < stop:  # behind the window an index may be too large for an int32, and is never taken
        v = finite_or_inf(load_some(x, at, lanes_inside(0, stop - at), none))
        ia, a = select(overtakes(v, a), place, ia), greater(v, a)
    return a, ia


@helper
def run_of(q, od, oh, g):
    """(first pixel, pixels, divisor) of the window at a place of the output."""
    H, W, OD, OH = g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H]
    t = HEADER
    d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
    t += 3 * OD
    h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
    return (q * g[DEPTH] + d0) * H * W + h0 * W, ((d1 - d0 - 1) * H + h1 - h0) * W, taps * g[t + 3 * OH + 2]


@worker
def window_runs(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, of one column each, counted through all planes; `divisors` is None. An empty window
    stops before it starts.

    Vectors of a run are reduced to one; then the lanes of sixteen such, neighbours first, to one vector.
    """
    P, OD, OH = g[DEPTH] * g[HEIGHT] * g[WIDTH], g[OUT_D], g[OUT_H]
    none, source, line = nothing(x, divisors), memory(x), 64 // x.itemsize
    per = 2 * GROUP if asks(x, ASKED_LATE) else 0
    nowhere, top = indices(NOWHERE, 0), none
    values, places = numbers(x, divisors, LANES * LANES), np.empty(LANES * LANES, np.int32)
    for i in range(0, LANES * LANES, LANES):
        store(values, i, none)
        store(places, i, nowhere)
    q, od, oh = place_of(lo, OD, OH)
    row = lo
    while row < hi:
        many = min(hi - row, LANES)
        for i in range(0, many * LANES, LANES):
            first, pixels, _ = run_of(q, od, oh, g)
            if index is None:
                store(values, i, largest_between(source, first, first + pixels, per, line, none))
            else:
                a, ia = first_between(source, first, first + pixels, first - q * P, per, line, none, nowhere)
                store(values, i, a)
                store(places, i, ia)
            q, od, oh = next_place(q, od, oh, OD, OH)
        half = LANES * LANES // 2
        while half >= LANES:
            for i in range(0, half, LANES):
                a, b = load(values, 2 * i), load(values, 2 * i + LANES)
                if index is None:
                    store(values, i, greater(even_lanes(a, b), odd_lanes(a, b)))
                else:
                    ia, ib = load(places, 2 * i), load(places, 2 * i + LANES)
                    a, ia = first_among(even_lanes(a, b), even_lanes(ia, ib), odd_lanes(a, b), odd_lanes(ia, ib))
                    store(values, i, a)
                    store(places, i, ia)
            half //= 2
        a, m = load(values, 0), lanes_inside(0, many)
        top = greater(a, top)
        store_some(y, row, convert(y, a), m)
        if index is not None:
            store_some(index, row, unmark(load(places, 0)), m)
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
        ask(x, at + AHEAD, at + AHEAD + per, line, False)
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


@inlined
def paired(a, b):
    """The sums of neighbouring lanes: eight of a, eight of b."""
    return add(even_lanes(a, b), odd_lanes(a, b))


@inlined
def four_paired(sums, at):
    """The sums of four neighbouring lanes each of four vectors from sums[at] on."""
    return paired(paired(load(sums, at), load(sums, at + LANES)),
                  paired(load(sums, at + 2 * LANES), load(sums, at + 3 * LANES)))


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
        many = min(hi - row, LANES) if OD * OH == 1 else 1
        for i in range(many):
            at = first + i * P
            store(sums, i * LANES, lanes_between(source, at, at + pixels, per, line, zero, none, pad))
        a = paired(paired(four_paired(sums, 0), four_paired(sums, 4 * LANES)),
                   paired(four_paired(sums, 8 * LANES), four_paired(sums, 12 * LANES)))
        a = averaged(a, divisor, reciprocal, taps, splat(none, 1))
        store_some(y, row, convert(y, a), lanes_inside(0, many))
        row += many
        q, od, oh = next_place(q + many - 1, od, oh, OD, OH)
    return 0


@inlined
def keep(sums, at, few, more):
    """sums[at : at + 16] = few, or the sum of both if there are `more`."""
    a = convert(load(sums, at), few)
    store(sums, at, add(load(sums, at), a) if more else a)


@helper
def add_every(x, at, long, every, few, to, spot, asking, zero, pad):
    """Add up `few` runs of x, none to eight, that begin `every` elements after each other from x[at] on and are `long`,
    to sums[spot], or to what is there. Of what comes next as many elements are asked for as are read.
    """
    sums, more = to
    ahead, per, line, far = asking
    i = 0
    if few == 0:
        while not more and i < long:
            keep(sums, spot + i, zero, more)
            i += LANES
        return
    # Vectors that cross no cache line: `every` is a multiple of sixteen, so what suits one run suits all. From memory
    # it would take 1.1 times as long.
    head = -misaligned(x, at) % LANES if long >= MANY and not per else 0
    if head:
        a, = sums_of_every(x, at, every, few, (lanes_inside(0, head),), pad, zero)
        keep(sums, spot, a, more)
        i = head
    while i <= long - 2 * GROUP:
        ask(x, ahead, ahead + per * few, line, far)
        ahead += per * few
        a, b, c, d = sums_of_every(x, at + i, every, few, (None, None, None, None), pad, zero)
        keep(sums, spot + i, a, more)
        keep(sums, spot + i + LANES, b, more)
        keep(sums, spot + i + GROUP, c, more)
        keep(sums, spot + i + GROUP + LANES, d, more)
        i += 2 * GROUP
    while i < long:
        a, = sums_of_every(x, at + i, every, few, (lanes_inside(i, long),), pad, zero)
        keep(sums, spot + i, a, more)
        i += LANES


@inlined
def four_added(sums, at, pitch):
    """The sum of four vectors that begin `pitch` elements after each other."""
    return add(add(load(sums, at), load(sums, at + pitch)),
               add(load(sums, at + 2 * pitch), load(sums, at + 3 * pitch)))


@worker
def average_pixel_runs(lo, hi, x, y, index, divisors, part, g):
    """Units [lo, hi) in channels-last memory, counted through all images: `part` channels each of an output pixel, each
    of which is a row.

    Sixteen pixels are one run if the part is all channels, or else sixteen; the sum of each element is kept.
    """
    C, none, zero, pad = g[CHANNELS], nothing(x, divisors), begun(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    source, parts, every = memory(x), -(-C // part), LANES * C
    per, line, far = 2 * GROUP if asks(x, ASKED_LATE) else 0, 64 // x.itemsize, is_far(x)
    room = numbers(x, divisors, LANES * part + LANES)
    for unit in range(lo, hi):
        sums = memory(room)  # here: Numba gives an array's memory back where its name stands for the last time
        row = unit // parts
        c = (unit - row * parts) * part
        first, pixels, taps = run_of(*place_of(row, g[OUT_D], g[OUT_H]), g)
        wide = min(C - c, part)
        for begin in range(0, max(pixels, 1), SPAN):
            at, many = (first + begin) * C + c, max(min(pixels - begin, SPAN), 0)
            few, rest, to = many // LANES, many % LANES, (sums, begin > 0)
            if parts == 1:
                short, ahead = rest * C, at + SPAN * C
                add_every(source, at, short, every, few + 1, to, 0, (ahead, per, line, far), zero, pad)
                ahead += short * (few + 1)
                add_every(source, at + short, every - short, every, few, to, short, (ahead, per, line, far), zero, pad)
            else:
                for i in range(LANES):
                    there = few + (i < rest)
                    add_every(source, at + i * C, wide, every, there, to, i * wide, (at, 0, line, far), zero, pad)
        for i in range(0, wide, LANES):
            a = add(add(four_added(sums, i, wide), four_added(sums, i + 4 * wide, wide)),
                    add(four_added(sums, i + 8 * wide, wide), four_added(sums, i + 12 * wide, wide)))
            a = averaged(a, divisor, reciprocal, taps, splat(none, 1))
            store_some(y, row * C + c + i, convert(y, a), lanes_inside(0, wide - i))
    return 0
