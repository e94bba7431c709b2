"""The driver: it shares the work of a kernel among threads. It is compiled once, for all workers and arguments.

Python calls `enter`. That lays a worker's arguments out in memory, word by word, and calls the `driver`, a `prange`
over threads. Each thread runs `take_part`. This calls the worker's *step* for a range of units: a few instructions that
read the arguments from memory and call the worker (see `step_of`).

These functions know each other only by their addresses. Numba compiles the code around a `prange` five times over, so
there is hardly any. If the driver named the worker, Numba would compile the worker within each of these copies. Nor
does a cached serial function that names a parallel one start Numba's threads after a reload (numba#9938).
"""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import NativeValue, intrinsic, models, register_model, unbox

from ..simd.lanes import at_most
from ._cache import prepared
from ._deferred import Deferred

WORD = ir.IntType(64)
NUMBER = ir.IntType(32)
LAID_OUT = ir.FunctionType(WORD.as_pointer(), (ir.IntType(8).as_pointer(), WORD.as_pointer()))
MOST_AXES = 2  # axes of an array among a worker's arguments, at most
LONG = 1 << 62  # nanoseconds, longer than any work
ARRAY_WORDS, MOST_WORDS = 5 + 2 * MOST_AXES, 1024  # words of an array; words of all arguments of a worker, at most


def call_at(ctx: Any, b: Any, address: Any, taken: tuple[Any, ...], values: list[Any], raises: bool = False) -> Any:
    """Call compiled code at an address; its result is an int64. If the code raises an exception, the caller raises it
    as well if `raises`, and else the result is -1: Numba forgets what is raised on other threads than the caller's.
    """
    code = b.inttoptr(address, ctx.call_conv.get_function_type(types.int64, taken).as_pointer())
    status, result = ctx.call_conv.call_function(b, code, types.int64, taken, values)
    if not raises:
        return b.select(status.is_error, WORD(-1), result)
    with b.if_then(status.is_error, likely=False):
        ctx.call_conv.return_status_propagate(b, status)
    return result


def calling(raises: bool) -> Any:
    """An intrinsic that calls the code at an address with a tuple of int64 as arguments: see `call_at`."""

    @intrinsic  # type: ignore[untyped-decorator]
    def apply(typingctx: Any, code: Any, numbers: Any) -> Any:
        def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            return call_at(ctx, b, values[0], tuple(sig.args[1]), cgutils.unpack_tuple(b, values[1]), raises)

        return types.int64(types.int64, types.UniTuple(types.int64, len(numbers))), gen

    return apply


call, call_or_raise = calling(False), calling(True)


@intrinsic  # type: ignore[untyped-decorator]
def cleared(typingctx: Any, count: Any) -> Any:
    """The address of `count` cache lines, all 0, on the stack of the function that calls this."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        room = b.alloca(ir.ArrayType(WORD, LINE // 8), size=values[0])
        room.align = LINE
        cgutils.memset(b, room, b.mul(values[0], WORD(LINE)), 0)
        return b.ptrtoint(room, WORD)

    return types.int64(types.int64), gen


def word_at(b: Any, address: Any, place: int) -> Any:
    return b.gep(b.inttoptr(address, WORD.as_pointer()), [WORD(place)])


@intrinsic  # type: ignore[untyped-decorator]
def get(typingctx: Any, address: Any, like: Any) -> Any:
    """The words from an address on, as many as the tuple `like` has elements."""
    numbers = types.UniTuple(types.int64, len(like))

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        return ctx.make_tuple(b, numbers, [b.load(word_at(b, values[0], place)) for place in range(len(like))])

    return numbers(types.int64, like), gen


@intrinsic  # type: ignore[untyped-decorator]
def put(typingctx: Any, address: Any, numbers: Any) -> Any:
    """Write a tuple of int64 as words from an address on."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        for place, value in enumerate(cgutils.unpack_tuple(b, values[1])):
            b.store(value, word_at(b, values[0], place))
        return ctx.get_dummy_value()

    return types.void(types.int64, types.UniTuple(types.int64, len(numbers))), gen


@intrinsic  # type: ignore[untyped-decorator]
def take(typingctx: Any, address: Any) -> Any:
    """The word at an address, to which 1 is added. The step is atomic: no two threads get the same number."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        return b.atomic_rmw("add", word_at(b, values[0], 0), WORD(1), "monotonic")

    return types.int64(types.int64), gen


# C's numbers of two clocks: of the time that passes, and of the time that a processor spent on this thread. -1 where
# the system has no such clock.
WALL, SPENT = getattr(time, "CLOCK_MONOTONIC", -1), getattr(time, "CLOCK_THREAD_CPUTIME_ID", -1)
CLOCKS = min(WALL, SPENT) >= 0


@intrinsic  # type: ignore[untyped-decorator]
def nanoseconds(typingctx: Any, clock: Any) -> Any:
    """What a clock shows; 0 where the system has no clocks."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        if not CLOCKS:
            return WORD(0)
        read = cgutils.get_or_insert_function(
            b.module, ir.FunctionType(NUMBER, (NUMBER, WORD.as_pointer())), "clock_gettime")
        pair = cgutils.alloca_once(b, WORD, 2)  # seconds and nanoseconds
        b.call(read, [b.trunc(values[0], NUMBER), pair])
        seconds, rest = b.load(pair), b.load(b.gep(pair, [WORD(1)]))
        return b.add(b.mul(seconds, WORD(1_000_000_000)), rest)

    return types.int64(types.int64), gen


@intrinsic  # type: ignore[untyped-decorator]
def set_threads(typingctx: Any, count: Any) -> Any:
    """Set how many of Numba's threads run what this thread enters from now on. Returns how many there were before."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        ask = cgutils.get_or_insert_function(b.module, ir.FunctionType(WORD, ()), "get_num_threads")
        tell = cgutils.get_or_insert_function(b.module, ir.FunctionType(ir.VoidType(), [NUMBER]), "set_num_threads")
        before = b.trunc(b.call(ask, ()), NUMBER)  # it returns an int, which Numba declares as a word
        b.call(tell, [b.trunc(values[0], NUMBER)])
        return b.sext(before, WORD)

    return types.int64(types.int64), gen


# A job begins with six words: the addresses of the step and of the arguments, the number of threads, the number of
# parts that each thread's share has, the clock, and the number of units. Behind them each thread has a cache line of
# four words: the next part of its share; and its notes, which are how many units the thread did, how many nanoseconds
# they took, and the sum of what the worker returned.
JOB, NOTES = (0,) * 6, (0,) * 3
LINE, BEHIND = 64, 8  # bytes of a cache line, and of its first word


SERIAL = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}  # no division here is by 0


def kept(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that the disk keeps, compiled with such options of Numba's `njit`."""
    return lambda function: Deferred(function, options, prepared)


# Each thread has a share of the units and does it in parts. A thread that is done with its own share takes parts of the
# other threads' shares, so that nobody waits for a thread that the system does not let run. Its own share comes first:
# so a gradient finds in a core's caches what the same core has pooled.
@kept(**SERIAL, no_cpython_wrapper=True)
def take_part(job, me):  # type: ignore[no-untyped-def]
    """What thread number `me` does of a job: its own share, then the parts of other shares that nobody has begun."""
    step, args, threads, parts, clock, units = get(job, JOB)
    begun, done, left, other = nanoseconds(clock), 0, 0, 0
    while other < threads and left >= 0:
        owner = (me + other) % threads
        part = take(job + (owner + 1) * LINE)
        if part >= parts:
            other += 1
            continue
        piece = owner * parts + part
        lo, hi = units * piece // (threads * parts), units * (piece + 1) // (threads * parts)
        if lo < hi:
            result = call(step, (args, lo, hi))
            left = -1 if result < 0 else left + result
            done += hi - lo
    put(job + (me + 1) * LINE + BEHIND, (done, nanoseconds(clock) - begun, left))
    return 0


@kept(parallel=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def driver(code, job):  # type: ignore[no-untyped-def]
    """Call `take_part`, which is at the address `code`, once for each thread of a job."""
    for me in prange(get(job, JOB)[2]):
        call(code, (job, me))
    return 0


@intrinsic  # type: ignore[untyped-decorator]
def call_worker(typingctx: Any, at: Any, units: Any, x: Any, y: Any, rest: Any) -> Any:
    """What the worker at the address `at` returns for units [0, units) and these arguments, or -1 if it raises. The
    address must be the worker's `entry` for arguments of just these types.
    """

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        at, units, x, y, rest = values
        return call_at(ctx, b, at, (types.int64, types.int64, *sig.args[2:4], *sig.args[4]),
                       [WORD(0), units, x, y, *cgutils.unpack_tuple(b, rest)])

    return types.int64(types.int64, types.int64, x, y, rest), gen


class Arguments(types.Type):  # type: ignore[misc]
    """The Numba type of a tuple of a worker's arguments. Compiled code has the address at which they are laid out."""

    def __init__(self) -> None:
        super().__init__(name="numba_pool.arguments")


@register_model(Arguments)
class AddressModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, WORD)


@unbox(Arguments)  # type: ignore[untyped-decorator]
def lay_out(typ: Any, args: Any, c: Any) -> Any:
    """Lay a tuple of arguments out as words. The words borrow the tuple's arrays without counting references, so the
    tuple must outlive them.
    """
    room = cgutils.alloca_once(c.builder, WORD, MOST_WORDS)
    end = c.builder.call(laying_out(c), [args, room])
    return NativeValue(c.builder.ptrtoint(room, WORD), is_error=cgutils.is_null(c.builder, end))


@intrinsic  # type: ignore[untyped-decorator]
def begin(typingctx: Any, args: Any) -> Any:
    """The address of the words of arguments."""
    return types.int64(args), lambda ctx, b, sig, values: values[0]


def laying_out(c: Any) -> Any:
    """A function in LLVM's language that lays a Python object out as words, at an address. It returns the address of
    the next object's words, or null if it fails.

    The words of an array are those of Numba's own struct for an array, in which the reference is null, so that nobody
    counts it. A tuple becomes the words of its elements, None a 0, and everything else is an int or a float.
    """
    fn = ir.Function(c.builder.module, LAID_OUT, "lay_out")
    fn.linkage = "internal"
    b = ir.IRBuilder(fn.append_basic_block())
    py = c.context.get_python_api(b)
    thing, at = fn.args

    def python(name: str, result: Any, *args: Any) -> Any:
        return b.call(cgutils.get_or_insert_function(
            b.module, ir.FunctionType(result, [arg.type for arg in args]), name), args)

    with b.if_then(b.icmp_unsigned("==", thing, py.borrow_none())):
        b.store(WORD(0), at)
        b.ret(b.gep(at, [NUMBER(1)]))
    b.store(WORD(0), at)
    array = python("numba_adapt_ndarray", NUMBER, thing, b.bitcast(at, py.voidptr))
    with b.if_then(b.icmp_unsigned("==", array, NUMBER(0))):
        b.ret(b.gep(at, [NUMBER(ARRAY_WORDS)]))
    is_tuple = python("PyType_IsSubtype", NUMBER, py.get_type(thing), py.get_c_object("PyTuple_Type"))
    with b.if_then(cgutils.is_not_null(b, is_tuple)):
        end = cgutils.alloca_once_value(b, at)
        with cgutils.for_range(b, py.tuple_size(thing)) as loop:
            further = b.call(fn, [python("PyTuple_GetItem", py.pyobj, thing, loop.index), b.load(end)])
            b.store(further, end)
            with b.if_then(cgutils.is_null(b, further), likely=False):
                b.ret(further)
        b.ret(b.load(end))
    with b.if_else(cgutils.is_not_null(b, python("PyIndex_Check", NUMBER, thing))) as (whole, other):
        with whole:
            b.store(python("PyLong_AsUnsignedLongLongMask", WORD, thing), at)  # of negative ones, too
        with other:
            b.store(py.float_as_double(thing), b.bitcast(at, py.double.as_pointer()))
    b.ret(b.select(cgutils.is_null(b, py.err_occurred()), b.gep(at, [NUMBER(1)]), LAID_OUT.return_type(None)))
    return fn


def read(ctx: Any, b: Any, at: Any, ty: Any) -> tuple[Any, Any]:
    """The value of an argument of a Numba type, whose words begin at a pointer; and a pointer to the next words."""
    kind = ctx.get_value_type(ty)
    if isinstance(ty, types.BaseTuple):
        values = []
        for inner in ty:
            value, at = read(ctx, b, at, inner)
            values.append(value)
        return ctx.make_tuple(b, ty, values), at
    if isinstance(ty, types.Array) and ty.ndim <= MOST_AXES:
        return b.load(b.bitcast(at, kind.as_pointer())), b.gep(at, [NUMBER(ARRAY_WORDS)])
    further = b.gep(at, [NUMBER(1)])
    if isinstance(ty, types.NoneType):
        return ctx.get_dummy_value(), further
    if isinstance(ty, types.Float):
        value = b.load(b.bitcast(at, ir.DoubleType().as_pointer()))
        return value if value.type == kind else b.fptrunc(value, kind), further
    if isinstance(ty, types.Boolean):  # NumPy's are laid out as floats
        return b.icmp_unsigned("!=", b.load(at), WORD(0)), further
    if isinstance(ty, types.Integer):
        return b.trunc(b.load(at), kind) if kind.width < WORD.width else b.load(at), further
    raise TypeError(f"a worker takes arrays of up to {MOST_AXES} axes, numbers, None and tuples of these, got {ty}")


def count_words(ty: Any) -> int:
    """How many words an argument of a Numba type is laid out in."""
    if isinstance(ty, types.BaseTuple):
        return sum(map(count_words, ty))
    return ARRAY_WORDS if isinstance(ty, types.Array) else 1


def step_of(name: str, worker: int, taken: tuple[Any, ...]) -> int:
    """Make a worker's step, and return its address. The worker's code is at the address `worker`, and its arguments
    behind the range are of the Numba types `taken`. A step is a function of the address of the arguments' words and of
    a range of units: it reads the arguments and calls the worker.

    A step is made without Numba's compiler, which would take ten times as long.
    """
    if sum(map(count_words, taken)) > MOST_WORDS:
        raise TypeError(f"the arguments of {name} must be at most {MOST_WORDS} words")
    ctx = cpu_target.target_context
    library = ctx.codegen().create_library("step")
    module = library.create_ir_module("step")
    kind = ctx.call_conv.get_function_type(types.int64, STEP)
    step = ir.Function(module, kind, f"numba_pool.step.{worker}.{next(STEPS)}")
    b = ir.IRBuilder(step.append_basic_block())
    args, lo, hi = ctx.call_conv.get_arguments(step)
    values, at = [], b.inttoptr(args, WORD.as_pointer())
    for ty in taken:
        value, at = read(ctx, b, at, ty)
        values.append(value)
    result = call_at(ctx, b, WORD(worker), (types.int64, types.int64, *taken), [lo, hi, *values], True)
    ctx.call_conv.return_value(b, result)
    library.add_ir_module(module)
    library.finalize()
    return int(library.get_pointer_to_function(step.name))


STEP = (types.int64,) * 3  # the types of a step's arguments: an address, and the two ends of a range
STEPS = count()  # numbers the steps of this process: machine code needs names


@kept(**SERIAL)
def walk(step, lo, hi, args):  # type: ignore[no-untyped-def]
    """Call the step of a worker for units [lo, hi), in this thread alone, and return what the worker returns."""
    return call_or_raise(step, (begin(args), lo, hi))


@kept(**SERIAL)
def enter(driver, code, step, threads, parts, clock, units, args):  # type: ignore[no-untyped-def]
    """Do units [0, units) of a worker by so many threads, each share in so many parts. Returns the sum of what the
    worker returned, and how many nanoseconds longer the work took than the fastest thread would have taken alone.

    The second number is below 0 if threads were worth it, and 0 where the system has no clocks. By the clock WALL a
    thread that had to share its processor with others is slow; by the clock SPENT it is not. To read SPENT takes 1 us,
    WALL 0.05 us.
    """
    begun = nanoseconds(WALL)
    job = cleared(threads + 1)
    put(job, (step, begin(args), threads, parts, clock, units))
    before = set_threads(threads)
    if before < threads:  # Numba has no more threads than that
        set_threads(before)
    failed = call(driver, (code, job))
    set_threads(before)
    total, alone = failed, LONG
    for me in range(threads):
        done, took, left = get(job + (me + 1) * LINE + BEHIND, NOTES)
        if left < 0 or failed:
            raise MemoryError  # the only exception that workers raise
        total += left
        if done:
            alone = at_most(alone, took * units // done)
    return total, nanoseconds(WALL) - begun - alone if CLOCKS else 0
