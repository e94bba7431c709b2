"""`numba_pool.xarray.pool` beside xarray's `rolling`: NaN, and what lies outside of the array, is missing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numba_pool import functional

xr = pytest.importorskip("xarray")
pytest.importorskip("numba_pool.dask")  # before the definitions stand in for the core

from xarray.testing import assert_allclose, assert_equal, assert_identical  # noqa: E402
from xarray_objects import dataset, definitions  # noqa: E402

import numba_pool.xarray as nx  # noqa: E402

REDUCTIONS = "mean", "sum", "max", "min"
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


def sparse(shape, dtype="float64", share=0.3, seed=0):
    """An array of which a share is NaN."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(dtype)
    x[rng.random(shape) < share] = np.nan
    return xr.DataArray(x, {"x": np.arange(shape[1]) / 4, "day": ("y", np.arange(shape[0]))}, ("y", "x", "band"))


def trailing(windows):
    return {dim: (w - 1, 0) for dim, w in windows.items()}


def centred(windows):
    return {dim: (w // 2, w - 1 - w // 2) for dim, w in windows.items()}


def assert_rolling(x, windows, reduction, least, center=False, padding=None, chunks=None):
    """That the answer is rolling's, also of chunks."""
    expected = getattr(x.rolling(windows, min_periods=least, center=center), reduction)()
    padding = padding or (centred(windows) if center else trailing(windows))
    obj = x if chunks is None else x.chunk(chunks)
    got = nx.pool(obj, windows, reduction, stride=1, padding=padding, min_periods=least or np.prod([*windows.values()]))
    if chunks is not None:
        assert got.chunks
        got = got.compute(scheduler="synchronous")
    some = TOLERANCE[x.dtype.name]
    assert got.dtype == expected.dtype
    assert_allclose(got.assign_coords(x.coords), expected, rtol=some, atol=some)


@given(data=st.data())
@definitions()
def test_the_answer_is_that_of_rolling(data):
    """Even windows, and those that are longer than the axis; chunks of any size."""
    draw = data.draw
    shape = *draw(st.tuples(st.integers(1, 7), st.integers(1, 7))), 2
    x = sparse(shape, draw(st.sampled_from([*TOLERANCE])), draw(st.sampled_from((0, 0.1, 0.5, 0.9))),
               draw(st.integers(0, 99)))
    dims = draw(st.lists(st.sampled_from("yx"), min_size=1, unique=True))
    windows = {dim: draw(st.integers(1, 9)) for dim in dims}
    center, chunks = draw(st.booleans()), {dim: draw(st.integers(1, 7)) for dim in "yx"}
    assert_rolling(x, windows, draw(st.sampled_from(REDUCTIONS)),
                   draw(st.none() | st.integers(1, np.prod([*windows.values()]))), center,
                   "same_lower" if center and draw(st.booleans()) else None,
                   chunks if draw(st.booleans()) else None)


@pytest.mark.parametrize("reduction", ["mean", "max"])
def test_so_it_is_by_the_kernels(reduction):
    x = sparse((20, 30, 3), "float32")
    for least in (None, 2, 1):
        assert_rolling(x, {"x": 4}, reduction, least)
    if reduction == "max":  # chunks have other kernels
        assert_rolling(x, {"x": 4}, reduction, 2, True, "same_lower", {"x": 7, "y": 6})


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool"])
@definitions()
def test_integers_are_floats_where_results_may_be_missing(dtype):
    x = xr.DataArray(np.random.default_rng(0).integers(0, 100, 12).astype(dtype), dims="x")
    for reduction in REDUCTIONS:
        got = nx.pool(x, {"x": 5}, reduction, stride=1, padding={"x": (4, 0)}, min_periods=3)
        assert got.dtype == np.float64
        assert_equal(got, getattr(x.astype(float).rolling(x=5, min_periods=3), reduction)())
    means = nx.pool(x, {"x": 5}, "mean", stride=1, padding="same")
    assert_allclose(means, x.astype(float).rolling(x=5, center=True, min_periods=1).mean())
    if dtype != "bool":
        assert {nx.pool(x, {"x": 5}, reduction).dtype for reduction in ("sum", "max", "min")} == {np.dtype(dtype)}


@definitions()
def test_windows_of_nothing():
    x = xr.DataArray([1, np.nan, np.nan, np.nan, np.nan, -np.inf], dims="x")
    for least in (None, 0, 1):
        for reduction, first in (("mean", 1), ("max", 1), ("min", 1), ("sum", 1)):
            nothing = 0 if reduction == "sum" and not least else np.nan
            got = nx.pool(x, {"x": 2}, reduction, min_periods=least)
            np.testing.assert_array_equal(got, [first, nothing, -np.inf])


@definitions()
def test_infinite_elements_count():
    x = xr.DataArray([np.inf, -np.inf, np.nan, -np.inf, -0.0, 0.0], dims="x")
    np.testing.assert_array_equal(nx.pool(x, {"x": 2}, "max", min_periods=2), [np.inf, np.nan, 0])
    np.testing.assert_array_equal(nx.pool(x, {"x": 2}, "min", min_periods=2), [-np.inf, np.nan, 0])
    for more in (3, 300):
        np.testing.assert_array_equal(nx.pool(x, {"x": 2}, "max", min_periods=more), [np.nan] * 3)


@pytest.mark.parametrize(("reduction", "more", "expected"), [
    ("mean", {}, {"nan_policy": "omit", "count_include_pad": False}),
    ("mean", {"skipna": False}, {}),
    ("mean", {"skipna": True, "count_include_pad": True}, {"nan_policy": "omit", "count_include_pad": True}),
    ("sum", {"min_periods": 3}, {"nan_policy": "omit", "min_count": 3}),
    ("max", {"min_periods": 1}, {"nan_policy": "omit"}),
    ("min", {"skipna": False}, {}),
    ("lp", {"norm_type": 2}, {"norm_type": 2}),
])  # fmt: skip
def test_what_the_core_is_told(reduction, more, expected, monkeypatch):
    seen = []
    monkeypatch.setattr(functional, f"{nx.POOLS[reduction]}1d",
                        lambda x, **arguments: seen.append(arguments) or x[..., ::2])
    nx.pool(sparse((3, 4, 1)), {"x": 2}, reduction, **more)
    windows = {"kernel_size": (2,), "stride": (2,), "padding": (0,), "dilation": (1,), "ceil_mode": False}
    assert seen == [{**windows, **expected}]


@definitions()
def test_variables_with_some_of_the_dimensions():
    obj = dataset()
    windows = {"y": 2, "x": 3}
    got = nx.pool(obj, windows, "mean", stride=1, padding=trailing(windows), min_periods=3)
    assert_allclose(got.row.variable, obj.row.rolling(x=3).mean().variable)
    assert_allclose(got.height.variable, obj.height.rolling(windows, min_periods=3).mean().variable)
    assert_identical(got.name, obj.name.assign_coords(run=obj.run))


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ({"skipna": 1}, TypeError, "skipna must be True, False or None, got 1"),
    ({"skipna": True, "reduction": "lp", "norm_type": 2}, ValueError,
     "skipna must be False or None for reduction='lp', which skips no NaN, got True"),
    ({"min_periods": -1}, ValueError, "min_periods must be at least 0, got -1"),
    ({"min_periods": 1.5}, TypeError, "min_periods must be an int or None, got 1.5"),
    ({"min_periods": 2, "skipna": False}, ValueError,
     "min_periods must be None where no element is missing, got 2 with skipna=False, reduction='max'"),
    ({"min_periods": 2, "reduction": "lp", "norm_type": 2}, ValueError, "min_periods must be None where no element"),
    ({"min_count": 2}, TypeError, "unexpected keyword argument 'min_count': pass min_periods"),
    ({"center": True}, TypeError, "unexpected keyword argument 'center': pass stride=1, padding='same_lower'"),
])  # fmt: skip
def test_wrong_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        nx.pool(sparse((3, 4, 1)), {"x": 2}, **arguments)
