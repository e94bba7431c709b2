"""What is sent to workers: functions, reducers and layers as pickles; and threads and processes that run them."""

import functools
import hashlib
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import cloudpickle
import dask
import numba
import numpy as np
import pytest
from process import HASTY, run

import numba_pool as nb
from numba_pool import reducers

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (64, 96), np.uint8)
LABELS = RNG.integers(0, 4, (64, 96), np.uint8)
FLOATS = RNG.standard_normal((2, 3, 32, 32), np.float32)


@numba.njit
def spread(block):
    return block.max() - block.min()


def jobs():
    """Calls without arguments, by what they are about."""
    region = list(nb.pyramid_regions(BYTES.shape, 16, levels=2))[1]
    return {
        "coarsen": functools.partial(nb.coarsen, BYTES, 2, "max"),
        "own function": functools.partial(nb.coarsen, BYTES, 2, spread),
        "reducer": functools.partial(reducers.mode, LABELS.reshape(32, 2, 48, 2), axis=(1, 3)),
        "region": functools.partial(nb.pyramid_block, BYTES[region.source], region, "max"),
        "function": functools.partial(nb.lp_pool2d, FLOATS, np.inf, 3),
        "layer": functools.partial(nb.LPPool2d(np.inf, 2), FLOATS),
    }


def digest(job):
    results = job()
    parts = results if isinstance(results, list) else [results]
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


@functools.cache
def expected():
    return {name: digest(job) for name, job in jobs().items()}


WAYS = pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])


@pytest.mark.parametrize("module", ["numba_pool", "numba_pool.functional", "numba_pool.layers", "numba_pool.reducers",
                                    "numba_pool.torch", "numba_pool.jax", "numba_pool.autograd", "numba_pool.dask",
                                    "numba_pool.xarray"])
@WAYS
def test_public_functions_are_pickled_by_name(module, dumps):
    public = pytest.importorskip(module, exc_type=ImportError)
    names = getattr(public, "__all__", [name for name in vars(public) if "_pool" in name or "_unpool" in name])
    things = [getattr(public, name) for name in names]
    assert len(things) > 1
    for thing in filter(callable, things):
        assert pickle.loads(dumps(thing)) is thing


@WAYS
def test_calls_are_pickled(dumps):
    assert {name: digest(pickle.loads(dumps(job))) for name, job in jobs().items()} == expected()


def test_threads_of_dask():
    many = [dask.delayed(digest)(job) for job in jobs().values()] * 8
    assert dask.compute(*many, scheduler="threads", num_workers=4) == 8 * tuple(expected().values())


def twice(values):
    """All of them two times. The first is followed by itself: both of two processes come to it at once."""
    first, *others = values
    return [first, first, *others, *others]


def print_digests_of_processes(method):
    """What two processes of that kind make, of jobs that come to them as pickles."""
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as executor:
        print(*executor.map(digest, twice(jobs().values()), timeout=120))


def test_processes_share_a_cold_cache(tmp_path):
    """The spawned ones find nothing, and those of the fork server all that these have compiled."""
    wanted = twice(expected().values())
    kept = []
    for method in ("spawn", "forkserver"):
        printed = run(print_digests_of_processes, method, NUMBA_CACHE_DIR=str(tmp_path), **HASTY)
        assert printed.split() == wanted, method
        kept.append(sorted(tmp_path.rglob("*.nbc")))
    assert kept[0]
    assert kept[1] == kept[0]
    assert not any(tmp_path.rglob("*.tmp"))
