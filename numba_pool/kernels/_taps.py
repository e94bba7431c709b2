"""Blocks of alike windows in channels-last memory: their taps have the same distances, and are taken one by one."""

from numba import types
from numba.extending import overload

from ..simd import (
    LANES,
    add,
    convert,
    finite_or_inf,
    first_largest_tap,
    greater,
    indices,
    lanes_inside,
    largest_tap,
    load_some,
    nine_numbers,
    number,
    overtakes,
    put,
    select,
    splat,
    sum_of_taps,
)
from ._asking import ask
from ._compile import INLINED, by_types, helper, inlined
from ._reductions import GROUP, averaged

NINE = 9  # taps, up to which a window is reduced by straight code, without a loop


def window_at(x, at, index, divisor, lists, taps, short, mask, none, pad):
    """(reduction, place of the winner) of sixteen windows that begin at x[at], one for each of sixteen channels. The
    place is a distance from the first tap, in pixels. It is -1 for an empty window, and where `index` is None.

    `taps` says where the list of taps begins, how many taps it has, and how many of these make a column. `short` are
    the first nine hops and the first nine places.
    """


# The types of the arguments choose one of three functions, and only that one is compiled. Of an `if` on None, Numba
# would compile both branches wherever the argument is not None.


@overload(window_at, jit_options=INLINED)
def _window_at(x, at, index, divisor, lists, taps, short, mask, none, pad):
    if not isinstance(index, types.NoneType):
        return first_largest_at
    return largest_at if isinstance(divisor, types.NoneType) else sum_at


def first_largest_at(x, at, index, divisor, lists, taps, short, mask, none, pad):
    hops, places = lists
    first, taken, _ = taps
    (a, b, c, d, e, f, g, h, i), nine_at = short
    p, q, r, s = nine_at[:4]
    result, place = none, indices(-1, 0)
    if 0 < taken <= 4:
        result, place = first_largest_tap(x, at, (a, b, c, d), (p, q, r, s), mask, pad)
    elif 0 < taken <= NINE:
        result, place = first_largest_tap(x, at, (a, b, c, d, e, f, g, h, i), nine_at, mask, pad)
    elif taken > 0:
        result, place = first_largest_tap(x, at, (0,), (0,), mask, pad)
        for tap in range(first + 1, first + taken):
            v = load_some(x, at + number(hops, tap), mask, pad)
            place = select(overtakes(v, result), indices(number(places, tap), 0), place)
            result = greater(finite_or_inf(v), result)
    return result, place


def largest_at(x, at, index, divisor, lists, taps, short, mask, none, pad):
    hops, result = lists[0], none
    first, taken, _ = taps
    a, b, c, d, e, f, g, h, i = short[0]
    if 0 < taken <= 4:
        result = largest_tap(x, at, (a, b, c, d), mask, pad)
    elif 0 < taken <= NINE:
        result = largest_tap(x, at, (a, b, c, d, e, f, g, h, i), mask, pad)
    else:
        for tap in range(first, first + taken):
            result = greater(finite_or_inf(load_some(x, at + number(hops, tap), mask, pad)), result)
    return result, indices(-1, 0)


def sum_at(x, at, index, divisor, lists, taps, short, mask, none, pad):
    hops, result = lists[0], none
    first, taken, tall = taps
    a, b, c, d, e, f, g, h, i = short[0]
    if taken == 1:
        result = sum_of_taps(x, at, ((a,),), mask, pad, none)
    elif taken == 2:  # of two columns or one: a row is summed as a column is
        result = sum_of_taps(x, at, ((a, b),), mask, pad, none)
    elif taken == 3:
        result = sum_of_taps(x, at, ((a, b, c),), mask, pad, none)
    elif taken == 4 and tall == 2:
        result = sum_of_taps(x, at, ((a, b), (c, d)), mask, pad, none)
    elif taken == 6 and tall == 2:
        result = sum_of_taps(x, at, ((a, b), (c, d), (e, f)), mask, pad, none)
    elif taken == 6 and tall == 3:
        result = sum_of_taps(x, at, ((a, b, c), (d, e, f)), mask, pad, none)
    elif taken == 8 and tall == 2:
        result = sum_of_taps(x, at, ((a, b), (c, d), (e, f), (g, h)), mask, pad, none)
    elif taken == 8 and tall == 4:
        result = sum_of_taps(x, at, ((a, b, c, d), (e, f, g, h)), mask, pad, none)
    elif taken == NINE and tall == 3:
        result = sum_of_taps(x, at, ((a, b, c), (d, e, f), (g, h, i)), mask, pad, none)
    # 1x4 and 1x8 are not among the cases above: LLVM would swap the operands of an addition there, and a NaN would have
    # another sign than in channels-first memory.
    else:
        tap = first
        while tap < first + taken:
            column, bottom = none, tap + tall
            while tap < bottom:
                column = add(column, convert(none, load_some(x, at + number(hops, tap), mask, pad)))
                tap += 1
            result = add(result, column)
    return result, indices(-1, 0)


@inlined
def pixel_vector(x, y, index, at, out, spot, count, lists, taps, short, mask, past, divisor, reciprocal, none, pad,
                 top):
    """Put the results of sixteen windows to y[out]. They begin at x[at], which has the index `spot`. Returns the larger
    of `top` and the results, lane by lane.
    """
    a, place = window_at(x, at, index, divisor, lists, taps, short, mask, none, pad)
    if divisor is None:
        top = greater(a, top)
    a = averaged(a, divisor, reciprocal, count, splat(none, 1))
    put(y, out, convert(y, a), mask, past)
    if index is not None:
        put(index, out, add(place, indices(spot, 0)), mask, past)
    return top


@helper
def pixel_block(x, y, index, begin, along, down, count, shift, lists, taps, asking, past, divisor, reciprocal, none,
                pad, top):
    """A block of the output, whose windows all have the same list of taps: `rows` rows of `run` pixels. A pixel has
    `long` elements; several pixels may be walked as one. Returns the larger of `top` and all results, lane by lane.

    `begin` has four numbers for the first pixel: its window begins at x[at], which has the index `spot`; its result is
    y[out]; and memory is asked for from x[ahead] on. `along` and `down` say how many pixels and rows there are, and how
    much the four numbers grow from one pixel, or one row, to the next. `asking` has the elements of a cache line, and
    whether pages are asked for by turns.

    This is a function of its own so that LLVM keeps all its numbers in registers: as a part of `tap_rows`, a pixel of
    64 channels took 1.3 times as long.
    """
    run, advance, step, beside, long, per = along
    rows, down_at, down_spot, down_out, down_ahead = down
    short = nine_numbers(lists[0], taps[0]), nine_numbers(lists[1], taps[0])
    at, spot, out, ahead = begin
    line, far = asking
    begins = LANES - shift if shift else 0
    wrapped = lanes_inside(-shift, long), long
    left = run
    for _ in range(rows * run):
        ask(x, ahead, ahead + per, line, far)
        ahead += per
        c = begins
        while c <= long - GROUP:
            a, p = window_at(x, at + c, index, divisor, lists, taps, short, None, none, pad)
            b, q = window_at(x, at + c + LANES, index, divisor, lists, taps, short, None, none, pad)
            if divisor is None:
                top = greater(a, greater(b, top))
            a = averaged(a, divisor, reciprocal, count, splat(none, 1))
            b = averaged(b, divisor, reciprocal, count, splat(none, 1))
            put(y, out + c, convert(y, a), None, past)
            put(y, out + c + LANES, convert(y, b), None, past)
            if index is not None:
                first = indices(spot, 0)
                put(index, out + c, add(p, first), None, past)
                put(index, out + c + LANES, add(q, first), None, past)
            c += GROUP
        if c <= long - LANES:
            top = pixel_vector(x, y, index, at + c, out + c, spot, count, lists, taps, short, None, past, divisor,
                               reciprocal, none, pad, top)
            c += LANES
        if shift:  # one vector more has the pixel's last elements in its first lanes, then the first elements
            top = pixel_vector(x, y, index, at - shift, out - shift, spot, count, lists, taps, short, wrapped, False,
                               divisor, reciprocal, none, pad, top)
        elif c < long and index is not None and long >= LANES:
            # The last vector reaches back over the one before it: with indices, masks take 1.1 to 1.2 times as long.
            # Without indices (below) they take no longer.
            c = long - LANES
            top = pixel_vector(x, y, index, at + c, out + c, spot, count, lists, taps, short, None, past, divisor,
                               reciprocal, none, pad, top)
        elif c < long:
            top = pixel_vector(x, y, index, at + c, out + c, spot, count, lists, taps, short, lanes_inside(c, long),
                               past, divisor, reciprocal, none, pad, top)
        at, spot, out = at + advance, spot + step, out + beside
        left -= 1
        if left == 0:  # the next row; LLVM would copy a nested loop once for each condition in it
            left = run
            at, spot, out = at + down_at - run * advance, spot + down_spot - run * step, out + down_out - run * beside
            ahead += down_ahead - run * per
    return top


@inlined
def passed(x, y, at, out, hops, again, mask, none, pad, top):
    """Put sixteen maxima over nine taps to y[out]; if `again`, what stands in y[out] takes part. The taps are at the
    distances `hops` from x[at]. Returns the larger of `top` and the maxima, lane by lane.
    """
    a = largest_tap(x, at, hops, mask, pad)
    if again:
        a = greater(a, load_some(y, out, mask, pad))
    put(y, out, convert(y, a), mask, False)
    return greater(a, top)


def pixel_passes(x, y, index, divisor, begin, along, down, shift, lists, taps, none, pad, top):
    """The same as `pixel_block` for maxima without indices over more than nine taps. Nine taps are taken at a time,
    over all channels of a pixel, so that memory is read in nine long streams. If all taps were taken for one vector
    after the other, reading would jump from pixel to pixel: 7x7 of 512 channels would take 1.6 times as long.
    """


@by_types(pixel_passes)
def _pixel_passes(x, y, index, divisor, begin, along, down, shift, lists, taps, none, pad, top):
    if not isinstance(index, types.NoneType) or not isinstance(divisor, types.NoneType):
        # An empty function: `passes` would never be called, but compiled in a third of a second.
        return lambda x, y, index, divisor, begin, along, down, shift, lists, taps, none, pad, top: top
    return passes


def passes(x, y, index, divisor, begin, along, down, shift, lists, taps, none, pad, top):
    run, advance, _, beside, long, _ = along
    rows, down_at, _, down_out, _ = down
    first, taken, _ = taps
    begins = LANES - shift if shift else 0
    wrapped, part = (lanes_inside(-shift, long), long), long % LANES
    at, _, out, _ = begin
    left = run
    for _ in range(rows * run):
        for tap in range(first, first + taken, NINE):  # the last nine reach back
            hops, again = nine_numbers(lists[0], min(tap, first + taken - NINE)), tap > first
            c = begins
            while c <= long - LANES:
                top = passed(x, y, at + c, out + c, hops, again, None, none, pad, top)
                c += LANES
            if shift:
                top = passed(x, y, at - shift, out - shift, hops, again, wrapped, none, pad, top)
            elif part:
                top = passed(x, y, at + c, out + c, hops, again, lanes_inside(0, part), none, pad, top)
        at, out = at + advance, out + beside
        left -= 1
        if left == 0:
            left = run
            at, out = at + down_at - run * advance, out + down_out - run * beside
    return top
