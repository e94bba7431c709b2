"""Gradients of maxima and unpooling, by flat indices; and gather, which is the gradient of unpooling.

Nothing here knows the windows: an index says where a number goes. Every index is checked before it is used, a block of
indices at a time: if the smallest and the largest of a block lie in the plane, all do. An index counts *pixels*:
elements of a plane, or in channels-last memory places of an image, each of which has all channels.
"""

import numpy as np
from numba import types

from ..simd import LANES, fence, prefetch
from ._compile import by_types, helper, worker
from ._staging import flush, streams

BLOCK = 1 << 11  # indices that are checked together; they are still in the first cache when they are used
TOGETHER = 1 << 10  # indices of small planes, or images, that are taken together
SMALL = 1 << 14  # elements of a plane, or image, that counts as small, at most
BUFFER = 1 << 16  # elements that are added up beside the result, in the second cache, before they are streamed to it
WIDEST = 2**32  # elements that uint32 can count


def fewest_parts(plane: int, channels: int) -> int:
    """Into how many ranges to split an image at least, so that uint32 can count the elements of each."""
    return max(-(-plane * channels // WIDEST), 1)


@helper
def extent(where):
    """The smallest and the largest of some indices."""
    least = most = where[0]
    for k in range(where.size):
        i = where[k]
        least, most = i if i < least else least, i if i > most else most
    return np.int64(least), np.int64(most)


@helper
def corrupt(where, P, skip):
    """How many indices lie outside a plane of P pixels. If `skip`, -1 is allowed."""
    bad = 0
    for k in range(where.size):
        i = where[k]
        bad += i >= P or i < -1 or (i == -1 and not skip)
    return bad


@helper
def begins_of(images, P, O, C):
    """For each index of a few images, in the order of memory: the element that it would lead to if it were 0. An image
    has P pixels, O indices to a channel, and C channels.
    """
    begins, k = np.empty(images * O * C, np.uint32), 0
    for image in range(images):
        for _ in range(O):
            for c in range(C):
                begins[k] = image * P * C + c
                k += 1
    return begins


@helper
def find(where, begins, first, C, spots):
    """Write to `spots` the elements that indices lead to, counted from pixel `first`. LLVM makes vectors of this loop:
    as a part of the loop that adds gradients up, it would double its time.
    """
    for k in range(np.uintp(where.size)):  # a signed k might be negative, and LLVM would gather
        spots[k] = (np.uint32(where[k]) - np.uint32(first)) * np.uint32(C) + begins[k]


@helper
def find_inside(where, begins, first, stop, C, what, spots, kept):
    """The same for the indices that lead to pixels [first, stop) alone; `kept` gets the numbers that go there. Returns
    how many there are.
    """
    n = np.uintp(0)
    for k in range(np.uintp(where.size)):
        i = np.int64(where[k])
        spots[n] = (np.uint32(where[k]) - np.uint32(first)) * np.uint32(C) + begins[k]
        kept[n] = what[k]
        n += np.uintp(first <= i < stop)
    return np.int64(n)


@helper
def put(spots, what, target, base, accumulate, index, grad, ahead):
    """`target[spots - base] += what`, or `= what`, one after the other. Meanwhile the memory of the indices and
    gradients from `ahead` on is asked for: one cache line for each that is worked on, so that the processor has time
    for both.
    """
    k, base = np.uintp(0), np.uintp(base)
    if accumulate:
        while k + np.uintp(LANES) <= np.uintp(spots.size):
            prefetch(index, ahead)
            prefetch(grad, ahead)
            if grad.itemsize > 4:
                prefetch(grad, ahead + LANES // 2)
            ahead += LANES
            for _ in range(LANES):
                target[np.uintp(spots[k]) - base] += what[k]
                k += np.uintp(1)
        while k < np.uintp(spots.size):
            target[np.uintp(spots[k]) - base] += what[k]
            k += np.uintp(1)
    else:
        for k in range(np.uintp(spots.size)):
            target[np.uintp(spots[k]) - base] = what[k]


@helper
def put_by_fours(where, what, target, P, O, accumulate):
    """The same for planes that follow each other, four planes by turns. Neighbouring windows often have the same
    winner, and an element that was just stored can be added to only 2 ns later. Returns how many planes are done.
    """
    planes = where.size // O // 4 * 4
    for q in range(0, planes, 4):
        a, b, c, d = q * O, (q + 1) * O, (q + 2) * O, (q + 3) * O
        wa, wb, wc, wd = where[a : a + O], where[b : b + O], where[c : c + O], where[d : d + O]
        ga, gb, gc, gd = what[a : a + O], what[b : b + O], what[c : c + O], what[d : d + O]
        a, b, c, d = q * P, (q + 1) * P, (q + 2) * P, (q + 3) * P
        xa, xb, xc, xd = target[a : a + P], target[b : b + P], target[c : c + P], target[d : d + P]
        if accumulate:
            for k in range(O):
                xa[np.uintp(wa[k])] += ga[k]
                xb[np.uintp(wb[k])] += gb[k]
                xc[np.uintp(wc[k])] += gc[k]
                xd[np.uintp(wd[k])] += gd[k]
        else:
            for k in range(O):
                xa[np.uintp(wa[k])] = ga[k]
                xb[np.uintp(wb[k])] = gb[k]
                xc[np.uintp(wc[k])] = gc[k]
                xd[np.uintp(wd[k])] = gd[k]
    return planes


def addable(array, at, count, buffer):
    """array[at : at + count] as numbers that can be added: the array itself, or for halves a copy in `buffer`."""


@by_types(addable)
def _addable(array, at, count, buffer):
    if isinstance(array.dtype, types.Record):

        def copied(array, at, count, buffer):
            flush(array, at, count, buffer, 0, False)
            return buffer[:count]

        return copied
    return lambda array, at, count, buffer: array[at : at + count]


def buffer_of(gx, size):
    """An array of `size` numbers, in the arithmetic of `gx`: float32 for halves."""


@by_types(buffer_of)
def _buffer_of(gx, size):
    if isinstance(gx.dtype, types.Record):
        return lambda gx, size: np.empty(size, np.float32)
    return lambda gx, size: np.empty(size, gx.dtype)


def adds(gx):
    """Whether gradients can be added in the memory of `gx`, as they can unless it holds halves."""


@by_types(adds)
def _adds(gx):
    halves = isinstance(gx.dtype, types.Record)
    return lambda gx: not halves


@worker
def scatter(lo, hi, grad, index, gx, channels, P, O, accumulate, parts):
    """Clear `gx`, then `gx[index] += grad` in row-major order, for units [lo, hi); without `accumulate`, `= grad`.

    A unit is one of `parts` equal ranges of the elements of a plane (then `channels` is 1), or of the pixels of an
    image in channels-last memory. It reads all indices of its plane, takes the gradients that lead to its range, and
    leaves the others. Small planes, or images, are walked several at a time, since there is work that each would take
    for itself. Gradients are added up in the result itself. For halves, and for results that are streamed, they are
    added up in a buffer, which is then moved to the result.

    Returns how many indices lay outside the plane. An index of -1 stands for a window without any element: where
    gradients are added up, it is skipped.
    """
    bad, C, group = 0, channels, 1
    if parts == 1 and P * C <= SMALL:
        group = min(max(TOGETHER // max(O * C, 1), 1), max(BUFFER // max(P * C, 1), 1))
        if C == 1:
            group = max(group // 4 * 4, 4)
    step = min(max(BLOCK // C, 1), max(O, 1)) if group == 1 else group * max(O, 1)  # indices of a block and channel
    begins = begins_of(group if C > 1 else 1, P, step // group if C > 1 else step, C)
    spots, kept = np.empty_like(begins), buffer_of(gx, begins.size)
    values = buffer_of(gx, 0 if adds(gx) else step * C)
    buffer, streaming = buffer_of(gx, 0), streams(gx, grad, index)
    for unit in range(lo, hi, group):
        plane = unit // parts
        part, images = unit - plane * parts, min(group, hi - unit)
        first, stop = P * part // parts, P * (part + 1) // parts
        size, to = (stop - first + (images - 1) * P) * C, (plane * P + first) * C
        direct = adds(gx) and not (streaming and size <= BUFFER)
        if not direct and buffer.size < size:
            buffer = buffer_of(gx, size)
        target = addable(gx, to, size, buffer) if direct else buffer[:size]
        cleared = 0
        for o in range(0, O * images, step):
            begin, end = (plane * O + o) * C, (plane * O + min(o + step, O * images)) * C
            where, ahead = index[begin:end], begin + BLOCK
            least, most = extent(where)
            if part == 0 and (least < 0 or most >= P):
                bad += corrupt(where, P, accumulate)
            if most < first or least >= stop:
                continue
            # Clear only as far as the indices have come: so zeros are still in the cache when gradients are added.
            clear = size if images > 1 else (min(most + 1, stop) - first) * C
            if clear > cleared:
                target[cleared:clear] = 0
                cleared = clear
            inside = least >= first and most < stop
            what = addable(grad, begin, end - begin, values)
            done = put_by_fours(where, what, target, P, O, accumulate) if C == 1 and images > 1 and inside else 0
            for i in range(done, images if C == 1 else 1):
                w, v, image = where, what, target
                if C == 1 and images > 1:
                    w, v, image = where[i * O : (i + 1) * O], what[i * O : (i + 1) * O], target[i * P : (i + 1) * P]
                if not inside:
                    n = find_inside(w, begins, first, stop, C, v, spots, kept)
                    put(spots[:n], kept[:n], image, 0, accumulate, index, grad, ahead)
                elif C > 1:
                    find(w, begins, first, C, spots)
                    put(spots[: w.size], v, image, 0, accumulate, index, grad, ahead)
                else:
                    put(w, v, image, first, accumulate, index, grad, ahead)
        target[cleared:] = 0
        if not direct:
            flush(target, 0, size, gx, to, streaming)
    if streaming:
        fence()
    return bad


@worker
def gather(lo, hi, x, index, y, channels, P, O, parts):
    """`y = x[index]` within planes, or pixel by pixel within images in channels-last memory, for units [lo, hi). A unit
    is one of `parts` equal ranges of the indices of a plane, or image. Returns how many indices lay outside the plane.
    """
    bad, C = 0, channels
    group = max(BLOCK // max(O * C, 1), 1) if parts == 1 else 1  # images whose indices are checked together
    step = min(max(BLOCK // C, 1), max(O, 1)) if group == 1 else group * max(O, 1)
    begins = begins_of(group, P, step // group, C)
    spots = np.empty_like(begins)
    for unit in range(lo, hi, group):
        plane = unit // parts
        part, images = unit - plane * parts, min(group, hi - unit)
        first, stop = O * part // parts, O * (part + 1) // parts + O * (images - 1)
        source = x[plane * P * C : (plane + images) * P * C]
        for o in range(first, stop, step):
            begin, end = (plane * O + o) * C, (plane * O + min(o + step, stop)) * C
            where, target = index[begin:end], y[begin:end]
            least, most = extent(where)
            if least < 0 or most >= P:
                bad += corrupt(where, P, False)
            elif C == 1:
                k, count = np.uintp(0), O if images > 1 else where.size
                for image in range(images):
                    base = np.uintp(image * P)
                    for _ in range(count):
                        target[k] = source[base + np.uintp(where[k])]
                        k += np.uintp(1)
            elif P * C * images <= WIDEST:
                find(where, begins, 0, C, spots)
                for k in range(np.uintp(where.size)):
                    target[k] = source[np.uintp(spots[k])]
            else:
                for k in range(np.uintp(where.size)):
                    target[k] = source[np.uintp(where[k]) * np.uintp(C) + np.uintp(begins[k])]
    return bad
