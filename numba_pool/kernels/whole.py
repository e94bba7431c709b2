"""Gradients of planes that are one window each."""

from math import prod

import numpy as np

from .._windows import LIMIT
from ..simd import (
    LANES,
    add,
    convert,
    fence,
    indices,
    lanes_inside,
    load_some,
    memory,
    misaligned,
    put,
    rearrange,
    splat,
    store_some,
    wide_registers,
)
from ._compile import worker
from ._job import Call, Windows
from ._reductions import averaged, nothing, shared
from ._staging import streams
from .disjoint import where_routed

PLANE = 25  # elements of a plane, from which on this is the faster
FEW = 8  # planes, fewer than which are shared among threads by their rows


def plan(spread: Windows) -> Call | None:
    """Whole planes that are one window each; with indices unless they are so few that threads have to share each."""
    size = spread.shape[-spread.rank :]
    if spread.last or prod(spread.output) != 1 or prod(size) < PLANE:
        return None
    if spread.indexed:
        serves = wide_registers() and spread.images >= FEW and prod(size) <= LIMIT
    else:
        serves = all(axis.is_whole for axis in spread.windows)
    return spread.spread(scatter_whole, spread.images, (np.array([prod(size)], np.int64),)) if serves else None


@worker
def scatter_whole(lo, hi, grad, gx, index, accumulate, divisors, g):
    """Planes [lo, hi) in channels-first memory with a gradient each, with indices of elements that int32 can count.
    Arguments and result are as in `scatter_disjoint`.
    """
    P, past, left = g[0], streams(gx, grad, index), 0
    none, empty, (divisor, reciprocal) = splat(grad, 0), nothing(grad, divisors), shared(divisors)
    to, everywhere, lanes, further = memory(gx), indices(0, 0), indices(0, 1), indices(LANES, 0)
    for q in range(lo, hi):
        v, spot = load_some(grad, q, lanes_inside(0, 1), none), everywhere
        if divisors is not None:
            v = convert(gx, averaged(convert(empty, v), divisor, reciprocal, 1, empty))  # no sum: -0.0 stays
        elif accumulate:
            v = add(none, v)  # -0.0 becomes 0.0
        v = rearrange(v, everywhere)
        if index is not None:
            where = np.int64(index[np.uintp(q)])
            if where < 0 or where >= P:
                left = 1
                break
            spot = indices(where, 0)
        at, stop = q * P, (q + 1) * P
        head = min(-misaligned(to, at) % LANES, P)
        if head:
            store_some(to, at, convert(gx, where_routed(v, index, lanes, spot, none)), lanes_inside(0, head))
        at, place = at + head, indices(head, 1)
        while at <= stop - LANES:
            put(to, at, convert(gx, where_routed(v, index, place, spot, none)), None, past)
            at, place = at + LANES, add(place, further)
        if at < stop:
            store_some(to, at, convert(gx, where_routed(v, index, place, spot, none)), lanes_inside(0, stop - at))
    if past:
        fence()
    return left
