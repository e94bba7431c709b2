"""What else happens in the process while Numba compiles."""

import gc
import threading
import time

import numba
import numpy as np
import process
import pytest
from numba.extending import intrinsic

import numba_pool as nb
from numba_pool import _warmup
from numba_pool.kernels import _cache, _compile, _driver


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setattr(_cache, "CACHE_ON", False)


@pytest.fixture(params=[True, False], ids=["on", "off"])
def collecting(request):
    """Whether Python collects garbage."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def kernels(seen, error=None):
    """A worker that notes whether garbage is collected while it is compiled, then fails if it shall; the same twice."""

    @intrinsic
    def noted(typingctx, number):
        seen.append(gc.isenabled())
        if error is not None:
            raise error
        return number(number), lambda ctx, b, sig, args: args[0]

    def kernel(lo, hi, number):
        return noted(hi) - lo

    return _compile.worker(kernel), _cache.prepared(numba.njit(kernel))


def test_no_garbage_is_collected_while_numba_compiles(collecting):
    seen = []
    assert kernels(seen)[0].parallel(2, 1, _driver.WALL, 8, (1.0,))[0] == 8
    assert gc.isenabled() == collecting
    assert seen == [False]
    assert kernels(seen)[1](2, 8, 1.0) == 6
    assert gc.isenabled() == collecting
    assert seen == [False, False]


def test_nor_where_numba_fails(collecting):
    worker, function = kernels([], ValueError("no such type"))
    for kernel, args in ((worker, (0, 1, (1.0,))), (function, (0, 1, 1.0))):
        with pytest.raises((ValueError, numba.TypingError), match="no such type"):
            kernel(*args)
        assert gc.isenabled() == collecting


def test_garbage_is_collected_while_a_compilation_waits_for_another():
    """A process may be forked meanwhile, and nothing would switch its collector on again."""
    serial = kernels([])[1]
    was = gc.isenabled()
    gc.enable()
    waiting = threading.Thread(target=serial, args=(0, 1, 1.0))
    try:
        with _cache.compiling:
            waiting.start()
            time.sleep(0.3)
            assert gc.isenabled()
            assert waiting.is_alive()
    finally:
        waiting.join()
        (gc.enable if was else gc.disable)()


def pool_in_python():
    x = np.ones((1, 1, 4, 4))
    for pool in (
        lambda: nb.max_pool2d(x, 2),
        lambda: nb.max_pool2d(np.ones((4, 64, 64, 64)), 2),  # in parallel
        lambda: nb.max_pool1d(np.ones((1, 1, 100_000)), 2),  # by sections
        lambda: nb.max_unpool2d(x, np.zeros(x.shape, np.int32), 1),
    ):
        with pytest.raises(RuntimeError, match="compiled only: run it without NUMBA_DISABLE_JIT"):
            pool()
    print("refused")


def test_nothing_is_pooled_without_compilation():
    assert process.run(pool_in_python, NUMBA_DISABLE_JIT="1") == "refused\n"


def test_slow_compilation_is_told(caplog, monkeypatch):
    compile_ = _cache.told("window_x", lambda: 3)
    with caplog.at_level("INFO", "numba_pool"):
        assert compile_() == 3
        assert not caplog.records
        monkeypatch.setattr(_cache, "SLOW", 0)
        assert compile_() == 3
    assert "compiled window_x in 0.0 s" in caplog.text


def test_warmup_shows_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(_warmup, "examples", lambda value: [np.ones((1, 1, 8, 8), value)])
    _warmup.warmup("float32", "int8", progress=True)
    shown = capsys.readouterr().err
    assert " 0/21" not in shown
    assert all(f" {done}/21" in shown for done in range(1, 22))
    assert shown.endswith("21/21\n")
    _warmup.warmup("float32")
    assert not capsys.readouterr().err
