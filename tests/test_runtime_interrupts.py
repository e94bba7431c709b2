"""Interrupts, whenever they come: the exception comes out, and the next call is right."""

import contextlib
import dis
import signal
import sys
import threading

import numpy as np
import pytest
from checks import assert_identical
from process import HASTY, run

import numba_pool as nb
from numba_pool import _runtime
from numba_pool.kernels import scatter
from numba_pool.kernels._interrupts import held


@pytest.fixture(autouse=True)
def in_the_foreground():
    """A shell lets what it starts in the background ignore interrupts, and these their children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted():
    """Interrupts that arrive while calls are made: the exception comes out, and the next call works."""
    from work import Work

    work = Work()
    caught = 0  # the first while kernels are loaded
    for _ in range(40):
        signal.setitimer(signal.ITIMER_REAL, 0.004)
        try:
            while True:
                work.check()
        except KeyboardInterrupt:
            caught += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        work.check()
    assert not _runtime._inside
    print(caught)


BEFORE = "import signal; signal.signal(signal.SIGALRM, signal.default_int_handler)"


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_interrupts_between_calls(layer):
    assert run(interrupted, layer=layer, before=BEFORE) == "40\n"


def interrupt(*args):
    signal.raise_signal(signal.SIGINT)


def interrupted_in_numba(patched):
    """An interrupt within a compilation, or while a kernel is loaded, comes when that is done; the work is kept."""
    from numba.core import event
    from numba.core.compiler import CompileResult

    kernel = scatter.scatter
    x, index = np.array([[3, 4, 12]], np.float32), np.array([[2, 0, 1]], np.int32)

    class Interrupt(event.Listener):
        on_start = on_end = interrupt

    rebuild = CompileResult._rebuild
    if patched == "load":
        CompileResult._rebuild = lambda *args: interrupt() or rebuild(*args)
    with event.install_listener("numba:compile", Interrupt()) if patched == "compile" else contextlib.nullcontext():
        try:
            nb.max_unpool1d(x, index, 1)
        except KeyboardInterrupt:
            print("interrupted", len(kernel.overloads))
    CompileResult._rebuild = rebuild  # what calls kernels is loaded next
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert (nb.max_unpool1d(x, index, 1) == [[4, 12, 3]]).all()
    print(len(kernel.overloads))


def test_an_interrupt_waits_until_a_kernel_is_ready(tmp_path):
    for patched in ("compile", "load"):
        printed = run(interrupted_in_numba, patched, NUMBA_CACHE_DIR=str(tmp_path), **HASTY)
        assert printed.split() == ["interrupted", "1", "1"]


def test_signals_held_are_all_handled_at_the_end():
    handled = []
    numbers = signal.SIGINT, signal.SIGTERM

    def handler(number, frame):
        handled.append(number)
        raise KeyboardInterrupt

    def work():
        with held():
            for number in numbers:
                signal.raise_signal(number)
            assert not handled

    before = [signal.signal(number, handler) for number in numbers]
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert sorted(handled) == sorted(numbers)
    finally:
        after = [signal.signal(number, was) for number, was in zip(numbers, before, strict=True)]
    assert after == [handler, handler]


def test_signals_are_given_back_after_an_error():
    before = signal.getsignal(signal.SIGINT)

    def fail():
        with held():
            assert signal.getsignal(signal.SIGINT) is not before
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_could_not_be_given_back_is_called_all_the_same(monkeypatch):
    """As if another handler had raised while they are given back."""
    handled, put = [], signal.signal

    def handler(number, frame):
        handled.append(number)

    def fail(number, given):
        if given is handler:
            raise KeyboardInterrupt
        return put(number, given)

    def work():
        with held():
            monkeypatch.setattr(signal, "signal", fail)

    before = put(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert signal.getsignal(signal.SIGINT) is not handler
        signal.raise_signal(signal.SIGINT)
        assert handled == [signal.SIGINT]
    finally:
        put(signal.SIGINT, before)


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
def test_all_handlers_are_given_back_where_one_raises_meanwhile(monkeypatch):
    numbers, put = (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2), signal.signal

    def handler(number, frame):
        raise TimeoutError

    def give(number, given):
        put(number, given)
        if given is handler and not given_back:
            given_back.append(number)
            signal.raise_signal(number)

    def work():
        with held():
            monkeypatch.setattr(signal, "signal", give)

    given_back, before = [], [put(number, handler) for number in numbers]
    try:
        with pytest.raises(TimeoutError):
            work()
        assert len(given_back) == 1
        assert [signal.getsignal(number) for number in numbers] == [handler] * 3
    finally:
        for number, was in zip(numbers, before, strict=True):
            put(number, was)


def test_other_threads_leave_signals_alone():
    seen = []

    def look():
        with held():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def interrupted_after(n, function, call):
    """Whether `function`, within `call`, makes n calls; an interrupt comes after the n-th, as Python delivers it."""
    names = {instruction.offset: instruction.opname for instruction in dis.get_instructions(function)}
    made, last = 0, None

    def trace(frame, event, arg):
        nonlocal made, last
        if frame.f_code is not function.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            made += last is not None and names[last].startswith("CALL")
            last = frame.f_lasti
            if made == n:
                raise KeyboardInterrupt  # which ends the tracing as well
        return trace

    sys.settrace(trace)
    with contextlib.suppress(KeyboardInterrupt):
        call()
    sys.settrace(None)
    return made == n


def interrupted_everywhere():
    """An interrupt after each call that `launch` makes leaves nobody inside."""
    from work import Work

    work = Work()
    x = np.ones((2, 4, 301, 303), np.float32)
    expected = nb.max_pool2d(x, 3)
    n = 0
    while interrupted_after(n + 1, _runtime.launch, lambda: nb.max_pool2d(x, 3)):
        n += 1
        assert not _runtime._inside, n
        assert_identical(nb.max_pool2d(x, 3), expected)
    assert n > 5
    work.check()
    print("right")


def test_an_interrupt_after_any_call_leaves_the_threads_free():
    assert run(interrupted_everywhere, layer="workqueue") == "right\n"
