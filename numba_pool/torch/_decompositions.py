"""Our operators in terms of torch's own, for graphs that are to run where there is no numba_pool, such as ONNX."""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ._own import by_maximum
from ._pools import ADAPTIVE, POOLS, Pool, output_shape


def decompositions() -> dict[Any, Callable[..., Any]]:
    """What replaces numba_pool's operators in an exported program, by torch's own.

    Gradients are not among it: export for inference. Sums and averages of integers are computed in float64, which holds
    them up to 2^53.

    Returns
    -------
    dict
        From operators to functions, as `torch.export.ExportedProgram.run_decompositions` takes it.

    Examples
    --------
    >>> import torch
    >>> from numba_pool.torch import MaxPool2d, decompositions
    >>> program = torch.export.export(MaxPool2d(2), (torch.rand(1, 3, 8, 8),))
    >>> program = program.run_decompositions(decompositions())
    >>> [node.name for node in program.graph.nodes if "numba_pool" in str(node.target)]
    []
    """
    return {getattr(torch.ops.numba_pool, function.__name__).default: function
            for function in (maximum, argmax, average)}


def maximum(x: Tensor, name: str, given: Any) -> Tensor:
    return pooled(x, name, given, return_indices=False)


def argmax(x: Tensor, name: str, given: Any) -> tuple[Tensor, Tensor]:
    y, indices = pooled(x, name, given, return_indices=True)
    return y, indices.int()


def average(x: Tensor, name: str, given: Any) -> Tensor:
    pool = POOLS[name]
    if not x.is_floating_point():
        return average(x.double(), name, given).trunc().long().to(x.dtype)
    if name.startswith(ADAPTIVE):
        return pool.own(x, given)
    kernel, stride, before, after, dilation, ceil, include, divisor = windows(pool, given)
    if is_torchs(kernel, before, after) and not divisor and all(d == 1 for d in dilation):
        return pool.own(x, kernel, stride, before, bool(ceil), bool(include))
    behind = room_behind(x, pool, given)
    sums = summed(padded(x, before, behind, 0), kernel, stride, dilation)
    if divisor:  # of torch's own averages, its exporter to ONNX forgets the divisor
        return sums / divisor
    ones = torch.ones((1, *x.shape[-pool.rank :]), dtype=x.dtype, device=x.device)
    inside = [torch.sym_min(p, room) for p, room in zip(after, behind)]
    outside = [room - p for p, room in zip(inside, behind)]  # what a last window has beyond the padding
    counted = padded(padded(ones, before, inside, include), [0] * pool.rank, outside, 0)
    return sums / summed(counted, kernel, stride, dilation).clamp(min=1)  # windows in the padding alone have none


def pooled(x: Tensor, name: str, given: Any, return_indices: bool) -> Any:
    """A maximum or minimum by torch. Padding that torch has not comes first, of elements that never win."""
    if name.startswith("min_pool"):
        maximum_of = partial(pooled, name=name.replace("min", "max"), given=given, return_indices=return_indices)
        return by_maximum(maximum_of, x, return_indices)
    pool = POOLS[name]
    plane, offset = x.shape[-pool.rank :], [0] * pool.rank  # which indices count in, and where x begins in it
    if name.startswith(ADAPTIVE):
        result = pool.own(x, given, return_indices)
    else:
        kernel, stride, before, after, dilation, ceil, _, _ = windows(pool, given)
        if is_torchs(kernel, before, after):
            result = pool.own(x, kernel, stride, before, dilation, bool(ceil), return_indices)
        else:
            least = -inf if x.is_floating_point() else torch.iinfo(x.dtype).min
            wide = padded(x, before, room_behind(x, pool, given), least)
            result = pool.own(wide, kernel, stride, 0, dilation, False, return_indices)
            plane, offset = wide.shape[-pool.rank :], before
    if not return_indices:
        return result
    y, places = result
    indices, step, held = torch.zeros_like(places), 1, True
    for n, length, start in zip(reversed(x.shape), reversed(plane), reversed(offset)):
        # `%`, as torch's exporter to ONNX has them count in the whole batch
        along = places % length - start
        indices, step, held = indices + along * step, step * n, (along >= 0) & (along < n) & held
        places = places // length
    return y, indices if plane == x.shape[-pool.rank :] else torch.where(held, indices, -1)


def windows(pool: Pool, given: Any) -> tuple[Any, ...]:
    """`numbers` of windows apart: lists of one entry per axis, and three single numbers."""
    rank = pool.rank
    return *(list(given[at : at + rank]) for at in range(0, 5 * rank, rank)), *given[5 * rank :]


def is_torchs(kernel: Any, before: Any, after: Any) -> bool:
    """Whether torch has such padding."""
    return all(p == q and 2 * p <= k for k, p, q in zip(kernel, before, after))


def room_behind(x: Tensor, pool: Pool, given: Any) -> list[Any]:
    """What is missing behind each axis until its last window ends; elements that are left over do no harm."""
    kernel, stride, before, _, dilation, *_ = windows(pool, given)
    rank = pool.rank
    sizes = zip(x.shape[-rank:], output_shape(pool, x.shape, given)[-rank:], kernel, stride, before, dilation)
    return [torch.sym_max(0, (count - 1) * s + d * (k - 1) + 1 - length - p) for length, count, k, s, p, d in sizes]


def padded(x: Tensor, before: Any, after: Any, value: float) -> Tensor:
    return F.pad(x, [p for pair in zip(reversed(before), reversed(after)) for p in pair], value=value)


def summed(x: Tensor, kernel: Any, stride: Any, dilation: Any) -> Tensor:
    """Sums over windows, as the convolution of each plane with ones."""
    rank = len(kernel)
    ones = torch.ones((1, 1, *kernel), dtype=x.dtype, device=x.device)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    sums = convolve(x.reshape(-1, 1, *x.shape[-rank:]), ones, stride=stride, dilation=dilation)
    return sums.reshape(*x.shape[:-rank], *sums.shape[-rank:])
