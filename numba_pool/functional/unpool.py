"""Max unpooling: the values go back to where their maxima came from."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from numpy.typing import ArrayLike

from .. import _arguments as arguments
from .. import _arrays as arrays
from .._arrays import Array, Planes, Shape
from .._dispatch import plans
from .._dispatch.again import Calls
from .._dispatch.axes import along
from .._dispatch.calls import BY_INT32, gather, scattered
from .._docstrings import documented
from .._windows import LIMIT
from ..kernels._job import Call


def unpooled_shape(x: Planes, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> Shape:
    rank = x.rank
    kernel = arguments.sizes(kernel_size, rank, "kernel_size")
    step = arguments.strides(stride, rank, kernel)
    pad = arguments.sizes(padding, rank, "padding", least=0)
    default = tuple((n - 1) * s + k - 2 * p for n, k, s, p in zip(x.spatial, kernel, step, pad))
    if output_size is None:
        size = default
        if not 1 <= min(size) <= max(size) <= LIMIT:
            raise ValueError(f"(n - 1)*stride + kernel_size - 2*padding must lie in [1, {LIMIT}] on each axis where "
                             f"output_size is not given, got {size} for n {x.spatial}, kernel_size {kernel}, "
                             f"stride {step} and padding {pad}")
    else:
        if not isinstance(output_size, (tuple, list)):
            output_size = (output_size,) * rank
        given = tuple(arguments.integer(n, "output_size") for n in output_size)
        if len(given) == len(x.shape) and given[:-rank] == x.lead:
            given = given[-rank:]
        if len(given) != rank:
            raise ValueError(f"output_size must have {rank} entries (or batch and channels {x.lead} too), got {given}")
        for n, d, s in zip(given, default, step):
            if not d - s < n < d + s:
                raise ValueError(f"output_size must differ from {default} by less than the stride {step}, got {given}"
                                 f"{way_to(given, x.spatial, step)}")
        size = tuple(arguments.bounded(n, "output_size", 1) for n in given)
    return (*x.lead, *size)


def way_to(size: Shape, windows: Shape, stride: Shape) -> str:
    """Arguments that lead so many windows to this size, for a message, if there are any."""
    if not all(w <= n <= LIMIT for n, w in zip(size, windows)):
        return ""
    if any(n <= (w - 1) * s for n, w, s in zip(size, windows, stride)):
        stride = (1,) * len(size)
    kernel = tuple(n - (w - 1) * s for n, w, s in zip(size, windows, stride))
    return (f"; kernel_size, stride and padding do nothing but lead to it: after dilated, adaptive or fractional "
            f"windows, or 'same', kernel_size={kernel}, stride={stride}, padding=0 does")


def _forward(rank: int) -> Any:
    calls = Calls()

    def plan(x: Planes, given: Any, arguments: tuple[Any, ...], out: Any) -> Call:
        _, kernel_size, stride, padding, output_size, *_ = arguments
        shape = unpooled_shape(x, kernel_size, stride, padding, given or output_size)
        return plans.routed(x.shape, shape, rank, x.last, x.flat.dtype, accumulate=False)

    @documented(rank)
    def max_unpool(x: ArrayLike, indices: ArrayLike, kernel_size: Any, stride: Any = None, padding: Any = 0,
                   output_size: Any = None, *, channel_axis: Any = None,
                   out: Array | None = None) -> Array:
        """Zeros, with every element of `x` at its index: the partial inverse of `max_pool{d}`.

        Parameters
        ----------
        indices : int32 or int64 array of x's shape
            Flat within each plane of the result. Of equal ones the last in row-major order wins.
        kernel_size : int or one int per spatial axis
            As in the pooling that is undone, like the next two. After dilated, adaptive or fractional windows any that
            lead to its input's shape: they do nothing else.
        stride : int or one int per spatial axis, optional
            None stands for the kernel size.
        padding : int or one int per spatial axis
            Of the pooling that is undone.
        output_size : int or one int per spatial axis, with or without the batch and channel axes, optional
            The spatial shape of what was pooled, or elements may come back to other places. Default
            ``(n - 1)*stride + kernel_size - 2*padding``, from which it may differ by less than the stride.

        Raises
        ------
        ValueError
            Where an index lies outside its plane: -1 does, and so do some where what was pooled was larger than the
            default and `output_size` is not given.

        Examples
        --------
        >>> import numpy as np
        >>> from numba_pool import max_pool2d, max_unpool2d
        >>> y, indices = max_pool2d(np.array([[[1.0, 4.0], [3.0, 2.0]]]), 2, return_indices=True)
        >>> max_unpool2d(y, indices, 2)
        array([[[0., 4.],
                [0., 0.]]])
        """
        if channel_axis is not None:
            return along(max_unpool, locals())
        hint = "; output_size= tells the spatial shape of what was pooled" if output_size is None else ""
        given = output_size if output_size.__class__ is tuple else None  # as `x.shape` is, new at every call
        arguments = BY_INT32[0], kernel_size, stride, padding, None if given else output_size, None, None
        return scattered(calls, plan, rank, "x", x, indices, given, out, arguments, hint)

    return max_unpool


def _backward(rank: int) -> Any:
    @documented(rank)
    def max_unpool_backward(grad_output: ArrayLike, indices: ArrayLike, *, channel_axis: Any = None,
                            out: Array | None = None) -> Array:
        """Gradient of `max_unpool{d}` with respect to its input: the upstream elements at `indices`.

        Where indices repeat, each has that element, also those whose value another has overwritten; as in PyTorch.

        Parameters
        ----------
        indices : int32 or int64 array of the shape of the input of `max_unpool{d}`
            As they were given to it.

        Returns
        -------
        array of the shape of `indices` and grad_output's dtype
        """
        if channel_axis is not None:
            return along(max_unpool_backward, locals())
        return gather(arrays.planes(grad_output, rank, "grad_output"), indices, out)

    return max_unpool_backward


max_unpool1d, max_unpool2d, max_unpool3d = (_forward(rank) for rank in (1, 2, 3))
max_unpool1d_backward, max_unpool2d_backward, max_unpool3d_backward = (_backward(rank) for rank in (1, 2, 3))
