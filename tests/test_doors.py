"""Every array argument is converted once, whatever it is; and what cannot be is shown where it belongs."""

import inspect
import re

import numpy as np
import pytest
from checks import assert_identical

import numba_pool as nb

ARRAYS = ("x", "grad_output", "indices", "y", "random_samples")
OF_SEGMENTS = ("x", "grad_output", "indices", "offsets", "where", "lengths", "ids")
CUBE, OBLONG = (4, 4, 4, 4), (3, 4, 5, 6)


def calls(rank, batch, axis, size, rng):
    """Every function of a rank with its arguments by name, for arrays with channels at `axis`."""
    spatial = size[-rank:]
    shape = (*batch, size[0], *spatial)

    def made(a):
        return np.ascontiguousarray(np.moveaxis(a, len(batch), axis))

    def told(shape):
        return made(np.empty(shape, np.int8)).shape

    def function(name):
        return getattr(nb, name)

    x = rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float64)
    input_shape = told(shape)
    ends = (f"{rank}d", "")[: 1 + bool(batch)]
    for family, end, more in [
        ("max_pool", ends[0], {"kernel_size": 3, "stride": 1, "padding": 1}),
        ("min_pool", ends[0], {"kernel_size": 3, "stride": 1, "padding": 1}),
        ("adaptive_max_pool", ends[0], {"output_size": spatial}),
        ("fractional_max_pool", ends[0], {"kernel_size": 1, "output_size": spatial,
                                          "random_samples": rng.random((*shape[: len(batch) + 1], rank))}),
        *[(f"global_{name}_pool", "", {}) for name in ("max", "min") if batch],
    ]:
        if family == "fractional_max_pool" and rank == 1:
            continue
        pool, backward = function(family + end), function(f"{family}{end}_backward")
        yield pool, {"x": made(x), "return_indices": True, **more}
        y, indices = pool(made(x), return_indices=True, channel_axis=axis, **more)
        yield backward, {"grad_output": y, "indices": indices, "input_shape": input_shape}
        if family == "max_pool":
            yield function(f"max_unpool{rank}d"), {"x": y, "indices": indices, "kernel_size": 1}
            yield function(f"max_unpool{rank}d_backward"), {"grad_output": made(x), "indices": indices}
    for family, end, more in [
        ("avg_pool", ends[0], {"kernel_size": 3, "stride": 1, "padding": 1}),
        ("sum_pool", ends[0], {"kernel_size": 3, "stride": 1, "padding": 1}),
        ("adaptive_avg_pool", ends[0], {"output_size": spatial}),
        *[(f"global_{name}_pool", "", {}) for name in ("avg", "sum") if batch],
    ]:
        pool, backward = function(family + end), function(f"{family}{end}_backward")
        yield pool, {"x": made(x), **more}
        y = pool(made(x), channel_axis=axis, **more)
        more.pop("output_size", None)
        yield backward, {"grad_output": y, "input_shape": input_shape, **more}
    pool, windows = function(f"lp_pool{rank}d"), {"norm_type": 2, "kernel_size": 3, "stride": 1, "padding": 1}
    yield pool, {"x": made(x), **windows}
    y = pool(made(x), channel_axis=axis, **windows)
    yield function(f"lp_pool{rank}d_backward"), {"grad_output": y[::-1].copy(), "x": made(x), "y": y, **windows}


def of_segments():
    """Every function of segments with its arguments by name."""
    x, rows = np.arange(21.0).reshape(7, 3), {"offsets": np.array([1, 4, 4, 6])}
    shape = {"input_shape": x.shape}
    for name in ("max", "min"):
        pool, backward = (getattr(nb, f"segment_{name}_pool{end}") for end in ("", "_backward"))
        yield pool, {"x": x, **rows, "return_indices": True}
        y, indices = pool(x, **rows, return_indices=True)
        yield backward, {"grad_output": np.ones_like(y), "indices": indices, **shape}
    for name in ("avg", "sum"):
        pool, backward = (getattr(nb, f"segment_{name}_pool{end}") for end in ("", "_backward"))
        yield pool, {"x": x, **rows}
        yield backward, {"grad_output": pool(x, **rows), **rows, **shape}
    yield nb.segment_offsets, {"lengths": np.array([3, 0, 2])}
    yield nb.segment_offsets, {"ids": np.array([0, 2, 2])}


class Once:
    """What has `__array__`, as data frames and files do, and can be asked only once."""

    def __init__(self, a):
        self.a = a

    def __array__(self, dtype=None, copy=None):
        a, self.a = self.a, None
        assert a is not None, "converted twice"
        return a


WAYS = {"list": np.ndarray.tolist, "tuple": lambda a: tuple(a.tolist()), "__array__": Once}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("size", [CUBE, OBLONG], ids=["cube", "oblong"])
def test_whatever_makes_arrays_gives_what_they_give(rank, size):
    """Also where all axes are as long, so that no shape tells that an array was not transposed."""
    rng = np.random.default_rng(rank)
    seen = set()
    for batch, axes in (((2,), range(-rank - 2, rank + 2)), ((), range(-rank - 1, rank + 1))):
        for axis in axes:
            for function, given in calls(rank, batch, axis, size, rng):
                seen.add(function.__name__)
                expected = function(**given, channel_axis=axis)
                arrays = [name for name in ARRAYS if name in given]
                for made in WAYS.values():
                    chosen = [name for name in arrays if rng.random() < 0.7] or arrays
                    found = function(**given | {name: made(given[name]) for name in chosen}, channel_axis=axis)
                    for one, other in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, expected))):
                        assert_identical(one, other)
    ours = {name for name in nb.functional.__all__ if name.endswith((f"{rank}d", f"{rank}d_backward"))}
    assert ours <= seen


def test_segments_take_whatever_makes_arrays():
    for function, given in of_segments():
        expected = function(**given)
        for made in WAYS.values():
            found = function(**{name: made(v) if name in OF_SEGMENTS else v for name, v in given.items()})
            for one, other in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, expected))):
                assert_identical(one, other)
    assert {function.__name__ for function, _ in of_segments()} == {
        name for name in nb.functional.__all__ if name.startswith("segment_")}


@pytest.mark.parametrize("layer", [nb.MaxPool2d(2), nb.AvgPool2d(2), nb.LPPool2d(2, 2), nb.GlobalAvgPool()], ids=repr)
def test_layers_convert_once(layer):
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 4))
    y = layer(x)
    expected = layer.backward(y)
    assert_identical(layer(Once(x)), y)
    assert_identical(layer.backward(Once(y)), expected)


def test_the_layer_of_unpooling_converts_once():
    y, indices = nb.max_pool2d(np.random.default_rng(0).standard_normal((2, 3, 4, 4)), 2, return_indices=True)
    layer = nb.MaxUnpool2d(2)
    x = layer(Once(y), Once(indices))
    assert_identical(x, nb.max_unpool2d(y, indices, 2))
    assert_identical(layer.backward(Once(x)), y)


IMAGE = np.arange(30.0).reshape(5, 6)


@pytest.mark.parametrize(("axis", "way"), [(None, "x[np.newaxis]"), (-1, "np.expand_dims(x, -1)"),
                                           (0, "np.expand_dims(x, 0)")])
def test_an_image_without_channels_is_shown_the_way(axis, way):
    for function, *arguments in ((nb.max_pool2d, 2), (nb.lp_pool2d, 2, 2), (nb.adaptive_avg_pool2d, 2)):
        with pytest.raises(ValueError, match=re.escape(f"got shape (5, 6): for one channel pass {way}")):
            function(IMAGE, *arguments, channel_axis=axis)
        y = function(eval(way, {"np": np, "x": IMAGE}), *arguments, channel_axis=axis)
        assert y.size == function(IMAGE[np.newaxis], *arguments).size
    with pytest.raises(ValueError, match=re.escape("got shape (5, 6): add axes for the batch and the channels")):
        nb.global_max_pool(IMAGE, channel_axis=axis)


def test_channels_last_without_saying_so():
    image, batch = np.zeros((32, 33, 3)), np.zeros((2, 32, 33, 3))
    hint = re.escape("; if the last axis holds the channels, pass channel_axis=-1")
    for x in (image, batch):
        for call in (lambda x: nb.max_pool2d(x, 5), lambda x: nb.avg_pool2d(x, 5, 2), lambda x: nb.lp_pool2d(x, 2, 4),
                     lambda x: nb.avg_pool2d_backward(x, x.shape, 5),
                     lambda x: nb.output_shape(nb.max_pool2d, x.shape, 5)):
            with pytest.raises(ValueError, match=re.escape(f"input of shape {x.shape}") + f".*{hint}$"):
                call(x)
        with pytest.raises(ValueError, match=r"leaves no output .*\)(\n|$)") as caught:
            nb.max_pool2d(x, 40, channel_axis=-1)
        assert "channel_axis=-1: shapes in this message" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match=r"complex128$") as caught:
        nb.max_pool2d(batch.astype(complex), 2, channel_axis=-1)
    assert not hasattr(caught.value, "__notes__")  # there is no shape in this message
    with pytest.raises(ValueError, match=r"leaves no output .*\)(\n|$)"):
        nb.max_pool2d(np.moveaxis(batch, -1, 1), 40)


def test_what_is_wrong_with_an_argument_is_told_alike_with_a_channel_axis():
    y, indices = nb.max_pool2d(np.zeros((2, 3, 4, 4)), 2, return_indices=True)
    for axis in (None, -1):
        with pytest.raises(TypeError, match=r"x must be float32, .* or an integer type, got NoneType"):
            nb.max_pool2d(None, 2, channel_axis=axis)
        with pytest.raises(TypeError, match=r"x must be one array, got a pair like \(y, indices\)"):
            nb.max_pool2d((y[0], indices[0]), 2, channel_axis=axis)
        with pytest.raises(TypeError, match="indices must be int32 or int64, got NoneType"):
            nb.max_pool2d_backward(y, None, (2, 6, 4, 2) if axis else (2, 3, 4, 4), channel_axis=axis)
        with pytest.raises(TypeError, match=r"out must be an ndarray without return_indices, got list"):
            nb.max_pool2d(y, 1, out=[y], channel_axis=axis)


def test_tensors_that_require_gradients_are_sent_to_their_binding():
    torch = pytest.importorskip("torch")
    x = torch.ones(1, 1, 4, 4)
    assert nb.max_pool2d(x, 2).shape == (1, 1, 2, 2)
    for wrong in (x.requires_grad_(), torch.nn.Parameter(x), x.detach().to("meta"), x.detach().bfloat16()):
        for axis in (None, -1):
            with pytest.raises(TypeError, match=r"^x must be .*numba_pool\.torch has the functions that take it$"):
                nb.max_pool2d(wrong, 2, channel_axis=axis)
        with pytest.raises(TypeError, match=r"numba_pool\.torch has the functions that take it$"):
            nb.MaxPool2d(2)(wrong)


def test_tracers_are_sent_to_their_binding():
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones((1, 1, 4, 4))
    assert nb.max_pool2d(x, 2).shape == (1, 1, 2, 2)
    for transformed in (jax.jit, jax.vmap, jax.grad):
        with pytest.raises(TypeError, match=r"^x must be .*numba_pool\.jax has the functions that take it\n"):
            transformed(lambda x: nb.avg_pool2d(x, 2).sum())(x)


def test_boxes_of_autograd_are_sent_to_their_binding():
    autograd = pytest.importorskip("autograd")
    with pytest.raises(TypeError, match=r"^x must be .*numba_pool\.autograd has the functions that take it$"):
        autograd.grad(lambda x: nb.avg_pool2d(x, 2).sum())(np.ones((1, 1, 4, 4)))


@pytest.mark.parametrize("called", [nb.max_pool2d, nb.avg_pool1d_backward, nb.output_shape, nb.MaxPool2d(2)],
                         ids=["function", "gradient", "shape", "layer"])
def test_compiled_code_is_sent_to_plans(called):
    from numba import njit
    from numba.core.errors import TypingError

    @njit
    def user(x):
        return called(x, 2)

    name = getattr(called, "__name__", type(called).__name__)
    with pytest.raises(TypingError, match=rf"numba_pool\.{name} cannot be called in compiled code: .*numba_pool\.run"):
        user(np.ones((1, 1, 4, 4)))


def test_every_function_and_layer_says_so():
    for name in nb.__all__:
        value = getattr(nb, name)
        if "pool" in name.lower() and name != "empty_pool" and callable(value):
            assert value._numba_type_.name == f"numba_pool.{name}", name


def test_python_in_compiled_code_may_call_them():
    from numba import njit, objmode

    @njit
    def user(x):
        with objmode(y="float64[:,:,:,::1]"):
            y = nb.max_pool2d(x, 2)
        return y

    assert user(np.ones((1, 1, 4, 4))).shape == (1, 1, 2, 2)


def test_no_function_has_array_arguments_that_this_file_does_not_know():
    for name in nb.functional.__all__:
        for parameter in inspect.signature(getattr(nb.functional, name)).parameters.values():
            known = OF_SEGMENTS if name.startswith("segment_") else ARRAYS
            assert ("ArrayLike" not in str(parameter.annotation)) or parameter.name in known
