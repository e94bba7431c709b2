"""What a call costs apart from its arithmetic: tiny arrays, memory, and a control that has nothing to do with us."""

from functools import partial
from pathlib import Path

import numpy as np

import numba_pool as P

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
            grad = np.ones_like(layer(x))
            self.call = partial(layer, x) if call == "layer forward" else lambda: (layer(x), layer.backward(grad))
        else:
            operation = {"max backward": "argmax", "avg backward": "avg"}.get(call, call)
            calls = common.pool2d(operation, shape, 2, 2, 0)
            self.call = calls.backward if call.endswith("backward") else calls.forward
        self.call()

    def time_200_calls(self, call):
        for _ in range(CALLS):
            self.call()


class Memory:
    """Peak memory of a call on 98 MiB of input, whole (with the interpreter and the input) and beyond its output."""

    param_names = ("operation", "layout")
    params = (["max", "argmax", "avg", "max backward", "avg backward"], ["nchw", "nhwc"])
    shape = (8, 64, 224, 224)

    def setup(self, operation, layout):
        name = {"max backward": "argmax", "avg backward": "avg"}.get(operation, operation)
        pick = "backward" if operation.endswith("backward") else "forward"
        # Compiled on a small array, so that LLVM's own memory does not set the peak.
        getattr(common.pool2d(name, (2, 8, 16, 16), 3, 2, 1, layout=layout), pick)()
        x = common.array(self.shape, layout=layout)
        if operation == "max backward":
            y, indices = P.max_pool2d(x, 3, 2, 1, return_indices=True)
            self.call = partial(P.max_pool2d_backward, np.ones_like(y), indices, x.shape)
        elif operation == "avg backward":
            grad = np.ones_like(P.avg_pool2d(x, 3, 2, 1))
            self.call = partial(P.avg_pool2d_backward, grad, x.shape, 3, 2, 1)
        else:
            function = P.avg_pool2d if operation == "avg" else P.max_pool2d
            options = {"return_indices": True} if operation == "argmax" else {}
            self.call = partial(function, x, 3, 2, 1, **options)
        P.empty_pool()

    def peakmem_call(self, operation, layout):
        self.call()

    def track_beyond_output(self, operation, layout):
        self.call()  # a large call may need threads and kernels that the small one did not
        P.empty_pool()
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
