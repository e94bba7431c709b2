"""Streaming: results so large that the caches would not keep them are written past the caches, in whole cache lines.

Results come in pieces of any length, at any alignment. So a kernel first writes them to a *stage*, a small array that
stays in the first cache. `flush` or `stream_lines` then moves what has gathered there to the result. Pooling 224x224
images by 2x2 takes two thirds of the time that it takes without. Results that come as whole lines need no stage: `put`
streams them directly.
"""


from ..simd import (
    LANES,
    PAGE,
    at_most,
    convert,
    empty,
    lanes_inside,
    load,
    load_some,
    misaligned,
    splat,
    store,
    store_some,
    stream,
)
from ._compile import helper, inlined

# Bytes that are read and written together, from which on a result is streamed. The caches would not keep such a result
# until somebody reads it. Moreover, a line that is written in the caches is read from memory before, and pushes out
# another line. On a Zen 4 with 32 MiB of third cache, 2x2/2 maxima with indices take 0.7 of the time from 37 MiB on;
# up to 28 MiB, streaming would take 1.3 to 1.7 times as long.
STREAMED = 32 << 20
STAGE = 2048  # elements that gather before `flush` moves them: 8 KiB of float32 stay in the first cache
# Elements that gather before `stream_lines` moves them. It leaves what fills no line, so it may come often. Little is
# moved at a time because memory is not read while lines are streamed.
SOON = 128


@inlined
def streams(y, x, index):
    """Whether the result y is streamed. It is made from x; `index` are its indices, or None."""
    nbytes = y.size * y.itemsize + x.size * x.itemsize
    if index is not None:
        nbytes += index.size * index.itemsize
    return nbytes >= STREAMED


@helper
def staged(array, size, second=False):
    """A stage: memory for `size` elements of the array's dtype, which begins a vector behind the beginning of a page.
    If two stages are filled together, that of the `second` begins a vector behind the middle of a page.

    So a stage that is not too long lies within one page. A store that reaches over the end of a page waits until all
    lines that were streamed before have left the core (90 ns on a Zen 4), even if the lanes beyond are masked off.
    The vector before the stage is for masked stores, which may begin there.
    """
    room = empty(array, size + LANES + 2 * PAGE // array.itemsize)
    first = (-room.ctypes.data % PAGE + (PAGE // 2 if second else 0)) // array.itemsize + LANES
    return room[first : first + size]


@helper
def flush(stage, start, count, array, at, streaming):
    """array[at : at + count] = stage[start : start + count], converted; past the caches if `streaming`."""
    head = at_most(count, (LANES - misaligned(array, at)) % LANES) if streaming else 0
    if head:
        m = lanes_inside(0, head)
        store_some(array, at, convert(array, load_some(stage, start, m, splat(stage, 0))), m)
    i = head
    while i + LANES <= count:
        v = convert(array, load(stage, start + i))
        if streaming:
            stream(array, at + i, v)
        else:
            store(array, at + i, v)
        i += LANES
    if i < count:
        m = lanes_inside(0, count - i)
        store_some(array, at + i, convert(array, load_some(stage, start + i, m, splat(stage, 0))), m)


@helper
def stream_lines(stage, stage_index, array, index, at, count):
    """Move what has gathered for array[at:] past the caches, as far as it fills cache lines; the same for the indices,
    unless these are None. `count` elements have gathered, sixteen or more.

    The rest, up to sixteen elements, is moved to the front of the stages. Returns how many elements wait there, and
    where in the array they go.
    """
    head = (LANES - misaligned(array, at)) % LANES
    moved = head + (count - head) // LANES * LANES
    flush(stage, 0, moved, array, at, True)
    store(stage, 0, load(stage, moved))
    if index is not None:
        flush(stage_index, 0, moved, index, at, True)
        store(stage_index, 0, load(stage_index, moved))
    return count - moved, at + moved


@helper
def begins_line(array, index):
    """Whether an array begins with a cache line, and its indices, too, unless they are None."""
    if index is not None and misaligned(index, 0) != 0:
        return False
    return misaligned(array, 0) == 0
