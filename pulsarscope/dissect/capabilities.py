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
    """The definition's words for it: its message, its number."""
    repeated: bool = False
    """Rows hold a list of such values."""
    values: tuple[str, ...] = ()
    """The names of an enumeration."""
    fields: tuple[FieldType, ...] = ()
    """The fields of an object."""


class Vocabulary(msgspec.Struct, frozen=True):
    """The names and types in a dissector's rows beyond the columns: all that a filter may ask for."""

    commands: Mapping[str, tuple[FieldType, ...]] = {}
    """Fields of FrameRow.fields by command."""
    objects: Mapping[str, tuple[FieldType, ...]] = {}
    """Fields of the columns of objects, by kind.column (frame.metadata, message.extra)."""
    values: Mapping[str, tuple[str, ...]] = {}
    """Names of the enumerations that other columns hold, by kind.column."""


FAMILIES = PUBLISH, CONSUME, ACKNOWLEDGE, TRANSACT, KEEP_ALIVE = ("publish", "consume", "acknowledge", "transact", "keep alive")
"""Purposes of commands; outputs give each its colour."""

FollowTest = Callable[[FrameRow], bool]
"""A test for the frames of a followed conversation. It sees all frames of a run in their order."""


class MessageTest(Protocol):
    """A test for the frames that carried one message, by rows of messages: it learns from those of one run, and tests those of another."""

    def learn(self, row: MessageRow) -> bool:
        """Take the next row of the first run. Return True when its frame is known by now to have carried the message."""

    def carries(self, row: MessageRow) -> bool:
        """Return True when the frame of a row of the second run carried the message."""

    def others(self) -> str:
        """Return the end of a sentence that says which messages there are instead; it begins with a colon, or is empty."""


FOLLOW_SUBJECTS = ("connection", "producer", "consumer", "topic", "message", "txn")
"""Kinds of subjects to follow: options of `follow`."""

FollowKinds = Mapping[str, Callable[[str], FollowTest | MessageTest]]
"""Makers of tests by kind, one of `FOLLOW_SUBJECTS`, from a name in the user's words. They raise UsageError for a name of another
form."""

Ranges = tuple[bytes, list[tuple[int, int, str, int]]]
"""The bytes of one frame with its secrets masked, and its named ranges: (start, end, name, depth)."""

Redact = Callable[[FrameRow, bytes], tuple[bytes, bool]]
"""(frame, its bytes, of which the end may be missing) → as many bytes that hold nothing of the user's but masks; False when its messages
are not in them because they cannot keep their sizes. Never raises on any bytes."""


RedactStored = Callable[["MaskedNames", bytes], "bytes | None"]
"""(masks, the data of a stored entry) → as many bytes, redacted; None when it is not of its protocol. Never raises on any bytes."""


SECRET_RANGE = "(secret)"  # noqa: S105 - a mark, not a secret
"""Name of a range whose bytes are masked; they are shown as dots."""


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
"""Pattern of topics, name of the file, its content (None: no such file; the name is perhaps that of a type), name of one of the types in
it ("" for the only one) → schema. Raises ValueError with the reason for which it is not a schema."""


ReadNames = Callable[[bytes, str], Mapping[str, str]]
"""Content of a file with what a server knows, and a name for what the file itself does not name → names of what the wire has only a number
for, by what stands for it in rows. Raises ValueError with the reason for which there are none."""


class PayloadContext(NamedTuple):
    """The circumstances of a message whose payload is decoded."""

    topic: str
    """Topic as on the wire; "" when the connection does not tell."""
    key: str | None
    key_is_bytes: bool
    """The key is base64."""
    properties: Mapping[str, str]
    schema_version: bytes | None


class PayloadDecoder(Protocol):
    """A decoder of the payloads of some topics, brought by another package."""

    topics: str
    """Pattern, as that of `GivenSchema`."""

    def decode(self, payload: bytes, context: PayloadContext) -> Any:
        """Return the value, anything that msgspec can encode as JSON; None for no value. An exception becomes a finding."""


class Stored(NamedTuple):
    """The contents of an entry as the servers of a protocol store them, read for another protocol that carries it to the storage."""

    kind: str
    """Kind in one word: message, cursor."""
    fields: dict[str, Any]
    broker_entry_metadata: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    payload_at: int | None = None
    """Position of the payload in the bytes."""


ReadStored = Callable[[bytes, int, int], Stored | None]
"""Reader of the stored entry data[start:end]; None when it is not of its protocol. Never raises on any bytes."""


ReadReceipt = Callable[[FrameRow], "tuple[int, int] | None"]
"""Reader of the ledger and the number in it of the entry that a frame says to be stored, in answer to who published it; None for other
frames."""


class Section(NamedTuple):
    """Registry records of one kind."""

    about: str
    """Explanation of the numbers; may be empty."""
    records: list[dict[str, Any]]
    """All with the same keys in the same order; values are text, whole numbers, objects of them, or None."""


class Registry(NamedTuple):
    """The state that servers and clients of a protocol keep in ZooKeeper, as read from a dump."""

    sections: dict[str, Section]
    """By name, in the order in which they are shown."""
    unknown: list[Node]
    """The nodes that are none of the protocol's own."""
    notes: list[DumpNote]


ReadRegistry = Callable[["Sequence[Node]"], Registry]
"""Reader of the nodes of a dump. Never raises on any of them."""


class ReportColumn(NamedTuple):
    """Column of a report's table in text."""

    key: str
    """Name of the value in the records."""
    heading: str
    form: str = "count"
    """name, topic, text, count, bytes, rate (a second), duration (nanoseconds), or the name of a frame or connection."""
    spare: bool = False
    """True for a column that is left out when the table does not fit."""
    kept: bool = False
    """True for a column that is shown, too, when it has nothing but zeros: they tell something."""


class ReportFold(Protocol):
    """A fold over the rows of a run that makes the records of a table."""

    @property
    def left_out(self) -> int:
        """Rows of those that have no record, because the table is full."""

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows; `endpoints` are (client, server) of their connections."""

    def records(self) -> list[dict[str, Any]]:
        """Return the records, the most telling first, all with the same keys. Times are nanoseconds since the epoch."""


class BoundedFold:
    """Base of a fold that has an item for each of the first names."""

    left_out = 0

    def item(self, items: dict[Name, Item], name: Name, make: Callable[[], Item]) -> Item | None:
        """Return the item of a name, a new one for a new name; None for a name beyond the bound, whose rows are left out."""
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
        """Drop the records of what has ended, or make room in another way, when the table is filling up."""


class Course(NamedTuple):
    """The course of what a record says, over time."""

    record: dict[str, Any]
    lines: tuple[str, ...]
    """Keys of the record whose values have a course."""
    points: list[tuple[int, tuple[int | None, ...]]]
    """Times, nanoseconds since the epoch, and the values of the lines then."""


@runtime_checkable
class CourseFold(ReportFold, Protocol):
    """A fold that can tell how its records came about."""

    def keep_courses(self) -> None:
        """Keep courses from now on."""

    def courses(self) -> list[Course]:
        """Return the courses, the most telling first."""


@runtime_checkable
class IntervalFold(ReportFold, Protocol):
    """A fold whose records are by interval."""

    def divide(self, interval: int) -> None:
        """Make them of intervals of so many nanoseconds, before any row; they double when they would be too many."""


@runtime_checkable
class LegFold(ReportFold, Protocol):
    """A fold that also looks at the inner legs of paths through proxies, of which others count the outer one only."""

    def feed_inner(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows of connections that are inner legs, maybe behind or before those of the outer ones."""


class Step(NamedTuple):
    """A step of a journey."""

    name: str
    start: int
    """Time, nanoseconds since the epoch."""
    end: int | None
    """Time of its end, None when that is not in the capture."""


class Lane(NamedTuple):
    """The journey of one thing on its way through the servers."""

    name: str
    topic: str | None
    subscription: str | None
    ending: str
    """In a few words."""
    steps: list[Step]


@runtime_checkable
class LaneFold(ReportFold, Protocol):
    """A fold that remembers the most telling journeys."""

    def lanes(self) -> list[Lane]:
        """Return them, the most telling first."""


class ReportTable(NamedTuple):
    """A table of a protocol's own in statistics."""

    name: str
    """Name of the section."""
    title: str
    note: str
    columns: tuple[ReportColumn, ...]
    """Columns of the text; records may have more."""
    make: Callable[[], ReportFold]
    kinds: frozenset[str] = frozenset()
    """Kinds of rows it needs besides frames, exchanges and connections."""
    contents: bool = False
    """True when the records have parts of messages, which pages to send do not show."""


def nothing_stood_in(_row: FrameRow) -> str | None:
    """Return None: no name stands for another."""
    return None


class TopicNames(msgspec.Struct, frozen=True):
    """The forms in which users of a protocol write the name of a topic. The default is the name itself."""

    short: Callable[[str], str] = str
    """The topic without the defaults that clients add themselves."""
    base: Callable[[str], str] = str
    """The partitioned topic of a partition; any other topic itself."""
    stood_in: Callable[[FrameRow], str | None] = nothing_stood_in
    """The name that stands for the topic of a frame in rows that do not know it."""
