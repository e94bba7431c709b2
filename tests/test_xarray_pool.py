"""`numba_pool.xarray.pool`: windows along dimensions by name, and coordinates at their centres."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import numba_pool as nb
from numba_pool import functional

xr = pytest.importorskip("xarray")

from xarray.testing import assert_allclose, assert_identical  # noqa: E402
from xarray_objects import DAYS, dataset, definitions, field  # noqa: E402

import numba_pool.xarray as nx  # noqa: E402

RNG = np.random.default_rng(0)


@given(data=st.data())
@definitions()
def test_pool_along_any_dimensions(data):
    """Dimensions in any order, windows along one to three of them, beside a view of all windows."""
    dims, memory = data.draw(st.permutations("abcd")), data.draw(st.permutations("abcd"))
    spatial = data.draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
    size, stride = ({dim: data.draw(st.integers(1, 3)) for dim in spatial} for _ in range(2))
    x = xr.DataArray(RNG.standard_normal((3, 4, 5, 3)), dims=memory).transpose(*dims)
    every = np.lib.stride_tricks.sliding_window_view(x, list(size.values()), [dims.index(dim) for dim in spatial])
    every = every[tuple(slice(None, None, stride.get(dim, 1)) for dim in dims)]
    got = nx.pool(x, size, stride=stride)
    assert got.dims == tuple(dims)
    np.testing.assert_array_equal(got, every.max(tuple(range(-len(spatial), 0))))


@pytest.mark.parametrize(("reduction", "family", "more"), [
    ("max", "max_pool", {}), ("min", "min_pool", {}), ("sum", "sum_pool", {}), ("lp", "lp_pool", {"norm_type": 3}),
    ("mean", "avg_pool", {"count_include_pad": True, "divisor_override": 5}),
])  # fmt: skip
def test_each_reduction_is_a_function_of_the_core(reduction, family, more, monkeypatch):
    seen = []
    monkeypatch.setattr(functional, f"{family}2d", lambda x, **arguments: seen.append(arguments) or x)
    nx.pool(xr.DataArray(np.ones((8, 8)), dims=("y", "x")), {"x": 4, "y": 3}, reduction, dilation={"y": 2},
            padding={"x": (0, 1)}, ceil_mode=True, **more)
    if reduction != "lp":
        more = {**more, "nan_policy": "omit"}
    assert seen == [{"kernel_size": (3, 4), "stride": (3, 4), "padding": (0, (0, 1)), "dilation": (2, 1),
                     "ceil_mode": True, **more}]


def test_pool_is_the_cores():
    x = xr.DataArray(RNG.standard_normal((2, 3, 7, 8)), dims=("n", "c", "y", "x"))
    for windows in ({"y": 3, "x": 2}, {"x": 2, "y": 3}):
        np.testing.assert_array_equal(
            nx.pool(x, windows, "mean", stride={"x": 1}, padding={"y": (2, 0)}, dilation={"x": 2}, ceil_mode=True,
                    count_include_pad=False),
            nb.avg_pool2d(x, (3, 2), (3, 1), ((2, 0), 0), True, False, dilation=(1, 2)))
    np.testing.assert_array_equal(nx.pool(x, {"y": 3, "x": 3}, padding="same", stride=2),
                                  nb.max_pool2d(x, 3, 2, "same"))


def test_pool_takes_memory_as_it_is(monkeypatch):
    """Bands beside each other are channels last to the core, planes channels first; neither is copied."""
    seen = []
    monkeypatch.setattr(functional, "max_pool2d", lambda x, **_: seen.append(x) or nb.max_pool2d(x, 2))
    for dims in (("y", "x", "band"), ("time", "y", "x", "band"), ("time", "band", "y", "x"), ("run", "time", "y", "x"),
                 ("y", "x", "band", "run")):
        x = xr.DataArray(np.zeros([{"y": 6, "x": 4}.get(dim, 3) for dim in dims]), dims=dims)
        y = nx.pool(x, {"y": 2, "x": 2})
        assert np.shares_memory(seen[-1], x.values)
        planes = seen[-1] if dims[-1] == "x" else np.moveaxis(seen[-1], 1, -1)
        assert planes.flags.c_contiguous
        assert y.values.flags.c_contiguous


@definitions()
def test_pool_has_coordinates_at_the_centres():
    obj = field()
    same = nx.pool(obj, {"y": 3, "x": 3}, stride=1, padding="same")
    assert_identical(same.coords.to_dataset(), obj.coords.to_dataset())  # so that both align
    assert same.attrs == obj.attrs
    assert same.name == obj.name
    # Disjoint windows: as in coarsening, if steps are equal.
    disjoint = nx.pool(obj, {"x": 4}, "max")
    assert_allclose(disjoint.drop_vars("lat"), obj.coarsen(x=4).max().drop_vars("lat"))
    np.testing.assert_allclose(disjoint.lat, (obj.lat[:, 1::4].values + obj.lat[:, 2::4].values) / 2)
    # Beyond the ends in equal steps.
    wide = nx.pool(obj, {"x": 3, "band": 2}, stride=1, padding={"x": (2, 2)})
    np.testing.assert_allclose(wide.x, np.arange(-1, 9) / 4)
    day = np.timedelta64(1, "D")
    np.testing.assert_array_equal(wide.day, [DAYS[0] - day, *DAYS, DAYS[-1] + day])
    assert wide.band.values.tolist() == ["r", "g"]  # of two strings the first
    # Halfway between two: floats of integers, dates of dates, along both dimensions of a coordinate with two.
    half = nx.pool(obj, {"y": 2, "x": 2}, stride=1)
    assert half.y.values.tolist() == [5, 15, 25, 35, 45]
    assert half.y.dtype == np.float64
    assert half.day.values[0] == DAYS[0] + np.timedelta64(12, "h")
    lat = obj.lat.values
    np.testing.assert_allclose(half.lat, (lat[1:, 1:] + lat[:-1, 1:] + lat[1:, :-1] + lat[:-1, :-1]) / 4)
    dilated = nx.pool(obj, {"y": 2}, stride=3, dilation=2)
    assert dilated.y.values.tolist() == [10, 40]
    assert dilated.y.dtype == obj.y.dtype


@pytest.mark.parametrize(("coordinate", "want"), [
    (np.array([1, 2, 4], np.uint8), [0.5, 1.5, 3, 5]), (np.float32([1, 2, 4]), np.float32([0.5, 1.5, 3, 5])),
    (np.array([True, False, True]), [True, True, False, True]), (np.array(["a", 1, None], object), ["a", "a", 1, None]),
])  # fmt: skip
@definitions()
def test_coordinates_of_other_dtypes(coordinate, want):
    x = xr.DataArray(np.arange(3.0), {"c": ("x", coordinate)}, ("x",))
    got = nx.pool(x, {"x": 2}, stride=1, padding=1).c
    assert got.values.tolist() == list(want)
    assert got.dtype == (np.float64 if coordinate.dtype == np.uint8 else coordinate.dtype)
    assert nx.pool(x[:1], {"x": 2}, stride=1, padding=1).c.values.tolist() == [coordinate[0]] * 2


def test_dates_of_other_calendars():
    pytest.importorskip("cftime")
    days = xr.date_range("2000-02-28", periods=3, calendar="360_day", use_cftime=True)
    x = xr.DataArray(np.arange(3.0), {"x": days}, ("x",))
    assert_identical(nx.pool(x, {"x": 3}, stride=1, padding=1).x, x.x)
    assert_identical(nx.coarsen(x, {"x": 3}), x.coarsen(x=3).mean())
    halves = nx.pool(x, {"x": 2}, stride=1).x
    assert halves.values[1] - days[1] == (days[1] - days[0]) / 2
    assert_identical(halves, x.x.isel(x=[0, 1]).copy(data=halves.values).assign_coords(x=halves.values))


def test_pool_keeps_attributes_and_leaves_other_variables():
    obj = dataset()
    for option, expected in (("default", obj.coarsen({}).mean().attrs), (True, obj.attrs), (False, {})):
        with xr.set_options(keep_attrs=option):
            got = nx.pool(obj, {"x": 2, "y": 2})
        assert got.attrs == expected
        assert got.height.attrs == ({"units": "km"} if expected else {})
        assert got.x.attrs == ({"units": "s"} if expected else {})
        assert got.row.values.tolist() == [1, 3, 5, 7]
        assert got.sizes == {"y": 3, "x": 4, "band": 3}
    assert_identical(nx.pool(obj, {"x": 2}).name, obj.name.drop_vars("run").assign_coords(run=obj.run))


def test_wrong_pooling():
    obj = field()
    for windows in ({}, dict.fromkeys("abcd", 1)):
        with pytest.raises(ValueError, match="windows must name one to three dimensions, got"):
            nx.pool(xr.DataArray(np.ones((1,) * 4), dims=tuple("abcd")), windows)
    with pytest.raises(ValueError, match="reduction must be one of 'max', 'min', 'mean', 'sum', 'lp', got 'avg'"):
        nx.pool(obj, {"x": 2}, "avg")
    with pytest.raises(TypeError, match="norm_type must be given for the reduction 'lp'"):
        nx.pool(obj, {"x": 2}, "lp")
    with pytest.raises(ValueError, match="norm_type is for the reduction 'lp' only, got reduction='max'"):
        nx.pool(obj, {"x": 2}, norm_type=2)
    with pytest.raises(ValueError, match=r"stride names dimension 'y', which windows does not: \['x'\]"):
        nx.pool(obj, {"x": 2}, stride={"y": 2})
    with pytest.raises(TypeError, match=r"padding must be one value for all dimensions, or a dict .*, got \(1, 0\)"):
        nx.pool(obj, {"x": 2, "y": 2}, padding=(1, 0))
    with pytest.raises(ValueError, match="leaves no output") as caught:
        nx.pool(obj, {"x": 2, "y": 9})
    assert caught.value.__notes__ == ["spatial axes are the dimensions ['x', 'y']"]


@pytest.mark.parametrize("dims", ["yx", "tyx", "ryxc", "tcyx", "rtcyx", "ytrxc"])
def test_pool_keeps_chunks_of_other_dimensions(dims):
    chunks = {"r": (2, 2), "t": (2, 0, 1), "c": (1, 1), "y": (5, 4), "x": (4, 4)}
    x = xr.DataArray(RNG.standard_normal([sum(chunks[dim]) for dim in dims]), dims=tuple(dims))
    lazy = x.copy(data=x.chunk().data.rechunk(tuple(chunks[dim] for dim in dims)))
    got = nx.pool(lazy, {"x": 2, "y": 3})
    assert_identical(got.compute(scheduler="synchronous"), nx.pool(x, {"x": 2, "y": 3}))
    for dim in set(dims) & {"r", "t", "c"}:
        assert got.chunksizes[dim] == tuple(filter(None, chunks[dim]))


def test_pool_of_many_chunks_is_one_layer():
    """No axis is added, joined or moved but within a chunk."""
    pytest.importorskip("dask")
    x = xr.DataArray(np.zeros((2, 1000, 3, 1000), np.float32), dims=("t", "y", "c", "x")).chunk(t=1, y=10, x=10)
    for windows in ({"y": 2, "x": 5}, {"t": 1, "y": 2}, {"y": 5}):
        graph = nx.pool(x, windows).data.__dask_graph__()
        own = [layer for key, layer in graph.layers.items() if key not in x.data.__dask_graph__().layers]
        assert len(own) == 1
        assert not own[0].is_materialized()
