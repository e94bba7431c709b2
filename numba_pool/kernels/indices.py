"""What flat indices route: gradients of a maximum, unpooling, and the gather that is unpooling's gradient.

None of these knows the windows: an index says all. Every index is checked before it is used, a block at a time: where
the smallest and the largest of a block are good, all are.
"""

import numpy as np
from numba import types

from ..simd import LANES, fence, prefetch
from ._asking import ASKED_LATE, FAR, asks
from ._compile import by_types, helper, worker
from ._staging import flush, streams

BLOCK = 2048  # indices checked together; they are still in the first cache when they are used
# The same of `scatter_groups`, whose planes are to stay there as well: with twice as many 3x3/2 of 13x13 takes 1.07 of
# the time, of 27x27 1.1 to 1.2.
GROUPED = 1 << 10
SPOTS = 256  # elements of pixels, for which where they lead is worked out together
WIDEST = 2**32  # elements of a plane or an image, in more than which indices are taken one by one
FAR_APART = 16  # elements for each index, more than which are not asked for: these are in no order
TILE = 1 << 16  # elements of a tile: 256 KiB of float32 stay in the second cache


@helper
def ask_for_next(index, grad, at, count):
    """The block after this one, while this one is worked on."""
    for i in range(at, at + count, 64 // index.itemsize):
        prefetch(index, i)
    for i in range(at, at + count, 64 // grad.itemsize):
        prefetch(grad, i)


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
    """How many indices lie outside a plane; -1 is as good as any if `skip`."""
    bad = 0
    for k in range(where.size):
        i = where[k]
        bad += i >= P or i < -1 or (i == -1 and not skip)
    return bad


@helper
def add_up(where, what, plane, base, ahead):
    """Add up elements of a plane that begins at element `base`, and ask for what comes `ahead` elements on: one line
    for each that is worked on, so that the machine has time for both.
    """
    k, origin = np.uintp(0), np.uintp(base)
    while k + np.uintp(LANES) <= np.uintp(where.size):
        prefetch(where, np.int64(k) + ahead)
        prefetch(what, np.int64(k) + ahead)
        if what.itemsize > 4:
            prefetch(what, np.int64(k) + ahead + LANES // 2)
        for _ in range(LANES):
            plane[np.uintp(where[k]) - origin] += what[k]
            k += np.uintp(1)
    while k < np.uintp(where.size):
        plane[np.uintp(where[k]) - origin] += what[k]
        k += np.uintp(1)


@helper
def put(where, what, plane, base):
    """Put them there instead."""
    origin = np.uintp(base)
    for k in range(np.uintp(where.size)):
        plane[np.uintp(where[k]) - origin] = what[k]


@helper
def scatter_inside(where, what, image, C, base, first, stop, accumulate):
    """Those that lead to pixels [first, stop) alone, one by one, in an image of C channels that begins at pixel `base`.
    """
    for k in range(where.size):
        i = np.int64(where[k])
        if first <= i < stop:
            at = np.uintp((i - base) * C + (k % C if C > 1 else 0))
            if accumulate:
                image[at] += what[k]
            else:
                image[at] = what[k]


@helper
def room_for_spots(C):
    """The channels of the elements of a few pixels, one after the other, and memory for where as many indices lead; of
    several channels only: small planes take 0.3 us longer for them.
    """
    channels = np.empty(max(SPOTS // C, 1) * C if C > 1 else 0, np.uint32)
    for pixel in range(0, channels.size, C):
        for c in range(C):
            channels[pixel + c] = c
    return channels, np.empty_like(channels)


@helper
def find_spots(where, first, C, base, channels, spots):
    """Where the next indices from `first` on lead in an image of C channels that begins at pixel `base`, in vectors:
    beside it the index, a product and a sum for each element take as long again as what is done there. How many.
    """
    count, start = min(spots.size, where.size - first), np.uintp(first)
    for k in range(np.uintp(count)):  # signed ones Numba would gather, since they might be negative
        spots[k] = (np.uint32(where[start + k]) - np.uint32(base)) * np.uint32(C) + channels[k]
    return count


@helper
def add_pixels(where, what, image, C, base, ahead, channels, spots):
    """Add up pixels of C channels in an image that begins at pixel `base`, and ask for what comes `ahead` elements on:
    0.8 ns an element of 64 channels, 0.9 of 3. By slices of `spots` for `add_up` those of 16 channels would take 1.3
    times as long.
    """
    for first in range(0, where.size, spots.size):
        count = np.uintp(find_spots(where, first, C, base, channels, spots))
        k, i = np.uintp(0), np.uintp(first)
        while k + np.uintp(LANES) <= count:
            prefetch(where, np.int64(i) + ahead)
            prefetch(what, np.int64(i) + ahead)
            if what.itemsize > 4:
                prefetch(what, np.int64(i) + ahead + LANES // 2)
            for _ in range(LANES):
                image[np.uintp(spots[k])] += what[i]
                k, i = k + np.uintp(1), i + np.uintp(1)
        while k < count:
            image[np.uintp(spots[k])] += what[i]
            k, i = k + np.uintp(1), i + np.uintp(1)


@helper
def add_pixels_within(where, what, image, C, base, first, stop, channels, spots):
    """Add up what leads to pixels [first, stop), of an image that begins at pixel `base`. The rest is added as 0 to the
    first of these, which changes no sum that began with 0: with a look at each element these take three times as long.
    """
    kept = np.zeros(spots.size, what.dtype)
    none = kept[0]  # of the same type: with a literal 0 Numba would take uint64 to float64
    for start in range(0, where.size, spots.size):
        count, s = np.uintp(min(spots.size, where.size - start)), np.uintp(start)
        least, most = extent(where[start : start + spots.size])
        if most < first or least >= stop:
            continue
        for k in range(count):
            i = np.int64(where[s + k])
            inside = first <= i < stop
            spots[k] = np.uint32((i if inside else first) - base) * np.uint32(C) + channels[k]
            kept[k] = what[s + k] if inside else none
        for k in range(count):
            image[np.uintp(spots[k])] += kept[k]


@helper
def put_pixels(where, what, image, C, base, channels, spots):
    """The same as `put` for pixels."""
    for first in range(0, where.size, spots.size):
        count = find_spots(where, first, C, base, channels, spots)
        put(spots[:count], what[first : first + count], image, 0)


@worker
def scatter_planes(lo, hi, grad, index, gx, channels, P, O, accumulate, parts):
    """Zeros, then `gx[index] += grad` (`= grad` where not `accumulate`) in row-major order, for units [lo, hi).

    A unit is one of `parts` equal ranges of the elements of a plane (channels 1), or of the pixels of an image in
    channels-last memory. It takes the gradients of its range and leaves the others. A range is zeroed as far as the
    indices have come, so that zeros are still in the cache when gradients are added.

    Returns how many indices lay outside the plane; -1, a window without a valid tap, is skipped where gradients add up.
    """
    bad = 0
    C = channels
    step = max(BLOCK // C, 1)
    channels_of, spots = room_for_spots(C)
    for unit in range(lo, hi):
        plane = unit // parts
        part = unit - plane * parts
        first, stop = P * part // parts, P * (part + 1) // parts
        # Slices and unsigned offsets: Numba would look for negative ones at every access otherwise.
        image = gx[plane * P * C : (plane + 1) * P * C]
        zeroed = first
        for o in range(0, O, step):
            begin, end = (plane * O + o) * C, (plane * O + min(o + step, O)) * C
            where, what = index[begin:end], grad[begin:end]
            least, most = extent(where)
            if part == 0 and (least < 0 or most >= P):
                bad += corrupt(where, P, accumulate)
            if most < first or least >= stop or first == stop:
                continue
            ahead = min(most + 1, stop)
            if ahead > zeroed:
                image[zeroed * C : ahead * C] = 0
                zeroed = ahead
            within = least >= first and most < stop
            if P * C > WIDEST or not (within or (C > 1 and accumulate)):
                scatter_inside(where, what, image, C, np.int64(0), first, stop, accumulate)
            elif C == 1 and accumulate:
                add_up(where, what, image, 0, end - begin)
            elif C == 1:
                put(where, what, image, 0)
            elif accumulate and within:
                add_pixels(where, what, image, C, 0, end - begin, channels_of, spots)
            elif accumulate:
                add_pixels_within(where, what, image, C, 0, first, stop, channels_of, spots)
            else:
                put_pixels(where, what, image, C, 0, channels_of, spots)
        image[zeroed * C : stop * C] = 0
    return bad


def tile_of(gx, size):
    """An array in the arithmetic of `gx`."""


@by_types(tile_of)
def _tile_of(gx, size):
    if isinstance(gx.dtype, types.Record):
        return lambda gx, size: np.empty(size, np.float32)
    return lambda gx, size: np.empty(size, gx.dtype)


def scattered(unit, grad, index, gx, channels, P, O, accumulate, parts):
    """Scatter one unit without a tile, where `gx` can be added to; True if so."""


@by_types(scattered)
def _scattered(unit, grad, index, gx, channels, P, O, accumulate, parts):
    if isinstance(gx.dtype, types.Record):
        return lambda unit, grad, index, gx, channels, P, O, accumulate, parts: False

    def scatter(unit, grad, index, gx, channels, P, O, accumulate, parts):
        scatter_planes(unit, unit + 1, grad, index, gx, channels, P, O, accumulate, parts)
        return True

    return scatter


@worker
def scatter_tiles(lo, hi, grad, index, gx, channels, P, O, accumulate, parts):
    """The same as `scatter_planes` for results that exceed the caches, and for halves.

    Gradients are added up in a tile, float32 for halves, that slides over the unit's range and is flushed behind: past
    an element that no later index names, nothing can change. How far back the indices still to come reach follows from
    a first look at all of them. A unit whose indices would need too large a tile is left to `scatter_planes`.
    """
    bad = 0
    C = channels
    step = max(BLOCK // C, 1)
    blocks = (O + step - 1) // step
    channels_of, spots = room_for_spots(C)
    least, most = np.empty(blocks + 1, np.int64), np.empty(blocks, np.int64)
    inside = np.empty(blocks, np.bool_)  # all indices of the block in the range of the unit
    buffer, tile = tile_of(gx, step * C + LANES), tile_of(gx, 0)
    for unit in range(lo, hi):
        plane = unit // parts
        part = unit - plane * parts
        first, stop = P * part // parts, P * (part + 1) // parts
        xo, yo = plane * P * C, plane * O * C
        outside = 0
        for block in range(blocks):
            begin, end = yo + block * step * C, yo + min((block + 1) * step, O) * C
            where = index[begin:end]
            ask_for_next(index, grad, end, end - begin)
            low, high = extent(where)
            inside[block] = low >= first and high < stop
            if low < 0 or high >= P:
                outside += corrupt(where, P, accumulate)
                low = P  # without the windows that hold nothing
                for k in range(where.size):
                    low = min(low, np.int64(where[k])) if where[k] >= 0 else low
            if low < stop and high >= first:
                least[block], most[block] = max(low, first), min(high, stop - 1)
            else:  # nothing for this range
                least[block], most[block] = stop, first - 1
        if part == 0:
            bad += outside
        if outside:
            continue  # the caller raises; what is written does not matter
        least[blocks] = stop
        span = 0
        for block in range(blocks - 1, -1, -1):
            least[block] = min(least[block], least[block + 1])
            span = max(span, most[block] + 1 - least[block])
        if span * C + 4 * BLOCK > TILE and scattered(unit, grad, index, gx, channels, P, O, accumulate, parts):
            continue
        needed = max(span, 1) * C + 4 * BLOCK  # a pixel at a time even where no index names any
        if tile.size < needed:
            tile = tile_of(gx, max(needed, TILE))
        room = (tile.size - LANES) // C
        base = zeroed = first  # tile[0] stands for `base`; it is zeroed up to `zeroed`
        for block in range(blocks):
            if most[block] < first:
                continue
            ahead = most[block] + 1
            if ahead > base + room:
                keep = min(least[block], zeroed)
                flush(tile, 0, (keep - base) * C, gx, xo + base * C, True)
                tile[: (zeroed - keep) * C] = tile[(keep - base) * C : (zeroed - base) * C]
                base = keep
                while ahead > base + room:  # elements that no index names
                    more = min(room, least[block] - base)
                    tile[: more * C] = 0
                    flush(tile, 0, more * C, gx, xo + base * C, True)
                    base = zeroed = base + more
            if ahead > zeroed:
                tile[(zeroed - base) * C : (ahead - base) * C] = 0
            zeroed = max(zeroed, ahead)
            begin, end = yo + block * step * C, yo + min((block + 1) * step, O) * C
            where, values = index[begin:end], numbers_of(grad, begin, end - begin, buffer)
            target = tile[: (ahead - base) * C]
            if target.size > WIDEST or not (inside[block] or (C > 1 and accumulate)):
                scatter_inside(where, values, target, C, base, first, stop, accumulate)
            elif C == 1 and accumulate:
                add_up(where, values, target, base, O)
            elif C == 1:
                put(where, values, target, base)
            elif accumulate and inside[block]:
                add_pixels(where, values, target, C, base, O * C, channels_of, spots)
            elif accumulate:
                add_pixels_within(where, values, target, C, base, base, stop, channels_of, spots)
            else:
                put_pixels(where, values, target, C, base, channels_of, spots)
        while base < stop:
            more = min(room, stop - base)
            tile[(zeroed - base) * C : more * C] = 0
            flush(tile, 0, more * C, gx, xo + base * C, True)
            base += more
            zeroed = max(zeroed, base)
    fence()
    return bad


def numbers_of(array, at, count, buffer):
    """array[at : at + count] in its arithmetic: the array's own memory, or for halves a copy in `buffer`."""


@by_types(numbers_of)
def _numbers_of(array, at, count, buffer):
    if isinstance(array.dtype, types.Record):

        def copied(array, at, count, buffer):
            flush(array, at, count, buffer, 0, False)
            return buffer[:count]

        return copied
    return lambda array, at, count, buffer: array[at : at + count]


def adds(gx):
    """Whether the memory of `gx` can be added to."""


@by_types(adds)
def _adds(gx):
    halves = isinstance(gx.dtype, types.Record)
    return lambda gx: not halves


@worker
def scatter_groups(lo, hi, grad, index, gx, channels, P, O, accumulate, parts):
    """The same as `scatter_planes` for whole planes (`parts` is 1) in channels-first memory, several at a time.

    What a plane costs beside its elements, to look at its indices and to zero it, is shared by a group. Four planes are
    added up in lockstep: neighbouring windows often have the same winner, and an element that was just stored is there
    to be added to 2 ns later; in the meantime there are three others. Nanoseconds per gradient, one thread, group by
    group and plane by plane: 2x2/2 of 8x8 0.6 and 3.0, of 14x14 0.6 and 1.2; 13x13/1 of 20x20 0.7 and 1.4.

    Results that exceed the caches, and halves, are added up in a tile: 3x3/2 of 27x27, 24 MiB, takes 0.7 of the time.
    """
    bad = 0
    group = 4 * max(1, min(GROUPED // O, TILE // max(P, 1)) // 4)
    streaming = streams(gx, grad, index)
    direct, asking = adds(gx) and not streaming, asks(gx, ASKED_LATE)
    tile = tile_of(gx, 0 if direct else group * P + LANES)
    values = tile_of(gx, 0 if adds(gx) else group * O + LANES)
    for first in range(lo, hi, group):
        count = min(group, hi - first)
        begin, end = first * O, (first + count) * O
        where = index[begin:end]
        if asking:  # in the caches, of 3 to 10 MiB, it would take 1.03 to 1.15 times as long
            ask_for_next(index, grad, end, end - begin)
        least, most = extent(where)
        good = least >= 0 and most < P
        if not good:
            bad += corrupt(where, P, accumulate)
        what = numbers_of(grad, begin, end - begin, values)
        image = numbers_of(gx, first * P, count * P, tile) if direct else tile[: count * P]
        image[:] = 0
        for q in range(0, count - 3 if good else 0, 4):
            a, b, c, d = q * O, (q + 1) * O, (q + 2) * O, (q + 3) * O
            wa, wb, wc, wd = where[a : a + O], where[b : b + O], where[c : c + O], where[d : d + O]
            ga, gb, gc, gd = what[a : a + O], what[b : b + O], what[c : c + O], what[d : d + O]
            a, b, c, d = q * P, (q + 1) * P, (q + 2) * P, (q + 3) * P
            xa, xb, xc, xd = image[a : a + P], image[b : b + P], image[c : c + P], image[d : d + P]
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
        for q in range(count // 4 * 4 if good else 0, count):
            a, b = q * O, q * P
            scatter_inside(where[a : a + O], what[a : a + O], image[b : b + P], 1, np.int64(0), np.int64(0), P,
                           accumulate)
        if not direct:
            flush(image, 0, count * P, gx, first * P, streaming)
    if streaming:
        fence()
    return bad


@helper
def gather_elements(where, source, target, ahead, share):
    """Elements of a plane; what comes from `ahead` on is asked for, to where the next indices probably lead, a `share`
    for each.
    """
    k, pitch = np.uintp(0), share * LANES
    while k + np.uintp(LANES) <= np.uintp(where.size):
        for at in range(ahead, ahead + pitch, 64 // source.itemsize):
            prefetch(source, at)
        ahead += pitch
        for _ in range(LANES):
            target[k] = source[np.uintp(where[k])]
            k += np.uintp(1)
    while k < np.uintp(where.size):
        target[k] = source[np.uintp(where[k])]
        k += np.uintp(1)


@helper
def gather_pixels_of(where, source, target, C, channels, spots):
    """The same for pixels of C channels."""
    for first in range(0, where.size, spots.size):
        count, start = find_spots(where, first, C, 0, channels, spots), np.uintp(first)
        for k in range(np.uintp(count)):
            target[start + k] = source[np.uintp(spots[k])]


@worker
def gather_planes(lo, hi, x, index, y, channels, P, O, parts):
    """`y = x[index]` within planes, or pixel by pixel within images in channels-last memory, for units [lo, hi), each
    one of `parts` equal ranges of the indices of a plane or image. Returns how many indices lay outside the plane.
    """
    bad = 0
    C = channels
    step = max(BLOCK // C, 1)
    far = asks(x, FAR)
    channels_of, spots = room_for_spots(C)
    several = BLOCK // max(O, 1) if parts == C == 1 else 1  # planes whose indices are checked together
    unit = lo
    while unit < hi:
        count = max(min(several, hi - unit), 1)
        plane = unit // parts
        part = unit - plane * parts
        first, stop = O * part // parts, O * (part + 1) // parts + O * (count - 1)
        source = x[plane * P * C : (plane + count) * P * C]
        for o in range(first, stop, step):
            begin, end = (plane * O + o) * C, (plane * O + min(o + step, stop)) * C
            where, target = index[begin:end], y[begin:end]
            least, most = extent(where)
            if least < 0 or most >= P:
                bad += corrupt(where, P, False)
            elif C > 1 and P * C > WIDEST:
                for k in range(where.size):
                    target[k] = source[np.uintp(where[k]) * np.uintp(C) + np.uintp(k % C)]
            elif C > 1:
                gather_pixels_of(where, source, target, C, channels_of, spots)
            elif several < 2:
                gather_elements(where, source, target, most, min((most - least) // where.size, FAR_APART) if far else 0)
            else:
                k = np.uintp(0)
                for q in range(count):
                    base = np.uintp(q * P)
                    for _ in range(O):
                        target[k] = source[base + np.uintp(where[k])]
                        k += np.uintp(1)
        unit += count
    return bad
