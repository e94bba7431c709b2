"""Sums, products and quotients of vectors."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .vector import I1, I32, INDEX, LANES, call, has, llvm, mangled, part, vec

# Arithmetic


def lanewise(float_name, signed_name, unsigned_name):
    """An intrinsic on two vectors of the same type."""

    @intrinsic
    def apply(typingctx, a, b):
        def gen(ctx, bld, sig, args):
            if isinstance(a.element, types.Float):
                return getattr(bld, float_name)(*args)
            return getattr(bld, signed_name if a.element.signed else unsigned_name)(*args)

        return a(a, a), gen

    return apply


add = lanewise("fadd", "add", "add")


multiply = lanewise("fmul", "mul", "mul")


divide = lanewise("fdiv", "sdiv", "udiv")


SUBNORMAL, NOT_FINITE = 0x20, 0x01 | 0x08 | 0x10 | 0x80  # of `vfpclass`: NaN, infinities, signalling NaN


LARGEST_DIVISOR = 1 << 22  # of `quotient`


@intrinsic
def quotient(typingctx, a, b, inverse):
    """a / b for float64, rounded as a division rounds it, where b is an integer from 1 to LARGEST_DIVISOR and `inverse`
    is 1 / b, rounded. The gradient of 3x3/2 averages takes 0.75 of the time that it takes with divisions, for which
    float32 need not wait.

    q = a * inverse is off by less than 1.5 ulp; so what is left, r = a - b * q, is a multiple of q's ulp less than 2b
    of these, and exact. q + r * inverse is off by less than 1.5 ulp / 2^53 before it is rounded once, and no quotient
    is as near as that to where rounding turns: for a number m halfway between two floats, a - b * m is not 0, because
    b * m has more than 53 bits unless b is a power of two (for which all of this is exact), but a multiple of ulp / 4
    (just below a power of two, elsewhere of ulp / 2); so a / b - m is ulp / 4b or more. Where q is subnormal, infinite
    or NaN, the machine divides. The signs are such that -0.0 stays what it is.
    """
    element = llvm(a.element)

    def gen(ctx, bld, sig, args):
        x, y, inverse_ = args
        if not has(ctx.codegen(), "avx512dq"):
            return bld.fdiv(x, y)

        def fused(u, v, w):
            return call(bld, f"llvm.fma.v{LANES}{mangled(element)}", vec(element), u, v, w)

        q = bld.fmul(x, inverse_)
        result = fused(bld.fneg(fused(y, q, bld.fneg(x))), inverse_, q)
        divided = [bld.append_basic_block(name) for name in ("divide", "divided")]
        quick = bld.block
        bld.cbranch(any_of(bld, q, SUBNORMAL | NOT_FINITE), *divided).set_weights([1, 1 << 10])
        bld.position_at_end(divided[0])
        exact = bld.fdiv(x, y)
        bld.branch(divided[1])
        bld.position_at_end(divided[1])
        either = bld.phi(vec(element))
        either.add_incoming(result, quick)
        either.add_incoming(exact, divided[0])
        return either

    return a(a, a, a), gen


def any_of(b, value, classes):
    """Whether any float64 is of one of these classes of `vfpclass`."""
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
