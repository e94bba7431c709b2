"""Gradients of maxima and unpooling, by flat indices; and gather, which is the gradient of unpooling.

Nothing here knows the windows: an index says where a number goes. Every index is checked where it is used. An index
counts *pixels*: elements of a plane, or in channels-last memory places of an image, each of which has all channels.
"""

from math import prod

import numpy as np
from numba import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

from ..simd import LANES, RECORDS, at_least, at_most, fence, held_as, new_array
from ._compile import inlined, worker
from ._job import Call, Windows
from ._staging import flush

TOGETHER = 1 << 12  # elements of small planes that are taken together: they stay in the first cache
BUFFER = 1 << 16  # elements that are added up beside the result, in the second cache, before they are streamed to it
LARGE = 1 << 20  # elements of an image with channels last, from which on it is cleared piece by piece
# Places in memory are counted without a sign: else Numba asks of each whether it counts from the array's end.
ZERO, ONE, THREE, FOUR = (np.uintp(n) for n in (0, 1, 3, 4))


def plan(job: Windows) -> Call:
    """Gradients by their indices, in whatever order these are; unpooling if they are not added up."""
    plane, halves = prod(job.shape[-job.rank :]), True if job.dtype.name in RECORDS else None
    streaming = job.large if halves or (job.large and plane * job.elements <= BUFFER) else None
    channels = job.elements if job.elements > 1 else None
    rest = channels, plane, prod(job.output), halves, streaming, job.accumulate or None
    return Call(scatter, job.images, job.read, rest, job.shape, by_index=True)


@intrinsic
def room(typingctx, array, size, wanted):
    """An array of `size` numbers in which those of `array` can be added up; if `wanted` is None, the array itself."""
    if isinstance(wanted, types.NoneType):
        return array(array, size, wanted), lambda ctx, b, sig, args: impl_ret_borrowed(ctx, b, array, args[0])
    made = types.Array(held_as(array), 1, "C")
    return made(array, types.int64, wanted), lambda ctx, b, sig, args: new_array(ctx, b, made, args[1])


@inlined
def put(grad, k, index, ahead, target, at, windows, layout, first, count, accumulate):
    """target[at + index] += grad, or `= grad` if `accumulate` is None, for gradients from grad[k] on. Their indices lie
    `ahead` of them. Only `count` pixels from `first` on are there. Returns how many indices lead elsewhere.

    The `layout` says how many channels there are; how far their gradients, and their elements, lie apart; and how far
    it is to the next window's gradients, which is how far it is to the next pixel.
    """
    channels, hop, step, pixel = layout
    missed = ZERO
    for _ in range(windows):
        g, to = k, at
        for _ in range(channels):
            i = np.uintp(index[g + ahead]) - first  # an index before `first` becomes a very large number
            if i < count:
                if accumulate is not None:
                    target[to + i * pixel] += grad[g]
                else:
                    target[to + i * pixel] = grad[g]
            elif accumulate is None or index[g + ahead] != -1:
                missed += ONE  # LLVM would take a longer question out of the branch: what is wrong is asked later
            g += hop
            to += step
        k += pixel
    return missed


@inlined
def led_to(index, at, size, first, count):
    """How many pixels from `first` on, at most `count`, hold all that `size` indices from index[at] on lead to."""
    far = np.int64(-1)
    for i in range(at, at + np.uintp(size)):
        far = at_least(far, index[i])
    return np.uintp(at_most(at_least(far + 1 - np.int64(first), 0), np.int64(count)))


@worker
def scatter(lo, hi, grad, index, gx, channels, P, O, halves, streaming, accumulate, parts):
    """Clear `gx`, then `gx[index] += grad` in row-major order, for units [lo, hi); `= grad` if `accumulate` is None.

    A unit is one of `parts` equal ranges of the elements of a plane (then `channels` is None), or of the pixels of an
    image in channels-last memory. It reads all indices of its plane, takes the gradients that lead to its range, and
    leaves the others. If `streaming` is None, gradients are added up in the result itself. Else they are added up in a
    buffer (as float32, if `halves` is not None), which is then moved to the result: past the caches if `streaming`.

    Returns how many indices lay outside the plane. Where gradients are added up, -1 stands for an empty window.
    """
    E = 1 if channels is None else channels
    C, pixels, windows, bad, ahead = np.uintp(E), np.uintp(P), np.uintp(O), ZERO, ZERO
    wrong = ZERO - pixels - (ZERO if accumulate is None else ONE)  # wrong numbers from P on: all, or all but -1
    together = at_least(TOGETHER // at_least(P * E, 1), 1) if parts == 1 else 1
    target, source = room(gx, together * P * E // parts + E, streaming), room(grad, together * O * E, halves)
    unit = lo
    while unit < hi:
        plane, part, planes = np.uintp(unit // parts), unit % parts, at_most(together, hi - unit)
        first = np.uintp(P * part // parts)
        count = np.uintp(P * (part + 1) // parts) - first
        begin, to = plane * windows * C, (plane * pixels + first) * C
        size = (count + np.uintp(planes - 1) * pixels) * C
        k, at, missed, left = begin, to if streaming is None else ZERO, ZERO, planes
        if halves is not None:
            flush(grad, np.int64(begin), planes * O * E, source, 0, False)
            k, ahead = ZERO, begin
        # A large image is cleared no further than the next windows lead, so that it is in the second cache when these
        # add to it: one of 160,000 pixels of 64 channels take a third of the time.
        some = at_least(TOGETHER // E, 1) if E >= LANES and np.int64(size) > LARGE else O
        start, done = at, ZERO if some < O else size
        for e in range(start, start + done):
            target[e] = 0
        # Where windows overlap much, neighbours have the same winner, and what was just stored can be added to only
        # some time later. Planes by turns take 0.75 to 0.95 of the time.
        if channels is None and 4 * O > P:
            while left >= 4:
                layout = FOUR, windows, pixels, ONE
                missed += put(source, k, index, ahead, target, at, windows, layout, ZERO, pixels, accumulate)
                k += FOUR * windows
                at += FOUR * pixels
                left -= 4
        for _ in range(left):
            if channels is not None and C == THREE and parts == 1:  # a loop of three that LLVM unrolls
                layout = THREE, ONE, ONE, THREE
                missed += put(source, k, index, ahead, target, at, windows, layout, ZERO, pixels, accumulate)
            elif some >= O:
                missed += put(source, k, index, ahead, target, at, windows, (C, ONE, ONE, C), first, count, accumulate)
            else:
                for window in range(0, O, some):
                    many, begins = at_most(some, O - window), k + np.uintp(window) * C
                    reach = led_to(index, begins + ahead, many * E, first, count) * C
                    for e in range(start + done, start + reach):
                        target[e] = 0
                    done = reach if reach > done else done
                    missed += put(source, begins, index, ahead, target, at, many, (C, ONE, ONE, C), first, count,
                                  accumulate)
            k += windows * C
            at += pixels * C
        for e in range(start + done, start + size):
            target[e] = 0
        if missed and part == 0:
            for i in range(begin, k + ahead):
                bad += np.uintp(np.uintp(index[i]) - pixels < wrong)
        if streaming is not None:
            flush(target, 0, np.int64(size), gx, np.int64(to), streaming)
        unit += planes
    if streaming is not None:
        fence()
    return np.int64(bad)


@worker
def gather(lo, hi, x, index, y, channels, P, O, parts):
    """`y = x[index]` within planes, or pixel by pixel within images in channels-last memory, for units [lo, hi). A unit
    is one of `parts` equal ranges of the indices of a plane, or image. Returns how many indices lay outside the plane.
    """
    bad, C, pixels = ZERO, ONE if channels is None else np.uintp(channels), np.uintp(P)
    for unit in range(lo, hi):
        plane, part = np.uintp(unit // parts), unit % parts
        first, stop = np.uintp(O * part // parts), np.uintp(O * (part + 1) // parts)
        k = (plane * np.uintp(O) + first) * C
        for _ in range(stop - first):
            at = plane * pixels * C
            for _ in range(C):
                i = np.uintp(index[k])
                if i < pixels:
                    y[k] = x[at + i * C]
                else:
                    bad += ONE
                k += ONE
                at += ONE
    return np.int64(bad)
