"""Outputs far beyond the caches, where other memory and other stores may be used, against NumPy on shifted slices."""

from functools import reduce
from math import prod

import numpy as np
import pytest
from checks import is_channels_last
from strategies import laid_out

import numba_pool as nb
from numba_pool.kernels._staging import STREAMED

SHAPE = (6, 32, 301, 311)  # 69 MiB in float32; 17 for windows of stride 2


@pytest.fixture(scope="module", params=["C", "channels_last"])
def image(request):
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    x[0, 0, :7, :7] = np.nan
    return laid_out(x, request.param, 2)


def shifted(x, kernel, stride):
    """The taps of all windows, one array per tap in row-major order."""
    height, width = ((n - kernel) // stride + 1 for n in x.shape[2:])
    for i in range(kernel):
        for j in range(kernel):
            yield x[:, :, i : i + stride * (height - 1) + 1 : stride, j : j + stride * (width - 1) + 1 : stride]


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 1), (3, 2)])
def test_maximum(image, kernel, stride):
    y, indices = nb.max_pool2d(image, kernel, stride, return_indices=True)
    expected = reduce(np.maximum, shifted(image, kernel, stride))
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(nb.max_pool2d(image, kernel, stride), expected)
    planes = np.arange(SHAPE[0])[:, None, None, None], np.arange(SHAPE[1])[:, None, None]
    np.testing.assert_array_equal(image[(*planes, *np.divmod(indices, SHAPE[3]))], y)
    assert is_channels_last(y, 2) == is_channels_last(image, 2)
    grad = nb.max_pool2d_backward(np.ones_like(y), indices, SHAPE)
    plane = SHAPE[2] * SHAPE[3]
    at = indices + np.arange(SHAPE[0] * SHAPE[1]).reshape(*SHAPE[:2], 1, 1) * plane
    np.testing.assert_array_equal(grad.ravel(), np.bincount(at.ravel(), minlength=image.size))


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 1)])
def test_average(image, kernel, stride):
    y = nb.avg_pool2d(image, kernel, stride)
    expected = sum(tap.astype(np.float64) for tap in shifted(image, kernel, stride)) / kernel**2
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-6)
    grad = nb.avg_pool2d_backward(np.ones_like(y), SHAPE, kernel, stride)
    covered = np.zeros(SHAPE[2:])
    for tap in shifted(covered[None, None], kernel, stride):
        tap += 1
    np.testing.assert_allclose(grad, np.broadcast_to(covered / kernel**2, SHAPE), rtol=3e-7)


def test_many_planes():
    """Each of a few rows, in several steps."""
    shape = (9, 61, 120, 127)
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    left, right = x[..., :-1], x[..., 1:]
    y, indices = nb.max_pool2d(x, (1, 2), 1, return_indices=True)
    np.testing.assert_array_equal(y, np.maximum(left, right))
    first = np.arange(120 * 127).reshape(120, 127)[:, :-1]
    np.testing.assert_array_equal(indices, first + (right > left))
    x[3, 5, 7, 9] = np.nan
    np.testing.assert_array_equal(nb.max_pool2d(x, (1, 2), 1), np.maximum(left, right))
    np.testing.assert_array_equal(nb.avg_pool2d(x, (1, 2), 1), (left + right) / 2)
    x[3, 5, 7, 9] = 0
    grad = nb.avg_pool2d_backward(left, shape, (1, 2), 1)
    np.testing.assert_array_equal(grad[..., 1:-1], (left[..., :-1] + left[..., 1:]) / 2)
    np.testing.assert_array_equal(grad[..., [0, -1]], left[..., [0, -1]] / 2)


def test_very_many_small_planes():
    """Several walked as one, and a rest; every window with a divisor of its own."""
    x = np.random.default_rng(0).standard_normal((61, 601, 3, 40), dtype=np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 1)))
    sums = padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:]
    counts = np.array([2, *[3] * 38, 2], np.float32)
    y = nb.avg_pool2d(x, (1, 3), 1, (0, 1), count_include_pad=False)
    np.testing.assert_allclose(y, sums / counts, rtol=3e-7, atol=1e-7)
    y, indices = nb.max_pool2d(x, (1, 2), 1, return_indices=True)
    np.testing.assert_array_equal(y, np.maximum(x[..., :-1], x[..., 1:]))
    np.testing.assert_array_equal(np.take_along_axis(x.reshape(61, 601, 120), indices.reshape(61, 601, 117), 2),
                                  y.reshape(61, 601, 117))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("offset", [0, 1, 4, 15])
@pytest.mark.parametrize("kernel", [2, 3])
def test_results_that_begin_anywhere(kernel, offset, order, dtype):
    """Whole lines are streamed; where these begin in the values is not where they begin in the indices."""
    size = np.dtype(dtype).itemsize
    # By rows of the output; or plane by plane, and pixel by pixel; and where results are whole lines as they come.
    shapes = {"C": ((1, 600, 300), (50, 60, 6), (9, 100, 320)),
              "channels_last": ((1, 60, 300), (12, 60, 6), (50, 60, 6), (16, 60, 6), (48, 60, 6))}[order]
    for image in shapes if kernel == 2 else shapes[:1]:
        shape = (-(-(30 << 20) // (size * prod(image))), *image)
        x = laid_out(np.random.default_rng(0).integers(0, 99, shape).astype(dtype), order, 2)
        expected, where = nb.max_pool2d(x, kernel, 2, return_indices=True)
        np.testing.assert_array_equal(expected, reduce(np.maximum, shifted(x, kernel, 2)))
        flat = np.zeros(expected.size + 64, dtype)
        first = -flat.ctypes.data // size % (64 // size) + offset
        if order == "C":
            out = flat[first : first + expected.size].reshape(expected.shape)
        else:
            out = flat[first : first + expected.size].reshape(*(expected.shape[i] for i in (0, 2, 3, 1)))
            out = out.transpose(0, 3, 1, 2)
        for _ in range(2):
            indices = np.empty_like(where)
            nb.max_pool2d(x, kernel, 2, return_indices=True, out=(out, indices))
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_array_equal(indices, where)
            out[...] = 0
            nb.max_pool2d(x, kernel, 2, out=out)
            np.testing.assert_array_equal(out, expected)
            out[...] = 0
            assert not flat.any()  # nothing was written beside it


@pytest.mark.parametrize("dtype", ["int16", "float64", "float16"])
def test_maxima_of_few_rows_that_are_streamed(dtype):
    """NaN wins in whichever column."""
    shape = (3, -(-(30 << 20) // (3 * np.dtype(dtype).itemsize * 90 * 71)), 90, 71)
    x = np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)
    if dtype != "int16":
        x[0, 0, :, 68:] = x[-1, -1, -9:, 30:34] = x[1, 5, 40, ::7] = np.nan
    y, indices = nb.max_pool2d(x, 3, 2, return_indices=True)
    assert x.nbytes + y.nbytes >= STREAMED
    np.testing.assert_array_equal(y, reduce(np.maximum, shifted(x, 3, 2)))
    found = np.take_along_axis(x.reshape(*shape[:2], -1), indices.reshape(*shape[:2], -1), 2)
    np.testing.assert_array_equal(found.reshape(y.shape), y)


@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_scattering_to_many_small_planes(dtype, accumulate):
    """Some planes of the results have indices of -1 where gradients are added up."""
    size, outputs = 27 * 27, 101
    planes = -(-(30 << 20) // (size * np.dtype(dtype).itemsize)) | 1
    rng = np.random.default_rng(0)
    indices = rng.integers(0, size, (1, planes, outputs)).astype(np.int32)
    values = rng.integers(-9, 10, indices.shape).astype(dtype)  # exact sums
    at = (indices + np.arange(planes)[:, None] * size).ravel()
    if accumulate:
        values[:, ::50, 5], indices[:, ::50, 5] = 0, -1
        expected = np.bincount(at, values.ravel(), planes * size)
        result = nb.max_pool1d_backward(values, indices, (1, planes, size))
    else:
        expected = np.zeros(planes * size)
        for o in range(outputs):  # the last of those at one place remains
            expected[at[o::outputs]] = values[0, :, o]
        result = nb.max_unpool1d(values, indices, size - 4 * (outputs - 1), 4)
    assert result.nbytes + values.nbytes + indices.nbytes >= STREAMED
    np.testing.assert_array_equal(result.ravel(), expected)


@pytest.mark.parametrize("kernel", [(40, 50), (301, 311)])
@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_gradient_of_wide_averages(kernel, order):
    """Side by side, with rows and columns in no window: the same row again and again."""
    output = tuple(n // k for n, k in zip(SHAPE[2:], kernel))
    g = np.random.default_rng(0).standard_normal((3, 32, *output), dtype=np.float32)
    grad = nb.avg_pool2d_backward(laid_out(g, order, 2), (3, 32, *SHAPE[2:]), kernel)
    spread = (g / (kernel[0] * kernel[1])).repeat(kernel[0], 2).repeat(kernel[1], 3)
    expected = np.zeros((3, 32, *SHAPE[2:]), np.float32)
    expected[:, :, : spread.shape[2], : spread.shape[3]] = spread
    np.testing.assert_allclose(grad, expected, rtol=3e-7)


@pytest.mark.parametrize("channels", [12, 16, 24, 64])
def test_gradient_of_averages_that_overlap(channels):
    """Channels last: elements by turns in one window and in two, which are staged or go past the caches."""
    shape = (3, channels, 300, (27 << 20) // (3 * 4 * 300 * channels))
    output = ((shape[2] - 1) // 2 + 1, (shape[3] - 1) // 2 + 1)
    g = np.random.default_rng(0).standard_normal((3, channels, *output), dtype=np.float32)
    expected = nb.avg_pool2d_backward(g, shape, 3, 2, 1)
    np.testing.assert_array_equal(nb.avg_pool2d_backward(laid_out(g, "channels_last", 2), shape, 3, 2, 1), expected)


@pytest.mark.parametrize("channels", [9, 16, 20])
def test_pixels_that_are_asked_for(channels):
    """More than the caches hold, channels last: rows of small images, and of one."""
    for shape in ((2400, channels, 16, 12), (1, channels, 700, 660)):
        x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        last = laid_out(x, "channels_last", 2)
        for arguments in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}):
            y, indices = nb.max_pool2d(x, **arguments, return_indices=True)
            actual, where = nb.max_pool2d(last, **arguments, return_indices=True)
            np.testing.assert_array_equal(actual, y)
            np.testing.assert_array_equal(where, indices)
            np.testing.assert_array_equal(nb.max_pool2d(last, **arguments), y)
            np.testing.assert_array_equal(nb.avg_pool2d(last, **arguments), nb.avg_pool2d(x, **arguments))


def test_results_stay_as_they_are_while_others_come_and_go():
    """Blocks of memory that are reused must not be handed out while a view of them lives."""
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    view = nb.avg_pool2d(x, 1)[1, ::2, 5]
    kept = nb.max_pool2d(x, 1)
    for _ in range(3):
        nb.avg_pool2d(-x, 1)
        nb.max_pool2d(-x, 1)
    np.testing.assert_array_equal(view, x[1, ::2, 5])
    np.testing.assert_array_equal(kept, x)
    # zeros are where backward expects them, in memory that has been used before
    indices = np.zeros((*SHAPE[:2], 1, 1), np.int32)
    grad = nb.max_pool2d_backward(np.ones(indices.shape, np.float32), indices, SHAPE)
    assert np.count_nonzero(grad) == indices.size


def test_the_last_run_of_the_largest_plane():
    """Behind it indices are too large for an int32."""
    length = 2**31 - 1
    x = np.zeros((1, length, 1), np.uint8)
    y, indices = nb.max_pool2d(x, (300, 1), stride=(length - 300, 1), return_indices=True)
    assert not y.any()
    assert indices.ravel().tolist() == [0, length - 300]
