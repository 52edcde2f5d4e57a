"""Live capture through a pipe."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.capture import Block, BlockReader, Segment
from pulsarscope.live.pipe import PipeFeed
from pulsarscope.live.recorder import Recorder, Rotation
from pulsarscope.model.flow import source_of_key
from pulsarscope.output.export.pcapng import section_block


def piped(tmp_path: Path, data: bytes, piece: int, *, close: bool = True) -> tuple[str, Callable[[], None]]:
    """Return the path of a pipe that delivers the bytes, and a function that waits for the writer."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    done = threading.Event()

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            try:
                for start in range(0, len(data), piece):
                    pipe.write(data[start : start + piece])
            except BrokenPipeError:
                pass
            if not close:
                done.wait(5)

    thread = threading.Thread(target=write)
    thread.start()

    def end() -> None:
        done.set()
        thread.join()

    return str(path), end


def segments(blocks: list[Block]) -> list[tuple[bytes, Segment]]:
    return sorted((key, segment) for block in blocks for key, segments in block.flows.items() for segment in segments)


@pytest.mark.parametrize("name", ["quickstart.pcapng", "any-sll2.pcap", "go-nack-dlq-gz.pcap.gz"])
@pytest.mark.parametrize("piece", [997, 1 << 20])
def test_it_gives_what_the_file_gives_and_keeps_it(name: str, piece: int, captures: Path, tmp_path: Path) -> None:
    original = captures / name
    path, end = piped(tmp_path, original.read_bytes(), piece)
    recorder = Recorder(str(tmp_path / "kept.pcapng"), section_block("test"), Rotation(), bytes)
    feed = PipeFeed(path, recorder=recorder)
    blocks = list(feed)
    end()
    feed.close()
    expected = segments(list(BlockReader(str(original))))
    assert segments(blocks) == expected
    assert segments(list(BlockReader(str(tmp_path / "kept.pcapng")))) == expected
    assert feed.recognised
    assert feed.packets == blocks[-1].last_packet


def test_it_stops_after_so_many_packets(captures: Path, tmp_path: Path) -> None:
    path, end = piped(tmp_path, (captures / "quickstart.pcapng").read_bytes(), 1 << 20)
    feed = PipeFeed(path, packets_max=20)
    blocks = list(feed)
    feed.close()
    end()
    assert feed.packets == 20
    assert max(segment[0] for block in blocks for segments in block.flows.values() for segment in segments) == 20


class Arriving:
    """Blocks of packets that arrived this many seconds before the reading clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, delays: Sequence[float]) -> None:
        self._delays = iter(delays)
        self._now = 1_700_000_000.0
        monkeypatch.setattr("pulsarscope.live.pipe.time.time", lambda: self._now)

    def __next__(self) -> Any:
        self._now += 1
        last_time = round((self._now - next(self._delays)) * 1e9)
        return SimpleNamespace(packets=1, last_packet=1, last_time=last_time, records=[], flows={}, findings=[])

    def take_secrets(self) -> list[Any]:
        return []


@pytest.mark.parametrize("offset", [0.0, 0.2, 86_400.0 * 365, -3_600.0], ids=["here", "network", "old-capture", "clock-ahead"])
def test_delay_counts_from_the_least_so_far(offset: float, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = PipeFeed("unused")
    feed._reader = Arriving(monkeypatch, [offset + delay for delay in (0, 3, 1, -2, 0)])  # type: ignore[assignment]
    lags = []
    for _ in range(5):
        next(feed)
        lags.append(feed.lag)
    assert lags == pytest.approx([0, 3, 1, 0, 2], abs=1e-3)


def test_a_pipe_that_says_nothing_more_is_left_when_asked(captures: Path, tmp_path: Path) -> None:
    path, end = piped(tmp_path, (captures / "quickstart.pcapng").read_bytes(), 1 << 20, close=False)
    feed = PipeFeed(path)
    first = next(feed)
    feed.stop()
    rest = list(feed)
    end()
    feed.close()
    assert first.packets > 0
    assert not [finding for block in rest for finding in block.findings]


@pytest.mark.parametrize("name", ["quickstart.pcapng", "any-sll2.pcap", "go-nack-dlq-gz.pcap.gz"])
@pytest.mark.parametrize("share", [0, 0.0001, 0.6])
def test_a_pipe_that_is_left_in_the_middle_of_a_packet_is_not_damaged(name: str, share: float, captures: Path, tmp_path: Path) -> None:
    data = (captures / name).read_bytes()
    path, end = piped(tmp_path, data[: math.ceil(len(data) * share)], 1 << 20, close=False)
    feed = PipeFeed(path)
    threading.Timer(0.5, feed.stop).start()
    blocks = list(feed)
    end()
    feed.close()
    assert not [finding for block in blocks for finding in block.findings]


def test_a_pipe_that_nobody_writes_to_is_left_when_asked(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    feed = PipeFeed(str(tmp_path / "pipe"))
    threading.Timer(0.1, feed.stop).start()
    assert not list(feed)
    feed.close()


def test_what_is_no_capture_is_a_finding(tmp_path: Path) -> None:
    path, end = piped(tmp_path, b"GET / HTTP/1.1\r\n\r\n", 1 << 20)
    feed = PipeFeed(path)
    (block,) = list(feed)
    end()
    feed.close()
    assert not feed.recognised
    assert [finding.code for finding in block.findings] == ["not-a-capture"]


def test_a_pipe_that_nobody_writes_into_is_left_when_asked(tmp_path: Path) -> None:
    path = str(tmp_path / "silent")
    os.mkfifo(path)
    feed = PipeFeed(path)
    timer = threading.Timer(0.1, feed.stop)
    timer.start()
    assert not [block for block in feed if block.packets]
    timer.join()
    feed.close()


def test_interfaces_are_distinguished_when_asked(captures: Path, tmp_path: Path) -> None:
    path, end = piped(tmp_path, (captures / "any-sll2.pcap").read_bytes(), 1 << 20)
    feed = PipeFeed(path, by_interface=True)
    sources = {source_of_key(key) for block in feed for key in block.flows}
    end()
    feed.close()
    assert sources == {"ifindex 2"}


def test_secrets_that_come_meanwhile_are_recorded_before_the_packets_that_need_them(captures: Path, tmp_path: Path) -> None:
    data, keys = (captures / "go-tls13.pcap").read_bytes(), (captures / "go-tls13.keylog").read_bytes()
    log, file = tmp_path / "keys", tmp_path / "kept.pcapng"
    reading, writing = os.pipe()
    recorder = Recorder(str(file), section_block(""), Rotation(), bytes)
    feed = PipeFeed(f"/dev/fd/{reading}", recorder=recorder, key_logs=[str(log)])
    os.write(writing, data[: len(data) // 3])
    next(feed)
    assert feed.take_secrets() == []
    log.write_bytes(keys)
    os.write(writing, data[len(data) // 3 :])
    os.close(writing)
    brought = [secrets for _ in feed for secrets in feed.take_secrets()]
    feed.close()
    os.close(reading)
    assert brought == [(0, keys)]
    commands = [frame.command for frame in ps.open(captures / "go-tls13.pcap", tls_keylog=captures / "go-tls13.keylog").frames()]
    assert sorted(str(frame.command) for frame in ps.open(file).frames()) == sorted(map(str, commands))
    assert len(commands) > 50


def test_secrets_are_recorded_once_by_who_only_records(captures: Path, tmp_path: Path) -> None:
    data, keys = (captures / "go-tls13.pcap").read_bytes(), (captures / "go-tls13.keylog").read_bytes()
    log, file = tmp_path / "keys", tmp_path / "kept.pcapng"
    log.write_bytes(keys)
    path, end = piped(tmp_path, data, len(data) // 5)
    feed = PipeFeed(path, recorder=Recorder(str(file), section_block(""), Rotation(), bytes), key_logs=[str(log)])
    feed.wait()
    end()
    feed.close()
    assert file.read_bytes().count(keys) == 1
