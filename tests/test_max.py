"""Maximum pooling against the reference, and cases to verify by hand."""

import subprocess
import sys

import numpy as np
import pytest
import reference
import selection
from checks import assert_identical, assert_rounded, assert_same_maxima, is_channels_last, needs_two_threads, unmodified
from hypothesis import given, settings
from hypothesis import strategies as st
from process import run
from strategies import FLOATS, HALVES, INTEGERS, arrays, elements, laid_out, windows

import numba_pool as nb
from numba_pool.kernels import _job
from numba_pool.kernels.scatter import scatter

POOL = {1: nb.max_pool1d, 2: nb.max_pool2d, 3: nb.max_pool3d}
BACKWARD = {1: nb.max_pool1d_backward, 2: nb.max_pool2d_backward, 3: nb.max_pool3d_backward}


@given(st.data())
def test_values_and_indices(data):
    w = data.draw(windows())
    x = data.draw(arrays(w.shape, w.rank))
    expected, expected_indices = reference.max_pool(x.astype(x.dtype.newbyteorder("=")), **w.arguments, rank=w.rank)
    with unmodified(x):
        y, indices = POOL[w.rank](x, **w.arguments, return_indices=True)
        alone = POOL[w.rank](x, **w.arguments)
    assert_identical(y, expected)
    assert_identical(indices, expected_indices)
    assert_same_maxima(alone, expected)


@given(st.data())
def test_backward(data):
    w = data.draw(windows())
    x = data.draw(arrays(w.shape, w.rank, dtypes=("float64",), kinds=("normal", "ties"), orders=("C", "channels_last")))
    y, indices = reference.max_pool(x, **w.arguments, rank=w.rank)
    g = data.draw(arrays(y.shape, w.rank, kinds=("normal",)))
    indices = data.draw(st.sampled_from([indices, laid_out(indices, "channels_last", w.rank)]))
    with unmodified(g, indices):
        grad = BACKWARD[w.rank](g, indices, x.shape)
    g = g.astype(g.dtype.newbyteorder("="))
    assert_rounded(
        grad,
        reference.scatter_add(g, indices, x.shape, w.rank),
        reference.scatter_add(np.abs(g), indices, x.shape, w.rank),
    )


@pytest.mark.every_dtype
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_every_dtype(dtype, order):
    """Extreme values included; a border of padding never wins, not even against the smallest integer."""
    for kind in ("normal", "ties", "constant"):
        x = laid_out(elements((2, 3, 5, 19), dtype, kind, 1), order, 2)
        assert_identical(nb.max_pool2d(x, 2), reference.max_pool(x, 2, rank=2)[0])
        y, indices = nb.max_pool2d(x, 3, 2, 1, return_indices=True)
        expected, expected_indices = reference.max_pool(x, 3, 2, 1, rank=2)
        assert_identical(y, expected)
        assert_identical(indices, expected_indices)
        assert_identical(nb.max_pool2d(x, 3, 2, 1), expected)


@pytest.mark.parametrize("dtype", [*HALVES], ids=str)
def test_halves_are_added_up_in_float32(dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (2, 3, 9, 9)).astype(dtype)
    y, indices = nb.max_pool2d(x, 3, 1, 1, return_indices=True)
    g = rng.standard_normal(y.shape).astype(dtype)
    expected = nb.max_pool2d_backward(g.astype(np.float32), indices, x.shape).astype(dtype)
    assert_identical(nb.max_pool2d_backward(g, indices, x.shape), expected)


def test_integers_beyond_the_floats():
    """2**53 + 1 is no float64: the comparison happens in the integers themselves."""
    x = np.array([[2**53, 2**53 + 1, -(2**63), -(2**63) + 1]])
    y, indices = nb.max_pool1d(x, 2, return_indices=True)
    np.testing.assert_array_equal(y, [[2**53 + 1, -(2**63) + 1]])
    np.testing.assert_array_equal(indices, [[1, 3]])
    x = np.array([[2**63, 2**63 + 1, 2**64 - 1, 1]], np.uint64)
    np.testing.assert_array_equal(nb.max_pool1d(x, 2), np.array([[2**63 + 1, 2**64 - 1]], np.uint64))


def test_by_hand():
    x = np.array([[[1.0, 2.0], [2.5, 0.5]]])
    y, indices = nb.max_pool2d(x, 2, return_indices=True)
    np.testing.assert_array_equal(y, [[[2.5]]])
    np.testing.assert_array_equal(indices, [[[2]]])
    np.testing.assert_array_equal(nb.max_pool2d_backward(np.array([[[7.0]]]), indices, x.shape), [[[0, 0], [7, 0]]])


def test_overlapping_windows_add_up():
    x = np.array([[1.0, 9.0, 2.0, 3.0, 0.0]])
    y, indices = nb.max_pool1d(x, 3, 1, return_indices=True)
    np.testing.assert_array_equal(y, [[9, 9, 3]])
    np.testing.assert_array_equal(indices, [[1, 1, 3]])
    grad = nb.max_pool1d_backward(np.array([[1.0, 10.0, 100.0]]), indices, x.shape)
    np.testing.assert_array_equal(grad, [[0, 11, 0, 100, 0]])


def test_indices_are_flat_over_the_unpadded_plane():
    x = np.zeros((1, 1, 3, 4))
    x[0, 0, 2, 3] = 1
    _, indices = nb.max_pool2d(x, 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(indices[0, 0], [[0, 1], [4, 11]])
    x = np.zeros((1, 1, 2, 3, 4))
    x[0, 0, 1, 2, 1] = 1
    _, indices = nb.max_pool3d(x, (2, 3, 4), return_indices=True)
    assert indices.item() == 1 * 12 + 2 * 4 + 1


def test_ceil_mode_keeps_only_windows_that_start_inside():
    """L=9, k=5, s=2: 3 outputs, where the formula often printed gives 4; and the overhang is left out."""
    x = np.arange(9.0)[None]
    np.testing.assert_array_equal(nb.max_pool1d(x, 5, 2, ceil_mode=True), [[4, 6, 8]])
    np.testing.assert_array_equal(nb.max_pool1d(np.arange(6.0)[None], 3, 2, ceil_mode=True), [[2, 4, 5]])
    np.testing.assert_array_equal(nb.max_pool1d(np.arange(6.0)[None], 3, 2), [[2, 4]])
    # the fourth window would start in the padding at the end
    assert nb.max_pool1d(np.zeros((1, 5)), 2, 2, 1, ceil_mode=True).shape == (1, 3)


def test_same_puts_the_odd_element_at_the_end():
    x = np.array([[1.0, 2.0, 3.0, 4.0]])
    np.testing.assert_array_equal(nb.max_pool1d(x, 2, 1, "same"), [[2, 3, 4, 4]])
    np.testing.assert_array_equal(nb.max_pool1d(x, 2, 1, "same_lower"), [[1, 2, 3, 4]])
    np.testing.assert_array_equal(nb.max_pool1d(x, 2, 1, "valid"), [[2, 3, 4]])
    np.testing.assert_array_equal(nb.max_pool1d(np.arange(5.0)[None], 3, 2, "same"), [[1, 3, 4]])


def test_asymmetric_padding():
    x = np.arange(1.0, 6.0)[None]
    y, indices = nb.max_pool1d(-x, 3, 2, ((2, 0),), return_indices=True)
    np.testing.assert_array_equal(y, [[-1, -1, -3]])
    np.testing.assert_array_equal(indices, [[0, 0, 2]])
    np.testing.assert_array_equal(nb.max_pool1d(-x, 3, 2, ((0, 2),)), [[-1, -3, -5]])


def test_taps_keep_their_alignment_under_dilation():
    """With padding 1 and dilation 2 the first window has taps -1, 1, 3: not 0, 2, 4."""
    x = np.array([[9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0]])
    y, indices = nb.max_pool1d(x, 3, 1, 1, 2, return_indices=True)
    np.testing.assert_array_equal(y, [[2, 9, 3, 8, 3]])
    np.testing.assert_array_equal(indices, [[3, 0, 5, 2, 5]])


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (3, 1), (5, 1), (13, 1), (16, 16)])
def test_the_last_nan_and_the_first_of_ties(kernel, stride, dtype, order):
    """One window per plane decides; 37 channels fill vectors and leave a remainder."""
    x = np.zeros((2, 37, kernel, kernel), dtype)
    expected = np.zeros((2, 37), np.int64)
    rng = np.random.default_rng(kernel)
    for n in range(2):
        for c in range(37):
            first, second = np.sort(rng.choice(kernel * kernel, 2, replace=False))
            plane = x[n, c].reshape(-1)
            if n == 0:
                plane[first] = plane[second] = np.nan
                plane[rng.choice(np.delete(np.arange(kernel * kernel), [first, second]))] = np.inf
                expected[n, c] = second
            else:
                plane[first] = plane[second] = 3
                expected[n, c] = first
    y, indices = nb.max_pool2d(laid_out(x, order, 2), kernel, stride, return_indices=True)
    assert np.isnan(y[0]).all()
    assert (y[1] == 3).all()
    np.testing.assert_array_equal(indices[..., 0, 0], expected)
    assert np.isnan(nb.max_pool2d(laid_out(x, order, 2), kernel, stride)[0]).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_the_last_nan_is_one_of_the_taps(order, axis):
    """Of dilated windows, not of what lies between their taps."""
    x = elements((2, 3, 7, 8, 9), "float32", "nan", axis)
    dilation = tuple(3 if i == axis else 1 for i in range(3))
    y, indices = nb.max_pool3d(laid_out(x, order, 3), 2, 1, 0, dilation, return_indices=True)
    expected, expected_indices = reference.max_pool(x, 2, 1, 0, dilation, rank=3)
    assert np.isnan(expected).any()
    assert_identical(y, expected)
    assert_identical(indices, expected_indices)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64"])
@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("arguments", [(1,), (2,), (3, 2, 1), (3, 1, 1), (5, 1, 2), (7, 1, 3), (9, 3)])
def test_the_least_value_wins_with_its_first_tap(arguments, order, dtype):
    """What no element can be less than still beats the padding, and nothing."""
    dtype = np.dtype(dtype)
    x = np.full((1, 19, 9, 21), -np.inf if dtype.kind == "f" else np.iinfo(dtype).min, dtype)
    y, indices = nb.max_pool2d(laid_out(x, order, 2), *arguments, return_indices=True)
    expected, expected_indices = reference.max_pool(x[:, :1], *arguments, rank=2)
    assert_identical(y, np.repeat(expected, 19, axis=1))
    assert_identical(indices, np.repeat(expected_indices, 19, axis=1))


@pytest.mark.parametrize("stride", range(1, 6))
@pytest.mark.parametrize("kernel", range(1, 7))
def test_every_small_window(kernel, stride):
    """Which are written out one by one."""
    x = elements((1, 2, 3, 83), "float32", "specials", kernel)
    expected, expected_indices = reference.max_pool(x, (2, kernel), (1, stride), rank=2)
    y, indices = nb.max_pool2d(x, (2, kernel), (1, stride), return_indices=True)
    assert_identical(y, expected)
    assert_identical(indices, expected_indices)
    assert_identical(nb.max_pool2d(x, (2, kernel), (1, stride)), expected)


def test_zeros_of_either_sign_are_ties():
    y, indices = nb.max_pool1d(np.array([[-0.0, 0.0, 0.0, -0.0]]), 2, return_indices=True)
    assert_identical(y, np.array([[-0.0, 0.0]]))
    np.testing.assert_array_equal(indices, [[0, 2]])


EMPTY = [("float32", 1), ("uint8", 40)]
if selection.exhaustive:
    EMPTY = [(dtype, n) for dtype in ("float32", "float64", "int8", "uint8", "int64") for n in (1, 40)]


@pytest.mark.parametrize(("dtype", "channels"), EMPTY)
def test_window_without_a_valid_tap(dtype, channels):
    """k=2, d=4, one pixel of padding before and after an input of length 3: taps -1 and 3. By columns as lanes, or by
    channels as lanes, which compiles in half the time: the value of nothing is one function for both.
    """
    x = laid_out(np.repeat(np.array([[[1], [2], [3]]], dtype), channels, axis=2).transpose(0, 2, 1), "channels_last", 1)
    y, indices = nb.max_pool1d(x, 2, 1, 1, 4, return_indices=True)
    lowest = -np.inf if y.dtype.kind == "f" else np.iinfo(dtype).min
    assert_identical(y, np.full((1, channels, 1), lowest, dtype))
    assert_identical(indices, np.full((1, channels, 1), -1, np.int32))
    assert_identical(nb.max_pool1d(x, 2, 1, 1, 4), y)


def test_backward_skips_the_window_without_a_valid_tap():
    indices = np.array([[-1, 2]], np.int32)
    np.testing.assert_array_equal(nb.max_pool1d_backward(np.array([[5.0, 7.0]]), indices, (1, 3)), [[0, 0, 7]])


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=needs_two_threads)])
@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(
    ("lead", "size", "outputs"), [((1, 1), 9000, 7001), ((2, 3), 2500, 5000), ((1, 40), 1000, 999)]
)
@pytest.mark.parametrize("kernel", ["planes", "buffer", "halves"])
def test_backward_of_many_indices_in_any_order(lead, size, outputs, order, threads, kernel, monkeypatch):
    """Planes longer than any block that a kernel may work in; indices go to and fro, some of them -1."""
    if kernel == "buffer":
        monkeypatch.setattr(_job, "STREAMED", 0)
    rng = np.random.default_rng(0)
    indices = rng.integers(-1, size, (*lead, outputs)).astype(np.int32)
    indices[:, :, : outputs // 3] = np.sort(indices[:, :, : outputs // 3])  # and a part as forward would give them
    g = rng.integers(-9, 10, indices.shape).astype(np.float16 if kernel == "halves" else np.float32)  # exact sums
    expected = reference.scatter_add(g, indices, (*lead, size), 1)
    with nb.threads(threads):
        grad = nb.max_pool1d_backward(laid_out(g, order, 1), laid_out(indices, order, 1), (*lead, size))
        assert_identical(np.abs(grad), np.abs(expected))
        np.testing.assert_array_equal(grad, expected)
        for place in (0, 1, outputs // 2, 2047, outputs - 1):
            for wrong in (size, -2, 2**31 - 1, -(2**31)):
                bad = indices.copy()
                bad[-1, -1, min(place, outputs - 1)] = wrong
                with pytest.raises(ValueError, match="indices"):
                    nb.max_pool1d_backward(laid_out(g, order, 1), laid_out(bad, order, 1), (*lead, size))


@needs_two_threads
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint64"])
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize(("channels", "size"), [(40, (101, 50)), (3, (300, 90)), (300, (11, 13))])
def test_windows_over_the_border_between_threads(channels, size, images, dtype):
    """Two threads share an image in channels-last memory by ranges of its pixels; of halves each sums up in a buffer,
    which has left the beginning of the range behind when it comes to the border.
    """
    x = elements((images, channels, *size), dtype, "ties", 0)
    with nb.threads(2):
        y, indices = nb.max_pool2d(laid_out(x, "channels_last", 2), 5, 1, 2, return_indices=True)
        # Exact sums; unsigned ones wrap, and no float64 holds them.
        g = np.random.default_rng(0).integers(-9, 10, y.shape).astype(dtype)
        grad = nb.max_pool2d_backward(laid_out(g, "channels_last", 2), indices, x.shape)
    expected, planes = np.zeros(x.shape, dtype).reshape(images * channels, -1), np.arange(images * channels)[:, None]
    np.add.at(expected, (planes, indices.reshape(len(planes), -1)), g.reshape(len(planes), -1))
    assert_identical(grad, expected.reshape(x.shape))


@pytest.mark.parametrize(("pixels", "parts"), [(1, 2), (5, 8), (3, 3)])
def test_a_range_without_pixels_writes_nothing(pixels, parts):
    """More threads than pixels leave some without any; what these would write belongs to another."""
    channels, outputs = 4, 9
    indices = np.repeat(np.arange(outputs) % (pixels + 1) - 1, channels).astype(np.int32)  # -1 among them
    grad, untouched = np.ones(outputs * channels, np.float32), np.float32(-0.0)
    for part in range(parts):
        first, stop = pixels * part // parts, pixels * (part + 1) // parts
        gx = np.full((pixels, channels), untouched)
        scatter(part, part + 1, (grad, indices, gx.ravel(), channels, pixels, outputs, None, None, True, parts))
        changed = [pixel for pixel in range(pixels) if not np.signbit(gx[pixel]).all()]
        assert changed == list(range(first, stop))


def scatter_to_few_pixels(channels):
    shape = (1, 2, 2, channels)
    for index in (-1, 0):
        grad, indices = np.ones(shape, np.float16), np.full(shape, index, np.int32)
        with nb.threads(1):
            gx = nb.max_pool2d_backward(grad.transpose(0, 3, 1, 2), indices.transpose(0, 3, 1, 2), (1, channels, 2, 2))
        assert gx.sum(dtype=np.float64) == (0 if index < 0 else 4 * channels)


def test_pixels_larger_than_a_buffer():
    run(scatter_to_few_pixels, 70_000)


def test_extreme_geometry():
    """Strides and dilations beyond any input, wherever a valid window is left."""
    x = np.array([[3.0, 5.0, 4.0]])
    far = 2**31 - 1
    np.testing.assert_array_equal(nb.max_pool1d(x, 2, far), [[5]])
    np.testing.assert_array_equal(nb.max_pool1d(x, 2, (far,), "same", far), [[-np.inf]])
    np.testing.assert_array_equal(nb.avg_pool1d(x, 2, far), [[4]])
    for d in (3, 700, 2000):
        pads = ((d, d - 2),)
        expected, expected_indices = reference.max_pool(x, 2, 1, pads, d, rank=1)
        y, indices = nb.max_pool1d(x, 2, 1, pads, d, return_indices=True)
        assert_identical(y, expected)
        assert_identical(indices, expected_indices)
        assert_identical(nb.max_pool1d(x, 2, 1, pads, d), expected)
        expected = reference.avg_pool(x, 2, 1, pads, dilation=d, rank=1)
        assert_identical(nb.avg_pool1d(x, 2, 1, pads, dilation=d), expected)


@pytest.mark.skipif(sys.platform == "win32", reason="no peak of memory to ask for")
def test_no_memory_for_the_gaps_of_a_dilation():
    """A dilation is a number, whatever its size: buffers follow the input and the output. The peak never falls again,
    so a process of its own looks at it."""
    code = """
import resource
from numba_pool import avg_pool1d, max_pool1d
x = [[3.0, 5.0, 4.0]]
for pool in (max_pool1d, avg_pool1d):
    pool(x, 1, 5, dilation=2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert pool(x, 1, 2**27, dilation=2**27).tolist() == [[3]]
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == ["0", "0"]


@given(st.data())
@settings(max_examples=50)
def test_memory_order_of_the_result(data):
    w = data.draw(windows())
    kind = data.draw(st.sampled_from(("normal", "specials")))
    x = laid_out(elements(w.shape, "float32", kind, 1), "channels_last", w.rank)
    y, indices = POOL[w.rank](x, **w.arguments, return_indices=True)
    assert y.flags.c_contiguous or is_channels_last(y, w.rank)
    if not x.flags.c_contiguous:
        assert is_channels_last(y, w.rank)
        assert is_channels_last(indices, w.rank)
        assert is_channels_last(POOL[w.rank](x, **w.arguments), w.rank)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((2**60,), "float32"), ((2**30, 2**30), "float32"), ((2**20, 2**20, 2**20), "int8"), ((2**16, 2**15), "int8")],
)
def test_planes_beyond_int32_are_rejected_with_indices(shape, dtype):
    """Views of one element; most are of exabytes, so that allocating a copy, an output or a table would fail."""
    x = np.broadcast_to(np.ones((), dtype), (1, 1, *shape))
    for kernel in (2, 2**15):
        with pytest.raises(ValueError, match=r"plane|int32|indices"):
            POOL[len(shape)](x, kernel, return_indices=True)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_anything_that_asarray_takes(dtype):
    x = np.array([[1, 5, 2, 4]], dtype)
    assert_identical(nb.max_pool1d(x.tolist(), 2), nb.max_pool1d(np.asarray(x.tolist()), 2))

    class Sub(np.ndarray):
        pass

    y = nb.max_pool1d(x.view(Sub), 2)
    np.testing.assert_array_equal(np.asarray(y), [[5, 4]])


def test_sizes_may_be_numpy_integers_and_short_tuples():
    x = elements((1, 2, 7, 7), "float32", "normal", 0)
    expected = nb.max_pool2d(x, 3, 2, 1)
    assert_identical(nb.max_pool2d(x, np.int64(3), np.int32(2), np.uint8(1)), expected)
    assert_identical(nb.max_pool2d(x, (3,), (2,), (1,)), expected)
    assert_identical(nb.max_pool2d(x, [3, 3], [2, 2], [1, 1], [1]), expected)
    assert_identical(nb.max_pool2d(x, 3, 2, ((1, 1), (1, 1))), expected)
    assert_identical(nb.max_pool2d(x, 3, ()), nb.max_pool2d(x, 3, 3))
    assert_identical(nb.max_pool2d(x, (3, 2), None), nb.max_pool2d(x, (3, 2), (3, 2)))
