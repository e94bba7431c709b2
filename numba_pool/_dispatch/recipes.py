"""Calls that were made before, by the shortest way.

To check the arguments of a call, to look up its kernel and to wrap its arrays takes 3 us, as long as PyTorch takes for
a whole pooling of 8x8 elements. What a call came down to is therefore kept as a recipe, and the next such call finds it
by the shape and dtype of its array and by its other arguments. As keys (2, 2), (2.0, 2) and (True, 2) are the same, so
what is found is of arguments that are the same objects; or of the same types, for a tuple that is made anew for every
call, such as `x.shape[2:]`, which takes 1.5 us more. Only arguments that never change are kept.

Recipes serve plain arrays: contiguous in one of the two memory orders, of a native dtype, writeable; and so an `out=`
must be, which shares no memory with them. All others take the long way every time.
"""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import _runtime
from .._arrays import INT32, TO_FIRST, TO_LAST, Planes, Shape, raw
from .._memory import LEAST, empty
from .._runtime import launch
from ..kernels._compile import unchecked
from . import memo
from .memo import memory, memory_of

MOST = 1024  # recipes of a function
CONSTANTS = frozenset({int, bool, float, str, type(None)})
INTS = frozenset({int})
ARGUMENTS = 7  # that a signature has room for
NO_ARGUMENTS = (None,) * ARGUMENTS


class Recipe(NamedTuple):
    """A kernel and what it is called with beside the arrays."""

    worker: Any
    units: int
    traffic: int
    shape: Shape  # of the result
    indexed: bool  # whether int32 indices follow the result
    rest: tuple[Any, ...]  # tables last
    # The dtype as which the worker takes arrays, if not their own; for halves not in packs only once this is kept.
    seen: Any = None
    key: tuple[Any, ...] = ()  # signature of the calls that it serves
    to_last: tuple[int, ...] | None = None  # the axes of channels-last memory, or None for channels-first memory
    to_first: tuple[int, ...] = ()  # and back
    memory_shape: Shape = ()  # of the result, in memory order
    make: Callable[..., Any] = empty
    otherwise: Any = None  # the recipe of a kernel that does what this one may find that it cannot

    def fallen(self) -> "Recipe":
        """The same call by the other kernel."""
        other: Recipe = self.otherwise
        return self._replace(worker=other.worker, units=other.units, rest=other.rest, otherwise=None)

    def result(self, y: Any) -> Any:
        return y if self.to_last is None else y.transpose(self.to_first)

    def place(self, out: Any, dtype: Any, *others: Any) -> Any:
        """The caller's array for a result, in memory order; None if it is not plain, or shares memory with others."""
        if out.__class__ is not np.ndarray or out.dtype != dtype or out.shape != self.shape:
            return None
        place = out if self.to_last is None else out.transpose(self.to_last)
        if not place.flags.carray or any(np.may_share_memory(out, other) for other in others):
            return None
        if self.seen is not None and out.__array_interface__["data"][0] % self.seen.itemsize:  # of packs
            return None
        return place

    def into(self, x: Any, out: Any) -> Any:
        """`out` with the results for a plain array in it, or None if there is no `place` for one of them."""
        if not self.indexed:
            y = self.place(out, x.dtype, x)
            if y is None:
                return None
            self.run(x, y)
            return out
        if out.__class__ is not tuple or len(out) != 2:
            return None
        y = self.place(out[0], x.dtype, x)
        index = None if y is None else self.place(out[1], INT32, x, y)
        if index is None:
            return None
        self.run(x, y, index)
        return out

    def run(self, x: Any, y: Any = None, index: Any = None) -> Any:
        """The result for a plain array, or (result, indices); in a `place`, if there is one."""
        # At once: attribute by attribute takes as long as the array to be made.
        worker, units, traffic, _, indexed, rest, seen, _, to_last, to_first, memory_shape, make, _ = self
        if y is None:
            y = make(memory_shape, x.dtype)
        source, target = x.ravel("K"), y.ravel()  # in memory order
        if seen is not None:
            source, target = source.view(seen), target.view(seen)
        if indexed:
            if index is None:
                index = make(memory_shape, INT32)
            rest = index.ravel(), *rest
        if units and traffic < _runtime.SERIAL_BYTES:  # as `launch` would, 0.1 us later
            worker(0, units, (source, target, *rest))
        else:
            launch(worker, units, traffic, source, target, *rest)
        if to_last is not None:
            y = y.transpose(to_first)
            return (y, index.transpose(to_first)) if indexed else y
        return (y, index) if indexed else y


class Asked(np.ndarray[Any, Any]):
    """An array for which a call is made to learn its recipe. As no array of NumPy's own class it goes the long way."""

    recipe: Recipe | None = None


def constant(value: Any) -> bool:
    """Whether the object can never change."""
    return all(map(constant, value)) if value.__class__ is tuple else value.__class__ in CONSTANTS


def same(a: Any, b: Any) -> bool:
    """Whether arguments that are equal are of the same types, too, all the way down."""
    return a is b or (a.__class__ is b.__class__ and (a.__class__ is not tuple or all(map(same, a, b))))


class Recipes(dict[Any, Recipe]):
    """Those of one function, by the signatures of their calls."""

    def __init__(self) -> None:
        super().__init__()
        memory.recipes.append(self)

    def find(self, x: Any, arguments: tuple[Any, ...], shape: Any = None) -> Recipe | None:
        """The recipe for a call of `ARGUMENTS` arguments, if there is one."""
        key = signature(x, arguments, shape)
        try:
            recipe = self.get(key)
        except Exception:  # a list among them; or whatever an argument raises: the long way says it better
            return None
        if recipe is None:
            return None
        a, b, c, d, e, f, g = arguments
        h, i, j, k, m, n, o = kept = recipe.key[-1]
        # One by one: to make as many ids, or to map `is`, takes 0.1 us longer.
        if a is h and b is i and c is j and d is k and e is m and f is n and g is o:
            return recipe
        if not all(map(same, arguments, kept)):
            return None
        self[key] = recipe = recipe._replace(key=key)  # the next call may well bring the same objects
        return recipe

    def again(self, x: Any, out: Any, arguments: tuple[Any, ...], shape: Any = None) -> Any:
        """The result of a call like one that was made before; None if there is no recipe for it."""
        recipe = self.find(x, arguments, shape)
        if recipe is None:
            return None
        return recipe.run(x) if out is None else recipe.into(x, out)

    def keep(self, recipe: Recipe, x: Any, arguments: tuple[Any, ...], shape: Any, planes: Planes) -> None:
        """Keep what a call came down to, if that is all there is to it every time its signature comes.

        After the call: then its kernel is compiled.
        """
        if x.__class__ is Asked:
            x.recipe = recipe
            return
        key = signature(x, arguments, shape)
        if key is None or not constant(arguments) or self.find(x, arguments, shape) is not None:
            return  # the last: it was only that `out` is not plain
        _, dtype, strides, *_ = key
        if not dtype.isnative or (strides is not None) != planes.last:
            return
        if 4 * memory_of(recipe.rest) > memo.MOST_TABLES:  # not kept by `memoised` either
            return
        if len(self) >= MOST:
            self.clear()  # to look for the oldest takes several steps, between which other threads change it
        index = (np.empty(0, INT32),) if recipe.indexed else ()
        # As `run` calls it; for gradients of maxima, which are called otherwise (int64 indices too), nothing is found.
        source = raw(planes.flat, recipe.seen)
        recipe = recipe._replace(worker=unchecked(recipe.worker, (source, source, *index, *recipe.rest)),
                                 seen=None if source is planes.flat else source.dtype)
        make = np.empty if 8 * prod(recipe.shape) < LEAST else empty  # what is small does not come from the pool
        if planes.last:
            axes = len(planes.shape), planes.rank
            recipe = recipe._replace(to_last=TO_LAST[axes], to_first=TO_FIRST[axes],
                                     memory_shape=tuple(recipe.shape[i] for i in TO_LAST[axes]))
        else:
            recipe = recipe._replace(memory_shape=recipe.shape)
        self[key] = recipe._replace(key=key, make=make)


def signature(x: Any, arguments: tuple[Any, ...], shape: Any = None) -> Any:
    """What two calls have in common if one recipe serves both and their arguments are of the same types; None where
    none does.

    `shape` is an argument that is a new object every time, as `x.shape` is, and compared by value.
    """
    if x.__class__ is not np.ndarray:
        return None
    flags = x.flags
    strides = None if flags.carray else x.strides
    if strides is not None and (flags.c_contiguous or not flags.behaved):
        return None
    if not (shape is None or (shape.__class__ is tuple and INTS.issuperset(map(type, shape)))):
        return None
    return x.shape, x.dtype, strides, shape, arguments
