"""The fastest parallel copy that we can write.

Copies in two ways, each into a destination that is used again: NumPy's copy (the C library's memcpy) of one stripe per
Python thread, and Numba with non-temporal vector stores, which spare the destination's read into the cache.
"""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

LANES = 16  # 64 bytes, one cache line


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


@numba.njit(parallel=True)
def _streamed(target, source, stripes):
    lines = target.size // LANES
    for stripe in numba.prange(stripes):
        for line in range(lines * stripe // stripes, lines * (stripe + 1) // stripes):
            _stream_line(target, line * LANES, source, line * LANES)


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


def _best(call, seconds: float) -> float:
    call()
    best, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best
