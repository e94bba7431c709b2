"""Calls so small that the way into the core and out of it takes longer than the core wins: torch computes them."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import torch

from .._windows import LIMIT
from ._own import NOTHING
from ._pools import ADAPTIVE, ADAPTIVE_AVERAGES, POOLS, Pool, entries
from ._tensors import PLAIN, is_last

# How many elements all windows of a call hold together, from which on the core is faster: in plain memory, and channels
# last. The first pair is for calls without a gradient, the second for forward and backward. By
# asv_benchmarks/torch_threshold.py, float32, one and two threads of an EPYC without AVX-512.
NEVER = 1 << 62
SIZES = {
    "maxima": ((1 << 15, 1 << 20), (1 << 17, 1 << 20)),
    "averages": ((1 << 16, NEVER), (1 << 16, 1 << 21)),
    "overlapping averages": ((1 << 16, 1 << 20), (1 << 16, 1 << 19)),
    "adaptive averages": ((1 << 17, NEVER), (1 << 17, 1 << 21)),
    "global averages": ((NEVER, NEVER), (1 << 18, 1 << 19)),
}
OVERLAPPING = 4  # how many windows hold an element then, at least

FULL = frozenset({torch.float32, torch.float64})
NOT_TORCHS = 0.0, "maxima"


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
        windows, kind = held(pool.name, *arguments)
    except (TypeError, ValueError):  # a list among the arguments, or what the core refuses
        return False
    size = x.numel() * windows
    plain, last = SIZES[kind][x.requires_grad and torch.is_grad_enabled()]
    return 0 < size < plain or (plain <= size < last and is_last(x, pool.rank))


@lru_cache(maxsize=1024, typed=True)
def held(name: str, *arguments: Any) -> tuple[float, str]:
    """How many windows hold an element, on average, and of which kind the call is.

    0 windows where torch has no such call, or its result may be another.
    """
    rank = POOLS[name].rank
    if name.startswith(ADAPTIVE):
        sizes = entries(arguments[0], rank)
        averages = "global averages" if set(sizes) == {1} else "adaptive averages"
        kind = averages if name.startswith(ADAPTIVE_AVERAGES) else "maxima"
        return float(all(n is None or is_size(n) for n in sizes)), kind
    if not name.startswith(("max_pool", "avg_pool")):
        return NOT_TORCHS
    kernel_size, stride, padding, *others = arguments
    kernel, pads = entries(kernel_size, rank), entries(padding, rank)
    steps = kernel if stride is None else entries(stride, rank)
    if not all(map(is_size, (*kernel, *steps))) or not all(p == 0 or is_size(p) for p in pads):
        return NOT_TORCHS
    windows = prod(kernel) / prod(steps)
    if name.startswith("max_pool"):
        dilation, _ = others
        if dilation not in (1, (1,) * rank) and any(pads):  # a window may hold no element
            return NOT_TORCHS
        return windows, "maxima"
    if others[-1] is not None and (rank == 1 or not is_size(abs(others[-1]))):
        return NOT_TORCHS
    return windows, "averages" if windows < OVERLAPPING else "overlapping averages"


def is_size(n: Any) -> bool:
    return type(n) is int and 0 < n <= LIMIT
