"""Which kernel serves which windows, and what all kernels share."""

import itertools

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by its name then)
import numba
import numpy as np
import pytest
from checks import assert_identical

import numba_pool as nb
from numba_pool import _arguments, _windows, simd
from numba_pool._dispatch import plans
from numba_pool.kernels import steps
from numba_pool.kernels._job import Windows
from numba_pool.kernels._staging import staged
from numba_pool.kernels.average import spread_rows
from numba_pool.kernels.pixel_runs import average_pixel_runs, window_pixel_runs
from numba_pool.kernels.rows import summed_rows, window_rows
from numba_pool.kernels.runs import average_runs, window_runs
from numba_pool.kernels.sections import window_sections
from numba_pool.kernels.steps import window_steps
from numba_pool.kernels.strips import window_strips
from numba_pool.kernels.taps import window_taps
from numba_pool.kernels.turned import turned_taps
from numba_pool.simd import LANES, LINE, PAGE, PAGES, by_turns, load, mask_of, store_some


def with_both(worker):
    """(whether registers are wide, the kernel then): `worker`, or one with AVX-512 and one without."""
    return zip((True, False), worker if isinstance(worker, tuple) else (worker, worker), strict=True)


@pytest.mark.filterwarnings("ignore:invalid value")  # to look at a signalling NaN
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_there_is(dtype):
    """Widened and rounded back: windows of one element leave all of them as they are, but for the sign of a zero."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype).reshape(1, 1, 1 << 8, 1 << 8)
    assert_identical(nb.max_pool2d(x, 1), x)
    y = nb.avg_pool2d(x, 1)
    zeros = x.view(np.uint16) << 1 == 0
    assert (y.view(np.uint16)[zeros] << 1 == 0).all()
    assert_identical(y[~zeros], x[~zeros])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_rounded_to_nearest_even(dtype):
    bits = np.random.default_rng(0).integers(0, 1 << 16, (1, 1, 2, 1 << 16)).astype(np.uint16)
    x = bits.view(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        upper, lower = x[:, :, :1].astype(np.float32), x[:, :, 1:].astype(np.float32)
        expected = ((0 + upper + lower) / 2).astype(dtype)
    assert_identical(nb.avg_pool2d(x, (2, 1)), expected)


@pytest.mark.parametrize(
    ("last", "shape", "kernel", "stride", "reduction", "worker"),
    [
        (True, (2, 64, 56, 57), 56, 56, "max", window_taps),  # all rows once
        (True, (2, 64, 56, 56), 3, 2, "max", window_taps),
        (True, (16, 128, 32, 32), 3, 1, "max", window_taps),  # more than the caches hold
        (True, (2, 64, 49, 49), 6, 3, "argmax", window_taps),
        (True, (2, 64, 56, 56), 4, 2, "average", window_taps),
        (True, (1, 32, 1, 6000), (1, 901), 1, "argmax", window_taps),  # long windows
        (True, (2, 4096, 20, 21), 20, 20, "max", window_taps),  # large pixels
        (True, (2, 16, 24, 24), 5, 1, "max", window_taps),  # a vector each
        (True, (4, 12, 40, 40), 4, 4, "argmax", window_rows),
        (True, (4, 8, 40, 40), 7, 7, "argmax", window_rows),  # vectors half empty
        (True, (64, 9, 6, 6), 2, 2, "argmax", window_strips),
        (True, (64, 9, 6, 6), 3, 1, "max", window_steps),  # more than four taps
        (True, (64, 8, 8, 8), 2, 2, "max", window_steps),
        (False, (8, 4, 38, 38), 3, 1, "argmax", (window_strips, turned_taps)),
        (False, (15, 1, 38, 38), 3, 1, "argmax", window_strips),  # too few planes
        (False, (8, 4, 64, 64), 2, 2, "max", (window_steps, turned_taps)),
        (False, (8, 4, 64, 65), 2, 2, "max", window_steps),  # two columns of large planes
        (False, (8, 4, 64, 65), 3, 2, "max", (window_steps, turned_taps)),
        (False, (8, 4, 46, 46), 3, 1, "average", (window_steps, turned_taps)),  # no indices
        (False, (8, 4, 44, 44), 2, 2, "average", (window_steps, turned_taps)),
        (False, (8, 4, 3, 5), 3, 1, "argmax", window_strips),  # less than a vector
        (False, (8, 4, 40, 30), (16, 4), 2, "argmax", turned_taps),
        (False, (2, 4, 56, 56), 2, 2, "max", window_steps),
        (False, (16, 64, 128, 128), 2, 2, "argmax", window_steps),  # in whole lines
        (False, (1, 1, (1 << 20) - 2, 20), 2, 2, "max", window_steps),
        (False, (1, 1, 1 << 20, 20), 2, 2, "max", window_sections),  # half a million rows of windows
        (False, (16, 64, 128, 128), 2, 2, "max", window_steps),
        (False, (15, 64, 128, 128), 2, 2, "argmax", window_strips),  # smaller
        (False, (20, 64, 128, 124), 2, 2, "argmax", window_strips),  # rows that end within a line
        (False, (2, 4, 56, 56), 9, 1, "max", (window_steps, window_rows)),
        (False, (2, 4, 56, 56), 10, 1, "max", window_rows),  # too many columns
        (False, (8, 4, 20, 20), 7, 1, "max", turned_taps),
        (False, (8, 4, 20, 20), 7, 3, "max", turned_taps),
        (False, (8, 4, 20, 20), 4, 1, "argmax", (window_strips, turned_taps)),
        (False, (8, 4, 20, 20), 8, 1, "argmax", turned_taps),
        (False, (8, 4, 20, 20), 6, 2, "average", (window_steps, turned_taps)),
        (False, (8, 4, 20, 20), (6, 7), 1, "average", turned_taps),  # more than 36 taps
        (False, (8, 4, 32, 32), 8, 2, "average", turned_taps),
        (False, (8, 4, 32, 32), 13, 2, "average", turned_taps),
        (False, (8, 4, 32, 32), (14, 11), 2, "argmax", turned_taps),
        (False, (8, 4, 32, 32), 13, 2, "max", turned_taps),
        (False, (8, 4, 28, 20), (14, 9), 1, "max", turned_taps),
        (False, (8, 4, 17, 17), (1, 12), 1, "argmax", turned_taps),  # one row, nine taps or more
        (False, (8, 4, 17, 17), (1, 13), 1, "argmax", turned_taps),
        (False, (2, 4, 56, 56), 5, 1, "average", window_steps),
        (False, (2, 4, 20, 65), 3, 1, "average", window_steps),
        (False, (2, 4, 20, 66), 3, 1, "average", (window_steps, summed_rows)),  # rows of 64 results
        (False, (2, 4, 17, 66), 3, 1, "average", window_steps),  # too few of them
        (False, (2, 4, 17, 1025), 3, 1, "average", window_steps),
        (False, (2, 4, 17, 1026), 3, 1, "average", (window_steps, summed_rows)),  # rows of 1024
        (False, (2, 4, 20, 66), (3, 2), 1, "average", window_steps),  # of two columns
        (True, (2, 3, 20, 23), 3, 1, "average", window_steps),
        (True, (2, 3, 20, 24), 3, 1, "average", (window_steps, summed_rows)),  # 66 of all channels
                (False, (2, 4, 56, 56), 5, 5, "average", window_steps),  # of five columns
        (False, (2, 4, 56, 56), 6, 1, "average", summed_rows),
        (False, (2, 4, 56, 56), 16, 2, "average", window_steps),
        (False, (2, 4, 56, 56), 17, 2, "average", summed_rows),
        (False, (2, 4, 56, 56), 3, 2, "argmax", window_strips),
        (False, (2, 4, 56, 56), 3, 3, "argmax", window_strips),
        (False, (2, 4, 56, 56), 4, 4, "argmax", window_steps),  # too many rows that no other window has
        (False, (2, 4, 56, 56), 4, 3, "argmax", window_strips),
        (False, (2, 4, 56, 56), (9, 3), 1, "argmax", window_strips),
        (False, (2, 4, 56, 56), (10, 3), 1, "argmax", window_steps),  # too many rows
        (False, (2, 4, 18, 18), 3, 1, "argmax", window_strips),  # rows of one vector
        (False, (4, 4, 14, 14), 3, 2, "argmax", (window_strips, turned_taps)),
        (False, (4, 4, 14, 14), 2, 2, "argmax", (window_strips, turned_taps)),  # two rows
        (False, (3, 5, 14, 14), 2, 2, "argmax", window_strips),  # one
        (False, (4, 4, 14, 14), 2, 1, "argmax", (window_steps, turned_taps)),  # two rows to a step
        (False, (2, 4, 14, 14), 3, 1, "argmax", window_strips),  # rows in three windows
        (True, (2, 3, 56, 56), 3, 2, "argmax", (window_strips, window_rows)),
        (False, (1, 3, 9, 4098), 3, 1, "argmax", (window_strips, window_rows)),  # 4096 columns
        (False, (1, 3, 9, 4099), 3, 1, "argmax", (window_steps, window_rows)),  # too many
        (False, (1, 3, 9, 16385), 3, 2, "argmax", (window_strips, window_rows)),  # 8192
        (False, (1, 3, 9, 16387), 3, 2, "argmax", (window_steps, window_rows)),
        (False, (1, 1, 8, 8), 2, 2, "average", window_steps),
        (False, (2, 4, 18, 18), 6, 1, "argmax", (window_strips, window_rows)),
        (False, (2, 4, 1, 60), (1, 9), 1, "average", (window_steps, summed_rows)),
        (False, (2, 4, 1, 60), (1, 5), 1, "argmax", window_strips),  # one row
        (False, (2, 4, 1, 60), (1, 2), 1, "argmax", window_strips),
        (False, (8, 4, 17, 17), (1, 6), 1, "argmax", turned_taps),  # one row, small planes
        (False, (8, 4, 17, 17), (1, 6), 1, "max", (window_steps, turned_taps)),
        (False, (8, 4, 17, 17), (1, 5), 1, "argmax", (window_strips, turned_taps)),
        (False, (8, 4, 17, 17), (2, 6), 1, "argmax", (window_strips, turned_taps)),
        (False, (8, 4, 16, 16), 16, 1, "max", window_runs),
        (False, (8, 4, 16, 16), 16, 1, "argmax", window_runs),
        (False, (8, 4, 16, 16), 16, 1, "average", average_runs),
        (True, (8, 4, 16, 16), 16, 1, "average", average_pixel_runs),
        (True, (8, 400, 16, 16), 16, 1, "average", average_pixel_runs),
        (False, (8, 4, 5, 5), 5, 1, "average", average_runs),
        (True, (8, 40, 5, 5), 5, 1, "average", average_pixel_runs),
        (False, (8, 4, 4, 5), (4, 5), 1, "average", (window_steps, turned_taps)),  # too short
        (True, (8, 40, 4, 6), (4, 6), 1, "average", window_taps),  # too short
        (False, (8, 4, 30, 26), (9, 26), 3, "average", turned_taps),  # more than one, and too short
        (False, (8, 4, 30, 26), (10, 26), 3, "average", average_runs),
        (True, (8, 4, 30, 26), (10, 26), 3, "average", average_pixel_runs),
        (False, (8, 4, 30, 30), (30, 10), 1, "average", turned_taps),
        (False, (8, 4, 8, 8), 8, 1, "max", window_runs),
        (False, (8, 4, 6, 10), (6, 10), 1, "max", window_runs),
        (False, (8, 4, 1, 5), (1, 5), 1, "max", window_runs),
        (False, (8, 4, 5, 5), 5, 1, "argmax", window_runs),
        (False, (8, 4, 2, 12), (2, 12), 1, "argmax", window_runs),
        (False, (8, 4, 30, 26), (10, 26), 3, "max", window_runs),  # all columns
        (False, (8, 4, 30, 16), (1, 16), 1, "max", window_runs),
        (False, (8, 4, 30, 15), (3, 15), 3, "argmax", turned_taps),
        (False, (8, 4, 30, 8), (8, 8), 8, "argmax", window_runs),
        (False, (8, 4, 30, 30), (30, 10), 1, "max", turned_taps),
        (True, (8, 64, 16, 16), 16, 1, "max", window_pixel_runs),
        (True, (8, 63, 16, 16), 16, 1, "max", window_taps),  # few elements
        (True, (8, 16, 32, 32), 32, 1, "argmax", window_taps),  # one vector
        (True, (1, 2048, 8, 8), 8, 1, "argmax", window_pixel_runs),
        (True, (2, 64, 56, 56), (14, 56), 14, "argmax", window_pixel_runs),
        (True, (2, 64, 56, 56), (28, 56), 1, "argmax", window_taps),
    ],
)
def test_which_kernel_serves(last, shape, kernel, stride, reduction, worker, registers):
    pair, nothing = kernel if isinstance(kernel, tuple) else (kernel, kernel), (0, 0)
    for wide, expected in with_both(worker):
        registers(wide)
        call = plans.uniform(shape, 2, last, pair, (stride, stride), nothing, (1, 1), False, True, reduction)
        assert call.worker is expected


def test_no_list_of_more_than_a_million_rows():
    for rows, listed in ((1 << 20, True), ((1 << 20) + 1, False)):
        axes = _windows.adaptive_axes((5 << 19, 20), (rows, 10))
        call = steps.plan(Windows(axes, (1, 1, 5 << 19, 20), 2, False, "average"))
        assert (call is not None) == listed


def test_no_list_of_a_plane_of_more_than_a_billion_steps():
    """Such planes do not fit in memory, but dask asks for the shape of their results."""
    for height, listed in ((1 << 18, True), (1 << 21, False)):
        axes = _arguments.grid((height, 1 << 17), (2, 2), 2, ((0, 0), (0, 0)), 1, False)
        call = steps.plan(Windows(_windows.three(axes), (1, 1, height, 1 << 17), 2, False, "max"))
        assert (call is not None) == listed


@pytest.mark.parametrize(
    ("last", "shape", "kernel", "stride", "worker"),
    [
        (False, (8, 4, 14, 14), 3, 1, (window_steps, turned_taps)),
        (False, (8, 4, 14, 14), 3, 2, (window_steps, turned_taps)),
        (False, (8, 4, 45, 45), 3, 1, (window_steps, turned_taps)),
        (False, (15, 1, 45, 45), 3, 1, window_steps),  # too few planes
        (False, (2, 4, 65, 65), 3, 1, window_steps),
        (False, (2, 4, 66, 66), 3, 1, (window_steps, summed_rows)),  # long rows
        (False, (2, 4, 140, 140), 4, 2, window_steps),  # elements in two windows of a row
        (False, (2, 4, 140, 140), 5, 2, (window_steps, summed_rows)),  # in three
        (False, (2, 4, 200, 200), 20, 16, spread_rows),  # far apart
        (True, (2, 3, 200, 200), 20, 16, spread_rows),
        (False, (2, 4, 200, 200), 20, 15, window_steps),  # less far
        (False, (2, 32, 200, 200), 20, 16, spread_rows),  # also of many planes
        (True, (2, 64, 16, 16), 3, 1, window_taps),
        (True, (2, 64, 16, 16), 3, 2, window_taps),
        (True, (2, 24, 16, 16), 3, 2, window_taps),
        (True, (2, 24, 16, 16), 3, 1, window_taps),
        (True, (2, 56, 16, 16), 3, 2, window_taps),
        (True, (2, 64, 16, 16), 4, 2, window_taps),
        (True, (2, 64, 16, 16), 5, 2, window_taps),
        (True, (2, 16, 16, 16), 4, 2, window_taps),
        (True, (31, 64, 32, 32), 5, 2, window_taps),
        (True, (32, 64, 32, 32), 5, 2, window_taps),  # more than the caches hold
    ],
)
def test_which_kernel_serves_gradients(last, shape, kernel, stride, worker, registers):
    grad = (*shape[:2], *((n - kernel) // stride + 1 for n in shape[2:]))
    windows = (kernel, kernel), (stride, stride), (0, 0), (1, 1)
    for wide, expected in with_both(worker):
        registers(wide)
        call = plans.uniform_backward(grad, shape, 2, last, *windows, False, True)
        assert call.worker is expected


@pytest.mark.parametrize(
    ("last", "channels", "kernel", "stride"), [(False, 24, 2, 2), (True, 24, 2, 1), (True, 4, 3, 2)])
def test_work_that_threads_share(last, channels, kernel, stride):
    windows = (kernel, kernel), (stride, stride), (0, 0), (1, 1)
    read = 2 * channels * 64 * 4
    written = 2 * channels * ((8 - kernel) // stride + 1) ** 2 * 4
    for reduction in ("max", "argmax"):
        call = plans.uniform((2, channels, 8, 8), 2, last, *windows, False, True, reduction)
        light = last and kernel == 2 and reduction == "max"  # it has to be more before threads pay
        assert call.traffic == max(read, 4 * written) * (3 if light and channels >= LANES else 4) // 4


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", simd.RECORDS["float16"]])
def test_lanes_are_stored_where_a_mask_is(dtype):
    """Runs of lanes, of which other machines than those with AVX-512 copy pieces, and lanes here and there."""
    store_bits = numba.njit(lambda y, at, x, bits: store_some(y, at, load(x, 0), mask_of(bits)))
    x = np.arange(1, LANES + 1).astype(np.uint16 if np.dtype(dtype).fields else dtype)
    runs = [(2**count - 1) << first for count in range(LANES + 1) for first in range(LANES - count + 1)]
    for bits in (*runs, *np.random.default_rng(0).integers(0, 2**LANES, 200)):
        for at in (LANES, LANES + 3):
            y = np.zeros(4 * LANES, x.dtype)
            store_bits(y.view(dtype), at, x.view(dtype), int(bits))
            expected = np.zeros_like(y)
            expected[at : at + LANES] = [v if int(bits) >> i & 1 else 0 for i, v in enumerate(x)]
            assert (y == expected).all(), bin(bits)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", simd.RECORDS["float16"]])
def test_a_stage_is_within_a_page(dtype):
    """A vector from its beginning on, or from its middle: masked stores begin before a stage's first element."""
    make = numba.njit(lambda x, size, second: staged(x, size, second))
    x = np.zeros(1, dtype)
    for second, page in ((False, PAGE), (True, PAGE // 2)):
        for size in (1, 100, page // x.itemsize - 2 * LANES):
            for _ in range(20):
                stage = make(x, size, second)
                first = stage.ctypes.data % page
                assert stage.dtype == x.dtype
                assert stage.size == size
                assert first == LANES * x.itemsize
                assert first + stage.nbytes <= page


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_lines_are_asked_for_from_several_pages_by_turns(dtype):
    @numba.njit
    def taken(x, first, stop, line):
        return [by_turns(x, i) for i in range(first, stop, line)]

    x = np.zeros(1, dtype)
    block, page, line = PAGES * PAGE // x.itemsize, PAGE // x.itemsize, LINE // x.itemsize
    lines = np.array(taken(x, 5 * block + 3, 7 * block, line))
    assert sorted(lines) == list(range(5 * block, 7 * block, line))  # each once, and none of another block
    assert set(lines[: len(lines) // 2]) == set(range(5 * block, 6 * block, line))
    assert list(lines[: 2 * PAGES] - 5 * block) == [i % PAGES * page + i // PAGES * line for i in range(2 * PAGES)]
    # `ahead_of` is a block, of which each line is asked for before its turn to be read comes.
    assert (lines[: len(lines) // 2] + block > 5 * block + line * np.arange(len(lines) // 2)).all()


def test_short_axes_are_kept_between_calls():
    """What was found of them, too; those of long ones go with the tables of their calls."""
    axis = _windows.uniform_axis(40, 20, 2, 2, (0, 0), 1, True)
    assert _windows.uniform_axis(40, 20, 2, 2, (0, 0), 1, True) is axis
    assert axis.runs is axis.runs
    assert axis.inverse is axis.inverse
    assert _windows.adaptive_axis(40, 7) is _windows.adaptive_axis(40, 7)
    assert _windows.adaptive_axis(4000, 7) is not _windows.adaptive_axis(4000, 7)
    assert axis.replaced(before=1).inverse.before == 1 != axis.inverse.before


def test_runs_of_windows():
    """Alike from each on: as wide, dividing by as much, as far from each other as the first two."""
    axes = [_windows.adaptive_axis(length, n) for length in (1, 5, 12) for n in (0, 1, 4, 5, 7, 12)]
    for length, k, s, d in itertools.product((1, 2, 3, 9, 20), (1, 2, 3, 5), (1, 2, 4), (1, 2, 3)):
        pads = {(0, 0), (k // 2, k // 2), (0, d * (k - 1))}
        for pad, include in itertools.product(pads, (False, True)):
            n = _arguments.output_length(length, k, s, pad, d, ceil_mode=True)
            if n > 0:
                axes.append(_windows.uniform_axis(length, n, k, s, pad, d, include))
    axes += [axis.inverse for axis in axes if axis.step == 1 and len(axis.start)]
    seen = set()
    for axis, apart in itertools.product(axes, (1, 2, 3, 7)):
        windows = list(zip(axis.start.tolist(), (axis.stop - axis.start).tolist(), axis.width.tolist(), strict=True))
        counts = _windows.runs_alike(axis, apart)
        assert len(counts) == len(windows)
        for i, count in enumerate(counts.tolist()):
            line = windows[i::apart]
            same = [j for j in range(1, len(line))
                    if line[j][1:] == line[0][1:] and line[j][0] - line[0][0] == j * (line[1][0] - line[0][0])]
            assert count == next((j for j in range(1, len(line)) if j not in same), len(line))
            seen.add((apart, count))
    assert set(itertools.product((1, 2, 3), (1, 2, 3))) | {(7, 1), (7, 2), (1, 9)} <= seen


def test_out_of_an_empty_batch():
    """NumPy gives empty arrays strides of 0, by which others would overlap themselves."""
    x, y = np.empty((0, 3, 4, 4), np.float32), np.empty((0, 3, 2, 2), np.float32)
    indices = np.empty(y.shape, np.int32)
    assert nb.avg_pool2d(x, 2, out=y) is y
    assert nb.max_pool2d(x, 2, return_indices=True, out=(y, indices))[1] is indices
    assert nb.avg_pool2d_backward(y, x.shape, 2, out=x) is x
