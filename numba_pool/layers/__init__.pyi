# Written by tests/typing/stubs.py: edit that.
from typing import Any, Generic, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from ..functional import (
    _F,
    _T,
    _AnyIndices,
    _Exact2,
    _Exact3,
    _Float,
    _FloatLike,
    _Indices,
    _Int,
    _Integers,
    _Like,
    _Mask,
    _Nested,
    _Output1,
    _Output2,
    _Output3,
    _Padding1,
    _Padding2,
    _Padding3,
    _Policy,
    _Ratio2,
    _Ratio3,
    _Seed,
    _Shape,
    _Size1,
    _Size2,
    _Size3,
    _Stride1,
    _Stride2,
    _Stride3,
    _Unpooled1,
    _Unpooled2,
    _Unpooled3,
)

# Whether forward returns indices, too.
_Indexed = TypeVar("_Indexed", bound=bool, default=Literal[False])

class Layer:
    training: bool
    channel_axis: int | None
    def train(self, mode: bool = True) -> Self: ...
    def eval(self) -> Self: ...
    def parameters(self) -> list[NDArray[Any]]: ...

class _Average(Layer):
    @overload
    def forward(self, x: NDArray[_T], *, where: _Mask | None = None) -> NDArray[_T]: ...
    @overload
    def forward(self, x: _Like, *, where: _Mask | None = None) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: NDArray[_T], *, where: _Mask | None = None) -> NDArray[_T]: ...
    @overload
    def __call__(self, x: _Like, *, where: _Mask | None = None) -> NDArray[Any]: ...
    @overload
    def backward(self, grad_output: NDArray[_T]) -> NDArray[_T]: ...
    @overload
    def backward(self, grad_output: _Like) -> NDArray[Any]: ...

class _FloatPool(Layer):
    @overload
    def forward(self, x: NDArray[_F]) -> NDArray[_F]: ...
    @overload
    def forward(self, x: _FloatLike) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: NDArray[_F]) -> NDArray[_F]: ...
    @overload
    def __call__(self, x: _FloatLike) -> NDArray[Any]: ...
    @overload
    def backward(self, grad_output: NDArray[_F]) -> NDArray[_F]: ...
    @overload
    def backward(self, grad_output: _FloatLike) -> NDArray[Any]: ...

class _Maximum(Layer, Generic[_Indexed]):
    return_indices: bool
    @overload
    def forward(self: _Maximum[Literal[False]], x: NDArray[_T], *, where: _Mask | None = None) -> NDArray[_T]: ...
    @overload
    def forward(self: _Maximum[Literal[False]], x: _Like, *, where: _Mask | None = None) -> NDArray[Any]: ...
    @overload
    def forward(
        self: _Maximum[Literal[True]],
        x: NDArray[_T],
        *,
        where: _Mask | None = None,
    ) -> tuple[NDArray[_T], _Indices]: ...
    @overload
    def forward(
        self: _Maximum[Literal[True]],
        x: _Like,
        *,
        where: _Mask | None = None,
    ) -> tuple[NDArray[Any], _Indices]: ...
    @overload
    def forward(
        self: _Maximum[bool],
        x: NDArray[_T],
        *,
        where: _Mask | None = None,
    ) -> NDArray[_T] | tuple[NDArray[_T], _Indices]: ...
    @overload
    def forward(
        self: _Maximum[bool],
        x: _Like,
        *,
        where: _Mask | None = None,
    ) -> NDArray[Any] | tuple[NDArray[Any], _Indices]: ...
    @overload
    def __call__(self: _Maximum[Literal[False]], x: NDArray[_T], *, where: _Mask | None = None) -> NDArray[_T]: ...
    @overload
    def __call__(self: _Maximum[Literal[False]], x: _Like, *, where: _Mask | None = None) -> NDArray[Any]: ...
    @overload
    def __call__(
        self: _Maximum[Literal[True]],
        x: NDArray[_T],
        *,
        where: _Mask | None = None,
    ) -> tuple[NDArray[_T], _Indices]: ...
    @overload
    def __call__(
        self: _Maximum[Literal[True]],
        x: _Like,
        *,
        where: _Mask | None = None,
    ) -> tuple[NDArray[Any], _Indices]: ...
    @overload
    def __call__(
        self: _Maximum[bool],
        x: NDArray[_T],
        *,
        where: _Mask | None = None,
    ) -> NDArray[_T] | tuple[NDArray[_T], _Indices]: ...
    @overload
    def __call__(
        self: _Maximum[bool],
        x: _Like,
        *,
        where: _Mask | None = None,
    ) -> NDArray[Any] | tuple[NDArray[Any], _Indices]: ...
    @overload
    def backward(self, grad_output: NDArray[_T]) -> NDArray[_T]: ...
    @overload
    def backward(self, grad_output: _Like) -> NDArray[Any]: ...

class _Unpool(Layer):
    @overload
    def forward(
        self,
        x: NDArray[_T],
        indices: _AnyIndices,
        output_size: _Shape | _Int | None = None,
    ) -> NDArray[_T]: ...
    @overload
    def forward(self, x: _Like, indices: _AnyIndices, output_size: _Shape | _Int | None = None) -> NDArray[Any]: ...
    @overload
    def __call__(
        self,
        x: NDArray[_T],
        indices: _AnyIndices,
        output_size: _Shape | _Int | None = None,
    ) -> NDArray[_T]: ...
    @overload
    def __call__(self, x: _Like, indices: _AnyIndices, output_size: _Shape | _Int | None = None) -> NDArray[Any]: ...
    @overload
    def backward(self, grad_output: NDArray[_T]) -> NDArray[_T]: ...
    @overload
    def backward(self, grad_output: _Like) -> NDArray[Any]: ...

class _Segments(Layer):
    @overload
    def forward(self, x: NDArray[_T], offsets: _Integers, *, where: _Mask | None = None) -> NDArray[_T]: ...
    @overload
    def forward(self, x: _Like, offsets: _Integers, *, where: _Mask | None = None) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: NDArray[_T], offsets: _Integers, *, where: _Mask | None = None) -> NDArray[_T]: ...
    @overload
    def __call__(self, x: _Like, offsets: _Integers, *, where: _Mask | None = None) -> NDArray[Any]: ...
    @overload
    def backward(self, grad_output: NDArray[_T]) -> NDArray[_T]: ...
    @overload
    def backward(self, grad_output: _Like) -> NDArray[Any]: ...

class _SegmentMaximum(Layer, Generic[_Indexed]):
    return_indices: bool
    @overload
    def forward(
        self: _SegmentMaximum[Literal[False]],
        x: NDArray[_T],
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> NDArray[_T]: ...
    @overload
    def forward(
        self: _SegmentMaximum[Literal[False]],
        x: _Like,
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> NDArray[Any]: ...
    @overload
    def forward(
        self: _SegmentMaximum[Literal[True]],
        x: NDArray[_T],
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> tuple[NDArray[_T], _Indices]: ...
    @overload
    def forward(
        self: _SegmentMaximum[Literal[True]],
        x: _Like,
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> tuple[NDArray[Any], _Indices]: ...
    @overload
    def forward(
        self: _SegmentMaximum[bool],
        x: NDArray[_T],
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> NDArray[_T] | tuple[NDArray[_T], _Indices]: ...
    @overload
    def forward(
        self: _SegmentMaximum[bool],
        x: _Like,
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> NDArray[Any] | tuple[NDArray[Any], _Indices]: ...
    @overload
    def __call__(
        self: _SegmentMaximum[Literal[False]],
        x: NDArray[_T],
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> NDArray[_T]: ...
    @overload
    def __call__(
        self: _SegmentMaximum[Literal[False]],
        x: _Like,
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self: _SegmentMaximum[Literal[True]],
        x: NDArray[_T],
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> tuple[NDArray[_T], _Indices]: ...
    @overload
    def __call__(
        self: _SegmentMaximum[Literal[True]],
        x: _Like,
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> tuple[NDArray[Any], _Indices]: ...
    @overload
    def __call__(
        self: _SegmentMaximum[bool],
        x: NDArray[_T],
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> NDArray[_T] | tuple[NDArray[_T], _Indices]: ...
    @overload
    def __call__(
        self: _SegmentMaximum[bool],
        x: _Like,
        offsets: _Integers,
        *,
        where: _Mask | None = None,
    ) -> NDArray[Any] | tuple[NDArray[Any], _Indices]: ...
    @overload
    def backward(self, grad_output: NDArray[_T]) -> NDArray[_T]: ...
    @overload
    def backward(self, grad_output: _Like) -> NDArray[Any]: ...

class MaxPool1d(_Maximum[_Indexed]):
    kernel_size: _Size1
    stride: _Stride1
    padding: _Padding1
    dilation: _Size1
    ceil_mode: bool
    nan_policy: _Policy
    @overload
    def __init__(
        self: MaxPool1d[Literal[False]],
        kernel_size: _Size1,
        stride: _Stride1 = None,
        padding: _Padding1 = 0,
        *,
        dilation: _Size1 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MaxPool1d[Literal[True]],
        kernel_size: _Size1,
        stride: _Stride1 = None,
        padding: _Padding1 = 0,
        *,
        dilation: _Size1 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MaxPool1d[bool],
        kernel_size: _Size1,
        stride: _Stride1 = None,
        padding: _Padding1 = 0,
        *,
        dilation: _Size1 = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...

class MinPool1d(_Maximum[_Indexed]):
    kernel_size: _Size1
    stride: _Stride1
    padding: _Padding1
    dilation: _Size1
    ceil_mode: bool
    nan_policy: _Policy
    @overload
    def __init__(
        self: MinPool1d[Literal[False]],
        kernel_size: _Size1,
        stride: _Stride1 = None,
        padding: _Padding1 = 0,
        *,
        dilation: _Size1 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MinPool1d[Literal[True]],
        kernel_size: _Size1,
        stride: _Stride1 = None,
        padding: _Padding1 = 0,
        *,
        dilation: _Size1 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MinPool1d[bool],
        kernel_size: _Size1,
        stride: _Stride1 = None,
        padding: _Padding1 = 0,
        *,
        dilation: _Size1 = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...

class AvgPool1d(_Average):
    kernel_size: _Size1
    stride: _Stride1
    padding: _Padding1
    ceil_mode: bool
    count_include_pad: bool
    divisor_override: _Float | None
    dilation: _Size1
    nan_policy: _Policy
    min_count: _Int | None
    def __init__(
        self,
        kernel_size: _Size1,
        stride: _Stride1 = None,
        padding: _Padding1 = 0,
        *,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: _Float | None = None,
        dilation: _Size1 = 1,
        nan_policy: _Policy = "propagate",
        min_count: _Int | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class SumPool1d(_Average):
    kernel_size: _Size1
    stride: _Stride1
    padding: _Padding1
    ceil_mode: bool
    dilation: _Size1
    nan_policy: _Policy
    min_count: _Int | None
    def __init__(
        self,
        kernel_size: _Size1,
        stride: _Stride1 = None,
        padding: _Padding1 = 0,
        *,
        ceil_mode: bool = False,
        dilation: _Size1 = 1,
        nan_policy: _Policy = "propagate",
        min_count: _Int | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class LPPool1d(_FloatPool):
    norm_type: _Float
    kernel_size: _Size1
    stride: _Stride1
    padding: _Padding1
    ceil_mode: bool
    dilation: _Size1
    def __init__(
        self,
        norm_type: _Float,
        kernel_size: _Size1,
        stride: _Stride1 = None,
        padding: _Padding1 = 0,
        *,
        ceil_mode: bool = False,
        dilation: _Size1 = 1,
        channel_axis: int | None = None,
    ) -> None: ...

class AdaptiveMaxPool1d(_Maximum[_Indexed]):
    output_size: _Output1
    nan_policy: _Policy
    @overload
    def __init__(
        self: AdaptiveMaxPool1d[Literal[False]],
        output_size: _Output1,
        *,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: AdaptiveMaxPool1d[Literal[True]],
        output_size: _Output1,
        *,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: AdaptiveMaxPool1d[bool],
        output_size: _Output1,
        *,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...

class AdaptiveAvgPool1d(_Average):
    output_size: _Output1
    nan_policy: _Policy
    min_count: _Int | None
    def __init__(
        self,
        output_size: _Output1,
        *,
        nan_policy: _Policy = "propagate",
        min_count: _Int | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class MaxUnpool1d(_Unpool):
    kernel_size: _Size1
    stride: _Stride1
    padding: _Size1
    output_size: _Unpooled1 | None
    def __init__(
        self,
        kernel_size: _Size1,
        stride: _Stride1 = None,
        padding: _Size1 = 0,
        *,
        output_size: _Unpooled1 | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class MaxPool2d(_Maximum[_Indexed]):
    kernel_size: _Size2
    stride: _Stride2
    padding: _Padding2
    dilation: _Size2
    ceil_mode: bool
    nan_policy: _Policy
    @overload
    def __init__(
        self: MaxPool2d[Literal[False]],
        kernel_size: _Size2,
        stride: _Stride2 = None,
        padding: _Padding2 = 0,
        *,
        dilation: _Size2 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MaxPool2d[Literal[True]],
        kernel_size: _Size2,
        stride: _Stride2 = None,
        padding: _Padding2 = 0,
        *,
        dilation: _Size2 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MaxPool2d[bool],
        kernel_size: _Size2,
        stride: _Stride2 = None,
        padding: _Padding2 = 0,
        *,
        dilation: _Size2 = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...

class MinPool2d(_Maximum[_Indexed]):
    kernel_size: _Size2
    stride: _Stride2
    padding: _Padding2
    dilation: _Size2
    ceil_mode: bool
    nan_policy: _Policy
    @overload
    def __init__(
        self: MinPool2d[Literal[False]],
        kernel_size: _Size2,
        stride: _Stride2 = None,
        padding: _Padding2 = 0,
        *,
        dilation: _Size2 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MinPool2d[Literal[True]],
        kernel_size: _Size2,
        stride: _Stride2 = None,
        padding: _Padding2 = 0,
        *,
        dilation: _Size2 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MinPool2d[bool],
        kernel_size: _Size2,
        stride: _Stride2 = None,
        padding: _Padding2 = 0,
        *,
        dilation: _Size2 = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...

class AvgPool2d(_Average):
    kernel_size: _Size2
    stride: _Stride2
    padding: _Padding2
    ceil_mode: bool
    count_include_pad: bool
    divisor_override: _Float | None
    dilation: _Size2
    nan_policy: _Policy
    min_count: _Int | None
    def __init__(
        self,
        kernel_size: _Size2,
        stride: _Stride2 = None,
        padding: _Padding2 = 0,
        *,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: _Float | None = None,
        dilation: _Size2 = 1,
        nan_policy: _Policy = "propagate",
        min_count: _Int | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class SumPool2d(_Average):
    kernel_size: _Size2
    stride: _Stride2
    padding: _Padding2
    ceil_mode: bool
    dilation: _Size2
    nan_policy: _Policy
    min_count: _Int | None
    def __init__(
        self,
        kernel_size: _Size2,
        stride: _Stride2 = None,
        padding: _Padding2 = 0,
        *,
        ceil_mode: bool = False,
        dilation: _Size2 = 1,
        nan_policy: _Policy = "propagate",
        min_count: _Int | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class LPPool2d(_FloatPool):
    norm_type: _Float
    kernel_size: _Size2
    stride: _Stride2
    padding: _Padding2
    ceil_mode: bool
    dilation: _Size2
    def __init__(
        self,
        norm_type: _Float,
        kernel_size: _Size2,
        stride: _Stride2 = None,
        padding: _Padding2 = 0,
        *,
        ceil_mode: bool = False,
        dilation: _Size2 = 1,
        channel_axis: int | None = None,
    ) -> None: ...

class AdaptiveMaxPool2d(_Maximum[_Indexed]):
    output_size: _Output2
    nan_policy: _Policy
    @overload
    def __init__(
        self: AdaptiveMaxPool2d[Literal[False]],
        output_size: _Output2,
        *,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: AdaptiveMaxPool2d[Literal[True]],
        output_size: _Output2,
        *,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: AdaptiveMaxPool2d[bool],
        output_size: _Output2,
        *,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...

class AdaptiveAvgPool2d(_Average):
    output_size: _Output2
    nan_policy: _Policy
    min_count: _Int | None
    def __init__(
        self,
        output_size: _Output2,
        *,
        nan_policy: _Policy = "propagate",
        min_count: _Int | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class FractionalMaxPool2d(_Maximum[_Indexed]):
    kernel_size: _Exact2
    output_size: _Exact2 | None
    output_ratio: _Ratio2 | None
    random_samples: NDArray[np.floating[Any]] | _Nested | None
    rng: _Seed | None
    @overload
    def __init__(
        self: FractionalMaxPool2d[Literal[False]],
        kernel_size: _Exact2,
        output_size: _Exact2 | None = None,
        *,
        output_ratio: _Ratio2 | None = None,
        return_indices: Literal[False] = False,
        random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
        rng: _Seed | None = None,
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: FractionalMaxPool2d[Literal[True]],
        kernel_size: _Exact2,
        output_size: _Exact2 | None = None,
        *,
        output_ratio: _Ratio2 | None = None,
        return_indices: Literal[True],
        random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
        rng: _Seed | None = None,
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: FractionalMaxPool2d[bool],
        kernel_size: _Exact2,
        output_size: _Exact2 | None = None,
        *,
        output_ratio: _Ratio2 | None = None,
        return_indices: bool = False,
        random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
        rng: _Seed | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class MaxUnpool2d(_Unpool):
    kernel_size: _Size2
    stride: _Stride2
    padding: _Size2
    output_size: _Unpooled2 | None
    def __init__(
        self,
        kernel_size: _Size2,
        stride: _Stride2 = None,
        padding: _Size2 = 0,
        *,
        output_size: _Unpooled2 | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class MaxPool3d(_Maximum[_Indexed]):
    kernel_size: _Size3
    stride: _Stride3
    padding: _Padding3
    dilation: _Size3
    ceil_mode: bool
    nan_policy: _Policy
    @overload
    def __init__(
        self: MaxPool3d[Literal[False]],
        kernel_size: _Size3,
        stride: _Stride3 = None,
        padding: _Padding3 = 0,
        *,
        dilation: _Size3 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MaxPool3d[Literal[True]],
        kernel_size: _Size3,
        stride: _Stride3 = None,
        padding: _Padding3 = 0,
        *,
        dilation: _Size3 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MaxPool3d[bool],
        kernel_size: _Size3,
        stride: _Stride3 = None,
        padding: _Padding3 = 0,
        *,
        dilation: _Size3 = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...

class MinPool3d(_Maximum[_Indexed]):
    kernel_size: _Size3
    stride: _Stride3
    padding: _Padding3
    dilation: _Size3
    ceil_mode: bool
    nan_policy: _Policy
    @overload
    def __init__(
        self: MinPool3d[Literal[False]],
        kernel_size: _Size3,
        stride: _Stride3 = None,
        padding: _Padding3 = 0,
        *,
        dilation: _Size3 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MinPool3d[Literal[True]],
        kernel_size: _Size3,
        stride: _Stride3 = None,
        padding: _Padding3 = 0,
        *,
        dilation: _Size3 = 1,
        ceil_mode: bool = False,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: MinPool3d[bool],
        kernel_size: _Size3,
        stride: _Stride3 = None,
        padding: _Padding3 = 0,
        *,
        dilation: _Size3 = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...

class AvgPool3d(_Average):
    kernel_size: _Size3
    stride: _Stride3
    padding: _Padding3
    ceil_mode: bool
    count_include_pad: bool
    divisor_override: _Float | None
    dilation: _Size3
    nan_policy: _Policy
    min_count: _Int | None
    def __init__(
        self,
        kernel_size: _Size3,
        stride: _Stride3 = None,
        padding: _Padding3 = 0,
        *,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: _Float | None = None,
        dilation: _Size3 = 1,
        nan_policy: _Policy = "propagate",
        min_count: _Int | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class SumPool3d(_Average):
    kernel_size: _Size3
    stride: _Stride3
    padding: _Padding3
    ceil_mode: bool
    dilation: _Size3
    nan_policy: _Policy
    min_count: _Int | None
    def __init__(
        self,
        kernel_size: _Size3,
        stride: _Stride3 = None,
        padding: _Padding3 = 0,
        *,
        ceil_mode: bool = False,
        dilation: _Size3 = 1,
        nan_policy: _Policy = "propagate",
        min_count: _Int | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class LPPool3d(_FloatPool):
    norm_type: _Float
    kernel_size: _Size3
    stride: _Stride3
    padding: _Padding3
    ceil_mode: bool
    dilation: _Size3
    def __init__(
        self,
        norm_type: _Float,
        kernel_size: _Size3,
        stride: _Stride3 = None,
        padding: _Padding3 = 0,
        *,
        ceil_mode: bool = False,
        dilation: _Size3 = 1,
        channel_axis: int | None = None,
    ) -> None: ...

class AdaptiveMaxPool3d(_Maximum[_Indexed]):
    output_size: _Output3
    nan_policy: _Policy
    @overload
    def __init__(
        self: AdaptiveMaxPool3d[Literal[False]],
        output_size: _Output3,
        *,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: AdaptiveMaxPool3d[Literal[True]],
        output_size: _Output3,
        *,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: AdaptiveMaxPool3d[bool],
        output_size: _Output3,
        *,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...

class AdaptiveAvgPool3d(_Average):
    output_size: _Output3
    nan_policy: _Policy
    min_count: _Int | None
    def __init__(
        self,
        output_size: _Output3,
        *,
        nan_policy: _Policy = "propagate",
        min_count: _Int | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class FractionalMaxPool3d(_Maximum[_Indexed]):
    kernel_size: _Exact3
    output_size: _Exact3 | None
    output_ratio: _Ratio3 | None
    random_samples: NDArray[np.floating[Any]] | _Nested | None
    rng: _Seed | None
    @overload
    def __init__(
        self: FractionalMaxPool3d[Literal[False]],
        kernel_size: _Exact3,
        output_size: _Exact3 | None = None,
        *,
        output_ratio: _Ratio3 | None = None,
        return_indices: Literal[False] = False,
        random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
        rng: _Seed | None = None,
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: FractionalMaxPool3d[Literal[True]],
        kernel_size: _Exact3,
        output_size: _Exact3 | None = None,
        *,
        output_ratio: _Ratio3 | None = None,
        return_indices: Literal[True],
        random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
        rng: _Seed | None = None,
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: FractionalMaxPool3d[bool],
        kernel_size: _Exact3,
        output_size: _Exact3 | None = None,
        *,
        output_ratio: _Ratio3 | None = None,
        return_indices: bool = False,
        random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
        rng: _Seed | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class MaxUnpool3d(_Unpool):
    kernel_size: _Size3
    stride: _Stride3
    padding: _Size3
    output_size: _Unpooled3 | None
    def __init__(
        self,
        kernel_size: _Size3,
        stride: _Stride3 = None,
        padding: _Size3 = 0,
        *,
        output_size: _Unpooled3 | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class GlobalMaxPool(_Maximum[_Indexed]):
    nan_policy: _Policy
    @overload
    def __init__(
        self: GlobalMaxPool[Literal[False]],
        *,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: GlobalMaxPool[Literal[True]],
        *,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: GlobalMaxPool[bool],
        *,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...

class GlobalMinPool(_Maximum[_Indexed]):
    nan_policy: _Policy
    @overload
    def __init__(
        self: GlobalMinPool[Literal[False]],
        *,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: GlobalMinPool[Literal[True]],
        *,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: GlobalMinPool[bool],
        *,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
        channel_axis: int | None = None,
    ) -> None: ...

class GlobalAvgPool(_Average):
    nan_policy: _Policy
    min_count: _Int | None
    def __init__(
        self,
        *,
        nan_policy: _Policy = "propagate",
        min_count: _Int | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class GlobalSumPool(_Average):
    nan_policy: _Policy
    min_count: _Int | None
    def __init__(
        self,
        *,
        nan_policy: _Policy = "propagate",
        min_count: _Int | None = None,
        channel_axis: int | None = None,
    ) -> None: ...

class SegmentMaxPool(_SegmentMaximum[_Indexed]):
    nan_policy: _Policy
    @overload
    def __init__(
        self: SegmentMaxPool[Literal[False]],
        *,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
    ) -> None: ...
    @overload
    def __init__(
        self: SegmentMaxPool[Literal[True]],
        *,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
    ) -> None: ...
    @overload
    def __init__(
        self: SegmentMaxPool[bool],
        *,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
    ) -> None: ...

class SegmentMinPool(_SegmentMaximum[_Indexed]):
    nan_policy: _Policy
    @overload
    def __init__(
        self: SegmentMinPool[Literal[False]],
        *,
        return_indices: Literal[False] = False,
        nan_policy: _Policy = "propagate",
    ) -> None: ...
    @overload
    def __init__(
        self: SegmentMinPool[Literal[True]],
        *,
        return_indices: Literal[True],
        nan_policy: _Policy = "propagate",
    ) -> None: ...
    @overload
    def __init__(
        self: SegmentMinPool[bool],
        *,
        return_indices: bool = False,
        nan_policy: _Policy = "propagate",
    ) -> None: ...

class SegmentAvgPool(_Segments):
    nan_policy: _Policy
    def __init__(self, *, nan_policy: _Policy = "propagate") -> None: ...

class SegmentSumPool(_Segments):
    nan_policy: _Policy
    def __init__(self, *, nan_policy: _Policy = "propagate") -> None: ...
