"""Calls so small that the way into the core and out of it takes longer than the core wins: torch computes them."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod
from typing import Any

import torch
from torch._C import _are_functorch_transforms_active as are_transforms_active

from .._windows import LIMIT
from ._pools import ADAPTIVE, ADAPTIVE_AVERAGES, POOLS, entries
from ._tensors import FORMATS, PLAIN

# How many elements all windows of a call hold together, from which on the core is faster: in plain memory, and channels
# last. The first pair is for calls without a gradient, the second for forward and backward. By
# asv_benchmarks/torch_threshold.py, float32, one and two threads of an EPYC without AVX-512, and by whole networks: in
# PoolFormer-S12, channels last, averages without a gradient take longer than torch's.
NEVER = 1 << 62
SIZES = {
    "maxima": ((1 << 15, 1 << 20), (1 << 17, 1 << 22)),
    "averages": ((1 << 16, NEVER), (1 << 16, 1 << 22)),
    "adaptive averages": ((1 << 17, NEVER), (1 << 17, 1 << 22)),
    "global averages": ((NEVER, NEVER), (1 << 18, 1 << 20)),
}

FULL = frozenset({torch.float32, torch.float64})
NOT_TORCHS = 0.0, "maxima"
NEITHER = ((0, 0),) * 2


def asker(name: str, rank: int) -> Callable[[Any, tuple[Any, ...]], bool]:
    """The function that says of a pooling's calls whether torch is to compute them.

    That is where torch takes less time, and its result is the same. It is asked first, since small calls can wait for
    nothing: in a network, where caches hold other things, each look-up takes them a tenth of a microsecond and more.
    What is compiled or transformed is no small call, so that all of it holds our operators.
    """
    dimensions, is_compiling, is_transformed = rank + 2, torch.compiler.is_dynamo_compiling, are_transforms_active
    channels_last = FORMATS.get(dimensions)
    known: dict[Any, tuple[int, Any]] = {}
    sizes = SIZES

    def is_small(x: Any, arguments: tuple[Any, ...]) -> bool:
        nonlocal sizes
        if (x.__class__ not in PLAIN or x.dtype not in FULL or x.dim() != dimensions or is_compiling()
                or is_transformed()):
            return False
        if sizes is not SIZES:
            known.clear()
            sizes = SIZES
        try:
            least, others = known[arguments]
        except KeyError:
            least, others = known[arguments] = elements(name, arguments)
        except TypeError:  # a list among the arguments
            return False
        count = x.numel()
        if count.__class__ is not int or not count:  # `torch.jit.trace` counts by a Tensor, and sees what becomes of it
            return False
        if count < least:
            return True
        plain, last = others[x.requires_grad and torch.is_grad_enabled()]
        if count < plain:
            return True
        return (rank > 1 and count < last and not x.is_contiguous()
                and bool(x.is_contiguous(memory_format=channels_last)))

    return is_small


def elements(name: str, arguments: tuple[Any, ...]) -> tuple[int, Any]:
    """How many elements an image has from which on the core is faster: at least, and of each mode and layout."""
    windows, kind = held(name, *arguments)
    if not windows:
        return 0, NEITHER
    counts = tuple(tuple(ceil(size / windows) for size in pair) for pair in SIZES[kind])
    return min(map(min, counts)), counts


def held(name: str, *arguments: Any) -> tuple[float, str]:
    """How many windows hold an element, on average, and of which kind the call is.

    0 windows where torch has no such call, or its result may be another.
    """
    rank = POOLS[name].rank
    if name.startswith(ADAPTIVE):
        (size,) = arguments
        sizes = size if isinstance(size, tuple) else (size,) * rank
        averages = "global averages" if set(sizes) == {1} else "adaptive averages"
        kind = averages if name.startswith(ADAPTIVE_AVERAGES) else "maxima"
        return float(size is not None and len(sizes) == rank and all(n is None or is_size(n) for n in sizes)), kind
    if not name.startswith(("max_pool", "avg_pool")):
        return NOT_TORCHS
    kernel_size, stride, padding, *others = arguments
    try:
        kernel, pads = entries(kernel_size, rank), entries(padding, rank)
        steps = kernel if stride is None else entries(stride, rank)
    except ValueError:  # what the core refuses
        return NOT_TORCHS
    if not all(map(is_size, (*kernel, *steps))) or not all(p == 0 or is_size(p) for p in pads):
        return NOT_TORCHS
    windows = prod(kernel) / prod(steps)
    if name.startswith("max_pool"):
        dilation, _ = others
        if dilation not in (1, (1,) * rank) and any(pads):  # a window may hold no element
            return NOT_TORCHS
        return windows, "maxima"
    if others[-1] is not None:  # a divisor
        return NOT_TORCHS
    return windows, "averages"


def is_size(n: Any) -> bool:
    return type(n) is int and 0 < n <= LIMIT


ASKERS = {name: asker(name, pool.rank) for name, pool in POOLS.items()}
