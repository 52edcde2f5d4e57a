"""The dissector keeps the contract of the wire room."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.frames import Origin
from pulsarscope.dissect.contract.session import SessionContext, SessionSettings
from pulsarscope.model.limits import FRAME_PADDING_BYTES
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.protocols.pulsar.session.session import PulsarSession
from tests.scenarios import command_frame, message_metadata, payload_frame

DISSECTOR = PulsarDissector()
PING = command_frame("PING")


def test_it_is_a_dissector() -> None:
    dissector: Dissector = DISSECTOR
    assert dissector.name == "pulsar"
    assert dissector.ports == {6650, 6651}
    assert dissector.announcing == {"CONNECTED"}
    assert dissector.opening == {"CONNECT", "CONNECTED"}


def test_the_length_of_a_frame_is_given_by_its_first_four_bytes() -> None:
    for frame in (
        PING,
        command_frame("CONNECT", client_version="x"),
        payload_frame("SEND", message_metadata(), b"x" * 9, producer_id=1, sequence_id=1),
    ):
        assert DISSECTOR.framing.length.unpack_from(frame)[0] + DISSECTOR.framing.adds == len(frame)
    assert len(PING) >= DISSECTOR.framing.smallest


def test_it_decodes_and_finds_frames() -> None:
    assert DISSECTOR.decode(PING, 0, len(PING))[0] == "PING"
    assert DISSECTOR.decode_partial(PING, 0, 9)[0] is None
    assert DISSECTOR.find_candidate(b"\xff\xff" + PING, 0, len(PING) + 2) == 2
    found = DISSECTOR.recognise(PING, 0, len(PING), 1000)
    assert found is not None
    assert (found.size, found.proof) == (len(PING), "likely")
    assert not DISSECTOR.opens(PING, 0, len(PING))


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, None),
        ({"max_message_size": 0}, None),
        ({"max_message_size": -1}, None),
        ({"max_message_size": 1}, 1 + FRAME_PADDING_BYTES),
        ({"max_message_size": 5 << 20}, (5 << 20) + FRAME_PADDING_BYTES),
        ({"max_message_size": (1 << 31) - 1}, (1 << 31) - 1 + FRAME_PADDING_BYTES),
    ],
)
def test_the_broker_announces_the_largest_frame(fields: dict[str, Any], limit: int | None) -> None:
    assert DISSECTOR.max_frame_size(fields) == limit


@pytest.mark.parametrize(
    ("name", "port", "code"),
    [
        ("TLS", 6651, "tls-no-secrets"),
        ("TLS", 6650, "tls-on-plain-port"),
        ("HTTP", 6650, "http-on-plain-port"),
        ("SSH", 6650, "not-pulsar"),
        (None, 6650, "not-pulsar"),
    ],
)
def test_another_protocol_on_its_port_is_a_finding(name: str | None, port: int, code: str) -> None:
    assert DISSECTOR.foreign(name, port)[0] == code
    assert str(port) in DISSECTOR.foreign(name, port)[1] or code == "tls-no-secrets"


def test_senders_are_known_by_command() -> None:
    assert [DISSECTOR.sender(name) for name in ("SEND", "MESSAGE", "PING", "UNKNOWN_200", "")] == ["client", "server", None, None, None]


def test_a_session_is_its_own() -> None:
    context = SessionContext(Origin(None, "0:1", "pulsar"), SessionSettings(frozenset({"frame"})))
    one, two = DISSECTOR.session(context), DISSECTOR.session(context)
    assert isinstance(one, PulsarSession)
    assert one is not two


def test_secrets_are_hidden_by_default() -> None:
    frame = command_frame("CONNECT", client_version="x", auth_data=b"secret")
    hidden = DISSECTOR.decode(frame, 0, len(frame))[1] or {}
    shown = PulsarDissector(show_secrets=True).decode(frame, 0, len(frame))[1] or {}
    assert (hidden["auth_data"], shown["auth_data"]) == ("redacted (6 bytes)", b"secret")


def test_words_and_ranges_come_from_their_modules() -> None:
    assert isinstance(DISSECTOR.summary(FrameRow(command="PING", fields={})), str)
    assert DISSECTOR.ranges(PING)[1][0] == (0, 4, f"totalSize  {len(PING) - 4}", 0)
