"""What is rejected: the exception's type, and a message that names the argument."""

import re

import numpy as np
import pytest

import numba_pool as nb

SIDE = 6
RANKS = (1, 2, 3)


def image(rank, dtype="float32", batch=(2,), channels=3, side=SIDE):
    return np.ones((*batch, channels, *(side,) * rank), dtype)


def sliding(rank, x, **changes):
    """Calls of every function with windows, with these changes to valid arguments."""
    arguments = {"kernel_size": 3, "stride": 2, **changes}
    y = np.ones((2, 3, *(2,) * rank), np.float32)
    maximum, average, lp = (getattr(nb, f"{name}_pool{rank}d") for name in ("max", "avg", "lp"))
    average_backward, lp_backward = (getattr(nb, f"{name}_pool{rank}d_backward") for name in ("avg", "lp"))
    return (
        lambda: maximum(x, **arguments),
        lambda: maximum(x, **arguments, return_indices=True),
        lambda: average(x, **arguments),
        lambda: average_backward(y, x.shape, **arguments),
        lambda: lp(x, 2, **arguments),
        lambda: lp_backward(y, x, y, 2, **arguments),
    )


WINDOWS = [
    ("kernel_size", 0, ValueError),
    ("kernel_size", -1, ValueError),
    ("kernel_size", (), ValueError),
    ("kernel_size", (2, 2, 2, 2), ValueError),
    ("kernel_size", 2.0, TypeError),
    ("kernel_size", True, TypeError),
    ("kernel_size", "3", TypeError),
    ("kernel_size", None, TypeError),
    ("kernel_size", np.float64(2), TypeError),
    ("kernel_size", np.bool_(True), TypeError),
    ("kernel_size", (2.0,), TypeError),
    ("kernel_size", (True,), TypeError),
    ("kernel_size", SIDE + 1, ValueError),
    ("stride", 0, ValueError),
    ("stride", -2, ValueError),
    ("stride", 2**31, ValueError),
    ("stride", (1, 1, 1, 1), ValueError),
    ("stride", 1.5, TypeError),
    ("stride", False, TypeError),
    ("padding", -1, ValueError),
    ("padding", 2, ValueError),  # more than half of the kernel
    ("padding", (2,), ValueError),
    ("padding", (1, 1, 1, 1), ValueError),
    ("padding", ((2**31, 0),), ValueError),
    ("padding", ((-1, 0),), ValueError),
    ("padding", ((1, 1, 1),), ValueError),
    ("padding", 1.0, TypeError),
    ("padding", True, TypeError),
    ("padding", ((1.0, 0),), TypeError),
    ("padding", "full", ValueError),
    ("padding", "SAME", ValueError),
    ("padding", None, TypeError),
    ("dilation", 0, ValueError),
    ("dilation", -1, ValueError),
    ("dilation", 3, ValueError),  # 7 taps wide
    ("dilation", (1, 1, 1, 1), ValueError),
    ("dilation", 1.0, TypeError),
    ("dilation", True, TypeError),
]


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(("name", "value", "error"), WINDOWS, ids=[f"{n}={v!r}" for n, v, _ in WINDOWS])
def test_window_arguments(rank, name, value, error):
    # an effective kernel that does not fit may be put down to any argument that makes it
    too_wide = (name, value) in (("kernel_size", SIDE + 1), ("dilation", 3))
    for call in sliding(rank, image(rank), **{name: value}):
        with pytest.raises(error, match="kernel_size" if too_wide else name) as caught:
            call()
        assert caught.value.__context__ is None or caught.value.__suppress_context__  # nothing else to read first


def test_a_pair_in_1d_is_shown_as_it_is_written():
    with pytest.raises(ValueError, match=r"for a pair is \(\(1, 0\),\), got \(1, 0\)"):
        nb.max_pool1d(np.zeros((1, 1, 9)), 3, padding=(1, 0))
    assert nb.max_pool1d(np.zeros((1, 1, 9)), 3, padding=((1, 0),)).shape == (1, 1, 3)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("name", ["kernel_size", "stride", "padding", "dilation"])
def test_tuples_of_the_wrong_length(rank, name):
    for length in {2, 3, 4} - {rank}:
        for call in sliding(rank, image(rank), **{name: (1,) * length}):
            with pytest.raises(ValueError, match=name):
                call()


@pytest.mark.parametrize("rank", RANKS)
def test_pairs_may_be_as_large_as_one_likes(rank):
    x = image(rank, side=9)
    assert nb.max_pool1d(image(1), 3, 1, ((2, 2),)).shape == (2, 3, SIDE + 2)
    pool = getattr(nb, f"max_pool{rank}d")
    assert pool(x, 3, 1, ((7, 0),) * rank, 2).shape[2:] == (12,) * rank


@pytest.mark.parametrize("rank", RANKS)
def test_number_of_axes(rank):
    few, many = np.ones((SIDE,) * rank, np.float32), np.ones((1, 1, 1, *(SIDE,) * rank), np.float32)
    for x in (few, many):
        for _, call in forwards(rank, x):
            with pytest.raises(ValueError, match=rf"\bx\b.*{re.escape(str(x.shape))}"):
                call()


def forwards(rank, x):
    """Every function that pools, and a call of it with arguments that are valid but for x."""
    arguments = {"max_pool": (2,), "avg_pool": (2,), "lp_pool": (2, 2), "adaptive_max_pool": (2,),
                 "adaptive_avg_pool": (2,), "max_unpool": (np.zeros(x.shape, np.int32), 2)}  # fmt: skip
    if rank > 1:
        arguments["fractional_max_pool"] = (2, 2)
    for name, values in arguments.items():
        function = getattr(nb, f"{name}{rank}d")
        yield function, lambda function=function, values=values: function(x, *values)


@pytest.mark.parametrize("rank", RANKS)
def test_only_the_batch_may_be_empty(rank):
    for axis in range(2, rank + 2):
        shape = [2, 3, *(SIDE,) * rank]
        shape[axis] = 0
        x = np.ones(shape, np.float32)
        calls = [call for _, call in forwards(rank, x)]
        calls += [lambda x=x: nb.global_avg_pool(x), lambda x=x: nb.global_max_pool(x)]
        for call in calls:
            with pytest.raises(ValueError, match=rf"\bx\b.*{re.escape(str(x.shape))}"):
                call()
    for shape in ((2, 0, *(SIDE,) * rank), (0, *(SIDE,) * rank)):
        x = np.ones(shape, np.float32)
        average = getattr(nb, f"adaptive_avg_pool{rank}d")  # which accepts no channels
        for function, call in forwards(rank, x):
            if function is not average:
                with pytest.raises(ValueError, match=r"\bx\b"):
                    call()
    with pytest.raises(ValueError, match=r"\bx\b"):
        nb.global_max_pool(np.ones((2, 0, SIDE), np.float32))


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128", "object", "U1", "bool", "datetime64[s]", "longdouble"])
def test_unsupported_dtypes(rank, dtype):
    x = image(rank, "int64").astype(dtype)
    calls = [call for _, call in forwards(rank, x)]
    for call in [*calls, lambda: nb.global_avg_pool(x), lambda: nb.global_max_pool(x)]:
        with pytest.raises(TypeError, match=r"\bx\b"):
            call()


@pytest.mark.parametrize("rank", RANKS)
def test_lp_takes_floats_only(rank):
    x = image(rank, "int32")
    with pytest.raises(TypeError, match=r"\bx\b"):
        getattr(nb, f"lp_pool{rank}d")(x, 2, 2)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(
    ("value", "error"),
    [(0, ValueError), (-1, ValueError), (-0.5, ValueError), (np.nan, ValueError), ("2", TypeError), (None, TypeError),
     (1j, TypeError), (True, TypeError)],
)  # fmt: skip
def test_norm_type(rank, value, error):
    x = image(rank)
    y = getattr(nb, f"lp_pool{rank}d")(x, 2, 2)
    with pytest.raises(error, match="norm_type"):
        getattr(nb, f"lp_pool{rank}d")(x, value, 2)
    with pytest.raises(error, match="norm_type"):
        getattr(nb, f"lp_pool{rank}d_backward")(y, x, y, value, 2)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (0.0, ValueError), ("2", TypeError), (1j, TypeError)])
def test_divisor_override(rank, value, error):
    x = image(rank)
    with pytest.raises(error, match="divisor_override"):
        getattr(nb, f"avg_pool{rank}d")(x, 2, divisor_override=value)
    with pytest.raises(error, match="divisor_override"):
        getattr(nb, f"avg_pool{rank}d_backward")(image(rank, side=3), x.shape, 2, divisor_override=value)


@pytest.mark.parametrize("dtype", ["uint8", "uint64"])
def test_negative_divisors_of_unsigned_integers(dtype):
    with pytest.raises(ValueError, match=f"divisor_override must be positive for {dtype}, got -2"):
        nb.avg_pool2d(np.ones((1, 1, 4, 4), dtype), 2, divisor_override=-2)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(
    ("value", "error"),
    [(-1, ValueError), ((2,) * 4, ValueError), ((), ValueError), (2.0, TypeError), (True, TypeError), ("2", TypeError),
     ((2.0,), TypeError), ((-1,), ValueError)],
)  # fmt: skip
def test_output_size_of_adaptive_pooling(rank, value, error):
    for name in ("max", "avg"):
        with pytest.raises(error, match="output_size"):
            getattr(nb, f"adaptive_{name}_pool{rank}d")(image(rank), value)


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_arguments(rank):
    x = image(rank)
    pool = getattr(nb, f"fractional_max_pool{rank}d")
    for name, value, error in (
        ("output_size", SIDE, ValueError),  # with a kernel of 2, at most 5
        ("output_size", 0, ValueError),
        ("output_size", -1, ValueError),
        ("output_size", (2,), ValueError),  # no short form
        ("output_size", (2,) * 4, ValueError),
        ("output_size", 2.0, TypeError),
        ("output_size", True, TypeError),
        ("kernel_size", 0, ValueError),
        ("kernel_size", SIDE + 1, ValueError),
        ("kernel_size", (2,), ValueError),
        ("kernel_size", (2,) * 4, ValueError),
        ("kernel_size", 2.0, TypeError),
        ("kernel_size", True, TypeError),
        ("output_ratio", "0.5", TypeError),
        ("output_ratio", (0.5,) * 4, ValueError),
        ("output_ratio", 0.01, ValueError),  # no output
    ):
        arguments = {"kernel_size": 2} if name == "output_ratio" else {"kernel_size": 2, "output_size": 3}
        with pytest.raises(error, match=name):
            pool(x, **{**arguments, name: value})
    with pytest.raises(ValueError, match=r"output_size.*output_ratio"):
        pool(x, 2)
    for samples, error in (
        (np.zeros((2, 3, rank + 1), np.float32), ValueError),
        (np.zeros((2, 2, rank), np.float32), ValueError),
        (np.zeros((1, 3, rank), np.float32), ValueError),
        (np.zeros(rank, np.float32), ValueError),
        (np.ones((2, 3, rank), np.float32), ValueError),  # u lies in [0, 1)
        (np.full((2, 3, rank), -0.1, np.float32), ValueError),
        (np.full((2, 3, rank), np.nan, np.float32), ValueError),
        (np.zeros((2, 3, rank), np.complex64), TypeError),
    ):
        with pytest.raises(error, match="random_samples"):
            pool(x, 2, 3, random_samples=samples)


@pytest.mark.parametrize("rank", RANKS)
def test_max_unpool_arguments(rank):
    x, indices = image(rank), np.zeros(image(rank).shape, np.int32)
    unpool = getattr(nb, f"max_unpool{rank}d")
    for name, value, error in (
        ("kernel_size", 0, ValueError),
        ("kernel_size", 2.0, TypeError),
        ("kernel_size", (2,) * 4, ValueError),
        ("stride", 0, ValueError),
        ("stride", True, TypeError),
        ("padding", -1, ValueError),
        ("padding", 1.0, TypeError),
        ("output_size", (2 * SIDE + 2,) * rank, ValueError),
        ("output_size", (2 * SIDE - 2,) * rank, ValueError),
        ("output_size", (2.0 * SIDE,) * rank, TypeError),
        ("output_size", (2 * SIDE,) * (rank + 3), ValueError),
        ("output_size", (3, 2, *(2 * SIDE,) * rank), ValueError),  # N and C exchanged
        ("indices", indices[:1], ValueError),
        ("indices", indices[..., :-1], ValueError),
        ("indices", indices.astype(np.float32), TypeError),
        ("indices", indices.astype(bool), TypeError),
    ):
        with pytest.raises(error, match=name):
            unpool(**{"x": x, "indices": indices, "kernel_size": 2, name: value})
    with pytest.raises(ValueError, match=r"output_size|padding"):
        unpool(x[..., :1], indices[..., :1], 2, 2, 1)


def scattering(rank):
    for name in ("max_pool", "adaptive_max_pool", "fractional_max_pool"):
        if name != "fractional_max_pool" or rank > 1:
            yield getattr(nb, f"{name}{rank}d_backward")
    yield nb.global_max_pool_backward


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_backward_of_a_maximum(rank, order):
    shape = (2, 3, *(4,) * rank)
    for backward in scattering(rank):
        output = (2, 3, *(1 if backward is nb.global_max_pool_backward else 2,) * rank)
        g, indices = np.ones(output, np.float32), np.zeros(output, np.int32)
        if order == "channels_last":
            g, indices = (np.moveaxis(np.moveaxis(a, 1, -1).copy(), -1, 1) for a in (g, indices))
        assert backward(g, indices, shape).sum() == g.size
        for wrong in (4**rank, -2, 2**31 - 1, -(2**31)):
            for place in (0, -1):
                bad = indices.copy(order="K")
                bad[(place,) * bad.ndim] = wrong
                with pytest.raises(ValueError, match="indices"):
                    backward(g, bad, shape)
        for bad, error in (
            (indices[:1], ValueError),
            (indices[0], ValueError),
            (indices.astype(np.float32), TypeError),
            (indices.astype(bool), TypeError),
        ):
            with pytest.raises(error, match="indices"):
                backward(g, bad, shape)
        for bad in (shape[1:], (*shape, 4), (3, *shape[1:]), (2, 4, *shape[2:]), (2, 3, *(-4,) * rank)):
            with pytest.raises(ValueError, match="input_shape"):
                backward(g, indices, bad)
        with pytest.raises(ValueError, match=rf"as many axes, got {rank + 2} and {rank + 3} of input_shape"):
            backward(g, indices, (*shape, 4))
        with pytest.raises(ValueError, match=r"agree in the batch and channels, got \(2, 3\) and \(3, 3\) of"):
            backward(g, indices, (3, *shape[1:]))
        for bad in ((2.0, 3, *shape[2:]), (2, 3, *(True,) * rank)):
            with pytest.raises(TypeError, match="input_shape"):
                backward(g, indices, bad)
        with pytest.raises(TypeError, match="grad_output"):
            backward(g.astype(np.complex64), indices, shape)


@pytest.mark.parametrize(("name", "value", "bound"), [
    ("kernel_size", 0, "at least 1"), ("padding", -1, "at least 0"), ("stride", 2**31, "at most 2147483647"),
])  # fmt: skip
def test_a_size_out_of_bounds_is_told_which(name, value, bound):
    with pytest.raises(ValueError, match=f"{name} must be {bound}, got {value}"):
        nb.max_pool2d(image(2), **{"kernel_size": 2, name: value})


@pytest.mark.parametrize("rank", RANKS)
def test_backward_of_an_average(rank):
    shape = (2, 3, *(4,) * rank)
    g = np.ones((2, 3, *(2,) * rank), np.float32)
    average = getattr(nb, f"avg_pool{rank}d_backward")
    adaptive = getattr(nb, f"adaptive_avg_pool{rank}d_backward")
    assert average(g, shape, 2).shape == adaptive(g, shape).shape == shape
    for bad in (g[..., :1], g[:1], g[:, :2], g[None, None]):
        with pytest.raises(ValueError, match=r"grad_output|input_shape"):
            average(bad, shape, 2)
    for bad in (g[:1], g[:, :2], g[None, None]):
        with pytest.raises(ValueError, match=r"grad_output|input_shape"):
            adaptive(bad, shape)
    whole = g.mean(axis=tuple(range(2, rank + 2)), keepdims=True)
    for bad in (g, whole[:1], whole[:, :2]):
        with pytest.raises(ValueError, match=r"grad_output|input_shape"):
            nb.global_avg_pool_backward(bad, shape)
    larger = (*shape[:2], *(6,) * rank)
    with pytest.raises(ValueError, match=re.escape(f"of the output for input_shape {larger}, got {g.shape}")):
        average(g, larger, 2)
    for bad in (shape[2:], (*shape, 4), (2, 3, *(0,) * rank), (2, 3, *(-4,) * rank)):
        with pytest.raises(ValueError, match=r"input_shape|grad_output"):
            average(g, bad, 2)
        with pytest.raises(ValueError, match=r"input_shape|grad_output"):
            adaptive(g, bad)
    for bad in ((2, 3, *(4.0,) * rank), (2, 3, *(True,) * rank)):
        for call in (lambda bad=bad: average(g, bad, 2), lambda bad=bad: adaptive(g, bad)):
            with pytest.raises(TypeError, match="input_shape"):
                call()
    for call in (lambda: average(g.astype("complex64"), shape, 2), lambda: adaptive(g.astype("complex64"), shape)):
        with pytest.raises(TypeError, match="grad_output"):
            call()


@pytest.mark.parametrize("rank", RANKS)
def test_backward_of_lp(rank):
    x = image(rank)
    y = getattr(nb, f"lp_pool{rank}d")(x, 2, 2)
    backward = getattr(nb, f"lp_pool{rank}d_backward")
    for arguments, name in (
        ((y[..., :1], x, y), "grad_output"),
        ((y[:1], x, y), "grad_output"),
        ((y, x, y[..., :1]), r"\by\b"),
        ((y, x[:1], y), r"\bx\b|grad_output"),
    ):
        with pytest.raises(ValueError, match=name):
            backward(*arguments, 2, 2)
    came = re.escape(f" for an x of shape {y.shape}, got {y.shape}")
    with pytest.raises(ValueError, match=f"grad_output must have shape .*{came}"):
        backward(y, y, x, 2, 2)


@pytest.mark.parametrize("rank", RANKS)
def test_backward_of_unpooling(rank):
    g, indices = image(rank), np.zeros((2, 3, *(2,) * rank), np.int32)
    backward = getattr(nb, f"max_unpool{rank}d_backward")
    assert backward(g, indices).shape == indices.shape
    for bad in (indices[:1], indices[:, :2], indices[None, None]):
        with pytest.raises(ValueError, match="indices"):
            backward(g, bad)
    with pytest.raises(TypeError, match="indices"):
        backward(g, indices.astype(np.float64))
    for wrong in (-1, SIDE**rank):
        bad = indices.copy()
        bad[(-1,) * bad.ndim] = wrong
        with pytest.raises(ValueError, match="indices"):
            backward(g, bad)


@pytest.mark.parametrize("value", [None, ["float32"], ("float32",), {}, "float31", 3])
def test_warmup_takes_arrays_and_dtypes_one_by_one(value):
    """NumPy makes a dtype of each of these: None is float64."""
    with pytest.raises(TypeError, match="warmup takes arrays and dtypes, got "):
        nb.warmup(value)


def test_gradients_of_another_shape_than_the_indices():
    _, indices = nb.max_pool2d(np.ones((1, 1, 4, 4), np.float32), 2, return_indices=True)
    with pytest.raises(ValueError, match=re.escape("grad_output and indices must have the same shape, got "
                                                   "(1, 1, 3, 3) and (1, 1, 2, 2)")):
        nb.max_pool2d_backward(np.ones((1, 1, 3, 3), np.float32), indices, (1, 1, 4, 4))


def test_gradients_of_another_batch_than_the_input():
    with pytest.raises(ValueError, match=re.escape("got (1, 3) and (2, 3) of input_shape (2, 3, 4, 4)")):
        nb.avg_pool2d_backward(np.ones((1, 3, 2, 2), np.float32), (2, 3, 4, 4), 2)


HINT = "; if the last axis holds the channels, pass channel_axis=-1"


def backwards_of_images(grad_shape, shape):
    g, indices = np.ones(grad_shape, np.float32), np.zeros(grad_shape, np.int32)
    yield lambda: nb.avg_pool2d_backward(g, shape, 2)
    yield lambda: nb.max_pool2d_backward(g, indices, shape)
    yield lambda: nb.adaptive_avg_pool2d_backward(g, shape)


@pytest.mark.parametrize("batch", [(), (4,)])
def test_a_backward_without_channel_axis_is_shown_the_way(batch):
    for call in backwards_of_images((*batch, 24, 32, 3), (*batch, 48, 64, 3)):
        with pytest.raises(ValueError, match=f"must agree in the batch and channels.*{re.escape(HINT)}$"):
            call()


@pytest.mark.parametrize("shape", [(48, 64, 4), (3, 48, 64)])
def test_channels_that_agree_nowhere_are_no_such_case(shape):
    for call in backwards_of_images((24, 32, 3), shape):
        with pytest.raises(ValueError, match=r"must agree in the batch and channels.*[)]$"):
            call()


def test_a_backward_with_channel_axis_is_not_asked_for_one():
    g = np.ones((2, 24, 48, 4), np.float32)  # as wide as the input, and of other channels
    with pytest.raises(ValueError, match="must agree in the batch and channels") as caught:
        nb.adaptive_avg_pool2d_backward(g, (2, 24, 48, 3), channel_axis=-1)
    assert HINT not in str(caught.value)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_integers_that_must_be_floats(dtype):
    shape = (1, 1, 4, 4)
    for call in (lambda g: nb.avg_pool2d_backward(g, shape, 2), lambda g: nb.sum_pool2d_backward(g, shape, 2),
                 lambda g: nb.global_avg_pool_backward(g[..., :1, :1], shape)):
        with pytest.raises(TypeError, match=rf"got {np.dtype(dtype)}: pass grad_output\.astype\(np\.float32\)$"):
            call(np.ones((1, 1, 2, 2), dtype))


@pytest.mark.parametrize(("value", "error"), [("a", TypeError), (-1, ValueError), (np.random, TypeError)])
def test_what_draws_windows(value, error):
    with pytest.raises(error, match=r"rng must be a numpy[.]random[.]Generator or a seed for one, got"):
        nb.fractional_max_pool2d(np.ones((1, 1, 6, 6)), 2, 3, rng=value)


def test_number_of_axes_of_global_pooling():
    for shape in ((3,), (1, 1, 1, 1, 1, 1)):
        for pool in (nb.global_avg_pool, nb.global_max_pool):
            with pytest.raises(ValueError, match=rf"\bx\b.* got shape {re.escape(str(shape))}"):
                pool(np.ones(shape, np.float32))


@pytest.mark.parametrize("rank", RANKS)
def test_nothing_is_written_before_the_arguments_are_checked(rank):
    """Wrong indices are found by reading all of them first, or the result is not the caller's."""
    x = image(rank)
    out = np.full((2, 3, *(3,) * rank), 77, np.float32)
    for call in (
        lambda: getattr(nb, f"max_pool{rank}d")(x, 2, padding=-1, out=out),
        lambda: getattr(nb, f"avg_pool{rank}d")(x, 2, divisor_override=0, out=out),
        lambda: getattr(nb, f"lp_pool{rank}d")(x, 0, 2, out=out),
        lambda: getattr(nb, f"adaptive_max_pool{rank}d")(x, -1, out=out),
    ):
        with pytest.raises(ValueError, match=r"padding|divisor_override|norm_type|output_size"):
            call()
        assert (out == 77).all()
