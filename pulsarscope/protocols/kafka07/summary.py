"""Frames, messages and single values of Kafka 0.7 in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols.kafka07.commands import EARLIEST, LATEST, NO_ERROR

GAP = "  "

TIMES = {LATEST: "latest", EARLIEST: "earliest"}

PARTS_SHOWN = 3
"""Parts of a request or response in one line; they are counted, too."""

OFFSETS_SHOWN = 5

_BROKER_PICKS = "-1  the broker picks one"


def summary(row: FrameRow) -> str:
    """See `Dissector.summary`."""
    fields = row.fields or {}
    parts: Sequence[Mapping[str, Any]] | None = fields.get("fetches") or fields.get("produces") or fields.get("parts")
    words = [_error(fields)]
    if parts is None:
        place = dict(fields) | (row.extra or {})
        if row.topic is not None:
            place.setdefault("topic", row.topic)
        words += [_place(place), *_rest(fields)]
    else:
        places = (row.extra or {}).get("parts") or [{}] * len(parts)
        told = [
            GAP.join(filter(None, (_error(part), _place({**part, **place}), *_rest(part))))
            for part, place in zip(parts, places, strict=False)
        ]
        more = len(told) - PARTS_SHOWN
        words += [f"{len(parts)} parts", "; ".join(told[:PARTS_SHOWN]) + (f"; {more:,} more" if more > 0 else "")]
    if row.num_messages is not None:
        words.append(f"{row.num_messages:,} message{'' if row.num_messages == 1 else 's'}")
    if row.payload_size:
        words.append(f"{row.payload_size:,} B")
    return GAP.join(filter(None, words))


def _error(fields: Mapping[str, Any]) -> str:
    error = fields.get("error")
    return "" if error is None or error == NO_ERROR else str(error)


def _place(part: Mapping[str, Any]) -> str:
    """A topic, its partition and an offset there, as far as they are known."""
    topic, partition, offset = part.get("topic"), part.get("partition"), part.get("offset")
    words = "" if topic is None else str(topic)
    if partition is not None:
        words += f"{'-' if words else 'partition '}{'any' if partition == -1 else partition}"
    return words if offset is None else f"{words} at {offset}".lstrip()


def _rest(part: Mapping[str, Any]) -> list[str]:
    words = []
    if "max_size" in part:
        words.append(f"up to {part['max_size']:,} B")
    if "time" in part:
        words.append(f"{TIMES.get(part['time'], part['time'])}{GAP}up to {part.get('max_offsets')}")
    if "offsets" in part:
        shown = ", ".join(map(str, part["offsets"][:OFFSETS_SHOWN]))
        more = len(part["offsets"]) - OFFSETS_SHOWN
        words.append(f"offsets {shown}{f' and {more:,} more' if more > 0 else ''}" if shown else "no offsets")
    if "cut" in part:
        words.append(f"{part['cut']:,} B of a cut message")
    return words


def message_summary(row: MessageRow) -> str:
    """See `Dissector.message_summary`."""
    extra = row.extra or {}
    words = [_place({"topic": row.topic or "topic ?", "partition": row.partition, "offset": extra.get("offset")})]
    if row.batch_index is not None:
        words.append(f"{row.batch_index + 1} of {row.batch_size}")
    if row.payload_size is not None:
        words.append(f"{row.payload_size:,} B")
    if row.compression not in (None, "NONE"):
        words.append(str(row.compression))
    return GAP.join(words)


def explain(name: str, value: Any) -> str | None:
    """See `Dissector.explain`."""
    if name == "time" and value in TIMES:
        return f"{value}  {TIMES[value]}"
    return _BROKER_PICKS if name == "partition" and value == -1 else None
