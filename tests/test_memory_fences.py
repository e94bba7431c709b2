"""No kernel touches memory beyond its arguments; and the fences that show it do catch one that does."""

import sys

import fences
import numba
import numpy as np
import pytest
from process import finish_all, start

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
