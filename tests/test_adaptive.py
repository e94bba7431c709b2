"""Adaptive pooling against the reference, and cases to verify by hand."""

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, assert_same_maxima, is_channels_last, unmodified
from hypothesis import given
from hypothesis import strategies as st
from strategies import HALVES, INTEGERS, arrays, elements, laid_out, leading, lengths

import numba_pool as nb

MAX = {1: nb.adaptive_max_pool1d, 2: nb.adaptive_max_pool2d, 3: nb.adaptive_max_pool3d}
MAX_BACKWARD = {
    1: nb.adaptive_max_pool1d_backward, 2: nb.adaptive_max_pool2d_backward, 3: nb.adaptive_max_pool3d_backward,
}  # fmt: skip
AVG = {1: nb.adaptive_avg_pool1d, 2: nb.adaptive_avg_pool2d, 3: nb.adaptive_avg_pool3d}
AVG_BACKWARD = {
    1: nb.adaptive_avg_pool1d_backward, 2: nb.adaptive_avg_pool2d_backward, 3: nb.adaptive_avg_pool3d_backward,
}  # fmt: skip


@st.composite
def shapes(draw):
    """An input's shape and an output size: divisors of the length, longer than it, 0, None, one for all axes."""
    rank = draw(st.sampled_from((1, 2, 2, 3)))
    spatial = draw(lengths(rank, (1,) * rank))
    size = tuple(
        draw(
            st.one_of(
                st.sampled_from([n for n in range(1, length + 1) if length % n == 0]),
                st.integers(1, min(length, 9)),
                st.integers(length, length + 3),
                st.sampled_from((1, None, 0)),
            )
        )
        for length in spatial
    )
    if draw(st.integers(0, 3)) == 0:
        size = draw(st.integers(0, 7))
    return rank, (*draw(leading(int(np.prod(spatial)))), *spatial), size


@given(st.data())
def test_maximum(data):
    rank, shape, size = data.draw(shapes())
    x = data.draw(arrays(shape, rank))
    expected, expected_indices = reference.adaptive_max_pool(x.astype(x.dtype.newbyteorder("=")), size, rank=rank)
    with unmodified(x):
        y, indices = MAX[rank](x, size, True)
        alone = MAX[rank](x, size)
    assert_identical(y, expected)
    assert_identical(indices, expected_indices)
    assert_same_maxima(alone, expected)
    g = data.draw(arrays(y.shape, rank, kinds=("normal",), orders=("C", "channels_last")))
    with unmodified(g, indices):
        grad = MAX_BACKWARD[rank](g, indices, shape)
    assert_rounded(
        grad,
        reference.scatter_add(g, indices, shape, rank),
        reference.scatter_add(np.abs(g), indices, shape, rank),
    )


@given(st.data())
def test_average(data):
    rank, shape, size = data.draw(shapes())
    x = data.draw(arrays(shape, rank))
    with unmodified(x):
        y = AVG[rank](x, size)
    x = x.astype(x.dtype.newbyteorder("="))
    magnitude = np.where(np.isfinite(x), np.abs(x), 0)
    assert_rounded(
        y, reference.adaptive_avg_pool(x, size, rank=rank), reference.adaptive_avg_pool(magnitude, size, rank=rank)
    )
    g = data.draw(arrays(y.shape, rank, kinds=("normal", "ties")))
    with unmodified(g):
        grad = AVG_BACKWARD[rank](g, shape)
    g = g.astype(g.dtype.newbyteorder("="))
    assert_rounded(
        grad,
        reference.adaptive_avg_pool_backward(g, shape, y.shape[y.ndim - rank :], rank=rank),
        reference.adaptive_avg_pool_backward(np.abs(g), shape, y.shape[y.ndim - rank :], rank=rank),
    )


def test_by_hand():
    """5 elements in 3 windows: [0, 2), [1, 4), [3, 5), which overlap."""
    x = np.array([[1.0, 5.0, 5.0, 2.0, 0.0]])
    y, indices = nb.adaptive_max_pool1d(x, 3, return_indices=True)
    np.testing.assert_array_equal(y, [[5, 5, 2]])
    np.testing.assert_array_equal(indices, [[1, 1, 3]])
    np.testing.assert_array_equal(nb.adaptive_avg_pool1d(x, 3), [[3, 4, 1]])
    g = np.array([[6.0, 60.0, 600.0]])
    np.testing.assert_array_equal(nb.adaptive_max_pool1d_backward(g, indices, (1, 5)), [[0, 66, 0, 600, 0]])
    np.testing.assert_array_equal(nb.adaptive_avg_pool1d_backward(g, (1, 5)), [[3, 23, 20, 320, 300]])


def test_more_outputs_than_inputs_repeat():
    x = np.array([[1.0, 3.0]])
    np.testing.assert_array_equal(nb.adaptive_max_pool1d(x, 4), [[1, 1, 3, 3]])
    np.testing.assert_array_equal(nb.adaptive_avg_pool1d(x, 4), [[1, 1, 3, 3]])
    np.testing.assert_array_equal(nb.adaptive_avg_pool1d(x, 3), [[1, 2, 3]])


def test_none_keeps_an_axis_and_zero_empties_it():
    x = elements((2, 3, 5, 7), "float32", "normal", 0)
    for pool in (nb.adaptive_max_pool2d, nb.adaptive_avg_pool2d):
        assert_identical(pool(x, (None, 3)), pool(x, (5, 3)))
        assert_identical(pool(x, (None, None)), x)
        assert_identical(pool(x, (None,)), x)
        assert pool(x, 0).shape == (2, 3, 0, 0)
        assert pool(x, (2, 0)).shape == (2, 3, 2, 0)
    _, indices = nb.adaptive_max_pool2d(x, (0, 2), True)
    assert indices.shape == (2, 3, 0, 2)
    assert indices.dtype == np.int32
    g = np.zeros((2, 3, 0, 2), np.float32)
    assert_identical(nb.adaptive_max_pool2d_backward(g, indices, x.shape), np.zeros_like(x))
    assert_identical(nb.adaptive_avg_pool2d_backward(g, x.shape), np.zeros_like(x))


def test_averages_accept_no_channels():
    assert nb.adaptive_avg_pool2d(np.zeros((2, 0, 5, 5)), 2).shape == (2, 0, 2, 2)
    assert nb.adaptive_avg_pool1d(np.zeros((2, 0, 5)), 2).shape == (2, 0, 2)
    assert nb.adaptive_avg_pool3d(np.zeros((2, 0, 5, 5, 5)), 2).shape == (2, 0, 2, 2, 2)


def test_nan_and_ties():
    x = np.array([[np.nan, 1.0, np.nan, 2.0, 2.0, 1.0]])
    y, indices = nb.adaptive_max_pool1d(x, 2, True)
    np.testing.assert_array_equal(y, [[np.nan, 2]])
    np.testing.assert_array_equal(indices, [[2, 3]])
    np.testing.assert_array_equal(nb.adaptive_avg_pool1d(x, 2), [[np.nan, 5 / 3]])


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", [*HALVES, np.dtype("int8"), np.dtype("uint64")], ids=str)
def test_other_dtypes(dtype, order):
    x = laid_out(elements((2, 3, 6, 19), dtype, "normal", 0), order, 2)
    for size in ((3, 4), (2, 19)):
        y, indices = nb.adaptive_max_pool2d(x, size, True)
        expected, expected_indices = reference.adaptive_max_pool(x, size, rank=2)
        assert_identical(y, expected)
        assert_identical(indices, expected_indices)
        if dtype in HALVES:
            wide = nb.adaptive_avg_pool2d(x.astype(np.float32), size)
            assert_identical(nb.adaptive_avg_pool2d(x, size), wide.astype(dtype))
            grad = nb.adaptive_avg_pool2d_backward(wide.astype(dtype).astype(np.float32), x.shape)
            assert_identical(nb.adaptive_avg_pool2d_backward(wide.astype(dtype), x.shape), grad.astype(dtype))


@pytest.mark.parametrize("dtype", INTEGERS[1:6:2], ids=str)
def test_integer_averages_truncate(dtype):
    x = np.random.default_rng(0).integers(-50 * (dtype.kind == "i"), 51, (2, 3, 7, 9)).astype(dtype)
    assert_identical(nb.adaptive_avg_pool2d(x, (3, 4)), reference.adaptive_avg_pool(x, (3, 4), rank=2))


@pytest.mark.parametrize("size", [(2, 3), (6, 5), (4, 4), 1])
def test_memory_order_of_the_result(size):
    x = laid_out(elements((2, 3, 6, 5), "float32", "normal", 0), "channels_last", 2)
    y, indices = nb.adaptive_max_pool2d(x, size, True)
    for result in (y, indices, nb.adaptive_max_pool2d(x, size), nb.adaptive_avg_pool2d(x, size)):
        assert is_channels_last(result, 2)


def test_planes_beyond_int32_are_rejected_with_indices():
    x = np.broadcast_to(np.float32(0), (1, 1, 2**30, 2**30))
    with pytest.raises(ValueError, match=r"plane|int32|indices"):
        nb.adaptive_max_pool2d(x, 2, return_indices=True)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("shape", "size"), [((1, 2, 3, 3), (2, 0)), ((40, 40, 3, 3), (2, 0)), ((3, 2, 4), 0)])
def test_output_without_columns(shape, size, last):
    x = np.ones(shape, np.float32)
    x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if last else x
    expected = (*shape[:2], *np.broadcast_to(size, len(shape) - 2))
    rank = len(shape) - 2
    assert MAX[rank](x, size).shape == AVG[rank](x, size).shape == expected
