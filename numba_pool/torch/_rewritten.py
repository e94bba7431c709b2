"""Code that calls torch's pooling functions, made anew so that it calls ours.

A method finds what it calls among the globals of its Python module: `F`, `torch`, `max_pool2d`, or a function of the
user's that pools. The new method has the same code but for that name, and shares the globals. Under the new name stands
ours, or a stand-in for torch's module that has ours. So a call costs no more than a call of ours, and whoever compiles,
exports or traces the model sees our functions.
"""

from __future__ import annotations  # help() shows them by name

import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.fx import _symbolic_trace

from . import _functions, _others
from ._pools import POOLS

PREFIX = "_numba_pool_"  # of the new names among the globals
# Packages whose functions call no pooling of the user's.
CLOSED = frozenset({"torch", "numba", "numpy", "numba_pool", *sys.stdlib_module_names})


def with_indices(function: Callable[..., Any]) -> Callable[..., Any]:
    """A maximum as torch's functions that return indices whatever `return_indices` is."""
    at = list(inspect.signature(function).parameters).index("return_indices") - 1

    @functools.wraps(function)
    def pooled(input: Any, *given: Any, **named: Any) -> Any:
        if len(given) > at:
            return function(input, *given[:at], True, *given[at + 1 :], **named)
        return function(input, *given, **{**named, "return_indices": True})

    return pooled


def by_torchs() -> dict[Any, Callable[..., Any]]:
    """Our functions, by torch's: it has most of them in several places."""
    found = {}
    for name in POOLS:
        function = getattr(_functions, name, None) or getattr(_others, name)
        for place in (F, torch):
            if own := getattr(place, name, None):
                found[own] = function
            if own := getattr(place, f"{name}_with_indices", None):
                found[own] = with_indices(function)
    return found | {torch.adaptive_max_pool1d: with_indices(_functions.adaptive_max_pool1d)}


OURS = by_torchs()


class StandIn(ModuleType):
    """A Python module with other values under some names. The others are read from it at each use."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__)
        vars(self)["_numba_pool_module"] = module

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_numba_pool_module"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["_numba_pool_module"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(vars(self)["_numba_pool_module"], name)

    def __dir__(self) -> list[str]:
        return dir(vars(self)["_numba_pool_module"])


STAND_INS: dict[ModuleType, StandIn] = {}
WRAPPED = getattr(_symbolic_trace, "_wrapped_fns_to_patch", {})  # the globals and names that torch.fx.wrap was told


class Rewritten(NamedTuple):
    """What takes the place of a value, and the names of the pooling functions that it calls."""

    value: Any
    calls: frozenset[str]


class Writer:
    """Makes functions anew, each once. What they read is put into their globals by `finish`."""

    def __init__(self) -> None:
        self.written: dict[FunctionType, Rewritten | None] = {}
        self.put: list[tuple[dict[str, Any], str, Any]] = []

    def finish(self) -> None:
        for scope, name, value in self.put:
            if is_same(scope.get(name), value):  # what is compiled need not be compiled again
                continue
            scope[name] = value
            if (id(scope), name.removeprefix(PREFIX)) in WRAPPED:  # torch.fx.wrap: no tracer is to look into it
                WRAPPED[id(scope), name] = scope

    def function(self, function: FunctionType) -> Rewritten | None:
        """The function with ours in the place of torch's, or None where it stays."""
        if function not in self.written:
            self.written[function] = None  # while it is at work: a function that calls itself calls what it was
            self.written[function] = self.write(function)
        return self.written[function]

    def write(self, function: FunctionType) -> Rewritten | None:
        scope, cells = function.__globals__, function.__closure__ or ()
        others = {path: other for path in paths(function.__code__) if (other := self.value(walk(scope, path)[1]))}
        held = [self.value(content(cell)) for cell in cells]
        code = renamed(function.__code__, {path[0] for path in others})
        found = [*others.values(), *filter(None, held)]
        if code is None or not found:
            return None
        for path, other in others.items():
            self.put.append((scope, PREFIX + path[0], self.seen_by(walk(scope, path)[0], path, other.value)))
        closure = tuple(CellType(other.value) if other else cell for other, cell in zip(held, cells))
        new = FunctionType(code, scope, function.__name__, function.__defaults__, closure)
        new.__kwdefaults__ = function.__kwdefaults__
        for name in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(function, name):
                setattr(new, name, getattr(function, name))
        new.__dict__ = vars(function)  # one dict for both: code may count its calls there
        return Rewritten(new, frozenset().union(*(other.calls for other in found)))

    def value(self, value: Any) -> Rewritten | None:
        """What takes the place of a value, or None where it stays."""
        if type(value) not in (FunctionType, BuiltinFunctionType):  # isinstance trusts proxies, as those of wrapt
            return None
        if ours := OURS.get(value):
            return Rewritten(ours, frozenset({ours.__name__}))
        return self.function(value) if type(value) is FunctionType and package(value) not in CLOSED else None

    def seen_by(self, modules: list[ModuleType], path: tuple[str, ...], value: Any) -> Any:
        """What the first name of a path has to stand for, so that the path leads to the value."""
        for module, name in zip(modules[::-1], path[len(modules) : 0 : -1]):
            stand_in = STAND_INS.setdefault(module, StandIn(module))
            self.put.append((vars(stand_in), name, value))
            value = stand_in
        return value


def walk(scope: dict[str, Any], path: tuple[str, ...]) -> tuple[list[ModuleType], Any]:
    """The Python modules that a path of names goes through, and what it leads to first that is none."""
    value, modules = scope.get(path[0]), []
    for name in path[1:]:
        if not isinstance(value, ModuleType):
            break
        modules.append(value)
        value = vars(value).get(name)
    return modules, value


def package(defined: Any) -> str:
    """The package that a function or class is defined in."""
    return (defined.__module__ or "").partition(".")[0]


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are one, or one function that was made anew twice."""
    if one is other:
        return True
    if type(one) is not FunctionType or type(other) is not FunctionType or vars(one) is not vars(other):
        return False
    held = zip(one.__closure__ or (), other.__closure__ or ())
    return one.__code__ == other.__code__ and all(is_same(content(a), content(b)) for a, b in held)


def content(cell: CellType) -> Any:
    """What a variable of an enclosing function holds; None if it has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def parts(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of those that are defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from parts(constant)


def paths(code: CodeType) -> set[tuple[str, ...]]:
    """The globals that the code reads, with the attributes that it reads of them: ``("F", "max_pool2d")``."""
    found = set()
    for part in parts(code):
        path: tuple[str, ...] = ()
        for step in dis.get_instructions(part):
            if path and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                path += (step.argval,)
                continue
            found.add(path)
            path = (step.argval,) if step.opname == "LOAD_GLOBAL" else ()
    return found - {()}


def renamed(code: CodeType, names: set[str]) -> CodeType | None:
    """The code with new names in the place of these, where they are globals; an attribute of such a name stays.

    None where that cannot be done: an instruction has room for so many names only.
    """
    given = (*code.co_names, *(PREFIX + name for name in code.co_names if name in names))
    instructions = bytearray(code.co_code)
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_GLOBAL" and step.argval in names:
            place = given.index(PREFIX + step.argval) << 1
            argument = step.arg or 0
            if max(place, argument) > 255:
                return None
            instructions[step.offset + 1] = place | argument & 1
    inner = [renamed(constant, names) if isinstance(constant, CodeType) else constant for constant in code.co_consts]
    if any(new is None and old is not None for new, old in zip(inner, code.co_consts)):
        return None
    new = code.replace(co_names=given, co_code=bytes(instructions), co_consts=tuple(inner))
    wanted = [PREFIX + name if opname == "LOAD_GLOBAL" and name in names else name for opname, name in read(code)]
    return new if [name for _, name in read(new)] == wanted else None  # in case of a Python that writes it otherwise


def read(code: CodeType) -> list[tuple[str, Any]]:
    """The instructions, and what they take, but for the code of inner functions."""
    return [(step.opname, None if isinstance(step.argval, CodeType) else step.argval)
            for step in dis.get_instructions(code)]  # fmt: skip
