"""The error for compiled code that calls a function or a layer of this package."""

from typing import Any

from numba.core.errors import TypingError
from numba.core.types import Callable

PLANNED = ("make a plan of a pooling function in Python, plan = numba_pool.plan(numba_pool.max_pool2d, x.shape, "
           "x.dtype, 2), pass it as an argument, and call numba_pool.run(plan, x, out) there")
IN_PYTHON = "call it in Python, before or after, or there in a block with numba.objmode"


class NotCompiled(Callable):
    """The Numba type of a function that compiled code cannot call: Numba finds it in the function's `_numba_type_`, and
    this raises when compiled code calls the function. `way` is what to do instead.
    """

    def __init__(self, name: str, way: str = PLANNED) -> None:
        self.way = way
        super().__init__(f"numba_pool.{name}")

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        raise TypingError(f"{self.name} cannot be called in compiled code: {self.way}")

    def get_call_signatures(self) -> Any:
        return (), False

    def get_impl_key(self, sig: Any) -> Any:
        return self.name
