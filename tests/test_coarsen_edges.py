"""Coarsening at the edges of what is accepted: nothing in a block, large numbers, unusual dtypes and arrays."""

import warnings

import ml_dtypes
import numba
import numpy as np
import pytest

import numba_pool as nb
from numba_pool import reducers


def test_matrices_and_masked_arrays_are_written_as_arrays():
    buffer = np.zeros(64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.asmatrix(buffer[:4].reshape(2, 2))
    x = np.arange(16.0).reshape(4, 4)
    assert nb.coarsen(x, 2, out=matrix) is matrix
    np.testing.assert_array_equal(buffer[:4], [2.5, 4.5, 10.5, 12.5])
    assert not buffer[4:].any()
    masked = np.ma.zeros((2, 2))
    nb.coarsen(x, 2, out=masked)
    np.testing.assert_array_equal(masked.data, [[2.5, 4.5], [10.5, 12.5]])


@pytest.mark.parametrize("shape", [(0,), (1, 0), (3, 0), (0, 3)])
def test_reductions_of_nothing(shape):
    for dtype in (np.uint8, np.float32):
        x = np.empty(shape, dtype)
        for axis in range(x.ndim):
            for name, nothing in (("sum", 0), ("any", False), ("all", True), ("count", 0)):
                for nan in ("", "nan"):
                    got = getattr(reducers, nan + name)(x, axis=axis)
                    want = np.full(np.delete(shape, axis), nothing) if shape[axis] == 0 else got
                    np.testing.assert_array_equal(got, want)
            if shape[axis] == 0:
                want = np.full(np.delete(shape, axis), np.nan if dtype == np.float32 else 0)
                np.testing.assert_array_equal(reducers.nanmean(x, axis=axis), want)
                np.testing.assert_array_equal(reducers.mean(x, axis=axis, where=np.ones(shape, bool)), want)


@pytest.mark.parametrize(("values", "rounding", "mean"), [
    ([2**63 + 1, 2**63 + 2], "truncate", 2**63 + 1), ([2**63 + 1, 2**63 + 2], "nearest", 2**63 + 2),
    ([2**64 - 1, 2**64 - 1, 2**64 - 2], "truncate", 2**64 - 2), ([2**63 + 2, 2**63 + 3], "even", 2**63 + 2),
])
def test_large_unsigned_means(values, rounding, mean):
    x = np.array(values, np.uint64)
    assert nb.coarsen(x, x.size, rounding=rounding).tolist() == [mean]


def test_values_of_halves_are_those_that_halves_have():
    assert nb.coarsen(np.array([-9999, 4], np.float16), 2, missing=-9999) == 4
    assert nb.coarsen(np.array([0.1, 4], np.float16), 2, "count", missing=0.1) == 1
    x = np.array([-9999, -9999, 4], ml_dtypes.bfloat16)
    assert nb.coarsen(x, 3, "mode", ignore=-9999) == 4


@pytest.mark.parametrize("size", [4, 64])
def test_deviations_of_large_numbers(size):
    x = np.full(size, 1e200)
    assert nb.coarsen(x, size, "nanstd") == 0
    x[1] = np.nan
    assert nb.coarsen(x, size, "nanstd") == 0
    x[:] = np.where(np.arange(size) % 2, 1e100, -1e100)
    np.testing.assert_allclose(nb.coarsen(x, size, "nanstd"), 1e100)


NAN, NOTHING = np.array([np.nan, np.nan]), np.array([False, False])


@pytest.mark.parametrize(("x", "reduction", "arguments", "result"), [
    (NAN, "nanmax", {"missing": -1, "dtype": np.int64}, -1),
    (NAN, "nanmode", {"missing": -1, "dtype": np.int64}, -1),
    (np.array([7, 7]), "max", {"missing": 7, "dtype": np.float64}, np.nan),
    (np.array([7, 7]), "first", {"missing": 7, "dtype": np.float64}, np.nan),
    (np.array([7, 9]), "max", {"dtype": np.float32}, 9),
    (np.array([7, 9]), "max", {"where": NOTHING, "dtype": np.float64}, np.nan),
    (np.array([1, 2]), "mean", {"where": NOTHING, "dtype": bool}, False),
    (np.array([True, True]), "min", {"where": NOTHING}, True),
    (np.array([300, 7]), "max", {"dtype": np.uint8}, 300 - 256),
    (np.array([256, 0]), "max", {"dtype": bool}, True),
    (np.array([2**53 + 1, 0]), "max", {"dtype": np.int64}, 2**53 + 1),
])
def test_results_of_other_dtypes(x, reduction, arguments, result):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = nb.coarsen(x, 2, reduction, **arguments)
    assert got.dtype == arguments.get("dtype", x.dtype)
    np.testing.assert_array_equal(got, [result])
    assert got.tobytes() == np.array([result]).astype(got.dtype).tobytes() or np.isnan(result)  # True is 1


@numba.njit
def has_more(a, than=3):
    return a.max() > than


def test_functions_with_defaults_and_with_a_signature():
    @numba.njit("f8(f8[:])")
    def spread(a):
        return a.max() - a.min()

    x = np.array([1.0, 5.0, 2.0, 3.0])
    assert nb.coarsen(x, 2, has_more).tolist() == [True, False]
    assert nb.coarsen(x, 2, has_more, where=np.zeros(4, bool)).tolist() == [False, False]
    assert nb.coarsen(x, 2, spread).tolist() == [4.0, 1.0]
    with pytest.raises(TypeError, match="reduction must take a 1-D array of uint8, which spread does not"):
        nb.coarsen(x.astype(np.uint8), 2, spread)


@pytest.mark.parametrize(("reduction", "dtype"), [("max", np.int8), ("max", bool), ("min", bool)])
def test_levels_of_another_dtype_are_those_of_the_array(reduction, dtype):
    x = np.array([200, 1, 3, 4, -1, -1, 0, -1])
    for factor, level in zip((2, 4), nb.pyramid(x, 2, 2, reduction, dtype=dtype)[1:], strict=True):
        np.testing.assert_array_equal(level, nb.coarsen(x, factor, reduction, dtype=dtype))


def test_medians_of_orders_that_are_slow_for_the_middle_as_pivot():
    """As many comparisons as elements squared would take minutes."""
    n = 1 << 18
    x = np.arange(n, dtype=np.float64)
    for k in range(n // 2):  # the middle is always the least that is left
        x[k], x[n // 2] = x[n // 2], x[k]
    assert nb.coarsen(x, n, "median") == (n - 1) / 2


def test_arrays_of_many_axes():
    x = np.arange(4).reshape((1,) * 33 + (4,))
    assert nb.coarsen(x, {-1: 2}, "count").ravel().tolist() == [2, 2]
    assert nb.coarsen(x, {-1: 2}, "max").ravel().tolist() == [1, 3]


def test_empty_arrays_with_large_factors():
    for dtype, reduction in ((np.float64, "max"), (np.int64, "sum")):
        assert nb.coarsen(np.empty((0, 0, 0), dtype), 2**31 - 1, reduction).shape == (0, 0, 0)


def test_results_of_a_foreign_byte_order():
    out = np.empty(1, ">i4")
    assert nb.coarsen(np.array([7, 4], np.int32), 2, "max", dtype=">i4", out=out) is out
    assert out.tolist() == [7]


def test_what_a_masked_array_masks_is_missing():
    x = np.ma.masked_greater(np.array([[1.0, 2.0, 90.0, 80.0], [3.0, 70.0, 60.0, 50.0]]), 10)
    np.testing.assert_array_equal(nb.coarsen(x, 2), [[2.0, np.nan]])
    np.testing.assert_array_equal(nb.coarsen(x, 2, where=x.data > 1), [[2.5, np.nan]])
    np.testing.assert_array_equal(nb.coarsen(x, 2, "count"), [[3, 0]])
    np.testing.assert_array_equal(nb.pyramid(x, 2, 1)[1], [[2.0, np.nan]])
    np.testing.assert_array_equal(reducers.max(x, axis=1), [2, 3])
    region = next(nb.pyramid_regions(x.shape, 2, levels=1))
    np.testing.assert_array_equal(nb.pyramid_block(x[region.source], region)[0], [[2.0, np.nan]])
    np.testing.assert_array_equal(nb.coarsen(np.ma.array(x.data), 2), [[19.0, 70.0]])


def test_min_count_may_be_an_array_of_no_axes():
    np.testing.assert_array_equal(nb.coarsen(np.array([1.0, np.nan]), 2, "nanmean", min_count=np.array(2)), [np.nan])


X, EIGHTH = np.arange(4.0), ml_dtypes.float8_e4m3b11fnuz


@pytest.mark.parametrize(("call", "error", "match"), [
    (lambda: nb.coarsen(X, 2, missing=np.nan), ValueError, "missing must be a value that elements can equal, got nan"),
    (lambda: nb.coarsen(X, 2, dtype=int), TypeError, "dtype must be one of floats for the mean of float64, got int64"),
    (lambda: nb.coarsen(X, 2, "median", dtype=int), TypeError, "dtype must be one of floats for the median"),
    (lambda: nb.coarsen(np.arange(4), 2, weights=X, dtype=int), TypeError, "dtype must be one of floats"),
    (lambda: nb.coarsen(np.ones(4, bool), 2, "max", missing=2), ValueError, "missing must be a value that bool has"),
    (lambda: nb.coarsen(X, [2]), TypeError, "windows must be an int, a tuple with an int for each axis, or a dict"),
    (lambda: nb.coarsen(X[None], (2,)), ValueError, "for some of them pass a dict of axis: factor"),
    (lambda: nb.coarsen(X, 2, np.amax), TypeError, "reduction must be a name.*not compiled: pass 'max'"),
    (lambda: nb.coarsen(X, 2, np.nanmean), TypeError, "reduction must be a name.*not compiled: pass 'nanmean'"),
    (lambda: nb.coarsen(X, 2, min_count=True), TypeError, "min_count must be an int or None, got True"),
    (lambda: nb.coarsen(X.astype(EIGHTH), 2), TypeError, "x must be of floats, integers or bools, got float8"),
    (lambda: nb.max_pool1d(X[None].astype(EIGHTH), 2), TypeError, "x must be float32, float64, float16"),
    (lambda: nb.pyramid(X, 2, levels=40), ValueError, "levels must be so few that factors come to at most 2147483647"),
    (lambda: nb.pyramid_block(X, (1, 2)), TypeError, "region must be one of pyramid_regions, got tuple"),
])
def test_what_is_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_masks_for_reducers_of_dask_arrays_are_refused():
    da = pytest.importorskip("dask.array")
    x = da.ones((4, 6), chunks=(2, 3))
    with pytest.raises(TypeError, match="where must be None for dask arrays: pass it"):
        reducers.sum(x, axis=1, where=np.ones((4, 6), bool))
    assert reducers.sum(x).compute() == 24
