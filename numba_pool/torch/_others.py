"""Lp pooling, fractional pooling and unpooling. They have no operator: where a call is traced, torch computes."""

from __future__ import annotations  # help() shows them by name

from typing import Any

import torch
from torch import Tensor

from ._autograd import at_once, norm, unpool
from ._functions import REFUSALS, formatted, named, widened
from ._own import by_torch
from ._pools import POOLS
from ._tensors import CORE, array, plain, route

FULL = frozenset({torch.float32, torch.float64})


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
        kernel_size : int or one int per spatial axis
            How long a window is along each axis.
        stride : int or one int per spatial axis, optional
            How far one window is from the next. None stands for the kernel size.
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
        if (route(input) is CORE and input.dtype in FULL and same_norm(norm_type, ceil_mode)
                and not torch.is_autocast_enabled("cpu")):
            try:
                y = norm(pool, input, arguments)
                return plain(y) if pool.plain or y.is_contiguous() else y
            except REFUSALS:
                pass
        return by_torch(pool, input, arguments)

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
                dtype = input.dtype if input.is_floating_point() else torch.float32
                samples = torch.rand(batch, channels, rank, dtype=dtype, device=input.device)
            arguments = kernel_size, output_size, None if output_size is not None else output_ratio
            try:
                return formatted(pool, at_once(pool, widened(input), arguments,
                                               {"random_samples": array(samples, False)}, return_indices))
            except REFUSALS:
                pass
        return by_torch(pool, input, (kernel_size, output_size, output_ratio, return_indices, samples))

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
        kernel_size : int or one int per spatial axis
            As in the pooling that is undone, like the next two.
        stride : int or one int per spatial axis, optional
            None stands for the kernel size.
        padding : int or one int per spatial axis
            Of the pooling that is undone.
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
        if route(input) is CORE and is_index(indices) and not (
            torch.is_autocast_enabled("cpu") and input.is_floating_point()
        ):
            try:
                y = unpool(pool, input, indices, arguments)
                return formatted(pool, y) if pool.plain else y
            except REFUSALS:
                pass
        return by_torch(pool, input, (indices, *arguments))

    return named(max_unpool, rank)


lp_pool1d, lp_pool2d, lp_pool3d = map(_lp, (1, 2, 3))
fractional_max_pool2d, fractional_max_pool3d = map(_fractional, (2, 3))
max_unpool1d, max_unpool2d, max_unpool3d = map(_unpool, (1, 2, 3))
