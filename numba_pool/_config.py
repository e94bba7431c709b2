"""What a bug report has to say about the machine and the settings."""

import math
import os
import platform
from typing import Any

import llvmlite
import numba
import numpy as np

from . import _memory, _processors, _runtime, _threads
from .kernels import _cache

SWITCHES = (
    "NUMBA_POOL_SERIAL", "NUMBA_POOL_CACHE", "NUMBA_POOL_MEMORY", "NUMBA_CACHE_DIR", "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES", "NUMBA_DISABLE_JIT", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER",
    "NUMBA_THREADING_LAYER_PRIORITY", *_threads.CHOICES, "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
)  # fmt: skip


def why_layer(layer: str) -> str:
    """Why Numba runs on that threading layer."""
    wanted = str(numba.config.THREADING_LAYER)
    if wanted != "default":
        return f"NUMBA_THREADING_LAYER={wanted}"
    return f"the first that is there of {', '.join(numba.config.THREADING_LAYER_PRIORITY)}"


def why_threads() -> str:
    """Why pooling uses as many threads as it does when called from this Python thread."""
    if _runtime.SERIAL:
        return "NUMBA_POOL_SERIAL"
    if not _runtime.may_enter():
        return "a child forked after Numba's threads had started"
    count, most = _runtime.usable_threads(), numba.config.NUMBA_NUM_THREADS
    if _runtime.is_bound() and count == _runtime.bound() < most:
        return ("OMP_NUM_THREADS" if count == _processors.allowed() else
                f"processors of this process, fewer than Numba's {most} threads")
    if count < most:
        return f"set_num_threads, of Numba's {most}"
    if _runtime.chosen_by_environment():
        return "NUMBA_NUM_THREADS"
    return "all that Numba started, one a processor"


def dicts() -> dict[str, dict[str, Any]]:
    """All of it, by headings."""
    from . import __version__

    threads = _runtime.get_num_threads()  # starts Numba's threads where more than one may be used
    layer = _threads.layer()
    quota = _processors.quota()
    look, target = _cache.directories()
    width = _cache.vector_bytes()
    return {
        "versions": {
            "numba_pool": __version__, "numba": numba.__version__, "llvmlite": llvmlite.__version__,
            "numpy": np.__version__, "python": platform.python_version(), "system": platform.platform(),
        },
        "threads": {
            "threads": threads, "because of": why_threads(),
            "layer": layer, "layer because": why_layer(layer) if layer else "no threads were started",
            "processors by affinity": _processors.affinity(),
            "processors by quota": None if quota == math.inf else quota,
        },
        "vectors": {
            "model": f"{_processors.model()}, {'with' if width == 64 else 'without'} AVX-512",
            "processor": _cache.processor(), "bytes": width,
        },
        "cache": {
            "on": _cache.CACHE_ON, "written to": str(target) if _cache.CACHE_ON and target else None,
            "looked for in": [str(directory) for directory in look],
        },
        "memory pool": {"limit in MiB": _memory.LIMIT // _memory.MIB, "idle in MiB": _memory.idle() / _memory.MIB},
        "environment": {name: os.environ[name] for name in SWITCHES if name in os.environ},
    }  # fmt: skip


def show_config(mode: str = "stdout") -> dict[str, dict[str, Any]] | None:
    """Show what numba_pool runs on, for bug reports.

    Versions; how many threads pooling uses, on which of Numba's threading layers, and why; the processor and its
    vectors; where compiled kernels are kept; the pool of memory for large results; and the switches that are set in the
    environment. Starts Numba's threads, if nobody has and more than one may be used.

    Parameters
    ----------
    mode : {'stdout', 'dicts'}
        Whether to print it or to return it, as of `numpy.show_config`.

    Returns
    -------
    dict of dict, or None
        What would be printed, by heading and name, if `mode` is 'dicts'.

    Raises
    ------
    ValueError
        For any other `mode`.

    Examples
    --------
    >>> import numba_pool
    >>> numba_pool.show_config("dicts")["threads"]["threads"] >= 1
    True
    """
    if mode not in ("stdout", "dicts"):
        raise ValueError(f"mode must be 'stdout' or 'dicts', got {mode!r}")
    config = dicts()
    if mode == "dicts":
        return config
    for heading, entries in config.items():
        print(f"{heading}:")
        for name, value in entries.items():
            print(f"  {name}: {value}")
    return None
