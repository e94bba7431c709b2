"""What the benchmarks share: the cases, filled arrays, and calls that are compiled before they are timed."""

from collections.abc import Callable
from functools import lru_cache, partial

import numba
import numpy as np

import numba_pool as P

#: name: (shape, kernel, stride, padding), from the networks that the names say
CASES = {
    "lenet 64x8x24x24 2/2": ((64, 8, 24, 24), 2, 2, 0),
    "alexnet 32x256x13x13 3/2": ((32, 256, 13, 13), 3, 2, 0),
    "inception 16x192x28x28 3/1": ((16, 192, 28, 28), 3, 1, 1),
    "resnet 8x64x112x112 3/2": ((8, 64, 112, 112), 3, 2, 1),
    "vgg 8x64x224x224 2/2": ((8, 64, 224, 224), 2, 2, 0),
    "spp 8x256x20x20 13/1": ((8, 256, 20, 20), 13, 1, 6),
    "frame 1x3x2160x3840 3/2": ((1, 3, 2160, 3840), 3, 2, 1),
}
Call = Callable[[], object]
THREADS = min(2, numba.config.NUMBA_NUM_THREADS)


def array(shape: tuple[int, ...], dtype: str = "float32", layout: str = "nchw") -> np.ndarray:
    """Random values of one dtype; ``layout`` is the order in memory, the axes are channels first in any case."""
    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    if dtype == "bfloat16":
        try:
            from ml_dtypes import bfloat16 as dtype
        except ImportError:
            raise NotImplementedError("ml_dtypes is not installed") from None
    elif np.issubdtype(dtype, np.integer):
        values = values * 30 + 100
    values = values.astype(dtype, copy=False)
    if layout == "nhwc":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(values, 1, -1)), -1, 1)
    return values


def labels(kind: str, length: int) -> np.ndarray:
    """A cube of uint64 labels: "blocky" is made of cubes of 8x8x8 equal ones, "random" of four values."""
    rng = np.random.default_rng(0)
    if kind == "random":
        return rng.integers(0, 4, (length,) * 3).astype(np.uint64)
    cubes = rng.integers(0, 1 << 60, (length // 8 + 1,) * 3, dtype=np.uint64)
    each = cubes.repeat(8, 0).repeat(8, 1).repeat(8, 2)
    return np.ascontiguousarray(each[3 : 3 + length, 2 : 2 + length, 1 : 1 + length])


def with_nan(shape: tuple[int, ...]) -> np.ndarray:
    """Random float32, a tenth of them NaN."""
    x = array(shape)
    x[np.random.default_rng(1).random(shape) < 0.1] = np.nan
    return x


def use_threads(count: int) -> None:
    """Set the thread count, or skip the benchmark on a machine that has fewer."""
    if count > numba.config.NUMBA_NUM_THREADS:
        raise NotImplementedError(f"{count} threads asked for, {numba.config.NUMBA_NUM_THREADS} there")
    P.set_num_threads(count)


@lru_cache(maxsize=1)  # asv runs setup again before every sample: the arrays and the compiled call are kept
def forward2d(operation: str, shape, kernel, stride, padding, dtype="float32", layout="nchw", threads=THREADS) -> Call:
    """A compiled forward of "max" (without indices), "argmax" (with) or "avg" in two dimensions."""
    use_threads(threads)
    x = array(shape, dtype, layout)
    if operation == "avg":
        return compiled(partial(P.avg_pool2d, x, kernel, stride, padding))
    return compiled(partial(P.max_pool2d, x, kernel, stride, padding, return_indices=operation == "argmax"))


@lru_cache(maxsize=1)
def backward2d(operation: str, shape, kernel, stride, padding, layout="nchw", threads=THREADS) -> Call:
    """A compiled backward of "max" or "avg" in two dimensions."""
    result = forward2d(
        "argmax" if operation == "max" else "avg", shape, kernel, stride, padding, "float32", layout, threads
    )()
    if operation == "avg":
        return compiled(partial(P.avg_pool2d_backward, np.ones_like(result), shape, kernel, stride, padding))
    y, indices = result
    return compiled(partial(P.max_pool2d_backward, np.ones_like(y), indices, shape))


def compiled(call: Call) -> Call:
    """Call it once, so that neither compilation nor the first touch of memory is timed."""
    call()
    return call
