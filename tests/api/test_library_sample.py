"""A program that uses the library, type-checked as by its users: mypy reads this file in strict mode."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import pulsarscope as ps
from tests.places import CAPTURES


def slow_requests(path: Path, milliseconds: int) -> dict[str, list[int]]:
    """Return the latencies of requests above a limit, by topic."""
    slow: dict[str, list[int]] = {}
    with ps.open(path, payload="hex", redact=True) as capture:
        exchanges: Iterator[ps.ExchangeRow] = capture.exchanges(filter=f"latency > {milliseconds}ms")
        for exchange in exchanges:
            if exchange.latency_ns is not None:
                slow.setdefault(exchange.topic or "no topic", []).append(exchange.latency_ns)
    return slow


def producers_of(frames: Iterator[ps.FrameRow]) -> set[str]:
    """Return the names of the producers that sent messages."""
    return {frame.producer_name for frame in frames if frame.command == "SEND" and frame.producer_name is not None}


def sizes(messages: Iterator[ps.MessageRow]) -> list[int]:
    """Return the sizes of messages that have one."""
    return [message.payload_size for message in messages if message.payload_size is not None]


def commands(data: bytes) -> list[str | None]:
    """Return the commands in the bytes of one stream."""
    splitter = ps.wire.FrameSplitter()
    return [frame.command for frame in splitter.feed(data)]


def errors(path: Path) -> list[tuple[str, int | None]]:
    """Return code and packet of the findings that are errors."""
    findings: Iterator[ps.FindingRow] = ps.open(path).findings(filter="severity == error")
    return [(finding.code, finding.packet) for finding in findings]


async def first_frame(interface: str) -> ps.Row | None:
    """Return the first frame of live traffic."""
    async for row in ps.listen(interface, "frame", ports=[6650]):
        return row
    return None


def test_the_sample_runs() -> None:
    quickstart = CAPTURES / "quickstart.pcapng"
    assert slow_requests(quickstart, 1)
    assert producers_of(ps.open(quickstart).frames())
    assert sum(sizes(ps.open(quickstart.read_bytes()).messages())) > 0
    assert commands(bytes.fromhex("00000009 00000005 08129201 00")) == ["PING"]
    assert errors(quickstart) == []
    with pytest.raises(ps.UsageError, match="nosuch0"):
        asyncio.run(first_frame("nosuch0"))
