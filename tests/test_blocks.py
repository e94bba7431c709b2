"""Gradients of averages that have divisors of their own, by blocks: against the plain loops, and how planes are cut."""

import random
import sys

import fences
import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, forget
from process import finish_all, start
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool import _arguments, _windows
from numba_pool.kernels import sections

UNEVEN = [
    {"kernel_size": 3, "stride": 1, "padding": 1, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 2, "stride": 2, "ceil_mode": True},
    {"kernel_size": 5, "stride": 3, "padding": 2, "ceil_mode": True},
    {"kernel_size": (2, 3), "stride": (3, 1), "padding": (0, 1), "ceil_mode": True, "count_include_pad": False},
]
SHAPES = [(2, 3, 41, 37), (1, 40, 9, 11), (2, 20, 23, 5)]


@pytest.fixture
def small(monkeypatch):
    """Blocks of 128 gradients, not of 2^15."""
    forget()
    monkeypatch.setattr(sections, "LARGE_BLOCK", 128)
    monkeypatch.setattr(sections, "SMALL_BLOCK", 64)
    yield
    forget()


def check(grad, shape, order, rank, **windows):
    pools = {1: nb.avg_pool1d_backward, 2: nb.avg_pool2d_backward, 3: nb.avg_pool3d_backward}
    expected = reference.avg_pool_backward(grad, shape, **windows, rank=rank)
    magnitude = reference.avg_pool_backward(np.abs(grad), shape, **windows, rank=rank)
    for _ in range(2):  # the second time by the shortest way
        assert_rounded(pools[rank](laid_out(grad, order, rank), shape, **windows), expected, magnitude)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_gradients(small, launched, order, dtype):
    for shape in SHAPES:
        for windows in UNEVEN:
            y = nb.avg_pool2d(np.zeros(shape, np.float32), **windows)
            launched.clear()
            check(elements(y.shape, dtype, "normal", 0), shape, order, 2, **windows)
            assert launched == ["window_sections"]


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_gradients_of_adaptive_averages(small, launched, order):
    for shape in SHAPES:
        for size in ((5, 3), (7, 3)):
            if _windows.shared_count(_windows.adaptive_axes(shape[2:], size)):
                continue
            grad = elements((*shape[:2], *size), "float32", "normal", 0)
            expected = reference.adaptive_avg_pool_backward(grad, shape, size, rank=2)
            launched.clear()
            actual = nb.adaptive_avg_pool2d_backward(laid_out(grad, order, 2), shape)
            assert launched == ["window_sections"]
            np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_signals_and_volumes(small, launched, order):
    windows = {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}
    for shape in ((1, 2, 999), (40, 2, 17), (1, 3, 9, 11, 13), (2, 20, 1, 7, 9), (2, 2, 14, 3, 3)):
        output = tuple((n - 1) // 2 + 1 for n in shape[2:])
        launched.clear()
        check(elements((*shape[:2], *output), "float32", "normal", 0), shape, order, len(output), **windows)
        assert launched == ["window_sections"]


def test_dilated_windows_are_divided_plane_by_plane(launched):
    grad = elements((1, 2, 5, 5), "float32", "normal", 0)
    windows = {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2, "count_include_pad": False}
    check(grad, (1, 2, 11, 11), "C", 2, **windows)
    assert launched == ["window_sections"]


def test_inverse_windows():
    """For every element of an axis the windows that hold it: also of dilated windows, every other one or none."""
    rng, sparse = np.random.default_rng(0), 0
    for _ in range(2000):
        size, kernel, stride, step = (int(rng.integers(1, n)) for n in (40, 9, 7, 7))
        pad = tuple(int(n) for n in rng.integers(0, (kernel - 1) * step + 1, 2))
        n = (size + sum(pad) - (kernel - 1) * step - 1) // stride + 1
        if n < 1:
            continue
        axis = _windows.UniformAxis(size, n, kernel, stride, pad, step, True)
        held = [[] for _ in range(size)]
        for o in range(n):
            for i in range(o * stride - pad[0], o * stride - pad[0] + kernel * step, step):
                if 0 <= i < size:
                    held[i].append(o)
        back = axis.inverse
        assert [list(range(*ends, back.step)) for ends in zip(back.start.tolist(), back.stop.tolist())] == held
        sparse += back.step > 1 and max(map(len, held)) > 1
    assert sparse > 100


def axes_of(rng):
    """Three axes of windows without dilation, uniform or adaptive, often of divisors of their own."""
    axes = []
    for _ in range(3):
        size = int(rng.integers(1, 40 if len(axes) == 1 else 12)) if rng.integers(3) else 1
        if rng.integers(3) == 0:
            axes.append(_windows.adaptive_axis(size, int(rng.integers(1, size + 1))))
            continue
        k, s = int(rng.integers(1, min(size, 6) + 1)), int(rng.integers(1, 5))
        pad = int(rng.integers(k)), int(rng.integers(k))
        n = _arguments.output_length(size, k, s, pad, 1, bool(rng.integers(2)))
        axes.append(_windows.uniform_axis(size, n, k, s, pad, 1, bool(rng.integers(2))))
    return tuple(axes)


def pairs(axes, elements):
    """Every (gradient, element, divisor) of a plane whose window holds the element."""
    D, H, W = (len(axis.start) for axis in axes)
    found = set()
    for d, h, w in np.ndindex(D, H, W):
        divisor = int(axes[0].width[d] * axes[1].width[h] * axes[2].width[w])
        for i in range(axes[0].start[d], axes[0].stop[d]):
            for j in range(axes[1].start[h], axes[1].stop[h]):
                for k in range(axes[2].start[w], axes[2].stop[w]):
                    at = ((d * H + h) * W + w) * elements, ((i * axes[1].size + j) * axes[2].size + k) * elements
                    found |= {(at[0] + e, at[1] + e, divisor) for e in range(elements)}
    return found


def test_blocks_have_the_windows_of_all_planes(monkeypatch):
    """Whatever the axes: every element is given once, and takes from all windows that hold it."""
    rng, cuts = np.random.default_rng(0), [0, 0]
    for _ in range(150):
        monkeypatch.setattr(sections, "LARGE_BLOCK", int(rng.integers(8, 200)))
        monkeypatch.setattr(sections, "SMALL_BLOCK", int(rng.integers(1, 200)))
        axes, elements, images = axes_of(rng), int(rng.integers(1, 3)), int(rng.integers(1, 40))
        cut = sections.blocks(axes, elements, images)
        taken, given = np.prod([len(a.start) for a in axes]) * elements, np.prod([a.size for a in axes]) * elements
        assert cut.rows * cut.row[0] == images * taken
        assert cut.rows * cut.row[1] == images * given
        cuts[cut.rows > 1 or images == 1] += 1
        expected, got, behind = pairs(axes, elements), set(), 0
        of_plane = cut.parts[0].images
        for number in range(cut.number):
            kind = 2 if number == cut.number - 1 else min(number, 1)
            block, further = cut.parts[kind], number - 1 if kind == 1 else 0
            x, stop_x, y, stop_y = (n + further * cut.apart[i // 2] for i, n in enumerate((*block.taken, *block.given)))
            assert y == behind
            behind = stop_y
            assert 0 <= x < stop_x <= cut.row[0]
            mine = pairs(block.windows, elements)
            if cut.rows == 1 and block.windows is axes:
                assert (stop_x - x, stop_y - y) == (block.images * taken, block.images * given)
                assert x * given == y * taken
                assert mine == expected
            else:
                assert of_plane == block.images == 1
                got |= {(x + a, y + b, divisor) for a, b, divisor in mine}
        assert behind == cut.row[1]
        assert not got or got == expected
    assert min(cuts) > 10, cuts


def test_what_is_not_cut():
    """Each plane is a block, however long."""
    long = _windows.POINT, _windows.POINT, _windows.adaptive_axis(1_000_003, 7)
    assert sections.blocks(long, 1, 20).parts[0].images == 1
    whole = _windows.three((_windows.adaptive_axis(997, 700), _windows.adaptive_axis(997, 700)))
    assert sections.blocks(whole, 1, 20).parts[0].images == 1


@pytest.mark.parametrize(
    ("shape", "windows"),
    [
        # Sums of more than eight in the middle, of fewer at the ends.
        ((1, 16, 64, 128), {"kernel_size": (5, 6), "stride": 1, "padding": (0, 3), "count_include_pad": False}),
        ((1, 1, 64, 1024), {"kernel_size": (5, 6), "stride": 1, "padding": (0, 3), "count_include_pad": False}),
        ((1, 3, 120, 100), {"kernel_size": (2, 3), "stride": (5, 4), "padding": (1, 1), "count_include_pad": False}),
    ],
    ids=str,
)
def test_the_same_bits_for_every_batch_and_order(shape, windows):
    y = nb.avg_pool2d(np.zeros(shape, np.float32), **windows)
    grad = elements((32, *y.shape[1:]), "float32", "normal", 0)
    expected = nb.avg_pool2d_backward(grad, (32, *shape[1:]), **windows)
    for order in ("C", "channels_last"):
        assert_identical(nb.avg_pool2d_backward(laid_out(grad, order, 2), (32, *shape[1:]), **windows), expected)
        assert_identical(nb.avg_pool2d_backward(laid_out(grad[:1], order, 2), shape, **windows), expected[:1])


CASES = [((100, 100), (70, 70)), ((8, 100), (56, 33)), ((97, 90), (70, 7))]


@pytest.mark.parametrize(("size", "output"), CASES, ids=str)
def test_adaptive_gradients_of_many_channels(size, output):
    """Of which some are cut and some not; and of more outputs than elements, in columns far apart."""
    grad = elements((2, 64, *output), "float32", "normal", 0)
    expected = nb.adaptive_avg_pool2d_backward(grad, (2, 64, *size))
    wanted = reference.adaptive_avg_pool_backward(grad[:1, :3], (1, 3, *size), output, rank=2)
    np.testing.assert_allclose(expected[:1, :3], wanted, rtol=1e-5, atol=1e-6)
    last = laid_out(grad, "channels_last", 2)
    assert_identical(nb.adaptive_avg_pool2d_backward(last, (2, 64, *size)), expected)
    assert_identical(nb.adaptive_avg_pool2d_backward(last[:1], (1, 64, *size)), expected[:1])
    assert_identical(nb.adaptive_avg_pool2d_backward(grad[:1], (1, 64, *size)), expected[:1])


def test_whether_long_rows_are_cut_does_not_depend_on_images_or_channels():
    rows = _windows.uniform_axis(40, 40, 9, 1, (4, 4), 1, False)
    columns = _windows.uniform_axis(200000, 2000, 100, 100, (0, 0), 1, False)
    signal = [_windows.uniform_axis(200000, 2000, 30001, 100, (15000, 15000), 1, False)]
    adaptive = [[_windows.adaptive_axis(size, output)] for size, output in ((1_000_003, 7), (1_000_000, 16))]
    for these in ([rows, columns], signal, *adaptive):
        cut = {(images, elements): sections.blocks(_windows.three(tuple(these)), elements, images) is None
               for images in (1, 2, 3, 6, 40) for elements in (1, 3, 20)}
        assert len(set(cut.values())) == 1, cut


def every_gradient(grads, order):
    """Of all cases, of the gradients given."""
    results = []
    for (shape, windows), grad in grads:
        results.append(nb.avg_pool2d_backward(laid_out(grad, order, 2), shape, **windows))
    return results


def cases(dtype):
    for shape in SHAPES:
        for windows in UNEVEN:
            y = nb.avg_pool2d(np.zeros(shape, np.float32), **windows)
            yield (shape, windows), elements(y.shape, dtype, "normal", 0)


def test_the_same_bits_for_every_block_thread_count_and_order(small):
    grads = list(cases("float32"))
    with nb.threads(1):
        expected = every_gradient(grads, "C")
    for actual, same in zip(every_gradient(grads, "channels_last"), expected, strict=True):
        assert_identical(actual, same)
    forget()
    sections.LARGE_BLOCK = 1 << 15  # put back by the fixture
    for actual, same in zip(every_gradient(grads, "C"), expected, strict=True):
        assert_identical(actual, same)


def between_fences():
    """Every kernel that blocks are left to, on arrays and tables that nothing may be read or written beside."""
    sections.LARGE_BLOCK, sections.SMALL_BLOCK = 128, 64
    rng = random.Random(0)
    for order in ("C", "channels_last"):
        for dtype in ("float32", "float16"):
            grads = list(cases(dtype))
            expected = every_gradient(grads, order)
            forget()  # calls that are kept run workers without Numba's look at what they are given
            with fences.Fences(rng):
                for actual, same in zip(every_gradient(grads, order), expected, strict=True):
                    assert_identical(actual, same)
    print("inside")


@pytest.mark.skipif(sys.platform != "linux", reason="memory protection as on Linux")
def test_nothing_beyond_the_arrays():
    assert finish_all([start(between_fences)], timeout=900) == ["inside\n"]
