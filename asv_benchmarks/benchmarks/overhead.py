"""What a call costs apart from its arithmetic: tiny arrays, memory, and a control that has nothing to do with us."""

from functools import partial
from pathlib import Path

import numpy as np

import numba_pool as P
from numba_pool._dispatch.memo import memory

from . import common
from .pooling import Timed

CALLS = 200


class TinyArray(Timed):
    """200 calls on a (1, 1, 8, 8) array: argument checks, dispatch and allocation."""

    param_names = ("call",)
    params = (["max", "argmax", "max backward", "avg", "avg backward", "layer forward", "layer forward+backward"],)
    warmup_time = 0.1

    def setup(self, call):
        shape = (1, 1, 8, 8)
        if call.startswith("layer"):
            layer, x = P.MaxPool2d(2), common.array(shape)
            grad = np.ones_like(P.max_pool2d(x, 2))
            self.call = partial(layer, x) if call == "layer forward" else lambda: (layer(x), layer.backward(grad))
        else:
            operation, _, backward = call.partition(" ")
            self.call = (common.backward2d if backward else common.forward2d)(operation, shape, 2, 2, 0)
        self.call()

    def time_200_calls(self, call):
        for _ in range(CALLS):
            self.call()


class NewShapes(Timed):
    """The first call of each of 100 small shapes of 20 lengths, which were met before: what it takes to plan one.
    Networks on texts meet many.
    """

    param_names = ("call",)
    params = (["max", "argmax", "max backward", "avg", "avg backward"],)

    def setup(self, call):
        operation, _, backward = call.partition(" ")
        make = common.backward2d if backward else common.forward2d
        self.calls = [make(operation, (1, 3, h, w), 3, 2, 1) for h in range(20, 30) for w in range(30, 40)]
        for first in self.calls:
            first()

    def time_100_shapes(self, call):
        memory.clear()
        for first in self.calls:
            first()


class Memory:
    """Peak memory of a call on 98 MiB of input: beyond its output, and whole.

    The whole holds the interpreter, the input, and the compiler where no kernel was cached.
    """

    param_names = ("operation", "layout")
    params = (["max", "argmax", "avg", "max backward", "avg backward"], ["nchw", "nhwc"])
    shape = (8, 64, 224, 224)

    def setup(self, operation, layout):
        name, _, backward = operation.partition(" ")
        prepare = common.backward2d if backward else common.forward2d
        self.call = prepare(name, self.shape, 3, 2, 1, layout=layout)
        P.empty_pool()

    def peakmem_call(self, operation, layout):
        self.call()

    def track_beyond_output(self, operation, layout):
        before = _reset_peak()
        result = self.call()
        arrays = result if isinstance(result, tuple) else (result,)
        return _status("VmHWM") - before - sum(a.nbytes for a in arrays)

    track_beyond_output.unit = "bytes"


def _reset_peak() -> int:
    """Start a new high-water mark of resident memory (Linux only) and return where it starts, in bytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        raise NotImplementedError("the peak of resident memory cannot be reset on this system") from None
    return _status("VmHWM")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise NotImplementedError(f"/proc/self/status has no {field}")


class Control(Timed):
    """Plain NumPy copies. Where these move, the machine moved, not the package."""

    param_names = ("mebibytes",)
    params = ([1, 64],)

    def setup(self, mebibytes):
        self.source = np.ones(mebibytes << 18, np.float32)
        self.target = np.zeros_like(self.source)

    def time_copy(self, mebibytes):
        np.copyto(self.target, self.source)
