"""What `fuzz_torch.py` draws: shapes, values, memory orders, windows, and arguments that are wrong."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(t) for t in (np.float32, np.float64, np.float16)] + [BFLOAT16]
FLOAT_ODDS = [0.5, 0.26, 0.12, 0.12]
INTEGERS = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
# Windows that real networks use, and that kernels have fast paths for: kernel, stride, padding.
POPULAR = [(2, 2, 0), (3, 2, 1), (3, 1, 1), (3, 2, 0), (5, 1, 2), (2, 1, 0), (3, 3, 0), (4, 4, 0), (9, 1, 4), (7, 2, 3)]


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
        reach = pick(rng, [0, 0, 3, 20])  # beyond the window, which then lies in the padding alone
        most = [d * (k - 1) + reach for k, d in zip(kernel, dilation, strict=True)]
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


def draw_adaptive(rng, rank, name):
    shape = draw_shape(rng, rank)
    x = lay_out(rng, small_enough(name, draw_values(rng, shape, draw_dtype(rng, integers=True))))
    least = 0 if chance(rng, 0.1) else 1
    sizes = [None if chance(rng, 0.1) else int(rng.integers(least, n + 3)) for n in shape[-rank:]]
    return Case(name, rank, x, {"output_size": pick(rng, [spelled(rng, sizes), pick(rng, [1, 2, 3, 7, None])])})


def draw_global(rng, rank, name):
    shape = draw_shape(rng, rank)
    if len(shape) == rank + 1:
        shape = (1, *shape)
    x = small_enough(name, draw_values(rng, shape, draw_dtype(rng, integers=True)))
    return Case(name, rank, lay_out(rng, x), {})
