"""Downsample a photo
==================

A photo, labels, missing values and a pyramid, by `numba_pool.coarsen` and `numba_pool.pyramid`.

    python examples/plot_downsample.py

An array is cut into blocks that do not overlap, and each block becomes one element.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import numba_pool

photo = load_sample_image("flower.jpg")  # (427, 640, 3), uint8
PIXELS = {0: 8, 1: 8}  # a block: 8 rows and 8 columns; the axis of colours is left alone


def show(name, panels, **options):
    """One row of pictures, each under its title."""
    figure, axes = plt.subplots(1, len(panels), num=name, figsize=(11, 2.3), layout="constrained")
    for ax, (title, picture) in zip(axes, panels.items()):
        ax.imshow(picture, interpolation="nearest", **options)
        ax.set_title(title, fontsize=10)
        ax.axis("off")
    return figure


# %%
# A photo
# -------
# 427 is no multiple of 8: the last blocks are shorter, and their means have divisors of their own. Nothing is padded.
# Every fiftieth pixel of this photo is broken, which the median does not notice.

rng = np.random.default_rng(0)
broken = photo.copy()
broken[rng.random(photo.shape[:2]) < 0.02] = 255
show("coarsen_image", {
    "427 x 640, broken pixels": broken,
    "mean": numba_pool.coarsen(broken, PIXELS, boundary="short"),
    "median": numba_pool.coarsen(broken, PIXELS, "median", boundary="short"),
    "min": numba_pool.coarsen(broken, PIXELS, "min", boundary="short"),
})

# %%
# Labels
# ------
# Each pixel belongs to something: 0 is the background, 1 the leaves, 2 the petals. The mean of a petal and the
# background is a leaf, which was not there. The mode is the most frequent label of the block.

red, green = photo[..., 0].astype(int), photo[..., 1].astype(int)
labels = np.where(red > green + 20, 2, np.where(green > 75, 1, 0)).astype(np.uint8)
show("coarsen_labels", {
    "background, leaves, petals": labels,
    "mean: leaves around petals": numba_pool.coarsen(labels, 16, boundary="short"),
    "mode": numba_pool.coarsen(labels, 16, "mode", boundary="short"),
    "mode, background ignored": numba_pool.coarsen(labels, 16, "mode", ignore=0, boundary="short"),
}, cmap="viridis", vmin=0, vmax=2)

# %%
# Missing values
# --------------
# Clouds are NaN, and so is every hundredth of the other pixels. The mean spreads each NaN over its block. `nanmean`
# leaves it out. With `min_count`, blocks with less than half of their pixels are missing themselves.

grey = photo.mean(-1, dtype=np.float32)
rows, columns = np.ogrid[:427, :640]
for row, column, radius in ((90, 120, 70), (130, 200, 60), (330, 520, 80)):
    grey[np.hypot(rows - row, columns - column) < radius] = np.nan
grey[rng.random(grey.shape) < 0.01] = np.nan
show("coarsen_missing", {
    "NaN is red": grey,
    "mean": numba_pool.coarsen(grey, 16, "mean", boundary="short"),
    "nanmean": numba_pool.coarsen(grey, 16, "nanmean", boundary="short"),
    "nanmean, min_count=128": numba_pool.coarsen(grey, 16, "nanmean", min_count=128, boundary="short"),
}, cmap=plt.get_cmap("gray").with_extremes(bad="#c44e00"))

# %%
# A pyramid
# ---------
# Each level is half as high and wide as the one before. Sums are carried from level to level, so that each level is
# rounded once, and equals the mean over blocks of the photo.

levels = numba_pool.pyramid(photo, axes=(0, 1), levels=5)
canvas = np.full((levels[0].shape[0], sum(level.shape[1] + 8 for level in levels), 3), 255, np.uint8)
begin = 0
for level in levels:
    canvas[-level.shape[0]:, begin : begin + level.shape[1]] = level
    begin += level.shape[1] + 8
figure, ax = plt.subplots(num="coarsen_pyramid", figsize=(11, 3.7), layout="constrained")
ax.imshow(canvas)
ax.set_title("   ".join(f"{level.shape[0]} x {level.shape[1]}" for level in levels), fontsize=10)
ax.axis("off")
plt.show()
