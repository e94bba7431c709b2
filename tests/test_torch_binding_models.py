"""numba_pool.torch in models: Modules, accelerate, restore and report; threads, DataLoader workers, DDP."""

import copy
import functools
import importlib
import inspect
import io
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import cloudpickle
import numpy as np
import process
import pytest

import numba_pool

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install -e .[torch]")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import numba_pool.torch as binding  # noqa: E402
from numba_pool.torch import _small, _tensors  # noqa: E402

pytestmark = pytest.mark.usefixtures("small_calls_too")
torch.set_num_threads(1)
# For processes of their own: these tests, and the package that they test.
PATH = os.pathsep.join([str(process.TESTS), str(Path(numba_pool.__file__).parent.parent)])
MODULES = [name for name in binding.__all__ if inspect.isclass(getattr(binding, name)) and hasattr(nn, name)]


def model():
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 2)
    return nn.Sequential(*layers).double()


def taken(module):
    return [name for name, _ in binding.report(module).taken]


def step(module):
    module.zero_grad()
    y = module(torch.arange(36.0, dtype=torch.float64).reshape(1, 1, 6, 6))
    y.sum().backward()
    return [y.detach(), *(p.grad.clone() for p in module.parameters())]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_torchs_but_for_forward(name):
    ours, own = getattr(binding, name), getattr(nn, name)
    assert issubclass(ours, own)
    rank = int(name[-2])
    arguments = {"LP": (2, 2), "Fr": (2, 3)}.get(name[:2], (2,))
    module, expected = ours(*arguments), own(*arguments)
    assert repr(module) == repr(expected)
    assert list(inspect.signature(own).parameters) == [p for p in inspect.signature(ours).parameters
                                                       if p in inspect.signature(own).parameters]  # fmt: skip
    assert type(pickle.loads(pickle.dumps(module))) is ours
    x = torch.rand(1, 2, *[6] * rank, dtype=torch.float64)
    if name.startswith("MaxUnpool"):
        x, indices = getattr(binding, f"max_pool{rank}d")(x, 2, return_indices=True)
        arguments = (indices,)
    else:
        arguments = ()
    results = []
    for m in (module, expected):
        torch.manual_seed(0)
        results.append(m(x, *arguments))
    torch.testing.assert_close(*results)


def test_global_modules():
    x = torch.rand(2, 3, 4, 5, dtype=torch.float64)
    torch.testing.assert_close(binding.GlobalAvgPool()(x), x.mean((2, 3), keepdim=True))
    y, indices = binding.GlobalMaxPool(return_indices=True)(x)
    assert torch.equal(y, x.amax((2, 3), keepdim=True))
    assert torch.equal(x.flatten(2).gather(2, indices.flatten(2)), y.flatten(2))
    with pytest.raises(ValueError, match="3 to 5 axes"):
        binding.global_avg_pool(x[0, 0])


def test_accelerate_and_restore():
    m = model()
    before, state = step(m), m.state_dict()
    assert taken(m) == []
    assert binding.accelerate(m) is m
    assert taken(m) == ["1", "3"]
    calls = []
    hook = m[1].register_forward_hook(lambda module, args, output: calls.append("forward"))
    m[1].register_full_backward_hook(lambda module, grad_input, grad_output: calls.append("backward"))
    after = step(m)
    assert calls == ["forward", "backward"]
    hook.remove()
    assert same(after, before)  # windows of 4 elements: sums round alike
    assert isinstance(m[1], nn.MaxPool2d)
    assert m.state_dict().keys() == state.keys()
    m[1].kernel_size = 3  # attributes still count
    assert m[1](torch.zeros(1, 1, 6, 6, dtype=torch.float64)).shape == (1, 1, 2, 2)
    binding.accelerate(m)
    binding.restore(m)
    assert taken(m) == []
    assert type(m[1]) is nn.MaxPool2d
    assert binding.restore(m) is m


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "replicate": lambda m: m._replicate_for_data_parallel()}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_is_accelerated_by_itself(way):
    """With attributes of its own; what becomes of it does not touch the one that it was copied from."""
    x = torch.arange(288.0).reshape(1, 2, 12, 12)
    for name in ("MaxPool2d", "AvgPool2d"):
        own = getattr(nn, name)(2)
        m = binding.accelerate(getattr(nn, name)(2))
        twin = COPIES[way](m)
        assert taken(twin) == [""]
        twin.kernel_size = twin.stride = 3
        assert twin(x).shape == (1, 2, 4, 4)
        assert torch.equal(m(x), own(x))
        again = COPIES[way](twin)
        binding.restore(twin)
        assert (taken(twin), taken(m), taken(again)) == ([], [""], [""])
        assert type(twin) is type(own)
        assert twin(x).shape == (1, 2, 4, 4)


def test_copies_of_models():
    m = binding.accelerate(nn.Sequential(*model(), nn.Identity()))
    m.append(m[1])  # twice in the model, and so in the copy
    twin = copy.deepcopy(m)
    assert taken(twin) == ["1", "3"]
    assert twin[1] is twin[-1] is not m[1]
    assert same(step(twin[:-2]), step(m[:-2]))
    m[:6].load_state_dict(model().state_dict())


def saved(m, **kwargs):
    file = io.BytesIO()
    torch.save(m, file, **kwargs)
    return file.getvalue()


FILES = {f"pickle {n}": functools.partial(pickle.dumps, protocol=n) for n in range(pickle.HIGHEST_PROTOCOL + 1)}
FILES |= {"cloudpickle": cloudpickle.dumps, "torch.save": saved,
          "torch.save, old": functools.partial(saved, _use_new_zipfile_serialization=False)}  # fmt: skip


@pytest.mark.parametrize("way", FILES)
def test_files_hold_torchs_own(way):
    m = binding.accelerate(model())
    content = FILES[way](m)
    assert b"numba_pool" not in content
    loaded = torch.load(io.BytesIO(content), weights_only=False) if "torch" in way else pickle.loads(content)
    assert type(loaded[1]) is nn.MaxPool2d
    assert vars(loaded[1]).keys() == vars(model()[1]).keys()
    assert (taken(loaded), taken(m)) == ([], ["1", "3"])
    assert same(step(loaded), step(m))
    assert taken(binding.accelerate(loaded)) == ["1", "3"]
    assert type(binding.restore(loaded)[1]) is nn.MaxPool2d


def test_a_file_loads_without_numba_pool(tmp_path):
    torch.save(binding.accelerate(model()), tmp_path / "model.pt")
    code = ("import sys, torch; sys.modules['numba_pool'] = None\n"
            f"m = torch.load({str(tmp_path / 'model.pt')!r}, weights_only=False)\n"
            "print(type(m[1]).forward.__module__, *m(torch.ones(1, 1, 6, 6, dtype=torch.float64)).shape)")  # fmt: skip
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["torch.nn.modules.pooling", "1", "2"]


def test_a_module_that_changes_its_class():
    class Zeros(nn.MaxPool2d):
        def forward(self, input):
            return torch.zeros(1)

    m = binding.accelerate(nn.MaxPool2d(2))
    m.__class__ = Zeros
    assert torch.equal(m(torch.ones(1, 1, 2, 2)), torch.zeros(1))
    assert "Zeros is not torch's own" in binding.report(m).left[0].why
    assert type(binding.restore(m)) is Zeros


def test_a_forward_that_is_wrapped_and_given_back():
    """As tools do that watch Modules: afterwards each has its class's forward once more, as an attribute."""
    m = nn.MaxPool2d(2)
    m.forward = m.forward
    assert taken(binding.accelerate(m)) == [""]
    given_back = m.forward
    m.forward = lambda x: given_back(x) + 1
    assert "replaced by someone else" in binding.report(m).left[0].why
    m.forward = given_back
    assert taken(m) == [""]
    assert type(pickle.loads(pickle.dumps(m))) is nn.MaxPool2d
    assert binding.restore(m).forward.__func__ is nn.MaxPool2d.forward


def test_tracers_take_it_for_torchs():
    traced = torch.fx.symbolic_trace(binding.accelerate(model()))
    assert [node.target for node in traced.graph.nodes if node.op == "call_module"] == [str(i) for i in range(6)]
    assert taken(traced) == ["1", "3"]


@pytest.mark.parametrize("function", [binding.accelerate, binding.restore, binding.report])
@pytest.mark.parametrize(("model", "message"), [
    (F.max_pool2d, "got max_pool2d: write numba_pool.torch.max_pool2d in the place"),
    (F.avg_pool2d, "write numba_pool.torch.avg_pool2d"),
    (nn.MaxPool2d, "write numba_pool.torch.MaxPool2d"),
    (len, "write numba_pool.torch.max_pool2d where a function calls torch.nn.functional.max_pool2d"),
    ([nn.MaxPool2d(2)], "got an instance of list: call it for each Module"),
    (None, "must be a torch.nn.Module, got an instance of NoneType"),
])  # fmt: skip
def test_only_modules(function, model, message):
    with pytest.raises(TypeError, match=message):
        function(model)


def import_anew():
    """In a process of its own: reloaded one by one, then taken from `sys.modules` and imported once more."""
    m = binding.accelerate(nn.Sequential(nn.MaxPool2d(2)))
    names = [name for name in sys.modules if name.startswith("numba_pool.torch")]
    for name in names:
        importlib.reload(sys.modules[name])
    for name in names:
        del sys.modules[name]
    anew = importlib.import_module("numba_pool.torch")
    assert anew is not binding
    x = torch.rand(3, 1, 4, 4, dtype=torch.float64)
    expected = F.max_pool2d(x, 2)
    for pool in (m, anew.accelerate(m), anew.MaxPool2d(2), binding.MaxPool2d(2)):
        assert len(anew.report(pool).taken) == len(binding.report(pool).taken) == 1
        for function in (pool, torch.func.vmap(pool), torch.compile(pool, backend="aot_eager")):
            assert torch.equal(function(x), expected)
    assert type(anew.restore(m)[0]) is nn.MaxPool2d
    print("done")


def test_report_says_why():
    class Mine(nn.MaxPool2d):
        def forward(self, input):
            return input

    m = nn.Sequential(nn.MaxPool2d(2), Mine(2), nn.LPPool2d(3, 2), nn.AvgPool2d(2), binding.AvgPool2d(2, dilation=2),
                      nn.LPPool2d(2, 2), nn.ReLU())  # fmt: skip
    m[3].forward = lambda x: x
    report = binding.report(binding.accelerate(m))
    assert [name for name, _ in report.taken] == ["0", "4", "5"]
    why = {name: why for name, _, why in report.left}
    assert list(why) == ["1", "2", "3"]
    assert "Mine is not torch's own" in why["1"]
    assert "odd" in why["2"]
    assert "replaced" in why["3"]
    text = str(report)
    assert "3 of 6 pooling Modules go to numba_pool" in text
    assert '  taken  Module "0": MaxPool2d(' in text  # and not "taken 0"
    assert '  left   Module "3": AvgPool2d(' in text
    assert "  taken  the model: MaxPool2d(" in str(binding.report(binding.MaxPool2d(2)))
    on_meta = nn.Sequential(nn.Linear(1, 1, device="meta"), nn.MaxPool2d(2))
    assert "meta" in binding.report(binding.accelerate(on_meta)).left[0].why
    assert binding.report(nn.MaxPool2d(2)).left[0].why == "not accelerated: call accelerate(model)"


def test_a_report_says_what_it_cannot_see():
    text = str(binding.report(nn.ReLU()))
    assert text.startswith("No pooling Modules.\n")
    assert "from an attribute, a partial or an import" in text
    assert "write numba_pool.torch.max_pool2d" in text


def test_report_names_the_sizes(monkeypatch):
    sizes = {"maxima": ((1234567, 2), (3, 4)), "global averages": ((_small.NEVER, 5), (6, 7))}
    monkeypatch.setattr(_small, "SIZES", sizes)
    assert "less time" not in str(binding.report(model()))
    lines = str(binding.report(binding.accelerate(model()))).splitlines()
    assert [line.split() for line in lines[-5:-2]] == [
        ["inference", "channels", "last", "training", "channels", "last"],
        ["maxima", "1,234,567", "2", "3", "4"], ["global", "averages", "all", "5", "6", "7"]]
    assert len({len(line) for line in lines[-5:-2]}) == 1  # columns end below each other


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # a FutureWarning since torch 2.14
def test_report_of_scripted():
    report = binding.report(binding.accelerate(torch.jit.script(nn.Sequential(nn.MaxPool2d(2)))))
    assert report.taken == []
    assert "torch.jit" in report.left[0].why


def count_threads():
    """In a process of its own: threads follow torch's count, and no count is changed."""
    seen = []

    def noted(*args):
        seen.append(numba_pool.get_num_threads())

    torch.set_num_threads(1)  # Numba has two, and sets torch's to as many when it starts
    _tensors.call(1 << 20, noted)
    assert torch.get_num_threads() == 1
    for numbas, torchs in ((2, 1), (2, 2), (1, 2), (1, 1)):
        torch.set_num_threads(torchs)
        _tensors.call(1 << 20, noted)
        numba_pool.set_num_threads(numbas)
        torch.set_num_threads(torchs)
        _tensors.call(1 << 20, noted)
        assert torch.get_num_threads() == torchs
        assert numba_pool.get_num_threads() == numbas
        with pytest.raises(ValueError, match="twice"):
            _tensors.call(1 << 20, fail)
        assert numba_pool.get_num_threads() == numbas
    print(seen)


def fail():
    raise ValueError("twice")


def pool_serially():
    import numba

    import numba_pool.torch as pool

    pool.max_pool2d(torch.ones(4, 4, 64, 64), 2)
    print(numba.get_num_threads())


def pool_serially_and_import_anew():
    pool_serially()
    import_anew()


def test_serial_pooling_leaves_numbas_threads_alone_and_what_is_imported_anew_pools():
    """In one process, since it takes seconds to import torch."""
    out = process.run(pool_serially_and_import_anew, NUMBA_POOL_SERIAL="1", PYTHONPATH=PATH)
    assert out.split()[0] == "2"
    assert out.split("\n")[-2] == "done"


def train_without_the_compiler():
    """Torch's own optimizers load it, so that there is none here."""
    assert "torch._dynamo" not in sys.modules
    m = binding.accelerate(model())
    step(m)
    with torch.no_grad():
        m(torch.ones(1, 1, 6, 6, dtype=torch.float64))
    print(taken(m), "torch._dynamo" in sys.modules)


def test_the_compiler_is_loaded_by_who_compiles():
    """It takes longer than all else that is imported."""
    assert process.run(train_without_the_compiler, PYTHONPATH=PATH).strip() == "['1', '3'] False"


class Pooled(torch.utils.data.Dataset):
    """Images that are pooled where they are loaded."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return binding.max_pool2d(torch.full((1, 256, 256), float(i), dtype=torch.float64), 2)


def load():
    torch.set_num_threads(2)
    binding.max_pool2d(torch.zeros(8, 1, 256, 256, dtype=torch.float64), 2)  # threads have started before the fork
    loader = torch.utils.data.DataLoader(Pooled(), num_workers=2, multiprocessing_context="fork")
    print([int(x.mean()) for x in loader])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_data_loader_workers():
    assert process.run(load, PYTHONPATH=PATH).split("\n")[-2] == "[0, 1, 2, 3]"


def train(rank, port):
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    m = nn.parallel.DistributedDataParallel(binding.accelerate(model()))
    x = torch.from_numpy(np.random.default_rng(rank).standard_normal((2, 1, 6, 6)))
    m(x).sum().backward()
    print(len(taken(m)), [round(float(p.grad.sum()), 4) for p in m.parameters()], flush=True)
    dist.barrier()
    os._exit(0)  # to take its modules and groups apart hangs now and then, with torch's own pooling, too


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_distributed_data_parallel():
    """Both processes have the mean of the gradients that each has alone."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    outputs = process.finish_all([process.start(train, rank, port, PYTHONPATH=PATH) for rank in (0, 1)])
    assert outputs[0] == outputs[1]
    means = []
    for rank in (0, 1):
        m = model()
        m(torch.from_numpy(np.random.default_rng(rank).standard_normal((2, 1, 6, 6)))).sum().backward()
        means.append([float(p.grad.sum()) for p in m.parameters()])
    count, _, gradients = outputs[0].strip().partition(" ")
    assert count == "2"
    np.testing.assert_allclose([float(g) for g in gradients.strip("[]").split(",")], np.mean(means, axis=0), atol=2e-4)
