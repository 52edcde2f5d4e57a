"""The pages show the real output of commands, have valid links, and come with the wheel."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs import make_examples, make_reference
from docs.site_links import on_page_markdown
from pulsarscope.cli.arguments.application import app
from pulsarscope.cli.arguments.command_names import COMMANDS
from pulsarscope.cli.commands import help as help_command
from pulsarscope.cli.commands.help import TOPICS
from pulsarscope.model.errors import UsageError
from tests.places import ROOT
from tests.scenarios.command_line import execute_here

DOCS = ROOT / "docs"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["help", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", make_examples.pages(), ids=lambda page: page.name)
def test_pages_show_what_their_commands_give(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands without a shell run in this process, which gives the same output and saves a start for each."""
    in_shell = make_examples.output_of

    def output_of(command: str) -> str:
        if re.search(r"[|&;<>$`*?~#\\]", command):
            return in_shell(command)
        result = execute_here(*shlex.split(command)[1:])
        return (result.stdout + result.stderr).decode().strip("\n")

    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(make_examples, "output_of", output_of)
    text = page.read_text(encoding="utf-8")
    assert make_examples.BLOCK.search(text)
    assert text == make_examples.filled(text), "run python docs/make_examples.py"


@pytest.mark.parametrize("name", [*make_reference.PAGES])
def test_the_reference_is_what_the_generator_writes(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == make_reference.PAGES[name](), "run python docs/make_reference.py"


@pytest.mark.parametrize("page", ["library.md", "sql.md"])
def test_programs_of_the_pages_run(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    if page == "sql.md":
        pytest.importorskip("duckdb")
        pytest.importorskip("pandas")
    program = next(block for block in re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL))
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(program, page, "exec"), {})  # noqa: S102 - a program of our own
    assert "ng-t-421" in shown.getvalue()


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="no mkdocs: pip install -e '.[test]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "--site-dir", str(tmp_path / "site")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    assert result.returncode == 0, result.stderr
    pages = {path.parent.name for path in (tmp_path / "site").rglob("index.html")}
    assert pages >= {*TOPICS, "commands"}
    for page in (tmp_path / "site").rglob("index.html"):
        loads = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]*)", page.read_text(encoding="utf-8"))
        assert not [link for link in loads if "squidfunk" not in link], "a page loads from elsewhere"


def test_links_to_files_outside_become_text() -> None:
    assert on_page_markdown("see [`a.py`](../a.py), [b](b.md) and [c](../README.md#d).") == "see `a.py`, [b](b.md) and c."


def test_every_page_is_in_the_index_and_every_topic_has_one() -> None:
    linked = set(re.findall(r"\]\(([\w-]+)\.md\)", (DOCS / "index.md").read_text()))
    assert linked == {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert {*TOPICS} <= linked
    included = re.findall(r'^"docs/(.+)\.md" = "pulsarscope/help/(.+)\.md"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert included == [(topic, topic) for topic in TOPICS]


def test_topics_are_listed_and_shown_as_they_stand() -> None:
    assert [line.split()[0] for line in run().splitlines()] == [*TOPICS]
    assert run("tutorial") == (DOCS / "tutorial.md").read_text()


def test_a_page_in_a_terminal_fits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(help_command, "is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "80")
    text = run("filter", "--no-color")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "# Filters" not in text
    assert "Filters" in text


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in TOPICS])
def test_a_command_is_explained_by_its_help(command: str) -> None:
    assert run(command).startswith(f"Usage: pulsarscope {command}")


def test_an_unknown_topic_is_refused_with_the_nearest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean tutorial"):
        run("tutorail")
    with pytest.raises(UsageError, match="but a finding: pulsarscope findings consumer-starved"):
        run("consumer-starved")
    monkeypatch.setattr(help_command, "FOLDERS", (tmp_path,))
    with pytest.raises(UsageError, match="pages are missing"):
        run("tutorial")
