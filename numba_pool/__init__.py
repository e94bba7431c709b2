"""Pooling for convolutional networks, and downsampling of large arrays, on NumPy arrays, compiled by Numba.

Pooling, forward and backward: arrays are (N, C, *spatial) or (C, *spatial) of one, two or three spatial axes; global
pooling takes batches only. {d} stands for 1d, 2d and 3d. Names, arguments and defaults are those of
``torch.nn.functional``. Every pooling function has a gradient, by its name and ``_backward``, and is a layer, too:
``max_pool2d`` is ``MaxPool2d``.

Ragged batches: ``segment_max_pool`` and its like take rows, and where each segment of them begins.

Downsampling of images, volumes, labels and grids: ``coarsen`` and ``pyramid``, for arrays of any number of axes.

==============================  ===================================================================
``max_pool{d}``                 Maximum over sliding windows; with its indices, if they are wanted.
``min_pool{d}``                 Minimum over sliding windows; with its indices, if they are wanted.
``avg_pool{d}``                 Average over sliding windows.
``sum_pool{d}``                 Sum over sliding windows.
``lp_pool{d}``                  Lp norm of sliding windows.
``adaptive_max_pool{d}``        Maximum over as many windows as the output is to have elements.
``adaptive_avg_pool{d}``        Average over as many windows as the output is to have elements.
``fractional_max_pool{2,3}d``   Maximum over windows at pseudo-random starts.
``max_unpool{d}``               Zeros, with every element at its index: undoes max pooling in part.
``global_max_pool``             Maximum of every plane.
``global_min_pool``             Minimum of every plane.
``global_avg_pool``             Average of every plane.
``global_sum_pool``             Sum of every plane.
``segment_max_pool``            Maximum of every segment of the rows: sentences, graphs, voxels.
``segment_min_pool``            Minimum of every segment of the rows.
``segment_avg_pool``            Average of every segment of the rows.
``segment_sum_pool``            Sum of every segment of the rows.
``segment_offsets``             Where segments begin, by their lengths or by ids.
``coarsen``                     Means, medians, modes and more of blocks of an array, along any axes.
``pyramid``                     An array, coarsened again and again.
``pyramid_regions``             Regions whose part of every level can be made and written by itself.
``pyramid_block``               What one such region makes of every level.
``reducers``                    The reductions of ``coarsen``, for ``dask.array.coarsen`` and xarray.
``output_shape``                The shape of a result, with nothing computed.
``plan``                        What ``run`` and ``run_backward`` take inside your own ``@njit`` code.
``run``                         Pool by a plan, in compiled code.
``run_backward``                The gradient by a plan, in compiled code.
``warmup``                      Compile in set-up time what will be needed.
``set_num_threads``             How many threads pooling may use; 1 stands for serial kernels.
``get_num_threads``             How many threads pooling uses.
``threads``                     The same inside a ``with`` block.
``empty_pool``                  Give memory kept for large results back to the system.
``explain``                     How a call would be computed, and why.
``show_config``                 What numba_pool runs on here, for bug reports.
==============================  ===================================================================
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _collector  # noqa: F401  # before the others, which it imports

# isort: split
from ._memory import empty_pool
from ._names import SUBMODULES, hint
from ._runtime import get_num_threads, set_num_threads, threads
from .functional import (
    adaptive_avg_pool1d,
    adaptive_avg_pool1d_backward,
    adaptive_avg_pool2d,
    adaptive_avg_pool2d_backward,
    adaptive_avg_pool3d,
    adaptive_avg_pool3d_backward,
    adaptive_max_pool1d,
    adaptive_max_pool1d_backward,
    adaptive_max_pool2d,
    adaptive_max_pool2d_backward,
    adaptive_max_pool3d,
    adaptive_max_pool3d_backward,
    avg_pool1d,
    avg_pool1d_backward,
    avg_pool2d,
    avg_pool2d_backward,
    avg_pool3d,
    avg_pool3d_backward,
    fractional_max_pool2d,
    fractional_max_pool2d_backward,
    fractional_max_pool3d,
    fractional_max_pool3d_backward,
    global_avg_pool,
    global_avg_pool_backward,
    global_max_pool,
    global_max_pool_backward,
    global_min_pool,
    global_min_pool_backward,
    global_sum_pool,
    global_sum_pool_backward,
    lp_pool1d,
    lp_pool1d_backward,
    lp_pool2d,
    lp_pool2d_backward,
    lp_pool3d,
    lp_pool3d_backward,
    max_pool1d,
    max_pool1d_backward,
    max_pool2d,
    max_pool2d_backward,
    max_pool3d,
    max_pool3d_backward,
    max_unpool1d,
    max_unpool1d_backward,
    max_unpool2d,
    max_unpool2d_backward,
    max_unpool3d,
    max_unpool3d_backward,
    min_pool1d,
    min_pool1d_backward,
    min_pool2d,
    min_pool2d_backward,
    min_pool3d,
    min_pool3d_backward,
    output_shape,
    segment_avg_pool,
    segment_avg_pool_backward,
    segment_max_pool,
    segment_max_pool_backward,
    segment_min_pool,
    segment_min_pool_backward,
    segment_offsets,
    segment_sum_pool,
    segment_sum_pool_backward,
    sum_pool1d,
    sum_pool1d_backward,
    sum_pool2d,
    sum_pool2d_backward,
    sum_pool3d,
    sum_pool3d_backward,
)
from .layers import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    FractionalMaxPool2d,
    FractionalMaxPool3d,
    GlobalAvgPool,
    GlobalMaxPool,
    GlobalMinPool,
    GlobalSumPool,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
    MinPool1d,
    MinPool2d,
    MinPool3d,
    SegmentAvgPool,
    SegmentMaxPool,
    SegmentMinPool,
    SegmentSumPool,
    SumPool1d,
    SumPool2d,
    SumPool3d,
)

if TYPE_CHECKING:
    from . import reducers
    from ._config import show_config
    from ._explain import explain
    from ._warmup import warmup
    from .blocks import coarsen, pyramid, pyramid_block, pyramid_regions
    from .jitted import plan, run, run_backward
else:
    _LAZY = dict.fromkeys(("plan", "run", "run_backward"), "jitted")
    _LAZY |= dict.fromkeys(("coarsen", "pyramid", "pyramid_block", "pyramid_regions"), "blocks")
    _LAZY |= {"explain": "_explain", "show_config": "_config", "warmup": "_warmup"}

    def __getattr__(name: str) -> Any:
        """What takes time to import, and not everybody needs."""
        if name == "reducers":
            return import_module(".reducers", __name__)
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint(name, __all__)}")
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)

    def __dir__() -> list[str]:
        return sorted({*__all__, *SUBMODULES, *(name for name in globals() if name.startswith("__"))})


__version__ = "1.1.0.dev0"

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "GlobalMinPool",
    "GlobalSumPool",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "MinPool1d",
    "MinPool2d",
    "MinPool3d",
    "SegmentAvgPool",
    "SegmentMaxPool",
    "SegmentMinPool",
    "SegmentSumPool",
    "SumPool1d",
    "SumPool2d",
    "SumPool3d",
    "__version__",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool1d_backward",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool2d_backward",
    "adaptive_avg_pool3d",
    "adaptive_avg_pool3d_backward",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_backward",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_backward",
    "avg_pool1d",
    "avg_pool1d_backward",
    "avg_pool2d",
    "avg_pool2d_backward",
    "avg_pool3d",
    "avg_pool3d_backward",
    "coarsen",
    "empty_pool",
    "explain",
    "fractional_max_pool2d",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d",
    "fractional_max_pool3d_backward",
    "get_num_threads",
    "global_avg_pool",
    "global_avg_pool_backward",
    "global_max_pool",
    "global_max_pool_backward",
    "global_min_pool",
    "global_min_pool_backward",
    "global_sum_pool",
    "global_sum_pool_backward",
    "lp_pool1d",
    "lp_pool1d_backward",
    "lp_pool2d",
    "lp_pool2d_backward",
    "lp_pool3d",
    "lp_pool3d_backward",
    "max_pool1d",
    "max_pool1d_backward",
    "max_pool2d",
    "max_pool2d_backward",
    "max_pool3d",
    "max_pool3d_backward",
    "max_unpool1d",
    "max_unpool1d_backward",
    "max_unpool2d",
    "max_unpool2d_backward",
    "max_unpool3d",
    "max_unpool3d_backward",
    "min_pool1d",
    "min_pool1d_backward",
    "min_pool2d",
    "min_pool2d_backward",
    "min_pool3d",
    "min_pool3d_backward",
    "output_shape",
    "plan",
    "pyramid",
    "pyramid_block",
    "pyramid_regions",
    "reducers",
    "run",
    "run_backward",
    "segment_avg_pool",
    "segment_avg_pool_backward",
    "segment_max_pool",
    "segment_max_pool_backward",
    "segment_min_pool",
    "segment_min_pool_backward",
    "segment_offsets",
    "segment_sum_pool",
    "segment_sum_pool_backward",
    "set_num_threads",
    "show_config",
    "sum_pool1d",
    "sum_pool1d_backward",
    "sum_pool2d",
    "sum_pool2d_backward",
    "sum_pool3d",
    "sum_pool3d_backward",
    "threads",
    "warmup",
]
