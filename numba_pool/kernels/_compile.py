"""The decorators every kernel is built with.

A *worker* runs a range of units (output rows, planes) serially, without the GIL; it may be called from other people's
jitted code. It returns an int, 0 if all went well: how many indices lay outside, or 1 if a guess did not hold. The
driver (`_driver.py`) runs it on threads. The disk keeps what was compiled (`_cache.py`).
"""

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from numba import njit, typeof, types
from numba.extending import overload

from ._cache import prepared, undisturbed
from ._driver import Arguments, driver, enter, step_of, take_part

fingerprint: Callable[[Any], Any] | None
try:
    from numba._dispatcher import compute_fingerprint as fingerprint
except ImportError:  # types are told apart by `typeof` instead: in 60 us for seven arguments, not in 0.5
    fingerprint = None

UNWRAPPED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
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


@undisturbed
def entry_of(worker: Any, args: tuple[Any, ...]) -> int:
    """Where the code of a worker for such arguments begins, now made if need be."""
    if isinstance(worker, FunctionType):
        worker()
    made = compiled(worker, signature(args))
    returned = types.unliteral(made.signature.return_type)
    if returned != types.int64:  # there is room for eight bytes
        raise TypeError(f"{worker.__name__} must return an int, got {returned}")
    return int(address(made))


def entry(worker: Any, args: tuple[Any, ...]) -> int:
    """The same, which takes 150 us, once for every sort of arguments."""
    key = kinds(args)
    at: int | None = worker.entries.get(key)
    if at is None:
        at = worker.entries[key] = entry_of(worker, args)
    return at


@undisturbed
def in_parallel(worker: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
    """`enter` for such arguments and this worker; neither looks at their types again."""
    codes = [address(compiled(part, (types.int64,) * 2)) for part in (driver, take_part)]
    run = compiled(enter, (*(types.int64,) * 7, Arguments())).entry_point  # after the driver, which starts the threads
    return partial(run, *codes, step_of(worker.__name__, entry(worker, args), signature(args)[2:]))


def refused(*args: Any) -> None:
    """Stands for a worker where Numba leaves it a plain function: there are no vectors in Python."""
    raise RuntimeError("numba_pool works compiled only: run it without NUMBA_DISABLE_JIT")


def worker(function: Callable[..., Any]) -> Any:
    """Compile to serial code that lets other Python threads run.

    Its `parallel` does `units` of work by so many threads, each share in so many parts, and returns what the `driver`
    returns and reports, by that clock.
    """
    known: dict[Any, Callable[..., Any]] = {}

    def parallel(threads: int, parts: int, clock: int, units: int, args: tuple[Any, ...]) -> Any:
        key = kinds(args)
        run = known.get(key)
        if run is None:
            run = known[key] = in_parallel(serial, args)
        return run(threads, parts, clock, units, args)

    serial = prepared(njit(nogil=True, no_cfunc_wrapper=True)(function))
    if isinstance(serial, FunctionType):
        serial = FunctionType(refused.__code__, refused.__globals__, function.__name__)
    serial.parallel, serial.known, serial.entries, serial.made = parallel, known, {}, {}
    return serial


def unchecked(worker: Any, args: tuple[Any, ...]) -> Any:
    """A worker that was compiled for such arguments, without Numba's look at their types, which takes it 0.25 us each;
    or itself if it was not.

    It must not be called with others: it reads an array as what it expects.
    """
    key = kinds(args)
    made = getattr(worker, "made", {}).get(key)
    if made is None:
        made = getattr(worker, "overloads", {}).get(signature(args))  # 100 us, once for every sort of arguments
        if made is None:
            return worker
        worker.made[key] = made
    direct: Any = partial(made.entry_point)
    direct.parallel = worker.known.get(key, worker.parallel)
    return direct
