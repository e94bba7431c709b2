"""Explicit vectors inside Numba kernels: sixteen lanes of a number, with masks for borders and short rows.

Numba leads LLVM to vector code only where its loop vectoriser agrees; here the kernel says which lanes do what. A
`Vector` is a Numba type whose data model is an LLVM vector, and the functions below are intrinsics on it, each one or
two machine instructions where the target has AVX-512. LLVM splits the sixteen lanes over smaller registers where the
machine's are narrower (four SSE or NEON registers of float32), so that the same kernel is right everywhere.

Storage and arithmetic may differ: an array of halves reaches a kernel as an array of one-field records, and the
field's name, ``float16`` or ``bfloat16``, says how `load` widens it to float32 and how `store` rounds it (to nearest
even). For maxima without indices whatever is smaller than float32 may also come in packs of four bytes, ``float16x2``
or ``uint8x4``, which a lane holds as two or four unsigned integers of the same order: see `PACKS`, and `SINGLES`.

Nothing here checks a bound. A masked-off lane is neither read nor written.
"""

import platform
from functools import lru_cache, reduce

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_name
from numba import config, types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, models, register_model
from numba.np.numpy_support import from_dtype

from .._geometry import VECTOR

LANES = VECTOR
MOST_ADDED = 8  # vectors that `sum_of_every` takes
I1, I16, I32, I64 = (ir.IntType(n) for n in (1, 16, 32, 64))
FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()
NOWHERE = 2**31 - 1  # the index of a lane that holds no element: larger than any
ZEN = (config.CPU_NAME or get_host_cpu_name()).startswith("znver")


# How kernels read halves: as records, whose field's name says how.
RECORDS = {name: np.dtype([(name, np.uint16)]) for name in ("float16", "bfloat16")}

# How they read packs, by the name of the dtype that stands in them. Integers are ordered as their bits are, signed ones
# once the highest bit is flipped. So are halves once the bits of a negative one are flipped but the sign, and if then
# the number is added that takes -inf to 0, and any NaN beyond +inf. The neutral element of all is 0.
COUNTS = {"float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int8": 4, "uint8": 4}
PACKS = {name: np.dtype([(f"{name}x{count}", np.uint32)]) for name, count in COUNTS.items()}
# The same as arrays of single numbers: a vector holds as many packs, and may begin at any number.
SINGLES = {name: np.dtype([(f"{name}x{count}", f"u{4 // count}")]) for name, count in COUNTS.items()}
ABOVE_MINUS_INF = {"float16x2": 0x7C00 + 1, "bfloat16x2": 0x7F80 + 1}

# Numba names a compiled function after the types of its arguments, and a record in such a name by a number that it has
# in this process. Functions for float16 and for bfloat16 that different processes compiled could have the same name,
# and a third process, loading both from the disk cache, would run one of them for both. So these numbers are fixed.
# Numba keeps its types as long as somebody does.
RECORD_TYPES = [from_dtype(dtype) for dtype in (*RECORDS.values(), *PACKS.values(), *SINGLES.values())]
for _number, _record in enumerate(RECORD_TYPES):
    _record._code = 1_900_000_000 + _number


def llvm(element):
    """LLVM's type of a Numba scalar."""
    if isinstance(element, types.Float):
        return {32: FLOAT, 64: DOUBLE}[element.bitwidth]
    return I1 if element == types.boolean else ir.IntType(element.bitwidth)


def vec(ty):
    return ir.VectorType(ty, LANES)


class Vector(types.Type):
    def __init__(self, element):
        self.element = element
        super().__init__(name=f"vector({element} x {LANES})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, vec(llvm(fe_type.element)))


MASK, INDEX = Vector(types.boolean), Vector(types.int32)
WRAPPED = types.Tuple((MASK, types.int64))  # a mask, and how far behind stands what it leaves out


class Memory(types.Type):
    """Where an array's elements begin: what a function of an inner loop takes in place of the array, whose references
    Numba would count at each call. The array must outlive it, as an argument of the kernel does.
    """

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(name=f"memory({dtype})")


@register_model(Memory)
class MemoryModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, ir.IntType(8).as_pointer())


class Pack(types.Integer):
    """Unsigned integers in the 32 bits of a lane."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"pack{count}", bitwidth=32, signed=False)


register_model(Pack)(models.IntegerModel)
PACK_OF = {2: Pack(2), 4: Pack(4)}


def record_kind(array):
    """The field's name for an array of records, else ''."""
    return next(iter(array.dtype.fields)) if isinstance(array.dtype, types.Record) else ""


def is_half(kind):
    return kind in RECORDS


def count_of(kind):
    """Numbers in a pack."""
    return int(kind[-1])


def arithmetic(like):
    """The Numba scalar in which elements of an array are computed with, or that a vector consists of."""
    if isinstance(like, Vector):
        return like.element
    kind = record_kind(like)
    if not kind:
        return like.dtype
    return types.float32 if is_half(kind) else PACK_OF[count_of(kind)]


def held_as(like):
    """The dtype of an array of such numbers as they are computed with: packs as integers of their order."""
    element = arithmetic(like)
    if not isinstance(element, Pack):
        return element
    return (PACKS if like.dtype.size == 4 else SINGLES)[f"uint{32 // element.count}"]


def splat_value(b, value):
    undef = ir.Constant(vec(value.type), ir.Undefined)
    return b.shuffle_vector(b.insert_element(undef, value, I32(0)), undef, ir.Constant(vec(I32), [0] * LANES))


def constant(b, ty, value):
    """A vector constant built from one integer bit pattern."""
    return ir.Constant(vec(ty), [value] * LANES)


def int32(b, value):
    return b.trunc(value, I32) if value.type.width > 32 else value


def lane_numbers():
    return ir.Constant(vec(I32), list(range(LANES)))


def address(ctx, b, array_type, array, offset, ty):
    """Where element `offset` of a flat array, or of its memory, lies, as a pointer to a vector of `ty`."""
    data = array if isinstance(array_type, Memory) else ctx.make_array(array_type)(ctx, b, array).data
    element = ir.IntType(8 * array_type.dtype.size) if record_kind(array_type) else ty  # less than `ty` for `SINGLES`
    first = b.bitcast(data, element.as_pointer())
    return b.bitcast(b.gep(first, [offset]), vec(ty).as_pointer())


def ty_bytes(ty):
    return {FLOAT: 4, DOUBLE: 8}.get(ty) or ty.width // 8


def alignment(array):
    """Bytes to which elements of an array are aligned: packs as what they consist of."""
    kind = record_kind(array)
    return ty_bytes(storage(array)) // (1 if not kind or is_half(kind) else count_of(kind))


def mangled(ty):
    """The type's name inside the name of an LLVM intrinsic."""
    return {FLOAT: "f32", DOUBLE: "f64"}.get(ty) or f"i{ty.width}"


def storage(array):
    """LLVM's type of an element in memory."""
    kind = record_kind(array)
    if not kind:
        return llvm(array.dtype)
    return I16 if is_half(kind) else I32


def converts_float16(ctx):
    """Whether the target has instructions for float16, which LLVM then takes for its conversions."""
    return has(ctx.codegen(), "f16c") or platform.machine() in ("aarch64", "arm64")


def smaller(count):
    """The type of `count` integers for each of 32 bits."""
    return ir.VectorType(ir.IntType(32 // count), LANES * count)


def repeated(ty, value):
    return ir.Constant(ty, [value % 2**ty.element.width] * ty.count)


def flip(b, kind, bits):
    """The highest bit of signed integers, all but it of negative halves; its own inverse."""
    sign = repeated(bits.type, 1 << bits.type.element.width - 1)
    if kind.startswith("int"):
        return b.xor(bits, sign)
    if kind in ABOVE_MINUS_INF:
        return b.xor(bits, b.and_(b.ashr(bits, repeated(bits.type, 15)), b.not_(sign)))
    return bits


def as_ordered(b, kind, value):
    """Packs to unsigned integers of the same order."""
    ty = smaller(count_of(kind))
    bits = b.add(flip(b, kind, b.bitcast(value, ty)), repeated(ty, ABOVE_MINUS_INF.get(kind, 0)))
    return b.bitcast(bits, vec(I32))


def as_stored(b, kind, value):
    """The inverse of `as_ordered`."""
    ty = smaller(count_of(kind))
    bits = b.sub(b.bitcast(value, ty), repeated(ty, ABOVE_MINUS_INF.get(kind, 0)))
    return b.bitcast(flip(b, kind, bits), vec(I32))


def widen(ctx, b, kind, value):
    """Halves, given as their bits, to float32; packs to integers of the same order."""
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
    """By arithmetic on the bits, where the target has no instruction: the run-time call that LLVM puts there is not
    known to jitted code: scaling by 2^112 moves the exponent's bias, subnormals included.
    """
    bits = b.zext(value, vec(I32))
    sign = b.shl(b.and_(bits, constant(b, I32, 0x8000)), constant(b, I32, 16))
    rest = b.shl(b.and_(bits, constant(b, I32, 0x7FFF)), constant(b, I32, 13))
    scaled = b.fmul(b.bitcast(rest, vec(FLOAT)), constant(b, FLOAT, 2.0**112))
    special = b.icmp_unsigned(">=", rest, constant(b, I32, 0x7C00 << 13))
    exact = b.select(special, b.or_(rest, constant(b, I32, 0x7F800000)), b.bitcast(scaled, vec(I32)))
    return b.bitcast(b.or_(sign, exact), vec(FLOAT))


def narrow(ctx, b, kind, value):
    """float32 to the bits of halves, rounded to nearest even. A NaN stays one, for bfloat16 if its lower half is 0, as
    it is in halves and in what arithmetic makes of them. Packs to what they were.
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


# Memory


@intrinsic
def memory(typingctx, array):
    """Where the elements of a flat array begin; None for None."""
    if isinstance(array, types.NoneType):
        return types.none(array), lambda ctx, b, sig, args: ctx.get_dummy_value()

    def gen(ctx, b, sig, args):
        return b.bitcast(ctx.make_array(array)(ctx, b, args[0]).data, ir.IntType(8).as_pointer())

    return Memory(array.dtype)(array), gen


@intrinsic
def number(typingctx, memory, offset):
    """Element `offset`, as it is."""

    def gen(ctx, b, sig, args):
        ty = llvm(memory.dtype)
        return b.load(b.gep(b.bitcast(args[0], ty.as_pointer()), [args[1]]), align=ty_bytes(ty))

    return memory.dtype(memory, offset), gen


def lanes_at(ctx, b, array, value, offset, mask=None, fill=None):
    """array[offset : offset + 16]; with a mask `fill` where it is not set, and nothing is read there. With a pair of a
    mask and a distance, what lies so far behind stands where it is not set.
    """
    ty, kind = storage(array), record_kind(array)
    ptr = address(ctx, b, array, value, offset, ty)
    if mask is None:
        return widen(ctx, b, kind, b.load(ptr, align=alignment(array)))
    align, nothing = alignment(array), ir.Constant(vec(ty), None)
    if isinstance(mask, list):
        mask, distance = mask
        behind = address(ctx, b, array, value, b.add(offset, distance), ty)
        rest = masked_load(ctx, b, behind, align, b.not_(mask), nothing)
        return widen(ctx, b, kind, masked_load(ctx, b, ptr, align, mask, rest))
    if kind:
        return b.select(mask, widen(ctx, b, kind, masked_load(ctx, b, ptr, align, mask, nothing)), fill)
    return masked_load(ctx, b, ptr, align, mask, fill)


def masked_load(ctx, b, ptr, align, mask, fill):
    """ptr[:16] where `mask`, elsewhere `fill`; `align` in bytes."""
    ty = fill.type.element
    if has_512(ctx.codegen()) or (has(ctx.codegen(), "avx2") and ty_bytes(ty) >= 4):
        return load_lanes(b, ptr, align, mask, fill)
    # Other machines have no instruction for this. LLVM would write a branch for each lane at each load, and take ten
    # times as long over it: an average of int8 compiled in 35 s.
    bits = b.bitcast(mask, I16)
    copy = cgutils.alloca_once(b, fill.type)
    with b.if_else(b.icmp_unsigned("==", bits, I16(2**LANES - 1)), likely=True) as (all_, some_):
        with all_:
            whole = b.load(ptr, align=align)
            ends = [(whole, b.block)]
        with some_:
            b.store(fill, copy)
            b.call(copy_run(b.module, ty, align, ty_bytes(ty)), [ptr, copy, bits])
            part = b.load(copy)
            ends.append((part, b.block))
    result = b.phi(fill.type)
    for lanes, block in ends:
        result.add_incoming(lanes, block)
    return result


def load_lanes(b, ptr, align, mask, fill):
    """The same by LLVM's own instruction."""
    ty = fill.type.element
    fn = cgutils.get_or_insert_function(
        b.module, ir.FunctionType(vec(ty), [ptr.type, I32, vec(I1), vec(ty)]),
        f"llvm.masked.load.v{LANES}{mangled(ty)}.p0",
    )
    return b.call(fn, [ptr, I32(align), mask, fill])


def some(b, mask_type, mask):
    """What `lanes_at` takes: a mask, or a pair of one and a distance, or None for all lanes."""
    if mask_type == WRAPPED:
        return cgutils.unpack_tuple(b, mask)
    if mask_type not in (MASK, types.none):
        raise TypeError(f"no mask: {mask_type}")
    return mask if mask_type == MASK else None


def masked_stores(ctx, b, pairs, align, mask):
    """ptr[:16] = value where `mask`, for pairs of a value and a pointer; `align` in bytes."""
    if has_512(ctx.codegen()):
        for value, ptr in pairs:
            store_lanes(b, value, ptr, align, mask)
        return
    # Other machines have instructions for this that are slow, 12 cycles for half a vector on a Zen 3, or none at all.
    bits = b.bitcast(mask, I16)
    with b.if_else(b.icmp_unsigned("==", bits, I16(2**LANES - 1)), likely=True) as (all_, some_):
        with all_:
            for value, ptr in pairs:
                b.store(value, ptr, align=align)
        with some_:
            copy = cgutils.alloca_once(b, pairs[0][0].type)
            for value, ptr in pairs:
                b.store(value, copy)
                b.call(copy_run(b.module, value.type.element, ty_bytes(value.type.element), align), [copy, ptr, bits])


def store_lanes(b, value, ptr, align, mask):
    """One of these by LLVM's own instruction."""
    ty = value.type.element
    fn = cgutils.get_or_insert_function(
        b.module, ir.FunctionType(ir.VoidType(), [vec(ty), ptr.type, I32, vec(I1)]),
        f"llvm.masked.store.v{LANES}{mangled(ty)}.p0",
    )
    b.call(fn, [value, ptr, I32(align), mask])


def copy_run(module, ty, source_align, align):
    """A function of where a vector lies in memory, where to, and the bits of a mask: it copies the lanes that are set,
    and touches no other. Lanes that follow each other, as they nearly always do, go in pieces of eight, four, two and
    one. The alignments are in bytes.
    """
    signature = ir.FunctionType(ir.VoidType(), [vec(ty).as_pointer(), vec(ty).as_pointer(), I16])
    name = f"copy_run.{mangled(ty)}.{source_align}.{align}"
    if name in module.globals:
        return module.globals[name]
    fn = ir.Function(module, signature, name)
    fn.linkage = "internal"
    fn.attributes.add("noinline")
    fn.attributes.add("nounwind")
    b = ir.IRBuilder(fn.append_basic_block())
    source, target, bits = fn.args
    first = call(b, "llvm.cttz.i16", I16, bits, I1(0))
    run = b.lshr(bits, b.and_(first, I16(LANES - 1)))
    straight = b.icmp_unsigned("==", b.and_(run, b.add(run, I16(1))), I16(0))
    with b.if_then(b.not_(straight), likely=False):
        mask = b.bitcast(bits, vec(I1))
        store_lanes(b, load_lanes(b, source, source_align, mask, ir.Constant(vec(ty), None)), target, align, mask)
        b.ret_void()
    at = b.zext(first, I64)
    start, to = (b.gep(b.bitcast(p, ty.as_pointer()), [at]) for p in (source, target))
    count, done = call(b, "llvm.ctpop.i16", I16, run), I64(0)
    for many in (8, 4, 2, 1):
        piece = ir.VectorType(ty, many).as_pointer()
        here = b.and_(count, I16(many))
        with b.if_then(b.icmp_unsigned("!=", here, I16(0))):
            lanes = b.load(b.bitcast(b.gep(start, [done]), piece), align=source_align)
            b.store(lanes, b.bitcast(b.gep(to, [done]), piece), align=align)
        done = b.add(done, b.zext(here, I64))
    b.ret_void()
    return fn


@intrinsic
def load(typingctx, array, offset):
    """array[offset : offset + 16]"""

    def gen(ctx, b, sig, args):
        return lanes_at(ctx, b, array, *args)

    return Vector(arithmetic(array))(array, offset), gen


@intrinsic
def nine_numbers(typingctx, memory, first):
    """Nine elements that follow each other, as they are."""
    numbers = types.UniTuple(memory.dtype, 9)

    def gen(ctx, b, sig, args):
        ty = llvm(memory.dtype)
        start = b.gep(b.bitcast(args[0], ty.as_pointer()), [args[1]])
        found = [b.load(b.gep(start, [I64(i)]), align=ty_bytes(ty)) for i in range(numbers.count)]
        return ctx.make_tuple(b, numbers, found)

    return numbers(memory, first), gen


@intrinsic
def twelve_indices(typingctx, array, offset):
    """Twelve times sixteen numbers of an array from `offset` on, as int32."""
    vectors = types.UniTuple(INDEX, 12)

    def gen(ctx, b, sig, args):
        found = [lanes_at(ctx, b, array, args[0], b.add(args[1], I64(i * LANES))) for i in range(vectors.count)]
        return ctx.make_tuple(b, vectors, [converted(b, array.dtype, types.int32, v) for v in found])

    return vectors(array, offset), gen


@intrinsic
def load_some(typingctx, array, offset, mask, fill):
    """array[offset : offset + 16] where `mask`, elsewhere the vector `fill`; masked-off elements are not touched. The
    mask may be None: all lanes.
    """

    def gen(ctx, b, sig, args):
        value, offset_, mask_, fill_ = args
        return lanes_at(ctx, b, array, value, offset_, some(b, mask, mask_), fill_)

    return fill(array, offset, mask, fill), gen


def store_at(ctx, b, array, value, offset, stored):
    """array[offset : offset + 16] = stored"""
    ptr = address(ctx, b, array, value, offset, storage(array))
    b.store(narrow(ctx, b, record_kind(array), stored), ptr, align=alignment(array))


def store_where(ctx, b, array, value, offset, stored, mask):
    """array[offset : offset + 16] = stored where `mask`; of a list with a distance the others go so far behind."""
    ty, stored = storage(array), narrow(ctx, b, record_kind(array), stored)
    where = [(offset, mask)]
    if isinstance(mask, list):
        lanes, distance = mask
        where = [(offset, lanes), (b.add(offset, distance), b.not_(lanes))]
    for at, lanes in where:
        masked_stores(ctx, b, [(stored, address(ctx, b, array, value, at, ty))], alignment(array), lanes)


def stream_at(ctx, b, array, value, offset, stored):
    """array[offset : offset + 16] = stored, past the caches."""
    ty = storage(array)
    ptr = address(ctx, b, array, value, offset, ty)
    instruction = b.store(narrow(ctx, b, record_kind(array), stored), ptr, align=LANES * ty_bytes(ty))
    instruction.set_metadata("nontemporal", b.module.add_metadata([I32(1)]))


@intrinsic
def store(typingctx, array, offset, value):
    """array[offset : offset + 16] = value"""

    def gen(ctx, b, sig, args):
        store_at(ctx, b, array, *args)
        return ctx.get_dummy_value()

    return types.void(array, offset, value), gen


@intrinsic
def store_some(typingctx, array, offset, value, mask):
    """array[offset : offset + 16] = value where `mask`; other elements are not touched. With a pair of a mask and a
    distance, the other lanes go so far behind.

    Not for a mask that is a constant of one lane: given halves, LLVM 22 writes two elements there.
    """

    def gen(ctx, b, sig, args):
        store_where(ctx, b, array, *args[:3], some(b, mask, args[3]))
        return ctx.get_dummy_value()

    return types.void(array, offset, value, mask if mask == WRAPPED else MASK), gen


@intrinsic
def stream(typingctx, array, offset, value):
    """array[offset : offset + 16] = value, past the caches; the first element must be aligned to the whole vector.

    A line that is not read before it is written saves a third of the memory traffic, and evicts nothing.
    """

    def gen(ctx, b, sig, args):
        stream_at(ctx, b, array, *args)
        return ctx.get_dummy_value()

    return types.void(array, offset, value), gen


@intrinsic(prefer_literal=True)
def put(typingctx, array, offset, value, mask, past):
    """array[offset : offset + 16] = value where `mask`, None for all lanes; if `past`, which a constant False never is,
    all of them, past the caches.
    """

    def gen(ctx, b, sig, args):
        target, lanes = args[:3], some(b, mask, args[3])

        def into_caches():
            if lanes is None:
                store_at(ctx, b, array, *target)
            else:
                store_where(ctx, b, array, *target, lanes)

        if isinstance(past, types.BooleanLiteral) and not past.literal_value:
            into_caches()
        else:
            with b.if_else(args[4]) as (streamed, stored):
                with streamed:
                    stream_at(ctx, b, array, *target)
                with stored:
                    into_caches()
        return ctx.get_dummy_value()

    return types.void(array, offset, value, mask, past), gen


@intrinsic
def transpose(typingctx, source, at, pitch, target, to, stride, mask):
    """target[to + j*stride + i] = source[at + i*pitch + j] for i and j below 16, and i in `mask`.

    First 4x4 blocks within the quarters of a vector, by the cheapest shuffles that machines have, then the quarters.
    """

    def gen(ctx, b, sig, args):
        ty = storage(source)
        align = ty_bytes(ty)
        half = ir.VectorType(ty, LANES // 2).as_pointer()

        def spot(array, first, step, i):
            offset = b.add(args[first], b.mul(args[step], I64(i)))
            return address(ctx, b, array, args[first - 1], offset, ty)

        def shuffle(pair, lanes):
            return b.shuffle_vector(*pair, ir.Constant(vec(I32), list(lanes)))

        def in_quarters(pair, order):  # four lanes out of each quarter of both
            return shuffle(pair, [4 * q + lane % 4 + LANES * (lane // 4) for q in range(4) for lane in order])

        def halves(i, column):  # eight columns of rows i and i + 4
            starts = [b.gep(b.bitcast(spot(source, 1, 2, row), half), [I32(column // 8)]) for row in (i, i + 4)]
            return shuffle([b.load(start, align=align) for start in starts], range(LANES))

        rows = [None] * LANES
        for column in (0, 8):
            upper, lower = [], []  # columns of rows 0 to 7, of rows 8 to 15: in turn one, and the fourth after it
            for blocks, i in ((upper, 0), (lower, 8)):
                r = [halves(i + k, column) for k in range(4)]
                singles = [in_quarters(pair, order) for order in ((0, 4, 1, 5), (2, 6, 3, 7))
                           for pair in (r[:2], r[2:])]
                blocks += [in_quarters(pair, order) for pair in (singles[:2], singles[2:])
                           for order in ((0, 1, 4, 5), (2, 3, 6, 7))]
            for j in range(4):
                pair = upper[j], lower[j]
                rows[column + j] = shuffle(pair, [8 * q + lane for q in range(4) for lane in range(4)])
                rows[column + 4 + j] = shuffle(pair, [8 * q + 4 + lane for q in range(4) for lane in range(4)])
        masked_stores(ctx, b, [(row, spot(target, 4, 5, j)) for j, row in enumerate(rows)], align, args[6])
        return ctx.get_dummy_value()

    return types.void(source, at, pitch, target, to, stride, MASK), gen


@intrinsic
def misaligned(typingctx, array, offset):
    """How many elements array[offset] lies behind the last address that `stream` takes."""

    def gen(ctx, b, sig, args):
        ty = storage(array)
        at = b.ptrtoint(address(ctx, b, array, args[0], args[1], ty), I64)
        return b.udiv(b.urem(at, I64(LANES * ty_bytes(ty))), I64(ty_bytes(ty)))

    return types.int64(array, offset), gen


def ask_for(ctx, b, array, value, offset, into):
    """Ask for the line of array[offset], into every cache (3) or into the second (2)."""
    ptr = b.bitcast(address(ctx, b, array, value, offset, storage(array)), ir.IntType(8).as_pointer())
    fn = cgutils.get_or_insert_function(
        b.module, ir.FunctionType(ir.VoidType(), [ptr.type, I32, I32, I32]), "llvm.prefetch.p0"
    )
    b.call(fn, [ptr, I32(0), I32(into), I32(1)])  # to read, data


@intrinsic
def prefetch(typingctx, array, offset):
    """Ask for the line of array[offset], which may lie behind the array's end: nothing is read.

    AMD's first cache waits for 24 lines at a time, and streamed lines are among them; the second waits for more, and
    the first is quick to fetch from there what is read in order. From memory, 3x3/2 of 224x224 planes takes 0.63 of
    the time with indices if asked for into the second cache (Zen 4, one thread; 0.77 with two), averages 0.8, maxima
    0.73 to 0.9, 2x2/2 0.9 to 1.08, gradients 0.8 to 1.02. Elsewhere that was not measured.
    """

    def gen(ctx, b, sig, args):
        ask_for(ctx, b, array, *args, 2 if ZEN else 3)
        return ctx.get_dummy_value()

    return types.void(array, offset), gen


@intrinsic
def prefetch_near(typingctx, array, offset):
    """The same into the first cache on every machine."""

    def gen(ctx, b, sig, args):
        ask_for(ctx, b, array, *args, 3)
        return ctx.get_dummy_value()

    return types.void(array, offset), gen


LINE, PAGE, PAGES = 64, 4096, 4  # bytes, bytes, and pages to a block


@intrinsic
def by_turns(typingctx, array, offset):
    """The first element of the line whose turn it is at `offset`, where the lines of each block of pages are taken from
    every page of it by turns.
    """

    def gen(ctx, b, sig, args):
        line, page, pages = (I64(n.bit_length() - 1)
                             for n in (LINE // ty_bytes(storage(array)), PAGE // LINE, PAGES))  # binary logarithms
        n = b.ashr(args[1], line)
        block = b.and_(n, I64(-(PAGE // LINE * PAGES)))
        first = b.shl(b.and_(n, I64(PAGES - 1)), page)
        n = b.or_(b.or_(block, first), b.and_(b.ashr(n, pages), I64(PAGE // LINE - 1)))
        return b.shl(n, line)

    return types.int64(array, types.int64), gen


@intrinsic
def fence(typingctx):
    """Streamed lines reach memory before whatever is stored later."""

    def gen(ctx, b, sig, args):
        b.fence("seq_cst")
        return ctx.get_dummy_value()

    return types.void(), gen


# Making vectors


@intrinsic
def splat(typingctx, like, value):
    """`value` in every lane, in the arithmetic of an array or a vector."""
    element = arithmetic(like)

    def gen(ctx, b, sig, args):
        return splat_value(b, ctx.cast(b, args[1], sig.args[1], element))

    return Vector(element)(like, value), gen


@intrinsic
def indices(typingctx, first, step):
    """first, first + step, first + 2*step, ... as int32."""

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
    """The number whose bits are set where the mask is: what `mask_of` takes."""

    def gen(ctx, b, sig, args):
        return b.zext(b.bitcast(args[0], I16), I64)

    return types.int64(mask), gen


@intrinsic
def lowest_bit(typingctx, bits):
    """Which is the lowest bit that is set in a number other than 0."""

    def gen(ctx, b, sig, args):
        return b.cttz(args[0], I1(1))

    return types.int64(bits), gen


@intrinsic
def not_negative(typingctx, index):
    """Mask of the lanes of an int32 vector that are 0 or more."""

    def gen(ctx, b, sig, args):
        return b.icmp_signed(">=", args[0], constant(b, I32, 0))

    return MASK(INDEX), gen


@intrinsic
def both(typingctx, a, b):
    """Where both masks are."""

    def gen(ctx, bld, sig, args):
        return bld.and_(*args)

    return MASK(MASK, MASK), gen


def converted(b, source, target, value):
    """Lanes of one Numba scalar to those of another."""
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


@intrinsic
def convert(typingctx, like, a):
    """The lanes in the arithmetic of an array or a vector; floats become integers by truncation."""
    target = arithmetic(like)

    def gen(ctx, b, sig, args):
        return converted(b, a.element, target, args[1])

    return Vector(target)(like, a), gen


# Choosing


def compare(b, element, operation, x, y):
    """An ordered comparison: false where either is NaN."""
    if isinstance(element, types.Float):
        return b.fcmp_ordered(operation, x, y)
    return b.icmp_signed(operation, x, y) if element.signed else b.icmp_unsigned(operation, x, y)


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
        wins = b.or_(compare(b, v.element, ">", v_, a_), is_nan(b, v.element, v_))
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


def overtaking(b, element, x, y):
    if isinstance(element, types.Float):
        return b.fcmp_unordered("ugt", x, y)
    return compare(b, element, ">", x, y)


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
def or_nan(typingctx, a, v):
    """a, or v where v is NaN."""

    def gen(ctx, b, sig, args):
        return b.select(is_nan(b, a.element, args[1]), args[1], args[0])

    return a(a, a), gen


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
        wins = bld.or_(compare(bld, a.element, ">", a_, b_), bld.and_(same, bld.icmp_signed("<", ia_, ib_)))
        return ctx.make_tuple(bld, sig.return_type, [bld.select(wins, a_, b_), bld.select(wins, ia_, ib_)])

    return types.Tuple((a, INDEX))(a, INDEX, a, INDEX), gen


@intrinsic
def first_among(typingctx, a, ia, b, ib):
    """(value, index) of the larger of a and b, the smaller index where they are equal; neither holds NaN."""

    def gen(ctx, bld, sig, args):
        a_, ia_, b_, ib_ = args
        sooner = bld.and_(compare(bld, a.element, "==", a_, b_), bld.icmp_signed("<", ia_, ib_))
        wins = bld.or_(compare(bld, a.element, ">", a_, b_), sooner)
        return ctx.make_tuple(bld, sig.return_type, [bld.select(wins, a_, b_), bld.select(wins, ia_, ib_)])

    return types.Tuple((a, INDEX))(a, INDEX, a, INDEX), gen


@intrinsic
def pick(typingctx, a, b, lanes):
    """Lane lanes[i] of the 32 lanes of a and b together, for every i."""
    element = llvm(a.element)

    def gen(ctx, bld, sig, args):
        return permute(ctx, bld, element, *args)

    return a(a, a, INDEX), gen


def permute(ctx, b, element, x, y, lanes):
    """As the target does it best."""
    if isinstance(element, ir.IntType) and element.width < 32:
        return b.trunc(permute(ctx, b, I32, b.zext(x, vec(I32)), b.zext(y, vec(I32)), lanes), vec(element))
    if has_512(ctx.codegen()):
        return permute_512(b, element, x, y, lanes)
    return (permute_256 if has(ctx.codegen(), "avx2") else permute_in_memory)(b, element, x, y, lanes)


@intrinsic
def rearrange(typingctx, a, lanes):
    """Lane lanes[i] of a, for every i."""
    element = llvm(a.element)

    def gen(ctx, bld, sig, args):
        if has_512(ctx.codegen()) and element in (FLOAT, I32):
            return call(bld, f"llvm.x86.avx512.permvar.{'sf' if element == FLOAT else 'si'}.512", vec(element), *args)
        return permute(ctx, bld, element, args[0], args[0], args[1])

    return a(a, INDEX), gen


def has(codegen, feature):
    """Whether the target has instructions, by LLVM's name for them."""
    return f"+{feature}" in getattr(codegen, "_tm_features", "").split(",")


def has_512(codegen):
    """Whether the target has the registers and masks of AVX-512."""
    return has(codegen, "avx512f")


@lru_cache(maxsize=1)
def wide_registers():
    """Whether a vector here is one register and lanes are rearranged by one instruction."""
    return has_512(cpu_target.target_context.codegen())


def call(b, name, result, *args):
    """A machine's own instruction."""
    fn = cgutils.get_or_insert_function(b.module, ir.FunctionType(result, [arg.type for arg in args]), name)
    return b.call(fn, args)


def part(b, value, first, count):
    """`count` lanes from `first` on."""
    return b.shuffle_vector(value, value, ir.Constant(ir.VectorType(I32, count), list(range(first, first + count))))


def permute_512(b, element, x, y, lanes):
    """One instruction for 32 bits, six for 64."""
    if element in (FLOAT, I32):
        return call(b, f"llvm.x86.avx512.vpermi2var.{'ps' if element == FLOAT else 'd'}.512", vec(element), x, lanes, y)
    kind, half = ("pd" if element == DOUBLE else "q"), ir.VectorType(element, LANES // 2)
    halves = []
    for first in (0, LANES // 2):
        at = b.zext(part(b, lanes, first, LANES // 2), ir.VectorType(I64, LANES // 2))
        picked = [call(b, f"llvm.x86.avx512.vpermi2var.{kind}.512", half, part(b, v, 0, LANES // 2), at,
                       part(b, v, LANES // 2, LANES // 2)) for v in (x, y)]
        upper = b.icmp_unsigned(">=", at, ir.Constant(at.type, [LANES] * (LANES // 2)))
        halves.append(b.select(upper, picked[1], picked[0]))
    return b.shuffle_vector(*halves, ir.Constant(vec(I32), list(range(LANES))))


def permute_256(b, element, x, y, lanes):
    """Eight lanes out of each of four registers, of which the lane's number says which."""
    if element not in (FLOAT, I32):
        return permute_in_memory(b, element, x, y, lanes)
    kind, half = ("ps" if element == FLOAT else "d"), ir.VectorType(element, LANES // 2)
    halves = []
    for first in (0, LANES // 2):
        at = part(b, lanes, first, LANES // 2)
        value = None
        for i, (v, start) in enumerate(((x, 0), (x, LANES // 2), (y, 0), (y, LANES // 2))):
            picked = call(b, f"llvm.x86.avx2.perm{kind}", half, part(b, v, start, LANES // 2), at)
            beyond = b.icmp_unsigned(">=", at, ir.Constant(at.type, [i * (LANES // 2)] * (LANES // 2)))
            value = picked if value is None else b.select(beyond, picked, value)
        halves.append(value)
    return b.shuffle_vector(*halves, ir.Constant(vec(I32), list(range(LANES))))


def permute_in_memory(b, element, x, y, lanes):
    """For any machine: both vectors are stored, and the lanes are loaded one by one."""
    both = cgutils.alloca_once(b, ir.ArrayType(element, 2 * LANES))
    vectors = b.bitcast(both, vec(element).as_pointer())
    for i, v in enumerate((x, y)):
        b.store(v, b.gep(vectors, [I32(i)]), align=ty_bytes(element))
    first, value = b.bitcast(both, element.as_pointer()), ir.Constant(vec(element), ir.Undefined)
    for i in range(LANES):
        lane = b.load(b.gep(first, [b.extract_element(lanes, I32(i))]))
        value = b.insert_element(value, lane, I32(i))
    return value


# Along a row


@intrinsic
def kept(typingctx, a, mask, fill):
    """The numbers of a where those of the mask, integers of their size, are not 0; elsewhere `fill`, 0 for packs."""

    def gen(ctx, b, sig, args):
        if isinstance(a.element, Pack):
            return b.and_(*args[:2])
        return b.select(b.icmp_unsigned("!=", args[1], ir.Constant(args[1].type, None)), args[0], args[2])

    return a(a, mask, a), gen


@intrinsic
def store_pairs(typingctx, array, offset, a):
    """The larger of every two numbers of a vector, NaN if either is: half a vector from array[offset] on."""

    def of_packs(ctx, b, value):
        width, pairs = 32 // a.element.count, LANES * a.element.count // 2
        two = ir.VectorType(ir.IntType(2 * width), pairs)
        odd = b.bitcast(b.lshr(b.bitcast(value, two), repeated(two, width)), vec(I32))
        value = narrow(ctx, b, record_kind(array), larger_of(b, a.element, odd, value))
        return b.trunc(b.bitcast(value, two), ir.VectorType(ir.IntType(width), pairs))

    def gen(ctx, b, sig, args):
        if isinstance(a.element, Pack):
            half = of_packs(ctx, b, args[2])
        else:
            even, odd = (b.shuffle_vector(args[2], args[2], ir.Constant(ir.VectorType(I32, LANES // 2), list(lanes)))
                         for lanes in (range(0, LANES, 2), range(1, LANES, 2)))
            half = larger_of(b, a.element, odd, even)
        ptr = b.bitcast(address(ctx, b, array, args[0], args[1], storage(array)), half.type.as_pointer())
        b.store(half, ptr, align=alignment(array))
        return ctx.get_dummy_value()

    return types.void(array, offset, a), gen


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
subtract = lanewise("fsub", "sub", "sub")
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


def every_second(first):
    """An intrinsic on two vectors of the same type: every second of their lanes from one on, eight of each."""

    @intrinsic
    def apply(typingctx, a, b):
        def gen(ctx, bld, sig, args):
            return bld.shuffle_vector(*args, ir.Constant(vec(I32), list(range(first, 2 * LANES, 2))))

        return a(a, a), gen

    return apply


even_lanes, odd_lanes = every_second(0), every_second(1)


@intrinsic
def interleaved(typingctx, a, b):
    """The lanes of two vectors of the same type by turns, a's first, in two vectors."""

    def gen(ctx, bld, sig, args):
        by_turns = [lane // 2 + LANES * (lane % 2) for lane in range(2 * LANES)]
        halves = [bld.shuffle_vector(*args, ir.Constant(vec(I32), by_turns[first : first + LANES]))
                  for first in (0, LANES)]
        return ctx.make_tuple(bld, sig.return_type, halves)

    return types.UniTuple(a, 2)(a, a), gen


# Reductions over taps: what stands at several distances, the hops, from one place. All of them in one intrinsic, which
# is straight code however many there are, and one call whose types Numba has to find.


def taps_at(ctx, b, array, value, at, hops, mask, fill):
    """array[at + hop : at + hop + 16] for each of a tuple of hops."""
    for hop in cgutils.unpack_tuple(b, hops):
        yield lanes_at(ctx, b, array, value, b.add(at, hop), mask, fill)


def inf_where_nan(b, element, value, taps):
    """`value`, +inf where one of the taps is NaN. A comparison serves two taps, where `without_nan` takes a minimum for
    each: 3x3/1 of 256 channels last takes 0.75 of the time.
    """
    if not isinstance(element, types.Float):
        return value
    whole = None
    for x, y in zip(taps[::2], [*taps[1::2], taps[-1]]):
        numbers = b.fcmp_ordered("ord", x, y)
        whole = numbers if whole is None else b.and_(whole, numbers)
    return b.select(whole, value, constant(b, llvm(element), float("inf")))


@intrinsic
def largest_tap(typingctx, array, at, hops, mask, fill):
    """The maximum over the taps, +inf if there is a NaN; `fill` where there is a mask that is not set."""
    element = arithmetic(array)

    def gen(ctx, b, sig, args):
        value, at_, hops_, mask_, fill_ = args
        taps = list(taps_at(ctx, b, array, value, at_, hops_, some(b, mask, mask_), fill_))
        result = taps[0]
        for v in taps[1:]:
            result = greater_tap(ctx, b, array, v, result)
        return inf_where_nan(b, element, result, taps)

    return fill(array, at, hops, mask, fill), gen


@intrinsic
def first_largest_tap(typingctx, array, at, hops, places, mask, fill):
    """(maximum, place) over the taps, +inf in place of NaN: the place of the first of equals, or of the last NaN, where
    taps and NaN occur once.
    """
    element = arithmetic(array)

    def gen(ctx, b, sig, args):
        value, at_, hops_, places_, mask_, fill_ = args
        taps = list(taps_at(ctx, b, array, value, at_, hops_, some(b, mask, mask_), fill_))
        # One comparison for two taps takes 0.7 to 0.9 of the time for halves, but 1.0 to 1.3 where loads take longer.
        halves = is_half(record_kind(array))
        numbers = taps if halves else [without_nan(b, element, v) for v in taps]
        places_ = cgutils.unpack_tuple(b, places_)
        result, place = numbers[0], splat_value(b, int32(b, places_[0]))
        for v, p in zip(numbers[1:], places_[1:]):
            place = b.select(compare(b, element, ">", v, result), splat_value(b, int32(b, p)), place)
            result = greater_tap(ctx, b, array, v, result)
        if halves:
            result = inf_where_nan(b, element, result, taps)
        return ctx.make_tuple(b, sig.return_type, [result, place])

    return types.Tuple((fill, INDEX))(array, at, hops, places, mask, fill), gen


@intrinsic
def sum_of_taps(typingctx, array, at, columns, mask, fill, like):
    """The sum over the taps in the arithmetic of `like`: down each of the columns of hops, then from left to right."""
    source, target = arithmetic(array), arithmetic(like)

    def gen(ctx, b, sig, args):
        value, at_, columns_, mask_, fill_, _ = args
        plus = b.fadd if isinstance(target, types.Float) else b.add
        result = ir.Constant(vec(llvm(target)), None)
        for hops_ in cgutils.unpack_tuple(b, columns_):
            taps = taps_at(ctx, b, array, value, at_, hops_, some(b, mask, mask_), fill_)
            column = converted(b, source, target, next(taps))
            for v in taps:
                column = plus(column, converted(b, source, target, v))
            result = plus(result, column)
        return result

    return Vector(target)(array, at, columns, mask, fill, like), gen


@intrinsic
def sums_of_every(typingctx, array, at, step, count, masks, fill, like):
    """The sums of `count` vectors, one to eight, which begin `step` elements after each other, in the arithmetic of
    `like`: of as many next to each other as there are masks.
    """
    source, target = arithmetic(array), arithmetic(like)
    vectors = types.UniTuple(Vector(target), len(masks))

    def gen(ctx, b, sig, args):
        value, at_, step_, count_, masks_, fill_, _ = args
        plus = b.fadd if isinstance(target, types.Float) else b.add
        lanes = [some(b, mask, mask_) for mask, mask_ in zip(masks, cgutils.unpack_tuple(b, masks_))]
        cases = [b.append_basic_block("few") for _ in range(MOST_ADDED)]
        done = b.append_basic_block("summed")
        choice = b.switch(count_, cases[-1])
        sums = []
        for few, case in enumerate(cases, 1):
            choice.add_case(count_.type(few), case)
            b.position_at_end(case)
            totals = [ir.Constant(vec(llvm(target)), None)] * len(lanes)
            for i in range(few):
                for k, mask in enumerate(lanes):
                    offset = b.add(b.add(at_, b.mul(step_, I64(i))), I64(k * LANES))
                    v = lanes_at(ctx, b, array, value, offset, mask, fill_)
                    totals[k] = plus(totals[k], converted(b, source, target, v))
            sums.append((totals, b.block))
            b.branch(done)
        b.position_at_end(done)
        results = []
        for k in range(len(lanes)):
            result = b.phi(vec(llvm(target)))
            for totals, block in sums:
                result.add_incoming(totals[k], block)
            results.append(result)
        return ctx.make_tuple(b, vectors, results)

    return vectors(array, at, step, count, masks, fill, like), gen


# Maxima of windows of few rows, and where they are. What is found along rows are flat tuples: of every row, and in it
# of one vector of windows or two, the halves, a vector of maxima and one of their places. How many rows, halves and
# picks there are is all that matters of them here: for that this is straight code.


@intrinsic
def load_indices(typingctx, array, offset, picks):
    """As many vectors of an int32 array as there are `picks`, one after the other from array[offset] on."""
    vectors = types.UniTuple(INDEX, len(picks))

    def gen(ctx, b, sig, args):
        found = [lanes_at(ctx, b, array, args[0], b.add(args[1], I64(i * LANES))) for i in range(len(picks))]
        return ctx.make_tuple(b, vectors, found)

    return vectors(array, offset, picks), gen


@intrinsic
def columns_from(typingctx, first, columns):
    """Columns that are counted from `first`, counted from 0; that of the first one for those before it."""

    def gen(ctx, b, sig, args):
        start, zero = splat_value(b, int32(b, args[0])), constant(b, I32, 0)
        found = [b.add(start, v) for v in cgutils.unpack_tuple(b, args[1])]
        return ctx.make_tuple(b, columns, [b.select(b.icmp_signed(">", v, zero), v, zero) for v in found])

    return columns(first, columns), gen


def picked_as(array):
    """The scalar in which elements of an array are compared that are picked: every tap would be widened else."""
    element = arithmetic(array)
    return types.int32 if isinstance(element, types.Integer) and element.bitwidth < I32.width else element


def first_of_taps(ctx, b, element, x, y, picks):
    """(maximum, place) of what pairs of lanes of both vectors and places say, in this order."""
    best, place = permute(ctx, b, llvm(element), x, y, picks[0][0]), picks[0][1]
    for lanes, spot in picks[1:]:
        v = permute(ctx, b, llvm(element), x, y, lanes)
        place = b.select(overtaking(b, element, v, best), spot, place)
        best = greater_of(b, element, v, best)
    return best, place


@intrinsic
def first_maxima(typingctx, array, at, apart, spot, row, rows, last, wide, width, mask, mask_b, halves, lanes, columns,
                 fill):
    """What is found along each of `rows`, counted from `row` on. Those before row 0 and behind the `last` one stand for
    the nearest that there is, whose maxima a window then meets twice, which changes neither them nor which is first.

    Of two vectors of row 0 the first begins at array[at], the second `apart` elements on; the place of its column 0 is
    `spot`. A row is `wide` elements and `width` places. Of every half, tap by tap, `lanes` are those of the windows'
    elements in both vectors, `columns` where they are in a row.
    """
    stored, element = arithmetic(array), picked_as(array)
    result = types.Tuple((Vector(element), INDEX) * (len(rows) * len(halves)))
    taps = len(lanes) // len(halves)

    def gen(ctx, b, sig, args):
        value, at_, apart_, spot_, row_, _, last_, wide_, width_, *masks, _, lanes_, columns_, fill_ = args
        picks = list(zip(cgutils.unpack_tuple(b, lanes_), cgutils.unpack_tuple(b, columns_)))
        starts, spots = [], []
        for i in range(len(rows)):
            h = b.add(row_, I64(i))
            h = b.select(b.icmp_signed("<", h, I64(0)), I64(0), h)
            h = b.select(b.icmp_signed(">", h, last_), last_, h)
            starts.append(b.add(at_, b.mul(h, wide_)))
            spots.append(splat_value(b, int32(b, b.add(spot_, b.mul(h, width_)))))
        found = []
        for start, where in zip(starts, spots):
            x, y = (lanes_at(ctx, b, array, value, at, m, fill_) for at, m in zip((start, b.add(start, apart_)), masks))
            x, y = (converted(b, stored, element, without_nan(b, stored, v)) for v in (x, y))
            for first in range(0, len(picks), taps):
                best, place = first_of_taps(ctx, b, element, x, y, picks[first : first + taps])
                found += best, b.add(place, where)
        return ctx.make_tuple(b, result, found)

    return result(array, at, apart, spot, row, rows, last, wide, width, mask, mask_b, halves, lanes, columns,
                  fill), gen


@intrinsic
def first_of_rows(typingctx, above, below, halves, like):
    """The maxima of windows, as vectors `like` this one, and their places, for each of the halves: from what is found
    along all their rows, whose first ones are `above`.
    """
    result = types.Tuple((like, INDEX) * len(halves))
    element = below[0].element

    def gen(ctx, b, sig, args):
        found = [*cgutils.unpack_tuple(b, args[0]), *cgutils.unpack_tuple(b, args[1])]
        best = []
        for k in range(0, len(result), 2):
            r, ri = found[k : k + 2]
            for i in range(k + len(result), len(found), len(result)):
                v, vi = found[i : i + 2]
                ri = b.select(overtaking(b, element, v, r), vi, ri)
                r = greater_of(b, element, v, r)
            best += converted(b, element, like.element, r), ri
        return ctx.make_tuple(b, result, best)

    return result(above, below, halves, like), gen


@intrinsic
def passed_on(typingctx, above, below):
    """The last elements of both tuples together, as many as the first has."""

    def gen(ctx, b, sig, args):
        found = [*cgutils.unpack_tuple(b, args[0]), *cgutils.unpack_tuple(b, args[1])]
        return ctx.make_tuple(b, above, found[len(found) - len(above) :])

    return above(above, below), gen


@intrinsic
def first_of_cluster(typingctx, array, at, table, first, picks, like):
    """(maximum, place) of windows whose elements are lanes of array[at : at + 32]: for each of the `picks` table[first]
    has the lanes one after the other, and then where they are. As a vector `like` this one.
    """
    stored, element = arithmetic(array), picked_as(array)

    def gen(ctx, b, sig, args):
        value, at_, table_, first_, _, _ = args
        x, y = (lanes_at(ctx, b, array, value, b.add(at_, I64(i))) for i in (0, LANES))
        x, y = (converted(b, stored, element, without_nan(b, stored, v)) for v in (x, y))
        taps = [lanes_at(ctx, b, table, table_, b.add(first_, I64(i * LANES))) for i in range(2 * len(picks))]
        best, place = first_of_taps(ctx, b, element, x, y, list(zip(taps[: len(picks)], taps[len(picks) :])))
        return ctx.make_tuple(b, sig.return_type, [converted(b, element, like.element, best), place])

    return types.Tuple((like, INDEX))(array, at, table, first, picks, like), gen


# Gradients, by rows of windows: what vectors of a row, at several hops from one place, add to sixteen elements. Of
# averages all of it, of maxima what an index names.


def each_of(ctx, b, array, value, at, hops, bits, first, fill):
    """What `load_each` loads."""
    number = b.gep(b.bitcast(bits, I64.as_pointer()), [first])
    for i, hop in enumerate(cgutils.unpack_tuple(b, hops)):
        mask = b.bitcast(b.trunc(b.load(b.gep(number, [I64(i)])), I16), vec(I1))
        yield lanes_at(ctx, b, array, value, b.add(at, hop), mask, fill)


@intrinsic
def load_each(typingctx, array, at, hops, bits, first, fill):
    """array[at + hop : at + hop + 16] for each of a tuple of hops, a tuple of vectors; `fill` where the lane's bit is
    not set in the number of that hop, bits[first] of the first one. `bits` is the memory of an int64 array.
    """
    vectors = types.UniTuple(fill, len(hops))

    def gen(ctx, b, sig, args):
        return ctx.make_tuple(b, vectors, list(each_of(ctx, b, array, *args)))

    return vectors(array, at, hops, bits, first, fill), gen


@intrinsic
def added_each(typingctx, sums, array, at, hops, bits, first, fill, like):
    """To each of a tuple of sums, in the arithmetic of `like`, what `load_each` loads; to 0 where `sums` is None."""
    source, target = arithmetic(array), arithmetic(like)
    vectors = types.UniTuple(Vector(target), len(hops))

    def gen(ctx, b, sig, args):
        sums_, *rest = args[:-1]
        plus = b.fadd if isinstance(target, types.Float) else b.add
        before = [ir.Constant(vec(llvm(target)), None)] * len(hops)
        if not isinstance(sums, types.NoneType):
            before = cgutils.unpack_tuple(b, sums_)
        found = [plus(total, converted(b, source, target, v))
                 for total, v in zip(before, each_of(ctx, b, array, *rest), strict=True)]
        return ctx.make_tuple(b, vectors, found)

    return vectors(sums, array, at, hops, bits, first, fill, like), gen


def summed(vectors, some, chosen):
    """An intrinsic's signature and code: the sum of those vectors of a tuple, from left to right, that are chosen."""
    element = vectors.dtype.element

    def gen(ctx, b, sig, args):
        plus = b.fadd if isinstance(element, types.Float) else b.add
        return reduce(plus, cgutils.unpack_tuple(b, args[0])[chosen])

    return vectors.dtype(vectors, some), gen


@intrinsic
def sum_of_first(typingctx, vectors, some):
    """The sum of as many of the first vectors of a tuple as `some` has elements, from left to right."""
    return summed(vectors, some, slice(len(some)))


@intrinsic
def sum_of_last(typingctx, vectors, some):
    """The same of the last ones."""
    return summed(vectors, some, slice(len(vectors) - len(some), None))


@intrinsic
def sum_of_hits(typingctx, a, count, numbers, indices, last, place, mask, one):
    """(sum, count): to `a` is added what has this `place` for an index, of as many of the tuples' last vectors as
    `last` has elements, one after the other; and `one` to `count` for each. Both only where the mask is.
    """

    def gen(ctx, b, sig, args):
        total, hits, numbers_, indices_, _, place_, mask_, one_ = args
        plus = b.fadd if isinstance(a.element, types.Float) else b.add
        pairs = list(zip(cgutils.unpack_tuple(b, numbers_), cgutils.unpack_tuple(b, indices_), strict=True))
        for number, index in pairs[len(pairs) - len(last) :]:
            hit = b.and_(b.icmp_signed("==", index, place_), mask_)
            total, hits = b.select(hit, plus(total, number), total), b.select(hit, b.add(hits, one_), hits)
        return ctx.make_tuple(b, sig.return_type, [total, hits])

    return types.Tuple((a, INDEX))(a, count, numbers, indices, last, place, mask, one), gen
