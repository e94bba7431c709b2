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
from types import FrameType
from typing import Any


@contextmanager
def held() -> Iterator[None]:
    """Let the handlers of signals that arrive in here run at its end."""
    if threading.current_thread() is not threading.main_thread():  # no other runs handlers, or may set them
        yield
        return
    holding = True
    arrived: dict[int, FrameType | None] = {}
    handlers: dict[int, Callable[..., Any]] = {}

    def hold(number: int, frame: FrameType | None) -> None:
        if holding:
            arrived[number] = frame
        else:  # a handler that was given back has raised, and this one's never was
            handlers[number](number, frame)

    def give_back() -> None:
        for number, handler in handlers.items():
            if signal.getsignal(number) is hold:
                signal.signal(number, handler)

    try:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):  # one of Python's
                handlers[number] = handler
                signal.signal(number, hold)
        yield
    finally:
        with ExitStack() as stack:  # which calls all, also if one raises
            stack.callback(give_back)  # the rest, if one that was given back raises at once
            holding = False
            for came, frame in arrived.items():
                stack.callback(handlers[came], came, frame)
            give_back()


def uninterrupted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with signals held."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with held():
            return function(*args, **kwargs)

    return call
