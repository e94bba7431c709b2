"""All that is compiled: the kernels in order of preference.

A kernel has a module of its own. In it stand a rule (which windows the kernel serves), the tables that it reads, and
its walk (the compiled loop). A rule is a function of `Windows`. It returns a `Call`, or None if another kernel is to
serve. The first rule of a list that returns a call wins.
"""

from collections.abc import Callable

from . import (
    average,
    fills,
    narrow,
    rows,
    runs,
    spread,
    steps,
    strips,
    taps,
    turned,
)
from ._job import Call, Windows

Rule = Callable[[Windows], Call | None]

# Maxima, minima, averages and sums over windows.
FORWARD: tuple[Rule, ...] = (
    narrow.plan,            # maxima without indices, of one or two bytes, or where registers are narrow
    runs.plan_maxima,       # windows that are one stretch of memory each: whole planes, whole rows
    runs.plan_averages,     # averages of such windows, if they are long
    runs.plan_rows,         # long windows of one row each, which are stretches of memory as well
    runs.plan_pixels,       # maxima of long stretches of pixels, channels last
    taps.plan,              # channels last
    turned.plan_first,      # many planes turned into channels, where registers are narrow or windows large
    rows.plan_first,        # longer rows where registers are narrow: along rows and down columns by turns
    strips.plan,            # maxima of few rows with indices: the maxima along a row are handed down to all its windows
    steps.plan,             # windows of few columns, picked out of rows
    turned.plan,            # many planes turned into channels: any other windows
    rows.plan,              # whatever is left: along rows and down columns by turns
)

# Averages and sums without elements that are missing, which are counted.
COUNTED: tuple[Rule, ...] = (
    runs.plan_twice,        # windows that are one stretch of memory each: a sum, and a sum of ones
    taps.plan,              # channels last
    rows.plan_counted,      # long windows at stride 1 along signals
    turned.plan,            # many planes turned into channels
    rows.plan,              # whatever is left
)

# Gradients of averages and sums: sums over the windows that hold an element.
GRADIENTS: tuple[Rule, ...] = (
    taps.plan,              # channels last
    average.plan_far,       # windows far apart: rows and columns are copied
    turned.plan_first,      # many planes turned into channels, where registers are narrow or windows large
    rows.plan_first,        # longer rows where registers are narrow: along rows and down columns by turns
    steps.plan,             # windows of few columns, picked out of rows
    turned.plan,            # many planes turned into channels: any other windows
    rows.plan,              # whatever is left
)

# Gradients of windows that share no element: every element is written once.
DISJOINT: tuple[Rule, ...] = (fills.plan_whole, spread.plan)


def choose(job: Windows) -> Call:
    """The call of the first kernel whose rule says yes."""
    for rule in GRADIENTS if job.gradient else COUNTED if job.counted else FORWARD:
        call = rule(job)
        if call is not None:
            return call
    raise AssertionError("the last rule serves everything")  # pragma: no cover


def choose_disjoint(job: Windows) -> Call | None:
    """The call of the first kernel that writes every element of these gradients once; None where none does."""
    return next(filter(None, (rule(job) for rule in DISJOINT)), None)


__all__ = ["COUNTED", "DISJOINT", "FORWARD", "GRADIENTS", "choose", "choose_disjoint"]
