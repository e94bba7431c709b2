"""Large windows of channels last that have much in common, against the plain loops."""

import itertools

import numpy as np
import pytest
import reference
from checks import assert_identical
from kernel_checks import KINDS, argmax_worker, check_max
from strategies import elements, laid_out

from numba_pool import _arrays as arrays
from numba_pool._dispatch import plans
from numba_pool.kernels.separable import window_separable


@pytest.mark.parametrize("channels", [17, 33, 64])  # the last vector reaches back, by itself or beside another
@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((9, 8), {"kernel_size": 5, "stride": 1, "padding": 2}),
        ((13, 12), {"kernel_size": (7, 4), "stride": (2, 1), "padding": (3, 1)}),  # rows up to a border
        ((17, 19), {"kernel_size": (11, 13), "stride": 1, "padding": (5, 6)}),  # columns are doubled
        ((17, 19), {"kernel_size": (6, 13), "stride": (1, 2), "padding": (3, 6), "ceil_mode": True}),
        ((17, 19), {"kernel_size": (5, 9), "stride": 1, "padding": (2, 4), "dilation": (3, 2)}),  # end before the last
        ((14, 40), {"kernel_size": (5, 17), "stride": (2, 1), "padding": (1, 8), "dilation": 2, "ceil_mode": True}),
        ((5, 6, 7), {"kernel_size": 3, "stride": 1, "padding": 1}),  # slices
        ((7, 9, 6), {"kernel_size": (3, 8, 4), "stride": 1, "padding": (1, 4, 2), "dilation": (2, 1, 1)}),
        ((60,), {"kernel_size": 25, "stride": 2, "padding": 12}),
        ((2, 40), {"kernel_size": (5, 19), "stride": 1, "padding": ((9, 8), (9, 9)), "dilation": (3, 1)}),  # or none
    ],
    ids=str,
)
def test_maxima_of_windows_that_have_much_in_common(size, arguments, channels):
    assert argmax_worker((1, channels, *size), len(size), True, **arguments) is window_separable
    for kind in KINDS:
        check_max(elements((2, channels, *size), "float32", kind, 0), "channels_last", **arguments)


@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((50, 170), {"kernel_size": (49, 9), "stride": (8, 1), "padding": (24, 4)}),  # doubled
        ((50, 170), {"kernel_size": (48, 3), "stride": (8, 1), "padding": (24, 1)}),  # column by column
        ((50, 170), {"kernel_size": (49, 9), "stride": (8, 1), "padding": (24, 4), "dilation": (1, 4)}),
        ((50, 340), {"kernel_size": (49, 21), "stride": (8, 2), "padding": (24, 10), "ceil_mode": True}),
        ((50, 170), {"kernel_size": (25, 5), "stride": (8, 1), "padding": (12, 2), "dilation": (2, 1)}),
    ],
    ids=str,
)
def test_blocks_of_columns(size, arguments):
    """Two or more, of up to 78 columns with indices: all rows of a window take no more than 1 MiB."""
    assert argmax_worker((1, 17, *size), 2, True, **arguments) is window_separable
    for kind in ("ties", "specials"):
        check_max(elements((1, 17, *size), "float32", kind, 0), "channels_last", **arguments)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int8"])
def test_ranges_of_rows_that_begin_within_images(dtype):
    """As threads share them: rows from the middle of an image to the middle of another."""
    call = plans.uniform((3, 40, 13, 7), 2, True, 9, 1, 4, 1, False, True, "argmax")
    assert call.plan.worker is window_separable
    for kind, step in itertools.product(("ties", "specials") if dtype != "int8" else ("ties",), (1, 5, 18)):
        x = laid_out(elements((3, 40, 13, 7), dtype, kind, 0), "channels_last", 2)
        expected = reference.max_pool(x, 9, 1, 4, rank=2)
        given = arrays.raw(np.moveaxis(x, 1, -1).ravel())
        y, index = np.empty(given.size, dtype), np.empty(given.size, np.int32)
        for lo in range(0, 39, step):
            window_separable(lo, min(lo + step, 39), (given, arrays.raw(y), index, None, call.plan.tables))
        for actual, wanted in zip((y, index), expected, strict=True):
            assert_identical(actual.reshape(3, 13, 7, 40), np.ascontiguousarray(np.moveaxis(wanted, 1, -1)))
