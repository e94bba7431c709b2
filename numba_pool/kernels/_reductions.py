"""Reductions over windows: the maximum, the maximum with its flat argmax, and the average.

Each walk serves all three. What differs is the type of two arguments, by which Numba compiles a walk for each:
`index` is an int32 array, or None for values alone; `divisors` is None for the maximum. For the average it is an array
(divisor, exact, rounded) whose dtype is that of the arithmetic: the divisor of every window, or 0 where each has its
own count; and its reciprocal where that is exact and, of doubles, where it is rounded, else 0, because products take
less time.

Sums: first down the columns of a window, then from left to right, whichever kernel runs, so that they are the same bit
for bit in every memory order and for every split of the work; but averages of runs of memory, in every memory order,
as `runs` says, and of many columns at stride 1 as `sums` does. An argmax is the first of equals, or the last NaN.
"""

import numpy as np
from numba import types

from .._windows import DEPTH, HEADER, HEIGHT, MOST_H, MOST_W, OUT_D, OUT_H, OUT_W, STEP, TAPS, WIDTH
from ..simd import (
    LANES,
    MIRROR,
    add,
    any_inf,
    arithmetic,
    convert,
    divide,
    equal,
    field,
    greater,
    held_as,
    is_mirrored,
    larger,
    multiply,
    quotient,
    select,
    splat,
)
from ._asking import ahead_of
from ._compile import by_types, helper, inlined

GROUP = 2 * LANES  # channels that are walked at a time; planes that become the channels of an image


def nothing(x, divisors):
    """What an empty window holds: the neutral element of the reduction."""


@by_types(nothing)
def _nothing(x, divisors):
    if not isinstance(divisors, types.NoneType):
        return lambda x, divisors: splat(divisors, 0)
    element = arithmetic(x)
    low = -np.inf if isinstance(element, types.Float) else element.minval
    return lambda x, divisors: splat(x, low)


def outside(x, divisors):
    """What stands for an element that is not there: the same, before it is converted for summing."""


@by_types(outside)
def _outside(x, divisors):
    if isinstance(divisors, types.NoneType):
        return lambda x, divisors: nothing(x, divisors)
    return lambda x, divisors: splat(x, 0)


def begun(x, divisors):
    """The sum of nothing, in which a few elements are added up before they are converted: no narrower than these."""


@by_types(begun)
def _begun(x, divisors):
    if isinstance(arithmetic(x), types.Float):
        return lambda x, divisors: splat(x, 0)
    return lambda x, divisors: splat(divisors, 0)


def numbers(x, divisors, size):
    """A scratch array of `size` numbers in the arithmetic of the reduction."""


@by_types(numbers)
def _numbers(x, divisors, size):
    if not isinstance(divisors, types.NoneType):
        return lambda x, divisors, size: np.empty(size, divisors.dtype)
    dtype = held_as(x)
    return lambda x, divisors, size: np.empty(size, dtype)


def room_for_indices(index, size):
    """Memory for so many indices; None where none are asked for."""


@by_types(room_for_indices)
def _room_for_indices(index, size):
    if isinstance(index, types.NoneType):
        return lambda index, size: None
    return lambda index, size: np.empty(size, np.int32)


def shared(divisors):
    """(divisor, its reciprocals) out of `divisors`; (None, None) for a maximum."""


@by_types(shared)
def _shared(divisors):
    if isinstance(divisors, types.NoneType):
        return lambda divisors: (None, None)
    return lambda divisors: (divisors[0], (divisors[1], divisors[2]))


# What stands in inner loops takes no arrays, or the `memory` of them: Numba counts references at each call, which LLVM
# is not always able to leave out again, not even where it inlines the function.


def with_tap(a, v, divisor):
    """The reduction so far and one tap more."""


@by_types(with_tap)
def _with_tap(a, v, divisor):
    if isinstance(divisor, types.NoneType):
        return lambda a, v, divisor: larger(v, a)
    return lambda a, v, divisor: add(a, v)


def divided(total, divisor, rounded):
    """The sums divided by what all windows share, of doubles by its reciprocal where that is given."""


@by_types(divided)
def _divided(total, divisor, rounded):
    if total.element != types.float64:
        return lambda total, divisor, rounded: divide(total, splat(total, divisor))

    def divide_doubles(total, divisor, rounded):
        if rounded != 0:
            return quotient(total, splat(total, divisor), splat(total, rounded))
        return divide(total, splat(total, divisor))

    return divide_doubles


def averaged(total, divisor, reciprocals, taps, widths):
    """The sums over sixteen windows, divided: by what all share, or by `taps` rows times `widths` columns each."""


@by_types(averaged)
def _averaged(total, divisor, reciprocals, taps, widths):
    if isinstance(divisor, types.NoneType):
        return lambda total, divisor, reciprocals, taps, widths: total

    def average(total, divisor, reciprocals, taps, widths):
        exact, rounded = reciprocals
        if exact != 0:
            return multiply(total, splat(total, exact))
        if divisor != 0:
            return divided(total, divisor, rounded)
        count = multiply(convert(total, widths), splat(total, taps))
        empty = equal(count, splat(total, 0))
        return divide(total, select(empty, splat(total, 1), count))

    return average


def joined(a, v, divisor):
    """The reduction so far and more of the window, for maxima without NaN."""


@by_types(joined)
def _joined(a, v, divisor):
    if isinstance(divisor, types.NoneType):
        return lambda a, v, divisor: greater(v, a)
    return lambda a, v, divisor: add(a, v)


def is_nan(x, i):
    """Whether x[i], a floating-point number, is NaN."""


@by_types(is_nan)
def _is_nan(x, i):
    if not field(x):
        return lambda x, i: x[i] != x[i]
    return bits_are(x, "{bits} & {sign} - 1 > {inf}")


def is_inf(x, i):
    """Whether x[i], a floating-point number, is what wins over all others: +inf, or -inf where the smallest wins."""


@by_types(is_inf)
def _is_inf(x, i):
    if not field(x):
        return lambda x, i: x[i] == np.inf
    return bits_are(x, "{bits} == {sign} + {inf}" if is_mirrored(x) else "{bits} == {inf}")


def bits_are(x, test):
    """A function that tests the bits of x[i], which stand in a record's field."""
    exponent = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}
    ones, mantissa = exponent[field(x).removeprefix(MIRROR)]
    numbers = {"bits": f"x[i].{field(x)}", "inf": (1 << ones) - 1 << mantissa, "sign": 1 << ones + mantissa}
    return eval(f"lambda x, i: {test.format(**numbers)}")


@inlined
def place_of(row, OD, OH):
    """(plane or image, slice, row within it) of a row of the output, counted through all."""
    q = row // (OD * OH)
    od = row // OH - q * OD
    return q, od, row - (q * OD + od) * OH


@inlined
def next_place(q, od, oh, OD, OH):
    """That of the next row: divisions would cost as much as a short row."""
    oh += 1
    if oh == OH:
        oh, od = 0, od + 1
        if od == OD:
            od, q = 0, q + 1
    return q, od, oh


@inlined
def held_by(od, oh, g):
    """What the windows of a row of the output hold: slices [d0, d1), of which rows [h0, h1), and what these add to
    their divisors.
    """
    OD, OH, t = g[OUT_D], g[OUT_H], HEADER + 3 * g[OUT_D]
    return (g[HEADER + od], g[HEADER + OD + od], g[t + oh], g[t + OH + oh],
            g[HEADER + 2 * OD + od] * g[t + 2 * OH + oh])


@inlined
def last_tap(start, stop, step):
    """The last of start, start + step, ... before stop, which is behind start."""
    return start + (stop - start - 1) // step * step


def put_nans(top, first, stop, x, y, index, divisors, g, E):
    """The last NaN of every window in y[first : stop], for which +inf stands, as it may if the largest maxima, `top`,
    say so; columns are E elements. Averages and integers have none.
    """


@by_types(put_nans)
def _put_nans(top, first, stop, x, y, index, divisors, g, E):
    if not isinstance(divisors, types.NoneType) or not isinstance(arithmetic(x), types.Float):
        return lambda top, first, stop, x, y, index, divisors, g, E: None  # or the walk is compiled, to be never called
    return put_last_nans


@helper
def taps_of(out, g, E):
    """Of the window that makes element `out` of the result: the element where its plane or image begins, and its first
    and last slice, row and column.
    """
    OD, OH, OW = g[OUT_D], g[OUT_H], g[OUT_W]
    row = out // (OW * E)
    q, od, oh = place_of(row, OD, OH)
    d0, d1, h0, h1, _ = held_by(od, oh, g)
    t = HEADER + 3 * OD + 3 * OH + out // E - row * OW
    return (q * g[DEPTH] * g[HEIGHT] * g[WIDTH], (d0, last_tap(d0, d1, g[STEP])), (h0, last_tap(h0, h1, g[STEP + 1])),
            (g[t], last_tap(g[t], g[t + OW], g[STEP + 2])))


def put_last_nans(top, first, stop, x, y, index, divisors, g, E):
    for out in range(first, stop if any_inf(top) else 0):
        if not is_inf(y, out):
            continue
        plane, (d0, d), (h0, bottom), (w0, right) = taps_of(out, g, E)
        h, w, last = bottom, right, -1
        while last < 0 and d >= d0:  # backwards: where all are NaN, it is the first
            spot = (d * g[HEIGHT] + h) * g[WIDTH] + w
            if is_nan(x, (plane + spot) * E + out % E):
                last = spot
            w -= g[STEP + 2]
            if w < w0:
                w, h = right, h - g[STEP + 1]
            if h < h0:
                h, d = bottom, d - g[STEP]
        if last >= 0:
            y[out] = x[(plane + last) * E + out % E]
            if index is not None:
                index[out] = last


@helper
def lead_of(x, g, share, row, far):
    """How far from where the windows of an output row begin it asks for memory, in elements: where they end, since what
    is before is in the caches already. An output row takes `share` elements more, and rows of the input have `row`.
    """
    deep = (g[TAPS] // (g[MOST_H] * g[MOST_W]) - 1) * g[STEP] * g[HEIGHT]
    return max(share, ahead_of(x, far), (deep + (g[MOST_H] - 1) * g[STEP + 1] + 1) * row)
