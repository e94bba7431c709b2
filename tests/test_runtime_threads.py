"""Python threads, thread counts and Numba's threading layers: the same bits, and no abort."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numba
import numpy as np
import pytest
import selection
from process import LAYERS, need, run
from work import Work

import numba_pool as nb
from numba_pool import _runtime


@pytest.fixture
def work(monkeypatch):
    monkeypatch.setattr(_runtime, "SERIAL_BYTES", _runtime.SERIAL_BYTES)  # which `Work` lowers
    monkeypatch.setattr(_runtime.Patience, "LONGEST", _runtime.Patience.LONGEST)
    return Work()


def in_threads(n, function):
    """Run `function(i)` in n Python threads that start together."""
    barrier = threading.Barrier(n)

    def started(i):
        barrier.wait()
        return function(i)

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(started, range(n)))


def many_threads(rounds):
    work = Work()
    made = in_threads(8, lambda i: work.check(rounds))
    print(min(made), numba.threading_layer())


def whole_images():
    """Average whole images, channels last, whose sums a kernel keeps in memory of its own."""
    x = np.moveaxis(np.random.default_rng(0).standard_normal((4, 28, 28, 64), dtype=np.float32), -1, 1)
    expected = nb.avg_pool2d(x, 28)

    def often(_):
        nb.set_num_threads(1)
        return sum(not np.array_equal(nb.avg_pool2d(x, 28), expected) for _ in range(1500))

    print(in_threads(2, often))


def test_memory_of_a_kernel_is_its_own_until_its_end():
    """Where all threads allocate from one place what one has given back is the next one's."""
    assert run(whole_images, MALLOC_ARENA_MAX="1") == "[0, 0]\n"


def two_counts():
    work = Work()

    def one(i):
        nb.set_num_threads(i + 1)
        for _ in range(20):
            assert nb.get_num_threads() == i + 1
            work.check()
        return nb.get_num_threads()

    print(in_threads(2, one), numba.get_num_threads())


def count_drivers(calls):
    """What two Python threads run that both want to enter the threading layer, and how many were in it at most."""
    inside, most = [0], [0]
    lock = threading.Lock()
    original = _runtime.launch

    def worker(lo, hi, args):
        return "worker"

    def driver(threads, parts, clock, units, args):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        threading.Event().wait(0.02)
        with lock:
            inside[0] -= 1
        return "driver", 0

    worker.parallel = driver
    results = in_threads(2, lambda i: [original(worker, 8, 1 << 40) for _ in range(calls)])
    print(numba.threading_layer(), most[0], sorted({name for names in results for name in names}))


def object_mode():
    work = Work()

    @numba.njit
    def serial():
        with numba.objmode(made="int64"):
            made = work.check()
        return made

    @numba.njit(parallel=True)
    def parallel(n):
        total = 0
        for _ in numba.prange(n):
            with numba.objmode(made="int64"):
                made = work.check()
            total += made
        return total

    each = work.check()
    assert serial() == each
    assert parallel(6) == 6 * each
    print("right")


@pytest.mark.parametrize("variables", [
    {"NUMBA_NUM_THREADS": "1"},
    {"NUMBA_NUM_THREADS": "13"},
    {"NUMBA_POOL_SERIAL": "1"},
], ids=str)
@pytest.mark.parametrize("layer", LAYERS)
def test_thread_counts_of_the_environment(layer, variables):
    need(layer)
    assert run(work_and_count, layer=layer, **variables).split() == [
        "1" if "NUMBA_POOL_SERIAL" in variables else variables["NUMBA_NUM_THREADS"]
    ]


def work_and_count():
    Work().check(3)
    print(nb.get_num_threads())


def test_a_layer_that_is_not_there_raises():
    message = r"exit status 1(.|\n)*ValueError: The threading layer requested 'none' is unknown"
    with pytest.raises(AssertionError, match=message):
        run(work_and_count, layer="none")


@pytest.fixture
def two_threads():
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("Numba has one thread")
    with nb.threads(2):
        yield


def chosen(units, traffic):
    def worker(lo, hi, args):
        return "worker", lo, hi

    worker.parallel = lambda *args: (("driver",), 0)
    return _runtime.launch(worker, units, traffic)


def test_small_work_is_serial(two_threads):
    limit = _runtime.SERIAL_BYTES * (_runtime.WORKQUEUE_COST if numba.threading_layer() == "workqueue" else 1)
    assert chosen(8, limit - 1) == ("worker", 0, 8)
    assert chosen(8, limit)[0] == "driver"
    assert chosen(1, 1 << 40) == ("worker", 0, 1)
    assert chosen(0, 1 << 40) == 0


def test_one_thread_is_serial(two_threads):
    with nb.threads(1):
        assert chosen(8, 1 << 40) == ("worker", 0, 8)
    assert chosen(8, 1 << 40)[0] == "driver"
    numba.set_num_threads(1)
    assert chosen(8, 1 << 40) == ("worker", 0, 8)


def test_threads_restores_the_count_after_an_error(two_threads):
    with contextlib.suppress(KeyError), nb.threads(1):
        assert nb.get_num_threads() == 1
        raise KeyError
    assert nb.get_num_threads() == 2


def test_more_threads_than_there_are_means_all(two_threads, work):
    nb.set_num_threads(10**30)
    assert nb.get_num_threads() == numba.config.NUMBA_NUM_THREADS
    work.check()


@pytest.mark.parametrize("n", [0, -1, -(10**30)])
def test_thread_counts_below_one_are_rejected(n):
    with pytest.raises(ValueError, match=f"n must be at least 1, got {n}"):
        nb.set_num_threads(n)


@pytest.mark.parametrize("n", [1.0, "2", None, True, [2], float("nan")])
def test_thread_counts_that_are_no_ints_are_rejected(n):
    with pytest.raises(TypeError, match="n must be an int, got"):
        nb.set_num_threads(n)
    with pytest.raises(TypeError, match="n must be an int, got"), nb.threads(n):
        pass


def test_from_a_thread_pool_executor(work):
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(work.check, [3] * 8))
    assert made == [made[0]] * 8


def pool_by_joblib(backend):
    import joblib

    work = Work()
    made = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(work.check)(2) for _ in range(8))
    assert made == [made[0]] * 8
    print(len(made))


def pool_by_dask():
    import dask

    work = Work()
    made = dask.compute(*(dask.delayed(work.check)(2) for _ in range(8)), scheduler="threads", num_workers=4)
    assert made == (made[0],) * 8
    print(len(made))


@pytest.mark.parametrize("layer", LAYERS if selection.exhaustive else ["omp"])
def test_from_processes_of_joblib(layer):
    pytest.importorskip("joblib")
    need(layer)
    assert run(pool_by_joblib, "loky", layer=layer).strip() == "8"


def in_turn(*calls):
    """Run functions of this module, by name, with these arguments; the last name printed tells of one that died."""
    for name, *args in calls:
        print(name, end=": ", flush=True)
        globals()[name](*args)


@pytest.mark.parametrize("layer", LAYERS)
def test_threads_of_many_kinds(layer):
    """In one process, one after the other."""
    need(layer)
    calls = [("count_drivers", 5), ("many_threads", 23), ("two_counts",), ("object_mode",)]
    calls += [("pool_by_joblib", "threading")] if find_spec("joblib") else []
    calls += [("pool_by_dask",)] if find_spec("dask") else []
    printed = dict(line.split(": ") for line in run(in_turn, *calls, layer=layer).splitlines())
    assert list(printed) == [name for name, *_ in calls]
    # only a layer that takes one thread is entered by one at a time
    entered = {"workqueue": "workqueue 1 ['driver', 'worker']"}.get(layer, f"{layer} 2 ['driver']")
    assert printed["count_drivers"] == entered
    made, used = printed["many_threads"].split()  # by each of eight
    assert int(made) >= 1000
    assert used == layer
    assert printed["two_counts"] == "[1, 2] 2"
    assert printed["object_mode"] == "right"  # also within prange
    assert printed.get("pool_by_joblib", "8") == "8"
    assert printed.get("pool_by_dask", "8") == "8"
