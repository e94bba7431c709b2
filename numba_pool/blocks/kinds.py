"""What a reduction is to Numba: a type of its own. So a walk is compiled for each, and the disk cache tells them apart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types
from numba.core.imputils import lower_constant
from numba.extending import models, overload, register_model, typeof_impl

INLINED = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
CALLED = {**INLINED, "forceinline": False}


@dataclass(frozen=True)
class Reduction:
    """A reduction, with everything that its machine code depends on."""

    name: str
    x: str  # dtype of the elements
    out: str  # dtype of the results
    state: str = ""  # how a sum is kept, see `sums.py`: as a dtype, or as a 'pair', or as 'limbs'
    missing: tuple[str, ...] = ()  # how elements can be missing: 'nan', 'value', 'where'
    option: str = ""  # the rounding of means and medians; the ties of modes; where a function is
    size: int = 0  # of all blocks, where that is a constant to the compiler
    half: bool = False  # users get halves, of results that are float64

    def __str__(self) -> str:
        words = (self.x, "to", self.out, self.state, self.option, *self.missing, str(self.size or ""),
                 "for halves" * self.half)
        return f"{self.name} of {' '.join(filter(None, words))}"


class ReductionType(types.Type):  # type: ignore[misc]
    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        super().__init__(name=f"Reduction({reduction})")


register_model(ReductionType)(models.OpaqueModel)


@typeof_impl.register(Reduction)  # type: ignore[untyped-decorator]
def type_of(value: Reduction, context: Any) -> ReductionType:
    return ReductionType(value)


@lower_constant(ReductionType)  # type: ignore[untyped-decorator]
def constant(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.get_dummy_value()


def inlined(function: Callable[..., Any]) -> Any:
    """`overload` for what is called in inner loops."""
    return overload(function, jit_options=INLINED)


def number(name: str) -> Any:
    """The type by which compiled code converts to a dtype."""
    return np.dtype(name).type


def is_float(name: str) -> bool:
    return np.dtype(name).kind == "f"


def extremes(name: str) -> tuple[Any, Any]:
    """The least and the greatest value of a dtype."""
    dtype = np.dtype(name)
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    return dtype.type(np.iinfo(dtype).min), dtype.type(np.iinfo(dtype).max)
