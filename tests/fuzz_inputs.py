"""Random garbage as the arguments of every public function: a result, or a ValueError, TypeError or MemoryError.

    python tests/fuzz_inputs.py [--examples 20000] [--seed 0]

runs for long; the test suite runs a short version. Arrays stay small, so that what is accepted is also fast; sizes that
no memory holds come in by the arguments.
"""

import argparse
import inspect
import sys
import warnings

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from numba_pool import functional

FUNCTIONS = tuple(getattr(functional, name) for name in functional.__all__ if "pool" in name)
ALLOWED = (ValueError, TypeError, MemoryError)
EDGES = (0, 1, 2, 3, 5, -1, -2, 2**31 - 1, 2**31, -(2**31), 2**32, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, -(10**30))

integers = st.sampled_from(EDGES) | st.integers(-3, 9) | st.integers()
scalars = st.one_of(
    integers,
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=8),
    st.sampled_from(("same", "valid", "same_lower", b"same", 1j, object(), Ellipsis)),
    st.sampled_from((np.int64(2), np.float32(2), np.bool_(True))),
    st.sampled_from((np.array(2), np.array([2, 2]), np.array("x"), np.datetime64("2020-01-01"))),
)
garbage = st.recursive(scalars, lambda inner: st.one_of(
    st.lists(inner, max_size=4),
    st.lists(inner, max_size=4).map(tuple),
    st.dictionaries(st.text(max_size=2), inner, max_size=2),
), max_leaves=8)
small_tuples = st.lists(st.integers(-1, 6), max_size=4).map(tuple)
sizes = st.one_of(integers, small_tuples, st.lists(integers, max_size=4), garbage)
common = st.sampled_from(((1, 2, 6), (1, 2, 6, 6), (2, 1, 4, 4, 4)))
shapes = st.lists(st.integers(0, 7), max_size=6).map(tuple) | common

ARRAYS = "x", "grad_output", "y", "indices", "out", "random_samples", "where", "offsets", "lengths", "ids"
DTYPES = ("f4", "f8", "f2", "i4", "i8", "u1", ">f4", ">i8", "g", "c8", "?", "O", "U3", "M8[s]", "V4", "S2", "f4,i4")
FORMS = ("plain", "zero strides", "overlapping", "transposed", "negative", "read-only", "bfloat16", "unaligned", "list")


@st.composite
def arrays(draw, dtypes=DTYPES):
    """Arrays of any dtype, any number of axes, strange strides."""
    shape = draw(shapes)
    dtype = draw(st.sampled_from(dtypes))
    if dtype == "O":
        return np.full(shape, None, object)
    a = np.zeros(shape, dtype)
    if a.dtype.kind in "fiu":
        a[...] = draw(st.sampled_from((0, 1, 5, 127))) + np.arange(a.size).reshape(shape) % 7
        if a.dtype.kind == "f":
            with np.errstate(all="ignore"):
                a[...] = draw(st.sampled_from((0, 1, np.nan, np.inf, -np.inf, 1e38))) * a
        elif draw(st.booleans()):
            a[...] = draw(st.sampled_from((0, np.iinfo(a.dtype).min, np.iinfo(a.dtype).max)))
    form = draw(st.sampled_from(FORMS))
    if form == "zero strides":
        return np.lib.stride_tricks.as_strided(a, strides=(0,) * a.ndim) if a.size else a
    if form == "overlapping" and a.size and a.dtype.kind in "fiu":
        base = np.zeros(a.size * 2 + 8, a.dtype)
        return np.lib.stride_tricks.as_strided(base, shape, tuple(a.itemsize * draw(st.integers(0, 2)) for _ in shape))
    if form == "transposed":
        return a.T
    if form == "negative":
        return a[tuple(slice(None, None, -1) for _ in shape)]
    if form == "read-only":
        a.flags.writeable = False
    if form == "bfloat16" and a.dtype.kind in "fiu":
        return a.astype(ml_dtypes.bfloat16)
    if form == "unaligned" and a.dtype.kind in "fiu":
        raw = np.zeros(a.nbytes + 1, np.uint8)
        moved = np.ndarray(shape, a.dtype, raw[1:].data)
        moved[...] = a
        return moved
    return a.tolist() if form == "list" else a


def valid(name, x):
    """What makes the rest of the arguments likely to be accepted."""
    return {
        "x": x, "grad_output": x, "y": x, "indices": np.zeros(x.shape, np.int32), "input_shape": x.shape,
        "kernel_size": 1, "output_size": 1, "norm_type": 2, "offsets": [0, len(x)],
    }[name]


@st.composite
def calls(draw):
    """A function and arguments for it: some valid, some not."""
    function = draw(st.sampled_from(FUNCTIONS))
    parameters = inspect.signature(function).parameters
    rank = next((int(name) for name in function.__name__ if name.isdigit()), 2)
    x = np.arange(2.0 * 4**rank, dtype=draw(st.sampled_from(("f4", "f8", "i4")))).reshape(1, 2, *(4,) * rank)
    arguments = {}
    for name, parameter in parameters.items():
        if parameter.default is not inspect.Parameter.empty and draw(st.booleans()):
            continue
        if draw(st.integers(0, 3)) and parameter.default is inspect.Parameter.empty:
            arguments[name] = valid(name, x)
        elif name in ARRAYS:
            arguments[name] = draw(st.one_of(arrays(), arrays(), garbage, st.just(x), st.tuples(arrays(), arrays())))
        else:
            arguments[name] = draw(sizes)
    return function, arguments


def check(call):
    """Make the call; whatever it returns is new memory or `out`, and inputs stay as they are."""
    function, arguments = call
    inputs = [a for name, a in arguments.items() if name != "out" and isinstance(a, np.ndarray)]
    shared = arguments.get("out")
    outs = shared if isinstance(shared, (tuple, list)) else (shared,)
    alone = [a for a in inputs if not any(isinstance(o, np.ndarray) and np.may_share_memory(a, o) for o in outs)]
    before = [a.tobytes() for a in alone]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(**arguments)
    except ALLOWED as error:
        result, message = (), str(error) or type(error).__name__
    else:
        message = "returned"
    assert message not in ("ValueError", "TypeError"), "an error without a message"
    assert "CPUDispatcher" not in message, f"Numba's error, not ours: {message}"
    for a in result if isinstance(result, tuple) else (result,):
        assert isinstance(a, np.ndarray)
        assert a.dtype.kind in "fiu" or a.dtype == ml_dtypes.bfloat16
    assert before == [a.tobytes() for a in alone], "an input was changed"


def limit_memory():
    """So that a request for nearly all memory fails at once, rather than being granted and regretted."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def fuzz(examples, number=0):
    """Check so many random calls."""
    limit_memory()
    budget = settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    seed(number)(budget(given(calls())(check)))()
    print("calls:", examples)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    fuzz(arguments.examples, arguments.seed)
