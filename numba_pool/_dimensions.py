"""Objects of xarray taken apart, and put together again around new data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from xarray import DataArray, Dataset, Variable

from ._arguments import bounded, integer, shown
from ._arrays import HALVES

T = TypeVar("T", DataArray, Dataset)
Sizes = dict[Hashable, int]

SELF = "<this array>"  # the variable that a DataArray is, in a Dataset made of it


def lengths(obj: Any, windows: Any) -> Sizes:
    """How long windows are along each dimension, checked against the object."""
    if not isinstance(obj, (DataArray, Dataset)):
        raise TypeError(f"obj must be a DataArray or a Dataset of xarray, got {type(obj).__name__}: for arrays there "
                        "are numba_pool.coarsen and numba_pool.max_pool2d, for dask arrays numba_pool.dask")
    if not isinstance(windows, Mapping):
        raise TypeError(f"windows must be a dict of dimension: int, got {shown(windows)}")
    for dim in windows:
        if dim not in obj.dims:
            raise ValueError(f"windows must name dimensions of obj, which are {tuple(obj.dims)}, got {dim!r}")
        several = obj.xindexes.get_all_coords(dim, errors="ignore")
        if len(several) > 1:
            raise ValueError(f"dimension {dim!r} must have no index of several coordinates, got one of "
                             f"{list(several)}: pass obj.reset_index({dim!r})")
    return {dim: bounded(integer(n, "windows", "a dict of dimension: int"), "windows", 1)
            for dim, n in windows.items()}


def per_dim(value: Any, windows: Sizes, name: str, defaults: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
    """One value for each dimension of `windows`, of a value for all or a dict."""
    if isinstance(value, (tuple, list)):
        raise TypeError(f"{name} must be one value for all dimensions, or a dict of dimension: value, got {value!r}")
    if not isinstance(value, Mapping):
        return dict.fromkeys(windows, value)
    for dim in value:
        if dim not in windows:
            raise ValueError(f"{name} names dimension {dim!r}, which windows does not: {list(windows)}")
    return {dim: value.get(dim, defaults[dim]) for dim in windows}


def rebuilt(obj: T, windows: Sizes, around: Callable[[Dataset], Dataset],
            made: Callable[[Hashable, Variable, Any], Any]) -> T:
    """The object with new data in every variable that has one of the dimensions.

    `around` makes the rest, out of a Dataset with a number in the place of each such variable: so xarray itself decides
    what becomes of coordinates and attributes. `made` takes a variable's name, itself and its data, and gives new data.
    """
    ds = obj.to_dataset(name=SELF) if isinstance(obj, DataArray) else obj
    old = {name: v for name, v in ds.variables.items()
           if name in ds.data_vars and not set(windows).isdisjoint(v.dims)}
    for name, variable in old.items():
        check_dtype(name, variable)
    rest = around(ds.assign({name: Variable((), 0, v.attrs, v.encoding) for name, v in old.items()}))
    new = {}
    for name, variable in old.items():
        with naming(name):
            like = rest.variables[name]
            new[name] = Variable(variable.dims, made(name, variable, data_of(variable)), like.attrs, like.encoding)
    result = rest.assign(new)
    return result if isinstance(obj, Dataset) else as_array(result, obj, windows)


def as_array(result: Dataset, obj: DataArray, windows: Sizes) -> DataArray:
    """The DataArray in a Dataset, as xarray's own coarsening leaves one."""
    array = result[SELF].rename(None).copy(deep=False)
    array.encoding = {}
    for name, coord in obj.coords.items():
        if set(windows).isdisjoint(coord.dims):
            array.coords[name].attrs = coord.attrs
        elif name == obj.name:  # a coordinate is coarsened itself, and is its own coordinate then
            array = array.assign_coords({name: result.variables[SELF]})
    array.name = obj.name
    return array


@contextmanager
def naming(name: Hashable) -> Iterator[None]:
    """Have errors tell in which variable of a Dataset they were."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if name != SELF:
            error.add_note(f"in variable {name!r}")
        raise


def check_dtype(name: Hashable, variable: Variable) -> None:
    """That a variable is of numbers."""
    dtype = variable.dtype
    if dtype.kind not in "biuf" and dtype.name not in HALVES:
        own, way = "obj", ""
        if name != SELF:
            own = f"variable {name!r} of obj"
            way = (f": drop it by obj.drop_vars({name!r}), or have it taken along as a coordinate by "
                   f"obj.set_coords({name!r})")
        raise TypeError(f"{own} must be of floats, integers or bools, got {dtype}{way}")


def data_of(variable: Variable) -> Any:
    data = variable.data
    if not (isinstance(data, np.ndarray) or is_lazy(data)):
        raise TypeError(f"obj must hold arrays of NumPy or dask, got {type(data).__module__}.{type(data).__name__}")
    return data


def is_lazy(data: Any) -> bool:
    return hasattr(data, "__dask_graph__")


def coarsened_by_xarray(ds: Dataset, factors: Sizes, boundaries: dict[Hashable, str], sides: dict[Hashable, str],
                        coord_func: Any, keep_attrs: Any) -> Dataset:
    """What xarray makes of coordinates and attributes, in a Dataset whose variables need no coarsening."""
    present = {dim: factor for dim, factor in factors.items() if dim in ds.dims}  # those that coordinates have
    padded = {dim: "pad" if boundaries[dim] == "short" else boundaries[dim] for dim in present}
    if isinstance(coord_func, Mapping):
        coord_func = dict(coord_func)  # xarray adds to it
        for name in coord_func:
            if name not in ds.coords and name not in factors:
                raise ValueError(f"coord_func must name coordinates of obj, which are {list(ds.coords)}, got {name!r}")
    cut = ds.coarsen(present, boundary=padded, side=sides, coord_func=coord_func)
    try:
        return cut.reduce(untouched, keep_attrs=keep_attrs)
    except Exception as error:
        odd = {name: str(coord.dtype) for name, coord in ds.coords.items()
               if not present.keys().isdisjoint(coord.dims) and coord.dtype.kind not in "biufcmM"}
        if odd:
            error.add_note(f"coord_func has to name a reduction for each of the coordinates {odd}, such as "
                           f"coord_func={{{next(iter(odd))!r}: 'min'}}")
        raise


def untouched(a: Any, axis: Any) -> Any:
    raise AssertionError("no variable is left that has a dimension to coarsen")


def check_keywords(function: str, unknown: Mapping[str, Any], obj: Any, instead: Mapping[str, str]) -> None:
    """That there are no unknown keywords. Of those that name dimensions, as xarray's own methods have it, and of those
    in `instead`, the message says what to pass.
    """
    dims = {name: value for name, value in unknown.items() if name in getattr(obj, "dims", ())}
    for name in unknown:
        way = f": pass {dims} as windows" if dims else instead.get(name, "")
        raise TypeError(f"{function}() got an unexpected keyword argument {next(iter(dims), name)!r}{way}")
