"""Sums, products and quotients of vectors."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .comparison import compare
from .lanes import converted
from .memory import lanes_at
from .vector import (
    DOUBLE,
    I1,
    I32,
    I64,
    INDEX,
    LANES,
    Vector,
    arithmetic,
    call,
    constant,
    has,
    llvm,
    part,
    splat_value,
    vec,
)

# Arithmetic


def by_sign(b, element, operation, x, y):
    """The "add", "sub", "mul" or "div" of two vectors, whose lanes are of the Numba type `element`."""
    if isinstance(element, types.Float):
        return getattr(b, f"f{operation}")(x, y)
    if operation == "div":
        return (b.sdiv if element.signed else b.udiv)(x, y)
    return getattr(b, operation)(x, y)


def lanewise(operation):
    """An intrinsic on two vectors of the same type."""

    @intrinsic
    def apply(typingctx, a, b):
        return a(a, a), lambda ctx, bld, sig, args: by_sign(bld, a.element, operation, *args)

    return apply


add, multiply, divide = (lanewise(operation) for operation in ("add", "mul", "div"))


# Bits by which the instruction `vfpclass` knows numbers. Not finite are NaN, infinities and signalling NaN.
SUBNORMAL, NOT_FINITE = 0x20, 0x01 | 0x08 | 0x10 | 0x80


LARGEST_DIVISOR = 1 << 22  # that `quotient_of` takes


def quotient_of(ctx, b, x, y, inverse):
    """x / y for float64, rounded as a division rounds it. y is an integer from 1 to LARGEST_DIVISOR, and `inverse` is
    the rounded 1 / y. Without a division the gradient of 3x3/2 averages takes 0.75 of the time. (Divisions of float32
    are fast enough.)

    Why it is exact; ulp is the unit in the last place of q. The product q = x * inverse is off by less than 1.5 ulp. So
    the rest r = x - y * q is a multiple of ulp, below 2y ulp, and is computed exactly. The sum q + r * inverse is off
    by less than 1.5 ulp / 2^53 before it is rounded once. That could only be rounded to the wrong side if x / y were as
    near as that to a number m halfway between two floats. It is not: x - y * m is not 0, because y * m has more than 53
    bits (unless y is a power of two, for which all of this is exact), and it is a multiple of ulp / 4. So x / y - m is
    ulp / 4y or more. Where q is subnormal, infinite or NaN, the processor divides. -0.0 stays -0.0.
    """
    if not has(ctx.codegen(), "avx512dq"):
        return b.fdiv(x, y)

    def fused(u, v, w):
        return call(b, f"llvm.fma.v{LANES}f64", vec(DOUBLE), u, v, w)

    q = b.fmul(x, inverse)
    result = fused(b.fneg(fused(y, q, b.fneg(x))), inverse, q)
    divided = [b.append_basic_block(name) for name in ("divide", "divided")]
    quick = b.block
    b.cbranch(any_of(b, q, SUBNORMAL | NOT_FINITE), *divided).set_weights([1, 1 << 10])
    b.position_at_end(divided[0])
    exact = b.fdiv(x, y)
    b.branch(divided[1])
    b.position_at_end(divided[1])
    either = b.phi(vec(DOUBLE))
    either.add_incoming(result, quick)
    either.add_incoming(exact, divided[0])
    return either


def quotient(ctx, b, element, sums, by, pair):
    """A vector of sums, each divided by the number `by`. The `pair` has its reciprocal, if that is exact, else 0; and
    for float64 its rounded reciprocal or 0.
    """
    result = cgutils.alloca_once(b, sums.type)

    def given(value):
        bits = ir.IntType(element.bitwidth)
        return b.icmp_unsigned("!=", b.bitcast(value, bits), bits(0))

    def divide():
        return by_sign(b, element, "div", sums, splat_value(b, by))

    exact, rounded = cgutils.unpack_tuple(b, pair)
    with b.if_else(given(exact)) as (multiplied, divided):
        with multiplied:
            b.store(by_sign(b, element, "mul", sums, splat_value(b, exact)), result)
        with divided:
            if element == types.float64:
                with b.if_else(given(rounded)) as (quick, slow):
                    with quick:
                        b.store(quotient_of(ctx, b, sums, splat_value(b, by), splat_value(b, rounded)), result)
                    with slow:
                        b.store(divide(), result)
            else:
                b.store(divide(), result)
    return b.load(result)


def average_of(ctx, b, element, sums, counts, by, pair):
    """A vector of sums over elements that were counted, each divided by `by`, and by its count times the first of the
    `pair`: a sum of both. NaN where the count is below the second.
    """
    factor, least = cgutils.unpack_tuple(b, pair)
    number = converted(b, types.int32, element, counts)
    divisor = b.fadd(by if isinstance(by.type, ir.VectorType) else splat_value(b, by),
                     b.fmul(splat_value(b, factor), number))
    few = b.fcmp_ordered("<", number, splat_value(b, least))
    return b.select(few, constant(b, llvm(element), float("nan")), b.fdiv(sums, divisor))


@intrinsic
def average_by_counts(typingctx, sums, counts, divisor, rows, inside, columns, inner, pair):
    """The same for the sums over sixteen windows of a row, with a divisor in common. Where that is 0, a window has the
    divisor of `rows` times the lane of `columns`, less the elements that are missing. `inside` and `inner` are how many
    rows and columns of it lie inside the array.
    """
    element = sums.element

    def gen(ctx, b, sig, args):
        total, number, shared, rows, inside, columns, inner, pair = args

        uncounted = b.fsub(b.fmul(splat_value(b, rows), columns), b.fmul(splat_value(b, inside), inner))
        alike = compare(b, element, "!=", shared, shared.type(0))
        by = b.select(alike, splat_value(b, shared), uncounted)
        return average_of(ctx, b, element, total, number, by, pair)

    return sums(sums, counts, divisor, rows, inside, columns, inner, pair), gen


def any_of(b, value, classes):
    """Whether any lane, a float64, is of one of these classes of the instruction `vfpclass`."""
    half, byte = LANES // 2, ir.IntType(8)
    low, high = (b.bitcast(call(b, "llvm.x86.avx512.fpclass.pd.512", ir.VectorType(I1, half),
                                part(b, value, first, half), I32(classes)), byte) for first in (0, half))
    return b.icmp_unsigned("!=", b.or_(low, high), byte(0))


@intrinsic
def total(typingctx, a):
    """The sum of the lanes of an int32 vector."""

    def gen(ctx, b, sig, args):
        return call(b, f"llvm.vector.reduce.add.v{LANES}i32", I32, *args)

    return types.int32(INDEX), gen


@intrinsic
def sums_of_lanes(typingctx, array, at):
    """A vector of sixteen sums, of the lanes of sixteen vectors that follow each other from array[at] on. In each
    vector neighbouring lanes are added up, then neighbours among these sums, and so on.
    """

    def gen(ctx, b, sig, args):
        rows = [lanes_at(ctx, b, array, args[0], b.add(args[1], I64(i * LANES))) for i in range(LANES)]
        turns = [ir.Constant(vec(I32), list(range(first, 2 * LANES, 2))) for first in (0, 1)]
        while len(rows) > 1:
            halves = [[b.shuffle_vector(x, y, lanes) for lanes in turns] for x, y in zip(rows[::2], rows[1::2])]
            rows = [by_sign(b, sig.return_type.element, "add", *pair) for pair in halves]
        return rows[0]

    return Vector(arithmetic(array))(array, at), gen
