"""Long windows along rows: runs of memory forwards, and runs that are filled backwards."""

import tracemalloc

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded
from strategies import elements, laid_out

import numba_pool as nb

ROWS = [  # shape, kernel, stride, padding
    ((2, 3, 5000), 100, None, 0),
    ((1, 1, 9001), 37, 30, 18),
    ((2, 20, 3000), 64, 64, 0),
    ((2, 20, 3000), 64, 40, 32),
    ((2, 3, 9, 300), (1, 64), (1, 64), (0, 10)),
    ((2, 40, 9, 300), (1, 50), (2, 30), (0, 25)),
]


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("shape", "kernel", "stride", "padding"), ROWS, ids=str)
def test_windows_of_one_long_row(shape, kernel, stride, padding, order):
    rank = len(shape) - 2
    maximum, average = getattr(nb, f"max_pool{rank}d"), getattr(nb, f"avg_pool{rank}d")
    arguments = kernel, stride, padding
    for kind in ("normal", "ties", "specials", "nan"):
        x = elements(shape, "float32", kind, 0)
        given = laid_out(x, order, rank)
        y, indices = reference.max_pool(x, *arguments, rank=rank)
        actual, where = maximum(given, *arguments, return_indices=True)
        assert_identical(actual, y)
        assert_identical(where, indices)
        np.testing.assert_array_equal(maximum(given, *arguments), y)
    x = elements(shape, "float32", "normal", 0)
    mean = average(laid_out(x, order, rank), *arguments)
    magnitude = reference.avg_pool(np.abs(x), *arguments, rank=rank)
    assert_rounded(mean, reference.avg_pool(x, *arguments, rank=rank), magnitude)
    assert_identical(np.ascontiguousarray(mean), np.ascontiguousarray(average(x, *arguments)))
    assert nb.explain(average, laid_out(x, order, rank), *arguments).kernel in ("average_runs", "average_pixel_runs")


def test_windows_that_share_more_are_not_runs():
    x = np.zeros((1, 1, 9000), np.float32)
    assert nb.explain(nb.max_pool1d, x, 64, 31).kernel != "window_runs"
    assert nb.explain(nb.max_pool1d, x, 31, 31).kernel != "window_runs"
    assert nb.explain(nb.max_pool1d, x, 32, 16).kernel == "window_runs"


GRADIENTS = [  # shape, arguments
    ((2, 1, 5000), (100,)),
    ((1, 3, 9001), (37, 40, 0)),  # gaps
    ((2, 3, 8192), (64, 40, 32)),  # elements in two windows
    ((1, 2, 5003), (40, 30, 20, False, False)),  # and divisors of their own
    ((1, 1, 6000), (50, 33, 25, True)),
    ((1, 1, 6000), (50, 60, 0, False, True, 7)),
    ((2, 18, 5000), (100,)),
    ((1, 20, 4999), (30, 20, 15, False, False)),
    ((1, 1, 4100), (64, 64, ((0, 63),))),  # the last window begins behind the end
    ((1, 1, 4100), (64, 64, ((63, 0),))),
    ((1, 1, 4100), (4100,)),
]


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("shape", "arguments"), GRADIENTS, ids=str)
def test_gradients_of_long_windows(shape, arguments, order):
    g = elements(nb.output_shape(nb.avg_pool1d, shape, *arguments), "float32", "normal", 1)
    given = laid_out(g, order, 1)
    memory = np.full(np.prod(shape) + 128, 7, np.float32)
    inner = memory[64:-64]
    out = inner.reshape(shape) if order == "C" else np.moveaxis(inner.reshape(shape[0], shape[2], shape[1]), -1, 1)
    nb.avg_pool1d_backward(given, shape, *arguments, out=out)
    expected = reference.avg_pool_backward(g, shape, *arguments, rank=1)
    magnitude = reference.avg_pool_backward(np.abs(g), shape, *arguments, rank=1)
    assert_rounded(np.ascontiguousarray(out), expected, magnitude)
    assert (memory[:64] == 7).all()
    assert (memory[-64:] == 7).all()
    if shape[-1] > arguments[0]:
        assert nb.explain(nb.avg_pool1d_backward, given, shape, *arguments).kernel == "fill_rows"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("shape", "n"), [((2, 3, 5000), 100), ((1, 1, 5003), 77), ((1, 17, 4099), 200)])
def test_gradients_of_adaptive_averages(shape, n, dtype):
    g = elements((*shape[:2], n), dtype, "normal", 1)
    expected = np.zeros(shape)
    for o in range(n):
        begin, end = o * shape[2] // n, -(-(o + 1) * shape[2] // n)
        expected[..., begin:end] += g[..., o : o + 1].astype(np.float64) / (end - begin)
    for order in ("C", "channels_last"):
        actual = nb.adaptive_avg_pool1d_backward(laid_out(g, order, 1), shape)
        assert actual.dtype == g.dtype
        np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=2e-3 if dtype == "float16" else 2e-6,
                                   atol=1e-4 if dtype == "float16" else 1e-8)  # of two, which may cancel


def test_tables_are_of_windows_and_not_of_elements():
    g = np.ones((1, 1, 1000), np.float32)
    assert nb.explain(nb.adaptive_avg_pool1d_backward, g, (1, 1, 2_000_000)).table_bytes < 64_000
    tracemalloc.start()
    try:
        nb.adaptive_avg_pool1d_backward(g, (1, 1, 2_000_000))
        assert tracemalloc.get_traced_memory()[1] < 4 * 2_000_000 + (2 << 20)
    finally:
        tracemalloc.stop()
