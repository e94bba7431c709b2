"""`explain`: which kernel would serve a call, and why, without running it."""

import inspect

import numpy as np
import pytest

import numba_pool as nb
from numba_pool import _runtime, kernels

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
            workers |= {worker for worker in vars(module).values() if hasattr(worker, "overloads")}
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
    nb.max_pool2d(images, 3, 2, channel_axis=-1)  # whose recipe is kept
    last = nb.explain(nb.max_pool2d, images, 3, 2, channel_axis=-1)
    assert last.memory == "channels last"
    signal = nb.explain(nb.avg_pool1d, np.zeros((1, 1, 3_000_000), np.float32), 3, 1)
    assert signal.parts
    assert "sections" in str(signal)


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
