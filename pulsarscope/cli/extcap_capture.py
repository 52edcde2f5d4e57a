"""Capturing for Wireshark: a capture as `live` makes it, with the names of frames and the findings as packet comments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from pulsarscope import __version__
from pulsarscope.capture.block import Block, CaptureInterface, PacketRecord
from pulsarscope.cli.arguments.live_request import LiveRequest
from pulsarscope.cli.arguments.options import ReadOptions
from pulsarscope.cli.arguments.read_options import engine_options
from pulsarscope.cli.live_capture import open_source, ports_of
from pulsarscope.cli.signals import stopped
from pulsarscope.engine.local import run_blocks
from pulsarscope.engine.options import Options
from pulsarscope.live.feed import LiveFeed
from pulsarscope.model.records import FindingRow, FrameRow
from pulsarscope.model.text import escape
from pulsarscope.output.export.pcapng import interface_block, packet_block, secrets_block, section_block

GONE = 0
"""Number that stands for any packet that was already passed on."""


def capture(request: LiveRequest, fifo: str) -> None:
    """Capture into a named pipe until a signal, or until it has no reader. Raises UsageError or OSError on failure."""
    options = options_of_comments()
    source = open_source(request, ports_of(request, options))
    feed = LiveFeed(source, key_logs=request.reading.tls_keylog or (), records=True)
    with Path(fifo).open("wb", buffering=0) as pipe, closing(feed), stopped(feed, None):
        pipe.writelines(commented(feed, options))


def options_of_comments() -> Options:
    """Return the options of a run whose rows become comments."""
    kinds = frozenset({FrameRow.kind, FindingRow.kind})
    return msgspec.structs.replace(engine_options(ReadOptions()), records=kinds, payloads=True, rules=True, live=True)


class _Recorded:
    """The blocks of a feed, whose packets are kept until they are taken."""

    def __init__(self, feed: Any) -> None:
        self._feed = feed
        self.records: list[PacketRecord] = []
        self.secrets: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._feed, name)

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        block: Block = next(self._feed)
        self.records += block.records
        return block

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """Return the secrets of the feed, which are also kept until then."""
        secrets: list[tuple[int, bytes]] = self._feed.take_secrets()
        self.secrets += [lines for _, lines in secrets]
        return secrets


def commented(feed: Any, options: Options) -> Iterator[bytes]:
    """Yield a pcapng capture of a feed, part by part, with TLS secrets, and with comments about what was decoded up to each packet."""
    blocks = _Recorded(feed)
    run = run_blocks(feed.name, blocks, options)
    interfaces: dict[CaptureInterface, int] = {}
    late: list[str] = []
    yield section_block(f"pulsarscope {__version__}")
    for batch in run:
        parts = [secrets_block(lines) for lines in blocks.secrets]
        comments = _comments(batch.rows, {record.number for record in blocks.records})
        late += comments.pop(GONE, [])
        for record in blocks.records:
            if (number := interfaces.get(record.interface)) is None:
                number = interfaces[record.interface] = len(interfaces)
                parts.append(interface_block(*record.interface))
            lines = comments.get(record.number, [])
            if record is blocks.records[-1]:
                lines += late
                late = []
            parts.append(packet_block(number, record.time, record.wire_bytes, record.data, "\n".join(lines)))
        blocks.records.clear()
        blocks.secrets.clear()
        if parts:
            yield b"".join(parts)


def _comments(rows: Sequence[Any], present: set[int]) -> dict[int, list[str]]:
    """Return the comment lines of each packet.

    Lines under GONE are about packets that were already passed on; the last packet gets them.
    """
    comments: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        if isinstance(row, FrameRow) and row.packet in present:
            comments[row.packet].append(f"{row.packet}.{row.sub} {escape(row.command or row.status)}")
        elif isinstance(row, FindingRow):
            about = "" if row.packet is None or row.packet in present else f" (packet {row.packet})"
            comments[row.packet if row.packet in present else GONE].append(f"{row.severity} {escape(row.code)}: {escape(row.text)}{about}")
    return comments
