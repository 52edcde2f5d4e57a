"""What the tests of the catalogue share: a healthy conversation, a run over bytes, and a list of the rows that have a test."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from docs.make_findings import all_codes, bad_inputs
from pulsarscope.cli.arguments.options import NEVER
from pulsarscope.cli.exit_codes import exit_code
from pulsarscope.engine.local import ALL_RECORDS, run
from pulsarscope.inputs.key_logs import read_key_logs
from pulsarscope.model.errors import CaptureError
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow
from tests.scenarios import Conversation, Packet, command_frame, message_metadata, payload_frame, pcap
from tests.scenarios.commands import created, producer, receipt
from tests.scenarios.options import Options

CODES = all_codes()

TESTED: set[int] = set()
"""Numbers of the rows that the imported modules test."""

Test = TypeVar("Test", bound=Callable[..., None])


def row(*numbers: int) -> Callable[[Test], Test]:
    """Mark a test as one of these rows of the catalogue."""
    TESTED.update(numbers)

    def same(test: Test) -> Test:
        return test

    return same


PROMISES = {promise.number: promise for promise in bad_inputs()}


class Seen:
    """All rows of a run, by kind, and its exit code."""

    def __init__(self) -> None:
        self.frames: list[FrameRow] = []
        self.messages: list[MessageRow] = []
        self.exchanges: list[ExchangeRow] = []
        self.connections: list[ConnectionRow] = []
        self.findings: list[FindingRow] = []
        self.exit = 0
        self.refusal = ""
        """Reason why no input could be read."""

    @property
    def codes(self) -> set[str]:
        """Codes of the findings."""
        return {finding.code or "" for finding in self.findings}

    @property
    def commands(self) -> list[str]:
        """Names of the whole frames, in order; "?" if the command did not decode."""
        return [frame.command or "?" for frame in self.frames if frame.status in ("ok", "malformed")]

    def texts(self, code: str) -> list[str]:
        """Return the texts of the findings with this code."""
        return [finding.text or "" for finding in self.findings if finding.code == code]


def look(*paths: Path | str, key_logs: Sequence[Path] = ()) -> Seen:
    """Decode these files in this process, with all kinds of rows and these TLS key logs; check what holds for any input."""
    seen = Seen()
    try:
        options = Options(records=ALL_RECORDS, payload="text", key_logs=read_key_logs([str(log) for log in key_logs]))
        running = run([str(path) for path in paths], options)
    except CaptureError as error:
        seen.exit, seen.refusal = error.exit_code, str(error)
        return seen
    lists: dict[type, list[Any]] = {
        FrameRow: seen.frames,
        MessageRow: seen.messages,
        ExchangeRow: seen.exchanges,
        ConnectionRow: seen.connections,
        FindingRow: seen.findings,
    }
    for batch in running:
        for one in batch.rows:
            next(kept for kind, kept in lists.items() if isinstance(one, kind)).append(one)
    seen.exit = exit_code(NEVER, running)
    for finding in seen.findings:
        known = CODES[finding.code or ""]
        assert (finding.severity, finding.layer) == (known.severity, known.layer)
        assert finding.hint in [wording.hint for wording in known.wordings]
        assert finding.text
    for latency in (one.latency_ns for one in seen.exchanges):
        assert latency is None or latency >= 0
    assert_every_byte_is_accounted_for(seen)
    return seen


def assert_every_byte_is_accounted_for(seen: Seen) -> None:
    """Require that framed, skipped, missing and unfinished bytes add up to each stream."""
    framed: defaultdict[tuple[str | None, str | None], int] = defaultdict(int)
    for frame in seen.frames:
        if frame.status in ("ok", "malformed"):
            framed[frame.connection, frame.direction] += frame.size or 0
    for connection in seen.connections:
        for side in ("client", "server"):
            total, *rest = (getattr(connection, f"{side}_{what}") for what in ("bytes", "skipped", "missing", "tail"))
            assert framed[connection.connection, side] + sum(rest) == total, (connection, side)


def assert_promised(number: int, seen: Seen, codes: set[str] | None = None) -> None:
    """Require that the row of the catalogue has each of the codes found, and the exit code.

    Args:
        codes: if given, exactly these must be found.
    """
    promise = PROMISES[number]
    if codes is not None:
        assert seen.codes == codes, [finding.text for finding in seen.findings]
    assert seen.codes <= set(promise.codes)
    assert seen.exit in promise.exits


def chance(seed: int | str) -> Random:
    """A repeatable source of chance."""
    return Random(seed)  # noqa: S311 - for tests


# ---- a healthy conversation

TOPIC = "persistent://public/default/orders"
CONNECT = command_frame("CONNECT", client_version="Pulsar-Test-1", protocol_version=21)
CONNECTED = command_frame("CONNECTED", server_version="Pulsar Server", protocol_version=21, max_message_size=5 << 20)
PRODUCER, PRODUCER_SUCCESS = producer(name="producer-1", topic=TOPIC), created("producer-1")

OPENING = ["CONNECT", "CONNECTED", "PRODUCER", "PRODUCER_SUCCESS"]


def send(number: int, payload: bytes = b"hello", metadata: bytes | None = None, **values: Any) -> bytes:
    """A SEND of producer 1."""
    described = message_metadata(sequence_id=number) if metadata is None else metadata
    return payload_frame("SEND", described, payload, producer_id=1, sequence_id=number, **values)


def opened(**values: Any) -> Conversation:
    """A connection with a producer."""
    return Conversation(**values).handshake().client(CONNECT).server(CONNECTED).client(PRODUCER).server(PRODUCER_SUCCESS)


def exchange(conversation: Conversation, first: int, count: int = 1) -> Conversation:
    """`count` messages that are sent, and received by the broker."""
    for number in range(first, first + count):
        conversation.client(send(number)).server(receipt(1, number, entry=number))
    return conversation


def sent(count: int) -> list[str]:
    """The commands of `exchange`."""
    return ["SEND", "SEND_RECEIPT"] * count


def healthy(**values: Any) -> list[Packet]:
    """The packets of a whole connection with three messages, without findings."""
    return exchange(opened(**values), 0, 3).close().packets


HEALTHY = [*OPENING, *sent(3)]


def between(*odd: bytes, **values: Any) -> list[Packet]:
    """The client sends something odd between two healthy messages."""
    conversation = exchange(opened(**values), 0).client(*odd)
    return exchange(conversation, 5).close().packets


def capture(tmp_path: Path, packets: list[Packet] | bytes, name: str = "capture.pcap", **values: Any) -> Path:
    """A capture file of these packets or bytes."""
    path = tmp_path / name
    path.write_bytes(packets if isinstance(packets, bytes) else pcap(packets, **values))
    return path
