"""One digit through each pool
===========================

A handwritten 8x8 digit, pooled by its maximum, its average and its L2 norm.

    python examples/plot_a_digit.py

Small windows that do not overlap make it smaller. Windows at stride 1 with a padding of half a window keep its size.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import numba_pool

digit = load_digits().images[5][np.newaxis].astype(np.float32)  # (C, H, W), one channel

# %%
# Forward
# -------
# Each of these is one call. The 8x8 digit becomes 4x4 in the first row, and stays 8x8 in the second.

pooled = {
    "max, 2x2": numba_pool.max_pool2d(digit, 2),
    "average, 2x2": numba_pool.avg_pool2d(digit, 2),
    "L2 norm, 2x2": numba_pool.lp_pool2d(digit, 2, 2),
    "max, 3x3, stride 1": numba_pool.max_pool2d(digit, 3, stride=1, padding=1),
    "average, 3x3, stride 1": numba_pool.avg_pool2d(digit, 3, stride=1, padding=1),
    "L2 norm, 3x3, stride 1": numba_pool.lp_pool2d(digit, 2, 3, stride=1, padding=1),
}

figure, axes = plt.subplots(2, 4, figsize=(10, 5))
for ax, (title, y) in zip([*axes[0, 1:], *axes[1, 1:]], pooled.items()):
    ax.imshow(y[0], cmap="gray_r")
    ax.set_title(title, fontsize=10)
axes[0, 0].imshow(digit[0], cmap="gray_r")
axes[0, 0].set_title("the digit", fontsize=10)
for ax in axes.flat:
    ax.axis("off")

# %%
# Backward
# --------
# A gradient of ones at the output. The maximum sends each to one pixel, the average to all four pixels of the window.

layers = {"max, 2x2": numba_pool.MaxPool2d(2), "average, 2x2": numba_pool.AvgPool2d(2)}
figure, axes = plt.subplots(1, 2, figsize=(5, 2.8))
for ax, (title, layer) in zip(axes, layers.items()):
    y = layer(digit)
    ax.imshow(layer.backward(np.ones_like(y))[0], cmap="gray_r", vmin=0, vmax=1)
    ax.set_title(f"gradient, {title}", fontsize=10)
    ax.axis("off")
plt.show()
