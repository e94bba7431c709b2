"""What each kernel is worth: the time of calls without it over their time with it.

    python asv_benchmarks/ablation.py [--cases 40] [--rounds 3] [--minutes 20] [--write docs/architecture.md]

Every call is served by the first rule of the lists in `numba_pool/kernels/__init__.py` that says yes. Here the rule
that serves a call is left out, and the call is timed by turns with it and without it, in one process. A row of the
table is a rule: how many calls it serves, the geometric mean of the ratios there, and of those over all calls. Nothing
else should run on the machine. Compiling takes longer than measuring: ten minutes or more in all.
"""

import argparse
import random
import sys
import time
from functools import partial
from math import exp, inf, log, prod
from pathlib import Path

import numpy as np

import numba_pool as nb
from numba_pool import kernels
from numba_pool._dispatch.memo import memory

LISTS = ("FORWARD", "GRADIENTS", "DISJOINT")
BEGIN, END = "<!-- ablation -->\n", "<!-- /ablation -->\n"

# (N, C, *spatial), kernel, stride, padding
NETWORKS = [
    ((64, 6, 28, 28), 2, 2, 0), ((64, 16, 10, 10), 2, 2, 0), ((16, 64, 55, 55), 3, 2, 0), ((16, 192, 27, 27), 3, 2, 0),
    ((16, 256, 13, 13), 3, 2, 0), ((8, 64, 112, 112), 3, 2, 1), ((8, 64, 112, 112), 2, 2, 0),
    ((8, 256, 28, 28), 2, 2, 0), ((16, 192, 28, 28), 3, 1, 1), ((16, 512, 14, 14), 3, 1, 1), ((8, 512, 7, 7), 7, 7, 0),
    ((4, 512, 20, 20), 5, 1, 2), ((4, 512, 20, 20), 13, 1, 6), ((4, 3, 224, 224), 2, 2, 0),
    ((1, 1, 2048, 2048), 2, 2, 0),
]
SIGNALS = [((1, 1, 1_000_000), 3, 1, 1), ((1, 1, 1_000_000), 4, 4, 0), ((1, 8, 200_000), 16, 8, 0),
           ((16, 16, 4_000), 3, 2, 1), ((1, 1, 500_000), 301, 1, 150)]


def random_cases(count):
    rng, cases = np.random.default_rng(5), []
    while len(cases) < count:
        k = int(rng.choice([2, 2, 3, 3, 3, 4, 5, 7, 9, 15]))
        s = int(rng.choice([1, 1, 2, 2, 3, k]))
        h = int(rng.choice([7, 8, 13, 14, 16, 19, 28, 32, 45, 56, 64, 100, 128]))
        w = h if rng.random() < 0.7 else int(h * rng.choice([0.5, 1.5, 3]) + 1)
        c = int(rng.choice([1, 3, 8, 16, 24, 48, 64, 128, 256]))
        n = int(rng.choice([1, 2, 8, 16, 32, 64]))
        if min(h, w) >= k and 2e3 < n * c * h * w < 4e6:
            cases.append(((n, c, h, w), k, s, int(rng.choice([0, k // 2]))))
    return cases


def calls(cases):
    """(name, function, arguments) of every pass in both memory orders; bytes and halves of the first cases."""
    rng = np.random.default_rng(0)
    for i, (shape, k, s, p) in enumerate(cases):
        rank = len(shape) - 2
        forward, mean = getattr(nb, f"max_pool{rank}d"), getattr(nb, f"avg_pool{rank}d")
        backward, spread = getattr(nb, f"max_pool{rank}d_backward"), getattr(nb, f"avg_pool{rank}d_backward")
        for last in (False, True) if rank == 2 else (False,):
            for dtype in ("float32", "uint8", "float16") if i % 5 == 0 else ("float32",):
                x = (8 * rng.standard_normal(shape, dtype=np.float32)).astype(dtype)
                if last:
                    x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
                name = f"{'x'.join(map(str, shape))} {k}/{s} {dtype} {'nhwc' if last else 'nchw'}"
                yield f"{name} max", forward, (x, k, s, p)
                yield f"{name} argmax", partial(forward, return_indices=True), (x, k, s, p)
                yield f"{name} avg", mean, (x, k, s, p)
                if dtype != "float32":
                    continue
                y, indices = forward(x, k, s, p, return_indices=True)
                yield f"{name} max gradient", backward, (y, indices, x.shape)
                yield f"{name} avg gradient", spread, (y, x.shape, k, s, p)


def rule_of(function, args):
    """The rule that serves a call, by its place in a list; None where none chose the kernel."""
    asked, extra = (function.func, function.keywords) if isinstance(function, partial) else (function, {})
    every, served = {name: getattr(kernels, name) for name in LISTS}, []

    def noted(name, rule):
        def ask(job):
            plan = rule(job)
            if plan is not None:
                served.append((name, rule))
            return plan

        return ask

    try:
        for name, rules in every.items():
            lists(name, tuple(noted(name, rule) for rule in rules))
        nb.explain(asked, *args, **extra)
    finally:
        for name, rules in every.items():
            lists(name, rules)
    return served[-1] if served else None


def lists(name, rules):
    """Use these rules from now on."""
    memory.clear()
    setattr(kernels, name, rules)


def timed(function, args, budget):
    """Seconds of a call, the least of some."""
    function(*args)  # plans
    best, end = 1e9, time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        function(*args)
        best = min(best, time.perf_counter() - start)
    return best


def worth(function, args, found, rounds, budget):
    """The time without the rule over that with it: the median of some turns."""
    name, rule = found
    every = getattr(kernels, name)
    others = tuple(r for r in every if r is not rule)
    ratios = []
    try:
        for turn in range(rounds + 1):
            lists(name, others)
            without = timed(function, args, budget)
            lists(name, every)
            with_it = timed(function, args, budget)
            if turn:  # the first compiles
                ratios.append(without / with_it)
    finally:
        lists(name, every)
    return float(np.median(ratios))


def table(results, total):
    rows = ["| rule | calls | there | over all | worst and best |", "|---|---|---|---|---|"]
    for (name, rule), ratios in sorted(results.items(), key=lambda item: -sum(map(log, item[1]))):
        there = exp(sum(map(log, ratios)) / len(ratios))
        all_ = exp(sum(map(log, ratios)) / total)
        room = rule.__module__.rpartition(".")[2]
        rows.append(f"| `{room}.{rule.__name__}` ({name.lower()}) | {len(ratios)} | {there:.2f} | {all_:.3f} | "
                    f"{min(ratios):.2f} to {max(ratios):.2f} |")
    model = nb.show_config("dicts")["vectors"]["model"]
    return f"{total} calls in all, on {model}.\n\n" + "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=40, help="shapes: those of networks, signals, and random ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=0.02, help="seconds for a call in a turn")
    parser.add_argument("--only", help="a part of the rules' names, as 'turned.plan_first'")
    parser.add_argument("--minutes", type=float, default=inf, help="what is not measured by then is left out")
    parser.add_argument("--write", type=Path, help="a page whose table is replaced")
    given = parser.parse_args()
    fixed = [*NETWORKS, *SIGNALS]
    cases = (fixed + random_cases(max(given.cases - len(fixed), 0)))[: given.cases]
    random.Random(0).shuffle(cases)  # so that a part of them has all sorts
    results, total, end = {}, 0, time.monotonic() + 60 * given.minutes
    for name, function, args in calls(cases):
        if time.monotonic() > end:
            break
        total += 1
        found = rule_of(function, args)
        if found is None or prod(args[0].shape) == 0:
            continue
        label = f"{found[1].__module__.rpartition('.')[2]}.{found[1].__name__}"
        if found[1] is getattr(kernels, found[0])[-1] or (given.only and given.only not in label):
            continue  # without the last rule there is nothing
        ratio = worth(function, args, found, given.rounds, given.budget)
        results.setdefault(found, []).append(ratio)
        print(f"{ratio:6.2f}  {label:24} {name}", file=sys.stderr, flush=True)
    text = table(results, total)
    print(text)
    if given.write:
        page = given.write.read_text()
        before, _, rest = page.partition(BEGIN)
        given.write.write_text(f"{before}{BEGIN}{text}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
