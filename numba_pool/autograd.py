"""Pooling that HIPS autograd can differentiate, by the kernels of `numba_pool`, in reverse and forward mode, any order.

The functions have the names and the arguments of `numba_pool` itself, but no `out`. Arrays that are not being
differentiated go straight to the core.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

from . import _bindings as bindings
from . import functional
from ._bindings import Function, accepted, check_bool, check_plain_norm, core, gather_of, missing, norm_gradient, places
from ._dispatch.axes import order

try:
    import autograd.numpy as anp
    from autograd import make_jvp, make_vjp
    from autograd.extend import defjvp, defvjp, primitive
    from autograd.tracer import getval, isbox
except ImportError as error:
    raise missing("autograd", "autograd", error) from error

Arguments = dict[str, Any]

SETUP = "import autograd.numpy as np"
WINDOWS = "kernel_size", "stride", "padding", "dilation", "ceil_mode"
ABOUT = "For arrays of NumPy, and what autograd makes of them. Only `x` is differentiated."


def linear(apply: Function, transpose: Function) -> None:
    """Tell autograd the derivatives of a primitive that is linear in its first argument, by its transpose.

    Both take, after the array, what is constant. `transpose` also needs the shape that it gives.
    """
    defvjp(apply, lambda ans, x, *rest: lambda grad: transpose(grad, x, *rest), argnums=(0,))
    defjvp(apply, lambda tangent, ans, x, *rest: apply(tangent, *rest), argnums=(0,))


def shape_of(a: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = getval(a).shape
    return shape


@lru_cache
def routes(name: str, rank: int) -> tuple[Function, Function]:
    """The scatter and the gather of a family with indices, each the transpose of the other."""
    backward, taken = core(name, rank, "_backward"), gather_of(rank)

    @primitive
    def scatter(grad: Any, indices: Any, shape: Any, arguments: Arguments) -> Any:
        return backward(grad, indices, shape, **arguments)

    @primitive
    def gather(x: Any, indices: Any, arguments: Arguments) -> Any:
        return taken(x, indices, **arguments)

    linear(scatter, lambda grad, _, indices, shape, arguments: gather(grad, indices, arguments))
    linear(gather, lambda grad, x, indices, arguments: scatter(grad, indices, shape_of(x), arguments))
    return scatter, gather


def maximum(name: str, rank: int) -> Function:
    """A maximum: its value is taken once, with the indices, at which derivatives scatter and gather."""
    pool, scatter, gather = core(name, rank), *routes(name, rank)

    @primitive
    def chosen(x: Any, y: Any, indices: Any, arguments: Arguments) -> Any:
        return y

    defvjp(chosen, lambda ans, x, y, indices, arguments: lambda grad: scatter(grad, indices, shape_of(x), arguments),
           argnums=(0,))
    defjvp(chosen, lambda tangent, ans, x, y, indices, arguments: gather(tangent, indices, arguments), argnums=(0,))

    def apply(x: Any, wanted: Any, arguments: Arguments) -> Any:
        check_bool(wanted, "return_indices")
        y, indices = pool(getval(x), return_indices=True, **arguments)
        y = chosen(x, y, indices, accepted(core(name, rank, "_backward"), arguments))
        return (y, indices) if wanted else y

    return apply


def average(name: str, rank: int) -> Function:
    """An average or a sum over windows."""
    pool, backward = core(name, rank), core(name, rank, "_backward")

    @primitive
    def forward(x: Any, arguments: Arguments) -> Any:
        return pool(x, **arguments)

    @primitive
    def spread(grad: Any, shape: Any, arguments: Arguments) -> Any:
        return backward(grad, shape, **accepted(backward, arguments))

    linear(forward, lambda grad, x, arguments: spread(grad, shape_of(x), arguments))
    linear(spread, lambda grad, _, shape, arguments: forward(grad, arguments))
    return forward


def norm(name: str, rank: int) -> Function:
    """An Lp norm: the first derivative in reverse mode is the core's, all others are by its windows' elements."""
    pool, backward = core(name, rank), core(name, rank, "_backward")

    def written_out(grad: Any, x: Any, arguments: Arguments) -> Any:
        """`gradient` as operations that autograd knows."""
        check_plain_norm(arguments)
        p, *windows, axis = (arguments[name] for name in ("norm_type", *WINDOWS, "channel_axis"))
        at = -rank - 1
        grad, x = (a if axis is None else anp.moveaxis(a, axis, at) for a in (grad, x))
        where, inside = places(x.shape[-rank:], *windows)

        def flat(a: Any) -> Any:
            return anp.reshape(a, (*a.shape[:-rank], prod(a.shape[-rank:])))

        def take(a: Any) -> Any:
            return anp.where(inside, flat(a)[..., where], 0.0)

        gradient = norm_gradient(anp, float(p), take, lambda a: make_vjp(take)(x)[0](a), getval, flat(grad), x)
        return gradient if axis is None else anp.moveaxis(gradient, at, axis)

    @primitive
    def forward(x: Any, arguments: Arguments) -> Any:
        return pool(x, **arguments)

    @primitive
    def gradient(grad: Any, x: Any, y: Any, arguments: Arguments) -> Any:
        return backward(grad, x, y, **accepted(backward, arguments))

    def of(argnum: int, grad: Any, x: Any, arguments: Arguments) -> tuple[Function, tuple[Any, Any]]:
        return (lambda a: written_out(*((a, x) if argnum == 0 else (grad, a)), arguments)), (grad, x)[argnum]

    def back(argnum: int) -> Function:
        def vjp(ans: Any, grad: Any, x: Any, y: Any, arguments: Arguments) -> Function:
            function, at = of(argnum, grad, x, arguments)
            return lambda v: make_vjp(function)(at)[0](v)
        return vjp

    def ahead(argnum: int) -> Function:
        def jvp(tangent: Any, ans: Any, grad: Any, x: Any, y: Any, arguments: Arguments) -> Any:
            function, at = of(argnum, grad, x, arguments)
            return make_jvp(function)(at)(tangent)[1]
        return jvp

    defvjp(forward, lambda ans, x, arguments: lambda grad: gradient(grad, x, getval(ans), arguments), argnums=(0,))
    # The gradient is linear in the upstream one: its transpose there is the forward mode of the norm.
    defjvp(forward, lambda tangent, ans, x, arguments: make_vjp(
        lambda grad: written_out(grad, x, arguments))(getval(ans))[0](tangent), argnums=(0,))
    defvjp(gradient, back(0), back(1), argnums=(0, 1))
    defjvp(gradient, ahead(0), ahead(1), argnums=(0, 1))
    return forward


def unpooling(name: str, rank: int) -> Function:
    """The values to their indices; the gradient is what stands there."""
    unpool, (_, gather) = core(name, rank), routes("max_pool", rank)

    @primitive
    def forward(x: Any, indices: Any, arguments: Arguments) -> Any:
        return unpool(x, indices, **arguments)

    kept = core(name, rank, "_backward")
    linear(forward, lambda grad, x, indices, arguments: gather(grad, indices, accepted(kept, arguments)))
    return forward


def call(name: str, rank: int, make: Callable[[str, int], Function], arguments: Arguments) -> Any:
    """A call of a public function with an `x` that is being differentiated."""
    x = arguments.pop("x")
    if name in ("global_min_pool", "global_sum_pool", "global_lp_pool"):
        axis, name, rank = arguments.get("channel_axis"), name[7:], len(x.shape) - 2
        spatial = order(1 if axis is None else axis, rank + 2, rank)[-rank:]
        arguments["kernel_size"] = tuple(x.shape[i] for i in spatial)
    elif not rank:  # what is kept is kept for a rank, and the adaptive functions are
        name, rank, arguments["output_size"] = name.replace("global", "adaptive"), len(x.shape) - 2, 1
    extra = [arguments.pop(key) for key in ("indices", "return_indices") if key in arguments]
    return made(make, name, rank)(x, *extra, arguments)


@lru_cache
def made(make: Callable[[str, int], Function], name: str, rank: int) -> Function:
    return make(name, rank)


def public(make: Callable[[str, int], Function], name: str, rank: int, text: str) -> Function:
    """The public function of a family for one rank; 0 is that of any rank."""
    full = f"{name}{rank}d" if rank else name
    original: Function = getattr(functional, full)
    shown = bindings.signature(original, ("out", *bindings.MISSING))

    def pool(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = shown.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{full}() {error}") from None
        x = bound.arguments["x"]
        if not isbox(x):
            return original(*args, **kwargs)
        if not (rank or 3 <= len(x.shape) <= 5):
            bound.arguments["x"] = getval(x)
            return original(*bound.args, **bound.kwargs)  # which says what is wrong
        bound.apply_defaults()
        return call(name, rank, make, dict(bound.arguments))

    text = bindings.docstring(original, ABOUT, dict.fromkeys(("out", *bindings.MISSING)),
                              bindings.example(full, __name__, rank or 2, text, SETUP))
    return bindings.publish(pool, full, __name__, shown, text)


def family(make: Callable[[str, int], Function], name: str, text: str, ranks: Any = (1, 2, 3)) -> Any:
    """The public functions of a family; `text` is the call in the docstring's example."""
    return (public(make, name, rank, text) for rank in ranks)


max_pool1d, max_pool2d, max_pool3d = family(maximum, "max_pool", "(x, 2)")
avg_pool1d, avg_pool2d, avg_pool3d = family(average, "avg_pool", "(x, 2)")
min_pool1d, min_pool2d, min_pool3d = family(maximum, "min_pool", "(x, 2)")
sum_pool1d, sum_pool2d, sum_pool3d = family(average, "sum_pool", "(x, 2)")
lp_pool1d, lp_pool2d, lp_pool3d = family(norm, "lp_pool", "(x, 2, 2)")
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = family(maximum, "adaptive_max_pool", "(x, 2)")
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = family(average, "adaptive_avg_pool", "(x, 2)")
fractional_max_pool2d, fractional_max_pool3d = family(maximum, "fractional_max_pool", "(x, 2, 2, rng=0)", (2, 3))
max_unpool1d, max_unpool2d, max_unpool3d = family(unpooling, "max_unpool", "(x, np.zeros(x.shape, np.int32), 2)")
(global_max_pool,) = family(maximum, "global_max_pool", "(x)", (0,))
(global_avg_pool,) = family(average, "global_avg_pool", "(x)", (0,))
(global_min_pool,) = family(maximum, "global_min_pool", "(x)", (0,))
(global_sum_pool,) = family(average, "global_sum_pool", "(x)", (0,))
(global_lp_pool,) = family(norm, "global_lp_pool", "(x, 2)", (0,))
