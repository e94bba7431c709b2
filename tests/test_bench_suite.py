"""asv's benchmarks run (asv_benchmarks/smoke.py), with the kernels that the other tests have compiled."""

import subprocess
import sys
from pathlib import Path

import pytest
import selection
from process import environment

pytest.importorskip("asv_runner")
BENCHMARKS = Path(__file__).resolve().parent.parent / "asv_benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    import smoke
    from benchmarks import overhead
finally:
    sys.path.remove(str(BENCHMARKS))


def test_every_benchmark_runs():
    """In a process of its own, since benchmarks set threads and empty caches."""
    command = [sys.executable, BENCHMARKS / "smoke.py", *([] if selection.exhaustive else ["--first"])]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"


def test_every_value_of_a_parameter_comes_once():
    assert smoke.combinations([]) == [()]
    assert smoke.combinations([["a", "b", "c"], [1, 2]]) == [("a", 1), ("b", 2), ("c", 1)]


@pytest.mark.parametrize(("error", "said"), [
    (None, "2 called, 0 failed"),
    (ValueError("broken"), "time_copy(1,) failed\nTraceback"),
    (NotImplementedError("not here"), "0 called, 1 failed"),
], ids=str)
def test_what_fails_or_is_skipped_throughout_is_found(error, said, monkeypatch, capsys):
    def setup(self, mebibytes):
        raise error

    if error is not None:
        monkeypatch.setattr(overhead.Control, "setup", setup)
        monkeypatch.setattr(overhead.Control, "params", ([1],))
    assert smoke.main("overhead.Control") == (error is not None)
    assert said in capsys.readouterr().out
    assert smoke.main("no such benchmark") == 1
