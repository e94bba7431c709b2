"""Which gradients are written once each, and what comes of a guess that does not hold."""

import re

import numpy as np
import pytest
from checks import assert_identical
from routed import gradients, scattered
from strategies import laid_out

import numba_pool as nb
from numba_pool import _arguments, _runtime
from numba_pool._dispatch import calls as dispatched
from numba_pool._dispatch import plans
from numba_pool.kernels import choose_disjoint, spread
from numba_pool.kernels._job import Windows


@pytest.mark.parametrize(
    ("shape", "last", "arguments", "taken"),  # kernel, stride, padding, dilation
    [
        ((2, 4, 8, 32), False, (2, 2, 0, 1), "spread_lines"),
        ((2, 4, 8, 30), False, (2, 2, 0, 1), "spread_lines"),  # short rows
        ((2, 4, 60, 30), False, (2, 2, 0, 1), ""),  # of a large plane
        ((2, 16, 8, 8), True, (2, 2, 0, 1), "spread_lines"),
        ((2, 4, 9, 65), False, (2, 2, 0, 1), "spread_lines"),  # a row and a column in no window
        ((2, 4, 8, 64), False, (5, 5, 0, 1), "spread_lines"),
        ((2, 4, 5, 5), False, (5, 5, 0, 1), "fill_planes"),
        ((2, 4, 4, 4), False, (4, 4, 0, 1), "fill_planes"),
        ((2, 4, 6, 7), False, (6, 6, 0, 1), "spread_lines"),  # a column is in no window
        ((2, 4, 8, 64), False, (2, 1, 0, 1), ""),  # windows that overlap
        ((2, 4, 9, 65), False, (3, 2, 0, 1), ""),
        ((2, 4, 8, 10), False, (3, 2, 0, 1), ""),
        ((2, 4, 8, 64), False, (2, 3, 0, 1), "spread_lines"),  # windows apart
        ((2, 16, 8, 8), True, (1, 3, 0, 1), "spread_lines"),
        ((2, 4, 8, 23), False, (2, 3, 0, 1), "spread_lines"),
        ((2, 4, 6, 62), False, (2, 2, 1, 1), "spread_lines"),  # padding
        ((2, 4, 3, 33), True, (2, 3, 0, 2), ""),  # dilation
        ((2, 4, 3, 13), False, (2, 3, 0, 2), ""),
        ((2, 16, 3, 3), True, (2, 3, 0, 2), ""),
    ],
)
def test_which_averages_are_of_windows_side_by_side(shape, last, arguments, taken, registers):
    pairs = [(n, n) for n in arguments]
    output = [axis.n for axis in _arguments.grid(shape[2:], *pairs, False)]
    for wide in (True, False):
        registers(wide)
        call = plans.uniform_backward((*shape[:2], *output), shape, 2, last, *pairs, False, True)
        name = call.worker.__name__
        if taken and (wide or taken == "fill_planes" or (last and shape[1] >= 16)):  # no lanes have to be picked
            assert name == taken
        else:
            assert name != "spread_lines"


@pytest.mark.parametrize(
    ("shape", "output", "last", "itemsize", "taken"),
    [
        ((2, 4, 8, 66), (4, 33), False, 4, True),
        ((2, 4, 9, 66), (3, 22), False, 4, False),
        ((2, 4, 9, 66), (3, 22), False, 2, True),  # halves
        ((2, 4, 9, 66), (9, 22), False, 4, False),  # three columns
        ((2, 4, 9, 66), (3, 33), False, 4, True),
        ((2, 4, 8, 66), (2, 33), False, 4, False),  # eight elements
        ((8, 64, 224, 224), (28, 28), False, 4, True),  # streamed
        ((8, 64, 222, 222), (37, 37), False, 4, False),
        ((8, 64, 222, 222), (222, 74), False, 4, True),
        ((8, 64, 208, 208), (52, 69), False, 4, False),
        ((2, 16, 12, 12), (3, 3), True, 4, True),
        ((2, 16, 12, 12), (2, 2), True, 4, False),
        ((2, 8, 12, 12), (6, 6), True, 4, True),  # of fewer channels
        ((2, 8, 12, 12), (3, 3), True, 4, False),
        ((2, 16, 12, 12), (2, 2), True, 2, True),
        ((32, 64, 96, 96), (12, 12), True, 4, True),
        ((32, 24, 96, 96), (48, 48), True, 4, True),
        ((32, 24, 96, 96), (32, 32), True, 4, False),
        ((120, 8, 96, 96), (12, 12), True, 4, True),
        ((32, 3, 250, 250), (50, 50), True, 4, False),
        ((2, 4, 8, 66), (0, 33), False, 4, False),  # of nothing
        ((8, 64, 224, 224), (112, 240), False, 4, False),  # more windows than columns
        ((8, 64, 224, 224), (112, 240), True, 4, False),
    ],
)
def test_where_elements_are_too_many_to_an_index(shape, output, last, itemsize, taken, registers):
    registers(True)
    asked = Windows(None, shape, 2, last, "argmax", np.dtype(f"f{itemsize}"), gradient=True, output=output)
    call = choose_disjoint(asked)
    assert (call is not None and call.worker is spread.spread_lines) == taken
    registers(False)  # without AVX-512 others are as fast, unless lanes are channels
    assert (choose_disjoint(asked) is not None) == (taken and last and shape[1] >= 16)


@pytest.fixture
def calls(launched, order):
    """A function: what each of three calls for the same gradient comes to, whose values are checked, too."""

    def three_calls(shape, windows, stride=None, dtype=np.int32):
        x = laid_out(np.random.default_rng(0).standard_normal(shape, dtype=np.float32), order, 2)
        _, indices = nb.max_pool2d(x, windows, stride, return_indices=True)
        g, taken = gradients(indices.shape, "float32"), []
        expected = scattered(g, np.asarray(indices), shape, 2)
        for _ in range(3):
            launched.clear()
            result = nb.max_pool2d_backward(laid_out(g, order, 2), indices.astype(dtype), shape)
            assert_identical(np.ascontiguousarray(result), expected)
            taken.append(tuple(dict.fromkeys(launched)))  # of much work one unit is tried alone first
        return taken

    return three_calls


# (shape, kernel, stride), then whether a guess is tried with AVX-512, and in channels-last memory with any registers.
COMES_TO = [
    ((2, 16, 6, 128), 2, None, True, True),
    ((32, 16, 8, 10), 2, None, True, True),  # short rows
    ((2, 16, 8, 10), 2, None, False, True),  # few elements
    ((2, 16, 9, 66), 3, None, False, True),  # too many elements to an index
    ((32, 16, 9, 9), 1, 1, False, False),
    ((2, 16, 5, 5), 5, None, False, False),
    ((32, 16, 8, 8), 4, None, False, True),  # mostly zeros
    ((2, 16, 60, 62), 2, None, False, True),  # rows that are neither long nor short
]


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_which_kernel_a_call_comes_to(calls, order, registers):
    for wide in (True, False):
        registers(wide, spread)  # whose rule guesses what windows indices come from; its kernel runs anywhere
        for shape, windows, stride, *guessed in COMES_TO:
            last = order == "channels_last"
            expected = "spread_lines" if guessed[last] and (wide or last) else "scatter"
            assert calls(shape, windows, stride) == [(expected,)] * 3, (shape, windows, wide)


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_what_does_not_fit_the_guess_is_for_any_indices(calls, order, registers):
    registers(True, spread)
    assert calls((2, 16, 6, 130), 2, dtype=np.int64) == [("scatter",)] * 3
    assert calls((2, 16, 6, 130), 2) == [("spread_lines",)] * 3  # which says nothing of the others
    # Windows that overlap are found out by the first of them, at every call.
    for shape in ((2, 16, 7, 131), (32, 16, 9, 9), (1, 32, 513, 513)):
        assert calls(shape, 3, 2) == [("spread_lines", "scatter")] * 3


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_what_was_called_before_does_not_choose_a_kernel(launched, order, registers):
    registers(True, spread)
    x = laid_out(np.random.default_rng(0).standard_normal((2, 16, 7, 131), dtype=np.float32), order, 2)
    results = {k: nb.max_pool2d(x, k, 2, return_indices=True) for k in (2, 3)}  # of as many windows
    came = {2: ["spread_lines"], 3: ["spread_lines", "scatter"]}
    for before, asked in ((2, 2), (2, 3), (3, 3), (3, 2)):
        nb.max_pool2d(x, before, 2, return_indices=True)
        nb.max_pool2d_backward(*results[before], x.shape)
        launched.clear()
        nb.max_pool2d_backward(*results[asked], x.shape)
        assert launched == came[asked]


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_threads_are_not_woken_for_windows_of_other_lengths(order, registers, monkeypatch):
    """Nor is more than a unit of the work tried, where it is enough to be shared."""
    registers(True, spread)
    monkeypatch.setattr(_runtime, "SERIAL_BYTES", 1)
    x = laid_out(np.random.default_rng(0).standard_normal((2, 16, 7, 131), dtype=np.float32), order, 2)
    results = [nb.max_pool2d(x, k, 2, return_indices=True) for k in (2, 3)]
    units = []
    monkeypatch.setattr(dispatched, "launch", lambda worker, n, _, *args: units.append(n) or worker(0, n, args))
    for y, indices in results:
        nb.max_pool2d_backward(y, indices, x.shape)
    (one, every), (unit, _) = units[:2], units[2:]
    assert one == unit == 1 < every


@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_indices_that_no_windows_have(order):
    shape = (2, 20, 6, 128)
    y = laid_out(gradients((2, 20, 3, 64), "float32"), order, 2)
    for seed in range(3):
        indices = np.random.default_rng(seed).integers(-1, 6 * 128, y.shape).astype(np.int32)
        expected = scattered(np.where(indices < 0, 0, y), np.maximum(indices, 0), shape, 2)
        assert_identical(np.ascontiguousarray(nb.max_pool2d_backward(y, laid_out(indices, order, 2), shape)), expected)
    indices[1, 13, 2, 63] = 6 * 128
    with pytest.raises(ValueError, match=re.escape("indices must lie in [0, 768) for planes of shape (6, 128), got 1")):
        nb.max_pool2d_backward(y, laid_out(indices, order, 2), shape)
