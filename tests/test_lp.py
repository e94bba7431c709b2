"""Lp pooling against the reference, and cases to verify by hand."""

import numpy as np
import pytest
import reference
from checks import assert_identical, unmodified
from hypothesis import given
from hypothesis import strategies as st
from strategies import HALVES, arrays, elements, laid_out, windows

import numba_pool as nb

POOL = {1: nb.lp_pool1d, 2: nb.lp_pool2d, 3: nb.lp_pool3d}
BACKWARD = {1: nb.lp_pool1d_backward, 2: nb.lp_pool2d_backward, 3: nb.lp_pool3d_backward}
TOLERANCE = {"float32": {"rtol": 2e-5, "atol": 1e-6}, "float64": {"rtol": 1e-12, "atol": 1e-13}}


@given(st.data(), st.sampled_from((1, 2, 3, 4, 2.0, 1.5, 0.5, np.inf)))
def test_values(data, p):
    w = data.draw(windows())
    x = data.draw(arrays(w.shape, w.rank, kinds=("normal", "ties", "constant", "signed zeros")))
    with unmodified(x):
        y = POOL[w.rank](x, p, **w.arguments)
    expected = reference.lp_pool(x.astype(x.dtype.newbyteorder("=")), p, **w.arguments, rank=w.rank)
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y, expected, **TOLERANCE[y.dtype.name])


@given(st.data(), st.sampled_from((1, 2, 3, 2.5)))
def test_backward(data, p):
    w = data.draw(windows())
    x = data.draw(arrays(w.shape, w.rank, kinds=("normal", "ties", "signed zeros")))
    native = x.astype(x.dtype.newbyteorder("="))
    y = reference.lp_pool(native, p, **w.arguments, rank=w.rank)
    g = data.draw(arrays(y.shape, w.rank, dtypes=(native.dtype,), kinds=("normal",), orders=("C", "channels_last")))
    with unmodified(g, x, y):
        grad = BACKWARD[w.rank](g, x, y, p, **w.arguments)
    assert grad.dtype == native.dtype
    expected = reference.lp_pool_backward(g, native, p, **w.arguments, rank=w.rank)
    np.testing.assert_allclose(grad, expected, **TOLERANCE[native.dtype.name])


def test_by_hand():
    x = np.array([[[3.0, 0.0], [0.0, -4.0]]])
    for p, y in ((2, 5.0), (1, 7.0), (np.inf, 4.0), (-np.inf, 0.0), (0.5, 3 + 4 + 2 * 12**0.5)):
        np.testing.assert_allclose(nb.lp_pool2d(x, p, 2), [[[y]]], rtol=1e-15)
    grad = nb.lp_pool2d_backward(np.array([[[10.0]]]), x, np.array([[[5.0]]]), 2, 2)
    np.testing.assert_allclose(grad, [[[6, 0], [0, -8]]], rtol=1e-15)
    grad = nb.lp_pool2d_backward(np.array([[[10.0]]]), x, np.array([[[7.0]]]), 1, 2)
    np.testing.assert_allclose(grad, [[[10, 0], [0, -10]]], rtol=1e-15)


def test_overhanging_windows_are_not_inflated():
    """Torch multiplies the sum of an overhanging window up to the full window's size."""
    x = np.array([[3.0, 4.0, 2.0]])
    np.testing.assert_allclose(nb.lp_pool1d(x, 2, 2, ceil_mode=True), [[5, 2]], rtol=1e-15)


def test_odd_powers_take_the_absolute_value():
    x = np.array([[-1.0, -2.0]])
    np.testing.assert_allclose(nb.lp_pool1d(x, 3, 2), [[9 ** (1 / 3)]], rtol=1e-15)
    np.testing.assert_allclose(nb.lp_pool1d(x, 1.5, 2), [[(1 + 2**1.5) ** (1 / 1.5)]], rtol=1e-15)


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1e30), ("float32", 1e-30), ("float64", 1e200)])
def test_powers_beyond_the_dtype_have_norms_within_it(dtype, scale):
    x = np.array([[3 * scale, 4 * scale]], dtype)
    y = nb.lp_pool1d(x, 2, 2)
    np.testing.assert_allclose(y, [[5 * scale]], rtol=3e-7)
    np.testing.assert_allclose(nb.lp_pool1d_backward(np.ones_like(y), x, y, 2, 2), [[0.6, 0.8]], rtol=3e-7)


def test_infinite_powers_are_the_extremes_of_the_magnitude():
    x = np.array([[-1.0, 3.0, -5.0, 2.0]])
    np.testing.assert_array_equal(nb.lp_pool1d(x, np.inf, 2), [[3, 5]])
    np.testing.assert_array_equal(nb.lp_pool1d(x, -np.inf, 2), [[1, 2]])
    g = np.array([[10.0, 100.0]])
    grad = nb.lp_pool1d_backward(g, x, np.array([[3.0, 5.0]]), np.inf, 2)
    np.testing.assert_array_equal(grad, [[0, 10, -100, 0]])
    grad = nb.lp_pool1d_backward(g, x, np.array([[1.0, 2.0]]), -np.inf, 2)
    np.testing.assert_array_equal(grad, [[-10, 0, 0, 100]])


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_zero_windows_have_no_gradient(p, dtype):
    x = np.zeros((1, 2, 4, 4), dtype)
    y = nb.lp_pool2d(x, p, 2)
    assert_identical(y, np.zeros((1, 2, 2, 2), dtype))
    assert_identical(nb.lp_pool2d_backward(y + 1, x, y, p, 2), x)


@pytest.mark.parametrize("p", [1, 2, 3, 2.5])
def test_nan_stays_in_its_window(p):
    x = np.array([[1.0, np.nan, 2.0, 2.0, -np.inf, 0.0]])
    y = nb.lp_pool1d(x, p, 2)
    np.testing.assert_allclose(y, [[np.nan, (2 * 2.0**p) ** (1 / p), np.inf]])


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_halves_are_float32_results_rounded_once(dtype, order):
    x = laid_out(elements((2, 3, 7, 9), dtype, "normal", 0), order, 2)
    for p in (1, 2, 3):
        wide = nb.lp_pool2d(x.astype(np.float32), p, 3, 2)
        y = nb.lp_pool2d(x, p, 3, 2)
        assert_identical(y, wide.astype(dtype))
