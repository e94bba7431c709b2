"""Where the gradients of maxima go: what their indices need to know of the planes they lead into."""

from math import prod
from typing import Any, NamedTuple

from .._arguments import input_shape as checked_shape
from ..kernels import choose_disjoint
from ..kernels._job import Plan, Shape, Spread
from .memo import memoised, memory_of

WIDE_ROW = 64  # elements of a row, from which on it is long


class Route(NamedTuple):
    """What indices need to know of the planes they lead into."""

    shape: Shape  # of the result
    channels: int  # that share an image's pixels in channels-last memory, else 1
    units: int  # images or planes
    plane: int  # elements of a plane that is written
    per_plane: int  # indices of a plane
    scatter: Plan | None  # for windows that the indices may have come from, where that is worth a try

    @property
    def nbytes(self) -> int:
        """Of its tables."""
        return memory_of(self.scatter.extra) if self.scatter else 0


@memoised
def route(grad_shape: Shape, input_shape: Any, rank: int, last: bool, itemsize: int, accumulate: bool) -> Route:
    """Of windows that shapes suggest: what was called before changes nothing."""
    shape = checked_shape(input_shape, rank, grad_shape, last)
    channels = shape[-rank - 1] if last else 1
    scatter = choose_disjoint(Spread(shape, grad_shape[-rank:], rank, last, itemsize, WIDE_ROW, None))
    if scatter is not None:
        scatter = scatter._replace(extra=(accumulate, None, *scatter.rest(prod(shape) * itemsize)), asks_from=0)
    return Route(shape, channels, prod(shape[: -rank - last]), prod(shape[-rank:]), prod(grad_shape[-rank:]), scatter)
