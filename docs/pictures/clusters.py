"""The pictures of docs/clusters.md: chunks that windows reach across, and regions of a pyramid.

    python docs/pictures/clusters.py            # writes docs/pictures/clusters_*.png

Regions are those of `numba_pool.pyramid_regions`.
"""

import io
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle
from PIL import Image

import numba_pool

HERE = Path(__file__).resolve().parent
COLOURS = ("#1f77b4", "#c44e00", "#2a8c3f", "#8e4bb5", "#b59b1f", "#3aa6a6")
INK = "#222222"


def frame(ax, rows, columns, title):
    ax.set(xlim=(-0.15, columns + 0.15), ylim=(rows + 0.15, -0.15), aspect="equal")
    ax.axis("off")
    ax.set_title(title, fontsize=10, color=INK)


def box(ax, row, column, height, width, **look):
    ax.add_patch(Rectangle((column, row), width, height, **look))


def cells(ax, rows, columns):
    for row in range(rows):
        for column in range(columns):
            box(ax, row, column, 1, 1, fill=False, edgecolor="#bbbbbb", linewidth=0.7)


def windows(rows=5, columns=13, kernel=3, stride=2, border=5):
    """Two chunks side by side; windows of 3x3 with stride 2."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 2), layout="constrained")
    outputs = (columns - kernel) // stride + 1
    aligned = stride * ((border + stride // 2) // stride)  # where the nearest window begins
    across = (aligned // stride - 1) * stride  # the last window that begins before it
    for ax, at, title in zip(axes, (border, aligned, aligned), (
            "two chunks: a window reaches over their border", "the border moves to where a window begins",
            f"{outputs} x {(rows - kernel) // stride + 1} results, in two chunks")):
        if ax is axes[2]:
            high, wide, at = (rows - kernel) // stride + 1, outputs, aligned // stride
        else:
            high, wide = rows, columns
        for begin, end, colour in ((0, at, COLOURS[0]), (at, wide, COLOURS[1])):
            box(ax, 0, begin, high, end - begin, facecolor=colour, alpha=0.3)
        cells(ax, high, wide)
        ax.plot([at, at], [0, high], color=INK, linewidth=2)
        frame(ax, high, wide, title)
    for ax in axes[:2]:
        box(ax, 0, across, kernel, kernel, fill=False, edgecolor=INK, linewidth=2.5)
    lent = across + kernel - aligned
    box(axes[1], 0, aligned, rows, lent, facecolor=COLOURS[0], alpha=0.45, hatch="///", edgecolor="white", linewidth=0)
    axes[1].text(aligned + lent + 0.1, rows - 0.45, "lent to the left chunk", fontsize=9, va="center", color=INK)
    box(axes[2], 0, across // stride, 1, 1, fill=False, edgecolor=INK, linewidth=2.5)
    return figure


def regions(shape=(100, 180), chunk=16, levels=2):
    """Level 0 and two more; a region has one colour in all of them."""
    lengths = [tuple(-(-n // 2**level) for n in shape) for level in range(levels + 1)]
    figure, axes = plt.subplots(1, levels + 1, figsize=(11, 3.4), layout="constrained",
                                width_ratios=[wide for _, wide in lengths])
    for number, region in enumerate(numba_pool.pyramid_regions(shape, chunk, levels=levels)):
        for ax, (rows, columns) in zip(axes, (region.source, *region.targets)):
            place = rows.start, columns.start, rows.stop - rows.start, columns.stop - columns.start
            box(ax, *place, facecolor=COLOURS[number], alpha=0.4)
            box(ax, *place, fill=False, edgecolor=INK, linewidth=2)
    for level, (ax, (high, wide)) in enumerate(zip(axes, lengths)):
        for row in range(0, high, chunk):
            for column in range(0, wide, chunk):
                box(ax, row, column, min(chunk, high - row), min(chunk, wide - column), fill=False,
                    edgecolor="#777777", linewidth=0.7)
        frame(ax, high, wide, f"level {level}: {high} x {wide}")
    return figure


def main():
    for name, figure in {"clusters_window": windows(), "clusters_regions": regions()}.items():
        drawn = io.BytesIO()
        figure.savefig(drawn, dpi=80)
        Image.open(drawn).convert("RGB").quantize(64).save(HERE / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
