"""What users pass to `coarsen`, checked, and which reduction it comes down to."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._arguments import bounded, has_colours, integer, shown
from .._arrays import HALVES, Array, Shape, broadcast, came, door_of, mask_of, ndarray
from .._names import REDUCTIONS
from .kinds import Reduction, extremes
from .plan import Call

NAMES = ("mean", "sum", "max", "min", "median", "mode", "first", "count", "std", "var", "any", "all")
BOUNDARIES, SIDES = ("exact", "trim", "short"), ("left", "right")
ROUNDINGS, MEDIANS, TIES = ("even", "nearest", "truncate"), ("midpoint", "lower", "upper"), ("first", "lowest")
POLICIES = ("propagate", "omit")
DOORS = ("dask", "xarray")  # frameworks whose arrays are coarsened by a module of ours
# Options that would do nothing for other reductions.
OWNERS = {"weights": ("mean",), "rounding": ("mean", "median"), "median": ("median",), "ties": ("mode",),
          "ignore": ("mode",)}
FRACTIONS = ("mean", "median", "sum", "std", "var")  # what is no integer, if elements are none
MOST = 2**31 - 1  # elements of a block whose sum is exact


class Own(NamedTuple):
    """A function of the user's, where a reduction would be named."""

    function: Any
    code: int  # where its machine code is: elsewhere after its `recompile`


class Options(NamedTuple):
    """Everything but the array and its blocks."""

    reduction: Any = "mean"
    nan_policy: str = "propagate"
    where: Any = None
    missing: Any = None
    min_count: Any = None
    weights: Any = None
    dtype: Any = None
    rounding: str = "even"
    median: str = "midpoint"
    ties: str = "first"
    ignore: Any = None

    @property
    def name(self) -> str:
        """Of the reduction, without its 'nan'; empty for a function of the user's."""
        name = self.reduction
        return "" if not isinstance(name, str) else name[3:] if name.startswith("nan") else name

    @property
    def omits(self) -> bool:
        return self.nan_policy == "omit" or (isinstance(self.reduction, str) and self.reduction.startswith("nan"))


def one_of(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}")
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def checked(options: Options) -> Options:
    """The options, if they are well and fit each other."""
    reduction = options.reduction
    if isinstance(reduction, str):
        if options.name not in NAMES:
            known = known_as(reduction)
            raise ValueError(f"reduction must be one of {', '.join(map(repr, NAMES))}, or one of these after 'nan', or "
                             f"an @njit function of the 1-D array of a block's elements, got {reduction!r}"
                             f"{known and f': pass {known!r}'}")
    elif not hasattr(reduction, "py_func"):
        kind = shown(reduction)
        if callable(reduction):
            known = known_as(getattr(reduction, "__name__", ""))
            kind = f"a function that is not compiled: pass {known!r}" if known else (
                "a function that is not compiled: put @numba.njit before it")
        raise TypeError("reduction must be a name, such as 'mean', or an @njit function of the 1-D array of a block's "
                        f"elements, got {kind}")
    one_of(options.nan_policy, "nan_policy", POLICIES)
    one_of(options.rounding, "rounding", ROUNDINGS)
    one_of(options.median, "median", MEDIANS)
    one_of(options.ties, "ties", TIES)
    if options.min_count is not None:
        least = bounded(integer(options.min_count, "min_count", "an int or None"), "min_count", 0)
        options = options._replace(min_count=least)
    for name, owners in OWNERS.items():
        value, default = getattr(options, name), Options._field_defaults[name]
        if options.name not in owners and not (value is None or (isinstance(value, str) and value == default)):
            raise ValueError(f"{name} is for the reduction{'s' * (len(owners) > 1)} {' and '.join(map(repr, owners))} "
                             f"only, got reduction={reduction!r}")
    if options.missing is None and options.ignore is None and options.dtype is None:
        return options
    return options._replace(
        missing=number(options.missing, "missing"), ignore=number(options.ignore, "ignore"),
        dtype=None if options.dtype is None else np.dtype(options.dtype).newbyteorder("="))


def known_as(name: str) -> str:
    """The reduction that has another name elsewhere; empty where that is none."""
    base = name.lower().removeprefix("nan")
    known = REDUCTIONS.get(base, base)
    return f"{'nan' * name.lower().startswith('nan')}{known}" if known in NAMES else ""


def number(value: Any, name: str) -> Any:
    """A value that elements are compared with."""
    if value is None:
        return None
    a = np.asarray(value)
    if a.ndim or a.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be a number, got {shown(value)}")
    return a[()]


def word_of(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """One of the words for a boundary or a side. 'pad', xarray's word, is taken for 'short'."""
    return one_of("short" if isinstance(value, str) and value == "pad" else value, name, allowed)


def from_keywords(reduction: Any, keywords: dict[str, Any]) -> Options:
    """Checked options of a function that takes them as `coarsen` does."""
    unknown = sorted(set(keywords) - set(Options._fields[1:]))
    if unknown:
        raise TypeError(f"unknown keywords {', '.join(unknown)}; those of numba_pool.coarsen that are taken are "
                        f"{', '.join(Options._fields[1:])}{instead_of(unknown)}")
    return checked(Options(reduction, **keywords))


def instead_of(unknown: Iterable[str]) -> str:
    """What to write in the place of keywords that others have; empty where that is not known."""
    return next((f": {INSTEAD[name]}" for name in unknown if name in INSTEAD), "")


AXES = "name the axes that get smaller instead: windows={0: 2, 1: 2} of coarsen, axes=(0, 1) of pyramid"
INSTEAD = {"channel_axis": AXES, "axes": AXES, "axis": AXES,
           "mask": "pass where=, which is False where elements are missing"}


def takes_colours(factors: Any, shape: Shape) -> bool:
    """Whether an int, which stands for all axes, would make colours fewer."""
    return not isinstance(factors, (Mapping, tuple)) and factors != 1 and has_colours(shape)


def per_axis(value: Any, ndim: int, name: str, allowed: tuple[str, ...], axes: tuple[int, ...]) -> dict[int, str]:
    """One word for each axis that is coarsened, of a word for all or a dict."""

    def one(word: Any) -> str:
        return word_of(word, name, allowed)

    if not isinstance(value, Mapping):
        return dict.fromkeys(axes, one(value))
    words = dict(zip(each_once(value, ndim, name), map(one, value.values())))
    for axis in words:
        if axis not in axes:
            raise ValueError(f"{name} names axis {axis}, which windows does not: {sorted(axes)}")
    return {axis: words.get(axis, allowed[0]) for axis in axes}


def each_once(axes: Any, ndim: int, name: str) -> list[int]:
    """Axes, none of them twice."""
    result = [axis_of(axis, ndim, name) for axis in axes]
    for axis in result:
        if result.count(axis) > 1:
            raise ValueError(f"{name} must have each axis once, got axis {axis} twice in {axes!r}")
    return result


def axis_of(axis: Any, ndim: int, name: str) -> int:
    if isinstance(axis, str):
        raise TypeError(f"an axis of {name} must be an int, got {axis!r}: numba_pool.xarray has functions that take "
                        "the names of dimensions")
    at = integer(axis, f"an axis of {name}", "an int")
    if not -ndim <= at < ndim:
        raise ValueError(f"{name} must have axes in [{-ndim}, {ndim}) for an array of {ndim} axes, got {axis!r}")
    return at % ndim


FACTORS = "an int, a tuple with an int for each axis, or a dict of axis: int"


def factors(windows: Any, ndim: int, name: str = "windows") -> dict[int, int]:
    """Axis: factor, of an int for all axes, a tuple with one for each, or a dict."""
    if isinstance(windows, Mapping):
        return {axis: bounded(integer(factor, name, FACTORS), name, 1)
                for axis, factor in zip(each_once(windows, ndim, name), windows.values())}
    if isinstance(windows, tuple):
        if len(windows) != ndim:
            raise ValueError(f"{name} must have one factor for each of the {ndim} axes, got {windows!r}: for some of "
                             "them pass a dict of axis: factor")
        return {axis: bounded(integer(factor, name, FACTORS), name, 1) for axis, factor in enumerate(windows)}
    return dict.fromkeys(range(ndim), bounded(integer(windows, name, FACTORS), name, 1))


def array(x: Any, name: str = "x") -> Array:
    """An array of a dtype that can be coarsened."""
    a = np.asarray(ndarray(x, name, DOORS))
    if not (a.dtype.kind in "biu" or a.dtype.char in "fde" or a.dtype.name in HALVES):
        way = door_of(x, DOORS) if a.dtype.hasobject else ""
        raise TypeError(f"{name} must be of floats, integers or bools, got {came(x, a.dtype)}, shape {a.shape}{way}")
    return a


def with_mask(x: Any, options: Options) -> Options:
    """The options, in which the masked elements of a masked array are missing."""
    if not isinstance(x, np.ma.MaskedArray) or x.mask is np.ma.nomask:
        return options
    given, valid = masks(options, x.shape)[0], ~np.ma.getmaskarray(x)
    return options._replace(where=valid if given is None else given & valid)


def masks(options: Options, shape: Shape) -> tuple[Array | None, Array | None]:
    """`where` and `weights` in the shape of x."""
    weights = options.weights
    return (None if options.where is None else mask_of(options.where, shape),
            None if weights is None else broadcast(array(weights, "weights"), "weights", shape))


def result_dtype(options: Options, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of results for elements of a dtype."""
    if options.dtype is not None:
        given: np.dtype[Any] = options.dtype
        if given.kind not in "biu" and given.char not in "fde" and given.name not in HALVES:
            raise TypeError(f"dtype must be one of floats, integers or bools, got {given}")
        return given
    name, is_float = options.name, dtype.kind not in "biu"
    if not name:
        raise AssertionError("what a function returns is asked of the function")
    if name == "count":
        return np.dtype(np.int64)
    if name in ("any", "all"):
        return np.dtype(bool)
    if name == "sum" and not is_float:
        return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    if not is_float and (name in ("std", "var") or options.weights is not None
                         or (name == "mean" and dtype.kind == "b")):
        return np.dtype(np.float64)
    return dtype


def neutral(name: str, dtype: np.dtype[Any]) -> Any:
    """The result of integers where too few elements are there and no value stands for missing ones."""
    return limits(dtype)[0 if name == "max" else 1] if name in ("max", "min") else 0


def limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the greatest value of integers or bools."""
    least, most = (0, 1) if dtype.kind == "b" else extremes(dtype.name)
    return int(least), int(most)


def state_of(name: str, x: np.dtype[Any], out: np.dtype[Any], n: int) -> str:
    """How the sum of n elements is kept, so that it is exact for integers."""
    if x.kind == "f":
        return "float64" if x.itemsize < 8 else "pair"
    if name == "sum" and out.kind != "f":
        return "int64" if x.itemsize <= 4 else str(x)  # wraps
    if x.itemsize == 8:
        return "limbs"
    if x.itemsize == 1 and n <= 256:
        return "uint16" if x.kind == "u" else "int16"
    return "int32" if n <= (1 << 23 if x.itemsize == 1 else 1 << 15) and x.itemsize < 4 else "int64"


def call_for(options: Options, dtype: np.dtype[Any], n: int) -> tuple[Call, np.dtype[Any]]:
    """The call for blocks of up to n elements of a dtype, and the dtype of what users get."""
    where, weights = (None if a is None else True for a in (options.where, options.weights))
    reduction = options.reduction if options.name else compiled(options.reduction, taken_as(dtype))
    return known_call(options._replace(where=where, weights=weights, reduction=reduction), dtype, n)


def compiled(function: Any, x: np.dtype[Any]) -> Own:
    """A function of the user's, as it is compiled now."""
    if not function.overloads:
        returned(function, x)
    return Own(function, next(iter(function.overloads.values())).entry_point)


def taken_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype as which walks take elements."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype.newbyteorder("=")


@lru_cache(maxsize=1024)
def known_call(options: Options, dtype: np.dtype[Any], n: int) -> tuple[Call, np.dtype[Any]]:
    """The same for options of which it is only known whether there are `where` and `weights`."""
    name, weighted = options.name, options.weights is not None
    is_float = dtype.kind not in "biu"
    missing = [kind for kind, there in (("nan", options.omits and is_float), ("value", options.missing is not None),
                                        ("where", options.where is not None)) if there]
    seen = taken_as(dtype)
    if not name:
        own = options.reduction.function
        wanted = result_dtype(options, dtype) if options.dtype is not None else returned(own, seen)
    else:
        wanted = result_dtype(options, dtype.newbyteorder("="))
    if wanted.kind in "biu" and name in FRACTIONS and (is_float or weighted or name in ("std", "var")):
        of = "means with weights" if weighted else f"the {name} of {dtype}"
        raise TypeError(f"dtype must be one of floats for {of}, got {wanted}: round the result")
    out = kernel_dtype(name, seen, wanted)
    from_nothing = name in ("sum", "count", "any", "all")  # they have a result for no element
    least = max(options.min_count or 0, 0 if from_nothing else 1)
    value = seen.type(0) if options.missing is None else scalar(options.missing, "missing", dtype, seen)
    ignored = seen.type(0) if options.ignore is None else scalar(options.ignore, "ignore", dtype, seen)
    if name in ("count", "any", "all"):
        fill = out.type(0)
    elif wanted.kind not in "biu":
        fill = out.type(np.nan)
    elif options.missing is not None:
        check_value(np.asarray(options.missing), "missing", wanted, f"results have, too, of dtype {wanted}")
        fill = out.type(options.missing)
    else:
        fill = out.type(neutral(name, wanted))
    option = str(options.reduction.code) if not name else {
        "mean": options.rounding if out.kind in "iu" else "",
        "median": options.median if options.median != "midpoint" else options.rounding,
        "mode": options.ties + (" ignore" if options.ignore is not None else "")}.get(name, "")
    kind = "weighted" if weighted else name or "function"
    half = wanted.itemsize == 2 and wanted.kind not in "biu"
    # Of so many float16 a float64 holds every sum.
    wide = half and seen.kind == "f" and not (dtype.name == "float16" and n <= 1 << 13)
    state = "" if kind not in ("sum", "mean") else "pair" if wide else state_of(name, seen, out, n)
    if state in ("int16", "uint16", "int32", "int64", "limbs") and n > MOST:
        raise ValueError(f"blocks must have at most {MOST} elements, got {n}")
    once = half and out == np.float64 and kind in ("sum", "mean", "max", "min", "median", "mode")
    reduction = Reduction(kind, str(seen), str(out), state, tuple(missing), option, half=once)
    return Call(reduction, value, least, fill, ignored, None if name else options.reduction.function), wanted


def kernel_dtype(name: str, seen: np.dtype[Any], wanted: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that a walk writes, of which users get `wanted`."""
    if name == "count":
        return np.dtype(np.int64)
    if name in ("any", "all"):
        return np.dtype(bool)
    picks = name in ("max", "min", "mode", "first")
    if wanted.kind == "b":
        return seen if picks else np.dtype(np.uint8) if name == "median" else np.dtype(np.float64)
    if wanted.kind in "iu" or wanted.itemsize in (4, 8):
        return wanted
    return np.dtype(np.float32 if picks and seen == np.float32 else np.float64)


def scalar(value: Any, name: str, dtype: np.dtype[Any], seen: np.dtype[Any]) -> Any:
    """A number as one that elements can be."""
    a = np.asarray(value)
    if seen.kind != "f":
        check_value(a, name, dtype, f"{dtype} has")
    elif np.isnan(a):
        raise ValueError(f"{name} must be a value that elements can equal, got {value}: NaN are missing by "
                         "nan_policy='omit'")
    with np.errstate(all="ignore"):
        return a.astype(dtype).astype(seen)[()]  # as halves have it


def check_value(value: Array, name: str, dtype: np.dtype[Any], allowed: str) -> None:
    """That a number is one of an integer dtype."""
    (least, most), number = limits(dtype), value.item()
    if number != number or number in (np.inf, -np.inf) or int(number) != number or not least <= number <= most:
        raise ValueError(f"{name} must be a value that {allowed}, got {number!r}")


def returned(function: Any, x: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that an @njit function of a 1-D array returns."""
    from numba import from_dtype, types
    from numba.core.errors import NumbaError
    from numba.core.registry import cpu_target
    from numba.np.numpy_support import as_dtype

    block, why = types.Array(from_dtype(x), 1, "C"), ""
    try:
        called = types.Dispatcher(function).get_call_type(cpu_target.typing_context, (block,), {})
    except (NumbaError, TypeError) as error:
        called, why = None, f": {str(error).strip()}"
    if called is None:
        raise TypeError(f"reduction must take a 1-D array of {x}, which {function.__name__} does not{why}")
    kind = types.unliteral(called.return_type)
    if not isinstance(kind, (types.Number, types.Boolean)) or isinstance(kind, types.Complex):
        raise TypeError(f"reduction must return a real number, got {kind} of {function.__name__}")
    return np.dtype(as_dtype(kind))
