"""The shape of a result, without computing it."""

import inspect
from collections.abc import Callable
from typing import Any

from .. import _arguments as arguments
from .. import _arrays as arrays
from .._arrays import Planes, Shape
from .._dispatch.axes import check_batch, order
from .._windows import UniformAxis
from .fractional import resolve_output
from .segments import offsets_of
from .unpool import unpooled_shape


def output_shape(function: Callable[..., Any], shape: Any, *args: Any, **kwargs: Any) -> Shape:
    """Shape of what a forward function returns for an array of a shape. Nothing is computed or allocated.

    Parameters
    ----------
    function : function
        A forward function of this package, such as `max_pool2d`.
    shape : tuple of ints
        Shape of its input.
    *args, **kwargs
        What the function takes after its input; unpooling without the indices.

    Returns
    -------
    tuple of ints

    Raises
    ------
    ValueError, TypeError
        As the function does; TypeError for what is no forward function.

    Examples
    --------
    >>> import numba_pool
    >>> numba_pool.output_shape(numba_pool.max_pool2d, (8, 3, 32, 32), 3, 2, padding=1)
    (8, 3, 16, 16)
    """
    name = getattr(function, "__name__", "")
    if (getattr(function, "__module__", ""), name) == ("numba_pool.blocks.coarsening", "coarsen"):
        return coarsened_shape(function, shape, *args, **kwargs)
    if (getattr(function, "__module__", ""), name) in SEGMENTS:
        return of_segments(function, shape, *args, **kwargs)
    family = name.rstrip("d").rstrip("123")
    if family not in FAMILIES or getattr(function, "__module__", "").partition(".")[0] != "numba_pool":
        raise TypeError(f"output_shape takes a forward function of numba_pool, got {function!r}")
    between = (None,) if family == "max_unpool" else ()  # the indices
    given = inspect.signature(function).bind(None, *between, *args, **kwargs)
    given.apply_defaults()
    named = given.arguments
    lengths = arguments.lengths(shape, "shape")
    rank = getattr(function, "rank", None) or len(lengths) - 2
    if len(lengths) not in ((rank + 1, rank + 2) if hasattr(function, "rank") else (3, 4, 5)):
        raise ValueError(f"shape must be that of an input of {name}, with {rank} spatial axes, got {lengths}")
    axis = named.get("channel_axis")
    if not hasattr(function, "rank") and axis is not None:
        check_batch(lengths, axis)
    to = tuple(range(len(lengths))) if axis is None else order(axis, len(lengths), rank)
    first = tuple(lengths[i] for i in to)
    arrays.check_not_empty(first, rank, "x")
    result = (*first[:-rank], *FAMILIES[family](first, rank, named))
    return tuple(result[to.index(i)] for i in range(len(to)))


def coarsened_shape(function: Callable[..., Any], shape: Any, *args: Any, **kwargs: Any) -> Shape:
    from ..blocks.coarsening import blocks

    given = inspect.signature(function).bind(None, *args, **kwargs)
    given.apply_defaults()
    named = given.arguments
    return blocks(arguments.lengths(shape, "shape"), named["windows"], named["boundary"], named["side"]).shape


def of_segments(function: Callable[..., Any], shape: Any, *args: Any, **kwargs: Any) -> Shape:
    given = inspect.signature(function).bind(None, *args, **kwargs).arguments
    rows, *channels = lengths = arguments.lengths(shape, "shape")
    return len(offsets_of(given["offsets"], rows, lengths)) - 1, *channels


def windows_of(shape: Shape, rank: int, given: dict[str, Any]) -> tuple[UniformAxis, ...]:
    """The windows of a call with such arguments, by name, for an array whose channels stand before the spatial axes."""
    return arguments.grid(shape[-rank:], given["kernel_size"], given["stride"], given["padding"], given["dilation"],
                         given["ceil_mode"], shape, given.get("channel_axis") is not None)


def sliding(shape: Shape, rank: int, given: dict[str, Any]) -> Shape:
    return tuple(axis.n for axis in windows_of(shape, rank, given))


def adaptive(shape: Shape, rank: int, given: dict[str, Any]) -> Shape:
    return arguments.adaptive(shape[-rank:], given["output_size"])


def whole(shape: Shape, rank: int, given: dict[str, Any]) -> Shape:
    return (1,) * rank


def fractional(shape: Shape, rank: int, given: dict[str, Any]) -> Shape:
    return resolve_output(shape[-rank:], given["output_size"], given["output_ratio"])


def unpooled(shape: Shape, rank: int, given: dict[str, Any]) -> Shape:
    planes = Planes(None, shape, rank, False)  # type: ignore[arg-type]
    return unpooled_shape(planes, given["kernel_size"], given["stride"], given["padding"], given["output_size"])[-rank:]


FAMILIES: dict[str, Callable[[Shape, int, dict[str, Any]], Shape]] = {
    **dict.fromkeys(("max_pool", "min_pool", "avg_pool", "sum_pool", "lp_pool"), sliding),
    **dict.fromkeys(("adaptive_max_pool", "adaptive_avg_pool"), adaptive),
    **dict.fromkeys(("global_max_pool", "global_min_pool", "global_avg_pool", "global_sum_pool"), whole),
    "fractional_max_pool": fractional,
    "max_unpool": unpooled,
}
SEGMENTS = {("numba_pool.functional", f"segment_{kind}_pool") for kind in ("max", "min", "avg", "sum")}
