from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import pulsarscope as ps
from pulsarscope.testing import ScriptedConnection
from tests.protocols.bookkeeper.cases import connection
from tests.scenarios.bookkeeper import add, added, auth, ledger_entry, read, read_back, v3_add, v3_added

Open = Callable[[ScriptedConnection], ps.Capture]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def opened(made: ScriptedConnection) -> ps.Capture:
        path = tmp_path / "bookie.pcap"
        path.write_bytes(made.close().pcap())
        return ps.open(path)

    return opened


def test_answers_are_paired_by_their_ids_in_any_order(opened: Open) -> None:
    entries = [ledger_entry(9, number) for number in range(3)]
    made = connection().client(b"".join(map(add, entries)) + read(9, -1))
    made.server(read_back(9, -1, entries[2]) + b"".join(added(9, number) for number in (2, 0, 1)))
    rows = list(opened(made).exchanges())
    assert {row.key: row.status for row in rows} == {"ADD 9:0": "ok", "ADD 9:1": "ok", "ADD 9:2": "ok", "READ 9:-1": "ok"}


def test_answers_of_version_3_are_paired_by_transaction(opened: Open) -> None:
    made = connection().client(v3_add(1, ledger_entry(9, 0), 9, 0) + v3_add(2, ledger_entry(9, 0), 9, 0))
    rows = list(opened(made.server(v3_added(2, 9, 0, status=504) + v3_added(1, 9, 0))).exchanges())
    assert [(row.key, row.error) for row in rows] == [("txn 2", "EFENCED"), ("txn 1", None)]


def test_an_auth_of_the_bookie_is_an_answer(opened: Open) -> None:
    made = connection()
    for payload in (b"", b"response=x"):
        made.client(auth(payload)).server(auth(b"challenge"))
    frames = sorted(opened(made).frames(), key=lambda frame: frame.packet)
    assert [frame.command for frame in frames] == ["AUTH", "AUTH_RESPONSE"] * 2
    assert [frame.request is not None for frame in frames] == [False, True] * 2


def test_what_nobody_answers_is_an_exchange(opened: Open) -> None:
    made = connection().client(add(ledger_entry(9, 0)) + add(ledger_entry(9, 1))).server(added(9, 1))
    assert {row.key: row.status for row in opened(made).exchanges()} == {"ADD 9:1": "ok", "ADD 9:0": "unanswered"}


@pytest.mark.parametrize(
    ("status", "code"), [(104, "ledger-fenced"), (101, "bookie-refused"), (105, "bookie-refused"), (2, None), (0, None)]
)
def test_a_refusal_is_a_finding_unless_there_is_just_no_entry(opened: Open, status: int, code: str | None) -> None:
    made = connection().client(add(ledger_entry(9, 0))).server(added(9, 0, status=status))
    assert [finding.code for finding in opened(made).findings()] == [code] * (code is not None)


@pytest.mark.parametrize("digest", ["CRC32C", "CRC32", "HMAC"])
def test_an_entry_that_does_not_fit_where_others_of_its_ledger_do_is_damaged(opened: Open, digest: str) -> None:
    entries = [ledger_entry(9, number, digest=digest) for number in range(3)]
    broken = entries[2][:-1] + b"?"
    made = connection().client(b"".join(map(add, entries[:2])) + read(9, 2)).server(added(9, 0) + added(9, 1) + read_back(9, 2, broken))
    capture = opened(made)
    assert [(finding.code, (finding.evidence or {}).get("entry")) for finding in capture.findings()] == [("entry-damaged", 2)]
    assert [frame.checksum.status for frame in capture.frames() if frame.checksum] == ["good", "good", "bad"]


@pytest.mark.parametrize("line_end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("password", [b"pw", b"", "schlüssel".encode(), b"two words"])
def test_a_given_password_verifies_digests_and_finds_damage(tmp_path: Path, password: bytes, line_end: bytes) -> None:
    entries = [ledger_entry(9, number, digest="HMAC", password=password) for number in range(3)]
    broken = entries[2][:-1] + b"?"
    made = connection().client(b"".join(map(add, entries[:2])) + read(9, 2)).server(added(9, 0) + added(9, 1) + read_back(9, 2, broken))
    captured, secret = tmp_path / "bookie.pcap", tmp_path / "password"
    captured.write_bytes(made.close().pcap())
    secret.write_bytes(password + line_end)
    capture = ps.open(captured, ledger_password=secret)
    assert [frame.checksum.status for frame in capture.frames() if frame.checksum] == ["good", "good", "bad"]
    assert [finding.code for finding in capture.findings()] == ["entry-damaged"]


def test_another_password_verifies_nothing_and_damages_nothing(tmp_path: Path) -> None:
    made = connection().client(b"".join(add(ledger_entry(9, number, digest="HMAC", password=b"pw")) for number in range(3)))
    captured, secret = tmp_path / "bookie.pcap", tmp_path / "password"
    captured.write_bytes(made.server(added(9, 0)).close().pcap())
    secret.write_bytes(b"wrong")
    capture = ps.open(captured, ledger_password=secret)
    assert {frame.checksum.status for frame in capture.frames() if frame.checksum} == {"unverified"}
    assert list(capture.findings()) == []


@pytest.mark.parametrize("digest", ["DUMMY", "HMAC"])
def test_a_ledger_without_digests_or_with_a_password_is_not_damaged(opened: Open, digest: str) -> None:
    entries = [ledger_entry(9, number, digest=digest, password=b"pw") for number in range(3)]
    made = connection().client(b"".join(map(add, entries))).server(b"".join(added(9, number) for number in range(3)))
    assert list(opened(made).findings()) == []
