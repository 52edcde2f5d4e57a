"""A redacted copy shows what happened, but nothing of the user's data."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pulsarscope.cli.arguments.extract_request import ExtractRequest
from pulsarscope.cli.arguments.options import ReadOptions
from pulsarscope.cli.packet_copy import write_packets
from pulsarscope.engine.local import run
from pulsarscope.engine.options import Options
from pulsarscope.model import masked_names
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow, Row
from pulsarscope.protocols import make_dissectors
from tests.places import CAPTURES
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import CONNECT, CONNECTED, PING, PONG, send
from tests.scenarios.conversation import Conversation
from tests.scenarios.pcapng_blocks import blocks, comments

SAME = [
    CAPTURES / name
    for name in (
        "acks-batchindex.pcap",
        "any-sll2.pcap",
        "balancer.pcap",
        "compress-zlib.pcap",
        "encrypted.pcap",
        "errors.pcap",
        "go-nack-dlq-gz.pcap.gz",
        "ipv6.pcap",
        "kafka07.pcap",
        "kafka07-broker/midmsg-real.pcap",
        "kafka07-broker/raw.pcap",
        "kafka07-samsa.pcap",
        "lo-java-txn.pcap",
        "old-java-2.4.2.pcap",
        "proxy-keyshared.pcap",
        "proxy-v1.pcap",
        "proxy-v2.pcap",
        "quickstart.pcapng",
        "raw-checksum.pcap",
        "raw-dribble.pcap",
        "rw-bigendian.pcap",
        "rw-capture-loss.pcap.zst",
        "rw-ipfrag.pcap",
        "rw-portreuse.pcap",
        "rw-seqwrap.pcap",
        "rw-shuffle.pcap",
        "rw-vxlan.pcap",
        "snaplen200.pcap",
        "stuck-consumer.pcap",
        "token-auth-py.pcap",
        "token-refresh-java.pcap",
        "unload-terminate.pcap",
        "v5-scalable.pcap",
        "faults/raw-np-nopermits.pcap",
        "faults/token-supplier-cut.pcap",
    )
]
"""Captures from which nothing is omitted."""

WITH_SCHEMAS = [CAPTURES / "bookkeeper" / f"{name}.pcap.zst" for name in ("auth", "v2", "v3")]
"""Captures of storages with messages that have schemas; copies lack the definitions."""

WITH_CREDENTIALS = [CAPTURES / name for name in ("token-auth-py.pcap", "token-refresh-java.pcap")]

REVEALS_NOTHING = re.compile(
    rb"(?i)[\d.,:()/ -]*|(non-)?persistent.*(transaction_coordinator_assign|__change_events).*|public(/default)?"
    rb"|pulsar[-a-z+ ]*[-/v]*[\d.]+|pulsar(\+ssl)?://(127\.0\.0\.1|localhost):\d+|server\d|schemas?|properties|topic of ledger.*"
    rb"|ORIGIN_MESSAGE_ID|REAL_TOPIC|__system_reader"
)
"""Texts of the protocol itself, and of its clients."""


def redacted(path: Path, out: Path, **options: Any) -> Path:
    assert write_packets(ExtractRequest(files=[str(path)], out=str(out), redact=True, **options)) in {0, 2}
    return out


@cache
def rows_of(path: Path) -> tuple[Row, ...]:
    kinds = frozenset({"frame", "message", "exchange", "connection", "finding"})
    options = Options(kinds, rules=True, payloads=True, show_secrets=True, dissectors=make_dissectors)
    return tuple(row for batch in run([str(path)], options) for row in batch.rows if isinstance(row, Row))


def shown(row: Row) -> tuple[Any, ...]:
    """Return what must be equal in a copy."""
    match row:
        case FrameRow():
            checksum = row.checksum and row.checksum.status
            return row.time, row.command, row.direction, row.status, row.size, row.payload_size, row.num_messages, row.latency_ns, checksum
        case MessageRow():
            return row.time, row.ledger, row.entry, row.payload_size, row.batch_index, row.direction
        case ExchangeRow():
            return row.time, row.request, row.response, row.status, row.latency_ns
        case ConnectionRow():
            return row.start, row.end, row.packets, row.client_bytes, row.server_bytes, row.client_frames, row.closed, row.retransmitted
        case FindingRow():
            return (row.code,)
        case _:
            raise AssertionError(row)


def texts(value: Any, *, keys: bool = False) -> Iterator[bytes]:
    """Yield the texts in a decoded value: values, and the names of properties."""
    if isinstance(value, dict):
        for name, each in value.items():
            if keys:
                yield name.encode()
            yield from texts(each, keys=name in {"properties", "subscription_properties"})
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts(each)
    elif isinstance(value, (str, bytes)):
        yield value if isinstance(value, bytes) else value.encode()


def secrets_of(rows: tuple[Row, ...]) -> set[bytes]:
    """Return the user's texts in rows, with parts of the payloads and the addresses."""
    found: set[bytes] = set()
    for row in rows:
        if isinstance(row, FrameRow):
            sentences = {"availability", "message", "error_message", "server_version", "schema_version"}
            found |= set(texts({name: value for name, value in (row.fields or {}).items() if name not in sentences}))
            found |= set(texts(row.metadata or {})) | set(texts((row.fields or {}).get("metadata"), keys=True))
            found |= {name.encode() for name in (row.topic, row.producer_name, row.subscription) if name}
        elif isinstance(row, MessageRow):
            found |= set(texts({"key": row.key, "properties": row.properties}))
            payload = (row.payload or "").encode()
            found |= {payload[at : at + 12] for at in range(0, max(len(payload) - 11, 0), 97) if len(set(payload[at : at + 12])) > 4}
        elif isinstance(row, ConnectionRow):
            found |= {endpoint.rpartition(":")[0].strip("[]").encode() for endpoint in (row.client, row.server)}
    words = {word for text in found for word in re.findall(rb"[A-Za-z0-9_]{7,}", text)}
    revealing = {text for text in found | words if len(text) >= 7 and len(set(text)) > 2 and not REVEALS_NOTHING.fullmatch(text)}
    return {text for text in revealing if text.lower() not in masked_names._KEPT}


def enumerations() -> set[bytes]:
    """Return the names in the protocols' own definitions, and of our own states."""
    from pulsarscope.protocols.bookkeeper import commands as of_bookkeeper  # noqa: PLC0415
    from pulsarscope.protocols.bookkeeper.protobuf import FLAGS  # noqa: PLC0415
    from pulsarscope.protocols.kafka07.commands import ERRORS  # noqa: PLC0415
    from pulsarscope.protocols.pulsar.frame.schema import ENUMS  # noqa: PLC0415

    tables = [*ENUMS.values(), *FLAGS.values(), ERRORS, of_bookkeeper.BINARY_STATUSES, of_bookkeeper.STATUSES, of_bookkeeper.FLAGS]
    return {b"encrypted", b"message", b"AuthDisabledPlugin", *(str(name).encode() for names in tables for name in names.values())}


def forms(secret: bytes) -> Iterator[bytes]:
    """Yield a secret as it is, and in other possible spellings."""
    yield secret
    yield base64.b64encode(secret).rstrip(b"=")[:-1]
    yield secret.hex().encode()
    yield secret.decode("latin-1").encode("utf-16-le")


@pytest.mark.slow
@pytest.mark.parametrize("path", SAME, ids=lambda path: path.name)
def test_the_copy_shows_the_same_commands_sizes_times_latencies_and_findings(path: Path, tmp_path: Path) -> None:
    copy = redacted(path, tmp_path / "share.pcapng", quiet=True)
    before, after = (Counter((row.kind, shown(row)) for row in rows_of(each)) for each in (path, copy))
    assert before == after


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_SCHEMAS, ids=lambda path: path.name)
def test_a_copy_of_what_is_stored_shows_the_same_but_for_schemas(path: Path, tmp_path: Path) -> None:
    copy = redacted(path, tmp_path / "share.pcapng", quiet=True)
    before, after = (Counter((row.kind, shown(row)) for row in rows_of(each)) for each in (path, copy))
    assert {kind: shown for kind, shown in (before - after) + (after - before) if shown != ("schema-unknown",)} == {}
    assert any(row.checksum is not None for row in rows_of(copy) if isinstance(row, FrameRow) and row.dissector == "bookkeeper")


@pytest.mark.slow
@pytest.mark.parametrize("path", [*SAME, *WITH_SCHEMAS], ids=lambda path: path.name)
def test_nothing_of_the_users_is_in_the_copy(path: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)  # random bytes may contain a short name
    copy = redacted(path, tmp_path / "share.pcapng", quiet=True, mask_key=str(key))
    decoded = b"\0".join(text for row in rows_of(copy) if not isinstance(row, FindingRow) for text in texts(msgspec.to_builtins(row)))
    held = copy.read_bytes() + decoded
    mine = secrets_of(rows_of(path)) - enumerations()
    leaked = {secret for secret in mine if any(form in held for form in forms(secret))}
    assert not leaked


def test_tokens_are_in_the_original_that_the_search_above_sees() -> None:
    for path in WITH_CREDENTIALS:
        assert any(secret.startswith(b"eyJ") for secret in secrets_of(rows_of(path)))


def test_what_a_broker_answers_keeps_its_usual_words_without_the_names_in_it(tmp_path: Path) -> None:
    path = CAPTURES / "errors.pcap"
    copy = redacted(path, tmp_path / "share.pcapng", quiet=True)
    messages = [[str((row.fields or {}).get("message")) for row in rows_of(each) if isinstance(row, FrameRow)] for each in (path, copy)]
    assert [len(text) for text in messages[0]] == [len(text) for text in messages[1]]
    assert any("Exclusive consumer is already connected" in text for text in messages[1])


def test_numbers_in_keys_of_messages_are_masked_and_equal_keys_stay_equal(tmp_path: Path) -> None:
    sends = [send(1, number, metadata={"partition_key": key}) for number, key in enumerate(("order:4711", "10:30") * 2)]
    dialogue = Conversation().handshake().client(CONNECT).server(CONNECTED).client(b"".join(sends))
    copy = redacted(write_pcap(tmp_path / "in.pcap", dialogue.packets), tmp_path / "share.pcapng", quiet=True)
    keys = [str(row.key) for row in rows_of(copy) if isinstance(row, MessageRow)]
    assert keys[:2] == keys[2:]
    assert [len(key) for key in keys[:2]] == [10, 5]
    assert not any(number in key for key in keys for number in ("4711", "30"))


def test_masks_are_the_same_under_one_key_and_others_without(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    path = CAPTURES / "quickstart.pcapng"
    keyed = [redacted(path, tmp_path / name, quiet=True, mask_key=str(key)).read_bytes() for name in "ab"]
    chance = [redacted(path, tmp_path / name, quiet=True).read_bytes() for name in "cd"]
    assert len({*keyed, *chance}) == 3
    assert len({len(copy) for copy in [*keyed, *chance]}) == 1


def test_a_short_or_missing_key_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"k")
    for name in ("short", "none"):
        with pytest.raises(UsageError, match="key"):
            redacted(CAPTURES / "quickstart.pcapng", tmp_path / "out.pcapng", mask_key=str(tmp_path / name))
    assert not (tmp_path / "out.pcapng").exists()


def test_what_was_said_inside_tls_comes_without_it_and_secrets_stay_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = redacted(CAPTURES / "go-tls13-dsb.pcapng", tmp_path / "share.pcapng")
    assert {block.kind for block in blocks(copy.read_bytes())} <= {0x0A0D0D0A, 1, 6}
    assert "1 connection inside TLS copied as plain packets, redacted" in capsys.readouterr().err
    reading = ReadOptions(tls_keylog=[str(CAPTURES / "go-tls13.keylog")])
    some = redacted(CAPTURES / "go-tls13.pcap", tmp_path / "b.pcapng", filter="command == SEND", reading=reading)
    sends = [row for row in rows_of(copy) if isinstance(row, FrameRow) and row.command == "SEND"]
    assert sends
    assert [row.time for row in rows_of(some) if isinstance(row, FrameRow)] == [row.time for row in sends]
    redacted(CAPTURES / "go-tls13.pcap", tmp_path / "c.pcapng")
    assert "1 connection inside TLS that was not decrypted left out" in capsys.readouterr().err


def test_connections_of_no_known_protocol_stay_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = redacted(CAPTURES / "mixed-pulsar-kafka.pcap", tmp_path / "share.pcapng")
    assert {row.dissector for row in rows_of(copy) if isinstance(row, ConnectionRow)} == {"pulsar", "kafka07"}
    said = capsys.readouterr().err
    assert "1 connection of no known protocol left out" in said


def test_a_filter_selects_packets_as_without_redaction(tmp_path: Path) -> None:
    path = str(CAPTURES / "quickstart.pcapng")
    plain, share = tmp_path / "plain.pcapng", tmp_path / "share.pcapng"
    for out, redact in ((plain, False), (share, True)):
        write_packets(ExtractRequest(files=[path], out=str(out), redact=redact, filter="command in {SEND, SEND_RECEIPT}", quiet=True))
    assert comments(plain.read_bytes()) == comments(share.read_bytes())


def test_a_connection_that_seems_to_be_of_the_one_before_is_copied_from_its_first_packet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first packet is a stray until the server answers, here in another block."""
    monkeypatch.setattr("pulsarscope.capture.reader.READ_BLOCK_BYTES", 100)
    monkeypatch.setattr("pulsarscope.capture.reader.READ_BLOCK_MAX_BYTES", 100)
    monkeypatch.setattr("pulsarscope.capture.reader.SMALL_BLOCK_MAX_BYTES", 100)
    first = Conversation().handshake().client(CONNECT).server(CONNECTED).packets
    second = Conversation(client_isn=1_258_000_000).client(PING).server(PONG).close().packets
    path = write_pcap(tmp_path / "in.pcap", [*first, *second])
    copied = rows_of(redacted(path, tmp_path / "share.pcapng", quiet=True))
    assert [row.command for row in copied if isinstance(row, FrameRow)] == ["CONNECT", "CONNECTED", "PING", "PONG"]


def test_comments_and_bytes_of_no_frame_are_not_copied(tmp_path: Path) -> None:
    dialogue = Conversation().handshake().client(CONNECT).server(CONNECTED).client(PING).client(b"\x00\x00\x00\x00my-secret-rest" * 3)
    path = write_pcap(tmp_path / "in.pcap", dialogue.packets)
    held = redacted(path, tmp_path / "share.pcapng", quiet=True).read_bytes()
    assert b"my-secret-rest" in path.read_bytes()
    assert b"my-secret" not in held
    assert "0:8.1 PING" in comments(held)


def test_checksums_of_ip_and_tcp_are_right(tmp_path: Path) -> None:
    for name in ("quickstart.pcapng", "ipv6.pcap"):
        held = redacted(CAPTURES / name, tmp_path / f"{name}.pcapng", quiet=True).read_bytes()
        for block in blocks(held):
            if block.kind != 6:
                continue
            packet = block.body[20 : 20 + int.from_bytes(block.body[12:16], "little")]
            if packet[0] >> 4 == 4:
                assert sum_of(packet[:20]) == 0xFFFF
                pseudo, tcp = packet[12:20] + bytes([0, 6]) + (len(packet) - 20).to_bytes(2, "big"), packet[20:]
            else:
                pseudo, tcp = packet[8:40] + (len(packet) - 40).to_bytes(4, "big") + bytes([0, 0, 0, 6]), packet[40:]
            assert sum_of(pseudo + tcp) == 0xFFFF


def sum_of(data: bytes) -> int:
    """Return the checksum of RFC 1071, computed word by word."""
    data += bytes(len(data) & 1)
    total = sum(int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_without_redaction_one_line_says_what_the_copy_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_packets(ExtractRequest(files=[str(CAPTURES / "quickstart.pcapng")], out=str(tmp_path / "plain.pcapng")))
    assert "holds payloads and credentials: share a copy made with --redact" in capsys.readouterr().err
    write_packets(ExtractRequest(files=[str(CAPTURES / "quickstart.pcapng")], filter="command == SEEK", out=str(tmp_path / "empty.pcapng")))
    assert "holds" not in capsys.readouterr().err
