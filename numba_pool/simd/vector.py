"""The vector type: sixteen lanes of a number, what they are in memory, and what the machine has for them.

An array of halves reaches a kernel as an array of one-field records, and the field's name, ``float16`` or
``bfloat16``, says how `load` widens it to float32 and how `store` rounds it (to nearest even). For maxima without
indices whatever is smaller than float32 may also come in packs of four bytes, ``float16x2`` or ``uint8x4``, which a
lane holds as two or four unsigned integers of the same order: see `PACKS`, and `SINGLES`.
"""

from functools import lru_cache

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_name
from numba import config, types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import models, register_model
from numba.np.numpy_support import from_dtype

from .._windows import VECTOR

LANES = VECTOR


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


# How they read what is to be pooled to minima: as in a mirror, in which the smallest number is the largest. The mirror
# turns the sign of floats and all bits of integers, and is its own inverse; a NaN stays one. So every kernel of a
# maximum serves the minimum, with the same rules for ties, NaN and windows that are empty.
MIRROR = "mirrored_"
NUMBERS = ("float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
MIRRORED = {np.dtype(name): np.dtype([(MIRROR + name, f"u{np.dtype(name).itemsize}")]) for name in NUMBERS}
MIRRORED |= {dtype: np.dtype([(MIRROR + dtype.names[0], dtype[0])])
             for kinds in (RECORDS, PACKS, SINGLES) for dtype in kinds.values()}
ABOVE_MINUS_INF = {"float16x2": 0x7C00 + 1, "bfloat16x2": 0x7F80 + 1}


# Numba names a compiled function after the types of its arguments, and a record in such a name by a number that it has
# in this process. Functions for float16 and for bfloat16 that different processes compiled could have the same name,
# and a third process, loading both from the disk cache, would run one of them for both. So these numbers are fixed.
# Numba keeps its types as long as somebody does.
RECORD_TYPES = [from_dtype(dtype) for dtype in
                (*RECORDS.values(), *PACKS.values(), *SINGLES.values(), *MIRRORED.values())]


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


def field(array):
    """The field's name for an array of records, else ''."""
    return next(iter(array.dtype.fields)) if isinstance(array.dtype, types.Record) else ""


def is_mirrored(array):
    """Whether the smallest number of an array is to be found, not the largest."""
    return field(array).startswith(MIRROR)


def record_kind(array):
    """How halves and packs stand in an array, else ''."""
    kind = field(array).removeprefix(MIRROR)
    return "" if kind in NUMBERS else kind


def number_of(array):
    """The Numba scalar of an array of numbers, mirrored or not."""
    return from_dtype(np.dtype(field(array).removeprefix(MIRROR))) if field(array) else array.dtype


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
        return number_of(like)
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
        return llvm(number_of(array))
    return I16 if is_half(kind) else I32


def smaller(count):
    """The type of `count` integers for each of 32 bits."""
    return ir.VectorType(ir.IntType(32 // count), LANES * count)


def repeated(ty, value):
    return ir.Constant(ty, [value % 2**ty.element.width] * ty.count)


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
