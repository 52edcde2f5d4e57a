"""Compare the ways of reading frames and batches, in nanoseconds of processor time.

    python -m benchmarks.readers [--count 4000] [--rounds 5]

Frames: the entries of the generated capture "tiny" (benchmarks/traffic.py), read with templates of earlier frames, as the splitter does;
with the generated readers alone; and with the reference alone. Batches: messages of one shape, and messages of many lengths, read in
columns, many messages at a time; one by one with the generated reader; and with the reference.

On two shared cores (Intel Xeon, CPython 3.11), ns each:

    | what | repeated layouts | generated | reference |
    |---|---:|---:|---:|
    | SEND | 1,468 | 2,394 | 7,075 |
    | SEND_RECEIPT | 817 | 1,279 | 4,613 |
    | MESSAGE | 2,285 | 2,631 | 8,150 |
    | ACK | 834 | 1,257 | 4,391 |
    | message of a batch, one shape | 191 | 1,184 | 5,085 |
    | message of a batch, many lengths | 1,241 | 1,214 | 5,161 |
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterable
from itertools import islice
from unittest.mock import patch

from benchmarks.traffic import batched, scenario
from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.records import MessageRow
from pulsarscope.protocols.pulsar.entry.batch import SINGLES_MAX, BatchReader
from pulsarscope.protocols.pulsar.frame import decoder as decoder_module
from pulsarscope.protocols.pulsar.frame.decoder import FrameDecoder
from pulsarscope.protocols.pulsar.frame.protobuf import Plans
from pulsarscope.protocols.pulsar.frame.templates import HEAD_END, HEAD_START
from tests.scenarios import Single, batch

MESSAGES = 100
"""Messages in a batch."""

Row = tuple[str, float, float, float]
"""Name; nanoseconds with templates or columns, with the generated readers, with the reference."""


class SingleReader(BatchReader):
    """A batch reader that reads no messages by shape."""

    def _read_run(self, *_: object) -> bool:
        self._singles_ahead = SINGLES_MAX
        return False


class ReferenceReader(BatchReader):
    """A batch reader that leaves every message to the reference."""

    def _read_common(self, *_: object) -> int:
        return 0


def frames_of(name: str, count: int) -> dict[str, list[bytes]]:
    """Return `count` frames of a generated capture for each command; their ids have two bytes or more, as templates require."""
    decoder = FrameDecoder()
    frames: dict[str, list[bytes]] = {"SEND": [], "SEND_RECEIPT": [], "MESSAGE": [], "ACK": []}
    for writes in islice(scenario(name, 1).rounds, count // 500 + 2):
        for _, data in writes:
            start = 0
            while start < len(data):
                end = start + 4 + int.from_bytes(data[start : start + 4], "big")
                frames.get(decoder.decode(data, start, end)[0] or "", []).append(data[start:end])
                start = end
    return {command: rows[200 : 200 + count] for command, rows in frames.items()}


def nanoseconds(read: Callable[[bytes], object], items: list[bytes], rounds: int) -> float:
    """Return the least time per item of several rounds over all of them."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for item in items:
            read(item)
        best = min(best, time.process_time() - start)
    return best / len(items) * 1e9


def frame_rows(count: int, rounds: int) -> Iterable[Row]:
    """Measure the ways of reading frames."""
    for command, frames in frames_of("tiny", count).items():
        decoder = FrameDecoder()

        def read_generated(frame: bytes, decoder: FrameDecoder = decoder) -> object:
            return decoder.decode(frame, 0, len(frame))

        def read_templated(frame: bytes, decoder: FrameDecoder = decoder) -> object:
            template = decoder.layouts.get(frame[HEAD_START:HEAD_END])
            return (template and template(frame, 0, len(frame))) or decoder.decode(frame, 0, len(frame))

        templated = nanoseconds(read_templated, frames, rounds)
        with patch.object(decoder_module, "learn", lambda *_: None):
            generated = nanoseconds(read_generated, frames, rounds)
        yield command, templated, generated, nanoseconds(decoder.decode_by_reference, frames, rounds)


def batch_rows(count: int, rounds: int) -> Iterable[Row]:
    """Measure the ways of reading messages of batches, without the digests of their payloads."""
    source = random.Random(1)  # noqa: S311 - no secret
    plan = Plans(show_secrets=False).named("SingleMessageMetadata")
    for name, lengths in (("message of a batch, one shape", 1), ("message of a batch, many lengths", 50)):
        messages = [batched(source, number % 100) for number in range(count)]
        messages = [Single(payload[: len(payload) - number % lengths], fields) for number, (payload, fields) in enumerate(messages)]
        batches = [batch(messages[at : at + MESSAGES]) for at in range(0, count, MESSAGES)]
        times = []
        for kind in (BatchReader, SingleReader, ReferenceReader):
            reader = kind(plan, ("key", "properties", "payload_size", "sequence_id"), None)

            def read(data: bytes, reader: BatchReader = reader) -> None:
                notes: list[Note] = []
                reader.read(data, MESSAGES, MessageRow(sequence_id=1), notes)

            times.append(nanoseconds(read, batches, rounds) / MESSAGES)
        yield name, times[0], times[1], times[2]


def markdown(rows: Iterable[Row]) -> str:
    """Return the figures as a table."""
    lines = ["| what | repeated layouts | generated | reference |", "|---|---:|---:|---:|"]
    lines += [f"| {name} | {fast:,.0f} | {generated:,.0f} | {reference:,.0f} |" for name, fast, generated, reference in rows]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=4000, metavar="N", help="frames of each command, and messages")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    options = parser.parse_args(arguments)
    print(markdown([*frame_rows(options.count, options.rounds), *batch_rows(options.count, options.rounds)]))


if __name__ == "__main__":
    main()
