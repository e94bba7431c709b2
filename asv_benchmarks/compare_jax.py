"""Time `numba_pool.jax` against XLA's own pooling, and print the table of docs/jax.md.

    python asv_benchmarks/compare_jax.py [case ...]

A step is one jitted function that returns the pooled array and the gradient for a given one. The ways take turns, and
the least of their medians counts. `pure_callback` is what a bridge would be without `buffer_callback`: it copies what
goes in and out. The last column is the same two calls in NumPy, without JAX.
"""

import argparse
import datetime
import statistics
import time

import jax
import jax.numpy as jnp
import numba
import numpy as np
from compare_peers import machine

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


def in_numpy(k, s, p, last, average):
    """The two calls of a maximum's step, on arrays of NumPy."""
    axis = -1 if last else None

    def step(x, g):
        y, indices = numba_pool.max_pool2d(x, k, s, p, return_indices=True, channel_axis=axis)
        return y, numba_pool.max_pool2d_backward(g, indices, x.shape, channel_axis=axis)

    return step


def medians(steps, x, g, budget=0.6, rounds=3):
    """Milliseconds of each, the least of the rounds' medians."""
    best = [np.inf] * len(steps)
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


def measured(name, last):
    """A row of the table."""
    shape, k, s, p = CASES[name]
    x = jax.random.normal(jax.random.key(0), placed(shape, last))
    maximum, average = (k, s, p, last, False), (k, s, p, last, True)
    g = jax.random.normal(jax.random.key(1), ours(*maximum)(x).shape)
    steps = [jax.jit(step_of(f(*maximum))) for f in (xla, ours)]
    if not last:
        steps.append(jax.jit(by_pure_callback(*maximum)))
    theirs, own, *callback = medians(steps, x, g)
    theirs_average, own_average = medians([jax.jit(step_of(f(*average))) for f in (xla, ours)], x, g)
    (alone,) = medians([in_numpy(*maximum)], np.asarray(x), np.asarray(g))
    copied = f"{callback[0]:.2f}" if callback else ""
    size = "x".join(map(str, x.shape))
    return (name, size, f"{k}x{k}/{s}", f"{theirs:.2f}", f"{own:.2f}", f"{theirs / own:.1f}",
            f"{theirs_average / own_average:.1f}", copied, f"{alone:.2f}")


HEAD = ("case", "batch", "window", "XLA, ms", "numba_pool.jax, ms", "times as fast", "averages, times as fast",
        "`pure_callback`, ms", "in NumPy, ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--last", action="store_true", help="channels last")
    args = parser.parse_args()
    threads = numba.get_num_threads()
    print(f"Float32, channels {'last' if args.last else 'first'}, {machine(threads)['cpu']}, {threads} threads, "
          f"jax {jax.__version__}, numba {numba.__version__}, {datetime.date.today()}.\n")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for name in args.cases:
        print(f"| {' | '.join(measured(name, args.last))} |", flush=True)


if __name__ == "__main__":
    main()
