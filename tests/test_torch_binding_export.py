"""Accelerated models without numba_pool's operators: ONNX, and `torch.export` with `decompositions`."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install -e .[torch]")
onnx = pytest.importorskip("onnx", reason="the conformance extra brings it")
pytest.importorskip("onnxscript", reason="the conformance extra brings it")

from onnx.reference import ReferenceEvaluator  # noqa: E402
from torch import nn  # noqa: E402

import numba_pool  # noqa: E402
import numba_pool.torch as binding  # noqa: E402
from numba_pool.torch._pools import POOLS, numbers  # noqa: E402

torch.set_num_threads(1)
pytestmark = [
    pytest.mark.usefixtures("small_calls_too"),
    pytest.mark.filterwarnings("ignore"),  # of torch's exporter: it deprecates functions of its own
]
SHAPE = (2, 3, 11, 10)


class Call(nn.Module):
    """A call of a function, as a Module."""

    def __init__(self, name, *arguments, **more):
        super().__init__()
        self.name, self.arguments, self.more = name, arguments, more

    def forward(self, x):
        return getattr(binding, self.name)(x, *self.arguments, **self.more)


def network():
    layers = (nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(3, 2, 1), nn.ReLU(), nn.AvgPool2d(2, ceil_mode=True),
              nn.LPPool2d(2, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))  # fmt: skip
    return nn.Sequential(*layers).eval()


MODELS = {
    "network": network,
    "max": lambda: Call("max_pool2d", 3, 2, 1, 2),
    "max, ceil": lambda: Call("max_pool2d", (3, 2), 3, ceil_mode=True),
    "max, same": lambda: Call("max_pool2d", (4, 3), (3, 2), "same"),
    "max, pairs": lambda: Call("max_pool2d", 3, 2, ((0, 2), (1, 0)), ceil_mode=True),
    "max, more padding than torch has": lambda: Call("max_pool2d", 3, 3, ((2, 0), (0, 2))),
    "max, indices": lambda: Call("max_pool2d", (3, 2), 2, return_indices=True),
    "max, indices, same": lambda: Call("max_pool2d", 3, 2, "same_lower", return_indices=True),
    "adaptive max, indices": lambda: Call("adaptive_max_pool2d", (11, 5), return_indices=True),
    "max, 1d": lambda: nn.Sequential(nn.Flatten(2), Call("max_pool1d", 5, 3, ((1, 3),))),
    "min": lambda: Call("min_pool2d", 2),
    "min, indices, same": lambda: Call("min_pool2d", 3, 2, "same", return_indices=True),
    "sum": lambda: Call("sum_pool2d", (3, 2), 2, 1),
    "sum, ceil": lambda: Call("sum_pool2d", 3, 2, ceil_mode=True),
    "average": lambda: Call("avg_pool2d", 3, 2, 1),
    "average, ceil": lambda: Call("avg_pool2d", 3, 2, 1, ceil_mode=True),
    "average, without padding": lambda: Call("avg_pool2d", 3, 2, 1, count_include_pad=False),
    "average, same": lambda: Call("avg_pool2d", 4, 3, "same", count_include_pad=False),
    "average, pairs": lambda: Call("avg_pool2d", 3, 2, ((0, 2), (1, 0)), ceil_mode=True),
    "average, dilated": lambda: Call("avg_pool2d", 2, 2, 1, dilation=(2, 3), ceil_mode=True),
    "average, divisor": lambda: Call("avg_pool2d", 3, 2, divisor_override=4),
    "average, 1d": lambda: nn.Sequential(nn.Flatten(2), Call("avg_pool1d", 4, 3, divisor_override=3)),
    "average, image": lambda: nn.Sequential(nn.Flatten(0, 1), Call("avg_pool2d", 3, 2, "same_lower")),
    "global maximum": lambda: Call("global_max_pool"),
    "global average": lambda: Call("global_avg_pool"),
}


def flat(result):
    return result if isinstance(result, (tuple, list)) else (result,)


def targets(program):
    return {str(node.target) for node in program.graph.nodes if node.op == "call_function"}


def check_onnx(model, path, x):
    feeds = {onnx.load(path).graph.input[0].name: x.numpy()}
    results = ReferenceEvaluator(onnx.load(path)).run(None, feeds)
    for result, expected in zip(results, flat(model(x)), strict=True):
        np.testing.assert_allclose(result, expected.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_onnx(name, tmp_path):
    """With nothing asked for. ONNX's own reference computes what our function does."""
    model = binding.accelerate(MODELS[name]())
    x = torch.rand(SHAPE, generator=torch.Generator().manual_seed(0)) - 0.5
    torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=True, verbose=False)
    check_onnx(model, tmp_path / "model.onnx", x)


def test_onnx_of_a_dynamic_batch(tmp_path):
    model, path = binding.accelerate(network()), tmp_path / "model.onnx"
    torch.onnx.export(model, (torch.rand(SHAPE),), path, dynamic_shapes=({0: torch.export.Dim("n")},), verbose=False)
    check_onnx(model, path, torch.rand(5, *SHAPE[1:]))


def test_onnx_of_the_old_exporter(tmp_path):
    model, path = binding.accelerate(network()), tmp_path / "model.onnx"
    torch.onnx.export(model, (torch.rand(SHAPE),), path, dynamo=False)
    check_onnx(model, path, torch.rand(SHAPE))


@pytest.mark.parametrize("name", MODELS)
def test_decompositions(name):
    """Of a program with our operators one without, and of the same results; ONNX takes it, too."""
    model = binding.accelerate(MODELS[name]())
    x = torch.rand(SHAPE, generator=torch.Generator().manual_seed(0)) - 0.5
    program = torch.export.export(model, (x,))
    assert any("numba_pool" in target for target in targets(program))
    program = program.run_decompositions(binding.decompositions())
    assert not any("numba_pool" in target for target in targets(program))
    for result, expected in zip(flat(program.module()(x)), flat(model(x)), strict=True):
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_decompositions_of_integers(dtype):
    """Bit for bit the core's, whose averages truncate toward zero."""
    info = np.iinfo(dtype)
    a = np.random.default_rng(0).integers(max(info.min, -1000), min(info.max, 1000), SHAPE, dtype)
    table = binding.decompositions()
    for name, arguments in (("avg_pool2d", (3, 2, ((0, 2), (1, 0)), True, False, None)),
                            ("avg_pool2d", (3, 2, 1, False, True, 4)), ("max_pool2d", (3, 2, "same", 1, True)),
                            ("min_pool2d", (3, 2, "same", 1, True)), ("sum_pool2d", (3, 2, "same", True))):
        given = numbers(POOLS[name], SHAPE, arguments, {})
        operator = torch.ops.numba_pool.average if name[:3] in ("avg", "sum") else torch.ops.numba_pool.maximum
        decomposed = table[operator.default]
        result = decomposed(torch.from_numpy(a), name, given).numpy()
        np.testing.assert_array_equal(result, getattr(numba_pool, name)(a, *arguments), strict=True)


def test_onnx_of_a_program(tmp_path):
    model, x, path = binding.accelerate(network()), torch.rand(SHAPE), tmp_path / "model.onnx"
    program = torch.export.export(model, (x,)).run_decompositions(binding.decompositions())
    torch.onnx.export(program, (), path, verbose=False)
    check_onnx(model, path, x)
