"""Reductions over windows: the maximum, the maximum with its flat argmax, and the average.

Most walks serve several of them. Numba compiles a walk for each by the types of two arguments. `index` is an int32
array, or None where no indices are wanted. `divisors` is None for a maximum. For an average it is an array of three
numbers, whose dtype is the one in which sums are carried:

- the divisor of every window, or 0 where each window is divided by the number of its elements;
- the divisor's reciprocal if that is exact, else 0; a product takes less time than a division;
- for float64 the rounded reciprocal, from which `quotient_of` makes the rounded quotient, else 0.

Sums are taken down each column of a window, then over the columns from left to right. All kernels keep to this order,
so that a result is the same, bit for bit, in every memory order and for every number of threads. There are two
exceptions, each in an order that only the windows decide on: averages of windows that are one stretch of memory (see
`runs`), and averages over many columns at stride 1 (see `_line.add_along`).

The index of a maximum is that of the first of equal elements, or of the last NaN.
"""

from functools import partial

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .._windows import DEPTH, HEADER, HEIGHT, MOST_H, MOST_W, OUT_D, OUT_H, OUT_W, STEP, TAPS, WIDTH
from ..simd import (
    LANES,
    MIRROR,
    any_inf,
    arithmetic,
    at_least,
    field,
    held_as,
    is_mirrored,
)
from ..simd.arithmetic import by_sign, quotient_of
from ..simd.comparison import compare, greater_of
from ..simd.lanes import converted
from ..simd.vector import I64, Vector, constant, llvm, splat_value
from ._asking import ahead_of
from ._compile import by_types, helper

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


def numbers(x, divisors, size):
    """A scratch array of `size` numbers in the arithmetic of the reduction."""


@by_types(numbers)
def _numbers(x, divisors, size):
    if not isinstance(divisors, types.NoneType):
        return lambda x, divisors, size: np.empty(size, divisors.dtype)
    dtype = held_as(x)
    return lambda x, divisors, size: np.empty(size, dtype)


def room_for_indices(index, size):
    """An array for `size` indices; None where `index` is None."""


@by_types(room_for_indices)
def _room_for_indices(index, size):
    if isinstance(index, types.NoneType):
        return lambda index, size: None
    return lambda index, size: np.empty(size, np.int32)


@intrinsic
def shared(typingctx, divisors):
    """The divisor and the pair of its reciprocals, out of `divisors`; (None, None) for a maximum."""
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
        exact, rounded = cgutils.unpack_tuple(b, pair)
        result = cgutils.alloca_once(b, sums.type)

        def is_given(value):
            bits = ir.IntType(element.bitwidth)
            return b.icmp_unsigned("!=", b.bitcast(value, bits), bits(0))

        with b.if_else(is_given(exact)) as (multiplied, otherwise):
            with multiplied:
                b.store(by_sign(b, element, "mul", sums, splat_value(b, exact)), result)
            with otherwise, b.if_else(is_given(shared)) as (alike, counted):
                with alike:
                    by = splat_value(b, shared)
                    if element != types.float64:
                        b.store(by_sign(b, element, "div", sums, by), result)
                    else:
                        with b.if_else(is_given(rounded)) as (quick, slow):
                            with quick:
                                b.store(quotient_of(ctx, b, sums, by, splat_value(b, rounded)), result)
                            with slow:
                                b.store(b.fdiv(sums, by), result)
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


@intrinsic
def divided(typingctx, total, by, reciprocals):
    """The sums over sixteen windows, divided by the number `by`, whose reciprocals are those of `shared`. If `by` is
    None, the vector is returned as it is.
    """
    element = total.element

    def gen(ctx, b, sig, args):
        sums, number, pair = args
        if isinstance(by, types.NoneType):
            return sums
        return by_number(ctx, b, element, sums, number, pair)

    return total(total, by, reciprocals), gen


def by_number(ctx, b, element, sums, number, pair):
    exact, rounded = cgutils.unpack_tuple(b, pair)
    result, bits = cgutils.alloca_once(b, sums.type), ir.IntType(element.bitwidth)
    by, given = splat_value(b, number), [b.icmp_unsigned("!=", b.bitcast(each, bits), bits(0)) for each in (exact, rounded)]
    with b.if_else(given[0]) as (multiplied, otherwise):
        with multiplied:
            b.store(by_sign(b, element, "mul", sums, splat_value(b, exact)), result)
        with otherwise:
            if element == types.float64:
                with b.if_else(given[1]) as (quick, slow):
                    with quick:
                        b.store(quotient_of(ctx, b, sums, by, splat_value(b, rounded)), result)
                    with slow:
                        b.store(b.fdiv(sums, by), result)
            else:
                b.store(by_sign(b, element, "div", sums, by), result)
    return b.load(result)


# How many bits of a number are its exponent, and how many its fraction.
EXPONENTS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


def bits_at(ctx, b, array, value, at):
    """Three integers: the bits of a floating-point number in an array, the bits of infinity, the bit of the sign."""
    ones, mantissa = EXPONENTS[field(array).removeprefix(MIRROR) or str(array.dtype)]
    ty = ir.IntType(1 + ones + mantissa)
    data = b.bitcast(ctx.make_array(array)(ctx, b, value).data, ty.as_pointer())
    return b.load(b.gep(data, [at])), ty((1 << ones) - 1 << mantissa), ty(1 << ones + mantissa)


def is_nan_at(ctx, b, array, value, at):
    bits, inf, sign = bits_at(ctx, b, array, value, at)
    return b.icmp_unsigned(">", b.and_(bits, b.not_(sign)), inf)


@intrinsic
def is_inf(typingctx, y, i):
    """Whether y[i] is the floating-point number that wins over all others: +inf, or -inf for minima."""

    def gen(ctx, b, sig, args):
        bits, inf, sign = bits_at(ctx, b, y, *args)
        return b.icmp_unsigned("==", bits, b.or_(inf, sign) if is_mirrored(y) else inf)

    return types.boolean(y, types.int64), gen


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


def put_nans(top, first, stop, x, y, index, divisors, g, E):
    """Put NaN, and its index, where a window holds NaN. Kernels of maxima call this at their end.

    They compare with +inf in the place of every NaN. So a window in y[first : stop] may hold NaN if its maximum is
    +inf: its elements are looked at once more, and its last NaN becomes the result. `top` is a vector of the largest
    maxima that the kernel has seen; if no lane of it is +inf, there is nothing to do. A column is E elements. Averages
    keep NaN by themselves, and integers have none: for both this function is empty.
    """


@by_types(put_nans)
def _put_nans(top, first, stop, x, y, index, divisors, g, E):
    if not isinstance(divisors, types.NoneType) or not isinstance(arithmetic(x), types.Float):
        # An empty function: else the walk over windows would be compiled, and never called.
        return lambda top, first, stop, x, y, index, divisors, g, E: None
    return put_last_nans


def flagged(top, x, divisors):
    """1 if a maximum is +inf, so that windows with NaN may be among those that were reduced; else 0. `top` is a vector of
    the largest maxima. Sums keep NaN by themselves, and integers have none.
    """


@by_types(flagged)
def _flagged(top, x, divisors):
    if not isinstance(divisors, types.NoneType) or not isinstance(arithmetic(x), types.Float):
        return lambda top, x, divisors: 0
    return lambda top, x, divisors: 1 if any_inf(top) else 0


@intrinsic
def last_nan(typingctx, x, out, g, E):
    """The last NaN of the window that makes element `out` of the result: (where its plane or image begins, where in it
    the NaN lies), both counted in columns. The second is -1 if the window holds no NaN.
    """

    def gen(ctx, b, sig, args):
        source, out, tables, E = args
        D, H, W, OD, OH, OW, *steps = numbers_of(
            ctx, b, g, tables, (DEPTH, HEIGHT, WIDTH, OUT_D, OUT_H, OUT_W, STEP, STEP + 1, STEP + 2))
        rest, begin, spans = b.sdiv(out, E), I64(HEADER), []
        places = []
        for length in (OW, OH, OD):
            places.append(b.srem(rest, length))
            rest = b.sdiv(rest, length)
        for place, length in zip(reversed(places), (OD, OH, OW)):
            first = b.add(begin, place)
            spans.append(numbers_of(ctx, b, g, tables, (first, b.add(first, length))))
            begin = b.add(begin, b.mul(length, I64(3)))
        plane = b.mul(rest, b.mul(b.mul(D, H), W))
        last = cgutils.alloca_once_value(b, I64(-1))
        over = [partial(cgutils.for_range_slice, b, *span, step, I64, True) for span, step in zip(spans, steps)]
        with over[0]() as (d, _), over[1]() as (h, _), over[2]() as (w, _):
            spot = b.add(b.mul(b.add(b.mul(d, H), h), W), w)
            at = b.add(b.mul(b.add(plane, spot), E), b.srem(out, E))
            with b.if_then(is_nan_at(ctx, b, x, source, at)):
                b.store(spot, last)
        return ctx.make_tuple(b, sig.return_type, [plane, b.load(last)])

    return types.UniTuple(types.int64, 2)(x, types.int64, g, types.int64), gen


def put_last_nans(top, first, stop, x, y, index, divisors, g, E):
    for out in range(first, stop if any_inf(top) else 0):
        if is_inf(y, out):
            plane, last = last_nan(x, out, g, E)
            if last >= 0:
                y[out] = x[(plane + last) * E + out % E]
                if index is not None:
                    index[out] = last


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
