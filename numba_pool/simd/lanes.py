"""Making vectors and masks, and converting their lanes."""

from numba import types
from numba.extending import intrinsic

from .vector import (
    FLOAT,
    I1,
    I16,
    I32,
    I64,
    INDEX,
    LANES,
    MASK,
    Vector,
    arithmetic,
    call,
    int32,
    is_half,
    lane_numbers,
    llvm,
    record_kind,
    splat_value,
    vec,
)

# The smaller and the larger of two ints. Numba's own `min` and `max` are functions, which Numba compiles once more for
# each kind of int, in 25 ms.


def choosing(operation):
    """An intrinsic of two ints: the first one if the comparison holds, else the second."""

    @intrinsic
    def apply(typingctx, a, b):
        def gen(ctx, bld, sig, args):
            return bld.select(bld.icmp_signed(operation, *args), *args)

        return types.int64(types.int64, types.int64), gen

    return apply


at_most, at_least = choosing("<"), choosing(">")


# Making vectors


@intrinsic
def splat(typingctx, like, value):
    """A vector with `value` in every lane, in the arithmetic of an array or a vector."""
    element = arithmetic(like)

    def gen(ctx, b, sig, args):
        return splat_value(b, ctx.cast(b, args[1], sig.args[1], element))

    return Vector(element)(like, value), gen


@intrinsic
def indices(typingctx, first, step):
    """An int32 vector of first, first + step, first + 2*step, ..."""

    def gen(ctx, b, sig, args):
        first, step = (splat_value(b, int32(b, v)) for v in args)
        return b.add(first, b.mul(lane_numbers(), step))

    return INDEX(first, step), gen


@intrinsic
def lanes_inside(typingctx, first, stop):
    """Mask of the lanes i with 0 <= first + i < stop, where `stop` is not negative."""

    def gen(ctx, b, sig, args):
        return b.icmp_unsigned("<", b.add(splat_value(b, int32(b, args[0])), lane_numbers()),
                               splat_value(b, int32(b, args[1])))

    return MASK(first, stop), gen


@intrinsic
def mask_of(typingctx, bits):
    """Mask of the lanes whose bit is set."""

    def gen(ctx, b, sig, args):
        return b.bitcast(b.trunc(args[0], I16), vec(I1))

    return MASK(bits), gen


@intrinsic
def bits_of(typingctx, mask):
    """An int64 with a bit set for each lane of the mask that is set; the inverse of `mask_of`."""

    def gen(ctx, b, sig, args):
        return b.zext(b.bitcast(args[0], I16), I64)

    return types.int64(mask), gen


@intrinsic
def both(typingctx, a, b):
    """A mask that is set where both masks are."""

    def gen(ctx, bld, sig, args):
        return bld.and_(*args)

    return MASK(MASK, MASK), gen


def converted(b, source, target, value):
    """Convert the lanes of a vector from one Numba scalar to another."""
    ty = vec(llvm(target))
    if source == target:
        return value
    if isinstance(source, types.Float) and isinstance(target, types.Float):
        return b.fpext(value, ty) if target.bitwidth > source.bitwidth else b.fptrunc(value, ty)
    if isinstance(source, types.Float):
        return b.fptosi(value, ty) if target.signed else b.fptoui(value, ty)
    if isinstance(target, types.Float):
        return b.sitofp(value, ty) if source.signed else b.uitofp(value, ty)
    if target.bitwidth > source.bitwidth:
        return b.sext(value, ty) if source.signed else b.zext(value, ty)
    return b.trunc(value, ty) if target.bitwidth < source.bitwidth else value


def to_odd(b, value):
    """float64 as float32 that a store rounds once more, to halves, with the result of one rounding: rounded toward
    zero, with the last bit set where that changed a number. Source: Boldo and Melquiond, Emulation of FMA, 2008.
    """
    rounded = b.fptrunc(value, vec(FLOAT))
    back, size = b.fpext(rounded, value.type), f"llvm.fabs.v{LANES}f64"
    away = b.fcmp_ordered(">", call(b, size, value.type, back), call(b, size, value.type, value))
    inexact = b.fcmp_unordered("!=", back, value)
    bits = b.add(b.bitcast(rounded, vec(I32)), b.sext(away, vec(I32)))
    return b.bitcast(b.or_(bits, b.zext(inexact, vec(I32))), vec(FLOAT))


@intrinsic
def convert(typingctx, like, a):
    """The lanes in the arithmetic of an array or a vector; floats become integers by truncation."""
    return Vector(arithmetic(like))(like, a), lambda ctx, b, sig, args: converted_to(b, like, a.element, args[1])


def converted_to(b, like, element, value):
    """Convert the lanes of a vector, of the Numba scalar `element`, to the arithmetic of an array or a vector."""
    if element == types.float64 and not isinstance(like, Vector) and is_half(record_kind(like)):
        return to_odd(b, value)
    return converted(b, element, arithmetic(like), value)
