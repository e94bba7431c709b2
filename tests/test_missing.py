"""Elements that are missing: NaN under nan_policy='omit', and where a mask is False."""

import missing_reference as plain
import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, assert_same_maxima, is_channels_last, unmodified
from hypothesis import given
from hypothesis import strategies as st
from strategies import FLOATS, arrays, elements, laid_out, windows

import numba_pool as nb

EXTREMES = {"max": True, "min": False}
SOME = ("specials", "nan", "-inf", "ties", "normal")


def pool(name, rank):
    return getattr(nb, f"{name}_pool{rank}d")


@st.composite
def masks(draw, shape):
    """None, or a mask that broadcasts against an array of this shape."""
    kind = draw(st.sampled_from(("none", "all", "row", "spatial", "few")))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    if kind == "none":
        return None
    smaller = {"row": shape[-1:], "spatial": (1, *shape[-2:]) if len(shape) > 2 else shape[-1:]}.get(kind, shape)
    return rng.random(smaller) < (0.2 if kind == "few" else 0.8)


@st.composite
def missing(draw, x):
    """Arguments that tell what is missing."""
    where = draw(masks(x.shape))
    return {"nan_policy": draw(st.sampled_from(("omit", "omit", "propagate"))) if where is not None else "omit",
            "where": where}


def native(x):
    return x.astype(x.dtype.newbyteorder("="))


@given(st.data())
def test_maxima_and_minima(data):
    w = data.draw(windows())
    x = data.draw(arrays(w.shape, w.rank, kinds=SOME))
    given_, name = data.draw(missing(x)), data.draw(st.sampled_from(("max", "max", "min")))
    axes = reference.sliding(w.shape[-w.rank :], **w.arguments)
    valid = plain.valid_of(native(x), given_["where"], given_["nan_policy"] == "omit")
    expected, places = plain.extremes(native(x), valid, axes, EXTREMES[name])
    if given_["where"] is not None and given_["where"].all() and given_["nan_policy"] == "propagate":
        return  # the plain call: see below
    with unmodified(x):
        y, indices = pool(name, w.rank)(x, **w.arguments, return_indices=True, **given_)
        alone = pool(name, w.rank)(x, **w.arguments, **given_)
    assert_identical(y, expected)
    assert_identical(indices, places)
    assert_same_maxima(alone, expected)


@given(st.data())
def test_averages_and_sums(data):
    w = data.draw(windows())
    x = data.draw(arrays(w.shape, w.rank, kinds=("specials", "nan", "ties", "normal")))
    given_, summed = data.draw(missing(x)), data.draw(st.booleans())
    least = data.draw(st.sampled_from((None, None, 0, 1, 2, 5)))
    more = {}
    if not summed:
        more = {"count_include_pad": data.draw(st.booleans()),
                "divisor_override": data.draw(st.sampled_from((None, None, 3, -2.5)))}
    axes = reference.sliding(w.shape[-w.rank :], **w.arguments)
    valid = plain.valid_of(native(x), given_["where"], given_["nan_policy"] == "omit")
    if valid.all() and given_["nan_policy"] == "propagate":
        return
    with np.errstate(all="ignore"):
        expected, magnitude = plain.averages(native(x), valid, axes, *more.values(), summed=summed, least=least) \
            if more else plain.averages(native(x), valid, axes, summed=summed, least=least)
    with unmodified(x):
        y = pool("sum" if summed else "avg", w.rank)(x, **w.arguments, **more, **given_, min_count=least)
    assert_rounded(y, expected, magnitude, 8)
