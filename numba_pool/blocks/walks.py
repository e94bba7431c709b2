"""The loops over blocks of reductions that accumulate. `plan.py` says which one serves a call, and with which numbers.

A walk sees *rows*. A row is a number of blocks that lie side by side in memory, `across` of them. Each block takes
`wide` elements from each of a number of lines, which are runs of memory. Where colours, or whatever axis is kept, lie
innermost in memory, these elements are `apart` elements apart, and there are as many blocks in each place of the row,
one for each colour. So block j of colour c has the elements (j * wide + b) * apart + c of every line, for b < wide.

`kept` and `reduced` describe nested loops, the outermost first: how often, and how many elements further in the memory
of the operands `X`, `Y`, `MASK` and `WEIGHTS`. The loops of `kept` lead from row to row, those of `reduced` from line
to line.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import njit, types
from numba.np.numpy_support import as_dtype

from ..kernels._compile import worker
from .kinds import CALLED, INLINED, Reduction, inlined
from .reductions import empty, finish, join, lift

SIZE, X, Y, MASK, WEIGHTS = range(5)
LINE = 4096  # elements of a line that are taken at once, and whose states the caches hold
TILE = 1 << 14  # blocks of a row that one unit of work takes in registers


@njit(**INLINED)
def place(k, loops, operand):
    """Where the k-th step of nested loops is in the memory of an operand."""
    at = 0
    for i in range(loops.shape[0] - 1, 0, -1):
        at += k % loops[i, SIZE] * loops[i, operand]
        k //= loops[i, SIZE]
    return at + k * loops[0, operand] if loops.shape[0] else at


@njit(**INLINED)
def steps(loops):
    """How many steps nested loops have."""
    n = 1
    for i in range(loops.shape[0]):
        n *= loops[i, SIZE]
    return n


def line(a, at, length):
    """A line of an operand, from there on; None of an operand that a call has not."""


@inlined(line)
def _(a, at, length):
    if isinstance(a, types.NoneType):
        return lambda a, at, length: None
    return lambda a, at, length: a[at : at + length]


def present(R, v, value, mask, k):
    """Whether the k-th element of a line, `v`, is there."""


@inlined(present)
def _(R, v, value, mask, k):
    where, equal, nan = (kind in R.reduction.missing for kind in ("where", "value", "nan"))

    def present(R, v, value, mask, k):
        there = mask[k] if where else True
        if equal:
            there &= v != value
        return there & (v == v) if nan else there

    return present


def taken(R, line, k, value):
    """The state of the k-th element of a line, which is a triple of elements, mask and weights."""


@inlined(taken)
def _(R, line, k, value):
    if R.reduction.name == "weighted":
        if R.reduction.missing:
            return lambda R, line, k, value: lift(R, line[0][k], present(R, line[0][k], value, line[1], k), line[2][k])
        return lambda R, line, k, value: lift(R, line[0][k], True, line[2][k])
    if R.reduction.missing:
        return lambda R, line, k, value: lift(R, line[0][k], present(R, line[0][k], value, line[1], k), None)
    return lambda R, line, k, value: lift(R, line[0][k], True, None)


# Blocks of few elements are taken in registers: the numbers of lines and of elements are constants to the compiler.
# They are the lengths of tuples here, which a recursion counts down.


def lines(operands, at, tables, length, count):
    """As many lines as `count` is long, each at its place after `at`."""


@inlined(lines)
def _(operands, at, tables, length, count):
    def one(operands, at, tables, length, count):
        x, mask, weights = operands
        return ((line(x, at[0] + tables[0, 0], length), line(mask, at[1] + tables[0, 1], length),
                 line(weights, at[2] + tables[0, 2], length)),)

    def more(operands, at, tables, length, count):
        return lines(operands, at, tables, length, (0,)) + lines(operands, at, tables[1:], length, count[1:])

    return one if len(count) == 1 else more


def folded(R, lines, k, apart, value, wide):
    """The state of a block: as many elements as `wide` is long, from the k-th on, of each line."""


@inlined(folded)
def _(R, lines, k, apart, value, wide):
    def one(R, lines, k, apart, value, wide):
        return taken(R, lines[0], k, value)

    def of_line(R, lines, k, apart, value, wide):
        return join(R, taken(R, lines[0], k, value), folded(R, lines, k + apart, apart, value, wide[1:]))

    def of_lines(R, lines, k, apart, value, wide):
        return join(R, folded(R, lines[:1], k, apart, value, wide), folded(R, lines[1:], k, apart, value, wide))

    return of_lines if len(lines) > 1 else of_line if len(wide) > 1 else one


@cache
def small_blocks(R: Reduction, high: int, wide: int, apart: int) -> Any:
    """The walk for blocks of `high` lines of `wide` elements."""
    count, elements, n = (0,) * high, (0,) * wide, high * wide

    @worker
    def blocks_in_registers(lo, hi, x, y, mask, weights, value, least, fill, ignored, kept, reduced, across):
        """Units [lo, hi): parts of up to TILE blocks of a row."""
        tables = np.empty((high, 3), np.int64)
        for a in range(high):
            tables[a, 0], tables[a, 1] = place(a, reduced, X), place(a, reduced, MASK)
            tables[a, 2] = place(a, reduced, WEIGHTS)
        parts = (across + TILE - 1) // TILE
        for unit in range(lo, hi):
            row, first = unit // parts, unit % parts * TILE
            blocks = min(TILE, across - first)
            skip = first * wide * apart
            at = place(row, kept, X) + skip, place(row, kept, MASK) + skip, place(row, kept, WEIGHTS) + skip
            of_row = lines((x, mask, weights), at, tables, blocks * wide * apart, count)
            out = line(y, place(row, kept, Y) + first * apart, blocks * apart)
            for j in range(blocks):
                for c in range(apart):
                    s = folded(R, of_row, np.uintp(j * wide * apart + c), np.uintp(apart), value, elements)
                    out[j * apart + c] = finish(R, s, n, least, fill)
        return 0

    return blocks_in_registers


# Other blocks: the states of a piece of a line stand in arrays. All lines are joined into them, and then neighbours.


def arrays(s, size):
    """Arrays for so many states like `s`."""


@inlined(arrays)
def _(s, size):
    dtypes = [as_dtype(member) for member in s]
    one = dtypes[0]
    if len(dtypes) == 1:
        return lambda s, size: (np.empty(size, one),)
    return lambda s, size: (np.empty(size, one),) + arrays(s[1:], size)


def get(states, k):
    """The k-th state."""


@inlined(get)
def _(states, k):
    if len(states) == 1:
        return lambda states, k: (states[0][k],)
    return lambda states, k: (states[0][k],) + get(states[1:], k)


def put(states, k, s):
    """Have `s` be the k-th state."""


@inlined(put)
def _(states, k, s):
    def one(states, k, s):
        states[0][k] = s[0]

    def more(states, k, s):
        states[0][k] = s[0]
        put(states[1:], k, s[1:])

    return one if len(states) == 1 else more


@njit(**CALLED)
def clear(R, states, size):
    for k in range(size):
        put(states, k, empty(R))


@njit(**CALLED)
def take(R, states, line, size, value, elements):
    """Join the elements of a line into so many states, as many into each as `elements` is long."""
    for k in range(size):
        own = folded(R, (line,), np.uintp(k * len(elements)), np.uintp(1), value, elements)
        put(states, k, join(R, get(states, k), own))


@njit(**CALLED)
def finish_all(R, states, out, n, least, fill):
    for k in range(out.size):
        out[k] = finish(R, get(states, k), n, least, fill)


def neighbours(p: int) -> Any:
    """A function that joins each p states that lie side by side, or are as far apart as `colours` is long."""

    @njit(**CALLED)
    def joined(R, states, into, size, colours):
        apart = len(colours)
        for k in range(size):
            for c in range(apart):
                s = get(states, np.uintp(k * p * apart + c))
                for i in range(1, p):
                    s = join(R, s, get(states, np.uintp((k * p + i) * apart + c)))
                put(into, np.uintp(k * apart + c), s)

    return joined


twos, threes, fives = map(neighbours, (2, 3, 5))


@njit(**CALLED)
def any_neighbours(R, states, into, size, p, apart):
    """The same for any numbers."""
    for k in range(size):
        for c in range(apart):
            s = get(states, np.uintp(k * p * apart + c))
            for i in range(1, p):
                s = join(R, s, get(states, np.uintp((k * p + i) * apart + c)))
            put(into, np.uintp(k * apart + c), s)


@cache
def large_blocks(R: Reduction, few: int, at_once: int, primes: tuple[int, ...]) -> Any:
    """The walk for any blocks, whose elements are `few` elements apart, if that is not 0. Where they are not apart, so
    many elements of a line are taken at once. The number of the others has these primes; 0 stands for larger ones.
    """
    colours, elements = (0,) * max(few, 1), (0,) * at_once
    by_two, by_three, by_five, by_others = (prime in primes for prime in (2, 3, 5, 0))

    @worker
    def blocks_by_lines(lo, hi, x, y, mask, weights, value, least, fill, ignored, kept, reduced, across, wide, far,
                        piece):
        """Units [lo, hi): parts of as many blocks of a row as a line holds, or one, of which `piece` elements of a line
        are taken at a time.
        """
        apart = few if few else far  # the compiler knows a few
        high = steps(reduced)
        most = max(LINE // (wide * apart), 1)  # blocks of a unit
        parts = (across + most - 1) // most
        a, b = arrays(empty(R), most * piece // at_once * apart), arrays(empty(R), most * piece // at_once * apart)
        for unit in range(lo, hi):
            row, first = unit // parts, unit % parts * most
            blocks = min(most, across - first)
            clear(R, a, blocks * piece // at_once * apart)
            for i in range(high):
                for begin in range(0, wide, piece):
                    length = blocks * min(piece, wide - begin) * apart
                    skip = (first * wide + begin) * apart
                    of_row = (line(x, place(row, kept, X) + place(i, reduced, X) + skip, length),
                              line(mask, place(row, kept, MASK) + place(i, reduced, MASK) + skip, length),
                              line(weights, place(row, kept, WEIGHTS) + place(i, reduced, WEIGHTS) + skip, length))
                    take(R, a, of_row, length // at_once, value, elements)
            rest = piece // at_once
            if by_two:
                while rest % 2 == 0:
                    rest //= 2
                    twos(R, a, b, blocks * rest, colours)
                    a, b = b, a
            if by_three:
                while rest % 3 == 0:
                    rest //= 3
                    threes(R, a, b, blocks * rest, colours)
                    a, b = b, a
            if by_five:
                while rest % 5 == 0:
                    rest //= 5
                    fives(R, a, b, blocks * rest, colours)
                    a, b = b, a
            if by_others and rest > 1:
                any_neighbours(R, a, b, blocks, rest, apart)
                a, b = b, a
            out = line(y, place(row, kept, Y) + first * apart, blocks * apart)
            finish_all(R, a, out, high * wide, least, fill)
        return 0

    return blocks_by_lines
