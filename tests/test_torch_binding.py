"""numba_pool.torch called as such: values, gradients, memory formats, dtypes, and what is torch's to compute."""

import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

import numba_pool

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install -e .[torch]")

import torch.nn.functional as F  # noqa: E402
from torch.autograd import forward_ad, gradcheck, gradgradcheck  # noqa: E402

import numba_pool.torch as binding  # noqa: E402
from numba_pool.torch import _autograd, _tensors  # noqa: E402
from numba_pool.torch._pools import POOLS  # noqa: E402

pytestmark = pytest.mark.usefixtures("small_calls_too")
torch.set_num_threads(1)
FORMATS = {"contiguous": torch.contiguous_format, "channels last": torch.channels_last}


class Case(NamedTuple):
    """One call of a function that torch and the binding have under the same name."""

    name: str
    arguments: tuple[Any, ...] = ()
    shape: tuple[int, ...] = (2, 3, 7, 6)

    def own(self, x):
        return getattr(F, self.name)(x, *self.arguments)

    def ours(self, x):
        return getattr(binding, self.name)(x, *self.arguments)

    def __str__(self):
        return f"{self.name}{self.arguments}".replace(" ", "")


CASES = (
    Case("max_pool1d", (3, 2, 1), (2, 3, 9)),
    Case("max_pool2d", (3, 2, 1, 1, True)),
    Case("avg_pool2d", (3, 2, 1, True, False)),
    Case("avg_pool2d", (2, None, 0, False, True, 3)),
    Case("avg_pool3d", (2,), (1, 2, 4, 4, 5)),
    Case("adaptive_max_pool2d", ((3, None),)),
    Case("adaptive_avg_pool2d", (3,)),
    Case("adaptive_avg_pool2d", (1,)),
    Case("lp_pool2d", (2, 2)),
)
IMAGES = [case for case in CASES if len(case.shape) == 4]


def distinct(shape, dtype=torch.float64):
    """Numbers without ties, far enough apart for finite differences."""
    n = int(np.prod(shape))
    generator = torch.Generator().manual_seed(0)
    return (torch.randperm(n, generator=generator).to(torch.float64).reshape(shape) / n - 0.4).to(dtype)


@pytest.fixture
def computed(monkeypatch):
    """The calls that came to the core, by name: what torch computed in our place is none."""
    names, call = [], _tensors.call

    def noted(size, function, *args, **kwargs):
        names.append(getattr(function, "__name__", "?"))
        return call(size, function, *args, **kwargs)

    for module in (_autograd, sys.modules["numba_pool.torch._ops"]):
        monkeypatch.setattr(module, "call", noted)
    return names


def both(case, x):
    """(output, gradient) by torch and by the binding."""
    results = []
    for function in (case.own, case.ours):
        leaf = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
        y = function(leaf)
        g = torch.randint(-4, 5, y.shape, generator=torch.Generator().manual_seed(1)).to(y.dtype)
        results.append((y.detach(), torch.autograd.grad(y, leaf, g)[0]))
    return results


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_to_second_order(case, computed):
    x = distinct(case.shape).requires_grad_()
    gradcheck(case.ours, x)
    assert {case.name, f"{case.name}_backward"} <= set(computed)
    gradgradcheck(case.ours, x)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("case", IMAGES, ids=str)
def test_as_torch(case, memory_format, computed):
    """Values, gradients, and the strides of both; without gradients, too."""
    x = distinct(case.shape).contiguous(memory_format=FORMATS[memory_format])
    (expected, expected_grad), (y, grad) = both(case, x)
    torch.testing.assert_close(y, expected, check_stride=True)
    torch.testing.assert_close(grad, expected_grad)
    assert grad.stride() == x.stride()
    if "max" in case.name:
        assert torch.equal(y, expected)
        assert torch.equal(grad, expected_grad)
    alone = case.ours(x)
    assert torch.equal(alone, y)
    assert alone.stride() == y.stride()
    assert not alone.requires_grad
    assert computed.count(case.name) == 2


@pytest.mark.parametrize("case", IMAGES, ids=str)
def test_contiguous_gradient_of_channels_last(case):
    """What a Flatten sends back is contiguous, and the gradient yet channels last, with the same bits."""
    x = distinct(case.shape).to(memory_format=torch.channels_last)
    y = case.ours(x.requires_grad_())
    g = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(1))
    (contiguous,) = torch.autograd.grad(y, x, g, retain_graph=True)
    (last,) = torch.autograd.grad(y, x, g.to(memory_format=torch.channels_last), retain_graph=True)
    (expanded,) = torch.autograd.grad(y.sum(), x)
    assert contiguous.stride() == last.stride() == expanded.stride() == x.stride()
    assert torch.equal(contiguous, last)


def test_the_core_gets_channels_last_arrays(monkeypatch):
    """Else the results would be right, but copied twice on their way."""
    orders, call = [], _tensors.call

    def noted(size, function, *args, **kwargs):
        orders.extend(a.transpose(0, 2, 3, 1).flags.c_contiguous for a in args if isinstance(a, np.ndarray))
        return call(size, function, *args, **kwargs)

    monkeypatch.setattr(_autograd, "call", noted)
    x = distinct((2, 3, 7, 6)).to(memory_format=torch.channels_last).requires_grad_()
    y = binding.max_pool2d(x, 3, 2, 1)
    y.backward(torch.ones(y.shape, dtype=y.dtype))
    assert orders == [True] * 3  # the input, the gradient, the indices


@pytest.mark.parametrize("shape", [(2, 1, 6, 6), (1, 1, 4, 4), (2, 3, 1, 1), (1, 3, 2, 2), (0, 3, 4, 4), (3, 4, 4)])
@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_strides_of_one_channel_and_one_pixel(name, shape):
    """Sizes of 1 leave the memory format open to all but torch, which goes by strides."""
    case = Case(name, (1 if shape[-1] == 1 else 2,), shape)
    for memory_format in (FORMATS if len(shape) == 4 else ("contiguous",)):
        x = distinct(shape)
        x = torch.empty(shape, dtype=x.dtype, memory_format=FORMATS[memory_format]).copy_(x)
        (expected, expected_grad), (y, grad) = both(case, x)
        torch.testing.assert_close(y, expected, check_stride=True)
        torch.testing.assert_close(grad, expected_grad)


def test_channels_last_3d():
    case = Case("max_pool3d", (2,), (1, 3, 4, 4, 4))
    x = distinct(case.shape).to(memory_format=torch.channels_last_3d)
    (expected, expected_grad), (y, grad) = both(case, x)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(grad, expected_grad)
    assert y.is_contiguous(memory_format=torch.channels_last_3d)
    assert grad.stride() == x.stride()


def test_gradients_are_the_cores():
    """Bit for bit, where windows overlap and sums round."""
    x = distinct((2, 3, 9, 9)).requires_grad_()
    a = x.detach().numpy()
    g = np.random.default_rng(0).standard_normal((2, 3, 5, 5))
    _, indices = numba_pool.max_pool2d(a, 3, 2, 1, return_indices=True)
    for y, expected in (
        (binding.max_pool2d(x, 3, 2, 1), numba_pool.max_pool2d_backward(g, indices, a.shape)),
        (binding.avg_pool2d(x, 3, 2, 1), numba_pool.avg_pool2d_backward(g, a.shape, 3, 2, 1)),
        (binding.adaptive_avg_pool2d(x, 5), numba_pool.adaptive_avg_pool2d_backward(g, a.shape)),
    ):
        (grad,) = torch.autograd.grad(y, x, torch.from_numpy(g))
        np.testing.assert_array_equal(grad.numpy(), expected)


def test_gradient_of_a_global_average_is_the_cores_in_channels_last():
    shape = (2, 5, 7, 9)
    x = distinct(shape).to(memory_format=torch.channels_last).requires_grad_()
    g = torch.randn(2, 5, 1, 1, dtype=x.dtype)
    (grad,) = torch.autograd.grad(binding.global_avg_pool(x), x, g)
    np.testing.assert_array_equal(grad.numpy(), numba_pool.global_avg_pool_backward(g.numpy(), shape))
    assert grad.stride() == x.stride()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves(dtype, computed):
    for case in (Case("max_pool2d", (3, 2, 1)), Case("avg_pool2d", (2,))):
        (expected, expected_grad), (y, grad) = both(case, distinct(case.shape, dtype))
        assert y.dtype == grad.dtype == dtype
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(grad, expected_grad)
        assert case.name in computed


@pytest.mark.parametrize("name", POOLS)
def test_autocast_as_torch(name):
    rank = int(name[-2])
    arguments = {"lp": (2, 2), "fr": (2, 3)}.get(name[:2], (2,))
    x = torch.rand(1, 2, *[5] * rank, dtype=torch.bfloat16)
    if name.startswith("max_unpool"):
        arguments = (torch.zeros(x.shape, dtype=torch.int64), 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = POOLS[name].own(x, *arguments).dtype
        if "max_unpool" in name or "lp" in name or name == "avg_pool3d":  # others only know what torch does
            assert getattr(binding, name)(x, *arguments).dtype == expected
        else:
            assert POOLS[name].single == (expected == torch.float32)


def test_indices_serve_unpooling():
    x = distinct((2, 3, 7, 6))
    y, indices = binding.max_pool2d(x, 2, return_indices=True)
    expected = F.max_pool2d(x, 2, return_indices=True)
    assert indices.dtype == torch.int64
    assert torch.equal(y, expected[0])
    assert torch.equal(indices, expected[1])
    y, indices = binding.max_pool2d(x.requires_grad_(), 2, return_indices=True)
    assert not indices.requires_grad
    unpooled = torch.nn.MaxUnpool2d(2)(y, indices, output_size=x.shape)
    assert torch.equal(binding.max_unpool2d(y, indices, 2, output_size=x.shape), unpooled)
    assert torch.equal(binding.MaxUnpool2d(2)(y, indices, x.shape), unpooled)
    gradcheck(lambda v: binding.max_unpool2d(v, indices, 2), distinct(y.shape).requires_grad_())
    gradgradcheck(lambda v: binding.max_unpool2d(v, indices, 2), distinct(y.shape).requires_grad_())


def test_changes_of_saved_tensors_are_noticed():
    y = distinct((1, 1, 2, 2)).requires_grad_()
    indices = torch.tensor([[[[0, 3], [8, 11]]]])
    z = binding.max_unpool2d(y, indices, 2)
    indices += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    x = distinct((1, 1, 4, 4)).requires_grad_()
    leaf = x * 1
    norms = binding.lp_pool2d(leaf, 2, 2)
    leaf += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        norms.sum().backward()


def test_a_maximum_does_not_depend_on_later_changes():
    """It keeps what nobody else can reach: its own indices."""
    x = distinct((1, 1, 4, 4)).requires_grad_()
    leaf = x * 1
    y, indices = binding.max_pool2d(leaf, 2, return_indices=True)
    expected = torch.autograd.grad(y.sum(), x, retain_graph=True)[0]
    indices.zero_()
    leaf.zero_()
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], expected)


@pytest.mark.parametrize("name", ["adaptive_avg_pool2d", "adaptive_max_pool2d"])
def test_nothing_has_a_gradient_of_zeros(name):
    """Torch's own refuses it in backward."""
    x = distinct((1, 2, 4, 4)).requires_grad_()
    getattr(binding, name)(x, 0).sum().backward()
    assert torch.equal(x.grad, torch.zeros_like(x))


def test_second_backward_needs_retain_graph():
    y = binding.max_pool2d(distinct((1, 1, 4, 4)).requires_grad_(), 2).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


@pytest.mark.parametrize("name", ["fractional_max_pool2d"])
def test_fractional_draws_as_torch(name, computed):
    rank = int(name[-2])
    x = distinct((2, 3, *[7] * rank))
    for kwargs in ({"output_size": 4}, {"output_ratio": (0.6,) * rank, "return_indices": True}):
        results = []
        for module in (F, binding):
            torch.manual_seed(3)
            results.append(getattr(module, name)(x, 2, **kwargs))
        expected, result = results
        for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (expected, result))):
            assert torch.equal(a, b)
    assert computed == [name] * 2


def test_norms_that_mean_something_else_in_torch_are_torchs(computed):
    x = distinct((1, 2, 5, 5))
    for arguments in ((3, 2), (1.5, 2), (2, 2, 2, True), (float("inf"), 2)):
        torch.testing.assert_close(binding.lp_pool2d(x, *arguments), F.lp_pool2d(x, *arguments), equal_nan=True)
    assert computed == []
    x = torch.zeros(1, 1, 2, 2, dtype=torch.float64).requires_grad_()
    binding.lp_pool2d(x, 2, 2).sum().backward()
    assert torch.equal(x.grad, torch.zeros_like(x))  # NaN by torch


ODD = {
    "integers": lambda: torch.arange(16).reshape(1, 1, 4, 4),
    "meta": lambda: torch.ones(1, 1, 4, 4, device="meta"),
    "no channels": lambda: torch.ones(2, 0, 4, 4),
    "two axes": lambda: torch.ones(4, 4),
    "complex": lambda: torch.ones(1, 1, 4, 4, dtype=torch.complex64),
    "negated": lambda: torch.ones(1, 1, 4, 4, dtype=torch.complex64).conj().imag,
    "sparse": lambda: torch.ones(1, 1, 4, 4).to_sparse(),
    "quantised": lambda: torch.quantize_per_tensor(torch.rand(1, 1, 4, 4), 0.1, 0, torch.quint8),
    "mkldnn": lambda: torch.ones(1, 1, 4, 4).to_mkldnn(),
    "no tensor": lambda: [[1.0]],
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.filterwarnings("ignore")
def test_what_is_torchs_goes_to_torch(kind):
    """With torch's result, or torch's error."""
    x = ODD[kind]()

    def outcome(function):
        try:
            y = function(x, 2)
        except Exception as error:
            return type(error), str(error).splitlines()[0]
        return y.shape, y.dtype, y.layout, y.device, "" if y.is_meta else str(y.to_dense() if y.is_mkldnn else y)

    assert outcome(binding.max_pool2d) == outcome(F.max_pool2d)


def test_subclasses_are_torchs(computed):
    class Mine(torch.Tensor):
        pass

    assert type(binding.max_pool2d(torch.ones(1, 1, 4, 4).as_subclass(Mine), 2)) is Mine
    assert computed == []
    binding.max_pool2d(torch.nn.Parameter(distinct((1, 1, 4, 4))), 2)
    assert computed == ["max_pool2d"]


@pytest.mark.parametrize(("name", "arguments"), [
    ("max_pool2d", (0,)), ("max_pool2d", (2, 0)), ("max_pool2d", (2, 2, 2)), ("max_pool2d", (9,)),
    ("max_pool2d", ((2, 2, 2),)), ("max_pool2d", (2.5,)), ("avg_pool2d", (2, 2, 0, False, True, 0)),
    ("avg_pool1d", (2, None, 2)), ("adaptive_avg_pool2d", (-1,)), ("adaptive_max_pool2d", ((1, 2, 3),)),
    ("fractional_max_pool2d", (2, 9)), ("fractional_max_pool2d", (2,)), ("lp_pool2d", (2, 9)),
    ("max_unpool2d", (torch.zeros(1, 1, 1, 1, dtype=torch.int64), 2)),
])  # fmt: skip
def test_errors_are_torchs(name, arguments):
    x = torch.ones(1, 1, *[4] * int(name[-2]))
    with pytest.raises((RuntimeError, ValueError, TypeError)) as expected:
        getattr(F, name)(x, *arguments)
    with pytest.raises(expected.type) as raised:
        getattr(binding, name)(x, *arguments)
    assert str(raised.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_beyond_torch(computed):
    x = distinct((1, 2, 7, 6)).requires_grad_()
    a = x.detach().numpy()
    for ours, expected in (
        (lambda x: binding.max_pool2d(x, 3, 2, "same"), numba_pool.max_pool2d(a, 3, 2, "same")),
        (lambda x: binding.avg_pool2d(x, 2, 1, dilation=2), numba_pool.avg_pool2d(a, 2, 1, dilation=2)),
        (binding.AvgPool2d(3, 2, ((2, 0), (1, 1))), numba_pool.avg_pool2d(a, 3, 2, ((2, 0), (1, 1)))),
        (binding.GlobalMaxPool(), numba_pool.global_max_pool(a)),
    ):
        np.testing.assert_array_equal(ours(x).detach().numpy(), expected)
        gradcheck(ours, x)
        gradgradcheck(ours, x)
    with pytest.raises(ValueError, match="dilation"):
        binding.avg_pool2d(x, 2, dilation=-1)
    for beyond in ({"padding": "same"}, {"padding": ((1, 0), (1, 0))}, {"dilation": 2}):
        with pytest.raises(NotImplementedError, match="torch itself has no such pooling"):
            binding.avg_pool2d(x.detach().to("meta"), 2, **beyond)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_forward_mode_is_torchs_and_refused_beyond(computed):
    x = distinct((1, 2, 6, 6))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        for function, own in ((binding.max_pool2d, F.max_pool2d), (binding.avg_pool2d, F.avg_pool2d)):
            tangent = forward_ad.unpack_dual(function(dual, 2)).tangent
            assert torch.equal(tangent, forward_ad.unpack_dual(own(dual, 2)).tangent)
            with pytest.raises(NotImplementedError, match="no forward mode"):
                function(dual, 2, padding="same")
    assert computed == []


def test_windows_without_any_element():
    """Torch's index lies outside of the plane, and its backward writes there."""
    x = torch.ones(1, 1, 2, 2, dtype=torch.float64).requires_grad_()
    y, indices = binding.max_pool2d(x, 2, 1, 1, 3, return_indices=True)
    assert y.item() == -float("inf")
    assert indices.item() == -1
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert torch.equal(grad.detach(), torch.zeros_like(x))
    y = binding.max_pool2d(x * 1, 2, 1, 1, 3)
    g = torch.ones_like(y).requires_grad_()
    (grad,) = torch.autograd.grad(y, x, g, create_graph=True)
    assert torch.autograd.grad(grad.sum(), g)[0].item() == 0


def test_import_does_not_bring_torch():
    code = "import sys, numba_pool; assert 'torch' not in sys.modules and 'numba_pool.torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_minima_and_sums():
    x = torch.randn(2, 3, 8, 9, dtype=torch.float64, requires_grad=True)
    y, indices = binding.min_pool2d(x, 3, 2, 1, return_indices=True)
    expected, where = numba_pool.min_pool2d(x.detach().numpy(), 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(y.detach().numpy(), expected)
    np.testing.assert_array_equal(indices.numpy(), where)
    g, = torch.autograd.grad(y.sum(), x)
    np.testing.assert_array_equal(g.numpy(), numba_pool.min_pool2d_backward(np.ones_like(expected), where, x.shape))
    total = binding.sum_pool2d(x, 3, 2, 1)
    np.testing.assert_array_equal(total.detach().numpy(), numba_pool.sum_pool2d(x.detach().numpy(), 3, 2, 1))
    g, = torch.autograd.grad(total.sum(), x)
    np.testing.assert_array_equal(g.numpy(), numba_pool.sum_pool2d_backward(np.ones(total.shape), x.shape, 3, 2, 1))
