"""Batches, example by example
===========================

The gradient of a batch is the mean of the gradients of its examples, each routed through its own maxima.

    python examples/batch_gradients.py

The loss is the mean over the batch, so its gradient is the mean of theirs. Pooling takes no part in that averaging: it
works on each example by itself, and sends each example's gradient through that example's maxima. Two shortcuts that
would mix the examples, the maxima of the first example for all and one mean image for the batch, give another gradient.
"""

import argparse
from pathlib import Path

import data
import nn
import numpy as np
import plots
from plots import BLUE, ORANGE, plt

import numba_pool


def make_network(seed):
    """In float64, so that what differs is not rounding."""
    rng = np.random.default_rng(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, padding=1, input_gradient=False, rng=rng, dtype=np.float64),
        numba_pool.MaxPool2d(2),
        nn.Conv2d(16, 32, padding=1, rng=rng, dtype=np.float64),
        numba_pool.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10, relu=False, rng=rng, dtype=np.float64),
    )


def gradient(network, images, labels):
    """Of the mean loss, with respect to all weights."""
    _, upstream = nn.softmax_cross_entropy(network(images), labels)
    network.backward(upstream)
    return network.gradients.copy()


def gradients_one_by_one(network, images, labels):
    return np.stack([gradient(network, images[i : i + 1], labels[i : i + 1]) for i in range(len(labels))])


class FirstExamplesMaxima:
    """Max pooling whose backward wrongly sends everybody's gradient to the places of the first example's maxima."""

    def forward(self, x):
        y, self._indices = numba_pool.max_pool2d(x, 2, return_indices=True)
        self._shape = x.shape
        return y

    def backward(self, grad_output):
        indices = np.broadcast_to(self._indices[:1], self._indices.shape)
        return numba_pool.max_pool2d_backward(grad_output, indices, self._shape)


def gradient_through_first_maxima(network, images, labels):
    kept = network.layers
    network.layers = tuple(FirstExamplesMaxima() if isinstance(x, numba_pool.MaxPool2d) else x for x in kept)
    try:
        return gradient(network, images, labels)
    finally:
        network.layers = kept


def difference(first, second):
    """Relative, in the 2-norm."""
    return float(np.linalg.norm(first - second) / np.linalg.norm(second))


def first_pool(network, images, labels, channel):
    """[n, H, W]: the gradient that the first pool hands on, of one channel and for every example by itself."""
    found = []
    for i in range(len(labels)):
        _, upstream = nn.softmax_cross_entropy(network(images[i : i + 1]), labels[i : i + 1])
        for layer in network.layers[:0:-1]:
            upstream = layer.backward(upstream)
        found.append(upstream[0, channel].copy())
    return np.array(found)


def draw(images, routed, batch, others):
    figure = plt.figure(figsize=(11, 6), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=(1.15, 1))
    shown = len(routed)
    axes = upper.subplots(2, shown, squeeze=False)
    limit = np.abs(routed).max()
    for column in range(shown):
        axes[0, column].imshow(images[column, 0], cmap="gray_r", vmin=0, vmax=1)
        axes[1, column].imshow(routed[column], cmap="RdBu_r", vmin=-limit, vmax=limit)
        for ax in axes[:, column]:
            ax.set(xticks=[], yticks=[])
            ax.hlines(np.arange(1.5, 7), -0.5, 7.5, color="0.8", linewidth=0.5)
            ax.vlines(np.arange(1.5, 7), -0.5, 7.5, color="0.8", linewidth=0.5)
    axes[0, 0].set_ylabel("example", fontsize=10)
    axes[1, 0].set_ylabel("gradient behind\nthe first max pool", fontsize=10)
    upper.suptitle(
        "each example's gradient goes to its own maxima, at most one place in a window (one channel)", fontsize=11
    )
    axes = lower.subplots(1, len(others), sharey=True)
    for ax, (name, values) in zip(axes, others.items(), strict=True):
        ax.axline((0, 0), slope=1, color="0.6", linewidth=0.8)
        colour = BLUE if difference(values, batch) < 1e-10 else ORANGE
        ax.plot(batch, values, ".", color=colour, markersize=2.5, alpha=0.5)
        ax.set(title=f"{name}\nrelative difference {difference(values, batch):.1e}", xlabel="gradient of the batch")
        ax.locator_params(axis="x", nbins=5)
        ax.title.set_fontsize(10)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("compared with, all weights")
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batch-size", type=int, default=64, metavar="N")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the choice of digits")
    parser.add_argument("--output", type=Path, default=Path("plots/batch_gradients.png"), metavar="FILE.png")
    options = parser.parse_args(arguments)
    digits = data.load_bundled()
    if not 2 <= options.batch_size <= len(digits.train_labels):
        parser.error(f"--batch-size must be in 2..{len(digits.train_labels)}, got {options.batch_size}")
    digits = data.subset(digits, options.batch_size, options.seed)
    images, labels = digits.train_images.astype(np.float64), digits.train_labels
    network = make_network(options.seed)

    batch = gradient(network, images, labels)
    mean_image = images.mean(0, keepdims=True).repeat(len(labels), 0)
    others = {
        "mean of the examples' gradients": gradients_one_by_one(network, images, labels).mean(0),
        "wrong: all through the first's maxima": gradient_through_first_maxima(network, images, labels),
        "wrong: the mean image pooled for all": gradient(network, mean_image, labels),
    }
    print(f"gradient of a batch of {len(labels)} with respect to {batch.size:,} weights, against (relative difference)")
    for name, values in others.items():
        print(f"  {name:<40} {difference(values, batch):.1e}")
    before = network.layers[0](images)
    _, indices = numba_pool.max_pool2d(before, 2, return_indices=True)
    apart = np.mean(indices[1:] != indices[:1])
    print(f"maxima of the first pool that lie elsewhere than in the first example: {apart:.0%}")

    shown = min(6, len(labels))
    channel = int(np.argmax(np.ptp(before[:shown], axis=(2, 3)).min(0)))  # one that has something of each of them
    routed = first_pool(network, images[:shown], labels[:shown], channel)
    plots.save(draw(images, routed, batch, others), options.output)
    print(f"picture:  {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
