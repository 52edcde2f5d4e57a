from __future__ import annotations

import pytest

from pulsarscope.dissect import FrameSplitter
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.frames import SPLITTER_CODES, Origin
from pulsarscope.dissect.contract.session import SessionContext, SessionSettings
from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols import DISSECTORS
from pulsarscope.protocols.kafka07.dissector import Kafka07Dissector
from pulsarscope.protocols.kafka07.session import Kafka07Session
from tests.protocols.kafka07.cases import look, talk
from tests.scenarios.commands import CONNECT, CONNECTED
from tests.scenarios.conversation import Conversation
from tests.scenarios.kafka07 import fetch, fetch_response, later_request, message_set, produce

DISSECTOR = Kafka07Dissector()


def test_it_keeps_the_contract() -> None:
    dissector: Dissector = DISSECTOR
    assert dissector.name == "kafka07"
    assert dissector.codes.keys() >= SPLITTER_CODES
    assert Kafka07Dissector in DISSECTORS
    assert dissector.max_frame_size({"max_message_size": 5}) is None


def test_a_session_is_its_own() -> None:
    context = SessionContext(Origin(None, "0:1", "kafka07"), SessionSettings(frozenset({"frame"})))
    item, two = DISSECTOR.session(context), DISSECTOR.session(context)
    assert isinstance(item, Kafka07Session)
    assert item is not two


def test_senders_are_known_by_command() -> None:
    assert [DISSECTOR.sender(name) for name in ("PRODUCE", "OFFSETS", "RESPONSE", "FETCH_RESPONSE", "SEND", "")] == [
        "client",
        "client",
        "server",
        "server",
        None,
        None,
    ]


@pytest.mark.parametrize("port", [9092, 6667])
def test_another_protocol_on_its_port_is_a_note(port: int) -> None:
    seen = look(Conversation(server=("10.0.0.9", port)).handshake().client(later_request(18, 0, 1, "console")).close())
    assert seen.codes == {"not-kafka07"}
    assert str(port) in DISSECTOR.foreign("HTTP", port)[1]


def test_a_port_does_not_make_it_kafka_nor_pulsar() -> None:
    pulsar = look(talk().client(CONNECT).server(CONNECTED).close())
    assert [row.dissector for row in pulsar.connections] == ["pulsar"]


def test_frames_come_out_of_any_bytes() -> None:
    splitter = FrameSplitter(DISSECTOR)
    frames = splitter.feed(produce("t", 0, message_set(b"x")) + fetch("t", 0, 0)) + splitter.feed(fetch_response())
    assert [frame.command for frame in frames] == ["PRODUCE", "FETCH", "RESPONSE"]


def test_words_come_from_their_modules() -> None:
    assert DISSECTOR.summary(FrameRow(command="FETCH", topic="t", fields={})) == "t"
    assert DISSECTOR.message_summary(MessageRow(topic="t")) == "t"
    assert DISSECTOR.explain("time", -1) == "-1  latest"
    assert DISSECTOR.vocabulary.commands
    assert DISSECTOR.rules.connection
    assert DISSECTOR.ranges(fetch_response())[1] == [(0, 4, "length", 0), (4, 6, "error", 0)]
