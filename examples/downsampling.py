"""Ways of downsampling, and none
==============================

The same network with other ways to make its maps smaller: accuracy, time per epoch and weights, over several seeds.

    python examples/downsampling.py                                # the digits that scikit-learn bundles
    python examples/downsampling.py --data-dir mnist --subset 2000
    python examples/downsampling.py --no-augment                   # train on unchanged images: easier to overfit

Conv -> ReLU -> halve -> conv -> ReLU -> halve -> head. The halving is a maximum or an average of 2x2, a maximum of
overlapping 3x3 windows, or a 2x2 convolution with stride 2; or nothing is halved. The head is two linear layers, or one
linear layer on the mean over all positions, or on a weighted mean whose weights are learned: attention pooling.
"""

import argparse
import sys
import time
from pathlib import Path

import nn
import numpy as np
import plots
import train_mnist
from data import DataError
from plots import BLUE, ORANGE, plt
from tqdm import tqdm

import numba_pool


class AttentionPool(nn.Layer):
    """(N, C, H, W) to (N, C): the mean over positions p, weighted with a = softmax over p of <x[p], weight>.

    It is Ilse et al. 2018, equation 8, with a linear score. Zero weights at the start make it the plain average.
    """

    def __init__(self, channels, dtype=np.float32):
        self.weight, self.grad_weight = np.zeros(channels, dtype), np.zeros(channels, dtype)

    def forward(self, x):
        self._shape = np.moveaxis(x, 1, -1).shape
        self._x = np.moveaxis(x, 1, -1).reshape(len(x), -1, len(self.weight))  # (N, P, C)
        scores = self._x @ self.weight
        scores = np.exp(scores - scores.max(1, keepdims=True))
        self.attention = scores / scores.sum(1, keepdims=True)  # (N, P)
        return np.einsum("np,npc->nc", self.attention, self._x)

    def backward(self, grad_output):
        towards = np.einsum("npc,nc->np", self._x, grad_output)  # the gradient with respect to the attention
        scores = self.attention * (towards - (self.attention * towards).sum(1, keepdims=True))
        self.grad_weight[...] = np.einsum("np,npc->c", scores, self._x)
        dx = self.attention[:, :, np.newaxis] * grad_output[:, np.newaxis] + scores[:, :, np.newaxis] * self.weight
        return np.moveaxis(dx.reshape(self._shape), -1, 1)


WAYS = {  # how to halve, head
    "max 2x2": ("max", "dense"),
    "average 2x2": ("avg", "dense"),
    "max 3x3 / 2": ("overlapping", "dense"),
    "strided conv 2x2": ("strided", "dense"),
    "none": ("none", "dense"),
    "max, global average": ("max", "gap"),
    "none, global average": ("none", "gap"),
    "max, attention": ("max", "attention"),
}


def build(halve, head, image_shape, rng):
    """train_mnist's network, or that with one kind of layer exchanged or left out."""
    sides = [4 * side for side in image_shape] if halve == "none" else image_shape  # as many features to the head
    pool = halve if halve in ("avg", "strided") else "max"
    layers = list(train_mnist.build(pool, "dense" if head == "dense" else "gap", sides, rng).layers)
    if halve == "none":
        del layers[3], layers[1]
    if halve == "overlapping":  # with padding 1 in front only: the outputs are as many as those of 2x2
        layers[1], layers[3] = (numba_pool.MaxPool2d(3, 2, ((1, 0), (1, 0))) for _ in range(2))
    if head == "attention":
        layers[4:6] = [AttentionPool(32)]  # for GlobalAvgPool and Flatten
    return nn.Sequential(*layers)


def train(way, options, digits, seed):
    """Accuracy on the test digits and on those trained on, after the last epoch; seconds of a median epoch; weights."""
    options.seed = seed
    network = build(*WAYS[way], digits.train_images.shape[2:], np.random.default_rng(seed))
    run = train_mnist.Run(network, nn.SGD(network, options.lr))
    seconds = []
    for epoch in range(options.epochs):
        run.optimizer.rate = options.lr * options.lr_decay**epoch
        begin = time.perf_counter()
        for images, labels in train_mnist.batches(options, digits, epoch, 0):
            train_mnist.train_batch(run, images, labels)
        seconds.append(time.perf_counter() - begin)
    on_train = np.mean(train_mnist.predict(network, digits.train_images).argmax(1) == digits.train_labels)
    return train_mnist.accuracy(network, digits), float(on_train), float(np.median(seconds)), network.values.size


def draw(results, title):
    """`results`: {way: [what `train` returns, of every seed]}."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.2), layout="constrained", sharey=True, width_ratios=(1.7, 1, 1))
    places = np.arange(len(results))
    accuracies, on_train, seconds, weights = np.moveaxis(np.array(list(results.values())), -1, 0)
    seeds = accuracies.shape[1]
    spread = np.linspace(-0.2, 0.2, seeds)
    mistakes, on_train = (np.maximum(1 - right, 1e-4) for right in (accuracies, on_train))  # of none there is no log
    axes[0].plot(mistakes, places[:, np.newaxis] + spread, ".", color=BLUE, alpha=0.45, markersize=6)
    deviation = accuracies.std(1, ddof=1) if seeds > 1 else np.zeros(len(results))
    axes[0].errorbar(mistakes.mean(1), places, xerr=deviation, fmt="s", color=ORANGE, capsize=4, markersize=5,
                     label="test: mean, deviation, seeds")
    axes[0].plot(on_train.mean(1), places, "D", color="0.3", fillstyle="none", label="training digits: mean")
    axes[0].set_xscale("log")
    axes[0].legend(frameon=False, fontsize=8.5, loc="lower left")
    axes[0].xaxis.set_major_formatter(lambda mistakes, _: f"{100 * mistakes:g}%")
    axes[0].set(yticks=places, yticklabels=results, title="mistakes, on a log scale")
    axes[0].invert_yaxis()
    milliseconds = np.sort(seconds * 1000, axis=1)
    middle = np.median(milliseconds, 1)
    axes[1].barh(places, middle, color=BLUE, height=0.6)
    ends = np.abs(milliseconds[:, [0, -1]].T - middle)
    axes[1].errorbar(middle, places, xerr=ends, fmt="none", ecolor=ORANGE, capsize=4)
    axes[1].set(title="milliseconds per epoch: median, range", xlim=(0, None))
    axes[2].bar_label(axes[2].barh(places, weights[:, 0], color=BLUE, height=0.6), fmt="{:,.0f}", padding=3)
    axes[2].set(title="weights", xlim=(0, 1.35 * weights.max()), xticks=[])
    for ax in axes:
        ax.title.set_fontsize(10.5)
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=11)
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="folder with MNIST's IDX files, .gz or not")
    parser.add_argument("--subset", type=int, metavar="N", help="train on N examples only")
    parser.add_argument("--epochs", type=int, default=24, metavar="N")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many")
    parser.add_argument("--no-augment", dest="augment", action="store_false", help="train on unchanged images")
    parser.add_argument("--output", type=Path, default=Path("plots/downsampling.png"), metavar="FILE.png")
    given = parser.parse_args(arguments)
    for name in ("epochs", "seeds"):
        if getattr(given, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(given, name)}")

    options = train_mnist.parse_options(["--epochs", str(given.epochs), "--lr-decay", "0.88"])
    options.data_dir, options.subset, options.augment = given.data_dir, given.subset, given.augment
    try:
        digits = train_mnist.load(options, print)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with numba_pool.threads(options.threads):
        results = {way: [] for way in WAYS}
        for way in tqdm(WAYS, "compiling"):
            train(way, argparse.Namespace(**{**vars(options), "epochs": 1}), digits, 0)
        # Seed by seed, so that a busy moment of the machine does not hit one way alone.
        for seed, way in tqdm([(seed, way) for seed in range(given.seeds) for way in WAYS], "training"):
            results[way].append(train(way, options, digits, seed))
    print(f"{'':<20}  test accuracy (deviation)  training digits  ms per epoch  weights")
    for way, found in results.items():
        accuracies, on_train, seconds, weights = map(np.array, zip(*found, strict=True))
        deviation = accuracies.std(ddof=1) if len(found) > 1 else 0
        accuracy = f"{accuracies.mean():7.2%}  ({deviation:.2%})"
        print(f"{way:<20}  {accuracy:<25}  {on_train.mean():15.2%}  {np.median(seconds) * 1000:12.0f}  {weights[0]:7,}")
    title = f"{digits.name}, {len(digits.train_labels):,} to train, {given.epochs} epochs, {given.seeds} seeds"
    title += "" if given.augment else ", images unchanged"
    plots.save(draw(results, title), given.output)
    print(f"picture:  {given.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
