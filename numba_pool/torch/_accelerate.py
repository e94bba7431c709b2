"""Take over the pooling of a model that is there already, and give it back."""

from __future__ import annotations  # help() shows them by name

import copy
from typing import Any, NamedTuple

import torch
from torch import nn

from . import _modules, _small
from ._modules import FORWARDS
from ._others import same_norm
from ._pools import POOLS
from ._tensors import DTYPES

POOLING = tuple(FORWARDS)
NAMES = frozenset(POOLS) | {cls.__name__ for cls in POOLING}  # that torch and the binding share


class Accelerated:
    """What an accelerated Module's class adds to torch's: copies stay accelerated, and files name torch's class."""

    taken_from: type

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(0)  # later protocols do not let another class take the place
        make, (_, *rest), *state = reduced
        return make, (self.taken_from, *rest), *state

    def __copy__(self: Any) -> Any:
        twin = self.__new__(type(self))
        twin.__setstate__(self.__getstate__())
        return twin

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        twin = memo[id(self)] = self.__new__(type(self))
        twin.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return twin


# Of torch's classes, and under their names, by which tracers know which Modules are torch's. Were torch's class not the
# first base, Python would not let its instances change their class.
ACCELERATED = {
    cls: type(cls.__name__, (cls, Accelerated), {"forward": forward, "taken_from": cls, "__module__": cls.__module__,
                                                 "__qualname__": cls.__qualname__, "__doc__": cls.__doc__,
                                                 **_modules.MISSING.get(cls.__name__[:-2], {})})
    for cls, forward in FORWARDS.items()
}  # fmt: skip


class Taken(NamedTuple):
    """A Module that numba_pool computes."""

    name: str
    module: nn.Module


class Left(NamedTuple):
    """A Module that torch computes, and why."""

    name: str
    module: nn.Module
    why: str


class Report(NamedTuple):
    """What became of a model's pooling Modules; `print` it."""

    taken: list[Taken]
    left: list[Left]

    def __str__(self) -> str:
        count = len(self.taken) + len(self.left)
        lines = [f"{len(self.taken)} of {count} pooling Modules go to numba_pool." if count else "No pooling Modules."]
        lines += [f"  taken  {named(name)}: {module}" for name, module in self.taken]
        lines += [f"  left   {named(name)}: {module}: {why}" for name, module, why in self.left]
        if self.taken:
            lines.append("Small calls stay torch's, as they take less time there: those whose windows hold fewer "
                         "elements in all than\n" + "\n".join(map(sizes, ("inference", "training"), _small.SIZES)))
        lines.append("Where the model's own code calls torch.nn.functional.max_pool2d, that is torch's, and cannot be "
                     "seen here.\nThere write numba_pool.torch.max_pool2d. So for all pooling functions.")
        return "\n".join(lines)


def named(name: str) -> str:
    """A Module's name in its model, so that nobody takes it for a number."""
    return f'Module "{name}"' if name else "the model"


def sizes(mode: str, least: tuple[int, int]) -> str:
    """Below which sizes torch computes."""
    plain, last = least
    return f"  {mode:10} {plain:8,}, channels last {last:9,}"


def accelerate(model: nn.Module) -> nn.Module:
    """Have numba_pool compute the pooling Modules of a model, in place.

    Each instance of exactly one of torch's pooling classes becomes one of a subclass, of the same name, that has
    another `forward`. Everything else stays: attributes, parameters, `state_dict`, hooks. Copies are accelerated, too.
    Pickled, by whatever means, it is torch's own, so that the file loads where numba_pool is not installed. Calls that
    numba_pool cannot compute, such as on a GPU, still go to torch, one by one, and so do small calls, for which torch
    takes less time.

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

    Examples
    --------
    >>> from torch import nn
    >>> from numba_pool.torch import accelerate
    >>> accelerate(nn.MaxPool2d(2))
    MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    """
    for module in checked(model).modules():
        if isinstance(module, POOLING) and not reason(module) and not is_taken(module):
            change(module, ACCELERATED[type(module)])
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
        if taken_from := vars(type(module)).get("taken_from"):
            change(module, taken_from)
    return model


def report(model: nn.Module) -> Report:
    """Say which pooling Modules of a model go to numba_pool, and why the others do not.

    Parameters
    ----------
    model : nn.Module

    Returns
    -------
    Report
        `taken`, a list of (name, module), and `left`, a list of (name, module, why).

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
      inference    16,384, channels last   262,144
      training     32,768, channels last 1,048,576
    Where the model's own code calls torch.nn.functional.max_pool2d, that is torch's, and cannot be seen here.
    There write numba_pool.torch.max_pool2d. So for all pooling functions.
    """
    taken, left = [], []
    elsewhere = computed_elsewhere(checked(model))
    for name, module in model.named_modules():
        if not isinstance(module, POOLING) and not is_scripted_pool(module):
            continue
        why = reason(module) or elsewhere or ("" if is_taken(module) else "not accelerated: call accelerate(model)")
        if why:
            left.append(Left(name, module, why))
        else:
            taken.append(Taken(name, module))
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
    """Give a Module another class, and so its forward."""
    if not is_replaced(module):
        vars(module).pop("forward", None)  # tools that wrap a forward set that of the class when they give it back
    module.__class__ = cls


def is_replaced(module: nn.Module) -> bool:
    """Whether the Module has a forward that is not its class's."""
    forward = vars(module).get("forward")
    return forward is not None and getattr(forward, "__func__", None) is not type(module).forward


def is_taken(module: nn.Module) -> bool:
    """Whether our forward computes the Module: it is accelerated, or of one of our own classes."""
    # By the name of the Python module: if that was imported anew, there are several sets of forwards.
    return not is_replaced(module) and getattr(type(module).forward, "__module__", "") == _modules.__name__


def is_scripted_pool(module: nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule) and hasattr(nn, getattr(module, "original_name", "")) and (
        getattr(nn, module.original_name) in FORWARDS
    )


def reason(module: nn.Module) -> str:
    """Why a pooling Module cannot be taken, or nothing."""
    if isinstance(module, torch.jit.ScriptModule):
        return "it is compiled by torch.jit"
    if is_taken(module):
        return ""
    if type(module) not in FORWARDS and "taken_from" not in vars(type(module)):
        return f"its class {type(module).__module__}.{type(module).__qualname__} is not torch's own"
    if is_replaced(module):
        return "its forward was replaced by someone else"
    if isinstance(module, (nn.LPPool1d, nn.LPPool2d, nn.LPPool3d)) and not same_norm(module.norm_type,
                                                                                     module.ceil_mode):
        return "norms of odd or fractional order, or with ceil_mode, mean something else in torch"
    return ""


def computed_elsewhere(model: nn.Module) -> str:
    """Why torch computes all of a model, as far as its parameters tell."""
    for parameter in model.parameters():
        if parameter.device.type != "cpu":
            return f"the model is on {parameter.device}"
        if parameter.dtype.is_floating_point and parameter.dtype not in DTYPES:
            return f"the model is of {parameter.dtype}"
    return ""
