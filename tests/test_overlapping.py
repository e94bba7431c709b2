"""Gradients of maxima whose windows share elements (`kernels/overlapping.py`)."""

from math import prod

import fences
import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by its name then)
import numpy as np
import pytest
import reference
from checks import assert_identical, forget
from strategies import laid_out

import numba_pool as nb
from numba_pool import _arrays as arrays
from numba_pool import _geometry as geometry
from numba_pool.functional import _plans
from numba_pool.kernels._staging import STREAMED
from numba_pool.kernels.overlapping import gather_pixels, gather_rows
from numba_pool.simd import wide_registers

FORWARD = {1: nb.max_pool1d, 2: nb.max_pool2d, 3: nb.max_pool3d}
BACKWARD = {1: nb.max_pool1d_backward, 2: nb.max_pool2d_backward, 3: nb.max_pool3d_backward}
DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint16", "int64"]
needs_wide_registers = pytest.mark.skipif(not wide_registers(), reason="without AVX-512 additions are scattered")

# (channels, size, arguments of the windows): channels in vectors by twos, one alone, and part of one.
CASES = [
    (48, (7, 8), (3, 2)),
    (50, (9, 7), (3, 2, 1)),
    (64, (6, 5), (3, 1, 1)),
    (17, (5, 6), (3, 1)),
    (5, (6, 6), (2, 1)),
    (33, (8, 9), ((1, 3), (1, 2), (0, 1))),
    (48, (7, 7), ((3, 2), (3, 1))),  # rows and columns in no window behind the last
    (20, (11,), (5, 2, 2)),
    (49, (4, 5, 6), ((1, 3, 3), (1, 2, 1))),
    (16, (4, 5, 4), (2, 1)),
    (48, (3, 4, 4), (2, 1)),
    (32, (5, 5, 3), ((3, 3, 1), 1)),  # nine rows of windows
    (33, (4, 9), ((1, 4), 1)),  # four in a row
    (48, (8, 8), (3, 2, 1, 1, True)),  # ceil_mode
]


def gradients(shape, dtype, seed=0):
    """Numbers whose sums depend on the order they are added in; zeros of both signs."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    g = rng.standard_normal(shape).astype(dtype)
    g.reshape(-1)[::3] = -0.0
    return g


def added_up(g, indices, shape, rank):
    """One by one in row-major order, in the arithmetic that README promises: float32 for halves."""
    lead = prod(shape[:-rank])
    dtype = np.float32 if g.dtype.name in arrays.HALVES else g.dtype
    total = np.zeros((lead, prod(shape[-rank:])), dtype)
    for plane, values, where in zip(total, g.reshape(lead, -1), indices.reshape(lead, -1), strict=True):
        np.add.at(plane, where, values.astype(dtype))
    return total.reshape(shape).astype(g.dtype)


# Of planes: (size, arguments of the windows), in less than a step of vectors, one, and more.
ROWS = [
    ((7, 8), (3, 2)),
    ((9, 7), (3, 2, 1)),
    ((9, 70), (3, 2, 1)),
    ((6, 65), (3, 2)),
    ((5, 32), (2, 2, 1)),
    ((6, 16), (3, 1, 1)),
    ((6, 33), (3, 1)),
    ((3, 40), (3, 1, ((1, 2), (2, 2)))),
    ((8, 18), (2, 1)),
    ((8, 41), ((1, 3), (1, 2), (0, 1))),
    ((7, 20), ((3, 1), (2, 1), (1, 0))),
    ((9, 39), ((3, 2), (3, 1))),  # rows and columns in no window behind the last
    ((11, 36), ((2, 3), (4, 2), (1, 0))),  # rows between windows
    ((8, 66), (4, 2, 2)),
    ((9, 37), (5, (1, 2), 2)),
    ((50,), (5, 2, 2)),
    ((35,), (3, 1, 1)),
    ((8, 64), (3, 2, 1, 1, True)),  # ceil_mode
]


def flat(a, rank, order="channels_last"):
    """The memory of an array in that order, as kernels see it."""
    return arrays.raw(arrays.planes(laid_out(a, order, rank), rank, "a").flat)


def uniform(size, windows):
    """The grid of windows."""
    return geometry.grid(size, *windows, *(1, 0, 1, False)[len(windows) - 1 :])


def drawn(channels, size, windows, images=2, last=True):
    """(shape, indices of the maxima, tables) of windows over random numbers with ties."""
    shape = (images, channels, *size)
    x = np.random.default_rng(0).integers(0, 9, shape).astype(np.float32)
    _, indices = reference.max_pool(x, *windows, rank=len(size))
    grid = uniform(size, windows)
    assert grid.output == indices.shape[2:]
    return shape, indices, geometry.pack(geometry.inverse(grid.axes()), channels, last)


def drawn_rows(channels, size, windows):
    """The same of planes, the tables with what the kernel for these takes before them."""
    shape, indices, tables = drawn(channels, size, windows, last=False)
    return shape, indices, (*geometry.phases(uniform(size, windows).axes()[2]), tables)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("channels", "size", "windows"), CASES, ids=str)
def test_the_kernel(channels, size, windows, dtype):
    rank = len(size)
    shape, indices, tables = drawn(channels, size, windows)
    g = gradients(indices.shape, dtype)
    expected = flat(added_up(g, indices, shape, rank), rank)
    grad, index = flat(g, rank), flat(indices.astype(np.int32), rank)
    rows = 2 * prod(size[:-1])
    for parts in (1, 2, rows):
        gx, taken = np.roll(grad, 1)[:1].repeat(expected.size), 0
        for part in range(parts):
            taken += gather_pixels(rows * part // parts, rows * (part + 1) // parts, grad, gx, index, tables)
        assert taken == index.size
        assert gx.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("channels", "size", "windows"), [CASES[3], CASES[7], CASES[9]], ids=str)
def test_every_index_that_leaves_its_window_is_found(channels, size, windows):
    """By the count: wherever it goes, also out of the plane, nothing but the result's own elements is written."""
    shape, indices, tables = drawn(channels, size, windows, 1)
    grad, index = flat(gradients(indices.shape, "float32"), len(size)), flat(indices.astype(np.int32), len(size))
    memory = np.full(prod(shape) + 128, 7, np.float32)
    gx, plane, rows = memory[64:-64], prod(size), prod(size[:-1])
    for at in range(0, index.size, 5):
        kept = int(index[at])
        for other in (-1, plane, -(2**31), 2**31 - 1, (kept + plane // 2) % plane, kept ^ 2**30):
            index[at] = other
            assert gather_pixels(0, rows, grad, gx, index, tables) == index.size - 1, (at, other)
        index[at] = kept
        assert gather_pixels(0, rows, grad, gx, index, tables) == index.size
    assert (memory[:64] == 7).all()
    assert (memory[-64:] == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("size", "windows"), ROWS, ids=str)
def test_the_kernel_of_rows(size, windows, dtype):
    rank = len(size)
    shape, indices, steps = drawn_rows(3, size, windows)
    g = gradients(indices.shape, dtype)
    expected = flat(added_up(g, indices, shape, rank), rank, "C")
    grad, index = flat(g, rank, "C"), flat(indices.astype(np.int32), rank, "C")
    rows = 6 * prod(size[:-1])
    for parts in (1, 2, 5, rows):
        gx, taken = np.roll(grad, 1)[:1].repeat(expected.size), 0
        for part in range(parts):
            taken += gather_rows(rows * part // parts, rows * (part + 1) // parts, grad, gx, index, *steps)
        assert taken == index.size
        assert gx.tobytes() == expected.tobytes()


@pytest.mark.parametrize("windows", [(1, 2), (2, 3), (3, 3), (4, 1, 0, 2)], ids=str)
def test_windows_that_have_no_phases(windows):
    """Apart, neither at stride 1 nor at 2, dilated."""
    assert not geometry.has_phases(uniform((20,), windows).axes()[2])


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize(("size", "windows"), [ROWS[i] for i in (1, 2, 5, 6, 12)], ids=str)
def test_of_rows_every_index_that_leaves_its_window_is_found(size, windows, at_end):
    """By the count; and nothing but the arrays is touched, which lie beside memory that cannot be."""
    shape, indices, steps = drawn_rows(1, size, windows)
    moved = (flat(gradients(indices.shape, "float32"), len(size), "C"), np.empty(prod(shape), np.float32),
             indices.astype(np.int32).ravel(), *steps[3:])
    fenced = [fences.Fenced(a, at_end) for a in moved]
    grad, gx, index, *tables = (each.array for each in fenced)
    plane, rows = prod(size), 2 * prod(size[:-1])
    for at in range(index.size):
        kept = int(index[at])
        near = [kept + 1, kept - 1, kept + size[-1], kept - size[-1]]
        for other in (-1, plane, -(2**31), 2**31 - 1, (kept + plane // 2) % plane, kept ^ 2**30, *near):
            index[at] = other
            found = gather_rows(0, rows, grad, gx, index, *steps[:3], *tables)
            held = other in near and 0 <= other < plane and in_window(at, other, size, windows)
            assert found == index.size - (not held), (at, other)
        index[at] = kept
        assert gather_rows(0, rows, grad, gx, index, *steps[:3], *tables) == index.size
    for each in fenced:
        each.check()


def in_window(at, element, size, windows):
    """Whether the window of gradient `at` of a plane holds an element."""
    axes = uniform(size, windows).axes()[1:]
    places = np.unravel_index(at % prod(len(axis.start) for axis in axes), [len(axis.start) for axis in axes])
    return all(axis.start[o] <= i < axis.stop[o]
               for axis, o, i in zip(axes, places, np.unravel_index(element, size), strict=True))


@pytest.fixture
def launched(launched):
    """The same, where no windows were seen before."""
    _plans.noted.clear()
    forget()
    return launched


def backward(launched, shape, windows, order="channels_last", dtype="float32", indices=None):
    """Kernels that the gradient comes to, three times; it is what is expected each time."""
    rank = len(shape) - 2
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    _, found = FORWARD[rank](laid_out(x, order, rank), *windows, return_indices=True)
    indices = found if indices is None else laid_out(indices.astype(np.int32), order, rank)
    g, taken = gradients(found.shape, dtype), []
    expected = added_up(g, np.ascontiguousarray(indices), shape, rank)
    for threads in (1, 2, 2):
        launched.clear()
        with nb.threads(threads):
            result = BACKWARD[rank](laid_out(g, order, rank), indices, shape)
        assert_identical(np.ascontiguousarray(result), expected)
        taken.append(tuple(launched))
    return taken


@needs_wide_registers
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_which_calls_come_to_it(launched, dtype):
    other = "scatter_planes" if dtype == "float32" else "scatter_tiles"
    for shape, windows in [((1, 48, 9, 11), (3, 2)), ((2, 48, 9, 11), (3, 2)), ((3, 70, 30), (3, 1, 1)),
                           ((4, 64, 4, 5, 6), (2, 1))]:
        assert backward(launched, shape, windows, dtype=dtype) == [("gather_pixels",)] * 3
    for shape, windows in [
        ((2, 47, 9, 11), (3, 2)),  # few channels
        ((2, 48, 9, 11), (4, 2)),  # large windows
        ((2, 48, 9, 11), (3, 1, 1, 2)),  # dilation
    ]:
        taken = backward(launched, shape, windows, dtype=dtype)
        assert "gather_pixels" not in {name for names in taken for name in names}
        assert taken[-1] == (other,)
    assert backward(launched, (2, 48, 8, 12), (2,), dtype=dtype) == [("scatter_disjoint",)] * 3
    assert "gather_pixels" not in backward(launched, (2, 48, 9, 11), (3, 2), "C", dtype)[0]
    # Windows that are wider than they are apart, but one along that axis.
    assert backward(launched, (4, 48, 8, 8), ((8, 2), (1, 2)), dtype=dtype) == [("scatter_disjoint",)] * 3


@needs_wide_registers
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_which_calls_come_to_the_kernel_of_rows(launched, monkeypatch, dtype):
    monkeypatch.setattr(_plans, "LARGE_SHARED", 5 * 72)
    for shape, windows in [((1, 1, 10, 72), (3, 2)), ((3, 2, 9, 75), (3, 2, 1)), ((3, 70, 30), (3, 1, 1)),
                           ((1, 1, 5, 80), (3, 1, 1)), ((2, 2, 9, 48), ((3, 2), 1)), ((2, 2, 9, 30), (3, (2, 1)))]:
        assert backward(launched, shape, windows, "C", dtype) == [("gather_rows",)] * 3
    for shape, windows in [
        ((1, 1, 9, 72), (3, 2)),  # few elements
        ((1, 1, 4, 80), (3, 1, 1)),
        ((9, 1, 9, 32), (3, 2)),  # one step
        ((9, 1, 9, 47), (3, 2)),  # little of two
        ((2, 2, 9, 75), (4, 2)),  # large windows
        ((2, 2, 9, 75), (3, 1, 1, 2)),  # dilation
        ((2, 2, 2, 9, 75), ((1, 3, 3), 2)),  # depth
        ((2, 2, 9, 96), (3, (2, 3))),  # windows apart along rows
    ]:
        taken = backward(launched, shape, windows, "C", dtype)
        assert "gather_rows" not in {name for names in taken for name in names}
    monkeypatch.setattr(_plans, "LARGEST_ROW", 300)
    assert "gather_rows" in backward(launched, (2, 2, 9, 96), (3, 2), "C", dtype)[0]
    assert "gather_rows" not in backward(launched, (2, 2, 9, 120), (3, 2), "C", dtype)[0]


@needs_wide_registers
def test_other_windows_than_those_that_were_seen(launched):
    """Of the same shapes: what the last call suggests does not hold, which is found out once."""
    shape = (2, 48, 9, 10)
    _, indices, _ = drawn(48, shape[2:], (5, 1, 2))
    assert backward(launched, shape, (3, 1, 1), indices=indices) == [
        ("gather_pixels", "scatter_planes"), ("scatter_planes",), ("scatter_planes",)]


@needs_wide_registers
def test_windows_that_come_later(launched, monkeypatch):
    """Of the same shapes as others, whose kernel would not do: theirs is taken, and kept until others are planned."""
    monkeypatch.setattr(_plans, "LARGE_SHARED", 1)
    shape = (2, 4, 96, 96)
    assert backward(launched, shape, (2, 2), "C") == [("scatter_disjoint",)] * 3
    assert backward(launched, shape, (3, 2, 1), "C") == [("gather_rows",)] * 3
    assert backward(launched, shape, (3, 2, 1), "C") == [("gather_rows",)] * 3
    assert backward(launched, shape, (2, 2), "C") == [("gather_rows",)] * 3  # planned before, and within those of 3x3
    assert backward(launched, shape, (4, (2, 2), 1), "C", "float64")[0] == ("scatter_planes",)


@needs_wide_registers
def test_other_windows_of_rows_than_those_that_were_seen(launched, monkeypatch):
    monkeypatch.setattr(_plans, "LARGE_SHARED", 1)
    shape = (2, 4, 9, 30)
    _, indices, _ = drawn(4, shape[2:], (5, 1, 2))
    assert backward(launched, shape, (3, 1, 1), "C", indices=indices) == [
        ("gather_rows", "scatter_planes"), ("scatter_planes",), ("scatter_planes",)]


@needs_wide_registers
def test_corrupt_indices(launched):
    x = laid_out(np.random.default_rng(0).standard_normal((2, 48, 9, 10)), "channels_last", 2)
    y, indices = nb.max_pool2d(x, 3, 1, 1, return_indices=True)
    for bad in (90, -2, 2**31 - 1):
        wrong = indices.copy("K")
        wrong[1, 13, 4, 5] = bad
        launched.clear()
        with pytest.raises(ValueError, match=r"\[0, 90\) for planes of shape \(9, 10\), got 1 outside"):
            nb.max_pool2d_backward(y, wrong, x.shape)
        assert launched == ["gather_pixels", "scatter_planes"]


@needs_wide_registers
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("channels", [64, 70])
def test_past_the_caches(launched, channels, dtype):
    """Results that are streamed, and such that are not since pixels are no whole lines."""
    shape = (2, channels, 300, 301)
    x = np.random.default_rng(0).integers(0, 200, shape, np.uint8)
    _, indices = nb.max_pool2d(laid_out(x, "channels_last", 2), 3, 2, 1, return_indices=True)
    g = gradients(indices.shape, dtype)
    launched.clear()
    actual = nb.max_pool2d_backward(laid_out(g, "channels_last", 2), indices, shape)
    assert launched == ["gather_pixels"]
    assert_identical(np.ascontiguousarray(actual), added_up(g, np.ascontiguousarray(indices), shape, 2))


@needs_wide_registers
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("windows", [(3, 2, 1), (3, 2), (3, 1, 1)], ids=str)
def test_rows_past_the_caches(launched, windows, dtype):
    """By the public function; and in ranges that begin within planes, to results that begin within lines."""
    shape = (3, 7, 751, 653)
    x = np.random.default_rng(0).integers(0, 200, shape, np.uint8)
    _, indices = nb.max_pool2d(x, *windows, return_indices=True)
    g = gradients(indices.shape, dtype)
    launched.clear()
    actual = nb.max_pool2d_backward(g, indices, shape)
    assert launched == ["gather_rows"]
    assert actual.nbytes + g.nbytes + indices.nbytes >= STREAMED
    expected = added_up(g, indices, shape, 2)
    assert_identical(actual, expected)
    grid = uniform(shape[2:], windows)
    tables = geometry.pack(geometry.inverse(grid.axes()), 7, False)
    steps, rows = (*geometry.phases(grid.axes()[2]), tables), prod(shape[:-1])
    grad, index, room = arrays.raw(g.ravel()), indices.ravel(), np.empty(actual.size + 64, dtype)
    for offset, parts in ((0, 7), (3, 1000), (5, 1)):
        room.view(np.uint8)[...] = 0xA5
        gx, taken = room[32 + offset : actual.size + 32 + offset], 0
        for part in range(parts):
            taken += gather_rows(rows * part // parts, rows * (part + 1) // parts, grad, arrays.raw(gx), index, *steps)
        assert taken == indices.size
        assert gx.tobytes() == expected.tobytes()
        beside = np.concatenate((room[: 32 + offset], room[actual.size + 32 + offset :]))
        assert (beside.view(np.uint8) == 0xA5).all()


def test_a_row_too_long_is_not_worked_out(monkeypatch):
    """Nor are few elements: it would take longer than the call."""
    monkeypatch.setattr(geometry, "phases", None)
    for length in (70_000, 70_000 * 15):
        y, indices = nb.max_pool1d(np.zeros((1, 1, length), np.float32), 3, 2, 1, return_indices=True)
        nb.max_pool1d_backward(y, indices, (1, 1, length))


def test_windows_that_were_seen_are_bounded(monkeypatch, launched):
    monkeypatch.setattr(_plans, "MOST_CALLS", 5)
    for length in range(4, 16):
        nb.max_pool1d(np.zeros((1, 1, length)), 3, return_indices=True)
        assert 1 <= len(_plans.noted) <= 5
