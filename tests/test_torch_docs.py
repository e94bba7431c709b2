"""docs/torch.md and the docstrings of numba_pool.torch: the code runs, and says what it gives."""

import doctest
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from checks import check_documented
from test_readme import BLOCK

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install -e .[torch]")

import numba_pool.torch as binding  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")  # of torch's own `run_decompositions`
PAGE = (Path(__file__).parents[1] / "docs" / "torch.md").read_text(encoding="utf-8")


def test_page(capsys):
    names = {"__name__": "page"}
    for number, block in enumerate(BLOCK.findall(PAGE)):
        exec(compile(block, f"docs/torch.md block {number}", "exec"), names)
    out = capsys.readouterr().out
    report = PAGE.split("The report is this:\n\n```\n")[1].split("```")[0]
    assert out.startswith(report)
    assert "torch.Size([8, 3, 16, 16])" in out


@pytest.mark.parametrize("name", [name for name in binding.__all__ if name.islower()])
def test_every_argument_is_documented(name):
    check_documented(getattr(binding, name))


@pytest.mark.parametrize("name", binding.__all__)
def test_docstring_examples(name):
    tests = doctest.DocTestFinder(recurse=False).find(getattr(binding, name), name, globs={})
    runner = doctest.DocTestRunner()
    for test in tests:
        runner.run(test)
    assert not runner.failures
    assert tests[0].examples or name[0].isupper()


def otherwise(want):
    """What the table of "Save and export" says one sees who did not do it."""
    rows = [[cell.strip() for cell in line.split(" | ")] for line in PAGE.splitlines() if line.startswith("| ")]
    (seen,) = [row[2].rstrip(" |").strip("`") for row in rows if row[0].startswith("| " + want)]
    assert seen
    return re.escape(seen)


def test_a_whole_model_with_weights_only(tmp_path):
    model, file = binding.accelerate(torch.nn.Sequential(torch.nn.MaxPool2d(2))), tmp_path / "model.pt"
    torch.save(model, file)
    with torch.serialization.safe_globals([torch.nn.Sequential, torch.nn.MaxPool2d]):
        with pytest.raises(pickle.UnpicklingError, match=otherwise("the whole model, loaded with")):
            torch.load(file, weights_only=True)
        torch.save(binding.restore(model), file)
        assert type(torch.load(file, weights_only=True)[0]) is torch.nn.MaxPool2d


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_a_model_for_torch_jit_script():
    model = binding.accelerate(torch.nn.Sequential(torch.nn.MaxPool2d(2)))
    with pytest.raises(RuntimeError, match=otherwise("`torch.jit.script`")):
        torch.jit.script(model)
    assert torch.jit.script(binding.restore(model))(torch.ones(1, 1, 4, 4)).shape == (1, 1, 2, 2)


def test_a_program_that_is_loaded_without_the_import(tmp_path):
    x, file = torch.ones(1, 1, 4, 4), tmp_path / "program.pt2"
    torch.export.save(torch.export.export(binding.MaxPool2d(2), (x,)), file)
    for imported in ("", "import numba_pool.torch\n"):
        done = subprocess.run([sys.executable, "-c", f"import torch\n{imported}torch.export.load({str(file)!r})"],
                              capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
        assert (done.returncode == 0) == bool(imported)
        assert bool(re.search(otherwise("`torch.export.load`"), done.stderr)) != bool(imported)
