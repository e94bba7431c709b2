"""`explain`: which kernel would serve a call, and why, without running it."""

import inspect
import pkgutil
import re
from importlib import import_module

import numba
import numpy as np
import pytest

import numba_pool as nb
from numba_pool import _runtime, _sentences, kernels
from numba_pool.kernels._compile import Worker

X = np.random.default_rng(0).standard_normal((4, 40, 13, 13)).astype(np.float32)


def test_what_runs_is_what_was_explained(launched):
    y, indices = nb.max_pool2d(X, 3, 2, return_indices=True)
    mean = nb.avg_pool2d(X, 3, 2)
    calls = [
        (nb.max_pool2d, X, 3, 2), (nb.avg_pool2d, X, 3, 2), (nb.max_pool2d_backward, y, indices, X.shape),
        (nb.avg_pool2d_backward, mean, X.shape, 3, 2), (nb.max_unpool2d, y, indices, 3, 2),
    ]
    for function, *args in calls:
        found = nb.explain(function, *args)
        launched.clear()
        function(*[a.copy() if isinstance(a, np.ndarray) else a for a in args])
        assert not launched or found.kernel in launched
        assert found.function == function.__name__
        assert nb.explain(function, *args).compiled == "in memory"


def test_nothing_is_run_or_compiled_or_kept():
    def compiled():
        workers = set()
        for module in filter(inspect.ismodule, vars(kernels).values()):
            workers |= {worker for worker in vars(module).values() if isinstance(worker, Worker)}
        return sum(len(worker.overloads) for worker in workers)

    before = compiled()
    x = np.ones((2, 3, 50, 9), np.int16)
    out = np.full(nb.output_shape(nb.max_pool2d, x.shape, (7, 2), 1), 7, np.int16)
    found = nb.explain(nb.max_pool2d, x, (7, 2), 1, out=out)
    assert found.compiled in ("not yet", "on disk", "in memory")
    assert compiled() == before
    assert (out == 7).all()
    assert not _runtime.watching


def test_fields_and_text():
    large = np.zeros((8, 64, 56, 56), np.float32)
    found = nb.explain(nb.max_pool2d, large, 3, 2, return_indices=True)
    assert found.memory == "channels first"
    assert found.rule
    assert found.does
    assert found.units > 1
    assert found.table_bytes > 0
    text = str(found)
    for part in (found.kernel, found.rule, found.reason, "channels first", f"{found.table_bytes:,} bytes"):
        assert part in text
    images = np.zeros((8, 56, 56, 64), np.float32)
    nb.max_pool2d(images, 3, 2, channel_axis=-1)  # which is kept
    last = nb.explain(nb.max_pool2d, images, 3, 2, channel_axis=-1)
    assert last.memory == "channels last"
    signal = nb.explain(nb.avg_pool1d, np.zeros((1, 1, 3_000_000), np.float32), 3, 1)
    assert signal.parts
    assert "sections" in signal.does
    assert signal.does.endswith(_sentences.POOLING[signal.parts[0]].does)  # what is done to each


def test_threads_and_why(monkeypatch):
    large = np.zeros((8, 64, 56, 56), np.float32)
    assert "less than" in nb.explain(nb.max_pool2d, X[:1, :1], 2).reason
    with nb.threads(1):
        assert nb.explain(nb.max_pool2d, large, 2).threads == 1
    monkeypatch.setattr(_runtime.patience, "until", 1 << 62)
    if nb.get_num_threads() > 1:
        assert "busy" in nb.explain(nb.max_pool2d, large, 2).reason


def test_what_is_wrong_is_said_as_ever():
    with pytest.raises(TypeError, match="pooling function"):
        nb.explain(len, X)
    with pytest.raises(ValueError, match="kernel_size"):
        nb.explain(nb.max_pool2d, X, 0)
    assert nb.explain(nb.max_pool2d, X[:0], 2).units == 0
    assert not _runtime.watching


WORKERS = {
    name
    for info in pkgutil.iter_modules(kernels.__path__)
    for name, value in vars(import_module(f"numba_pool.kernels.{info.name}")).items()
    if isinstance(value, Worker)
} - {"put_nans", "put_missing"}  # to which no call comes first
# Words of those who wrote the kernels, and of the names they gave them.
INSIDE = re.compile(r"`|_|\[|\b(tap|lane|walk|unit|worker|scratch|argmax|rule|geometry|table|the same)s?\b", re.I)


def test_each_kernel_has_its_sentences_in_one_table():
    assert WORKERS
    assert _sentences.POOLING.keys() | _sentences.GRADIENTS.keys() == WORKERS
    assert not _sentences.POOLING.keys() & _sentences.GRADIENTS.keys()


@pytest.mark.parametrize("kernel", sorted(WORKERS))
def test_sentences_are_for_those_outside(kernel):
    """One sentence of what it does and one why: each whole, short, and without an insider's word."""
    for sentence in {**_sentences.POOLING, **_sentences.GRADIENTS}[kernel]:
        assert re.fullmatch(r"[A-Z][^.]*(\.\.\.[^.]*)?\.", sentence)
        assert len(sentence) < 170
        assert not INSIDE.search(sentence)


def backward_calls():
    """(function, arguments) of every family, of small planes, large ones and signals."""
    rng = np.random.default_rng(0)
    for shape in (4, 40, 13, 13), (1, 2, 60, 61), (2, 1, 4000):
        x, rank = rng.standard_normal(shape, np.float32), len(shape) - 2
        of = {name: getattr(nb, f"{name}{rank}d") for name in ("max_pool", "lp_pool", "adaptive_avg_pool")}
        back = {name: getattr(nb, f"{name}{rank}d_backward") for name in (*of, "avg_pool", "max_unpool")}
        for k, s in ((2, 2), (3, 2), (3, 1)):
            y, indices = of["max_pool"](x, k, s, return_indices=True)
            yield back["max_pool"], (y, indices, x.shape)
            yield back["max_unpool"], (x, indices)
            yield back["avg_pool"], (y, x.shape, k, s)
            for norm in (2, np.inf):
                z = of["lp_pool"](x, norm, k, s)
                yield back["lp_pool"], (z, x, z, norm, k, s)
        yield nb.global_avg_pool_backward, (nb.global_avg_pool(x), x.shape)
        yield back["adaptive_avg_pool"], (of["adaptive_avg_pool"](x, 3), x.shape)


def test_a_backward_is_said_to_be_one_and_has_a_reason():
    for function, args in backward_calls():
        found = nb.explain(function, *args)
        assert "gradient" in found.does, found
        assert found.rule.endswith("."), found
        assert not INSIDE.search(" ".join((found.does, found.rule, found.reason)))


def test_an_average_is_a_sum_of_elements_and_its_gradient_one_of_gradients():
    """By one kernel, of which the sentence stands once."""
    x = np.zeros((16, 64, 60, 60), np.float32)
    forward = nb.explain(nb.avg_pool2d, x, 3, 2)
    back = nb.explain(nb.avg_pool2d_backward, nb.avg_pool2d(x, 3, 2), x.shape, 3, 2)
    assert "gradient" not in forward.does
    assert back.does.startswith(_sentences.ADDS_UP)
    assert back.does.endswith(_sentences.POOLING[back.kernel].does)


def test_the_text_names_the_kernel_last():
    """What a user understands comes first; the name is for bug reports."""
    lines = str(nb.explain(nb.max_pool2d, X, 3, 2)).splitlines()
    assert lines[0] == "max_pool2d"
    assert [line.split()[0] for line in lines[1:]] == [
        "reads", "does", "because", "memory", "threads", "kept", "compiled", "kernel"]
    assert not INSIDE.search(" ".join(lines[1:-1]).replace("max_pool2d", ""))


HINT = "; if the last axis holds the channels, pass channel_axis=-1"


@pytest.mark.parametrize(("function", "shape", "arguments", "reads"), [
    (nb.max_pool2d, (481, 640, 3), {"kernel_size": 2},
     "481 channels of 640 x 3; the result has shape (481, 320, 1)" + HINT),
    (nb.max_pool2d, (481, 640, 3), {"kernel_size": 2, "channel_axis": -1},
     "3 channels of 481 x 640; the result has shape (240, 320, 3)"),
    (nb.global_avg_pool, (4, 32, 40, 3), {},
     "a batch of 4, each of 32 channels of 40 x 3; the result has shape (4, 32, 1, 1)" + HINT),
    (nb.avg_pool1d, (2, 900, 1), {"kernel_size": 1},
     "a batch of 2, each of 900 channels of 1; the result has shape (2, 900, 1)" + HINT),
    (nb.max_pool2d, (4, 8, 3, 3), {"kernel_size": 2},
     "a batch of 4, each of 8 channels of 3 x 3; the result has shape (4, 8, 1, 1)"),
    (nb.avg_pool2d_backward, (4, 8, 32, 32), {"input_shape": (4, 8, 64, 64), "kernel_size": 2},
     "a batch of 4, each of 8 channels of 32 x 32"),
    (nb.max_unpool2d, (4, 8, 5, 5), {"indices": np.zeros((4, 8, 5, 5), np.int32), "kernel_size": 2},
     "a batch of 4, each of 8 channels of 5 x 5; the result has shape (4, 8, 10, 10)"),
    (nb.fractional_max_pool2d, (3, 9, 9), {"kernel_size": 2, "output_size": 4, "rng": 0},
     "3 channels of 9 x 9; the result has shape (3, 4, 4)"),
])  # fmt: skip
def test_how_an_array_is_read(function, shape, arguments, reads):
    found = nb.explain(function, np.zeros(shape, np.float32), **arguments)
    name = next(iter(inspect.signature(function).parameters))
    assert found.reads == f"{name} of shape {shape} as {reads}"
    assert str(found).splitlines()[1] == f"  reads     {found.reads}"


def test_channels_that_are_last_in_memory_are_not_asked_about():
    images = np.zeros((4, 64, 48, 3), np.float32)
    assert HINT in nb.explain(nb.max_pool2d, images, 2).reads
    assert HINT not in nb.explain(nb.max_pool2d, np.moveaxis(images, -1, 1), 2).reads


def test_a_copy_is_told():
    """Whatever kernels cannot read where it lies; what is merely read-only, they can."""
    last = np.moveaxis(np.ones((4, 13, 13, 40), np.float32), -1, 1)
    read_only = X.copy()
    read_only.flags.writeable = False
    for x in (X, last, read_only, X[1:3]):
        assert "copied" not in nb.explain(nb.max_pool2d, x, 3, 2).reads
    unaligned = np.ones(X.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(X.shape)
    for x in (X[..., ::-1], X[:, ::2], X.transpose(0, 1, 3, 2), X.astype(">f4"), unaligned):
        assert "copied first" in nb.explain(nb.max_pool2d, x, 3, 2).reads


def test_a_thread_that_explains_changes_no_other(monkeypatch):
    """A function of a user's runs in the thread that calls, while another one asks for an explanation."""
    monkeypatch.setitem(_runtime.watching, -1, lambda *call: None)
    assert (nb.coarsen(np.ones((4, 4), np.float32), {0: 2, 1: 2}, numba.njit(lambda block: block.sum())) == 4).all()
