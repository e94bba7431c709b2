"""Max unpooling against the reference, and cases to verify by hand."""

import re

import numpy as np
import pytest
import reference
from checks import assert_identical, is_channels_last, needs_two_threads, unmodified
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import HALVES, arrays, elements, laid_out, leading

import numba_pool as nb

POOL = {1: nb.max_pool1d, 2: nb.max_pool2d, 3: nb.max_pool3d}
UNPOOL = {1: nb.max_unpool1d, 2: nb.max_unpool2d, 3: nb.max_unpool3d}
BACKWARD = {1: nb.max_unpool1d_backward, 2: nb.max_unpool2d_backward, 3: nb.max_unpool3d_backward}


@given(st.data())
def test_values(data):
    """Any indices within the plane; many of them are duplicates."""
    rank = data.draw(st.sampled_from((1, 2, 2, 3)))
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    stride = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    padding = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    spatial = tuple(
        data.draw(st.integers(max(1, -(-(2 * p - k + 1) // s) + 1), 9 if rank < 3 else 4))
        for k, s, p in zip(kernel, stride, padding, strict=True)
    )
    shape = (*data.draw(leading(int(np.prod(spatial)))), *spatial)
    default = reference.unpool_size(spatial, kernel, stride, padding)
    x = data.draw(arrays(shape, rank))
    size, form = default, data.draw(st.sampled_from(("default", "spatial", "full", "list")))
    if form != "default":
        size = tuple(
            data.draw(st.integers(max(1, n - s + 1), n + s - 1)) for n, s in zip(default, stride, strict=True)
        )
    # with N and C or without
    lead = shape[: len(shape) - rank] if len(shape) == rank + 2 else ()
    given_size = {"default": None, "spatial": size, "list": list(size), "full": (*lead, *size)}[form]
    seed = data.draw(st.integers(0, 99))
    indices = np.random.default_rng(seed).integers(0, np.prod(size), shape).astype(np.int32)
    indices = laid_out(indices, data.draw(st.sampled_from(("C", "channels_last", "sliced"))), rank)
    with unmodified(x, indices):
        y = UNPOOL[rank](x, indices, kernel, stride, padding, given_size)
    x = x.astype(x.dtype.newbyteorder("="))
    assert_identical(y, reference.max_unpool(x, indices, size))
    g = data.draw(arrays(y.shape, rank, orders=("C", "channels_last", "sliced")))
    with unmodified(g, indices):
        grad = BACKWARD[rank](g, indices)
    assert_identical(grad, reference.gather(g, indices, rank))


def test_by_hand():
    x = np.array([[5.0, 7.0]])
    y = nb.max_unpool1d(x, np.array([[1, 2]], np.int32), 2)
    np.testing.assert_array_equal(y, [[0, 5, 7, 0]])
    np.testing.assert_array_equal(nb.max_unpool1d_backward(np.array([[1.0, 2, 3, 4]]), np.array([[1, 2]])), [[2, 3]])


def test_default_and_given_sizes():
    x, indices = np.ones((1, 1, 3)), np.zeros((1, 1, 3), np.int32)
    assert nb.max_unpool1d(x, indices, 3, 2).shape == (1, 1, 7)
    assert nb.max_unpool1d(x, indices, 3, 2, 1).shape == (1, 1, 5)
    assert nb.max_unpool1d(x, indices, 3, 2, 0, (8,)).shape == (1, 1, 8)
    assert nb.max_unpool1d(x, indices, 3, 2, 0, (1, 1, 6)).shape == (1, 1, 6)
    for size in ((9,), (5,), (1, 1, 9)):
        with pytest.raises(ValueError, match="output_size"):
            nb.max_unpool1d(x, indices, 3, 2, 0, size)


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=needs_two_threads)])
@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_the_last_duplicate_wins(order, threads):
    x = laid_out(np.arange(1.0, 1 + 2 * 19 * 64**2).reshape(2, 19, 64, 64), order, 2)
    indices = laid_out(np.zeros(x.shape, np.int32), order, 2)
    with nb.threads(threads):
        y = nb.max_unpool2d(x, indices, 2)
    np.testing.assert_array_equal(y[:, :, 0, 0], x[:, :, 63, 63])
    assert np.count_nonzero(y) == 2 * 19


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=needs_two_threads)])
@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("lead", [(1, 1), (2, 40)])
def test_many_indices_in_any_order(lead, order, threads):
    """Planes longer than any block that a kernel may work in, with duplicates far from each other."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((*lead, 3000)).astype(np.float32)
    indices = rng.integers(0, 6000, x.shape).astype(np.int32)
    with nb.threads(threads):
        y = nb.max_unpool1d(laid_out(x, order, 1), laid_out(indices, order, 1), 2)
        back = nb.max_unpool1d_backward(y, laid_out(indices, order, 1))
    assert_identical(y, reference.max_unpool(x, indices, (6000,)))
    assert_identical(back, reference.gather(y, indices, 1))


@given(st.data())
@settings(max_examples=50)
def test_pooling_again_gives_the_maxima_back(data):
    rank = data.draw(st.sampled_from((1, 2, 3)))
    spatial = tuple(data.draw(st.integers(2, 7)) for _ in range(rank))
    x = np.abs(data.draw(arrays((2, 3, *spatial), rank, kinds=("normal",), orders=("C", "channels_last")))) + 1
    y, indices = POOL[rank](x, 2, return_indices=True)
    back = UNPOOL[rank](y, indices, 2, output_size=x.shape)
    assert_identical(POOL[rank](back, 2), y)
    assert np.count_nonzero(back) == y.size


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_halves(dtype):
    x = elements((2, 3, 4, 4), dtype, "normal", 0)
    y, indices = nb.max_pool2d(x, 2, return_indices=True)
    back = nb.max_unpool2d(y, indices, 2)
    assert_identical(back, reference.max_unpool(y, indices, (4, 4)))
    assert_identical(nb.max_unpool2d_backward(back, indices), y)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("wrong", [-1, -2, 16, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_an_index_outside_the_plane_raises(wrong, dtype, order):
    """Wherever it stands; `out` is only a place to look at, its rest is not promised to be untouched."""
    x = laid_out(np.ones((2, 3, 2, 2), np.float32), order, 2)
    for place in ((0, 0, 0, 0), (1, 2, 1, 1)):
        indices = np.zeros(x.shape, dtype)
        indices[place] = wrong
        why = "-1 is that of a window" if wrong == -1 else "output_size= tells the spatial shape"
        with pytest.raises(ValueError, match=f"indices .* got 1 outside, among them {wrong}; {why}"):
            nb.max_unpool2d(x, laid_out(indices, order, 2), 2)
        why = "-1 is that of a window" if wrong == -1 else "grad_output must have the shape"
        with pytest.raises(ValueError, match=f"indices .* got 1 outside, among them {wrong}; {why}"):
            nb.max_unpool2d_backward(np.ones((2, 3, 4, 4), np.float32), laid_out(indices, order, 2))


def test_wide_indices_are_not_cut_off():
    """2**32 is 0 in 32 bits."""
    indices = np.array([[2**32, 1]])
    with pytest.raises(ValueError, match="indices"):
        nb.max_unpool1d(np.ones((1, 2)), indices, 2)
    with pytest.raises(ValueError, match="indices"):
        nb.max_unpool1d_backward(np.ones((1, 4)), indices)
    with pytest.raises(ValueError, match="indices"):
        nb.max_pool1d_backward(np.ones((1, 2)), indices, (1, 4))


def test_memory_order_of_the_result():
    x = laid_out(elements((2, 3, 4, 4), "float32", "normal", 0), "channels_last", 2)
    y, indices = nb.max_pool2d(x, 2, return_indices=True)
    assert is_channels_last(nb.max_unpool2d(y, indices, 2), 2)


def test_what_is_missing_is_named():
    """An odd row was pooled, whose indices do not fit what is made without it."""
    y, indices = nb.max_pool1d(np.arange(25.0).reshape(1, 25), 2, 2, padding=1, ceil_mode=True, return_indices=True)
    assert indices.max() == 24
    with pytest.raises(ValueError, match=r"in \[0, 24\) .* got 1 outside, among them 24; output_size= tells"):
        nb.max_unpool1d(y, indices, 2, padding=1)
    nb.max_unpool1d(y, indices, 2, padding=1, output_size=25)
    with pytest.raises(ValueError, match=r"got 1 outside, among them 25$"):
        nb.max_unpool1d(y, indices + 1, 2, padding=1, output_size=25)


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
@pytest.mark.parametrize(
    ("shape", "output"),
    [((2, 300, 3, 3), (2, 2)), ((1, 1, 64, 100), (50, 60)), ((1, 3, 40, 50), (37, 41)), ((1, 2, 1700, 1300), (70, 80))],
    ids=str,
)
def test_gradients_gather_planes_in_groups_and_in_parts(shape, output, dtype, order):
    """Small planes together, few by parts of them, and large arrays, which are asked for ahead."""
    rng = np.random.default_rng(0)
    index = rng.integers(0, shape[2] * shape[3], (*shape[:2], *output), np.int32)
    grad = rng.integers(-100, 100, shape).astype(dtype)
    expected = np.take_along_axis(grad.reshape(*shape[:2], -1), index.reshape(*shape[:2], -1), 2).reshape(index.shape)
    for threads in (1, 2):
        with nb.threads(threads):
            actual = nb.max_unpool2d_backward(laid_out(grad, order, 2), laid_out(index, order, 2))
        assert_identical(actual, expected)
    for wrong in (-1, shape[2] * shape[3]):
        bad = index.copy()
        bad[-1, -1, -1, -1] = bad[0, 0, 0, 0] = wrong
        with pytest.raises(ValueError, match=f"got 2 outside, among them {wrong}"):
            nb.max_unpool2d_backward(laid_out(grad, order, 2), laid_out(bad, order, 2))


def test_calls_that_were_made_before():
    """Unpooling that is found by its shape: other indices, sizes and errors are told apart."""
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2)
    for _ in range(3):
        for size in (None, (5, 5), 5, [5, 4], (1, 1, 5, 4)):
            spatial = {None: (4, 4), 5: (5, 5)}.get(size if size is None or size == 5 else 0) or tuple(size)[-2:]
            index = np.array([[[[0, 3], [7, spatial[0] * spatial[1] - 1]]]], np.int32)
            expected = np.zeros((1, 1, *spatial), np.float32)
            expected.ravel()[index.ravel()] = x.ravel()
            out = np.empty_like(expected)
            assert_identical(nb.max_unpool2d(x, index, 2, output_size=size), expected)
            assert nb.max_unpool2d(x, index, 2, output_size=size, out=out) is out
            assert_identical(out, expected)
        with pytest.raises(ValueError, match="among them 16; output_size= tells"):
            nb.max_unpool2d(x, np.full_like(index, 16), 2)
        with pytest.raises(ValueError, match="output_size must differ"):
            nb.max_unpool2d(x, index, 2, output_size=(6, 6))


@pytest.mark.parametrize("pool", [
    lambda x: nb.max_pool2d(x, 3, 2, dilation=2, return_indices=True),
    lambda x: nb.adaptive_max_pool2d(x, 4, return_indices=True),
    lambda x: nb.max_pool2d(x, 4, 1, "same", return_indices=True),
])
def test_a_refused_output_size_comes_with_windows_that_lead_to_it(pool):
    x = np.arange(90, dtype=np.float32).reshape(1, 1, 9, 10)
    y, indices = pool(x)
    with pytest.raises(ValueError, match="output_size must differ") as error:
        nb.max_unpool2d(y, indices, 20, 2, 1, output_size=(9, 10))
    kernel, stride = (eval(part) for part in re.findall(r"(?:kernel_size|stride)=(\(.*?\))", str(error.value)))
    assert ", padding=0 does" in str(error.value)
    assert_identical(nb.max_unpool2d(y, indices, kernel, stride, 0, output_size=(9, 10)),
                     reference.max_unpool(y, indices, (9, 10)))


def test_a_size_that_no_windows_lead_to_is_refused_alone():
    y = np.zeros((1, 1, 4, 4), np.float32)
    with pytest.raises(ValueError, match=r"got \(2, 2\)$"):
        nb.max_unpool2d(y, np.zeros(y.shape, np.int32), 2, output_size=(2, 2))


def test_the_default_size_is_checked_by_its_own_name():
    y = np.zeros((1, 1, 4, 4), np.float32)
    with pytest.raises(ValueError, match=r"^\(n - 1\)\*stride \+ kernel_size .* must lie in .* got \(8589934588"):
        nb.max_unpool2d(y, np.zeros(y.shape, np.int32), 2**31 - 1)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(21, 3, 8), (17, 5, 30), (150, 2, 7)])
def test_many_small_images_channels_last(shape, dtype):
    """Gradients and unpooling by groups of images, with -1 and with indices that repeat, and with wrong ones."""
    rng = np.random.default_rng(0)
    index = rng.integers(-1, shape[-1], (*shape[:2], 6), dtype=np.int32)
    grad = rng.integers(-9, 9, index.shape).astype(dtype)
    for least in (-1, 0):
        index = np.maximum(index, least)
        where, what = laid_out(index, "channels_last", 1), laid_out(grad, "channels_last", 1)
        back = nb.max_pool1d_backward(what, where, shape)
        assert is_channels_last(back, 1)
        assert_identical(back, reference.scatter_add(grad, index, shape, 1))
    back = nb.max_unpool1d(what, where, shape[-1] - 5, 1)
    assert_identical(back, reference.max_unpool(grad, index, shape[2:]))
    index[-1, 1, 3] = shape[-1]
    for call in (lambda i: nb.max_pool1d_backward(what, i, shape),
                 lambda i: nb.max_unpool1d(what, i, shape[-1] - 5, 1)):
        with pytest.raises(ValueError, match=f"got 1 outside, among them {shape[-1]}"):
            call(laid_out(index, "channels_last", 1))
