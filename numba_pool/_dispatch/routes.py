"""Where the gradients of maxima go: what their indices need to know of the planes they lead into."""

from math import prod
from typing import Any, NamedTuple

from .._arguments import input_shape as checked_shape
from .._windows import Grid
from ..kernels import choose_disjoint
from ..kernels._job import Plan, Shape, Spread
from .memo import MOST_CALLS, memoised, memory_of

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


# Windows of maxima with indices, by the lengths of their axes before and after: of each the last that was planned.
noted: dict[tuple[Shape, Shape], Grid] = {}


guessed: list[dict[Any, Any]] = []  # recipes that these have led to


def note(grid: Grid) -> None:
    """The windows are planned, for the first time. What others of the same lengths have led to would be tried first,
    and kept where it fails.
    """
    if len(noted) >= MOST_CALLS:
        noted.clear()
    if noted.get((grid.size, grid.output), grid) != grid:
        for recipes in guessed:
            recipes.clear()
    noted[grid.size, grid.output] = grid


@memoised
def route(grad_shape: Shape, input_shape: Any, rank: int, last: bool, itemsize: int, accumulate: bool,
          overlap: bool) -> Route:
    """Where windows are known to `overlap`, or are whatever shapes suggest."""
    shape = checked_shape(input_shape, rank, grad_shape, last)
    channels = shape[-rank - 1] if last else 1
    scatter = None
    if not overlap:
        spread = Spread(shape, grad_shape[-rank:], rank, last, itemsize, WIDE_ROW, None)
        plan = choose_disjoint(spread)
        if plan is not None:
            scatter = plan._replace(extra=(accumulate, None, *plan.rest(prod(shape) * itemsize)), asks_from=0)
    return Route(shape, channels, prod(shape[: -rank - last]), prod(shape[-rank:]), prod(grad_shape[-rank:]), scatter)


def overlaps(grid: Grid | None) -> bool:
    """Whether windows share elements."""
    return grid is not None and any(k > s and n > 1 for k, s, n in zip(grid.kernel, grid.stride, grid.output))
