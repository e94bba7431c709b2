"""`numba_pool.jax`: the core's results bit for bit, under JAX's transformations, without copies or compilations."""

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest
import reference

import numba_pool as nb
from numba_pool import _bindings, functional

jax = pytest.importorskip("jax")
ml_dtypes = pytest.importorskip("ml_dtypes")
jnp = jax.numpy
pool = pytest.importorskip("numba_pool.jax")

SAMPLES = np.random.default_rng(1).random((2, 3, 2))
# name, arguments, what the core's backward is given
CALLS = {
    "max_pool2d": ((3, 2, 1), {}, "indices"),
    "avg_pool2d": ((3, 2, 1), {"count_include_pad": False}, "arguments"),
    "lp_pool2d": ((3, 2), {"ceil_mode": True}, "norm"),
    "adaptive_max_pool2d": ((3,), {}, "indices"),
    "adaptive_avg_pool2d": ((3,), {}, "shape"),
    "fractional_max_pool2d": ((2, 3), {"random_samples": SAMPLES}, "indices"),
    "global_max_pool": ((), {}, "indices"),
    "global_avg_pool": ((), {}, "shape"),
}
LAST = "max_pool2d", "avg_pool2d", "global_avg_pool"  # also tested channels last; each costs seconds of compilation


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def data(shape=(2, 3, 6, 6), dtype=np.float64):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def core_step(name, x, args, kwargs, sort):
    """The core's output for `x`, and its gradient for the cosine of that."""
    if sort == "norm":
        y = getattr(nb, name)(x, 3, *args, **kwargs)
        return y, getattr(nb, f"{name}_backward")(np.cos(y), x, y, 3, *args, **kwargs)
    backward = getattr(nb, f"{name}_backward")
    if sort == "indices":
        y, indices = getattr(nb, name)(x, *args, **kwargs, return_indices=True)
        return y, backward(np.cos(y), indices, x.shape)
    y = getattr(nb, name)(x, *args, **kwargs)
    return y, backward(np.cos(y), x.shape, *(args if sort == "arguments" else ()),
                       **(kwargs if sort == "arguments" else {}))


def call(name, **more):
    args, kwargs, sort = CALLS[name]
    first = (3,) if sort == "norm" else ()
    return lambda x: getattr(pool, name)(x, *first, *args, **kwargs, **more)


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_are_the_cores_in_both_layouts(name):
    x = data()
    y, gradient = core_step(name, x, *CALLS[name])
    came, back = jax.vjp(call(name), x)
    np.testing.assert_array_equal(call(name)(x), y)
    np.testing.assert_array_equal(came, y)
    np.testing.assert_array_equal(back(np.cos(y))[0], gradient)

    if name not in LAST:
        return
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    y, gradient = core_step(name, np.moveaxis(last, -1, 1), *CALLS[name])
    came, back = jax.vjp(call(name, channel_axis=-1), last)
    np.testing.assert_array_equal(came, np.moveaxis(y, 1, -1))
    np.testing.assert_array_equal(back(np.moveaxis(np.cos(y), 1, -1))[0], np.moveaxis(gradient, 1, -1))


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("name", ["max_pool", "avg_pool", "adaptive_avg_pool"])
def test_lines_and_volumes(name, rank):
    """Under jit, in both layouts, unbatched, and with an axis of vmap before the batch; the kernels are those of 2D."""
    args, kwargs, sort = CALLS[f"{name}2d"]
    x = data((2, 3, *(6,) * rank))
    y, gradient = core_step(f"{name}{rank}d", x, args, kwargs, sort)

    def step(x, g, axis=None):
        y, back = jax.vjp(lambda x: getattr(pool, f"{name}{rank}d")(x, *args, **kwargs, channel_axis=axis), x)
        return y, back(g)[0]

    def last(a):
        return np.moveaxis(a, 1, -1)

    for function, given, change in (
        (step, x, np.asarray),
        (step, x[0], lambda a: a[0]),
        (jax.vmap(step), x[None], lambda a: a[None]),
        (lambda x, g: step(x, g, -1), last(x), last),
    ):
        for came, expected in zip(jax.jit(function)(given, change(np.cos(y))), (y, gradient)):
            np.testing.assert_array_equal(came, change(expected))


@pytest.mark.parametrize("name", ["global_max_pool", "global_min_pool", "global_avg_pool", "global_sum_pool"])
@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -4])
def test_global_pooling_with_channels_at_any_axis(name, axis):
    x = np.moveaxis(data(), 1, axis)

    def step(x, axis):
        y, back = jax.vjp(lambda x: getattr(pool, name)(x, channel_axis=axis), x)
        return y, back(jnp.cos(y))[0]

    for came, expected in zip(step(x, axis), step(data(), None)):
        np.testing.assert_array_equal(came, np.moveaxis(expected, 1, axis))


@pytest.mark.parametrize("name", CALLS)
def test_second_derivatives(name):
    """The derivative of the gradient, in x and in what comes from upstream, against differences."""
    x, v = data(), np.random.default_rng(2).standard_normal((2, 3, 6, 6))
    weight = np.random.default_rng(3).standard_normal(call(name)(x).shape)

    def slope(x, weight):  # along v, of something that is not linear in y
        return jnp.vdot(jax.grad(lambda x: (weight * call(name)(x) ** 2).sum())(x), v)

    step = 1e-6
    along = jax.grad(slope)(x, weight)
    numeric = (slope(x + step * v, weight) - slope(x - step * v, weight)) / (2 * step)
    np.testing.assert_allclose(jnp.vdot(along, v), numeric, rtol=1e-5)
    along = jax.grad(slope, 1)(x, weight)  # in which it is linear
    np.testing.assert_allclose(jnp.vdot(along, weight), slope(x, weight), rtol=1e-10)


@pytest.mark.parametrize(("p", "dtype", "scales"), [(8, np.float64, (1e-60, 1, 0, 1e300)),
                                                    (40, np.float32, (1e-30, 1, 0, 1e10))])  # fmt: skip
def test_second_derivatives_of_norms_of_extreme_numbers(p, dtype, scales):
    """Very small and very large windows side by side, and one of zeros: no power leaves the dtype's range."""
    x = np.concatenate([np.array([1.0, -0.9, 0.8, 1.1]) * scale for scale in scales]).astype(dtype)
    v = np.linspace(-1, 2, len(x), dtype=dtype)
    slope = jax.grad(lambda x: pool.lp_pool1d(x[None, None], p, 4).sum())
    second = jax.grad(lambda x: jnp.vdot(slope(x), v))(x)
    expected = [reference.norm_gradient_derivative(*pair, p) for pair in zip(x.reshape(-1, 4), v.reshape(-1, 4))]
    np.testing.assert_allclose(second, np.ravel(expected), rtol=1e-4 if dtype is np.float32 else 1e-11)


def test_third_derivative_of_an_average():
    x = data((1, 1, 4, 4))
    f = call("avg_pool2d")
    third = jax.grad(lambda x: jax.grad(lambda x: jax.grad(lambda x: (f(x) ** 3).sum())(x)[0, 0, 1, 1])(x)[0, 0, 1, 1])
    weights = [[float(jax.grad(lambda x, i=i, j=j: f(x)[0, 0, i, j])(x)[0, 0, 1, 1]) for i in (0, 1)] for j in (0, 1)]
    np.testing.assert_allclose(third(x)[0, 0, 1, 1], 6 * np.sum(np.power(weights, 3)), rtol=1e-12)


def test_unpooling_and_its_gradient():
    x = data()
    y, indices = pool.max_pool2d(x, 2, return_indices=True)
    for size in (None, (6, 6), x.shape):
        np.testing.assert_array_equal(pool.max_unpool2d(y, indices, 2, output_size=size),
                                      nb.max_unpool2d(np.asarray(y), np.asarray(indices), 2))
    last = [jnp.moveaxis(a, 1, -1) for a in (y, indices)]
    wide = pool.max_unpool2d(*last, 2, output_size=(2, 6, 6, 3), channel_axis=-1)
    np.testing.assert_array_equal(wide, jnp.moveaxis(pool.max_unpool2d(y, indices, 2), 1, -1))
    # What goes forth and back is the upstream gradient at the maxima.
    gradient = jax.grad(lambda y: jnp.vdot(pool.max_unpool2d(y, indices, 2), x))(y)
    np.testing.assert_array_equal(gradient, y)
    twice = jax.grad(lambda x: jnp.vdot(jax.grad(lambda y: jnp.vdot(pool.max_unpool2d(y, indices, 2), x))(y), y))(x)
    np.testing.assert_array_equal(twice, pool.max_unpool2d(y, indices, 2))
    # Of values with the same index the last is put there, but each has its gradient, and what comes back adds up.
    same = jnp.zeros_like(indices)
    twice = jax.grad(lambda x: jnp.vdot(jax.grad(lambda y: jnp.vdot(pool.max_unpool2d(y, same, 2), x))(y), y))(x)
    np.testing.assert_allclose(twice[:, :, 0, 0], y.sum((2, 3)), rtol=1e-12)


def test_windows_without_an_element_have_no_second_derivative():
    """Their index is -1, which the core's gather does not take."""
    x, out = data(), np.empty((2, 3, 6, 6))
    indices = np.tile(np.arange(36, dtype=np.int32).reshape(6, 6), (2, 3, 1, 1))
    indices[0, 0, 1, 2] = -1
    _bindings.gather_of(2)(x, indices, out=out)
    x[0, 0, 1, 2] = 0
    np.testing.assert_array_equal(out, x)


def test_under_jit_vmap_map_scan_and_remat():
    x = data((2, 2, 3, 6, 6))
    f = call("max_pool2d")
    expected = np.stack([f(a) for a in x])
    np.testing.assert_array_equal(jax.jit(jax.vmap(f))(x), expected)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(f))(x), expected)
    np.testing.assert_array_equal(jax.lax.map(f, x), expected)
    np.testing.assert_array_equal(jax.vmap(f, 1, 1)(x), jnp.stack([f(x[:, i]) for i in (0, 1)], 1))
    step = jax.grad(lambda x: (f(x) ** 2).sum())
    expected = np.stack([step(a) for a in x])
    np.testing.assert_array_equal(jax.vmap(step)(x), expected)
    np.testing.assert_array_equal(jax.jit(jax.grad(lambda x: (jax.checkpoint(jax.vmap(f))(x) ** 2).sum()))(x), expected)
    np.testing.assert_array_equal(jax.lax.scan(lambda c, a: (c, step(a)), 0, x)[1], expected)
    # Indices that are not mapped over, and gradients that are; fractional windows with samples that are.
    y, back = jax.vjp(f, x[0])
    grads = np.stack([y, 2 * y])
    np.testing.assert_array_equal(jax.vmap(back)(grads)[0], np.stack([back(g)[0] for g in grads]))
    samples = np.stack([SAMPLES, SAMPLES[::-1]])
    drawn = jax.vmap(lambda a, u: pool.fractional_max_pool2d(a, 2, 3, random_samples=u))(x, samples)
    np.testing.assert_array_equal(
        drawn, np.stack([nb.fractional_max_pool2d(a, 2, 3, random_samples=u) for a, u in zip(x, samples)]))


def test_unbatched_empty_and_other_places_for_channels():
    x = data()
    np.testing.assert_array_equal(pool.max_pool2d(x[0], 2), nb.max_pool2d(x[0], 2))
    np.testing.assert_array_equal(pool.max_pool2d(np.moveaxis(x[0], 0, -1), 2, channel_axis=-1),
                                  np.moveaxis(nb.max_pool2d(x[0], 2), 0, -1))
    y, indices = pool.max_pool2d(np.moveaxis(x, 1, 2), 2, return_indices=True, channel_axis=2)
    expected = nb.max_pool2d(x, 2, return_indices=True)
    np.testing.assert_array_equal(y, np.moveaxis(expected[0], 1, 2))
    np.testing.assert_array_equal(indices, np.moveaxis(expected[1], 1, 2))
    assert pool.avg_pool2d(x[:0], 2).shape == (0, 3, 3, 3)
    assert jax.grad(lambda x: pool.max_pool2d(x, 2).sum())(x[:0]).shape == (0, 3, 6, 6)
    assert pool.max_pool1d(x[0], 2).shape == (3, 6, 3)
    assert pool.max_pool3d(x, 2).shape == (2, 1, 3, 3)


def test_halves():
    """Only one is run: each kernel of a half compiles for seconds."""
    x = data((1, 2, 4, 4), ml_dtypes.bfloat16)
    y = pool.max_pool2d(x, 2)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, nb.max_pool2d(x, 2))
    for dtype in (ml_dtypes.bfloat16, np.float16, np.float32):
        for f in (lambda x: pool.max_pool2d(x, 2).sum(), lambda x: pool.lp_pool2d(x, 3.0, 2).sum()):
            assert jax.eval_shape(jax.grad(f), x.astype(dtype)).dtype == dtype
            assert jax.eval_shape(jax.grad(lambda x, f=f: (jax.grad(f)(x) * x).sum()), x.astype(dtype)).dtype == dtype


def test_integers_beside_something_that_is_differentiated():
    x = np.arange(32, dtype=np.int32).reshape(1, 2, 4, 4)
    y = nb.max_pool2d(x, 2)
    assert pool.max_pool2d(x, 2).dtype == np.int32
    assert jax.grad(lambda w: (w * pool.max_pool2d(x, 2)).sum())(2.0) == y.sum()
    assert jax.grad(lambda w, x: (w * pool.max_pool2d(x, 2)).sum(), (0, 1), allow_int=True)(2.0, x)[0] == y.sum()


class Noted:
    """The core, with the addresses that it is given."""

    def __init__(self, monkeypatch, *names):
        self.seen = []
        for name in names:
            monkeypatch.setattr(functional, name, self.noting(getattr(nb, name)))
        pool.callback.cache_clear()
        pool.compiled.cache_clear()

    def noting(self, function):
        def noted(**given):
            arrays = [given[k] for k in ("x", "grad_output", "indices") if k in given]
            out = given.get("out")
            arrays += [] if out is None else out if isinstance(out, tuple) else [out]
            if arrays[0].size:
                self.seen.append([a.__array_interface__["data"][0] for a in arrays])
            return function(**given)

        noted.__signature__ = inspect.signature(function)
        return noted


@pytest.mark.parametrize("axis", [None, -1])
def test_memory_is_xlas_own(monkeypatch, axis):
    """Neither what the core reads nor what it writes is a copy."""
    noted = Noted(monkeypatch, "max_pool2d", "max_pool2d_backward")
    x = jnp.asarray(data() if axis is None else np.moveaxis(data(), 1, -1).copy())
    y, indices = pool.max_pool2d(x, 2, return_indices=True, channel_axis=axis)
    assert noted.seen == [[a.unsafe_buffer_pointer() for a in (x, y, indices)]]
    monkeypatch.undo()
    pool.callback.cache_clear()
    pool.compiled.cache_clear()


def test_huge_pages_are_asked_for_inside_of_a_large_result(monkeypatch):
    asked = []
    monkeypatch.setattr(_bindings, "madvise", lambda: lambda *range_: asked.append(range_))
    large = np.empty(_bindings.MAPPED + 1, np.uint8)
    _bindings.ask_for_huge_pages(large[:-2])
    assert not asked
    _bindings.ask_for_huge_pages(large)
    (start, size, _), address = asked[0], large.ctypes.data
    assert start % _bindings.HUGE == 0 == size % _bindings.HUGE
    assert address <= start < start + size <= address + large.nbytes
    assert size > large.nbytes - 2 * _bindings.HUGE


def test_inputs_are_not_written():
    x = data()
    kept = jnp.asarray(x)
    for name in CALLS:
        jax.block_until_ready(jax.vjp(call(name), kept)[1](call(name)(kept)))
    np.testing.assert_array_equal(kept, x)


def test_a_second_call_compiles_nothing():
    events = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: events.append(event) if "backend_compile" in event else None)
    x = jnp.asarray(data())

    def calls():
        y = pool.max_pool2d(x, [2, 2])
        jax.grad(lambda x: pool.lp_pool2d(x, 2, 2).sum())(x)
        jax.grad(lambda x: (jax.grad(lambda x: (pool.max_pool2d(x, (2, 2)) ** 2).sum())(x) ** 2).sum())(x)
        return jax.vmap(lambda x: pool.avg_pool2d(x, 2))(x), y

    calls()
    assert events  # or the name of the event has changed
    events.clear()
    calls()
    jax.jit(lambda x: pool.max_pool2d(x, 2))(x)
    assert len(events) == 1  # the last
    assert pool.callback.cache_info().currsize < pool.KEPT


def test_errors_come_when_a_function_is_traced():
    x = data()
    for bad, error, text in [
        (lambda: pool.max_pool2d(x, 0), ValueError, "kernel_size"),
        (lambda: pool.max_pool2d(x, True), TypeError, "kernel_size"),
        (lambda: pool.max_pool2d(x, 2, return_indices="yes"), TypeError, "return_indices"),
        (lambda: pool.max_pool2d(x[0, 0], 2), ValueError, "must have 4 axes"),
        (lambda: pool.global_max_pool(x[0, 0]), ValueError, "3 to 5 axes"),
        (lambda: pool.max_pool2d(x > 0, 2), TypeError, "bool"),
        (lambda: pool.max_pool2d(x, 2, channel_axis=4), ValueError, "channel_axis"),
        (lambda: pool.max_pool2d(x, 2, channel_axis=1.0), TypeError, "channel_axis"),
        (lambda: pool.max_pool2d(x, 2, out=x), TypeError, r"max_pool2d\(\).*'out'"),
        (lambda: pool.fractional_max_pool2d(x, 2, 3), TypeError, "random_samples"),
        (lambda: pool.max_unpool2d(x, x[:1].astype(int), 2), ValueError, "indices must have the batch"),
        (lambda: jax.jit(pool.max_pool2d)(x, 2), TypeError, "kernel_size must be static"),
        (lambda: jax.jvp(call("max_pool2d"), (x,), (x,)), TypeError, "forward-mode"),
    ]:
        with pytest.raises(error, match=text):
            bad()
    with pytest.raises(ValueError, match="leaves no output") as caught:
        pool.max_pool2d(x, 9)
    assert f"x {x.shape}" in caught.value.__notes__[0]
    jax.eval_shape(lambda x: pool.max_pool2d(x, 1), x)
    with pytest.raises(TypeError, match="kernel_size"):  # 1 is known, and equal
        pool.max_pool2d(x, True)
    with pytest.raises(NotImplementedError, match="norm_type=inf"):
        jax.eval_shape(jax.grad(lambda x: jax.grad(lambda x: (pool.lp_pool2d(x, np.inf, 2) ** 2).sum())(x).sum()), x)
    with pytest.raises(Exception, match=r"indices must lie in \[0, 144\)"):
        jax.block_until_ready(pool.max_unpool2d(x, jnp.full(x.shape, 144), 2))


def test_signatures_and_documentation():
    assert str(inspect.signature(pool.max_pool2d)) == (
        "(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False, *, "
        "channel_axis=None)")
    forwards = [name for name in nb.__all__ if name[0].islower() and "pool" in name
                and not name.startswith("segment_") and not name.endswith(("_backward", "empty_pool"))]
    for name in forwards:
        function = getattr(pool, name)
        assert (function.__name__, function.__module__) == (name, "numba_pool.jax")
        text = function.__doc__
        assert "channel_axis : int" in text
        assert "out :" not in text
        scope = {}
        lines = [line[4:] for line in text.splitlines() if line.startswith(">>> ")]
        exec("\n".join(lines[:-1]), scope)
        assert str(eval(lines[-1], scope)) == text.rstrip().splitlines()[-1]


def in_a_fresh_process(code, **environment):
    environment = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_is_needed_by_nobody():
    in_a_fresh_process("""
import sys, numba_pool
assert not {"jax", "autograd"} & set(sys.modules)
""")


def test_two_devices():
    in_a_fresh_process("""
import jax, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
import numba_pool, numba_pool.jax as pool
jax.config.update("jax_enable_x64", True)
mesh = jax.make_mesh((2,), ("batch",), axis_types=(AxisType.Auto,))
x = np.random.default_rng(0).standard_normal((2, 3, 6, 6))
f = lambda x: pool.max_pool2d(x, 3, 2, 1)
shared = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("batch"), out_specs=P("batch")))
np.testing.assert_array_equal(shared(x), numba_pool.max_pool2d(x, 3, 2, 1))
assert len(shared(x).sharding.device_set) == 2
step = lambda f: jax.grad(lambda x: (f(x) ** 2).sum())
np.testing.assert_array_equal(jax.jit(step(shared))(x), step(f)(x))
twice = lambda f: jax.grad(lambda x: (step(f)(x) ** 3).sum())
np.testing.assert_array_equal(jax.jit(twice(shared))(x), twice(f)(x))
spread = jax.device_put(x, NamedSharding(mesh, P("batch")))  # without shard_map: gathered, and right
np.testing.assert_array_equal(jax.jit(f)(spread), f(x))
there = f(jax.device_put(x, jax.devices()[1]))
assert there.devices() == {jax.devices()[1]}
mesh = jax.make_mesh((2,), ("batch",), axis_types=(AxisType.Explicit,))
spread = jax.device_put(x, NamedSharding(mesh, P("batch")))  # types say it: shared out
for function in (f, lambda x: pool.lp_pool2d(x, 2, 2, channel_axis=-1)):
    assert jax.jit(function)(spread).sharding.spec[0] == "batch"
    np.testing.assert_array_equal(jax.jit(step(function))(spread), step(function)(x))
    with jax.set_mesh(mesh):  # since 0.12 JAX itself needs it for the gradient of `x[..., indices]`
        np.testing.assert_allclose(jax.jit(twice(function))(spread), twice(function)(x), rtol=1e-12)
rows = jax.device_put(x, NamedSharding(mesh, P(None, None, "batch")))  # gathered before, and shared again after
with jax.set_mesh(mesh):  # JAX itself needs it for the sum
    np.testing.assert_array_equal(step(f)(rows), step(f)(x))
""", XLA_FLAGS="--xla_force_host_platform_device_count=2")


def test_minima_and_sums():
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 9)).astype(np.float32)
    y, indices = nb.min_pool2d(x, 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(pool.min_pool2d(x, 3, 2, 1), y)
    g = jax.grad(lambda v: pool.min_pool2d(v, 3, 2, 1).sum())(x)
    np.testing.assert_array_equal(g, nb.min_pool2d_backward(np.ones_like(y), indices, x.shape))
    total = nb.sum_pool2d(x, 3, 2, 1)
    np.testing.assert_array_equal(pool.sum_pool2d(x, 3, 2, 1), total)
    g = jax.grad(lambda v: pool.sum_pool2d(v, 3, 2, 1).sum())(x)
    np.testing.assert_array_equal(g, nb.sum_pool2d_backward(np.ones_like(total), x.shape, 3, 2, 1))
