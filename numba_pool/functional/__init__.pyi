# Written by tests/typing/stubs.py: edit that.
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

# A dtype that is kept. bfloat16 is unknown to type checkers (ml_dtypes calls it a `generic`): call its arrays
# NDArray[Any].
_Real: TypeAlias = np.floating[Any] | np.integer[Any]
_T = TypeVar("_T", bound=_Real)
_F = TypeVar("_F", bound=np.floating[Any])

class _RealArray(Protocol):
    def __array__(self) -> NDArray[_Real]: ...

class _FloatArray(Protocol):
    def __array__(self) -> NDArray[np.floating[Any]]: ...

# Lists of lists of numbers, of as many axes as may be. (Without an end they would be strings, too.)
_Nested1: TypeAlias = Sequence[float]
_Nested2: TypeAlias = Sequence[float | _Nested1]
_Nested3: TypeAlias = Sequence[float | _Nested2]
_Nested4: TypeAlias = Sequence[float | _Nested3]
_Nested: TypeAlias = Sequence[float | _Nested4]
_Like: TypeAlias = _Nested | _RealArray
_FloatLike: TypeAlias = _Nested | _FloatArray
_Int: TypeAlias = SupportsIndex
_Float: TypeAlias = float | _Real
_Indices: TypeAlias = NDArray[np.int32]
_AnyIndices: TypeAlias = NDArray[np.int32 | np.int64] | _Nested
_Shape: TypeAlias = tuple[_Int, ...] | list[int]
_Integers: TypeAlias = NDArray[np.integer[Any]] | Sequence[int]
_Seed: TypeAlias = np.random.Generator | np.random.BitGenerator | np.random.SeedSequence | int | Sequence[int]

_Pair: TypeAlias = tuple[_Int, _Int] | list[int]
_Side: TypeAlias = _Int | _Pair
_Named: TypeAlias = Literal["valid", "same", "same_lower"]
_Kept: TypeAlias = _Int | None
_Policy: TypeAlias = Literal["propagate", "omit"]
_Mask: TypeAlias = NDArray[np.bool_] | Sequence[Any] | bool

_Size1: TypeAlias = _Int | tuple[_Int] | list[int]
_Exact1: TypeAlias = _Int | tuple[_Int] | list[int]
_Stride1: TypeAlias = _Size1 | tuple[()] | None
_Padding1: TypeAlias = _Int | tuple[_Side] | list[int] | list[tuple[int, int]] | _Named
_Output1: TypeAlias = _Int | tuple[_Kept] | list[int] | list[int | None] | None
_Ratio1: TypeAlias = _Float | tuple[_Float] | list[float]
_Unpooled1: TypeAlias = _Exact1 | tuple[_Int, _Int] | tuple[_Int, _Int, _Int]
_Size2: TypeAlias = _Int | tuple[_Int] | tuple[_Int, _Int] | list[int]
_Exact2: TypeAlias = _Int | tuple[_Int, _Int] | list[int]
_Stride2: TypeAlias = _Size2 | tuple[()] | None
_Padding2: TypeAlias = _Int | tuple[_Side] | tuple[_Side, _Side] | list[int] | list[tuple[int, int]] | _Named
_Output2: TypeAlias = _Int | tuple[_Kept] | tuple[_Kept, _Kept] | list[int] | list[int | None] | None
_Ratio2: TypeAlias = _Float | tuple[_Float, _Float] | list[float]
_Unpooled2: TypeAlias = _Exact2 | tuple[_Int, _Int, _Int] | tuple[_Int, _Int, _Int, _Int]
_Size3: TypeAlias = _Int | tuple[_Int] | tuple[_Int, _Int, _Int] | list[int]
_Exact3: TypeAlias = _Int | tuple[_Int, _Int, _Int] | list[int]
_Stride3: TypeAlias = _Size3 | tuple[()] | None
_Padding3: TypeAlias = _Int | tuple[_Side] | tuple[_Side, _Side, _Side] | list[int] | list[tuple[int, int]] | _Named
_Output3: TypeAlias = _Int | tuple[_Kept] | tuple[_Kept, _Kept, _Kept] | list[int] | list[int | None] | None
_Ratio3: TypeAlias = _Float | tuple[_Float, _Float, _Float] | list[float]
_Unpooled3: TypeAlias = _Exact3 | tuple[_Int, _Int, _Int, _Int] | tuple[_Int, _Int, _Int, _Int, _Int]

@overload
def max_pool1d(
    x: NDArray[_T],
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool1d(
    x: NDArray[_T],
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool1d(
    x: NDArray[_T],
    kernel_size: _Size1,
    stride: _Stride1,
    padding: _Padding1,
    dilation: _Size1,
    ceil_mode: bool,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool1d(
    x: _Like,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool1d(
    x: _Like,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool1d(
    x: _Like,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool1d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `max_pool1d`."""
@overload
def max_pool1d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `max_pool1d`."""
@overload
def min_pool1d(
    x: NDArray[_T],
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool1d(
    x: NDArray[_T],
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool1d(
    x: NDArray[_T],
    kernel_size: _Size1,
    stride: _Stride1,
    padding: _Padding1,
    dilation: _Size1,
    ceil_mode: bool,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool1d(
    x: _Like,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool1d(
    x: _Like,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool1d(
    x: _Like,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool1d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `min_pool1d`."""
@overload
def min_pool1d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `min_pool1d`."""
@overload
def avg_pool1d(
    x: NDArray[_T],
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size1 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Average over sliding windows."""
@overload
def avg_pool1d(
    x: _Like,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size1 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Average over sliding windows."""
@overload
def avg_pool1d_backward(
    grad_output: NDArray[_F],
    input_shape: _Shape,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size1 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `avg_pool1d`."""
@overload
def avg_pool1d_backward(
    grad_output: _FloatLike,
    input_shape: _Shape,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size1 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `avg_pool1d`."""
@overload
def sum_pool1d(
    x: NDArray[_T],
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size1 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Sum over sliding windows."""
@overload
def sum_pool1d(
    x: _Like,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size1 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Sum over sliding windows."""
@overload
def sum_pool1d_backward(
    grad_output: NDArray[_F],
    input_shape: _Shape,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size1 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `sum_pool1d`."""
@overload
def sum_pool1d_backward(
    grad_output: _FloatLike,
    input_shape: _Shape,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Padding1 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size1 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `sum_pool1d`."""
@overload
def lp_pool1d(
    x: NDArray[_F],
    norm_type: _Float,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Lp norm of sliding windows."""
@overload
def lp_pool1d(
    x: _FloatLike,
    norm_type: _Float,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Lp norm of sliding windows."""
@overload
def lp_pool1d_backward(
    grad_output: NDArray[_F],
    x: _FloatLike,
    y: _FloatLike,
    norm_type: _Float,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `lp_pool1d`."""
@overload
def lp_pool1d_backward(
    grad_output: _FloatLike,
    x: _FloatLike,
    y: _FloatLike,
    norm_type: _Float,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding1 = 0,
    dilation: _Size1 = 1,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `lp_pool1d`."""
@overload
def adaptive_max_pool1d(
    x: NDArray[_T],
    output_size: _Output1,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool1d(
    x: NDArray[_T],
    output_size: _Output1,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool1d(
    x: _Like,
    output_size: _Output1,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool1d(
    x: _Like,
    output_size: _Output1,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool1d(
    x: _Like,
    output_size: _Output1,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool1d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `adaptive_max_pool1d`."""
@overload
def adaptive_max_pool1d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `adaptive_max_pool1d`."""
@overload
def adaptive_avg_pool1d(
    x: NDArray[_T],
    output_size: _Output1,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Average over as many windows as the output is to have elements."""
@overload
def adaptive_avg_pool1d(
    x: _Like,
    output_size: _Output1,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Average over as many windows as the output is to have elements."""
@overload
def adaptive_avg_pool1d_backward(
    grad_output: NDArray[_F],
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `adaptive_avg_pool1d`."""
@overload
def adaptive_avg_pool1d_backward(
    grad_output: _FloatLike,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `adaptive_avg_pool1d`."""
@overload
def max_unpool1d(
    x: NDArray[_T],
    indices: _AnyIndices,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Size1 = 0,
    output_size: _Unpooled1 | None = None,
    *,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Zeros, with every element at its index: undoes max pooling in part."""
@overload
def max_unpool1d(
    x: _Like,
    indices: _AnyIndices,
    kernel_size: _Size1,
    stride: _Stride1 = None,
    padding: _Size1 = 0,
    output_size: _Unpooled1 | None = None,
    *,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Zeros, with every element at its index: undoes max pooling in part."""
@overload
def max_unpool1d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    *,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `max_unpool1d`."""
@overload
def max_unpool1d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    *,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `max_unpool1d`."""
@overload
def max_pool2d(
    x: NDArray[_T],
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool2d(
    x: NDArray[_T],
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool2d(
    x: NDArray[_T],
    kernel_size: _Size2,
    stride: _Stride2,
    padding: _Padding2,
    dilation: _Size2,
    ceil_mode: bool,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool2d(
    x: _Like,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool2d(
    x: _Like,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool2d(
    x: _Like,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool2d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `max_pool2d`."""
@overload
def max_pool2d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `max_pool2d`."""
@overload
def min_pool2d(
    x: NDArray[_T],
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool2d(
    x: NDArray[_T],
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool2d(
    x: NDArray[_T],
    kernel_size: _Size2,
    stride: _Stride2,
    padding: _Padding2,
    dilation: _Size2,
    ceil_mode: bool,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool2d(
    x: _Like,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool2d(
    x: _Like,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool2d(
    x: _Like,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool2d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `min_pool2d`."""
@overload
def min_pool2d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `min_pool2d`."""
@overload
def avg_pool2d(
    x: NDArray[_T],
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size2 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Average over sliding windows."""
@overload
def avg_pool2d(
    x: _Like,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size2 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Average over sliding windows."""
@overload
def avg_pool2d_backward(
    grad_output: NDArray[_F],
    input_shape: _Shape,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size2 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `avg_pool2d`."""
@overload
def avg_pool2d_backward(
    grad_output: _FloatLike,
    input_shape: _Shape,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size2 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `avg_pool2d`."""
@overload
def sum_pool2d(
    x: NDArray[_T],
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size2 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Sum over sliding windows."""
@overload
def sum_pool2d(
    x: _Like,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size2 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Sum over sliding windows."""
@overload
def sum_pool2d_backward(
    grad_output: NDArray[_F],
    input_shape: _Shape,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size2 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `sum_pool2d`."""
@overload
def sum_pool2d_backward(
    grad_output: _FloatLike,
    input_shape: _Shape,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Padding2 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size2 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `sum_pool2d`."""
@overload
def lp_pool2d(
    x: NDArray[_F],
    norm_type: _Float,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Lp norm of sliding windows."""
@overload
def lp_pool2d(
    x: _FloatLike,
    norm_type: _Float,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Lp norm of sliding windows."""
@overload
def lp_pool2d_backward(
    grad_output: NDArray[_F],
    x: _FloatLike,
    y: _FloatLike,
    norm_type: _Float,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `lp_pool2d`."""
@overload
def lp_pool2d_backward(
    grad_output: _FloatLike,
    x: _FloatLike,
    y: _FloatLike,
    norm_type: _Float,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding2 = 0,
    dilation: _Size2 = 1,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `lp_pool2d`."""
@overload
def adaptive_max_pool2d(
    x: NDArray[_T],
    output_size: _Output2,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool2d(
    x: NDArray[_T],
    output_size: _Output2,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool2d(
    x: _Like,
    output_size: _Output2,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool2d(
    x: _Like,
    output_size: _Output2,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool2d(
    x: _Like,
    output_size: _Output2,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool2d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `adaptive_max_pool2d`."""
@overload
def adaptive_max_pool2d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `adaptive_max_pool2d`."""
@overload
def adaptive_avg_pool2d(
    x: NDArray[_T],
    output_size: _Output2,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Average over as many windows as the output is to have elements."""
@overload
def adaptive_avg_pool2d(
    x: _Like,
    output_size: _Output2,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Average over as many windows as the output is to have elements."""
@overload
def adaptive_avg_pool2d_backward(
    grad_output: NDArray[_F],
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `adaptive_avg_pool2d`."""
@overload
def adaptive_avg_pool2d_backward(
    grad_output: _FloatLike,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `adaptive_avg_pool2d`."""
@overload
def fractional_max_pool2d(
    x: NDArray[_T],
    kernel_size: _Exact2,
    output_size: _Exact2 | None = None,
    output_ratio: _Ratio2 | None = None,
    return_indices: Literal[False] = False,
    *,
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool2d(
    x: NDArray[_T],
    kernel_size: _Exact2,
    output_size: _Exact2 | None = None,
    output_ratio: _Ratio2 | None = None,
    *,
    return_indices: Literal[True],
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool2d(
    x: NDArray[_T],
    kernel_size: _Exact2,
    output_size: _Exact2 | None,
    output_ratio: _Ratio2 | None,
    return_indices: Literal[True],
    *,
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool2d(
    x: _Like,
    kernel_size: _Exact2,
    output_size: _Exact2 | None = None,
    output_ratio: _Ratio2 | None = None,
    return_indices: Literal[False] = False,
    *,
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool2d(
    x: _Like,
    kernel_size: _Exact2,
    output_size: _Exact2 | None = None,
    output_ratio: _Ratio2 | None = None,
    *,
    return_indices: Literal[True],
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool2d(
    x: _Like,
    kernel_size: _Exact2,
    output_size: _Exact2 | None = None,
    output_ratio: _Ratio2 | None = None,
    return_indices: bool = False,
    *,
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool2d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `fractional_max_pool2d`."""
@overload
def fractional_max_pool2d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `fractional_max_pool2d`."""
@overload
def max_unpool2d(
    x: NDArray[_T],
    indices: _AnyIndices,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Size2 = 0,
    output_size: _Unpooled2 | None = None,
    *,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Zeros, with every element at its index: undoes max pooling in part."""
@overload
def max_unpool2d(
    x: _Like,
    indices: _AnyIndices,
    kernel_size: _Size2,
    stride: _Stride2 = None,
    padding: _Size2 = 0,
    output_size: _Unpooled2 | None = None,
    *,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Zeros, with every element at its index: undoes max pooling in part."""
@overload
def max_unpool2d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    *,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `max_unpool2d`."""
@overload
def max_unpool2d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    *,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `max_unpool2d`."""
@overload
def max_pool3d(
    x: NDArray[_T],
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool3d(
    x: NDArray[_T],
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool3d(
    x: NDArray[_T],
    kernel_size: _Size3,
    stride: _Stride3,
    padding: _Padding3,
    dilation: _Size3,
    ceil_mode: bool,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool3d(
    x: _Like,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool3d(
    x: _Like,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool3d(
    x: _Like,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Maximum over sliding windows; with its indices, if they are wanted."""
@overload
def max_pool3d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `max_pool3d`."""
@overload
def max_pool3d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `max_pool3d`."""
@overload
def min_pool3d(
    x: NDArray[_T],
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool3d(
    x: NDArray[_T],
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool3d(
    x: NDArray[_T],
    kernel_size: _Size3,
    stride: _Stride3,
    padding: _Padding3,
    dilation: _Size3,
    ceil_mode: bool,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool3d(
    x: _Like,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool3d(
    x: _Like,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool3d(
    x: _Like,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Minimum over sliding windows; with its indices, if they are wanted."""
@overload
def min_pool3d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `min_pool3d`."""
@overload
def min_pool3d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `min_pool3d`."""
@overload
def avg_pool3d(
    x: NDArray[_T],
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size3 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Average over sliding windows."""
@overload
def avg_pool3d(
    x: _Like,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size3 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Average over sliding windows."""
@overload
def avg_pool3d_backward(
    grad_output: NDArray[_F],
    input_shape: _Shape,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size3 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `avg_pool3d`."""
@overload
def avg_pool3d_backward(
    grad_output: _FloatLike,
    input_shape: _Shape,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: _Float | None = None,
    *,
    dilation: _Size3 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `avg_pool3d`."""
@overload
def sum_pool3d(
    x: NDArray[_T],
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size3 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Sum over sliding windows."""
@overload
def sum_pool3d(
    x: _Like,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size3 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Sum over sliding windows."""
@overload
def sum_pool3d_backward(
    grad_output: NDArray[_F],
    input_shape: _Shape,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size3 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `sum_pool3d`."""
@overload
def sum_pool3d_backward(
    grad_output: _FloatLike,
    input_shape: _Shape,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Padding3 = 0,
    ceil_mode: bool = False,
    *,
    dilation: _Size3 = 1,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `sum_pool3d`."""
@overload
def lp_pool3d(
    x: NDArray[_F],
    norm_type: _Float,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Lp norm of sliding windows."""
@overload
def lp_pool3d(
    x: _FloatLike,
    norm_type: _Float,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Lp norm of sliding windows."""
@overload
def lp_pool3d_backward(
    grad_output: NDArray[_F],
    x: _FloatLike,
    y: _FloatLike,
    norm_type: _Float,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `lp_pool3d`."""
@overload
def lp_pool3d_backward(
    grad_output: _FloatLike,
    x: _FloatLike,
    y: _FloatLike,
    norm_type: _Float,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    ceil_mode: bool = False,
    *,
    padding: _Padding3 = 0,
    dilation: _Size3 = 1,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `lp_pool3d`."""
@overload
def adaptive_max_pool3d(
    x: NDArray[_T],
    output_size: _Output3,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool3d(
    x: NDArray[_T],
    output_size: _Output3,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool3d(
    x: _Like,
    output_size: _Output3,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool3d(
    x: _Like,
    output_size: _Output3,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool3d(
    x: _Like,
    output_size: _Output3,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Maximum over as many windows as the output is to have elements."""
@overload
def adaptive_max_pool3d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `adaptive_max_pool3d`."""
@overload
def adaptive_max_pool3d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `adaptive_max_pool3d`."""
@overload
def adaptive_avg_pool3d(
    x: NDArray[_T],
    output_size: _Output3,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Average over as many windows as the output is to have elements."""
@overload
def adaptive_avg_pool3d(
    x: _Like,
    output_size: _Output3,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Average over as many windows as the output is to have elements."""
@overload
def adaptive_avg_pool3d_backward(
    grad_output: NDArray[_F],
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `adaptive_avg_pool3d`."""
@overload
def adaptive_avg_pool3d_backward(
    grad_output: _FloatLike,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `adaptive_avg_pool3d`."""
@overload
def fractional_max_pool3d(
    x: NDArray[_T],
    kernel_size: _Exact3,
    output_size: _Exact3 | None = None,
    output_ratio: _Ratio3 | None = None,
    return_indices: Literal[False] = False,
    *,
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool3d(
    x: NDArray[_T],
    kernel_size: _Exact3,
    output_size: _Exact3 | None = None,
    output_ratio: _Ratio3 | None = None,
    *,
    return_indices: Literal[True],
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool3d(
    x: NDArray[_T],
    kernel_size: _Exact3,
    output_size: _Exact3 | None,
    output_ratio: _Ratio3 | None,
    return_indices: Literal[True],
    *,
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool3d(
    x: _Like,
    kernel_size: _Exact3,
    output_size: _Exact3 | None = None,
    output_ratio: _Ratio3 | None = None,
    return_indices: Literal[False] = False,
    *,
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool3d(
    x: _Like,
    kernel_size: _Exact3,
    output_size: _Exact3 | None = None,
    output_ratio: _Ratio3 | None = None,
    *,
    return_indices: Literal[True],
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool3d(
    x: _Like,
    kernel_size: _Exact3,
    output_size: _Exact3 | None = None,
    output_ratio: _Ratio3 | None = None,
    return_indices: bool = False,
    *,
    random_samples: NDArray[np.floating[Any]] | _Nested | None = None,
    rng: _Seed | None = None,
    channel_axis: int | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Maximum over windows at pseudo-random starts."""
@overload
def fractional_max_pool3d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `fractional_max_pool3d`."""
@overload
def fractional_max_pool3d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `fractional_max_pool3d`."""
@overload
def max_unpool3d(
    x: NDArray[_T],
    indices: _AnyIndices,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Size3 = 0,
    output_size: _Unpooled3 | None = None,
    *,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Zeros, with every element at its index: undoes max pooling in part."""
@overload
def max_unpool3d(
    x: _Like,
    indices: _AnyIndices,
    kernel_size: _Size3,
    stride: _Stride3 = None,
    padding: _Size3 = 0,
    output_size: _Unpooled3 | None = None,
    *,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Zeros, with every element at its index: undoes max pooling in part."""
@overload
def max_unpool3d_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    *,
    channel_axis: int | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `max_unpool3d`."""
@overload
def max_unpool3d_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    *,
    channel_axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `max_unpool3d`."""
@overload
def global_max_pool(
    x: NDArray[_T],
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> NDArray[_T]:
    """Maximum of every plane."""
@overload
def global_max_pool(
    x: NDArray[_T],
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum of every plane."""
@overload
def global_max_pool(
    x: _Like,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> NDArray[Any]:
    """Maximum of every plane."""
@overload
def global_max_pool(
    x: _Like,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Maximum of every plane."""
@overload
def global_max_pool(
    x: _Like,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Maximum of every plane."""
@overload
def global_max_pool_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> NDArray[_T]:
    """Gradient of `global_max_pool`."""
@overload
def global_max_pool_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> NDArray[Any]:
    """Gradient of `global_max_pool`."""
@overload
def global_min_pool(
    x: NDArray[_T],
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> NDArray[_T]:
    """Minimum of every plane."""
@overload
def global_min_pool(
    x: NDArray[_T],
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Minimum of every plane."""
@overload
def global_min_pool(
    x: _Like,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> NDArray[Any]:
    """Minimum of every plane."""
@overload
def global_min_pool(
    x: _Like,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Minimum of every plane."""
@overload
def global_min_pool(
    x: _Like,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Minimum of every plane."""
@overload
def global_min_pool_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> NDArray[_T]:
    """Gradient of `global_min_pool`."""
@overload
def global_min_pool_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    channel_axis: int | None = None,
) -> NDArray[Any]:
    """Gradient of `global_min_pool`."""
@overload
def global_avg_pool(
    x: NDArray[_T],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
) -> NDArray[_T]:
    """Average of every plane."""
@overload
def global_avg_pool(
    x: _Like,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
) -> NDArray[Any]:
    """Average of every plane."""
@overload
def global_avg_pool_backward(
    grad_output: NDArray[_F],
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
) -> NDArray[_F]:
    """Gradient of `global_avg_pool`."""
@overload
def global_avg_pool_backward(
    grad_output: _FloatLike,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
) -> NDArray[Any]:
    """Gradient of `global_avg_pool`."""
@overload
def global_sum_pool(
    x: NDArray[_T],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
) -> NDArray[_T]:
    """Sum of every plane."""
@overload
def global_sum_pool(
    x: _Like,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    channel_axis: int | None = None,
) -> NDArray[Any]:
    """Sum of every plane."""
@overload
def global_sum_pool_backward(
    grad_output: NDArray[_F],
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
) -> NDArray[_F]:
    """Gradient of `global_sum_pool`."""
@overload
def global_sum_pool_backward(
    grad_output: _FloatLike,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    min_count: _Int | None = None,
    x: _FloatLike | None = None,
    channel_axis: int | None = None,
) -> NDArray[Any]:
    """Gradient of `global_sum_pool`."""
@overload
def segment_max_pool(
    x: NDArray[_T],
    offsets: _Integers,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Maximum of every segment of the rows: sentences, graphs, voxels."""
@overload
def segment_max_pool(
    x: NDArray[_T],
    offsets: _Integers,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Maximum of every segment of the rows: sentences, graphs, voxels."""
@overload
def segment_max_pool(
    x: _Like,
    offsets: _Integers,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Maximum of every segment of the rows: sentences, graphs, voxels."""
@overload
def segment_max_pool(
    x: _Like,
    offsets: _Integers,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Maximum of every segment of the rows: sentences, graphs, voxels."""
@overload
def segment_max_pool(
    x: _Like,
    offsets: _Integers,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Maximum of every segment of the rows: sentences, graphs, voxels."""
@overload
def segment_max_pool_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `segment_max_pool`."""
@overload
def segment_max_pool_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `segment_max_pool`."""
@overload
def segment_min_pool(
    x: NDArray[_T],
    offsets: _Integers,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Minimum of every segment of the rows."""
@overload
def segment_min_pool(
    x: NDArray[_T],
    offsets: _Integers,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: tuple[NDArray[_T], _Indices] | None = None,
) -> tuple[NDArray[_T], _Indices]:
    """Minimum of every segment of the rows."""
@overload
def segment_min_pool(
    x: _Like,
    offsets: _Integers,
    return_indices: Literal[False] = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Minimum of every segment of the rows."""
@overload
def segment_min_pool(
    x: _Like,
    offsets: _Integers,
    return_indices: Literal[True],
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: tuple[NDArray[Any], _Indices] | None = None,
) -> tuple[NDArray[Any], _Indices]:
    """Minimum of every segment of the rows."""
@overload
def segment_min_pool(
    x: _Like,
    offsets: _Integers,
    return_indices: bool = False,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: None = None,
) -> NDArray[Any] | tuple[NDArray[Any], _Indices]:
    """Minimum of every segment of the rows."""
@overload
def segment_min_pool_backward(
    grad_output: NDArray[_T],
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Gradient of `segment_min_pool`."""
@overload
def segment_min_pool_backward(
    grad_output: _Like,
    indices: _AnyIndices,
    input_shape: _Shape,
    *,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `segment_min_pool`."""
@overload
def segment_avg_pool(
    x: NDArray[_T],
    offsets: _Integers,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Average of every segment of the rows."""
@overload
def segment_avg_pool(
    x: _Like,
    offsets: _Integers,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Average of every segment of the rows."""
@overload
def segment_avg_pool_backward(
    grad_output: NDArray[_F],
    offsets: _Integers,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    x: _FloatLike | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `segment_avg_pool`."""
@overload
def segment_avg_pool_backward(
    grad_output: _FloatLike,
    offsets: _Integers,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    x: _FloatLike | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `segment_avg_pool`."""
@overload
def segment_sum_pool(
    x: NDArray[_T],
    offsets: _Integers,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: NDArray[_T] | None = None,
) -> NDArray[_T]:
    """Sum of every segment of the rows."""
@overload
def segment_sum_pool(
    x: _Like,
    offsets: _Integers,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Sum of every segment of the rows."""
@overload
def segment_sum_pool_backward(
    grad_output: NDArray[_F],
    offsets: _Integers,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    x: _FloatLike | None = None,
    out: NDArray[_F] | None = None,
) -> NDArray[_F]:
    """Gradient of `segment_sum_pool`."""
@overload
def segment_sum_pool_backward(
    grad_output: _FloatLike,
    offsets: _Integers,
    input_shape: _Shape,
    *,
    nan_policy: _Policy = "propagate",
    where: _Mask | None = None,
    x: _FloatLike | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Gradient of `segment_sum_pool`."""
def segment_offsets(
    *,
    lengths: _Integers | None = None,
    ids: _Integers | None = None,
    count: _Int | None = None,
) -> NDArray[np.int64]:
    """Where segments begin, by their lengths or by ids."""

def output_shape(function: Callable[..., Any], shape: _Shape, *args: Any, **kwargs: Any) -> tuple[int, ...]: ...

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool1d_backward",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool2d_backward",
    "adaptive_avg_pool3d",
    "adaptive_avg_pool3d_backward",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_backward",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_backward",
    "avg_pool1d",
    "avg_pool1d_backward",
    "avg_pool2d",
    "avg_pool2d_backward",
    "avg_pool3d",
    "avg_pool3d_backward",
    "fractional_max_pool2d",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d",
    "fractional_max_pool3d_backward",
    "global_avg_pool",
    "global_avg_pool_backward",
    "global_max_pool",
    "global_max_pool_backward",
    "global_min_pool",
    "global_min_pool_backward",
    "global_sum_pool",
    "global_sum_pool_backward",
    "lp_pool1d",
    "lp_pool1d_backward",
    "lp_pool2d",
    "lp_pool2d_backward",
    "lp_pool3d",
    "lp_pool3d_backward",
    "max_pool1d",
    "max_pool1d_backward",
    "max_pool2d",
    "max_pool2d_backward",
    "max_pool3d",
    "max_pool3d_backward",
    "max_unpool1d",
    "max_unpool1d_backward",
    "max_unpool2d",
    "max_unpool2d_backward",
    "max_unpool3d",
    "max_unpool3d_backward",
    "min_pool1d",
    "min_pool1d_backward",
    "min_pool2d",
    "min_pool2d_backward",
    "min_pool3d",
    "min_pool3d_backward",
    "output_shape",
    "segment_avg_pool",
    "segment_avg_pool_backward",
    "segment_max_pool",
    "segment_max_pool_backward",
    "segment_min_pool",
    "segment_min_pool_backward",
    "segment_offsets",
    "segment_sum_pool",
    "segment_sum_pool_backward",
    "sum_pool1d",
    "sum_pool1d_backward",
    "sum_pool2d",
    "sum_pool2d_backward",
    "sum_pool3d",
    "sum_pool3d_backward",
]
