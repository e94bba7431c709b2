"""Maxima of few elements each in small planes: what lies side by side in memory is picked, over the ends of rows."""

from .._geometry import CLUSTER, DEPTH, HEIGHT, OUT_D, OUT_H, OUT_W, WIDTH
from ..simd import LANES, convert, first_of_cluster, greater, mask_of, memory, number, prefetch, store_some
from ._asking import AHEAD, ASKED, asks
from ._compile import worker
from ._reductions import nothing, put_nans


@worker
def window_clusters(lo, hi, x, y, index, divisors, group, picks, steps, table, g):
    """Groups [lo, hi) of `group` planes each. A step is all windows whose elements are among 32 that follow each other,
    up to sixteen windows; `geometry.clusters` says which.
    """
    source, target, order, lanes = memory(x), memory(y), memory(steps), memory(table)
    results = g[OUT_D] * g[OUT_H] * g[OUT_W] * group
    elements = g[DEPTH] * g[HEIGHT] * g[WIDTH] * group
    none = top = nothing(x, divisors)
    asking, each = asks(x, ASKED), 2 * len(picks) * LANES
    for unit in range(lo, hi):
        first = 0
        for step in range(0, steps.size, 3):
            at, out = unit * elements + number(order, step), unit * results + number(order, step + 1)
            mask = mask_of(number(order, step + 2))
            if asking:
                prefetch(source, at + AHEAD)
                prefetch(source, at + AHEAD + CLUSTER - 1)
            best, place = first_of_cluster(source, at, lanes, first, picks, none)
            top = greater(best, top)
            store_some(target, out, convert(y, best), mask)
            if index is not None:
                store_some(index, out, place, mask)
            first += each
    put_nans(top, lo * results, hi * results, x, y, index, divisors, g, 1)
    return 0
