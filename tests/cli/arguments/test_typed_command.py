"""Responses to options that are spelled as in other programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pulsarscope import cli


def test_an_equals_sign_behind_a_short_name_never_becomes_part_of_the_name_of_a_file(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pulsarscope", "decode", str(captures / "quickstart.pcapng"), "-f", "csv", "-o=rows.csv"])
    with pytest.raises(SystemExit) as exited:
        cli.main()
    assert exited.value.code == 2
    assert "write -o rows.csv" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
