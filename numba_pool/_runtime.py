"""How a kernel runs: the serial worker alone, or the parallel driver over ranges of its units.

Where Numba's threads cannot be entered without risk, the serial worker does the work; it computes the same bits. That
is the case

- in a forked child whose parent had started Numba's threads. GNU OpenMP ends a child that enters a parallel region
  after its parent did, TBB may have lost its workers, and a lock that another thread of the parent held stays locked.
  Children made by spawn or forkserver are new processes and run in parallel. Where this module is imported only after
  the threads have started, a child by forkserver counts as forked, and so does a process of one thread.
- while another Python thread is inside, under the layer ``workqueue``, which ends a process that enters twice; and
  from the threads of that layer themselves (an ``objmode`` block within a `prange`), which cannot be entered again.

So it does where threads would not pay:

- for small work; see `SERIAL_BYTES`.
- for a while after threads were waited for longer than they saved; see `Patience`.
- where NUMBA_POOL_SERIAL is set in the environment to anything but 0, or one thread is asked for, or the process has
  one processor; see `_processors`.
"""

import operator
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter_ns
from typing import Any

import numba
import numpy as np

from . import _processors, _threads
from .kernels._driver import SPENT, WALL

# Less work than this is done serially. Work is counted in bytes: those that a 2x2/2 maximum reads in the same time, by
# the caller's estimate, as the larger of the input and four times the output for windows. Measured by
# asv_benchmarks/serial_threshold.py, 2 threads of an EPYC, float32. Called back to back, threads win from 256 to 576
# KiB of input on for a 2x2/2 maximum or average and for the gradient of a maximum, and from 64 KiB on for a 3x3/1 one.
# With 5 ms of other work before each call they lose the 0.1 ms that it takes to wake a thread, and win from 1 to 2 MiB
# on. Such calls between the two are what `Patience` finds out.
SERIAL_BYTES = 1 << 18
WORKQUEUE_COST = 16  # its threads always sleep: won back where the serial call takes 120 us and more

# Threads take their shares of the work in parts, for others to take over; a part costs 0.5 us.
PART_BYTES, MOST_PARTS = 1 << 22, 8

SERIAL = os.environ.get("NUMBA_POOL_SERIAL", "0") not in ("", "0")


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
_home = -1 if _threads.layer() == "omp" and is_forked() else os.getpid()


def may_enter() -> bool:
    """Whether this process may enter Numba's threads."""
    return os.getpid() == _home


def _after_fork() -> None:
    global _home
    if _threads.layer() is None:
        _home = os.getpid()


if hasattr(os, "register_at_fork"):  # a fork that does not call this only leaves the child serial
    os.register_at_fork(after_in_child=_after_fork)

_count: Callable[[], int] | None = None  # once threads have started
_bound: int | None = None  # what `bound` found
# Of a Python thread: `here` is set where the user chose a number of threads, `serial` while there is to be one.
_chosen = threading.local()


def numba_threads() -> int:
    """Numba's count for this Python thread. Starts Numba's threads, if nobody has; not for a forked child."""
    global _count
    if _count is None:
        _threads.start()
        # What the public function asks, behind two locks that take it 3 us where a pooling has filled the caches.
        _count = getattr(numba.np.ufunc.parallel, "_get_num_threads", numba.get_num_threads)
    return int(_count())


def chosen_by_environment() -> bool:
    """Whether the user chose how many threads Numba starts."""
    return ("NUMBA_NUM_THREADS" in os.environ
            or numba.config.NUMBA_NUM_THREADS != numba.config.NUMBA_DEFAULT_NUM_THREADS)


def bound() -> int:
    """Threads at most, unless the user chose a number in this Python thread."""
    global _bound
    if _bound is None:
        most = int(numba.config.NUMBA_NUM_THREADS)
        _bound = most if chosen_by_environment() else min(most, _processors.available())
    return _bound


def is_bound() -> bool:
    """Whether `bound` holds for this Python thread."""
    return not (getattr(_chosen, "here", False) or getattr(_chosen, "serial", False))


def usable_threads() -> int:
    """Threads for calls from this Python thread: Numba's count or, where nobody chose that, one a processor at most.

    Where that is one, Numba's threads are not started.
    """
    if getattr(_chosen, "serial", False):
        return 1
    if getattr(_chosen, "here", False):
        return numba_threads()
    most = bound()
    return min(most, numba_threads()) if most > 1 else 1


class Patience:
    """Whether threads are worth it now, from what they have cost.

    The driver reports after every call how much longer it took than one thread alone. Losses add up; savings make up
    for them, and up to `CREDIT` for later ones. Once losses exceed `TOLERATED`, calls are serial for a rest of `LEAST`
    to `MOST` times what was lost. Each rest is twice as long as the one before, and half as long after every call that
    saved. So a machine whose threads are never free costs a few per cent, and one whose threads are free again is
    noticed within half a second.

    Single losses are nothing to go by: to wake a thread after a pause takes 0.1 ms, on a virtual machine up to 1 ms.
    """

    TOLERATED, CREDIT = 1_500_000, 3_000_000  # nanoseconds
    LEAST, MOST = 8, 64
    LONGEST = 500_000_000  # nanoseconds

    def __init__(self) -> None:
        self.until = 0  # serial until the clock says so
        self.lost = 0
        self.rest = 0
        self.calls = 0

    def clock(self) -> int:
        """The driver's clock for the next call: the better one wherever there is doubt, and now and then."""
        self.calls += 1
        return SPENT if self.lost > -self.CREDIT or self.calls % 8 == 0 else WALL

    def note(self, loss: int) -> None:
        """Take in that a call took so many nanoseconds longer than one thread would have taken."""
        lost = self.lost + loss
        if lost > self.TOLERATED:
            rest = max(self.LEAST * lost, min(2 * self.rest, self.MOST * lost))
            self.lost, self.rest = 0, min(rest, self.LONGEST)
            self.until = perf_counter_ns() + self.rest
        else:
            self.lost = max(lost, -self.CREDIT)
            if loss <= 0:
                self.rest //= 2


patience = Patience()  # of all Python threads: they wait for the same processors


# Who has entered, under a layer that takes one thread only. No lock: an interrupt comes after any call, also between
# taking a lock and the `try` that would give it back. None comes between the two last lines of `launch`.
_inside: dict[str, object] = {}


# What `explain` wants to know instead of letting kernels run, for each Python thread that asks.
watching: dict[int, Callable[..., Any]] = {}


def planned(call: Any) -> None:
    """Tell who asks of this Python thread what a call comes down to."""
    watch = watching.get(threading.get_ident())
    if watch is not None:
        watch(call)


def launch(worker: Any, units: int, traffic: int, *args: Any) -> Any:
    """Run `units` units of a kernel; `traffic` says how much work they are, in the bytes of `SERIAL_BYTES`."""
    if watching and (watch := watching.get(threading.get_ident())) is not None:
        return watch(worker, units, traffic, args)
    if traffic < SERIAL_BYTES or units < 2 or SERIAL or os.getpid() != _home:
        return worker(0, units, args) if units else 0
    threads = min(units, usable_threads())
    if threads <= 1:
        return worker(0, units, args)
    if patience.until and perf_counter_ns() < patience.until:
        return worker(0, units, args)
    parts = min(traffic // PART_BYTES + 1, MOST_PARTS)
    if numba.threading_layer() != "workqueue":
        result, loss = worker.parallel(threads, parts, patience.clock(), units, args)
        patience.note(loss)
        return result
    if traffic < WORKQUEUE_COST * SERIAL_BYTES or not is_python_thread():
        return worker(0, units, args)
    me = object()
    try:
        if _inside.setdefault("who", me) is not me:  # one step, whatever other threads do
            return worker(0, units, args)
        result, loss = worker.parallel(threads, parts, patience.clock(), units, args)
        patience.note(loss)
        return result
    finally:
        if "who" in _inside and _inside["who"] is me:
            del _inside["who"]


def decision(units: int, traffic: int) -> tuple[int, str]:
    """How many threads `launch` would take now, and why, in words."""
    if SERIAL:
        return 1, "NUMBA_POOL_SERIAL is set"
    if os.getpid() != _home:
        return 1, "this process was forked after Numba's threads had started"
    if traffic < SERIAL_BYTES:
        return 1, f"{traffic:,} bytes of work are less than the {SERIAL_BYTES:,} from which on threads pay"
    threads = min(units, usable_threads())
    if threads <= 1:
        return 1, "the work cannot be divided" if units < 2 else "no more than one may be used"
    if numba.threading_layer() == "workqueue" and traffic < WORKQUEUE_COST * SERIAL_BYTES:
        return 1, f"under the workqueue layer threads pay from {WORKQUEUE_COST * SERIAL_BYTES:,} bytes of work on"
    if patience.until and perf_counter_ns() < patience.until:
        return 1, "the last calls had to wait for their threads: the processors are busy"
    return threads, f"{traffic:,} bytes of work, which can be divided into {units:,} parts"


def is_python_thread() -> bool:
    """Whether Python knows this thread, rather than that a threading layer calls back into Python."""
    return not isinstance(threading.current_thread(), threading._DummyThread)


def set_num_threads(n: int) -> None:
    """Set how many threads pooling uses when called from this Python thread; 1 means the serial kernels.

    It is Numba's own count, which `numba.set_num_threads` sets as well and other Numba functions see. Numba starts
    NUMBA_NUM_THREADS threads, by default one per core; more are not to be had, and asking for more means all of them.
    Where neither this function nor NUMBA_NUM_THREADS gives a number, pooling uses one thread for each processor that
    the process may use, by its affinity mask and the quota of its container, or OMP_NUM_THREADS if that is less. A
    larger number given to `numba.set_num_threads` does not change this.

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
    if may_enter():
        numba_threads()
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
        _chosen.here = True


def get_num_threads() -> int:
    """Return how many threads pooling uses when called from this Python thread.

    Returns
    -------
    int
        1 in a child forked after Numba's threads had started, and where NUMBA_POOL_SERIAL is set.
    """
    return 1 if SERIAL or not may_enter() else usable_threads()


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Use `n` threads inside the `with` block, as by `set_num_threads`.

    Parameters
    ----------
    n : int
        At least 1.
    """
    before = numba_threads() if may_enter() else 1
    chosen = getattr(_chosen, "here", False)
    try:
        set_num_threads(n)
        yield
    finally:
        set_num_threads(before)
        _chosen.here = chosen


@contextmanager
def serial() -> Iterator[None]:
    """Serial kernels inside the `with` block, as by ``threads(1)``, but without starting Numba's threads for that.

    For whoever calls from many Python threads of their own, as dask does.
    """
    before = getattr(_chosen, "serial", False)
    _chosen.serial = True
    try:
        yield
    finally:
        _chosen.serial = before
