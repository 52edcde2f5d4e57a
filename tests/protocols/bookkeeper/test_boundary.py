from __future__ import annotations

import pytest

from pulsarscope.protocols.bookkeeper.boundary import candidate, find_candidate
from tests.protocols.bookkeeper.cases import ANSWERS, FRAMES
from tests.scenarios.bookkeeper import add, added, auth, frame, ledger_entry, read, read_back

PLENTY = 1 << 30


def proof(data: bytes, *, checksums: bool = True, budget: int = PLENTY) -> str | None:
    found = candidate(data, 0, len(data), budget, checksums=checksums)
    assert found is None or found.proof == "wait" or found.size == len(data)
    return found and found.proof


@pytest.mark.parametrize("data", FRAMES + [answer for answer in ANSWERS if answer[4]])
def test_every_kind_of_frame_is_recognised_wherever_it_stands(data: bytes) -> None:
    assert proof(data) in ("sure", "likely")
    assert find_candidate(b"\xff" * 9 + data, 0, len(data) + 9) == 9


@pytest.mark.parametrize("digest", ["CRC32C", "HMAC", "CRC32"])
def test_an_entry_is_proven_by_its_digest(digest: str) -> None:
    data = add(ledger_entry(5, 1, digest=digest))
    assert proof(data) == "sure"
    assert proof(data[:-1] + b"\xff") == "likely"
    assert proof(data, checksums=False) == "likely"
    assert proof(data, budget=10) == "likely"


@pytest.mark.parametrize("data", [add(ledger_entry(5, 1, digest="DUMMY")), auth(b"")])
def test_a_frame_without_a_proof_needs_another_behind_it(data: bytes) -> None:
    assert proof(data) == "likely"


def test_version_0_is_recognised_behind_another_frame_only() -> None:
    data = read(5, 1, version=0)
    assert proof(data) is None
    assert proof(data, checksums=False) == "sure"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(64),
        b"\xff" * 64,
        added(5, -1),
        added(-5, 1),
        added(5, 1, status=7),
        read(5, -2),
        read(1 << 60, 0),
        read_back(5, 1, status=0),
        read_back(5, 1, ledger_entry(6, 1)),
        read_back(5, 1, ledger_entry(5, 2)),
        add(ledger_entry(5, 1)[:20]),
        frame(b"\x02\x02\x00\x00" + bytes(17)),
        frame(b"\x02\x03\x00\x00\x0a\x05a b c\x12\x00"),
        frame(b"\x0a\x06\x08\x03\x10\x02\x18\x01\xf2\x01\x00"),
        frame(b"\x0a\x06\x08\x03\x10\x02\x18\x01\x10\x09\xaa\x06\x00"),
    ],
)
def test_what_no_client_and_no_bookie_writes_is_none(data: bytes) -> None:
    assert proof(data.ljust(64, b"\x01") if len(data) < 11 else data) is None


def test_the_rest_of_a_large_entry_is_waited_for_only_if_its_head_can_be() -> None:
    data = add(ledger_entry(5, 1, bytes(5000)))
    found = candidate(data, 0, 100, PLENTY)
    assert found is not None
    assert (found.proof, found.seen) == ("wait", len(data))
    assert candidate(data[:28] + b"\xff" + data[29:], 0, 100, PLENTY) is None
