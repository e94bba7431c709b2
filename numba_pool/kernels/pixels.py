"""Windows in channels-last memory, whose lanes are channels, tap by tap."""

import numpy as np
from numba import types
from numba.extending import overload

from .._windows import (
    APART,
    CHANNELS,
    DEPTH,
    HEADER,
    HEIGHT,
    LIMIT,
    MOST_H,
    MOST_W,
    OUT_D,
    OUT_H,
    OUT_W,
    STEP,
    TAPS,
    WIDTH,
    runs_alike,
)
from ..simd import (
    LANES,
    add,
    convert,
    fence,
    finite_or_inf,
    first_largest_tap,
    greater,
    indices,
    lanes_inside,
    largest_tap,
    load_some,
    memory,
    misaligned,
    nine_numbers,
    number,
    overtakes,
    put,
    record_kind,
    select,
    splat,
    sum_of_taps,
    wide_registers,
)
from ._asking import AHEAD, ASKED_LATE, FAR, ask, asks, is_far
from ._compile import INLINED, by_types, helper, inlined, worker
from ._job import FLOAT32, SHARED, Job, Plan
from ._reductions import GROUP, averaged, lead_of, nothing, outside, place_of, put_nans, shared
from ._staging import SOON, STAGE, begins_line, flush, staged, stream_lines, streams
from .sliding import farthest, pixel_slides

# Taps, up to which this kernel is the faster in channels-last memory, with indices or without.
FEW_TAPS, FEW_TAPS_INDEXED = 12, 30
FEW_TAPS_NARROWER = 49  # the same of indices where registers are narrower than a vector
MORE_TAPS = 256  # up to which it is where windows have few elements in common: 4x4/4, 7x7/7 in 0.5 to 0.7 of the time
MANY_VECTORS = 16  # of results, so many that a list of as many taps is worth making
SOME_TAPS = 18  # up to which it is for maxima alone, however many windows hold an element
FEW_TAPS_NARROW = 4  # up to which it is with 9 to 16 channels: 2x2/2 in 0.5 to 0.85 of the time
LONG_RUN = 4  # windows in a row that are alike, so many that they are worth a call
HALF_PAGE = 1 << 11  # bytes


def plan_few(job: Job) -> Plan | None:
    """Half a vector of channels last, or more, and up to four taps."""
    if (job.last and LANES // 2 < job.channels <= LANES and job.taps <= FEW_TAPS_NARROW
            and job.outputs > LANES // 2):
        return pixel_plan(job, plan_few)
    return None


def plan(job: Job) -> Plan | None:
    """Many channels last, and windows of few taps, or with few elements in common, or alike along rows."""
    if not job.last or job.channels <= LANES // 2:
        return None
    many = job.channels > LANES
    few = (FEW_TAPS_INDEXED if wide_registers() else FEW_TAPS_NARROWER) if job.indexed else FEW_TAPS
    if (many and job.taps <= few) or has_little_in_common(job):
        return pixel_plan(job, plan)
    # Half a vector in use is enough where many windows in a row are alike: 3x3/2 of 16 channels in 0.7 of the time,
    # 0.53 with indices; but the gradient of such averages, whose elements are by turns in one and in two, in 2.7.
    alike = job.taps <= FEW_TAPS and runs_alike(job.axes[2]).max(initial=0) >= LONG_RUN
    return pixel_plan(job, plan) if alike else None


def has_little_in_common(job):
    """Whether windows have so few elements in common, and are in the caches, that tap by tap is the faster."""
    vectors = job.images * -(-job.channels // LANES)
    if not (job.taps <= MORE_TAPS and job.nbytes < FAR and job.outputs * vectors >= MANY_VECTORS):
        return False  # others ask for what comes
    loads, elements = job.taps * job.outputs, job.size
    # Nor averages where pixels are half a page apart: their lines are in the same few places of the first cache.
    spread = not job.summed or job.channels * FLOAT32 % HALF_PAGE != 0
    if spread and loads <= (4 if job.indexed else 3) * elements:
        return True
    # Maxima alone are quicker: of 48 to 256 channels 4x4/2 takes 0.5 to 0.8 of the time, 5x5/2 0.67 to 0.9, 6x6/2
    # 0.76 to 1, 4x4/1 0.7 to 0.8; but 7x7/2 1 to 1.4, 5x5/1 0.7 to 1.2, and of 32 channels 5x5/2 1.2.
    alone = not job.summed and not job.indexed
    return alone and job.channels > GROUP and (loads <= SHARED * elements or job.taps <= SOME_TAPS)


def pixel_plan(job, rule):
    light = not job.gradient and job.most <= FEW_TAPS_NARROW
    return job.plan(window_pixels, job.rows, (None,), rule=rule, light=light)





ROWS = 1 << 15  # elements of an input, not all of which fit the first cache, that are walked more than once


NINE = 9  # taps, up to which a window in channels-last memory has no loop over them


@inlined
def no():
    """False, of no type of its own: what takes a literal is compiled once more for it."""
    return bool(0)


@helper
def tap_lists(most):
    """Room for the taps of windows of every extent up to the largest, as distances from the first tap: in pixels and
    in elements. A list that was not made begins with a hop other than 0.
    """
    size = max(most, 1) * max(most, NINE)
    places, hops = np.empty(size, np.int32), np.empty(size, np.int64)
    for i in range(0, size, max(most, NINE)):
        hops[i] = -1
    return places, hops


@helper
def list_taps(hops, places, first, nd, nh, nw, g, by_rows):
    """A list for windows of so many taps along the axes, by rows or by columns. Behind a short one stands its first tap
    again, which changes no maximum, and its place only where that is NaN: `put_nans` then looks for it anyway.
    """
    for tap in range(max(nd * nh * nw, NINE)):
        d = h = w = 0
        if tap < nd * nh * nw:
            if by_rows:
                d, h, w = tap // (nh * nw), tap // nw % nh, tap % nw
            else:
                d, h, w = tap % (nd * nh) // nh, tap % nh, tap // (nd * nh)
        place = (d * g[STEP] * g[HEIGHT] + h * g[STEP + 1]) * g[WIDTH] + w * g[STEP + 2]
        places[first + tap], hops[first + tap] = place, place * g[CHANNELS]


def shifted_from(x, index):
    """How long pixels are whose vectors are shifted to where cache lines begin."""


@by_types(shifted_from)
def _shifted_from(x, index):
    many = 4 * GROUP if record_kind(x) or not isinstance(index, types.NoneType) else 3 * LANES
    if not wide_registers():
        many = LIMIT  # smaller ones straddle fewer lines, and masks are slow: 2x2/2 of 96 channels in 1.5 of the time
    return lambda x, index: many


def window_at(x, at, index, divisor, lists, taps, short, mask, none, pad):
    """(reduction, place of the winner) of sixteen windows that begin at x[at], in as many channels; the place counts
    from the first tap, -1 if there is none, and is looked for unless `index` is None.

    `taps` says where their list of taps begins, how many it has, and how many to a column; `short` is its first nine
    hops and places.
    """


# What the types of arguments choose is compiled alone: of branches on None Numba leaves out only those not taken where
# it is None.


@overload(window_at, jit_options=INLINED)
def _window_at(x, at, index, divisor, lists, taps, short, mask, none, pad):
    if not isinstance(index, types.NoneType):
        return first_largest_at
    return largest_at if isinstance(divisor, types.NoneType) else sum_at


def first_largest_at(x, at, index, divisor, lists, taps, short, mask, none, pad):
    hops, places = lists
    first, taken, _ = taps
    (a, b, c, d, e, f, g, h, i), nine_at = short
    p, q, r, s = nine_at[:4]
    result, place = none, indices(-1, 0)
    if 0 < taken <= 4:
        result, place = first_largest_tap(x, at, (a, b, c, d), (p, q, r, s), mask, pad)
    elif 0 < taken <= NINE:
        result, place = first_largest_tap(x, at, (a, b, c, d, e, f, g, h, i), nine_at, mask, pad)
    elif taken > 0:
        result, place = first_largest_tap(x, at, (0,), (0,), mask, pad)
        for tap in range(first + 1, first + taken):
            v = load_some(x, at + number(hops, tap), mask, pad)
            place = select(overtakes(v, result), indices(number(places, tap), 0), place)
            result = greater(finite_or_inf(v), result)
    return result, place


def largest_at(x, at, index, divisor, lists, taps, short, mask, none, pad):
    hops, result = lists[0], none
    first, taken, _ = taps
    a, b, c, d, e, f, g, h, i = short[0]
    if 0 < taken <= 4:
        result = largest_tap(x, at, (a, b, c, d), mask, pad)
    elif 0 < taken <= NINE:
        result = largest_tap(x, at, (a, b, c, d, e, f, g, h, i), mask, pad)
    else:
        for tap in range(first, first + taken):
            result = greater(finite_or_inf(load_some(x, at + number(hops, tap), mask, pad)), result)
    return result, indices(-1, 0)


def sum_at(x, at, index, divisor, lists, taps, short, mask, none, pad):
    hops, result = lists[0], none
    first, taken, tall = taps
    a, b, c, d, e, f, g, h, i = short[0]
    if taken == 1:
        result = sum_of_taps(x, at, ((a,),), mask, pad, none)
    elif taken == 2:  # of two columns or one: a row is summed as a column is
        result = sum_of_taps(x, at, ((a, b),), mask, pad, none)
    elif taken == 3:
        result = sum_of_taps(x, at, ((a, b, c),), mask, pad, none)
    elif taken == 4 and tall == 2:
        result = sum_of_taps(x, at, ((a, b), (c, d)), mask, pad, none)
    elif taken == 6 and tall == 2:
        result = sum_of_taps(x, at, ((a, b), (c, d), (e, f)), mask, pad, none)
    elif taken == 6 and tall == 3:
        result = sum_of_taps(x, at, ((a, b, c), (d, e, f)), mask, pad, none)
    elif taken == 8 and tall == 2:
        result = sum_of_taps(x, at, ((a, b), (c, d), (e, f), (g, h)), mask, pad, none)
    elif taken == 8 and tall == 4:
        result = sum_of_taps(x, at, ((a, b, c, d), (e, f, g, h)), mask, pad, none)
    elif taken == NINE and tall == 3:
        result = sum_of_taps(x, at, ((a, b, c), (d, e, f), (g, h, i)), mask, pad, none)
    else:  # with 1x4 and 1x8 among those above LLVM turns operands around, and NaN has another sign than channels first
        tap = first
        while tap < first + taken:
            column, bottom = none, tap + tall
            while tap < bottom:
                column = add(column, convert(none, load_some(x, at + number(hops, tap), mask, pad)))
                tap += 1
            result = add(result, column)
    return result, indices(-1, 0)


@inlined
def pixel_vector(x, y, index, at, out, spot, count, lists, taps, short, mask, past, divisor, reciprocal, none, pad,
                 top):
    """Sixteen windows that begin at x[at], with the index `spot`, to y[out]. Returns the larger of `top` and them."""
    a, place = window_at(x, at, index, divisor, lists, taps, short, mask, none, pad)
    if divisor is None:
        top = greater(a, top)
    a = averaged(a, divisor, reciprocal, count, splat(none, 1))
    put(y, out, convert(y, a), mask, past)
    if index is not None:
        put(index, out, add(place, indices(spot, 0)), mask, past)
    return top


@helper
def short_block(x, y, index, begin, along, down, count, lists, taps, divisor, reciprocal, none, pad, top):
    """The same as `pixel_block` for pixels of a vector or less, and of one tap or more, which go to the caches: 16
    channels in 0.85 of the time, 12 in 0.6 to 0.7. It is for what is not asked for, which takes registers: with indices
    0.9.
    """
    run, advance, step, beside, long, _ = along
    rows, down_at, down_spot, down_out, _ = down
    short = nine_numbers(lists[0], taps[0]), nine_numbers(lists[1], taps[0])
    part = lanes_inside(0, long)
    at, spot, out, _ = begin
    left = run
    for _ in range(rows * run):
        if long == LANES:
            top = pixel_vector(x, y, index, at, out, spot, count, lists, taps, short, None, no(), divisor, reciprocal,
                               none, pad, top)
        else:
            top = pixel_vector(x, y, index, at, out, spot, count, lists, taps, short, part, no(), divisor, reciprocal,
                               none, pad, top)
        at, spot, out = at + advance, spot + step, out + beside
        left -= 1
        if left == 0:
            left = run
            at, spot, out = at + down_at - run * advance, spot + down_spot - run * step, out + down_out - run * beside
    return top


@helper
def pixel_block(x, y, index, begin, along, down, count, shift, lists, taps, asking, past, divisor, reciprocal, none,
                pad, top):
    """A block of the output whose windows have the same taps: `rows` of `run` pixels each, of `long` elements, which
    may be several pixels, if taps follow each other as they do. Returns the larger of `top` and all of them.

    To `begin` with, a window is at x[at], has the index `spot` and is y[out], and x[ahead] is asked for; `along` and
    `down` say by how much these grow from a pixel to the next, and from a row.

    A function of its own, so small that LLVM keeps what it needs in registers: within the walk over all rows a pixel of
    64 channels took 1.3 times as long; and row by row 2x2/2 of 8x8 images of 32 channels takes 1.7 times.
    """
    run, advance, step, beside, long, per = along
    rows, down_at, down_spot, down_out, down_ahead = down
    line, far = asking
    short = nine_numbers(lists[0], taps[0]), nine_numbers(lists[1], taps[0])
    begins = LANES - shift if shift else 0
    wrapped = lanes_inside(-shift, long), long
    at, spot, out, ahead = begin
    left = run
    for _ in range(rows * run):
        ask(x, ahead, ahead + per, line, far)
        ahead += per
        c = begins
        while c <= long - GROUP:
            a, p = window_at(x, at + c, index, divisor, lists, taps, short, None, none, pad)
            b, q = window_at(x, at + c + LANES, index, divisor, lists, taps, short, None, none, pad)
            if divisor is None:
                top = greater(a, greater(b, top))
            a = averaged(a, divisor, reciprocal, count, splat(none, 1))
            b = averaged(b, divisor, reciprocal, count, splat(none, 1))
            put(y, out + c, convert(y, a), None, past)
            put(y, out + c + LANES, convert(y, b), None, past)
            if index is not None:
                first = indices(spot, 0)
                put(index, out + c, add(p, first), None, past)
                put(index, out + c + LANES, add(q, first), None, past)
            c += GROUP
        if c <= long - LANES:
            top = pixel_vector(x, y, index, at + c, out + c, spot, count, lists, taps, short, None, past, divisor,
                               reciprocal, none, pad, top)
            c += LANES
        if shift:  # the first elements, and the last, in the lanes before them
            top = pixel_vector(x, y, index, at - shift, out - shift, spot, count, lists, taps, short, wrapped, no(),
                               divisor, reciprocal, none, pad, top)
        elif c < long and index is not None and long >= LANES:
            # The last vector reaches back: masks, of indices as well, would take 1.1 to 1.2 times as long; but of
            # values alone none, and are the faster for half a vector, which crosses fewer lines.
            c = long - LANES
            top = pixel_vector(x, y, index, at + c, out + c, spot, count, lists, taps, short, None, past, divisor,
                               reciprocal, none, pad, top)
        elif c < long:
            top = pixel_vector(x, y, index, at + c, out + c, spot, count, lists, taps, short, lanes_inside(c, long),
                               past, divisor, reciprocal, none, pad, top)
        at, spot, out = at + advance, spot + step, out + beside
        left -= 1
        if left == 0:  # a loop over rows around this one makes LLVM write all of it anew for each condition
            left = run
            at, spot, out = at + down_at - run * advance, spot + down_spot - run * step, out + down_out - run * beside
            ahead += down_ahead - run * per
    return top


@inlined
def passed(x, y, at, out, hops, again, mask, none, pad, top):
    """Sixteen maxima over nine taps from x[at] on, and of what stands there if `again`, to y[out]. Returns the larger
    of `top` and them.
    """
    a = largest_tap(x, at, hops, mask, pad)
    if again:
        a = greater(a, load_some(y, out, mask, pad))
    put(y, out, convert(y, a), mask, False)
    return greater(a, top)


def pixel_passes(x, y, index, divisor, begin, along, down, shift, lists, taps, none, pad, top):
    """The same as `pixel_block` for maxima of more than nine taps: nine at a time, over all channels, which are then as
    many streams of lines. One vector after the other would jump from pixel to pixel: 7x7 of 512 channels takes 1.6
    times as long. Nothing is asked for.
    """


@by_types(pixel_passes)
def _pixel_passes(x, y, index, divisor, begin, along, down, shift, lists, taps, none, pad, top):
    if not isinstance(index, types.NoneType) or not isinstance(divisor, types.NoneType):
        # Never called: compiled for nothing it would take a third of a second.
        return lambda x, y, index, divisor, begin, along, down, shift, lists, taps, none, pad, top: top
    return passes


def passes(x, y, index, divisor, begin, along, down, shift, lists, taps, none, pad, top):
    run, advance, _, beside, long, _ = along
    rows, down_at, _, down_out, _ = down
    first, taken, _ = taps
    begins = LANES - shift if shift else 0
    wrapped, part = (lanes_inside(-shift, long), long), long % LANES
    at, _, out, _ = begin
    left = run
    for _ in range(rows * run):
        for tap in range(first, first + taken, NINE):  # the last nine reach back
            hops, again = nine_numbers(lists[0], min(tap, first + taken - NINE)), tap > first
            c = begins
            while c <= long - LANES:
                top = passed(x, y, at + c, out + c, hops, again, None, none, pad, top)
                c += LANES
            if shift:
                top = passed(x, y, at - shift, out - shift, hops, again, wrapped, none, pad, top)
            elif part:
                top = passed(x, y, at + c, out + c, hops, again, lanes_inside(0, part), none, pad, top)
        at, out = at + advance, out + beside
        left -= 1
        if left == 0:
            left = run
            at, out = at + down_at - run * advance, out + down_out - run * beside
    return top


def scratch_of(scratch, x, y, index, g):
    """(places, hops, stage, stage_index): a caller's, or new ones if it has None."""


@by_types(scratch_of)
def _scratch_of(scratch, x, y, index, g):
    if not isinstance(scratch, types.NoneType):
        return lambda scratch, x, y, index, g: scratch

    def make(scratch, x, y, index, g):
        room = SOON + g[CHANNELS] + LANES
        size = room if streams(y, x, index) and room <= 8 * STAGE else 0
        places, hops = tap_lists(g[TAPS])
        stage, stage_index = y[:0], places[:0]  # to allocate nothing takes time, too
        if size:
            stage = staged(y, size)
            if index is not None:
                stage_index = staged(index, size, True)
        return places, hops, stage, stage_index

    return make


@worker
def window_pixels(lo, hi, x, y, index, divisors, scratch, g):
    """Rows [lo, hi) of the output, counted through all images, in channels-last memory: the lanes are channels, so that
    any window is the same walk over whole vectors, along a list of its taps that neighbouring windows share.

    Vectors of channels go in pairs without masks, and what is left one by one. `scratch` is None, or the memory of a
    caller for whom it takes too long to allocate, for a small image: `places` and `hops` are of `tap_lists`, row-major
    for an argmax and else column by column; the stages take results where these are streamed.
    """
    places, hops, stage, stage_index = scratch_of(scratch, x, y, index, g)
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    none = nothing(x, divisors)
    divisor, reciprocal = shared(divisors)
    pad = outside(x, divisors)
    streaming = stage.size > 0
    source, to, to_index, lists = memory(x), memory(y), memory(index), (memory(hops), memory(places))
    if streaming:
        to = memory(stage)
        if index is not None:
            to_index = memory(stage_index)
    most, most_h, most_w = max(g[TAPS], NINE), g[MOST_H], g[MOST_W]
    gathered, done = 0, lo * OW * C
    share, line = D * H * W * C // (OD * OH), 64 // x.itemsize
    asking, far, top = asks(x, ASKED_LATE), is_far(x), none
    lead = lead_of(x, g, share, W * C, far)
    past = streaming and C % LANES == 0 and begins_line(y, index)
    # Loads that straddle cache lines cost twice, and NumPy's large arrays begin 16 bytes behind a line. Channels before
    # the first are masked off: one vector more, which pays where there are many, of four taps or more. 3x3/2 of 13x13
    # planes of 256 channels takes 0.83 of the time, 0.92 with indices.
    behind = misaligned(x, 0) if C % LANES == 0 and not past else 0
    many = shifted_from(x, index)
    sliding = farthest(x) if index is None and dw == 1 and C >= LANES and not asking else 0
    filled = 3 * LANES * -(-C // LANES) <= 4 * C  # or one long pixel has fewer vectors: 3x3/1 of 17 in 0.85 of the time
    if past:
        streaming, to, to_index = False, memory(y), memory(index)
    # Windows that are alike may have others between them: the gradient of 3x3/2 averages in 0.5 to 0.7 of the time, of
    # 256 channels in 0.93. What is staged comes in order.
    apart = min(g[APART], OW)
    hop = 1 if streaming else apart
    per = -(-share * hop // OW) if asking else 0
    # So many rows of the output are alike, from each on: of an image, or of all where no index begins anew with each.
    alike = HEADER + 3 * OD + 3 * OH + 4 * OW
    pitch = D * H * W * C
    if OH > 1:
        pitch = (g[HEADER + 3 * OD + 1] - g[HEADER + 3 * OD]) * W * C
    endless = index is None and OD == 1 and g[alike] == OH and OH * pitch == D * H * W * C
    row = lo
    while row < hi:
        n, od, oh = place_of(row, OD, OH)
        t = HEADER
        d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
        t += 3 * OD
        h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
        rows, down = hi - row, pitch
        if not endless:
            rows = min(rows, g[alike + oh])
            down = (g[t + oh + 1] - h0) * W * C if rows > 1 else 0
        t += 3 * OH
        if streaming:
            rows = 1
        elif asking or g[t + 3 * OW] < OW:  # what is asked for, or walked again for the next run
            rows = min(rows, max(1, (AHEAD if asking else ROWS) // max(share, 1)))
        nd = d1 - d0 if dd == 1 else (d1 - d0 + dd - 1) // dd
        nh = h1 - h0 if dh == 1 else (h1 - h0 + dh - 1) // dh
        spot = (d0 * H + h0) * W
        ahead = n * D * H * W * C + (od * OH + oh) * share + lead
        row_lists = ((nd - 1) * most_h + nh - 1) * most_w
        ow = phase = 0
        while phase < hop:
            wide = g[t + OW + ow] - g[t + ow]
            nw = wide if dw == 1 else (wide + dw - 1) // dw
            first, taken = 0, 0  # its list of taps: none
            if nd > 0 and nh > 0 and nw > 0:
                first, taken = (row_lists + nw - 1) * most, nd * nh * nw
                if hops[first]:
                    list_taps(hops, places, first, nd, nh, nw, g, index is not None)
            start, run = g[t + ow], g[t + 3 * OW + ow]
            step = g[t + ow + hop] - start if run > 1 else 0
            # Windows a pixel apart: their taps follow each other as they do, so that without indices they are one long
            # pixel: 3x3/1 of 24 channels takes 0.67 of the time, of 192 0.85. Not too long a one, before which all that
            # comes after it is asked for.
            slides = (nd * nh == 3 and nw == 3 and run > 1 == hop and 1 <= step <= sliding and (step > 1 or filled)
                      and not streaming and not past)
            flat = index is None and step == 1 == hop and not slides
            if flat:
                run = min(run, STAGE // C + 1)
            if streaming:
                run = 1 if apart > 1 else min(run, (SOON - gathered) // C + 1)
            pixels, long = (1, run * C) if flat else (run, C)
            asked = 0 if phase else per * (run // pixels)
            shift = behind if long >= many and taken >= 4 else 0
            begin = ((n * D * H * W + spot + start) * C, spot + start if taken else 0,
                     gathered if streaming else (row * OW + ow) * C, ahead)
            along = (pixels, step * C, step if taken else 0, hop * C, long, asked)
            below = (rows, down, down // C if taken else 0, OW * C, share)
            among, count = (first, taken, nd * nh), taps * g[t + 2 * OW + ow]
            if slides:
                top = pixel_slides(source, to, to_index, begin, along, below, C, lists, among, count, divisor,
                                   reciprocal, none, pad, top)
            elif index is None and divisors is None and taken > NINE and not asking and not past:
                top = pixel_passes(source, to, to_index, divisor, begin, along, below, shift, lists, among, none, pad,
                                   top)
            elif long <= LANES and taken and not past and not asking:
                top = short_block(source, to, to_index, begin, along, below, count, lists, among, divisor, reciprocal,
                                  none, pad, top)
            else:
                top = pixel_block(source, to, to_index, begin, along, below, count, shift, lists, among, (line, far),
                                  past, divisor, reciprocal, none, pad, top)
            ow, ahead = ow + run * hop, ahead + run * per
            if ow >= OW:  # on to those that lie between
                phase += 1
                ow = phase
            if streaming:
                gathered += run * C
                if gathered >= SOON:
                    gathered, done = stream_lines(stage, stage_index, y, index, done, gathered)
        row += rows
    if streaming:
        flush(stage, 0, gathered, y, done, True)
        if index is not None:
            flush(stage_index, 0, gathered, index, done, True)
    if past or streaming:
        fence()
    put_nans(top, lo * OW * C, hi * OW * C, x, y, index, divisors, g, C)
    return 0


# For kernels that call it: without what Python needs to.
pixel_rows = helper(getattr(window_pixels, "py_func", window_pixels))
