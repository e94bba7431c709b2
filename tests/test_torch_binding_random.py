"""Random calls of numba_pool.torch, as such and under what torch does to calls: each gives the core's values, or says
that it cannot. Nothing that goes beyond torch may be lost on the way.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
import selection

import numba_pool

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install -e .[torch]")
ml_dtypes = pytest.importorskip("ml_dtypes")

import numba_pool.torch as binding  # noqa: E402
from numba_pool.torch._tensors import DTYPES  # noqa: E402

torch.set_num_threads(1)
pytestmark = [
    pytest.mark.usefixtures("small_calls_too"),
    pytest.mark.filterwarnings("ignore"),  # of torch's own machinery
]
SEED = 54
CASES = 200 if selection.exhaustive else 33
# each takes a minute to compile
DRAWN = sorted(DTYPES, key=str) if selection.exhaustive else [torch.float32, torch.uint8]
FAMILIES = ("max_pool", "min_pool", "avg_pool", "sum_pool", "adaptive_max_pool", "adaptive_avg_pool", "global_max_pool",
            "global_avg_pool", "lp_pool", "fractional_max_pool", "max_unpool")
WITHOUT_OPERATORS = ("lp_pool", "fractional_max_pool", "max_unpool")
INDEXED = ("max_pool", "min_pool", "adaptive_max_pool", "global_max_pool", "fractional_max_pool")


class Mine(torch.Tensor):
    """A user's own class."""


class Case(NamedTuple):
    """One call: `function(x, *more, *arguments, **keywords)`, where more are tensors that go along."""

    family: str
    rank: int
    x: Any
    more: tuple[Any, ...]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    beyond: bool  # whether torch has no such windows, and no functions that come to the same

    @property
    def name(self):
        return self.family if "global" in self.family else f"{self.family}{self.rank}d"

    @property
    def floats(self):
        return self.x.is_floating_point()

    def ours(self, x, *more):
        function = getattr(binding, self.name)
        if self.family == "fractional_max_pool":
            return function(x, *self.arguments, _random_samples=more[0], **self.keywords)
        return function(x, *more, *self.arguments, **self.keywords)

    def core(self, x, *more, **indices):
        function = getattr(numba_pool, self.name)
        keywords = self.keywords | indices
        if self.family == "fractional_max_pool":
            return function(array(x), *self.arguments, random_samples=array(more[0]), **keywords)
        return function(array(x), *map(array, more), *self.arguments, **keywords)

    def core_gradient(self, grad):
        """By the core, of `(output * grad).sum()`."""
        backward, shape, g = getattr(numba_pool, f"{self.name}_backward"), tuple(self.x.shape), array(grad)
        if self.family in INDEXED:
            return backward(g, self.core(self.x, *self.more, return_indices=True)[1], shape)
        if self.family == "max_unpool":
            return backward(g, array(self.more[0]))
        if self.family == "lp_pool":
            return backward(g, array(self.x), self.core(self.x), *self.arguments)
        return backward(g, shape, *(() if "adaptive" in self.name else self.arguments), **self.keywords)


def array(t):
    if t.dtype is torch.bfloat16:
        return t.detach().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return t.detach().numpy()


def pick(rng, *items):
    return items[rng.integers(len(items))]


def draw(number):
    """The case of that number."""
    rng = np.random.default_rng((SEED, number))
    family, dtype = FAMILIES[number % len(FAMILIES)], pick(rng, *DRAWN)
    if family == "lp_pool" and not dtype.is_floating_point:
        dtype = torch.float32
    rank = int(rng.integers(2 if family == "fractional_max_pool" else 1, 4))
    x = values(rng, (2, 3, *rng.integers(5, 8, rank).tolist()), dtype)
    kernel, step = int(rng.integers(2, 4)), pick(rng, None, 1, 2)
    padding = pick(rng, 0, 0, kernel // 2, "same", ((1, 0),) * rank, ((5, 4),) * rank)
    dilation, ceil, more, keywords = int(rng.integers(1, 3)), bool(rng.integers(2)), (), {}
    if family in ("max_pool", "min_pool"):
        arguments = kernel, step, padding, dilation, ceil
    elif family in ("avg_pool", "sum_pool"):
        arguments = kernel, step, padding, ceil
        if family == "avg_pool":
            arguments += bool(rng.integers(2)), pick(rng, None, 1, 3)
        if rng.random() < 0.2:
            keywords["dilation"] = 2
    elif family == "lp_pool":
        arguments = 2, kernel, step
    elif family == "fractional_max_pool":
        arguments, more = (2, 3), (torch.rand(2, 3, rank, generator=torch.Generator().manual_seed(number)),)
        more = (more[0].to(dtype),) if dtype.is_floating_point else more
    elif family == "max_unpool":
        y, indices = getattr(numba_pool, f"max_pool{rank}d")(array(x), 2, return_indices=True)
        more, arguments = (torch.from_numpy(indices).long(),), (2, None, 0, tuple(x.shape[2:]))
        x = values(rng, y.shape, dtype)
    else:
        arguments = () if "global" in family else (int(rng.integers(1, 4)),)
    if family in INDEXED and rng.random() < 0.3:
        keywords["return_indices"] = True
    windowed = family in ("max_pool", "min_pool", "avg_pool", "sum_pool")
    beyond = "dilation" in keywords or (windowed and not isinstance(padding, int))
    return Case(family, rank, x, more, arguments, keywords, beyond)


def values(rng, shape, dtype):
    if dtype.is_floating_point:
        return torch.from_numpy(rng.standard_normal(shape)).to(dtype)
    limits = torch.iinfo(dtype)
    low, high = max(limits.min, -1000), min(limits.max, 1000)
    return torch.from_numpy(np.append(rng.integers(low, high, np.prod(shape) - 1), [limits.min]).reshape(shape)
                            .astype(str(dtype).removeprefix("torch.")))


def same(result, expected, case):
    """Maxima, minima and integers bit for bit."""
    pairs = zip(result, expected, strict=True) if isinstance(expected, tuple) else ((result, expected),)
    for t, a in pairs:
        assert t.device.type == "cpu"
        assert t.dtype in (case.x.dtype, torch.int64) or (case.floats and t.dtype is torch.float32)
        assert tuple(t.shape) == a.shape
        if case.floats and case.family not in INDEXED and a.dtype.kind != "i":
            close = 1e-5 if case.x.dtype.itemsize > 2 else 0.03
            np.testing.assert_allclose(array(t).astype(float), a.astype(float), rtol=close, atol=close)
        else:
            np.testing.assert_array_equal(array(t).astype(a.dtype), a)


def first(result):
    return result[0] if isinstance(result, tuple) else result


def weights(case):
    """An upstream gradient, and the input's by the core."""
    y = first(case.core(case.x, *case.more))
    grad = torch.from_numpy(np.random.default_rng(0).integers(-3, 4, y.shape).astype(float)).to(case.x.dtype)
    return grad, case.core_gradient(grad)


def same_gradient(result, expected, case):
    close = {8: 1e-10, 4: 1e-4}.get(case.x.dtype.itemsize, 0.1)
    np.testing.assert_allclose(array(result).astype(float), expected.astype(float), rtol=close, atol=close)


# Each calls a case in its own way, and compares.


def called(case):
    same(case.ours(case.x, *case.more), case.core(case.x, *case.more), case)


def on_another_default_device(case):
    with torch.device("meta"):
        result = case.ours(case.x, *case.more)
    same(result, case.core(case.x, *case.more), case)


def negated_later(case):
    x = torch._neg_view(-case.x) if case.floats else case.x
    same(case.ours(x, *case.more), case.core(case.x, *case.more), case)


def differentiated(case):
    if case.floats:
        grad, expected = weights(case)
        x = case.x.clone().requires_grad_()
        y = case.ours(x, *case.more)
        same(y, case.core(case.x, *case.more), case)
        same_gradient(torch.autograd.grad(first(y), x, grad)[0], expected, case)


def mapped(case):
    """Over the batch, of which fractional samples and global pooling need one of their own."""
    tensors = case.x, *case.more
    if "global" in case.family:
        tensors = [case.x.unsqueeze(1)]
    elif case.family == "fractional_max_pool":
        tensors = case.x, case.more[0].unsqueeze(1)
    result = torch.func.vmap(case.ours)(*tensors)
    for i in range(2):
        expected = case.core(*(t[i] for t in tensors))
        same(tuple(r[i] for r in result) if isinstance(result, tuple) else result[i], expected, case)


def transformed(case, wrap=lambda f: f):
    if case.floats:
        grad, expected = weights(case)
        function = torch.func.grad(lambda x, *more: (first(case.ours(x, *more)) * grad).sum())
        same_gradient(wrap(function)(case.x, *case.more), expected, case)


def functionalized(case):
    same(torch.func.functionalize(case.ours)(case.x, *case.more), case.core(case.x, *case.more), case)


def functionalized_gradient(case):
    transformed(case, torch.func.functionalize)


def pushed_forward(case):
    """The tangent by what forward and reverse mode have in common: <jvp(t), g> = <t, vjp(g)>."""
    if case.floats:
        tangent = values(np.random.default_rng(1), case.x.shape, case.x.dtype)
        grad, expected = weights(case)
        y, t = torch.func.jvp(lambda x: first(case.ours(x, *case.more)), (case.x,), (tangent,))
        same(y, first(case.core(case.x, *case.more)), case._replace(keywords={}))
        if case.x.dtype.itemsize > 2:
            forward, reverse = (t * grad).sum().item(), (tangent.numpy() * expected).sum()
            assert forward == pytest.approx(reverse, rel=1e-3, abs=1e-3)


def traced(case):
    trace = torch.jit.trace(case.ours, (case.x, *case.more), check_trace=False)
    x = case.x.flip(-1)  # a trace of values would return those of before
    same(trace(x, *case.more), case.core(x, *case.more), case)


def recorded(case):
    graph = torch.fx.symbolic_trace((lambda x, t: case.ours(x, t)) if case.more else (lambda x: case.ours(x)))
    same(graph(case.x, *case.more), case.core(case.x, *case.more), case)


def compiled(case):
    torch._dynamo.reset()
    function = torch.compile(case.ours, backend="aot_eager", fullgraph=True)
    same(function(case.x, *case.more), case.core(case.x, *case.more), case)


def compiled_gradient(case):
    torch._dynamo.reset()
    transformed(case, lambda f: torch.compile(f, backend="aot_eager", fullgraph=True))


def shapes_only(case):
    expected = case.core(case.x, *case.more)
    result = case.ours(case.x.to("meta"), *(t.to("meta") for t in case.more))
    assert tuple(first(result).shape) == first(expected).shape
    assert first(result).dtype == case.x.dtype
    assert first(result).is_meta


def of_a_subclass(case):
    result = case.ours(case.x.as_subclass(Mine), *case.more)
    assert type(first(result)) is Mine
    same(result, case.core(case.x, *case.more), case)


def in_autocast(case):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = case.ours(case.x, *case.more)
    same(result, case.core(case.x, *case.more), case)


BY_THE_CORE = (called, on_another_default_device, negated_later, differentiated, mapped, transformed, functionalized,
               recorded, compiled, in_autocast)
BY_TORCH = (functionalized_gradient, pushed_forward, traced, compiled_gradient, shapes_only, of_a_subclass)


@pytest.mark.parametrize("way", BY_THE_CORE + BY_TORCH, ids=lambda way: way.__name__)
def test_cases(way):
    """An error is right only where torch computes: for windows that it has not, and for integers."""
    compared = 0
    for number in range(CASES):
        case = draw(number)
        by_torch = way in BY_TORCH or (case.family in WITHOUT_OPERATORS and way in (mapped, functionalized, compiled))
        try:
            way(case)
            compared += 1
        except RuntimeError as error:
            if not (by_torch and (case.beyond or not case.floats)):
                raise AssertionError(f"case {number}, {case}") from error
        except AssertionError as error:
            raise AssertionError(f"case {number}, {case}") from error
    assert compared > CASES // 3
