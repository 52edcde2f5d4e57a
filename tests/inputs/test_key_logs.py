from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.inputs.key_logs import KeyLogs, add_key_log, key_log_lines, read_key_logs
from pulsarscope.inputs.tls_secrets import Secrets
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import KEY_LOG_LINE_MAX_BYTES

LINE = "CLIENT_RANDOM " + "00" * 32 + " " + "11" * 48


def test_no_file_says_nothing() -> None:
    assert read_key_logs([]).findings == KeyLogs().findings == ()


def test_what_is_no_line_of_a_key_log_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "k\x1b.log"
    path.write_text(f"{LINE}\n# a comment\nodd\n")
    (finding,) = read_key_logs([str(path)]).findings
    assert (finding.code, finding.evidence["lines"], finding.file) == ("tls-key-log-malformed", 1, None)
    assert "\x1b" not in finding.text


@pytest.mark.parametrize("text", ["", "# a comment\n", f"EXPORTER_SECRET {'00' * 32} {'11' * 32}\n"])
def test_a_log_without_secrets_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k.log"
    path.write_text(text)
    (finding,) = read_key_logs([str(path)]).findings
    assert (finding.code, finding.severity) == ("tls-key-log-empty", "note")


def test_a_log_given_twice_is_not_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "k.log"
    path.write_text(LINE)
    assert read_key_logs([str(path), str(path)]).findings == ()


def test_a_log_of_a_capture_is_said_to_be_in_it() -> None:
    (finding,) = add_key_log(Secrets(), [b"odd", b"odder"], "x.pcapng", (3, 17))
    assert (finding.file, finding.text) == (3, "2 lines of the TLS key log in x.pcapng are not valid.")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        read_key_logs([str(tmp_path / "nowhere")])


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
