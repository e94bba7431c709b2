"""The core as operators of torch's dispatcher, for whoever traces or transforms a call: with shapes for fake tensors,
gradients that are operators again, and rules for `vmap`.

A call that is not traced does not come here, as the dispatcher would take longer than a small pooling. The exceptions
are gradients of gradients.
"""

from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _decompositions
from ._pools import ADAPTIVE_AVERAGES, POOLS, Pool, arguments_of, numbers, output_shape
from ._tensors import CORE, FORMATS, array, call, constant, is_functionalized, is_last, is_transformed, route, tensor

LIBRARY = "numba_pool"
TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
operators: Any = getattr(torch.ops, LIBRARY)


def gathering(name: str) -> Any:
    """The core's function that gathers, of this rank."""
    return POOLS[f"max_unpool{POOLS[name].rank}d"].backward


def scattering(name: str) -> Any:
    """The core's function that adds up; unpooling itself has none."""
    pool = POOLS[name]
    return (pool if pool.indexed else POOLS[f"adaptive_max_pool{pool.rank}d"]).backward


def operator(name: str) -> Any:
    """The operator of that name, in the form that serves here."""
    if torch.compiler.is_compiling():
        return getattr(_decompositions if is_for_onnx() and hasattr(_decompositions, name) else operators, name)
    if name in TRANSFORMED and (is_transformed() or forward_ad._current_level >= 0) and not is_functionalized():
        return TRANSFORMED[name].apply
    return getattr(operators, name)


@constant
def is_for_onnx() -> bool:
    """Whether a graph is made for ONNX, which knows torch's operators alone."""
    return torch.onnx.is_in_onnx_export()


def traced(pool: Pool, x: Tensor, arguments: tuple[Any, ...], more: dict[str, Any], return_indices: bool) -> Any:
    """A maximum or an average by its operator."""
    given = numbers(pool, x.shape, arguments, more)
    if not pool.indexed:
        return operator("average")(x, pool.name, given)
    if return_indices or may_need_gradient(x):
        y, indices = operator("argmax")(x, pool.name, given)
        return (y, indices.long()) if return_indices else y
    return operator("maximum")(x, pool.name, given)


def may_need_gradient(x: Tensor) -> bool:
    """Whether to compute indices. Under `torch.func` it may be the outer levels that take a gradient."""
    if not torch.is_grad_enabled() or not x.is_floating_point():
        return False
    return x.requires_grad or not (torch.compiler.is_compiling() or route(x) is CORE)


# What they compute


def maximum(x: Tensor, name: str, given: list[int]) -> Tensor:
    last = is_last(x, POOLS[name].rank)
    arguments, _ = arguments_of(name, tuple(given))
    return tensor(call(x.numel(), POOLS[name].forward, array(x, last), *arguments), last)


def argmax(x: Tensor, name: str, given: list[int]) -> tuple[Tensor, Tensor]:
    last = is_last(x, POOLS[name].rank)
    arguments, _ = arguments_of(name, tuple(given))
    y, indices = call(x.numel(), POOLS[name].forward, array(x, last), *arguments, True)
    return tensor(y, last), tensor(indices, last)


def scatter(grad: Tensor, indices: Tensor, name: str, shape: list[int], last: bool) -> Tensor:
    """Each gradient added to the element at its index."""
    places = array(indices, last)
    return tensor(call(prod(shape), scattering(name), array(grad, last), places, tuple(shape)), last)


def gather(x: Tensor, indices: Tensor, name: str, last: bool) -> Tensor:
    """The elements at the indices; 0 at -1, the index of a window without any element."""
    a, places = array(x, last), array(indices, last)
    missing = places < 0
    if not missing.any():
        return tensor(call(x.numel(), gathering(name), a, places), last)
    y = call(x.numel(), gathering(name), a, places.clip(0))
    y[missing] = 0
    return tensor(y, last)


def average(x: Tensor, name: str, given: list[int]) -> Tensor:
    last = is_last(x, POOLS[name].rank)
    arguments, more = arguments_of(name, tuple(given))
    return tensor(call(x.numel(), POOLS[name].forward, array(x, last), *arguments, **more), last)


def spread(grad: Tensor, name: str, given: list[int], shape: list[int], last: bool) -> Tensor:
    """Each gradient shared by the elements of its window."""
    if is_alone(name, grad, last):
        return shared_by_all(grad, shape)
    arguments, more = arguments_of(name, tuple(given))
    return tensor(call(prod(shape), POOLS[name].backward, array(grad, last), tuple(shape), *arguments, **more), last)


def is_alone(name: str, grad: Tensor, last: bool) -> bool:
    """Whether a gradient is that of global averages in channels-last memory.

    Their memory does not tell the core which order they are in, and to reorder what it returns would take longer.
    """
    return last and name.startswith(ADAPTIVE_AVERAGES) and prod(grad.shape[2:]) == 1


def shared_by_all(grad: Tensor, shape: Any) -> Tensor:
    """The gradient of global averages, in channels-last memory; the same bits as the core's."""
    return empty(grad, shape, True).copy_(grad / prod(shape[2:]))


# The results' shapes and strides


def empty(like: Tensor, shape: Any, last: bool, dtype: torch.dtype | None = None) -> Tensor:
    memory_format = FORMATS[len(shape)] if last else torch.contiguous_format
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device, memory_format=memory_format)


def fake_pool(x: Tensor, name: str, given: Any) -> Tensor:
    pool = POOLS[name]
    if x.dim() not in (pool.rank + 1, pool.rank + 2):
        raise RuntimeError(f"{name} takes {pool.rank + 1} or {pool.rank + 2} dimensions, got {tuple(x.shape)}")
    return empty(x, output_shape(pool, x.shape, given), is_last(x, pool.rank))


def fake_argmax(x: Tensor, name: str, given: Any) -> tuple[Tensor, Tensor]:
    y = fake_pool(x, name, given)
    return y, torch.empty_like(y, dtype=torch.int32)


def fake_scatter(grad: Tensor, indices: Tensor, name: str, shape: Any, last: bool) -> Tensor:
    return empty(grad, shape, last)


def fake_gather(x: Tensor, indices: Tensor, name: str, last: bool) -> Tensor:
    return empty(x, indices.shape, last)


def fake_spread(grad: Tensor, name: str, given: Any, shape: Any, last: bool) -> Tensor:
    return empty(grad, shape, last)


# Gradients


def keep_argmax(ctx: Any, inputs: Any, output: Any) -> None:
    x, ctx.name, _ = inputs
    ctx.shape, ctx.last = x.shape, is_last(x, POOLS[ctx.name].rank)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def backward_of_argmax(ctx: Any, grad: Tensor, _: Any) -> Any:
    return operator("scatter")(grad, *ctx.saved_tensors, ctx.name, ctx.shape, ctx.last), None, None


def keep_scatter(ctx: Any, inputs: Any, output: Any) -> None:
    _, indices, ctx.name, _, ctx.last = inputs
    ctx.save_for_backward(indices)


def backward_of_scatter(ctx: Any, grad: Tensor) -> Any:
    return operator("gather")(grad, *ctx.saved_tensors, ctx.name, ctx.last), None, None, None, None


def keep_gather(ctx: Any, inputs: Any, output: Any) -> None:
    x, indices, ctx.name, ctx.last = inputs
    ctx.shape = x.shape
    ctx.save_for_backward(indices)


def backward_of_gather(ctx: Any, grad: Tensor) -> Any:
    return operator("scatter")(grad, *ctx.saved_tensors, ctx.name, ctx.shape, ctx.last), None, None, None


def keep_average(ctx: Any, inputs: Any, output: Any) -> None:
    x, ctx.name, ctx.given = inputs
    ctx.shape, ctx.last = x.shape, is_last(x, POOLS[ctx.name].rank)


def backward_of_average(ctx: Any, grad: Tensor) -> Any:
    return operator("spread")(grad, ctx.name, ctx.given, ctx.shape, ctx.last), None, None


def keep_spread(ctx: Any, inputs: Any, output: Any) -> None:
    _, ctx.name, ctx.given, _, _ = inputs


def backward_of_spread(ctx: Any, grad: Tensor) -> Any:
    return operator("average")(grad, ctx.name, ctx.given), None, None, None, None


# vmap: its dimension becomes part of the batch, or the batch of what has none


def folded(x: Tensor, dim: int | None, size: int, rank: int) -> Tensor:
    x = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.flatten(0, 1) if x.dim() == rank + 3 else x


def unfolded(y: Tensor, size: int, was: int) -> Tensor:
    """`was` is the number of dimensions without that of vmap."""
    return y.unflatten(0, (size, y.shape[0] // size)) if y.dim() == was else y


def vmap_of(name: str, tensors: int) -> Any:
    """The rule for an operator whose first arguments are so many tensors, or None in their place, then its name."""
    operator = getattr(operators, name)

    def rule(info: Any, dims: Any, *args: Any) -> Any:
        size, rank = info.batch_size, POOLS[args[tensors]].rank
        was = args[0].dim() - (dims[0] is not None)
        inputs = [None if x is None else folded(x, dim, size, rank) for x, dim in zip(args[:tensors], dims)]
        rest = list(args[tensors:])
        if name.endswith(("scatter", "spread")):
            shape = rest[-2]
            rest[-2] = [size * shape[0], *shape[1:]] if was == rank + 2 else [size, *shape]
        result = operator(*inputs, *rest)
        if isinstance(result, tuple):
            return tuple(unfolded(y, size, was) for y in result), (0,) * len(result)
        return unfolded(result, size, was), 0

    return rule


# The operators: their schemas, what computes them, and what computes their shapes and strides
OPERATORS = {
    "maximum": ("(Tensor x, str name, SymInt[] given) -> Tensor", maximum, fake_pool),
    "argmax": ("(Tensor x, str name, SymInt[] given) -> (Tensor, Tensor)", argmax, fake_argmax),
    "scatter": ("(Tensor grad, Tensor indices, str name, SymInt[] shape, bool last) -> Tensor", scatter, fake_scatter),
    "gather": ("(Tensor x, Tensor indices, str name, bool last) -> Tensor", gather, fake_gather),
    "average": ("(Tensor x, str name, SymInt[] given) -> Tensor", average, fake_pool),
    "spread": ("(Tensor grad, str name, SymInt[] given, SymInt[] shape, bool last) -> Tensor", spread, fake_spread),
}
GRADIENTS = {
    "argmax": (keep_argmax, backward_of_argmax),
    "scatter": (keep_scatter, backward_of_scatter),
    "gather": (keep_gather, backward_of_gather),
    "average": (keep_average, backward_of_average),
    "spread": (keep_spread, backward_of_spread),
}
TRANSFORMED: dict[str, Any] = {}


def register(table: dict[str, Any], gradients: dict[str, Any], vmap: Any) -> None:
    """Have torch know operators. It keeps them for as long as the process, however often this is imported."""
    known = hasattr(operators, next(iter(table)))
    for name, (schema, compute, fake) in () if known else table.items():
        qualified = f"{LIBRARY}::{name}"
        torch.library.define(qualified, schema, tags=TAGS)
        # This is `torch.compiler.disable` that does not load the compiler until `compute` is called.
        torch.library.impl(qualified, "CPU", torch._disable_dynamo(compute))
        torch.library.register_fake(qualified, fake)
        torch.library.register_vmap(qualified, vmap(name, schema.count("Tensor ") + schema.count("Tensor? ")))
        if name in gradients:
            keep, backward = gradients[name]
            torch.library.register_autograd(qualified, backward, setup_context=keep)
    TRANSFORMED.update({name: transformed(name, *gradient) for name, gradient in gradients.items()})


def transformed(name: str, keep: Any, backward: Any) -> Any:
    """An operator as a function that `torch.func` can differentiate, which it does not do with registered gradients."""
    methods = {"forward": getattr(operators, name), "setup_context": keep, "backward": backward}
    return type(name, (torch.autograd.Function,),
                {"generate_vmap_rule": True, **{k: staticmethod(f) for k, f in methods.items()}})


register(OPERATORS, GRADIENTS, vmap_of)
