# Written by tests/typing/stubs.py: edit that.
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import functional as functional
from . import layers as layers
from . import reducers as reducers
from .blocks import coarsen, pyramid, pyramid_block, pyramid_regions
from .functional import (
    _Int,
    _Shape,
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
    global_lp_pool,
    global_lp_pool_backward,
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
    GlobalLPPool,
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
    SumPool1d,
    SumPool2d,
    SumPool3d,
)

__version__: str

class Plan:
    shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dtype: np.dtype[Any]

class Explanation:
    function: str
    kernel: str
    does: str
    rule: str
    memory: str
    units: int
    threads: int
    reason: str
    table_bytes: int
    compiled: str
    parts: tuple[str, ...]

def plan(
    function: Callable[..., Any],
    shape: _Shape,
    dtype: DTypeLike,
    *args: Any,
    channel_axis: int | None = None,
    **kwargs: Any,
) -> Plan: ...
def run(plan: Plan, x: NDArray[Any], out: NDArray[Any], indices: NDArray[np.int32] | None = None) -> None: ...
def run_backward(plan: Plan, grad_output: NDArray[Any], *arrays: NDArray[Any]) -> None: ...
def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation: ...
@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, dict[str, Any]]: ...
def warmup(*arrays_or_dtypes: NDArray[Any] | DTypeLike, progress: bool = False) -> None: ...
def set_num_threads(n: _Int) -> None: ...
def get_num_threads() -> int: ...
def threads(n: _Int) -> AbstractContextManager[None]: ...
def empty_pool() -> None: ...

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
    "GlobalLPPool",
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
    "global_lp_pool",
    "global_lp_pool_backward",
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
