"""Responses paired with earlier requests: in order, midstream, after gaps, and without a known request."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from random import Random

import pytest
from hypothesis import assume, given, settings

from pulsarscope.dissect.contract import pairing as pairing_module
from pulsarscope.model.records import ExchangeRow, FrameRow
from tests.protocols.kafka07.cases import Seen, look, talk
from tests.scenarios.chance import damaged, randoms
from tests.scenarios.conversation import Conversation
from tests.scenarios.kafka07 import (
    GZIP,
    compressed,
    fetch,
    fetch_response,
    message,
    message_set,
    multifetch,
    multifetch_response,
    multiproduce,
    offsets,
    offsets_response,
    produce,
    request,
)

SET = message_set(b"hello", b"world")


def outcome(row: ExchangeRow) -> tuple[str | None, str | None, str | None]:
    return row.request, row.response, row.status


def responses(seen: Seen) -> list[FrameRow]:
    return [row for row in seen.frames if row.direction == "server"]


class TestInOrder:
    def test_each_response_answers_the_oldest_request_that_waits(self) -> None:
        conversation = talk()
        conversation.client(fetch("a", 0, 5), offsets("b", 1, -1, 1), multifetch(("a", 0, 0, 99), ("b", 1, 7, 99)))
        conversation.server(fetch_response(), offsets_response([9]), multifetch_response(fetch_response(SET), fetch_response()))
        seen = look(conversation.close())
        assert [outcome(row) for row in seen.exchanges] == [
            ("FETCH", "FETCH_RESPONSE", "ok"),
            ("OFFSETS", "OFFSETS_RESPONSE", "ok"),
            ("MULTIFETCH", "MULTIFETCH_RESPONSE", "ok"),
        ]
        assert [row.request for row in responses(seen)] == ["0:4.1", "0:4.2", "0:4.3"]
        assert {row.latency_ns for row in responses(seen)} == {200_000}
        assert [row.topic for row in responses(seen)] == ["a", "b", None]
        assert seen.codes == set()

    def test_an_empty_response_is_what_was_asked_for(self) -> None:
        seen = look(talk().client(multifetch(("a", 0, 0, 99))).server(multifetch_response(fetch_response())).close())
        assert seen.commands == ["MULTIFETCH", "MULTIFETCH_RESPONSE"]

    def test_what_produces_is_not_waited_for(self) -> None:
        conversation = talk().client(produce("a", 0, SET), multiproduce(("a", 0, SET)), fetch("a", 0, 0)).server(fetch_response())
        seen = look(conversation.close())
        assert [outcome(row) for row in seen.exchanges] == [("FETCH", "FETCH_RESPONSE", "ok")]
        assert [(row.num_messages, row.payload_size) for row in seen.frames] == [(2, 30), (2, 30), (None, None), (0, 0)]

    @pytest.mark.parametrize(
        ("code", "name"), [(-1, "Unknown"), (1, "OffsetOutOfRange"), (2, "InvalidMessage"), (3, "WrongPartition"), (4, "InvalidFetchSize")]
    )
    def test_errors_are_those_of_the_exchange(self, code: int, name: str) -> None:
        seen = look(talk().client(fetch("a", 0, 5)).server(fetch_response(error=code)).close())
        (row,) = seen.exchanges
        assert (row.status, row.error, row.topic) == ("error", name, "a")

    def test_a_part_that_fails_makes_an_error(self) -> None:
        answer = multifetch_response(fetch_response(SET), fetch_response(error=3))
        (row,) = look(talk().client(multifetch(("a", 0, 0, 9), ("b", 0, 0, 9))).server(answer).close()).exchanges
        assert (row.status, row.error) == ("error", "WrongPartition")

    def test_what_is_not_answered_is_said_at_the_end(self) -> None:
        seen = look(talk().client(fetch("a", 0, 5), fetch("a", 0, 6)).server(fetch_response()).close())
        assert [outcome(row) for row in seen.exchanges] == [("FETCH", "FETCH_RESPONSE", "ok"), ("FETCH", None, "unanswered")]

    def test_where_a_fetch_goes_on_is_reported(self) -> None:
        packed = compressed(GZIP, SET)
        answer = fetch_response(SET + packed + message(b"cut")[:7])
        (row,) = responses(look(talk().client(fetch("a", 3, 1000, len(answer) - 6)).server(answer).close()))
        assert row.extra == {"partition": 3, "offset": 1000, "next_offset": 1000 + len(SET + packed)}
        assert (row.fields or {})["cut"] == 7
        assert row.num_messages == 4

    def test_where_each_part_goes_on_is_reported(self) -> None:
        answer = multifetch_response(fetch_response(SET), fetch_response(SET[:-1]))
        (row,) = responses(look(talk().client(multifetch(("a", 3, 10, 99), ("b", 0, 7, len(SET) - 1))).server(answer).close()))
        assert row.extra == {
            "parts": [
                {"topic": "a", "partition": 3, "offset": 10, "next_offset": 40},
                {"topic": "b", "partition": 0, "offset": 7, "next_offset": 22},
            ]
        }
        assert [part.get("cut") for part in (row.fields or {})["parts"]] == [None, 14]

    def test_too_many_requests_that_wait_are_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pairing_module, "PENDING_REQUESTS_MAX", 2)
        seen = look(talk().client(*[fetch("a", 0, number) for number in range(3)]).server(fetch_response()).close())
        assert [row.status for row in seen.exchanges] == ["unanswered", "ok", "unanswered"]
        assert "session-cap" in seen.codes
        assert responses(seen)[0].request == "0:4.2"


class TestMidstream:
    def test_a_response_before_any_request_is_unrequested(self) -> None:
        conversation = talk(opened=False).server(fetch_response(SET)).client(fetch("a", 0, 30)).server(fetch_response())
        seen = look(conversation.close())
        assert [outcome(row) for row in seen.exchanges] == [
            (None, "FETCH_RESPONSE", "unrequested"),
            ("FETCH", "FETCH_RESPONSE", "ok"),
        ]
        assert responses(seen)[0].topic is None
        assert "response-unrequested" in seen.codes

    def test_the_client_is_known_by_its_commands(self) -> None:
        conversation = Conversation(("10.0.0.1", 9092), ("10.0.0.9", 40_000)).client(fetch("a", 0, 30)).server(fetch_response())
        (row,) = look(conversation).connections
        assert (row.client, row.server, row.dissector) == ("10.0.0.1:9092", "10.0.0.9:40000", "kafka07")

    def test_a_response_that_can_be_several_is_given_no_name_of_one(self) -> None:
        conversation = talk(opened=False).server(fetch_response(SET)).server(fetch_response())
        seen = look(conversation)
        assert seen.commands == ["FETCH_RESPONSE", "RESPONSE"]
        assert {row.status for row in seen.exchanges} == {"unrequested"}

    def test_messages_of_an_unknown_fetch_have_neither_topic_nor_offset(self) -> None:
        (row, _) = look(talk(opened=False).server(fetch_response(SET))).messages
        assert (row.topic, row.partition, row.extra) == (None, None, {"magic": 1})


class TestGaps:
    def test_behind_a_lost_response_the_next_one_answers_the_next_request(self) -> None:
        lost = fetch_response(SET)
        conversation = talk().client(fetch("a", 0, 0)).server(fetch_response(SET))
        conversation.client(fetch("a", 0, 30)).lose("server", len(lost)).client(fetch("b", 0, 60)).server(fetch_response(SET))
        seen = look(conversation.close())
        assert sorted(map(outcome, seen.exchanges), key=str) == [
            ("FETCH", "FETCH_RESPONSE", "ok"),
            ("FETCH", "FETCH_RESPONSE", "ok"),
            ("FETCH", None, "unanswered"),
        ]
        assert [row.topic for row in responses(seen) if row.command == "FETCH_RESPONSE"] == ["a", "b"]

    def test_a_response_to_a_lost_request_is_unrequested(self) -> None:
        conversation = talk().client(fetch("a", 0, 0)).server(fetch_response(SET)).lose("client", len(fetch("a", 0, 30)))
        conversation.server(fetch_response(SET)).client(fetch("b", 0, 60)).server(fetch_response(SET))
        seen = look(conversation.close())
        assert [(row.status, row.topic) for row in seen.exchanges] == [("ok", "a"), ("unrequested", None), ("ok", "b")]

    def test_a_response_that_cannot_be_the_answer_is_unrequested(self) -> None:
        conversation = talk().client(fetch("a", 0, 0)).server(fetch_response(SET)).lose("client", 30)
        conversation.client(fetch("b", 0, 60)).server(offsets_response([1 << 40, 7])).server(fetch_response())
        seen = look(conversation.close())
        assert [outcome(row) for row in seen.exchanges[1:]] == [
            (None, "OFFSETS_RESPONSE", "unrequested"),
            ("FETCH", "FETCH_RESPONSE", "ok"),
        ]

    def test_of_a_client_that_does_not_wait_nothing_is_guessed(self) -> None:
        conversation = talk().client(fetch("a", 0, 0), fetch("a", 0, 1), fetch("a", 0, 2))
        conversation.server(fetch_response(SET)).lose("server", 10).server(fetch_response(SET), fetch_response(SET))
        seen = look(conversation.close())
        assert [row.status for row in seen.exchanges].count("unrequested") == 2
        assert [row.request for row in responses(seen) if row.status == "ok"] == ["0:4.1", None, None]

    def test_two_requests_between_responses_show_a_client_that_does_not_wait(self) -> None:
        conversation = talk().client(fetch("a", 0, 0)).lose("server", 10).server(fetch_response(SET))
        conversation.client(fetch("b", 0, 0)).client(fetch("c", 0, 0)).server(fetch_response(SET)).server(fetch_response(SET))
        seen = look(conversation.close())
        assert [row.request for row in responses(seen)] == [None, None, None]
        assert {row.status for row in seen.exchanges} == {"unanswered", "unrequested"}

    def test_bytes_that_no_frame_is_found_in_have_answered(self) -> None:
        conversation = talk().client(fetch("a", 0, 0)).lose("server", 10).client(fetch("b", 0, 0)).server(fetch_response(error=1))
        conversation.lose("client", len(fetch("c", 0, 0))).server(fetch_response(SET)).client(fetch("d", 0, 0)).server(fetch_response(SET))
        seen = look(conversation.close())
        assert [(row.packet, row.response_packet) for row in seen.exchanges if row.status == "ok"] == [(12, 14)]

    def test_a_response_that_is_cut_by_a_gap_still_answers(self) -> None:
        conversation = talk().client(fetch("a", 0, 0)).server(fetch_response(SET)[:20]).lose("server", 16)
        seen = look(conversation.client(fetch("a", 0, 30)).server(fetch_response(SET)).close())
        assert [(row.command, row.status, row.request) for row in responses(seen)] == [
            ("FETCH_RESPONSE", "truncated", "0:4.1"),
            ("FETCH_RESPONSE", "ok", "0:8.1"),
        ]


class TestDisorder:
    def test_a_response_captured_before_its_request_is_its_answer_without_a_latency(self) -> None:
        conversation = talk().client(fetch("a", 0, 0)).server(fetch_response(SET)).close()
        packets = conversation.packets
        packets[3], packets[5] = packets[5], packets[3]
        times = sorted(packet.time_ns for packet in packets)
        conversation.packets = [packet._replace(time_ns=time) for packet, time in zip(packets, times, strict=True)]
        seen = look(conversation)
        (row,) = seen.exchanges
        assert (*outcome(row), row.latency_ns) == ("FETCH", "FETCH_RESPONSE", "ok", None)
        assert seen.codes == {"capture-order"}

    def test_one_from_further_back_is_unrequested(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pulsarscope.dissect.contract.exchange.REORDERED_PACKETS_MAX", 3)
        conversation = talk().server(fetch_response(SET)).client(produce("a", 0, SET)).client(produce("a", 0, SET)).client(fetch("a", 0, 0))
        seen = look(conversation.close())
        assert [outcome(row) for row in seen.exchanges] == [(None, "FETCH_RESPONSE", "unrequested"), ("FETCH", None, "unanswered")]


class TestOddFrames:
    def test_a_request_longer_than_its_contents_has_trailing_bytes(self) -> None:
        odd = request(1, fetch("a", 0, 0)[6:] + b"more")
        seen = look(talk().client(fetch("a", 0, 0), odd, fetch("a", 0, 0)).close())
        assert [row.status for row in seen.frames] == ["ok", "ok", "ok"]
        assert seen.frames[1].findings == ["trailing-bytes"]

    def test_a_request_shorter_than_its_contents_is_malformed(self) -> None:
        odd = request(0, produce("a", 0, SET)[6:-4])
        seen = look(talk().client(fetch("a", 0, 0), odd, fetch("a", 0, 0)).close())
        assert [(row.command, row.status) for row in seen.frames][1] == ("PRODUCE", "malformed")
        assert "frame-malformed" in seen.codes

    def test_a_frame_of_no_request_from_the_client_is_malformed(self) -> None:
        seen = look(talk().client(fetch("a", 0, 0), fetch_response(error=-1), fetch("a", 0, 0)).close())
        assert [(row.command, row.status, row.findings) for row in seen.frames][1] == (None, "malformed", ["frame-malformed"])

    def test_a_response_that_is_not_what_was_asked_for_is_malformed(self) -> None:
        seen = look(talk().client(multifetch(("a", 0, 0, 9))).server(offsets_response([7, 0])).close())
        assert [(row.command, row.status) for row in seen.frames][1] == ("MULTIFETCH_RESPONSE", "malformed")

    def test_a_response_that_looks_like_a_request_is_a_response(self) -> None:
        alike = fetch_response(fetch("a", 0, 0)[6:], error=1)
        seen = look(talk().client(fetch("a", 0, 0)).server(alike).close())
        assert seen.commands == ["FETCH", "FETCH_RESPONSE"]


SAMPLES = [
    (fetch("a", 0, 0), fetch_response(SET)),
    (fetch("a", 0, 30), fetch_response(SET + message(b"x")[:5])),
    (offsets("a", 0, -1, 3), offsets_response([50, 0])),
    (multifetch(("a", 0, 0, 9), ("b", 1, 3, 9)), multifetch_response(fetch_response(SET), fetch_response(error=1))),
    (produce("a", 0, compressed(GZIP, SET)), b""),
    (multiproduce(("a", 0, SET), ("b", 1, message_set(b"x", magic=0))), b""),
]


SEGMENTS = 1448, 19
"""Bytes of a segment."""


def segment_ends(writes: Sequence[bytes], mss: int) -> set[int]:
    """Return the positions at which segments end in a stream of writes."""
    begin = [0, *accumulate(map(len, writes))]
    return {at + min(end, len(write)) for at, write in zip(begin, writes, strict=False) for end in range(mss, len(write) + mss, mss)}


@pytest.mark.slow
@settings(max_examples=60)
@given(randoms)
def test_whatever_is_damaged_or_lost_every_byte_is_accounted_for_and_segments_change_nothing(random: Random) -> None:
    said = [random.choice(SAMPLES) for _ in range(random.randint(2, 10))]
    said = [tuple(damaged(part, random) if part and random.random() < 0.15 else part for part in pair) for pair in said]  # type: ignore[misc]
    shapes = []
    for mss in SEGMENTS:
        conversation = talk(mss=mss, opened=random.random() < 0)
        for asked, answered in said:
            conversation.client(asked).server(answered)
        seen = look(conversation)
        for row in seen.connections:
            for side in ("client", "server"):
                framed = sum(frame.size or 0 for frame in seen.frames if frame.direction == side and frame.status in ("ok", "malformed"))
                rest = sum(getattr(row, f"{side}_{what}") or 0 for what in ("skipped", "missing", "tail"))
                assert framed + rest == getattr(row, f"{side}_bytes")
        shapes.append(sorted((row.direction or "", row.offset or 0, row.size or 0, row.status or "") for row in seen.frames))
    # After framing is lost, a frame that ends with a segment is accepted.
    ends = {
        side: [segment_ends([pair[number] for pair in said], mss) for mss in SEGMENTS] for number, side in enumerate(("client", "server"))
    }
    for side, offset, size, status in {*shapes[0]} ^ {*shapes[1]}:
        large, small = (offset + size in of_size for of_size in ends[side])
        assume(status != "ok" or large == small)
    assert shapes[0] == shapes[1]
