"""Results that the caches would not keep: written to a small buffer first, and from there in whole lines past them.

A kernel whose results follow each other in memory puts them into a stage as they come, at any alignment, and `flush`
moves what has gathered. 224x224 images to 112x112 (2x2 windows, 8x64 of them) gain a third of their time by it. What
comes as whole lines takes the direct way, by `put`: 64 channels of these last in 0.95 of the time, 0.87 with indices.
"""

import numpy as np

from ..simd import (
    LANES,
    PAGE,
    at_most,
    convert,
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

# Bytes read and written together, from which on a result is streamed: the caches would not keep it for its reader, and
# every line that is written in them is read before, and pushes out another. On a Zen 4 with 32 MiB of third cache 2x2/2
# of (8, 64, 112, 112), 37 MiB with indices, takes 0.7 of the time, from 49 MiB on 0.55 to 0.8; 3x3/1 of 28x28 planes,
# 28 MiB, would take 1.7 times as long, gradients of 2x2/2, 23 MiB, 1.3 to 1.7.
STREAMED = 32 << 20
STAGE = 2048  # elements that gather before they are moved: 8 KiB of float32 stay in the first cache
# The same where whole lines can be moved, and the rest waits: while many lines are streamed, none is read. 2x2/2 of
# 224x224 planes takes 0.97 of the time, of 64 channels last 0.9.
SOON = 128


@inlined
def streams(y, x, index):
    """Whether y, which is made from x and goes with an index or None, is streamed."""
    nbytes = y.size * y.itemsize + x.size * x.itemsize
    if index is not None:
        nbytes += index.size * index.itemsize
    return nbytes >= STREAMED


@helper
def staged(array, size, second=False):
    """Memory for `size` elements like those of an array, or for the second of two that are filled together.

    A vector behind the beginning of a page, or of its second half, and so within it, but for long rows and pixels: a
    store over the end of a page, be its lanes there masked off, waits until all that was streamed before has left the
    core, 90 ns on AMD's Zen 4. The gradient of 3x3/2 of 55x55 planes took twice as long in every process whose stage
    happened to lie so. Masked stores may begin up to a vector before a stage.
    """
    room = np.empty(size + LANES + 2 * PAGE // array.itemsize, array.dtype)
    first = (-room.ctypes.data % PAGE + (PAGE // 2 if second else 0)) // array.itemsize + LANES
    return room[first : first + size]


@helper
def flush(stage, start, count, array, at, streaming):
    """array[at : at + count] = stage[start : start + count], converted, and past the caches if `streaming`."""
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
    """Of the `count` elements, sixteen or more, that gathered for array[at:] move the lines that they fill, past the
    caches, and those of the indices, unless these are None; the rest, up to sixteen, are the front of the stages now.

    Returns how many wait there, and where in the array they go.
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
    """Whether an array and its indices, which may be None, begin where `stream` takes vectors."""
    if index is not None and misaligned(index, 0) != 0:
        return False
    return misaligned(array, 0) == 0
