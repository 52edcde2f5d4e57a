"""The command table: every type of the protocol, encoded with upb, decoded, and compared with the output of upb."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from pulsarscope.dissect.contract.frames import OK
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.protocols.pulsar.frame.commands import (
    OPENING_COMMANDS,
    PAYLOAD_COMMANDS,
    command_table,
)
from pulsarscope.protocols.pulsar.frame.decoder import FrameDecoder
from pulsarscope.protocols.pulsar.frame.protobuf import Plans
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY, IN_ORDER
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.frames import CHECKSUM_MAGIC, message_metadata, sized
from tests.scenarios.samples import VARIANTS, as_dict, command

DECODER = FrameDecoder(show_secrets=True)
TABLE = command_table(Plans(show_secrets=True))
NUMBERS = {value.name: value.number for value in pb.BaseCommand.Type.DESCRIPTOR.values}


def framed(base: bytes, name: str) -> tuple[bytes, int | None]:
    """A frame around a BaseCommand, and the position of its payload."""
    if name not in PAYLOAD_COMMANDS:
        return sized(sized(base)), None
    metadata = message_metadata()
    rest = sized(metadata) + b"payload"
    checked = CHECKSUM_MAGIC + crc32c(rest).to_bytes(4, "big") + rest
    return sized(sized(base) + checked), 8 + len(base) + 10 + len(metadata)


def test_the_table_has_the_commands_of_the_protocol() -> None:
    assert {row.name: number for number, row in TABLE.items()} == NUMBERS


@pytest.mark.parametrize("variant", range(VARIANTS))
@pytest.mark.parametrize("name", NUMBERS)
def test_a_command_with_every_field_set_decodes_to_them(name: str, variant: int) -> None:
    base, body = command(NUMBERS[name], variant)
    frame, payload_at = framed(base.SerializePartialToString(), name)
    found, fields, entry, checksum, metadata, payload_offset, status, notes = DECODER.decode(frame, 0, len(frame))
    assert (found, status, entry) == (name, OK, None)
    assert fields == as_dict(body)
    assert payload_offset == payload_at
    assert (metadata is not None, checksum is not None) == (payload_at is not None,) * 2
    assert notes is None


@pytest.mark.parametrize("variant", range(VARIANTS))
@pytest.mark.parametrize("name", NUMBERS)
def test_a_command_of_its_required_fields_alone_decodes_to_them(name: str, variant: int) -> None:
    base, body = command(NUMBERS[name], variant, required_only=True)
    frame, _ = framed(base.SerializeToString(), name)
    found, fields, _, _, _, _, status, notes = DECODER.decode(frame, 0, len(frame))
    assert (found, status, notes) == (name, OK, None)
    assert fields == as_dict(body)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_command_without_its_body_keeps_its_name_and_says_so(name: str) -> None:
    frame, _ = framed(pb.BaseCommand(type=NUMBERS[name]).SerializeToString(), name)
    found, fields, _, _, _, _, status, notes = DECODER.decode(frame, 0, len(frame))
    assert (found, fields, status) == (name, None, "malformed")
    assert notes is not None
    assert notes[0] == ("body-mismatch", f"type says {name}, the command holds no body")


@pytest.mark.parametrize("name", NUMBERS)
def test_an_empty_body_names_all_required_fields(name: str) -> None:
    row = TABLE[NUMBERS[name]]
    frame, _ = framed(pb.BaseCommand(type=NUMBERS[name]).SerializeToString() + row.tag + b"\x00", name)
    found, fields, _, _, _, _, status, notes = DECODER.decode(frame, 0, len(frame))
    assert (found, fields, status) == (name, {}, OK)
    missing = [("required-field-missing", f"{row.plan.name}.{field}") for field in row.plan.required]
    assert (notes or []) == missing


@pytest.mark.parametrize("name", NUMBERS)
def test_the_type_may_stand_behind_the_body(name: str) -> None:
    base, body = command(NUMBERS[name], 1)
    kind = pb.BaseCommand(type=NUMBERS[name]).SerializeToString()
    data = base.SerializePartialToString()
    assert data.startswith(kind)
    frame, _ = framed(data[len(kind) :] + kind, name)
    found, fields, _, _, _, _, status, notes = DECODER.decode(frame, 0, len(frame))
    assert (found, fields, status, notes) == (name, as_dict(body), OK, None)


def test_the_tag_of_a_row_is_that_of_the_body() -> None:
    for number, row in TABLE.items():
        base, _ = command(number, 0)
        kind = pb.BaseCommand(type=number).SerializeToString()
        assert base.SerializePartialToString().startswith(kind + row.tag)


def test_the_sides_that_send_a_command_fit_the_pairs_of_requests_and_responses() -> None:
    sender = {row.name: row.sender for row in TABLE.values()}
    for request, response in ANSWERED_BY.items():
        assert sender[request] in (CLIENT, None), request
        assert sender[response] == SERVER, response
    assert {name: sender[name] for name in (*IN_ORDER, *IN_ORDER.values())} == {
        "CONNECT": CLIENT,
        "CONNECTED": SERVER,
        "AUTH_CHALLENGE": SERVER,
        "AUTH_RESPONSE": CLIENT,
        "PING": None,
        "PONG": None,
    }


def test_what_both_sides_send_proves_nobody_s_role() -> None:
    both = {row.name for row in TABLE.values() if row.sender is None}
    assert both == {"PING", "PONG", "CLOSE_PRODUCER", "CLOSE_CONSUMER", "SCALABLE_TOPIC_CLOSE"}


def test_only_send_and_message_carry_a_payload() -> None:
    assert {row.name for row in TABLE.values() if row.payload} == PAYLOAD_COMMANDS == {"SEND", "MESSAGE"}
    assert {"CONNECT", "CONNECTED"} == OPENING_COMMANDS
