"""What is kept between calls, with several threads at it: no call fails, and what is counted is what is kept."""

import random
import threading
import time

import numpy as np
import pytest
from checks import forget

import numba_pool as nb
from numba_pool import _memory
from numba_pool._dispatch import memo
from numba_pool._memory import LEAST, Pool

THREADS, ROUNDS = 6, 30


OURS = ("_dispatch", "_memory", "_runtime")  # what keeps things between calls


@pytest.fixture(autouse=True)
def _forgotten():
    yield
    forget()


def disturbed(frame, event, _):
    """What `threading.settrace` takes: other threads may run between any two steps of the code that is tested."""
    if not any(part in frame.f_code.co_filename for part in OURS):
        return None
    frame.f_trace_opcodes = True
    if random.random() < 0.02:
        time.sleep(0)
    return disturbed


def together(work):
    """Call `work(number)` in so many threads that begin at once; the errors of all."""
    begin, errors = threading.Barrier(THREADS), []

    def run(number):
        begin.wait()
        try:
            work(number)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    before = threading.gettrace()
    threading.settrace(disturbed)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        threading.settrace(before)
    return errors


def tables(values):
    """The arrays in a tuple, and in tuples in it, by identity."""
    found = {}
    for value in values:
        if isinstance(value, np.ndarray):
            found[id(value)] = value
        elif isinstance(value, tuple):
            found |= tables(value)
    return found


def kept_by_memory():
    """Tables of all that is kept, by identity."""
    return tables(call for place in (memo.memory.young, memo.memory.old) for call in place.values())


def test_windows_of_many_sizes(monkeypatch):
    """So many that some have to go all the time, as others come and are looked up."""
    monkeypatch.setattr(memo, "MOST_TABLES", 4 << 20)
    monkeypatch.setattr(memo, "MOST_CALLS", 64)
    forget()
    x = np.arange(4_000, dtype=np.float32).reshape(1, 1, -1)
    nb.adaptive_max_pool1d(x, 1_000), nb.max_pool1d(x, 2, 1, return_indices=True)  # compiled here

    def work(number):
        rng = np.random.default_rng(number)
        for size in rng.integers(1_000, 1_100, ROUNDS).tolist():
            y = nb.adaptive_max_pool1d(x, size)
            assert y[0, 0, -1] == 3_999
            y, indices = nb.max_pool1d(x[..., : 3 * size], 2, 1 + size % 7, return_indices=True)
            assert (y == indices).all()
            assert nb.max_pool1d_backward(y, indices, (1, 1, 3 * size)).shape == (1, 1, 3 * size)

    assert together(work) == []
    memory, kept = memo.memory, kept_by_memory()
    sizes = [table.nbytes for table in kept.values()]
    # Of threads that add at once each may be left out.
    assert memory.young.nbytes + memory.old.nbytes >= sum(sizes) - THREADS * max(sizes) > 0
    assert max(len(memory.young), len(memory.old)) <= memo.MOST_CALLS // 2 + THREADS
    # Each thread may have been a step ahead of the others.
    assert sum(sizes) <= memo.MOST_TABLES * (1 + THREADS / 4)


def test_every_function_at_once():
    """Small calls by the short way, which others make it forget."""
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8), dtype=np.float32)
    names = ("max_pool2d", "min_pool2d", "avg_pool2d", "sum_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d")
    expected = {name: getattr(nb, name)(x, 2) for name in names}

    def work(number):
        for turn in range(4 * ROUNDS):
            name = names[(turn + number) % len(names)]
            np.testing.assert_array_equal(getattr(nb, name)(x, 2), expected[name])
            if turn % 7 == number:
                memo.memory.clear()

    assert together(work) == []
    memo.memory.clear()
    assert not kept_by_memory()


def test_blocks_of_large_results():
    """What is idle stays below the limit, and no block is lost or given out twice."""
    pool = Pool(8 * LEAST)

    def work(number):
        mine = []
        for turn in range(10 * ROUNDS):
            block = pool.take(LEAST * (1 + (turn + number) % 3))
            assert block not in mine
            view = np.frombuffer(block.mapping, np.uint8)[block.behind :]
            view[:8] = number
            mine.append((block, view))
            if len(mine) == 4:
                for block, view in mine:
                    assert (view[:8] == number).all()
                    pool.give_back(block)
                mine = []

    assert together(work) == []
    idle = [block for blocks in pool.idle.values() for block in blocks]
    assert len(set(map(id, idle))) == len(idle)
    assert pool.held() == sum(block.size for block in idle) <= pool.limit


def test_the_pool_of_the_process():
    """Results that live at the same time have memory of their own, also while idle blocks are given back."""

    def work(number):
        for turn in range(ROUNDS):
            a = _memory.empty((LEAST // 4 * (1 + turn % 2),), np.float32)
            a[:] = number
            assert (a == number).all()
            if turn % 10 == number:
                nb.empty_pool()

    assert together(work) == []
    nb.empty_pool()
    assert _memory.idle() == 0
