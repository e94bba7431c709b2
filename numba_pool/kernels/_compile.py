"""The decorator every kernel is built with, what shares its work among threads, and the disk cache behind both.

A *worker* runs a range of units (output rows, planes) serially, without the GIL; it may be called from other people's
jitted code. It returns an int, 0 if all went well: how many indices lay outside, or 1 if a guess did not hold. The
*driver*, compiled once for all workers, is a thin `prange` over such ranges. `enter` is what Python calls: it lays a
worker's arguments out in memory, for the driver to pass on without a look.

All three know of each other by address. If the driver named the worker, Numba would compile a driver for each, and
optimise and write out the worker again within every layer of a parallel function, five in all: a third of all the time.
And a cached serial function that names a parallel one does not start the threads after a reload (numba#9938).

The cache is not Numba's own, which does not notice an edit in another file, raises at import where no directory is
writable (numba#4908), runs whatever bytes a damaged file holds, and keeps an index that processes compiling at the
same time overwrite for each other. Here every signature is a file of its own, named by a hash of all that decides its
machine code (the sources of every kernel among it), written whole or not at all, and checked before it is believed.
Nothing is read or written at import. `NUMBA_POOL_CACHE=0` turns it off; `NUMBA_CACHE_DIR` says where, as for Numba.
"""

import gc
import hashlib
import logging
import os
import pickle
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial, wraps
from pathlib import Path
from types import FunctionType
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange, typeof, types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload

from ._interrupts import uninterrupted

KERNELS = Path(__file__).parent
PACKAGE = KERNELS.parent
CACHE_ON = os.environ.get("NUMBA_POOL_CACHE", "1") != "0"
# What changes the machine code of the same source for the same processor.
FLAGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT")

WORD = ir.IntType(64)
STEP = ir.FunctionType(WORD, (WORD, WORD, WORD))


def digest_sources(package: Path) -> str:
    """A hash of everything that kernels are made of; empty where there are no sources to read."""
    files = [*sorted((package / "kernels").glob("*.py")), *sorted((package / "simd").glob("*.py")),
             package / "_windows.py"]
    digest = hashlib.sha256()
    try:
        for file in files:
            source = file.read_bytes()
            digest.update(f"{file.name} {len(source)} ".encode() + source)
    except OSError:
        return ""
    return digest.hexdigest()[:16]


SOURCES = digest_sources(PACKAGE)  # at import, so that a later edit does not name what was loaded before it


def user_cache() -> Path:
    """Where this system keeps a user's caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local")
    if sys.platform == "darwin":
        return Path("~/Library/Caches")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")


def candidates() -> Iterator[Path]:
    """Directories that may hold the cache, the preferred one first."""
    name = f"numba_pool_{hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:16]}"  # one per installation
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR) / name
    yield KERNELS / "__pycache__"
    try:
        yield user_cache().expanduser() / name
    except RuntimeError:  # no home
        return


def processor() -> str:
    """The processor that kernels are compiled for, by LLVM's name."""
    name, _ = cpu_target.target_context.codegen().magic_tuple()[1:]
    return str(name)


def vector_bytes() -> int:
    """Bytes of the widest registers that this processor has."""
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    enabled = features.split(",")
    if "+avx512f" in enabled:
        return 64
    return 32 if "+avx" in enabled else 16


def writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


@lru_cache(maxsize=1)
def directories() -> tuple[list[Path], Path | None]:
    """Where to look, and where to write: the first directory that can be written, and those before it."""
    look = []
    for directory in candidates():
        look.append(directory)  # a read-only one may have been filled when the image was built
        if writable(directory):
            return look, directory
    return look, None


_complained = False


def complain(reason: str) -> None:
    """One warning in the life of a process, whatever goes wrong how often."""
    global _complained
    if not _complained:
        _complained = True
        warnings.warn(
            f"numba_pool works, but every process compiles anew: {reason}. Set NUMBA_CACHE_DIR to a writable "
            "directory, or NUMBA_POOL_CACHE=0 to do without a cache.",
            RuntimeWarning,
            stacklevel=2,
        )


def describe(value: Any) -> str:
    """A closure's value, or the function itself, in words that are the same in every process."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic, np.dtype, numba.types.Type)):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    value = getattr(value, "py_func", getattr(value, "_defn", value))  # of a jitted function, of an intrinsic
    if isinstance(value, FunctionType):
        code = value.__code__
        cells = [describe(cell.cell_contents) for cell in value.__closure__ or ()]
        return f"{value.__module__}.{value.__qualname__}:{code.co_firstlineno} {code.co_code.hex()} {cells}"
    raise TypeError(f"no kernel's machine code may depend on {value!r}")


class DiskCache:
    """What a Numba dispatcher asks of a cache, for one function. No failure here is more than a cache miss."""

    def __init__(self, dispatcher: Any) -> None:
        self.name = dispatcher.py_func.__name__
        self.function = f"{describe(dispatcher)} {sorted(dispatcher.targetoptions.items())}"

    @property
    def cache_path(self) -> str | None:
        """Where files are written; part of Numba's statistics."""
        _, target = directories()
        return None if target is None else str(target)

    def key(self, signature: Any, codegen: Any) -> str:
        """Everything that decides the machine code."""
        versions = sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__
        flags = [getattr(numba.config, flag, None) for flag in FLAGS]
        return "\n".join(map(str, (versions, flags, codegen.magic_tuple(), SOURCES, self.function, signature)))

    def file_name(self, key: str) -> str:
        return f"numba_pool-{SOURCES}-{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.nbc"

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiled function for a signature, or None."""
        try:
            target_context.refresh()
            key = self.key(signature, target_context.codegen())
            for directory in directories()[0]:
                body = read(directory / self.file_name(key))
                if body is not None:
                    stored, parts = pickle.loads(body)
                    if stored == key:
                        return CompileResult._rebuild(target_context, *parts)
        except Exception:  # whatever it is, compiling will either do or say it better
            return None
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled."""
        key = self.key(signature, result.codegen)
        if " at 0x" in key or result.library.has_dynamic_globals or any(not f.can_cache for f in result.lifted):
            return  # addresses of this process
        _, target = directories()
        if target is None:
            complain(f"none of {', '.join(map(str, directories()[0]))} can be written")
            return
        try:
            remove_stale(target)
            write(target / self.file_name(key), dumps((key, result._reduce())))
        except Exception as error:
            complain(f"{type(error).__name__} on writing to {target}: {error}")

    def flush(self) -> None:
        """Forget the files of this function."""
        _, target = directories()
        for file in target.glob(f"numba_pool-{SOURCES}-{self.name}-*.nbc") if target else ():
            file.unlink(missing_ok=True)


def read(file: Path) -> bytes | None:
    """A file's content, if it is there and whole."""
    try:
        stored = file.read_bytes()
    except OSError:
        return None
    check, body = stored[:32], stored[32:]
    return body if hashlib.sha256(body).digest() == check else None


def write(file: Path, body: bytes) -> None:
    """All of it or nothing, also where several processes write the same file."""
    temporary = file.with_suffix(f".{uuid.uuid4().hex[:16]}.tmp")
    try:
        temporary.write_bytes(hashlib.sha256(body).digest() + body)
        os.replace(temporary, file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@lru_cache(maxsize=1)
def remove_stale(directory: Path) -> None:
    """Files made from sources that are no more."""
    for file in directory.glob("numba_pool-*.nbc"):
        if not file.name.startswith(f"numba_pool-{SOURCES}-"):
            file.unlink(missing_ok=True)


# Private parts of Numba that this package can do without. Then Numba's own cache has to do.
compiling: AbstractContextManager[Any] = nullcontext()
try:
    from numba.core.compiler import CompileResult
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.serialize import dumps

    OWN_CACHE = bool(SOURCES) and hasattr(CompileResult, "_reduce") and hasattr(CompileResult, "_rebuild")
    compiling = global_compiler_lock
    if hasattr(os, "register_at_fork"):
        # A child that is forked while another thread compiles would inherit the lock and never get it.
        os.register_at_fork(before=global_compiler_lock.acquire, after_in_parent=global_compiler_lock.release,
                            after_in_child=global_compiler_lock.release)
except (ImportError, AttributeError):
    OWN_CACHE = False
fingerprint: Callable[[Any], Any] | None
try:
    from numba._dispatcher import compute_fingerprint as fingerprint
except ImportError:  # types are told apart by `typeof` instead: in 60 us for seven arguments, not in 0.5
    fingerprint = None


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's garbage collector, which would look through all that Numba holds again and again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def undisturbed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which compiles, with signals held, one thread at a time and without garbage collection, which takes
    a tenth of the time. No process is forked meanwhile, whose collector would stay off.
    """

    @uninterrupted
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with compiling, uncollected():
            return function(*args, **kwargs)

    return call


def cached(dispatcher: Any) -> Any:
    """The function with a cache, if one is wanted and to be had."""
    if not CACHE_ON:
        return dispatcher
    if OWN_CACHE and hasattr(dispatcher, "_cache"):
        dispatcher._cache = DiskCache(dispatcher)
        return dispatcher
    try:
        dispatcher.enable_caching()
    except (RuntimeError, OSError) as error:
        complain(str(error))
    return dispatcher


def prepared(dispatcher: Any) -> Any:
    """The function with a cache, which no signal interrupts while it is compiled or loaded."""
    if isinstance(dispatcher, FunctionType):  # NUMBA_DISABLE_JIT leaves a plain function
        return dispatcher
    dispatcher.compile = undisturbed(told(dispatcher.py_func.__name__, dispatcher.compile))
    return cached(dispatcher)


SLOW = 1.0  # seconds of a compilation, from which on it is told
logger = logging.getLogger("numba_pool")


def told(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which compiles the kernel of that name. If that takes long, the log says so, at level INFO."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        result = function(*args, **kwargs)
        took = time.perf_counter() - begun
        if took >= SLOW:
            logger.info("compiled %s in %.1f s; later processes read it from the disk", name, took)
        return result

    return call


@intrinsic  # type: ignore[untyped-decorator]
def run_range(typingctx: Any, step: Any, job: Any, lo: Any, hi: Any) -> Any:
    """What the step at that address, which `share` makes, returns for units [lo, hi) of a job."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        at, *taken = values
        return b.call(b.inttoptr(at, STEP.as_pointer()), taken)

    return types.int64(types.int64, types.int64, types.int64, types.int64), gen


@intrinsic  # type: ignore[untyped-decorator]
def take(typingctx: Any, counters: Any, at: Any) -> Any:
    """The number at that place of an int64 array, which is one more afterwards. No two threads take the same."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        array, at = values
        data = ctx.make_array(sig.args[0])(ctx, b, array).data
        return b.atomic_rmw("add", b.gep(data, [at]), WORD(1), "monotonic")

    return types.int64(counters, types.int64), gen


# C's numbers of two clocks: time as it passes, and time that a processor spent on this thread. No number: no clock.
WALL, SPENT = getattr(time, "CLOCK_MONOTONIC", -1), getattr(time, "CLOCK_THREAD_CPUTIME_ID", -1)
CLOCKS = min(WALL, SPENT) >= 0


@intrinsic  # type: ignore[untyped-decorator]
def nanoseconds(typingctx: Any, clock: Any) -> Any:
    """What a clock shows."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        number = ir.IntType(32)
        read = cgutils.get_or_insert_function(
            b.module, ir.FunctionType(number, (number, WORD.as_pointer())), "clock_gettime")
        pair = cgutils.alloca_once(b, WORD, 2)  # seconds and nanoseconds
        b.call(read, [b.trunc(values[0], number), pair])
        seconds, rest = b.load(pair), b.load(b.gep(pair, [WORD(1)]))
        return b.add(b.mul(seconds, WORD(1_000_000_000)), rest)

    return types.int64(types.int64), gen


@intrinsic  # type: ignore[untyped-decorator]
def put(typingctx: Any, address: Any, value: Any) -> Any:
    """Write an int64 at an address."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        b.store(values[1], b.inttoptr(values[0], WORD.as_pointer()))
        return ctx.get_dummy_value()

    return types.void(types.int64, types.int64), gen


@intrinsic  # type: ignore[untyped-decorator]
def set_threads(typingctx: Any, count: Any) -> Any:
    """Have that many of Numba's threads run what this thread enters from now on; returns how many it were before."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        number = ir.IntType(32)
        ask = cgutils.get_or_insert_function(b.module, ir.FunctionType(WORD, ()), "get_num_threads")
        tell = cgutils.get_or_insert_function(b.module, ir.FunctionType(ir.VoidType(), [number]), "set_num_threads")
        before = b.trunc(b.call(ask, ()), number)  # it returns an int, which Numba declares as a word
        b.call(tell, [b.trunc(values[0], number)])
        return b.sext(before, WORD)

    return types.int64(types.int64), gen


# Each thread has a share of the units and does it in parts. One that is done with its own takes parts of the others':
# nobody waits for a thread that the system does not let run. Its own come first, so that a gradient finds in a core's
# caches what this core's thread has pooled.
# What the driver notes of each thread, in a cache line of its own.
NEXT, DONE, TOOK, LEFT, LINE = 0, 1, 2, 3, 8


@njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def take_part(notes, me, threads, parts, clock, units, step, job):  # type: ignore[no-untyped-def]
    """What one thread does of a job: its own share, then parts of others' that they have not begun."""
    begun = nanoseconds(clock) if CLOCKS else 0
    done = left = 0
    for other in range(threads):
        owner = (me + other) % threads
        first, end = units * owner // threads, units * (owner + 1) // threads
        part = take(notes, owner * LINE + NEXT)
        while part < parts and left >= 0:
            lo, hi = first + (end - first) * part // parts, first + (end - first) * (part + 1) // parts
            if lo < hi:
                result = run_range(step, job, lo, hi)
                left = -1 if result < 0 else left + result
                done += hi - lo
            part = take(notes, owner * LINE + NEXT)
    notes[me * LINE + DONE], notes[me * LINE + LEFT] = done, left
    notes[me * LINE + TOOK] = (nanoseconds(clock) if CLOCKS else 0) - begun


@prepared
@njit(parallel=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def driver(threads, parts, clock, units, step, job, report):  # type: ignore[no-untyped-def]
    """Units [0, units) of a job by so many threads, each share in so many parts: the sum of what they return, or -1.

    Writes at the address `report` how many nanoseconds longer that took than the fastest thread would have taken alone;
    less than 0 where threads were worth it, 0 where there are no clocks. By the clock WALL a thread that had to share
    its processor with others is slow, by SPENT it is not, but to read that takes 1 us where the other takes 0.05.
    """
    begun = nanoseconds(WALL) if CLOCKS else 0
    notes = np.zeros(threads * LINE, np.int64)
    before = set_threads(threads)
    if before < threads:  # Numba has no more
        set_threads(before)
    for me in prange(threads):
        take_part(notes, me, threads, parts, clock, units, step, job)
    set_threads(before)
    total, alone = 0, np.int64(1) << 62
    for me in range(threads):
        if notes[me * LINE + LEFT] < 0:
            return -1
        total += notes[me * LINE + LEFT]
        if notes[me * LINE + DONE]:
            alone = min(alone, notes[me * LINE + TOOK] * units // notes[me * LINE + DONE])
    if CLOCKS:
        put(report, nanoseconds(WALL) - begun - alone)
    return total


def call_at(ctx: Any, b: Any, address: Any, taken: tuple[Any, ...], values: list[Any]) -> Any:
    """What compiled code returns, an int64, or -1 if it raises, which Numba forgets on threads but the caller's."""
    code = b.inttoptr(address, ctx.call_conv.get_function_type(types.int64, taken).as_pointer())
    status, result = ctx.call_conv.call_function(b, code, types.int64, taken, values)
    return b.select(status.is_error, WORD(-1), result)


@intrinsic  # type: ignore[untyped-decorator]
def share(typingctx: Any, driver: Any, worker: Any, threads: Any, parts: Any, clock: Any, units: Any,
          args: Any) -> Any:
    """What the driver returns for the job of a worker with its arguments, and what it reports; driver and worker are
    addresses of machine code.
    """

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        driver, worker, threads, parts, clock, units, rest = values
        job = cgutils.alloca_once_value(b, cgutils.pack_struct(b, [worker, rest]))
        report = cgutils.alloca_once_value(b, WORD(0))

        step = ir.Function(b.module, STEP, b.module.get_unique_name("step"))
        step.linkage = "internal"
        inner = ir.IRBuilder(step.append_basic_block())
        lies, lo, hi = step.args
        worker, rest = cgutils.unpack_tuple(inner, inner.load(inner.inttoptr(lies, job.type)))
        inner.ret(call_at(ctx, inner, worker, (types.int64, types.int64, *args),
                          [lo, hi, *cgutils.unpack_tuple(inner, rest)]))

        total = call_at(ctx, b, driver, (types.int64,) * 7,
                        [threads, parts, clock, units, *(b.ptrtoint(pointer, WORD) for pointer in (step, job, report))])
        return ctx.make_tuple(b, sig.return_type, [total, b.load(report)])

    return types.UniTuple(types.int64, 2)(*(types.int64,) * 6, args), gen


@intrinsic  # type: ignore[untyped-decorator]
def call_worker(typingctx: Any, at: Any, units: Any, x: Any, y: Any, rest: Any) -> Any:
    """What the worker at that address returns for units [0, units) and these arguments, or -1 if it raises. It must be
    the `entry` for arguments of just these types.
    """

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        at, units, x, y, rest = values
        return call_at(ctx, b, at, (types.int64, types.int64, *sig.args[2:4], *sig.args[4]),
                       [WORD(0), units, x, y, *cgutils.unpack_tuple(b, rest)])

    return types.int64(types.int64, types.int64, x, y, rest), gen


@prepared
@njit(nogil=True, no_cfunc_wrapper=True)
def enter(driver, worker, threads, parts, clock, units, args):  # type: ignore[no-untyped-def]
    """Units [0, units) of a worker in parallel: the sum of what it returns, and what the driver reports."""
    total, loss = share(driver, worker, threads, parts, clock, units, args)
    if total < 0:
        raise MemoryError  # all that workers raise
    return total, loss


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
    at = entry(worker, args)
    run = compiled(enter, (*(types.int64,) * 6, typeof(args))).entry_point
    return partial(run, address(compiled(driver, (types.int64,) * 7)), at)


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
    serial.parallel, serial.known, serial.entries = parallel, known, {}
    return serial


def unchecked(worker: Any, args: tuple[Any, ...]) -> Any:
    """A worker that was compiled for such arguments, without Numba's look at their types, which takes it 0.25 us each;
    or itself if it was not.

    It must not be called with others: it reads an array as what it expects.
    """
    made = getattr(worker, "overloads", {}).get(signature(args))
    if made is None:
        return worker
    direct: Any = partial(made.entry_point)
    direct.parallel = worker.known.get(kinds(args), worker.parallel)
    return direct
