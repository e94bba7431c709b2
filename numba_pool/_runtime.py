"""Which build of a kernel runs: the serial worker, or the parallel driver over ranges of its units."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba

SERIAL_BYTES = 1 << 16  # below this much memory traffic, threads cost more than they bring
CHUNKS_PER_THREAD = 4


def launch(worker: Callable[..., Any], driver: Callable[..., Any], units: int, traffic: int, *args: Any) -> Any:
    """Run `units` units of a kernel that moves about `traffic` bytes."""
    if units == 0:
        return 0
    threads = numba.get_num_threads()
    if threads == 1 or units == 1 or traffic < SERIAL_BYTES:
        return worker(0, units, *args)
    return driver(min(units, CHUNKS_PER_THREAD * threads), units, *args)


def set_num_threads(n: int) -> None:
    """Set how many threads pooling uses."""
    numba.set_num_threads(n)


def get_num_threads() -> int:
    """Number of threads pooling uses."""
    return int(numba.get_num_threads())


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Use `n` threads inside the `with` block."""
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)


def warmup(*arrays_or_dtypes: Any) -> None:
    """Compile what will be needed, in set-up time."""
    raise NotImplementedError


def empty_pool() -> None:
    """Give the blocks kept for large outputs back to the system."""
