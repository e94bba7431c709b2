"""Who computes a call of numba_pool.torch, and what must not be lost on the way: arguments, devices, memory formats."""

import copy
import pickle

import numpy as np
import pytest
import selection

import numba_pool

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install -e .[torch]")

import torch.nn.functional as F  # noqa: E402

import numba_pool.torch as binding  # noqa: E402

pytestmark = pytest.mark.usefixtures("small_calls_too")
torch.set_num_threads(1)
HUGE = 2**63 - 1
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64, torch.uint16])
def test_integers_are_the_cores(dtype):
    """Where torch has no pooling, or another: a minimum of 0 and -128, sums that wrap, averages that truncate. All
    integers are sent the same way: in the default run some of them by one function only, whose kernel others compile.
    """
    limits = torch.iinfo(dtype)
    a = np.array([[[limits.min, 5, 0, limits.max], [7, 9, 3, limits.max]]], str(dtype).removeprefix("torch."))
    x = torch.from_numpy(a)
    for name, arguments in (("min_pool2d", (2,)), ("max_pool2d", (2,)), ("sum_pool2d", (2,)),
                            ("adaptive_max_pool2d", (1,)), ("adaptive_avg_pool2d", ((2, 1),)),
                            ("avg_pool2d", ((2, 1), 1, 0, False, True, 3))):
        if name != "max_pool2d" and dtype in (torch.int64, torch.uint16) and not selection.exhaustive:
            continue
        result = getattr(binding, name)(x, *arguments)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.numpy(), getattr(numba_pool, name)(a, *arguments))


def test_averages_of_integers_are_torchs():
    x = torch.arange(-40, 60).reshape(1, 1, 10, 10)
    for arguments in ((3, 2, 1), (3, 2, 1, True, False), (2, None, 0, False, True, -3)):
        assert torch.equal(binding.avg_pool2d(x, *arguments), F.avg_pool2d(x, *arguments))


def test_ours_in_the_place_of_torchs(monkeypatch):
    """What torch computes does not come back to ours, where ours stand in `torch.nn.functional`."""
    for name in ("avg_pool1d", "avg_pool2d"):
        monkeypatch.setattr(F, name, getattr(binding, name))
    x = torch.rand(1, 2, 6, device="meta")
    for pooled in (F.avg_pool1d(x, 2), binding.sum_pool1d(x, 2), binding.lp_pool1d(x, 2, 2)):
        assert pooled.shape == (1, 2, 3)


def summed(x):
    return binding.avg_pool1d(x, 2, divisor_override=1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", [
    lambda x: summed(x.long()),
    lambda x: torch.func.jvp(summed, (x,), (x,))[1],
    lambda x: torch.jit.trace(summed, (x,))(x),
    lambda x: torch.fx.symbolic_trace(summed)(x),
    lambda x: summed(x.as_subclass(type("Mine", (torch.Tensor,), {}))),
    lambda x: torch.compile(torch.func.grad(lambda x: summed(x).sum() * 2), backend="aot_eager")(x),
])  # fmt: skip
def test_a_divisor_in_1d(way):
    assert (way(torch.ones(1, 1, 4)).float() == 2).all()


@pytest.mark.parametrize("stride", [None, (), [], 2, (1,)], ids=repr)
def test_a_divisor_in_1d_takes_every_form_of_stride(stride):
    x = torch.arange(9.0).reshape(1, 1, 9)
    own = x.as_subclass(type("Mine", (torch.Tensor,), {}))
    expected = binding.avg_pool1d(x, (2,), stride, divisor_override=1)
    assert torch.equal(binding.avg_pool1d(own, (2,), stride, divisor_override=1), expected)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # by torch's forward mode, at its first use
def test_integers_beside_derivatives():
    """Forward mode and gradients are of the floats; the integers' way is the core's."""
    mask = torch.arange(16, dtype=torch.int32).reshape(1, 1, 4, 4)
    expected = torch.from_numpy(numba_pool.avg_pool2d(mask.numpy(), 2, padding="same"))

    def weighted(x):
        return x * binding.avg_pool2d(mask, 2, padding="same")

    x = torch.rand(1, 1, 2, 2)
    assert torch.equal(torch.func.jvp(weighted, (x,), (torch.ones_like(x),))[1], expected.float())
    assert torch.equal(torch.func.grad(lambda x: weighted(x).sum())(x), expected.float())
    assert torch.equal(torch.func.vmap(weighted)(x.expand(3, 1, 1, 2, 2))[2], x * expected)


def test_no_divisor_of_zero():
    """In a call that becomes an operator, zero stands for no divisor."""

    def divided(x):
        return binding.avg_pool2d(x, 2, divisor_override=0)

    for function in (divided, torch.func.vmap(divided)):
        with pytest.raises(RuntimeError, match="divisor must be not zero"):
            function(torch.ones(2, 1, 4, 4))


def test_a_divisor_that_is_no_int_is_refused_where_torch_sees_the_call():
    """Operators take ints; torch's own functions do, too."""

    def divided(x):
        return binding.avg_pool2d(x, 2, divisor_override=2.5)

    x = torch.ones(2, 1, 4, 4, requires_grad=True)
    assert (divided(x) == 4 / 2.5).all()
    for call in (lambda: torch.func.vmap(divided)(x), lambda: divided(x.to("meta")),
                 lambda: torch.autograd.grad(divided(x).sum(), x, create_graph=True)):
        with pytest.raises(TypeError, match=r"divisor_override.* must be (an )?int"):
            call()


def test_dilation_of_one_is_none():
    assert binding.avg_pool2d(torch.ones(1, 1, 4, 4, device="meta"), 2, dilation=(1, 1)).shape == (1, 1, 2, 2)


def test_sums_and_minima_elsewhere():
    """By functions of torch that come to the same; a meta tensor shows the way, a sparse one torch's refusal."""
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    own = x.as_subclass(type("Mine", (torch.Tensor,), {}))
    assert torch.equal(binding.sum_pool2d(own, 2), binding.sum_pool2d(x, 2))
    for y in (binding.min_pool2d(own, 2, return_indices=True), binding.min_pool2d(own.byte(), 2, return_indices=True)):
        assert y[0].flatten().tolist() == y[1].flatten().tolist() == [0, 2, 8, 10]
    assert binding.min_pool3d(torch.ones(1, 4, 4, 4, dtype=torch.uint16, device="meta"), 2).dtype == torch.uint16
    with pytest.raises(RuntimeError):
        binding.min_pool2d(x.to_sparse(), 2)


@pytest.mark.parametrize("set_default", [False, True])
def test_the_device_of_the_input_decides(set_default):
    """Uninitialised memory, or a result on another device, where torch's default device decided."""
    torch.manual_seed(0)
    x = torch.rand(1, 2, 6, 6)
    torch.manual_seed(0)
    expected = F.fractional_max_pool2d(torch.rand(1, 2, 6, 6), 2, 3)
    with torch.device("cpu" if set_default else "meta"):
        if set_default:
            torch.set_default_device("meta")
        try:
            empty = binding.max_pool2d(torch.empty(0, 2, 8, 8, device="cpu"), 2)
            torch.manual_seed(0)
            torch.rand(1, 2, 6, 6, device="cpu")
            result = binding.fractional_max_pool2d(x, 2, 3)
        finally:
            torch.set_default_device(None)
    assert empty.device.type == "cpu"
    assert torch.equal(result, expected)


@pytest.mark.parametrize("name", ["max_pool1d", "max_pool2d", "adaptive_max_pool1d", "min_pool1d"])
def test_sizes_beyond_the_cores_limit_never_come_to_torch(name):
    """By some torch crashes."""
    x = torch.rand(2, 10, *[4] * int(name[-2]))
    own = x.as_subclass(type("Mine", (torch.Tensor,), {}))
    arguments = ([HUGE],) if "adaptive" in name else (HUGE, HUGE)
    for tensor in (x, own, x.double().requires_grad_()):
        with pytest.raises(ValueError, match="at most 2147483647, got 9223372036854775807"):
            getattr(binding, name)(tensor, *arguments)


@pytest.mark.parametrize("module", [
    binding.LPPool2d(2, 2), binding.GlobalAvgPool(), binding.GlobalMaxPool(return_indices=True),
    binding.AvgPool2d(2, padding="same", dilation=2), binding.MaxPool2d(2, return_indices=True),
    binding.AdaptiveAvgPool2d(2), binding.AvgPool2d(2, nan_policy="omit", min_count=2),
], ids=lambda module: type(module).__name__)  # fmt: skip
def test_fx_keeps_the_call(module):
    """Also in copies of the graph, and traced once more."""
    x = torch.rand(1, 2, 6, 6)
    expected = module(x)
    graph = torch.fx.symbolic_trace(module)
    for again in (graph, copy.deepcopy(graph), pickle.loads(pickle.dumps(graph)), torch.fx.symbolic_trace(graph)):
        torch.testing.assert_close(again(x), expected, rtol=0, atol=0)
    assert any(str(node.target).startswith("<function") and node.target.__module__ == "numba_pool.torch"
               for node in graph.graph.nodes)


def test_functionalize():
    """Values, mapped values, gradients of what is outside, and of what is inside by torch."""
    x = torch.rand(2, 2, 6, 6, requires_grad=True)
    functionalize, vmap, grad = torch.func.functionalize, torch.func.vmap, torch.func.grad
    for name, arguments in (("max_pool2d", (3, 2, 1)), ("avg_pool2d", (3, 2, 1)), ("adaptive_avg_pool2d", (2,))):

        def pool(x, name=name, arguments=arguments):
            return getattr(binding, name)(x, *arguments)

        expected = pool(x)
        assert torch.equal(functionalize(pool)(x), expected)
        assert torch.equal(functionalize(vmap(pool))(x), expected)
        assert torch.equal(vmap(functionalize(pool))(x), expected)
        g, = torch.autograd.grad(expected.sum(), x)
        torch.testing.assert_close(torch.autograd.grad(functionalize(pool)(x).sum(), x)[0], g)
        torch.testing.assert_close(functionalize(grad(lambda x: pool(x).sum()))(x.detach()), g)


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_zeros_and_negations_that_torch_has_put_off(name):
    zeros = torch._efficientzerotensor((1, 2, 4, 4))
    assert torch.equal(getattr(binding, name)(zeros, 2), torch.zeros(1, 2, 2, 2))
    x = torch.rand(1, 2, 4, 4)
    for dtype in (torch.float32, torch.bfloat16):
        y = x.to(dtype)
        assert torch.equal(getattr(binding, name)(torch._neg_view(-y), 2), getattr(binding, name)(y, 2))


def strided(shape):
    """A batch in channels-last memory, to the strides of sizes of 1."""
    return torch.empty(shape, memory_format=FORMATS[len(shape)]).copy_(torch.rand(shape))


@pytest.mark.parametrize("shape", [(2, 3, 6, 6), (2, 1, 6, 6), (2, 3, 2, 2), (2, 3, 4, 4, 4), (2, 1, 4, 4, 4),
                                   (1, 3, 2, 2, 2)])  # fmt: skip
def test_memory_formats_are_torchs(shape):
    """Which keeps channels last in 2D, but for one pixel or channel of a norm, and of volumes for maxima alone."""
    rank, x = len(shape) - 2, strided(shape)
    kept = set()
    for family, arguments in (("max_pool", (2,)), ("avg_pool", (2,)), ("adaptive_max_pool", (1,)), ("lp_pool", (2, 2)),
                              ("adaptive_max_pool", (2,)), ("adaptive_avg_pool", (1,)), ("adaptive_avg_pool", (2,)),
                              ("max_unpool", (torch.zeros(shape, dtype=torch.int64), 2))):
        own, ours = (getattr(module, f"{family}{rank}d")(x, *arguments) for module in (F, binding))
        assert (family, ours.stride()) == (family, own.stride())
        if ours.is_contiguous(memory_format=FORMATS[len(shape)]):
            kept.add(family)
    assert "max_pool" in kept


def test_a_volume_can_be_seen_as_one_axis():
    y, indices = binding.adaptive_max_pool3d(strided((1, 3, 4, 4, 4)), 2, return_indices=True)
    assert y.view(-1).shape == indices.view(-1).shape == (24,)  # as plain memory alone can
