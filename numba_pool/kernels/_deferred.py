"""Functions for Numba's compiler, made when they are first asked for."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from numba import njit


class Deferred:
    """What Numba's `njit` makes of a function, and `finish` of that. It is made when an attribute of it is first asked
    for, as Numba does where it compiles a call of the function. To make all hundred of them at import would take a
    third of its time.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], finish: Any = None) -> None:
        self.py_func, self.options, self.finish = function, options, finish

    @cached_property
    def made(self) -> Any:
        """The compiled function."""
        function = njit(**self.options)(self.py_func)
        return self.finish(function) if self.finish else function

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)
