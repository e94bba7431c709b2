"""Windows of channels last, tap by tap, against the plain loops."""

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded
from kernel_checks import AVERAGE, KINDS, SPREAD, check_max
from strategies import channels_last, elements, laid_out

import numba_pool as nb


@pytest.mark.parametrize("channels", [1, 3, 15, 16, 17, 33, 256, 272])
@pytest.mark.parametrize("kind", KINDS)
def test_few_and_many_channels_last(channels, kind):
    x = elements((2, channels, 9, 11), "float32", kind, 0)
    for arguments in (
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (1, 4), "stride": (2, 5), "dilation": (1, 2)},
        {"kernel_size": (3, 2), "stride": 1, "dilation": (2, 1)},
        {"kernel_size": (3, 1), "stride": (3, 1)},
        {"kernel_size": (3, 4), "stride": 3},
        {"kernel_size": 5, "stride": 1, "padding": 2},
    ):
        check_max(x, "channels_last", **arguments)


@pytest.mark.parametrize("kernel", [(1, 3), (3, 1), (1, 4), (4, 1), (2, 3), (3, 2), (2, 4), (4, 2), (1, 8), (8, 1),
                                    (2, 2, 2), (1, 2, 4), (2, 1, 3)], ids=str)
def test_averages_of_few_taps_channels_last(kernel):
    """Sums of rectangles are the same, bit by bit, as in channels-first memory."""
    rank = len(kernel)
    for channels in (5, 16, 50):
        x = elements((2, channels, *(2 * k + 1 for k in kernel)), "float32", "normal", 0)
        forward, backward = getattr(nb, f"avg_pool{rank}d"), getattr(nb, f"avg_pool{rank}d_backward")
        expected = reference.avg_pool(x, kernel_size=kernel, rank=rank)
        last = laid_out(x, "channels_last", rank)
        assert_rounded(forward(last, kernel), expected, reference.avg_pool(np.abs(x), kernel_size=kernel, rank=rank))
        for stride in (kernel, [max(k - 1, 1) for k in kernel]):
            y = forward(x, kernel, stride)
            assert_identical(forward(last, kernel, stride), y)
            gradient = backward(y, x.shape, kernel, stride)
            assert_identical(backward(laid_out(y, "channels_last", rank), x.shape, kernel, stride), gradient)


@pytest.mark.parametrize("offset", [0, 1, 4, 15])
def test_channels_last_at_any_alignment(offset):
    """Where there are many channels and taps, vectors begin where cache lines do."""
    size = 4 * 5 * 272
    buffer = np.zeros(size + 32, np.float32)
    start = (-buffer.ctypes.data // 4) % 16 + offset
    x = buffer[start : start + size].reshape(1, 4, 5, 272).transpose(0, 3, 1, 2)
    for kernel, kind in ((2, "specials"), ((3, 4), "specials"), ((4, 3), "ties")):
        x[...] = elements(x.shape, "float32", kind, 0)
        y, indices = reference.max_pool(x, kernel_size=kernel, stride=1, rank=2)
        actual, where = nb.max_pool2d(x, kernel, 1, return_indices=True)
        assert_identical(actual, y)
        assert_identical(where, indices)
        assert_identical(nb.max_pool2d(x, kernel, 1), y)
    x[...] = elements(x.shape, "float32", "normal", 0)
    for kernel in (2, (3, 4)):
        expected = reference.avg_pool(x, kernel_size=kernel, stride=1, rank=2)
        magnitude = reference.avg_pool(np.abs(x), kernel_size=kernel, stride=1, rank=2)
        assert_rounded(nb.avg_pool2d(x, kernel, 1), expected, magnitude)


@pytest.mark.parametrize("channels", [3, 40, 272, 20000])
@pytest.mark.parametrize("kernel", [2, (3, 4)])
def test_large_results_channels_last(channels, kernel):
    """Streamed by way of a buffer, if that holds the channels; pixel by pixel as small results."""
    width = (16 << 20) // (4 * 8 * channels) + 8
    x = laid_out(elements((1, channels, 10, width), "float32", "ties", 0), "channels_last", 2)
    arguments = {"kernel_size": kernel, "stride": (1, 1)}
    y, indices = nb.max_pool2d(x, **arguments, return_indices=True)
    assert y.nbytes >= 16 << 20
    average = nb.avg_pool2d(x, **arguments)
    assert_identical(nb.max_pool2d(x, **arguments), y)
    for first in range(0, width - 4, -(-width // 9)):  # by smaller results
        part = laid_out(x[..., first : first + width // 9 + 4], "channels_last", 2)
        small, at = nb.max_pool2d(part, **arguments, return_indices=True)
        columns = slice(first, first + small.shape[-1])
        assert_identical(y[..., columns], small)
        at = at // part.shape[-1] * width + at % part.shape[-1] + first
        assert_identical(indices[..., columns], at.astype(np.int32))
        assert_identical(average[..., columns], nb.avg_pool2d(part, **arguments))


@pytest.mark.parametrize("channels", [9, 12, 16, 17, 24, 32, 40])
@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((8, 8), {"kernel_size": 2}),  # all rows of all images follow each other
        ((4, 130), {"kernel_size": (4, 2), "stride": (4, 2)}),  # one row each
        ((9, 10), {"kernel_size": 2}),  # a row is left over
        ((13, 13), {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((70, 68), {"kernel_size": 3, "stride": 2, "padding": 1}),  # blocks of rows
        ((12, 11), {"kernel_size": (2, 1), "stride": 1}),  # pixels follow each other
        ((12, 14), {"kernel_size": 3, "stride": 3, "padding": 1, "ceil_mode": True}),
        ((11, 15), {"kernel_size": (4, 5), "stride": (2, 3), "padding": (2, 2)}),
        ((12, 16), {"kernel_size": 4}),  # more than nine taps
        ((13, 25), {"kernel_size": (5, 4), "stride": (4, 3), "padding": (2, 1), "ceil_mode": True}),
        ((9, 7), {"kernel_size": (9, 7)}),
        ((70, 7), {"kernel_size": (70, 3), "stride": (70, 2)}),  # gradients fewer than rows
        ((2, 9), {"kernel_size": 2, "stride": (5, 1), "padding": ((12, 12), (0, 0)), "dilation": (20, 1)}),  # empty
        ((9, 2), {"kernel_size": 2, "stride": (1, 5), "padding": ((0, 0), (12, 12)), "dilation": (1, 20)}),
        ((4, 6, 7), {"kernel_size": 2, "stride": (2, 3, 1)}),
        ((3, 9, 8), {"kernel_size": (3, 3, 2), "stride": (1, 2, 2), "padding": (1, 1, 0)}),
        ((60,), {"kernel_size": 2}),
        ((61,), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ],
    ids=str,
)
def test_pixels_in_blocks(size, arguments, channels):
    """The walk of channels-last memory takes all rows and columns together whose windows are alike."""
    rank = len(size)
    x = elements((3, channels, *size), np.dtype(np.float32), "specials", channels)
    check_max(x, "channels_last", **arguments)
    numbers = elements(x.shape, "float32", "normal", 1)
    for include in (True, False):
        windows = {**arguments, "count_include_pad": include}
        expected, last = AVERAGE[rank](numbers, **windows), laid_out(numbers, "channels_last", rank)
        assert_identical(AVERAGE[rank](last, **windows), expected)
        np.testing.assert_allclose(expected, reference.avg_pool(numbers, **windows, rank=rank), 1e-5, 1e-6)
        grad = laid_out(expected, "channels_last", rank)
        assert_identical(SPREAD[rank](grad, x.shape, **windows), SPREAD[rank](expected, x.shape, **windows))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "uint8", "int16"])
@pytest.mark.parametrize("channels", [20, 33, 64, 150])
def test_pixels_of_many_taps(channels, dtype):
    """Nine at a time, of which the last reach back; results are what is known so far."""
    for taps in (10, 17, 18, 19, 45):
        windows = {"kernel_size": (1, taps), "stride": (1, taps - 1), "padding": (0, 2)}
        for kind in KINDS if "float" in dtype else ("normal", "ties"):
            check_max(elements((2, channels, 3, 5 * taps), dtype, kind, taps), "channels_last", **windows)


@pytest.mark.parametrize("skip", [0, 16, 36])
@pytest.mark.parametrize("channels", [9, 12, 16, 24, 48, 64, 130, 160, 272])
@pytest.mark.parametrize("arguments", [
    {"kernel_size": 3, "stride": 1, "padding": 1},  # runs of windows are one long pixel each
    {"kernel_size": (1, 3), "stride": 1, "dilation": (1, 3), "padding": ((0, 0), (5, 4))},
    {"kernel_size": 3, "stride": 2, "padding": 1},  # aligned loads from 48 channels on, with indices 128
    {"kernel_size": 2},
    {"kernel_size": 4, "stride": (1, 3), "padding": 2},  # more than nine taps
], ids=str)
def test_channels_last_at_every_alignment(arguments, channels, skip):
    x = elements((1, channels, 5, 97), np.dtype(np.float32), "specials", channels)
    last = channels_last(x, skip)
    with np.errstate(invalid="ignore"):
        y, indices = nb.max_pool2d(x, **arguments, return_indices=True)
        assert_identical(nb.max_pool2d(last, **arguments) + 0.0, y + 0.0)
        actual, where = nb.max_pool2d(last, **arguments, return_indices=True)
        assert_identical(actual, y)
        assert_identical(where, indices)
        for include in (True, False):
            windows = {**arguments, "count_include_pad": include}
            average = nb.avg_pool2d(x, **windows)
            assert_identical(nb.avg_pool2d(last, **windows), average)
            assert_identical(nb.avg_pool2d_backward(np.nan_to_num(average), x.shape, **windows),
                             nb.avg_pool2d_backward(laid_out(np.nan_to_num(average), "channels_last", 2), x.shape,
                                                    **windows))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "uint8", "int32"])
@pytest.mark.parametrize("channels", [48, 144, 288])
def test_channels_last_of_any_dtype_at_every_alignment(channels, dtype):
    x = elements((2, channels, 7, 9), dtype, "normal", channels)
    first = {"kernel_size": 3, "stride": 2, "padding": 1}
    for skip in (1, 7, 12, 31):
        last = channels_last(x, skip * x.itemsize % 64)
        for windows in (first, {"kernel_size": 2}, {"kernel_size": 4}):
            y, indices = nb.max_pool2d(x, **windows, return_indices=True)
            assert_identical(nb.max_pool2d(last, **windows), y)
            for out in ((np.empty_like(y), np.empty_like(indices)),  # and results that begin elsewhere
                        (channels_last(y * 0, 12 * x.itemsize % 64), channels_last(indices * 0, 4 * skip % 64))):
                actual, where = nb.max_pool2d(last, **windows, return_indices=True, out=out)
                assert_identical(actual, y)
                assert_identical(where, indices)
            assert_identical(nb.avg_pool2d(last, **windows), nb.avg_pool2d(x, **windows))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("channels", [16, 40])
@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel_size": 3, "stride": 2},  # elements in one window, in two, in four
        {"kernel_size": 5, "stride": 3, "padding": 1},
        {"kernel_size": (2, 1), "stride": 1},  # in two rows
        {"kernel_size": (1, 2), "stride": 1},  # in two columns
        {"kernel_size": 3, "stride": 1, "padding": 1},
    ],
    ids=str,
)
def test_gradients_of_averages_in_channels_last(arguments, channels, dtype):
    x = np.zeros((2, channels, 11, 13), dtype)
    g = elements(nb.avg_pool2d(x, **arguments).shape, dtype, "specials", 0)
    actual = nb.avg_pool2d_backward(channels_last(g), x.shape, **arguments)
    assert_identical(actual, nb.avg_pool2d_backward(g, x.shape, **arguments))
    g = elements(g.shape, dtype, "normal", 0)
    expected = reference.avg_pool_backward(g, x.shape, **arguments, rank=2)
    actual = nb.avg_pool2d_backward(channels_last(g), x.shape, **arguments)
    assert_rounded(actual, expected, reference.avg_pool_backward(np.abs(g), x.shape, **arguments, rank=2))


@pytest.mark.parametrize("skip", [0, 16])
@pytest.mark.parametrize("channels", [12, 16, 33, 48, 80, 144])
def test_one_nan_in_channels_last(channels, skip):
    """Whichever vector holds it, the kernel has to notice."""
    for windows in ({"kernel_size": 2}, {"kernel_size": 4}, {"kernel_size": 3, "stride": 1}):
        for channel in (0, 11, channels // 2, channels - 1):
            x = elements((1, channels, 8, 8), "float32", "normal", channels)
            x[0, channel, 3, 3] = np.nan
            y, indices = nb.max_pool2d(x, **windows, return_indices=True)
            assert np.isnan(y).sum() == (9 if windows["kernel_size"] == 3 else 1)
            last = channels_last(x, skip)
            assert_identical(nb.max_pool2d(last, **windows), y)
            actual, where = nb.max_pool2d(last, **windows, return_indices=True)
            assert_identical(actual, y)
            assert_identical(where, indices)


@pytest.mark.parametrize("arguments", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 1, "padding": 1}], ids=str)
def test_large_results_that_begin_behind_a_line_from_inputs_that_do(arguments):
    """Aligned loads, and results that gather before they are streamed."""
    size = 512 if arguments["kernel_size"] == 2 else 200
    x = np.random.default_rng(0).standard_normal((1, 256, size, size), dtype=np.float32)
    y, indices = nb.max_pool2d(x, **arguments, return_indices=True)
    given, to, at = (channels_last(a, 16) for a in (x, np.zeros_like(y), np.zeros_like(indices)))
    assert_identical(nb.max_pool2d(given, **arguments, out=to), y)
    to[...] = 0
    nb.max_pool2d(given, **arguments, return_indices=True, out=(to, at))
    assert_identical(to, y)
    assert_identical(at, indices)
    assert_identical(nb.avg_pool2d(given, **arguments, out=to), nb.avg_pool2d(x, **arguments))
