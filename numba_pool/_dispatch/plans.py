"""All that follows from the arguments of a call and the shape of its array, but for its elements: the kernel's plan.

Long rows, as signals are, are cut into sections, and gradients whose divisors differ into blocks: each is planned as if
it were all there is.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arguments import adaptive as adaptive_output
from .._arguments import check_not_empty, check_output
from .._arguments import grid as window_grid
from .._arguments import input_shape as checked_shape
from .._memory import no_room
from .._windows import Axis, Grid, adaptive_axes, inverse, is_long, pack, shared_count, three
from ..kernels import choose, choose_disjoint
from ..kernels._job import Axes, Job, Plan, Shape, Spread, inverse_job
from ..kernels.average import plan_planes, spread_planes
from ..kernels.fills import FEWEST
from ..kernels.fills import plan as plan_fills
from ..kernels.sections import blocks, sections, walk, walk_numbers
from ..simd import LANES
from .memo import memoised, memory_of

MOST_BYTES = 1 << 30  # of a result and its tables, from which on they are asked for before they are made
LONGEST_ROW = 2**32 - 256  # elements
WIDE_AVERAGE = 32  # elements of a row, from which on it is long for gradients that are written once each
SMALL_PLANE = 1 << 11  # gradients of a plane, up to which all its divisors are listed


class Call(NamedTuple):
    """All that follows from the arguments of a call and the shape of its array."""

    plan: Plan
    shape: Shape  # of the result
    units: int
    # Where long rows are cut into sections: the plans for the first of a row, those in the middle and the last, and
    # what `walk` says. The plan is the first of these then, and units are sections.
    parts: tuple[Plan, ...] = ()
    walk: NDArray[np.int64] | None = None
    # Where gradients are divided before they are spread: for each part, what each of its rows, or planes, has of the
    # divisor, for each element, and what each of its elements has, for each row.
    shares: tuple[tuple[NDArray[Any], NDArray[Any]], ...] | None = None

    @property
    def nbytes(self) -> int:
        """Of its tables."""
        tables = [(plan.tables, plan.extra) for plan in self.parts or (self.plan,)]
        return memory_of((self.walk, self.shares, *tables))


def forward_plan(axes: Axes, shape: Shape, rank: int, last: bool, reduction: str, narrow: int = 0) -> Plan:
    """The kernel for these windows over an input of `shape`. A "norm" has kernels of its own, which take no more than
    the tables of the windows.
    """
    if reduction == "norm":
        return Plan(None, pack(axes, shape[-rank - 1], last, prod(shape[:-rank])), 0)
    return choose(Job(axes, shape, rank, last, reduction, narrow))


def gradient_plan(axes: Axes, shape: Shape, rank: int, last: bool, itemsize: int, override: bool) -> Plan:
    """The kernel for the gradient of these windows' averages."""
    if override or shared_count(axes):
        output = tuple(len(axis.start) for axis in axes)[-rank:]
        spread = Spread(shape, output, rank, last, itemsize, WIDE_AVERAGE, axes)
        plan = choose_disjoint(spread)
        if plan is not None:
            return plan
        if all(map(is_invertible, axes)):
            return choose(inverse_job(axes, shape, rank, last))
    return plan_planes(axes, shape, rank, last)


def is_invertible(axis: Axis) -> bool:
    """Whether gradients are sums over the windows that hold an element: these are a range of them, and not long."""
    return axis.step == 1 and len(axis.start) > 0 and not is_long(axis.kernel, axis.size)


def sectioned(grid: Grid, shape: Shape, rank: int, last: bool, result: Shape, include_pad: bool,
              plan: Callable[[Axes, Shape], Plan], invert: bool = False) -> Call | None:
    """The call for long rows that are cut into sections, each with a `plan` as if it were all there is; or None."""
    elements, images = shape[-rank - 1] if last else 1, prod(shape[: -rank - last])
    cut = sections(grid, elements, images, invert)
    if cut is None or not images:
        return None
    count, sorts = cut
    parts = tuple(plan(section.windows.axes(include_pad), (1, elements, *section.windows.size)) for section in sorts)
    if any(part.worker is spread_planes for part in parts):  # which takes halves widened, and planes
        return None
    units = tuple(part.units for part in parts)
    return Call(parts[0], result, images * count, parts, walk(grid, elements, count, sorts, units, invert))


def divided(axes: Axes, shape: Shape, rank: int, last: bool, itemsize: int) -> Call | None:
    """The call for gradients of averages that have divisors of their own: by blocks, each divided and then spread by
    the kernel for its windows, as if these had a divisor of 1; or None.
    """
    elements, images = shape[-rank - 1] if last else 1, prod(shape[: -rank - last])
    cut = blocks(axes, elements, images) if all(map(is_invertible, axes)) and images else None
    if cut is None:
        return None
    # Those of the whole planes, or sums at their ends would be in another arithmetic than in the middle.
    added = inverse_job(axes, shape, rank, last).additions
    made: dict[tuple[int, int], tuple[Plan, tuple[NDArray[Any], NDArray[Any]]]] = {}
    for block in cut.parts:
        if (block.images, id(block.windows)) in made:  # nearly always the second
            continue
        alike = three(tuple(axis._replace(width=np.ones_like(axis.width)) for axis in block.windows))
        size = tuple(axis.size for axis in alike)
        shape_of = (block.images, elements, *size) if last else (1, block.images, *size)
        plan = gradient_plan(alike, shape_of, 3, last, itemsize, False)
        depth, height, width = (axis.width.astype(np.float64) for axis in block.windows)
        down, across = np.outer(depth, height).ravel(), np.repeat(width, elements)
        if len(down) * len(across) <= SMALL_PLANE:
            down, across = np.ones(1), np.outer(down, across).ravel()
        dtype = np.float64 if itemsize == 8 else np.float32
        made[block.images, id(block.windows)] = (plan if plan.scatters else plan._replace(additions=added),
                                                 (across.astype(dtype), down.astype(dtype)))
    parts, shares = zip(*(made[block.images, id(block.windows)] for block in cut.parts))
    walk = walk_numbers(cut.row, 1, cut.number, cut.apart, [(b.taken, b.given) for b in cut.parts],
                        tuple(part.units for part in parts))
    return Call(parts[0], shape, cut.rows * cut.number, parts, walk, shares)


def spread_call(axes: Axes, shape: Shape, rank: int, last: bool, itemsize: int, override: bool) -> Call:
    """The call for the gradient of these windows' averages."""
    call = None if override or shared_count(axes) else divided(axes, shape, rank, last, itemsize)
    if call is not None:
        return call
    plan = gradient_plan(axes, shape, rank, last, itemsize, override)
    return Call(plan, shape, plan.units)


def check_memory(result: Shape, *lengths: Shape) -> None:
    """What no memory holds fails here, before tables of its length are made: up to 64 bytes an entry."""
    nbytes = prod(result) + 64 * sum(map(sum, lengths))
    if nbytes > MOST_BYTES:
        try:
            np.empty(nbytes, np.int8)
        except (MemoryError, ValueError):  # the latter where no address reaches that far
            raise no_room(nbytes, result, "at least ") from None


def check_row(shape: Shape, rank: int, last: bool, width: int) -> None:
    """Kernels whose lanes are columns count a row's elements in 32 bits. `width` is the other array's."""
    channels = shape[-rank - 1] if last and shape[-rank - 1] <= LANES else 1
    elements = max(shape[-1], width) * channels
    if elements > LONGEST_ROW:
        raise ValueError(f"a row must have at most {LONGEST_ROW} elements, times the channels in channels-last memory "
                         f"of up to {LANES}, got {elements} for an input of shape {shape}")


@memoised
def uniform(shape: Shape, rank: int, last: bool, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
            ceil_mode: bool, include_pad: bool, reduction: str, narrow: int = 0) -> Call:
    grid = window_grid(shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode, shape, last)
    check_row(shape, rank, last, grid.output[-1])
    result = (*shape[:-rank], *grid.output)
    if reduction != "norm":
        # `narrow_rows` allocates, for every section anew: a maximum over 3 int8 at stride 2 would take 9 times as long.
        call = sectioned(grid, shape, rank, last, result, include_pad,
                         partial(forward_plan, rank=rank, last=last, reduction=reduction))
        if call is not None:
            return call
    check_memory(result, grid.output)
    plan = forward_plan(grid.axes(include_pad), shape, rank, last, reduction, narrow)
    return Call(plan, result, plan.units)


@memoised
def uniform_backward(grad_shape: Shape, input_shape: Any, rank: int, last: bool, itemsize: int, kernel_size: Any,
                     stride: Any, padding: Any, dilation: Any, ceil_mode: bool, include_pad: bool,
                     override: bool) -> Call:
    shape = checked_shape(input_shape, rank, grad_shape, last)
    check_not_empty(shape, rank)
    grid = window_grid(shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode, shape, last)
    check_output(grad_shape, (*shape[:-rank], *grid.output), f" for input_shape {shape}")
    check_row(shape, rank, last, grid.output[-1])
    if prod(grid.size[:-1]) == 1 and grid.size[-1] >= FEWEST * grid.output[-1]:
        filled = plan_fills(grid.axes(include_pad), shape, rank, last)
        if filled is not None:
            return Call(filled, shape, filled.units)
    if override or grid.is_even(include_pad):
        call = sectioned(grid, shape, rank, last, shape, True,
                         partial(gradient_plan, rank=rank, last=last, itemsize=itemsize, override=override), True)
        if call is not None:
            return call
    check_memory(shape, shape[-rank:], grid.output)
    return spread_call(grid.axes(include_pad), shape, rank, last, itemsize, override)


@memoised
def norm_backward(shape: Shape, rank: int, last: bool, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                  ceil_mode: bool) -> Call:
    """The call of the forward, and in addition, for windows without dilation, the tables of the inverse windows."""
    call = uniform(shape, rank, last, kernel_size, stride, padding, dilation, ceil_mode, True, "norm")
    grid = window_grid(shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode, shape, last)
    tables = () if max(grid.dilation) > 1 else (pack(inverse(grid.axes()), shape[-rank - 1], last),)
    return call._replace(plan=call.plan._replace(extra=tables))


@memoised
def adaptive(shape: Shape, rank: int, last: bool, output_size: Any, reduction: str,
             narrow: int = 0) -> Call:
    size = shape[-rank:]
    output = adaptive_output(size, output_size)
    check_row(shape, rank, last, output[-1])
    check_memory((*shape[:-rank], *output), output)
    plan = forward_plan(adaptive_axes(size, output), shape, rank, last, reduction, narrow)
    return Call(plan, (*shape[:-rank], *output), plan.units)


@memoised
def adaptive_backward(grad_shape: Shape, input_shape: Any, rank: int, last: bool, itemsize: int) -> Call:
    shape = checked_shape(input_shape, rank, grad_shape, last)
    check_not_empty(shape, rank)
    check_row(shape, rank, last, grad_shape[-1])
    check_memory(shape, shape[-rank:], grad_shape[-rank:])
    axes = adaptive_axes(shape[-rank:], grad_shape[-rank:])
    filled = plan_fills(axes, shape, rank, last)
    if filled is not None:
        return Call(filled, shape, filled.units)
    return spread_call(axes, shape, rank, last, itemsize, False)
