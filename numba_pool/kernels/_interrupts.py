"""Signals that wait until Numba is done.

Python runs a signal's handler between any two steps of the main thread's Python code, and the handler may raise
KeyboardInterrupt. While a kernel is compiled or loaded, these are steps of Numba and of llvmlite, which such an
exception breaks in three ways. It may be lost inside a callback of LLVM, and Numba goes on with a function that does
not exist. It may leave a module that is freed twice. Or it leaves tables of types half filled. The first two end the
process, the third makes every later compilation fail.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import FrameType
from typing import Any


@contextmanager
def held() -> Iterator[None]:
    """A context in which signals are held: the handlers of signals that arrive in it run at its end."""
    if threading.current_thread() is not threading.main_thread():  # other threads neither run nor set handlers
        yield
        return
    holding = True
    arrived: dict[int, FrameType | None] = {}
    handlers: dict[int, Callable[..., Any]] = {}

    def hold(number: int, frame: FrameType | None) -> None:
        if holding:
            arrived[number] = frame
        else:  # `give_back` did not come to this signal, since an earlier handler has raised
            handlers[number](number, frame)

    def give_back() -> None:
        for number, handler in handlers.items():
            if signal.getsignal(number) is hold:
                signal.signal(number, handler)

    try:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):  # a handler in Python
                handlers[number] = handler
                signal.signal(number, hold)
        yield
    finally:
        with ExitStack() as stack:  # calls all handlers, even if one raises
            stack.callback(give_back)  # once more, in case a handler raised while they were given back
            holding = False
            for came, frame in arrived.items():
                stack.callback(handlers[came], came, frame)
            give_back()


def uninterrupted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, in whose calls signals are held."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with held():
            return function(*args, **kwargs)

    return call
