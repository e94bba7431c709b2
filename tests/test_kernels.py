"""Shapes for which a kernel takes a way of its own (the lists in `kernels/__init__.py`), against the plain loops."""

import itertools

import numba
import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, forget
from strategies import channels_last, elements, laid_out

import numba_pool as nb
from numba_pool import _arguments, _windows, simd
from numba_pool import _arrays as arrays
from numba_pool._dispatch import calls, plans
from numba_pool.kernels import rows, steps, strips
from numba_pool.kernels._staging import staged
from numba_pool.kernels.bands import window_bands
from numba_pool.kernels.buffered import window_buffered
from numba_pool.kernels.pixels import window_pixels
from numba_pool.kernels.planes import planes_by_bands, planes_by_taps, planes_separable
from numba_pool.kernels.rows import window_rows
from numba_pool.kernels.runs import average_pixel_runs, average_runs, window_pixel_runs, window_runs
from numba_pool.kernels.separable import window_separable
from numba_pool.kernels.steps import window_steps
from numba_pool.kernels.strips import window_strips
from numba_pool.simd import (
    LANES,
    LINE,
    PAGE,
    PAGES,
    by_turns,
    load,
    mask_of,
    store_some,
    wide_registers,
)

WIDE = wide_registers()
KINDS = ("normal", "ties", "specials", "nan")
POOL = {1: nb.max_pool1d, 2: nb.max_pool2d, 3: nb.max_pool3d}
AVERAGE = {1: nb.avg_pool1d, 2: nb.avg_pool2d, 3: nb.avg_pool3d}
SPREAD = {1: nb.avg_pool1d_backward, 2: nb.avg_pool2d_backward, 3: nb.avg_pool3d_backward}


def check_max(x, order, **arguments):
    rank = x.ndim - 2
    y, indices = reference.max_pool(x, **arguments, rank=rank)
    given = laid_out(x, order, rank)
    for _ in range(2):  # the second time by the shortest way
        actual, where = POOL[rank](given, **arguments, return_indices=True)
        assert_identical(actual, y)
        assert_identical(where, indices)
        assert_identical(POOL[rank](given, **arguments), y)


def with_dtypes(cases, *others):
    """Every case with float32 and with one of the other dtypes, by turns: each pair of both takes half a second to
    compile, and a case decides how windows are walked, a dtype how elements are read, compared and written.
    """
    return [(*case, dtype) for case, other in zip(cases, itertools.cycle(others)) for dtype in ("float32", other)]


def check_signed_zeros(shape, dtype, order, **arguments):
    """With indices: without them the sign of one among halves is not that of the first."""
    x, rank = elements(shape, dtype, "signed zeros", 0), len(shape) - 2
    expected = reference.max_pool(x, **arguments, rank=rank)
    actual = POOL[rank](laid_out(x, order, rank), **arguments, return_indices=True)
    assert_identical(actual[0], expected[0])
    assert_identical(actual[1], expected[1])


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
    ],
    ids=str,
)
def test_windows_that_share_rows(size, arguments, order, channels, kind, dtype):
    check_max(elements((2, channels, *size), dtype, kind, 0), order, **arguments)


STRIPS = [
    ((2, 2), (45, 39), {"kernel_size": 3, "stride": 1, "padding": 1}),  # blocks of rows, strips of columns
    ((1, 3), (41, 70), {"kernel_size": (3, 2), "stride": 2, "padding": ((1, 0), (0, 1)), "ceil_mode": True}),
    ((3, 8), (20, 20), {"kernel_size": 5, "stride": 1, "padding": 2}),  # one strip
    ((1, 2), (19, 33), {"kernel_size": (9, 4), "stride": (3, 1), "padding": (4, 2)}),
    ((1, 2), (7, 40), {"kernel_size": (7, 2), "stride": (1, 1), "padding": (3, 0), "dilation": (1, 3)}),
    ((1, 1), (18, 513), {"kernel_size": (2, 3), "stride": 1, "padding": (0, 1)}),
    ((1, 1), (9, 512), {"kernel_size": (2, 3), "stride": 1, "padding": (0, 1)}),
    ((1, 1), (7, 2100), {"kernel_size": (3, 3), "stride": (2, 1), "padding": (0, 1)}),  # two rows at a time
    ((2, 2), (35, 48), {"kernel_size": 2}),  # none in common
    ((1, 2), (23, 50), {"kernel_size": 3, "ceil_mode": True}),
    ((1, 2), (37, 41), {"kernel_size": (4, 2), "stride": (3, 2), "padding": (2, 1)}),
    ((1, 2), (19, 41), {"kernel_size": (2, 3), "stride": (5, 1), "padding": (1, 0)}),  # rows that nobody reads
    ((1, 2), (22, 39), {"kernel_size": (3, 1), "stride": 1, "padding": (1, 0)}),  # one column
    ((1, 2), (22, 39), {"kernel_size": (9, 1), "stride": (2, 2), "padding": ((8, 8), (0, 0))}),  # one row inside
    ((1, 2), (3, 39), {"kernel_size": (5, 3), "stride": 1, "padding": (2, 1)}),  # above and below the same
    ((2, 1), (3, 19, 21), {"kernel_size": (1, 3, 3), "stride": (2, 2, 1), "padding": (0, 1, 1)}),
    ((2, 2), (9, 75), {"kernel_size": (1, 5), "stride": (2, 1), "padding": (0, 2)}),  # one row
    ((8, 1), (3, 40), {"kernel_size": (1, 3), "stride": (1, 3), "dilation": (1, 2)}),
    ((1, 2), (20, 47), {"kernel_size": 9, "stride": 1, "padding": 4}),
    ((2, 3), (7, 17), {"kernel_size": (1, 7), "stride": 1}),  # and fewer outputs than lanes
    ((3, 1), (24, 60), {"kernel_size": (7, 16), "stride": (3, 2), "padding": (3, 7), "ceil_mode": True}),
    ((1, 2), (13, 90), {"kernel_size": (2, 6), "stride": (1, 7), "padding": (0, 3)}),
    ((3, 3), (14, 14), {"kernel_size": 3, "stride": 1, "padding": 1}),  # short rows, each in three windows
    ((2, 3), (11, 5), {"kernel_size": 5, "stride": 1, "padding": 2}),
    ((2, 3), (17, 9), {"kernel_size": (7, 2), "stride": 2, "padding": (3, 1), "ceil_mode": True}),
    ((2, 8), (1, 5), {"kernel_size": (9, 5), "stride": 1, "padding": ((8, 8), (2, 2))}),  # more rows than elements
    # Two planes at a time, with one left; two rows of windows, with one left.
    ((3, 7), (13, 13), {"kernel_size": 3, "stride": 2}),
    ((17, 1), (21, 16), {"kernel_size": (3, 2), "stride": (3, 2), "padding": (1, 0)}),
    ((19, 1), (3, 9, 8), {"kernel_size": (1, 5, 3), "stride": 2, "padding": (0, 2, 1), "ceil_mode": True}),
    ((3, 7), (14, 14), {"kernel_size": 2}),
    ((17, 1), (3, 15, 12), {"kernel_size": (1, 2, 3), "stride": (2, 3, 2)}),
]


def argmax_worker(shape, rank, last, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The kernel that serves a maximum with indices."""
    call = plans.uniform(shape, rank, last, kernel_size, stride, padding, dilation, ceil_mode, True, "argmax")
    return call.plan.worker


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("lead", "size", "arguments", "dtype"),
                         with_dtypes(STRIPS, "float64", "bfloat16", "int8", "uint8", "int64"), ids=str)
def test_windows_of_few_rows(lead, size, arguments, dtype, order):
    assert argmax_worker((*lead, *size), len(size), False, **arguments) is window_strips or not WIDE  # fewer columns
    for kind in KINDS:
        check_max(elements((*lead, *size), dtype, kind, 0), order, **arguments)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(
    "arguments",
    [{"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 2}, {"kernel_size": 4, "stride": 1, "padding": 2}],
    ids=str,
)
@pytest.mark.parametrize("size", [(13, 40), (15, 13), (37, 50)])
def test_kernels_that_ask_for_what_comes(monkeypatch, size, arguments, order):
    """As those of large arrays do, for which they are compiled anew."""
    for room in (rows, steps, strips):
        monkeypatch.setattr(room, "ASKED", 2)
    forget()
    try:
        for lead in ((3, 7), (1, 1)):
            plan = plans.uniform((*lead, *size), 2, False, 3, 2, 1, 1, False, True, "argmax").plan
            assert plan.worker not in (window_rows, window_steps, window_strips) or plan.rest(1)[-2] is True
            for kind in KINDS:
                check_max(elements((*lead, *size), "float32", kind, 0), order, **arguments)
    finally:
        forget()


NO_STRIPS = [  # many rows that no other window has, or many at all; long rows
    ((1, 2), (19, 33), {"kernel_size": (9, 4), "stride": (4, 1), "padding": (4, 2)}),
    ((3, 1), (24, 60), {"kernel_size": (16, 16), "stride": (5, 2), "padding": (8, 7), "ceil_mode": True}),
    ((1, 1), (3, 4110), {"kernel_size": (2, 3), "stride": 1, "padding": (0, 1)}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "uint8", "int64"])
@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("lead", "size", "arguments"), NO_STRIPS, ids=str)
def test_windows_of_too_many_rows(lead, size, arguments, order, dtype):
    for kind in KINDS:
        check_max(elements((*lead, *size), dtype, kind, 0), order, **arguments)


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (2, 1), ((2, 3), (2, 1)), (2, 2), ((2, 7), 1)], ids=str)
@pytest.mark.parametrize("lead", [(1, 1), (8, 1)])
def test_a_single_nan_in_any_column(kernel, stride, lead):
    """Kernels put +inf in the place of NaN, and look at all their vectors for it."""
    for column in range(41):
        x = np.zeros((*lead, 5, 41), np.float32)
        x[0, 0, 2, column] = np.nan
        check_max(x[..., : column + 7], "C", kernel_size=kernel, stride=stride)


@pytest.mark.parametrize("channels", [1, 3, 15, 16, 17, 33, 256, 272])
@pytest.mark.parametrize("kind", KINDS)
def test_few_and_many_channels_last(channels, kind):
    x = elements((2, channels, 9, 11), "float32", kind, 0)
    for arguments in (
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (1, 4), "stride": (2, 5), "dilation": (1, 2)},
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


@pytest.mark.filterwarnings("ignore:invalid value")  # to look at a signalling NaN
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_there_is(dtype):
    """Widened and rounded back: windows of one element leave all of them as they are, but for the sign of a zero."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype).reshape(1, 1, 1 << 8, 1 << 8)
    assert_identical(nb.max_pool2d(x, 1), x)
    y = nb.avg_pool2d(x, 1)
    zeros = x.view(np.uint16) << 1 == 0
    assert (y.view(np.uint16)[zeros] << 1 == 0).all()
    assert_identical(y[~zeros], x[~zeros])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_rounded_to_nearest_even(dtype):
    bits = np.random.default_rng(0).integers(0, 1 << 16, (1, 1, 2, 1 << 16)).astype(np.uint16)
    x = bits.view(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        upper, lower = x[:, :, :1].astype(np.float32), x[:, :, 1:].astype(np.float32)
        expected = ((0 + upper + lower) / 2).astype(dtype)
    assert_identical(nb.avg_pool2d(x, (2, 1)), expected)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("lead", [(2, 3), (2, 16), (1, 40)])
@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 1, "padding": 1, "count_include_pad": False},
        {"kernel_size": 7, "stride": 1, "padding": 3},
        {"kernel_size": (2, 5), "stride": (2, 4), "padding": (1, 0)},
        {"kernel_size": 3, "stride": 3, "divisor_override": 7},
    ],
    ids=str,
)
def test_averages_of_small_planes(arguments, lead, order):
    """Both directions; the kernels divide once, after the sum."""
    x = elements((*lead, 10, 13), "float32", "normal", 0)
    expected = reference.avg_pool(x, **arguments, rank=2)
    magnitude = reference.avg_pool(np.abs(x), **arguments, rank=2)
    y = nb.avg_pool2d(laid_out(x, order, 2), **arguments)
    assert_rounded(y, expected, magnitude)
    g = elements(y.shape, "float32", "normal", 1)
    actual = nb.avg_pool2d_backward(laid_out(g, order, 2), x.shape, **arguments)
    expected = reference.avg_pool_backward(g, x.shape, **arguments, rank=2)
    assert_rounded(actual, expected, reference.avg_pool_backward(np.abs(g), x.shape, **arguments, rank=2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [15, 16, 28, 31, 32, 33, 61])
def test_rows_about_as_long_as_two_vectors(width, kind):
    x = elements((1, 2, 4, width), "float32", kind, 0)
    for k in (1, 2, 3, 4, 5):
        check_max(x, "C", kernel_size=(2, k), stride=1, padding=(0, k // 2))
        arguments = {"kernel_size": (2, k), "stride": 1, "padding": (1, k // 2), "count_include_pad": False}
        numbers = elements(x.shape, "float32", "normal", 3)
        assert_rounded(nb.avg_pool2d(numbers, **arguments), reference.avg_pool(numbers, **arguments, rank=2),
                       reference.avg_pool(np.abs(numbers), **arguments, rank=2))


PICKED = [
    ((9, 1), (7, 14), {"kernel_size": 2}),  # two rows to a vector, and one left over
    ((3, 3), (14, 14), {"kernel_size": 3, "stride": 2, "padding": 1}),  # the first row has fewer taps
    ((1, 8), (5, 13), {"kernel_size": 3, "stride": 1, "padding": 1}),  # a row in each vector
    ((2, 4), (4, 14), {"kernel_size": (3, 2), "stride": (3, 2), "padding": ((1, 0), 0), "ceil_mode": True}),  # counts
    ((2, 4), (6, 16), {"kernel_size": (1, 2), "stride": (1, 1)}),
    ((2, 4), (9, 28), {"kernel_size": 3, "stride": 1, "padding": 1}),  # a row in both vectors
    ((2, 4), (4, 32), {"kernel_size": (4, 1), "stride": (3, 1)}),
    ((2, 4), (4, 20), {"kernel_size": 5, "stride": 1, "padding": (2, 2)}),
    ((1, 2), (6, 61), {"kernel_size": 3, "stride": 2, "padding": 1}),  # longer rows
    ((2, 4), (6, 28), {"kernel_size": (2, 3), "stride": (2, 1), "padding": (0, 1)}),  # with no row in common
    ((1, 2), (6, 61), {"kernel_size": (2, 3), "stride": (2, 1), "padding": (0, 1)}),
    ((1, 1), (3, 95), {"kernel_size": (2, 3), "stride": 3}),
    ((2, 5), (5, 40), {"kernel_size": (2, 4), "stride": (2, 7)}),
    ((1, 1), (3, 70), {"kernel_size": (3, 2), "stride": (1, 20), "ceil_mode": True}),
    ((1, 9), (11, 23), {"kernel_size": 1, "stride": 3}),  # elements between the windows
    ((3, 16), (6, 8), {"kernel_size": 2}),
    ((8, 5), (4, 3), {"kernel_size": 2, "stride": 1}),
    ((1, 12), (4, 9), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((2, 9), (5, 11), {"kernel_size": 4, "stride": 3, "padding": 1}),
    ((2, 12), (4, 10), {"kernel_size": 4, "stride": 2, "padding": 1}),
    ((1, 2), (3, 195), {"kernel_size": (2, 40), "stride": (2, 45), "padding": (0, 7)}),  # side by side, and gaps
    ((1, 1), (2, 140), {"kernel_size": (1, 50), "stride": 50, "padding": (0, 20), "ceil_mode": True}),
    ((8, 16), (4, 1), {"kernel_size": 1, "stride": 2}),  # an element that no window holds in each vector
    ((8, 8), (6, 1), {"kernel_size": 5, "stride": 4, "padding": 2}),
    ((9, 3), (5, 10), {"kernel_size": 3, "stride": 1, "padding": 1}),
    ((2, 4), (4, 5, 6), {"kernel_size": 3, "stride": 2, "padding": 1}),  # depths of two and of three
    ((8, 1), (5, 9, 14), {"kernel_size": (2, 3, 2), "stride": (1, 2, 2), "padding": (1, 0, 1)}),
    ((2, 4), (7, 19), {"kernel_size": 3, "stride": 2, "dilation": 3}),
    ((9, 1), (6, 61), {"kernel_size": (3, 2), "stride": (3, 2), "padding": (1, 0)}),  # rows of two steps
    ((2, 5), (5, 95), {"kernel_size": (2, 3), "stride": (2, 3), "padding": (1, 1), "ceil_mode": True}),  # of four
    ((8, 1), (4, 70), {"kernel_size": (2, 3), "stride": 1, "padding": (1, 1)}),
    ((1, 8), (3, 4, 40), {"kernel_size": 2, "stride": (1, 2, 1), "padding": (1, 1, 0)}),
    ((1, 8), (5, 80), {"kernel_size": (2, 6), "stride": (2, 2), "padding": (0, 3)}),  # of more than five columns
    ((2, 4), (9, 63), {"kernel_size": 7, "stride": 7, "padding": 3}),
    ((1, 2), (5, 77), {"kernel_size": (2, 16), "stride": (2, 16), "padding": (0, 5)}),  # two outputs a step
    ((1, 9), (5, 50), {"kernel_size": (3, 9), "stride": (3, 1), "padding": (0, 4)}),
    ((2, 4), (4, 21), {"kernel_size": (2, 6), "stride": (2, 4), "dilation": (1, 3)}),
    ((8, 1), (2, 3, 9), {"kernel_size": (2, 2, 3), "dilation": (3, 1, 1), "padding": ((2, 2), 0, 0), "stride": 1}),
]


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("lead", "size", "arguments", "dtype"), with_dtypes(PICKED, "bfloat16", "int16"), ids=str)
def test_windows_picked_out_of_rows(lead, size, arguments, dtype, order):
    rank = len(size)
    for kind in KINDS:
        check_max(elements((*lead, *size), dtype, kind, 0), order, **arguments)
    if dtype == "int16":
        return
    x = elements((*lead, *size), dtype, "normal", 0)
    magnitude = np.abs(x)
    for more in ({}, {"count_include_pad": False}, {"divisor_override": 3}):
        arguments = {**arguments, **more}
        expected = reference.avg_pool(x, **arguments, rank=rank)
        y = AVERAGE[rank](laid_out(x, order, rank), **arguments)
        assert_rounded(y, expected, reference.avg_pool(magnitude, **arguments, rank=rank))
        g = elements(y.shape, dtype, "normal", 1)
        expected = reference.avg_pool_backward(g, x.shape, **arguments, rank=rank)
        actual = SPREAD[rank](laid_out(g, order, rank), x.shape, **arguments)
        bound = reference.avg_pool_backward(np.abs(g), x.shape, **arguments, rank=rank)
        assert_rounded(actual, expected, bound)


@pytest.mark.parametrize("planes", [8, 9, 15])
@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((14, 14), {"kernel_size": 2}),
        ((13, 13), {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((7, 20), {"kernel_size": 3, "stride": 1, "padding": 1}),
        ((3, 6, 10), {"kernel_size": (1, 2, 2)}),
    ],
    ids=str,
)
def test_planes_of_an_odd_number_of_short_rows(size, arguments, planes):
    """Several of which are walked as one, and what is left of them alone."""
    rank = len(size)
    x = elements((1, planes, *size), "float32", "ties", 0)
    check_max(x, "C", **arguments)
    numbers = elements(x.shape, "float32", "normal", 1)
    assert_rounded(AVERAGE[rank](numbers, **arguments), reference.avg_pool(numbers, **arguments, rank=rank),
                   reference.avg_pool(np.abs(numbers), **arguments, rank=rank))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("channels", "size", "arguments"),
    [
        (2, (130, 131), {"kernel_size": (130, 131)}),
        (3, (75, 77), {"kernel_size": (74, 12), "stride": 1, "padding": (2, 0)}),
        (1, (6, 61, 50), {"kernel_size": (6, 60, 7), "stride": (1, 1, 9), "padding": (1, 0, 0)}),
        (1, (350, 99), {"kernel_size": (170, 8), "stride": (3, 4), "dilation": (2, 1)}),
        (20, (41, 43), {"kernel_size": (41, 43)}),
        (40, (46, 61), {"kernel_size": (15, 31), "padding": (1, 2)}),  # two strips, three rows
        (33, (37, 50), {"kernel_size": (19, 9), "stride": (37, 5), "dilation": (2, 3), "ceil_mode": True}),
        (17, (3, 20, 44), {"kernel_size": (3, 17, 30), "padding": (0, 8, 15)}),
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
@pytest.mark.parametrize("lead", [(2, 16), (3, 15)])  # planes that are channels, of which the last may be taken twice
def test_wide_windows_of_many_small_planes(lead, dtype):
    for kind in KINDS if "float" in dtype else ("normal", "ties"):
        check_max(elements((*lead, 9, 8), dtype, kind, 0), "C", kernel_size=11, stride=1, padding=5)
    if "float" not in dtype:
        x = elements((*lead, 9, 8), dtype, "ties", 0) * np.array(50, dtype)
        expected = reference.avg_pool(x, 11, 1, 5, rank=2)
        assert_identical(nb.avg_pool2d(x, 11, 1, 5), expected)


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8"])
@pytest.mark.parametrize("lead", [(2, 16), (3, 15)])
@pytest.mark.parametrize("height", [9, 4])  # 27 results, and fewer than a vector
def test_windows_of_a_few_columns_of_many_small_planes(height, lead, dtype):
    for kind in KINDS if "float" in dtype else ("normal", "ties"):
        check_max(elements((*lead, height, 8), dtype, kind, 0), "C", kernel_size=(1, 6), stride=1)


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
        ((9, 8), {"kernel_size": 8, "stride": 1, "padding": 4}),
        ((12, 17), {"kernel_size": (9, 6), "stride": (2, 1), "padding": (4, 3), "ceil_mode": True}),
        ((20, 16), {"kernel_size": (8, 7), "stride": 1, "padding": ((10, 9), (3, 3)), "dilation": (3, 2)}),
        ((5, 6, 7), {"kernel_size": (3, 5, 4), "stride": 1, "padding": (1, 2, 2)}),
        ((4, 16), {"kernel_size": (4, 13), "stride": 1, "padding": ((9, 8), (6, 6)), "dilation": (4, 1)}),
        ((2, 38), {"kernel_size": (1, 19), "stride": 1, "dilation": (2**27, 1)}),  # no room for the gaps
    ],
    ids=str,
)
def test_large_windows_of_many_small_planes(size, arguments):
    assert argmax_worker((1, 33, *size), len(size), False, **arguments) is planes_separable
    for kind in KINDS:
        check_max(elements((1, 33, *size), "float32", kind, 0), "C", **arguments)


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


def test_blocks_of_columns_of_small_planes():
    """Adaptive windows of half a column each."""
    x = elements((1, 32, 512, 2), "float32", "specials", 0)
    y, indices = nb.adaptive_max_pool2d(x, (2, 20), return_indices=True)
    assert plans.adaptive(x.shape, 2, False, (2, 20), "argmax").plan.worker is planes_separable
    expected = reference.adaptive_max_pool(x, (2, 20), rank=2)
    assert_identical(y, expected[0])
    assert_identical(indices, expected[1])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_large_windows_of_one_value(value):
    x = np.full((1, 33, 20, 20), value, np.float32)
    for order in ("C", "channels_last"):
        check_max(x, order, kernel_size=9, stride=1, padding=4)


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
            window_separable(lo, min(lo + step, 39), given, arrays.raw(y), index, None, call.plan.tables)
        for actual, wanted in zip((y, index), expected, strict=True):
            assert_identical(actual.reshape(3, 13, 7, 40), np.ascontiguousarray(np.moveaxis(wanted, 1, -1)))


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8", "int64"])
def test_large_windows_of_every_kind_of_number(dtype):
    for kind in KINDS if "float" in dtype else ("normal", "ties"):
        check_max(elements((1, 18, 45, 46), dtype, kind, 0), "channels_last", kernel_size=(45, 44), stride=3)


@pytest.mark.parametrize(
    ("last", "shape", "kernel", "stride", "reduction", "worker"),
    [
        (True, (2, 64, 56, 57), 56, 56, "max", window_buffered),  # all rows once
        (True, (2, 64, 112, 112), 8, 8, "max", window_pixels),  # of no element in common
        (True, (2, 64, 120, 120), 17, 17, "max", window_buffered),  # too many taps
        (True, (8, 64, 112, 112), 8, 8, "max", window_buffered),  # from memory
        (True, (2, 64, 56, 56), 4, 2, "max", window_pixels),  # four windows to an element
        (True, (2, 64, 56, 56), 4, 2, "average", window_bands),
        (True, (2, 32, 56, 56), 4, 2, "max", window_bands if WIDE else window_buffered),  # two vectors
        (True, (2, 64, 56, 56), 6, 2, "max", window_pixels),  # nine
        (True, (2, 64, 56, 56), 7, 2, "max", window_separable),  # more
        (True, (2, 64, 56, 56), 4, 1, "max", window_pixels),  # two passes
        (True, (2, 64, 56, 56), 5, 3, "average", window_pixels),
        (True, (2, 512, 8, 8), 4, 4, "average", window_bands),  # half a page from pixel to pixel
        (True, (2, 64, 14, 14), 7, 7, "max", window_pixels),
        (True, (2, 64, 112, 112), 8, 2, "max", window_separable),
        (True, (8, 64, 112, 112), 7, 1, "max", window_bands if WIDE else window_buffered),  # from memory
        (True, (8, 64, 112, 112), 11, 1, "argmax", window_separable),  # many taps
        (True, (1, 32, 100, 200), 87, 1, "max", window_separable),
        (True, (1, 32, 1, 6000), (1, 701), 1, "argmax", window_separable),  # blocks of half a window
        (True, (1, 32, 1, 6000), (1, 901), 1, "argmax", window_bands if WIDE else window_buffered),
        (True, (1, 32, 100, 200), 89, 1, "max", window_bands if WIDE else window_buffered),  # no room for its rows
        (True, (2, 4096, 20, 21), 20, 20, "max", window_bands if WIDE else window_buffered),  # a larger row
        (True, (2, 64, 224, 224), 3, 3, "max", window_pixels),
        (True, (2, 64, 24, 24), 5, 1, "max", window_separable),
        (True, (2, 16, 24, 24), 5, 1, "max", window_buffered),  # one vector
        (True, (2, 64, 24, 24), 5, 1, "argmax", window_separable),
        (True, (2, 64, 24, 24), 4, 1, "argmax", window_pixels),  # few taps
        (True, (2, 64, 24, 24), 8, 1, "argmax", window_separable),
        (True, (2, 64, 24, 24), 6, 2, "argmax", window_bands if WIDE else window_pixels),  # of nine windows
        (True, (2, 64, 24, 24), 5, 1, "average", window_bands),
        (True, (2, 64, 24, 24), 6, 1, "average", window_bands if WIDE else window_buffered),
        (True, (4, 12, 40, 40), 4, 4, "argmax", window_pixels),
        (True, (4, 8, 40, 40), 7, 7, "argmax", window_buffered),  # vectors half empty
        (True, (64, 16, 8, 8), 2, 2, "max", window_pixels),  # a vector each
        (True, (64, 9, 6, 6), 2, 2, "argmax", window_pixels),
        (True, (64, 9, 6, 6), 3, 1, "max", window_steps),  # more than four taps
        (True, (64, 16, 4, 4), 2, 2, "max", window_steps),  # few outputs
        (True, (64, 8, 8, 8), 2, 2, "max", window_steps),
        (False, (8, 4, 38, 38), 3, 1, "argmax", window_strips if WIDE else planes_by_taps),
        (False, (8, 4, 39, 39), 3, 1, "argmax", window_strips),  # more than the second cache holds of 32
        (False, (31, 1, 38, 38), 3, 1, "argmax", window_strips),  # too few planes
        (False, (8, 4, 46, 46), 3, 1, "average", window_steps if WIDE else planes_by_taps),  # no indices
        (False, (8, 4, 47, 47), 3, 1, "average", window_steps),
        (False, (8, 4, 44, 44), 2, 2, "average", window_steps if WIDE else planes_by_taps),
        (False, (8, 4, 3, 5), 3, 1, "argmax", window_strips),  # less than a vector
        (False, (8, 4, 40, 30), (16, 4), 2, "argmax", window_steps),  # too many taps
        (False, (2, 4, 56, 56), 2, 2, "max", window_steps),
        (False, (1, 7, 56, 56), 2, 2, "max", window_rows),  # too few planes
        (False, (1, 8, 600, 56), 2, 2, "max", window_steps),
        (False, (1, 8, 600, 142), 2, 2, "max", window_rows),  # too many steps
        (False, (16, 64, 128, 128), 2, 2, "argmax", window_rows),  # in whole lines
        (False, (16, 64, 128, 128), 2, 2, "max", window_steps),
        (False, (15, 64, 128, 128), 2, 2, "argmax", window_strips),  # smaller
        (False, (20, 64, 128, 124), 2, 2, "argmax", window_strips),  # rows that end within a line
        (False, (2, 4, 56, 56), 9, 1, "max", window_steps if WIDE else window_buffered),
        (False, (2, 4, 56, 56), 10, 1, "max", window_buffered),  # too many columns
        (False, (8, 4, 20, 20), 7, 1, "max", window_steps if WIDE else planes_separable),
        (False, (8, 4, 20, 20), 7, 3, "max", window_steps if WIDE else planes_by_taps),  # of three windows
        (False, (8, 4, 20, 20), 4, 1, "argmax", window_strips if WIDE else planes_separable),
        (False, (8, 4, 20, 20), 8, 1, "argmax", planes_separable),
        (False, (8, 4, 17, 17), (1, 12), 1, "argmax", planes_by_taps),  # few taps
        (False, (8, 4, 17, 17), (1, 13), 1, "argmax", planes_separable if WIDE else planes_by_taps),
        (False, (2, 4, 56, 56), 5, 1, "average", window_steps),
        (False, (2, 4, 56, 56), 6, 1, "average", window_buffered),
        (False, (2, 4, 56, 56), 16, 2, "average", window_steps),
        (False, (2, 4, 56, 56), 17, 2, "average", window_buffered),
        (False, (2, 4, 56, 56), 3, 2, "argmax", window_strips),
        (False, (2, 4, 56, 56), 3, 3, "argmax", window_strips),
        (False, (2, 4, 56, 56), 4, 4, "argmax", window_steps),  # too many rows that no other window has
        (False, (2, 4, 56, 56), 4, 3, "argmax", window_strips),
        (False, (2, 4, 56, 56), (9, 3), 1, "argmax", window_strips),
        (False, (2, 4, 56, 56), (10, 3), 1, "argmax", window_steps),  # too many rows
        (False, (2, 4, 18, 18), 3, 1, "argmax", window_strips),  # rows of one vector
        (False, (4, 4, 14, 14), 3, 2, "argmax", window_strips),  # two planes at a time
        (False, (4, 4, 14, 14), 2, 2, "argmax", window_strips),  # two rows
        (False, (3, 5, 14, 14), 2, 2, "argmax", window_strips),  # one
        (False, (4, 4, 14, 14), 2, 1, "argmax", window_steps),  # two rows to a step
        (False, (2, 4, 14, 14), 3, 1, "argmax", window_strips),  # rows in three windows
        (True, (2, 3, 56, 56), 3, 2, "argmax", window_strips),
        (False, (1, 3, 9, 4098), 3, 1, "argmax", window_strips),  # 4096 columns
        (False, (1, 3, 9, 4099), 3, 1, "argmax", window_rows),  # too many
        (False, (1, 3, 9, 16385), 3, 2, "argmax", window_strips),  # 8192
        (False, (1, 3, 9, 16387), 3, 2, "argmax", window_rows),
        (False, (1, 1, 8, 8), 2, 2, "average", window_rows),
        (False, (2, 4, 18, 18), 6, 1, "argmax", window_strips if WIDE else window_buffered),
        (False, (2, 4, 1, 60), (1, 9), 1, "average", window_steps if WIDE else window_buffered),
        (False, (2, 4, 1, 60), (1, 5), 1, "argmax", window_strips),  # one row
        (False, (2, 4, 1, 60), (1, 2), 1, "argmax", window_strips),
        (False, (8, 4, 17, 17), (1, 6), 1, "argmax", planes_by_taps),  # one row, small planes
        (False, (8, 4, 17, 17), (1, 6), 1, "max", window_steps if WIDE else planes_by_taps),
        (False, (8, 4, 17, 17), (1, 5), 1, "argmax", window_strips if WIDE else planes_by_taps),
        (False, (8, 4, 17, 17), (2, 6), 1, "argmax", window_strips if WIDE else planes_by_taps),
        (False, (8, 4, 16, 16), 16, 1, "max", window_runs),
        (False, (8, 4, 16, 16), 16, 1, "argmax", window_runs),
        (False, (8, 4, 16, 16), 16, 1, "average", average_runs),
        (True, (8, 4, 16, 16), 16, 1, "average", average_pixel_runs),
        (True, (8, 400, 16, 16), 16, 1, "average", average_pixel_runs),
        (False, (8, 4, 5, 5), 5, 1, "average", average_runs),
        (True, (8, 40, 5, 5), 5, 1, "average", average_pixel_runs),
        (False, (8, 4, 4, 5), (4, 5), 1, "average", window_steps if WIDE else planes_by_bands),  # too short
        (True, (8, 40, 4, 6), (4, 6), 1, "average", window_pixels),
        (False, (8, 4, 30, 26), (9, 26), 3, "average", planes_by_bands),  # more than one, and too short
        (False, (8, 4, 30, 26), (10, 26), 3, "average", average_runs),
        (True, (8, 4, 30, 26), (10, 26), 3, "average", average_pixel_runs),
        (False, (8, 4, 30, 30), (30, 10), 1, "average", window_buffered),  # all rows
        (False, (8, 4, 8, 8), 8, 1, "max", window_runs),
        (False, (8, 4, 6, 10), (6, 10), 1, "max", window_runs),
        (False, (8, 4, 1, 5), (1, 5), 1, "max", window_runs),
        (False, (8, 4, 5, 5), 5, 1, "argmax", window_runs),
        (False, (8, 4, 2, 12), (2, 12), 1, "argmax", window_runs),
        (False, (8, 4, 30, 26), (10, 26), 3, "max", window_runs),  # all columns
        (False, (8, 4, 30, 16), (1, 16), 1, "max", window_runs),
        (False, (8, 4, 30, 15), (3, 15), 3, "argmax", window_strips if WIDE else planes_by_taps),  # too few
        (False, (8, 4, 30, 8), (8, 8), 8, "argmax", window_runs),
        (False, (8, 4, 30, 30), (30, 10), 1, "max", window_buffered),  # all rows
        (True, (8, 64, 16, 16), 16, 1, "max", window_pixel_runs),
        (True, (8, 63, 16, 16), 16, 1, "max", window_pixels),  # few elements
        (True, (8, 16, 32, 32), 32, 1, "argmax", window_buffered),  # one vector
        (True, (1, 2048, 8, 8), 8, 1, "argmax", window_pixel_runs),
        (True, (2, 64, 56, 56), (14, 56), 14, "argmax", window_pixel_runs),
        (True, (2, 64, 56, 56), (28, 56), 1, "argmax", window_separable),
        (True, (32, 64, 60, 60), 60, 1, "max", window_buffered),  # from memory
    ],
)
def test_which_kernel_serves(last, shape, kernel, stride, reduction, worker):
    pair, nothing = kernel if isinstance(kernel, tuple) else (kernel, kernel), (0, 0)
    call = plans.uniform(shape, 2, last, pair, (stride, stride), nothing, (1, 1), False, True, reduction)
    assert call.plan.worker is worker


@pytest.mark.skipif(WIDE, reason="with AVX-512 gradients of such planes are by rows, or scattered")
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "worker"),
    [
        ((8, 4, 14, 14), 3, 1, planes_by_taps),
        ((8, 4, 14, 14), 3, 2, planes_by_bands),  # elements by turns in one window and in two
        ((8, 4, 45, 45), 3, 1, planes_by_taps),
        ((8, 4, 47, 47), 3, 1, window_steps),  # more than the second cache holds of 32
        ((31, 1, 45, 45), 3, 1, window_steps),  # too few planes
    ],
)
def test_which_kernel_serves_gradients(shape, kernel, stride, worker):
    grad = (*shape[:2], *((n - kernel) // stride + 1 for n in shape[2:]))
    windows = (kernel, kernel), (stride, stride), (0, 0), (1, 1)
    call = plans.uniform_backward(grad, shape, 2, False, 4, *windows, False, True, False)
    assert call.plan.worker is worker


@pytest.mark.parametrize(
    ("last", "channels", "kernel", "stride", "work"),
    [
        (False, 24, 2, 2, 1024),
        (True, 24, 2, 2, 768),  # four taps of whole pixels take less time
        (True, 24, 3, 2, 1024),
        (True, 4, 2, 2, 1024),  # not by pixels
        (True, 24, 2, 1, 3072),
    ],
)
def test_work_that_threads_share(last, channels, kernel, stride, work):
    windows = (kernel, kernel), (stride, stride), (0, 0), (1, 1)
    call = plans.uniform((2, channels, 8, 8), 2, last, *windows, False, True, "max")
    assert call.plan.traffic(1024, 1024 // stride**2, False) == work
    assert call.plan.traffic(1024, 1024 // stride**2, True) == 4 * max(256, 1024 // stride**2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", simd.RECORDS["float16"]])
def test_lanes_are_stored_where_a_mask_is(dtype):
    """Runs of lanes, of which other machines than those with AVX-512 copy pieces, and lanes here and there."""
    store_bits = numba.njit(lambda y, at, x, bits: store_some(y, at, load(x, 0), mask_of(bits)))
    x = np.arange(1, LANES + 1).astype(np.uint16 if np.dtype(dtype).fields else dtype)
    runs = [(2**count - 1) << first for count in range(LANES + 1) for first in range(LANES - count + 1)]
    for bits in (*runs, *np.random.default_rng(0).integers(0, 2**LANES, 200)):
        for at in (LANES, LANES + 3):
            y = np.zeros(4 * LANES, x.dtype)
            store_bits(y.view(dtype), at, x.view(dtype), int(bits))
            expected = np.zeros_like(y)
            expected[at : at + LANES] = [v if int(bits) >> i & 1 else 0 for i, v in enumerate(x)]
            assert (y == expected).all(), bin(bits)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", simd.RECORDS["float16"]])
def test_a_stage_is_within_a_page(dtype):
    """A vector from its beginning on, or from its middle: masked stores begin before a stage's first element."""
    make = numba.njit(lambda x, size, second: staged(x, size, second))
    x = np.zeros(1, dtype)
    for second, page in ((False, PAGE), (True, PAGE // 2)):
        for size in (1, 100, page // x.itemsize - 2 * LANES):
            for _ in range(20):
                stage = make(x, size, second)
                first = stage.ctypes.data % page
                assert stage.dtype == x.dtype
                assert stage.size == size
                assert first == LANES * x.itemsize
                assert first + stage.nbytes <= page


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_lines_are_asked_for_from_several_pages_by_turns(dtype):
    @numba.njit
    def taken(x, first, stop, line):
        return [by_turns(x, i) for i in range(first, stop, line)]

    x = np.zeros(1, dtype)
    block, page, line = PAGES * PAGE // x.itemsize, PAGE // x.itemsize, LINE // x.itemsize
    lines = np.array(taken(x, 5 * block + 3, 7 * block, line))
    assert sorted(lines) == list(range(5 * block, 7 * block, line))  # each once, and none of another block
    assert set(lines[: len(lines) // 2]) == set(range(5 * block, 6 * block, line))
    assert list(lines[: 2 * PAGES] - 5 * block) == [i % PAGES * page + i // PAGES * line for i in range(2 * PAGES)]
    # `ahead_of` is a block, of which each line is asked for before its turn to be read comes.
    assert (lines[: len(lines) // 2] + block > 5 * block + line * np.arange(len(lines) // 2)).all()


@pytest.mark.parametrize(("size", "output"), [((100, 60), (200, 20)), ((5, 57), (10, 19))])
def test_adaptive_windows_of_one_row(size, output):
    """Some of them hold the same row, and have no stride: nothing is kept for the next."""
    x = elements((2, 3, *size), "float32", "ties", 0)
    call = plans.adaptive(x.shape, 2, False, output, "argmax")
    assert call.plan.worker is not window_strips
    y, indices = nb.adaptive_max_pool2d(x, output, return_indices=True)
    expected, where = reference.adaptive_max_pool(x, output, rank=2)
    assert_identical(y, expected)
    assert_identical(indices, where)


def test_windows_that_are_empty_in_depth():
    x = elements((1, 2, 2, 5, 40), "float32", "normal", 0)
    check_max(x, "C", kernel_size=(2, 2, 3), stride=1, dilation=(3, 1, 1), padding=((2, 2), 0, 0))


def test_rows_between_the_windows_are_not_read():
    """However far apart."""
    x = elements((8, 2, 3, 50), "float32", "normal", 0)
    call = plans.uniform(x.shape, 2, False, (1, 3), (2**31 - 1, 1), 0, 1, False, True, "argmax")
    assert call.plan.worker is window_strips
    check_max(x, "C", kernel_size=(1, 3), stride=(2**31 - 1, 1))


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_the_sign_of_a_zero_is_that_of_its_index(order):
    for lead, size in (((1, 1), (4, 6)), ((8, 3), (6, 10)), ((1, 2), (4, 70)), ((1, 20), (4, 6))):
        x = np.random.default_rng(0).choice(np.array([-1, -0.0, 0.0], np.float32), (*lead, *size))
        for arguments in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 1, "padding": 1}):
            y, indices = nb.max_pool2d(laid_out(x, order, 2), **arguments, return_indices=True)
            flat = x.reshape(*lead, -1)
            winners = np.take_along_axis(flat, indices.reshape(*lead, -1).astype(np.int64), 2).reshape(y.shape)
            assert (np.signbit(y) == np.signbit(winners)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int16"])
@pytest.mark.parametrize("lead", [(1, 15), (4, 4), (1, 17), (3, 13)])
def test_gradients_of_many_small_planes(lead, dtype):
    """In groups of four, with a rest; every element is the winner of many windows."""
    for size, arguments in (((4, 3), {"kernel_size": 2, "stride": 1}), ((9, 30), {"kernel_size": 5, "stride": 1})):
        x = elements((*lead, *size), "float32", "ties", 0)
        _, indices = reference.max_pool(x, **arguments, rank=2)
        rng = np.random.default_rng(1)
        g = rng.integers(-8, 9, indices.shape).astype(dtype)  # sums that no order rounds
        expected = reference.scatter_add(g.astype("float64"), indices, x.shape, 2)
        assert (nb.max_pool2d_backward(g, indices, x.shape).astype("float64") == expected).all()
        holes = np.where(rng.random(indices.shape) < 0.1, -1, indices).astype(np.int32)
        expected = reference.scatter_add(np.where(holes < 0, 0, g).astype("float64"), indices, x.shape, 2)
        assert (nb.max_pool2d_backward(g, holes, x.shape).astype("float64") == expected).all()


@pytest.mark.parametrize("planes", [16, 21, 31])
def test_few_planes_and_many_threads(monkeypatch, planes):
    """Planes are split among threads where there are few of them, but not those that are taken in groups."""
    monkeypatch.setattr(calls, "get_num_threads", lambda: 16)
    x = np.random.default_rng(0).standard_normal((1, planes, 66, 70), dtype=np.float32)
    y, indices = nb.max_pool2d(x, 2, return_indices=True)
    expected = np.zeros((planes, 66 * 70), np.float32)
    np.put_along_axis(expected, indices.reshape(planes, -1), y.reshape(planes, -1), 1)
    assert_identical(nb.max_pool2d_backward(y, indices, x.shape), expected.reshape(x.shape))
    indices[0, ::3, 0, ::5] = -1
    expected[:] = 0
    for plane in range(planes):
        kept = indices[0, plane] >= 0
        expected[plane, indices[0, plane][kept]] = y[0, plane][kept]
    assert_identical(nb.max_pool2d_backward(y, indices, x.shape), expected.reshape(x.shape))


def test_gradients_of_small_planes_in_a_large_result():
    """More than the caches hold: from tiles past the caches."""
    x = np.random.default_rng(0).standard_normal((140, 512, 11, 11), dtype=np.float32)
    y, indices = nb.max_pool2d(x, 3, 2, return_indices=True)
    actual = nb.max_pool2d_backward(y, indices, x.shape)
    for plane in ((0, 0), (13, 77), (139, 511)):
        expected = np.zeros(121, np.float32)
        np.add.at(expected, indices[plane].reshape(-1), y[plane].reshape(-1))
        assert_rounded(actual[plane].reshape(-1), expected, np.abs(expected))
    assert actual.astype(np.float64).sum() == pytest.approx(y.astype(np.float64).sum(), rel=1e-6)


def test_short_axes_are_kept_between_calls():
    """What was found of them, too; those of long ones go with the tables of their calls."""
    axis = _windows.uniform_axis(40, 20, 2, 2, (0, 0), 1, True)
    assert _windows.uniform_axis(40, 20, 2, 2, (0, 0), 1, True) is axis
    assert axis.runs is axis.runs
    assert axis.inverse is _windows.inverse_axis(axis)
    assert _windows.adaptive_axis(40, 7) is _windows.adaptive_axis(40, 7)
    assert _windows.adaptive_axis(4000, 7) is not _windows.adaptive_axis(4000, 7)
    assert axis._replace(before=1).inverse.before == 1 != axis.inverse.before


def test_runs_of_windows():
    """Alike from each on: as wide, dividing by as much, as far from each other as the first two."""
    axes = [_windows.adaptive_axis(length, n) for length in (1, 5, 12) for n in (0, 1, 4, 5, 7, 12)]
    for length, k, s, d in itertools.product((1, 2, 3, 9, 20), (1, 2, 3, 5), (1, 2, 4), (1, 2, 3)):
        pads = {(0, 0), (k // 2, k // 2), (0, d * (k - 1))}
        for pad, include in itertools.product(pads, (False, True)):
            n = _arguments.output_length(length, k, s, pad, d, ceil_mode=True)
            if n > 0:
                axes.append(_windows.uniform_axis(length, n, k, s, pad, d, include))
    axes += [_windows.inverse_axis(axis) for axis in axes if axis.step == 1 and len(axis.start)]
    seen = set()
    for axis, apart in itertools.product(axes, (1, 2, 3, 7)):
        windows = list(zip(axis.start.tolist(), (axis.stop - axis.start).tolist(), axis.width.tolist(), strict=True))
        counts = _windows.runs_alike(axis, apart)
        assert len(counts) == len(windows)
        for i, count in enumerate(counts.tolist()):
            line = windows[i::apart]
            same = [j for j in range(1, len(line))
                    if line[j][1:] == line[0][1:] and line[j][0] - line[0][0] == j * (line[1][0] - line[0][0])]
            assert count == next((j for j in range(1, len(line)) if j not in same), len(line))
            seen.add((apart, count))
    assert set(itertools.product((1, 2, 3), (1, 2, 3))) | {(7, 1), (7, 2), (1, 9)} <= seen


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


RUNS = [
    ((16, 16), {"kernel_size": 16}),
    ((23, 31), {"kernel_size": (23, 31)}),
    ((700,), {"kernel_size": 700}),
    ((40, 33), {"kernel_size": (9, 33), "stride": (4, 1), "padding": ((8, 3), (0, 0)), "ceil_mode": True}),
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
    """What stands for the NaN of one is not looked for by another, and what it has is found in its first channel."""
    x = elements((1, 1344, 7, 7), "float32", "normal", 0)
    x[0, ::336, 3, 3] = np.nan
    expected = reference.max_pool(x, 7, rank=2)
    call = plans.uniform(x.shape, 2, True, (7, 7), (7, 7), (0, 0), (1, 1), False, True, "argmax")
    assert call.units == 4
    for unit in range(4):
        y, index = np.full(1344, np.inf, np.float32), np.full(1344, 5, np.int32)
        given = arrays.raw(np.moveaxis(x, 1, -1).ravel()), arrays.raw(y), index, None
        window_pixel_runs(unit, unit + 1, *given, *call.plan.extra, call.plan.tables)
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


@pytest.mark.parametrize(("size", "arithmetic"), [(25, "float32"), (80, "float32"), (81, "float64"), (5000, "float64")])
def test_sums_of_runs_that_are_long_are_in_float64(size, arithmetic):
    call = plans.uniform((2, 40, size), 1, False, (size,), (size,), (0,), (1,), False, True, "average")
    assert call.plan.divisors(np.dtype(np.float32), 0).dtype == arithmetic


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


def test_out_of_an_empty_batch():
    """NumPy gives empty arrays strides of 0, by which others would overlap themselves."""
    x, y = np.empty((0, 3, 4, 4), np.float32), np.empty((0, 3, 2, 2), np.float32)
    indices = np.empty(y.shape, np.int32)
    assert nb.avg_pool2d(x, 2, out=y) is y
    assert nb.max_pool2d(x, 2, return_indices=True, out=(y, indices))[1] is indices
    assert nb.avg_pool2d_backward(y, x.shape, 2, out=x) is x
