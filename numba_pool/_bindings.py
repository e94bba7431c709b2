"""What bindings to frameworks have in common: the core's functions by rank, their signatures and docstrings, and the
gradient of a norm in terms of its windows' elements.
"""

from __future__ import annotations

import ctypes
import inspect
import mmap
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy

from . import functional
from ._arguments import grid
from ._dispatch.calls import check_bool as check_bool
from ._docstrings import entries, joined, sections

Function = Callable[..., Any]
Entries = Mapping[str, str | None]  # parameters of a docstring: their text, or None to leave one out


def missing(binding: str, library: str, error: ImportError) -> ImportError:
    """What a binding raises where its library is missing. No index has numba_pool: a clone has its extras."""
    return ImportError(f"numba_pool.{binding} needs {library}; in a clone of numba_pool: pip install '.[{binding}]' "
                       f"({error})")


def core(name: str, rank: int, suffix: str = "") -> Function:
    """The core's function, `core("max_pool", 2, "_backward")` is `max_pool2d_backward`."""
    function: Function = getattr(functional, f"{name}{rank}d{suffix}")
    return function


@lru_cache
def gather_of(rank: int) -> Function:
    """The core's gather, with 0 for a window without any valid element, whose index is -1."""
    gather = core("max_unpool", rank, "_backward")

    def gathered(grad_output: Any, indices: Any, out: Any = None, **more: Any) -> Any:
        nothing = indices < 0
        if not nothing.any():
            return gather(grad_output, indices, out=out, **more)
        result = gather(grad_output, numpy.maximum(indices, 0), out=out, **more)
        result[nothing] = 0
        return result

    return gathered


# The C library maps results of this size anew at every allocation, and never keeps them.
MAPPED = 32 << 20
HUGE = 2 << 20


@lru_cache
def madvise() -> Function | None:
    """The C library's, where there are huge pages."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return function


def ask_for_huge_pages(a: Any) -> None:
    """Ask for huge pages for a result in fresh memory that another allocator has mapped.

    The system fills pages with zeros as they are first written. For small pages that takes longer than the pooling: a
    2x2/2 maximum of 98 MiB and its gradient took 83 ms, with huge pages 31. What the system answers does not matter.
    """
    if a.nbytes < MAPPED or madvise() is None:
        return
    start = -(-a.__array_interface__["data"][0] // HUGE) * HUGE
    size = (a.__array_interface__["data"][0] + a.nbytes - start) // HUGE * HUGE
    madvise()(start, size, mmap.MADV_HUGEPAGE)  # type: ignore[misc]


MISSING = "nan_policy", "where", "min_count"  # arguments that bindings of JAX and autograd do not take


def accepted(function: Function, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments that a function takes: a backward needs fewer than its forward, or the same."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in names}


def signature(function: Function, drop: tuple[str, ...], *more: inspect.Parameter) -> inspect.Signature:
    """That of a function without some parameters, and with others at the end. Types would be those of NumPy."""
    kept = [p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(function).parameters.values()
            if p.name not in drop and p.name not in {new.name for new in more}]
    return inspect.Signature([*kept, *more])


def publish(call: Function, name: str, module: str, shown: inspect.Signature, text: str) -> Function:
    """Give a function that takes anything the name, the signature and the docstring that help() shows."""
    f: Any = call
    f.__name__ = f.__qualname__ = name
    f.__module__, f.__doc__, f.__signature__ = module, text, shown
    return call


def docstring(function: Function, about: str, changes: Entries, example: str,
              own: Mapping[str, str] = MappingProxyType({})) -> str:
    """The core's docstring for arrays of a framework: `about` says which, and the example is its own, as are sections
    that are given by title.
    """
    if not function.__doc__:  # which `python -OO` leaves out
        return ""
    found = sections(inspect.getdoc(function) or "")
    summary, _, rest = found[""].partition("\n")
    found[""] = "\n\n".join(filter(None, (summary, rest.strip(), about)))
    found["Parameters"] = "\n".join(filter(None, {**entries(found["Parameters"]), **changes}.values()))
    return joined({**found, **own, "Examples": example}) + "\n"


def example(name: str, module: str, rank: int, call: str, setup: str) -> str:
    """An example for a docstring: the shape of the result of one call."""
    size = 4 if "unpool" in name else 1 if "global" in name else 2
    x, y = ((1, 1, *(n,) * rank) for n in (2 if size == 4 else 4, size))
    return f""">>> {setup}
>>> from {module} import {name}
>>> x = {setup.split()[-1]}.ones({x})
>>> {name}{call.format(rank=rank)}.shape
{y}"""


def places(size: tuple[int, ...], kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
           ceil_mode: bool = False) -> tuple[Any, Any]:
    """Where the elements of each window stand in a flat plane of spatial shape `size`, as (windows, elements), and
    which of them are inside: windows at a border have fewer.
    """
    where, inside = numpy.zeros((1, 1), numpy.int64), numpy.ones((1, 1), bool)
    for axis in grid(size, kernel_size, stride, padding, dilation, ceil_mode):
        along = axis.start[:, None] + axis.step * numpy.arange(axis.longest)
        kept = along < axis.stop[:, None]
        where = numpy.add.outer(where * axis.size, numpy.where(kept, along, 0)).swapaxes(1, 2)
        inside = numpy.logical_and.outer(inside, kept).swapaxes(1, 2)
        where, inside = (a.reshape(a.shape[0] * axis.n, -1) for a in (where, inside))
    return where, inside


def check_plain_norm(arguments: Mapping[str, Any]) -> None:
    """That `norm_gradient` knows the norm: it knows none with these arguments, nor those of whole planes."""
    if arguments["mean"] or arguments["eps"] or "stride" not in arguments:
        raise NotImplementedError("lp_pool with mean or eps has first derivatives in reverse mode only, as "
                                  "global_lp_pool has")


def norm_gradient(np: Any, p: float, take: Function, put: Function, fixed: Function, grad: Any, x: Any) -> Any:
    """The gradient of an Lp norm over windows, as operations that a framework can differentiate again.

    Parameters
    ----------
    np : module
        The framework's NumPy.
    take, put : functions
        From the input to the elements of each window, of shape (..., windows, elements) with 0 where there is none, and
        the transpose.
    fixed : function
        What takes part in no derivative.
    grad, x : arrays
        The upstream gradient of shape (..., windows), and the norm's input.

    Notes
    -----
    It is ``grad * sign(x) * (|x| / y)^(p-1)``, added up over the windows. Each window is measured by its largest
    element, so that no power overflows or vanishes that the result does not. At 0, powers less than one have infinite
    derivatives; they count as 0, as the core has it for the first derivative.
    """
    if abs(p) == float("inf"):
        raise NotImplementedError(f"lp_pool with norm_type={p} has first derivatives in reverse mode only")
    taken = take(x)
    largest = fixed(np.amax(abs(taken), -1))[..., None]
    ratio = taken / np.where((largest > 0) & (largest < float("inf")), largest, 1.0)
    if p == 2:
        share, power = ratio, ratio * ratio
    else:
        used = ratio != 0
        size = np.where(used, abs(ratio), 1.0)
        share, power = np.where(used, np.sign(ratio) * size ** (p - 1), 0.0), np.where(used, size**p, 0.0)
    total = power.sum(-1)
    filled = total != 0
    up = np.where(filled, grad * np.where(filled, total, 1.0) ** ((1 - p) / p), 0.0)
    return put(up[..., None] * share)
