"""`numba_pool.autograd`: the core's results bit for bit, and derivatives in both modes to the second order."""

import inspect

import numpy as np
import pytest
import reference

import numba_pool as nb

autograd = pytest.importorskip("autograd")
import autograd.numpy as anp  # noqa: E402
from autograd.test_util import check_grads  # noqa: E402

import numba_pool.autograd as pool  # noqa: E402

SAMPLES = np.random.default_rng(1).random((2, 3, 2))
CALLS = {
    "max": lambda x: pool.max_pool2d(x, 3, 2, 1),
    "average": lambda x: pool.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "norm 2": lambda x: pool.lp_pool2d(x, 2, 3, 2, ceil_mode=True),
    "norm 3": lambda x: pool.lp_pool2d(x, 3, 3, 2, padding=1),
    "adaptive max": lambda x: pool.adaptive_max_pool2d(x, 3),
    "adaptive average": lambda x: pool.adaptive_avg_pool2d(x, 3),
    "fractional": lambda x: pool.fractional_max_pool2d(x, 2, 3, random_samples=SAMPLES),
    "unpool": lambda x: pool.max_unpool2d(x, np.tile(np.arange(0, 72, 2).reshape(6, 6), (2, 3, 1, 1)), 2),
    "global max": pool.global_max_pool,
    "global average": pool.global_avg_pool,
}


def data():
    """Elements of which no two are near, nor one near zero."""
    return (np.random.default_rng(0).permutation(216).reshape(2, 3, 6, 6) - 107.5) / 50


@pytest.mark.parametrize("name", CALLS)
def test_derivatives_against_differences(name):
    np.random.seed(0)  # noqa: NPY002 (what check_grads draws from)
    check_grads(lambda x: anp.sin(CALLS[name](x)), modes=["rev", "fwd"], order=2)(data())


@pytest.mark.parametrize("name", ["global_max_pool", "global_min_pool", "global_avg_pool", "global_sum_pool"])
@pytest.mark.parametrize("axis", range(-4, 4))
def test_global_pooling_with_channels_at_any_axis(name, axis):
    def step(x, axis):
        vjp, y = autograd.make_vjp(lambda x: getattr(pool, name)(x, channel_axis=axis))(x)
        return y, vjp(np.cos(y))

    for came, expected in zip(step(np.moveaxis(data(), 1, axis), axis), step(data(), None)):
        np.testing.assert_array_equal(came, np.moveaxis(expected, 1, axis))
    with pytest.raises(ValueError, match="channel_axis must lie in"):
        step(data(), 4)


def test_gradients_are_the_cores():
    x = data()
    y, indices = nb.max_pool2d(x, 3, 2, 1, return_indices=True)
    vjp, value = autograd.make_vjp(CALLS["max"])(x)
    np.testing.assert_array_equal(value, y)
    np.testing.assert_array_equal(vjp(np.cos(y)), nb.max_pool2d_backward(np.cos(y), indices, x.shape))
    vjp, y = autograd.make_vjp(CALLS["average"])(x)
    np.testing.assert_array_equal(y, nb.avg_pool2d(x, 3, 2, 1, count_include_pad=False))
    np.testing.assert_array_equal(vjp(y), nb.avg_pool2d_backward(y, x.shape, 3, 2, 1, count_include_pad=False))
    vjp, y = autograd.make_vjp(CALLS["norm 2"])(x)
    np.testing.assert_array_equal(vjp(y), nb.lp_pool2d_backward(y, x, y, 2, 3, 2, ceil_mode=True))


def test_indices_and_arrays_that_are_not_differentiated():
    x = data()
    y, indices = pool.max_pool2d(x, 2, return_indices=True)
    assert type(y) is np.ndarray

    def restored(x):
        y, i = pool.max_pool2d(x, 2, return_indices=True)
        np.testing.assert_array_equal(i, indices)
        return anp.sum(pool.max_unpool2d(y, i, 2) ** 2)

    np.testing.assert_array_equal(autograd.grad(restored)(x), nb.max_unpool2d(2 * y, indices, 2))


def test_norms_without_second_derivatives_say_so():
    x, slope = data(), autograd.grad(lambda x: anp.sum(pool.lp_pool2d(x, np.inf, 2)))
    assert np.abs(slope(x)).sum() == 54
    with pytest.raises(NotImplementedError, match="norm_type=inf"):
        autograd.grad(lambda x: anp.sum(slope(x) ** 2))(x)


@pytest.mark.parametrize("p", [2, 8, 3.5, 40])
def test_second_derivatives_of_norms_of_extreme_numbers(p):
    """Very small and very large windows side by side, and one of zeros; padded and dilated, as they may be."""
    scales = 1e-60, 1, 0, 1e-300, 1e300
    x = np.concatenate([np.array([1.0, -0.9, 0.8, 1.1]) * scale for scale in scales])
    v = np.linspace(-1, 2, len(x))
    slope = autograd.grad(lambda x: anp.sum(pool.lp_pool1d(x[None, None], p, 4, 4)))
    second = autograd.grad(lambda x: anp.dot(slope(x), v))(x)
    expected = [reference.norm_gradient_derivative(*pair, p) for pair in zip(x.reshape(-1, 4), v.reshape(-1, 4))]
    np.testing.assert_allclose(second, np.ravel(expected), rtol=1e-11)

    x = np.array([2e-100, 3e100, -1e-100, -4e100, 5.0, 3e100])  # in windows of one or two elements, every other one
    slope = autograd.grad(lambda x: anp.sum(pool.lp_pool1d(x[None, None], p, 2, 1, padding=1, dilation=2)))
    second, expected = autograd.grad(lambda x: anp.sum(slope(x)))(x), np.zeros(6)
    for window in ([1], [0, 2], [1, 3], [2, 4], [3, 5], [4]):
        expected[window] += reference.norm_gradient_derivative(x[window], [1, 1], p)
    assert (abs(second - expected) <= 1e-13 * p / abs(x)).all()  # beside the summands, of which two may cancel out


def test_errors_are_the_cores():
    grad = autograd.elementwise_grad
    for bad, error, text in [
        (lambda x: pool.max_pool2d(x, 0), ValueError, "kernel_size"),
        (lambda x: pool.max_pool2d(x, 2, out=x), TypeError, r"max_pool2d\(\).*'out'"),
        (lambda x: pool.max_pool2d(x, 2, return_indices=1), TypeError, "return_indices"),
        (lambda x: pool.global_avg_pool(x[0, 0]), ValueError, "3 to 5 axes"),
    ]:
        with pytest.raises(error, match=text):
            grad(bad)(data())


def test_signatures_and_documentation():
    core = inspect.signature(nb.max_pool2d).parameters
    dropped = {"out", "nan_policy", "where"}
    assert list(inspect.signature(pool.max_pool2d).parameters) == [name for name in core if name not in dropped]
    with pytest.raises(TypeError, match="unexpected keyword argument 'nan_policy'"):
        pool.max_pool2d(np.ones((1, 2, 2)), 2, nan_policy="omit")
    for name in nb.__all__:
        if name[0].isupper() or "pool" not in name or name.endswith(("_backward", "empty_pool")):
            continue
        if name.startswith("segment_"):
            continue
        text, scope = getattr(pool, name).__doc__, {}
        lines = [line[4:] for line in text.splitlines() if line.startswith(">>> ")]
        exec("\n".join(lines[:-1]), scope)
        assert str(eval(lines[-1], scope)) == text.rstrip().splitlines()[-1]


def test_minima_and_sums():
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 9))
    y, indices = nb.min_pool2d(x, 3, 2, 1, return_indices=True)
    g = autograd.grad(lambda v: pool.min_pool2d(v, 3, 2, 1).sum())(x)
    np.testing.assert_array_equal(g, nb.min_pool2d_backward(np.ones_like(y), indices, x.shape))
    g = autograd.grad(lambda v: pool.sum_pool2d(v, 3, 2, 1).sum())(x)
    np.testing.assert_array_equal(g, nb.sum_pool2d_backward(np.ones(y.shape), x.shape, 3, 2, 1))
    last = np.moveaxis(x, 1, -1)
    g = autograd.grad(lambda v: pool.max_pool2d(v, 2, channel_axis=-1).sum())(last)
    np.testing.assert_array_equal(np.moveaxis(g, -1, 1), autograd.grad(lambda v: pool.max_pool2d(v, 2).sum())(x))
