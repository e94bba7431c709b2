"""Results of few bits, rounded once from what is exact, and never with a warning."""

import blocks_reference as reference
import ml_dtypes
import numpy as np
import pytest
from strategies import HALVES, laid_out

import numba_pool as nb
from numba_pool import _arrays

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BITS = {"float16": 11, "bfloat16": 8, "float32": 24}


def beside_ties(dtype, n):
    """Float64 numbers halfway between two of a dtype, and such that are a little above and below."""
    rng = np.random.default_rng(n)
    ties = 2 ** (BITS[np.dtype(dtype).name] - 1) + rng.integers(0, 100, n) + 0.5
    return ties * 2.0 ** rng.integers(-4, 3, n) * (1 + rng.integers(-1, 2, n) * 2.0 ** -rng.integers(26, 52, n))


def integers_beside_ties(dtype, n):
    """The same, of 63 bits."""
    rng, bits = np.random.default_rng(n), BITS[np.dtype(dtype).name]
    whole = 2**bits + 2 * rng.integers(0, 100, n) + 1
    return whole * 2 ** (61 - bits) + rng.integers(-1, 2, n)


def check(x, reduction, dtype, n=2):
    blocks = x.reshape(-1, n)
    got = nb.coarsen(blocks, {1: n}, reduction, dtype=dtype)
    assert got.dtype == dtype
    options = {"first": "max"}.get(reduction, reduction)
    want = [[reference.nearest(reference.of_block(row[:1] if reduction == "first" else row, options, {}, False), dtype)]
            for row in blocks.tolist()]
    np.testing.assert_array_equal(got.astype(np.float64), want)


@pytest.mark.parametrize("reduction", ["mean", "sum", "max", "min", "median", "mode", "first"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_blocks_of_float64_as_halves(dtype, reduction):
    same = reduction in ("max", "min", "mode", "first")  # of equal elements, whose sums lie beside ties, too
    check(np.repeat(beside_ties(dtype, 300), 2), reduction, dtype)
    check(beside_ties(dtype, 600) if same else beside_ties(dtype, 300).repeat(2) * np.tile([0.5, 1.5], 300), reduction,
          dtype)


@pytest.mark.parametrize(("reduction", "kind"), [("mean", "int64"), ("sum", "uint64"), ("max", "int64"),
                                                 ("median", "uint64"), ("mode", "int64"), ("first", "uint64")])
def test_blocks_of_integers_as_bfloat16(reduction, kind):
    check(np.repeat(integers_beside_ties(BFLOAT16, 300), 2).astype(kind) // (2 if reduction == "sum" else 1), reduction,
          BFLOAT16)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_medians_and_means_of_float32_as_halves(dtype):
    """Halfway between two halves, but for the last bit of one element."""
    ties = 1 + np.arange(1, 40, 2) * float(ml_dtypes.finfo(dtype).eps) / 2
    x = np.repeat(ties.astype(np.float32), 2).reshape(-1, 2)
    x[::2, 1], x[1::2, 1] = np.nextafter(x[::2, 1], np.float32(9)), np.nextafter(x[1::2, 1], np.float32(0))
    for reduction in ("median", "mean"):
        check(x, reduction, dtype)


@pytest.mark.parametrize(("reduction", "n"), [("max", 4), ("mode", 200)])
@pytest.mark.parametrize(("kind", "dtype"), [("int64", "float32"), ("int64", "uint64")])
def test_integers_of_64_bits_beside_a_result_that_stands_for_missing_ones(kind, dtype, reduction, n):
    value = 2**60 + 2**36 + 1 if dtype == "float32" else 2**53 + 1
    x, want = np.full(n, value, kind), reference.nearest(value, dtype) if dtype == "float32" else value
    assert nb.coarsen(x, n, reduction, dtype=dtype, where=np.ones(n, bool)).tolist() == [want]


@pytest.mark.parametrize("reduction", ["mean", "median"])
@pytest.mark.parametrize("kind", ["float64", "int64"])
def test_blocks_as_float32(kind, reduction):
    some = beside_ties if kind == "float64" else integers_beside_ties
    check(np.repeat(some(np.float32, 300), 2), reduction, np.dtype(np.float32))


@pytest.mark.parametrize("n", [2, 40])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_means_of_halves_of_wide_exponents(dtype, n):
    """Sums that no float64 holds: the smaller elements decide on which side of a tie the mean lies."""
    rng, reach = np.random.default_rng(0), 100 if dtype == BFLOAT16 else 12
    x = (rng.standard_normal((400, n)) * 2.0 ** -rng.integers(0, reach, (400, n))).astype(dtype)
    one = float(ml_dtypes.finfo(dtype).eps)
    x[:200] = 0
    x[:200, 0], x[:200, 1] = n, n * one * rng.choice([0.5, 1.5], 200)  # means beside 1, halfway
    x[:200, -1] = x[:200, -1] if n == 2 else rng.choice([-1, 1], 200) * 2.0 ** -rng.integers(15, reach + 12, 200)
    check(x.astype(dtype), "mean", dtype, n)


@pytest.mark.every_dtype
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_levels_of_pyramids_are_rounded_once(dtype):
    for x in (beside_ties(dtype, 256).reshape(16, 16), beside_ties(dtype, 256).astype(dtype).reshape(16, 16)):
        levels = nb.pyramid(x, levels=2, dtype=dtype)  # the second is made of the sums of the first
        for level, factor in zip(levels[1:], (2, 4), strict=True):
            np.testing.assert_array_equal(level.astype(float), reference.coarsen(
                x, {0: factor, 1: factor}, dtype=dtype).astype(float))


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_averages_that_are_carried_in_float64(dtype, order):
    """Long sums, halfway between two halves but for an element that is too small for a float32 of the sum."""
    eps = float(ml_dtypes.finfo(dtype).eps)
    x = np.zeros((1, 18, 12, 12))
    x[:, :, 0, 0], x[:, :, 1, 2] = 64, 64 * eps * np.where(np.arange(18) % 2, 0.5, 1.5)
    x[:, :, 11, 11] = 2.0**-23 * (np.arange(18) % 3 - 1)
    given, wider = (laid_out(a.astype(dtype), order, 2) for a in (x, np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)))))
    want = [[reference.nearest(v, dtype) for v in row] for row in x.sum((2, 3))]
    whole, some = nb.avg_pool2d(given, 12, divisor_override=1), nb.sum_pool2d(wider, 12, 1)
    spread = nb.sum_pool2d_backward(given, (1, 18, 23, 23), 12, 1)  # in the middle of which all gradients meet
    for y, at in ((whole, 0), (some, 0), (spread, 11)):
        np.testing.assert_array_equal(y[:, :, at, at].astype(float), want)


@pytest.mark.parametrize("kind", ["float64", "int64", "uint64", "int32"])
def test_numbers_as_float32_that_may_be_rounded_once_more(kind):
    """Of every size, those that overflow, vanish or are halfway among them; and what is no finite number."""
    if kind == "float64":
        ties = beside_ties(BFLOAT16, 200)
        x = np.concatenate((ties, -ties, ties * 2.0**120, ties * 2.0**-142, ties * 2.0**200, ties * 2.0**-300, [0.0]))
    else:
        info, ties = np.iinfo(kind), integers_beside_ties(BFLOAT16, 200)
        x = np.concatenate((ties, ties // 3, ties // 2**20, np.arange(100))) // (2**32 if kind == "int32" else 1)
        x = np.append(x.astype(kind) if info.min == 0 else np.append(x, -x).astype(kind), [info.min, info.max])
    want = [reference.nearest(v, BFLOAT16) for v in x.tolist()]
    got = _arrays.cast(x, BFLOAT16).astype(float)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), x < 0)


def test_what_is_no_finite_number_stays_so():
    x = np.array([np.inf, -np.inf, np.nan])
    for dtype in HALVES:
        np.testing.assert_array_equal(_arrays.cast(x, dtype).astype(float), x)
        for reduction in ("mean", "sum", "max", "median"):
            y = nb.coarsen(np.repeat(x, 2), 2, reduction, dtype=dtype)
            np.testing.assert_array_equal(y.astype(float), x)


# Warnings are errors in these tests.


@pytest.mark.parametrize("reduction", ["mean", "var", "max", "first"])
def test_results_that_overflow_are_infinite_without_a_warning(reduction):
    x = np.array([1e300, -1e300 if reduction == "var" else 1e300])
    for dtype in (np.dtype(np.float16), BFLOAT16):
        assert np.isinf(nb.coarsen(x, 2, reduction, dtype=dtype).astype(float)).all()
        out = np.empty(1, dtype)
        assert nb.coarsen(x, 2, reduction, dtype=dtype, out=out) is out
        assert np.isinf(out.astype(float)).all()
    assert np.isinf(nb.pyramid(x, levels=1, reduction=reduction, dtype=np.float16)[1]).all()


def test_halves_whose_variances_norms_or_gradients_overflow():
    x = np.full((1, 1, 4, 4), 6e4, np.float16)
    x[..., ::2] *= -1
    assert np.isinf(nb.coarsen(x, {3: 2, 2: 2}, "var")).all()
    assert np.isinf(nb.lp_pool2d(x, 2, 2)).all()
    grad = np.abs(x)[..., :2, :2]
    assert np.isinf(nb.avg_pool2d_backward(grad, (1, 1, 4, 4), 2, 1, dilation=2, divisor_override=0.5)).any()


def test_numbers_that_an_integer_dtype_does_not_hold_wrap_without_a_warning():
    x = np.array([300.0, 300.0, np.nan, np.nan])
    for reduction in ("max", "first"):
        assert nb.coarsen(x, 2, reduction, dtype=np.int16)[0] == 300
        assert nb.coarsen(x, 2, reduction, dtype=np.int16).shape == (2,)
