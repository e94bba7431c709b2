"""Arguments that nobody should pass: random ones, corrupt indices, results that overlap inputs."""

import contextlib
import inspect
import sys
from pathlib import Path

import fences
import fuzz_inputs
import numpy as np
import pytest
import selection
from checks import assert_identical
from process import run

import numba_pool as nb
from numba_pool import _runtime
from numba_pool._dispatch import plans

LARGE = (2, 4, 301, 303)  # in parallel


def test_garbage_is_a_result_or_an_error():
    assert run(fuzz_inputs.fuzz, 400, 1) == "calls: 400\n"


def memory_order(a, last):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) if last else a


def routed(function, grad, indices, shape, **out):
    """The functions that believe indices, by name."""
    if function == "backward":
        return nb.max_pool2d_backward(grad, indices, shape, **out)
    if function == "unpool":
        return nb.max_unpool2d(grad, indices, 1, shape[2] // grad.shape[2], output_size=shape, **out)
    return nb.max_unpool2d_backward(np.ones(shape, grad.dtype), indices, **out)


FUNCTIONS = ("backward", "unpool", "gather")
BAD = (-2, "plane", "plane + 1", -(2**31), 2**31 - 1)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape", [(1, 2, 4, 5), LARGE])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_index_out_of_range(function, bad, shape, last):
    plane = shape[2] * shape[3]
    rng = np.random.default_rng(0)
    grad = memory_order(np.ones(shape, np.float32), last)
    for dtype in (np.int32, np.int64):
        indices = np.tile(rng.permutation(plane).astype(dtype), shape[0] * shape[1]).reshape(shape)
        indices.reshape(-1)[rng.integers(indices.size)] = value = {"plane": plane, "plane + 1": plane + 1}.get(bad, bad)
        message = rf"indices must lie in \[0, {plane}\) .*got 1 outside, among them {value}"
        with pytest.raises(ValueError, match=message):
            routed(function, grad, memory_order(indices, last), shape)


@pytest.mark.parametrize("bad", [2**32, 2**32 + 1, -(2**32), 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_wide_indices_are_not_cut_to_narrow_ones(function, bad):
    indices = np.zeros((1, 1, 2, 3), np.int64)
    indices[0, 0, 1, 1] = bad
    with pytest.raises(ValueError, match=r"indices must lie in \[0, 6\)"):
        routed(function, np.ones((1, 1, 2, 3), np.float32), indices, (1, 1, 2, 3))


@pytest.mark.skipif(sys.platform != "linux", reason="memory protection as on Linux")
def test_corrupt_indices_touch_nothing_outside():
    assert run(corrupt_between_fences, selection.exhaustive) == "right\n"


def corrupt_between_fences(every_dtype):
    import random

    dtypes = (np.float16, np.float32, np.float64) if every_dtype else (np.float16, np.float32)
    rng = np.random.default_rng(0)
    for n in range(200):
        shape = (rng.integers(1, 3), rng.integers(1, 20), rng.integers(1, 9), rng.integers(1, 40))
        limits = np.iinfo(rng.choice((np.int32, np.int64)))
        near = rng.random() < 0.5
        low, high = (-100, 500) if near else (limits.min, limits.max)
        indices = memory_order(rng.integers(low, high, shape, limits.dtype), n % 2)
        grad = memory_order(np.ones(shape, rng.choice(dtypes)), n % 2)
        for function in FUNCTIONS:
            with fences.Fences(random.Random(n)), contextlib.suppress(ValueError):
                routed(function, grad, indices, shape)
    print("right")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_indices_of_the_wrong_dtype_or_shape(function):
    grad = np.ones((1, 2, 4, 4), np.float32)
    for dtype in (np.int16, np.uint32, np.uint64, np.float32, np.bool_, object):
        with pytest.raises(ValueError, match="indices must be int32 or int64, got"):
            routed(function, grad, np.zeros(grad.shape, dtype), grad.shape)
    with pytest.raises((TypeError, ValueError), match=r"got NoneType$|indices must have batch .* got \(\)$"):
        routed(function, grad, None, grad.shape)
    for shape in [(2, 2, 4, 4), (1, 2, 4), (1, 2, 16), (1, 2, 4, 4, 1)]:
        with pytest.raises(ValueError, match="indices must have"):
            routed(function, grad, np.zeros(shape, np.int32), grad.shape)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_indices_in_another_memory_order_are_the_same_indices(function):
    rng = np.random.default_rng(0)
    grad = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    indices = np.tile(rng.permutation(20).astype(np.int32), 6).reshape(grad.shape)
    expected = routed(function, grad, indices, grad.shape)
    base = np.zeros((2, 3, 4, 10), np.int64)
    base[..., ::2] = indices
    for other in (memory_order(indices, True), np.asfortranarray(indices), base[..., ::2], indices.astype(">i4"),
                  indices.astype(np.int64)):
        assert_identical(routed(function, grad, other, grad.shape), expected)
        assert_identical(np.ascontiguousarray(routed(function, memory_order(grad, True), other, grad.shape)), expected)


def overlapping():
    """Calls with an input at the start of some memory, and `out` at an offset in it."""

    def x(memory, shape=(1, 2, 8, 8), dtype=np.float32):
        return np.ndarray(shape, dtype, memory[: np.prod(shape) * np.dtype(dtype).itemsize].data)

    def moved(memory, offset, shape, dtype=np.float32):
        return np.ndarray(shape, dtype, memory[offset : offset + np.prod(shape) * np.dtype(dtype).itemsize].data)

    half, whole = (1, 2, 4, 4), (1, 2, 8, 8)
    yield "max", lambda m, o: nb.max_pool2d(x(m), 2, out=moved(m, o, half))
    yield "max same", lambda m, o: nb.max_pool2d(x(m), 3, 1, 1, out=moved(m, o, whole))
    yield "avg", lambda m, o: nb.avg_pool2d(x(m), 3, 1, 1, out=moved(m, o, whole))
    yield "lp", lambda m, o: nb.lp_pool2d(x(m), 2, 3, 1, padding=1, out=moved(m, o, whole))
    yield "adaptive", lambda m, o: nb.adaptive_avg_pool2d(x(m), 8, out=moved(m, o, whole))
    yield "avg backward", lambda m, o: nb.avg_pool2d_backward(x(m, half), whole, 2, out=moved(m, o, whole))
    ones = np.arange(32, dtype=np.int32).reshape(half)
    yield "max backward", lambda m, o: nb.max_pool2d_backward(x(m, half), ones, whole, out=moved(m, o, whole))
    yield "unpool", lambda m, o: nb.max_unpool2d(x(m, half), ones, 2, out=moved(m, o, whole))
    yield "gather", lambda m, o: nb.max_unpool2d_backward(x(m), ones, out=moved(m, o, half))
    grad = np.ones(whole, np.float32)
    yield "indices", lambda m, o: nb.max_unpool2d(grad, np.abs(x(m, whole, np.int32)) % 64, 1, out=moved(m, o, whole))
    lp = nb.lp_pool2d_backward
    yield "lp backward", lambda m, o: lp(grad, x(m), grad, 2, 3, 1, padding=1, out=moved(m, o, whole))


OVERLAPPING = dict(overlapping())


@pytest.mark.parametrize("name", OVERLAPPING)
@pytest.mark.parametrize("offset", [0, 4, 128, 252])
def test_out_that_overlaps_an_input_is_exact(name, offset):
    call = OVERLAPPING[name]
    start = np.random.default_rng(0).standard_normal(512).astype(np.float32).view(np.uint8)
    apart = np.concatenate([start, start])
    expected = call(apart, len(start)).copy()
    together = start.copy()
    assert_identical(call(together, offset).copy(), expected)


def test_out_that_overlaps_itself_or_the_other_is_rejected():
    x = np.ones((1, 2, 4, 4), np.float32)
    same = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (1, 2, 2, 2), (0, 4, 4, 4))
    with pytest.raises(ValueError, match="out must not overlap itself, got strides"):
        nb.max_pool2d(x, 2, out=same)
    memory = np.zeros(8, np.float32)
    pair = memory.reshape(1, 2, 2, 2), memory.view(np.int32).reshape(1, 2, 2, 2)
    with pytest.raises(ValueError, match="overlap"):
        nb.max_pool2d(x, 2, return_indices=True, out=pair)
    assert not memory.any()


X, G, WHERE = np.ones((1, 2, 4, 4), np.float32), np.ones((1, 2, 2, 2), np.float32), np.zeros((1, 2, 2, 2), np.int32)
# Every function with `out=` in 2D, and the shape of its result.
OUTPUTS = {
    "max_pool2d": (G.shape, lambda out: nb.max_pool2d(X, 2, out=out)),
    "min_pool2d": (G.shape, lambda out: nb.min_pool2d(X, 2, out=out)),
    "min_pool2d_backward": (X.shape, lambda out: nb.min_pool2d_backward(G, WHERE, X.shape, out=out)),
    "sum_pool2d": (G.shape, lambda out: nb.sum_pool2d(X, 2, out=out)),
    "sum_pool2d_backward": (X.shape, lambda out: nb.sum_pool2d_backward(G, X.shape, 2, out=out)),
    "avg_pool2d": (G.shape, lambda out: nb.avg_pool2d(X, 2, out=out)),
    "lp_pool2d": (G.shape, lambda out: nb.lp_pool2d(X, 2, 2, out=out)),
    "adaptive_max_pool2d": (G.shape, lambda out: nb.adaptive_max_pool2d(X, 2, out=out)),
    "adaptive_avg_pool2d": (G.shape, lambda out: nb.adaptive_avg_pool2d(X, 2, out=out)),
    "fractional_max_pool2d": (G.shape, lambda out: nb.fractional_max_pool2d(X, 2, 2, out=out)),
    "max_unpool2d": (X.shape, lambda out: nb.max_unpool2d(G, WHERE, 2, out=out)),
    "max_pool2d_backward": (X.shape, lambda out: nb.max_pool2d_backward(G, WHERE, X.shape, out=out)),
    "avg_pool2d_backward": (X.shape, lambda out: nb.avg_pool2d_backward(G, X.shape, 2, out=out)),
    "lp_pool2d_backward": (X.shape, lambda out: nb.lp_pool2d_backward(G, X, 2 * G, 2, 2, out=out)),
    "adaptive_max_pool2d_backward": (X.shape, lambda out: nb.adaptive_max_pool2d_backward(G, WHERE, X.shape, out=out)),
    "adaptive_avg_pool2d_backward": (X.shape, lambda out: nb.adaptive_avg_pool2d_backward(G, X.shape, out=out)),
    "fractional_max_pool2d_backward": (
        X.shape, lambda out: nb.fractional_max_pool2d_backward(G, WHERE, X.shape, out=out)
    ),
    "max_unpool2d_backward": (G.shape, lambda out: nb.max_unpool2d_backward(X, WHERE, out=out)),
}


def test_every_function_with_out_is_listed():
    functions = [name for name in nb.__all__ if name.islower() and "2d" in name]
    assert [name for name in functions if "out" in inspect.signature(getattr(nb, name)).parameters] == sorted(OUTPUTS)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_read_only_out_is_rejected_and_left_alone(name, last):
    """A kernel would write to it: read-only memory is no type of its own to it."""
    shape, call = OUTPUTS[name]
    out = memory_order(np.full(shape, 7, np.float32), last)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out must be writeable, got a read-only array"):
        call(out)
    assert (out == 7).all()
    out.flags.writeable = True
    assert call(out) is out
    assert not (out == 7).any()


@pytest.mark.parametrize("which", [0, 1])
def test_neither_of_two_outs_may_be_read_only(which):
    out = np.full(G.shape, 7, np.float32), np.full(G.shape, 7, np.int32)
    out[which].flags.writeable = False
    with pytest.raises(ValueError, match="must be writeable, got a read-only array"):
        nb.max_pool2d(X, 2, return_indices=True, out=out)
    assert (out[0] == 7).all()
    assert (out[1] == 7).all()


def ask_for_too_much():
    fuzz_inputs.limit_memory()
    x = np.ones((1, 1, 2, 2), np.float32)
    for call in (
        lambda: nb.adaptive_avg_pool2d(x, (2**31 - 1, 2**31 - 1)),
        lambda: nb.max_pool2d_backward(x, np.zeros(x.shape, np.int32), (1, 1, 2**31 - 1, 2**31 - 1)),
        lambda: nb.max_unpool2d(x, np.zeros(x.shape, np.int32), 2**30, 2**30),
        lambda: nb.avg_pool2d_backward(x, (1, 1, 2**31 - 1, 2**31 - 1), 2**31 - 1),
        lambda: nb.avg_pool2d(x, 1, 1, ((10**30, 0), (0, 0))),
    ):
        with pytest.raises((MemoryError, ValueError)):
            call()
        assert (nb.max_pool2d(x, 2) == 1).all()
    print("right")


def test_sizes_whose_product_no_memory_holds():
    assert run(ask_for_too_much) == "right\n"


MOST = 2**31 - 1


HALF = 2**30
AROUND = ((HALF - 1, HALF - 1), (HALF - 1, HALF - 1))
HUGE = {
    "adaptive average": lambda x: nb.adaptive_avg_pool2d(x, (MOST, MOST)),
    "adaptive maximum": lambda x: nb.adaptive_max_pool2d(x, MOST),
    "three axes": lambda x: nb.adaptive_avg_pool3d(x[None], (MOST, MOST, 1)),
    "maximum": lambda x: nb.max_pool2d(x, HALF, 1, AROUND),
    "average": lambda x: nb.avg_pool2d(x, HALF, 1, AROUND),
    "Lp": lambda x: nb.lp_pool2d(x, 2, HALF, 1, padding=AROUND),
    "average backward": lambda x: nb.avg_pool2d_backward(x, (1, 1, MOST, MOST), MOST),
    "adaptive backward": lambda x: nb.adaptive_avg_pool2d_backward(x, (1, 1, MOST, MOST)),
    "global backward": lambda x: nb.global_avg_pool_backward(x, (1, 1, MOST, MOST)),
    "maximum backward": lambda x: nb.max_pool2d_backward(x, np.zeros(x.shape, np.int32), (1, 1, MOST, MOST)),
}


@pytest.mark.parametrize("name", HUGE)
def test_results_that_no_memory_holds_fail_before_tables_of_their_length(name, monkeypatch):
    """Where nothing limits a process, the tables alone would fill the machine's memory."""
    arange = np.arange

    def short(n, *args, **kwargs):
        assert n < 1 << 20, "a table"
        return arange(n, *args, **kwargs)

    monkeypatch.setattr(np, "arange", short)
    with pytest.raises(MemoryError, match=r"Unable to allocate .* bytes .* for a result of shape \(1, 1, "):
        HUGE[name](np.ones((1, 1, 1, 1), np.float32))


@pytest.mark.parametrize(("channels", "last"), [(1, False), (16, True), (17, True)])
def test_rows_longer_than_masks_can_count_are_rejected(channels, last):
    """Nobody has a machine for the arrays: their shapes alone."""
    most = 2**32 - 256
    width = most // (channels if channels <= 16 else 1)
    assert plans.adaptive((1, channels, 2, width), 2, last, (1, 1), "max").units
    shape = (1, channels, 2, width + 1)
    with pytest.raises(ValueError, match=f"at most {most} elements"):
        plans.adaptive(shape, 2, last, (1, 1), "max")
    with pytest.raises(ValueError, match=f"at most {most} elements"):
        plans.uniform(shape, 2, last, 2, (1, 2**30), 0, 1, False, True, "max")
    if channels == 16:
        with pytest.raises(ValueError, match=f"at most {most} elements"):
            plans.adaptive_backward((1, channels, 1, 1), shape, 2, last)
        with pytest.raises(ValueError, match=f"at most {most} elements"):
            plans.uniform_backward((1, channels, 1, 1), shape, 2, last, 2, (1, 2**30), 0, 1, False, True)


def test_a_layer_survives_an_interrupted_or_failed_call(monkeypatch):
    """Its saved state stays that of the last forward which ended well."""
    layer = nb.MaxPool2d(2)
    x = np.random.default_rng(0).standard_normal((1, 2, 6, 6)).astype(np.float32)
    y = layer(x)
    expected = layer.backward(y)
    for error in (KeyboardInterrupt, MemoryError):
        layer(x)

        def fail(*args, error=error, **kwargs):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(_runtime, "SERIAL_BYTES", 0)
            for module in fences.modules():
                patch.setattr(module, "launch", fail)
            with pytest.raises(error):
                layer(-x)
            with pytest.raises(error):
                layer.backward(y)
        assert_identical(layer.backward(y), expected)
    layer(x)
    with pytest.raises(ValueError, match="kernel_size"):
        layer(np.ones((1, 2, 1, 1), np.float32))
    assert_identical(layer.backward(y), expected)
    assert_identical(layer(x), y)


def starved():
    """Memory runs out in the middle of a training loop."""
    import resource

    layer = nb.MaxPool2d(2)
    small = np.random.default_rng(0).standard_normal((1, 2, 64, 64)).astype(np.float32)
    y = layer(small)
    expected = layer.backward(y)
    large = np.ones((1, 16, 2048, 2048), np.float32)  # 256 MiB; its results take 128
    nb.max_pool2d(large, 2)  # one idle block
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (96 << 20), resource.RLIM_INFINITY))
    failed = 0
    for _ in range(3):
        try:
            layer(large)
            layer.backward(np.ones((1, 16, 1024, 1024), np.float32))
        except MemoryError:
            failed += 1
        layer(small)
        assert layer.backward(y).tobytes() == expected.tobytes()
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    y = layer(large)
    assert (layer.backward(y)[0, 0, ::2, ::2] == 1).all()
    print(failed)


@pytest.mark.skipif(sys.platform != "linux", reason="address space limits as on Linux")
def test_memory_that_runs_out():
    assert run(starved) == "3\n"
