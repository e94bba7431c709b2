"""Many small planes, turned into channels or scattered in groups, against the plain loops."""

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded
from kernel_checks import KINDS, argmax_worker, check_max
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool._dispatch import calls, plans
from numba_pool.kernels.planes import planes_by_lines


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("lead", [(2, 3), (2, 16), (1, 40)])
@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 1, "padding": 1, "count_include_pad": False},
        {"kernel_size": 7, "stride": 1, "padding": 3},
        {"kernel_size": (2, 5), "stride": (2, 4), "padding": (1, 0)},
        {"kernel_size": 3, "stride": 3, "divisor_override": 7},
    ],
    ids=str,
)
def test_averages_of_small_planes(arguments, lead, order):
    """Both directions; the kernels divide once, after the sum."""
    x = elements((*lead, 10, 13), "float32", "normal", 0)
    expected = reference.avg_pool(x, **arguments, rank=2)
    magnitude = reference.avg_pool(np.abs(x), **arguments, rank=2)
    y = nb.avg_pool2d(laid_out(x, order, 2), **arguments)
    assert_rounded(y, expected, magnitude)
    g = elements(y.shape, "float32", "normal", 1)
    actual = nb.avg_pool2d_backward(laid_out(g, order, 2), x.shape, **arguments)
    expected = reference.avg_pool_backward(g, x.shape, **arguments, rank=2)
    assert_rounded(actual, expected, reference.avg_pool_backward(np.abs(g), x.shape, **arguments, rank=2))


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8", "int64"])
@pytest.mark.parametrize("lead", [(2, 16), (3, 15)])  # planes that are channels, of which the last may be taken twice
def test_wide_windows_of_many_small_planes(lead, dtype):
    for kind in KINDS if "float" in dtype else ("normal", "ties"):
        check_max(elements((*lead, 9, 8), dtype, kind, 0), "C", kernel_size=11, stride=1, padding=5)
    if "float" not in dtype:
        x = elements((*lead, 9, 8), dtype, "ties", 0) * np.array(50, dtype)
        expected = reference.avg_pool(x, 11, 1, 5, rank=2)
        assert_identical(nb.avg_pool2d(x, 11, 1, 5), expected)


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8"])
@pytest.mark.parametrize("lead", [(2, 16), (3, 15)])
@pytest.mark.parametrize("height", [9, 4])  # 27 results, and fewer than a vector
def test_windows_of_a_few_columns_of_many_small_planes(height, lead, dtype):
    for kind in KINDS if "float" in dtype else ("normal", "ties"):
        check_max(elements((*lead, height, 8), dtype, kind, 0), "C", kernel_size=(1, 6), stride=1)


@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((12, 11), {"kernel_size": 10, "stride": 1, "padding": 5}),
        ((12, 17), {"kernel_size": (10, 6), "stride": (2, 1), "padding": (5, 3), "ceil_mode": True}),
        ((20, 16), {"kernel_size": (8, 7), "stride": 1, "padding": ((10, 9), (3, 3)), "dilation": (3, 2)}),
        ((5, 6, 7), {"kernel_size": (3, 5, 4), "stride": 1, "padding": (1, 2, 2)}),
        ((4, 16), {"kernel_size": (4, 13), "stride": 1, "padding": ((9, 8), (6, 6)), "dilation": (4, 1)}),
        ((2, 38), {"kernel_size": (1, 19), "stride": 1, "dilation": (2**27, 1)}),  # no room for the gaps
    ],
    ids=str,
)
def test_large_windows_of_many_small_planes(size, arguments):
    assert argmax_worker((1, 33, *size), len(size), False, **arguments) is planes_by_lines
    for kind in KINDS:
        check_max(elements((1, 33, *size), "float32", kind, 0), "C", **arguments)


def test_blocks_of_columns_of_small_planes():
    """Adaptive windows of half a column each."""
    x = elements((1, 32, 512, 2), "float32", "specials", 0)
    y, indices = nb.adaptive_max_pool2d(x, (2, 20), return_indices=True)
    assert plans.adaptive(x.shape, 2, False, (2, 20), "argmax").worker is planes_by_lines
    expected = reference.adaptive_max_pool(x, (2, 20), rank=2)
    assert_identical(y, expected[0])
    assert_identical(indices, expected[1])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_large_windows_of_one_value(value):
    x = np.full((1, 33, 20, 20), value, np.float32)
    for order in ("C", "channels_last"):
        check_max(x, order, kernel_size=9, stride=1, padding=4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int16"])
@pytest.mark.parametrize("lead", [(1, 15), (4, 4), (1, 17), (3, 13)])
def test_gradients_of_many_small_planes(lead, dtype):
    """In groups of four, with a rest; every element is the winner of many windows."""
    for size, arguments in (((4, 3), {"kernel_size": 2, "stride": 1}), ((9, 30), {"kernel_size": 5, "stride": 1})):
        x = elements((*lead, *size), "float32", "ties", 0)
        _, indices = reference.max_pool(x, **arguments, rank=2)
        rng = np.random.default_rng(1)
        g = rng.integers(-8, 9, indices.shape).astype(dtype)  # sums that no order rounds
        expected = reference.scatter_add(g.astype("float64"), indices, x.shape, 2)
        assert (nb.max_pool2d_backward(g, indices, x.shape).astype("float64") == expected).all()
        holes = np.where(rng.random(indices.shape) < 0.1, -1, indices).astype(np.int32)
        expected = reference.scatter_add(np.where(holes < 0, 0, g).astype("float64"), indices, x.shape, 2)
        assert (nb.max_pool2d_backward(g, holes, x.shape).astype("float64") == expected).all()


@pytest.mark.parametrize("planes", [16, 21, 31])
def test_few_planes_and_many_threads(monkeypatch, planes):
    """Planes are split among threads where there are few of them, but not those that are taken in groups."""
    monkeypatch.setattr(calls, "get_num_threads", lambda: 16)
    x = np.random.default_rng(0).standard_normal((1, planes, 66, 70), dtype=np.float32)
    y, indices = nb.max_pool2d(x, 2, return_indices=True)
    expected = np.zeros((planes, 66 * 70), np.float32)
    np.put_along_axis(expected, indices.reshape(planes, -1), y.reshape(planes, -1), 1)
    assert_identical(nb.max_pool2d_backward(y, indices, x.shape), expected.reshape(x.shape))
    indices[0, ::3, 0, ::5] = -1
    expected[:] = 0
    for plane in range(planes):
        kept = indices[0, plane] >= 0
        expected[plane, indices[0, plane][kept]] = y[0, plane][kept]
    assert_identical(nb.max_pool2d_backward(y, indices, x.shape), expected.reshape(x.shape))


def test_gradients_of_small_planes_in_a_large_result():
    """More than the caches hold: from buffers past the caches."""
    x = np.random.default_rng(0).standard_normal((140, 512, 11, 11), dtype=np.float32)
    y, indices = nb.max_pool2d(x, 3, 2, return_indices=True)
    actual = nb.max_pool2d_backward(y, indices, x.shape)
    for plane in ((0, 0), (13, 77), (139, 511)):
        expected = np.zeros(121, np.float32)
        np.add.at(expected, indices[plane].reshape(-1), y[plane].reshape(-1))
        assert_rounded(actual[plane].reshape(-1), expected, np.abs(expected))
    assert actual.astype(np.float64).sum() == pytest.approx(y.astype(np.float64).sum(), rel=1e-6)
