"""PyTorch's own sample inputs and error inputs for its pooling operators, which ship in its wheel."""

import warnings

import numpy as np
import pytest

import numba_pool

torch = pytest.importorskip("torch", reason="PyTorch's samples come with torch: pip install -e .[conformance]")
pytest.importorskip("expecttest", reason="PyTorch's test helpers need expecttest: pip install -e .[conformance]")

torch.set_num_threads(1)

FAMILIES = (
    "max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "fractional_max_pool", "max_unpool"
)  # fmt: skip
NAMES = [f"{family}{rank}d" for family in FAMILIES for rank in (1, 2, 3) if hasattr(numba_pool, f"{family}{rank}d")]


def operators(name):
    """PyTorch's of that name; not before a test asks for them, since to import all of them takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tests of other operators
        from torch.testing._internal.common_methods_invocations import op_db

    found = [op for op in op_db if op.name.removeprefix("nn.functional.") == name]
    assert found
    return found


def array(tensor):
    """The tensor's memory as it lies, strides included."""
    return tensor.detach().numpy()


def samples(op, dtype):
    torch.manual_seed(0)
    # not op.sample_inputs(), which keeps a stack trace of every sample: 10 ms each under pytest, and there are 10,000
    return op.sample_inputs_func(op, "cpu", dtype, requires_grad=True)


def call(name, x, args, kwargs):
    """Our call of the same name, tensors as arrays."""
    arrays = [array(a) if isinstance(a, torch.Tensor) else a for a in args]
    kwargs = {("random_samples" if k == "_random_samples" else k): v for k, v in kwargs.items()}
    kwargs = {k: array(v) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    return getattr(numba_pool, name)(array(x), *arrays, **kwargs)


def backward(name, grad, x, indices, args, kwargs):
    """The gradient with respect to x by our backward of that name."""
    function = getattr(numba_pool, f"{name}_backward")
    if name.startswith("max_unpool"):
        return function(grad, array(args[0]))
    if "max_pool" in name:
        return function(grad, indices, tuple(x.shape))
    if name.startswith("adaptive_avg"):
        return function(grad, tuple(x.shape))
    return function(grad, tuple(x.shape), *args, **kwargs)


def with_fixed_samples(name, x, kwargs):
    """Fractional pooling draws its windows: give both sides the same numbers."""
    if not name.startswith("fractional"):
        return kwargs
    rank = int(name[-2])
    lead = x.shape[:2] if x.ndim == rank + 2 else (1, x.shape[0])
    return {**kwargs, "_random_samples": torch.rand(*lead, rank, dtype=x.dtype)}


def agree(actual, expected, exact, what):
    expected = array(expected)
    assert actual.dtype == expected.dtype
    if exact:
        np.testing.assert_array_equal(actual, expected, err_msg=what)
    else:
        unit = np.finfo(expected.dtype).eps
        np.testing.assert_allclose(actual, expected, rtol=8 * unit, atol=8 * unit * np.abs(expected).max(initial=0),
                                   err_msg=what)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_samples(name, dtype):
    """Forward, indices and gradients of every sample."""
    for op in operators(name):
        count = 0
        for sample in samples(op, dtype):
            check_sample(name, op, sample, dtype)
            count += 1
        assert count > 5


def check_sample(name, op, sample, dtype):
    exact = "avg" not in name
    x, args, kwargs = sample.input, sample.args, with_fixed_samples(name, sample.input, sample.kwargs)
    what = f"{name}({tuple(x.shape)}, {args}, {kwargs})"
    expected, result = op(x, *args, **kwargs), call(name, x, args, kwargs)
    indices = None
    if isinstance(expected, tuple):
        assert isinstance(result, tuple), what
        (expected, expected_indices), (result, indices) = expected, result
        np.testing.assert_array_equal(indices, array(expected_indices), err_msg=what)
        assert indices.dtype == np.int32
    agree(result, expected, exact, what)
    if "max_pool" in name and indices is None:  # to have a gradient, ask for them
        asked = args[:1] if name.startswith("adaptive") else args
        _, indices = call(name, x, asked, {**kwargs, "return_indices": True})
    # whole numbers: overlapping windows add up exactly in any order
    grad = torch.randint(-8, 9, expected.shape).to(dtype)
    (expected_grad,) = torch.autograd.grad(expected, x, grad)
    agree(backward(name, array(grad), x, indices, args, kwargs), expected_grad, exact, f"gradient of {what}")


def errors(name):
    """PyTorch's samples of wrong arguments; it has some for all but fractional pooling."""
    found = [error for op in operators(name) if op.error_inputs_func is not None for error in op.error_inputs("cpu")]
    assert found or name.startswith("fractional")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_errors(name):
    """What PyTorch rejects we reject. It has no samples for Lp pooling."""
    for error in errors(name):
        sample = error.sample_input
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            getattr(torch.nn.functional, name)(sample.input, *sample.args, **sample.kwargs)
        with pytest.raises((ValueError, TypeError)):
            call(name, sample.input, sample.args, sample.kwargs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_max_pool2d_with_indices_backward(dtype):
    """PyTorch lists this backward as an operator of its own."""
    (op,) = operators("max_pool2d_with_indices_backward")
    count = 0
    for sample in samples(op, dtype):
        x, kwargs = sample.input, {**sample.kwargs, "return_indices": True}
        y, indices = torch.nn.functional.max_pool2d(x, *sample.args, **kwargs)
        grad = torch.randint(-8, 9, y.shape).to(dtype)
        windows = [kwargs[k] for k in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")]
        windows = [[w] if isinstance(w, int) and not isinstance(w, bool) else w for w in windows]
        expected = torch.ops.aten.max_pool2d_with_indices_backward(grad, x, windows[0], windows[1] or [], *windows[2:],
                                                                   indices)  # fmt: skip
        agree(numba_pool.max_pool2d_backward(array(grad), array(indices), tuple(x.shape)), expected, True, str(kwargs))
        count += 1
    assert count > 5
