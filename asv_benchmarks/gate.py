"""Compare the speed of two commits, and fail where the second is slower or where something could not be measured.

usage: python asv_benchmarks/gate.py BASE HEAD [--bench REGEX ...] [--ratio 1.25] [--microseconds 20] ...

Each commit is cloned, built and installed into a virtual environment of its own. HEAD's suite runs in both, by turns
within each benchmark (base, head, head, base, ...), in several launches of fresh processes. A benchmark counts as
slower when
  - the ratio is above --ratio both between the best turns of the two commits and in the median of the pairs of turns
    that stood next to each other, and
  - the difference of the best turns is above --microseconds, and
  - reruns in fresh processes, with more turns, all say the same (--reruns, 2 unless told otherwise).
A turn's time is the lower quartile of its calls.
"no result" is said where a benchmark failed, died, took too long, or exists in one of the two suites alone (the last
is accepted with --allow-changed). Needs git and a package index for pip; the repository itself is not touched.

exit status: 0 nothing slower, everything measured; 1 something is slower; 3 nothing is slower, but a result is missing
"""

import argparse
import json
import os
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
OK, SLOWER, NO_RESULT = 0, 1, 3
DEFAULT_BENCHMARKS = ["pooling.Network", "overhead.TinyArray", "family.Family"]


class NoResult(Exception):
    """A commit or a benchmark that could not be measured; the text says why."""


# ---- verdicts
@dataclass(frozen=True)
class Limits:
    """What counts as slower: both limits must be passed."""

    ratio: float
    seconds: float


@dataclass
class Sample:
    """Turns of one benchmark: seconds per call of base and head, measured next to each other."""

    pairs: list[tuple[float, float]] = field(default_factory=list)

    @property
    def base(self) -> float:
        return min(base for base, _ in self.pairs)

    @property
    def head(self) -> float:
        return min(head for _, head in self.pairs)

    @property
    def ratio(self) -> float:
        """Head / base: the more cautious (nearer to 1) of the best turns' ratio and the pairs' median ratio."""
        best = self.head / self.base
        paired = statistics.median(head / base for base, head in self.pairs)
        if (best - 1) * (paired - 1) <= 0:
            return 1.0
        return min(best, paired, key=lambda ratio: abs(ratio - 1))

    def slower(self, limits: Limits) -> bool:
        return self.ratio > limits.ratio and self.head - self.base > limits.seconds


@dataclass(frozen=True)
class Verdict:
    """What is said about one benchmark in the end."""

    kind: str  # "ok", "faster", "slower", "not confirmed", "skipped", "changed" or "no result"
    text: str


def first_verdict(outcome: "Sample | Verdict", limits: Limits) -> Verdict:
    """The verdict of the first pass; "slower" still has to be confirmed."""
    if isinstance(outcome, Verdict):
        return outcome
    kind = "slower" if outcome.slower(limits) else "faster" if outcome.ratio < 1 / limits.ratio else "ok"
    return Verdict(kind, describe(outcome))


def confirmed_verdict(slower: Verdict, rerun: "Sample | Verdict", limits: Limits) -> Verdict:
    """The verdict on a benchmark that was slower so far, after one more rerun."""
    if isinstance(rerun, Verdict):
        return Verdict("no result", f"slower at first ({slower.text}), then: {rerun.text}")
    kind = "slower" if rerun.slower(limits) else "not confirmed"
    return Verdict(kind, f"{slower.text}; again: {describe(rerun)}")


def describe(sample: Sample) -> str:
    return f"{sample.base * 1e6:.1f} -> {sample.head * 1e6:.1f} us (x{sample.ratio:.2f})"


def exit_status(verdicts: Iterable[Verdict]) -> int:
    """1 if anything is slower, else 3 if a result is missing or nothing was measured at all, else 0."""
    kinds = {verdict.kind for verdict in verdicts}
    if "slower" in kinds:
        return SLOWER
    if "no result" in kinds or not kinds & {"ok", "faster", "not confirmed"}:
        return NO_RESULT
    return OK


def plan(base: dict, head: dict, patterns: list[str], allow_changed: bool) -> tuple[dict, dict[str, Verdict]]:
    """(what to run, verdicts that stand already) from the benchmarks that the two suites hold."""

    def chosen(suite):
        return {key: place for key, place in suite.items() if any(re.search(p, key) for p in patterns)}

    base, head = chosen(base), chosen(head)
    kind = "changed" if allow_changed else "no result"
    verdicts = {key: Verdict(kind, "only in the suite of HEAD") for key in head if key not in base}
    verdicts |= {key: Verdict(kind, "only in the suite of BASE") for key in base if key not in head}
    return {key: place for key, place in head.items() if key in base}, verdicts


# ---- environments
def run(*command, **options) -> str:
    """The output of a command, or NoResult with what it said."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise NoResult(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout.strip()


@dataclass(frozen=True)
class Build:
    """A commit, its clone, and the Python that has it installed."""

    commit: str
    clone: Path
    python: Path

    @property
    def suite(self) -> Path:
        return self.clone / "asv_benchmarks" / "benchmarks"


def clean_environment() -> dict[str, str]:
    """The caller's variables, without those that would make the two commits share modules or cached kernels."""
    return {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "PYTHONPATH", "PYTHONHOME")}


def build(repository: Path, commit: str, folder: Path) -> Build:
    """Clone and install one commit under ``folder``; what an earlier run has finished there is taken as it is."""
    place = folder / commit[:16]
    done = Build(commit, place / "clone", place / "venv" / "bin" / "python")
    if not (place / "finished").exists():
        print(f"building {commit[:10]} in {place}", flush=True)
        place.mkdir(parents=True)
        run("git", "clone", "--quiet", "--shared", "--no-checkout", repository, done.clone)
        run("git", "-C", done.clone, "-c", "advice.detachedHead=false", "checkout", "--quiet", commit)
        run(sys.executable, "-m", "venv", place / "venv")
        run(done.python, "-m", "pip", "install", "--quiet", done.clone, "asv_runner", "ml_dtypes",
            env=clean_environment())  # fmt: skip
        (place / "finished").touch()
    versions = "import numba, numpy; print('numba', numba.__version__, 'numpy', numpy.__version__)"
    print(f"{commit[:10]}: {run(done.python, '-c', versions, env=clean_environment())}", flush=True)
    return done


class Worker:
    """A gate_worker.py process in the environment of one commit."""

    def __init__(self, python: Path, suite: Path, timeout: float):
        self.timeout = timeout
        self.process = subprocess.Popen(
            [python, HERE / "gate_worker.py", suite], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=clean_environment(), cwd=tempfile.gettempdir(), bufsize=0,
        )  # fmt: skip

    def ask(self, **request) -> dict:
        """The worker's answer; NoResult if it reports an error, dies, or lets us wait for too long."""
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise NoResult(f"the process died with status {self.process.wait()}") from None
        answer, end = b"", time.monotonic() + self.timeout
        while not answer.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                self.stop()
                raise NoResult(f"no answer within {self.timeout:.0f} s")
            received = os.read(self.process.stdout.fileno(), 1 << 16)
            if not received:
                raise NoResult(f"the process died with status {self.process.wait()}")
            answer += received
        content = json.loads(answer)
        if "error" in content:
            raise NoResult(content["error"].strip().splitlines()[-1])
        return content

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()


# ---- measurement
def listed(python: Path, suite: Path, timeout: float) -> dict:
    worker = Worker(python, suite, timeout)
    try:
        return worker.ask(do="list")["benchmarks"]
    finally:
        worker.stop()


def measure(builds: dict[str, Build], todo: dict, options, launches: int, turns: int) -> dict[str, "Sample | Verdict"]:
    """Run the benchmarks of ``todo`` in both environments by turns, in ``launches`` pairs of fresh processes."""
    suite = builds["HEAD"].suite
    outcomes: dict[str, Sample | Verdict] = {key: Sample() for key in todo}
    for _ in range(launches):
        workers: dict[str, Worker] = {}
        try:
            for key, (name, index) in todo.items():
                if isinstance(outcomes[key], Verdict):
                    continue
                for side, made in builds.items():
                    if side not in workers or not workers[side].alive:
                        workers[side] = Worker(made.python, suite, options.timeout)
                verdict = take_turns(workers, name, index, outcomes[key].pairs, turns, options.seconds)
                if verdict is not None:
                    outcomes[key] = verdict
        finally:
            for worker in workers.values():
                worker.stop()
    return outcomes


def take_turns(workers, name, index, pairs, turns: int, seconds: float) -> Verdict | None:
    """Append ``turns`` pairs of times; a Verdict instead if that cannot be done."""
    skipped, missing = [], []
    for side, worker in workers.items():
        try:
            if "skipped" in worker.ask(do="open", name=name, index=index):
                skipped.append(side)
        except NoResult as reason:
            missing.append(f"{side}: {reason}")
    if not missing and len(skipped) == 1:
        missing.append(f"skipped in {skipped[0]} alone")
    if not missing and not skipped:
        order = list(workers)
        for _ in range(turns):
            times = {}
            for side in order:
                time.sleep(0.01)  # the other side's threads stop spinning
                try:
                    times[side] = workers[side].ask(do="time", seconds=seconds)["quartile"]
                except NoResult as reason:
                    missing.append(f"{side}: {reason}")
            if missing:
                break
            pairs.append((times["BASE"], times["HEAD"]))
            order.reverse()
    for side, worker in workers.items():
        try:
            if worker.alive:
                worker.ask(do="close")
        except NoResult as reason:
            missing.append(f"{side}: {reason}")
    if missing:
        return Verdict("no result", "; ".join(missing))
    return Verdict("skipped", "skipped by the benchmark itself, in both") if skipped else None


def compare(builds: dict[str, Build], options) -> dict[str, Verdict]:
    """Verdicts of all the chosen benchmarks."""
    suites = {side: listed(made.python, made.suite, options.timeout) for side, made in builds.items()}
    todo, verdicts = plan(suites["BASE"], suites["HEAD"], options.bench, options.allow_changed)
    limits = Limits(options.ratio, options.microseconds * 1e-6)
    print(f"measuring {len(todo)} benchmarks", flush=True)
    outcomes = measure(builds, todo, options, options.launches, options.turns)
    verdicts |= {key: first_verdict(outcome, limits) for key, outcome in outcomes.items()}
    for _ in range(options.reruns):
        suspects = {key: place for key, place in todo.items() if verdicts[key].kind == "slower"}
        if suspects:
            print(f"running {len(suspects)} again", flush=True)
            again = measure(builds, suspects, options, options.launches + 1, 2 * options.turns)
            verdicts |= {key: confirmed_verdict(verdicts[key], again[key], limits) for key in suspects}
    return verdicts


def report(verdicts: dict[str, Verdict]) -> None:
    order = ["ok", "skipped", "changed", "faster", "not confirmed", "no result", "slower"]
    for key, verdict in sorted(verdicts.items(), key=lambda item: order.index(item[1].kind)):
        print(f"{verdict.kind:14} {key}: {verdict.text}")
    counts = {kind: sum(v.kind == kind for v in verdicts.values()) for kind in order}
    print("gate:", ", ".join(f"{n} {kind}" for kind, n in counts.items() if n) or "no benchmark was chosen")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Fail where HEAD is slower than BASE or could not be measured.",
        epilog="exit status: 0 nothing slower, 1 something slower, 3 nothing slower but a result is missing",
    )
    parser.add_argument("base", metavar="BASE", help="the commit to compare with")
    parser.add_argument("head", metavar="HEAD", help="the commit to judge; its benchmarks are run")
    parser.add_argument("--bench", nargs="+", default=DEFAULT_BENCHMARKS, metavar="REGEX",
                        help="benchmarks whose name with parameters matches (default: %(default)s)")  # fmt: skip
    parser.add_argument("--ratio", type=float, default=1.25, help="slower from this ratio on (default: %(default)s)")
    parser.add_argument("--microseconds", type=float, default=20.0,
                        help="and from this difference per call on (default: %(default)s)")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=0.1, help="one turn of one commit (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="turns in each launch (default: %(default)s)")
    parser.add_argument("--launches", type=int, default=2, help="pairs of fresh processes (default: %(default)s)")
    parser.add_argument("--reruns", type=int, default=2, help="that have to confirm (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one answer (default: %(default)s)")
    parser.add_argument("--environments", type=Path, metavar="DIR",
                        help="keep what was built here for the next run (default: a temporary folder)")  # fmt: skip
    parser.add_argument("--repository", type=Path, default=HERE.parent, help="(default: the one this file is in)")
    parser.add_argument("--allow-changed", action="store_true",
                        help="accept benchmarks that one of the two suites does not have")  # fmt: skip
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="numba_pool-gate-") as scratch:
        folder = (options.environments or Path(scratch)).resolve()
        try:
            commits = {
                side: run("git", "-C", options.repository, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
                for side, name in (("BASE", options.base), ("HEAD", options.head))
            }
            builds = {side: build(options.repository.resolve(), c, folder) for side, c in commits.items()}
            verdicts = compare(builds, options)
        except NoResult as reason:
            print(f"gate: no result: {reason}")
            return NO_RESULT
    report(verdicts)
    return exit_status(verdicts.values())


if __name__ == "__main__":
    sys.exit(main())
