"""The moving picture of the README: a window slides, its maximum is kept with its index, and the gradient goes back.

    python docs/pictures/pooling.py             # writes docs/pictures/pooling.gif

All numbers in it are computed by numba_pool.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import ConnectionPatch, Rectangle
from PIL import Image

import numba_pool

X = np.array([[1, 7, 2, 0, 4], [5, 0, 1, 2, 1], [2, 6, 3, 9, 0], [4, 1, 0, 2, 5], [8, 2, 5, 1, 3]], np.float64)
UPSTREAM = np.array([[1, 2], [3, 4]], np.float64)  # the gradient that arrives at the outputs
KERNEL, STRIDE = 3, 2
COLOURS = ("#1f77b4", "#c44e00", "#2a8c3f", "#8e4bb5")  # one for each window
INK, EMPTY = "#222222", "#ffffff"
EDGE = 0.32  # from the middle of a cell to where arrows begin and end: beside the number, not on it


def grid(ax, values, title, fills=None, bold=()):
    """A table of numbers; None is an empty cell."""
    rows, columns = values.shape
    for row in range(rows):
        for column in range(columns):
            place = row, column
            ax.add_patch(Rectangle((column, row), 1, 1, facecolor=(fills or {}).get(place, EMPTY), edgecolor="#999999"))
            if values[place] is not None:
                weight, colour = ("bold", "white") if place in bold else ("normal", INK)
                ax.text(column + 0.5, row + 0.53, f"{values[place]:g}", ha="center", va="center", fontsize=15,
                        color=colour, weight=weight)
    ax.set(xlim=(-0.08, columns + 0.08), ylim=(rows + 0.08, -0.08), aspect="equal")
    ax.axis("off")
    ax.set_title(title, fontsize=13, color=INK, pad=8)


def known(values, done):
    """The first `done` elements of a small array, None for the rest."""
    shown = np.full(values.shape, None, object)
    shown.flat[:done] = [float(value) for value in values.flat[:done]]
    return shown


def frame(forward, backward, caption, pointing=True):
    """The picture after `forward` windows and `backward` gradients; the last of them is the one that is pointed at."""
    y, indices = numba_pool.max_pool2d(X[np.newaxis], KERNEL, STRIDE, return_indices=True)
    y, indices = y[0], indices[0]
    gradient = np.zeros_like(X)
    for window in range(backward):
        gradient.flat[indices.flat[window]] += UPSTREAM.flat[window]
    if backward == y.size:
        whole = numba_pool.max_pool2d_backward(UPSTREAM[np.newaxis], indices[np.newaxis], X[np.newaxis].shape)[0]
        assert np.array_equal(gradient, whole)

    figure, axes = plt.subplots(1, 5, figsize=(10, 3.1), dpi=80, width_ratios=(5, 2.4, 2.4, 2.4, 5))
    figure.subplots_adjust(left=0.01, right=0.99, top=0.86, bottom=0.13, wspace=0.16)
    won = {}
    for window in range(forward):
        won[divmod(int(indices.flat[window]), X.shape[1])] = COLOURS[window]
    grid(axes[0], X, "input", won, won)
    y_fills = {divmod(window, 2): COLOURS[window] for window in range(forward)}
    grid(axes[1], known(y, forward), "maximum", y_fills, y_fills)
    grid(axes[2], known(indices, forward), "index", y_fills, y_fills)
    arrived = y.size if backward else 0
    u_fills = {divmod(window, 2): COLOURS[window] for window in range(arrived)}
    grid(axes[3], known(UPSTREAM, arrived), "gradient arrives", u_fills, u_fills)
    back = {divmod(int(indices.flat[window]), X.shape[1]): COLOURS[window] for window in range(backward)}
    shown = gradient if backward else np.full(X.shape, None, object)
    grid(axes[4], shown, "gradient of the input", back, back)

    if pointing and not backward:
        window = forward - 1
        edge = EDGE if window > 1 else -EDGE
        top, left = np.multiply(divmod(window, 2), STRIDE)
        axes[0].add_patch(Rectangle((left, top), KERNEL, KERNEL, fill=False, edgecolor=COLOURS[window], linewidth=5))
        row, column = divmod(int(indices.flat[window]), X.shape[1])
        start, end = (column + 0.5, row + 0.5 + edge), (window % 2 + 0.5, window // 2 + 0.5 + edge)
        arrow(figure, axes[0], start, axes[1], end, window)
    elif pointing:
        window = backward - 1
        edge = EDGE if window > 1 else -EDGE
        row, column = divmod(int(indices.flat[window]), X.shape[1])
        start, end = (window % 2 + 0.5, window // 2 + 0.5 + edge), (column + 0.5, row + 0.5 + edge)
        arrow(figure, axes[3], start, axes[4], end, window)
    figure.text(0.5, 0.03, caption, ha="center", fontsize=13, color=INK)
    figure.canvas.draw()
    image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3])
    plt.close(figure)
    return image


def arrow(figure, start_axes, start, end_axes, end, window):
    bend = 0.35 if window > 1 else -0.35
    figure.add_artist(ConnectionPatch(start, end, "data", "data", axesA=start_axes, axesB=end_axes, arrowstyle="-|>",
                                      connectionstyle=f"arc3,rad={bend}", mutation_scale=18, color=COLOURS[window],
                                      linewidth=2.5, zorder=10))


def frames():
    """Pictures with their milliseconds."""
    windows = UPSTREAM.size
    for window in range(1, windows + 1):
        yield frame(window, 0, "forward: each 3x3 window gives its maximum, and the index of it in the input"), 1400
    for window in range(1, windows + 1):
        text = "backward: each gradient goes to the element that won"
        yield frame(windows, window, text if window < windows else f"{text}; 9 won twice and gets the sum"), 1400
    yield frame(windows, windows, "an index counts the elements row by row: 9 is number 13", pointing=False), 3000


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("pooling.gif"), metavar="FILE.gif")
    options = parser.parse_args(arguments)
    images, durations = zip(*frames())
    palette = images[len(images) // 2].quantize(48, dither=Image.Dither.NONE)
    images = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    images[0].save(options.output, save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True)
    print(f"picture:  {options.output}, {options.output.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
