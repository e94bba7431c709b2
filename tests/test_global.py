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


LENGTHS = (5, 15, 16, 17, 33, 49, 63, 64, 65, 100, 127, 128, 129, 193, 1000)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
@pytest.mark.parametrize("kind", ["ties", "zeros", "special", "lowest"])
def test_first_of_equals_of_runs_of_any_length(dtype, kind):
    """A maximum is looked for when it is known, among the elements of the step that it is from."""
    rng = np.random.default_rng(0)
    for length in LENGTHS:
        x = rng.integers(0, 90, (2, 19, length)).astype(dtype)
        x[rng.random(x.shape) < 2 / length] = 99  # none, one or several
        if np.dtype(dtype).kind != "f" and kind != "ties":
            x[...] = np.iinfo(dtype).min
        elif kind == "zeros":
            x = np.where(rng.random(x.shape) < 0.5, 0.0, -0.0).astype(dtype)
        elif kind == "special":
            x[rng.random(x.shape) < 2 / length] = np.inf
            x[rng.random(x.shape) < 1 / length] = np.nan
        elif kind == "lowest":
            x[...] = -np.inf
        y, indices = nb.max_pool1d(x, length, return_indices=True)
        nan = np.isnan(x)
        expected = np.where(nan.any(-1), length - 1 - nan[..., ::-1].argmax(-1), x.argmax(-1))[..., None]
        np.testing.assert_array_equal(indices, expected)
        assert_identical(y, np.take_along_axis(x, expected, -1))
        assert_same_maxima(nb.max_pool1d(x, length), y)


@pytest.mark.parametrize("columns", [16, 20, 70])
@pytest.mark.parametrize(("rows", "stride", "padding"), [(1, 1, 0), (3, 1, 1), (4, 3, 2), (2, 3, 0), (7, 7, (0, 6))])
def test_runs_of_several_rows(columns, rows, stride, padding):
    """Those at the ends are shorter."""
    pads = padding if isinstance(padding, tuple) else (padding, padding)
    for dtype in ("float32", "float64", "uint8"):
        x = elements((3, 5, 11, columns), np.dtype(dtype), "ties", 1)
        axes = reference.sliding(x.shape[2:], (rows, columns), (stride, 1), (pads, (0, 0)))
        y, indices = nb.max_pool2d(x, (rows, columns), (stride, 1), (pads, (0, 0)), return_indices=True)
        expected, expected_indices = reference.max_windows(x, axes)
        assert_identical(y, expected)
        assert_identical(indices, expected_indices)
        assert_same_maxima(nb.max_pool2d(x, (rows, columns), (stride, 1), (pads, (0, 0))), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("size", [(1, 25), (5, 5), (7, 7), (8, 8), (3, 41)])
def test_gradients_of_planes_that_are_one_window(size, dtype):
    rng = np.random.default_rng(0)
    g = elements((5, 7, 1, 1), np.dtype(dtype), "normal", 0)
    g[0, 0] = -0.0
    shape, plane = (5, 7, *size), size[0] * size[1]
    for spots in (np.zeros(35), np.full(35, plane - 1), rng.integers(0, plane, 35), np.arange(35) % (plane + 1) - 1):
        indices = spots.astype(np.int32).reshape(g.shape)
        expected = reference.scatter_add(np.where(indices < 0, 0, g).astype(dtype), np.maximum(indices, 0), shape, 2)
        assert_identical(nb.global_max_pool_backward(g, indices, shape), expected)
    for bad in (-2, plane, 2**31 - 1, -(2**31)):
        indices = np.zeros(g.shape, np.int32)
        indices[3, 6] = bad
        out = np.full(shape, 7, dtype)
        with pytest.raises(ValueError, match="indices must lie in"):
            nb.max_pool2d_backward(g, indices, shape, out=out)


def test_unpooled_planes_keep_a_negative_zero():
    y = nb.max_unpool2d(np.full((2, 3, 1, 1), -0.0, np.float32), np.full((2, 3, 1, 1), 8, np.int32), 6)
    assert np.signbit(y).sum() == 6
    assert np.signbit(y[:, :, 1, 2]).all()


def test_gradients_beyond_the_caches():
    indices = np.random.default_rng(0).integers(0, 211 * 211, (192, 1, 1, 1)).astype(np.int32)
    g = np.arange(1, 193, dtype=np.float32).reshape(indices.shape)
    expected = np.zeros((192, 211 * 211), np.float32)
    expected[np.arange(192), indices.ravel()] = g.ravel()
    assert_identical(nb.global_max_pool_backward(g, indices, (192, 1, 211, 211)), expected.reshape(192, 1, 211, 211))
    mean = nb.global_avg_pool_backward(g, (192, 1, 211, 211))
    assert_identical(mean, np.broadcast_to(g / np.float32(211 * 211), mean.shape).copy())


def test_planes_beyond_int32_are_rejected_with_indices():
    with pytest.raises(ValueError, match=r"plane|int32|indices"):
        nb.global_max_pool(np.broadcast_to(np.float32(0), (1, 1, 2**30, 2**30)), return_indices=True)
