"""Time `numba_pool.coarsen` against what people use today for the same blocks, and print a Markdown table.

    python asv_benchmarks/compare_coarsen.py [--threads 2] [--operations mean mode] [--peers OpenCV tinybrain]
    pip install tinybrain tensorstore opencv-python-headless xarray numbagg scikit-image    # the peers; none is needed

Peers that are not installed are left out and named; so is a peer whose results are others. All run in one process, by
turns, and the least of the times counts: with one thread the CPU time of the process, with more wall time. The column
"copies" holds our time as multiples of `np.copyto` of the same array into a warm one. Last come the fastest peer, and
how many times as long as we it takes: below 1 it is faster. Peers may return means that are not rounded, as NumPy does.
"""

import argparse
import datetime
import importlib.metadata
import importlib.util
import os
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from coarsen_peers import PEERS, Case, agree, cases
from compare_peers import machine

import numba_pool


def least(calls: dict[str, Callable], threads: int, seconds: float, rounds: int = 3) -> dict[str, float]:
    """Seconds of each, the least of all calls of some rounds."""
    clock = time.process_time if threads == 1 else time.perf_counter
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            end = time.perf_counter() + seconds / rounds
            while True:
                start = clock()
                result = call()
                best[name] = min(best[name], clock() - start)
                del result  # not a part of the call, and the next one may have its memory
                if time.perf_counter() >= end:
                    break
    return best


def compared(case: Case, peers: list[str], threads: int, seconds: float) -> dict:
    """Operation, dtype, seconds of each way, and why peers were left out."""
    warm, own = np.zeros_like(case.x), partial(numba_pool.coarsen, case.x, case.window, case.reduction)
    calls, left_out = {"copy": lambda: np.copyto(warm, case.x), "ours": own}, {}
    if not agree(case, own()):
        raise RuntimeError(f"coarsen itself computes something else for {case.name} of {case.x.dtype}")
    for peer in peers:
        try:
            call = PEERS[peer][1](case, threads)
            if call is not None and agree(case, call()):
                calls[peer] = call
            elif call is not None:
                left_out[peer] = "other values"
        except Exception as error:
            left_out[peer] = f"{type(error).__name__}: {error}"[:100]
    return {"operation": case.name, "dtype": str(case.x.dtype), "seconds": least(calls, threads, seconds),
            "left_out": left_out}


HEAD = ("operation", "dtype", "ours, ms", "copies", "best peer", "times as long")


def line(row: dict) -> str:
    """A row of the table."""
    seconds = dict(row["seconds"])
    copy, own = seconds.pop("copy"), seconds.pop("ours")
    best = min(seconds, key=seconds.get, default="")
    ratio = f"{seconds[best] / own:.2f}" if best else ""
    cells = (row["operation"], row["dtype"], f"{1e3 * own:.2f}", f"{own / copy:.2f}", best, ratio)
    return f"| {' | '.join(cells)} |"


def conditions(threads: int, peers: list[str]) -> str:
    """The machine, the clock, the versions and the day."""
    named = importlib.metadata.packages_distributions()
    versions = [f"{module} {importlib.metadata.version(named[module][0])}"
                for module in dict.fromkeys(["numba", *(PEERS[peer][0] for peer in peers)])]
    clock = "one thread, CPU time" if threads == 1 else f"{threads} threads, wall time"
    return f"{machine(threads)['cpu']}, {clock}, {', '.join(versions)}, {datetime.date.today()}."


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--operations", nargs="*", default=[], help="words with which they begin, such as 'mean 2x2'")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--size", type=int, default=4096, help="of an image's sides")
    parser.add_argument("--length", type=int, default=256, help="of the sides of a volume of labels")
    parser.add_argument("--seconds", type=float, default=0.6, help="for each operation of each peer")
    options = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])  # whatever a peer is told by
    numba_pool.set_num_threads(options.threads)
    there = [peer for peer in options.peers if importlib.util.find_spec(PEERS[peer][0])]
    print(f"{conditions(options.threads, there)}\n"
          f"Not installed: {', '.join(peer for peer in options.peers if peer not in there) or 'none'}.\n")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    notes = []
    for case in cases(options.size, options.length):
        if not options.operations or case.name.startswith(tuple(options.operations)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of blocks of NaN alone
                row = compared(case, there, options.threads, options.seconds)
            print(line(row), flush=True)
            notes += [f"{row['operation']} {row['dtype']}: {peer}: {why}" for peer, why in row["left_out"].items()]
    print("\nLeft out:" if notes else "", *notes, sep="\n")


if __name__ == "__main__":
    main()
