"""The side of gate.py that runs inside the environment of one commit: answers requests, one JSON line each.

requests: {"do": "list"}                        -> {"benchmarks": {id: [name, index of its parameters]}}
          {"do": "open", "name": ..., "index": ...} -> {"ready": true} or {"skipped": true}
          {"do": "time", "seconds": ...}        -> {"quartile": seconds of one call}
          {"do": "close"}                       -> {}
Anything that goes wrong is answered by {"error": text}. Needs asv_runner, which knows what a benchmark is.
"""

import itertools
import json
import os
import sys
import traceback
from types import SimpleNamespace

from asv_runner.discovery import disc_benchmarks, get_benchmark_from_name


class Session:
    """One suite, and the benchmark of it that is set up at the moment."""

    def __init__(self, suite):
        self.suite = suite
        self.current = None

    def list(self):
        found = {}
        for benchmark in disc_benchmarks(self.suite):
            if benchmark.type == "time":
                for index, values in enumerate(itertools.product(*benchmark.params)):
                    found[f"{benchmark.name}({', '.join(values)})"] = [benchmark.name, index]
        return {"benchmarks": found}

    def open(self, name, index):
        self.current = get_benchmark_from_name(self.suite, name)
        if self.current.params:
            self.current.set_param_idx(index)
        # do_setup reads these again from the list of places where asv looks for a benchmark's attributes.
        self.limits = SimpleNamespace(min_run_count=1, repeat=(1, 1, 0.0), warmup_time=0)
        self.current._attr_sources.insert(0, self.limits)
        if self.current.do_setup():
            self.current = None
            return {"skipped": True}
        self.current.do_run()
        return {"ready": True}

    def time(self, seconds):
        self.limits.repeat = (1, 10_000, seconds)
        self.current._load_vars()
        # Disturbances only ever add to a call: the lower quartile (of few calls the best) is steadier than the median.
        samples = sorted(self.current.do_run()["samples"])
        return {"quartile": samples[len(samples) // 4]}

    def close(self):
        if self.current is not None:
            self.current.do_teardown()
        self.current = None
        return {}


def serve(suite):
    # What a benchmark prints must not end up among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session = Session(suite)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(session, request.pop("do"))(**request)
        except Exception:
            session.current = None
            answer = {"error": traceback.format_exc(limit=-3)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
