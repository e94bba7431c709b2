"""Windows of few rows with indices, passed on downwards, against the plain loops."""

import pytest
import reference
from checks import assert_identical, forget
from kernel_checks import KINDS, argmax_worker, check_max, with_dtypes
from strategies import elements

import numba_pool as nb
from numba_pool._dispatch import plans
from numba_pool.kernels import steps, strips
from numba_pool.kernels.steps import window_steps
from numba_pool.kernels.strips import window_strips
from numba_pool.simd import wide_registers

WIDE = wide_registers()


STRIPS = [
    ((2, 2), (45, 39), {"kernel_size": 3, "stride": 1, "padding": 1}),  # blocks of rows, strips of columns
    ((3, 8), (20, 20), {"kernel_size": 5, "stride": 1, "padding": 2}),  # one strip
    ((1, 2), (19, 33), {"kernel_size": (9, 4), "stride": (3, 1), "padding": (4, 2)}),
    ((1, 1), (18, 513), {"kernel_size": (2, 3), "stride": 1, "padding": (0, 1)}),
    ((1, 1), (9, 512), {"kernel_size": (2, 3), "stride": 1, "padding": (0, 1)}),
    ((1, 1), (7, 2100), {"kernel_size": (3, 3), "stride": (2, 1), "padding": (0, 1)}),  # two rows at a time
    ((2, 2), (35, 48), {"kernel_size": 2}),  # none in common
    ((1, 2), (23, 50), {"kernel_size": 3, "ceil_mode": True}),
    ((1, 2), (19, 41), {"kernel_size": (2, 3), "stride": (5, 1), "padding": (1, 0)}),  # rows that nobody reads
    ((1, 2), (22, 39), {"kernel_size": (9, 1), "stride": (2, 2), "padding": ((8, 8), (0, 0))}),  # one row inside
    ((2, 1), (3, 19, 21), {"kernel_size": (1, 3, 3), "stride": (2, 2, 1), "padding": (0, 1, 1)}),
    ((2, 2), (9, 75), {"kernel_size": (1, 5), "stride": (2, 1), "padding": (0, 2)}),  # one row
    ((8, 1), (3, 40), {"kernel_size": (1, 3), "stride": (1, 3), "dilation": (1, 2)}),
    ((1, 2), (20, 47), {"kernel_size": 9, "stride": 1, "padding": 4}),
    ((2, 3), (7, 17), {"kernel_size": (1, 7), "stride": 1}),  # and fewer outputs than lanes
    ((3, 1), (24, 60), {"kernel_size": (7, 16), "stride": (3, 2), "padding": (3, 7), "ceil_mode": True}),
    ((3, 3), (14, 14), {"kernel_size": 3, "stride": 1, "padding": 1}),  # short rows, each in three windows
    ((2, 3), (11, 5), {"kernel_size": 5, "stride": 1, "padding": 2}),
    ((2, 8), (1, 5), {"kernel_size": (9, 5), "stride": 1, "padding": ((8, 8), (2, 2))}),  # more rows than elements
    # Two planes at a time, with one left; two rows of windows, with one left.
    ((3, 7), (13, 13), {"kernel_size": 3, "stride": 2}),
    ((19, 1), (3, 9, 8), {"kernel_size": (1, 5, 3), "stride": 2, "padding": (0, 2, 1), "ceil_mode": True}),
    ((3, 7), (14, 14), {"kernel_size": 2}),
    ((17, 1), (3, 15, 12), {"kernel_size": (1, 2, 3), "stride": (2, 3, 2)}),
]
# The same ways for other heights, strides and taps, for each of which the kernel is compiled anew.
MORE_STRIPS = [
    ((1, 3), (41, 70), {"kernel_size": (3, 2), "stride": 2, "padding": ((1, 0), (0, 1)), "ceil_mode": True}),
    ((1, 2), (7, 40), {"kernel_size": (7, 2), "stride": (1, 1), "padding": (3, 0), "dilation": (1, 3)}),
    ((1, 2), (37, 41), {"kernel_size": (4, 2), "stride": (3, 2), "padding": (2, 1)}),
    ((1, 2), (22, 39), {"kernel_size": (3, 1), "stride": 1, "padding": (1, 0)}),  # one column
    ((1, 2), (3, 39), {"kernel_size": (5, 3), "stride": 1, "padding": (2, 1)}),  # above and below the same
    ((1, 2), (13, 90), {"kernel_size": (2, 6), "stride": (1, 7), "padding": (0, 3)}),
    ((2, 3), (17, 9), {"kernel_size": (7, 2), "stride": 2, "padding": (3, 1), "ceil_mode": True}),
    ((17, 1), (21, 16), {"kernel_size": (3, 2), "stride": (3, 2), "padding": (1, 0)}),
]


def check_few_rows(lead, size, arguments, dtype, order):
    assert argmax_worker((*lead, *size), len(size), False, **arguments) is window_strips or not WIDE  # fewer columns
    for kind in KINDS:
        check_max(elements((*lead, *size), dtype, kind, 0), order, **arguments)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("lead", "size", "arguments"), STRIPS, ids=str)
def test_windows_of_few_rows(lead, size, arguments, order):
    check_few_rows(lead, size, arguments, "float32", order)


@pytest.mark.exhaustive
@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("lead", "size", "arguments", "dtype"),
                         with_dtypes(MORE_STRIPS + STRIPS, "float64", "bfloat16", "int8", "uint8", "int64"), ids=str)
def test_more_windows_of_few_rows(lead, size, arguments, dtype, order):
    check_few_rows(lead, size, arguments, dtype, order)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_windows_of_few_rows_of_other_dtypes(dtype, order):
    for lead, size, arguments in (STRIPS[0], ((2, 2), (35, 48), {"kernel_size": 2}),
                                  ((3, 3), (14, 14), {"kernel_size": 3, "stride": 1, "padding": 1})):
        check_few_rows(lead, size, arguments, dtype, order)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(
    "arguments",
    [{"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 2}, {"kernel_size": 4, "stride": 1, "padding": 2}],
    ids=str,
)
@pytest.mark.parametrize("size", [(13, 40), (15, 13), (37, 50)])
def test_kernels_that_ask_for_what_comes(monkeypatch, size, arguments, order):
    """As those of large arrays do, for which they are compiled anew."""
    for room in (steps, strips):
        monkeypatch.setattr(room, "ASKED", 2)
    forget()
    try:
        for lead in ((3, 7), (1, 1)):
            call = plans.uniform((*lead, *size), 2, False, 3, 2, 1, 1, False, True, "argmax")
            assert call.worker not in (window_steps, window_strips) or call.rest[-2] is True
            for kind in KINDS:
                check_max(elements((*lead, *size), "float32", kind, 0), order, **arguments)
    finally:
        forget()


NO_STRIPS = [  # many rows that no other window has, or many at all; long rows
    ((1, 2), (19, 33), {"kernel_size": (9, 4), "stride": (4, 1), "padding": (4, 2)}),
    ((3, 1), (24, 60), {"kernel_size": (16, 16), "stride": (5, 2), "padding": (8, 7), "ceil_mode": True}),
    ((1, 1), (3, 4110), {"kernel_size": (2, 3), "stride": 1, "padding": (0, 1)}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "uint8", "int64"])
@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("lead", "size", "arguments"), NO_STRIPS, ids=str)
def test_windows_of_too_many_rows(lead, size, arguments, order, dtype):
    for kind in KINDS:
        check_max(elements((*lead, *size), dtype, kind, 0), order, **arguments)


def test_rows_between_the_windows_are_not_read():
    """However far apart."""
    x = elements((4, 2, 3, 50), "float32", "normal", 0)
    call = plans.uniform(x.shape, 2, False, (1, 3), (2**31 - 1, 1), 0, 1, False, True, "argmax")
    assert call.worker is window_strips
    check_max(x, "C", kernel_size=(1, 3), stride=(2**31 - 1, 1))


@pytest.mark.parametrize(("size", "output"), [((100, 60), (200, 20)), ((5, 57), (10, 19))])
def test_adaptive_windows_of_one_row(size, output):
    """Some of them hold the same row, and have no stride: nothing is kept for the next."""
    x = elements((2, 3, *size), "float32", "ties", 0)
    call = plans.adaptive(x.shape, 2, False, output, "argmax")
    assert call.worker is not window_strips
    y, indices = nb.adaptive_max_pool2d(x, output, return_indices=True)
    expected, where = reference.adaptive_max_pool(x, output, rank=2)
    assert_identical(y, expected)
    assert_identical(indices, where)


def test_windows_that_are_empty_in_depth():
    x = elements((1, 2, 2, 5, 40), "float32", "normal", 0)
    check_max(x, "C", kernel_size=(2, 2, 3), stride=1, dilation=(3, 1, 1), padding=((2, 2), 0, 0))
