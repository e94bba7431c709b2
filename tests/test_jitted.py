"""Plans that compiled code runs: results and gradients are the functions', bit for bit."""

import gc
import inspect
import json
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import process
import pytest
from jitted_checks import AVERAGE, MAXIMUM, arrays_for, backward, data, forward
from numba import njit, prange, typed
from numba.core.runtime import _nrt_python, rtsys

import numba_pool as nb
from numba_pool import jitted
from numba_pool._dispatch import again, calls, plans
from numba_pool.kernels import spread
from numba_pool.kernels._compile import worker
from numba_pool.kernels._job import Call


def python_forward(*args):
    nb.run(*args)


def python_backward(*args):
    nb.run_backward(*args)


CASES = [
    (nb.max_pool2d, (2, 3, 9, 9), "f4", (3, 2, 1), {"return_indices": True}),
    (nb.max_pool2d, (2, 3, 9, 9), "f4", (2,), {}),
    (nb.max_pool2d, (2, 9, 9, 8), "f8", (3, 2, 1), {"return_indices": True, "channel_axis": -1}),
    (nb.max_pool2d, (2, 16, 32, 8), "i1", (2,), {"channel_axis": -1}),
    (nb.avg_pool2d, (2, 3, 9, 9), "f4", (3, 2, 1), {"count_include_pad": False}),
    (nb.avg_pool1d, (2, 3, 9), "i4", (2,), {}),
    (nb.adaptive_avg_pool2d, (3, 9, 9), "f4", (4,), {}),
    (nb.adaptive_max_pool2d, (2, 3, 9, 9), "f4", (4, True), {}),
    (nb.global_max_pool, (2, 3, 9, 9), "f4", (True,), {}),
    (nb.global_avg_pool, (2, 3, 9, 9), "f4", (), {}),
    (nb.max_pool2d, (0, 3, 9, 9), "f4", (2,), {"return_indices": True}),
    (nb.min_pool2d, (2, 3, 9, 9), "f4", (3, 2, 1), {"return_indices": True}),
    (nb.sum_pool2d, (2, 3, 9, 9), "f4", (3, 2, 1), {}),
    (nb.global_min_pool, (2, 3, 9, 9), "f4", (True,), {}),
    (nb.global_sum_pool, (2, 3, 9, 9), "f4", (), {}),
]


@pytest.mark.parametrize("by", [(forward, backward), (python_forward, python_backward)], ids=["compiled", "python"])
@pytest.mark.parametrize(("function", "shape", "dtype", "args", "kwargs"), CASES)
def test_results_are_the_functions(function, shape, dtype, args, kwargs, by):
    plan = nb.plan(function, shape, dtype, *args, **kwargs)
    kwargs = {key: value for key, value in kwargs.items() if key != "channel_axis"}
    last = plan.again.keywords["channel_axis"] == -1

    def first(a):
        """As the functions take it: channels first, whatever the memory."""
        return np.moveaxis(a, -1, 1) if last else a

    x, y, indices, grad_y, grad_x = arrays_for(plan)
    forward, backward = by
    expected = function(first(x), *args, **kwargs)
    if not plan.indexed:
        forward(plan, x, y)
        np.testing.assert_array_equal(first(y), expected)
        if ("avg" in function.__name__ or "sum" in function.__name__) and x.dtype.kind == "f":
            backward(plan, grad_y, grad_x)
            gradient = getattr(nb, f"{function.__name__}_backward")
            args = () if "adaptive" in function.__name__ else args
            np.testing.assert_array_equal(first(grad_x), gradient(first(grad_y), first(x).shape, *args, **kwargs))
        return
    forward(plan, x, y, indices)
    np.testing.assert_array_equal(first(y), expected[0])
    np.testing.assert_array_equal(first(indices), expected[1])
    backward(plan, grad_y, indices, grad_x)
    gradient = getattr(nb, f"{function.__name__}_backward")
    np.testing.assert_array_equal(first(grad_x), gradient(first(grad_y), expected[1], first(x).shape))


@pytest.mark.parametrize(("function", "shape", "args"), [
    (nb.max_pool2d, (2, 2, 62, 272), (2,)),
    (nb.max_pool2d, (64, 16, 8, 10), (2,)),
])
def test_indices_of_other_windows(function, shape, args, registers):
    """The gradient's first kernel may take windows for what they are not; then another does it."""
    registers(True, spread)  # for which there is such a kernel
    plan = nb.plan(function, shape, "f4", *args, return_indices=True)
    assert plan.words[jitted.BACKWARD]
    x, y, indices, grad_y, grad_x = arrays_for(plan)
    size = shape[2] * shape[3]

    def check():
        expected = np.zeros((shape[0] * shape[1], size), np.float32)
        for plane, index, grad in zip(expected, indices.reshape(len(expected), -1), grad_y.reshape(len(expected), -1)):
            np.add.at(plane, index[index >= 0], grad[index >= 0])
        backward(plan, grad_y, indices, grad_x)
        np.testing.assert_array_equal(grad_x, expected.reshape(shape))

    forward(plan, x, y, indices)
    check()
    indices[...] = np.random.default_rng(2).integers(-1, size, indices.shape)
    check()
    indices.flat[-1] = size
    with pytest.raises(ValueError, match="indices must lie within"):
        backward(plan, grad_y, indices, grad_x)


@njit(parallel=True)
def pool_in_parallel(plan, x, y, indices, grad_y, grad_x):
    for k in prange(x.shape[0]):
        nb.run(plan, x[k], y[k], indices[k])
        nb.run_backward(plan, grad_y[k], indices[k], grad_x[k])


def test_prange():
    plan = nb.plan(nb.max_pool2d, (3, 9, 9), "f4", 3, 2, 1, return_indices=True)
    x, y, indices, grad_y, grad_x = (np.stack([a] * 50) for a in arrays_for(plan))
    x[...], grad_y[...] = data(x.shape, seed=2), data(grad_y.shape, seed=3)
    pool_in_parallel(plan, x, y, indices, grad_y, grad_x)
    expected = nb.max_pool2d(x, 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(y, expected[0])
    np.testing.assert_array_equal(indices, expected[1])
    np.testing.assert_array_equal(grad_x, nb.max_pool2d_backward(grad_y, indices, x.shape))


@njit(parallel=True)
def pool_each_in_parallel(plans, x, out):
    for k in prange(len(plans)):
        nb.run(plans[k], x, out[k])


def test_prange_over_plans():
    """They have one type, whatever their kernels: a tuple of them can be indexed."""
    x = data((3, 9, 9))
    plans = (nb.plan(nb.avg_pool2d, x.shape, "f4", 3, 2, 1), nb.plan(nb.max_pool2d, x.shape, "f4", 3, 2, 1),
             nb.plan(nb.adaptive_avg_pool2d, x.shape, "f4", 5))
    out = np.zeros((3, *plans[0].output_shape), np.float32)
    pool_each_in_parallel(plans, x, out)
    for y, expected in zip(out, (nb.avg_pool2d(x, 3, 2, 1), nb.max_pool2d(x, 3, 2, 1), nb.adaptive_avg_pool2d(x, 5))):
        np.testing.assert_array_equal(y, expected)


USER_CODE = """
import sys
import numpy as np
from numba import njit
import numba_pool as nb
from numba_pool import jitted

@njit(cache=True)
def step(plan, x, y):
    nb.run(plan, x, y)

if __name__ == "__main__":
    size, version = map(int, sys.argv[1:])
    jitted.VERSION += version
    plan = nb.plan(nb.max_pool2d, (1, 3, size, size), np.float32, 2)
    x, y = np.random.default_rng(0).random(plan.shape, np.float32), np.empty(plan.output_shape, np.float32)
    step(plan, x, y)
    assert (y == nb.max_pool2d(x, 2)).all()
    print(sum(step.stats.cache_hits.values()), sum(step.stats.cache_misses.values()))
"""


def test_functions_on_disk_serve_other_plans_but_no_other_version(tmp_path):
    """Addresses are not compiled in: another process has others."""
    file = tmp_path / "user_code.py"
    file.write_text(USER_CODE)

    def hits_and_misses(size, version):
        command = [sys.executable, str(file), str(size), str(version)]
        return subprocess.run(command, env=process.environment(), capture_output=True, text=True, check=True).stdout

    assert hits_and_misses(6, 0).split() == ["0", "1"]
    assert hits_and_misses(9, 0).split() == ["1", "0"]
    assert hits_and_misses(9, 1).split() == ["0", "1"]  # after an upgrade


def test_what_other_plans_can_do():
    """Unpooling and norms of order 2, which have no plans, as docs/njit.md says."""
    plan = nb.plan(*MAXIMUM[:3], 3, 3, return_indices=True)
    x, values, indices, _, unpooled = arrays_for(plan)
    forward(plan, x, values, indices)
    backward(plan, values, indices, unpooled)
    np.testing.assert_array_equal(unpooled, nb.max_unpool2d(values, indices, 3))
    forward(nb.plan(nb.sum_pool2d, *MAXIMUM[1:3], 3, 3), x * x, values)
    np.testing.assert_allclose(np.sqrt(values), nb.lp_pool2d(x, 2, 3), rtol=1e-6)


@njit
def often(plan, x, y, indices, grad_y, grad_x, n):
    for _ in range(n):
        nb.run(plan, x, y, indices)
        nb.run_backward(plan, grad_y, indices, grad_x)


def allocations(*args):
    """How many blocks of memory such calls allocate; all are freed again."""
    before = rtsys.get_allocation_stats()
    often(*args)
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free
    return after.alloc - before.alloc


def test_a_run_allocates_nothing():
    """But what kernels do, which have nothing to do for an empty batch."""
    empty, full = (nb.plan(nb.max_pool2d, (n, 3, 9, 9), "f4", 3, 2, 1, return_indices=True) for n in (0, 2))
    often(empty, *arrays_for(empty), 1)
    enabled = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    try:
        once, more = (allocations(empty, *arrays_for(empty), n) for n in (1, 100))
        assert allocations(full, *arrays_for(full), 100) >= more
    finally:
        if not enabled:
            _nrt_python.memsys_disable_stats()
    assert once == more


def test_a_run_plans_nothing(monkeypatch):
    plan = nb.plan(*MAXIMUM, return_indices=True)
    x, y, indices, grad_y, grad_x = arrays_for(plan)
    nb.run(plan, x, y, indices)
    nb.run_backward(plan, grad_y, indices, grad_x)
    expected, y[...], grad_x[...] = (y.copy(), grad_x.copy()), 7, 7
    for module in (calls, plans, again):
        for name, value in vars(module).copy().items():
            if inspect.isfunction(value):
                monkeypatch.setattr(module, name, None)
    with pytest.raises(TypeError, match="not callable"):
        nb.max_pool2d(x.astype("f8"), 2)
    nb.run(plan, x, y, indices)
    nb.run_backward(plan, grad_y, indices, grad_x)
    np.testing.assert_array_equal(y, expected[0])
    np.testing.assert_array_equal(grad_x, expected[1])


@worker
def out_of_memory(lo, hi, x, y, index):
    y[0] = np.empty(x.size + (1 << 60), np.float32)[0]
    return 0


@worker
def out_of_memory_in_scatter(lo, hi, x, index, y, parts):
    y[0] = np.empty(x.size + (1 << 60), np.float32)[0]
    return 0


def test_kernels_without_memory():
    plan, maximum = nb.plan(*MAXIMUM), nb.plan(*MAXIMUM, return_indices=True)
    x, y, indices, grad_y, grad_x = arrays_for(plan)

    def call(worker, *rest):
        return Call(worker, 1, 0, rest, y.shape)

    kept = jitted.laid(call(out_of_memory, None), x, y), jitted.laid(
        call(out_of_memory_in_scatter, 1), grad_y, indices, grad_x)
    for words, at, step in ((plan.words, jitted.FORWARD, kept[0]), (maximum.words, jitted.CERTAIN, kept[1])):
        words[at : at + 2] = step[0], step[1].ctypes.data
    maximum.words[jitted.BACKWARD] = 0
    with pytest.raises(MemoryError):
        forward(plan, x, y)
    with pytest.raises(MemoryError):
        backward(maximum, grad_y, indices, grad_x)


@njit
def run_all(plans, x, y):
    for plan in plans:
        nb.run(plan, x, y)


def test_plans_outlive_their_names():
    """Compiled code that keeps a plan keeps all that it points to."""
    x = data((2, 3, 9, 9))
    plans = typed.List.empty_list(nb.plan(*AVERAGE)._numba_type_)
    for _ in range(20):
        plans.append(nb.plan(*AVERAGE))
    gc.collect()
    rubbish = [np.full(n, -1, np.int64) for n in range(1, 200) for _ in range(20)]
    y = np.zeros((2, 3, 5, 5), np.float32)
    run_all(plans, x, y)
    np.testing.assert_array_equal(y, nb.avg_pool2d(x, 3, 2, 1))
    assert rubbish


def test_plans_are_freed():
    plan = nb.plan(*AVERAGE)
    x, y, *_ = arrays_for(plan)
    forward(plan, x, y)
    references = sys.getrefcount(plan), sys.getrefcount(plan.words)
    for _ in range(10):
        forward(plan, x, y)
    assert references == (sys.getrefcount(plan), sys.getrefcount(plan.words))


def test_pickle_and_repr():
    plan = pickle.loads(pickle.dumps(nb.plan(nb.avg_pool2d, (2, 9, 9, 3), "f4", 3, padding=1, channel_axis=-1)))
    assert repr(plan) == "<plan of avg_pool2d from (2, 9, 9, 3) to (2, 3, 3, 3), float32>"
    x, y, *_ = arrays_for(plan)
    forward(plan, x, y)
    np.testing.assert_array_equal(np.moveaxis(y, -1, 1), nb.avg_pool2d(np.moveaxis(x, -1, 1), 3, padding=1))


def test_import_is_lazy():
    code = """
    import json, sys
    import numba_pool
    before = "numba_pool.jitted" in sys.modules
    numba_pool.plan
    print(json.dumps([before, "numba_pool.jitted" in sys.modules, hasattr(numba_pool, "no_such_name")]))
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=process.environment(), capture_output=True,
                         text=True, check=True).stdout
    assert json.loads(out) == [False, True, False]
