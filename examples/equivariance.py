"""Equivariant, invariant; presence, smoothing
===========================================

A convolution moves along with its input, a pool makes that matter less; maxima say that, averages say how much.

    python examples/equivariance.py

The first picture: a digit is shifted by 0 to 8 pixels, and its edges are found by a convolution, then pooled. How much
does each result change? The second: edges of a digit, and a digit under noise, through maxima and averages.
"""

import argparse
from pathlib import Path

import nn
import numpy as np
import plots
import translation_invariance as shifting
from data import load_bundled
from matplotlib.ticker import PercentFormatter
from plots import BLUE, ORANGE, plt

import numba_pool

WINDOW = 8
GREEN = "#2a8c3f"


def edges():
    """A convolution that finds edges between dark on the left and bright on the right: 3x3, with ReLU."""
    convolution = nn.Conv2d(1, 1, padding=1, rng=np.random.default_rng(0))
    convolution.weight[..., 0, 0] = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 4  # Sobel
    return convolution


def digits(count):
    """(count, 1, 40, 40), with an empty border; test digits, enlarged."""
    return shifting.on_canvas(shifting.enlarge(load_bundled().test_images[:count]))


def changes(images):
    """{what: [shift] mean over the images of |result(shifted) - result| / |result|}."""
    find, shifted = edges(), shifting.shifts(images)
    found = np.stack([find(batch).copy() for batch in shifted])
    back = np.stack([np.roll(batch, -shift, axis=-1) for shift, batch in enumerate(found)])
    local, whole = numba_pool.MaxPool2d(WINDOW), numba_pool.GlobalMaxPool()
    results = {
        "convolution": found,
        f"convolution, max {WINDOW}x{WINDOW}": np.stack([local(batch) for batch in found]),
        "convolution, global max": np.stack([whole(batch) for batch in found]),
        "convolution, moved back": back,
    }
    return {name: mean_change(result.reshape(*result.shape[:2], -1)) for name, result in results.items()}


def mean_change(result):
    return np.mean(np.linalg.norm(result - result[0], axis=-1) / np.linalg.norm(result[0], axis=-1), axis=1)


def noisy(image, seed, deviation=0.2):
    return image + np.random.default_rng(seed).normal(0, deviation, image.shape).astype(image.dtype)


def smoothing(seed=0):
    """{pool: (mean, deviation)} of 3x3 windows of noise alone, with mean 0 and deviation 0.2."""
    noise = noisy(np.zeros((1, 512, 512), np.float32), seed)
    pooled = {"none": noise, "max": numba_pool.max_pool2d(noise, 3), "average": numba_pool.avg_pool2d(noise, 3)}
    return {name: (float(result.mean()), float(result.std())) for name, result in pooled.items()}


def show(ax, image, title, window=0, top=1.0):
    ax.imshow(image, cmap="gray_r", vmin=0, vmax=top)
    ax.set(xticks=[], yticks=[])
    ax.set_title(title, fontsize=10)
    if window:
        height, width = image.shape
        ax.vlines(np.arange(0, width + 1, window) - 0.5, -0.5, height - 0.5, color=BLUE, linewidth=0.6)
        ax.hlines(np.arange(0, height + 1, window) - 0.5, -0.5, width - 0.5, color=BLUE, linewidth=0.6)


def draw_changes(image, measured):
    figure = plt.figure(figsize=(9.2, 3.5), layout="constrained")
    grid = figure.add_gridspec(2, 4, width_ratios=(1, 1, 1, 3))
    find, pool = edges(), numba_pool.MaxPool2d(WINDOW)
    for row, shift in enumerate((0, WINDOW // 2)):
        shifted = np.roll(image, shift, axis=-1)
        found = find(shifted).copy()
        pooled = pool(found)
        pictures = ((shifted, f"shifted by {shift}", 0), (found, "its edges", WINDOW),
                    (pooled, f"maxima; global {found.max():.2f}", 0))  # fmt: skip
        for column, (picture, title, window) in enumerate(pictures):
            show(figure.add_subplot(grid[row, column]), picture[0, 0], title, window, 0.6 if column else 1)
    ax = figure.add_subplot(grid[:, 3])
    styles = ((ORANGE, "s", 6), (BLUE, "o", 6), (GREEN, "^", 10), ("0.3", "x", 5))
    for (name, change), (colour, marker, size) in zip(measured.items(), styles, strict=True):
        ax.plot(change, color=colour, marker=marker, markersize=size, fillstyle="none", label=name)
    ax.set(xlabel="pixels shifted", title="mean change of the result")
    ax.title.set_fontsize(10)
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1, 0.08))
    return figure


def draw_presence(image):
    """Rows: edges, and noise. Columns: what is pooled, its maxima and its averages."""
    figure, axes = plt.subplots(2, 3, figsize=(8, 5.6), layout="constrained")
    found, under = edges()(image[np.newaxis])[0], noisy(image, 0)
    rows = ((found, "edges of a digit", 0.6, 4, 4, 0), (under, "a digit under noise", 1, 3, 1, 1))
    for row, (picture, title, top, window, stride, padding) in zip(axes, rows, strict=True):
        peaks = numba_pool.max_pool2d(picture, window, stride, padding)
        means = numba_pool.avg_pool2d(picture, window, stride, padding)
        how = f"of {window}x{window}" + (", stride 1" if stride == 1 else "")
        show(row[0], picture[0], f"{title}: up to {picture.max():.2f}", window if stride > 1 else 0, top)
        show(row[1], peaks[0], f"maxima {how}: up to {peaks.max():.2f}", top=top)
        show(row[2], means[0], f"averages {how}: up to {means.max():.2f}", top=top)
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=300, metavar="N", help="how many test digits")
    parser.add_argument("--plots", type=Path, default=Path("plots"), metavar="DIR", help="folder for the pictures")
    options = parser.parse_args(arguments)
    if options.images < 1:
        parser.error(f"--images must be at least 1, got {options.images}")
    images = digits(options.images)
    measured = changes(images)
    print(f"{f'{len(images)} digits, mean change':<26}" + "".join(f"{s:>6}" for s in range(9)) + " pixels")
    for name, change in measured.items():
        print(f"{name:<26}" + "".join(f"{value:6.0%}" for value in change))
    for name, (mean, deviation) in smoothing().items():
        print(f"noise, pooled by 3x3 {name:<8}  mean {mean:6.3f}  deviation {deviation:.3f}")
    figures = {"equivariance": draw_changes(images[:1], measured), "presence": draw_presence(images[0])}
    for name, figure in figures.items():
        plots.save(figure, options.plots / f"{name}.png")
        print(f"picture:  {options.plots / name}.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
