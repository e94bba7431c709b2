"""The example's own layers: values against plain NumPy, every gradient against finite differences."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import nn

import numba_pool

# channels, features, kernel, stride, padding, relu, shape of x: tails of every tile, and none
CONVOLUTIONS = [
    (1, 16, 3, 1, 1, True, (2, 1, 8, 8)),
    (3, 20, 3, 2, 1, False, (1, 3, 7, 9)),
    (18, 33, 2, 2, 0, True, (3, 18, 5, 4)),
    (16, 16, 5, 3, 2, True, (2, 16, 11, 16)),
    (2, 3, 1, 1, 0, True, (17, 2, 1, 1)),
]


def numeric_directional(function, array, direction, step=1e-6):
    kept = array.copy()
    array[...] = kept + step * direction
    above = function()
    array[...] = kept - step * direction
    below = function()
    array[...] = kept
    return (above - below) / (2 * step)


def check_gradients(layer, x, rng, wanted=("x", "weight", "bias")):
    """d<layer(x), g> in random directions, against backward(g)."""
    g = rng.standard_normal(layer(x).shape)
    dx = layer.backward(g).copy()
    pairs = {"x": (x, dx)}
    if "weight" in wanted:
        pairs |= {name: (getattr(layer, name), getattr(layer, f"grad_{name}").copy()) for name in ("weight", "bias")}
    for name in wanted:
        array, gradient = pairs[name]
        for _ in range(3):
            direction = rng.standard_normal(array.shape)
            numeric = numeric_directional(lambda: float(np.sum(layer(x) * g)), array, direction)
            assert numeric == pytest.approx(float(np.sum(gradient * direction)), rel=1e-6, abs=1e-6), name


def plain_convolution(x, weight, bias, stride, padding, relu):
    n, _, height, width = x.shape
    k, _, _, features = weight.shape
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    rows, cols = (height + 2 * padding - k) // stride + 1, (width + 2 * padding - k) // stride + 1
    y = np.empty((n, features, rows, cols))
    for row in range(rows):
        for col in range(cols):
            window = x[:, :, row * stride : row * stride + k, col * stride : col * stride + k]
            y[:, :, row, col] = np.einsum("ncij,ijcf->nf", window, weight) + bias
    return np.maximum(y, 0) if relu else y


def convolution(case, rng, dtype=np.float64):
    channels, features, kernel, stride, padding, relu, shape = case
    layer = nn.Conv2d(channels, features, kernel, stride, padding, relu=relu, rng=rng, dtype=dtype)
    layer.bias[:] = rng.standard_normal(features)
    return layer, rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_convolution_values(case, dtype):
    layer, x = convolution(case, np.random.default_rng(0), dtype)
    expected = plain_convolution(x, layer.weight, layer.bias, *case[3:6])
    y = layer(x)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-12)
    assert np.moveaxis(y, 1, -1).flags.c_contiguous  # channels last, as the pooling kernels like it


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution_gradients(case):
    rng = np.random.default_rng(1)
    check_gradients(*convolution(case, rng), rng)


def test_convolution_by_hand():
    layer = nn.Conv2d(1, 1, 2, rng=np.random.default_rng(0))
    layer.weight[..., 0, 0] = [[1, 2], [3, 4]]
    layer.bias[0] = 0.5
    x = np.array([[[[1, 0, 0], [0, 1, 0], [0, 0, -2]]]], np.float32)
    np.testing.assert_array_equal(layer(x)[0, 0], [[5.5, 3.5], [2.5, 0]])  # 0.5 + 1 - 8 is cut to 0
    dx = layer.backward(np.ones((1, 1, 2, 2), np.float32))
    np.testing.assert_array_equal(dx[0, 0], [[1, 3, 2], [4, 9, 4], [3, 4, 0]])
    assert layer.grad_bias[0] == 3
    np.testing.assert_array_equal(layer.grad_weight[..., 0, 0], [[1, 1], [1, 1]])


def test_convolution_follows_the_shape_of_its_input():
    """Buffers are kept: their zeros must be where the new shape has its border, and smaller batches must fit."""
    rng = np.random.default_rng(2)
    layer = nn.Conv2d(2, 4, 3, padding=1, rng=rng, dtype=np.float64)
    for shape in [(2, 2, 4, 8), (2, 2, 8, 4), (5, 2, 8, 4), (1, 2, 8, 4), (3, 2, 8, 4)]:
        check_gradients(layer, rng.standard_normal(shape), rng)
        x = rng.standard_normal(shape)
        np.testing.assert_allclose(layer(x), plain_convolution(x, layer.weight, layer.bias, 1, 1, True), atol=1e-12)


def test_first_layer_gives_no_input_gradient():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 1, 6, 6), dtype=np.float32)
    layers = [nn.Conv2d(1, 8, rng=np.random.default_rng(0), input_gradient=wanted) for wanted in (True, False)]
    g = rng.standard_normal(layers[0](x).shape, dtype=np.float32)
    layers[1](x)
    assert layers[0].backward(g).shape == x.shape
    assert layers[1].backward(g) is None
    np.testing.assert_array_equal(layers[0].grad_weight, layers[1].grad_weight)


@pytest.mark.parametrize(
    ("n", "fan_in", "features", "relu"), [(1, 1, 1, False), (3, 40, 10, False), (33, 17, 21, True)]
)
def test_linear(n, fan_in, features, relu):
    rng = np.random.default_rng(4)
    layer = nn.Linear(fan_in, features, relu=relu, rng=rng, dtype=np.float64)
    layer.bias[:] = rng.standard_normal(features)
    x = rng.standard_normal((n, fan_in))
    expected = x @ layer.weight.T + layer.bias
    np.testing.assert_allclose(layer(x), np.maximum(expected, 0) if relu else expected, atol=1e-12)
    check_gradients(layer, x, rng)
    check_gradients(layer, rng.standard_normal((n + 5, fan_in)), rng)


def test_flatten_copies_nothing_and_comes_back():
    flatten = nn.Flatten()
    x = np.moveaxis(np.arange(24.0).reshape(2, 2, 2, 3), -1, 1)
    y = flatten(x)
    assert np.shares_memory(x, y)
    np.testing.assert_array_equal(y, np.arange(24.0).reshape(2, 12))
    np.testing.assert_array_equal(flatten.backward(y), x)


@pytest.mark.parametrize(
    "pool", [numba_pool.MaxPool2d(2), numba_pool.AvgPool2d(2), numba_pool.GlobalAvgPool()], ids=repr
)
def test_gradients_of_pooling_in_the_memory_order_of_the_example(pool):
    rng = np.random.default_rng(5)
    x = np.moveaxis(rng.permutation(2 * 6 * 4 * 3).reshape(2, 6, 4, 3) / 7, -1, 1)  # no ties, none near
    check_gradients(pool, x, rng, wanted=("x",))


def small_network(rng, dtype=np.float64):
    return nn.Sequential(
        nn.Conv2d(1, 4, padding=1, input_gradient=False, rng=rng, dtype=dtype),
        numba_pool.MaxPool2d(2),
        nn.Conv2d(4, 6, 2, stride=2, rng=rng, dtype=dtype),
        numba_pool.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(6, 7, rng=rng, dtype=dtype),
        nn.Linear(7, 10, relu=False, rng=rng, dtype=dtype),
    )


def test_gradient_of_a_whole_network():
    rng = np.random.default_rng(6)
    network = small_network(rng)
    x, labels = rng.standard_normal((5, 1, 8, 8)), rng.integers(0, 10, 5)
    _, g = nn.softmax_cross_entropy(network(x), labels)
    network.backward(g)
    gradients = network.gradients.copy()
    assert np.count_nonzero(gradients) > gradients.size // 2
    for _ in range(5):
        direction = rng.standard_normal(gradients.shape)
        numeric = numeric_directional(
            lambda: nn.softmax_cross_entropy(network(x), labels)[0], network.values, direction, 1e-7
        )
        assert numeric == pytest.approx(float(gradients @ direction), rel=1e-5)


def test_sequential_keeps_all_weights_in_one_array():
    network = small_network(np.random.default_rng(7))
    assert (
        network.values.size == sum(getattr(layer, "weight", np.empty(0)).size for layer in network.layers) + 4 + 6 + 17
    )
    network.values[:] = 3
    network.gradients[:] = 4
    for layer in network.layers:
        if hasattr(layer, "weight"):
            assert np.all(layer.weight == 3)
            assert np.all(layer.bias == 3)
            assert np.all(layer.grad_weight == 4)
            assert np.all(layer.grad_bias == 4)


def test_threads_do_not_change_the_result():
    results = []
    for threads in (1, numba_pool.get_num_threads()):
        with numba_pool.threads(threads):
            rng = np.random.default_rng(8)
            network = small_network(rng, np.float32)
            optimizer = nn.SGD(network, 0.1)
            for _ in range(3):
                x, labels = rng.standard_normal((40, 1, 8, 8), dtype=np.float32), rng.integers(0, 10, 40)
                network.backward(nn.softmax_cross_entropy(network(x), labels)[1])
                optimizer.step()
            results.append(network.values.copy())
    np.testing.assert_array_equal(results[0], results[1])


def test_softmax_cross_entropy():
    loss, gradient = nn.softmax_cross_entropy(np.zeros((2, 4)), np.array([0, 3]))
    assert loss == pytest.approx(np.log(4))
    np.testing.assert_allclose(gradient, [[-0.375, 0.125, 0.125, 0.125], [0.125, 0.125, 0.125, -0.375]])
    loss, gradient = nn.softmax_cross_entropy(np.array([[1000.0, 0.0]]), np.array([1]))  # would overflow unshifted
    assert loss == 1000
    np.testing.assert_array_equal(gradient, [[1, -1]])
    rng = np.random.default_rng(9)
    logits, labels = rng.standard_normal((5, 10)), rng.integers(0, 10, 5)
    gradient = nn.softmax_cross_entropy(logits, labels)[1]
    direction = rng.standard_normal(logits.shape)
    numeric = numeric_directional(lambda: nn.softmax_cross_entropy(logits, labels)[0], logits, direction)
    assert numeric == pytest.approx(float(np.sum(gradient * direction)), rel=1e-6)


def one_weight():
    network = nn.Sequential(nn.Linear(1, 1, rng=np.random.default_rng(0), dtype=np.float64))
    network.values[:] = 0
    network.gradients[:] = [1, -2]
    return network


def test_sgd_by_hand():
    network = one_weight()
    optimizer = nn.SGD(network, 0.1, momentum=0.5)
    optimizer.step()  # velocity = gradient
    np.testing.assert_allclose(network.values, [-0.1, 0.2])
    optimizer.step()  # velocity = 1.5 * gradient
    np.testing.assert_allclose(network.values, [-0.25, 0.5])
    np.testing.assert_allclose(optimizer.state["velocity"], [1.5, -3])


def test_adam_by_hand():
    network = one_weight()
    optimizer = nn.Adam(network, 0.1)
    for step in (1, 2):  # with a constant gradient both means, unbiased, are exact: every step is the rate
        optimizer.step()
        np.testing.assert_allclose(network.values, [-0.1 * step, 0.1 * step], rtol=1e-6)
    network.gradients[:] = 0
    optimizer.step()
    mean, square = (0.1 + 0.09) * 0.9, (1e-3 + 0.999e-3) * 0.999
    step = 0.1 * (mean / (1 - 0.9**3)) / np.sqrt(square / (1 - 0.999**3))
    np.testing.assert_allclose(network.values, [-0.2 - step, 0.2 + step], rtol=1e-6)


def test_nan_is_not_hidden_by_relu():
    layer = nn.Conv2d(1, 2, 1, rng=np.random.default_rng(0))
    assert np.isnan(layer(np.full((1, 1, 2, 2), np.nan, np.float32))).all()
    assert np.isnan(nn.Linear(3, 2, rng=np.random.default_rng(0))(np.full((1, 3), np.nan, np.float32))).all()


def test_errors():
    rng = np.random.default_rng(0)
    layer = nn.Conv2d(2, 3, 3, rng=rng)
    with pytest.raises(RuntimeError, match=r"Conv2d\.backward needs a forward in training mode"):
        layer.backward(np.zeros((1, 3, 2, 2)))
    with pytest.raises(ValueError, match=r"\(N, 2, H, W\), H and W at least 3, got \(1, 3, 4, 4\)"):
        layer(np.zeros((1, 3, 4, 4)))
    with pytest.raises(ValueError, match=r"got \(1, 2, 2, 4\)"):
        layer(np.zeros((1, 2, 2, 4)))
    layer(np.zeros((1, 2, 4, 4)))
    with pytest.raises(ValueError, match=r"grad_output must have shape \(1, 3, 2, 2\), got \(1, 3, 3, 3\)"):
        layer.backward(np.zeros((1, 3, 3, 3)))
    layer.eval()(np.zeros((1, 2, 4, 4)))
    with pytest.raises(RuntimeError, match="training mode"):
        layer.backward(np.zeros((1, 3, 2, 2)))
    with pytest.raises(ValueError, match=r"padding must be in \[0, kernel_size = 3\), got 3"):
        nn.Conv2d(1, 1, 3, padding=3, rng=rng)
    with pytest.raises(ValueError, match="stride must be at least 1, got 0"):
        nn.Conv2d(1, 1, 3, stride=0, rng=rng)
    linear = nn.Linear(4, 2, rng=rng)
    with pytest.raises(ValueError, match=r"\(N, 4\), got \(1, 5\)"):
        linear(np.zeros((1, 5)))
    linear(np.zeros((1, 4)))
    with pytest.raises(ValueError, match=r"grad_output must have shape \(1, 2\), got \(2, 1\)"):
        linear.backward(np.zeros((2, 1)))
