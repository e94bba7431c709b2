"""Layers: a function, what its backward needs, and nothing else."""

import copy
import inspect
import pickle
import re

import numpy as np
import pytest
from checks import assert_identical, unmodified
from operations import unpool_indices

import numba_pool as nb

SPATIAL = {1: (9,), 2: (7, 8), 3: (4, 5, 6)}


def cases():
    """(layer, shape of x, the function it stands for, its backward as a call of (g, x, result))."""
    for rank, spatial in SPATIAL.items():
        shape = (2, 3, *spatial)
        for family, arguments in (
            ("max", {"kernel_size": 2}),
            ("max", {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 1, "ceil_mode": True}),
            ("max", {"kernel_size": 2, "return_indices": True}),
            ("avg", {"kernel_size": 2}),
            ("avg", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}),
            ("avg", {"kernel_size": 2, "stride": 1, "dilation": 2, "divisor_override": 3}),
            ("lp", {"norm_type": 2, "kernel_size": 2}),
            ("lp", {"norm_type": 3, "kernel_size": 3, "stride": 1, "padding": 1, "ceil_mode": True, "dilation": 1}),
            ("adaptive_max", {"output_size": 2}),
            ("adaptive_max", {"output_size": 3, "return_indices": True}),
            ("adaptive_avg", {"output_size": 3}),
            ("fractional_max", {"kernel_size": 2, "output_size": 2, "rng": 0}),
            ("fractional_max", {"kernel_size": 2, "output_ratio": 0.5, "rng": 0, "return_indices": True}),
        ):
            if family == "fractional_max" and rank == 1:
                continue
            name = {"lp": "LP"}.get(family) or family.title().replace("_", "")
            yield f"{name}Pool{rank}d", f"{family}_pool{rank}d", arguments, shape
        yield "GlobalAvgPool", "global_avg_pool", {}, shape
        yield "GlobalMaxPool", "global_max_pool", {}, shape
        yield "GlobalMaxPool", "global_max_pool", {"return_indices": True}, shape


CASES = list(cases())
every = pytest.mark.parametrize(
    ("name", "function", "arguments", "shape"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
NAMES = sorted({c[0] for c in CASES} | {f"MaxUnpool{rank}d" for rank in SPATIAL})


def made(name, **changes):
    """A layer of that name with few arguments."""
    first = {
        "Adaptive": {"output_size": 2},
        "LP": {"norm_type": 2, "kernel_size": 2},
        "Fractional": {"kernel_size": 2, "output_size": 2, "rng": 3},  # a seed: every call draws the same
        "Global": {},
    }
    arguments = next((a for start, a in first.items() if name.startswith(start)), {"kernel_size": 2})
    return getattr(nb, name)(**{**arguments, **changes})


def image(name, seed=0):
    rank = int(name[-2]) if name[-1] == "d" else 2
    return np.random.default_rng(seed).standard_normal((2, 3, *SPATIAL[rank])).astype(np.float32)


def inputs(name, seed=0):
    """What forward takes."""
    x = image(name, seed)
    return (x, unpool_indices(x, x.ndim - 2, tuple(2 * n for n in x.shape[2:]))) if "Unpool" in name else (x,)


def first_of(result):
    return result[0] if isinstance(result, tuple) else result


@every
def test_layers_equal_functions(name, function, arguments, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    layer = getattr(nb, name)(**arguments)
    expected = getattr(nb, function)(x, **arguments)
    for result in (layer.forward(x), layer(x), layer.eval()(x)):
        assert isinstance(result, tuple) == isinstance(expected, tuple)
        for a, b in zip(
            result if isinstance(result, tuple) else [result],
            expected if isinstance(expected, tuple) else [expected],
            strict=True,
        ):
            assert_identical(a, b)
    with unmodified(x):
        y = first_of(layer.train()(x))
        g = np.random.default_rng(1).standard_normal(y.shape).astype(np.float32)
        grad = layer.backward(g)
    backward = getattr(nb, f"{function}_backward")
    if "max" in function:
        _, indices = getattr(nb, function)(x, **{**arguments, "return_indices": True})
        expected = backward(g, indices, shape)
    elif function.startswith("lp"):
        expected = backward(g, x, y, **arguments)
    else:
        expected = backward(g, shape, **({} if "adaptive" in function else arguments))
    assert_identical(grad, expected)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_layers_equal_functions(rank):
    x = np.random.default_rng(0).standard_normal((2, 3, *SPATIAL[rank])).astype(np.float32)
    y, indices = getattr(nb, f"max_pool{rank}d")(x, 2, return_indices=True)
    layer = getattr(nb, f"MaxUnpool{rank}d")(2, output_size=SPATIAL[rank])
    back = layer(y, indices)
    assert back.shape == x.shape
    assert_identical(back, getattr(nb, f"max_unpool{rank}d")(y, indices, 2, output_size=SPATIAL[rank]))
    assert_identical(layer.backward(x), getattr(nb, f"max_unpool{rank}d_backward")(x, indices))
    assert_identical(layer.backward(x), y)


@pytest.mark.parametrize("name", NAMES)
def test_backward_is_of_the_last_forward(name):
    layer, alone = made(name), made(name)
    layer(*inputs(name, 0))
    y = first_of(layer(*inputs(name, 1)))
    assert_identical(y, first_of(alone(*inputs(name, 1))))
    g = np.random.default_rng(2).standard_normal(y.shape).astype(np.float32)
    assert_identical(layer.backward(g), alone.backward(g))
    assert_identical(layer.backward(g), alone.backward(g))  # a second time, too


@pytest.mark.parametrize("name", NAMES)
def test_backward_needs_a_forward_in_training_mode(name):
    layer = made(name)
    y = np.ones_like(first_of(made(name)(*inputs(name))))
    with pytest.raises(RuntimeError, match="forward"):
        layer.backward(y)
    layer(*inputs(name))
    layer.eval()
    layer(*inputs(name))
    with pytest.raises(RuntimeError, match="train"):
        layer.backward(y)
    layer.train()
    with pytest.raises(RuntimeError, match="forward"):
        layer.backward(y)
    layer(*inputs(name))
    assert layer.backward(y).dtype == np.float32


@pytest.mark.parametrize("name", NAMES)
def test_a_forward_that_fails_leaves_nothing_wrong_behind(name):
    """The gradient after it is of the last forward that succeeded, or an error."""
    layer = made(name)
    x, *rest = inputs(name)
    y = np.ones_like(first_of(layer(x, *rest)))
    expected = layer.backward(y)
    with pytest.raises((ValueError, TypeError)):
        layer(x.astype(np.complex64), *rest)
    try:
        grad = layer.backward(y)
    except RuntimeError:
        return
    assert_identical(grad, expected)


def test_eval_computes_no_argmax():
    """A plane beyond int32 has no argmax; in eval mode the layer gets as far as the memory."""
    x = np.broadcast_to(np.float32(0), (1, 1, 2**30, 2**30))
    layer = nb.MaxPool2d(2)
    with pytest.raises(ValueError, match=r"plane|int32|indices"):
        layer(x)
    with pytest.raises(MemoryError):
        layer.eval()(x)


@pytest.mark.parametrize("name", NAMES)
def test_train_and_eval_return_the_layer(name):
    layer = made(name)
    assert layer.eval() is layer
    assert layer.train() is layer
    assert list(layer.parameters()) == []


@pytest.mark.parametrize("name", NAMES)
def test_one_example_is_independent_of_another(name):
    layer = made(name)
    x, *rest = inputs(name)
    y = first_of(layer(x, *rest))
    g = np.random.default_rng(2).standard_normal(y.shape).astype(np.float32)
    whole = layer.backward(g)
    x[1], g[1] = np.nan, np.nan
    layer(x, *rest)
    assert_identical(layer.backward(g)[0], whole[0])


REPRESENTATIONS = [
    ("MaxPool2d", {"kernel_size": 3}, ["3"]),
    ("MaxPool2d", {"kernel_size": (3, 2), "stride": 1, "padding": 0}, ["(3, 2)", "stride=1"]),
    ("MaxPool1d", {"kernel_size": 3, "padding": "same", "dilation": 2}, ["padding='same'", "dilation=2"]),
    ("MaxPool3d", {"kernel_size": 3, "ceil_mode": True, "return_indices": False}, ["ceil_mode=True"]),
    ("AvgPool2d", {"kernel_size": 2, "count_include_pad": False}, ["count_include_pad=False"]),
    ("AvgPool2d", {"kernel_size": 2, "count_include_pad": True, "divisor_override": -3}, ["divisor_override=-3"]),
    ("LPPool2d", {"norm_type": 2, "kernel_size": 2, "padding": ((0, 1), (1, 0))}, ["padding=((0, 1), (1, 0))"]),
    ("AdaptiveAvgPool2d", {"output_size": (None, 3)}, ["(None, 3)"]),
    ("AdaptiveMaxPool1d", {"output_size": 3, "return_indices": True}, ["3", "return_indices=True"]),
    ("FractionalMaxPool3d", {"kernel_size": 2, "output_ratio": 0.5}, ["output_ratio=0.5"]),
    ("MaxUnpool2d", {"kernel_size": 2, "stride": 3}, ["stride=3"]),
    ("GlobalAvgPool", {}, []),
    ("GlobalMaxPool", {"return_indices": True}, ["return_indices=True"]),
]


@pytest.mark.parametrize(("name", "arguments", "shown"), REPRESENTATIONS, ids=[str(r[:2]) for r in REPRESENTATIONS])
def test_repr_shows_what_differs_from_the_defaults(name, arguments, shown):
    layer = getattr(nb, name)(**arguments)
    text = repr(layer)
    assert re.fullmatch(rf"{name}\(.*\)", text)
    for part in shown:
        assert part in text
    parameters = inspect.signature(getattr(nb, name)).parameters
    for parameter, value in parameters.items():
        if parameter not in arguments or arguments[parameter] == value.default:
            assert f"{parameter}=" not in text
    again = eval(text, {name: getattr(nb, name)})
    assert repr(again) == text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_copies(name, duplicate):
    """Before and after a forward; the copy goes its own way."""
    layer = made(name)
    assert repr(duplicate(layer)) == repr(layer)
    y = first_of(layer(*inputs(name)))
    other = duplicate(layer)
    assert repr(other) == repr(layer)
    g = np.ones_like(y)
    grad = layer.backward(g)
    assert_identical(first_of(other(*inputs(name, 1))), first_of(made(name)(*inputs(name, 1))))
    assert other.backward(g).shape == grad.shape
    assert_identical(layer.backward(g), grad)
    with pytest.raises(RuntimeError, match="train"):
        duplicate(layer.eval()).backward(g)


@pytest.mark.parametrize("name", NAMES)
def test_constructors_take_the_arguments_of_their_functions(name):
    """What a call supplies aside; behind kernel_size, stride and padding by keyword only, so that torch's two orders
    of arguments cannot be confused."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.replace("LPPool", "LpPool")).lower()
    function = inspect.signature(getattr(nb, snake)).parameters
    layer = inspect.signature(getattr(nb, name)).parameters
    assert set(layer) == set(function) - {"x", "indices", "out"}
    for parameter in layer.values():
        assert parameter.default == function[parameter.name].default
    keyword = [p.name for p in layer.values() if p.kind is p.KEYWORD_ONLY]
    positional = [p.name for p in layer.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert len(keyword) + len(positional) == len(layer)
    assert set(positional) <= {"norm_type", "kernel_size", "stride", "padding", "output_size"}
    if "stride" in function:
        assert positional[-3:] == ["kernel_size", "stride", "padding"]


def test_layers_do_not_check_late():
    """Wrong arguments raise when the layer is called, at the latest, as in the function."""
    with pytest.raises(ValueError, match="kernel_size"):
        nb.MaxPool2d(0)(np.ones((1, 1, 4, 4)))
    with pytest.raises(TypeError):
        nb.MaxPool2d()
    with pytest.raises(TypeError):
        nb.MaxPool2d(2, 2, 0, 1)


@pytest.mark.parametrize("name", NAMES)
def test_errors_about_arguments_name_the_layer(name):
    """Python words them, with the names of functions, which layers share."""
    layer = getattr(nb, name)
    for call in (lambda: layer(2, 2, 0, 0, 1, 1), lambda: layer(keep_dims=True)):
        with pytest.raises(TypeError, match=rf"^{name}\.__init__\(\) "):
            call()
    made = {"LPPool": lambda: layer(2, 2), "Global": lambda: layer()}
    pool = next((make for start, make in made.items() if name.startswith(start)), lambda: layer(2))()
    with pytest.raises(TypeError, match=rf"^{name}\.forward\(\) "):
        pool()
    with pytest.raises(TypeError, match=rf"^{name}\.backward\(\) "):
        pool.backward()


@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (2, 3, 1, 1), (3, 8, 8), (1, 3, 8, 8)])
@pytest.mark.parametrize(
    "layer",
    [nb.MaxPool2d(1), nb.AvgPool2d(1), nb.LPPool2d(2, 1), nb.AdaptiveMaxPool2d(8), nb.AdaptiveAvgPool2d(8)],
    ids=lambda layer: type(layer).__name__,
)
def test_a_gradient_of_another_shape_than_the_output_is_refused(layer, shape):
    layer(np.ones((2, 3, 8, 8), np.float32))
    with pytest.raises(ValueError, match=r"grad_output must have shape \(2, 3, 8, 8\), that of the output, got"):
        layer.backward(np.ones(shape, np.float32))


@pytest.mark.parametrize("layer", [nb.MaxPool2d(1), nb.AvgPool2d(1), nb.LPPool2d(2, 1)], ids=lambda layer: repr(layer))
def test_what_is_no_gradient_is_refused_for_what_it_is(layer):
    y = layer(np.ones((2, 3, 8, 8), np.float32))
    allowed = "bfloat16 or an integer type" if isinstance(layer, nb.MaxPool2d) else "float16 or bfloat16"
    for value, name in ((None, "NoneType"), ("a", "<U1"), (object(), "object")):
        with pytest.raises(TypeError, match=f"grad_output must be .*{allowed}, got {name}"):
            layer.backward(value)
    with pytest.raises(TypeError, match="grad_output must be one array, got a pair"):
        layer.backward((y, np.zeros(y.shape, np.int32)))
    with pytest.raises(ValueError, match=r"grad_output must have shape \(2, 3, 8, 8\), .* got \(2, 3, 8, 7\)"):
        layer.backward(y[..., 1:].tolist())
    assert_identical(layer.backward(y.astype(np.float64).tolist()), layer.backward(y.astype(np.float64)))


@pytest.mark.parametrize("shape", [(1, 1, 9, 9), (1, 1, 4, 16), (1, 1, 4, 4)])
def test_a_gradient_of_another_shape_than_what_was_unpooled_is_refused(shape):
    y, indices = nb.max_pool2d(np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8), 2, return_indices=True)
    layer = nb.MaxUnpool2d(2)
    layer(y, indices)
    with pytest.raises(ValueError, match=r"grad_output must have shape \(1, 1, 8, 8\)"):
        layer.backward(np.ones(shape, np.float32))
