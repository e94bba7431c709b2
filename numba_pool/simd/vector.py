"""The vector type: sixteen lanes of a number. Also how these numbers lie in memory, and what the processor can do.

An array of halves reaches a kernel as an array of records with one field. The field's name, ``float16`` or
``bfloat16``, says how `load` widens an element to float32, and how `store` rounds it (to nearest even). For maxima
without indices, numbers smaller than float32 may also come in packs of four bytes, such as ``float16x2`` or
``uint8x4``. A lane holds a pack as two or four unsigned integers of the same order: see `PACKS` and `SINGLES`.
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


NOWHERE = 2**31 - 1  # the index of a lane that holds no element: it is larger than any other


ZEN = (config.CPU_NAME or get_host_cpu_name()).startswith("znver")


# How kernels read halves: as records with one field, whose name is the dtype.
RECORDS = {name: np.dtype([(name, np.uint16)]) for name in ("float16", "bfloat16")}


# How kernels read packs, by the name of the dtype of their numbers. In a lane the numbers are unsigned integers of the
# same order, and 0 is the lowest. Unsigned integers stay as they are. Of signed integers the highest bit is flipped. Of
# negative halves all bits but the sign are flipped; then a number is added that takes -inf to 0, and every NaN beyond
# +inf.
COUNTS = {"float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int8": 4, "uint8": 4}


PACKS = {name: np.dtype([(f"{name}x{count}", np.uint32)]) for name, count in COUNTS.items()}


# The same numbers as arrays of single numbers: a vector holds as many of them, but may begin at any number.
SINGLES = {name: np.dtype([(f"{name}x{count}", f"u{4 // count}")]) for name, count in COUNTS.items()}


# How kernels read numbers whose minimum is wanted: in a mirror, in which the smallest number is the largest. The mirror
# turns the sign of floats and all bits of integers. It is its own inverse, and a NaN stays NaN. So every kernel for
# maxima serves minima, with the same rules for ties, NaN and empty windows.
MIRROR = "mirrored_"
NUMBERS = ("float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
MIRRORED = {np.dtype(name): np.dtype([(MIRROR + name, f"u{np.dtype(name).itemsize}")]) for name in NUMBERS}
MIRRORED |= {dtype: np.dtype([(MIRROR + dtype.names[0], dtype[0])])
             for kinds in (RECORDS, PACKS, SINGLES) for dtype in kinds.values()}


# How kernels read floats if NaN stands for a missing element. OMITTED is for maxima: a load puts -inf in the place of
# NaN, in the mirror for minima. COUNTED is for sums: whoever adds elements up also counts those that are no NaN. Walks
# that do not count are run twice: with 0 in the place of NaN for a sum (ZEROED), and with 1 in the place of everything
# else as well for its count (ONES).
OMIT, COUNT, ZERO, ONE = "omitted_", "counted_", "zeroed_", "ones_"
FLOATS = {name: np.dtype(name) for name in ("float32", "float64")} | RECORDS
OMITTED = {dtype: np.dtype([(OMIT + (dtype.names or (dtype.name,))[0], f"u{dtype.itemsize}")])
           for own in FLOATS.values() for dtype in (own, MIRRORED[own])}
COUNTED, ZEROED, ONES = ({dtype: np.dtype([(seen + name, f"u{dtype.itemsize}")]) for name, dtype in FLOATS.items()}
                         for seen in (COUNT, ZERO, ONE))
ABOVE_MINUS_INF = {"float16x2": 0x7C00 + 1, "bfloat16x2": 0x7F80 + 1}


# Numba names a compiled function after the types of its arguments. A record has a number in such a name, which differs
# from process to process. So a function for float16 and one for bfloat16, compiled by two processes, could have the
# same name; a third process that loads both from the disk cache would run one of them for both. Hence these numbers are
# fixed here. The list keeps the types alive, since Numba forgets types that nobody holds.
RECORD_TYPES = [from_dtype(dtype) for dtype in
                (*RECORDS.values(), *PACKS.values(), *SINGLES.values(), *MIRRORED.values(), *OMITTED.values(),
                 *COUNTED.values(), *ZEROED.values(), *ONES.values())]


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


WRAPPED = types.Tuple((MASK, types.int64))  # a mask, and how many elements further on the other lanes lie


class Memory(types.Type):
    """The Numba type of the place where an array's elements begin. Functions of inner loops take it in the place of the
    array, whose references Numba would count at each call. The array must outlive it, as a kernel's arguments do.
    """

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(name=f"memory({dtype})")


@register_model(Memory)
class MemoryModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, ir.IntType(8).as_pointer())


class Pack(types.Integer):
    """The Numba type of a lane that holds `count` unsigned integers in its 32 bits."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"pack{count}", bitwidth=32, signed=False)


register_model(Pack)(models.IntegerModel)


PACK_OF = {2: Pack(2), 4: Pack(4)}


def field(array):
    """The name of the field of an array of records; '' for other arrays."""
    return next(iter(array.dtype.fields)) if isinstance(array.dtype, types.Record) else ""


def is_mirrored(array):
    """Whether the elements of an array are seen in the mirror: the smallest number is wanted."""
    return field(array).removeprefix(OMIT).startswith(MIRROR)


def is_lifted(array):
    """Whether a load puts other numbers in the place of some elements."""
    return field(array).startswith((OMIT, ZERO, ONE))


def is_counted(array):
    """Whether elements of an array that are no NaN are counted, while they are added up."""
    return field(array).startswith(COUNT)


def own_kind(array):
    """What the elements of an array of records are: the name of its field, without what is made of them."""
    kind = field(array)
    for prefix in (OMIT, COUNT, ZERO, ONE, MIRROR):
        kind = kind.removeprefix(prefix)
    return kind


def record_kind(array):
    """The kind of halves or packs that an array holds, such as 'float16' or 'uint8x4'; '' for other arrays."""
    kind = own_kind(array)
    return "" if kind in NUMBERS else kind


def number_of(array):
    """The Numba scalar of an array of numbers, mirrored or not."""
    return from_dtype(np.dtype(own_kind(array))) if field(array) else array.dtype


def is_half(kind):
    return kind in RECORDS


def count_of(kind):
    """Numbers in a pack."""
    return int(kind[-1])


def arithmetic(like):
    """The Numba scalar in which kernels compute with the elements of an array, or that the lanes of a vector are."""
    if isinstance(like, Vector):
        return like.element
    kind = record_kind(like)
    if not kind:
        return number_of(like)
    return types.float32 if is_half(kind) else PACK_OF[count_of(kind)]


def held_as(like):
    """Numba's dtype of a scratch array for such numbers, as kernels compute with them. Packs are integers there, which
    are stored as they are.
    """
    element = arithmetic(like)
    if not isinstance(element, Pack):
        return element
    return from_dtype((PACKS if like.dtype.size == 4 else SINGLES)[f"uint{32 // element.count}"])


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
    """Bytes to which the elements of an array are aligned; packs are aligned as their numbers are."""
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
    """LLVM's type of a vector of packs, as `count` small integers for each lane."""
    return ir.VectorType(ir.IntType(32 // count), LANES * count)


def repeated(ty, value):
    return ir.Constant(ty, [value % 2**ty.element.width] * ty.count)


def has(codegen, feature):
    """Whether the processor has some instructions, by LLVM's name for them."""
    return f"+{feature}" in getattr(codegen, "_tm_features", "").split(",")


def has_512(codegen):
    """Whether the target has the registers and masks of AVX-512."""
    return has(codegen, "avx512f")


@lru_cache(maxsize=1)
def wide_registers():
    """Whether a vector is one register on this processor, and lanes are picked by one instruction: with AVX-512."""
    return has_512(cpu_target.target_context.codegen())


def call(b, name, result, *args):
    """Call an instruction of the processor, or a function of LLVM, by its name."""
    fn = cgutils.get_or_insert_function(b.module, ir.FunctionType(result, [arg.type for arg in args]), name)
    return b.call(fn, args)


def part(b, value, first, count):
    """`count` lanes of a vector, from number `first` on."""
    return b.shuffle_vector(value, value, ir.Constant(ir.VectorType(I32, count), list(range(first, first + count))))
