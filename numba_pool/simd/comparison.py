"""Maxima: which lane is the larger, what NaN does, and which of equals is the first."""

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


# THE RULE OF TIES: of equal elements the first one, in row-major order, is the maximum. Everything that looks for the
# index of a maximum asks one of the next three functions (and `first_bit`); the rule stands nowhere else. Tests turn
# the rule around and see that every kernel follows.
FIRST_WINS = True


def displaces(b, element, later, earlier):
    """Whether a later element is the maximum in place of an earlier one; false where either is NaN."""
    return compare(b, element, ">" if FIRST_WINS else ">=", later, earlier)


def overtaking(b, element, later, earlier):
    """The same, but true where the later one is NaN; the earlier one is never NaN."""
    if isinstance(element, types.Float):
        return b.fcmp_unordered("ugt" if FIRST_WINS else "uge", later, earlier)
    return displaces(b, element, later, earlier)


def is_chosen(b, index, other):
    """Whether the element at `index` is the maximum in place of an equal one at the index `other`."""
    return b.icmp_signed("<" if FIRST_WINS else ">", index, other)


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


# Without NaN a maximum takes one instruction for each tap; to keep NaN takes a second comparison. So kernels put +inf
# in the place of NaN, which wins over all numbers as NaN does. Where +inf has won, `kernels.nans` looks for NaN in the
# end. The functions that follow are for vectors without NaN.


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
    """The same for elements of an array. For float16 the instruction is named: LLVM would select among the halves, and
    convert these once more for the next comparison, which waits for that. 3x3/2 with indices would take twice the time.
    """
    if record_kind(array) == "float16" and has_512(ctx.codegen()):
        return call(b, "llvm.x86.avx512.max.ps.512", vec(FLOAT), x, y, I32(4))
    return greater_of(b, arithmetic(array), x, y)


@intrinsic
def finite_or_inf(typingctx, a):
    """The lanes, with +inf in the place of NaN."""

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
def lesser(typingctx, a, b):
    """The smaller of two vectors without NaN, b where they are equal. For packs one of both must be all 0, or have all
    bits set.
    """

    def gen(ctx, bld, sig, args):
        if isinstance(a.element, Pack):
            return bld.and_(*args)
        return bld.select(compare(bld, a.element, "<", *args), *args)

    return a(a, a), gen


@intrinsic
def overtakes(typingctx, a, b):
    """Where a is greater than b, or NaN; b is never NaN."""

    def gen(ctx, bld, sig, args):
        return overtaking(bld, a.element, *args)

    return MASK(a, a), gen


@intrinsic
def infinite_lanes(typingctx, a):
    """An int64 with a bit set for each lane that is +inf; 0 for integers and packs."""

    def gen(ctx, b, sig, args):
        if not isinstance(a.element, types.Float):
            return I64(0)
        lanes = b.fcmp_ordered("==", args[0], constant(b, llvm(a.element), float("inf")))
        return b.zext(b.bitcast(lanes, I16), I64)

    return types.int64(a), gen


def chosen_pair(ctx, b, a, ia, v, iv, larger, same):
    """Lanes of a and `ia` where `larger` is set, or where `same` is set and the rule of ties chooses `ia`. Elsewhere
    lanes of v and `iv`.

    Without AVX-512, whose masks are registers of their own, one choice after the other takes a fraction of the time of
    masks that are combined: LLVM makes these narrower, and wide again.
    """
    sooner = is_chosen(b, ia, iv)
    if has_512(ctx.codegen()):
        wins = b.or_(larger, b.and_(same, sooner))
        return [b.select(wins, x, y) for x, y in ((a, v), (ia, iv))]
    return [b.select(same, b.select(sooner, x, y), b.select(larger, x, y)) for x, y in ((a, v), (ia, iv))]


@intrinsic
def first_among(typingctx, a, ia, b, ib):
    """(value, index) of the larger of a and b, and the smaller index where they are equal. Neither holds NaN."""

    def gen(ctx, bld, sig, args):
        a_, _, b_, _ = args
        same, larger = (compare(bld, a.element, operation, a_, b_) for operation in ("==", ">"))
        return ctx.make_tuple(bld, sig.return_type, chosen_pair(ctx, bld, *args, larger, same))

    return types.Tuple((a, INDEX))(a, INDEX, a, INDEX), gen


@intrinsic
def first_bit(typingctx, bits):
    """Which bit of an int64 stands for the first of several equal elements. One bit at least is set, and the lowest bit
    is that of the earliest element.
    """

    def gen(ctx, b, sig, args):
        if FIRST_WINS:
            return b.cttz(args[0], I1(1))
        return b.sub(I64(63), b.ctlz(args[0], I1(1)))

    return types.int64(bits), gen


@intrinsic
def beats(typingctx, v, best):
    """Whether a single number is the maximum in place of the best so far: if it is larger, or NaN."""

    def gen(ctx, b, sig, args):
        wins = displaces(b, v, *args)
        return b.or_(wins, b.fcmp_unordered("uno", args[0], args[0])) if isinstance(v, types.Float) else wins

    return types.boolean(v, best), gen
