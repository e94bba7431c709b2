"""Every operation as one forward and one backward call of the same form, for the tests that hold for all of them."""

from typing import Any, NamedTuple

import numpy as np
import reference

import numba_pool as nb


class Operation(NamedTuple):
    """An operation with its arguments fixed.

    `forward(x, **out)` returns y, or (y, indices) if `indexed`; `backward(g, x, result)` the gradient.
    """

    name: str
    shape: tuple[int, ...]
    forward: Any
    backward: Any
    indexed: bool = False
    sums: bool = False
    plain: Any = None  # where pooling is not linear: the forward by the plain loops, for finite differences

    @property
    def rank(self):
        return len(self.shape) - 2

    def value(self, x):
        result = self.forward(x)
        return result[0] if self.indexed else result


def maximum(rank, shape, *args, **kwargs):
    pool, backward = getattr(nb, f"max_pool{rank}d"), getattr(nb, f"max_pool{rank}d_backward")
    return Operation(
        f"max_pool{rank}d-{args}-{kwargs}",
        shape,
        lambda x, **out: pool(x, *args, **kwargs, return_indices=True, **out),
        lambda g, x, result, **out: backward(g, result[1], x.shape, **out),
        indexed=True,
    )


def average(rank, shape, *args, **kwargs):
    pool, backward = getattr(nb, f"avg_pool{rank}d"), getattr(nb, f"avg_pool{rank}d_backward")
    return Operation(
        f"avg_pool{rank}d-{args}-{kwargs}",
        shape,
        lambda x, **out: pool(x, *args, **kwargs, **out),
        lambda g, x, result, **out: backward(g, x.shape, *args, **kwargs, **out),
        sums=True,
    )


def lp(rank, shape, *args, **kwargs):
    pool, backward = getattr(nb, f"lp_pool{rank}d"), getattr(nb, f"lp_pool{rank}d_backward")
    return Operation(
        f"lp_pool{rank}d-{args}-{kwargs}",
        shape,
        lambda x, **out: pool(x, *args, **kwargs, **out),
        lambda g, x, result, **out: backward(g, x, result, *args, **kwargs, **out),
        sums=True,
        plain=lambda x: reference.lp_pool(x, *args, **kwargs, rank=rank),
    )


def adaptive_maximum(rank, shape, size):
    pool, backward = getattr(nb, f"adaptive_max_pool{rank}d"), getattr(nb, f"adaptive_max_pool{rank}d_backward")
    return Operation(
        f"adaptive_max_pool{rank}d-{size}",
        shape,
        lambda x, **out: pool(x, size, return_indices=True, **out),
        lambda g, x, result, **out: backward(g, result[1], x.shape, **out),
        indexed=True,
    )


def adaptive_average(rank, shape, size):
    pool, backward = getattr(nb, f"adaptive_avg_pool{rank}d"), getattr(nb, f"adaptive_avg_pool{rank}d_backward")
    return Operation(
        f"adaptive_avg_pool{rank}d-{size}",
        shape,
        lambda x, **out: pool(x, size, **out),
        lambda g, x, result, **out: backward(g, x.shape, **out),
        sums=True,
    )


def fractional_samples(x, rank):
    """The same samples for a batch and for its examples: they depend on the channel only."""
    batch = x.shape[0] if x.ndim == rank + 2 else 1
    channels = x.shape[x.ndim - rank - 1]
    u = np.random.default_rng(channels).random((1, channels, rank)).astype(x.dtype.newbyteorder("="))
    return np.repeat(u, batch, axis=0)


def fractional(rank, shape, kernel, size):
    pool, backward = getattr(nb, f"fractional_max_pool{rank}d"), getattr(nb, f"fractional_max_pool{rank}d_backward")
    return Operation(
        f"fractional_max_pool{rank}d-{kernel}-{size}",
        shape,
        lambda x, **out: pool(
            x, kernel, size, return_indices=True, random_samples=fractional_samples(x, rank), **out
        ),
        lambda g, x, result, **out: backward(g, result[1], x.shape, **out),
        indexed=True,
    )


def unpool_indices(x, rank, size):
    """Indices without duplicates within a plane, the same in every example."""
    spatial = x.shape[x.ndim - rank :]
    channels = x.shape[x.ndim - rank - 1]
    rng = np.random.default_rng(1)
    index = [rng.permutation(int(np.prod(size)))[: int(np.prod(spatial))] for _ in range(channels)]
    return np.broadcast_to(np.array(index, np.int32).reshape(channels, *spatial), x.shape)


def unpool(rank, shape, kernel, size):
    function, backward = getattr(nb, f"max_unpool{rank}d"), getattr(nb, f"max_unpool{rank}d_backward")
    return Operation(
        f"max_unpool{rank}d-{kernel}-{size}",
        shape,
        lambda x, **out: function(x, unpool_indices(x, rank, size), kernel, output_size=size, **out),
        lambda g, x, result, **out: backward(g, unpool_indices(x, rank, size), **out),
    )


def global_maximum(shape):
    return Operation(
        f"global_max_pool-{len(shape) - 2}",
        shape,
        lambda x: nb.global_max_pool(x, return_indices=True),
        lambda g, x, result: nb.global_max_pool_backward(g, result[1], x.shape),
        indexed=True,
    )


def global_average(shape):
    return Operation(
        f"global_avg_pool-{len(shape) - 2}",
        shape,
        lambda x: nb.global_avg_pool(x),
        lambda g, x, result: nb.global_avg_pool_backward(g, x.shape),
        sums=True,
    )


# Small enough for finite differences; overlaps, padding, dilation, ceil mode and clipped windows are all among them.
OPERATIONS = (
    maximum(1, (2, 2, 9), 3, 2, 1),
    maximum(2, (2, 2, 6, 5), 2),
    maximum(2, (2, 1, 6, 7), 3, 2, 1, ceil_mode=True),
    maximum(2, (2, 1, 6, 6), 3, 1, "same", 2),
    maximum(3, (2, 1, 4, 3, 5), 2, 2, ((0, 1), (1, 0), (0, 0))),
    average(1, (2, 2, 9), 3, 2, 1, ceil_mode=True),
    average(2, (2, 2, 6, 4), 2),
    average(2, (2, 1, 6, 7), 3, 2, 1, ceil_mode=True, count_include_pad=False),
    average(2, (2, 1, 5, 6), 3, 1, ((2, 0), (1, 2)), dilation=(1, 2), divisor_override=-3),
    average(3, (2, 1, 4, 3, 5), (2, 3, 2), 1, 1),
    lp(1, (2, 2, 9), 2, 3, 2, ceil_mode=True),
    lp(2, (2, 2, 5, 6), 3, 3, 2, padding=1),
    lp(2, (2, 1, 5, 6), 1.5, 2, 1, dilation=2),
    lp(2, (2, 1, 5, 6), float("inf"), 2),
    lp(3, (2, 1, 4, 3, 5), 2.5, 2),
    adaptive_maximum(1, (2, 2, 9), 4),
    adaptive_maximum(2, (2, 2, 6, 5), (3, 7)),
    adaptive_maximum(3, (2, 1, 4, 3, 5), (2, None, 3)),
    adaptive_average(1, (2, 2, 9), 4),
    adaptive_average(2, (2, 2, 6, 5), (3, 7)),
    adaptive_average(3, (2, 1, 4, 3, 5), (2, None, 3)),
    fractional(2, (2, 2, 7, 8), 2, (4, 5)),
    fractional(3, (2, 1, 5, 4, 6), 2, (2, 3, 4)),
    unpool(1, (2, 2, 4), 2, (8,)),
    unpool(2, (2, 2, 3, 2), 2, (7, 4)),
    unpool(3, (2, 1, 2, 2, 2), 2, (4, 4, 5)),
    global_maximum((2, 2, 9)),
    global_maximum((2, 2, 4, 5)),
    global_maximum((2, 2, 2, 3, 3)),
    global_average((2, 2, 9)),
    global_average((2, 2, 4, 5)),
    global_average((2, 2, 2, 3, 3)),
)
LARGE = (
    maximum(1, (4, 16, 4001), 3, 2, 1),
    maximum(2, (8, 40, 33, 35), 2),
    maximum(2, (8, 40, 33, 35), 3, 2, 1),
    maximum(2, (4, 24, 40, 41), 5, 1, 2),
    maximum(2, (1, 1, 601, 503), 3, 1, 1),
    maximum(3, (2, 8, 12, 20, 21), 3, 2, 1),
    average(1, (4, 16, 4001), 3, 2, 1),
    average(2, (8, 40, 33, 35), 2),
    average(2, (8, 40, 33, 35), 3, 2, 1),
    average(2, (1, 1, 601, 503), 3, 1, 1, count_include_pad=False),
    average(3, (2, 8, 12, 20, 21), 3, 2, 1),
    lp(2, (8, 24, 33, 35), 2, 3, 2),
    adaptive_maximum(2, (4, 24, 40, 41), (7, 9)),
    adaptive_average(2, (4, 24, 40, 41), (7, 9)),
    adaptive_average(2, (1, 1, 601, 503), (7, 9)),
    fractional(2, (4, 24, 40, 41), 3, (20, 21)),
    unpool(2, (4, 24, 20, 20), 2, (40, 41)),
    global_maximum((8, 40, 33, 35)),
    global_maximum((1, 1, 601, 503)),
    global_average((8, 40, 33, 35)),
    global_average((1, 1, 601, 503)),
)


def names(operations):
    return [op.name.replace(" ", "") for op in operations]
