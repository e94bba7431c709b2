"""`python -O` and `python -OO`: without asserts, and without docstrings, which some modules edit."""

import importlib.util
import pkgutil
import subprocess
import sys

import pytest
import selection

import numba_pool

MAX = "P.max_pool2d(x, 2)"
BINDINGS = {  # what they pool, and how
    "torch": ("import torch; x = torch.ones(1, 1, 4, 4)", MAX),
    "jax": ("import jax; x = jax.numpy.ones((1, 1, 4, 4))", MAX),
    "autograd": ("import numpy; x = numpy.ones((1, 1, 4, 4))", MAX),
    "dask": ("import dask.array; x = dask.array.ones((1, 1, 4, 4))", MAX),
    "xarray": ("import numpy, xarray; x = xarray.DataArray(numpy.ones((1, 1, 4, 4)), dims=tuple('ncyx'))",
               "P.pool(x, {'y': 2, 'x': 2})"),
}
USE = """
import numpy as np
import numba_pool as nb
x = np.arange(16.0).reshape(1, 1, 4, 4)
y, indices = nb.max_pool2d(x, 2, return_indices=True)
1 // (indices.tolist() == [[[[5, 7], [13, 15]]]])
1 // (nb.MaxPool2d(2)(x).tolist() == y.tolist())
1 // (nb.max_pool2d_backward(y, indices, x.shape).sum() == y.sum())
1 // bool(str(nb.explain(nb.max_pool2d, x, 2)))
"""


def python(option, code):
    done = subprocess.run([sys.executable, option, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("option", ["-O", "-OO"])
def test_every_module_of_the_core_is_imported_and_pools(option):
    modules = [m.name for m in pkgutil.walk_packages(numba_pool.__path__, "numba_pool.")
               if m.name.split(".")[1] not in BINDINGS]
    python(option, f"import {', '.join(modules)}\n{USE}")


@pytest.mark.parametrize("option", ["-O", "-OO"] if selection.exhaustive else ["-OO"])
def test_every_binding_is_imported_and_pools(option):
    """In one process: Numba takes as long to import as any of them. What -O leaves out -OO does, too."""
    code = ""
    for binding in filter(importlib.util.find_spec, BINDINGS):
        ones, pooled = BINDINGS[binding]
        code += f"import numba_pool.{binding} as P\n{ones}\n1 // ({pooled}.shape == (1, 1, 2, 2))\n"
    python(option, code)
