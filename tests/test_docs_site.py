"""The site (docs/conf.py): what its build alone would not notice."""

import importlib.util
import inspect
import json
import runpy
import sys
from pathlib import Path

import process
import pytest

import numba_pool

napoleon = pytest.importorskip("sphinx.ext.napoleon")
pytest.importorskip("myst_parser")
CONF = Path(__file__).resolve().parent.parent / "docs" / "conf.py"


@pytest.fixture(scope="module")
def conf():
    return runpy.run_path(str(CONF))


def test_the_site_is_of_this_version(conf):
    assert conf["version"] == conf["release"] == numba_pool.__version__


def shown(bindings, without=False):
    """Of each binding: its page, and what stands there of each name. Without its library, even where that is there."""
    if without:
        importlib.util.find_spec = lambda name, find=importlib.util.find_spec: name not in bindings and find(name)
    conf = runpy.run_path(str(CONF))
    told = {binding: [conf["binding"](binding)] for binding in bindings}
    for binding in bindings:
        module = sys.modules[f"numba_pool.{binding}"]
        for name in conf["public_names"](module):
            thing = getattr(module, name)
            arguments = [] if isinstance(thing, type) else list(inspect.signature(thing).parameters)
            told[binding].append([name, arguments, inspect.getdoc(thing)])
    return told


def print_without(*bindings):
    print(json.dumps(shown(bindings, without=True)))


def test_bindings_have_their_docstrings_also_without_their_libraries(conf):
    bindings = [name for name in conf["BINDINGS"] if importlib.util.find_spec(name)]
    told = shown(bindings)
    for binding, (page, *things) in told.items():
        assert f".. autofunction:: numba_pool.{binding}." in page
        assert all(name in page and text for name, _, text in things)
    assert json.loads(process.run(print_without, *bindings)) == told


def test_several_arguments_in_a_line_stay_names(conf):
    options = {name: value for name, value in conf.items() if name.startswith("napoleon_")}
    text = "Parameters\n----------\nkernel_size, stride\n    As in the forward.\n"
    rendered = str(napoleon.NumpyDocstring(text, napoleon.Config(**options)))
    assert "**kernel_size, stride**" in rendered
