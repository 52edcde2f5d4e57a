"""Real captures compared with independent decoders, with the clients' own records, and for conservation of bytes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

import pulsarscope as ps
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow
from tests.places import CAPTURES
from tests.scenarios.invariants import check_rows
from tests.scenarios.packet_times import packet_times
from tests.scenarios.packets import FIN, SYN
from tests.scenarios.tcp_payload import Capture, read_capture, tcp_segments, unique_bytes

NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))
COUNTS: dict[str, dict[str, int]] = json.loads((CAPTURES / "commands.json").read_text())

LOSSY = {"rw-capture-loss.pcap.zst", "rw-cuthead.pcap.zst", "snaplen200.pcap"}
"""These captures lack bytes of the run that the truth lists: what is found must be right, but not everything is found."""

ENCRYPTED = ("encrypted.pcap", "go-encrypted.pcap", "java-encrypted.pcap")
"""End-to-end encrypted captures, for the key in both forms."""
KEYS = [str(CAPTURES / "keys" / name) for name in ("e2e_a.private.pem", "e2e_ag.private.pem")]

EXPECTED_FINDINGS = {
    "errors.pcap": {"consumer-busy", "producer-busy", "request-failed", "schema-incompatible"},
    "java-errors.pcap": {
        "connection-closed-by-broker",
        "consumer-busy",
        "producer-busy",
        "producer-fenced",
        "request-failed",
        "schema-incompatible",
    },
    "kafka07.pcap": {"connection-closed-by-broker", "fetch-too-small", "offset-out-of-range", "produce-lost", "request-failed"},
    "kafka07-brod.pcap": {"offset-out-of-range", "request-failed"},
    "kafka07-prozess.pcap": {"offset-out-of-range"},
    "kafka07-samsa.pcap": {"offset-out-of-range"},
    "raw-checksum.pcap": {"checksum-mismatch", "consumer-corrupt", "message-corrupted", "request-failed"},
    "raw-not-pulsar.pcap": {"http-on-plain-port", "tls-on-plain-port"},
    "raw-stats.pcap": {"connection-closed-by-broker"},
    "raw-strange.pcap": {
        "command-before-connect",
        "connection-closed-by-broker",
        "frame-malformed",
        "frame-too-large",
        "reconnect-loop",
        "required-field-missing",
        "unknown-command",
    },
    "rw-capture-loss.pcap.zst": {"frame-truncated", "stream-gap"},
    "stuck-consumer.pcap": {"consumer-not-acking", "consumer-starved"},
    "snaplen200.pcap": {"frame-truncated", "snaplen-truncated", "stream-gap"},
    "token-auth-py.pcap": {"auth-failed", "reconnect-loop", "token-expired"},
    "unload-terminate.pcap": {"topic-terminated"},
}
"""Codes of the errors and warnings of captures with real faults. All others have only notes."""


WITHOUT_ANSWERS = {"raw-not-pulsar.pcap"}
"""Captures without any response."""


class MessageId(NamedTuple):
    """The identity of one delivery or one sent message for client and decoder."""

    direction: str
    ledger: int
    entry: int
    batch_index: int
    """-1: not batched."""


class Expected(NamedTuple):
    """A client's record of one message."""

    id: MessageId
    sha256: str
    attributes: dict[str, Any]
    """Values by column; only what the client recorded."""


def opened(name: str, private_keys: Sequence[str] = ()) -> ps.Capture:
    """A capture, with its TLS secrets."""
    key_log = CAPTURES / f"{name.partition('.pcap')[0]}.keylog"
    return ps.open(str(CAPTURES / name), tls_keylog=[str(key_log)] if key_log.exists() else [], private_key=private_keys)


def truth_of(name: str) -> Any:
    return json.loads((CAPTURES / f"{name.partition('.pcap')[0]}.truth.json").read_text())


def nanoseconds(milliseconds: int | None) -> int | None:
    return milliseconds * 1_000_000 if milliseconds else None


def expected_messages(truth: Any) -> Iterator[Expected]:
    """The client's list, without refused sends (no id), and without messages whose keys are given only as hashes."""
    for direction, rows in (("produce", truth["produced"]), ("deliver", truth["consumed"])):
        for row in rows:
            ident = row.get("id")
            if not ident or ident["ledger"] < 0 or "key_sha256" in row:
                continue
            partitioned = (ident.get("partition") or -1) >= 0  # the client counts over all partitions, the wire for each
            attributes = {
                "payload_size": row["size"],
                "key": row.get("key"),
                "properties": row.get("properties") or None,
                "producer_name": row.get("producer"),
                "sequence_id": None if partitioned else row.get("sequence_id"),
                "publish_time": nanoseconds(row.get("publish_time")),
                "event_time": nanoseconds(row.get("event_time")),
                "broker_time": nanoseconds(row.get("broker_publish_time")),
                "index": row.get("broker_index"),
            }
            batch_index = -1 if ident.get("batch_index") is None else ident["batch_index"]
            known = {column: value for column, value in attributes.items() if value is not None}
            yield Expected(MessageId(direction, ident["ledger"], ident["entry"], batch_index), row["sha256"], known)


class Decoded:
    """The messages of a capture, by id."""

    def __init__(self, name: str, private_keys: Sequence[str] = ()) -> None:
        self.rows: dict[MessageId, list[MessageRow]] = defaultdict(list)
        for row in opened(name, private_keys).messages():
            if row.ledger is not None and row.entry is not None:
                index = -1 if row.batch_index is None else row.batch_index
                self.rows[MessageId(row.direction or "", row.ledger, row.entry, index)].append(row)

    def candidates(self, wanted: Expected) -> list[MessageRow]:
        """Rows that the client may mean: some clients identify a message less precisely than the wire does."""
        found = self.rows.get(wanted.id, [])
        if not found and wanted.id.batch_index == 0:  # the Go client gives an unbatched message the index 0
            found = self.rows.get(wanted.id._replace(batch_index=-1), [])
        if not found and wanted.id.direction == "produce" and wanted.id.batch_index == -1:
            # A receipt names the entry, and the Rust client adds no index.
            found = [row for ident, rows in self.rows.items() if ident[:3] == wanted.id[:3] for row in rows]
        return found


def differences(wanted: Expected, row: MessageRow) -> list[str]:
    """Differences between the row and the client's record. Only properties listed by the client count."""
    problems = []
    for column, want in wanted.attributes.items():
        have = getattr(row, column)
        if column == "properties":
            have = {key: value for key, value in (have or {}).items() if key in want}
        if have != want:
            problems.append(f"{wanted.id} {column}: {have!r} is not {want!r}")
    return problems


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_every_command_is_found_as_often_as_two_independent_decoders_found_it(name: str) -> None:
    frames = opened(name).frames()
    assert Counter(frame.command for frame in frames if frame.status in ("ok", "malformed")) == COUNTS[name]


@pytest.mark.parametrize(("name", "keys"), [(name, []) for name in NAMES if name not in ENCRYPTED] + list(product(ENCRYPTED, zip(KEYS))))
def test_every_message_is_what_the_client_says_it_sent_or_got(name: str, keys: Sequence[str]) -> None:
    decoded = Decoded(name, keys)
    missing: list[MessageId] = []
    contradictions: list[MessageId] = []
    wrong: list[str] = []
    for wanted in expected_messages(truth_of(name)):
        candidates = decoded.candidates(wanted)
        same = [row for row in candidates if row.payload_sha256 == wanted.sha256]
        if same:
            closest = min((differences(wanted, row) for row in same), key=len)
            wrong += closest
        elif any(row.status == "ok" for row in candidates):
            contradictions.append(wanted.id)
        else:
            missing.append(wanted.id)
    assert wrong == []
    assert contradictions == []
    if name not in LOSSY:
        assert missing == []


# ---- values

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]


def item(number: int, *, more: bool = False) -> dict[str, Any]:
    """The record written by the Java program: the later version of its class has two more fields, in the order of their names."""
    words: dict[str, Any] = {"note": "n", "tags": WORDS[: number % 4]} if more else {}
    return {"id": number, "name": WORDS[number % 12], "price": number * 0.5} | words


def key_and_value(topic: str, number: int) -> dict[str, Any]:
    if "json-avro" in topic:
        return {"key": item(number), "value": item(number + 10, more=True)}
    return {"key": f"k{number}", "value": number * 7}


JAVA_VALUES: dict[str, Callable[[int], Any]] = {
    "avro": item,
    "json": item,
    "string": "s{} é世".format,
    "int32": lambda number: number * 1000 - 5,
    "int64": lambda number: number << 40,
    "int8": lambda number: number - 2,
    "double": lambda number: number / 3.0,
    "bool": lambda number: number % 2 == 0,
    "date": "2020-09-13T12:26:40.{:03}Z".format,
    "instant": lambda number: f"2020-09-13T12:26:{40 + number}.000000005Z",
    "protobuf-native": lambda number: {"seconds": 1_600_000_000 + number} | ({"nanos": number} if number else {}),
    "protobuf": lambda number: {"seconds": number} if number else {},
}
"""Values by the kind in the name of the topic: what the program made of the message's number (from its classes; the truth has a hash)."""


def expected_values(truth: Any) -> dict[tuple[int, int], Any]:
    """The values of the client's messages by ledger and entry, in its own words if it has recorded them."""
    values: dict[tuple[int, int], Any] = {}
    numbers: Counter[str] = Counter()
    for row in truth["produced"]:
        topic = row["topic"].rpartition("/")[2]
        number, numbers[topic] = numbers[topic], numbers[topic] + 1
        kind = topic.partition("-")[2].rpartition("-")[0]
        value = row.get("value")
        if row.get("schema") == "FLOAT":
            value = float(value)  # in Java's form, with the fewest digits
        elif "kv_encoding" in row:
            value = key_and_value(topic, number)
        elif kind == "evo":
            value = item(77 if row["producer"] == "p-auto" else number % 4, more=number >= 4)
        elif row.get("schema") == "string" and value is None:  # of the Python program
            value = WORDS[number] + "é" * number
        elif row.get("schema") == "bytes":
            value = None
        elif not isinstance(value, (dict, int)) and kind in JAVA_VALUES:
            value = JAVA_VALUES[kind](row["index"])
            assert row.get("value") in (None, str(value))
        values[row["id"]["ledger"], row["id"]["entry"]] = value
    return values


@pytest.mark.parametrize(
    "name", ["java-schemas.pcap", "java-keyvalue.pcap", "java-protobuf.pcap", "go-schemas.pcap", "schemas-py-zst.pcap.zst"]
)
def test_every_value_is_what_the_client_says_it_sent(name: str) -> None:
    truth = truth_of(name)
    expected = expected_values(truth)
    rows = list(ps.open(str(CAPTURES / name)).messages())
    assert {(row.direction, row.ledger, row.entry): row.value for row in rows} == {
        (direction, *ident): value for direction in ("produce", "deliver") for ident, value in expected.items()
    }
    for consumed in truth["consumed"]:  # what the application got also has the defaults of the reader's schema
        if "value" in consumed:
            value = expected[consumed["id"]["ledger"], consumed["id"]["entry"]]
            assert {key: word for key, word in consumed["value"].items() if word is not None} == value


@pytest.mark.parametrize("name", ENCRYPTED)
def test_without_a_key_every_entry_is_found_and_called_encrypted(name: str) -> None:
    decoded = Decoded(name)
    statuses = {(ident.direction, ident.ledger, ident.entry): {row.status for row in rows} for ident, rows in decoded.rows.items()}
    wanted = {expected.id[:3] for expected in expected_messages(truth_of(name))}
    assert statuses == {entry: {"encrypted"} for entry in wanted}
    findings = list(ps.open(str(CAPTURES / name)).findings())
    assert {(row.code, row.severity) for row in findings} == {("encrypted-payload", "note")}
    assert all(" bytes are encrypted for e2e-a" in str(row.text) for row in findings)
    assert {row.hint for row in findings} == {"Pass the private key for one of the named keys (--private-key) to read it."}


@pytest.mark.parametrize("name", ENCRYPTED)
def test_with_the_key_there_is_nothing_to_say(name: str) -> None:
    assert [row.text for row in ps.open(str(CAPTURES / name), private_key=KEYS[0]).findings()] == []


class Sums(NamedTuple):
    """Bytes and frames of one direction of a connection."""

    framed: int
    frames: int
    skipped: int


def sums(frames: list[FrameRow]) -> dict[tuple[str | None, str | None], Sums]:
    """Sums by connection and direction."""
    found: dict[tuple[str | None, str | None], Sums] = defaultdict(lambda: Sums(0, 0, 0))
    for frame in frames:
        at = (frame.connection, frame.direction)
        framed, count, skipped = found[at]
        size = frame.size or 0
        if frame.status in ("ok", "malformed"):
            found[at] = Sums(framed + size, count + 1, skipped)
        elif frame.status == "skipped":
            found[at] = Sums(framed, count, skipped + size)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_of_a_stream_is_accounted_for_once(name: str) -> None:
    rows = list(opened(name).records("frame", "connection"))
    found = sums([row for row in rows if isinstance(row, FrameRow)])
    connections = [row for row in rows if isinstance(row, ConnectionRow)]
    assert connections
    for row in connections:
        for side in ("client", "server"):
            total, frames, missing, skipped, tail = (
                getattr(row, f"{side}_{what}") or 0 for what in ("bytes", "frames", "missing", "skipped", "tail")
            )
            have = found[row.connection, side]
            assert have.framed + skipped + missing + tail == total, f"{row.connection} {side}: {row}"
            assert have.frames == frames, f"{row.connection} {side}: {row}"
            # A PROXY header, and a connection of another protocol, have no rows of their own.
            if row.dissector is not None and row.proxy_source is None:
                assert have.skipped == skipped, f"{row.connection} {side}: {row}"
    assert found.keys() <= {(row.connection, side) for row in connections for side in ("client", "server")}


@pytest.mark.parametrize("name", NAMES)
def test_every_row_names_the_dissector_of_its_connection(name: str) -> None:
    check_rows(list(opened(name).records()), None)


@pytest.mark.parametrize("name", NAMES)
def test_every_latency_is_the_difference_of_two_packet_times_and_none_is_negative(name: str) -> None:
    times = packet_times(CAPTURES / name)
    latencies = 0
    for row in opened(name).records("exchange", "frame"):
        assert row.packet is not None
        if isinstance(row, ExchangeRow) and row.response_packet is not None and row.request is not None:
            asked, answered = row.packet, row.response_packet
        elif isinstance(row, FrameRow) and row.request is not None:
            asked, answered = int(row.request.partition(":")[2].partition(".")[0]), row.packet
        else:
            assert getattr(row, "latency_ns", None) is None
            continue
        elapsed = times[answered - 1] - times[asked - 1]
        if asked <= answered and elapsed >= 0:
            assert row.latency_ns == elapsed
            latencies += 1
        else:
            assert row.latency_ns is None  # the capture has the two in the wrong order
    assert latencies or name in WITHOUT_ANSWERS


@pytest.mark.parametrize("name", NAMES)
def test_errors_and_warnings_are_found_where_something_went_wrong_and_nowhere_else(name: str) -> None:
    findings: Iterator[FindingRow] = opened(name).findings()
    assert {row.code for row in findings if row.severity != "note"} == EXPECTED_FINDINGS.get(name, set())


@pytest.mark.parametrize("name", ["go-tls12.pcap", "go-tls13.pcap"])
def test_without_its_secrets_tls_is_a_note_that_says_what_would_open_it(name: str) -> None:
    rows = list(ps.open(str(CAPTURES / name)).records())
    (finding,) = [row for row in rows if isinstance(row, FindingRow)]
    assert (finding.code, finding.severity) == ("tls-no-secrets", "note")
    assert "SSLKEYLOGFILE" in (finding.hint or "")
    (connection,) = [row for row in rows if isinstance(row, ConnectionRow)]
    assert (connection.tls or "").startswith("TLSv1.2" if "12" in name else "TLSv1.3")
    assert len(rows) == 2


@pytest.mark.parametrize("name", ["go-tls12.pcap", "go-tls13.pcap", "go-tls13-dsb.pcapng"])
def test_secrets_are_in_no_record(name: str) -> None:
    key_log = (CAPTURES / name.replace("-dsb.pcapng", ".pcap")).with_suffix(".keylog").read_text()
    printed = "\n".join(map(repr, opened(name).records())).lower()
    assert "pulsar-go" in printed
    for line in key_log.splitlines():
        assert line.split()[2].lower() not in printed


def test_every_capture_has_its_truth_and_its_line_in_the_index() -> None:
    index = (CAPTURES / "README.md").read_text()
    for name in NAMES:
        assert truth_of(name)["scenario"]
        assert f"`{name}`" in index
    assert COUNTS.keys() <= set(NAMES)


def variants(capture: Capture) -> Iterator[tuple[str, Capture]]:
    """Yield a capture as it is, without handshakes, without ends, and with loss, disorder and copies."""
    flags = {position: tcp.flags for position, _, tcp in tcp_segments(capture)}
    packets = capture.packets
    random = Random(7)  # noqa: S311 - for a test
    yield "as it is", capture
    for name, without in (("no SYN", SYN), ("no FIN", FIN), ("neither", SYN | FIN)):
        yield name, capture._replace(packets=[each for number, each in enumerate(packets) if not flags.get(number, 0) & without])
    yield "2 % dropped", capture._replace(packets=[each for each in packets if random.random() > 0.02])
    swapped = [data for _, data in packets]
    for number in range(len(swapped) - 1):
        if random.random() < 0.2:
            swapped[number : number + 2] = swapped[number + 1], swapped[number]
    yield "swapped", capture._replace(packets=[(time, data) for (time, _), data in zip(packets, swapped, strict=True)])
    yield "doubled", capture._replace(packets=[each for each in packets for _ in range(2)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_every_byte_of_payload_is_in_the_row_of_a_connection(name: str, tmp_path: Path) -> None:
    for variant, capture in variants(read_capture(CAPTURES / name)):
        gaps: Counter[str | None] = Counter()
        connections = []
        for row in ps.open(capture.write(tmp_path / "a.pcap")).records("connection", "finding"):
            if isinstance(row, ConnectionRow):
                connections.append(row)
            elif isinstance(row, FindingRow) and row.code == "stream-gap":
                evidence = row.evidence or {}
                gaps[row.connection] += evidence["size" if "size" in evidence else "bytes"]
        found = 0
        for row in connections:
            found += row.client_bytes + row.client_dropped + row.server_bytes + row.server_dropped
            found -= gaps[row.connection] if row.dissector else row.client_missing + row.server_missing
        assert found == unique_bytes(tcp_segments(capture)), variant
