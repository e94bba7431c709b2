"""Windows that are runs of memory, against the plain loops."""

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded
from kernel_checks import AVERAGE, KINDS, SPREAD, argmax_worker, check_max, check_signed_zeros
from strategies import channels_last, elements, laid_out

import numba_pool as nb
from numba_pool import _arrays as arrays
from numba_pool._dispatch import plans
from numba_pool.kernels.pixel_runs import window_pixel_runs

RUNS = [
    ((16, 16), {"kernel_size": 16}),
    ((23, 31), {"kernel_size": (23, 31)}),
    ((700,), {"kernel_size": 700}),
    ((40, 33), {"kernel_size": (9, 33), "stride": (4, 1), "padding": ((8, 3), (0, 0)), "ceil_mode": True}),
    ((40, 30), {"kernel_size": (9, 34), "stride": (4, 1), "padding": ((0, 0), (2, 2)), "ceil_mode": True}),
    ((5, 9, 33), {"kernel_size": (2, 9, 33), "stride": (2, 1, 1), "padding": (1, 0, 0), "ceil_mode": True}),
    ((4, 17, 33), {"kernel_size": (1, 8, 33), "stride": (2, 5, 1)}),  # some rows of a slice
    # Of two slices that a window holds, one or both are padding.
    ((3, 9, 33), {"kernel_size": (2, 9, 33), "dilation": (4, 1, 1), "padding": ((3, 3), (0, 0), (0, 0))}),
    ((2, 9, 33), {"kernel_size": (2, 9, 33), "dilation": (4, 1, 1), "padding": ((3, 3), (0, 0), (0, 0))}),
    ((2, 17, 33), {"kernel_size": (2, 8, 33), "stride": (1, 5, 1), "dilation": (4, 1, 1),
                   "padding": ((3, 3), (0, 0), (0, 0))}),
    ((4, 17, 33), {"kernel_size": (2, 8, 33), "stride": (1, 5, 1)}),  # some rows of two slices: no run
    # One window, of the second slice, or of some rows of it.
    ((2, 5, 16), {"kernel_size": (2, 5, 16), "stride": (2, 1, 1), "dilation": (2, 1, 1),
                  "padding": ((1, 0), (0, 0), (0, 0))}),
    ((2, 4, 16), {"kernel_size": (2, 3, 16), "stride": (2, 4, 1), "dilation": (2, 1, 1),
                  "padding": ((1, 1), (0, 0), (0, 0))}),
    # The second of the windows along the depth is empty.
    ((1, 17, 33), {"kernel_size": (3, 16, 33), "stride": 1, "dilation": (2, 1, 1),
                   "padding": ((2, 3), (0, 0), (0, 0))}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "uint8", "int32"])
@pytest.mark.parametrize(
    ("size", "arguments"),
    [*RUNS, ((5, 5), {"kernel_size": 5}), ((8, 8), {"kernel_size": 8}), ((7, 9), {"kernel_size": (6, 9)})], ids=str,
)
def test_windows_that_are_runs_of_memory(size, arguments, dtype):
    for kind in (*KINDS, "-inf") if "float" in dtype else ("normal", "ties", "constant"):
        for lead in ((1, 1), (3, 7)):  # results in one vector, and in more
            check_max(elements((*lead, *size), dtype, kind, len(size)), "C", **arguments)
    if "float" in dtype:
        check_signed_zeros((3, 7, *size), dtype, "C", **arguments)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8"])
@pytest.mark.parametrize(
    ("channels", "size", "arguments"),
    [
        (80, (16, 16), {"kernel_size": 16}),  # vectors that begin where lines do
        (73, (15, 16), {"kernel_size": (15, 16)}),
        (678, (5, 5), {"kernel_size": 5}),
        (1344, (7, 7), {"kernel_size": 7}),  # parts, of one image
        (4112, (5, 5), {"kernel_size": 5}),  # of every image
        (63, (40, 33), {"kernel_size": (9, 33), "stride": (4, 1), "padding": ((8, 3), (0, 0)), "ceil_mode": True}),
        (40, (4, 9, 33), {"kernel_size": (2, 9, 33), "stride": (2, 1, 1), "padding": (1, 0, 0), "ceil_mode": True}),
        (32, (1, 17, 33), {"kernel_size": (3, 16, 33), "stride": 1, "dilation": (2, 1, 1),
                           "padding": ((2, 3), (0, 0), (0, 0))}),  # an empty window
    ],
    ids=str,
)
def test_windows_that_are_runs_of_pixels(channels, size, arguments, dtype):
    assert argmax_worker((1, channels, *size), len(size), True, **arguments) is window_pixel_runs
    for kind in (*KINDS, "-inf") if "float" in dtype else ("normal", "ties", "constant"):
        for images in (1, 2):
            check_max(elements((images, channels, *size), dtype, kind, len(size)), "channels_last", **arguments)
    if "float" in dtype:
        check_signed_zeros((2, channels, *size), dtype, "channels_last", **arguments)


def test_parts_of_a_pixel_by_any_thread():
    """Each says that it has met one, in its first channel, and NaN is looked for where one asks for it."""
    x = elements((1, 1344, 7, 7), "float32", "normal", 0)
    x[0, ::336, 3, 3] = np.nan
    expected = reference.max_pool(x, 7, rank=2)
    call = plans.uniform(x.shape, 2, True, (7, 7), (7, 7), (0, 0), (1, 1), False, True, "argmax")
    assert call.units == 4
    for unit in range(4):
        y, index = np.full(1344, np.inf, np.float32), np.full(1344, 5, np.int32)
        given = arrays.raw(np.moveaxis(x, 1, -1).ravel()), arrays.raw(y), index
        assert window_pixel_runs(unit, unit + 1, (*given, *call.rest))
        call.otherwise.worker(336 * unit, 336 * (unit + 1), (*given, *call.otherwise.rest))
        others = np.arange(1344) // 336 != unit
        assert_identical(y, np.where(others, np.float32(np.inf), expected[0].ravel()))
        assert_identical(index, np.where(others, np.int32(5), expected[1].ravel()))


@pytest.mark.parametrize("where", [0, 15, 16, 63, 64, 1023, 1024, 1029])
def test_one_nan_in_a_run(where):
    x = elements((3, 2, 10, 103), "float32", "normal", where)
    x[1, 1].reshape(-1)[where] = np.nan
    y, indices = nb.max_pool2d(x, x.shape[2:], return_indices=True)
    assert np.argwhere(np.isnan(y)).tolist() == [[1, 1, 0, 0]]
    assert indices[1, 1].item() == where
    assert_identical(nb.max_pool2d(x, x.shape[2:]), y)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "uint8", "int64"])
@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        *RUNS,
        ((5, 5), {"kernel_size": 5}),
        ((7, 7), {"kernel_size": 9, "padding": 1}),
        ((11, 12), {"kernel_size": (11, 12), "divisor_override": 7}),  # one block, and a rest
        ((8, 16), {"kernel_size": (8, 16)}),
        ((300, 1), {"kernel_size": (256, 1), "stride": (290, 1), "ceil_mode": True}),  # the last has ten elements
        ((300, 1), {"kernel_size": (290, 1), "stride": (1, 1), "padding": (145, 0), "count_include_pad": False}),
    ],
    ids=str,
)
def test_averages_of_runs_of_memory(size, arguments, dtype, order):
    rank = len(size)
    for kind in ("normal", "specials") if "float" in dtype else ("ties",):  # whose sums do not wrap
        for lead in ((1, 1), (3, 7)):  # sums in one vector, and in more
            x = elements((*lead, *size), dtype, kind, rank)
            actual = AVERAGE[rank](laid_out(x, order, rank), **arguments)
            expected = reference.avg_pool(x, **arguments, rank=rank)
            if x.dtype.kind in "iu":
                assert_identical(actual, expected)
            else:
                magnitude = reference.avg_pool(np.where(np.isfinite(x), np.abs(x), 0).astype(x.dtype), **arguments,
                                               rank=rank)
                assert_rounded(actual, expected, magnitude)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("channels", [2, 3, 8, 16, 17, 40, 130, 513, 1100])
def test_averages_of_runs_are_the_same_in_every_order(channels, dtype):
    """Bit for bit, from wherever they begin; parts of a pixel's channels among them."""
    for size in ((5, 5), (7, 7), (8, 10), (9, 9), (13, 20), (20, 33)):
        for images in (1, 2):
            x = elements((images, channels, *size), dtype, "normal", channels)
            expected = nb.avg_pool2d(x, size)
            for skip in (0, 16, 24):
                assert_identical(nb.avg_pool2d(channels_last(x, skip), size), expected)
    x = elements((2, channels, 30, 9), dtype, "normal", channels)  # more than one of them
    windows = {"kernel_size": (29, 9), "stride": 1, "padding": ((14, 9), (0, 0)), "ceil_mode": True}
    assert_identical(nb.avg_pool2d(channels_last(x), **windows), nb.avg_pool2d(x, **windows))
    zeros = elements((2, channels, 7, 7), dtype, "signed zeros", 0)
    zeros[0] = -0.0
    for order in ("C", "channels_last"):
        assert not np.signbit(nb.avg_pool2d(laid_out(zeros, order, 2), 7).astype("float32")).any()


def test_minima_of_long_rows():
    x = elements((2, 3, 5, 90), "float32", "normal", 0)
    expected = x[..., :80].reshape(2, 3, 5, 2, 40).min(-1)
    assert_identical(nb.min_pool2d(x, (1, 40)), expected)
    assert_identical(nb.min_pool2d(x, (1, 40), return_indices=True)[0], expected)


def test_padding_that_counts_along_an_axis_of_one():
    """Its windows are no part of the run, but of the divisor."""
    x = elements((2, 3, 1, 4, 80), "float32", "normal", 0)
    windows = {"kernel_size": (3, 1, 40), "padding": (1, 0, 0)}
    expected = reference.avg_pool(x, **windows, rank=3)
    for order in ("C", "channels_last"):
        np.testing.assert_allclose(nb.avg_pool3d(laid_out(x, order, 3), **windows), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("size", "arithmetic"), [(25, "float32"), (80, "float32"), (81, "float64"), (5000, "float64")])
def test_sums_of_runs_that_are_long_are_in_float64(size, arithmetic):
    call = plans.uniform((2, 40, size), 1, False, (size,), (size,), (0,), (1,), False, True, "average")
    assert call.rest[1].dtype == arithmetic


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_sums_of_runs_round_a_few_at_a_time(order):
    """2^20 elements, each of which would be rounded off if it were added to a large sum in float32."""
    x = np.full((1, 3, 1024, 1024), 0.1, np.float32)
    x[:, 1] += np.arange(1024, dtype=np.float32) / 10000
    expected = x.astype(np.float64).mean((2, 3), keepdims=True)
    np.testing.assert_allclose(nb.global_avg_pool(laid_out(x, order, 2)), expected, rtol=1.5e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "shape", [(3, 7, 25), (3, 7, 5, 5), (2, 1, 7, 7), (2, 5, 3, 4, 4), (1, 2, 33, 40), (3, 5, 4, 4), (1, 2, 2100, 2000)]
)
def test_gradients_of_averages_of_planes(shape, dtype):
    """The last is written past the caches if it is float32 or float64."""
    rank, g = len(shape) - 2, elements((*shape[:2], *(1,) * (len(shape) - 2)), dtype, "specials", 0)
    for arguments in ({"kernel_size": shape[2:]}, {"kernel_size": shape[2:], "divisor_override": 3}):
        divisor = arguments.get("divisor_override", np.prod(shape[2:]))
        quotients = g.astype(np.float64 if dtype == "float64" else np.float32) / np.float32(divisor)
        expected = np.broadcast_to(quotients.astype(dtype), shape)
        actual = SPREAD[rank](g, shape, **arguments)
        np.testing.assert_array_equal(actual.astype("float64"), expected.astype("float64"))
        out = np.full(np.prod(shape) + 9, 7, dtype)[5:-4].reshape(shape)  # begins elsewhere
        SPREAD[rank](g, shape, **arguments, out=out)
        assert_identical(out, actual)
        assert (out.base[:5] == 7).all()
        assert (out.base[-4:] == 7).all()


@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((8, 8), {"kernel_size": (8, 6)}),
        ((9, 9), {"kernel_size": (9, 5), "dilation": (1, 2)}),
        ((9, 9), {"kernel_size": (9, 5), "stride": 4}),  # two windows
        ((9, 9), {"kernel_size": (9, 9), "padding": (2, 0), "stride": 9}),
        ((8, 8), {"kernel_size": (8, 10), "padding": ((0, 0), (0, 4)), "stride": (8, 2)}),  # the first is a plane
    ],
    ids=str,
)
def test_gradients_of_averages_of_less_than_a_plane(size, arguments):
    x = np.zeros((3, 7, *size), np.float32)
    y = nb.avg_pool2d(x, **arguments)
    g = elements(y.shape, "float32", "ties", 0)
    expected = reference.avg_pool_backward(g, x.shape, **arguments, rank=2)
    actual = nb.avg_pool2d_backward(g, x.shape, **arguments)
    assert_rounded(actual, expected, np.abs(expected))


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_windows_whose_slices_are_padding(order):
    """Long parts of a row, of which none is in a window that lies before and behind the only slice."""
    x = laid_out(np.arange(1, 81, dtype=np.float32).reshape(1, 1, 1, 1, 80), order, 3)
    given = {"kernel_size": (2, 1, 40), "stride": (1, 1, 40), "padding": (1, 0, 0), "dilation": (2, 1, 1)}
    assert (nb.avg_pool3d(x, **given, count_include_pad=False) == 0).all()
