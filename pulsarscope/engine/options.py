"""Options of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from pulsarscope.capture.file_list import SOURCE_BY_INTERFACE
from pulsarscope.dissect.contract.capabilities import GivenSchema
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.inputs.key_logs import KeyLogs
from pulsarscope.inputs.private_keys import KeyFile
from pulsarscope.model.records import ALL, JourneyRow

ALL_RECORDS = frozenset(ALL)

MakeDissectors = Callable[..., tuple[Dissector, ...]]
"""Function that makes dissectors, in the order in which they are tried: (*, show_secrets). It goes to other processes, so it must be
picklable."""


def no_dissectors(*, show_secrets: bool = False) -> tuple[Dissector, ...]:  # noqa: ARG001 - as others are called
    """Make none: whoever requests a run names the dissectors to try."""
    return ()


class Options(msgspec.Struct, frozen=True):
    """Options of a run."""

    records: frozenset[str] = frozenset({"frame"})
    """Kinds of rows to hand on."""
    show_secrets: bool = False
    payloads: bool | None = None
    """True to open payloads for their findings; None: if messages or findings are requested."""
    payload: str | None = None
    """Form of MessageRow.payload: base64, hex, text; None to omit it."""
    message_columns: tuple[str, ...] | None = None
    """Columns of message rows, in this order: the rows are then of `records.row_type`. None: all columns."""
    rows_max: int | None = None
    """Largest number of rows handed on at once; None: all rows of a block."""
    together: bool = False
    """True to hand on `row_lists.EntryMessages` instead of message rows; and with `columns`, but without `anchors`, exchanges and messages
    in columns if no frames are requested. Only with `rows_max`."""
    columns: bool = False
    """True to hand on frames in the columns of a compiled reader, if there is one, with exchanges and messages (`engine.column_rows`)."""
    frames_alone: bool = False
    """With `columns`: only frames are requested, and findings only in their text. Short connections are then read without Python
    (`engine.short_connections`), and have no connection rows."""
    raw: bool = False
    """True to put a RawFrame after each FrameRow."""
    rules: bool = False
    """True to run the rules of the dissectors: their findings come among the others."""
    any_order: bool = False
    """True if the order of the rows of different connections makes no difference: smaller blocks may then save memory."""
    anchors: bool = False
    """True to hand on the rows of anchors, by which legs of paths are found (`dissect.contract.legs`)."""
    live: bool = False
    """True when packets come as they are captured: rules report as early as possible, and idle or closed connections are dropped."""
    ports: frozenset[int] = frozenset()
    """Server ports on which the first dissector is used without recognition."""
    decode_as: Mapping[int, str] = {}
    """Dissector names by server port."""
    key_logs: KeyLogs = KeyLogs()
    """Secrets of TLS connections, in addition to those in captures."""
    places: bool = False
    """True to record the places of frames in the streams of TLS connections, for `Engine.place`."""
    private_keys: tuple[KeyFile, ...] = ()
    """Keys for end-to-end encrypted payloads."""
    passwords: tuple[KeyFile, ...] = ()
    """Passwords for keyed digests."""
    schemas: tuple[GivenSchema, ...] = ()
    """Schemas for payloads; the first one that fits a topic is used."""
    names: Mapping[str, str] = {}
    """Names for values that are only numbers on the wire, by their form in rows."""
    source_by: str = "none"
    """Separation of vantage points: none, dir, interface, or a regular expression for paths (`capture.expand_inputs`)."""
    thresholds: Mapping[str, float] = {}
    """Limits that decide findings, by name, where they differ from the rules' defaults."""

    dissectors: MakeDissectors = no_dissectors
    """The protocols to try."""

    @property
    def evaluates(self) -> bool:
        """Return whether rules run: for findings, or for journeys."""
        return self.rules or JourneyRow.kind in self.records

    @property
    def by_interface(self) -> bool:
        """Return whether each interface of a capture is a separate vantage point."""
        return self.source_by == SOURCE_BY_INTERFACE
