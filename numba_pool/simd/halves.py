"""What loads and stores make of elements: halves become float32, packs become integers of the same order, and numbers
of minima are mirrored. `from_memory` and `to_memory` are the two ways.
"""

import platform
from math import inf

from llvmlite import ir

from .vector import (
    ABOVE_MINUS_INF,
    FLOAT,
    I16,
    I32,
    OMIT,
    ONE,
    constant,
    count_of,
    field,
    has,
    is_half,
    is_lifted,
    is_mirrored,
    record_kind,
    repeated,
    smaller,
    vec,
)


def converts_float16(ctx):
    """Whether the processor has instructions that convert float16. LLVM uses them then."""
    return has(ctx.codegen(), "f16c") or platform.machine() in ("aarch64", "arm64")


def flip(b, kind, bits):
    """Flip the highest bit of signed integers, and all bits but the highest of negative halves. It is its own inverse.
    """
    sign = repeated(bits.type, 1 << bits.type.element.width - 1)
    if kind.startswith("int"):
        return b.xor(bits, sign)
    if kind in ABOVE_MINUS_INF:
        return b.xor(bits, b.and_(b.ashr(bits, repeated(bits.type, 15)), b.not_(sign)))
    return bits


def as_ordered(b, kind, value):
    """Turn the numbers of packs into unsigned integers of the same order."""
    ty = smaller(count_of(kind))
    bits = b.add(flip(b, kind, b.bitcast(value, ty)), repeated(ty, ABOVE_MINUS_INF.get(kind, 0)))
    return b.bitcast(bits, vec(I32))


def as_stored(b, kind, value):
    """The inverse of `as_ordered`."""
    ty = smaller(count_of(kind))
    bits = b.sub(b.bitcast(value, ty), repeated(ty, ABOVE_MINUS_INF.get(kind, 0)))
    return b.bitcast(flip(b, kind, bits), vec(I32))


def widen(ctx, b, kind, value):
    """Turn halves, given as their bits, into float32, and packs into integers of the same order."""
    if not kind:
        return value
    if not is_half(kind):
        return as_ordered(b, kind, value)
    if kind == "float16" and converts_float16(ctx):
        return b.fpext(b.bitcast(value, vec(ir.HalfType())), vec(FLOAT))
    if kind == "float16":
        return widen_float16(b, value)
    return b.bitcast(b.shl(b.zext(value, vec(I32)), constant(b, I32, 16)), vec(FLOAT))


def widen_float16(b, value):
    """float16 to float32 by arithmetic on the bits, where the processor has no instruction. (LLVM would call a function
    there that jitted code does not know.) A product with 2^112 moves the exponent's bias, of subnormals as well.
    """
    bits = b.zext(value, vec(I32))
    sign = b.shl(b.and_(bits, constant(b, I32, 0x8000)), constant(b, I32, 16))
    rest = b.shl(b.and_(bits, constant(b, I32, 0x7FFF)), constant(b, I32, 13))
    scaled = b.fmul(b.bitcast(rest, vec(FLOAT)), constant(b, FLOAT, 2.0**112))
    special = b.icmp_unsigned(">=", rest, constant(b, I32, 0x7C00 << 13))
    exact = b.select(special, b.or_(rest, constant(b, I32, 0x7F800000)), b.bitcast(scaled, vec(I32)))
    return b.bitcast(b.or_(sign, exact), vec(FLOAT))


def narrow(ctx, b, kind, value):
    """Turn float32 into the bits of halves, rounded to nearest even, and packs into what they were. A NaN stays NaN;
    for bfloat16 only if the lower half of its bits is 0, as in every NaN that was made of halves.
    """
    if not kind:
        return value
    if not is_half(kind):
        return as_stored(b, kind, value)
    if kind == "float16" and converts_float16(ctx):
        return b.bitcast(b.fptrunc(value, vec(ir.HalfType())), vec(I16))
    bits = b.bitcast(value, vec(I32))
    if kind == "bfloat16":
        odd = b.and_(b.lshr(bits, constant(b, I32, 16)), constant(b, I32, 1))
        rounded = b.lshr(b.add(bits, b.add(odd, constant(b, I32, 0x7FFF))), constant(b, I32, 16))
        return b.trunc(rounded, vec(I16))
    sign = b.and_(b.lshr(bits, constant(b, I32, 16)), constant(b, I32, 0x8000))
    nan = b.fcmp_unordered("uno", value, value)
    rest = b.and_(bits, constant(b, I32, 0x7FFFFFFF))
    # Normal results: move the bias, round by adding just under half of the last kept bit, carry into the exponent.
    odd = b.and_(b.lshr(rest, constant(b, I32, 13)), constant(b, I32, 1))
    bias = constant(b, I32, (-(112 << 23) + 0xFFF) & 0xFFFFFFFF)
    normal = b.lshr(b.add(rest, b.add(odd, bias)), constant(b, I32, 13))
    # Subnormal results: adding 0.5 leaves the rounded mantissa in the last bits.
    small = b.bitcast(b.fadd(b.bitcast(rest, vec(FLOAT)), constant(b, FLOAT, 0.5)), vec(I32))
    small = b.sub(small, constant(b, I32, 0x3F000000))
    result = b.select(b.icmp_unsigned("<", rest, constant(b, I32, 113 << 23)), small, normal)
    result = b.select(b.icmp_unsigned(">=", rest, constant(b, I32, 0x477FF000)), constant(b, I32, 0x7C00), result)
    result = b.select(nan, constant(b, I32, 0x7E00), result)
    return b.trunc(b.or_(sign, result), vec(I16))


def turned(b, kind, value):
    """Mirror numbers, or mirror them back: the sign of floats is turned, and all bits of integers. Of halves in packs
    the sign is turned as well.
    """
    if isinstance(value.type.element, (ir.FloatType, ir.DoubleType)):
        return b.fneg(value)
    if kind in ABOVE_MINUS_INF:
        ty = smaller(count_of(kind))
        return b.bitcast(b.xor(b.bitcast(value, ty), repeated(ty, 1 << 15)), value.type)
    return b.not_(value)


def from_memory(ctx, b, array, value):
    """What kernels compute with, of elements as they are in memory."""
    kind = record_kind(array)
    if is_mirrored(array) and kind in ABOVE_MINUS_INF:
        return widen(ctx, b, kind, turned(b, kind, value))
    value = widen(ctx, b, kind, value)
    value = turned(b, kind, value) if is_mirrored(array) else value
    return lifted(b, field(array), value) if is_lifted(array) else value


def lifted(b, name, value):
    """The lanes without NaN, for an array whose field has this name."""
    if name.startswith(ONE):
        return b.uitofp(b.fcmp_ordered("ord", value, value), value.type)
    return number_or(b, value, -inf if name.startswith(OMIT) else 0.0)


def number_or(b, value, other):
    """The lanes, with another number in the place of NaN."""
    return b.select(b.fcmp_ordered("ord", value, value), value, constant(b, value.type.element, other))


def to_memory(ctx, b, array, value):
    """What is stored, of numbers that kernels computed: the inverse of `from_memory`."""
    kind = record_kind(array)
    if is_mirrored(array) and kind not in ABOVE_MINUS_INF:
        value = turned(b, kind, value)
    value = narrow(ctx, b, kind, value)
    return turned(b, kind, value) if is_mirrored(array) and kind in ABOVE_MINUS_INF else value
