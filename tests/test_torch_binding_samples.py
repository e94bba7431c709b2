"""PyTorch's own sample inputs through numba_pool.torch: maxima bit for bit, with gradients."""

from itertools import islice

import pytest
from test_torch_samples import NAMES, errors, operators, samples, torch

import numba_pool.torch as binding

pytestmark = pytest.mark.usefixtures("small_calls_too")


def same(actual, expected, exact):
    assert actual.dtype == expected.dtype
    if exact:
        assert torch.equal(actual, expected)
    else:
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("name", NAMES)
def test_samples(name):
    own = getattr(torch.nn.functional, name)  # not op: that of fractional pooling sets a seed of its own
    for op in operators(name):
        for sample in islice(samples(op, torch.float64), 0, None, 8):  # the core's own tests take all
            check_sample(own, getattr(binding, name), sample, "avg" not in name)


def check_sample(own, function, sample, exact):
    results = []
    for call in (own, function):
        torch.manual_seed(0)
        results.append(call(sample.input, *sample.args, **sample.kwargs))
    expected, result = results
    if isinstance(expected, tuple):
        same(result[1], expected[1], True)
        expected, result = expected[0], result[0]
    same(result, expected, exact)
    grad = torch.randint(-8, 9, expected.shape).to(expected.dtype)  # whole numbers: sums are exact in any order
    gradients = [torch.autograd.grad(y, sample.input, grad)[0] for y in (expected, result)]
    same(gradients[1], gradients[0], exact)


@pytest.mark.parametrize("name", NAMES)
def test_errors(name):
    """What PyTorch rejects, with its exception."""
    for error in errors(name):
        sample = error.sample_input
        with pytest.raises(error.error_type, match=error.error_regex):
            getattr(binding, name)(sample.input, *sample.args, **sample.kwargs)


def test_all_there():
    assert all(hasattr(binding, name) for name in NAMES)
