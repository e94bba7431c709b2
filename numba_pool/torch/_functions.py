"""Maxima and averages as functions of tensors, under the names and signatures of `torch.nn.functional`."""

from __future__ import annotations  # help() shows them by name

from typing import Any

import torch
from torch import Tensor

from ._autograd import at_once
from ._missing import pooled_present
from ._ops import traced
from ._own import NOTHING, Proxy, by_torch, recorded
from ._pools import POOLS, Pool, beyond_torch
from ._small import ASKERS
from ._tensors import CORE, TORCH, plain, route

REFUSALS = (ValueError, TypeError)  # of the core


def widened(x: Tensor) -> Tensor:
    """The input as CPU autocast, where it is on, hands it to operations that it computes in float32."""
    if torch.is_autocast_enabled("cpu") and x.dtype is not torch.float64 and x.is_floating_point():
        return x.float()
    return x


def pooled(pool: Pool, x: Any, arguments: tuple[Any, ...], more: dict[str, Any] = NOTHING,
           return_indices: bool = False) -> Any:
    """A maximum or an average: by torch, if the call is small, or else as `computed` says."""
    if not more and ASKERS[pool.name](x, arguments):
        return pool.own(x, *arguments, return_indices) if pool.indexed else pool.own(x, *arguments)
    return computed(pool, x, arguments, more, return_indices)


def computed(pool: Pool, x: Any, arguments: tuple[Any, ...], more: dict[str, Any] = NOTHING,
             return_indices: bool = False) -> Any:
    """A maximum or an average that is not small: by the core, by an operator, or by torch.

    What the core refuses goes to torch, which refuses it in its own words, or computes it.
    """
    way = route(x)
    if way is not TORCH:
        compute = at_once if way is CORE else traced
        try:
            result = compute(pool, widened(x) if pool.single else x, arguments, more, return_indices)
            return formatted(pool, result) if pool.plain else result
        except REFUSALS:
            if beyond_torch(arguments, more):
                raise
    elif beyond_torch(arguments, more) and not isinstance(x, Proxy):
        raise NotImplementedError(f"{pool.name} with dilation of averages, pairs of padding or 'same' takes dense "
                                  "tensors on the CPU, and no forward mode: torch itself has no such pooling")
    return by_torch(pool, x, arguments, {**more, "return_indices": return_indices} if pool.indexed else more)


def without_missing(pool: Pool, x: Any, arguments: tuple[Any, ...], more: dict[str, Any], missing: dict[str, Any],
                    return_indices: bool = False) -> Any:
    """A maximum or an average of the elements that are there. `missing` are the keywords that say which ones."""
    if isinstance(x, Proxy):
        others = {"return_indices": return_indices} if pool.indexed else {}
        return recorded(pool.name, x, *arguments, **more, **others, **missing)
    result = pooled_present(pool, widened(x) if pool.single else x, arguments, more, return_indices, **missing)
    return formatted(pool, result) if pool.plain else result


def formatted(pool: Pool, result: Any) -> Any:
    """A result in plain memory, as torch has it there; but global averages keep the strides of channels last."""
    if isinstance(result, tuple):
        return tuple(map(plain, result))
    if pool.name == "adaptive_avg_pool3d" and result.shape[-3:].numel() == 1:
        return result
    return plain(result)


def named(function: Any, rank: int) -> Any:
    """The function made for one spatial rank with its public name and the rank in its docstring."""
    function.__name__ = function.__qualname__ = f"{function.__name__}{rank}d"
    function.__module__ = "numba_pool.torch"
    function.__doc__ = (function.__doc__ or "").replace("{d}", f"{rank}d").replace(
        "{spatial}", ("L", "H, W", "D, H, W")[rank - 1]
    ).replace("{rank}", str(rank))
    return function


def _max(rank: int) -> Any:
    pool = POOLS[f"max_pool{rank}d"]

    def max_pool(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                 ceil_mode: bool = False, return_indices: bool = False, *, nan_policy: str = "propagate",
                 where: Tensor | None = None) -> Any:
        """`torch.nn.functional.max_pool{d}`, computed by numba_pool: same arguments, same values bit for bit.

        Parameters
        ----------
        input : Tensor, shape (N, C, {spatial}) or (C, {spatial})
            float32, float64, float16, bfloat16 or any integer type, on the CPU; torch itself pools any other.
        kernel_size : int or one int per spatial axis
            How long a window is along each axis.
        stride : int or one int per spatial axis, optional
            How far one window is from the next. None stands for the kernel size.
        padding : int or one int per spatial axis
            Beyond torch: also a (before, after) pair per axis, 'same' or 'same_lower'.
        dilation : int or one int per spatial axis
            How far one element of a window is from the next.
        ceil_mode : bool
            Keep a last window that hangs over the end.
        return_indices : bool
            Return ``(output, indices)``, the indices as int64.
        nan_policy : 'propagate' or 'omit'
            Beyond torch: whether NaN wins, or is missing as if it lay outside of the image.
        where : bool Tensor, optional
            Beyond torch: elements are missing where it is False. It broadcasts against `input`.

        Returns
        -------
        Tensor, or (Tensor, Tensor)
            In channels-last memory where the input is.

        Raises
        ------
        RuntimeError, ValueError, TypeError
            For arguments out of range, as torch.
        NotImplementedError
            For padding and missing elements, which torch has not, where numba_pool cannot compute: other devices,
            forward mode.

        Notes
        -----
        A window without any valid element, possible with dilation and padding, has the index -1 and no gradient. Torch
        gives it an index outside of the plane, and writes there in backward.

        Small calls go to torch, which takes less time for them: `report` names the sizes. So for averages.

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import max_pool{d}
        >>> max_pool{d}(torch.rand(2, 3, *[8] * {rank}), 2).shape[:3]
        torch.Size([2, 3, 4])
        """
        arguments = kernel_size, stride, padding, dilation, ceil_mode
        if where is not None or nan_policy != "propagate":
            missing = {"nan_policy": nan_policy, "where": where}
            return without_missing(pool, input, arguments, NOTHING, missing, return_indices)
        return pooled(pool, input, arguments, NOTHING, return_indices)

    return named(max_pool, rank)


def _avg(rank: int) -> Any:
    pool, undilated = POOLS[f"avg_pool{rank}d"], (1, (1,) * rank)

    def avg_pool(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None, *, dilation: Any = 1,
                 nan_policy: str = "propagate", where: Tensor | None = None, min_count: int | None = None) -> Tensor:
        """`torch.nn.functional.avg_pool{d}`, computed by numba_pool: same arguments, same values but for rounding.

        Parameters
        ----------
        input : Tensor, shape (N, C, {spatial}) or (C, {spatial})
            float32, float64, float16, bfloat16 or any integer type (whose averages truncate toward zero), on the CPU;
            torch itself pools any other.
        kernel_size : int or one int per spatial axis
            How long a window is along each axis.
        stride : int or one int per spatial axis, optional
            How far one window is from the next. None stands for the kernel size.
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
        nan_policy : 'propagate' or 'omit'
            Beyond torch: whether NaN is in the result, or is missing as if it lay outside of the image.
        where : bool Tensor, optional
            Beyond torch: elements are missing where it is False. It broadcasts against `input`.
        min_count : int, optional
            Beyond torch, where elements may be missing: results of fewer are NaN, of integers 0. None stands for 1.

        Returns
        -------
        Tensor
            In channels-last memory where the input is.

        Raises
        ------
        RuntimeError, ValueError, TypeError
            For arguments out of range, as torch.
        NotImplementedError
            For dilation, padding and missing elements that torch has not, where numba_pool cannot compute: other
            devices, forward mode.

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import avg_pool{d}
        >>> avg_pool{d}(torch.ones(2, 3, *[8] * {rank}), 3, padding="same").shape[:3]
        torch.Size([2, 3, 3])
        """
        arguments = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        more = NOTHING if dilation in undilated else {"dilation": dilation}
        if where is not None or nan_policy != "propagate" or min_count is not None:
            missing = {"nan_policy": nan_policy, "where": where, "min_count": min_count}
            return without_missing(pool, input, arguments, more, missing)
        return pooled(pool, input, arguments, more)

    return named(avg_pool, rank)


def _adaptive_max(rank: int) -> Any:
    pool = POOLS[f"adaptive_max_pool{rank}d"]

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False, *,
                          nan_policy: str = "propagate", where: Tensor | None = None) -> Any:
        """`torch.nn.functional.adaptive_max_pool{d}`, computed by numba_pool: same values bit for bit.

        Parameters
        ----------
        input : Tensor, shape (N, C, {spatial}) or (C, {spatial})
            As for `max_pool{d}`.
        output_size : int or None, or one of them per spatial axis
            None keeps an axis.
        return_indices : bool
            Return ``(output, indices)``, the indices as int64.
        nan_policy, where
            As of `max_pool{d}`.

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
        if where is not None or nan_policy != "propagate":
            missing = {"nan_policy": nan_policy, "where": where}
            return without_missing(pool, input, (output_size,), NOTHING, missing, return_indices)
        return pooled(pool, input, (output_size,), NOTHING, return_indices)

    return named(adaptive_max_pool, rank)


def _adaptive_avg(rank: int) -> Any:
    pool = POOLS[f"adaptive_avg_pool{rank}d"]

    def adaptive_avg_pool(input: Tensor, output_size: Any, *, nan_policy: str = "propagate",
                          where: Tensor | None = None, min_count: int | None = None) -> Tensor:
        """`torch.nn.functional.adaptive_avg_pool{d}`, computed by numba_pool: same values but for rounding.

        Parameters
        ----------
        input : Tensor, shape (N, C, {spatial}) or (C, {spatial})
            As for `avg_pool{d}`.
        output_size : int or None, or one of them per spatial axis
            None keeps an axis.
        nan_policy, where, min_count
            As of `avg_pool{d}`.

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
        if where is not None or nan_policy != "propagate" or min_count is not None:
            missing = {"nan_policy": nan_policy, "where": where, "min_count": min_count}
            return without_missing(pool, input, (output_size,), NOTHING, missing)
        return pooled(pool, input, (output_size,))

    return named(adaptive_avg_pool, rank)


max_pool1d, max_pool2d, max_pool3d = map(_max, (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = map(_avg, (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(_adaptive_max, (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_avg, (1, 2, 3))


def _min(rank: int) -> Any:
    pool = POOLS[f"min_pool{rank}d"]

    def min_pool(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                 ceil_mode: bool = False, return_indices: bool = False, *, nan_policy: str = "propagate",
                 where: Tensor | None = None) -> Any:
        """Minimum over sliding windows, which torch has not.

        Parameters
        ----------
        input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, nan_policy, where
            As of `max_pool{d}`.

        Returns
        -------
        Tensor, or (Tensor, Tensor)

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import min_pool{d}
        >>> min_pool{d}(torch.rand(2, 3, *[8] * {rank}), 2).shape[:3]
        torch.Size([2, 3, 4])
        """
        arguments = kernel_size, stride, padding, dilation, ceil_mode
        if where is not None or nan_policy != "propagate":
            missing = {"nan_policy": nan_policy, "where": where}
            return without_missing(pool, input, arguments, NOTHING, missing, return_indices)
        return pooled(pool, input, arguments, NOTHING, return_indices)

    return named(min_pool, rank)


def _sum(rank: int) -> Any:
    pool, undilated = POOLS[f"sum_pool{rank}d"], (1, (1,) * rank)

    def sum_pool(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, *,
                 dilation: Any = 1, nan_policy: str = "propagate", where: Tensor | None = None,
                 min_count: int | None = None) -> Tensor:
        """Sum over sliding windows, which torch has not: sums of integers keep the dtype and wrap around.

        Parameters
        ----------
        input, kernel_size, stride, padding, ceil_mode, dilation, nan_policy, where, min_count
            As of `avg_pool{d}`, but that None stands for 0 as `min_count`.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import torch
        >>> from numba_pool.torch import sum_pool{d}
        >>> sum_pool{d}(torch.ones(2, 3, *[8] * {rank}), 2).shape[:3]
        torch.Size([2, 3, 4])
        """
        arguments = kernel_size, stride, padding, ceil_mode
        more = NOTHING if dilation in undilated else {"dilation": dilation}
        if where is not None or nan_policy != "propagate" or min_count is not None:
            missing = {"nan_policy": nan_policy, "where": where, "min_count": min_count}
            return without_missing(pool, input, arguments, more, missing)
        return pooled(pool, input, arguments, more)

    return named(sum_pool, rank)


min_pool1d, min_pool2d, min_pool3d = map(_min, (1, 2, 3))
sum_pool1d, sum_pool2d, sum_pool3d = map(_sum, (1, 2, 3))


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
    if isinstance(input, Proxy):
        return recorded("global_avg_pool", input)
    return pooled(POOLS[f"adaptive_avg_pool{global_rank(input)}d"], input, (1,))


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
    if isinstance(input, Proxy):
        return recorded("global_max_pool", input, return_indices=return_indices)
    return pooled(POOLS[f"adaptive_max_pool{global_rank(input)}d"], input, (1,), NOTHING, return_indices)


def global_rank(x: Tensor) -> int:
    """The spatial rank of a batch: that of global pooling is not in its name."""
    if x.dim() not in (3, 4, 5):
        raise ValueError(f"input must have 3 to 5 axes, (N, C, *spatial), got shape {tuple(x.shape)}")
    return x.dim() - 2


for _function in (global_avg_pool, global_max_pool):
    _function.__module__ = "numba_pool.torch"
