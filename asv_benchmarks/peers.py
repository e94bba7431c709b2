"""How each library is asked for the same pooling operation: one function per peer, from a Case to calls.

A peer holds its own copy of the same input, in the memory order of the case where it knows one, and each call is the
public one with a fresh output. LiteRT alone writes into buffers that it keeps. Libraries are imported inside the
functions: every peer runs in a process of its own (compare_peers.py), and most machines have few of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np


@dataclass(frozen=True)
class Case:
    """One operation on one input; the shape is (N, C, H, W) whatever the layout."""

    operation: str  # "argmax": forward with indices and its backward; "max": forward alone; "avg"; "global_avg"
    layout: str  # "nchw" or "nhwc", the order in memory
    shape: tuple[int, int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: int
    threads: int

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        lengths = (
            (length + 2 * self.padding - k) // s + 1
            for length, k, s in zip(self.shape[2:], self.kernel, self.stride, strict=True)
        )
        return (*self.shape[:2], *lengths)

    def traffic(self, direction: str) -> tuple[int, int]:
        """Bytes to read and to write, each once, by a "forward" or "backward": float32 values, int32 indices."""
        inputs, outputs = 4 * math.prod(self.shape), 4 * math.prod(self.output_shape)
        if self.operation == "argmax":
            outputs *= 2
        return (inputs, outputs) if direction == "forward" else (outputs, inputs)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The input and the upstream gradient, (N, C, H, W) in the case's memory order."""
        rng = np.random.default_rng(0)
        pair = (rng.standard_normal(shape, dtype=np.float32) for shape in (self.shape, self.output_shape))
        return tuple(to_first(to_last(a)) if self.layout == "nhwc" else a for a in pair)


@dataclass(frozen=True)
class Calls:
    """What is timed. ``values`` turns a result into an (N, C, H, W) array, to check that all compute the same."""

    forward: Callable[[], object]
    backward: Callable[[], object] | None = None
    values: Callable[[object], np.ndarray] = np.asarray


@dataclass(frozen=True)
class Peer:
    """A library in one way of using it."""

    name: str
    label: str
    module: str
    prepare: Callable[[Case], Calls]


class Unsupported(Exception):
    """This peer has no such operation; the text says what is missing."""


PEERS: dict[str, Peer] = {}


def peer(name: str, label: str, module: str):
    """Enter a function into PEERS; ``module`` is what has to be installed."""

    def enter(prepare):
        PEERS[name] = Peer(name, label, module, prepare)
        return prepare

    return enter


def to_last(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a.transpose(0, 2, 3, 1))


def to_first(a) -> np.ndarray:
    return np.asarray(a).transpose(0, 3, 1, 2)


def first_of(result) -> np.ndarray:
    """The values of a call that may return (values, indices)."""
    return np.asarray(result[0] if isinstance(result, tuple) else result)


# ---- ours
@peer("ours", "numba_pool", "numba_pool")
def numba_pool(case: Case) -> Calls:
    import numba_pool as P

    P.set_num_threads(case.threads)
    x, grad = case.arrays()
    window = (case.kernel, case.stride, case.padding)
    if case.operation == "max":
        return Calls(partial(P.max_pool2d, x, *window))
    if case.operation == "argmax":
        _, indices = P.max_pool2d(x, *window, return_indices=True)
        forward = partial(P.max_pool2d, x, *window, return_indices=True)
        return Calls(forward, partial(P.max_pool2d_backward, grad, indices, x.shape), first_of)
    if case.operation == "avg":
        return Calls(partial(P.avg_pool2d, x, *window), partial(P.avg_pool2d_backward, grad, x.shape, *window))
    return Calls(partial(P.global_avg_pool, x), partial(P.global_avg_pool_backward, grad, x.shape))


# ---- torch
def _torch(case: Case, channels_last: bool) -> Calls:
    import torch

    torch.set_num_threads(case.threads)
    torch.set_grad_enabled(False)
    functional, aten = torch.nn.functional, torch.ops.aten
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    x, grad = (torch.from_numpy(np.ascontiguousarray(a)).contiguous(memory_format=memory_format) for a in case.arrays())
    kernel, stride, padding = list(case.kernel), list(case.stride), [case.padding] * 2
    window = (kernel, stride, padding)
    if case.operation == "max":
        return Calls(lambda: functional.max_pool2d(x, *window))
    if case.operation == "argmax":
        _, indices = functional.max_pool2d(x, *window, return_indices=True)
        return Calls(
            lambda: functional.max_pool2d(x, *window, return_indices=True),
            lambda: aten.max_pool2d_with_indices_backward(grad, x, *window, [1, 1], False, indices),
            first_of,
        )
    if case.operation == "avg":
        return Calls(
            lambda: functional.avg_pool2d(x, *window),
            lambda: aten.avg_pool2d_backward(grad, x, *window, False, True, None),
        )
    return Calls(
        lambda: functional.adaptive_avg_pool2d(x, 1),
        lambda: aten._adaptive_avg_pool2d_backward(grad, x),
    )


@peer("torch", "PyTorch", "torch")
def torch_plain(case: Case) -> Calls:
    return _torch(case, channels_last=False)


@peer("torch_channels_last", "PyTorch channels last", "torch")
def torch_channels_last(case: Case) -> Calls:
    return _torch(case, channels_last=True)


@peer("torch_onednn", "PyTorch oneDNN", "torch")
def torch_onednn(case: Case) -> Calls:
    import torch

    if case.operation == "global_avg":
        raise Unsupported("no backward of the adaptive average in oneDNN's layout")
    torch.set_num_threads(case.threads)
    torch.set_grad_enabled(case.operation != "max")
    pool = torch.nn.functional.avg_pool2d if case.operation == "avg" else torch.nn.functional.max_pool2d
    x, grad = (torch.from_numpy(np.ascontiguousarray(a)).to_mkldnn() for a in case.arrays())
    window = (case.kernel, case.stride, case.padding)

    def values(result):
        return result.detach().to_dense().numpy()

    if case.operation == "max":
        return Calls(lambda: pool(x, *window), values=values)
    x.requires_grad_()
    y = pool(x, *window)
    return Calls(
        lambda: pool(x, *window),
        lambda: torch.autograd.grad(y, x, grad, retain_graph=True)[0],
        values,
    )


# ---- JAX, TensorFlow
@peer("jax", "JAX", "jax")
def jax(case: Case) -> Calls:
    import jax
    import jax.numpy as jnp

    if case.operation == "global_avg":
        raise Unsupported("a mean over axes, not a pooling call")
    x, grad = case.arrays()
    pad = (case.padding, case.padding)
    if case.layout == "nhwc":
        x, grad, values = to_last(x), to_last(grad), to_first
        window, stride, pads = (1, *case.kernel, 1), (1, *case.stride, 1), [(0, 0), pad, pad, (0, 0)]
    else:
        values = np.asarray
        window, stride, pads = (1, 1, *case.kernel), (1, 1, *case.stride), [(0, 0), (0, 0), pad, pad]
    x, grad = jnp.asarray(x), jnp.asarray(grad)

    def pool(v):
        if case.operation == "avg":
            return jax.lax.reduce_window(v, 0.0, jax.lax.add, window, stride, pads) / (
                window[1] * window[2] * window[3]
            )
        return jax.lax.reduce_window(v, -jnp.inf, jax.lax.max, window, stride, pads)

    forward, gradient = jax.jit(pool), jax.jit(lambda v, g: jax.vjp(pool, v)[1](g)[0])
    backward = None if case.operation == "max" else lambda: gradient(x, grad).block_until_ready()
    return Calls(lambda: forward(x).block_until_ready(), backward, values)


@peer("tensorflow", "TensorFlow", "tensorflow")
def tensorflow(case: Case) -> Calls:
    import tensorflow as tf

    if case.operation == "global_avg":
        raise Unsupported("a mean over axes, not a pooling call")
    if case.operation == "avg" and case.padding:
        raise Unsupported("no explicit padding in its average pooling")
    if tf.config.threading.get_intra_op_parallelism_threads() != case.threads:
        tf.config.threading.set_intra_op_parallelism_threads(case.threads)
    x, grad = (tf.constant(to_last(a)) for a in case.arrays())
    window = {"ksize": [1, *case.kernel, 1], "strides": [1, *case.stride, 1], "padding": "VALID"}
    if case.operation == "avg":
        return Calls(
            lambda: tf.raw_ops.AvgPool(value=x, **window),
            lambda: tf.raw_ops.AvgPoolGrad(orig_input_shape=x.shape, grad=grad, **window),
            to_first,
        )
    if case.padding:
        p = case.padding
        window |= {"padding": "EXPLICIT", "explicit_paddings": [0, 0, p, p, p, p, 0, 0]}

    def forward():
        return tf.raw_ops.MaxPool(input=x, **window)

    y = forward()
    gradient = None if case.operation == "max" else (
        lambda: tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=grad, **window)
    )  # fmt: skip
    return Calls(forward, gradient, to_first)


@peer("litert", "LiteRT XNNPACK", "tensorflow")
def litert(case: Case) -> Calls:
    same = case.stride == (1, 1) and case.kernel == (2 * case.padding + 1,) * 2
    if case.layout != "nhwc":
        raise Unsupported("channels last only")
    if case.operation not in ("max", "avg"):
        raise Unsupported("no indices")
    if case.padding and not (same and case.operation == "max"):
        raise Unsupported("no such padding")
    import tensorflow as tf

    x = to_last(case.arrays()[0])
    pool = tf.nn.avg_pool2d if case.operation == "avg" else tf.nn.max_pool2d
    graph = tf.function(
        lambda v: pool(v, case.kernel, case.stride, "SAME" if same else "VALID"),
        input_signature=[tf.TensorSpec(x.shape, tf.float32)],
    )
    model = tf.lite.TFLiteConverter.from_concrete_functions([graph.get_concrete_function()]).convert()
    interpreter = tf.lite.Interpreter(model_content=model, num_threads=case.threads)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    output = interpreter.get_output_details()[0]["index"]
    return Calls(interpreter.invoke, values=lambda _: to_first(interpreter.get_tensor(output)))


# ---- onnxruntime, OpenVINO
def _onnx_model(case: Case) -> bytes:
    """A graph of one pooling node."""
    from onnx import TensorProto, helper

    if case.operation == "global_avg":
        node = helper.make_node("GlobalAveragePool", ["x"], ["y"])
    else:
        options = {"kernel_shape": case.kernel, "strides": case.stride, "pads": [case.padding] * 4}
        if case.operation == "avg":
            node = helper.make_node("AveragePool", ["x"], ["y"], count_include_pad=1, **options)
        else:
            outputs = ["y", "i"] if case.operation == "argmax" else ["y"]
            node = helper.make_node("MaxPool", ["x"], outputs, **options)
    kinds = {"y": TensorProto.FLOAT, "i": TensorProto.INT64}
    graph = helper.make_graph(
        [node],
        "pool",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, case.shape)],
        [helper.make_tensor_value_info(name, kinds[name], None) for name in node.output],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9).SerializeToString()


@peer("onnxruntime", "ONNX Runtime", "onnxruntime")
def onnxruntime(case: Case) -> Calls:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = case.threads
    session = ort.InferenceSession(_onnx_model(case), options, providers=["CPUExecutionProvider"])
    feed = {"x": np.ascontiguousarray(case.arrays()[0])}
    return Calls(lambda: session.run(None, feed), values=lambda result: result[0])


@peer("openvino", "OpenVINO", "openvino")
def openvino(case: Case) -> Calls:
    if case.operation == "argmax":
        raise Unsupported("no training")
    import openvino as ov

    core = ov.Core()
    hints = {
        "INFERENCE_NUM_THREADS": case.threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(core.read_model(_onnx_model(case)), "CPU", hints).create_infer_request()
    x = np.ascontiguousarray(case.arrays()[0])
    request.set_input_tensor(ov.Tensor(x, shared_memory=True))
    # The tensor shares x's memory but does not keep it alive.
    return Calls(lambda keep=(core, x): request.infer(), values=lambda _: request.get_output_tensor(0).data)


# ---- what a user of Numba writes in an evening
@peer("njit", "ten lines of @njit", "numba")
def ten_lines(case: Case) -> Calls:
    """Plain loops over planes in `prange`, without a check: no NaN, no index is looked at."""
    import numba

    if case.layout != "nchw":
        raise Unsupported("ten lines know one memory order")
    numba.set_num_threads(case.threads)
    (kh, kw), (sh, sw), pad = case.kernel, case.stride, case.padding
    summed = case.operation in ("avg", "global_avg")
    if case.operation == "global_avg":
        kh, kw = case.shape[2:]

    @numba.njit(parallel=True)
    def largest(x, y, index):
        for q in numba.prange(x.shape[0]):
            for i in range(y.shape[1]):
                for j in range(y.shape[2]):
                    top, left = max(i * sh - pad, 0), max(j * sw - pad, 0)
                    best, at = x[q, top, left], top * x.shape[2] + left
                    for h in range(top, min(i * sh - pad + kh, x.shape[1])):
                        for w in range(left, min(j * sw - pad + kw, x.shape[2])):
                            if x[q, h, w] > best:
                                best, at = x[q, h, w], h * x.shape[2] + w
                    y[q, i, j], index[q, i, j] = best, at

    @numba.njit(parallel=True)
    def mean(x, y):
        for q in numba.prange(x.shape[0]):
            for i in range(y.shape[1]):
                for j in range(y.shape[2]):
                    total = np.float32(0)
                    for h in range(max(i * sh - pad, 0), min(i * sh - pad + kh, x.shape[1])):
                        for w in range(max(j * sw - pad, 0), min(j * sw - pad + kw, x.shape[2])):
                            total += x[q, h, w]
                    y[q, i, j] = total / np.float32(kh * kw)

    @numba.njit(parallel=True)
    def scatter(grad, index, gx):
        for q in numba.prange(gx.shape[0]):
            gx[q, :] = 0
            for i in range(index.shape[1]):
                gx[q, index[q, i]] += grad[q, i]

    @numba.njit(parallel=True)
    def spread(grad, gx):
        for q in numba.prange(gx.shape[0]):
            gx[q] = 0
            for i in range(grad.shape[1]):
                for j in range(grad.shape[2]):
                    for h in range(max(i * sh - pad, 0), min(i * sh - pad + kh, gx.shape[1])):
                        for w in range(max(j * sw - pad, 0), min(j * sw - pad + kw, gx.shape[2])):
                            gx[q, h, w] += grad[q, i, j] / np.float32(kh * kw)

    x, grad = case.arrays()
    planes, (oh, ow) = case.shape[0] * case.shape[1], case.output_shape[2:]
    x, grad = x.reshape(planes, *case.shape[2:]), grad.reshape(planes, oh, ow)

    def forward():
        y = np.empty(grad.shape, np.float32)
        if summed:
            mean(x, y)
            return y.reshape(case.output_shape)
        index = np.empty(grad.shape, np.int32)
        largest(x, y, index)
        return y.reshape(case.output_shape), index

    if case.operation == "max":
        return Calls(forward, values=first_of)
    index = None if summed else forward()[1].reshape(planes, -1)

    def backward():
        gx = np.empty(x.shape, np.float32)
        if summed:
            spread(grad, gx)
        else:
            scatter(grad.reshape(planes, -1), index, gx.reshape(planes, -1))
        return gx.reshape(case.shape)

    return Calls(forward, backward, first_of)


# ---- plain NumPy
def _scatter(case: Case, indices: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """The gradient of max pooling from flat indices, the way it is written in NumPy."""
    result = np.zeros((case.shape[0] * case.shape[1], case.shape[2] * case.shape[3]), grad.dtype)
    planes = np.arange(len(result))[:, None]
    np.add.at(result, (planes, indices.reshape(len(result), -1)), grad.reshape(len(result), -1))
    return result.reshape(case.shape)


def _padded(case: Case, x: np.ndarray, value: float) -> np.ndarray:
    p = case.padding
    return np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)), constant_values=value) if p else x


@peer("numpy_reshape", "NumPy reshape", "numpy")
def numpy_reshape(case: Case) -> Calls:
    """Windows that do not overlap, as two more axes."""
    x, grad = case.arrays()
    if case.operation == "global_avg":
        spread = 1 / np.float32(x.shape[2] * x.shape[3])
        return Calls(lambda: x.mean((2, 3), keepdims=True), lambda: np.broadcast_to(grad * spread, x.shape).copy())
    (kh, kw), (oh, ow) = case.kernel, case.output_shape[2:]
    if case.kernel != case.stride or case.padding:
        raise Unsupported("windows that overlap or are padded")

    def windows():
        return x[:, :, : oh * kh, : ow * kw].reshape(*x.shape[:2], oh, kh, ow, kw)

    if case.operation == "max":
        return Calls(lambda: windows().max((3, 5)))
    if case.operation == "avg":

        def spread_out():
            result = np.zeros_like(x)
            result[:, :, : oh * kh, : ow * kw] = (grad / (kh * kw)).repeat(kh, 2).repeat(kw, 3)
            return result

        return Calls(lambda: windows().mean((3, 5)), spread_out)
    rows, columns = np.arange(oh)[:, None] * kh, np.arange(ow) * kw

    def forward():
        flat = windows().transpose(0, 1, 2, 4, 3, 5).reshape(*x.shape[:2], oh, ow, kh * kw)
        best = flat.argmax(-1)
        indices = (rows + best // kw) * x.shape[3] + columns + best % kw
        return np.take_along_axis(flat, best[..., None], -1)[..., 0], indices

    _, indices = forward()
    return Calls(forward, lambda: _scatter(case, indices, grad), first_of)


@peer("numpy_shifted", "NumPy shifted slices", "numpy")
def numpy_shifted(case: Case) -> Calls:
    """One strided slice of the whole input for each position in the window."""
    if case.operation == "global_avg":
        raise Unsupported("as many slices as pixels")
    x, grad = case.arrays()
    (kh, kw), (sh, sw), (oh, ow), p = case.kernel, case.stride, case.output_shape[2:], case.padding
    taps = [(i, j) for i in range(kh) for j in range(kw)]

    def at(a, i, j):
        return a[:, :, i : i + sh * (oh - 1) + 1 : sh, j : j + sw * (ow - 1) + 1 : sw]

    if case.operation == "max":

        def maximum():
            a = _padded(case, x, -np.inf)
            y = at(a, 0, 0).copy()
            for i, j in taps[1:]:
                np.maximum(y, at(a, i, j), out=y)
            return y

        return Calls(maximum)
    if case.operation == "avg":

        def average():
            a = _padded(case, x, 0)
            y = at(a, 0, 0).copy()
            for i, j in taps[1:]:
                y += at(a, i, j)
            y /= kh * kw
            return y

        def spread_out():
            result = np.zeros_like(_padded(case, x, 0))
            share = grad / (kh * kw)
            for i, j in taps:
                at(result, i, j)[...] += share
            return result[:, :, p : p + x.shape[2], p : p + x.shape[3]]

        return Calls(average, spread_out)
    origin = (np.arange(oh)[:, None] * sh - p) * x.shape[3] + np.arange(ow) * sw - p

    def forward():
        a = _padded(case, x, -np.inf)
        y = at(a, 0, 0).copy()
        indices = np.broadcast_to(origin, y.shape).copy()
        for i, j in taps[1:]:
            v = at(a, i, j)
            better = v > y
            np.copyto(y, v, where=better)
            np.copyto(indices, origin + (i * x.shape[3] + j), where=better)
        return y, indices

    _, indices = forward()
    return Calls(forward, lambda: _scatter(case, indices, grad), first_of)


@peer("numpy_windows", "NumPy sliding windows", "numpy")
def numpy_windows(case: Case) -> Calls:
    """sliding_window_view, reduced over the window's axes."""
    if case.operation == "global_avg":
        raise Unsupported("one window alone: see the mean over axes")
    x, grad = case.arrays()
    (kh, kw), (sh, sw), (oh, ow), p = case.kernel, case.stride, case.output_shape[2:], case.padding
    fill = 0 if case.operation == "avg" else -np.inf

    def windows():
        return np.lib.stride_tricks.sliding_window_view(_padded(case, x, fill), (kh, kw), (2, 3))[:, :, ::sh, ::sw]

    if case.operation == "max":
        return Calls(lambda: windows().max((4, 5)))
    if case.operation == "avg":
        return Calls(lambda: windows().mean((4, 5)))
    if np.prod(case.output_shape) * kh * kw > 2**28:
        raise Unsupported("argmax copies every window: more than 1 GiB")
    origin = (np.arange(oh)[:, None] * sh - p) * x.shape[3] + np.arange(ow) * sw - p

    def forward():
        flat = windows().reshape(*case.output_shape, kh * kw)
        best = flat.argmax(-1)
        return np.take_along_axis(flat, best[..., None], -1)[..., 0], origin + best // kw * x.shape[3] + best % kw

    _, indices = forward()
    return Calls(forward, lambda: _scatter(case, indices, grad), first_of)
