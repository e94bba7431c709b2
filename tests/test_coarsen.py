"""`coarsen`: blocks of any axes of any array, against plain definitions in exact arithmetic."""

import blocks_reference as reference
import numba
import numpy as np
import pytest
import selection
from hypothesis import given, settings
from hypothesis import strategies as st

import numba_pool as nb

LAYOUTS = ("C", "C", "F", "transposed", "reversed", "strided", "big-endian", "read-only", "repeated")
FACTORS = (None, 1, 2, 2, 5, 40) if selection.exhaustive else (None, 1, 2, 2, 40)
LARGEST = {1: 300, 2: 45, 3: 12, 4: 7}  # length of axes, by their number

# One parameter, so that the default run takes every case: a reduction, dtypes, and how elements may be missing.
CASES = {
    "mean of bytes": ("mean", "uint8", {}),
    "mean of signed bytes, away from zero": ("mean", "int8", {"rounding": "nearest"}),
    "mean of int32, toward zero": ("mean", "int32", {"rounding": "truncate"}),
    "mean of uint64": ("mean", "uint64", {}),
    "mean of int64 where there is no nodata": ("mean", "int64", {"missing": 1}),
    "mean of uint16 as float": ("mean", "uint16", {"dtype": "float32"}),
    "mean of uint16 under a mask": ("mean", "uint16", {"where": True}),
    "mean of float32": ("mean", "float32", {}),
    "mean of float64": ("mean", "float64", {}),
    "mean of halves": ("mean", "float16", {}),
    "mean without NaN": ("nanmean", "float32", {"min_count": 2}),
    "weighted mean": ("mean", "float32", {"weights": True, "where": True}),
    "sum of bytes": ("sum", "uint8", {}),
    "sum of int64 wraps": ("sum", "int64", {}),
    "sum of float64 under a mask, without NaN": ("nansum", "float64", {"where": True}),
    "maximum of float32": ("max", "float32", {}),
    "maximum of bytes without nodata": ("max", "uint8", {"missing": 3}),
    "minimum of int16": ("min", "int16", {}),
    "minimum of float64 without NaN": ("nanmin", "float64", {}),
    "median of bytes": ("median", "uint8", {}),
    "median of float32": ("median", "float32", {}),
    "upper median of int64 under a mask": ("median", "int64", {"median": "upper", "where": True}),
    "median without NaN": ("nanmedian", "float64", {}),
    "mode of labels": ("mode", "uint64", {}),
    "lowest mode of bytes that is no background": ("mode", "uint8", {"ties": "lowest", "ignore": 0}),
    "mode of floats": ("mode", "float32", {}),
    "mode of floats without NaN, under a mask": ("nanmode", "float32", {"where": True}),
    "first of uint16": ("first", "uint16", {}),
    "first of floats under a mask": ("nanfirst", "float32", {"where": True}),
    "count without NaN": ("nancount", "float32", {}),
    "any of bools": ("any", "bool", {}),
    "all of floats under a mask": ("all", "float64", {"where": True}),
    "deviation of bytes": ("std", "uint8", {}),
    "variance of float64 without NaN": ("nanvar", "float64", {}),
}


def laid_out(x, layout, rng):
    """The same elements, or others of the same kind, in another order of memory."""
    if layout == "F":
        return np.asfortranarray(x)
    if layout == "transposed":
        return x.transpose(rng.permutation(x.ndim))
    if layout == "reversed":
        return np.flip(x, rng.integers(x.ndim))
    if layout == "strided":
        wide = np.zeros([2 * n for n in x.shape], x.dtype)[tuple(slice(None, None, 2) for _ in x.shape)]
        wide[...] = x
        return wide
    if layout == "big-endian":
        return x.astype(x.dtype.newbyteorder(">"))
    if layout == "read-only":
        x.flags.writeable = False
    if layout == "repeated":
        return np.broadcast_to(x, (3, *x.shape))
    return x


def elements(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.6
    few = rng.integers(-2 if dtype.kind != "u" else 0, 4, shape)
    if rng.random() < 0.5:
        return few.astype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = np.where(rng.random(shape) < 0.5, info.max, info.min) if rng.random() < 0.5 else 0
        return (few.astype(dtype) + np.asarray(near).astype(dtype)).astype(dtype)
    x = rng.standard_normal(shape).astype(dtype)
    x[rng.random(shape) < 0.2] = np.nan
    if rng.random() < 0.3:
        x[rng.random(shape) < 0.2] = rng.choice([np.inf, -np.inf])
    return x


# Shapes of blocks and orders of memory concern the loops, which all reductions share. These cases have all operands,
# need all elements of a block at once, or compile nothing.
ANY_SHAPES = ("weighted mean", "median of float32", "mode of floats without NaN, under a mask", "first of uint16")
# Reductions that accumulate go through the same functions in blocks of few elements and of many. The walk of few is
# compiled in half the time. Both are walked where integers are divided by a constant, or where the state of a block is
# first that of one element (of one operand, of all, of a NaN), and for what keeps all elements. Blocks of many alone
# where so many add up to what few do not; of few where what differs is how elements are read and results written.
BOTH = ("mean of bytes", "mean of int32, toward zero", "mean of float32", "weighted mean",
        "sum of float64 under a mask, without NaN", "maximum of float32", "any of bools",
        *(case for case, (reduction, *_) in CASES.items() if "median" in reduction or "mode" in reduction))
MANY_ONLY = ("mean of uint64", "mean of int64 where there is no nodata", "mean of float64", "sum of bytes",
             "deviation of bytes", "count without NaN")


def sizes_of(case):
    """Whether a case has blocks of few elements, of many, or of both."""
    if selection.exhaustive or case in BOTH:
        return (True, False)
    return (case not in MANY_ONLY,)


@st.composite
def blocks_of_two_shapes(draw, few_or_many):
    """The same as `blocks`, of few elements, or of many. A walk is compiled for every shape."""
    lines, few = draw(st.integers(1, 3)), draw(st.sampled_from(few_or_many))
    rows, columns = (2, 2) if few else (40, 4)
    side = draw(st.sampled_from(("left", "right")))
    # Never one block to a row, which would be seen as longer runs of memory: that is another walk.
    axes = [(lines * rows + (0 if few else draw(st.sampled_from((0, 7)))), rows, "short", side),
            (draw(st.integers(2 * columns, LARGEST[2])), columns, "trim", side)]
    return draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from(("C", "reversed", "big-endian", "read-only"))), axes


@st.composite
def blocks(draw):
    """A seed, a layout, and for each axis its length, its factor or None, boundary and side. The default run has few
    factors: a walk is compiled for every number of lines, and of elements in them.
    """
    ndim = draw(st.integers(1, 4))
    axes = draw(st.lists(st.tuples(st.integers(1, LARGEST[ndim]), st.sampled_from(FACTORS),
                                   st.sampled_from(("short", "short", "trim")), st.sampled_from(("left", "right"))),
                         min_size=ndim, max_size=ndim))
    return draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from(LAYOUTS)), axes


def ulps(a, b):
    """How many units in the last place two floats are apart."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
        unit = np.maximum(np.spacing(np.abs(b)), np.finfo(b.dtype).tiny).astype(np.float64)
        return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, apart / unit)


def agree(got, want, name, weighted=False):
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
    elif name in ("std", "var") or weighted:  # what cancels out has lost digits
        np.testing.assert_allclose(got, want, rtol=1e-5 if got.dtype == np.float32 else 1e-11, atol=1e-7)
    else:
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        assert not (ulps(got, want) > 1).any()


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=10)
@given(st.data())
def test_definition(case, data):
    check(case, data.draw(blocks_of_two_shapes(sizes_of(case))))


@pytest.mark.parametrize("case", CASES if selection.exhaustive else ANY_SHAPES)
@settings(max_examples=12)
@given(drawn=blocks())
def test_blocks_of_any_shape(case, drawn):
    check(case, drawn)


def check(case, drawn):
    reduction, dtype, options = CASES[case]
    seed, layout, axes = drawn
    rng = np.random.default_rng(seed)
    x = laid_out(elements(rng, [n for n, *_ in axes], dtype), layout, rng)
    options = dict(options)
    if "where" in options:
        options["where"] = rng.random(x.shape[rng.integers(x.ndim):]) < 0.7
    if "weights" in options:
        options["weights"] = rng.integers(-1, 4, x.shape[rng.integers(x.ndim):]).astype(np.float64)
    windows, boundary, side = {}, {}, {}
    for axis, (_, factor, at_end, begin) in enumerate(axes):
        if factor is not None:
            axis = axis - x.ndim if rng.random() < 0.5 else axis + x.ndim - len(axes)
            at = axis % x.ndim
            windows[at], side[at] = factor, begin
            boundary[at] = "short" if factor > x.shape[at] else at_end
    with np.errstate(all="ignore"):
        want = reference.coarsen(x.astype(x.dtype.newbyteorder("=")), windows, reduction, boundary=boundary, side=side,
                                 **options)
    before = x.copy()
    got = nb.coarsen(x, windows, reduction, boundary=boundary, side=side, **options)
    agree(got, want, reduction.removeprefix("nan"), "weights" in options)
    np.testing.assert_array_equal(x, before)


def test_large_blocks():
    """Of more elements than a table or a line of states holds, along one axis and along several."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 200, (3, 7000)).astype(np.uint8)
    x[:, ::10] = 0  # the most frequent value, which the mode below ignores
    y = x.reshape(3, 2, 3500)
    for name in ("mean", "median"):
        want = np.rint(getattr(np, name)(y, 2))
        np.testing.assert_array_equal(nb.coarsen(x, {1: 3500}, name), want)
    counts = np.apply_along_axis(np.bincount, 2, y, minlength=200)
    np.testing.assert_array_equal(nb.coarsen(x, {1: 3500}, "mode", ties="lowest", ignore=0),
                                  counts[..., 1:].argmax(2) + 1)
    np.testing.assert_array_equal(nb.coarsen(x, 7000, "max", boundary="short"), [[x.max()]])
    signal = rng.standard_normal(10_007)
    np.testing.assert_allclose(nb.coarsen(signal, 10_007), [signal.mean()], rtol=1e-13)
    image = rng.standard_normal((90, 70, 3))
    np.testing.assert_allclose(nb.coarsen(image, {0: 30, 1: 35}, "var"),
                               image.reshape(3, 30, 2, 35, 3).var((1, 3)), rtol=1e-12)


@pytest.mark.parametrize("more", [0, 90])
def test_mode_of_large_blocks_of_floats(more):
    """Zeros of both signs are one value, and NaN are, also where more values are there than a table has room for."""
    nans = np.frombuffer(np.uint32([0x7FC00000, 0x7FC00001]), np.float32)
    blocks = [[7.0] * 40 + [a, b] * 30 + list(range(100, 100 + more)) for a, b in ((0.0, -0.0), nans)]
    x = np.random.default_rng(0).permuted(np.array(blocks, np.float32), axis=1)
    np.testing.assert_array_equal(nb.coarsen(x, {1: 100 + more}, "mode"), [[0.0], [np.nan]])
    everywhere = np.ones(x.shape, bool)
    np.testing.assert_array_equal(nb.coarsen(x, {1: 100 + more}, "nanmode", where=everywhere), [[0.0], [7.0]])


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_means_near_the_limits_are_exact(dtype):
    info = np.iinfo(dtype)
    x = np.array([info.max, info.max, info.max - 1, info.min, info.min, info.min + 1, info.max, 7], dtype)
    for size, times in ((2, 1), (8, 1), (2, 25), (4, 25)):  # in registers; in blocks that no register holds
        exact = [sum(map(int, x[i : i + size])) for i in range(0, 8, size)]
        want = [round(reference.Fraction(total, size)) for total in exact]
        many = np.tile(x.reshape(-1, size), (1, times)).ravel()
        assert nb.coarsen(many, size * times).tolist() == want


def test_rounded_once():
    assert nb.coarsen(np.array([[0, 0], [0, 1]], np.uint8), 2).item() == 0
    assert [nb.coarsen(np.array(pair, np.int8), 2, rounding=rounding).item() for pair in ([1, 2], [-1, -2], [2, 3])
            for rounding in ("even", "nearest", "truncate")] == [2, 2, 1, -2, -2, -1, 2, 3, 2]


def test_sums_of_floats_keep_what_plain_ones_lose():
    x = np.array([1e16, 1.0, -1e16, 1.0] * 6)
    assert nb.coarsen(x, 4, "sum").tolist() == [2.0] * 6
    assert nb.coarsen(x, 24, "sum").item() == 12.0
    assert nb.coarsen(np.full(1 << 16, 0.1, np.float32), 1 << 16).item() == np.float32(0.1)


def test_functions_of_the_users():
    @numba.njit
    def span(block):
        if block.size == 3:
            raise ValueError("three")
        return block.max() - block.min() + 0.5

    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    y = nb.coarsen(x, {0: 2, -1: 2}, span)
    assert y.dtype == np.float64
    np.testing.assert_array_equal(y, np.full((2, 3), 7.5))
    assert nb.coarsen(x, {0: 2, 1: 2}, span, dtype=np.int16).dtype == np.int16
    with pytest.raises(ValueError, match="three"):
        nb.coarsen(x, {0: 2, 1: 2}, span, where=x != 0)

    @numba.njit
    def elements(block):
        return block[0] * 1000 + block[1] * 100 + block[2] * 10 + block[-1]

    digits = np.arange(8).reshape(4, 2)
    assert nb.coarsen(digits, {0: 2, 1: 2}, elements).tolist() == [[123], [4567]]  # in row-major order
    assert nb.coarsen(np.asfortranarray(digits), {0: 2, 1: 2}, elements).tolist() == [[123], [4567]]
    np.testing.assert_array_equal(nb.coarsen(x, {0: 4}, span, where=np.zeros(6, bool)), np.full((1, 6), np.nan))

    @numba.njit
    def pair(block):
        return block[0], block[1]

    with pytest.raises(TypeError, match="reduction must return a real number, got"):
        nb.coarsen(x, 2, pair)


def test_out():
    x = np.arange(16.0).reshape(4, 4)
    out = np.full((2, 2), 7.0)
    assert nb.coarsen(x, 2, out=out) is out
    np.testing.assert_array_equal(out, [[2.5, 4.5], [10.5, 12.5]])
    turned = np.full((2, 2), 7.0).T[::-1]
    assert nb.coarsen(x, 2, out=turned) is turned
    np.testing.assert_array_equal(turned, out)
    inside = x[2:, 2:]
    assert nb.coarsen(x, 2, out=inside) is inside  # of memory that is read later
    np.testing.assert_array_equal(inside, out)
    flags = np.zeros((2, 2), bool)
    np.testing.assert_array_equal(nb.coarsen(np.eye(4), 2, "any", out=flags), np.eye(2))


def test_out_in_the_memory_of_the_mask():
    rng = np.random.default_rng(0)
    x, where = rng.random((64, 64)) < 0.5, rng.random((64, 64)) < 0.5
    want = nb.coarsen(x, {0: 2}, "any", where=where)
    out = where[16:48]
    assert nb.coarsen(x, {0: 2}, "any", where=where, out=out) is out
    np.testing.assert_array_equal(out, want)


def test_memory_has_the_order_of_the_input():
    x = np.zeros((8, 6, 4), np.float32)
    assert nb.coarsen(x, 2).flags.c_contiguous
    assert nb.coarsen(np.asfortranarray(x), 2).flags.f_contiguous
    assert nb.coarsen(x.transpose(1, 2, 0), {0: 2}).transpose(2, 0, 1).flags.c_contiguous


def test_values_of_64_bits():
    """That no float64 holds."""
    top = 2**64 - 1
    x = np.array([top, 2, top, top], np.uint64)
    assert nb.coarsen(x, 2, "max", missing=top).tolist() == [2, top]
    assert nb.coarsen(np.array([2**53 + 1, 2**53, 2**53 + 1]), 3, "mode", ignore=2**53 + 1).tolist() == [2**53]


def test_missing_results():
    assert nb.coarsen(np.ones(2, bool), 2, "first", where=np.zeros(2, bool)).tolist() == [False]
    assert nb.coarsen(np.array([7, 7, 7, 3], np.uint8), 2, missing=7).tolist() == [7, 3]
    assert np.isnan(nb.coarsen(np.array([7, 7], np.uint8), 2, missing=7, dtype=float)).all()
    with pytest.raises(ValueError, match="missing must be a value that results have, too, of dtype uint8, got -1"):
        nb.coarsen(np.array([-1, -1], np.int16), 2, missing=-1, dtype=np.uint8)


def test_nothing_to_do():
    for reduction in ("mean", "median", "first"):  # accumulating, of all elements at once, without a walk
        assert nb.coarsen(np.array(3.0), {}, reduction) == 3.0
    assert nb.coarsen(np.zeros((0, 4)), {1: 2}).shape == (0, 2)
    assert nb.coarsen(np.zeros((4, 0), np.uint8), {0: 2}, "median").shape == (2, 0)
    assert nb.coarsen(np.zeros(()), {}).shape == ()
    np.testing.assert_array_equal(nb.coarsen(np.arange(5.0), {}), np.arange(5))


def test_bools():
    x = np.array([True, True, False, False, True, True])
    assert nb.coarsen(x, 2).tolist() == [1.0, 0.0, 1.0]
    assert nb.coarsen(x, 3, "max").tolist() == [True, True]
    assert nb.coarsen(x, 3, "mode").tolist() == [True, True]
    assert nb.coarsen(x, 2, "sum").tolist() == [2, 0, 2]


def test_what_is_known_of_it():
    x = np.zeros((64, 64), np.uint8)
    assert nb.output_shape(nb.coarsen, (10, 7), {0: 2, 1: 3}, boundary="short") == (5, 3)
    assert nb.explain(nb.coarsen, x, 2).kernel == "blocks_in_registers"
    assert nb.explain(nb.coarsen, x, 32).kernel == "blocks_by_lines"
    assert nb.explain(nb.coarsen, x, 8, "median").kernel == "blocks_side_by_side"
    assert nb.explain(nb.coarsen, x, 32, "median").kernel == "blocks_one_by_one"
    assert nb.explain(nb.coarsen, x, {0: 2}, "mode").memory == "C order"


WRONG = {
    "axis": (({2: 2},), {}, ValueError, r"windows must have axes in \[-2, 2\) .* got 2"),
    "axis twice": (({0: 2, -2: 2},), {}, ValueError, "windows must have each axis once, got axis 0 twice"),
    "factor": (({0: 0},), {}, ValueError, "windows must be at least 1, got 0"),
    "factor of floats": (({0: 2.0},), {}, TypeError, "windows must be an int, a tuple .* got 2.0"),
    "too few factors": (((2,),), {}, ValueError, r"windows must have one factor for each of the 2 axes, got \(2,\)"),
    "does not divide": (({0: 3},), {}, ValueError, "3 does not divide 4, the length of axis 0"),
    "trim": (({0: 5},), {"boundary": "trim"}, ValueError, "no longer than the axes .* got 5 for axis 0"),
    "boundary": ((2,), {"boundary": "wrap"}, ValueError, "boundary must be one of 'exact', 'trim', 'short', got"),
    "boundary twice": (({0: 2},), {"boundary": {0: "trim", -2: "short"}}, ValueError, "boundary must have each axis"),
    "axis by name": (({"y": 2},), {}, TypeError, "an axis of windows must be an int, got 'y'"),
    "boundary of another axis": (({0: 2},), {"boundary": {1: "short"}}, ValueError, "boundary names axis 1"),
    "side": ((2,), {"side": "top"}, ValueError, "side must be one of 'left', 'right', got 'top'"),
    "reduction": ((2, "avg"), {}, ValueError, "reduction must be one of 'mean', .* got 'avg'"),
    "function that is not compiled": ((2, sorted), {}, TypeError, "put @numba.njit before it"),
    "function of Python's": ((2, max), {}, TypeError, "not compiled: pass 'max'"),
    "policy": ((2,), {"nan_policy": "raise"}, ValueError, "nan_policy must be one of 'propagate', 'omit'"),
    "mask": ((2,), {"where": np.ones(3, bool)}, ValueError, r"where must broadcast against x of shape \(4, 6\)"),
    "mask of numbers": ((2,), {"where": np.ones((4, 6))}, TypeError, "where must be an array of bools, got float64"),
    "min_count": ((2,), {"min_count": -1}, ValueError, "min_count must be at least 0, got -1"),
    "min_count of floats": ((2,), {"min_count": 1.5}, TypeError, "min_count must be an int"),
    "weights": ((2, "max"), {"weights": np.ones(6)}, ValueError, "weights is for the reduction 'mean' only"),
    "weights that do not fit": ((2,), {"weights": np.ones(5)}, ValueError, "weights must broadcast against x"),
    "ignore": ((2, "mean"), {"ignore": 0}, ValueError, "ignore is for the reduction 'mode' only"),
    "missing": ((2,), {"missing": 300}, ValueError, "missing must be a value that uint8 has, got 300"),
    "missing, no number": ((2,), {"missing": "x"}, TypeError, "missing must be a number, got 'x'"),
    "dtype": ((2,), {"dtype": complex}, TypeError, "dtype must be one of floats, integers or bools, got complex128"),
    "rounding": ((2,), {"rounding": "up"}, ValueError, "rounding must be one of 'even', 'nearest', 'truncate'"),
    "median": ((2, "median"), {"median": "high"}, ValueError, "median must be one of 'midpoint', 'lower', 'upper'"),
    "ties": ((2, "mode"), {"ties": "last"}, ValueError, "ties must be one of 'first', 'lowest'"),
    "shape of out": ((2,), {"out": np.zeros((2, 2), np.uint8)}, ValueError, r"out must have shape \(2, 3\)"),
    "dtype of out": ((2,), {"out": np.zeros((2, 3))}, TypeError, "out must have dtype uint8, got float64"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors(case):
    args, options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        nb.coarsen(np.zeros((4, 6), np.uint8), *args, **options)


@pytest.mark.parametrize("x", [np.zeros(4, complex), np.array(["a", "b"]), np.array([{}, {}]), None])
def test_dtypes_that_are_refused(x):
    with pytest.raises(TypeError, match="x must be of floats, integers or bools, got"):
        nb.coarsen(x, 2)
