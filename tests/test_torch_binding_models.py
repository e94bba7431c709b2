"""numba_pool.torch in models: Modules, accelerate, restore and report; threads, DataLoader workers, DDP."""

import copy
import inspect
import io
import os
import pickle
import socket
from pathlib import Path

import numpy as np
import process
import pytest

import numba_pool

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install numba_pool[torch]")

from torch import nn  # noqa: E402

import numba_pool.torch as binding  # noqa: E402
from numba_pool.torch import _tensors  # noqa: E402

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
    assert type(m[1]) is nn.MaxPool2d
    assert m.state_dict().keys() == state.keys()
    m[1].kernel_size = 3  # attributes still count
    assert m[1](torch.zeros(1, 1, 6, 6, dtype=torch.float64)).shape == (1, 1, 2, 2)
    binding.accelerate(m)
    binding.restore(m)
    assert taken(m) == []
    assert "forward" not in vars(m[1])
    assert binding.restore(m) is m


def test_copies_and_files():
    m = binding.accelerate(model())
    twin = copy.deepcopy(m)
    assert taken(twin) == ["1", "3"]
    assert twin[1].forward.__self__ is twin[1]
    assert same(step(twin), step(m))
    file = io.BytesIO()
    torch.save(m, file)
    assert b"numba_pool" not in file.getvalue()  # so that it loads where that is not installed
    file.seek(0)
    for loaded in (pickle.loads(pickle.dumps(m)), torch.load(file, weights_only=False)):
        assert taken(loaded) == []
        assert same(step(loaded), step(m))
        assert taken(binding.accelerate(loaded)) == ["1", "3"]
    m.load_state_dict(model().state_dict())


def test_report_says_why():
    class Mine(nn.MaxPool2d):
        pass

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
    assert "torch.nn.functional" in text
    assert "Modules go" in str(binding.report(nn.ReLU()))
    on_meta = nn.Sequential(nn.Linear(1, 1, device="meta"), nn.MaxPool2d(2))
    assert "meta" in binding.report(binding.accelerate(on_meta)).left[0].why
    assert "was not called" in binding.report(nn.MaxPool2d(2)).left[0].why


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
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


def test_serial_pooling_leaves_numbas_threads_alone():
    assert process.run(pool_serially, NUMBA_POOL_SERIAL="1", PYTHONPATH=PATH).split() == ["2"]


def test_threads_follow_torch():
    process.need("omp")  # whose threads set torch's count as they start
    assert process.run(count_threads, layer="omp", PYTHONPATH=PATH).split("\n")[-2] == str([1, 1, 1, 2, 2, 2, 2, 1, 1])


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
