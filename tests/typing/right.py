"""Right uses of numba_pool: a type checker has nothing to say. Never run; `test_types.py` has it checked."""

from typing import Any, TypeVar, assert_type

import numpy as np
from numpy.typing import NDArray

import numba_pool as nb
from numba_pool import functional as F

Indices = NDArray[np.int32]
S = NDArray[np.float32]
D = NDArray[np.float64]
Either = NDArray[Any] | tuple[NDArray[Any], Indices]
Real = TypeVar("Real", np.float32, np.float64)

x = np.ones((2, 3, 8, 8), np.float32)
d = np.ones((2, 3, 8, 8))
signal, volume = np.ones((3, 9), np.float32), np.ones((1, 3, 4, 4, 4), np.float64)
images = np.ones((2, 8, 8, 3), np.uint8)
anything: NDArray[Any] = d.astype("bfloat16")
flag = bool(x.sum())


# 1 to 8: windows
assert_type(nb.max_pool2d(x, 2), S)
assert_type(F.max_pool2d(d, (3, 2), stride=1, padding=((0, 1), 1), dilation=(1, 2), ceil_mode=True), D)
assert_type(nb.max_pool1d(signal, kernel_size=3, padding="same"), S)
assert_type(nb.max_pool3d(volume, (2, 2, 1), (1, 1, 1), "same_lower"), D)
assert_type(nb.min_pool2d(images, [2, 2], channel_axis=-1), NDArray[np.uint8])
assert_type(nb.avg_pool2d(x, 3, 2, 1, True, False, 4), S)
assert_type(nb.sum_pool2d(images, np.int64(2), dilation=2), NDArray[np.uint8])
assert_type(nb.lp_pool1d(signal, np.inf, 2, padding=((0, 1),)), S)

# 9 to 14: indices
assert_type(nb.max_pool2d(x, 2, return_indices=True), tuple[S, Indices])
assert_type(nb.max_pool2d(x, 2, None, 0, 1, False, True), tuple[S, Indices])
assert_type(nb.max_pool2d(x, 2, return_indices=flag), Either)
assert_type(nb.min_pool1d(signal, 2, return_indices=False), S)
assert_type(nb.global_max_pool(d, True), tuple[D, Indices])
assert_type(nb.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.7), rng=0, return_indices=True), tuple[S, Indices])

# 15 to 19: other forwards
assert_type(nb.adaptive_avg_pool2d(x, (None, 3)), S)
assert_type(nb.adaptive_max_pool3d(volume, 2, True), tuple[D, Indices])
assert_type(nb.global_sum_pool(x, channel_axis=1), S)
assert_type(nb.max_pool2d([[[1, 2.5], [3, 4]]], 2), NDArray[Any])
assert_type(nb.avg_pool2d(anything, 2), NDArray[Any])

# 20 to 25: out= and gradients
y, indices = nb.max_pool2d(x, 2, out=(np.empty((2, 3, 4, 4), np.float32), np.empty((2, 3, 4, 4), np.int32)),
                           return_indices=True)  # fmt: skip
assert_type(nb.avg_pool2d(x, 2, out=y), S)
assert_type(nb.max_pool2d_backward(y, indices, x.shape, out=np.empty_like(x)), S)
assert_type(nb.avg_pool2d_backward(y, [2, 3, 8, 8], 2, padding="valid"), S)
assert_type(nb.lp_pool2d_backward(y, x, y, 2, 2, channel_axis=None), S)
assert_type(nb.max_unpool2d_backward(nb.max_unpool2d(y, indices, 2, output_size=(8, 8)), indices.astype(np.int64)), S)


# 26 to 31: layers
def step(pool: nb.MaxPool2d, head: nb.GlobalAvgPool) -> S:
    upstream: S = head.backward(head(pool(x)))
    return assert_type(pool.backward(upstream), S)


def both(layer: nb.MaxPool2d | nb.AvgPool2d, array: NDArray[Real]) -> NDArray[Real]:
    return layer.train().forward(array)


assert_type(nb.MaxPool2d(2, return_indices=True)(x), tuple[S, Indices])
assert_type(nb.AdaptiveMaxPool1d(2, return_indices=flag)(signal), S | tuple[S, Indices])
assert_type(nb.MaxUnpool2d(2, output_size=(8, 8))(y, indices), S)
assert_type(nb.AvgPool2d(2, count_include_pad=False).count_include_pad, bool)
layers: list[nb.layers.Layer] = [nb.LPPool2d(2, 3, padding="same"), nb.MinPool2d(2), nb.SumPool3d((1, 2, 2))]

# 32 to 36: around them
with nb.threads(2):
    nb.warmup(x, "float32", np.float64, progress=True)
assert_type(nb.output_shape(nb.max_pool2d, x.shape, 2, stride=1), tuple[int, ...])
plan = nb.plan(nb.max_pool2d, x.shape, np.float32, 2, return_indices=True)
nb.run(plan, x, y, indices)
assert_type(nb.show_config("dicts"), dict[str, dict[str, Any]])

# 37 to 44: blocks
assert_type(nb.coarsen(images, {1: 2, -2: 2}), NDArray[Any])
assert_type(nb.coarsen(signal, 3, "nanmedian", boundary={1: "short"}, side="right", where=signal > 0), NDArray[Any])
assert_type(nb.coarsen([[1, 2], [3, 4]], (1, 2), weights=[1.0, 2.0], dtype="float32", min_count=2), NDArray[Any])
assert_type(nb.coarsen(images, 2, "mode", ties="lowest", ignore=0, missing=255, out=images[:1]), NDArray[Any])
assert_type(nb.pyramid(images, axes=(1, 2), levels=3, rounding="nearest"), list[NDArray[Any]])
for region in nb.pyramid_regions((100, 80), {0: 16, 1: 32}, [{0: 2}, 2], boundary="trim"):
    assert_type(nb.pyramid_block(d[region.source], region, "max", nan_policy="omit"), list[NDArray[Any]])
nb.reducers.nanmean(d, axis=(1, 3), min_count=2)

# 45 to 50: segments
offsets = nb.segment_offsets(ids=[0, 0, 1], count=3)
assert_type(nb.segment_max_pool(signal, offsets), S)
assert_type(nb.segment_min_pool(d, [0, 1, 2], True), tuple[D, Indices])
assert_type(nb.segment_avg_pool_backward(signal, offsets, (3, 9), nan_policy="omit", x=signal), S)
assert_type(nb.SegmentMaxPool(return_indices=True)(x, offsets), tuple[S, Indices])
assert_type(nb.SegmentSumPool().forward(images, offsets), NDArray[np.uint8])
