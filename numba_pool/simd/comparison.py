"""Maxima: which lane is the larger, what NaN does, and which of equals is the first."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .vector import (
    FLOAT,
    I1,
    I16,
    I32,
    I64,
    INDEX,
    MASK,
    NOWHERE,
    Pack,
    arithmetic,
    call,
    constant,
    has_512,
    llvm,
    record_kind,
    smaller,
    vec,
)

# Choosing


def compare(b, element, operation, x, y):
    """An ordered comparison: false where either is NaN."""
    if isinstance(element, types.Float):
        return b.fcmp_ordered(operation, x, y)
    return b.icmp_signed(operation, x, y) if element.signed else b.icmp_unsigned(operation, x, y)


# THE RULE OF TIES: of equal elements the first one, in row-major order, is the maximum. Whatever looks for the place of
# a maximum asks one of the next three functions, and nothing else knows. Tests turn the rule around, to see that.
FIRST_WINS = True


def displaces(b, element, later, earlier):
    """Whether a later element is the maximum in place of an earlier one; false where either is NaN."""
    return compare(b, element, ">" if FIRST_WINS else ">=", later, earlier)


def overtaking(b, element, later, earlier):
    """The same, but true where the later one is NaN; the earlier one never is."""
    if isinstance(element, types.Float):
        return b.fcmp_unordered("ugt" if FIRST_WINS else "uge", later, earlier)
    return displaces(b, element, later, earlier)


def is_chosen(b, index, other):
    """The same of two equal elements, in whichever order they come, by their indices."""
    return b.icmp_signed("<" if FIRST_WINS else ">", index, other)


def is_nan(b, element, x):
    if isinstance(element, types.Float):
        return b.fcmp_unordered("uno", x, x)
    return ir.Constant(ir.VectorType(I1, x.type.count), None)


def larger_of(b, element, x, y):
    return b.select(is_nan(b, element, x), x, greater_of(b, element, x, y))


@intrinsic
def select(typingctx, mask, a, b):
    def gen(ctx, bld, sig, args):
        return bld.select(*args)

    return a(MASK, a, a), gen


@intrinsic
def equal(typingctx, a, b):
    def gen(ctx, bld, sig, args):
        return compare(bld, a.element, "==", *args)

    return MASK(a, a), gen


@intrinsic
def winner(typingctx, v, vi, a, ai):
    """(value, index) of the maximum so far and a tap that comes later: it wins if it is greater, or NaN."""

    def gen(ctx, b, sig, args):
        v_, vi_, a_, ai_ = args
        wins = b.or_(displaces(b, v.element, v_, a_), is_nan(b, v.element, v_))
        return ctx.make_tuple(b, sig.return_type, [b.select(wins, v_, a_), b.select(wins, vi_, ai_)])

    return types.Tuple((v, INDEX))(v, INDEX, v, INDEX), gen


@intrinsic
def larger(typingctx, a, b):
    """The larger, NaN if either is; b where they are equal. One maximum and one select of the machine."""

    def gen(ctx, bld, sig, args):
        return larger_of(bld, a.element, *args)

    return a(a, a), gen


# A maximum in which no NaN can stand takes one instruction a tap and two cycles, where `winner` takes seven. So +inf
# can be put in the place of NaN, which then wins as NaN does, and NaN looked for where +inf has won.


def without_nan(b, element, x):
    if not isinstance(element, types.Float):
        return x
    inf = constant(b, llvm(element), float("inf"))
    return b.select(b.fcmp_ordered("<", x, inf), x, inf)


def greater_of(b, element, x, y):
    if isinstance(element, Pack):
        ty = smaller(element.count)
        x, y = b.bitcast(x, ty), b.bitcast(y, ty)
        return b.bitcast(b.select(b.icmp_unsigned(">", x, y), x, y), vec(I32))
    return b.select(compare(b, element, ">", x, y), x, y)


def greater_tap(ctx, b, array, x, y):
    """The same of elements of an array. Of float16 LLVM would select the halves, and convert these once more for the
    next comparison, which waits for it: 3x3/2 of 64 channels last takes twice the time with indices.
    """
    if record_kind(array) == "float16" and has_512(ctx.codegen()):
        return call(b, "llvm.x86.avx512.max.ps.512", vec(FLOAT), x, y, I32(4))
    return greater_of(b, arithmetic(array), x, y)


@intrinsic
def finite_or_inf(typingctx, a):
    """The lanes, +inf in place of NaN."""

    def gen(ctx, b, sig, args):
        return without_nan(b, a.element, *args)

    return a(a), gen


@intrinsic
def greater(typingctx, a, b):
    """The larger of two vectors without NaN; b where they are equal."""

    def gen(ctx, bld, sig, args):
        return greater_of(bld, a.element, *args)

    return a(a, a), gen


@intrinsic
def overtakes(typingctx, a, b):
    """Where a is greater than b, or NaN; b is never NaN."""

    def gen(ctx, bld, sig, args):
        return overtaking(bld, a.element, *args)

    return MASK(a, a), gen


@intrinsic
def any_inf(typingctx, a):
    """Whether any lane is +inf."""

    def gen(ctx, b, sig, args):
        if not isinstance(a.element, types.Float):
            return I1(0)
        lanes = b.fcmp_ordered("==", args[0], constant(b, llvm(a.element), float("inf")))
        return b.icmp_unsigned("!=", b.bitcast(lanes, I16), I16(0))

    return types.boolean(a), gen


@intrinsic
def mark_nan(typingctx, a, index):
    """`index` where a is a number, ~index where it is NaN: among NaNs the smallest mark is the last index, and any is
    smaller than every index of a number, so that `first_of` below need not know of NaN.
    """

    def gen(ctx, b, sig, args):
        return b.select(is_nan(b, a.element, args[0]), b.xor(args[1], constant(b, I32, -1)), args[1])

    return INDEX(a, INDEX), gen


@intrinsic
def unmark(typingctx, index):
    """The index that `mark_nan` hid, and -1 for NOWHERE."""

    def gen(ctx, b, sig, args):
        flat = b.xor(args[0], b.ashr(args[0], constant(b, I32, 31)))
        return b.select(b.icmp_signed("==", flat, constant(b, I32, NOWHERE)), constant(b, I32, -1), flat)

    return INDEX(INDEX), gen


@intrinsic
def first_of(typingctx, a, ia, b, ib):
    """(value, index) of the larger of a and b, the smaller index where they are equal; indices marked by `mark_nan`."""

    def gen(ctx, bld, sig, args):
        a_, ia_, b_, ib_ = args
        if isinstance(a.element, types.Float):
            same = bld.fcmp_unordered("ueq", a_, b_)
        else:
            same = bld.icmp_signed("==", a_, b_)
        wins = bld.or_(compare(bld, a.element, ">", a_, b_), bld.and_(same, is_chosen(bld, ia_, ib_)))
        return ctx.make_tuple(bld, sig.return_type, [bld.select(wins, a_, b_), bld.select(wins, ia_, ib_)])

    return types.Tuple((a, INDEX))(a, INDEX, a, INDEX), gen


@intrinsic
def first_among(typingctx, a, ia, b, ib):
    """(value, index) of the larger of a and b, the smaller index where they are equal; neither holds NaN."""

    def gen(ctx, bld, sig, args):
        a_, ia_, b_, ib_ = args
        sooner = bld.and_(compare(bld, a.element, "==", a_, b_), is_chosen(bld, ia_, ib_))
        wins = bld.or_(compare(bld, a.element, ">", a_, b_), sooner)
        return ctx.make_tuple(bld, sig.return_type, [bld.select(wins, a_, b_), bld.select(wins, ia_, ib_)])

    return types.Tuple((a, INDEX))(a, INDEX, a, INDEX), gen


@intrinsic
def first_bit(typingctx, bits):
    """Which bit of an int64, not 0, stands for the first of several equal elements."""

    def gen(ctx, b, sig, args):
        if FIRST_WINS:
            return b.cttz(args[0], I1(1))
        return b.sub(I64(63), b.ctlz(args[0], I1(1)))

    return types.int64(bits), gen


@intrinsic
def beats(typingctx, v, best):
    """Whether a number is the maximum in place of the best so far: if it is larger, or NaN."""

    def gen(ctx, b, sig, args):
        wins = displaces(b, v, *args)
        return b.or_(wins, b.fcmp_unordered("uno", args[0], args[0])) if isinstance(v, types.Float) else wins

    return types.boolean(v, best), gen
