from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from pulsarscope.output.render import messages as message_lines
from pulsarscope.output.render.cell_text import cell_width
from pulsarscope.protocols.pulsar.text import summary
from tests.scenarios import Conversation, Single, batch, compress, rows, write_pcap
from tests.scenarios.both_readers import blocks_of, reader
from tests.scenarios.command_line import run
from tests.scenarios.commands import created, flow, message, producer, receipt, send, subscribe, success
from tests.scenarios.connections import connected
from tests.scenarios.rows import text_of


def messages(some: list[Any], **values: Any) -> list[str]:
    lines = text_of("messages", some, rows.options("message", **values)).splitlines()
    return [line for line in lines if not line.lstrip().startswith("frame ")]  # the heading


def test_a_delivery_is_a_line_with_all_that_matters() -> None:
    lines = messages([rows.message()])
    assert lines[1:] == [
        "   9.1  0.000000   #1 ← deliver orders  26:14:3  key k1  seq 7  1,234 B  sub billing  LZ4  redelivery 2  {a=1}",
        "",
        "0 messages produced, 1 delivered · 1 connection · no findings",
    ]


def test_a_produced_message_without_receipt_says_so() -> None:
    line = messages([rows.message(direction="produce", topic=None, producer_id=3, subscription=None, ledger=None)])[1]
    assert " → produce producer 3  no id  key k1 " in line


def test_what_is_odd_about_a_message_is_said() -> None:
    odd = rows.message(status="encrypted", encrypted=True, null_value=True, marker="transaction commit", chunks=3, txn="(1,2)", key=None)
    line = messages([odd], width=200)[1]
    assert line.rstrip().endswith("encrypted")
    for words in ("marker transaction commit", "tombstone", "3 chunks", "txn (1,2)"):
        assert words in line


def test_a_payload_that_was_asked_for_has_a_line_of_its_own() -> None:
    shown = rows.message(payload="hello\x1b[31m" * 400)
    line = messages([shown])[2]
    assert line.startswith("       hello\\x1b[31mhello")
    assert line.endswith("… (4,000 characters)")
    assert cell_width(messages([shown], width=100)[2]) == 100
    assert len(messages([rows.message(payload="")], quiet=True)) == 1


def test_more_properties_than_anyone_reads_are_counted() -> None:
    many = rows.message(properties={f"k{number}": "v" for number in range(1_500)})
    assert "and 500 more}" in messages([many])[1]


ODD_TEXTS = ("k", "", "schlüssel", "\x1b[31m", "a  b", "4611686018427387904:2305843009213693952:5")
ODD_METADATA: tuple[dict[str, Any], ...] = ({"null_value": True}, {"ordering_key": b"o"}, {"deliver_at_time": 1}, {"event_time": 5})


def talk(port: int, count: int, odd: float) -> Conversation:
    """A connection that publishes and receives messages, alone and in batches; `odd`: share of those with additional text."""
    random = Random(port)  # noqa: S311 - repeatable
    topics = ("persistent://public/default/plain", "persistent://t/n/1:2", "persistent://public/default/größe")
    conversation = connected(port).client(producer(1, "p", 1, topic=topics[port % 3])).server(created("p", 1))
    conversation.client(subscribe(1, "sub  1", 3), flow(1000)).server(success(3))
    for number in range(count):
        fields: dict[str, Any] = {"partition_key": ODD_TEXTS[0]} if random.random() < 0.5 else {}
        if random.random() < 0.5:
            fields["properties"] = [{"key": name, "value": "v"} for name in ("a", "b")[: random.randrange(3)]]
        if random.random() < odd:
            fields |= {"partition_key": random.choice(ODD_TEXTS), "properties": [{"key": "p", "value": random.choice(ODD_TEXTS)}]}
        payload, metadata = random.randbytes(random.choice((0, 5, 2_000))), fields
        if random.random() < 0.4:
            together = random.choice((1, 7))
            payload, metadata = batch([Single(payload[:70], fields)] * together), {"num_messages_in_batch": together}
            if random.random() < 0.5:
                metadata |= {"compression": "LZ4", "uncompressed_size": len(payload)}
                payload = compress("LZ4", payload)
        if random.random() < odd:
            metadata = metadata | random.choice(ODD_METADATA)
        if random.random() < 0.5:
            conversation.client(send(1, number, payload, metadata))
            if random.random() < 0.95:
                conversation.server(receipt(1, number, entry=number))
        else:
            conversation.server(message(1, number, payload, metadata, redelivery_count=random.randrange(3) // 2))
    return conversation


@pytest.mark.parametrize("given", [[], ["-q"], ["--time", "utc"], ["--fail-on", "warning"], ["--jobs", "2"]])
@pytest.mark.parametrize("odd", [0.0, 0.05, 0.5])
def test_lines_of_the_compiled_reader_are_those_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], given: list[str], odd: float
) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    packets = sorted((packet for port in range(3) for packet in talk(port, 60, odd).packets), key=lambda packet: packet.time_ns)
    files = [str(write_pcap(tmp_path / f"{number}.pcap", packets[number::2] if number else packets)) for number in range(2)]
    written = []
    for choice in ("off", "require"):
        with reader(choice), blocks_of(4096):
            codes = run(monkeypatch, "messages", *given, files[0]), run(monkeypatch, "messages", *given, *files)
        written.append((codes, capsysbinary.readouterr()))
    assert written[0] == written[1]


def test_words_of_another_dissector_are_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    said = summary.message_summary
    monkeypatch.setattr(summary, "message_summary", lambda row: f"{said(row)}  #{row.sequence_id}")
    found: list[Any] = []
    wording_of = message_lines._wording_of
    monkeypatch.setattr(message_lines, "_wording_of", lambda *given: found.append(wording_of(*given)))
    with reader("require"):
        assert run(monkeypatch, "messages", str(write_pcap(tmp_path / "a.pcap", talk(1, 20, 0.0).packets))) == 0
    assert found
    assert {*found} == {None}
    assert "  #3" in capsys.readouterr().out
