"""Windows that are walked along rows and down columns by turns, against the plain loops."""

import itertools

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded
from kernel_checks import AVERAGE, KINDS, check_max
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool import _arrays as arrays
from numba_pool._dispatch import plans
from numba_pool.kernels.rows import window_rows


@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("order", "channels"), [("C", 2), ("channels_last", 1), ("channels_last", 3)])
@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((23, 19), {"kernel_size": 7, "stride": 1, "padding": 3}),
        ((24, 9), {"kernel_size": (9, 2), "stride": (3, 1), "padding": ((4, 0), (1, 0))}),
        ((31, 18), {"kernel_size": (12, 6), "stride": (2, 3), "padding": (6, 1), "ceil_mode": True}),
        ((5, 40), {"kernel_size": (5, 17), "stride": 1, "padding": (2, 8)}),
        ((3, 11, 8), {"kernel_size": (2, 6, 6), "stride": (1, 1, 2), "padding": (1, 3, 0)}),
        ((4, 13, 6), {"kernel_size": (3, 5, 2), "stride": 1, "dilation": (1, 1, 2)}),
        ((28, 16), {"kernel_size": (9, 11), "stride": 1, "padding": (4, 3)}),  # lines of an odd number of vectors
    ],
    ids=str,
)
def test_windows_that_share_rows(size, arguments, order, channels, kind, dtype):
    check_max(elements((2, channels, *size), dtype, kind, 0), order, **arguments)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("channels", "size", "arguments"),
    [
        (2, (130, 131), {"kernel_size": (130, 131)}),
        (3, (75, 77), {"kernel_size": (74, 12), "stride": 1, "padding": (2, 0)}),
        (1, (6, 61, 50), {"kernel_size": (6, 60, 7), "stride": (1, 1, 9), "padding": (1, 0, 0)}),
        (1, (350, 99), {"kernel_size": (170, 8), "stride": (3, 4), "dilation": (2, 1)}),
        (12, (41, 43), {"kernel_size": (41, 43)}),
        (15, (46, 61), {"kernel_size": (15, 31), "padding": (1, 2)}),  # two strips, three rows
        (9, (37, 50), {"kernel_size": (19, 9), "stride": (37, 5), "dilation": (2, 3), "ceil_mode": True}),
        (13, (3, 20, 44), {"kernel_size": (3, 17, 30), "padding": (0, 8, 15)}),
    ],
    ids=str,
)
def test_tall_windows(channels, size, arguments, kind):
    """Of so many elements that they are read row by row."""
    rank = len(size)
    x = elements((1, channels, *size), "float32", kind, 0)
    for order in ("C", "channels_last"):
        check_max(x, order, **arguments)
        numbers = elements(x.shape, "float32", "normal", 1)
        assert_rounded(AVERAGE[rank](laid_out(numbers, order, rank), **arguments),
                       reference.avg_pool(numbers, **arguments, rank=rank),
                       reference.avg_pool(np.abs(numbers), **arguments, rank=rank))


def test_windows_that_are_empty_along_two_axes():
    """Both of their extents are negative, and the product of these is that of large windows."""
    arguments = {"kernel_size": (3, 3, 7), "stride": (50, 50, 1), "padding": ((200, 50), (150, 100), (0, 0)),
                 "dilation": (100, 100, 1)}
    x = elements((1, 1, 1, 1, 70), "float32", "normal", 0)
    check_max(x, "C", **arguments)
    assert_rounded(nb.avg_pool3d(x, **arguments), reference.avg_pool(x, **arguments, rank=3),
                   reference.avg_pool(np.abs(x), **arguments, rank=3))


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8", "int64"])
def test_large_windows_of_every_kind_of_number(dtype):
    for kind in KINDS if "float" in dtype else ("normal", "ties"):
        check_max(elements((1, 14, 45, 46), dtype, kind, 0), "channels_last", kernel_size=(45, 44), stride=3)


@pytest.mark.parametrize("channels", [2, 9, 15])
@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((9, 8), {"kernel_size": 5, "stride": 1, "padding": 2}),
        ((13, 12), {"kernel_size": (7, 4), "stride": (2, 1), "padding": (3, 1)}),  # maxima of rows that are kept
        ((17, 19), {"kernel_size": (11, 13), "stride": 1, "padding": (5, 6)}),  # in passes
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
    for kind in KINDS:
        check_max(elements((2, channels, *size), "float32", kind, 0), "channels_last", **arguments)


@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((50, 170), {"kernel_size": (49, 9), "stride": (8, 1), "padding": (24, 4)}),  # in passes
        ((50, 170), {"kernel_size": (48, 3), "stride": (8, 1), "padding": (24, 1)}),  # column by column
        ((50, 170), {"kernel_size": (49, 9), "stride": (8, 1), "padding": (24, 4), "dilation": (1, 4)}),
        ((50, 340), {"kernel_size": (49, 21), "stride": (8, 2), "padding": (24, 10), "ceil_mode": True}),
        ((50, 170), {"kernel_size": (25, 5), "stride": (8, 1), "padding": (12, 2), "dilation": (2, 1)}),
    ],
    ids=str,
)
def test_pieces_of_rows(size, arguments):
    """Lines that do not hold all columns."""
    for kind in ("ties", "specials"):
        check_max(elements((1, 15, *size), "float32", kind, 0), "channels_last", **arguments)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int8"])
def test_ranges_of_rows_that_begin_within_images(dtype):
    """As threads share them."""
    call = plans.uniform((3, 12, 13, 7), 2, True, 9, 1, 4, 1, False, True, "argmax")
    assert call.worker is window_rows
    for kind, step in itertools.product(("ties", "specials") if dtype != "int8" else ("ties",), (1, 2)):
        x = laid_out(elements((3, 12, 13, 7), dtype, kind, 0), "channels_last", 2)
        expected = reference.max_pool(x, 9, 1, 4, rank=2)
        given = arrays.raw(np.moveaxis(x, 1, -1).ravel())
        y, index = np.empty(given.size, dtype), np.empty(given.size, np.int32)
        found = [window_rows(lo, min(lo + step, call.units), (given, arrays.raw(y), index, *call.rest))
                 for lo in range(0, call.units, step)]
        assert any(found) == (kind == "specials")
        if any(found):
            look = call.otherwise
            look.worker(0, look.units, (given, arrays.raw(y), index, *look.rest))
        for actual, wanted in zip((y, index), expected, strict=True):
            assert_identical(actual.reshape(3, 13, 7, 12), np.ascontiguousarray(np.moveaxis(wanted, 1, -1)))


def test_averages_where_two_vectors_side_by_side_have_other_divisors():
    """Windows that reach into padding that does not count, at both ends of rows of three vectors and of five."""
    for columns in (48, 80):
        x = elements((2, 3, columns), "float32", "normal", 0)
        arguments = {"kernel_size": 33, "stride": 1, "padding": 16}
        assert nb.explain(nb.avg_pool1d, x, **arguments).kernel == "summed_rows"
        y = nb.avg_pool1d(x, **arguments, count_include_pad=False)
        assert_rounded(y, reference.avg_pool(x, **arguments, count_include_pad=False, rank=1), np.ones_like(y))


@pytest.mark.parametrize("value", [-np.inf, 0.0])
def test_the_index_of_the_first_element_where_padding_comes_before_it(value):
    """Rows are reduced along their windows first. If no element is larger than what stands in the padding, the index is
    still that of the first element of the window; with dilation that need not be in the row's first column.
    """
    x = np.full((1, 40, 9, 12), value, np.float32)
    for padding in (2, ((1, 1), (3, 3)), ((2, 2), (1, 4))):
        check_max(x, "channels_last", kernel_size=(5, 5), stride=1, padding=padding, dilation=(1, 2))
    x = np.full((1, 40, 29, 60), value, np.float32)  # in pieces, of which the second begins in padding, too
    check_max(x, "channels_last", kernel_size=(25, 41), stride=1, padding=((0, 0), (80, 80)), dilation=(1, 2))
