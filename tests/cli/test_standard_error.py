from __future__ import annotations

import pytest

from pulsarscope.cli.standard_error import warn


def test_a_warning_is_one_printable_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    warn("bad\x1b[2J\nname")
    assert capsys.readouterr().err == "pulsarscope: bad\\x1b[2J\\x0aname\n"
    monkeypatch.setattr("sys.stderr", None)
    warn("nobody there")
