"""Windows of small numbers in channels-last memory that share columns: as in channels-first memory, bit for bit."""

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by its name then)
import numpy as np
import pytest
from checks import assert_identical
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool import _arrays as arrays
from numba_pool.kernels import sliding

WINDOWS = [
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": (1, 3)},  # nothing in common
    {"kernel_size": 3, "stride": 1, "padding": (1, 0), "dilation": (2, 1)},
    {"kernel_size": 3, "stride": 1, "dilation": (1, 2)},
]


def same_in_either_order(x, rank, **windows):
    last = laid_out(x, "channels_last", rank)
    pools = {1: (nb.max_pool1d, nb.avg_pool1d, nb.avg_pool1d_backward),
             2: (nb.max_pool2d, nb.avg_pool2d, nb.avg_pool2d_backward),
             3: (nb.max_pool3d, nb.avg_pool3d, nb.avg_pool3d_backward)}
    maximum, average, backward = pools[rank]
    expected = maximum(x.astype(np.float32), **windows).astype(x.dtype)  # of float32, which others compile, exact
    assert_identical(maximum(last, **windows) + x.dtype.type(0), expected + x.dtype.type(0))  # a zero of either sign
    y = average(x, **windows)
    assert_identical(average(last, **windows), y)
    if x.dtype.kind not in "iu":
        grad = laid_out(y, "channels_last", rank)
        assert_identical(backward(grad, x.shape, **windows), backward(y, x.shape, **windows))


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8", "int16", "float32"])
@pytest.mark.parametrize("channels", [20, 64, 108, 33])
def test_windows_that_share_columns(channels, dtype):
    for number, windows in enumerate(WINDOWS):
        for kind in ("normal", "ties", "specials") if "float" in dtype else ("normal", "ties"):
            for width in (5, 6, 19):
                x = elements((2, channels, 7, width), np.dtype(dtype), kind, number)
                same_in_either_order(x, 2, **windows)


@pytest.mark.parametrize("dtype", ["float16", "uint8"])
def test_columns_of_slices_and_of_lines(dtype):
    """Three rows of one slice, a row of three slices, and windows that are one row."""
    x = elements((1, 40, 5, 4, 9), np.dtype(dtype), "ties", 0)
    for kernel in ((1, 3, 3), (3, 1, 3), (3, 3, 3)):
        same_in_either_order(x, 3, kernel_size=kernel, stride=1)
    same_in_either_order(x[:, :, 0, 0], 1, kernel_size=3, stride=1)


@pytest.mark.parametrize("stride", [1, 2])
def test_inputs_on_both_sides_of_what_is_near(stride):
    for rows in (95, 97):
        x = elements((1, 128, rows, 128), np.dtype("bfloat16"), "normal", 0)
        assert (x.nbytes > sliding.NEAR) == (rows == 97)
        same_in_either_order(x, 2, kernel_size=3, stride=stride)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8"])
def test_one_nan_in_a_column(dtype):
    """Anywhere in a window, and nowhere else; the largest integer."""
    special = 255 if dtype == "uint8" else np.nan
    for stride in (1, 2):
        for place in range(49):
            for channels in (33, 128):  # one by one, in packs
                x = np.zeros((1, channels, 7, 7), dtype)
                x[0, 5, place // 7, place % 7] = special
                last = laid_out(x, "channels_last", 2)
                assert (arrays.pack_of(arrays.planes(last, 2)) is not None) == (channels == 128)
                y = nb.max_pool2d(last, 3, stride)
                assert_identical(y, nb.max_pool2d(x.astype(np.float32), 3, stride).astype(dtype))
                found = (y[0, 5] != 0).sum()
                assert found == (y != 0).sum() > 0
