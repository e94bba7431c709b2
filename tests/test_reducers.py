"""`numba_pool.reducers`: functions of an array and axes, as dask's and xarray's coarsening calls them."""

import pickle
import warnings

import dask.array as da
import numpy as np
import pytest
import selection

import numba_pool as nb
from numba_pool import reducers
from numba_pool.blocks import plan

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 2, 8, 2)).astype(np.float32)  # blocks of four elements, which compile fast
X[RNG.random(X.shape) < 0.1] = np.nan

NUMPYS = ["mean", "sum", "max", "min", "median", "std", "var", "any", "all"]


@pytest.mark.parametrize("name", NUMPYS + [f"nan{name}" for name in NUMPYS if name not in ("any", "all")])
def test_numpy_names(name):
    every = selection.exhaustive or name in ("mean", "nanmax")  # a walk is compiled for each shape of blocks
    for axis in ((1, 3), (0, 2), 1, -1, None, (0, 1, 2, 3)) if every else ((1, 3),):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = getattr(np, name)(X, axis=axis)
        got = getattr(reducers, name)(X, axis=axis)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted({*reducers.__all__} - {*NUMPYS, *(f"nan{name}" for name in NUMPYS)})
                         + ["nanany", "nanall"])
def test_other_names(name):
    x = np.array([[1.0, np.nan], [4.0, 8.0]])
    np.testing.assert_array_equal(getattr(reducers, name)(x, axis=0), nb.coarsen(x, {0: 2}, name)[0])


def test_keywords_and_others():
    labels = RNG.integers(0, 3, (4, 6))
    view = labels.reshape(2, 2, 3, 2)
    np.testing.assert_array_equal(reducers.mode(view, axis=(1, 3), ties="lowest"),
                                  nb.coarsen(labels, 2, "mode", ties="lowest"))
    np.testing.assert_array_equal(reducers.first(view, axis=(1, 3)), labels[::2, ::2])
    np.testing.assert_array_equal(reducers.count(view, axis=(1, 3), missing=0),
                                  nb.coarsen(labels, 2, "count", missing=0))
    assert reducers.nancount(X) == np.isfinite(X).sum()
    assert reducers.mean([[1, 2], [3, 6]], axis=1).tolist() == [2, 4]
    with pytest.raises(ValueError, match="axis must have each axis once"):
        reducers.mean(X, axis=(0, -4))
    with pytest.raises(TypeError, match="unknown keywords keepdims; those of"):
        reducers.mean(X, keepdims=True)
    with pytest.raises(ValueError, match="axis must have axes in"):
        reducers.mean(X, axis=4)


def test_no_copy_of_a_view(monkeypatch):
    """The blocks of dask and xarray are a reshaped view, whose memory a walk takes as it is."""
    monkeypatch.setattr(plan, "pieces", None)
    x = RNG.standard_normal((64, 96))
    np.testing.assert_allclose(reducers.mean(x.reshape(32, 2, 24, 4), axis=(1, 3)), nb.coarsen(x, {0: 2, 1: 4}))
    rows = x[::2, :48]
    np.testing.assert_allclose(reducers.max(rows.reshape(8, 4, 16, 3), axis=(1, 3)),
                               nb.coarsen(rows, {0: 4, 1: 3}, "max"))
    colours = np.ascontiguousarray(RNG.integers(0, 255, (8, 6, 3)), np.uint8)
    assert nb.coarsen(colours, {0: 2, 1: 2}).shape == (4, 3, 3)
    assert nb.coarsen(colours, {0: 2, 1: 2}, "median").shape == (4, 3, 3)


def test_dask_coarsen():
    x = RNG.standard_normal((20, 30))
    x[x > 1] = np.nan
    lazy = da.coarsen(reducers.nanmean, da.from_array(x, chunks=(10, 10)), {0: 2, 1: 5})
    assert lazy.dtype == x.dtype
    np.testing.assert_allclose(lazy.compute(), nb.coarsen(x, {0: 2, 1: 5}, "nanmean"))
    # What xarray hands over for arrays of dask: the view, still lazy.
    view = da.from_array(x, chunks=(7, 30)).reshape(10, 2, 6, 5)
    got = reducers.nanmax(view, axis=(1, 3))
    assert isinstance(got, da.Array)
    np.testing.assert_array_equal(got.compute(), nb.coarsen(x, {0: 2, 1: 5}, "nanmax"))


def test_they_pickle_by_name():
    for name in reducers.__all__:
        reducer = getattr(reducers, name)
        assert pickle.loads(pickle.dumps(reducer)) is reducer
        assert reducer.__name__ == name
        assert reducer.__doc__
