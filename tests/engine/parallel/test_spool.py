from __future__ import annotations

import tempfile
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.engine.parallel import spool
from pulsarscope.engine.parallel.spool import Spool


def fill(store: Spool, messages: list[bytes]) -> Thread:
    def put_all() -> None:
        for message in messages:
            if not store.put(message):
                return
        store.end()

    thread = Thread(target=put_all)
    thread.start()
    return thread


def empty(store: Spool) -> list[bytes]:
    return list(iter(store.get, None))


@given(st.lists(st.binary(max_size=12), max_size=30), st.integers(0, 20), st.integers(0, 40))
def test_messages_come_out_in_order_whatever_fits_where(messages: list[bytes], memory: int, disk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "JOB_MEMORY_MAX_BYTES", memory)
        patch.setattr(spool, "JOB_DISK_MAX_BYTES", disk)
        store = Spool()
        thread = fill(store, messages)
        assert empty(store) == messages
        thread.join()
        store.close()


def test_what_does_not_fit_waits_on_disk_and_then_in_front_of_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "JOB_MEMORY_MAX_BYTES", 10)
    monkeypatch.setattr(spool, "JOB_DISK_MAX_BYTES", 20)
    store = Spool()
    messages = [bytes([number]) * 10 for number in range(5)]
    assert all(store.put(message) for message in messages[:3])
    assert store._disk is not None
    thread = fill(store, messages[3:])
    thread.join(0.1)
    assert thread.is_alive()
    assert empty(store) == messages
    thread.join()
    assert store._disk.seek(0, 2) == 0
    store.close()


def test_a_full_disk_makes_it_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(spool, "JOB_MEMORY_MAX_BYTES", 10)
    store = Spool()
    messages = [bytes([number]) * 10 for number in range(4)]
    thread = fill(store, messages)
    assert empty(store) == messages
    thread.join()
    store.close()


def test_closing_lets_the_one_who_waits_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "JOB_MEMORY_MAX_BYTES", 1)
    monkeypatch.setattr(spool, "JOB_DISK_MAX_BYTES", 0)
    store = Spool()
    thread = fill(store, [b"one", b"two", b"three"])
    assert store.get() == b"one"
    store.close()
    thread.join()
    assert store.get() is None
    assert not store.put(b"four")
