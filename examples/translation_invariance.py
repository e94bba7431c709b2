"""Invariant inside a window, not across windows
=============================================

How much the outputs of a pool change when its input is shifted: invariant inside a window, not across windows.

    python examples/translation_invariance.py                  # the digits that scikit-learn bundles, enlarged
    python examples/translation_invariance.py --data-dir mnist

Digits are shifted to the right by 0 to 8 pixels on an empty canvas, then pooled with windows that do not overlap: by
their maximum, by their average, and by a convolution with random weights whose kernel and stride are the window's. The
change is ``|pooled(shifted) - pooled| / |pooled|``, the mean over the digits. A single pixel shows the bare mechanism:
the maximum and the average of a window are the same wherever in it the pixel lies, the convolution's answer is not.
"""

import argparse
import sys
from pathlib import Path

import data
import nn
import numpy as np
import plots
from matplotlib.ticker import PercentFormatter
from plots import BLUE, ORANGE, plt

import numba_pool

FARTHEST = 8
GREY = "0.45"
STYLES = {"max": (BLUE, "o", 8), "average": (ORANGE, "s", 4), "strided convolution": (GREY, "^", 5)}


def operations(window, seed):
    """The three ways to make one output of `window` x `window` inputs."""
    return {
        "max": numba_pool.MaxPool2d(window),
        "average": numba_pool.AvgPool2d(window),
        "strided convolution": nn.Conv2d(1, 16, window, window, relu=False, rng=np.random.default_rng(seed)),
    }


def shifts(images):
    """(FARTHEST + 1, N, 1, H, W): the images moved to the right by 0, 1, ... pixels; they must have that much space."""
    if np.any(images[..., -FARTHEST:]):
        raise ValueError(f"the last {FARTHEST} columns must be empty")
    return np.stack([np.roll(images, shift, axis=-1) for shift in range(FARTHEST + 1)])


def changes(operation, shifted):
    """[shift, n] = |y(shifted) - y| / |y| over all outputs of an example."""
    outputs = np.stack([operation(images).copy() for images in shifted]).reshape(len(shifted), shifted.shape[1], -1)
    return np.linalg.norm(outputs - outputs[0], axis=-1) / np.linalg.norm(outputs[0], axis=-1)


def on_canvas(images, multiple=FARTHEST):
    """The images at a random whole place of a canvas, with space for the shifts and sides that the windows divide."""
    n, _, height, width = images.shape
    sides = [-(-(side + 2 * multiple) // multiple) * multiple for side in (height, width)]
    canvas = np.zeros((n, 1, *sides), images.dtype)
    rng = np.random.default_rng(0)  # otherwise a frame around each digit would favour some shifts
    for image, place in zip(images, canvas, strict=True):
        top, left = rng.integers(0, multiple, 2)
        place[:, top : top + height, left : left + width] = image
    return canvas


def enlarge(images, factor=3):
    """Bilinear, so that 8x8 pixels become 24x24 without edges that were not there."""
    for axis in (2, 3):
        length = images.shape[axis]
        at = np.clip((np.arange(length * factor) + 0.5) / factor - 0.5, 0, length - 1)
        low = np.minimum(at.astype(int), length - 2)
        part = (at - low).reshape((-1, 1) if axis == 2 else -1).astype(images.dtype)
        images = np.take(images, low, axis) * (1 - part) + np.take(images, low + 1, axis) * part
    return images


def single_pixel():
    """In the first column of a window, as seen by windows of 2, 4 and 8."""
    image = np.zeros((1, 1, 2 * FARTHEST, 3 * FARTHEST), np.float32)
    image[0, 0, 3, 0] = 1
    return image


def measure(images, windows, seed):
    """{(window, operation): changes}."""
    shifted = shifts(images)
    return {(window, name): changes(operation, shifted)
            for window in windows for name, operation in operations(window, seed).items()}  # fmt: skip


def draw(image, windows, of_digits, of_pixel):
    figure = plt.figure(figsize=(9.6, 6.2), layout="constrained")
    grid = figure.add_gridspec(3, len(windows), height_ratios=(0.8, 1, 1))
    shifted = shifts(image)
    window = windows[-1]
    for column, shift in zip(range(len(windows)), (0, window // 2, window), strict=False):
        ax = figure.add_subplot(grid[0, column])
        ax.imshow(shifted[shift, 0, 0], cmap="gray_r", vmin=0, vmax=1)
        height, width = image.shape[2:]
        ax.vlines(np.arange(0, width + 1, window) - 0.5, -0.5, height - 0.5, color=BLUE, linewidth=0.8)
        ax.hlines(np.arange(0, height + 1, window) - 0.5, -0.5, width - 0.5, color=BLUE, linewidth=0.8)
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"shifted by {shift}; windows of {window}", fontsize=10)
    rows = ((1, of_digits, "digits: mean change"), (2, of_pixel, "a single pixel: change"))
    for row, measured, label in rows:
        top = 1.1 * max(change.mean(1).max() for change in measured.values())
        for column, window in enumerate(windows):
            ax = figure.add_subplot(grid[row, column])
            for name, (colour, marker, size) in STYLES.items():
                mean = measured[window, name].mean(1)
                ax.plot(mean, color=colour, marker=marker, markersize=size, label=name, fillstyle="none")
            for border in range(window, FARTHEST + 1, window):
                ax.axvline(border - 0.5, color="0.85", zorder=0)
            ax.set(ylim=(-0.1, top), xticks=range(FARTHEST + 1))
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
            ax.spines[["top", "right"]].set_visible(False)
            if row == 1:
                ax.set_title(f"windows of {window}x{window}", fontsize=10)
            else:
                ax.set_xlabel("pixels shifted")
            if column == 0:
                ax.set_ylabel(label)
    figure.legend(*figure.axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="folder with MNIST's IDX files, .gz or not")
    parser.add_argument("--images", type=int, default=300, metavar="N", help="how many test digits")
    parser.add_argument("--seed", type=int, default=0, help="of the convolution's weights")
    parser.add_argument("--output", type=Path, default=Path("plots/translation_invariance.png"), metavar="FILE.png")
    options = parser.parse_args(arguments)
    if options.images < 1:
        parser.error(f"--images must be at least 1, got {options.images}")
    try:
        digits = data.load_mnist(options.data_dir) if options.data_dir else data.load_bundled()
    except data.DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    images = digits.test_images[: options.images]
    images = on_canvas(images if options.data_dir else enlarge(images))

    windows = (2, 4, 8)
    of_digits, of_pixel = measure(images, windows, options.seed), measure(single_pixel(), windows, options.seed)
    for title, measured in ((f"{len(images)} digits, mean change", of_digits), ("a single pixel, change", of_pixel)):
        print(f"{title}\n{'window':>6}  {'pooling':<20}" + "".join(f"{s:>6}" for s in range(FARTHEST + 1)) + " pixels")
        for (window, name), change in measured.items():
            print(f"{window:>6}  {name:<20}" + "".join(f"{value:6.0%}" for value in change.mean(1)))
    whole = [changes(pool, shifts(images)).max() for pool in (numba_pool.GlobalMaxPool(), numba_pool.GlobalAvgPool())]
    print(f"the whole plane as one window, largest change: max {whole[0]:.1e}, average {whole[1]:.1e}")
    pool, shifted = numba_pool.MaxPool2d(FARTHEST), shifts(images)
    moved = np.array_equal(np.roll(pool(shifted[0]), 1, axis=-1), pool(shifted[FARTHEST]))
    print(f"shifted by a whole window of {FARTHEST}, the maxima are the same, one place on: {'yes' if moved else 'no'}")
    plots.save(draw(images[:1], windows, of_digits, of_pixel), options.output)
    print(f"picture:  {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
