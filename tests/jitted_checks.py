"""Plans, arrays for them, and compiled code that runs them: what the tests of `numba_pool.jitted` share."""

import numpy as np
from numba import njit

import numba_pool as nb


@njit
def forward(plan, x, y, *indices):
    nb.run(plan, x, y, *indices)


@njit
def backward(plan, grad, *arrays):
    nb.run_backward(plan, grad, *arrays)


def data(shape, dtype="f4", seed=0):
    return (8 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def arrays_for(plan):
    """x, y, indices and gradients of the output and the input, as a plan wants them."""
    y, grad_x = np.full(plan.output_shape, 7, plan.dtype), np.full(plan.shape, 7, plan.dtype)
    grad_y = data(plan.output_shape, plan.dtype, 1)
    return data(plan.shape, plan.dtype), y, np.full(plan.output_shape, 7, np.int32), grad_y, grad_x


MAXIMUM = nb.max_pool2d, (2, 3, 9, 9), "f4", 3, 2, 1
AVERAGE = nb.avg_pool2d, (2, 3, 9, 9), "f4", 3, 2, 1
