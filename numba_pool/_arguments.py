"""What users pass, checked: window arguments in, windows out, or the error. Pure Python on integers."""

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ._windows import LIMIT, Ints, Pads, UniformAxis, uniform_axis

CHANNELS_LAST = "; if the last axis holds the channels, pass channel_axis=-1"
COLOURS, SIDE = (3, 4), 16  # of what is taken for an image: how many colours, and at least so many rows and columns


def shown(value: Any) -> str:
    """A value in an error message; of an array its shape, which most likely was meant."""
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None else f"an array; its shape is {shape}"


def integer(value: Any, name: str, allowed: str = "an int or a tuple of ints") -> int:
    """``value`` as an int, or an error that says what is `allowed`; bools and floats are not integers here."""
    if type(value) is int:
        return value
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be {allowed}, got {value!r} of type {type(value).__name__}")
    try:
        return operator.index(value)
    except TypeError:  # an array that is no scalar
        raise TypeError(f"{name} must be {allowed}, got {shown(value)}") from None


def real(value: Any, name: str) -> Any:
    """``value`` if it is an int or a float; bools are none."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be an int or a float, got {value!r}")
    return value


def has_colours(shape: Ints) -> bool:
    """Whether an array looks as if its last axis held the colours of an image, or of several."""
    return len(shape) > 2 and shape[-1] in COLOURS and min(shape[-3:-1]) >= SIDE


def lengths(value: Any, name: str) -> Ints:
    """A whole shape."""
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name} must be a tuple of ints, got {shown(value)}")
    try:
        shape = tuple(integer(n, name) for n in value)
    except TypeError:
        raise TypeError(f"{name} must be a tuple of ints, got {value!r}") from None
    return tuple(bounded(n, name, 0) for n in shape)


def at_least(value: int, name: str, least: int) -> int:
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return value


def bounded(value: int, name: str, least: int) -> int:
    at_least(value, name, least)
    if value > LIMIT:
        raise ValueError(f"{name} must be at most {LIMIT}, got {value}")
    return value


def entries(value: Any, rank: int, name: str, short: bool = True) -> Sequence[Any]:
    """One entry per axis: a scalar, or if `short` a tuple of length one, stands for every axis."""
    if isinstance(value, (tuple, list)):
        if len(value) == 1 and short:
            return tuple(value) * rank
        if len(value) != rank:
            one = "one entry, or " if short else ""
            raise ValueError(f"{name} must have {one}one per spatial axis ({rank}), got {value!r}")
        return value
    return (value,) * rank


def sizes(value: Any, rank: int, name: str, least: int = 1, short: bool = True) -> Ints:
    """An int per spatial axis, each at least ``least``."""
    if value.__class__ is int and least <= value <= LIMIT:
        return (value,) * rank
    return tuple(bounded(integer(v, name), name, least) for v in entries(value, rank, name, short))


def strides(value: Any, rank: int, kernel: Ints) -> Ints:
    """The stride per axis; None or an empty tuple stands for the kernel size."""
    if value is None or (isinstance(value, (tuple, list)) and not value):
        return kernel
    return sizes(value, rank, "stride")


PADDING = "an int, a tuple of ints or of pairs (before, after), 'valid', 'same' or 'same_lower'"


def paddings(value: Any, rank: int, size: Ints, kernel: Ints, stride: Ints, dilation: Ints, ceil_mode: bool) -> Pads:
    """(before, after) per axis, from ints, pairs or the names 'valid', 'same' and 'same_lower'."""
    if value.__class__ is int and 2 * value <= min(kernel) and value >= 0:
        return ((value, value),) * rank
    if isinstance(value, str):
        if value == "valid":
            return ((0, 0),) * rank
        if value not in ("same", "same_lower"):
            raise ValueError(f"padding must be {PADDING}, got {value!r}")
        pads = []
        for length, k, s, d in zip(size, kernel, stride, dilation):
            total = max(0, (-(-length // s) - 1) * s + d * (k - 1) + 1 - length)
            small = total // 2
            pads.append((small, total - small) if value == "same" else (total - small, small))
        return tuple(pads)
    if rank == 1 and isinstance(value, (tuple, list)) and len(value) == 2:
        raise ValueError(f"padding must have one entry for one spatial axis, which for a pair is ({value!r},), "
                         f"got {value!r}")
    pads = []
    for entry, k in zip(entries(value, rank, "padding"), kernel):
        if isinstance(entry, (tuple, list)):
            if len(entry) != 2:
                raise ValueError(f"padding must be an int or a (before, after) pair per axis, got {value!r}")
            before, after = (bounded(integer(v, "padding", PADDING), "padding", 0) for v in entry)
            pads.append((before, after))
        else:
            p = at_least(integer(entry, "padding", PADDING), "padding", 0)
            if p > k // 2:
                raise ValueError(f"padding must be at most half of kernel_size, {k // 2} for a kernel of {k}, got {p}; "
                                 "as a pair (before, after) it may be larger")
            pads.append((p, p))
    return tuple(pads)


def output_length(length: int, k: int, s: int, pad: tuple[int, int], d: int, ceil_mode: bool) -> int:
    """Number of windows along one axis."""
    before, after = pad
    n = (length + before + after - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
    if ceil_mode and (n - 1) * s >= length + before:
        n -= 1  # the last window has to start inside the input or the padding before it
    return n


def grid(size: Ints, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
         shape: Ints = (), last: bool = True, include_pad: bool = True) -> tuple[UniformAxis, ...]:
    """The windows along each axis of an input of spatial shape ``size``; in messages, of this whole ``shape``. Unless
    its memory is known to have channels ``last``, its last axis may have been meant to hold them.
    """
    rank = len(size)
    if not isinstance(ceil_mode, (bool, np.bool_)):
        raise TypeError(f"ceil_mode must be a bool, got {ceil_mode!r}")
    k = sizes(kernel_size, rank, "kernel_size")
    s = strides(stride, rank, k)
    d = sizes(dilation, rank, "dilation")
    pads = paddings(padding, rank, size, k, s, d, bool(ceil_mode))
    if isinstance(padding, str) and padding != "valid":
        output = [-(-length // step) for length, step in zip(size, s)]
    else:
        output = [output_length(*axis, ceil_mode) for axis in zip(size, k, s, pads, d)]
    if min(output) < 1:
        meant = not last and output[-1] < 1 <= min(output[:-1], default=1)
        raise ValueError(
            f"kernel_size {k} with stride {s}, padding {pads} and dilation {d} leaves no output "
            f"for an input of shape {shape or size}, spatial shape {size}: output {tuple(output)}"
            f"{CHANNELS_LAST if meant else ''}"
        )
    if prod(output) > LIMIT and any(max(pad) > step * (n - 1) for pad, step, n in zip(pads, d, k)):
        raise ValueError(f"padding must leave at most {LIMIT} windows of a plane, got {pads} for an input of shape "
                         f"{shape or size}: output {tuple(output)}")
    return tuple([uniform_axis(*axis, include_pad) for axis in zip(size, output, k, s, pads, d)])


def adaptive(size: Ints, output_size: Any) -> Ints:
    """Output shape of adaptive pooling; None keeps an axis."""
    rank, allowed = len(size), "an int, None or a tuple of these"
    return tuple(
        length if v is None else bounded(integer(v, "output_size", allowed), "output_size", 0)
        for v, length in zip(entries(output_size, rank, "output_size"), size)
    )


def input_shape(value: Any, rank: int, grad_shape: Ints, last: bool) -> Ints:
    """Validate the `input_shape` of a backward against the batch and channel axes of `grad_output`. Unless its memory
    is known to have channels `last`, the last axes may have been meant to hold them.
    """
    shape, lead = lengths(value, "input_shape"), grad_shape[:-rank]
    if len(shape) != rank + len(lead):
        raise ValueError(
            f"grad_output and input_shape must have as many axes, got {rank + len(lead)} and {len(shape)} of "
            f"input_shape {shape}"
        )
    if shape[:-rank] != lead:
        meant = not last and (*shape[: -rank - 1], shape[-1]) == (*lead[:-1], grad_shape[-1])
        raise ValueError(
            f"grad_output and input_shape must agree in the batch and channels, got {lead} and {shape[:-rank]} of "
            f"input_shape {shape}{CHANNELS_LAST if meant else ''}"
        )
    return shape


def check_not_empty(shape: Ints, rank: int) -> None:
    if 0 in shape[-rank:]:
        raise ValueError(f"input_shape must have no empty spatial axis, got {shape}")


def check_output(shape: Ints, expected: Ints, source: str = "") -> None:
    """That a gradient has the shape of the output, `source` being whose: either may be the wrong one."""
    if shape != expected:
        raise ValueError(f"grad_output must have shape {expected}, that of the output{source}, got {shape}")
