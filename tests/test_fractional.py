"""Fractional max pooling against the reference, and cases to verify by hand."""

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, unmodified
from hypothesis import given
from hypothesis import strategies as st
from strategies import HALVES, arrays, elements, laid_out, leading

import numba_pool as nb

POOL = {2: nb.fractional_max_pool2d, 3: nb.fractional_max_pool3d}
BACKWARD = {2: nb.fractional_max_pool2d_backward, 3: nb.fractional_max_pool3d_backward}


@given(st.data())
def test_values_and_indices(data):
    rank = data.draw(st.sampled_from((2, 2, 3)))
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    size = tuple(data.draw(st.integers(1, 9 if rank == 2 else 4)) for _ in range(rank))
    spatial = tuple(o + k - 1 + data.draw(st.integers(0, 9)) for o, k in zip(size, kernel, strict=True))
    shape = (*data.draw(leading(int(np.prod(spatial)))), *spatial)
    x = data.draw(arrays(shape, rank))
    native = x.astype(x.dtype.newbyteorder("="))
    batch = shape[0] if len(shape) == rank + 2 else 1
    u = np.random.default_rng(data.draw(st.integers(0, 99))).random((batch, shape[-rank - 1], rank))
    u = np.where(data.draw(st.booleans()), u, np.floor(4 * u) / 4).astype(native.dtype)
    if u.dtype == np.float32:
        u = np.minimum(u, np.nextafter(np.float32(1), np.float32(0)))  # rounding up leaves [0, 1)
    expected, expected_indices = reference.fractional_max(native, kernel, size, u)
    with unmodified(x, u):
        y, indices = POOL[rank](x, kernel, size, return_indices=True, random_samples=u)
        alone = POOL[rank](x, kernel, size, random_samples=u)
    assert_identical(y, expected)
    assert_identical(indices, expected_indices)
    assert_identical(alone, expected)
    g = data.draw(arrays(y.shape, rank, kinds=("normal",), orders=("C", "channels_last")))
    with unmodified(g, indices):
        grad = BACKWARD[rank](g, indices, shape)
    assert_rounded(
        grad,
        reference.scatter_add(g, indices, shape, rank),
        reference.scatter_add(np.abs(g), indices, shape, rank),
    )


def test_by_hand():
    """L=7, k=2, O=3, alpha=5/2. u=0: 0, int(2.5)=2, 5. u=0.5: the same less int(1.25). u=0.25: 0, int(3.125)=3, 5."""
    x = np.arange(7.0)
    plane = x[:, None] * 10 + x
    for u, starts in ((0.0, (0, 2, 5)), (0.5, (0, 2, 5)), (0.25, (0, 3, 5))):
        samples = np.full((1, 1, 2), float(u))
        y, indices = nb.fractional_max_pool2d(
            plane[None, None], 2, 3, return_indices=True, random_samples=samples
        )
        last = np.array(starts) + 1
        np.testing.assert_array_equal(y[0, 0], last[:, None] * 10 + last)
        np.testing.assert_array_equal(indices[0, 0], last[:, None] * 7 + last)


def test_first_sample_drives_the_width_in_2d_and_the_depth_in_3d():
    x = np.zeros((1, 1, 7, 7)) + np.arange(7.0)
    u = np.array([[[0.25, 0.0]]])
    np.testing.assert_array_equal(nb.fractional_max_pool2d(x, 2, 3, random_samples=u)[0, 0, 0], [1, 4, 6])
    np.testing.assert_array_equal(nb.fractional_max_pool2d(x, 2, 3, random_samples=u[..., ::-1])[0, 0, 0], [1, 3, 6])
    x = np.zeros((1, 1, 7, 7, 7)) + np.arange(7.0)
    for axis in range(3):
        u = np.zeros((1, 1, 3))
        u[..., axis] = 0.25
        y = nb.fractional_max_pool3d(np.ascontiguousarray(np.moveaxis(x, -1, axis + 2)), 2, 3, random_samples=u)
        np.testing.assert_array_equal(np.moveaxis(y, axis + 2, -1)[0, 0, 0, 0], [1, 4, 6])


def test_every_plane_has_its_own_windows():
    x = np.broadcast_to(np.arange(7.0), (2, 2, 7, 7))
    u = np.zeros((2, 2, 2))
    u[1, 0, 0] = u[0, 1, 0] = 0.25
    y = nb.fractional_max_pool2d(x, 2, 3, random_samples=u)
    np.testing.assert_array_equal(y[:, :, 0], [[[1, 3, 6], [1, 4, 6]], [[1, 4, 6], [1, 3, 6]]])


def test_sequences_are_computed_in_the_dtype_of_the_input():
    """u * alpha rounds up to an integer in float32 but not in float64 for some of these."""
    rng = np.random.default_rng(0)
    differ = 0
    for dtype in (np.float32, np.float64):
        for length, outputs in ((10, 4), (11, 8), (24, 10), (50, 12)):
            u = (rng.integers(0, 64, (1, 40, 2)) * (outputs - 1) / (length - 2) % 1).astype(dtype)
            x = np.broadcast_to(np.arange(length, dtype=dtype), (1, 40, length, length))
            y = nb.fractional_max_pool2d(x, 2, outputs, random_samples=u)
            expected = [reference.fractional_starts(length, 2, outputs, s, np.dtype(dtype)) for s in u[0, :, 0]]
            np.testing.assert_array_equal(y[0, :, 0], np.array(expected) + 1)
            if dtype == np.float32:
                wide = [reference.fractional_starts(length, 2, outputs, s, np.dtype("float64")) for s in u[0, :, 0]]
                differ += np.not_equal(expected, wide).any()
    assert differ


def test_one_output_takes_the_last_window():
    x = np.arange(5.0)[None, None, None, :] + np.zeros((1, 1, 5, 1))
    np.testing.assert_array_equal(nb.fractional_max_pool2d(x, 2, 1, random_samples=np.zeros((1, 1, 2))), [[[[4]]]])
    assert nb.fractional_max_pool2d(x, 5, 1).item() == 4
    assert nb.fractional_max_pool3d(np.ones((1, 1, 3, 3, 3)), (3, 2, 1), (1, 2, 3)).shape == (1, 1, 1, 2, 3)


def test_output_ratio():
    x = elements((2, 3, 9, 11), "float32", "normal", 0)
    u = np.random.default_rng(0).random((2, 3, 2), dtype=np.float32)
    expected = nb.fractional_max_pool2d(x, 2, (4, 7), random_samples=u)
    assert_identical(nb.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.7), random_samples=u), expected)
    assert nb.fractional_max_pool2d(x, 2, output_ratio=0.5).shape == (2, 3, 4, 5)


def test_random_numbers_come_from_the_generator():
    x = elements((2, 3, 20, 20), "float64", "normal", 0)
    first = nb.fractional_max_pool2d(x, 2, 8, rng=np.random.default_rng(3))
    assert_identical(nb.fractional_max_pool2d(x, 2, 8, rng=np.random.default_rng(3)), first)
    rng = np.random.default_rng(3)
    draws = [nb.fractional_max_pool2d(x, 2, 8, rng=rng) for _ in range(5)]
    assert_identical(draws[0], first)
    assert any(not np.array_equal(first, y) for y in draws)
    # without a generator the windows still change from call to call, and NumPy's global state is left alone
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    assert any(not np.array_equal(first, nb.fractional_max_pool2d(x, 2, 8)) for _ in range(5))
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_nan_and_ties():
    x = np.zeros((1, 2, 3, 3))
    x[0, 0, 0, 1] = x[0, 0, 1, 0] = np.nan
    x[0, 1, 1, 1] = x[0, 1, 1, 2] = 5
    y, indices = nb.fractional_max_pool2d(x, 3, 1, return_indices=True)
    np.testing.assert_array_equal(y.ravel(), [np.nan, 5])
    np.testing.assert_array_equal(indices.ravel(), [3, 4])


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_halves(dtype):
    """alpha = 2 and u a multiple of 1/4 are exact in every dtype."""
    x = elements((2, 3, 10, 10), dtype, "ties", 0)
    u = (np.random.default_rng(0).integers(0, 4, (2, 3, 2)) / 4).astype(dtype)
    y, indices = nb.fractional_max_pool2d(x, 2, 5, return_indices=True, random_samples=u)
    expected, expected_indices = reference.fractional_max(x, 2, 5, u)
    assert_identical(y, expected)
    assert_identical(indices, expected_indices)


def test_unbatched():
    x = elements((3, 9, 9), "float32", "normal", 0)
    u = np.random.default_rng(0).random((1, 3, 2), dtype=np.float32)
    y = nb.fractional_max_pool2d(x, 2, 4, random_samples=u)
    assert_identical(y, nb.fractional_max_pool2d(x[None], 2, 4, random_samples=u)[0])


def test_memory_orders_agree():
    x = elements((2, 19, 9, 9), "float32", "specials", 0)
    u = np.random.default_rng(0).random((2, 19, 2), dtype=np.float32)
    expected, expected_indices = nb.fractional_max_pool2d(x, 2, 4, return_indices=True, random_samples=u)
    last = laid_out(x, "channels_last", 2)
    y, indices = nb.fractional_max_pool2d(last, 2, 4, return_indices=True, random_samples=u)
    assert_identical(y, expected)
    assert_identical(indices, expected_indices)


def test_planes_beyond_int32_are_rejected_with_indices():
    x = np.broadcast_to(np.float32(0), (1, 1, 2**30, 2**30))
    with pytest.raises(ValueError, match=r"plane|int32|indices"):
        nb.fractional_max_pool2d(x, 2, 2, return_indices=True)
