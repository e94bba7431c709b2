"""What torch itself pools, with every argument that it has or that its functions can be put together for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Proxy as Proxy
from torch.nn.functional import avg_pool1d, avg_pool2d
from torch.overrides import handle_torch_function

from .._windows import LIMIT

if TYPE_CHECKING:
    from ._pools import Pool

NOTHING: dict[str, Any] = {}


def by_torch(pool: Pool, x: Any, arguments: tuple[Any, ...], more: dict[str, Any] = NOTHING) -> Any:
    """A call that the core does not compute. A `Proxy` of torch.fx records our own function, with all its arguments."""
    if isinstance(x, Proxy):
        return recorded(pool.name, x, *arguments, **more)
    if pool.indexed:
        check_limit(arguments)
    return pool.own(x, *arguments, **more)


def recorded(name: str, x: Proxy, *arguments: Any, **more: Any) -> Any:
    """The call of a public function as a node of an fx graph."""
    return handle_torch_function(getattr(sys.modules["numba_pool.torch"], name), (x,), x, *arguments, **more)


def check_limit(arguments: Any) -> None:
    """That no size of a window exceeds the core's limit: torch's own `max_pool1d` crashes by such."""
    for value in arguments:
        if isinstance(value, (tuple, list)):
            check_limit(value)
        elif isinstance(value, (int, np.integer)) and abs(int(value)) > LIMIT:
            raise ValueError(f"sizes must be at most {LIMIT}, got {value}")


def average_1d(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Tensor:
    """`avg_pool1d`, with a divisor as that of two axes, the first of length 1: torch's in 1D has none.

    Both are those at import: a user may have put ours in their place since, and they would call themselves.
    """
    if divisor_override is None:
        return avg_pool1d(x, kernel_size, stride, padding, ceil_mode, count_include_pad)
    step = kernel_size if stride is None or stride in ((), []) else stride
    kernel, step, pad = ((n, *(v if isinstance(v, (tuple, list)) else (v,)))
                         for n, v in ((1, kernel_size), (1, step), (0, padding)))
    y = avg_pool2d(x.unsqueeze(-2), kernel, step, pad, ceil_mode, count_include_pad, divisor_override)
    return y.squeeze(-2)


def total(average: Callable[..., Tensor], x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
          ceil_mode: bool = False) -> Tensor:
    """A sum: an average whose divisor is 1."""
    return average(x, kernel_size, stride, padding, ceil_mode, True, 1)


def minimum(maximum: Callable[..., Any], x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
            dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """A minimum with the arguments of a maximum."""
    return by_maximum(lambda x: maximum(x, kernel_size, stride, padding, dilation, ceil_mode,
                                        return_indices=return_indices), x, return_indices)


def by_maximum(maximum: Callable[[Any], Any], x: Any, return_indices: bool) -> Any:
    """A minimum as the maximum of numbers in reverse order. Negated integers might overflow, inverted ones do not."""
    reverse = torch.neg if torch.is_floating_point(x) else torch.bitwise_not
    result = maximum(reverse(x))
    return (reverse(result[0]), result[1]) if return_indices else reverse(result)


def own(family: str, rank: int) -> Callable[..., Any]:
    """torch's function of a family and rank, or what comes to the same."""
    if family == "min_pool":
        return partial(minimum, own("max_pool", rank))
    if family == "sum_pool":
        return partial(total, own("avg_pool", rank))
    if family == "avg_pool" and rank == 1:
        return average_1d
    function: Callable[..., Any] = getattr(F, f"{family}{rank}d")
    return function
