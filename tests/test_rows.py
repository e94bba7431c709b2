"""Windows picked out of rows, against the plain loops."""

import weakref

import numpy as np
import pytest
import reference
import selection
from checks import assert_identical, assert_rounded, assert_same_maxima
from kernel_checks import AVERAGE, KINDS, POOL, SPREAD, argmax_worker, check_max, with_dtypes
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool import _arguments
from numba_pool._windows import three
from numba_pool.kernels import steps
from numba_pool.kernels._job import Windows
from numba_pool.kernels.strips import window_strips


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (2, 1), ((2, 3), (2, 1)), (2, 2), ((2, 7), 1)], ids=str)
@pytest.mark.parametrize("lead", [(1, 1), (8, 1)])
def test_a_single_nan_in_any_column(kernel, stride, lead):
    """Kernels put +inf in the place of NaN, and look at all their vectors for it."""
    for column in range(41):
        x = np.zeros((*lead, 5, 41), np.float32)
        x[0, 0, 2, column] = np.nan
        check_max(x[..., : column + 7], "C", kernel_size=kernel, stride=stride)


@pytest.mark.parametrize("size", [(600, 16), (3, 5000)], ids=str)
def test_what_is_made_of_long_axes_is_not_kept(size):
    """Else it would fill the memory: whoever calls with long axes makes them anew each time."""
    axes = _arguments.grid(size, 3, 2, 1, 1, False)
    axis, job = weakref.ref(axes[size[1] > size[0]]), Windows(three(axes), (1, 1, *size), 2, False, "max")
    assert steps.plan(job).worker is steps.window_steps
    del axes, job
    assert axis() is None
    known = steps.known_rows, steps.known_steps
    before = [cache.cache_info().currsize for cache in known]
    size = size[0], size[1] + 1
    steps.plan(Windows(three(_arguments.grid(size, 3, 2, 1, 1, False)), (1, 1, *size), 2, False, "max"))
    assert [cache.cache_info().currsize for cache in known] == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [15, 16, 28, 31, 32, 33, 61])
def test_rows_about_as_long_as_two_vectors(width, kind):
    x = elements((1, 2, 4, width), "float32", kind, 0)
    for k in (1, 2, 3, 4, 5):
        alone = nb.max_pool2d(x, (2, k), 1, (0, k // 2))
        assert_identical(alone, reference.max_pool(x, (2, k), 1, (0, k // 2), rank=2)[0])
        if k in (3, 5) or selection.exhaustive:  # each is compiled by itself
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
    ((1, 2), (6, 131), {"kernel_size": 3, "stride": 2, "padding": 1}),  # rows of gradients too, beyond two vectors
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
    ((1, 2), (3, 700), {"kernel_size": (2, 3), "stride": 1, "padding": (1, 1)}),  # rows in pieces
    ((1, 2), (2, 600), {"kernel_size": (1, 9), "stride": (1, 1), "padding": (0, 4)}),  # of a few outputs a step
    ((2, 1), (90, 40), {"kernel_size": 3, "stride": 2, "padding": 1}),  # a few rows at a time
    ((16, 1), (2200, 5), {"kernel_size": (3, 2), "stride": (1, 1), "padding": (1, 0)}),  # pairs of rows, by tiles
]


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("lead", "size", "arguments", "dtype"), with_dtypes(PICKED, "bfloat16", "int16"), ids=str)
def test_windows_picked_out_of_rows(lead, size, arguments, dtype, order):
    rank = len(size)
    # Those of few rows with indices are compiled for each kind of window: test_strips.py has others like these.
    worker = argmax_worker((*lead, *size), rank, order != "C", **arguments)
    indexed = selection.exhaustive or worker is not window_strips
    for kind in KINDS:
        x = elements((*lead, *size), dtype, kind, 0)
        if indexed:
            check_max(x, order, **arguments)
        else:
            alone = POOL[rank](laid_out(x, order, rank), **arguments)
            assert_same_maxima(alone, reference.max_pool(x, **arguments, rank=rank)[0])
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


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_the_sign_of_a_zero_is_that_of_its_index(order):
    for lead, size in (((1, 1), (4, 6)), ((8, 3), (6, 10)), ((1, 2), (4, 70)), ((1, 20), (4, 6))):
        x = np.random.default_rng(0).choice(np.array([-1, -0.0, 0.0], np.float32), (*lead, *size))
        for arguments in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 1, "padding": 1}):
            y, indices = nb.max_pool2d(laid_out(x, order, 2), **arguments, return_indices=True)
            flat = x.reshape(*lead, -1)
            winners = np.take_along_axis(flat, indices.reshape(*lead, -1).astype(np.int64), 2).reshape(y.shape)
            assert (np.signbit(y) == np.signbit(winners)).all()
