"""Time segments of rows against PyTorch, NumPy and ten lines of Numba, and print the table of docs/ragged.md.

    python asv_benchmarks/compare_segments.py [--threads 1] [case ...]

A step is the forward and the gradient; ours of a maximum returns its indices. The ways take turns, and the least of
their medians counts. All columns but the first two times say how many times as long the others take.
"""

import argparse
import datetime
import statistics
import time

import numba
import numpy as np
import torch
from compare_peers import machine

import numba_pool as P

CASES = {  # segments, rows of one on average, channels
    "graphs": (128, 23, (64,)),
    "sentences": (64, 120, (384,)),
    "voxels": (20_000, 8, (64,)),
    "signals": (10_000, 400, ()),
}


@numba.njit
def ten_lines(x, offsets, mean):
    y = np.zeros((len(offsets) - 1, x.shape[1]), x.dtype)
    for s in range(len(y)):
        first, last = offsets[s], offsets[s + 1]
        y[s] = 0 if mean else -np.inf
        for row in range(first, last):
            for c in range(x.shape[1]):
                y[s, c] = y[s, c] + x[row, c] if mean else max(y[s, c], x[row, c])
        if mean:
            y[s] /= max(last - first, 1)
    return y


def with_gradient(pool, x, g):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(pool(x), x, g)


def ways(name, mean):
    """Two dicts of functions: whole steps, and forwards alone."""
    count, rows, channels = CASES[name]
    rng = np.random.default_rng(0)
    lengths = rng.integers(rows // 2, rows + rows // 2 + 1, count)
    offsets = P.segment_offsets(lengths=lengths)
    x = rng.standard_normal((offsets[-1], *channels), dtype=np.float32)
    g = rng.standard_normal((count, *channels), dtype=np.float32)
    tx, tg, tl = torch.from_numpy(x), torch.from_numpy(g), torch.from_numpy(lengths)
    ids = torch.repeat_interleave(tl)
    index = ids.reshape(-1, *(1,) * len(channels)).expand(tx.shape).contiguous()
    two_axes = x.reshape(len(x), -1)

    def ours():
        if mean:
            P.segment_avg_pool(x, offsets)
            return P.segment_avg_pool_backward(g, offsets, x.shape)
        _, indices = P.segment_max_pool(x, offsets, return_indices=True)
        return P.segment_max_pool_backward(g, indices, x.shape)

    def scatter_reduce(t):
        reduction = "mean" if mean else "amax"
        return torch.zeros_like(tg).scatter_reduce(0, index, t, reduction, include_self=False)

    def segment_reduce(t):
        return torch.segment_reduce(t, "mean" if mean else "max", lengths=tl)

    steps = {"ours": ours, "segment_reduce": lambda: with_gradient(segment_reduce, tx, tg),
             "scatter_reduce": lambda: with_gradient(scatter_reduce, tx, tg)}
    forwards = {
        "ours": lambda: (P.segment_avg_pool if mean else P.segment_max_pool)(x, offsets),
        "torch": (lambda: torch.zeros_like(tg).index_add_(0, ids, tx)) if mean else (lambda: scatter_reduce(tx)),
        "reduceat": lambda: (np.add if mean else np.maximum).reduceat(x, offsets[:-1]),
        "ten lines": lambda: ten_lines(two_axes, offsets, mean),
    }
    return steps, forwards


def medians(functions, budget, rounds=5):
    """Milliseconds of each, the least of the rounds' medians."""
    best = dict.fromkeys(functions, np.inf)
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            times = []
            while len(times) < 3 or (sum(times) < budget / rounds and len(times) < 1000):
                start = time.perf_counter()
                function()
                times.append(time.perf_counter() - start)
            best[name] = min(best[name], 1e3 * statistics.median(times))
    return best


def row(name, mean, budget):
    step, forward = (medians(functions, budget) for functions in ways(name, mean))
    return (name, "mean" if mean else "max", f"{step['ours']:.3f}", f"{forward['ours']:.3f}",
            *(f"{step[way] / step['ours']:.1f}" for way in ("segment_reduce", "scatter_reduce")),
            *(f"{forward[way] / forward['ours']:.2f}" for way in ("torch", "reduceat", "ten lines")))


HEAD = ("case", "reduction", "step, ms", "forward, ms", "step: `segment_reduce`", "step: `scatter_reduce`",
        "forward: `index_add` of sums, `scatter_reduce` of maxima", "forward: `reduceat` of sums, of maxima",
        "forward: ten lines of Numba")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=0.5, help="seconds for each number")
    args = parser.parse_args()
    P.set_num_threads(args.threads)
    torch.set_num_threads(args.threads)
    print(f"Float32, {machine(args.threads)['cpu']}, threads: {args.threads}, torch {torch.__version__}, "
          f"numba {numba.__version__}, {datetime.date.today()}.\n")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for name in args.cases:
        for mean in (False, True):
            print(f"| {' | '.join(row(name, mean, args.budget))} |", flush=True)


if __name__ == "__main__":
    main()
