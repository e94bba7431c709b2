"""Starting Numba's threads so that nobody waits long for them, and without a trace elsewhere in the process.

Where other programs keep a core busy, a thread that is needed may not run for a whole turn of the scheduler, 4 ms and
more. How a training step fares then depends on Numba's threading layer and on how its threads wait. Times of a 2x2/2
maximum of (64, 8, 24, 24) as multiples of one thread's, forward and backward, two threads of an EPYC
(asv_benchmarks/busy_cores.py measures them):

|                                          | idle | one core busy | both busy |
|------------------------------------------|------|---------------|-----------|
| OpenMP, each thread its half, as it was  | 0.66 | 2.9           | 1.5       |
| OpenMP, spinning for long                | 0.70 | 1.1           | 0.8       |
| OpenMP, spinning briefly                 | 0.70 | 1.0           | 1.0       |
| OpenMP, sleeping at once                 | 0.89 | 1.0           | 1.2       |
| TBB                                      | 0.78 | 1.1           | 0.7       |
| workqueue                                | 1.0  | 1.0           | 1.1       |

In all but the first line threads take parts of each other's work (`take_part` in kernels/_driver.py), and calls are
serial for a while where threads do not pay (`Patience` in _runtime.py). That is what cures a busy machine, whatever the
layer. What is left to choose is how OpenMP's threads wait. GNU's spin for some 8 ms, and so keep a core from others,
such as NumPy's matrix products; those that sleep at once take 30 us to wake up. So they spin for about
0.1 ms, which bridges the time between two calls in a loop.

An OpenMP library reads that choice from the environment once, when it is loaded, so it is in the environment for that
moment only. Another package of the process that runs on the very same library has it, too. A library that was loaded
before, as by PyTorch, stays as it is. Whoever chose otherwise has what was chosen: NUMBA_THREADING_LAYER decides about
the layer, OMP_WAIT_POLICY, GOMP_SPINCOUNT and KMP_BLOCKTIME about waiting.
"""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba

# GNU's library counts turns of a loop of some 20 ns; LLVM's and Intel's, milliseconds.
BRIEF = {"GOMP_SPINCOUNT": "5000", "KMP_BLOCKTIME": "0"}
CHOICES = ("OMP_WAIT_POLICY", *BRIEF)
_starting = threading.Lock()


def _after_fork() -> None:
    global _starting
    _starting = threading.Lock()  # another thread of the parent may hold the parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def layer() -> str | None:
    """Numba's threading layer, or None before its threads were started."""
    try:
        return str(numba.threading_layer())
    except ValueError:
        return None


def first_layer() -> str:
    """The layer that Numba will try first, if it is one of OpenMP or none of the others is there."""
    wanted = str(numba.config.THREADING_LAYER).lower()
    if wanted in ("default", "safe", "threadsafe", "forksafe"):
        others = [name for name in numba.config.THREADING_LAYER_PRIORITY if name != "tbb" or has_tbb()]
        return str(others[0])
    return wanted


def has_tbb() -> bool:
    """Whether Numba will find TBB."""
    try:
        from numba.np.ufunc import tbbpool  # type: ignore[attr-defined]  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def brief_waiting() -> Iterator[None]:
    """Have an OpenMP library that is loaded in here wait briefly before it sleeps, unless the user chose otherwise."""
    if any(name in os.environ for name in CHOICES):
        yield
        return
    os.environ.update(BRIEF)
    try:
        yield
    finally:
        for name in BRIEF:
            os.environ.pop(name, None)


def openmp() -> list[Any]:
    """The OpenMP libraries that Numba's layer may run on: one that the whole process sees, as PyTorch brings, or else
    the one that the layer is linked to. Empty where there is none.
    """
    try:
        from numba.np.ufunc import omppool  # type: ignore[attr-defined]
    except ImportError:
        return []
    libraries = [ctypes.CDLL(name) for name in ((None, omppool.__file__) if os.name == "posix" else ())]
    return [library for library in libraries if hasattr(library, "omp_set_num_threads")]


def start() -> None:
    """Start Numba's threads, unless somebody has.

    OpenMP's own count of threads stays what it was: Numba sets it, though it does not need it, and a PyTorch that runs
    on the same library would take its count from there (numba#9387).
    """
    with _starting:
        if layer() is not None:
            return
        with brief_waiting():
            libraries = openmp() if first_layer() == "omp" else []
            counts = [library.omp_get_max_threads() for library in libraries]
            numba.get_num_threads()
            for library, count in zip(libraries, counts):
                library.omp_set_num_threads(count)
        if layer() == "tbb":
            finish_first_task()


def finish_first_task() -> None:
    """Wait until TBB has done the empty task that Numba starts it with.

    A fork loses that task where no thread has come to it yet, on one core in particular, and Numba waits for it, for
    ever, when the process ends.
    """
    from numba.np.ufunc import tbbpool  # type: ignore[attr-defined]

    ctypes.CFUNCTYPE(None)(tbbpool.synchronize)()
