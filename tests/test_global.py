"""Global pooling: every plane becomes one element."""

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, assert_same_maxima, unmodified
from hypothesis import given
from hypothesis import strategies as st
from strategies import HALVES, INTEGERS, arrays, elements, laid_out, leading, lengths

import numba_pool as nb


@given(st.data())
def test_against_the_reference(data):
    rank = data.draw(st.sampled_from((1, 2, 2, 3)))
    spatial = data.draw(lengths(rank, (1,) * rank))
    lead = data.draw(leading(int(np.prod(spatial))).filter(lambda n: len(n) == 2))
    x = data.draw(arrays((*lead, *spatial), rank))
    native = x.astype(x.dtype.newbyteorder("="))
    with unmodified(x):
        y, indices = nb.global_max_pool(x, return_indices=True)
        alone = nb.global_max_pool(x)
        mean = nb.global_avg_pool(x)
    expected, expected_indices = reference.max_windows(native, reference.whole(spatial))
    assert y.shape == (*lead, *(1,) * rank)
    assert_identical(y, expected)
    assert_identical(indices, expected_indices)
    assert_same_maxima(alone, expected)
    magnitude = np.where(np.isfinite(native), np.abs(native), 0)
    assert_rounded(
        mean,
        reference.avg_windows(native, reference.whole(spatial)),
        reference.avg_windows(magnitude, reference.whole(spatial)),
    )
    g = data.draw(arrays(y.shape, rank, kinds=("normal", "ties"), orders=("C", "channels_last")))
    with unmodified(g, indices):
        assert_identical(
            nb.global_max_pool_backward(g, indices, x.shape), reference.scatter_add(g, indices, x.shape, rank)
        )
        expected = reference.avg_windows_backward(g, x.shape, reference.whole(spatial))
        assert_rounded(nb.global_avg_pool_backward(g, x.shape), expected, np.abs(expected))


def test_by_hand():
    x = np.array([[[[1.0, 2.0], [2.5, 0.5]], [[0.0, 0.0], [0.0, 8.0]]]])
    y, indices = nb.global_max_pool(x, True)
    np.testing.assert_array_equal(y, [[[[2.5]], [[8]]]])
    np.testing.assert_array_equal(indices, [[[[2]], [[3]]]])
    np.testing.assert_array_equal(nb.global_avg_pool(x), [[[[1.5]], [[2]]]])
    g = np.array([[[[4.0]], [[8.0]]]])
    np.testing.assert_array_equal(
        nb.global_max_pool_backward(g, indices, x.shape), [[[[0, 0], [4, 0]], [[0, 0], [0, 8]]]]
    )
    np.testing.assert_array_equal(nb.global_avg_pool_backward(g, x.shape), [[[[1, 1], [1, 1]], [[2, 2], [2, 2]]]])


def test_nan_and_ties():
    x = np.array([[[np.nan, np.inf, np.nan, 0.0], [1.0, 3.0, 3.0, 2.0], [-np.inf] * 4]])
    y, indices = nb.global_max_pool(x, return_indices=True)
    np.testing.assert_array_equal(y[0, :, 0], [np.nan, 3, -np.inf])
    np.testing.assert_array_equal(indices[0, :, 0], [2, 1, 0])


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", [*HALVES, *INTEGERS[::3]], ids=str)
def test_other_dtypes(dtype, order):
    x = laid_out(elements((2, 3, 5, 7), dtype, "normal", 0), order, 2)
    y, indices = nb.global_max_pool(x, return_indices=True)
    expected, expected_indices = reference.max_windows(x, reference.whole((5, 7)))
    assert_identical(y, expected)
    assert_identical(indices, expected_indices)
    if dtype in HALVES:
        wide = nb.global_avg_pool(x.astype(np.float32))
        assert_identical(nb.global_avg_pool(x), wide.astype(dtype))
        grad = nb.global_avg_pool_backward(wide.astype(dtype).astype(np.float32), x.shape)
        assert_identical(nb.global_avg_pool_backward(wide.astype(dtype), x.shape), grad.astype(dtype))
    else:
        x = np.clip(x, 0 if dtype.kind == "u" else -100, 100)
        assert_identical(nb.global_avg_pool(x), reference.avg_windows(x, reference.whole((5, 7))))


def test_planes_beyond_int32_are_rejected_with_indices():
    with pytest.raises(ValueError, match=r"plane|int32|indices"):
        nb.global_max_pool(np.broadcast_to(np.float32(0), (1, 1, 2**30, 2**30)), return_indices=True)
