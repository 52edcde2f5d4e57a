"""Requirements of the packages, which must equal those of pyproject.toml."""

from __future__ import annotations

import re

from tests.places import ROOT

PYPROJECT = (ROOT / "pyproject.toml").read_text()
PYTHONS = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)


def requirements(block: str) -> dict[str, str]:
    """Return name → versions for the requirements in a block of text, without markers."""
    found = re.findall(r'^ +(?:- |")([a-z0-9-]+) ?((?:[<>=!]+[\d.]+,?)*)', block, re.MULTILINE)
    return dict(found)


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    (dependencies,) = re.findall(r"^dependencies = \[\n(.*?)^\]", PYPROJECT, re.MULTILINE | re.DOTALL)
    recipe = (ROOT / "packaging" / "conda" / "meta.yaml").read_text()
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    assert requirements(run) == {**requirements(dependencies), "python": ">=3.10"}


def test_workflows_test_the_pythons_that_are_promised() -> None:
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    assert re.findall(r"python: \[(.*)\]", workflow)[0].replace('"', "").split(", ") == PYTHONS
    for system in ("ubuntu", "macos", "windows"):
        assert f"{system}-latest" in workflow


def test_the_image_gets_what_the_wheel_needs_and_runs_as_nobody_special() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    folders = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    wheel = PYPROJECT[PYPROJECT.index("[tool.hatch.build.targets.wheel") : PYPROJECT.index("[tool.hatch.build.targets.sdist")]
    included = {*re.findall(r'^"([a-z]+)/', wheel, re.MULTILINE), "pulsarscope"}
    assert folders >= {*included, "pyproject.toml", "README.md", "LICENSE"}
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert "USER pulsarscope" in lines
    assert any("--cap-add NET_RAW" in line for line in lines)
