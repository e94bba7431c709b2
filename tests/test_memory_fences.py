"""No kernel touches memory beyond its arguments; and the fences that show it do catch one that does."""

import random
import sys

import blocks_reference
import fences
import numba
import numpy as np
import pytest
from process import finish_all, start

import numba_pool as nb
from numba_pool.blocks import plan

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
    print("inside", flush=True)
    i = 6 + offset if offset > 0 else offset
    if kind == "read":
        get(fenced.array, i)
    else:
        put(fenced.array, i, 1)
    fenced.check()


@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize(("at_end", "offset"), [(True, 1), (True, 1000), (False, -1), (False, -1000)])
def test_fences_catch_what_goes_beyond(kind, at_end, offset):
    process = start(beyond, kind, at_end, offset)
    out, _ = process.communicate()
    assert out == "inside\n"
    assert process.returncode == -11  # a segmentation fault


@pytest.mark.parametrize(("at_end", "offset"), [(True, -1), (False, 1)])
def test_fences_catch_writes_into_the_rest_of_the_pages(at_end, offset):
    fenced = fences.Fenced(np.zeros(7, np.float32), at_end)
    put(fenced.array, 6 + offset if offset > 0 else offset, 1)
    with pytest.raises(AssertionError, match=r"[1-4] bytes beside an array were written"):
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


def blocks_between_fences():
    """Every walk of `coarsen`, with blocks of many shapes, masks, and arrays that are copied in pieces."""
    names = set()

    def noted(launch):
        def launched(worker, *args):
            names.add(worker.__name__)
            return launch(worker, *args)

        return launched

    with fences.Fences(random.Random(0)):
        plan.launch = noted(plan.launch)
        for seed in range(60):
            rng = np.random.default_rng(seed)
            shape = rng.integers(1, 40, rng.integers(1, 4))
            x = rng.integers(0, 5, shape).astype(("uint8", "float32")[seed % 2])
            reduction, options = (("mean", {}), ("median", {}), ("mode", {}), ("sum", {"where": x > 0}))[seed // 2 % 4]
            factors = {axis: int(rng.choice((1, 2, 2, 5, 30))) for axis in range(x.ndim)}
            x = x if seed % 3 else np.flip(x, 0)
            options = {name: np.ascontiguousarray(x > 0) for name in options}
            got = nb.coarsen(x, factors, reduction, boundary="short", **options)
            with np.errstate(all="ignore"):
                want = blocks_reference.coarsen(x, factors, reduction, boundary="short", **options)
            np.testing.assert_allclose(got, want, rtol=1e-6)
        x = rng.standard_normal((37, 44))
        want = blocks_reference.coarsen(x, {0: 20, 1: 20}, "median", boundary="short")
        np.testing.assert_allclose(nb.coarsen(x, 20, "median", boundary="short"), want, rtol=1e-15)
    assert names == {"blocks_in_registers", "blocks_by_lines", "blocks_side_by_side", "blocks_one_by_one"}, names


def test_blocks_between_fences():
    finish_all([start(blocks_between_fences)], timeout=300)
