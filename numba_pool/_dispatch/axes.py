"""`channel_axis`: arrays with their channels at any axis, pooled where they are."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .._arguments import integer
from .._arrays import Shape

ARRAYS = ("x", "grad_output", "indices", "y")  # arguments that have channels
SHAPES = ("input_shape", "output_size")  # and those that are as long as an array has axes, or of the spatial ones only
R = TypeVar("R")


def order(axis: Any, ndim: int, rank: int) -> tuple[int, ...]:
    """For each axis of (N, C, *spatial) or (C, *spatial) which it is of an array whose channels are at `axis`."""
    at = integer(axis, "channel_axis")
    if not -ndim <= at < ndim:
        raise ValueError(f"channel_axis must lie in [{-ndim}, {ndim}) for an array of {ndim} axes, got {axis}")
    others = [i for i in range(ndim) if i != at % ndim]
    others.insert(ndim - rank - 1, at % ndim)
    return tuple(others)


def along(function: Callable[..., R], given: dict[str, Any]) -> R:
    """What `function` returns for the arguments that it was given, by name, with their channels at a `channel_axis`."""
    code: Any = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    arguments = {name: given[name] for name in names if name != "channel_axis"}
    first = next(name for name in names if name in ARRAYS)
    a = arguments[first] = np.asanyarray(arguments[first])  # one that `explain` asks with stays what it is
    rank = getattr(function, "rank", None) or a.ndim - 2
    if a.ndim not in (rank + 1, rank + 2):
        return function(**arguments)  # which says what is wrong
    to = order(given["channel_axis"], a.ndim, rank)
    back = tuple(np.argsort(to).tolist())

    def moved(value: Any, by: Shape) -> Any:
        if isinstance(value, (tuple, list)):
            return tuple(moved(v, by) for v in value)
        if value is None or np.ndim(value) != a.ndim:
            return value
        return np.asanyarray(value).transpose(by)

    for name in names:
        if name in ARRAYS or name == "out":
            arguments[name] = moved(arguments[name], to)
        elif name in SHAPES and isinstance(arguments[name], (tuple, list)) and len(arguments[name]) == a.ndim:
            arguments[name] = tuple(arguments[name][i] for i in to)
    result: Any = function(**arguments)
    if arguments.get("out") is not None:
        result = given["out"]
    else:
        result = moved(result, back)
        if first == "grad_output" and a.flags.c_contiguous and not result.flags.c_contiguous:
            result = np.ascontiguousarray(result)  # of one-pixel gradients nothing told the memory order
    return result  # type: ignore[no-any-return]
