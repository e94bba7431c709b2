"""Windows of few rows in channels-last memory that have columns in common with the next: each is reduced once."""

from numba import types

from ..simd import (
    LANES,
    convert,
    greater,
    largest_tap,
    number,
    record_kind,
    splat,
    storage,
    store,
    sum_of_taps,
    ty_bytes,
)
from ._compile import by_types, inlined
from ._reductions import averaged, joined

NEAR = 3 << 20  # bytes of an input


def farthest(x):
    """How many pixels windows of three columns may be apart for `pixel_slides` to be the faster.

    It takes a third or two thirds of the loads, and jumps from pixel to pixel. Numbers as wide as a lane come as fast
    from the second cache as they can, tap by tap, in the order of memory: 3x3/1 takes 0.9 to 1.4 times as long. What is
    widened or put in order first takes less time: halves 0.65 to 0.9, uint8 in packs 0.7 to 1, averages of it 0.7 to
    0.9. At every second pixel so do halves that are not too far, 0.7 to 1, else up to 1.2; packs of uint8 up to 1.2.
    """


def pixels_apart(x):
    size, kind = ty_bytes(storage(x)), record_kind(x)
    return 2 if size < 4 or kind.endswith("x2") else 1 if kind.endswith("x4") else 0


@by_types(farthest)
def _farthest(x):
    most = pixels_apart(x)
    return lambda x: min(most, 1) if x.size * x.itemsize > NEAR else most


@inlined
def column(x, at, hops, none, pad, divisor):
    """Sixteen columns of windows, in as many channels, that begin at x[at]: +inf where a maximum's is NaN."""
    if divisor is None:  # has to have types for averages, too: hence `convert`
        return convert(none, largest_tap(x, at, hops, None, pad))
    return sum_of_taps(x, at, (hops,), None, pad, none)


@inlined
def slide(x, y, at, out, run, pitch, hop, beside, hops, count, divisor, reciprocals, none, pad, top):
    """`run` windows of sixteen channels, `hop` elements apart in x from x[at] on and `beside` in y from y[out] on.
    Returns the larger of `top` and them.
    """
    one = splat(none, 1)
    a = column(x, at, hops, none, pad, divisor)
    b = column(x, at + pitch, hops, none, pad, divisor)
    for i in range(run):
        c = column(x, at + 2 * pitch, hops, none, pad, divisor)
        r = joined(joined(a, b, divisor), c, divisor)
        if divisor is None:
            top = greater(r, top)
        store(y, out, convert(y, averaged(r, divisor, reciprocals, count, one)))
        at, out = at + hop, out + beside
        if hop == pitch:
            a, b = b, c
        elif i < run - 1:
            a, b = c, column(x, at + pitch, hops, none, pad, divisor)
    return top


def pixel_slides(x, y, index, begin, along, down, pitch, lists, taps, count, divisor, reciprocals, none, pad, top):
    """The same as `pixel_block` for windows of three rows and three columns, of a slice, one or two pixels of `pitch`
    elements apart, a vector or more, without indices. Nothing is asked for.
    """


@by_types(pixel_slides)
def _pixel_slides(x, y, index, begin, along, down, pitch, lists, taps, count, divisor, reciprocals, none, pad, top):
    if not pixels_apart(x) or not isinstance(index, types.NoneType):  # half a second's compilation for nothing

        def top_only(x, y, index, begin, along, down, pitch, lists, taps, count, divisor, reciprocals, none, pad, top):
            return top

        return top_only

    def slides(x, y, index, begin, along, down, pitch, lists, taps, count, divisor, reciprocals, none, pad, top):
        run, hop, _, beside, long, _ = along
        rows, down_at, _, down_out, _ = down
        hops = number(lists[0], taps[0]), number(lists[0], taps[0] + 1), number(lists[0], taps[0] + 2)
        at, _, out, _ = begin
        for _ in range(rows):
            for begins in range(0, long, LANES):
                c = min(begins, long - LANES)  # the last vector reaches back
                top = slide(x, y, at + c, out + c, run, pitch, hop, beside, hops, count, divisor, reciprocals, none,
                            pad, top)
            at, out = at + down_at, out + down_out
        return top

    return slides
