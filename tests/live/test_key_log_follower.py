from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.live.key_log_follower import KeyLogFollower
from pulsarscope.model.errors import UsageError


def test_whole_lines_come_once_as_they_are_written(tmp_path: Path) -> None:
    log = tmp_path / "keys"
    follower = KeyLogFollower([str(log), str(tmp_path / "never")])
    assert follower.read() == b""
    log.write_bytes(b"first\nsec")
    assert follower.read() == b"first\n"
    assert follower.read() == b""
    with log.open("ab") as file:
        file.write(b"ond\nthird\n")
    assert follower.read() == b"second\nthird\n"
    assert follower.read() == b""


def test_a_log_that_begins_anew_is_read_anew(tmp_path: Path) -> None:
    log = tmp_path / "keys"
    log.write_bytes(b"first\n")
    follower = KeyLogFollower([str(log)])
    assert follower.read() == b"first\n"
    log.write_bytes(b"2nd\n")
    assert follower.read() == b"2nd\n"
    other = tmp_path / "other"
    other.write_bytes(b"a longer one\n")
    other.rename(log)
    assert follower.read() == b"a longer one\n"


def test_a_large_log_comes_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.live.key_log_follower.KEY_LOG_READ_MAX_BYTES", 10)
    log = tmp_path / "keys"
    log.write_bytes(b"one\ntwo\nthree\n" + b"x" * 25 + b"\nend\n")
    follower = KeyLogFollower([str(log)])
    assert [follower.read() for _ in range(6)] == [b"one\ntwo\n", b"three\n", b"x" * 10, b"x" * 10, b"xxxxx\nend\n", b""]


@pytest.mark.parametrize("name", [".", "a\0b"])
def test_what_cannot_be_followed_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the TLS key log .*(not a regular file|cannot be read)"):
        KeyLogFollower([f"{tmp_path}/{name}"])
