"""A convolutional network with HIPS autograd
==========================================

A convolutional network on handwritten digits with HIPS autograd, pooled by `numba_pool.autograd`.

    python examples/autograd_convnet.py

The network is that of autograd's own example, made small: convolution, max pooling, tanh layer, softmax. There pooling
is a reshape and two maxima, so that windows must tile the input exactly. Here they overlap and are padded. The last
line compares the time of both ways where both can be used. Needs autograd and scikit-learn.
"""

import argparse
import time

import autograd.numpy as np
import data
from autograd import grad

import numba_pool.autograd as pool


def convolve(x, weights):
    """Valid convolution of (N, C, H, W) with (C, K, h, w): a product for every element of the window."""
    height, width = (n - k + 1 for n, k in zip(x.shape[2:], weights.shape[2:]))
    return sum(np.einsum("nchw,ck->nkhw", x[:, :, i : i + height, j : j + width], weights[:, :, i, j])
               for i in range(weights.shape[2]) for j in range(weights.shape[3]))


def pooled_by_reshape(x):
    """Maximum of 2x2 windows as autograd's own example has it."""
    n, c, h, w = x.shape
    return np.max(np.max(x.reshape(n, c, h // 2, 2, w // 2, 2), axis=3), axis=4)


def log_softmax(x):
    x = x - np.max(x, axis=1, keepdims=True)
    return x - np.log(np.sum(np.exp(x), axis=1, keepdims=True))


def initial_weights(rng, filters=8, hidden=64):
    shapes = [(1, filters, 3, 3), (filters * 9, hidden), (hidden, 10)]
    return [rng.standard_normal(shape) / np.sqrt(np.prod(shape) / max(shape[1], 1)) for shape in shapes]


def predict(weights, images):
    """Log-probabilities of the ten digits."""
    x = pool.max_pool2d(convolve(images, weights[0]), 3, stride=2, padding=1)  # 6x6 to 3x3: windows overlap
    x = np.tanh(np.dot(x.reshape(len(x), -1), weights[1]))
    return log_softmax(np.dot(x, weights[2]))


def loss(weights, images, labels):
    return -np.mean(predict(weights, images)[np.arange(len(labels)), labels])


def train(digits, epochs, batch, rate, rng):
    """Plain gradient descent; yields the test accuracy after every epoch."""
    weights, gradient = initial_weights(rng), grad(loss)
    for _ in range(epochs):
        order = rng.permutation(len(digits.train_labels))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            step = gradient(weights, digits.train_images[chosen].astype(float), digits.train_labels[chosen])
            weights = [w - rate * g for w, g in zip(weights, step)]
        guessed = np.argmax(predict(weights, digits.test_images.astype(float)), axis=1)
        yield np.mean(guessed == digits.test_labels)


def compare(shape, repeat=5):
    """Seconds of a 2x2 maximum and its gradient: by the reshape, and by numba_pool. The gradients are the same."""
    x, times, gradients = np.random.default_rng(0).standard_normal(shape), [], []
    for maximum in (pooled_by_reshape, lambda x: pool.max_pool2d(x, 2)):
        step = grad(lambda x, maximum=maximum: np.sum(maximum(x) ** 2))
        gradients.append(step(x))  # compiles
        best = []
        for _ in range(repeat):
            start = time.perf_counter()
            step(x)
            best.append(time.perf_counter() - start)
        times.append(min(best))
    assert np.array_equal(*gradients)
    return times


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--shape", type=int, nargs=4, default=(16, 32, 56, 56), help="of the array that is timed")
    args = parser.parse_args(argv)
    rng = np.random.default_rng(0)
    for epoch, accuracy in enumerate(train(data.load_bundled(), args.epochs, args.batch_size, args.rate, rng), 1):
        print(f"epoch {epoch}: test accuracy {accuracy:.1%}")
    reshape, ours = compare(tuple(args.shape))
    print(f"2x2 maximum of {tuple(args.shape)} and its gradient: reshape {1e3 * reshape:.1f} ms, "
          f"numba_pool {1e3 * ours:.1f} ms ({reshape / ours:.1f} times as fast)")
    return accuracy


if __name__ == "__main__":
    main()
