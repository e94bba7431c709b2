"""What type checkers and `inspect` see: stub files that say what the functions take."""

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import numba_pool as nb

HERE = Path(__file__).resolve().parent / "typing"
PACKAGE = Path(nb.__file__).parent
sys.path.insert(0, str(HERE))

import stubs  # noqa: E402

RIGHT, WRONG = HERE / "right.py", HERE / "wrong.py"


def marked():
    return {number for number, line in enumerate(WRONG.read_text().splitlines(), 1) if line.endswith("# wrong")}


def check(errors):
    """That errors (file, line) stand in every marked line, and nowhere else."""
    errors = {(Path(path).resolve(), line) for path, line in errors}
    assert sorted(error for error in errors if error[0] != WRONG) == []
    found, lines = {line for _, line in errors}, WRONG.read_text().splitlines()
    assert [lines[number - 1] for number in sorted(marked() - found)] == []
    assert [lines[number - 1] for number in sorted(found - marked())] == []


def run(module, *arguments):
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent, timeout=300, check=False)


def test_mypy(tmp_path):
    """Strict, and one run for both files."""
    pytest.importorskip("mypy")
    done = run("mypy", "--strict", "--config-file", "", "--cache-dir", str(tmp_path), str(RIGHT), str(WRONG))
    assert not done.stderr, done.stderr
    check((path, int(line)) for path, line in re.findall(r"^(\S+?):(\d+): error: ", done.stdout, re.MULTILINE))


def test_pyright(tmp_path):
    """By its build that needs no Node.js, with pyright's own settings."""
    pytest.importorskip("basedpyright")
    root = str(PACKAGE.parent)
    settings = {"include": [str(RIGHT), str(WRONG)], "typeCheckingMode": "standard", "extraPaths": [root]}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    done = run("basedpyright", "--pythonpath", sys.executable, "--outputjson", "-p", str(tmp_path / "settings.json"))
    found = json.loads(done.stdout)["generalDiagnostics"]
    check((error["file"], error["range"]["start"]["line"] + 1) for error in found if error["severity"] == "error")


def test_there_are_enough_uses():
    assert len(marked()) >= 30
    assert RIGHT.read_text().count("assert_type(") >= 30


def test_stubs_are_as_they_are_written():
    for path, text in stubs.stubs().items():
        assert path.read_text() == text, f"python {HERE / 'stubs.py'}"


def declared(path):
    """name -> the last definition of every function and class at the top of a stub file."""
    body = ast.parse(path.read_text()).body
    return {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def parameters(function):
    """name -> (kind, has a default) of a definition in a stub file, the most general of several."""
    given, found = function.args, {}
    positional = [*given.posonlyargs, *given.args]
    required = len(positional) - len(given.defaults)
    for i, argument in enumerate(positional):
        found[argument.arg] = inspect.Parameter.POSITIONAL_OR_KEYWORD, i >= required
    if given.vararg:
        found[given.vararg.arg] = inspect.Parameter.VAR_POSITIONAL, False
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        found[argument.arg] = inspect.Parameter.KEYWORD_ONLY, default is not None
    if given.kwarg:
        found[given.kwarg.arg] = inspect.Parameter.VAR_KEYWORD, False
    found.pop("self", None)
    return found


def at_run_time(thing):
    return {p.name: (p.kind, p.default is not p.empty) for p in inspect.signature(thing).parameters.values()}


FUNCTIONS = declared(PACKAGE / "functional/__init__.pyi")
LAYERS = declared(PACKAGE / "layers/__init__.pyi")
OTHERS = declared(PACKAGE / "__init__.pyi")


NOT_FUNCTIONS = {"_RealArray", "_FloatArray", "Plan", "Explanation", "show_config"}


@pytest.mark.parametrize("name", sorted({*FUNCTIONS, *OTHERS} - NOT_FUNCTIONS))
def test_functions_are_declared_as_they_are(name):
    """Of overloads the last one takes what any of them takes."""
    known = at_run_time(getattr(nb, name))
    expected = parameters(FUNCTIONS.get(name) or OTHERS[name])
    assert list(known.items()) == list(expected.items())


@pytest.mark.parametrize("name", sorted(n for n in LAYERS if n[0] != "_" and n != "Layer"))
def test_layers_are_declared_as_they_are(name):
    *_, init = (node for node in LAYERS[name].body if getattr(node, "name", "") == "__init__")
    expected = parameters(init)
    assert list(at_run_time(getattr(nb, name)).items()) == list(expected.items())
    shared = {"channel_axis", "return_indices"}  # declared in base classes
    attributes = {node.target.id for node in LAYERS[name].body if isinstance(node, ast.AnnAssign)}
    assert attributes == {*expected} - shared


def test_everything_public_is_declared():
    text = (PACKAGE / "__init__.pyi").read_text()
    listed = set(re.findall(r'^    "(\w+)"', text, re.MULTILINE))
    assert set(nb.__all__) == listed


def test_functions_have_annotations_at_run_time():
    for name in nb.functional.__all__:
        signature = inspect.signature(getattr(nb, name))
        assert signature.return_annotation is not signature.empty
        for parameter in signature.parameters.values():
            assert parameter.annotation is not parameter.empty, (name, parameter)


def table():
    """The functions of the package's docstring, by the names in its left column."""
    rows = re.findall(r"^``(\S+)``  +(\S.*)$", nb.__doc__, re.MULTILINE)
    for name, line in rows:
        for rank in ("1d", "2d", "3d"):
            if "{d}" in name:
                yield name.replace("{d}", rank), line
            elif "{2,3}" in name and rank != "1d":
                yield name.replace("{2,3}d", rank), line
        if "{" not in name:
            yield name, line


def test_the_table_of_the_package_has_every_function():
    """A line each; gradients are those of the functions in it, as the text says."""
    names = [name for name, _ in table()]
    assert len(set(names)) == len(names)
    lower = {name for name in nb.__all__ if name.islower() and name[0] != "_"}
    backwards = {name for name in nb.functional.__all__ if name.endswith("_backward")}
    assert set(names) == lower - backwards
    assert backwards == {f"{name}_backward" for name in names if "pool" in name and name in lower - {"empty_pool"}}
