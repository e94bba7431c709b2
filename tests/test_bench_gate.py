"""The gate's statistics and verdicts (asv_benchmarks/gate.py), on made-up times."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "asv_benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    import gate
finally:
    sys.path.remove(str(BENCHMARKS))

LIMITS = gate.Limits(ratio=1.25, seconds=20e-6)
MS = 1e-3


def sample(base, head):
    return gate.Sample([(b * MS, h * MS) for b, h in zip(base, head, strict=True)])


def test_slower_needs_ratio_and_difference_together():
    assert sample([1.0, 1.1], [1.5, 1.6]).slower(LIMITS)
    assert not sample([1.0, 1.1], [1.2, 1.3]).slower(LIMITS), "the ratio is too small"
    assert not sample([0.010, 0.011], [0.025, 0.026]).slower(LIMITS), "15 us are too little, whatever the ratio"
    assert sample([0.010, 0.011], [0.035, 0.036]).slower(LIMITS)


def test_one_disturbed_side_is_not_slower():
    # Head met a busy machine in most turns, but its best turn is as good as base's.
    assert sample([1.0, 1.0, 1.0], [1.0, 3.0, 3.0]).ratio == 1.0
    # Base had one lucky turn; next to each other the two are equal.
    assert sample([0.5, 1.0, 1.0], [1.0, 1.0, 1.0]).ratio == 1.0
    # Both slow down together in the middle.
    assert sample([1.0, 4.0, 1.0], [1.0, 4.0, 1.0]).ratio == 1.0


def test_ratio_is_the_more_cautious_of_the_two():
    assert sample([1.0, 1.0, 1.0], [1.4, 2.0, 2.0]).ratio == pytest.approx(1.4)
    assert sample([1.0, 2.0, 2.0], [2.0, 2.6, 2.6]).ratio == pytest.approx(1.3)
    assert sample([2.0, 2.0, 2.0], [1.0, 1.6, 1.6]).ratio == pytest.approx(0.8)


def test_contradicting_ratios_say_nothing():
    assert sample([1.0, 3.0, 3.0], [1.2, 2.0, 2.0]).ratio == 1.0


def test_verdicts_of_the_first_pass():
    assert gate.first_verdict(sample([1.0], [2.0]), LIMITS).kind == "slower"
    assert gate.first_verdict(sample([1.0], [1.1]), LIMITS).kind == "ok"
    assert gate.first_verdict(sample([2.0], [1.0]), LIMITS).kind == "faster"
    missing = gate.Verdict("no result", "HEAD: it broke")
    assert gate.first_verdict(missing, LIMITS) is missing


def test_slower_has_to_be_confirmed():
    first = gate.first_verdict(sample([1.0], [2.0]), LIMITS)
    assert gate.confirmed_verdict(first, sample([1.0], [1.9]), LIMITS).kind == "slower"
    assert gate.confirmed_verdict(first, sample([1.0], [1.0]), LIMITS).kind == "not confirmed"
    broken = gate.confirmed_verdict(first, gate.Verdict("no result", "HEAD: it died"), LIMITS)
    assert broken.kind == "no result"
    assert "it died" in broken.text


@pytest.mark.parametrize(
    ("passes", "kind"),
    [
        ([2.0, 2.0, 2.0], "slower"),
        ([2.0, 1.0], "not confirmed"),
        ([2.0, 2.0, 1.0], "not confirmed"),
        ([1.0], "ok"),
    ],
)
def test_every_rerun_has_to_confirm(monkeypatch, passes, kind):
    suite, heads = {"a": ["a", 0]}, iter(passes)
    monkeypatch.setattr(gate, "listed", lambda *_: suite)
    monkeypatch.setattr(gate, "measure", lambda *_: {"a": sample([1.0], [next(heads)])})
    side = gate.Build("commit", Path("clone"), Path("python"))
    options = gate.parse(["base", "head", "--bench", "a"])
    assert gate.compare({"BASE": side, "HEAD": side}, options)["a"].kind == kind
    assert next(heads, None) is None


@pytest.mark.parametrize(
    ("kinds", "status"),
    [
        (["ok", "faster", "not confirmed"], 0),
        (["ok", "skipped", "changed"], 0),
        (["ok", "slower"], 1),
        (["no result", "slower"], 1),
        (["ok", "no result"], 3),
        (["skipped"], 3),
        (["changed"], 3),
        ([], 3),
    ],
)
def test_exit_status(kinds, status):
    assert gate.exit_status(gate.Verdict(kind, "") for kind in kinds) == status


def test_plan_reports_what_one_suite_alone_has():
    base = {"a.time_x(1)": ["a.time_x", 0], "gone(1)": ["gone", 0], "other": ["other", 0]}
    head = {"a.time_x(1)": ["a.time_x", 3], "a.time_new(1)": ["a.time_new", 0]}
    todo, verdicts = gate.plan(base, head, ["time_", "gone"], allow_changed=False)
    assert todo == {"a.time_x(1)": ["a.time_x", 3]}, "the place is that of HEAD's suite, which is the one that runs"
    assert {key: verdict.kind for key, verdict in verdicts.items()} == {
        "a.time_new(1)": "no result",
        "gone(1)": "no result",
    }
    _, verdicts = gate.plan(base, head, ["time_", "gone"], allow_changed=True)
    assert {verdict.kind for verdict in verdicts.values()} == {"changed"}


WORKER = """
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "die": sys.exit(7)
    if request["do"] == "hang": time.sleep(60)
    if request["do"] == "fail": print(json.dumps({"error": "Traceback ...\\nValueError: broken"}), flush=True)
    else: print(json.dumps({"answer": request["do"]}), flush=True)
"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    (tmp_path / "gate_worker.py").write_text(WORKER)
    monkeypatch.setattr(gate, "HERE", tmp_path)
    worker = gate.Worker(Path(sys.executable), tmp_path, timeout=20)
    yield worker
    worker.stop()


def test_worker_answers_and_survives_a_failure(worker):
    assert worker.ask(do="something") == {"answer": "something"}
    with pytest.raises(gate.NoResult, match="ValueError: broken"):
        worker.ask(do="fail")
    assert worker.ask(do="more") == {"answer": "more"}


def test_worker_that_dies_is_no_result(worker):
    with pytest.raises(gate.NoResult, match="died with status 7"):
        worker.ask(do="die")
    assert not worker.alive


def test_worker_that_hangs_is_no_result_and_stopped(worker):
    worker.ask(do="something")
    worker.timeout = 0.1
    with pytest.raises(gate.NoResult, match="no answer within"):
        worker.ask(do="hang")
    assert not worker.alive


class Scripted:
    """A worker whose answers are given beforehand."""

    alive = True

    def __init__(self, *answers):
        self.answers = list(answers)

    def ask(self, **request):
        if request["do"] == "close":
            return {}
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def turns(base, head):
    pairs = []
    workers = {"BASE": Scripted(*base), "HEAD": Scripted(*head)}
    return gate.take_turns(workers, "name", 0, pairs, turns=2, seconds=0.1), pairs


READY, SKIPPED = {"ready": True}, {"skipped": True}


def test_turns_are_paired():
    verdict, pairs = turns([READY, {"quartile": 1.0}, {"quartile": 2.0}], [READY, {"quartile": 3.0}, {"quartile": 4.0}])
    assert verdict is None
    assert pairs == [(1.0, 3.0), (2.0, 4.0)]


def test_turns_without_result():
    verdict, _ = turns([READY], [gate.NoResult("NameError: x")])
    assert (verdict.kind, verdict.text) == ("no result", "HEAD: NameError: x")
    verdict, _ = turns([READY, {"quartile": 1.0}], [READY, gate.NoResult("the process died")])
    assert (verdict.kind, verdict.text) == ("no result", "HEAD: the process died")
    verdict, _ = turns([SKIPPED], [SKIPPED])
    assert verdict.kind == "skipped"
    verdict, _ = turns([READY], [SKIPPED])
    assert (verdict.kind, verdict.text) == ("no result", "skipped in HEAD alone")


def test_unknown_commit_is_no_result(tmp_path, capsys):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    assert gate.main(["nothing", "nowhere", "--repository", str(tmp_path)]) == gate.NO_RESULT
    assert "no result" in capsys.readouterr().out
