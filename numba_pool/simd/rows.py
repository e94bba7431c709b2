"""Maxima of windows of few rows, and their indices, for the kernel of `strips`.

What is found along rows are flat tuples: for each row, and in it for one vector of windows or two (the *halves*), a
vector of maxima and a vector of their indices. The arguments `rows`, `halves` and `picks` are tuples of which only the
lengths matter: these are known to the compiler, so that all of this becomes straight code.
"""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .comparison import greater_of, overtaking, without_nan
from .lanes import converted
from .memory import lanes_at
from .permutation import permute
from .vector import I32, I64, INDEX, Vector, arithmetic, constant, int32, llvm, splat_value


@intrinsic
def columns_from(typingctx, first, columns):
    """Vectors of columns that are counted from column `first`, as columns of a row. Columns before the row become 0."""

    def gen(ctx, b, sig, args):
        start, zero = splat_value(b, int32(b, args[0])), constant(b, I32, 0)
        found = [b.add(start, v) for v in cgutils.unpack_tuple(b, args[1])]
        return ctx.make_tuple(b, columns, [b.select(b.icmp_signed(">", v, zero), v, zero) for v in found])

    return columns(first, columns), gen


def picked_as(array):
    """The scalar in which elements are picked and compared: small integers as int32, so that they are widened once, and
    not once for each tap.
    """
    element = arithmetic(array)
    return types.int32 if isinstance(element, types.Integer) and element.bitwidth < I32.width else element


def first_of_taps(ctx, b, element, x, y, picks):
    """(maximum, index) over several picks out of x and y, in this order. A pick is a vector of lanes and a vector of
    the columns there.
    """
    best, place = permute(ctx, b, llvm(element), x, y, picks[0][0]), picks[0][1]
    for lanes, spot in picks[1:]:
        v = permute(ctx, b, llvm(element), x, y, lanes)
        place = b.select(overtaking(b, element, v, best), spot, place)
        best = greater_of(b, element, v, best)
    return best, place


@intrinsic
def first_maxima(typingctx, array, at, apart, spot, row, rows, last, wide, width, mask, mask_b, halves, lanes, columns,
                 fill):
    """The maxima of the windows' parts in as many rows as there are `rows`, the first of which is number `row`.

    A row before row 0, or behind the `last` one, is replaced by the nearest row that there is. A window then meets that
    row's maxima twice, which changes neither its maximum nor which of equal elements comes first.

    In row 0 the first vector begins at array[at], the second `apart` elements further on; column 0 has the index
    `spot`. A row has `wide` elements and `width` columns. For each half, tap by tap, `lanes` has the lanes of the
    windows' elements in both vectors, and `columns` has their columns.
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
    """The maxima of windows and their indices, for each of the halves: from what was found along the windows' rows,
    first those `above`, then those `below`. The maxima are vectors of the type of `like`.
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
    """The last elements of both tuples together, as many as `above` has: what the next window has of these rows."""

    def gen(ctx, b, sig, args):
        found = [*cgutils.unpack_tuple(b, args[0]), *cgutils.unpack_tuple(b, args[1])]
        return ctx.make_tuple(b, above, found[len(found) - len(above) :])

    return above(above, below), gen
