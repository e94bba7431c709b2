"""Many planes, turned into channels or scattered in groups, against the plain loops."""

import numpy as np
import pytest
import reference
from checks import assert_identical, assert_rounded, forget
from kernel_checks import PROGRAMS, check_max, check_programs, served_by_programs, with_dtypes
from strategies import elements, laid_out

import numba_pool as nb
from numba_pool import _arguments, _windows
from numba_pool._dispatch import calls
from numba_pool.kernels import turned
from numba_pool.kernels._job import Windows


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


@pytest.fixture(autouse=True)
def kept_calls():
    """None of other bands and stages outlives a test."""
    yield
    forget()


def planned(shape, *windows, reduction="max"):
    """The call that turns planes for these windows, or None."""
    axes = _windows.three(_arguments.grid(shape[2:], *windows, False))
    return turned.plan(Windows(axes, shape, 2, False, reduction))


@pytest.mark.every_dtype
@pytest.mark.parametrize(("size", "arguments", "dtype"), with_dtypes(
    PROGRAMS, "uint8", "float64", "int64", "float16"), ids=str)
def test_programs(size, arguments, dtype, monkeypatch, launched):
    """In bands of few rows, of some, of all; in the stages that are the quicker, or in as many as there can be."""
    for planes, band, most_stages in ((16, 2048, True), (17, 2048, False), (31, None, True), (33, 8192, False)):
        with monkeypatch.context() as patch:
            served_by_programs(patch, band, most_stages)
            check_programs(planes, dtype, "C", size, arguments)
        assert "turned_taps" in launched
        launched.clear()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", [(1, 16), (16, 1), (4, 4), (1, 17), (3, 6), (19, 1), (4, 5)], ids=str)
def test_planes_of_few_elements(size, dtype, monkeypatch):
    """A vector is read from a band that has fewer elements, and of the last planes no more than there are."""
    served_by_programs(monkeypatch, 2048)
    for planes in (8, 9, 20):
        for kernel in ((1, 1), (min(2, size[0]), min(2, size[1]))):
            check_programs(planes, dtype, "C", size, {"kernel_size": kernel, "stride": 1})


def test_which_planes_are_turned():
    for shape, window, served in (
        ((1, 16, 4, 4), 2, True),
        ((2, 8, 4, 4), 2, True),
        ((1, 15, 4, 4), 2, False),  # fewer planes than a vector has lanes
        ((1, 16, 3, 5), 2, False),  # fewer elements
        ((16, 16, 300, 300), 2, True),
    ):
        call = planned(shape, window, 2, 0, 1)
        assert (call is not None) == served
        assert call is None or call.worker is turned.turned_taps


@pytest.mark.parametrize("wide", [True, False])
def test_planes_that_are_turned_although_rows_could_be_picked(wide, registers):
    registers(wide)

    def first(shape, *windows, reduction="max"):
        axes = _windows.three(_arguments.grid(shape[2:], *windows, False))
        return turned.plan_first(Windows(axes, shape, 2, False, reduction)) is not None

    assert first((1, 32, 20, 20), 7, 1, 0, 1)
    assert first((1, 32, 20, 20), (1, 6), 1, 0, 1, reduction="argmax")
    assert first((1, 32, 20, 20), 6, 1, 0, 1) != wide  # 36 elements
    assert first((1, 32, 20, 20), (1, 6), 1, 0, 1) != wide  # no indices
    assert first((1, 32, 20, 20), (1, 5), 1, 0, 1, reduction="argmax") != wide
    assert first((1, 32, 64, 64), 2, 2, 0, 1) != wide
    assert not first((1, 32, 64, 65), 2, 2, 0, 1)  # two columns, no element in common, a large plane
    assert first((1, 32, 64, 65), (2, 3), 2, 0, 1) != wide
    assert first((1, 32, 64, 65), 2, 1, 0, 1) != wide
    assert not first((1, 15, 20, 20), 7, 1, 0, 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_large_windows_of_one_value(value, monkeypatch):
    served_by_programs(monkeypatch)
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
