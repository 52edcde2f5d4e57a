"""Measures peak memory on the captures that need most, and on batches as clients make them, and compares it with the limits.

    python -m benchmarks.memory [--only NAME] [--share 1.0] [--jobs 1]

Each shape is made by code, read by whole processes (measure.py), and removed. Exit code 1 if a process fails, or takes more than LIMIT_MIB
or the limit of its shape. A smaller `--share` of the connections, messages or requests is quicker, but shows less; for a larger one, only
LIMIT_MIB counts. Where memory grows with each connection or entry, the limit of a shape leaves no more room for each than LIMIT_MIB does
for 2.5 times as many.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from crc32c import crc32c

from benchmarks.measure import OURS, Measurement, Tool, run
from benchmarks.traffic import CLIENT, SERVER, Capture, Connection, Frames, prelude
from tests.scenarios import Single, batch, command_frame, compress, message_metadata, payload_frame
from tests.scenarios.bookkeeper import add, added, ledger_entry

LIMIT_MIB = 350

LARGE_MSS = 64_000
"""Size of packets where only the number of bytes matters: as from a network card that joins segments."""

FRAME_BYTES = 4_900_000
"""Size of a frame almost as large as brokers allow by default."""


ENTRIES_TOGETHER = 50
"""Entries that are on their way at the same time."""

FIRST_ENTRY = 1 << 21
"""First number of entries that all take the same number of bytes."""


class Shape(NamedTuple):
    """A capture of a given size: a number of connections, messages or requests, and the commands that read it."""

    make: Callable[[Capture, int], None]
    size: int
    commands: tuple[str, ...]
    limit_mib: float = float("inf")
    """A limit below LIMIT_MIB, for this size or a smaller one."""


def send(number: int, payload: bytes, **metadata: object) -> bytes:
    """Return the frame of a SEND of producer 1."""
    return payload_frame("SEND", message_metadata(sequence_id=number, **metadata), payload, producer_id=1, sequence_id=number)


def batch_of(codec: str, messages: list[Single]) -> tuple[bytes, dict[str, object]]:
    """Return the compressed payload of a batch, and the metadata fields that describe it."""
    plain = batch(messages)
    return compress(codec, plain), {"compression": codec, "uncompressed_size": len(plain), "num_messages_in_batch": len(messages)}


def connections(capture: Capture, count: int, mss: int = LARGE_MSS) -> list[Connection]:
    """Open connections, each with a producer and a consumer."""
    made = [Connection(capture, number, mss) for number in range(count)]
    for connection in made:
        connection.open()
        for write in prelude(1000):
            connection.write(*write)
    return made


def dense_batches(capture: Capture, count: int) -> None:
    """Write batches of a few hundred bytes that hold as many messages as are read of one batch."""
    (connection,) = connections(capture, 1)
    payload, metadata = batch_of("ZSTD", [Single(b"x" * 200, {"partition_key": "key"})] * 65_000)
    for number in range(count):
        connection.write(CLIENT, send(number, payload, **metadata))


def wide_batches(capture: Capture, count: int) -> None:
    """Write batches whose messages have properties that take as much memory as one batch may use."""
    (connection,) = connections(capture, 1)
    properties = [{"key": f"name-{number}", "value": "v" * 20} for number in range(200)]
    payload, metadata = batch_of("ZSTD", [Single(b"x", {"properties": properties})] * 1_000)
    for number in range(count):
        connection.write(CLIENT, send(number, payload, **metadata))


def batches(capture: Capture, count: int) -> None:
    """Write batches of the clients' default size, produced and consumed."""
    (connection,) = connections(capture, 1)
    payload, metadata = batch_of("LZ4", [Single(b"x" * 100, {"partition_key": f"key-{number}"}) for number in range(1_000)])
    frames = Frames(1_000, "LZ4", int(str(metadata["uncompressed_size"])))
    for number in range(count):
        sent, receipt, message, ack = frames.of(number, payload)
        connection.write(CLIENT, sent)
        connection.write(SERVER, receipt + message)
        connection.write(CLIENT, ack)


def unfinished_frames(capture: Capture, count: int) -> None:
    """Write all but the last byte of a large frame on each of the connections."""
    frame = send(0, bytes(FRAME_BYTES))[:-1]
    for connection in connections(capture, count):
        connection.write(CLIENT, frame)


def unfinished_chunks(capture: Capture, count: int) -> None:
    """Write 10 of 11 chunks of a message on each of the connections."""
    for connection in connections(capture, count):
        for number in range(10):
            chunk = {"uuid": "large", "chunk_id": number, "num_chunks_from_msg": 11, "total_chunk_msg_size": 11 * FRAME_BYTES}
            connection.write(CLIENT, send(0, bytes(FRAME_BYTES), **chunk))


def idle_connections(capture: Capture, count: int) -> None:
    """Open connections that exchange no more than the versions of client and broker."""
    for number in range(count):
        connection = Connection(capture, number)
        connection.open()
        for write in prelude(1)[:2]:
            connection.write(*write)


def large_packets(capture: Capture, count: int) -> None:
    """Write two packets of the size that a host hands to its network card on each of the connections, all open at once."""
    made = connections(capture, count)
    for number in range(2):
        for connection in made:
            connection.write(CLIENT, send(number, bytes(LARGE_MSS - 1_000)))


def large_names(capture: Capture, count: int) -> None:
    """Write requests for topics whose names fill a frame."""
    (connection,) = connections(capture, 1)
    for number in range(count):
        topic = f"persistent://public/default/{number}-" + "x" * FRAME_BYTES
        connection.write(CLIENT, command_frame("LOOKUP", topic=topic, request_id=10 + number))


def stored_entries(capture: Capture, count: int) -> None:
    """Write entries that a client publishes, and that its broker stores on two bookies."""
    client = Connection(capture, 0, LARGE_MSS)
    bookies = [Connection(capture, 1 + number, LARGE_MSS, (f"10.9.0.{number + 1}", 3181)) for number in range(2)]
    for connection in (client, *bookies):
        connection.open()
    for write in prelude(1000):
        client.write(*write)
    entries = numbered_entries()
    for _ in range(count // ENTRIES_TOGETHER or 1):
        sent, stored, answers, receipts = map(b"".join, zip(*islice(entries, ENTRIES_TOGETHER), strict=True))
        client.write(CLIENT, sent)
        for bookie in bookies:
            bookie.write(CLIENT, stored)
        for bookie in bookies:
            bookie.write(SERVER, answers)
        client.write(SERVER, receipts)


def numbered_entries() -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """Yield SEND, ADD, its answer and the receipt of each entry: the frames of the first with other numbers, as building is slow."""
    first = varint(FIRST_ENTRY)
    sent = send(FIRST_ENTRY, b"x" * 100)
    receipt = command_frame("SEND_RECEIPT", producer_id=1, sequence_id=FIRST_ENTRY, message_id={"ledgerId": 7, "entryId": FIRST_ENTRY})
    magic = sent.index(b"\x0e\x01")
    for number in count(FIRST_ENTRY):
        now = varint(number)
        head, covered = sent[:magic].replace(first, now), sent[magic + 6 :].replace(first, now)
        data = b"\x0e\x01" + crc32c(covered).to_bytes(4, "big") + covered
        yield head + data, add(ledger_entry(7, number, data)), added(7, number), receipt.replace(first, now)


def varint(number: int) -> bytes:
    """Return the protobuf varint of a number from FIRST_ENTRY on."""
    return bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14 & 127 | 128, number >> 21 & 127))


SHAPES = {
    "dense-batches": Shape(dense_batches, 2, ("decode {} -V --records frame,message", "messages {}", "messages {} -f ndjson"), 96),
    "wide-batches": Shape(wide_batches, 8, ("decode {} -V --records frame,message", "messages {}", "messages {} -f ndjson")),
    "batches": Shape(
        batches, 300, ("messages {}", "decode {} --records frame,finding -f ndjson", "decode {} --records all -f ndjson", "diagnose {}"), 64
    ),
    "unfinished-frames": Shape(unfinished_frames, 80, ("decode {} -f ndjson", "diagnose {}")),
    "unfinished-chunks": Shape(unfinished_chunks, 8, ("messages {} -f ndjson", "diagnose {}")),
    "idle-connections": Shape(idle_connections, 20_000, ("decode {} -f ndjson", "diagnose {}", "stats {}"), 160),
    "stored-entries": Shape(stored_entries, 100_000, ("stats {} --by legs", "decode {} --records journey -f ndjson"), 135),
    "large-packets": Shape(large_packets, 4_000, ("stats {}",)),
    "large-names": Shape(large_names, 64, ("decode {} -f ndjson", "diagnose {}", "stats {}")),
}


def write(out: Path, make: Callable[[Capture, int], None], size: int) -> None:
    """Write the capture of a shape."""
    with out.open("wb") as file:
        capture = Capture(file)
        make(capture, size)
        capture.flush()


def command(capture: Path, line: str) -> Measurement:
    """Return the measurement of a command, not run yet."""
    return Measurement(capture, line, Tool(line, f"{OURS} {line} -q"))


def measured(name: str, share: float) -> list[Measurement]:
    """Run the commands of a shape, one after the other, and return their measurements."""
    shape = SHAPES[name]
    with TemporaryDirectory() as folder:
        capture = Path(folder) / "shape.pcap"
        write(capture, shape.make, max(round(shape.size * share), 1))
        measurements = [command(capture, line) for line in shape.commands]
        for measurement in measurements:
            run(measurement, Path(folder) / "out")
    return measurements


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SHAPES, action="append")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=1, help="shapes at a time")
    options = parser.parse_args(arguments)
    names = options.only or [*SHAPES]
    failed = False
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, measurements in zip(names, pool.map(partial(measured, share=options.share), names), strict=True):
            for measurement in measurements:
                result = measurement.failure or f"{measurement.most:6,.0f} MiB {measurement.best:6.1f} s"
                limit = LIMIT_MIB if options.share > 1 else min(LIMIT_MIB, SHAPES[name].limit_mib)
                is_bad = bool(measurement.failure) or measurement.most > limit
                failed = failed or is_bad
                print(f"{'BAD' if is_bad else 'ok ':3} {name:18} {measurement.name:42} {result}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
