"""What the tests of `numba_pool.xarray` coarsen and pool, and how they compare."""

import warnings
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from unittest.mock import patch

import blocks_reference
import missing_reference
import numpy as np
import reference
import selection
import xarray as xr
from xarray.testing import assert_allclose, assert_identical

from numba_pool import blocks, functional

DAYS = np.datetime64("2000-01-01", "ns") + np.arange(8) * np.timedelta64(1, "D")


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
    def pool(name, rank, x, *, nan_policy="propagate", count_include_pad=True, min_count=None, **windows):
        axes = reference.sliding(x.shape[-rank:], **windows)
        valid = missing_reference.valid_of(x, None, nan_policy == "omit")
        if name in ("max", "min"):
            return missing_reference.extremes(x, valid, axes, name == "max")[0]
        return missing_reference.averages(x, valid, axes, count_include_pad, None, name == "sum", min_count)[0]

    with ExitStack() as stack:
        if not selection.exhaustive:
            stack.enter_context(patch.object(blocks, "coarsen", blocks_reference.coarsen))
            for name, rank in product(("max", "min", "avg", "sum"), (1, 2, 3)):
                stack.enter_context(patch.object(functional, f"{name}_pool{rank}d", partial(pool, name, rank)))
        yield


def quiet(function, *args, **kwargs):
    """Without NumPy's warnings of means of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return function(*args, **kwargs)
