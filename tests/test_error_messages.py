"""What an error says: what was allowed, what came, the argument and the shape; and whose exception it is."""

import pathlib
import pickle
import re
import traceback

import numpy as np
import pytest
from test_errors import RANKS, SIDE, image

import numba_pool as nb


@pytest.mark.parametrize("rank", RANKS)
def test_what_was_allowed(rank):
    x, pair = image(rank), (image(rank, side=3), np.zeros((2, 3, *(3,) * rank), np.int32))
    pool, norm = getattr(nb, f"max_pool{rank}d"), getattr(nb, f"lp_pool{rank}d")
    calls = [lambda: pool(x, 2, out=pair)]
    if rank > 1:
        calls.append(lambda: getattr(nb, f"fractional_max_pool{rank}d")(x, 2, output_size=3, out=pair))
    for call in calls:
        with pytest.raises(TypeError, match="out must be an ndarray without return_indices, got tuple"):
            call()
    with pytest.raises(TypeError, match=r"float64, float16, bfloat16 or an integer type, got .*bool"):
        pool(x > 0, 2)
    with pytest.raises(TypeError, match=r"float64, float16 or bfloat16, got .*int32"):
        norm(x.astype(np.int32), 2, 2)


@pytest.mark.parametrize("rank", RANKS)
def test_maxima_with_their_indices_are_no_batch_of_two(rank):
    pool, average = getattr(nb, f"max_pool{rank}d"), getattr(nb, f"avg_pool{rank}d")
    pair = pool(image(rank, batch=()), 2, return_indices=True)
    for call in (pool, average, lambda x, k: getattr(nb, f"MaxPool{rank}d")(k)(x)):
        with pytest.raises(TypeError, match=r"x must be one array, got a pair like \(y, indices\)"):
            call(pair, 2)
    assert pool(list(np.stack([pair[0]] * 2)), 2).shape == (2, 3, *(1,) * rank)  # of lists NumPy makes arrays


@pytest.mark.parametrize("call", [
    lambda x: nb.max_unpool2d(x, np.zeros(x.shape, np.int32), 2, output_size=x),
    lambda x: nb.max_pool2d(x, x),
    lambda x: nb.avg_pool2d_backward(x, x, 2),
])
def test_of_an_array_that_is_no_int_the_shape_is_told(call):
    with pytest.raises(TypeError, match=re.escape("got an array; its shape is (2, 3, 6, 6)")):
        call(image(2))


def test_more_padding_than_an_int_may_ask_for_is_a_pair():
    with pytest.raises(ValueError, match=r"at most half of kernel_size, 1 for a kernel of 3, got 2; as a pair"):
        nb.max_pool2d(image(2), 3, 1, 2)
    assert nb.max_pool2d(image(2), 3, 1, ((2, 2), (2, 2))).shape == (2, 3, SIDE + 2, SIDE + 2)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda x: nb.max_pool2d(x, 2, channel_axis="last"), TypeError, "channel_axis must be an int or None, got 'last'"),
    (lambda x: nb.max_pool2d(x, 2, channel_axis=(1, 2)), TypeError, "channel_axis must be an int or None, got (1, 2)"),
    (lambda x: nb.AvgPool2d(2, channel_axis=1.0), TypeError, "channel_axis must be an int or None, got 1.0 of"),
    (lambda x: nb.avg_pool2d_backward(x, (2.0, 3, 12, 12), 2), TypeError,
     "input_shape must be a tuple of ints, got (2.0, 3, 12, 12)"),
    (lambda x: nb.avg_pool2d_backward(x, 12, 2), TypeError, "input_shape must be a tuple of ints, got 12"),
    (lambda x: nb.output_shape(nb.max_pool2d, (2, 3, "6", 6), 2), TypeError,
     "shape must be a tuple of ints, got (2, 3, '6', 6)"),
    (lambda x: nb.plan(nb.max_pool2d, (2, 3, 6.5, 6), "float32", 2), TypeError,
     "shape must be a tuple of ints, got (2, 3, 6.5, 6)"),
    (lambda x: nb.plan(nb.max_pool2d, (6, 6), "float32", 2), ValueError,
     "shape must have the axes (N, C, *spatial) or (C, *spatial) of max_pool2d, got (6, 6)"),
    (lambda x: nb.adaptive_avg_pool2d(x, (2.0, None)), TypeError,
     "output_size must be an int, None or a tuple of these, got 2.0"),
    (lambda x: nb.max_pool2d(x, 3, padding=1.0), TypeError,
     "padding must be an int, a tuple of ints or of pairs (before, after), 'valid', 'same' or 'same_lower', got 1.0"),
    (lambda x: nb.max_pool2d(x, 3, padding=2**31), ValueError, "padding must be at most half of kernel_size, 1 for"),
    (lambda x: nb.max_pool2d(x, 3, padding=((2**31, 0), (0, 0))), ValueError,
     "padding must be at most 2147483647, got 2147483648"),
    (lambda x: nb.max_pool2d(x, 3, 1, padding=((2**20, 0), (0, 2**20))), ValueError,
     "padding must leave at most 2147483647 windows of a plane, got ((1048576, 0), (0, 1048576)) for an input of shape "
     "(2, 3, 6, 6): output (1048580, 1048580)"),
    (lambda x: nb.max_pool2d(x, 7), ValueError,
     "leaves no output for an input of shape (2, 3, 6, 6), spatial shape (6, 6)"),
    (lambda x: nb.fractional_max_pool2d(x, 2, 6), ValueError, "got 6 + 2 - 1 for an x of shape (2, 3, 6, 6)"),
    (lambda x: nb.fractional_max_pool2d(x, 2, output_ratio=0.1), ValueError,
     "output_ratio must leave at least one element on each axis, got 0.1 for an input of spatial shape (6, 6)"),
    (lambda x: nb.lp_pool2d(x, 1j, 2), TypeError, "norm_type must be an int or a float, got 1j"),
    (lambda x: nb.avg_pool2d(x, 2, divisor_override=1j), TypeError,
     "divisor_override must be an int or a float, got 1j"),
    (lambda x: nb.max_pool2d(x, 2, return_indices=True, out=(x, x, x)), TypeError,
     "out must be a pair (y, indices) with return_indices, got 3 of them"),
])  # fmt: skip
def test_messages_say_what_is_so(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call(image(2))


def test_errors_are_exceptions_of_python():
    """A traceback begins with no name of ours. Who catches wrong values of indices catches wrong dtypes, too."""
    y = np.ones((2, 3, 3, 3), np.float32)
    for call in (lambda: nb.max_pool2d_backward(y, y, (2, 3, 6, 6)), lambda: nb.max_unpool2d(y, y, 2)):
        with pytest.raises(TypeError, match="indices must be int32 or int64, got float32") as caught:
            call()
        assert traceback.format_exception_only(caught.value)[0].startswith("TypeError: indices")
        assert type(caught.value).__name__ == "TypeError"  # what notebooks show
        assert isinstance(caught.value, ValueError)
        assert type(pickle.loads(pickle.dumps(caught.value))) is TypeError


def test_no_message_sends_to_a_file_that_a_wheel_does_not_have():
    package = pathlib.Path(nb.__file__).parent
    for file in package.rglob("*.py"):
        if file.parent.name != "torch":
            assert not re.search(r"\bdocs/|CONTRIBUTING|README", file.read_text()), file


@pytest.mark.parametrize("name", ["photo.png", pathlib.Path("photo.png")])
def test_names_of_files(name):
    for call in (lambda x: nb.max_pool2d(x, 2), nb.global_avg_pool, nb.AvgPool2d(2)):
        with pytest.raises(TypeError, match=f"x must be an array, got a {type(name).__name__}: load the image first$"):
            call(name)


def test_indices_in_the_place_of_gradients():
    g, indices = np.ones((1, 1, 2, 2), np.float32), np.zeros((1, 1, 2, 2), np.int32)
    order = r" \(are {} and indices in the right order\?\)$"
    for call, name in ((lambda g, i: nb.max_pool2d_backward(g, i, (1, 1, 4, 4)), "grad_output"),
                       (lambda x, i: nb.max_unpool2d(x, i, 2), "x"), (nb.max_unpool2d_backward, "grad_output")):
        with pytest.raises(TypeError, match="indices must be int32 or int64, got float32" + order.format(name)):
            call(indices, g)
        with pytest.raises(TypeError, match=r"indices must be int32 or int64, got float32$"):
            call(g, g)
