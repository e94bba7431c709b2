"""Averages of windows of 32 columns and more at stride 1, and their gradients: the same bits in every memory order."""

import numpy as np
import pytest
import reference
from checks import assert_identical
from strategies import laid_out

import numba_pool as nb
from numba_pool.kernels.rows import LINE

CASES = [  # channels, columns, window, and more; more than 32 channels are taken in parts, the last of which reach back
    (1, 200, 32, {}),
    (3, 90, 33, {"padding": 16, "count_include_pad": False}),
    (2, 120, 63, {"padding": ((62, 5),)}),
    (33, 100, 37, {}),
    (40, 2 * LINE // 32, 64, {}),  # several chunks of a row
    (1, 8 * LINE, 127, {}),
]


@pytest.mark.parametrize(("channels", "columns", "window", "more"), CASES)
def test_averages_and_gradients(channels, columns, window, more):
    x = np.random.default_rng(0).standard_normal((2, channels, columns), dtype=np.float32)
    y = nb.avg_pool1d(x, window, 1, **more)
    assert_identical(nb.avg_pool1d(laid_out(x, "channels_last", 1), window, 1, **more), y)
    (before, after) = (more.get("padding", ((0, 0),)) * 2)[0] if not isinstance(more.get("padding"), int) else (16, 16)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (before, after)))
    inside = np.pad(np.ones(columns), (before, after), constant_values=more.get("count_include_pad", True))
    windows = np.lib.stride_tricks.sliding_window_view
    counts = windows(inside, window).sum(-1)
    np.testing.assert_allclose(y, windows(padded, window, -1).sum(-1) / counts, rtol=1e-6, atol=1e-8)
    grad = np.random.default_rng(1).standard_normal(y.shape, dtype=np.float32)
    back = nb.avg_pool1d_backward(grad, x.shape, window, 1, **more)
    assert_identical(nb.avg_pool1d_backward(laid_out(grad, "channels_last", 1), x.shape, window, 1, **more), back)
    spread = np.pad(grad / counts, ((0, 0), (0, 0), (window - 1, window - 1)))
    expected = windows(spread, window, -1).sum(-1)[..., before : before + columns]
    np.testing.assert_allclose(back, expected, rtol=1e-5, atol=1e-7)


def test_planes_with_dilation():
    x = np.random.default_rng(0).standard_normal((2, 2, 5, 150), dtype=np.float32)
    arguments = {"kernel_size": (2, 33), "stride": 1, "padding": ((1, 0), (3, 40)), "dilation": (2, 3)}
    y = nb.avg_pool2d(x, **arguments)
    np.testing.assert_allclose(y, reference.avg_pool(x, **arguments, rank=2), rtol=1e-5, atol=1e-7)
    assert_identical(nb.avg_pool2d(laid_out(x, "channels_last", 2), **arguments), y)


def test_nothing_leaves_its_window():
    """What is not a number, or as large as there is, is in the windows that hold it, and in no other."""
    x = np.ones((1, 1, 300), np.float32)
    x[..., [100, 250]] = np.nan, np.inf
    y = nb.avg_pool1d(x, 40, 1)[0, 0]
    assert np.flatnonzero(np.isnan(y)).tolist() == list(range(61, 101))
    assert np.flatnonzero(np.isinf(y)).tolist() == list(range(211, 251))
    assert (y[np.isfinite(y)] == 1).all()


def test_sums_do_not_drift():
    """Far from zero after a large element has come and gone."""
    x = np.full((1, 1, 20_000), 3.0, np.float32)
    x[..., 5] = 1e30
    assert (nb.avg_pool1d(x, 1001, 1)[..., 6:] == 3).all()
