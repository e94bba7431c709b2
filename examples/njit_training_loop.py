"""A training loop compiled by Numba
=================================

A whole epoch of training in one function compiled by Numba, with pooling in it.

    python examples/njit_training_loop.py

Convolution, max pooling, ReLU, twice, then a dense layer and softmax, on scikit-learn's handwritten digits. Python
makes two plans and calls `train_epoch` once an epoch. Everything else is compiled code, which Numba keeps on disk: the
second time you run it, nothing is compiled. Convolutions are plain loops, as in code that one writes with Numba.
"""

import argparse
import math
import time

import data
import numpy as np
from numba import njit

import numba_pool
from numba_pool import run, run_backward


@njit(cache=True)
def pad(x, padded):
    """Put x between zeros that are there already."""
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            for i in range(x.shape[2]):
                for j in range(x.shape[3]):
                    padded[n, c, i + 1, j + 1] = x[n, c, i, j]


@njit(cache=True)
def convolve(x, weights, y):
    """3x3 convolution of an x that is padded by one on every side."""
    y.ravel()[:] = 0
    for n in range(y.shape[0]):
        for k in range(y.shape[1]):
            for c in range(x.shape[1]):
                for i in range(3):
                    for j in range(3):
                        w = weights[k, c, i, j]
                        for row in range(y.shape[2]):
                            for column in range(y.shape[3]):
                                y[n, k, row, column] += w * x[n, c, row + i, column + j]


@njit(cache=True)
def convolve_backward(grad, x, weights, grad_weights, grad_x):
    """Adds up the gradient of the weights; that of x is padded as x is."""
    grad_x.ravel()[:] = 0
    for n in range(grad.shape[0]):
        for k in range(grad.shape[1]):
            for c in range(x.shape[1]):
                for i in range(3):
                    for j in range(3):
                        w = weights[k, c, i, j]
                        total = 0 * w
                        for row in range(grad.shape[2]):
                            for column in range(grad.shape[3]):
                                g = grad[n, k, row, column]
                                total += g * x[n, c, row + i, column + j]
                                grad_x[n, c, row + i, column + j] += g * w
                        grad_weights[k, c, i, j] += total


@njit(cache=True)
def softmax_gradient(features, dense, labels, grad_features, grad_dense):
    """Gradients of the mean cross entropy of `features @ dense`; returns how many of the batch are right."""
    right, (count, size), classes = 0, features.shape, dense.shape[1]
    scores = np.empty(classes, dense.dtype)
    for n in range(count):
        scores[:] = 0
        for f in range(size):
            for digit in range(classes):
                scores[digit] += features[n, f] * dense[f, digit]
        best = scores.argmax()
        right += best == labels[n]
        top, total = scores[best], 0 * scores[0]
        for digit in range(classes):
            scores[digit] = math.exp(scores[digit] - top)
            total += scores[digit]
        for digit in range(classes):
            scores[digit] = (scores[digit] / total - (digit == labels[n])) / count
        for f in range(size):
            grad_features[n, f] = 0
            for digit in range(classes):
                grad_features[n, f] += scores[digit] * dense[f, digit]
                grad_dense[f, digit] += scores[digit] * features[n, f]
    return right


def stage(plan, channels):
    """What convolution, pooling and ReLU write for one batch, and the gradients of what they read and write.

    A plain tuple: Numba's files on disk would not know a class of this script again.
    """
    n, _, height, width = plan.shape
    padded = np.zeros((n, channels, height + 2, width + 2), plan.dtype)
    convolved, pooled = np.empty(plan.shape, plan.dtype), np.empty(plan.output_shape, plan.dtype)
    indices = np.empty(plan.output_shape, np.int32)
    return padded, convolved, pooled, indices, *map(np.empty_like, (padded, convolved, pooled))


@njit(cache=True)
def forward(plan, stage, x, weights):
    padded, convolved, pooled, indices, _, _, _ = stage
    pad(x, padded)
    convolve(padded, weights, convolved)
    run(plan, convolved, pooled, indices)
    flat = pooled.ravel()
    for i in range(flat.size):  # ReLU, which may as well come after the maximum
        flat[i] = max(flat[i], 0)


@njit(cache=True)
def backward(plan, stage, weights, grad_weights):
    padded, _, pooled, indices, grad_padded, grad_convolved, grad_pooled = stage
    flat, grad = pooled.ravel(), grad_pooled.ravel()
    for i in range(flat.size):
        if flat[i] <= 0:
            grad[i] = 0
    run_backward(plan, grad_pooled, indices, grad_convolved)
    convolve_backward(grad_convolved, padded, weights, grad_weights, grad_padded)


@njit(cache=True)
def split(numbers, first, second, classes):
    """All weights of the network, or their gradients, out of one array: two convolutions and the dense layer."""
    a, b = first * 9, first * 9 + second * first * 9
    return (numbers[:a].reshape(first, 1, 3, 3), numbers[a:b].reshape(second, first, 3, 3),
            numbers[b:].reshape((numbers.size - b) // classes, classes))


@njit(cache=True)
def train_epoch(plan1, plan2, stage1, stage2, images, labels, rate, momentum, weights, grads, speeds):
    """One epoch of gradient descent with momentum, in place; returns the share of images that it got right.

    A rate of 0 makes it a test. What does not fill a batch is left out: a plan is for one shape.
    """
    pooled1, grad_pooled1 = stage1[2], stage1[6]
    pooled2, grad_padded2, grad_pooled2 = stage2[2], stage2[4], stage2[6]
    batch, first, second = pooled1.shape[0], pooled1.shape[1], pooled2.shape[1]
    size = pooled2.size // batch
    first_weights, second_weights, dense = split(weights, first, second, 10)
    first_grads, second_grads, dense_grads = split(grads, first, second, 10)
    right, batches = 0, len(labels) // batch
    for b in range(batches):
        begin, end = b * batch, (b + 1) * batch
        forward(plan1, stage1, images[begin:end], first_weights)
        forward(plan2, stage2, pooled1, second_weights)
        grads[:] = 0
        right += softmax_gradient(pooled2.reshape(batch, size), dense, labels[begin:end],
                                  grad_pooled2.reshape(batch, size), dense_grads)
        if rate == 0:
            continue
        backward(plan2, stage2, second_weights, second_grads)
        for n in range(batch):
            for c in range(first):
                for i in range(pooled1.shape[2]):
                    for j in range(pooled1.shape[3]):
                        grad_pooled1[n, c, i, j] = grad_padded2[n, c, i + 1, j + 1]
        backward(plan1, stage1, first_weights, first_grads)
        for i in range(weights.size):
            speeds[i] = momentum * speeds[i] - rate * grads[i]
            weights[i] += speeds[i]
    return right / (batches * batch)


def initial_weights(rng, first, second, features):
    """Normal, by He's rule."""
    sizes = [(first * 9, 9), (second * first * 9, first * 9), (features * 10, features)]
    return np.concatenate([rng.standard_normal(n) * np.sqrt(2 / taps) for n, taps in sizes]).astype(np.float32)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--filters", type=int, nargs=2, default=(8, 16))
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    began = time.perf_counter()
    digits, rng, (first, second) = data.load_bundled(), np.random.default_rng(args.seed), args.filters
    plan1, plan2 = (
        numba_pool.plan(numba_pool.max_pool2d, (args.batch, filters, size, size), np.float32, 2, return_indices=True)
        for filters, size in ((first, 8), (second, 4))
    )
    stages = stage(plan1, 1), stage(plan2, first)
    weights = initial_weights(rng, first, second, second * 4)
    grads, speeds = np.zeros_like(weights), np.zeros_like(weights)

    def epoch(images, labels, rate):
        return train_epoch(plan1, plan2, *stages, np.ascontiguousarray(images), labels, np.float32(rate),
                           np.float32(0.9), weights, grads, speeds)

    for number in range(1, args.epochs + 1):
        order, started = rng.permutation(len(digits.train_labels)), time.perf_counter()
        trained = epoch(digits.train_images[order], digits.train_labels[order], args.rate)
        seconds = time.perf_counter() - started
        print(f"epoch {number}: {trained:.1%} of the training images right, {seconds:.3f} s")
    accuracy = epoch(digits.test_images, digits.test_labels, 0)
    print(f"test accuracy {accuracy:.1%} after {time.perf_counter() - began:.1f} s; the first epoch mostly compiles")
    return accuracy


if __name__ == "__main__":
    main()
