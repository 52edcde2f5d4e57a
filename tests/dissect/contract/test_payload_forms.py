"""Payloads in the forms of `dissect.contract.payload_forms`, by the compiled reader and by the Python one, which is the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pulsarscope.dissect.contract.payload_forms import payload_text
from tests.scenarios import Conversation, Single, batch, compress, write_pcap
from tests.scenarios.both_readers import blocks_of, reader
from tests.scenarios.command_line import run
from tests.scenarios.commands import created, flow, message, producer, receipt, send, subscribe, success
from tests.scenarios.connections import connected
from tests.scenarios.encryption import Encryptor, rsa_key

HOSTILE = (
    b"",
    b"x",
    b'{"name": "value", "of": [1, 2]}',
    "größe, 世界, 🦆".encode(),
    b"=1+1",
    b" -a,b\r\n\t",
    b"\x00\x01\x1f\x7f",
    b"\x1b[31mred\x1b[0m",
    "\u202eevil\u2066\u200b\u2028\ufeff\x85".encode(),
    b"\xed\xa0\x80\xed\xb0\x80",  # surrogates
    b"\xc0\x80\xff\xfe\xf5\x80",
    b"\xe4\xb8",  # cut off
    b"\xf0\x9f\xa6a\xf0\x9f\xc3",
    "e\u0301\u0301\u0301\u0301\u0301".encode(),
    b"\\x00 \\u202e \\",
    b"a" * 2_000,
    b"a" * 2_001,
    ("ä" * 1_999 + "x").encode(),
    ("ä" * 2_001).encode(),
    bytes(range(256)) * 9,
)
CODECS = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


def talk(port: int, payloads: list[bytes]) -> Conversation:
    """A connection that publishes and receives these payloads: alone, in batches, compressed, chunked, encrypted, and without a receipt."""
    random = Random(port)  # noqa: S311 - repeatable
    encryptor = Encryptor({"key": rsa_key(number=1).public_key()})
    conversation = connected(port).client(producer(1, "p", 1)).server(created("p", 1))
    conversation.client(subscribe(1, "c", 3), flow(1000)).server(success(3))
    for number, plain in enumerate(payloads):
        payload, metadata = plain, dict[str, Any]()
        way = random.randrange(6)
        if way < 2:
            count = random.choice((1, 3))
            payload, metadata = batch([Single(plain, {"null_value": way == 1})] * count), {"num_messages_in_batch": count}
        elif way == 2:
            metadata = {"null_value": True, "partition_key": "k"}
        elif way == 3 and len(plain) < 5_000:
            payload, metadata = encryptor.encrypt(plain)
        codec = random.choice(CODECS)
        if codec != "NONE" and "encryption_keys" not in metadata:
            metadata |= {"compression": codec, "uncompressed_size": len(payload)}
            payload = compress(codec, payload)
        if way == 4 and codec == "NONE":
            of_chunks = {"uuid": f"u{number}", "num_chunks_from_msg": 2, "total_chunk_msg_size": len(payload)}
            for place, part in enumerate((payload[:2], payload[2:])):
                conversation.client(send(1, number, part, metadata | of_chunks | {"chunk_id": place}, is_chunk=True))
                conversation.server(receipt(1, number, entry=number))
        elif random.random() < 0.5:
            conversation.client(send(1, number, payload, metadata))
            if random.random() < 0.8:
                conversation.server(receipt(1, number, entry=number))
        else:
            conversation.server(message(1, number, payload, metadata))
    return conversation


def outputs(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], block: int | None, *arguments: str
) -> list[tuple[int, bytes, bytes]]:
    written = []
    for choice in ("off", "require"):
        with reader(choice), blocks_of(block):
            code = run(monkeypatch, "messages", *arguments)
        captured = capsysbinary.readouterr()
        written.append((code, captured.out, captured.err))
    return written


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "hex", "base64"])
@pytest.mark.parametrize(
    "given", [[], ["-f", "ndjson"], ["-f", "csv"], ["-f", "ndjson", "--jobs", "2"], ["-Y", "message.payload_size > 3"]]
)
def test_both_readers_write_the_same_payloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], form: str, given: list[str]
) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    packets = [packet for port in range(6) for packet in talk(port, [*HOSTILE, *HOSTILE]).packets]
    packets.sort(key=lambda packet: packet.time_ns)
    file = str(write_pcap(tmp_path / "hostile.pcap", packets))
    for block in (None, 4096):
        by_python, compiled = outputs(monkeypatch, capsysbinary, block, *given, "--payload", form, file)
        assert by_python == compiled
        assert by_python[0] == 0
        assert payload_text(HOSTILE[-5], form)[:200].encode() in by_python[1]


def test_a_row_has_the_text_of_its_payload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    conversation = connected(1).client(producer(1, "p", 1)).server(created("p", 1))
    for number, payload in enumerate(HOSTILE):
        conversation.client(send(1, number, payload)).server(receipt(1, number, entry=number))
    file = str(write_pcap(tmp_path / "sent.pcap", conversation.packets))
    for choice in ("off", "auto"):
        with reader(choice):
            assert run(monkeypatch, "messages", "-f", "ndjson", "--payload", "text", file) == 0
        rows = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
        found = [row["payload"] for row in rows if row["record"] == "message"]
        assert found == [payload.decode(errors="backslashreplace") for payload in HOSTILE]


@pytest.mark.slow
def test_large_payloads_that_wait_for_receipts_are_bounded_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    sizes = (5 << 20, 1, 3 << 20, 4 << 20, 70_000)
    conversation = Conversation(mss=60_000, acknowledge=False).handshake()
    conversation.client(producer(1, "p", 1)).server(created("p", 1))
    for number, size in enumerate(sizes):
        filling = (b"\xff\x00", "ä".encode(), b"a ")[number % 3]
        conversation.client(send(1, number, filling * (size // 2)))
    for number in range(len(sizes)):
        conversation.server(receipt(1, number, entry=number))
    file = str(write_pcap(tmp_path / "large.pcap", conversation.packets))
    for form in ("text", "hex"):
        by_python, compiled = outputs(monkeypatch, capsysbinary, None, "-f", "ndjson", "--payload", form, file)
        assert by_python == compiled
        without_id = [row for row in map(json.loads, compiled[1].splitlines()) if row["record"] == "message" and "ledger" not in row]
        assert 0 < len(without_id) < len(sizes)
