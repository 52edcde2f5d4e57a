"""Frames in the columns of the compiled reader, which completes them and opens their messages instead of the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pulsarscope.model.limits import PENDING_REQUESTS_MAX, ROWS_MAX
from pulsarscope.model.records import MessageRow

if TYPE_CHECKING:
    from pulsarscope.dissect.contract.events import Event
    from pulsarscope.protocols.pulsar.entry.reader import EntryOpener
    from pulsarscope.protocols.pulsar.session.sends import Sends


PAYLOADS_TOGETHER_MAX_BYTES = 1 << 20
"""Bytes of payload text that are opened in one call."""


def observe_frames(columns: Any, place: int, known: tuple[Any, ...], sends: Sends, opener: Callable[[], EntryOpener] | None) -> int:
    """Complete frames from a place on; return the place of the first one that needs a row. `opener` gives the opener of payloads."""
    place, waiting = columns.observe(place, known, PENDING_REQUESTS_MAX - sends.waiting, opener)
    sends.waiting += waiting
    return place


def open_frames(
    columns: Any, places: tuple[int, int], known: tuple[Any, ...], opener: EntryOpener, sends: Sends, entries: list[Event] | None = None
) -> int:
    """Open the messages of frames between two places; return the place of the first frame that needs a row.

    `entries` receives the entries, and the call returns early after many or large messages. Without `entries`, frames are also completed,
    and the columns keep the messages.
    """
    taken = [] if entries is None else entries
    opening = opener, sends.keep, sends.release, opener.entry, MessageRow, taken, sends.room, entries is None
    place, waiting = columns.open(places, known, PENDING_REQUESTS_MAX - sends.waiting, opening, (ROWS_MAX, PAYLOADS_TOGETHER_MAX_BYTES))
    sends.waiting += waiting
    return int(place)
