"""Workers are the compiled functions of kernels. Python calls them for one thread, for several, or without a look at
types.
"""

import sys

import numpy as np
import pytest

from numba_pool.kernels import _cache, _compile, _driver
from numba_pool.kernels._compile import unchecked, worker
from numba_pool.kernels._driver import WALL


def sum_up(lo, hi, a, n):
    total = 0
    for i in range(lo, hi):
        total += a[i] + n
    return int(total)


@pytest.fixture
def uncached(monkeypatch):
    """Functions of tests do not belong in the cache."""
    monkeypatch.setattr(_cache, "CACHE_ON", False)


def test_machine_code_is_called_once_it_is_there(uncached):
    summing = worker(sum_up)
    a, b = np.arange(7, dtype=np.float32), np.arange(7, dtype=np.int32)
    assert unchecked(summing, (a, 1)) is summing
    assert summing(0, 7, (a, 1)) == 28
    assert unchecked(summing, (b, 1)) is summing
    code = unchecked(summing, (a, 1))
    assert code is not summing
    assert code(1, 7, (a, 1)) == 27
    assert code.parallel(2, 1, WALL, 7, (a, 1))[0] == 28
    assert unchecked(max, (a, 1)) is max
    with pytest.raises(TypeError):
        code(0, 7, a, 1)


@pytest.mark.parametrize("slowly", [False, True])
def test_ranges_in_parallel_are_those_of_the_machine_code_for_their_types(slowly, uncached, monkeypatch):
    if slowly:  # where Numba has no fingerprints
        monkeypatch.setattr(_compile, "fingerprint", None)
    summing = worker(sum_up)
    single, whole, fixed = np.arange(9, dtype=np.float32), np.arange(9), np.arange(9)
    fixed.flags.writeable = False
    for a, n in ((single, 1), (whole, 1), (fixed, 1), (single, 0.5), (whole, True), (single, 1)):
        for threads, parts in (1, 1), (2, 1), (5, 1), (9, 1), (1, 3), (2, 4), (3, 2):
            pieces = threads * parts
            ranges = [(i * 9 // pieces, (i + 1) * 9 // pieces) for i in range(pieces)]
            result, _ = summing.parallel(threads, parts, WALL, 9, (a, n))
            assert result == sum(int(sum(a[lo:hi] + n)) for lo, hi in ranges)
    assert len(summing.overloads) == 5
    direct = unchecked(summing, (single, 1))
    assert direct.parallel(2, 1, WALL, 9, (single, 1))[0] == 45


def weigh(lo, hi, pair, table, nothing, share):
    """All kinds of arguments that there are: a table of two axes, and a tuple in a tuple."""
    weight, (rows, shift) = pair
    total = 0 if nothing is None else 1 << 20
    for i in range(lo, hi):
        total += int(table[i, rows[i]] * weight * share) + shift
    return total


def test_arguments_of_all_kinds(uncached):
    weighing = worker(weigh)
    table, rows = np.arange(12, dtype=np.int16).reshape(4, 3), np.array([2, 0, 1, 2])
    picked = table[np.arange(4), rows].astype(int)
    references = sys.getrefcount(rows), sys.getrefcount(table)
    for weight, shift, share in ((2, 7, 0.5), (4.0, np.int32(9), np.float32(0.5)), (2, 7, True),
                                 (np.uint64(3), 1, np.int8(2))):
        args = (weight, (rows, shift)), table, None, share
        expected = sum(int(n * int(weight) * float(share)) + int(shift) for n in picked)
        assert weighing(0, 4, args) == expected
        assert weighing.parallel(2, 2, WALL, 4, args)[0] == expected
    del args
    with pytest.raises(TypeError, match=r"takes arrays of up to 2 axes, .* got array\(int64, 3d, C\)"):
        worker(lambda lo, hi, a: hi - lo)(0, 4, (np.ones((4, 3, 1), int),))
    assert (sys.getrefcount(rows), sys.getrefcount(table)) == references


def test_what_shares_work_among_threads_is_compiled_once(uncached):
    for function, args in ((sum_up, (np.arange(4.0), 1)), (sum_up, (np.arange(4), 2)), (ask, (-1, 0))):
        worker(function).parallel(2, 1, WALL, 4, args)
    assert [len(part.overloads) for part in (_driver.enter, _driver.driver, _driver.take_part)] == [1, 1, 1]


def test_a_worker_raises_what_its_function_raises(uncached):
    def refuse(lo, hi, least):
        if lo < least:
            raise ValueError("too little")
        return hi - lo

    refusing = worker(refuse)
    assert refusing(3, 5, (3,)) == 2
    with pytest.raises(ValueError, match="too little"):
        refusing(2, 5, (3,))


def ask(lo, hi, greedy, n):
    """Memory for a number a unit, and for n where the range holds the greedy one."""
    return np.empty(n if lo <= greedy < hi else hi - lo, np.int8).size


@pytest.mark.parametrize("chunks", [1, 2, 5])
def test_memory_that_runs_out_in_any_range(chunks, uncached):
    asking = worker(ask)
    assert asking.parallel(chunks, 1, WALL, 10, (-1, 0))[0] == 10
    for greedy in range(10):
        with pytest.raises(MemoryError):
            asking.parallel(chunks, 2, WALL, 10, (greedy, 1 << 56))


def test_a_worker_returns_an_int(uncached):
    with pytest.raises(TypeError, match="must return an int, got float64"):
        worker(lambda lo, hi, n: n * 0.5).parallel(2, 1, WALL, 10, (1,))
