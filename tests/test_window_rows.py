"""Windows that are walked along rows and down columns by turns, against the plain loops."""

import itertools

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, forget
from kernel_checks import KINDS, check_max, check_programs
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool import _arrays as arrays
from numba_pool import kernels
from numba_pool._dispatch import plans
from numba_pool.kernels import _stages, rows, taps
from numba_pool.kernels.rows import window_rows

CASES = [  # channels first, channels last; size; arguments
    (2, 3, (23, 19), {"kernel_size": 7, "stride": 1, "padding": 3}),
    (2, 15, (70, 23), {"kernel_size": (49, 17), "stride": 1, "padding": (24, 8)}),  # levels, both ways
    (1, 3, (5, 40), {"kernel_size": (3, 9), "stride": (2, 1), "padding": ((2, 0), (0, 8)), "dilation": 2}),
    (3, 2, (600,), {"kernel_size": 25, "stride": 3, "padding": 12}),  # nothing to do down columns
    (1, 2, (90,), {"kernel_size": 40, "stride": 1, "padding": 20}),  # sums of sums
    (5, 4, (5, 6, 9), {"kernel_size": (3, 2, 2), "stride": (1, 2, 2), "padding": (1, 1, 0), "ceil_mode": True}),
    (1, 2, (40, 330), {"kernel_size": (3, 6), "stride": (1, 2)}),
    (3, 9, (33, 3), {"kernel_size": 3, "stride": 1, "padding": 1}),
    (1, 1, (4, 1), {"kernel_size": (2, 1), "stride": (3, 1)}),
    (2, 3, (9, 5), {"kernel_size": 2, "stride": (1, 5), "padding": ((0, 0), (12, 12)), "dilation": (1, 20)}),  # empty
    (2, 3, (2, 20), {"kernel_size": 2, "stride": (5, 1), "padding": ((12, 12), (0, 0)), "dilation": (20, 1)}),
]
ORDERS = ("C", "channels_last")


def served_by_rows(monkeypatch, small):
    """If `small`, also in pieces of few columns, and bands of few rows."""
    for rules in ("FORWARD", "GRADIENTS"):
        monkeypatch.setattr(kernels, rules, (rows.plan, *getattr(kernels, rules)))
    if small:
        for where, name, value in ((rows, "PIECE", 32), (rows, "LINE", 64), (taps, "BAND", 2048),
                                   (_stages, "MOST_TWICE", 100)):
            monkeypatch.setattr(where, name, value)
    forget()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("first", "last", "size", "arguments"), CASES, ids=str)
def test_windows_of_every_kind(first, last, size, arguments, order, monkeypatch):
    """Maxima, averages and gradients."""
    for small in (False, True):
        served_by_rows(monkeypatch, small)
        check_programs(last if order == "channels_last" else first, "float32", order, size, arguments)


def branches(call):
    """Which branches of the walk a call takes."""
    _, stages, bands, across, several, (E, W, OW, *_), *counts = call.rest[1 if call.indexed else 2 :]
    across, many = rows.Across(*across), bands[:, 3 if counts else 1].max()
    lanes = {1 if across.by_pieces else min(many, rows.GROUP)}
    if across.parts is not None and across.by_pieces:
        lanes = {min(alike, rows.GROUP) for alike in across.parts[:, rows.ALIKE].tolist()}
    yield "several bands", len(bands) > 1
    yield "levels along rows", several[1]
    if across.parts is None:
        yield "padding", across.before > 0
        yield "pieces with padding", across.stages[-1, rows.STAGE_MADE] < OW
    else:
        yield "pieces are channels", across.by_pieces
        yield "fewer than a vector", min(lanes) < rows.LANES
        yield "more than a group", across.by_pieces == 0 and many > rows.GROUP
        yield "short pieces", across.parts[:, rows.COLUMNS].min() * E < rows.LANES
    if counts:
        yield "counts", counts[0] is not None
        yield "short rows", W * E < rows.LANES
    else:
        yield "rows alone", stages is None
        yield "several stages down columns", several[0]
        yield "short results", stages is not None and OW * E < rows.LANES


@pytest.mark.parametrize("last", [False, True])
def test_cases_come_to_every_branch(last, monkeypatch):
    seen = {}
    for small, (first, channels, size, arguments) in itertools.product((False, True), CASES):
        served_by_rows(monkeypatch, small)
        given = [{"padding": 0, "dilation": 1, "ceil_mode": False, **arguments}[name]
                 for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")]
        shape = 1, channels if last else first, *size
        for reduction, include in (("max", True), ("argmax", True), ("average", True), ("average", False)):
            call = plans.uniform(shape, len(size), last, *given, include, reduction)
            assert call.worker is (rows.summed_rows if reduction == "average" else window_rows)
            for name, taken in branches(call):
                seen.setdefault((reduction, name), set()).add(bool(taken))
    assert {key: ways for key, ways in seen.items() if ways != {False, True}} == {}


def test_windows_that_are_empty_along_two_axes():
    """Both of their extents are negative, and the product of these is that of large windows."""
    arguments = {"kernel_size": (3, 3, 7), "stride": (50, 50, 1), "padding": ((200, 50), (150, 100), (0, 0)),
                 "dilation": (100, 100, 1)}
    x = elements((1, 1, 1, 1, 70), "float32", "normal", 0)
    check_max(x, "C", **arguments)
    assert_rounded(nb.avg_pool3d(x, **arguments), reference.avg_pool(x, **arguments, rank=3),
                   reference.avg_pool(np.abs(x), **arguments, rank=3))


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8", "int64"])
def test_large_windows_of_every_kind_of_number(dtype):
    for kind in KINDS if "float" in dtype else ("normal", "ties"):
        check_max(elements((1, 14, 45, 46), dtype, kind, 0), "channels_last", kernel_size=(45, 44), stride=3)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int8"])
def test_ranges_of_rows_that_begin_within_images(dtype):
    """As threads share them."""
    call = plans.uniform((3, 12, 13, 7), 2, True, 9, 1, 4, 1, False, True, "argmax")
    assert call.worker is window_rows
    for kind, step in itertools.product(("ties", "specials") if dtype != "int8" else ("ties",), (1, 2)):
        x = laid_out(elements((3, 12, 13, 7), dtype, kind, 0), "channels_last", 2)
        expected = reference.max_pool(x, 9, 1, 4, rank=2)
        given = arrays.raw(np.moveaxis(x, 1, -1).ravel())
        y, index = np.empty(given.size, dtype), np.empty(given.size, np.int32)
        found = [window_rows(lo, min(lo + step, call.units), (given, arrays.raw(y), index, *call.rest))
                 for lo in range(0, call.units, step)]
        assert any(found) == (kind == "specials")
        if any(found):
            look = call.otherwise
            look.worker(0, look.units, (given, arrays.raw(y), index, *look.rest))
        for actual, wanted in zip((y, index), expected, strict=True):
            assert_identical(actual.reshape(3, 13, 7, 12), np.ascontiguousarray(np.moveaxis(wanted, 1, -1)))


def test_averages_where_two_vectors_side_by_side_have_other_divisors():
    """Windows that reach into padding that does not count, at both ends of rows of three vectors and of five."""
    for columns in (48, 80):
        x = elements((2, 3, columns), "float32", "normal", 0)
        arguments = {"kernel_size": 33, "stride": 1, "padding": 16}
        assert nb.explain(nb.avg_pool1d, x, **arguments).kernel == "summed_rows"
        y = nb.avg_pool1d(x, **arguments, count_include_pad=False)
        assert_rounded(y, reference.avg_pool(x, **arguments, count_include_pad=False, rank=1), np.ones_like(y))


@pytest.mark.parametrize("value", [-np.inf, 0.0])
def test_the_index_of_the_first_element_where_padding_comes_before_it(value, monkeypatch):
    """If no element is larger than what stands in the padding of a row, the index is still that of the first element of
    the window; with dilation that need not be in the row's first column.
    """
    served_by_rows(monkeypatch, False)
    x = np.full((1, 3, 9, 12), value, np.float32)
    for order, dilation, padding in itertools.product(ORDERS, (1, 2), (2, ((1, 1), (3, 3)), ((2, 2), (1, 4)))):
        check_max(x, order, kernel_size=(5, 5), stride=1, padding=padding, dilation=(1, dilation))
