"""Live feed without a network: all losses are reported."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

import pytest

from pulsarscope.capture import Block
from pulsarscope.live import feed as module
from pulsarscope.live.feed import LiveFeed
from pulsarscope.live.source import CapturedPackets
from pulsarscope.model.errors import OutputError
from pulsarscope.model.flow import source_of_key
from tests.scenarios.live_packets import SECOND, START, captured, numbers


class Scripted:
    """Source that returns scripted packets, then waits or fails."""

    link_type = 1
    reports_drops = True

    def __init__(self, script: Iterable[CapturedPackets], *, failure: OSError | None = None, dropped: int = 0) -> None:
        self.name = "test0"
        self.received = self.dropped = 0
        self.closed = False
        self.exhausted = threading.Event()
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
    return blocks


def test_all_packets_arrive_in_order() -> None:
    source = Scripted(captured(number) for number in range(1000))
    feed = LiveFeed(source)
    assert numbers(run(feed, source)) == [(number + 1, number) for number in range(1000)]
    assert (feed.packets, feed.skipped_packets, feed.waiting_bytes) == (1000, 0, 0)
    assert source.closed


def test_the_interface_stands_behind_flow_keys_when_asked() -> None:
    source = Scripted(captured(number) for number in range(3))
    assert {source_of_key(key) for block in run(LiveFeed(source, by_interface=True), source) for key in block.flows} == {"test0"}


def test_it_stops_after_so_many_packets() -> None:
    source = Scripted(captured(number) for number in range(10))
    assert len(numbers(LiveFeed(source, packets_max=4))) == 4


def test_what_waited_when_it_was_stopped_is_still_taken() -> None:
    source = Scripted(captured(number) for number in range(50))
    feed = LiveFeed(source)
    feed.stop()
    assert len(numbers(feed)) == 50


def test_what_does_not_fit_is_skipped_in_the_open_and_kept_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(captured(0).data)
    monkeypatch.setattr(module, "LIVE_QUEUE_MAX_BYTES", 5 * size)
    recorded: list[CapturedPackets] = []

    class MemoryRecorder:
        def describe(self, interface: bytes) -> None: ...

        def __call__(self, captured: CapturedPackets) -> None:
            recorded.append(captured)

        def end(self) -> None: ...

    source = Scripted(captured(number) for number in range(100))
    feed = LiveFeed(source, recorder=MemoryRecorder())
    first = next(feed)  # while this block is looked at, all others come
    source.exhausted.wait(5)
    blocks = [first, *run(feed, source)]
    decoded = numbers(blocks)
    assert len(decoded) < 100
    assert feed.packets == 100 == len(recorded) == len(decoded) + feed.skipped_packets
    assert feed.skipped_bytes == feed.skipped_packets * size
    assert all(packet == said + 1 for packet, said in decoded)  # names stay those of the file
    (finding,) = [row for block in blocks for row in block.findings if row.code == "packets-skipped"]
    assert finding.evidence["packets"] == feed.skipped_packets


def test_what_the_kernel_dropped_is_told_once() -> None:
    source = Scripted((captured(number) for number in range(10)), dropped=7)
    blocks = run(LiveFeed(source), source)
    (finding,) = [row for block in blocks for row in block.findings if row.code != "decode-lag"]
    assert (finding.code, finding.evidence) == ("packets-dropped", {"packets": 7, "packets_so_far": 7, "interface": "test0"})


def test_decoding_that_is_late_is_told() -> None:
    source = Scripted([captured(0)])  # of the year 2023
    assert "decode-lag" in codes(run(LiveFeed(source), source))


def test_an_interface_that_goes_away_ends_it_with_what_came_before() -> None:
    feed = LiveFeed(Scripted([captured(0)], failure=OSError(100, "Network is down")))
    blocks = list(feed)
    assert len(numbers(blocks)) == 1
    assert "interface-gone" in codes(blocks)


def test_a_full_disk_ends_it_with_what_came_before() -> None:
    class Full:
        def describe(self, interface: bytes) -> None: ...

        def __call__(self, captured: CapturedPackets) -> None:
            raise OutputError(str(captured.packets))

        def end(self) -> None: ...

    feed = LiveFeed(Scripted(captured(number) for number in range(10)), recorder=Full())
    assert numbers(feed) == []
    assert str(feed.failure) == "1"


class Endless(Scripted):
    """Source that always has packets."""

    def read(self, seconds: float, packets_max: int | None = None) -> CapturedPackets | None:
        assert seconds > 0
        assert packets_max is None
        return captured(0, time.time() - START / SECOND)

    def fullness(self) -> float:
        return 1.0


def test_a_line_that_never_pauses_is_left_when_asked() -> None:
    feed = LiveFeed(Endless(()))
    assert next(feed) is not None
    feed.stop()
    assert codes(feed) == []


def test_an_error_of_the_capturing_thread_is_no_quiet_end() -> None:
    class Broken:
        def describe(self, interface: bytes) -> None: ...

        def __call__(self, captured: CapturedPackets) -> None:
            raise ValueError(captured.packets)

        def end(self) -> None: ...

    feed = LiveFeed(Scripted([captured(0)]), recorder=Broken())
    assert numbers(feed) == []
    assert isinstance(feed.failure, ValueError)
