"""All that is compiled: the kernels in order of preference.

A kernel has a room, a module, in which stand its rule (which windows it serves best, with the measurements), the
tables that it reads, and its walk. A rule is a function of `Windows`, which returns a `Call`, or None if another kernel
is to serve. The first rule that returns a call wins: to add a kernel, write its room and put its rule into a list.
"""

from collections.abc import Callable

from . import (
    average,
    fills,
    lines,
    narrow,
    planes,
    rows,
    runs,
    spread,
    steps,
    strips,
    taps,
)
from ._job import Call, Windows

Rule = Callable[[Windows], Call | None]

# Maxima, minima, averages and sums over windows.
FORWARD: tuple[Rule, ...] = (
    narrow.plan,            # maxima of one or two bytes, rows downwards and then along, in vectors of 64 or 32 elements
    runs.plan_maxima,       # windows that are a run of memory each: whole planes, whole rows
    runs.plan_averages,     # averages of long runs, every sixteenth element first
    runs.plan_rows,         # long windows of one row each: runs of memory as well
    runs.plan_pixels,       # the same in channels-last memory
    lines.plan_sums,        # averages over many columns at stride 1: sums of 1, 4, 16, ... columns
    taps.plan_few,        # channels last, half a vector of channels and few taps
    planes.plan_first,      # many small planes turned into channels, where registers are narrow or windows large
    strips.plan,            # windows of few rows with indices: picked out of rows, which are passed on downwards
    steps.plan,             # up to 16 columns, picked out of rows: many planes or images, all steps written down
    rows.plan,              # the same, of large planes
    planes.plan,            # many small planes turned into channels: any other windows
    taps.plan,            # channels last, few taps, or few elements in common: lanes are channels
    lines.plan,             # whatever is left: the rows of windows into a line, then along it
)

# Gradients of averages and sums: sums over the windows that hold an element.
GRADIENTS: tuple[Rule, ...] = (
    lines.plan_sums,        # of many columns at stride 1
    planes.plan_gradient_first,  # many small planes turned into channels, where registers are narrow
    steps.plan,
    rows.plan,
    taps.plan,
    average.plan_pixels,    # few channels last, windows far apart: rows and columns are copied
    lines.plan,             # any others, channels last
    planes.plan_gradient,
    average.plan,           # whatever is left
)

# Gradients where no element is in two windows, or few are: every element is written once.
DISJOINT: tuple[Rule, ...] = (fills.plan_whole, spread.plan)


def choose(job: Windows) -> Call:
    """The call of the first kernel whose rule says yes."""
    for rule in GRADIENTS if job.gradient else FORWARD:
        call = rule(job)
        if call is not None:
            return call
    raise AssertionError("the last rule serves everything")  # pragma: no cover


def choose_disjoint(job: Windows) -> Call | None:
    """The call of the first kernel that writes every element of these gradients once; None where none does."""
    return next(filter(None, (rule(job) for rule in DISJOINT)), None)


__all__ = ["DISJOINT", "FORWARD", "GRADIENTS", "choose", "choose_disjoint"]
