"""Coarsening of a dask array by two threads of dask, beside the same call on the whole array and dask's own."""

from functools import lru_cache, partial

import numpy as np

import numba_pool as P

from . import common
from .pooling import Timed

CHUNK = 2048  # of float32: 16 MiB


def _lazy(way, x):
    import dask.array as da

    chunks = da.from_array(x, chunks=CHUNK)
    if way == "dask's own":
        return da.coarsen(np.mean, chunks, {0: 2, 1: 2})
    import numba_pool.dask

    return numba_pool.dask.coarsen(chunks, 2)


@lru_cache(maxsize=1)  # asv runs setup again before every sample
def _means(way, chunks):
    common.use_threads(common.THREADS)
    x = common.array((CHUNK * chunks, CHUNK))
    if way == "whole":
        return common.compiled(partial(P.coarsen, x, 2))
    try:
        lazy = _lazy(way, x)
    except ImportError:
        raise NotImplementedError("dask is not installed") from None
    return common.compiled(partial(lazy.compute, scheduler="threads", num_workers=common.THREADS))


class DaskChunks(Timed):
    """Means of 2x2, float32, of one and of eight chunks of 16 MiB."""

    param_names = ("way", "chunks")
    params = (["chunks", "whole", "dask's own"], [1, 8])

    def setup(self, way, chunks):
        self.call = _means(way, chunks)

    def time_mean(self, way, chunks):
        self.call()
