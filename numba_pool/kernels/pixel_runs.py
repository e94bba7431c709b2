"""Windows that are runs of pixels in channels-last memory: each is one stretch of memory. Lanes are channels."""

from .._windows import CHANNELS, DEPTH, HEIGHT, OUT_D, OUT_H, WIDTH
from ..simd import (
    LANES,
    MOST_ADDED,
    add,
    at_least,
    at_most,
    convert,
    empty,
    first_largest_tap,
    greater,
    indices,
    infinite_lanes,
    lanes_inside,
    largest_tap,
    load,
    memory,
    misaligned,
    overtakes,
    select,
    splat,
    store,
    store_some,
    sums_of_every,
)
from ._asking import ASKED_LATE, ask, asks, is_far
from ._compile import helper, inlined, worker
from ._reductions import (
    GROUP,
    averaged,
    begun,
    nothing,
    numbers,
    outside,
    place_of,
    run_of,
    shared,
)

SPAN = MOST_ADDED * LANES  # elements, or pixels, that are added up before their sums are converted
ALIGNED = 8 * LANES  # elements of a run, from which on it pays to begin with a cache line
EIGHT = 8  # pixels that are compared with each other before they are compared with the maxima so far


@inlined
def pass_on(x, best, places, at, to, spot, C, many, mask, none):
    """Compare sixteen channels of `many` pixels, eight or one, which begin at x[at], with the maxima so far in
    best[to : to + 16], which become the larger ones. Unless `places` is None, it gets the indices of their pixels; the
    first pixel has the index `spot`.
    """
    hops, order = (0, C, 2 * C, 3 * C, 4 * C, 5 * C, 6 * C, 7 * C), (0, 1, 2, 3, 4, 5, 6, 7)
    before = load(best, to)
    if places is None:
        a = largest_tap(x, at, hops, mask, none) if many > 1 else largest_tap(x, at, (0,), mask, none)
        a = greater(a, before)
    else:
        if many > 1:
            a, ia = first_largest_tap(x, at, hops, order, mask, none)
        else:
            a, ia = first_largest_tap(x, at, (0,), (0,), mask, none)
        later = overtakes(a, before)
        a = select(later, a, before)
        store(places, to, select(later, add(ia, indices(spot, 0)), load(places, to)))
    store(best, to, a)


@worker
def window_pixel_runs(lo, hi, x, y, index, divisors, part, g):
    """Maxima over runs of pixels. A unit of [lo, hi) is `part` channels of one output pixel; units are counted through
    all images. `divisors` is None.

    Eight pixels are read at a time, over all channels of the part. The maxima so far stay in the first cache. If a
    whole window were read for one vector of channels after the other, reading would jump from pixel to pixel.
    """
    C, P, none = g[CHANNELS], g[DEPTH] * g[HEIGHT] * g[WIDTH], nothing(x, divisors)
    source, parts, top = memory(x), -(-C // part), none
    values, spots = numbers(x, divisors, part + 2 * LANES), empty(index, part + 2 * LANES)
    for unit in range(lo, hi):
        best, places = memory(values), memory(spots)  # within the loop for the reason given in `average_pixel_runs`
        row = unit // parts
        c = (unit - row * parts) * part
        wide, out = at_most(C - c, part), row * C + c
        q, od, oh = place_of(row, g[OUT_D], g[OUT_H])
        first, pixels, _ = run_of(q, od, oh, g)
        for i in range(0, wide, LANES):
            store(best, i, none)
            if index is not None:  # the first pixel's index, if no other is larger
                store(places, i, indices(first - q * P if pixels > 0 else -1, 0))
        many = EIGHT if pixels >= EIGHT else 1
        # If channels are whole vectors, begin with a part of one, so that the others cross no cache line.
        head = -misaligned(x, first * C + c) % LANES if C % LANES == 0 and wide >= 2 * GROUP else 0
        for tap in range(0, pixels, many):
            tap = at_most(tap, pixels - many)  # the last eight reach back
            at, spot = (first + tap) * C + c, first - q * P + tap
            if head:
                pass_on(source, best, places, at, 0, spot, C, many, lanes_inside(0, head), none)
            i = head
            while i <= wide - LANES:
                pass_on(source, best, places, at + i, i, spot, C, many, None, none)
                i += LANES
            if i < wide:
                pass_on(source, best, places, at + i, i, spot, C, many, lanes_inside(i, wide), none)
        for i in range(0, wide, LANES):
            inside = lanes_inside(i, wide)
            a = load(best, i)
            top = greater(a, top)
            store_some(y, out + i, convert(y, a), inside)
            if index is not None:
                store_some(index, out + i, load(places, i), inside)
    return infinite_lanes(top)


@inlined
def add_to(sums, at, few, more):
    """sums[at : at + 16] = few; if `more`, sums[at : at + 16] += few."""
    a = convert(load(sums, at), few)
    store(sums, at, add(load(sums, at), a) if more else a)


@helper
def add_every(x, at, long, every, few, to, spot, asking, zero, pad):
    """Add up `few` stretches of x, none to eight, of `long` elements each, into sums[spot : spot + long]; if `more`,
    what stands there is added as well. The stretches begin at x[at], x[at + every], and so on. As much memory is asked
    for ahead as is read.
    """
    sums, more = to
    ahead, per, line, far = asking
    i = 0
    if few == 0:
        while not more and i < long:
            add_to(sums, spot + i, zero, more)
            i += LANES
        return
    # Begin with a part of a vector, so that the others cross no cache line: `every` is a multiple of sixteen, so what
    # suits one stretch suits all. Not where memory is asked for ahead: it would take 1.1 times as long.
    head = -misaligned(x, at) % LANES if long >= ALIGNED and not per else 0
    if head:
        a, = sums_of_every(x, at, every, few, (lanes_inside(0, head),), pad, zero)
        add_to(sums, spot, a, more)
        i = head
    while i <= long - 2 * GROUP:
        ask(x, ahead, ahead + per * few, line, far)
        ahead += per * few
        a, b, c, d = sums_of_every(x, at + i, every, few, (None, None, None, None), pad, zero)
        add_to(sums, spot + i, a, more)
        add_to(sums, spot + i + LANES, b, more)
        add_to(sums, spot + i + GROUP, c, more)
        add_to(sums, spot + i + GROUP + LANES, d, more)
        i += 2 * GROUP
    while i < long:
        a, = sums_of_every(x, at + i, every, few, (lanes_inside(i, long),), pad, zero)
        add_to(sums, spot + i, a, more)
        i += LANES


@inlined
def four_added(sums, at, pitch):
    """The sum of four vectors of `sums`, which begin at element `at`, `at + pitch`, and so on."""
    return add(add(load(sums, at), load(sums, at + pitch)),
               add(load(sums, at + 2 * pitch), load(sums, at + 3 * pitch)))


@worker
def average_pixel_runs(lo, hi, x, y, index, divisors, part, g):
    """Averages over runs of pixels. A unit of [lo, hi) is `part` channels of one output pixel; units are counted
    through all images.

    Every sixteenth pixel is added up (see `runs`), so that there are sums for sixteen pixels. If the part is all
    channels, sixteen pixels are one stretch of memory, else they are sixteen.
    """
    C, none, zero, pad = g[CHANNELS], nothing(x, divisors), begun(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    source, parts, every = memory(x), -(-C // part), LANES * C
    per, line, far = 2 * GROUP if asks(x, ASKED_LATE) else 0, 64 // x.itemsize, is_far(x)
    room = numbers(x, divisors, LANES * part + LANES)
    for unit in range(lo, hi):
        # Within the loop, since Numba gives an array's memory back behind the last line that names the array.
        sums = memory(room)
        row = unit // parts
        c = (unit - row * parts) * part
        first, pixels, taps = run_of(*place_of(row, g[OUT_D], g[OUT_H]), g)
        wide = at_most(C - c, part)
        for begin in range(0, at_least(pixels, 1), SPAN):
            at, many = (first + begin) * C + c, at_least(at_most(pixels - begin, SPAN), 0)
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
