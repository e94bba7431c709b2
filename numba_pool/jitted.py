"""Pooling inside your own `@njit` functions: `plan` in Python, `run` and `run_backward` in compiled code.

A plan is the arguments of a kernel, laid out in memory, and the address of a *step*: a small compiled function that
fetches them and calls the kernel. All steps have one signature, whatever their kernels take, so that `run` is the same
code for all plans of a dtype and a number of axes: checks and a call by address. Addresses come with the plan at every
call and are never compiled in, so functions that call `run` can be kept on disk.

What is kept on disk must not outlive what it knows of plans. So the type of a plan names a digest of this file: after
an upgrade Numba finds nothing for the new type, and compiles. The plan itself holds the digest too, and `run` compares
it with what was compiled in, for whoever gets round the types.
"""

import hashlib
import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, typeof, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.cpython.unsafe.tuple import tuple_setitem
from numba.extending import NativeValue, intrinsic, make_attribute_wrapper, models, overload, register_model, unbox
from numba.np.numpy_support import from_dtype

from . import functional
from ._arguments import lengths
from ._arrays import NATIVE, TO_FIRST, TO_LAST, Array, Shape, raw
from ._dispatch.again import Asked
from ._dispatch.axes import check_batch
from .kernels._cache import content, prepared, undisturbed
from .kernels._compile import compiled, inlined
from .kernels._driver import WORD, call_at
from .kernels._job import Call

VERSION = int.from_bytes(hashlib.sha256(content(__spec__)).digest()[:7])

# What the words of a plan are. MASK: bits of an address that have to be 0. A step stands with its job behind it, or 0:
# FORWARD, which for maxima returns more than 0 if results are infinite; NANS, which then puts NaN back; BACKWARD, which
# for maxima may find that windows are not what it took them for, and returns something else than TAKEN; CERTAIN, for
# maxima, which does not.
VERSION_AT, MASK, FORWARD, NANS, BACKWARD, CERTAIN, TAKEN, SHAPES = 0, 1, 2, 4, 6, 8, 10, 11

STEP = ir.FunctionType(WORD, (WORD,) * 4)
WORDS = types.int64[::1]
Step = tuple[int, Array, int, Call]

SERVED = {getattr(functional, name): name for name in functional.__all__
          if re.fullmatch(r"((adaptive_)?(max|avg)|min|sum)_pool\dd|global_(max|min|avg|sum)_pool", name)}


class Plan:
    """What `run` and `run_backward` take; made by `plan`. For this process and its forks; a pickle plans anew.

    `shape`, `output_shape` and `dtype` are those of the arrays that it is for.
    """

    def __init__(self, again: Any, shape: Shape, output_shape: Shape, dtype: Any, indexed: bool, words: Array) -> None:
        self.again, self.shape, self.output_shape, self.dtype = again, shape, output_shape, dtype
        self.indexed, self.words = indexed, words
        self._numba_type_ = PlanType(from_dtype(dtype), len(shape), indexed, VERSION)  # where Numba looks for it

    def __repr__(self) -> str:
        return f"<plan of {SERVED[self.again.args[0]]} from {self.shape} to {self.output_shape}, {self.dtype}>"

    def __reduce__(self) -> Any:
        return self.again, ()


class Words(np.ndarray[Any, Any]):
    """The words of a plan, which hold on to all that they point to, wherever compiled code keeps them."""

    kept: Any


def plan(function: Callable[..., Any], shape: Any, dtype: Any, *args: Any, channel_axis: int | None = None,
         **kwargs: Any) -> Plan:
    """Prepare pooling for `run` and `run_backward`, which compiled code may call. Compiles, and pools zeros once.

    Parameters
    ----------
    function : callable
        Max, min, average, sum, adaptive or global pooling of this package: `numba_pool.max_pool2d`, ...
    shape : tuple
        Of the input, all axes.
    dtype : dtype
        Of the input.
    *args, **kwargs
        What the function takes after `x`. With `return_indices=True` a maximum has indices, and a gradient.
    channel_axis : int, optional
        -1 if arrays are `(N, *spatial, C)`, or `(*spatial, C)`; so is `shape` then.

    Raises
    ------
    TypeError, ValueError
        For functions and dtypes that cannot be planned, and what the function raises for its arguments.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_pool
    >>> plan = numba_pool.plan(numba_pool.max_pool2d, (1, 1, 2, 2), np.float32, 2)
    >>> x, y = np.ones(plan.shape, plan.dtype), np.empty(plan.output_shape, plan.dtype)
    >>> numba_pool.run(plan, x, y)
    """
    name = SERVED.get(function)
    if name is None:
        raise TypeError(f"numba_pool.plan takes one of {', '.join(SERVED.values())}, "
                        f"got {getattr(function, '__name__', repr(function))}")
    if "out" in kwargs:
        raise TypeError("numba_pool.plan takes no out: run does")
    for key in ("nan_policy", "where", "min_count"):
        if key in kwargs:
            raise TypeError(f"numba_pool.plan takes no {key}: nothing is missing from compiled pooling")
    shape, dtype, axes = lengths(shape, "shape"), np.dtype(dtype), len(shape)
    if not dtype.isnative or dtype.char not in NATIVE:  # Numba has no halves
        raise TypeError(f"dtype must be float32, float64 or an integer type, in native byte order, got {dtype}")
    rank = int(name[-2]) if name.endswith("d") else axes - 2
    if (axes, rank) not in TO_LAST:
        unbatched = " or (C, *spatial)" if name.endswith("d") else ""
        raise ValueError(f"shape must have the axes (N, C, *spatial){unbatched} of {name}, got {shape}")
    if channel_axis not in (None, -1, axes - 1, axes - 1 - rank):
        raise ValueError(f"channel_axis must be None, {axes - 1 - rank} or -1 for {name}, got {channel_axis!r}")
    if not name.endswith("d") and channel_axis is not None:
        check_batch(shape, channel_axis)
    last = channel_axis in (-1, axes - 1)
    to_last = TO_LAST[axes, rank] if last else tuple(range(axes))
    x = np.zeros(shape, dtype).transpose(TO_FIRST[axes, rank] if last else to_last)
    result, call = asked(function, x, *args, **kwargs)
    y, *indices = result if call.indexed else (result,)
    if not y.transpose(to_last).flags.c_contiguous:  # only of images of one pixel, which memory does not tell
        raise ValueError(f"channel_axis must be None for images of one pixel, got {channel_axis} for shape {shape}")
    given = inspect.signature(function).bind(x, *args, **kwargs).arguments
    steps = {FORWARD: laid(call, x, y, *indices)} | gradient(name, rank, to_last, given, y, *indices)
    if call.otherwise is not None:
        steps[NANS] = laid(call.otherwise._replace(seen=call.seen), x, y, *indices)
    output_shape = tuple(y.shape[i] for i in to_last)
    words = np.array([VERSION, *(0,) * (SHAPES - 1), *shape, *output_shape], np.int64).view(Words)
    words.kept = steps
    for at, (address, job, itemsize, _) in steps.items():
        words[at : at + 2] = address, job.ctypes.data
        words[MASK] = max(words[MASK], itemsize - 1)
    again = partial(plan, function, shape, dtype, *args, channel_axis=channel_axis, **kwargs)
    return Plan(again, shape, output_shape, dtype, bool(indices), words)


def gradient(name: str, rank: int, to_last: Shape, given: dict[str, Any], y: Array, *indices: Array) -> dict[int, Step]:
    """The steps of the gradient; none where there is no kernel: one pixel does not tell the memory order."""
    if not indices and ("max" in name or "min" in name or y.dtype.kind != "f"):
        return {}
    family = f"adaptive_max_pool{rank}d" if name.startswith("global") and indices else name
    backward = getattr(functional, f"{family}_backward")
    more = {} if indices else {key: given[key] for key in given if key not in ("x", "output_size")}
    grad_x, call = asked(backward, y, *indices, given["x"].shape, **more)
    if not grad_x.transpose(to_last).flags.c_contiguous:
        return {}
    if not indices:
        return {BACKWARD: laid(call, y, grad_x)}
    steps = {}
    if call.otherwise is not None:
        steps[BACKWARD] = laid(call, y, grad_x, *indices)
        call = call.otherwise
    certain = call._replace(rest=(*call.rest, 1))  # each unit in one part
    return steps | {CERTAIN: laid(certain, y, *indices, grad_x)}


def asked(function: Callable[..., Any], x: Array, *args: Any, **kwargs: Any) -> tuple[Any, Call]:
    """The result of a call, and what it came down to: `Calls.long` tells `Asked` arrays. This is all that
    plans know of planning.
    """
    question = x.view(Asked)
    result = function(question, *args, **kwargs)
    if question.call is None:
        raise NotImplementedError(f"numba_pool.plan has no kernel of {function.__name__} for {x.shape}, {x.dtype}")
    return result, question.call


@undisturbed
def laid(call: Call, *given: Array) -> Step:
    """A call laid out in memory, for arrays like these in the kernel's order: the address of the step, the job, the
    size of the arrays' elements as the kernel sees them, and the call, which has all that the job points to.
    """
    arrays = tuple(raw(np.empty(a.size, a.dtype), call.seen if a.dtype == given[0].dtype else None) for a in given)
    at, size = call.worker.entry((*arrays, *call.rest)), 0
    lay = compiled(layer, (*(types.int64,) * 3, typeof(arrays), typeof(call.rest))).entry_point
    for _ in range(2):  # to learn the size, and to write
        job = np.empty(-(-size // 8), np.int64)
        address, size = lay(at, call.units, job.ctypes.data if size else 0, arrays, call.rest)
    return address, job, arrays[0].itemsize, call


def bare(ctx: Any, b: Any, typ: Any, value: Any) -> Any:
    """A value without references to Python's objects, which the plan keeps: no thread has to count them."""
    if isinstance(typ, types.Array):
        array = ctx.make_array(typ)(ctx, b, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(typ, types.BaseTuple):
        return ctx.make_tuple(b, typ, [bare(ctx, b, *each) for each in zip(typ, cgutils.unpack_tuple(b, value))])
    return value


@intrinsic  # type: ignore[untyped-decorator]
def lay_out(typingctx: Any, at: Any, units: Any, job: Any, arrays: Any, rest: Any) -> Any:
    """Write at the address `job`, unless it is 0, what the worker at address `at` takes. The address of the step, which
    takes that of a job and those of the arrays' data; and how many bytes a job has.
    """
    args = (*arrays, *rest)

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        at, units, job, *both = values
        parts = [value for each in both for value in cgutils.unpack_tuple(b, each)]
        packed = cgutils.pack_struct(b, [at, units, *(bare(ctx, b, *each) for each in zip(args, parts))])
        with b.if_then(b.icmp_signed("!=", job, WORD(0))):
            b.store(packed, b.inttoptr(job, packed.type.as_pointer()))

        step = ir.Function(b.module, STEP, b.module.get_unique_name("step"))
        step.linkage = "internal"
        inner = ir.IRBuilder(step.append_basic_block())
        lies, *data = step.args
        at, units, *parts = cgutils.unpack_tuple(inner, inner.load(inner.inttoptr(lies, packed.type.as_pointer())))
        for k, typ in enumerate(arrays):
            array = ctx.make_array(typ)(ctx, inner, parts[k])
            array.data = inner.inttoptr(data[k], array.data.type)
            parts[k] = array._getvalue()
        with inner.if_then(inner.icmp_signed("==", units, WORD(0))):
            inner.ret(WORD(0))
        inner.ret(call_at(ctx, inner, at, (types.int64, types.int64, *args), [WORD(0), units, *parts]))
        return ctx.make_tuple(b, sig.return_type, [b.ptrtoint(step, WORD), WORD(ctx.get_abi_sizeof(packed.type))])

    return types.UniTuple(types.int64, 2)(at, units, job, arrays, rest), gen


@prepared
@njit(no_cfunc_wrapper=True)
def layer(at, units, job, arrays, rest):  # type: ignore[no-untyped-def]
    return lay_out(at, units, job, arrays, rest)


class PlanType(types.Type):  # type: ignore[misc]
    """Numba's type of a plan. Files on disk name this class: rename or move it, and Numba cannot read them."""

    def __init__(self, dtype: Any, ndim: int, indexed: bool, version: int) -> None:
        self.dtype, self.ndim, self.indexed, self.version = dtype, ndim, indexed, version
        super().__init__(f"numba_pool.Plan({dtype}, {ndim}d, {'with' if indexed else 'no'} indices, {version:x})")


@register_model(PlanType)
class PlanModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, typ: Any) -> None:
        super().__init__(manager, typ, [("words", WORDS)])


make_attribute_wrapper(PlanType, "words", "words")


@unbox(PlanType)  # type: ignore[untyped-decorator]
def unbox_plan(typ: Any, plan: Any, c: Any) -> Any:
    words = c.pyapi.object_getattr_string(plan, "words")
    made = c.unbox(WORDS, words)
    c.pyapi.decref(words)
    value = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    value.words = made.value
    return NativeValue(value._getvalue(), is_error=made.is_error)


@lower_constant(PlanType)  # type: ignore[untyped-decorator]
def constant_plan(ctx: Any, b: Any, typ: Any, plan: Any) -> Any:
    raise TypingError(f"pass {plan!r} as an argument: compiled code cannot have a plan as a global, since addresses of "
                      "this process would be compiled in")


@intrinsic  # type: ignore[untyped-decorator]
def call_step(typingctx: Any, words: Any, at: Any, arrays: Any) -> Any:
    """What the step that stands there among a plan's words returns for two or three arrays."""

    def gen(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        place = b.gep(ctx.make_array(words)(ctx, b, values[0]).data, [values[1]])
        step, job = b.load(place), b.load(b.gep(place, [WORD(1)]))
        data = [ctx.make_array(typ)(ctx, b, a).data for typ, a in zip(arrays, cgutils.unpack_tuple(b, values[2]))]
        taken = [job, *(b.ptrtoint(each, WORD) for each in data), WORD(0)]
        return b.call(b.inttoptr(step, STEP.as_pointer()), taken[:4])

    return types.int64(words, types.int64, arrays), gen


@inlined
def shape_at(words, at, a):  # type: ignore[no-untyped-def]
    """The shape that stands there, of as many axes as an array has."""
    shape = a.shape
    for k in range(a.ndim):
        shape = tuple_setitem(shape, k, words[at + k])
    return shape


@inlined
def misfit(words, at, a):  # type: ignore[no-untyped-def]
    """Whether an array is not of the shape that stands there, or not where kernels can read it."""
    return np.int64(a.ctypes.data) & words[MASK] != 0 or a.shape != shape_at(words, at, a)


@inlined
def overlap(a, b):  # type: ignore[no-untyped-def]
    first, second = np.int64(a.ctypes.data), np.int64(b.ctypes.data)
    return first < second + b.nbytes and second < first + a.nbytes


# What users call

STALE = ("this function was compiled for another version of numba_pool: delete its files in __pycache__ or "
         "NUMBA_CACHE_DIR")
NO_GRADIENT = ("this plan has no gradient: a maximum or a minimum has one if it is planned with return_indices=True, "
               "an average or a sum if it is of floats, and with channel_axis=-1 an output of more than one pixel")
OUTSIDE = "indices must lie within the input's planes, so that grad_input is of no use now; indices that do not:"
GOT = "and the alignment of its dtype, got"
SHARED = "arrays that are written must not overlap others"
NAMES = {"run": ("x", "out", "indices"), "run_backward": ("grad_output", "grad_input", "indices")}
CALLS = {"run": ("(plan, x, out)", "(plan, x, out, indices)"),
         "run_backward": ("(plan, grad_output, grad_input)", "(plan, grad_output, indices, grad_input)")}


def run(plan: Plan, x: Array, out: Array, indices: Array | None = None) -> None:
    """Pool `x` into `out`; and write `indices` if, and only if, the plan is made with `return_indices=True`.

    In compiled code or in Python; serial, without planning. Arrays are C-contiguous, of the plan's shape, output_shape
    and dtype, indices int32, and do not overlap. Else it raises before anything is written: ValueError for shapes,
    TypeError for types; in compiled code that is Numba's TypingError, when it compiles.
    """
    run_from_python(plan, x, out, *(() if indices is None else (indices,)))


def run_backward(plan: Plan, grad_output: Array, *arrays: Array) -> None:
    """Write the gradient: `run_backward(plan, grad_output, grad_input)`, of an average, or
    `run_backward(plan, grad_output, indices, grad_input)`, of a maximum, with the indices that `run` wrote.

    Arrays and errors are as those of `run`. ValueError also if the plan has no gradient; and for indices out of range,
    when parts of `grad_input`, and nothing else, may have been written.
    """
    run_backward_from_python(plan, grad_output, *arrays)


def called_from_python(function: Callable[..., None], typed: Callable[..., Any]) -> Callable[..., None]:
    """The function compiled, with the errors of Python; `typed` refuses types with a message of its own."""

    @prepared
    @njit(nogil=True, no_cfunc_wrapper=True)
    def call(plan, *arrays):  # type: ignore[no-untyped-def]
        function(plan, *arrays)

    def checked(*args: Any) -> None:
        try:
            call(*args)
        except TypingError as error:
            message = str(error)  # a dozen lines, one of which is what `typed` said
            try:
                typed(*map(typeof, args))
            except (TypingError, ValueError) as reason:  # the latter for what has no type in Numba
                message = str(reason)
            raise TypeError(message) from None
        except ValueError as error:  # which compiled code cannot put together
            raise ValueError(" ".join(map(str, error.args))) from None

    return checked


def performed(caller: str, plan: Any, source: Any, target: Any, *indices: Any) -> Any:
    """Refuses types that do not fit. A compiled function that checks what types do not say, and calls the kernel."""
    if not isinstance(plan, PlanType):
        raise TypingError(f"numba_pool.{caller} takes a plan that numba_pool.plan made in Python and that the function "
                          f"has as an argument, got {plan}")
    if len(indices) != plan.indexed:
        raise TypingError(f"this plan wants numba_pool.{caller}{CALLS[caller][plan.indexed]}")
    for name, a in zip(NAMES[caller], (source, target, *indices)):
        wanted = types.int32 if name == "indices" else plan.dtype, plan.ndim, "C", True
        if not isinstance(a, types.Array) or (a.dtype, a.ndim, a.layout, a.aligned) != wanted:
            raise TypingError(f"{name} must be a C-contiguous array of {wanted[0]} with {plan.ndim} axes, got {a}")
        if not a.mutable and (name in ("out", "grad_input") or caller + name == "runindices"):
            raise TypingError(f"{name} must be writeable, got {a}")
    version, output, forward = plan.version, SHAPES + plan.ndim, caller == "run"
    source_at, target_at, step = (SHAPES, output, FORWARD) if forward else (output, SHAPES, BACKWARD)
    source_text, target_text, index_text = (f"{name} must have the plan's shape" for name in NAMES[caller])

    def perform(words, source, target, index):  # type: ignore[no-untyped-def]
        if words[VERSION_AT] != version:
            raise RuntimeError(STALE)
        if misfit(words, source_at, source):
            raise ValueError(source_text, shape_at(words, source_at, source), GOT, source.shape)
        if misfit(words, target_at, target):
            raise ValueError(target_text, shape_at(words, target_at, target), GOT, target.shape)
        shared = overlap(source, target)
        if index is not None:
            if misfit(words, output, index):
                raise ValueError(index_text, shape_at(words, output, index), GOT, index.shape)
            shared |= overlap(target, index) or (forward and overlap(source, index))
        if shared:
            raise ValueError(SHARED)
        if index is None:
            if words[step] == 0:
                raise ValueError(NO_GRADIENT)
            result = call_step(words, step, (source, target))
            if forward and result > 0:
                result = call_step(words, NANS, (source, target))
        elif forward:
            result = call_step(words, step, (source, target, index))
            if result > 0:
                result = call_step(words, NANS, (source, target, index))
        else:
            if words[CERTAIN] == 0:
                raise ValueError(NO_GRADIENT)
            if words[step] != 0 and call_step(words, step, (source, target, index)) == words[TAKEN]:
                return
            result = call_step(words, CERTAIN, (source, index, target))
            if result > 0:
                raise ValueError(OUTSIDE, result)
        if result < 0:
            raise MemoryError

    return inlined(perform)


@overload(run)
def compiled_run(plan, x, out, indices=None):  # type: ignore[no-untyped-def]
    given = () if isinstance(indices, (types.NoneType, types.Omitted)) or indices is None else (indices,)
    perform = performed("run", plan, x, out, *given)
    return lambda plan, x, out, indices=None: perform(plan.words, x, out, indices)


@overload(run_backward)
def compiled_run_backward(plan, grad_output, *arrays):  # type: ignore[no-untyped-def]
    *indices, grad_input = arrays or (types.none,)
    perform = performed("run_backward", plan, grad_output, grad_input, *indices)
    if indices:
        return lambda plan, grad_output, *arrays: perform(plan.words, grad_output, arrays[1], arrays[0])
    return lambda plan, grad_output, *arrays: perform(plan.words, grad_output, arrays[0], None)


run_from_python = called_from_python(run, compiled_run)
run_backward_from_python = called_from_python(run_backward, compiled_run_backward)
