"""Segments: the rows of ragged batches."""

import itertools
import math

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, assert_same_maxima, needs_two_threads, unmodified
from hypothesis import given
from hypothesis import strategies as st
from strategies import FLOATS, HALVES, INTEGERS, KINDS, ORDERS, elements, laid_out

import numba_pool as nb

OFFSETS = np.array([1, 4, 4, 4, 5, 38, 40])  # of 41 rows: the first and the last are in no segment, and two are empty


def windows(offsets):
    """The table of the reference: segments as windows along a signal of rows."""
    return [[(list(range(a, b)), b - a) for a, b in itertools.pairwise(offsets)]]


def in_columns(function, x, *arguments, **named):
    """What a function of the reference makes of planes, with the rows first: each column is a plane of one axis."""
    columns = np.ascontiguousarray(x.reshape(len(x), math.prod(x.shape[1:])).T)
    results = function(columns, *arguments, **named)
    several = isinstance(results, tuple)
    rows = [np.ascontiguousarray(y.T).reshape(y.shape[1], *x.shape[1:]) for y in (results if several else (results,))]
    return tuple(rows) if several else rows[0]


def mirrored(x):
    return ~x if x.dtype.kind in "iu" else -x


def scattered(grad, indices, shape):
    """The gradient of a maximum, element by element."""
    result = np.zeros(shape, np.float64)
    for place in np.ndindex(*grad.shape):
        if indices[place] >= 0:
            result[(indices[place], *place[1:])] += grad[place]
    return result.astype(grad.dtype)


def check(x, offsets, out=False):
    """All functions against plain loops. `x` may have any memory order."""
    native = np.ascontiguousarray(x.astype(x.dtype.newbyteorder("=")))
    taps = windows(offsets)

    def called(function, *arguments, like=(), **named):
        with unmodified(x, *[a for a in arguments if isinstance(a, np.ndarray)]):
            if not out:
                return function(*arguments, **named)
            given = tuple(np.full_like(a, 7) for a in like)
            result = function(*arguments, **named, out=given if len(given) == 2 else given[0])
            assert all(a is b for a, b in zip(result if len(given) == 2 else (result,), given, strict=True))
            return result

    extremes = [(nb.segment_max_pool, nb.segment_max_pool_backward, in_columns(reference.max_windows, native, taps)),
                (nb.segment_min_pool, nb.segment_min_pool_backward,
                 in_columns(reference.max_windows, mirrored(native), taps))]
    for function, backward, (y, indices) in extremes:
        if function is nb.segment_min_pool:
            y = mirrored(y)
        actual, places = called(function, x, offsets, like=(y, indices), return_indices=True)
        assert_identical(places, indices)
        assert_identical(actual, y)
        assert_same_maxima(called(function, x, offsets, like=(y,)), y)
        if native.dtype.kind in "iu":
            continue
        grad = elements(y.shape, native.dtype, "normal", 1)
        expected = scattered(grad, indices, x.shape)
        assert_identical(called(backward, grad, places, x.shape, like=(expected,)), expected)
        assert_identical(called(backward, grad, places.astype(np.int64), x.shape, like=(expected,)), expected)
    if native.dtype.kind in "iu":
        small = (native % 100).astype(native.dtype)
        assert_identical(nb.segment_avg_pool(small, offsets), in_columns(reference.avg_windows, small, taps))
        with np.errstate(over="ignore"):
            sums = [native[a:b].sum(axis=0, dtype=native.dtype) for a, b in itertools.pairwise(offsets)]
        assert_identical(called(nb.segment_sum_pool, x, offsets, like=(np.array(sums),)), np.array(sums))
        return
    magnitude = np.where(np.isfinite(native.astype(np.float64)), np.abs(native), 0).astype(native.dtype)
    for function, backward, divisor in ((nb.segment_avg_pool, nb.segment_avg_pool_backward, None),
                                        (nb.segment_sum_pool, nb.segment_sum_pool_backward, 1)):
        y, size = (in_columns(reference.avg_windows, a, taps, divisor_override=divisor) for a in (native, magnitude))
        assert_rounded(called(function, x, offsets, like=(y,)), y, size)
        grad = elements(y.shape, native.dtype, "normal", 2)
        expected = np.zeros(x.shape, np.float64)
        for s, (a, b) in enumerate(itertools.pairwise(offsets)):
            expected[a:b] = grad[s].astype(np.float64) / (divisor or max(b - a, 1))
        expected = expected.astype(np.float32).astype(native.dtype) if native.dtype.itemsize == 2 else (
            expected.astype(native.dtype))
        assert_rounded(called(backward, grad, offsets, x.shape, like=(expected,)), expected, expected, units=1)


@st.composite
def segments(draw):
    """(rows, offsets), with empty segments, and rows before and behind all of them."""
    lengths = draw(st.lists(st.sampled_from((0, 0, 1, 2, 3, 7, 8, 9, 17, 40)), max_size=6))
    first, behind = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    return first + sum(lengths) + behind, first + np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


@given(st.data())
def test_against_plain_loops(data):
    rows, offsets = data.draw(segments())
    channels = data.draw(st.sampled_from(((), (1,), (2,), (3, 5), (16,), (17,), (5, 4, 4), (70,), (0,))))
    kind, order = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(ORDERS))
    x = elements((rows, *channels), "float32", kind, data.draw(st.integers(0, 999)))
    order = "F" if order == "channels_last" else order
    check(laid_out(x, order, min(1, x.ndim)), offsets, data.draw(st.booleans()))


@pytest.mark.parametrize("dtype", [d for d in (*FLOATS, *INTEGERS[::3]) if d != np.float32], ids=str)
def test_other_dtypes(dtype):
    for channels in ((), (3,), (37,)):
        for kind in ("normal", "specials", "nan") if dtype.kind not in "iu" else ("normal", "ties"):
            check(elements((41, *channels), dtype, kind, 0), OFFSETS)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64, ">i4", list])
def test_offsets_of_any_integers(dtype):
    x = np.arange(82.0, dtype=np.float32).reshape(41, 2)
    offsets = OFFSETS.tolist() if dtype is list else OFFSETS.astype(dtype)
    assert_identical(nb.segment_sum_pool(x, offsets), nb.segment_sum_pool(x, OFFSETS))
    reversed_twice = OFFSETS[::-1].copy()[::-1]
    reversed_twice.flags.writeable = False
    assert_identical(nb.segment_sum_pool(x, reversed_twice), nb.segment_sum_pool(x, OFFSETS))


@pytest.mark.parametrize(("rows", "count", "channels"), [(4000, 30, 1), (3000, 3, 200), (70, 2, 5000), (900, 11, 128)])
def test_long_segments_and_wide_rows(rows, count, channels):
    """Segments of one channel that are stretches of memory, rows whose channels are shared among threads, and rows that
    are not walked as a whole.
    """
    rng = np.random.default_rng(0)
    offsets = np.sort(rng.integers(0, rows, count + 1))
    offsets[0], offsets[-1] = 1, rows - 1
    offsets[1] = offsets[2]
    x = elements((rows, channels), "float32", "normal", 1)
    x[rng.random(x.shape) < 1 / rows] = np.nan
    x[rng.random(x.shape) < 1 / rows] = np.inf
    y, indices = nb.segment_max_pool(x, offsets, return_indices=True)
    assert_identical(nb.segment_max_pool(x, offsets), y)
    low, low_indices = nb.segment_min_pool(x, offsets, return_indices=True)
    mean = nb.segment_avg_pool(x, offsets)
    for s, (a, b) in enumerate(itertools.pairwise(offsets)):
        if a == b:
            assert (indices[s] == -1).all()
            assert (mean[s] == 0).all()
            continue
        nan = np.isnan(x[a:b])
        last = b - 1 - nan[::-1].argmax(axis=0)
        for result, places, first in ((y, indices, x[a:b].argmax(axis=0)), (low, low_indices, x[a:b].argmin(axis=0))):
            np.testing.assert_array_equal(places[s], np.where(nan.any(axis=0), last, a + first))
            np.testing.assert_array_equal(result[s], x[places[s], np.arange(channels)])
        exact = x[a:b].astype(np.float64).mean(axis=0)
        np.testing.assert_allclose(mean[s], exact, rtol=1e-6, atol=1e-6)
    grad = elements(y.shape, "float32", "normal", 2)
    expected = np.zeros_like(x)
    np.add.at(expected, (indices[indices >= 0], np.broadcast_to(np.arange(channels), y.shape)[indices >= 0]),
              grad[indices >= 0])
    assert_identical(nb.segment_max_pool_backward(grad, indices, x.shape), expected)


@pytest.mark.parametrize("channels", [(), (3,), (20,)])
def test_sums_of_a_million_rows(channels):
    x = np.full((1_000_003, *channels), 0.1, np.float32)
    x[::2] += 1000 * (np.arange(len(x[::2])) % 2 * 2 - 1).reshape(-1, *(1,) * len(channels)).astype(np.float32)
    offsets = [1, len(x) - 1, len(x)]
    exact, magnitude = (a[1:-1].astype(np.float64).sum(axis=0) for a in (x, np.abs(x)))
    assert (np.abs(nb.segment_sum_pool(x, offsets)[0] - exact) <= 1e-6 * magnitude).all()
    assert (np.abs(nb.segment_avg_pool(x, offsets)[0] * (len(x) - 2) - exact) <= 1e-6 * magnitude).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_large_gradients_go_where_any_indices_lead(threads):
    """Large results are cleared piece by piece, as far as indices lead."""
    rng = np.random.default_rng(0)
    shape, count = (20_000, 64), 3_000
    ordered = np.sort(rng.integers(0, shape[0], count))[:, None] + rng.integers(-1, 2, (count, 64))
    for indices in (ordered.clip(-1, shape[0] - 1), rng.integers(-1, shape[0], (count, 64))):
        grad = rng.standard_normal((count, 64)).astype(np.float32)
        expected = np.zeros(shape, np.float32)
        there = indices >= 0
        np.add.at(expected, (indices[there], np.broadcast_to(np.arange(64), indices.shape)[there]), grad[there])
        with nb.threads(threads):
            assert_identical(nb.segment_max_pool_backward(grad, indices, shape), expected)
            indices[7, 7] = shape[0]
            with pytest.raises(ValueError, match="1 outside, among them 20000"):
                nb.segment_max_pool_backward(grad, indices, shape)


@needs_two_threads
@pytest.mark.parametrize(("rows", "count", "channels"), [(30_000, 999, 20), (700, 2, 400), (200_000, 50, 1)])
def test_threads_change_no_bit(rows, count, channels):
    rng = np.random.default_rng(0)
    offsets = np.sort(rng.integers(0, rows + 1, count + 1))
    x = elements((rows, channels), "float32", "specials", 0)

    def step():
        y, indices = nb.segment_max_pool(x, offsets, return_indices=True)
        mean = nb.segment_avg_pool(x, offsets)
        return (y, indices, mean, nb.segment_max_pool_backward(y, indices, x.shape),
                nb.segment_avg_pool_backward(mean, offsets, x.shape))

    with nb.threads(1):
        alone = step()
    assert nb.explain(nb.segment_avg_pool, x, offsets).units > 1
    for one, other in zip(step(), alone, strict=True):
        assert_identical(one, other)


def test_parts_have_every_segment_once():
    """However segments are divided among threads: many empty ones at one place, and one that is longer than all others.
    """
    from numba_pool.functional.segments import kernels

    x = np.arange(5000.0, dtype=np.float32)[:, None] * np.ones(2, np.float32)
    offsets = np.concatenate((np.zeros(300, np.int64), [1, 2, 3, 4990], np.full(50, 4990), [4995, 5000]))
    call = kernels.plan("sum", x.shape, offsets, x.dtype)
    expected = np.add.reduceat(np.vstack((x, [[0, 0]])), np.minimum(offsets[:-1], 4999)).astype(np.float32)
    expected[np.diff(offsets) == 0] = 0
    y, written = np.zeros(call.shape, np.float32), np.zeros(len(expected), int)
    for unit in range(call.units):
        part = np.full_like(y, np.nan)
        call.worker(unit, unit + 1, (x.ravel(), part.ravel(), *call.rest))
        there = ~np.isnan(part[:, 0])
        written[there] += 1
        y[there] = part[there]
    assert (written == 1).all()
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_by_hand():
    x = np.array([[1.0, 8.0], [5.0, np.nan], [5.0, 2.0], [7.0, np.nan], [0.0, 4.0]])
    y, indices = nb.segment_max_pool(x, [0, 3, 3, 4], return_indices=True)
    np.testing.assert_array_equal(y, [[5, np.nan], [-np.inf, -np.inf], [7, np.nan]])
    np.testing.assert_array_equal(indices, [[1, 1], [-1, -1], [3, 3]])
    assert indices.dtype == np.int32
    np.testing.assert_array_equal(nb.segment_sum_pool(x[:, 0], [0, 3, 3, 4]), [11, 0, 7])
    np.testing.assert_array_equal(nb.segment_avg_pool_backward([6.0, 9.0, 2.0], [1, 3, 3, 4], (5,)), [0, 3, 3, 2, 0])
    assert nb.segment_avg_pool(np.array([-3, -2, 5]), [0, 2, 3]).tolist() == [-2, 5]


def test_nothing_to_pool():
    none = np.zeros((0, 3), np.float32)
    assert nb.segment_max_pool(none, [0, 0, 0]).tolist() == [[-np.inf] * 3] * 2
    assert nb.segment_min_pool(none.astype(np.uint8), [0, 0]).tolist() == [[255] * 3]
    assert nb.segment_sum_pool(none, [0]).shape == (0, 3)
    assert nb.segment_avg_pool(np.ones((4, 0)), [0, 1, 4]).shape == (2, 0)
    assert nb.segment_avg_pool_backward(np.ones((0, 3)), [2], (5, 3)).tolist() == [[0] * 3] * 5
    assert nb.segment_max_pool_backward(np.ones((0, 3)), np.ones((0, 3), np.int32), (5, 3)).tolist() == [[0] * 3] * 5
    assert nb.segment_max_pool_backward(np.ones((1, 3)), np.full((1, 3), -1), (0, 3)).shape == (0, 3)


X, Y = np.ones((6, 2), np.float32), np.ones((2, 2), np.float32)
WRONG = [
    (nb.segment_max_pool, (X, [0, 7]), ValueError, r"offsets must lie in \[0, 6\].*\(6, 2\), got 0 to 7"),
    (nb.segment_max_pool, (X, [-1, 3]), ValueError, "got -1 to 3"),
    (nb.segment_max_pool, (X, [0, 4, 3, 6]), ValueError, "never fall, got 4 and then 3 at 2"),
    (nb.segment_max_pool, (X, []), ValueError, "one entry more"),
    (nb.segment_max_pool, (X, [[0, 3]]), ValueError, r"one axis, got shape \(1, 2\)"),
    (nb.segment_max_pool, (X, [0.0, 3.0]), TypeError, "integers, got float64"),
    (nb.segment_max_pool, (X, [False, True]), TypeError, "integers, got bool"),
    (nb.segment_max_pool, (X, None), TypeError, "integers, got NoneType"),
    (nb.segment_max_pool, (np.float32(3), [0]), ValueError, r"one axis or more.*got shape \(\)"),
    (nb.segment_max_pool, (X.astype(complex), [0]), TypeError, "x must be float32"),
    (nb.segment_max_pool, (X, [0, 6], 1), TypeError, "return_indices must be a bool"),
    (nb.segment_sum_pool, (X, np.array([0, 2**64 - 1], np.uint64)), ValueError, "offsets must lie"),
    (nb.segment_max_pool_backward, (Y, np.array([[0, 1], [2, 6]]), (6, 2)), ValueError, r"in \[0, 6\).*1 outside"),
    (nb.segment_max_pool_backward, (Y, np.array([[0, 1], [2, -2]]), (6, 2)), ValueError, "among them -2"),
    (nb.segment_max_pool_backward, (Y, np.zeros((2, 3), np.int32), (6, 2)), ValueError, "same shape"),
    (nb.segment_max_pool_backward, (Y, np.zeros((2, 2)), (6, 2)), TypeError, "int32 or int64"),
    (nb.segment_max_pool_backward, (Y, np.zeros((2, 2), np.int32), (6, 3)), ValueError, "in all axes but the first"),
    (nb.segment_avg_pool_backward, (Y, [0, 1, 2], (6,)), ValueError, "in all axes but the first"),
    (nb.segment_avg_pool_backward, (Y, [0, 1, 2, 3], (6, 2)), ValueError, r"must have shape \(3, 2\)"),
    (nb.segment_avg_pool_backward, (Y.astype(int), [0, 1, 2], (6, 2)), TypeError, "grad_output must be float32"),
]


@pytest.mark.parametrize(("function", "arguments", "error", "message"), WRONG)
def test_what_is_wrong_is_said(function, arguments, error, message):
    with pytest.raises(error, match=message):
        function(*arguments)


@pytest.mark.parametrize("function", [nb.segment_max_pool, nb.segment_avg_pool])
def test_a_wrong_out_is_left_alone(function):
    wrong = (np.ones((1, 2), np.float64), TypeError), (np.ones((2, 2), np.float32), ValueError), ([], TypeError)
    for out, error in wrong:
        with pytest.raises(error, match="out must"):
            function(X, [0, 6], out=out)
    with pytest.raises(ValueError, match="nan_policy must be"):
        function(X, [0, 6], nan_policy="drop")


def test_out_may_be_the_input():
    x = np.arange(12.0, dtype=np.float32).reshape(6, 2)
    expected = nb.segment_sum_pool(x, [0, 1, 2, 3, 4, 5, 6])
    assert_identical(nb.segment_sum_pool(x, [0, 1, 2, 3, 4, 5, 6], out=x), expected)


@pytest.mark.parametrize("kind", ["Max", "Min", "Avg", "Sum"])
def test_layers(kind):
    layer, pool = getattr(nb, f"Segment{kind}Pool")(), getattr(nb, f"segment_{kind.lower()}_pool")
    backward = getattr(nb, f"segment_{kind.lower()}_pool_backward")
    x, offsets = elements((41, 3), "float32", "normal", 0), OFFSETS.copy()
    y = layer(x, offsets)
    assert_identical(y, pool(x, OFFSETS))
    offsets[:] = 0  # as whoever fills the next batch into the same array
    grad = elements(y.shape, "float32", "normal", 1)
    how = pool(x, OFFSETS, return_indices=True)[1] if kind in ("Max", "Min") else OFFSETS
    assert_identical(layer.backward(grad), backward(grad, how, x.shape))
    with pytest.raises(RuntimeError, match="used up"):
        layer.backward(grad)
    assert_identical(layer.forward(x[:5, 0], [0, 2, 5]), pool(x[:5, 0], [0, 2, 5]))
    assert layer.backward(np.ones(2, np.float32)).shape == (5,)
    assert_identical(layer.eval()(x, OFFSETS), y)
    with pytest.raises(RuntimeError, match="training mode"):
        layer.backward(grad)
    assert repr(layer) == f"Segment{kind}Pool()"
    assert layer.parameters() == []


def test_layers_return_indices():
    layer = nb.SegmentMinPool(return_indices=True)
    x = elements((41, 3), "float32", "normal", 0)
    for one, other in zip(layer(x, OFFSETS), nb.segment_min_pool(x, OFFSETS, True), strict=True):
        assert_identical(one, other)
    assert repr(layer) == "SegmentMinPool(return_indices=True)"


def test_offsets_by_lengths_and_ids():
    for lengths in ([2, 0, 3], (2, 0, 3), np.array([2, 0, 3], np.uint8)):
        assert_identical(nb.segment_offsets(lengths=lengths), np.array([0, 2, 2, 5]))
    assert_identical(nb.segment_offsets(lengths=[]), np.array([0]))
    assert_identical(nb.segment_offsets(lengths=np.full(3, 200, np.uint8), count=3), np.array([0, 200, 400, 600]))
    assert_identical(nb.segment_offsets(ids=[0, 0, 2, 2, 2]), np.array([0, 2, 2, 5]))
    assert_identical(nb.segment_offsets(ids=np.array([1, 1], np.uint64), count=4), np.array([0, 0, 2, 2, 2]))
    assert_identical(nb.segment_offsets(ids=[], count=2), np.array([0, 0, 0]))
    assert_identical(nb.segment_offsets(ids=[]), np.array([0]))


@pytest.mark.parametrize(("given", "error", "message"), [
    ({}, TypeError, "neither"), ({"ids": [0], "lengths": [1]}, TypeError, "both"),
    ({"ids": [1, 0]}, ValueError, r"sorted.*np\.argsort\(ids, kind='stable'\)"),
    ({"ids": [0, 3], "count": 3}, ValueError, "less than count, 3, got 3"),
    ({"ids": [-1, 0]}, ValueError, "negative, got -1"), ({"lengths": [2, -1]}, ValueError, "negative, got -1"),
    ({"lengths": [1.0]}, TypeError, "integers, got float64"), ({"lengths": 3}, ValueError, "one axis"),
    ({"lengths": [1], "count": 2}, ValueError, "number of lengths, 1, got 2"),
    ({"ids": [0], "count": -1}, ValueError, "count must be at least 0"),
    ({"ids": [0], "count": 1.0}, TypeError, "count must be an int"),
])  # fmt: skip
def test_wrong_lengths_and_ids(given, error, message):
    with pytest.raises(error, match=message):
        nb.segment_offsets(**given)


def test_output_shape_and_explain():
    assert nb.output_shape(nb.segment_max_pool, (6, 2, 3), [0, 2, 6], return_indices=True) == (2, 2, 3)
    with pytest.raises(ValueError, match="offsets must lie"):
        nb.output_shape(nb.segment_sum_pool, (6,), [0, 7])
    long = np.zeros(4000, np.float32)
    for x, offsets, kernels in ((X, [0, 6], ("segment_rows", "segment_rows")),
                                (long, [0, 2000, 4000], ("window_runs", "average_runs"))):
        found = [nb.explain(pool, x, offsets) for pool in (nb.segment_min_pool, nb.segment_avg_pool)]
        assert tuple(one.kernel for one in found) == kernels
        assert f"{len(x)} rows" in found[0].reads
        assert str(found[1])
    assert nb.explain(nb.segment_avg_pool_backward, Y, [0, 1, 2], (6, 2)).kernel == "spread_segments"
    assert nb.explain(nb.segment_max_pool_backward, Y, np.zeros((2, 2), int), (6, 2)).kernel == "scatter"
    assert "copied first" in nb.explain(nb.segment_avg_pool, X[::2], [0, 3]).reads


def test_halves_are_rounded_once():
    for dtype in HALVES:
        x = elements((41, 5), dtype, "normal", 0)
        exact = nb.segment_sum_pool(x.astype(np.float64), OFFSETS)
        assert_rounded(nb.segment_sum_pool(x, OFFSETS), exact.astype(np.float32).astype(dtype), np.abs(exact), units=1)
