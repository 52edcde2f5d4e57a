from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.make_selftest import NAMES, content
from pulsarscope.cli.arguments.application import app
from pulsarscope.cli.commands import selftest
from pulsarscope.model.errors import InternalError, UsageError
from tests.places import CAPTURES, ROOT

PROJECT = (ROOT / "pyproject.toml").read_text()

FIRST_TIME = 28
"""Position in a pcap file of the fraction of the first packet's time."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the captures that the command decodes."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(CAPTURES / name, tmp_path / name)
    monkeypatch.setattr(selftest, "FOLDERS", (tmp_path,))
    return tmp_path


def run() -> str:
    result = CliRunner().invoke(app, ["selftest"], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.slow
def test_the_expected_rows_are_what_the_generator_writes() -> None:
    assert selftest.EXPECTED.read_bytes() == content(), "run python docs/make_selftest.py"


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_every_capture_decodes_as_expected_wherever_it_lies() -> None:
    lines = run().splitlines()
    assert lines[0].startswith("pulsarscope ")
    assert lines[1].startswith("reader: ")
    assert [line.split(":")[0].split() for line in lines if line[:2] == "ok"] == [["ok", name] for name in NAMES]


@pytest.mark.slow
def test_extras_are_listed_with_the_command_that_installs_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "EXTRAS", {"live": ("no_such_package", "pytest"), "tui": ("pytest",)})
    lines = run().splitlines()
    assert any(line.startswith("extra live: without no_such_package: ") and "pip install" in line for line in lines)
    assert "extra tui: installed" in lines


def test_the_extras_are_those_of_the_package() -> None:
    extras = re.search(r"^\[project.optional-dependencies\]\n(.*?)\n\n", PROJECT, re.MULTILINE | re.DOTALL)
    assert extras is not None
    needs = dict(re.findall(r'^(\w+) = \[((?:"[^"]*"(?:, )?)+)\]', extras[1], re.MULTILINE))
    assert {*selftest.EXTRAS} == {*needs} - {"all"}
    for extra, packages in selftest.EXTRAS.items():
        brought = {name.replace("-", "_").replace("grpcio", "grpc") for name in re.findall(r'"([\w-]+)>', needs[extra])}
        assert {*packages} <= brought


def test_the_wheel_holds_the_captures() -> None:
    included = re.findall(r'^"captures/(.+)" = "pulsarscope/captures/(.+)"$', PROJECT, re.MULTILINE)
    assert included == [(name, name) for name in NAMES]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "described"),
    [
        (
            lambda capture: capture[:FIRST_TIME] + bytes([capture[FIRST_TIME] ^ 1]) + capture[FIRST_TIME + 1 :],
            "the same number of rows, but different ones",
        ),
        (lambda capture: capture[: len(capture) // 2], "expected 1 connection, "),
        (lambda _: b"", "wrong  ipv6.pcap: "),
        (lambda _: b"plain text", "wrong  ipv6.pcap: "),
    ],
)
def test_rows_that_differ_end_it_with_the_exit_code_of_a_fault(folder: Path, change, described: str) -> None:  # type: ignore[no-untyped-def]
    capture = folder / "ipv6.pcap"
    capture.write_bytes(change(capture.read_bytes()))
    result = CliRunner().invoke(app, ["selftest"])
    assert isinstance(result.exception, InternalError)
    assert str(result.exception).startswith(f"1 of {len(NAMES)} captures")
    assert "wrong  ipv6.pcap: " in result.output
    assert described in result.output


def test_missing_captures_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "FOLDERS", (tmp_path,))
    result = CliRunner().invoke(app, ["selftest"])
    assert isinstance(result.exception, UsageError)
