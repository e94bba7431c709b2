"""Layers: a function of `numba_pool.functional` with its arguments, and what its backward needs of the last forward."""

from ._layer import Layer
from .adaptive import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
)
from .average import AvgPool1d, AvgPool2d, AvgPool3d, SumPool1d, SumPool2d, SumPool3d
from .fractional import FractionalMaxPool2d, FractionalMaxPool3d
from .lp import LPPool1d, LPPool2d, LPPool3d
from .maximum import MaxPool1d, MaxPool2d, MaxPool3d, MinPool1d, MinPool2d, MinPool3d
from .segments import SegmentAvgPool, SegmentMaxPool, SegmentMinPool, SegmentSumPool
from .unpool import MaxUnpool1d, MaxUnpool2d, MaxUnpool3d
from .whole import GlobalAvgPool, GlobalMaxPool, GlobalMinPool, GlobalSumPool

__all__ = [name for name in dir() if name[0].isupper()]
