"""Calls so small that the way into the core and out of it takes longer than the core wins: torch computes them."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import torch

from .._windows import LIMIT
from ._own import NOTHING
from ._pools import ADAPTIVE, POOLS, Pool, entries
from ._tensors import PLAIN, is_last

# How many elements all windows of a call hold together, from which on the core is faster: in plain memory, and channels
# last. The first pair is for calls without a gradient, the second for forward and backward. By
# asv_benchmarks/torch_threshold.py, float32, one thread of an EPYC without AVX-512. Where two kinds differ, the size is
# between theirs: channels last without a gradient maxima gain from 2^17, averages from 2^21.
SIZES = (1 << 14, 1 << 18), (1 << 15, 1 << 20)

FULL = frozenset({torch.float32, torch.float64})


def is_small(pool: Pool, x: Any, arguments: tuple[Any, ...], more: dict[str, Any]) -> bool:
    """Whether torch is to compute a call, as it takes less time for it, and its result is the same.

    This is asked first, since small calls can wait for nothing else. What is compiled, traced, transformed or
    dispatched by a mode is no small call, so that all of it holds our operators.
    """
    if (x.__class__ not in PLAIN or more is not NOTHING or x.dtype not in FULL or x.dim() != pool.rank + 2
            or torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack()
            or torch._C._are_functorch_transforms_active() or torch._C._get_tracing_state()):
        return False
    try:
        size = x.numel() * held(pool.name, *arguments)
    except (TypeError, ValueError):  # a list among the arguments, or what the core refuses
        return False
    plain, last = SIZES[x.requires_grad and torch.is_grad_enabled()]
    return 0 < size < plain or (plain <= size < last and is_last(x, pool.rank))


@lru_cache(maxsize=1024, typed=True)
def held(name: str, *arguments: Any) -> float:
    """How many windows hold an element, on average. 0 where torch has no such call, or its result may be another."""
    rank = POOLS[name].rank
    if name.startswith(ADAPTIVE):
        return float(all(n is None or is_size(n) for n in entries(arguments[0], rank)))
    if not name.startswith(("max_pool", "avg_pool")):
        return 0
    kernel_size, stride, padding, *others = arguments
    kernel, pads = entries(kernel_size, rank), entries(padding, rank)
    steps = kernel if stride is None else entries(stride, rank)
    if not all(map(is_size, (*kernel, *steps))) or not all(p == 0 or is_size(p) for p in pads):
        return 0
    if name.startswith("max_pool"):
        dilation, _ = others
        if dilation not in (1, (1,) * rank) and any(pads):  # a window may hold no element
            return 0
    elif others[-1] is not None and (rank == 1 or not is_size(abs(others[-1]))):
        return 0
    return prod(kernel) / prod(steps)


def is_size(n: Any) -> bool:
    return type(n) is int and 0 < n <= LIMIT
