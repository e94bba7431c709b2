"""Pyramids: an array, coarsened again and again; and the regions that independent workers can make of them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import lcm, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._arguments import bounded, integer
from .._arrays import Array, Shape
from . import options as given
from .coarsening import blocks, coarsened
from .options import Options

METHODS = ("carried", "cascade", "base")
CARRIED, CASCADED = ("mean", "sum"), ("max", "min", "first", "any", "all")
# Blocks of more elements than that are made of the sums of smaller ones. Up to there, to read the array again is faster.
SUMMED = 64

Slices = tuple[slice, ...]
Factors = tuple[int, ...]  # one for each axis


class Region(NamedTuple):
    """A part of an array, and what of every level is made of it."""

    source: Slices  # of level 0
    targets: tuple[Slices, ...]  # of the levels after it
    factors: tuple[Factors, ...]  # from level 0 to each of them
    boundary: Any


def level_factors(factors: Any, levels: Any, axes: Any, shape: Shape, smallest: int = 1) -> list[Factors]:
    """The factors from level 0 to each level after it."""
    ndim = len(shape)
    if levels is not None:
        levels = bounded(integer(levels, "levels"), "levels", 0)
    each = list(factors) if isinstance(factors, list) else None
    if each is not None and levels not in (None, len(each)):
        raise ValueError(f"levels must be the number of factors, {len(each)}, or None, got {levels}")

    def step(factor: Any) -> tuple[int, ...]:
        if isinstance(factor, Mapping) and axes is not None:
            raise ValueError("axes must be None if factors name axes")
        if not isinstance(factor, Mapping) and axes is not None:
            factor = {given.axis_of(axis, ndim, "axes"): factor for axis in (axes if isinstance(axes, Sequence) else [axes])}
        named = given.factors(factor, ndim, "factors")
        return tuple(named.get(axis, 1) for axis in range(ndim))

    result: list[tuple[int, ...]] = []
    whole = (1,) * ndim
    if each is not None:
        for factor in each:
            whole = tuple(a * b for a, b in zip(whole, step(factor)))
            result.append(whole)
        return result
    by = step(factors)
    if levels is None and all(f == 1 for f in by):
        raise ValueError(f"factors must have one of at least 2 if levels is None, got {factors!r}")
    sizes = list(shape)
    while len(result) < levels if levels is not None else any(f > 1 and n > smallest for f, n in zip(by, sizes)):
        whole = tuple(a * b for a, b in zip(whole, by))
        sizes = [-(-n // f) for n, f in zip(sizes, by)]
        result.append(whole)
    return result


def method_of(method: Any, options: Options) -> str:
    """How levels are made."""
    partial = options.omits or any(v is not None for v in (options.where, options.missing, options.min_count))
    if method is None:
        return ("carried" if options.name in CARRIED else
                "cascade" if options.name in CASCADED and not partial else "base")
    given.one_of(method, "method", METHODS)
    if method == "carried" and options.name not in CARRIED:
        raise ValueError(f"method='carried' is for the reductions 'mean' and 'sum', got {options.reduction!r}")
    if method == "cascade" and (options.where is not None or options.weights is not None):
        raise ValueError("method='cascade' takes neither where nor weights, which are of level 0")
    return str(method)


def sizes(shape: Shape, factors: Factors, boundary: Any, side: Any) -> Array:
    """How many elements each block has."""
    n = np.ones((1,) * len(shape), np.int64)
    for axis, parts in enumerate(blocks(shape, dict(enumerate(factors)), boundary, side).axes):
        along = np.concatenate([np.full(p.target.stop - p.target.start, p.factor) for p in parts])
        n = n * along.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return n


def quotients(sums: Array, n: Array, dtype: np.dtype[Any], rounding: str) -> Array:
    """Sums by numbers of elements, rounded once."""
    if dtype.kind not in "iu":
        return (sums / n).astype(dtype)
    q, rest = np.divmod(sums, n)
    up = {"even": (2 * rest > n) | ((2 * rest == n) & (q % 2 == 1)),
          "nearest": (2 * rest > n) | ((2 * rest == n) & (q >= 0)),
          "truncate": (q < 0) & (rest > 0)}[rounding]
    return np.asarray((q + up).astype(dtype))


def made(x: Array, factors: Sequence[Factors], options: Options, boundary: Any, side: Any, method: str) -> list[Array]:
    """The levels after an array."""
    cut = [blocks(x.shape, dict(enumerate(f)), boundary, side) for f in factors]
    dtype = given.result_dtype(options, x.dtype) if options.name else None
    carries = (method == "carried" and x.dtype.itemsize < 8 and dtype is not None and dtype.itemsize <= 8
               and not options.omits and all(v is None for v in (options.where, options.missing, options.weights,
                                                                 options.min_count)))
    result: list[Array] = []
    sums, summed = None, (1,) * x.ndim
    for level, by in enumerate(factors):
        before = factors[level - 1] if level else (1,) * x.ndim
        further = tuple(a // b for a, b in zip(by, before))
        if method == "cascade":
            source = result[-1] if result else x
            result.append(coarsened(source, blocks(source.shape, dict(enumerate(further)), boundary, side), options))
        elif carries and prod(by) > SUMMED:
            wide = Options("sum", dtype=np.float64 if x.dtype.kind not in "biu" else np.int64)
            if sums is None:
                sums, summed = coarsened(x, blocks(x.shape, dict(enumerate(before)), boundary, side), wide), before
            by_sums = {axis: a // b for axis, (a, b) in enumerate(zip(by, summed))}
            total = coarsened(sums, blocks(sums.shape, by_sums, boundary, side), wide)
            n = sizes(x.shape, by, boundary, side) if options.name == "mean" else np.ones((1,) * x.ndim, np.int64)
            result.append(quotients(total, n, dtype, options.rounding))
        else:
            result.append(coarsened(x, cut[level], options))
    return result


def pyramid(x: ArrayLike, factors: Any = 2, levels: Any = None, reduction: Any = "mean", *, axes: Any = None,
            smallest: int = 1, method: Any = None, boundary: Any = "short", side: Any = "left",
            **keywords: Any) -> list[Array]:
    a = given.array(x)
    options = given.checked(Options(reduction, **keywords))
    least = bounded(integer(smallest, "smallest"), "smallest", 1)
    return [a, *made(a, level_factors(factors, levels, axes, a.shape, least), options, boundary, side,
                     method_of(method, options))]


def pyramid_regions(shape: Sequence[int], chunks: Any, factors: Any = 2, levels: Any = None, *, axes: Any = None,
                    boundary: Any = "short") -> Iterator[Region]:
    lengths = tuple(bounded(integer(n, "shape"), "shape", 0) for n in shape)
    by = level_factors(factors, levels, axes, lengths)
    ndim = len(lengths)
    every = chunks if isinstance(chunks, list) else [chunks] * max(len(by), 1)
    if len(every) != max(len(by), 1):
        raise ValueError(f"chunks must be those of all levels, or a list of {len(by)}, one for each, got {len(every)}")
    unit = [1] * ndim
    for level, f in zip(every, by or [(1,) * ndim]):
        size = given.factors(level, ndim, "chunks")
        unit = [lcm(u, f[i] * size.get(i, 1)) for i, u in enumerate(unit)]
    results = [blocks(lengths, dict(enumerate(f)), boundary, "left").shape for f in by]
    return regions(lengths, unit, by, results, boundary)


def regions(shape: Shape, unit: Sequence[int], by: Sequence[Factors], results: Sequence[Shape],
            boundary: Any) -> Iterator[Region]:
    """Regions of a size, one after the other."""
    for begin in product(*(range(0, n, size) for n, size in zip(shape, unit))):
        end = tuple(min(b + size, n) for b, size, n in zip(begin, unit, shape))
        targets = tuple(tuple(slice(b // f, m if e == n else e // f)
                              for b, e, n, f, m in zip(begin, end, shape, factors, result))
                        for factors, result in zip(by, results))
        yield Region(tuple(map(slice, begin, end)), targets, tuple(by), boundary)


def pyramid_block(block: ArrayLike, region: Region, reduction: Any = "mean", *, method: Any = None,
                  **keywords: Any) -> list[Array]:
    a = given.array(block)
    lengths = tuple(s.stop - s.start for s in region.source)
    if a.shape != lengths:
        raise ValueError(f"block must have the shape of region.source, {lengths}, got {a.shape}")
    for factors in region.factors:
        if any(s.start % f for s, f in zip(region.source, factors)):
            raise ValueError(f"region must begin at multiples of the factors of every level, {factors} among them, got "
                             f"{tuple(s.start for s in region.source)}: take regions from pyramid_regions")
    options = given.checked(Options(reduction, **keywords))
    shapes = [tuple(s.stop - s.start for s in target) for target in region.targets]
    filled = [factors for factors, shape in zip(region.factors, shapes) if 0 not in shape]
    levels = made(a, filled, options, region.boundary, "left", method_of(method, options))
    dtype = given.call_for(options, a.dtype, 1)[1]
    return levels + [np.empty(shape, dtype) for shape in shapes[len(filled):]]
