"""The Pulsar dissector: the contract, implemented by the modules of this folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pulsarscope.dissect.contract.capabilities import (
    Ranges,
    ReadReceipt,
    ReadStored,
    Redact,
    RedactStored,
    Stored,
    TopicNames,
    Vocabulary,
)
from pulsarscope.dissect.contract.dissector import Candidate, Dissector, Framing, OpenStored
from pulsarscope.dissect.contract.frames import Decoded
from pulsarscope.dissect.contract.session import SessionContext, SessionSettings
from pulsarscope.model.limits import FRAME_DEFAULT_MAX_BYTES, FRAME_PADDING_BYTES
from pulsarscope.model.on_use import on_use
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.findings import CODES
from pulsarscope.protocols.pulsar.frame import boundary
from pulsarscope.protocols.pulsar.frame.commands import ANNOUNCING_COMMANDS, FAMILIES, OPENING_COMMANDS
from pulsarscope.protocols.pulsar.frame.decoder import FrameDecoder
from pulsarscope.protocols.pulsar.frame.protobuf import shared_plans
from pulsarscope.protocols.pulsar.frame.templates import HEAD_END, HEAD_START
from pulsarscope.protocols.pulsar.ports import PLAIN_PORT, TLS_PORT
from pulsarscope.protocols.pulsar.session.session import PulsarSession
from pulsarscope.protocols.pulsar.topics import base_topic, short_topic, stood_in

if TYPE_CHECKING:
    from pulsarscope.dissect.contract.known_issues import KnownIssues
    from pulsarscope.model.masked_names import MaskedNames


class PulsarDissector(Dissector):
    """The dissector: stateless, so that one instance serves any number of connections."""

    name = "pulsar"
    ports = frozenset({PLAIN_PORT, TLS_PORT})
    codes = CODES
    framing = Framing(boundary.HEADER_BYTES, FRAME_DEFAULT_MAX_BYTES + FRAME_PADDING_BYTES, boundary.LOOKAHEAD_BYTES)
    sides = "client", "broker"
    refusals = ("ERROR",)
    families = FAMILIES
    topics = TopicNames(short_topic, base_topic, stood_in)
    announcing = ANNOUNCING_COMMANDS
    layout_head = (HEAD_START, HEAD_END)
    opening = OPENING_COMMANDS

    # Imported on use: most runs evaluate no rules, and outputs for programs show no text.
    rules = on_use("pulsarscope.protocols.pulsar.rules:RULES")
    summary = on_use("pulsarscope.protocols.pulsar.text.summary:summary")
    message_summary = on_use("pulsarscope.protocols.pulsar.text.summary:message_summary")
    explain = on_use("pulsarscope.protocols.pulsar.text.explain:explain")
    tables = on_use("pulsarscope.protocols.pulsar.tables:TABLES")
    follow_kinds = on_use("pulsarscope.protocols.pulsar.session.follow:FOLLOW_KINDS")
    names_reader = on_use("pulsarscope.protocols.pulsar.admin_statistics:ledger_names")
    schema_reader = on_use("pulsarscope.protocols.pulsar.values.schema_forms:schema_in")

    def __init__(self, *, show_secrets: bool = False) -> None:
        self._decoder = FrameDecoder(show_secrets)
        self._senders = {command.name: command.sender for command in self._decoder.commands.values()}
        self._single_plan = shared_plans(show_secrets).named("SingleMessageMetadata")
        self.layouts = self._decoder.layouts
        if (native := load_native()[0]) is not None:
            from pulsarscope.protocols.pulsar.frame.compiled import compiled_reader  # noqa: PLC0415 - only where it is installed

            self.compiled = compiled_reader(native, show_secrets=show_secrets)

    @property
    def decode(self) -> Callable[[bytes, int, int], Decoded]:
        return self._decoder.decode

    @property
    def decode_partial(self) -> Callable[[bytes, int, int], Decoded]:
        return self._decoder.decode_partial

    def find_candidate(self, data: bytes, position: int, end: int) -> int:
        return boundary.find_candidate(data, position, end)

    def recognise(self, data: bytes, position: int, end: int, budget: int, *, checksums: bool = True) -> Candidate | None:
        return boundary.candidate(self._decoder, data, position, end, budget, checksums=checksums)

    def opens(self, data: bytes, position: int, end: int) -> str | None:
        return boundary.opens(self._decoder, data, position, end)

    def sender(self, command: str) -> str | None:
        return self._senders.get(command)

    def max_frame_size(self, fields: dict[str, Any]) -> int | None:
        """Return CONNECTED.max_message_size plus the padding that a frame may have beyond it."""
        announced = fields.get("max_message_size")
        return announced + FRAME_PADDING_BYTES if isinstance(announced, int) and announced > 0 else None

    def foreign(self, name: str | None, port: int) -> tuple[str, str]:
        """Return code and text of a finding; TLS and HTTP have their own."""
        if name == "TLS":
            if port == TLS_PORT:
                return "tls-no-secrets", "the connection is TLS, and no secrets are given"
            return "tls-on-plain-port", f"the client speaks TLS on port {port}"
        if name == "HTTP":
            return "http-on-plain-port", f"the client speaks HTTP on port {port}"
        return "not-pulsar", f"{name or 'an unknown protocol'} is spoken on port {port}"

    def session(self, context: SessionContext) -> PulsarSession:
        return PulsarSession(context, self._single_plan)

    @property
    def known_issues(self) -> KnownIssues:
        from pulsarscope.protocols.pulsar.known_issues import known_issues  # noqa: PLC0415 - as above

        return known_issues()

    def completes(self, row: FrameRow) -> bool:
        """Return True for a whole message, and for the last chunk of one."""
        metadata = row.metadata
        return not metadata or bool(metadata.get("chunk_id", 0) >= metadata.get("num_chunks_from_msg", 1) - 1)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        from pulsarscope.protocols.pulsar.text.vocabulary import vocabulary  # noqa: PLC0415 - only a filter needs it

        return vocabulary()

    def redaction(self, names: MaskedNames) -> Redact:
        from pulsarscope.protocols.pulsar.redaction import PulsarRedaction  # noqa: PLC0415 - one command needs it

        return PulsarRedaction(self._decoder, self._single_plan, names).redact

    @property
    def stored_reader(self) -> ReadStored:
        return self._read_stored

    def _read_stored(self, data: bytes, start: int, end: int) -> Stored | None:
        from pulsarscope.protocols.pulsar.entry.stored import read_stored  # noqa: PLC0415 - most captures hold no storage

        return read_stored(self._decoder.payload_heads, data, start, end)

    @property
    def stored_redaction(self) -> RedactStored:
        return self._redact_stored

    def _redact_stored(self, names: MaskedNames, data: bytes) -> bytes | None:
        from pulsarscope.protocols.pulsar.redaction import PulsarRedaction  # noqa: PLC0415 - one command needs it

        return PulsarRedaction(self._decoder, self._single_plan, names).stored(data)

    @property
    def receipt_reader(self) -> ReadReceipt:
        return self._read_receipt

    def _read_receipt(self, row: FrameRow) -> tuple[int, int] | None:
        from pulsarscope.protocols.pulsar.tables.receipts import read_receipt  # noqa: PLC0415 - as above

        return read_receipt(row)

    def stored_opener(self, settings: SessionSettings) -> OpenStored:
        from pulsarscope.protocols.pulsar.entry.stored_messages import StoredMessages  # noqa: PLC0415 - as above

        return StoredMessages(self._single_plan, settings)

    def ranges(self, data: bytes) -> Ranges:
        from pulsarscope.protocols.pulsar.frame.ranges import ranges  # noqa: PLC0415 - only a hex view needs it

        return ranges(self._decoder, data)
