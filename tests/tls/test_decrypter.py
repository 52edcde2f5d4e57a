"""The choice of keys, and recovery of the sequence number."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pulsarscope.model.limits import TLS_LOST_RECORDS_MAX
from pulsarscope.tls import decrypter as module
from pulsarscope.tls.decrypter import Decrypter
from pulsarscope.tls.record_layer import TlsRecord
from pulsarscope.tls.record_protection import Content, Key


class Named(Key):
    """A key for records whose body contains the name of the key and the sequence number."""

    overhead = 21

    def __init__(self, name: str, tried: list[int] | None = None) -> None:
        self.name = name
        self.tried = [] if tried is None else tried

    def open(self, sequence: int, header: bytes, body: bytes) -> Content | None:
        self.tried.append(sequence)
        return (header[0], body) if body == f"{self.name}{sequence}".encode() else None

    def updated(self) -> Key:
        return Named(self.name + "'", self.tried)


def sealed(text: str) -> TlsRecord:
    return TlsRecord(23, b"\x17\x03\x03\0\0", text.encode(), 0, 0)


def decrypted(decrypter: Decrypter, *records: str, lost: int = 0) -> list[str | None]:
    contents = [decrypter.open(sealed(text), lost) for text in records]
    return [None if content is None else content[1].decode() for content in contents]


def keys(*names: str) -> Sequence[Key]:
    return [Named(name) for name in names]


def test_records_are_counted() -> None:
    assert decrypted(Decrypter(keys("a")), "a0", "a1", "a3", "a2") == ["a0", "a1", None, "a2"]


def test_the_next_key_opens_what_the_present_one_does_not() -> None:
    decrypter = Decrypter(keys("early", "handshake", "traffic"), early=True)
    states = []
    for text in ("early0", "handshake0", "traffic0", "traffic1"):
        states.append((decrypter.is_early, decrypter.is_last))
        assert decrypted(decrypter, text) == [text]
    assert states == [(True, False), (True, False), (False, False), (False, True)]
    assert decrypted(decrypter, "handshake1") == [None]


def test_the_key_goes_on_and_is_renewed_when_asked() -> None:
    decrypter = Decrypter(keys("a", "b"))
    decrypter.next_key()
    assert decrypted(decrypter, "b0") == ["b0"]
    decrypter.next_key()  # there is no next one
    decrypter.update_key()
    assert decrypted(decrypter, "b1", "b'0", "b'1") == [None, "b'0", "b'1"]


def test_behind_a_loss_the_count_is_found_again() -> None:
    decrypter = Decrypter(keys("a"))
    assert decrypted(decrypter, "a5") == [None]
    assert decrypted(decrypter, "a5", lost=21 * 5) == ["a5"]
    assert (decrypter.skipped, decrypter.updated) == (5, False)
    assert decrypted(decrypter, "a6") == ["a6"]
    assert decrypter.skipped == 0


def test_behind_a_loss_a_later_key_may_be_in_use() -> None:
    decrypter = Decrypter(keys("a", "b"))
    assert decrypted(decrypter, "b3", lost=1000) == ["b3"]
    assert (decrypter.skipped, decrypter.updated, decrypter.is_last) == (3, False, True)
    assert decrypted(decrypter, "b'2", lost=1000) == ["b'2"]
    assert decrypter.updated
    assert decrypted(decrypter, "b'3") == ["b'3"]


def test_no_more_is_searched_than_can_have_been_lost_and_the_bounds_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Named("a")
    decrypter = Decrypter([key])
    assert decrypted(decrypter, "nothing", lost=50) == [None]
    assert set(key.tried) == {0, 1, 2, 3}
    assert decrypted(decrypter, "nothing", lost=1 << 40) == [None]
    assert max(key.tried) == TLS_LOST_RECORDS_MAX
    monkeypatch.setattr(module, "TLS_SEARCH_BYTES", 0)
    assert decrypter.exhausted
    before = len(key.tried)
    assert decrypted(decrypter, "nothing", lost=1 << 40) == [None]
    assert len(key.tried) == before + 1


def test_what_was_opened_allows_for_more_searching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TLS_SEARCH_BYTES", 0)
    decrypter = Decrypter(keys("a"))
    assert decrypted(decrypter, "nothing", lost=1 << 40) == [None]
    assert decrypter.exhausted
    assert decrypted(decrypter, *(f"a{number}" for number in range(100))) == [f"a{number}" for number in range(100)]
    assert not decrypter.exhausted
