"""The pictures of docs/coarsen.md: those that examples/plot_downsample.py draws.

    python docs/pictures/coarsen.py             # writes docs/pictures/coarsen_*.png
"""

import io
import runpy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from PIL import Image

HERE = Path(__file__).resolve().parent


def main():
    runpy.run_path(str(HERE.parents[1] / "examples" / "plot_downsample.py"))
    for name in plt.get_figlabels():
        drawn = io.BytesIO()
        plt.figure(name).savefig(drawn, dpi=80)
        Image.open(drawn).convert("RGB").quantize(128).save(HERE / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
