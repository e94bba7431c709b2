"""Maxima of windows that are a run of memory each: whole planes, or all columns of rows that follow each other."""

import numpy as np

from .._geometry import DEPTH, HEADER, HEIGHT, OUT_D, OUT_H, WIDTH
from ._asking import AHEAD, ASKED_LATE, ask, asks
from ._compile import inlined, worker
from ._reductions import GROUP, next_place, nothing, numbers, place_of, put_nans
from ._vectors import (
    LANES,
    NOWHERE,
    any_inf,
    both,
    convert,
    equal,
    finite_or_inf,
    greater,
    indices,
    lanes_inside,
    largest_lane,
    load,
    load_some,
    memory,
    select,
    smaller_of,
    smallest_lane,
    splat,
    store,
    store_some,
    unmark,
)

BLOCK = 512  # elements, of which the first maximum is looked for while they are in the first cache


@inlined
def largest_between(x, at, stop, per, line, none):
    """The maximum of x[at : stop], +inf if there is a NaN, which asks for `per` elements at each step."""
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


@worker
def window_runs(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, of one column each, counted through all planes; `divisors` is None. An empty window
    stops before it starts.

    Vectors of the run are reduced, then their lanes. An argmax is looked for afterwards, in the first block that has
    the maximum.
    """
    H, W, OD, OH = g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H]
    P, none, source = g[DEPTH] * H * W, nothing(x, divisors), memory(x)
    lowest, top, line = largest_lane(none), none, 64 // x.itemsize
    per = 2 * GROUP if asks(x, ASKED_LATE) else 0
    nowhere = indices(NOWHERE, 0)
    found, spots = numbers(x, divisors, LANES), np.empty(LANES, np.int32)
    store(found, 0, none)
    gathered = 0
    q, od, oh = place_of(lo, OD, OH)
    oh -= 1
    for row in range(lo, hi):
        q, od, oh = next_place(q, od, oh, OD, OH)
        t = HEADER
        d0, d1 = g[t + od], g[t + OD + od]
        t += 3 * OD
        h0, h1 = g[t + oh], g[t + OH + oh]
        plane, first, stop = q * P, q * P + (d0 * H + h0) * W, q * P + ((d1 - 1) * H + h1) * W
        if index is None:
            found[gathered] = largest_lane(largest_between(source, first, stop, per, line, none))
        else:
            begin, largest = first, lowest
            for block in range(first, stop, BLOCK):
                a = largest_lane(largest_between(source, block, min(block + BLOCK, stop), per, line, none))
                if a > largest:
                    largest, begin = a, block
            places, all_of = nowhere, splat(none, largest)
            for i in range(begin, min(begin + BLOCK, stop), LANES):
                m = lanes_inside(0, stop - i)  # behind the window an index may be too large for an int32
                same = both(m, equal(load_some(source, i, m, none), all_of))
                places = smaller_of(places, select(same, indices(i - plane, 1), nowhere))
            found[gathered], spots[gathered] = largest, smallest_lane(places)
        gathered += 1
        if gathered == LANES or row == hi - 1:
            done, m = row + 1 - gathered, lanes_inside(0, gathered)
            a = load(found, 0)
            top = greater(a, top)
            store_some(y, done, convert(y, a), m)
            if index is not None:
                store_some(index, done, unmark(load(spots, 0)), m)
                for i in range(gathered):
                    if found[i] == 0 and spots[i] < NOWHERE:  # its sign may be another
                        y[done + i] = x[(done + i) // (OD * OH) * P + spots[i]]
            gathered = 0
    if any_inf(top):
        put_nans(lo, hi, x, y, index, g, 1)
    return 0
