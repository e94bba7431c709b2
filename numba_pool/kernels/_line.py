"""Parts of the walk of `lines`: what a line holds, and how two lines are joined."""

from numba import types
from numba.extending import overload

from ..simd import (
    LANES,
    NOWHERE,
    add,
    convert,
    equal,
    finite_or_inf,
    first_among,
    greater,
    indices,
    load,
    load_some,
    number,
    overtakes,
    select,
    store,
)
from ._compile import INLINED, by_types, helper, inlined
from ._reductions import joined

# The state of sixteen windows is a pair: a vector of numbers, and a vector of their indices, or None where no indices
# are wanted. The index of a missing element is NOWHERE.


def found_at(values, places, at):
    """Sixteen elements of a line, from `at` on: (numbers, indices or None)."""


@overload(found_at, jit_options=INLINED)
def _found_at(values, places, at):
    if isinstance(places, types.NoneType):
        return lambda values, places, at: (load(values, at), None)
    return lambda values, places, at: (load(values, at), load(places, at))


@inlined
def keep(values, places, at, a, ia):
    """Put sixteen numbers, and their indices unless these are None, into a line from `at` on."""
    store(values, at, a)
    if places is not None:
        store(places, at, ia)


def join_parts(b, ib, a, ia, divisor):
    """Join two parts of a window, in whichever order: of equal maxima the one with the smaller index wins."""


@overload(join_parts, jit_options=INLINED)
def _join_parts(b, ib, a, ia, divisor):
    if isinstance(ia, types.NoneType):
        return lambda b, ib, a, ia, divisor: (joined(a, b, divisor), None)
    return lambda b, ib, a, ia, divisor: first_among(b, ib, a, ia)


def join_later(b, ib, a, ia, divisor):
    """The same in half the time, where each element of the part b comes after all of a, or is in a as well."""


@overload(join_later, jit_options=INLINED)
def _join_later(b, ib, a, ia, divisor):
    if isinstance(ia, types.NoneType):
        return lambda b, ib, a, ia, divisor: (joined(a, b, divisor), None)
    return lambda b, ib, a, ia, divisor: (greater(b, a), select(overtakes(b, a), ib, ia))


def nowhere_of(places):
    """A vector of the index that stands for no element; None if `places` is None."""


@overload(nowhere_of, jit_options=INLINED)
def _nowhere_of(places):
    if isinstance(places, types.NoneType):
        return lambda places: None
    return lambda places: indices(NOWHERE, 0)


def with_rows(pair, places, x, at, hops, rows, masks, spot, pad, none, divisor):
    """Join more rows to 32 columns, two vectors side by side. `pair` is (numbers, numbers, indices or None, indices or
    None) of both vectors so far, and so is what is returned. `rows` is the range of the list of `hops` whose rows join.
    """


@overload(with_rows, jit_options=INLINED)
def _with_rows(pair, places, x, at, hops, rows, masks, spot, pad, none, divisor):
    def alone(pair, places, x, at, hops, rows, masks, spot, pad, none, divisor):
        a, b = pair[0], pair[1]
        for row in range(rows[0], rows[1]):
            i = at + number(hops, row)
            va = convert(none, load_some(x, i, masks[0], pad))
            vb = convert(none, load_some(x, i + LANES, masks[1], pad))
            if divisor is None:
                va, vb = finite_or_inf(va), finite_or_inf(vb)
            a, b = joined(a, va, divisor), joined(b, vb, divisor)
        return a, b, None, None

    def indexed(pair, places, x, at, hops, rows, masks, spot, pad, none, divisor):
        a, b, ia, ib = pair
        first, stop = rows
        if first == 0:  # the first row's elements win if no other is larger
            i, first = at + number(hops, 0), 1
            a = finite_or_inf(load_some(x, i, masks[0], pad))
            b = finite_or_inf(load_some(x, i + LANES, masks[1], pad))
            ia, ib = spot[0], spot[1]
        for row in range(first, stop):
            i, hop = at + number(hops, row), indices(number(places, row), 0)
            va = finite_or_inf(load_some(x, i, masks[0], pad))
            vb = finite_or_inf(load_some(x, i + LANES, masks[1], pad))
            ia, ib = select(overtakes(va, a), add(spot[0], hop), ia), select(overtakes(vb, b), add(spot[1], hop), ib)
            a, b = greater(va, a), greater(vb, b)
        return a, b, ia, ib

    return alone if isinstance(pair[2], types.NoneType) else indexed


def placed(mask, ia):
    """The indices `ia`, but NOWHERE where the mask is not set; `ia` if one of both is None."""


@overload(placed, jit_options=INLINED)
def _placed(mask, ia):
    if isinstance(ia, types.NoneType) or isinstance(mask, types.NoneType):
        return lambda mask, ia: ia
    return lambda mask, ia: select(mask, ia, indices(NOWHERE, 0))


@inlined
def clear(line, first, stop, none):
    """Let elements [first, stop) of a line, and up to a vector more, hold the neutral element."""
    for c in range(first, stop, LANES):
        keep(line[0], line[1], c, none, nowhere_of(line[1]))


@inlined
def put_found(to, to_index, at, r, ri):
    """Put sixteen results, and their indices, -1 for NOWHERE, to where they gather."""
    store(to, at, convert(to, r))
    if to_index is not None:
        store(to_index, at, select(equal(ri, indices(NOWHERE, 0)), indices(-1, 0), ri))


@helper
def join_lines(line, first, later, to, span, in_order, divisor):
    """Join two lines of the same arrays, which begin at the elements `first` and `later`, to a line that begins at
    element `to`. Are they `in_order`, so that `join_later` may join them?
    """
    values, places = line
    for c in range(span[0], span[1], LANES):
        b, ib = found_at(values, places, later + c)
        a, ia = found_at(values, places, first + c)
        if in_order:
            a, ia = join_later(b, ib, a, ia, divisor)
        else:
            a, ia = join_parts(b, ib, a, ia, divisor)
        keep(values, places, to + c, a, ia)


def pass_along(line, parts, size, wide, step, in_order, divisor):
    """Reduce the `size` elements of a line in passes. After these, each column stands for `wide` columns: itself and
    its neighbours to the right. Neighbours are `step` elements apart.

    Maxima are doubled: of one column, of two, of four. Sums are made of 1, 4, 16, ... columns, and a window is put
    together from these by the digits of its width in base 4. `parts` holds what is put together so far, from the last
    digit on.
    """


@by_types(pass_along)
def _pass_along(line, parts, size, wide, step, in_order, divisor):
    return double_along if isinstance(divisor, types.NoneType) else add_along


def double_along(line, parts, size, wide, step, in_order, divisor):
    width = 1
    while width < wide:
        join_lines(line, 0, width * step, 0, (0, size - (2 * width - 1) * step), in_order, divisor)
        width *= 2


def add_along(line, parts, size, wide, step, in_order, divisor):
    # `left` has the digits that are left. A part is a sum of `count` columns, and an element of the line of `width`.
    values, left, count, width = line[0], wide, 0, 1
    while left >= 4:
        digit, left = left % 4, left // 4
        hop = width * step
        whole = size - (4 * width - 1) * step  # sums of four times as many columns
        for c in range(0, size - max(count + digit * width - 1, 0) * step if digit else whole, LANES):
            p = pair = load(values, c)
            if digit > 1 or c < whole:  # else the second is not needed, and may lie beyond the line
                pair = add(p, load(values, c + hop))
            if digit > 1:
                p = pair
            if digit > 2:
                p = add(p, load(values, c + 2 * hop))
            if digit:
                if count:
                    p = add(p, load(parts, c + digit * hop))
                store(parts, c, p)
            if c < whole:
                store(values, c, add(pair, add(load(values, c + 2 * hop), load(values, c + 3 * hop))))
        count, width = count + digit * width, 4 * width
    hop = width * step
    for c in range(0, size - (wide - 1) * step, LANES):
        total = load(values, c)
        for i in range(1, left):
            total = add(total, load(values, c + i * hop))
        if count:
            total = add(total, load(parts, c + left * hop))
        store(values, c, total)
