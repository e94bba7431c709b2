"""The receptive field of a small network
======================================

How much of the input one output sees: worked out layer by layer, and measured by a gradient.

    python examples/receptive_field.py

Three times a 3x3 convolution and a 2x2 pool. Each layer adds (kernel - 1) * jump to the receptive field r, where the
jump is how many pixels of the input lie between neighbours; then the stride multiplies the jump. The measure: sums in
the place of all layers, a gradient of 1 at one output, and where it arrives. Each input gets the number of paths from
it to the output, since paths add where windows overlap.
"""

import argparse
from pathlib import Path

import numpy as np
import plots
import translation_invariance
from data import load_bundled
from plots import BLUE, ORANGE, plt

import numba_pool

LAYERS = [(f"{kind} {block}", kernel, stride) for block in (1, 2, 3)
          for kind, kernel, stride in (("conv", 3, 1), ("pool", 2, 2))]  # fmt: skip
SIDE = 38  # of the input: the field of the middle one of 3x3 outputs lies in its middle


def receptive_fields(layers):
    """(r, jump) after each of the layers (name, kernel, stride)."""
    r, jump, found = 1, 1, []
    for _, kernel, stride in layers:
        r += (kernel - 1) * jump
        jump *= stride
        found.append((r, jump))
    return found


def paths(layers, side=SIDE):
    """(side, side): the number of paths from each input to an output in the middle."""
    sums = [numba_pool.SumPool2d(kernel, stride) for _, kernel, stride in layers]
    y = np.ones((1, side, side))
    for layer in sums:
        y = layer(y)
    gradient = np.zeros_like(y)
    gradient[0, y.shape[1] // 2, y.shape[2] // 2] = 1
    for layer in reversed(sums):
        gradient = layer.backward(gradient)
    return gradient[0]


def extent(counts):
    """(first, last) row that has a path."""
    rows = np.flatnonzero(counts.any(axis=1))
    return int(rows[0]), int(rows[-1])


def draw(layers, image):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11.5, 3.9), layout="constrained")
    deepest = paths(layers)
    begin, end = extent(deepest)
    centre = (begin + end) / 2
    left.imshow(image, cmap="gray_r", vmin=0, vmax=2.2)
    middle.imshow(np.where(deepest, deepest, np.nan), cmap="viridis")
    middle.set_facecolor("0.92")
    colours = plt.colormaps["plasma"](np.linspace(0, 0.85, len(layers)))
    fields = receptive_fields(layers)
    for (name, *_), (r, _), colour in zip(layers, fields, colours, strict=True):
        corner = centre - r / 2
        left.add_patch(plt.Rectangle((corner, corner), r, r, fill=False, edgecolor=colour, linewidth=2,
                                     label=f"{r}x{r}: {name}"))  # fmt: skip
    left.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9, frameon=False, handlelength=1)
    left.set_title("what one output of each layer sees", fontsize=10.5)
    middle.set_title(f"paths from each pixel to one output: 1 to {deepest.max():,.0f}", fontsize=10.5)
    for ax in (left, middle):
        ax.set(xticks=[], yticks=[])
    places = np.arange(len(layers) + 1)
    convolutions = [number for number, (name, *_) in enumerate(layers) if name.startswith("conv")]
    alone = [1, *(r for r, _ in receptive_fields([layers[number] for number in convolutions]))]
    right.plot(places, [1, *(r for r, _ in fields)], "o-", color=BLUE, label="convolutions and pools")
    right.plot([0, *(number + 1 for number in convolutions)], alone, "s-", color=ORANGE, label="the convolutions alone")
    right.set(title="receptive field", ylim=(0, None))
    right.title.set_fontsize(10.5)
    right.set_xticks(places, ["input", *(name for name, *_ in layers)], rotation=45, ha="right")
    right.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False, fontsize=9)
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("plots/receptive_field.png"), metavar="FILE.png")
    options = parser.parse_args(arguments)
    print("layer   kernel  stride  jump  receptive field  measured  most paths")
    for count, ((name, kernel, stride), (r, jump)) in enumerate(zip(LAYERS, receptive_fields(LAYERS), strict=True), 1):
        counts = paths(LAYERS[:count])
        begin, end = extent(counts)
        print(f"{name}  {kernel:6}  {stride:6}  {jump:4}  {r:15}  {end - begin + 1:8}  {counts.max():10,.0f}")
    digit = translation_invariance.enlarge(load_bundled().test_images[:1])[0, 0]
    image = np.pad(digit, (SIDE - len(digit)) // 2)
    plots.save(draw(LAYERS, image), options.output)
    print(f"picture:  {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
