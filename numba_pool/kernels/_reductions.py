"""Reductions over windows: the maximum, the maximum with its flat argmax, and the average.

Most walks serve several of them. Numba compiles a walk for each by the types of two arguments. `index` is an int32
array, or None where no indices are wanted. `divisors` is None for a maximum. For an average it is an array of three
numbers, whose dtype is the one in which sums are carried:

- the divisor of every window, or 0 where each window is divided by the number of its elements;
- the divisor's reciprocal if that is exact, else 0; a product takes less time than a division;
- for float64 the rounded reciprocal, from which `quotient_of` makes the rounded quotient, else 0.

Where NaN is missing from sums, elements are counted beside them. Then `divisors` are what `_job.counting` returns.

Sums are taken down each column of a window, then over the columns from left to right. All kernels keep to this order,
so that a result is the same, bit for bit, in every memory order and for every number of threads. There are two
exceptions, each in an order that only the windows decide on: averages of windows that are one stretch of memory (see
`runs`), and averages over many columns at stride 1 (see `_stages.Summed`).

The index of a maximum is that of the first of equal elements, or of the last NaN.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .._windows import DEPTH, HEADER, HEIGHT, MOST_H, MOST_W, OUT_D, OUT_H, STEP, TAPS, WIDTH
from ..simd import (
    LANES,
    arithmetic,
    at_least,
    held_as,
    is_counted,
    new_array,
)
from ..simd.arithmetic import by_sign, quotient
from ..simd.comparison import compare, greater_of
from ..simd.lanes import converted
from ..simd.vector import I64, Vector, constant, llvm, splat_value
from ._asking import ahead_of
from ._compile import helper

GROUP = 2 * LANES  # channels that are walked together; planes that are turned into the channels of one image


def everywhere(sums, like):
    """For an intrinsic: a vector type, and a function that makes a constant of it. The lanes are numbers as elements of
    the array `like` are computed with: all 0 for `sums`, else the lowest number that there is.
    """
    element = arithmetic(like)
    low = 0 if sums else -np.inf if isinstance(element, types.Float) else element.minval
    return Vector(element), lambda ctx, b, sig, args: constant(b, llvm(element), low)


@intrinsic
def nothing(typingctx, x, divisors):
    """A vector of what empty windows hold: 0 for sums, the lowest number for maxima."""
    maxima = isinstance(divisors, types.NoneType)
    vector, gen = everywhere(not maxima, x if maxima else divisors)
    return vector(x, divisors), gen


@intrinsic
def outside(typingctx, x, divisors):
    """A vector of what stands in the place of elements outside of the array: as `nothing`, but in the arithmetic of
    the array, from which sums of integers are converted.
    """
    vector, gen = everywhere(not isinstance(divisors, types.NoneType), x)
    return vector(x, divisors), gen


@intrinsic
def begun(typingctx, x, divisors):
    """A vector of zeros to which a few elements are added before their sum is converted to the arithmetic of the
    divisors. Floats are added up as they are, integers already in the arithmetic of the divisors.
    """
    vector, gen = everywhere(True, x if isinstance(arithmetic(x), types.Float) else divisors)
    return vector(x, divisors), gen


@intrinsic
def numbers(typingctx, x, divisors, size):
    """A scratch array of `size` numbers in the arithmetic of the reduction."""
    array = types.Array(held_as(x) if isinstance(divisors, types.NoneType) else divisors.dtype, 1, "C")
    return array(x, divisors, types.int64), lambda ctx, b, sig, args: new_array(ctx, b, array, args[2])


@intrinsic
def beside(typingctx, index, x, divisors, size):
    """A scratch array for indices, or for the counts of elements that are added up; None where there are neither."""
    counted = is_counted(x) and not isinstance(divisors, types.NoneType)
    if isinstance(index, types.NoneType) and not counted:
        return index(index, x, divisors, types.int64), lambda ctx, b, sig, args: ctx.get_dummy_value()
    array = types.Array(types.int32, 1, "C")
    return array(index, x, divisors, types.int64), lambda ctx, b, sig, args: new_array(ctx, b, array, args[3])


@intrinsic
def shared(typingctx, divisors):
    """The divisor and the pair of its reciprocals, out of `divisors`; (None, None) for a maximum. Where elements are
    counted, the pair is what `counting` has.
    """
    if isinstance(divisors, types.NoneType):
        none = types.Tuple((divisors, divisors))
        return none(divisors), lambda ctx, b, sig, args: ctx.get_constant_null(none)
    pair = types.UniTuple(divisors.dtype, 2)

    def gen(ctx, b, sig, args):
        divisor, exact, rounded = numbers_of(ctx, b, divisors, args[0], range(3))
        return ctx.make_tuple(b, sig.return_type, [divisor, ctx.make_tuple(b, pair, [exact, rounded])])

    return types.Tuple((divisors.dtype, pair))(divisors), gen


# Functions that are called in inner loops take the `memory` of an array, not the array. Numba counts an array's
# references at each call, and LLVM does not always remove that, even where it inlines the function.


@intrinsic
def joined(typingctx, a, v, divisor):
    """Two parts of a window joined: their sum, or if the divisor is None the larger of them, in which no NaN stands."""

    def gen(ctx, b, sig, args):
        if isinstance(divisor, types.NoneType):
            return greater_of(b, a.element, args[1], args[0])
        return by_sign(b, a.element, "add", *args[:2])

    return a(a, v, divisor), gen


@intrinsic
def averaged(typingctx, total, divisor, reciprocals, taps, widths):
    """The sums over sixteen windows, divided by the divisor that all windows share. If that is 0, each sum is divided
    by `taps` times the lane of `widths`: the number of the window's rows times that of its columns. If the divisor is
    None, the vector is returned as it is.
    """
    element = total.element

    def gen(ctx, b, sig, args):
        sums, shared, pair, rows, columns = args
        if isinstance(divisor, types.NoneType):
            return sums
        zero, one = (constant(b, llvm(element), n) for n in (0, 1))
        result, bits = cgutils.alloca_once(b, sums.type), ir.IntType(element.bitwidth)
        with b.if_else(b.icmp_unsigned("!=", b.bitcast(shared, bits), bits(0))) as (alike, counted):
            with alike:
                b.store(quotient(ctx, b, element, sums, shared, pair), result)
            with counted:
                count = by_sign(b, element, "mul", converted(b, widths.element, element, columns),
                                splat_value(b, ctx.cast(b, rows, types.int64, element)))
                count = b.select(compare(b, element, "==", count, zero), one, count)
                b.store(by_sign(b, element, "div", sums, count), result)
        return b.load(result)

    return total(total, divisor, reciprocals, types.int64, widths), gen


@intrinsic
def divisor_of(typingctx, divisor, count):
    """By what the sum over a window is divided: by the divisor that all windows share, or if that is 0 by the number of
    the window's elements, which may be 0 as well; None for a maximum.
    """
    if isinstance(divisor, types.NoneType):
        return divisor(divisor, count), lambda ctx, b, sig, args: ctx.get_dummy_value()

    def gen(ctx, b, sig, args):
        shared, count = args
        counted = ctx.cast(b, b.select(b.icmp_signed("==", count, I64(0)), I64(1), count), types.int64, divisor)
        return b.select(compare(b, divisor, "==", shared, shared.type(0)), counted, shared)

    return divisor(divisor, types.int64), gen


def numbers_of(ctx, b, array, value, places):
    """Elements of a flat array at the given places, which are Python's ints or LLVM's values."""
    data = ctx.make_array(array)(ctx, b, value).data
    return [b.load(b.gep(data, [I64(at) if isinstance(at, int) else at])) for at in places]


@intrinsic
def place_of(typingctx, row, OD, OH):
    """Where a row of the output lies, if rows are counted through all planes: (plane or image, slice, row of the
    slice).
    """

    def gen(ctx, b, sig, args):
        row, OD, OH = args
        slices = b.sdiv(row, OH)
        q = b.sdiv(slices, OD)
        return ctx.make_tuple(b, PLACE, [q, b.sub(slices, b.mul(q, OD)), b.sub(row, b.mul(slices, OH))])

    return PLACE(types.int64, types.int64, types.int64), gen


@intrinsic
def next_place(typingctx, q, od, oh, OD, OH):
    """`place_of` the next row, without its divisions, which would take as long as a short row."""

    def gen(ctx, b, sig, args):
        q, od, oh, OD, OH = args
        below = b.add(oh, I64(1))
        row_ends = b.icmp_signed("==", below, OH)
        deeper = b.add(od, b.zext(row_ends, I64))
        slice_ends = b.icmp_signed("==", deeper, OD)
        return ctx.make_tuple(b, PLACE, [b.add(q, b.zext(slice_ends, I64)),
                                         b.select(slice_ends, I64(0), deeper), b.select(row_ends, I64(0), below)])

    return PLACE(*(types.int64,) * 5), gen


PLACE = types.UniTuple(types.int64, 3)


@intrinsic
def held_by(typingctx, od, oh, g):
    """Which elements the windows of a row of the output hold: (d0, d1, h0, h1, taps). They lie in slices [d0, d1), in
    rows [h0, h1) of each. `taps` is the factor that slices and rows contribute to a window's divisor.
    """

    def gen(ctx, b, sig, args):
        od, oh, tables = args
        OD, OH = numbers_of(ctx, b, g, tables, (OUT_D, OUT_H))
        deep = b.add(od, I64(HEADER))
        high = b.add(oh, b.add(b.mul(OD, I64(3)), I64(HEADER)))
        found = numbers_of(ctx, b, g, tables, [b.add(first, b.mul(length, I64(table)))
                                               for first, length in ((deep, OD), (high, OH)) for table in range(3)])
        return ctx.make_tuple(b, sig.return_type, [*found[:2], *found[3:5], b.mul(found[2], found[5])])

    return types.UniTuple(types.int64, 5)(types.int64, types.int64, g), gen


@helper
def lead_of(x, g, share, row, far):
    """How many elements behind the beginning of an output row's windows a kernel asks for memory ahead. That is where
    the windows end, since what lies before is in the caches already. From one output row to the next, windows move on
    by `share` elements of the input. A row of the input has `row` elements.
    """
    deep = (g[TAPS] // (g[MOST_H] * g[MOST_W]) - 1) * g[STEP] * g[HEIGHT]
    return at_least(at_least(share, ahead_of(x, far)), (deep + (g[MOST_H] - 1) * g[STEP + 1] + 1) * row)


@helper
def run_of(q, od, oh, g):
    """The window at a place of the output, which is one stretch of memory: (first pixel, number of pixels, number of
    elements by which a sum is divided).
    """
    D, H, W = g[DEPTH], g[HEIGHT], g[WIDTH]
    d0, d1, h0, h1, taps = held_by(od, oh, g)
    columns = g[HEADER + 3 * g[OUT_D] + 3 * g[OUT_H] + 2]
    return ((q * D + d0) * H + h0) * W, ((d1 - d0 - 1) * H + h1 - h0) * W, taps * columns
