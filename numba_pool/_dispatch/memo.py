"""What is kept between calls, and how much: what was not used for long goes first.

No locks: several threads call at once, and a signal's handler or the garbage collector may call in the middle of a call
of the same thread. So nothing here takes two steps that belong together. Dictionaries are read and written by single
operations, which Python makes atomic.
"""

from typing import Any

import numpy as np

from ..kernels._job import Call

MOST_CALLS, MOST_TABLES = 4096, 64 << 20  # in all, and bytes of their tables


def memory_of(values: tuple[Any, ...]) -> int:
    """Bytes of all tables in a tuple, and in tuples in it."""
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

    # Bytes of all tables. Of two threads that add at once, one may be left out: the next generation begins anew.
    nbytes = 0


class Memory:
    """Bounds what is kept between calls: two generations, each half of what is allowed.

    What is new, or used again, is in the younger one. When that is full it becomes the older one, and the older one is
    dropped with whatever was not used meanwhile.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.young, self.old = Generation(), Generation()

    def use(self, key: Any) -> Call | None:
        """What is kept under a key, or None."""
        found = self.young.get(key)
        if found is None:
            found = self.old.get(key)
            if found is not None:
                self.keep(key, found)
        return found

    def keep(self, key: Any, call: Call) -> None:
        """Keep it, unless its tables are more than a quarter of all that are allowed, in the younger generation. That
        begins anew if it would be more than half of what is allowed.
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
