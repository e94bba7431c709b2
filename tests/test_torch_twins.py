"""Accelerated models whose classes, methods and functions are of unusual kinds."""

import copy
import functools
import types
from unittest import mock

import pytest

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install .[torch]")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402

import numba_pool.torch as binding  # noqa: E402
from numba_pool.torch import _rewritten  # noqa: E402

pytestmark = pytest.mark.usefixtures("small_calls_too")


def image():
    return torch.randn(2, 3, 8, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def halved(x, size=2):
    return F.max_pool2d(x, size)


class Plain(nn.Module):
    def forward(self, x):
        return F.max_pool2d(x, 2)


class Bound(nn.Module):
    """A method of its own as an attribute, and no attribute can be set."""

    def __init__(self):
        super().__init__()
        self.pool = self.pooled
        self.built = True

    def __setattr__(self, name, value):
        assert "built" not in vars(self)
        super().__setattr__(name, value)

    def pooled(self, x):
        return F.max_pool2d(x, 2)

    def forward(self, x):
        return self.pool(x)


def test_methods_that_are_attributes(core):
    m, x = Bound(), image()
    binding.accelerate(m)
    expected = F.max_pool2d(x, 2)
    assert torch.equal(m(x), expected)
    assert torch.equal(copy.deepcopy(m)(x), expected)
    assert len(core) == 2
    vars(m)["forward"] = functools.partial(m.forward)  # as wrappers do that keep it
    binding.restore(m)
    assert torch.equal(m.pool(x), expected)
    assert len(core) == 2


class Proxy:
    """A callable that looks like the function that it calls, as those of wrapt."""

    __class__ = types.FunctionType

    def __init__(self, function):
        vars(self)["function"] = function

    def __getattr__(self, name):
        return getattr(self.function, name)

    def __hash__(self):
        return hash(self.function)

    def __eq__(self, other):
        return other in (self, self.function)

    def __get__(self, instance, cls):
        return types.MethodType(self, instance)

    def __call__(self, *args):
        return 2 * self.function(*args)


doubled = Proxy(halved)


def counted(x):
    counted.calls += 1
    return halved(x)


counted.calls = 0


class Proxies(nn.Module):
    def forward(self, x):
        with mock.patch.object(F, "relu", torch.neg):
            y = F.relu(F.max_pool2d(x, 2))
        return y + self.proxied(x) + doubled(x) + counted(x) * counted.calls

    @Proxy
    def proxied(self, x):
        return halved(x)


def test_callables_that_look_like_functions_and_attributes_of_functions(core):
    counted.calls = 0
    m = binding.accelerate(Proxies())
    assert torch.equal(m(image()), 4 * halved(image()))
    assert counted.calls == 1
    assert len(core) == 2
    assert "avg_pool2d" in dir(globals()["_numba_pool_F"])


class New(nn.Module):
    """A class that copies are made of with arguments."""

    def __new__(cls, size):
        return super().__new__(cls)

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return halved(x, self.size)

    def __getnewargs__(self):
        return (self.size,)


def test_copies_of_classes_whose_new_takes_arguments(core):
    m = binding.accelerate(New(2))
    for twin in (copy.copy(m), copy.deepcopy(m)):
        twin(image())
        assert twin.size == 2
    assert len(core) == 2


def test_classes_that_are_made_of_a_twin(core):
    m = binding.accelerate(Plain())
    m.weight = nn.Parameter(torch.ones(1))
    nn.utils.parametrize.register_parametrization(m, "weight", nn.Identity())
    cls = type(m)
    assert binding.report(m).taken == [("", m)]
    assert type(binding.accelerate(m)) is cls
    nn.utils.parametrize.remove_parametrizations(m, "weight")
    assert type(binding.restore(m)) is Plain


def test_two_threads_that_accelerate_one_model(monkeypatch):
    """The other thread is done between this one's look at the model and its change."""
    m, finish = Plain(), _rewritten.Writer.finish

    def finished(writer):
        monkeypatch.setattr(_rewritten.Writer, "finish", finish)
        binding.accelerate(m)
        finish(writer)

    monkeypatch.setattr(_rewritten.Writer, "finish", finished)
    assert type(binding.restore(binding.accelerate(m))) is Plain


def unknown(x):
    return halved(x) if x.sum() < 1e9 else x


torch.fx.wrap("unknown")


class Wrapped(nn.Module):
    def forward(self, x):
        return unknown(x)


def test_functions_that_tracers_are_told_not_to_look_into(core):
    graph = torch.fx.symbolic_trace(binding.accelerate(Wrapped()))
    assert torch.equal(graph(image()), halved(image()))
    assert core == ["max_pool2d"]


def doubles(function):
    @functools.wraps(function)
    def wrapper(x):
        return 2 * function(x)

    return wrapper


@doubles
def halved_and_doubled(x):
    return halved(x)


class Compiled(nn.Module):
    def forward(self, x):
        return halved_and_doubled(x) + halved(x)


def test_a_compiled_model_is_not_compiled_again_for_another_model():
    counter = CompileCounterWithBackend("eager")
    m = binding.accelerate(Compiled())
    compiled = torch.compile(m, backend=counter)
    for other in (Compiled(), m, Compiled()):
        assert torch.equal(compiled(image()), 3 * halved(image()))
        binding.accelerate(other)
    compiled(image())
    assert counter.frame_count == 1


def test_the_line_of_a_class_is_its_own():
    """By which Python 3.13 finds the source of a class."""
    cls = type("Here", (Plain,), {"__firstlineno__": 7})
    assert vars(type(binding.accelerate(cls())))["__firstlineno__"] == 7
    assert ("__firstlineno__" in vars(type(binding.accelerate(Plain())))) == ("__firstlineno__" in vars(Plain))
