"""The two decorators every kernel is built with.

A *worker* runs a range of units (output rows, planes) serially, without the GIL; it may be called from other people's
jitted code. A *driver* is a thin `prange` over such ranges and is called from Python only: a cached serial function
that calls a parallel one does not start the threads after a reload (numba#9938).
"""

from collections.abc import Callable
from typing import Any

from numba import njit

worker: Callable[[Callable[..., Any]], Any] = njit(nogil=True, cache=True)
driver: Callable[[Callable[..., Any]], Any] = njit(parallel=True, cache=True)
helper: Callable[[Callable[..., Any]], Any] = njit(cache=False)
