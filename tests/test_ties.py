"""Which of equal elements is the maximum stands in one place: turned around there, it is another for every kernel."""

import numpy as np
import reference
from process import run
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool.simd import wide_registers

# Where the windows end with the array, so that the last maximum of each is the first one of the mirrored array. The
# kernels are those of a machine with AVX-512.
CASES = [
    (True, (2, 64, 13, 13), 3, 2, "window_taps"),
    (True, (2, 20, 24, 24), 7, 1, "window_taps"),  # in two stages
    (True, (2, 12, 24, 24), 7, 1, "window_rows"),
    (True, (1, 2048, 8, 8), 8, 1, "window_pixel_runs"),
    (False, (8, 4, 17, 17), (1, 9), 1, "turned_taps"),
    (False, (8, 4, 20, 20), 10, 1, "turned_taps"),
    (False, (2, 4, 57, 57), 3, 2, "window_strips"),
    (False, (2, 4, 56, 56), 4, 4, "window_steps"),
    (False, (1, 3, 9, 4099), 3, 1, "window_steps"),
    (False, (8, 4, 16, 16), 16, 1, "window_runs"),
]


def last_of_equals_wins():
    """In a process of its own, which keeps nothing that it compiles."""
    from numba_pool.simd import comparison

    comparison.FIRST_WINS = False
    for last, shape, kernel, stride, worker in CASES:
        x = laid_out(elements(shape, "float32", "ties", 0), "channels_last" if last else "C", 2)
        if wide_registers():
            assert nb.explain(nb.max_pool2d, x, kernel, stride, return_indices=True).kernel == worker
        _, indices = nb.max_pool2d(x, kernel, stride, return_indices=True)
        _, mirrored = reference.max_pool(x[..., ::-1, ::-1], kernel, stride, rank=2)
        wanted = shape[2] * shape[3] - 1 - mirrored[..., ::-1, ::-1]
        assert (indices == wanted).all(), worker
        _, first = reference.max_pool(x, kernel, stride, rank=2)
        assert (wanted != first).any()
    drawn = {"output_size": 3, "random_samples": np.full((1, 2, 2), 0.5), "return_indices": True}
    _, indices = nb.fractional_max_pool2d(np.zeros((1, 2, 9, 9), np.float32), 3, **drawn)
    falling = np.broadcast_to(np.arange(81, 0, -1, np.float32).reshape(9, 9), (1, 2, 9, 9))
    _, first = nb.fractional_max_pool2d(falling, 3, **drawn)
    assert (indices == first + 2 * 9 + 2).all()


def test_one_rule_for_all_kernels():
    run(last_of_equals_wins, NUMBA_POOL_CACHE="0", NUMBA_OPT="0")  # LLVM's optimisation takes a third of the time
