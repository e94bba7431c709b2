"""Windows of channels last, tap by tap and by stages, against the plain loops."""

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, forget
from kernel_checks import AVERAGE, PROGRAMS, SPREAD, check_max, check_programs, served_by_programs, with_dtypes
from strategies import channels_last, elements, laid_out

import numba_pool as nb
from numba_pool._dispatch import plans
from numba_pool.kernels import taps
from numba_pool.kernels.taps import window_taps

STAGES, BANDS, TOGETHER = -9, -8, -3  # of the last arguments of `window_taps`


@pytest.fixture(autouse=True)
def kept_calls():
    """None of other bands and stages outlives a test."""
    yield
    forget()


def planned(shape, *windows, reduction="max", **others):
    """The call for windows of channels last."""
    call = plans.uniform(shape, len(shape) - 2, True, *windows, 1, False, True, reduction, **others)
    assert call.worker is window_taps
    return call


@pytest.mark.every_dtype
@pytest.mark.parametrize(("size", "arguments", "dtype"), with_dtypes(
    PROGRAMS, "bfloat16", "uint8", "float64", "float16"), ids=str)
def test_programs(size, arguments, dtype, monkeypatch, launched):
    """In bands of few rows, of some, of all; in the stages that are the quicker, or in as many as there can be."""
    for channels, band, most_stages in ((16, 2048, False), (17, 2048, True), (40, 8192, False), (24, None, True)):
        with monkeypatch.context() as patch:
            served_by_programs(patch, band, most_stages)
            check_programs(channels, dtype, "channels_last", size, arguments)
        assert "window_taps" in launched
        launched.clear()


def test_how_windows_are_walked(monkeypatch):
    """In how many stages and bands."""
    def how(*arguments, **others):
        rest = planned(*arguments, **others).rest
        return len(rest[STAGES]), len(rest[BANDS])

    monkeypatch.setattr(taps, "BAND", 64 << 10)
    square = (1, 64, 56, 56)
    assert how(square, 2, 2, 0) == (1, 28)
    assert how(square, 9, 1, 4)[0] == 2
    assert how(square, 25, 1, 12)[0] == 4
    assert how(square, 9, 1, 4, reduction="average")[0] == 2
    assert how(square, 3, 1, 1, dtype=np.dtype("float16"))[0] > how(square, 3, 1, 1, dtype=np.dtype("uint8"))[0]
    assert how((1, 64, 6, 6), 2, 2, 0) == (1, 1)


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("channels", [300, 520, 1030])
@pytest.mark.parametrize("arguments", [{"kernel_size": 2}, {"kernel_size": 9, "stride": 1, "padding": 4}], ids=str)
def test_groups_of_channels(arguments, channels, indexed, monkeypatch):
    """The last of them reaches back over the one before."""
    served_by_programs(monkeypatch)
    x = elements((1, channels, 10, 9), "float32", "specials", 0)
    wanted = reference.max_pool(x, **arguments, rank=2)
    found = nb.max_pool2d(laid_out(x, "channels_last", 2), **arguments, return_indices=indexed)
    call = plans.uniform(x.shape, 2, True, *[arguments.get(name, other) for name, other in (
        ("kernel_size", 2), ("stride", 2), ("padding", 0))], 1, False, True, "argmax" if indexed else "max")
    groups = call.units // len(call.rest[BANDS])
    assert groups > 1
    assert channels % call.rest[TOGETHER]
    for actual, expected in zip(found if indexed else (found,), wanted):
        assert_identical(actual, expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize("taps", [10, 17, 18, 19, 45])
def test_more_than_nine_taps(taps, dtype, monkeypatch):
    """In one stage: those behind the ninth are taken by a loop."""
    served_by_programs(monkeypatch)
    monkeypatch.setattr("numba_pool.kernels._stages.cost", lambda stages, first, stored: len(stages))
    monkeypatch.setattr("numba_pool.kernels._stages.STORED", 1000)
    for kernel in ((1, taps), (taps, 1), (2, -(-taps // 2))):
        windows = {"kernel_size": kernel, "stride": (2, taps - 3)}
        check_programs(20, dtype, "channels_last", (taps + 3, 2 * taps), windows)


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


@pytest.mark.parametrize("channels", [16, 17, 24, 40])
@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((8, 8), {"kernel_size": 2}),
        ((4, 130), {"kernel_size": (4, 2), "stride": (4, 2)}),
        ((9, 10), {"kernel_size": 2}),  # a row is left over
        ((13, 13), {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((70, 68), {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((12, 11), {"kernel_size": (2, 1), "stride": 1}),  # pixels are walked as one
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
def test_pixels_of_every_kind_of_windows(size, arguments, channels):
    """Averages, in both directions, are the same, bit by bit, as in channels-first memory."""
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


@pytest.mark.parametrize("skip", [0, 16, 36])
@pytest.mark.parametrize("channels", [16, 24, 48, 130, 272])
@pytest.mark.parametrize("arguments", [
    {"kernel_size": 3, "stride": 1, "padding": 1},  # runs of windows are one long pixel each
    {"kernel_size": (1, 3), "stride": 1, "dilation": (1, 3), "padding": ((0, 0), (5, 4))},
    {"kernel_size": 3, "stride": 2, "padding": 1},
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
@pytest.mark.parametrize("channels", [16, 33, 48, 80, 144])
def test_one_nan_in_channels_last(channels, skip):
    """Whichever vector holds it, the kernel has to notice."""
    for windows in ({"kernel_size": 2}, {"kernel_size": 4}, {"kernel_size": 3, "stride": 1}):
        for channel in (0, channels // 2, channels - 1):
            x = elements((1, channels, 8, 8), "float32", "normal", channels)
            x[0, channel, 3, 3] = np.nan
            y, indices = nb.max_pool2d(x, **windows, return_indices=True)
            assert np.isnan(y).sum() == (9 if windows["kernel_size"] == 3 else 1)
            last = channels_last(x, skip)
            assert_identical(nb.max_pool2d(last, **windows), y)
            actual, where = nb.max_pool2d(last, **windows, return_indices=True)
            assert_identical(actual, y)
            assert_identical(where, indices)
