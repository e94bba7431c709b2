"""`numba_pool.xarray.coarsen` beside xarray's own, and what both functions have in common."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import numba_pool as nb
from numba_pool import reducers

xr = pytest.importorskip("xarray")

from xarray.testing import assert_identical  # noqa: E402
from xarray_objects import DAYS, assert_same, dataset, definitions, field, quiet  # noqa: E402

import numba_pool.xarray as nx  # noqa: E402


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
@definitions()
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
    got = nx.coarsen(obj, reduction=name, coord_func=coord_func, keep_attrs=keep_attrs, **cut)
    also = nx.coarsen(obj, **{**cut, "boundary": names}, reduction=f"nan{name}", skipna=True, coord_func=coord_func,
                      keep_attrs=keep_attrs)
    assert coord_func == {"band": "min"}
    assert_same(got, quiet(getattr(theirs, name), keep_attrs=keep_attrs))
    assert_same(also, got)


@given(cut=cuts().filter(lambda cut: "pad" not in cut["boundary"].values()))
@definitions()
def test_nan_that_is_not_skipped(cut):
    got = nx.coarsen(field(), reduction="max", skipna=False, coord_func={"band": "min"}, **cut)
    theirs = field().coarsen(cut["windows"], boundary=cut["boundary"], side=cut["side"], coord_func={"band": "min"})
    assert_same(got, theirs.reduce(np.max))


@pytest.mark.parametrize("name", ["sum", "min", "median", "std", "var", "count", "any", "all"])
@definitions()
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


@pytest.mark.every_dtype
@pytest.mark.parametrize("dtype", [np.int8, bool])
@definitions()
def test_means_of_integers_are_floats(dtype):
    """A third of a land-sea mask, as xarray has it. All else has the dtype that the core gives."""
    mask = xr.DataArray(np.array([[0, 1, 0, 1, 1, 0, 0]], dtype), {"x": np.arange(7)}, ("y", "x"), "mask")
    want = mask.astype(float).coarsen(x=3, boundary="pad").mean()
    for name in ("mean", "nanmean"):
        assert_identical(nx.coarsen(mask, {"x": 3}, name, boundary="short"), want)
    assert_identical(nx.pool(mask, {"x": 3}, "mean"), mask.coarsen(x=3, boundary="trim").mean())
    for name, kept in (("mean", np.float64), ("nanmean", np.float64), ("median", dtype), ("mode", dtype),
                       ("max", dtype), ("sum", np.int64)):
        assert nx.coarsen(mask, {"x": 3}, name, boundary="trim").dtype == kept


@definitions()
def test_dtypes_by_variable():
    """Of the core's rounding, and of nothing that is missing, where means are to be integers."""
    x = xr.DataArray(np.array([[0, 1, 255, 254, 7]], np.uint8), {"x": np.arange(5)}, ("y", "x"))
    options = {"windows": {"x": 2}, "boundary": "short"}
    got = nx.coarsen(x, dtype=np.uint8, **options)
    want = x.coarsen(x=2, boundary="pad").mean()
    assert_identical(got, want.copy(data=np.array([[0, 254, 7]], np.uint8)))
    assert_identical(nx.coarsen(x, **options), want)
    assert nx.coarsen(x, dtype="u1", rounding="nearest", **options).values.tolist() == [[1, 255, 7]]
    assert nx.coarsen(x, dtype="u1", min_count=2, missing=9, **options).values.tolist() == [[0, 254, 9]]
    np.testing.assert_array_equal(nx.coarsen(x, min_count=2, missing=9, **options), [[0.5, 254.5, np.nan]])
    assert nx.coarsen(x, {"x": 5}, "max", missing=255).item() == 254
    every = xr.Dataset({"one": x, "two": x, "three": x.astype("float32"), "other": ("z", [7])})
    got = nx.coarsen(every, dtype={"one": np.int16, "three": "float64"}, **options)
    assert {name: v.dtype.name for name, v in got.items()} == {
        "one": "int16", "two": "float64", "three": "float64", "other": "int64"}
    assert got.one.values.tolist() == [[0, 254, 7]]
    assert got.two.values.tolist() == [[0.5, 254.5, 7]]
    for wrong in ("four", "other"):
        with pytest.raises(ValueError, match=r"^dtype must name variables of obj that are coarsened, which are "
                                             rf"\['one', 'two', 'three'\], got '{wrong}'$"):
            nx.coarsen(every, dtype={wrong: int}, **options)
    with pytest.raises(TypeError, match=r"^dtype must be one dtype for a DataArray, got \{'one': 'i2'\}: a dict is"):
        nx.coarsen(x, dtype={"one": "i2"}, **options)


@definitions()
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


@pytest.mark.parametrize("wrap", [lambda obj: obj, lambda obj: obj.chunk(x=4)], ids=["numpy", "dask"])
def test_weights_are_alike_for_variables_without_their_dimensions(wrap):
    """As for xarray's own weighted means."""
    obj = wrap(dataset().drop_vars("name"))
    weights = np.cos(obj.y / 100)
    got = nx.coarsen(obj, {"y": 6, "x": 8}, weights=weights).compute()
    want = obj.weighted(weights).mean(("y", "x")).compute()
    np.testing.assert_allclose(got.height[0, 0], want.height)
    np.testing.assert_allclose(got.row[0], want.row)
    counts = obj.assign(row=obj.row.astype(np.uint8))
    assert nx.coarsen(counts, {"y": 2, "x": 2}, weights=weights).row.dtype == np.float64


def test_weights_and_where_have_to_fit():
    obj = dataset()
    with pytest.raises(ValueError, match="weights must have the coordinates of obj: "):
        nx.coarsen(obj.height, {"x": 2}, weights=obj.x.assign_coords(x=obj.x + 1))
    with pytest.raises(ValueError, match="where must have the coordinates of obj: "):
        nx.coarsen(obj.height, {"x": 2}, where=obj.x[1:] > 0)
    for other in (obj.x.assign_coords(x=obj.x + 1), obj.lat.assign_coords(x=obj.x + 1)):
        with pytest.raises(ValueError, match=r"; or drop them: weights\.drop_vars\('x'\)$"):
            nx.coarsen(obj.height, {"x": 2}, weights=other)
    with pytest.raises(ValueError, match="where must have the coordinates of obj: ") as caught:
        nx.coarsen(obj.height, {"x": 2}, where=obj.x[1:] > 0)
    assert "drop" not in str(caught.value)
    for one in (obj, obj.row):
        with pytest.raises(ValueError, match=r"weights must have no dimensions but those of obj, .* got \('z',\)"):
            nx.coarsen(one, {"x": 2}, weights=xr.DataArray(np.ones(3), dims="z"))
    for name, other, lacking in (("weights", obj.lat, "'y'"), ("where", obj.y > 0, "'y'"),
                                 ("where", obj.height > 0, "'y', 'band'")):
        with pytest.raises(ValueError, match=rf"^{name} must have no .*; variable 'row' has no {lacking}: coarsen "
                                             r"it by itself, or obj\.drop_vars\('row'\)\n"):
            nx.coarsen(obj, {"x": 2}, **{name: other})
    with pytest.raises(TypeError, match="where must be a DataArray or an array, got a Dataset"):
        nx.coarsen(obj.height, {"x": 2}, where=obj[["height"]] > 0)
    with pytest.raises(ValueError, match=r"weights must broadcast against x of shape \(6, 8, 3\)"):
        nx.coarsen(obj.height, {"x": 2}, weights=np.ones(7))


@pytest.mark.parametrize(("keyword", "way"), [
    ("nan_policy", ": pass skipna=True or skipna=False"),
    ("out", ": results are new"),
    ("skip", ""),
])  # fmt: skip
def test_keywords_that_are_missing(keyword, way):
    with pytest.raises(TypeError) as caught:
        nx.coarsen(field(), {"x": 2}, **{keyword: "omit"})
    assert str(caught.value) == f"coarsen() got an unexpected keyword argument {keyword!r}{way}"


@pytest.mark.parametrize("function", [nx.coarsen, nx.pool])
def test_dimensions_as_keywords_are_shown_the_way(function):
    """xarray's own methods take them."""
    for obj in (field(), dataset()):
        for keywords in ({"x": 3}, {"skip": 1, "y": 2, "x": 3}):
            with pytest.raises(TypeError) as caught:
                function(obj, **keywords)
            dims = {name: n for name, n in keywords.items() if name != "skip"}
            assert str(caught.value) == (f"{function.__name__}() got an unexpected keyword argument "
                                         f"{next(iter(dims))!r}: pass {dims} as windows")
        with pytest.raises(TypeError, match=r"an unexpected keyword argument 'dim': pass windows$"):
            function(obj, dim={"x": 3})
        with pytest.raises(TypeError, match="windows must be a dict of dimension: int, got None"):
            function(obj)


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


@pytest.mark.parametrize("function", [nx.coarsen, nx.pool])
def test_arrays_of_others_are_refused(function):
    """Which NumPy would convert, and lose their units or their device."""
    class Quantity:
        shape, ndim, dtype = (4,), 1, np.dtype(float)

        def __array_function__(self, *args):
            raise AssertionError("computed")

        __array_ufunc__ = __array__ = __array_function__

    obj = xr.Dataset({"one": ("x", np.ones(4)), "two": ("x", Quantity())})
    with pytest.raises(TypeError, match=r"obj must hold arrays of NumPy or dask, got test_xarray\.Quantity") as caught:
        function(obj, {"x": 2})
    assert caught.value.__notes__ == ["in variable 'two'"]


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


# ---- dask, and what the docs say

def chunked(obj):
    return obj.chunk({"y": 4, "x": 3})


@pytest.mark.parametrize("call", [
    lambda obj, where: nx.coarsen(obj, {"x": 3}, boundary="short", side={"x": "right"}),
    lambda obj, where: nx.coarsen(obj, {"x": 3}, weights=np.cos(obj.x), boundary="trim"),
    lambda obj, where: nx.coarsen(obj, {"x": 2}, where=where),
    lambda obj, where: nx.pool(obj, {"y": 3, "x": 3}, stride={"x": 2}, padding=1),
    lambda obj, where: nx.pool(obj, {"x": 2}, "mean"),
], ids=["blocks", "weights", "where", "windows", "averages"])  # fmt: skip
def test_dask_stays_lazy(call):
    obj = dataset().drop_vars("lat")
    where = obj.x > 0.6
    want = call(obj, where)
    for got in (call(chunked(obj), where), call(chunked(obj), where.chunk(x=2))):
        assert got.height.chunks
        assert got.row.chunks
        assert_same(got.compute(scheduler="synchronous"), want)
        assert_same(pickle.loads(pickle.dumps(got)).compute(scheduler="synchronous"), want)


def test_dtypes_of_dask():
    """Those that arrays of NumPy have."""
    mask = xr.DataArray(np.array([[0, 1, 0, 1, 1, 0, 0]], np.int8), {"x": np.arange(7)}, ("y", "x"))
    both = xr.Dataset({"one": mask, "two": mask}).chunk(x=4)
    want = mask.coarsen(x=3, boundary="trim").mean().rename("one")
    got = nx.coarsen(both, {"x": 3}, boundary="trim", dtype={"two": np.int8})
    assert (got.one.dtype, got.two.dtype) == (np.float64, np.int8)
    assert_identical(got.one.compute(scheduler="synchronous"), want)
    assert_identical(nx.pool(both.one, {"x": 3}, "mean").compute(scheduler="synchronous"), want)
    for name, dtype in (("median", np.int8), ("max", np.int8), ("sum", np.int64), ("nanmean", np.float64)):
        assert nx.coarsen(both.one, {"x": 3}, name, boundary="trim").dtype == dtype


def test_a_mask_of_dask_makes_results_lazy():
    obj = field()
    mask = (obj.lat > 0).chunk(x=3)
    for where in (mask, mask.data[..., np.newaxis]):
        got = nx.coarsen(obj, {"x": 2}, where=where)
        assert got.chunks
        assert_same(got.compute(), nx.coarsen(obj, {"x": 2}, where=obj.lat > 0))


@pytest.mark.parametrize("make", [field, dataset])
@pytest.mark.parametrize("wrap", [lambda obj: obj, chunked], ids=["numpy", "dask"])
def test_one_line_beside(make, wrap):
    obj = make().drop_vars("lat")  # a coordinate that is dask's is added up in another order
    assert_same(wrap(obj).coarsen(y=2, x=2).reduce(reducers.nanmean).compute(), quiet(obj.coarsen(y=2, x=2).mean))


@pytest.mark.parametrize("wrap", [lambda obj: obj, lambda obj: obj.load()], ids=["dask", "numpy"])
def test_from_zarr_to_zarr(wrap, tmp_path):
    """Whose chunks and dtypes an object remembers: as the page on coarsening says, they are to be dropped."""
    pytest.importorskip("zarr")
    mask = xr.DataArray(np.arange(120, dtype=np.int8).reshape(10, 12) % 5, dims=("y", "x")).to_dataset(name="mask")
    mask.chunk(y=4, x=6).to_zarr(tmp_path / "in", consolidated=False)
    opened = wrap(xr.open_zarr(tmp_path / "in", consolidated=False))
    want = mask.coarsen(y=2, x=3).mean()
    for number, coarse in enumerate((nx.coarsen(opened, {"y": 2, "x": 3}), nx.pool(opened, {"y": 2, "x": 3}, "mean"))):
        path = tmp_path / f"out{number}"
        coarse.drop_encoding().to_zarr(path, consolidated=False)
        xr.testing.assert_equal(xr.open_zarr(path, consolidated=False), want)
    odd = nx.coarsen(opened, {"y": 3}, boundary="trim")
    odd.drop_encoding().chunk({"y": 2}).to_zarr(tmp_path / "odd", consolidated=False)
    assert xr.open_zarr(tmp_path / "odd", consolidated=False).sizes["y"] == 3


def test_functions_pickle():
    for function in (nx.coarsen, nx.pool):
        assert pickle.loads(pickle.dumps(function)) is function
        assert function.__doc__


def test_the_core_shows_the_way():
    obj = field()
    with pytest.raises(TypeError, match=r"an axis of windows must be an int, got 'x': numba_pool\.xarray has "
                                        "functions that take the names of dimensions"):
        nb.coarsen(obj, {"x": 2})
    for call in (lambda: nb.coarsen(dataset(), {0: 2}), lambda: nb.max_pool2d(dataset(), 2)):
        with pytest.raises(TypeError, match=r"got Dataset \(.*\): numba_pool\.xarray has the functions that take it"):
            call()
