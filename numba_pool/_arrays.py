"""Arrays in and out: memory order, dtypes, `out=`. A kernel sees flat, contiguous, native arrays only."""

import os
from collections.abc import Collection
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._memory import empty as fresh
from .simd import MIRRORED, PACKS, RECORDS, wide_registers

Array = NDArray[Any]
Shape = tuple[int, ...]

DOORS = ("torch", "jax", "autograd", "dask", "xarray")  # frameworks whose arrays a module of ours takes
FILES = (str, os.PathLike)  # whose names are given in place of what is in them
FLOATS = frozenset("fd")
HALVES = frozenset({"float16", "bfloat16"})
INTEGERS = frozenset("bhilqBHILQ")
NATIVE = FLOATS | INTEGERS  # what Numba knows; the halves are left (`dtype.name` says which, but takes 3 us)
INT32_LIMIT = 2**31 - 1
PACKED = 1 << 12  # bytes of an array from which on packs are worth a kernel more to compile
INT32, FLOAT32, FLOAT64 = np.dtype(np.int32), np.dtype(np.float32), np.dtype(np.float64)

new = tuple.__new__  # makes a NamedTuple in half the time of its own constructor


class IndexDtypeError(TypeError, ValueError):
    """Indices of a dtype that cannot be indices: a wrong type, and like every other corrupt index a wrong value, for
    whoever catches that. A traceback begins with the name that users know.
    """

    __module__, __qualname__ = "builtins", "TypeError"

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return TypeError, self.args


IndexDtypeError.__name__ = "TypeError"  # which notebooks show


class Planes(NamedTuple):
    """An input as the kernels see it."""

    flat: Array  # 1-D, contiguous, native; channels last in memory if `last`
    shape: Shape
    rank: int
    last: bool

    @property
    def lead(self) -> Shape:
        return self.shape[: -self.rank]

    @property
    def spatial(self) -> Shape:
        return self.shape[-self.rank :]

    @property
    def channels(self) -> int:
        return self.shape[-self.rank - 1]

    @property
    def number(self) -> int:
        return prod(self.lead)

    def plain(self) -> Array:
        """The array in one piece."""
        if not self.last:
            return self.flat.reshape(self.shape)
        axes = len(self.shape), self.rank
        return self.flat.reshape([self.shape[i] for i in TO_LAST[axes]]).transpose(TO_FIRST[axes])

    @property
    def images(self) -> int:
        """Planes, or in channels-last memory the images that channels share."""
        return self.number // self.channels if self.last else self.number


def ndarray(value: Any, name: str, doors: Collection[str] = DOORS) -> Array:
    """`value` as an ndarray, or one of a subclass. Every array argument passes here, and after that is one. `doors` are
    the frameworks for which the function that takes it has a twin.

    What NumPy knows no numbers for, such as None, stays what it is: who says which dtypes are allowed will refuse it.
    """
    if value.__class__ is np.ndarray:
        return value
    if value.__class__ is tuple and len(value) == 2 and getattr(value[1], "dtype", None) == np.int32:
        # Of an unbatched y NumPy would make a batch of two.
        raise TypeError(f"{name} must be one array, got a pair like (y, indices): pass the first of the two alone")
    if isinstance(value, FILES):
        raise TypeError(f"{name} must be an array, got a {type(value).__name__}: load the image first")
    try:
        a = np.asanyarray(value)
    except Exception as error:
        door = door_of(value, doors)
        if not door:
            raise
        raise TypeError(f"{name} must be what NumPy makes an array of, got {type(value).__name__} "
                        f"({str(error).splitlines()[0]}){door}") from None
    known: Array = value if a.dtype.hasobject else a
    return known


def door_of(value: Any, doors: Collection[str] = DOORS) -> str:
    """Where the functions are that take the arrays of another framework, for a message; empty for what is none."""
    for base in type(value).__mro__:
        framework = base.__module__.partition(".")[0]
        if framework in doors:
            return f": numba_pool.{framework} has the functions that take it"
        if framework in DOORS:
            return (f": numba_pool.{framework} pools only; to coarsen pass numbers, outside of what {framework} traces "
                    "or differentiates")
    return ""


def array(value: Any, name: str, integers: bool = True) -> Array:
    """`value` as an ndarray of a supported dtype, native and aligned."""
    a = np.asarray(ndarray(value, name))
    dtype = a.dtype
    is_integer = dtype.char in INTEGERS and dtype.kind in "iu"  # float8_e4m3b11fnuz has the character of uint64
    if not (dtype.char in FLOATS or dtype.name in HALVES or (integers and is_integer)):
        allowed = "float32, float64, float16" + (", bfloat16 or an integer type" if integers else " or bfloat16")
        # Of numbers that NumPy knows, bindings take no other dtypes.
        way = door_of(value) if dtype.hasobject else f": pass {name}.astype(np.float32)" * (dtype.char in INTEGERS)
        raise TypeError(f"{name} must be {allowed}, got {came(value, dtype)}{way}")
    if not dtype.isnative:
        a = a.astype(dtype.newbyteorder("="))
    return a


def broadcast(a: Array, name: str, shape: Shape) -> Array:
    """An argument that has to broadcast against x, in the shape of x."""
    try:
        return np.broadcast_to(a, shape)
    except ValueError:
        lacking = len(shape) - a.ndim
        way = f": pass {name}[...{', np.newaxis' * lacking}]" if a.shape == shape[: a.ndim] and lacking > 0 else ""
        raise ValueError(f"{name} must broadcast against x of shape {shape}, got shape {a.shape}{way}") from None


def mask_of(where: Any, shape: Shape) -> Array:
    """The argument `where` in the shape of x, as an array of bools."""
    mask = np.asarray(ndarray(where, "where"))
    if mask.dtype != np.bool_:
        raise TypeError(f"where must be an array of bools, got {came(where, mask.dtype)}, shape {mask.shape}")
    return broadcast(mask, "where", shape)


def came(value: Any, dtype: np.dtype[Any]) -> str:
    """What came in place of an array of another dtype; None, for one, is an array of objects to NumPy."""
    return type(value).__name__ if dtype.hasobject and not isinstance(value, np.ndarray) else str(dtype)


def check_ndim(a: Array, rank: int, name: str, channel_axis: int | None = None) -> None:
    """That there are channels, and perhaps a batch. An array without is shown the way to an axis for one channel."""
    if a.ndim in (rank + 1, rank + 2):
        return
    way = ""
    if a.ndim == rank and (channel_axis is None or -rank - 1 <= channel_axis <= rank):
        added = f"{name}[np.newaxis]" if channel_axis is None else f"np.expand_dims({name}, {channel_axis})"
        way = f": for one channel pass {added}"
    raise ValueError(f"{name} must have {rank + 2} axes (N, C and {rank} spatial) or {rank + 1} (unbatched), "
                     f"got shape {a.shape}{way}")


def check_not_empty(shape: Shape, rank: int, name: str, channels: bool = True) -> None:
    """Only the batch may be empty."""
    if 0 in shape[-rank - (1 if channels else 0) :]:
        raise ValueError(f"{name} must have no empty axis but the batch, got shape {shape}")


def check_plane(shape: Shape, rank: int) -> None:
    """int32 indices reach 2^31 - 1 elements of a plane."""
    size = prod(shape[-rank:])
    if size > INT32_LIMIT:
        raise ValueError(
            f"return_indices needs planes of at most {INT32_LIMIT} elements (indices are int32), "
            f"got {size} for shape {shape}"
        )


# For each (axes, rank): channels to the end, and back. (`numpy.moveaxis` takes 3 us, as long as a small pooling.)
TO_LAST = {(rank + 1, rank): (*range(1, rank + 1), 0) for rank in (1, 2, 3)}
TO_LAST |= {(rank + 2, rank): (0, *range(2, rank + 2), 1) for rank in (1, 2, 3)}
TO_FIRST = {key: tuple(int(i) for i in np.argsort(axes)) for key, axes in TO_LAST.items()}


def is_last(a: Array, rank: int) -> bool:
    """Whether the memory is channels last: contiguous once the channel axis is moved to the end."""
    return not a.flags.c_contiguous and a.transpose(TO_LAST[a.ndim, rank]).flags.c_contiguous


def is_plain(a: Array, rank: int, last: bool) -> bool:
    """Whether a kernel can take the array's memory as it is, in the given order."""
    flags = (a.transpose(TO_LAST[a.ndim, rank]) if last else a).flags
    return flags.c_contiguous and flags.aligned and a.dtype.isnative


def flat(a: Array, rank: int, last: bool) -> Array:
    """The array as one dimension in the given memory order; a copy only where the memory is neither."""
    if last:
        a = a.transpose(TO_LAST[a.ndim, rank])
    if not (a.flags.c_contiguous and a.flags.aligned):
        a = np.ascontiguousarray(a).copy() if not a.flags.aligned else np.ascontiguousarray(a)
    a = a.reshape(-1)
    return a if a.flags.writeable else writeable_alias(a)


class _Alias:
    def __init__(self, a: Array, **layout: Any) -> None:
        self.keep = a
        interface = a.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False), **layout}


def writeable_alias(a: Array) -> Array:
    """The same memory marked writeable: read-only arrays are another type to Numba and would compile again.

    Kernels never write to an input.
    """
    return np.asarray(_Alias(a)).view(a.dtype)


def line_of(a: Array, n: int) -> Array:
    """`n` elements of memory from the first of an array on, marked writeable as `writeable_alias` does."""
    return np.asarray(_Alias(a, shape=(n,), strides=None)).view(a.dtype)


def planes(value: Any, rank: int, name: str = "x", *, integers: bool = True, channels: bool = True,
           empty: bool = False, indices: bool = False) -> Planes:
    """An input, checked. C may not be 0 if `channels`, no axis unless `empty`; `indices` are wanted."""
    if (  # what nearly every call brings, by the shortest way
        value.__class__ is np.ndarray
        and (value.dtype is FLOAT32 or value.dtype is FLOAT64)  # of a foreign byte order they would be others
        and value.flags.carray
        and 1 <= value.ndim - rank <= 2
        and 0 < value.size <= INT32_LIMIT
    ):
        return new(Planes, (value.ravel(), value.shape, rank, False))
    a = array(value, name, integers)
    check_ndim(a, rank, name)
    if indices:
        check_plane(a.shape, rank)
    if not empty:
        check_not_empty(a.shape, rank, name, channels)
    last = is_last(a, rank)
    return Planes(flat(a, rank, last), a.shape, rank, last)


def like(value: Any, shape: Shape, rank: int, last: bool, name: str, integers: bool = True, part: Any = ...) -> Array:
    """Another array of a call, of exactly this shape, flat and in the memory order of the first; or a part of it."""
    a = array(value, name, integers)
    if a.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {a.shape}")
    return flat(a[part], rank, last)


def is_index(value: Any, shape: Shape, to_last: tuple[int, ...] | None) -> bool:
    """Whether a kernel can take these indices as they are, in C order or in channels-last memory of these axes."""
    if value.__class__ is not np.ndarray or value.dtype is not INT32 or value.shape != shape:
        return False
    return bool(value.flags.carray if to_last is None else value.transpose(to_last).flags.carray)


def index_array(value: Any, shape: Shape, rank: int, last: bool, beside: str, kind: str) -> Array:
    """Indices for an array of this shape and kind of dtype, which a caller knows by the name `beside`."""
    a = np.asarray(ndarray(value, "indices"))
    if not last and is_index(a, shape, None):
        return a.ravel()
    if a.dtype.newbyteorder("=") not in (np.int32, np.int64):
        way = f" (are {beside} and indices in the right order?)" if a.dtype.kind == "f" and kind in "iu" else ""
        raise IndexDtypeError(f"indices must be int32 or int64, got {came(value, a.dtype)}{way}")
    if a.shape != shape:
        raise ValueError(f"{beside} and indices must have the same shape, got {shape} and {a.shape}")
    if not a.dtype.isnative:
        a = a.astype(a.dtype.newbyteorder("="))
    return flat(a, rank, last)


class Output(NamedTuple):
    """Where a kernel writes, and what the caller gets."""

    flat: Array
    result: Array
    out: Array | None  # to be filled from `result` where a kernel cannot write to it directly

    def finish(self) -> Array:
        if self.out is None:
            return self.result
        np.copyto(self.out, self.result)
        return self.out


def overlaps_itself(a: Array) -> bool:
    """Whether two elements may share memory (never so for a view that slicing or transposing made)."""
    if a.size == 0:
        return False
    extent = a.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(a.strides, a.shape) if n > 1):
        if stride < extent:
            return True
        extent += stride * (n - 1)
    return False


def check_out(out: Any, shape: Shape, dtype: Any, name: str = "out") -> None:
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{name} must be an ndarray, got {type(out).__name__}")
    if out.dtype.newbyteorder("=") != dtype:
        raise TypeError(f"{name} must have dtype {np.dtype(dtype)}, got {out.dtype}")
    if out.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {out.shape}")
    if not out.flags.writeable:
        raise ValueError(f"{name} must be writeable, got a read-only array")
    if overlaps_itself(out):
        raise ValueError(f"{name} must not overlap itself, got strides {out.strides} for shape {out.shape}")


def allocate(shape: Shape, dtype: Any, rank: int, last: bool) -> Array:
    if last:
        key = len(shape), rank
        return fresh(tuple([shape[i] for i in TO_LAST[key]]), dtype).transpose(TO_FIRST[key])
    return fresh(shape, dtype)


def output(shape: Shape, dtype: Any, rank: int, last: bool, out: Array | None, *inputs: Array) -> Output:
    """Memory for a result: fresh, or the caller's where its order fits and no input overlaps it."""
    if out is None:
        if last:
            result = allocate(shape, dtype, rank, last)
            return new(Output, (flat(result, rank, True), result, None))
        result = fresh(shape, dtype)
        return new(Output, (result.ravel(), result, None))
    check_out(out, shape, dtype)
    if out.dtype.isnative and out.flags.aligned:
        direct = out.transpose(TO_LAST[out.ndim, rank]) if last else out
        if direct.flags.c_contiguous and not any(np.may_share_memory(out, a) for a in inputs):
            return Output(direct.reshape(-1), out, None)
    result = allocate(shape, dtype, rank, last)
    return Output(flat(result, rank, last), result, out)


def seen_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype as which `raw` shows an array."""
    return RECORDS.get(dtype.name, dtype)


def mirror(dtype: np.dtype[Any]) -> Any:
    """The dtype as which kernels of maxima find minima, for that of an array, or as which they would see it."""
    return MIRRORED[seen_as(dtype)]


def raw(a: Array, seen: Any = None) -> Array:
    """The same memory as a kernel with vectors takes it: as what it has to be seen as, if that is not clear."""
    if seen is not None:
        return a.view(seen)
    return a if a.dtype.char in NATIVE else a.view(RECORDS[a.dtype.name])


def bits(a: Array) -> Array:
    """The same memory as a kernel that only moves elements takes it."""
    return a if a.dtype.char in NATIVE else a.view(np.uint16)


def is_narrow(x: Planes) -> bool:
    """Whether `narrow_rows` is worth its compilation: for narrow elements, or narrow registers."""
    return not x.last and x.flat.nbytes >= PACKED and (x.flat.itemsize <= 2 or not wide_registers())


def pack_of(x: Planes, *others: Any) -> Any:
    """The dtype of packs as which pixels can be seen, those of other arrays too, or None."""
    a = x.flat
    if not x.last or a.itemsize > 2 or a.nbytes < PACKED or x.channels * a.itemsize % 4:
        return None
    if any(b.__array_interface__["data"][0] % 4 for b in (a, *others)):
        return None
    return PACKS[a.dtype.name]


def widen(a: Array) -> Array:
    """float16 and bfloat16 as float32."""
    return a if a.dtype.char in NATIVE else a.astype(np.float32)


def wide_output(target: Output) -> Array:
    """What a kernel writes to: the output's memory, or float32 for halves (then `narrow` it)."""
    return target.flat if target.flat.dtype.char in NATIVE else np.empty(target.flat.size, np.float32)


def cast(a: Array, dtype: np.dtype[Any]) -> Array:
    """`a.astype(dtype)` for results: rounded once, and without a warning where they are infinite or wrap, as they may.
    """
    if a.dtype == dtype:
        return a
    with np.errstate(all="ignore"):
        # The cast of `ml_dtypes` goes through float32, which rounds twice.
        twice = dtype.name == "bfloat16" and a.dtype.itemsize > 2 and a.dtype != np.float32
        return (to_odd(a) if twice else a).astype(dtype)


def to_odd(a: Array) -> Array:
    """Numbers as float32, which may be rounded once more, to halves, with the result of one rounding.

    They are rounded toward zero, and the last bit is set where that changed them. So no number comes to lie halfway
    between two halves, unless it lies there. Source: Boldo and Melquiond, Emulation of FMA, 2008.
    """
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8:  # the same to 53 bits, for numbers that need more
        short = (a >> 11 | (a & 2047 != 0)).astype(np.float64) * 2048
        a = np.where((a < 2**53) & (a > -(2**53) if a.dtype.kind == "i" else True), a.astype(np.float64), short)
    exact = a.astype(np.float64)
    rounded = exact.astype(np.float32)
    bits, back = rounded.view(np.int32), rounded.astype(np.float64)
    bits -= np.abs(back) > np.abs(exact)
    bits |= back != exact
    return rounded


def finish(target: Output, written: Array) -> Array:
    """What the caller gets, of what a kernel wrote into the output's memory, also as `raw` shows it, or as float32."""
    if written is not target.flat and written.dtype.kind != "V":
        target.flat[...] = cast(written, target.flat.dtype)
    return target.finish()
