"""The code in the README and in the docstrings runs, and says what it gives."""

import doctest
import re
from pathlib import Path

import pytest

import numba_pool

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


def test_readme_blocks(tmp_path, monkeypatch):
    """One after the other, as a reader would paste them: later blocks may use the names of earlier ones."""
    blocks = BLOCK.findall(README.read_text(encoding="utf-8"))
    assert blocks
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    for number, block in enumerate(blocks):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, f"README block {number}", str(README), 0)
            runner = doctest.DocTestRunner()
            runner.run(test, clear_globs=False)
            names.update(test.globs)
            assert not runner.failures
        else:
            exec(compile(block, f"README block {number}", "exec"), names)


@pytest.mark.parametrize("name", numba_pool.__all__)
def test_docstring_examples(name):
    thing = getattr(numba_pool, name)
    if isinstance(thing, str):
        return
    import numpy

    names = {"np": numpy, "numba_pool": numba_pool}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder(recurse=False).find(thing, name, globs=names):
        runner.run(test)
    assert not runner.failures


def test_every_operation_has_an_example():
    """Per family, one rank is enough: the docstrings differ in the rank only."""
    for name in ("max_pool2d", "avg_pool2d", "lp_pool2d", "adaptive_max_pool2d", "adaptive_avg_pool2d",
                 "fractional_max_pool2d", "max_unpool2d", "global_avg_pool", "global_max_pool"):  # fmt: skip
        assert ">>>" in getattr(numba_pool, name).__doc__, name
