"""Windows along rows, for planes in channels-first memory and images of few channels: columns are lanes."""

import numpy as np
from numba import njit

from .._geometry import (
    AT_A,
    AT_B,
    BEFORE,
    CHANNELS,
    COLUMN_A,
    COLUMN_B,
    DEPTH,
    FIRST_TAPS,
    HEADER,
    HEIGHT,
    HOPS,
    LANES_AT,
    LANES_HEADER,
    LAST,
    MASKS,
    MOST_H,
    MOST_W,
    OUT_D,
    OUT_H,
    OUT_W,
    PLACE_A,
    PLACE_B,
    POSITION,
    ROWS_TAPS,
    STEP,
    STEP_SIZE,
    STRIDE,
    TAPS,
    WIDTH,
)
from ..simd import (
    LANES,
    NOWHERE,
    PAGE,
    add,
    columns_from,
    convert,
    fence,
    finite_or_inf,
    first_among,
    first_maxima,
    first_of_rows,
    greater,
    indices,
    lanes_inside,
    load,
    load_indices,
    load_some,
    mask_of,
    memory,
    overtakes,
    passed_on,
    pick,
    put,
    select,
    splat,
    store,
    store_some,
    twelve_indices,
)
from ._asking import AHEAD, ROWS_BY_TURNS, ahead_of, ask, ask_near, is_far
from ._compile import helper, inlined, worker
from ._reductions import (
    averaged,
    joined,
    lead_of,
    next_place,
    nothing,
    outside,
    place_of,
    put_nans,
    shared,
)
from ._staging import SOON, STAGE, begins_line, flush, staged, stream_lines, streams


@njit(inline="always")
def rows_of(g):
    """Elements of a column, of a plane or image, of a row, and of a row of the output, where columns are lanes."""
    E = g[CHANNELS] if g[LAST] else 1
    return E, g[DEPTH] * g[HEIGHT] * g[WIDTH] * E, g[WIDTH] * E, g[OUT_W] * E


@helper
def widths_of(g, size, E):
    """What the column of each of the first elements of a row contributes to its divisor; two vectors may be read."""
    widths = np.ones(size + 2 * LANES, np.int64)
    t = HEADER + 3 * g[OUT_D] + 3 * g[OUT_H] + 2 * g[OUT_W]
    for i in range(min(size, g[OUT_W] * E)):
        widths[i] = g[t + i // E]
    return widths


@helper
def list_hops(hops, first, deep, high, g):
    """List the columns from the first row of a window of some extent to each of its rows, from `first` on."""
    for d in range(0, deep, g[STEP]):
        for h in range(0, high, g[STEP + 1]):
            hops[first] = (d * g[HEIGHT] + h) * g[WIDTH]
            first += 1


@inlined
def picked(a, b, l0, l1, l2, l3, l4, others, first, taps, divisor):
    """Windows from left to right: tap t of window i is lane lt[i] of a and b. For more than five `others` has lanes
    from `first` on.
    """
    r = pick(a, b, l0)
    if taps > 1:
        r = joined(r, pick(a, b, l1), divisor)
    if taps > 2:
        r = joined(r, pick(a, b, l2), divisor)
    if taps > 3:
        r = joined(r, pick(a, b, l3), divisor)
    if taps > 4:
        r = joined(r, pick(a, b, l4), divisor)
    if others is not None:
        for i in range(first, first + (taps - FIRST_TAPS) * LANES, LANES):
            r = joined(r, pick(a, b, load(others, i)), divisor)
    return r


@inlined
def picked_indexed(a, b, ia, ib, l0, l1, l2, l3, l4, others, first, taps):
    """The same for a maximum and its index."""
    r, ri = pick(a, b, l0), pick(ia, ib, l0)
    if taps > 1:
        r, ri = first_among(pick(a, b, l1), pick(ia, ib, l1), r, ri)
    if taps > 2:
        r, ri = first_among(pick(a, b, l2), pick(ia, ib, l2), r, ri)
    if taps > 3:
        r, ri = first_among(pick(a, b, l3), pick(ia, ib, l3), r, ri)
    if taps > 4:
        r, ri = first_among(pick(a, b, l4), pick(ia, ib, l4), r, ri)
    if others is not None:
        for i in range(first, first + (taps - FIRST_TAPS) * LANES, LANES):
            lanes = load(others, i)
            r, ri = first_among(pick(a, b, lanes), pick(ia, ib, lanes), r, ri)
    return r, ri


@worker
def window_rows(lo, hi, x, y, index, divisors, others, asked, g):
    """Rows [lo, hi) of the output, counted through all planes, or images in channels-last memory of few channels, for
    windows whose columns are lanes of two vectors: 32 elements of the input's row are reduced downwards, and the
    windows picked out of them, sixteen or two times sixteen. Which lanes, the geometry says; it may be inverse.

    What comes is asked for, and large results are streamed, only if `asked` is not None: this is compiled for either,
    or it would take 1.1 times as long in the caches, the others of this file up to 1.25 times.
    """
    H, W, OD, OH = g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H]
    E, P, wide, long = rows_of(g)
    t = g[LANES_AT]
    T, outputs, c0, advance, room = g[t], g[t + 2], g[t + 3], g[t + 4], g[t + 5]
    l0, l1, l2, l3, l4, k0, k1, k2, k3, k4, columns_a, columns_b = twelve_indices(g, t + LANES_HEADER)
    more = memory(others)
    second = max(T - FIRST_TAPS, 0) * LANES  # where `others` of the second sixteen outputs begin
    two = min(outputs, long) > LANES
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    nowhere = indices(NOWHERE, 0)
    top = none
    if divisors is not None:
        counts = widths_of(g, long if divisor == 0 else 0, E)
    streaming = past = False
    if asked is not None:
        streaming = streams(y, x, index)
        past = streaming and outputs == LANES and long % LANES == 0 and begins_line(y, index)
        streaming = streaming and not past
    stage, stage_index = y, index
    if streaming:
        stage = staged(y, SOON + 3 * LANES)
        if index is not None:
            stage_index = staged(index, SOON + 3 * LANES, True)
    gathered, done = 0, lo * long
    most = g[TAPS] // g[MOST_W]
    hops = np.empty(g[MOST_H] * most, np.int64)  # from the first row of a window to each, for every height
    deep, dh = 0, g[STEP + 1]
    # Elements of the input to a row of the output, and of a cache line.
    share, line = P // (OD * OH), 64 // x.itemsize
    far, source = is_far(x, ROWS_BY_TURNS), memory(x)
    per = -(-share * min(outputs, long) // long)
    lead = lead_of(x, g, share, wide, far)
    q, od, oh = place_of(lo, OD, OH)
    oh -= 1
    for row in range(lo, hi):
        q, od, oh = next_place(q, od, oh, OD, OH)
        t = HEADER
        d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
        t += 3 * OD
        h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
        first = stop = 0
        if d0 < d1 and h0 < h1:
            if d1 - d0 != deep:
                deep = d1 - d0
                for i in range(g[MOST_H]):
                    list_hops(hops, i * most, deep, i * dh + 1, g)
            nh = h1 - h0 if dh == 1 else (h1 - h0 + dh - 1) // dh
            nd = 1 if deep == 1 else (deep + g[STEP] - 1) // g[STEP]
            first = (nh - 1) * most
            stop = first + nh * nd
        ahead = q * P + (od * OH + oh) * share + lead
        c, spot = c0, (d0 * H + h0) * W + c0 // E
        at, out = q * P + spot * E, row * long
        left = long
        while left > 0:
            if asked is not None:
                ask(source, ahead, ahead + per, line, far)
                ahead += per
            ma, mb = lanes_inside(c, wide), lanes_inside(c + LANES, min(wide, c + LANES + room))
            a, b = none, none
            if index is not None:
                ia, ib = indices(0, 0), indices(0, 0)
                for tap in range(first, stop):
                    hop = hops[np.uintp(tap)]
                    va = finite_or_inf(load_some(x, at + hop * E, ma, pad))
                    vb = finite_or_inf(load_some(x, at + LANES + hop * E, mb, pad))
                    ia = select(overtakes(va, a), indices(hop, 0), ia)
                    ib = select(overtakes(vb, b), indices(hop, 0), ib)
                    a, b = greater(va, a), greater(vb, b)
                ia = select(ma, add(add(ia, columns_a), indices(spot, 0)), nowhere)
                ib = select(mb, add(add(ib, columns_b), indices(spot, 0)), nowhere)
                r, ri = picked_indexed(a, b, ia, ib, l0, l1, l2, l3, l4, more, 0, T)
                s, si = r, ri
                if two:
                    s, si = picked_indexed(a, b, ia, ib, k0, k1, k2, k3, k4, more, second, T)
                if first == stop:
                    ri, si = indices(-1, 0), indices(-1, 0)
            else:
                for tap in range(first, stop):
                    hop = hops[np.uintp(tap)]
                    va = convert(none, load_some(x, at + hop * E, ma, pad))
                    vb = convert(none, load_some(x, at + LANES + hop * E, mb, pad))
                    if divisors is None:
                        va, vb = finite_or_inf(va), finite_or_inf(vb)
                    a, b = joined(a, va, divisor), joined(b, vb, divisor)
                s = r = picked(a, b, l0, l1, l2, l3, l4, more, 0, T, divisor)
                if two:
                    s = picked(a, b, k0, k1, k2, k3, k4, more, second, T, divisor)
            if divisors is None:
                top = greater(r, greater(s, top))
            else:
                widths = splat(g, 1)
                if divisor == 0:
                    widths = load(counts, long - left)
                r = averaged(r, divisor, reciprocal, taps, widths)
                if two:
                    if divisor == 0:
                        widths = load(counts, long - left + LANES)
                    s = averaged(s, divisor, reciprocal, taps, widths)
            count = min(left, outputs)
            if streaming:
                store(stage, gathered, convert(y, r))
                store(stage, gathered + LANES, convert(y, s))
                if index is not None:
                    store(stage_index, gathered, ri)
                    store(stage_index, gathered + LANES, si)
                gathered += count
                if gathered >= SOON:
                    gathered, done = stream_lines(stage, stage_index, y, index, done, gathered)
            else:
                m = lanes_inside(0, count)
                put(y, out, convert(y, r), m, past)
                if index is not None:
                    put(index, out, ri, m, past)
                if two:
                    m = lanes_inside(LANES, count)
                    store_some(y, out + LANES, convert(y, s), m)
                    if index is not None:
                        store_some(index, out + LANES, si, m)
            left, out = left - outputs, out + outputs
            c, spot, at = c + advance, spot + advance // E, at + advance
    if streaming:
        flush(stage, 0, gathered, y, done, True)
        if index is not None:
            flush(stage_index, 0, gathered, index, done, True)
    if past or streaming:
        fence()
    put_nans(top, lo * long, hi * long, x, y, index, divisors, g, E)
    return 0


# Pairs ask in the order of the memory, and so do all whose rows fit twice into a page: on two cores of a Zen 4 3x3/2 of
# 112x112 planes takes 0.75 of the time, of 55x55 0.7, 2x2/2 of 112x112 0.7; on a Xeon 3x3/2 of 224x224 0.8, of 112x112
# 0.88, 3x3/1 0.9; of rows of 1,000 columns and more it would take 1.1 to 1.4. Blocks are as small then as lets what is
# read for one and for the next, and what is written, stay in the first cache, of 32 KiB there, but of eight rows at
# least, since each reads again what it shares with the one above: 3x3/2 of 101x103 takes 0.8 of the time for it.
SHORT, STRIP_BYTES = PAGE // 2, 1 << 13


@worker
def window_strips(lo, hi, x, y, index, divisors, above, below, halves, picks, rows, planes, table, asked, g):
    """Rows [lo, hi) of the output as by `window_rows`, a maximum and its index, for windows of few rows of planes.

    A block of rows is walked in strips of as many columns as two vectors hold, from top to bottom. The maxima along
    each row of the input are picked once, and passed on in registers to all windows that the row is in; then rows are
    compared. In both the first of equals is the one that nothing later is greater than. `geometry.strips` makes the
    tuples, for whose lengths this is compiled to straight code, in 0.7 s more for every other kind of window.

    Where the windows of two rows fit into a vector, two rows are walked at a time, each of which has a vector of the
    input; or two planes (images), where windows share rows or reach beyond: then units [lo, hi) are pairs of planes.

    Nanoseconds per output, one thread, here and by `window_rows` or `window_steps`: 2x2/2 of 56x56 0.41 and 0.55, 3x3/1
    of 28x28 0.28 and 0.5, 3x3/2 of 112x112 0.49 and 0.75, 5x5/2 of 57x57 0.76 and 1.25; in pairs 2x2/2 of 14x14 0.56
    and 0.68, 3x3/2 of 13x13 0.8 and 1.05, 3x3/1 of 8x8 0.4 and, one by one, 0.7.
    """
    H, W, OD, OH = g[HEIGHT], g[WIDTH], g[OUT_D], g[OUT_H]
    E, P, wide, long = rows_of(g)
    t = g[LANES_AT]
    outputs, c0, advance, S = g[t + 2], g[t + 3], g[t + 4], g[STRIDE + 1]
    # From the first vector of the input to the second, and of the output, where there are two.
    apart, second, two = LANES, LANES, len(halves) > 1
    if len(rows) == 2:
        apart = S * wide
    if len(planes) == 2:
        apart, second, two = P, (OD * OH - 1) * long, True
        lo, hi = lo * OD * OH, hi * OD * OH
    pad, top, source = outside(x, divisors), nothing(x, divisors), memory(x)
    lanes, columns_0 = load_indices(table, 0, picks), load_indices(table, len(picks) * LANES, picks)
    # Each block meets once more the rows that its first windows share with those above, and streams from a stage: of
    # 960 columns 5x5/1 takes half the time in blocks of sixteen rows, and 0.65 from memory, but 3x3/3 of 1920 from
    # there 1.2 times as long.
    few = STAGE if asked is not None and len(above) < 2 * S else 8 * STAGE
    block, share = max(2, min(16, few // long)), max(len(planes) * P // (OD * OH), 1)
    line, in_order = 64 // x.itemsize, len(rows) + len(planes) > 2 or wide * x.itemsize <= SHORT
    # What the next block reads is asked for as it will be read, or in order: so many pieces at each row of a strip.
    pieces, piece, pitch, lead = len(below), 2 * LANES, wide, max(block * S * wide, AHEAD)
    skipped = (S - len(below)) * wide  # between windows
    if in_order:
        block = min(block, max(8, STRIP_BYTES // (share * x.itemsize)))
        block -= block % len(rows)
        pieces, skipped = 1, 0
        piece = pitch = -(-share * len(rows) * min(outputs, long) // long)
        lead = (block + 1) * share + len(above) * wide
    streaming = False
    if asked is not None:
        streaming = streams(y, x, index) and len(planes) == 1  # else results are not written in order
    stage, stage_index = y[:0], index[:0]
    target, target_index = memory(y), memory(index)
    if streaming:
        size = SOON + block * long + LANES
        stage, stage_index = staged(y, size), staged(index, size, True)
        target, target_index = memory(stage), memory(stage_index)  # kept alive by `flush` below
    gathered, done = 0, lo * long
    q, od, oh = place_of(lo, OD, OH)
    row = lo
    while row < hi:
        high, first = min(hi - row, OH - oh, block), q * len(planes)
        c, position, soon = c0, 0, first * P + (od * OH + oh) * share + lead
        origin, spot = (first * g[DEPTH] + g[HEADER + od]) * H * wide, g[HEADER + od] * H * W
        begin = ((first * OD + od) * OH + oh) * long
        while position < long:
            count = min(outputs, long - position)
            ma, mb = lanes_inside(c, wide), lanes_inside(c + LANES, wide)
            m, n = lanes_inside(0, count), lanes_inside(LANES, count)
            if len(rows) == 2:
                mb, m = ma, lanes_inside(0, 2 * long)
            if len(planes) == 2:
                both = (first + 2) * P <= x.size
                mb, n = lanes_inside(c, wide if both else 0), lanes_inside(-long, long if both else 0)
            columns = columns_from(c // E, columns_0)
            at, h = origin + c, oh * S - g[BEFORE + 1]
            out = (gathered if streaming else begin) + position
            if not in_order:
                soon = at + (h + len(above)) * wide + lead
            passed = first_maxima(source, at, apart, spot, h, above, H - 1, wide, W, ma, mb, halves, lanes, columns,
                                  pad)
            for i in range(0, high, len(rows)):
                if len(rows) == 2 and i + 1 == high:  # one is left
                    mb, m = lanes_inside(c, 0), lanes_inside(0, long)
                fresh = first_maxima(source, at, apart, spot, h + len(above), below, H - 1, wide, W, ma, mb, halves,
                                     lanes, columns, pad)
                found = first_of_rows(passed, fresh, halves, pad)
                passed = passed_on(passed, fresh)
                if asked is not None:  # between loads and stores: before the loads 3x3/2 takes up to 1.2 times as long
                    for _ in range(pieces):
                        if streaming:
                            ask(source, soon, soon + piece, line, False)
                        else:  # 1.05 times as long from the second cache
                            ask_near(source, soon, soon + piece, line)
                        soon += pitch
                    soon += skipped
                top = greater(found[0], top)
                store_some(target, out, convert(y, found[0]), m)
                store_some(target_index, out, found[1], m)
                if two:
                    top = greater(found[-2], top)
                    store_some(target, out + second, convert(y, found[-2]), n)
                    store_some(target_index, out + second, found[-1], n)
                h, out = h + len(rows) * S, out + len(rows) * long
            position, c = position + outputs, c + advance
        row += high
        q, od, oh = next_place(q, od, oh + high - 1, OD, OH)
        if streaming:
            gathered += high * long
            if gathered >= SOON:
                gathered, done = stream_lines(stage, stage_index, y, index, done, gathered)
    if streaming:
        flush(stage, 0, gathered, y, done, True)
        flush(stage_index, 0, gathered, index, done, True)
        fence()
    # The last pair may be one plane.
    put_nans(top, lo * len(planes) * long, min(hi * len(planes) * long, y.size), x, y, index, divisors, g, E)
    return 0


@worker
def window_steps(lo, hi, x, y, index, divisors, others, steps, asked, g):
    """Planes or images [lo, hi): the same where a plane is not many steps of `window_rows`. Rows may be so short that
    two with as many taps are one step: then each vector is a row of the input.

    All `steps` of a plane are written down, by `geometry.row_steps`; nothing but the vectors is in the way. Nanoseconds
    per output of a 2x2/2 maximum, one thread, here and by `window_rows`: 56x56 0.3 and 0.55, with argmax 0.55 and 0.8;
    112x112 0.3 and 0.42; of 14x14 0.33, 3x3/2 of 13x13 0.46.
    """
    OD, OH = g[OUT_D], g[OUT_H]
    E, P, _, long = rows_of(g)
    O = OD * OH * long
    t = g[LANES_AT]
    T, together, outputs = g[t], g[t + 1], g[t + 2]
    l0, l1, l2, l3, l4, k0, k1, k2, k3, k4, columns_a, columns_b = twelve_indices(g, t + LANES_HEADER)
    more = memory(others)
    second = max(T - FIRST_TAPS, 0) * LANES  # where `others` of the second sixteen outputs begin
    two = min(long, outputs) > LANES if together == 1 else 2 * long > LANES
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    nowhere = indices(NOWHERE, 0)
    top = none
    if together != 1:
        columns_b = columns_a
    group, alone, begin, end = steps[0], steps[1], steps[2], steps[3]
    if divisors is not None:
        widths = widths_of(g, long if divisor == 0 else 0, E)
        if together == 2:  # of two rows, in the lanes where their outputs are
            for i in range(long, 2 * LANES):
                widths[i] = widths[i % (LANES if two else long)]
    line = 64 // x.itemsize
    per = -(-group * P * STEP_SIZE // (end - begin))
    far, source = is_far(x, ROWS_BY_TURNS), memory(x)
    # What is streamed gathers in a stage, whose first element is y[base]; rows in pairs are not written in order.
    streaming = False
    if asked is not None:
        streaming = together == 1 and streams(y, x, index)
    size = SOON + 3 * LANES
    target, target_index, base = y, index, 0
    if streaming:
        target, base = staged(y, size), lo * O
        if index is not None:
            target_index = staged(index, size, True)
    plane = lo
    while plane < hi:
        q, step, last_step = plane, begin, end
        plane += group
        if plane > hi:
            plane, step, last_step = q + 1, alone, begin
        ahead, origin = q * P + ahead_of(x, far), q * O - base
        while step < last_step:
            i, step = np.uintp(step), step + STEP_SIZE
            if asked is not None:
                ask(source, ahead, ahead + per, line, far)
                ahead += per
                gathered = origin + steps[i + np.uintp(PLACE_A)]
                if streaming and gathered >= SOON:
                    origin += base
                    _, base = stream_lines(target, target_index, y, index, base, gathered)
                    origin -= base
            spot_a, spot_b = steps[i + np.uintp(COLUMN_A)], steps[i + np.uintp(COLUMN_B)]
            at_a, at_b = q * P + steps[i + np.uintp(AT_A)], q * P + steps[i + np.uintp(AT_B)]
            first = np.uintp(steps[i + np.uintp(HOPS)])
            out = origin + steps[i + np.uintp(PLACE_A)]
            bits = steps[i + np.uintp(MASKS)]
            ma, mb, m = mask_of(bits), mask_of(bits >> LANES), mask_of(bits >> 2 * LANES)
            a, b = none, none
            if index is not None:
                ia, ib = indices(0, 0), indices(0, 0)
                tap, hop = first, steps[first]
                while hop >= 0:
                    va = finite_or_inf(load_some(x, at_a + hop * E, ma, pad))
                    vb = finite_or_inf(load_some(x, at_b + hop * E, mb, pad))
                    ia = select(overtakes(va, a), indices(hop, 0), ia)
                    ib = select(overtakes(vb, b), indices(hop, 0), ib)
                    a, b = greater(va, a), greater(vb, b)
                    tap += np.uintp(1)
                    hop = steps[tap]
                ia = select(ma, add(add(ia, columns_a), indices(spot_a, 0)), nowhere)
                ib = select(mb, add(add(ib, columns_b), indices(spot_b, 0)), nowhere)
                r, ri = picked_indexed(a, b, ia, ib, l0, l1, l2, l3, l4, more, 0, T)
                if steps[first] < 0:
                    ri = indices(-1, 0)
                store_some(target_index, out, ri, m)
            else:
                tap, hop = first, steps[first]
                while hop >= 0:
                    va = convert(none, load_some(x, at_a + hop * E, ma, pad))
                    vb = convert(none, load_some(x, at_b + hop * E, mb, pad))
                    if divisors is None:
                        va, vb = finite_or_inf(va), finite_or_inf(vb)
                    a, b = joined(a, va, divisor), joined(b, vb, divisor)
                    tap += np.uintp(1)
                    hop = steps[tap]
                r = picked(a, b, l0, l1, l2, l3, l4, more, 0, T, divisor)
            if divisors is None:
                top = greater(r, top)
            else:
                taps, width, width_s = 1, splat(g, 1), splat(g, 1)
                if divisor == 0:
                    taps, position = steps[i + np.uintp(ROWS_TAPS)], steps[i + np.uintp(POSITION)]
                    width, width_s = load(widths, position), load(widths, position + LANES)
                r = averaged(r, divisor, reciprocal, taps, width)
            store_some(target, out, convert(y, r), m)
            if two:
                m, out = mask_of(bits >> 3 * LANES), origin + steps[i + np.uintp(PLACE_B)]
                if index is not None:
                    r, ri = picked_indexed(a, b, ia, ib, k0, k1, k2, k3, k4, more, second, T)
                    if steps[first] < 0:
                        ri = indices(-1, 0)
                    store_some(target_index, out, ri, m)
                else:
                    r = picked(a, b, k0, k1, k2, k3, k4, more, second, T, divisor)
                if divisors is None:
                    top = greater(r, top)
                else:
                    r = averaged(r, divisor, reciprocal, taps, width_s)
                store_some(target, out, convert(y, r), m)
    if streaming:
        flush(target, 0, hi * O - base, y, base, True)
        if index is not None:
            flush(target_index, 0, hi * O - base, index, base, True)
        fence()
    put_nans(top, lo * O, hi * O, x, y, index, divisors, g, E)
    return 0
