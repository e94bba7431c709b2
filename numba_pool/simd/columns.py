"""Reductions down columns: over rows that follow each other in memory, for several vectors side by side.

What is found of these rows stays in registers. As in `windows.py`, the loops are written in LLVM's language: there is
one text for however many vectors, and Numba finds the types of a single call.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .arithmetic import by_sign
from .comparison import displaces, greater_of, without_nan
from .halves import number_or
from .lanes import converted
from .memory import lanes_at, some, store_at
from .taps import MOST_ADDED
from .vector import I32, I64, LANES, arithmetic, int32, llvm, splat_value, vec


class Columns:
    """Vectors that lie side by side."""

    def __init__(self, ctx, b, vectors):
        self.ctx, self.b, self.begins = ctx, b, [I64(i * LANES) for i in range(len(vectors))]

    def at(self, array, value, at, mask=None, fill=None):
        """Those of an array from element `at` on."""
        return [lanes_at(self.ctx, self.b, array, value, self.b.add(at, begin), mask, fill) for begin in self.begins]

    def variables(self, vectors):
        return [cgutils.alloca_once_value(self.b, v) for v in vectors]

    def put(self, array, value, at, variables):
        """Store what the variables hold, from element `at` on."""
        for begin, variable in zip(self.begins, variables):
            store_at(self.ctx, self.b, array, value, self.b.add(at, begin), self.b.load(variable))


    def maxima(self, x, held, where, begin, spot, rows, pitch, lanes, fill):
        """Compare rows of x with the maxima in the variables `held`, and put their numbers into `where`, if any."""
        b, element = self.b, arithmetic(x[0])
        with cgutils.for_range(b, rows) as loop:
            place = splat_value(b, int32(b, b.add(spot, loop.index)))
            taps = self.at(*x, b.add(begin, b.mul(loop.index, pitch)), lanes, fill)
            for i, (v, largest) in enumerate(zip(taps, held)):
                v, before = without_nan(b, element, v), b.load(largest)
                if where:
                    b.store(b.select(displaces(b, element, v, before), place, b.load(where[i])), where[i])
                b.store(greater_of(b, element, v, before), largest)

    def sums(self, x, held, counts, wide, begin, rows, pitch, lanes, fill):
        """Add rows of x to the sums in the variables `held`, which are of the Numba type `wide`. Floats are added up as
        they are, eight rows at a time, before their sum is converted. If there are `counts`, only elements that are no
        NaN are added up, and counted.
        """
        b, element = self.b, arithmetic(x[0])
        few = element if isinstance(element, types.Float) else wide
        zeros = [ir.Constant(vec(llvm(few)), None)] * len(held)

        def added(totals, number):
            taps = self.at(*x, b.add(begin, b.mul(number, pitch)), lanes, fill)
            for count, v in zip(counts, taps):
                b.store(b.sub(b.load(count), b.sext(b.fcmp_ordered("ord", v, v), vec(I32))), count)
            taps = [number_or(b, v, 0.0) for v in taps] if counts else taps
            return [by_sign(b, few, "add", total, converted(b, element, few, v)) for total, v in zip(totals, taps)]

        def carried(totals):
            for v, total in zip(totals, held):
                b.store(by_sign(b, wide, "add", b.load(total), converted(b, few, wide, v)), total)

        whole = b.and_(rows, I64(-MOST_ADDED))
        with cgutils.for_range_slice(b, I64(0), whole, I64(MOST_ADDED), I64, True) as (first, _):
            totals = zeros
            for i in range(MOST_ADDED):
                totals = added(totals, b.add(first, I64(i)))
            carried(totals)
        with b.if_then(b.icmp_signed("<", whole, rows)):
            rest = self.variables(zeros)
            with cgutils.for_range_slice(b, whole, rows, I64(1), I64, True) as (number, _):
                for variable, v in zip(rest, added(map(b.load, rest), number)):
                    b.store(v, variable)
            carried(map(b.load, rest))


@intrinsic
def reduce_down(typingctx, x, found, places, at, to, spot, rows, pitch, vectors, mask, fill, divisors):
    """Join some rows with what was found of earlier ones, in found[to:]: sums, or if `divisors` is None maxima, where
    +inf stands in the place of NaN. Unless `places` is None, it gets the numbers of the rows of maxima, or how many
    elements of sums are no NaN.

    The first row begins at x[at] and has the number `spot`, and the next ones begin `pitch` elements further on each.
    `vectors` is a tuple of which only the length matters: how many vectors of a row are joined. Lanes are those of
    `fill` where a mask is not set.
    """

    def gen(ctx, b, sig, args):
        value, found_, places_, at, to, spot, rows, pitch, _, mask_, fill_, _ = args
        columns, lanes = Columns(ctx, b, vectors), some(b, mask, mask_)
        held = columns.variables(columns.at(found, found_, to))
        where = [] if isinstance(places, types.NoneType) else columns.variables(columns.at(places, places_, to))
        if isinstance(divisors, types.NoneType):
            columns.maxima((x, value), held, where, at, spot, rows, pitch, lanes, fill_)
        else:
            columns.sums((x, value), held, where, arithmetic(found), at, rows, pitch, lanes, fill_)
        columns.put(found, found_, to, held)
        if where:
            columns.put(places, places_, to, where)
        return ctx.get_dummy_value()

    return types.void(x, found, places, at, to, spot, rows, pitch, vectors, mask, fill, divisors), gen
