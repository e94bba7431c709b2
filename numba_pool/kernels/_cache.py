"""The disk cache of compiled kernels, and what goes on while one is compiled: nothing else.

The cache is not Numba's own, which does not notice an edit in another file, raises at import where no directory is
writable (numba#4908), runs whatever bytes a damaged file holds, and keeps an index that processes compiling at the
same time overwrite for each other. Here every signature is a file of its own, named by a hash of all that decides its
machine code (the sources of every kernel among it), written whole or not at all, and checked before it is believed.
Nothing is read or written at import. `NUMBA_POOL_CACHE=0` turns it off; `NUMBA_CACHE_DIR` says where, as for Numba.
"""

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
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import is_dataclass
from functools import lru_cache, wraps
from importlib.machinery import ModuleSpec
from pathlib import Path
from pkgutil import iter_modules
from types import CodeType, FunctionType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.registry import cpu_target

from .._collector import uncollected
from ._interrupts import uninterrupted

KERNELS = Path(__file__).parent
PACKAGE = KERNELS.parent
CACHE_ON = os.environ.get("NUMBA_POOL_CACHE", "1") != "0"
# Numba's settings that change the machine code of the same source for the same processor.
FLAGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT")


def content(spec: ModuleSpec) -> bytes:
    """The source of a module, or its bytecode in a frozen application, where there is no source."""
    loader: Any = spec.loader
    if str(spec.origin).endswith(".py"):
        with suppress(OSError):  # the path may be the one from which the application was frozen
            source: bytes = loader.get_data(spec.origin)
            return source
    return described(loader.get_code(spec.name)).encode()


def described(code: CodeType) -> str:
    """Bytecode as text that is the same in every process. `marshal` does not promise that."""
    values = [described(v) if isinstance(v, CodeType) else repr(sorted(v, key=repr) if isinstance(v, frozenset) else v)
              for v in code.co_consts]
    return f"{code.co_qualname}:{code.co_firstlineno} {code.co_code.hex()} {code.co_names} {values}"


def digest_sources(package: Path) -> str:
    """A hash of the source of all kernels; empty if neither sources nor bytecode can be read."""
    digest = hashlib.sha256()
    found = [module for module in iter_modules([str(package)])
             if module.name in ("kernels", "simd", "blocks", "_windows", "_collector")]
    found += [inner for module in found if module.ispkg for inner in iter_modules([str(package / module.name)])]
    try:
        for finder, name, _ in found:
            spec: Any = finder.find_spec(name)  # type: ignore[call-arg]
            made_of = content(spec)
            digest.update(f"{name} {len(made_of)} ".encode() + made_of)
    except (AttributeError, ImportError, OSError):  # a loader that has neither sources nor bytecode
        return ""
    return digest.hexdigest()[:16] if found else ""


SOURCES = digest_sources(PACKAGE)  # at import: a later edit must not rename what was loaded before it
# A frozen application may unpack itself into another folder every time it starts.
FROZEN = hasattr(sys, "frozen") or not Path(__file__).with_suffix(".py").is_file()


def user_cache() -> Path:
    """The folder in which this system keeps a user's caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local")
    if sys.platform == "darwin":
        return Path("~/Library/Caches")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")


def candidates() -> Iterator[Path]:
    """Directories that may hold the cache, the preferred one first."""
    installation = SOURCES if FROZEN else hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:16]
    name = f"numba_pool_{installation}"
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR) / name
    if not FROZEN:
        yield KERNELS / "__pycache__"
    try:
        yield user_cache().expanduser() / name
    except RuntimeError:  # no home
        return


def processor() -> str:
    """LLVM's name of the processor that kernels are compiled for."""
    name, _ = cpu_target.target_context.codegen().magic_tuple()[1:]
    return str(name)


def vector_bytes() -> int:
    """Bytes of the widest registers that this processor has."""
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    enabled = features.split(",")
    if "+avx512f" in enabled:
        return 64
    return 32 if "+avx" in enabled or "+avx2" in enabled else 16


def writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


@lru_cache(maxsize=1)
def directories() -> tuple[list[Path], Path | None]:
    """The directories to read from, and the one to write to, which is the first that can be written. To read from are
    this one and those before it.
    """
    look = []
    for directory in candidates():
        look.append(directory)  # a read-only one may have been filled when the image was built
        if writable(directory):
            return look, directory
    return look, None


_complained = False


def complain(reason: str) -> None:
    """Warn that there is no disk cache, once in the life of a process."""
    global _complained
    if not _complained:
        _complained = True
        chosen = numba.config.CACHE_DIR
        writable = f"Make {chosen}, which is NUMBA_CACHE_DIR," if chosen else "Set NUMBA_CACHE_DIR to"
        warnings.warn(
            f"numba_pool works, but every process compiles anew: {reason}. {writable} a writable directory, or set "
            "NUMBA_POOL_CACHE=0 to do without a cache.",
            RuntimeWarning,
            stacklevel=2,
        )


def describe(value: Any) -> str:
    """A function, or a value in its closure, as text that is the same in every process."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic, np.dtype, numba.types.Type)):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if is_dataclass(value):  # a reduction of blocks
        return repr(value)
    value = getattr(value, "py_func", getattr(value, "_defn", value))  # of a jitted function, of an intrinsic
    if isinstance(value, FunctionType):
        code = value.__code__
        cells = [describe(cell.cell_contents) for cell in value.__closure__ or ()]
        return f"{value.__module__}.{value.__qualname__}:{code.co_firstlineno} {code.co_code.hex()} {cells}"
    raise TypeError(f"no kernel's machine code may depend on {value!r}")


class DiskCache:
    """The disk cache of one function, with the methods that a Numba dispatcher calls. A failure here is a cache miss.
    """

    def __init__(self, dispatcher: Any) -> None:
        self.name = dispatcher.py_func.__name__
        self.function = f"{describe(dispatcher)} {sorted(dispatcher.targetoptions.items())}"

    @property
    def cache_path(self) -> str | None:
        """The folder to which files are written; Numba's statistics show it."""
        _, target = directories()
        return None if target is None else str(target)

    def key(self, signature: Any, codegen: Any) -> str:
        """A text of everything that decides about the machine code."""
        versions = sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__
        flags = [getattr(numba.config, flag, None) for flag in FLAGS]
        return "\n".join(map(str, (versions, flags, codegen.magic_tuple(), SOURCES, self.function, signature)))

    def file_name(self, key: str) -> str:
        return f"numba_pool-{SOURCES}-{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.nbc"

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiled function for a signature, or None."""
        try:
            # All that code from the disk calls. To refresh the context, as before compiling, would take 0.4 s.
            rtsys.initialize(target_context)
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
        """Write what was compiled to the disk."""
        key = self.key(signature, result.codegen)
        if " at 0x" in key or result.library.has_dynamic_globals or any(not f.can_cache for f in result.lifted):
            return  # the code has addresses of this process in it
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
        """Delete the files of this function."""
        _, target = directories()
        for file in target.glob(f"numba_pool-{SOURCES}-{self.name}-*.nbc") if target else ():
            file.unlink(missing_ok=True)


def read(file: Path) -> bytes | None:
    """The content of a file behind its hash; None if there is no file, or the hash does not fit."""
    try:
        stored = file.read_bytes()
    except OSError:
        return None
    check, body = stored[:32], stored[32:]
    return body if hashlib.sha256(body).digest() == check else None


def write(file: Path, body: bytes) -> None:
    """Write a file as a whole or not at all, even if several processes write the same file."""
    temporary = file.with_suffix(f".{uuid.uuid4().hex[:16]}.tmp")
    try:
        temporary.write_bytes(hashlib.sha256(body).digest() + body)
        os.replace(temporary, file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@lru_cache(maxsize=1)
def remove_stale(directory: Path) -> None:
    """Delete the files of other versions of the sources."""
    for file in directory.glob("numba_pool-*.nbc"):
        if not file.name.startswith(f"numba_pool-{SOURCES}-"):
            file.unlink(missing_ok=True)


# Private parts of Numba. Where they are missing, Numba's own cache serves.
compiling: AbstractContextManager[Any] = nullcontext()
try:
    from numba.core.compiler import CompileResult
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.runtime import rtsys
    from numba.core.serialize import dumps

    OWN_CACHE = bool(SOURCES) and hasattr(CompileResult, "_reduce") and hasattr(CompileResult, "_rebuild")
    compiling = global_compiler_lock
    if hasattr(os, "register_at_fork"):
        # A child that is forked while another thread compiles would inherit the lock and never get it.
        os.register_at_fork(before=global_compiler_lock.acquire, after_in_parent=global_compiler_lock.release,
                            after_in_child=global_compiler_lock.release)
except (ImportError, AttributeError):
    OWN_CACHE = False
    compiling = getattr(numba.core.dispatcher, "global_compiler_lock", compiling)  # whoever makes code has to hold it


def undisturbed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that compiles, with three things kept away from it: signals, other threads that compile, and garbage
    collection, which would take a tenth of the time. Nor is a process forked meanwhile: its collector would stay off.
    """

    @uninterrupted
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with compiling, uncollected():
            return function(*args, **kwargs)

    return call


def cached(dispatcher: Any) -> Any:
    """The dispatcher with a disk cache, if the user wants one and a folder can be written."""
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
    """The dispatcher with a disk cache. No signal interrupts it while it compiles or loads."""
    if isinstance(dispatcher, FunctionType):  # NUMBA_DISABLE_JIT leaves a plain function
        return dispatcher
    dispatcher.compile = undisturbed(told(dispatcher.py_func.__name__, dispatcher.compile))
    return cached(dispatcher)


SLOW = 1.0  # seconds of a compilation, from which on the log tells of it
logger = logging.getLogger("numba_pool")


def told(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that compiles the kernel `name`, and writes to the log, at level INFO, if that took long."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        result = function(*args, **kwargs)
        took = time.perf_counter() - begun
        if took >= SLOW:
            kept = "; later processes read it from the disk" if CACHE_ON and directories()[1] else ""
            logger.info("compiled %s in %.1f s%s", name, took, kept)
        return result

    return call
