from __future__ import annotations

import io
from pathlib import Path

import pytest

from pulsarscope.cli import progress
from pulsarscope.cli.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watch(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal as standard error."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    return terminal


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = watch(monkeypatch)
    with ProgressBar(["a"], 100, enabled=True) as bar:
        bar.advance(0, 50)
    assert screen.getvalue() == ""


def test_long_work_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    screen = watch(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0)
    monkeypatch.setattr(progress, "REFRESH_SECONDS", 0)
    (tmp_path / "a").write_bytes(bytes(1000))
    with ProgressBar([str(tmp_path / "a"), "gone", "b"], 3000, enabled=True) as bar:
        bar.advance(0, 500)
        bar.advance(2, 500)
    assert "1.5/3.0 kB" in screen.getvalue()


def test_a_pipe_has_no_end_to_show(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = watch(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0)
    with ProgressBar(["-"], None, enabled=True) as bar:
        bar.advance(0, 500)
    assert screen.getvalue()


@pytest.mark.parametrize(("reason", "warnings"), [("pulsarscope-native 0.1 has contract 1, not 2", 1), (None, 0)])
def test_long_work_warns_once_of_a_compiled_reader_that_is_not_used(
    monkeypatch: pytest.MonkeyPatch, reason: str | None, warnings: int
) -> None:
    screen = watch(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0)
    monkeypatch.setattr(progress, "refused_native", lambda: reason)
    progress._warn_of_reader.cache_clear()
    for _ in range(2):
        with ProgressBar(["-"], None, enabled=True) as bar:
            bar.advance(0, 500)
    assert screen.getvalue().count(f"pulsarscope: the compiled reader is not used: {reason}\n") == warnings


@pytest.mark.parametrize("enabled", [True, False])
def test_without_a_terminal_or_a_wish_there_is_none(monkeypatch: pytest.MonkeyPatch, enabled: bool) -> None:
    stream = io.StringIO() if enabled else Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0)
    with ProgressBar(["a"], 10, enabled=enabled) as bar:
        bar.advance(0, 5)
    assert stream.getvalue() == ""
