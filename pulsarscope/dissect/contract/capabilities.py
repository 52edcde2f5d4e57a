"""Types of the optional capabilities of a dissector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

from pulsarscope.model.limits import STATISTICS_NAMES_MAX
from pulsarscope.model.records import FrameRow, MessageRow

if TYPE_CHECKING:
    from pulsarscope.inputs.zookeeper import DumpNote, Node
    from pulsarscope.model.masked_names import MaskedNames

Name = TypeVar("Name")
Item = TypeVar("Item")


FIELD_TYPES = ("int64", "double", "bool", "string", "bytes", "object")


class FieldType(msgspec.Struct, frozen=True):
    """Field inside a column of objects, as the protocol defines it."""

    name: str
    type: str
    """One of `FIELD_TYPES`."""
    text: str
    """Description from the protocol's definition: message and field number."""
    repeated: bool = False
    """Rows hold a list of such values."""
    values: tuple[str, ...] = ()
    """The names of an enumeration."""
    fields: tuple[FieldType, ...] = ()
    """The fields of an object."""


class Vocabulary(msgspec.Struct, frozen=True):
    """Names and types in a dissector's rows beyond the columns: everything a filter may use."""

    commands: Mapping[str, tuple[FieldType, ...]] = {}
    """Fields of FrameRow.fields by command."""
    objects: Mapping[str, tuple[FieldType, ...]] = {}
    """Fields of the columns of objects, by kind.column (frame.metadata, message.extra)."""
    values: Mapping[str, tuple[str, ...]] = {}
    """Names of the enumerations that other columns hold, by kind.column."""


FAMILIES = PUBLISH, CONSUME, ACKNOWLEDGE, TRANSACT, KEEP_ALIVE = ("publish", "consume", "acknowledge", "transact", "keep alive")
"""Purposes of commands; outputs give each a colour."""

FollowTest = Callable[[FrameRow], bool]
"""A test for the frames of a followed conversation. It sees all frames of a run in order."""


class MessageTest(Protocol):
    """A test for the frames that carried one message. It learns from the message rows of one run, and tests the rows of another."""

    def learn(self, row: MessageRow) -> bool:
        """Take the next row of the first run. Return True when its frame is already known to have carried the message."""

    def carries(self, row: MessageRow) -> bool:
        """Return True when the frame of a row of the second run carried the message."""

    def others(self) -> str:
        """Return the end of a sentence that lists the available messages instead. It begins with a colon, or is empty."""


FOLLOW_SUBJECTS = ("connection", "producer", "consumer", "topic", "message", "txn")
"""Kinds of subjects to follow: options of `follow`."""

FollowKinds = Mapping[str, Callable[[str], FollowTest | MessageTest]]
"""By kind (one of `FOLLOW_SUBJECTS`), functions that make a test from a name that the user gives. They raise UsageError for a malformed
name."""

Ranges = tuple[bytes, list[tuple[int, int, str, int]]]
"""The bytes of one frame with its secrets masked, and its named ranges: (start, end, name, depth)."""

Redact = Callable[[FrameRow, bytes], tuple[bytes, bool]]
"""(frame, its bytes, possibly without the end) → as many bytes, with masks in place of all user data; and False if its messages are left
out because they cannot keep their sizes. Never raises on any bytes."""


RedactStored = Callable[["MaskedNames", bytes], "bytes | None"]
"""(masks, data of a stored entry) → as many bytes, redacted; None when the entry belongs to another protocol. Never raises on any bytes."""


SECRET_RANGE = "(secret)"  # noqa: S105 - a mark, not a secret
"""Name of a range whose bytes are masked; they are shown as dots."""


class GivenSchema(msgspec.Struct, frozen=True):
    """A schema that the user provides for the payloads of some topics."""

    topics: str
    """Pattern in which * stands for anything; topics have their full or their short names."""
    type: str
    """Name of the schema's type; its definition, if the type has one; and its properties."""
    definition: bytes = b""
    properties: tuple[tuple[str, str], ...] = ()
    version: bytes | None = None
    """The version of the topics' schema to which it applies; None: all versions."""


ReadSchema = Callable[[str, str, bytes | None, str], GivenSchema]
"""(pattern of topics, name of the file, its content, name of one of the types in it) → schema. If the content is None, there is no such
file, and the name may be that of a type. Type "" means the only one. Raises ValueError with the reason when it is not a schema."""


ReadNames = Callable[[bytes, str], Mapping[str, str]]
"""(content of a file from a server, name for what the file does not name) → names for values that are only numbers on the wire, by their
form in rows. Raises ValueError with the reason when the file has no names."""


class PayloadContext(NamedTuple):
    """The context of a message whose payload is decoded."""

    topic: str
    """Topic as on the wire; "" if the connection does not show it."""
    key: str | None
    key_is_bytes: bool
    """True when the key is base64."""
    properties: Mapping[str, str]
    schema_version: bytes | None


class PayloadDecoder(Protocol):
    """A decoder for the payloads of some topics, from another package."""

    topics: str
    """Pattern as in `GivenSchema`."""

    def decode(self, payload: bytes, context: PayloadContext) -> Any:
        """Return the value, anything that msgspec can encode as JSON; None for no value. An exception becomes a finding."""


class Stored(NamedTuple):
    """The contents of an entry as servers of one protocol store it, read for the protocol that carries the entry to storage."""

    kind: str
    """Kind in one word: message, cursor."""
    fields: dict[str, Any]
    broker_entry_metadata: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    payload_at: int | None = None
    """Position of the payload in the bytes."""


ReadStored = Callable[[bytes, int, int], Stored | None]
"""Reader of the stored entry data[start:end]; returns None when the entry belongs to another protocol. Never raises on any bytes."""


ReadReceipt = Callable[[FrameRow], "tuple[int, int] | None"]
"""Reader of a frame by which a server confirms that an entry is stored: returns its ledger and entry id; None for other frames."""


class Section(NamedTuple):
    """Registry records of one kind."""

    about: str
    """Explanation of the numbers; may be empty."""
    records: list[dict[str, Any]]
    """Records with the same keys in the same order; values are text, integers, objects of these, or None."""


class Registry(NamedTuple):
    """The state that servers and clients of a protocol keep in ZooKeeper, as read from a dump."""

    sections: dict[str, Section]
    """Sections by name, in display order."""
    unknown: list[Node]
    """Nodes that do not belong to the protocol."""
    notes: list[DumpNote]


ReadRegistry = Callable[["Sequence[Node]"], Registry]
"""Reader of the nodes of a dump. Never raises on any nodes."""


class ReportColumn(NamedTuple):
    """Column of a report's table in text."""

    key: str
    """Name of the value in the records."""
    heading: str
    form: str = "count"
    """name, topic, text, count, bytes, rate (per second), duration (nanoseconds), moment (nanoseconds since the start), or the name of a
    frame or connection."""
    spare: bool = False
    """True for a column that is left out when the table does not fit."""
    kept: bool = False
    """True for a column that is shown even if all its values are zero, because zeros mean something there."""


class ReportFold(Protocol):
    """A fold over the rows of a run that makes the records of a table."""

    @property
    def left_out(self) -> int:
        """Rows without a record, because the table is full."""

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows; `endpoints` are (client, server) of their connections."""

    def records(self) -> list[dict[str, Any]]:
        """Return the records, the most significant first, all with the same keys. Times are nanoseconds since the epoch."""


class BoundedFold:
    """Base of a fold with one item per name, up to a bound."""

    left_out = 0

    def item(self, items: dict[Name, Item], name: Name, make: Callable[[], Item]) -> Item | None:
        """Return the item of a name, made on first use; None for a name beyond the bound, whose rows are left out."""
        if (item := items.get(name)) is None:
            if len(items) >= STATISTICS_NAMES_MAX:
                self.left_out += 1
            else:
                item = items[name] = make()
        return item


@runtime_checkable
class LiveFold(ReportFold, Protocol):
    """A fold that also serves runs without end."""

    def forget_ended(self) -> None:
        """Drop the records of what has ended when the table is filling up, or make room in another way."""


class Course(NamedTuple):
    """The values of a record over time."""

    record: dict[str, Any]
    lines: tuple[str, ...]
    """Keys of the record whose values change over time."""
    points: list[tuple[int, tuple[int | None, ...]]]
    """Times in nanoseconds since the epoch, each with the values of the lines."""


@runtime_checkable
class CourseFold(ReportFold, Protocol):
    """A fold that can show how its records changed over time."""

    def keep_courses(self) -> None:
        """Record courses from now on."""

    def courses(self) -> list[Course]:
        """Return the courses, the most significant first."""


@runtime_checkable
class IntervalFold(ReportFold, Protocol):
    """A fold whose records are by interval."""

    def divide(self, interval: int) -> None:
        """Use intervals of this many nanoseconds; called before any row. The interval doubles whenever there would be too many records."""


@runtime_checkable
class LegFold(ReportFold, Protocol):
    """A fold that also sees the inner legs of paths through proxies. Other folds count only the outer leg."""

    def feed_inner(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows of inner legs. They may come before or after those of the outer legs."""


class Step(NamedTuple):
    """A step of a journey."""

    name: str
    start: int
    """Start, nanoseconds since the epoch."""
    end: int | None
    """End, nanoseconds since the epoch; None if not in the capture."""


class Lane(NamedTuple):
    """The journey of one item through the servers."""

    name: str
    topic: str | None
    subscription: str | None
    ending: str
    """How the journey ended, in a few words."""
    steps: list[Step]


@runtime_checkable
class LaneFold(ReportFold, Protocol):
    """A fold that keeps the most significant journeys."""

    def lanes(self) -> list[Lane]:
        """Return the journeys, the most significant first."""


class ReportTable(NamedTuple):
    """A protocol's own table in statistics."""

    name: str
    """Name of the section."""
    title: str
    note: str
    columns: tuple[ReportColumn, ...]
    """Columns shown in text; records may have more."""
    make: Callable[[], ReportFold]
    kinds: frozenset[str] = frozenset()
    """Kinds of rows that it needs besides frames, exchanges and connections."""
    contents: bool = False
    """True when the records contain parts of messages; shareable pages omit those."""


def nothing_stood_in(_row: FrameRow) -> str | None:
    """Return None: the protocol has no placeholder names."""
    return None


class TopicNames(msgspec.Struct, frozen=True):
    """The forms in which users of a protocol write the name of a topic. The default is the name itself."""

    short: Callable[[str], str] = str
    """The topic without the defaults that clients add themselves."""
    base: Callable[[str], str] = str
    """The partitioned topic that a partition belongs to; any other topic itself."""
    stood_in: Callable[[FrameRow], str | None] = nothing_stood_in
    """The name that stands for a frame's topic in rows whose topic is unknown."""
