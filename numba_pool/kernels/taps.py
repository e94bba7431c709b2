"""Windows in channels-last memory, whose lanes are channels, tap by tap."""

import numpy as np
from numba import types

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
)
from ..simd import (
    LANES,
    fence,
    memory,
    misaligned,
    record_kind,
    wide_registers,
)
from ._asking import AHEAD, ASKED_LATE, FAR, asks, is_far
from ._compile import by_types, helper, worker
from ._job import FLOAT32, SHARED, Call, Windows
from ._reductions import GROUP, held_by, lead_of, nothing, outside, place_of, put_nans, shared
from ._staging import begins_line, streams
from ._taps import NINE, pixel_block, pixel_passes

# Taps, up to which this kernel is the faster in channels-last memory, with indices or without.
FEW_TAPS, FEW_TAPS_INDEXED = 12, 30
FEW_TAPS_NARROWER = 49  # the same of indices where registers are narrower than a vector
MORE_TAPS = 256  # up to which it is where windows have few elements in common: 4x4/4, 7x7/7 in 0.5 to 0.7 of the time
MANY_VECTORS = 16  # of results, so many that a list of as many taps is worth making
SOME_TAPS = 18  # up to which it is for maxima alone, however many windows hold an element
FEW_TAPS_NARROW = 4  # up to which it is with 9 to 16 channels: 2x2/2 in 0.5 to 0.85 of the time
LONG_RUN = 4  # windows in a row that are alike, so many that they are worth a call
HALF_PAGE = 1 << 11  # bytes


def plan_few(job: Windows) -> Call | None:
    """Half a vector of channels last, or more, and up to four taps."""
    if (job.last and LANES // 2 < job.channels <= LANES and job.taps <= FEW_TAPS_NARROW
            and job.outputs > LANES // 2):
        return pixel_plan(job)
    return None


def plan(job: Windows) -> Call | None:
    """Many channels last, and windows of few taps, or with few elements in common, or alike along rows."""
    if not job.last or job.channels <= LANES // 2:
        return None
    many = job.channels > LANES
    few = (FEW_TAPS_INDEXED if wide_registers() else FEW_TAPS_NARROWER) if job.indexed else FEW_TAPS
    if (many and job.taps <= few) or has_little_in_common(job):
        return pixel_plan(job)
    # Half a vector in use is enough where many windows in a row are alike: 3x3/2 of 16 channels in 0.7 of the time,
    # 0.53 with indices; but the gradient of such averages, whose elements are by turns in one and in two, in 2.7.
    alike = job.taps <= FEW_TAPS and job.axes[2].neighbours.max(initial=0) >= LONG_RUN
    return pixel_plan(job) if alike else None


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


def pixel_plan(job):
    light = not job.gradient and job.most <= FEW_TAPS_NARROW
    return job.call(window_taps, job.rows, light=light)


LONG_PIXEL = 1 << 11  # elements of a run of pixels that is walked as one
ROWS = 1 << 15  # elements of an input, not all of which fit the first cache, that are walked more than once


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
    """Write the list of windows that have so many taps along the axes: row by row, or column by column.

    A list of fewer than nine taps ends with its first tap, again and again, until there are nine. The same element once
    more does not change a maximum. Its place would change if the element is NaN; but the places of all NaN are found
    anew at the end, by `put_nans`.
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


@worker
def window_taps(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all images, in channels-last memory: the lanes are channels, so that
    any window is the same walk over whole vectors, along a list of its taps that neighbouring windows share.
    """
    places, hops = tap_lists(g[TAPS])
    tap_rows(lo, hi, x, y, index, divisors, hops, places, g)
    return 0


@helper
def tap_rows(lo, hi, x, y, index, divisors, hops, places, g):
    """The walk of `window_taps`, with lists of its caller's: by rows for an argmax, and else column by column."""
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    source, to, to_index, lists = memory(x), memory(y), memory(index), (memory(hops), memory(places))
    most, most_h, most_w = max(g[TAPS], NINE), g[MOST_H], g[MOST_W]
    share, line, top = D * H * W * C // (OD * OH), 64 // x.itemsize, none
    asking, far = asks(x, ASKED_LATE), is_far(x)
    lead = lead_of(x, g, share, W * C, far)
    past = streams(y, x, index) and C % LANES == 0 and begins_line(y, index)
    # Loads that straddle cache lines cost twice, and NumPy's large arrays begin 16 bytes behind a line. Channels before
    # the first are masked off: one vector more, which pays where there are many channels, of four taps or more.
    behind = misaligned(x, 0) if C % LANES == 0 and not past else 0
    many = shifted_from(x, index)
    apart = min(g[APART], OW)  # windows that are alike may have others between them
    per = -(-share * apart // OW) if asking else 0
    # So many rows of the output are alike, from each on: of an image, or of all where no index begins anew with each.
    alike = HEADER + 3 * OD + 3 * OH + 4 * OW
    pitch = D * H * W * C
    if OH > 1:
        pitch = (g[HEADER + 3 * OD + 1] - g[HEADER + 3 * OD]) * W * C
    endless = index is None and OD == 1 and g[alike] == OH and OH * pitch == D * H * W * C
    row = lo
    while row < hi:
        n, od, oh = place_of(row, OD, OH)
        d0, d1, h0, h1, taps = held_by(od, oh, g)
        t = HEADER + 3 * OD
        rows, down = hi - row, pitch
        if not endless:
            rows = min(rows, g[alike + oh])
            down = (g[t + oh + 1] - h0) * W * C if rows > 1 else 0
        t += 3 * OH
        if asking or g[t + 3 * OW] < OW:  # what is asked for, or walked again for the next run
            rows = min(rows, max(1, (AHEAD if asking else ROWS) // max(share, 1)))
        nd, nh = (d1 - d0 + dd - 1) // dd, (h1 - h0 + dh - 1) // dh
        spot = (d0 * H + h0) * W
        ahead = n * D * H * W * C + (od * OH + oh) * share + lead
        row_lists = ((nd - 1) * most_h + nh - 1) * most_w
        ow = phase = 0
        while phase < apart:
            nw = (g[t + OW + ow] - g[t + ow] + dw - 1) // dw
            first, taken = 0, 0  # its list of taps: none
            if nd > 0 and nh > 0 and nw > 0:
                first, taken = (row_lists + nw - 1) * most, nd * nh * nw
                if hops[first]:
                    list_taps(hops, places, first, nd, nh, nw, g, index is not None)
            start, run = g[t + ow], g[t + 3 * OW + ow]
            step = g[t + ow + apart] - start if run > 1 else 0
            # Windows a pixel apart: their taps follow each other as they do, so that without indices they are one long
            # pixel. Not too long a one, before which all that comes after it is asked for.
            flat = index is None and step == 1 == apart
            if flat:
                run = min(run, LONG_PIXEL // C + 1)
            pixels, long = (1, run * C) if flat else (run, C)
            begin = ((n * D * H * W + spot + start) * C, spot + start if taken else 0, (row * OW + ow) * C, ahead)
            along = (pixels, step * C, step if taken else 0, apart * C, long, 0 if phase else per * (run // pixels))
            below = (rows, down, down // C if taken else 0, OW * C, share)
            among, count = (first, taken, nd * nh), taps * g[t + 2 * OW + ow]
            shift = behind if long >= many and taken >= 4 else 0
            if index is None and divisors is None and taken > NINE and not asking and not past:
                top = pixel_passes(source, to, to_index, divisor, begin, along, below, shift, lists, among, none, pad,
                                   top)
            else:
                top = pixel_block(source, to, to_index, begin, along, below, count, shift, lists, among, (line, far),
                                  past, divisor, reciprocal, none, pad, top)
            ow, ahead = ow + run * apart, ahead + run * per
            if ow >= OW:  # on to those that lie between
                phase += 1
                ow = phase
        row += rows
    if past:
        fence()
    put_nans(top, lo * OW * C, hi * OW * C, x, y, index, divisors, g, C)
