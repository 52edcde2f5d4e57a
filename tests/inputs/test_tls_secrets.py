"""Key logs and their secrets."""

from __future__ import annotations

import pickle

import pytest

from pulsarscope.inputs import tls_secrets as module
from pulsarscope.inputs.tls_secrets import EARLY, HANDSHAKE, MASTER_SECRET, TRAFFIC, Secrets
from pulsarscope.model.limits import TLS_SECRETS_MAX

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
