"""Calls that were made before, by the shortest way.

To check the arguments of a call, to look up its kernel and to wrap its arrays takes 3 us, as long as PyTorch takes for
a whole pooling of 8x8 elements. What a call came down to is therefore kept as a recipe, and the next such call finds it
by the shape and dtype of its array and by the identity of its other arguments: as keys (2, 2), (2.0, 2) and (True, 2)
are the same, and to compare types takes longer than all else. The arguments are kept beside the recipe, so that no
other object can have their identity, and only arguments that never change are kept. A tuple that is made anew for
every call, such as `x.shape[2:]`, is another object each time: such calls are found by their arguments' values and
types, which takes 3 us more.

Recipes serve plain arrays: contiguous in one of the two memory orders, of a native dtype, writeable, without `out=`.
All others take the long way every time.
"""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._arrays import INT32, TO_FIRST, TO_LAST, Planes, Shape, raw
from .._memory import LEAST, empty
from .._runtime import launch
from ..kernels._compile import unchecked
from . import _plans as plans

MOST = 1024  # recipes of a function
CONSTANTS = frozenset({int, bool, float, str, type(None)})
INTS = frozenset({int})
IDENTITIES = 4  # where those of the arguments begin in a signature


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
    kept: tuple[Any, ...] = ()  # arguments of the call
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

    def run(self, x: Any) -> Any:
        """The result for a plain array, or (result, indices)."""
        # At once: attribute by attribute takes as long as the array to be made.
        worker, units, traffic, _, indexed, rest, seen, _, to_last, to_first, memory_shape, make, _ = self
        y = make(memory_shape, x.dtype)
        source, target = x.ravel("K"), y.ravel()  # in memory order
        if seen is not None:
            source, target = source.view(seen), target.view(seen)
        if not indexed:
            launch(worker, units, traffic, source, target, *rest)
            return y if to_last is None else y.transpose(to_first)
        index = make(memory_shape, INT32)
        launch(worker, units, traffic, source, target, index.ravel(), *rest)
        return self.result(y), self.result(index)


def constant(value: Any) -> bool:
    """Whether the object can never change."""
    return all(map(constant, value)) if value.__class__ is tuple else value.__class__ in CONSTANTS


def exact(value: Any) -> Any:
    """What is equal only for equal constants of the same types."""
    return tuple(map(exact, value)) if value.__class__ is tuple else (value.__class__, value)


class Recipes(dict[Any, Recipe]):
    """Those of one function, by the signatures of their calls."""

    def __init__(self) -> None:
        super().__init__()
        self.by_value: dict[Any, Recipe] = {}
        plans.memory.places += self, self.by_value

    def alike(self, key: Any, arguments: tuple[Any, ...]) -> Recipe | None:
        """That of a call that differs in the identity of its arguments only."""
        if not self or key is None or not constant(arguments):
            return None
        return self.by_value.get((key[:IDENTITIES], exact(arguments)))

    def keep(self, key: Any, recipe: Recipe, arguments: tuple[Any, ...], x: Planes) -> None:
        """Keep what a call came down to, if that is all there is to it every time its signature comes.

        After the call: then its kernel is compiled.
        """
        if key is None or not constant(arguments):
            return
        _, dtype, strides, *_ = key
        if not dtype.isnative or (strides is not None) != x.last:
            return
        nbytes = sum(table.nbytes for table in recipe.rest if isinstance(table, np.ndarray))
        if 4 * nbytes > plans.MOST_TABLES:  # not kept by `memoised` either
            return
        if len(self) >= MOST:
            self.clear()
            self.by_value.clear()
        index = (np.empty(0, INT32),) if recipe.indexed else ()
        # As `run` calls it; for gradients of maxima, which are called otherwise (int64 indices too), nothing is found.
        source = raw(x.flat, recipe.seen)
        recipe = recipe._replace(worker=unchecked(recipe.worker, (source, source, *index, *recipe.rest)),
                                 seen=None if source is x.flat else source.dtype)
        make = np.empty if 8 * prod(recipe.shape) < LEAST else empty  # what is small does not come from the pool
        if x.last:
            axes = len(x.shape), x.rank
            recipe = recipe._replace(to_last=TO_LAST[axes], to_first=TO_FIRST[axes],
                                     memory_shape=tuple(recipe.shape[i] for i in TO_LAST[axes]))
        else:
            recipe = recipe._replace(memory_shape=recipe.shape)
        self[key] = self.by_value[key[:IDENTITIES], exact(arguments)] = recipe._replace(kept=arguments, make=make)


def signature(x: Any, out: Any, arguments: tuple[Any, ...], shape: Any = None) -> Any:
    """What two calls have in common if one recipe serves both; None where none does.

    `shape` is an argument that is a new object every time, as `x.shape` is, and compared by value.
    """
    if out is not None or x.__class__ is not np.ndarray:
        return None
    flags = x.flags
    if not flags.behaved or not (shape is None or (shape.__class__ is tuple and INTS.issuperset(map(type, shape)))):
        return None
    return (x.shape, x.dtype, None if flags.c_contiguous else x.strides, shape, *map(id, arguments))
