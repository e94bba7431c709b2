"""asv_benchmarks/compare_peers.py: what it computes and writes from given times, and that its peers pool alike."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import numba_pool

BENCHMARKS = Path(__file__).resolve().parent.parent / "asv_benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    import compare_peers
    import peers
    import peers_report
finally:
    sys.path.remove(str(BENCHMARKS))


BEGIN, END = "<!-- performance: begin -->", "<!-- performance: end -->"
PLOTS = ["ratios", "kernels", "memory"]


def row(operation="argmax", case="a", part="networks", layout="nchw", **times):
    return {
        "part": part,
        "date": "2026-01-02",
        "case": case,
        "operation": operation,
        "layout": layout,
        "shape": [1, 2, 8, 8],
        "kernel": [2, 2],
        "stride": [2, 2],
        "padding": 0,
        "forward": {},
        "backward": {},
        "left_out": {},
    } | times


ROWS = [
    row(
        forward={"ours": 1e-6, "torch": 4e-6, "onnxruntime": 1e-6},
        backward={"ours": 1e-6, "torch": 4e-6},
    ),
    row(case="b", forward={"ours": 2e-6, "torch": 1e-6, "jax": 9e-6}, backward={"ours": 2e-6, "torch": 1e-6, "jax": 1}),
    row("max", forward={"ours": 1e-6, "torch": 6e-6, "onnxruntime": 3e-6}),
    *(row("max", f"{k}", "kernels", kernel=[k, k], forward={"ours": k * 1e-6, "torch": k * 2e-6}) for k in (3, 5)),
    row(
        "avg",
        "2x2/2",
        "memory",
        forward={"ours": 320e-9, "torch": 640e-9},
        backward={"ours": 640e-9},
        copy_bytes_per_second={"memcpy": 1e9, "non-temporal": 2e9},
    ),
]
RESULTS = {
    "machine": {"cpu": "Some CPU", "cores": 2, "threads": 2, "system": "Linux x86_64", "python": "3.12.0"},
    "versions": {"numba_pool": "0.1.0", "torch": "2.0"},
    "sources": "abc",
    "rows": ROWS,
}


def test_ratio_is_against_the_fastest_peer_of_each_case():
    argmax = peers_report.ratios(ROWS)["argmax", "nchw"]
    assert [(entry["case"], entry["best"], entry["ratio"]) for entry in argmax] == [
        ("a", "torch", pytest.approx(4.0)),  # onnxruntime has no backward: it does not count
        ("b", "torch", pytest.approx(0.5)),
    ]
    (forward,) = peers_report.ratios(ROWS)["max", "nchw"]
    assert (forward["best"], forward["ratio"]) == ("onnxruntime", pytest.approx(3.0))


def test_table_line_holds_means_and_the_worst_case():
    line = peers_report.table_line("argmax", "nchw", peers_report.ratios(ROWS)["argmax", "nchw"])
    assert line.split("|")[3:-1] == [" 2 ", " 1.41 ", " 0.50 (b, PyTorch) ", " 1.4 "]


def test_memory_shares_count_what_is_read_and_written():
    # 128 inputs and 32 outputs of 4 bytes: 640 bytes.
    forward, backward = peers_report.memory_shares(ROWS)
    assert (forward["direction"], forward["ours"], forward["torch"]) == ("forward", 1.0, 0.5)
    assert (backward["direction"], backward["ours"]) == ("backward", 0.5)
    assert peers_report.moved_bytes(row("argmax"), "forward") == 640 + 32 * 4


def test_tables_stand_between_their_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    peers_report.write_tables(RESULTS, page, tmp_path / "plots")
    once = page.read_text()
    assert once.startswith(f"before\n{BEGIN}\n")
    assert once.endswith(f"\n{END}\nafter\n")
    assert "old" not in once
    for text in (
        "Some CPU, 2 cores, 2 threads",
        "torch 2.0",
        "0.50 (b, PyTorch)",
    ):
        assert text in once
    peers_report.write_tables(RESULTS, page, tmp_path / "plots")
    assert page.read_text() == once


def test_the_short_table_takes_the_fastest_way_of_numpy():
    times = {"ours": 1e-3, "torch": 6e-3, "numpy_shifted": 40e-3, "numpy_windows": 30e-3}
    rows = [row(case=case, forward=times, backward=times) for case in ("vgg1", "alexnet1", "other")]
    table = peers_report.short(RESULTS | {"rows": [*ROWS, *rows]})
    assert table.splitlines() == [
        "| | VGG's first pool, 2x2 | AlexNet's first pool, 3x3 |", "|---|---|---|",
        "| **numba_pool** | **2.0** | **2.0** |", "| PyTorch | 12 | 12 |",
        "| plain NumPy: the fastest of three implementations | 60 | 60 |", "",
        "Float32, Some CPU, 2 cores, 2 threads, Linux x86_64, Python 3.12.0, 2026-01-02."]  # fmt: skip


def test_pages_show_the_results_that_are_kept():
    """As the script writes them, and on which processor they were measured."""
    results = json.loads((BENCHMARKS / "peers.json").read_text())
    assert results["machine"]["cpu"].endswith((", with AVX-512", ", without AVX-512"))
    long = peers_report.section(results, "../asv_benchmarks/plots", PLOTS)
    for page, name, table in (("README.md", "pooling speed", peers_report.short(results)),
                              ("docs/performance.md", "performance", long)):  # fmt: skip
        text = (BENCHMARKS.parent / page).read_text()
        assert peers_report.replaced(text, name, table) == text


@pytest.mark.parametrize("text", ["none", BEGIN, END + BEGIN, 2 * (BEGIN + END)])
def test_a_page_without_its_markers_is_refused(text):
    with pytest.raises(ValueError, match="performance: begin"):
        peers_report.replaced(text, "performance", "content")


def test_plots_and_pages_from_the_json(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "peers.json").write_text(json.dumps(RESULTS))
    pages = [tmp_path / "a.md", tmp_path / "b.md"]
    for page in pages:
        page.write_text(f"{BEGIN}{END}")
    options = ["--json", tmp_path / "peers.json", "--plots", tmp_path / "plots", "--pages", *pages]
    assert compare_peers.main(["--draw", *map(str, options)]) == 0
    for name in PLOTS:
        assert (tmp_path / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert all(f"(plots/{name}.png)" in page.read_text() for page in pages)


def test_the_machine_says_whether_it_has_wide_registers():
    assert compare_peers.machine(1)["cpu"] == numba_pool.show_config("dicts")["vectors"]["model"]


def test_rows_of_an_earlier_run_stay_only_if_all_is_the_same():
    new = RESULTS | {"rows": [ROWS[0] | {"date": "2026-02-02"}]}
    rows = compare_peers.merged(RESULTS, new)["rows"]
    assert len(rows) == len(ROWS)
    assert rows[0]["date"] == "2026-02-02"
    assert rows[1] == ROWS[1]
    for key, other in (("machine", {}), ("versions", {}), ("sources", "def")):
        assert compare_peers.merged(RESULTS | {key: other}, new) == new
    assert compare_peers.merged(None, new) == new


def test_agreement_tolerates_ties_but_not_another_result():
    values = np.linspace(0, 1, 500)
    tie = values.copy()
    tie[7] = 3
    assert compare_peers.agree(values, tie)
    assert not compare_peers.agree(values, values + 0.01)
    assert not compare_peers.agree(values, values[:-1])


@pytest.mark.parametrize("operation", ["argmax", "max", "avg", "global_avg"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [((2, 3, 8, 10), (2, 2), (2, 2), 0), ((2, 3, 9, 8), (3, 2), (2, 1), 1)],
)
def test_numpy_peers_compute_what_we_compute(operation, layout, shape, kernel, stride, padding):
    if operation == "global_avg":
        kernel, stride, padding = shape[2:], shape[2:], 0
    case = peers.Case(operation, layout, shape, kernel, stride, padding, threads=numba_pool.get_num_threads())
    ours = peers.PEERS["ours"].prepare(case)
    expected = [ours.values(ours.forward())]
    assert expected[0].shape == case.output_shape
    if ours.backward:
        expected.append(ours.values(ours.backward()))
    compared = 0
    for name in ("numpy_reshape", "numpy_shifted", "numpy_windows"):
        try:
            calls = peers.PEERS[name].prepare(case)
        except peers.Unsupported:
            continue
        results = [calls.values(calls.forward())] + ([calls.values(calls.backward())] if calls.backward else [])
        for result, value in zip(results, expected, strict=False):
            np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-6)
            compared += 1
    assert compared


def test_a_row_is_measured_checked_and_timed(monkeypatch):
    """In real processes, one of which answers that it lacks the operation."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    case = peers.Case("max", "nchw", (1, 2, 8, 8), (3, 3), (2, 2), 1, threads=1)
    processes = {name: compare_peers.Process(name, 1) for name in ("ours", "numpy_shifted", "numpy_reshape")}
    try:
        measured = compare_peers.compare("small", case, processes, rounds=1, seconds=0.001)
    finally:
        for process in processes.values():
            process.stop()
    assert set(measured["forward"]) == {"ours", "numpy_shifted"}
    assert all(seconds > 0 for seconds in measured["forward"].values())
    assert measured["left_out"] == {"numpy_reshape": "unsupported: windows that overlap or are padded"}
    assert not measured["backward"]


class Answering:
    """A peer's process, with its answers; a list has one for each time that it is asked."""

    def __init__(self, **answers):
        self.answers = answers

    def ask(self, *request):
        answer = self.answers[request[0]]
        return answer.pop(0) if isinstance(answer, list) else answer


def test_a_round_that_differs_from_the_others_does_not_count():
    case = peers.Case("max", "nchw", (1, 2, 8, 8), (3, 3), (2, 2), 1, threads=1)
    processes = {"ours": Answering(case={"forward": np.arange(9.0)}, time=[2.0, 9.0, 3.0])}
    assert compare_peers.compare("small", case, processes, rounds=3, seconds=0.001)["forward"] == {"ours": 3.0}


def test_a_peer_with_other_values_is_left_out():
    case = peers.Case("max", "nchw", (1, 2, 8, 8), (3, 3), (2, 2), 1, threads=1)
    right, wrong = np.arange(9.0), np.arange(9.0) + 1
    processes = {
        "ours": Answering(case={"forward": right}, time=1.0),
        "torch": Answering(case={"forward": wrong}, time=0.5),
        "jax": Answering(case="failed: no memory"),
        "openvino": Answering(case={"forward": right}, time="failed: the process died"),
    }
    measured = compare_peers.compare("small", case, processes, rounds=2, seconds=0.001)
    assert measured["forward"] == {"ours": 1.0}
    assert measured["left_out"] == {
        "torch": "failed: other values than ours: forward",
        "jax": "failed: no memory",
        "openvino": "failed: the process died",
    }
