"""Gradients over windows that share no element, and unpooling into such.

What indices route, `indices` adds up at scattered places. Where windows do not overlap, every element of the result
has one gradient to look at, and takes it if that gradient's index is its own: whole vectors, written once, in order,
and no index is ever used as an address. Nanoseconds per gradient of 2x2/2, one thread, here and there: 224x224 images
0.4 and 1.2, from memory to memory; 14x14 of 512 channels last 0.3 and 0.6; 112x112 in the caches 0.4 and 0.55.

Which windows there were, nobody says; `geometry.guess` does, from the shapes. The guess holds if every gradient is
taken, so the kernels count; planes with a gradient each take it wherever in them it belongs. Where the guess does not
hold, or an index leads out of a plane, `indices` does the work.

The gradient of an average is the same without indices, of windows that are known, and may lie apart.

`scatter_disjoint` goes by rows of windows, and takes every gradient it has loaded to all rows of these. Where rows are
shorter than vectors, `scatter_flat` goes by whole planes instead; there an element of an average may also be in up to
four windows, whose gradients it adds up. One thread, ns per element of 14x14 planes, 2x2/2: 0.09 for an average, 0.14
by `rows.window_steps`; 0.11 for a maximum, 0.16 by `indices.scatter_groups`. `scatter_whole` fills planes that are one
window each: 7x7 with 0.06 for an average, 0.08 for a maximum, 0.1 by `indices.scatter_groups`.
"""

import numpy as np
from numba import types

from .._geometry import (
    APART_D,
    APART_H,
    BAND,
    BANDS,
    COVERED,
    GAPS,
    NEED,
    OUTPUTS_D,
    OUTPUTS_H,
    PITCH,
    ROW,
    SIZE_D,
    SIZE_H,
    SIZE_W,
    STEPS,
    STRAIGHT,
    TAKEN,
    VECTORS,
    WHOLE,
)
from ..simd import (
    LANES,
    add,
    both,
    convert,
    equal,
    fence,
    indices,
    lanes_inside,
    load,
    load_some,
    mask_of,
    memory,
    misaligned,
    not_negative,
    pick,
    prefetch,
    put,
    rearrange,
    select,
    splat,
    store,
    store_some,
    stream,
    subtract,
    total,
)
from ._asking import ASKED, asks
from ._compile import by_types, helper, worker
from ._reductions import averaged, nothing, shared
from ._staging import streams

AHEAD = 1024  # gradients between those that are read and those that are asked for
AHEAD_FLAT = 512  # the same of `scatter_flat`, and between elements that are written


@helper
def clear(gx, at, stop, nil):
    """gx[at:stop] = 0, as `nil` has it."""
    for i in range(at, stop, LANES):
        store_some(gx, i, nil, lanes_inside(0, min(stop - i, LANES)))  # of 32 bits, which rows are, but not many rows


@worker
def scatter_flat(lo, hi, grad, gx, index, accumulate, divisors, asked, firsts, lanes, g):
    """Units [lo, hi) of a few planes, or images in channels-last memory, each: sixteen elements after the other, in
    whichever rows and planes these are. For every such vector, `firsts` and `lanes` of `geometry.Flat` say which
    gradients its elements look at, in which vectors; for averages, of up to two rows of windows in up to two columns,
    which are added up down the columns first. Arguments and result are as in `scatter_disjoint`.

    What comes, and where to write, is asked for, and large results are streamed, only if `asked` is not None: this is
    compiled for either, or it would take 1.05 to 1.1 times as long in the caches.
    """
    elements, taken, need, two, four = g[0], g[1], g[2], g[3] == 2, g[4] == 4  # four are in two registers
    none, zero = splat(grad, 0), indices(0, 0)
    empty, (divisor, reciprocal) = nothing(grad, divisors), shared(divisors)
    one = indices(min(elements, 1), 0)  # not known to be 1, or LLVM makes two instructions of a masked addition
    part, more, left, streaming = lanes_inside(0, need), lanes_inside(LANES, need), 0, False
    if asked is not None:
        streaming = elements % LANES == 0 and streams(gx, grad, index) and misaligned(gx, 0) == 0
    for unit in range(lo, hi):
        to, end, count, k = unit * elements, (unit + 1) * elements, zero, 0
        for i in range(len(firsts)):
            of = unit * taken + firsts[np.uintp(i)]
            if asked is not None:
                prefetch(grad, of + AHEAD_FLAT)
                if index is not None:
                    prefetch(index, of + AHEAD_FLAT)
                if not streaming:
                    prefetch(gx, to + AHEAD_FLAT)  # a store waits for its line as long as a load does
            v = load_some(grad, of, part, none)
            if divisors is not None:
                a = convert(empty, v)
                if two:
                    b = convert(empty, load_some(grad, of + LANES, more, none))
                    s = pick(a, b, load(lanes, k))
                    if four:
                        s = add(s, pick(a, b, load(lanes, k + LANES)))
                        t = add(pick(a, b, load(lanes, k + 2 * LANES)), pick(a, b, load(lanes, k + 3 * LANES)))
                        s, k = add(s, t), k + 3 * LANES
                else:
                    s = rearrange(a, load(lanes, k))
                k += LANES
                v = convert(gx, averaged(add(empty, s), divisor, reciprocal, 1, empty))
            else:
                l, spots = load(lanes, k), load(lanes, k + LANES)
                k += 2 * LANES
                if two:
                    v = pick(v, load_some(grad, of + LANES, more, none), l)
                else:
                    v = rearrange(v, l)
                if accumulate:
                    v = add(none, v)  # -0.0 becomes 0.0
                hit = not_negative(spots)
                if index is not None:
                    place = load_some(index, of, part, zero)
                    if two:
                        place = pick(place, load_some(index, of + LANES, more, zero), l)
                    else:
                        place = rearrange(place, l)
                    hit = both(hit, equal(place, spots))
                    count = select(hit, add(count, one), count)
                v = convert(gx, select(hit, v, none))
            if streaming:
                stream(gx, to, v)
            elif to + LANES <= end:
                store(gx, to, v)
            else:
                store_some(gx, to, v, lanes_inside(0, end - to))
            to += LANES
        if index is not None and total(count) != taken:
            left = 1
            break
    if streaming:
        fence()
    return left


@worker
def scatter_disjoint(lo, hi, grad, gx, index, accumulate, divisors, steps, lanes, hops, spots, g):
    """Bands [lo, hi) of rows of windows, counted through all planes, or images in channels-last memory.

    A step loads the gradients that sixteen elements of a row look at. Hops lead from these to all other elements that
    look at the same, whose indices are `spots` further on; a negative one is the end.

    `index` is None for an average, whose `divisors` are as in `windows`, and `divisors` is None for all else.

    Returns 0, or 1 (the driver, from each chunk) if a gradient was left over: then `gx` is to be written anew.
    """
    D, H, W = g[SIZE_D], g[SIZE_H], g[SIZE_W]
    OD, OH, taken, bands, m, many = g[OUTPUTS_D], g[OUTPUTS_H], g[TAKEN], g[BANDS], g[BAND], g[STEPS]
    sd, sh, row, covered, pitch = g[APART_D], g[APART_H], g[ROW], g[COVERED], g[PITCH]
    none, zero = splat(grad, 0), indices(0, 0)
    empty, (divisor, reciprocal) = nothing(grad, divisors), shared(divisors)
    one = indices(min(m, 1), 0)  # not known to be 1, or LLVM makes two instructions of a masked addition
    nil = none
    if divisors is not None:  # by a negative number -0.0, as in every other kernel
        nil = convert(gx, averaged(empty, divisor, reciprocal, 1, empty))
    l, columns, part = load(lanes, 0), load(lanes, LANES), lanes_inside(0, g[NEED])
    whole, turned, asking = g[WHOLE] != 0, g[STRAIGHT] == 0, asks(gx, ASKED)
    streaming = g[VECTORS] != 0 and streams(gx, grad, index) and misaligned(gx, 0) == 0
    m0, left = lanes_inside(0, LANES), 0
    for unit in range(lo, hi):
        slab = unit // bands
        band = unit - slab * bands
        q = slab // OD
        od = slab - q * OD
        rows = min(m, OH - band * m)
        top = (q * D + od * sd) * H + band * m * sh
        at, first = top * row, (slab * OH + band * m) * taken
        spot = (top - q * D * H) * W
        if g[GAPS]:
            for d in range(od * sd, min(od * sd + sd, D)):
                slice_at, below = (q * D + d) * H, min((band * m + rows) * sh, H)
                clear(gx, (slice_at + band * m * sh) * row, (slice_at + below) * row, nil)
        count, k = zero, 0
        i, end = np.uintp(0), np.uintp(4 * rows * many)
        while i < end:
            of, to = first + steps[i], at + steps[i + np.uintp(1)]
            if asking:
                prefetch(grad, of + AHEAD)
                if index is not None:
                    prefetch(index, of + AHEAD)
            if not whole:
                m0 = mask_of(steps[i + np.uintp(3)])
            if pitch:
                l, columns = load(lanes, k), load(lanes, k + LANES)
                k += pitch
            v = load_some(grad, of, part, none)
            if divisors is not None:
                v = convert(gx, averaged(add(empty, convert(empty, v)), divisor, reciprocal, 1, empty))
            elif accumulate:
                v = add(none, v)  # -0.0 becomes 0.0
            if turned:
                v = rearrange(v, l)
            if index is not None:
                place = load_some(index, of, part, zero)
                if turned:
                    place = rearrange(place, l)
                place = subtract(subtract(place, columns), indices(steps[i + np.uintp(2)], 0))
            w = v
            h = np.uintp(0)
            hop = hops[h]
            while hop >= 0:
                if index is not None:
                    hit = both(equal(place, indices(spot + spots[h], 0)), m0)
                    count = select(hit, add(count, one), count)
                    w = select(hit, v, none)
                if streaming:
                    stream(gx, to + hop, convert(gx, w))
                else:
                    store_some(gx, to + hop, convert(gx, w), m0)
                h += np.uintp(1)
                hop = hops[h]
            i += np.uintp(4)
        if index is not None and total(count) != rows * taken:
            left = 1
            break
        if covered < row and not g[GAPS]:  # columns in no window
            for d in range(sd):
                for r in range(rows * sh):
                    clear(gx, at + (d * H + r) * row + covered, at + (d * H + r + 1) * row, nil)
        if band == bands - 1:  # rows and slices in none
            for d in range(od * sd, min(od * sd + sd, D)):
                clear(gx, ((q * D + d) * H + OH * sh) * row, (q * D + d + 1) * H * row, nil)
            if od == OD - 1:
                clear(gx, (q * D + OD * sd) * H * row, (q + 1) * D * H * row, nil)
    if streaming:
        fence()
    return left


def where_routed(v, index, place, spot, none):
    """A gradient in every lane, but of a maximum only where the place is its index."""


@by_types(where_routed)
def _where_routed(v, index, place, spot, none):
    if isinstance(index, types.NoneType):
        return lambda v, index, place, spot, none: v
    return lambda v, index, place, spot, none: select(equal(place, spot), v, none)


@worker
def scatter_whole(lo, hi, grad, gx, index, accumulate, divisors, g):
    """Planes [lo, hi) in channels-first memory with a gradient each, with indices of elements that int32 can count.
    Arguments and result are as in `scatter_disjoint`.
    """
    P, past, left = g[0], streams(gx, grad, index), 0
    none, empty, (divisor, reciprocal) = splat(grad, 0), nothing(grad, divisors), shared(divisors)
    to, everywhere, lanes, further = memory(gx), indices(0, 0), indices(0, 1), indices(LANES, 0)
    for q in range(lo, hi):
        v, spot = load_some(grad, q, lanes_inside(0, 1), none), everywhere
        if divisors is not None:
            v = convert(gx, averaged(convert(empty, v), divisor, reciprocal, 1, empty))  # no sum: -0.0 stays
        elif accumulate:
            v = add(none, v)  # -0.0 becomes 0.0
        v = rearrange(v, everywhere)
        if index is not None:
            where = np.int64(index[np.uintp(q)])
            if where < 0 or where >= P:
                left = 1
                break
            spot = indices(where, 0)
        at, stop = q * P, (q + 1) * P
        head = min(-misaligned(to, at) % LANES, P)
        if head:
            store_some(to, at, convert(gx, where_routed(v, index, lanes, spot, none)), lanes_inside(0, head))
        at, place = at + head, indices(head, 1)
        while at <= stop - LANES:
            put(to, at, convert(gx, where_routed(v, index, place, spot, none)), None, past)
            at, place = at + LANES, add(place, further)
        if at < stop:
            store_some(to, at, convert(gx, where_routed(v, index, place, spot, none)), lanes_inside(0, stop - at))
    if past:
        fence()
    return left
