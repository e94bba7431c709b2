"""Pooling with missing elements, as operators of torch's dispatcher. Torch has no such pooling.

Every call goes by these operators, whether it is traced or not. In backward the elements that are there are a mask, so
that the gradient of an average is linear, and its own gradient an average again.
"""

from __future__ import annotations  # there may be no torch where the documentation is built

from math import prod
from typing import Any

import torch
from torch import Tensor

from ..functional._missing import is_omitted
from ._ops import empty, fake_argmax, fake_pool, may_need_gradient, operator, register, vmap_of
from ._pools import POOLS, Pool, arguments_of, numbers
from ._tensors import TORCH, array, call, is_last, route, tensor


def checked(name: str, x: Any, where: Any, called: str = "input") -> Tensor | None:
    """The mask in the shape of x, if the core takes both: torch has nothing to compute such a call by."""
    for argument, value in ((called, x), ("where", where)):
        if not isinstance(value, Tensor) and not (value is None and argument == "where"):
            raise TypeError(f"{argument} of {name} must be a Tensor, got {type(value).__name__}")
    if route(x) is TORCH:
        raise NotImplementedError(f"{name} takes dense tensors of floats or integers on the CPU, and no forward mode, "
                                  f"got {x.dtype} on {x.device}: torch itself has no such pooling")
    if where is None:
        return None
    if where.dtype is not torch.bool or not where.is_cpu:
        raise TypeError(f"where must be a Tensor of bools on the CPU, got {where.dtype} on {where.device}")
    try:
        return where.expand(x.shape)
    except RuntimeError:
        raise ValueError(f"where must broadcast against {called} of shape {tuple(x.shape)}, got shape "
                         f"{tuple(where.shape)}") from None


def pooled_present(pool: Pool, x: Tensor, arguments: tuple[Any, ...], more: dict[str, Any], return_indices: bool,
                   nan_policy: str, where: Tensor | None, min_count: int | None = None) -> Any:
    """A maximum or an average of the elements that are there."""
    where = checked(pool.name, x, where)
    omit = is_omitted(nan_policy)
    given = numbers(pool, x.shape, arguments, more)
    if not pool.indexed:
        return operator("missing_average")(x, where, pool.name, given, omit, min_count)
    if return_indices or may_need_gradient(x):
        y, indices = operator("missing_argmax")(x, where, pool.name, given, omit)
        return (y, indices.long()) if return_indices else y
    return operator("missing_maximum")(x, where, pool.name, given, omit)


# What they compute


def asked(where: Tensor | None, omit: bool) -> dict[str, Any]:
    """What the core takes by keyword."""
    return {"nan_policy": "omit" if omit else "propagate",
            "where": None if where is None else where.numpy(force=True)}


def missing_maximum(x: Tensor, where: Tensor | None, name: str, given: list[int], omit: bool) -> Tensor:
    last = is_last(x, POOLS[name].rank)
    arguments, _ = arguments_of(name, tuple(given))
    return tensor(call(x.numel(), POOLS[name].forward, array(x, last), *arguments, **asked(where, omit)), last)


def missing_argmax(x: Tensor, where: Tensor | None, name: str, given: list[int], omit: bool) -> tuple[Tensor, Tensor]:
    last = is_last(x, POOLS[name].rank)
    arguments, _ = arguments_of(name, tuple(given))
    y, indices = call(x.numel(), POOLS[name].forward, array(x, last), *arguments, True, **asked(where, omit))
    return tensor(y, last), tensor(indices, last)


def missing_average(x: Tensor, where: Tensor | None, name: str, given: list[int], omit: bool,
                    min_count: int | None) -> Tensor:
    last = is_last(x, POOLS[name].rank)
    arguments, more = arguments_of(name, tuple(given))
    y = call(x.numel(), POOLS[name].forward, array(x, last), *arguments, **more, **asked(where, omit),
             min_count=min_count)
    return tensor(y, last)


def missing_spread(grad: Tensor, where: Tensor, name: str, given: list[int], min_count: int | None, shape: list[int],
                   last: bool) -> Tensor:
    """Each gradient shared by the elements of its window that are there."""
    arguments, more = arguments_of(name, tuple(given))
    gradient = call(prod(shape), POOLS[name].backward, array(grad, last), tuple(shape), *arguments, **more,
                    **asked(where, False), min_count=min_count)
    return tensor(gradient, last)


# The results' shapes and strides


def fake_missing_pool(x: Tensor, where: Any, name: str, given: Any, omit: bool, min_count: Any = None) -> Tensor:
    return fake_pool(x, name, given)


def fake_missing_argmax(x: Tensor, where: Any, name: str, given: Any, omit: bool) -> tuple[Tensor, Tensor]:
    return fake_argmax(x, name, given)


def fake_missing_spread(grad: Tensor, where: Any, name: str, given: Any, min_count: Any, shape: Any,
                        last: bool) -> Tensor:
    return empty(grad, shape, last)


# Gradients


def present(x: Tensor | None, where: Tensor | None) -> Tensor | None:
    """The elements that are there; `x` is given where its NaN is missing."""
    if x is None:
        return where
    return ~x.isnan() if where is None else ~x.isnan() & where


def zero_at_nan(y: Tensor, of_zeros: Tensor) -> Tensor:
    """Averages in backward, where those of too few elements are 0. Zeros are NaN there, and nowhere else."""
    return y.masked_fill(of_zeros.isnan(), 0)


def keep_argmax(ctx: Any, inputs: Any, output: Any) -> None:
    x, _, ctx.name, *_ = inputs
    ctx.shape, ctx.last = x.shape, is_last(x, POOLS[ctx.name].rank)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def backward_of_argmax(ctx: Any, grad: Tensor, _: Any) -> Any:
    gradient = operator("scatter")(grad, *ctx.saved_tensors, ctx.name, ctx.shape, ctx.last)
    return gradient, None, None, None, None


def keep_average(ctx: Any, inputs: Any, output: Any) -> None:
    x, where, ctx.name, ctx.given, omit, ctx.min_count = inputs
    ctx.shape, ctx.last = x.shape, is_last(x, POOLS[ctx.name].rank)
    ctx.save_for_backward(x if omit else None, where)


def backward_of_average(ctx: Any, grad: Tensor) -> Any:
    valid = present(*ctx.saved_tensors)
    gradient = operator("missing_spread")(grad, valid, ctx.name, ctx.given, ctx.min_count, ctx.shape, ctx.last)
    return gradient, None, None, None, None, None


def keep_spread(ctx: Any, inputs: Any, output: Any) -> None:
    _, where, ctx.name, ctx.given, ctx.min_count, _, _ = inputs
    ctx.save_for_backward(where)


def backward_of_spread(ctx: Any, grad: Tensor) -> Any:
    def averages(x: Tensor) -> Tensor:
        result: Tensor = operator("missing_average")(x, *ctx.saved_tensors, ctx.name, ctx.given, False, ctx.min_count)
        return result

    gradient = zero_at_nan(averages(grad), averages(torch.zeros_like(grad)))
    return gradient, None, None, None, None, None, None


OF_MAXIMA = "(Tensor x, Tensor? where, str name, SymInt[] given, bool omit) -> "
OPERATORS = {
    "missing_maximum": (OF_MAXIMA + "Tensor", missing_maximum, fake_missing_pool),
    "missing_argmax": (OF_MAXIMA + "(Tensor, Tensor)", missing_argmax, fake_missing_argmax),
    "missing_average": ("(Tensor x, Tensor? where, str name, SymInt[] given, bool omit, SymInt? min_count) -> Tensor",
                        missing_average, fake_missing_pool),
    "missing_spread": ("(Tensor grad, Tensor where, str name, SymInt[] given, SymInt? min_count, "
                       "SymInt[] shape, bool last) -> Tensor", missing_spread, fake_missing_spread),
}  # fmt: skip
GRADIENTS = {
    "missing_argmax": (keep_argmax, backward_of_argmax),
    "missing_average": (keep_average, backward_of_average),
    "missing_spread": (keep_spread, backward_of_spread),
}
register(OPERATORS, GRADIENTS, vmap_of)
