"""The contract between the engine and the dissectors.

A dissector knows one protocol and nothing else: bytes in, frames out. The engine knows no protocol: it cuts streams, names frames, pairs
exchanges and writes rows by asking the dissector. Six members of `Dissector` are required; the rest are capabilities with defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pulsarscope.dissect.contract.capabilities import (
    SECRET_RANGE,
    FollowKinds,
    Ranges,
    ReadNames,
    ReadReceipt,
    ReadRegistry,
    ReadSchema,
    ReadStored,
    Redact,
    RedactStored,
    ReportTable,
    TopicNames,
    Vocabulary,
)
from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.events import MessageEntry
from pulsarscope.dissect.contract.frame_size import FrameSize
from pulsarscope.dissect.contract.frames import TRUNCATED, Decoded
from pulsarscope.dissect.contract.generic_codes import GENERIC_CODES
from pulsarscope.dissect.contract.session import Session, SessionContext, SessionSettings
from pulsarscope.model.findings import Code
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import Checksum, FrameRow, MessageRow

if TYPE_CHECKING:
    from pulsarscope.dissect.contract.known_issues import KnownIssues  # as above
    from pulsarscope.model.masked_names import MaskedNames  # few runs need it


OpenStored = Callable[[FrameRow, tuple[int, int], bytes], MessageEntry | None]
"""Opener of a stored entry: (frame that carries it, (its ledger, its number there), payload) → its messages; None if it is not complete."""

MakeStoredOpener = Callable[[SessionSettings], OpenStored | None]


CONTRACT = 1
"""Version of the contract that this package implements. New capabilities have defaults and do not change it."""

SUMMARY_ITEMS = 5
"""Values of a list that the summary of a frame shows."""

Layout = Callable[[bytes, int, int], Decoded | None]
"""Reader of the whole frame data[start:end]: returns the same as `Dissector.decode` if the frame has the layout of an earlier one, else
None. Such a frame has a command, is not malformed, and announces nothing."""


class Candidate(NamedTuple):
    """A possible frame start found by content."""

    size: int
    """Bytes of the whole frame, including its length field. 0 when not known yet, which only `sure` and `wait` allow."""
    seen: int
    """Position after the last byte that was examined or, for `wait`, is needed."""
    proof: str
    """sure (proven by its own checksum), likely (a second frame must follow), wait (more bytes are needed), or no (no frame begins here,
    but finding out took work)."""
    cost: int
    """Work that recognition took, as the number of bytes for which a checksum takes as long."""


class Framing(msgspec.Struct, frozen=True):
    """The arithmetic of length-prefixed frames."""

    smallest: int
    """Bytes of the smallest frame; a smaller one means that the framing is lost."""
    largest: int
    """Bytes of the largest frame, until a frame announces another bound."""
    lookahead: int
    """Bytes that `Dissector.recognise` needs to decide about a position."""
    length: Struct | FrameSize = Struct(">I")
    """Format of the length field at the start of each frame, or a function."""
    adds: int = 4
    """Size of the whole frame minus the value of its length field."""

    @property
    def sizing(self) -> int:
        """Bytes of a frame that must be present before its size is asked for."""
        return self.smallest if isinstance(self.length, FrameSize) else self.length.size


class Dissector:
    """A protocol. Stateless: sessions hold the state.

    A subclass defines `name`, `ports`, `framing`, `recognise`, `decode` and `session`. Members that return a function are read once for
    many calls; a method works as well.
    """

    name: str
    ports: frozenset[int]
    """Ports on which the protocol is expected: other traffic there is a finding."""
    framing: Framing
    show_secrets: bool = False
    """`decode` and `ranges` leave credentials readable."""

    def __init__(self, *, show_secrets: bool = False) -> None:
        """Args: show_secrets: leave credentials readable."""
        self.show_secrets = show_secrets

    def recognise(self, data: bytes, position: int, end: int, budget: int, *, checksums: bool) -> Candidate | None:
        """Return the frame that may begin at `position`. The check is strict, because the framing of these bytes is not known.

        The answer depends only on the bytes up to `Candidate.seen`, not on later ones.

        Args:
            data: the bytes; only those from `position` to `end` count.
            position: start of the frame.
            end: end of the bytes.
            budget: work that the answer may take, as in `Candidate.cost`. An answer that would take more is None, or has no proof.
            checksums: prove by checksum; False after another frame, where less is enough.
        """
        raise NotImplementedError

    @property
    def decode(self) -> Callable[[bytes, int, int], Decoded]:
        """Reader of the frame data[start:end], from (data, start, end). Never raises on any bytes."""
        raise NotImplementedError

    def session(self, context: SessionContext) -> Session:
        """Return a new session."""
        raise NotImplementedError

    # ---- capabilities: framing and recognition

    contract: int = 1
    """Version of the contract that the dissector is written for."""
    package: str = "pulsarscope"
    """Name of the distribution that provides it; the registry sets it."""
    announcing: frozenset[str] = frozenset()
    """Commands that may announce a bound on frame sizes."""
    opening: frozenset[str] = frozenset()
    """Commands by which the two sides open a connection: readers need them to follow it."""
    upgrade: Callable[[bytes], int | None] | None = None
    """Function of the first bytes of a stream: the size of the first frame if it asks to continue in TLS, or agrees to; 0 if more bytes are
    needed to decide; None for any other frame. A staticmethod."""
    keeps_frames: bool = False
    """True when the session reads the bytes of frames, as `Frame.raw`; this costs a copy of each frame."""
    layouts: Mapping[bytes, Layout] = {}
    """Readers of frames with the layout of an earlier one, by a frame's bytes at `layout_head`. `decode` may add readers."""
    layout_head: tuple[int, int] = (0, 0)
    """Start and end, in a frame, of the bytes that identify its layout."""
    compiled: Any = None
    """Compiled reader of frames, as `CompiledSplitter` calls it; None when Python reads all frames."""

    @property
    def find_candidate(self) -> Callable[[bytes, int, int], int]:
        """Function of (data, position, end) that returns the next position worth a call of `recognise`; −1 if none before `end`."""
        lookahead = self.framing.lookahead
        return lambda _data, position, end: position if end - position >= lookahead else -1

    def opens(self, data: bytes, position: int, end: int) -> str | None:
        """Return the sender (client, server) of the first frame of a stream if it proves the protocol by itself, else None."""

    @property
    def decode_partial(self) -> Callable[[bytes, int, int], Decoded]:
        """Reader of data[start:end], the start of a frame whose end is lost. Never raises on any bytes."""
        return _decode_nothing

    def sender(self, command: str) -> str | None:
        """Return the only side that sends this command (client, server), None when both may."""

    def max_frame_size(self, fields: dict[str, Any]) -> int | None:
        """Return the new bound on frame sizes, in bytes, from the fields of an announcing command; None if it announces none."""

    def foreign(self, name: str | None, port: int) -> tuple[str, str]:
        """Return the finding (code, text) for a connection on a port of this protocol that speaks `name` instead (None: unknown)."""
        return "foreign-protocol", f"{name or 'an unknown protocol'} is spoken on port {port}"

    # ---- capabilities: findings

    codes: Mapping[str, Code] = {}
    """Finding codes in the protocol's own words. Codes of `GENERIC_CODES` that are missing here are taken from there."""

    def code(self, name: str) -> Code:
        """Return the finding code of a name. Raises KeyError when there is none."""
        code = self.codes.get(name) or GENERIC_CODES.get(name)
        if code is None:
            raise KeyError(f"{name}, which `codes` lacks")
        return code

    @property
    def rules(self) -> Rules:
        """Rules about its connections."""
        return Rules({})

    @property
    def known_issues(self) -> KnownIssues:
        """Issues of its clients and servers, and the affected versions."""
        from pulsarscope.dissect.contract.known_issues import KnownIssues  # noqa: PLC0415 - only diagnoses need it

        return KnownIssues()

    # ---- capabilities: text

    sides: tuple[str, str] = (CLIENT, SERVER)
    """Names of the two sides, as the protocol's users call them."""
    refusals: tuple[str, ...] = ()
    """Suffixes of the commands that refuse something; outputs highlight them."""
    families: Mapping[str, str] = {}
    """Purposes of commands, each one of `capabilities.FAMILIES`, by command; outputs give each family a colour."""
    topics: TopicNames = TopicNames()
    """Forms of its topics' names."""

    @property
    def summary(self) -> Callable[[FrameRow], str]:
        """Function that returns the text of one frame in the timeline, not escaped."""
        return _summary

    @property
    def message_summary(self) -> Callable[[MessageRow], str]:
        """Function that returns the text of one message, not escaped."""
        return _message_summary

    @property
    def explain(self) -> Callable[[str, Any], str | None]:
        """Function that explains a field (name, value) in words if the value alone says too little, and otherwise returns None."""
        return _explain_nothing

    def message_checksum(self, row: FrameRow) -> Checksum | None:
        """Return the checksum that a message keeps from its producer to its consumer, read from a frame that carries it.

        Default: the frame's own.
        """
        return row.checksum

    def completes(self, row: FrameRow) -> bool:
        """Return True when the messages that a frame counts end with it, False for a part that later frames continue."""
        del row
        return True

    def ranges(self, data: bytes) -> Ranges:
        """Return the bytes of one frame with secrets masked, and its named ranges; by default, everything but a length field is masked."""
        head = min(self.framing.length.size, len(data))
        length = [(0, head, "length", 0)] if head else []
        if self.show_secrets:
            return data, [*length, (head, len(data), "body", 0)]
        return data[:head] + bytes(len(data) - head), [*length, (head, len(data), f"{SECRET_RANGE} body", 0)]

    # ---- capabilities: commands

    def redaction(self, names: MaskedNames) -> Redact | None:
        """Return a function that redacts frames, so that a capture can be shared; None if its connections cannot be redacted."""
        del names
        return None

    @property
    def vocabulary(self) -> Vocabulary:
        """Names and types of everything its rows can hold, for filters and their reference."""
        return Vocabulary()

    @property
    def follow_kinds(self) -> FollowKinds:
        """Subjects that can be followed although no column names them."""
        return {}

    @property
    def tables(self) -> tuple[ReportTable, ...]:
        """Its own tables in statistics."""
        return ()

    @property
    def registry(self) -> ReadRegistry | None:
        """Reader of the state that its servers and clients keep in ZooKeeper."""
        return None

    @property
    def names_reader(self) -> ReadNames | None:
        """Reader of the names in the reports of its servers to administrators."""
        return None

    @property
    def stored_reader(self) -> ReadStored | None:
        """Reader of the entries that its servers store over another protocol."""
        return None

    stored_readers: tuple[ReadStored, ...] = ()
    """Readers of all dissectors, for the protocol of a storage; the registry sets it."""

    @property
    def stored_redaction(self) -> RedactStored | None:
        """Redaction of the entries that its servers store over another protocol; see `redaction`."""
        return None

    stored_redactions: tuple[RedactStored, ...] = ()
    """Redactions of all dissectors, for the protocol of a storage; the registry sets it."""

    def stored_opener(self, settings: SessionSettings) -> OpenStored | None:
        """Return a reader of the messages in stored entries, for one connection; None if it has none."""
        del settings
        return None

    stored_openers: tuple[MakeStoredOpener, ...] = ()
    """Makers of the openers of all dissectors; the registry sets it."""

    @property
    def receipt_reader(self) -> ReadReceipt | None:
        """Reader of the answers to published messages, if its servers store these over another protocol."""
        return None

    receipt_readers: tuple[ReadReceipt, ...] = ()
    """Readers of all dissectors, for the protocol of a storage; the registry sets it."""
    stores: bool = False
    """True when its clients are servers of another protocol, which store messages of their own clients here."""
    passwords: tuple[bytes, ...] = ()
    """Passwords from the user, for keyed digests; the engine sets it before anything is decoded."""

    @property
    def schema_reader(self) -> ReadSchema | None:
        """Reader of the schema files of its payloads."""
        return None


def _decode_nothing(data: bytes, start: int, end: int) -> Decoded:
    del data, start, end
    return None, None, None, None, None, None, TRUNCATED, None


def _summary(row: FrameRow) -> str:
    texts = ((name, _text(value)) for name, value in (row.fields or {}).items())
    return "  ".join(f"{name} {text}" for name, text in texts if text is not None)


def _text(value: Any) -> str | None:
    """Return a value as -V writes it; None for bytes and for structured values."""
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, list):
        texts = [_text(item) for item in value[:SUMMARY_ITEMS]]
        more = f" and {len(value) - SUMMARY_ITEMS:,} more" if len(value) > SUMMARY_ITEMS else ""
        return None if None in texts or not texts else ", ".join(map(str, texts)) + more
    return None if isinstance(value, (dict, bytes)) else str(value)


def _message_summary(row: MessageRow) -> str:
    return f"{row.topic or ''}  {row.payload_size or 0:,} B"


def _explain_nothing(_name: str, _value: Any) -> str | None:
    return None
