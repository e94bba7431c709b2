"""Maxima of `fuzz_torch.py`: sliding, adaptive and fractional windows, and back to where they came from."""

import numpy as np
import reference
import torch.nn.functional as F
from fuzz_compare import (
    REJECTED,
    array,
    check_too_large,
    describe,
    draw_grad,
    memory_order,
    native,
    outcome,
    output_lengths,
    plain,
    public,
    require,
    require_accepted,
    same,
    tensor,
    torch_call,
    torch_speaks,
    untouched,
    with_out,
)
from fuzz_draw import (
    FLOATS,
    Case,
    chance,
    draw_adaptive,
    draw_dtype,
    draw_global,
    draw_shape,
    draw_values,
    draw_windows,
    lay_out,
    pick,
    spelled,
)


def torch_maximum(case):
    """Values and indices by PyTorch; halves as float32, integers as int64."""
    x = native(case.x)
    wide = x if x.dtype in FLOATS[:2] else x.astype(np.int64 if x.dtype.kind in "iu" else np.float32)
    args = {**case.args, "return_indices": True}
    y, indices = torch_call(Case(case.name, case.rank, case.x, args), tensor(wide))
    return y.numpy().astype(x.dtype), indices.numpy()


def check_maximum(rng, case, y_expected, indices_expected, autograd):
    """Values and indices, values alone, `out=`, memory order, and the gradient, all of them exactly."""
    x, rank, args = case.x, case.rank, case.args
    forward, before = public(case), native(x)
    dtype = before.dtype
    ours = outcome(forward, x, return_indices=True, **args)
    require_accepted(ours)
    y, indices = ours
    same(y, y_expected, "y", dtype)
    same(indices, indices_expected.astype(np.int32), "indices", np.int32)
    memory_order(x, y, rank, "y")
    with_out(rng, case, forward, ours, x, return_indices=True, **args)
    alone = outcome(forward, x, **args)
    require_accepted(alone)
    same(alone, y_expected, "y without indices", dtype)
    memory_order(x, alone, rank, "y without indices")
    with_out(rng, case, forward, alone, x, **args)
    untouched(x, before)

    g = draw_grad(rng, y, np.float32 if dtype.kind in "iu" else dtype)
    laid_out, backward = lay_out(rng, g), public(case, "_backward")
    grad = outcome(backward, laid_out, indices, x.shape)
    require_accepted(grad)
    expected = reference.scatter_add(g, indices_expected, x.shape, rank) if g.size else np.zeros(x.shape, g.dtype)
    same(grad, expected, "grad_input", g.dtype)
    with_out(rng, case, backward, grad, laid_out, indices, x.shape)
    if autograd and g.size and dtype in FLOATS[:2]:
        leaf = tensor(before).requires_grad_()
        torch_call(case, leaf).backward(tensor(g))
        same(grad, leaf.grad.numpy(), "grad_input (autograd)", g.dtype)
    return "compared"


def draw_max(rng, rank):
    shape = draw_shape(rng, rank)
    x = lay_out(rng, draw_values(rng, shape, draw_dtype(rng, integers=True)))
    return Case("max_pool", rank, x, draw_windows(rng, rank, shape[-rank:]))


def check_max(rng, case):
    lengths = output_lengths(case)
    if min(lengths) < 1:
        return check_too_large(case, lengths)
    if not torch_speaks(case) or native(case.x).dtype == np.uint64:
        expected = reference.max_pool(native(case.x), **plain(case.args), rank=case.rank)
        return check_maximum(rng, case, *expected, autograd=False)
    y, indices = torch_maximum(case)
    # Where no tap is valid PyTorch's index lies outside of the plane; documented are the lowest value and -1.
    axes = reference.sliding(case.x.shape[-case.rank :], **plain(case.args))
    empty = np.zeros([len(axis) for axis in axes], bool)
    for i, axis in enumerate(axes):
        np.moveaxis(empty, i, -1)[...] |= [not taps for taps, _ in axis]
    empty = np.broadcast_to(empty, y.shape)
    y[empty], indices[empty] = reference.lowest(y.dtype), -1
    return check_maximum(rng, case, y, indices, autograd=not empty.any())


def draw_adaptive_max(rng, rank):
    return draw_adaptive(rng, rank, "adaptive_max_pool")


def check_adaptive_max(rng, case):
    if case.x.dtype.kind in "iu":  # unknown to PyTorch
        expected = reference.adaptive_max_pool(native(case.x), **case.args, rank=case.rank)
        return check_maximum(rng, case, *expected, autograd=False)
    return check_maximum(rng, case, *torch_maximum(case), autograd=True)


def draw_fractional(rng, rank):
    shape = draw_shape(rng, rank)
    x = lay_out(rng, draw_values(rng, shape, draw_dtype(rng, integers=False)))
    kernel = [int(rng.integers(1, min(n, 4) + 1)) for n in shape[-rank:]]
    args = {"kernel_size": pick(rng, [tuple(kernel), min(kernel)])}
    kernel = reference.per_axis(args["kernel_size"], rank)
    most = [n - k + 1 for n, k in zip(shape[-rank:], kernel, strict=True)]
    sizes = [int(rng.integers(1, m + 1)) for m in most]
    args["output_size"] = pick(rng, [tuple(sizes), min(sizes)])
    lead = shape[:-rank] if len(shape) == rank + 2 else (1, *shape[:-rank])
    dtype = x.dtype.newbyteorder("=")
    u = np.minimum(rng.random((*lead, rank)).astype(dtype), np.nextafter(dtype.type(1), dtype.type(0)))
    return Case("fractional_max_pool", rank, x, {**args, "random_samples": u})


def check_fractional(rng, case):
    x, rank, args = native(case.x), case.rank, case.args
    sizes, kernel = reference.per_axis(args["output_size"], rank), reference.per_axis(args["kernel_size"], rank)
    # PyTorch's 3D wrongly rejects windows that fill the input: o + k - 1 == length
    fills = any(o + k - 1 == n for n, k, o in zip(x.shape[-rank:], kernel, sizes, strict=True))
    if rank == 3 and fills:
        samples = args["random_samples"].reshape(*x.shape[:-rank], rank)
        expected = reference.fractional_max(x, args["kernel_size"], args["output_size"], samples)
        return check_maximum(rng, case, *expected, autograd=False)
    y, indices = torch_call(Case(case.name, rank, case.x, {**args, "return_indices": True}), tensor(x))
    return check_maximum(rng, case, array(y), array(indices), autograd=True)


def draw_unpool(rng, rank):
    shape = draw_shape(rng, rank)
    x = draw_values(rng, shape, draw_dtype(rng, integers=False))
    kernel = [int(n) for n in rng.integers(1, 4, rank)]
    stride = list(kernel) if chance(rng, 0.5) else [int(n) for n in rng.integers(1, 4, rank)]
    padding = [int(rng.integers(0, k // 2 + 1)) for k in kernel]
    args = {"kernel_size": spelled(rng, kernel), "stride": spelled(rng, stride, tuple(kernel))}
    args["padding"] = spelled(rng, padding)
    size = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(shape[-rank:], stride, kernel, padding, strict=True)]
    if chance(rng, 0.4):
        size = [n + int(rng.integers(1 - s, s)) for n, s in zip(size, stride, strict=True)]
        args["output_size"] = tuple(size) if chance(rng, 0.5) or len(shape) == rank + 1 else (*shape[:2], *size)
    plane, lead = int(np.prod(np.maximum(size, 0))), shape[:-rank]
    taps, planes = int(np.prod(shape[-rank:])), int(np.prod(lead))
    if plane >= taps and chance(rng, 0.7):  # each position at most once
        indices = np.array([rng.permutation(plane)[:taps] for _ in range(planes)], np.int64)
    else:
        indices = rng.integers(0, max(plane, 1), (planes, taps))
    if chance(rng, 0.06) and indices.size:
        indices.flat[rng.integers(indices.size)] = pick(rng, [-1, plane, -(2**31), 2**31 - 1, 2**40])
    indices = indices.reshape(shape)
    if np.abs(indices).max(initial=0) < 2**31 and chance(rng, 0.7):
        indices = indices.astype(np.int32)
    return Case("max_unpool", rank, lay_out(rng, x), {"indices": lay_out(rng, indices), **args})


def check_unpool(rng, case):
    x, rank, args = native(case.x), case.rank, dict(case.args)
    indices = args.pop("indices")
    size = args.get("output_size") or reference.unpool_size(
        x.shape[-rank:], args["kernel_size"], args["stride"], args["padding"]
    )
    asked = {k: tuple(reference.per_axis(v, rank)) for k, v in plain(args).items() if v is not None}
    size, flat = size[-rank:], native(indices).astype(np.int64)
    plane = int(np.prod(size))
    forward, backward = public(case), public(case, "_backward")
    before = outcome(forward, case.x, indices, **args)
    if min(size) < 1 or (flat.size and (flat.min() < 0 or flat.max() >= plane)):
        if flat.size:
            by_torch = outcome(getattr(F, f"max_unpool{rank}d"), tensor(x.astype(np.float32)), tensor(flat), **asked)
            accepted = not isinstance(by_torch, Exception) and by_torch.numel()
            require(not accepted, "PyTorch accepts what was meant to be wrong")
        require(isinstance(before, REJECTED), f"size {size} or the indices must be rejected, got {describe(before)}")
        return "rejected"
    require_accepted(before)
    same(before, reference.max_unpool(x, flat, size), "y", x.dtype)
    with_out(rng, case, forward, before, case.x, indices, **args)
    rows = np.sort(flat.reshape(-1, int(np.prod(x.shape[-rank:]))), axis=1)
    unique = not np.any(rows[:, 1:] == rows[:, :-1])
    g = draw_grad(rng, before, x.dtype)
    grad = outcome(backward, lay_out(rng, g), indices)
    require_accepted(grad)
    same(grad, reference.gather(g, flat, rank), "grad_input", x.dtype)
    if x.dtype in FLOATS[:2] and unique:  # with duplicates PyTorch's result depends on who comes last
        leaf = tensor(x).requires_grad_()
        y = getattr(F, f"max_unpool{rank}d")(leaf, tensor(flat), **asked)
        same(before, y.detach().numpy(), "y (PyTorch)", x.dtype)
        y.backward(tensor(g))
        same(grad, leaf.grad.numpy(), "grad_input (autograd)", x.dtype)
    return "compared"


def draw_global_max(rng, rank):
    return draw_global(rng, rank, "global_max_pool")


def check_global_max(rng, case):
    if case.x.dtype.kind in "iu":
        expected = reference.adaptive_max_pool(native(case.x), 1, rank=case.rank)
        return check_maximum(rng, case, *expected, autograd=False)
    return check_maximum(rng, case, *torch_maximum(case), autograd=True)
