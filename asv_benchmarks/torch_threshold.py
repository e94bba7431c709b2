"""From which size on the core is faster than torch, behind the binding: poolings of networks on growing images.

    python asv_benchmarks/torch_threshold.py [--threads 1 2] [--rounds 100]

The numbers in numba_pool/torch/_small.py come from here. The binding sends each call to torch and to the core by turns.
Before each a layer of a network runs, so that caches hold what they hold in a network: back to back, calls from Python
take a third of that time. A number in a table is torch's time over the core's, of the medians, and the last column is
the geometric mean of its row. A size is the number of elements that all windows hold together.
"""

import argparse
import time
from statistics import geometric_mean, median

import torch

import numba_pool.torch as binding
from numba_pool.torch import _small

SIZES = [1 << n for n in range(10, 22)]
TORCH, CORE = ((1 << 62, 1 << 62),) * 2, ((0, 0),) * 2  # below which size torch computes: always, and never
CALLS = {  # the function, its arguments, and how many windows hold an element
    "max 2x2/2": ("max_pool2d", (2,), 1),
    "max 3x3/2": ("max_pool2d", (3, 2, 1), 2.25),
    "max 3x3/1": ("max_pool2d", (3, 1, 1), 9),
    "avg 2x2/2": ("avg_pool2d", (2,), 1),
    "avg 3x3/2": ("avg_pool2d", (3, 2, 1), 2.25),
    "global avg": ("adaptive_avg_pool2d", (1,), 1),
}
FORMATS = {"plain": torch.contiguous_format, "channels last": torch.channels_last}


def infer(function, x, arguments):
    with torch.no_grad():
        return function(x, *arguments)


def train(function, x, arguments):
    y = function(x, *arguments)
    return torch.autograd.grad(y, x, y.detach())


WAYS = {"inference": infer, "training": train}


def image(elements, memory_format):
    """A square image of about so many elements, with as many channels as a network has for its size."""
    side = max(4, 2 * round((elements / 64) ** 0.5 / 2)) if elements < 1 << 16 else 32
    return torch.randn(1, max(2, round(elements / side**2)), side, side).contiguous(memory_format=memory_format)


LAYER, BATCH = torch.nn.Sequential(torch.nn.Conv2d(16, 16, 3), torch.nn.ReLU()), torch.randn(1, 16, 64, 64)


def timed(way, function, x, arguments):
    infer(LAYER, BATCH, ())
    start = time.perf_counter_ns()
    way(function, x, arguments)
    return time.perf_counter_ns() - start


def ratio(way, x, name, arguments, rounds):
    """Torch's time over the core's."""
    function, times = getattr(binding, name), ([], [])
    for _ in range(rounds):
        for _small.SIZES, taken in zip((TORCH, CORE), times):
            taken.append(timed(way, function, x, arguments))
    own, ours = map(median, times)
    return own / ours


def table(mode, layout, sizes, rounds):
    """Print a row for each size, and from which on the core is faster."""
    print(f"\n{mode}, {layout}, threads: {torch.get_num_threads()}")
    print(f"{'size':>10}", *(f"{name:>10}" for name in CALLS))
    faster = None
    for size in sizes:
        row = []
        for name, arguments, held in CALLS.values():
            x = image(size / held, FORMATS[layout]).requires_grad_(mode == "training")
            row.append(ratio(WAYS[mode], x, name, arguments, rounds))
        mean = geometric_mean(row)
        faster = None if mean < 1 else faster or size
        print(f"{size:10}", *(f"{r:10.2f}" for r in row), f"{mean:10.2f}", flush=True)
    print("the core is faster from", faster)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, torch.get_num_threads()}))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--smallest", action="store_true", help="one size, to see that it runs")
    options = parser.parse_args(argv)
    before = _small.SIZES
    try:
        for threads in options.threads:
            torch.set_num_threads(threads)
            for layout in FORMATS:
                for mode in WAYS:
                    table(mode, layout, SIZES[:1] if options.smallest else SIZES, options.rounds)
    finally:
        _small.SIZES = before


if __name__ == "__main__":
    main()
