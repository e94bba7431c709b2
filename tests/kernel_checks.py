"""How the tests of kernels compare maxima with the plain loops, and what they share."""

import itertools

import reference
import selection
from checks import assert_identical
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool._dispatch import plans

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
