"""How each library is asked for the same pooling operation: one function per peer, from a Case to calls.

A peer holds its own copy of the same input, in the memory order of the case where it knows one, and each call is the
public one with a fresh output. LiteRT alone writes into buffers that it keeps. Libraries are imported inside the
functions: every peer runs in a process of its own (compare_peers.py), and most machines have few of them.
"""

from functools import partial

import numpy as np
from peer_case import PEERS, Calls, Case, Unsupported, first_of, peer, to_first, to_last

__all__ = ["PEERS", "Case", "Unsupported"]


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


# ---- without a library: behind all others in every table
import peers_plain  # noqa: E402, F401  # it enters its functions into PEERS
