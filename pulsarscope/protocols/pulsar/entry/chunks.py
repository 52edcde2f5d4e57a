"""Joining chunks of large messages to complete payloads, for the producers and consumers of one connection.

A message is complete when its chunks came in order, as consumers require. Chunk 0 starts or restarts it; a repeated chunk other than that
counts once. Chunks of several messages may interleave.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.digests import sha256_hex
from pulsarscope.model.limits import CHUNKED_MESSAGES_MAX, CHUNKS_MAX_BYTES
from pulsarscope.model.records import MessageRow
from pulsarscope.protocols.pulsar.text.formatting import NAME_CHARACTERS_MAX, clipped

Owner = tuple[str, int]
"""Owner of an entry: "produce" and a producer id, or "deliver" and a consumer id."""

INCOMPLETE, ENCRYPTED = "incomplete", "encrypted"

MISSING_SHOWN_MAX = 10
"""Missing chunks listed in one finding."""

CHUNK_BYTES = 128
"""Estimated size in memory of a chunk without its payload."""

METADATA_FACTOR = 16
"""Estimated size of a byte of metadata in a row: a property of ten bytes becomes two objects in a table."""

_GIVEN_UP = ""
"""Stands for a finding code when the message was given up for lack of room."""


class _ChunkedMessage:
    """The chunks of one message seen so far."""

    __slots__ = ("before", "broken", "closed", "count", "highest", "parts", "payload_bytes", "row", "row_bytes", "seen")

    def __init__(self, count: int, before: int = 0) -> None:
        self.count = count
        self.before = before
        """Number of chunks that may precede the capture."""
        self.seen: set[int] = set()
        """Numbers of the chunks."""
        self.highest = -1
        self.parts: list[bytes] = []
        self.payload_bytes = 0
        self.broken = False
        """True if a chunk was out of order, so that no payload is held any more."""
        self.closed = False
        """True if a chunk could not be decrypted, so that no payload is held any more."""
        self.row = MessageRow()
        """Row of the latest chunk."""
        self.row_bytes = 0

    @property
    def size(self) -> int:
        """Estimated size in memory, in bytes."""
        return self.payload_bytes + CHUNK_BYTES * len(self.seen) + self.row_bytes

    def take(self, number: int, payload: bytes | None, row: MessageRow, metadata_bytes: int) -> None:
        """Add a chunk that was not seen before."""
        self.broken = self.broken or number != len(self.seen)
        self.seen.add(number)
        self.highest = max(number, self.highest)
        self.row, self.row_bytes = row, METADATA_FACTOR * metadata_bytes
        self.closed = self.closed or payload is None
        if payload is None or self.closed or self.broken:
            self.parts, self.payload_bytes = [], 0
        else:
            self.parts.append(payload)
            self.payload_bytes += len(payload)


class Chunks:
    """A joiner of the chunks of one connection, which holds the chunks of incomplete messages."""

    def __init__(self, *, from_start: bool = True) -> None:
        """Prepare for a connection; `from_start`: the capture has the beginning of the connection."""
        self._begun: dict[tuple[Owner, str], None] | None = None if from_start else {}
        """Owners and producers with a message that began in the capture. All others may be within a message when the capture begins."""
        self._waiting: dict[tuple[Owner, str], _ChunkedMessage] = {}
        self.bytes = 0
        """Estimated size of the waiting chunks in memory."""
        self._ended: dict[tuple[Owner, str], str] = {}
        """Code of the finding for a chunk that comes after the last one; _GIVEN_UP if the last one has not come."""

    def add(
        self, owner: Owner, metadata: dict[str, Any], metadata_bytes: int, payload: bytes | None, row: MessageRow, notes: list[Note]
    ) -> bytes | None:
        """Add a chunk.

        Args:
            owner: producer or consumer, to keep their chunks apart.
            metadata: metadata of the entry.
            metadata_bytes: size of the frame without its payload.
            payload: the chunk; None when it could not be decrypted.
            row: row of the entry; its status stays "ok" if the chunk has no row.
            notes: receives oddities.

        Returns:
            The complete payload at the last chunk, otherwise None.
        """
        number, count, uuid = metadata.get("chunk_id", 0), metadata["num_chunks_from_msg"], metadata["uuid"]
        # The uuids of clients are short; nothing that is remembered may be as long as a frame.
        key = owner, uuid if len(uuid) <= NAME_CHARACTERS_MAX else sha256_hex(uuid.encode())
        message = self._waiting.get(key)
        if message is not None and number and count != message.count:
            text = f"chunk {number} of message {clipped(uuid)} says {count} chunks, those before it {message.count}"
            notes.append(("chunk-invalid", text))
            count = message.count
        row.chunks = count
        this = f"chunk {number} of {count} of message {clipped(uuid)}"
        if not 0 <= number < count:
            notes.append(("chunk-invalid", f"{this} cannot be"))
            row.status = INCOMPLETE
            return None
        if number == 0:
            self._ended.pop(key, None)
            if message is not None:
                again = 0 in message.seen
                text = f"{this} comes {'again' if again else f'after chunk {message.highest}'}: the message begins anew"
                notes.append(("chunk-duplicate" if again else "chunk-missing", text))
                self._forget(key)
                message = None
        elif key in self._ended:
            if (code := self._ended[key]) != _GIVEN_UP:
                notes.append((code, f"{this} comes after the end of its message"))
            elif number == count - 1:
                row.status = INCOMPLETE
                self._end(key, "chunk-missing")
            return None
        if message is None:
            message = self._waiting[key] = _ChunkedMessage(count, self._before(owner, metadata, number))
        elif number in message.seen:
            other = not (message.broken or message.closed) and payload != message.parts[number]
            notes.append(("chunk-duplicate", f"{this} comes again{', with other bytes' if other else ''}"))
            return None
        elif number < message.highest:
            notes.append(("chunk-missing", f"{this} comes after chunk {message.highest}"))
        self.bytes -= message.size
        message.take(number, payload, row, metadata_bytes)
        self.bytes += message.size
        self._bound(notes)
        return self._finish(key, message, notes, uuid) if number == count - 1 else None

    def _before(self, owner: Owner, metadata: dict[str, Any], number: int) -> int:
        """Return how many chunks of a message may precede the capture, by its first chunk in it."""
        if self._begun is None:
            return 0
        producer = owner, clipped(metadata.get("producer_name", ""))
        if number == 0:
            remember(self._begun, producer, None, CHUNKED_MESSAGES_MAX)
        return 0 if producer in self._begun else number

    def rest(self) -> list[tuple[Owner, MessageRow]]:
        """Return owner and row of the latest chunk for each message that is incomplete at the end."""
        incomplete = [(owner, message.row) for (owner, _), message in self._waiting.items()]
        for _, row in incomplete:
            row.status = INCOMPLETE
        self._waiting.clear()
        self.bytes = 0
        return incomplete

    def _finish(self, key: tuple[Owner, str], message: _ChunkedMessage, notes: list[Note], uuid: str) -> bytes | None:
        """Return the payload of a message whose last chunk has come; None if a chunk is missing or encrypted."""
        given_up = key not in self._waiting
        self._forget(key)
        if not (given_up or message.broken):
            self._end(key, "chunk-duplicate")
            if not message.closed:
                return b"".join(message.parts)
            message.row.status = ENCRYPTED
            return None
        message.row.status = INCOMPLETE
        if not given_up and message.before and len(message.seen) == message.count - message.before:
            self._end(key, "chunk-duplicate")
            text = f"the first {message.before} of {message.count} chunks of message {clipped(uuid)} may be from before the capture"
            notes.append(("chunk-incomplete", text))
            return None
        self._end(key, "chunk-missing")
        missing = [str(number) for number in islice((n for n in range(message.count) if n not in message.seen), MISSING_SHOWN_MAX + 1)]
        if missing and not given_up:
            which = ", ".join(missing[:MISSING_SHOWN_MAX]) + (" and more" if len(missing) > MISSING_SHOWN_MAX else "")
            what, verb = ("chunk", "is") if len(missing) == 1 else ("chunks", "are")
            notes.append(("chunk-missing", f"{what} {which} of {message.count} of message {clipped(uuid)} {verb} missing"))
        return None

    def _bound(self, notes: list[Note]) -> None:
        while self.bytes > CHUNKS_MAX_BYTES or len(self._waiting) > CHUNKED_MESSAGES_MAX:
            oldest, message = next(iter(self._waiting.items()))
            text = f"{len(message.seen):,} of {message.count:,} chunks of message {clipped(oldest[1])} are given up: too many chunks wait"
            notes.append(("chunk-cap", text))
            self._forget(oldest)
            self._end(oldest, _GIVEN_UP)

    def _end(self, key: tuple[Owner, str], code: str) -> None:
        self._ended[key] = code
        if len(self._ended) > CHUNKED_MESSAGES_MAX:
            del self._ended[next(iter(self._ended))]

    def _forget(self, key: tuple[Owner, str]) -> None:
        message = self._waiting.pop(key, None)
        if message is not None:
            self.bytes -= message.size
