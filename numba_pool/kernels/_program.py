"""Programs: what a walk does for the windows of a plane. NumPy works it out, so that compiled code knows no geometry.

A *run* is some windows of a row, side by side, that are alike: they have their elements at the same distances, and each
begins as far behind the one before. That is all. So there is no case for windows that borders clip, for dilated or
adaptive ones, or for the inverse windows of a gradient. Where windows of two sizes take turns, as in the gradient of
3x3/2, every second window belongs to one run, and the others to another.

A *list* has the distances from a window's first element to all of its elements. A *program* is the runs of a row, which
are the same for all rows of windows; what differs from row to row; and the lists. The architecture page has
an example with its numbers.

All places and distances in the plane are counted in pixels: a walk multiplies them by the elements of a pixel.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._windows import Axis, Ints
from ._job import COUNTS, INSIDE, Axes

Table = NDArray[np.int64]

# The header. COLUMNS: windows of a row. ROWS: where the rows begin; the runs stand before them.
COLUMNS, ROWS, HEADER = range(3)

# The numbers of a run. AT: the first column of its first window. OUT: the number of that window in the row. COUNT: how
# many windows it has. STEP: columns from one window to the next. APART: by how much their numbers differ. WIDE: how
# many windows are walked as one, as a single window with so many times the channels. That can be where each window
# begins a column behind the one before, since then their elements lie side by side in memory, as their results do.
# LIST: how many numbers its list begins behind the first list of a row of windows. TAPS: columns of a window. WIDTH:
# the factor that these contribute to a divisor.
AT, OUT, COUNT, STEP, APART, WIDE, LIST, TAPS, WIDTH = range(9)
RUN = 9

# The numbers of a row of windows. ROW_AT: the first pixel of its windows, as if they began at column 0. ROW_TAPS: rows
# of a window, in all of its slices together. ROW_WIDTH: the factor that these contribute to a divisor. ROW_LISTS: where
# the lists of windows with these rows begin. There is one for each number of columns.
ROW_AT, ROW_TAPS, ROW_WIDTH, ROW_LISTS = range(4)
ROW = 4

NINE = 9  # numbers that a list has at least: walks take nine before they look at how many taps there are
LONG = 1 << 11  # windows that are walked as one, at most
MOST_TAPS = 1 << 20  # elements of a window; to list more takes too long


def program(axes: Axes, by_columns: bool, flat: bool, begin: int = 0) -> Table:
    """The program of the windows along D, H and W of a plane, flat. It may become a part of a larger table, in which it
    stands at `begin`: places of rows and lists are counted from the start of that table.

    Lists have the elements of a window row by row, so that the first of equal elements is met first; or if
    `by_columns`, column by column, in which order sums are added up. If `flat`, windows that begin a column apart are
    walked as one (see WIDE).
    """
    depth, height, width = axes
    (deep, d), (high, h), (wide, w) = (axis.distances for axis in axes)
    row, order = width.size, (2, 0, 1) if by_columns else (0, 1, 2)
    tall = np.array([len(a) for a in deep])[d][:, None] * np.array([len(b) for b in high])[h]
    columns, of_columns = [len(c) for c in wide], w
    (deep, d), (high, h), (wide, w) = kinds_of_lists(axes, order)
    lists = [(a[:, None, None] * (height.size * row) + b[:, None] * row + c).transpose(order).ravel()
             for a in deep for b in high for c in wide]
    pitch = max(NINE, max(map(len, lists)))
    listed = np.zeros((len(lists), pitch), np.int64)
    for one, hops in zip(listed, lists):
        one[: len(hops)] = hops
    runs = runs_along(width, columns, (w * pitch).tolist(), of_columns, flat)
    rows = np.empty((depth.n, height.n, ROW), np.int64)
    rows[..., ROW_AT] = (depth.start[:, None] * height.size + height.start) * row
    rows[..., ROW_TAPS] = tall
    rows[..., ROW_WIDTH] = factors_of(depth.width[:, None], height.width)
    behind = begin + HEADER + runs.size
    rows[..., ROW_LISTS] = (d[:, None] * len(high) + h) * (len(wide) * pitch) + (behind + rows.size)
    return np.concatenate(((width.n, behind), runs, rows.ravel(), listed.ravel()))


def factors_of(deep: Table, high: Table) -> Table:
    """The products of what two axes contribute to a divisor; of both of their numbers, where these are two in one."""
    products: Table = (deep & COUNTS) * (high & COUNTS) + ((deep >> INSIDE) * (high >> INSIDE) << INSIDE)
    return products


def kinds_of_lists(axes: Axes, order: Ints) -> list[tuple[list[Table], Table]]:
    """The `distances` along each axis of which lists are made. Along the axis that comes first in their order, a list
    of the longest windows begins with those of all others: padding clips windows to many lengths.
    """
    kinds = [axis.distances for axis in axes]
    outer = next((i for i in order if axes[i].most > 1), 0)
    hops, which = kinds[outer]
    if axes[outer].nested:
        kinds[outer] = hops[-1:], np.zeros_like(which)
    return kinds


def runs_along(axis: Axis, taps: list[int], lists: list[int], which: Table, flat: bool) -> Table:
    """The runs of a row of windows, flat. Windows have several lengths: `taps` are the columns of each length, and
    `which` says for each window which length it has. `lists` has the LIST of each window.
    """
    numbers: list[Any] = []
    alike, starts, widths, kinds = axis.runs.tolist(), axis.start.tolist(), axis.width.tolist(), which.tolist()
    for phase in range(min(axis.apart, axis.n)):
        first = phase
        while first < axis.n:
            count = alike[first]
            step = starts[first + axis.apart] - starts[first] if count > 1 else 0
            pieces = [(0, count, 1)]
            if flat and step == 1 == axis.apart:
                pieces = [(done, 1, min(LONG, count - done)) for done in range(0, count, LONG)]
            for done, many, wide in pieces:
                numbers += (starts[first] + done, first + done, many, step, axis.apart, wide, lists[first],
                            taps[kinds[first]], widths[first])
            first += count * axis.apart
    return np.array(numbers, np.int64)
