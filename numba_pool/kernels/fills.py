"""Gradients of averages over long windows along a signal: all elements of a window get the same number, so that whole
stretches of memory are filled with it.

No element may be in more than two windows. The tables are those of the windows, 40 bytes each. Other kernels for
gradients of averages need 100 bytes for each element of the signal.
"""


from math import prod

import numpy as np

from .._windows import CHANNELS, HEADER, LAST, OUT_W, WIDTH, pack
from ..simd import LANES, add, convert, indices, lanes_inside, load_some, rearrange, splat, store, store_some
from ._compile import helper, worker
from ._job import Call, Windows
from ._reductions import averaged, shared

FEWEST = 16  # elements to a window, from which on stretches are long enough
SHORTEST = 1 << 12  # elements of a row, below which other kernels are as fast
CHUNK = 1 << 15  # elements of a result that are a unit of work


def plan(job: Windows) -> Call | None:
    """Gradients of averages over long windows along a signal, of which no element is in more than two."""
    depth, height, width = job.windows
    windows = len(width.start)
    if any(axis.size != 1 or len(axis.start) != 1 or axis.start[0] >= axis.stop[0] for axis in (depth, height)):
        return None
    if width.step != 1 or width.size < SHORTEST or width.size < FEWEST * windows or not windows:
        return None
    if windows > 2 and (width.stop[:-2] > width.start[2:]).any():
        return None
    chunks = max(1, min(windows, width.size * job.elements // CHUNK))
    return job.made(fill_rows, job.images * chunks, (chunks, pack(job.windows, job.channels, job.last)), 1)


def plan_whole(job: Windows) -> Call | None:
    """Gradients of averages over whole planes in channels-first memory: each plane is filled with one number."""
    size = prod(job.shape[-job.rank :])
    if job.windows is None or job.last or size < FEWEST or not all(axis.is_whole for axis in job.windows):
        return None
    return job.spread(fill_planes, job.images, (np.array([size]),))


def plan_zeros(job: Windows) -> Call:
    """Gradients where there are no windows."""
    return job.made(fill_zeros, min(prod(job.shape), 1), (), 0)


@helper
def fill(gx, at, columns, elements, value, mask):
    """Fill `columns` columns, of `elements` elements each, from gx[at] on: each with the same vector, where `mask`."""
    if elements == 1:
        stop = at + columns
        while at + LANES <= stop:
            store(gx, at, value)
            at += LANES
        if at < stop:
            store_some(gx, at, value, lanes_inside(0, stop - at))
        return
    for _ in range(columns):
        store_some(gx, at, value, mask)
        at += elements


@worker
def fill_rows(lo, hi, grad, gx, index, divisors, chunks, g):
    """Units [lo, hi), `chunks` to a plane, or to an image in channels-last memory. A unit is some windows that follow
    each other. It fills the elements from where its first window begins to where the first window of the next unit
    begins.

    There is no `index`. An element in two windows gets the sum of both gradients. If all windows have the same divisor,
    the sum is divided, else each of the two is.
    """
    W, OW, E = g[WIDTH], g[OUT_W], g[CHANNELS] if g[LAST] else 1
    starts = HEADER + 6
    stops, widths = starts + OW, starts + 2 * OW
    none, nothing, pad = splat(divisors, 0), splat(gx, 0), splat(grad, 0)
    divisor, reciprocal = shared(divisors)
    for unit in range(lo, hi):
        image, part = unit // chunks, unit % chunks
        first, end = OW * part // chunks, OW * (part + 1) // chunks
        source, target = image * OW * E, image * W * E
        for c in range(0, E, LANES):
            mask = lanes_inside(c, E) if E > 1 else lanes_inside(0, 1)
            if part == 0:
                fill(gx, target + c, min(g[starts], W), E, nothing, mask)
            for o in range(first, end):
                begin, stop, following = min(g[starts + o], W), g[stops + o], W  # a window may begin behind the row
                if o + 1 < OW:
                    following = min(g[starts + o + 1], W)
                v = convert(none, load_some(grad, source + o * E + c, mask, pad))
                if E == 1:
                    v = rearrange(v, indices(0, 0))
                mine = averaged(v, divisor, reciprocal, 1, splat(g, g[widths + o]))
                at = begin
                before = g[stops + o - 1] if o else begin
                if before > begin:  # the first elements are in the window before as well
                    u = convert(none, load_some(grad, source + (o - 1) * E + c, mask, pad))
                    if E == 1:
                        u = rearrange(u, indices(0, 0))
                    if divisor != 0:
                        both = averaged(add(u, v), divisor, reciprocal, 1, splat(g, 1))
                    else:
                        both = add(averaged(u, divisor, reciprocal, 1, splat(g, g[widths + o - 1])), mine)
                    at = min(before, following)
                    fill(gx, target + begin * E + c, at - begin, E, convert(gx, both), mask)
                to = min(max(stop, at), following)
                fill(gx, target + at * E + c, to - at, E, convert(gx, mine), mask)
                fill(gx, target + to * E + c, following - to, E, nothing, mask)
    return 0


@worker
def fill_planes(lo, hi, grad, gx, index, accumulate, divisors, g):
    """Planes [lo, hi) in channels-first memory, each of which is one window of g[0] elements. There is no `index`."""
    size, none, (divisor, reciprocal) = g[0], splat(divisors, 0), shared(divisors)
    for q in range(lo, hi):
        v = convert(none, load_some(grad, q, lanes_inside(0, 1), splat(grad, 0)))
        v = convert(gx, rearrange(averaged(v, divisor, reciprocal, 1, none), indices(0, 0)))
        at, stop = q * size, (q + 1) * size
        while at + LANES <= stop:
            store(gx, at, v)
            at += LANES
        if at < stop:
            store_some(gx, at, v, lanes_inside(0, stop - at))
    return 0


@worker
def fill_zeros(lo, hi, grad, gx, index, divisors):
    """The only unit: all of gx."""
    fill(gx, 0, gx.size, 1, convert(gx, splat(divisors, 0)), lanes_inside(0, LANES))
    return 0
