"""Long rows, cut into sections: against the plain loops where sections are short, against the same uncut."""

import random
import sys

import fences
import numpy as np
import pytest
import reference
import selection
from checks import assert_identical, assert_rounded, assert_same_maxima, forget
from process import finish_all, start
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool import _arguments
from numba_pool._dispatch import memo, plans
from numba_pool.kernels import sections

KINDS = ("ties", "specials", "nan")
WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 5, "stride": 1, "padding": ((9, 20),)},  # the last windows lie in the padding alone
    {"kernel_size": 4, "stride": 4, "padding": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 5, "padding": "same"},
    {"kernel_size": 3, "stride": 2, "padding": ((4, 3),), "dilation": 3},
    {"kernel_size": 17, "stride": 3, "padding": 8, "ceil_mode": True},
]
SIZES = 301, 304, 331, 397, 450, 351, 360
LEADS = [("C", (2, 2)), ("C", (1,)), ("channels_last", (2, 3)), ("channels_last", (20,))]


@pytest.fixture
def short(monkeypatch):
    """Sections of 32 elements, not of 2^15."""
    forget()
    monkeypatch.setattr(sections, "SHORTEST_ROW", 16)
    monkeypatch.setattr(sections, "LONG_SECTION", 32)
    yield
    forget()


def is_cut(shape, last, windows, reduction="max", narrow=0, dtype="float32"):
    """Whether a forward is by sections. The kernels that these are left to are compiled for the answer."""
    defaults = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False}
    kernel, *others = ({"kernel_size": None} | defaults | windows).values()
    return bool(plans.uniform(shape, 1, last, kernel, *others, True, reduction, narrow=bool(narrow),
                              dtype=np.dtype(f"i{narrow}" if narrow else dtype)).parts)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize(("order", "lead"), LEADS)
def test_maxima(short, order, lead, dtype):
    # How rows are cut does not depend on dtypes, and what walks sections in C order is compiled for each of these.
    every = selection.exhaustive or dtype == "float32"
    for windows, size in list(zip(WINDOWS, SIZES, strict=True))[: None if every else 2]:
        assert is_cut((*lead, size), order != "C", windows, "argmax", dtype=dtype)
        for kind in KINDS:
            x = elements((*lead, size), dtype, kind, size)
            y, indices = reference.max_pool(x, **windows, rank=1)
            given = laid_out(x, order, 1)
            for _ in range(2):  # the second time by the shortest way
                actual, where = nb.max_pool1d(given, **windows, return_indices=True)
                assert_identical(actual, y)
                assert_identical(where, indices)
                assert_same_maxima(nb.max_pool1d(given, **windows), y)


@pytest.mark.parametrize(("order", "lead"), LEADS[1::2])
def test_one_nan_in_any_section(short, order, lead):
    """At every column: in the first section, in those in the middle, in the last, and where two meet."""
    for windows, size in ((WINDOWS[1], 304), (WINDOWS[5], 351)):
        assert is_cut((*lead, size), order != "C", windows, "argmax")
        clean = elements((*lead, size), "float32", "normal", size)
        y, indices = reference.max_pool(clean, **windows, rank=1)
        before = windows["padding"][0][0] if windows["padding"] != 1 else 1
        taps = np.arange(3) * windows.get("dilation", 1)
        held = np.arange(y.shape[-1])[:, None] * windows["stride"] - before + taps
        for column in range(size):
            x, there = clean.copy(), (held == column).any(axis=1)
            x[-1, column] = np.nan
            expected, places = y.copy(), indices.copy()
            expected[-1, there], places[-1, there] = np.nan, column
            given = laid_out(x, order, 1)
            actual, where = nb.max_pool1d(given, **windows, return_indices=True)
            assert_identical(actual, expected)
            assert_identical(where, places)
            assert_same_maxima(nb.max_pool1d(given, **windows), expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize(("order", "lead"), LEADS)
def test_averages(short, order, lead, dtype):
    for windows, size in zip(WINDOWS, SIZES, strict=True):
        for further in ({}, {"count_include_pad": False}, {"divisor_override": 30}):
            x = elements((*lead, size), dtype, "normal", size)
            expected = reference.avg_pool(x, **windows, **further, rank=1)
            actual = nb.avg_pool1d(laid_out(x, order, 1), **windows, **further)
            if x.dtype.kind in "iu":
                assert_identical(actual, expected)
            else:
                magnitude = reference.avg_pool(np.abs(x), **windows, **further, rank=1)
                assert_rounded(actual, expected, magnitude)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("order", "lead"), LEADS)
def test_gradients_of_averages(short, order, lead, dtype):
    for windows, size in zip(WINDOWS, SIZES, strict=True):
        for further in ({}, {"count_include_pad": False}, {"divisor_override": 3}):
            shape = (*lead, size)
            y = nb.avg_pool1d(np.zeros(shape, np.float32), **windows)
            grad = elements(y.shape, dtype, "normal", size)
            expected = reference.avg_pool_backward(grad, shape, **windows, **further, rank=1)
            magnitude = reference.avg_pool_backward(np.abs(grad), shape, **windows, **further, rank=1)
            actual = nb.avg_pool1d_backward(laid_out(grad, order, 1), shape, **windows, **further)
            assert_rounded(actual, expected, magnitude)


def test_gradients_are_cut(short):
    grad = np.ones((1, 2, 500), np.float32)
    for windows, include, expected in (
        ((2, None, 0), True, True),
        ((3, 2, 1), True, True),
        ((3, 2, 1), False, True),  # windows at the ends are narrower: by blocks
        ((2, 3, 0), True, False),  # elements between them are in none
    ):
        size = 1000 if windows[1] != 3 else 1500
        call = plans.uniform_backward(grad.shape, (1, 2, size), 1, False, *windows, 1, False, include)
        assert bool(call.parts) is expected


@pytest.mark.parametrize("sizes", [(1, 2), (1, 3)], ids=str)
@pytest.mark.parametrize("further", [{"dilation": (2, 1)}, {"kernel_size": (2000, 3), "ceil_mode": True}], ids=str)
@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_gradients_that_others_spread(short, order, further, sizes):
    """Planes of one row whose windows only the plain loop takes."""
    shape = (2, 3, 1, 301)
    windows = {"kernel_size": sizes, "stride": (2000, 2), "padding": 0, "ceil_mode": False, "dilation": 1} | further
    y = nb.avg_pool2d(np.zeros(shape, np.float32), **windows)
    grad = elements(y.shape, "float32", "normal", 0)
    expected = reference.avg_pool_backward(grad, shape, **windows, divisor_override=3, rank=2)
    actual = nb.avg_pool2d_backward(laid_out(grad, order, 2), shape, **windows, divisor_override=3)
    assert_rounded(actual, expected, np.full_like(expected, 4))


def windows_of(axes):
    """Those along the last axis: first element, one behind the last, divisor."""
    *_, axis = axes
    return np.stack((axis.start, axis.stop, axis.width), axis=1)


def test_sections_have_the_windows_of_the_row(monkeypatch):
    """Whatever the arguments: all windows, or all elements, once, with what is in them, as the kernel walks them."""
    rng, found = np.random.default_rng(0), [0, 0]
    monkeypatch.setattr(sections, "SHORTEST_ROW", 8)
    for _ in range(1500):
        monkeypatch.setattr(sections, "LONG_SECTION", int(rng.integers(9, 64)))
        k, s, d = (int(rng.integers(1, top)) for top in (7, 6, 3))
        ends = tuple(int(n) for n in rng.integers(0, d * (k - 1) + 1 + rng.choice((0, 60)), 2))
        padding = ["same", "same_lower", (ends,)][rng.integers(3)]
        size, ceil_mode, elements = int(rng.integers(60, 700)), bool(rng.integers(2)), int(rng.integers(1, 4))
        for invert in (False, True):
            axes = _arguments.grid((size,), k, s, padding, d, ceil_mode, include_pad=invert or bool(rng.integers(2)))
            if (cut := sections.sections(axes, elements, 1, invert)) is None:
                continue
            found[invert] += 1
            count, parts = cut
            walk = sections.walk(axes[-1], elements, count, parts, (1, 1, 1), invert)
            expected, got, next_given = windows_of(axes), [], 0
            for number in range(count):
                kind = 2 if number == count - 1 else min(number, 1)
                further = number - 1 if kind == 1 else 0
                x, x_size, y, y_size = walk[sections.SECTION_HEADER + sections.SECTION_PART * kind :][:4]
                x, y = x + further * walk[sections.SECTION_APART_X], y + further * walk[sections.SECTION_APART_Y]
                assert y == next_given
                next_given = y + y_size
                assert min(x, x_size - 1) >= 0
                assert x + x_size <= walk[0]
                section = windows_of(parts[kind].windows)
                if invert:  # of each element of the section, the windows that hold it
                    first, behind = (y // elements, next_given // elements)
                    for i in range(first, behind):
                        holds = np.flatnonzero((expected[:, 0] <= i) & (i < expected[:, 1]))
                        local = np.flatnonzero((section[:, 0] <= i - first) & (i - first < section[:, 1]))
                        assert (local + x // elements).tolist() == holds.tolist()
                    assert (section[:, 2] == k).all()
                else:
                    section[:, :2] += x // elements
                    got.append(section)
            assert next_given == walk[1] == (size if invert else axes[0].n) * elements
            assert invert or (np.concatenate(got) == expected).all()
    assert min(found) > 150


def test_no_more_is_kept_than_fits(monkeypatch):
    """The tables of one call may take a quarter of what there is for all calls."""
    x = np.zeros((1, 1, 1 << 21), np.float32)
    call = plans.uniform(x.shape, 1, False, 1 << 16, 1, 0, 1, False, True, "max", narrow=True)
    assert call.parts
    for more, kept in ((-1, False), (0, True)):
        forget()
        monkeypatch.setattr(memo, "MOST_TABLES", 4 * memo.tables_of(call) + more)
        nb.max_pool1d(x, 1 << 16, 1)
        assert bool(memo.memory.young or memo.memory.old) == kept


def test_an_empty_batch():
    y, indices = nb.max_pool1d(np.zeros((0, 1, 1 << 16), np.float32), 3, 2, 1, return_indices=True)
    assert y.shape == indices.shape == (0, 1, 1 << 15)


def every_result(x, windows):
    """Of maxima and averages, there and back."""
    y, indices = nb.max_pool1d(x, **windows, return_indices=True)
    mean = nb.avg_pool1d(x, **windows)
    return (y, indices, nb.max_pool1d(x, **windows), mean, nb.avg_pool1d_backward(mean, x.shape, **windows),
            nb.avg_pool1d(x, **windows, count_include_pad=False))


@pytest.mark.parametrize(("order", "shape"), [("C", (1, 1, 300_001)), ("channels_last", (1, 20, 40_001))])
@pytest.mark.parametrize("windows", WINDOWS[:5], ids=str)
def test_the_same_bits_as_uncut_and_for_every_thread_count(monkeypatch, windows, order, shape):
    x = laid_out(elements(shape, "float32", "normal", 0), order, 1)
    assert is_cut(shape, order != "C", windows)
    results = []
    for threads in (1, 2):
        with nb.threads(threads):
            results.append(every_result(x, windows))
    forget()
    monkeypatch.setattr(plans, "sections", lambda *_: None)
    results.append(every_result(x, windows))
    forget()
    for several in zip(*results, strict=True):
        for actual in several[1:]:
            assert_identical(actual, several[0])


def test_what_is_cut():
    long = {"kernel_size": 3, "stride": 2, "padding": 1}
    assert is_cut((1, 1, 1 << 16), False, long)
    assert is_cut((2, 64, 1 << 10), True, long)  # rows of as many elements
    assert not is_cut((1, 1, 1 << 14), False, long)
    assert not is_cut((1, 8, 1 << 16), False, long)  # rows to share
    assert is_cut((1, 8, 1 << 20), False, long)
    assert not is_cut((1, 1, 1 << 16), False, long | {"kernel_size": 5001})
    for narrow in (1, 2, 4):  # where `narrow_rows` would not take every section
        for size in (1 << 20, (1 << 20) + 1):
            assert is_cut((1, 1, size), False, long, "max", narrow)
            assert is_cut((1, 1, size), False, long | {"padding": "same"}, "max", narrow)

    def plane(height, kernel, padding):
        call = plans.uniform((1, 1, height, 1 << 16), 2, False, (kernel, 3), 2, padding, 1, False, True, "max")
        return bool(call.parts)

    assert plane(1, 1, (0, 1))
    assert not plane(2, 1, (0, 1))
    assert not plane(1, 3, (1, 1))


def test_a_plane_of_one_row(short):
    x = elements((2, 3, 1, 1000), "float32", "specials", 0)
    y, indices = reference.max_pool(x, (1, 3), (1, 2), (0, 1), rank=2)
    actual, where = nb.max_pool2d(x, (1, 3), (1, 2), (0, 1), return_indices=True)
    assert_identical(actual, y)
    assert_identical(where, indices)


def test_tables_do_not_grow_with_the_row():
    for size, more in (((1 << 22,), 1), ((1 << 24,), 1), ((1 << 22, 4), 3), ((1 << 24, 4), 3)):
        call = plans.uniform((1, 1, *size), len(size), False, 3, 2, 1, 1, False, True, "argmax")
        assert memo.tables_of(call) < more << 23


@pytest.fixture
def tall(monkeypatch):
    """Planes of 32 rows of windows are cut, not of 2^19, into sections of 8."""
    forget()
    for name, number in (("SHORTEST_ROW", 16), ("TALL", 32), ("TALL_SECTION", 64), ("MOST_ROWS", 8)):
        monkeypatch.setattr(sections, name, number)
    yield
    forget()


PLANES = [
    ((2, 3, 97, 5), {"kernel_size": 2}), ((1, 2, 150, 9), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 2, 143, 9), {"kernel_size": (4, 2), "stride": (3, 1), "padding": (2, 0), "ceil_mode": True}),
    ((1, 2, 190, 8), {"kernel_size": 3, "stride": (2, 1), "padding": ((4, 3), (1, 0)), "dilation": (3, 1)}),
    ((2, 1, 120, 3, 4), {"kernel_size": 2, "stride": (2, 1, 2), "padding": (1, 0, 1)}),
]


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("shape", "windows"), PLANES, ids=str)
def test_planes_of_many_rows(tall, launched, shape, windows, order):
    rank = len(shape) - 2
    pool, average = getattr(nb, f"max_pool{rank}d"), getattr(nb, f"avg_pool{rank}d")
    x = laid_out(elements(shape, "float32", "specials", 0), order, rank)
    y, indices = reference.max_pool(x, **windows, rank=rank)
    for _ in range(2):  # the second time by the shortest way
        actual, where = pool(x, **windows, return_indices=True)
        assert_identical(actual, y)
        assert_identical(where, indices)
        assert_same_maxima(pool(x, **windows), y)
    x = laid_out(elements(shape, "float32", "normal", 0), order, rank)
    for include in (True, False):
        further = windows | {"count_include_pad": include}
        expected, magnitude = (reference.avg_pool(a, **further, rank=rank) for a in (x, np.abs(x)))
        assert_rounded(average(x, **further), expected, magnitude)
    assert set(launched) == {"window_sections", "put_nans"}  # for infinities among these


@pytest.mark.parametrize(("size", "kernel", "cut"), [
    ((1 << 20, 20), 2, True), (((1 << 20) - 2, 20), 2, False), ((1 << 20, 3, 20), 2, True),
    ((3, 1 << 20, 20), 2, False), ((1, 1 << 20, 20), (1, 2, 2), True),
])
def test_which_planes_are_cut(size, kernel, cut):
    call = plans.uniform((1, 1, *size), len(size), False, kernel, 2, 0, 1, False, True, "max")
    assert bool(call.parts) is cut


def between_fences():
    """Every kernel that sections are left to, on arrays and tables that nothing may be read or written beside."""
    sections.LONG_SECTION, sections.SHORTEST_ROW = 32, 16
    rng = random.Random(0)
    for windows, size in zip(WINDOWS, SIZES, strict=True):
        for order, lead in LEADS:
            for dtype in ("float32", "bfloat16") if windows in WINDOWS[:2] else ("float32",):  # or it compiles twice
                x = laid_out(elements((*lead, size), dtype, "normal", 0), order, 1)
                expected = every_result(x, windows)
                forget()  # calls that are kept run workers without Numba's look at what they are given
                with fences.Fences(rng):
                    for actual, same in zip(every_result(x, windows), expected, strict=True):
                        assert_identical(actual, same)
    print("inside")


@pytest.mark.skipif(sys.platform != "linux", reason="memory protection as on Linux")
def test_nothing_beyond_the_arrays():
    assert finish_all([start(between_fences)], timeout=900) == ["inside\n"]


def test_it_is_the_worker_that_runs(launched, short):
    nb.max_pool1d(np.zeros((1, 1, 1000), np.float32), 2)
    nb.avg_pool1d(np.zeros((1, 1, 1000), np.float32), 2)
    assert launched == ["window_sections"] * 2
