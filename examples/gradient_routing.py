"""Where pooling sends the gradient
================================

Where pooling sends the gradient: a 4x4 input, its windows, what comes out and what goes back.

    python examples/gradient_routing.py

Max pooling gives all of an output's gradient to the one input that won, average pooling gives every input of the window
the same share. Where windows overlap, an input gets the sum over its windows. Of equal inputs the first wins.
"""

import argparse
from pathlib import Path

import numpy as np
import plots
from plots import plt

import numba_pool

COLOURS = ("#1f77b4", "#c44e00", "#2a8c3f", "#8e4bb5")
UPSTREAM = np.array([[1.0, 2.0], [3.0, 4.0]])  # the gradient that arrives at the four outputs
INPUT = np.array([[1.0, 3.0, 2.0, 0.0], [4.0, 7.0, 8.0, 5.0], [0.0, 6.0, 1.0, 2.0], [5.0, 2.0, 3.0, 9.0]])
TIES = np.array([[2.0, 2.0, 0.0, 5.0], [2.0, 2.0, 5.0, 1.0], [3.0, 0.0, 1.0, 1.0], [0.0, 3.0, 4.0, 4.0]])
CASES = {
    "2x2 windows, stride 2": (INPUT, {"kernel_size": 2}),
    "3x3 windows, stride 2,\npadding 1: they overlap": (INPUT, {"kernel_size": 3, "stride": 2, "padding": 1}),
    "2x2 windows, stride 2,\nwith ties": (TIES, {"kernel_size": 2}),
}


def route(x, upstream, **window):
    """Outputs and gradients of one plane, both ways; `*_parts[o]` is what output o alone sends back."""
    x, upstream = x[np.newaxis], upstream[np.newaxis]  # one channel
    shares = np.eye(upstream.size).reshape(-1, *upstream.shape) * upstream  # all gradients but one set to zero
    y, indices = numba_pool.max_pool2d(x, **window, return_indices=True)
    # Without the padding in the divisor no gradient is lost to it.
    average = {**window, "count_include_pad": False}
    return {
        "indices": indices[0],
        "max": y[0],
        "max_gradient": numba_pool.max_pool2d_backward(upstream, indices, x.shape)[0],
        "max_parts": np.stack([numba_pool.max_pool2d_backward(part, indices, x.shape)[0] for part in shares]),
        "avg": numba_pool.avg_pool2d(x, **average)[0],
        "avg_gradient": numba_pool.avg_pool2d_backward(upstream, x.shape, **average)[0],
        "avg_parts": np.stack([numba_pool.avg_pool2d_backward(part, x.shape, **average)[0] for part in shares]),
    }


def window_edges(kernel_size, stride=None, padding=0):
    """(top, left, bottom, right) of the four windows, cut at the border of the input."""
    starts = [o * (stride or kernel_size) - padding for o in range(2)]
    spans = [(max(start, 0), min(start + kernel_size, 4)) for start in starts]
    return [(top, left, bottom, right) for top, bottom in spans for left, right in spans]


def draw_windows(ax, edges):
    for colour, inset, (top, left, bottom, right) in zip(COLOURS, (0.05, 0.09, 0.13, 0.17), edges, strict=True):
        corner, size = (left - 0.5 + inset, top - 0.5 + inset), (right - left - 2 * inset, bottom - top - 2 * inset)
        ax.add_patch(plt.Rectangle(corner, *size, fill=False, edgecolor=colour, linewidth=2))
        ax.add_patch(plt.Rectangle(corner, *size, facecolor=colour, alpha=0.1))


def draw_numbers(ax, texts, colours=None, bold=()):
    """One text per cell of a grid; `bold` has flat indices of cells."""
    rows, columns = texts.shape
    ax.set(xlim=(-0.55, columns - 0.45), ylim=(rows - 0.45, -0.55), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    for row, column in np.ndindex(texts.shape):
        fill = colours[row * columns + column] if colours else "none"
        ax.add_patch(plt.Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=fill, alpha=0.22))
        ax.add_patch(plt.Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="0.75", linewidth=0.8))
        text, weight = texts[row, column], "bold" if row * columns + column in bold else "normal"
        size = (11, 8.5, 6.8)[text.count("\n")]
        ax.text(column, row, text, ha="center", va="center", fontsize=size, weight=weight, zorder=3)


def short(value):
    """Two decimals at most: 0.333 is .33, 4 is 4."""
    return "0" if value == 0 else f"{value:.2f}".rstrip("0").rstrip(".").removeprefix("0")


def sums(gradient, parts):
    """The numbers of a gradient; where several outputs meet, also what each of them sends."""
    texts = np.full(gradient.shape, "", dtype=object)
    for at in zip(*np.nonzero(gradient), strict=True):
        terms = [short(value) for value in parts[(slice(None), *at)] if value]
        lines = ["+".join(terms[:2]), "+".join(["", *terms[2:]])] if len(terms) > 2 else ["+".join(terms)]
        texts[at] = short(gradient[at]) if len(terms) == 1 else "\n".join([*lines, f"= {short(gradient[at])}"])
    return texts


def draw(cases):
    figure, axes = plt.subplots(
        len(cases), 5, figsize=(13, 2.8 * len(cases)), layout="constrained", width_ratios=(4, 2.6, 4, 2.6, 4)
    )
    titles = (
        "input and windows",
        "maximum, (its index),\nupstream gradient",
        "max pooling's backward:\nall to the winner",
        "average,\nupstream gradient",
        "average pooling's backward:\nequal shares",
    )
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=11)
    for row, (name, (x, window)) in zip(axes, cases.items(), strict=True):
        routed, edges = route(x, UPSTREAM, **window), window_edges(**window)
        draw_numbers(row[0], np.vectorize(short, otypes=[object])(x), bold=routed["indices"])
        row[0].set_ylabel(name, fontsize=11)
        received = [f"↓ {short(g)}" for g in UPSTREAM.ravel()]
        maxima = [f"{short(y)}  ({i})" for y, i in zip(routed["max"].ravel(), routed["indices"].ravel(), strict=True)]
        averages = [short(y) for y in routed["avg"].ravel()]
        for ax, outputs in ((row[1], maxima), (row[3], averages)):
            texts = [f"{output}\n{gradient}" for output, gradient in zip(outputs, received, strict=True)]
            draw_numbers(ax, np.array(texts, dtype=object).reshape(2, 2), COLOURS)
        for ax, kind in ((row[2], "max"), (row[4], "avg")):
            draw_numbers(ax, sums(routed[f"{kind}_gradient"], routed[f"{kind}_parts"]))
        for ax in row[[0, 2, 4]]:
            draw_windows(ax, edges)
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("plots/gradient_routing.png"), metavar="FILE.png")
    options = parser.parse_args(arguments)
    for name, (x, window) in CASES.items():
        routed = route(x, UPSTREAM, **window)
        print(f"{' '.join(name.split())}\n  maxima at {routed['indices'].ravel().tolist()}")
        for kind in ("max", "avg"):
            gradient = routed[f"{kind}_gradient"]
            reached = f"{np.count_nonzero(gradient)} inputs get some"
            print(f"  {kind}: sum {gradient.sum():.10g} of {UPSTREAM.sum():.10g}, {reached}")
            print("    " + str(gradient.round(3)).replace("\n", "\n    "))
    plots.save(draw(CASES), options.output)
    print(f"picture:  {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
