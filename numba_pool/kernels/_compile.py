"""The decorators of kernels.

A *worker* is the compiled function of a kernel. It does a range of units (rows of the output, planes) in one thread,
without the GIL, and may be called from other people's jitted code. It returns an int, 0 if all went well: `scatter` and
`gather` return how many indices lay outside, `spread_lines` returns 1 if a guess was wrong, and maxima return more than
0 if a result is infinite, for `nans.put_nans`. The driver (`_driver.py`) runs workers on threads, and adds up what they
return. The disk keeps what was compiled (`_cache.py`).
"""

from collections.abc import Callable
from functools import lru_cache, partial, update_wrapper
from types import FunctionType
from typing import Any

from numba import typeof, types
from numba.extending import overload

from ._cache import undisturbed
from ._deferred import Deferred
from ._driver import SERIAL, Arguments, driver, enter, kept, step_of, take_part, walk

fingerprint: Callable[[Any], Any] | None
try:
    from numba._dispatcher import compute_fingerprint as fingerprint
except ImportError:  # then `typeof` tells types apart, which takes 60 us for seven arguments, not 0.5
    fingerprint = None

UNWRAPPED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
INLINED = {**UNWRAPPED, "forceinline": True}


def helper(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call. To call it from Python would end the process."""
    return Deferred(function, UNWRAPPED)


def by_types(function: Callable[..., Any]) -> Any:
    """Decorate a function that makes, for the types of some arguments, the code that kernels call under the name of
    `function`. It is Numba's `overload`; the code cannot be called from Python.
    """
    return overload(function, jit_options=UNWRAPPED)


def inlined(function: Callable[..., Any]) -> Any:
    """The same as `helper` for functions of inner loops: LLVM inlines them. Numba's own inlining would compile the
    function once more at each call.
    """
    return Deferred(function, INLINED)


def copied(function: Callable[..., Any]) -> Any:
    """The same as `helper` for a large function, at a place where it is called once: Numba copies it there. LLVM goes
    through it once less, since what a function calls is looked at with each that calls it.
    """
    return Deferred(function, {**UNWRAPPED, "inline": "always"})


def compiled(function: Any, signature: tuple[Any, ...]) -> Any:
    """What Numba has compiled a function to for a signature; compiles it if need be."""
    if isinstance(getattr(function, "made", function), FunctionType):  # there are no vectors in Python
        raise RuntimeError("numba_pool works compiled only: run it without NUMBA_DISABLE_JIT")
    if signature not in function.overloads:
        function.compile(signature)
    return function.overloads[signature]


def address(made: Any) -> Any:
    """The address at which machine code begins. Numba never unloads machine code, and never moves it."""
    return made.library.get_pointer_to_function(made.fndesc.llvm_func_name)


def signature(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The Numba types for which a worker is compiled: of the range, and of such arguments behind it."""
    return types.int64, types.int64, *map(typeof, args)


def kinds(args: tuple[Any, ...]) -> Any:
    """A key for the Numba types of arguments. It does not say whether arrays are native and aligned: all are."""
    return fingerprint(args) if fingerprint else signature(args)


class Worker:
    """The compiled function of a kernel. It is compiled for the types of arguments that it meets, and lets other Python
    threads run meanwhile. It is called with a range of units and a tuple of its arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.__name__, self.py_func = function.__name__, function
        self.serial = kept(**SERIAL, no_cpython_wrapper=True)(function)
        self.entries: dict[Any, int] = {}  # the addresses of the machine code, by the types of arguments
        self.steps: dict[Any, int] = {}  # the addresses of its steps: see `_driver.step_of`

    @property
    def overloads(self) -> dict[Any, Any]:
        """What Numba has compiled, by signatures."""
        return getattr(self.serial, "overloads", {})

    def __call__(self, lo: int, hi: int, args: tuple[Any, ...]) -> Any:
        step = self.step(args)
        return alone()(step, lo, hi, args)

    def parallel(self, threads: int, parts: int, clock: int, units: int, args: tuple[Any, ...]) -> Any:
        """Do `units` units of work by so many threads, each thread's share in so many parts. Returns what `enter`
        returns; times are those of the `clock`.
        """
        return together()(self.step(args), threads, parts, clock, units, args)

    def entry(self, args: tuple[Any, ...]) -> int:
        """The address of the machine code for such arguments."""
        key = kinds(args)  # Numba takes 150 us to find the code by itself
        at = self.entries.get(key)
        if at is None:
            at = self.entries[key] = entry_of(self, args)
        return at

    def step(self, args: tuple[Any, ...]) -> int:
        """The address of the worker's step for such arguments: see `_driver.step_of`."""
        key = kinds(args)
        at = self.steps.get(key)
        if at is None:
            at = self.steps[key] = undisturbed(step_of)(self.__name__, self.entry(args), signature(args)[2:])
        return at


@undisturbed
def entry_of(worker: Worker, args: tuple[Any, ...]) -> int:
    """The address of a worker's machine code for such arguments; compiles it if need be."""
    made = compiled(worker.serial, signature(args))
    returned = types.unliteral(made.signature.return_type)
    if returned != types.int64:  # the driver has room for eight bytes
        raise TypeError(f"{worker.__name__} must return an int, got {returned}")
    return int(address(made))


@lru_cache(maxsize=1)
@undisturbed
def alone() -> Callable[..., Any]:
    """`_driver.walk`, called without Numba's look at the types of its arguments."""
    entered: Callable[..., Any] = compiled(walk, (*(types.int64,) * 3, Arguments())).entry_point
    return entered


@lru_cache(maxsize=1)
@undisturbed
def together() -> Callable[..., Any]:
    """The same for `_driver.enter`."""
    codes = [address(compiled(part, (types.int64,) * 2)) for part in (driver, take_part)]
    # `enter` is loaded after the driver: that starts Numba's threads, of which `enter` takes some.
    return partial(compiled(enter, (*(types.int64,) * 7, Arguments())).entry_point, *codes)


def worker(function: Callable[..., Any]) -> Worker:
    """Make a kernel's worker of a function of a range of units and of arguments, which returns an int."""
    return Worker(function)


def unchecked(worker: Any, args: tuple[Any, ...]) -> Any:
    """The worker for arguments of just these types: it does not look at their types, which takes 0.5 us. A worker that
    has not been called with such arguments is returned as it is.

    What is returned must not be called with arguments of other types: it would read them as what it expects.
    """
    step = getattr(worker, "steps", {}).get(kinds(args))
    if step is None:
        return worker
    direct: Any = partial(alone(), step)
    direct.__name__ = worker.__name__
    direct.parallel = lambda *job: together()(step, *job)
    return direct
