"""Gradients of windows that share no element (`kernels/disjoint.py`), known or guessed from shapes."""

import ctypes
import mmap
import os
import re
import sys
import tracemalloc
from itertools import product
from math import prod

import numba
import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded
from strategies import laid_out

import numba_pool as nb
from numba_pool import _arguments, _runtime, _windows
from numba_pool import _arrays as arrays
from numba_pool._dispatch import calls as dispatched
from numba_pool._dispatch import plans
from numba_pool.kernels import choose_disjoint, disjoint, flat, whole
from numba_pool.kernels._job import Windows
from numba_pool.simd import splat

FORWARD = {1: nb.max_pool1d, 2: nb.max_pool2d, 3: nb.max_pool3d}
BACKWARD = {1: nb.max_pool1d_backward, 2: nb.max_pool2d_backward, 3: nb.max_pool3d_backward}
UNPOOL = {1: nb.max_unpool1d, 2: nb.max_unpool2d, 3: nb.max_unpool3d}

# (channels, size, windows): lanes that are columns, several of them, and channels; with rows and columns in no window.
CASES = [
    (3, (8, 64), 2),
    (3, (9, 67), 2),
    (2, (30, 200), 3),
    (5, (12, 70), (1, 4)),
    (5, (12, 70), (4, 1)),
    (3, (14, 66), (2, 5)),
    (2, (5, 7, 80), 2),
    (2, (7, 8, 33), (3, 2, 2)),
    (3, (200,), 2),
    (33, (50,), 4),
    (1, (64, 64), 16),
    (16, (8, 8), 2),
    (24, (9, 7), 2),
    (40, (10, 11), 3),
    (17, (4, 6, 7), 2),
    (4, (3, 3), (3, 3)),
    (1, (2, 2), (2, 1)),
    (4, (14, 14), 2),
    (6, (13, 15), 3),
    (3, (11, 30), 2),
    (5, (4, 5, 6), 2),
    (1, (40,), 8),
]
DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint16", "int64"]


@numba.njit
def cleared(gx, at, stop):
    disjoint.clear(gx, at, stop, splat(gx, 0))


@pytest.mark.skipif(sys.platform != "linux", reason="memory as on Linux")
def test_more_elements_than_32_bits_count_are_cleared():
    """Four GiB that are, but for their first page, the same memory again and again."""
    stop, page, piece = (1 << 32) + 7, mmap.PAGESIZE, 1 << 26
    fixed, no_reserve = 0x10, 0x4000  # MAP_FIXED, MAP_NORESERVE
    shared = os.memfd_create("piece")
    os.truncate(shared, piece)
    whole = mmap.mmap(-1, stop, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
    a = np.frombuffer(whole, np.int8)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long
    for at in range(page, stop, piece):
        to = a.ctypes.data + at
        assert libc.mmap(to, min(piece, stop - at), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | fixed, shared,
                         0) == to
    os.close(shared)
    a[:page] = 7
    cleared(a, 3, stop)
    assert (a[:3] == 7).all()
    assert not a[3:page].any()


def gradients(shape, dtype, seed=0):
    """Small integers, exact in every dtype; zeros of both signs."""
    g = np.random.default_rng(seed).integers(0, 8, shape).astype(dtype)
    if g.dtype.kind not in "iu":
        g.reshape(-1)[::3] = -0.0
    return g


def scattered(g, indices, shape, rank, accumulate=True):
    """What is expected, as the formula has it."""
    if accumulate:
        return reference.scatter_add(g.astype(np.float64), indices, shape, rank).astype(g.dtype)
    result = np.zeros((prod(shape[:-rank]), prod(shape[-rank:])), g.dtype)
    lines = len(result), -1
    np.put_along_axis(result, indices.reshape(lines).astype(np.int64), g.reshape(lines), 1)
    return result.reshape(shape)


def memory_of(a, rank, order):
    """The memory of an array, as kernels see it."""
    return arrays.raw(arrays.planes(laid_out(a, order, rank), rank, "a").flat)


def rest_of(guess, asked):
    """What a kernel takes after the divisors, for a result of so many bytes."""
    asks = (True if asked >= flat.ASKED_FLAT else None,) if isinstance(guess, flat.Flat) else ()
    return (*asks, *guess[1:])


def guesses(size, output, channels, images):
    """Both kernels, with tables if they have any for such planes."""
    sides = _windows.guessed_axes(size, output)
    tables = (disjoint.scatter_disjoint, disjoint.disjoint(size, output, channels, images)), (
        flat.scatter_flat, flat.flat(sides, channels, images, False) if sides else None)
    return [(kernel, guess) for kernel, guess in tables if guess is not None]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("channels", "size", "windows"), CASES, ids=str)
def test_the_kernel_for_every_split(channels, size, windows, order, dtype):
    rank, last = len(size), order == "channels_last"
    shape = (2, channels, *size)
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    _, indices = reference.max_pool(x, windows, rank=rank)
    g = gradients(indices.shape, dtype)
    found = guesses(size, indices.shape[2:], channels if last else 1, 2 if last else 2 * channels)
    assert found
    grad, index = memory_of(g, rank, order), memory_of(indices.astype(np.int32), rank, order)
    for (kernel, guess), accumulate in product(found, (True, False)):
        expected = memory_of(scattered(g, indices, shape, rank, accumulate), rank, order)
        sizes = (0, 2**40) if kernel is flat.scatter_flat else (0,)  # compiled for those beyond the caches, too
        for parts, asked in product((1, 2, guess.units), sizes):
            gx = np.full_like(expected, 7) if expected.dtype.names is None else np.copy(grad[:1]).repeat(expected.size)
            for part in range(parts):
                lo, hi = guess.units * part // parts, guess.units * (part + 1) // parts
                rest = rest_of(guess, asked)
                assert kernel(lo, hi, grad, gx, index, accumulate, None, *rest) == 0
            assert gx.tobytes() == expected.tobytes()


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("channels", "size", "windows"), [(1, (4, 36), 2), (17, (4, 4), 2), (3, (6, 7), 3)], ids=str)
def test_every_index_that_leaves_its_window_is_found(channels, size, windows, order):
    """By the count: wherever it goes, also out of the plane, nothing but the result's own elements is written."""
    rank, last = len(size), order == "channels_last"
    x = np.random.default_rng(0).standard_normal((2, channels, *size), dtype=np.float32)
    _, indices = reference.max_pool(x, windows, rank=rank)
    grad = memory_of(gradients(indices.shape, "float32"), rank, order)
    index = memory_of(indices.astype(np.int32), rank, order)
    found = guesses(size, indices.shape[2:], channels if last else 1, 2 if last else 2 * channels)
    memory = np.full(x.size + 128, 7, np.float32)
    gx = memory[64:-64]
    for kernel, guess in found:
        assert kernel(0, guess.units, grad, gx, index, True, None, *rest_of(guess, 0)) == 0
    plane, row, column = prod(size), size[1], windows  # one row, or one window further is another window
    for at in range(index.size):
        kept = index[at]
        for other in (-1, plane, -(2**31), 2**31 - 1, kept + windows * row, kept - windows * row, kept + column,
                      kept - column, kept + 2**16, kept ^ 2**30):
            index[at] = other
            for kernel, guess in found:
                assert kernel(0, guess.units, grad, gx, index, True, None, *rest_of(guess, 0)) == 1
        index[at] = kept
    assert (memory[:64] == 7).all()
    assert (memory[-64:] == 7).all()


@pytest.mark.parametrize(
    ("size", "output", "box"),
    [
        ((224,), (112,), 2),
        ((225,), (112,), 2),  # of two sizes that leave so many windows, the smaller
        ((11,), (2,), 4),
        ((10,), (2,), 5),  # the one that leaves nothing over
        ((8,), (2,), 4),
        ((16,), (1,), 16),
        ((15,), (4,), None),  # no size does
        ((17,), (1,), None),  # so wide that it is mostly zeros
        ((7,), (4,), None),  # ceil mode
        ((7,), (7,), None),
        ((7,), (0,), None),
        ((7,), (9,), None),
    ],
)
def test_the_guess(size, output, box):
    guess = disjoint.disjoint(size, output, 1, 1)
    if box is None:
        assert guess is None
    else:
        assert guess.header[disjoint.COVERED] == box * output[0]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("channels", "size", "windows"), CASES, ids=str)
def test_no_load_leaves_its_row_of_gradients(channels, size, windows, last):
    """Nothing says that there is memory behind the last."""
    output = reference.max_pool(np.empty((1, 1, *size)), windows, rank=len(size))[0].shape[2:]
    guess = disjoint.disjoint(size, output, channels if last else 1, 2)
    taken, need, rows = (int(guess.header[i]) for i in (disjoint.TAKEN, disjoint.NEED, disjoint.BAND))
    first = guess.steps.reshape(rows, -1, 4)[:, :, 0] - taken * np.arange(rows)[:, None]
    assert first.min() == 0
    assert first.max() + need <= taken
    assert guess.lanes.reshape(-1, 2, _windows.VECTOR)[:, 0].max() < need


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("images", [1, 6, 8, 31])
@pytest.mark.parametrize(("size", "windows"), [((14, 14), 2), ((7, 9), 3), ((4, 5, 6), 2), ((5,), 5)], ids=str)
def test_flat_tables(size, windows, images, channels):
    """Every element's gradient is among those that its vector loads, and no load leaves the unit's gradients."""
    output = tuple(n // windows for n in size)
    guess = flat.flat(_windows.guessed_axes(size, output), channels, images, False)
    elements, taken, need, _, _ = guess.header
    assert guess.units * elements == images * channels * prod(size)
    assert guess.units * taken == images * channels * prod(output)
    assert guess.firsts.min() >= 0
    assert guess.firsts.max() + need <= taken
    lanes = guess.lanes.reshape(-1, 2, _windows.VECTOR)
    assert 0 <= lanes[:, 0].min() <= lanes[:, 0].max() < need
    source, spot = (guess.firsts[:, None] + lanes[:, 0]).ravel(), lanes[:, 1].ravel()
    for i in range(elements):
        image, element = divmod(i, prod(size) * channels)
        place = np.unravel_index(element // channels, size)
        window = tuple(p // windows for p in place)
        if any(w >= o for w, o in zip(window, output, strict=True)):
            assert spot[i] == -1
        else:
            assert spot[i] == element // channels
            of = np.ravel_multi_index(window, output) * channels + element % channels
            assert source[i] == image * prod(output) * channels + of
    assert (spot[elements:] == -1).all()


@pytest.mark.parametrize(
    ("start", "stop"),
    [([0, 2], [3, 5]), ([0, 2], [2, 2]), ([0], [1200])],  # shared elements, an empty window, a large plane
)
def test_what_has_no_flat_tables(start, stop):
    n = max(5, stop[-1])
    axis = _windows.Axis(n, np.array(start), np.array(stop), 1, np.ones(len(start), np.int64), 0, 0, 0)
    assert flat.flat((axis,), 1, 4, False) is None
    one = axis.replaced(start=np.array([1]), stop=np.array([3]), size=8)
    assert flat.flat((one,), 1, 4, False) is not None
    assert flat.flat((one.replaced(step=2),), 1, 4, False) is None


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("images", [1, 6, 31])
@pytest.mark.parametrize(
    ("size", "kernel", "stride"),
    [((13, 13), 3, 2), ((9, 3), 2, 1), ((30,), 3, 2), ((4, 6, 4), (1, 3, 2), (1, 2, 1)),
     ((4, 3, 7), (2, 1, 2), (1, 2, 3)), ((5, 5), 3, 3), ((4, 16), 1, (2, 1)), ((20,), 4, 2)],
    ids=str,
)
def test_flat_tables_of_sums(size, kernel, stride, images, channels):
    """Every element's gradients, column by column; what is not among them is a lane that is not loaded."""
    axes = _windows.three(_arguments.grid(size, kernel, stride, 0, 1, False))
    output = tuple(len(axis.start) for axis in axes)
    guess = flat.flat(axes, channels, images, True)
    elements, taken, need, registers, count = guess.header
    assert guess.units * elements == images * channels * prod(size)
    assert guess.units * taken == images * channels * prod(output)
    assert guess.firsts.min() >= 0
    assert guess.firsts.max() + need <= taken
    lanes = guess.lanes.reshape(-1, count, _windows.VECTOR)
    assert count == (1 if size in ((5, 5), (4, 16)) else 4)
    missing = lanes == 2 * _windows.VECTOR - 1
    assert lanes.min() >= 0
    assert lanes[~missing].max() < need
    assert need < registers * _windows.VECTOR or not missing.any()
    sources = np.where(lanes < need, guess.firsts[:, None, None] + lanes, -1).swapaxes(1, 2).reshape(-1, count)
    for i in range(elements):
        image, element = divmod(i, prod(size) * channels)
        place = np.unravel_index(element // channels, tuple(axis.size for axis in axes))
        d, h, w = ([o for o in range(len(axis.start)) if axis.start[o] <= p < axis.stop[o]]
                   for axis, p in zip(axes, place, strict=True))
        windows = [np.ravel_multi_index((b, c, a), output) for a, b, c in product(w, d, h)]
        expected = [(image * prod(output) + window) * channels + element % channels for window in windows]
        assert [source for source in sources[i] if source >= 0] == expected


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "channels"),
    [
        ((9, 9), 3, 1, 1),  # elements in three windows along an axis
        ((9,), 5, 2, 1),
        ((3, 3, 3), (2, 2, 1), 1, 1),  # in four of a column
        ((33, 33), 3, 2, 1),  # a large plane
        ((8, 8), 2, 1, 15),  # more gradients of sixteen elements than two vectors hold
        ((2, 500), 2, 2, 1),
        ((4, 17), 2, 1, 1),  # as many as they hold, and none is left for what is missing
    ],
)
def test_what_has_no_flat_tables_of_sums(size, kernel, stride, channels):
    axes = _windows.three(_arguments.grid(size, kernel, stride, 0, 1, False))
    assert flat.flat(axes, channels, 4, True) is None


AVERAGE = {
    1: (nb.avg_pool1d_backward, nb.adaptive_avg_pool1d_backward),
    2: (nb.avg_pool2d_backward, nb.adaptive_avg_pool2d_backward),
    3: (nb.avg_pool3d_backward, nb.adaptive_avg_pool3d_backward),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("channels", "size", "windows"), CASES, ids=str)
def test_gradients_of_averages(channels, size, windows, order, dtype):
    """Windows that hold every element, and others; from known values, whose quotients round as they do in float64."""
    rank, shape = len(size), (2, channels, *size)
    windows = np.broadcast_to(windows, rank).tolist()
    grid = tuple(n // k for n, k in zip(size, windows, strict=True))
    average, adaptive = AVERAGE[rank]
    g = gradients((2, channels, *grid), dtype)
    g.reshape(-1)[0], g.reshape(-1)[-1] = np.inf, np.nan
    spread = g.astype(np.float64)
    for axis, k in enumerate(windows):
        spread = spread.repeat(k, axis + 2)
    expected = np.zeros(shape)
    expected[(..., *(slice(n) for n in spread.shape[2:]))] = spread
    for divisor in (None, 3, -4):
        count = prod(windows) if divisor is None else divisor
        once = (expected.astype(np.float64 if dtype == "float64" else np.float32) / np.float32(count)).astype(g.dtype)
        result = average(laid_out(g, order, rank), shape, windows, divisor_override=divisor)
        np.testing.assert_array_equal(result.astype(np.float64), once.astype(np.float64))
        if divisor is None and spread.shape == shape:
            assert_identical(result, adaptive(laid_out(g, order, rank), shape))
        if divisor is None:
            assert not np.signbit(np.asarray(result)[result == 0]).any()


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("padding", [1, ((1, 0), (1, 0)), ((1, 1), (1, 0))], ids=str)
def test_windows_that_padding_leaves_side_by_side(padding, include):
    """Each holds as many elements, and divides by more, or by less than the next."""
    shape, arguments = (2, 17, 4, 4), {"padding": padding, "ceil_mode": True, "count_include_pad": include}
    g = gradients((2, 17, 2, 2), "float32")
    expected = reference.avg_pool_backward(g, shape, 3, **arguments, rank=2)
    for order in ("C", "channels_last"):
        result = nb.avg_pool2d_backward(laid_out(g, order, 2), shape, 3, **arguments)
        assert_rounded(np.asarray(result), expected, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("channels", [4, 33])  # of an image, which the lanes are, or not
@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((9, 66), {"kernel_size": 2, "stride": 3}),  # rows as long as vectors; a window's gap is cut, or some is left
        ((9, 68), {"kernel_size": 2, "stride": (5, 3)}),
        ((8, 5, 70), {"kernel_size": (2, 1, 2), "stride": (3, 2, 5)}),
        ((9, 9, 33), {"kernel_size": 1, "stride": (4, 1, 3)}),
        ((200,), {"kernel_size": 3, "stride": 7}),
        ((9, 11), {"kernel_size": 2, "stride": 3}),
        ((9, 11), {"kernel_size": 2, "stride": 5, "padding": 1}),
        ((12, 12), {"kernel_size": (1, 2), "stride": (2, 3)}),
        ((6, 5), {"kernel_size": 3, "stride": 4, "padding": 1, "count_include_pad": False}),
        ((20,), {"kernel_size": 2, "stride": 4}),
        ((5, 6, 7), {"kernel_size": 2, "stride": 3}),
    ],
    ids=str,
)
def test_averages_of_windows_apart(size, arguments, channels, order, dtype):
    """Between them elements are in none."""
    rank, shape = len(size), (3, channels, *size)
    expected = reference.avg_pool(np.zeros(shape), **arguments, rank=rank)
    g = gradients(expected.shape, dtype)
    expected = reference.avg_pool_backward(g.astype(np.float32), shape, **arguments, rank=rank).astype(g.dtype)
    out = laid_out(np.full(shape, 7, dtype), order, rank)
    result = AVERAGE[rank][0](laid_out(g, order, rank), shape, **arguments, out=out)
    tolerance = 1e-3 if dtype == "float16" else 1e-6
    np.testing.assert_allclose(result.astype(np.float64), expected.astype(np.float64), rtol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("channels", [4, 33])
@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((13, 13), {"kernel_size": 3, "stride": 2}),
        ((9, 11), {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((9, 10), {"kernel_size": 2, "stride": 1}),
        ((12, 13), {"kernel_size": 4, "stride": 2, "padding": 1}),
        ((17, 5), {"kernel_size": 5, "stride": 3}),  # columns in one window
        ((5, 17), {"kernel_size": (2, 5), "stride": (4, 3)}),  # rows in none
        ((4, 16), {"kernel_size": 1, "stride": (2, 1)}),  # one each, or none
        ((30,), {"kernel_size": 3, "stride": 2}),
        ((4, 5, 6), {"kernel_size": (1, 3, 2), "stride": (1, 2, 1)}),
        ((4, 3, 7), {"kernel_size": (2, 1, 2), "stride": (1, 2, 3)}),
    ],
    ids=str,
)
def test_averages_of_windows_that_overlap_in_small_planes(size, arguments, channels, dtype):
    """Up to four hold an element. The sum is the same bit for bit in every memory order."""
    rank, shape = len(size), (3, channels, *size)
    grid = reference.avg_pool(np.zeros(shape), **arguments, rank=rank).shape
    g = np.random.default_rng(0).standard_normal(grid).astype(dtype)  # whose sums depend on their order
    expected = reference.avg_pool_backward(g.astype(np.float64), shape, **arguments, rank=rank)
    tolerance = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
    for special in (False, True):
        if special:
            g.reshape(-1)[:: 3] = -0.0
            g.reshape(-1)[1], g.reshape(-1)[-2] = np.inf, np.nan
        first, last = (AVERAGE[rank][0](laid_out(g, order, rank), shape, **arguments)
                       for order in ("C", "channels_last"))
        assert_identical(np.ascontiguousarray(last), np.ascontiguousarray(first))
        if not special:
            scale = np.abs(expected).max()
            np.testing.assert_allclose(first.astype(np.float64), expected, rtol=tolerance, atol=tolerance * scale)
    zeros = AVERAGE[rank][0](np.negative(np.zeros_like(g)), shape, **arguments)
    assert not np.signbit(zeros).any()


@pytest.mark.parametrize("channels", [4, 16])
@pytest.mark.parametrize("size", [(11, 16), (11, 64), (40, 28)], ids=str)
def test_elements_in_no_window_have_the_same_zero_in_every_memory_order(size, channels):
    """That is 0 divided, with a sign where the divisor has one."""
    for windows, stride in ((2, 3), ((4, 3), (5, 6)), (3, 3)):
        shape = (2, channels, *size)
        g = gradients(nb.avg_pool2d(np.zeros(shape, np.float32), windows, stride).shape, "float32")
        for divisor in (-3, -4, 4):
            rest = shape, windows, stride, 0, False, True, divisor
            first, last = (nb.avg_pool2d_backward(laid_out(g, order, 2), *rest) for order in ("C", "channels_last"))
            assert first.tobytes() == np.ascontiguousarray(last).tobytes()
            assert np.signbit(first[0, 0, -1, -1]) == (divisor < 0)


@pytest.mark.parametrize(
    ("shape", "last", "arguments", "taken"),  # kernel, stride, padding, dilation
    [
        ((2, 4, 8, 32), False, (2, 2, 0, 1), "scatter_disjoint"),
        ((2, 4, 8, 30), False, (2, 2, 0, 1), "scatter_flat"),  # short rows
        ((2, 4, 60, 30), False, (2, 2, 0, 1), ""),  # of a large plane
        ((2, 16, 8, 8), True, (2, 2, 0, 1), "scatter_disjoint"),
        ((2, 4, 9, 65), False, (2, 2, 0, 1), "scatter_disjoint"),  # a row and a column in no window
        ((2, 4, 8, 64), False, (5, 5, 0, 1), "scatter_disjoint"),
        ((2, 4, 5, 5), False, (5, 5, 0, 1), "scatter_whole"),
        ((2, 4, 4, 4), False, (4, 4, 0, 1), "scatter_flat"),  # too few elements
        ((2, 4, 6, 7), False, (6, 6, 0, 1), "scatter_flat"),  # a column is in no window
        ((2, 4, 8, 64), False, (2, 1, 0, 1), ""),  # windows that overlap
        ((2, 4, 9, 65), False, (3, 2, 0, 1), ""),
        ((2, 4, 8, 10), False, (3, 2, 0, 1), "scatter_flat"),  # in a small plane, two or fewer along an axis
        ((2, 4, 8, 10), False, (3, 1, 0, 1), ""),
        ((2, 4, 8, 64), False, (2, 3, 0, 1), "scatter_disjoint"),  # windows apart
        ((2, 16, 8, 8), True, (1, 3, 0, 1), "scatter_disjoint"),
        ((2, 4, 8, 23), False, (2, 3, 0, 1), "scatter_flat"),
        ((2, 4, 6, 62), False, (2, 2, 1, 1), ""),  # padding
        ((2, 4, 3, 33), True, (2, 3, 0, 2), ""),  # dilation
        ((2, 4, 3, 13), False, (2, 3, 0, 2), ""),
        ((2, 16, 3, 3), True, (2, 3, 0, 2), ""),
    ],
)
def test_which_averages_are_of_windows_side_by_side(shape, last, arguments, taken, registers):
    pairs = [(n, n) for n in arguments]
    output = [axis.n for axis in _arguments.grid(shape[2:], *pairs, False)]
    for wide in (True, False):
        registers(wide)
        call = plans.uniform_backward((*shape[:2], *output), shape, 2, last, *pairs, False, True)
        name = call.worker.__name__
        if taken and (wide or taken == "scatter_whole"):  # which serves whatever the registers
            assert name == taken
        else:
            assert not name.startswith("scatter")


@pytest.mark.parametrize(
    ("shape", "output", "last", "itemsize", "taken"),
    [
        ((2, 4, 8, 66), (4, 33), False, 4, True),
        ((2, 4, 9, 66), (3, 22), False, 4, False),
        ((2, 4, 9, 66), (3, 22), False, 2, True),  # halves
        ((2, 4, 9, 66), (9, 22), False, 4, False),  # three columns
        ((2, 4, 9, 66), (3, 33), False, 4, True),
        ((2, 4, 8, 66), (2, 33), False, 4, False),  # eight elements
        ((8, 64, 224, 224), (28, 28), False, 4, True),  # streamed
        ((8, 64, 222, 222), (37, 37), False, 4, False),
        ((8, 64, 222, 222), (222, 74), False, 4, True),
        ((8, 64, 208, 208), (52, 69), False, 4, False),
        ((2, 16, 12, 12), (3, 3), True, 4, True),
        ((2, 16, 12, 12), (2, 2), True, 4, False),
        ((2, 8, 12, 12), (6, 6), True, 4, True),  # of fewer channels
        ((2, 8, 12, 12), (3, 3), True, 4, False),
        ((2, 16, 12, 12), (2, 2), True, 2, True),
        ((32, 64, 96, 96), (12, 12), True, 4, True),
        ((32, 24, 96, 96), (48, 48), True, 4, True),
        ((32, 24, 96, 96), (32, 32), True, 4, False),
        ((120, 8, 96, 96), (12, 12), True, 4, True),
        ((32, 3, 250, 250), (50, 50), True, 4, False),
        ((2, 4, 8, 66), (0, 33), False, 4, False),  # of nothing
        ((8, 64, 224, 224), (112, 240), False, 4, False),  # more windows than columns
        ((8, 64, 224, 224), (112, 240), True, 4, False),
    ],
)
def test_where_elements_are_too_many_to_an_index(shape, output, last, itemsize, taken, registers):
    registers(True)
    asked = Windows(None, shape, 2, last, "argmax", np.dtype(f"f{itemsize}"), gradient=True, output=output)
    call = choose_disjoint(asked)
    assert (call is not None and call.worker is disjoint.scatter_disjoint) == taken
    registers(False)  # without AVX-512 other kernels are as fast
    assert choose_disjoint(asked) is None


@pytest.fixture
def calls(launched, order):
    """A function: what each of three calls for the same gradient comes to, whose values are checked, too."""

    def three_calls(shape, windows, stride=None, dtype=np.int32):
        x = laid_out(np.random.default_rng(0).standard_normal(shape, dtype=np.float32), order, 2)
        _, indices = nb.max_pool2d(x, windows, stride, return_indices=True)
        g, taken = gradients(indices.shape, "float32"), []
        for _ in range(3):
            launched.clear()
            result = nb.max_pool2d_backward(laid_out(g, order, 2), indices.astype(dtype), shape)
            assert_identical(np.ascontiguousarray(result), scattered(g, np.asarray(indices), shape, 2))
            taken.append(tuple(dict.fromkeys(launched)))  # of much work one unit is tried alone first
        return taken

    return three_calls


GUESSES = disjoint, flat, whole  # whose rules guess what windows indices come from; their kernels run anywhere

# (shape, kernel, stride), then by order of memory the kernel that is tried first with AVX-512, if one is, and the one
# for any indices.
COMES_TO = [
    ((2, 16, 6, 128), 2, None, ("disjoint", "groups"), ("disjoint", "planes")),
    ((32, 16, 8, 10), 2, None, ("flat", "groups"), ("disjoint", "image_groups")),
    ((2, 16, 8, 10), 2, None, ("", "groups"), ("disjoint", "planes")),  # few elements
    ((2, 16, 9, 66), 3, None, ("", "groups"), ("disjoint", "planes")),
    ((32, 16, 9, 9), 1, 1, ("", "groups"), ("", "planes")),
    ((2, 16, 5, 5), 5, None, ("whole", "groups"), ("whole", "groups")),  # a gradient each, in either order of memory
    ((1, 7, 5, 5), 5, None, ("", "planes"), ("", "planes")),  # too few planes
    ((2, 16, 4, 6), (4, 6), None, ("", "groups"), ("", "groups")),  # too few elements
    ((32, 16, 8, 8), 4, None, ("", "groups"), ("disjoint", "image_groups")),  # mostly zeros
    ((2, 16, 60, 62), 2, None, ("", "groups"), ("disjoint", "planes")),
]


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_which_kernel_a_call_comes_to(calls, order, registers):
    for wide in (True, False):
        registers(wide, *GUESSES)
        for shape, windows, stride, *kernels in COMES_TO:
            first, other = kernels[order == "channels_last"]
            expected = f"scatter_{first if first and wide else other}"
            assert calls(shape, windows, stride) == [(expected,)] * 3, (shape, windows, wide)


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_what_does_not_fit_the_guess_is_for_any_indices(calls, order, registers):
    last = order == "channels_last"
    other, group = ("scatter_planes", "scatter_image_groups") if last else ("scatter_groups", "scatter_groups")
    registers(True, *GUESSES)
    assert calls((2, 16, 6, 130), 2, dtype=np.int64) == [(other,)] * 3
    assert calls((2, 16, 6, 130), 2) == [("scatter_disjoint",)] * 3  # which says nothing of the others
    # Windows that overlap are found out by the first of them, at every call.
    assert calls((2, 16, 7, 131), 3, 2) == [("scatter_disjoint", other)] * 3
    small = "scatter_disjoint" if last else "scatter_flat"
    assert calls((32, 16, 9, 9), 3, 2) == [(small, group)] * 3
    large = "scatter_planes" if last else "scatter_tiles"
    assert calls((1, 32, 513, 513), 3, 2) == [("scatter_disjoint", large)] * 3


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_what_was_called_before_does_not_choose_a_kernel(launched, order, registers):
    registers(True, *GUESSES)
    other = "scatter_planes" if order == "channels_last" else "scatter_groups"
    x = laid_out(np.random.default_rng(0).standard_normal((2, 16, 7, 131), dtype=np.float32), order, 2)
    results = {k: nb.max_pool2d(x, k, 2, return_indices=True) for k in (2, 3)}  # of as many windows
    came = {2: ["scatter_disjoint"], 3: ["scatter_disjoint", other]}
    for before, asked in ((2, 2), (2, 3), (3, 3), (3, 2)):
        nb.max_pool2d(x, before, 2, return_indices=True)
        nb.max_pool2d_backward(*results[before], x.shape)
        launched.clear()
        nb.max_pool2d_backward(*results[asked], x.shape)
        assert launched == came[asked]


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_threads_are_not_woken_for_windows_of_other_lengths(order, registers, monkeypatch):
    """Nor is more than a unit of the work tried, where it is enough to be shared."""
    registers(True, *GUESSES)
    monkeypatch.setattr(_runtime, "SERIAL_BYTES", 1)
    x = laid_out(np.random.default_rng(0).standard_normal((2, 16, 7, 131), dtype=np.float32), order, 2)
    results = [nb.max_pool2d(x, k, 2, return_indices=True) for k in (2, 3)]
    units = []
    monkeypatch.setattr(dispatched, "launch", lambda worker, n, _, *args: units.append(n) or worker(0, n, *args))
    for y, indices in results:
        nb.max_pool2d_backward(y, indices, x.shape)
    (one, every), (unit, _) = units[:2], units[2:]
    assert one == unit == 1 < every


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_indices_that_no_windows_have(order):
    shape = (2, 20, 6, 128)
    y = laid_out(gradients((2, 20, 3, 64), "float32"), order, 2)
    for seed in range(3):
        indices = np.random.default_rng(seed).integers(-1, 6 * 128, y.shape).astype(np.int32)
        expected = scattered(np.where(indices < 0, 0, y), np.maximum(indices, 0), shape, 2)
        assert_identical(np.ascontiguousarray(nb.max_pool2d_backward(y, laid_out(indices, order, 2), shape)), expected)
    indices[1, 13, 2, 63] = 6 * 128
    with pytest.raises(ValueError, match=re.escape("indices must lie in [0, 768) for planes of shape (6, 128), got 1")):
        nb.max_pool2d_backward(y, laid_out(indices, order, 2), shape)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("channels", "size", "windows"), CASES, ids=str)
def test_functions(channels, size, windows, order):
    rank, shape = len(size), (2, channels, *size)
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    y, indices = FORWARD[rank](laid_out(x, order, rank), windows, return_indices=True)
    g = gradients(y.shape, "float32")
    actual = BACKWARD[rank](laid_out(g, order, rank), indices, shape)
    assert_identical(np.ascontiguousarray(actual), scattered(g, np.ascontiguousarray(indices), shape, rank))
    actual = UNPOOL[rank](laid_out(g, order, rank), indices, windows, output_size=size)
    assert_identical(np.ascontiguousarray(actual), scattered(g, np.ascontiguousarray(indices), shape, rank, False))


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize("size", [(320, 320), (321, 325)])
def test_past_the_caches(size, dtype, order):
    """Results that are streamed, from aligned rows, or stored."""
    shape = (3, 64 if dtype != "float32" else 32, *size)
    x = np.random.default_rng(0).integers(0, 200, shape, np.uint8)
    _, indices = nb.max_pool2d(laid_out(x, order, 2), 2, return_indices=True)
    g = gradients(indices.shape, dtype)
    actual = nb.max_pool2d_backward(laid_out(g, order, 2), indices, shape)
    expected = np.zeros((shape[0] * shape[1], prod(size)), dtype)
    lines = len(expected), -1
    np.put_along_axis(expected, np.ascontiguousarray(indices).reshape(lines).astype(np.int64), g.reshape(lines), 1)
    assert (np.ascontiguousarray(actual).astype(np.float32) == expected.reshape(shape).astype(np.float32)).all()


def test_unpooling_changes_no_bit():
    bits = np.full((1, 20, 2, 64), 0x7F800001, np.uint32)  # a signalling NaN
    bits[0, ::2] = 1 << 31
    indices = np.broadcast_to((2 * np.arange(64) + 256 * np.arange(2)[:, None]).astype(np.int32), bits.shape)
    for order in ("C", "channels_last"):
        y = nb.max_unpool2d(laid_out(bits.view(np.float32), order, 2), laid_out(indices, order, 2), 2)
        assert (y[:, :, ::2, ::2].astype(np.float32).view(np.uint32) == bits).all()


def test_too_many_steps_are_not_written_down():
    assert disjoint.disjoint((4, 2 * 16 * disjoint.MOST_STEPS), (2, 16 * disjoint.MOST_STEPS), 1, 1) is None
    assert disjoint.disjoint((4, 16 * disjoint.MOST_STEPS), (2, 8 * disjoint.MOST_STEPS), 1, 1) is not None
    assert disjoint.disjoint((2**16, 2**16), (2**15, 2**15), 1, 1) is None  # more than 32 bits count
    tracemalloc.start()
    try:
        assert disjoint.disjoint((2**24,), (2**23,), 1, 1) is None
        assert disjoint.disjoint((2**18,), (2**17,), 64, 1) is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 16  # found out before tables are made
    finally:
        tracemalloc.stop()
