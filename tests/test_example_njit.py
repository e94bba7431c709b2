"""The training loop in compiled code, and the code on the page about it."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import numba_pool as nb

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))


def test_it_learns(capsys):
    pytest.importorskip("sklearn")
    import njit_training_loop

    assert njit_training_loop.main(["--epochs", "6"]) > 0.9  # a tenth is chance
    assert "epoch 6: " in capsys.readouterr().out


def test_gradients_are_those_of_differences():
    """Of the whole network, all weights: what `train_epoch` leaves in `grads` after one batch."""
    import njit_training_loop as example

    rng, batch, first, second = np.random.default_rng(0), 4, 2, 3
    plans = [nb.plan(nb.max_pool2d, (batch, c, n, n), np.float32, 2, return_indices=True)
             for c, n in ((first, 8), (second, 4))]
    stages = example.stage(plans[0], 1), example.stage(plans[1], first)
    images, labels = rng.standard_normal((batch, 1, 8, 8), np.float32), rng.integers(0, 10, batch)
    weights = rng.standard_normal(first * 9 + second * first * 9 + second * 4 * 10, np.float32) / 2

    def loss(weights):
        """In NumPy, and in float64."""
        layers, x = example.split.py_func(weights, first, second, 10), images
        for kernel in layers[:2]:
            x = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
            x = np.einsum("nchwij,kcij->nkhw", x, kernel)
            x = np.maximum(x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).max(axis=(3, 5)), 0)
        scores = x.reshape(batch, -1) @ layers[2]
        return np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(batch), labels])

    grads = np.zeros_like(weights)
    example.train_epoch(*plans, *stages, images, labels, np.float32(1e-30), np.float32(0), weights, grads,
                        np.zeros_like(weights))
    for i in range(weights.size):
        step = np.zeros(weights.size)
        step[i] = 1e-6
        np.testing.assert_allclose(grads[i], (loss(weights + step) - loss(weights - step)) / 2e-6, rtol=1e-4, atol=1e-6)


def test_the_code_in_the_documentation_runs(tmp_path):
    page = (ROOT / "docs" / "njit.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert blocks
    script = tmp_path / "page.py"  # Numba keeps on disk what is in a file
    script.write_text("\n".join(blocks))
    values = runpy.run_path(str(script))
    expected = nb.max_pool2d(values["images"], 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(values["pooled"], np.maximum(expected[0], 0))
    np.testing.assert_array_equal(
        values["gradient"], nb.max_pool2d_backward(np.ones_like(expected[0]), expected[1], values["images"].shape))
