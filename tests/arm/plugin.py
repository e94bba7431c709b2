"""A plugin of pytest for `run.sh`: on x86-64 it compiles for 64-bit ARM what the tests would call, on ARM it counts.

On x86-64 nothing of what is compiled runs: each call returns zeros and leaves its arrays as they are. Whether a test
passes there says nothing, it only leads on to the next call. Only what fails to compile is a failure.

On ARM the tests are tests, and it is a failure too if they ran nothing that was compiled.
"""

import ast
import platform
import sys
import time
from collections import Counter
from importlib.machinery import SourceFileLoader
from pathlib import Path

import llvmlite.binding as llvm

CROSS = platform.machine() != "aarch64"
if CROSS:  # before Numba is imported
    TRIPLE = "aarch64-unknown-linux-gnu"
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    from_triple = llvm.Target.from_triple
    llvm.get_process_triple = llvm.get_default_triple = lambda: TRIPLE
    llvm.Target.from_default_triple = classmethod(lambda cls: from_triple(TRIPLE))
    platform.machine = lambda: "aarch64"

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from numba import types  # noqa: E402
from numba.core.dispatcher import Dispatcher  # noqa: E402

TESTS = Path(__file__).parents[1]
source_to_code = SourceFileLoader.source_to_code
compile = Dispatcher.compile
taken = []  # processor seconds and name of all that was compiled for the disk cache
read, failed = Counter(), []


def is_cached(dispatcher):
    return dispatcher.stats.cache_path is not None


def counted(dispatcher, signature):
    """Compile, or read from the disk cache, and take note of it."""
    hits, misses = dispatcher.stats.cache_hits, dispatcher.stats.cache_misses
    before, begun = (hits.total(), misses.total()), time.process_time()
    try:
        made = compile(dispatcher, signature)
    except Exception as error:
        if is_cached(dispatcher):  # of what kernels call Numba tries several signatures
            failed.append(f"{dispatcher.__name__} {signature}: {type(error).__name__} {error}")
        raise
    if is_cached(dispatcher) and hits.total() > before[0]:
        read[dispatcher.__name__] += 1
    if is_cached(dispatcher) and misses.total() > before[1]:
        taken.append((time.process_time() - begun, dispatcher.__name__))
    return made


def compiled_only(dispatcher, signature):
    counted(dispatcher, signature)
    return compile(dispatcher, signature)  # known by now: returns what `add_stub` gave it


def add_stub(dispatcher, result):
    """Have Python call something that does nothing, and compiled code refer to what was compiled."""
    returned = result.signature.return_type
    zeros = (0,) * len(returned) if isinstance(returned, types.BaseTuple) else 0
    result = result._replace(entry_point=lambda *args: zeros)
    dispatcher.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
    dispatcher.overloads[tuple(result.signature.args)] = result


class Unasserted(ast.NodeTransformer):
    """What is asserted is worked out, as that may call kernels, whatever comes of it."""

    def visit_Assert(self, node):
        ignored = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [ast.Pass()])
        return ast.copy_location(ast.Try([ast.Expr(node.test)], [ignored], [], []), node)


def code_of(loader, source, path, **options):
    """The code of a module, of the tests without their assertions. `run.sh` has it kept in a place of its own."""
    if TESTS not in Path(path).parents:
        return source_to_code(loader, source, path, **options)
    tree = ast.fix_missing_locations(Unasserted().visit(ast.parse(source)))
    return source_to_code(loader, tree, path, **options)


Dispatcher.compile = compiled_only if CROSS else counted
if CROSS:
    Dispatcher.add_overload = add_stub
    sys.executable = "/bin/false"  # other processes would run what they compile
    SourceFileLoader.source_to_code = code_of
    np.testing.assert_array_equal = np.testing.assert_allclose = lambda *args, **kwargs: None


def kernels():
    """The names of all functions of the package that the disk keeps."""
    modules = [module for name, module in sys.modules.items() if name.startswith("numba_pool")]
    return {value.__name__ for module in modules for value in vars(module).values()
            if isinstance(value, Dispatcher) and is_cached(value)}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        if failed or not (read or taken):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif CROSS:
            session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter):
    line = terminalreporter.write_line
    compiled = Counter(name for _, name in taken)
    line(f"kernels for ARM: {read.total()} read from the cache, {len(taken)} compiled "
         f"{'for it' if CROSS else 'in the emulator'} in {sum(seconds for seconds, _ in taken):.0f} s")
    if not (read or taken):
        line("FAILED: no kernel was called")
    for seconds, name in sorted(taken, reverse=True)[:10]:
        line(f"  {seconds:5.1f} s {name}")
    line("all: " + ", ".join(f"{name} {count}" for name, count in sorted((read + compiled).items())))
    line("not called: " + ", ".join(sorted(kernels() - set(read + compiled))))
    for text in failed:
        line(f"FAILED to compile {text[:2000]}")
