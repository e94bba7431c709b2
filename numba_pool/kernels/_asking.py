"""Asking for what a kernel will soon read, which it reads from its beginning to its end.

A core waits for few lines at a time, sixteen on a Xeon, and its own look-ahead ends with a page: one stream of lines
leaves half of what memory gives unused. Asked for from several pages by turns, the machine looks ahead in all of them.
GB/s of a parallel loop that reads 256 MiB, on two cores of that Xeon: 14 as they come, 15 asked for in order, 17, 20
and 21 from two, four and eight pages by turns; with a fourth as many bytes written besides, 17 in order and 22 from
four, where the best copy moves 24. Pooling takes 0.7 to 0.86 of the time, and no less with eight pages, of which not
all that was asked for stays in the first cache until it is read. What comes from the caches is asked for in order.

A kernel asks at every step for as much as the step reads. A load waits behind all lines that were asked for before it:
in lumps of 32, once for eight steps, 3x3/2 of 224x224 planes takes twice the time with one thread of a Zen 4, 2x2/2 1.6
times; without asking at all both take longer still.
"""

from ..simd import PAGE, PAGES, ZEN, by_turns, prefetch, prefetch_near
from ._compile import inlined

# Bytes of an array, from which on it pays to ask. A line that is asked for takes as long as one that is read: while
# half of AMD's third cache holds the array, 2x2/2 takes 0.7 to 0.87 of the time on a Zen 4 without it, 3x3/2 0.8 to
# 0.9, gradients of 2x2/2 0.85 to 0.95, the others (planes as lanes, buffered rows) 0.9 to 1.05; from 16 MiB on 1.2 to
# 1.9 times as long. Elsewhere that cache is far away.
# Kernels whose lanes are channels read whole pixels as they come, which machines foresee: 2x2/2 of 512 channels,
# 12 MiB, takes 1.4 times as long if it asks; from memory they gain as well.
# Scattered gradients of 3 to 10 MiB take 0.84 to 0.97 of the time on a Xeon if they do not ask.
ASKED, ASKED_LATE = 12 << 20 if ZEN else 1 << 19, 14 << 20
FAR = 24 << 20  # bytes of an input that comes from memory
# Whether kernels whose lanes are columns ask for its pages by turns. AMD's Zen 5 looks ahead beyond a page: in order
# 3x3/2 takes 0.73 to 0.9 of the time there, 2x2/2 0.9, averages 0.85 to 0.93; those of pixels 1.07 to 1.14, and on
# Zen 4 0.8 to 1.2.
ROWS_BY_TURNS = not ZEN
AHEAD = 2048  # elements between what is read and what is asked for in order


@inlined
def asks(x, least):
    """Whether to ask for an array, of a kernel that gains from so many bytes on."""
    return x.size * x.itemsize >= least


@inlined
def is_far(x, gains=True):
    """Whether to ask for its pages by turns, which not every kernel gains from."""
    return gains and x.size * x.itemsize >= FAR


@inlined
def ahead_of(x, far):
    """Elements between what is read and what is asked for: if `far` a block, or lines are asked for that were read."""
    return PAGES * PAGE // x.itemsize if far else AHEAD


@inlined
def ask(x, first, stop, line, far):
    """Ask for elements [first, stop) in the memory of an array, with `line` elements to a line: a line for each."""
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
    """The same in order, and into the first cache on every machine: for kernels that the step from the second cache
    keeps waiting. Averages of planes that are one window take 1.1 times as long without, maxima of such 0.9.
    """
    while first < stop:
        prefetch_near(x, first)
        first += line
