"""Reductions over the taps of a window. A tap is given by its distance from a place in memory, a *hop*.

One intrinsic takes all taps. So there is straight code for however many taps there are, and Numba has to find the types
of a single call.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .comparison import displaces, greater_tap, without_nan
from .lanes import converted
from .memory import lanes_at, some
from .vector import I64, INDEX, LANES, Vector, arithmetic, constant, int32, is_half, llvm, record_kind, splat_value, vec

MOST_ADDED = 8  # vectors that `sums_of_every` adds up, at most


def taps_at(ctx, b, array, value, at, hops, mask, fill):
    """array[at + hop : at + hop + 16] for each of a tuple of hops."""
    for hop in cgutils.unpack_tuple(b, hops):
        yield lanes_at(ctx, b, array, value, b.add(at, hop), mask, fill)


def inf_where_nan(b, element, value, taps):
    """`value`, but +inf where one of the taps is NaN. One comparison serves two taps here, where `without_nan` takes an
    instruction for each: 3x3/1 of 256 channels last takes 0.75 of the time.
    """
    if not isinstance(element, types.Float):
        return value
    whole = None
    for x, y in zip(taps[::2], [*taps[1::2], taps[-1]]):
        numbers = b.fcmp_ordered("ord", x, y)
        whole = numbers if whole is None else b.and_(whole, numbers)
    return b.select(whole, value, constant(b, llvm(element), float("inf")))


@intrinsic
def largest_tap(typingctx, array, at, hops, mask, fill):
    """The maximum over the taps; +inf if one of them is NaN. Where a mask is not set, it is `fill`."""
    element = arithmetic(array)

    def gen(ctx, b, sig, args):
        value, at_, hops_, mask_, fill_ = args
        taps = list(taps_at(ctx, b, array, value, at_, hops_, some(b, mask, mask_), fill_))
        result = taps[0]
        for v in taps[1:]:
            result = greater_tap(ctx, b, array, v, result)
        return inf_where_nan(b, element, result, taps)

    return fill(array, at, hops, mask, fill), gen


@intrinsic
def first_largest_tap(typingctx, array, at, hops, places, mask, fill):
    """(maximum, place) over the taps, with +inf in the place of NaN. The place is that of the first of equal elements.
    If an element is NaN, the place may be wrong: `kernels.nans` finds it in the end.
    """
    element = arithmetic(array)

    def gen(ctx, b, sig, args):
        value, at_, hops_, places_, mask_, fill_ = args
        taps = list(taps_at(ctx, b, array, value, at_, hops_, some(b, mask, mask_), fill_))
        # For halves one comparison for two taps takes 0.7 to 0.9 of the time; other numbers do not gain.
        halves = is_half(record_kind(array))
        numbers = taps if halves else [without_nan(b, element, v) for v in taps]
        places_ = cgutils.unpack_tuple(b, places_)
        result, place = numbers[0], splat_value(b, int32(b, places_[0]))
        for v, p in zip(numbers[1:], places_[1:]):
            place = b.select(displaces(b, element, v, result), splat_value(b, int32(b, p)), place)
            result = greater_tap(ctx, b, array, v, result)
        if halves:
            result = inf_where_nan(b, element, result, taps)
        return ctx.make_tuple(b, sig.return_type, [result, place])

    return types.Tuple((fill, INDEX))(array, at, hops, places, mask, fill), gen


@intrinsic
def sums_of_every(typingctx, array, at, step, count, masks, fill, like):
    """The sum of `count` vectors, one to eight, in the arithmetic of `like`. They begin at array[at], array[at + step],
    and so on. There are as many such sums, side by side, as there are masks.
    """
    source, target = arithmetic(array), arithmetic(like)
    vectors = types.UniTuple(Vector(target), len(masks))

    def gen(ctx, b, sig, args):
        value, at_, step_, count_, masks_, fill_, _ = args
        plus = b.fadd if isinstance(target, types.Float) else b.add
        lanes = [some(b, mask, mask_) for mask, mask_ in zip(masks, cgutils.unpack_tuple(b, masks_))]
        cases = [b.append_basic_block("few") for _ in range(MOST_ADDED)]
        done = b.append_basic_block("summed")
        choice = b.switch(count_, cases[-1])
        sums = []
        for few, case in enumerate(cases, 1):
            choice.add_case(count_.type(few), case)
            b.position_at_end(case)
            totals = [ir.Constant(vec(llvm(target)), None)] * len(lanes)
            for i in range(few):
                for k, mask in enumerate(lanes):
                    offset = b.add(b.add(at_, b.mul(step_, I64(i))), I64(k * LANES))
                    v = lanes_at(ctx, b, array, value, offset, mask, fill_)
                    totals[k] = plus(totals[k], converted(b, source, target, v))
            sums.append((totals, b.block))
            b.branch(done)
        b.position_at_end(done)
        results = []
        for k in range(len(lanes)):
            result = b.phi(vec(llvm(target)))
            for totals, block in sums:
                result.add_incoming(totals[k], block)
            results.append(result)
        return ctx.make_tuple(b, vectors, results)

    return vectors(array, at, step, count, masks, fill, like), gen
