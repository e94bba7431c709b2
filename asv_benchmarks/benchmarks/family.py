"""Run time of the rest of the family: other ranks, other reductions, other ways to lay out windows."""

from functools import lru_cache, partial

import numpy as np

import numba_pool as P

from . import common
from .pooling import Timed

SIGNAL, IMAGE, VOLUME = (32, 64, 2048), (16, 64, 56, 56), (4, 32, 16, 32, 32)


def _max(rank, shape):
    forward, backward = getattr(P, f"max_pool{rank}d"), getattr(P, f"max_pool{rank}d_backward")
    return _with_indices(partial(forward, common.array(shape), 3, 2, 1, return_indices=True), backward, shape)


def _avg(rank, shape, **windows):
    forward, backward = getattr(P, f"avg_pool{rank}d"), getattr(P, f"avg_pool{rank}d_backward")
    first = partial(forward, common.array(shape), 3, 2, 1, **windows)
    return (first, partial(backward, np.ones_like(first()), shape, 3, 2, 1, **windows))


def _with_indices(forward, backward, shape):
    y, indices = forward()
    return (forward, partial(backward, np.ones_like(y), indices, shape))


def _lp(norm_type, shape=IMAGE, window=3):
    x = common.array(shape)
    forward = partial(P.lp_pool2d, x, norm_type, window, 2)
    y = forward()
    return (forward, partial(P.lp_pool2d_backward, np.ones_like(y), x, y, norm_type, window, 2))


def _images(length):
    return _with_indices(partial(P.max_pool1d, np.moveaxis(common.array((100_000, length, 3)), -1, 1), 3, 1,
                                 return_indices=True), P.max_pool1d_backward, (100_000, 3, length))


def _rows(length):
    forward = partial(P.adaptive_avg_pool1d, common.array((100_000, 1, length)), 1)
    return (forward, partial(P.adaptive_avg_pool1d_backward, np.ones_like(forward()), (100_000, 1, length)))


def _adaptive_max():
    forward = partial(P.adaptive_max_pool2d, common.array(IMAGE), 13, return_indices=True)
    return _with_indices(forward, P.adaptive_max_pool2d_backward, IMAGE)


def _adaptive_avg():
    forward = partial(P.adaptive_avg_pool2d, common.array(IMAGE), 13)
    return (forward, partial(P.adaptive_avg_pool2d_backward, np.ones_like(forward()), IMAGE))


def _fractional():
    samples = np.random.default_rng(1).random((*IMAGE[:2], 2), dtype=np.float32)
    forward = partial(
        P.fractional_max_pool2d, common.array(IMAGE), 2, output_ratio=0.7, return_indices=True, random_samples=samples
    )
    return _with_indices(forward, P.fractional_max_pool2d_backward, IMAGE)


def _unpool():
    y, indices = P.max_pool2d(common.array(IMAGE), 2, return_indices=True)
    forward = partial(P.max_unpool2d, y, indices, 2)
    return (forward, partial(P.max_unpool2d_backward, np.ones_like(forward()), indices))


def _global_max():
    return _with_indices(
        partial(P.global_max_pool, common.array(IMAGE), return_indices=True), P.global_max_pool_backward, IMAGE
    )


def _global_avg():
    forward = partial(P.global_avg_pool, common.array(IMAGE))
    return (forward, partial(P.global_avg_pool_backward, np.ones_like(forward()), IMAGE))


def _segments(kind, count, rows, channels):
    """Segments of `rows` rows on average: graphs, voxels."""
    offsets = P.segment_offsets(lengths=np.random.default_rng(0).integers(rows // 2, rows + rows // 2 + 1, count))
    x = common.array((int(offsets[-1]), channels))
    if kind == "max":
        forward = partial(P.segment_max_pool, x, offsets, return_indices=True)
        return _with_indices(forward, P.segment_max_pool_backward, x.shape)
    forward = partial(P.segment_avg_pool, x, offsets)
    return (forward, partial(P.segment_avg_pool_backward, np.ones_like(forward()), offsets, x.shape))


#: name: what makes the pair (forward, backward)
OPERATIONS = {
    "max_pool1d": partial(_max, 1, SIGNAL),
    "max_pool3d": partial(_max, 3, VOLUME),
    "avg_pool1d": partial(_avg, 1, SIGNAL),
    "avg_pool3d": partial(_avg, 3, VOLUME),
    "avg_pool2d, padding not counted": partial(_avg, 2, IMAGE, count_include_pad=False),
    "lp_pool2d p=2": partial(_lp, 2),
    "lp_pool2d p=3.5": partial(_lp, 3.5),
    "lp_pool2d p=2 of 7x7": partial(_lp, 2, (64, 256, 7, 7), 2),
    "max_pool1d of 3x8 channels last": partial(_images, 8),
    "adaptive_avg_pool1d of rows of 12": partial(_rows, 12),
    "adaptive_max_pool2d": _adaptive_max,
    "adaptive_avg_pool2d": _adaptive_avg,
    "fractional_max_pool2d": _fractional,
    "max_unpool2d": _unpool,
    "global_max_pool": _global_max,
    "global_avg_pool": _global_avg,
    "segment_max_pool of 128 graphs": partial(_segments, "max", 128, 23, 64),
    "segment_max_pool of 20,000 voxels": partial(_segments, "max", 20_000, 8, 64),
    "segment_avg_pool of 128 graphs": partial(_segments, "avg", 128, 23, 64),
    "segment_avg_pool of 20,000 voxels": partial(_segments, "avg", 20_000, 8, 64),
}


@lru_cache(maxsize=1)
def _prepare(operation, direction):
    common.use_threads(common.THREADS)
    return common.compiled(OPERATIONS[operation]()[direction])


class FamilyForward(Timed):
    """Forward, one moderate shape each; maxima with indices."""

    param_names = ("operation",)
    params = (list(OPERATIONS),)

    def setup(self, operation):
        self.call = _prepare(operation, 0)

    def time_forward(self, operation):
        self.call()


class FamilyBackward(Timed):
    """Backward, on the same shapes."""

    param_names = ("operation",)
    params = (list(OPERATIONS),)

    def setup(self, operation):
        self.call = _prepare(operation, 1)

    def time_backward(self, operation):
        self.call()
