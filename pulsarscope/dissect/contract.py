"""What a protocol must bring to be dissected: the contract between the engines and the dissectors.

A dissector knows one protocol and nothing else: bytes in, frames out. The engines know no protocol: they cut streams, name frames,
pair exchanges and write rows by asking the dissector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, NamedTuple, Protocol

import msgspec

from pulsarscope.dissect.frames import Decoded
from pulsarscope.dissect.rules import Rules
from pulsarscope.dissect.session import Session, SessionContext
from pulsarscope.inputs.nodes import ReadRegistry
from pulsarscope.model.findings import Code
from pulsarscope.model.records import FrameRow, MessageRow

Layout = Callable[[bytes, int, int], Decoded | None]
"""Reads the whole frame data[start:end] as `Dissector.decode` would, when it is laid out as one before; else None. Such a frame has a
command, is not malformed, and announces nothing."""


class Candidate(NamedTuple):
    """A possible frame start found by content."""

    size: int
    """Bytes of the whole frame, its length field included; 0 when not known yet."""
    seen: int
    """Position after the last byte that was looked at, or, to wait for, that must be."""
    proof: str
    """One of: sure (proven by itself, by its checksum), likely (a second frame must follow), wait (more bytes are needed), no (none
    begins here, but it took work to tell)."""
    cost: int
    """Work that it took: what reading so many bytes for a checksum takes."""


class FieldType(msgspec.Struct, frozen=True):
    """One field inside a column of objects, as the protocol defines it."""

    name: str
    type: str
    """int64, double, bool, string, bytes or object."""
    text: str
    """What the definition says of it: its message, its number."""
    repeated: bool = False
    """Rows hold a list of such values."""
    values: tuple[str, ...] = ()
    """The names of an enumeration."""
    fields: tuple[FieldType, ...] = ()
    """What an object holds."""


StoryTest = Callable[[FrameRow], bool]
"""Whether a frame belongs to a story that is followed. It sees all frames of a run in their order."""


class Vocabulary(msgspec.Struct, frozen=True):
    """The names and types in a dissector's rows beyond the columns: what a filter may ask for."""

    commands: Mapping[str, tuple[FieldType, ...]]
    """Command -> what FrameRow.fields holds for it."""
    objects: Mapping[str, tuple[FieldType, ...]]
    """Columns of objects, as kind.column (frame.metadata, message.extra) -> what they hold."""
    values: Mapping[str, tuple[str, ...]]
    """Other columns, as kind.column, that hold names of an enumeration."""


class Dissector(Protocol):
    """One protocol. Stateless: sessions hold the state."""

    name: str
    ports: frozenset[int]
    """Ports on which the protocol is expected: traffic there that is not recognised is a finding."""
    codes: dict[str, Code]
    """Its finding codes, in its own words; those of `SPLITTER_CODES` among them."""
    length: Struct
    """How the length field at the start of each frame is packed."""
    length_adds: int
    """Size of the whole frame minus the value of its length field."""
    lookahead: int
    """Bytes that `find_candidate` must see to know a position."""
    layouts: dict[bytes, Layout]
    """Readers of frames laid out as one before, by the bytes `layout_head` of a frame. `decode` adds to it; it may stay empty."""
    layout_head: tuple[int, int]
    """Start and end, in a frame, of the bytes by which its layout is found."""
    announcing: frozenset[str]
    """Commands that may announce a bound on frame sizes."""
    opening: frozenset[str]
    """Commands by which the two sides introduce themselves: what a reader needs to follow a connection."""
    min_frame_bytes: int
    """Smallest size a frame can have; a smaller one means that the framing is lost."""
    max_frame_bytes: int
    """Largest size a frame may have before one announces another bound."""
    keeps_frames: bool
    """Its session reads the bytes of frames: they have them as `Frame.raw`, which costs a copy."""

    def decode(self, data: bytes, start: int, end: int) -> Decoded:
        """The frame data[start:end]. Never raises on any bytes."""

    def decode_partial(self, data: bytes, start: int, end: int) -> Decoded:
        """The head data[start:end] of a frame whose end is lost."""

    def candidate(self, data: bytes, position: int, end: int, budget: int, *, checksums: bool = True) -> Candidate | None:
        """Whether a frame may begin at `position`: strict, for bytes whose framing is not known.

        What it says must depend only on the bytes up to `Candidate.seen`, however many more there are. What would cost more than
        `budget` is no candidate, or one without proof.
        """

    def find_candidate(self, data: bytes, position: int, end: int) -> int:
        """Next position, from `position` on, worth a `candidate` call; -1 for none before `end`."""

    def opens(self, data: bytes, position: int, end: int) -> str | None:
        """Who sends the frame at the start of a stream, when that proves the protocol by itself: client, server; None when it does not."""

    def sender(self, command: str) -> str | None:
        """The only side that sends this command: client, server, or None when both may."""

    def max_frame_size(self, fields: dict[str, Any]) -> int | None:
        """A new bound on frame sizes that an announcing command's fields hold, in bytes."""

    def foreign(self, name: str | None, port: int) -> tuple[str, str]:
        """The finding (code, text) for a connection on a port of this protocol that speaks `name` instead."""

    def session(self, context: SessionContext) -> Session:
        """A new session."""

    @property
    def rules(self) -> Rules:
        """What judges its connections."""

    @property
    def summary(self) -> Callable[[FrameRow], str]:
        """Gives the words of one frame that matter, not escaped."""

    def completes(self, row: FrameRow) -> bool:
        """Whether the messages that a frame counts end with it; no for a part of a larger one that others follow."""

    @property
    def message_summary(self) -> Callable[[MessageRow], str]:
        """Gives the words of one message that matter, not escaped."""

    @property
    def explain(self) -> Callable[[str, Any], str | None]:
        """Gives a field's value (by the field's name) with its meaning in words, where the value alone says too little; else None."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The names and types of all that its rows can hold."""

    @property
    def stories(self) -> Mapping[str, Callable[[str], StoryTest]]:
        """Test makers for what can be followed and no column tells: by kind (message, consumer, txn), from the name in the user's words.

        They raise UsageError when that is no such name.
        """

    @property
    def registry(self) -> ReadRegistry | None:
        """Reads what its servers and clients keep in ZooKeeper; None: nothing is known of that."""

    @property
    def schema_reader(self) -> ReadSchema | None:
        """Reads the files in which schemas of its payloads lie about; None: it has no schemas."""

    def ranges(self, data: bytes) -> tuple[bytes, list[tuple[int, int, str, int]]]:
        """One frame with its secrets masked, and its named byte ranges: (start, end, name, depth)."""


class GivenSchema(msgspec.Struct, frozen=True):
    """A schema that the user brings for the payloads of some topics."""

    topics: str
    """Pattern, in which * stands for anything; topics have their full or their short names."""
    type: str
    """Name of the kind of schema; its definition, if the kind has one, and its properties."""
    definition: bytes = b""
    properties: tuple[tuple[str, str], ...] = ()
    version: bytes | None = None
    """The only version of the topics' schema that it is; None: it is for all messages."""


ReadSchema = Callable[[str, str, bytes | None, str], GivenSchema]
"""Pattern of topics, name of the file, what it holds (None: there is no such file, and the name is perhaps that of a type), name of one
of the types in it ("": there is but one) → schema. Raises ValueError that says why it is none."""


class PayloadContext(NamedTuple):
    """What is known of a message when its payload is decoded."""

    topic: str
    """As on the wire; "" when the connection does not tell."""
    key: str | None
    key_is_bytes: bool
    """The key is base64."""
    properties: Mapping[str, str]
    schema_version: bytes | None


class PayloadDecoder(Protocol):
    """What another package brings to decode the payloads of some topics."""

    topics: str
    """Pattern, as that of `GivenSchema`."""

    def decode(self, payload: bytes, context: PayloadContext) -> Any:
        """The value: whatever msgspec can encode as JSON; None for none. What it raises becomes a finding."""
