"""Live feed without a network: all losses are reported."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.capture import Block, BlockReader
from pulsarscope.live import capture_loop
from pulsarscope.live import feed as module
from pulsarscope.live.capture_worker import CaptureState
from pulsarscope.live.feed import LiveFeed
from pulsarscope.live.packet_source import CapturedPackets
from pulsarscope.live.recorder import Recorder, Rotation, TriggeredRecorder
from pulsarscope.live.write_queue import WriteQueue
from pulsarscope.model.errors import OutputError
from pulsarscope.model.flow import source_of_key
from pulsarscope.output.export.pcapng import interface_block, section_block, statistics_block
from tests.scenarios.live_packets import SECOND, START, captured, numbers

WORKERS = pytest.mark.parametrize("forks", [False, True], ids=["thread", "process"])


class Scripted:
    """Source that returns scripted packets, then waits or fails."""

    link_type = 1
    interfaces: tuple[str, ...] = ("test0",)
    down = False
    reports_drops = True

    def __init__(self, script: Iterable[CapturedPackets], *, failure: OSError | None = None, dropped: int = 0, forks: bool = False) -> None:
        self.name = "test0"
        self.forks = forks
        self.received = self.dropped = 0
        self.closed = False
        self.exhausted = multiprocessing.Event()
        self._script = deque(script)
        self._failure = failure
        self._dropped = dropped

    def read(self, seconds: float, packets_max: int | None = None) -> CapturedPackets | None:
        if self._script:
            entry = self._script.popleft()
            if packets_max is not None and entry.packets > packets_max:
                pytest.fail("the script has no such pieces")
            return entry
        if self._failure is not None:
            raise self._failure
        self.exhausted.set()
        threading.Event().wait(min(seconds, 0.01))
        return None

    def count(self) -> None:
        self.dropped = self._dropped

    def fullness(self) -> float:
        return len(self._script) / 100

    def close(self) -> None:
        self.closed = True


def codes(blocks: Iterable[Block]) -> list[str]:
    return [finding.code for block in blocks for finding in block.findings]


def run(feed: LiveFeed, source: Scripted) -> list[Block]:
    """Return all blocks until the script ends."""

    def stop() -> None:
        source.exhausted.wait(5)
        feed.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    blocks = list(feed)
    stopper.join()
    feed.close()
    return blocks


class MemoryRecorder:
    """Recorder into memory, which may fail."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.packets: list[CapturedPackets] = []
        self.shortened = 0
        self.triggers: list[int] = []
        self._failure = failure
        self._ended = False

    def recorded(self) -> tuple[int, str]:
        return int(self._ended), f"file of {len(self.triggers)} triggers"

    def trigger(self, moment: int) -> None:
        assert not self._ended
        self.triggers.append(moment)

    def describe(self, interface: bytes) -> None: ...

    def detach(self) -> None: ...

    def __call__(self, captured: CapturedPackets) -> None:
        if self._failure is not None:
            raise self._failure
        self.packets.append(captured)

    def end(self) -> None:
        self._ended = True


class StalledRecorder(MemoryRecorder):
    """Recorder on a disk that takes nothing before it goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def __call__(self, captured: CapturedPackets) -> None:
        self.goes_on.wait()
        super().__call__(captured)


@WORKERS
def test_all_packets_arrive_in_order(forks: bool) -> None:
    source = Scripted((captured(number) for number in range(1000)), forks=forks)
    feed = LiveFeed(source)
    assert numbers(run(feed, source)) == [(number + 1, number) for number in range(1000)]
    health = feed.health()
    assert (health.packets, health.skipped_packets, health.waiting_bytes) == (1000, 0, 0)
    assert source.closed


def test_the_interface_stands_behind_flow_keys_when_asked() -> None:
    source = Scripted(captured(number) for number in range(3))
    assert {source_of_key(key) for block in run(LiveFeed(source, by_interface=True), source) for key in block.flows} == {"test0"}


@WORKERS
def test_it_stops_after_so_many_packets(forks: bool) -> None:
    source = Scripted((captured(number) for number in range(10)), forks=forks)
    assert len(numbers(LiveFeed(source, packets_max=4))) == 4


def test_what_waited_when_it_was_stopped_is_still_taken() -> None:
    source = Scripted(captured(number) for number in range(50))
    feed = LiveFeed(source)
    feed.stop()
    assert len(numbers(feed)) == 50


@WORKERS
def test_what_still_waits_long_after_the_stop_is_reported_once_and_counts_as_not_decoded(
    forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0)
    lines: list[str] = []
    source = Scripted((captured(number) for number in range(50)), forks=forks)
    feed = LiveFeed(source, notify=lines.append)
    blocks = [next(feed), next(feed)]
    source.exhausted.wait(5)
    feed.stop()
    assert feed.stopping
    while feed.packets < 50:
        time.sleep(0.01)
    while feed.undecoded > 20:
        blocks.append(next(feed))
        feed.stop()
    assert len(numbers(blocks)) in (30, 31)  # the latest may not be decoded yet
    assert len(lines) == 1
    assert re.fullmatch(r"still decoding [\d,]+ bytes of packets; Ctrl-C skips them", lines[0])
    feed.close()
    assert feed.undecoded == 20


@WORKERS
def test_what_does_not_fit_is_skipped_in_the_open_and_kept_all_the_same(forks: bool) -> None:
    size = len(captured(0).data)
    recorder = MemoryRecorder()
    source = Scripted((captured(number) for number in range(100)), forks=forks)
    feed = LiveFeed(source, recorder=recorder, queue_bytes=5 * size)
    first = next(feed)  # all others arrive while this block is processed
    source.exhausted.wait(5)
    blocks = [first, *run(feed, source)]
    decoded = numbers(blocks)
    health = feed.health()
    assert len(decoded) < 100
    assert feed.packets == 100 == len(decoded) + health.skipped_packets
    assert forks or len(recorder.packets) == 100
    assert all(packet == said + 1 for packet, said in decoded)  # names are those of the file
    (finding,) = [row for block in blocks for row in block.findings if row.code == "packets-skipped"]
    assert finding.evidence["packets"] == health.skipped_packets
    assert finding.evidence["bytes"] == health.skipped_packets * size


@WORKERS
def test_a_trigger_that_comes_after_the_last_packet_counts(forks: bool) -> None:
    recorder = MemoryRecorder()
    source = Scripted([captured(0)], forks=forks)
    feed = LiveFeed(source, recorder=recorder, packets_max=1)
    assert len(numbers(feed)) == 1
    feed.trigger(START)
    feed.close()
    assert feed.state == CaptureState(True, None, None, 1, "file of 1 triggers")


@WORKERS
def test_what_the_kernel_dropped_is_reported_once(forks: bool) -> None:
    source = Scripted((captured(number) for number in range(10)), dropped=7, forks=forks)
    blocks = run(LiveFeed(source), source)
    (finding,) = [row for block in blocks for row in block.findings if row.code != "decode-lag"]
    assert (finding.code, finding.evidence) == ("packets-dropped", {"packets": 7, "packets_so_far": 7, "interface": "test0"})


def test_decoding_that_is_late_is_reported() -> None:
    source = Scripted([captured(0)])  # in 2023
    assert "decode-lag" in codes(run(LiveFeed(source), source))


@WORKERS
def test_an_interface_that_goes_away_ends_it_with_what_came_before(forks: bool) -> None:
    feed = LiveFeed(Scripted([captured(0)], failure=OSError(100, "Network is down"), forks=forks))
    blocks = list(feed)
    feed.close()
    assert len(numbers(blocks)) == 1
    assert "interface-gone" in codes(blocks)


@WORKERS
def test_a_full_disk_ends_it_with_what_came_before(forks: bool) -> None:
    feed = LiveFeed(Scripted((captured(number) for number in range(10)), forks=forks), recorder=MemoryRecorder(OutputError("full")))
    given = numbers(feed)  # ends without a stop
    assert given == numbers(run(LiveFeed(source := Scripted(captured(number) for number in range(10))), source))[: len(given)]
    feed.close()
    assert isinstance(feed.state.failure, OutputError)


def test_packets_are_decoded_while_the_disk_stalls() -> None:
    recorder = StalledRecorder()
    feed = LiveFeed(Scripted(captured(number) for number in range(10)), recorder=recorder)
    decoded = 0
    for block in feed:
        decoded += len(numbers([block]))
        if decoded == 10:
            break
    assert recorder.packets == []
    recorder.goes_on.set()
    feed.close()
    assert len(recorder.packets) == 10


@pytest.mark.parametrize("stalls", [False, True])
def test_a_stop_says_that_it_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch, *, stalls: bool) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(module, "LATE_SECONDS", 0)
    recorder, told = StalledRecorder(), threading.Event()
    lines: list[str] = []

    def notify(line: str) -> None:
        lines.append(line)
        told.set()

    feed = LiveFeed(source := Scripted([captured(0)]), recorder=recorder, notify=notify)
    if not stalls:
        recorder.goes_on.set()
    feed.start()
    source.exhausted.wait(5)
    closing = threading.Thread(target=feed.close)
    closing.start()
    assert told.wait(5 if stalls else 0.5) == stalls
    recorder.goes_on.set()
    closing.join(10)
    assert not closing.is_alive()
    assert lines == [module.WRITING] * stalls
    assert len(recorder.packets) == 1


@pytest.mark.parametrize("decodes", [False, True])
def test_a_stop_says_so_too_when_no_more_packets_can_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch, *, decodes: bool) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(module, "LATE_SECONDS", 0)
    monkeypatch.setattr(capture_loop, "WriteQueue", partial(WriteQueue, max_bytes=1))
    recorder, told = StalledRecorder(), threading.Event()
    source = Scripted(captured(number) for number in range(10))
    feed = LiveFeed(source, recorder=recorder, queue_bytes=1 << 20 if decodes else None, notify=lambda _: told.set())
    feed.start()
    feed.stop()
    reading = threading.Thread(target=(lambda: numbers(feed)) if decodes else feed.wait)
    reading.start()
    assert told.wait(5)
    recorder.goes_on.set()
    reading.join(10)
    assert not reading.is_alive()
    feed.close()


@pytest.mark.parametrize("decodes", [False, True])
@pytest.mark.parametrize("said", [False, True])
def test_a_second_signal_does_not_wait_for_the_disk_once_that_has_been_said(
    monkeypatch: pytest.MonkeyPatch, *, decodes: bool, said: bool
) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.1 if said else 60)
    monkeypatch.setattr(module, "LATE_SECONDS", 0)
    monkeypatch.setattr(capture_loop, "WriteQueue", partial(WriteQueue, max_bytes=1))
    recorder, told = StalledRecorder(), threading.Event()
    source = Scripted(captured(number) for number in range(10))
    feed = LiveFeed(source, recorder=recorder, queue_bytes=1 << 20 if decodes else None, notify=lambda _: told.set())
    take = feed._worker.take

    def interrupted(seconds: float) -> Any:
        if told.is_set() or not said:
            raise KeyboardInterrupt
        return take(seconds)

    monkeypatch.setattr(feed._worker, "take", interrupted)
    feed.start()
    feed.stop()
    with pytest.raises(KeyboardInterrupt):
        numbers(feed) if decodes else feed.wait()
    if said:
        with pytest.raises(KeyboardInterrupt):
            feed.close()
        assert not recorder.packets
    recorder.goes_on.set()
    if not said:
        feed.close()
        assert recorder.packets


@WORKERS
def test_triggers_that_came_too_late_count_to_the_end(forks: bool, tmp_path: Path) -> None:
    recorder = TriggeredRecorder(Recorder(str(tmp_path / "a.pcapng"), section_block(""), Rotation(numbered=True), bytes), 1)
    feed = LiveFeed(source := Scripted([captured(number) for number in range(200)], forks=forks), recorder=recorder)
    feed.start()
    source.exhausted.wait(5)
    feed.trigger(START - SECOND)
    feed.close()
    assert feed.health().shortened_triggers == 1


class Late(Scripted):
    """Source whose kernel returns received packets late: after `waits` reads, or piece by piece."""

    def __init__(self, script: Iterable[CapturedPackets], *, received: int, waits: int) -> None:
        super().__init__(script)
        self._received = received
        self._waits = waits

    def read(self, seconds: float, packets_max: int | None = None) -> CapturedPackets | None:
        if self._waits:
            self._waits -= 1
            return None
        return super().read(seconds, packets_max)

    def count(self) -> None:
        self.received = self._received + 7
        self.dropped = 7

    def fullness(self) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("received", "waits", "taken"), [(3, 4, 3), (0, 4, 0), (3, 0, 3)], ids=["after a while", "none is missing", "piece by piece"]
)
def test_packets_that_the_kernel_hands_over_late_are_taken_at_a_stop(received: int, waits: int, taken: int) -> None:
    feed = LiveFeed(Late((captured(number) for number in range(3)), received=received, waits=waits))
    feed.stop()
    assert len(numbers(feed)) == taken


def test_packets_that_never_come_are_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.live.capture_loop.LATE_SECONDS", 0.05)
    feed = LiveFeed(Late((), received=3, waits=0))
    feed.stop()
    assert numbers(feed) == []


class Endless(Scripted):
    """Source that always has packets."""

    def read(self, seconds: float, packets_max: int | None = None) -> CapturedPackets | None:
        assert seconds > 0
        assert packets_max is None
        return captured(0, time.time() - START / SECOND)

    def fullness(self) -> float:
        return 1.0


@WORKERS
def test_a_line_that_never_pauses_is_left_when_asked(forks: bool) -> None:
    feed = LiveFeed(Endless((), forks=forks))
    assert next(feed) is not None
    feed.stop()
    assert set(codes(feed)) <= {"packets-skipped"}
    feed.close()


@WORKERS
def test_an_error_of_the_worker_is_no_quiet_end(forks: bool) -> None:
    feed = LiveFeed(Scripted([captured(0)], forks=forks), recorder=MemoryRecorder(ValueError("odd")))
    assert len(numbers(feed)) <= 1  # decoding does not wait for the recorder
    feed.close()
    assert "odd" in str(feed.state.failure)


def test_a_process_that_is_killed_is_no_quiet_end(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Scripted([captured(0)], forks=True)
    feed = LiveFeed(source)
    monkeypatch.setattr(source, "fullness", lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert len(numbers(feed)) < 2
    feed.close()
    assert str(feed.state.failure) == "the capturing process was killed (signal 9); packets after that are missing"


def test_files_are_whole_when_the_decoding_process_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "kept.pcapng"
    if not (child := os.fork()):
        source = Scripted([captured(number) for number in range(10)], forks=True)
        head = section_block("") + interface_block(1, 0, "test0")
        feed = LiveFeed(source, recorder=Recorder(str(file), head, Rotation(), lambda: statistics_block(START, 10, 0)))
        feed.start()
        source.exhausted.wait(5)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    deadline = time.monotonic() + 10
    while not file.read_bytes().endswith(statistics_block(START, 10, 0)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(numbers(BlockReader(str(file)))) == 10


@WORKERS
def test_secrets_reach_the_decoder_and_the_recorder(forks: bool, tmp_path: Path) -> None:
    log, file = tmp_path / "keys", tmp_path / "kept.pcapng"
    recorder = Recorder(str(file), section_block("") + interface_block(1, 0, "test0"), Rotation(), bytes)
    source = Scripted([captured(0)], forks=forks)
    feed = LiveFeed(source, recorder=recorder, key_logs=[str(log)])
    feed.start()
    assert feed.take_secrets() == []
    log.write_bytes(b"CLIENT_RANDOM 00 11\n")
    assert len(numbers(run(feed, source))) == 1
    assert feed.take_secrets() == [(0, b"CLIENT_RANDOM 00 11\n")]
    assert feed.take_secrets() == []
    reader = BlockReader(str(file))
    assert len(numbers(reader)) == 1
    assert [lines for _, lines in reader.take_secrets()] == [b"CLIENT_RANDOM 00 11\n"]


def test_the_decoding_process_holds_no_source_that_another_one_reads() -> None:
    source = Scripted((captured(number) for number in range(10)), forks=True)
    feed = LiveFeed(source)
    feed.start()
    assert source.closed
    assert len(numbers(run(feed, source))) == 10
