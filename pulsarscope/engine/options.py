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
"""Makes dissectors, in the order in which they are tried: (*, show_secrets). It goes to other processes, so it must be picklable."""


def no_dissectors(*, show_secrets: bool = False) -> tuple[Dissector, ...]:  # noqa: ARG001 - as others are called
    """Make none: who asks for a run names those to try."""
    return ()


class Options(msgspec.Struct, frozen=True):
    """Options of a run."""

    records: frozenset[str] = frozenset({"frame"})
    """Row kinds to hand on."""
    show_secrets: bool = False
    payloads: bool | None = None
    """Open payloads for their findings; None: when messages or findings are asked for."""
    payload: str | None = None
    """Form of MessageRow.payload: base64, hex, text; None for none."""
    message_columns: tuple[str, ...] | None = None
    """Columns of message rows, in this order: the rows are then of `records.row_type`. None: all columns."""
    rows_max: int | None = None
    """Largest number of rows handed on at once; None: all rows of a block."""
    together: bool = False
    """Hand on `records.EntryMessages` in the place of message rows; with `rows_max` only."""
    columns: bool = False
    """Hand on frames in the columns of a compiled reader, where there is one (`engine.column_rows`); messages only
    where they are kept `together`."""
    frames_alone: bool = False
    """With `columns`: frames are wanted, and nothing among them but what text says of findings. Then short connections are read without
    Python (`engine.short_connections`), and those have no rows of the kind connection."""
    raw: bool = False
    """Put a RawFrame behind each FrameRow."""
    rules: bool = False
    """Run the rules of the dissectors: their findings come among the others."""
    anchors: bool = False
    """Hand on the rows of anchors, by which legs of paths are found (`dissect.contract.legs`)."""
    live: bool = False
    """Packets come as they happen: rules report as soon as they can, and idle or closed connections are let go."""
    ports: frozenset[int] = frozenset()
    """Server ports on which the first dissector is taken for granted."""
    decode_as: Mapping[int, str] = {}
    """Dissector names by server port."""
    key_logs: KeyLogs = KeyLogs()
    """Secrets of TLS connections, beside those that captures bring."""
    places: bool = False
    """Remember where in the streams of TLS connections frames lie, for `Engine.place`."""
    private_keys: tuple[KeyFile, ...] = ()
    """Keys for what is encrypted end to end."""
    passwords: tuple[KeyFile, ...] = ()
    """Passwords of what has digests with a key."""
    schemas: tuple[GivenSchema, ...] = ()
    """Schemas for payloads; the first that fits a topic counts."""
    names: Mapping[str, str] = {}
    """Names for what the wire has only a number for, by what stands for it in rows."""
    source_by: str = "none"
    """Separation of vantage points: none, dir, interface, or a regular expression for paths (`capture.expand_inputs`)."""
    thresholds: Mapping[str, float] = {}
    """Limits that decide findings, where they differ from the rules' own, by name."""

    dissectors: MakeDissectors = no_dissectors
    """The protocols that are tried."""

    @property
    def evaluates(self) -> bool:
        """Return whether rules run: for findings, or for journeys."""
        return self.rules or JourneyRow.kind in self.records

    @property
    def by_interface(self) -> bool:
        """Return whether each interface of a capture is a vantage point of its own."""
        return self.source_by == SOURCE_BY_INTERFACE
