"""What no run here tries: workflows on GitHub, the recipe for conda, the emulated run. They name what is there."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECIPE = ROOT / "docs" / "packaging" / "recipe.yaml"
OLDEST = {requirement.name: requirement.specifier for requirement in map(Requirement, PROJECT["dependencies"])}
CLASSIFIER = "Programming Language :: Python :: 3."
in_a_clone = pytest.mark.skipif(not WORKFLOWS.is_dir(), reason="a source distribution has no workflows")


def jobs(workflow):
    return yaml.safe_load((WORKFLOWS / f"{workflow}.yml").read_text(encoding="utf-8"))["jobs"]


def commands(job):
    return [step["run"] for step in job["steps"] if "run" in step]


def pythons():
    """Of all jobs that test: whether one is a trial, by its version."""
    cases = [case for job in ("core", "all") for case in jobs("tests")[job]["strategy"]["matrix"]["include"]]
    return {(case["python"], case.get("trial", False)) for case in cases}


@in_a_clone
def test_each_promised_python_is_tested():
    promised = {name.removeprefix(CLASSIFIER[:-2]) for name in PROJECT["classifiers"] if name.startswith(CLASSIFIER)}
    assert promised == {version for version, trial in pythons() if not trial}


@in_a_clone
def test_no_python_is_tested_that_cannot_install():
    assert all(version.rstrip("t") in SpecifierSet(PROJECT["requires-python"]) for version, _ in pythons())


@in_a_clone
def test_the_oldest_versions_that_are_allowed_are_tested():
    job = jobs("tests")["oldest"]
    pinned = dict(re.findall(r"'(\w+)==([\d.]+)\.\*'", " ".join(commands(job))))
    assert {name: f">={version}" for name, version in pinned.items()} == {n: str(s) for n, s in OLDEST.items()}
    python = next(step["with"]["python-version"] for step in job["steps"] if "python-version" in step.get("with", {}))
    assert f">={python}" == PROJECT["requires-python"]


@in_a_clone
@pytest.mark.parametrize("workflow", ["tests", "docs"])
def test_workflows_install_extras_that_are_there(workflow):
    told = [extra for job in jobs(workflow).values() for line in commands(job)
            for group in re.findall(r"-e '\.\[([\w,]+)\]'", line) for extra in group.split(",")]
    assert told
    assert set(told) <= set(PROJECT["optional-dependencies"])


@in_a_clone
def test_workflows_run_what_contributing_names():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    run = {line for workflow in ("tests", "docs") for job in jobs(workflow).values() for line in commands(job)}
    own = [line for line in run if not line.startswith("pip install ")]
    assert own
    assert all(f"`{line}`" in text for line in own), own


def test_the_recipe_for_conda_needs_what_the_package_needs():
    needs = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))["requirements"]["run"]
    assert needs == ["python >=${{ python_min }}", *(f"{name} {specifier}" for name, specifier in OLDEST.items())]


def test_the_emulated_run_names_tests_that_are_there():
    script = (ROOT / "tests" / "arm" / "run.sh").read_text(encoding="utf-8")
    names = re.search(r"for name in (.*?); do", script, re.S)[1].replace("\\\n", " ").split()
    assert names
    assert all((ROOT / "tests" / f"test_{name}.py").is_file() for name in names), names
