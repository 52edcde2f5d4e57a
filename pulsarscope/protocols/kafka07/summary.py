"""A line about each frame and message of Kafka 0.7, and explanations of single values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols.kafka07.commands import EARLIEST, LATEST, NO_ERROR

GAP = "  "

TIMES = {LATEST: "latest", EARLIEST: "earliest"}

PARTS_MAX = 3
"""Parts of a request or response in one line; their count is exact."""

OFFSETS_MAX = 5
"""Offsets of a response in one line; their count is exact."""

_BROKER_PICKS = "-1  the broker picks one"


def summary(row: FrameRow) -> str:
    """See `Dissector.summary`."""
    fields = row.fields or {}
    parts: Sequence[Mapping[str, Any]] | None = fields.get("fetches") or fields.get("produces") or fields.get("parts")
    phrases = [_error(fields)]
    if parts is None:
        place = dict(fields) | (row.extra or {})
        if row.topic is not None:
            place.setdefault("topic", row.topic)
        phrases += [_place(place), *_rest(fields)]
    else:
        places = (row.extra or {}).get("parts") or [{}] * len(parts)
        texts = [
            GAP.join(filter(None, (_error(part), _place({**part, **place}), *_rest(part))))
            for part, place in zip(parts, places, strict=False)
        ]
        more = len(texts) - PARTS_MAX
        phrases += [f"{len(parts)} parts", "; ".join(texts[:PARTS_MAX]) + (f"; {more:,} more" if more > 0 else "")]
    if row.num_messages is not None:
        phrases.append(f"{row.num_messages:,} message{'' if row.num_messages == 1 else 's'}")
    if row.payload_size:
        phrases.append(f"{row.payload_size:,} B")
    return GAP.join(filter(None, phrases))


def _error(fields: Mapping[str, Any]) -> str:
    error = fields.get("error")
    return "" if error is None or error == NO_ERROR else str(error)


def _place(part: Mapping[str, Any]) -> str:
    """Return a topic, its partition and an offset in it, as far as they are known."""
    topic, partition, offset = part.get("topic"), part.get("partition"), part.get("offset")
    phrases = "" if topic is None else str(topic)
    if partition is not None:
        number = "any" if partition == -1 else str(partition)
        phrases += f"-{number}" if phrases and not number.startswith("-") else f" partition {number}"
    phrases = phrases.lstrip()
    return phrases if offset is None else f"{phrases} at {offset}".lstrip()


def _rest(part: Mapping[str, Any]) -> list[str]:
    phrases = []
    if "max_size" in part:
        phrases.append(f"up to {part['max_size']:,} B")
    if "time" in part:
        phrases.append(f"{TIMES.get(part['time'], part['time'])}{GAP}up to {part.get('max_offsets')}")
    if "offsets" in part:
        first = ", ".join(map(str, part["offsets"][:OFFSETS_MAX]))
        more = len(part["offsets"]) - OFFSETS_MAX
        phrases.append(f"offsets {first}{f' and {more:,} more' if more > 0 else ''}" if first else "no offsets")
    if "cut" in part:
        phrases.append(f"{part['cut']:,} B of a cut message")
    return phrases


def message_summary(row: MessageRow) -> str:
    """See `Dissector.message_summary`."""
    extra = row.extra or {}
    phrases = [_place({"topic": row.topic or "topic ?", "partition": row.partition, "offset": extra.get("offset")})]
    if row.batch_index is not None:
        phrases.append(f"{row.batch_index + 1} of {row.batch_size}")
    if row.payload_size is not None:
        phrases.append(f"{row.payload_size:,} B")
    if row.compression not in (None, "NONE"):
        phrases.append("+".join(extra.get("codecs") or [str(row.compression)]))
    return GAP.join(phrases)


def explain(name: str, value: Any) -> str | None:
    """See `Dissector.explain`."""
    if name == "time" and value in TIMES:
        return f"{value}  {TIMES[value]}"
    return _BROKER_PICKS if name == "partition" and value == -1 else None
