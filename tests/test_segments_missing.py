"""Segments of rows with elements that are missing: NaN that is omitted, and what a mask hides."""

import itertools
import math

import numpy as np
import pytest
from checks import assert_identical, assert_rounded, unmodified

import numba_pool as nb

OFFSETS = np.array([1, 4, 4, 9, 30, 31])  # of 33 rows; one segment is empty, and of another all is missing
CASES = [("omit", None), ("omit", "some"), ("omit", "all"), ("propagate", "some"), ("propagate", "all")]


def made(dtype, channels):
    """(rows, mask): a third of the rows is NaN."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((33, *channels)).astype(dtype)
    x[rng.random(x.shape) < 0.3] = np.nan
    x[30] = np.nan
    x[0], x[5] = 99, -np.inf
    return x, rng.random(x.shape) < 0.7


def columns(x):
    """(segment, channel), and the rows of each, for all results."""
    for s in range(len(OFFSETS) - 1):
        for channel in np.ndindex(*x.shape[1:]):
            yield (s, *channel), [(row, *channel) for row in range(OFFSETS[s], OFFSETS[s + 1])]


def expected_extreme(x, valid, best):
    y, indices = (np.empty((len(OFFSETS) - 1, *x.shape[1:]), dtype) for dtype in (x.dtype, np.int32))
    for place, taps in columns(x):
        taps = [tap for tap in taps if valid[tap]]
        values = [float(x[tap]) for tap in taps]
        nans = [tap for tap in taps if np.isnan(x[tap])]
        won = nans[-1] if nans else taps[values.index(best(values))] if taps else None
        y[place], indices[place] = (x[won], won[0]) if won else (np.nan, -1)
    return y, indices


def expected_total(x, valid, mean):
    y, magnitude = (np.zeros((len(OFFSETS) - 1, *x.shape[1:])) for _ in range(2))
    for place, taps in columns(x):
        values = [float(x[tap]) for tap in taps if valid[tap]]
        n = (len(values) or math.nan) if mean else 1
        y[place], magnitude[place] = sum(values) / n, sum(map(abs, values)) / n
    return y.astype(x.dtype), np.where(np.isfinite(magnitude), magnitude, 0).astype(x.dtype)


@pytest.mark.parametrize("channels", [(), (3,), (20,), (5, 14)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_against_plain_loops(dtype, channels):
    x, mask = made(dtype, channels)
    masks = {None: None, "some": mask, "all": np.ones_like(mask)}
    for nan_policy, name in CASES:
        where = masks[name]
        given = {"nan_policy": nan_policy} | ({} if where is None else {"where": where})
        valid = np.ones_like(mask) if where is None else where
        if nan_policy == "omit":
            valid = valid & ~np.isnan(x)
        with unmodified(x, mask, OFFSETS):
            for pool, best in ((nb.segment_max_pool, max), (nb.segment_min_pool, min)):
                expected, expected_indices = expected_extreme(x, valid, best)
                y, indices = pool(x, OFFSETS, return_indices=True, **given)
                assert_identical(y, expected)
                assert_identical(indices, expected_indices)
                assert_identical(pool(x, OFFSETS, **given), expected)
            for kind, mean in (("avg", True), ("sum", False)):
                pool, backward = (getattr(nb, f"segment_{kind}_pool{end}") for end in ("", "_backward"))
                expected, magnitude = expected_total(x, valid, mean)
                assert_rounded(pool(x, OFFSETS, **given), expected, magnitude)
                grad = np.random.default_rng(1).standard_normal(expected.shape).astype(dtype)
                back = np.zeros(x.shape, np.float32)
                for s, (a, b) in enumerate(itertools.pairwise(OFFSETS)):
                    count = np.maximum(valid[a:b].sum(axis=0), 1) if mean else 1
                    back[a:b] = np.where(valid[a:b], grad[s].astype(np.float64) / count, 0)
                back = back.astype(dtype)
                more = {"x": x} if nan_policy == "omit" else {}
                assert_rounded(backward(grad, OFFSETS, x.shape, **given, **more), back, back, units=1)


def test_integers_that_a_mask_hides():
    rng = np.random.default_rng(0)
    x, where = rng.integers(-9, 9, (33, 4)).astype(np.int32), rng.random((33, 4)) < 0.5
    for (s, channel), taps in columns(x):
        values = [int(x[tap]) for tap in taps if where[tap]]
        for kind, expected in (("max", max(values, default=-(2**31))), ("min", min(values, default=2**31 - 1)),
                               ("sum", sum(values)), ("avg", int(sum(values) / max(len(values), 1)))):  # fmt: skip
            assert getattr(nb, f"segment_{kind}_pool")(x, OFFSETS, where=where)[s, channel] == expected


def test_out_and_masks_that_broadcast():
    x, _ = made("float32", (3,))
    rows = np.arange(33) % 3 > 0
    for kind in ("max", "avg"):
        pool = getattr(nb, f"segment_{kind}_pool")
        expected = pool(np.where(rows[:, None], x, np.nan), OFFSETS, nan_policy="omit")
        out = np.empty_like(expected)
        assert pool(x, OFFSETS, where=rows[:, None], nan_policy="omit", out=out) is out
        assert_identical(out, expected)
        with pytest.raises(ValueError, match="where must broadcast"):
            pool(x, OFFSETS, where=rows)
        with pytest.raises(TypeError, match="array of bools"):
            pool(x, OFFSETS, where=x)
    with pytest.raises(TypeError, match="x must be given with nan_policy='omit'"):
        nb.segment_avg_pool_backward(out, OFFSETS, x.shape, nan_policy="omit")


@pytest.mark.parametrize("kind", ["Max", "Min", "Avg", "Sum"])
def test_layers(kind):
    x, mask = made("float32", (3,))
    pool, backward = (getattr(nb, f"segment_{kind.lower()}_pool{end}") for end in ("", "_backward"))
    layer = getattr(nb, f"Segment{kind}Pool")(nan_policy="omit")
    y = layer(x, OFFSETS, where=mask)
    given = {"nan_policy": "omit", "where": mask}
    assert_identical(y, pool(x, OFFSETS, **given))
    grad = np.ones_like(y)
    if kind in ("Max", "Min"):
        expected = backward(grad, pool(x, OFFSETS, return_indices=True, **given)[1], x.shape)
    else:
        expected = backward(grad, OFFSETS, x.shape, x=x, **given)
    assert_identical(layer.backward(grad), expected)
    assert repr(layer) == f"Segment{kind}Pool(nan_policy='omit')"
    with pytest.raises(ValueError, match="nan_policy must be"):
        getattr(nb, f"Segment{kind}Pool")(nan_policy="drop")
