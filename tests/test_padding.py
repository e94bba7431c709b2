"""Padding wider than windows, as ONNX and oneDNN take it: some windows lie in it alone, and hold nothing."""

import random
import tracemalloc

import fences
import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, assert_same_maxima, forget
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool._arguments import grid
from numba_pool.kernels import around

# Shapes and windows for kernels that once wrote or read a wrong place, and for all others.
CASES = {
    "strips": ((1, 2, 2, 19), {"kernel_size": (1, 2), "stride": 3, "padding": ((3, 0), (1, 1)), "ceil_mode": True}),
    "first windows begin behind the start": ((1, 1, 8, 25), {"kernel_size": 9, "stride": 1,
                                                             "padding": ((4, 10), (10, 1))}),
    "few columns of wide windows": ((1, 2, 4, 10), {"kernel_size": (3, 40), "stride": 1, "padding": ((0, 0), (9, 99))}),
    "sums of sums": ((1, 2, 3, 40), {"kernel_size": (2, 33), "stride": 1, "padding": ((4, 1), (60, 50))}),
    "steps": ((2, 3, 5, 20), {"kernel_size": 3, "stride": 2, "padding": ((5, 0), (0, 6)), "ceil_mode": True}),
    "many planes": ((2, 17, 5, 6), {"kernel_size": 3, "stride": 1, "padding": ((5, 2), (7, 9))}),
    "runs": ((2, 2, 4, 40), {"kernel_size": (2, 40), "stride": (1, 50), "padding": ((5, 3), (50, 50))}),
    "long rows of a plane": ((1, 2, 90), {"kernel_size": 40, "stride": 30, "padding": ((100, 60),)}),
    "dilated": ((1, 3, 7, 9), {"kernel_size": (2, 3), "stride": (2, 1), "padding": ((8, 3), (9, 10)),
                               "dilation": (3, 2)}),
    "volumes": ((1, 2, 3, 4, 5), {"kernel_size": 2, "stride": (1, 2, 1), "padding": ((3, 0), (0, 5), (4, 4))}),
    "nothing but padding": ((1, 2, 3), {"kernel_size": 2, "stride": 50, "padding": ((20, 120),)}),
    "little but padding": ((2, 3, 4, 5), {"kernel_size": (2, 3), "stride": 1, "padding": ((2, 4), (1700, 40))}),
    "little but padding along two axes": ((1, 17, 3, 2), {"kernel_size": 2, "stride": (300, 1),
                                                          "padding": ((1000, 100), (30, 1200))}),
}
each = pytest.mark.parametrize(("shape", "windows"), CASES.values(), ids=CASES)
orders = pytest.mark.parametrize("order", ["C", "channels_last"])


def of(name, rank):
    return getattr(nb, f"{name}{rank}d")


@orders
@each
def test_maxima(shape, windows, order):
    rank = len(shape) - 2
    for kind in ("ties", "-inf"):
        x = elements(shape, "float32", kind, 0)
        y, indices = reference.max_pool(x, **windows, rank=rank)
        given = laid_out(x, order, rank)
        for _ in range(2):  # the second time by the shortest way
            actual, places = of("max_pool", rank)(given, **windows, return_indices=True)
            assert_identical(actual, y)
            assert_identical(places, indices)
            assert_same_maxima(of("max_pool", rank)(given, **windows), y)
        least, places = of("min_pool", rank)(laid_out(-x, order, rank), **windows, return_indices=True)
        assert_same_maxima(-least, y)
        assert_identical(places, indices)
        g = laid_out(elements(y.shape, "float32", "ties", 1), order, rank)
        gradient = getattr(nb, f"max_pool{rank}d_backward")(g, places, shape)
        assert_identical(gradient, reference.scatter_add(g, indices, shape, rank))


@orders
@each
def test_averages(shape, windows, order):
    """Gradients of windows that hold nothing go nowhere, whatever they are."""
    rank = len(shape) - 2
    x = elements(shape, "float32", "normal", 0)
    given = laid_out(x, order, rank)
    held = reference.avg_pool(np.ones_like(x), **windows, rank=rank) > 0
    g = np.where(held, elements(held.shape, "float32", "normal", 1), np.inf).astype(np.float32)
    for further in ({}, {"count_include_pad": False}, {"divisor_override": 7}):
        everything = {**windows, **further}
        assert_rounded(of("avg_pool", rank)(given, **everything), reference.avg_pool(x, **everything, rank=rank),
                       reference.avg_pool(np.abs(x), **everything, rank=rank))
        expected, most = (reference.avg_pool_backward(np.where(held, a, 0), shape, **everything, rank=rank)
                          for a in (g, np.abs(g)))
        actual = getattr(nb, f"avg_pool{rank}d_backward")(laid_out(g, order, rank), shape, **everything)
        assert_rounded(actual, expected, most)
    assert (of("sum_pool", rank)(given, **windows)[~held] == 0).all()


@orders
@each
@pytest.mark.parametrize("p", [2, np.inf])
def test_norms(shape, windows, order, p):
    rank = len(shape) - 2
    x = elements(shape, "float32", "normal", 0)
    given = laid_out(x, order, rank)
    y = of("lp_pool", rank)(given, p, **windows)
    expected = reference.lp_pool(x, p, **windows, rank=rank)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    if p == 2:
        g = elements(y.shape, "float32", "normal", 1)
        gradient = getattr(nb, f"lp_pool{rank}d_backward")(laid_out(g, order, rank), given, y, p, **windows)
        np.testing.assert_allclose(gradient, reference.lp_pool_backward(g, x, p, **windows, rank=rank), atol=2e-5)


@pytest.mark.parametrize("name", ["strips", "first windows begin behind the start", "few columns of wide windows",
                                  "sums of sums", "little but padding"])
def test_nothing_beside_arrays_is_touched(name):
    """Of every array, with no room behind it."""
    shape, windows = CASES[name]
    rank = len(shape) - 2
    x = elements(shape, "float32", "normal", 0)
    forget()
    with fences.Fences(random.Random(0), ends=(True,)):
        y, indices = of("max_pool", rank)(x, **windows, return_indices=True)
        getattr(nb, f"max_pool{rank}d_backward")(y, indices, shape)
        of("avg_pool", rank)(x, **windows)
        getattr(nb, f"sum_pool{rank}d_backward")(y, shape, **windows)
        norms = of("lp_pool", rank)(x, 2, **windows)
        getattr(nb, f"lp_pool{rank}d_backward")(y, x, norms, 2, **windows)


@pytest.mark.parametrize("stride", [1, 2, 10**5])
def test_a_million_around_ten_elements(stride):
    """Nothing is made that is much larger than the results, nor kept."""
    x = elements((1, 2, 10), "float32", "ties", 0)
    windows = {"kernel_size": 5, "stride": stride, "padding": ((10**6, 10**6),)}
    results = []
    for pool in (lambda: nb.max_pool1d(x, **windows, return_indices=True)[1], lambda: nb.max_pool1d(x, **windows),
                 lambda: nb.avg_pool1d(x, **windows), lambda: nb.lp_pool1d(x, 2, **windows)):
        pool()  # compiles
        forget()
        tracemalloc.start()
        results.append(pool())
        assert tracemalloc.get_traced_memory()[1] < 4 * results[-1].nbytes + 10**5
        tracemalloc.stop()
    indices, y, averages, _ = results
    first = -(-(10**6 - 4) // stride)
    held = slice(first, (10**6 + 9) // stride + 1)
    near = {"kernel_size": 5, "padding": ((10**6 - first * stride, 10),), "stride": stride}
    expected, places = reference.max_pool(x, **near, rank=1)
    count = held.stop - held.start
    assert_identical(indices[..., held], places[..., :count])
    assert_identical(y[..., held], expected[..., :count])
    np.testing.assert_allclose(averages[..., held], reference.avg_pool(x, **near, rank=1)[..., :count], rtol=1e-6)
    assert np.count_nonzero(indices >= 0) == places[..., :count].size
    gradient = nb.sum_pool1d_backward(averages, x.shape, **windows)
    starts = np.arange(first, held.stop) * stride - 10**6
    for i in range(10):
        holding = averages[..., held][..., (starts <= i) & (i < starts + 5)]
        np.testing.assert_allclose(gradient[..., i], holding.sum(-1), atol=1e-6)
    assert nb.explain(nb.max_pool1d, x, **windows).table_bytes < 10**4


def test_the_core_has_all_windows_that_hold_something():
    """Whatever the sizes: as many windows as there are, and each of the others lies in the padding alone."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(2000):
        size, k, d = (int(n) for n in rng.integers(1, (20, 8, 4)))
        s, ends = int(rng.choice((1, 2, 7, 40))), tuple(int(n) for n in rng.integers(0, (3000, 6000)))
        try:
            axes = grid((size,), k, s, (ends,), d, bool(rng.integers(2)), include_pad=bool(rng.integers(2)))
        except ValueError:  # no windows
            continue
        if (cut := around.core(axes)) is None:
            continue
        (axis,), (inner,), (first,) = axes, *cut
        stop = first + inner.n
        assert inner.before >= 0
        for of_all, of_core in ((axis.start, inner.start), (axis.stop, inner.stop), (axis.width, inner.width)):
            np.testing.assert_array_equal(of_all[first:stop], of_core)
        assert (axis.lengths[:first] == 0).all()
        assert (axis.lengths[stop:] == 0).all()
        found += 1
    assert found > 500


@pytest.mark.parametrize("last", [False, True])
def test_plans_for_compiled_code(last):
    for windows in ({"padding": ((7, 0), (2, 9))}, {"padding": ((1, 3000), (2, 9))}):
        x = elements((2, 9, 6, 17), "float32", "ties", 0)
        y, indices = nb.max_pool2d(x, 3, 1, **windows, return_indices=True)
        given = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x
        plan = nb.plan(nb.max_pool2d, given.shape, "float32", 3, 1, **windows, return_indices=True,
                       channel_axis=-1 if last else None)
        out, places = np.empty(plan.output_shape, "float32"), np.empty(plan.output_shape, "int32")
        nb.run(plan, given, out, places)
        assert_identical(np.moveaxis(out, -1, 1) if last else out, y)
        assert_identical(np.moveaxis(places, -1, 1) if last else places, indices)


def test_named_dimensions_and_chunks():
    dask, xarray = pytest.importorskip("dask.array"), pytest.importorskip("xarray")
    from numba_pool.xarray import pool

    x = elements((2, 12, 20), "float32", "ties", 0)
    windows = {"stride": 2, "padding": {"y": (9, 1), "x": (0, 30)}}
    y = nb.max_pool2d(x, (3, 4), 2, ((9, 1), (0, 30)))
    for data in (x, dask.from_array(x, chunks=(1, 5, 6))):
        array = xarray.DataArray(data, {"x": np.arange(20)}, ("n", "y", "x"))
        got = pool(array, {"y": 3, "x": 4}, **windows, skipna=False)
        assert_identical(got.values, y)
        np.testing.assert_array_equal(got.x, np.arange(y.shape[-1]) * 2 + 1.5)
