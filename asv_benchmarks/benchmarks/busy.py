"""Calls while another process keeps a core busy: threads must cost nothing when they are not free."""

import subprocess
import sys
import time

import numba_pool as P

from . import common
from .pooling import Timed

STEPS = 20


class BesideBurner(Timed):
    """20 training steps of a 2x2/2 or 3x3/2 maximum beside a process that counts without an end.

    Their sum is timed, since what waiting costs comes now and then. The control is the same with one thread.
    """

    param_names = ("case", "threads", "burners")
    params = (["2x2/2 4x64x55x55", "2x2/2 64x8x24x24", "3x3/2 32x64x55x55"], ["default", "one"], [0, 1, 2])
    repeat = (5, 20, 2.0)

    def setup(self, case, threads, burners):
        window, shape = case.split()
        kernel = int(window[0])
        x = common.array(tuple(map(int, shape.split("x"))))
        y, indices = P.max_pool2d(x, kernel, 2, return_indices=True)

        def step():
            P.max_pool2d(x, kernel, 2, return_indices=True)
            P.max_pool2d_backward(y, indices, x.shape)

        self.step, self.before = step, P.get_num_threads()
        if threads == "one":
            P.set_num_threads(1)
        step()
        self.burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(burners)]
        time.sleep(0.2)  # until they run

    def teardown(self, case, threads, burners):
        for burner in self.burners:
            burner.kill()
            burner.wait()
        P.set_num_threads(self.before)

    def time_20_steps(self, case, threads, burners):
        for _ in range(STEPS):
            self.step()
