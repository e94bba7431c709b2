"""Comparisons that the test files share."""

import contextlib
import inspect

import numba
import numpy as np
import pytest

needs_two_threads = pytest.mark.skipif(
    numba.config.NUMBA_NUM_THREADS < 2, reason="Numba has one thread only on this machine"
)


def forget():
    """Every table and call that is kept between calls."""
    from numba_pool._dispatch import memo  # not before a test asks for it: some set what is read at import

    memo.memory.clear()


def assert_identical(actual, expected):
    """Same dtype, shape and bits; the sign of a zero counts, the payload of a NaN does not."""
    assert isinstance(actual, np.ndarray)
    assert actual.dtype == expected.dtype
    assert actual.dtype.isnative
    assert actual.shape == expected.shape
    if expected.dtype.kind in "iu":
        np.testing.assert_array_equal(actual, expected)
        return
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)  # exact for every dtype here
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual) & ~np.isnan(actual), np.signbit(expected) & ~np.isnan(expected))


def assert_same_maxima(actual, expected):
    """The same where no indices were asked for: then the sign of a maximum that is zero is free, too."""
    assert_identical(*(np.where(y == 0, np.abs(y), y) for y in (actual, expected)))


def assert_rounded(actual, expected, magnitude, units=4):
    """Within some units in the last place of the sum of the terms' magnitudes, which is the result's own without
    cancellation; what is not finite matches exactly."""
    assert isinstance(actual, np.ndarray)
    assert actual.dtype == expected.dtype
    assert actual.dtype.isnative
    assert actual.shape == expected.shape
    epsilon = {"bfloat16": 2.0**-7}.get(actual.dtype.name) or float(np.finfo(actual.dtype).eps)
    smallest = {"bfloat16": 2.0**-133}.get(actual.dtype.name) or float(np.finfo(actual.dtype).smallest_subnormal)
    actual, expected, magnitude = (a.astype(np.float64) for a in (actual, expected, magnitude))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    error = np.abs(actual[finite] - expected[finite])
    allowed = units * (epsilon * np.abs(magnitude[finite]) + smallest)
    worst = np.argmax(error - allowed) if error.size else 0
    assert (error <= allowed).all(), (
        f"{actual[finite][worst]!r} is {error[worst] / allowed[worst]:.3g} times the allowed error away from "
        f"{expected[finite][worst]!r}"
    )


@contextlib.contextmanager
def unmodified(*arrays):
    """The block leaves every byte and flag of these arrays alone."""
    before = [(a.tobytes(), a.strides, a.flags.writeable, a.dtype) for a in arrays]
    yield
    assert before == [(a.tobytes(), a.strides, a.flags.writeable, a.dtype) for a in arrays]


def is_channels_last(x, rank):
    """Whether a C-contiguous (N, *spatial, C) lies under `x`."""
    return np.moveaxis(x, x.ndim - rank - 1, -1).flags.c_contiguous


def distinct(shape, seed=0, dtype=np.float64):
    """Values without ties, far apart beside a finite difference's step."""
    n = int(np.prod(shape))
    return ((np.random.default_rng(seed).permutation(n) - n / 2 + 0.25) / 8).reshape(shape).astype(dtype)


def check_documented(function):
    """Every argument, in the order of the signature, and by itself where a type stands behind it."""
    documented = inspect.getdoc(function).partition("\nParameters\n----------\n")[2].partition("\n\n")[0]
    lines = [line.partition(" : ") for line in documented.splitlines() if not line.startswith(" ")]
    assert [one.lstrip("*") for names, _, _ in lines for one in names.split(", ")] == [
        name for name in inspect.signature(function).parameters if not name.startswith("_")]
    assert not any(", " in names for names, _, types in lines if types)
