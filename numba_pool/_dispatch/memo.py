"""What is kept between calls, and how much: the least recently used goes first."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .._runtime import planned, watching

Shape = tuple[int, ...]
C = TypeVar("C")
MOST_CALLS, MOST_TABLES = 1024, 64 << 20  # of each function, and bytes of all tables
LARGE_TABLES = 1 << 14  # bytes of a call's tables, more than which no recipe may keep alone


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


class Memory:
    """Bounds what is kept between calls. What was not used for longest goes first."""

    def __init__(self) -> None:
        self.kept: OrderedDict[Any, int] = OrderedDict()  # (number of a memo, key): bytes of its tables
        self.memos: list[OrderedDict[Any, Any]] = []
        self.recipes: list[dict[Any, Any]] = []  # which refer to tables of calls
        self.nbytes = 0

    def clear(self) -> None:
        for place in (*self.memos, *self.recipes, self.kept):
            place.clear()
        self.nbytes = 0

    def use(self, number: int, key: Any) -> Any:
        """What is kept under a key, or None."""
        found = self.memos[number].get(key)
        if found is not None:
            try:
                self.kept.move_to_end((number, key))
                self.memos[number].move_to_end(key)
            except KeyError:  # another thread has dropped it
                pass
        return found

    def keep(self, number: int, key: Any, value: Any) -> None:
        """Keep it, and drop others for it. More than a quarter of all tables are not kept."""
        nbytes = value.nbytes
        if 4 * nbytes > MOST_TABLES:
            return
        memo = self.memos[number]
        memo[key] = value
        self.nbytes += nbytes - self.kept.get((number, key), 0)
        self.kept[number, key] = nbytes
        if len(memo) > MOST_CALLS:
            self.drop(number, next(iter(memo)))
        while self.nbytes > MOST_TABLES:
            self.drop(*next(iter(self.kept)))

    def drop(self, number: int, key: Any) -> None:
        nbytes = self.kept.pop((number, key), 0)
        self.nbytes -= nbytes
        self.memos[number].pop(key, None)
        if nbytes > LARGE_TABLES:
            for recipes in self.recipes:
                recipes.clear()


memory = Memory()


def memoised(function: Callable[..., C]) -> Callable[..., C]:
    """Keep what a call comes down to, keyed by its arguments and their types, lists as tuples; what has no hash besides
    is worked out anew, which takes 100 us.

    The first argument is the shape of an array, which holds nothing but ints.
    """
    number = len(memory.memos)
    memory.memos.append(OrderedDict())

    def call(shape: Shape, *args: Any) -> C:
        key: Any
        known = args
        try:
            if list in map(type, args):
                known = tuple(tuple(a) if a.__class__ is list else a for a in args)
            key = shape, kinds(known), known
            kept: C | None = memory.use(number, key)
        except TypeError:
            key = kept = None
        if kept is not None:
            if watching:
                planned(kept)
            return kept
        # Outside of any handler, whose error a user would read first; of what the key says, as a list may have changed.
        result = function(shape, *known)
        if key is not None:
            memory.keep(number, key, result)
        if watching:
            planned(result)
        return result

    return call
