"""Set up every benchmark that asv finds, and call it once: whether it runs, not how fast.

usage: python asv_benchmarks/smoke.py [--first] [words that a benchmark's name must hold one of]

Every value of every parameter comes once, or with --first the first of each alone. asv itself takes much longer for one
call of each: it starts a process for each, and those that time compilation begin with an empty cache. Here all is done
in one process, and processes that benchmarks start find the kernels that are compiled already. The exit status is 1 if
a benchmark failed, or was skipped with all of its parameters. `tests/test_bench_suite.py` runs this.
"""

import itertools
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path
from unittest import mock

import numba_pool as nb

sys.path.insert(0, str(Path(__file__).resolve().parent))  # where `benchmarks` is a package


def combinations(values: list[list]) -> list[tuple]:
    """Of the product of the parameters' values as few as hold every value."""
    return [tuple(v[i % len(v)] for v in values) for i in range(max(map(len, values), default=1))]


def run_once(benchmark, combination: tuple) -> bool:
    """Set up, call, tear down; whether it was called, rather than skipped."""
    benchmark.set_param_idx([*itertools.product(*benchmark._params)].index(combination))
    if benchmark.do_setup():
        return False
    try:
        result = benchmark.func(*combination)
        if benchmark.type == "time" and result is not None:  # source text, which asv times in a new process
            statement, before = result if isinstance(result, tuple) else (result, "")
            subprocess.run([sys.executable, "-c", f"{before}\n{statement}"], check=True)
    except NotImplementedError as skipped:
        print(f"smoke: {benchmark.name}{combination}: {skipped}")
        return False
    finally:
        benchmark.do_teardown()
    return True


def run_all(benchmark, first: bool) -> tuple[int, int]:
    """How many combinations of its parameters were called, and how many failed; 1 if all were skipped."""
    called = failed = 0
    begin, threads = time.perf_counter(), nb.get_num_threads()
    for combination in combinations(benchmark._params):
        if first and called:
            break
        try:
            called += run_once(benchmark, combination)
        except Exception:
            failed += 1
            print(f"smoke: {benchmark.name}{combination} failed\n{traceback.format_exc()}", flush=True)
        if nb.get_num_threads() != threads:
            nb.set_num_threads(threads)
    print(f"smoke: {time.perf_counter() - begin:6.1f} s  {called} of {benchmark.name}", flush=True)
    return called, failed or not called


def main(*words: str, first: bool = False) -> int:
    from asv_runner.discovery import disc_benchmarks
    from benchmarks import start

    chosen = [b for b in disc_benchmarks("benchmarks") if not words or any(word in b.name for word in words)]
    once, kept = start._pool_once, os.environ.get("NUMBA_CACHE_DIR", "")  # without it, the package's own
    begin = time.perf_counter()
    with mock.patch.object(start, "_pool_once", lambda call, cache: once(call, kept)):
        called, failed = (sum(counts) for counts in zip((0, 0), *(run_all(b, first) for b in chosen)))
    print(f"smoke: {called} called, {failed} failed, {time.perf_counter() - begin:.0f} s")
    return 1 if failed or not called else 0


if __name__ == "__main__":
    sys.exit(main(*(word for word in sys.argv[1:] if word != "--first"), first="--first" in sys.argv))
