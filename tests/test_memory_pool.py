"""The pool for large results: memory comes back, and is never seen in a result."""

import copy
import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from process import finish, run, start

import numba_pool as nb
from numba_pool import _memory
from numba_pool._memory import DISTANCES, LEAST, MIB, Pool, empty

needs_pool = pytest.mark.skipif(not _memory.PRIVATE, reason="no private mappings on this system")
pytestmark = needs_pool


@pytest.fixture(autouse=True)
def pool(monkeypatch):
    """A pool of its own for each test, of 64 MiB."""
    fresh = Pool(64 * MIB)
    monkeypatch.setattr(_memory, "_pool", fresh)
    return fresh


def address(a):
    return a.__array_interface__["data"][0]


def test_small_results_are_numpys_own(pool):
    a = empty((LEAST - 1,), np.uint8)
    assert a.base is None
    del a
    assert pool.held() == 0


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_memory_is_used_again(pool, dtype):
    shape = (3, LEAST // np.dtype(dtype).itemsize)
    a = empty(shape, dtype)
    assert (a.shape, a.dtype, a.flags.c_contiguous, a.flags.writeable) == (shape, np.dtype(dtype), True, True)
    assert address(a) % 4096 in range(0, DISTANCES * 128, 128)  # as streamed vectors of float64 are aligned
    a[...] = 1
    first = address(a)
    del a
    assert pool.held() == _memory.size_class(3 * LEAST)
    b = empty(shape, dtype)
    assert address(b) == first
    assert pool.held() == 0


@pytest.mark.parametrize("nbytes", [LEAST, 5 * MIB])
def test_blocks_differ_in_the_last_bits_of_their_addresses(pool, nbytes):
    """Where they agree, stores to one and loads from another wait for each other on Intel's processors."""
    blocks = [empty((nbytes,), np.uint8) for _ in range(DISTANCES)]
    for bits in (12, 16):
        assert len({address(block) % 2**bits for block in blocks}) == DISTANCES
    for block in blocks:
        block[-1] = 1  # within the mapping
        assert nbytes < _memory.PAGE or address(block) % _memory.PAGE < DISTANCES * _memory.STAGGER


@pytest.mark.parametrize("size", [LEAST, _memory.PAGE, 5 * MIB])
def test_blocks_stay_within_their_mappings(monkeypatch, size):
    """Also where these begin so that a huge page is as far away as can be."""
    start, lengths = _memory.PAGE + 4096, []

    class Mapping(bytearray):
        def madvise(self, advice):
            """Nothing is mapped."""

    def mapped(length):
        lengths.append(length)
        return Mapping(length), start

    monkeypatch.setattr(_memory, "mapped", mapped)
    for _ in range(DISTANCES):
        block = _memory.Block(size, None)
        assert start <= block.address <= block.address + size <= start + lengths[-1]


def test_a_view_keeps_its_memory(pool):
    a = empty((4, LEAST), np.uint8)
    a[...] = 7
    view = a.reshape(2, 2, LEAST)[1].T[::-3]
    del a
    gc.collect()
    assert pool.held() == 0
    others = [empty((4, LEAST), np.uint8) for _ in range(2)]
    for other in others:
        other[...] = 1
    assert (view == 7).all()
    del view
    assert pool.held() == 4 * LEAST


def test_foreign_views_keep_the_memory(pool):
    a = empty((LEAST,), np.uint8)
    a[...] = 7
    keepers = [memoryview(a), np.asarray(memoryview(a)), np.lib.stride_tricks.as_strided(a, (5,), (1,)), a.data[1:]]
    del a
    while keepers:
        other = empty((LEAST,), np.uint8)
        other[...] = 1
        assert bytes(keepers[-1][:5]) == b"\7\7\7\7\7"
        del other
        keepers.pop()
    assert pool.held() == 2 * LEAST


def test_a_copy_of_the_last_base_has_memory_of_its_own(pool, monkeypatch):
    a = empty((LEAST,), np.uint8)
    a[...] = 7
    complaints = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    copied = copy.copy(a.base)
    del a
    assert pool.held() == LEAST
    empty((LEAST,), np.uint8)[...] = 1
    assert copied[0] == 7
    del copied
    assert pool.held() == LEAST
    assert not complaints


def test_the_last_base_keeps_the_memory(pool):
    """Whoever looks for the owner of a result's memory holds it."""
    a = empty((LEAST,), np.uint8)
    a[...] = 7
    assert type(a) is np.ndarray
    owner = a
    while getattr(owner, "base", None) is not None:
        owner = owner.base
    view = np.frombuffer(owner, np.uint8)
    del a, owner
    gc.collect()
    assert pool.held() == 0
    other = empty((LEAST,), np.uint8)
    other[...] = 1
    assert (view[:LEAST] == 7).all()
    del view
    assert pool.held() == LEAST


@pytest.mark.parametrize("last", [False, True])
def test_results_of_pooling_come_from_the_pool_and_do_not_show_it(pool, last):
    x = np.arange(2 * 8 * 1024 * 1024, dtype=np.float32).reshape(2, 8, 1024, 1024)
    if last:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    expected = x[:, :, 1::2, 1::2].copy()
    kept = nb.max_pool2d(x, 2)
    nb.avg_pool2d(x, 2)
    assert pool.held() == 16 * MIB
    for _ in range(3):
        y = nb.max_pool2d(x, 2)
        g = nb.avg_pool2d_backward(y, x.shape, 2)
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(g[:, :, ::2, 1::2], expected / 4)
    np.testing.assert_array_equal(kept, expected)
    del kept, y, g
    assert pool.held() == (2 * 16 + 64) * MIB - 32 * MIB  # the limit


def test_idle_blocks_stay_below_the_limit(pool):
    part = pool.limit // 8
    results = [empty((n * part,), np.uint8) for n in (1, 2, 3, 4)]
    while results:
        results.pop(0)
        assert pool.held() <= pool.limit
    assert pool.held() == 7 * part  # the 1, the 2 and the 3 went for the 4, oldest sizes first, as far as need be
    too_large = empty((pool.limit + 1,), np.uint8)
    del too_large
    assert pool.held() == 7 * part


def test_what_is_idle_is_added_up_once_it_could_be_too_much(pool):
    part = pool.limit // 4
    results = [empty((part,), np.uint8) for _ in range(4)]
    assert not pool.full
    results.append(empty((part,), np.uint8))
    assert pool.full
    results.clear()
    assert pool.held() == pool.limit


def test_empty_pool_keeps_what_is_alive(pool):
    a, b = empty((LEAST,), np.uint8), empty((LEAST,), np.uint8)
    a[...] = 7
    del b
    nb.empty_pool()
    assert pool.held() == 0
    assert (a == 7).all()
    del a
    assert pool.held() == LEAST


def test_sizes_waste_an_eighth_at_most():
    for nbytes in (LEAST, LEAST + 1, 3 * LEAST - 1, 10**8, 10**9 + 7):
        assert nbytes <= _memory.size_class(nbytes) <= max(nbytes * 9 / 8, nbytes + _memory.PAGE)


def test_many_threads_share_the_pool(pool):
    rounds, workers = 60, 8
    barrier = threading.Barrier(workers)

    def use(seed):
        barrier.wait()
        rng, kept = np.random.default_rng(seed), []
        for n in range(rounds):
            a = empty((LEAST * int(rng.integers(1, 4)),), np.uint8)
            ends = a[:: a.size - 1]
            ends[...] = (seed, n)
            kept.append((ends, [seed, n]))
            if len(kept) > 2:
                kept.pop(int(rng.integers(3)))
            for view, expected in kept:
                assert view.tolist() == expected
        return len(kept)

    with ThreadPoolExecutor(workers) as threads:
        assert list(threads.map(use, range(workers))) == [2] * workers
    gc.collect()
    assert 0 < pool.held() <= pool.limit


def test_results_that_die_in_the_garbage_collector(pool):
    class Node:
        pass

    for _ in range(5):
        node = Node()
        node.self, node.result = node, empty((LEAST,), np.uint8)
    del node
    gc.collect()
    assert pool.held() == 5 * LEAST


def test_without_room_numpy_is_asked(pool, monkeypatch):
    idle = empty((LEAST,), np.uint8)
    del idle

    def no_room(*args, **kwargs):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(_memory.mmap, "mmap", no_room)
    a = empty((2 * LEAST,), np.uint8)
    assert a.base is None
    assert pool.held() == 0  # what was idle may be what is missing


@pytest.mark.parametrize("shape", [(1 << 62,), (1 << 31, 1 << 31), (1 << 40, 1 << 40), (1 << 80,)])
def test_what_no_memory_holds_raises(shape):
    with pytest.raises((MemoryError, ValueError)):
        empty(shape, np.float64)


def report():
    a = empty((8 * MIB,), np.uint8)
    pooled = a.base is not None
    del a
    print(pooled, _memory._pool.limit // MIB, _memory._pool.held() // MIB)


@pytest.mark.parametrize(("value", "expected"), [("0", "False 0 0"), ("4", "True 4 0"), ("100", "True 100 8")])
def test_the_limit_is_an_environment_variable(value, expected):
    assert run(report, NUMBA_POOL_MEMORY=value).strip() == expected


def test_a_limit_that_is_no_number_is_rejected():
    with pytest.raises(AssertionError, match="MEMORY must be a whole number of MiB, 0 for no pool, got 'much'"):
        finish(start(report, NUMBA_POOL_MEMORY="much"))


def test_the_default_limit_leaves_most_of_the_memory():
    limit = _memory.default_limit()
    assert 0 < limit <= 1024


def die_at_exit():
    global result
    result = empty((LEAST,), np.uint8)
    other = empty((LEAST,), np.uint8)
    cycle = [other]
    cycle.append(cycle)


def test_results_alive_at_exit_do_no_harm():
    assert finish(start(die_at_exit)) == ("", "")
