"""Measures time and memory of commands on captures of N, 2N and 4N of the same thing, all of which must wait or be remembered.

    python -m benchmarks.growth [--only NAME] [--command decode|diagnose] [--size 100000]

Exit code 1 if a process fails, if its processor time without start-up grows faster than the capture (the slope of its logarithm is above
SLOPE_MAX in every round), or if it takes more memory than `benchmarks.memory` allows.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Callable, Iterable
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Measurement, run
from benchmarks.memory import LIMIT_MIB, command, connections, idle_connections, send, write
from benchmarks.traffic import CLIENT, SERVER, Capture, Connection, Frames
from tests.scenarios import command_frame, ethernet, ipv4

SLOPE_MAX = 1.2

GROWTH = 4

ROUNDS_MAX = 3
"""Most rounds to bring the slope down: other work on the machine slows single runs."""

LEAST_SECONDS = 0.01
"""Processor time below which the difference to start-up means nothing."""

TOGETHER = 100
"""Frames in one write."""

COMMANDS = {"decode": "decode {} -f ndjson --records all", "diagnose": "diagnose {} --fail-on never"}


def written(capture: Capture, frames: Iterable[tuple[int, bytes]]) -> None:
    """Write frames of one connection, many of each side at once."""
    (connection,) = connections(capture, 1)
    waiting: tuple[list[bytes], list[bytes]] = ([], [])
    for side, frame in frames:
        waiting[side].append(frame)
        if len(waiting[side]) == TOGETHER:
            for each in (CLIENT, SERVER):
                connection.write(each, b"".join(waiting[each]))
                waiting[each].clear()


def requests(capture: Capture, size: int) -> None:
    """Write requests without a response."""
    written(capture, ((CLIENT, command_frame("LOOKUP", topic="persistent://a/b/c", request_id=10 + number)) for number in range(size)))


def bad_checksums(capture: Capture, size: int) -> None:
    """Write entries that were damaged on their way."""
    frame = bytearray(send(0, b"x" * 100))
    frame[-1] ^= 1
    written(capture, ((CLIENT, bytes(frame)) for _ in range(size)))


def unacknowledged(capture: Capture, size: int) -> None:
    """Deliver messages that the consumer does not acknowledge."""
    frames = Frames()
    written(capture, ((SERVER, frames.of(number, b"x" * 100)[2]) for number in range(size)))


def acknowledged_late(capture: Capture, size: int) -> None:
    """Deliver messages that the consumer acknowledges one by one after it has received all."""
    frames = Frames()
    written(capture, ((side, frames.of(number, b"x" * 100)[2 + (side == CLIENT)]) for side in (SERVER, CLIENT) for number in range(size)))


def producers(capture: Capture, size: int) -> None:
    """Create producers on one topic, and close none."""
    written(
        capture,
        (
            frame
            for number in range(10, 10 + size)
            for frame in (
                (CLIENT, command_frame("PRODUCER", topic="persistent://a/b/c", producer_id=number, request_id=number)),
                (SERVER, command_frame("PRODUCER_SUCCESS", request_id=number, producer_name=f"producer-{number}")),
            )
        ),
    )


def topics(capture: Capture, size: int) -> None:
    """Look up each topic, and subscribe to it."""
    written(
        capture,
        (
            frame
            for number in range(10, 10 + size)
            for frame in (
                (CLIENT, command_frame("LOOKUP", topic=f"persistent://a/b/topic-{number}", request_id=2 * number)),
                (SERVER, command_frame("LOOKUP_RESPONSE", response="Connect", request_id=2 * number)),
                (
                    CLIENT,
                    command_frame(
                        "SUBSCRIBE",
                        topic=f"persistent://a/b/topic-{number}",
                        subscription="s",
                        subType="Shared",
                        consumer_id=number,
                        request_id=2 * number + 1,
                    ),
                ),
                (SERVER, command_frame("SUCCESS", request_id=2 * number + 1)),
            )
        ),
    )


def consumers(capture: Capture, size: int) -> None:
    """Subscribe consumers of one subscription, each of which acknowledges an entry."""
    written(
        capture,
        (
            frame
            for number in range(10, 10 + size)
            for frame in (
                (
                    CLIENT,
                    command_frame(
                        "SUBSCRIBE",
                        topic="persistent://a/b/c",
                        subscription="s",
                        subType="Shared",
                        consumer_id=number,
                        request_id=number,
                    ),
                ),
                (SERVER, command_frame("SUCCESS", request_id=number)),
                (
                    CLIENT,
                    command_frame("ACK", consumer_id=number, ack_type="Individual", message_id=[{"ledgerId": 7, "entryId": number}]),
                ),
            )
        ),
    )


def fragments(capture: Capture, size: int) -> None:
    """Write first fragments of packets, without the rest."""
    packet = bytearray(ethernet(ipv4("10.0.0.1", "10.0.0.2", bytes(80))))
    packet[20:22] = b"\x20\x00"  # more fragments follow
    for number in range(size):
        packet[18:20] = struct.pack(">H", number & 0xFFFF)
        packet[29] = number >> 16
        capture.add(bytes(packet))


def syns(capture: Capture, size: int) -> None:
    """Write requests for connections that nobody accepts."""
    for number in range(size):
        Connection(capture, number).knock()


SHAPES: dict[str, Callable[[Capture, int], None]] = {
    "requests": requests,
    "bad-checksums": bad_checksums,
    "unacknowledged": unacknowledged,
    "acknowledged-late": acknowledged_late,
    "producers": producers,
    "topics": topics,
    "consumers": consumers,
    "connections": idle_connections,
    "fragments": fragments,
    "syns": syns,
}


def slope(start: Measurement, measurements: list[Measurement]) -> float:
    """Return how fast the processor time grows: 1 if it is proportional to the number. `start` measures a capture with one item."""
    first, last = (max(each.best - start.best, LEAST_SECONDS) for each in (measurements[0], measurements[-1]))
    return log(last / first) / log(GROWTH)


def measure(start: Measurement, measurements: list[Measurement], out: Path) -> str:
    """Run until the slope is small enough, or ROUNDS_MAX times. Return what went wrong, or ""."""
    for _ in range(ROUNDS_MAX):
        for measurement in (start, *measurements):
            run(measurement, out)
            if measurement.failure:
                return measurement.failure
        if slope(start, measurements) <= SLOPE_MAX:
            break
    else:
        return f"slope above {SLOPE_MAX}"
    return "" if measurements[-1].most <= LIMIT_MIB else f"more than {LIMIT_MIB} MiB"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SHAPES, action="append")
    parser.add_argument("--command", choices=COMMANDS, action="append")
    parser.add_argument("--size", type=int, default=100_000)
    options = parser.parse_args(arguments)
    failed = False
    with TemporaryDirectory() as folder:
        for name in options.only or SHAPES:
            captures = [Path(folder) / f"{number}.pcap" for number in (1, *(options.size * times for times in (1, 2, GROWTH)))]
            for capture in captures:
                write(capture, SHAPES[name], int(capture.stem))
            for line in options.command or COMMANDS:
                start, *measurements = [command(capture, COMMANDS[line]) for capture in captures]
                failure = measure(start, measurements, Path(folder) / "out")
                failed = failed or bool(failure)
                figures = "  ".join(f"{each.best:6.2f} s {each.most:4,.0f} MiB" for each in measurements if each.cpu)
                if all(each.cpu for each in (start, *measurements)):
                    figures += f"  slope {slope(start, measurements):.2f}"
                print(f"{'BAD' if failure else 'ok ':3} {name:15} {line:9} {figures} {failure}".rstrip(), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
