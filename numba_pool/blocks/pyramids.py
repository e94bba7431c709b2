"""Pyramids: an array, coarsened again and again; and the regions that independent workers can make of them."""

from __future__ import annotations  # help() shows them by name

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, product
from math import lcm, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .. import _arguments as arguments
from .._arguments import bounded, integer
from .._arrays import Array, Shape
from . import options as given
from .coarsening import blocks, coarsened, delivered, result_for, seen, write
from .kinds import Reduction
from .options import BOUNDARIES, Options
from .plan import FEW, Call, Operands

METHODS = ("carried", "cascade", "base")
CARRIED, CASCADED = ("mean", "sum"), ("max", "min", "first", "any", "all")

Slices = tuple[slice, ...]
Factors = tuple[int, ...]  # one for each axis


class Region(NamedTuple):
    """A part of an array, and what of every level is made of it.

    Attributes
    ----------
    source : tuple of slices
        The part, of level 0.
    targets : tuple of tuples of slices
        For each level after level 0, what comes of the part.
    factors : tuple of tuples of ints
        For each level after level 0, how many elements of level 0 one of its elements stands for, along each axis. They
        are the same in all regions, and give the shape of a level:
        ``output_shape(coarsen, shape, factors[0], boundary=boundary)``.
    boundary : str or dict of axis: str
        As it was given to `pyramid_regions`.
    """

    source: Slices
    targets: tuple[Slices, ...]
    factors: tuple[Factors, ...]
    boundary: Any


def level_factors(factors: Any, levels: Any, axes: Any, shape: Shape, boundary: Any,
                  smallest: int = 1) -> list[Factors]:
    """The factors from level 0 to each level after it."""
    ndim = len(shape)
    every = tuple(range(ndim))
    words = given.per_axis(boundary, ndim, "boundary", BOUNDARIES, every)
    if levels is not None:
        levels = bounded(integer(levels, "levels", "an int or None"), "levels", 0)

    def step(factor: Any) -> Factors:
        if isinstance(factor, Mapping) and axes is not None:
            raise ValueError("axes must be None if factors name axes")
        if axes is None and given.takes_colours(factor, shape):
            raise ValueError(f"axes must be given for an array of shape {shape}, whose last axis may hold colours: "
                             f"pass axes={(ndim - 3, ndim - 2)}, or axes={every} if all are meant")
        if axes is not None:
            named = axes if isinstance(axes, (tuple, list)) else (axes,)
            factor = dict.fromkeys(given.each_once(named, ndim, "axes"), factor)
        by_axis = given.factors(factor, ndim, "factors")
        return tuple(by_axis.get(axis, 1) for axis in range(ndim))

    if isinstance(factors, list):
        if levels not in (None, len(factors)):
            raise ValueError(f"levels must be the number of factors, {len(factors)}, or None, got {levels}")
        each = [step(factor) for factor in factors]
    else:
        by = step(factors)
        if levels is None:
            levels = how_many(shape, by, words, smallest)
        each = [by] * levels
    result = list(accumulate(each, lambda whole, by: tuple(a * b for a, b in zip(whole, by))))
    if result and max(result[-1], default=1) > given.MOST:
        raise ValueError(f"levels must be so few that factors come to at most {given.MOST}, got {len(each)} levels, "
                         f"which come to {max(result[-1])}")
    return result


def how_many(shape: Shape, by: Factors, words: Mapping[int, str], smallest: int) -> int:
    """Levels until every axis that is coarsened has at most `smallest` elements, or one that is trimmed too few."""
    if all(f == 1 for f in by):
        raise ValueError(f"factors must have one of at least 2 if levels is None, got {by}")
    lengths, levels = list(shape), 0
    while any(f > 1 and n > smallest for n, f in zip(lengths, by)):
        if any(words[axis] == "trim" and n < f for axis, (n, f) in enumerate(zip(lengths, by))):
            break
        lengths = [n // f if words[axis] == "trim" else -(-n // f) for axis, (n, f) in enumerate(zip(lengths, by))]
        levels += 1
    return levels


def is_partial(options: Options) -> bool:
    """Whether elements can be missing."""
    return options.omits or any(v is not None for v in (options.where, options.missing, options.min_count))


def method_of(method: Any, options: Options, dtype: np.dtype[Any]) -> str:
    """How levels are made."""
    if method is None:
        if options.name in CARRIED:
            return "carried"
        once = is_partial(options) or not (options.dtype is None or options.dtype == dtype)
        return "cascade" if options.name in CASCADED and not once else "base"
    given.one_of(method, "method", METHODS)
    if method == "carried" and options.name not in CARRIED:
        raise ValueError(f"method='carried' is for the reductions 'mean' and 'sum', got {options.reduction!r}")
    if method == "cascade" and (options.where is not None or options.weights is not None):
        raise ValueError("method='cascade' takes neither where nor weights, which are of level 0")
    return str(method)


class Sums(NamedTuple):
    """Sums of an array's whole blocks, of which coarser levels are made."""

    sums: Array
    factors: Factors
    begins: tuple[int, ...]  # of the first block along each axis of the array


def sums_of(x: Array, factors: Factors, call: Call, side: Any) -> Sums:
    """Sums that are exact for integers, and of float64 for floats."""
    cut = blocks(x.shape, dict(enumerate(factors)), "trim", side)
    R = call.reduction
    state = given.state_of("mean", np.dtype(R.x), np.dtype(R.out), cut.n)
    sums = result_for(cut.shape, np.dtype(state), x)
    write(Call(Reduction("sum", R.x, state, state), call.value, 0, sums.dtype.type(0), call.ignored),
          Operands(seen(x), sums, None, None), cut)
    return Sums(sums, factors, tuple(part.begin for part in cut.regions[0]))


def from_sums(x: Array, of: Sums, factors: Factors, options: Options, boundary: Any, side: Any) -> Array:
    """What `coarsened` gives, most of it made of sums."""
    cut = blocks(x.shape, dict(enumerate(factors)), boundary, side)
    call, dtype = given.call_for(options, x.dtype, cut.n)
    R = call.reduction
    result = result_for(cut.shape, dtype, x)
    for region in cut.regions:
        at: Any = tuple(part.target for part in region)
        if tuple(part.factor for part in region) != factors:
            part = x[tuple(p.source for p in region)]
            by = {axis: p.factor for axis, p in enumerate(region)}
            result[at] = coarsened(part, blocks(part.shape, by, "exact", "left"), options)
            continue
        sums = of.sums[tuple(slice((p.begin - begin) // f, (p.begin - begin + p.many * p.factor) // f)
                             for p, f, begin in zip(region, of.factors, of.begins))]
        by = {axis: a // b for axis, (a, b) in enumerate(zip(factors, of.factors))}
        inner = blocks(sums.shape, by, "exact", "left")
        y = result_for(inner.shape, np.dtype(R.out), sums)
        state = given.state_of("mean", np.dtype(R.x), np.dtype(R.out), cut.n)
        name, each = ("carried", prod(of.factors)) if R.name == "mean" else ("sum", 1)
        carried = Reduction(name, str(sums.dtype), R.out, state, (), R.option, half=R.half)
        write(call._replace(reduction=carried, least=0, value=sums.dtype.type(0), ignored=sums.dtype.type(0),
                            fill=each),
              Operands(sums, y, None, None), inner)
        result[at] = delivered(y, dtype)
    return result


def made(x: Array, factors: Sequence[Factors], options: Options, boundary: Any, side: Any, method: str) -> list[Array]:
    """The levels after an array."""

    def coarser(source: Array, by: Factors) -> Array:
        return coarsened(source, blocks(source.shape, dict(enumerate(by)), boundary, side), options)

    if method == "cascade":
        steps = zip(factors, [(1,) * x.ndim, *factors])
        return list(accumulate((tuple(a // b for a, b in zip(*step)) for step in steps), coarser, initial=x))[1:]
    # Where each sum is one number. Else level 0 is read again, which gives the same.
    carries = (method == "carried" and x.dtype.itemsize < 8 and not is_partial(options) and options.weights is None
               and given.call_for(options, x.dtype, 1)[0].reduction.state != "pair")
    few = max(sum(prod(by) <= FEW for by in factors) - 1, 0)  # levels before that whose sums are carried
    result = [coarser(x, by) for by in factors[:few]]
    rest = factors[few:]
    if not carries or len(rest) < 2 or any(n < f for n, f in zip(x.shape, rest[0])):
        return result + [coarser(x, by) for by in rest]
    sums = sums_of(x, rest[0], given.call_for(options, x.dtype, prod(rest[0]))[0], side)
    return result + [from_sums(x, sums, by, options, boundary, side) for by in rest]


def pyramid(x: ArrayLike, factors: Any = 2, levels: int | None = None, reduction: Any = "mean", *, axes: Any = None,
            smallest: int = 1, method: str | None = None, boundary: Any = "short", side: Any = "left",
            **keywords: Any) -> list[Array]:
    """Coarsen an array again and again.

    Parameters
    ----------
    x : array
        As for `coarsen`.
    factors : int, tuple of ints, dict of axis: factor, or list of these
        From each level to the next; a list has one for each level.
    levels : int, optional
        How many levels come after x. By default as many as it takes until every axis that is coarsened has at most
        `smallest` elements.
    reduction : str or @njit function
        As for `coarsen`.
    axes : int or tuple of ints, optional
        Those that an int among `factors` stands for; by default all. They have to be given where the last axis looks
        like that of colours: if it has 3 or 4 elements, and the two before it at least 16 each.
    smallest : int
        Ends the levels where their number is not given.
    method : {'carried', 'cascade', 'base'}, optional
        'carried', for 'mean' and 'sum': sums and numbers of elements of x are carried from level to level, and each
        level is rounded once. 'base': every level is made of x. 'cascade': every level is made of the one before. The
        first two give what `coarsen` gives for the product of factors. By default means and sums are carried; maxima,
        minima and first elements, and whether any or all are true, cascade, which changes nothing, unless elements can
        be missing; everything else is made of x.
    boundary, side
        As for `coarsen`. A level has ``ceil(n / factor)`` elements of n for 'short', and ``floor(n / factor)`` for
        'trim'.
    **keywords
        `nan_policy`, `where`, `missing`, `min_count`, `weights`, `dtype`, `rounding`, `median`, `ties` and `ignore`, as
        for `coarsen`.

    Returns
    -------
    list of arrays
        x first, then its levels.

    Raises
    ------
    ValueError, TypeError
        As `coarsen`; also for a `method` that does not fit the reduction.

    Examples
    --------
    >>> import numpy as np
    >>> from numba_pool import pyramid
    >>> [level.shape for level in pyramid(np.zeros((3, 100, 60), np.uint8), axes=(1, 2), levels=3)]
    [(3, 100, 60), (3, 50, 30), (3, 25, 15), (3, 13, 8)]
    """
    a = given.array(x)
    options = given.with_mask(x, given.from_keywords(reduction, keywords))
    least = bounded(integer(smallest, "smallest"), "smallest", 1)
    return [a, *made(a, level_factors(factors, levels, axes, a.shape, boundary, least), options, boundary, side,
                     method_of(method, options, a.dtype))]


def pyramid_regions(shape: Sequence[int], chunks: Any, factors: Any = 2, levels: Any = None, *, axes: Any = None,
                    boundary: Any = "short") -> Iterator[Region]:
    """Cut an array into regions whose levels can be made independently, by `pyramid_block`, and written independently.

    Parameters
    ----------
    shape : tuple of ints
        Shape of level 0.
    chunks : int, tuple of ints, dict of axis: length, or list of these
        Chunks in which every level after level 0 is stored; a list has one for each. A region covers whole chunks of
        all levels, so that no two regions write to one chunk.
    factors, levels, axes, boundary
        As for `pyramid`.

    Yields
    ------
    Region
        `source`, slices of level 0; `targets`, for each level after it the slices that come of it; `factors`, from
        level 0 to each of them; and `boundary`. Regions are disjoint, and cover every level. A list of them has as many
        entries as there are tasks; nothing is read for it.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range or of the wrong type.

    Examples
    --------
    >>> from numba_pool import pyramid_regions
    >>> for region in pyramid_regions((100, 64), 16, levels=2):
    ...     print(region.source, region.targets[-1])
    (slice(0, 64, None), slice(0, 64, None)) (slice(0, 16, None), slice(0, 16, None))
    (slice(64, 100, None), slice(0, 64, None)) (slice(16, 25, None), slice(0, 16, None))
    """
    lengths = arguments.lengths(shape, "shape")
    by = level_factors(factors, levels, axes, lengths, boundary)
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
    """Make what a region of level 0 gives of every level after it.

    Parameters
    ----------
    block : array
        ``x[region.source]``; `where` and `weights`, too, are those of the region.
    region : Region
        One of `pyramid_regions`.
    reduction, method, **keywords
        As for `pyramid`; but factors and `boundary` are the region's.

    Returns
    -------
    list of arrays
        One for each of ``region.targets``, where they belong.

    Raises
    ------
    ValueError, TypeError
        As `pyramid`; also for a block of another shape, and a region that does not begin at multiples of the factors.

    Examples
    --------
    >>> import numpy as np
    >>> from numba_pool import pyramid_block, pyramid_regions
    >>> x = np.arange(12.0).reshape(2, 6)
    >>> region = next(pyramid_regions(x.shape, 1, levels=1))
    >>> pyramid_block(x[region.source], region)
    [array([[3.5]])]
    """
    a = given.array(block, "block")
    if not isinstance(region, Region):
        raise TypeError(f"region must be one of pyramid_regions, got {type(region).__name__}")
    if has := sorted(keywords.keys() & {"factors", "levels", "axes", "boundary"}):
        raise TypeError(f"{', '.join(has)} must be given to pyramid_regions, not to pyramid_block: the region has it")
    lengths = tuple(s.stop - s.start for s in region.source)
    if a.shape != lengths:
        raise ValueError(f"block must have the shape of region.source, {lengths}, got {a.shape}")
    for factors in region.factors:
        if any(s.start % f for s, f in zip(region.source, factors)):
            raise ValueError(f"region must begin at multiples of the factors of every level, {factors} among them, got "
                             f"{tuple(s.start for s in region.source)}: take regions from pyramid_regions")
    options = given.with_mask(block, given.from_keywords(reduction, keywords))
    shapes = [tuple(s.stop - s.start for s in target) for target in region.targets]
    filled = [factors for factors, shape in zip(region.factors, shapes) if 0 not in shape]
    levels = made(a, filled, options, region.boundary, "left", method_of(method, options, a.dtype))
    dtype = given.call_for(options, a.dtype, 1)[1]
    return levels + [np.empty(shape, dtype) for shape in shapes[len(filled):]]
