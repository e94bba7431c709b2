"""What a call would do, in words: how, why in that way, and on how many threads."""

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numba.core.registry import cpu_target

from . import _runtime
from ._arguments import CHANNELS_LAST
from ._arrays import is_last, is_plain
from ._dispatch.again import Asked
from ._dispatch.memo import memory_of
from ._sentences import sentences
from .functional import output_shape
from .kernels import _cache, _compile

COLOURS, SHORT = (1, 3, 4), 8  # channels of images, and how many times as long their sides are at least


@dataclass(frozen=True)
class Explanation:
    """What a call of a function comes down to. `print` it, or read its fields."""

    function: str
    reads: str  # how it takes its array, and the shape of the result of a forward
    kernel: str  # the name of the compiled function
    does: str  # what that does
    rule: str  # why it is the one to serve
    memory: str  # 'channels first' or 'channels last'; of `coarsen`, C order or the strides
    units: int  # of work, that threads may share
    threads: int  # that the call would use now
    reason: str  # why so many
    table_bytes: int  # of what is planned once for all calls like this one, and kept
    compiled: str  # 'in memory', 'on disk' or 'not yet'
    parts: tuple[str, ...] = ()  # kernels of the sections that rows are cut into

    def __str__(self) -> str:
        state = {"in memory": "yes, in this process", "on disk": "yes, on the disk", "not yet": "no, at the first call"}
        names = ", ".join(dict.fromkeys((self.kernel, *self.parts)))
        return "\n".join((self.function,
                          f"  reads     {self.reads}",
                          f"  does      {self.does}",
                          f"  because   {self.rule}",
                          f"  memory    {self.memory}",
                          f"  threads   {self.threads}: {self.reason}",
                          f"  kept      {self.table_bytes:,} bytes for the next calls like this one",
                          f"  compiled  {state[self.compiled]}",
                          f"  kernel    {names} (for bug reports)"))


class Found(Exception):
    """The kernel was found, and everything after it can be left out."""


def compiled(worker: Any, args: tuple[Any, ...]) -> str:
    """Whether a worker is compiled for such arguments."""
    signature = _compile.signature(args)
    if signature in worker.overloads:
        return "in memory"
    cache = getattr(worker.serial, "_cache", None)
    if isinstance(cache, _cache.DiskCache):
        name = cache.file_name(cache.key(signature, cpu_target.target_context.codegen()))
        if any((directory / name).exists() for directory in _cache.directories()[0]):
            return "on disk"
    return "not yet"


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Say how a call would be computed, why in that way, and on how many threads. Nothing is pooled or compiled.

    Parameters
    ----------
    function : function
        A function of this package, such as `max_pool2d`, `avg_pool2d_backward` or `coarsen`.
    *args, **kwargs
        What it would be called with.

    Returns
    -------
    Explanation
        Text when printed; its fields are `reads`, `kernel`, `does`, `rule`, `memory`, `units`, `threads`, `reason`,
        `table_bytes`, `compiled` and `parts`.

    Raises
    ------
    ValueError, TypeError
        As the function does for wrong arguments; TypeError for what is no function of this package.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_pool
    >>> x = np.zeros((8, 64, 56, 56), np.float32)
    >>> numba_pool.explain(numba_pool.max_pool2d, x, 3, 2).memory
    'channels first'
    """
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", "")
    pools = name.partition("pool")[1] and module.startswith("numba_pool.functional")
    if not pools and (module, name) != ("numba_pool.blocks.coarsening", "coarsen"):
        raise TypeError("explain takes a pooling function of numba_pool on NumPy arrays, such as numba_pool.max_pool2d "
                        "or numba_pool.max_pool2d_backward (a layer and a binding call these), or numba_pool.coarsen, "
                        f"got {function!r}")
    given = inspect.signature(function).bind(*args, **kwargs).arguments
    first = next(iter(given))
    array = np.asarray(given[first])
    given[first] = array.view(Asked) if pools else array
    planned: list[Any] = []
    launched: list[Any] = []

    def watch(*call: Any) -> Any:
        if len(call) == 1:
            planned.append(call[0])
            return None
        launched.append(call)
        raise Found

    me = threading.get_ident()
    _runtime.watching[me] = watch
    try:
        function(**given)
    except Found:
        pass
    finally:
        del _runtime.watching[me]
    if not launched:
        raise ValueError(f"{name} has nothing to do for an array of shape {array.shape}")
    return found(function, array, given, planned[-1] if planned else None, *launched[0])


def found(function: Callable[..., Any], array: Any, given: dict[str, Any], call: Any, worker: Any, units: int,
          traffic: int, args: tuple[Any, ...]) -> Explanation:
    """The explanation for a kernel that a call has come to."""
    chosen = call is not None and call.worker in (worker, None)  # those of norms are chosen later
    parts = tuple(part.worker.__name__ for part in call.parts) if chosen else ()
    reads, memory = reading(function, array, given)
    threads, reason = _runtime.decision(units, traffic)
    name = getattr(function, "__name__", "")
    does, because = sentences(worker.__name__, parts, name.endswith("_backward"))
    tables = memory_of(call.rest) if chosen else 0
    return Explanation(name, reads, worker.__name__, does, because, memory, units, threads, reason, tables,
                       compiled(worker, args), parts)


def reading(function: Callable[..., Any], array: Any, given: dict[str, Any]) -> tuple[str, str]:
    """How a call takes its array, what comes out, and `channel_axis`, where an image with its colours last was given
    without; and how the array lies in memory.
    """
    first, *others = given
    if "windows" in given:  # of any axes
        more = {name: given[name] for name in others}
        return (f"{first} of shape {array.shape}; the result has shape {output_shape(function, array.shape, **more)}",
                "C order" if array.flags.c_contiguous else f"strides of {array.strides} bytes")
    if function.__name__.startswith("segment_"):
        return of_rows(function, array, given)
    rank, axis, shape = getattr(function, "rank", None) or array.ndim - 2, given.get("channel_axis"), array.shape
    seen = array if axis is None else np.moveaxis(array, axis, -rank - 1)
    last = is_last(seen, rank)
    *batch, channels = seen.shape[:-rank]
    spatial = seen.shape[-rank:]
    of = f"a batch of {batch[0]}, each of {channels}" if batch else f"{channels}"
    text = f"{first} of shape {shape} as {of} channels of {' x '.join(map(str, spatial))}"
    if not is_plain(seen, rank, last):
        text += "; copied first, as its memory is neither channels first nor channels last, or of a foreign byte order"
    if not function.__name__.endswith("_backward"):
        more = {name: given[name] for name in others if name != "indices"}
        text += f"; the result has shape {output_shape(function, shape, **more)}"
    if axis is None and not last and spatial[-1] in COLOURS and (
            spatial[-1] * SHORT <= min((channels, *spatial[:-1]))):
        text += CHANNELS_LAST
    return text, "channels last" if last else "channels first"


def of_rows(function: Callable[..., Any], array: Any, given: dict[str, Any]) -> tuple[str, str]:
    """The same for segments."""
    first, *_others = given
    text = f"{first} of shape {array.shape} as {len(array)} rows of {prod(array.shape[1:])} channels"
    if not (array.flags.carray and array.dtype.isnative):
        text += "; copied first, as its memory is not in C order, or of a foreign byte order"
    if "offsets" in given and first == "x":
        text += f"; the result has shape {output_shape(function, array.shape, given['offsets'])}"
    return text, "channels last"
