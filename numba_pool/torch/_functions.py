"""Pooling as functions of tensors, under the names and signatures of `torch.nn.functional`."""

from __future__ import annotations  # help() shows them by name

from typing import Any

import torch
from torch import Tensor

from ._autograd import at_once, norm, unpool
from ._ops import traced
from ._pools import POOLS, Pool, beyond_torch
from ._tensors import CORE, OPS, array, route

NOTHING: dict[str, Any] = {}
REFUSALS = (ValueError, TypeError)  # of the core


def widened(x: Tensor) -> Tensor:
    """The input as CPU autocast, where it is on, hands it to operations that it computes in float32."""
    if torch.is_autocast_enabled("cpu") and x.dtype is not torch.float64:
        return x.float()
    return x


def pooled(pool: Pool, x: Any, arguments: tuple[Any, ...], more: dict[str, Any] = NOTHING,
           return_indices: bool = False) -> Any:
    """A maximum or an average: by the core, by an operator, or by torch.

    What the core refuses goes to torch, which refuses it in its own words, or computes it.
    """
    way = route(x)
    try:
        if way is CORE:
            return at_once(pool, widened(x) if pool.single else x, arguments, more, return_indices)
        if way is OPS:
            return traced(pool, widened(x) if pool.single else x, arguments, more, return_indices)
    except REFUSALS:
        if beyond_torch(arguments, more):
            raise
    if beyond_torch(arguments, more):
        raise NotImplementedError(f"{pool.name} with dilation of averages, pairs of padding or 'same' takes dense "
                                  "tensors of floats on the CPU, and no forward mode: torch itself has no such pooling")
    if pool.indexed:
        return pool.own(x, *arguments, return_indices=return_indices)
    return pool.own(x, *arguments[: 5 if pool.name == "avg_pool1d" else None])


def named(function: Any, rank: int) -> Any:
    """The function made for one spatial rank with its public name and the rank in its docstring."""
    function.__name__ = function.__qualname__ = f"{function.__name__}{rank}d"
    function.__module__ = "numba_pool.torch"
    function.__doc__ = function.__doc__.replace("{d}", f"{rank}d").replace(
        "{spatial}", ("L", "H, W", "D, H, W")[rank - 1]
    ).replace("{rank}", str(rank))
    return function


def _max(rank: int) -> Any:
    pool = POOLS[f"max_pool{rank}d"]

    def max_pool(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                 ceil_mode: bool = False, return_indices: bool = False) -> Any:
        """`torch.nn.functional.max_pool{d}`, computed by numba_pool: same arguments, same values bit for bit.

        Parameters
        ----------
        input : Tensor, shape (N, C, {spatial}) or (C, {spatial})
            float32, float64, float16 or bfloat16 on the CPU; torch itself pools any other.
        kernel_size, stride, dilation : int or one int per spatial axis
            Stride None stands for the kernel size.
        padding : int or one int per spatial axis
            Beyond torch: also a (before, after) pair per axis, 'same' or 'same_lower'.
        ceil_mode : bool
            Keep a last window that hangs over the end.
        return_indices : bool
            Return ``(output, indices)``, the indices as int64.

        Returns
        -------
        Tensor, or (Tensor, Tensor)
            In channels-last memory where the input is.

        Raises
        ------
        RuntimeError, ValueError, TypeError
            For arguments out of range, as torch.
        NotImplementedError
            For padding that torch has not, where numba_pool cannot compute: other devices and dtypes, forward mode.

        Notes
        -----
        A window without any valid element, possible with dilation and padding, has the index -1 and no gradient. Torch
        gives it an index outside of the plane, and writes there in backward.

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import max_pool{d}
        >>> max_pool{d}(torch.rand(2, 3, *[8] * {rank}), 2).shape[:3]
        torch.Size([2, 3, 4])
        """
        return pooled(pool, input, (kernel_size, stride, padding, dilation, ceil_mode), NOTHING, return_indices)

    return named(max_pool, rank)


def _avg(rank: int) -> Any:
    pool = POOLS[f"avg_pool{rank}d"]

    def avg_pool(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None, *, dilation: Any = 1) -> Tensor:
        """`torch.nn.functional.avg_pool{d}`, computed by numba_pool: same arguments, same values but for rounding.

        Parameters
        ----------
        input : Tensor, shape (N, C, {spatial}) or (C, {spatial})
            float32, float64, float16 or bfloat16 on the CPU; torch itself pools any other.
        kernel_size, stride : int or one int per spatial axis
            Stride None stands for the kernel size.
        padding : int or one int per spatial axis
            Beyond torch: also a (before, after) pair per axis, 'same' or 'same_lower'.
        ceil_mode : bool
            Keep a last window that hangs over the end.
        count_include_pad : bool
            Whether padded elements count in the divisor.
        divisor_override : int other than 0, optional
            Divides every sum. In 1D this goes beyond torch.
        dilation : int or one int per spatial axis
            Beyond torch.

        Returns
        -------
        Tensor
            In channels-last memory where the input is.

        Raises
        ------
        RuntimeError, ValueError, TypeError
            For arguments out of range, as torch.
        NotImplementedError
            For what torch has not, where numba_pool cannot compute: other devices and dtypes, forward mode.

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import avg_pool{d}
        >>> avg_pool{d}(torch.ones(2, 3, *[8] * {rank}), 3, padding="same").shape[:3]
        torch.Size([2, 3, 3])
        """
        arguments = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        return pooled(pool, input, arguments, NOTHING if dilation == 1 else {"dilation": dilation})

    return named(avg_pool, rank)


def _adaptive_max(rank: int) -> Any:
    pool = POOLS[f"adaptive_max_pool{rank}d"]

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """`torch.nn.functional.adaptive_max_pool{d}`, computed by numba_pool: same values bit for bit.

        Parameters
        ----------
        input : Tensor, shape (N, C, {spatial}) or (C, {spatial})
            As for `max_pool{d}`.
        output_size : int or None, or one of them per spatial axis
            None keeps an axis.
        return_indices : bool
            Return ``(output, indices)``, the indices as int64.

        Returns
        -------
        Tensor, or (Tensor, Tensor)

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import adaptive_max_pool{d}
        >>> adaptive_max_pool{d}(torch.rand(2, 3, *[8] * {rank}), 5).shape[:3]
        torch.Size([2, 3, 5])
        """
        return pooled(pool, input, (output_size,), NOTHING, return_indices)

    return named(adaptive_max_pool, rank)


def _adaptive_avg(rank: int) -> Any:
    pool = POOLS[f"adaptive_avg_pool{rank}d"]

    def adaptive_avg_pool(input: Tensor, output_size: Any) -> Tensor:
        """`torch.nn.functional.adaptive_avg_pool{d}`, computed by numba_pool: same values but for rounding.

        Parameters
        ----------
        input : Tensor, shape (N, C, {spatial}) or (C, {spatial})
            As for `avg_pool{d}`.
        output_size : int or None, or one of them per spatial axis
            None keeps an axis.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import adaptive_avg_pool{d}
        >>> adaptive_avg_pool{d}(torch.ones(2, 3, *[8] * {rank}), 1).flatten()
        tensor([1., 1., 1., 1., 1., 1.])
        """
        return pooled(pool, input, (output_size,))

    return named(adaptive_avg_pool, rank)


def _lp(rank: int) -> Any:
    pool = POOLS[f"lp_pool{rank}d"]

    def lp_pool(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None,
                ceil_mode: bool = False) -> Tensor:
        """`torch.nn.functional.lp_pool{d}`, computed by numba_pool where both mean the same.

        That is for even `norm_type` without `ceil_mode`, for float32 and float64. Else torch computes, which takes no
        absolute value of elements, and inflates the windows that hang over the end; and so it does where a call is
        compiled or transformed. The gradient of a window of zeros is 0, where torch's is NaN.

        Parameters
        ----------
        input : Tensor, shape (N, C, {spatial}) or (C, {spatial})
        norm_type : number
        kernel_size, stride : int or one int per spatial axis
            Stride None stands for the kernel size.
        ceil_mode : bool
            Keep a last window that hangs over the end.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import lp_pool{d}
        >>> lp_pool{d}(torch.ones(1, *[2] * {rank}), 2, 2).shape[:2]
        torch.Size([1, 1])
        """
        arguments = norm_type, kernel_size, stride, ceil_mode
        exact = input.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu")
        if route(input) is CORE and exact and same_norm(norm_type, ceil_mode):
            try:
                return norm(pool, input, arguments)
            except REFUSALS:
                pass
        result: Tensor = pool.own(input, *arguments)
        return result

    return named(lp_pool, rank)


def same_norm(norm_type: Any, ceil_mode: Any) -> bool:
    """Whether torch and the core mean the same by these arguments of `lp_pool`."""
    return isinstance(norm_type, (int, float)) and norm_type > 0 and norm_type % 2 == 0 and not ceil_mode


def _fractional(rank: int) -> Any:
    pool = POOLS[f"fractional_max_pool{rank}d"]

    def fractional_max_pool(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
                            return_indices: bool = False, _random_samples: Tensor | None = None) -> Any:
        """`torch.nn.functional.fractional_max_pool{d}`, computed by numba_pool: same values from the same seed.

        Where a call is compiled or transformed, torch computes.

        Parameters
        ----------
        input : Tensor, shape (N, C, {spatial}) or (C, {spatial})
            As for `max_pool{d}`.
        kernel_size : int or one int per spatial axis
        output_size : int or one int per spatial axis
        output_ratio : float or one per spatial axis, between 0 and 1
            Output size as a fraction of the input's; not used where `output_size` is given.
        return_indices : bool
            Return ``(output, indices)``, the indices as int64.

        Returns
        -------
        Tensor, or (Tensor, Tensor)

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import fractional_max_pool{d}
        >>> fractional_max_pool{d}(torch.rand(2, 3, *[8] * {rank}), 2, output_size=5).shape[:3]
        torch.Size([2, 3, 5])
        """
        samples = _random_samples
        if route(input) is CORE and input.dim() in (rank + 1, rank + 2):
            batch, channels = (1, *input.shape)[-rank - 2 : -rank]
            if samples is None:
                samples = torch.rand(batch, channels, rank, dtype=input.dtype)
            arguments = kernel_size, output_size, None if output_size is not None else output_ratio
            try:
                return at_once(pool, widened(input), arguments, {"random_samples": array(samples, False)},
                               return_indices)
            except REFUSALS:
                pass
        return pool.own(input, kernel_size, output_size, output_ratio, return_indices, samples)

    return named(fractional_max_pool, rank)


def is_index(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype is torch.int64 and x.is_cpu and x.layout is torch.strided


def _unpool(rank: int) -> Any:
    pool = POOLS[f"max_unpool{rank}d"]

    def max_unpool(input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
                   output_size: Any = None) -> Tensor:
        """`torch.nn.functional.max_unpool{d}`, computed by numba_pool.

        Of equal indices the last in row-major order wins; torch leaves that open. Where a call is compiled or
        transformed, torch computes.

        Parameters
        ----------
        input : Tensor, shape (N, C, {spatial}) or (C, {spatial})
            As for `max_pool{d}`.
        indices : int64 Tensor of the same shape
            As returned by `max_pool{d}`.
        kernel_size, stride, padding : int or one int per spatial axis
            As in the pooling that is undone.
        output_size : one int per spatial axis, optional
            The spatial shape of what was pooled.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import max_pool{d}, max_unpool{d}
        >>> output, indices = max_pool{d}(torch.rand(2, 3, *[8] * {rank}), 2, return_indices=True)
        >>> max_unpool{d}(output, indices, 2).shape[:3]
        torch.Size([2, 3, 8])
        """
        arguments = kernel_size, stride, padding, output_size
        if route(input) is CORE and is_index(indices) and not torch.is_autocast_enabled("cpu"):
            try:
                return unpool(pool, input, indices, arguments)
            except REFUSALS:
                pass
        result: Tensor = pool.own(input, indices, *arguments)
        return result

    return named(max_unpool, rank)


max_pool1d, max_pool2d, max_pool3d = map(_max, (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = map(_avg, (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(_adaptive_max, (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_avg, (1, 2, 3))
lp_pool1d, lp_pool2d, lp_pool3d = map(_lp, (1, 2, 3))
fractional_max_pool2d, fractional_max_pool3d = map(_fractional, (2, 3))
max_unpool1d, max_unpool2d, max_unpool3d = map(_unpool, (1, 2, 3))


def global_avg_pool(input: Tensor) -> Tensor:
    """Average of every plane of a batch; the spatial axes stay, with size 1.

    Parameters
    ----------
    input : Tensor, shape (N, C, *spatial) with 1 to 3 spatial axes

    Returns
    -------
    Tensor, shape (N, C, 1, ...)

    Raises
    ------
    ValueError
        For another number of axes.

    Examples
    --------
    >>> import torch
    >>> from numba_pool.torch import global_avg_pool
    >>> global_avg_pool(torch.ones(1, 2, 4, 4)).flatten()
    tensor([1., 1.])
    """
    result: Tensor = pooled(POOLS[f"adaptive_avg_pool{global_rank(input)}d"], input, (1,))
    return result


def global_max_pool(input: Tensor, return_indices: bool = False) -> Any:
    """Maximum of every plane of a batch; the spatial axes stay, with size 1.

    Parameters
    ----------
    input : Tensor, shape (N, C, *spatial) with 1 to 3 spatial axes
    return_indices : bool
        Return ``(output, indices)``, the indices as int64.

    Returns
    -------
    Tensor, shape (N, C, 1, ...), or (Tensor, Tensor)

    Raises
    ------
    ValueError
        For another number of axes.

    Examples
    --------
    >>> import torch
    >>> from numba_pool.torch import global_max_pool
    >>> global_max_pool(torch.arange(8.0).reshape(1, 2, 2, 2)).flatten()
    tensor([3., 7.])
    """
    return pooled(POOLS[f"adaptive_max_pool{global_rank(input)}d"], input, (1,), NOTHING, return_indices)


def global_rank(x: Tensor) -> int:
    """The spatial rank of a batch: that of global pooling is not in its name."""
    if x.dim() not in (3, 4, 5):
        raise ValueError(f"input must have 3 to 5 axes, (N, C, *spatial), got shape {tuple(x.shape)}")
    return x.dim() - 2
