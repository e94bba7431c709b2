"""asv_benchmarks/compare_coarsen.py: what it computes beside times, and that its peers reduce blocks as we do."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from process import environment

import numba_pool

BENCHMARKS = Path(__file__).resolve().parent.parent / "asv_benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    import coarsen_peers
    import compare_coarsen
finally:
    sys.path.remove(str(BENCHMARKS))

Case = coarsen_peers.Case
IMAGE = np.arange(24, dtype=np.uint8).reshape(4, 6)


def ours(case):
    return numba_pool.coarsen(case.x, case.window, case.reduction)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:All-NaN slice")
@pytest.mark.parametrize("peer", coarsen_peers.PEERS)
def test_peers_reduce_blocks_as_we_do(peer):
    module, make = coarsen_peers.PEERS[peer]
    pytest.importorskip(module)
    served = 0
    for case in coarsen_peers.cases(32, 8):
        call = make(case, 1)
        if call is not None:
            y = call()
            assert coarsen_peers.agree(case, y), case.name
            assert coarsen_peers.agree(case, ours(case)), case.name
            if case.reduction in ("max", "nanmean"):
                np.testing.assert_allclose(y, ours(case), rtol=1e-5, atol=1e-6)
            served += 1
    assert served


@pytest.mark.parametrize(("reduction", "block", "right", "wrong"), [
    ("mean", [1, 2, 3, 5], [2.75, 3, 2], [1, 4.5]),
    ("max", [1, 2, 3, 5], [5], [4, 6]),
    ("median", [7, 2, 9, 3], [3, 5, 7], [2, 8]),
    ("mode", [4, 6, 6, 4], [4, 6], [0]),
    ("mode", [4, 6, 6, 1], [6], [4]),
])
def test_results_agree_but_for_rounding_and_ties(reduction, block, right, wrong):
    case = Case(np.array(block, np.uint8).reshape(2, 2), (2, 2), reduction)
    for values, expected in ((right, True), (wrong, False)):
        assert [coarsen_peers.agree(case, np.array([[v]])) for v in values] == [expected] * len(values)
    assert not coarsen_peers.agree(case, np.array([right[0]]))


def test_a_line_holds_copies_and_the_fastest_peer():
    seconds = {"copy": 0.002, "ours": 0.003, "NumPy": 0.03, "OpenCV": 0.006, "xarray": 0.1}
    row = {"operation": "mean 2x2", "dtype": "uint8", "seconds": seconds, "left_out": {}}
    assert compare_coarsen.line(row) == "| mean 2x2 | uint8 | 3.00 | 1.50 | OpenCV | 2.00 |"
    alone = row | {"seconds": {"copy": 0.002, "ours": 0.003}}
    assert compare_coarsen.line(alone) == "| mean 2x2 | uint8 | 3.00 | 1.50 |  |  |"


def test_peers_that_fail_or_give_other_values_are_left_out(monkeypatch):
    def fails(case, threads):
        raise ValueError("no memory")

    case = Case(IMAGE, (2, 2), "max")
    peers = {"wrong": ("numpy", lambda case, threads: lambda: ours(case) + 1), "fails": ("numpy", fails),
             "lacks it": ("numpy", lambda case, threads: None), "NumPy": coarsen_peers.PEERS["NumPy"]}
    monkeypatch.setattr(compare_coarsen, "PEERS", peers)
    row = compare_coarsen.compared(case, list(peers), threads=1, seconds=0)
    assert (row["operation"], row["dtype"]) == ("max 2x2", "uint8")
    assert list(row["seconds"]) == ["copy", "ours", "NumPy"]
    assert row["left_out"] == {"wrong": "other values", "fails": "ValueError: no memory"}


def test_the_command_prints_a_table():
    """In a process of its own, which it keeps to some processors."""
    command = [sys.executable, BENCHMARKS / "compare_coarsen.py", "--size", "32", "--length", "8", "--seconds", "0",
               "--operations", "max", "--peers", "NumPy", "NumPy, slices"]
    printed = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout
    assert f"numpy {np.__version__}" in printed
    assert "Not installed: none." in printed
    rows = [line.split(" | ")[:2] for line in printed.splitlines() if line.startswith("| max")]
    assert rows == [["| max 2x2", dtype] for dtype in coarsen_peers.DTYPES]
