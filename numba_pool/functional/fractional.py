"""Fractional max pooling (Graham, 2014, arXiv:1412.6071): windows at pseudo-random starts."""

from __future__ import annotations  # help() shows them by name

from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _arguments as arguments
from .. import _arrays as arrays
from .._arrays import Planes, Shape
from .._dispatch.axes import along
from .._dispatch.calls import check_bool, check_pair, outputs
from .._docstrings import documented
from .._runtime import launch
from .._windows import CHANNELS, DEPTH, HEADER, KERNEL, LAST, OUT_D
from ..kernels import maximum
from .maximum import scatter_backward


def resolve_output(spatial: Shape, output_size: Any, output_ratio: Any) -> Shape:
    rank = len(spatial)
    if (output_size is None) == (output_ratio is None):
        raise ValueError("one of output_size and output_ratio must be given, and not both, got "
                         f"{output_size!r} and {output_ratio!r}")
    if output_size is not None:
        return arguments.sizes(output_size, rank, "output_size", short=False)
    output = []
    for ratio, length in zip(arguments.entries(output_ratio, rank, "output_ratio", short=False), spatial):
        if isinstance(ratio, (bool, np.bool_)) or not isinstance(ratio, (int, float, np.integer, np.floating)):
            raise TypeError(f"output_ratio must be a float or one per spatial axis, got {output_ratio!r}")
        if not 0 < ratio < 1:
            raise ValueError(f"output_ratio must lie between 0 and 1, got {output_ratio!r}")
        if int(length * ratio) < 1:
            raise ValueError(f"output_ratio must leave at least one element on each axis, got {output_ratio!r} for "
                             f"an input of spatial shape {spatial}")
        output.append(int(length * ratio))
    return tuple(output)


def draw(p: Planes, random_samples: Any, rng: Any) -> NDArray[Any]:
    """One number in [0, 1) per plane and axis, shape (planes, rank), in the dtype in which starts are computed."""
    shape = (*p.lead, p.rank)
    if random_samples is None:
        try:
            u: NDArray[Any] = np.random.default_rng(rng).random(shape, np.float32)
        except (TypeError, ValueError) as error:
            raise type(error)(f"rng must be a numpy.random.Generator or a seed for one, got {rng!r}") from None
    else:
        if rng is not None:
            raise ValueError("random_samples and rng must not be given together")
        u = np.asarray(arrays.ndarray(random_samples, "random_samples"))
        if u.dtype.kind != "f" and u.dtype.name != "bfloat16":
            raise TypeError(f"random_samples must be floats, got {u.dtype}")
        if u.shape != shape and u.shape != (1, *shape):
            raise ValueError(f"random_samples must have shape {shape}, got {u.shape}")
        if not ((u >= 0) & (u < 1)).all():
            raise ValueError(f"random_samples must lie in [0, 1), got {u.min()} to {u.max()}")
    dtype = np.dtype(np.float32) if p.flat.dtype.kind in "iu" else p.flat.dtype
    below = np.nextafter(dtype.type(1), dtype.type(0))  # what rounding may not pass
    return np.minimum(u.reshape(-1, p.rank).astype(dtype), below)


def starts(length: int, n: int, k: int, u: NDArray[Any]) -> NDArray[np.int64]:
    """First element of every window, shape (planes, n), in the arithmetic of u's dtype as torch has it."""
    table: NDArray[np.int64] = np.empty((len(u), n), np.int64)
    if n > 1:
        alpha = u.dtype.type(length - k) / u.dtype.type(n - 1)
        table[:] = (np.arange(n).astype(u.dtype) + u[:, None]) * alpha
        table -= (u * alpha).astype(np.int64)[:, None]
        # Halves count in steps of more than one beyond 2048 or 256: no window may start outside.
        np.minimum(table, length - k, out=table)
        np.maximum(table, 0, out=table)
    table[:, n - 1] = length - k
    return table


def drawn_windows(p: Planes, output: Shape, kernel: Shape, u: NDArray[Any]) -> tuple[NDArray[np.int64], ...]:
    """The starts of all windows of every plane, and the header of a geometry array."""
    # torch draws (W, H) for two axes and (T, H, W) for three
    tables = [starts(p.spatial[axis], output[axis], kernel[axis], u[:, 1 - axis if p.rank == 2 else axis])
              for axis in range(p.rank)]
    if p.rank == 2:
        tables.insert(0, np.zeros((len(u), 1), np.int64))
    missing = (1,) * (3 - p.rank)
    head = np.zeros(HEADER, np.int64)
    head[CHANNELS], head[LAST] = p.channels, p.last
    for at, lengths in ((DEPTH, p.spatial), (OUT_D, output), (KERNEL, kernel)):
        head[at : at + 3] = *missing, *lengths
    return np.concatenate(tables, axis=1).ravel(), head


def _forward(rank: int) -> Any:
    @documented(rank)
    def fractional_max_pool(x: ArrayLike, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
                            return_indices: bool = False, *, random_samples: Any = None, rng: Any = None,
                            channel_axis: Any = None, out: Any = None) -> Any:
        """Maximum over windows whose starts are drawn so that the output has a given size.

        Parameters
        ----------
        output_size : int or one int per spatial axis
            How many windows along each axis.
        output_ratio : float or one per spatial axis, between 0 and 1
            Output size as a fraction of the input's, rounded down; give this or `output_size`.
        random_samples : array of floats in [0, 1), shape (N, C, rank) or (C, rank), optional
            What drives the starts: in 2D column 0 those along W and column 1 along H, in 3D the columns in order. Drawn
            from `rng` if not given; not both.
        rng : numpy Generator or seed, optional
            A seed gives the same windows at every call.

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import fractional_max_pool2d
        >>> x = np.arange(25.0).reshape(1, 5, 5)
        >>> fractional_max_pool2d(x, 2, output_size=3, random_samples=np.full((1, 2), 0.5))
        array([[[ 6.,  8.,  9.],
                [16., 18., 19.],
                [21., 23., 24.]]])
        """
        if channel_axis is not None:
            return along(fractional_max_pool, locals())
        p = arrays.planes(x, rank, indices=check_bool(return_indices, "return_indices"))
        kernel = arguments.sizes(kernel_size, rank, "kernel_size", short=False)
        output = resolve_output(p.spatial, output_size, output_ratio)
        for n, k, length in zip(output, kernel, p.spatial):
            if n + k - 1 > length:
                raise ValueError(
                    f"output_size + kernel_size - 1 must be at most the input's length {length}, got {n} + {k} - 1 "
                    f"for an x of shape {p.shape}"
                )
        u = draw(p, random_samples, rng)
        check_pair(out, return_indices)
        y, i = outputs(p, (*p.lead, *output), return_indices, out)
        source, written = arrays.widen(p.flat), arrays.wide_output(y)
        launch(maximum.max_drawn, p.number * prod(output[:-1]), 16 * source.nbytes,
               source, written, None if i is None else i.flat, *drawn_windows(p, output, kernel, u))
        result = arrays.finish(y, written)
        return result if i is None else (result, i.finish())

    return fractional_max_pool


fractional_max_pool2d, fractional_max_pool3d = (_forward(rank) for rank in (2, 3))
fractional_max_pool2d_backward, fractional_max_pool3d_backward = (
    scatter_backward("fractional_max_pool", rank) for rank in (2, 3)
)
