"""Recordings of a broker of Kafka 0.7.2 with clients of its time, compared with the clients' reports; fetches from within messages."""

from __future__ import annotations

import json
from collections import Counter
from itertools import accumulate
from pathlib import Path

import pytest

import pulsarscope as ps
from pulsarscope.analysis.statistics import Statistics
from pulsarscope.filter.fields import Catalogue
from pulsarscope.filter.follow import FollowFilter
from pulsarscope.filter.selection import Filter
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.kafka07.dissector import Kafka07Dissector
from pulsarscope.protocols.kafka07.summary import summary
from tests.places import CAPTURES
from tests.protocols.kafka07.cases import look, talk
from tests.scenarios.capturefile import pcap
from tests.scenarios.conversation import Conversation
from tests.scenarios.kafka07 import (
    GZIP,
    compressed,
    fetch,
    fetch_response,
    message,
    multifetch,
    multifetch_response,
    multiproduce,
    offsets,
    offsets_response,
)

BROKER = CAPTURES / "kafka07-broker"
DIRECTIONS = {"produced": "produce", "consumed": "deliver"}


def said(name: str) -> list[dict[str, object]]:
    lines = (BROKER / f"{name}.truth.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] in DIRECTIONS]


@pytest.mark.parametrize("name", ["nested.pcap", "python.pcap", "sync.pcap.zst"])
def test_every_message_is_what_the_clients_say(name: str) -> None:
    columns = ("topic", "partition", "size", "sha256")
    wanted = Counter((DIRECTIONS[str(row["kind"])], *(row[column] for column in columns)) for row in said(name.partition(".")[0]))
    rows = ps.open(str(BROKER / name)).messages()
    assert Counter((row.direction, row.topic, row.partition, row.payload_size, row.payload_sha256) for row in rows) == wanted


def test_every_codec_is_what_the_producer_says() -> None:
    wanted = Counter((row["sha256"], row["codec"]) for row in said("sync") if row["kind"] == "produced")
    rows = ps.open(str(BROKER / "sync.pcap.zst")).messages()
    assert Counter((row.payload_sha256, row.compression) for row in rows if row.direction == "produce") == wanted


@pytest.mark.parametrize("name", ["nested.pcap", "sync.pcap.zst"])
def test_a_client_goes_on_where_it_says(name: str) -> None:
    consumed = [row for row in said(name.partition(".")[0]) if row["kind"] == "consumed"]
    wanted = Counter((row["sha256"], row["next_offset"], row["magic"]) for row in consumed)
    rows = [row for row in ps.open(str(BROKER / name)).messages() if row.direction == "deliver"]
    assert Counter((row.payload_sha256, (row.extra or {})["next_offset"], (row.extra or {})["magic"]) for row in rows) == wanted


def test_codecs_of_sets_in_sets_are_reported() -> None:
    rows = [row for row in ps.open(str(BROKER / "nested.pcap")).messages() if row.direction == "produce"]
    nested = [(row.compression, (row.extra or {})["codecs"]) for row in rows if "codecs" in (row.extra or {})]
    assert ("SNAPPY", ["GZIP", "SNAPPY"]) in nested
    assert {row.compression for row in rows} == {"NONE", "GZIP", "SNAPPY"}


def test_fetches_from_within_messages_are_framed_and_answered() -> None:
    capture = ps.open(str(BROKER / "midmsg-real.pcap"))
    assert Counter(row.command for row in capture.frames()) == {"FETCH": 8, "FETCH_RESPONSE": 8}
    assert Counter(row.code for row in ps.open(str(BROKER / "midmsg-real.pcap")).findings()) == {
        "message-set-corrupt": 6,
        "fetched-twice": 1,
    }


def test_a_pipelining_client_is_answered_in_order_and_its_faults_are_reported() -> None:
    answered = [row for row in ps.open(str(BROKER / "raw.pcap")).exchanges() if row.connection == "0:1"]
    assert [row.status for row in answered] == ["ok"] * 26


LOG = b"".join(message(b"payload %d " % number * (number + 1)) for number in range(6)) + compressed(GZIP, message(b"in" * 40))


@pytest.mark.parametrize(("max_size", "step"), [(60, 5), (100, 1), (1_000, 7)])
@pytest.mark.slow
def test_no_offset_within_a_message_hides_the_answer_or_those_behind_it(max_size: int, step: int) -> None:
    borders = {0, *accumulate(len(entry) for entry in _entries())}
    for offset in sorted(set(range(len(LOG))) - borders)[::step]:
        conversation = talk().client(fetch("t", 0, offset, max_size)).server(fetch_response(LOG[offset : offset + max_size]))
        conversation.client(offsets("t", 0, -1, 1)).server(offsets_response([len(LOG)]))
        seen = look(conversation.close())
        assert seen.commands == ["FETCH", "FETCH_RESPONSE", "OFFSETS", "OFFSETS_RESPONSE"], offset
        assert [row.status for row in seen.exchanges] == ["ok", "ok"], offset
        if LOG[offset + 4 : offset + 5] in (b"\0", b"\1"):  # looks like the head of a message: only its end would show the difference
            continue
        assert seen.codes & {"message-set-corrupt", "checksum-mismatch"}, offset
        assert "fetch-too-small" not in seen.codes, offset


def _entries() -> list[bytes]:
    entries, rest = [], LOG
    while rest:
        size = 4 + int.from_bytes(rest[:4], "big")
        entries.append(rest[:size])
        rest = rest[size:]
    return entries


def test_a_part_from_within_a_message_does_not_hide_the_others() -> None:
    answer = multifetch_response(fetch_response(LOG[3:100]), fetch_response(LOG))
    seen = look(talk().client(multifetch(("a", 0, 3, 97), ("b", 0, 0, 9_999))).server(answer).close())
    assert seen.commands == ["MULTIFETCH", "MULTIFETCH_RESPONSE"]
    assert {row.topic for row in seen.messages} == {"b"}
    assert seen.codes == {"message-set-corrupt"}


def test_a_damaged_answer_is_paired_in_a_capture_that_begins_late() -> None:
    conversation = talk(opened=False).client(fetch("t", 0, 0, 999)).server(fetch_response(LOG))
    seen = look(conversation.client(fetch("t", 0, 3, 50)).server(fetch_response(LOG[3:53])).close())
    assert [row.status for row in seen.exchanges] == ["ok", "ok"]


@pytest.mark.parametrize("max_size", [8, 30, 2_000_000])
def test_a_message_larger_than_the_fetch_is_no_damage(max_size: int) -> None:
    log = message(b"x" * (max_size + 1))
    seen = look(talk().client(fetch("t", 0, 0, max_size)).server(fetch_response(log[:max_size])).close())
    assert seen.codes == {"fetch-too-small"}


@pytest.mark.parametrize("partition", [-2, -5, -(1 << 31)])
def test_a_negative_partition_is_separated_from_the_topic(partition: int) -> None:
    seen = look(talk().client(fetch("t", 0, 0)).client(fetch("t", partition, 0)).close())
    assert summary(seen.frames[1]).startswith(f"t partition {partition} at 0")


def of_several_topics() -> Conversation:
    conversation = talk().client(multiproduce(("a", 0, LOG), ("b", 0, message(b"x")), ("a", 1, message(b"y"))))
    conversation.client(multifetch(("a", 0, 0, 9_999), ("b", 0, 0, 9_999)))
    return conversation.server(multifetch_response(fetch_response(LOG), fetch_response(message(b"x")))).close()


def test_a_frame_of_several_topics_counts_messages_and_bytes_of_each() -> None:
    produced, asked, answer = look(of_several_topics()).frames
    one = {"messages": 1, "bytes": len(message(b"x"))}
    log = {"messages": 7, "bytes": len(LOG)}
    assert produced.topics == {"a": {"messages": 8, "bytes": len(LOG + message(b"y"))}, "b": one}
    assert asked.topics == {name: {"messages": 0, "bytes": 0} for name in "ab"}
    assert answer.topics == {"a": log, "b": one}
    assert {row.topic for row in (produced, asked, answer)} == {None}
    assert look(talk().client(multiproduce(("a", 0, LOG), ("a", 1, LOG))).close()).frames[0].topics is None


def filtered(text: str, path: Path) -> list[FrameRow]:
    dissector = Kafka07Dissector()
    display_filter = Filter(text, ["frame"], Catalogue([dissector.vocabulary], dissector.codes))
    return display_filter.select(list(ps.open(str(path)).frames()), {})


def test_statistics_filters_and_follow_find_each_of_several_topics(tmp_path: Path) -> None:
    path = tmp_path / "several.pcap"
    path.write_bytes(pcap(of_several_topics().packets))
    statistics = Statistics()
    statistics.feed(ps.open(str(path)).frames())
    records = {record["topic"]: record for record in statistics.sections(["topics"])["topics"]}
    assert {name: (record["client_messages"], record["server_messages"]) for name, record in records.items()} == {"a": (8, 7), "b": (1, 1)}
    for topic, count in (("a", 3), ("b", 3), ("c", 0)):
        assert len(filtered(f'topic == "{topic}"', path)) == count
        follow = FollowFilter("topic", topic, [Kafka07Dissector()])
        assert len(follow.select(list(ps.open(str(path)).frames()), {})) == count
    assert len(filtered('topic != "c"', path)) == 3
    assert not filtered('topic != "a"', path)
