"""Queue to a recorder: order, bound, and exceptions."""

from __future__ import annotations

import threading

import pytest

from pulsarscope.live.packet_source import CapturedPackets
from pulsarscope.live.write_queue import WriteQueue
from pulsarscope.model.errors import OutputError


class Disk:
    """Recorder that writes one piece each time it is allowed to, or fails at a piece."""

    shortened = 0

    def __init__(self, pieces: int, fails_at: bytes = b"") -> None:
        self.written: list[bytes] = []
        self.free = threading.Semaphore(pieces)
        self._fails_at = fails_at

    def _write(self, data: bytes) -> None:
        assert self.free.acquire(timeout=10)
        if data == self._fails_at:
            raise OutputError("no space left")
        self.written.append(data)

    def __call__(self, captured: CapturedPackets) -> None:
        self._write(captured.data)

    def describe(self, interface: bytes) -> None:
        self._write(interface)

    def end(self) -> None:
        self._write(b"end")

    def recorded(self) -> tuple[int, str]:
        raise NotImplementedError

    def trigger(self, moment: int) -> None:
        raise NotImplementedError

    def detach(self) -> None:
        raise NotImplementedError


def packets(data: bytes) -> CapturedPackets:
    return CapturedPackets(data, 1, 0)


def test_everything_is_recorded_in_order() -> None:
    queue = WriteQueue(disk := Disk(pieces=4))
    queue.write(packets(b"one"))
    queue.describe(b"interface")
    queue.write(packets(b"two"))
    queue.end()
    assert disk.written == [b"one", b"interface", b"two", b"end"]


def test_a_full_queue_waits_for_the_disk() -> None:
    queue = WriteQueue(disk := Disk(pieces=0), max_bytes=6)
    queue.write(packets(b"one"))
    queue.write(packets(b"two"))
    writer = threading.Thread(target=queue.write, args=(packets(b"six"),))
    writer.start()
    writer.join(0.1)
    assert writer.is_alive()
    disk.free.release()
    writer.join(10)
    assert not writer.is_alive()
    disk.free.release(3)
    queue.end()
    assert disk.written == [b"one", b"two", b"six", b"end"]


def test_packets_larger_than_the_queue_are_recorded() -> None:
    queue = WriteQueue(disk := Disk(pieces=3), max_bytes=2)
    queue.write(packets(b"large"))
    queue.write(packets(b"larger"))
    queue.end()
    assert disk.written == [b"large", b"larger", b"end"]


def test_closing_records_what_waits_and_ends_no_file() -> None:
    queue = WriteQueue(disk := Disk(pieces=2))
    queue.write(packets(b"one"))
    queue.write(packets(b"two"))
    queue.close()
    assert disk.written == [b"one", b"two"]


@pytest.mark.parametrize("fails_at", [b"one", b"two", b"end"])
def test_a_failure_is_raised_once_nothing_more_is_recorded(fails_at: bytes) -> None:
    queue = WriteQueue(disk := Disk(pieces=3, fails_at=fails_at))

    def record() -> None:
        queue.write(packets(b"one"))
        queue.write(packets(b"two"))
        queue.end()

    with pytest.raises(OutputError, match="no space left"):
        record()
    queue.close()
    assert disk.written == [b"one", b"two"][: [b"one", b"two", b"end"].index(fails_at)]


def test_a_failure_wakes_who_waits_for_room() -> None:
    queue = WriteQueue(disk := Disk(pieces=0, fails_at=b"one"), max_bytes=3)
    queue.write(packets(b"one"))
    threading.Timer(0.05, disk.free.release).start()
    with pytest.raises(OutputError):
        queue.write(packets(b"two"))
