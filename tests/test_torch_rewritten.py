"""Models that call torch's pooling functions, accelerated: what is reached, and what is not."""

import copy
import functools
import io
import pickle
import threading
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install .[torch]")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.functional import avg_pool2d, max_pool2d  # noqa: E402

import numba_pool.torch as binding  # noqa: E402
from numba_pool.torch import _rewritten  # noqa: E402

pytestmark = pytest.mark.usefixtures("small_calls_too")
torch.set_num_threads(1)


def image(**more):
    return torch.randn(2, 3, 8, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64, **more)


def halved(x, size=2, *, step=2):
    """A function of the user's that pools."""
    return max_pool2d(x, size, step)


def halved_twice(x):
    return halved(halved(x), step=1)


def decorated(function):
    @functools.wraps(function)
    def wrapper(self, x):
        return function(self, x)

    return wrapper


tools = SimpleNamespace(halved=halved)  # no Python module: what it holds cannot be known


class Names(nn.Module):
    def forward(self, x):
        a, b = F.max_pool2d(x, 2), torch.max_pool2d(x, 2)
        c, d = nn.functional.max_pool2d(x, 2), torch.nn.functional.max_pool2d(x, 2)
        return a + b + c + d + max_pool2d(x, 2) + F.relu(torch.neg(a))


class Helpers(nn.Module):
    def forward(self, x):
        return halved_twice(x) + self.smaller(x)[..., 1:, 1:] + self.static(x)[..., 1:, 1:]

    def smaller(self, x):
        return F.max_pool2d(x, 2)

    @staticmethod
    def static(x):
        return F.max_pool2d(x, 2)


class Nested(nn.Module):
    @decorated
    def forward(self, x):
        def inner(x):
            return F.max_pool2d(x, 2)

        return inner(x) + sum([F.max_pool2d(y, 2) for y in (x, x)]) + (lambda x: max_pool2d(x, 2))(x)


class Padded(nn.AvgPool2d):
    """As timm has them."""

    def forward(self, x):
        return F.avg_pool2d(F.pad(x, (0, 1, 0, 1)), self.kernel_size, self.stride, self.padding)


class Inherited(nn.MaxPool2d):
    pass


class Doubled(nn.MaxPool2d):
    def forward(self, input):
        return 2 * super().forward(input)


class Base(nn.Module):
    def forward(self, x):
        return avg_pool2d(x, 2)


class Derived(Base):
    def forward(self, x):
        return super().forward(x) + F.adaptive_avg_pool2d(x, (4, 3))


REACHED = {
    Names: ["max_pool2d"] * 5,
    Helpers: ["max_pool2d"] * 4,
    Nested: ["max_pool2d"] * 4,
    functools.partial(Padded, 3, 2): ["avg_pool2d"],
    functools.partial(Inherited, 2): ["max_pool2d"],
    functools.partial(Doubled, 2): ["max_pool2d"],
    Derived: ["avg_pool2d", "adaptive_avg_pool2d"],
}


def step(m):
    x = image(requires_grad=True)
    y = m(x)
    y.square().sum().backward()
    return y, x.grad


@pytest.mark.parametrize("make", REACHED)
def test_the_core_pools_what_a_model_calls(make, core):
    m, own = make(), make()
    before = step(own)
    assert binding.accelerate(m) is m
    assert core == []
    torch.testing.assert_close(step(m), before)
    assert core == REACHED[make]
    assert isinstance(m, type(own))
    assert (type(m).__name__, type(m).__module__) == (type(own).__name__, __name__)
    assert [name for name, _ in binding.report(m).taken] == [""]
    core.clear()
    step(own)  # of the same class, and not accelerated
    step(type(own)(2) if isinstance(own, nn.MaxPool2d) else copy.deepcopy(own))
    binding.accelerate(m)
    assert binding.restore(m) is m
    assert type(m) is type(own)
    step(m)
    assert core == []
    assert "not accelerated" in binding.report(m).left[0].why


FUNCTIONS = {
    f"{place.__name__}.{name}": getattr(place, name)
    for place in (F, torch) for name in dir(place)
    if "pool" in name and "unpool" not in name and not name.startswith(("_", "mkldnn", "quantized"))
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_pooling_function_of_torch_has_its_own(name):
    """By all of torch's names: the same results of the same arguments, and a tuple where torch returns one."""
    own, rank = FUNCTIONS[name], int(name.split("_with")[0][-2])
    x = torch.randn(2, 2, 4, 6, 6, dtype=torch.float64)[(0,) * (3 - rank)]
    ours = _rewritten.OURS[own]
    if "adaptive" in name:
        calls = [((x, 3), {}), ((), {"input": x, "output_size": 3})]
    elif "lp_pool" in name:
        calls = [((x, 2, 2), {}), ((x,), {"norm_type": 2, "kernel_size": 3, "stride": 1})]
    elif "fractional" in name:
        samples = torch.rand(*x.shape[:2], rank, dtype=torch.float64)
        calls = [((x, 2, 2, None, False, samples), {}), ((x, 2), {"output_size": 2, "_random_samples": samples})]
    elif "max" in name:
        calls = [((x, 2, 2, 1, 1, True), {}), ((x, 3), {"stride": 1, "dilation": 1})]
        if name.startswith("torch.nn"):
            calls += [((x, 2, 2, 0, 1, False, True), {}), ((x, 2), {"return_indices": True})]
    else:
        calls = [((x, 2, 2, 1, True, False), {}), ((x, 3), {"stride": 1, "padding": 1})]
    for args, named in calls:
        expected, result = own(*args, **named), ours(*args, **named)
        assert type(result) is type(expected)
        torch.testing.assert_close(result, expected)


def test_unpooling():
    y, indices = F.max_pool2d(image(), 2, return_indices=True)

    class Unpool(nn.Module):
        def forward(self, y):
            return F.max_unpool2d(y, indices, 2)

    assert torch.equal(binding.accelerate(Unpool())(y), Unpool()(y))
    assert binding.report(Unpool()).left[0].name == ""


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "replicate": lambda m: m._replicate_for_data_parallel()}


@pytest.mark.parametrize("way", COPIES)
def test_copies(way, core):
    m = binding.accelerate(nn.Sequential(Derived(), Doubled(2)))
    twin = COPIES[way](m[0])
    assert torch.equal(twin(image()), m[0](image()))
    assert len(core) == 4
    binding.restore(twin)
    assert type(twin) is Derived
    assert [name for name, _ in binding.report(m).taken] == ["0", "1"]


def test_files_hold_the_models_own_classes():
    m = binding.accelerate(nn.Sequential(Derived(), Doubled(2), Padded(2)))
    file = io.BytesIO()
    torch.save(m, file)
    assert b"numba_pool" not in file.getvalue()
    loaded = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert [type(child) for child in loaded] == [Derived, Doubled, Padded]
    assert b"numba_pool" not in pickle.dumps(m)
    assert [type(child) for child in pickle.loads(pickle.dumps(m))] == [Derived, Doubled, Padded]
    assert m.state_dict().keys() == loaded.state_dict().keys()


def test_compilers_exporters_and_tracers_see_our_functions():
    own, m = nn.Sequential(Helpers(), nn.ReLU()), binding.accelerate(nn.Sequential(Helpers(), nn.ReLU()))
    x = image(requires_grad=True)
    compiled = torch.compile(m, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x), torch.autograd.grad(own(x).sum(), x))
    binding.restore(m)
    assert torch.equal(compiled(x), own(x))
    binding.accelerate(m)
    for strict in (False, True):
        assert "numba_pool.argmax" in str(torch.export.export(m, (x,), strict=strict).graph)
    graph = torch.fx.symbolic_trace(m)
    assert sum(node.target is binding.max_pool2d for node in graph.graph.nodes) == 4
    assert torch.equal(graph(x), own(x))


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_torch_jit_computes_by_torch():
    own, m, x = Names(), binding.accelerate(Names()), image()
    for compiled in (torch.jit.trace(m, (x,)), torch.jit.script(m)):
        assert "numba_pool" not in str(compiled.graph)
        assert torch.equal(compiled(x), own(x))


def test_threads(core):
    """A model of each kind at the same time, of one class: nothing is swapped while a call runs."""
    own, m = Names(), binding.accelerate(Names())
    x = image()
    threads = [threading.Thread(target=lambda m=m: [m(x) for _ in range(20)]) for m in (own, m)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert core == ["max_pool2d"] * 5 * 20


def test_globals_that_change_later_are_seen(monkeypatch):
    m = binding.accelerate(Names())
    expected = m(image())
    monkeypatch.setattr(F, "relu", torch.zeros_like)
    assert not torch.equal(m(image()), expected)
    names = {name for name in globals() if name.startswith("_numba_pool_")}
    assert names >= {"_numba_pool_F", "_numba_pool_torch", "_numba_pool_nn", "_numba_pool_max_pool2d"}
    stand_in = globals()["_numba_pool_F"]
    stand_in.relu = torch.neg  # until `monkeypatch` sets it back
    assert F.relu is torch.neg


class Keeps(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.pool = pool

    def forward(self, x):
        return self.pool(x, 2)


class Chosen(nn.Module):
    """As many models do: one of torch's functions is an attribute, another is called."""

    def __init__(self):
        super().__init__()
        self.pool = F.max_pool2d

    def forward(self, x):
        return self.pool(x, 2)


class ChosenToo(Chosen):
    def forward(self, x):
        return super().forward(x) + F.avg_pool2d(x, 2)


class Pickles(Names):
    def __reduce__(self):
        return Pickles, ()


class Registered(Names):
    def __init_subclass__(cls):
        raise AssertionError("a class of its own")


class Zeros(nn.MaxPool2d):
    def forward(self, input):
        return torch.zeros(1)


class Meta(type):
    """As of those that keep a register of their classes."""

    def __init__(cls, name, bases, names):
        assert name == "OfMeta"
        assert bases == (nn.Module,)


class OfMeta(nn.Module, metaclass=Meta):
    forward = Names.forward


def parametrized():
    m = Names()
    m.weight = nn.Parameter(torch.ones(1))
    nn.utils.parametrize.register_parametrization(m, "weight", nn.Identity())
    return m


def with_attribute(make, **attributes):
    m = make(2)
    vars(m).update(attributes)
    return m


class Both(nn.Module):
    """One name for a global and for an attribute."""

    def forward(self, x):
        return max_pool2d(self.max_pool2d(x), 2)

    def max_pool2d(self, x):
        return x


LEFT = {
    "an attribute": (lambda: Keeps(F.max_pool2d), 'attribute "pool" is torch\'s max_pool2d: write numba_pool'),
    "an attribute of its constructor": (Chosen, 'attribute "pool" is torch\'s max_pool2d'),
    "a partial": (lambda: Keeps(functools.partial(F.avg_pool2d, stride=1)), "torch's avg_pool2d"),
    "a graph": (lambda: torch.fx.symbolic_trace(Names()), "it is a graph that calls max_pool2d"),
    "its own pickling": (Pickles, "its class has __reduce__ of its own"),
    "its own subclassing": (Registered, "its class has __init_subclass__ of its own"),
    "its own metaclass": (OfMeta, "its metaclass Meta has __init__ of its own"),
    "a class of torch's": (parametrized, "torch made its class ParametrizedNames, as parametrizations do"),
    "one of our attributes": (lambda: with_attribute(nn.AvgPool2d, dilation=3), '"dilation" is none of torch\'s'),
    "another of them": (lambda: with_attribute(Inherited, nan_policy="x"), '"nan_policy" is none of torch\'s'),
    "no pooling in forward": (lambda: Zeros(2), "Zeros is not torch's own, and its forward calls none"),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_says_why(name, core):
    m, why = LEFT[name][0](), LEFT[name][1]
    cls = type(m)
    binding.accelerate(m)
    assert type(m) is cls
    m(image())
    assert core == []
    (left,) = binding.report(m).left
    assert why in left.why
    assert why in str(binding.report(m))


def test_what_is_taken_in_part(core):
    m = binding.accelerate(ChosenToo())
    m(image())
    assert core == ["avg_pool2d"]
    report = binding.report(m)
    assert len(report.taken) == len(report.left) == 1
    assert 'attribute "pool" is torch\'s max_pool2d' in report.left[0].why


def test_a_forward_that_is_replaced():
    m = Names()
    m.forward = lambda x: x
    assert "replaced by someone else" in binding.report(binding.accelerate(m)).left[0].why
    assert type(m) is Names


def test_a_name_that_is_also_an_attributes(core):
    m = binding.accelerate(Both())
    assert torch.equal(m(image()), F.max_pool2d(image(), 2))
    assert core == ["max_pool2d"]


def test_a_method_of_too_many_names_stays():
    lines = "".join(f"    x.a{i} = 0\n" for i in range(130))
    scope = {"F": F}
    exec(f"def few(x):\n    return F.max_pool2d(x, 2)\n\ndef many(x):\n{lines}    return F.max_pool2d(x, 2)", scope)
    assert _rewritten.Writer().function(scope["few"]).calls == {"max_pool2d"}
    assert _rewritten.Writer().function(scope["many"]) is None


def test_the_report_names_the_functions():
    m = nn.Sequential(Derived(), nn.MaxPool2d(2), Padded(3), nn.ReLU())
    text = str(binding.report(binding.accelerate(m)))
    assert text.startswith("3 of 3 pooling Modules go to numba_pool.\n")
    assert '  taken  Module "0": Derived calls adaptive_avg_pool2d, avg_pool2d\n' in text
    assert '  taken  Module "2": Padded(kernel_size=3' in text


def test_a_report_changes_nothing():
    class Net(nn.Module):
        def forward(self, x):
            return tools.halved(x) + probe.avg_pool2d(x, 2)

    before = set(globals())
    assert "Net calls avg_pool2d" in str(binding.report(Net()))
    assert set(globals()) == before


probe = F
