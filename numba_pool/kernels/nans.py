"""NaN is put back where a maximum is +inf.

Walks for maxima compare with +inf in the place of every NaN. A worker whose results hold +inf returns a number above 0.
Then the worker of this module looks at the windows of those results once more. It is compiled when it is first needed,
since NaN is rare. It knows windows by a few numbers, not by tables, which would have an entry for each window.

Where NaN is a missing element, walks compare with -inf in its place, and another worker looks at windows whose maximum
is that.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .._windows import BEFORE, CHANNELS, DEPTH, HEIGHT, KERNEL, LAST, OUT_D, OUT_H, OUT_W, STEP, STRIDE, WIDTH
from ..simd import (
    LANES,
    at_most,
    bits_of,
    equal,
    infinite_lanes,
    lanes_inside,
    load,
    load_some,
    mask_of,
    own_kind,
    splat,
    store_some,
)
from ._compile import helper, inlined, worker
from ._reductions import outside, place_of

# How many bits of a number are its exponent, and how many its fraction.
EXPONENTS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


@intrinsic
def is_nan(typingctx, x, i):
    """Whether x[i] is NaN."""
    ones, fraction = EXPONENTS[own_kind(x) or str(x.dtype)]
    ty = ir.IntType(1 + ones + fraction)

    def gen(ctx, b, sig, args):
        data = b.bitcast(ctx.make_array(x)(ctx, b, args[0]).data, ty.as_pointer())
        magnitude = b.and_(b.load(b.gep(data, [args[1]])), ty((1 << ones + fraction) - 1))
        return b.icmp_unsigned(">", magnitude, ty((1 << ones) - 1 << fraction))

    return types.boolean(x, types.int64), gen


@inlined
def window_along(axis, o, g):
    """Where window number `o` along an axis starts and stops, as `_windows.UniformAxis` and `adaptive_axis` have it; or
    as the offsets of segments do, which stand behind the other numbers.
    """
    size, stride, step = g[DEPTH + axis], g[STRIDE + axis], g[STEP + axis]
    if stride < 0:
        return g[LAST + 1 + o], g[LAST + 2 + o]
    if stride == 0:
        n = g[OUT_D + axis]
        return o * size // n, -(-(o + 1) * size // n)
    start = o * stride - g[BEFORE + axis]
    stop = at_most(start + step * (g[KERNEL + axis] - 1) + 1, size)
    if start < 0:
        start %= step
    return start, stop


@helper
def last_nan(x, out, E, g):
    """The last NaN of the window that makes element `out` of the result; -1 if the window holds none. A column is E
    elements.
    """
    row, ow, c = place_of(out, g[OUT_W], E)
    q, od, oh = place_of(row, g[OUT_D], g[OUT_H])
    axis, deep, high, wide = np.int64(0), g[STEP], g[STEP + 1], g[STEP + 2]
    # `axis` is no literal: for each of these Numba would compile `window_along` once more.
    d0, d1 = window_along(axis, od, g)
    h0, h1 = window_along(axis + 1, oh, g)
    w0, w1 = window_along(axis + 2, ow, g)
    # From the last element on, so that windows full of NaN are quick.
    d = d0 + (d1 - 1 - d0) // deep * deep
    while d >= d0:  # a range of steps would divide by the step
        h = h0 + (h1 - 1 - h0) // high * high
        while h >= h0:
            w, line = w0 + (w1 - 1 - w0) // wide * wide, ((q * g[DEPTH] + d) * g[HEIGHT] + h) * g[WIDTH]
            while w >= w0:
                at = (line + w) * E + c
                if is_nan(x, at):
                    return at
                w -= wide
            h -= high
        d -= deep
    return -1


@worker
def put_nans(lo, hi, x, y, index, g):
    """Put NaN, and the index of the last NaN, into elements [lo, hi) of the result whose windows hold NaN. `g` is what
    `_windows.outline` says.
    """
    none, P, E = outside(y, None), g[DEPTH] * g[HEIGHT] * g[WIDTH], g[CHANNELS] if g[LAST] else 1
    for first in range(lo, hi, LANES):
        lanes = infinite_lanes(load_some(y, first, lanes_inside(0, at_most(hi - first, LANES)), none))
        out = first
        while lanes:
            if lanes & 1:
                last = last_nan(x, out, E, g)
                if last >= 0:
                    y[out] = x[last]
                    if index is not None:
                        index[out] = last // E % P
            lanes, out = lanes >> 1, out + 1
    return 0


@helper
def first_number(x, out, E, g):
    """As `last_nan`, the first element of the window that is no NaN; -1 if the window holds none."""
    row, ow, c = place_of(out, g[OUT_W], E)
    q, od, oh = place_of(row, g[OUT_D], g[OUT_H])
    axis, deep, high, wide = np.int64(0), g[STEP], g[STEP + 1], g[STEP + 2]
    d, d1 = window_along(axis, od, g)
    h0, h1 = window_along(axis + 1, oh, g)
    w0, w1 = window_along(axis + 2, ow, g)
    while d < d1:
        h = h0
        while h < h1:
            w, line = w0, ((q * g[DEPTH] + d) * g[HEIGHT] + h) * g[WIDTH]
            while w < w1:
                at = (line + w) * E + c
                if not is_nan(x, at):
                    return at
                w += wide
            h += high
        d += deep
    return -1


@worker
def put_missing(lo, hi, x, y, index, g):
    """Where NaN is missing, walks for maxima compare with -inf in its place. Look at the windows of results [lo, hi)
    that are -inf once more: of those that hold nothing else the result becomes NaN, with the index -1; of others the
    index becomes that of the first element that is no NaN.
    """
    low, P, E = outside(y, None), g[DEPTH] * g[HEIGHT] * g[WIDTH], g[CHANNELS] if g[LAST] else 1
    other, nan = splat(y, 0), splat(y, np.nan)
    for first in range(lo, hi, LANES):
        if first + LANES <= hi:
            v = load(y, first)
        else:
            v = load_some(y, first, lanes_inside(0, hi - first), other)
        lanes = bits_of(equal(v, low))
        empty, bit, out = 0, 1, first
        while lanes:
            if lanes & 1:
                found = first_number(x, out, E, g)
                if found < 0:
                    empty |= bit
                if index is not None:
                    index[out] = found // E % P if found >= 0 else -1
            lanes, bit, out = lanes >> 1, bit << 1, out + 1
        if empty:
            store_some(y, first, nan, mask_of(empty))
    return 0
