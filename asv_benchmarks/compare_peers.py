"""Compare numba_pool with whatever else is installed that pools on a CPU; write a JSON, plots and tables.

usage: python asv_benchmarks/compare_peers.py --pages docs/performance.md README.md    (everything; --help: less)
       python asv_benchmarks/compare_peers.py --pages docs/performance.md README.md --draw    (both, from the JSON)

A run of some of the cases replaces their rows in the JSON and leaves the others, as long as the machine, the versions
and the sources of numba_pool are the same.

Parts: "networks" (layers of known networks and some odd shapes, both memory orders), "kernels" (windows from 3 to 49 at
stride 1), "memory" (large inputs, beside the best parallel copy on this machine). Each peer lives in a process of its
own, because thread pools of two libraries in one process spin against each other. On each case they take turns, several
rounds; a round yields the median of its calls, and the median of the rounds counts. Results are checked against the
first peer's: a peer that computes something else is left out of the case and named. Peers: PyTorch (plain, channels
last, oneDNN), TensorFlow, LiteRT, JAX, ONNX Runtime, OpenVINO and three ways of plain NumPy; those that are not
installed are named and left out. Run it on an idle machine.
"""

import argparse
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from peers import PEERS, Case, Unsupported

HERE = Path(__file__).resolve().parent

#: name: (shape, kernel, stride, padding)
NETWORKS = {
    "lenet1": ((64, 8, 24, 24), 2, 2, 0),
    "lenet2": ((64, 16, 8, 8), 2, 2, 0),
    "alexnet1": ((32, 64, 55, 55), 3, 2, 0),
    "alexnet5": ((32, 256, 13, 13), 3, 2, 0),
    "vgg1": ((8, 64, 224, 224), 2, 2, 0),
    "vgg5": ((8, 512, 14, 14), 2, 2, 0),
    "resnet stem": ((32, 64, 112, 112), 3, 2, 1),
    "inception": ((16, 192, 28, 28), 3, 1, 1),
    "sppf 5x5": ((8, 256, 20, 20), 5, 1, 2),
    "spp 13x13": ((8, 256, 20, 20), 13, 1, 6),
    "image 8k": ((1, 1, 8192, 8192), 2, 2, 0),
    "frame 4k": ((1, 3, 2160, 3840), 3, 2, 1),
    "one image": ((1, 32, 61, 67), 3, 2, 1),
    "stride 3": ((8, 48, 95, 95), 3, 3, 0),
    "kernel 4": ((8, 64, 57, 57), 4, 2, 1),
    "1x7": ((8, 128, 17, 17), (1, 7), 1, 0),
    "tiny": ((1, 1, 8, 8), 2, 2, 0),
}
#: large windows at stride 1
KERNELS = {f"{k}x{k}": ((8, 16, 64, 64), k, 1, k // 2) for k in (3, 5, 9, 13, 25, 49)}
#: what is read and written exceeds the caches
MEMORY = {
    "2x2/2": ((16, 64, 224, 224), 2, 2, 0),
    "3x3/2": ((16, 64, 224, 224), 3, 2, 1),
    "global": ((16, 64, 224, 224), 224, 224, 0),
}
#: part: (cases, operations, layouts, peers or None for all)
PARTS = {
    "networks": (NETWORKS, ("argmax", "max", "avg"), ("nchw", "nhwc"), None),
    "kernels": (KERNELS, ("max",), ("nchw",), None),
    "memory": (MEMORY, ("max", "argmax", "avg", "global_avg"), ("nchw",), ("ours", "torch", "torch_onednn")),
}


def pair(value) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def cases_of(part: str, threads: int):
    """(name, Case) of one part."""
    shapes, operations, layouts, _ = PARTS[part]
    for operation in operations:
        for layout in layouts:
            for name, (shape, kernel, stride, padding) in shapes.items():
                if part == "memory" and (operation == "global_avg") != (name == "global"):
                    continue
                yield name, Case(operation, layout, shape, pair(kernel), pair(stride), padding, threads)


# ---- one peer, in its own process
def serve(connection, name: str, threads: int) -> None:
    """Answer requests until told to stop: ("case", Case), ("time", "forward" or "backward", seconds), ("copy",)."""
    if threads < (os.cpu_count() or 1) and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])  # JAX knows no other limit
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what the libraries log; failures are answered
    calls = None
    while (request := connection.recv()) is not None:
        try:
            if request[0] == "case":
                calls = None  # the arrays of the last case go before the new ones come
                calls = PEERS[name].prepare(request[1])
                answer = {"forward": excerpt(calls.values(calls.forward()))}
                if calls.backward:
                    answer["backward"] = excerpt(calls.values(calls.backward()))
            elif request[0] == "time":
                answer = median_seconds(getattr(calls, request[1]), request[2])
            else:
                import best_copy

                answer = best_copy.bytes_per_second(threads)
        except Unsupported as reason:
            answer = f"unsupported: {reason}"
        except Exception as error:
            answer = f"failed: {error!r}"[:300]
        connection.send(answer)


def excerpt(values: np.ndarray) -> np.ndarray:
    """Up to 500 elements at places that depend on the shape alone."""
    places = np.unique(np.linspace(0, values.size - 1, 500).astype(np.int64))
    return np.asarray(values[np.unravel_index(places, values.shape)], np.float64)


def agree(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Equal but for rounding; two in a hundred may differ, where equal maxima were resolved in another way."""
    return ours.shape == theirs.shape and np.isclose(ours, theirs, rtol=1e-3, atol=1e-5).mean() >= 0.98


def median_seconds(call, seconds: float) -> float:
    """The median time of a call, of as many calls as fit into ``seconds``, but at least one."""
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    if once > 2 * seconds:
        return once
    times = []
    for _ in range(max(1, min(2000, int(seconds / max(once, 1e-7))))):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


class Process:
    """The handle of one peer's process."""

    def __init__(self, name: str, threads: int):
        context = multiprocessing.get_context("spawn")
        self.name, self.threads = name, threads
        self.connection, child = context.Pipe()
        self.process = context.Process(target=serve, args=(child, name, threads), daemon=True)
        self.process.start()
        child.close()

    def ask(self, *request):
        """The answer; a string says what is wrong. A dead process is replaced by a new one."""
        try:
            self.connection.send(request)
            return self.connection.recv()
        except (EOFError, OSError):
            self.stop()
            self.__init__(self.name, self.threads)
            return "failed: the process died"

    def stop(self):
        with contextlib.suppress(OSError):
            self.connection.send(None)
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
        self.connection.close()


# ---- all of them, by turns
def compare(name: str, case: Case, processes: dict[str, Process], rounds: int, seconds: float) -> dict:
    """One row of the results: median seconds per peer and direction, and why peers were left out."""
    row = {
        "case": name,
        "operation": case.operation,
        "layout": case.layout,
        "shape": case.shape,
        "kernel": case.kernel,
        "stride": case.stride,
        "padding": case.padding,
        "forward": {},
        "backward": {},
        "left_out": {},
    }
    reference = {}
    able = {}
    for peer, process in processes.items():
        answer = process.ask("case", case)
        if isinstance(answer, str):
            row["left_out"][peer] = answer
            continue
        reference = reference or answer
        wrong = [d for d, values in answer.items() if d in reference and not agree(reference[d], values)]
        if wrong:
            row["left_out"][peer] = f"failed: other values than {next(iter(able))}: {' and '.join(wrong)}"
            continue
        able[peer] = list(answer)
    for direction in ("forward", "backward"):
        times = {peer: [] for peer in able}
        for _ in range(rounds):
            for peer, directions in able.items():
                if direction not in directions or peer in row["left_out"]:
                    continue
                answer = processes[peer].ask("time", direction, seconds)
                if isinstance(answer, str):
                    row["left_out"][peer] = answer
                else:
                    times[peer].append(answer)
                time.sleep(0.02)  # its threads stop spinning before the next one starts
        row[direction] = {peer: statistics.median(rounds_of) for peer, rounds_of in times.items() if rounds_of}
    return row


def measure(options, peers: list[str]) -> list[dict]:
    """The rows of the chosen cases."""
    rows = []
    processes = {name: Process(name, options.threads) for name in peers}
    try:
        for part in options.parts:
            names = PARTS[part][3] or peers
            chosen = {name: process for name, process in processes.items() if name in names}
            for name, case in cases_of(part, options.threads):
                if name in options.cases and case.operation in options.operations and case.layout in options.layouts:
                    # What memory gives to two cores of many changes by half from one minute to the next.
                    before = processes["ours"].ask("copy") if part == "memory" else {}
                    row = compare(name, case, chosen, options.rounds, options.seconds)
                    if part == "memory":
                        after = processes["ours"].ask("copy")
                        row["copy_bytes_per_second"] = {way: max(rate, after[way]) for way, rate in before.items()}
                    rows.append({"part": part, "date": time.strftime("%Y-%m-%d")} | row)
                    print(part, summary(row), flush=True)
    finally:
        for process in processes.values():
            process.stop()
    return rows


def merged(old: dict | None, new: dict) -> dict:
    """New results, and old rows that were not measured again if machine, versions and sources are the same."""
    if old is None or any(old[key] != new[key] for key in ("machine", "versions", "sources")):
        return new

    def key(row):
        return row["part"], row["operation"], row["layout"], row["case"]

    rows = {key(row): row for row in old["rows"]} | {key(row): row for row in new["rows"]}
    return new | {"rows": list(rows.values())}


def summary(row: dict) -> str:
    """One line for the terminal."""
    parts = [f"{row['case']} {row['operation']} {row['layout']}:"]
    for direction in ("forward", "backward"):
        times = row[direction]
        if times:
            parts.append(direction)
            parts += [f"{peer} {seconds * 1e6:.0f}" for peer, seconds in times.items()]
    parts += [f"[{peer} {why}]" for peer, why in row["left_out"].items() if why.startswith("failed")]
    return " ".join(parts)


def machine(threads: int) -> dict:
    """What the numbers were measured on."""
    import numba_pool  # not in the processes of others, which import this file

    return {
        "cpu": numba_pool.show_config("dicts")["vectors"]["model"],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Module -> version, of ours, what it stands on, and all the peers that are installed."""
    found = {}
    distributions = importlib.metadata.packages_distributions()
    for module in dict.fromkeys(["numba_pool", "numba", *(peer.module for peer in PEERS.values())]):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[module] = importlib.metadata.version(distributions.get(module, [module])[0])
    return found


def sources() -> str:
    """A digest of numba_pool's source files: two commits with the same version are told apart."""
    root = Path(importlib.util.find_spec("numba_pool").origin).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def installed(wanted: list[str]) -> list[str]:
    there = [name for name in wanted if importlib.util.find_spec(PEERS[name].module)]
    missing = [name for name in wanted if name not in there]
    if missing:
        print("not installed, left out:", ", ".join(missing))
    return there


def parse(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare numba_pool with its peers on this machine.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="(default: all)")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="(default: all installed)")
    cases = [name for shapes, *_ in PARTS.values() for name in shapes]
    operations = ["argmax", "max", "avg", "global_avg"]
    parser.add_argument("--cases", nargs="+", choices=cases, default=cases, help="(default: all)")
    parser.add_argument("--operations", nargs="+", choices=operations, default=operations, help="(default: all)")
    parser.add_argument(
        "--layouts", nargs="+", choices=["nchw", "nhwc"], default=["nchw", "nhwc"], help="(default: all)"
    )
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each peer on a case (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.15, help="length of a turn (default: %(default)s)")
    parser.add_argument("--json", type=Path, default=HERE / "peers.json", help="(default: %(default)s)")
    parser.add_argument("--plots", type=Path, default=HERE / "plots", help="(default: %(default)s)")
    parser.add_argument("--pages", type=Path, nargs="+", default=[], help="those whose tables are to be written again")
    parser.add_argument("--draw", action="store_true", help="measure nothing, draw and write from the JSON")
    return parser.parse_args(arguments)


def main(arguments=None) -> int:
    options = parse(arguments)
    failed = []
    import matplotlib  # noqa: F401 - missing now, rather than after all has been measured

    if not options.draw:
        peers = installed(list(dict.fromkeys(["ours", *options.peers])))
        results = {
            "machine": machine(options.threads),
            "versions": versions(),
            "sources": sources(),
            "rows": measure(options, peers),
        }
        failed = [row for row in results["rows"] if "ours" in row["left_out"]]
        old = json.loads(options.json.read_text()) if options.json.exists() else None
        options.json.write_text(json.dumps(merged(old, results), indent=1) + "\n")
    from peers_report import draw, write_tables

    results = json.loads(options.json.read_text())
    for path in draw(results, options.plots):
        print("wrote", path)
    for page in options.pages:
        write_tables(results, page, options.plots)
        print("wrote", page)
    for row in failed:
        print(f"numba_pool itself failed on {row['case']}: {row['left_out']['ours']}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
