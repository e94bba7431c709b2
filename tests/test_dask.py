"""`numba_pool.dask`: the core's results, whatever the chunks; and what is known before any is computed."""

import math
import pickle
import pydoc
from itertools import pairwise, product

import numba
import numpy as np
import pytest
from checks import assert_identical, assert_rounded
from hypothesis import given, settings
from hypothesis import strategies as st
from process import run
from strategies import any_windows

import numba_pool as nb
from numba_pool import _threads, reducers

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
cloudpickle = pytest.importorskip("cloudpickle")
pool = pytest.importorskip("numba_pool.dask")

RNG = np.random.default_rng(0)
POOLS = [f"{name}_pool{rank}d" for name in ("max", "min", "avg", "sum", "lp") for rank in (1, 2, 3)]


@numba.njit
def told(block):
    """A number that tells every element of a block, and their order."""
    total = 0.0
    for i in range(len(block)):
        total = total * 3 + block[i] + 1
    return total


@st.composite
def chunks(draw, length):
    """Chunks of an axis: many or few, some of them empty."""
    edges = draw(st.lists(st.integers(0, length), max_size=draw(st.sampled_from((2, 5, 20)))))
    places = [0, *sorted(edges), length]
    return tuple(b - a for a, b in pairwise(places))


def chunked(draw, a):
    return da.from_array(a, chunks=tuple(draw(chunks(n)) for n in a.shape))


def assert_computes(lazy, expected):
    """All that a lazy array says of itself is so, also of each of its chunks, and its values are the expected ones."""
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    assert (type(lazy._meta), lazy._meta.dtype, lazy._meta.ndim) == (np.ndarray, expected.dtype, expected.ndim)
    for n, axis in zip(lazy.shape, lazy.chunks, strict=True):
        assert 0 not in axis or axis == (0,)
        assert sum(axis) == n
    blocks = dask.compute(*lazy.to_delayed().ravel(), scheduler="synchronous")
    assert [block.shape for block in blocks] == list(product(*lazy.chunks))
    assert_identical(lazy.compute(scheduler="synchronous"), expected)


@st.composite
def coarsenings(draw):
    """An array, its chunks, and the arguments of a coarsening of one to three of its axes."""
    ndim = draw(st.integers(1, 4))
    shape = tuple(draw(st.lists(st.integers(1, {1: 60, 2: 20, 3: 8, 4: 6}[ndim]), min_size=ndim, max_size=ndim)))
    axes = draw(st.lists(st.integers(0, ndim - 1), min_size=1, max_size=3, unique=True))
    windows = {axis: draw(st.integers(1, 7)) for axis in axes}
    boundary = {axis: draw(st.sampled_from(("short", "pad") if windows[axis] > shape[axis] else
                                           ("short", "trim", "pad"))) for axis in axes}
    side = {axis: draw(st.sampled_from(("left", "right"))) for axis in axes}
    x = RNG.integers(-4, 5, shape).astype(np.float32)
    x[RNG.random(shape) < 0.1] = np.nan
    arguments = {"boundary": boundary, "side": side}
    lazy = dict(arguments)
    if draw(st.booleans()):
        kept = tuple(draw(st.sampled_from((n, n, 1))) for n in shape)[draw(st.integers(0, ndim)) :]
        arguments["where"] = lazy["where"] = RNG.random(kept) < 0.8
        if draw(st.booleans()):
            lazy["where"] = chunked(draw, arguments["where"])
    return x, chunked(draw, x), windows, arguments, lazy


@settings(max_examples=120)
@given(coarsenings())
def test_blocks_have_their_elements_whatever_the_chunks(drawn):
    x, lazy_x, windows, arguments, lazy = drawn
    # without compilation where nothing is missing, and by a function that sees every element and its place
    for reduction in ("first", told):
        if reduction == "first":
            given_here, lazy_here = ({key: value for key, value in one.items() if key != "where"}
                                     for one in (arguments, lazy))
        else:
            given_here, lazy_here = {"min_count": 2, **arguments}, {"min_count": 2, **lazy}
        assert_computes(pool.coarsen(lazy_x, windows, reduction, **lazy_here),
                        nb.coarsen(x, windows, reduction, **given_here))


CASES = {
    "mean of bytes": ("mean", "uint8", {"rounding": "nearest"}),
    "mean without NaN": ("nanmean", "float32", {"min_count": 3, "nan_policy": "omit"}),
    "weighted mean": ("mean", "float32", {"weights": RNG.random((1, 60))}),
    "sum": ("sum", "uint8", {}),
    "sum in another dtype": ("sum", "float32", {"dtype": "float64"}),
    "maximum": ("max", "float32", {}),
    "minimum where there is no nodata": ("min", "uint8", {"missing": 0}),
    "median": ("median", "uint8", {"median": "upper"}),
    "mode that is no background": ("mode", "uint8", {"ties": "lowest", "ignore": 0}),
    "count": ("nancount", "float32", {}),
    "deviation": ("std", "uint8", {}),
    "any": ("any", "bool", {}),
    "all": ("all", "bool", {}),
}


FEW = ("weighted mean", "mode that is no background", "mean of bytes", "maximum", "median", "count")


@pytest.mark.parametrize("case", FEW)
def test_reductions(case):
    reduction, dtype, options = CASES[case]
    x = (RNG.standard_normal((24, 60)) * 3).astype(dtype) if dtype == "float32" else (
        RNG.integers(0, 5, (24, 60)).astype(dtype))
    # Blocks of few elements, which compile fast.
    lazy = pool.coarsen(da.from_array(x, chunks=(7, 22)), {0: 2, -1: 2}, reduction, **options)
    assert lazy.chunks == ((4, 3, 4, 1), (11, 11, 8))
    assert_computes(lazy, nb.coarsen(x, {0: 2, -1: 2}, reduction, **options))


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [case for case in CASES if case not in FEW])
def test_the_other_reductions(case):
    test_reductions(case)


@pytest.mark.every_dtype
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float16", "bool", ">f8"])
def test_dtypes_of_results(dtype):
    """Those of the core, which computes nothing for an empty array."""
    x, empty = da.zeros((8, 8), chunks=3, dtype=dtype), np.zeros((0, 0), dtype)
    for name in reducers.__all__:
        for more in ({}, {"dtype": "float32"}, {"weights": np.ones(())}):
            if "weights" not in more or name[-4:] == "mean":
                assert pool.coarsen(x, 2, name, **more).dtype == nb.coarsen(empty, 2, name, **more).dtype


@given(st.data())
def test_chunks_are_not_merged(data):
    factor = data.draw(st.integers(1, 9))
    sizes = tuple(data.draw(st.lists(st.integers(2 * factor, 5 * factor), min_size=1, max_size=8)))
    x = da.zeros(sum(sizes), chunks=(sizes,))
    y = pool.coarsen(x, factor, "first", boundary=data.draw(st.sampled_from(("trim", "short"))),
                     side=data.draw(st.sampled_from(("left", "right"))))
    assert len(y.chunks[0]) == len(sizes)
    assert all(abs(after - before / factor) <= 2 for before, after in zip(sizes, y.chunks[0]))
    assert pool.max_pool1d(x[None], 3, 1, "same").chunks == ((1,), sizes) or min(sizes) < 3


def test_one_task_a_chunk():
    x = da.zeros((64, 64), chunks=8)
    assert len(dict(pool.coarsen(x, 4, "max").__dask_graph__())) == len(dict(x.__dask_graph__())) + x.npartitions
    x = da.zeros((1, 64, 64), chunks=(1, 8, 8))
    for more, arguments in ((1, (2,)), (12, (3, 1, 1))):  # up to nine pieces of neighbours; older dask has one more
        y = pool.max_pool2d(x, *arguments)
        assert len(dict(y.__dask_graph__())) <= len(dict(x.__dask_graph__())) + more * x.npartitions


ALONE = [  # name, chunks of the last two axes, arguments, keywords: windows that no chunk shares with its neighbour
    ("max_pool2d", (10,) * 100, (2,), {}),
    ("min_pool2d", (10,) * 99 + (3,), (2, 5), {"ceil_mode": True}),
    ("avg_pool2d", (10,) * 99 + (7,), (2, 5), {"dilation": 3}),
    ("sum_pool2d", (1,) + (2,) * 99, (2,), {"padding": 1}),
    ("lp_pool2d", (8,) + (10,) * 98 + (12,), (2, (3, 5), 5, True), {"padding": ((2, 1), (2, 3))}),
    ("max_pool2d", (10,) * 100, (2,), {"channel_axis": 0}),
]


@pytest.mark.parametrize(("name", "sizes", "arguments", "keywords"), ALONE)
def test_windows_that_no_chunk_shares_are_one_layer(name, sizes, arguments, keywords):
    """Nothing is listed for each chunk, and a chunk of the result is made of one of x."""
    x = da.zeros((2, sum(sizes), sum(sizes)), chunks=(1, sizes, sizes), dtype=np.float32)
    y = getattr(pool, name)(x, *arguments, **keywords)
    graph = y.__dask_graph__()
    own = {key: layer for key, layer in graph.layers.items() if key not in x.__dask_graph__().layers}
    assert list(own) == [y.name]
    assert not own[y.name].is_materialized()
    assert y.npartitions == x.npartitions == len(own[y.name]) == 20_000
    assert len(cloudpickle.dumps(graph)) < x.npartitions
    few = (1, sizes[:2] + sizes[-1:], sizes[:2] + sizes[-1:])
    values = integers_as_floats((2, *map(sum, few[1:])))
    lazy = getattr(pool, name)(da.from_array(values, chunks=few), *arguments, **keywords)
    assert_computes(lazy, getattr(nb, name)(values, *arguments, **keywords))


def test_an_axis_for_channels_that_costs_no_tasks():
    """As the message for arrays without channels has it, and back again."""
    x = da.zeros((1000, 1000), chunks=10, dtype=np.float32)
    with pytest.raises(ValueError, match=r"for one channel pass x\[np\.newaxis\]\n") as caught:
        pool.max_pool2d(x, 2)
    way = caught.value.__notes__[0].partition("pass ")[2]
    y = pool.max_pool2d(eval(way, {"x": x, "np": np}), 2).map_blocks(np.squeeze, 0, drop_axis=0)
    assert (y.shape, y.chunks[0]) == ((500, 500), (5,) * 100)
    assert not any(layer.is_materialized() for layer in y.__dask_graph__().layers.values())


def test_equal_calls_have_equal_names():
    """By which dask computes a thing once."""
    x = da.ones((1, 12, 12), chunks=5)
    for function, arguments, others in ((pool.coarsen, (3, "max"), (3, "min")), (pool.max_pool2d, (3, 2), (3, 1))):
        more = {"boundary": "short"} if function is pool.coarsen else {}
        assert function(x, *arguments, **more).name == function(x, *arguments, **more).name
        assert function(x, *arguments, **more).name != function(x, *others, **more).name


def integers_as_floats(shape):
    """Their sums are exact, in whatever order."""
    x = RNG.integers(-9, 10, shape).astype(np.float32)
    x[RNG.random(shape) < 0.02] = np.nan
    return x


@settings(max_examples=60)
@given(st.data())
@pytest.mark.parametrize("family", ["max", "avg"])
def test_windows_have_their_elements_whatever_the_chunks(family, data):
    rank = data.draw(st.integers(1, 3))
    size, kernel, stride, padding, dilation, ceil_mode = data.draw(any_windows(rank))
    lead = data.draw(st.sampled_from(((1,), (3,), (2, 3), (0, 2))))
    more = {"padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    if family == "avg":
        more["count_include_pad"] = data.draw(st.booleans())
        more["divisor_override"] = data.draw(st.sampled_from((None, None, 3)))
    x = integers_as_floats((*lead, *size))
    if data.draw(st.booleans()):
        more["channel_axis"] = data.draw(st.integers(-x.ndim, x.ndim - 1))
        x = np.moveaxis(x, len(lead) - 1, more["channel_axis"])
    name = f"{family}_pool{rank}d"
    expected = getattr(nb, name)(x, kernel, stride, **more)
    assert_computes(getattr(pool, name)(chunked(data.draw, x), kernel, stride, **more), expected)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("family", ["min", "sum", "lp"])
def test_the_other_poolings(family, rank):
    name = f"{family}_pool{rank}d"
    x = np.abs(integers_as_floats((2, 3, 19, 20, 21)[: 2 + rank]))
    arguments = (2, 4) if family == "lp" else (4,)
    more = {"stride": 3, "padding": ((2, 1),) * rank, "ceil_mode": True}
    lazy = getattr(pool, name)(da.from_array(x, chunks=(1, 2, *(5,) * rank)), *arguments, **more)
    assert_computes(lazy, getattr(nb, name)(x, *arguments, **more))


def test_sums_are_rounded_to_two_units():
    """Kernels carry sums along lines, which begin anew with each chunk."""
    x = RNG.standard_normal((1, 3000)).astype(np.float32)
    want, most = (nb.avg_pool1d(a, 100, 1) for a in (x, np.abs(x)))
    got = pool.avg_pool1d(da.from_array(x, chunks=(1, 700)), 100, 1).compute(scheduler="synchronous")
    assert_rounded(got, want, most, units=2)


@pytest.mark.parametrize(("reduction", "power"), [
    ("mean", 1),
    pytest.param("var", 2, marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_chunks_in_another_order_are_rounded_otherwise(reduction, power):
    """Blocks are added up in the order of memory."""
    x = (RNG.standard_normal((48, 60)) * 10.0 ** RNG.integers(-5, 6, (48, 60))).astype(np.float32)
    lazy = da.from_array(x, chunks=(24, 30))
    most = (np.abs(x.astype(np.float64)) ** power).reshape(12, 4, 10, 6).mean((1, 3))
    want = nb.coarsen(x, {0: 4, 1: 6}, reduction, dtype="float64")
    assert_computes(pool.coarsen(lazy, {0: 4, 1: 6}, reduction, dtype="float64"), want)
    turned = pool.coarsen(lazy.map_blocks(np.asfortranarray, dtype=x.dtype), {0: 4, 1: 6}, reduction, dtype="float64")
    got = turned.compute(scheduler="synchronous")
    assert not np.array_equal(got, want)
    assert_rounded(got, want, most, units=4)


def test_chunks_may_be_masked_arrays():
    """What they mask is missing, also after chunks were cut anew, and of an array that was masked before it was dask's.
    """
    x = RNG.integers(0, 200, (24, 60)).astype(np.uint8)
    masked, more = np.ma.masked_greater(x, 150), {"where": x != 7}
    for lazy in (da.ma.masked_greater(da.from_array(x, chunks=(8, 30)), 150),
                 da.ma.masked_greater(da.from_array(x, chunks=(7, 22)), 150), da.from_array(masked, chunks=11), masked):
        for windows, keywords in (((4, 6), {}), ((4, 6), more)):
            got = pool.coarsen(lazy, windows, "max", **keywords)
            assert_computes(got, nb.coarsen(masked, windows, "max", **keywords))
            assert got.max() <= 150


def failing(block):
    raise AssertionError("computed")


@pytest.mark.parametrize("name", ["coarsen", "max_pool2d"])
def test_nothing_is_computed_by_the_call(name):
    x = da.zeros((4, 9, 8), chunks=(2, 3, 4), dtype=np.float32).map_blocks(failing, dtype=np.float32)
    more = {"where": x.astype(bool)} | ({"boundary": "short"} if name == "coarsen" else {})
    lazy = getattr(pool, name)(x, 2, **more)
    assert lazy.dtype == np.float32
    with pytest.raises(AssertionError, match="computed"):
        lazy.compute(scheduler="synchronous")


def test_the_call_takes_no_memory_for_large_arrays():
    x = da.zeros((1, 10**5, 10**5, 10**5), chunks=2**14, dtype=np.float32)  # 4 PB
    assert pool.max_pool3d(x, 3, 2, 1).shape == (1, 50_000, 50_000, 50_000)
    assert pool.coarsen(x, {1: 2, 3: 3}, where=x > 0, boundary="trim").shape == (1, 50_000, 10**5, 33_333)


def test_masks_are_heeded():
    masked = np.ma.masked_greater(np.arange(35.0).reshape(5, 7), 20)
    chunked = da.from_array(masked, chunks=(2, 3))
    got = pool.coarsen(chunked, 2, boundary="short").compute()
    assert_identical(np.asarray(got), nb.coarsen(masked, 2, boundary="short"))
    assert np.isnan(got[2]).all()


def test_what_is_no_dask_array_becomes_one():
    x = RNG.standard_normal((1, 6, 6)).astype(np.float32)
    for given_x in (x, x.tolist()):
        expected = nb.max_pool2d(np.asarray(given_x), 2)
        assert_computes(pool.max_pool2d(given_x, 2), expected)
        assert_computes(pool.coarsen(given_x, (1, 6, 6), "first"), np.asarray(given_x)[:, :1, :1])


def test_arguments_are_those_of_the_call():
    """A task runs later, when a list or a dict may have become another one."""
    x = da.from_array(RNG.standard_normal((1, 12, 12)), chunks=(1, 5, 5))
    windows, kernel = {1: 5}, [2, 3]
    lazy = pool.coarsen(x, windows, "first", boundary=(boundary := {1: "short"})), pool.max_pool2d(x, kernel)
    windows[1], kernel[0], boundary[1] = 3, 3, "exact"
    assert [y.compute().shape for y in lazy] == [(1, 3, 12), (1, 6, 4)]


FLOATS, COMPLEX = np.ones((1, 2, 8, 8), np.float32), np.ones((1, 2, 8, 8), np.complex64)
WRONG = [
    ("coarsen", FLOATS, (3,), {}),
    ("coarsen", FLOATS, ((2, 2),), {}),
    ("coarsen", FLOATS, ({4: 2},), {}),
    ("coarsen", FLOATS, ({0: 2.5},), {}),
    ("coarsen", FLOATS, (2, "middle"), {}),
    ("coarsen", FLOATS, (2, np.mean), {}),
    ("coarsen", FLOATS, ({3: 9},), {"boundary": "trim"}),
    ("coarsen", FLOATS, ({3: 2},), {"boundary": "nearest"}),
    ("coarsen", FLOATS, ({3: 2},), {"side": {2: "left"}}),
    ("coarsen", FLOATS, ({3: 2},), {"where": np.ones(3, bool)}),
    ("coarsen", FLOATS, ({3: 2},), {"where": np.ones(8)}),
    ("coarsen", FLOATS, ({3: 2}, "max"), {"weights": np.ones(8)}),
    ("coarsen", FLOATS, ({3: 2},), {"weights": np.ones(8, complex)}),
    ("coarsen", FLOATS.astype(np.uint8), ({3: 2}, "max"), {"missing": 300}),
    ("coarsen", FLOATS, ({3: 2},), {"dtype": "complex64"}),
    ("coarsen", FLOATS, ({3: 2},), {"min_count": -1}),
    ("coarsen", COMPLEX, ({3: 2},), {}),
    ("coarsen", "image.png", (2,), {}),
    ("max_pool2d", FLOATS, (0,), {}),
    ("max_pool2d", FLOATS, (2, 1.5), {}),
    ("max_pool2d", FLOATS, (9,), {}),
    ("max_pool2d", FLOATS, (3, 1, 2), {}),
    ("max_pool2d", FLOATS, (3, 1, "full"), {}),
    ("max_pool2d", FLOATS, (3,), {"ceil_mode": 1}),
    ("max_pool2d", FLOATS, (3,), {"return_indices": 1}),
    ("max_pool2d", FLOATS, (3,), {"channel_axis": 4}),
    ("max_pool2d", FLOATS[0, 0], (3,), {}),
    ("max_pool2d", FLOATS[:, :0], (3,), {}),
    ("max_pool2d", (FLOATS, FLOATS.astype(np.int32)), (3,), {}),
    ("avg_pool2d", COMPLEX, (3,), {}),
    ("avg_pool2d", FLOATS, (3,), {"divisor_override": 0}),
    ("avg_pool2d", FLOATS, (3,), {"count_include_pad": "yes"}),
    ("max_pool2d", FLOATS, (3,), {"nan_policy": "raise"}),
    ("sum_pool2d", FLOATS, (3,), {"min_count": 1}),
    ("avg_pool2d", FLOATS, (3,), {"where": np.ones(7, bool)}),
    ("avg_pool2d", FLOATS, (3,), {"where": np.ones(8)}),
    ("lp_pool2d", FLOATS, (-1, 3), {}),
    ("lp_pool2d", FLOATS.astype(np.int64), (2, 3), {}),
]


@pytest.mark.parametrize("call", WRONG, ids=range(len(WRONG)))
def test_wrong_arguments_are_told_at_once_as_by_the_core(call):
    name, x, args, keywords = call
    with pytest.raises((TypeError, ValueError)) as core:
        getattr(nb, name)(x, *args, **keywords)
    lazy = da.from_array(x, chunks=3) if isinstance(x, np.ndarray) else x
    with pytest.raises(core.type) as error:
        getattr(pool, name)(lazy, *args, **{key: da.from_array(value) if isinstance(value, np.ndarray) else value
                                            for key, value in keywords.items()})
    assert str(error.value) == str(core.value)


def too_large(block):
    raise MemoryError("Unable to allocate 1.00 TiB")


def test_what_the_core_cannot_load_is_sent_here():
    x = da.zeros((1, 4, 4)).map_blocks(too_large, dtype=float)
    for function, arguments in ((nb.coarsen, {"windows": 2}), (nb.max_pool2d, {"kernel_size": 2})):
        with pytest.raises(TypeError, match=r"allocate 1\.00 TiB\): numba_pool\.dask has the functions that take it$"):
            function(x, **arguments)
    with pytest.raises(TypeError, match=r"got int64: pass x\.astype\(np\.float32\)$"):
        nb.lp_pool2d(da.ones((1, 4, 4), dtype=int), 2, 2)


def test_unknown_chunks():
    x = da.from_array(np.arange(16.0), chunks=4)
    unknown = x[x > 3]
    with pytest.raises(ValueError, match=r"^x must have chunks of known sizes, got shape \(nan,\): call its compute_"):
        pool.coarsen(unknown, 2)
    with pytest.raises(ValueError, match=r"^where must have chunks of known sizes"):
        pool.coarsen(x, 2, where=unknown > 3)
    with pytest.raises(ValueError, match=r"^x must have chunks of known sizes"):
        pool.max_pool1d(unknown[None], 2)
    assert math.isnan(unknown.shape[0])
    assert pool.coarsen(unknown.compute_chunk_sizes(), 2, "first").shape == (6,)


@pytest.mark.parametrize("threads", [0, 1.5, True, None])
def test_threads_are_counted(threads):
    with pytest.raises((TypeError, ValueError), match=r"^threads must be "):
        pool.coarsen(da.ones(4), 2, threads=threads)


@pytest.mark.parametrize("name", ["max_pool2d", "min_pool1d"])
def test_indices_are_refused(name):
    with pytest.raises(NotImplementedError, match="an index is the flat position in a whole plane"):
        getattr(pool, name)(da.ones((1, 4, 4)), 2, return_indices=True)


def test_docstrings_are_examples_that_run():
    for name in ["coarsen", *POOLS]:
        text, scope = getattr(pool, name).__doc__, {}
        assert "threads : int" in text
        assert "out : " not in text
        for untrue in ("order of x", "written", "copy of x", "strides", "indices)", "Nothing is copied"):
            assert untrue not in text
        assert "Returns\n-------\ndask array\n" in text
        assert "chunks of unknown sizes" in text
        assert ("\nNotImplementedError\n" in text) == (name[:3] in ("max", "min"))
        lines = [line[4:] for line in text.splitlines() if line.startswith(">>> ")]
        exec("\n".join(lines[:-1]), scope)
        assert str(eval(lines[-1], scope)) == text.rstrip().splitlines()[-1]


def test_the_public_names_are_those_of_the_functions():
    assert sorted(pool.__all__) == sorted(["coarsen", *POOLS])
    assert pydoc.plain(pydoc.render_doc(pool)).count("class ") == 0


def test_all_pickles():
    for module in (pickle, cloudpickle):
        for name in ["coarsen", *POOLS]:
            assert module.loads(module.dumps(getattr(pool, name))) is getattr(pool, name)
    x = integers_as_floats((1, 40, 40))
    lazy = da.from_array(x, chunks=(1, 20, 20))
    for y in (pool.max_pool2d(lazy, 3, 1, 1), pool.coarsen(lazy, (1, 7, 7), told, boundary="short")):
        again = cloudpickle.loads(cloudpickle.dumps(y))
        assert_identical(again.compute(), y.compute(scheduler="synchronous"))


def layer(block):
    """What threads Numba has started in the process where this chunk was made, as a number."""
    return np.full((1,) * block.ndim, _threads.layer() is not None)


def start_threads_or_not():
    """Print whether Numba's threads were started where chunks of 1 MiB were made, for one thread a chunk and for two.
    """
    x = da.ones((4, 512, 512), chunks=(1, 512, 512), dtype=np.float32)
    for scheduler, threads in (("threads", 1), ("synchronous", 1), ("processes", 1), ("threads", 2)):
        both = pool.coarsen(x, (1, 4, 8), "max", threads=threads), pool.max_pool2d(x, 2, threads=threads)
        seen = [y.map_blocks(layer, chunks=(1, 1, 1), dtype=bool) for y in both]
        with dask.config.set({"multiprocessing.context": "spawn"}):
            print(np.any(dask.compute(*seen, scheduler=scheduler, num_workers=2 if scheduler == "threads" else 1)))


def test_a_chunk_is_the_work_of_one_thread():
    assert run(start_threads_or_not).split() == ["False", "False", "False", "True"]
