"""Where a call is wrong in a way that many are: the error, or the docstring, says what to write."""

import re
from functools import partial

import numpy as np
import pytest

import numba_pool as nb

PHOTO = np.zeros((20, 16, 3), np.uint8)
FRAMES = np.zeros((2, 16, 18, 4), np.uint8)


@pytest.mark.parametrize("boundary", ["short", "trim", {0: "trim", -1: "short"}])
def test_colours_are_not_made_fewer_by_an_int(boundary):
    """An int stands for all axes, and so for that of the colours, too."""
    for x, named, whole in ((PHOTO, "{0: 2, 1: 2}", "(2, 2, 2)"), (FRAMES, "{1: 2, 2: 2}", "(2, 2, 2, 2)")):
        message = re.escape(f"windows must name its axes for an array of shape {x.shape}, whose last axis may hold "
                            f"colours: pass {named}, or {whole} if all axes are meant")
        with pytest.raises(ValueError, match=message):
            nb.coarsen(x, 2, "first", boundary=boundary)
        with pytest.raises(ValueError, match=message):
            nb.output_shape(nb.coarsen, x.shape, 2, boundary=boundary)
        assert nb.coarsen(x, (2,) * x.ndim, "first", boundary="short").shape[-1] == -(-x.shape[-1] // 2)
        assert nb.coarsen(x, 1, "first", boundary=boundary).shape == x.shape


def test_levels_of_colours_are_not_made_fewer_by_an_int():
    for x, named, whole in ((PHOTO, "axes=(0, 1)", "axes=(0, 1, 2)"), (FRAMES, "axes=(1, 2)", "axes=(0, 1, 2, 3)")):
        message = re.escape(f"axes must be given for an array of shape {x.shape}, whose last axis may hold colours: "
                            f"pass {named}, or {whole} if all are meant")
        for factors in (2, [2, 3], [{0: 2}, 2]):
            with pytest.raises(ValueError, match=message):
                nb.pyramid(x, factors, reduction="first")
            with pytest.raises(ValueError, match=message):
                next(nb.pyramid_regions(x.shape, 2, factors))
        assert nb.pyramid(x, 2, 1, "first", axes=tuple(range(x.ndim)))[1].shape[-1] == 2
        assert nb.pyramid(x, (2,) * x.ndim, 1, "first")[1].shape[-1] == 2
        assert nb.pyramid(x, 2, 1, "first", axes=0)[1].shape[-1] == x.shape[-1]
        region = next(nb.pyramid_regions(x.shape, 8, levels=1, axes=tuple(range(x.ndim))))
        assert nb.pyramid_block(x[region.source], region, "first")[0].shape[-1] == 2


@pytest.mark.parametrize("shape", [(20, 3), (20, 16, 5), (15, 16, 3), (16, 15, 4), (3, 16, 16), (9, 2, 20, 4)])
def test_no_colours(shape):
    assert nb.coarsen(np.zeros(shape), 2, "first", boundary="short").shape == tuple(-(-n // 2) for n in shape)


def test_blocks_that_divide_every_axis_may_be_of_all_axes():
    """Whoever asks for exact blocks is told of an axis that they do not fit."""
    assert nb.coarsen(FRAMES, 2, "first").shape == (1, 8, 9, 2)
    assert nb.coarsen(FRAMES, 2, "first", boundary={0: "short"}).shape == (1, 8, 9, 2)
    with pytest.raises(ValueError, match=r"2 does not divide 3, the length of axis 2: name the axes without colours$"):
        nb.coarsen(PHOTO, 2)
    with pytest.raises(ValueError, match=r"3 does not divide 16, the length of axis 1: pass boundary='trim'"):
        nb.coarsen(PHOTO[:18], 3)
    with pytest.raises(ValueError, match="whose last axis may hold colours"):
        nb.pyramid(FRAMES, 2, 1, "first", boundary="exact")


def test_chunks_with_the_shape_of_a_photo():
    """An axis of eight in chunks of four is none of colours."""
    da, dask = pytest.importorskip("dask.array"), pytest.importorskip("numba_pool.dask")
    x = np.arange(16 * 16 * 8).reshape(16, 16, 8)
    got = dask.coarsen(da.from_array(x, chunks=(16, 16, 4)), 2, "first", boundary="short")
    np.testing.assert_array_equal(got, x[::2, ::2, ::2])
    with pytest.raises(ValueError, match="whose last axis may hold colours"):
        dask.coarsen(da.from_array(PHOTO, chunks=5), 2, boundary="short")


def test_channel_axis_of_coarsening():
    way = re.escape("name the axes that get smaller instead: windows={0: 2, 1: 2} of coarsen, axes=(0, 1) of pyramid")
    with pytest.raises(TypeError, match=r"coarsen\(\) got an unexpected keyword argument 'channel_axis': " + way):
        nb.coarsen(PHOTO, 2, channel_axis=-1)
    with pytest.raises(TypeError, match=r"coarsen\(\) got an unexpected keyword argument 'axes': " + way):
        nb.coarsen(PHOTO, 2, axes=(0, 1))
    with pytest.raises(TypeError, match=r"unknown keywords mask; .*: pass where=, which is False where"):
        nb.pyramid(PHOTO, mask=PHOTO)
    with pytest.raises(TypeError, match=r"coarsen\(\) got an unexpected keyword argument 'order'$"):
        nb.coarsen(PHOTO, 2, order=1)
    for call in (partial(nb.pyramid, PHOTO), partial(nb.reducers.mean, PHOTO)):
        with pytest.raises(TypeError, match=f"unknown keywords channel_axis; those .*: {way}$"):
            call(channel_axis=-1)
    dask = pytest.importorskip("numba_pool.dask")
    with pytest.raises(TypeError, match=f"'channel_axis': {way}"):
        dask.coarsen(PHOTO, 2, channel_axis=-1)


@pytest.mark.parametrize(("name", "known"), [
    ("average", "mean"), ("avg", "mean"), ("nanaverage", "nanmean"), ("nearest", "first"), ("Maximum", "max"),
    ("MEAN", "mean"), ("majority", "mode"), (np.average, "mean"), (np.nanmax, "nanmax"),
])
def test_other_names_of_reductions(name, known):
    with pytest.raises((ValueError, TypeError), match=f"^reduction must be .*: pass '{known}'$"):
        nb.coarsen(PHOTO, {0: 2}, name)


def test_what_has_no_other_name():
    with pytest.raises(ValueError, match=r"got 'gauss'$"):
        nb.coarsen(PHOTO, {0: 2}, "gauss")


@pytest.mark.parametrize(("name", "known"), [
    ("downsample", "coarsen"), ("block_reduce", "coarsen"), ("resize", "coarsen"), ("downscale_local_mean", "coarsen"),
    ("pyramid_reduce", "pyramid"),
])
def test_names_of_functions_elsewhere(name, known):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': write numba_pool.{known}$"):
        getattr(nb, name)
    assert callable(getattr(nb, known))


@pytest.mark.parametrize(("kernel", "dilation", "padding", "most"), [
    (3, 1, 2, 1), (5, 1, 9, 2), (2, 2, 2, 1), (2, 1, 2, 1), (1, 1, 1, 0),
])
def test_what_a_pair_of_padding_may_be(kernel, dilation, padding, most):
    """More than an int, whatever the windows."""
    x = np.ones((1, 6), np.float32)
    for call in (partial(nb.max_pool1d, x, kernel, dilation=dilation, padding=padding),
                 partial(nb.MaxPool1d, kernel, dilation=dilation, padding=padding)):
        with pytest.raises(ValueError, match=rf"half of kernel_size, {most} for a kernel of {kernel}, got {padding}; "
                                             r"as a pair \(before, after\) it may be larger$"):
            call()
    length = 6 + 2 * padding - dilation * (kernel - 1)
    assert nb.output_shape(nb.max_pool1d, x.shape, kernel, 1, ((padding, padding),), dilation) == (1, length)


def test_one_image_with_channels_last_is_no_batch_of_signals():
    """Its height would be the batch."""
    for name in ("global_avg_pool", "global_max_pool", "global_min_pool", "global_sum_pool"):
        for axis in (-1, 2):
            message = re.escape("x must have 4 axes, (N, H, W, C), where the last one looks like that of colours, got "
                                "shape (20, 16, 3): pass x[np.newaxis] for one image, np.expand_dims(x, 1) for a batch")
            for call in (getattr(nb, name), partial(nb.output_shape, getattr(nb, name))):
                with pytest.raises(ValueError, match=message):
                    call(PHOTO if call is getattr(nb, name) else PHOTO.shape, channel_axis=axis)
    with pytest.raises(ValueError, match="x must have 4 axes"):
        nb.plan(nb.global_avg_pool, PHOTO.shape, np.float32, channel_axis=-1)
    with pytest.raises(ValueError, match="x must have 4 axes"):
        nb.GlobalAvgPool(channel_axis=-1)(PHOTO)
    assert nb.output_shape(nb.global_avg_pool, (1, *PHOTO.shape), channel_axis=-1) == (1, 1, 1, 3)
    for shape, axis, result in (((15, 16, 3), -1, (15, 1, 3)), ((20, 16, 5), -1, (20, 1, 5)),
                                ((20, 16, 3), 1, (20, 16, 1)), ((20, 16, 3), None, (20, 16, 1))):
        assert nb.output_shape(nb.global_avg_pool, shape, channel_axis=axis) == result


POOLS_ONLY = r"got .*: numba_pool.{0} pools only; to coarsen pass numbers, outside of what {0} traces or differentiates"


def test_arrays_that_jax_traces():
    jax = pytest.importorskip("jax")
    for call in (partial(nb.coarsen, windows=2), nb.pyramid, nb.reducers.mean):
        with pytest.raises(TypeError, match=POOLS_ONLY.format("jax")):
            jax.jit(call)(np.ones(4, np.float32))
    with pytest.raises(TypeError, match=r"numba_pool\.jax has the functions that take it"):
        jax.jit(lambda x: nb.max_pool1d(x, 2))(np.ones((1, 4), np.float32))


def test_arrays_that_autograd_differentiates():
    autograd = pytest.importorskip("autograd")
    with pytest.raises(TypeError, match=POOLS_ONLY.format("autograd")):
        autograd.grad(lambda x: nb.coarsen(x, 2).sum())(np.ones(4))


@pytest.mark.parametrize("name", ["coarsen", "pyramid", "pyramid_block", "pyramid_regions"])
def test_compiled_code_that_coarsens(name):
    from numba import njit
    from numba.core.errors import TypingError

    called = getattr(nb, name)

    @njit
    def user(x):
        return called(x, 2)

    with pytest.raises(TypingError, match=f"numba_pool.{name} cannot be called in compiled code: call it in Python, "
                                          "before or after, or there in a block with numba.objmode"):
        user(np.ones(4))
