"""What plans and compiled code refuse: other shapes, types, memory, indices and versions."""

import re

import numpy as np
import pytest
from jitted_checks import AVERAGE, MAXIMUM, arrays_for, backward, forward
from numba import njit
from numba.core.errors import TypingError

import numba_pool as nb
from numba_pool import jitted


def test_compiled_code_of_another_version_does_not_touch_a_plan():
    for plan, arrays in ((nb.plan(*MAXIMUM), 1), (nb.plan(*MAXIMUM, return_indices=True), 2)):
        x, y, indices, grad_y, grad_x = arrays_for(plan)
        plan.words[jitted.VERSION_AT] += 1
        with pytest.raises(RuntimeError, match="another version of numba_pool"):
            forward(plan, x, *(y, indices)[:arrays])
        assert (y == 7).all()
        if plan.indexed:
            with pytest.raises(RuntimeError, match="another version of numba_pool"):
                backward(plan, grad_y, indices, grad_x)
            assert (grad_x == 7).all()


@pytest.mark.parametrize("which", ["x", "y", "indices", "grad_y", "grad_indices", "grad_x"])
def test_other_shapes_raise(which):
    plan = nb.plan(*MAXIMUM, return_indices=True)
    x, y, indices, grad_y, grad_x = arrays_for(plan)
    good = {"x": x, "y": y, "indices": indices, "grad_y": grad_y, "grad_indices": indices * 0, "grad_x": grad_x}
    wrong = np.full((*good[which].shape[:-1], 4), 7, good[which].dtype)
    a = good | {which: wrong}
    call = (backward, a["grad_y"], a["grad_indices"], a["grad_x"]) if "grad" in which else (
        forward, a["x"], a["y"], a["indices"])
    with pytest.raises(ValueError, match="must have the plan's shape") as caught:
        call[0](plan, *call[1:])
    assert good[which].shape in caught.value.args
    assert caught.value.args[-1] == wrong.shape
    assert all((b == 7).all() for b in (y, indices, grad_x, wrong))


def test_other_shapes_of_averages_raise():
    plan = nb.plan(*AVERAGE)
    _, _, _, grad_y, grad_x = arrays_for(plan)
    for bad in ((grad_y[:1], grad_x), (grad_y, grad_x[:1])):
        with pytest.raises(ValueError, match="must have the plan's shape"):
            backward(plan, *bad)
    assert (grad_x == 7).all()


@pytest.mark.parametrize("pair", [("x", "y"), ("x", "indices"), ("y", "indices")])
def test_arrays_that_overlap_raise(pair):
    plan = nb.plan(*MAXIMUM, return_indices=True)
    x, y, indices, grad_y, grad_x = arrays_for(plan)
    a = {"x": x, "y": y, "indices": indices}
    memory = np.full(1000, 7, np.int32)
    for at, name in enumerate(pair):
        size = a[name].size
        a[name] = memory[9 * at : 9 * at + size].view(a[name].dtype).reshape(a[name].shape)
    with pytest.raises(ValueError, match="must not overlap"):
        forward(plan, a["x"], a["y"], a["indices"])
    assert (memory == 7).all()
    grad_x.ravel()[: indices.size].view(np.int32)[...] = 7
    for grad, index in ((grad_x.ravel()[9 : 9 + y.size].reshape(y.shape), indices),
                        (grad_y, grad_x.ravel()[9 : 9 + y.size].view(np.int32).reshape(y.shape))):
        before = grad_x.copy()
        with pytest.raises(ValueError, match="must not overlap"):
            backward(plan, grad, index, grad_x)
        np.testing.assert_array_equal(grad_x, before)


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def types_that_do_not_fit():
    plan = nb.plan(*MAXIMUM, return_indices=True)
    x, y, indices, grad_y, grad_x = arrays_for(plan)
    yield "x must be a C-contiguous array of float32 with 4 axes", "run", (plan, x.astype("f8"), y, indices)
    yield "x must be a C-contiguous array", "run", (plan, np.asfortranarray(x), y, indices)
    yield "x must be a C-contiguous array", "run", (plan, x[0], y, indices)
    yield "out must be a C-contiguous array", "run", (plan, x, y[:, ::-1], indices)
    yield "out must be writeable", "run", (plan, x, read_only(y), indices)
    yield "indices must be writeable", "run", (plan, x, y, read_only(indices))
    yield "indices must be a C-contiguous array of int32", "run", (plan, x, y, indices.astype("i8"))
    yield r"wants numba_pool.run\(plan, x, out, indices\)", "run", (plan, x, y)
    yield r"wants numba_pool.run\(plan, x, out\)", "run", (nb.plan(*MAXIMUM), x, y, indices)
    yield "takes a plan", "run", (x, x, y)
    yield "grad_input must be writeable", "run_backward", (plan, grad_y, indices, read_only(grad_x))
    yield r"wants numba_pool.run_backward\(plan, grad_output, indices", "run_backward", (plan, grad_y, grad_x)
    yield r"wants numba_pool.run_backward\(plan, grad_output, grad_input", "run_backward", (
        nb.plan(*AVERAGE), grad_y, indices, grad_x)


@pytest.mark.parametrize("compiled", [True, False])
def test_other_types_raise(compiled):
    for message, name, args in types_that_do_not_fit():
        kept = [a.copy() for a in args[1:]]
        if compiled:
            with pytest.raises(TypingError, match=message):
                (forward if name == "run" else backward)(*args)
        else:
            with pytest.raises(TypeError, match=message) as caught:
                getattr(nb, name)(*args)
            assert len(str(caught.value).splitlines()) == 1
        for before, after in zip(kept, args[1:]):
            np.testing.assert_array_equal(before, after)


def test_read_only_inputs_are_good():
    plan = nb.plan(*MAXIMUM, return_indices=True)
    x, y, indices, grad_y, grad_x = arrays_for(plan)
    nb.run(plan, read_only(x), y, indices)
    nb.run_backward(plan, read_only(grad_y), read_only(indices), grad_x)
    np.testing.assert_array_equal(grad_x, nb.max_pool2d_backward(grad_y, indices, x.shape))


@pytest.mark.parametrize("bad", [-2, 81, 2**31 - 1])
def test_indices_out_of_range_raise(bad):
    plan = nb.plan(*MAXIMUM, return_indices=True)
    x, y, indices, grad_y, _ = arrays_for(plan)
    forward(plan, x, y, indices)
    indices[1, 1, 2, 3] = bad
    around = np.full(x.size + 200, 7, np.float32)
    with pytest.raises(ValueError, match=r"indices must lie within.*1\b"):
        backward(plan, grad_y, indices, around[100:-100].reshape(x.shape))
    assert (around[:100] == 7).all()
    assert (around[-100:] == 7).all()


def test_messages_of_python_are_one_sentence():
    plan = nb.plan(*MAXIMUM, return_indices=True)
    x, y, indices, grad_y, _ = arrays_for(plan)
    short = np.zeros((1, *x.shape[1:]), x.dtype)
    message = f"x must have the plan's shape {x.shape} and the alignment of its dtype, got {short.shape}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        nb.run(plan, short, y, indices)
    with pytest.raises(TypeError, match=r"^this plan wants numba_pool.run_backward\(plan, grad_output, indices"):
        nb.run_backward(plan, grad_y)
    with pytest.raises(TypeError, match=r"^Cannot determine Numba type of"):
        nb.run(plan, object(), y, indices)


def test_what_has_no_gradient_raises():
    for plan in (nb.plan(nb.avg_pool1d, (2, 3, 9), "i4", 2), nb.plan(*MAXIMUM)):
        _, _, _, grad_y, grad_x = arrays_for(plan)
        with pytest.raises(ValueError, match="no gradient"):
            backward(plan, grad_y, grad_x)
        assert (grad_x == 7).all()


def test_one_pixel_does_not_tell_the_memory_order():
    """So the functions' gradient of it is channels first, which is not what the plan is for."""
    for plan in (nb.plan(nb.global_max_pool, (2, 9, 9, 3), "f4", True, channel_axis=-1),
                 nb.plan(nb.global_avg_pool, (2, 9, 9, 3), "f4", channel_axis=-1)):
        x, y, indices, grad_y, grad_x = arrays_for(plan)
        arrays = (indices,) if plan.indexed else ()
        forward(plan, x, y, *arrays)
        expected = x.max(axis=(1, 2)) if plan.indexed else x.mean(axis=(1, 2), dtype="f8")
        np.testing.assert_allclose(y[:, 0, 0], expected, rtol=0 if plan.indexed else 1e-5, atol=1e-5)
        with pytest.raises(ValueError, match="no gradient"):
            backward(plan, grad_y, *arrays, grad_x)
        assert (grad_x == 7).all()


def test_memory_of_packs_has_to_be_aligned():
    """Bytes of channels-last memory are taken four at a time."""
    plan = nb.plan(nb.max_pool2d, (2, 16, 32, 8), "i1", 2, channel_axis=-1)
    x, y = np.zeros(plan.shape, "i1"), np.zeros(plan.output_shape, "i1")
    assert plan.words[jitted.MASK] == 3
    with pytest.raises(ValueError, match="x must have the plan's shape"):
        nb.run(plan, np.zeros(x.size + 1, "i1")[1:].reshape(x.shape), y)


@pytest.mark.parametrize(("error", "message", "args"), [
    (TypeError, "got lp_pool2d", (nb.lp_pool2d, (1, 1, 4, 4), "f4", 2, 2)),
    (TypeError, "got 3", (3, (1, 1, 4, 4), "f4", 2)),
    (TypeError, "dtype must be .*native.* got >f4", (nb.max_pool2d, (1, 1, 4, 4), ">f4", 2)),
    (TypeError, "dtype must be .* got float16", (nb.max_pool2d, (1, 1, 4, 4), "f2", 2)),
    (TypeError, "dtype must be .* got complex64", (nb.max_pool2d, (1, 1, 4, 4), "c8", 2)),
    (ValueError, "shape must have", (nb.max_pool2d, (4, 4), "f4", 2)),
    (ValueError, "kernel_size", (nb.max_pool2d, (1, 1, 4, 4), "f4", 0)),
])
def test_what_cannot_be_planned(error, message, args):
    with pytest.raises(error, match=message):
        nb.plan(*args)


def test_what_cannot_be_planned_by_keyword():
    with pytest.raises(TypeError, match="no out"):
        nb.plan(nb.max_pool2d, (1, 1, 4, 4), "f4", 2, out=None)
    with pytest.raises(ValueError, match="channel_axis must be None, 1 or -1"):
        nb.plan(nb.max_pool2d, (1, 1, 4, 4), "f4", 2, channel_axis=0)
    with pytest.raises(ValueError, match="images of one pixel"):
        nb.plan(nb.max_pool2d, (2, 1, 1, 3), "f4", 2, 1, 1, channel_axis=-1)


def test_a_plan_must_be_an_argument():
    """As a global its addresses would be compiled in."""
    plan = nb.plan(*AVERAGE)

    @njit
    def fixed(x, y):
        nb.run(plan, x, y)

    x, y, *_ = arrays_for(plan)
    with pytest.raises(TypingError, match=r"pass <plan of avg_pool2d .*> as an argument"):
        fixed(x, y)
