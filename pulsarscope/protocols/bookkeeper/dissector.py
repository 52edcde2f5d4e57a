"""The BookKeeper dissector: the contract, kept by the modules of this folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from pulsarscope.dissect.capabilities import FollowKinds, Ranges, Redact, ReportTable, Vocabulary
from pulsarscope.dissect.contract import Dissector, Framing
from pulsarscope.dissect.dissector_rules import Rules
from pulsarscope.dissect.frames import Decoded
from pulsarscope.dissect.session import SessionContext
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES
from pulsarscope.model.records import Checksum, FrameRow, MessageRow
from pulsarscope.protocols.bookkeeper import boundary
from pulsarscope.protocols.bookkeeper.commands import AUTH, RESPONSE
from pulsarscope.protocols.bookkeeper.findings import CODES
from pulsarscope.protocols.bookkeeper.frame import BookkeeperFrameDecoder
from pulsarscope.protocols.bookkeeper.ledger_entry import Digest, digests_with
from pulsarscope.protocols.bookkeeper.session import BookkeeperSession

if TYPE_CHECKING:
    from pulsarscope.model.masked_names import MaskedNames

BOOKIE_PORT = 3181


class BookkeeperDissector(Dissector):
    """Stateless; one instance serves any number of connections."""

    name = "bookkeeper"
    ports = frozenset({BOOKIE_PORT})
    stores = True
    codes = CODES
    framing = Framing(boundary.LEAST_FRAME_BYTES, FRAME_HARD_MAX_BYTES, boundary.LOOKAHEAD_BYTES)
    sides = "client", "bookie"
    recognise = staticmethod(boundary.candidate)
    find_candidate = staticmethod(boundary.find_candidate)
    upgrade = staticmethod(boundary.starts_tls)

    def __init__(self, *, show_secrets: bool = False) -> None:
        self._show_secrets = show_secrets

    @cached_property
    def _decoder(self) -> BookkeeperFrameDecoder:
        return BookkeeperFrameDecoder(self._show_secrets, self.stored_readers, self._digests)

    @cached_property
    def _digests(self) -> tuple[Digest, ...]:
        return digests_with(self.passwords)

    @property
    def decode(self) -> Callable[[bytes, int, int], Decoded]:
        """See the contract."""
        return self._decoder.decode

    @property
    def decode_partial(self) -> Callable[[bytes, int, int], Decoded]:
        """See the contract."""
        return self._decoder.decode_partial

    def sender(self, command: str) -> str | None:
        """See the contract: AUTH looks the same in both directions."""
        if command == AUTH or not command:
            return None
        return SERVER if command.endswith(RESPONSE) else CLIENT

    def session(self, context: SessionContext) -> BookkeeperSession:
        """See the contract."""
        return BookkeeperSession(context, self.stored_openers)

    def redaction(self, names: MaskedNames) -> Redact:
        """See the contract."""
        from pulsarscope.protocols.bookkeeper.redaction import BookkeeperRedaction  # noqa: PLC0415 - one command needs it

        return BookkeeperRedaction(names, self._digests, self.stored_redactions).redact

    @cached_property
    def summary(self) -> Callable[[FrameRow], str]:
        """See the contract; imported on first use."""
        from pulsarscope.protocols.bookkeeper.summary import summary  # noqa: PLC0415 - machine outputs never need it

        return summary

    @cached_property
    def message_summary(self) -> Callable[[MessageRow], str]:
        """See the contract; as `summary`."""
        from pulsarscope.protocols.bookkeeper.summary import message_summary  # noqa: PLC0415

        return message_summary

    def message_checksum(self, row: FrameRow) -> Checksum | None:
        """See the contract: it is in the data of the entry; the digest is the entry's own."""
        data = (row.fields or {}).get("data") or {}
        return Checksum(data["checksum"], data["crc32c"]) if "crc32c" in data else None

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """See the contract; as `summary`."""
        from pulsarscope.protocols.bookkeeper.vocabulary import VOCABULARY  # noqa: PLC0415

        return VOCABULARY

    @property
    def rules(self) -> Rules:
        """See the contract; imported on first use."""
        from pulsarscope.protocols.bookkeeper.rules import RULES  # noqa: PLC0415 - most runs judge nothing

        return RULES

    @cached_property
    def tables(self) -> tuple[ReportTable, ...]:
        """See the contract; as `summary`."""
        from pulsarscope.protocols.bookkeeper.tables import tables  # noqa: PLC0415 - one command needs them

        return tables(self.receipt_readers)

    @cached_property
    def follow_kinds(self) -> FollowKinds:
        """See the contract."""
        from pulsarscope.protocols.bookkeeper.follow import FOLLOW_KINDS  # noqa: PLC0415 - only `follow` needs it

        return FOLLOW_KINDS

    def ranges(self, data: bytes) -> Ranges:
        """See the contract."""
        from pulsarscope.protocols.bookkeeper.ranges import ranges  # noqa: PLC0415 - only a hex view needs it

        return ranges(data, show_secrets=self._show_secrets, digests=self._digests)
