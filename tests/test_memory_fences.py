"""No kernel touches memory beyond its arguments; and the fences that show it do catch one that does."""

import importlib
import itertools
import os
import pkgutil
import random
import signal
import sys

import blocks_reference
import fences
import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by its name then)
import numba
import numpy as np
import pytest
import selection
from checks import forget
from kernel_checks import PROGRAMS, served_by_programs
from process import finish, finish_all, run, start
from strategies import elements, laid_out
from test_rows import PICKED
from test_strips import STRIPS
from test_window_rows import CASES as ROWS
from test_window_rows import served_by_rows

import numba_pool as nb
from numba_pool import kernels
from numba_pool.kernels._compile import Worker
from numba_pool.simd import wide_registers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory protection as on Linux")


@numba.njit
def put(x, i, value):
    """Without the wrap-around of negative indices."""
    x[np.uint64(i)] = value


@numba.njit
def get(x, i):
    return x[np.uint64(i)]


def beyond(kind, at_end, offset):
    """Touch the element `offset` places beyond the start or the end of a fenced array."""
    fenced = fences.Fenced(np.zeros(7, np.float32), at_end)
    put(fenced.array, 6, 1)
    assert get(fenced.array, 6) == 1
    fenced.check()
    print("inside", end=" ", flush=True)
    i = 6 + offset if offset > 0 else offset
    if kind == "read":
        get(fenced.array, i)
    else:
        put(fenced.array, i, 1)
    fenced.check()


PLACES = (True, 1), (True, 1000), (False, -1), (False, -1000)
BEYOND = [(kind, *place) for kind in ("read", "write") for place in PLACES]


def all_beyond():
    """Each in a child, which dies of it: prints what ended it."""
    x = np.zeros(1, np.float32)
    put(x, 0, get(x, 0))  # compiled for all
    for case in BEYOND:
        child = os.fork()
        if child == 0:
            beyond(*case)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(*case, os.waitstatus_to_exitcode(status), flush=True)


def test_fences_catch_what_goes_beyond():
    wanted = [f"inside {kind} {at_end} {offset} {-signal.SIGSEGV}" for kind, at_end, offset in BEYOND]
    assert run(all_beyond).splitlines() == wanted


@pytest.mark.parametrize(("at_end", "offset"), [(True, -1), (False, 1)])
def test_fences_catch_writes_into_the_rest_of_the_pages(at_end, offset):
    fenced = fences.Fenced(np.zeros(7, np.float32), at_end)
    put(fenced.array, 6 + offset if offset > 0 else offset, 1)
    with pytest.raises(AssertionError, match=r"a worker wrote [1-4] bytes beside an array"):
        fenced.check()


RUNS = [  # calls, seed, dtypes, share of large arrays
    ((40, 1, ("float32",)), {}),
    ((40, 1, ("float64", "float16")), {}),
    ((40, 1, ("uint8",)), {}),
    ((1, 2, ("float32",), 1.0), {}),
    ((20, 3, ("float32",)), {"NUMBA_BOUNDSCHECK": "1"}),  # Numba's own checks of indices
]


@pytest.mark.exhaustive
def test_every_function_between_fences():
    """Side by side: each takes minutes, nearly all of them compilation."""
    printed = finish_all([start(fences.run, *args, **variables) for args, variables in RUNS], timeout=1800)
    assert [int(out.split()[-1]) for out in printed] == [args[0] for args, _ in RUNS]


# Shape, order of memory, arguments of windows. With AVX-512 every kernel serves one of these, or one of other tests'
# tables.
SHAPES = [
    ((8, 4, 9, 8), "C", {"kernel_size": 11, "stride": 1, "padding": 5}),  # planes turned into channels
    ((8, 5, 17, 17), "C", {"kernel_size": (1, 12), "stride": 1}),
    ((1, 33, 12, 13), "C", {"kernel_size": 3, "stride": 1}),
    ((2, 4, 20, 20), "C", {"kernel_size": 10, "stride": 1}),  # by lines
    ((1, 16, 4, 4), "C", {"kernel_size": 2}),  # a vector of elements to a plane, of planes
    ((1, 17, 3, 6), "C", {"kernel_size": 2, "stride": 1}),
    ((1, 31, 19, 1), "C", {"kernel_size": (3, 1), "stride": 1, "padding": (1, 0)}),
    ((1, 40, 2, 40), "C", {"kernel_size": (5, 19), "stride": 1, "padding": ((9, 8), (9, 9)), "dilation": (3, 1)}),
    ((1, 33, 150, 40), "C", {"kernel_size": (25, 11), "stride": 1, "padding": (12, 5)}),  # bands, stages and levels
    ((1, 17, 150, 40), "channels_last", {"kernel_size": (25, 11), "stride": 1, "padding": (12, 5)}),
    ((1, 530, 5, 6), "channels_last", {"kernel_size": 3, "stride": 1}),  # groups of channels
    ((2, 16, 2, 40), "channels_last", {"kernel_size": (5, 19), "stride": 1, "padding": ((9, 8), (9, 9)),
                                       "dilation": (3, 1)}),  # some are empty
    ((2, 5, 12, 14), "channels_last", {"kernel_size": 7, "stride": 3, "padding": 3}),
    ((8, 4, 8, 8), "C", {"kernel_size": 8}),  # runs of memory
    ((2, 3, 30, 26), "C", {"kernel_size": (10, 28), "stride": 3, "padding": ((0, 0), (1, 1))}),
    ((1, 300, 8, 8), "channels_last", {"kernel_size": 8}),
    ((2, 40, 9, 10), "channels_last", {"kernel_size": 2}),  # by pixels
    ((3, 20, 9, 11), "channels_last", {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((3, 17, 9, 13), "channels_last", {"kernel_size": (4, 5), "stride": (2, 3), "padding": (2, 2), "ceil_mode": True}),
    ((2, 20, 9, 1), "channels_last", {"kernel_size": 3, "stride": 2, "padding": 1}),  # fewer columns than the stride
    ((2, 20, 9, 2), "channels_last", {"kernel_size": 4, "stride": 3, "padding": 1}),
    ((2, 64, 24, 24), "channels_last", {"kernel_size": 5, "stride": 1}),  # along rows, then downwards
    ((1, 2, 1, 900), "C", {"kernel_size": (1, 301), "stride": 1}),
    ((1, 1, 1, 70_000), "C", {"kernel_size": (1, 3), "stride": (1, 2), "padding": (0, 1)}),  # cut into sections
    ((1, 2, 1, 9000), "C", {"kernel_size": (1, 90)}),
    ((40, 3, 8, 8), "channels_last", {"kernel_size": 3, "stride": 2}),  # many images
]
# Of these also what is no maximum or average of float32.
FURTHER = [
    ((8, 4, 14, 14), "C", {"kernel_size": 2}),
    ((2, 3, 62, 80), "C", {"kernel_size": 2}),  # gradients whose windows are guessed
    ((2, 3, 12, 13), "C", {"kernel_size": 3, "stride": 2, "dilation": 2}),
]
TABLES = [((*lead, *size), order, arguments) for lead, size, arguments in (*PICKED, *STRIPS)
          for order in ("C", "channels_last")]


def every_pass(shape, order, windows, further):
    """Results and gradients; `further` are also those that are no maximum or average of float32."""
    rank = len(shape) - 2

    def of(name):
        return getattr(nb, name.replace("Nd", f"{rank}d"))

    def given(shape, seed, dtype="float32"):
        return laid_out(elements(shape, dtype, "normal", seed), order, rank)

    x = given(shape, 0)
    yield of("max_poolNd")(x, **windows)
    y, index = of("max_poolNd")(x, **windows, return_indices=True)
    yield from (y, index)
    grad = given(y.shape, 1)
    yield of("max_poolNd_backward")(grad, index, shape)
    yield of("avg_poolNd")(x, **windows)
    yield of("avg_poolNd_backward")(grad, shape, **windows)
    if not further:
        return
    x[...] = np.where(np.arange(x.size).reshape(shape) % 7, x, np.nan)
    yield of("max_poolNd")(x, **windows)
    yield from of("min_poolNd")(x, **windows, return_indices=True)
    x = given(shape, 0)
    yield of("max_pool2d_backward")(given(y.shape, 1, "float16"), index, shape)
    yield of("max_poolNd")(given(shape, 0, "uint8"), **windows)
    unique = laid_out(np.arange(np.prod(shape[2:]), dtype=np.int32).reshape(1, 1, *shape[2:]).repeat(
        shape[0], 0).repeat(shape[1], 1), order, rank)
    yield of("max_unpoolNd")(x, unique, 1)
    yield of("max_unpoolNd_backward")(x, unique)
    for p in (2, np.inf):
        n = of("lp_poolNd")(x, p, **windows)
        yield n
        yield of("lp_poolNd_backward")(grad, x, n, p, **windows)
    samples = np.full((*shape[:2], rank), 0.4, np.float32)
    yield of("fractional_max_poolNd")(x, 1, tuple(-(-n // 2) for n in shape[2:]), random_samples=samples)


def walks_between_fences():
    """Each case with all arrays at the end of what may be touched, with all at the start, and if it is none of another
    test's also with some here and some there.
    """
    every = {name for name, worker in workers()}
    for case in (*((*case, False) for case in SHAPES + TABLES), *((*case, True) for case in FURTHER)):
        print(case, flush=True)
        expected = [a.tobytes() for a in every_pass(*case)]
        forget()  # so that workers are called by name the first time
        for seed, ends in enumerate(((True,), (False,), *(() if case[:3] in TABLES else ((True, False),) * 2))):
            with fences.Fences(random.Random(seed), ends) as fenced:
                for n, result in enumerate(every_pass(*case)):
                    assert result.tobytes() == expected[n], f"result {n} differs between fences"
            every -= fenced.seen
    assert not every or not wide_registers(), f"no case comes to {every}"
    print("inside")


def workers():
    """(name, worker) of all that stand in kernels/."""
    for found in pkgutil.iter_modules(kernels.__path__):
        module = importlib.import_module(f"{kernels.__name__}.{found.name}")
        for name, thing in vars(module).items():
            if isinstance(thing, Worker) and thing.__module__ == module.__name__:
                yield name, thing


def test_every_walk_between_fences():
    """The last line that was printed names the case of a process that died."""
    out, _ = finish(start(walks_between_fences), timeout=600)
    assert out.endswith("inside\n")


def programs_between_fences():
    """Every kind of windows, in many bands and in all stages that there can be."""
    cases = [((1, n, *size), order, arguments, False) for size, arguments in PROGRAMS
             for n, order in ((16, "channels_last"), (17, "channels_last"), (16, "C"), (33, "C"))
]
    for band, most_stages in ((2048, True), (2048, False), (None, True)):
        served_by_programs(pytest.MonkeyPatch(), band, most_stages)
        for case in cases:
            print(case, flush=True)
            expected = [a.tobytes() for a in every_pass(*case)]
            forget()
            for seed in range(2):
                with fences.Fences(random.Random(seed)) as fenced:
                    for n, result in enumerate(every_pass(*case)):
                        assert result.tobytes() == expected[n], f"result {n} differs between fences"
                assert fenced.seen & {"window_taps", "turned_taps"} or seed > 0
    print("inside")


def test_programs_between_fences():
    out, _ = finish(start(programs_between_fences), timeout=600)
    assert out.endswith("inside\n")


def rows_between_fences(with_scratch):
    """Windows along rows and down columns, with results in every place."""
    if with_scratch:
        fences.fence_scratch()
    for small, (first, last, size, arguments), order in itertools.product((False, True), ROWS, ("C", "channels_last")):
        served_by_rows(pytest.MonkeyPatch(), small)
        case = (1, first if order == "C" else last, *size), order, arguments, False
        print(case, flush=True)
        expected = [a.tobytes() for a in every_pass(*case)]
        forget()
        for ends in ((True,), (False,)):
            with fences.Fences(random.Random(0), ends) as fenced:
                for n, result in enumerate(every_pass(*case)):
                    assert result.tobytes() == expected[n], f"result {n} differs between fences"
            assert fenced.seen >= {"window_rows", "summed_rows"}
    print("inside")


def test_rows_between_fences():
    out, _ = finish(start(rows_between_fences, False), timeout=600)
    assert out.endswith("inside\n")


@pytest.mark.exhaustive
def test_rows_and_their_scratch_arrays_between_fences(tmp_path):
    out, _ = finish(start(rows_between_fences, True, NUMBA_CACHE_DIR=str(tmp_path)), timeout=1800)
    assert out.endswith("inside\n")


def blocks_between_fences(any_shape):
    """Every walk of `coarsen`, with few shapes of blocks unless `any_shape`, masks, and arrays copied in pieces. The
    walks are those of test_coarsen.py.
    """
    cases = (("mean", "uint8"), ("median", "float32"), ("mode", "float32"), ("nansum", "float64"))
    with fences.Fences(random.Random(0)) as fenced:
        for seed in range(60):
            rng = np.random.default_rng(seed)
            reduction, dtype = cases[seed % 4]
            factors, boundary = dict(enumerate(((2, 2), (40, 4))[seed // 4 % 2])), {0: "short", 1: "trim"}
            shape = rng.choice((6, 40, 48) if seed // 4 % 2 else (6, 32)), rng.integers(8, 40)
            if any_shape:
                shape = rng.integers(1, 40, rng.integers(1, 4))
                factors, boundary = {axis: int(rng.choice((1, 2, 2, 5, 30))) for axis in range(len(shape))}, "short"
            x = rng.integers(0, 5, shape).astype(dtype)
            x = x if seed % 5 else np.flip(x, 0)
            options = {"where": np.ascontiguousarray(x > 0)} if reduction == "nansum" else {}
            got = nb.coarsen(x, factors, reduction, boundary=boundary, **options)
            with np.errstate(all="ignore"):
                want = blocks_reference.coarsen(x, factors, reduction, boundary=boundary, **options)
            np.testing.assert_allclose(got, want, rtol=1e-6)
        x = rng.standard_normal((37, 44))
        want = blocks_reference.coarsen(x, {0: 20, 1: 20}, "median", boundary="short")
        np.testing.assert_allclose(nb.coarsen(x, 20, "median", boundary="short"), want, rtol=1e-15)
    walks = {"blocks_in_registers", "blocks_by_lines", "blocks_side_by_side", "blocks_one_by_one"}
    assert fenced.seen == walks, fenced.seen


def test_blocks_between_fences():
    finish_all([start(blocks_between_fences, selection.exhaustive)], timeout=300)
