"""The cache of `Call`s between calls, and its bounds: calls that were not used for long go first.

There are no locks, although several threads call at once, and a signal's handler or the garbage collector may call in
the middle of a call of the same thread. So nothing here takes two steps that belong together. Dictionaries are read and
written by single operations, which Python makes atomic.
"""

from typing import Any

import numpy as np

from ..kernels._job import Call

MOST_CALLS, MOST_TABLES = 4096, 64 << 20  # calls that are kept, and bytes of all their tables, at most


def memory_of(values: tuple[Any, ...]) -> int:
    """Bytes of all arrays in a tuple, and in the tuples in it."""
    total = 0
    for value in values:
        if isinstance(value, np.ndarray):
            total += value.nbytes
        elif isinstance(value, tuple):
            total += memory_of(value)
    return total


def tables_of(call: Call) -> int:
    """Bytes of all tables of a call."""
    return memory_of(call.rest) + (tables_of(call.otherwise) if call.otherwise else 0)


class Generation(dict[Any, Call]):
    """Calls that are kept, by their keys."""

    # Bytes of all tables. If two threads add to it at once, one number may be lost: the next generation begins at 0.
    nbytes = 0


class Memory:
    """The calls that are kept, in two generations, each of which has half of the room.

    A call that is new, or used again, is put into the younger generation. When that is full, it becomes the older one;
    what was the older one is dropped, with all calls that were not used meanwhile.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.young, self.old = Generation(), Generation()

    def use(self, key: Any) -> Call | None:
        """The call that is kept under a key, or None."""
        found = self.young.get(key)
        if found is None:
            found = self.old.get(key)
            if found is not None:
                self.keep(key, found)
        return found

    def keep(self, key: Any, call: Call) -> None:
        """Keep a call in the younger generation, or begin a new generation with it if the younger one is full. A call
        whose tables would take more than a quarter of the room is not kept.
        """
        nbytes, young = tables_of(call), self.young
        if 4 * nbytes > MOST_TABLES:
            return
        if 2 * len(young) >= MOST_CALLS or 2 * (nbytes + young.nbytes) > MOST_TABLES:
            self.old, self.young = young, Generation()
            young = self.young
        young.nbytes += nbytes
        young[key] = call


memory = Memory()
