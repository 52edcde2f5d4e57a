"""The types that rooms hand each other."""

from __future__ import annotations

import msgspec
import pytest

from pulsarscope.protocols import DISSECTORS
from pulsarscope.records import FrameRow
from pulsarscope.wire.contract import Dissector, Frame, SessionContext
from tests.encoder.dialogue import DISSECTOR, Dialogue, send

INNER = ("moment", "stream", "notes", "payload", "raw")


def test_a_frame_is_its_row_and_a_few_fields_more() -> None:
    assert issubclass(Frame, FrameRow)
    assert Frame.__struct_fields__ == (*FrameRow.__struct_fields__, *INNER)


def test_a_frame_that_a_session_has_seen_is_written_as_its_row() -> None:
    (frame,) = Dialogue().client(send(payload=b"payload")).frames
    assert isinstance(frame, Frame)
    written = msgspec.json.decode(msgspec.json.encode(frame))
    assert written["record"] == "frame"
    assert not written.keys() & set(INNER)


@pytest.mark.parametrize("dissector", DISSECTORS)
def test_every_dissector_has_what_the_contract_asks(dissector: type) -> None:
    made: Dissector = dissector()
    wanted = {name for name in vars(Dissector) if not name.startswith("_")} | set(Dissector.__annotations__)
    assert [name for name in sorted(wanted) if not hasattr(made, name)] == []


def test_a_session_is_told_what_is_wanted() -> None:
    assert set(SessionContext.__struct_fields__) == {
        "source",
        "connection",
        "kinds",
        "pairing",
        "payloads",
        "payload",
        "message_columns",
        "private_keys",
        "schemas",
        "payload_decoders",
    }
    assert DISSECTOR.length.size <= DISSECTOR.min_frame_bytes
