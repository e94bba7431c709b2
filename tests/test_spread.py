"""Gradients of windows that share no element, known or guessed from shapes: `kernels/spread.py`."""

from itertools import product
from math import prod

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded
from routed import gradients, scattered
from strategies import laid_out

import numba_pool as nb
from numba_pool import _arrays as arrays
from numba_pool import _windows
from numba_pool.kernels import spread
from numba_pool.kernels._job import Windows

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


def memory_of(a, rank, order):
    """The memory of an array, as kernels see it."""
    return arrays.raw(arrays.planes(laid_out(a, order, rank), rank, "a").flat)


def guesses(size, output, channels, images):
    """The tables for such planes, of lines that are rows, and of such that are whole planes, if there are any."""
    axes = _windows.guessed_axes(size, output)
    if axes is None:
        return []
    made = spread.rows(_windows.three(axes), channels, images), None
    if prod(size) * channels <= spread.MOST_FLAT:
        made = made[0], spread.flat(_windows.three(axes), channels, images)
    return [tables for tables in made if tables is not None]


def run(tables, lo, hi, grad, gx, index, accumulate=True):
    return spread.spread_lines(lo, hi, (grad, gx, index, accumulate, None, tables.lanes, tables.numbers))


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
    for tables, accumulate in product(found, (True, False)):
        expected = memory_of(scattered(g, indices, shape, rank, accumulate), rank, order)
        for parts in (1, 2, tables.units):
            gx = np.full_like(expected, 7) if expected.dtype.names is None else np.copy(grad[:1]).repeat(expected.size)
            for part in range(parts):
                lo, hi = tables.units * part // parts, tables.units * (part + 1) // parts
                assert run(tables, lo, hi, grad, gx, index, accumulate) == 0
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
    for tables in found:
        assert run(tables, 0, tables.units, grad, gx, index) == 0
    plane, row, column = prod(size), size[1], windows  # one row, or one window further is another window
    for at in range(index.size):
        kept = index[at]
        for other in (-1, plane, -(2**31), 2**31 - 1, kept + windows * row, kept - windows * row, kept + column,
                      kept - column, kept + 2**16, kept ^ 2**30):
            index[at] = other
            for tables in found:
                assert run(tables, 0, tables.units, grad, gx, index) == 1
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
        ((7,), (4,), None),  # ceil mode
        ((7,), (7,), None),
        ((7,), (0,), None),
        ((7,), (9,), None),
    ],
)
def test_the_guess(size, output, box):
    found = guesses(size, output, 1, 1) if output[0] else []
    if box is None:
        assert not found
    else:
        lanes = found[0].lanes.reshape(-1, 2, _windows.VECTOR)[:, 0]
        assert (lanes < _windows.VECTOR).sum() == box * output[0]  # elements in windows


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("channels", "size", "windows"), CASES, ids=str)
def test_no_load_leaves_its_row_of_gradients(channels, size, windows, last):
    """Nothing says that there is memory behind the last."""
    output = reference.max_pool(np.empty((1, 1, *size)), windows, rank=len(size))[0].shape[2:]
    elements = channels if last else 1
    tables = guesses(size, output, elements, 2)[0]
    steps, taken = tables.numbers[spread.STEPS], output[-1] * elements
    first = tables.numbers[-steps:]
    assert first[first >= 0].min() == 0
    if tables.lanes is None:
        assert first.max() + elements == taken
    else:
        need = tables.numbers[spread.NEED]
        assert first.max() + need <= taken
        lanes = tables.lanes.reshape(-1, 2, _windows.VECTOR)[:, 0]
        assert lanes[lanes < _windows.VECTOR].max() < need
        assert tables.lanes.ctypes.data % 64 == 0


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("images", [1, 6, 8, 31])
@pytest.mark.parametrize(("size", "windows"), [((14, 14), 2), ((7, 9), 3), ((4, 5, 6), 2), ((5,), 5)], ids=str)
def test_flat_tables(size, windows, images, channels):
    """Every element's gradient is among those that its vector loads, and no load leaves the line's gradients."""
    output = tuple(n // windows for n in size)
    tables = spread.flat(_windows.three(_windows.guessed_axes(size, output)), channels, images)
    elements, taken, steps, need = (tables.numbers[i] for i in (
        spread.LINE, spread.GRADIENTS, spread.STEPS, spread.NEED))
    first = tables.numbers[-steps:]
    assert tables.units * elements == images * channels * prod(size)
    assert tables.units * taken == images * channels * prod(output)
    assert first.min() >= 0
    assert first.max() + need <= taken
    lanes = tables.lanes.reshape(-1, 2, _windows.VECTOR)
    source = np.where(lanes[:, 0] < need, first[:, None] + lanes[:, 0], -1).ravel()
    for i in range(elements):
        image, element = divmod(i, prod(size) * channels)
        place = np.unravel_index(element // channels, size)
        window = tuple(p // windows for p in place)
        assert lanes[:, 1].ravel()[i] == element // channels
        of = -1
        if all(w < o for w, o in zip(window, output, strict=True)):
            of = image * prod(output) * channels + np.ravel_multi_index(window, output) * channels + element % channels
        assert source[i] == of
    assert (source[elements:] == -1).all()


@pytest.mark.parametrize(
    ("start", "stop"),
    [([0, 2, 2], [3, 5, 6]), ([0, 2], [2, 2]), ([0], [1200])],  # shared elements, an empty window, a wide one
)
def test_what_has_no_tables(start, stop, registers):
    """Also windows that share no element, if lanes are columns and registers are narrow."""
    registers(wide=True)
    n = max(5, stop[-1])
    axis = _windows.Axis(n, np.array(start), np.array(stop), 1, np.ones(len(start), np.int64), 0, 0, 0)

    def plan(axis, images=4):
        return spread.plan(Windows(_windows.three((axis,)), (1, images, axis.size), 1, False, gradient=True))

    assert plan(axis) is None
    one = axis.replaced(start=np.array([1]), stop=np.array([3]), size=8, width=np.ones(1, np.int64))
    assert plan(one) is not None
    assert plan(one, 0) is None
    assert plan(one.replaced(step=2)) is None
    registers(wide=False)
    assert plan(one) is None


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
    """Not by this kernel. The sum is the same bit for bit in every memory order."""
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


def test_no_tables_for_long_lines_or_many(monkeypatch):
    """Nor are the windows of their axes written down, which would take more memory than the call."""
    guessed = []

    def noted(*lengths):
        guessed.append(lengths)
        return _windows.guessed_axes(*lengths)

    monkeypatch.setattr(spread, "guessed_axes", noted)
    monkeypatch.setattr(spread, "wide_registers", lambda: True)
    line = spread.LONGEST
    for size, channels, serves in (((4, line), 1, True), ((4, 2 * line), 1, False), ((4, line // 16), 17, False),
                                   ((line, 64), 1, True), ((2 * line, 64), 1, False), ((line, line), 1, False)):
        guessed.clear()
        shape, output = (1, channels, *size), tuple(n // 2 for n in size)
        plan = spread.plan(Windows(None, shape, 2, True, "argmax", gradient=True, output=output))
        assert (plan is not None) == bool(guessed) == serves, size
