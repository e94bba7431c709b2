"""Time `numba_pool.jax` against XLA's own pooling and against `jax.pure_callback`, and print a Markdown table.

    python asv_benchmarks/compare_jax.py [case ...]

One jitted function returns the maximum and the gradient for an upstream one; the three take turns, and the median of
each counts. `pure_callback` is what a bridge would be without `buffer_callback`: it copies what goes in and out.
"""

import argparse
import platform
import statistics
import time

import jax
import jax.numpy as jnp
import numba
import numpy as np

import numba_pool
import numba_pool.jax as pool

CASES = {  # shape (N, C, H, W), kernel, stride, padding
    "tiny": ((1, 1, 8, 8), 2, 2, 0),
    "lenet2": ((64, 16, 8, 8), 2, 2, 0),
    "lenet1": ((64, 8, 24, 24), 2, 2, 0),
    "vgg5": ((8, 512, 14, 14), 2, 2, 0),
    "alexnet5": ((32, 256, 13, 13), 3, 2, 0),
    "sppf5": ((8, 256, 20, 20), 5, 1, 2),
    "inception": ((16, 192, 28, 28), 3, 1, 1),
    "spp13": ((8, 256, 20, 20), 13, 1, 6),
    "alexnet1": ((32, 64, 55, 55), 3, 2, 0),
    "vgg1": ((8, 64, 224, 224), 2, 2, 0),
    "resnet_stem": ((32, 64, 112, 112), 3, 2, 1),
}


def placed(values, last):
    """One entry per axis, of (N, C, H, W) or of (N, H, W, C)."""
    return (values[0], *values[2:], values[1]) if last else values


def xla(k, s, p, last, average):
    window, stride = placed((1, 1, k, k), last), placed((1, 1, s, s), last)
    padding = placed(((0, 0), (0, 0), (p, p), (p, p)), last)
    if average:
        return lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, window, stride, padding) / k**2
    return lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, stride, padding)


def ours(k, s, p, last, average):
    function = pool.avg_pool2d if average else pool.max_pool2d
    return lambda x: function(x, k, s, p, channel_axis=-1 if last else None)


def by_pure_callback(k, s, p, last, average):
    """The step itself, of maxima in (N, C, H, W)."""
    def forward(x):
        return numba_pool.max_pool2d(np.asarray(x), k, s, p, return_indices=True)

    def backward(g, indices, x):
        return numba_pool.max_pool2d_backward(np.asarray(g), np.asarray(indices), x.shape)

    def step(x, g):
        like = [jax.ShapeDtypeStruct(g.shape, t) for t in (x.dtype, jnp.int32)]
        y, indices = jax.pure_callback(forward, like, x)
        return y, jax.pure_callback(backward, jax.ShapeDtypeStruct(x.shape, x.dtype), g, indices, x)

    return step


def step_of(function):
    def step(x, g):
        y, back = jax.vjp(function, x)
        return y, back(g)[0]

    return step


def medians(functions, x, g, budget=0.6, rounds=3):
    """Milliseconds of each, the least of the rounds' medians."""
    steps, best = [jax.jit(f) for f in functions], [np.inf] * len(functions)
    for f in steps:
        jax.block_until_ready(f(x, g))
    for _ in range(rounds):
        for i, f in enumerate(steps):
            times = []
            while len(times) < 3 or (sum(times) < budget / rounds and len(times) < 1000):
                start = time.perf_counter()
                jax.block_until_ready(f(x, g))
                times.append(time.perf_counter() - start)
            best[i] = min(best[i], 1e3 * statistics.median(times))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--last", action="store_true", help="channels last")
    parser.add_argument("--average", action="store_true")
    args = parser.parse_args()
    print(f"{platform.machine()}, {numba.get_num_threads()} threads, jax {jax.__version__}, numba {numba.__version__}")
    print("\n| case | MiB | XLA, ms | pure_callback, ms | numba_pool.jax, ms | XLA / ours |\n|---|---|---|---|---|---|")
    for name in args.cases:
        shape, k, s, p = CASES[name]
        x = jax.random.normal(jax.random.key(0), placed(shape, args.last))
        setting = k, s, p, args.last, args.average
        steps = [step_of(f(*setting)) for f in (xla, ours)]
        if not (args.last or args.average):
            steps.insert(1, by_pure_callback(*setting))
        g = jax.random.normal(jax.random.key(1), ours(*setting)(x).shape)
        times = medians(steps, x, g)
        shown = [f"{t:.2f}" for t in times]
        if len(shown) == 2:
            shown.insert(1, "")
        print(f"| {name} | {x.nbytes / 2**20:.2f} | {' | '.join(shown)} | {times[0] / times[-1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
