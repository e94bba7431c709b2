"""The fastest parallel copy that we can write, and loops that read and write in other proportions than a copy.

Copies in two ways, each into a destination that is used again: NumPy's copy (the C library's memcpy) of one stripe per
Python thread, and Numba with non-temporal vector stores, which spare the destination's read into the cache. Memory has
a direction for reads and one for writes: who fills both moves more than who reads only, or writes only.
"""

import itertools
import math
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

LANES = 16  # 64 bytes, one cache line
SUMS = 16  # lines of sums to a thread


def _lines(context, builder, signature, arguments):
    """Where the sixteen elements of each of two arrays begin that an intrinsic was given: (array, index) twice."""
    line = ir.PointerType(ir.VectorType(ir.FloatType(), LANES))
    for i in (0, 2):
        data = context.make_array(signature.args[i])(context, builder, arguments[i]).data
        yield builder.bitcast(builder.gep(data, [arguments[i + 1]]), line)


@intrinsic
def _stream_line(typingctx, target, to, source, at):
    """target[to : to + 16] = source[at : at + 16], past the cache. Both aligned to 64 bytes, float32."""

    def codegen(context, builder, signature, arguments):
        target_at, source_at = _lines(context, builder, signature, arguments)
        store = builder.store(builder.load(source_at, align=64), target_at, align=64)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return numba.void(target, to, source, at), codegen


@intrinsic
def _add_line(typingctx, sums, to, source, at):
    """sums[to : to + 16] += source[at : at + 16], as above, but in the cache."""

    def codegen(context, builder, signature, arguments):
        sums_at, source_at = _lines(context, builder, signature, arguments)
        total = builder.fadd(builder.load(sums_at, align=64), builder.load(source_at, align=64))
        builder.store(total, sums_at, align=64)
        return context.get_dummy_value()

    return numba.void(sums, to, source, at), codegen


@numba.njit(parallel=True)
def _streamed(target, source, stripes):
    lines = target.size // LANES
    for stripe in numba.prange(stripes):
        for line in range(lines * stripe // stripes, lines * (stripe + 1) // stripes):
            _stream_line(target, line * LANES, source, line * LANES)


@numba.njit(parallel=True)
def _mixed(target, source, reads, writes, sums, stripes):
    """For every `reads` lines that are read `writes` are written, the last of those read again if they are fewer."""
    steps = min(source.size // max(reads, 1), target.size // max(writes, 1)) // LANES
    for stripe in numba.prange(stripes):
        for step in range(steps * stripe // stripes, steps * (stripe + 1) // stripes):
            first = step * reads
            for i in range(writes):
                _stream_line(target, (step * writes + i) * LANES, source, (first + max(min(i, reads - 1), 0)) * LANES)
            for i in range(writes, reads):  # to several sums, or each would wait for the one before
                _add_line(sums, (stripe * SUMS + i % SUMS) * LANES, source, (first + i) * LANES)
    return steps * (reads + writes) * LANES * 4


def _aligned(size: int) -> np.ndarray:
    raw = np.ones(size + LANES, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + size]


def bytes_per_second(threads: int, mebibytes: int = 256, seconds: float = 0.5) -> dict[str, float]:
    """Bytes read plus bytes written per second, by the way of copying."""
    size = mebibytes << 18
    source, target = _aligned(size), _aligned(size)
    numba.set_num_threads(threads)
    edges = [size * i // threads for i in range(threads + 1)]
    stripes = [slice(a, b) for a, b in itertools.pairwise(edges)]
    with ThreadPoolExecutor(threads) as pool:

        def memcpy():
            list(pool.map(lambda s: np.copyto(target[s], source[s]), stripes))

        ways = {"memcpy": memcpy, "non-temporal": partial(_streamed, target, source, threads)}
        return {name: 2 * source.nbytes / _best(way, seconds) for name, way in ways.items()}


def proportion(read: int, written: int) -> tuple[int, int]:
    """Lines to read and to write at each step; less than a sixteenth is nothing."""
    reads, writes = (n * SUMS // max(read, written) for n in (read, written))
    shared = math.gcd(reads, writes) if writes else 1  # nothing but reads: as many lines as there are sums
    return reads // shared, writes // shared


def mixed_bytes_per_second(threads: int, read: int, written: int, mebibytes: int = 256, seconds: float = 0.3) -> float:
    """The same of a loop that reads and writes in the proportion of so many bytes, in lines up to sixteen to one."""
    reads, writes = proportion(read, written)
    size = mebibytes << 18
    source, target, sums = _aligned(size), _aligned(size), _aligned(threads * SUMS * LANES)
    numba.set_num_threads(threads)
    call = partial(_mixed, target, source, reads, writes, sums, threads)
    return call() / _best(call, seconds)


def _best(call, seconds: float) -> float:
    call()
    best, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best
