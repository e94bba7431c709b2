"""Planning: from the arguments of a call and the shape of its array to a `Call`, which says what is run.

Long rows, such as signals, and planes of very many rows are cut into sections. Gradients of averages whose divisors
differ are cut into blocks. Each section or block is planned as if it were all there is.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arguments import adaptive as adaptive_output
from .._arguments import check_not_empty, check_output
from .._arguments import grid as window_grid
from .._arguments import input_shape as checked_shape
from .._arrays import Array, new, raw
from .._memory import no_room
from .._windows import (
    UniformAxis,
    adaptive_axes,
    inverse,
    outline,
    pack,
    shared_count,
    three,
)
from ..kernels import choose, choose_disjoint
from ..kernels._job import SINGLE, Call, Shape, Windows
from ..kernels.around import core, gradient_core, table_of, window_core
from ..kernels.fills import FEWEST, plan_zeros
from ..kernels.fills import plan as plan_fills
from ..kernels.nans import put_missing, put_nans
from ..kernels.scatter import plan as plan_scatter
from ..kernels.sections import along_which, blocks, sections, walk, walk_numbers, window_sections
from ..simd import LANES

MOST_BYTES = 1 << 30  # bytes of a result and its tables, from which on it is tried first whether memory holds them
LONGEST_ROW = 2**32 - 256  # elements of a row, at most
SMALL_PLANE = 1 << 11  # gradients of a plane, up to which the divisors of a plane are listed one by one

Dtype = np.dtype[Any]


def gradient(asked: Windows) -> Call:
    """The call for the gradient of these windows' averages, which have a divisor in common, as a whole."""
    return choose_disjoint(asked) or choose(asked)


def in_parts(asked: Windows, units: int, parts: tuple[Call, ...], walk: NDArray[np.int64],
             shares: tuple[tuple[Array, Array], ...] | None = None) -> Call:
    """The call for work that is cut into a first part, parts in the middle and a last part. If gradients are divided
    before they are spread, `shares` has two arrays for each part, whose products are the divisors: one with a factor
    for each place of a row (or plane), and one with a factor for each row (or plane).
    """
    array = raw(np.empty(0, asked.dtype), asked.seen)
    source = array if shares is None else np.empty(0, shares[0][0].dtype)
    places, nothing = ((np.empty(0, np.int32),), ()) if asked.indexed else ((), (None,))
    rests = [part.rest for part in parts]
    kernels = tuple(part.worker.entry((source, array, *places, *part.rest)) for part in parts)
    return Call(window_sections, units, asked.traffic(), (*nothing, shares, kernels, *rests, walk), asked.result,
                asked.indexed, asked.seen, parts=parts)


def sectioned(axes: tuple[UniformAxis, ...], asked: Windows, plan: Callable[[Windows], Call]) -> Call | None:
    """The call for long rows, or planes of many rows, that are cut into sections; None if they are not cut. `plan`
    makes the call of each section.
    """
    elements, images = asked.elements, asked.images
    cut = sections(axes, elements, images, asked.gradient)
    if cut is None or not images:
        return None
    count, sorts = cut
    along = along_which(axes)
    columns = prod(axis.size for axis in axes[along + 1 :]), prod(axis.n for axis in axes[along + 1 :])
    parts = tuple(plan(asked.part(three(section.windows), (1, elements, *[axis.size for axis in section.windows]),
                                  small=along == len(axes) - 1))
                  for section in sorts)
    units = tuple(part.units for part in parts)
    table = walk(axes[along], elements, count, sorts, units, asked.gradient, columns)
    return in_parts(asked, images * count, parts, table)


def around_core(axes: tuple[UniformAxis, ...], asked: Windows, plan: Callable[..., Call]) -> Call | None:
    """The call for windows most of which lie in the padding alone; None for others, and where elements are counted.
    `plan` makes the call for the rest of them, of a plane.
    """
    cut = core(axes)
    if cut is None or not asked.images or asked.counted:
        return None
    inner, firsts = cut
    part = plan(inner, asked.part(three(inner), (1, asked.elements, *[axis.size for axis in axes])))
    array, places = raw(np.empty(0, asked.dtype), asked.seen), (np.empty(0, np.int32),) if asked.indexed else ()
    kernel = part.worker.entry((array, array, *places, *part.rest))
    divisors, none = np.empty(0, np.float32) if asked.summed else None, () if asked.indexed else (None,)
    table = table_of(axes, inner, firsts, asked.elements, part.units)
    return Call(gradient_core if asked.gradient else window_core, asked.images, asked.traffic(),
                (*none, divisors, kernel, part.rest, table), asked.result, asked.indexed, asked.seen, parts=(part,))


def divided(asked: Windows) -> Call:
    """The call for gradients of averages whose windows have divisors of their own. Each block is divided, and then
    spread by the kernel for its windows, as if these had a divisor of 1.
    """
    axes: Any = asked.windows
    elements = asked.elements
    cut = blocks(axes, elements, asked.images)
    made: dict[tuple[int, int], tuple[Call, tuple[Array, Array]]] = {}
    for block in cut.parts:
        if (block.images, id(block.windows)) in made:  # blocks in the middle are often like the first
            continue
        alike = three(tuple(axis.replaced(width=np.ones_like(axis.width)) for axis in block.windows))
        size = tuple(axis.size for axis in alike)
        shape = (block.images, elements, *size) if asked.last else (1, block.images, *size)
        # All blocks must carry their sums in the same dtype. So they count the additions of a whole plane: of their own
        # additions, blocks at the ends have fewer than those in the middle.
        call = gradient(asked.part(alike, shape, 3, asked.additions))
        # Windows without elements count 0 of them. Their gradients go nowhere, and are divided by 1.
        depth, height, width = (np.maximum(axis.width, 1).astype(np.float64) for axis in block.windows)
        down, across = np.outer(depth, height).ravel(), np.repeat(width, elements)
        if len(down) * len(across) <= SMALL_PLANE:
            down, across = np.ones(1), np.outer(down, across).ravel()
        dtype = np.float64 if asked.dtype.itemsize == 8 else np.float32
        made[block.images, id(block.windows)] = call, (across.astype(dtype), down.astype(dtype))
    parts, shares = zip(*(made[block.images, id(block.windows)] for block in cut.parts))
    walk = walk_numbers(cut.row, 1, cut.number, cut.apart, [(b.taken, b.given) for b in cut.parts],
                        tuple(part.units for part in parts))
    return in_parts(asked, cut.rows * cut.number, parts, walk, shares)


def spread(asked: Windows) -> Call:
    """The call for the gradient of these windows' averages."""
    axes: Any = asked.windows
    if not prod(asked.output):  # no windows
        return plan_zeros(asked)
    return gradient(asked) if asked.divisor or shared_count(axes) or not asked.images else divided(asked)


def check_memory(result: Shape, *lengths: Shape) -> None:
    """Raise MemoryError for a result that memory does not hold, before its tables are made. These have up to 64 bytes
    for each window.
    """
    nbytes = prod(result) + 64 * sum(map(sum, lengths))
    if nbytes > MOST_BYTES:
        try:
            np.empty(nbytes, np.int8)
        except (MemoryError, ValueError):  # ValueError where no address reaches that far
            raise no_room(nbytes, result, "at least ") from None


def check_row(shape: Shape, rank: int, last: bool, width: int) -> None:
    """Raise ValueError for rows that are too long: kernels whose lanes are columns count a row's elements in 32 bits.
    `width` is the length of a row of the other array.
    """
    channels = shape[-rank - 1] if last and shape[-rank - 1] <= LANES else 1
    elements = max(shape[-1], width) * channels
    if elements > LONGEST_ROW:
        raise ValueError(f"a row must have at most {LONGEST_ROW} elements, times the channels in channels-last memory "
                         f"of up to {LANES}, got {elements} for an input of shape {shape}")


def with_nans(asked: Windows, call: Call) -> Call:
    """The call for these windows, whose `otherwise` puts NaN back; or puts it where all elements are missing. Sums,
    integers and packs have no need of that.
    """
    windows: Any = asked.windows
    if asked.summed or asked.dtype.kind in "iu" or asked.dtype.names:
        return call
    numbers = np.array(outline(windows, asked.channels, asked.last), np.int64)
    rest = (numbers,) if asked.indexed else (None, numbers)
    again = Call(put_missing if asked.omit else put_nans, prod(asked.result), call.traffic, rest)
    return new(Call, (*call[:-2], asked.omit, again))


def uniform(shape: Shape, rank: int, last: bool, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
            ceil_mode: bool, include_pad: bool, reduction: str, **others: Any) -> Call:
    """Windows at a constant stride; `others` are arguments of `Windows`."""
    axes = window_grid(shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode, shape, last, include_pad)
    check_row(shape, rank, last, axes[-1].n)
    asked = Windows(three(axes), shape, rank, last, reduction, **others)
    # The kernel for narrow elements allocates memory. For every section anew, that would take 9 times as long; so
    # sections are planned without it.
    call = (around_core(axes, asked, lambda core, part: sectioned(core, part, choose) or choose(part))
            or sectioned(axes, asked, choose))
    if call is None:
        check_memory(asked.result, asked.output)
        call = choose(asked)
    return with_nans(asked, call)


def uniform_backward(grad_shape: Shape, input_shape: Any, rank: int, last: bool, kernel_size: Any, stride: Any,
                     padding: Any, dilation: Any, ceil_mode: bool, include_pad: bool, dtype: Dtype = SINGLE,
                     divisor: float = 0) -> Call:
    shape = checked_shape(input_shape, rank, grad_shape, last)
    check_not_empty(shape, rank)
    axes = window_grid(shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode, shape, last, include_pad)
    asked = Windows(three(axes), shape, rank, last, "average", dtype, divisor, gradient=True)
    check_output(grad_shape, (*shape[:-rank], *asked.output), f" for input_shape {shape}")
    check_row(shape, rank, last, axes[-1].n)
    around = around_core(axes, asked, lambda core, part: spread(part))
    if around is not None:
        return around
    if prod(shape[-rank:-1]) == 1:
        filled = plan_fills(asked) if shape[-1] >= FEWEST * axes[-1].n else None
        if filled is not None:
            return filled
        if divisor or all(axis.is_even for axis in axes):
            call = sectioned(axes, asked, gradient)
            if call is not None:
                return call
    check_memory(shape, shape[-rank:], asked.output)
    return spread(asked)


def norms(shape: Shape, rank: int, last: bool, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
          ceil_mode: Any, backward: bool = False) -> Call:
    """A call for an Lp norm, without a kernel, which `functional/lp.py` chooses. It has the tables of the windows;
    those of the inverse windows, or None unless it is for a gradient of windows without dilation; and the range of
    windows along each axis that the tables are for, or None for all: most others lie in the padding alone.
    """
    axes = window_grid(shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode, shape, last)
    check_row(shape, rank, last, axes[-1].n)
    output, cut = tuple(axis.n for axis in axes), core(axes)
    inner, firsts = cut or (axes, ())
    check_memory((*shape[:-rank], *output), tuple(axis.n for axis in inner))
    windows, channels = three(inner), shape[-rank - 1]
    tables = pack(windows, channels, last, prod(shape[:-rank]))
    inverted = pack(inverse(windows), channels, last) if backward and all(axis.step == 1 for axis in axes) else None
    ranges = tuple((first, first + axis.n) for first, axis in zip(firsts, inner)) or None
    return Call(None, 0, 0, (tables, inverted, ranges), (*shape[:-rank], *output))


def adaptive(shape: Shape, rank: int, last: bool, output_size: Any, reduction: str, **others: Any) -> Call:
    """A number of windows that cover the input; `others` are arguments of `Windows`."""
    size = shape[-rank:]
    output = adaptive_output(size, output_size)
    check_row(shape, rank, last, output[-1])
    check_memory((*shape[:-rank], *output), output)
    asked = Windows(adaptive_axes(size, output), shape, rank, last, reduction, **others)
    return with_nans(asked, choose(asked))


def adaptive_backward(grad_shape: Shape, input_shape: Any, rank: int, last: bool, dtype: Dtype = SINGLE,
                      divisor: float = 0) -> Call:
    shape = checked_shape(input_shape, rank, grad_shape, last)
    check_not_empty(shape, rank)
    check_row(shape, rank, last, grad_shape[-1])
    check_memory(shape, shape[-rank:], grad_shape[-rank:])
    axes = adaptive_axes(shape[-rank:], grad_shape[-rank:])
    asked = Windows(axes, shape, rank, last, "average", dtype, divisor, gradient=True)
    return plan_fills(asked) or spread(asked)


def routed(grad_shape: Shape, input_shape: Any, rank: int, last: bool, dtype: Dtype = SINGLE,
           accumulate: bool = True) -> Call:
    """Zeros, with every gradient added where its index leads within its plane (put there, if not `accumulate`). If the
    shapes suggest windows that share no element, the call is that of a kernel for such windows, and the call of
    `scatter` is its `otherwise`. Else the call is that of `scatter`. What was called before changes nothing.
    """
    shape = checked_shape(input_shape, rank, grad_shape, last)
    asked = Windows(None, shape, rank, last, "argmax", dtype, gradient=True, accumulate=accumulate,
                    output=grad_shape[-rank:])
    call = plan_scatter(asked)
    guess = choose_disjoint(asked)
    return call if guess is None else guess._replace(otherwise=call)
