"""Random cases against PyTorch: ``python tests/fuzz_torch.py --cases 50000 --seed 0``.

Every case is drawn from (seed, number) alone, so that a mismatch can be repeated on its own. Where PyTorch knows the
operation it is the oracle; where the documented behaviour differs from PyTorch's or goes beyond it (windows without any
valid tap, asymmetric and 'same' padding, dilated averages, Lp, dtypes that PyTorch lacks), the naive `reference` is.
Maxima, indices and their gradients have to agree exactly, float32 sums to 4 ulp of the sum's condition (the mean of the
absolute values) against float64.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import reference
import torch
import torch.nn.functional as F

import numba_pool

REJECTED = (ValueError, TypeError)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(t) for t in (np.float32, np.float64, np.float16)] + [BFLOAT16]
FLOAT_ODDS = [0.5, 0.26, 0.12, 0.12]
INTEGERS = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
# Windows that real networks use, and that kernels have fast paths for: kernel, stride, padding.
POPULAR = [(2, 2, 0), (3, 2, 1), (3, 1, 1), (3, 2, 0), (5, 1, 2), (2, 1, 0), (3, 3, 0), (4, 4, 0), (9, 1, 4), (7, 2, 3)]


class Mismatch(AssertionError):
    """Package and oracle disagree."""


@dataclass
class Case:
    """One call: ``numba_pool.<name><rank>d(x, **args)``."""

    name: str
    rank: int
    x: np.ndarray
    args: dict[str, Any]

    def __str__(self) -> str:
        array = f"{self.x.dtype} {self.x.shape} strides {self.x.strides}"
        return f"{self.name}{self.rank}d({array}, {', '.join(f'{k}={v!r}' for k, v in self.args.items())})"


# Drawing


def chance(rng, probability):
    return rng.random() < probability


def pick(rng, items):
    return items[rng.integers(len(items))]


def draw_dtype(rng, integers):
    if integers and chance(rng, 0.2):
        return pick(rng, INTEGERS)
    return FLOATS[rng.choice(len(FLOATS), p=FLOAT_ODDS)]


def draw_shape(rng, rank):
    """(N, C, *spatial), sometimes without N; small enough to be quick, sometimes wide enough for several vectors."""
    spatial = [int(rng.integers(1, {1: 20, 2: 10, 3: 7}[rank])) for _ in range(rank)]
    if chance(rng, 0.1):
        spatial[-1] = int(rng.integers(1, 70))
    if chance(rng, 0.1):
        spatial[rng.integers(rank)] = 1
    channels = int(rng.integers(1, 4)) if chance(rng, 0.9) else int(rng.integers(4, 40 if max(spatial) < 8 else 6))
    batch = 0 if chance(rng, 0.04) else int(rng.integers(1, 3))
    return (channels, *spatial) if chance(rng, 0.15) else (batch, channels, *spatial)


def draw_values(rng, shape, dtype, kind=None):
    kind = kind or pick(rng, ["normal", "normal", "positive", "ties", "constant", "special", "lowest"])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if kind in ("special", "lowest"):
            edges = np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max], dtype)
            return edges[rng.integers(0, 2 if kind == "lowest" else 6, shape)]
        low, high = {"ties": (0, 3), "constant": (5, 6)}.get(kind, (max(limits.min, -1000), min(limits.max, 1000)))
        return rng.integers(low, high, shape).astype(dtype)
    if kind == "ties":
        return rng.integers(-1, 2, shape).astype(dtype)
    if kind == "constant":
        return np.full(shape, rng.normal()).astype(dtype)
    x = rng.normal(size=shape)
    if kind == "positive":
        x = np.abs(x) + 0.1
    elif kind == "special":
        x = np.where(rng.random(shape) < 0.2, rng.choice([np.nan, np.inf, -np.inf], shape), x)
    elif kind == "lowest":
        x = np.where(rng.random(shape) < 0.9, -np.inf, x)
    return x.astype(dtype)


def small_enough(name, x):
    """For averages, whose sums have to stay within 64 bits."""
    return x // 1024 if "avg" in name and x.dtype.kind in "iu" and x.itemsize == 8 else x


def lay_out(rng, a):
    """The same values in another memory order, read-only, byte-swapped, or as a view into something larger."""
    kind = pick(rng, ["C", "C", "last", "last", "fortran", "strided", "negative", "permuted", "readonly", "swapped"])
    if kind == "last" and a.ndim > 1:
        channel = -3 if a.ndim == 3 and chance(rng, 0.5) else min(1, a.ndim - 2)
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(a, channel, -1)), -1, channel)
    if kind == "fortran":
        return np.asfortranarray(a)
    if kind == "strided":
        large = np.ones([2 * n + 1 for n in a.shape], a.dtype)
        view = large[tuple(slice(1, None, 2) for _ in a.shape)]
        view[...] = a
        return view
    if kind == "negative":
        flip = tuple(slice(None, None, -1) if chance(rng, 0.6) else slice(None) for _ in a.shape)
        return np.ascontiguousarray(a[flip])[flip]
    if kind == "permuted":
        order = rng.permutation(a.ndim)
        return np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order))
    if kind == "readonly":
        a = a.copy()
        a.flags.writeable = False
        return a
    if kind == "swapped" and a.dtype.itemsize > 1 and a.dtype != BFLOAT16:
        return a.astype(a.dtype.newbyteorder())
    return np.ascontiguousarray(a)


def spelled(rng, values, default=None):
    """One int per axis as a caller may write it."""
    if default is not None and tuple(values) == default and chance(rng, 0.5):
        return None
    if len(set(values)) == 1:
        value = values[0]
        return pick(rng, [value, tuple(values), list(values), (value,), value if value is None else np.int64(value)])
    return tuple(values)


def draw_windows(rng, rank, spatial, dilated=True):
    """kernel_size, stride, padding, dilation and ceil_mode; mostly valid, windows beyond the input included."""
    if chance(rng, 0.3):
        k, s, p = pick(rng, POPULAR)
        kernel, stride, symmetric, dilation = [k] * rank, [s] * rank, [p] * rank, [1] * rank
    else:
        kernel = [int(rng.integers(1, min(6, n + 2) if chance(rng, 0.9) else n + 3)) for n in spatial]
        stride = list(kernel) if chance(rng, 0.2) else [int(n) for n in rng.integers(1, 5, rank)]
        symmetric = [int(rng.integers(0, k // 2 + 1)) for k in kernel]
        dilation = [int(n) for n in rng.integers(1, 4, rank)] if dilated and chance(rng, 0.35) else [1] * rank
    args = {"kernel_size": spelled(rng, kernel), "stride": spelled(rng, stride, tuple(kernel))}
    args["ceil_mode"] = chance(rng, 0.4)
    args["padding"] = spelled(rng, symmetric)
    if chance(rng, 0.3):
        most = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        pairs = tuple((int(rng.integers(m + 1)), int(rng.integers(m + 1))) for m in most)
        args["padding"] = pick(rng, [pairs, pairs, "same", "same_lower", "valid"])
    if dilated:
        args["dilation"] = spelled(rng, dilation)
    return args


def broken(rng, case):
    """The case with one argument that everybody has to reject."""
    args, x = dict(case.args), case.x
    longer = (2,) * (case.rank + 1)
    wrong = {
        "kernel_size": [0, -1, (0,) * case.rank, longer, 2.0, True, None, "2"],
        "stride": [0, -1, longer, 1.5, True],
        "padding": [-1, longer, 0.5, 10**6],
        "dilation": [0, -1, longer, 1.0],
        "output_size": [-1, longer, 2.5, True],
        "divisor_override": [0],
    }
    what = pick(rng, ["axes", "dtype", "empty", "empty", *(name for name in wrong if name in args)])
    if what == "axes":
        x = np.zeros((2,) * pick(rng, [1, case.rank, case.rank + 3]), x.dtype)
    elif what == "dtype":
        x = x.astype(pick(rng, [np.complex64, np.bool_]))
    elif what == "empty":
        # not the channels of adaptive pooling: empty, they are none to PyTorch's averages, nor to its unbatched maxima
        channels = 0 if "adaptive" in case.name else 1
        axis = x.ndim - 1 - int(rng.integers(case.rank + channels))
        x = np.zeros([0 if i == axis else n for i, n in enumerate(x.shape)], x.dtype)
    else:
        args[what] = pick(rng, wrong[what])
    return Case(case.name, case.rank, x, args)


# Comparing


def plain(args):
    """The arguments for the oracles, which know no NumPy integers."""
    return {k: int(v) if isinstance(v, np.integer) else v for k, v in args.items()}


def native(x):
    """Contiguous, of native byte order, writeable: what goes to the oracles."""
    return np.array(x, x.dtype.newbyteorder("="), order="C")


def array(tensor):
    """PyTorch's result as an array."""
    return tensor.view(torch.int16).numpy().view(BFLOAT16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def tensor(x):
    x = native(x)
    return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) if x.dtype == BFLOAT16 else torch.from_numpy(x)


def outcome(call, *args, **kwargs):
    """The result or the exception."""
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return error


def require(condition, message):
    if not condition:
        raise Mismatch(message)


def describe(result):
    if isinstance(result, Exception):
        return f"{type(result).__name__}: {str(result).splitlines()[0]}" if str(result) else repr(result)
    if isinstance(result, tuple):
        return "(" + ", ".join(map(describe, result)) + ")"
    return f"{result.dtype} {result.shape}" if hasattr(result, "dtype") else repr(result)


def require_accepted(ours, why="the oracle accepts"):
    if isinstance(ours, Exception):
        raise Mismatch(f"{why}, but numba_pool gave {describe(ours)}") from ours


def same(actual, expected, what, dtype):
    """Exactly equal, NaN equal to NaN, and of that dtype and shape."""
    require(isinstance(actual, np.ndarray), f"{what} is {type(actual).__name__}, not an array")
    require(actual.dtype == dtype, f"{what} has dtype {actual.dtype}, expected {dtype}")
    require(actual.shape == expected.shape, f"{what} has shape {actual.shape}, expected {expected.shape}")
    equal = (actual == expected) | ((actual != actual) & (expected != expected))
    if not np.all(equal):
        at = tuple(int(i) for i in np.argwhere(~np.asarray(equal))[0])
        raise Mismatch(f"{what}{at} is {actual[at]!r}, expected {expected[at]!r}")


def close(actual, expected, scale, what, dtype, ulps=4, rival=None):
    """Within some ulp of `scale`, the magnitude at which a sum is rounded, or no further off than a rival is."""
    require(actual.dtype == dtype, f"{what} has dtype {actual.dtype}, expected {dtype}")
    require(actual.shape == expected.shape, f"{what} has shape {actual.shape}, expected {expected.shape}")
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(e)
    unlike = ~finite & ~((a == e) | (np.isnan(a) & np.isnan(e)))
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(a - e), 0.0)
    unit = np.spacing(np.where(finite, np.maximum(scale, np.abs(e)), 1.0).astype(dtype)).astype(np.float64)
    bad = unlike | ~(error <= ulps * unit)
    if not bad.any():
        return
    if rival is not None and not unlike.any():
        off = np.where(finite, np.abs(rival().astype(np.float64) - e), 0.0)
        if error.max() <= off.max():
            return
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    off = error[at] / unit[at]
    raise Mismatch(f"{what}{at} is {actual[at]!r}, expected {expected[at]!r}: {off:.1f} ulp of {unit[at]}")


def memory_order(x, y, rank, what):
    """Channels-last memory in, channels-last memory out."""
    last = [np.moveaxis(a, -rank - 1, -1).flags.c_contiguous for a in (x, y)]
    if last[0] and not x.flags.c_contiguous and y.size:
        require(last[1], f"{what} is not channels last in memory: shape {y.shape}, strides {y.strides}")


def draw_grad(rng, y, dtype):
    """Small whole numbers: their sums are exact in every dtype and order."""
    return rng.integers(-4, 5, y.shape).astype(dtype)


def public(case, suffix=""):
    rank = "" if case.name.startswith("global") else f"{case.rank}d"
    return getattr(numba_pool, f"{case.name}{rank}{suffix}")


def with_out(rng, case, call, result, *args, **kwargs):
    """Sometimes the call once more with `out=`: the given arrays come back with the same values, all else as it was."""
    if case.name.startswith("global") or not chance(rng, 0.25):  # global pooling takes no `out`
        return
    results = result if isinstance(result, tuple) else (result,)
    rooms = [room_for(rng, r, case.rank) for r in results]
    outs = tuple(out for out, _ in rooms)
    again = outcome(call, *args, out=outs if isinstance(result, tuple) else outs[0], **kwargs)
    require_accepted(again, "the call without out= works")
    got = again if isinstance(result, tuple) else (again,)
    for one, value, (out, buffer) in zip(got, results, rooms, strict=True):
        require(one is out, "out= did not come back")
        same(one, value, "out", value.dtype)
        out[...] = 0
        require(np.count_nonzero(buffer) == len(buffer) - out.nbytes, "the memory around out= was written to")


def room_for(rng, a, rank):
    """An array to write a result like `a` into, in some memory order, and the bytes that hold it: all 1 around it."""
    buffer = np.ones(a.nbytes + 256, np.uint8)
    flat = buffer[128 : 128 + a.nbytes].view(a.dtype)
    order = pick(rng, ["first", "last", "fortran"])
    if order == "last":
        moved = np.moveaxis(a, -rank - 1, -1).shape
        return np.moveaxis(flat.reshape(moved), -1, -rank - 1), buffer
    return flat.reshape(a.shape, order="F" if order == "fortran" else "C"), buffer


def untouched(x, before):
    require(np.array_equal(native(x).view(np.uint8), before.view(np.uint8)), "the input was modified")


# PyTorch


def torch_speaks(case):
    """Whether PyTorch has a spelling for these arguments, with the documented meaning."""
    args = case.args
    padding = args.get("padding", 0)
    if isinstance(padding, str) or (isinstance(padding, tuple) and any(isinstance(p, tuple) for p in padding)):
        return False
    if "divisor_override" in args and (case.rank == 1 or isinstance(args["divisor_override"], float)):
        return False
    if case.name == "avg_pool" and "dilation" in args:
        return False
    if case.name == "avg_pool" and case.rank == 3 and case.x.ndim > 3:
        # PyTorch's 3D averages, unlike its 1D and 2D ones, reject inputs that only padding makes as large as the window
        kernel = reference.per_axis(args["kernel_size"], 3)
        integers = all(isinstance(k, int | np.integer) for k in kernel)
        return not integers or all(n >= k for n, k in zip(case.x.shape[-3:], kernel))
    return case.name != "lp_pool"


def torch_call(case, x):
    """The same call by PyTorch; adaptive sizes written out, which it wants for every axis."""
    args = plain(case.args)
    if "random_samples" in args:
        args["_random_samples"] = tensor(args.pop("random_samples"))
    if "adaptive" in case.name and case.x.ndim > case.rank:
        sizes = args["output_size"]
        if sizes is None or (isinstance(sizes, tuple | list) and len(sizes) in (1, case.rank)):
            spatial = case.x.shape[-case.rank :]
            args["output_size"] = tuple(
                n if o is None else o for o, n in zip(reference.per_axis(sizes, case.rank), spatial, strict=True)
            )
    name = case.name
    if name.startswith("global"):
        name, args["output_size"] = name.replace("global", "adaptive"), (1,) * case.rank
    return getattr(F, f"{name}{case.rank}d")(x, **args)


def check_broken(case):
    """PyTorch rejects it where it can be asked; so do we."""
    # PyTorch lets through: any dtype where nothing is computed, the mean of nothing, fractional windows without taps.
    sizes = reference.per_axis(case.args.get("output_size", 2), case.rank)
    lenient = (case.x.ndim == case.rank + 2 and not case.x.shape[0]) or 0 in sizes or set(sizes) == {1}
    lenient |= case.name == "fractional_max_pool"
    if torch_speaks(case) and not lenient and case.x.dtype.kind in "bcf":
        by_torch = outcome(torch_call, case, tensor(case.x))
        require(isinstance(by_torch, Exception), "PyTorch accepts what was meant to be wrong")
    ours = outcome(public(case), case.x, **case.args)
    require(isinstance(ours, REJECTED), f"a wrong argument must be rejected, but numba_pool gave {describe(ours)}")
    return "rejected"


def check_too_large(case, lengths):
    """Windows that leave no output."""
    if torch_speaks(case):
        wide = tensor(case.x.astype(np.float32))
        require(isinstance(outcome(torch_call, case, wide), Exception), "PyTorch accepts windows that leave no output")
    ours = outcome(public(case), case.x, **case.args)
    require(isinstance(ours, REJECTED), f"an output of {lengths} must be rejected, numba_pool gave {describe(ours)}")
    return "rejected"


# Maxima


def torch_maximum(case):
    """Values and indices by PyTorch; halves as float32, integers as int64."""
    x = native(case.x)
    wide = x if x.dtype in FLOATS[:2] else x.astype(np.int64 if x.dtype.kind in "iu" else np.float32)
    args = {**case.args, "return_indices": True}
    y, indices = torch_call(Case(case.name, case.rank, case.x, args), tensor(wide))
    return y.numpy().astype(x.dtype), indices.numpy()


def check_maximum(rng, case, y_expected, indices_expected, autograd):
    """Values and indices, values alone, `out=`, memory order, and the gradient, all of them exactly."""
    x, rank, args = case.x, case.rank, case.args
    forward, before = public(case), native(x)
    dtype = before.dtype
    ours = outcome(forward, x, return_indices=True, **args)
    require_accepted(ours)
    y, indices = ours
    same(y, y_expected, "y", dtype)
    same(indices, indices_expected.astype(np.int32), "indices", np.int32)
    memory_order(x, y, rank, "y")
    with_out(rng, case, forward, ours, x, return_indices=True, **args)
    alone = outcome(forward, x, **args)
    require_accepted(alone)
    same(alone, y_expected, "y without indices", dtype)
    memory_order(x, alone, rank, "y without indices")
    with_out(rng, case, forward, alone, x, **args)
    untouched(x, before)

    g = draw_grad(rng, y, np.float32 if dtype.kind in "iu" else dtype)
    laid_out, backward = lay_out(rng, g), public(case, "_backward")
    grad = outcome(backward, laid_out, indices, x.shape)
    require_accepted(grad)
    expected = reference.scatter_add(g, indices_expected, x.shape, rank) if g.size else np.zeros(x.shape, g.dtype)
    same(grad, expected, "grad_input", g.dtype)
    with_out(rng, case, backward, grad, laid_out, indices, x.shape)
    if autograd and g.size and dtype in FLOATS[:2]:
        leaf = tensor(before).requires_grad_()
        torch_call(case, leaf).backward(tensor(g))
        same(grad, leaf.grad.numpy(), "grad_input (autograd)", g.dtype)
    return "compared"


def draw_max(rng, rank):
    shape = draw_shape(rng, rank)
    x = lay_out(rng, draw_values(rng, shape, draw_dtype(rng, integers=True)))
    return Case("max_pool", rank, x, draw_windows(rng, rank, shape[-rank:]))


def output_lengths(case):
    """Per axis, those below one included."""
    spatial, rank, args = case.x.shape[-case.rank :], case.rank, plain(case.args)
    kernel = reference.per_axis(args["kernel_size"], rank)
    stride = kernel if args["stride"] is None else reference.per_axis(args["stride"], rank)
    dilation = reference.per_axis(args.get("dilation", 1), rank)
    pads = reference.pads(args.get("padding", 0), spatial, kernel, stride, dilation)
    return [
        reference.output_length(n, k, s, before, after, d, args["ceil_mode"])
        for n, k, s, (before, after), d in zip(spatial, kernel, stride, pads, dilation, strict=True)
    ]


def check_max(rng, case):
    lengths = output_lengths(case)
    if min(lengths) < 1:
        return check_too_large(case, lengths)
    if not torch_speaks(case) or native(case.x).dtype == np.uint64:
        expected = reference.max_pool(native(case.x), **plain(case.args), rank=case.rank)
        return check_maximum(rng, case, *expected, autograd=False)
    y, indices = torch_maximum(case)
    # Where no tap is valid PyTorch's index lies outside of the plane; documented are the lowest value and -1.
    axes = reference.sliding(case.x.shape[-case.rank :], **plain(case.args))
    empty = np.zeros([len(axis) for axis in axes], bool)
    for i, axis in enumerate(axes):
        np.moveaxis(empty, i, -1)[...] |= [not taps for taps, _ in axis]
    empty = np.broadcast_to(empty, y.shape)
    y[empty], indices[empty] = reference.lowest(y.dtype), -1
    return check_maximum(rng, case, y, indices, autograd=not empty.any())


def draw_adaptive(rng, rank, name):
    shape = draw_shape(rng, rank)
    x = lay_out(rng, small_enough(name, draw_values(rng, shape, draw_dtype(rng, integers=True))))
    least = 0 if chance(rng, 0.1) else 1
    sizes = [None if chance(rng, 0.1) else int(rng.integers(least, n + 3)) for n in shape[-rank:]]
    return Case(name, rank, x, {"output_size": pick(rng, [spelled(rng, sizes), pick(rng, [1, 2, 3, 7, None])])})


def draw_adaptive_max(rng, rank):
    return draw_adaptive(rng, rank, "adaptive_max_pool")


def check_adaptive_max(rng, case):
    if case.x.dtype.kind in "iu":  # unknown to PyTorch
        expected = reference.adaptive_max_pool(native(case.x), **case.args, rank=case.rank)
        return check_maximum(rng, case, *expected, autograd=False)
    return check_maximum(rng, case, *torch_maximum(case), autograd=True)


def draw_fractional(rng, rank):
    shape = draw_shape(rng, rank)
    x = lay_out(rng, draw_values(rng, shape, draw_dtype(rng, integers=False)))
    kernel = [int(rng.integers(1, min(n, 4) + 1)) for n in shape[-rank:]]
    args = {"kernel_size": pick(rng, [tuple(kernel), min(kernel)])}
    kernel = reference.per_axis(args["kernel_size"], rank)
    most = [n - k + 1 for n, k in zip(shape[-rank:], kernel, strict=True)]
    sizes = [int(rng.integers(1, m + 1)) for m in most]
    args["output_size"] = pick(rng, [tuple(sizes), min(sizes)])
    lead = shape[:-rank] if len(shape) == rank + 2 else (1, *shape[:-rank])
    dtype = x.dtype.newbyteorder("=")
    u = np.minimum(rng.random((*lead, rank)).astype(dtype), np.nextafter(dtype.type(1), dtype.type(0)))
    return Case("fractional_max_pool", rank, x, {**args, "random_samples": u})


def check_fractional(rng, case):
    x, rank, args = native(case.x), case.rank, case.args
    sizes, kernel = reference.per_axis(args["output_size"], rank), reference.per_axis(args["kernel_size"], rank)
    # PyTorch's 3D wrongly rejects windows that fill the input: o + k - 1 == length
    fills = any(o + k - 1 == n for n, k, o in zip(x.shape[-rank:], kernel, sizes, strict=True))
    if rank == 3 and fills:
        samples = args["random_samples"].reshape(*x.shape[:-rank], rank)
        expected = reference.fractional_max(x, args["kernel_size"], args["output_size"], samples)
        return check_maximum(rng, case, *expected, autograd=False)
    y, indices = torch_call(Case(case.name, rank, case.x, {**args, "return_indices": True}), tensor(x))
    return check_maximum(rng, case, array(y), array(indices), autograd=True)


def draw_unpool(rng, rank):
    shape = draw_shape(rng, rank)
    x = draw_values(rng, shape, draw_dtype(rng, integers=False))
    kernel = [int(n) for n in rng.integers(1, 4, rank)]
    stride = list(kernel) if chance(rng, 0.5) else [int(n) for n in rng.integers(1, 4, rank)]
    padding = [int(rng.integers(0, k // 2 + 1)) for k in kernel]
    args = {"kernel_size": spelled(rng, kernel), "stride": spelled(rng, stride, tuple(kernel))}
    args["padding"] = spelled(rng, padding)
    size = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(shape[-rank:], stride, kernel, padding, strict=True)]
    if chance(rng, 0.4):
        size = [n + int(rng.integers(1 - s, s)) for n, s in zip(size, stride, strict=True)]
        args["output_size"] = tuple(size) if chance(rng, 0.5) or len(shape) == rank + 1 else (*shape[:2], *size)
    plane, lead = int(np.prod(np.maximum(size, 0))), shape[:-rank]
    taps, planes = int(np.prod(shape[-rank:])), int(np.prod(lead))
    if plane >= taps and chance(rng, 0.7):  # each position at most once
        indices = np.array([rng.permutation(plane)[:taps] for _ in range(planes)], np.int64)
    else:
        indices = rng.integers(0, max(plane, 1), (planes, taps))
    if chance(rng, 0.06) and indices.size:
        indices.flat[rng.integers(indices.size)] = pick(rng, [-1, plane, -(2**31), 2**31 - 1, 2**40])
    indices = indices.reshape(shape)
    if np.abs(indices).max(initial=0) < 2**31 and chance(rng, 0.7):
        indices = indices.astype(np.int32)
    return Case("max_unpool", rank, lay_out(rng, x), {"indices": lay_out(rng, indices), **args})


def check_unpool(rng, case):
    x, rank, args = native(case.x), case.rank, dict(case.args)
    indices = args.pop("indices")
    size = args.get("output_size") or reference.unpool_size(
        x.shape[-rank:], args["kernel_size"], args["stride"], args["padding"]
    )
    asked = {k: tuple(reference.per_axis(v, rank)) for k, v in plain(args).items() if v is not None}
    size, flat = size[-rank:], native(indices).astype(np.int64)
    plane = int(np.prod(size))
    forward, backward = public(case), public(case, "_backward")
    before = outcome(forward, case.x, indices, **args)
    if min(size) < 1 or (flat.size and (flat.min() < 0 or flat.max() >= plane)):
        if flat.size:
            by_torch = outcome(getattr(F, f"max_unpool{rank}d"), tensor(x.astype(np.float32)), tensor(flat), **asked)
            accepted = not isinstance(by_torch, Exception) and by_torch.numel()
            require(not accepted, "PyTorch accepts what was meant to be wrong")
        require(isinstance(before, REJECTED), f"size {size} or the indices must be rejected, got {describe(before)}")
        return "rejected"
    require_accepted(before)
    same(before, reference.max_unpool(x, flat, size), "y", x.dtype)
    with_out(rng, case, forward, before, case.x, indices, **args)
    rows = np.sort(flat.reshape(-1, int(np.prod(x.shape[-rank:]))), axis=1)
    unique = not np.any(rows[:, 1:] == rows[:, :-1])
    g = draw_grad(rng, before, x.dtype)
    grad = outcome(backward, lay_out(rng, g), indices)
    require_accepted(grad)
    same(grad, reference.gather(g, flat, rank), "grad_input", x.dtype)
    if x.dtype in FLOATS[:2] and unique:  # with duplicates PyTorch's result depends on who comes last
        leaf = tensor(x).requires_grad_()
        y = getattr(F, f"max_unpool{rank}d")(leaf, tensor(flat), **asked)
        same(before, y.detach().numpy(), "y (PyTorch)", x.dtype)
        y.backward(tensor(g))
        same(grad, leaf.grad.numpy(), "grad_input (autograd)", x.dtype)
    return "compared"


# Sums


def check_sums(rng, case, backward_args, exact_integers, by_torch, by_reference, by_reference_backward):
    """Forward and backward of an average: integers exactly, halves as float32 rounded once, floats to some ulp."""
    x, rank, args = native(case.x), case.rank, case.args
    forward, backward = public(case), public(case, "_backward")
    y = outcome(forward, case.x, **args)
    require_accepted(y)
    memory_order(case.x, y, rank, "y")
    with_out(rng, case, forward, y, case.x, **args)
    untouched(case.x, x)
    if x.dtype.kind in "iu":
        same(y, exact_integers(x), "y", x.dtype)
    else:
        single = x.astype(np.float32) if x.itemsize < 4 else x
        y_single = y
        if x.itemsize < 4:
            y_single = forward(single, **args)
            with np.errstate(over="ignore"):
                same(y, y_single.astype(x.dtype), "y, which is to be the float32 result rounded once,", x.dtype)
        oracle = (lambda a: by_torch(tensor(a)).numpy()) if by_torch else by_reference
        double = single.astype(np.float64)
        with np.errstate(invalid="ignore"):
            expected, scale = oracle(double), np.abs(oracle(np.abs(double)))
        rival = (lambda: oracle(single)) if by_torch else None
        close(y_single, expected, scale, "y", single.dtype, ulps_for(single), rival)

    dtype = np.dtype(np.float32) if x.dtype.kind in "iu" else x.dtype
    g = draw_values(rng, y.shape, dtype, pick(rng, ["normal", "ties"]))
    laid_out = lay_out(rng, g)
    grad = outcome(backward, laid_out, x.shape, **backward_args)
    require_accepted(grad)
    with_out(rng, case, backward, grad, laid_out, x.shape, **backward_args)
    single = g.astype(np.float32) if g.itemsize < 4 else g
    if g.itemsize < 4:
        grad_single = backward(single, x.shape, **backward_args)
        same(grad, grad_single.astype(dtype), "grad_input, which is to be the float32 result rounded once,", dtype)
        grad = grad_single

    def gradient(a):
        if by_torch is None:
            return by_reference_backward(a)
        if not a.size:  # no output, no gradient: PyTorch's 3D raises here
            return np.zeros(x.shape)
        leaf = torch.zeros(x.shape, dtype=tensor(a).dtype, requires_grad=True)
        by_torch(leaf).backward(tensor(a))
        return leaf.grad.numpy()

    double = single.astype(np.float64)
    # A negative divisor turns every sign, hence the second absolute value.
    scale = np.abs(gradient(np.abs(double)))
    close(grad, gradient(double), scale, "grad_input", single.dtype, ulps_for(single), lambda: gradient(single))
    return "compared"


def ulps_for(a):
    """Sums of float64 are naive, here as in PyTorch: 18 ulp were seen over 180 equal taps."""
    return 4 if a.dtype == np.float32 else 64


def draw_avg(rng, rank):
    shape = draw_shape(rng, rank)
    x = lay_out(rng, small_enough("avg_pool", draw_values(rng, shape, draw_dtype(rng, integers=True))))
    args = draw_windows(rng, rank, shape[-rank:], dilated=chance(rng, 0.35))
    args["count_include_pad"] = chance(rng, 0.5)
    if chance(rng, 0.25):
        # quotients of integers have to stay in their range
        divisors = {"i": [300, 1000, -300], "u": [300, 1000], "f": [1, 2, 3, 7, -3, 2.5]}
        args["divisor_override"] = pick(rng, divisors.get(x.dtype.kind, divisors["f"]))
    return Case("avg_pool", rank, x, args)


def check_avg(rng, case):
    lengths = output_lengths(case)
    if min(lengths) < 1:
        return check_too_large(case, lengths)
    args, rank = plain(case.args), case.rank
    speaks = torch_speaks(case)

    def integers(x):
        if speaks and x.dtype != np.uint64:
            return torch_call(case, tensor(x.astype(np.int64))).numpy().astype(x.dtype)
        return reference.avg_pool(x, **args, rank=rank)

    return check_sums(
        rng, case, case.args, integers,
        (lambda x: torch_call(case, x)) if speaks else None,
        lambda x: reference.avg_pool(x, **args, rank=rank),
        lambda g: reference.avg_pool_backward(g, case.x.shape, **args, rank=rank),
    )  # fmt: skip


def draw_adaptive_avg(rng, rank):
    return draw_adaptive(rng, rank, "adaptive_avg_pool")


def check_adaptive_avg(rng, case):
    def integers(x):
        return reference.adaptive_avg_pool(x, **case.args, rank=case.rank)

    return check_sums(rng, case, {}, integers, lambda x: torch_call(case, x), None, None)


def draw_lp(rng, rank):
    shape = draw_shape(rng, rank)
    p = pick(rng, [1, 2, 2, 3, 4, 1.5, 2.5, 0.5, np.inf, -np.inf])
    # a power below one has an infinite slope at zero
    kind = pick(rng, ["normal", "positive"]) if p == 0.5 else None
    x = lay_out(rng, draw_values(rng, shape, draw_dtype(rng, integers=False), kind))
    args = draw_windows(rng, rank, shape[-rank:], dilated=chance(rng, 0.5))
    if chance(rng, 0.4):
        del args["padding"]
    return Case("lp_pool", rank, x, {"norm_type": p, **args})


def check_lp(rng, case):
    lengths = output_lengths(case)
    if min(lengths) < 1:
        return check_too_large(case, lengths)
    x, rank, args = native(case.x), case.rank, case.args
    p, windows = args["norm_type"], {k: v for k, v in plain(args).items() if k != "norm_type"}
    forward, backward = public(case), public(case, "_backward")
    y = outcome(forward, case.x, **args)
    require_accepted(y)
    memory_order(case.x, y, rank, "y")
    with_out(rng, case, forward, y, case.x, **args)
    untouched(case.x, x)
    single, y_single = x, y
    if x.itemsize < 4:
        single = x.astype(np.float32)
        y_single = forward(single, **args)
        same(y, y_single.astype(x.dtype), "y, which is to be the float32 result rounded once,", x.dtype)
    double = single.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = reference.lp_pool(double, p, **windows, rank=rank)
    close(y_single, expected, 0.0, "y", single.dtype, ulps=0 if np.isinf(p) else 16)
    overhangs = any(
        len(taps) < k
        for axis, k in zip(
            reference.sliding(x.shape[-rank:], **windows), reference.per_axis(args["kernel_size"], rank), strict=True
        )
        for taps, _ in axis
    )
    if np.isfinite(p) and not overhangs and "dilation" not in args and np.all(double >= 0):
        asked = {k: windows[k] for k in ("kernel_size", "stride") if windows[k] is not None}
        asked = {k: tuple(reference.per_axis(v, rank)) for k, v in asked.items()}
        if rank == 1:
            asked = {k: v[0] for k, v in asked.items()}
        by_torch = getattr(F, f"lp_pool{rank}d")(tensor(double), p, ceil_mode=args["ceil_mode"], **asked).numpy()
        close(y_single, by_torch, 0.0, "y (PyTorch)", single.dtype, ulps=20)

    if not np.all(np.isfinite(double)):
        return "compared"
    g = draw_values(rng, y.shape, x.dtype, pick(rng, ["normal", "ties"]))
    laid_out = lay_out(rng, g)
    grad = outcome(backward, laid_out, case.x, y, **args)
    require_accepted(grad)
    with_out(rng, case, backward, grad, laid_out, case.x, y, **args)
    if x.itemsize < 4:
        again = backward(g.astype(np.float32), single, y.astype(np.float32), **args)
        same(grad, again.astype(x.dtype), "grad_input, which is to be the float32 result rounded once,", x.dtype)
        return "compared"
    if np.isinf(p):
        planes = np.sort(np.abs(double).reshape(-1, int(np.prod(x.shape[-rank:]))), axis=1)
        if np.any(planes[:, 1:] == planes[:, :-1]):
            return "compared"  # which of several extremes gets the gradient is not documented
        _, indices = reference.max_pool(np.copysign(np.abs(double), p), **windows, rank=rank)

        def gradient(g, x):
            return reference.scatter_add(g, indices, x.shape, rank) * np.sign(x)
    else:

        def gradient(g, x):
            with np.errstate(invalid="ignore", divide="ignore"):
                return reference.lp_pool_backward(g, x, p, **windows, rank=rank)

    g = g.astype(np.float64)
    scale = gradient(np.abs(g), np.abs(double))
    close(grad, gradient(g, double), scale, "grad_input", x.dtype, ulps=64)
    return "compared"


# Global


def draw_global(rng, rank, name):
    shape = draw_shape(rng, rank)
    if len(shape) == rank + 1:
        shape = (1, *shape)
    x = small_enough(name, draw_values(rng, shape, draw_dtype(rng, integers=True)))
    return Case(name, rank, lay_out(rng, x), {})


def draw_global_max(rng, rank):
    return draw_global(rng, rank, "global_max_pool")


def draw_global_avg(rng, rank):
    return draw_global(rng, rank, "global_avg_pool")


def check_global_max(rng, case):
    if case.x.dtype.kind in "iu":
        expected = reference.adaptive_max_pool(native(case.x), 1, rank=case.rank)
        return check_maximum(rng, case, *expected, autograd=False)
    return check_maximum(rng, case, *torch_maximum(case), autograd=True)


def check_global_avg(rng, case):
    def integers(x):
        return reference.adaptive_avg_pool(x, 1, rank=case.rank)

    return check_sums(rng, case, {}, integers, lambda x: torch_call(case, x), None, None)


# (draw, check, ranks, relative frequency, whether an argument can be broken)
FAMILIES = {
    "max": (draw_max, check_max, (1, 2, 3), 30, True),
    "avg": (draw_avg, check_avg, (1, 2, 3), 24, True),
    "lp": (draw_lp, check_lp, (1, 2, 3), 10, True),
    "adaptive_max": (draw_adaptive_max, check_adaptive_max, (1, 2, 3), 9, True),
    "adaptive_avg": (draw_adaptive_avg, check_adaptive_avg, (1, 2, 3), 9, True),
    "fractional": (draw_fractional, check_fractional, (2, 3), 6, True),
    "unpool": (draw_unpool, check_unpool, (1, 2, 3), 6, False),
    "global_max": (draw_global_max, check_global_max, (1, 2, 3), 3, False),
    "global_avg": (draw_global_avg, check_global_avg, (1, 2, 3), 3, False),
}


def draw_case(seed, number):
    """Family, case, whether an argument was broken on purpose, and the generator for what else is to be drawn."""
    rng = np.random.default_rng([seed, number])
    odds = np.array([odds for _, _, _, odds, _ in FAMILIES.values()])
    family = list(FAMILIES)[rng.choice(len(odds), p=odds / odds.sum())]
    draw, _, ranks, _, breakable = FAMILIES[family]
    case = draw(rng, pick(rng, ranks))
    breaks = breakable and chance(rng, 0.08)
    return family, broken(rng, case) if breaks else case, breaks, rng


def run_case(seed, number, families=tuple(FAMILIES)):
    """Draw and check one case; its family and the outcome, or a Mismatch that says how to repeat it."""
    family, case, breaks, rng = draw_case(seed, number)
    if family not in families:
        return family, "left out"
    try:
        return family, check_broken(case) if breaks else FAMILIES[family][1](rng, case)
    except Exception as error:
        what = error if isinstance(error, Mismatch) else describe(error)
        raise Mismatch(f"{what}\n  {case}\n  python tests/fuzz_torch.py --seed {seed} --only {number}") from error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=50000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="run this case alone and show where it fails")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--failures", type=int, default=20, help="stop after so many mismatches")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.only is not None:
        print(*run_case(options.seed, options.only, options.families))
        return 0
    counts: dict[tuple[str, str], int] = {}
    failures, began = 0, time.monotonic()
    for number in range(options.start, options.start + options.cases):
        try:
            key = run_case(options.seed, number, options.families)
        except Mismatch as mismatch:
            failures += 1
            print(f"case {number}: {mismatch}", flush=True)
            if failures == options.failures:
                break
            continue
        counts[key] = counts.get(key, 0) + 1
    for (family, result), n in sorted(counts.items()):
        print(f"{family:14}{result:10}{n:7}")
    print(f"{sum(counts.values())} cases agree, {failures} do not, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
