"""Hypothesis strategies: arrays in every memory order, and valid window configurations only.

Elements come from a seeded generator rather than one by one: what matters here is the kind of data and the geometry,
and small seeds shrink well enough.
"""

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import selection
from hypothesis import strategies as st
from reference import output_length

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALVES = (np.dtype(np.float16), BFLOAT16)
FLOATS = (*HALVES, np.dtype(np.float32), np.dtype(np.float64))
INTEGERS = tuple(np.dtype(f"{kind}int{bits}") for kind in ("", "u") for bits in (8, 16, 32, 64))

ORDERS = ("C", "channels_last", "F", "sliced", "negative", "readonly", "byteswapped", "unaligned")
KINDS = ("normal", "ties", "constant", "signed zeros", "specials", "-inf", "nan")


def elements(shape, dtype, kind, seed):
    """An array of one kind of data."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if kind == "ties":
            return rng.integers(0, 3, shape).astype(dtype)
        if kind == "constant":
            return np.full(shape, info.min, dtype)
        return rng.choice(np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], dtype), shape)
    if kind == "ties":
        x = rng.integers(-2, 3, shape).astype(np.float64)
    elif kind == "constant":
        x = np.full(shape, rng.choice([-1.5, 0.0, 2.0]))
    elif kind == "signed zeros":
        x = rng.choice([-0.0, 0.0], shape)
    else:
        x = rng.standard_normal(shape)
    if kind == "specials":
        where = rng.random(shape)
        x = np.where(where < 0.2, rng.choice([np.nan, np.inf, -np.inf], shape), x)
    elif kind == "-inf":
        x = np.where(rng.random(shape) < 0.8, -np.inf, x)
    elif kind == "nan":
        x = np.where(rng.random(shape) < 0.8, np.nan, x)
    return x.astype(dtype)


def channel_axis(x, rank):
    return x.ndim - rank - 1


def channels_last(a, skip=0):
    """The same in channels-last memory, which begins `skip` bytes behind a cache line."""
    last = np.moveaxis(a, 1, -1)
    memory = np.full(a.nbytes + 128, 0xA5, np.uint8)
    first = -memory.ctypes.data % 64 + skip
    result = memory[first : first + a.nbytes].view(a.dtype).reshape(last.shape)
    result[...] = last
    return np.moveaxis(result, -1, 1)


def laid_out(x, order, rank):
    """An array equal to `x` in another memory order."""
    if order == "channels_last":
        axis = channel_axis(x, rank)
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, axis, -1)), -1, axis)
    if order == "F":
        return np.asfortranarray(x)
    if order == "sliced":
        base = np.ones(tuple(2 * n + 1 for n in x.shape), x.dtype)
        view = base[tuple(slice(1, None, 2) for _ in x.shape)]
        view[...] = x
        return view
    if order == "negative":
        flip = (..., *(slice(None, None, -1) for _ in range(rank)))
        return np.ascontiguousarray(x[flip])[flip]
    if order == "readonly":
        x = x.copy()
        x.flags.writeable = False
        return x
    if order == "unaligned":
        view = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
        view[...] = x
        return view
    if order == "byteswapped" and x.dtype != BFLOAT16:  # which has one byte order only
        return x.astype(x.dtype.newbyteorder())
    return np.ascontiguousarray(x)


class Windows(NamedTuple):
    """A shape and window arguments that fit it."""

    rank: int
    shape: tuple[int, ...]
    kernel_size: Any
    stride: Any
    padding: Any
    dilation: Any
    ceil_mode: bool

    @property
    def arguments(self):
        return {k: v for k, v in self._asdict().items() if k not in ("rank", "shape")}


# kernel, stride, padding of the shapes that have kernels of their own
COMMON = ((2, 2, 0), (3, 2, 0), (3, 2, 1), (2, 1, 0), (3, 1, 1), (5, 1, 2), (7, 1, 3), (13, 1, 6), (9, 1, 0), (3, 3, 0),
          (6, 2, 2), (7, 4, 3), (16, 5, 8))
LONGEST = {1: 70, 2: 13, 3: 6}


@st.composite
def leading(draw, volume):
    """Batch and channels (or channels alone), few where the planes are large."""
    channels = draw(st.sampled_from((1, 2, 3, range(1, 41 if volume <= 150 else 7))))
    if isinstance(channels, range):
        channels = draw(st.sampled_from(channels))
    batch = draw(st.sampled_from((None, None, None, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3) if channels < 5 else (None, 1, 2)))
    return (channels,) if batch is None else (batch, channels)


@st.composite
def lengths(draw, rank, least):
    """Spatial shape; each axis at least as long as `least` says. One axis in two is a long row."""
    if rank == 2 and draw(st.booleans()):
        height = draw(st.integers(least[0], least[0] + 3))
        return (height, draw(st.sampled_from(range(least[1], max(least[1], 70) + 1))))
    return tuple(draw(st.sampled_from(range(n, max(n, LONGEST[rank]) + 1))) for n in least)


@st.composite
def common_windows(draw, rank):
    kernel, stride, padding = draw(st.sampled_from(COMMON))
    if rank == 3 and kernel > 5:
        kernel, padding = 5, min(padding, 2)
    ceil_mode = draw(st.booleans())
    shape = draw(lengths(rank, (max(1, kernel - 2 * padding),) * rank))
    return shape, kernel, stride, padding, 1, ceil_mode


@st.composite
def whole_windows(draw, rank):
    shape = draw(lengths(rank, (1,) * rank))
    return shape, shape, draw(st.sampled_from((None, 1))), 0, 1, draw(st.booleans())


@st.composite
def any_windows(draw, rank, dilated=True, padded=True):
    small = st.integers(1, 4 if rank < 3 else 3)
    tuples = st.tuples(*(small for _ in range(rank)))
    kernel = draw(tuples)
    stride = draw(tuples) if draw(st.booleans()) else (draw(small),) * rank
    dilation = draw(tuples) if dilated and draw(st.booleans()) else (1,) * rank
    ceil_mode = draw(st.booleans())
    form = draw(st.sampled_from(("symmetric", "symmetric", "pairs", "pairs", "same", "same_lower", "valid")))
    if not padded:
        form = "valid"
    if form == "symmetric":
        padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
        sides = tuple((p, p) for p in padding)
    elif form == "pairs":
        reach = draw(st.sampled_from((0, 0, 3, 20)))  # beyond the window, which then lies in the padding alone
        side = [st.integers(0, d * (k - 1) + reach) for k, d in zip(kernel, dilation, strict=True)]
        padding = sides = tuple((draw(s), draw(s)) for s in side)
    else:
        padding, sides = form, ((0, 0),) * rank
    least = tuple(
        1 if form.startswith("same") else max(1, d * (k - 1) + 1 - before - after - (s - 1 if ceil_mode else 0))
        for k, s, d, (before, after) in zip(kernel, stride, dilation, sides, strict=True)
    )
    shape = draw(lengths(rank, least))
    if not form.startswith("same"):
        assert all(
            output_length(*axis, ceil_mode) > 0
            for axis in zip(shape, kernel, stride, *zip(*sides, strict=True), dilation, strict=True)
        )
    return shape, kernel, stride, padding, dilation, ceil_mode


@st.composite
def windows(draw, ranks=(1, 2, 2, 3), dilated=True, padded=True):
    """Valid arguments of a pooling operation; the shapes of the fast paths come up often."""
    rank = draw(st.sampled_from(ranks))
    source = draw(st.sampled_from(("common", "common", "whole", "any", "any", "any")))
    if source == "common":
        spatial, *arguments = draw(common_windows(rank))
        if not padded:
            arguments[2] = 0
            spatial = tuple(max(n, arguments[0]) for n in spatial)
    elif source == "whole":
        spatial, *arguments = draw(whole_windows(rank))
    else:
        spatial, *arguments = draw(any_windows(rank, dilated, padded))
    shape = (*draw(leading(int(np.prod(spatial)))), *spatial)
    return Windows(rank, shape, *arguments)


@st.composite
def arrays(draw, shape, rank, dtypes=("float32", "float64"), kinds=KINDS, orders=ORDERS):
    """An array of that shape: any kind of data in any memory order."""
    if not selection.exhaustive:
        dtypes = selection.few(dtypes)
    dtype, kind, seed = draw(st.sampled_from(dtypes)), draw(st.sampled_from(kinds)), draw(st.integers(0, 999))
    # both orders with kernels of their own come up most
    order = draw(st.sampled_from(("C", "channels_last", "channels_last", *orders) if orders == ORDERS else orders))
    return laid_out(elements(shape, dtype, kind, seed), order, rank)
