"""`numba_pool.dask`: elements that are missing, in arrays and masks of any chunks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numba_pool as nb

pytest.importorskip("dask.array")

import dask.array as da
from test_dask import assert_computes, chunked

import numba_pool.dask as pool

RNG = np.random.default_rng(0)
CASES = {"max": {"where": RNG.random((3, 1, 19)) < 0.7, "nan_policy": "omit"},
         "sum": {"nan_policy": "omit", "min_count": 3},
         "avg": {"where": RNG.random(19) < 0.7}}


def holed(shape):
    """Integers, whose sums are exact, and NaN."""
    x = RNG.integers(-9, 10, shape).astype(np.float32)
    x[RNG.random(shape) < 0.2] = np.nan
    return x


@pytest.mark.parametrize("family", [*CASES])
@given(data=st.data())
@settings(max_examples=10)
def test_elements_are_missing_whatever_the_chunks(family, data):
    """Windows that overlap, and masks of fewer axes, of NumPy or dask."""
    x, arguments, more = holed((2, 3, 17, 19)), (3, 2, ((2, 0), 1)), dict(CASES[family])
    expected = getattr(nb, f"{family}_pool2d")(x, *arguments, **more)
    if "where" in more and data.draw(st.booleans()):
        more["where"] = chunked(data.draw, more["where"])
    assert_computes(getattr(pool, f"{family}_pool2d")(chunked(data.draw, x), *arguments, **more), expected)


def test_masks_of_windows_that_share_nothing():
    x, mask = holed((2, 17, 19, 3)), RNG.random((17, 1, 3)) < 0.7
    expected = nb.max_pool2d(x, 3, channel_axis=-1, where=mask)
    for where in (mask, da.from_array(mask, chunks=4)):
        lazy = pool.max_pool2d(da.from_array(x, chunks=(1, 5, 6, 2)), 3, channel_axis=-1, where=where)
        assert_computes(lazy, expected)


def test_windows_that_share_nothing_are_one_layer():
    x = da.zeros((2, 3, 90, 90), chunks=(1, 3, 30, 30), dtype=np.float32)
    layers = pool.avg_pool2d(x, 3, nan_policy="omit", min_count=2).__dask_graph__().layers
    assert len(layers) == len(x.__dask_graph__().layers) + 1
