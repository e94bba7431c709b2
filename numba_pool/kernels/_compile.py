"""The decorators every kernel is built with.

A *worker* runs a range of units (output rows, planes) serially, without the GIL; it may be called from other people's
jitted code. It returns an int, 0 if all went well: how many indices lay outside, or 1 if a guess did not hold. The
driver (`_driver.py`) runs it on threads. The disk keeps what was compiled (`_cache.py`).
"""

from collections.abc import Callable
from functools import lru_cache, partial, update_wrapper
from types import FunctionType
from typing import Any

from numba import njit, typeof, types
from numba.extending import overload

from ._cache import prepared, undisturbed
from ._driver import SERIAL, Arguments, driver, enter, step_of, take_part, walk

fingerprint: Callable[[Any], Any] | None
try:
    from numba._dispatcher import compute_fingerprint as fingerprint
except ImportError:  # types are told apart by `typeof` instead: in 60 us for seven arguments, not in 0.5
    fingerprint = None

UNWRAPPED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
INLINED = {**UNWRAPPED, "forceinline": True}


def helper(function: Callable[..., Any]) -> Any:
    """Compile what kernels alone call: to call it from Python would end the process."""
    return njit(**UNWRAPPED)(function)


def by_types(function: Callable[..., Any]) -> Any:
    """`overload` of what kernels alone call."""
    return overload(function, jit_options=UNWRAPPED)


def inlined(function: Callable[..., Any]) -> Any:
    """The same for what stands in inner loops: LLVM puts it where it is called. Numba would, too, but compile it again
    at each of these places.
    """
    return njit(**INLINED)(function)


def compiled(function: Any, signature: tuple[Any, ...]) -> Any:
    """What Numba made of a function, now if need be."""
    if isinstance(function, FunctionType):  # there are no vectors in Python
        raise RuntimeError("numba_pool works compiled only: run it without NUMBA_DISABLE_JIT")
    if signature not in function.overloads:
        function.compile(signature)
    return function.overloads[signature]


def address(made: Any) -> Any:
    """Where machine code begins. Numba never unloads machine code, and never moves it."""
    return made.library.get_pointer_to_function(made.fndesc.llvm_func_name)


def signature(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a worker is compiled for, for such arguments after the range."""
    return types.int64, types.int64, *map(typeof, args)


def kinds(args: tuple[Any, ...]) -> Any:
    """A key that tells arguments of different types apart; arrays are native and aligned, which it does not tell."""
    return fingerprint(args) if fingerprint else signature(args)


class Worker:
    """Serial code that lets other Python threads run, compiled for every sort of arguments that it meets.

    It is called with a range of units and a tuple of its arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.__name__, self.py_func = function.__name__, function
        self.serial = prepared(njit(**SERIAL, no_cpython_wrapper=True)(function))
        self.overloads = getattr(self.serial, "overloads", {})
        self.entries: dict[Any, int] = {}  # where machine code begins
        self.steps: dict[Any, int] = {}

    def __call__(self, lo: int, hi: int, args: tuple[Any, ...]) -> Any:
        step = self.step(args)
        return alone()(step, lo, hi, args)

    def parallel(self, threads: int, parts: int, clock: int, units: int, args: tuple[Any, ...]) -> Any:
        """Do `units` of work by so many threads, each share in so many parts. What `enter` returns, by that clock."""
        return together()(self.step(args), threads, parts, clock, units, args)

    def entry(self, args: tuple[Any, ...]) -> int:
        """Where the code for such arguments begins."""
        key = kinds(args)  # Numba's own look takes 150 us
        at = self.entries.get(key)
        if at is None:
            at = self.entries[key] = entry_of(self, args)
        return at

    def step(self, args: tuple[Any, ...]) -> int:
        """Where its step for such arguments begins."""
        key = kinds(args)
        at = self.steps.get(key)
        if at is None:
            at = self.steps[key] = undisturbed(step_of)(self.__name__, self.entry(args), signature(args)[2:])
        return at


@undisturbed
def entry_of(worker: Worker, args: tuple[Any, ...]) -> int:
    """Where the code of a worker for such arguments begins, now made if need be."""
    made = compiled(worker.serial, signature(args))
    returned = types.unliteral(made.signature.return_type)
    if returned != types.int64:  # there is room for eight bytes
        raise TypeError(f"{worker.__name__} must return an int, got {returned}")
    return int(address(made))


@lru_cache(maxsize=1)
@undisturbed
def alone() -> Callable[..., Any]:
    """`walk`, without Numba's look at types."""
    entered: Callable[..., Any] = compiled(walk, (*(types.int64,) * 3, Arguments())).entry_point
    return entered


@lru_cache(maxsize=1)
@undisturbed
def together() -> Callable[..., Any]:
    """The same for `enter`."""
    codes = [address(compiled(part, (types.int64,) * 2)) for part in (driver, take_part)]
    # After the driver, which starts the threads that this one asks for.
    return partial(compiled(enter, (*(types.int64,) * 7, Arguments())).entry_point, *codes)


def worker(function: Callable[..., Any]) -> Worker:
    """Compile a function of a range of units and of arguments, which returns an int."""
    return Worker(function)


def unchecked(worker: Any, args: tuple[Any, ...]) -> Any:
    """A worker that was called with such arguments, without a look at their types, which takes 0.5 us; or itself if it
    was not.

    It must not be called with others: it reads an array as what it expects.
    """
    step = getattr(worker, "steps", {}).get(kinds(args))
    if step is None:
        return worker
    direct: Any = partial(alone(), step)
    direct.__name__ = worker.__name__
    direct.parallel = lambda *job: together()(step, *job)
    return direct
