import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

# the tests import their reference and strategies by name, whatever pytest's import mode
sys.path.insert(0, str(Path(__file__).parent))

import process
import selection

# deadline: the first call of a signature compiles, which takes seconds
settings.register_profile(
    "default", deadline=None, max_examples=30, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# HYPOTHESIS_PROFILE=long pytest tests
settings.register_profile("long", settings.get_profile("default"), max_examples=10_000)
# where a failure must mean the change at hand: the same examples every time
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
# for `mutants.py`, which asks whether an example fails, not for the smallest one: each may compile
settings.register_profile("mutants", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


def pytest_addoption(parser):
    parser.addoption("--exhaustive", action="store_true", help="all parameters of all tests, which takes an hour")
    parser.addoption("--processor", choices=process.PROCESSORS, help="what Numba compiles for, instead of this one")


def pytest_configure(config):
    config.addinivalue_line("markers", "every_dtype: also the default run takes every dtype of this test")
    config.addinivalue_line("markers", "exhaustive: takes minutes, and is left out of the default run")
    named = any("::" in argument for argument in config.args)  # a test was asked for by name
    selection.exhaustive = config.getoption("exhaustive") or named
    processor = config.getoption("processor")
    if processor:
        if "numba" in sys.modules:
            raise pytest.UsageError("--processor comes too late: numba has been imported")
        os.environ.update(process.compiled_for(processor))


def pytest_collection_modifyitems(config, items):
    if selection.exhaustive:
        return
    kept, left = selection.split(items)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.fixture
def launched(monkeypatch):
    """The workers that maxima, averages and their gradients come to, by name."""
    from numba_pool._dispatch import calls
    from numba_pool.functional import average  # not before a test asks for it: some set what is read at import

    names, launch = [], calls.launch

    def noted(worker, *args):
        names.append(worker.__name__)
        return launch(worker, *args)

    for module in (calls, average):
        monkeypatch.setattr(module, "launch", noted)
    return names


@pytest.fixture
def small_calls_too(monkeypatch):
    """The core computes small tensors, too: most tests have no others. Else torch would."""
    pytest.importorskip("torch")
    from numba_pool.torch import _small

    monkeypatch.setattr(_small, "SIZES", dict.fromkeys(_small.SIZES, ((0, 0), (0, 0))))


@pytest.fixture
def core(monkeypatch):
    """The names of the poolings that came from torch to the core."""
    pytest.importorskip("torch")
    from numba_pool.torch import _autograd

    names, at_once = [], _autograd.at_once

    def noted(pool, *args):
        names.append(pool.name)
        return at_once(pool, *args)

    monkeypatch.setattr("numba_pool.torch._functions.at_once", noted)
    return names


@pytest.fixture
def registers(monkeypatch):
    """A function: `registers(wide)` makes rules choose as with AVX-512, or as without, whatever this processor has.

    For tests that run no kernel: `pixels` asks while it is compiled, too, and what is compiled is kept on the disk.
    `registers(wide, *modules)` is for these modules alone.
    """
    from numba_pool._dispatch.memo import memory

    def choose_as(wide, *modules):
        for module in modules or [module for name, module in sys.modules.items() if name.startswith("numba_pool.")]:
            if hasattr(module, "wide_registers"):
                monkeypatch.setattr(module, "wide_registers", lambda: wide)
        memory.clear()  # of what was chosen before

    yield choose_as
    memory.clear()
