"""The public names, their signatures, and what importing them does."""

import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from checks import check_documented

import numba_pool as nb

# rank placeholders: {d} stands for 1d, 2d, 3d; {23} for 2d and 3d
SIGNATURES = """
min_pool{d}(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False, *, \
nan_policy='propagate', where=None, channel_axis=None, out=None)
min_pool{d}_backward(grad_output, indices, input_shape, *, nan_policy='propagate', where=None, channel_axis=None, \
out=None)
sum_pool{d}(x, kernel_size, stride=None, padding=0, ceil_mode=False, *, dilation=1, nan_policy='propagate', \
where=None, min_count=None, channel_axis=None, out=None)
sum_pool{d}_backward(grad_output, input_shape, kernel_size, stride=None, padding=0, ceil_mode=False, *, dilation=1, \
nan_policy='propagate', where=None, min_count=None, x=None, channel_axis=None, out=None)
max_pool{d}(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False, *, \
nan_policy='propagate', where=None, channel_axis=None, out=None)
max_pool{d}_backward(grad_output, indices, input_shape, *, nan_policy='propagate', where=None, channel_axis=None, \
out=None)
avg_pool{d}(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, \
*, dilation=1, nan_policy='propagate', where=None, min_count=None, channel_axis=None, out=None)
avg_pool{d}_backward(grad_output, input_shape, kernel_size, stride=None, padding=0, ceil_mode=False, \
count_include_pad=True, divisor_override=None, *, dilation=1, nan_policy='propagate', where=None, min_count=None, \
x=None, channel_axis=None, out=None)
lp_pool{d}(x, norm_type, kernel_size, stride=None, ceil_mode=False, *, padding=0, dilation=1, channel_axis=None, \
out=None)
lp_pool{d}_backward(grad_output, x, y, norm_type, kernel_size, stride=None, ceil_mode=False, *, padding=0, \
dilation=1, channel_axis=None, out=None)
adaptive_max_pool{d}(x, output_size, return_indices=False, *, nan_policy='propagate', where=None, channel_axis=None, \
out=None)
adaptive_max_pool{d}_backward(grad_output, indices, input_shape, *, nan_policy='propagate', where=None, \
channel_axis=None, out=None)
adaptive_avg_pool{d}(x, output_size, *, nan_policy='propagate', where=None, min_count=None, channel_axis=None, \
out=None)
adaptive_avg_pool{d}_backward(grad_output, input_shape, *, nan_policy='propagate', where=None, min_count=None, \
x=None, channel_axis=None, out=None)
fractional_max_pool{23}(x, kernel_size, output_size=None, output_ratio=None, return_indices=False, *, \
random_samples=None, rng=None, channel_axis=None, out=None)
fractional_max_pool{23}_backward(grad_output, indices, input_shape, *, nan_policy='propagate', where=None, \
channel_axis=None, out=None)
max_unpool{d}(x, indices, kernel_size, stride=None, padding=0, output_size=None, *, channel_axis=None, out=None)
max_unpool{d}_backward(grad_output, indices, *, channel_axis=None, out=None)
global_avg_pool(x, *, nan_policy='propagate', where=None, min_count=None, channel_axis=None)
global_sum_pool(x, *, nan_policy='propagate', where=None, min_count=None, channel_axis=None)
global_max_pool(x, return_indices=False, *, nan_policy='propagate', where=None, channel_axis=None)
global_min_pool(x, return_indices=False, *, nan_policy='propagate', where=None, channel_axis=None)
global_avg_pool_backward(grad_output, input_shape, *, nan_policy='propagate', where=None, min_count=None, x=None, \
channel_axis=None)
global_sum_pool_backward(grad_output, input_shape, *, nan_policy='propagate', where=None, min_count=None, x=None, \
channel_axis=None)
global_max_pool_backward(grad_output, indices, input_shape, *, nan_policy='propagate', where=None, channel_axis=None)
global_min_pool_backward(grad_output, indices, input_shape, *, nan_policy='propagate', where=None, channel_axis=None)
segment_max_pool(x, offsets, return_indices=False, *, nan_policy='propagate', where=None, out=None)
segment_min_pool(x, offsets, return_indices=False, *, nan_policy='propagate', where=None, out=None)
segment_avg_pool(x, offsets, *, nan_policy='propagate', where=None, out=None)
segment_sum_pool(x, offsets, *, nan_policy='propagate', where=None, out=None)
segment_max_pool_backward(grad_output, indices, input_shape, *, out=None)
segment_min_pool_backward(grad_output, indices, input_shape, *, out=None)
segment_avg_pool_backward(grad_output, offsets, input_shape, *, nan_policy='propagate', where=None, x=None, out=None)
segment_sum_pool_backward(grad_output, offsets, input_shape, *, nan_policy='propagate', where=None, x=None, out=None)
segment_offsets(*, lengths=None, ids=None, count=None)
"""


def functions():
    for line in SIGNATURES.strip().splitlines():
        for rank in ("1d", "2d", "3d"):
            if "{d}" in line:
                yield line.replace("{d}", rank)
            elif "{23}" in line and rank != "1d":
                yield line.replace("{23}", rank)
        if "{" not in line:
            yield line


FUNCTIONS = {line.split("(")[0]: "(" + line.split("(", 1)[1] for line in functions()}
LAYERS = {
    *(f"{name}{rank}d" for rank in (1, 2, 3) for name in (
        "MaxPool", "MinPool", "AvgPool", "SumPool", "LPPool", "AdaptiveMaxPool", "AdaptiveAvgPool", "MaxUnpool"
    )),
    "FractionalMaxPool2d", "FractionalMaxPool3d", "GlobalAvgPool", "GlobalMaxPool", "GlobalMinPool", "GlobalSumPool",
    "SegmentAvgPool", "SegmentMaxPool", "SegmentMinPool", "SegmentSumPool",
}  # fmt: skip
BLOCKS = {
    "coarsen": "(x, windows, reduction='mean', *, boundary='exact', side='left', nan_policy='propagate', where=None, "
               "missing=None, min_count=None, weights=None, dtype=None, rounding='even', median='midpoint', "
               "ties='first', ignore=None, out=None)",
    "pyramid": "(x, factors=2, levels=None, reduction='mean', *, axes=None, smallest=1, method=None, "
               "boundary='short', side='left', **keywords)",
    "pyramid_regions": "(shape, chunks, factors=2, levels=None, *, axes=None, boundary='short')",
    "pyramid_block": "(block, region, reduction='mean', *, method=None, **keywords)",
}
ABOUT = {"output_shape", "explain"}  # what is asked about functions
RUNTIME = {"warmup", "set_num_threads", "get_num_threads", "threads", "empty_pool", "show_config",
           "plan", "run", "run_backward"}


def test_public_names():
    assert sorted(set(nb.__all__) - {"__version__"}) == sorted(
        {*FUNCTIONS, *BLOCKS, *LAYERS, *RUNTIME, *ABOUT, "reducers"})
    assert len(set(nb.__all__)) == len(nb.__all__)
    for name in nb.__all__:
        assert hasattr(nb, name)
    for name in FUNCTIONS:
        assert getattr(nb.functional, name) is getattr(nb, name)
    for name in LAYERS:
        assert getattr(nb.layers, name) is getattr(nb, name)


def test_dir_has_what_users_write():
    names = {name for name in dir(nb) if not name.startswith("__")}
    submodules = {"autograd", "dask", "functional", "jax", "layers", "torch", "xarray"}
    assert names == {*nb.__all__, *submodules} - {"__version__"}


@pytest.mark.parametrize(("name", "way"), [
    ("accelerate", "it is in numba_pool.torch"), ("report", "it is in numba_pool.torch"),
    ("restore", "it is in numba_pool.torch"), ("max_pool", "write max_pool2d, the rank is part of the name"),
    ("MaxPool", "write MaxPool2d, the rank is part of the name"),
    ("global_avg_pool2d", "write global_avg_pool, global pooling has no rank in its name"),
    ("GlobalAvgPool2d", "write GlobalAvgPool, global pooling has no rank in its name"),
])  # fmt: skip
def test_names_that_are_guessed(name, way):
    assert not hasattr(nb, name)
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': {re.escape(way)}$"):
        getattr(nb, name)


def test_a_submodule_that_was_not_imported(tmp_path):
    code = '''
import json, numba_pool
try:
    numba_pool.autograd
except AttributeError as error:
    print(json.dumps(str(error)))
'''
    assert in_a_fresh_process(code, tmp_path).endswith(": write import numba_pool.autograd")


def test_other_names_are_just_missing():
    with pytest.raises(AttributeError, match=r"has no attribute 'convolve'$"):
        nb.convolve  # noqa: B018


@pytest.mark.parametrize("name", [*FUNCTIONS, *BLOCKS])
def test_signatures(name):
    signature = inspect.signature(getattr(nb, name))
    bare = signature.replace(
        parameters=[p.replace(annotation=p.empty) for p in signature.parameters.values()],
        return_annotation=signature.empty,
    )
    assert str(bare) == (FUNCTIONS | BLOCKS)[name]


@pytest.mark.parametrize("name", nb.reducers.__all__)
def test_reducers(name):
    """One for every reduction and its nan form, with the names and the order of NumPy's reductions."""
    reducer = getattr(nb.reducers, name)
    assert reducer.__name__ == name
    assert f"The reduction {name!r}" in reducer.__doc__
    assert list(inspect.signature(reducer).parameters) == ["a", "axis", "keywords"]


@pytest.mark.parametrize("name", sorted({*FUNCTIONS, *BLOCKS, *LAYERS, *RUNTIME, *ABOUT}))
def test_everything_public_is_documented_and_knows_its_name(name):
    thing = getattr(nb, name)
    assert thing.__name__ == name
    assert thing.__doc__
    assert not re.search(r"\{[a-zA-Z]\w*\}| : \.\.\.", thing.__doc__)  # what a template leaves to be filled in
    assert thing.__module__.startswith("numba_pool")


@pytest.mark.parametrize("name", sorted({*FUNCTIONS, *BLOCKS}))
def test_every_argument_is_documented(name):
    check_documented(getattr(nb, name))


def test_version():
    assert nb.__version__ == metadata.version("numba_pool")


def test_package_that_is_not_installed(tmp_path):
    """A source tree on the path is enough: no metadata are there to be asked."""
    code = """
        import importlib.metadata as metadata
        find = metadata.Distribution.from_name
        def hidden(name):
            if name.replace("-", "_") == "numba_pool":
                raise metadata.PackageNotFoundError(name)
            return find(name)
        metadata.Distribution.from_name = hidden
        import json, numba_pool
        print(json.dumps(numba_pool.__version__))
    """
    assert in_a_fresh_process(textwrap.dedent(code), tmp_path) == nb.__version__


def test_bindings_without_their_library(tmp_path):
    """No index has numba_pool, so that an extra is installed from a clone: `numba_pool[torch]` would find nothing."""
    code = """
        import importlib, json, sys
        told = {}
        for name in ("torch", "jax", "autograd", "dask", "xarray"):
            sys.modules[name] = None
            try:
                importlib.import_module(f"numba_pool.{name}")
            except ImportError as error:
                told[name] = str(error)
        print(json.dumps(told))
    """
    told = in_a_fresh_process(textwrap.dedent(code), tmp_path)
    assert list(told) == ["torch", "jax", "autograd", "dask", "xarray"]
    for name, message in told.items():
        assert message.startswith(f"numba_pool.{name} needs ")
        assert f"; in a clone of numba_pool: pip install '.[{name}]' (" in message


def in_a_fresh_process(code, cache):
    """What the code prints, as JSON; with an empty Numba cache."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_import_compiles_nothing(tmp_path):
    """And the same count is not zero once a function has been called."""
    code = """
import json
import numba.core.event as event
with event.install_recorder("numba:compile") as importing:
    import numba_pool
with event.install_recorder("numba:compile") as calling:
    numba_pool.max_pool1d([[1.0, 2.0]], 2)
print(json.dumps([len(importing.buffer), len(calling.buffer)]))
"""
    importing, calling = in_a_fresh_process(code, tmp_path)
    assert importing == 0
    assert calling > 0


def test_import_does_not_collect_all_garbage(tmp_path):
    """It would take as long as half of the import."""
    code = """
import gc, json, numba
seen = []
gc.callbacks.append(lambda phase, info: seen.append(info["generation"]))
import numba_pool
print(json.dumps([2 in seen, gc.isenabled()]))
"""
    assert in_a_fresh_process(code, tmp_path) == [False, True]


def test_import_needs_numpy_and_numba_only(tmp_path):
    code = """
import sys, json
import numpy, numba
before = set(sys.modules)
import numba_pool
new = {name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
new.discard("__mp_main__")  # another name of __main__, which multiprocessing sets
print(json.dumps(sorted(new - {"numpy", "numba", "llvmlite"})))
"""
    assert in_a_fresh_process(code, tmp_path) == ["numba_pool"]


def test_import_changes_no_setting(tmp_path):
    code = """
import json, os, warnings
import numba, numpy
def state():
    return [{k: str(getattr(numba.config, k)) for k in dir(numba.config) if k.isupper()}, numba.get_num_threads(),
            dict(os.environ), numpy.geterr(), numpy.random.get_state()[1].tolist(), len(warnings.filters)]
before = state()
import numba_pool
print(json.dumps(before == state()))
"""
    assert in_a_fresh_process(code, tmp_path) is True


def test_works_without_ml_dtypes(tmp_path):
    """bfloat16 arrays come from there, and nothing else does."""
    code = """
import json, sys
sys.modules["ml_dtypes"] = None
import numba_pool
print(json.dumps(numba_pool.max_pool1d([[1.0, 3.0]], 2).tolist()))
"""
    assert in_a_fresh_process(code, tmp_path) == [[3.0]]


def test_the_package_is_typed():
    assert Path(nb.__file__).with_name("py.typed").exists()


def test_outputs_have_the_dtype_of_the_input():
    for dtype in (np.float32, np.float64, np.float16, np.int16):
        assert nb.max_pool1d(np.ones((1, 4), dtype), 2).dtype == dtype
        assert nb.avg_pool1d(np.ones((1, 4), dtype), 2).dtype == dtype
    _, indices = nb.max_pool1d(np.ones((1, 4)), 2, return_indices=True)
    assert indices.dtype == np.int32
