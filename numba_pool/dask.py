"""Coarsening and pooling of dask arrays, chunk by chunk, by the kernels of `numba_pool`.

The functions have the names and the arguments of `numba_pool` itself, but no `out`. Each returns a dask array at once,
with its shape, chunks and dtype; wrong arguments raise then, not in a worker. What is no dask array becomes one, as
everywhere in dask. Chunks of the result are those of the input, made smaller: their edges move to where a window
begins, and chunks are joined only where one would be left without a window of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from inspect import Parameter
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from . import _bindings as bindings
from . import _runtime
from ._arguments import at_least, integer
from ._arrays import Shape, check_ndim, check_not_empty, mask_of, ndarray
from ._bindings import Function, check_bool, core, missing
from ._dispatch.axes import order
from ._dispatch.axes import over as anywhere
from ._windows import UniformAxis
from .blocks import coarsen as coarsen_array
from .blocks import options as given
from .blocks.coarsening import blocks
from .functional._shapes import windows_of

try:
    import dask.array as da
except ImportError as error:
    raise missing("dask", "dask", error) from error

__all__ = [
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "coarsen", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool2d", "max_pool3d", "min_pool1d", "min_pool2d", "min_pool3d", "sum_pool1d", "sum_pool2d", "sum_pool3d",
]  # fmt: skip

ABOUT = """For dask arrays of any chunks, and what dask makes one of. Nothing is computed before the result is.

The result is that of the call on the whole array, bit for bit, except where floats are added up in another order: in
averages, sums and Lp norms over long windows; in deviations, variances and weighted means of blocks; and in means and
sums of blocks, too, if chunks have another order in memory than the whole array, such as Fortran's. Then windows differ
by up to 2 units in the last place of what is added up. Blocks differ by up to 4 units in the last place, as float64, of
the sum of absolute values, or for variances of squares; it is rounded to the dtype of the result after that."""
INDICES = """return_indices : bool
    Not for dask arrays: True raises NotImplementedError."""
THREADS = """threads : int
    How many threads may work on one chunk. 1, the default, stands for the serial kernels; Numba starts no threads."""
ARRAY = """x : array
    A dask array of any number of axes and any chunks of known sizes, or what dask makes one of; floats of 16, 32 and
    64 bits, bfloat16, integers, bools. Masked elements are missing, as by `where`."""
CHANNELS = """channel_axis : int, optional
    Axis of the channels, -1 for NHWC; None stands for the axis before the spatial ones."""
RETURNS = """dask array
    Lazy, {0}. Its chunks are those of x, made smaller."""
RAISES = """ValueError, TypeError
    For arguments out of range or of the wrong type, and chunks of unknown sizes, before anything is computed."""
REFUSED = """
NotImplementedError
    For indices."""
BLOCKS = """Means and sums of integers are exact. Those of float32 are added up in float64, those of float64 with the
rounding errors kept. Nothing is padded. Chunks are copied where their edges have to move."""
SETUP = "import dask.array as da"


class Chunks(NamedTuple):
    """How an axis is cut, so that no window belongs to two chunks."""

    source: Shape  # of the input
    target: Shape  # of the result


def cut(chunks: Shape, n: int, first: int = 0, step: int = 1, least: int = 0) -> Chunks:
    """The chunks of an axis with `n` windows, near those that it has.

    Window number i begins at element ``first + i * step``. A chunk of the input has `least` elements or more, and a
    window or more; it is the only one where the axis has not so many.
    """
    length, windows, places = sum(chunks), [0], [0]
    for end in accumulate(chunks[:-1]):
        i = (2 * (end - first) + step) // (2 * step)  # the nearest window; a half counts upwards
        place = first + i * step
        if windows[-1] < i < n and place - places[-1] >= least and length - place >= least:
            windows.append(i)
            places.append(place)
    return Chunks(sizes(places, length), sizes(windows, n))


def sizes(begins: list[int], end: int) -> Shape:
    return tuple(b - a for a, b in pairwise([*begins, end]))


def array(value: Any, name: str) -> Any:
    """A dask array whose shape is known. What has none, such as a list, is converted by the core, or refused."""
    a = da.asarray(value if hasattr(value, "shape") else ndarray(value, name))
    if any(map(math.isnan, a.shape)):
        raise ValueError(f"{name} must have chunks of known sizes, got shape {a.shape}: call its compute_chunk_sizes() "
                         "first")
    return a


def like(a: Any) -> Any:
    """What has the shape and the dtype of an array, and the memory of one element."""
    return np.broadcast_to(np.zeros((), a.dtype), a.shape)


def run(threads: int, function: Function, *args: Any, **keywords: Any) -> Any:
    """What a task does: call a function of the core with so many threads."""
    with _runtime.serial() if threads == 1 else _runtime.threads(threads):
        return function(*args, **keywords)


def mapped(block: Function, dtype: Any, axes: list[Chunks], *arrays: Any) -> Any:
    """The array of what `block` makes of each chunk."""
    return da.map_blocks(block, *arrays, chunks=tuple(each.target for each in axes), dtype=dtype,
                         meta=np.empty((0,) * len(axes), dtype))


def aligned(a: Any, chunks: tuple[Shape, ...]) -> Any:
    """What broadcasts against an array of these chunks, cut so that its own do, too."""
    return a.rechunk(tuple((1,) if n == 1 else cuts for n, cuts in zip(a.shape, chunks[len(chunks) - a.ndim :])))


def coarsen_block(x: Any, *others: Any, threads: int, names: tuple[str, ...], arguments: dict[str, Any]) -> Any:
    return run(threads, coarsen_array, x, **dict(zip(names, others)), **arguments)


def coarsened(threads: int, x: Any, windows: Any, boundary: Any, side: Any, **keywords: Any) -> Any:
    """Every chunk holds whole blocks. A rest is at an end of the axis, and so in a chunk that sees it as the axis does:
    each chunk is coarsened by the arguments of the call.
    """
    a = array(x, "x")
    others = {name: array(keywords.pop(name), name) for name in ("where", "weights") if keywords[name] is not None}
    given.array(like(a))
    reduction = keywords.pop("reduction")
    options = given.from_keywords(reduction, {**keywords, **{name: like(other) for name, other in others.items()}})
    whole = blocks(a.shape, windows, boundary, side)
    given.masks(options, a.shape)
    _, dtype = given.call_for(options, a.dtype, whole.n)
    axes = []
    for chunks, n, parts in zip(a.chunks, whole.shape, zip(*whole.regions)):
        full = max(parts, key=lambda part: part.factor)
        axes.append(cut(chunks, n, full.begin - full.to * full.factor, full.factor))
    keywords |= {"reduction": reduction, "windows": given.factors(windows, a.ndim), "boundary": copy(boundary),
                 "side": copy(side)}
    block = partial(coarsen_block, threads=threads, names=tuple(others), arguments=keywords)
    sources = tuple(each.source for each in axes)
    return mapped(block, dtype, axes, a.rechunk(sources), *(aligned(other, sources) for other in others.values()))


class Window(NamedTuple):
    """What a chunk has to know of an axis."""

    axis: int
    pads: tuple[int, int]  # before the first chunk, and behind the last one
    beyond: int  # elements at the end of every other chunk that its windows do not reach
    chunks: int


def pool_chunk(x: Any, *where: Any, threads: int, function: Function, padding: Any) -> Any:
    """A chunk whose place does not matter. A last window that hangs over the end, as in ceil mode, begins in the last
    chunk: all others have the whole stride of each of their windows.
    """
    return run(threads, function, x, padding=padding, **dict(zip(("where",), where)))


def pool_part(x: Any, *where: Any, threads: int, function: Function, windows: tuple[Window, ...],
              block_id: Shape) -> Any:
    """A chunk with what its windows reach of its neighbours; padding is at the ends of the axes alone."""
    at, padding = [slice(None)] * x.ndim, []
    for axis, (before, after), beyond, chunks in windows:
        last = block_id[axis] == chunks - 1
        padding.append((0 if block_id[axis] else before, after if last else 0))
        if not last:
            at[axis] = slice(0, x.shape[axis] - beyond)
    inside = tuple(at)
    return pool_chunk(x[inside], *(mask[inside] for mask in where), threads=threads, function=function,
                      padding=tuple(padding))


def over(function: Function, spatial: Shape, a: Any, whole: Sequence[UniformAxis], arguments: dict[str, Any],
         threads: int = 1, call: Function | None = None, where: Any = None) -> Any:
    """What a pooling of the core makes of windows over the axes `spatial` of a dask array. Chunks are handed to `call`,
    by default to that of arrays with spatial axes anywhere, and with them those of the mask `where`.

    Where windows share no element, they begin where chunks do. Else window number i belongs to the chunk that holds
    element ``i * stride``. It begins up to the padding before that, and so reaches into the chunk before, and into the
    one behind.
    """
    arguments = {**arguments, **{name: tuple(getattr(axis, field) for axis in whole) for name, field in
                                 (("kernel_size", "kernel"), ("stride", "stride"), ("dilation", "step"))}}
    padding = tuple((axis.before, axis.after) for axis in whole)
    probe = np.empty((0, 1, *(axis.size for axis in whole)), a.dtype)
    hidden = {}
    if where is not None:
        where, hidden = array(where, "where"), {"where": np.ones((), np.bool_)}
        mask_of(like(where), a.shape)
    dtype = function(probe, padding=padding, **arguments, **hidden).dtype
    call = partial(call or partial(anywhere, function, spatial), **arguments)
    axes, windows, depth = [cut(chunks, n) for chunks, n in zip(a.chunks, a.shape)], [], {}
    for i, along in zip(spatial, whole):
        n, s, extent = along.n, along.stride, along.step * (along.kernel - 1) + 1
        # What windows reach of the chunk before; the first windows may lie in the padding alone.
        before = min(along.before, extent - 1) if extent > s else 0
        behind = extent - s - before  # and of the next one
        reach = before, max(behind, 0)
        # dask hands over elements of the next neighbours alone; windows in the padding are no chunk
        axes[i] = cut(a.chunks[i], n, before - along.before, s, max(1, *reach))
        windows.append(Window(i, (along.before, along.after), max(-behind, 0), len(axes[i].target)))
        if len(axes[i].target) > 1 and max(reach):
            depth[i] = reach
    sources = tuple(each.source for each in axes)
    parts = [a.rechunk(sources)]
    if where is not None:
        parts.append(da.broadcast_to(aligned(where, sources), a.shape, sources))
    if depth:
        parts = [da.overlap.overlap(part, depth, "none", allow_rechunk=False) for part in parts]
    if any(window.chunks > 1 and max(window.pads) for window in windows):
        block = partial(pool_part, threads=threads, function=call, windows=tuple(windows))
    else:  # older dask makes a task for each chunk that asks for its place
        block = partial(pool_chunk, threads=threads, function=call, padding=padding)
    return mapped(block, dtype, axes, *parts)


def pooled(function: Function, rank: int, threads: int, x: Any, **arguments: Any) -> Any:
    a, axis = array(x, "x"), arguments["channel_axis"]
    try:
        check_ndim(a, rank, "x", axis)
    except ValueError as error:
        if a.ndim == rank:
            error.add_note("dask makes a task of x[np.newaxis] for each chunk; where there are very many, pass "
                           "x.map_blocks(np.expand_dims, 0, new_axis=0)")
        raise
    if check_bool(arguments.pop("return_indices", False), "return_indices"):
        raise NotImplementedError("return_indices must be False for dask arrays: an index is the flat position in a "
                                  "whole plane, as int32, and a chunk does not know where it lies in the plane; planes "
                                  "that need chunks may also have more elements than int32 counts")
    to = tuple(range(a.ndim)) if axis is None else order(axis, a.ndim, rank)
    shape = tuple(a.shape[i] for i in to)
    check_not_empty(shape, rank, "x")
    whole = windows_of(shape, rank, arguments)
    kept = {name: value for name, value in arguments.items() if name not in ("padding", "channel_axis", "where")}
    return over(function, to[-rank:], a, whole, kept, threads, partial(function, channel_axis=axis),
                arguments.get("where"))


def public(original: Function, make: Callable[..., Any], example: str) -> Function:
    """The public function for one of the core. `make` takes the threads, and then the arguments by name."""
    name = original.__name__
    shown = bindings.signature(original, ("out",), Parameter("threads", Parameter.KEYWORD_ONLY, default=1))

    def call(*args: Any, **keywords: Any) -> Any:
        try:
            bound = shown.bind(*args, **keywords)
        except TypeError as error:
            way = given.instead_of(keywords) if original is coarsen_array else ""
            raise TypeError(f"{name}() {error}{way}") from None
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        threads = at_least(integer(arguments.pop("threads"), "threads", "an int"), "threads", 1)
        return make(threads, **arguments)

    entries, own = {"out": None, "threads": THREADS}, {"Raises": RAISES}
    if original is coarsen_array:
        entries["x"] = ARRAY
        own |= {"Returns": RETURNS.format("of as many axes as x"), "Notes": BLOCKS}
    else:
        entries["channel_axis"] = CHANNELS
        own["Returns"] = RETURNS.format("of x's dtype")
    if "return_indices" in shown.parameters:
        entries["return_indices"] = INDICES
        own["Raises"] += REFUSED
    text = bindings.docstring(original, ABOUT, entries, example, own)
    return bindings.publish(call, name, __name__, shown, text)


def family(name: str, text: str) -> Any:
    """The public functions of a family; `text` is the call in the docstring's example."""
    for rank in (1, 2, 3):
        original = core(name, rank)
        example = bindings.example(original.__name__, __name__, rank, text, SETUP)
        yield public(original, partial(pooled, original, rank), example)


coarsen = public(coarsen_array, coarsened, """>>> import dask.array as da
>>> from numba_pool.dask import coarsen
>>> coarsen(da.ones((6, 5), chunks=(3, 5)), 2, boundary="trim").chunks
((2, 1), (2,))""")
max_pool1d, max_pool2d, max_pool3d = family("max_pool", "(x, 2)")
min_pool1d, min_pool2d, min_pool3d = family("min_pool", "(x, 2)")
avg_pool1d, avg_pool2d, avg_pool3d = family("avg_pool", "(x, 2)")
sum_pool1d, sum_pool2d, sum_pool3d = family("sum_pool", "(x, 2)")
lp_pool1d, lp_pool2d, lp_pool3d = family("lp_pool", "(x, 2, 2)")
