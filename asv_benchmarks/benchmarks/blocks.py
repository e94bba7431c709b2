"""Blocks that do not overlap: coarsening of images and of volumes of labels, and pyramids."""

from functools import lru_cache, partial

import numpy as np

import numba_pool as P

from . import common
from .pooling import Timed

IMAGE, LENGTH = (2048, 2048), 128
DTYPES = ["uint8", "uint16", "float32"]
#: name: (windows, reduction)
OPERATIONS = {
    "mean 2x2": (2, "mean"),
    "median 2x2": (2, "median"),
    "max 2x2": (2, "max"),
    "mean 3x5": ((3, 5), "mean"),
}
WINDOWS = {"1x2x2": (1, 2, 2), "2x2x2": 2}


@lru_cache(maxsize=1)  # asv runs setup again before every sample
def _image(operation, dtype):
    common.use_threads(common.THREADS)
    return common.compiled(partial(P.coarsen, common.array(IMAGE, dtype), *OPERATIONS[operation], boundary="trim"))


@lru_cache(maxsize=1)
def _without_nan(factor):
    common.use_threads(common.THREADS)
    return common.compiled(partial(P.coarsen, common.with_nan(IMAGE), factor, "nanmean"))


@lru_cache(maxsize=1)
def _labels(window, kind):
    common.use_threads(common.THREADS)
    return common.compiled(partial(P.coarsen, common.labels(kind, LENGTH), WINDOWS[window], "mode"))


@lru_cache(maxsize=1)
def _pyramid(reduction, dtype):
    common.use_threads(common.THREADS)
    return common.compiled(partial(P.pyramid, common.array(IMAGE, dtype), 2, None, reduction, smallest=64))


class Image(Timed):
    """An image of 2048x2048."""

    param_names = ("operation", "dtype")
    params = (list(OPERATIONS), DTYPES)

    def setup(self, operation, dtype):
        self.call = _image(operation, dtype)

    def time_coarsen(self, operation, dtype):
        self.call()


class ImageWithNaN(Timed):
    """Means of what is there, in a float32 image of which a tenth is NaN."""

    param_names = ("factor",)
    params = ([2, 4],)

    def setup(self, factor):
        self.call = _without_nan(factor)

    def time_nanmean(self, factor):
        self.call()


class Labels(Timed):
    """The most frequent of uint64 labels in a volume of 128x128x128."""

    param_names = ("window", "labels")
    params = (list(WINDOWS), ["blocky", "random"])

    def setup(self, window, labels):
        self.call = _labels(window, labels)

    def time_mode(self, window, labels):
        self.call()


class Pyramid(Timed):
    """Five levels of an image of 2048x2048, by twos, to 64x64."""

    param_names = ("reduction", "dtype")
    params = (["mean", "max"], ["uint8", "float32"])

    def setup(self, reduction, dtype):
        self.call = _pyramid(reduction, dtype)

    def time_pyramid(self, reduction, dtype):
        self.call()


class ImageControl(Timed):
    """A plain copy of the image into warm memory, to hold coarsening against."""

    param_names = ("dtype",)
    params = (DTYPES,)

    def setup(self, dtype):
        self.source = common.array(IMAGE, dtype)
        self.target = np.zeros_like(self.source)

    def time_copy(self, dtype):
        np.copyto(self.target, self.source)
