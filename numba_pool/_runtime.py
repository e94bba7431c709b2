"""How a kernel runs: the serial worker alone, or the parallel driver over ranges of its units.

Where Numba's threads cannot be entered without risk, the serial worker does the work; it computes the same bits. That
is the case

- in a forked child whose parent had started Numba's threads. GNU OpenMP ends a child that enters a parallel region
  after its parent did, TBB may have lost its workers, and a lock that another thread of the parent held stays locked.
  Children made by spawn or forkserver are new processes and run in parallel. Where this module is imported only after
  the threads have started, a child by forkserver counts as forked, and so does a process of one thread.
- while another Python thread is inside, under the layer ``workqueue``, which ends a process that enters twice; and
  from the threads of that layer themselves (an ``objmode`` block within a `prange`), which cannot be entered again.
- for small work; see `SERIAL_BYTES`.
- where NUMBA_POOL_SERIAL is set in the environment to anything but 0, or one thread is asked for.
"""

import ctypes
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numba
import numpy as np

# Less work than this is done serially. Work is counted in bytes: those that a 2x2/2 maximum reads in the same time, by
# the caller's estimate, as the larger of the input and four times the output for windows. Measured by
# asv_benchmarks/serial_threshold.py, 2 threads of an EPYC, float32: to enter the threads of omp costs 4 us (of tbb 3),
# won back where the serial call takes 10 us. Those are 256 KiB of input for a 2x2/2 maximum or average and for the
# gradient of a maximum, 64 KiB for 3x3/1, 32 KiB for 13x13/1, 9 KiB for Lp.
SERIAL_BYTES = 1 << 18
WORKQUEUE_COST = 16  # its threads sleep: 50 us and more, won back where the serial call takes 120 us

SERIAL = os.environ.get("NUMBA_POOL_SERIAL", "0") not in ("", "0")


def started() -> str | None:
    """Numba's threading layer, or None before its threads were started."""
    try:
        return str(numba.threading_layer())
    except ValueError:
        return None


def is_forked() -> bool:
    """Whether this process is a forked child, for all that can be told where its parent had not imported this module.

    A child is forked with one thread. One that multiprocessing made may have started others since; to import that just
    to ask takes 10 ms.
    """
    with suppress(OSError):
        if len(os.listdir("/proc/self/task")) == 1:
            return True
    module = sys.modules.get("multiprocessing.process")
    if module is None or module.parent_process() is None:
        return False
    # None is how `multiprocessing.Process` starts it: as the default was then, which the command line of a new process
    # tells, unless the child of such a one was forked.
    method = getattr(module.current_process(), "_start_method", None)
    if method is None and "--multiprocessing-fork" in sys.orig_argv:
        method = sys.modules["multiprocessing"].get_start_method()
    return method in (None, "fork", "forkserver")


# The process that may start or enter Numba's threads: this one, unless it is a child that got them from its parent.
_home = -1 if started() == "omp" and is_forked() else os.getpid()


def _after_fork() -> None:
    global _home
    if started() is None:
        _home = os.getpid()


if hasattr(os, "register_at_fork"):  # a fork that does not call this only leaves the child serial
    os.register_at_fork(after_in_child=_after_fork)

_count: Callable[[], int] | None = None  # once threads have started


def numba_threads() -> int:
    """Numba's count for this Python thread. Starts Numba's threads, if nobody has; not for a forked child.

    TBB has then done the empty task that Numba starts it with: a fork loses it where no worker has come to it yet, on
    one core in particular, and Numba waits for it, for ever, when the process ends.
    """
    global _count
    if _count is not None:
        return int(_count())
    first = started() is None
    count = int(numba.get_num_threads())
    if first and started() == "tbb":
        from numba.np.ufunc import tbbpool  # type: ignore[attr-defined]

        ctypes.CFUNCTYPE(None)(tbbpool.synchronize)()
    # What the public function asks, behind two locks that take it 3 us where a pooling has filled the caches.
    _count = getattr(numba.np.ufunc.parallel, "_get_num_threads", numba.get_num_threads)
    return count


# Who has entered, under a layer that takes one thread only. No lock: an interrupt comes after any call, also between
# taking a lock and the `try` that would give it back. None comes between the two last lines of `launch`.
_inside: dict[str, object] = {}


def launch(worker: Any, units: int, traffic: int, *args: Any) -> Any:
    """Run `units` units of a kernel; `traffic` says how much work they are, in the bytes of `SERIAL_BYTES`."""
    if traffic < SERIAL_BYTES or units < 2 or SERIAL or os.getpid() != _home:
        return worker(0, units, *args) if units else 0
    threads = numba_threads()
    if threads <= 1:
        return worker(0, units, *args)
    chunks = min(units, threads)  # Numba shares them out beforehand; more would only cost 0.3 us each
    if numba.threading_layer() != "workqueue":
        return worker.parallel(chunks, units, args)
    if traffic < WORKQUEUE_COST * SERIAL_BYTES or not is_python_thread():
        return worker(0, units, *args)
    me = object()
    try:
        alone = _inside.setdefault("who", me) is me  # one step, whatever other threads do
        return worker.parallel(chunks, units, args) if alone else worker(0, units, *args)
    finally:
        if "who" in _inside and _inside["who"] is me:
            del _inside["who"]


def is_python_thread() -> bool:
    """Whether Python knows this thread, rather than that a threading layer calls back into Python."""
    return not isinstance(threading.current_thread(), threading._DummyThread)


def set_num_threads(n: int) -> None:
    """Set how many threads pooling uses when called from this Python thread; 1 means the serial kernels.

    It is Numba's own count, which `numba.set_num_threads` sets as well and other Numba functions see. Numba starts
    NUMBA_NUM_THREADS threads, by default one per core; more are not to be had, and asking for more means all of them.

    Parameters
    ----------
    n : int
        At least 1.

    Raises
    ------
    TypeError, ValueError
        If `n` is no int, or less than 1.
    """
    if isinstance(n, (bool, np.bool_)) or not hasattr(n, "__index__"):
        raise TypeError(f"n must be an int, got {n!r} of type {type(n).__name__}")
    count = operator.index(n)
    if count < 1:
        raise ValueError(f"n must be at least 1, got {count}")
    if os.getpid() == _home:
        numba_threads()
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))


def get_num_threads() -> int:
    """Return how many threads pooling uses when called from this Python thread.

    Returns
    -------
    int
        1 in a child forked after Numba's threads had started, and where NUMBA_POOL_SERIAL is set.
    """
    return 1 if SERIAL or os.getpid() != _home else numba_threads()


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Use `n` threads inside the `with` block, as by `set_num_threads`.

    Parameters
    ----------
    n : int
        At least 1.
    """
    before = numba_threads() if os.getpid() == _home else 1
    try:
        set_num_threads(n)
        yield
    finally:
        set_num_threads(before)
