"""Averages and Lp norms of `fuzz_torch.py`."""

import numpy as np
import reference
import torch
import torch.nn.functional as F
from fuzz_compare import (
    check_too_large,
    close,
    memory_order,
    native,
    outcome,
    output_lengths,
    plain,
    public,
    require_accepted,
    same,
    tensor,
    torch_call,
    torch_speaks,
    untouched,
    with_out,
)
from fuzz_draw import (
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
    small_enough,
)


def forward_of(rng, case):
    """What the forward returns; it is accepted, lies in memory as its input does, and leaves that as it was."""
    x, forward = native(case.x), public(case)
    y = outcome(forward, case.x, **case.args)
    require_accepted(y)
    memory_order(case.x, y, case.rank, "y")
    with_out(rng, case, forward, y, case.x, **case.args)
    untouched(case.x, x)
    return y


def check_sums(rng, case, backward_args, exact_integers, by_torch, by_reference, by_reference_backward):
    """Forward and backward of an average: integers exactly, halves as float32 rounded once, floats to some ulp."""
    x, args = native(case.x), case.args
    y, backward = forward_of(rng, case), public(case, "_backward")
    if x.dtype.kind in "iu":
        same(y, exact_integers(x), "y", x.dtype)
    else:
        single = x.astype(np.float32) if x.itemsize < 4 else x
        y_single = y
        if x.itemsize < 4:
            y_single = public(case)(single, **args)
            with np.errstate(over="ignore"):
                same(y, y_single.astype(x.dtype), "y, which is to be the float32 result rounded once,", x.dtype)
        oracle = (lambda a: by_torch(tensor(a)).numpy()) if by_torch else by_reference
        double = single.astype(np.float64)
        with np.errstate(invalid="ignore"):
            expected, scale = oracle(double), np.abs(oracle(np.abs(double)))
        rival = (lambda: oracle(single)) if by_torch else None
        close(y_single, expected, scale, "y", single.dtype, ulps_for(single), rival)

    dtype = np.dtype(np.float32) if x.dtype.kind in "iu" else x.dtype
    g = draw_values(rng, y.shape, dtype, pick(rng, ["normal", "ties"]))
    laid_out = lay_out(rng, g)
    grad = outcome(backward, laid_out, x.shape, **backward_args)
    require_accepted(grad)
    with_out(rng, case, backward, grad, laid_out, x.shape, **backward_args)
    single = g.astype(np.float32) if g.itemsize < 4 else g
    if g.itemsize < 4:
        grad_single = backward(single, x.shape, **backward_args)
        same(grad, grad_single.astype(dtype), "grad_input, which is to be the float32 result rounded once,", dtype)
        grad = grad_single

    def gradient(a):
        if by_torch is None:
            return by_reference_backward(a)
        if not a.size:  # no output, no gradient: PyTorch's 3D raises here
            return np.zeros(x.shape)
        leaf = torch.zeros(x.shape, dtype=tensor(a).dtype, requires_grad=True)
        by_torch(leaf).backward(tensor(a))
        return leaf.grad.numpy()

    double = single.astype(np.float64)
    # A negative divisor turns every sign, hence the second absolute value.
    scale = np.abs(gradient(np.abs(double)))
    close(grad, gradient(double), scale, "grad_input", single.dtype, ulps_for(single), lambda: gradient(single))
    return "compared"


def ulps_for(a):
    """Sums of float64 are naive, here as in PyTorch: 18 ulp were seen over 180 equal taps."""
    return 4 if a.dtype == np.float32 else 64


def draw_avg(rng, rank):
    shape = draw_shape(rng, rank)
    x = lay_out(rng, small_enough("avg_pool", draw_values(rng, shape, draw_dtype(rng, integers=True))))
    args = draw_windows(rng, rank, shape[-rank:], dilated=chance(rng, 0.35))
    args["count_include_pad"] = chance(rng, 0.5)
    if chance(rng, 0.25):
        # quotients of integers have to stay in their range
        divisors = {"i": [300, 1000, -300], "u": [300, 1000], "f": [1, 2, 3, 7, -3, 2.5]}
        args["divisor_override"] = pick(rng, divisors.get(x.dtype.kind, divisors["f"]))
    return Case("avg_pool", rank, x, args)


def check_avg(rng, case):
    lengths = output_lengths(case)
    if min(lengths) < 1:
        return check_too_large(case, lengths)
    args, rank = plain(case.args), case.rank
    speaks = torch_speaks(case)

    def integers(x):
        if speaks and x.dtype != np.uint64:
            return torch_call(case, tensor(x.astype(np.int64))).numpy().astype(x.dtype)
        return reference.avg_pool(x, **args, rank=rank)

    return check_sums(
        rng, case, case.args, integers,
        (lambda x: torch_call(case, x)) if speaks else None,
        lambda x: reference.avg_pool(x, **args, rank=rank),
        lambda g: reference.avg_pool_backward(g, case.x.shape, **args, rank=rank),
    )  # fmt: skip


def draw_adaptive_avg(rng, rank):
    return draw_adaptive(rng, rank, "adaptive_avg_pool")


def check_adaptive_avg(rng, case):
    def integers(x):
        return reference.adaptive_avg_pool(x, **case.args, rank=case.rank)

    return check_sums(rng, case, {}, integers, lambda x: torch_call(case, x), None, None)


def draw_lp(rng, rank):
    shape = draw_shape(rng, rank)
    p = pick(rng, [1, 2, 2, 3, 4, 1.5, 2.5, 0.5, np.inf, -np.inf])
    # a power below one has an infinite slope at zero
    kind = pick(rng, ["normal", "positive"]) if p == 0.5 else None
    x = lay_out(rng, draw_values(rng, shape, draw_dtype(rng, integers=False), kind))
    args = draw_windows(rng, rank, shape[-rank:], dilated=chance(rng, 0.5))
    if chance(rng, 0.4):
        del args["padding"]
    return Case("lp_pool", rank, x, {"norm_type": p, **args})


def check_lp(rng, case):
    lengths = output_lengths(case)
    if min(lengths) < 1:
        return check_too_large(case, lengths)
    x, rank, args = native(case.x), case.rank, case.args
    p, windows = args["norm_type"], {k: v for k, v in plain(args).items() if k != "norm_type"}
    y, backward = forward_of(rng, case), public(case, "_backward")
    single, y_single = x, y
    if x.itemsize < 4:
        single = x.astype(np.float32)
        y_single = public(case)(single, **args)
        same(y, y_single.astype(x.dtype), "y, which is to be the float32 result rounded once,", x.dtype)
    double = single.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = reference.lp_pool(double, p, **windows, rank=rank)
    close(y_single, expected, 0.0, "y", single.dtype, ulps=0 if np.isinf(p) else 16)
    overhangs = any(
        len(taps) < k
        for axis, k in zip(
            reference.sliding(x.shape[-rank:], **windows), reference.per_axis(args["kernel_size"], rank), strict=True
        )
        for taps, _ in axis
    )
    if np.isfinite(p) and not overhangs and "dilation" not in args and np.all(double >= 0):
        asked = {k: windows[k] for k in ("kernel_size", "stride") if windows[k] is not None}
        asked = {k: tuple(reference.per_axis(v, rank)) for k, v in asked.items()}
        if rank == 1:
            asked = {k: v[0] for k, v in asked.items()}
        by_torch = getattr(F, f"lp_pool{rank}d")(tensor(double), p, ceil_mode=args["ceil_mode"], **asked).numpy()
        close(y_single, by_torch, 0.0, "y (PyTorch)", single.dtype, ulps=20)

    if not np.all(np.isfinite(double)):
        return "compared"
    g = draw_values(rng, y.shape, x.dtype, pick(rng, ["normal", "ties"]))
    laid_out = lay_out(rng, g)
    grad = outcome(backward, laid_out, case.x, y, **args)
    require_accepted(grad)
    with_out(rng, case, backward, grad, laid_out, case.x, y, **args)
    if x.itemsize < 4:
        again = backward(g.astype(np.float32), single, y.astype(np.float32), **args)
        same(grad, again.astype(x.dtype), "grad_input, which is to be the float32 result rounded once,", x.dtype)
        return "compared"
    if np.isinf(p):
        planes = np.sort(np.abs(double).reshape(-1, int(np.prod(x.shape[-rank:]))), axis=1)
        if np.any(planes[:, 1:] == planes[:, :-1]):
            return "compared"  # which of several extremes gets the gradient is not documented
        _, indices = reference.max_pool(np.copysign(np.abs(double), p), **windows, rank=rank)

        def gradient(g, x):
            return reference.scatter_add(g, indices, x.shape, rank) * np.sign(x)
    else:

        def gradient(g, x):
            with np.errstate(invalid="ignore", divide="ignore"):
                return reference.lp_pool_backward(g, x, p, **windows, rank=rank)

    g = g.astype(np.float64)
    scale = gradient(np.abs(g), np.abs(double))
    close(grad, gradient(g, double), scale, "grad_input", x.dtype, ulps=64)
    return "compared"


def draw_global_avg(rng, rank):
    return draw_global(rng, rank, "global_avg_pool")


def check_global_avg(rng, case):
    def integers(x):
        return reference.adaptive_avg_pool(x, 1, rank=case.rank)

    return check_sums(rng, case, {}, integers, lambda x: torch_call(case, x), None, None)
