"""Calls of numba_pool.torch so small that torch computes them: which, and that nobody sees it in the results."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install .[torch]")

import numba_pool.torch as binding  # noqa: E402
from numba_pool.torch import _autograd, _small, _tensors  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "asv_benchmarks"))

import torch_threshold  # noqa: E402

torch.set_num_threads(1)
NEVER, ALWAYS = ((0, 0),) * 2, ((1 << 40, 1 << 40),) * 2  # whether torch computes
LAST = torch.channels_last
IMAGE = (2, 3, 8, 6)  # of 288 elements


@pytest.fixture
def core(monkeypatch):
    """The sizes of the tensors that came to the core."""
    sizes, call = [], _tensors.call

    def noted(size, *args, **kwargs):
        sizes.append(size)
        return call(size, *args, **kwargs)

    monkeypatch.setattr(_autograd, "call", noted)
    return sizes


@pytest.fixture
def torchs(monkeypatch):
    """A function: `torchs(sizes)` sets below which sizes torch computes, of every kind or of one."""

    def setter(sizes, kind=None):
        others = dict.fromkeys(_small.SIZES, ((1, 1), (1, 1)) if kind else sizes)
        monkeypatch.setattr(_small, "SIZES", others | ({kind: sizes} if kind else {}))

    return setter


def image(dtype=torch.float32, **more):
    return torch.randn(IMAGE, generator=torch.Generator().manual_seed(0)).to(dtype=dtype, **more)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("gradient", [False, True])
def test_each_mode_and_layout_has_a_size(last, gradient, core, torchs):
    """Windows of 3x3 with a stride of 1 hold 9 times as many elements as the image."""
    x = image(memory_format=LAST if last else torch.contiguous_format).requires_grad_(gradient)
    for arguments, size in (((2,), 288), ((3, 1, 1), 9 * 288), ((3, (1, 3), 1), 3 * 288)):
        for least, expected in ((size, [288]), (size + 1, [])):
            sizes = [[1, 1], [1, 1]]  # all others say that the core is faster
            sizes[gradient][last] = least
            torchs(sizes)
            core.clear()
            binding.max_pool2d(x, *arguments)
            assert core == expected
    with torch.no_grad():
        torchs((NEVER[0], ALWAYS[0]))
        binding.avg_pool2d(x, 2)
        assert core.pop() == 288  # no gradient is recorded


KINDS = {
    "maxima": [lambda x: binding.max_pool2d(x, 3), lambda x: binding.adaptive_max_pool2d(x, 1)],
    "averages": [lambda x: binding.avg_pool2d(x, 3, 1)],
    "adaptive averages": [lambda x: binding.adaptive_avg_pool2d(x, (2, 1))],
    "global averages": [lambda x: binding.adaptive_avg_pool2d(x, 1), binding.global_avg_pool],
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_sizes(kind, core, torchs):
    for other in KINDS:
        torchs(ALWAYS, other)
        for call in KINDS[kind]:
            core.clear()
            call(image())
            assert bool(core) == (other != kind)


def test_the_default_sizes(core):
    assert KINDS.keys() == _small.SIZES.keys()
    binding.max_pool2d(torch.zeros(1, 1, 1 << 18, 4), 2)
    assert core == [1 << 20]
    core.clear()
    binding.max_pool2d(image(), 2)
    for more in ({}, {"return_indices": True}):
        binding.accelerate(torch.nn.MaxPool2d(2, **more))(image())  # so in Modules
    assert core == []


CALLS = {
    "max_pool1d": lambda x: binding.max_pool1d(x[:, 0], 3, 2, 1, return_indices=True),
    "max_pool2d": lambda x: binding.max_pool2d(x, (3, 2), 2, (1, 0), ceil_mode=True),
    "max_pool2d, dilated": lambda x: binding.max_pool2d(x, 2, 1, 0, 2, return_indices=True),
    "max_pool3d": lambda x: binding.max_pool3d(x[:, None], 2),
    "avg_pool1d": lambda x: binding.avg_pool1d(x[:, 0], 3, 2, 1),
    "avg_pool2d": lambda x: binding.avg_pool2d(x, 3, 2, 1, True, False),
    "avg_pool3d": lambda x: binding.avg_pool3d(x[:, None], 2),
    "adaptive_max_pool2d": lambda x: binding.adaptive_max_pool2d(x, (3, None), return_indices=True),
    "adaptive_avg_pool2d": lambda x: binding.adaptive_avg_pool2d(x, 3),
    "global_avg_pool": binding.global_avg_pool,
}


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, LAST], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_results_are_the_same(name, memory_format, core, torchs):
    """Values, indices, and gradients to the second order; the strides of all but the last."""
    results = []
    for sizes in (ALWAYS, NEVER):
        torchs(sizes)
        x = image(torch.float64, memory_format=memory_format).requires_grad_()
        y = CALLS[name](x)
        y, *indices = y if isinstance(y, tuple) else (y,)
        g = torch.arange(y.numel(), dtype=y.dtype).reshape(y.shape).requires_grad_()
        (gradient,) = torch.autograd.grad(y, x, g, create_graph=True)
        second, = torch.autograd.grad(gradient.square().sum(), g)
        results.append([y.detach(), *indices, gradient.detach(), second.contiguous()])
        assert bool(core) == (sizes is NEVER)
        assert CALLS[name](x.detach())[0].dtype == y.dtype
    torch.testing.assert_close(*results, check_stride=True)


STAYS = {
    "same": lambda x: binding.max_pool2d(x, 2, padding="same"),
    "pairs": lambda x: binding.avg_pool2d(x, 2, 2, ((1, 0), (0, 1))),
    "dilated average": lambda x: binding.avg_pool2d(x, 2, dilation=2),
    "windows without an element": lambda x: binding.max_pool2d(x[:, :, :2, :2], 2, 1, 1, 3, return_indices=True),
    "a divisor": lambda x: binding.avg_pool2d(x, 2, divisor_override=3),
    "divisor in 1D": lambda x: binding.avg_pool1d(x[:, 0], 2, divisor_override=3),
    "a divisor that is no int": lambda x: binding.avg_pool2d(x, 2, divisor_override=2.5),
    "minimum": lambda x: binding.min_pool2d(x, 2),
    "sum": lambda x: binding.sum_pool2d(x, 2),
    "norm": lambda x: binding.lp_pool2d(x, 2, 2),
    "no results": lambda x: binding.adaptive_avg_pool2d(x, 0),
    "no elements": lambda x: binding.max_pool2d(x[:0], 2),
    "a half": lambda x: binding.max_pool2d(x.half(), 2),
    "integers": lambda x: binding.avg_pool2d(x.long(), 2),
    "no batch": lambda x: binding.max_pool3d(x, 2),
    "a list": lambda x: binding.max_pool2d(x, [2, 2]),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_torch_would_compute_in_another_way_stays(name, core, torchs):
    torchs(ALWAYS)
    STAYS[name](image())
    assert len(core) == 1


@pytest.mark.parametrize("arguments", [(0,), (2, 0), (2, 2, 2), (9,), ((2, 2, 2),), (2.5,), (2, 2, -1), (2, -1)])
def test_errors_are_torchs(arguments, torchs):
    for sizes in (ALWAYS, NEVER):
        torchs(sizes)
        with pytest.raises((RuntimeError, ValueError, TypeError)) as expected:
            torch.nn.functional.max_pool2d(image(), *arguments)
        with pytest.raises(expected.type) as raised:
            binding.max_pool2d(image(), *arguments)
        assert str(raised.value) == str(expected.value)


def test_graphs_hold_operators_for_small_tensors():
    program = torch.export.export(binding.MaxPool2d(2), (image(),))
    assert "numba_pool.maximum" in str(program.graph)


def test_the_sizes_can_be_measured(capsys):
    before = _small.SIZES
    torch_threshold.main(["--smallest", "--rounds", "1", "--threads", "1"])
    assert capsys.readouterr().out.count("the core is faster from") == 4
    assert before == _small.SIZES
