"""Lanes in another order: picked out of two vectors, or every second lane; and the larger of neighbouring lanes."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .comparison import greater_of
from .halves import to_memory
from .memory import address
from .vector import (
    DOUBLE,
    FLOAT,
    I32,
    I64,
    INDEX,
    LANES,
    Pack,
    alignment,
    call,
    has,
    has_512,
    llvm,
    part,
    repeated,
    storage,
    ty_bytes,
    vec,
)


@intrinsic
def pick(typingctx, a, b, lanes):
    """A vector whose lane i is lane lanes[i] of the 32 lanes of a and b together."""
    element = llvm(a.element)

    def gen(ctx, bld, sig, args):
        return permute(ctx, bld, element, *args)

    return a(a, a, INDEX), gen


def permute(ctx, b, element, x, y, lanes):
    """`pick` by the instructions that the processor has."""
    if isinstance(element, ir.IntType) and element.width < 32:
        return b.trunc(permute(ctx, b, I32, b.zext(x, vec(I32)), b.zext(y, vec(I32)), lanes), vec(element))
    if has_512(ctx.codegen()):
        return permute_512(b, element, x, y, lanes)
    return (permute_256 if has(ctx.codegen(), "avx2") else permute_in_memory)(b, element, x, y, lanes)


@intrinsic
def rearrange(typingctx, a, lanes):
    """A vector whose lane i is lane lanes[i] of a."""
    element = llvm(a.element)

    def gen(ctx, bld, sig, args):
        if has_512(ctx.codegen()) and element in (FLOAT, I32):
            return call(bld, f"llvm.x86.avx512.permvar.{'sf' if element == FLOAT else 'si'}.512", vec(element), *args)
        return permute(ctx, bld, element, args[0], args[0], args[1])

    return a(a, INDEX), gen


def permute_512(b, element, x, y, lanes):
    """`pick` with AVX-512: one instruction for elements of 32 bits, six for 64 bits."""
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
    """`pick` with AVX2: eight lanes are picked out of each of four registers, and the lane's number says which
    register's is taken.
    """
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
    """`pick` on any machine: both vectors are stored, and the lanes are loaded one by one."""
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
def store_pairs(typingctx, array, offset, a):
    """Store the larger of every two neighbouring numbers of a vector without NaN: half a vector, which begins at
    array[offset].
    """

    def of_packs(ctx, b, value):
        width, pairs = 32 // a.element.count, LANES * a.element.count // 2
        two = ir.VectorType(ir.IntType(2 * width), pairs)
        odd = b.bitcast(b.lshr(b.bitcast(value, two), repeated(two, width)), vec(I32))
        value = to_memory(ctx, b, array, greater_of(b, a.element, odd, value))
        return b.trunc(b.bitcast(value, two), ir.VectorType(ir.IntType(width), pairs))

    def gen(ctx, b, sig, args):
        if isinstance(a.element, Pack):
            half = of_packs(ctx, b, args[2])
        else:
            even, odd = (b.shuffle_vector(args[2], args[2], ir.Constant(ir.VectorType(I32, LANES // 2), list(lanes)))
                         for lanes in (range(0, LANES, 2), range(1, LANES, 2)))
            half = to_memory(ctx, b, array, greater_of(b, a.element, odd, even))
        ptr = b.bitcast(address(ctx, b, array, args[0], args[1], storage(array)), half.type.as_pointer())
        b.store(half, ptr, align=alignment(array))
        return ctx.get_dummy_value()

    return types.void(array, offset, a), gen


def every_second(first):
    """An intrinsic of two vectors of the same type: every second of their lanes from number `first` on, eight of each.
    """

    @intrinsic
    def apply(typingctx, a, b):
        def gen(ctx, bld, sig, args):
            return bld.shuffle_vector(*args, ir.Constant(vec(I32), list(range(first, 2 * LANES, 2))))

        return a(a, a), gen

    return apply


even_lanes, odd_lanes = every_second(0), every_second(1)
