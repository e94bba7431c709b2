"""Pooling as functions. Names, argument order and defaults are those of ``torch.nn.functional``.

A docstring in these files has what is particular to its function. What many have in common stands in `_docstrings`.
"""

from .._dispatch.refused import NotCompiled
from ._shapes import output_shape
from .adaptive import (
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
)
from .average import (
    avg_pool1d,
    avg_pool1d_backward,
    avg_pool2d,
    avg_pool2d_backward,
    avg_pool3d,
    avg_pool3d_backward,
    sum_pool1d,
    sum_pool1d_backward,
    sum_pool2d,
    sum_pool2d_backward,
    sum_pool3d,
    sum_pool3d_backward,
)
from .fractional import (
    fractional_max_pool2d,
    fractional_max_pool2d_backward,
    fractional_max_pool3d,
    fractional_max_pool3d_backward,
)
from .lp import lp_pool1d, lp_pool1d_backward, lp_pool2d, lp_pool2d_backward, lp_pool3d, lp_pool3d_backward
from .maximum import (
    max_pool1d,
    max_pool1d_backward,
    max_pool2d,
    max_pool2d_backward,
    max_pool3d,
    max_pool3d_backward,
    min_pool1d,
    min_pool1d_backward,
    min_pool2d,
    min_pool2d_backward,
    min_pool3d,
    min_pool3d_backward,
)
from .segments import (
    segment_avg_pool,
    segment_avg_pool_backward,
    segment_max_pool,
    segment_max_pool_backward,
    segment_min_pool,
    segment_min_pool_backward,
    segment_offsets,
    segment_sum_pool,
    segment_sum_pool_backward,
)
from .unpool import (
    max_unpool1d,
    max_unpool1d_backward,
    max_unpool2d,
    max_unpool2d_backward,
    max_unpool3d,
    max_unpool3d_backward,
)
from .whole import (
    global_avg_pool,
    global_avg_pool_backward,
    global_max_pool,
    global_max_pool_backward,
    global_min_pool,
    global_min_pool_backward,
    global_sum_pool,
    global_sum_pool_backward,
)

__all__ = [name for name in dir()
           if "_pool" in name or "_unpool" in name or name in ("output_shape", "segment_offsets")]

for _name in __all__:
    globals()[_name]._numba_type_ = NotCompiled(_name)
