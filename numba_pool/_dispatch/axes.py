"""Arrays with their channels, or their spatial axes, anywhere, pooled where they are."""

import re
from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

import numpy as np

from .._arguments import has_colours, integer
from .._arrays import Array, Shape, check_ndim, ndarray
from .._docstrings import names_of

ARRAYS = ("x", "grad_output", "indices", "y")  # names of arguments that are arrays with channels
SHAPES = ("input_shape", "output_size")  # names of shapes: of an entry for each axis, or of spatial axes only
R = TypeVar("R")


def in_shape_of(where: Any, given: dict[str, Any], shape: Shape) -> Any:
    """The argument `where` with all axes of the array that it broadcasts against: the forward's input. What is no such
    mask is left for the function to refuse.
    """
    shape = given.get("input_shape", shape)
    try:
        return np.broadcast_to(np.asarray(where), shape)
    except (TypeError, ValueError):
        return where


def channel_axis(axis: Any) -> int:
    """The argument `channel_axis`, checked to be an int."""
    return integer(axis, "channel_axis", "an int or None")


def channel(axis: Any, ndim: int) -> int:
    """The channels' axis of an array with `ndim` axes, counted from the first axis."""
    at = channel_axis(axis)
    if not -ndim <= at < ndim:
        raise ValueError(f"channel_axis must lie in [{-ndim}, {ndim}) for an array of {ndim} axes, got {axis}")
    return at % ndim


def order(axis: Any, ndim: int, rank: int) -> tuple[int, ...]:
    """The order of axes that turns an array with its channels at `axis` into (N, C, *spatial) or (C, *spatial)."""
    at = channel(axis, ndim)
    others = [i for i in range(ndim) if i != at]
    others.insert(ndim - rank - 1, at)
    return tuple(others)


def check_batch(shape: Shape, axis: Any) -> None:
    """That an array for global pooling is no image without a batch: three axes are a batch of 1D signals."""
    if len(shape) == 3 and channel(axis, 3) == 2 and has_colours(shape):
        raise ValueError("x must have 4 axes, (N, H, W, C), where the last one looks like that of colours, got shape "
                         f"{shape}: pass x[np.newaxis] for one image, np.expand_dims(x, 1) for a batch of 1D signals")


def along(function: Callable[..., R], given: dict[str, Any]) -> R:
    """Call `function` for arrays whose channels are at `channel_axis`. `given` are its arguments by name. The axes of
    arrays and shapes are reordered before, and those of the result after.
    """
    names = names_of(function)
    arguments = {name: given[name] for name in names if name != "channel_axis"}
    axis = channel_axis(given["channel_axis"])
    left = "x" if names[0] != "x" and given.get("x") is None else ""  # which few gradients need
    present = [name for name in names if name in ARRAYS and name != left]
    for name in present:
        arguments[name] = ndarray(arguments[name], name)  # keeps the class `Asked`, by which `explain` asks
    first = present[0]
    a = arguments[first]
    rank = getattr(function, "rank", None)
    if not isinstance(a, np.ndarray) or (rank is None and not 3 <= a.ndim <= 5):
        return function(**arguments)  # the function says what is wrong
    if rank is not None:
        check_ndim(a, rank, first, axis)
    elif first == "x":
        check_batch(a.shape, axis)
    to = order(axis, a.ndim, rank or a.ndim - 2)
    back = tuple(np.argsort(to).tolist())

    def moved(value: Any, by: Shape) -> Any:
        """An array, or each of a pair, with its axes reordered. The function refuses arrays with other axes."""
        if isinstance(value, (tuple, list)):
            both = [moved(v, by) for v in value]
            return both if isinstance(value, list) else tuple(both)
        return value.transpose(by) if isinstance(value, np.ndarray) and value.ndim == a.ndim else value

    if arguments.get("where") is not None:
        arguments["where"] = moved(in_shape_of(arguments["where"], given, a.shape), to)
    for name in names:
        if name in ARRAYS or name == "out":
            arguments[name] = moved(arguments[name], to)
        elif name in SHAPES and isinstance(arguments[name], (tuple, list)) and len(arguments[name]) == a.ndim:
            arguments[name] = tuple(arguments[name][i] for i in to)
    try:
        result: Any = function(**arguments)
    except (TypeError, ValueError) as error:
        if to != tuple(range(a.ndim)) and re.search(r"\(\d+,", str(error)):
            error.add_note(f"channel_axis={axis}: shapes in this message have the channels before the spatial axes")
        raise
    if arguments.get("out") is not None:
        result = given["out"]
    else:
        result = moved(result, back)
        if first == "grad_output" and a.flags.c_contiguous and not result.flags.c_contiguous:
            result = np.ascontiguousarray(result)  # gradients of one pixel do not show their memory order
    return result  # type: ignore[no-any-return]


def over(function: Callable[..., Array], spatial: Shape, x: Array, **arguments: Any) -> Array:
    """What a function of (N, C, *spatial) makes of an array with these axes `spatial`, in the order of its axes.

    Axes after the spatial ones become the channels, so that the memory of bands beside each other is channels last to
    the function, which pools them where they are. Axes before them become the batch, as all do of an empty array.
    """
    channels = [axis for axis in range(spatial[-1] + 1, x.ndim) if x.size]
    batch = [axis for axis in range(x.ndim) if axis not in spatial and axis not in channels]
    to = (*batch, *channels, *spatial)
    apart, joined = x.transpose(to), [prod(x.shape[axis] for axis in group) for group in (batch, channels)]
    y = function(apart.reshape(*joined, *apart.shape[len(batch + channels) :]), **arguments)
    y = y.reshape(*apart.shape[: len(batch + channels)], *y.shape[2:])
    return y.transpose(np.argsort(to).tolist())
