"""Windows in channels-last memory: lanes are channels, and the elements of a window are taken one after the other."""

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
    infinite_lanes,
    memory,
    misaligned,
    record_kind,
    wide_registers,
)
from ._asking import AHEAD, ASKED_LATE, FAR, asks, is_far
from ._compile import by_types, helper, worker
from ._job import FLOAT32, SHARED, Call, Windows
from ._reductions import GROUP, held_by, lead_of, nothing, outside, place_of, shared
from ._staging import begins_line, streams
from ._taps import NINE, pixel_block, pixel_passes
from .lines import keeps_rows

# Taps of a window, up to which this kernel is faster than `lines`: without indices, or where `lines` keeps the maxima
# of rows; with indices, if it does not; and the same where registers are narrower than a vector.
FEW_TAPS, FEW_TAPS_INDEXED = 12, 30
FEW_TAPS_NARROWER = 49
MORE_TAPS = 256  # up to which it is faster where windows have few elements in common, as those of 4x4/4 and 7x7/7
MANY_VECTORS = 16  # vectors of results, from which on it pays to make a list of up to `MORE_TAPS` taps
SOME_TAPS = 18  # up to which it is faster for maxima without indices, however many windows an element is in
FEW_TAPS_NARROW = 4  # up to which it is faster with 9 to 16 channels, and for float16 in narrow registers
NEAR = 8 << 20  # bytes of an array, below which `lines` is faster for windows with much in common
OFTEN = 2.5  # loads of an element by this kernel, at most, in narrow registers; not of maxima with indices
SOME_CHANNELS = 3 * LANES  # of more, it does not matter whether they fill vectors
LONG_RUN = 4  # alike windows side by side, from which on `pixel_block` is worth its start
HALF_PAGE = 1 << 11  # bytes


def plan_few(job: Windows) -> Call | None:
    """Nine to sixteen channels last, and windows of up to four elements."""
    if (job.last and LANES // 2 < job.channels <= LANES and job.taps <= FEW_TAPS_NARROW
            and job.outputs > LANES // 2):
        return pixel_plan(job)
    return None


def plan(job: Windows) -> Call | None:
    """More than eight channels last, and windows that are small, or have few elements in common, or are alike along
    rows.
    """
    if not job.last or job.channels <= LANES // 2 or is_slow(job):
        return None
    many = job.channels > LANES
    few = FEW_TAPS
    if job.indexed and not keeps_rows(job.axes[1]):
        few = FEW_TAPS_INDEXED if wide_registers() else FEW_TAPS_NARROWER
    if (many and job.taps <= few) or has_little_in_common(job):
        return pixel_plan(job)
    # Half a vector in use is enough where many windows side by side are alike: 3x3/2 maxima of 16 channels take 0.7 of
    # the time. The gradient of such averages has elements by turns in one window and in two, and would take 2.7 times
    # as long.
    alike = job.taps <= FEW_TAPS and job.axes[2].neighbours.max(initial=0) >= LONG_RUN
    return pixel_plan(job) if alike else None


def is_slow(job):
    """Whether this kernel takes longer than `lines`: for gradients of windows such as 5x5/2, whose elements are in two
    windows and in three by turns, and which take 0.8 of the time by `lines` if the caches hold the array; and in
    registers narrower than a vector for three kinds:

    - Maxima without indices, and sums of more than twelve elements, if the caches hold the array and this kernel loads
      each element several times: they take 0.65 to 0.85 of the time by `lines`.
    - Maxima of float16, since to convert it takes long, and this kernel does so for each window of an element: 0.3 to
      0.7.
    - Sums of pixels that leave a part of a vector, which takes long to be loaded: 0.3 to 0.8 for averages of bytes and
      halves, and for gradients of 3x3/2 averages.
    """
    near, some = job.nbytes < NEAR, job.taps > FEW_TAPS_NARROW
    width = job.windows[2]
    if job.gradient and near and some and width.stride == 2 and width.kernel % 2:
        return True
    if wide_registers():
        return False
    often = near and some and job.taps * job.outputs > OFTEN * job.size
    if not job.summed:
        return (often and not job.indexed) or (job.dtype == np.float16 and some)
    ragged = job.channels % LANES != 0 and job.channels < SOME_CHANNELS
    return (often and job.taps > FEW_TAPS) or (
        ragged and (job.dtype.itemsize < FLOAT32 or (job.gradient and width.stride > 1)))


def has_little_in_common(job):
    """Whether windows have so few elements in common that it is faster to take each element of each window than to
    reduce rows first. Only for arrays that fit the caches.
    """
    vectors = job.images * -(-job.channels // LANES)
    if not (job.taps <= MORE_TAPS and job.nbytes < FAR and job.outputs * vectors >= MANY_VECTORS):
        return False  # other kernels are faster from memory
    loads, elements = job.taps * job.outputs, job.size
    # Averages do not gain where pixels are half a page apart: all their lines fall into a few sets of the first cache.
    spread = not job.summed or job.channels * FLOAT32 % HALF_PAGE != 0
    if spread and loads <= (4 if job.indexed else 3) * elements:
        return True
    # Maxima without indices are quicker. For 48 to 256 channels 4x4/2 takes 0.5 to 0.8 of the time, 6x6/2 0.76 to 1;
    # but 7x7/2 takes 1 to 1.4 times as long, and 5x5/2 of 32 channels 1.2 times.
    alone = not job.summed and not job.indexed
    return alone and job.channels > GROUP and (loads <= SHARED * elements or job.taps <= SOME_TAPS)


def pixel_plan(job):
    light = not job.gradient and job.most <= FEW_TAPS_NARROW
    return job.call(window_taps, job.rows, light=light)


LONG_PIXEL = 1 << 11  # elements of several pixels that are walked as if they were one pixel, at most
WALKED_TOGETHER = 1 << 15  # elements of the input that are walked together, once for each kind of window


@helper
def tap_lists(most):
    """Two arrays for lists of taps: one list for every extent of a window, up to the largest. A tap is given by its
    distance from the window's first tap: in `places` as pixels, in `hops` as elements. The first hop of a list is 0;
    where the list has not been written yet, it is -1.
    """
    size = max(most, 1) * max(most, NINE)
    places, hops = np.empty(size, np.int32), np.empty(size, np.int64)
    for i in range(0, size, max(most, NINE)):
        hops[i] = -1
    return places, hops


@helper
def list_taps(hops, places, first, nd, nh, nw, g, by_rows):
    """Write the list of the taps of a window of extent (nd, nh, nw): row by row if `by_rows`, else column by column. It
    begins at `first` in both arrays.

    A window of fewer than nine taps is listed with nine: its first tap is repeated. To meet an element twice does not
    change a maximum. If the element is NaN, its index is wrong for a while: `nans.put_nans` finds it anew. Sums do not
    read the repeated taps.
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
    """How many elements a pixel must have so that its vectors are shifted to the beginnings of cache lines."""


@by_types(shifted_from)
def _shifted_from(x, index):
    many = 4 * GROUP if record_kind(x) or not isinstance(index, types.NoneType) else 3 * LANES
    if not wide_registers():
        many = LIMIT  # never: narrow registers straddle fewer lines, and masks are slow there
    return lambda x, index: many


@worker
def window_taps(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all images, in channels-last memory. Lanes are channels. So every
    window, whatever its shape, is reduced by whole vectors, along a list of its taps.
    """
    places, hops = tap_lists(g[TAPS])
    return tap_rows(lo, hi, x, y, index, divisors, hops, places, g)


@helper
def tap_rows(lo, hi, x, y, index, divisors, hops, places, g):
    """The walk of `window_taps`, with lists from `tap_lists`. Taps are listed row by row if indices are wanted, since
    the first of equal elements wins, and else column by column, in the order of sums.
    """
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
    # A load that straddles two cache lines takes twice as long, and NumPy's large arrays begin 16 bytes behind a line.
    # So vectors are shifted to the beginnings of lines. That makes one vector more, with masks at both ends of a pixel,
    # and pays for many channels and four taps or more.
    behind = misaligned(x, 0) if C % LANES == 0 and not past else 0
    many = shifted_from(x, index)
    apart = min(g[APART], OW)  # alike windows may have others between them: they are this many windows apart
    per = -(-share * apart // OW) if asking else 0
    # At `alike` the table says, for each row of the output, how many rows from it on are alike. If all rows of an image
    # are, rows are walked through all images as if these were one; not with indices, which begin anew in each image.
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
        if asking or g[t + 3 * OW] < OW:  # not more rows than are asked for ahead, or than the cache holds between runs
            rows = min(rows, max(1, (AHEAD if asking else WALKED_TOGETHER) // max(share, 1)))
        nd, nh = (d1 - d0 + dd - 1) // dd, (h1 - h0 + dh - 1) // dh
        spot = (d0 * H + h0) * W
        ahead = n * D * H * W * C + (od * OH + oh) * share + lead
        row_lists = ((nd - 1) * most_h + nh - 1) * most_w
        ow = phase = 0
        while phase < apart:
            nw = (g[t + OW + ow] - g[t + ow] + dw - 1) // dw
            first, taken = 0, 0  # where the list of taps begins, and how many there are
            if nd > 0 and nh > 0 and nw > 0:
                first, taken = (row_lists + nw - 1) * most, nd * nh * nw
                if hops[first]:
                    list_taps(hops, places, first, nd, nh, nw, g, index is not None)
            start, run = g[t + ow], g[t + 3 * OW + ow]
            step = g[t + ow + apart] - start if run > 1 else 0
            # Where windows are a pixel apart, their taps are side by side as well. So without indices these windows are
            # walked as one long pixel; not too long a one, since memory is asked for before each pixel.
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
            if ow >= OW:  # on to the windows that lie between those
                phase += 1
                ow = phase
        row += rows
    if past:
        fence()
    return infinite_lanes(top)
