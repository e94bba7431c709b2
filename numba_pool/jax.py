"""Pooling of JAX arrays on CPUs, by the kernels of `numba_pool`: under jit, grad, vmap, lax.map and shard_map.

The functions have the names and the arguments of `numba_pool` itself, but no `out`. Each reads XLA's memory and writes
into it, without copies, by `jax.experimental.buffer_callback`. Derivatives are in reverse mode, of any order; forward
mode (`jax.jvp`, `jax.jacfwd`) is refused by JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import Parameter
from math import prod
from typing import Any, NamedTuple

import numpy as np

from . import _bindings as bindings
from . import functional
from ._arrays import check_ndim
from ._bindings import (
    Function,
    accepted,
    ask_for_huge_pages,
    check_bool,
    check_plain_norm,
    core,
    gather_of,
    missing,
    norm_gradient,
    places,
)
from ._dispatch.axes import channel, channel_axis, check_batch
from .functional.whole import global_rank

try:
    import jax
    import jax.numpy as jnp
    from jax.experimental.buffer_callback import buffer_callback
    from jax.sharding import NamedSharding, PartitionSpec
except ImportError as error:
    raise missing("jax", "JAX 0.10 or newer", error) from error

Shape = tuple[int, ...]

KEPT = 4096  # callables, by operation and static arguments
ARRAYS = "x", "indices", "random_samples"  # the arguments that may be traced; all others are static
SETUP = "import jax.numpy as jnp"
WINDOWS = "kernel_size", "stride", "padding", "dilation", "ceil_mode"
CHANNEL_AXIS = """channel_axis : int, optional
    The axis of the channels in `x` and in all results, -1 for NHWC. Default: channels first, as in PyTorch."""
SAMPLES = """random_samples : array of floats in [0, 1), shape (N, C, rank) or (C, rank)
    What drives the starts, as `jax.random.uniform` draws it, whatever the `channel_axis`. In 2D column 0 is for W and
    column 1 for H, in 3D the columns are in order."""
ABOUT = "For JAX arrays. All arguments but arrays are static: known when a function is traced."


class Kernel(NamedTuple):
    """A function of the core with its static arguments, as an operation on JAX arrays of one layout."""

    function: Function
    rank: int
    last: bool  # whether channels are the last axis, else they come before the spatial ones
    names: tuple[str, ...]  # of the arrays
    arguments: tuple[tuple[str, Any], ...]
    shape: Shape | None = None  # of the result, where the core must be told

    def __call__(self, *arrays: Any) -> Any:
        """Trace the operation. Devices share it where types say that they share the batch (`AxisType.Explicit`)."""
        if not is_shared(arrays):
            return self.bound(*arrays)
        batch = batch_sharding(arrays[0], self.rank)
        share = jax.shard_map(self.bound, mesh=batch.mesh, in_specs=batch.spec, out_specs=batch.spec)
        return share(*(jax.reshard(a, batch) for a in arrays))

    def bound(self, *arrays: Any) -> Any:
        """The operation itself: the results' shapes now, their values when XLA calls back."""
        like = self.results(arrays)
        pooled = buffer_callback(callback(self), like, vmap_method="broadcast_all")(*arrays)
        pooled = [vary(y, arrays) for y in pooled]
        return pooled[0] if len(pooled) == 1 else tuple(pooled)

    def results(self, arrays: tuple[Any, ...]) -> list[Any]:
        """Shapes and dtypes of the results, in the arrays' layout."""
        lead = arrays[0].shape[: -self.rank - 1]
        for name, a in zip(self.names[1:], arrays[1:]):
            if a.shape[: -self.axes(name)] != lead:
                raise ValueError(f"{name} must have the batch {lead} of {self.names[0]}, got shape {a.shape}")
        return [jax.ShapeDtypeStruct((*lead, *self.seen(y).shape[1:]), y.dtype) for y in self.probe(arrays)]

    def axes(self, name: str) -> int:
        """How many axes an array has behind the batch."""
        return 2 if name == "random_samples" else self.rank + 1

    def planes(self, a: Any) -> Any:
        """A view with channels first of an array with one batch axis. (`numpy.moveaxis` takes 3 us.)"""
        return a.transpose(0, self.rank + 1, *range(1, self.rank + 1)) if self.last else a

    def seen(self, a: Any) -> Any:
        """And back."""
        return np.moveaxis(a, 1, -1) if self.last else a

    def folded(self, a: Any, name: str = "x") -> Any:
        """An array as the core takes it: one batch axis in place of none, or of those that vmap adds, without a copy.
        """
        axes = self.axes(name)
        if a.ndim != axes + 1:
            a = a.reshape(prod(a.shape[:-axes]), *a.shape[-axes:])
        return a if name == "random_samples" else self.planes(a)

    def probe(self, arrays: tuple[Any, ...]) -> list[Any]:
        """What the core makes of a batch of no examples: shapes and dtypes of the results, or its errors.

        Of no examples nothing is compiled.
        """
        given = {}
        for name, a in zip(self.names, arrays):
            empty = self.folded(np.empty((0, *a.shape[-self.axes(name) :]), a.dtype), name)
            given[name] = empty
        if self.shape is not None:
            shape = (0, *self.shape[-self.rank - 1 :])
            given["input_shape"] = (0, shape[-1], *shape[1:-1]) if self.last else shape
        try:
            results = self.function(**given, **dict(self.arguments))
        except (TypeError, ValueError) as error:
            shown = ", ".join(f"{name} {a.shape}" for name, a in zip(self.names, arrays))
            error.add_note(f"in JAX: {shown}; shapes above have an empty batch, and channels before the spatial axes")
            raise
        return list(results) if isinstance(results, tuple) else [results]


@lru_cache(KEPT)
def callback(kernel: Kernel) -> Callable[..., None]:
    """What XLA calls. One for a kernel: with a new one at every call, JAX would compile at every call.

    It must not call JAX, which waits for this very computation. Its inputs come writable. The core never writes to
    one; marked read-only they would take the core's long way, as long again as a small pooling.
    """
    function, arguments, told = kernel.function, dict(kernel.arguments), kernel.shape is not None

    def run(context: Any, results: Any, *buffers: Any) -> None:
        given = {name: kernel.folded(np.asarray(b), name) for name, b in zip(kernel.names, buffers)}
        written = [np.asarray(b) for b in results]
        for a in written:
            ask_for_huge_pages(a)
        out = tuple([kernel.folded(a) for a in written])
        if told:
            given["input_shape"] = out[0].shape
        function(**given, **arguments, out=out if len(out) == 2 else out[0])

    return run


def is_shared(arrays: tuple[Any, ...]) -> bool:
    """Whether types say that devices share an array."""
    return any(axis is not None for a in arrays for axis in jax.typeof(a).sharding.spec)


def batch_sharding(x: Any, rank: int) -> Any:
    """How devices share the batch, and nothing else."""
    whole = jax.typeof(x).sharding
    return NamedSharding(whole.mesh, PartitionSpec(*whole.spec[: x.ndim - rank - 1]))


def vary(y: Any, arrays: tuple[Any, ...]) -> Any:
    """The result, said to differ between the devices of a `shard_map` where an input does; callbacks do not tell."""
    types = [getattr(jax.typeof(a), "manual_axis_type", None) for a in arrays]
    axes = {axis for manual in types if manual is not None for axis in manual.varying}
    return jax.lax.pcast(y, tuple(sorted(axes)), to="varying") if axes else y


class Spec(NamedTuple):
    """A call of a public function, but for its arrays."""

    name: str  # of the family in the core
    rank: int
    last: bool
    names: tuple[str, ...]
    arguments: tuple[tuple[str, Any], ...]

    def kernel(self, **changed: Any) -> Kernel:
        """The forward, some of its arguments changed."""
        function = core(self.name, self.rank)
        arguments = accepted(function, {**dict(self.arguments), **changed})
        return Kernel(function, self.rank, self.last, self.names, tuple(arguments.items()))

    def backward(self, names: tuple[str, ...], shape: Shape | None) -> Kernel:
        function = core(self.name, self.rank, "_backward")
        arguments = accepted(function, dict(self.arguments))
        return Kernel(function, self.rank, self.last, names, tuple(arguments.items()), shape)

    def gather(self) -> Kernel:
        """The elements at indices: the transpose of a scatter."""
        return Kernel(gather_of(self.rank), self.rank, self.last, ("grad_output", "indices"), ())


# What follows makes operations that can be differentiated, by families, for arrays of one shape. Each returns a
# function of arrays. A `forward` calls such operations too, not kernels: a second derivative is taken of it as well.
# Cotangents of None are zero.


def linear(operation: Kernel, transpose: Kernel, again: Kernel | None = None) -> Function:
    """An operation that is linear in its first array, by its transpose, whose transpose is the operation again."""

    @jax.custom_vjp
    def apply(x: Any, *fixed: Any) -> Any:
        return operation(x, *fixed)

    def forward(x: Any, *fixed: Any) -> Any:
        return apply(x, *fixed), fixed

    def backward(fixed: Any, grad: Any) -> Any:
        return linear(transpose, again or operation)(grad, *fixed), *(None for _ in fixed)

    apply.defvjp(forward, backward)
    return apply


def maximum(spec: Spec, shape: Shape) -> Function:
    """A maximum, whose gradient goes to the elements at its indices."""
    plain, both = spec.kernel(return_indices=False), spec.kernel(return_indices=True)
    route = linear(spec.backward(("grad_output", "indices"), shape), spec.gather())

    @jax.custom_vjp
    def indexed(*arrays: Any) -> Any:
        return both(*arrays)

    def forward(*arrays: Any) -> Any:
        y, indices = indexed(*arrays)
        return (y, indices), (indices, arrays[1:])

    def backward(saved: Any, grads: Any) -> Any:
        indices, samples = saved
        return route(grads[0], indices), *(None for _ in samples)

    indexed.defvjp(forward, backward)

    @jax.custom_vjp
    def apply(*arrays: Any) -> Any:
        return plain(*arrays)

    def forward_alone(*arrays: Any) -> Any:
        (y, _), saved = forward(*arrays)
        return y, saved

    apply.defvjp(forward_alone, lambda saved, grad: backward(saved, (grad,)))
    wanted = check_bool(dict(spec.arguments)["return_indices"], "return_indices")
    return indexed if wanted else apply


def average(spec: Spec, shape: Shape) -> Function:
    """An average or a sum over windows."""
    return linear(spec.kernel(), spec.backward(("grad_output",), shape))


def unpooling(spec: Spec, _: Shape) -> Function:
    """The values to their indices; the gradient is what stands there, and that one's the sum of what came from there.
    """

    def apply(*arrays: Any) -> Any:
        unpool = spec.kernel()
        shape = unpool.results(arrays)[0].shape
        scatter = spec._replace(name="max_pool").backward(("grad_output", "indices"), shape)
        return linear(unpool, spec.gather(), scatter)(*arrays)

    return apply


def norm(spec: Spec, shape: Shape) -> Function:
    """An Lp norm; from the second derivative on by its windows' elements."""
    operation, transpose = spec.kernel(), spec.backward(("grad_output", "x", "y"), None)
    given = dict(spec.arguments)

    def written_out(grad: Any, x: Any) -> Any:
        check_plain_norm(given)
        dtype = grad.dtype
        grad, x = (a.astype(jnp.promote_types(a.dtype, jnp.float32)) for a in (grad, x))
        if spec.last:
            grad, x = (jnp.moveaxis(a, -1, -spec.rank - 1) for a in (grad, x))
        where, inside = places(x.shape[-spec.rank :], *(given[name] for name in WINDOWS))

        def flat(a: Any) -> Any:
            return a.reshape(*a.shape[: -spec.rank], prod(a.shape[-spec.rank :]))

        def take(a: Any) -> Any:
            return jnp.where(inside, flat(a)[..., where], 0.0)

        result = norm_gradient(jnp, float(given["norm_type"]), take, lambda a: jax.linear_transpose(take, x)(a)[0],
                               jax.lax.stop_gradient, flat(grad), x)
        return (jnp.moveaxis(result, -spec.rank - 1, -1) if spec.last else result).astype(dtype)

    @jax.custom_vjp
    def gradient(grad: Any, x: Any, y: Any) -> Any:
        return transpose(grad, x, y)

    def backward(saved: Any, grad: Any) -> Any:
        return *jax.vjp(written_out, *saved)[1](grad), None  # all of y's part is x's

    gradient.defvjp(lambda grad, x, y: (gradient(grad, x, y), (grad, x)), backward)

    @jax.custom_vjp
    def apply(x: Any) -> Any:
        return operation(x)

    def forward(x: Any) -> Any:
        y = apply(x)
        return y, (x, y)

    apply.defvjp(forward, lambda saved, grad: (gradient(grad, *saved),))
    return apply


@lru_cache(KEPT)
def compiled(make: Callable[[Spec, Shape], Function], spec: Spec, types: str) -> Function:
    """The jitted operation for all arrays of such a call; `types` tells a 1 from a True and a 1.0."""

    def pool(*arrays: Any) -> Any:
        if is_shared(arrays):  # the batch alone may be; that the rest is gathered has a gradient, too
            batch = batch_sharding(arrays[0], spec.rank)
            arrays = tuple(jax.reshard(a, batch) for a in arrays)
        return make(spec, arrays[0].shape)(*arrays)

    pool.__name__ = f"{spec.name}{spec.rank}d"
    return jax.jit(pool)


def frozen(value: Any) -> Any:
    """A static argument as a key: lists as tuples."""
    return tuple(map(frozen, value)) if isinstance(value, (list, tuple)) else value


def static(arguments: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    for name, value in arguments.items():
        arguments[name] = value = frozen(value)
        if any(isinstance(v, jax.Array) for v in (value if isinstance(value, tuple) else (value,))):
            raise TypeError(f"{name} must be static, known when a function is traced, not an array of JAX")
    return tuple(arguments.items())


def spatial_size(size: Any, shape: Shape, rank: int, last: bool) -> Any:
    """An `output_size` without the batch and the channels that it may have, in the array's own layout."""
    if not isinstance(size, (tuple, list)) or len(size) != len(shape):
        return size
    lead, spatial = ((*size[: -rank - 1], size[-1]), size[-rank - 1 : -1]) if last else (size[:-rank], size[-rank:])
    known = (*shape[: -rank - 1], shape[-1]) if last else shape[:-rank]
    return tuple(spatial) if tuple(lead) == tuple(known) else size


def run(make: Callable[[Spec, Shape], Function], name: str, rank: int, given: dict[str, Any], axis: Any) -> Any:
    """A call of a public function: the channels to one of the two places that kernels know, and back."""
    arrays = {key: jnp.asarray(given.pop(key)) for key in ARRAYS if key in given}
    x = arrays["x"]
    if rank:
        check_ndim(x, rank, "x", None if axis is None else channel_axis(axis))
    else:
        rank = global_rank(x.shape, "x")
        if axis is not None:
            check_batch(x.shape, axis)
    first, final = x.ndim - rank - 1, x.ndim - 1
    at = first if axis is None else channel(axis, x.ndim)
    last, moved = at == final != first, at not in (first, final)
    if moved:  # XLA moves them: no kernel has channels in between
        arrays = {k: a if k == "random_samples" else jnp.moveaxis(a, at, first) for k, a in arrays.items()}
    if name == "max_unpool":
        given["output_size"] = spatial_size(given["output_size"], arrays["x"].shape, rank, last)
    if name == "fractional_max_pool" and arrays["random_samples"].ndim == 3 > x.ndim - rank + 1:
        arrays["random_samples"] = arrays["random_samples"][0]  # (1, C, rank), as the core takes it too
    if name in ("global_min_pool", "global_sum_pool", "global_lp_pool"):
        shape = arrays["x"].shape
        name, given["kernel_size"] = name[7:], shape[1:-1] if last else shape[2:]
    elif name[:6] == "global":  # the core's own have no `out`
        name, given["output_size"] = name.replace("global", "adaptive"), 1
    spec = Spec(name, rank, last, tuple(arrays), static(given))
    result = compiled(make, spec, repr(spec.arguments))(*arrays.values())
    return jax.tree.map(lambda a: jnp.moveaxis(a, first, at), result) if moved else result


def public(make: Callable[[Spec, Shape], Function], name: str, rank: int, text: str) -> Function:
    """The public function of a family for one rank; 0 is that of any rank."""
    full = f"{name}{rank}d" if rank else name
    original = getattr(functional, full)
    axis = Parameter("channel_axis", Parameter.KEYWORD_ONLY, default=None)
    dropped = "out", "rng", *bindings.MISSING
    shown = bindings.signature(original, dropped, axis)
    if name == "fractional_max_pool":  # no generator of NumPy: it would be drawn from when a function is traced
        shown = shown.replace(parameters=[p.replace(default=Parameter.empty) if p.name == "random_samples" else p
                                          for p in shown.parameters.values()])

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = shown.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{full}() {error}") from None
        bound.apply_defaults()
        given = bound.arguments
        return run(make, name, rank, given, given.pop("channel_axis"))

    entries = {**dict.fromkeys(dropped), "channel_axis": CHANNEL_AXIS}
    if name == "fractional_max_pool":
        entries = {"random_samples": SAMPLES, **entries}
    text = bindings.docstring(original, ABOUT, entries,
                              bindings.example(full, __name__, rank or 2, text, SETUP))
    return bindings.publish(call, full, __name__, shown, text)


def family(make: Callable[[Spec, Shape], Function], name: str, call: str, ranks: Any = (1, 2, 3)) -> Any:
    """The public functions of a family; `call` is the one in the docstring's example."""
    return (public(make, name, rank, call) for rank in ranks)


max_pool1d, max_pool2d, max_pool3d = family(maximum, "max_pool", "(x, 2)")
avg_pool1d, avg_pool2d, avg_pool3d = family(average, "avg_pool", "(x, 2)")
min_pool1d, min_pool2d, min_pool3d = family(maximum, "min_pool", "(x, 2)")
sum_pool1d, sum_pool2d, sum_pool3d = family(average, "sum_pool", "(x, 2)")
lp_pool1d, lp_pool2d, lp_pool3d = family(norm, "lp_pool", "(x, 2, 2)")
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = family(maximum, "adaptive_max_pool", "(x, 2)")
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = family(average, "adaptive_avg_pool", "(x, 2)")
fractional_max_pool2d, fractional_max_pool3d = family(
    maximum, "fractional_max_pool", "(x, 2, 2, random_samples=jnp.full((1, 1, {rank}), 0.5))", (2, 3)
)
max_unpool1d, max_unpool2d, max_unpool3d = family(unpooling, "max_unpool", "(x, jnp.zeros(x.shape, int), 2)")
(global_max_pool,) = family(maximum, "global_max_pool", "(x)", (0,))
(global_avg_pool,) = family(average, "global_avg_pool", "(x)", (0,))
(global_min_pool,) = family(maximum, "global_min_pool", "(x)", (0,))
(global_sum_pool,) = family(average, "global_sum_pool", "(x)", (0,))
(global_lp_pool,) = family(norm, "global_lp_pool", "(x, 2)", (0,))
