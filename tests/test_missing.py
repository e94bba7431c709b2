"""Elements that are missing: NaN under nan_policy='omit', and where a mask is False."""

import missing_reference as plain
import numpy as np
import pytest
import reference
import selection
from checks import assert_identical, assert_rounded, assert_same_maxima, is_channels_last, unmodified
from hypothesis import given
from hypothesis import strategies as st
from strategies import FLOATS, HALVES, arrays, elements, laid_out, windows

import numba_pool as nb

EXTREMES = {"max": True, "min": False}
DTYPES = (*FLOATS, *HALVES)
SOME = ("specials", "nan", "-inf", "ties", "normal")


def pool(name, rank):
    return getattr(nb, f"{name}_pool{rank}d")


@st.composite
def masks(draw, shape):
    """None, or a mask that broadcasts against an array of this shape."""
    kind = draw(st.sampled_from(("none", "all", "row", "spatial", "few")))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    if kind == "none":
        return None
    smaller = {"row": shape[-1:], "spatial": (1, *shape[-2:]) if len(shape) > 2 else shape[-1:]}.get(kind, shape)
    return rng.random(smaller) < (0.2 if kind == "few" else 0.8)


@st.composite
def divisors(draw, name):
    """Arguments of averages that sums do not take."""
    if name == "sum":
        return {}
    return {"count_include_pad": draw(st.booleans()), "divisor_override": draw(st.sampled_from((None, None, 3, -2.5)))}


@st.composite
def missing(draw, x):
    """Arguments that tell what is missing."""
    where = draw(masks(x.shape))
    return {"nan_policy": draw(st.sampled_from(("omit", "omit", "propagate"))) if where is not None else "omit",
            "where": where}


def some(w, kinds, **orders):
    """Arrays for such windows. Kernels of all dtypes take minutes to compile."""
    return arrays(w.shape, w.rank, DTYPES if selection.exhaustive else ("float32",), kinds, **orders)


def native(x):
    return x.astype(x.dtype.newbyteorder("="))


@given(st.data())
def test_maxima_and_minima(data):
    w = data.draw(windows())
    x = data.draw(some(w, SOME))
    given_, name = data.draw(missing(x)), data.draw(st.sampled_from(("max", "max", "min")))
    axes = reference.sliding(w.shape[-w.rank :], **w.arguments)
    valid = plain.valid_of(native(x), given_["where"], given_["nan_policy"] == "omit")
    expected, places = plain.extremes(native(x), valid, axes, EXTREMES[name])
    if given_["where"] is not None and given_["where"].all() and given_["nan_policy"] == "propagate":
        return  # the plain call: see below
    with unmodified(x):
        y, indices = pool(name, w.rank)(x, **w.arguments, return_indices=True, **given_)
        alone = pool(name, w.rank)(x, **w.arguments, **given_)
    assert_identical(y, expected)
    assert_identical(indices, places)
    assert_same_maxima(alone, expected)


@given(st.data())
def test_averages_and_sums(data):
    w = data.draw(windows())
    x = data.draw(some(w, ("specials", "nan", "ties", "normal")))
    given_, least = data.draw(missing(x)), data.draw(st.sampled_from((None, None, 0, 1, 2, 5)))
    axes = reference.sliding(w.shape[-w.rank :], **w.arguments)
    valid = plain.valid_of(native(x), given_["where"], given_["nan_policy"] == "omit")
    if valid.all() and given_["nan_policy"] == "propagate":
        return  # the plain call: see below
    name = data.draw(st.sampled_from(("avg", "sum")))
    more = data.draw(divisors(name))
    expected, magnitude = plain.averages(native(x), valid, axes, *more.values(), summed=name == "sum", least=least)
    with unmodified(x):
        y = pool(name, w.rank)(x, **w.arguments, **more, **given_, min_count=least)
    assert_rounded(y, expected, magnitude, 8)


@given(st.data())
def test_gradients_of_averages_and_sums(data):
    w = data.draw(windows())
    x = data.draw(some(w, ("nan", "specials"), orders=("C", "channels_last")))
    given_, least = data.draw(missing(x)), data.draw(st.sampled_from((None, 1, 3)))
    axes = reference.sliding(w.shape[-w.rank :], **w.arguments)
    valid = plain.valid_of(x, given_["where"], given_["nan_policy"] == "omit")
    if valid.all() and given_["nan_policy"] == "propagate":
        return
    name = data.draw(st.sampled_from(("avg", "sum")))
    more = data.draw(divisors(name))
    g = data.draw(arrays(reference.output_shape(x.shape, axes), w.rank, (x.dtype.name,), ("normal",), ("C",)))
    backward = getattr(nb, f"{name}_pool{w.rank}d_backward")
    grad = backward(g, x.shape, **w.arguments, **more, **given_, x=x, min_count=least)
    expected = plain.averages_backward(g, valid, axes, *more.values(), summed=name == "sum", least=least)
    positive = more | {key: abs(more[key]) for key in more.keys() & {"divisor_override"} if more[key] is not None}
    magnitude = plain.averages_backward(np.abs(g), valid, axes, *positive.values(), summed=name == "sum", least=least)
    assert_rounded(grad, expected.astype(g.dtype), magnitude, 16)


X = elements((2, 17, 9, 10), "float32", "specials", 3)
MASK = np.random.default_rng(4).random(X.shape) < 0.7
WHOLE = {"adaptive_max": reference.adaptive((9, 10), (4, 3)), "global_max": reference.whole((9, 10)),
         "global_min": reference.whole((9, 10)), "adaptive_avg": reference.adaptive((9, 10), (4, 3)),
         "global_avg": reference.whole((9, 10)), "global_sum": reference.whole((9, 10))}


def function_of(name):
    """The forward and the backward of a family, and the output size if it takes one."""
    function = f"{name}_pool2d" if name.startswith("adaptive") else f"{name}_pool"
    return getattr(nb, function), getattr(nb, f"{function}_backward"), ((4, 3),) * name.startswith("adaptive")


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("name", [name for name in WHOLE if name.endswith(("max", "min"))])
def test_maxima_of_adaptive_and_global_windows(name, order):
    forward, backward, size = function_of(name)
    x = laid_out(X, order, 2)
    for where, policy in ((None, "omit"), (MASK, "omit"), (MASK, "propagate")):
        valid = plain.valid_of(X, where, policy == "omit")
        expected, places = plain.extremes(X, valid, WHOLE[name], not name.endswith("min"))
        y, indices = forward(x, *size, return_indices=True, nan_policy=policy, where=where)
        assert_identical(y, expected)
        assert_identical(indices, places)
        assert_identical(forward(x, *size, nan_policy=policy, where=where), expected)
        grad = backward(np.ones_like(y), indices, x.shape, nan_policy=policy, where=where)
        assert grad.sum() == (places >= 0).sum()
        assert not grad[~valid].any()


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("name", [name for name in WHOLE if name.endswith(("avg", "sum"))])
def test_averages_of_adaptive_and_global_windows(name, order):
    forward, backward, size = function_of(name)
    summed = name.endswith("sum")
    x = laid_out(X, order, 2)
    for where, policy, least in ((None, "omit", None), (MASK, "omit", 5), (MASK, "propagate", None)):
        valid = plain.valid_of(X, where, policy == "omit")
        expected, magnitude = plain.averages(X, valid, WHOLE[name], summed=summed, least=least)
        more = {"nan_policy": policy, "where": where, "min_count": least}
        y = forward(x, *size, **more)
        assert_rounded(y, expected, magnitude, 8)
        g = np.random.default_rng(0).standard_normal(y.shape).astype(np.float32)
        expected = plain.averages_backward(g, valid, WHOLE[name], summed=summed, least=least)
        magnitude = plain.averages_backward(np.abs(g), valid, WHOLE[name], summed=summed, least=least)
        grad = backward(laid_out(g, order, 2), x.shape, **more, x=x)
        assert_rounded(grad, expected.astype(np.float32), magnitude, 8)
        assert is_channels_last(grad, 2) == (order == "channels_last" and y.shape[-1] > 1)


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_integers_that_a_mask_hides(dtype):
    x = elements((2, 3, 9, 10), dtype, "normal", 7)
    mask = np.random.default_rng(8).random(x.shape) < 0.5
    windows = {"kernel_size": 3, "stride": 2, "padding": 1}
    axes = reference.sliding((9, 10), **windows)
    for name, largest in EXTREMES.items():
        expected, places = plain.extremes(x, mask, axes, largest)
        y, indices = pool(name, 2)(x, **windows, return_indices=True, where=mask)
        assert_identical(y, expected)
        assert_identical(indices, places)
        assert_identical(pool(name, 2)(x, **windows, where=mask), expected)
    x = elements(x.shape, dtype, "ties", 7)  # whose sums do not wrap
    for least in (None, 3):
        for more in ({}, {"count_include_pad": False}, {"divisor_override": 2}):
            y = nb.avg_pool2d(x, **windows, **more, where=mask, min_count=least)
            include, override = more.get("count_include_pad", True), more.get("divisor_override")
            assert_identical(y, plain.averages(x, mask, axes, include, override, least=least)[0])
        assert_identical(nb.sum_pool2d(x, **windows, where=mask, min_count=least),
                         plain.averages(x, mask, axes, summed=True, least=least)[0])


@pytest.mark.parametrize("order", ["C", "channels_last"])
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "float32"])
def test_dtypes(dtype, order):
    x = elements((1, 18, 9, 10), dtype, "specials", 5)
    sizes = {"kernel_size": 3, "stride": 2, "padding": 1}
    axes = reference.sliding((9, 10), **sizes)
    valid = plain.valid_of(x, None, True)
    y, indices = nb.min_pool2d(laid_out(x, order, 2), **sizes, return_indices=True, nan_policy="omit")
    expected = plain.extremes(x, valid, axes, False)
    assert_identical(y, expected[0])
    assert_identical(indices, expected[1])
    for size in (sizes, {"kernel_size": (9, 10)}):
        y = nb.avg_pool2d(laid_out(x, order, 2), **size, nan_policy="omit")
        assert_rounded(y, *plain.averages(x, valid, reference.sliding((9, 10), **size)), 8)


def test_a_mask_that_hides_nothing_gives_the_bits_of_the_plain_call():
    x = elements((2, 33, 20, 21), "float32", "normal", 1)
    everything = np.ones(x.shape, bool)
    for name in ("max", "min", "avg", "sum"):
        for sizes in ((3, 2, 1), (2,), (7, 1, 3), ((20, 21),)):
            expected = pool(name, 2)(x, *sizes)
            assert_identical(pool(name, 2)(x, *sizes, where=everything), expected)
            assert_identical(pool(name, 2)(x, *sizes, where=True), expected)
            if sizes != ((20, 21),):  # one stretch of memory, whose sum has an order of its own
                assert_identical(pool(name, 2)(x, *sizes, nan_policy="omit"), expected)
            if name in ("avg", "sum"):
                backward = getattr(nb, f"{name}_pool2d_backward")
                assert_identical(backward(expected, x.shape, *sizes, where=everything),
                                 backward(expected, x.shape, *sizes))


def test_rows_of_different_lengths_are_pooled_as_each_alone():
    lengths = (3, 8, 1, 5)
    x = elements((4, 16, 8), "float32", "normal", 2)
    mask = (np.arange(8) < np.array(lengths)[:, None])[:, None]
    means, largest = nb.global_avg_pool(x, where=mask), nb.global_max_pool(x, where=mask)
    for row, n in enumerate(lengths):
        alone = x[row : row + 1, :, :n]
        assert_identical(largest[row : row + 1], nb.global_max_pool(alone))
        assert_rounded(means[row : row + 1], nb.global_avg_pool(alone), np.abs(alone).mean(-1, keepdims=True), 2)


@pytest.mark.parametrize("where", [None, MASK])
@pytest.mark.parametrize("layer", [nb.MaxPool2d(3, 2, 1, nan_policy="omit"), nb.MinPool2d(2, nan_policy="omit"),
                                   nb.AvgPool2d(3, 2, 1, nan_policy="omit", min_count=2),
                                   nb.SumPool2d(2, nan_policy="omit"), nb.AdaptiveAvgPool2d((4, 3), nan_policy="omit"),
                                   nb.AdaptiveMaxPool2d((4, 3), nan_policy="omit"), nb.GlobalAvgPool(nan_policy="omit"),
                                   nb.GlobalMaxPool(nan_policy="omit"), nb.AvgPool2d(2), nb.MaxPool2d(2)], ids=repr)
def test_layers_keep_what_their_gradients_need(layer, where):
    x = np.nan_to_num(X, posinf=1, neginf=-1, nan=np.nan)
    if layer.nan_policy == "propagate":
        x = np.nan_to_num(x)
    y = layer(x, where=where)
    again = layer._pool(x, **layer._arguments, where=where)
    assert_identical(y, again)
    g = np.random.default_rng(1).standard_normal(y.shape)
    layer.train()
    layer(x.astype(np.float64), where=where)
    grad = layer.backward(g)
    assert not grad[~plain.valid_of(x, where, layer.nan_policy == "omit")].any()
    # Pooling is linear, or follows its largest element: <y, g> = <x, gradient>.
    known = np.isfinite(y)
    np.testing.assert_allclose((y[known] * g[known]).sum(), (np.nan_to_num(x) * grad).sum(), rtol=1e-4)


def test_channel_axis_and_out():
    x, mask = np.moveaxis(X, 1, -1).copy(), np.moveaxis(MASK, 1, -1).copy()
    expected = nb.max_pool2d(X, 2, return_indices=True, nan_policy="omit", where=MASK)
    for y, other in zip(nb.max_pool2d(x, 2, return_indices=True, nan_policy="omit", where=mask, channel_axis=-1),
                        expected, strict=True):
        assert_identical(np.ascontiguousarray(np.moveaxis(y, -1, 1)), other)
    spatial = mask[0, :, :, :1]  # broadcasts against the array as it was given
    y = nb.avg_pool2d(x, 2, nan_policy="omit", where=spatial, channel_axis=-1)
    assert_identical(np.ascontiguousarray(np.moveaxis(y, -1, 1)),
                     nb.avg_pool2d(X, 2, nan_policy="omit", where=MASK[0, :1]))
    out = np.empty_like(expected[0]), np.empty_like(expected[1])
    assert nb.max_pool2d(X, 2, return_indices=True, nan_policy="omit", where=MASK, out=out)[0] is out[0]
    for y, other in zip(out, expected, strict=True):
        assert_identical(y, other)
    g = np.ones_like(expected[0])
    target = np.empty_like(X)
    result = nb.avg_pool2d_backward(g, X.shape, 2, where=MASK, out=target)
    assert result is target
    assert_identical(target, nb.avg_pool2d_backward(g, X.shape, 2, where=MASK))


def test_out_may_be_the_input():
    for name in ("max", "avg"):
        for x in (X, elements(X.shape, "int16", "normal", 2)):
            expected = pool(name, 2)(x, 3, 1, 1, where=MASK)
            target = x.copy()
            pool(name, 2)(target, 3, 1, 1, where=MASK, out=target)
            assert_identical(target, expected)


def test_explain_and_output_shape():
    for function, sizes in ((nb.max_pool2d, (2,)), (nb.avg_pool2d, (2,)), (nb.adaptive_avg_pool2d, (3,)),
                            (nb.global_max_pool, ())):
        for more in ({"nan_policy": "omit"}, {"where": MASK}):
            shape = function(X, *sizes, **more).shape
            assert nb.output_shape(function, X.shape, *sizes, **more) == shape
            assert str(shape) in nb.explain(function, X, *sizes, **more).reads
    assert nb.explain(nb.avg_pool2d_backward, np.ones((2, 17, 4, 5)), X.shape, 2, where=MASK).function


@pytest.mark.parametrize(("more", "error", "message"), [
    ({"nan_policy": "skip"}, ValueError, "nan_policy must be 'propagate' or 'omit', got 'skip'"),
    ({"where": np.ones((2, 17, 9, 10))}, TypeError, "where must be an array of bools, got float64"),
    ({"where": np.ones((3, 10), bool)}, ValueError, r"where must broadcast against x of shape \(2, 17, 9, 10\), got "),
])
def test_wrong_arguments(more, error, message):
    for name in ("max", "avg", "sum", "min"):
        with pytest.raises(error, match=message):
            pool(name, 2)(X, 2, **more)
    with pytest.raises(error, match=message):
        nb.global_avg_pool(X, **more)
    with pytest.raises(error, match=message):
        nb.max_pool2d_backward(np.ones((2, 17, 4, 5)), np.zeros((2, 17, 4, 5), np.int32), X.shape, **more)
    with pytest.raises(error, match=message):
        nb.avg_pool2d_backward(np.ones((2, 17, 4, 5)), X.shape, 2, **more, x=X)


def test_global_averages_say_what_is_wrong_with_an_array():
    for more in ({"nan_policy": "omit"}, {"where": True}):
        with pytest.raises(ValueError, match=r"x must have 3 to 5 axes, \(N, C, \*spatial\), got shape \(9, 10\)"):
            nb.global_avg_pool(X[0, 0], **more)
        with pytest.raises(TypeError, match=r"x must be float32, .*, got NoneType"):
            nb.global_sum_pool(None, **more)
        with pytest.raises(ValueError, match="grad_output must have 3 to 5 axes"):
            nb.global_avg_pool_backward(X[0, 0], X.shape, x=X, **more)


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="min_count must be None unless elements may be missing, got 2"):
        nb.avg_pool2d(X, 2, min_count=2)
    with pytest.raises(ValueError, match="min_count must be at least 0, got -1"):
        nb.sum_pool2d(X, 2, nan_policy="omit", min_count=-1)
    with pytest.raises(TypeError, match="x must be given with nan_policy='omit'"):
        nb.avg_pool2d_backward(np.ones((2, 17, 4, 5)), X.shape, 2, nan_policy="omit")
    with pytest.raises(TypeError, match=r"numba_pool\.plan takes no nan_policy"):
        nb.plan(nb.max_pool2d, X.shape, np.float32, 2, nan_policy="omit")


def test_a_batch_of_nothing_has_nothing_missing():
    x = np.zeros((0, 1, 4, 4), np.int64)
    assert nb.avg_pool2d(x, 2, nan_policy="omit", min_count=2).shape == (0, 1, 2, 2)
    g = np.zeros((0, 1, 2, 2), np.float32)
    assert nb.sum_pool2d_backward(g, x.shape, 2, where=np.ones((), bool), min_count=2).shape == x.shape
