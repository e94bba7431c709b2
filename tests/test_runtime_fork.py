"""Children by fork, spawn and forkserver: they pool as their parents do."""

import ctypes
import multiprocessing
import os
import threading
import time
import warnings

import numba
import numpy as np
import pytest
from process import LAYERS, need, run
from work import Work

import numba_pool as nb
from numba_pool import _memory

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
LIMIT = 60  # seconds after which a child counts as hanging


def in_child(function, fork=os.fork):
    """Run `function` in a forked child, and fail unless it ends well and soon."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: fork in a process with threads
        child = fork()
    if child == 0:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    for _ in range(LIMIT * 20):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        raise AssertionError("the child hangs")
    assert status == 0, f"the child ended with wait status {status}"


def fork_after_pooling():
    work = Work()
    work.check()

    def child():
        work.check(3)
        assert nb.get_num_threads() == 1
        nb.set_num_threads(2)
        with nb.threads(2):
            work.check()
        in_child(work.check)  # a grandchild

    for _ in range(4):
        in_child(child)
        work.check()
        assert nb.get_num_threads() == 2
    print(numba.threading_layer())


def fork_on_one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    fork_after_pooling()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
@pytest.mark.parametrize("layer", LAYERS)
def test_on_one_core(layer):
    """Where TBB's workers have not run before a fork, what Numba gave them to do is lost, and its exit waits for it."""
    need(layer)
    assert run(fork_on_one_core, layer=layer).strip() == layer


def fork_before_pooling():
    work = Work.__new__(Work)

    def child():
        work.__init__()
        work.check()
        assert nb.get_num_threads() == 2  # the parent has started no threads
        assert numba.threading_layer()

    in_child(child)
    child()
    print("right")


def fork_unnoticed():
    work = Work()
    work.check()
    in_child(work.check, ctypes.PyDLL(None).fork)  # as a C library forks: Python's hooks do not run
    print("right")


def fork_while_pooling():
    work = Work()
    stop = threading.Event()

    def pool():
        while not stop.is_set():
            work.check()

    threads = [threading.Thread(target=pool) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(15):
            in_child(work.check)
    finally:
        stop.set()
    for thread in threads:
        thread.join()
    print("right")


def fork_in_every_way():
    """In one process, the way first that has to come before it pools; the last one begun tells of one that failed."""
    for way in fork_before_pooling, fork_after_pooling, fork_unnoticed, fork_while_pooling:
        print(way.__name__, end=": ", flush=True)
        way()


@pytest.mark.parametrize("layer", LAYERS)
def test_children_of_parents_that_pool_in_every_way(layer):
    need(layer)
    lines = run(fork_in_every_way, layer=layer).splitlines()
    assert lines[:3] == ["fork_before_pooling: right", f"fork_after_pooling: {layer}", "fork_unnoticed: right"]
    assert lines[3].startswith("fork_while_pooling: ")
    assert "right" in "".join(lines[3:])  # TBB says that it could not join its threads


def fork_while_compiling():
    stop = threading.Event()

    def compile_forever():
        while not stop.is_set():
            numba.njit(lambda x: sum([x + i for i in range(4)]))(1)

    thread = threading.Thread(target=compile_forever)
    thread.start()
    time.sleep(0.5)
    try:
        for _ in range(5):
            in_child(lambda: nb.max_pool1d(np.ones((1, 1, 4)), 2))  # not compiled or loaded yet
    finally:
        stop.set()
        thread.join()
    print("right")


def test_children_forked_while_another_thread_compiles():
    assert run(fork_while_compiling).strip() == "right"


def check_in_child(_):
    return Work().check(2), numba.threading_layer() if nb.get_num_threads() > 1 else "serial"


def by_multiprocessing(method):
    Work().check()
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        made = pool.map(check_in_child, range(4))
    Work().check()
    print(sorted({layer for _, layer in made}))


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_of_processes(method, layer):
    need(layer)
    assert run(by_multiprocessing, method, layer=layer).strip() == str(["serial" if method == "fork" else layer])


def run_other_parallel_code():
    """As another package may, which so starts Numba's threads."""
    @numba.njit(parallel=True)
    def other(n):
        total = 0
        for i in numba.prange(n):
            total += i
        return total

    assert other(10) == 45


def ends_well(process):
    """Start a process of multiprocessing, and fail unless it ends well and soon."""
    process.start()
    process.join(LIMIT)
    assert process.exitcode == 0


def import_late():
    run_other_parallel_code()
    in_child(import_and_check)
    multiprocessing.set_start_method("fork", force=True)
    for process in multiprocessing.get_context("fork").Process, multiprocessing.Process:
        for target in import_and_check, change_and_import:
            ends_well(process(target=target))
    print("right")


def change_and_import():
    """With another thread, and another way to start children of its own."""
    threading.Thread(target=time.sleep, args=(LIMIT,), daemon=True).start()
    multiprocessing.set_start_method("spawn", force=True)
    import_and_check()


def import_and_check():
    """The number of threads that pooling uses, imported only now, and then right."""
    import sys

    for name in [name for name in sys.modules if name == "work" or name.startswith("numba_pool")]:
        del sys.modules[name]
    from work import Work as Late

    import numba_pool

    Late().check()
    return numba_pool.get_num_threads()


@pytest.mark.parametrize("layer", LAYERS)
def test_a_child_that_imports_after_its_parent_ran_other_parallel_code(layer):
    need(layer)
    assert run(import_late, layer=layer).strip() == "right"


def start_and_import():
    run_other_parallel_code()
    assert import_and_check() == 2


def children_that_start_threads():
    multiprocessing.set_start_method("spawn")
    for process in multiprocessing.get_context("spawn").Process, multiprocessing.Process:
        ends_well(process(target=start_and_import))
    print("right")


def test_a_spawned_child_that_imports_after_it_ran_other_parallel_code_itself():
    """Its threads are its own: it pools in parallel."""
    need("omp")
    assert run(children_that_start_threads, layer="omp").strip() == "right"


def fork_with_blocks():
    size = 2 * _memory.LEAST
    kept, dropped = _memory.empty((size,), "u1"), _memory.empty((size,), "u1")
    kept[:], dropped[:] = 1, 2
    del dropped
    assert _memory._pool.held()
    mine = [kept]

    def child():
        fresh = [_memory.empty((size,), "u1") for _ in range(3)]
        for a in fresh:
            a[:] = 3
        assert (mine[0] == 1).all()
        mine[0][:] = 9  # as any array: a child's changes are its own
        mine.pop()  # the parent's result dies here, too
        again = _memory.empty((size,), "u1")
        again[:] = 4
        assert all((a == 3).all() for a in fresh)

    del kept
    for _ in range(3):
        in_child(child)
        assert (mine[0] == 1).all()
    assert (_memory.empty((size,), "u1") == 2).all()  # the idle block: nothing that the child wrote is in it
    print("right")


def test_blocks_of_large_results_are_not_shared_with_a_child():
    assert run(fork_with_blocks).strip() == "right"
