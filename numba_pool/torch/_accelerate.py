"""Take over the pooling of a model that is there already, and give it back."""

from __future__ import annotations  # help() shows them by name

from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch
from torch import nn

from . import _modules, _small
from ._modules import FORWARDS
from ._others import same_norm
from ._pools import POOLS
from ._rewritten import OURS
from ._tensors import DTYPES
from ._twins import Twins, origin, refusal

POOLING = tuple(FORWARDS)
NAMES = frozenset(POOLS) | {cls.__name__ for cls in POOLING}  # that torch and the binding share


class Taken(NamedTuple):
    """A Module whose pooling numba_pool computes."""

    name: str
    module: nn.Module


class Left(NamedTuple):
    """A Module whose pooling torch computes, and why."""

    name: str
    module: nn.Module
    why: str


class Report(NamedTuple):
    """What became of a model's Modules that pool; `print` it."""

    taken: list[Taken]
    left: list[Left]

    def __str__(self) -> str:
        count = len(self.taken) + len(self.left)
        lines = [f"{len(self.taken)} of {count} pooling Modules go to numba_pool." if count else "No pooling Modules."]
        twins = Twins()
        lines += [f"  taken  {named(name)}: {described(module, twins)}" for name, module in self.taken]
        lines += [f"  left   {named(name)}: {described(module, twins)}: {why}" for name, module, why in self.left]
        if self.taken:
            lines.append("Small calls stay torch's, as they take less time there: those whose windows hold fewer "
                         "elements in all than")
            lines.append(" " * 24 + "inference  channels last   training  channels last")
            lines += [sizes(kind, *least) for kind, least in _small.SIZES.items()]
        lines.append("Where code has torch.nn.functional.max_pool2d from an attribute, a partial or an import within a "
                     "method,\nit is torch's, and cannot be seen here. There write numba_pool.torch.max_pool2d.")
        return "\n".join(lines)


def named(name: str) -> str:
    """A Module's name in its model, so that nobody takes it for a number."""
    return f'Module "{name}"' if name else "the model"


def described(module: nn.Module, twins: Twins) -> str:
    """A Module in a line: itself if it is a pooling Module, or else its class and what it calls."""
    called = twins.calls(type(module))
    if isinstance(module, POOLING) or not called:
        return str(module).partition("\n")[0]
    return f"{type(module).__name__} calls {', '.join(called)}"


def sizes(kind: str, inference: tuple[int, int], training: tuple[int, int]) -> str:
    """Below which sizes torch computes calls of a kind."""
    said = ("all" if least == _small.NEVER else f"{least:,}" for least in (*inference, *training))
    return f"  {kind:20}" + "".join(f"{least:>{width}}" for least, width in zip(said, (11, 15, 11, 15)))


def accelerate(model: nn.Module) -> nn.Module:
    """Have numba_pool compute the pooling of a model, in place: its pooling Modules, and the functions that it calls.

    Each Module that pools becomes one of a subclass of its class, of the same name. There a pooling Module of torch's
    has another `forward`. A method that calls torch's pooling functions, such as `F.max_pool2d`, or functions of yours
    that do, is there once more, and calls numba_pool's. Everything else stays: attributes, parameters, `state_dict`,
    hooks, your own class. Copies are accelerated, too. Pickled, by whatever means, the Module is of your class, so that
    the file loads where numba_pool is not installed. Calls that numba_pool cannot compute, such as on a GPU, still go
    to torch, one by one, and so do small calls, for which torch takes less time.

    Parameters
    ----------
    model : nn.Module
        May be a pooling Module itself.

    Returns
    -------
    nn.Module
        The same model.

    Raises
    ------
    TypeError
        For anything but a Module.

    See Also
    --------
    report : what is taken and what is left.
    restore : undo it.

    Notes
    -----
    A name in a method is looked up when `accelerate` is called: `F` among the globals, `max_pool2d` in `F`. What code
    reads from an attribute, a partial, a container or an import within a method stays torch's.

    Examples
    --------
    >>> from torch import nn
    >>> from numba_pool.torch import accelerate
    >>> accelerate(nn.MaxPool2d(2))
    MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    """
    twins = Twins()
    taken = [module for module in checked(model).modules() if obstacle(module, twins) == "" and not is_taken(module)]
    classes = [twins.of(type(module)) for module in taken]
    twins.writer.finish()
    for module, cls in zip(taken, classes):
        change(module, cls)
    return model


def restore(model: nn.Module) -> nn.Module:
    """Give a model's pooling back to torch, in place.

    Parameters
    ----------
    model : nn.Module

    Returns
    -------
    nn.Module
        The same model.

    Raises
    ------
    TypeError
        For anything but a Module.

    Examples
    --------
    >>> from torch import nn
    >>> from numba_pool.torch import accelerate, restore
    >>> pool = restore(accelerate(nn.MaxPool2d(2)))
    >>> type(pool) is nn.MaxPool2d
    True
    """
    for module in checked(model).modules():
        if cls := origin(type(module)):
            change(module, cls)
    return model


def report(model: nn.Module) -> Report:
    """Say which Modules of a model that pool go to numba_pool, and why the others do not.

    Parameters
    ----------
    model : nn.Module

    Returns
    -------
    Report
        `taken`, a list of (name, module), and `left`, a list of (name, module, why): pooling Modules, and Modules whose
        code calls pooling functions.

    Raises
    ------
    TypeError
        For anything but a Module.

    Examples
    --------
    >>> from torch import nn
    >>> from numba_pool.torch import accelerate, report
    >>> print(report(accelerate(nn.Sequential(nn.MaxPool2d(2), nn.LPPool2d(3, 2)))))
    1 of 2 pooling Modules go to numba_pool.
      taken  Module "0": MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
      left   Module "1": LPPool2d(norm_type=3, kernel_size=2, stride=None, ceil_mode=False): norms of odd or \
fractional order, or with ceil_mode, mean something else in torch
    Small calls stay torch's, as they take less time there: those whose windows hold fewer elements in all than
                            inference  channels last   training  channels last
      maxima                   32,768      1,048,576    131,072      4,194,304
      averages                 65,536            all     65,536      4,194,304
      adaptive averages       131,072            all    131,072      4,194,304
      global averages             all            all    262,144      1,048,576
    Where code has torch.nn.functional.max_pool2d from an attribute, a partial or an import within a method,
    it is torch's, and cannot be seen here. There write numba_pool.torch.max_pool2d.
    """
    taken, left, twins = [], [], Twins()
    elsewhere = computed_elsewhere(checked(model))
    for name, module in model.named_modules():
        why = obstacle(module, twins)
        if why is None:
            continue
        why = why or elsewhere or ("" if is_taken(module) else "not accelerated: call accelerate(model)")
        if why:
            left.append(Left(name, module, why))
        else:
            taken.append(Taken(name, module))
            if kept := kept_functions(module):
                left.append(Left(name, module, kept))
    return Report(taken, left)


def checked(model: Any) -> nn.Module:
    """The model, if it is a Module."""
    if isinstance(model, nn.Module):
        return model
    name = getattr(model, "__name__", "")
    if name in NAMES:
        hint = f"write numba_pool.torch.{name} in the place of torch's {name}"
    elif callable(model):
        hint = "write numba_pool.torch.max_pool2d where a function calls torch.nn.functional.max_pool2d"
    else:
        hint = "call it for each Module"
    raise TypeError(f"model must be a torch.nn.Module, got {name or 'an instance of ' + type(model).__name__}: {hint}")


def change(module: nn.Module, cls: type) -> None:
    """Give a Module another class, and so its methods, also where it keeps them as attributes."""
    kept = {name: value.__name__ for name, value in vars(module).items()
           if type(value) is MethodType and value.__self__ is module
           and value.__func__ is getattr(type(module), value.__name__, None)}  # fmt: skip
    if kept.get("forward") == "forward":
        del kept["forward"], vars(module)["forward"]  # tools that wrap a forward set it when they give it back
    vars(object)["__class__"].__set__(module, cls)  # by no __setattr__ of the user's
    vars(module).update({name: MethodType(getattr(cls, method), module) for name, method in kept.items()})


def is_replaced(module: nn.Module) -> bool:
    """Whether the Module has a forward that is not its class's."""
    forward = vars(module).get("forward")
    return forward is not None and getattr(forward, "__func__", None) is not type(module).forward


def is_taken(module: nn.Module) -> bool:
    """Whether a Module that pools is accelerated, or of one of our own classes."""
    # By the name of the Python module: if that was imported anew, there are several sets of forwards.
    ours = getattr(type(module).forward, "__module__", "") == _modules.__name__
    return not is_replaced(module) and (ours or any(map(origin, type(module).__mro__)))


def obstacle(module: nn.Module, twins: Twins) -> str | None:
    """Why numba_pool cannot compute the pooling of a Module itself; "" where it can, None where there is none."""
    cls = type(module)
    if isinstance(module, torch.jit.ScriptModule):
        pool = getattr(nn, getattr(module, "original_name", ""), None)
        return "it is compiled by torch.jit" if pool in FORWARDS else None
    called = twins.calls(cls)
    if not called and not isinstance(module, POOLING):
        return kept_functions(module)
    if is_taken(module):
        return ""
    if is_replaced(module):
        return "its forward was replaced by someone else"
    if why := refusal(cls):
        return why
    if not called and not leads_to_torchs(cls):
        return (f"its class {cls.__module__}.{cls.__qualname__} is not torch's own, and its forward calls none of "
                "torch's poolings")
    if leads_to_torchs(cls) and (name := attribute_of_ours(module)):
        return f'its attribute "{name}" is none of torch\'s, but would be numba_pool\'s'
    if isinstance(module, (nn.LPPool1d, nn.LPPool2d, nn.LPPool3d)) and not same_norm(module.norm_type,
                                                                                     module.ceil_mode):
        return "norms of odd or fractional order, or with ceil_mode, mean something else in torch"
    if twins.of(cls) is cls:
        return f"torch made its class {cls.__name__}, as parametrizations do: call accelerate before that"
    return ""


def attribute_of_ours(module: nn.Module) -> str:
    """An attribute of the user's that our forward of a pooling Module would read, though torch's does not."""
    pool = next((cls for cls in type(module).__mro__ if cls in FORWARDS), None)
    names = {"nan_policy", "min_count", "dilation", "divisor_override"}.difference(getattr(pool, "__constants__", ()))
    return next((name for name in sorted(names) if pool and hasattr(module, name)), "")


def leads_to_torchs(cls: type) -> bool:
    """Whether the forward of a pooling class is that of torch's, or calls its base's."""
    definer = next(base for base in cls.__mro__ if "forward" in vars(base))
    forward = vars(definer)["forward"]
    return definer in FORWARDS or (isinstance(forward, FunctionType) and "super" in forward.__code__.co_names)


def kept_functions(module: nn.Module) -> str | None:
    """Why a Module's pooling cannot be taken that holds torch's functions itself, or is a graph of calls."""
    if isinstance(module, torch.fx.GraphModule):
        targets = {OURS[node.target].__name__ for node in module.graph.nodes
                   if node.op == "call_function" and node.target in OURS}  # fmt: skip
        if targets:
            return f"it is a graph that calls {', '.join(sorted(targets))}: call accelerate before it is traced"
    for name, value in vars(module).items():
        function = value.func if isinstance(value, partial) else value
        if isinstance(function, (FunctionType, BuiltinFunctionType)) and function in OURS:
            ours = OURS[function].__name__
            return f'its attribute "{name}" is torch\'s {ours}: write numba_pool.torch.{ours} there'
    return None


def computed_elsewhere(model: nn.Module) -> str:
    """Why torch computes all of a model, as far as its parameters tell."""
    for parameter in model.parameters():
        if parameter.device.type != "cpu":
            return f"the model is on {parameter.device}"
        if parameter.dtype.is_floating_point and parameter.dtype not in DTYPES:
            return f"the model is of {parameter.dtype}"
    return ""
