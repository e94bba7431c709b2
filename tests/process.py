"""Functions of a test module, run in a process of their own: what might abort must not take the tests down."""

import functools
import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LAYERS = ("omp", "tbb", "workqueue")
# Compiles in three quarters of the time. Of what "0" makes the disk cache does not keep all.
HASTY = {"NUMBA_OPT": "1"}
# Processors that Numba can compile for on any newer one: with AVX2, and with no more than every x86-64 has. Their
# instructions have to be named, since Numba keeps those of the processor that it runs on where they are not.
PROCESSORS = {"haswell": "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+popcnt,+lzcnt,+sse4.2", "generic": ""}


def compiled_for(processor):
    """The variables of the environment with which Numba compiles for it."""
    return {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": PROCESSORS[processor]}


def environment(layer=None, **variables):
    """This process's environment with other variables; Numba finds the wheel's TBB in the environment's lib only."""
    lib = os.pathsep.join(filter(None, (str(Path(sys.prefix) / "lib"), os.environ.get("LD_LIBRARY_PATH"))))
    changed = {**os.environ, "LD_LIBRARY_PATH": lib, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]),
               "NUMBA_NUM_THREADS": "2", **variables}
    if layer is not None:
        changed["NUMBA_THREADING_LAYER"] = layer
    return {name: value for name, value in changed.items() if value is not None}


def start(function, *args, layer=None, before="", **variables):
    """A process that runs the statements `before`, then `function(*args)`."""
    module = inspect.getmodule(function).__name__
    no_scipy = "import sys; sys.modules['scipy'] = None"  # whose BLAS no kernel calls: Numba's import of it takes long
    code = f"{no_scipy}\n{before}\nimport {module}; {module}.{function.__name__}(*{args!r})"
    command = [sys.executable, "-X", "faulthandler", "-c", code]
    return subprocess.Popen(command, env=environment(layer, **variables), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, cwd=TESTS, start_new_session=True)


def finish(process, timeout=300):
    """Its standard output and error, once it has ended well."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        out, err = end(process)
        pytest.fail(f"the process hangs\n{out[-3000:]}\n{err[-3000:]}")
    assert process.returncode == 0, f"exit status {process.returncode}\n{out[-3000:]}\n{err[-3000:]}"
    return out, err


def end(process):
    """Its output so far."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)  # its children hold the pipes open
    else:
        process.kill()
    return process.communicate()


def run(function, *args, **kwargs):
    """Run `function(*args)` in a process of its own, and return what it printed."""
    return finish(start(function, *args, **kwargs))[0]


def finish_all(processes, timeout=300):
    """What each of several processes, running side by side, printed once all have ended well."""
    try:
        return [finish(process, timeout)[0] for process in processes]
    finally:
        for process in processes:
            if process.returncode is None:  # a failure of another left it behind
                end(process)


def enter_threads():
    import numba

    numba.get_num_threads()
    print(numba.threading_layer())


@functools.cache
def available(layer):
    process = start(enter_threads, layer=layer)
    out, _ = process.communicate()
    return process.returncode == 0 and out.split() == [layer]


def need(layer):
    """Skip a test where Numba cannot load a layer."""
    if not available(layer):
        pytest.skip(f"no threading layer {layer} here")


def print_vector_bytes(*options):
    """Of kernels in a run of pytest with these options, which collects tests and runs none."""
    assert pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", *options, str(TESTS / "test_layers.py")]) == 0

    import numba_pool

    print(numba_pool.show_config("dicts")["vectors"])
