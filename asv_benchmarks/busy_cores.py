"""What threads cost where other programs keep cores busy: a training step of max pooling, threads against one thread.

    python asv_benchmarks/busy_cores.py [--burners 0 1 2] [--pauses 0 5] [--seconds 1] [--rounds 3] [--before CHECKOUT]

A burner is a process that counts without an end. Each way of running threads has a process of its own; they take turns.
Printed are mean times of forward with indices and backward, in microseconds, and as a multiple of one thread's beside
the same burners. In a pause of that many milliseconds between two steps the process does other work, by default of
Python; with --blas it multiplies matrices, whose threads spin afterwards. A table in numba_pool/_threads.py and the
documentation's figures come from here.
"""

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import time

SHAPES = {
    "2x2/2 of 4x64x55x55": ((4, 64, 55, 55), 2, 2),
    "2x2/2 of 64x8x24x24": ((64, 8, 24, 24), 2, 2),
    "3x3/2 of 32x64x55x55": ((32, 64, 55, 55), 3, 2),
    "2x2/2 of 8x64x224x224": ((8, 64, 224, 224), 2, 2),
}
WAYS = {
    "serial": {"NUMBA_POOL_SERIAL": "1"},
    "default": {},
    "omp, long spins": {"NUMBA_THREADING_LAYER": "omp", "GOMP_SPINCOUNT": "300000"},  # GNU's own default
    "omp, asleep": {"NUMBA_THREADING_LAYER": "omp", "OMP_WAIT_POLICY": "passive"},
    "tbb": {"NUMBA_THREADING_LAYER": "tbb", "LD_LIBRARY_PATH": f"{sys.prefix}/lib"},  # where its wheel lays it
    "workqueue": {"NUMBA_THREADING_LAYER": "workqueue"},
}


def other_work(milliseconds, blas):
    """Work for that long between two calls."""
    import numpy as np

    a = np.ones((400, 400), np.float32)
    end = time.perf_counter() + milliseconds / 1000
    while time.perf_counter() < end:
        if blas:
            a @ a


def work(pipe, blas, package):
    """Time what the pipe asks for, until it asks for nothing, with the package in that folder, if one is named."""
    if package:
        sys.path.insert(0, package)
    import numpy as np

    import numba_pool as nb

    def step(x, gradient, kernel, stride):
        _, indices = nb.max_pool2d(x, kernel, stride, return_indices=True)
        nb.max_pool2d_backward(gradient, indices, x.shape)

    while request := pipe.recv():
        (shape, kernel, stride), pause, seconds = request
        x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        gradient = np.ones_like(nb.max_pool2d(x, kernel, stride))
        for _ in range(3):
            step(x, gradient, kernel, stride)
        times, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end:
            other_work(pause, blas)
            start = time.perf_counter()
            step(x, gradient, kernel, stride)
            times.append(time.perf_counter() - start)
        pipe.send(statistics.fmean(times) * 1e6)


def start(variables, blas, package=None):
    """A process that times, with other variables in its environment, and the pipe to it."""
    ours, theirs = multiprocessing.Pipe()
    before = dict(os.environ)
    os.environ.update(variables)
    process = multiprocessing.get_context("spawn").Process(target=work, args=(theirs, blas, package), daemon=True)
    process.start()
    os.environ.clear()
    os.environ.update(before)
    return ours


def measure(pipes, case, rounds):
    """Microseconds of each way: the median of rounds in which all take turns."""
    times = {way: [] for way in pipes}
    for _ in range(rounds):
        for way, pipe in pipes.items():
            pipe.send(case)
            times[way].append(pipe.recv())
    return {way: statistics.median(values) for way, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--burners", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--pauses", type=float, nargs="*", default=[0])
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--before", help="a folder with another version of numba_pool, timed by turns with this one")
    parser.add_argument("--blas", action="store_true")
    options = parser.parse_args()

    pipes = {way: start(WAYS[way], options.blas) for way in options.ways}
    if options.before:
        pipes["before"] = start({}, options.blas, options.before)
    print(f"{'burners':8} {'pause':6} {'step':22}", *(f"{way:>20}" for way in pipes))
    for burners in options.burners:
        processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(burners)]
        try:
            time.sleep(0.3)
            for pause in options.pauses:
                for name in options.shapes:
                    times = measure(pipes, (SHAPES[name], pause, options.seconds), options.rounds)
                    alone = times.get("serial", float("nan"))
                    print(f"{burners:<8} {pause:<6g} {name:22}",
                          *(f"{t:12.0f} ({t / alone:5.2f})" for t in times.values()), flush=True)
        finally:
            for process in processes:
                process.kill()
    for pipe in pipes.values():
        pipe.send(None)


if __name__ == "__main__":
    main()
