"""Tensors in and out: which ones are ours, their memory order, and the number of threads."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from .._arrays import Array
from .._runtime import SERIAL, get_num_threads, set_num_threads

try:
    import ml_dtypes
except ImportError:  # then torch computes bfloat16
    HALVES = {}
else:
    HALVES = {torch.bfloat16: np.dtype(ml_dtypes.bfloat16)}

INTEGERS = frozenset({torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
                      torch.uint64})
DTYPES = frozenset({torch.float32, torch.float64, torch.float16, *HALVES, *INTEGERS})
PLAIN = frozenset({Tensor, torch.nn.Parameter})
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}

# Who computes a call: the core at once, the core behind torch's dispatcher, or torch itself.
CORE, OPS, TORCH = "core", "ops", "torch"
KINDS = torch._C._functorch.TransformType
EARLY = torch._C.DispatchKey.PreDispatch  # of modes that see calls before autograd does


def route(x: Any) -> str:
    """Who computes a call on `x`.

    The core takes dense tensors on the CPU. Where torch traces or transforms the call (compilation, export,
    `torch.func`, dispatch modes) it must see an operator of its dispatcher. All else is torch's: other devices, dtypes
    and layouts, subclasses, forward mode, `torch.jit.trace`. Integers have no derivatives that a transform could want.
    """
    if not isinstance(x, Tensor) or x.dtype not in DTYPES or not x.is_cpu or x.layout is not torch.strided:
        return TORCH
    cls = x.__class__
    if torch.compiler.is_compiling():
        if is_transformed() and x.is_floating_point():  # compiled, `torch.func` would lose our gradients
            return TORCH
        return OPS if cls in PLAIN or is_traced(cls) else TORCH
    if torch._C._are_functorch_transforms_active():
        return TORCH if x.is_floating_point() and is_beyond_operators() else OPS
    if torch._C._len_torch_dispatch_stack() or torch._C._dispatch_tls_is_dispatch_key_included(EARLY):
        return OPS if cls in PLAIN or is_traced(cls) else TORCH
    if cls not in PLAIN or x.is_nested or torch._C._get_tracing_state():
        return TORCH
    if forward_ad._current_level >= 0 and x.is_floating_point():
        return TORCH
    return CORE


def constant(function: Any) -> Any:
    """`torch.compiler.assume_constant_result`, which sets this mark after it has loaded the compiler, for 3 seconds."""
    function._dynamo_marked_constant = True
    return function


@constant
def is_transformed() -> bool:
    """Whether a transform of `torch.func` is at work; the compiler asks while it traces."""
    return torch._C._are_functorch_transforms_active()


def is_traced(cls: type) -> bool:
    """Whether this is one of the classes by which torch traces, rather than a user's."""
    return cls.__module__.startswith("torch._subclasses.")


def transforms() -> set[Any]:
    """The kinds of `torch.func` transforms at work."""
    return {level.key() for level in torch._C._functorch.get_interpreter_stack() or ()}


def is_functionalized() -> bool:
    """Whether `torch.func.functionalize` is among them, which takes no `autograd.Function`."""
    return KINDS.Functionalize in transforms()


def is_beyond_operators() -> bool:
    """Whether there is forward mode, `torch.func.jvp` or what is made of it, or a gradient that is functionalized."""
    kinds = transforms()
    return KINDS.Jvp in kinds or {KINDS.Functionalize, KINDS.Grad} <= kinds


def is_last(x: Tensor, rank: int) -> bool:
    """Whether torch takes the memory of a batch for channels last, also where sizes of 1 leave it open.

    Source: `is_channels_last_strides_2d` in c10/core/MemoryFormat.h.
    """
    n = x.dim()
    if rank == 1 or n != rank + 2:
        return False
    if x.is_contiguous() and x.stride(1) != 1:  # the usual case, by the shortest way
        return False
    shape, strides = x.shape, x.stride()
    least: Any = 0
    for axis in (1, *range(n - 1, 1, -1), 0):
        if shape[axis] == 0 or strides[axis] < least or (axis == 0 and least == strides[1]):
            return False
        least = strides[axis] * shape[axis]
    return True


def array(x: Tensor, last: bool) -> Array:
    """The tensor's memory, copied only where it is neither contiguous nor channels last as asked for."""
    if last:
        x = x.contiguous(memory_format=FORMATS[x.dim()])
    elif not x.is_contiguous():
        x = x.contiguous()
    half = HALVES.get(x.dtype)
    if half is None:
        forced: Array = x.numpy(force=True)  # detached, and with negations and zeros that torch has put off done
        return forced
    return x.detach().resolve_neg().view(torch.int16).numpy(force=True).view(half)  # numpy() knows no bfloat16


def tensor(a: Array, last: bool) -> Tensor:
    """A result as a tensor over the same memory, with the very strides that torch gives to this memory format."""
    if a.dtype.kind == "V":
        t = torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)
    else:
        t = torch.from_numpy(a)
    if not a.size:  # NumPy's strides are 0 then
        memory_format = FORMATS[a.ndim] if last else torch.contiguous_format
        return torch.empty(t.shape, dtype=t.dtype, device=t.device, memory_format=memory_format)
    if last and (t.stride(1) != 1 or t.stride(-1) != t.shape[1]):
        return relabelled(t)
    return t


def relabelled(t: Tensor) -> Tensor:
    """A contiguous tensor in channels-last memory. With one channel or one pixel only its strides say which it is."""
    memory_format = FORMATS[t.dim()]
    if not t.is_contiguous(memory_format=memory_format):
        return t.contiguous(memory_format=memory_format)
    strides = torch.empty(t.shape, memory_format=memory_format, device="meta").stride()
    return t.as_strided(t.shape, strides)


def plain(t: Tensor) -> Tensor:
    """A tensor in plain memory, with the strides of plain memory also where sizes of 1 leave them open."""
    if t.is_contiguous() and t.stride(1) != 1:
        return t
    return t.contiguous().view(-1).view(t.shape)


# Elements, below which the core never uses threads, and need not be told how many. To ask takes 1 us, and 3 where a
# step has filled the caches in between.
SMALL = 1 << 11
# Numba's own count of this Python thread, read and set in 0.1 us; the public way takes 15, as long as torch for small
# pooling, and the core's, which looks at processors and forks, too, 3.
get_count: Callable[[], int] = get_num_threads
set_count: Callable[[int], Any] | None = None  # once threads have started
most = 1  # threads that Numba has


def start() -> None:
    """Have Numba start its threads, which sets torch's number of threads, too (numba#9387), and set it back."""
    global get_count, set_count, most
    before = torch.get_num_threads()
    get_num_threads()
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)
    if SERIAL:  # the core starts no threads, so there is nothing to set
        set_count = set_num_threads
        return
    most = numba.config.NUMBA_NUM_THREADS
    get_count = getattr(numba.np.ufunc.parallel, "_get_num_threads", get_num_threads)
    set_count = getattr(numba.np.ufunc.parallel, "_set_num_threads", set_num_threads)


def call(size: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of the core on as many threads as torch uses here; `size` is that of the unpooled array."""
    if size < SMALL:
        return function(*args, **kwargs)
    if set_count is None:
        start()
    count, before = min(torch.get_num_threads(), most), get_count()
    if count == before or set_count is None:
        return function(*args, **kwargs)
    set_count(count)
    try:
        return function(*args, **kwargs)
    finally:
        set_count(before)
