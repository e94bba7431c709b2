"""The site (docs/conf.py): what its build alone would not notice."""

import importlib.util
import runpy
from pathlib import Path

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


def test_a_binding_whose_library_is_missing_has_a_page_that_says_so(conf, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    pages = dict(conf["api_pages"]())
    for module, needed in conf["BINDINGS"].items():
        assert f"needs `{needed}`: that was not installed" in pages[module]


def test_several_arguments_in_a_line_stay_names(conf):
    options = {name: value for name, value in conf.items() if name.startswith("napoleon_")}
    text = "Parameters\n----------\nkernel_size, stride\n    As in the forward.\n"
    rendered = str(napoleon.NumpyDocstring(text, napoleon.Config(**options)))
    assert "**kernel_size, stride**" in rendered
