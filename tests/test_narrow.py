"""Maxima without indices in channels-first memory: of elements of one or two bytes, and without AVX-512 of all."""

import random

import fences
import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by its name then)
import numpy as np
import pytest
import reference
import selection
from checks import assert_identical, needs_two_threads
from process import finish_all, start
from test_packs import draw

import numba_pool as nb
from numba_pool import _arguments
from numba_pool import _arrays as arrays
from numba_pool._dispatch import plans
from numba_pool._windows import three
from numba_pool.kernels import narrow
from numba_pool.kernels.narrow import narrow_rows
from numba_pool.simd import SINGLES, wide_registers

pytestmark = pytest.mark.filterwarnings("ignore:invalid value")  # to look at a signalling NaN
DTYPES = [*sorted(SINGLES), *(() if wide_registers() else ("float32", "float64", "int32", "uint64"))]
POOL = {1: nb.max_pool1d, 2: nb.max_pool2d, 3: nb.max_pool3d}


def is_walked(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """Whether the kernel of this file serves a call."""
    assert arrays.is_narrow(arrays.planes(x, x.ndim - 2))
    call = plans.uniform(x.shape, x.ndim - 2, False, kernel_size, stride, padding, dilation, ceil_mode, True,
                          "max", narrow=True, dtype=x.dtype)
    return call.worker is narrow_rows


def between(shape, dtype, skip):
    """An array that begins `skip` elements behind the 64th of its memory, and what lies before and behind it."""
    size = int(np.prod(shape))
    memory = np.full(size + 128 + skip, 77).astype(dtype)
    return memory[64 + skip : 64 + skip + size].reshape(shape), memory[: 64 + skip], memory[64 + skip + size :]


def check(x, expected, **arguments):
    """By fresh memory, again by what was kept of that call, and at several addresses, next to which nothing changes."""
    pool = POOL[x.ndim - 2]
    for _ in range(2):
        assert_identical(pool(x, **arguments), expected)
    for skip in range(4):
        given, *_ = between(x.shape, x.dtype, skip)
        given[...] = x
        out, *around = between(expected.shape, x.dtype, 3 - skip)
        assert pool(given, **arguments, out=out) is out
        assert_identical(out, expected)
        for memory in around:
            assert_identical(memory, np.full_like(memory, 77))


WINDOWS = [
    ((2, 3, 30, 44), {"kernel_size": 2}),
    ((1, 3, 21, 127), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ((1, 2, 9, 130), {"kernel_size": (2, 5), "stride": (3, 2), "padding": ((0, 1), (3, 4))}),
    ((1, 2, 32, 65), {"kernel_size": (5, 4), "stride": 2, "padding": "same_lower"}),
    ((2, 2, 13, 90), {"kernel_size": (3, 1), "stride": (1, 2)}),
    ((2, 4, 28, 28), {"kernel_size": 3, "stride": 1, "padding": 1}),  # rows that follow each other
    ((3, 11, 9, 14), {"kernel_size": (4, 5), "stride": 1, "padding": "same"}),  # and planes in groups
    ((37, 16, 3, 3), {"kernel_size": 3, "stride": 1, "padding": 1}),
    ((1, 2, 25, 83), {"kernel_size": (3, 2), "stride": 1, "dilation": (5, 7), "padding": ((4, 2), (0, 7))}),
    ((1, 2, 31, 70), {"kernel_size": 3, "stride": 1}),  # rows from which a column is left
    ((1, 1, 200, 50), {"kernel_size": (5, 3), "stride": (4, 1), "padding": 1}),  # blocks of rows
    ((5, 7, 151), {"kernel_size": 4, "stride": 2, "padding": 2}),
    ((2, 5, 431), {"kernel_size": 5, "stride": 1, "padding": 2}),
    ((2, 2, 6, 11, 43), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 3, 7, 9, 45), {"kernel_size": (2, 3, 3), "stride": (3, 1, 1), "padding": (1, 1, 1), "dilation": (2, 1, 1)}),
    ((600, 7, 1, 1), {"kernel_size": (25, 1), "stride": 1, "padding": ((24, 24), (0, 0))}),  # more rows than there were
    ((1, 1, 1, 4200), {"kernel_size": (70, 1), "stride": 1, "padding": ((69, 69), (0, 0))}),
    ((40, 2, 3, 5, 6), {"kernel_size": (2, 3, 3), "stride": 1, "padding": ((1, 0), (1, 1), (1, 1))}),
]


@pytest.mark.parametrize(("shape", "arguments"), WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_windows(dtype, shape, arguments):
    if np.dtype(dtype).itemsize * np.prod(shape) < arrays.PACKED:
        shape = (2 * shape[0], *shape[1:])
    x = draw(shape, dtype)
    expected = reference.max_pool(x, **arguments, rank=x.ndim - 2)[0]
    assert is_walked(x, **arguments) or (x.itemsize == 2 and expected.shape[-1] < x.shape[-1] // 2)
    check(x, expected, **arguments)


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
def test_every_width(dtype):
    """Rows that fill their last vector to every part."""
    for width in range(60, 60 + 64):
        x = draw((1, 1, 80, width), dtype, width)
        for arguments in ({"kernel_size": 2, "padding": (0, 1)}, {"kernel_size": (1, 3), "stride": 1}):
            assert is_walked(x, **arguments)
            check(x, reference.max_pool(x, **arguments, rank=2)[0], **arguments)


@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_numbers_of_planes(dtype):
    """Planes that are no multiple of those that are walked together."""
    for planes in (31, 32, 33, 47, 48, 49, 64, 95):
        x = draw((planes, 1, 15, 15), dtype, planes)
        arguments = {"kernel_size": 3, "stride": 1, "padding": 1}
        assert is_walked(x, **arguments)
        check(x, reference.max_pool(x, **arguments, rank=2)[0], **arguments)


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
def test_last_blocks_of_several_short_rows(dtype):
    """All rows of a block are walked as one, which may be shorter than a vector."""
    height = narrow.BLOCK_BYTES // (3 * np.dtype(dtype).itemsize)  # rows of a block
    for more in range(8):
        x = draw((1, 1, height + more, 3), dtype, more)
        arguments = {"kernel_size": 3, "stride": 1, "padding": 1}
        assert is_walked(x, **arguments)
        check(x, reference.max_pool(x, **arguments, rank=2)[0], **arguments)


@needs_two_threads
@pytest.mark.parametrize("dtype", ["uint16", "int8"])
@pytest.mark.parametrize("arguments", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 1}], ids=str)
def test_threads(dtype, arguments):
    """Where one ends and the other begins, neither writes what is the other's."""
    x = np.random.default_rng(0).integers(0, 100, (1, 7, 190, 301)).astype(dtype)  # of enough bytes to be shared
    with nb.threads(1):
        expected = nb.max_pool2d(x, **arguments)
    assert_identical(expected, nb.max_pool2d(x.astype(np.float32), **arguments).astype(dtype))
    for _ in range(20):
        with nb.threads(2):
            assert_identical(nb.max_pool2d(x, **arguments), expected)


@pytest.mark.parametrize("dtype", ["uint8", "float16"])
def test_more_than_the_caches_hold(dtype):
    """What is asked for ahead may lie behind the array."""
    x = np.random.default_rng(0).integers(-100, 100, (2, 3, 1030, 1700)).astype(dtype)
    assert x.nbytes >= 6 << 20
    assert is_walked(x, 2)
    assert_identical(nb.max_pool2d(x, 2) + np.zeros(1, dtype),
                     x.reshape(2, 3, 515, 2, 850, 2).max((3, 5)) + np.zeros(1, dtype))


def test_blocks_are_no_larger_where_windows_are_clipped():
    """Their rows of the output, as many as the windows' padding makes, all begin at the same row of the input."""
    one = narrow.narrow(three(_arguments.grid((1, 9000), (401, 1), 1, ((400, 400), (0, 0)), 1, False)), 1, 1)
    many = narrow.narrow(three(_arguments.grid((1, 1), (101, 1), 1, ((100, 100), (0, 0)), 1, False)), 1 << 17, 1)
    for walk in (one, many):
        group, _, pitch, rows_in, rows_out, *_ = walk.table.tolist()
        assert rows_in <= narrow.BLOCK_BYTES
        assert rows_out * pitch <= max(narrow.BLOCK_BYTES, 9000)
        assert group * 101 <= narrow.MOST_NARROW_ROWS or group == 1
        assert walk.table.size < 10 * narrow.MOST_NARROW_ROWS


def test_images_of_many_columns():
    """A block is what one row of the output takes, at least."""
    x = np.random.default_rng(0).integers(0, 256, (2, 8, 20_001), np.uint8)
    assert is_walked(x[None], (3, 2), (1, 2))
    expected = x[:, :, :20_000].reshape(2, 8, 10_000, 2).max(3)
    expected = np.maximum(np.maximum(expected[:, :-2], expected[:, 1:-1]), expected[:, 2:])
    assert_identical(nb.max_pool2d(x, (3, 2), (1, 2)), expected)


OTHERS = [
    ((2, 3, 40, 44), {"kernel_size": 3, "stride": 3}),
    ((2, 3, 40, 44), {"kernel_size": (2, 6), "stride": 1}),
    ((2, 3, 40, 44), {"kernel_size": (13, 3), "stride": 1}),
    ((2, 3, 40, 44), {"kernel_size": 3, "stride": 2, "dilation": 2}),
    ((1, 3, 40, 150), {"kernel_size": (2, 5), "stride": 1, "dilation": (1, 9)}),  # columns more than a vector apart
    ((1, 20, 25, 15), {"kernel_size": 2}),  # short rows
    ((1, 4, 2, 1100), {"kernel_size": (2, 3), "stride": 1, "dilation": (3, 1), "padding": ((1, 1), (1, 1))}),  # empty
    ((1, 1, 20_000, 41), {"kernel_size": 1, "stride": (1, 2)}),  # rows that are too many to be looked at
    ((1, 1, 3, 400, 400), {"kernel_size": 3, "stride": 2}),  # slices that are too large to be a block
]


@pytest.mark.parametrize(("shape", "arguments"), OTHERS, ids=str)
def test_windows_that_other_kernels_serve(shape, arguments):
    x = draw(shape, "int8")
    assert not is_walked(x, **arguments)
    expected = POOL[x.ndim - 2](x.astype(np.float32), **arguments)
    assert_identical(POOL[x.ndim - 2](x, **arguments), np.maximum(expected, -128).astype(np.int8))


def walk_between_fences(dtypes):
    """With the input at the end of what may be read, and the output of what may be written."""
    rng = random.Random(0)
    with fences.Fences(rng):
        for dtype in dtypes:
            for shape, arguments in WINDOWS:
                images = -(-arrays.PACKED // int(np.prod(shape[1:])))  # so many bytes are walked, of every dtype
                x = draw((max(shape[0], images), *shape[1:]), dtype)
                y = POOL[x.ndim - 2](x, **arguments)
                assert_identical(y, reference.max_pool(x, **arguments, rank=x.ndim - 2)[0])
    print("done")


def test_memory_between_fences():
    dtypes = DTYPES if selection.exhaustive else ("bfloat16", "uint8")  # of two bytes and of one
    finish_all([start(walk_between_fences, dtypes)])
