"""Messages in the entries that brokers write to their storage, opened like those of SEND and MESSAGE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.entry.reader import Entry, EntryOpener
from pulsarscope.protocols.pulsar.frame.protobuf import Plan
from pulsarscope.protocols.pulsar.topics import topic_of_ledger
from pulsarscope.protocols.pulsar.values.connection_values import Values

if TYPE_CHECKING:
    from pulsarscope.dissect.contract.session import SessionSettings

_OWNER = "store", -1
"""No producer and no consumer: schemas come from the user."""


class StoredMessages:
    """An opener of the entries on one connection to a storage server. Oddities in them are reported where clients send or receive them."""

    def __init__(self, single_plan: Plan, settings: SessionSettings) -> None:
        self._names = settings.names
        values = Values(settings.schemas, settings.payload_decoders) if settings.schemas or settings.payload_decoders else None
        self._opener = EntryOpener(single_plan, settings.payload, settings.message_columns, settings.private_keys, values)

    def __call__(self, frame: FrameRow, place: tuple[int, int], payload: bytes) -> Entry | None:
        """Return an opened entry; None for a chunk, because its other chunks may be on other connections."""
        if (frame.metadata or {}).get("num_chunks_from_msg", 1) > 1:
            return None
        stand_in = topic_of_ledger({"ledgerId": place[0]})
        topic = stand_in and self._names.get(stand_in, stand_in)
        notes: list[Note] = []
        entry = self._opener.open(msgspec.structs.replace(frame, topic=topic), payload, _OWNER, notes)
        if entry is not None:
            entry.base.topic = topic
            entry.set_id({"ledgerId": place[0], "entryId": place[1]})
        return entry
