"""Asking: kernels read an array from its beginning to its end, and ask (prefetch) for memory that they will soon read.

A core waits for few cache lines at a time, sixteen on a Xeon, and its own look-ahead ends with a page. So one stream of
lines leaves half of the memory's speed unused. If lines are asked for from several pages *by turns*, the core looks
ahead in all of these pages. A parallel loop that reads 256 MiB on two cores of a Xeon gets 14 GB/s without asking, 15
if it asks in order, and 20 from four pages by turns; pooling takes 0.7 to 0.86 of the time. With eight pages, what was
asked for is pushed out of the first cache before it is read. What comes from the caches is asked for in order.

A kernel asks at every step for as much as the step reads. A load waits behind all lines that were asked for before it,
so that 32 lines at once, every eighth step, take up to twice the time on a Zen 4.
"""

from ..simd import PAGE, PAGES, ZEN, by_turns, prefetch, prefetch_near
from ._compile import inlined

# Bytes of an array, from which on it pays to ask. To ask for a line takes as long as to read one. While half of a
# Zen 4's third cache holds the array, 2x2/2 maxima take 0.7 to 0.87 of the time without asking; from 16 MiB on they
# take 1.2 to 1.9 times as long without. On other processors the third cache is farther away.
# `ASKED_LATE` is for kernels that read whole pixels, or whole windows, one element after the other. Processors foresee
# that: 2x2/2 of 512 channels in 12 MiB takes 1.4 times as long if it asks. From memory these kernels gain as well.
ASKED, ASKED_LATE = 12 << 20 if ZEN else 1 << 19, 14 << 20
FAR = 24 << 20  # bytes of an input, from which on it comes from memory, not from the caches
# Whether kernels whose lanes are columns ask for pages by turns. A Zen 5 looks ahead beyond the end of a page: if 3x3/2
# maxima ask in order, they take 0.73 to 0.9 of the time there.
ROWS_BY_TURNS = not ZEN
AHEAD = 2048  # elements between what is read and what is asked for in order


@inlined
def asks(x, least):
    """Whether to ask for an array's memory: if it has `least` bytes or more."""
    return x.size * x.itemsize >= least


@inlined
def is_far(x, gains=True):
    """Whether to ask for the pages of an array by turns. Not every kernel gains from that."""
    return gains and x.size * x.itemsize >= FAR


@inlined
def ahead_of(x, far):
    """How many elements ahead of what is read to ask. By turns (`far`) that is a whole block of pages: less ahead, some
    of the lines whose turn it is would have been read before.
    """
    return PAGES * PAGE // x.itemsize if far else AHEAD


@inlined
def ask(x, first, stop, line, far):
    """Ask for the memory of elements [first, stop), one request for each cache line of `line` elements; from several
    pages by turns if `far`.
    """
    if far:
        while first < stop:
            prefetch(x, by_turns(x, first))
            first += line
    else:
        while first < stop:
            prefetch(x, first)
            first += line


@inlined
def ask_near(x, first, stop, line):
    """Ask for elements [first, stop) in order, and into the first cache on every machine: for kernels that would wait
    for memory in the second cache. Averages of windows that are whole planes gain a tenth by this.
    """
    while first < stop:
        prefetch_near(x, first)
        first += line
