"""Run time of max and average pooling, one class per question."""

from functools import partial

import numba_pool as P

from . import common

#: name: (kernel, stride, padding)
ODD_WINDOWS = {
    "3/3": (3, 3, 0),
    "4/2": (4, 2, 1),
    "1x5/1": ((1, 5), 1, (0, 2)),
    "5x1/1": ((5, 1), 1, (2, 0)),
    "3x2/2x1": ((3, 2), (2, 1), (1, 0)),
}


class Timed:
    rounds = 2
    repeat = (5, 200, 0.4)  # at least, at most, seconds: asv times single calls where there is a setup
    warmup_time = 0.05


class NetworkForward(Timed):
    """Forward on layers of known networks."""

    param_names = ("operation", "case", "layout")
    params = (["max", "argmax", "avg"], list(common.CASES), ["nchw", "nhwc"])

    def setup(self, operation, case, layout):
        self.call = common.forward2d(operation, *common.CASES[case], layout=layout)

    def time_forward(self, operation, case, layout):
        self.call()


class NetworkBackward(Timed):
    """Backward on the same layers."""

    param_names = ("operation", "case", "layout")
    params = (["max", "avg"], list(common.CASES), ["nchw", "nhwc"])

    def setup(self, operation, case, layout):
        self.call = common.backward2d(operation, *common.CASES[case], layout=layout)

    def time_backward(self, operation, case, layout):
        self.call()


class Window(Timed):
    """Growing windows at stride 1: the time per output should grow with log k at most."""

    param_names = ("operation", "kernel")
    params = (["max", "argmax", "avg"], [3, 5, 9, 13, 25, 49])

    def setup(self, operation, kernel):
        self.call = common.forward2d(operation, (8, 16, 64, 64), kernel, 1, kernel // 2)

    def time_forward(self, operation, kernel):
        self.call()


class OddWindowForward(Timed):
    """Windows and strides beside the usual ones."""

    param_names = ("operation", "window")
    params = (["argmax", "avg"], list(ODD_WINDOWS))

    def setup(self, operation, window):
        self.call = common.forward2d(operation, (8, 64, 57, 61), *ODD_WINDOWS[window])

    def time_forward(self, operation, window):
        self.call()


class OddWindowBackward(Timed):
    """The way back through them."""

    param_names = ("operation", "window")
    params = (["max", "avg"], list(ODD_WINDOWS))

    def setup(self, operation, window):
        self.call = common.backward2d(operation, (8, 64, 57, 61), *ODD_WINDOWS[window])

    def time_backward(self, operation, window):
        self.call()


class Dtype(Timed):
    """Storage types, in both memory orders."""

    param_names = ("operation", "dtype", "layout")
    params = (["max", "argmax", "avg"], ["float32", "float64", "float16", "bfloat16", "uint8"], ["nchw", "nhwc"])

    def setup(self, operation, dtype, layout):
        self.call = common.forward2d(operation, (8, 64, 56, 56), 3, 2, 1, dtype=dtype, layout=layout)

    def time_forward(self, operation, dtype, layout):
        self.call()


#: name: shape
PLANES = {"one plane": (1, 1, 1024, 1024), "512 planes": (1, 512, 48, 48)}


class ThreadsForward(Timed):
    """One thread against two, with many planes and with a single one."""

    param_names = ("operation", "planes", "threads")
    params = (["argmax", "avg"], list(PLANES), [1, 2])

    def setup(self, operation, planes, threads):
        self.call = common.forward2d(operation, PLANES[planes], 5, 1, 2, threads=threads)

    def time_forward(self, operation, planes, threads):
        self.call()


class ThreadsBackward(Timed):
    """The same for the way back."""

    param_names = ("operation", "planes", "threads")
    params = (["max", "avg"], list(PLANES), [1, 2])

    def setup(self, operation, planes, threads):
        self.call = common.backward2d(operation, PLANES[planes], 5, 1, 2, threads=threads)

    def time_backward(self, operation, planes, threads):
        self.call()


class Signal(Timed):
    """One long row, which is cut into sections."""

    param_names = ("operation", "samples", "threads")
    params = (["max", "argmax", "avg", "avg backward"], [1 << 17, 1 << 22], [1, 2])

    def setup(self, operation, samples, threads):
        common.use_threads(threads)
        x = common.array((1, 1, samples))
        name, _, backward = operation.partition(" ")
        pool = partial(P.avg_pool1d, x, 3, 2) if name == "avg" else partial(P.max_pool1d, x, 3, 2, 0, 1, False,
                                                                            name == "argmax")
        if backward:
            pool = partial(P.avg_pool1d_backward, pool(), x.shape, 3, 2)
        self.call = common.compiled(pool)

    def time_call(self, operation, samples, threads):
        self.call()
