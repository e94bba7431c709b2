"""From which traffic on threads pay: every kind of kernel, serial against parallel, on growing inputs.

    python asv_benchmarks/serial_threshold.py [--pause MILLISECONDS]

The numbers beside `SERIAL_BYTES` in numba_pool/_runtime.py come from here. With a pause this process does other work
before each call, as most programs do: then Numba's threads sleep, and the processor's caches hold other data.
"""

import argparse
import time

import numba
import numpy as np

import numba_pool as nb
from numba_pool import _runtime

LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def operations(x):
    """Calls that run one kernel each on x."""
    y, index = nb.max_pool2d(x, 2, return_indices=True)
    return {
        "max 2x2/2": lambda: nb.max_pool2d(x, 2),
        "max 2x2/2 indices": lambda: nb.max_pool2d(x, 2, return_indices=True),
        "max 3x3/1": lambda: nb.max_pool2d(x, 3, 1, 1),
        "max 13x13/1": lambda: nb.max_pool2d(x, 13, 1, 6),
        "max adaptive": lambda: nb.adaptive_max_pool2d(x, 5),
        "max backward": lambda: nb.max_pool2d_backward(y, index, x.shape),
        "avg 2x2/2": lambda: nb.avg_pool2d(x, 2),
        "avg 3x3/1": lambda: nb.avg_pool2d(x, 3, 1, 1),
        "avg backward": lambda: nb.avg_pool2d_backward(y, x.shape, 2),
        "lp 2x2/2": lambda: nb.lp_pool2d(x, 2, 2),
        "gather": lambda: nb.max_unpool2d_backward(x, index),
    }


def best(call, limit, pause):
    """Microseconds of the median of many calls, with the threshold at `limit` and other work before each."""
    before, _runtime.SERIAL_BYTES = _runtime.SERIAL_BYTES, limit
    try:
        for _ in range(3):
            call()
        times = []
        for _ in range(200 if pause == 0 else 40):
            end = time.perf_counter() + pause / 1000
            while time.perf_counter() < end:
                pass
            start = time.perf_counter_ns()
            call()
            times.append((time.perf_counter_ns() - start) / 1000)
        return float(np.median(times))
    finally:
        _runtime.SERIAL_BYTES = before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pause", type=float, default=0, help="milliseconds of other work before each call")
    pause = parser.parse_args().pause
    inputs = [np.random.default_rng(0).standard_normal((1, 4, n, n)).astype(np.float32) for n in LENGTHS]
    print(f"{nb.get_num_threads()} threads, layer {numba.threading_layer()}; serial/parallel in us, pause {pause} ms")
    print(f"{'KiB of input':20}", *(f"{x.nbytes / 1024:>11.1f}" for x in inputs))
    for name in operations(inputs[0]):
        calls = [operations(x)[name] for x in inputs]
        times = [(best(call, 1 << 60, pause), best(call, 0, pause)) for call in calls]
        print(f"{name:20}", *(f"{serial:5.0f}/{parallel:<5.0f}" for serial, parallel in times), flush=True)


if __name__ == "__main__":
    main()
