"""A line about each frame of BookKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols.bookkeeper.commands import EOK

GAP = "  "

_WITH_NAMES = {
    "stored_entry": "is entry",
    "last_add_confirmed": "LAC",
    "max_lac": "LAC",
    "max_count": "up to entries",
    "plugin": "plug-in",
    "total_bytes": "total bytes",
    "free_bytes": "free bytes",
}


def summary(row: FrameRow) -> str:
    """See `Dissector.summary`."""
    fields = row.fields or {}
    status = fields.get("status")
    phrases = [str(status) if status not in (None, EOK) else ""]
    if "ledger" in fields:
        phrases.append(f"{fields['ledger']}:{fields['entry']}" if "entry" in fields else f"ledger {fields['ledger']}")
    phrases += [f"{words} {fields[name]}" for name, words in _WITH_NAMES.items() if name in fields]
    phrases.append(", ".join(fields.get("flags", ())))
    if "entries" in fields:
        phrases.append(f"{len(fields['entries'])} entries")
    phrases.append(_data(fields.get("data") or {}, row))
    if "data_size" in fields:
        phrases.append(f"{fields['data_size']:,} B")
    if row.checksum is not None and row.checksum.status == "bad":
        phrases.append(f"{fields.get('digest') or 'digest'} wrong")
    return GAP.join(filter(None, phrases))


def message_summary(row: MessageRow) -> str:
    """See `Dissector.message_summary`."""
    place = f"{row.ledger}:{row.entry}" + ("" if row.batch_index is None else f":{row.batch_index}")
    names = (("", row.topic), ("", place), ("key ", row.key), ("seq ", row.sequence_id), ("producer ", row.producer_name))
    phrases = [f"{word}{value}" for word, value in names if value is not None]
    return GAP.join((*phrases, f"{row.payload_size:,} B")) if row.payload_size is not None else GAP.join(phrases)


def _data(data: Mapping[str, Any], row: FrameRow) -> str:
    """Return a description of the data of an entry, if they are known."""
    metadata = row.metadata or {}
    words = [str(data.get("kind") or ""), str(metadata.get("producer_name") or "")]
    if "sequence_id" in metadata:
        words.append(f"#{metadata['sequence_id']}")
    if "ledger" in data:
        words.append(f"mark-delete {data['ledger']}:{data.get('entry')}")
    return " ".join(filter(None, words))
