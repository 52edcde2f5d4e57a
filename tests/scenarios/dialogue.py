"""Frames handed to a session one by one, each in a packet of its own unless told otherwise; the rows that it gives, by kind."""

from __future__ import annotations

from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from pulsarscope.dissect.capabilities import GivenSchema, PayloadDecoder
from pulsarscope.dissect.contract import Dissector
from pulsarscope.dissect.frames import FrameBatch, KeptBytes, Origin
from pulsarscope.dissect.session import SessionContext
from pulsarscope.dissect.splitter import StreamSplitter
from pulsarscope.engine.pairing import Pairing
from pulsarscope.engine.session_rows import SessionRows
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ROWS, ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow, Row
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from tests.scenarios.frames import command_frame, message_metadata, payload_frame

AnyRow = TypeVar("AnyRow", bound=Row)

DISSECTOR = PulsarDissector(show_secrets=True)
STEP_NS = 1000
"""Between packets."""


def frames_of(dissector: Dissector, data: bytes, stream: int, connection: str) -> FrameBatch:
    """The frame that these bytes are, from the client (stream 0) or the server."""
    origin = Origin(None, connection, dissector.name)
    splitter = StreamSplitter(dissector, KeptBytes(payload=True), origin=origin, stream=stream, synced=True)
    batch = FrameBatch()
    splitter.feed(0, 0, [(data, 0, 0, 0)], batch)
    splitter.finish(0, batch)
    batch.assign((CLIENT, SERVER))
    return batch.part(0, 1)


class Dialogue:
    """Usage: `Dialogue().client(frame).server(frame).end()`; packet n has time n × STEP_NS."""

    def __init__(
        self,
        *kinds: str,
        payloads: bool = False,
        payload: str | None = None,
        private_keys: tuple[RSAPrivateKey, ...] = (),
        columns: tuple[str, ...] | None = None,
        schemas: tuple[GivenSchema, ...] = (),
        decoders: tuple[tuple[str, PayloadDecoder], ...] = (),
    ) -> None:
        context = SessionContext(
            Origin(None, "0:1", DISSECTOR.name),
            frozenset(kinds or ROWS),
            Pairing(),
            payloads,
            payload,
            columns,
            private_keys,
            schemas=schemas,
            payload_decoders=decoders,
        )
        self.session = SessionRows(DISSECTOR, context)
        self.rows: list[Any] = []
        self.packet = 0

    def client(self, *frames: bytes, packet: int | None = None, time: int | None = None) -> Dialogue:
        """The client sends these, each in the next packet, or all in the one named."""
        return self._give(0, frames, packet, time)

    def server(self, *frames: bytes, packet: int | None = None, time: int | None = None) -> Dialogue:
        """The server sends these."""
        return self._give(1, frames, packet, time)

    def end(self) -> Dialogue:
        """The connection ends."""
        self.session.finish(self.rows)
        return self

    def _give(self, stream: int, frames: tuple[bytes, ...], packet: int | None, time: int | None) -> Dialogue:
        for sub, data in enumerate(frames, 1):
            if packet is None:
                self.packet += 1
            frames = frames_of(DISSECTOR, data, stream, "0:1")
            frame = frames.rows[0]
            frame.packet = self.packet if packet is None else packet
            frame.sub = 1 if packet is None else sub
            frame.time = frame.packet * STEP_NS if time is None else time
            self.session.observe(frames, self.rows)
        return self

    def of(self, kind: type[AnyRow]) -> list[AnyRow]:
        """The rows of a kind so far."""
        return [row for row in self.rows if isinstance(row, kind)]

    @property
    def frames(self) -> list[FrameRow]:
        """Frame rows so far."""
        return self.of(FrameRow)

    @property
    def messages(self) -> list[MessageRow]:
        """Message rows so far."""
        return self.of(MessageRow)

    @property
    def exchanges(self) -> list[ExchangeRow]:
        """Exchange rows so far."""
        return self.of(ExchangeRow)

    @property
    def codes(self) -> list[str | None]:
        """Codes of the findings so far."""
        return [row.code for row in self.of(FindingRow)]

    def described(self) -> ConnectionRow:
        """A connection row that the session has filled."""
        row = ConnectionRow()
        self.session.describe(row)
        return row


def send(
    producer_id: int = 1, sequence_id: int = 0, payload: bytes = b"payload", metadata: dict[str, Any] | None = None, **fields: Any
) -> bytes:
    """A SEND; the metadata's sequence id is the command's."""
    head = message_metadata(**({"sequence_id": sequence_id} | (metadata or {})))
    return payload_frame("SEND", head, payload, producer_id=producer_id, sequence_id=sequence_id, **fields)


def receipt(producer_id: int = 1, sequence_id: int = 0, ledger: int = 7, entry: int = 0, **ident: Any) -> bytes:
    """A SEND_RECEIPT."""
    message_id = {"ledgerId": ledger, "entryId": entry, **ident}
    return command_frame("SEND_RECEIPT", producer_id=producer_id, sequence_id=sequence_id, message_id=message_id)


def message(
    consumer_id: int = 1,
    entry: int = 0,
    payload: bytes = b"payload",
    metadata: dict[str, Any] | None = None,
    broker_entry: dict[str, Any] | None = None,
    **fields: Any,
) -> bytes:
    """A MESSAGE."""
    head = message_metadata(**(metadata or {}))
    ident = {"ledgerId": 7, "entryId": entry}
    return payload_frame("MESSAGE", head, payload, broker_entry=broker_entry, consumer_id=consumer_id, message_id=ident, **fields)
