"""Payloads as files that are named by numbers alone."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

import pulsarscope
from pulsarscope.output.export.payload_files import _suffix
from tests.places import CAPTURES
from tests.scenarios.command_line import run

Captured = pytest.CaptureFixture[str]


def test_each_payload_is_a_file_and_the_list_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    folder, capture = tmp_path / "payloads", str(CAPTURES / "acks-batchindex.pcap")
    assert run(monkeypatch, "messages", capture, "--export", str(folder)) == 0
    assert "index.ndjson lists them" in capsys.readouterr().err
    listed = [json.loads(line) for line in (folder / "index.ndjson").read_text().splitlines()]
    expected = [row.payload_sha256 for row in pulsarscope.open(capture).messages()]
    assert [row["payload_sha256"] for row in listed] == expected
    for row in listed:
        assert "payload" not in row
        assert sha256((folder / row["payload_file"]).read_bytes()).hexdigest() == row["payload_sha256"]
    assert len({*folder.iterdir()}) == len(listed) + 1


def test_only_selected_messages_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = str(CAPTURES / "acks-batchindex.pcap")
    assert run(monkeypatch, "messages", capture, "--export", str(tmp_path / "x"), "-Y", "direction == produce", "--tail", "2", "-q") == 0
    assert len([*(tmp_path / "x").iterdir()]) == 3


@pytest.mark.parametrize("option", [("-o", "x"), ("--format", "csv"), ("--columns", "key"), ("--payload", "hex")])
def test_what_writes_elsewhere_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, option: tuple[str, str]
) -> None:
    assert run(monkeypatch, "messages", str(CAPTURES / "quickstart.pcapng"), "--export", str(tmp_path / "x"), *option) == 2
    assert f"cannot be combined with {option[0]}" in capsys.readouterr().err


def test_a_folder_with_files_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    (tmp_path / "mine").touch()
    assert run(monkeypatch, "messages", str(CAPTURES / "quickstart.pcapng"), "--export", str(tmp_path)) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert run(monkeypatch, "messages", str(CAPTURES / "quickstart.pcapng"), "--export", str(tmp_path / "mine")) == 2
    assert "mine is a file, and a folder is needed for several files: name another" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "suffix"),
    [
        (b'{"a": 1}', ".json"),
        (b"[1]", ".json"),
        (b"{a}", ".txt"),
        ("tö\n".encode(), ".txt"),
        (b"\0", ".bin"),
        (b"\xff", ".bin"),
        (b"", ".bin"),
    ],
)
def test_the_suffix_shows_the_kind(content: bytes, suffix: str) -> None:
    assert _suffix(content) == suffix
