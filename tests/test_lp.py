"""Lp pooling against the reference, and cases to verify by hand."""

import random
import sys

import fences
import numpy as np
import pytest
import reference
import selection
from checks import assert_identical, unmodified
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from process import finish_all, start
from strategies import HALVES, arrays, elements, laid_out, windows

import numba_pool as nb
from numba_pool.kernels.powers import raise_all

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


LARGE = [  # more than one chunk of numbers, and rows beyond one
    (2, (2, 3, 70, 90), {"kernel_size": 3, "stride": 2, "padding": 1}),
    (2, (1, 2, 40, 150), {"kernel_size": 2, "stride": 2}),
    (2, (70, 3, 9, 11), {"kernel_size": 3, "stride": 1, "padding": ((1, 2), (0, 1)), "ceil_mode": True}),
    (1, (1, 2, 9000), {"kernel_size": 40, "stride": 3}),
    (1, (1, 1, 17000), {"kernel_size": 2, "stride": 1}),
    (3, (1, 2, 9, 31, 33), {"kernel_size": (3, 2, 5), "stride": (2, 2, 1), "padding": (1, 0, 2)}),
    (2, (1, 2, 33, 47), {"kernel_size": 3, "stride": 2, "padding": ((2, 2), (2, 1)), "dilation": (3, 2)}),
    # All of whose windows are cut off at the end, between two taps.
    (2, (1, 1, 8, 1000), {"kernel_size": 3, "stride": 1, "padding": "same", "dilation": 8}),
    (2, (1, 1, 8, 9000), {"kernel_size": 3, "stride": 1, "padding": "same", "dilation": 4}),
    (2, (1, 1, 6, 9000), {"kernel_size": (3, 1), "stride": 1, "padding": ((0, 1), (0, 0)), "dilation": (3, 1)}),
    (2, (1, 1, 700, 260), {"kernel_size": (699, 259), "stride": 1}),  # windows too large for a chunk
    (3, (1, 1, 60, 50, 70), {"kernel_size": (57, 50, 69), "stride": 2}),
]


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("rank", "shape", "windows"), LARGE, ids=str)
def test_large_shapes(rank, shape, windows, order):
    x = elements(shape, "float32", "normal", 0)
    given = laid_out(x, order, rank)
    # Any power takes the way of 1.7, those of small integers one each: for all of them a few shapes are enough.
    for p in (1, 2, 3, 1.7) if x.size < 13_000 or selection.exhaustive else (2, 1.7):
        expected = reference.lp_pool(x.astype(np.float64), p, **windows, rank=rank)
        y = POOL[rank](given, p, **windows)
        np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-12)
        g = elements(y.shape, "float32", "normal", 1)
        grad = BACKWARD[rank](laid_out(g, order, rank), given, y, p, **windows)
        expected = reference.lp_pool_backward(g.astype(np.float64), x.astype(np.float64), p, **windows, rank=rank)
        np.testing.assert_allclose(grad, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("rank", "shape", "windows"), LARGE, ids=str)
def test_the_same_bits_for_every_thread_count_order_and_batch(rank, shape, windows):
    x = elements(shape, "float32", "normal", 0)
    for p in (2, 1.7):
        with nb.threads(1):
            y = POOL[rank](x, p, **windows)
            grad = BACKWARD[rank](y, x, y, p, **windows)
        last = laid_out(x, "channels_last", rank)
        assert_identical(POOL[rank](x, p, **windows), y)
        assert_identical(POOL[rank](last, p, **windows), y)
        assert_identical(POOL[rank](x[-1], p, **windows), y[-1])
        assert_identical(BACKWARD[rank](y, x, y, p, **windows), grad)
        assert_identical(BACKWARD[rank](laid_out(y, "channels_last", rank), last, y, p, **windows), grad)
        assert_identical(BACKWARD[rank](y[-1], x[-1], y[-1], p, **windows), grad[-1])


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(
    ("dtype", "p", "sizes"),
    [
        ("float64", 2, (1e-200, 1e-170, 1e200, 5e-324)),
        ("float64", 3, (1e-150, 1e140, 1e-320)),
        ("float64", 0.5, (1e-300, 1e300)),
        ("float32", 8, (1e-40, 1e30, 1e-20)),
        ("float32", 20, (1e-45, 3e38, 1.0)),
        ("float16", 40, (6e-8, 6e4, 1e-3)),
    ],
)
def test_magnitudes_whose_powers_no_float64_holds(dtype, p, sizes, order):
    """Beside windows of ordinary ones, in the same rows; these are what they are alone."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1, (2, 3, 9, 32))
    usual = x.astype(dtype)
    for i, size in enumerate(sizes):
        x[1, i % 3, :, 4 * i + 2 : 4 * i + 4] *= size
    x[0, 0, 2:4, 4:8] = 0
    x = x.astype(dtype)
    y = nb.lp_pool2d(laid_out(x, order, 2), p, 2)
    wide = np.abs(x.astype(np.longdouble))  # of more digits in the exponent
    blocks = wide[:, :, :8].reshape(2, 3, 4, 2, 16, 2)
    largest = blocks.max((3, 5), keepdims=True)
    scaled = blocks / np.where(largest == 0, 1, largest)
    expected = largest[:, :, :, 0, :, 0] * (scaled**p).sum((3, 5)) ** (1 / np.longdouble(p))
    tolerance = {"float64": 1e-13, "float32": 1e-6, "float16": 1e-3}[dtype]
    tiny = {"float64": 5e-324, "float32": 2e-45, "float16": 6e-8}[dtype]
    np.testing.assert_allclose(y.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tiny)
    g = rng.uniform(1, 2, y.shape).astype(dtype)
    grad = nb.lp_pool2d_backward(laid_out(g, order, 2), laid_out(x, order, 2), y, p, 2)
    norm = y.astype(np.longdouble)[:, :, :, None, :, None]
    ratio = np.where((norm == 0) | (blocks == 0), 1, blocks) / np.where(norm == 0, 1, norm)
    share = np.where((norm == 0) | (blocks == 0), 0, ratio ** np.longdouble(p - 1))
    share = share * g.astype(np.longdouble)[:, :, :, None, :, None]
    expected = np.minimum(share.reshape(2, 3, 8, 32), np.finfo(dtype).max).astype(np.float64)
    np.testing.assert_allclose(grad[:, :, :8].astype(np.float64), expected, rtol=50 * tolerance, atol=tiny)
    assert (grad[:, :, 8:] == 0).all()
    alone = nb.lp_pool2d(laid_out(usual, order, 2), p, 2)
    assert_identical(y[1, :, :, 8:], alone[1, :, :, 8:])


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("narrow", [(0,), (1,), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_halves_beside_float32(narrow, dtype, order):
    """The gradient is of the first argument's dtype, whatever the others are."""
    x = elements((2, 3, 7, 9), "float32", "normal", 0)
    y = nb.lp_pool2d(x, 2, 3, 2)
    g = elements(y.shape, "float32", "normal", 1)
    given = [a.astype(dtype if i in narrow else "float32") for i, a in enumerate((g, x, y))]
    expected = nb.lp_pool2d_backward(*[a.astype(np.float32) for a in given], 2, 3, 2)
    actual = nb.lp_pool2d_backward(*[laid_out(a, order, 2) for a in given], 2, 3, 2)
    assert_identical(actual, expected.astype(given[0].dtype))
    given = [a.astype(HALVES[i % 2]) for i, a in enumerate((g, x, y))]  # of both sorts
    expected = nb.lp_pool2d_backward(*[a.astype(np.float32) for a in given], 2, 3, 2)
    assert_identical(nb.lp_pool2d_backward(*given, 2, 3, 2), expected.astype(HALVES[0]))


def test_powers():
    """Within 1e-9, from the smallest float32 to the largest, or exact; and of what is no number between them."""
    run = njit(lambda values, p, exact: raise_all(values, 0, values.size, p, exact))
    rng = np.random.default_rng(0)
    x = np.append(2.0 ** rng.uniform(-149, 128, 4000), [1.0, 2.0**-149, 2.0**0.5, np.nextafter(2.0**0.5, 2), 4.0])
    for p in (0, 1, 2, 3, 4, 0.5, 0.25, 1.5, -0.5, -1, -2, 1 / 3, 2.5, -1.7, 5, 6.8, -6.8, 0.01):
        for exact, within in ((True, 1e-15), (False, 1e-9)):
            values = np.concatenate((x, -x))
            run(values, float(p), exact)
            np.testing.assert_allclose(values, np.tile(x ** np.float64(p), 2), rtol=within)
            values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan] * 7)
            with np.errstate(divide="ignore"):
                expected = np.abs(values) ** np.float64(p)
            run(values, float(p), exact)
            np.testing.assert_array_equal(values, expected if p else np.ones(35))


@pytest.mark.parametrize(("shape", "windows"), [
    ((60, 6, 7, 7), {"kernel_size": 2}),
    ((3, 12, 10, 9), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ((2, 9, 5, 6), {"kernel_size": 2, "stride": 1, "dilation": (1, 2)}),
])
def test_lists_of_taps_give_what_rows_give(shape, windows):
    """Small planes, in groups, the last of which is short, and images of three channels have lists, but images of many
    channels have not; with powers that have no room, and a window of 0.
    """
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    x[0, 0, :3, :3], x[-1, -1, -2, 1], x[1, 0, 0, :2] = 0, np.inf, (1e30, 1e-30)
    for p in (2.0, 8.0):
        served = []
        for order, channels in (("C", shape[1]), ("channels_last", shape[1]), ("channels_last", 3)):
            parts = [laid_out(x[:, c : c + channels], order, 2) for c in range(0, shape[1], channels)]
            norms = [nb.lp_pool2d(part, p, **windows) for part in parts]
            grads = [nb.lp_pool2d_backward(laid_out(np.ones_like(y), order, 2), part, y, p, **windows)
                     for part, y in zip(parts, norms, strict=True)]
            served.append((np.concatenate(norms, 1), np.concatenate(grads, 1)))
        for others in served[1:]:
            for by_lists, by_others in zip(served[0], others, strict=True):
                assert_identical(by_lists, by_others)


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_a_window_that_passes_the_only_slice_over_is_empty(order):
    """Its taps lie in the padding before and behind."""
    x = laid_out(np.ones((1, 1, 1, 2, 2), np.float32), order, 3)
    y = nb.lp_pool3d(x, 2, (2, 2, 2), 1, padding=((1, 2), 0, 0), dilation=(3, 1, 1))
    assert y.shape == (1, 1, 1, 1, 1)
    assert y == 0


def between_fences(every_dtype):
    """On arrays and tables that nothing may be read or written beside."""
    rng = random.Random(0)
    for rank, shape, sort in LARGE:
        for order in ("C", "channels_last"):
            for dtype, p in (("float32", 3), ("float16", 1.5), ("float64", np.inf))[: None if every_dtype else 2]:
                x = laid_out(elements(shape, dtype, "normal", 0), order, rank)
                with fences.Fences(rng):
                    y = POOL[rank](x, p, **sort)
                    BACKWARD[rank](y, x, y, p, **sort)
    print("inside")


@pytest.mark.skipif(sys.platform != "linux", reason="memory protection as on Linux")
def test_nothing_beyond_the_arrays():
    assert finish_all([start(between_fences, selection.exhaustive)], timeout=900) == ["inside\n"]
