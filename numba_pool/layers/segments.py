"""Ragged batches: segments of rows, of other lengths at every call."""

from __future__ import annotations  # help() shows them by name

from typing import Any

from numpy.typing import ArrayLike

from .._arrays import Array, ndarray
from .._dispatch.calls import check_bool
from ..functional._missing import is_omitted
from ._layer import Layer, Result, given


class _Segments(Layer):
    channel_axis = None

    def _save(self, x: Array, y: Array, what: Any) -> None:
        self._saved = y.shape, 0, what  # rows have no memory order
        self._forwards, self._used = self._forwards + 1, False


class _SegmentMaxPool(_Segments):
    return_indices: bool
    nan_policy: str

    def __init__(self, *, return_indices: bool = False, nan_policy: str = "propagate") -> None:
        super().__init__(**given(locals()))

    def _check(self) -> None:
        check_bool(self.return_indices, "return_indices")
        is_omitted(self.nan_policy)

    def forward(self, x: ArrayLike, offsets: ArrayLike, *,  # type: ignore[override]
                where: ArrayLike | None = None) -> Result:
        """Pool the segments of `x`, without the elements where a mask is False; in training mode, keep the indices of
        what won.
        """
        if not self.training:
            result: Result = self._pool(x, offsets, **self._arguments, where=where)
            return result
        x = ndarray(x, "x")
        y, indices = self._pool(x, offsets, **{**self._arguments, "return_indices": True}, where=where)
        self._save(x, y, (indices, x.shape))
        return (y, indices) if self.return_indices else y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to `x`: each upstream element at the row that won its segment."""
        grad_output = ndarray(grad_output, "grad_output")
        return self._used_up(self._pool_backward(grad_output, *self._kept(grad_output)))


class _SegmentAvgPool(_Segments):
    nan_policy: str

    _integers = False

    def __init__(self, *, nan_policy: str = "propagate") -> None:
        super().__init__(**given(locals()))

    def _check(self) -> None:
        is_omitted(self.nan_policy)

    def forward(self, x: ArrayLike, offsets: ArrayLike, *,  # type: ignore[override]
                where: ArrayLike | None = None) -> Array:
        """Pool the segments of `x`, without the elements where a mask is False. In training mode, keep a copy of the
        offsets, and the shape; and if elements may be missing, `x` and the mask (not copies: do not change them before
        `backward`).
        """
        x, offsets = ndarray(x, "x"), ndarray(offsets, "offsets")
        y: Array = self._pool(x, offsets, **self._arguments, where=where)
        if self.training:
            more = {"where": where, "x": x if is_omitted(self.nan_policy) else None}
            self._save(x, y, ((offsets.copy(), x.shape), more))
        return y

    def backward(self, grad_output: ArrayLike) -> Array:
        """The gradient with respect to `x`: each upstream element, spread over the rows of its segment."""
        grad_output = ndarray(grad_output, "grad_output")
        rows, more = self._kept(grad_output)
        return self._used_up(self._pool_backward(grad_output, *rows, **self._arguments, **more))


class SegmentMaxPool(_SegmentMaxPool, function="segment_max_pool"): ...
class SegmentMinPool(_SegmentMaxPool, function="segment_min_pool"): ...
class SegmentAvgPool(_SegmentAvgPool, function="segment_avg_pool"): ...
class SegmentSumPool(_SegmentAvgPool, function="segment_sum_pool"): ...
