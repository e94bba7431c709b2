"""What layers refuse: arguments when they are built, gradients that are none of theirs."""

import numpy as np
import pytest
from checks import assert_identical

import numba_pool as nb

WRONG = [
    ("MaxPool2d", {"kernel_size": "abc"}, TypeError, "kernel_size must be an int or a tuple of ints, got 'abc'"),
    ("MaxPool2d", {"kernel_size": -1}, ValueError, "kernel_size must be at least 1, got -1"),
    ("MaxPool2d", {"kernel_size": 0}, ValueError, "kernel_size must be at least 1, got 0"),
    ("MaxPool2d", {"kernel_size": 2.5}, TypeError, "kernel_size must be an int or a tuple of ints, got 2.5"),
    ("MaxPool2d", {"kernel_size": (2, 2, 2)}, ValueError, "kernel_size must have .* one per spatial axis"),
    ("MaxPool1d", {"kernel_size": (2, 2)}, ValueError, "kernel_size must have .* one per spatial axis"),
    ("MaxPool3d", {"kernel_size": (2, 2)}, ValueError, "kernel_size must have .* one per spatial axis"),
    ("MaxPool2d", {"kernel_size": True}, TypeError, "kernel_size must be an int"),
    ("MaxPool2d", {"kernel_size": 2, "stride": 0}, ValueError, "stride must be at least 1, got 0"),
    ("MaxPool2d", {"kernel_size": 2, "dilation": "a"}, TypeError, "dilation must be an int"),
    ("MaxPool2d", {"kernel_size": 2, "padding": "SAME"}, ValueError, "padding must be .*'same'.*, got 'SAME'"),
    ("MaxPool2d", {"kernel_size": 2, "padding": 2}, ValueError, "padding must be at most half of kernel_size"),
    ("MaxPool2d", {"kernel_size": 2, "padding": ((0, 2**31), (0, 0))}, ValueError, "padding must be at most 2147"),
    ("MaxPool1d", {"kernel_size": 3, "padding": (0, 1)}, ValueError, "padding must have one entry"),
    ("MaxPool2d", {"kernel_size": 2, "ceil_mode": 1}, TypeError, "ceil_mode must be a bool, got 1"),
    ("MaxPool2d", {"kernel_size": 2, "return_indices": "yes"}, TypeError, "return_indices must be a bool, got 'yes'"),
    ("MaxPool2d", {"kernel_size": 2, "channel_axis": 4}, ValueError, r"channel_axis must lie in \[-4, 4\)"),
    ("MaxPool2d", {"kernel_size": 2, "channel_axis": -5}, ValueError, r"channel_axis must lie in \[-4, 4\)"),
    ("GlobalMaxPool", {"channel_axis": 5}, ValueError, r"channel_axis must lie in \[-5, 5\)"),
    ("MaxPool2d", {"kernel_size": 2, "channel_axis": "last"}, TypeError, "channel_axis must be an int or None"),
    ("MaxPool2d", {"kernel_size": 2, "channel_axis": True}, TypeError, "channel_axis must be an int or None"),
    ("MinPool1d", {"kernel_size": 0}, ValueError, "kernel_size must be at least 1"),
    ("SumPool2d", {"kernel_size": 2, "stride": -1}, ValueError, "stride must be at least 1"),
    ("AvgPool2d", {"kernel_size": 2, "padding": "same_upper"}, ValueError, "padding must be .*'same'"),
    ("AvgPool2d", {"kernel_size": 2, "count_include_pad": 0}, TypeError, "count_include_pad must be a bool, got 0"),
    ("AvgPool2d", {"kernel_size": 2, "divisor_override": 0}, ValueError, "divisor_override must be a finite number"),
    ("LPPool2d", {"norm_type": -1, "kernel_size": 2}, ValueError, "norm_type must be a positive number"),
    ("LPPool2d", {"norm_type": "2", "kernel_size": 2}, TypeError, "norm_type must be an int or a float"),
    ("LPPool2d", {"norm_type": 2, "kernel_size": (2, 0)}, ValueError, "kernel_size must be at least 1"),
    ("AdaptiveMaxPool2d", {"output_size": -1}, ValueError, "output_size must be at least 0"),
    ("AdaptiveMaxPool2d", {"output_size": 2, "return_indices": 1}, TypeError, "return_indices must be a bool"),
    ("AdaptiveAvgPool2d", {"output_size": (1, 2, 3)}, ValueError, "output_size must have"),
    ("AdaptiveAvgPool1d", {"output_size": 1.5}, TypeError, "output_size must be an int"),
    ("FractionalMaxPool2d", {"kernel_size": 2}, ValueError, "one of output_size and output_ratio must be given"),
    ("FractionalMaxPool2d", {"kernel_size": 2, "output_size": 2, "output_ratio": 0.5}, ValueError, "and not both"),
    ("FractionalMaxPool2d", {"kernel_size": 0, "output_size": 2}, ValueError, "kernel_size must be at least 1"),
    ("FractionalMaxPool2d", {"kernel_size": 2, "output_ratio": 1.5}, ValueError, "output_ratio must lie between"),
    ("FractionalMaxPool3d", {"kernel_size": 2, "output_size": 2, "rng": "a"}, TypeError, "rng must be"),
    ("FractionalMaxPool2d", {"kernel_size": 2, "output_size": 2, "random_samples": [[[0.5]]]}, ValueError,
     "random_samples must have shape"),
    ("FractionalMaxPool2d", {"kernel_size": 2, "output_size": 2, "random_samples": [[0.5, 1.0]]}, ValueError,
     "random_samples must lie in"),
    ("MaxUnpool2d", {"kernel_size": 0}, ValueError, "kernel_size must be at least 1"),
    ("MaxUnpool2d", {"kernel_size": 2, "padding": "same"}, TypeError, "padding must be an int"),
    ("MaxUnpool2d", {"kernel_size": 2, "output_size": 0}, ValueError, "output_size must be at least 1"),
    ("MaxUnpool2d", {"kernel_size": 2, "output_size": (1, 2, 3, 4, 5)}, ValueError, "output_size must have 2 entries"),
    ("GlobalMaxPool", {"return_indices": None}, TypeError, "return_indices must be a bool"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "error", "message"), WRONG, ids=[f"{w[0]}-{w[1]}" for w in WRONG])
def test_arguments_are_checked_when_a_layer_is_built(name, arguments, error, message):
    with pytest.raises(error, match=message):
        getattr(nb, name)(**arguments)


RIGHT = [
    ("MaxPool2d", {"kernel_size": (2,), "stride": (), "padding": (1,)}),
    ("MaxPool2d", {"kernel_size": np.int64(2), "stride": [1, 2], "padding": ((1, 0), 1), "ceil_mode": np.True_}),
    ("MaxPool2d", {"kernel_size": 100, "padding": "same", "channel_axis": -1}),
    ("MaxPool1d", {"kernel_size": 3, "padding": ((2, 0),), "channel_axis": np.int64(2)}),
    ("AvgPool2d", {"kernel_size": 2, "padding": "valid", "divisor_override": -3}),
    ("LPPool2d", {"norm_type": np.inf, "kernel_size": 2}),
    ("AdaptiveAvgPool2d", {"output_size": (None, 0)}),
    ("FractionalMaxPool2d", {"kernel_size": 2, "output_ratio": (0.5, 0.25), "rng": [1, 2]}),
    ("FractionalMaxPool2d", {"kernel_size": 2, "output_size": 2, "random_samples": np.zeros((1, 5, 3, 2))}),
    ("MaxUnpool2d", {"kernel_size": 2, "output_size": (1, 3, 8, 8)}),
    ("MaxUnpool2d", {"kernel_size": 2, "output_size": 8}),
    ("GlobalAvgPool", {"channel_axis": 4}),
]


@pytest.mark.parametrize(("name", "arguments"), RIGHT, ids=[f"{r[0]}-{r[1]}" for r in RIGHT])
def test_what_may_be_right_builds_a_layer(name, arguments):
    """Whether it is depends on the input."""
    layer = getattr(nb, name)(**arguments)
    for argument, value in arguments.items():
        assert getattr(layer, argument) is value


def test_building_a_layer_draws_nothing_from_a_generator():
    rng, other = np.random.default_rng(3), np.random.default_rng(3)
    nb.FractionalMaxPool2d(2, 2, rng=rng)
    assert rng.random() == other.random()


def test_layers_need_their_arguments():
    with pytest.raises(TypeError):
        nb.MaxPool2d()
    with pytest.raises(TypeError):
        nb.MaxPool2d(2, 2, 0, 1)


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
    x = np.ones((2, 3, 8, 8), np.float32)
    y = layer(x)
    allowed = "bfloat16 or an integer type" if isinstance(layer, nb.MaxPool2d) else "float16 or bfloat16"
    for value, name in ((None, "NoneType"), (object(), "object")):
        with pytest.raises(TypeError, match=f"grad_output must be .*{allowed}, got {name}"):
            layer.backward(value)
    with pytest.raises(TypeError, match="grad_output must be one array, got a pair"):
        layer.backward((y, np.zeros(y.shape, np.int32)))
    with pytest.raises(ValueError, match=r"grad_output must have shape \(2, 3, 8, 8\), .* got \(2, 3, 8, 7\)"):
        layer.backward(y[..., 1:].tolist())
    if isinstance(layer, nb.LPPool2d):  # a walk of its own for dtypes that differ, and lists are arrays to all layers
        return
    grad = layer.backward(y.astype(np.float64).tolist())
    layer(x)
    assert_identical(grad, layer.backward(y.astype(np.float64)))


@pytest.mark.parametrize("shape", [(1, 1, 9, 9), (1, 1, 4, 16), (1, 1, 4, 4)])
def test_a_gradient_of_another_shape_than_what_was_unpooled_is_refused(shape):
    y, indices = nb.max_pool2d(np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8), 2, return_indices=True)
    layer = nb.MaxUnpool2d(2)
    layer(y, indices)
    with pytest.raises(ValueError, match=r"grad_output must have shape \(1, 1, 8, 8\)"):
        layer.backward(np.ones(shape, np.float32))


@pytest.mark.parametrize(("layer", "values", "positional"), [
    (nb.MaxPool2d, (3, 2, 1, 1), "kernel_size, stride, padding"), (nb.GlobalAvgPool, (1,), "nothing"),
    (nb.AdaptiveAvgPool2d, (3, 2), "output_size"),
])  # fmt: skip
def test_arguments_that_have_to_be_named(layer, values, positional):
    with pytest.raises(TypeError, match=f"takes {positional} by position, got {len(values)}: .*channel_axis="):
        layer(*values)


def test_a_layer_of_someone_else_takes_what_it_says():
    class Mine(nb.MaxPool2d):
        def __init__(self, *sizes, **more):
            super().__init__(sizes[-1], **more)

    assert Mine(5, 4, 3, 2, dilation=1)(np.ones((1, 4, 4))).shape == (1, 2, 2)
