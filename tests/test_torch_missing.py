"""numba_pool.torch with missing elements: values as of arrays, gradients, formats, compilation, Modules, errors."""

import pickle

import numpy as np
import pytest

import numba_pool

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install -e .[torch]")

from torch.autograd import gradcheck, gradgradcheck  # noqa: E402
from torch.fx import symbolic_trace  # noqa: E402

import numba_pool.torch as binding  # noqa: E402
from numba_pool.torch import _missing  # noqa: E402
from numba_pool.torch._ops import operator  # noqa: E402
from numba_pool.torch._pools import POOLS, numbers  # noqa: E402

torch.set_num_threads(1)
operators = torch.ops.numba_pool
SHAPE = (2, 3, 7, 6)
WINDOWS = (3, 2, 1)
CALLS = (
    ("max_pool2d", WINDOWS, {}),
    ("min_pool2d", WINDOWS, {}),
    ("avg_pool2d", WINDOWS, {}),
    ("sum_pool2d", WINDOWS, {"min_count": 6}),
    ("adaptive_max_pool2d", (3,), {}),
    ("adaptive_avg_pool2d", (3,), {"min_count": 2}),
)
IDS = [name for name, _, _ in CALLS]


def image(nan=True):
    """Numbers without ties; NaN in some windows, and a plane of nothing else."""
    n = int(np.prod(SHAPE))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    x = order.to(torch.float64).reshape(SHAPE) / n - 0.4
    if nan:
        x[0, 0, :4, :4] = torch.nan
        x[1, 2] = torch.nan
    return x


def mask(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.4


MISSING = {
    "nan": {"nan_policy": "omit"},
    "where": {"where": mask(3, 1, 6)},
    "both": {"nan_policy": "omit", "where": mask(*SHAPE)},
}


def by_numpy(name, x, arguments, more):
    more = {key: value.numpy() if isinstance(value, torch.Tensor) else value for key, value in more.items()}
    return getattr(numba_pool, name)(x.numpy(), *arguments, **more)


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize(("name", "arguments", "more"), CALLS, ids=IDS)
def test_as_of_arrays(name, arguments, more, missing):
    """Values and indices; gradients, and theirs; the format of what is channels last; transforms of torch.func."""
    x, more = image(), more | MISSING[missing]

    def pool(x):
        return getattr(binding, name)(x, *arguments, **more)

    expected = by_numpy(name, x, arguments, more)
    np.testing.assert_array_equal(pool(x), expected)
    if "max" in name:
        y, indices = getattr(binding, name)(x, *arguments, **more, return_indices=True)
        for ours, theirs in zip((y, indices), by_numpy(name, x, arguments, more | {"return_indices": True})):
            np.testing.assert_array_equal(ours, theirs)
        assert indices.dtype is torch.int64

    x = image("nan_policy" in more).requires_grad_()
    gradcheck(lambda x: pool(x).nan_to_num(), x)
    gradgradcheck(lambda x: pool(x).nan_to_num(), x)
    (gradient,) = torch.autograd.grad(pool(x).nansum(), x)
    assert gradient.any()
    assert not gradient[x.isnan() | ~more.get("where", ~x.isnan())].any()

    last = x.detach().to(memory_format=torch.channels_last).requires_grad_()
    y = pool(last)
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(y, pool(x), equal_nan=True)
    (of_last,) = torch.autograd.grad(y.nansum(), last)
    assert of_last.stride() == last.stride()
    torch.testing.assert_close(of_last, gradient)

    x = x.detach()
    assert torch.equal(torch.func.grad(lambda x: pool(x).nansum())(x), gradient)
    if "where" not in more:
        each = torch.func.vmap(torch.func.grad(lambda x: pool(x).nansum()))(x)
        torch.testing.assert_close(each, gradient)


def test_a_batch_of_masks():
    x, masks = image(nan=False), mask(4, *SHAPE)
    results = torch.func.vmap(lambda where: binding.avg_pool2d(x, *WINDOWS, where=where))(masks)
    for where, y in zip(masks, results):
        np.testing.assert_array_equal(y, binding.avg_pool2d(x, *WINDOWS, where=where))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_other_floats(dtype):
    """By way of the same elements as float64: sums here are exact in all dtypes."""
    if dtype is torch.bfloat16:
        pytest.importorskip("ml_dtypes")
    x = torch.arange(84.0).reshape(1, 2, 7, 6) % 5
    x[0, 0, 2] = torch.nan
    results = []
    for leaf in (x.to(dtype), x.double()):
        leaf.requires_grad_()
        y = binding.max_pool2d(leaf, 3, 2, 1, nan_policy="omit") + binding.sum_pool2d(leaf, 3, 2, 1, nan_policy="omit")
        assert y.dtype is leaf.dtype
        y.sum().backward()
        results.append((y.double(), leaf.grad.double()))
    for ours, expected in zip(*results):
        assert torch.equal(ours, expected)


def test_integers():
    x, where = torch.arange(84, dtype=torch.int32).reshape(1, 2, 7, 6), mask(7, 6)
    for name, arguments, more in CALLS[:4]:
        more = more | {"where": where}
        np.testing.assert_array_equal(getattr(binding, name)(x, *arguments, **more), by_numpy(name, x, arguments, more))


def test_which_operators(monkeypatch):
    """None without missing elements, and indices only for who wants them or a gradient."""
    asked = []
    monkeypatch.setattr(_missing, "operator", lambda name: asked.append(name) or operator(name))
    x = image(nan=False)
    binding.max_pool2d(x, 2, nan_policy="propagate", where=None)
    assert not asked
    binding.max_pool2d(x, 2, nan_policy="omit")
    binding.max_pool2d(x.requires_grad_(), 2, nan_policy="omit")
    assert asked == ["missing_maximum", "missing_argmax"]


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch 2.14 checks on copies, which are no leaves
def test_operators():
    """Schemas, gradients, and fake results of the real strides."""
    def check(operator, *args):
        tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static")
        assert set(torch.library.opcheck(operator.default, args, test_utils=tests).values()) == {"SUCCESS"}

    x, where = image(nan=False).to(memory_format=torch.channels_last).requires_grad_(), mask(*SHAPE)
    where[..., ::2, ::2] = True  # that no window is empty, as NaN would not equal itself
    given = numbers(POOLS["max_pool2d"], SHAPE, (3, 2, 1, 1, False), {})
    check(operators.missing_maximum, x.detach(), where, "max_pool2d", given, False)
    check(operators.missing_argmax, x, where, "max_pool2d", given, False)
    given = numbers(POOLS["avg_pool2d"], SHAPE, (3, 2, 1, False, True, None), {})
    check(operators.missing_average, x, None, "avg_pool2d", given, True, 1)
    y = operators.missing_average(x.detach(), None, "avg_pool2d", given, True, None).requires_grad_()
    check(operators.missing_spread, y, where, "avg_pool2d", given, None, list(SHAPE), True)


def test_compiled():
    def loss(x, where):
        y = binding.max_pool2d(x, 3, 2, 1, nan_policy="omit", where=where)
        return (binding.avg_pool2d(x, 3, 2, 1, nan_policy="omit", min_count=3) * y).nansum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    where = mask(7, 6)
    results = []
    for function in (loss, compiled):
        x = image().requires_grad_()
        y = function(x, where)
        results.append((y.detach(), *torch.autograd.grad(y, x)))
    for a, b in zip(*results):
        torch.testing.assert_close(a, b)


def test_symbolic_trace():
    traced = symbolic_trace(lambda x, where: binding.avg_pool2d(x, 2, where=where, min_count=2))
    x, where = image(nan=False), mask(7, 6)
    expected = binding.avg_pool2d(x, 2, where=where, min_count=2)
    np.testing.assert_array_equal(traced(x, where), expected)


def test_modules():
    """With the arguments of functions; accelerated ones take a mask. What is missing is in their description."""
    x, where = image(), mask(7, 6)
    for module, name, arguments, more in (
        (binding.MaxPool2d(2, nan_policy="omit"), "max_pool2d", (2,), {}),
        (binding.AvgPool2d(2, nan_policy="omit", min_count=3), "avg_pool2d", (2,), {"min_count": 3}),
        (binding.AdaptiveMaxPool2d(3, nan_policy="omit"), "adaptive_max_pool2d", (3,), {}),
        (binding.AdaptiveAvgPool2d(3, nan_policy="omit", min_count=2), "adaptive_avg_pool2d", (3,), {"min_count": 2}),
    ):
        expected = getattr(binding, name)(x, *arguments, **more, nan_policy="omit", where=where)
        np.testing.assert_array_equal(module(x, where=where), expected)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(module))(x, where), expected)
        assert "nan_policy='omit'" in repr(module)
        assert ("min_count" in repr(module)) == ("min_count" in more)
    accelerated = binding.accelerate(torch.nn.AvgPool2d(2))
    np.testing.assert_array_equal(accelerated(x, where=where), binding.avg_pool2d(x, 2, where=where))
    with pytest.raises(ValueError, match=r"^nan_policy must be 'propagate' or 'omit', got 'drop'$"):
        binding.MaxPool2d(2, nan_policy="drop")


def test_errors():
    x = image()
    for error, match, more in (
        (ValueError, "^nan_policy must be 'propagate' or 'omit', got 'drop'$", {"nan_policy": "drop"}),
        (ValueError, r"^where must broadcast against input of shape \(2, 3, 7, 6\), got shape \(5, 6\)$",
         {"where": mask(5, 6)}),
        (TypeError, "^where must be a Tensor of bools on the CPU, got torch.float64 on cpu$", {"where": x}),
        (TypeError, "^where of avg_pool2d must be a Tensor, got ndarray$", {"where": np.ones((7, 6), bool)}),
        (ValueError, "^min_count must be None unless elements may be missing, got 2", {"min_count": 2}),
        (ValueError, "^min_count must be at least 0", {"min_count": -1, "nan_policy": "omit"}),
    ):
        with pytest.raises(error, match=match):
            binding.avg_pool2d(x, 2, **more)
    with pytest.raises(NotImplementedError, match=r"^max_pool2d takes dense tensors .* on meta"):
        binding.max_pool2d(x.to("meta"), 2, nan_policy="omit")
    with pytest.raises(TypeError, match=r"^input of max_pool2d must be a Tensor, got list$"):
        binding.max_pool2d([1.0], 2, nan_policy="omit")


def test_an_input_that_changes():
    """Divisors depend on its NaN, so that torch has to refuse the gradient."""
    x = image().requires_grad_()
    z = x * 1
    y = binding.avg_pool2d(z, 2, nan_policy="omit")
    z.nan_to_num_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.nansum().backward()
