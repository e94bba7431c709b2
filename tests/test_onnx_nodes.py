"""ONNX's own node tests for its pooling operators, written in our calls; they ship in the onnx wheel.

onnx.reference is known to be wrong for averages that hang over by two or more in ceil mode, for Lp in ceil mode and for
maxima with SAME_LOWER. No stored output shows any of it: all of them are compared as they are.
"""

import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import numba_pool

onnx = pytest.importorskip("onnx", reason="ONNX's node tests come with onnx: pip install -e .[conformance]")

OPERATORS = ("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "MaxUnpool")
# Input and output were rounded to four decimals, each on its own.
DECIMALS = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 1e-4}
GLOBAL = {"GlobalAveragePool": numba_pool.global_avg_pool, "GlobalMaxPool": numba_pool.global_max_pool}
AUTO_PAD = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}


@cache
def node_tests():
    """(name, node, inputs, outputs) of every node test of an operator above, generated ones and stored ones.

    Not before a test asks for them: onnx computes the outputs of all its operators, for seconds.
    """
    return sorted(found(), key=lambda test: test[0])


def found():
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tests of other operators
        for test in load_model_tests(kind="node"):
            if test.model.graph.node[0].op_type in OPERATORS and len(test.model.graph.node) == 1:
                inputs, outputs = test.data_sets[0]
                yield test.name, test.model.graph.node[0], inputs, outputs
    for kind in ("pytorch-converted", "pytorch-operator"):
        for test in load_model_tests(kind=kind):
            model = onnx.load(Path(test.model_dir) / "model.onnx")
            if model.graph.node[0].op_type in OPERATORS and len(model.graph.node) == 1:
                data = Path(test.model_dir) / "test_data_set_0"
                tensors = [
                    [onnx.numpy_helper.to_array(onnx.load_tensor(file)) for file in sorted(data.glob(f"{which}_*.pb"))]
                    for which in ("input", "output")
                ]
                yield Path(test.model_dir).name, model.graph.node[0], *tensors


def attributes(node):
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}


def windows(attributes, rank):
    """ONNX's attributes as our arguments: strides default to 1, pads may differ before and after."""
    auto_pad = attributes.get("auto_pad", "NOTSET")
    pads = attributes.get("pads", [0] * 2 * rank)
    return {
        "kernel_size": tuple(attributes["kernel_shape"]),
        "stride": tuple(attributes.get("strides", [1] * rank)),
        "padding": AUTO_PAD[auto_pad] if auto_pad != "NOTSET" else tuple(zip(pads[:rank], pads[rank:], strict=True)),
        "dilation": tuple(attributes.get("dilations", [1] * rank)),
        "ceil_mode": auto_pad == "NOTSET" and bool(attributes.get("ceil_mode", 0)),
    }


def flat_in_tensor(indices, shape, storage_order):
    """Our indices, row-major within a plane, as ONNX's: over the whole tensor, if asked column-major within a plane."""
    lead, spatial = shape[:2], shape[2:]
    within = indices.astype(np.int64)
    if storage_order:
        within = np.ravel_multi_index(np.unravel_index(within, spatial), spatial, order="F")
    plane = np.arange(np.prod(lead)).reshape(*lead, *(1,) * len(spatial))
    return within + plane * np.prod(spatial)


def max_unpool(x, indices, attributes, output_shape=None):
    """ONNX's indices count in the default output; a larger `output_shape` extends that with zeros at the end."""
    rank = x.ndim - 2
    pads = attributes.get("pads", [0] * 2 * rank)
    assert pads[:rank] == pads[rank:], "unpooling takes symmetric padding only"
    stride = attributes.get("strides", [1] * rank)
    args = {"kernel_size": tuple(attributes["kernel_shape"]), "stride": tuple(stride), "padding": tuple(pads[:rank])}
    size = [
        (n - 1) * s + k - 2 * p
        for n, s, k, p in zip(x.shape[2:], args["stride"], args["kernel_size"], args["padding"], strict=True)
    ]
    within = indices % np.prod(size)
    if output_shape is not None:
        within = np.ravel_multi_index(np.unravel_index(within, size), output_shape[2:])
        args["output_size"] = tuple(int(n) for n in output_shape)
    return getattr(numba_pool, f"max_unpool{rank}d")(x, within, **args)


def run(node, inputs, n_outputs):
    x, given = inputs[0], attributes(node)
    rank = x.ndim - 2
    if node.op_type == "MaxPool":
        pool = getattr(numba_pool, f"max_pool{rank}d")
        if n_outputs == 1:
            return [pool(x, **windows(given, rank))]
        y, indices = pool(x, **windows(given, rank), return_indices=True)
        return [y, flat_in_tensor(indices, x.shape, given.get("storage_order", 0))]
    if node.op_type == "AveragePool":
        include_pad = bool(given.get("count_include_pad", 0))
        return [getattr(numba_pool, f"avg_pool{rank}d")(x, **windows(given, rank), count_include_pad=include_pad)]
    if node.op_type == "LpPool":
        return [getattr(numba_pool, f"lp_pool{rank}d")(x, given.get("p", 2), **windows(given, rank))]
    if node.op_type == "MaxUnpool":
        return [max_unpool(*inputs[:2], given, *inputs[2:])]
    return [GLOBAL[node.op_type](x)]


def test_all_there():
    """The wheel has lost nothing that is to be compared here."""
    assert {node.op_type for _, node, _, _ in node_tests()} == set(OPERATORS)
    assert len(node_tests()) >= 66


@pytest.mark.parametrize("operator", OPERATORS)
def test_nodes(operator):
    for name, node, inputs, outputs in node_tests():
        if node.op_type != operator:
            continue
        results = run(node, inputs, len(outputs))
        assert len(results) == len(outputs), name
        for result, stored in zip(results, outputs, strict=True):
            assert result.dtype == stored.dtype, name
            exact = operator in ("MaxPool", "GlobalMaxPool", "MaxUnpool")
            rtol, atol = (0, 0) if exact else (2e-6, DECIMALS.get(name, 1e-7))
            np.testing.assert_allclose(result, stored, rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize("shape", [(2, 3, 11), (2, 3, 9, 10), (1, 2, 6, 7, 8)])
@pytest.mark.parametrize(("dilation", "wide"), [(1, 0), (2, 0), (1, 6)])
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "AveragePool with padding", "LpPool"])
def test_asymmetric_padding(operator, dilation, wide, shape):
    """What no node test has: pads that differ before and after, and are wider than windows, against ONNX's evaluator.
    It makes NaN of an average over padding alone, and its own indices of maxima there.

    Without ceil mode: there the evaluator is wrong where windows hang over by two or more, and for Lp altogether.
    """
    from onnx.reference import ReferenceEvaluator

    rank = len(shape) - 2
    given = {
        "kernel_shape": [3, 2, 3][:rank],
        "strides": [2, 1, 3][:rank],
        "pads": [2 + wide, 0, 1][:rank] + [wide, 1, 2 + wide][:rank],
        "dilations": [dilation] * rank,
    }
    if operator == "AveragePool with padding":
        given["count_include_pad"] = 1
    names = ["y", "indices"] if operator == "MaxPool" else ["y"]
    node = onnx.helper.make_node(operator.split()[0], ["x"], names, **given)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    graph = onnx.helper.make_graph(
        [node], "pool",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names],
    )  # fmt: skip
    expected = ReferenceEvaluator(onnx.helper.make_model(graph)).run(None, {"x": x})
    for result, value in zip(run(node, [x], len(names)), expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=2e-6, atol=1e-6)
