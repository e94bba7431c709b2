"""Min and sum pooling: twins of max and average pooling, through the same kernels."""

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded
from strategies import HALVES, INTEGERS, elements, laid_out

import numba_pool as nb

WINDOWS = [  # each a kernel of its own, or nearly
    ((2, 3, 14, 14), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((2, 40, 9, 9), {"kernel_size": 2}),
    ((1, 2, 20, 30), {"kernel_size": 7, "stride": 1, "padding": 3}),
    ((2, 3, 5, 5), {"kernel_size": 5}),
    ((8, 4, 40, 40), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 20, 16, 9), {"kernel_size": 6, "stride": 1, "padding": 3, "dilation": 1}),
    ((1, 2, 2, 9), {"kernel_size": 2, "dilation": 3, "padding": ((3, 3), (0, 3)), "stride": 1}),  # empty windows
]
KINDS = ("normal", "ties", "specials", "nan", "-inf")


def mirrored(x):
    return ~x if x.dtype.kind in "iu" else -x


def check(x, order, arguments):
    """Against the maximum of what was negated, by the plain loops."""
    y, indices = reference.max_pool(mirrored(x), **arguments, rank=2)
    given = laid_out(x, order, 2)
    for _ in range(2):  # the second time by the shortest way
        actual, where = nb.min_pool2d(given, **arguments, return_indices=True)
        alone = nb.min_pool2d(given, **arguments)
        assert_identical(where, indices)
        for result in (actual, alone):
            np.testing.assert_array_equal(result.astype(np.float64), mirrored(y).astype(np.float64))
            assert result.dtype == x.dtype


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("shape", "arguments"), [WINDOWS[i] for i in (0, 1, 2, 6)], ids=str)
def test_minima(shape, arguments, order):
    for kind in KINDS:
        check(elements(shape, "float32", kind, 0), order, arguments)


@pytest.mark.exhaustive
@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("shape", "arguments"), WINDOWS, ids=str)
def test_minima_of_every_kernel(shape, arguments, order):
    """That see what is mirrored where they load and store, as all do."""
    for kind in KINDS:
        check(elements(shape, "float32", kind, 0), order, arguments)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", [*HALVES, *INTEGERS, np.dtype("float64")], ids=str)
def test_minima_of_every_dtype(dtype, order):
    shape, arguments = WINDOWS[4] if order == "C" else WINDOWS[1]
    for kind in KINDS if dtype.kind not in "iu" else ("normal", "ties", "constant"):
        check(elements(shape, dtype, kind, 0), order, arguments)


def test_by_hand():
    x = np.array([[[3.0, 1.0, 1.0], [np.nan, 5.0, -0.0], [2.0, 7.0, np.nan]]], np.float32)
    y, indices = nb.min_pool2d(x, 2, 1, return_indices=True)
    np.testing.assert_array_equal(y, [[[np.nan, -0.0], [np.nan, np.nan]]])
    np.testing.assert_array_equal(indices, [[[3, 5], [3, 8]]])  # the first of equals, the last NaN
    y, indices = nb.min_pool1d(np.array([[4, 2, 2, 9]], np.float32), 4, return_indices=True)
    assert (y.item(), indices.item()) == (2, 1)
    y, indices = nb.min_pool1d(np.ones((1, 2), np.float32), 2, 1, dilation=4, padding=((4, 0),), return_indices=True)
    assert y[0, 0] in (1, np.inf)
    indices = np.array([[[3, 5], [3, -1]]], np.int32)
    g = nb.min_pool2d_backward(np.full((1, 2, 2), 2.0, np.float32), indices, x.shape)
    np.testing.assert_array_equal(g, [[[0, 0, 0], [4, 0, 2], [0, 0, 0]]])


def test_windows_that_hold_nothing():
    """Of floats, of integers with a sign and without; where columns are lanes, and where channels are, which compiles
    in half the time.
    """
    for dtype, most, channels in (("float32", np.inf, 1), ("int8", 127, 40), ("uint16", 2**16 - 1, 40)):
        x = laid_out(np.ones((1, channels, 3), dtype), "channels_last", 1)
        y, indices = nb.min_pool1d(x, 2, 1, padding=((4, 4),), dilation=4, return_indices=True)
        assert y.dtype == dtype
        assert (indices == -1).any()
        assert (y[indices == -1] == most).all()


def test_ranks_and_global_minima():
    x = elements((2, 3, 4, 5, 6), "float32", "ties", 0)
    y, indices = nb.min_pool3d(x, 2, return_indices=True)
    expected, where = reference.max_pool(-x, 2, rank=3)
    assert_identical(y, -expected)
    assert_identical(indices, where)
    y, indices = nb.global_min_pool(x, return_indices=True)
    assert (y.ravel() == x.min(axis=(2, 3, 4)).ravel()).all()
    assert (indices.ravel() == x.reshape(6, -1).argmin(axis=1)).all()
    assert (nb.global_min_pool(x) == y).all()
    g = nb.global_min_pool_backward(np.ones_like(y), indices, x.shape)
    assert g.sum() == 6
    assert (g.reshape(6, -1).argmax(axis=1) == indices.ravel()).all()


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("shape", "arguments"), [w for w in WINDOWS if w[0][0] != 1], ids=str)
def test_sums(shape, arguments, order):
    """An average by a divisor of 1; the gradient, too."""
    x = elements(shape, "float32", "normal", 0)
    expected = reference.avg_pool(x, **arguments, divisor_override=1, rank=2)
    y = nb.sum_pool2d(laid_out(x, order, 2), **arguments)
    assert_rounded(y, expected, reference.avg_pool(np.abs(x), **arguments, divisor_override=1, rank=2))
    g = elements(y.shape, "float32", "normal", 1)
    expected = reference.avg_pool_backward(g, x.shape, **arguments, divisor_override=1, rank=2)
    magnitude = reference.avg_pool_backward(np.abs(g), x.shape, **arguments, divisor_override=1, rank=2)
    assert_rounded(nb.sum_pool2d_backward(laid_out(g, order, 2), x.shape, **arguments), expected, magnitude)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_sums_of_integers_wrap(dtype):
    x = np.full((1, 1, 4), np.iinfo(dtype).max, dtype)
    with np.errstate(over="ignore"):
        assert_identical(nb.sum_pool1d(x, 2), x[..., ::2] + x[..., 1::2])
        assert_identical(nb.global_sum_pool(x), x.sum(axis=-1, keepdims=True, dtype=dtype))


def test_global_sums_and_their_gradients():
    x = elements((2, 3, 4, 5), "float64", "ties", 0)
    assert_identical(nb.global_sum_pool(x), x.sum(axis=(2, 3), keepdims=True))
    g = np.arange(6.0).reshape(2, 3, 1, 1)
    assert_identical(nb.global_sum_pool_backward(g, x.shape), np.broadcast_to(g, x.shape).copy())
