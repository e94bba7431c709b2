"""Layers: a function, what its backward needs, and nothing else."""

import copy
import inspect
import pickle
import pydoc
import re

import cloudpickle
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
            ("min", {"kernel_size": 3, "stride": 2, "padding": 1}),
            ("min", {"kernel_size": 2, "return_indices": True}),
            ("sum", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
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
        yield "GlobalSumPool", "global_sum_pool", {}, shape
        yield "GlobalMaxPool", "global_max_pool", {}, shape
        yield "GlobalMaxPool", "global_max_pool", {"return_indices": True}, shape
        yield "GlobalMinPool", "global_min_pool", {"return_indices": True}, shape


def function_of(name):
    """MaxPool2d -> max_pool2d"""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.replace("LPPool", "LpPool")).lower()


CASES = list(cases())
every = pytest.mark.parametrize(
    ("name", "function", "arguments", "shape"),
    [pytest.param(*case, id=f"{case[0]}-{i}") for i, case in enumerate(CASES)],
)
LAYERS = sorted({c[0] for c in CASES} | {f"MaxUnpool{rank}d" for rank in SPATIAL})


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
    if "max" in function or "min" in function:
        _, indices = getattr(nb, function)(x, **{**arguments, "return_indices": True})
        expected = backward(g, indices, shape)
    elif function.startswith("lp"):
        expected = backward(g, x, y, **arguments)
    else:
        expected = backward(g, shape, **({} if function.startswith(("adaptive", "global")) else arguments))
    assert_identical(grad, expected)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_layers_equal_functions(rank):
    x = np.random.default_rng(0).standard_normal((2, 3, *SPATIAL[rank])).astype(np.float32)
    y, indices = getattr(nb, f"max_pool{rank}d")(x, 2, return_indices=True)
    layer = getattr(nb, f"MaxUnpool{rank}d")(2, output_size=SPATIAL[rank])
    back = layer(y, indices)
    assert back.shape == x.shape
    assert_identical(back, getattr(nb, f"max_unpool{rank}d")(y, indices, 2, output_size=SPATIAL[rank]))
    grad = layer.backward(x)
    assert_identical(grad, getattr(nb, f"max_unpool{rank}d_backward")(x, indices))
    assert_identical(grad, y)


@pytest.mark.parametrize("name", LAYERS)
def test_backward_is_of_the_last_forward(name):
    """Whatever the layer was called with before that is over: by backward, train or eval."""
    layer, alone = made(name), made(name)
    y = first_of(alone(*inputs(name, 1)))
    g = np.random.default_rng(2).standard_normal(y.shape).astype(np.float32)
    expected = alone.backward(g)
    layer(*inputs(name, 0))
    layer.backward(g)
    assert_identical(first_of(layer(*inputs(name, 1))), y)
    assert_identical(layer.backward(g), expected)
    for over in (layer.train, lambda: layer.eval().train()):
        layer(*inputs(name, 0))
        over()
        layer(*inputs(name, 1))
        assert_identical(layer.backward(g), expected)


@pytest.mark.parametrize("name", LAYERS)
def test_backward_uses_up_what_forward_kept(name):
    layer = made(name)
    g = np.ones_like(first_of(layer(*inputs(name))))
    expected = layer.backward(g)
    assert layer._saved is None  # and its memory is free
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"{name}\.backward has used up .* call forward\(x\) before every"):
            layer.backward(g)
    layer(*inputs(name))
    assert_identical(layer.backward(g), expected)


@pytest.mark.parametrize("name", LAYERS)
def test_one_layer_in_two_places_gives_no_gradient(name):
    """As in networks of tutorials: the second place's would be right, but not the first's, and nobody would see it."""
    layer = made(name)
    g = np.ones_like(first_of(layer(*inputs(name, 0))))
    layer(*inputs(name, 1))
    with pytest.raises(RuntimeError, match=rf"{name} was called 2 times .* one layer for each place"):
        layer.backward(g)
    with pytest.raises(RuntimeError, match="forward"):  # neither for the other place
        layer.backward(g)
    layer(*inputs(name, 0))
    assert layer.backward(g).shape == inputs(name)[0].shape or "Unpool" in name


def test_one_layer_nested_in_itself():
    """y = pool(pool(x)), where both gradients have other shapes; and with places where they have the same."""
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    for layer in (nb.MaxPool2d(2), nb.AvgPool2d(3, 1, 1)):
        y = layer(layer(x))
        with pytest.raises(RuntimeError, match="2 times"):
            layer.backward(y)
        layer(layer(layer(x)))
        with pytest.raises(RuntimeError, match="3 times"):
            layer.backward(y)


def test_calls_in_eval_mode_do_not_count():
    layer, x = nb.MaxPool2d(2), np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    layer.eval()
    layer(x), layer(x)
    layer.train()
    y = layer(x)
    assert layer.backward(y).sum() == y.sum()


def test_a_gradient_that_was_refused_may_be_corrected():
    """What forward kept is used up by a backward that succeeds only; and after any, the next forward begins anew."""
    layer, x = nb.MaxPool2d(2), np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    y = layer(x)
    for _ in range(2):
        with pytest.raises(ValueError, match="grad_output must have shape"):
            layer.backward(y[..., 1:])
    expected = layer.backward(y)
    layer(-x)
    with pytest.raises(ValueError, match="grad_output must have shape"):
        layer.backward(y[..., 1:])
    layer(x)
    assert_identical(layer.backward(y), expected)


@pytest.mark.parametrize("name", LAYERS)
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


@pytest.mark.parametrize("name", LAYERS)
def test_a_forward_that_fails_leaves_nothing_wrong_behind(name):
    """The gradient after it is of the last forward that succeeded, or an error."""
    layer = made(name)
    x, *rest = inputs(name)
    y = np.ones_like(first_of(layer(x, *rest)))
    expected = layer.backward(y)
    layer(x, *rest)
    with pytest.raises((ValueError, TypeError)):
        layer(x.astype(np.complex64), *rest)
    assert_identical(layer.backward(y), expected)


def test_eval_computes_no_argmax():
    """A plane beyond int32 has no argmax; in eval mode the layer gets as far as the memory."""
    x = np.broadcast_to(np.float32(0), (1, 1, 2**30, 2**30))
    layer = nb.MaxPool2d(2)
    with pytest.raises(ValueError, match=r"plane|int32|indices"):
        layer(x)
    with pytest.raises(MemoryError):
        layer.eval()(x)


@pytest.mark.parametrize("name", LAYERS)
def test_train_and_eval_return_the_layer(name):
    layer = made(name)
    assert layer.eval() is layer
    assert layer.train() is layer
    assert list(layer.parameters()) == []


@pytest.mark.parametrize("name", LAYERS)
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


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer)),
                                       lambda layer: pickle.loads(cloudpickle.dumps(layer))])
def test_copies(name, duplicate):
    """Before and after a forward; the copy goes its own way."""
    layer = made(name)
    assert repr(duplicate(layer)) == repr(layer)
    y = first_of(layer(*inputs(name)))
    other = duplicate(layer)
    assert repr(other) == repr(layer)
    g = np.ones_like(y)
    grad = layer.backward(g)
    assert_identical(other.backward(g), grad)
    assert_identical(first_of(other(*inputs(name, 1))), first_of(made(name)(*inputs(name, 1))))
    other.backward(g)
    with pytest.raises(RuntimeError, match="used up"):
        duplicate(layer).backward(g)
    with pytest.raises(RuntimeError, match="train"):
        duplicate(layer.eval()).backward(g)


@pytest.mark.parametrize("name", LAYERS)
def test_constructors_take_the_arguments_of_their_functions(name):
    """What a call supplies aside; behind kernel_size, stride and padding by keyword only, so that torch's two orders
    of arguments cannot be confused."""
    function = inspect.signature(getattr(nb.functional, function_of(name))).parameters
    layer = inspect.signature(getattr(nb, name)).parameters
    later = {"channel_axis"} - set(function)  # which functions need not have yet
    assert set(layer) - later == set(function) - {"x", "indices", "out", "where"}
    for parameter in layer.values():
        assert parameter.default == (None if parameter.name in later else function[parameter.name].default)
    keyword = [p.name for p in layer.values() if p.kind is p.KEYWORD_ONLY]
    positional = [p.name for p in layer.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert len(keyword) + len(positional) == len(layer)
    assert set(positional) <= {"norm_type", "kernel_size", "stride", "padding", "output_size"}
    if "stride" in function:
        assert positional[-3:] == ["kernel_size", "stride", "padding"]


@pytest.mark.parametrize("name", LAYERS)
def test_help_says_what_the_arguments_mean(name):
    text = getattr(nb, name).__doc__
    assert f"`{function_of(name)}`" in text
    assert "{" not in text
    for parameter in inspect.signature(getattr(nb, name)).parameters:
        assert re.search(rf"^{parameter} : ", text, re.MULTILINE), parameter
    assert "RuntimeError" in text
    shown = re.sub(r"[\s|]+", "", help_of(name)).replace("*,", "")  # from Python 3.13 on long signatures are wrapped
    assert f"{name}({next(iter(inspect.signature(getattr(nb, name)).parameters))}" in shown


def help_of(name):
    return pydoc.plain(pydoc.render_doc(getattr(nb, name)))


@pytest.mark.parametrize("name", ["GlobalAvgPool", "GlobalMaxPool", "GlobalMinPool", "GlobalSumPool"])
def test_global_layers_take_batches_only(name):
    """As their functions: three axes are (N, C, L), and the help says so."""
    layer = getattr(nb, name)()
    assert layer(np.ones((2, 3, 4), np.float32)).shape == (2, 3, 1)
    with pytest.raises(ValueError, match=r"\(N, C, \*spatial\)"):
        layer(np.ones((2, 3), np.float32))
    assert "never one image" in type(layer).__doc__


ONE_PIXEL = [("GlobalAvgPool", {}), ("GlobalMaxPool", {}), ("GlobalMinPool", {}), ("GlobalSumPool", {}),
             ("AdaptiveAvgPool2d", {"output_size": 1}), ("AdaptiveMaxPool2d", {"output_size": 1}),
             ("MaxPool2d", {"kernel_size": 4}), ("AvgPool2d", {"kernel_size": 4}),
             ("LPPool2d", {"norm_type": 2, "kernel_size": 4}), ("SumPool2d", {"kernel_size": 4})]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments"), ONE_PIXEL)
def test_gradients_of_one_pixel_have_the_memory_order_of_the_input(name, arguments):
    """Of such a gradient itself both orders are true."""
    layer = getattr(nb, name)(**arguments)
    x = np.random.default_rng(0).standard_normal((2, 4, 4, 3)).astype(np.float32)
    last, first = np.moveaxis(x, -1, 1), np.moveaxis(x, -1, 1).copy()
    g = np.ones((2, 3, 1, 1), np.float32)
    layer(last)
    grad = layer.backward(g)
    assert np.moveaxis(grad, 1, -1).flags.c_contiguous
    layer(first)
    other = layer.backward(g)
    assert other.flags.c_contiguous
    assert_identical(np.ascontiguousarray(grad), np.ascontiguousarray(other))
    layer(last.astype(np.float64).tolist())  # a list has no order
    assert layer.backward(g.astype(np.float64)).flags.c_contiguous


def test_gradients_of_several_pixels_have_the_memory_order_of_what_comes_back():
    layer = nb.MaxPool2d(2)
    y = layer(np.moveaxis(np.ones((2, 4, 4, 3), np.float32), -1, 1))
    assert layer.backward(np.ones(y.shape, np.float32)).flags.c_contiguous


@pytest.mark.parametrize("name", LAYERS)
def test_the_channel_axis_is_handed_on_if_there_is_one(name, monkeypatch):
    """To forward and backward; without one, neither function is given that argument."""
    calls = []

    def pool(x, *args, **kwargs):
        calls.append(kwargs.get("channel_axis", "none"))
        return (x, x.astype(np.int32)) if kwargs.get("return_indices") else x

    for function in (function_of(name), f"{function_of(name)}_backward"):
        monkeypatch.setattr(nb.functional, function, pool)
    for axis, expected in ((-1, [-1, -1]), (None, ["none", "none"])):
        layer, (x, *rest) = made(name, channel_axis=axis), inputs(name)
        layer(x, *rest)
        layer.backward(x)
        assert calls == expected
        calls.clear()


@pytest.mark.parametrize("name", LAYERS)
def test_channel_axis(name):
    """NHWC in and out, and the same numbers."""
    if "channel_axis" not in inspect.signature(getattr(nb.functional, function_of(name))).parameters:
        pytest.skip("numba_pool.functional has no channel_axis yet")
    layer, other = made(name), made(name, channel_axis=-1)
    given = inputs(name)
    y = first_of(layer(*given))
    z = first_of(other(*(np.ascontiguousarray(np.moveaxis(a, 1, -1)) for a in given)))
    assert_identical(np.ascontiguousarray(np.moveaxis(z, -1, 1)), y)
    g = np.random.default_rng(2).standard_normal(y.shape).astype(np.float32)
    grad = other.backward(np.ascontiguousarray(np.moveaxis(g, 1, -1)))
    np.testing.assert_allclose(np.moveaxis(grad, -1, 1), layer.backward(g), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_errors_about_arguments_name_the_layer(name):
    """Python words them, with the names of functions, which layers share."""
    layer = getattr(nb, name)
    for call in (lambda: layer(2, 2, 0, 0, 1, 1), lambda: layer(keep_dims=True)):
        with pytest.raises(TypeError, match=rf"^{name}\.__init__\(\) "):
            call()
    pool = made(name)
    with pytest.raises(TypeError, match=rf"^{name}\.forward\(\) "):
        pool()
    with pytest.raises(TypeError, match=rf"^{name}\.backward\(\) "):
        pool.backward()
