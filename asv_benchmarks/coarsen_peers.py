"""What compare_coarsen.py times: the cases, the libraries that reduce blocks, and whether a result is right."""

from collections.abc import Iterator
from functools import partial, reduce
from itertools import product
from typing import NamedTuple

import numba
import numpy as np
from benchmarks import common

DTYPES = ("uint8", "uint16", "float32")
IMAGES = (("mean", (2, 2)), ("max", (2, 2)), ("median", (2, 2)), ("mean", (3, 5)))
LABELS = ("blocky", "random")


class Case(NamedTuple):
    """An array, and the reduction of its blocks."""

    x: np.ndarray
    window: tuple[int, ...]
    reduction: str
    kind: str = ""

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.reduction, "x".join(map(str, self.window)), self.kind)))


def cases(size: int, length: int) -> Iterator[Case]:
    """Images of size x size, as far as blocks cover them, and volumes of labels of a length."""
    for dtype, (reduction, window) in product(DTYPES, IMAGES):
        yield Case(common.array(tuple(size // f * f for f in window), dtype), window, reduction)
    for window in ((2, 2), (4, 4)):
        yield Case(common.with_nan((size, size)), window, "nanmean")
    for kind, window in product(LABELS, ((1, 2, 2), (2, 2, 2))):
        yield Case(common.labels(kind, length), window, "mode", kind)


# ---- peers: each gives the call for a case, or None where it has no such reduction
NUMPY = {"mean": np.mean, "max": np.max, "median": np.median, "nanmean": np.nanmean}


def view(case: Case) -> np.ndarray:
    """Two axes for each axis: blocks, and elements of a block."""
    return case.x.reshape([n for length, f in zip(case.x.shape, case.window) for n in (length // f, f)])


def inner(case: Case) -> tuple[int, ...]:
    """The axes of `view` with the elements of a block."""
    return tuple(range(1, 2 * case.x.ndim, 2))


def by_numpy(case, threads):
    function = NUMPY.get(case.reduction)
    return function and partial(function, view(case), axis=inner(case))


def by_slices(case, threads):
    """NumPy, one strided slice for each element of a block."""
    slices = [case.x[tuple(slice(i, None, f) for i, f in zip(at, case.window))] for at in np.ndindex(*case.window)]
    if case.reduction == "max":
        return lambda: reduce(np.maximum, slices)
    if case.reduction == "mean" and case.x.dtype.kind == "f":
        return lambda: reduce(np.add, slices) / len(slices)
    return None


_greatest = numba.njit(lambda a, b, c, d: max(max(a, b), max(c, d)))
OF_FOUR = {
    ("mean", "u"): numba.njit(lambda a, b, c, d: (np.uint32(a) + np.uint32(b) + np.uint32(c) + np.uint32(d) + 2) >> 2),
    ("mean", "f"): numba.njit(lambda a, b, c, d: (a + b + c + d) * np.float32(0.25)),
    ("max", "u"): _greatest,
    ("max", "f"): _greatest,
}


def by_lines(case, threads):
    """Ten lines of @njit, such as one writes in a minute, which write into an array that is there."""
    x, window = case.x, case.window
    y = np.empty([n // f for n, f in zip(x.shape, window)], x.dtype)
    if case.reduction == "nanmean":
        return partial(_lines_nanmean(threads > 1), x, y, window[0])
    function = OF_FOUR.get((case.reduction, x.dtype.kind)) if window == (2, 2) else None
    return function and partial(_lines_of_four(function, threads > 1), x, y)


def _lines_of_four(function, parallel):
    @numba.njit(parallel=parallel)
    def lines(x, y):
        for i in numba.prange(y.shape[0]):
            for j in range(y.shape[1]):
                y[i, j] = function(x[2 * i, 2 * j], x[2 * i, 2 * j + 1], x[2 * i + 1, 2 * j], x[2 * i + 1, 2 * j + 1])
        return y

    return lines


def _lines_nanmean(parallel):
    @numba.njit(parallel=parallel)
    def lines(x, y, f):
        for i in numba.prange(y.shape[0]):
            for j in range(y.shape[1]):
                total, n = 0.0, 0
                for p in range(f):
                    for q in range(f):
                        v = x[i * f + p, j * f + q]
                        if v == v:
                            total += v
                            n += 1
                y[i, j] = total / n if n else np.nan
        return y

    return lines


def by_tinybrain(case, threads):
    """Its axes are in column-major order, so that it needs no copy."""
    import tinybrain

    function = {"mean": tinybrain.downsample_with_averaging, "max": tinybrain.downsample_with_max_pooling,
                "mode": tinybrain.downsample_segmentation}.get(case.reduction)
    return function and (lambda: function(case.x.T, case.window[::-1], num_mips=1)[0].T)


def by_tensorstore(case, threads):
    import tensorstore

    if case.reduction == "nanmean":
        return None
    return lambda: tensorstore.downsample(tensorstore.array(case.x), case.window, case.reduction).read().result()


def by_opencv(case, threads):
    import cv2

    cv2.setNumThreads(threads)
    size = tuple(n // f for n, f in zip(case.x.shape, case.window))[::-1]
    return partial(cv2.resize, case.x, size, interpolation=cv2.INTER_AREA) if case.reduction == "mean" else None


def by_xarray(case, threads):
    import xarray

    array, reduction = xarray.DataArray(case.x), case.reduction.removeprefix("nan")  # which it leaves out by itself
    windows = dict(zip(array.dims, case.window))
    return None if reduction == "mode" else lambda: getattr(array.coarsen(windows), reduction)().values


def by_numbagg(case, threads):
    import numbagg

    function = getattr(numbagg, f"nan{case.reduction.removeprefix('nan')}", None)
    return partial(function, view(case), axis=inner(case)) if function and case.x.dtype.kind == "f" else None


def by_skimage(case, threads):
    from skimage.measure import block_reduce

    function = NUMPY.get(case.reduction)
    return function and partial(block_reduce, case.x, case.window, function)


#: name: (module, what makes the call)
PEERS = {
    "NumPy": ("numpy", by_numpy),
    "NumPy, slices": ("numpy", by_slices),
    "ten lines of njit": ("numba", by_lines),
    "tinybrain": ("tinybrain", by_tinybrain),
    "TensorStore": ("tensorstore", by_tensorstore),
    "OpenCV": ("cv2", by_opencv),
    "xarray": ("xarray", by_xarray),
    "numbagg": ("numbagg", by_numbagg),
    "scikit-image": ("skimage", by_skimage),
}


def agree(case: Case, y: np.ndarray) -> bool:
    """Whether y is the reduction, by NumPy. Any rounding of a mean will do, any of the values that are equally frequent
    for a mode, and for a median whatever is between the two in the middle.
    """
    blocks = np.moveaxis(view(case), inner(case), range(-case.x.ndim, 0))
    blocks = blocks.reshape(*blocks.shape[: case.x.ndim], -1)
    if y.shape != blocks.shape[:-1]:
        return False
    if case.reduction == "median":
        ordered, middle = np.sort(blocks), blocks.shape[-1] // 2
        return bool(((ordered[..., -middle - 1] <= y) & (y <= ordered[..., middle])).all())
    if case.reduction == "mode":
        frequencies = [(blocks == blocks[..., i, None]).sum(-1) for i in range(blocks.shape[-1])]
        return bool(((blocks == y[..., None]).sum(-1) == np.max(frequencies, axis=0)).all())
    rounding = 1 if "mean" in case.reduction and case.x.dtype.kind in "iu" else 1e-6
    return np.allclose(y, NUMPY[case.reduction](blocks, axis=-1), rtol=1e-5, atol=rounding, equal_nan=True)
