"""How `fuzz_torch.py` compares results, and what it asks PyTorch."""

import numpy as np
import reference
import torch
import torch.nn.functional as F
from fuzz_draw import BFLOAT16, chance, pick

import numba_pool

REJECTED = (ValueError, TypeError)


class Mismatch(AssertionError):
    """Package and oracle disagree."""


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
