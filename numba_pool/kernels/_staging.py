"""Results larger than the caches: written to a small buffer first, and from there past the caches in whole lines.

A kernel whose results follow each other in memory puts them into a stage as they come, at any alignment, and `flush`
moves what has gathered. 224x224 images to 112x112 (2x2 windows, 8x64 of them) gain a third of their time by it.
"""

from numba import njit

from ._vectors import LANES, misaligned, stream

STREAMED = 8 << 20  # bytes of a result from which on it is streamed: more than the caches keep for its reader
STAGE = 2048  # elements that gather before they are moved: 8 KiB of float32 stay in the first cache


@njit
def flush(stage, start, count, array, at, streaming):
    """array[at : at + count] = stage[start : start + count], past the caches if `streaming`."""
    head = min(count, (LANES - misaligned(array, at)) % LANES) if streaming else count
    for i in range(head):
        array[at + i] = stage[start + i]
    body = head
    while body + LANES <= count:
        stream(array, at + body, stage, start + body)
        body += LANES
    for i in range(body, count):
        array[at + i] = stage[start + i]
