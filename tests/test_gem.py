"""Generalized means, GeM: Lp pooling with `mean` and `eps`, against plain loops in float64."""

import ml_dtypes
import numpy as np
import pytest
import reference
from checks import assert_identical
from strategies import laid_out

import numba_pool as nb

P = (1, 2, 3, 2.5, np.inf, -np.inf)
CASES = {
    "overlapping": ((2, 3, 9, 20), {"kernel_size": 3, "stride": 2, "padding": ((1, 1), (1, 0)), "ceil_mode": True}),
    "one row": ((2, 2, 33), {"kernel_size": 5, "stride": 2, "padding": 2}),
    "dilated": ((1, 3, 8, 9), {"kernel_size": (2, 3), "stride": 1, "padding": ((0, 2), (1, 1)), "dilation": 2}),
    "volumes": ((1, 2, 4, 5, 6), {"kernel_size": 2, "stride": 1, "padding": 1}),
    "wide padding": ((1, 2, 4, 7), {"kernel_size": 2, "stride": (1, 2), "padding": ((4, 2), (3, 1500))}),
}
each = pytest.mark.parametrize(("shape", "windows"), CASES.values(), ids=CASES)
orders = pytest.mark.parametrize("order", ["C", "channels_last"])


def plain(x, p, windows, mean, eps, g=None):
    """The results of plain loops, and of an upstream gradient the gradient."""
    axes = reference.sliding(x.shape[2:], **windows)
    y = np.zeros((*x.shape[:2], *map(len, axes)))
    gradient = np.zeros((*x.shape[:2], int(np.prod(x.shape[2:]))))
    planes = x.reshape(*x.shape[:2], -1).astype(np.float64)
    for at in np.ndindex(y.shape):
        taps = list(reference.flat_taps(x.shape[2:], [axis[o] for axis, o in zip(axes, at[2:], strict=True)]))
        if not taps:
            continue
        own = planes[at[:2]][taps]
        u = np.maximum(np.abs(own), eps)
        n = len(taps) if mean else 1
        if np.isinf(p):
            y[at] = u.max() if p > 0 else u.min()
        else:
            y[at] = (np.sum(u**p) / n) ** (1 / p)
        if g is not None and y[at] > 0:
            share = (u == y[at]) / np.sum(u == y[at]) if np.isinf(p) else (u / y[at]) ** (p - 1) / n
            gradient[at[:2]][taps] += g[at] * np.sign(own) * share * (np.abs(own) >= eps)
    return y, gradient.reshape(x.shape)


def data(shape, seed=0):
    """With zeros, and magnitudes that are as large as an `eps` of 1/2."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    kind = rng.random(shape)
    return np.where(kind < 0.1, 0.0, np.where(kind < 0.2, np.copysign(0.5, x), x))


@orders
@each
@pytest.mark.parametrize("p", P)
def test_against_loops(shape, windows, order, p):
    rank = len(shape) - 2
    x = data(shape)
    given = laid_out(x, order, rank)
    pool, backward = getattr(nb, f"lp_pool{rank}d"), getattr(nb, f"lp_pool{rank}d_backward")
    for mean in (True, False):
        for eps in (0.0, 0.5):
            everything = {**windows, "mean": mean, "eps": eps}
            y = pool(given, p, **everything)
            g = np.random.default_rng(1).standard_normal(y.shape)
            expected, slopes = plain(x, p, windows, mean, eps, g)
            np.testing.assert_allclose(y, expected, rtol=1e-12)
            gradient = backward(laid_out(g, order, rank), given, y, p, **everything)
            np.testing.assert_allclose(gradient, slopes, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("p", [2, 2.5])
def test_other_dtypes(dtype, p):
    shape, windows = CASES["overlapping"]
    x = data(shape).astype(dtype)
    y = nb.lp_pool2d(x, p, **windows, mean=True, eps=0.5)
    g = np.random.default_rng(1).standard_normal(y.shape).astype(dtype)
    assert y.dtype == x.dtype
    expected, slopes = plain(x, p, windows, True, 0.5, g.astype(np.float64))
    unit = {2: 0.005, 4: 1e-6}[x.dtype.itemsize] if x.dtype != ml_dtypes.bfloat16 else 0.03
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=unit)
    gradient = nb.lp_pool2d_backward(g, x, y, p, **windows, mean=True, eps=0.5)
    np.testing.assert_allclose(gradient.astype(np.float64), slopes, rtol=unit, atol=2 * unit)


def test_gradients_are_those_of_differences():
    x, windows = data((1, 2, 6, 7), 3), {"kernel_size": 3, "stride": 2, "padding": 1, "mean": True, "eps": 0.3}
    x[np.abs(np.abs(x) - 0.3) < 0.01] = 0.7  # no difference is taken across eps
    y = nb.lp_pool2d(x, 3, **windows)
    g = np.random.default_rng(1).standard_normal(y.shape)
    gradient = nb.lp_pool2d_backward(g, x, y, 3, **windows)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += 1e-5
        down[at] -= 1e-5
        slope = np.sum(g * (nb.lp_pool2d(up, 3, **windows) - nb.lp_pool2d(down, 3, **windows))) / 2e-5
        assert abs(gradient[at] - slope) < 1e-8


def test_gradients_pass_at_eps_in_every_dtype():
    """1e-6 is no float32. Magnitudes that are as large are not clamped, as torch.clamp has it."""
    for dtype in (np.float32, np.float64, np.float16):
        x = np.array([[[1e-6, -1e-6, 0, 5e-7, -1]]], dtype)
        for p in (3, np.inf):
            ones = np.ones((1, 1, 5), dtype)
            y = nb.lp_pool1d(x, p, 1, eps=1e-6)
            assert (nb.lp_pool1d_backward(ones, x, y, p, 1, eps=1e-6) != 0).tolist() == [[[True, True, False, False,
                                                                                          True]]]


def test_powers_beyond_the_range_of_numbers():
    """Windows are done again, one by one, with the same clamps and divisors."""
    x = np.array([[[1e-200, 3e200, 4e200, 0.0, -2e200, 1e-3]]])
    for mean in (False, True):
        windows = {"kernel_size": 3, "stride": 1, "padding": 1, "mean": mean, "eps": 1e190}
        y, wide = nb.lp_pool1d(x, 2, **windows), {"kernel_size": 3, "stride": 1, "padding": 1}
        g = np.arange(1.0, 7)[None, None]
        expected, slopes = plain(x / 1e200, 2, wide, mean, 1e-10, g)
        np.testing.assert_allclose(y, expected * 1e200, rtol=1e-12)
        np.testing.assert_allclose(nb.lp_pool1d_backward(g, x, y, 2, **windows), slopes, rtol=1e-12)


@orders
@pytest.mark.parametrize("shape", [(2, 3, 40), (2, 17, 7, 7), (1, 3, 3, 4, 5)])
def test_whole_planes(shape, order):
    rank = len(shape) - 2
    x = data(shape)
    given = laid_out(x, order, rank)
    for p in (3, np.inf):
        y = nb.global_lp_pool(given, p)
        assert y.shape == nb.output_shape(nb.global_lp_pool, shape, p) == (*shape[:2], *(1,) * rank)
        g = np.random.default_rng(1).standard_normal(y.shape)
        expected, slopes = plain(x, p, {"kernel_size": shape[2:]}, True, 1e-6, g)
        np.testing.assert_allclose(y, expected, rtol=1e-12)
        np.testing.assert_allclose(nb.global_lp_pool_backward(g, given, y, p), slopes, rtol=1e-11, atol=1e-12)
    y = nb.global_lp_pool(given, 2, mean=False, eps=0)
    sliding = getattr(nb, f"lp_pool{rank}d")
    assert_identical(y, sliding(given, 2, shape[2:]))
    y = nb.global_lp_pool(np.moveaxis(x, 1, -1), 3, channel_axis=-1)
    np.testing.assert_array_equal(y, np.moveaxis(nb.global_lp_pool(x, 3), 1, -1))


def test_layers():
    x = data((2, 3, 8, 8)).astype(np.float32)
    for layer, y, back, arguments in (
            (nb.LPPool2d(3, 2, mean=True, eps=0.1), nb.lp_pool2d(x, 3, 2, mean=True, eps=0.1), nb.lp_pool2d_backward,
             {"kernel_size": 2, "mean": True, "eps": 0.1}),
            (nb.GlobalLPPool(3), nb.global_lp_pool(x, 3), nb.global_lp_pool_backward, {})):
        assert_identical(layer(x), y)
        assert_identical(layer.backward(y), back(y, x, y, 3, **arguments))
    assert repr(nb.GlobalLPPool(3, eps=0.1)) == "GlobalLPPool(norm_type=3, eps=0.1)"


WRONG = [
    ({"eps": -1.0}, ValueError, "eps must be 0 or a positive number that float32 holds, got -1.0"),
    ({"eps": 1e300}, ValueError, "eps must be 0 or a positive number that float32 holds, got 1e"),
    ({"eps": np.nan}, ValueError, "eps must be 0 or a positive number that float32 holds, got nan"),
    ({"eps": "0"}, TypeError, "eps must be an int or a float, got '0'"),
    ({"eps": True}, TypeError, "eps must be an int or a float, got True"),
    ({"mean": 1}, TypeError, "mean must be a bool, got 1"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG, ids=[str(w[0]) for w in WRONG])
def test_wrong_arguments(arguments, error, message):
    x, y = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 1, 1), np.float32)
    for call in (lambda: nb.lp_pool2d(x, 2, 4, **arguments), lambda: nb.global_lp_pool(x, 2, **arguments),
                 lambda: nb.lp_pool2d_backward(y, x, y, 2, 4, **arguments),
                 lambda: nb.global_lp_pool_backward(y, x, y, 2, **arguments)):
        with pytest.raises(error, match=message):
            call()
    if message.endswith("1e"):
        return  # a layer does not know the dtype
    with pytest.raises(error, match=message.replace("float32", "float64")):
        nb.GlobalLPPool(2, **arguments)


def test_bindings_have_first_derivatives():
    autograd = pytest.importorskip("autograd")
    from numba_pool import autograd as ours

    x = data((1, 2, 6, 6))
    windows = {"kernel_size": 3, "stride": 2, "mean": True, "eps": 0.1}
    y = nb.lp_pool2d(x, 3, **windows)
    slope = autograd.elementwise_grad(lambda x: ours.lp_pool2d(x, 3, **windows))
    assert_identical(slope(x), nb.lp_pool2d_backward(np.ones_like(y), x, y, 3, **windows))
    y = nb.global_lp_pool(x, 3)
    whole = autograd.elementwise_grad(lambda x: ours.global_lp_pool(x, 3))
    assert_identical(whole(x), nb.global_lp_pool_backward(np.ones_like(y), x, y, 3))
    with pytest.raises(NotImplementedError, match="lp_pool with mean or eps has first derivatives in reverse mode"):
        autograd.elementwise_grad(slope)(x)


def test_jax_has_first_derivatives():
    jax = pytest.importorskip("jax")
    from numba_pool import jax as ours

    x = data((1, 2, 6, 6)).astype(np.float32)
    windows = {"kernel_size": 3, "stride": 2, "mean": True, "eps": 0.1}
    y = nb.lp_pool2d(x, 3, **windows)
    slope = jax.grad(lambda x: ours.lp_pool2d(x, 3, **windows).sum())
    np.testing.assert_array_equal(slope(x), nb.lp_pool2d_backward(np.ones_like(y), x, y, 3, **windows))
    y = nb.global_lp_pool(x, 3)
    whole = jax.grad(lambda x: ours.global_lp_pool(x, 3).sum())
    np.testing.assert_array_equal(whole(x), nb.global_lp_pool_backward(np.ones_like(y), x, y, 3))
    with pytest.raises(NotImplementedError, match="lp_pool with mean or eps has first derivatives in reverse mode"):
        jax.grad(lambda x: slope(x).sum())(x)


def test_dask_takes_them():
    da = pytest.importorskip("dask.array")
    from numba_pool import dask as ours

    x = data((1, 2, 12, 12))
    y = ours.lp_pool2d(da.from_array(x, chunks=(1, 1, 5, 12)), 3, 3, 2, padding=1, mean=True, eps=0.1)
    assert_identical(y.compute(), nb.lp_pool2d(x, 3, 3, 2, padding=1, mean=True, eps=0.1))
