"""The classes that an accelerated model's Modules have in the place of their own.

The twin of a class is a subclass, of the same name, whose methods pool by numba_pool: those that call torch's pooling
functions are rewritten, and before a pooling class of torch stands its own twin, so that `super().forward(x)` leads
there, too.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch

from ._modules import FORWARDS, MISSING
from ._rewritten import Writer, package

MARK = "_numba_pool_twin_of"  # the attribute of a twin that names its class


class Accelerated:
    """What twins add: copies stay accelerated, and files name the class that they were made of."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(0)  # later protocols do not let another class take the place
        make, (cls, *rest), *state = reduced
        return make, (origin(type(self)) or cls, *rest), *state

    def __copy__(self) -> Any:
        reduced: Any = super().__reduce_ex__(4)
        make, arguments, state, *_ = reduced
        twin = make(*arguments)
        twin.__setstate__(state)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        reduced: Any = super().__reduce_ex__(4)
        make, arguments, state, *_ = reduced
        twin = memo[id(self)] = make(*copy.deepcopy(arguments, memo))
        twin.__setstate__(copy.deepcopy(state, memo))
        return twin


def origin(cls: type) -> type | None:
    """The class that a twin was made of; None for any other. If all this is imported anew, it knows twins again."""
    found: type | None = vars(cls).get(MARK)
    return found


def make(cls: Any, bases: Any, methods: dict[str, Any]) -> type:
    """A twin. Its names are those of its class, by which tracers know which Modules are torch's."""
    names = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    names |= {name: line for name, line in vars(cls).items() if name == "__firstlineno__"}  # for the source, from 3.13
    # Were the class not the first base, Python would not let its instances change to the twin.
    made: type = type(cls)(cls.__name__, (cls, *bases, Accelerated), {**names, **methods, MARK: cls})
    return made


TWINS = {cls: make(cls, (), {"forward": forward, **MISSING.get(cls.__name__[:-2], {})})
         for cls, forward in FORWARDS.items()}  # fmt: skip


class Twins:
    """The twins for one model."""

    def __init__(self) -> None:
        self.made: dict[type, type] = {**TWINS}
        self.writer = Writer()

    def of(self, cls: type) -> type:
        """The twin of a class; itself where torch's pooling is nowhere in it, or it cannot have a twin."""
        if cls not in self.made:
            self.made[cls] = cls if is_closed(cls) or origin(cls) or refusal(cls) else self.twin(cls)
        return self.made[cls]

    def twin(self, cls: type) -> type:
        bases = [twin for base in cls.__bases__ if (twin := self.of(base)) is not base]
        methods = {}
        for name, wrap, function in functions(cls):
            if new := self.writer.function(function):
                methods[name] = wrap(new.value)
        return make(cls, bases, methods) if bases or methods else cls

    def calls(self, cls: type) -> list[str]:
        """The pooling functions that the methods of a class call."""
        own = [base for base in cls.__mro__ if not is_closed(base) and not origin(base)]
        found = [self.writer.function(function) for base in own for _, _, function in functions(base)]
        return sorted({name for new in found if new for name in new.calls})


def functions(cls: type) -> Iterator[tuple[str, Callable[[Any], Any], FunctionType]]:
    """The methods that a class defines, but for constructors: their names, what wraps them, and the functions.

    A constructor has run. What it keeps of torch's is kept.
    """
    for name, value in vars(cls).items():
        if name in ("__init__", "__new__"):
            continue
        static = isinstance(value, (staticmethod, classmethod))
        function = value.__func__ if static else value
        if type(function) is FunctionType:  # isinstance trusts proxies, as those of wrapt
            yield name, type(value) if static else lambda function: function, function


def is_closed(cls: type) -> bool:
    """Whether a class is torch's or ours, and not the user's."""
    return cls is object or package(cls) in ("torch", "numba_pool")


def refusal(cls: type) -> str:
    """Why a class of the user's cannot have a twin, or nothing."""
    if issubclass(cls, (torch.jit.ScriptModule, torch.fx.GraphModule)):
        return "it is compiled or traced already: call accelerate before that"
    for name in ("__reduce__", "__reduce_ex__", "__init_subclass__"):
        definer = next(base for base in cls.__mro__ if name in vars(base))
        if definer not in (object, Accelerated) and definer.__module__ not in ("abc", "typing"):
            return f"its class has {name} of its own"
    metaclasses: tuple[type, ...] = inspect.getmro(type(cls))
    for name in ("__new__", "__init__"):
        definer = next(base for base in metaclasses if name in vars(base))
        if definer.__module__ not in ("builtins", "abc", "typing"):
            return f"its metaclass {type(cls).__name__} has {name} of its own"
    return ""
