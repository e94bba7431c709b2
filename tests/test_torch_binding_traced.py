"""numba_pool.torch where torch traces or transforms the call: opcheck, compilation, export, torch.func."""

import io

import pytest

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install -e .[torch]")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402

import numba_pool.torch as binding  # noqa: E402
from numba_pool.torch._pools import POOLS, numbers  # noqa: E402

torch.set_num_threads(1)
operators = torch.ops.numba_pool
pytestmark = [
    pytest.mark.usefixtures("small_calls_too"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch's own machinery
]
FORMATS = {"contiguous": torch.contiguous_format, "channels last": torch.channels_last}
CALLS = (
    ("max_pool2d", (3, 2, 1)),
    ("avg_pool2d", (3, 2, 1, True)),
    ("adaptive_avg_pool2d", (3,)),
)


def network(accelerated):
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, ceil_mode=True),
              nn.Conv2d(4, 4, 1), nn.AdaptiveMaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten())  # fmt: skip
    model = nn.Sequential(*layers).double()  # one dtype, as every one of a kernel is compiled
    return binding.accelerate(model) if accelerated else model


def step(model, x):
    """The output, and the gradients of the input and of the weights."""
    x = x.clone(memory_format=torch.preserve_format).requires_grad_()
    y = model(x)
    return [y.detach(), *torch.autograd.grad(y.square().sum(), (x, *model.parameters()))]


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch 2.14 checks on copies, which are no leaves
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("shape", [(2, 3, 7, 6), (1, 1, 6, 6), (3, 6, 6)])
def test_operators(shape, memory_format):
    """Schemas, gradients, and fake results of the real strides."""
    if len(shape) == 3 and memory_format != "contiguous":
        pytest.skip("torch has no such format")
    x = torch.randn(shape, dtype=torch.float64).contiguous(memory_format=FORMATS[memory_format])
    x = torch.empty(shape, dtype=torch.float64, memory_format=FORMATS[memory_format]).copy_(x)
    last = len(shape) == 4 and x.stride(1) == 1

    def check(operator, *args):
        tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static")
        assert set(torch.library.opcheck(operator.default, args, test_utils=tests).values()) == {"SUCCESS"}

    given = numbers(POOLS["max_pool2d"], shape, (3, 2, 1, 1, True), {})
    leaf = x.clone().requires_grad_()
    y, indices = operators.argmax(x, "max_pool2d", given)
    grad = torch.randn_like(y).requires_grad_()
    check(operators.maximum, x, "max_pool2d", given)
    check(operators.argmax, leaf, "max_pool2d", given)
    check(operators.scatter, grad, indices, "max_pool2d", list(shape), last)
    check(operators.gather, leaf, indices, "max_pool2d", last)
    given = numbers(POOLS["avg_pool2d"], shape, (3, 2, 1, True, True, None), {})
    check(operators.average, leaf, "avg_pool2d", given)
    check(operators.spread, grad, "avg_pool2d", given, list(shape), last)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_compiled_training(dynamic, memory_format):
    """One graph, with our operators in it; with dynamic shapes one for all sizes."""
    torch._dynamo.reset()
    plain, ours = network(False), network(True)
    backend = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(ours, fullgraph=True, dynamic=dynamic, backend=backend)
    # no sizes alike at first: torch would take them for the same symbol
    for shape in ((2, 3, 16, 20), (4, 3, 19, 27)) if dynamic else ((2, 3, 16, 16),):
        x = torch.randn(shape, dtype=torch.float64).contiguous(memory_format=FORMATS[memory_format])
        result = step(compiled, x)
        for a, b in zip(result, step(plain, x)):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        assert result[1].stride() == x.stride()
    assert backend.frame_count == 1
    targets = {str(node.target) for graph in backend.graphs for node in graph.graph.nodes}
    assert {"numba_pool.argmax", "numba_pool.average"} <= targets
    assert not any("torch._C._nn" in target for target in targets)


def test_accelerated_after_it_was_compiled():
    """And restored: a graph is made for the classes that Modules have."""
    torch._dynamo.reset()
    backend = CompileCounterWithBackend("aot_eager")
    model, x = nn.Sequential(nn.MaxPool2d(2)), torch.randn(1, 2, 6, 6, dtype=torch.float64)
    compiled = torch.compile(model, backend=backend)
    for change, graphs in ((lambda m: m, 1), (binding.accelerate, 2), (binding.restore, 2)):
        change(model)
        assert torch.equal(compiled(x), F.max_pool2d(x, 2))
        assert backend.frame_count == graphs
    ours = ["numba_pool.maximum" in {str(node.target) for node in graph.graph.nodes} for graph in backend.graphs]
    assert ours == [False, True]


@pytest.mark.filterwarnings("ignore")  # of the C++ compiler's absence, among others
def test_inductor():
    torch._dynamo.reset()
    plain, ours = network(False), network(True)
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    try:
        result = step(torch.compile(ours, fullgraph=True), x)
    except torch._inductor.exc.InductorError as error:
        pytest.skip(f"no compiler: {error}")
    for a, b in zip(result, step(plain, x)):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_compiled_inference_computes_no_indices():
    torch._dynamo.reset()
    backend = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(binding.MaxPool2d(2), fullgraph=True, backend=backend)
    x = torch.randn(1, 2, 6, 6, dtype=torch.float64)
    assert torch.equal(compiled(x), F.max_pool2d(x, 2))
    assert "numba_pool.maximum" in {str(node.target) for node in backend.graphs[0].graph.nodes}


def test_compiled_beyond_torch_and_by_torch():
    """With a window that depends on the input's size; and what has no operator is torch's."""

    def pooled(x):
        return binding.avg_pool2d(binding.max_pool2d(x, 3, 2, "same"), x.shape[2] // 8, padding=((0, 1), (1, 0)))

    def others(x):
        y, indices = binding.max_pool2d(x, 2, return_indices=True)
        return binding.lp_pool2d(x, 2, 2) + y, binding.max_unpool2d(y, indices, 2)

    torch._dynamo.reset()
    compiled = torch.compile(pooled, fullgraph=True, dynamic=True, backend="aot_eager")
    for shape in ((1, 2, 17, 18), (1, 2, 32, 31)):
        x = torch.randn(shape, dtype=torch.float64)
        assert torch.equal(compiled(x), pooled(x))
    x = torch.rand(1, 2, 6, 6, dtype=torch.float64)
    for a, b in zip(torch.compile(others, fullgraph=True, backend="aot_eager")(x), others(x)):
        torch.testing.assert_close(a, b)
    with pytest.raises(Exception, match="pad should be"):  # torch's words
        torch.compile(lambda x: binding.max_pool2d(x, 2, padding=3), fullgraph=True, backend="aot_eager")(x)


@pytest.mark.parametrize("strict", [False, True])
def test_export_round_trip(strict):
    model = network(True).eval()
    batch = torch.export.Dim("batch")
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: batch},), strict=strict)
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(loaded(x), model(x))
    assert any("numba_pool" in str(node.target) for node in exported.graph.nodes)


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_func(name, arguments):
    """vmap, grad and what is made of them, to second order; jvp is torch's."""
    x = torch.randn(2, 3, 2, 6, 6, dtype=torch.float64)

    def transformed(module):
        def pool(x):
            return getattr(module, name)(x, *arguments)

        def loss(x):
            return pool(x).square().sum()

        def second(x):
            return torch.func.grad(lambda x: torch.func.grad(loss)(x).pow(3).sum())(x)

        vmap, grad = torch.func.vmap, torch.func.grad
        yield vmap(pool, in_dims=1)(x)
        yield vmap(pool)(x[0])
        yield vmap(vmap(pool))(x)
        yield grad(loss)(x[0])
        yield vmap(grad(loss))(x)
        yield second(x[0])
        yield vmap(second)(x)
        yield torch.func.jacrev(pool)(x[0, 0, 0:1])
        yield torch.func.jvp(pool, (x[0],), (x[1],))[1]
        yield torch.func.hessian(loss)(x[0, 0, 0:1])

    for result, expected in zip(transformed(binding), transformed(F), strict=True):
        torch.testing.assert_close(result, expected)


def test_compiled_func():
    """Compiled, torch's own is transformed: registered gradients would be lost."""
    torch._dynamo.reset()
    x = torch.randn(2, 1, 2, 6, 6, dtype=torch.float64)
    f = torch.func.vmap(torch.func.grad(lambda x: binding.max_pool2d(x, 2).square().sum()))
    assert torch.equal(torch.compile(f, fullgraph=True, backend="aot_eager")(x), f(x))


def test_recomputed_in_backward():
    model, x = network(True), torch.randn(1, 3, 16, 16, dtype=torch.float64)
    y = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
    again = torch.autograd.grad(y.sum(), list(model.parameters()))
    for a, b in zip(again, torch.autograd.grad(model(x).sum(), list(model.parameters()))):
        assert torch.equal(a, b)


@pytest.mark.filterwarnings("ignore:`torch.jit.trace")  # a FutureWarning since torch 2.14
def test_traced_by_torch_jit():
    """By torch's operators: a trace of ours would hold the values of one call."""
    model, x = network(True).eval(), torch.randn(1, 3, 16, 16, dtype=torch.float64)
    traced = torch.jit.trace(model, x)
    x = torch.randn(2, 3, 20, 20, dtype=torch.float64)
    torch.testing.assert_close(traced(x), model(x))


@pytest.mark.parametrize("early", [False, True])
def test_traced_by_make_fx(early):
    """Also by modes that see calls before autograd does."""
    x = torch.arange(32, dtype=torch.float64).view(1, 2, 4, 4)
    make_fx = torch.fx.experimental.proxy_tensor.make_fx
    graph = make_fx(lambda x: binding.max_pool2d(x, 2), pre_dispatch=early)(x)
    assert "numba_pool.argmax" in graph.code
    assert torch.equal(graph(-x), F.max_pool2d(-x, 2))
