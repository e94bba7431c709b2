"""Average pooling against the reference, and cases to verify by hand."""


import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, unmodified
from hypothesis import given
from hypothesis import strategies as st
from strategies import HALVES, INTEGERS, arrays, elements, laid_out, windows

import numba_pool as nb
from numba_pool._dispatch import plans
from numba_pool.kernels import _job
from numba_pool.kernels.average import spread_rows

POOL = {1: nb.avg_pool1d, 2: nb.avg_pool2d, 3: nb.avg_pool3d}
BACKWARD = {1: nb.avg_pool1d_backward, 2: nb.avg_pool2d_backward, 3: nb.avg_pool3d_backward}
divisors = st.sampled_from((None, None, None, 3, -2, 0.5))


@given(st.data())
def test_values(data):
    w = data.draw(windows())
    x = data.draw(arrays(w.shape, w.rank))
    arguments = {
        **w.arguments,
        "count_include_pad": data.draw(st.booleans()),
        "divisor_override": data.draw(divisors),
    }
    with unmodified(x):
        y = POOL[w.rank](x, **arguments)
    x = x.astype(x.dtype.newbyteorder("="))
    finite = np.where(np.isfinite(x), x, 0)
    assert_rounded(
        y,
        reference.avg_pool(x, **arguments, rank=w.rank),
        reference.avg_pool(np.abs(finite), **arguments, rank=w.rank),
    )


@given(st.data())
def test_backward(data):
    w = data.draw(windows())
    arguments = {
        **w.arguments,
        "count_include_pad": data.draw(st.booleans()),
        "divisor_override": data.draw(divisors),
    }
    output = reference.avg_pool(np.zeros(w.shape), **arguments, rank=w.rank).shape
    g = data.draw(arrays(output, w.rank, kinds=("normal", "ties")))
    with unmodified(g):
        grad = BACKWARD[w.rank](g, w.shape, **arguments)
    g = g.astype(g.dtype.newbyteorder("="))
    magnitude = {**arguments, "divisor_override": arguments["divisor_override"] and abs(arguments["divisor_override"])}
    assert_rounded(
        grad,
        reference.avg_pool_backward(g, w.shape, **arguments, rank=w.rank),
        reference.avg_pool_backward(np.abs(g), w.shape, **magnitude, rank=w.rank),
    )


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_halves_are_float32_results_rounded_once(dtype, order):
    x = laid_out(elements((2, 19, 7, 23), dtype, "normal", 0), order, 2)
    for arguments in ((2,), (3, 2, 1), (5, 1, 2)):  # long sums are float64: see test_halves.py
        wide = nb.avg_pool2d(x.astype(np.float32), *arguments)
        assert_identical(nb.avg_pool2d(x, *arguments), wide.astype(dtype))
        assert_rounded(wide, reference.avg_pool(x.astype(np.float32), *arguments, rank=2), np.ones_like(wide), 8)
        g = wide.astype(dtype)
        grad = nb.avg_pool2d_backward(g.astype(np.float32), x.shape, *arguments)
        assert_identical(nb.avg_pool2d_backward(g, x.shape, *arguments), grad.astype(dtype))


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_averages_truncate(dtype, order):
    least = 0 if dtype.kind == "u" else -50
    x = laid_out(np.random.default_rng(0).integers(least, 51, (2, 3, 7, 9)).astype(dtype), order, 2)
    for arguments in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}):
        assert_identical(nb.avg_pool2d(x, **arguments), reference.avg_pool(x, **arguments, rank=2))


def test_integer_averages_by_hand():
    """-3 / 2 is -1, not -2; a sum of int8 does not wrap around."""
    np.testing.assert_array_equal(nb.avg_pool1d(np.array([[-1, -2, 1, 2]]), 2), [[-1, 1]])
    x = np.array([[127, 127, -128, -128]], np.int8)
    assert_identical(nb.avg_pool1d(x, 2), np.array([[127, -128]], np.int8))
    x = np.array([[255, 254]], np.uint8)
    assert_identical(nb.avg_pool1d(x, 2), np.array([[254]], np.uint8))
    np.testing.assert_array_equal(nb.avg_pool2d(np.array([[[-7, 0], [0, 0]]]), 2, divisor_override=-2), [[[3]]])
    wrapped = nb.avg_pool2d(np.full((1, 2, 2), 100, np.int8), 2, divisor_override=2)
    np.testing.assert_array_equal(wrapped, np.array([[[200]]]).astype(np.int8))
    # 2**53 + 1 is no float64
    np.testing.assert_array_equal(nb.avg_pool1d(np.array([[2**53 + 1, 2**53 + 1]]), 2), [[2**53 + 1]])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_averages_of_bytes_in_long_rows(dtype):
    """Windows that do not overlap go by the walk of blocks; what hangs over, is padded or has few elements does not."""
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.min, info.max + 1, (2, 3, 5, 7, 601)).astype(dtype)
    x[0, 0, :, :, :12] = info.min
    for rank, kernel, blocks, arguments in (
        (2, (3, 2), True, {}), (1, 4, True, {}), (3, (2, 2, 2), True, {}), (2, (3, 1), True, {"stride": (3, 1)}),
        (2, 2, False, {"ceil_mode": True}), (2, 2, False, {"padding": 1}), (2, 2, False, {"stride": 3}),
        (2, 2, False, {"dilation": 2}), (2, 2, False, {"divisor_override": 5}),
    ):
        a = x.reshape(-1, *x.shape[-rank:])[:4]
        got = nb.explain(POOL[rank], a, kernel, **arguments).kernel
        assert (got == "blocks_in_registers") == blocks, (kernel, arguments)
        want = reference.avg_pool(a, kernel, **arguments, rank=rank)
        assert_identical(POOL[rank](a, kernel, **arguments), np.asarray(want).astype(dtype))


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(("dtype", "side"), [("uint8", 15), ("uint8", 300), ("int16", 40), ("uint16", 64),
                                             ("int32", 90), ("uint32", 90)])
def test_averages_a_little_nearer_to_zero_than_an_integer_truncate(dtype, side, order):
    """Floats would round some of them to it: of float32 the sums of 300x300 bytes, the quotients of 64x64 uint16."""
    info = np.iinfo(dtype)
    for most in {info.max, info.min + 1 if info.min else info.max - 1}:
        x = np.full((1, 2, side, side), most, dtype)
        x[0, 1, side // 2, side // 3] = most - np.sign(most)
        y = nb.avg_pool2d(laid_out(x, order, 2), side)
        assert y.ravel().tolist() == [most, most - np.sign(most)]


@pytest.mark.parametrize(("dtype", "most", "divisor", "arithmetic"), [
    ("uint8", 65280, 0, "float32"),
    ("uint8", 65281, 0, "float64"),
    ("uint8", 9, 2**24 - 9 * 2**8 - 1, "float32"),
    ("uint8", 9, 2**24 - 9 * 2**8, "float64"),
    ("int16", 9, 9, "float32"),
    ("int16", 9, 8, "int64"),
    ("int16", 9, -9, "int64"),
    ("uint32", 2**21 - 1, 0, "float64"),
    ("uint32", 2**21, 0, "int64"),
    ("int64", 1, 0, "int64"),
    ("uint64", 1, 0, "uint64"),
])
def test_integers_are_summed_as_floats_only_where_these_are_exact(dtype, most, divisor, arithmetic):
    """A window of `most` elements: the largest sum and the divisor together are below the first gap of the floats."""
    assert _job.divisors(np.dtype(dtype), divisor, 1, most).dtype == arithmetic


@pytest.mark.parametrize("divisor", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "uint32"])
def test_integer_averages_wrap_where_the_divisor_is_smaller_than_the_window(dtype, divisor):
    x = np.full((1, 1, 2, 2), np.iinfo(dtype).max, dtype)
    expected = (x.sum(dtype=np.int64, keepdims=True) // divisor).astype(dtype)
    assert_identical(nb.avg_pool2d(x, 2, divisor_override=divisor), expected)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("divisor", [3, -3])
def test_integer_averages_with_a_divisor(dtype, divisor):
    """Results truncate toward zero; unsigned ones cannot be negative."""
    least = 0 if dtype.kind == "u" else -30
    x = np.random.default_rng(0).integers(least, 31, (1, 2, 6, 20)).astype(dtype)
    if dtype.kind == "u" and divisor < 0:
        with pytest.raises(ValueError, match="divisor_override"):
            nb.avg_pool2d(x, 2, divisor_override=divisor)
        return
    sums = x.astype(np.int64).reshape(1, 2, 3, 2, 10, 2).sum(axis=(3, 5))
    expected = np.trunc(sums / divisor).astype(dtype)
    assert_identical(nb.avg_pool2d(x, 2, divisor_override=divisor), expected)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("divisor", [3, 5, 6, 7, 9, 49, 1023, 2**22 - 1, 2**22, 2**22 + 1, 10**9 + 7, 2.5, -3])
def test_quotients_are_those_of_a_division(divisor, order):
    """Of doubles, by products where the divisor is not too large: of every size, some subnormal, some 0."""
    rng = np.random.default_rng(int(abs(divisor)))
    x = rng.standard_normal((2, 20, 64, 128)) * 2.0 ** rng.integers(-1074, 1020, (2, 20, 64, 1))
    whole = divisor if divisor == int(divisor) and 0 < divisor < 2**40 else 3
    # Next to what is halfway between two floats, times the divisor, and subnormal ties.
    near = (2 * rng.integers(2**52, 2**53, (20, 64, 64)) + 1).astype(object) * whole
    x[0, :, :, :64] = near.astype(np.float64)
    x[1, :, 0] = rng.integers(0, 200, (20, 128)) * 2.0**-1074
    x[1, :, 1] = rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0, np.finfo(float).max, np.finfo(float).tiny], (20, 128))
    y = nb.avg_pool2d(laid_out(x, order, 2), 1, divisor_override=divisor)
    with np.errstate(all="ignore"):
        assert_identical(y, (x + 0.0) / divisor)  # sums begin with 0.0


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("divisor", [1e-46, -1e-46, 5e-324, 3e-39, 2.0**-126, 2.0**127, 1e39, -1e39, 1e308, 10**40 + 1])
def test_divisors_that_are_no_float32(divisor, order):
    """One that float32 would round to 0 is no missing one, and one that it would round to infinity is smaller."""
    size = min(max(abs(divisor), 1e-40), 1e37)
    x = laid_out((np.random.default_rng(0).uniform(1, 2, (2, 20, 6, 8)) * size).astype(np.float32), order, 2)
    with np.errstate(over="ignore"):
        y = (x.astype(float).reshape(2, 20, 3, 2, 4, 2).sum((3, 5)) / float(divisor)).astype(np.float32)
        gx = (x.astype(float).repeat(2, 2).repeat(2, 3) / float(divisor)).astype(np.float32)
    np.testing.assert_allclose(nb.avg_pool2d(x, 2, divisor_override=divisor), y, rtol=1e-6)
    assert_identical(nb.avg_pool2d_backward(x, gx.shape, 2, divisor_override=divisor), gx)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_whole_planes_keep_the_sign_of_zero(dtype, order):
    grad = laid_out(np.array([0.0, -0.0] * 20, dtype).reshape(2, 20, 1, 1), order, 2)
    for divisor in (None, 8, 7, 2.5):
        expected = np.broadcast_to(grad, (2, 20, 7, 7))
        assert_identical(nb.avg_pool2d_backward(grad, (2, 20, 7, 7), 7, divisor_override=divisor), expected)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize(
    ("size", "kernel", "stride"),
    [
        ((100, 50), 20, 16),  # rows of fewer windows than two vectors have lanes
        ((33, 700), (10, 20), (4, 16)),
        ((9, 3000), (9, 40), (4, 20)),  # rows that go past the caches one by one
    ],
)
def test_gradients_of_windows_far_apart(size, kernel, stride, order):
    """Many rows and columns are copies of others."""
    grad = elements(nb.avg_pool2d(np.zeros((1, 5, *size), np.float32), kernel, stride).shape, "float32", "normal", 0)
    shape, last = (1, 5, *size), order != "C"
    call = plans.uniform_backward(grad.shape, shape, 2, last, kernel, stride, 0, 1, False, True)
    assert call.worker is spread_rows
    assert_rounded(nb.avg_pool2d_backward(laid_out(grad, order, 2), shape, kernel, stride),
                   reference.avg_pool_backward(grad, shape, kernel, stride, rank=2),
                   reference.avg_pool_backward(np.abs(grad), shape, kernel, stride, rank=2))


def test_by_hand():
    x = np.array([[[1.0, 2.0], [2.5, 0.5]]])
    np.testing.assert_array_equal(nb.avg_pool2d(x, 2), [[[1.5]]])
    grad = nb.avg_pool2d_backward(np.array([[[8.0]]]), x.shape, 2)
    np.testing.assert_array_equal(grad, [[[2, 2], [2, 2]]])


def test_overlapping_windows_add_up():
    grad = nb.avg_pool1d_backward(np.array([[3.0, 30.0, 300.0]]), (1, 5), 3, 1)
    np.testing.assert_array_equal(grad, [[1, 11, 111, 110, 100]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_divisor_counts_the_padding_but_not_the_overhang(dtype):
    x = np.ones((1, 6), dtype)
    counted = nb.avg_pool1d(x, 3, 2, 1, ceil_mode=True)
    np.testing.assert_array_equal(counted, np.array([[2 / 3, 1, 1, 1 / 2]], dtype))
    alone = nb.avg_pool1d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)
    np.testing.assert_array_equal(alone, np.ones((1, 4), dtype))
    np.testing.assert_array_equal(nb.avg_pool1d(x, 3, 2, 1, divisor_override=2), [[1, 1.5, 1.5]])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_overhang_of_two_beside_asymmetric_padding(axis):
    """Along one axis: L=6, k=4, s=4, padding (1, 0). Windows [-1, 3) and [3, 7): the second hangs over by one; with
    k=5, s=5 and padding (2, 0) [-2, 3) and [3, 8): by two. Padding counts, overhang never does."""
    shape = [1, 1, 1]
    shape[axis] = 6
    x = np.ones((1, *shape))
    for k, before, counted in ((4, 1, [3 / 4, 1]), (5, 2, [3 / 5, 1])):
        kernel, pads = [1, 1, 1], [(0, 0)] * 3
        kernel[axis], pads[axis] = k, (before, 0)
        y = nb.avg_pool3d(x, tuple(kernel), None, tuple(pads), ceil_mode=True)
        np.testing.assert_array_equal(y.ravel(), counted)
        alone = nb.avg_pool3d(x, tuple(kernel), None, tuple(pads), True, False)
        np.testing.assert_array_equal(alone.ravel(), [1, 1])
        grad = nb.avg_pool3d_backward(np.ones(y.shape), x.shape, tuple(kernel), None, tuple(pads), True)
        np.testing.assert_array_equal(grad.ravel(), [1 / k] * 3 + [1 / 3] * 3)


def test_dilated_taps():
    """k=2, d=2, padding 1: taps (-1, 1), (0, 2), (1, 3); a padded tap counts in the divisor."""
    x = np.array([[1.0, 2.0, 4.0]])
    np.testing.assert_array_equal(nb.avg_pool1d(x, 2, 1, 1, dilation=2), [[1, 2.5, 1]])
    np.testing.assert_array_equal(nb.avg_pool1d(x, 2, 1, 1, False, False, dilation=2), [[2, 2.5, 2]])
    grad = nb.avg_pool1d_backward(np.array([[2.0, 20.0, 200.0]]), (1, 3), 2, 1, 1, dilation=2)
    np.testing.assert_array_equal(grad, [[10, 101, 10]])


def test_window_without_a_valid_tap_is_zero():
    """Taps -1 and 3 of an input of length 3, whatever the divisor."""
    x = np.ones((1, 3), np.float32)
    for include in (True, False):
        y = nb.avg_pool1d(x, 2, 1, 1, count_include_pad=include, dilation=4)
        assert_identical(y, np.zeros((1, 1), np.float32))
        grad = nb.avg_pool1d_backward(y + 1, x.shape, 2, 1, 1, count_include_pad=include, dilation=4)
        assert_identical(grad, np.zeros((1, 3), np.float32))


def test_what_is_not_finite_stays_in_its_windows():
    """Sums that run along the row would carry the NaN on."""
    x = np.zeros((1, 40))
    x[0, 10], x[0, 20], x[0, 30] = np.nan, np.inf, -np.inf
    for kernel in (2, 3, 8):
        y = nb.avg_pool1d(x, kernel, 1)[0]
        start = np.arange(len(y))
        np.testing.assert_array_equal(np.isnan(y), (start <= 10) & (start + kernel > 10))
        np.testing.assert_array_equal(np.isposinf(y), (start <= 20) & (start + kernel > 20))
        np.testing.assert_array_equal(np.isneginf(y), (start <= 30) & (start + kernel > 30))


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("channels", [1, 3])
def test_large_windows_are_accurate(channels, order):
    """Naive float32 summation is off in the fifth digit here (0.49989 for 0.49988)."""
    x = np.random.default_rng(0).random((1, channels, 1024, 1024), dtype=np.float32)
    expected = x.mean(axis=(2, 3), keepdims=True, dtype=np.float64)
    x = laid_out(x, order, 2)
    for y in (nb.global_avg_pool(x), nb.avg_pool2d(x, 1024), nb.adaptive_avg_pool2d(x, 1)):
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, expected, rtol=3e-7)
    rows = nb.avg_pool2d(x, (1, 1024))
    np.testing.assert_allclose(rows, x.mean(axis=3, keepdims=True, dtype=np.float64), rtol=3e-7)


def test_large_windows_that_overlap_are_accurate():
    x = np.random.default_rng(0).random((1, 1, 300, 310), dtype=np.float32)
    y = nb.avg_pool2d(x, 257, 1)
    sums = np.pad(x[0, 0].astype(np.float64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    k = 257
    expected = (sums[k:, k:] - sums[:-k, k:] - sums[k:, :-k] + sums[:-k, :-k]) / k**2
    np.testing.assert_allclose(y[0, 0], expected, rtol=5e-7)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_the_smallest_integer_by_minus_one(dtype):
    """It wraps, as integers do; the machine's division would end the process."""
    smallest = np.iinfo(dtype).min
    x = np.array([[smallest, 3, smallest + 1, -7]], dtype)
    for order in (x, np.repeat(x[None], 20, 1)):
        y = nb.avg_pool1d(order, 1, divisor_override=-1)
        assert (y == [[smallest, -3, -(smallest + 1), 7]]).all()
    assert (nb.avg_pool1d(x, 1, divisor_override=1) == x).all()


@pytest.mark.parametrize("divisor", [2**53 + 1, 2**62 + 1, -(2**62) - 1, np.int64(2**63 - 1)])
def test_integers_that_no_float_is_equal_to_divide_exactly(divisor):
    x = np.array([[int(divisor) - (1 if divisor > 0 else -1), int(divisor)]])
    assert (nb.avg_pool1d(x, 1, divisor_override=divisor) == [[0, 1]]).all()


@pytest.mark.parametrize(("dtype", "divisor", "expected"), [
    ("int64", -(2**63), [[1, 0]]),
    ("uint64", 2**64 - 1, [[0, 1]]),
    ("uint8", 2**64 - 1, [[0, 0]]),  # whose sums are carried in int64
    ("uint32", np.uint64(2**63), [[0, 0]]),
])
def test_the_largest_divisors_of_integers(dtype, divisor, expected):
    info = np.iinfo(dtype)
    assert nb.avg_pool1d(np.array([[info.min, info.max]], dtype), 1, divisor_override=divisor).tolist() == expected


@pytest.mark.parametrize("rank", POOL)
@pytest.mark.parametrize(("dtype", "divisor", "error", "message"), [
    ("uint8", 0.001, TypeError, "must be an int for uint8, got 0.001"),
    ("int16", -0.25, TypeError, "must be an int for int16, got -0.25"),
    ("int64", 1.5, TypeError, "must be an int for int64, got 1.5"),
    ("int64", np.float64(2), TypeError, "must be an int for int64, got 2.0"),
    ("uint64", 2**64, ValueError, rf"must be in \[1, {2**64 - 1}\] for uint64, got {2**64}"),
    ("uint8", 2**64, ValueError, rf"must be in \[1, {2**64 - 1}\] for uint8"),
    ("int64", 2**64, ValueError, rf"must be in \[-{2**63}, {2**63 - 1}\] for int64"),
    ("int8", 2**63, ValueError, rf"must be in \[-{2**63}, {2**63 - 1}\] for int8"),
    ("int64", -(2**63) - 1, ValueError, "must be in"),
])
def test_divisors_that_no_integer_sum_is_divided_by(rank, dtype, divisor, error, message):
    """Floats would round the sums, and divisors of more than 64 bits the quotients."""
    pool, x = POOL[rank], np.arange(1, 4**rank + 1, dtype=dtype).reshape(1, *[4] * rank)
    out = np.full_like(pool(x, 2), 7)
    for call in (lambda **k: pool(x, 2, **k), lambda **k: pool(x, 2, out=out, **k),
                 lambda **k: getattr(nb, f"AvgPool{rank}d")(2, **k)(x),
                 lambda **k: nb.plan(pool, x.shape, x.dtype, 2, **k)):
        with pytest.raises(error, match=f"divisor_override {message}"):
            call(divisor_override=divisor)
    assert (out == 7).all()
    pool(x, 2, divisor_override=2)
    with pytest.raises(TypeError, match="must be an int"):  # also after a call with a divisor that is equal to it
        pool(x, 2, divisor_override=2.0)
