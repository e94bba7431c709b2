"""docs/torch.md and the docstrings of numba_pool.torch: the code runs, and says what it gives."""

import doctest
from pathlib import Path

import pytest
from checks import check_documented
from test_readme import BLOCK

torch = pytest.importorskip("torch", reason="the binding is PyTorch's: pip install numba_pool[torch]")

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
