"""Take over the pooling of a model that is there already, and give it back."""

from __future__ import annotations  # help() shows them by name

from types import MethodType
from typing import NamedTuple

import torch
from torch import nn

from ._modules import FORWARDS
from ._others import same_norm
from ._tensors import DTYPES

OURS = frozenset(FORWARDS.values())
POOLING = tuple(FORWARDS)


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
        lines = [f"{len(self.taken)} of {len(self.taken) + len(self.left)} pooling Modules go to numba_pool."]
        lines += [f"  taken  {name or '(the model)'}: {module}" for name, module in self.taken]
        lines += [f"  left   {name or '(the model)'}: {module}: {why}" for name, module, why in self.left]
        lines.append("Calls of functions, such as torch.nn.functional.max_pool2d, cannot be seen: they stay torch's.")
        return "\n".join(lines)


def accelerate(model: nn.Module) -> nn.Module:
    """Have numba_pool compute the pooling Modules of a model, in place.

    Each instance of exactly one of torch's pooling classes gets a `forward` of its own. Everything else stays: classes,
    parameters, `state_dict`, hooks. `copy.deepcopy` takes the new forward along; pickling and `torch.save` do not, so
    that the file loads where numba_pool is not installed. Calls that numba_pool cannot compute, such as on a GPU, still
    go to torch, one by one. Do it before `torch.compile`.

    Parameters
    ----------
    model : nn.Module
        May be a pooling Module itself.

    Returns
    -------
    nn.Module
        The same model.

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
    for module in model.modules():
        if isinstance(module, POOLING) and not is_taken(module) and not reason(module):
            vars(module)["forward"] = MethodType(FORWARDS[type(module)], module)
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

    Examples
    --------
    >>> from torch import nn
    >>> from numba_pool.torch import accelerate, restore
    >>> pool = restore(accelerate(nn.MaxPool2d(2)))
    >>> "forward" in vars(pool)
    False
    """
    for module in model.modules():
        if is_taken(module) and "forward" in vars(module):
            del vars(module)["forward"]
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

    Examples
    --------
    >>> from torch import nn
    >>> from numba_pool.torch import accelerate, report
    >>> print(report(accelerate(nn.Sequential(nn.MaxPool2d(2), nn.LPPool2d(3, 2)))))
    1 of 2 pooling Modules go to numba_pool.
      taken  0: MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
      left   1: LPPool2d(norm_type=3, kernel_size=2, stride=None, ceil_mode=False): norms of odd or fractional order, \
or with ceil_mode, mean something else in torch
    Calls of functions, such as torch.nn.functional.max_pool2d, cannot be seen: they stay torch's.
    """
    taken, left = [], []
    elsewhere = computed_elsewhere(model)
    for name, module in model.named_modules():
        if not isinstance(module, POOLING) and not is_scripted_pool(module):
            continue
        why = reason(module) or elsewhere or ("" if is_taken(module) else "accelerate(model) was not called since")
        if why:
            left.append(Left(name, module, why))
        else:
            taken.append(Taken(name, module))
    return Report(taken, left)


def is_taken(module: nn.Module) -> bool:
    """Whether our forward is in the place of the Module's, or it is one of our own classes."""
    return getattr(module.forward, "__func__", None) in OURS


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
    if type(module) not in FORWARDS:
        return f"its class {type(module).__module__}.{type(module).__qualname__} is not torch's own"
    forward = vars(module).get("forward")  # that of a Module that was pickled when it was taken is its class's
    if forward is not None and getattr(forward, "__func__", None) is not type(module).forward:
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
