"""Import, first calls and compilation, each in a new process."""

import os
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache

SCRIPT = """
import time
import numpy as np
import numba_pool as P
x = np.ones((2, 4, 32, 32), np.float32)
y, i = np.ones((2, 4, 16, 16), np.float32), np.zeros((2, 4, 16, 16), np.int32)
call = lambda: {call}
start = time.perf_counter(); call(); first = time.perf_counter() - start
start = time.perf_counter(); call(); print(first - (time.perf_counter() - start))
"""
CALLS = {
    "max": "P.max_pool2d(x, 2)",
    "argmax": "P.max_pool2d(x, 2, return_indices=True)",
    "max backward": "P.max_pool2d_backward(y, i, x.shape)",
    "avg": "P.avg_pool2d(x, 2)",
    "avg backward": "P.avg_pool2d_backward(y, x.shape, 2)",
    "max 3x3/1": "P.max_pool2d(x, 3, 1, 1)",
}


def _pool_once(call: str, cache: str) -> float:
    """Run one pooling call in a new process; the seconds that its first call took beyond a second one."""
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(call=CALLS[call])],
        env=os.environ | {"NUMBA_CACHE_DIR": cache}, capture_output=True, text=True,
    )  # fmt: skip
    if process.returncode:
        raise RuntimeError(process.stderr)
    return float(process.stdout)


class ColdProcess:
    """Interpreter, imports and a first call that finds nothing in the cache on disk."""

    param_names = ("call",)
    params = (list(CALLS),)
    rounds, number, repeat, min_run_count, warmup_time = 1, 1, (1, 3, 10.0), 1, 0

    def setup(self, call):
        self.cache = tempfile.mkdtemp(prefix="numba_pool-cold-")

    def teardown(self, call):
        shutil.rmtree(self.cache)

    def time_process(self, call):
        _pool_once(call, self.cache)

    def track_compile(self, call):
        return _pool_once(call, self.cache)

    track_compile.unit = "seconds"


class WarmProcess:
    """The same with the cache filled by an earlier process."""

    param_names = ("call",)
    params = (list(CALLS),)
    rounds, number, repeat, min_run_count, warmup_time = 1, 1, (2, 10, 10.0), 1, 0

    def setup(self, call):
        self.cache = _filled_cache(call)

    def time_process(self, call):
        _pool_once(call, self.cache.name)

    def track_load(self, call):
        return _pool_once(call, self.cache.name)

    track_load.unit = "seconds"


@lru_cache(maxsize=1)
def _filled_cache(call: str) -> tempfile.TemporaryDirectory:
    cache = tempfile.TemporaryDirectory(prefix="numba_pool-warm-")
    _pool_once(call, cache.name)
    return cache


class Import:
    """Import time, beside that of what we import."""

    rounds, number, repeat, warmup_time = 1, 1, (3, 10, 10.0), 0

    def timeraw_import(self):
        return "import numba_pool"

    def timeraw_import_numba_pool_after_numba(self):
        return "import numba_pool", "import numba, numpy"

    def timeraw_import_numba_alone(self):
        return "import numba, numpy"
