from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.protocols import DISSECTORS
from pulsarscope.protocols.bookkeeper.dissector import BookkeeperDissector
from pulsarscope.testing import check_account, check_splitting, fuzz
from tests.protocols.bookkeeper.cases import ANSWERS, DISSECTOR, FRAMES
from tests.scenarios import pcap
from tests.scenarios.bookkeeper import add, added, ledger_entry, start_tls, started_tls
from tests.scenarios.tls.feeding import packets_of
from tests.scenarios.tls.peers import record


def test_it_is_one_of_the_package() -> None:
    assert BookkeeperDissector in DISSECTORS
    assert DISSECTOR.name == "bookkeeper"
    assert DISSECTOR.ports == {3181}


@pytest.mark.parametrize("frames", [FRAMES, ANSWERS], ids=["frames", "answers"])
def test_it_keeps_the_contract(frames: list[bytes]) -> None:
    fuzz(DISSECTOR, frames, rounds=40)


@pytest.mark.parametrize("synced", [True, False])
def test_frames_do_not_depend_on_the_pieces_that_they_come_in(synced: bool) -> None:
    data = b"".join(FRAMES)
    check_account(DISSECTOR, data, synced=synced)
    check_splitting(DISSECTOR, [data[at : at + 1] for at in range(len(data))], synced=synced)


def test_senders_are_known_by_command_except_that_of_an_auth() -> None:
    assert [DISSECTOR.sender(name) for name in ("ADD", "READ_RESPONSE", "AUTH", "")] == ["client", "server", None, None]


def captured(folder: Path, flights: list[tuple[int, bytes]], **options: Any) -> tuple[list[tuple[str | None, str | None]], str | None]:
    """Directions and commands of a connection, and the TLS columns of its row."""
    path = folder / "bookie.pcap"
    path.write_bytes(pcap(packets_of(flights, 3181)))
    capture = ps.open(path, **options)
    (row,) = capture.connections()
    return [(frame.direction, frame.command) for frame in capture.frames()], row.tls


SAID = [(0, add(ledger_entry(7, 0))), (1, added(7, 0)), (0, add(ledger_entry(7, 1))), (1, added(7, 1))]
STORED = [("client", "ADD"), ("server", "ADD_RESPONSE")] * 2
ASKED = [("client", "START_TLS"), ("server", "START_TLS_RESPONSE")]


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_what_follows_start_tls_is_decrypted(tmp_path: Path, size: int) -> None:
    recording = record(SAID)
    (tmp_path / "keys").write_bytes(recording.key_log)
    hello = [(side, data[at : at + size]) for side, data in ((0, start_tls()), (1, started_tls())) for at in range(0, len(data), size)]
    commands, tls = captured(tmp_path, [*hello, *recording.flights], tls_keylog=tmp_path / "keys")
    assert commands == ASKED + STORED
    assert (tls or "").startswith("TLSv1.3")
    commands, tls = captured(tmp_path, [*hello, *recording.flights])
    assert commands == ASKED
    assert tls is not None


def test_what_follows_a_refusal_is_plain(tmp_path: Path) -> None:
    commands, tls = captured(tmp_path, [(0, start_tls()), (1, started_tls(status=404)), *SAID])
    assert commands == ASKED + STORED
    assert tls is None


def test_a_bookie_that_does_not_answer_start_tls_was_asked(tmp_path: Path) -> None:
    assert captured(tmp_path, [(0, start_tls())])[0] == ASKED[:1]
