"""numba_pool.torch over segments: values as of arrays, gradients, transforms, compilation, Modules, ragged batches."""

import pickle

import numpy as np
import pytest

import numba_pool

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install -e .[torch]")

from torch import nn  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402
from torch.fx import symbolic_trace  # noqa: E402

import numba_pool.torch as binding  # noqa: E402

torch.set_num_threads(1)
operators = torch.ops.numba_pool
KINDS = ("max", "min", "avg", "sum")
OFFSETS = torch.tensor([1, 4, 4, 9, 11])  # of 12 rows: the first and the last are in no segment, and one is empty


def rows(*shape, nan=False, dtype=torch.float64):
    """Numbers without ties."""
    n = int(np.prod(shape))
    x = torch.randperm(n, generator=torch.Generator().manual_seed(0)).to(torch.float64).reshape(shape) / n - 0.4
    if nan:
        x[2], x[9:11, 0] = torch.nan, torch.nan
    return x.to(dtype)


MASK = torch.rand(12, 1, generator=torch.Generator().manual_seed(1)) > 0.3
MISSING = {"none": {}, "nan": {"nan_policy": "omit"}, "both": {"nan_policy": "omit", "where": MASK}}


def function(kind):
    return getattr(binding, f"segment_{kind}_pool")


def by_numpy(kind, x, offsets, **more):
    more = {key: value.numpy() if isinstance(value, torch.Tensor) else value for key, value in more.items()}
    return getattr(numba_pool, f"segment_{kind}_pool")(x.numpy(), offsets.numpy(), **more)


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("kind", KINDS)
def test_as_of_arrays(kind, missing):
    """Values and indices; gradients, and theirs; transforms of torch.func."""
    more, x = MISSING[missing], rows(12, 3, nan=missing != "none")

    def pool(x):
        return function(kind)(x, OFFSETS, **more)

    np.testing.assert_array_equal(pool(x), by_numpy(kind, x, OFFSETS, **more))
    if kind in ("max", "min"):
        y, indices = function(kind)(x, OFFSETS, True, **more)
        for ours, theirs in zip((y, indices), by_numpy(kind, x, OFFSETS, return_indices=True, **more)):
            np.testing.assert_array_equal(ours, theirs)
        assert indices.dtype is torch.int64

    def finite(x):
        return pool(x).nan_to_num(posinf=0, neginf=0)

    x.requires_grad_()
    gradcheck(finite, x)
    gradgradcheck(finite, x)
    (gradient,) = torch.autograd.grad(finite(x).square().sum(), x)
    x = x.detach()
    assert torch.equal(torch.func.grad(lambda x: finite(x).square().sum())(x), gradient)
    each = torch.func.vmap(torch.func.grad(lambda x: function(kind)(x, OFFSETS, **{
        key: value[:, 0] if key == "where" else value for key, value in more.items()
    }).nan_to_num(posinf=0, neginf=0).square().sum()), in_dims=1, out_dims=1)(x)  # fmt: skip
    torch.testing.assert_close(each, gradient)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_other_floats(dtype):
    if dtype is torch.bfloat16:
        pytest.importorskip("ml_dtypes")
    x = (torch.arange(36) % 5).reshape(12, 3)
    results = []
    for leaf in (x.to(dtype), x.double()):
        leaf.requires_grad_()
        (binding.segment_max_pool(leaf, [0, 5, 12]) + binding.segment_sum_pool(leaf, [0, 5, 12])).sum().backward()
        assert leaf.grad.dtype is leaf.dtype
        results.append(leaf.grad.double())
    assert torch.equal(*results)


def test_integers_and_no_segments_and_no_rows():
    x = torch.arange(36, dtype=torch.int64).reshape(12, 3)
    for kind in KINDS:
        np.testing.assert_array_equal(function(kind)(x, OFFSETS.int()), by_numpy(kind, x, OFFSETS))
        assert function(kind)(rows(12, 3), [0]).shape == (0, 3)
    x = rows(0, 3).requires_grad_()
    gradgradcheck(lambda x: binding.segment_max_pool(x, [0, 0]).nan_to_num(neginf=0), x)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch 2.14 checks on copies, which are no leaves
def test_operators():
    """Schemas, gradients, and fake results."""
    def check(operator, *args):
        tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static")
        assert set(torch.library.opcheck(operator.default, args, test_utils=tests).values()) == {"SUCCESS"}

    x, offsets = rows(12, 3).requires_grad_(), torch.tensor([0, 5, 12])
    y, indices = operators.segment_argmax(x.detach(), offsets, None, "segment_max_pool", False)
    check(operators.segment_maximum, x.detach(), offsets, MASK.expand(12, 3), "segment_max_pool", True)
    check(operators.segment_argmax, x, offsets, None, "segment_max_pool", False)
    check(operators.segment_scatter, y.requires_grad_(), indices, [12, 3])
    check(operators.segment_average, x, offsets, MASK.expand(12, 3), "segment_avg_pool", True)
    check(operators.segment_spread, y, offsets, MASK.expand(12, 3), "segment_avg_pool", [12, 3])
    check(operators.segment_offsets, torch.tensor([2, 0, 3]), "lengths", None)
    check(operators.segment_offsets, torch.tensor([0, 0, 2]), "ids", 4)


def test_compiled():
    """One graph for batches of all sizes."""
    def loss(x, lengths):
        offsets = binding.segment_offsets(lengths=lengths)
        return (binding.segment_max_pool(x, offsets) * binding.segment_avg_pool(x, offsets)).sum()

    torch._dynamo.reset()
    backend = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend=backend)
    for lengths in ([3, 4, 5], [2, 6, 7, 4]):
        lengths, results = torch.tensor(lengths), []
        for f in (loss, compiled):
            x = rows(int(lengths.sum()), 2).requires_grad_()
            y = f(x, lengths)
            results.append((y.detach(), *torch.autograd.grad(y, x)))
        for a, b in zip(*results):
            torch.testing.assert_close(a, b)
    assert backend.frame_count == 1


def test_symbolic_trace():
    x = rows(12, 3, nan=True)
    for module in (binding.SegmentMaxPool(nan_policy="omit"), binding.SegmentSumPool(nan_policy="omit")):
        graph = symbolic_trace(module)
        for traced in (graph, pickle.loads(pickle.dumps(graph)), symbolic_trace(graph)):
            np.testing.assert_array_equal(traced(x, OFFSETS, MASK), module(x, OFFSETS, MASK))


def test_offsets():
    for more in ({"lengths": [2, 0, 3]}, {"ids": [0, 0, 2], "count": 4}, {"ids": [0, 0, 2]}, {"lengths": []}):
        expected = numba_pool.segment_offsets(**more)
        (name, values), *_ = more.items()
        as_tensor = more | {name: torch.tensor(values, dtype=torch.int32)}
        for given in (more, as_tensor):
            result = binding.segment_offsets(**given)
            assert result.dtype is torch.int64
            np.testing.assert_array_equal(result, expected)


def test_modules():
    x = rows(12, 3, nan=True)
    for kind in KINDS:
        cls = getattr(binding, f"Segment{kind.title()}Pool")
        module = pickle.loads(pickle.dumps(cls(nan_policy="omit")))
        np.testing.assert_array_equal(module(x, OFFSETS, where=MASK),
                                      function(kind)(x, OFFSETS, nan_policy="omit", where=MASK))
        assert repr(module).endswith("nan_policy='omit')")
    y, indices = binding.SegmentMaxPool(return_indices=True)(rows(12, 3), OFFSETS)
    assert torch.equal(rows(12, 3).gather(0, indices[:1]), y[:1])
    with pytest.raises(ValueError, match=r"^nan_policy must be 'propagate' or 'omit', got 'drop'$"):
        binding.SegmentSumPool(nan_policy="drop")


def test_errors():
    x = rows(12, 3)
    for error, match, offsets in (
        (ValueError, "^offsets must never fall, got 4 and then 3", [0, 4, 3]),
        (ValueError, r"^offsets must lie in \[0, 12\]", [0, 13]),
        (ValueError, "^offsets must have one axis", [[0, 12]]),
        (TypeError, "^offsets must be integers, got", [0.0, 12.0]),
    ):
        for kind in KINDS:
            with pytest.raises(error, match=match):
                function(kind)(x, offsets)
    with pytest.raises(ValueError, match=r"^where must broadcast against x of shape \(12, 3\), got shape \(5, 1\)$"):
        binding.segment_sum_pool(x, OFFSETS, where=MASK[:5])
    with pytest.raises(TypeError, match=r"^x of segment_max_pool must be a Tensor, got ndarray$"):
        binding.segment_max_pool(x.numpy(), OFFSETS)
    with pytest.raises(NotImplementedError, match=r"^segment_avg_pool takes dense tensors .* on meta"):
        binding.segment_avg_pool(x.to("meta"), OFFSETS)
    with pytest.raises(TypeError, match=r"^segment_offsets takes either lengths or ids, got both$"):
        binding.segment_offsets(lengths=OFFSETS, ids=OFFSETS)
    with pytest.raises(ValueError, match=r"^lengths must not be negative, got -1"):
        binding.segment_offsets(lengths=torch.tensor([-1]))
    with pytest.raises(NotImplementedError, match=r"^segment_average does not vmap over offsets"):
        torch.func.vmap(lambda offsets: binding.segment_avg_pool(x, offsets))(torch.stack([OFFSETS, OFFSETS]))


def test_training_steps_of_ragged_batches():
    """Sentences below each other with offsets, and side by side, padded, with a mask: the same loss and gradients."""
    lengths = torch.tensor([5, 2, 4])
    tokens = torch.randint(0, 20, (11,), generator=torch.Generator().manual_seed(0))
    where = torch.arange(6) < lengths[:, None]
    padded = torch.zeros(where.shape, dtype=torch.int64).masked_scatter(where, tokens)
    offsets = binding.segment_offsets(lengths=lengths)
    torch.manual_seed(0)
    embedding, linear = nn.Embedding(20, 3).double(), nn.Linear(6, 2).double()

    def segments():
        words = embedding(tokens)
        return torch.hstack((binding.segment_avg_pool(words, offsets), binding.segment_max_pool(words, offsets)))

    def masked():
        words, there = embedding(padded).mT, where[:, None]
        return torch.hstack((binding.adaptive_avg_pool1d(words, 1, where=there).flatten(1),
                             binding.adaptive_max_pool1d(words, 1, where=there).flatten(1)))

    results = []
    for features in (segments, masked):
        loss = nn.functional.cross_entropy(linear(features()), torch.tensor([0, 1, 0]))
        results.append((loss.detach(), *torch.autograd.grad(loss, [*embedding.parameters(), *linear.parameters()])))
    for a, b in zip(*results):
        torch.testing.assert_close(a, b)
