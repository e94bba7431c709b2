"""Maxima without indices of small numbers in channels-last memory, of which a kernel's lane holds two or four."""

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by its name then)
import numpy as np
import pytest
import reference
from checks import assert_identical, needs_two_threads
from numba import typeof
from strategies import channels_last

import numba_pool as nb
from numba_pool import _arrays as arrays
from numba_pool._dispatch import memo
from numba_pool.simd import PACKS, alignment

pytestmark = pytest.mark.filterwarnings("ignore:invalid value")  # to look at a signalling NaN
DTYPES = sorted(PACKS)
HALVES = ["bfloat16", "float16"]


def draw(shape, dtype, seed=0):
    """Integers of any bits. Floats of any size, some infinite and some NaN, of both signs and several payloads; without
    zeros, the sign of which is free.
    """
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 1 << 16, shape).astype(np.uint16)
    if np.dtype(dtype).kind in "iu":
        return x.astype(dtype)
    ordinary, nans = rng.standard_normal(shape).astype(dtype), np.array([np.nan, -np.nan], dtype)
    if dtype in HALVES:
        ordinary = np.where(rng.random(shape) < 0.05, x.view(dtype), ordinary)
        nans = np.array([0x7FFF, 0xFFFF, 0x7FC0, 0xFFC1, 0x7F81], np.uint16).view(dtype)
    ordinary[rng.random(shape) < 0.05] = np.inf
    ordinary[rng.random(shape) < 0.3] = -np.inf
    x = np.where(ordinary == 0, np.ones(1, dtype), ordinary)
    return np.where(rng.random(shape) < 0.02, rng.choice(nans, shape), x)


def packs(x):
    return arrays.pack_of(arrays.planes(x, x.ndim - 2))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_there_is_stays_what_it_is(dtype, last):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype).reshape(1, 1 << 6, 1 << 5, 1 << 5)
    if last:
        x = channels_last(x)
        assert packs(x) == PACKS[dtype]
    y = nb.max_pool2d(x, 1)
    assert_identical(y, x)
    assert (np.ascontiguousarray(y).view(np.uint16) == np.ascontiguousarray(x).view(np.uint16)).all()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_is_compared_as_the_number_it_is(dtype, last):
    """Each with each of a few: next to it, and of the other sign."""
    bits = np.arange(1 << 16, dtype=np.uint16).reshape(1, 16, 1 << 12, 1)
    with_nan = 0
    for other in (bits ^ 0x8000, bits + 1, bits ^ 0x7FFF, np.full_like(bits, 0x7C00), np.full_like(bits, 0xFF80)):
        a, b = bits.view(dtype), other.view(dtype)
        if last:
            x = channels_last(np.concatenate((a, b), axis=3))
        else:
            x = np.stack((a, b), axis=-1).reshape(1, 16, 1 << 5, 1 << 8)
        y = nb.max_pool2d(x, (1, 2)).astype(np.float32).reshape(a.shape)
        expected = np.maximum(a.astype(np.float32), b.astype(np.float32))
        np.testing.assert_array_equal(y, expected)
        with_nan += np.isnan(y).sum()
    assert with_nan > 100


WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": (2, 3), "stride": (3, 4)},
    {"kernel_size": (3, 2), "stride": 1, "dilation": (1, 3)},
    {"kernel_size": 5, "stride": 1, "padding": 2},
    {"kernel_size": 9, "stride": 2, "padding": 4},
    {"kernel_size": 2, "stride": 5, "padding": 1, "ceil_mode": True},  # with windows of nothing but padding
]


@pytest.mark.parametrize("arguments", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_of_packs(dtype, arguments):
    count = 2 if dtype.endswith("16") else 4
    for number, channels in enumerate((count, 3 * count, 16 * count, 19 * count, 32 * count, 70 * count)):
        x = draw((2, channels, 13, 17) if channels < 256 else (1, channels, 10, 9), dtype, number)
        expected = reference.max_pool(x, **arguments, rank=2)[0]
        for skip in (0, 16, 4):
            last = channels_last(x, skip)
            assert packs(last) == (PACKS[dtype] if last.nbytes >= arrays.PACKED else None)
            assert_identical(nb.max_pool2d(last, **arguments), expected)
        out = np.moveaxis(np.empty(np.moveaxis(expected, 1, -1).shape, dtype), -1, 1)
        assert nb.max_pool2d(last, **arguments, out=out) is out
        assert_identical(out, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_operations_and_ranks(dtype):
    x = draw((1, 8, 6, 11, 9), dtype)
    last = channels_last(x)
    assert packs(last) == PACKS[dtype]
    assert_identical(nb.max_pool3d(last, 3, 2, 1), reference.max_pool(x, 3, 2, 1, rank=3)[0])
    assert_identical(nb.adaptive_max_pool3d(last, (2, 5, 4)), reference.adaptive_max_pool(x, (2, 5, 4), rank=3)[0])
    assert_identical(nb.global_max_pool(last), x.astype(np.float64).max((2, 3, 4), keepdims=True).astype(dtype))
    line = channels_last(x.reshape(1, 8, -1))
    assert_identical(nb.max_pool1d(line, 3), reference.max_pool(x.reshape(1, 8, -1), 3, rank=1)[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_no_pack_is_pooled_without(dtype):
    """Channels that are no multiple, memory between packs' addresses, few bytes: with the same results."""
    count = 2 if dtype.endswith("16") else 4
    size = np.dtype(dtype).itemsize
    even, odd = draw((2, 4 * count, 24, 23), dtype), draw((2, 4 * count + 1, 24, 23), dtype)
    expected = reference.max_pool(even, 3, 2, rank=2)[0]
    assert packs(channels_last(odd)) is None
    assert_identical(nb.max_pool2d(channels_last(odd), 3, 2), reference.max_pool(odd, 3, 2, rank=2)[0])
    last = channels_last(even, size)
    assert packs(last) is None
    assert_identical(nb.max_pool2d(last, 3, 2), expected)
    out = channels_last(np.zeros_like(expected), size)
    assert_identical(nb.max_pool2d(channels_last(even), 3, 2, out=out), expected)
    assert packs(np.ascontiguousarray(even)) is None
    y, indices = nb.max_pool2d(channels_last(even), 3, 2, return_indices=True)
    assert_identical(y, expected)
    assert_identical(indices, reference.max_pool(even, 3, 2, rank=2)[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_kept_call_for_packs_serves_memory_at_any_address(dtype):
    """What is kept of a call does not know where the next array begins."""
    count = 2 if dtype.endswith("16") else 4
    memo.memory.clear()
    x = draw((2, 35 * count, 14, 29), dtype)
    expected = reference.max_pool(x, 2, rank=2)[0]
    for skip in (0, *range(np.dtype(dtype).itemsize, 8, np.dtype(dtype).itemsize)):
        assert_identical(nb.max_pool2d(channels_last(x, skip), 2), expected)
        assert [call.seen for call in memo.memory.young.values()] == [PACKS[dtype]]
    assert alignment(typeof(np.empty(1, PACKS[dtype]))) == np.dtype(dtype).itemsize


@needs_two_threads
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "uint8"])
def test_a_call_made_by_one_thread_is_made_again_by_two(dtype, last):
    """What was kept of the first has yet to find the kernel that shares its work."""
    x = draw((2, 64, 37, 71), dtype)  # of no other test
    x = channels_last(x) if last else x
    with nb.threads(1):
        expected = [nb.max_pool2d(x, 2) for _ in range(2)]
    with nb.threads(2):
        for _ in range(2):
            assert_identical(nb.max_pool2d(x, 2), expected[0])
    assert_identical(*expected)


@pytest.mark.parametrize("channels", [64, 136])
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_large_results_of_packs(dtype, channels):
    """Past the caches, as whole lines and otherwise."""
    x = np.random.default_rng(0).integers(-100, 100, (1, channels, 520, 520)).astype(dtype)
    last = channels_last(x)
    assert_identical(nb.max_pool2d(last, 1), x)
    expected = x[:, :, :-1].copy()
    np.maximum(expected, x[:, :, 1:], out=expected)
    assert_identical(nb.max_pool2d(last, (2, 1), 1), expected + np.zeros(1, dtype))
