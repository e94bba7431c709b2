"""The shortest way of a call that is like one before.

To check arguments, to look for a kernel and to wrap arrays takes as long as PyTorch takes for a whole pooling of 8x8
elements. So the `Call` that a call came down to is kept. The next call like it finds it by the shape and dtype of the
array and by the other arguments. As keys, (2, 2), (2.0, 2) and (True, 2) are the same. So the arguments are compared
once more: they must be the same objects, or else have the same types, as a tuple such as `x.shape[2:]`, which is made
anew for every call (that takes 1.5 us more). Only calls are kept whose arguments cannot change.

The shortest way is for *plain* arrays: contiguous in one of the two memory orders, of a native dtype, and writeable. An
`out=` array must be plain as well, and share no memory with them. All other arrays take the long way, and find the
`Call` that is kept for the plain array that `_arrays.planes` makes of theirs.
"""

from collections.abc import Callable
from itertools import count
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from .. import _runtime
from .._arrays import INT32, TO_FIRST, TO_LAST, Planes, new, raw
from .._memory import LEAST, empty
from .._runtime import launch, planned, watching
from ..kernels._compile import unchecked
from ..kernels._job import Call
from .memo import memory

CONSTANTS = frozenset({int, bool, float, str, type(None)})
INTS = frozenset({int})
ARGUMENTS = 7  # arguments for which a key has room
NO_ARGUMENTS = (None,) * ARGUMENTS
Plan = Callable[[Planes, Any, tuple[Any, ...], Any], Call]  # takes an array, a shape, the other arguments, and `out`
Run = Callable[[Planes, Call, Any], Any]  # takes the array, the call, and `out`


class Asked(np.ndarray[Any, Any]):
    """An array that is handed to a function only to learn which `Call` that comes down to: for `explain` and `plan`. It
    takes the long way, and its call is planned anew.
    """

    call: Call | None = None


def constant(value: Any) -> bool:
    """Whether the object can never change."""
    return all(map(constant, value)) if value.__class__ is tuple else value.__class__ in CONSTANTS


def frozen(value: Any) -> Any:
    """A list as a tuple, whose elements cannot change later; anything else as it is."""
    return tuple(value) if value.__class__ is list else value


def same(a: Any, b: Any) -> bool:
    """Whether equal arguments have the same types as well; of tuples, whether all elements have."""
    return a is b or (a.__class__ is b.__class__ and (a.__class__ is not tuple or all(map(same, a, b))))


class Calls:
    """The calls of one function that are kept."""

    numbers = count()

    def __init__(self) -> None:
        self.number = next(self.numbers)

    def key(self, x: Any, arguments: tuple[Any, ...], shape: Any = None) -> Any:
        """The key of a call: two calls with the same key are served by the same `Call`, if their arguments have the
        same types as well. None where the array is not plain.

        `shape` is an argument such as `input_shape`. It is often a new object, and compared by value.
        """
        if x.__class__ is not ndarray:
            return None
        flags, strides = x.flags, None
        if not flags.carray:
            if flags.c_contiguous or not flags.behaved:
                return None
            strides = x.strides
        if shape is not None and not (shape.__class__ is tuple and INTS.issuperset(map(type, shape))):
            return None
        return self.number, x.shape, x.dtype, strides, shape, arguments

    def find(self, x: Any, arguments: tuple[Any, ...], shape: Any = None) -> Call | None:
        """The `Call` that is kept for a plain array and such arguments, of which there are `ARGUMENTS`; or None."""
        key = self.key(x, arguments, shape)
        try:
            call = memory.young.get(key)
            if call is None:
                call = memory.use(key)
        except Exception:  # a list has no hash, and arguments may raise anything: the long way says it better
            return None
        if call is None:
            return None
        a, b, c, d, e, f, g = arguments
        h, i, j, k, m, n, o = kept = call.key[-1]
        # The arguments are compared one by one: a loop would take 0.1 us longer.
        if a is h and b is i and c is j and d is k and e is m and f is n and g is o:
            return call
        if not all(map(same, arguments, kept)):
            return None
        memory.young[key] = call = call._replace(key=key)  # with these objects, which the next call may well bring
        return call

    def again(self, x: Any, out: Any, arguments: tuple[Any, ...], shape: Any = None) -> Any:
        """The result of a call like one that was made before; None if none is kept, or an array is not plain."""
        call = self.find(x, arguments, shape)
        return None if call is None else run_again(call, x, out)

    def long(self, x: Any, p: Planes, arguments: tuple[Any, ...], plan: Plan, to_run: Run, out: Any = None,
             shape: Any = None, index: Any = INT32) -> Any:
        """The result of a call by the long way. Its `Call` is planned if none is kept, and kept for the next call.
        `index` is the dtype of the indices, if the kernel takes any.
        """
        if x.__class__ is Asked:
            call = plan(p, shape, arguments, out)
            if watching:
                planned(call)
            result = to_run(p, call, out)
            x.call = call
            return result
        if not CONSTANTS.issuperset(map(type, arguments)):
            arguments = tuple(map(frozen, arguments))  # the key holds no lists, which may change
        shape = frozen(shape)
        key = self.long_key(x, p, arguments, shape)
        known = memory.use(key) if key else None
        if known and not all(map(same, arguments, known.key[-1])):
            known = None  # the new call will take its place
        if known and fits(known, out):
            return to_run(p, known, out)
        call = plan(p, shape, arguments, out)
        result = to_run(p, call, out)
        if key and not known:
            memory.keep(key, made_ready(call, p, key, index))  # after it was run: `made_ready` wants a compiled kernel
        return result

    def long_key(self, x: Any, p: Planes, arguments: tuple[Any, ...], shape: Any) -> Any:
        """The key for an array if it is plain, or else for the plain array `p` that was made of it; None if an argument
        may change.
        """
        if not (CONSTANTS.issuperset(map(type, arguments)) or constant(arguments)):
            return None
        key = self.key(x, arguments, shape)
        if key is not None and x.dtype.isnative and (key[3] is not None) == p.last:
            return key
        return self.key(p.plain(), arguments, shape)


def made_ready(call: Call, p: Planes, key: Any, dtype: Any) -> Call:
    """A `Call` with all fields that the shortest way needs. Its kernel, if it is compiled, is called without a look at
    the types of its arguments.
    """
    worker, units, traffic, rest, shape, indexed, seen, *_, parts, by_index, always, otherwise = call
    source = raw(p.flat, seen)
    if by_index:
        worker = unchecked(worker, (source, np.empty(0, dtype), source, *rest, 1))
    elif worker:
        index = (np.empty(0, dtype),) if indexed else ()
        worker = unchecked(worker, (source, source, *index, *rest))
    if otherwise and otherwise.by_index:
        otherwise = made_ready(otherwise, p, key, dtype)
    make = np.empty if 8 * prod(shape) < LEAST else empty  # small arrays do not come from the pool of `_memory`
    axes = len(p.shape), p.rank
    to_last, to_first = (TO_LAST[axes], TO_FIRST[axes]) if p.last else (None, ())
    memory_shape = tuple(shape[i] for i in to_last) if to_last else shape
    return new(Call, (worker, units, traffic, rest, shape, indexed, None if source is p.flat else source.dtype, key,
                      to_last, to_first, memory_shape, make, parts, by_index, always, otherwise))


def fits(call: Call, out: Any) -> bool:
    """Whether a kernel that takes packs can write to the caller's `out`: packs must be aligned."""
    if call.seen is None or not isinstance(out, np.ndarray):
        return True
    return bool(out.__array_interface__["data"][0] % call.seen.itemsize == 0)


def result_of(call: Call, y: Any) -> Any:
    return y if call.to_last is None else y.transpose(call.to_first)


def place(call: Call, out: Any, dtype: Any, *others: Any) -> Any:
    """The caller's `out` array, with its axes in memory order; None if it is not plain, or shares memory with others.
    """
    if out.__class__ is not np.ndarray or out.dtype != dtype or out.shape != call.shape:
        return None
    at = out if call.to_last is None else out.transpose(call.to_last)
    if not at.flags.carray or any(np.may_share_memory(out, other) for other in others):
        return None
    return at if fits(call, out) else None


def into(call: Call, x: Any, out: Any) -> Any:
    """Run a call for a plain array, and write to the caller's `out`. Returns `out`; or None, without running, if an
    array of `out` has to go the long way (see `place`).
    """
    if not call.indexed:
        y = place(call, out, x.dtype, x)
        if y is None:
            return None
        run(call, x, y)
        return out
    if out.__class__ is not tuple or len(out) != 2:
        return None
    y = place(call, out[0], x.dtype, x)
    index = None if y is None else place(call, out[1], INT32, x, y)
    if index is None:
        return None
    run(call, x, y, index)
    return out


def run_again(call: Call, x: Any, out: Any) -> Any:
    """The result of a call that is kept, for a plain array; None if `out` has to go the long way."""
    return run(call, x) if out is None else into(call, x, out)


def run(call: Call, x: Any, y: Any = None, index: Any = None) -> Any:
    """Run a call for a plain array: the result, or (result, indices). They are new arrays unless y and index are given.
    """
    # Unpacked at once: to read one attribute after the other takes as long as to make an array.
    worker, units, traffic, rest, _, indexed, seen, _, to_last, to_first, memory_shape, make, _, _, always, more = call
    if y is None:
        y = make(memory_shape, x.dtype)
    source, target = x.ravel("K"), y.ravel()  # in memory order
    if seen is not None:
        source, target = source.view(seen), target.view(seen)
    given: tuple[Any, ...] = (source, target)
    if indexed:
        if index is None:
            index = make(memory_shape, INT32)
        given += (index.ravel(),)
    if units and traffic < _runtime.SERIAL_BYTES:  # as `launch` would do 0.1 us later
        infinite = worker(0, units, (*given, *rest))
    else:
        infinite = launch(worker, units, traffic, *given, *rest)
    if infinite or always:  # so there may be NaN
        worker, units, traffic, rest, *_ = more
        launch(worker, units, traffic, *given, *rest)
    if to_last is not None:
        y = y.transpose(to_first)
        return (y, index.transpose(to_first)) if indexed else y
    return (y, index) if indexed else y
