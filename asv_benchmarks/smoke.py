"""Run every benchmark once in the present environment; fail if anything failed or nothing was measured.

usage: python asv_benchmarks/smoke.py

asv's own exit status is not enough: it is 0 where every benchmark was skipped. So the results file is read: each
benchmark that asv discovered must have at least one number, and none may have failed. Nothing is left behind.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def judge(discovered: dict, results: dict) -> tuple[int, int, list[str]]:
    """(measured, skipped, problems) of one run.

    ``discovered`` maps the benchmarks' names to what asv found out about them; ``results`` maps names to asv's lists
    of values, one per combination of parameters: a number, NaN (skipped) or None (failed).
    """
    measured = skipped = 0
    problems = []
    for name in discovered:
        values = results.get(name)
        if not values:
            problems.append(f"{name}: no result at all")
            continue
        failed = sum(value is None for value in values)
        absent = sum(value is not None and math.isnan(value) for value in values)
        if failed:
            problems.append(f"{name}: {failed} of {len(values)} failed")
        elif absent == len(values):
            problems.append(f"{name}: everything was skipped")
        measured += len(values) - failed - absent
        skipped += absent
    if not measured:
        problems.append("nothing was measured")
    return measured, skipped, problems


def read_results(folder: Path) -> tuple[dict, dict, dict]:
    """What asv discovered, name -> values, and name -> seconds spent, from a results folder that holds one run."""
    discovered = json.loads((folder / "benchmarks.json").read_text())
    discovered.pop("version")
    files = [path for path in folder.glob("*/*.json") if path.name != "machine.json"]
    results, durations = {}, {}
    for path in files:
        content = json.loads(path.read_text())
        for name, values in content["results"].items():
            row = dict(zip(content["result_columns"], values, strict=False))  # a failed one ends earlier
            results[name], durations[name] = row["result"], row.get("duration") or 0.0
    return discovered, results, durations


def main() -> int:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="numba_pool-smoke-") as scratch:
        folder = Path(scratch)
        config = {
            "version": 1,
            "project": "numba_pool",
            "repo": str(HERE.parent),
            "dvcs": "git",
            "branches": ["HEAD"],
            "environment_type": "existing",
            "benchmark_dir": str(HERE / "benchmarks"),
            "results_dir": str(folder / "results"),
            "default_benchmark_timeout": 240,
        }
        (folder / "asv.conf.json").write_text(json.dumps(config))
        # asv keeps a description of the machine in the home folder and asks for it where there is none.
        env = os.environ | {"HOME": scratch, "NUMBA_NUM_THREADS": os.environ.get("NUMBA_NUM_THREADS", "2")}
        asv = [sys.executable, "-m", "asv", "--config", str(folder / "asv.conf.json")]
        subprocess.run([*asv, "machine", "--yes"], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
        command = [*asv, "run", "--python=same", "--quick", "--show-stderr", "--set-commit-hash", "HEAD"]
        status = subprocess.run(command, cwd=folder, env=env).returncode
        if not (folder / "results" / "benchmarks.json").exists():
            print(f"smoke: asv found no benchmark (exit status {status})")
            return 1
        discovered, results, durations = read_results(folder / "results")
    measured, skipped, problems = judge(discovered, results)
    for name, seconds in sorted(durations.items(), key=lambda item: -item[1])[:5]:
        print(f"smoke: {seconds:6.1f} s in {name}")
    for problem in problems:
        print("smoke:", problem)
    print(f"smoke: {measured} measured, {skipped} skipped, {time.perf_counter() - start:.0f} s")
    return 1 if problems or status else 0


if __name__ == "__main__":
    sys.exit(main())
