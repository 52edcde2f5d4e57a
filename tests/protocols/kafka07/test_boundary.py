"""Recognition by content: no frame of Kafka 0.7 is missed, nothing else is claimed, and later bytes change no result."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.dissect.contract.dissector import Candidate
from pulsarscope.protocols.kafka07 import boundary
from tests.protocols.kafka07.cases import look, talk
from tests.scenarios import command_frame, kafka07, message_metadata, payload_frame
from tests.scenarios.chance import randoms
from tests.scenarios.kafka07 import (
    GZIP,
    compressed,
    fetch,
    fetch_response,
    later_message,
    later_request,
    later_response,
    message,
    message_set,
    multifetch,
    multifetch_response,
    multiproduce,
    offsets,
    offsets_response,
    produce,
    short_string,
    sized,
)

SET = message_set(b"hello", b"world") + compressed(GZIP, message_set(b"x"))
PLENTY = 1 << 30

REQUESTS = {
    "produce": produce("orders", 0, SET),
    "produce any": produce("orders", -1, SET),
    "produce old": produce("orders", 1, message_set(b"hello", magic=0)),
    "fetch": fetch("orders", 3, 1 << 40),
    "multifetch": multifetch(("a", 0, 0, 10), ("b.c-d_e", 1, 7, 1 << 20)),
    "multiproduce": multiproduce(("a", 0, SET), ("b", 1, SET)),
    "offsets": offsets("orders", 0, -2, 1),
}
PROVEN_RESPONSES = {
    "fetch response": fetch_response(SET),
    "fetch response cut": fetch_response(SET[:-3]),
    "multifetch response": multifetch_response(fetch_response(), fetch_response(SET)),
}
LIKELY_RESPONSES = {"offsets response": offsets_response([1 << 33, 12, 0])}
FOLLOWING = {
    "empty": fetch_response(),
    "refused": fetch_response(error=1),
    "first message cut": fetch_response(SET[:12]),
    "multifetch of nothing": multifetch_response(fetch_response(), fetch_response(error=3)),
}
CORRELATION = 0x61626364
"""A correlation id of letters, which could be a topic."""

LATER = {
    "metadata": later_request(3, 0, 1, "console", struct.pack(">i", 0)),
    "api versions": later_request(18, 0, 0, "rdkafka"),
    "produce v0": later_request(0, 0, 7, "c", struct.pack(">hii", 1, 1000, 1) + short_string("t") + bytes(20)),
    "produce v2": later_request(0, 2, CORRELATION, "c", struct.pack(">hii", 1, 1000, 1) + short_string("t") + bytes(20)),
    "fetch v1": later_request(1, 1, CORRELATION, "c", struct.pack(">iiii", -1, 100, 1, 1)),
    "fetch v4": later_request(1, 4, CORRELATION, "console-consumer-1", struct.pack(">iiiib", -1, 100, 1, 1 << 20, 0)),
    "fetch v11": later_request(1, 11, CORRELATION, "abc", bytes(60)),
    "offsets v0": later_request(2, 0, 3, "c", struct.pack(">ii", -1, 1) + short_string("t")),
    "leader and isr": later_request(4, 4, CORRELATION, "abcd", bytes(16)),
    "fetch response": later_response(3, struct.pack(">i", 1) + short_string("t") + bytes(18) + later_message(b"x", 5)),
    "message set as in a response": sized(b"\0\0" + later_message(b"hello", 0)),
    "messages of 0.10": sized(b"\0\0" + later_message(b"hello", 0, magic=1)),
    "empty response": later_response(0, b""),
}


def candidate(data: bytes, *, checksums: bool = True, budget: int = PLENTY) -> Candidate | None:
    return boundary.candidate(data, 0, len(data), budget, checksums=checksums)


def proof(data: bytes, *, checksums: bool = True) -> str:
    actual = candidate(data, checksums=checksums)
    return "no" if actual is None else actual.proof


class TestFramesOfItsOwn:
    @pytest.mark.parametrize("name", REQUESTS)
    def test_a_request_at_the_start_opens_a_connection(self, name: str) -> None:
        data = REQUESTS[name]
        assert boundary.opens(b"xx" + data, 2, 2 + len(data)) == "client"

    @pytest.mark.parametrize("name", REQUESTS)
    def test_a_request_proves_itself(self, name: str) -> None:
        actual = candidate(REQUESTS[name])
        assert actual is not None
        assert (actual.size, actual.proof) == (len(REQUESTS[name]), "sure")

    @pytest.mark.parametrize("name", PROVEN_RESPONSES)
    def test_a_response_with_a_message_proves_itself_but_opens_nothing(self, name: str) -> None:
        assert proof(PROVEN_RESPONSES[name]) == "sure"
        assert boundary.opens(PROVEN_RESPONSES[name], 0, len(PROVEN_RESPONSES[name])) is None

    @pytest.mark.parametrize("name", LIKELY_RESPONSES)
    def test_offsets_are_likely(self, name: str) -> None:
        assert proof(LIKELY_RESPONSES[name]) == "likely"

    @pytest.mark.parametrize("name", FOLLOWING)
    def test_a_response_without_a_whole_message_proves_nothing_but_may_follow(self, name: str) -> None:
        assert proof(FOLLOWING[name]) == "no"
        assert proof(FOLLOWING[name], checksums=False) == "likely"

    @pytest.mark.parametrize("data", [*REQUESTS.values(), *PROVEN_RESPONSES.values(), *LIKELY_RESPONSES.values()])
    def test_they_are_found_behind_anything(self, data: bytes) -> None:
        assert boundary.find_candidate(b"\xff" * 7 + data, 0, 7 + len(data)) == 7

    def test_a_message_with_a_wrong_checksum_proves_nothing(self) -> None:
        bad = message(b"hello", crc=1)
        assert proof(produce("orders", 0, bad)) == "likely"
        assert proof(fetch_response(bad)) == "no"

    def test_what_would_cost_too_much_is_not_proven(self) -> None:
        actual = candidate(fetch_response(message(bytes(1000))), budget=500)
        assert actual is not None
        assert actual.proof == "no"


class TestOtherProtocols:
    @pytest.mark.parametrize("name", LATER)
    def test_later_versions_of_kafka_are_not_claimed(self, name: str) -> None:
        data = LATER[name]
        assert boundary.opens(data, 0, len(data)) is None
        for start in range(len(data)):
            actual = boundary.candidate(data, start, len(data), PLENTY)
            assert actual is None or actual.proof in ("no", "wait"), start

    @pytest.mark.parametrize(
        "data",
        [
            command_frame("CONNECT", client_version="x", protocol_version=21),
            command_frame("LOOKUP", topic="persistent://public/default/t", request_id=1),
            payload_frame("SEND", message_metadata(), b"payload", producer_id=1, sequence_id=2),
            sized(struct.pack(">ii", 0, 0)),  # ZooKeeper
            sized(struct.pack(">i", 5) + b"hello\x01\0\0\0\x01"),  # Thrift
            struct.pack(">ii", 8, 80877103),  # PostgreSQL
            b"GET / HTTP/1.1\r\n\r\n",
            bytes(100),
        ],
    )
    def test_neither_are_others(self, data: bytes) -> None:
        assert boundary.opens(data, 0, len(data)) is None
        assert all(
            actual.proof in ("no", "wait")
            for start in range(len(data))
            if (actual := boundary.candidate(data, start, len(data), PLENTY)) is not None
        )

    @pytest.mark.parametrize("opened", [True, False])
    def test_a_whole_connection_of_a_later_kafka_is_of_no_known_protocol(self, opened: bool) -> None:
        conversation = talk(opened=opened)
        for number in range(30):
            topic = struct.pack(">i", 1) + short_string("orders") + struct.pack(">ii", 1, 0)
            conversation.client(later_request(1, 0, number, "console", struct.pack(">iiii", -1, 100, 1, 1) + topic + bytes(12)))
            set_ = sized(later_message(b"hello" * 50, number))
            conversation.server(later_response(number, topic + struct.pack(">hq", 0, number) + set_))
        (connection,) = look(conversation.close()).connections
        assert connection.dissector is None


@given(randoms)
def test_what_is_said_depends_only_on_the_bytes_seen(random: Random) -> None:
    frames = [*REQUESTS.values(), *PROVEN_RESPONSES.values(), *LIKELY_RESPONSES.values(), *FOLLOWING.values(), *LATER.values()]
    data = bytearray(random.choice(frames) + random.choice(frames))
    for _ in range(random.choice((0, 0, 1, 3))):
        data[random.randrange(len(data))] = random.choice((0, 1, 255, random.randrange(256)))
    checksums = random.random() < 0.5
    whole = boundary.candidate(bytes(data), 0, len(data), PLENTY, checksums=checksums)
    for end in range(len(data)):
        part = boundary.candidate(bytes(data[:end]), 0, end, PLENTY, checksums=checksums)
        if part is None or part.proof != "wait":
            assert ("no" if part is None else part.proof) == ("no" if whole is None else whole.proof)
            assert whole is None or end >= whole.seen or whole.proof == "no"
        else:
            assert part.seen > end


@given(st.binary(min_size=6, max_size=300))
def test_no_bytes_raise_and_chance_proves_nothing(data: bytes) -> None:
    actual = boundary.candidate(data, 0, len(data), PLENTY)
    assert actual is None or actual.proof in ("no", "wait")
    assert boundary.opens(data, 0, len(data)) is None


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_without_a_payload_proves_nothing(magic: int) -> None:
    assert message(b"", magic=0)[4:] == bytes(5)  # its CRC32 is 0: zeros are valid messages of this kind
    assert proof(fetch_response(message(b"", magic=magic))) == "no"
    assert proof(multifetch_response(fetch_response(message(b"", magic=magic)))) == "no"
    assert proof(produce("orders", 0, message(b"", magic=magic))) == "likely"


@pytest.mark.parametrize(
    "data",
    [multifetch_response(*[fetch_response()] * 400, fetch_response(SET)), multifetch(*[("a", 0, 0, 10)] * 400)],
    ids=["response", "request"],
)
def test_parts_are_read_within_the_budget(data: bytes) -> None:
    assert proof(data) == "sure"
    whole = candidate(data)
    assert whole is not None
    assert whole.cost >= 400 * boundary.PART_COST
    within = candidate(data, budget=20 * boundary.PART_COST)
    assert within is not None
    assert (within.proof, within.cost <= 22 * boundary.PART_COST) == ("no", True)


def test_no_more_parts_of_a_response_are_read_than_of_a_request() -> None:
    data = multifetch_response(*[fetch_response()] * (boundary.PARTS_MAX + 1))
    assert proof(data, checksums=False) == "no"
    assert proof(multifetch_response(*[fetch_response()] * boundary.PARTS_MAX), checksums=False) == "likely"


def test_parts_that_come_bit_by_bit_are_not_read_anew_for_each() -> None:
    data = multifetch_response(*[fetch_response()] * 900, fetch_response(SET))
    end, looks = 10, 0
    while (actual := boundary.candidate(data, 0, end, PLENTY)) is not None and actual.proof == "wait":
        end, looks = actual.seen, looks + 1
    assert actual is not None
    assert actual.proof == "sure"
    assert looks < 20


def test_a_topic_is_waited_for_only_while_it_can_be_one() -> None:
    data = kafka07.request(kafka07.FETCH, short_string("a" * 200) + bytes(16))
    assert proof(data[:50]) == "wait"
    assert proof(data[:20] + b"\0" + data[21:50]) == "no"
