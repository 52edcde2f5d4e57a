"""A frame: bytes → command, fields, and the ledger entry in it. Pure and total."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pulsarscope.dissect.contract.capabilities import ReadStored
from pulsarscope.dissect.contract.frames import MALFORMED, OK, TRUNCATED, Decoded
from pulsarscope.protocols.bookkeeper.binary import read_binary
from pulsarscope.protocols.bookkeeper.body import Body
from pulsarscope.protocols.bookkeeper.framing import BODY, LENGTH_BYTES
from pulsarscope.protocols.bookkeeper.ledger_entry import DIGESTS, Digest, LedgerEntry, read_entry
from pulsarscope.protocols.bookkeeper.protobuf import read_message

PROTOBUF_TAG = 0x0A
"""First byte of a frame of version 3: the tag of its header."""


def read_body(data: bytes, start: int, end: int, size: int) -> Body:
    """Read the available bytes data[start:end] of a frame of `size` bytes, which have at least the first byte after the length."""
    if data[start + LENGTH_BYTES] == PROTOBUF_TAG:
        return read_message(data, start + LENGTH_BYTES, end)
    return read_binary(data, start, end, size)


class BookkeeperFrameDecoder:
    """A decoder of frames."""

    def __init__(self, show_secrets: bool, stored: Sequence[ReadStored] = (), digests: Sequence[Digest] = DIGESTS) -> None:
        """Prepare; `stored`: readers of the data of entries; `digests`: digests to try."""
        self._show_secrets = show_secrets
        self._digests = digests
        self.stored = stored

    def decode(self, data: bytes, start: int, end: int) -> Decoded:
        """See `Dissector.decode`."""
        body = read_body(data, start, end, end - start)
        fields = body.fields
        notes = []
        if body.problem is not None:
            notes.append(("frame-malformed", body.problem))
        self._show(data, body)
        if not body.entries:
            return body.command, fields, None, None, None, None, MALFORMED if notes else OK, notes or None
        entries = [read_entry(data, first, last, self._digests) for first, last in body.entries]
        if len(entries) > 1:
            fields["entries"] = [_fields_of(entry, last) for entry, (_, last) in zip(entries, body.entries, strict=True) if entry]
        first = entries[0]
        if first is None:
            notes.append(("frame-malformed", "its ledger entry is shorter than the head of one"))
            return body.command, fields, None, None, None, None, MALFORMED, notes
        last = body.entries[0][1]
        checksum = next((entry.checksum for entry in entries if entry and entry.checksum.status == "bad"), first.checksum)
        fields |= _fields_of(first, last, fields)
        entry_metadata = metadata = None
        at = first.data_at
        if at is not None and len(entries) == 1:
            for read in self.stored:
                if (stored := read(data, at, last)) is not None:
                    fields["data"] = {"kind": stored.kind, **stored.fields}
                    entry_metadata, metadata, at = stored.broker_entry_metadata, stored.metadata, stored.payload_at
                    break
        return (
            body.command,
            fields,
            entry_metadata,
            checksum,
            metadata,
            None if at is None or last != end else at - start,
            MALFORMED if notes else OK,
            notes or None,
        )

    def decode_partial(self, data: bytes, start: int, end: int) -> Decoded:
        """See `Dissector.decode_partial`."""
        if end - start < BODY:
            return None, None, None, None, None, None, TRUNCATED, None
        body = read_body(data, start, end, LENGTH_BYTES + int.from_bytes(data[start : start + LENGTH_BYTES], "big"))
        self._show(data, body._replace(secret=(body.secret[0], min(body.secret[1], end))))
        return body.command, body.fields or None, None, None, None, None, TRUNCATED, None

    def _show(self, data: bytes, body: Body) -> None:
        """Put the credentials, if any, in the form that may be shown."""
        first, last = body.secret
        if first < last:
            name = "payload" if "plugin" in body.fields else "master_key"
            shown: Any = f"redacted ({last - first} bytes)"
            body.fields[name] = data[first:last].hex() if self._show_secrets else shown


def _fields_of(entry: LedgerEntry, end: int, of_frame: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the fields of a ledger entry that ends at `end`. Those of its frame have the same names, and its ids take precedence."""
    fields: dict[str, Any] = {"ledger": entry.ledger, "entry": entry.entry}
    if of_frame is not None:
        ids = {name: of_frame.get(name, value) for name, value in fields.items()}
        if ids != fields:
            ids |= {f"stored_{name}": value for name, value in fields.items() if value != ids[name]}
        fields = ids
    fields |= {"last_add_confirmed": entry.last_add_confirmed, "length": entry.length, "digest": entry.digest}
    if entry.data_at is not None:
        fields["data_size"] = end - entry.data_at
    return fields
