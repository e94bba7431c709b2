"""`channel_axis`: the same results, for arrays with their channels at any axis; and shapes without computing."""

import inspect

import numpy as np
import pytest
from checks import assert_identical
from operations import OPERATIONS, names

import numba_pool as nb

X = np.random.default_rng(0).standard_normal((2, 3, 6, 7)).astype(np.float32)


def last(a):
    return np.ascontiguousarray(np.moveaxis(a, 1, -1))


def test_channels_last_without_a_copy():
    """What comes is contiguous, as what was given."""
    x = last(X)
    y, indices = nb.max_pool2d(X, 3, 2, 1, return_indices=True)
    actual, where = nb.max_pool2d(x, 3, 2, 1, return_indices=True, channel_axis=-1)
    for found, expected in ((actual, y), (where, indices)):
        assert_identical(np.moveaxis(found, -1, 1), expected)
        assert found.flags.c_contiguous
    g = nb.max_pool2d_backward(y, indices, X.shape)
    actual = nb.max_pool2d_backward(actual, where, x.shape, channel_axis=3)
    assert actual.flags.c_contiguous
    assert_identical(np.moveaxis(actual, -1, 1), g)
    actual = nb.avg_pool2d_backward(last(y), x.shape, 3, 2, 1, channel_axis=-1)
    assert_identical(np.moveaxis(actual, -1, 1), nb.avg_pool2d_backward(y, X.shape, 3, 2, 1))


@pytest.mark.parametrize("axis", range(-4, 4))
def test_any_axis(axis):
    x = np.moveaxis(X, 1, axis)
    y = nb.avg_pool2d(x, 2, channel_axis=axis)
    assert_identical(np.ascontiguousarray(np.moveaxis(y, axis, 1)), nb.avg_pool2d(X, 2))
    assert nb.output_shape(nb.avg_pool2d, x.shape, 2, channel_axis=axis) == y.shape


def test_unbatched():
    y = nb.max_pool2d(last(X)[0], 2, channel_axis=-1)
    assert_identical(np.ascontiguousarray(np.moveaxis(y, -1, 0)), nb.max_pool2d(X[0], 2))


def test_out_and_lp_and_unpooling():
    x = last(X)
    y, indices = nb.max_pool2d(x, 2, return_indices=True, channel_axis=-1)
    out = np.empty_like(y)
    assert nb.max_pool2d(x, 2, channel_axis=-1, out=out) is out
    assert_identical(out, y)
    pair = np.empty_like(y), np.empty_like(indices)
    assert nb.max_pool2d(x, 2, return_indices=True, channel_axis=-1, out=pair)[0] is pair[0]
    assert_identical(pair[1], indices)
    back = nb.max_unpool2d(y, indices, 2, output_size=x.shape, channel_axis=-1)
    assert back.shape == x.shape
    assert_identical(nb.max_unpool2d_backward(back, indices, channel_axis=-1), y)
    norms = nb.lp_pool2d(x, 2, 2, channel_axis=-1)
    g = nb.lp_pool2d_backward(np.ones_like(norms), x, norms, 2, 2, channel_axis=-1)
    first = nb.lp_pool2d(X, 2, 2)
    expected = nb.lp_pool2d_backward(np.ones_like(first), X, first, 2, 2)
    np.testing.assert_allclose(np.moveaxis(g, -1, 1), expected, rtol=1e-5)


def test_global_pooling_and_its_gradients():
    x = last(X)
    y = nb.global_avg_pool(x, channel_axis=-1)
    assert y.shape == (2, 1, 1, 3)
    np.testing.assert_allclose(y[:, 0, 0], X.mean(axis=(2, 3)), rtol=1e-5)
    g = nb.global_avg_pool_backward(y, x.shape, channel_axis=-1)
    assert g.shape == x.shape
    assert g.flags.c_contiguous
    y, indices = nb.global_max_pool(x, return_indices=True, channel_axis=-1)
    assert nb.global_max_pool_backward(y, indices, x.shape, channel_axis=-1).sum() == pytest.approx(y.sum(), rel=1e-5)


@pytest.mark.parametrize(("axis", "error"), [(4, ValueError), (-5, ValueError), ("last", TypeError), (True, TypeError),
                                             (1.0, TypeError)])
def test_wrong_axes(axis, error):
    with pytest.raises(error, match="channel_axis must"):
        nb.max_pool2d(X, 2, channel_axis=axis)


def test_every_function_has_one():
    for name in nb.functional.__all__:
        if "pool" in name and not name.startswith("segment_"):
            assert "channel_axis" in inspect.signature(getattr(nb, name)).parameters, name


@pytest.mark.parametrize("op", [op for op in OPERATIONS if "unpool" not in op.name], ids=lambda op: names([op])[0])
def test_shapes_without_computing(op, monkeypatch):
    x = np.ones(op.shape, np.float32)
    seen = {}

    def noted(function):
        def call(*args, **kwargs):
            seen.update(function=function, args=args, kwargs=kwargs)
            return function(*args, **kwargs)

        return call

    base = op.name.partition("-")[0]
    function = getattr(nb, base)
    monkeypatch.setattr(nb, base, noted(function))
    expected = op.value(x).shape
    kwargs = {k: v for k, v in seen.get("kwargs", {}).items() if k != "return_indices"}
    if seen:
        assert nb.output_shape(function, op.shape, *seen["args"][1:], **kwargs) == expected


def test_shapes_by_hand():
    assert nb.output_shape(nb.max_pool2d, (8, 3, 32, 33), 3, 2, padding=1) == (8, 3, 16, 17)
    assert nb.output_shape(nb.min_pool1d, (3, 10), 3, ceil_mode=True) == (3, 4)
    assert nb.output_shape(nb.sum_pool3d, (1, 2, 4, 4, 4), 2) == (1, 2, 2, 2, 2)
    assert nb.output_shape(nb.lp_pool2d, (1, 2, 4, 4), 2, 2) == (1, 2, 2, 2)
    assert nb.output_shape(nb.adaptive_avg_pool2d, (1, 2, 9, 9), (3, None)) == (1, 2, 3, 9)
    assert nb.output_shape(nb.global_max_pool, (1, 2, 9)) == (1, 2, 1)
    assert nb.output_shape(nb.fractional_max_pool2d, (1, 2, 9, 9), 2, output_ratio=0.5) == (1, 2, 4, 4)
    assert nb.output_shape(nb.max_unpool2d, (1, 2, 3, 3), 2) == (1, 2, 6, 6)
    assert nb.output_shape(nb.avg_pool2d, (10**6, 10**6, 10**5, 10**5), 2) == (10**6, 10**6, 5 * 10**4, 5 * 10**4)
    for wrong in (nb.max_pool2d_backward, len, "max_pool2d"):
        with pytest.raises(TypeError, match="forward function"):
            nb.output_shape(wrong, (1, 2, 4, 4), 2)
    for shape in ((4, 4), (1, 2, 0, 4), (1, 2, 3, 4, 5)):
        with pytest.raises(ValueError, match=r"axes|empty"):
            nb.output_shape(nb.max_pool2d, shape, 2)
    with pytest.raises(ValueError, match="leaves no output"):
        nb.output_shape(nb.max_pool2d, (1, 2, 4, 4), 5)
