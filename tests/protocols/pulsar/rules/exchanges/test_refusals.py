"""Each refusal has one finding: rules that read every request and rules about some of them neither both report it, nor leave it out."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.protocols.pulsar.session.exchanges import REQUESTS
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.commands import CONNECT, CONNECTED, TOPIC, created, producer, send, send_error, subscribe, success
from tests.scenarios.dialogue import RuleDialogue
from tests.scenarios.frames import sized
from tests.scenarios.samples import fill

ERRORS = pb.ServerError.keys()

INTENDED = {("GET_SCHEMA", "TopicNotFound")}
"""Refusals without a finding: a topic without a schema."""

OF_IDS = {"producer-id-reused", "consumer-id-reused"}
"""Findings about the connection of the test, whose PRODUCER and SUBSCRIBE repeat an id."""

TYPES = pb.BaseCommand.Type.DESCRIPTOR.values_by_name


def command(name: str, **fields: Any) -> bytes:
    """A command with its required fields, and those of these fields that it has."""
    base = pb.BaseCommand(type=TYPES[name].number)
    body: Any = getattr(base, pb.BaseCommand.DESCRIPTOR.fields_by_number[TYPES[name].number].name)
    body.SetInParent()
    fill(body, 1, required_only=True)
    for field, value in fields.items():
        if field in body.DESCRIPTOR.fields_by_name:
            setattr(body, field, value)
    return sized(sized(base.SerializeToString()))


def refusal(request: str, number: int, error: str) -> bytes:
    """The answer of this request, with an error, or an ERROR if it has no place for one."""
    value = pb.ServerError.Value(error)
    said = {"request_id": number, "message": "no", "error_message": "no"}
    response = command(REQUESTS[request].response, error=value, error_code=value, **said)
    return command("ERROR", error=value, **said) if response == command(REQUESTS[request].response, **said) else response


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.slow
def test_each_request_with_each_error_has_one_finding(request_: str, known: bool) -> None:
    """With a topic, and with that of a producer or consumer from before the capture."""
    odd = {}
    for error in ERRORS:
        talk = RuleDialogue().client(CONNECT).server(CONNECTED)
        if known:
            talk.client(producer(20_000, request=1)).server(created(request=1))
            talk.client(subscribe(20_000, request=2)).server(success(2))
        ids = {"producer_id": 20_000, "consumer_id": 20_000}
        talk.client(command(request_, request_id=3, topic=TOPIC, **ids)).server(refusal(request_, 3, error))
        codes = [code for code in talk.codes() if code not in OF_IDS]
        if len(codes) != 1 and (request_, error) not in INTENDED:
            odd[error] = codes
    assert odd == {}


@pytest.mark.parametrize("known", [False, True])
def test_a_send_with_each_error_has_one_finding(known: bool) -> None:
    """A ChecksumError has another one: about the message, which is sent again."""
    for error in ERRORS:
        talk = RuleDialogue().client(CONNECT).server(CONNECTED)
        if known:
            talk.client(producer(1, request=1)).server(created(request=1))
        codes = talk.client(send(1)).server(send_error(error, "no")).codes()
        assert len(codes) == (2 if error == "ChecksumError" else 1), (error, codes)


def test_a_connect_with_each_error_has_one_finding() -> None:
    for error in ERRORS:
        said = {"request_id": (1 << 64) - 1, "message": "no"}
        codes = RuleDialogue().client(CONNECT).server(command("ERROR", error=pb.ServerError.Value(error), **said)).codes()
        assert len(codes) == 1, (error, codes)
