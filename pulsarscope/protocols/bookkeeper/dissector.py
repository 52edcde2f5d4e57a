"""The BookKeeper dissector: the contract, implemented by the modules of this folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from pulsarscope.dissect.contract.capabilities import Ranges, Redact, ReportTable
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.frames import Decoded
from pulsarscope.dissect.contract.session import SessionContext
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.on_use import on_use
from pulsarscope.model.records import Checksum, FrameRow
from pulsarscope.protocols.bookkeeper.commands import AUTH, RESPONSE
from pulsarscope.protocols.bookkeeper.findings import CODES
from pulsarscope.protocols.bookkeeper.framing import FRAMING
from pulsarscope.protocols.bookkeeper.start_tls import starts_tls

if TYPE_CHECKING:
    from pulsarscope.model.masked_names import MaskedNames
    from pulsarscope.protocols.bookkeeper.frame import BookkeeperFrameDecoder
    from pulsarscope.protocols.bookkeeper.ledger_entry import Digest
    from pulsarscope.protocols.bookkeeper.session import BookkeeperSession

BOOKIE_PORT = 3181


class BookkeeperDissector(Dissector):
    """The dissector: stateless, so that one instance serves any number of connections."""

    name = "bookkeeper"
    ports = frozenset({BOOKIE_PORT})
    stores = True
    codes = CODES
    framing = FRAMING
    sides = "client", "bookie"
    upgrade = staticmethod(starts_tls)

    # Imported on use: the first frame of most captures shows another protocol, and most runs evaluate no rules.
    recognise = on_use("pulsarscope.protocols.bookkeeper.boundary:candidate")
    find_candidate = on_use("pulsarscope.protocols.bookkeeper.boundary:find_candidate")
    summary = on_use("pulsarscope.protocols.bookkeeper.summary:summary")
    message_summary = on_use("pulsarscope.protocols.bookkeeper.summary:message_summary")
    vocabulary = on_use("pulsarscope.protocols.bookkeeper.vocabulary:VOCABULARY")
    rules = on_use("pulsarscope.protocols.bookkeeper.rules:RULES")
    follow_kinds = on_use("pulsarscope.protocols.bookkeeper.follow:FOLLOW_KINDS")

    def __init__(self, *, show_secrets: bool = False) -> None:
        self._show_secrets = show_secrets

    @cached_property
    def _decoder(self) -> BookkeeperFrameDecoder:
        from pulsarscope.protocols.bookkeeper.frame import BookkeeperFrameDecoder  # noqa: PLC0415 - see above

        return BookkeeperFrameDecoder(self._show_secrets, self.stored_readers, self._digests)

    @cached_property
    def _digests(self) -> tuple[Digest, ...]:
        from pulsarscope.protocols.bookkeeper.ledger_entry import digests_with  # noqa: PLC0415 - see above

        return digests_with(self.passwords)

    @property
    def decode(self) -> Callable[[bytes, int, int], Decoded]:
        return self._decoder.decode

    @property
    def decode_partial(self) -> Callable[[bytes, int, int], Decoded]:
        return self._decoder.decode_partial

    def sender(self, command: str) -> str | None:
        """Return the sender of a command; None for AUTH, which looks the same in both directions."""
        if command == AUTH or not command:
            return None
        return SERVER if command.endswith(RESPONSE) else CLIENT

    def session(self, context: SessionContext) -> BookkeeperSession:
        from pulsarscope.protocols.bookkeeper.session import BookkeeperSession  # noqa: PLC0415 - see above

        return BookkeeperSession(context, self.stored_openers)

    def redaction(self, names: MaskedNames) -> Redact:
        from pulsarscope.protocols.bookkeeper.redaction import BookkeeperRedaction  # noqa: PLC0415 - one command needs it

        return BookkeeperRedaction(names, self._digests, self.stored_redactions).redact

    def message_checksum(self, row: FrameRow) -> Checksum | None:
        """Return the checksum in the data of the entry, because the digest belongs to the entry itself."""
        data = (row.fields or {}).get("data") or {}
        return Checksum(data["checksum"], data["crc32c"]) if "crc32c" in data else None

    @cached_property
    def tables(self) -> tuple[ReportTable, ...]:
        from pulsarscope.protocols.bookkeeper.tables import tables  # noqa: PLC0415 - one command needs them

        return tables(self.receipt_readers)

    def ranges(self, data: bytes) -> Ranges:
        from pulsarscope.protocols.bookkeeper.ranges import ranges  # noqa: PLC0415 - only a hex view needs it

        return ranges(data, show_secrets=self._show_secrets, digests=self._digests)
