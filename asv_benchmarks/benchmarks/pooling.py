"""Run time of max and average pooling, one class per question."""

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
        self.calls = common.pool2d(operation, *common.CASES[case], layout=layout)

    def time_forward(self, operation, case, layout):
        self.calls.forward()


class NetworkBackward(Timed):
    """Backward on the same layers."""

    param_names = ("operation", "case", "layout")
    params = (["argmax", "avg"], list(common.CASES), ["nchw", "nhwc"])

    def setup(self, operation, case, layout):
        self.calls = common.pool2d(operation, *common.CASES[case], layout=layout)

    def time_backward(self, operation, case, layout):
        self.calls.backward()


class Window(Timed):
    """Growing windows at stride 1: the time per output should grow with log k at most."""

    param_names = ("operation", "kernel")
    params = (["max", "argmax", "avg"], [3, 5, 9, 13, 25, 49])

    def setup(self, operation, kernel):
        self.calls = common.pool2d(operation, (8, 16, 64, 64), kernel, 1, kernel // 2)

    def time_forward(self, operation, kernel):
        self.calls.forward()


class OddWindow(Timed):
    """Windows and strides beside the usual ones."""

    param_names = ("operation", "window")
    params = (["argmax", "avg"], list(ODD_WINDOWS))

    def setup(self, operation, window):
        self.calls = common.pool2d(operation, (8, 64, 57, 61), *ODD_WINDOWS[window])

    def time_forward(self, operation, window):
        self.calls.forward()

    def time_backward(self, operation, window):
        self.calls.backward()


class Dtype(Timed):
    """Storage types, in both memory orders."""

    param_names = ("operation", "dtype", "layout")
    params = (["max", "argmax", "avg"], ["float32", "float64", "float16", "bfloat16", "uint8"], ["nchw", "nhwc"])

    def setup(self, operation, dtype, layout):
        self.calls = common.pool2d(operation, (8, 64, 56, 56), 3, 2, 1, dtype=dtype, layout=layout)

    def time_forward(self, operation, dtype, layout):
        self.calls.forward()


class Threads(Timed):
    """One thread against two, with many planes and with a single one."""

    param_names = ("operation", "planes", "threads")
    params = (["argmax", "avg"], [1, 512], [1, 2])

    def setup(self, operation, planes, threads):
        side = 1024 if planes == 1 else 48
        self.calls = common.pool2d(operation, (1, planes, side, side), 5, 1, 2, threads=threads)

    def time_forward(self, operation, planes, threads):
        self.calls.forward()

    def time_backward(self, operation, planes, threads):
        self.calls.backward()
