"""Calls that were made before take a shorter way (`_dispatch/again.py`): never one that belongs to another call."""

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 by its name then)
import numpy as np
import pytest
from checks import assert_identical, forget

import numba_pool as nb
from numba_pool import _runtime
from numba_pool._dispatch import again, memo, plans
from numba_pool.functional import average, maximum
from numba_pool.kernels._staging import STREAMED

X = np.random.default_rng(0).standard_normal((2, 3, 6, 8), dtype=np.float32)


def twice(function, *args, **kwargs):
    """The result of the long way, after the short one gave the same."""
    function(*args, **kwargs)
    short = function(*args, **kwargs)
    shifted = np.empty((*args[0].shape[:-1], 2 * args[0].shape[-1]), args[0].dtype)[..., ::2]
    shifted[...] = args[0]
    long = function(shifted, *args[1:], **kwargs)  # in neither memory order
    for a, b in zip(short, long) if isinstance(short, tuple) else ((short, long),):
        assert_identical(a, b)
    return short


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint64"])
def test_the_short_way_gives_what_the_long_way_gives(dtype, last):
    x = (X * 50).astype(dtype)
    if last:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    y, indices = twice(nb.max_pool2d, x, (2, 3), (2, 1), (1, 0), return_indices=True)
    twice(nb.max_pool2d, x, 2)
    twice(nb.avg_pool2d, x, 3, 2, 1)
    twice(nb.max_pool2d_backward, y, indices, x.shape)
    if "float" in dtype:
        twice(nb.avg_pool2d_backward, y[:, :, :3, :4].copy(), x.shape, 2)
        twice(nb.avg_pool2d_backward, np.ones((2, 3, 3, 4), dtype), x.shape, 3, 2, 1, False, False)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_adaptive_and_global_pooling_by_the_short_way(monkeypatch, dtype, last):
    x = (X * 50).astype(dtype)
    if last:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    y, indices = twice(nb.adaptive_max_pool2d, x, (4, 3), return_indices=True)
    calls = [(nb.adaptive_max_pool2d, x, (4, 3)), (nb.adaptive_avg_pool2d, x, (None, 5)), (nb.global_max_pool, x),
             (nb.global_max_pool, x, True), (nb.global_avg_pool, x),
             (nb.adaptive_max_pool2d_backward, y, indices, x.shape)]
    if dtype != "uint8":
        calls += [(nb.adaptive_avg_pool2d_backward, y[:, :, :3, :1].copy("K"), x.shape),
                  (nb.global_avg_pool_backward, y[:, :, :1, :1].copy(), x.shape)]
    for call in calls:
        twice(*call)
    planes = []
    real = maximum.arrays.planes
    monkeypatch.setattr(maximum.arrays, "planes", lambda *args, **kwargs: planes.append(args) or real(*args, **kwargs))
    for function, *args in calls:
        function(*args)
    assert not planes
    out = nb.adaptive_avg_pool2d(x, (None, 5)) * 0
    assert nb.adaptive_avg_pool2d(x, (None, 5), out=out) is out
    assert_identical(out, nb.adaptive_avg_pool2d(x, (None, 5)))
    for wrong in (True, 2.0, (None, 5.0), (4, True)):
        with pytest.raises((TypeError, ValueError), match="output_size"):
            nb.adaptive_avg_pool2d(x, wrong)
    with pytest.raises(TypeError, match="return_indices"):
        nb.global_max_pool(x, 1)


def test_halves_that_are_widened_are_not_kept():
    """Uneven windows, whose gradients the plain loop spreads."""
    grad = np.ones((2, 3, 4, 3), np.float16)
    for _ in range(3):
        assert_identical(nb.adaptive_avg_pool2d_backward(grad, (2, 3, 7, 8)),
                         nb.adaptive_avg_pool2d_backward(grad[::-1].copy(), (2, 3, 7, 8)))


@pytest.mark.parametrize("wrong", [2.0, np.float32(2), "2", (2.0, 2), (2, True), (2, None)])
def test_an_equal_argument_of_another_type_is_still_rejected(wrong):
    for right in (2, (2, 2)):
        for function in (nb.max_pool2d, nb.avg_pool2d):
            function(X, right)
            with pytest.raises(TypeError):
                function(X, wrong)
        nb.avg_pool2d_backward(np.ones((2, 3, 3, 4)), X.shape, right)
        with pytest.raises(TypeError):
            nb.avg_pool2d_backward(np.ones((2, 3, 3, 4)), X.shape, wrong)
    y, indices = nb.max_pool2d(X, 2, return_indices=True)
    nb.max_pool2d_backward(y, indices, X.shape)
    with pytest.raises(TypeError):
        nb.max_pool2d_backward(y, indices, (2, 3, 6.0, 8))
    with pytest.raises(TypeError):
        nb.max_pool2d(X, 2, return_indices=1)


def test_arrays_of_the_same_bytes_and_other_types_have_their_own_machine_code():
    """What a kept call runs does not look at types again."""
    x = np.float32([[[1, -1], [-2, -3]]]).repeat(40, axis=0)
    for a, most in ((x, 1), (x.view(np.int32), x.view(np.int32).max()), (x.view(np.uint32), x.view(np.uint32).max())):
        for _ in range(3):
            y = nb.max_pool2d(a, 2)
            assert (y == most).all()
            assert y.dtype == a.dtype
    one, two = np.float64([[[1, -1]]]), np.float32([[[1, -1]]])
    for _ in range(3):
        assert nb.max_pool1d(one, 2) == nb.max_pool1d(two, 2) == 1
        assert nb.max_pool1d(one[0], 2) == nb.max_pool1d(two[0], 2) == 1


def test_an_argument_that_changes_is_read_every_time():
    kernel = [2, 2]
    assert nb.max_pool2d(X, kernel).shape == (2, 3, 3, 4)
    kernel[:] = 3, 4
    assert nb.max_pool2d(X, kernel).shape == (2, 3, 2, 2)


def test_arguments_are_kept_so_that_no_other_object_takes_their_identity():
    for i in range(3000):
        size = 1 + i % 3, 1  # a new tuple, often at the address of the one before
        assert nb.max_pool2d(X, size, 1).shape[2] == 7 - size[0]


@pytest.mark.parametrize("last", [False, True])
def test_arguments_that_are_equal_and_new_for_each_call(last, monkeypatch):
    """They are looked up by their values and types, and no more is kept for each."""
    functions = (lambda window: nb.max_pool2d(x, window), lambda window: nb.avg_pool2d(x, window, padding=(0, 0)),
                 lambda window: nb.avg_pool2d_backward(g, x.shape, window))
    x = np.ascontiguousarray(np.moveaxis(X, 1, -1)) if last else X
    x = np.moveaxis(x, -1, 1) if last else x
    g = nb.avg_pool2d(x, (3, 2))
    expected = [function((3, 2)) for function in functions]
    with monkeypatch.context() as patch:
        for module in (maximum, average):
            patch.setattr(module.arrays, "planes", lambda *a, **k: 1 / 0)
        kept = [dict(place) for place in (memo.memory.young, memo.memory.old)]
        for function, y in zip(functions, expected, strict=True):
            for _ in range(2):
                assert_identical(function(tuple(map(int, "32"))), y)
        assert [dict(place) for place in (memo.memory.young, memo.memory.old)] == kept
    for function in functions:
        for wrong in ((3.0, 2), (True, 2), ("3", 2)):
            with pytest.raises(TypeError):
                function(wrong)
        with pytest.raises(ValueError, match="kernel_size"):
            function((3, 0))
    assert_identical(nb.max_pool2d(x, tuple(map(int, "23"))), nb.max_pool2d(x, [2, 3]))


class Odd:
    """An int to whoever asks for one, with a hash and a comparison that are of no use."""

    def __init__(self, hashed, equal):
        self.hashed, self.equal = hashed, equal

    def __index__(self):
        return 2

    def __hash__(self):
        return self.hashed()

    def __eq__(self, other):
        return self.equal()


@pytest.mark.parametrize("odd", [Odd(lambda: 1 // 0, None), Odd(lambda: hash(2), lambda: 1 // 0),
                                 Odd(lambda: hash(2), lambda: np.zeros(2)), Odd(lambda: hash(2), lambda: True)])
def test_arguments_that_no_dictionary_takes(odd):
    y = nb.max_pool2d(X, 2)
    for _ in range(2):
        assert_identical(nb.max_pool2d(X, odd), y)


def test_arguments_of_other_types_that_are_right_take_the_place_of_the_first(monkeypatch):
    expected = nb.avg_pool2d(X, 2, divisor_override=3)
    nb.avg_pool2d(X, 2, divisor_override=3.0)
    monkeypatch.setattr(plans, "window_grid", lambda *args: pytest.fail("planned again"))
    assert_identical(nb.avg_pool2d(X, 2, divisor_override=3.0), expected)
    strided = np.repeat(X, 2, axis=-1)[..., ::2]
    assert_identical(nb.avg_pool2d(strided, 2, divisor_override=3.0), expected)


def test_small_work_is_what_the_runtime_says(monkeypatch):
    """Also for a call that was made before."""
    calls = []
    nb.avg_pool2d(X, 2)
    monkeypatch.setattr(again, "launch", lambda *args: calls.append(args))
    nb.avg_pool2d(X, 2)
    assert not calls
    monkeypatch.setattr(_runtime, "SERIAL_BYTES", 1)
    nb.avg_pool2d(X, 2)
    assert len(calls) == 1


def test_the_objects_of_the_last_call_are_found_at_once(monkeypatch):
    """Whoever calls with equal tuples of their own looks into them once."""
    first, second = (tuple(map(int, "22")) for _ in range(2))
    y = nb.max_pool2d(X, first)
    assert_identical(nb.max_pool2d(X, second), y)
    monkeypatch.setattr(again, "same", lambda a, b: 1 / 0)
    assert_identical(nb.max_pool2d(X, second), y)
    with pytest.raises(ZeroDivisionError):
        nb.max_pool2d(X, first)


def test_arrays_that_are_not_plain():
    y = nb.max_pool2d(X, 2)
    foreign = X.astype(X.dtype.newbyteorder())
    reversed_ = X[..., ::-1].copy()[..., ::-1]
    read_only = X.copy()
    read_only.flags.writeable = False
    nested = X.tolist()
    for x in (foreign, reversed_, read_only):
        for _ in range(2):
            assert_identical(nb.max_pool2d(x, 2), y)
    for _ in range(2):
        assert (nb.max_pool2d(nested, 2) == y).all()
    out = np.empty_like(y)
    assert nb.max_pool2d(X, 2, out=out) is out
    assert_identical(out, y)
    assert nb.max_pool2d(X, 2) is not out


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_results_in_an_array_of_the_callers(monkeypatch, dtype, last):
    """By the short way if it is plain."""

    def laid(a):
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) if last else np.ascontiguousarray(a)

    x = laid((X * 50).astype(dtype))
    y, indices = nb.max_pool2d(x, 2, return_indices=True)
    calls = [
        (nb.max_pool2d, (x, 2), {}),
        (nb.max_pool2d, (x, 2), {"return_indices": True}),
        (nb.avg_pool2d, (x, 3), {"padding": 1}),
        (nb.max_pool2d_backward, (y, indices, x.shape), {}),
    ]
    if dtype != "uint8":
        calls.append((nb.avg_pool2d_backward, (y, x.shape, 2), {}))
    expected = [function(*args, **kwargs) for function, args, kwargs in calls]

    def long_way(*args, **kwargs):
        raise AssertionError("the long way")

    monkeypatch.setattr(np, "empty", long_way)
    monkeypatch.setattr(maximum.arrays, "planes", long_way)
    for (function, args, kwargs), result in zip(calls, expected):
        pair = isinstance(result, tuple)
        out = tuple(laid(np.full(a.shape, 77, a.dtype)) for a in result) if pair else laid(result * 0 + 1)
        assert function(*args, **kwargs, out=out) is out
        for actual, wanted in zip(out, result) if pair else [(out, result)]:
            assert_identical(actual, wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8"])
def test_results_of_packs_at_any_address(dtype):
    """So large that they are streamed, in whole lines where they begin with one."""
    x = np.random.default_rng(0).standard_normal((1, 132, 132, 64), dtype=np.float32) * 50
    x = np.moveaxis(x.astype(dtype).repeat(16, axis=0), -1, 1)
    y = nb.max_pool2d(x, 3, 1)
    assert x.nbytes + y.nbytes >= STREAMED
    for offset in (0, 1, 2, 3, 4, 64):
        memory = np.empty(y.size + 128, dtype)
        first = -memory.ctypes.data % 64 // y.itemsize + offset
        out = np.moveaxis(memory[first : first + y.size].reshape(16, 130, 130, 64), -1, 1)
        assert nb.max_pool2d(x, 3, 1, out=out) is out
        np.testing.assert_array_equal(out.view(f"u{y.itemsize}"), y.view(f"u{y.itemsize}"))


def test_a_pair_whose_first_is_no_array():
    """It is not asked for one."""

    class Unwilling:
        def __array__(self, *args, **kwargs):
            raise RuntimeError("no array")

    _, indices = nb.max_pool2d(X, 2, return_indices=True)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"out\[0\] must be an ndarray, got Unwilling"):
            nb.max_pool2d(X, 2, return_indices=True, out=(Unwilling(), indices))


def test_what_is_kept_is_kept_once(monkeypatch):
    """Whose `out` is not plain goes the long way every time, but keeps nothing more."""
    strided = np.empty((2, 3, 3, 4, 2), np.float32)[..., 0]
    nb.max_pool2d(X, 2, out=strided)
    monkeypatch.setattr(again, "unchecked", lambda *args: pytest.fail("kept again"))
    nb.max_pool2d(X, 2, out=strided)


@pytest.mark.parametrize("last", [False, True])
def test_arrays_of_the_callers_that_are_not_plain(last):
    """What the short way does not take: another order, memory that inputs use, a list. And what no way takes."""
    x = np.moveaxis(np.ascontiguousarray(np.moveaxis(X, 1, -1)), -1, 1) if last else X.copy()
    y, indices = nb.max_pool2d(x, 2, return_indices=True)
    other = np.empty_like(np.ascontiguousarray(y)) if last else np.moveaxis(np.empty((2, 3, 4, 3), y.dtype), -1, 1)
    both = np.empty((2, 2, 3, 3, 4), np.float32)
    strided = both.reshape(2, 3, 3, 4, 2)[..., 0]
    foreign = np.empty(y.shape, ">f4")
    for out in (other, strided, foreign):
        assert nb.max_pool2d(x, 2, out=out) is out
        np.testing.assert_array_equal(out, y)
    grad, again = y.copy("K"), indices.copy("K")
    expected = nb.max_pool2d_backward(y, indices, x.shape)
    memory = np.zeros(x.size, np.float32)
    shared = np.moveaxis(memory.reshape(2, 6, 8, 3), -1, 1) if last else memory.reshape(x.shape)
    inside = memory[: y.size]
    grad = np.moveaxis(inside.reshape(2, 3, 4, 3), -1, 1) if last else inside.reshape(y.shape)
    grad[...] = y
    assert nb.max_pool2d_backward(grad, again, x.shape, out=shared) is shared
    np.testing.assert_array_equal(shared, expected)
    memory[...] = 0
    again = grad.view(np.int32)
    again[...] = indices
    assert nb.max_pool2d_backward(y, again, x.shape, out=shared) is shared
    np.testing.assert_array_equal(shared, expected)
    shared[...] = x
    assert nb.max_pool2d(shared, 2, out=grad) is grad
    np.testing.assert_array_equal(grad, y)
    shared[...] = x
    pair = np.empty_like(y), grad.view(np.int32)
    nb.max_pool2d(shared, 2, return_indices=True, out=pair)
    np.testing.assert_array_equal(pair[0], y)
    np.testing.assert_array_equal(pair[1], indices)
    pair = [np.empty_like(y), np.empty_like(indices)]
    assert type(nb.max_pool2d(x, 2, return_indices=True, out=pair)) is tuple
    np.testing.assert_array_equal(pair[1], indices)
    read_only = np.empty_like(y)
    read_only.flags.writeable = False
    for wrong in (read_only, y[:1], y.astype(np.float64), [y], 1, (y, indices)):
        with pytest.raises((TypeError, ValueError), match="out"):
            nb.max_pool2d(x, 2, out=wrong)
    for wrong in ((y, y), (indices, indices), (y, y.view(np.int32)), (y,), y, (y, indices.astype(np.int64))):
        with pytest.raises((TypeError, ValueError), match="out"):
            nb.max_pool2d(x, 2, return_indices=True, out=wrong)


def test_corrupt_indices_on_the_short_way():
    y, indices = nb.max_pool2d(X, 2, return_indices=True)
    nb.max_pool2d_backward(y, indices, X.shape)
    for bad in (48, -2, 2**31 - 1):
        wrong = indices.copy()
        wrong[1, 2, 0, 1] = bad
        with pytest.raises(ValueError, match="got 1 outside"):
            nb.max_pool2d_backward(y, wrong, X.shape)
    with pytest.raises(ValueError, match="shape"):
        nb.max_pool2d_backward(y, indices[:1], X.shape)
    assert_identical(
        nb.max_pool2d_backward(y, indices.astype(np.int64), X.shape), nb.max_pool2d_backward(y, indices, X.shape)
    )


def test_no_more_than_so_many_are_kept(monkeypatch):
    monkeypatch.setattr(memo, "MOST_CALLS", 8)
    forget()
    kept, plane = again.Calls(), maximum.arrays.planes(X, 2)
    call = again.Call(None, 1, 1, (None,), (1,))

    def keep(n, call):
        arguments = n, *again.NO_ARGUMENTS[1:]
        kept.long(X, plane, arguments, lambda *_: call, lambda *_: None)
        return arguments

    for n in range(20):
        arguments = keep(n, call)
    assert 4 <= len(memo.memory.young) + len(memo.memory.old) <= 8
    assert kept.find(X, arguments) is memo.memory.young[kept.key(X, arguments)]
    before = dict(memo.memory.young)
    keep(99, call._replace(rest=(np.empty(memo.MOST_TABLES),)))
    assert memo.memory.young == before


def test_what_is_used_again_stays(monkeypatch):
    """What was not used for longest goes when there would be too many."""
    monkeypatch.setattr(memo, "MOST_CALLS", 8)
    forget()
    nb.max_pool2d(X, 2)
    for size in range(3, 20):
        nb.max_pool2d(np.zeros((1, 1, size, size), np.float32), 2)
        with monkeypatch.context() as patch:
            patch.setattr(plans, "window_grid", lambda *args: pytest.fail("planned again"))
            nb.max_pool2d(X, 2)


def test_the_functions_with_a_short_way_take_it(monkeypatch):
    calls = []
    monkeypatch.setattr(maximum.arrays, "planes", lambda *a, **k: calls.append(a) or 1 / 0)
    fresh = np.ones((1, 1, 5, 5))
    with pytest.raises(ZeroDivisionError):
        nb.max_pool2d(fresh, 2)
    monkeypatch.undo()
    y, i = nb.max_pool2d(fresh, 2, return_indices=True)
    nb.max_pool2d_backward(y, i, fresh.shape)
    nb.avg_pool2d(fresh, 2)
    nb.avg_pool2d_backward(y, fresh.shape, 2)
    monkeypatch.setattr(average.arrays, "planes", lambda *a, **k: 1 / 0)
    nb.max_pool2d(fresh, 2, return_indices=True)
    nb.max_pool2d_backward(y, i, fresh.shape)
    nb.avg_pool2d(fresh, 2)
    nb.avg_pool2d_backward(y, fresh.shape, 2)


def kept_tables():
    """Bytes of the different tables that are kept."""
    kept = [call for place in (memo.memory.young, memo.memory.old) for call in place.values()]
    tables = [table for call in kept for table in call.rest]
    return sum({id(t): t.nbytes for t in tables if isinstance(t, np.ndarray)}.values())


def test_tables_are_kept_up_to_a_bound(monkeypatch):
    """What was not used for longest goes when more would be too much; long signals have long tables."""
    monkeypatch.setattr(memo, "MOST_TABLES", 1 << 20)
    forget()
    x = np.arange(30_000.0).reshape(1, 1, -1)
    most = 0
    for n in range(2_000, 30_000, 1_000):
        assert (nb.max_pool1d(x[..., :n].copy(), 3, 1) == x[..., 2:n]).all()
        most = max(most, kept_tables())
    assert 1 << 17 < most <= 1 << 20


def test_lists_are_looked_up_as_tuples(monkeypatch):
    """What a list holds counts, not which list it is; and windows are worked out once."""
    kernel = [2, 2]
    small = nb.max_pool2d(X, kernel)
    calls = []
    grid = plans.window_grid
    monkeypatch.setattr(plans, "window_grid", lambda *args: calls.append(args) or grid(*args))
    assert_identical(nb.max_pool2d(X, [2, 2]), small)
    assert not calls
    kernel[0] = 3
    assert_identical(nb.max_pool2d(X, kernel), nb.max_pool2d(X, (3, 2)))
    assert nb.max_pool2d(X, [2, 4]).shape == (2, 3, 3, 2)
    with pytest.raises(TypeError, match=r"2\.0"):
        nb.max_pool2d(X, [2, 2.0])
    assert_identical(nb.max_pool2d(X, 2, padding=[[0, 1], [1, 0]]), nb.max_pool2d(X, 2, padding=((0, 1), (1, 0))))
