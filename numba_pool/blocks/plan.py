"""From arrays whose blocks are axes of their own to the walk that reduces them, and to the loops that lead it there."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import prod
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from .._arrays import Array, Shape, line_of
from .._runtime import launch, watching
from . import kept, walks
from .kinds import Reduction
from .reductions import TABLE

COPIED = 1 << 20  # bytes at most of what is copied at once, where no walk takes the arrays as they are
# Blocks of up to so many elements, on so many lines, so many of a line: a walk of their own for each shape.
FEW, LINES, SIDE_BY_SIDE = 16, 8, 8
AT_ONCE = 8, 5, 4, 3, 2  # elements of a block that is one run of memory: so many are taken together
COLOURS_AT_ONCE = 4  # so many are a constant to the compiler
COLOURS = 32  # a kept axis that lies innermost is a line by itself from so many elements on


class Operands(NamedTuple):
    """Arrays of equally many axes. Those that are reduced have length 1 in `y`. Some calls have no mask, no weights."""

    x: Array
    y: Array
    mask: Array | None
    weights: Array | None


class Layout(NamedTuple):
    """All that a walk and its loops depend on of an operand."""

    shape: Shape
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    aligned: bool


Layouts = tuple[Layout | None, ...]  # of the operands


class Call(NamedTuple):
    """A reduction and the numbers that it is called with."""

    reduction: Reduction
    value: Any  # an element that is equal to it is missing
    least: int  # how many elements of a block have to be there
    fill: Any  # the result where fewer are; of a reduction that is carried, how many elements are in each sum
    ignored: Any  # what the mode leaves out
    function: Any = None  # the user's own


class Job(NamedTuple):
    """A walk, and what it is called with, but for the memory of the operands and what is in `Call`."""

    walk: Any  # compiled
    units: int
    traffic: int  # how much work they are, see `launch`
    rest: tuple[Any, ...]  # the last of its arguments
    begins: tuple[int, ...] = (0, 0, 0, 0)  # the elements in the memory of the operands that it begins with


class Loop(NamedTuple):
    """How many steps, and how many elements further each leads in the memory of every operand."""

    size: int
    x: int
    y: int
    mask: int
    weights: int


class Row(NamedTuple):
    """What one walk of the `walks` takes as a row, and the loops that remain."""

    across: int
    wide: int
    apart: int
    kept: list[Loop]
    reduced: list[Loop]


def reduce(call: Call, operands: Operands, reduced: tuple[int, ...]) -> None:
    """Fill `y` with the reductions of x, which has elements, over some axes."""
    if run(call, operands, reduced):
        return
    for piece in pieces(operands, reduced):
        arrays: list[Any] = [None if a is None else np.array(a, dtype, order="C")
                             for a, dtype in zip(piece, dtypes(call.reduction))]
        copies = Operands(*arrays)
        if not run(call, copies, reduced):
            raise AssertionError(f"no walk for arrays in C order, of shape {copies.x.shape} over axes {reduced}")
        piece.y[...] = copies.y


def run(call: Call, operands: Operands, reduced: tuple[int, ...]) -> bool:
    """Do it, if a walk takes the operands as they are."""
    job = job_for(call.reduction, call.function, layouts_of(operands), reduced)
    if job is not None:
        start(job, call, [None if a is None else memory(a) for a in operands])
    return job is not None


def start(job: Job, call: Call, memories: Sequence[Array | None]) -> None:
    """Have the walk of a job fill the memory of `y`; the memories are in the order of `Operands`."""
    args = (*(None if a is None else a[at:] if at else a for a, at in zip(memories, job.begins)), call.value,
            call.least, call.fill, call.ignored, *job.rest)
    if call.function is not None and get_ident() not in watching:  # it may raise, which threads would not tell
        job.walk(0, job.units, *args)
    else:
        launch(job.walk, job.units, job.traffic, *args)


def layouts_of(operands: Sequence[Array | None]) -> Layouts:
    return tuple([None if a is None else Layout(a.shape, a.strides, a.dtype, a.flags.aligned) for a in operands])


def dtypes(R: Reduction) -> tuple[Any, Any, Any, Any]:
    """Those that walks take the operands as."""
    return np.dtype(R.x), np.dtype(R.out), np.dtype(bool), np.dtype(np.float64)


def is_plain(a: Layout | None, dtype: Any) -> bool:
    """Whether walks may take an operand as it is."""
    return a is None or (a.dtype == dtype and a.dtype.isnative and a.aligned
                         and all(s >= 0 and s % dtype.itemsize == 0 for s, n in zip(a.strides, a.shape) if n > 1))


def pieces(operands: Operands, reduced: tuple[int, ...]) -> Iterator[Operands]:
    """The operands cut along the axes that are kept, so that each piece has at most `COPIED` bytes, or one block."""
    shape = operands.y.shape
    steps = list(shape)
    for axis in range(len(steps)):
        size = operands.x.nbytes // prod(shape) * prod(steps)
        if axis not in reduced and size > COPIED:
            steps[axis] = max(1, steps[axis] * COPIED // size)
    for begin in product(*(range(0, n, step) for n, step in zip(shape, steps))):
        at = tuple(slice(None) if axis in reduced else slice(b, b + step)
                   for axis, (b, step) in enumerate(zip(begin, steps)))
        parts: list[Any] = [None if a is None else a[(*at, ...)] for a in operands]
        yield Operands(*parts)


ONCE = Loop(1, 0, 0, 0, 0)


def steps(nest: list[Loop]) -> int:
    return prod(loop.size for loop in nest)


def table(nest: list[Loop]) -> Array:
    """Loops as walks take them."""
    return np.array(nest, np.int64).reshape(-1, 5)


def elements(nest: list[Loop]) -> Array:
    """The places that loops lead to, in their order, as a table."""
    places = np.zeros((1, 5), np.int64)
    for loop in nest:
        places = (places[:, None] + np.arange(loop.size)[:, None] * np.array(loop)).reshape(-1, 5)
    return places


def memory(a: Array) -> Array:
    """All of an array's memory from its first element to its last, in one dimension."""
    if a.flags.carray:
        return a.reshape(-1)
    n = 1 + sum((size - 1) * (stride // a.itemsize) for size, stride in zip(a.shape, a.strides))
    return line_of(a, n)


def loops(layouts: Layouts, shape: Shape, axes: Sequence[int]) -> list[Loop]:
    """Nested loops over axes of x."""
    return [Loop(shape[i], *(0 if a is None else a.strides[i] // a.dtype.itemsize for a in layouts))
            for i in axes if shape[i] > 1]


def merged(nest: list[Loop], in_memory_order: bool = True) -> list[Loop]:
    """The same steps by as few loops as possible, those that lead furthest in the memory of x outermost."""
    result: list[Loop] = []
    for loop in sorted(nest, key=lambda loop: -loop.x) if in_memory_order else nest:
        outer = result[-1] if result else None
        if outer is not None and all(a == b * loop.size for a, b in zip(outer[1:], loop[1:])):
            result[-1] = Loop(outer.size * loop.size, *loop[1:])
        else:
            result.append(loop)
    return result


def row_of(layouts: Layouts, kept: list[Loop], reduced: list[Loop]) -> Row | None:
    """How walks see merged loops, or None where a line of memory is none."""

    def side_by_side(nest: list[Loop], step: int, to: int | None) -> Loop | None:
        """The loop whose steps are so long in the memory of each operand that there is."""
        steps = [step, to, *(0 if a is None else step for a in layouts[2:])]
        return next((loop for loop in nest if all(a == b for a, b in zip(loop[1:], steps) if b is not None)), None)

    def row(colours: Loop | None, wide: Loop | None, across: Loop | None) -> Row:
        a, b, c = (1 if loop is None else loop.size for loop in (across, wide, colours))
        return Row(a, b, c, [k for k in kept if k is not colours and k is not across],
                   [r for r in reduced if r is not wide])

    wide = side_by_side(reduced, 1, None)
    if wide is not None:
        return row(None, wide, side_by_side(kept, wide.size, 1))
    line = side_by_side(kept, 1, 1)
    if line is None:
        return row(None, None, None) if not kept and not reduced else None
    wide = side_by_side(reduced, line.size, None) if line.size < COLOURS else None
    across = side_by_side(kept, line.size * wide.size, line.size) if wide is not None else None
    return row(None, None, line) if across is None else row(line, wide, across)


class Work(NamedTuple):
    """What a walk is chosen for."""

    R: Reduction
    function: Any  # the user's own
    layouts: Layouts
    kept: list[Loop]  # merged
    reduced: list[Loop]
    in_order: list[Loop]  # those that are reduced, not merged, so that the elements of a block come in row-major order

    @property
    def n(self) -> int:
        """Elements of a block."""
        return steps(self.in_order)

    @property
    def keeps(self) -> bool:
        """Whether the reduction needs all elements at once."""
        return self.R.name not in TABLE or self.R.name in kept.IN_REGISTERS


Walk = tuple[Any, int, tuple[Any, ...]]  # what is compiled, its units, and the last of its arguments


def in_registers(work: Work) -> Walk | None:
    """Blocks of few elements, each taken at once by vectors over many blocks."""
    R, reduced = work.R, work.reduced
    if work.keeps:
        if work.n not in kept.IN_REGISTERS.get(R.name, ()) or R.missing or R.option.endswith("ignore"):
            return None
        if R.name == "mode" and reduced != merged(work.in_order, in_memory_order=False):
            return None  # among equals the first wins
    row = row_of(work.layouts, work.kept, reduced) if work.n <= FEW else None
    if row is None or steps(row.reduced) > LINES or row.wide * row.apart > SIDE_BY_SIDE:
        return None
    sized = replace(R, size=work.n) if R.name == "mean" and R.option and not R.missing else R
    walk = walks.small_blocks(sized, steps(row.reduced), row.wide, row.apart)
    return walk, steps(row.kept) * -(-row.across // walks.TILE), (table(row.kept), table(row.reduced), row.across)


def by_lines(work: Work) -> Walk | None:
    """Any blocks of a reduction that accumulates."""
    row = None if work.keeps else row_of(work.layouts, work.kept, work.reduced)
    if row is None:
        return None
    units = steps(row.kept) * -(-row.across // max(walks.LINE // (row.wide * row.apart), 1))
    few = row.apart if row.apart <= COLOURS_AT_ONCE else 0
    alone = row.apart == 1 and not row.reduced
    at_once = next((n for n in AT_ONCE if row.wide % n == 0), 1) if alone else 1
    piece = min(row.wide, max(walks.LINE // row.apart, at_once) // at_once * at_once)
    primes = primes_of(piece // at_once) if few else (0,)
    return walks.large_blocks(work.R, few, at_once, primes), units, (
        table(row.kept), table(row.reduced), row.across, row.wide, row.apart, piece)


def primes_of(n: int) -> tuple[int, ...]:
    """Those of 2, 3 and 5 that divide a number, and 0 if others do."""
    primes = []
    for prime in (2, 3, 5):
        if n % prime == 0:
            primes.append(prime)
        while n % prime == 0:
            n //= prime
    return (*primes, 0) if n > 1 else tuple(primes)


def side_by_side(work: Work) -> Walk | None:
    """Blocks of few elements, all elements of many blocks in a table."""
    if work.n > kept.MANY.get(work.R.name, 0):
        return None
    *outer, across = work.kept or [ONCE]
    walk = kept.side_by_side(work.R, across.x if across.x <= SIDE_BY_SIDE else 0)
    return walk, steps(outer) * -(-across.size // kept.COLUMNS), (
        kept.network(work.n), elements(work.in_order), table(outer), np.array(across, np.int64))


def one_by_one(work: Work) -> Walk | None:
    """Any blocks of a reduction that keeps all elements."""
    if not work.keeps:
        return None
    return kept.one_by_one(work.R, work.function), steps(work.kept), (
        table(work.kept), table(work.in_order or [ONCE]))


WAYS = in_registers, by_lines, side_by_side, one_by_one  # the first that serves is taken


@lru_cache(maxsize=1024)
def job_for(R: Reduction, function: Any, layouts: Layouts, reduced: tuple[int, ...]) -> Job | None:
    """What fills `y`, or None where no walk takes the operands as they are."""
    x, y = layouts[:2]
    if x is None or y is None or not all(map(is_plain, layouts, dtypes(R))):
        return None
    in_order = loops(layouts, x.shape, reduced)
    nest = merged(loops(layouts, x.shape, [i for i in range(len(x.shape)) if i not in reduced]))
    work = Work(R, function, layouts, nest, merged(in_order), in_order)
    found = next(filter(None, (way(work) for way in WAYS)), None)
    if found is None:
        return None
    walk, units, rest = found
    return Job(walk, units, max(prod(x.shape) * x.dtype.itemsize, 4 * prod(y.shape) * y.dtype.itemsize), rest)
