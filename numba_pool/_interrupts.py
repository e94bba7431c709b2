"""Signals that wait until Numba is done.

Python runs a signal's handler, which may raise KeyboardInterrupt, between any two steps of the main thread's Python
code: of Numba's and llvmlite's, too, while a kernel is compiled or loaded. There it is lost inside a callback of LLVM,
after which Numba goes on with a function that is not there; or it leaves a module that is freed twice, or tables of
types that stay half filled. The first two end the process, the third makes every later compilation fail.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any


@contextmanager
def held() -> Iterator[None]:
    """Let the handlers of signals that arrive in here run at its end."""
    if threading.current_thread() is not threading.main_thread():  # no other runs handlers, or may set them
        yield
        return
    arrived: set[int] = set()

    def give_back(number: int, handler: Callable[..., Any]) -> None:
        signal.signal(number, handler)
        if number in arrived:
            signal.raise_signal(number)

    with ExitStack() as stack:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):  # one of Python's
                stack.callback(give_back, number, handler)
                signal.signal(number, lambda number, frame: arrived.add(number))
        yield


def uninterrupted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with signals held."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with held():
            return function(*args, **kwargs)

    return call
