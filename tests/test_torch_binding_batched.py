"""Backward of numba_pool.torch for a batch of gradients at once, and in forward mode, of every function."""

import numpy as np
import pytest
import reference

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install -e .[torch]")

import torch.nn.functional as F  # noqa: E402
from torch.autograd import forward_ad, gradcheck, gradgradcheck  # noqa: E402

import numba_pool.torch as binding  # noqa: E402

pytestmark = pytest.mark.usefixtures("small_calls_too")
torch.set_num_threads(1)
SHAPE = (2, 2, 4, 6)
_, INDICES = F.max_pool2d(torch.rand(SHAPE), 2, return_indices=True)
SAMPLES = torch.full((*SHAPE[:2], 2), 0.4, dtype=torch.float64)
# Each as a call of the same function of torch.nn.functional and of the binding.
CALLS = {
    "max_pool2d": lambda module, x: module.max_pool2d(x, 3, 2, 1),
    "max_pool2d of an image": lambda module, x: module.max_pool2d(x[0], 2),
    "max_pool2d with indices": lambda module, x: module.max_pool2d(x, 2, return_indices=True)[0],
    "avg_pool2d": lambda module, x: module.avg_pool2d(x, 3, 2, 1),
    "avg_pool1d": lambda module, x: module.avg_pool1d(x[0], 2),
    "adaptive_max_pool2d": lambda module, x: module.adaptive_max_pool2d(x, 3),
    "adaptive_avg_pool2d": lambda module, x: module.adaptive_avg_pool2d(x, (3, 4)),
    "adaptive_avg_pool2d to one": lambda module, x: module.adaptive_avg_pool2d(x, 1),
    "lp_pool2d": lambda module, x: module.lp_pool2d(x, 2, 2),
    "lp_pool2d of order 4": lambda module, x: module.lp_pool2d(x, 4, 3, 1),
    "fractional_max_pool2d": lambda module, x: module.fractional_max_pool2d(x, 2, 3, _random_samples=SAMPLES),
    "max_unpool2d": lambda module, x: module.max_unpool2d(x[:, :, :2, :3], INDICES, 2),
}
LAYOUTS = {"plain": torch.contiguous_format, "channels last": torch.channels_last}


def image(layout="plain"):
    """Numbers without ties, none of them near 0."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randperm(96, generator=generator).to(torch.float64).reshape(SHAPE) / 96 + 0.1
    return x.contiguous(memory_format=LAYOUTS[layout]).requires_grad_()


def gradients(y, count=4):
    return torch.randn(count, *y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_a_batch_of_gradients(name, layout):
    """One by one and together: by `is_grads_batched`, and by `vmap` over `torch.autograd.grad`."""
    x = image(layout)
    y = CALLS[name](binding, x)
    grads = gradients(y)

    def backward(g):
        return torch.autograd.grad(y, x, g, retain_graph=True)[0]

    expected = torch.stack([backward(g) for g in grads])
    (batched,) = torch.autograd.grad(y, x, grads, retain_graph=True, is_grads_batched=True)
    torch.testing.assert_close(batched, expected)
    torch.testing.assert_close(torch.func.vmap(backward)(grads), expected)
    torch.testing.assert_close(torch.func.vmap(torch.func.vmap(backward))(grads.unflatten(0, (2, 2))).flatten(0, 1),
                               expected)


@pytest.mark.parametrize("name", CALLS)
def test_jacobian_and_hessian_in_one_backward(name):
    def both(module):
        def pool(x):
            return CALLS[name](module, x)

        x, functional = image(), torch.autograd.functional
        return (functional.jacobian(pool, x, vectorize=True),
                functional.hessian(lambda x: pool(x).pow(3).sum(), x, vectorize=True))

    torch.testing.assert_close(both(binding), both(F))


@pytest.mark.parametrize("name", CALLS)
def test_gradcheck_of_batches(name):
    def pool(x):
        return CALLS[name](binding, x)

    assert gradcheck(pool, image(), check_batched_grad=True)
    assert gradgradcheck(pool, image(), check_batched_grad=True)


@pytest.mark.parametrize("name", CALLS)
def test_batches_that_are_differentiated_again(name):
    results = []
    for module in (binding, F):
        x = image()
        y = CALLS[name](module, x)
        grads = gradients(y).requires_grad_()
        (batched,) = torch.autograd.grad(y, x, grads, create_graph=True, is_grads_batched=True)
        results.append(torch.autograd.grad(batched.pow(2).sum(), (x, grads), allow_unused=True, materialize_grads=True))
    torch.testing.assert_close(*results)


def test_gradients_that_are_to_be_negated():
    """One number is contiguous, whatever the strides, and NumPy cannot read what torch has yet to negate."""
    x = image()
    y = binding.max_pool2d(x[:1, :1], (4, 6))
    g = torch.full_like(y, 3 - 2j, dtype=torch.complex128).conj().imag
    assert g.is_neg()
    assert torch.autograd.grad(y, x, g)[0].sum() == 2


WINDOW = np.array([1.0, -0.9, 0.8, 1.1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [2, 8, 40])
def test_double_backward_of_a_norm_for_all_that_the_dtype_has(p, dtype):
    """Windows of very small and very large numbers side by side, and of zeros: no power leaves the dtype's range."""
    scales = (1e-30, 1, 0, 1e10, 1e30) if dtype is torch.float32 else (1e-60, 1, 0, 1e-300, 1e10, 1e300)
    x = torch.from_numpy(np.concatenate([WINDOW * scale for scale in scales])).to(dtype)
    v = torch.linspace(-1, 2, len(x), dtype=dtype)
    leaf = x.clone().requires_grad_()
    y = binding.lp_pool1d(leaf[None, None], p, 4)
    g = torch.ones_like(y).requires_grad_()
    (gradient,) = torch.autograd.grad(y, leaf, g, create_graph=True)
    torch.testing.assert_close(gradient.detach(), torch.autograd.grad(y, leaf, g.detach())[0])
    second, first = torch.autograd.grad((gradient * v).sum(), (leaf, g))
    for i in range(len(scales)):
        one = slice(4 * i, 4 * i + 4)
        expected = reference.norm_gradient_derivative(x[one], v[one], p)
        np.testing.assert_allclose(second[one], expected, rtol=1e-5 if dtype is torch.float32 else 1e-12)
    torch.testing.assert_close(first[0, 0], (gradient * v).detach().unflatten(0, (-1, 4)).sum(1))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("p", [2, 8])
def test_double_backward_of_norms_of_overlapping_windows(p, layout):
    """An element is in small windows and in large ones. The gradient has the input's format."""
    x = (image(layout).detach() * torch.logspace(-70, 70, 6, dtype=torch.float64)).requires_grad_()
    (gradient,) = torch.autograd.grad(binding.lp_pool2d(x, p, (1, 2), 1).sum(), x, create_graph=True)
    assert gradient.stride() == x.stride()
    (second,) = torch.autograd.grad(gradient.sum(), x)
    a, expected = x.detach().numpy(), np.zeros(SHAPE)
    for at in np.ndindex(2, 2, 4, 5):
        window = (*at[:3], slice(at[3], at[3] + 2))
        expected[window] += reference.norm_gradient_derivative(a[window], (1, 1), p)
    # relative to the summands, of which one may be all but the other's opposite
    assert (abs(second.numpy() - expected) <= 1e-12 * p / abs(a)).all()


@pytest.mark.parametrize(("name", "shape", "windows"), [("lp_pool3d", (3, 1, 4, 2, 1), ((1, 1, 1), (1, 4, 4))),
                                                        ("lp_pool2d", (2, 1, 1, 3), ((1, 1), (3, 1)))])
@pytest.mark.parametrize("p", [2, 40])
def test_double_backward_of_norms_of_one_element(name, shape, windows, p):
    """Which are straight lines; 0 for a zero, as backward has it."""
    x = torch.linspace(-1, 1.3, int(np.prod(shape)), dtype=torch.float64).reshape(shape)
    x[x.abs() < 0.1] = 0.1

    def pool(x):
        return getattr(binding, name)(x, p, *windows)

    assert gradgradcheck(pool, x.requires_grad_(), check_batched_grad=True)
    zeros = torch.zeros(shape, dtype=torch.float64).requires_grad_()
    y = pool(zeros)
    g = torch.ones_like(y).requires_grad_()
    (gradient,) = torch.autograd.grad(y, zeros, g, create_graph=True)
    for result in (gradient, *torch.autograd.grad(gradient.sum(), (zeros, g))):
        assert torch.equal(result, torch.zeros_like(result))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("name", CALLS)
def test_forward_mode_of_a_backward_is_not_lost(name):
    """Where there is no rule for it, an error says so; the gradient came back without a tangent. Norms have one."""
    x = image()
    y = CALLS[name](binding, x)
    with forward_ad.dual_level():
        g = forward_ad.make_dual(torch.ones_like(y), torch.ones_like(y))
        if name.startswith("lp_pool"):
            gradient, tangent = forward_ad.unpack_dual(torch.autograd.grad(y, x, g)[0])
            assert torch.equal(tangent, gradient)
            return
        with pytest.raises(NotImplementedError, match="jvp"):
            torch.autograd.grad(y, x, g)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_differentiated_again_a_norm_has_the_same_gradient(dtype):
    """Also where the powers have no float32, and 0 for a window of zeros, which torch's own has as NaN."""
    x = torch.tensor([[1e-25, 2e-25, 0, 0], [3e-25, 1e-25, 0, 0], [1, -2, 1e25, 1e24], [3, 4, 1e25, -1e25]])
    x = x.to(dtype)[None].requires_grad_()
    y = binding.lp_pool2d(x, 2, 2)
    (expected,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.testing.assert_close(grad.detach(), expected)
    assert torch.equal(expected[0, :2, 2:], torch.zeros(2, 2, dtype=dtype))
    (second,) = torch.autograd.grad(grad[0, :2, 2:].sum() + grad[0, 2, 0], x)
    assert second.isfinite().all()


@pytest.mark.parametrize("name", CALLS)
def test_what_follows_may_change_the_output(name):
    """In place, as `ReLU(inplace=True)` does: no backward needs the output."""
    results = []
    for module in (binding, F):
        x = image()
        y = CALLS[name](module, x - 0.5).mul_(2)
        results.append(torch.autograd.grad(torch.relu_(y).sum(), x)[0])
    torch.testing.assert_close(*results)
