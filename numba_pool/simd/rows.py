"""Maxima of windows of few rows, and where they are.

What is found along rows are flat tuples: of every row, and in it of one vector of windows or two, the halves, a vector
of maxima and one of their places. How many rows, halves and picks there are is all that matters of them here: for that
this is straight code.
"""


from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .comparison import greater_of, overtaking, without_nan
from .lanes import converted
from .memory import lanes_at
from .permutation import permute
from .vector import I32, I64, INDEX, LANES, Vector, arithmetic, constant, int32, llvm, splat_value


@intrinsic
def columns_from(typingctx, first, columns):
    """Columns that are counted from `first`, counted from 0; that of the first one for those before it."""

    def gen(ctx, b, sig, args):
        start, zero = splat_value(b, int32(b, args[0])), constant(b, I32, 0)
        found = [b.add(start, v) for v in cgutils.unpack_tuple(b, args[1])]
        return ctx.make_tuple(b, columns, [b.select(b.icmp_signed(">", v, zero), v, zero) for v in found])

    return columns(first, columns), gen


def picked_as(array):
    """The scalar in which elements of an array are compared that are picked: every tap would be widened else."""
    element = arithmetic(array)
    return types.int32 if isinstance(element, types.Integer) and element.bitwidth < I32.width else element


def first_of_taps(ctx, b, element, x, y, picks):
    """(maximum, place) of what pairs of lanes of both vectors and places say, in this order."""
    best, place = permute(ctx, b, llvm(element), x, y, picks[0][0]), picks[0][1]
    for lanes, spot in picks[1:]:
        v = permute(ctx, b, llvm(element), x, y, lanes)
        place = b.select(overtaking(b, element, v, best), spot, place)
        best = greater_of(b, element, v, best)
    return best, place


@intrinsic
def first_maxima(typingctx, array, at, apart, spot, row, rows, last, wide, width, mask, mask_b, halves, lanes, columns,
                 fill):
    """What is found along each of `rows`, counted from `row` on. Those before row 0 and behind the `last` one stand for
    the nearest that there is, whose maxima a window then meets twice, which changes neither them nor which is first.

    Of two vectors of row 0 the first begins at array[at], the second `apart` elements on; the place of its column 0 is
    `spot`. A row is `wide` elements and `width` places. Of every half, tap by tap, `lanes` are those of the windows'
    elements in both vectors, `columns` where they are in a row.
    """
    stored, element = arithmetic(array), picked_as(array)
    result = types.Tuple((Vector(element), INDEX) * (len(rows) * len(halves)))
    taps = len(lanes) // len(halves)

    def gen(ctx, b, sig, args):
        value, at_, apart_, spot_, row_, _, last_, wide_, width_, *masks, _, lanes_, columns_, fill_ = args
        picks = list(zip(cgutils.unpack_tuple(b, lanes_), cgutils.unpack_tuple(b, columns_)))
        starts, spots = [], []
        for i in range(len(rows)):
            h = b.add(row_, I64(i))
            h = b.select(b.icmp_signed("<", h, I64(0)), I64(0), h)
            h = b.select(b.icmp_signed(">", h, last_), last_, h)
            starts.append(b.add(at_, b.mul(h, wide_)))
            spots.append(splat_value(b, int32(b, b.add(spot_, b.mul(h, width_)))))
        found = []
        for start, where in zip(starts, spots):
            x, y = (lanes_at(ctx, b, array, value, at, m, fill_) for at, m in zip((start, b.add(start, apart_)), masks))
            x, y = (converted(b, stored, element, without_nan(b, stored, v)) for v in (x, y))
            for first in range(0, len(picks), taps):
                best, place = first_of_taps(ctx, b, element, x, y, picks[first : first + taps])
                found += best, b.add(place, where)
        return ctx.make_tuple(b, result, found)

    return result(array, at, apart, spot, row, rows, last, wide, width, mask, mask_b, halves, lanes, columns,
                  fill), gen


@intrinsic
def first_of_rows(typingctx, above, below, halves, like):
    """The maxima of windows, as vectors `like` this one, and their places, for each of the halves: from what is found
    along all their rows, whose first ones are `above`.
    """
    result = types.Tuple((like, INDEX) * len(halves))
    element = below[0].element

    def gen(ctx, b, sig, args):
        found = [*cgutils.unpack_tuple(b, args[0]), *cgutils.unpack_tuple(b, args[1])]
        best = []
        for k in range(0, len(result), 2):
            r, ri = found[k : k + 2]
            for i in range(k + len(result), len(found), len(result)):
                v, vi = found[i : i + 2]
                ri = b.select(overtaking(b, element, v, r), vi, ri)
                r = greater_of(b, element, v, r)
            best += converted(b, element, like.element, r), ri
        return ctx.make_tuple(b, result, best)

    return result(above, below, halves, like), gen


@intrinsic
def passed_on(typingctx, above, below):
    """The last elements of both tuples together, as many as the first has."""

    def gen(ctx, b, sig, args):
        found = [*cgutils.unpack_tuple(b, args[0]), *cgutils.unpack_tuple(b, args[1])]
        return ctx.make_tuple(b, above, found[len(found) - len(above) :])

    return above(above, below), gen


@intrinsic
def first_of_cluster(typingctx, array, at, table, first, picks, like):
    """(maximum, place) of windows whose elements are lanes of array[at : at + 32]: for each of the `picks` table[first]
    has the lanes one after the other, and then where they are. As a vector `like` this one.
    """
    stored, element = arithmetic(array), picked_as(array)

    def gen(ctx, b, sig, args):
        value, at_, table_, first_, _, _ = args
        x, y = (lanes_at(ctx, b, array, value, b.add(at_, I64(i))) for i in (0, LANES))
        x, y = (converted(b, stored, element, without_nan(b, stored, v)) for v in (x, y))
        taps = [lanes_at(ctx, b, table, table_, b.add(first_, I64(i * LANES))) for i in range(2 * len(picks))]
        best, place = first_of_taps(ctx, b, element, x, y, list(zip(taps[: len(picks)], taps[len(picks) :])))
        return ctx.make_tuple(b, sig.return_type, [converted(b, element, like.element, best), place])

    return types.Tuple((like, INDEX))(array, at, table, first, picks, like), gen
