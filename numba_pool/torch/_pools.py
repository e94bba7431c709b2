"""The table of what there is, and what the arguments of a call come down to in whole numbers."""

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple

import torch

from .. import functional as core
from .._arrays import Array
from ._own import own

Numbers = tuple[Any, ...]


class Pool(NamedTuple):
    """One operation of one rank."""

    name: str
    rank: int
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    own: Callable[..., Any]  # torch's function, or what is put together of its functions
    indexed: bool  # a maximum or minimum, whose gradient goes by indices
    traced: bool  # whether there is an operator for it; else torch's own is traced
    single: bool  # whether CPU autocast computes it in float32
    plain: bool  # whether torch's result of channels-last memory is in plain memory


# Kinds of families: how their backward is called, and which arguments they take.
MAXIMA, AVERAGES, ADAPTIVE_MAXIMA, ADAPTIVE_AVERAGES, OTHERS = (
    ("max_pool", "min_pool"), ("avg_pool", "sum_pool"), ("adaptive_max_pool",), ("adaptive_avg_pool",),
    ("lp_pool", "fractional_max_pool", "max_unpool"),
)  # fmt: skip
ADAPTIVE = ADAPTIVE_MAXIMA + ADAPTIVE_AVERAGES
# Found by running torch 2.13 and 2.14; Lp pooling and unpooling are asked of torch itself.
AUTOCAST_TO_FLOAT32 = frozenset({"fractional_max_pool2d", "fractional_max_pool3d", "max_pool3d", "min_pool3d",
                                 "avg_pool3d", "sum_pool3d", "adaptive_max_pool3d", "adaptive_avg_pool3d"})
CHANNELS_LAST = frozenset({"max_pool2d", "min_pool2d", "avg_pool2d", "sum_pool2d", "adaptive_max_pool2d",
                           "adaptive_avg_pool2d", "lp_pool2d", "max_unpool2d", "max_pool3d", "min_pool3d"})


def without_arguments(backward: Callable[..., Array]) -> Callable[..., Array]:
    """Of adaptive averages, whose windows follow from both shapes, by the form of the other averages' backward."""

    @wraps(backward)
    def by_shapes(grad: Array, shape: Any, *arguments: Any, **more: Any) -> Array:
        return backward(grad, shape, **more)

    return by_shapes


def pool_of(family: str, rank: int) -> Pool:
    name = f"{family}{rank}d"
    backward = getattr(core, f"{name}_backward")
    if family in ADAPTIVE_AVERAGES:
        backward = without_arguments(backward)
    return Pool(name, rank, getattr(core, name), backward, own(family, rank),
                indexed=family in MAXIMA + ADAPTIVE_MAXIMA + ("fractional_max_pool",), traced=family not in OTHERS,
                single=name in AUTOCAST_TO_FLOAT32, plain=rank > 1 and name not in CHANNELS_LAST)


POOLS = {
    f"{family}{rank}d": pool_of(family, rank)
    for family in MAXIMA + AVERAGES + ADAPTIVE + OTHERS
    for rank in (1, 2, 3)
    if hasattr(core, f"{family}{rank}d")
}


def entries(value: Any, rank: int) -> Numbers:
    """One entry per axis; one alone stands for all."""
    if not isinstance(value, (tuple, list, torch.Size)):
        return (value,) * rank
    if len(value) == 1:
        return (value[0],) * rank
    if len(value) != rank:
        raise ValueError(f"expected one entry or {rank}, one per spatial axis, got {value}")
    return tuple(value)


def pads(padding: Any, spatial: Sequence[Any], kernel: Numbers, stride: Numbers, dilation: Numbers) -> Any:
    """Padding before and after, per axis."""
    rank = len(kernel)
    if not isinstance(padding, str):
        given = entries(padding, rank)
        if any(not isinstance(p, (tuple, list)) and 2 * p > k for p, k in zip(given, kernel)):
            raise ValueError(f"padding must be at most half of the kernel size {kernel}, got {padding}")
        return [p if isinstance(p, (tuple, list)) else (p, p) for p in given]
    if padding == "valid":
        return [(0, 0)] * rank
    if padding not in ("same", "same_lower"):
        raise ValueError(f"padding must be 'valid', 'same' or 'same_lower', got {padding!r}")
    both = [torch.sym_max(0, (-(-length // s) - 1) * s + d * (k - 1) + 1 - length)
            for length, k, s, d in zip(spatial, kernel, stride, dilation)]
    return [(n // 2, n - n // 2) if padding == "same" else (n - n // 2, n // 2) for n in both]


def numbers(pool: Pool, shape: Sequence[Any], arguments: Numbers, more: dict[str, Any]) -> list[Any]:
    """The arguments of a call as whole numbers, which a schema can hold; they may be symbols, as sizes of `shape` may.

    Of windows: kernel, stride, padding before, padding after and dilation of each axis, ceil_mode, count_include_pad,
    divisor. Of adaptive pooling: the output's size.
    """
    rank = pool.rank
    spatial = shape[-rank:]
    if pool.name.startswith(ADAPTIVE):
        return [n if size is None else size for n, size in zip(spatial, entries(arguments[0], rank))]
    if pool.indexed:
        kernel_size, strides, padding, dilations, ceil_mode = arguments
        include, divisor = True, None
    else:
        kernel_size, strides, padding, ceil_mode, *counted = arguments
        include, divisor = counted or (True, 1)  # of a sum
        if divisor == 0:  # which stands for none here
            raise ValueError("divisor_override must not be 0")
        if isinstance(divisor, float):
            raise TypeError(f"divisor_override must be an int where torch traces or transforms a call, got {divisor}")
        dilations = more.get("dilation", 1)
    kernel = entries(kernel_size, rank)
    stride = kernel if strides is None or strides in ((), []) else entries(strides, rank)
    dilation = entries(dilations, rank)
    before, after = zip(*pads(padding, spatial, kernel, stride, dilation))
    return [*kernel, *stride, *before, *after, *dilation, int(ceil_mode), int(include), divisor or 0]


def beyond_torch(arguments: Numbers, more: dict[str, Any]) -> bool:
    """Whether a call of windows asks for what torch has not: other padding, dilated averages."""
    if "dilation" in more:
        return True
    padding = arguments[2] if len(arguments) > 3 else 0
    return isinstance(padding, str) or (
        isinstance(padding, (tuple, list)) and any(isinstance(p, (tuple, list)) for p in padding)
    )


@lru_cache(maxsize=1024)
def arguments_of(name: str, given: Numbers) -> tuple[Numbers, dict[str, Any]]:
    """What the core takes after the array, of `numbers`; always the same objects, by which it knows a call again."""
    rank = POOLS[name].rank
    if len(given) == rank:
        return (given,), {}
    kernel, stride, before, after, dilation = (given[at : at + rank] for at in range(0, 5 * rank, rank))
    ceil, include, divisor = given[5 * rank :]
    short = before == after and all(2 * p <= k for p, k in zip(before, kernel))
    padding = before if short else tuple(zip(before, after))
    if name.startswith(MAXIMA):
        return (kernel, stride, padding, dilation, bool(ceil)), {}
    counted = () if name.startswith("sum_pool") else (bool(include), divisor or None)
    return (kernel, stride, padding, bool(ceil), *counted), {"dilation": dilation}


def output_shape(pool: Pool, shape: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """The shape of a result, of `numbers`; sizes may be symbols."""
    rank = pool.rank
    lead, spatial = list(shape[:-rank]), shape[-rank:]
    if len(given) == rank:
        return lead + list(given)
    windows = zip(*(given[at : at + rank] for at in range(0, 5 * rank, rank)))
    return lead + [output_length(n, window, given[5 * rank]) for n, window in zip(spatial, windows)]


def output_length(length: Any, window: Numbers, ceil: Any) -> Any:
    kernel, stride, before, after, dilation = window
    room = length + before + after - dilation * (kernel - 1) - 1
    n = (room + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (n - 1) * stride >= length + before:  # the last window would start in the padding behind
        n -= 1
    if n < 1:
        raise RuntimeError(f"windows of {kernel} elements with dilation {dilation} do not fit a length of {length} "
                           f"with padding {before} and {after}")
    return n
