"""Pooling layers in JAX
=====================

Pooling layers in JAX: a layer is a partial application of a function of `numba_pool.jax`.

    python examples/jax_layers.py

Trains a small network on handwritten digits, in JAX alone, with images channels last as JAX code has them. Then the
same training step is timed with the pooling of XLA, `jax.lax.reduce_window`. Needs jax and scikit-learn.
docs/jax.md shows the same layers in flax and equinox.
"""

import argparse
import time
from functools import partial
from itertools import pairwise

import data
import jax
import jax.numpy as jnp
import numpy as np

import numba_pool.jax as pool

# Layers without weights are functions of an array. They are made once, so that their arguments stay the same objects.
max_pool = partial(pool.max_pool2d, kernel_size=2, channel_axis=-1)
head = partial(pool.global_avg_pool, channel_axis=-1)


def max_pool_of_xla(x):
    """The same maximum without numba_pool."""
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def head_of_xla(x):
    return jnp.mean(x, axis=(1, 2), keepdims=True)


def initial_weights(key, widths=(1, 16, 64)):
    keys = jax.random.split(key, len(widths))
    shapes = [(3, 3, a, b) for a, b in pairwise(widths)]
    weights = [jax.random.normal(k, s) * np.sqrt(2 / (9 * s[2])) for k, s in zip(keys, shapes)]
    return [*weights, jax.random.normal(keys[-1], (widths[-1], 10)) * np.sqrt(1 / widths[-1])]


def predict(weights, images, max_pool=max_pool, head=head):
    """Scores of the ten digits, for images (N, H, W, 1)."""
    x = images
    for i, w in enumerate(weights[:-1]):
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        x = max_pool(x) if i == 0 else x
    return head(x).reshape(len(x), -1) @ weights[-1]


def loss(weights, images, labels, **layers):
    return -jnp.mean(jax.nn.log_softmax(predict(weights, images, **layers))[jnp.arange(len(labels)), labels])


@partial(jax.jit, static_argnames=("max_pool", "head"))
def step(weights, images, labels, rate, max_pool=max_pool, head=head):
    """One step of gradient descent."""
    gradients = jax.grad(loss)(weights, images, labels, max_pool=max_pool, head=head)
    return jax.tree.map(lambda w, g: w - rate * g, weights, gradients)


def train(digits, epochs, batch, rate):
    weights, rng = initial_weights(jax.random.key(0)), np.random.default_rng(0)
    images, tests = (np.moveaxis(a, 1, -1) for a in (digits.train_images, digits.test_images))
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(order) - batch + 1, batch):  # whole batches: another size would compile again
            chosen = order[start : start + batch]
            weights = step(weights, images[chosen], digits.train_labels[chosen], rate)
        accuracy = float(jnp.mean(predict(weights, tests).argmax(1) == digits.test_labels))
        print(f"epoch {epoch + 1}: test accuracy {accuracy:.1%}")
    return weights, accuracy


def compare(shape, repeat=10):
    """Seconds of a 2x2 maximum of such an array and its gradient, in one jitted function: XLA's, and ours."""
    x = jax.random.normal(jax.random.key(0), shape)
    times, gradients = [], []
    for maximum in (max_pool_of_xla, max_pool):
        gradient = jax.jit(jax.grad(lambda x, maximum=maximum: (maximum(x) ** 2).sum()))
        gradients.append(gradient(x).block_until_ready())  # compiles
        best = []
        for _ in range(repeat):
            start = time.perf_counter()
            gradient(x).block_until_ready()
            best.append(time.perf_counter() - start)
        times.append(min(best))
    assert np.array_equal(*gradients)
    return times


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.2)
    parser.add_argument("--shape", type=int, nargs=4, default=(16, 56, 56, 64), help="of the array that is timed, NHWC")
    args = parser.parse_args(argv)
    _, accuracy = train(data.load_bundled(), args.epochs, args.batch_size, args.rate)
    xla, ours = compare(tuple(args.shape))
    print(f"2x2 maximum of {tuple(args.shape)} and its gradient: XLA {1e3 * xla:.1f} ms, "
          f"numba_pool {1e3 * ours:.1f} ms ({xla / ours:.1f} times as fast)")
    return accuracy


if __name__ == "__main__":
    main()
