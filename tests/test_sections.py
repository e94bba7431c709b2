"""Long rows, cut into sections: against the plain loops where sections are short, against the same uncut."""

import sys

import fences
import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, assert_same_maxima
from process import finish_all, start
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool import _geometry
from numba_pool.functional import _plans
from numba_pool.kernels.sections import window_sections

KINDS = ("ties", "specials", "nan")
DTYPES = ("float32", "float16", "uint8")
WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 5, "stride": 1, "padding": ((4, 1),)},
    {"kernel_size": 4, "stride": 4, "padding": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 5, "padding": "same"},
    {"kernel_size": 3, "stride": 2, "padding": ((4, 3),), "dilation": 3},
    {"kernel_size": 17, "stride": 3, "padding": 8, "ceil_mode": True},
]
SIZES = 301, 304, 331, 397, 450, 351, 360
LEADS = [("C", (2, 2)), ("C", (1,)), ("channels_last", (2, 3)), ("channels_last", (20,))]


def forget():
    for place in _plans.memory.places:
        place.clear()


@pytest.fixture
def short(monkeypatch):
    """Sections of 32 elements, not of 2^15."""
    forget()
    monkeypatch.setattr(_geometry, "LONG_SECTION", 32)
    yield
    forget()


def is_cut(shape, last, windows, reduction="max"):
    """Whether a forward is by sections."""
    defaults = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False}
    kernel, *others = ({"kernel_size": None} | defaults | windows).values()
    return bool(_plans.uniform(shape, 1, last, kernel, *others, True, reduction).parts)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("order", "lead"), LEADS)
def test_maxima(short, order, lead, dtype):
    for windows, size in zip(WINDOWS, SIZES, strict=True):
        assert is_cut((*lead, size), order != "C", windows, "argmax")
        for kind in KINDS:
            x = elements((*lead, size), dtype, kind, size)
            y, indices = reference.max_pool(x, **windows, rank=1)
            given = laid_out(x, order, 1)
            for _ in range(2):  # the second time by the shortest way
                actual, where = nb.max_pool1d(given, **windows, return_indices=True)
                assert_identical(actual, y)
                assert_identical(where, indices)
                assert_same_maxima(nb.max_pool1d(given, **windows), y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("order", "lead"), LEADS)
def test_averages(short, order, lead, dtype):
    for windows, size in zip(WINDOWS, SIZES, strict=True):
        for further in ({}, {"count_include_pad": False}, {"divisor_override": 30}):
            x = elements((*lead, size), dtype, "normal", size)
            expected = reference.avg_pool(x, **windows, **further, rank=1)
            actual = nb.avg_pool1d(laid_out(x, order, 1), **windows, **further)
            if x.dtype.kind in "iu":
                assert_identical(actual, expected)
            else:
                magnitude = reference.avg_pool(np.abs(x), **windows, **further, rank=1)
                assert_rounded(actual, expected, magnitude)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("order", "lead"), LEADS)
def test_gradients_of_averages(short, order, lead, dtype):
    for windows, size in zip(WINDOWS, SIZES, strict=True):
        for further in ({}, {"count_include_pad": False}, {"divisor_override": 3}):
            shape = (*lead, size)
            y = nb.avg_pool1d(np.zeros(shape, np.float32), **windows)
            grad = elements(y.shape, dtype, "normal", size)
            expected = reference.avg_pool_backward(grad, shape, **windows, **further, rank=1)
            magnitude = reference.avg_pool_backward(np.abs(grad), shape, **windows, **further, rank=1)
            actual = nb.avg_pool1d_backward(laid_out(grad, order, 1), shape, **windows, **further)
            assert_rounded(actual, expected, magnitude)


def test_gradients_are_cut(short):
    grad = np.ones((1, 2, 500), np.float32)
    for windows, include, expected in (
        ((2, None, 0), True, True),
        ((3, 2, 1), True, True),
        ((3, 2, 1), False, False),  # windows at the ends are narrower
        ((2, 3, 0), True, False),  # elements between them are in none
    ):
        size = 1000 if windows[1] != 3 else 1500
        call = _plans.uniform_backward(grad.shape, (1, 2, size), 1, False, 4, *windows, 1, False, include, False)
        assert bool(call.parts) is expected


def every_result(x, windows):
    """Of maxima and averages, there and back."""
    y, indices = nb.max_pool1d(x, **windows, return_indices=True)
    mean = nb.avg_pool1d(x, **windows)
    return (y, indices, nb.max_pool1d(x, **windows), mean, nb.avg_pool1d_backward(mean, x.shape, **windows),
            nb.avg_pool1d(x, **windows, count_include_pad=False))


@pytest.mark.parametrize(("order", "shape"), [("C", (1, 1, 300_001)), ("channels_last", (1, 20, 40_001))])
@pytest.mark.parametrize("windows", WINDOWS[:5], ids=str)
def test_the_same_bits_as_uncut_and_for_every_thread_count(monkeypatch, windows, order, shape):
    x = laid_out(elements(shape, "float32", "normal", 0), order, 1)
    assert is_cut(shape, order != "C", windows)
    results = []
    for threads in (1, 2):
        with nb.threads(threads):
            results.append(every_result(x, windows))
    forget()
    monkeypatch.setattr(_geometry, "sections", lambda *_: None)
    results.append(every_result(x, windows))
    forget()
    for several in zip(*results, strict=True):
        for actual in several[1:]:
            assert_identical(actual, several[0])


def test_what_is_cut():
    long = {"kernel_size": 3, "stride": 2, "padding": 1}
    assert is_cut((1, 1, 1 << 16), False, long)
    assert is_cut((2, 64, 1 << 10), True, long)  # rows of as many elements
    assert not is_cut((1, 1, 1 << 14), False, long)
    assert not is_cut((1, 8, 1 << 16), False, long)  # rows to share
    assert is_cut((1, 8, 1 << 20), False, long)
    assert not is_cut((1, 1, 1 << 16), False, long | {"kernel_size": 5001})

    def plane(height, kernel, padding):
        call = _plans.uniform((1, 1, height, 1 << 16), 2, False, (kernel, 3), 2, padding, 1, False, True, "max")
        return bool(call.parts)

    assert plane(1, 1, (0, 1))
    assert not plane(2, 1, (0, 1))
    assert not plane(1, 3, (1, 1))


def test_a_plane_of_one_row(short):
    x = elements((2, 3, 1, 1000), "float32", "specials", 0)
    y, indices = reference.max_pool(x, (1, 3), (1, 2), (0, 1), rank=2)
    actual, where = nb.max_pool2d(x, (1, 3), (1, 2), (0, 1), return_indices=True)
    assert_identical(actual, y)
    assert_identical(where, indices)


def test_tables_do_not_grow_with_the_row():
    for size in (1 << 22, 1 << 24):
        assert _plans.uniform((1, 1, size), 1, False, 3, 2, 1, 1, False, True, "argmax").nbytes < 1 << 23


def between_fences():
    """Every kernel that sections are left to, on arrays that nothing may be read or written beside."""
    _geometry.LONG_SECTION = 32
    for windows, size in zip(WINDOWS, SIZES, strict=True):
        for order, lead in LEADS:
            for dtype in ("float32", "float16"):
                for at_end in (True, False):
                    x = laid_out(elements((*lead, size), dtype, "normal", 0), order, 1)
                    y, indices = nb.max_pool1d(x, **windows, return_indices=True)
                    mean = nb.avg_pool1d(x, **windows)
                    inputs = [fenced(a, order, at_end) for a in (x, mean)]
                    outputs = [fenced(np.zeros_like(a), order, at_end) for a in (y, indices, y, mean, x)]
                    (x_in, g_in), (y_out, i_out, m_out, a_out, b_out) = ([view for _, view in each]
                                                                          for each in (inputs, outputs))
                    nb.max_pool1d(x_in, **windows, return_indices=True, out=(y_out, i_out))
                    nb.max_pool1d(x_in, **windows, out=m_out)
                    nb.avg_pool1d(x_in, **windows, out=a_out)
                    nb.avg_pool1d_backward(g_in, x.shape, **windows, out=b_out)
                    for fence, _ in (*inputs, *outputs):
                        fence.check()
                    for actual, expected in ((y_out, y), (i_out, indices), (m_out, y), (a_out, mean)):
                        assert_identical(np.array(actual), np.array(expected))
    print("inside")


def fenced(a, order, at_end):
    """(fence, the array between fences in the same memory order)"""
    if order == "C":
        fence = fences.Fenced(np.ascontiguousarray(a), at_end)
        return fence, fence.array
    fence = fences.Fenced(np.ascontiguousarray(np.moveaxis(a, -2, -1)), at_end)
    return fence, np.moveaxis(fence.array, -1, -2)


@pytest.mark.skipif(sys.platform != "linux", reason="memory protection as on Linux")
def test_nothing_beyond_the_arrays():
    assert finish_all([start(between_fences)], timeout=900) == ["inside\n"]


def test_it_is_the_worker_that_runs(launched_forward, short):
    nb.max_pool1d(np.zeros((1, 1, 1000), np.float32), 2)
    nb.avg_pool1d(np.zeros((1, 1, 1000), np.float32), 2)
    assert launched_forward == [window_sections] * 2


@pytest.fixture
def launched_forward(monkeypatch):
    from numba_pool.functional import _calls

    workers, launch = [], _calls.launch

    def noted(worker, *args):
        workers.append(worker)
        return launch(worker, *args)

    monkeypatch.setattr(_calls, "launch", noted)
    return workers
