"""Calls of many kinds with known results, to be made from anywhere: threads, children, callbacks."""

import numpy as np

import numba_pool as nb
from numba_pool import _runtime

SMALL, LARGE = (1, 2, 8, 9), (4, 8, 41, 42)  # below and above what is done serially
THRESHOLD = 1 << 13  # far below the real one, so that arrays that are pooled fast are pooled in parallel


def calls(x, g):
    """Every kind of kernel on x, whose spatial axes are windowed by g's."""
    y, i = nb.max_pool2d(x, 3, 2, 1, return_indices=True)
    yield y
    yield i
    yield nb.max_pool2d_backward(g, i, x.shape)
    yield nb.max_unpool2d(g, i, 3, 2, 1, output_size=x.shape[2:])
    yield nb.max_unpool2d_backward(x, i)
    yield nb.avg_pool2d(x, 3, 2, 1)
    yield nb.avg_pool2d_backward(g, x.shape, 3, 2, 1)
    n = nb.lp_pool2d(x, 2, 3, 2, padding=1)
    yield n
    yield nb.lp_pool2d_backward(g, x, n, 2, 3, 2, padding=1)
    yield nb.adaptive_avg_pool2d(x, (3, 5))
    yield nb.global_max_pool(x)


def inputs():
    """Both sizes in both memory orders."""
    rng = np.random.default_rng(0)
    for shape in (SMALL, LARGE):
        half = (*shape[:2], (shape[2] + 1) // 2, (shape[3] + 1) // 2)
        x, g = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(half).astype(np.float32)
        yield x, g
        yield tuple(np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in (x, g))


class Work:
    """Inputs, and the results of one thread."""

    def __init__(self):
        _runtime.SERIAL_BYTES = THRESHOLD
        _runtime.Patience.LONGEST = 0  # threads do not pay for arrays as small as these, and are to run all the same
        self.inputs = list(inputs())
        with nb.threads(1):
            self.expected = [[a.tobytes() for a in calls(*pair)] for pair in self.inputs]

    def check(self, rounds=1):
        """Make every call, and compare its bits; returns how many were made."""
        _runtime.SERIAL_BYTES = THRESHOLD
        made = 0
        for _ in range(rounds):
            for pair, expected in zip(self.inputs, self.expected, strict=True):
                for result, bits in zip(calls(*pair), expected, strict=True):
                    assert result.tobytes() == bits
                    made += 1
        return made
