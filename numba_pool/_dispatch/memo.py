"""What is kept between calls, and how much: what was not used for long goes first.

No locks: several threads call at once, and a signal's handler or the garbage collector may call in the middle of a call
of the same thread. So nothing here takes two steps that belong together. Dictionaries are read and written by single
operations, which Python makes atomic.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .._runtime import planned, watching

Shape = tuple[int, ...]
C = TypeVar("C")
MOST_CALLS, MOST_TABLES = 2048, 64 << 20  # in all, and bytes of their tables


def memory_of(values: tuple[Any, ...]) -> int:
    """Bytes of all tables in a tuple, and in tuples in it."""
    total = 0
    for value in values:
        if isinstance(value, np.ndarray):
            total += value.nbytes
        elif isinstance(value, tuple):
            total += memory_of(value)
    return total


PLAIN = frozenset({int, bool, str, tuple, type(None)})


def kinds(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types inside a tuple. As keys (2, 2) and (2.0, True) would be the same, which they are not as arguments."""
    types = tuple(map(type, value))
    if not PLAIN.issuperset(types):
        raise TypeError(f"{value!r} is no key")
    return (types, *[kinds(v) for v in value if v.__class__ is tuple]) if tuple in types else types


class Generation(dict[Any, tuple[Any, int]]):
    """What is kept, by its keys: each value with the bytes of its tables."""

    # Of all tables. Of two threads that add at once, one may be left out: the next generation begins anew.
    nbytes = 0


class Memory:
    """Bounds what is kept between calls: two generations, each half of what is allowed.

    What is new, or used again, is in the younger one. When that is full it becomes the older one, and the older one is
    dropped with whatever was not used meanwhile.
    """

    def __init__(self) -> None:
        self.young, self.old = Generation(), Generation()
        self.recipes: list[dict[Any, Any]] = []  # which refer to tables of the younger generation

    @property
    def nbytes(self) -> int:
        """Of all tables that are kept."""
        return sum(nbytes for _, nbytes in {**self.old, **self.young}.values())

    def clear(self) -> None:
        self.young, self.old = Generation(), Generation()
        self.forget_recipes()

    def forget_recipes(self) -> None:
        for recipes in self.recipes:
            recipes.clear()

    def use(self, key: Any) -> Any:
        """What is kept under a key, or None."""
        found = self.young.get(key)
        if found is None:
            found = self.old.get(key)
            if found is None:
                return None
            self.put(key, found)
        return found[0]

    def keep(self, key: Any, value: Any) -> None:
        """Keep it, unless its tables are more than a quarter of all that are allowed."""
        nbytes = value.nbytes
        if 4 * nbytes <= MOST_TABLES:
            self.put(key, (value, nbytes))

    def put(self, key: Any, entry: tuple[Any, int]) -> None:
        """Put it into the younger generation, which begins anew if it would be more than half of what is allowed."""
        young = self.young
        if 2 * len(young) >= MOST_CALLS or 2 * (entry[1] + young.nbytes) > MOST_TABLES:
            self.old, self.young = young, Generation()
            # They may be all that refers to tables of the generation that is dropped.
            self.forget_recipes()
            young = self.young
        young.nbytes += entry[1]
        young[key] = entry


memory = Memory()


def memoised(function: Callable[..., C]) -> Callable[..., C]:
    """Keep what a call comes down to, keyed by its arguments and their types, lists as tuples; what has no hash besides
    is worked out anew, which takes 100 us.

    The first argument is the shape of an array, which holds nothing but ints.
    """

    def call(shape: Shape, *args: Any) -> C:
        key: Any
        known = args
        try:
            if list in map(type, args):
                known = tuple(tuple(a) if a.__class__ is list else a for a in args)
            key = function, shape, kinds(known), known
            kept: C | None = memory.use(key)
        except TypeError:
            key = kept = None
        if kept is not None:
            if watching:
                planned(kept)
            return kept
        # Outside of any handler, whose error a user would read first; of what the key says, as a list may have changed.
        result = function(shape, *known)
        if key is not None:
            memory.keep(key, result)
        if watching:
            planned(result)
        return result

    return call
