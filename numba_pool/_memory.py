"""Memory for large results: blocks that are used again once the last view of a result has died.

The C library keeps what it frees up to some size and maps fresh, zeroed pages above it, at every call. Filling fresh
pages runs at 14 GB/s where memory that was written before takes 43 (one thread of an EPYC with AVX-512, 32 MiB to
128 MiB), so that a pooling of large images waits for the operating system most of the time. Below that size it gives
memory back too as soon as more than twice its largest block is free at the end of the heap, as a maximum and its
indices are: a 3x3/2 maximum of (4, 64, 55, 55) took 180 us an image where its kernel takes 45. Results of at least
`LEAST` bytes therefore come from a pool; a block from there costs 1 us, and 4 where the caches were filled in between.

What the pool holds for later is bounded by 1 GiB or an eighth of the machine's memory, whichever is less; the
environment variable NUMBA_POOL_MEMORY sets another limit in MiB, 0 turns the pool off. `empty_pool` gives it all back.

No locks: blocks are handed over by operations on lists that the interpreter makes atomic, since a result may die
anywhere, in any thread, also inside the garbage collector while this very code runs.
"""

import contextlib
import itertools
import mmap
import os
from math import prod
from typing import Any

import numpy as np

MIB = 1 << 20
LEAST = MIB // 2
PAGE = 2 * MIB  # a huge page of x86-64 and of ARM with 4 KiB pages
# Blocks begin at different distances from a huge page. A store to one array and a load from another may not overtake
# each other where the last bits of their addresses agree, as far as an Intel processor knows: the gradient of a 3x3/1
# maximum of 28x28 planes took 12 ms where three arrays began at 0 to 15 bits alike, 4.4 ms now (one thread, Xeon with
# AMX). What is left is a multiple of the widest vector that is streamed.
STAGGER, DISTANCES = 4096 + 128, 16
BYTE = np.dtype(np.uint8)
PRIVATE = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)  # a forked child gets a copy


def default_limit() -> int:
    """MiB of idle blocks."""
    try:
        return min(1024, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (8 * MIB))
    except (AttributeError, ValueError, OSError):
        return 1024


def limit() -> int:
    """Bytes of idle blocks; 0 for no pool."""
    value = os.environ.get("NUMBA_POOL_MEMORY") or str(default_limit())
    if not value.isdecimal():
        raise ValueError(f"NUMBA_POOL_MEMORY must be a whole number of MiB, 0 for no pool, got {value!r}")
    return int(value) * MIB if PRIVATE else 0


LIMIT = limit()


numbers = itertools.count()  # of blocks


class Block:
    """A private mapping; `size` bytes from `address` on, a little behind the start of a huge page if one fits."""

    __slots__ = ("address", "behind", "mapping", "pool", "size")

    def __init__(self, size: int, pool: "Pool") -> None:
        self.size, self.pool = size, pool
        self.behind = next(numbers) % DISTANCES * STAGGER
        self.mapping, start = mapped(self.behind + size)
        if size >= PAGE:
            if start % PAGE:
                self.mapping, start = mapped(self.behind + size + PAGE)
                self.behind += -start % PAGE
            if hasattr(mmap, "MADV_HUGEPAGE"):
                with contextlib.suppress(OSError):  # a kernel built without
                    self.mapping.madvise(mmap.MADV_HUGEPAGE)
        self.address = start + self.behind


def mapped(size: int) -> tuple[mmap.mmap, int]:
    mapping = mmap.mmap(-1, size, flags=PRIVATE)
    return mapping, np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]


class Lease(np.ndarray[Any, Any]):
    """What arrays over a block have for a base: when the last of them dies, so does this.

    An array, which NumPy makes and takes in less time than any other owner of memory. It says that it has no base, so
    that whoever looks for the owner of a result's memory holds this, and not the mapping behind it, which outlives it
    (and by which joblib would believe that the result can be passed on as a file).
    """

    __slots__ = ("block",)
    block: Block
    base = None

    def __del__(self) -> None:
        block = getattr(self, "block", None)  # a copy of a lease has none
        if block is not None:
            block.pool.give_back(block)


class Pool:
    """Idle blocks by size, the sizes in the order in which they first came.

    To add up what is idle takes 1 us where the caches were filled in between. It need not be done as long as all blocks
    that were ever made are no more than the limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.idle: dict[int, list[Block]] = {}
        self.made: list[int] = []  # sizes, until they are more
        self.full = False

    def held(self) -> int:
        """Bytes of all idle blocks."""
        held = 0
        for size, blocks in list(self.idle.items()):
            held += size * len(blocks)
        return held

    def take(self, size: int) -> Block:
        """The idle block of that size that was used last, or a new one."""
        try:
            return self.idle[size].pop()
        except (KeyError, IndexError):
            block = Block(size, self)
            if not self.full:
                self.made.append(size)
                if sum(self.made) > self.limit:  # who comes last among threads sees what all have made
                    self.full = True
            return block

    def give_back(self, block: Block) -> None:
        """Keep a block for later, at the cost of the sizes that came before, or drop it."""
        if block.size > self.limit:
            return
        self.idle.setdefault(block.size, []).append(block)
        while self.full and self.held() > self.limit:
            for size, blocks in list(self.idle.items()):
                try:
                    blocks.pop(0)
                    break
                except IndexError:
                    self.idle.pop(size, None)

    def clear(self) -> None:
        """Drop all idle blocks."""
        self.idle = {}


_pool = Pool(LIMIT)


def _start_anew() -> None:
    """In a forked child: what the parent's blocks become there is a copy, page by page, at the first write."""
    global _pool
    _pool.clear()
    _pool.limit = 0  # for results of the parent that die in the child
    _pool = Pool(LIMIT)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def size_class(nbytes: int) -> int:
    """`nbytes` rounded up by an eighth at most, so that similar results share their blocks."""
    step = 1 << (nbytes.bit_length() - 4)
    return -(-nbytes // step) * step


def allocated(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """As `numpy.empty`, whose word for what no address reaches is a ValueError without shape or bytes."""
    try:
        return np.empty(shape, dtype)
    except ValueError:
        raise no_room(prod(shape) * np.dtype(dtype).itemsize, shape) from None


def no_room(nbytes: int, shape: tuple[int, ...], bound: str = "") -> MemoryError:
    """The error for a result of this shape, which takes so many bytes with its tables, or such a `bound`."""
    many = f"{bound}{nbytes} bytes ({nbytes / (1 << 30):.3g} GiB)"
    return MemoryError(f"Unable to allocate {many} for a result of shape {shape}")


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """As `numpy.empty`; from the pool where that pays."""
    nbytes = prod(shape) * np.dtype(dtype).itemsize
    if nbytes < LEAST or not _pool.limit:
        return allocated(shape, dtype)
    try:
        block = _pool.take(size_class(nbytes))
    except (OSError, OverflowError, ValueError):  # no room for it: NumPy may find some, or says what is missing
        empty_pool()
        return allocated(shape, dtype)
    lease = Lease(block.size, BYTE, block.mapping, block.behind)
    lease.block = block
    return np.ndarray(shape, dtype, lease)


def idle() -> int:
    """Bytes of idle blocks."""
    return _pool.held()


def empty_pool() -> None:
    """Give the blocks kept for large results back to the system.

    Results that are alive are not touched; their blocks go to the pool again when they die.
    """
    _pool.clear()
