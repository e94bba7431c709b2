"""Reductions that need all elements of a block at once: the median, the mode, and functions of the user's.

Blocks of few elements are laid side by side in a table: a column holds a block, so that what is done to a row
of the table is done to many blocks at once, by vectors. The elements of a larger block are taken one by one.
"""

from functools import cache, lru_cache
from typing import Any

import numpy as np
from numba import njit

from ..kernels._compile import worker
from .kinds import CALLED, INLINED, Reduction, extremes, inlined, is_float, number
from .reductions import TABLE
from .sums import LOW, is_rounded_twice, pair_of, picked, rounding
from .walks import MASK, SIZE, X, Y, place, present, steps

# Up to so many elements. From then on counting a block's values one by one is faster: 16 elements of labels take 0.6 of
# the time, 64 a fifth (Zen 5).
MANY = {"median": 256, "mode": 15}
COLUMNS = 64


def middle(R, a, b):
    """The median where a <= b are the two in the middle; they are one element twice if a block has an odd number."""


@inlined(middle)
def _(R, a, b):
    x, out, option = number(R.reduction.x), number(R.reduction.out), R.reduction.option
    if option == "lower":
        return lambda R, a, b: out(picked(R, a))
    if option == "upper":
        return lambda R, a, b: out(picked(R, b))
    is_wide = np.dtype(R.reduction.x).itemsize == 8
    if (is_wide and is_rounded_twice(R.reduction)) or (R.reduction.half and R.reduction.x == "float32"):
        return once_rounded(R.reduction)
    if R.reduction.x in ("float32", "float64"):
        half = x(0.5)

        def half_way(R, a, b):
            s = a + b  # infinite, too, for large numbers
            return out(a if a == b else half * s if abs(s) < np.inf else half * a + half * b)

        return half_way
    if np.dtype(R.reduction.out).kind == "f":
        return lambda R, a, b: out(a if a == b else 0.5 * (np.float64(a) + np.float64(b)))
    one = x(1)

    def rounded(R, a, b):
        low, odd = x((a & b) + ((a ^ b) >> one)), x((a ^ b) & one)  # the mean rounded down, and whether it was
        up = odd & low if option == "even" else odd if (low >= 0) == (option == "nearest") else x(0)
        return out(x(low + up))

    return rounded


def once_rounded(R: Reduction) -> Any:
    """`middle` for results of fewer bits than a float64 has."""
    out, rounded = number(R.out), rounding(R)

    def of_floats(R, a, b):
        a, b = np.float64(a), np.float64(b)
        s = a + b
        t = s - a
        lost = (a - (s - t)) + (b - t)
        return out(a if a == b else rounded(s, lost, 2.0) if abs(s) < np.inf else 0.5 * a + 0.5 * b)

    low = number(R.x)(LOW)

    def of_integers(R, a, b):
        s, lost = pair_of(np.int64(a >> 32) + np.int64(b >> 32), np.int64(a & low) + np.int64(b & low))
        return out(rounded(s, lost, 2.0))

    return of_floats if is_float(R.x) else of_integers


def same(R, a, b):
    """Whether two elements are one value to the mode."""


@inlined(same)
def _(R, a, b):
    if np.dtype(R.reduction.x).kind == "f":
        return lambda R, a, b: (a == b) | ((a != a) & (b != b))
    return lambda R, a, b: a == b


def beats(R, v, count, best, most):
    """Whether `v`, which is there `count` times, beats an earlier element that is there `most` times."""


@inlined(beats)
def _(R, v, count, best, most):
    if R.reduction.option.startswith("lowest"):
        return lambda R, v, count, best, most: (count > most) | ((count == most) & ((v < best) | (best != best)))
    return lambda R, v, count, best, most: count > most


def counting(R: Reduction) -> Any:
    """A type to count in that is as wide as the elements, for vectors of as many lanes."""
    return np.dtype(f"int{8 * np.dtype(R.x).itemsize}").type


# Few elements, in registers: the state of a block is the tuple of its elements.


class Elements:
    def empty(R):
        return lambda R: ()

    def lift(R):
        return lambda R, v: (v,)

    def join(R):
        return lambda R, a, b: a + b


def median_of(R, s):
    """The median of two or four elements."""


@inlined(median_of)
def _(R, s):
    def of_two(R, s):
        a, b = s
        return middle(R, min(a, b), max(a, b))

    def of_four(R, s):
        a, b, c, d = s
        p, q = max(min(a, b), min(c, d)), min(max(a, b), max(c, d))
        return middle(R, min(p, q), max(p, q))

    return of_four if len(s) == 4 else of_two


class Median(Elements):
    def finish(R):
        if not is_float(R.x):
            return lambda R, s, n: median_of(R, s)
        nan = number(R.out)(np.nan)
        return lambda R, s, n: nan if has_nan(s) else median_of(R, s)


def has_nan(s):
    """Whether a NaN is among elements."""


@inlined(has_nan)
def _(s):
    return (lambda s: s[0] != s[0]) if len(s) == 1 else (lambda s: (s[0] != s[0]) | has_nan(s[1:]))


def repeated(R, v, rest):
    """How often a value is there in the rest of a block."""


@inlined(repeated)
def _(R, v, rest):
    count = counting(R.reduction)
    if len(rest) == 0:
        return lambda R, v, rest: count(0)
    return lambda R, v, rest: count(count(same(R, v, rest[0])) + repeated(R, v, rest[1:]))


def mode_of(R, rest, best, most):
    """The mode of the rest of a block and an earlier element that is there `most` times."""


@inlined(mode_of)
def _(R, rest, best, most):
    if len(rest) == 0:
        return lambda R, rest, best, most: best

    def mode(R, rest, best, most):
        v, count = rest[0], repeated(R, rest[0], rest[1:])
        wins = beats(R, v, count, best, most)
        return mode_of(R, rest[1:], v if wins else best, count if wins else most)

    return mode


class Mode(Elements):
    def finish(R):
        return lambda R, s, n: picked(R, mode_of(R, s[1:], s[0], repeated(R, s[0], s[1:])))


TABLE.update(median=Median, mode=Mode)
IN_REGISTERS = {"median": (2, 4), "mode": (2, 3, 4, 6, 8)}  # blocks of how many elements


# Tables.


@cache
def network(n: int) -> np.ndarray[Any, Any]:
    """Rows of a table to compare and exchange, pair by pair, so that all columns of n are sorted. Source: Batcher's
    odd-even mergesort, Knuth, TAOCP 3, 5.2.2 M.
    """
    pairs = []
    merged = 1
    while merged < n:
        apart = merged
        while apart:
            for first in range(apart % merged, n - apart, 2 * apart):
                pairs += [(i, i + apart) for i in range(first, min(first + apart, n - apart))
                          if i // (2 * merged) == (i + apart) // (2 * merged)]
            apart //= 2
        merged *= 2
    return np.array(pairs, np.int64).reshape(-1, 2)


@njit(**CALLED)
def exchange(a, b):
    """The lesser elements of two rows into the first, the greater ones into the second."""
    for j in range(a.size):
        v, w = a[j], b[j]
        a[j], b[j] = (w, v) if w < v else (v, w)


@njit(**CALLED)
def note_nan(row, nan):
    for j in range(row.size):
        nan[j] |= row[j] != row[j]


@njit(**CALLED)
def middles(R, a, b, result):
    for j in range(result.size):
        result[j] = middle(R, a[j], b[j])


@njit(**CALLED)
def count_same(R, a, b, valid, count):
    for j in range(a.size):
        count[j] += same(R, a[j], b[j]) & valid[j]


@njit(**CALLED)
def choose(R, v, valid, count, best, most):
    for j in range(v.size):
        wins = valid[j] & beats(R, v[j], count[j], best[j], most[j])
        best[j], most[j] = v[j] if wins else best[j], count[j] if wins else most[j]


def of_mode(R, v):
    """A result of `of_table`: of modes one of the elements, as users get it."""


@inlined(of_mode)
def _(R, v):
    return (lambda R, v: picked(R, v)) if R.reduction.name == "mode" else lambda R, v: v


def of_table(R, table, valid, there, ignored, pairs, result):
    """Reduce every column."""


@inlined(of_table)
def _(R, table, valid, there, ignored, pairs, result):
    reduction = R.reduction
    floats, some, count = np.dtype(reduction.x).kind == "f", bool(reduction.missing), counting(reduction)
    greatest, ignores = extremes(reduction.x)[1], reduction.option.endswith("ignore")

    def median(R, table, valid, there, ignored, pairs, result):
        n, width = table.shape
        nan = np.zeros(width, np.bool_)
        for k in range(n):
            if some:
                for j in range(width):
                    table[k, j] = table[k, j] if valid[k, j] else greatest
            if floats:
                note_nan(table[k], nan)
        for p in range(pairs.shape[0]):
            exchange(table[np.uintp(pairs[p, 0])], table[np.uintp(pairs[p, 1])])
        if some:
            for j in range(width):
                m = max(there[j], 1)
                result[j] = middle(R, table[(m - 1) // 2, j], table[m // 2, j])
        else:
            middles(R, table[(n - 1) // 2], table[n // 2], result)
        if floats:
            for j in range(width):
                if nan[j]:
                    result[j] = np.nan

    def mode(R, table, valid, there, ignored, pairs, result):
        n, width = table.shape
        most, counts = np.full(width, -1, count), np.empty(width, count)
        for k in range(n):
            counts[:] = 1
            for other in range(k + 1, n):
                count_same(R, table[k], table[other], valid[other], counts)
            if ignores:
                for j in range(width):
                    if same(R, table[k, j], ignored):
                        counts[j] = 0
            choose(R, table[k], valid[k], counts, result, most)

    return median if reduction.name == "median" else mode


@cache
def side_by_side(R: Reduction, apart: int) -> Any:
    """The walk for blocks of few elements, which lie `apart` elements apart, if that is not 0."""
    some = bool(R.missing)
    x_type = np.dtype(R.x).type
    chosen = np.dtype(R.x if R.name == "mode" else R.out).type  # of modes the elements

    @worker
    def blocks_side_by_side(lo, hi, x, y, mask, weights, value, least, fill, ignored, pairs, elements, kept, row):
        """Units [lo, hi): `COLUMNS` blocks of a row, or those that are left."""
        n, across = elements.shape[0], row[SIZE]
        parts = (across + COLUMNS - 1) // COLUMNS
        whole, valid = np.empty((n, COLUMNS), x_type), np.ones((n, COLUMNS), np.bool_)
        results, there = np.empty(COLUMNS, chosen), np.full(COLUMNS, n, np.int64)
        step = apart if apart else row[X]
        for unit in range(lo, hi):
            first = unit % parts * COLUMNS
            width = min(COLUMNS, across - first)
            at = place(unit // parts, kept, X) + first * row[X]
            beside = place(unit // parts, kept, MASK) + first * row[MASK]
            table, result = whole[:, :width], results[:width]
            if some:
                there[:] = 0
            for k in range(n):
                source, into = x[at + elements[k, X] :], table[k]
                for j in range(width):
                    into[j] = source[np.uintp(j * step)]
                if some:
                    for j in range(width):
                        ok = present(R, into[j], value, mask, beside + elements[k, MASK] + j * row[MASK])
                        valid[k, j] = ok
                        there[j] += ok
            of_table(R, table, valid, there, ignored, pairs, result)
            to = place(unit // parts, kept, Y) + first * row[Y]
            for j in range(width):
                y[to + j * row[Y]] = fill if there[j] < least else of_mode(R, result[j])
        return 0

    return blocks_side_by_side


# Blocks one by one.


@njit(**CALLED)
def select(a, k):
    """The k-th smallest element, which then stands there, with smaller ones before it. Source: Hoare's FIND, 1961.

    Pivots are drawn, so that no order of elements makes it slow.
    """
    left, right, drawn = 0, a.size - 1, np.uint64(1)
    while left < right:
        drawn = drawn * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        pivot = a[left + np.int64((drawn >> np.uint64(33)) % np.uint64(right - left + 1))]
        i, j = left, right
        while i <= j:
            while a[i] < pivot:
                i += 1
            while pivot < a[j]:
                j -= 1
            if i <= j:
                a[i], a[j] = a[j], a[i]
                i += 1
                j -= 1
        if j < k:
            left = i
        if k < i:
            right = j
    return a[k]


def words_of(R, block):
    """The elements of a block as integers."""


@inlined(words_of)
def _(R, block):
    if not is_float(R.reduction.x):
        return lambda R, block: block
    whole = np.dtype(f"uint{8 * np.dtype(R.reduction.x).itemsize}")
    return lambda R, block: block.view(whole)


@njit(**INLINED)
def home(v, word, size):
    """The slot of a value in a table of so many. Source: Knuth, TAOCP 3, 6.4."""
    if v != v or v == 0:  # all NaN are one value, and so are both zeros
        word = np.uint64(v == 0)
    return (((word ^ (word >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & np.uint64(size - 1)


@njit(**CALLED)
def count_from(R, block, words, begin, firsts, counts, values, slots):
    """Count elements from `begin` on until there are more values than room. Where that is, and how many values."""
    last = -1
    for i in range(begin, block.size):
        v = block[i]
        if last < 0 or not same(R, v, block[firsts[last]]):  # labels lie side by side
            k = home(v, np.uint64(words[i]), slots.size)
            while slots[k] >= 0 and not same(R, v, block[firsts[slots[k]]]):
                k = (k + np.uint64(1)) & np.uint64(slots.size - 1)
            if slots[k] < 0:
                if values == firsts.size:
                    return i, values
                slots[k], firsts[values], counts[values] = values, i, 0
                values += 1
            last = slots[k]
        counts[last] += 1
    return block.size, values


@njit(**CALLED)
def count_all(R, block):
    """Of each value the first element that has it, in the order of the block, and how many have it."""
    words = words_of(R, block)
    firsts, counts, slots = np.empty(32, np.int64), np.empty(32, np.int64), np.full(64, -1)
    done, values = count_from(R, block, words, 0, firsts, counts, 0, slots)
    while done < block.size:
        firsts, counts, slots = np.append(firsts, firsts), np.append(counts, counts), np.full(4 * values, -1)
        for value in range(values):
            k = home(block[firsts[value]], np.uint64(words[firsts[value]]), slots.size)
            while slots[k] >= 0:
                k = (k + np.uint64(1)) & np.uint64(slots.size - 1)
            slots[k] = value
        done, values = count_from(R, block, words, done, firsts, counts, values, slots)
    return firsts[:values], counts[:values]


def of_elements(R, function, block, ignored):
    """Reduce the elements of one block, at least one."""


@inlined(of_elements)
def _(R, function, block, ignored):
    reduction = R.reduction
    floats, ignores = np.dtype(reduction.x).kind == "f", reduction.option.endswith("ignore")

    def median(R, function, block, ignored):
        if floats:
            for v in block:
                if v != v:
                    return middle(R, v, v)
        n = block.size
        high = select(block, n // 2)
        return middle(R, block[: n // 2].max() if n % 2 == 0 else high, high)

    def mode(R, function, block, ignored):
        firsts, counts = count_all(R, block)
        best, most = block[0], -1
        for k in range(firsts.size):
            v = block[firsts[k]]
            count = 0 if ignores and same(R, v, ignored) else counts[k]
            if beats(R, v, count, best, most):
                best, most = v, count
        return of_mode(R, best)

    def users(R, function, block, ignored):
        return function(block)

    return {"median": median, "mode": mode}.get(reduction.name, users)


@lru_cache(maxsize=256)
def one_by_one(R: Reduction, function: Any = None) -> Any:
    """The walk for any blocks."""
    some, out = bool(R.missing), np.dtype(R.out).type
    x_type = np.dtype(R.x).type

    def blocks_one_by_one(lo, hi, x, y, mask, weights, value, least, fill, ignored, kept, reduced):
        """Units [lo, hi): a block each. The loops of `reduced` lead through a block in row-major order."""
        n, last = steps(reduced), reduced.shape[0] - 1
        whole = np.empty(n, x_type)
        for unit in range(lo, hi):
            at, beside, there = place(unit, kept, X), place(unit, kept, MASK), 0
            for i in range(n // reduced[last, SIZE]):
                begin, side = at + place(i, reduced[:last], X), beside + place(i, reduced[:last], MASK)
                for b in range(reduced[last, SIZE]):
                    v = x[begin + b * reduced[last, X]]
                    if not some or present(R, v, value, mask, side + b * reduced[last, MASK]):
                        whole[there] = v
                        there += 1
            to = place(unit, kept, Y)
            y[to] = fill if there < max(least, 1) else out(of_elements(R, function, whole[:there], ignored))
        return 0

    if function is not None:  # the disk would not notice that it was changed
        return njit(nogil=True)(blocks_one_by_one)
    return worker(blocks_one_by_one)
