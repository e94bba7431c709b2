"""What coarsening means, written down from the definitions: one block after the other, integers as Python's."""

import itertools
import math
from fractions import Fraction

import numpy as np


def cut(length, factor, boundary, side):
    """(begin, end) of every block of an axis."""
    whole, rest = divmod(length, factor)
    if boundary == "exact":
        assert rest == 0
    first = rest if side == "right" else 0
    full = [(first + i * factor, first + (i + 1) * factor) for i in range(whole)]
    if rest == 0 or boundary == "trim":
        return full
    return [(0, rest), *full] if side == "right" else [*full, (length - rest, length)]


def rounded(q, rounding):
    """A fraction as an integer."""
    if rounding == "even":
        return round(q)
    if rounding == "truncate":
        return math.trunc(q)
    return math.floor(abs(q) + Fraction(1, 2)) * (1 if q >= 0 else -1)


def is_missing(v, valid, omit, missing):
    return not valid or (omit and v != v) or (missing is not None and v == missing)


def exact(v):
    """An element as a number that adds up without rounding, or as it is, if it is no finite one."""
    return Fraction(v) if math.isfinite(v) else v


def divided(total, n):
    return Fraction(total, n) if isinstance(total, Fraction) else total / n


def add(values):
    """The sum: a fraction, or an infinity or NaN."""
    if all(map(math.isfinite, values)):
        return sum(map(Fraction, values), Fraction(0))
    return float(sum(float(v) for v in values if not math.isfinite(v)))


def nearest(q, dtype):
    """The float of a dtype that is nearest to a finite number, of two the one whose last bit is 0. A number halfway
    beyond the largest is infinite.
    """
    bits, least, largest = {  # bits of a number, the exponent of the smallest, and the largest finite number
        "float16": (11, -24, 65504),
        "bfloat16": (8, -133, 255 * 2**120),
        "float32": (24, -149, (2**24 - 1) * 2**104),
    }[np.dtype(dtype).name]
    q = Fraction(q)
    exponent = q.numerator.bit_length() - q.denominator.bit_length() - 1 - bits  # of a unit, or up to two too small
    unit = Fraction(2) ** max(exponent, least)
    while abs(q) >= unit * 2**bits:
        unit *= 2
    r = round(q / unit) * unit
    return float(r) if abs(r) <= largest else math.copysign(math.inf, q)


def as_float(q):
    try:
        return float(q)
    except OverflowError:
        return math.inf if q > 0 else -math.inf


def median_of(values, median):
    if any(v != v for v in values):
        return math.nan
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    if median == "lower" or low == high:
        return low
    return high if median == "upper" else divided(add([low, high]), 2)


def mode_of(values, ties, ignore):
    def same(a, b):
        return a == b or (a != a and b != b)

    candidates = [v for v in values if ignore is None or not same(v, ignore)] or values
    counts = [sum(same(v, w) for w in candidates) for v in candidates]
    best = [v for v, count in zip(candidates, counts) if count == max(counts)]
    if ties == "first":
        return best[0]
    numbers = [v for v in best if v == v]
    return min(numbers) if numbers else best[0]


def of_block(values, name, options, weights):
    """The reduction of the elements that are there, as a Python number or a fraction."""
    n = len(values)
    if name == "count":
        return n
    if name == "sum":
        return add(values)
    if name == "mean" and weights:
        total = add(weights)
        return math.nan if total == 0 else divided(add([exact(v) * exact(w) for v, w in zip(values, weights)]), total)
    if name == "mean":
        return divided(add(values), n) if n else math.nan
    if name in ("max", "min"):
        nans = [v for v in values if v != v]
        return nans[0] if nans else (max if name == "max" else min)(values)
    if name == "any":
        return any(v != 0 for v in values)
    if name == "all":
        return all(v != 0 for v in values)
    if name == "median":
        return median_of(values, options.get("median", "midpoint"))
    if name == "mode":
        return mode_of(values, options.get("ties", "first"), options.get("ignore"))
    if name in ("var", "std"):
        if not all(map(math.isfinite, values)):
            return math.nan
        mean = divided(add(values), n)
        variance = as_float(divided(add([(Fraction(v) - mean) ** 2 for v in values]), n))
        return math.sqrt(variance) if name == "std" else variance
    raise ValueError(name)


def dtype_of(name, dtype, weights):
    is_integer = dtype.kind in "biu"
    if name == "count":
        return np.dtype(np.int64)
    if name in ("any", "all"):
        return np.dtype(bool)
    if name == "sum" and is_integer:
        return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    if is_integer and (name in ("std", "var") or weights is not None):
        return np.dtype(np.float64)
    return dtype


def coarsen(x, windows, reduction="mean", *, boundary="exact", side="left", nan_policy="propagate", where=None,
            missing=None, min_count=None, weights=None, dtype=None, **options):
    """`numba_pool.coarsen` for windows of all axes in order, boundary and side as dicts or words."""
    name = reduction.removeprefix("nan")
    omit = nan_policy == "omit" or reduction != name
    word = {i: boundary if isinstance(boundary, str) else boundary.get(i, "exact") for i in windows}
    sides = {i: side if isinstance(side, str) else side.get(i, "left") for i in windows}
    cuts = [cut(n, windows[i], word[i], sides[i]) if i in windows else [(j, j + 1) for j in range(n)]
            for i, n in enumerate(x.shape)]
    out = np.dtype(dtype or dtype_of(name, x.dtype, weights))
    least = max(min_count or 0, 0 if name in ("sum", "count", "any", "all") else 1)
    valid = np.broadcast_to(True if where is None else where, x.shape)
    weighing = None if weights is None else np.broadcast_to(weights, x.shape)
    y = np.empty([len(c) for c in cuts], out)
    for at in np.ndindex(*y.shape):
        block = list(itertools.product(*(range(*c[i]) for c, i in zip(cuts, at))))
        there = [i for i in block if not is_missing(x[i].item(), valid[i], omit, missing)]
        if len(there) < least:
            if out.kind not in "biu":
                y[at] = math.nan
            elif missing is not None and name not in ("count", "any", "all"):
                y[at] = missing
            else:
                limits = (False, True) if out.kind == "b" else (np.iinfo(out).min, np.iinfo(out).max)
                y[at] = {"max": limits[0], "min": limits[1]}.get(name, 0)
            continue
        if name == "first":
            y[at] = x[block[0]]
            continue
        values = [x[i].item() for i in there]
        result = of_block(values, name, options, weights is not None and [weighing[i].item() for i in there])
        if out.kind in "iu" and isinstance(result, Fraction):
            whole = rounded(result, options.get("rounding", "even")) if name in ("mean", "median") else int(result)
            y[at] = np.array(whole % 2**64, np.uint64).astype(out)
        elif out.itemsize == 2 and out.kind not in "iu" and (isinstance(result, Fraction) or math.isfinite(result)):
            y[at] = nearest(result, out)
        else:
            y[at] = as_float(result) if isinstance(result, Fraction) else result
    return y
