"""All that is compiled: the kernels in order of preference.

A kernel has a room, a module, in which stand its rule (which windows it serves best, with the measurements), the
tables that it reads, and its walk. A rule is a function of a `Job`, which returns a `Plan`, or None if another kernel
is to serve. The first rule that returns a plan wins: to add a kernel, write its room and put its rule into a list.
"""

from collections.abc import Callable

from . import (
    average,
    bands,
    buffered,
    fills,
    narrow,
    pixels,
    planes,
    rows,
    runs,
    separable,
    spread,
    steps,
    strips,
    sums,
)
from ._job import Job, Plan, Spread

Rule = Callable[[Job], Plan | None]

# Maxima, minima, averages and sums over windows.
FORWARD: tuple[Rule, ...] = (
    narrow.plan,            # maxima of one or two bytes, rows downwards and then along, in vectors of 64 or 32 elements
    runs.plan_maxima,       # windows that are a run of memory each: whole planes, whole rows
    runs.plan_averages,     # averages of long runs, every sixteenth element first
    runs.plan_rows,         # long windows of one row each: runs of memory as well
    runs.plan_pixels,       # the same in channels-last memory
    sums.plan,              # averages over many columns at stride 1: sums of 1, 4, 16, ... columns
    pixels.plan_few,        # channels last, half a vector of channels and few taps
    planes.plan_first,      # many small planes turned into channels, where registers are narrow or windows large
    strips.plan,            # windows of few rows with indices: picked out of rows, which are passed on downwards
    steps.plan,             # up to 16 columns, picked out of rows: many planes or images, all steps written down
    rows.plan,              # the same, of large planes
    planes.plan,            # many small planes turned into channels: any other windows
    separable.plan,         # channels last, large windows that have much in common: along rows once, then downwards
    pixels.plan,            # channels last, few taps, or few elements in common: lanes are channels
    buffered.plan_pixels,   # few channels last, or large windows that share little: a buffered row, doubled along it
    bands.plan,             # channels last, whatever is left
    buffered.plan,          # whatever is left
)

# Gradients of averages and sums: sums over the windows that hold an element.
GRADIENTS: tuple[Rule, ...] = (
    sums.plan,              # of many columns at stride 1
    planes.plan_gradient_first,  # many small planes turned into channels, where registers are narrow
    steps.plan,
    rows.plan,
    separable.plan,
    pixels.plan,
    average.plan_pixels,    # few channels last, windows far apart: rows and columns are copied
    buffered.plan_pixels,
    bands.plan,
    planes.plan_gradient,
    average.plan,           # whatever is left
)

# Gradients where no element is in two windows, or few are: every element is written once.
DISJOINT: tuple[Callable[[Spread], Plan | None], ...] = (fills.plan_whole, spread.plan)


def choose(job: Job) -> Plan:
    """The plan of the first kernel whose rule says yes."""
    for rule in GRADIENTS if job.gradient else FORWARD:
        plan = rule(job)
        if plan is not None:
            return plan
    raise AssertionError("the last rule serves everything")  # pragma: no cover


def choose_disjoint(job: Spread) -> Plan | None:
    """The plan of the first kernel that writes every element of these gradients once; None where none does."""
    return next(filter(None, (rule(job) for rule in DISJOINT)), None)


__all__ = ["DISJOINT", "FORWARD", "GRADIENTS", "choose", "choose_disjoint"]
