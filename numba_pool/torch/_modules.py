"""torch's pooling Modules with the core behind their forward, and those that torch has not.

Annotations are no strings here, as torch.fx keeps those of a forward.
"""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn

from ..functional._missing import is_omitted
from . import _functions as functions
from . import _others as others
from . import _segments as segments
from ._own import NOTHING
from ._pools import POOLS
from ._small import ASKERS

FUNCTIONS = vars(functions) | vars(others)
# The arguments of a function that a Module has as attributes, in the function's order.
ATTRIBUTES = {
    "LPPool": ("lp_pool", "norm_type", "kernel_size", "stride", "ceil_mode"),
    "FractionalMaxPool": ("fractional_max_pool", "kernel_size", "output_size", "output_ratio", "return_indices",
                          "_random_samples"),
}  # fmt: skip
# What says which elements are missing, and the values that say none: attributes of the class, as torch's Modules that
# are taken over have no such attributes.
OF_MAXIMA: dict[str, Any] = {"nan_policy": "propagate"}
OF_AVERAGES: dict[str, Any] = {"nan_policy": "propagate", "min_count": None}
MISSING = {"MaxPool": OF_MAXIMA, "AvgPool": OF_AVERAGES, "AdaptiveMaxPool": OF_MAXIMA, "AdaptiveAvgPool": OF_AVERAGES}


def forward_of(family: str, rank: int) -> Callable[..., Any]:
    """The method of a Module that calls our function with its attributes."""
    name, *attributes = ATTRIBUTES[family]
    function = FUNCTIONS[f"{name}{rank}d"]

    def forward(self: nn.Module, input: Tensor) -> Any:
        return function(input, *[getattr(self, attribute) for attribute in attributes])

    return forward


# Where nothing is missing, Modules ask by themselves whether a call is small, and read their attributes one by one: a
# function in between takes a small pooling one or two microseconds more, and so does `attrgetter`.


def max_forward(rank: int) -> Callable[..., Any]:
    name = f"max_pool{rank}d"
    function, pool, is_small, own = FUNCTIONS[name], POOLS[name], ASKERS[name], getattr(torch, name)

    def forward(self: Any, input: Tensor, where: Any = None) -> Any:
        stride = self.kernel_size if self.stride is None else self.stride
        arguments = self.kernel_size, stride, self.padding, self.dilation, self.ceil_mode
        if where is None and self.nan_policy == "propagate":
            if self.return_indices:
                return functions.pooled(pool, input, arguments, NOTHING, True)
            return own(input, *arguments) if is_small(input, arguments) else functions.computed(pool, input, arguments)
        return function(input, *arguments, self.return_indices, nan_policy=self.nan_policy, where=where)

    return forward


def avg_forward(rank: int) -> Callable[..., Any]:
    name = f"avg_pool{rank}d"
    function, pool, is_small = FUNCTIONS[name], POOLS[name], ASKERS[name]
    own = pool.own

    def forward(self: Any, input: Tensor, where: Any = None) -> Any:
        divisor = getattr(self, "divisor_override", None)
        arguments = self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, divisor
        more = {"dilation": self.dilation} if hasattr(self, "dilation") else NOTHING
        if where is None and not more and self.nan_policy == "propagate" and self.min_count is None:
            return own(input, *arguments) if is_small(input, arguments) else functions.computed(pool, input, arguments)
        return function(input, *arguments, **more, nan_policy=self.nan_policy, where=where, min_count=self.min_count)

    return forward


def adaptive_max_forward(rank: int) -> Callable[..., Any]:
    name = f"adaptive_max_pool{rank}d"
    function, pool = FUNCTIONS[name], POOLS[name]

    def forward(self: Any, input: Tensor, where: Any = None) -> Any:
        if where is None and self.nan_policy == "propagate":
            return functions.pooled(pool, input, (self.output_size,), NOTHING, self.return_indices)
        return function(input, self.output_size, self.return_indices, nan_policy=self.nan_policy, where=where)

    return forward


def adaptive_avg_forward(rank: int) -> Callable[..., Any]:
    name = f"adaptive_avg_pool{rank}d"
    function, pool, is_small = FUNCTIONS[name], POOLS[name], ASKERS[name]
    own = pool.own

    def forward(self: Any, input: Tensor, where: Any = None) -> Any:
        size = self.output_size
        if where is None and self.nan_policy == "propagate" and self.min_count is None:
            return own(input, size) if is_small(input, (size,)) else functions.computed(pool, input, (size,))
        return function(input, size, nan_policy=self.nan_policy, where=where, min_count=self.min_count)

    return forward


def unpool_forward(rank: int) -> Callable[..., Any]:
    function = FUNCTIONS[f"max_unpool{rank}d"]

    def forward(self: Any, input: Tensor, indices: Tensor, output_size: Any = None) -> Any:
        return function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    return forward


def avg_init(base: Any) -> Callable[..., None]:
    """torch's constructor, and what averages take beyond it. That of 1D would take a mode of padding apart."""

    def __init__(self: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None, *, dilation: Any = 1) -> None:
        mode = isinstance(padding, str)
        base.__init__(self, kernel_size, stride, 0 if mode else padding, ceil_mode, count_include_pad)
        if mode:
            self.padding = padding
        self.divisor_override = divisor_override
        self.dilation = dilation

    return __init__


def keeping(init: Callable[..., None], defaults: dict[str, Any]) -> Callable[..., None]:
    """A constructor that takes these keywords, too, and keeps them as attributes where they are no defaults."""

    @wraps(init)
    def __init__(self: Any, *arguments: Any, **more: Any) -> None:
        kept = {name: more.pop(name, default) for name, default in defaults.items()}
        is_omitted(kept["nan_policy"])
        init(self, *arguments, **more)
        vars(self).update({name: value for name, value in kept.items() if value != defaults[name]})

    own = signature(init)
    added = [Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in defaults.items()]
    parameters = sorted([*own.parameters.values(), *added], key=lambda parameter: parameter.kind)
    __init__.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return __init__


def repr_of(base: Any, names: Any) -> Callable[[Any], str]:
    """torch's description of a Module, and of what torch has not what is kept."""

    def extra_repr(self: Any) -> str:
        kept = [f"{name}={vars(self)[name]!r}" for name in names if name in vars(self)]
        return ", ".join([base.extra_repr(self), *kept])

    return extra_repr


FORWARD_OF = {"MaxPool": max_forward, "AvgPool": avg_forward, "AdaptiveMaxPool": adaptive_max_forward,
              "AdaptiveAvgPool": adaptive_avg_forward, "MaxUnpool": unpool_forward}
FORWARDS: dict[type, Callable[..., Any]] = {}  # of torch's classes


def modules(family: str, *ranks: int) -> list[Any]:
    """Subclasses of torch's Modules of a family, one for each rank."""
    made = []
    for rank in ranks:
        name = f"{family}{rank}d"
        base = getattr(nn, name)
        more: dict[str, Any] = {}
        if family == "AvgPool":
            more["__init__"] = avg_init(base)
        forward = FORWARD_OF[family](rank) if family in FORWARD_OF else forward_of(family, rank)
        if family in MISSING:
            defaults = MISSING[family]
            more |= {"__init__": keeping(more.get("__init__", base.__init__), defaults), **defaults,
                     "extra_repr": repr_of(base, defaults)}
        forward.__name__ = "forward"  # under which bound methods are pickled
        FORWARDS[base] = forward
        more |= {"forward": forward, "__module__": "numba_pool.torch", "__qualname__": name,
                 "__doc__": f"`torch.nn.{name}` whose forward is numba_pool's function of that name."}
        made.append(type(name, (base,), more))
    return made


MaxPool1d, MaxPool2d, MaxPool3d = modules("MaxPool", 1, 2, 3)
AvgPool1d, AvgPool2d, AvgPool3d = modules("AvgPool", 1, 2, 3)
LPPool1d, LPPool2d, LPPool3d = modules("LPPool", 1, 2, 3)
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = modules("AdaptiveMaxPool", 1, 2, 3)
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = modules("AdaptiveAvgPool", 1, 2, 3)
FractionalMaxPool2d, FractionalMaxPool3d = modules("FractionalMaxPool", 2, 3)
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = modules("MaxUnpool", 1, 2, 3)


class GlobalAvgPool(nn.Module):
    """Average of every plane, of 1 to 3 spatial axes, which stay with size 1: `global_avg_pool`."""

    def forward(self, input: Tensor) -> Tensor:
        return functions.global_avg_pool(input)


class GlobalMaxPool(nn.Module):
    """Maximum of every plane, of 1 to 3 spatial axes, which stay with size 1: `global_max_pool`."""

    def __init__(self, return_indices: bool = False) -> None:
        super().__init__()
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return functions.global_max_pool(input, self.return_indices)

    def extra_repr(self) -> str:
        return "return_indices=True" if self.return_indices else ""


for _module in (GlobalAvgPool, GlobalMaxPool):
    _module.__module__ = "numba_pool.torch"


class _SegmentExtreme(nn.Module):
    def __init__(self, return_indices: bool = False, *, nan_policy: str = "propagate") -> None:
        super().__init__()
        is_omitted(nan_policy)
        self.return_indices, self.nan_policy = return_indices, nan_policy

    def forward(self, x: Tensor, offsets: Any, where: Any = None) -> Any:
        return self.function(x, offsets, self.return_indices, nan_policy=self.nan_policy, where=where)

    def extra_repr(self) -> str:
        return f"return_indices={self.return_indices}, nan_policy={self.nan_policy!r}"


class _SegmentTotal(nn.Module):
    def __init__(self, *, nan_policy: str = "propagate") -> None:
        super().__init__()
        is_omitted(nan_policy)
        self.nan_policy = nan_policy

    def forward(self, x: Tensor, offsets: Any, where: Any = None) -> Any:
        return self.function(x, offsets, nan_policy=self.nan_policy, where=where)

    def extra_repr(self) -> str:
        return f"nan_policy={self.nan_policy!r}"


def segment_module(base: type, kind: str) -> Any:
    """The Module of one reduction."""
    name = f"Segment{kind.title()}Pool"
    return type(name, (base,), {
        "function": staticmethod(getattr(segments, f"segment_{kind}_pool")), "__module__": "numba_pool.torch",
        "__doc__": f"{segments.WORDS[kind]} over segments, of ``(x, offsets, where=None)``: `segment_{kind}_pool`.",
    })  # fmt: skip


SegmentMaxPool, SegmentMinPool = (segment_module(_SegmentExtreme, kind) for kind in ("max", "min"))
SegmentAvgPool, SegmentSumPool = (segment_module(_SegmentTotal, kind) for kind in ("avg", "sum"))
