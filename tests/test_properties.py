"""What holds for every operation: gradients, independence of threads, batch and memory order, `out=`."""

import numpy as np
import pytest
from checks import assert_identical, distinct, is_channels_last, needs_two_threads, unmodified
from operations import LARGE, OPERATIONS, names
from strategies import laid_out

import numba_pool as nb

every = pytest.mark.parametrize("op", OPERATIONS, ids=names(OPERATIONS))
large = pytest.mark.parametrize("op", LARGE, ids=names(LARGE))
# global pooling takes no `out`
buffered = [op for op in OPERATIONS if not op.name.startswith("global")]
with_out = pytest.mark.parametrize("op", buffered, ids=names(buffered))


def results(op, x):
    """y, indices if there are any, and the gradient for a fixed upstream."""
    result = op.forward(x)
    y = result[0] if op.indexed else result
    g = laid_out(np.random.default_rng(5).standard_normal(y.shape).astype(y.dtype), "C", op.rank)
    if is_channels_last(x, op.rank):
        g = laid_out(g, "channels_last", op.rank)
    return [*(result if op.indexed else [y]), op.backward(g, x, result)]


@every
def test_adjoint_identity(op):
    """<pool(x), g> == <x, backward(g)> wherever pooling is linear, or homogeneous of degree one with x in the place
    of the direction (Euler): all of them are."""
    x = distinct(op.shape, dtype=np.float32)
    result = op.forward(x)
    y = result[0] if op.indexed else result
    g = np.random.default_rng(2).standard_normal(y.shape).astype(np.float32)
    y, grad = y.astype(np.float64), op.backward(g, x, result).astype(np.float64)
    assert abs(np.vdot(y, g) - np.vdot(x, grad)) <= 1e-6 * np.abs(y * g).sum()


@every
def test_gradient_equals_central_differences(op):
    """In float32, whose kernels all tests share. Linear pooling gives the differences of large steps, too, as long as
    they change no maximum; other pooling is differentiated by the plain loops in float64.
    """
    x = distinct(op.shape, dtype=np.float32)
    result = op.forward(x)
    weights = np.random.default_rng(3).standard_normal((result[0] if op.indexed else result).shape)
    grad = op.backward(weights.astype(np.float32), x, result)
    assert grad.shape == x.shape
    step, value, points = (1e-5, op.plain, x.astype(np.float64)) if op.plain else (1 / 32, op.value, x)
    numeric = np.empty_like(x)
    for at in np.ndindex(x.shape):
        up, down = points.copy(), points.copy()
        up[at] += step
        down[at] -= step
        numeric[at] = ((value(up).astype(np.float64) - value(down)) * weights).sum() / (2 * step)
    np.testing.assert_allclose(grad, numeric, rtol=1e-5, atol=5e-5)


@needs_two_threads
@large
@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_any_number_of_threads_gives_the_same_bits(op, order):
    x = laid_out(np.random.default_rng(0).standard_normal(op.shape).astype(np.float32), order, op.rank)
    with nb.threads(1):
        expected = results(op, x)
    with nb.threads(2):
        for actual, one in zip(results(op, x), expected, strict=True):
            assert_identical(actual, one)


@pytest.mark.parametrize("op", OPERATIONS + LARGE, ids=names(OPERATIONS + LARGE))
def test_a_batch_gives_the_bits_of_its_examples(op):
    for order in ("C", "channels_last"):
        x = laid_out(np.random.default_rng(0).standard_normal(op.shape).astype(np.float32), order, op.rank)
        whole = results(op, x)
        y = whole[0]
        g = np.random.default_rng(5).standard_normal(y.shape).astype(np.float32)
        for n in range(len(x)):
            for one in (x[n : n + 1], x[n]):
                # global pooling would read an unbatched example's channels as its batch
                if one.ndim == op.rank + 1 and op.name.startswith("global"):
                    continue
                result = op.forward(one)
                parts = [*(result if op.indexed else [result])]
                parts.append(op.backward(g[n : n + 1].reshape(parts[0].shape), one, result))
                for part, all_of_them in zip(parts, whole, strict=True):
                    assert_identical(part, all_of_them[n].reshape(part.shape))


@pytest.mark.parametrize("op", OPERATIONS + LARGE, ids=names(OPERATIONS + LARGE))
def test_memory_orders_give_the_same_bits(op):
    x = np.random.default_rng(0).standard_normal(op.shape).astype(np.float32)
    expected = results(op, x)
    for order in ("channels_last", "F", "negative", "sliced", "readonly"):
        other = laid_out(x, order, op.rank)
        with unmodified(other):
            actual = results(op, other)
        for one, another in zip(actual, expected, strict=True):
            assert_identical(one, another)
        if order == "channels_last":
            *values, grad = actual
            assert all(is_channels_last(one, op.rank) for one in values)
            # what comes back from planes of one element could be of either order
            assert is_channels_last(grad, op.rank) or values[0].flags.c_contiguous


def buffers(op, x, fill):
    """Arrays like the results', in other memory: C order, channels last, and a view with gaps."""
    result = op.forward(x)
    for order in ("C", "channels_last", "sliced"):
        made = [
            laid_out(np.full(a.shape, fill, a.dtype), order, op.rank) for a in (result if op.indexed else [result])
        ]
        yield tuple(made) if op.indexed else made[0]


@with_out
def test_out_is_written_and_returned(op):
    x = np.random.default_rng(0).standard_normal(op.shape).astype(np.float32)
    expected = op.forward(x)
    g = np.random.default_rng(5).standard_normal((expected[0] if op.indexed else expected).shape).astype(np.float32)
    grad = op.backward(g, x, expected)
    for order in ("C", "channels_last"):
        source = laid_out(x, order, op.rank)
        for out in buffers(op, x, 77):
            returned = op.forward(source, out=out)
            if op.indexed:
                assert returned[0] is out[0]
                assert returned[1] is out[1]
                assert_identical(out[0], expected[0])
                assert_identical(out[1], expected[1])
            else:
                assert returned is out
                assert_identical(out, expected)
    for order in ("C", "channels_last", "sliced"):
        out = laid_out(np.full(x.shape, 77, x.dtype), order, op.rank)
        assert op.backward(g, x, expected, out=out) is out
        assert_identical(out, grad)
        if order == "sliced":
            assert (out.base[tuple(slice(None, None, 2) for _ in x.shape)] == 1).all()


@with_out
def test_wrong_out_is_rejected_and_left_alone(op):
    x = np.random.default_rng(0).standard_normal(op.shape).astype(np.float32)
    expected = op.forward(x)
    y = expected[0] if op.indexed else expected
    g = np.ones_like(y)
    grad = op.backward(g, x, expected)
    readonly = np.zeros_like(y)
    readonly.flags.writeable = False
    wrong = [np.zeros((*y.shape, 1), y.dtype), np.zeros(y.shape[1:], y.dtype), np.zeros(y.shape), readonly]
    if op.indexed:
        right = np.zeros(y.shape, np.int32)
        wrong = [
            *((bad, right) for bad in wrong),
            np.zeros_like(y),
            (right, np.zeros_like(y)),
            (np.zeros_like(y), np.zeros(y.shape, np.int64)),
            (np.zeros_like(y),),
            (np.zeros_like(y), right[..., :0]),
        ]
    for out in [*wrong, np.zeros_like(y).tolist()]:
        with pytest.raises((ValueError, TypeError), match="out"):
            op.forward(x, out=out)
        for part in out if isinstance(out, tuple) else (out,):
            assert not np.any(part)
    for out in (np.zeros((1, *grad.shape), grad.dtype), np.zeros(grad.shape), grad.tolist()):
        with pytest.raises((ValueError, TypeError), match="out"):
            op.backward(g, x, expected, out=out)


@with_out
def test_out_over_the_input_is_exact_or_an_error(op):
    """Any overlap, the same elements included: what is returned is right, or nothing is."""
    rng = np.random.default_rng(0)
    expected = op.forward(rng.standard_normal(op.shape, np.float32))
    y = expected[0] if op.indexed else expected
    size = max(y.size, int(np.prod(op.shape)))
    g = rng.standard_normal(y.shape, np.float32)
    shared = 0
    for offset in (0, 1, 7, size // 2, size - 1):
        base = np.zeros(2 * size, np.float32)
        x = base[offset : offset + int(np.prod(op.shape))].reshape(op.shape)
        out = base[: y.size].reshape(y.shape)
        x[...] = rng.standard_normal(op.shape, np.float32)
        shared += np.shares_memory(x, out)
        copy = x.copy()
        expected = op.forward(copy)
        try:
            actual = op.forward(x, out=(out, np.empty(y.shape, np.int32)) if op.indexed else out)
        except ValueError:
            assert_identical(x, copy)
        else:
            for one, another in zip(*((actual, expected) if op.indexed else ([actual], [expected])), strict=True):
                assert_identical(one, another)
        base = np.zeros(2 * size, np.float32)
        upstream = base[offset : offset + y.size].reshape(y.shape)
        out = base[: copy.size].reshape(op.shape)
        upstream[...] = g
        grad = op.backward(g, copy, expected)
        try:
            actual = op.backward(upstream, copy, expected, out=out)
        except ValueError:
            assert_identical(upstream, g)
        else:
            assert_identical(actual, grad)
    assert shared


@pytest.mark.parametrize("op", [op for op in buffered if op.indexed][:3], ids=lambda op: op.name)
def test_the_two_parts_of_out_may_not_overlap(op):
    x = np.random.default_rng(0).standard_normal(op.shape).astype(np.float32)
    y, _ = op.forward(x)
    memory = np.zeros(y.shape, np.float32)
    with pytest.raises(ValueError, match="out"):
        op.forward(x, out=(memory, memory.view(np.int32)))
    assert not memory.any()


@every
@pytest.mark.parametrize("order", ["C", "channels_last"])
def test_empty_batch(op, order):
    if op.name.startswith("max_unpool"):
        return  # its own tests draw it: the indices here come from a batch
    x = laid_out(np.zeros((0, *op.shape[1:]), np.float32), order, op.rank)
    result = op.forward(x)
    y = result[0] if op.indexed else result
    assert y.shape == (0, *op.value(np.zeros(op.shape, np.float32)).shape[1:])
    assert y.dtype == np.float32
    assert op.backward(y, x, result).shape == x.shape


@every
def test_results_are_fresh_and_writable(op):
    """Even where pooling is the identity; no result shares memory with an input or an earlier result."""
    x = np.random.default_rng(0).standard_normal(op.shape).astype(np.float32)
    first, second = results(op, x), results(op, x)
    for a, b in zip(first, second, strict=True):
        assert a.flags.writeable
        assert not np.shares_memory(a, b)
        assert not np.shares_memory(a, x)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_windows_of_one_element_copy(rank):
    x = np.random.default_rng(0).standard_normal((2, 3, *(4, 5, 6)[:rank])).astype(np.float32)
    for pool in (getattr(nb, f"max_pool{rank}d"), getattr(nb, f"avg_pool{rank}d")):
        y = pool(x, 1)
        assert_identical(y, x)
        assert not np.shares_memory(x, y)
    for pool in (getattr(nb, f"adaptive_max_pool{rank}d"), getattr(nb, f"adaptive_avg_pool{rank}d")):
        y = pool(x, (None,))
        assert_identical(y, x)
        assert not np.shares_memory(x, y)


@pytest.mark.parametrize("rank", [2, 3])
def test_a_rank_less_is_an_axis_of_length_one(rank):
    """The shapes that one rank shares with the next give the same bits."""
    x = np.random.default_rng(0).standard_normal((2, 5, *(1, 9, 11)[3 - rank :])).astype(np.float32)
    x = x[:, :, :1] if rank == 2 else x
    low = x[:, :, 0]
    for name, arguments in (("max", {}), ("avg", {"count_include_pad": False})):
        high = getattr(nb, f"{name}_pool{rank}d")
        less = getattr(nb, f"{name}_pool{rank - 1}d")
        y = high(x, (1,) + (3,) * (rank - 1), (1,) + (2,) * (rank - 1), (0,) + (1,) * (rank - 1), **arguments)
        assert_identical(y[:, :, 0], less(low, 3, 2, 1, **arguments))
