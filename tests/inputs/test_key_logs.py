from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pulsarscope.inputs import key_logs as module
from pulsarscope.inputs.key_logs import (
    EARLY,
    HANDSHAKE,
    MASTER_SECRET,
    TRAFFIC,
    KeyLogs,
    Secrets,
    add_key_log,
    key_log_lines,
    read_key_logs,
)
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import KEY_LOG_LINE_MAX_BYTES, TLS_SECRETS_MAX

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


RANDOM, OTHER = b"\xaa" * 32, b"\xbb" * 32
HERE = (0, 1)


def line(label: str, secret: bytes, random: bytes = RANDOM) -> bytes:
    return f"{label} {random.hex()} {secret.hex()}".encode()


@pytest.mark.parametrize(
    ("label", "size"), [(MASTER_SECRET, 48), (EARLY, 32), (EARLY, 48), *((label, 32) for label in (*HANDSHAKE, *TRAFFIC)), (TRAFFIC[0], 48)]
)
def test_each_secret_is_found_by_label_and_random(label: str, size: int) -> None:
    known = Secrets()
    assert not known
    assert known.add([line(label, b"\x01" * size)]) == 0
    assert known
    assert known.find(label, RANDOM, HERE) == b"\x01" * size
    assert known.find(label, OTHER, HERE) is None
    assert known.find_session(RANDOM, HERE) is None


def test_a_master_secret_may_be_named_by_its_session() -> None:
    known = Secrets()
    assert known.add([b"RSA Session-ID:" + b"0A" * 32 + b" Master-Key:" + b"0b" * 48]) == 0
    assert known.find_session(b"\x0a" * 32, HERE) == b"\x0b" * 48
    assert known.find_session(b"", HERE) is None


@pytest.mark.parametrize(
    "malformed",
    [
        b"",
        b"   \r\n",
        b"# CLIENT_RANDOM zz",
        b"EXPORTER_SECRET " + b"00" * 32 + b" " + b"11" * 32,
        b"RSA 0011223344556677 " + b"00" * 48,
        b"QUIC_CLIENT_TRAFFIC_SECRET_0 00 11",
    ],
)
def test_what_is_of_no_use_is_no_mistake(malformed: bytes) -> None:
    known = Secrets()
    assert known.add([malformed]) == 0
    assert not known


@pytest.mark.parametrize(
    "malformed",
    [
        b"CLIENT_RANDOM",
        b"CLIENT_RANDOM " + b"00" * 32,
        b"CLIENT_RANDOM " + b"00" * 31 + b" " + b"00" * 48,
        b"CLIENT_RANDOM " + b"00" * 32 + b" " + b"00" * 47,
        b"CLIENT_RANDOM " + b"00" * 32 + b" " + b"0g" * 48,
        b"CLIENT_RANDOM " + b"00" * 32 + b" " + b"0" * 95,
        b"CLIENT_TRAFFIC_SECRET_0 " + b"00" * 32 + b" " + b"00" * 33,
        b"CLIENT_RANDOM " + b"00" * 32 + b" " + b"00" * 48 + b" more",
        b"RSA Session-ID: Master-Key:" + b"00" * 48,
        b"RSA Session-ID:00 Master-Key:" + b"00" * 47,
        b"\xff\xfe\x00 \x1b[31m x",
    ],
)
def test_other_lines_are_counted(malformed: bytes) -> None:
    known = Secrets()
    assert known.add([malformed, line(MASTER_SECRET, b"\x01" * 48), malformed]) == 2
    assert known.find(MASTER_SECRET, RANDOM, HERE) == b"\x01" * 48


def test_of_two_secrets_the_first_is_kept() -> None:
    known = Secrets()
    known.add([line(MASTER_SECRET, b"\x01" * 48), line(MASTER_SECRET, b"\x02" * 48)])
    assert known.find(MASTER_SECRET, RANDOM, HERE) == b"\x01" * 48


def test_a_secret_holds_behind_its_place() -> None:
    known = Secrets()
    known.add([line(MASTER_SECRET, b"\x01" * 48)], (1, 5))
    assert [known.find(MASTER_SECRET, RANDOM, place) is not None for place in ((0, 9), (1, 5), (1, 6), (2, 0))] == [
        False,
        False,
        True,
        True,
    ]


def test_secrets_upon_others_leave_those_as_they_are() -> None:
    base = Secrets()
    base.add([line(MASTER_SECRET, b"\x01" * 48)], (1, 0))
    upon = Secrets(base)
    upon.add([line(MASTER_SECRET, b"\x02" * 48), line(EARLY, b"\x03" * 32)], (0, 0))
    assert upon.find(MASTER_SECRET, RANDOM, (0, 1)) == b"\x02" * 48
    assert upon.find(MASTER_SECRET, RANDOM, (1, 1)) == b"\x01" * 48
    assert base.find(EARLY, RANDOM, HERE) is None
    assert bool(Secrets(base))


def test_secrets_upon_others_upon_others_are_all_found() -> None:
    known = Secrets()
    known.add([line(MASTER_SECRET, b"\x01" * 48)])
    again = Secrets(Secrets(known))
    assert again.find(MASTER_SECRET, RANDOM, HERE) == b"\x01" * 48
    assert bool(again)
    assert not Secrets(Secrets())


def test_they_go_to_other_processes() -> None:
    known = Secrets()
    known.add([line(MASTER_SECRET, b"\x01" * 48)])
    again = pickle.loads(pickle.dumps(Secrets(known)))  # noqa: S301 - our own
    assert again.find(MASTER_SECRET, RANDOM, HERE) == b"\x01" * 48


def test_no_more_are_kept_than_the_bound_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TLS_SECRETS_MAX * 250 <= 256 << 20
    monkeypatch.setattr(module, "TLS_SECRETS_MAX", 2)
    known = Secrets()
    assert known.add([line(MASTER_SECRET, b"\x01" * 48, bytes((number,)) * 32) for number in range(3)]) == 0
    assert [known.find(MASTER_SECRET, bytes((number,)) * 32, HERE) is not None for number in range(3)] == [True, True, False]
    assert known.dropped == 1
    known.add([line(MASTER_SECRET, b"\x01" * 48, bytes(32))])  # known
    assert known.dropped == 1
