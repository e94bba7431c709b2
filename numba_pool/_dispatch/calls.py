"""The calls that several families share: allocate, run one kernel, restore the shape."""

from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

import numpy as np

from .. import _arrays as arrays
from .. import _runtime
from .._arguments import input_shape
from .._arrays import Array, Output, Planes, Shape
from .._runtime import get_num_threads, launch
from ..kernels import scatter as kernels
from ..kernels._compile import entry
from ..kernels._job import REDUCTIONS
from ..kernels._staging import STREAMED
from ..kernels.narrow import narrow_rows
from ..kernels.sections import window_sections
from ..simd import SINGLES
from .plans import Call
from .recipes import Recipe, Recipes
from .routes import noted, overlaps, route

FEWEST_PARTS = 8  # of all planes, so that threads have something to share

F = TypeVar("F")


def ranked(function: F, rank: int) -> F:
    """Give the function made for one spatial rank its public name, `pool` -> `pool2d`, and its docstring's rank.

    A pickle names the public module: that whose file makes the function may have it under no name.
    """
    f: Any = function
    base, *rest = f.__name__.partition("_backward")
    f.__name__ = f"{base}{rank}d{''.join(rest)}"
    f.__qualname__ = f.__name__
    f.__module__ = "numba_pool.functional"
    f.rank = rank
    f.__doc__ = (f.__doc__ or "").replace("{d}", f"{rank}d").replace("{spatial}", ("L", "H, W", "D, H, W")[rank - 1])
    return function


def check_bool(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool, got {value!r}")
    return bool(value)


def check_pair(out: Any, return_indices: bool) -> None:
    """That a maximum is given two arrays to write into if it has indices, else one; `outputs` checks the arrays."""
    pair = isinstance(out, (tuple, list))
    if out is not None and return_indices and not (pair and len(out) == 2):
        came = f"{len(out)} of them" if pair else type(out).__name__
        raise TypeError(f"out must be a pair (y, indices) with return_indices, got {came}")
    if pair and not return_indices:
        raise TypeError(f"out must be an ndarray without return_indices, got {type(out).__name__}")


def outputs(x: Planes, shape: Shape, return_indices: bool, out: Any) -> tuple[Output, Output | None]:
    """Where y goes, and the indices if they are wanted."""
    dtype = x.flat.dtype
    out_y, out_i = out, None
    if out is not None:
        if return_indices:
            out_y, out_i = out
            arrays.check_out(out_i, shape, np.int32, "out[1]")
            arrays.check_out(out_y, shape, dtype, "out[0]")
            if np.may_share_memory(out_y, out_i):
                raise ValueError("out must be two arrays that do not overlap, got overlapping ones")
        else:
            arrays.check_out(out, shape, dtype)
    y = arrays.output(shape, dtype, x.rank, x.last, out_y, x.flat)
    return y, arrays.output(shape, arrays.INT32, x.rank, x.last, out_i, x.flat) if return_indices else None


def maximum(x: Planes, plan: Callable[..., Call], windows: tuple[Any, ...], return_indices: bool, out: Any,
            extreme: str = "max") -> tuple[Any, Recipe]:
    """The maximum, or the minimum, over the windows that `plan` makes of its arguments, on whatever arrays, and the
    recipe for it.
    """
    check_pair(out, return_indices)
    reduction, indexed = (f"arg{extreme}", ()) if return_indices else (extreme, (None,))
    seen = None if return_indices else arrays.pack_of(x, *([out] if isinstance(out, np.ndarray) else []))
    if seen is None:
        narrow = x.flat.itemsize if not return_indices and arrays.is_narrow(x) else 0
        call = plan(x.shape, x.rank, x.last, *windows, reduction, narrow)
        shape, nbytes = call.shape, prod(call.shape) * x.flat.itemsize
        if call.plan.worker is narrow_rows:
            seen = SINGLES.get(x.flat.dtype.name)
    else:
        axes = -x.rank - 1
        packs = x.channels * x.flat.itemsize // seen.itemsize
        call = plan((*x.shape[:axes], packs, *x.spatial), x.rank, x.last, *windows, reduction)
        shape, nbytes = (*call.shape[:axes], x.channels, *call.shape[-x.rank :]), prod(call.shape) * seen.itemsize
    if REDUCTIONS[reduction].mirrored:
        seen = arrays.mirror(seen or x.flat.dtype)
    traffic = call.plan.traffic(x.flat.nbytes, nbytes, return_indices)
    recipe = Recipe(call.plan.worker, call.units, traffic, shape, return_indices,
                    (*indexed, None, *call.plan.rest(x.flat.nbytes)), seen)
    recipe = cut(recipe, call, x.flat, [(*indexed, None, *part.rest(0)) for part in call.parts])
    return forward(x, recipe, out), recipe


def cut(recipe: Recipe, call: Call, flat: Array, rests: list[tuple[Any, ...]]) -> Recipe:
    """The recipe for a call by sections, if it is one; its array is `flat`, and `rests` are the arguments after the
    arrays for its parts.
    """
    if not call.parts:
        return recipe
    array = arrays.raw(flat, recipe.seen)
    source = array if call.shares is None else np.empty(0, call.shares[0][0].dtype)
    places, nothing = ((np.empty(0, arrays.INT32),), ()) if recipe.indexed else ((), (None,))
    kernels = tuple(entry(part.worker, (source, array, *places, *rest)) for part, rest in zip(call.parts, rests))
    return recipe._replace(worker=window_sections, rest=(*nothing, call.shares, kernels, *rests, call.walk))


def forward(x: Planes, recipe: Recipe, out: Any) -> Any:
    """The result of a maximum or an average on whatever arrays: y, or (y, indices)."""
    y, i = outputs(x, recipe.shape, recipe.indexed, out)
    index = () if i is None else (i.flat,)
    launch(recipe.worker, recipe.units, recipe.traffic, arrays.raw(x.flat, recipe.seen),
           arrays.raw(y.flat, recipe.seen), *index, *recipe.rest)
    return y.finish() if i is None else (y.finish(), i.finish())


def parts_of(recipe: Recipe) -> int:
    """Into how many ranges to split each of a few units, so that every thread has one. Each part reads all indices."""
    units, (channels, plane, *_) = recipe.units, recipe.rest
    least = kernels.fewest_parts(plane, channels)
    if recipe.traffic < _runtime.SERIAL_BYTES:
        return least
    threads = get_num_threads()
    return max(least, 1 if units >= 2 * threads else 2 if units > threads else -(-threads // max(units, 1)))


def scatter_recipe(grad: Planes, shape: Any, accumulate: bool, uniform: bool = False) -> Recipe:
    """Zeros of `shape` with every element of `grad` added (or put) at its index within its plane, which is of `uniform`
    windows, or who knows of which.
    """
    shape = input_shape(shape, grad.rank, grad.shape, grad.last)
    grid = noted.get((shape[-grad.rank :], grad.spatial)) if uniform else None
    to = route(grad.shape, shape, grad.rank, grad.last, grad.flat.itemsize, accumulate, overlaps(grid))
    nbytes = prod(to.shape) * grad.flat.itemsize
    rest = to.channels, to.plane, to.per_plane, accumulate
    plain = Recipe(kernels.scatter, to.units, nbytes, to.shape, False, rest)
    if to.scatter is None:
        return plain
    return plain._replace(worker=to.scatter.worker, units=to.scatter.units, rest=to.scatter.extra, otherwise=plain)


def scatter(recipe: Recipe, rank: int, grad: Array, index: Array, target: Array, hint: str = "") -> Recipe:
    """Run it, on arrays as kernels see them. The recipe to keep for the next such call. The `hint` says what may be the
    matter with indices that lie outside.

    A guess that did not hold will not hold again, most likely; to find that out costs 5 us, or a second pass.
    """
    keep = recipe
    if recipe.otherwise is not None:
        recipe = keep.fallen()
        if index.dtype == arrays.INT32:
            if launch(keep.worker, keep.units, keep.traffic, grad, target, index, *keep.rest) == 0:
                return keep
            keep = recipe if recipe.traffic < STREAMED else keep
    parts = parts_of(recipe)
    bad = launch(recipe.worker, recipe.units * parts, recipe.traffic, grad, index, target, *recipe.rest,
                 parts)
    if bad:
        accumulate = recipe.rest[-1]
        raise outside(index, recipe.shape[-rank:], -1 if accumulate else 0, bad, hint)
    return keep


def outside(index: Array, plane: Shape, least: int, bad: int, hint: str = "") -> ValueError:
    """The error for that many bad indices; the `least` that is not is -1 where a window may hold nothing."""
    size = prod(plane)
    wrong = index[(index < least) | (index >= size)]
    such = f", among them {wrong[0]}" if wrong.size else ""  # unless another thread has changed them
    if wrong[:1] == -1:
        hint = "; -1 is that of a window without any valid element"
    return ValueError(f"indices must lie in [0, {size}) for planes of shape {plane}, got {bad} outside{such}{hint}")


def scattered_again(recipes: Recipes, rank: int, grad: Any, indices: Any, arguments: tuple[Any, ...], shape: Any,
                    out: Any, hint: str = "") -> Array | None:
    """The result of a call like one that was made before; None if there is no recipe for it, or an array is not plain.
    """
    recipe = recipes.find(grad, arguments, shape)
    if recipe is None or not arrays.is_index(indices, recipe.key[0], recipe.to_last):
        return None
    if out is None:
        target = recipe.make(recipe.memory_shape, grad.dtype)
    elif (target := recipe.place(out, grad.dtype, grad, indices)) is None:
        return None
    source, written = arrays.raw(grad.ravel("K"), recipe.seen), arrays.raw(target.ravel(), recipe.seen)
    last = scatter(recipe, rank, source, indices.ravel("K"), written, hint)
    if last is not recipe:
        recipes[recipe.key] = last
    result: Array = recipe.result(target) if out is None else out
    return result


def scattered(grad: Planes, indices: Any, recipe: Recipe, out: Any, name: str, hint: str = "") -> tuple[Array, Recipe]:
    """The same, whatever the arrays; `name` is the caller's word for `grad`."""
    index = arrays.index_array(indices, grad.shape, grad.rank, grad.last, name, grad.flat.dtype.kind)
    if out is not None:
        arrays.check_out(out, recipe.shape, grad.flat.dtype)
    target = arrays.output(recipe.shape, grad.flat.dtype, grad.rank, grad.last, out, grad.flat, index)
    recipe = scatter(recipe, grad.rank, arrays.raw(grad.flat), index, arrays.raw(target.flat), hint)
    return target.finish(), recipe


def gather(x: Planes, indices: Any, out: Any) -> Array:
    """The elements of every plane of `x` at the indices of that plane."""
    index = np.asarray(arrays.ndarray(indices, "indices"))
    if index.shape[: -x.rank] != x.lead or index.ndim != len(x.shape):
        raise ValueError(f"indices must have batch and channels {x.lead} and {x.rank} spatial axes, got {index.shape}")
    flat_index = arrays.index_array(index, index.shape, x.rank, x.last, "grad_output", x.flat.dtype.kind)
    if out is not None:
        arrays.check_out(out, index.shape, x.flat.dtype)
    target = arrays.output(index.shape, x.flat.dtype, x.rank, x.last, out, x.flat, flat_index)
    channels = x.channels if x.last else 1
    parts = max(1, FEWEST_PARTS // max(x.images, 1))
    bad = launch(kernels.gather, x.images * parts, 8 * target.flat.nbytes, arrays.bits(x.flat), flat_index,
                 arrays.bits(target.flat), channels, prod(x.spatial), prod(index.shape[-x.rank :]), parts)
    if bad:
        raise outside(flat_index, x.spatial, 0, bad, "; grad_output must have the shape of what was unpooled")
    return target.finish()
