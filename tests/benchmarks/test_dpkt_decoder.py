"""The peer must be correct, or comparisons with it mean nothing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import dpkt_decoder
from tests.scenarios import Conversation, batch, command_frame, message_metadata, payload_frame, write_pcap
from tests.scenarios.frames import Single


def decode(path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    dpkt_decoder.main(str(path))
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# Ethernet captures without damage, one of them with IPv6, one with segments out of order, repeated and overlapping.
@pytest.mark.parametrize(
    "name", ["quickstart.pcapng", "ipv6.pcap", "raw-coalesce.pcap", "raw-dribble.pcap", "rw-seqwrap.pcap", "rw-shuffle.pcap"]
)
def test_it_finds_every_command_of_a_real_capture(name: str, captures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = json.loads((captures / "commands.json").read_text())[name]
    assert Counter(row["command"] for row in decode(captures / name, capsys)) == expected


def test_it_reads_metadata_and_checksum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    payload = batch([Single(b"one"), Single(b"two")])
    metadata = message_metadata(num_messages_in_batch=2)
    conversation = Conversation().handshake().client(command_frame("PING"))
    conversation.client(payload_frame("SEND", metadata, payload, producer_id=1, sequence_id=7, num_messages=2), mss=10)
    conversation.server(
        payload_frame(
            "MESSAGE",
            metadata,
            payload,
            checksum=1,
            broker_entry={"index": 3},
            consumer_id=2,
            message_id={"ledgerId": 4, "entryId": 5},
        )
    )
    ping, send, message = decode(write_pcap(tmp_path / "x.pcap", conversation.packets), capsys)
    assert (ping["command"], ping["fields"]) == ("PING", {})
    assert (send["fields"], send["checksum"]) == ({"producer_id": 1, "sequence_id": 7, "num_messages": 2}, "good")
    assert (message["fields"], message["checksum"]) == ({"consumer_id": 2, "message_id": {"ledgerId": 4, "entryId": 5}}, "bad")
    assert (message["broker_entry_metadata"], message["payload_size"]) == ({"index": 3}, len(payload))
