"""Docstrings are put together from tables, so that what many functions and layers have in common is written once."""

import ast
import importlib
import inspect
import pydoc
import re
from collections import Counter
from pathlib import Path

import pytest

import numba_pool as nb
from numba_pool import functional, layers
from numba_pool._docstrings import ARGUMENTS, documented, entries, sections

PACKAGE = Path(nb.__file__).parent
FUNCTIONS = [name for name in functional.__all__ if name != "output_shape"]
LAYERS = [name for name in layers.__all__ if name != "Layer"]


def written():
    """Every paragraph of an argument that stands in the source of functions and layers, with its type."""
    for path in sorted([*PACKAGE.glob("functional/*.py"), *PACKAGE.glob("layers/*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (text := ast.get_docstring(node)):
                yield from (entry for entry in entries(sections(text).get("Parameters", "")).values()
                            if " : " in entry and " : ..." not in entry)


def test_no_paragraph_is_written_twice():
    common = [f"{name} : {text}" for name, text in ARGUMENTS.items()]
    found = [*common, *written()]
    assert len(found) > len(common)
    assert {entry: n for entry, n in Counter(found).items() if n > 1} == {}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_they_take_return_and_raise(name):
    found = sections(getattr(nb, name).__doc__)
    assert list(found)[:4] == ["", "Parameters", "Returns", "Raises"]
    assert found["Raises"].startswith("ValueError, TypeError\n    For arguments out of range")
    assert all(found.values())


@pytest.mark.parametrize("name", [*FUNCTIONS, "coarsen", "pyramid", "pyramid_regions", "pyramid_block"])
def test_signatures_name_their_types(name):
    """In help() these would be long unions of what NumPy takes for an array."""
    assert "Union" not in str(inspect.signature(getattr(nb, name)))


def shown(function):
    """What help() prints of it, up to the docstring."""
    return pydoc.plain(pydoc.render_doc(function)).partition("\n    ")[0]


@pytest.mark.parametrize("module", ["numba_pool", "functional", "reducers", "dask", "xarray", "torch", "jax",
                                    "autograd"])
def test_help_prints_no_unions(module):
    """Nor what NumPy calls them, where a docstring has it in words."""
    try:
        own = nb if module == "numba_pool" else importlib.import_module(f"numba_pool.{module}")
    except ImportError as error:
        pytest.skip(str(error))
    functions = [value for name in getattr(own, "__all__", dir(own)) if name[0] != "_"
                 and inspect.isfunction(value := getattr(own, name)) and value.__module__.startswith("numba_pool")]
    assert functions
    for function in functions:
        assert not re.search(r"Union\[|_SupportsArray|_NestedSequence", shown(function)), function
        if function.__name__.startswith(("coarsen", "pyramid")) and module != "xarray":
            assert "'" not in re.sub(r"='\w+'", "", shown(function)), function


def test_help_of_coarsen_begins_with_its_call():
    assert "coarsen(x, windows, reduction='mean', *, boundary='exact', side='left'," in shown(nb.coarsen)
    assert shown(nb.coarsen).endswith("ignore=None, out=None)")


@pytest.mark.parametrize("name", LAYERS)
def test_layers_have_the_paragraphs_of_their_functions(name):
    layer = getattr(nb, name)
    function = getattr(nb, layer._function)
    told = entries(sections(function.__doc__)["Parameters"])
    shown = entries(sections(layer.__doc__)["Parameters"])
    assert shown == {argument: told[argument] for argument in inspect.signature(layer).parameters}
    assert layer.__doc__.startswith(function.__doc__.partition("\n")[0])


def test_what_a_docstring_leaves_out_comes_from_the_tables():
    @documented(2, verb="Pool")
    def pool(x, kernel_size, stride=None, padding=0, ceil_mode=False, odd=1, *, channel_axis=None):
        """{verb} nothing, {d}, as `{pool}`.

        Parameters
        ----------
        kernel_size, stride
            As elsewhere.
        padding : ...
            One thing more.
        ceil_mode : str
            Another thing.
        odd : int
            Its own.

        Raises
        ------
        OSError
            At times.
        """

    found = sections(pool.__doc__)
    assert list(found) == ["", "Parameters", "Returns", "Raises"]
    assert found[""] == "Pool nothing, 2d, as `pool2d`."
    assert pool.__name__ == "pool2d"
    assert entries(found["Parameters"]) == {
        "x": f"x : {ARGUMENTS['x']}".replace("{shape}", "(N, C, H, W) or (C, H, W)"),
        "kernel_size, stride": "kernel_size, stride\n    As elsewhere.",
        "padding": f"padding : {ARGUMENTS['padding']}\n    One thing more.",
        "ceil_mode": "ceil_mode : str\n    Another thing.",
        "odd": "odd : int\n    Its own.",
        "channel_axis": f"channel_axis : {ARGUMENTS['channel_axis']}",
    }
    assert found["Returns"] == "array of x's dtype"
    assert found["Raises"].endswith("before anything is written.\nOSError\n    At times.")


def test_an_argument_without_a_paragraph_is_refused():
    def pool(x, unheard_of=None):
        """Pool nothing."""

    with pytest.raises(KeyError, match="unheard_of"):
        documented()(pool)
