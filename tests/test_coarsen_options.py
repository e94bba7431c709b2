"""What the options of coarsening mean at their edges, and where they are refused because they would do nothing."""

import re
from functools import partial

import numba
import numpy as np
import pytest

import numba_pool as nb
from numba_pool import reducers

X = np.arange(6.0)
NAN, INF = np.nan, np.inf


def test_min_count_above_a_block():
    """Too few elements can be there: the results are missing, of levels whose blocks are large enough they are not."""
    np.testing.assert_array_equal(nb.coarsen(X, 2, min_count=3), [NAN] * 3)
    np.testing.assert_array_equal(nb.coarsen(X, 4, min_count=3, boundary="short"), [1.5, NAN])
    np.testing.assert_array_equal(nb.coarsen(X, 4, "sum", min_count=3, boundary="short"), [6, NAN])
    assert nb.coarsen(X, 2, "count", min_count=3).tolist() == [0, 0, 0]
    assert nb.coarsen(np.array([5, 6]), 2, "first", min_count=3, missing=-1).tolist() == [-1]
    assert nb.coarsen(X[:0], 2, min_count=3).shape == (0,)
    np.testing.assert_array_equal(reducers.mean(X, min_count=7), NAN)
    for level, factor in zip(nb.pyramid(X[:4], 2, 2, min_count=3)[1:], (2, 4), strict=True):
        np.testing.assert_array_equal(level, nb.coarsen(X[:4], factor, min_count=3))
    assert level.tolist() == [1.5]


@pytest.mark.parametrize(("weights", "result"), [
    ([3.0, -1.0], (3 * 1 - 2) / 2), ([1.0, -3.0], (1 - 3 * 2) / -2), ([-1.0, -1.0], 1.5), ([1.0, -1.0], NAN),
    ([0.0, 0.0], NAN), ([NAN, 1.0], NAN), ([INF, 1.0], NAN), ([1.0, -INF], NAN),
])
def test_weights_of_any_numbers(weights, result):
    """As in the quotient of the two sums."""
    x = np.array([1.0, 2.0, 5.0, 5.0])
    np.testing.assert_array_equal(nb.coarsen(x, 2, weights=np.array([*weights, 1.0, 1.0])), [result, 5])
    for least in (1, 3):  # the weight of what is missing does not matter
        many = np.array([NAN, *x[:2], *[4.0] * 2, NAN])
        got = nb.coarsen(many, 3, "nanmean", weights=np.array([NAN, *weights, 1.0, 1.0, INF]), min_count=least)
        np.testing.assert_array_equal(got, [result if least == 1 else NAN, 4 if least == 1 else NAN])


@pytest.mark.parametrize(("option", "owners"), [
    ({"rounding": "nearest"}, ("mean", "median")), ({"median": "lower"}, ("median",)), ({"ties": "lowest"}, ("mode",)),
    ({"ignore": 0}, ("mode",)), ({"weights": X}, ("mean",)),
])
def test_options_that_would_do_nothing_are_refused(option, owners):
    (name, _), = option.items()
    message = rf"^{name} is for the reductions? {' and '.join(map(repr, owners))} only, got reduction='max'$"
    region = next(nb.pyramid_regions((6,), 1, levels=1))
    for call in (partial(nb.coarsen, X, 2), partial(nb.pyramid, X, 2, 1), partial(nb.pyramid_block, X[:2], region)):
        with pytest.raises(ValueError, match=message):
            call(reduction="max", **option)
    with pytest.raises(ValueError, match=message):
        reducers.max(X, **option)
    with pytest.raises(ValueError, match=f"^{name} is for the reduction"):
        nb.coarsen(X, 2, highest, **option)
    for owner in owners:
        assert nb.coarsen(X, 2, owner, **option).shape == (3,)


def test_defaults_of_options_are_taken_by_all_reductions():
    """Whoever wraps the function may hand them on."""
    options = {"rounding": "even", "median": "midpoint", "ties": "first", "ignore": None, "weights": None}
    assert nb.coarsen(X, 2, "count", **options).tolist() == [2, 2, 2]
    assert nb.coarsen(X, 2, highest, **options).tolist() == [1, 3, 5]


@numba.njit
def highest(a):
    return a.max()


SCALE = 2


@numba.njit
def scaled(a):
    return a.sum() * SCALE


def test_a_function_that_was_compiled_again(monkeypatch):
    """A global that it uses has changed, and with it what it returns."""
    x = np.arange(6)
    assert nb.coarsen(x, 2, scaled).tolist() == [2, 10, 18]
    monkeypatch.setitem(globals(), "SCALE", 0.5)
    assert nb.coarsen(x, 2, scaled).tolist() == [2, 10, 18]
    scaled.recompile()
    got = nb.coarsen(x, 2, scaled)
    assert got.dtype == np.float64
    assert got.tolist() == [0.5, 2.5, 4.5]
    assert nb.pyramid(x, 2, 1, scaled)[1].tolist() == [0.5, 2.5, 4.5]
    monkeypatch.setitem(globals(), "SCALE", 1.5)
    scaled.recompile()
    assert nb.coarsen(x, 2, scaled).tolist() == [1.5, 7.5, 13.5]  # of the same dtype as before


def test_what_other_dtypes_compile_changes_nothing(monkeypatch):
    from numba_pool.blocks import kept

    made = []
    monkeypatch.setattr(kept, "njit", lambda **options: made.append(options) or numba.njit(**options))
    for dtype in (np.float32, np.int16, np.float32):
        assert nb.coarsen(np.arange(4, dtype=dtype), 2, highest).tolist() == [1, 3]
    assert len(made) == 2


def test_a_mask_that_lacks_the_axis_of_colours():
    photo = np.ones((6, 4, 3))
    for name in ("where", "weights"):
        short = np.ones((6, 4), bool)
        with pytest.raises(ValueError, match=re.escape(f"{name} must broadcast against x of shape (6, 4, 3), got shape "
                                                       f"(6, 4): pass {name}[..., np.newaxis]")):
            nb.coarsen(photo, {0: 2, 1: 2}, **{name: short})
        assert nb.coarsen(photo, {0: 2, 1: 2}, **{name: short[..., np.newaxis]}).shape == (3, 2, 3)
        with pytest.raises(ValueError, match=re.escape(f"pass {name}[..., np.newaxis, np.newaxis]")):
            nb.coarsen(photo, {0: 2}, **{name: short[:, 0]})
        with pytest.raises(ValueError, match=r"got shape \(5, 4\)$"):
            nb.coarsen(photo, {0: 2}, **{name: short[1:]})
