"""What each kernel does, and when it is chosen, in words for whoever calls the library: what `explain` shows.

Each entry is the kernel's name, what it does, and why it serves. "Windows" are those of the call. The measurements
behind each choice stand beside its code in `kernels/`.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Sentences(NamedTuple):
    does: str
    because: str


# They combine the elements of windows. The gradient of an average is made in the same way, out of the windows that
# hold an element.
POOLING = {
    "narrow_rows": Sentences(
        "Fills whole registers with neighbouring windows, and combines the rows of the windows, then their columns.",
        "No indices are asked for, windows have at most five columns at stride 1 or 2, and elements have one or two "
        "bytes or the processor has no 64-byte registers."),
    "window_runs": Sentences(
        "Reads each window from its first to its last element, 16 elements at a time, and keeps the extreme.",
        "Each window is one long stretch of memory without gaps."),
    "window_pixel_runs": Sentences(
        "Reads each window pixel by pixel, and keeps the extreme of every channel.",
        "The memory is channels last, each window is one long stretch of it, and windows have few pixels in common."),
    "average_runs": Sentences(
        "Adds up each window from its first to its last element, 16 elements at a time.",
        "Each window is one long stretch of memory without gaps."),
    "average_pixel_runs": Sentences(
        "Adds up each window pixel by pixel, every channel by itself.",
        "The memory is channels last, and each window is one long stretch of it."),
    "window_taps": Sentences(
        "Combines a window's elements, for 16 channels at once: of small windows one after the other, of large ones "
        "along one axis, then along the next.",
        "The memory is channels last, and there are at least 16 channels, which fill registers."),
    "turned_taps": Sentences(
        "Turns 32 planes at a time into channels last, and combines a window's elements: one after the other, or of "
        "large windows along one axis, then along the next.",
        "At least 16 planes fill registers as channels do, and windows are long or the processor has no 64-byte "
        "registers."),
    "window_strips": Sentences(
        "Finds the extremes along every row once, and passes them on to all the windows that the row belongs to.",
        "Indices are asked for, and windows have few rows and columns."),
    "window_steps": Sentences(
        "Reads up to 32 neighbours of a row at a time, combines the rows of a window, then picks its columns out of "
        "the result, by a list of steps that is kept between calls.",
        "Windows have few columns."),
    "window_rows": Sentences(
        "Turns 32 rows at a time into channels last, and finds the extremes along them; then of these down columns.",
        "It takes windows of any kind, and no special case is faster here."),
    "summed_rows": Sentences(
        "Adds up the elements of windows down columns, then turns 32 rows of sums at a time into channels last, and "
        "adds these up along rows.",
        "It takes windows of any kind, and no special case is faster here."),
    "window_sections": Sentences(
        "Cuts the work into sections, and computes each by itself.",
        "Rows are very long or very many, or the windows of a gradient are divided by different numbers."),
    "window_core": Sentences(
        "Computes the windows that hold elements, plane by plane, and fills the rest of the result.",
        "Most windows lie in the padding alone."),
    "segment_rows": Sentences(
        "Combines the rows of each segment, for at least 16 channels at once.",
        "Segments are rows that follow each other, as many as they may be."),
    "max_drawn": Sentences(
        "Looks at the elements of each window one after the other.",
        "Windows of fractional pooling are drawn at random, and follow no pattern."),
    "norm_windows": Sentences(
        "Finds the largest magnitude of each window, or the smallest.",
        "The order p is infinite."),
}  # fmt: skip

# What a gradient of an average does before all else, where one of those above makes it.
ADDS_UP = "Gives every element the sum of the gradients of the windows that hold it, each divided as its average was."

GRADIENTS = {
    "gradient_core": Sentences(
        "Takes the gradients of windows that hold elements, plane by plane, and leaves them to another kernel.",
        "Most windows lie in the padding alone."),
    "spread_rows": Sentences(
        "Adds up the gradients of all windows that a row belongs to, then spreads them along the row.",
        "Windows are far apart."),
    "fill_rows": Sentences(
        "Fills the stretch of each window with its gradient, and what two windows share with the sum.",
        "Windows are long stretches of a signal, and no element is in more than two."),
    "fill_planes": Sentences(
        "Fills each plane with its only gradient, divided as its average was.",
        "Each plane is one window, as in global pooling."),
    "spread_segments": Sentences(
        "Fills the rows of each segment with its gradient, divided as its average was, and all other rows with 0.",
        "Segments share no row."),
    "fill_zeros": Sentences("Fills the gradient with zeros.", "There are no windows."),
    "spread_lines": Sentences(
        "Writes every element once, 16 neighbours at a time: the gradient, or value to unpool, of its window, or 0.",
        "Windows share no element, or seem not to."),
    "scatter": Sentences(
        "Clears the result, then takes each gradient, or value to unpool, to the element that its index names.",
        "Windows may share elements, or it is not known which they are."),
    "gather": Sentences(
        "Picks from the gradient the elements that the indices name.",
        "The gradient of a value that was unpooled is the one at its index."),
    "norm_rows": Sentences(
        "Adds up the powers of all magnitudes in each window, then takes the roots; a gradient is shared out by the "
        "powers of the norms.",
        "The order p is finite, and windows of a gradient are not dilated."),
    "norm_gradient_planes": Sentences(
        "Gives each gradient to the elements of its window, each its share by the power of its magnitude.",
        "The order p is infinite, or windows are dilated."),
}  # fmt: skip


# The reductions of blocks that do not overlap.
BLOCKS = {
    "blocks_in_registers": Sentences(
        "Reads the few elements of many neighbouring blocks at once, and keeps what becomes of them in registers.",
        "Blocks have few elements, and lie side by side in memory."),
    "blocks_by_lines": Sentences(
        "Combines the lines of a row of blocks element by element, then the neighbours that belong to one block.",
        "Blocks have many elements, or not all of a line's neighbours."),
    "blocks_side_by_side": Sentences(
        "Lays many blocks side by side, and sorts or compares the elements of all of them at once.",
        "The reduction needs all elements of a block at the same time, and blocks have few."),
    "blocks_one_by_one": Sentences(
        "Collects the elements of one block after the other.",
        "The reduction needs all elements of a block at the same time, and blocks are large, or a function of yours "
        "takes them."),
}  # fmt: skip


def sentences(kernel: str, parts: Iterable[str], backward: bool) -> Sentences:
    """What is said of a kernel, and of those that do `parts` of its work, in a forward call or a `backward` one."""
    said = [{**POOLING, **GRADIENTS, **BLOCKS}[name] for name in dict.fromkeys((kernel, *parts))]
    first = [ADDS_UP] if backward and kernel in POOLING else []
    return Sentences(" ".join(first + [each.does for each in said]), said[0].because)
