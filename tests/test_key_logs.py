from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.errors import UsageError
from pulsarscope.key_logs import KeyLogs, read_key_logs, take_key_log
from pulsarscope.tls.secrets import Secrets

LINE = "CLIENT_RANDOM " + "00" * 32 + " " + "11" * 48


def test_no_file_says_nothing() -> None:
    assert read_key_logs([]).findings == KeyLogs().findings == ()


def test_what_is_no_line_of_a_key_log_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "k\x1b.log"
    path.write_text(f"{LINE}\n# a comment\nodd\n")
    (finding,) = read_key_logs([str(path)]).findings
    assert (finding.code, finding.evidence["lines"], finding.file) == ("tls-key-log-malformed", 1, None)
    assert "\x1b" not in finding.text


def test_a_log_of_a_capture_is_said_to_be_in_it() -> None:
    (finding,) = take_key_log(Secrets(), [b"odd", b"odder"], "x.pcapng", (3, 17))
    assert (finding.file, finding.text) == (3, "2 lines of the TLS key log in x.pcapng cannot be read.")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        read_key_logs([str(tmp_path / "nowhere")])
