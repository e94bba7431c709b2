"""Python's garbage collector, which is kept from looking through all that Numba holds again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def uncollected() -> Iterator[None]:
    """Without garbage collection inside the block."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


with uncollected():  # nearly all of the package: to collect meanwhile takes a third of the time
    for name in "functional", "layers":
        import_module(f"{__package__}.{name}")
    if not gc.get_freeze_count():  # what is imported stays: it joins the oldest objects without being looked through
        gc.freeze()
        gc.unfreeze()
