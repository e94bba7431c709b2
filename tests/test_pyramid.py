"""Pyramids, and their regions."""

import blocks_reference as reference
import numpy as np
import pytest
import selection
from hypothesis import given, settings
from hypothesis import strategies as st

import numba_pool as nb

RNG = np.random.default_rng(0)


THIRD = ("mean of bytes", "mean of float32")  # cases with a third level, which is made of the sums of the second
FACTORS = (1, 2, 2, 3) if selection.exhaustive else (1, 2, 2)


@st.composite
def images(draw, levels):
    """Few shapes of blocks, for each of which a walk is compiled: never one block to a row."""
    shape = tuple(8 * draw(st.integers(2, 5)) + draw(st.sampled_from((0, 0, 4))) for _ in range(2))
    return shape, [{0: 2, 1: 2}] * levels, "trim", draw(st.sampled_from(("left", "right"))), draw(st.integers(0, 99))


@st.composite
def arrays(draw):
    """An array of small numbers, factors by level, a boundary and a side."""
    shape = tuple(draw(st.lists(st.integers(8, 40), min_size=1, max_size=2)))
    levels = draw(st.integers(1, 3 if selection.exhaustive else 2))
    factors = [{axis: draw(st.sampled_from(FACTORS)) for axis in range(len(shape))} for _ in range(levels)]
    boundary = draw(st.sampled_from(("short", "trim")))
    if any(np.prod([f[axis] for f in factors]) > n for axis, n in enumerate(shape)):
        boundary = "short"
    return shape, factors, boundary, draw(st.sampled_from(("left", "right"))), draw(st.integers(0, 2**32 - 1))


def products(factors):
    whole = dict.fromkeys(factors[0], 1)
    for each in factors:
        whole = {axis: f * each[axis] for axis, f in whole.items()}
        yield whole


CASES = {"mean of bytes": ("mean", np.uint8), "mean of int64": ("mean", np.int64),
         "mean of float32": ("mean", np.float32),
         "sum of int16": ("sum", np.int16), "maximum": ("max", np.int16), "mode": ("mode", np.uint8),
         "median": ("median", np.float32), "mean without NaN": ("nanmean", np.float32), "count": ("count", np.uint8)}


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=15)
@given(data=st.data())
def test_every_level_is_that_of_the_product_of_factors(case, data):
    check(case, data.draw(images(3 if selection.exhaustive or case in THIRD else 2)))


# One whose sums are carried, one that is of level 0 every time, one of the level before: others share their loops.
@pytest.mark.parametrize("case", CASES if selection.exhaustive else ("mean of bytes", "mode", "maximum"))
@settings(max_examples=15)
@given(drawn=arrays())
def test_pyramids_of_any_factors(case, drawn):
    check(case, drawn)


def reduced(x, windows, name, boundary, side):
    """Sums, means and maxima of blocks by NumPy, for which no walk is compiled."""
    y, sizes = x.astype(np.float64 if x.dtype.kind == "f" else np.int64), np.array(1)
    for axis, factor in windows.items():
        cuts = np.array(reference.cut(x.shape[axis], factor, boundary, side))
        y = y.take(range(cuts[0, 0], cuts[-1, 1]), axis)
        y = (np.maximum if name == "max" else np.add).reduceat(y, cuts[:, 0] - cuts[0, 0], axis)
        sizes = np.multiply.outer(sizes, cuts[:, 1] - cuts[:, 0])
    if name == "mean":
        y = y / sizes if x.dtype.kind == "f" else np.rint(y / sizes)
    return y.astype(reference.dtype_of(name, x.dtype, None))


def check(case, drawn):
    reduction, dtype = CASES[case]
    shape, factors, boundary, side, seed = drawn
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 100, shape).astype(dtype)
    if dtype is np.float32:
        x += rng.standard_normal(shape, dtype=np.float32)
        x[rng.random(shape) < 0.1] = np.nan
    levels = nb.pyramid(x, factors, reduction=reduction, boundary=boundary, side=side)
    assert levels[0] is x
    for level, whole in zip(levels[1:], products(factors), strict=True):
        of_blocks = reduced if reduction in ("mean", "sum", "max") else nb.coarsen
        want = of_blocks(x, whole, reduction, boundary=boundary, side=side)
        assert level.dtype == want.dtype
        np.testing.assert_allclose(level, want, rtol=2.5e-7 if dtype is np.float32 else 0)


def test_means_are_rounded_once_and_do_not_drift():
    """Also where levels are made of carried sums; rounding each level in turn drifts."""
    x = RNG.integers(0, 2, (512, 512)).astype(np.uint8) * 255
    levels = nb.pyramid(x)
    assert [level.shape[0] for level in levels] == [512, 256, 128, 64, 32, 16, 8, 4, 2, 1]
    assert all(level.dtype == np.uint8 for level in levels)
    for k, level in enumerate(levels):
        exact = x.reshape(level.shape[0], 2**k, level.shape[0], 2**k).mean((1, 3))
        np.testing.assert_array_equal(level, np.rint(exact))
    for rounding, added in (("nearest", 0.5), ("truncate", 0)):
        for k, level in enumerate(nb.pyramid(x, levels=4, rounding=rounding)):
            exact = x.reshape(level.shape[0], 2**k, level.shape[0], 2**k).mean((1, 3))
            np.testing.assert_array_equal(level, np.floor(exact + added))
    cascade = nb.pyramid(x, levels=8, method="cascade")
    assert any((a != b).any() for a, b in zip(levels, cascade))


def test_methods():
    x = RNG.integers(0, 3, (16, 16)).astype(np.uint8)
    native = nb.pyramid(x, levels=2, reduction="mode")
    cascade = nb.pyramid(x, levels=2, reduction="mode", method="cascade")
    np.testing.assert_array_equal(native[2], nb.coarsen(x, 4, "mode"))
    np.testing.assert_array_equal(cascade[2], nb.coarsen(nb.coarsen(x, 2, "mode"), 2, "mode"))
    assert (native[2] != cascade[2]).any()
    holes = x.astype(np.float32)
    holes[:3, :3] = np.nan
    where = RNG.random(x.shape) < 0.3
    for options in ({"reduction": "nanmax"}, {"reduction": "max", "where": where},
                    {"reduction": "max", "min_count": 3}):
        for level, factor in zip(nb.pyramid(holes, levels=2, **options), (1, 2, 4)):
            np.testing.assert_array_equal(level, holes if factor == 1 else nb.coarsen(holes, factor, **options))


def test_levels_and_axes():
    x = np.zeros((5, 100, 60), np.float32)

    def shapes(*args, **kwargs):
        """Of first elements, for which no walk is compiled."""
        return [a.shape for a in nb.pyramid(*args, reduction="first", **kwargs)]

    assert shapes(x, axes=(1, -1), smallest=24) == [(5, 100, 60), (5, 50, 30), (5, 25, 15), (5, 13, 8)]
    assert shapes(x, axes=(1, -1), smallest=25) == [(5, 100, 60), (5, 50, 30), (5, 25, 15)]
    assert shapes(x, {1: 4}, levels=2, boundary="trim") == [x.shape, (5, 25, 60), (5, 6, 60)]
    assert shapes(x, [{0: 5}, 2]) == [x.shape, (1, 100, 60), (1, 50, 30)]
    assert len(nb.pyramid(x, levels=0)) == 1
    assert shapes(x[..., 0], boundary="trim") == [(5, 100), (2, 50), (1, 25)]
    assert nb.pyramid(np.ones((8, 16), ">u2"), 2, 4)[-1].dtype == np.uint16
    x = np.ones((5, 8, 8), np.float32)
    where = np.ones(x.shape, bool)
    where[0] = False
    for level in nb.pyramid(x, where=where, levels=4, axes=(1, 2)):
        assert level.shape[0] == 5
    assert np.isnan(level[0]).all()
    assert (level[1:] == 1).all()


@pytest.mark.parametrize(("reduction", "boundary"), [("mean", "short"), ("mean", "trim"), ("mode", "short")])
def test_regions_make_what_the_whole_makes(reduction, boundary):
    x = RNG.integers(0, 9, (37, 50)).astype(np.uint8)
    for chunks, factors, levels in ((4, 2, 3), ((3, 8), [{0: 2}, 2], None), ([8, 4], {0: 3, 1: 2}, 2)):
        want = nb.pyramid(x, factors, levels, reduction, boundary=boundary)[1:]
        written = [np.zeros(level.shape, np.int64) for level in want]
        read = np.zeros(x.shape, np.int64)
        for region in nb.pyramid_regions(x.shape, chunks, factors, levels, boundary=boundary):
            read[region.source] += 1
            parts = nb.pyramid_block(x[region.source], region, reduction)
            for k, (target, part) in enumerate(zip(region.targets, parts, strict=True)):
                assert part.dtype == want[k].dtype
                np.testing.assert_array_equal(part, want[k][target])
                written[k][target] += 1
                size = chunks[k] if isinstance(chunks, list) else chunks
                sizes = size if isinstance(size, tuple) else (size,) * 2
                for s, n, chunk in zip(target, want[k].shape, sizes):
                    assert s.start == s.stop or (s.start % chunk == 0 and (s.stop % chunk == 0 or s.stop == n))
        assert (read == 1).all()
        assert all((count == 1).all() for count in written)


def test_errors():
    x = np.zeros((8, 8), np.uint8)
    region = next(nb.pyramid_regions(x.shape, 2, levels=1))
    wrong = [
        (lambda: nb.pyramid(x, 1), ValueError, "factors must have one of at least 2 if levels is None"),
        (lambda: nb.pyramid(x, levels=-1), ValueError, "levels must be at least 0"),
        (lambda: nb.pyramid(x, [2, 2], 3), ValueError, "levels must be the number of factors, 2"),
        (lambda: nb.pyramid(x, {0: 2}, axes=1), ValueError, "axes must be None if factors name axes"),
        (lambda: nb.pyramid(x, axes=(0, -2)), ValueError, "axes must have each axis once"),
        (lambda: nb.pyramid(x, axes=2), ValueError, "axes must have axes in"),
        (lambda: nb.pyramid(x, method="best"), ValueError, "method must be one of 'carried', 'cascade', 'base'"),
        (lambda: nb.pyramid(x, reduction="mode", method="carried"), ValueError, "'carried' is for .* got 'mode'"),
        (lambda: nb.pyramid(x, method="cascade", where=x == 0), ValueError, "neither where nor weights"),
        (lambda: nb.pyramid(x, smallest=0), ValueError, "smallest must be at least 1"),
        (lambda: nb.pyramid(x, order=1), TypeError, "unknown keywords order"),
        (lambda: next(nb.pyramid_regions(x.shape, 0)), ValueError, "chunks must be at least 1"),
        (lambda: next(nb.pyramid_regions(x.shape, [2, 2], levels=1)), ValueError, "chunks must be .* list of 1"),
        (lambda: next(nb.pyramid_regions((8.0, 8), 2)), TypeError, "shape must be"),
        (lambda: nb.pyramid_block(x, region), ValueError, r"block must have the shape of region.source, \(4, 4\)"),
        (lambda: nb.pyramid_block(x[:4, :4], region._replace(source=(slice(1, 5), slice(0, 4)))), ValueError,
         "region must begin at multiples"),
        (lambda: nb.pyramid_block(x[:4, :4], region, boundary="trim", levels=1), TypeError,
         "boundary, levels must be given to pyramid_regions"),
    ]
    for call, error, message in wrong:
        with pytest.raises(error, match=message):
            call()
