"""What attacks on programs found: windows at the edge of what there is."""

import numpy as np
import pytest
import reference
from checks import assert_identical
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool._windows import POINT, uniform_axis
from numba_pool.kernels._job import Windows
from numba_pool.kernels._stages import rows_read
from numba_pool.kernels.taps import asked_for


@pytest.mark.parametrize(("size", "dilation", "pad"), [(1, 5, (1, 4)), (2, 7, (2, 6)), (3, 9, (1, 8))])
def test_bands_end_with_the_plane(size, dilation, pad):
    """An empty window may begin far behind it. Whatever a band reads is in memory, also behind the last plane."""
    n = size + sum(pad) - dilation
    axis = uniform_axis(size, n, 2, 1, pad, dilation, False)
    assert not axis.lengths.all()
    assert axis.start.max() >= size
    for axes in ((POINT, axis, POINT), (axis, POINT, POINT), (axis, axis, POINT)):
        first, stop = rows_read(axes)
        rows = axes[0].size * axes[1].size
        assert first.min() >= 0
        assert first.max() < rows
        assert stop.max() <= rows


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(("size", "pads", "dilation"), [(3, (2, 3), 5), (2, (1, 1), 2), (1, (1, 4), 5)])
def test_windows_of_one_element_are_not_all_elements(size, pads, dilation, last):
    """Where windows are dilated beyond their axis, as many windows as there are elements may be empty, or may hold
    another element than their own. Rows are long enough for several stages.
    """
    x = laid_out(elements((1, 16, size, 64), "float32", "normal", 0), "channels_last" if last else "C", 2)
    windows = {"kernel_size": (2, 13), "stride": 1, "padding": (pads, (6, 6)), "dilation": (dilation, 1)}
    for ours, expected in zip(nb.max_pool2d(x, **windows, return_indices=True),
                              reference.max_pool(x, **windows, rank=2), strict=True):
        assert_identical(ours, expected)


@pytest.mark.parametrize(("kernel", "stride", "asks"), [
    (3, 2, True), (2, 2, True), (3, 4, True), (2, 4, False), (1, 64, False)])
def test_what_nobody_reads_is_not_asked_for(kernel, stride, asks):
    """Of large arrays: to ask for all that lies between small windows takes up to 60 times as long as to pool."""
    axis = uniform_axis(1024, (1024 - kernel) // stride + 1, kernel, stride, (0, 0), 1, False)
    job = Windows((POINT, axis, axis), (1, 16, 1024, 1024), 2, True, "max", np.dtype(np.float32))
    assert (asked_for(job) is not None) == asks
