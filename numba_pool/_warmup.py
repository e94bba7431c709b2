"""Compilation in set-up time."""

from __future__ import annotations  # help() shows them by name

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import functional as F
from ._arrays import Array, array, is_last
from ._runtime import SERIAL_BYTES

FEW, MANY = 4, 64  # channels: less than a vector in channels-last memory, and more, which has kernels of its own


def examples(value: Any) -> Iterator[Array]:
    """Inputs like the one given: small, many small planes, and long rows, for the serial and the parallel kernels."""
    if isinstance(value, np.ndarray):
        rank = max(1, min(3, value.ndim - 2))
        dtype = array(value, "array").dtype
        last = value.ndim > 2 and is_last(value, rank)
        kinds: tuple[tuple[bool, int], ...] = ((last, value.shape[-rank - 1] if last else FEW),)
    elif value is None or isinstance(value, (list, tuple, dict)):  # NumPy makes dtypes of these
        raise TypeError(f"warmup takes arrays and dtypes, got {value!r}")
    else:
        rank, kinds = 2, ((False, FEW), (True, FEW), (True, MANY))
        try:
            known = np.dtype(value)
        except TypeError:
            raise TypeError(f"warmup takes arrays and dtypes, got {value!r}, which is no dtype (bfloat16 is one once "
                            "ml_dtypes has been imported)") from None
        dtype = array(np.empty(0, known), "dtype").dtype
    work = SERIAL_BYTES // dtype.itemsize  # elements from which on threads share it
    for last, channels in kinds:
        long = max(-(-work * FEW // max(channels, 1)), 8)
        sizes = [(2, (2,) * (rank - 1) + (8,)), (-(-work // (FEW * 8**rank)), (8,) * rank),
                 (2, (2,) * (rank - 1) + (long,))]
        for images, size in sizes:
            shape = (images, channels, *size)
            yield np.moveaxis(np.ones((images, *size, channels), dtype), -1, 1) if last else np.ones(shape, dtype)


def run(x: Array) -> Iterator[None]:
    """Every operation that takes x, forward and backward: step by step, so that somebody may watch."""
    rank = x.ndim - 2

    def named(name: str, backward: str = "") -> Any:
        return getattr(F, f"{name}{rank}d{backward}")

    for windows in (2,), (3, 2, 1):
        y, index = named("max_pool")(x, *windows, return_indices=True)
        yield
        named("max_pool")(x, *windows)
        yield
        named("max_pool", "_backward")(y, index, x.shape)
        yield
        mean = named("avg_pool")(x, *windows)
        yield
        if x.dtype.kind not in "iu":
            named("avg_pool", "_backward")(mean, x.shape, *windows)
            yield
    y, index = named("max_pool")(x, 2, return_indices=True)
    named("max_pool", "_backward")(y, 0 * index, x.shape)  # as from whatever windows
    named("max_unpool")(y, index, 2)
    named("max_unpool", "_backward")(x, index)
    yield
    if x.dtype.kind not in "iu":
        norms = named("lp_pool")(x, 2, 2)
        named("lp_pool", "_backward")(y, x, norms, 2, 2)
        yield


def steps(dtype: np.dtype[Any]) -> int:
    """How many steps `run` takes for an array."""
    return 9 if dtype.kind in "iu" else 12


def show(done: int, total: int) -> None:
    """A bar on the standard error, written over at every step."""
    filled = 30 * done // total
    print(f"\rnumba_pool: compiling [{'#' * filled}{' ' * (30 - filled)}] {done}/{total}", end="", file=sys.stderr,
          flush=True)


def warmup(*arrays_or_dtypes: Any, progress: bool = False) -> None:
    """Compile max, average and Lp pooling and unpooling of small windows, or load them from the cache, in set-up time.

    Without it every kernel is compiled at its first call with a new dtype, which takes seconds, unless it was compiled
    before and is loaded from the disk; with it still those for other sorts of windows, such as global ones, and with
    indices ones of other sizes and strides. So where these are needed a step of the network itself, before time counts,
    warms up more. Importing compiles nothing.

    Parameters
    ----------
    *arrays_or_dtypes
        What will be pooled: arrays, whose dtype, number of axes, memory order and channels count, or dtypes, for 2D and
        both memory orders. float32 if nothing is given.
    progress : bool
        Show a bar on the standard error: operations done of operations needed.

    Raises
    ------
    TypeError
        For a dtype that cannot be pooled, and for what is neither an array nor a dtype.

    Examples
    --------
    >>> import numba_pool
    >>> numba_pool.warmup("float32")
    """
    inputs = [x for value in arrays_or_dtypes or (np.float32,) for x in examples(value)]
    total, done = sum(steps(x.dtype) for x in inputs), 0
    for x in inputs:
        for _ in run(x):
            done += 1
            if progress:
                show(done, total)
    if progress:
        print(file=sys.stderr)
