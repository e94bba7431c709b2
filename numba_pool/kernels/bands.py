"""Windows of many taps in channels-last memory, whose lanes are channels: rows first, then along them."""

from .._windows import BEFORE, CHANNELS, DEPTH, HEADER, HEIGHT, KERNEL, OUT_D, OUT_H, OUT_W, STEP, STRIDE, WIDTH
from ..simd import (
    LANES,
    NOWHERE,
    any_inf,
    convert,
    finite_or_inf,
    first_of,
    greater,
    indices,
    lanes_inside,
    larger,
    load,
    load_some,
    mark_nan,
    memory,
    or_nan,
    overtakes,
    select,
    splat,
    store,
    store_some,
    unmark,
)
from ._asking import ASKED_LATE, ask, asks, is_far
from ._compile import helper, worker
from ._job import Call, Windows
from ._reductions import (
    GROUP,
    averaged,
    lead_of,
    nothing,
    numbers,
    outside,
    place_of,
    room_for_indices,
    shared,
    with_tap,
)


def plan(job: Windows) -> Call | None:
    """Any other windows of many channels last."""
    return job.call(window_bands, job.rows) if job.last else None


@helper
def band_size(divisors, g):
    """(width, passes) of the doubling along a row, and its columns before the image and altogether."""
    W, OW, dw = g[WIDTH], g[OUT_W], g[STEP + 2]
    S, K, before = g[STRIDE + 2], g[KERNEL + 2], g[BEFORE + 2]
    width, passes = 1, 0
    span = (OW - 1) * S + (K - 1) * dw + 1
    if divisors is not None or S <= 0 or K <= 3 or span >= 4 * W + 1024:
        return width, passes, 0, W
    while 2 * width <= K:
        width, passes = 2 * width, passes + 1
    return width, passes, before, max(before + W, span + width * dw)


@worker
def window_bands(lo, hi, x, y, index, divisors, g):
    """Rows [lo, hi) of the output, counted through all images, in channels-last memory, for windows of many taps.

    For 32 channels at a time the rows of a window are reduced into one buffered row of pixels, with margins that hold
    nothing, and the windows are reduced along it: maxima by doubling, windows of 1, 2, 4, ... columns, so that the cost
    of a column grows with log2 of the window's width; sums from left to right.
    """
    _, _, _, pixels = band_size(divisors, g)
    values = numbers(x, divisors, pixels * GROUP)
    places = room_for_indices(index, pixels * GROUP)
    band_rows(lo, hi, x, y, index, divisors, g, values, places)
    return 0


@helper
def band_rows(lo, hi, x, y, index, divisors, g, values, places):
    """The walk of `window_bands`, in memory of its caller's."""
    C, D, H, W = g[CHANNELS], g[DEPTH], g[HEIGHT], g[WIDTH]
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    dd, dh, dw = g[STEP], g[STEP + 1], g[STEP + 2]
    S, K = g[STRIDE + 2], g[KERNEL + 2]
    none, pad = nothing(x, divisors), outside(x, divisors)
    divisor, reciprocal = shared(divisors)
    nowhere = indices(NOWHERE, 0)
    width, passes, left, pixels = band_size(divisors, g)
    asking, far, source = asks(x, ASKED_LATE), is_far(x), memory(x)
    share, line = D * H * W * C // (OD * OH), 64 // x.itemsize
    per, lead = -(-share // (-(-C // GROUP) * pixels)) if asking else 0, lead_of(x, g, share, W * C, far)
    for row in range(lo, hi):
        n, od, oh = place_of(row, OD, OH)
        t = HEADER
        d0, d1, taps = g[t + od], g[t + OD + od], g[t + 2 * OD + od]
        t += 3 * OD
        h0, h1, taps = g[t + oh], g[t + OH + oh], taps * g[t + 2 * OH + oh]
        t += 3 * OH
        ahead = n * D * H * W * C + (od * OH + oh) * share + lead
        for c in range(0, C, GROUP):
            m0, m1 = lanes_inside(0, C - c), lanes_inside(LANES, C - c)
            for i in range(pixels):
                ask(source, ahead, ahead + per, line, far)
                ahead += per
                w = i - left
                a, b = none, none
                if index is not None:
                    ia, ib = nowhere, nowhere
                if 0 <= w < W:
                    d = d0
                    while d < d1:
                        h = h0
                        while h < h1:
                            spot = (d * H + h) * W + w
                            at = (n * D * H * W + spot) * C + c
                            v = convert(none, load_some(x, at, m0, pad))
                            u = convert(none, load_some(x, at + LANES, m1, pad))
                            if index is not None:
                                if d == d0 and h == h0:
                                    a, b = finite_or_inf(v), finite_or_inf(u)
                                    ia, ib = indices(spot, 0), indices(spot, 0)
                                else:
                                    ia = select(overtakes(v, a), indices(spot, 0), ia)
                                    ib = select(overtakes(u, b), indices(spot, 0), ib)
                                    a, b = greater(finite_or_inf(v), a), greater(finite_or_inf(u), b)
                            elif divisors is None:
                                a, b = greater(finite_or_inf(v), a), greater(finite_or_inf(u), b)
                            else:
                                a, b = with_tap(a, v, divisor), with_tap(b, u, divisor)
                            h += dh
                        d += dd
                    if divisors is None and (any_inf(a) or any_inf(b)):
                        for d in range(d0, d1, dd):
                            for h in range(h0, h1, dh):
                                at = (((n * D + d) * H + h) * W + w) * C + c
                                a = or_nan(a, convert(a, load_some(x, at, m0, pad)))
                                b = or_nan(b, convert(b, load_some(x, at + LANES, m1, pad)))
                store(values, i * GROUP, a)
                store(values, i * GROUP + LANES, b)
                if index is not None:
                    store(places, i * GROUP, mark_nan(a, ia))
                    store(places, i * GROUP + LANES, mark_nan(b, ib))
            step = dw * GROUP
            for _ in range(passes):
                for i in range(0, pixels * GROUP - step, LANES):
                    if index is not None:
                        r, ri = first_of(load(values, i + step), load(places, i + step), load(values, i),
                                         load(places, i))
                        store(places, i, ri)
                    else:
                        r = larger(load(values, i + step), load(values, i))
                    store(values, i, r)
                step *= 2
            for ow in range(OW):
                count = taps * g[t + 2 * OW + ow]
                if passes:
                    first = ow * S * GROUP
                    end = first + (K - width) * dw * GROUP + 1
                    hop = max((K - width) * dw, 1) * GROUP
                else:
                    first, end, hop = g[t + ow] * GROUP, g[t + OW + ow] * GROUP, dw * GROUP
                for half in range(0, GROUP, LANES):
                    m = lanes_inside(half, C - c)
                    r = none
                    out = (row * OW + ow) * C + c + half
                    i = first
                    if index is not None:
                        ri = nowhere
                        while i < end:
                            r, ri = first_of(load(values, i + half), load(places, i + half), r, ri)
                            i += hop
                        store_some(index, out, unmark(ri), m)
                    else:
                        while i < end:
                            r = with_tap(r, load(values, i + half), divisor)
                            i += hop
                    r = averaged(r, divisor, reciprocal, count, splat(none, 1))
                    store_some(y, out, convert(y, r), m)
