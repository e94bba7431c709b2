"""Windows that are alike, side by side: one loop reduces them all, without a branch. Each number of taps, up to nine,
has a loop of its own.

The loops are written in LLVM's language, by an intrinsic. Of loops in Python Numba would find the types first, which
takes longer than all that LLVM does with them.
"""

from functools import partial

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .arithmetic import average_of, by_sign, quotient
from .comparison import displaces, greater_of, greater_tap, without_nan
from .halves import number_or
from .lanes import converted, converted_to
from .memory import lanes_at, store_at, stream_at
from .streams import LINE, ask_for
from .taps import inf_where_nan
from .vector import (
    I32,
    I64,
    LANES,
    ZEN,
    arithmetic,
    constant,
    is_counted,
    is_half,
    llvm,
    record_kind,
    splat_value,
    storage,
    ty_bytes,
    vec,
)

STRAIGHT = 9  # taps, up to which there is no loop over the taps of a window
FEW = 4  # taps that a turn of that loop adds up
ACROSS = 16  # of sums, windows of t rows and w columns have the number 16 * t + w


class Loops:
    """Writes the loops of `pool_run`: one for each number of taps. `typed` has the types of its arguments by name, and
    `given` their values.
    """

    def __init__(self, ctx, b, typed, none, given):
        self.ctx, self.b, self.typed, self.given = ctx, b, typed, given
        self.element, self.target, self.none = arithmetic(typed["x"]), none.element, given["none"]
        self.summed = not isinstance(typed["by"], types.NoneType)
        self.indexed = not isinstance(typed["index"], types.NoneType)
        self.carried = not isinstance(typed["carried"], types.NoneType)
        self.counted = self.summed and (self.carried or is_counted(typed["x"]))
        self.large = not isinstance(typed["ask"], types.NoneType)
        self.shifted = not isinstance(typed["lead"], types.NoneType)
        self.largest = cgutils.alloca_once_value(b, given["top"])

    # What becomes of a window: (sixteen results, their places or None)

    def lanes(self, name, hop):
        """The sixteen elements of an array at a tap, which is `hop` elements behind the first one."""
        return lanes_at(self.ctx, self.b, self.typed[name], self.given[name], self.b.add(self.at, hop))

    def place(self, hop, place):
        """How many pixels a tap lies behind the first one; or the indices there, if the stage before has found some."""
        return self.lanes("carried", hop) if self.carried else splat_value(self.b, self.b.trunc(place, I32))

    def tap(self, number):
        """How far tap `number` of the list is behind the first tap: (in elements, in pixels)."""
        place = self.b.load(self.b.gep(self.given["list"], [number]))
        return self.b.mul(place, self.given["pixel"]), place

    def empty(self):
        return self.none, None

    def maximum(self, few):
        """The maximum of the first `few` taps, +inf if one of them is NaN; without a place."""
        taps = [self.lanes("x", hop) for hop in self.given["hops"][:few]]
        result = taps[0]
        for v in taps[1:]:
            result = greater_tap(self.ctx, self.b, self.typed["x"], v, result)
        return inf_where_nan(self.b, self.element, result, taps), None

    def first_maximum(self, few):
        """The same, with the place of the first of equal taps. If a tap is NaN, the place may be wrong: `kernels.nans`
        finds it in the end.
        """
        b, halves, taps, result, place = self.b, is_half(record_kind(self.typed["x"])), [], None, None
        for hop, at in zip(self.given["hops"][:few], self.given["places"]):
            taps.append(self.lanes("x", hop))
            # For halves one comparison for two taps takes 0.7 to 0.9 of the time; other numbers do not gain.
            v, p = taps[-1] if halves else without_nan(b, self.element, taps[-1]), self.place(hop, at)
            if place is None:
                result, place = v, p
            else:
                place = b.select(displaces(b, self.element, v, result), p, place)
                result = greater_tap(self.ctx, b, self.typed["x"], v, result)
        return inf_where_nan(b, self.element, result, taps) if halves else result, place

    def maximum_of_many(self):
        b, (result, place) = self.b, (self.first_maximum if self.indexed else self.maximum)(STRAIGHT)
        best = cgutils.alloca_once(b, result.type)
        where = cgutils.alloca_once(b, vec(I32))
        b.store(result, best)
        if place is not None:
            b.store(place, where)
        with cgutils.for_range_slice(b, I64(STRAIGHT), self.given["taps"], I64(1), I64, True) as (number, _):
            hop, p = self.tap(number)
            v, before = without_nan(b, self.element, self.lanes("x", hop)), b.load(best)
            if place is not None:
                b.store(b.select(displaces(b, self.element, v, before), self.place(hop, p), b.load(where)), where)
            b.store(greater_of(b, self.element, v, before), best)
        return b.load(best), None if place is None else b.load(where)

    def plus(self, total, v):
        return by_sign(self.b, self.target, "add", total, v)

    def added(self, hop):
        """The lanes of a tap, to be added up. If elements are counted, 0 in the place of NaN; and what the tap counts
        is added to `counts`, which are the place of the sum.
        """
        b, v = self.b, self.lanes("x", hop)
        if self.carried and self.counted:
            self.count("add", self.lanes("carried", hop))
        elif self.counted:
            self.count("sub", b.sext(b.fcmp_ordered("ord", v, v), vec(I32)))
            v = number_or(b, v, 0.0)
        return converted(b, self.element, self.target, v)

    def count(self, operation, v):
        self.b.store(getattr(self.b, operation)(self.b.load(self.counts), v), self.counts)

    def total(self, tall, wide):
        """The sum of `wide` columns of `tall` taps each: down each column, then over the columns from left to right."""
        result = self.nothing_counted()
        for first in range(0, tall * wide, tall):
            column, *rest = map(self.added, self.given["hops"][first : first + tall])
            for v in rest:
                column = self.plus(column, v)
            result = self.plus(result, column)
        return result, self.counted_so_far()

    def nothing_counted(self):
        """A sum of 0, with a count of 0."""
        if self.counted:
            self.counts = cgutils.alloca_once(self.b, vec(I32))
            self.b.store(constant(self.b, I32, 0), self.counts)
        return ir.Constant(vec(llvm(self.target)), None)

    def counted_so_far(self):
        return self.b.load(self.counts) if self.counted else None

    def total_of_many(self):
        b, zero = self.b, self.nothing_counted()
        result, column = cgutils.alloca_once(b, zero.type), cgutils.alloca_once(b, zero.type)
        b.store(zero, result)
        tall = self.given["tall"]
        with cgutils.for_range_slice(b, I64(0), self.given["taps"], tall, I64, True) as (first, _):
            b.store(zero, column)
            stop, rest = b.add(first, tall), b.add(first, b.and_(tall, I64(-FEW)))
            for begin, end, few in ((first, rest, FEW), (rest, stop, 1)):
                with cgutils.for_range_slice(b, begin, end, I64(few), I64, True) as (number, _):
                    sums = b.load(column)
                    for i in range(few):
                        sums = self.plus(sums, self.added(self.tap(b.add(number, I64(i)))[0]))
                    b.store(sums, column)
            b.store(self.plus(b.load(result), b.load(column)), result)
        return b.load(result), self.counted_so_far()

    # The loops

    def windows(self, reduce):
        """The loop over windows, and in it over vectors of channels. `reduce` makes the result of a window's taps."""
        b, given = self.b, self.given
        at, to, spot = (cgutils.alloca_once_value(b, begin) for begin in (given["at"], given["to"], given["spot"]))
        if self.large:
            first, further, lines, self.past = cgutils.unpack_tuple(b, given["ask"])
            ahead = cgutils.alloca_once_value(b, first)
        last = b.sub(given["long"], I64(LANES))  # the last vector reaches back over the one before it
        with cgutils.for_range(b, given["count"]):
            begins = [b.load(variable) for variable in (at, to, spot)]
            begin = given["lead"] if self.shifted else I64(0)
            with cgutils.for_range_slice(b, begin, given["long"], I64(LANES), I64, True) as (lane, _):
                lane = b.select(b.icmp_signed("<", lane, last), lane, last)
                if self.shifted:
                    lane = b.select(b.icmp_signed(">", lane, I64(0)), lane, I64(0))
                self.at = b.add(begins[0], lane)
                if self.large:
                    self.ask(b.load(ahead), lane, lines)
                self.put(b.add(begins[1], lane), begins[2], *reduce())
            for variable, begin, step in zip((at, to, spot), begins, given["steps"]):
                b.store(b.add(begin, step), variable)
            if self.large:
                b.store(b.add(b.load(ahead), further), ahead)

    def ask(self, ahead, lane, lines):
        """Ask for so many cache lines of x for the vector of a window that begins at this lane."""
        b, line = self.b, LINE // ty_bytes(storage(self.typed["x"]))  # elements
        begin = b.add(ahead, b.sdiv(b.mul(lane, b.mul(lines, I64(line))), I64(LANES)))
        with cgutils.for_range(b, lines) as loop:
            at = b.add(begin, b.mul(loop.index, I64(line)))
            ask_for(self.ctx, b, self.typed["x"], self.given["x"], at, 2 if ZEN else 3)

    def put(self, out, spot, value, place):
        """Store sixteen results, and their indices. `spot` is the pixel of the first tap, where `place` counts from.
        Sums that a later stage adds up are stored with their counts, others are divided by them.
        """
        b, given = self.b, self.given
        if self.counted:
            counts = constant(b, I32, 0) if place is None else place
            if self.indexed:
                self.store("index", out, counts)
            else:
                value = average_of(self.ctx, b, self.target, value, counts, given["by"], given["pair"])
            self.store("y", out, converted_to(b, self.typed["y"], self.target, value))
            return
        if self.indexed:
            if place is None:
                place = constant(b, I32, -1)
            elif not self.carried:
                place = b.add(place, splat_value(b, b.trunc(spot, I32)))
            self.store("index", out, place)
        if self.summed:
            value = quotient(self.ctx, b, self.target, value, given["by"], given["pair"])
        else:
            b.store(greater_of(b, self.target, value, b.load(self.largest)), self.largest)
        self.store("y", out, converted_to(b, self.typed["y"], self.target, value))

    def store(self, name, out, value):
        b, target = self.b, (self.typed[name], self.given[name], out, value)
        if not self.large:
            store_at(self.ctx, b, *target)
            return
        with b.if_else(self.past) as (streamed, stored):
            with streamed:
                stream_at(self.ctx, b, *target)
            with stored:
                store_at(self.ctx, b, *target)

    def write(self):
        """All loops, and the switch that jumps to the one for this number of taps."""
        b, taps, tall = self.b, self.given["taps"], self.given["tall"]
        if self.summed:
            kind = b.add(b.mul(tall, I64(ACROSS)), self.given["wide"])
            kind = b.select(b.icmp_signed(">", taps, I64(STRAIGHT)), I64(-1), kind)
            loops = {ACROSS * t + w: partial(self.total, t, w) for t in range(1, STRAIGHT + 1)
                     for w in range(1, STRAIGHT // t + 1) if t > 1 or w == 1}
            many = self.total_of_many
        else:
            kind, one = taps, self.first_maximum if self.indexed else self.maximum
            loops = {few: partial(one, few) for few in range(1, STRAIGHT + 1)}
            many = self.maximum_of_many
        kind = b.select(b.icmp_signed("==", taps, I64(0)), I64(0), kind)
        done, default = b.append_basic_block("done"), b.append_basic_block("many")
        switch, cases = b.switch(kind, default), [(default, many)]
        for case, reduce in {0: self.empty, **loops}.items():
            cases.append((b.append_basic_block(f"of{case}"), reduce))
            switch.add_case(I64(case), cases[-1][0])
        for block, reduce in cases:
            b.position_at_end(block)
            self.windows(reduce)
            b.branch(done)
        b.position_at_end(done)


@intrinsic
def pool_run(typingctx, x, carried, y, index, begin, steps, sizes, program, first, numbers, shape, by, pair, ask, lead,
             none, top):
    """Reduce windows that are alike, and store their results in y; their indices in `index`, unless that is None. All
    arrays are given by their memory.

    - `begin` is where the first window has its first tap in x, and its result in y and `index`, in elements; and at
      which pixel of the plane that tap is. `steps` are how much further on these three are for the next window.
    - `sizes` are the number of windows; the elements of a window's result, which are its channels, sixteen or more; and
      the elements of a pixel in x.
    - The list of the taps stands in the `program` from `first` on. Its first nine are `numbers`. `shape` is how many
      rows and columns of taps a window has; it may have none.
    - `carried` is None, or has the indices of what stands in x, which an earlier stage has found.
    - `by` divides sums, and `pair` are its reciprocals: see `quotient`. All are None for maxima. Where elements are
      counted, they are what `average_of` takes, `index` is for the counts, and `carried` has those of x.
    - `none` is what an empty window holds. Returns the larger of `top` and all maxima, lane by lane.
    """
    typed = {"x": x, "carried": carried, "y": y, "index": index, "by": by, "ask": ask, "lead": lead}

    def gen(ctx, b, sig, args):
        names = ("x", "carried", "y", "index", "begin", "steps", "sizes", "program", "first", "numbers", "shape", "by",
                 "pair", "ask", "lead", "none", "top")
        given = dict(zip(names, args))
        for name in ("begin", "steps", "sizes", "numbers", "shape"):
            given[name] = cgutils.unpack_tuple(b, given[name])
        given["at"], given["to"], given["spot"] = given["begin"]
        given["count"], given["long"], given["pixel"] = given["sizes"]
        tall, wide = given["shape"]
        given["taps"], given["places"] = b.mul(tall, wide), given["numbers"]
        a_row = b.icmp_signed("==", tall, I64(1))  # which is added up as a column is, with the same sum
        given["tall"], given["wide"] = b.select(a_row, wide, tall), b.select(a_row, I64(1), wide)
        given["hops"] = [b.mul(place, given["pixel"]) for place in given["places"]]
        given["list"] = b.gep(b.bitcast(given["program"], I64.as_pointer()), [given["first"]])
        loops = Loops(ctx, b, typed, none, given)
        loops.write()
        return b.load(loops.largest)

    return top(x, carried, y, index, begin, steps, sizes, program, first, numbers, shape, by, pair, ask, lead,
               none, top), gen
