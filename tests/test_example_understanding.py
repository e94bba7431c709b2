"""The short scripts in examples/ that explain pooling: they run, and the numbers they show are right."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import batch_gradients
import data
import downsampling
import equivariance
import gradient_check
import gradient_routing
import nn
import receptive_field
import translation_invariance
from matplotlib.image import imread

import numba_pool

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = {
    "gradient_routing": [],
    "translation_invariance": ["--images", "5"],
    "downsampling": ["--subset", "100", "--epochs", "1", "--seeds", "2"],
    "batch_gradients": ["--batch-size", "4"],
    "gradient_check": ["LPPool2d(3, 2)", "--shape", "1", "2", "4", "4"],
    "receptive_field": [],
    "equivariance": ["--images", "5"],
}
PICTURES = {name: ["equivariance", "presence"] if name == "equivariance" else [name] for name in SCRIPTS}


@pytest.fixture(autouse=True)
def threads():
    before = numba_pool.get_num_threads()
    yield
    numba_pool.set_num_threads(before)


@pytest.mark.parametrize(("name", "options"), SCRIPTS.items(), ids=list(SCRIPTS))
def test_from_the_command_line(name, options, tmp_path, monkeypatch, capsys):
    """Each in a folder of its own, with its default picture; the first in a process of its own."""
    command = [str(EXAMPLES / f"{name}.py"), *options]
    if name == next(iter(SCRIPTS)):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                              check=True)
        out = done.stdout
    else:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit, match="0"):
            runpy.run_path(command[0], run_name="__main__")
        out = capsys.readouterr().out
    for picture in PICTURES[name]:
        assert f"picture:  plots/{picture}.png" in out
        image = imread(tmp_path / "plots" / f"{picture}.png")
        assert min(image.shape[:2]) > 250
        assert image.std() > 0.02  # something is drawn


@pytest.mark.parametrize("name", [name for pictures in PICTURES.values() for name in pictures])
def test_committed_pictures(name):
    path = EXAMPLES / "images" / f"{name}.png"
    assert path.stat().st_size < 150_000
    assert min(imread(path).shape[:2]) > 250


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (translation_invariance, ["--images", "0"], "--images must be at least 1, got 0"),
        (equivariance, ["--images", "0"], "--images must be at least 1, got 0"),
        (downsampling, ["--seeds", "0"], "--seeds must be at least 1, got 0"),
        (batch_gradients, ["--batch-size", "1"], r"--batch-size must be in 2\.\.1442, got 1"),
        (gradient_check, ["MaxPool2d(2)"], "a layer and --shape go together"),
        (gradient_check, ["print(2)", "--shape", "2"], r"a layer is written like .*, got 'print\(2\)'"),
        (gradient_check, ["MaxPool2d(2)", "--shape", "3"], r"MaxPool2d\(2\): x must"),
        (gradient_check, ["--step", "0"], "--step must be positive, got 0"),
    ],
)
def test_wrong_options(module, options, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        module.main(options)
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize("module", [translation_invariance, downsampling])
def test_missing_data(module, tmp_path, capsys):
    assert module.main(["--data-dir", str(tmp_path)]) == 2
    assert "error: " in capsys.readouterr().err


# ---- gradient_routing ------------------------------------------------------------------------------------------------


def test_routing_without_overlap():
    (x, window), upstream = gradient_routing.CASES["2x2 windows, stride 2"], gradient_routing.UPSTREAM
    routed = gradient_routing.route(x, upstream, **window)
    np.testing.assert_array_equal(routed["indices"], [[5, 6], [9, 15]])
    np.testing.assert_array_equal(routed["max"], [[7, 8], [6, 9]])
    np.testing.assert_array_equal(routed["max_gradient"], [[0, 0, 0, 0], [0, 1, 2, 0], [0, 3, 0, 0], [0, 0, 0, 4]])
    np.testing.assert_array_equal(routed["avg"], [[3.75, 3.75], [3.25, 3.75]])
    np.testing.assert_array_equal(routed["avg_gradient"], np.kron(upstream / 4, np.ones((2, 2))))


def test_routing_with_overlap():
    (x, window) = gradient_routing.CASES["3x3 windows, stride 2,\npadding 1: they overlap"]
    routed = gradient_routing.route(x, gradient_routing.UPSTREAM, **window)
    np.testing.assert_array_equal(routed["indices"], [[5, 6], [5, 15]])
    np.testing.assert_array_equal(routed["max_gradient"], [[0, 0, 0, 0], [0, 1 + 3, 2, 0], [0, 0, 0, 0], [0, 0, 0, 4]])
    a, b, c, d = 1 / 4, 2 / 6, 3 / 6, 4 / 9  # what each output sends to every input of its window
    expected = [
        [a, a + b, b, b],
        [a + c, a + b + c + d, b + d, b + d],
        [c, c + d, d, d],
        [c, c + d, d, d],
    ]
    np.testing.assert_allclose(routed["avg_gradient"], expected, rtol=1e-14)


def test_routing_of_ties():
    (x, window) = gradient_routing.CASES["2x2 windows, stride 2,\nwith ties"]
    routed = gradient_routing.route(x, gradient_routing.UPSTREAM, **window)
    np.testing.assert_array_equal(routed["indices"], [[0, 3], [8, 14]])
    np.testing.assert_array_equal(routed["max_gradient"], [[1, 0, 0, 2], [0, 0, 0, 0], [3, 0, 0, 0], [0, 0, 4, 0]])


@pytest.mark.parametrize("case", gradient_routing.CASES)
def test_routing_loses_nothing_and_the_drawn_windows_are_those_used(case):
    x, window = gradient_routing.CASES[case]
    routed = gradient_routing.route(x, gradient_routing.UPSTREAM, **window)
    for kind in ("max", "avg"):
        assert routed[f"{kind}_gradient"].sum() == pytest.approx(10, rel=1e-14)
        np.testing.assert_allclose(routed[f"{kind}_parts"].sum(0), routed[f"{kind}_gradient"], rtol=1e-14)
    edges = gradient_routing.window_edges(**window)
    for part, (top, left, bottom, right) in zip(routed["avg_parts"], edges, strict=True):
        inside = np.zeros((4, 4), bool)
        inside[top:bottom, left:right] = True
        np.testing.assert_array_equal(part != 0, inside)


def test_routing_shows_the_terms_of_a_sum():
    parts = np.array([[[1.0, 1 / 3]], [[0, 0.5]]])
    assert gradient_routing.sums(parts.sum(0), parts).tolist() == [["1", ".33+.5\n= .83"]]


# ---- translation_invariance ------------------------------------------------------------------------------------------


def test_a_single_pixel_is_invariant_inside_a_window_and_nowhere_else():
    measured = translation_invariance.measure(translation_invariance.single_pixel(), (2, 4, 8), 0)
    for (window, name), change in measured.items():
        assert change.shape == (9, 1)
        assert change[0] == 0
        if name == "strided convolution":
            assert np.all(change[1:] > 0.3)
        else:
            np.testing.assert_array_equal(change[:window], 0)
            np.testing.assert_allclose(change[window:], np.sqrt(2), rtol=1e-6)  # gone from one place, new in another


def test_shifts_and_canvas():
    images = np.random.default_rng(0).random((3, 1, 6, 5)) + 0.1
    canvas = translation_invariance.on_canvas(images)
    assert canvas.shape == (3, 1, 24, 24)
    np.testing.assert_array_equal(np.sort(canvas[canvas > 0]), np.sort(images.ravel()))
    shifted = translation_invariance.shifts(canvas)
    np.testing.assert_array_equal(shifted[3, ..., 3:], canvas[..., :-3])
    np.testing.assert_allclose(shifted.sum((2, 3, 4)), np.broadcast_to(images.sum((1, 2, 3)), (9, 3)))
    with pytest.raises(ValueError, match="the last 8 columns must be empty"):
        translation_invariance.shifts(images)


def test_enlarged_images():
    ramp = np.arange(4.0).reshape(1, 1, 1, 4).repeat(2, axis=2)
    row = [0, 0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3, 2, 7 / 3, 8 / 3, 3, 3]
    np.testing.assert_allclose(translation_invariance.enlarge(ramp), np.broadcast_to(row, (1, 1, 6, 12)), atol=1e-15)


def test_order_of_the_operations_on_digits():
    images = translation_invariance.on_canvas(translation_invariance.enlarge(data.load_bundled().test_images[:50]))
    mean = {key: change.mean(1) for key, change in translation_invariance.measure(images, (2, 4, 8), 0).items()}
    for window in (4, 8):
        assert np.all(mean[window, "max"][2:] < mean[window, "average"][2:])
        assert np.all(mean[window, "average"][1:] < mean[window, "strided convolution"][1:])
    for kind in ("max", "average"):
        assert np.all(mean[8, kind][1:] < mean[4, kind][1:])
        assert np.all(mean[4, kind][1:] < mean[2, kind][1:])
    assert np.all(np.diff(mean[2, "max"]) > 0)  # digits are wider than any window: no shift leaves them as they are


# ---- receptive_field -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [receptive_field.LAYERS, [("pool", 3, 2), ("conv", 5, 1), ("pool", 3, 3)]])
def test_receptive_field_is_where_a_gradient_arrives(layers):
    side = receptive_field.SIDE
    for count, (r, jump) in enumerate(receptive_field.receptive_fields(layers), 1):
        counts = receptive_field.paths(layers[:count])
        first, last = receptive_field.extent(counts)
        assert last - first + 1 == r
        np.testing.assert_array_equal(counts, counts.T)
        kernels = np.prod([kernel for _, kernel, _ in layers[:count]])
        assert counts.sum() == kernels**2  # each output has a path to every element of its window
        assert first % jump == 0
        assert 0 < first < last < side - 1  # no border took part


def test_the_drawn_field_is_in_the_middle():
    first, last = receptive_field.extent(receptive_field.paths(receptive_field.LAYERS))
    assert first + last == receptive_field.SIDE - 1


# ---- equivariance ----------------------------------------------------------------------------------------------------


def test_edges_of_a_step():
    step = np.zeros((1, 1, 5, 6), np.float32)
    step[..., 3:] = 0.5
    found = equivariance.edges()(step)[0, 0, 1:-1, :-1]
    np.testing.assert_allclose(found, np.broadcast_to([0, 0, 0.5, 0.5, 0], (3, 5)))


def test_a_convolution_moves_along_and_a_global_maximum_stays():
    moved, local, whole, back = equivariance.changes(equivariance.digits(20)).values()
    np.testing.assert_array_equal(back, 0)
    np.testing.assert_array_equal(whole, 0)
    assert np.all(moved[1:] > 0.5)
    assert np.all(local[1:] > 0.1)
    assert np.all(local[1:] < 0.8 * moved[1:])


def test_averages_smooth_noise_and_maxima_follow_it():
    pooled = equivariance.smoothing()
    assert pooled["none"] == pytest.approx((0, 0.2), abs=0.001)
    assert pooled["average"] == pytest.approx((0, 0.2 / 3), abs=0.001)
    assert pooled["max"][0] == pytest.approx(1.485 * 0.2, abs=0.002)  # expected of nine normal numbers: 1.485
    assert pooled["average"][1] < pooled["max"][1] < pooled["none"][1]


# ---- batch_gradients -------------------------------------------------------------------------------------------------


def test_gradient_of_a_batch_is_the_mean_over_its_examples():
    digits = data.subset(data.load_bundled(), 7, 0)
    images, labels = digits.train_images.astype(np.float64), digits.train_labels
    network = batch_gradients.make_network(0)
    batch = batch_gradients.gradient(network, images, labels)
    single = batch_gradients.gradients_one_by_one(network, images, labels)
    assert single.shape == (7, batch.size)
    assert np.count_nonzero(batch) > batch.size / 2
    np.testing.assert_allclose(single.mean(0), batch, rtol=0, atol=1e-14 * np.abs(batch).max())
    assert batch_gradients.difference(single.mean(0), batch) < 1e-14
    assert batch_gradients.difference(single.sum(0), batch) == pytest.approx(6)
    assert (
        batch_gradients.difference(batch_gradients.gradient_through_first_maxima(network, images, labels), batch) > 0.05
    )
    # and with a batch of one there is nothing that could be mixed up
    alone = batch_gradients.gradient_through_first_maxima(network, images[:1], labels[:1])
    np.testing.assert_array_equal(alone, single[0])
    # the gradient behind the first pool: one place a window, and in a batch the same divided by its size
    routed = batch_gradients.first_pool(network, images, labels, 3)
    assert np.all((routed.reshape(7, 4, 2, 4, 2) != 0).sum((2, 4)) <= 1)
    _, upstream = nn.softmax_cross_entropy(network(images), labels)
    for layer in network.layers[:0:-1]:
        upstream = layer.backward(upstream)
    np.testing.assert_allclose(upstream[:, 3], routed / 7, rtol=1e-10, atol=1e-15)


# ---- gradient_check --------------------------------------------------------------------------------------------------


OVERLAPPING = {"MaxUnpool2d(3, stride=2, padding=1)": (1, 1, 4, 4), "MaxUnpool1d(3, 1)": (2, 1, 5)}


@pytest.mark.parametrize(("text", "shape"), (gradient_check.EXAMPLES | OVERLAPPING).items())
def test_gradient_check_of_every_kind(text, shape):
    layer = gradient_check.make(text)
    x, *others = gradient_check.make_input(layer, shape)
    kept = x.copy()
    gradient, differences = gradient_check.compare(layer, x, *others)
    assert gradient_check.error(gradient, differences) < gradient_check.TOLERANCE
    assert np.any(gradient)
    np.testing.assert_array_equal(x, kept)
    sizes = [x.size, *(getattr(layer, name).size for name in ("weight", "bias") if hasattr(layer, name))]
    assert gradient.size == differences.size == sum(sizes)


class AverageThatForgetsItsDivisor(nn.Layer):
    def forward(self, x):
        self.shape = x.shape
        return numba_pool.avg_pool2d(x, 2)

    def backward(self, grad_output):
        return 4 * numba_pool.avg_pool2d_backward(grad_output, self.shape, 2)


def test_gradient_check_finds_a_wrong_backward():
    x = np.random.default_rng(0).random((1, 1, 4, 4))
    assert gradient_check.error(*gradient_check.compare(AverageThatForgetsItsDivisor(), x)) == pytest.approx(0.75)
    assert gradient_check.error(np.array([1.0, 2]), np.array([1.0, 1])) == 0.5


def test_gradient_check_fails_by_its_exit_code(capsys, tmp_path):
    picture = ["--output", str(tmp_path / "a" / "b.png")]
    assert gradient_check.main(["MaxPool2d(2)", "--shape", "1", "1", "4", "4", *picture]) == 0
    assert capsys.readouterr().out.startswith("ok    ")
    # steps larger than the distance between the elements: the maximum changes its place
    assert gradient_check.main(["MaxPool2d(2)", "--shape", "1", "1", "4", "4", "--step", "0.5", *picture]) == 1
    assert capsys.readouterr().out.startswith("WRONG ")
    assert (tmp_path / "a" / "b.png").is_file()


# ---- downsampling ----------------------------------------------------------------------------------------------------


def attention(channels=3, shape=(4, 3, 2, 5)):
    rng = np.random.default_rng(0)
    pool = downsampling.AttentionPool(channels, np.float64)
    pool.weight[:] = rng.standard_normal(channels)
    return pool, rng.standard_normal(shape)


def test_attention_by_hand():
    pool = downsampling.AttentionPool(1, np.float64)
    pool.weight[:] = np.log(3)
    x = np.array([[[[0.0, 1.0]]]])  # scores 0 and log 3: a quarter and three quarters
    np.testing.assert_allclose(pool(x), [[0.75]])
    np.testing.assert_allclose(pool.attention, [[0.25, 0.75]])
    # y = sum a x; dy/dw = var(x) = 3/16, dy/dx = a (1 + w (x - y))
    dx = pool.backward(np.array([[1.0]]))
    np.testing.assert_allclose(pool.grad_weight, 3 / 16)
    np.testing.assert_allclose(dx[0, 0, 0], [0.25 * (1 - 0.75 * np.log(3)), 0.75 * (1 + 0.25 * np.log(3))])


def test_attention_gradients():
    pool, x = attention()
    assert gradient_check.error(*gradient_check.compare(pool, x)) < 1e-8
    np.testing.assert_allclose(pool.attention.sum(1), 1)
    huge = pool(1e4 * x)  # no overflow
    assert np.all(np.isfinite(huge))


def test_attention_with_zero_weights_is_the_global_average():
    _, x = attention()
    pool = downsampling.AttentionPool(3, np.float64)
    np.testing.assert_allclose(pool(x), numba_pool.global_avg_pool(x)[..., 0, 0])
    g = np.random.default_rng(1).standard_normal((4, 3))
    expected = numba_pool.global_avg_pool_backward(g[..., np.newaxis, np.newaxis], x.shape)
    np.testing.assert_allclose(pool.backward(g), expected)


@pytest.mark.parametrize("way", downsampling.WAYS)
def test_networks_differ_in_one_layer_and_learn(way):
    network = downsampling.build(*downsampling.WAYS[way], (8, 8), np.random.default_rng(0))
    assert len(set(map(id, network.layers))) == len(network.layers)
    full_size = way.startswith("none")
    first_pool, halve = network.layers[1], network.layers[3]
    expected = {
        "max 3x3 / 2": "MaxPool2d(kernel_size=3, stride=2, padding=((1, 0), (1, 0)))",
        "average 2x2": "AvgPool2d(kernel_size=2)",
    }.get(way, "MaxPool2d(kernel_size=2)")
    if full_size:
        assert [type(layer) for layer in network.layers[:2]] == [nn.Conv2d] * 2
        assert network.layers[1](network.layers[0](np.ones((1, 1, 8, 8), np.float32))).shape == (1, 32, 8, 8)
    elif way == "strided conv 2x2":
        assert (halve.kernel_size, halve.stride, halve.features) == (2, 2, 32)
    else:
        assert repr(halve) == repr(first_pool) == expected
    convolutions = 16 * 9 + 16 + 32 * 16 * 9 + 32
    dense, single = 32 * (64 if full_size else 4) * 128 + 128 + 1290, 330
    extra = {"strided conv 2x2": 4 * 16 * 16 + 16 + 4 * 32 * 32 + 32, "max, attention": 32}.get(way, 0)
    assert network.values.size == convolutions + (single if ", " in way else dense) + extra

    digits = data.subset(data.load_bundled(), 600, 0)
    accuracy, on_train, seconds, weights = downsampling.train(way, options(epochs=8), digits, 0)
    least = 0.15 if way == "none, global average" else 0.5  # a guess is right in 10 %
    assert accuracy > least
    assert on_train > least
    assert accuracy != on_train
    assert seconds > 0
    assert weights == network.values.size


def test_the_seed_decides():
    digits = data.subset(data.load_bundled(), 600, 0)
    accuracies = [downsampling.train("max 2x2", options(epochs=1), digits, seed)[0] for seed in (0, 0, 1, 2)]
    assert accuracies[0] == accuracies[1]
    assert len(set(accuracies)) > 1


def options(epochs):
    return downsampling.train_mnist.parse_options(["--epochs", str(epochs), "--lr", "0.05", "--lr-decay", "0.9"])


def test_sequential_trains_the_attention():
    network = downsampling.build("max", "attention", (8, 8), np.random.default_rng(0))
    pool = next(layer for layer in network.layers if isinstance(layer, downsampling.AttentionPool))
    assert np.shares_memory(pool.weight, network.values)
    assert np.shares_memory(pool.grad_weight, network.gradients)
    digits = data.subset(data.load_bundled(), 64, 0)
    run = downsampling.train_mnist.Run(network, nn.SGD(network, 0.05))
    downsampling.train_mnist.train_batch(run, digits.train_images, digits.train_labels)
    assert np.any(pool.weight)
