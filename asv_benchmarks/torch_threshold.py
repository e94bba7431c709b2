"""From which size on the core is faster than torch, behind the binding: poolings of networks on growing images.

    python asv_benchmarks/torch_threshold.py [--threads 1 2] [--rounds 100]

The numbers in numba_pool/torch/_small.py come from here. The binding sends each call to torch and to the core by turns.
Before each a layer of a network runs, so that caches hold what they hold in a network: back to back, calls from Python
take a third of that time. A number in a table is torch's time over the core's, of the medians. A size is the number of
elements that all windows hold together. Below the table stands for each kind from which size on none of it is slower.
"""

import argparse
import time
from statistics import median

import torch

import numba_pool.torch as binding
from numba_pool.torch import _small

SIZES = [1 << n for n in range(12, 24)]
CALLS = {  # by kind: the function, its arguments, and how many windows hold an element
    "maxima": {"2x2/2": ("max_pool2d", (2,), 1), "3x3/2": ("max_pool2d", (3, 2, 1), 2.25),
               "3x3/1": ("max_pool2d", (3, 1, 1), 9)},
    "averages": {"2x2/2": ("avg_pool2d", (2,), 1), "3x3/2": ("avg_pool2d", (3, 2, 1), 2.25),
                 "3x3/1": ("avg_pool2d", (3, 1, 1), 9)},
    "adaptive averages": {"to 8": ("adaptive_avg_pool2d", (8,), 1)},
    "global averages": {"to 1": ("adaptive_avg_pool2d", (1,), 1)},
}  # fmt: skip
TORCH, CORE = (dict.fromkeys(CALLS, ((least, least),) * 2) for least in (_small.NEVER, 0))  # always, and never
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
    """Print a row for each size, and for each kind from which size on the core is faster."""
    print(f"\n{mode}, {layout}, threads: {torch.get_num_threads()}")
    print(f"{'size':>10}", *(f"{kind[:5] + ' ' + name:>12}" for kind, calls in CALLS.items() for name in calls))
    faster = dict.fromkeys(CALLS)
    for size in sizes:
        row = []
        for kind, calls in CALLS.items():
            ratios = []
            for name, arguments, held in calls.values():
                x = image(size / held, FORMATS[layout]).requires_grad_(mode == "training")
                ratios.append(ratio(WAYS[mode], x, name, arguments, rounds))
            faster[kind] = None if min(ratios) < 1 else faster[kind] or size
            row += ratios
        print(f"{size:10}", *(f"{r:12.2f}" for r in row), flush=True)
    print("the core is faster from", ", ".join(f"{kind}: {size}" for kind, size in faster.items()))


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
