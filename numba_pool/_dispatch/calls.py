"""What the functions of several families do: allocate results, run a kernel, and restore the shape."""

from functools import partial
from math import prod
from typing import Any

import numpy as np

from .. import _arrays as arrays
from .. import _runtime
from .._arrays import INT32, Array, Output, Planes, Shape
from .._runtime import get_num_threads, launch
from ..kernels import scatter as kernels
from ..kernels._job import Call
from .again import NO_ARGUMENTS, Calls, place, result_of

FEWEST_PARTS = 8  # units of work, at least, so that threads have something to share


def check_bool(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool, got {value!r}")
    return bool(value)


def check_pair(out: Any, return_indices: bool) -> None:
    """Check that `out` is a pair of arrays with `return_indices`, and else a single array. `outputs` checks the arrays.
    """
    pair = isinstance(out, (tuple, list))
    if out is not None and return_indices and not (pair and len(out) == 2):
        came = f"{len(out)} of them" if pair else type(out).__name__
        raise TypeError(f"out must be a pair (y, indices) with return_indices, got {came}")
    if pair and not return_indices:
        raise TypeError(f"out must be an ndarray without return_indices, got {type(out).__name__}")


def outputs(x: Planes, shape: Shape, return_indices: bool, out: Any) -> tuple[Output, Output | None]:
    """Make or check the arrays for a result, and for its int32 indices if these are wanted."""
    dtype = x.flat.dtype
    out_y, out_i = out, None
    if out is not None and return_indices:
        out_y, out_i = out
        arrays.check_out(out_i, shape, np.int32, "out[1]")
        arrays.check_out(out_y, shape, dtype, "out[0]")
        if np.may_share_memory(out_y, out_i):
            raise ValueError("out must be two arrays that do not overlap, got overlapping ones")
    y = arrays.output(shape, dtype, x.rank, x.last, out_y, x.flat)
    return y, arrays.output(shape, arrays.INT32, x.rank, x.last, out_i, x.flat) if return_indices else None


def forward(x: Planes, call: Call, out: Any) -> Any:
    """Run a maximum or an average by the long way: y, or (y, indices)."""
    y, i = outputs(x, call.shape, call.indexed, out)
    index = () if i is None else (i.flat,)
    given = arrays.raw(x.flat, call.seen), arrays.raw(y.flat, call.seen), *index
    if launch(call.worker, call.units, call.traffic, *given, *call.rest) or call.always:
        again = call.otherwise
        launch(again.worker, again.units, again.traffic, *given, *again.rest)
    return y.finish() if i is None else (y.finish(), i.finish())


def parts_of(call: Call) -> int:
    """Into how many ranges to split each unit, if units are too few for the threads. As few as possible: each range
    reads all indices of its unit.
    """
    units, threads = call.units, get_num_threads()
    if call.traffic < _runtime.SERIAL_BYTES or units >= 2 * threads:
        return 1
    return 2 if units > threads else -(-threads // max(units, 1))


def scatter(call: Call, rank: int, grad: Array, index: Array, target: Array, hint: str = "") -> None:
    """Run the call of a gradient by indices, or of unpooling, on arrays as kernels take them. If the call was a guess
    of the windows, and wrong, its `otherwise` is run. The `hint` says in an error why indices may lie outside.
    """
    if call.otherwise is not None:
        if index.dtype == INT32 and holds(call, grad, target, index):
            return
        call = call.otherwise
    parts = parts_of(call)
    bad = launch(call.worker, call.units * parts, call.traffic, grad, index, target, *call.rest, parts)
    if bad:
        accumulate = call.rest[-1]
        raise outside(index, call.shape[-rank:], -1 if accumulate else 0, bad, hint)


def holds(call: Call, *given: Array) -> bool:
    """Run a call that guesses the windows from the shapes. Returns whether the guess was right: then the result is
    there. A wrong guess nearly always shows in the first unit, so that one is tried alone before other threads are
    woken.
    """
    worker, units, traffic, rest = call.worker, call.units, call.traffic, call.rest
    if units > 1 and traffic >= _runtime.SERIAL_BYTES and launch(worker, 1, 0, *given, *rest) != 0:
        return False
    return bool(launch(worker, units, traffic, *given, *rest) == 0)


def outside(index: Array, plane: Shape, least: int, bad: int, hint: str = "") -> ValueError:
    """The error for `bad` indices outside of a plane. The `least` index that is allowed is -1 where a window may be
    empty, else 0.
    """
    size = prod(plane)
    wrong = index[(index < least) | (index >= size)]
    such = f", among them {wrong[0]}" if wrong.size else ""  # another thread may have changed them since
    if wrong[:1] == -1:
        hint = "; -1 is that of a window without any valid element"
    return ValueError(f"indices must lie in [0, {size}) for planes of shape {plane}, got {bad} outside{such}{hint}")


BY_INT32 = INT32.itemsize, *NO_ARGUMENTS[1:]  # what a key holds for a gradient by int32 indices: the bytes of an index


def scattered(kept: Calls, plan: Any, rank: int, name: str, grad: Any, indices: Any, shape: Any, out: Any,
              arguments: tuple[Any, ...] = BY_INT32, hint: str = "") -> Array:
    """Zeros, with every element of `grad` added, or put, where its index leads within its plane. Gradients of maxima
    and unpooling call this.

    `plan` makes the `Call`, from `shape` among other things. `name` is what the caller calls `grad`, for errors. The
    first of the `arguments` is the number of bytes of an index; the shortest way is for 4.
    """
    call = kept.find(grad, arguments, shape)
    if call is not None and arrays.is_index(indices, grad.shape, call.to_last):
        if out is None:
            target = call.make(call.memory_shape, grad.dtype)
        else:
            target = place(call, out, grad.dtype, grad, indices)
        if target is not None:
            source, written = arrays.raw(grad.ravel("K"), call.seen), arrays.raw(target.ravel(), call.seen)
            scatter(call, rank, source, indices.ravel("K"), written, hint)
            return result_of(call, target) if out is None else out  # type: ignore[no-any-return]
    p = arrays.planes(grad, rank, name, empty=name == "grad_output")
    index = arrays.index_array(indices, p.shape, rank, p.last, name, p.flat.dtype.kind)
    to_run = partial(scattered_long, index=index, hint=hint)
    result: Array = kept.long(grad, p, (index.itemsize, *arguments[1:]), plan, to_run, out, shape, index.dtype)
    return result


def scattered_long(grad: Planes, call: Call, out: Any, index: Array, hint: str) -> Array:
    target = arrays.output(call.shape, grad.flat.dtype, grad.rank, grad.last, out, grad.flat, index)
    scatter(call, grad.rank, arrays.raw(grad.flat), index, arrays.raw(target.flat), hint)
    return target.finish()


def gather(x: Planes, indices: Any, out: Any) -> Array:
    """The elements of every plane of `x` at the indices of that plane: the gradient of unpooling."""
    index = np.asarray(arrays.ndarray(indices, "indices"))
    if index.shape[: -x.rank] != x.lead or index.ndim != len(x.shape):
        raise ValueError(f"indices must have batch and channels {x.lead} and {x.rank} spatial axes, got {index.shape}")
    flat_index = arrays.index_array(index, index.shape, x.rank, x.last, "grad_output", x.flat.dtype.kind)
    target = arrays.output(index.shape, x.flat.dtype, x.rank, x.last, out, x.flat, flat_index)
    channels = x.channels if x.last and x.channels > 1 else None
    parts = max(1, FEWEST_PARTS // max(x.images, 1))
    bad = launch(kernels.gather, x.images * parts, 8 * target.flat.nbytes, arrays.bits(x.flat), flat_index,
                 arrays.bits(target.flat), channels, prod(x.spatial), prod(index.shape[-x.rank :]), parts)
    if bad:
        raise outside(flat_index, x.spatial, 0, bad, "; grad_output must have the shape of what was unpooled")
    return target.finish()
