"""What Numba says of a function or layer of Python that compiled code calls."""

from typing import Any

from numba.core.errors import TypingError
from numba.core.types import Callable


class NotCompiled(Callable):
    """Numba's type of what compiled code cannot call, told when it tries; the attribute `_numba_type_` has it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"numba_pool.{name}")

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        raise TypingError(
            f"{self.name} cannot be called in compiled code: make a plan of a pooling function in Python, "
            "plan = numba_pool.plan(numba_pool.max_pool2d, x.shape, x.dtype, 2), pass it as an argument, and call "
            "numba_pool.run(plan, x, out) there"
        )

    def get_call_signatures(self) -> Any:
        return (), False

    def get_impl_key(self, sig: Any) -> Any:
        return self.name
