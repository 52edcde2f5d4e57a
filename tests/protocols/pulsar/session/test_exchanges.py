"""Requests and their responses: the table compared with the protocol itself."""

from __future__ import annotations

import pytest

from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY, IN_ORDER, REFUSABLE, RESPONSES, error_of
from tests.scenarios import pulsar_pb2 as pb

BODIES = {
    value.name: pb.BaseCommand.DESCRIPTOR.fields_by_number[value.number].message_type for value in pb.BaseCommand.Type.DESCRIPTOR.values
}

WITHOUT_AN_EXCHANGE = {
    "SEND",  # first in, first out for each producer
    "SEND_RECEIPT",
    "SEND_ERROR",
    "MESSAGE",
    "FLOW",
    "REDELIVER_UNACKNOWLEDGED_MESSAGES",
    "REACHED_END_OF_TOPIC",
    "ACTIVE_CONSUMER_CHANGE",
    "WATCH_TOPIC_UPDATE",
    "TOPIC_MIGRATED",
}
"""Neither requests nor responses by id; and the updates of scalable topics."""


def test_every_request_and_every_response_by_id_has_an_id() -> None:
    for command in {*ANSWERED_BY, *ANSWERED_BY.values(), "ERROR"}:
        body = BODIES[command]
        assert body is not None
        assert "request_id" in body.fields_by_name, command


@pytest.mark.parametrize("command", BODIES)
def test_every_command_has_its_place(command: str) -> None:
    places = [
        command in ANSWERED_BY,
        command in RESPONSES or command == "ERROR",
        command in IN_ORDER or command in IN_ORDER.values(),
        command in WITHOUT_AN_EXCHANGE
        or (command.startswith(("SCALABLE_TOPIC_", "WATCH_SCALABLE_", "WATCH_TC_")) and command not in {*ANSWERED_BY, *RESPONSES}),
    ]
    kinds = "REQUESTS, answers of these, IN_ORDER, WITHOUT_AN_EXCHANGE"
    assert places.count(True) == 1, f"{command} must be in exactly one of {kinds}"


def test_every_response_named_so_answers_its_own_request() -> None:
    for response in (name for name in BODIES if name.endswith("_RESPONSE") and name != "AUTH_RESPONSE"):
        assert response in RESPONSES, response
        (request,) = (asked for asked, answer in ANSWERED_BY.items() if answer == response)
        if request != "TC_CLIENT_CONNECT_REQUEST":
            assert response == f"{request}_RESPONSE"


def test_success_answers_what_has_no_response_of_its_own() -> None:
    assert {asked for asked, answer in ANSWERED_BY.items() if answer == "SUCCESS"} == {
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "SEEK",
        "CLOSE_PRODUCER",
        "CLOSE_CONSUMER",
        "WATCH_TOPIC_LIST_CLOSE",
    }


def test_error_answers_every_request_but_an_acknowledgement() -> None:
    assert set(REFUSABLE) == set(ANSWERED_BY.values()) - {"ACK_RESPONSE"}


class TestErrorOf:
    @pytest.mark.parametrize(
        ("command", "fields", "found"),
        [
            ("ERROR", {"request_id": 1, "error": "TopicNotFound", "message": "m"}, ("TopicNotFound", "m")),
            ("SEND_ERROR", {"error": "ChecksumError", "message": "m"}, ("ChecksumError", "m")),
            ("GET_SCHEMA_RESPONSE", {"error_code": "MetadataError", "error_message": "m"}, ("MetadataError", "m")),
            ("LOOKUP_RESPONSE", {"response": "Failed", "error": "ServiceNotReady", "message": "m"}, ("ServiceNotReady", "m")),
            ("LOOKUP_RESPONSE", {"response": "Failed"}, ("UnknownError", None)),
            ("PARTITIONED_METADATA_RESPONSE", {"response": "Failed"}, ("UnknownError", None)),
            ("LOOKUP_RESPONSE", {"response": "Connect"}, (None, None)),
            ("SUCCESS", {"request_id": 1}, (None, None)),
            ("ACK_RESPONSE", {"consumer_id": 1, "error": "Unknown(99)"}, ("Unknown(99)", None)),
            ("SUCCESS", {}, (None, None)),
        ],
    )
    def test_the_error_and_what_was_said_are_found(
        self, command: str, fields: dict[str, object], found: tuple[str | None, str | None]
    ) -> None:
        assert error_of(command, fields) == found
