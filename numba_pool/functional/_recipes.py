"""Calls that were made before, by the shortest way.

To check the arguments of a call, to look up its kernel and to wrap its arrays takes 3 us, as long as PyTorch takes for
a whole pooling of 8x8 elements. What a call came down to is therefore kept as a recipe, and the next such call finds it
by the shape and dtype of its array and by the identity of its other arguments: as keys (2, 2), (2.0, 2) and (True, 2)
are the same, and to compare types takes longer than all else. The arguments are kept beside the recipe, so that no
other object can have their identity, and only arguments that never change are kept.

Recipes serve plain arrays: C order, native, writeable, without `out=`. All others take the long way every time.
"""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._arrays import INT32, NATIVE, Shape
from .._memory import LEAST, empty
from .._runtime import launch

MOST, LARGEST = 1024, 1 << 16  # bounds of what each function keeps: 64 MiB
CONSTANTS = frozenset({int, bool, float, str, type(None)})
INTS = frozenset({int})


class Recipe(NamedTuple):
    """A kernel and what it is called with beside the arrays."""

    worker: Callable[..., Any]
    driver: Callable[..., Any]
    units: int
    traffic: int
    shape: Shape  # of the result
    indexed: bool  # whether int32 indices follow the result
    rest: tuple[Any, ...]  # tables last
    make: Callable[..., Any]  # the result's memory, by shape and dtype
    kept: tuple[Any, ...] = ()  # arguments of the call

    def run(self, x: Any) -> Any:
        """The result for a plain array, or (result, indices)."""
        y = self.make(self.shape, x.dtype)
        if not self.indexed:
            launch(self.worker, self.driver, self.units, self.traffic, x.ravel(), y.ravel(), *self.rest)
            return y
        index = self.make(self.shape, INT32)
        launch(self.worker, self.driver, self.units, self.traffic, x.ravel(), y.ravel(), index.ravel(), *self.rest)
        return y, index


def make_recipe(worker: Any, driver: Any, units: int, traffic: int, shape: Shape, indexed: bool, *rest: Any) -> Recipe:
    make = np.empty if 8 * prod(shape) < LEAST else empty  # what is small does not come from the pool
    return Recipe(worker, driver, units, traffic, shape, indexed, rest, make)


def constant(value: Any) -> bool:
    """Whether the object can never change."""
    return all(map(constant, value)) if value.__class__ is tuple else value.__class__ in CONSTANTS


class Recipes(dict[Any, Recipe]):
    """Those of one function, by the signatures of their calls."""

    def keep(self, key: Any, recipe: Recipe, arguments: tuple[Any, ...]) -> None:
        """Keep what a call came down to, if that is all there is to it every time its signature comes."""
        if key is None or not constant(arguments) or getattr(recipe.rest[-1], "nbytes", 0) > LARGEST:
            return
        dtype = key[1]
        if dtype.char not in NATIVE or not dtype.isnative:
            return
        if len(self) >= MOST:
            self.clear()
        self[key] = recipe._replace(kept=arguments)


def signature(x: Any, out: Any, arguments: tuple[Any, ...], shape: Any = None) -> Any:
    """What two calls have in common if one recipe serves both; None where none does.

    `shape` is an argument that is a new object every time, as `x.shape` is, and compared by value.
    """
    plain = out is None and x.__class__ is np.ndarray and x.flags.carray
    if plain and (shape is None or (shape.__class__ is tuple and INTS.issuperset(map(type, shape)))):
        return (x.shape, x.dtype, shape, *map(id, arguments))
    return None
