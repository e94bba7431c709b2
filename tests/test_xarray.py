"""`numba_pool.xarray` beside xarray's own coarsening, and pooling by names beside the core's."""

import pickle
import subprocess
import sys
import warnings
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from unittest.mock import patch

import blocks_reference
import numpy as np
import pytest
import reference
import selection
from hypothesis import given
from hypothesis import strategies as st

import numba_pool as nb
from numba_pool import blocks, functional, reducers

xr = pytest.importorskip("xarray")

from xarray.testing import assert_allclose, assert_identical  # noqa: E402

import numba_pool.xarray as nx  # noqa: E402

RNG = np.random.default_rng(0)
DAYS = np.datetime64("2000-01-01", "ns") + np.arange(8) * np.timedelta64(1, "D")
DASK = pytest.mark.skipif(find_spec("numba_pool.dask") is None, reason="numba_pool.dask is missing")


def field():
    """A DataArray with coordinates of all kinds, names and attributes."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((6, 8, 3))
    x[rng.random(x.shape) < 0.3] = np.nan
    coords = {"y": ("y", np.arange(6) * 10, {"units": "m"}), "x": ("x", np.arange(8) / 4, {"units": "s"}),
              "band": ["r", "g", "b"], "day": ("x", DAYS), "run": ((), 7, {"of": "three"}),
              "lat": (("y", "x"), rng.standard_normal((6, 8)), {"units": "degrees"})}
    array = xr.DataArray(x, coords, ("y", "x", "band"), "height", {"units": "km"})
    array.encoding = {"scale_factor": 2}
    array.x.encoding = {"dtype": "int16"}
    return array


def dataset():
    """The same, and variables with one of the dimensions and with none."""
    row = ("x", np.arange(8.0), {"row": 1})
    name = ("band", list("abc"), {"name": 1})
    return xr.Dataset({"height": field(), "row": row, "name": name}, attrs={"made": "here"})


def assert_same(got, want):
    """All but what order of additions makes of data: names, dimensions, coordinates, attributes, encodings."""
    assert_allclose(got, want)
    assert dict(got.sizes) == dict(want.sizes)
    if isinstance(got, xr.Dataset):
        assert list(got.data_vars) == list(want.data_vars)
        pairs = [(got.variables[name], want.variables[name]) for name in want.variables]
        assert_identical(got.assign({name: want.variables[name] for name in want.data_vars}), want)
    else:
        pairs = [(a.variable, b.variable) for a, b in [(got, want), *((got[c], want[c]) for c in want.coords)]]
        assert_identical(got.copy(data=want.data), want)
    for one, other in pairs:
        assert one.dtype == other.dtype
        assert one.attrs == other.attrs
        assert one.encoding == other.encoding
    assert got.encoding == want.encoding


@contextmanager
def definitions():
    """The reference in place of the core, which compiles for every shape of windows; unless all is tested."""
    def max_pool(x, rank, **windows):
        return reference.max_pool(x, rank=rank, **windows)[0]

    with ExitStack() as stack:
        if not selection.exhaustive:
            stack.enter_context(patch.object(blocks, "coarsen", blocks_reference.coarsen))
            for rank in (1, 2, 3):
                stack.enter_context(patch.object(functional, f"max_pool{rank}d", partial(max_pool, rank=rank)))
        yield


def quiet(function, *args, **kwargs):
    """Without NumPy's warnings of means of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return function(*args, **kwargs)


@st.composite
def cuts(draw):
    dims = draw(st.lists(st.sampled_from(["y", "x", "band"]), min_size=1, max_size=3, unique=True))
    sizes = {"y": 6, "x": 8, "band": 3}
    windows, boundary, side = {}, {}, {}
    for dim in dims:
        windows[dim] = draw(st.integers(1, 4))
        words = ["trim", "pad"] if sizes[dim] >= windows[dim] else ["pad"]
        boundary[dim] = draw(st.sampled_from(words + ["exact"] * (sizes[dim] % windows[dim] == 0)))
        side[dim] = draw(st.sampled_from(["left", "right"]))
    return {"windows": windows, "boundary": boundary, "side": side}


@pytest.mark.parametrize("make", [field, dataset])
@given(cut=cuts(), name=st.sampled_from(["mean", "max"]), keep_attrs=st.sampled_from([None, True, False]))
def test_coarsen_is_xarrays(make, cut, name, keep_attrs):
    """NaN is skipped; blocks at the ends, in each dimension another way, with coordinates of all kinds."""
    obj, coord_func = make(), {"band": "min"}
    theirs = obj.coarsen(cut["windows"], boundary=cut["boundary"], side=cut["side"], coord_func=dict(coord_func))
    if "name" in obj and "band" in cut["windows"]:
        with pytest.raises(TypeError, match=r"variable 'name' of obj must be of floats, .*, got <U1: drop it by "
                                            r"obj.drop_vars\('name'\), or .* by obj.set_coords\('name'\)"):
            nx.coarsen(obj, reduction=name, coord_func=coord_func, **cut)
        return
    names = {dim: word.replace("pad", "short") for dim, word in cut["boundary"].items()}
    with definitions():
        got = nx.coarsen(obj, reduction=name, coord_func=coord_func, keep_attrs=keep_attrs, **cut)
        also = nx.coarsen(obj, **{**cut, "boundary": names}, reduction=f"nan{name}", skipna=True, coord_func=coord_func,
                          keep_attrs=keep_attrs)
    assert coord_func == {"band": "min"}
    assert_same(got, quiet(getattr(theirs, name), keep_attrs=keep_attrs))
    assert_same(also, got)


@given(cut=cuts().filter(lambda cut: "pad" not in cut["boundary"].values()))
def test_nan_that_is_not_skipped(cut):
    with definitions():
        got = nx.coarsen(field(), reduction="max", skipna=False, coord_func={"band": "min"}, **cut)
    theirs = field().coarsen(cut["windows"], boundary=cut["boundary"], side=cut["side"], coord_func={"band": "min"})
    assert_same(got, theirs.reduce(np.max))


@pytest.mark.parametrize("name", ["sum", "min", "median", "std", "var", "count", "any", "all"])
def test_other_reductions_are_xarrays(name):
    obj = dataset()[["height", "row"]]
    obj["row"][:2] = 0
    obj["row"][2:4] = [0, np.nan]
    theirs = obj.coarsen(x=2, y=3)
    assert_same(nx.coarsen(obj, {"x": 2, "y": 3}, name), quiet(getattr(theirs, name)))


def test_skipna_and_names_that_skip():
    row = xr.DataArray([0.0, np.nan, 2.0, 3.0], dims="x")

    def values(reduction, skipna=None):
        return nx.coarsen(row, {"x": 2}, reduction, skipna=skipna).values.tolist()

    assert values("mean") == values("nanmean") == values("mean", True) == values("nanmean", True) == [0, 2.5]
    np.testing.assert_array_equal(values("mean", False), [np.nan, 2.5])
    assert values("any") == [True, True]  # NaN is true, as in xarray
    assert values("any", True) == values("nanany") == [False, True]
    with pytest.raises(ValueError, match=r"skipna must not be False for reduction='nanmean', .* pass 'mean'"):
        values("nanmean", False)
    with pytest.raises(TypeError, match="skipna must be True, False or None, got 'yes'"):
        values("mean", "yes")


@pytest.mark.parametrize("option", ["default", True, False])
def test_attributes_as_the_option_says(option):
    with xr.set_options(keep_attrs=option):
        for obj in (field(), dataset(), field().x, field().lat, dataset().row):
            assert_same(nx.coarsen(obj, {"x": 2}), quiet(obj.coarsen(x=2).mean))


def test_objects_whose_names_are_those_of_coordinates_or_none():
    obj = field()
    assert_same(nx.coarsen(obj.x, {"x": 2}, "max"), obj.x.coarsen(x=2).max())
    assert_same(nx.coarsen(obj.rename(None), {"x": 2}), obj.rename(None).coarsen(x=2).mean())
    bare = xr.DataArray(np.arange(12.0).reshape(3, 4), dims=("a", "b"))
    assert_same(nx.coarsen(bare, {"b": 2}), bare.coarsen(b=2).mean())
    assert_same(nx.coarsen(bare, {}), bare.coarsen({}).mean())


def test_integers_stay_integers():
    x = xr.DataArray(np.array([[0, 1, 255, 254, 7]], np.uint8), {"x": np.arange(5)}, ("y", "x"))
    got = nx.coarsen(x, {"x": 2}, boundary="short")
    want = x.coarsen(x=2, boundary="pad").mean()
    assert_identical(got, want.copy(data=np.array([[0, 254, 7]], np.uint8)))
    assert nx.coarsen(x, {"x": 2}, boundary="short", rounding="nearest").values.tolist() == [[1, 255, 7]]
    assert_identical(nx.coarsen(x, {"x": 2}, boundary="short", dtype=float), want)
    assert nx.coarsen(x, {"x": 5}, "max", missing=255).item() == 254
    assert nx.coarsen(x, {"x": 2}, boundary="short", min_count=2, missing=9).values.tolist() == [[0, 254, 9]]


def test_categories_with_a_fill_value():
    """xarray decodes them to floats with NaN, of which the mode is the most frequent number."""
    raw = xr.Dataset({"land": (("y", "x"), np.array([[3, -1, -1, -1], [5, 5, -1, -1]], np.int8), {"_FillValue": -1})})
    land = xr.decode_cf(raw).land
    assert land.dtype == np.float32
    np.testing.assert_array_equal(nx.coarsen(land, {"y": 2, "x": 2}, "mode"), [[5, np.nan]])
    np.testing.assert_array_equal(nx.coarsen(land, {"x": 2}, "mode", ignore=5), [[3, np.nan], [5, np.nan]])
    assert np.isnan(nx.coarsen(land, {"y": 2, "x": 2}, "mode", skipna=False)[0, 1])


def test_coordinates_of_dates_and_strings_by_coord_func():
    obj = field()
    for function in ("max", {"band": "max", "day": "min"}, {"band": lambda a, axis: a[:, 0]}):
        assert_same(nx.coarsen(obj, {"x": 4, "band": 3}, "max", coord_func=function),
                    quiet(obj.coarsen(x=4, band=3, coord_func=function).max))
    with pytest.raises(TypeError) as caught:
        nx.coarsen(obj, {"band": 3})
    assert caught.value.__notes__ == ["coord_func has to name a reduction for each of the coordinates {'band': '<U1'}, "
                                      "such as coord_func={'band': 'min'}"]
    with pytest.raises(ValueError, match=r"coord_func must name coordinates of obj, which are \['y', .*, got 'dya'"):
        nx.coarsen(obj, {"x": 4}, coord_func={"dya": "min"})


def test_weights_and_where_by_dimensions():
    obj = field().transpose("band", "y", "x")
    weights, where = np.cos(obj.y / 100), (obj.lat > 0).transpose("x", "y")
    for weight, mask in ((weights, where), (weights.values[:, np.newaxis], where.values.T)):
        got = nx.coarsen(obj, {"y": 2, "x": 4}, weights=weight, where=mask, min_count=2)
        want = nb.coarsen(obj.values, {1: 2, 2: 4}, "nanmean", weights=weights.values[:, np.newaxis],
                          where=where.values.T, min_count=2)
        np.testing.assert_array_equal(got, want)
    assert_identical(nx.coarsen(obj, {"x": 4}, "max", where=where.drop_vars(["x", "y"])),
                     nx.coarsen(obj, {"x": 4}, "max", where=where))


def test_weights_and_where_have_to_fit():
    obj = dataset()
    with pytest.raises(ValueError, match="weights must have the coordinates of obj: "):
        nx.coarsen(obj.height, {"x": 2}, weights=obj.x.assign_coords(x=obj.x + 1))
    with pytest.raises(ValueError, match="where must have the coordinates of obj: "):
        nx.coarsen(obj.height, {"x": 2}, where=obj.x[1:] > 0)
    with pytest.raises(ValueError, match=r"weights must have no dimensions but those of each variable that is "
                                         r"coarsened, which here are \('x',\), got \('y',\)") as caught:
        nx.coarsen(obj, {"x": 2}, weights=obj.y)
    assert caught.value.__notes__ == ["in variable 'row'"]
    with pytest.raises(TypeError, match="where must be a DataArray or an array, got a Dataset"):
        nx.coarsen(obj.height, {"x": 2}, where=obj[["height"]] > 0)
    with pytest.raises(ValueError, match=r"weights must broadcast against x of shape \(6, 8, 3\)"):
        nx.coarsen(obj.height, {"x": 2}, weights=np.ones(7))


@pytest.mark.parametrize("function", [nx.coarsen, nx.pool])
def test_what_is_asked_for_wrongly(function):
    obj = field()
    for wrong in (obj.values, [1, 2], None):
        with pytest.raises(TypeError, match=rf"obj must be a DataArray or a Dataset of xarray, got "
                                            rf"{type(wrong).__name__}: for arrays there are numba_pool.coarsen"):
            function(wrong, {"x": 2})
    with pytest.raises(ValueError, match=r"windows must name dimensions of obj, .* \('y', 'x', 'band'\), got 'z'"):
        function(obj, {"z": 2})
    with pytest.raises(TypeError, match="windows must be a dict of dimension: int, got 2"):
        function(obj, 2)
    with pytest.raises(TypeError, match=r"windows must be a dict of dimension: int, got 2\.5 of type float"):
        function(obj, {"x": 2.5})
    with pytest.raises(ValueError, match="windows must be at least 1, got 0"):
        function(obj, {"x": 0})
    for odd, dtype in ((DAYS, "datetime64"), (np.ones(8, complex), "complex128"), (np.array(["a"] * 8), "<U1")):
        with pytest.raises(TypeError, match=f"^obj must be of floats, integers or bools, got {dtype}[^:]*$"):
            function(xr.DataArray(odd, dims="x"), {"x": 2})
        with pytest.raises(TypeError, match=rf"variable 'v' of obj must be .*, got {dtype}.*: drop it by obj"):
            function(xr.Dataset({"u": ("x", np.ones(8)), "v": ("x", odd)}), {"x": 2})
    levels = xr.DataArray(np.ones((2, 4)), {"a": [0, 1], "b": [0, 1, 2, 3]}, ("a", "b")).stack(z=("a", "b"))
    with pytest.raises(ValueError, match=r"dimension 'z' must have no index of .*: pass obj.reset_index\('z'\)"):
        function(levels, {"z": 2})


def test_wrong_blocks():
    obj = field()
    with pytest.raises(ValueError, match=r"windows must divide the sizes of obj if boundary is 'exact'; 3 does not "
                                         r"divide 8, the size of 'x': pass boundary='trim' or 'short'"):
        nx.coarsen(obj, {"y": 2, "x": 3})
    with pytest.raises(ValueError, match=r"no longer than the dimensions of obj .* 'trim', got 9 for 'x' of size 8"):
        nx.coarsen(obj, {"x": 9}, boundary={"x": "trim"})
    with pytest.raises(ValueError, match="boundary must be one of 'exact', 'trim', 'short', got 'wrap'"):
        nx.coarsen(obj, {"x": 2}, boundary="wrap")
    with pytest.raises(ValueError, match=r"side names dimension 'y', which windows does not: \['x'\]"):
        nx.coarsen(obj, {"x": 2}, side={"y": "left"})
    with pytest.raises(ValueError, match="reduction must be one of 'mean'") as caught:
        nx.coarsen(dataset(), {"x": 2}, "average")
    assert caught.value.__notes__ == ["in variable 'height'"]


def test_dimensions_that_stay():
    """An index of several coordinates, and variables of any dtype, along another dimension."""
    obj = xr.DataArray(np.ones((2, 4, 6)), {"a": [0, 1], "b": [0, 1, 2, 3]}, ("a", "b", "x")).stack(z=("a", "b"))
    obj = obj.to_dataset(name="one").assign(when=("z", DAYS))
    assert_same(nx.coarsen(obj, {"x": 3}), obj.coarsen(x=3).mean())
    assert_identical(nx.pool(obj, {"x": 3}, "mean"), obj.coarsen(x=3).mean())
    assert_identical(nx.coarsen(obj.one, {"x": 3}), obj.one.coarsen(x=3).mean())


# ---- pooling

@given(data=st.data())
def test_pool_along_any_dimensions(data):
    """Dimensions in any order, windows along one to three of them, beside a view of all windows."""
    dims, memory = data.draw(st.permutations("abcd")), data.draw(st.permutations("abcd"))
    spatial = data.draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
    size, stride = ({dim: data.draw(st.integers(1, 3)) for dim in spatial} for _ in range(2))
    x = xr.DataArray(RNG.standard_normal((3, 4, 5, 3)), dims=memory).transpose(*dims)
    every = np.lib.stride_tricks.sliding_window_view(x, list(size.values()), [dims.index(dim) for dim in spatial])
    every = every[tuple(slice(None, None, stride.get(dim, 1)) for dim in dims)]
    with definitions():
        got = nx.pool(x, size, stride=stride)
    assert got.dims == tuple(dims)
    np.testing.assert_array_equal(got, every.max(tuple(range(-len(spatial), 0))))


@pytest.mark.parametrize(("reduction", "family", "more"), [
    ("max", "max_pool", {}), ("min", "min_pool", {}), ("sum", "sum_pool", {}), ("lp", "lp_pool", {"norm_type": 3}),
    ("mean", "avg_pool", {"count_include_pad": False, "divisor_override": 5}),
])  # fmt: skip
def test_each_reduction_is_a_function_of_the_core(reduction, family, more, monkeypatch):
    seen = []
    monkeypatch.setattr(functional, f"{family}2d", lambda x, **arguments: seen.append(arguments) or x)
    nx.pool(xr.DataArray(np.ones((8, 8)), dims=("y", "x")), {"x": 4, "y": 3}, reduction, dilation={"y": 2},
            padding={"x": (0, 1)}, ceil_mode=True, **more)
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
    means = nx.pool(x, {"x": 3}, "mean", stride=1, padding="same")
    assert_allclose(means.isel(x=slice(1, -1)), x.rolling(x=3, center=True).mean().isel(x=slice(1, -1)))


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


def test_pool_has_coordinates_at_the_centres():
    obj = field()
    same = nx.pool(obj, {"y": 3, "x": 3}, stride=1, padding="same")
    assert_identical(same.coords.to_dataset(), obj.coords.to_dataset())  # so that both align
    assert same.attrs == obj.attrs
    assert same.name == obj.name
    # Disjoint windows: as in coarsening, if steps are equal.
    blocks = nx.pool(obj, {"x": 4}, "mean")
    assert_allclose(blocks.drop_vars("lat"), obj.coarsen(x=4).reduce(np.mean).drop_vars("lat"))
    np.testing.assert_allclose(blocks.lat, (obj.lat[:, 1::4].values + obj.lat[:, 2::4].values) / 2)
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


# ---- dask, and what the docs say

def chunked(obj):
    return obj.chunk({"y": 4, "x": 3})


@DASK
@pytest.mark.parametrize("make", [field, dataset])
@pytest.mark.parametrize("call", [
    lambda obj, where: nx.coarsen(obj, {"x": 3, "y": 2}, boundary="short", side={"x": "right"}),
    lambda obj, where: nx.coarsen(obj, {"x": 3}, weights=np.cos(obj.x), boundary="trim"),
    lambda obj, where: nx.coarsen(obj, {"x": 4}, where=where),
    lambda obj, where: nx.coarsen(obj, {"x": 4}, where=where.values),
    lambda obj, where: nx.pool(obj, {"y": 3, "x": 3}, stride={"x": 2}, padding=1),
    lambda obj, where: nx.pool(obj, {"x": 2}, "mean"),
], ids=["blocks", "weights", "where", "array", "windows", "averages"])  # fmt: skip
def test_dask_stays_lazy(make, call):
    obj = make().drop_vars("lat")
    where = obj.x > 0.6
    want = call(obj, where)
    for got in (call(chunked(obj), where), call(chunked(obj), where.chunk(x=2))):
        for array in got.data_vars.values() if isinstance(got, xr.Dataset) else [got]:
            assert array.chunks or "x" not in array.dims
        assert_same(got.compute(scheduler="synchronous"), want)
        assert_same(pickle.loads(pickle.dumps(got)).compute(scheduler="synchronous"), want)


@DASK
def test_a_mask_of_dask_makes_results_lazy():
    obj = field()
    got = nx.coarsen(obj, {"x": 4}, where=(obj.lat > 0).chunk(x=2))
    assert got.chunks
    assert_same(got.compute(), nx.coarsen(obj, {"x": 4}, where=obj.lat > 0))


@pytest.mark.parametrize("make", [field, dataset])
@pytest.mark.parametrize("wrap", [lambda obj: obj, chunked], ids=["numpy", "dask"])
def test_one_line_beside(make, wrap):
    obj = make().drop_vars("lat")  # a coordinate that is dask's is added up in another order
    assert_same(wrap(obj).coarsen(y=2, x=2).reduce(reducers.nanmean).compute(), quiet(obj.coarsen(y=2, x=2).mean))


def test_functions_pickle():
    for function in (nx.coarsen, nx.pool):
        assert pickle.loads(pickle.dumps(function)) is function
        assert function.__doc__


def test_without_xarray():
    code = ("import sys; sys.modules['xarray'] = None\nimport numba_pool\n"
            "try:\n    import numba_pool.xarray\nexcept ImportError as error:\n    print(error)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.startswith("numba_pool.xarray needs xarray: pip install 'numba_pool[xarray]' (")


def test_the_core_shows_the_way():
    obj = field()
    with pytest.raises(TypeError, match=r"an axis of windows must be an int, got 'x': numba_pool\.xarray has "
                                        "functions that take the names of dimensions"):
        nb.coarsen(obj, {"x": 2})
    for call in (lambda: nb.coarsen(dataset(), {0: 2}), lambda: nb.max_pool2d(dataset(), 2)):
        with pytest.raises(TypeError, match=r"got Dataset \(.*\): numba_pool\.xarray has the functions that take it"):
            call()
