"""The code in README, documentation and docstrings runs and gives what it says; links lead to files that are there."""

import doctest
import importlib.util
import io
import re
import tokenize
import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

import numba_pool

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
COMMANDS = re.compile(r"^```bash\n(.*?)^```", re.M | re.S)
BINDINGS = ("torch.md", "jax.md", "autograd.md", "njit.md")  # tested with what they are about
PAGES = [README, *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in BINDINGS)]
TEXTS = [*sorted((ROOT / "docs").glob("*.md")), README, ROOT / "CONTRIBUTING.md"]
OPTIONAL = ("torch", "dask", "xarray", "zarr")  # blocks that import one are left out where it is missing
TO_COME = set()  # links to pages that may be missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks(page, tmp_path, monkeypatch):
    """One after the other, as a reader would paste them: later blocks may use the names of earlier ones."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    if page == README:
        assert blocks
    for module in OPTIONAL:
        if importlib.util.find_spec(module) is None:
            blocks = [block for block in blocks if f"import {module}" not in block]
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for number, block in enumerate(blocks):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, f"{page.name} block {number}", str(page), 0)
            runner = doctest.DocTestRunner()
            runner.run(test, clear_globs=False)
            names.update(test.globs)
            assert not runner.failures
        else:
            exec(compile(block, f"{page.name} block {number}", "exec"), names)


def test_what_is_to_be_installed_is_there():
    """No index has numba_pool: whatever is told to install it names the clone."""
    files = [*TEXTS, *(path for folder in ("examples", "numba_pool", "tests", "asv_benchmarks")
                       for path in (ROOT / folder).rglob("*.py"))]
    named = re.compile(r"pip install [^\n]*\bnumba_pool\[")
    told = [path.name for path in files if named.search(path.read_text(encoding="utf-8"))]
    assert not told


def comments_behind(language, code):
    """Lines of code with a comment behind the code."""
    if language == "bash":
        return [line for line in code.splitlines() if " # " in line and not line.startswith("#")]
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return [token.line for token in tokens
            if token.type == tokenize.COMMENT and not token.line.lstrip().startswith("#")]


@pytest.mark.parametrize("page", [*TEXTS, ROOT / "asv_benchmarks" / "README.md"], ids=str)
def test_code_fits_the_site(page):
    """What is wider than the site's column, on a screen of 1280 pixels, is cut; comments are not seen there at all."""
    text = page.read_text(encoding="utf-8")
    for language, code in re.findall(r"^```(python|bash|text)\n(.*?)^```", text, re.M | re.S):
        assert max(map(len, code.splitlines())) <= 88, code
        assert language == "text" or not comments_behind(language, code), code


def test_the_first_commands_train_and_the_second_test():
    """Both as they stand: an environment, an installation, one command."""
    first, second, *_ = COMMANDS.findall(README.read_text(encoding="utf-8"))
    for block, last in ((first, "python examples/train_mnist.py"), (second, "python -m pytest ")):
        lines = block.splitlines()
        assert lines[0].startswith("python3 -m venv ")
        assert any(line.startswith("pip install ") for line in lines)
        assert lines[-1].startswith(last)


def test_readme_is_a_screen_and_a_half():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


def test_what_an_index_shows_needs_no_repository():
    """The long description: no link or picture in it is relative, and its code runs."""
    readme = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["readme"]
    text = (ROOT / readme).read_text(encoding="utf-8") if isinstance(readme, str) else readme["text"]
    assert not re.search(r"\]\((?!https://)", text)
    blocks = BLOCK.findall(text)
    assert blocks
    for block in blocks:
        exec(block, {})


def anchors(text):
    """Of the headings, as forges make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_links(page):
    text = page.read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)]*))?\)", re.sub(r"`[^`]*`", "", text)):
        target = (page.parent / path).resolve() if path else page
        name = target.relative_to(ROOT).as_posix()
        if name in TO_COME:
            continue
        assert target.exists(), f"{page.name} links to {path}"
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{page.name} links to {path}#{anchor}"


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_a_page_has_one_name(page):
    """Its title, which the site's navigation shows, is what links to the page are called."""
    for text, path in re.findall(r"\[([^\]]*)\]\((?![a-z]+:)([^)#]*\.md)\)", page.read_text(encoding="utf-8")):
        title = re.match(r"# (.*)", (page.parent / path).read_text(encoding="utf-8"))
        assert text == title[1], f"{page.name} calls {path} so"


def test_one_version():
    """Of the package and the citation: the newest release in the changelog, or what comes after it."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    number, day = re.search(r"^## (\d\S*) - (\S+)$", changelog, re.M).groups()
    dated = re.search(r'^date-released: "(.*)"$', citation, re.M)
    assert re.search(r"^version: (.*)$", citation, re.M)[1] == numba_pool.__version__
    if "\n## Unreleased\n" in changelog:
        assert Version(numba_pool.__version__) > Version(number)
        assert dated is None
    else:
        assert (numba_pool.__version__, dated[1]) == (number, day)


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
