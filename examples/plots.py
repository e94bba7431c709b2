"""The pictures that train_mnist.py ends with: each function draws one, `save_all` writes them all."""

import matplotlib

matplotlib.use("Agg")  # files only: works without a screen

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter

import numba_pool

BLUE, ORANGE = "#1f77b4", "#c44e00"


def save(figure, path):
    """Write one picture, for which folders are made as needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def save_all(folder, network, digits, logits, losses, accuracies):
    """Write the pictures into `folder`; returns their paths. `logits` are the network's answers to the test images."""
    answers, labels = logits.argmax(1), digits.test_labels
    shown = int(np.flatnonzero(answers == labels)[0]) if np.any(answers == labels) else 0
    image, label = digits.test_images[shown : shown + 1], int(labels[shown])
    figures = {
        "curves": curves(losses, accuracies),
        "confusion": confusion(answers, labels),
        "misclassified": misclassified(digits.test_images, labels, logits),
        "feature_maps": feature_maps(network, image, label),
        "gradient": gradient(network, image, label),
    }
    for name, figure in figures.items():
        save(figure, folder / f"{name}.png")
    return [folder / f"{name}.png" for name in figures]


def _bare(axes):
    for ax in np.ravel(axes):
        ax.set(xticks=[], yticks=[])
    return axes


def curves(losses, accuracies):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    if losses and accuracies:
        per_epoch = len(losses) / len(accuracies)
        steps = (np.arange(len(losses)) + 1) / per_epoch
        left.plot(steps, losses, color=BLUE, alpha=0.3, linewidth=0.8, label="each batch")
        means = [np.mean(part) for part in np.array_split(losses, len(accuracies))]
        left.plot(np.arange(len(means)) + 1, means, color=BLUE, label="mean of the epoch")
        left.set_yscale("log")
        left.legend(frameon=False)
        epochs = np.arange(len(accuracies)) + 1
        right.plot(epochs, accuracies, color=ORANGE, marker="o", markersize=3)
        right.set_ylim(max(0, min(accuracies[len(accuracies) // 20 :]) - 0.02), 1.002)
    left.set(xlabel="epoch", title="training loss")
    final = f", {accuracies[-1]:.2%} at the end" if accuracies else ""
    right.set(xlabel="epoch", title=f"test accuracy{final}")
    right.yaxis.set_major_formatter(PercentFormatter(1))
    for ax in (left, right):
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def confusion(answers, labels):
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (labels, answers), 1)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    figure, ax = plt.subplots(figsize=(5.6, 5.2), layout="constrained")
    # The square root lets a single mistake be seen beside hundreds of right answers.
    ax.imshow(np.sqrt(share), cmap="Blues", vmin=0, vmax=1)
    for row, col in np.argwhere(counts):
        ax.text(
            col,
            row,
            f"{counts[row, col]:,}",
            ha="center",
            va="center",
            fontsize=9,
            color="white" if share[row, col] > 0.3 else ORANGE,
            weight="normal" if row == col else "bold",
        )
    ax.set(
        xlabel="answer of the network",
        ylabel="digit",
        xticks=range(10),
        yticks=range(10),
        title=f"{np.trace(counts):,} of {counts.sum():,} test digits right",
    )
    return figure


def misclassified(images, labels, logits, most=15):
    answers = logits.argmax(1)
    spread = np.exp(logits - logits.max(1, keepdims=True))
    sure = spread.max(1) / spread.sum(1)
    wrong = np.flatnonzero(answers != labels)
    shown = wrong[np.argsort(-sure[wrong])][:most]  # the surest mistakes first
    columns = 5
    rows = max(1, -(-len(shown) // columns))
    figure, axes = plt.subplots(rows, columns, figsize=(7.5, 1.75 * rows + 0.5), layout="constrained", squeeze=False)
    for ax in axes.flat:
        ax.axis("off")
    for ax, i in zip(axes.flat, shown, strict=False):
        ax.imshow(images[i, 0], cmap="gray_r", vmin=0, vmax=1)
        ax.set_title(f"{labels[i]} taken for {answers[i]}\n{sure[i]:.0%} sure", fontsize=9)
    which = f"the surest {len(shown)} of {len(wrong)}" if len(shown) < len(wrong) else f"all {len(wrong)}"
    title = f"mistakes on the test digits: {which}" if len(wrong) else "no mistake on the test digits"
    figure.suptitle(title, fontsize=11)
    return figure


def feature_maps(network, image, label, most=8):
    """One digit after the first convolution, and after the pool that follows it."""
    before = network.layers[0](image)[0].copy()
    after = network.layers[1](before[np.newaxis])[0].copy()
    channels = np.argsort(-before.max((1, 2)), kind="stable")[:most]  # those that saw something
    figure = plt.figure(figsize=(11, 2.75), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 5))
    ax = _bare(left.subplots())
    ax.imshow(image[0, 0], cmap="gray_r", vmin=0, vmax=1)
    ax.set_title(f"a {label}, {image.shape[2]}x{image.shape[3]}", fontsize=10)
    axes = _bare(right.subplots(2, len(channels), squeeze=False))
    for column, channel in enumerate(channels):
        top = max(before[channel].max(), 1e-6)
        axes[0, column].imshow(before[channel], cmap="viridis", vmin=0, vmax=top)
        axes[1, column].imshow(after[channel], cmap="viridis", vmin=0, vmax=top)
        axes[0, column].set_title(f"channel {channel}", fontsize=9)
    for row, maps, when in ((0, before, "before"), (1, after, "after")):
        axes[row, 0].set_ylabel(f"{when} pooling\n{maps.shape[1]}x{maps.shape[2]}", fontsize=10)
    return figure


def gradient(network, image, label):
    """The gradient of the digit's own score at the first pool, and where max and average pooling send it."""
    first, pool, *rest = network.layers
    before = first(image).copy()
    logits = x = pool(before)
    for layer in rest:
        logits = layer(logits)
    upstream = np.zeros_like(logits)
    upstream[0, label] = 1
    for layer in reversed(rest):
        upstream = layer.backward(upstream)
    upstream = upstream[:, :, : x.shape[2], : x.shape[3]]
    _, indices = numba_pool.max_pool2d(before, 2, return_indices=True)
    by_max = numba_pool.max_pool2d_backward(upstream, indices, before.shape)
    by_average = numba_pool.avg_pool2d_backward(upstream, before.shape, 2)
    channel = int(np.argmax(np.abs(upstream[0]).sum((1, 2)) * (before[0].std((1, 2)) > 0)))
    limit = max(float(np.abs(upstream[0, channel]).max()), 1e-12)

    figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
    _bare(axes)
    axes[0].imshow(before[0, channel], cmap="gray_r")
    axes[0].set_title(f"channel {channel} of a {label}\nbefore pooling", fontsize=10)
    shades = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    titles = {
        1: (upstream, "gradient of the score\nat the pool's output"),
        2: (by_max, "max pooling's backward:\nall of it to the maximum"),
        3: (by_average, "average pooling's backward:\na quarter to each of the four"),
    }
    for column, (values, title) in titles.items():
        shown = axes[column].imshow(values[0, channel], **shades)
        axes[column].set_title(title, fontsize=10)
    for ax in axes[[0, 2, 3]]:  # the windows
        height, width = before.shape[2:]
        ax.vlines(np.arange(0, width + 1, 2) - 0.5, -0.5, height - 0.5, color="0.7", linewidth=0.5)
        ax.hlines(np.arange(0, height + 1, 2) - 0.5, -0.5, width - 0.5, color="0.7", linewidth=0.5)
    figure.colorbar(shown, ax=axes[3], shrink=0.85)
    return figure
