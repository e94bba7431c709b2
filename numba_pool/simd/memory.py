"""Loads and stores of vectors, with and without masks. Nothing here checks a bound."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .halves import from_memory, to_memory
from .lanes import converted
from .vector import (
    I1,
    I16,
    I32,
    I64,
    INDEX,
    LANES,
    MASK,
    WRAPPED,
    Memory,
    Vector,
    alignment,
    arithmetic,
    call,
    has,
    has_512,
    is_lifted,
    is_mirrored,
    llvm,
    mangled,
    record_kind,
    storage,
    ty_bytes,
    vec,
)

ALIGNED = 64  # bytes: a cache line


def address(ctx, b, array_type, array, offset, ty):
    """A pointer to element `offset` of a flat array, or of its `memory`; it points to a vector of `ty`."""
    data = array if isinstance(array_type, Memory) else ctx.make_array(array_type)(ctx, b, array).data
    element = ir.IntType(8 * array_type.dtype.size) if record_kind(array_type) else ty  # narrower for `SINGLES`
    first = b.bitcast(data, element.as_pointer())
    return b.bitcast(b.gep(first, [offset]), vec(ty).as_pointer())


# Memory


def new_array(ctx, b, array_type, size):
    """A flat array of `size` elements, as `np.empty` makes, which Numba would compile once more for every dtype. It
    begins with a cache line. MemoryError if there is no room.
    """
    array, width = ctx.make_array(array_type)(ctx, b), I64(ctx.get_abi_sizeof(ctx.get_data_type(array_type.dtype)))
    array.meminfo = ctx.nrt.meminfo_alloc_aligned(b, b.mul(size, width), ALIGNED)
    array.data = b.bitcast(ctx.nrt.meminfo_data(b, array.meminfo), array.data.type)
    array.nitems, array.itemsize = size, width
    array.shape, array.strides = (cgutils.pack_array(b, [value]) for value in (size, width))
    return array._getvalue()


@intrinsic
def empty(typingctx, like, size):
    """An array of `size` elements of the dtype of the array `like`; None for None."""
    if isinstance(like, types.NoneType):
        return types.none(like, types.int64), lambda ctx, b, sig, args: ctx.get_dummy_value()
    array = types.Array(like.dtype, 1, "C")
    return array(like, types.int64), lambda ctx, b, sig, args: new_array(ctx, b, array, args[1])


@intrinsic
def memory(typingctx, array):
    """Where the elements of a flat array begin: functions of inner loops take this in the place of the array, since
    Numba counts an array's references at each call. None for None.
    """
    if isinstance(array, types.NoneType):
        return types.none(array), lambda ctx, b, sig, args: ctx.get_dummy_value()

    def gen(ctx, b, sig, args):
        return b.bitcast(ctx.make_array(array)(ctx, b, args[0]).data, ir.IntType(8).as_pointer())

    return Memory(array.dtype)(array), gen


@intrinsic
def memory_as(typingctx, array, like):
    """The memory of an array of int32; if elements of `like` are as wide, as if it held such elements. So what only
    moves elements is compiled once for both.
    """
    dtype = like.dtype if like.dtype in (types.float32, types.uint32) else array.dtype

    def gen(ctx, b, sig, args):
        return b.bitcast(ctx.make_array(array)(ctx, b, args[0]).data, ir.IntType(8).as_pointer())

    return Memory(dtype)(array, like), gen


@intrinsic
def number(typingctx, memory, offset):
    """Element `offset` of a memory, as a number."""

    def gen(ctx, b, sig, args):
        ty = llvm(memory.dtype)
        return b.load(b.gep(b.bitcast(args[0], ty.as_pointer()), [args[1]]), align=ty_bytes(ty))

    return memory.dtype(memory, offset), gen


def lanes_at(ctx, b, array, value, offset, mask=None, fill=None):
    """array[offset : offset + 16]. With a mask, lanes that are not set are not read, and are those of `fill`. With a
    list of a mask and a distance, lanes that are not set are read that many elements further on.
    """
    ty, kind = storage(array), record_kind(array)
    ptr = address(ctx, b, array, value, offset, ty)
    if mask is None:
        return from_memory(ctx, b, array, b.load(ptr, align=alignment(array)))
    align, nothing = alignment(array), ir.Constant(vec(ty), None)
    if isinstance(mask, list):
        mask, distance = mask
        behind = address(ctx, b, array, value, b.add(offset, distance), ty)
        rest = masked_load(ctx, b, behind, align, b.not_(mask), nothing)
        return from_memory(ctx, b, array, masked_load(ctx, b, ptr, align, mask, rest))
    if kind or is_mirrored(array) or is_lifted(array):
        return b.select(mask, from_memory(ctx, b, array, masked_load(ctx, b, ptr, align, mask, nothing)), fill)
    return masked_load(ctx, b, ptr, align, mask, fill)


def masked_load(ctx, b, ptr, align, mask, fill):
    """ptr[:16] where `mask`, elsewhere `fill`. The alignment is in bytes."""
    ty = fill.type.element
    if has_512(ctx.codegen()) or (has(ctx.codegen(), "avx2") and ty_bytes(ty) >= 4):
        return load_lanes(b, ptr, align, mask, fill)
    # Other machines have no instruction for a masked load. LLVM would write a branch for each lane, at each load, and
    # would take ten times as long to compile.
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
    """The same by LLVM's own masked load."""
    ty = fill.type.element
    fn = cgutils.get_or_insert_function(
        b.module, ir.FunctionType(vec(ty), [ptr.type, I32, vec(I1), vec(ty)]),
        f"llvm.masked.load.v{LANES}{mangled(ty)}.p0",
    )
    return b.call(fn, [ptr, I32(align), mask, fill])


def some(b, mask_type, mask):
    """A mask in the form that `lanes_at` takes: one mask, a list of a mask and a distance, or None for all lanes."""
    if mask_type == WRAPPED:
        return cgutils.unpack_tuple(b, mask)
    if mask_type not in (MASK, types.none):
        raise TypeError(f"no mask: {mask_type}")
    return mask if mask_type == MASK else None


def masked_stores(ctx, b, pairs, align, mask):
    """ptr[:16] = value where `mask`, for pairs of a value and a pointer. The alignment is in bytes."""
    if has_512(ctx.codegen()):
        for value, ptr in pairs:
            store_lanes(b, value, ptr, align, mask)
        return
    # Other machines have slow instructions for masked stores (12 cycles for half a vector on a Zen 3), or none.
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
    """ptr[:16] = value where `mask`, by LLVM's own masked store."""
    ty = value.type.element
    fn = cgutils.get_or_insert_function(
        b.module, ir.FunctionType(ir.VoidType(), [vec(ty), ptr.type, I32, vec(I1)]),
        f"llvm.masked.store.v{LANES}{mangled(ty)}.p0",
    )
    b.call(fn, [value, ptr, I32(align), mask])


def copy_run(module, ty, source_align, align):
    """A function in LLVM's language that copies lanes of a vector from one place in memory to another: those whose bits
    are set in a mask. It touches no other lane. If the lanes follow each other, as they nearly always do, they are
    copied in pieces of eight, four, two and one. The alignments are in bytes.
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
    """A tuple of nine elements of a memory that follow each other, as numbers."""
    numbers = types.UniTuple(memory.dtype, 9)

    def gen(ctx, b, sig, args):
        ty = llvm(memory.dtype)
        start = b.gep(b.bitcast(args[0], ty.as_pointer()), [args[1]])
        found = [b.load(b.gep(start, [I64(i)]), align=ty_bytes(ty)) for i in range(numbers.count)]
        return ctx.make_tuple(b, numbers, found)

    return numbers(memory, first), gen


@intrinsic
def twelve_indices(typingctx, array, offset):
    """Twelve int32 vectors, of the numbers that follow each other in an array from `offset` on."""
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
    b.store(to_memory(ctx, b, array, stored), ptr, align=alignment(array))


def store_where(ctx, b, array, value, offset, stored, mask):
    """array[offset : offset + 16] = stored where `mask`. With a list of a mask and a distance, the lanes that are not
    set are stored that many elements further on.
    """
    ty, stored = storage(array), to_memory(ctx, b, array, stored)
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
    instruction = b.store(to_memory(ctx, b, array, stored), ptr, align=LANES * ty_bytes(ty))
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
    distance, the lanes that are not set are stored that many elements further on.

    Not for a mask that is a constant of one lane: given halves, LLVM 22 writes two elements there.
    """

    def gen(ctx, b, sig, args):
        store_where(ctx, b, array, *args[:3], some(b, mask, args[3]))
        return ctx.get_dummy_value()

    return types.void(array, offset, value, mask if mask == WRAPPED else MASK), gen


@intrinsic(prefer_literal=True)
def put(typingctx, array, offset, value, mask, past):
    """array[offset : offset + 16] = value where `mask`; None stands for all lanes. If `past`, all lanes are stored,
    past the caches. Where `past` is None or a constant False, no code for that is compiled.
    """

    def gen(ctx, b, sig, args):
        target, lanes = args[:3], some(b, mask, args[3])

        def into_caches():
            if lanes is None:
                store_at(ctx, b, array, *target)
            else:
                store_where(ctx, b, array, *target, lanes)

        if past == types.none or (isinstance(past, types.BooleanLiteral) and not past.literal_value):
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

    First 4x4 blocks are transposed within the quarters of vectors, by the cheapest shuffles that processors have; then
    the quarters are put together.
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
    """How many elements array[offset] lies behind the beginning of a vector, as `stream` needs it: 0 if it is aligned.
    """

    def gen(ctx, b, sig, args):
        ty = storage(array)
        at = b.ptrtoint(address(ctx, b, array, args[0], args[1], ty), I64)
        return b.udiv(b.urem(at, I64(LANES * ty_bytes(ty))), I64(ty_bytes(ty)))

    return types.int64(array, offset), gen


# A table of lanes for the kernel of `strips`; its other functions are in `rows.py`.


@intrinsic
def load_indices(typingctx, array, offset, picks):
    """A tuple of vectors of an int32 array, which follow each other from array[offset] on. There are as many as the
    tuple `picks` has elements.
    """
    vectors = types.UniTuple(INDEX, len(picks))

    def gen(ctx, b, sig, args):
        found = [lanes_at(ctx, b, array, args[0], b.add(args[1], I64(i * LANES))) for i in range(len(picks))]
        return ctx.make_tuple(b, vectors, found)

    return vectors(array, offset, picks), gen
