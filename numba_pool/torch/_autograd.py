"""Calls that nobody traces: the core at once, on NumPy views of the tensors, by way of an `autograd.Function` each.

Gradients of gradients, and batches of gradients, go by the operators of `_ops`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from .._bindings import norm_gradient, places
from . import _ops
from ._ops import operator
from ._pools import Pool, numbers
from ._tensors import FORMATS, array, call, is_last, tensor


def is_watched(grad: Tensor) -> bool:
    """Whether torch has to see what a backward does.

    It does where someone records it: for gradients of gradients, for forward mode, or to compile it. And it does where
    the gradient is more than memory: a batch of gradients, as `is_grads_batched=True` and `vmap` make, or a view that
    is yet to be negated.
    """
    return (torch.is_grad_enabled() or torch.compiler.is_compiling() or not torch._C._has_storage(grad)
            or grad.is_neg() or forward_ad._current_level >= 0)


class _Maximum(Function):
    """Any maximum. Of its input it needs the shape only, so that the input may change."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pool: Pool, arguments: Any, more: dict[str, Any], return_indices: bool) -> Any:
        last = is_last(x, pool.rank)
        a = array(x, last)
        y, places = call(a.size, pool.forward, a, *arguments, True, **more)
        ctx.kept = pool, a.shape, a.size, last
        indices = tensor(places, last)
        ctx.save_for_backward(indices)
        if not return_indices:
            return tensor(y, last)
        wide = indices.long()
        ctx.mark_non_differentiable(wide)
        return tensor(y, last), wide

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> Any:
        (indices,) = ctx.saved_tensors
        pool, shape, size, last = ctx.kept
        if is_watched(grad):
            return operator("scatter")(grad, indices, pool.name, shape, last), None, None, None, None
        gradient = call(size, pool.backward, array(grad, last), array(indices, last), shape)
        return tensor(gradient, last), None, None, None, None


class _Average(Function):
    """Any average, which is linear: its gradient needs the shapes alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pool: Pool, arguments: Any, more: dict[str, Any]) -> Any:
        last = is_last(x, pool.rank)
        a = array(x, last)
        ctx.kept = pool, a.shape, a.size, last, arguments, more
        return tensor(call(a.size, pool.forward, a, *arguments, **more), last)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        pool, shape, size, last, arguments, more = ctx.kept
        if is_watched(grad):
            given = numbers(pool, shape, arguments, more)
            return operator("spread")(grad, pool.name, given, shape, last), None, None, None
        if _ops.is_alone(pool.name, grad, last):
            return _ops.shared_by_all(grad, shape), None, None, None
        gradient = call(size, pool.backward, array(grad, last), shape, *arguments, **more)
        return tensor(gradient, last), None, None, None


class _Norm(Function):
    """Lp norms of even order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pool: Pool, arguments: Any) -> Any:
        ctx.pool, ctx.arguments, ctx.last = pool, arguments, is_last(x, pool.rank)
        y = tensor(call(x.numel(), pool.forward, array(x, ctx.last), *arguments), ctx.last)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(x, y.clone())  # as what follows may change y itself, such as ReLU(inplace=True)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        pool, last = ctx.pool, ctx.last
        x, y = ctx.saved_tensors
        if is_watched(grad):
            return watched_gradient_of_norm(grad, x, pool, ctx.arguments, last), None, None
        arrays = (array(t, last) for t in (grad, x, y))
        return tensor(call(x.numel(), pool.backward, *arrays, *ctx.arguments), last), None, None


def watched_gradient_of_norm(grad: Tensor, x: Tensor, pool: Pool, arguments: Any, last: bool) -> Tensor:
    """The gradient of an Lp norm as operations that torch can see, in float64."""
    order, kernel_size, stride, _ = arguments
    lead, plane = x.shape[: -pool.rank], x.shape[-pool.rank :]
    where, _ = places(tuple(plane), kernel_size, stride)  # without padding or ceil_mode all are inside
    windows, flat = len(where), torch.from_numpy(where.ravel())

    # `reshape` and not `flatten`, as `is_grads_batched` knows nothing else
    def take(t: Tensor) -> Tensor:
        return t.reshape(*lead, plane.numel()).index_select(-1, flat).reshape(*lead, *where.shape)

    def put(values: Tensor) -> Tensor:
        zeros = values.new_zeros((*lead, plane.numel()))
        return zeros.index_add(-1, flat, values.reshape(*lead, where.size)).reshape(x.shape)

    gradient = norm_gradient(torch, float(order), take, put, Tensor.detach, grad.reshape(*lead, windows),
                             x.double()).to(x.dtype)
    return gradient.contiguous(memory_format=FORMATS[x.dim()]) if last else gradient


class _Unpool(Function):
    """Max unpooling. The indices are the user's, and may not change before backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, indices: Tensor, pool: Pool, arguments: Any) -> Any:
        ctx.pool, ctx.last = pool, is_last(x, pool.rank)
        ctx.save_for_backward(indices)
        return tensor(call(x.numel(), pool.forward, array(x, ctx.last), array(indices, ctx.last), *arguments), ctx.last)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        gather = operator("gather") if is_watched(grad) else _ops.gather
        (indices,) = ctx.saved_tensors
        return gather(grad, indices, ctx.pool.name, ctx.last), None, None, None


def at_once(pool: Pool, x: Tensor, arguments: tuple[Any, ...], more: dict[str, Any], return_indices: bool) -> Any:
    """A maximum or an average."""
    if x.requires_grad and torch.is_grad_enabled():
        if pool.indexed:
            return _Maximum.apply(x, pool, arguments, more, return_indices)
        return _Average.apply(x, pool, arguments, more)
    last = is_last(x, pool.rank)
    if not return_indices:
        return tensor(call(x.numel(), pool.forward, array(x, last), *arguments, **more), last)
    y, indices = call(x.numel(), pool.forward, array(x, last), *arguments, True, **more)
    return tensor(y, last), tensor(indices, last).long()


def norm(pool: Pool, x: Tensor, arguments: tuple[Any, ...]) -> Any:
    """An Lp norm."""
    return _Norm.apply(x, pool, arguments)


def unpool(pool: Pool, x: Tensor, indices: Tensor, arguments: tuple[Any, ...]) -> Any:
    """Max unpooling."""
    return _Unpool.apply(x, indices, pool, arguments)
