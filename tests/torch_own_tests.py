"""PyTorch's own tests of pooling, with numba_pool in the place of its functions and Modules. CPU tests only.

    python tests/torch_own_tests.py ../pytorch/test/nn/test_pooling.py [-v] [-k max_pool ...]

The file comes with PyTorch's sources, of the version that is installed. What follows its path goes to unittest.
"""

import importlib.util
import os
import sys
import unittest
from functools import partial

os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cpu"

import torch.nn.functional as F
from torch import nn

import numba_pool.torch as binding
from numba_pool.torch import _functions, _others, _small

calls: dict[str, int] = {}


def counted(owner, name):
    """Count the calls of a module's function that computes by the core."""
    function = getattr(owner, name)

    def call(pool, *args):
        result = function(pool, *args)
        calls[pool.name] = calls.get(pool.name, 0) + 1
        return result

    setattr(owner, name, call)


def replace():
    """Ours in torch.nn.functional and torch.nn, wherever torch has the name. The binding keeps torch's own."""
    _small.SIZES = dict.fromkeys(_small.SIZES, ((0, 0), (0, 0)))  # else torch would compute most of them
    for owner, name in ((_functions, "at_once"), (_others, "at_once"), (_others, "norm"), (_others, "unpool")):
        counted(owner, name)
    for name in binding.__all__:
        for theirs in (F, nn):
            if hasattr(theirs, name):
                setattr(theirs, name, getattr(binding, name))
        if name.startswith("max_pool"):
            setattr(F, f"{name}_with_indices", partial(getattr(binding, name), return_indices=True))


def load(path):
    """The tests as a module of the name under which they look for themselves."""
    spec = importlib.util.spec_from_file_location("test_pooling", path)
    module = sys.modules["test_pooling"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(path, *arguments):
    replace()
    program = unittest.main(load(path), argv=[path, *arguments], exit=False)
    print("computed by numba_pool:", ", ".join(f"{name} {n}" for name, n in sorted(calls.items())))
    return int(not program.result.wasSuccessful())


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
