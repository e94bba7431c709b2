"""Pooling over segments, the rows of ragged batches, as operators of torch's dispatcher."""

from __future__ import annotations  # there may be no torch where the documentation is built

from math import prod
from typing import Any

import torch
from torch import Tensor

from .. import functional as core
from ..functional._missing import is_omitted
from ._missing import asked, checked, present, zero_at_nan
from ._ops import may_need_gradient, operator, operators, register
from ._own import Proxy, recorded
from ._tensors import array, call, tensor


def pooled(name: str, x: Any, offsets: Any, nan_policy: str, where: Tensor | None, **indexed: bool) -> Any:
    """A reduction of all segments. `indexed` is the argument `return_indices` of those that have it."""
    if isinstance(x, Proxy):
        return recorded(name, x, offsets, nan_policy=nan_policy, where=where, **indexed)
    mask = checked(name, x, where, "x")
    arguments = x, torch.as_tensor(offsets, device="cpu"), mask, name, is_omitted(nan_policy)
    if not indexed:
        return operator("segment_average")(*arguments)
    if indexed["return_indices"] or may_need_gradient(x):
        y, indices = operator("segment_argmax")(*arguments)
        return (y, indices.long()) if indexed["return_indices"] else y
    return operator("segment_maximum")(*arguments)


# What they compute


def pool(x: Tensor, offsets: Tensor, where: Tensor | None, name: str, omit: bool) -> Tensor:
    """Maxima without indices, averages and sums."""
    return tensor(call(x.numel(), getattr(core, name), array(x, False), array(offsets, False), **asked(where, omit)),
                  False)


def argmax(x: Tensor, offsets: Tensor, where: Tensor | None, name: str, omit: bool) -> tuple[Tensor, Tensor]:
    y, indices = call(x.numel(), getattr(core, name), array(x, False), array(offsets, False), True,
                      **asked(where, omit))
    return tensor(y, False), tensor(indices, False)


def scatter(grad: Tensor, indices: Tensor, shape: list[int]) -> Tensor:
    """Each gradient added to the row at its index."""
    return tensor(call(prod(shape), core.segment_max_pool_backward, array(grad, False), array(indices, False),
                       tuple(shape)), False)


def spread(grad: Tensor, offsets: Tensor, where: Tensor | None, name: str, shape: list[int]) -> Tensor:
    """Each gradient shared by the rows of its segment."""
    backward = getattr(core, f"{name}_backward")
    return tensor(call(prod(shape), backward, array(grad, False), array(offsets, False), tuple(shape),
                       **asked(where, False)), False)


def begin(given: Tensor, name: str, count: int | None) -> Tensor:
    """The offsets; `name` says what they are made of."""
    return tensor(core.segment_offsets(**{name: array(given, False)}, count=count), False)


# The results' shapes


def fake_pool(x: Tensor, offsets: Tensor, where: Any, name: str, omit: bool) -> Tensor:
    if x.dim() < 1 or offsets.dim() != 1:
        raise ValueError(f"{name} takes rows and one axis of offsets, got {tuple(x.shape)} and {tuple(offsets.shape)}")
    return torch.empty((offsets.shape[0] - 1, *x.shape[1:]), dtype=x.dtype, device=x.device)


def fake_argmax(x: Tensor, offsets: Tensor, where: Any, name: str, omit: bool) -> tuple[Tensor, Tensor]:
    y = fake_pool(x, offsets, where, name, omit)
    return y, torch.empty_like(y, dtype=torch.int32)


def fake_gradient(grad: Tensor, *others: Any) -> Tensor:
    return torch.empty(others[-1], dtype=grad.dtype, device=grad.device)


def fake_begin(given: Tensor, name: str, count: Any) -> Tensor:
    if name == "lengths":
        count = given.shape[0]
    elif count is None:
        count = torch.library.get_ctx().new_dynamic_size() - 1
    return torch.empty(count + 1, dtype=torch.int64, device=given.device)


# Gradients


def keep_argmax(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.shape = inputs[0].shape
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def backward_of_argmax(ctx: Any, grad: Tensor, _: Any) -> Any:
    return operator("segment_scatter")(grad, *ctx.saved_tensors, ctx.shape), None, None, None, None


def keep_scatter(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[1])


def backward_of_scatter(ctx: Any, grad: Tensor) -> Any:
    (indices,) = ctx.saved_tensors
    if not grad.shape[0]:
        return grad.new_zeros(indices.shape), None, None
    return grad.gather(0, indices.clamp_min(0).long()).masked_fill(indices < 0, 0), None, None


def keep_average(ctx: Any, inputs: Any, output: Any) -> None:
    x, offsets, where, ctx.name, omit = inputs
    ctx.shape = x.shape
    ctx.save_for_backward(offsets, x if omit else None, where)


def backward_of_average(ctx: Any, grad: Tensor) -> Any:
    offsets, *missing = ctx.saved_tensors
    gradient = operator("segment_spread")(grad, offsets, present(*missing), ctx.name, ctx.shape)
    return gradient, None, None, None, None


def keep_spread(ctx: Any, inputs: Any, output: Any) -> None:
    _, offsets, where, ctx.name, _ = inputs
    ctx.save_for_backward(offsets, where)


def backward_of_spread(ctx: Any, grad: Tensor) -> Any:
    def averages(x: Tensor) -> Tensor:
        result: Tensor = operator("segment_average")(x, *ctx.saved_tensors, ctx.name, False)
        return result

    return zero_at_nan(averages(grad), averages(torch.zeros_like(grad))), None, None, None, None


# vmap: its dimension becomes one of channels


def vmap_of(name: str, tensors: int) -> Any:
    """The rule for an operator whose first arguments are so many tensors, or None in their place."""

    def rule(info: Any, dims: Any, *args: Any) -> Any:
        def moved(at: int) -> Any:
            x, dim, by_offsets = args[at], dims[at], at == 1 and name != "segment_scatter"
            if x is None or (by_offsets and dim is None):
                return x
            if by_offsets or name == "segment_offsets":
                raise NotImplementedError(f"{name} does not vmap over offsets, lengths or ids: put all segments in one "
                                          "call")
            return x.movedim(dim, 1) if dim is not None else x.unsqueeze(1).expand(-1, info.batch_size, *x.shape[1:])

        rest = list(args[tensors:])
        if name in ("segment_scatter", "segment_spread"):
            rest[-1] = [rest[-1][0], info.batch_size, *rest[-1][1:]]
        result = getattr(operators, name)(*map(moved, range(tensors)), *rest)
        return result, (1, 1) if isinstance(result, tuple) else 1

    return rule


ROWS = "(Tensor x, Tensor offsets, Tensor? where, str name, bool omit) -> "
OPERATORS = {
    "segment_maximum": (ROWS + "Tensor", pool, fake_pool),
    "segment_argmax": (ROWS + "(Tensor, Tensor)", argmax, fake_argmax),
    "segment_scatter": ("(Tensor grad, Tensor indices, SymInt[] shape) -> Tensor", scatter, fake_gradient),
    "segment_average": (ROWS + "Tensor", pool, fake_pool),
    "segment_spread": ("(Tensor grad, Tensor offsets, Tensor? where, str name, SymInt[] shape) -> Tensor", spread,
                       fake_gradient),
    "segment_offsets": ("(Tensor given, str name, SymInt? count) -> Tensor", begin, fake_begin),
}  # fmt: skip
GRADIENTS = {
    "segment_argmax": (keep_argmax, backward_of_argmax),
    "segment_scatter": (keep_scatter, backward_of_scatter),
    "segment_average": (keep_average, backward_of_average),
    "segment_spread": (keep_spread, backward_of_spread),
}
register(OPERATORS, GRADIENTS, vmap_of)


def segment_offsets(*, lengths: Any = None, ids: Any = None, count: int | None = None) -> Tensor:
    """Where segments begin, by their lengths or by the number of the segment that each row is in.

    Parameters
    ----------
    lengths : Tensor or list of integers
        How many rows each segment has.
    ids : Tensor or list of integers
        In the place of lengths: for each row the number of its segment, from 0 on. They must be sorted.
    count : int, optional
        How many segments there are; those that no row is in are empty. By default one more than the last of `ids`.

    Returns
    -------
    int64 Tensor, one more than there are segments
        As functions of segments take it.

    Raises
    ------
    ValueError, TypeError
        For anything else.

    Examples
    --------
    >>> from numba_pool.torch import segment_offsets
    >>> segment_offsets(lengths=[2, 0, 3])
    tensor([0, 2, 2, 5])
    >>> segment_offsets(ids=[0, 0, 2, 2, 2], count=4)
    tensor([0, 2, 2, 5, 5])
    """
    if (lengths is None) == (ids is None):
        raise TypeError(f"segment_offsets takes either lengths or ids, got {'neither' if ids is None else 'both'}")
    name, given = ("ids", ids) if lengths is None else ("lengths", lengths)
    if not isinstance(given, Tensor):
        return torch.from_numpy(core.segment_offsets(lengths=lengths, ids=ids, count=count))
    result: Tensor = operators.segment_offsets(given, name, count)
    return result


# Results of an example
RESULTS = {"max": "(tensor([3., 5.]), tensor([0, 3]))", "min": "(tensor([1., 5.]), tensor([1, 3]))",
           "avg": "tensor([2., 5.])", "sum": "tensor([6., 5.])"}
WORDS = {"max": "Maximum", "min": "Minimum", "avg": "Average", "sum": "Sum"}


def named(function: Any, kind: str) -> Any:
    """The function made for one reduction, with its public name, and its words in the docstring."""
    function.__name__ = function.__qualname__ = f"segment_{kind}_pool"
    function.__module__ = "numba_pool.torch"
    if function.__doc__:  # which `python -OO` leaves out
        function.__doc__ = function.__doc__.format(Word=WORDS[kind], kind=kind, result=RESULTS[kind])
    return function


def _extreme(kind: str) -> Any:
    def segment_pool(x: Tensor, offsets: Any, return_indices: bool = False, *, nan_policy: str = "propagate",
                     where: Tensor | None = None) -> Any:
        """{Word} over segments of the rows, column by column.

        Parameters
        ----------
        x : Tensor, shape (rows, *channels)
            float32, float64, float16, bfloat16 or any integer type, on the CPU.
        offsets : Tensor of integers, shape (segments + 1,)
            Segment s has the rows ``offsets[s]`` to ``offsets[s + 1] - 1``: see `segment_offsets`.
        return_indices : bool
            Return ``(output, indices)``: the rows that won, as int64; -1 of an empty segment.
        nan_policy : 'propagate' or 'omit'
            Whether NaN wins, or is missing.
        where : bool Tensor, optional
            Elements are missing where it is False. It broadcasts against `x`.

        Returns
        -------
        Tensor of shape (segments, *channels), or (Tensor, Tensor)
            Of an empty segment it is what loses to all numbers, and NaN where elements may be missing.

        Raises
        ------
        ValueError, TypeError
            For offsets that fall or that leave the rows, and other wrong arguments.
        NotImplementedError
            Where numba_pool cannot compute: other devices, forward mode.

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import segment_{kind}_pool
        >>> segment_{kind}_pool(torch.tensor([3.0, 1.0, 2.0, 5.0]), [0, 3, 4], return_indices=True)
        {result}
        """
        return pooled(f"segment_{kind}_pool", x, offsets, nan_policy, where, return_indices=return_indices)

    return named(segment_pool, kind)


def _total(kind: str) -> Any:
    def segment_pool(x: Tensor, offsets: Any, *, nan_policy: str = "propagate", where: Tensor | None = None) -> Tensor:
        """{Word} over segments of the rows, column by column.

        Parameters
        ----------
        x, offsets, nan_policy, where
            As of `segment_max_pool`.

        Returns
        -------
        Tensor of shape (segments, *channels)
            0 of an empty segment; an average of nothing is NaN where elements may be missing.

        Raises
        ------
        ValueError, TypeError, NotImplementedError
            As of `segment_max_pool`.

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import segment_{kind}_pool
        >>> segment_{kind}_pool(torch.tensor([3.0, 1.0, 2.0, 5.0]), [0, 3, 4])
        {result}
        """
        return pooled(f"segment_{kind}_pool", x, offsets, nan_policy, where)

    return named(segment_pool, kind)


segment_max_pool, segment_min_pool = map(_extreme, ("max", "min"))
segment_avg_pool, segment_sum_pool = map(_total, ("avg", "sum"))
segment_offsets.__module__ = "numba_pool.torch"
