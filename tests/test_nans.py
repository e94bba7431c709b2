"""NaN is found by a worker of its own, where a maximum is infinite. That every kernel says so is seen in the tests of
kernels.
"""

import numpy as np
import pytest
import reference
from checks import assert_identical, forget, needs_two_threads
from jitted_checks import forward
from numba import njit
from process import run
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool import _arguments, jitted
from numba_pool._dispatch import plans
from numba_pool._windows import OUT_W, WIDTH, adaptive_axes, outline, three
from numba_pool.kernels.nans import put_nans, window_along

WINDOWS = [  # size, kernel, stride, padding, dilation, ceil mode
    (9, 3, 2, 1, 1, False), (9, 2, 2, 0, 1, True), (12, 3, 2, ((4, 3),), 3, False), (7, 4, 1, ((5, 5),), 2, False),
    (5, 2, 3, ((4, 4),), 4, True), (3, 2, 1, ((4, 4),), 4, False), (10, 3, 4, "same", 2, False), (8, 8, 1, 0, 1, False),
]
ADAPTIVE = [(10, 3), (3, 10), (7, 7), (12, 4), (1, 5), (70_000, 69_999)]


@njit
def list_windows(g, axis, starts, stops):
    for o in range(starts.size):
        starts[o], stops[o] = window_along(axis, o, g)


@pytest.mark.parametrize("axes", [
    *(three(_arguments.grid((size,), *others)) for size, *others in WINDOWS),
    *(adaptive_axes((size,), (n,)) for size, n in ADAPTIVE)])
def test_windows_without_tables(axes):
    """They are those of the tables; an empty window has no element in either."""
    axes = axes[::-1] + axes[2:]
    g = np.array(outline(axes[:3], 4, True), np.int64)
    for axis, windows in enumerate(axes[:3]):
        starts, stops = np.full((2, windows.n), -1)
        list_windows(g, axis, starts, stops)
        for found, wanted in zip(zip(starts, stops), zip(windows.start, windows.stop)):
            assert range(*found, windows.step) == range(*wanted, windows.step)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("size_kernel_others", WINDOWS, ids=str)
def test_one_nan_in_any_place(size_kernel_others, order):
    size, *arguments = size_kernel_others
    for column in range(size):
        x = elements((2, 3, size), "float32", "normal", 0)
        x[1, 2, column] = np.nan
        x[0, 1, column] = np.inf  # and the neighbours are not taken for it
        expected = reference.max_pool(x, *arguments, rank=1)
        given = laid_out(x, order, 1)
        for _ in range(2):  # the second time by the shortest way
            for actual, wanted in zip(nb.max_pool1d(given, *arguments, return_indices=True), expected):
                assert_identical(actual, wanted)
            assert_identical(nb.max_pool1d(given, *arguments), expected[0])


def test_nan_beside_infinities():
    """+inf, or -inf for minima, is a number: the first of these has the index."""
    x = np.zeros((1, 4, 4), np.float32)
    x[0, 0, :2] = x[0, 3, 3] = np.inf
    x[0, 2, :2] = x[0, 1, 2] = -np.inf
    x[0, 3, :2] = np.nan
    y, indices = nb.max_pool2d(x, 2, return_indices=True)
    np.testing.assert_array_equal(y, [[[np.inf, 0], [np.nan, np.inf]]])
    np.testing.assert_array_equal(indices, [[[0, 2], [13, 15]]])
    y, indices = nb.min_pool2d(x, 2, return_indices=True)
    np.testing.assert_array_equal(y, [[[0, -np.inf], [np.nan, 0]]])
    np.testing.assert_array_equal(indices, [[[4, 6], [13, 10]]])
    np.testing.assert_array_equal(nb.min_pool2d(x, 2), y)


@needs_two_threads
@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_nan_in_one_share_of_the_threads(order):
    """The first, or the last."""
    clean = np.random.default_rng(0).random((4, 32, 96, 96), dtype=np.float32)
    y, indices = nb.max_pool2d(clean, 2, return_indices=True)
    for plane, place in (((0, 0), (0, 0)), ((3, 31), (95, 95))):
        x = clean.copy()
        x[(*plane, *place)] = np.nan
        with nb.threads(2):
            actual = nb.max_pool2d(laid_out(x, order, 2), 2, return_indices=True)
        window = (*plane, *(n // 2 for n in place))
        expected = y.copy(), indices.copy()
        expected[0][window], expected[1][window] = np.nan, place[0] * 96 + place[1]
        for a, b in zip(actual, expected):
            assert_identical(a, b)


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("function", [nb.max_pool2d, nb.min_pool2d])
def test_compiled_code_finds_nan(function, indexed):
    plan = nb.plan(function, (2, 3, 9, 9), "f4", 3, 2, 1, return_indices=indexed)
    x = elements(plan.shape, "float32", "normal", 0)
    x[1, 2, 8, 7:] = np.nan
    x[0, 0, 4, 4] = -np.inf if function is nb.min_pool2d else np.inf
    found = [np.empty(plan.output_shape, dtype) for dtype in ("f4", "i4")[: 1 + indexed]]
    expected = function(x, 3, 2, 1, return_indices=indexed)
    for by in (forward, nb.run):
        for a in found:
            a[...] = 7
        by(plan, x, *found)
        for actual, wanted in zip(found, expected if indexed else (expected,)):
            np.testing.assert_array_equal(actual, wanted)
    assert np.isnan(found[0]).sum() == 2  # the windows that end in columns 7 and 8
    if indexed:
        assert found[1][1, 2, 4, 4] == 8 * 9 + 8


def test_what_has_no_nan_to_put_back_has_no_look():
    """Sums and integers."""
    for function, dtype in ((nb.sum_pool2d, "f4"), (nb.avg_pool2d, "f4"), (nb.max_pool2d, "i4")):
        assert nb.plan(function, (2, 3, 9, 9), dtype, 3, 2, 1).words[jitted.NANS] == 0
    infinite = np.full((2, 3, 9, 9), np.inf, np.float32)
    for _ in range(2):
        assert (nb.sum_pool2d(infinite, 3, 2) == np.inf).all()
        assert (nb.avg_pool2d(infinite, 3, 2) == np.inf).all()


def compiled_looks():
    """How many there are after calls of numbers, which are kept; after +inf; after NaN with indices."""
    x = np.ones((2, 3, 9, 9), np.float32)
    calls = [(function, indexed) for function in (nb.max_pool2d, nb.global_max_pool) for indexed in (False, True)]
    for value in (0, -np.inf, np.inf, np.nan):
        x[0, 0, 1, 1] = value
        for function, indexed in calls[: 2 if value != value else None] * 2:
            function(x, *((2,) if function is nb.max_pool2d else ()), return_indices=indexed)
        print(len(put_nans.overloads))


def test_the_look_is_compiled_when_it_is_needed():
    assert run(compiled_looks).split() == ["0", "0", "2", "2"]


def test_the_look_of_sections_is_one_for_all():
    forget()
    call = plans.uniform((1, 2, 1 << 20), 1, False, 3, 2, 1, 1, False, True, "argmax")
    assert call.parts
    assert all(part.otherwise is None for part in call.parts)
    numbers, = call.otherwise.rest
    assert call.otherwise.units == 2 << 19
    assert numbers.nbytes < 200
    assert (numbers[WIDTH], numbers[OUT_W]) == (1 << 20, 1 << 19)
