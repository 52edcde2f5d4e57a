"""The examples in docs/filter.md and README.md are correct: all of them are run."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pulsarscope import cli
from pulsarscope.engine.local import run
from pulsarscope.model.records import Row
from tests.filter.samples import KINDS, make
from tests.places import ROOT
from tests.scenarios.options import Options

PAGE = (ROOT / "docs" / "filter.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")

CAPTURES = (
    "quickstart.pcapng",
    "errors.pcap",
    "raw-checksum.pcap",
    "raw-strange.pcap",
    "ipv6.pcap",
    "rw-capture-loss.pcap.zst",
    "java-errors.pcap",
    "acks-batchindex.pcap",
    "go-nack-dlq-gz.pcap.gz",
)


def blocks(page: str, language: str) -> Iterator[str]:
    """The lines of the fenced blocks of a language."""
    for block in re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()


FILTERS = list(blocks(PAGE, "filter"))
COMMANDS = [line for page in (PAGE, README) for line in blocks(page, "sh") if " -Y " in line or line.startswith("pulsarscope fields")]


@cache
def rows_of(name: str) -> list[tuple[list[Row], dict[str, tuple[str, str]]]]:
    """All rows of a capture with the payload of messages, block by block with the endpoints known then."""
    made = run([str(ROOT / "captures" / name)], Options(frozenset(KINDS), payload="base64"))
    return [([row for row in batch.rows if isinstance(row, Row)], dict(made.endpoints)) for batch in made]


def matches(text: str, name: str) -> int:
    made = make(text, payload="base64")
    for rows, endpoints in rows_of(name):
        made.select(rows, endpoints)
    return sum(made.kept.values())


def test_the_page_has_examples() -> None:
    assert len(FILTERS) > 50
    assert len(set(FILTERS)) == len(FILTERS)


@pytest.mark.parametrize("text", FILTERS)
def test_every_example_chooses_some_records_of_our_captures_and_not_all(text: str) -> None:
    counts = [matches(text, name) for name in CAPTURES]
    total = sum(len(rows) for name in CAPTURES for rows, _ in rows_of(name))
    assert 0 < sum(counts) < total


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_line_of_the_pages_runs(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(ROOT / "captures" / "quickstart.pcapng") if word == "mine.pcap" else word for word in shlex.split(line, comments=True)]
    words = words[: words.index("|")] if "|" in words else words
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # disables indexes
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert capsys.readouterr().out or written


def test_the_error_on_the_page_is_the_one_that_is_given(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = re.findall(r"^\$ (pulsarscope .*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    monkeypatch.setattr(sys, "argv", shlex.split(shown[0]))
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err == shown[1]


def test_the_bounds_on_the_page_are_those_of_the_code() -> None:
    from pulsarscope.model import limits  # noqa: PLC0415 - only here

    numbers = (limits.FILTER_MAX_CHARACTERS, limits.FILTER_DEPTH_MAX, limits.FILTER_PATTERN_MAX_CHARACTERS)
    assert "Bounds: {:,} characters, {} levels of parentheses and negations, {:,} characters".format(*numbers) in PAGE
