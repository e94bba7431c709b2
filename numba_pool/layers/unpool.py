"""Elements put back where a maximum was found."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from numpy.typing import ArrayLike

from .. import _arguments as checks
from .._arrays import Array, ndarray
from ._layer import Layer, Size, given


class _MaxUnpool(Layer):
    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0, *,
                 output_size: Size | None = None, channel_axis: int | None = None) -> None:
        super().__init__(**given(locals()))

    def _check(self) -> None:
        arguments: Any = self
        rank, size = self._rank, arguments.output_size
        checks.strides(arguments.stride, rank, checks.sizes(arguments.kernel_size, rank, "kernel_size"))
        checks.sizes(arguments.padding, rank, "padding", least=0)
        if size is None:
            return
        entries = size if isinstance(size, (tuple, list)) else (size,) * rank
        if len(entries) not in (rank, rank + 1, rank + 2):
            raise ValueError(f"output_size must have {rank} entries (or batch and channels too), got {size!r}")
        checks.sizes(tuple(entries[-rank:]), rank, "output_size")
        checks.sizes(tuple(entries[:-rank]), len(entries) - rank, "output_size", least=0)

    def forward(self, x: ArrayLike, indices: ArrayLike,  # type: ignore[override]
                output_size: Size | None = None) -> Array:
        """Put every element of `x` at its index; an `output_size` given here goes before the constructor's."""
        arguments = self._arguments
        if output_size is not None:
            arguments["output_size"] = output_size
        x, indices = ndarray(x, "x"), ndarray(indices, "indices")
        y: Array = self._pool(x, indices, **arguments)
        if self.training:
            self._save(x, y, indices)
        return y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to `x`: the upstream elements at its indices."""
        grad_output = ndarray(grad_output, "grad_output")
        return self._used_up(self._pool_backward(grad_output, self._kept(grad_output), **self._axis))


class MaxUnpool1d(_MaxUnpool, function="max_unpool1d"): ...
class MaxUnpool2d(_MaxUnpool, function="max_unpool2d"): ...
class MaxUnpool3d(_MaxUnpool, function="max_unpool3d"): ...
