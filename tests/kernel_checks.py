"""How the tests of kernels compare maxima with the plain loops, and what they share."""

import itertools

import numpy as np
import reference
import selection
from checks import assert_identical, assert_rounded, assert_same_maxima, forget
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool import kernels
from numba_pool._dispatch import plans
from numba_pool.kernels import _stages, taps, turned

KINDS = ("normal", "ties", "specials", "nan")
POOL = {1: nb.max_pool1d, 2: nb.max_pool2d, 3: nb.max_pool3d}
AVERAGE = {1: nb.avg_pool1d, 2: nb.avg_pool2d, 3: nb.avg_pool3d}
SPREAD = {1: nb.avg_pool1d_backward, 2: nb.avg_pool2d_backward, 3: nb.avg_pool3d_backward}


def check_max(x, order, **arguments):
    rank = x.ndim - 2
    y, indices = reference.max_pool(x, **arguments, rank=rank)
    given = laid_out(x, order, rank)
    for _ in range(2):  # the second time by the shortest way
        actual, where = POOL[rank](given, **arguments, return_indices=True)
        assert_identical(actual, y)
        assert_identical(where, indices)
        assert_identical(POOL[rank](given, **arguments), y)


def with_dtypes(cases, *others):
    """Every case with float32, and with one of the other dtypes by turns; in the default run every fifth case.

    Each pair of both takes half a second to compile or more, and a case decides how windows are walked, a dtype how
    elements are read, compared and written.
    """
    dtypes = itertools.cycle(others)
    return [(*case, dtype) for n, case in enumerate(cases)
            for dtype in ("float32", *([next(dtypes)] if n % 5 == 0 or selection.exhaustive else []))]


def check_signed_zeros(shape, dtype, order, **arguments):
    """With indices: without them the sign of one among halves is not that of the first."""
    x, rank = elements(shape, dtype, "signed zeros", 0), len(shape) - 2
    expected = reference.max_pool(x, **arguments, rank=rank)
    actual = POOL[rank](laid_out(x, order, rank), **arguments, return_indices=True)
    assert_identical(actual[0], expected[0])
    assert_identical(actual[1], expected[1])


def argmax_worker(shape, rank, last, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The kernel that serves a maximum with indices."""
    call = plans.uniform(shape, rank, last, kernel_size, stride, padding, dilation, ceil_mode, True, "argmax")
    return call.worker


def served_by_programs(monkeypatch, band=None, most_stages=False):
    """Walk all windows by programs that these can serve: in bands of so many bytes, and in all stages that there can
    be.
    """
    for rules in ("FORWARD", "GRADIENTS"):
        monkeypatch.setattr(kernels, rules, (taps.plan, turned.plan, *getattr(kernels, rules)))
    if band is not None:
        monkeypatch.setattr(taps, "BAND", band)
        monkeypatch.setattr(_stages, "MOST_TWICE", 100)
    if most_stages:
        monkeypatch.setattr(_stages, "cost", lambda stages, first, stored: -len(stages))
    forget()


# Size and arguments of windows of every kind.
PROGRAMS = [
    ((13, 11), {"kernel_size": 2, "stride": 2}),
    ((13, 13), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((9, 14), {"kernel_size": (4, 5), "stride": (1, 2), "padding": ((1, 2), (2, 0)), "ceil_mode": True}),
    ((14, 12), {"kernel_size": (2, 3), "stride": 1, "dilation": (3, 2), "padding": ((3, 3), (2, 4))}),
    ((2, 9), {"kernel_size": 2, "stride": (5, 1), "padding": ((12, 12), (0, 0)), "dilation": (20, 1)}),  # empty
    ((9, 5), {"kernel_size": 2, "stride": (1, 5), "padding": ((0, 0), (12, 12)), "dilation": (1, 20)}),
    ((6, 5), {"kernel_size": 9, "stride": 1, "padding": ((8, 8), (7, 3))}),  # longer than the axes
    ((4, 6, 7), {"kernel_size": (3, 2, 3), "stride": (1, 2, 1), "padding": (1, 0, 1)}),
    ((120,), {"kernel_size": 41, "stride": 3, "padding": 20}),
    ((70, 3), {"kernel_size": (33, 2), "stride": 1, "padding": (16, 1)}),  # of windows of windows
]


def check_programs(channels, dtype, order, size, arguments):
    """Maxima with indices and without, averages and their gradients."""
    rank, shape = len(size), (1, channels, *size)
    for kind in ("ties", "specials") if np.dtype(dtype).kind not in "iu" else ("ties",):
        x = elements(shape, dtype, kind, channels)
        y, indices = reference.max_pool(x, **arguments, rank=rank)
        actual = POOL[rank](laid_out(x, order, rank), **arguments, return_indices=True)
        assert_identical(actual[0], y)
        assert_identical(actual[1], indices)
        assert_same_maxima(POOL[rank](laid_out(x, order, rank), **arguments), y)
    if np.dtype(dtype).kind in "iu":
        return
    x = elements(shape, dtype, "normal", 0)
    for include in (True, False):
        windows = {**arguments, "count_include_pad": include}
        assert_rounded(AVERAGE[rank](laid_out(x, order, rank), **windows), reference.avg_pool(x, **windows, rank=rank),
                       reference.avg_pool(np.abs(x), **windows, rank=rank))
    if "dilation" not in arguments:
        gradient = elements(y.shape, dtype, "normal", 1)
        wanted, most = (reference.avg_pool_backward(g, shape, **arguments, rank=rank)
                        for g in (gradient, np.abs(gradient)))
        assert_rounded(SPREAD[rank](laid_out(gradient, order, rank), shape, **arguments), wanted, most)
