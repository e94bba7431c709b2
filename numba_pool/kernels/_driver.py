"""What shares the work of a kernel among threads.

The *driver*, compiled once for all workers, is a thin `prange` over ranges of units. `enter` is what Python calls: it
lays a worker's arguments out in memory, for the driver to pass on without a look.

Workers, `enter` and the driver know of each other by address. If the driver named the worker, Numba would compile a
driver for each, and optimise and write out the worker again within every layer of a parallel function, five in all: a
third of all the time. And a cached serial function that names a parallel one does not start the threads after a reload
(numba#9938).
"""

import time
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from ._cache import prepared

WORD = ir.IntType(64)
STEP = ir.FunctionType(WORD, (WORD, WORD, WORD))


@intrinsic  # type: ignore[untyped-decorator]
def run_range(typingctx: Any, step: Any, job: Any, lo: Any, hi: Any) -> Any:
    """What the step at that address, which `share` makes, returns for units [lo, hi) of a job."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        at, *taken = values
        return b.call(b.inttoptr(at, STEP.as_pointer()), taken)

    return types.int64(types.int64, types.int64, types.int64, types.int64), gen


@intrinsic  # type: ignore[untyped-decorator]
def take(typingctx: Any, counters: Any, at: Any) -> Any:
    """The number at that place of an int64 array, which is one more afterwards. No two threads take the same."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        array, at = values
        data = ctx.make_array(sig.args[0])(ctx, b, array).data
        return b.atomic_rmw("add", b.gep(data, [at]), WORD(1), "monotonic")

    return types.int64(counters, types.int64), gen


# C's numbers of two clocks: time as it passes, and time that a processor spent on this thread. No number: no clock.
WALL, SPENT = getattr(time, "CLOCK_MONOTONIC", -1), getattr(time, "CLOCK_THREAD_CPUTIME_ID", -1)
CLOCKS = min(WALL, SPENT) >= 0


@intrinsic  # type: ignore[untyped-decorator]
def nanoseconds(typingctx: Any, clock: Any) -> Any:
    """What a clock shows."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        number = ir.IntType(32)
        read = cgutils.get_or_insert_function(
            b.module, ir.FunctionType(number, (number, WORD.as_pointer())), "clock_gettime")
        pair = cgutils.alloca_once(b, WORD, 2)  # seconds and nanoseconds
        b.call(read, [b.trunc(values[0], number), pair])
        seconds, rest = b.load(pair), b.load(b.gep(pair, [WORD(1)]))
        return b.add(b.mul(seconds, WORD(1_000_000_000)), rest)

    return types.int64(types.int64), gen


@intrinsic  # type: ignore[untyped-decorator]
def put(typingctx: Any, address: Any, value: Any) -> Any:
    """Write an int64 at an address."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        b.store(values[1], b.inttoptr(values[0], WORD.as_pointer()))
        return ctx.get_dummy_value()

    return types.void(types.int64, types.int64), gen


@intrinsic  # type: ignore[untyped-decorator]
def set_threads(typingctx: Any, count: Any) -> Any:
    """Have that many of Numba's threads run what this thread enters from now on; returns how many it were before."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        number = ir.IntType(32)
        ask = cgutils.get_or_insert_function(b.module, ir.FunctionType(WORD, ()), "get_num_threads")
        tell = cgutils.get_or_insert_function(b.module, ir.FunctionType(ir.VoidType(), [number]), "set_num_threads")
        before = b.trunc(b.call(ask, ()), number)  # it returns an int, which Numba declares as a word
        b.call(tell, [b.trunc(values[0], number)])
        return b.sext(before, WORD)

    return types.int64(types.int64), gen


# Each thread has a share of the units and does it in parts. One that is done with its own takes parts of the others':
# nobody waits for a thread that the system does not let run. Its own come first, so that a gradient finds in a core's
# caches what this core's thread has pooled.
# What the driver notes of each thread, in a cache line of its own.
NEXT, DONE, TOOK, LEFT, LINE = 0, 1, 2, 3, 8


@njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def take_part(notes, me, threads, parts, clock, units, step, job):  # type: ignore[no-untyped-def]
    """What one thread does of a job: its own share, then parts of others' that they have not begun."""
    begun = nanoseconds(clock) if CLOCKS else 0
    done = left = 0
    for other in range(threads):
        owner = (me + other) % threads
        first, end = units * owner // threads, units * (owner + 1) // threads
        part = take(notes, owner * LINE + NEXT)
        while part < parts and left >= 0:
            lo, hi = first + (end - first) * part // parts, first + (end - first) * (part + 1) // parts
            if lo < hi:
                result = run_range(step, job, lo, hi)
                left = -1 if result < 0 else left + result
                done += hi - lo
            part = take(notes, owner * LINE + NEXT)
    notes[me * LINE + DONE], notes[me * LINE + LEFT] = done, left
    notes[me * LINE + TOOK] = (nanoseconds(clock) if CLOCKS else 0) - begun


@prepared
@njit(parallel=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def driver(threads, parts, clock, units, step, job, report):  # type: ignore[no-untyped-def]
    """Units [0, units) of a job by so many threads, each share in so many parts: the sum of what they return, or -1.

    Writes at the address `report` how many nanoseconds longer that took than the fastest thread would have taken alone;
    less than 0 where threads were worth it, 0 where there are no clocks. By the clock WALL a thread that had to share
    its processor with others is slow, by SPENT it is not, but to read that takes 1 us where the other takes 0.05.
    """
    begun = nanoseconds(WALL) if CLOCKS else 0
    notes = np.zeros(threads * LINE, np.int64)
    before = set_threads(threads)
    if before < threads:  # Numba has no more
        set_threads(before)
    for me in prange(threads):
        take_part(notes, me, threads, parts, clock, units, step, job)
    set_threads(before)
    total, alone = 0, np.int64(1) << 62
    for me in range(threads):
        if notes[me * LINE + LEFT] < 0:
            return -1
        total += notes[me * LINE + LEFT]
        if notes[me * LINE + DONE]:
            alone = min(alone, notes[me * LINE + TOOK] * units // notes[me * LINE + DONE])
    if CLOCKS:
        put(report, nanoseconds(WALL) - begun - alone)
    return total


def call_at(ctx: Any, b: Any, address: Any, taken: tuple[Any, ...], values: list[Any]) -> Any:
    """What compiled code returns, an int64, or -1 if it raises, which Numba forgets on threads but the caller's."""
    code = b.inttoptr(address, ctx.call_conv.get_function_type(types.int64, taken).as_pointer())
    status, result = ctx.call_conv.call_function(b, code, types.int64, taken, values)
    return b.select(status.is_error, WORD(-1), result)


@intrinsic  # type: ignore[untyped-decorator]
def share(typingctx: Any, driver: Any, worker: Any, threads: Any, parts: Any, clock: Any, units: Any,
          args: Any) -> Any:
    """What the driver returns for the job of a worker with its arguments, and what it reports; driver and worker are
    addresses of machine code.
    """

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        driver, worker, threads, parts, clock, units, rest = values
        job = cgutils.alloca_once_value(b, cgutils.pack_struct(b, [worker, rest]))
        report = cgutils.alloca_once_value(b, WORD(0))

        step = ir.Function(b.module, STEP, b.module.get_unique_name("step"))
        step.linkage = "internal"
        inner = ir.IRBuilder(step.append_basic_block())
        lies, lo, hi = step.args
        worker, rest = cgutils.unpack_tuple(inner, inner.load(inner.inttoptr(lies, job.type)))
        inner.ret(call_at(ctx, inner, worker, (types.int64, types.int64, *args),
                          [lo, hi, *cgutils.unpack_tuple(inner, rest)]))

        total = call_at(ctx, b, driver, (types.int64,) * 7,
                        [threads, parts, clock, units, *(b.ptrtoint(pointer, WORD) for pointer in (step, job, report))])
        return ctx.make_tuple(b, sig.return_type, [total, b.load(report)])

    return types.UniTuple(types.int64, 2)(*(types.int64,) * 6, args), gen


@intrinsic  # type: ignore[untyped-decorator]
def call_worker(typingctx: Any, at: Any, units: Any, x: Any, y: Any, rest: Any) -> Any:
    """What the worker at that address returns for units [0, units) and these arguments, or -1 if it raises. It must be
    the `entry` for arguments of just these types.
    """

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        at, units, x, y, rest = values
        return call_at(ctx, b, at, (types.int64, types.int64, *sig.args[2:4], *sig.args[4]),
                       [WORD(0), units, x, y, *cgutils.unpack_tuple(b, rest)])

    return types.int64(types.int64, types.int64, x, y, rest), gen


@prepared
@njit(nogil=True, no_cfunc_wrapper=True)
def enter(driver, worker, threads, parts, clock, units, args):  # type: ignore[no-untyped-def]
    """Units [0, units) of a worker in parallel: the sum of what it returns, and what the driver reports."""
    total, loss = share(driver, worker, threads, parts, clock, units, args)
    if total < 0:
        raise MemoryError  # all that workers raise
    return total, loss
