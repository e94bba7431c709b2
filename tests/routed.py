"""Gradients to route, and where indices take them."""

from math import prod

import numpy as np
import reference


def gradients(shape, dtype, seed=0):
    """Small integers, exact in every dtype; zeros of both signs."""
    g = np.random.default_rng(seed).integers(0, 8, shape).astype(dtype)
    if g.dtype.kind not in "iu":
        g.reshape(-1)[::3] = -0.0
    return g


def scattered(g, indices, shape, rank, accumulate=True):
    """What is expected, as the formula has it."""
    if accumulate:
        return reference.scatter_add(g.astype(np.float64), indices, shape, rank).astype(g.dtype)
    result = np.zeros((prod(shape[:-rank]), prod(shape[-rank:])), g.dtype)
    lines = len(result), -1
    np.put_along_axis(result, indices.reshape(lines).astype(np.int64), g.reshape(lines), 1)
    return result.reshape(shape)
