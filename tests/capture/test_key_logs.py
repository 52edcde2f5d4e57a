from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.capture import key_log_lines
from pulsarscope.errors import UsageError
from pulsarscope.limits import KEY_LOG_LINE_MAX_BYTES


def test_lines_come_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\r\n\ntwo \0\nlast")
    assert list(key_log_lines(str(path))) == [b"one\r\n", b"\n", b"two \0\n", b"last"]


def test_a_line_without_end_comes_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (2 * KEY_LOG_LINE_MAX_BYTES + 1))
    assert [len(line) for line in key_log_lines(str(path))] == [KEY_LOG_LINE_MAX_BYTES, KEY_LOG_LINE_MAX_BYTES, 1]


@pytest.mark.parametrize("name", ["missing", ".", "a\0b"])
def test_what_cannot_be_read_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"the TLS key log .* cannot be read: ") as raised:
        list(key_log_lines(str(tmp_path / name) if name != "a\0b" else name))
    assert raised.value.lines[0].isprintable()
