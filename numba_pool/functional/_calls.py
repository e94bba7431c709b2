"""The calls that several families share: allocate, run one kernel, restore the shape."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import _arrays as arrays
from .._arrays import Array, Planes, Shape
from .._runtime import launch
from ..kernels import indices as index_kernels
from ..kernels import maximum

Tables = NDArray[np.int64]
F = TypeVar("F")
INT32_LIMIT = 2**31 - 1


def ranked(function: F, rank: int) -> F:
    """Give the function made for one spatial rank its public name, `pool` -> `pool2d`, and its docstring's rank."""
    f: Any = function
    base, *rest = f.__name__.partition("_backward")
    f.__name__ = f"{base}{rank}d{''.join(rest)}"
    f.__qualname__ = f.__name__
    f.__doc__ = f.__doc__.replace("{d}", f"{rank}d").replace("{spatial}", ("L", "H, W", "D, H, W")[rank - 1])
    return function


def check_bool(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool, got {value!r}")
    return bool(value)


def check_plane(spatial: Shape, wanted: bool) -> None:
    """int32 indices reach 2^31 - 1 elements of a plane."""
    size = 1
    for n in spatial:
        size *= n
    if wanted and size > INT32_LIMIT:
        raise ValueError(
            f"return_indices needs planes of at most {INT32_LIMIT} elements (indices are int32), "
            f"got {size} for spatial shape {spatial}"
        )


def max_forward(x: Planes, output: Shape, tables: Tables, return_indices: bool, out: Any) -> Any:
    """Maximum over the windows of `tables`: y, or (y, indices)."""
    shape = (*x.lead, *output)
    out_y, out_i = out, None
    if return_indices and out is not None:
        if not (isinstance(out, (tuple, list)) and len(out) == 2):
            raise TypeError(f"out must be a pair (y, indices) when return_indices is True, got {type(out).__name__}")
        out_y, out_i = out
        arrays.check_out(out_i, shape, np.int32, "out[1]")
        arrays.check_out(out_y, shape, x.flat.dtype, "out[0]")
        if np.may_share_memory(out_y, out_i):
            raise ValueError("out must be two arrays that do not overlap, got overlapping ones")
    elif out is not None:
        arrays.check_out(out, shape, x.flat.dtype)
    y = arrays.output(shape, x.flat.dtype, x.rank, x.last, out_y, x.flat)
    i = arrays.output(shape, np.int32, x.rank, x.last, out_i, x.flat) if return_indices else None
    source, written = arrays.widen(x.flat), arrays.wide_output(y)
    launch(maximum.max_rows, maximum.max_rows_parallel, x.count * int(np.prod(output[:-1])), source.nbytes,
           source, written, None if i is None else i.flat, tables)
    result = arrays.finish(y, written)
    return result if i is None else (result, i.finish())


def input_shape_of(value: Any, rank: int, lead: Shape) -> Shape:
    """Validate `input_shape` of a backward against the batch and channel axes of `grad_output`."""
    from .._geometry import bounded, integer

    if not isinstance(value, (tuple, list)):
        raise TypeError(f"input_shape must be a tuple of ints, got {value!r}")
    shape = tuple(bounded(integer(n, "input_shape"), "input_shape", 0) for n in value)
    if len(shape) != rank + len(lead) or shape[:-rank] != lead:
        raise ValueError(
            f"input_shape must be {(*lead, *('...',) * rank)}: batch and channels as in grad_output, "
            f"then {rank} spatial axes; got {shape}"
        )
    return shape


def scatter(grad: Planes, indices: Any, shape: Shape, out: Any, accumulate: bool) -> Array:
    """Zeros of `shape` with every element of `grad` added (or put) at its index within its plane."""
    index = arrays.index_array(indices, grad.shape, grad.rank, grad.last)
    if out is not None:
        arrays.check_out(out, shape, grad.flat.dtype)
    target = arrays.output(shape, grad.flat.dtype, grad.rank, grad.last, out, grad.flat, index)
    source, written = arrays.widen(grad.flat), arrays.wide_output(target)
    plane, per_plane = int(np.prod(shape[-grad.rank :])), int(np.prod(grad.spatial))
    bad = launch(index_kernels.scatter_planes, index_kernels.scatter_planes_parallel, grad.count, written.nbytes,
                 source, index, written, grad.channels, plane, per_plane, grad.last, accumulate)
    if bad:
        raise ValueError(
            f"indices must lie in [0, {plane}) for planes of shape {shape[-grad.rank:]}, got {bad} that do not"
        )
    return arrays.finish(target, written)


def gather(x: Planes, indices: Any, out: Any) -> Array:
    """The elements of every plane of `x` at the indices of that plane."""
    index = np.asarray(indices)
    if index.shape[: -x.rank] != x.lead or index.ndim != len(x.shape):
        raise ValueError(f"indices must have batch and channels {x.lead} and {x.rank} spatial axes, got {index.shape}")
    flat_index = arrays.index_array(index, index.shape, x.rank, x.last)
    if out is not None:
        arrays.check_out(out, index.shape, x.flat.dtype)
    target = arrays.output(index.shape, x.flat.dtype, x.rank, x.last, out, x.flat, flat_index)
    source, written = arrays.widen(x.flat), arrays.wide_output(target)
    plane = int(np.prod(x.spatial))
    bad = launch(index_kernels.gather_planes, index_kernels.gather_planes_parallel, x.count, written.nbytes,
                 source, flat_index, written, x.channels, plane, int(np.prod(index.shape[-x.rank :])), x.last)
    if bad:
        raise ValueError(f"indices must lie in [0, {plane}) for planes of shape {x.spatial}, got {bad} that do not")
    return arrays.finish(target, written)
