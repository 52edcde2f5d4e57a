"""Decryption of the records of one direction, with recovery of the sequence number when records are lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pulsarscope.model.limits import TLS_LOST_RECORDS_MAX, TLS_SEARCH_BYTES, TLS_SEARCH_FACTOR

if TYPE_CHECKING:
    from pulsarscope.tls.record_layer import TlsRecord
    from pulsarscope.tls.record_protection import Content, Key

_TRIAL_BYTES = 1024
"""Cost of a trial decryption beyond its bytes, in bytes."""

_RECORD_MIN_BYTES = 5 + 16
"""Smallest encrypted record, except for suites with a short tag."""


class Decrypter:
    """Decrypter of one direction; `next_key` and `update_key` follow the handshake."""

    def __init__(self, keys: Sequence[Key], *, early: bool = False) -> None:
        """Take the keys in the order of the handshake; with `early`, the first is the key of early data."""
        self.skipped = 0
        """Number of records lost before the last one."""
        self.updated = False
        """True when the last record used a key from after a lost key update; the number of lost records is then unknown."""
        self._keys = list(keys)
        self._early = self._keys[0] if early else None
        self._sequence = 0
        self._opened_bytes = 0
        self._searched_bytes = 0

    @property
    def overhead(self) -> int | None:
        """Return the overhead of the current key, see `Key.overhead`."""
        return self._keys[0].overhead

    @property
    def exhausted(self) -> bool:
        """Return True when the search for lost sequence numbers has used up its budget."""
        return self._searched_bytes > TLS_SEARCH_BYTES + TLS_SEARCH_FACTOR * self._opened_bytes

    @property
    def is_early(self) -> bool:
        """Return True when the current key is that of early data."""
        return self._keys[0] is self._early

    @property
    def is_last(self) -> bool:
        """Return True when only a key update can replace the current key."""
        return len(self._keys) == 1

    def open(self, record: TlsRecord, lost: int) -> Content | None:
        """Decrypt a record that follows `lost` missing bytes; return None when no key fits."""
        self.skipped, self.updated = 0, False
        if (content := self._keys[0].open(self._sequence, record.header, record.body)) is not None:
            self._sequence += 1
            self._opened_bytes += len(record.body)
            return content
        # The message that ends the use of a key may be lost or undecrypted.
        for index in range(1, len(self._keys)):
            if (content := self._keys[index].open(0, record.header, record.body)) is not None:
                del self._keys[:index]
                self._sequence = 1
                return content
        return self._search(record, lost) if lost else None

    def _search(self, record: TlsRecord, lost: int) -> Content | None:
        most_lost = min(lost // _RECORD_MIN_BYTES + 1, TLS_LOST_RECORDS_MAX)
        updated = self._keys[-1].updated()
        for index, key in enumerate([*self._keys, *([] if updated is None else [updated])]):
            first = self._sequence if index == 0 else 0
            for skipped in range(most_lost + 1):
                if self.exhausted:
                    return None
                self._searched_bytes += len(record.body) + _TRIAL_BYTES
                if (content := key.open(first + skipped, record.header, record.body)) is not None:
                    self.skipped = skipped
                    self.updated = index == len(self._keys)
                    self._keys = [key] if self.updated else self._keys[index:]
                    self._sequence = first + skipped + 1
                    return content
        return None

    def next_key(self) -> None:
        """Advance to the next key of the handshake."""
        if not self.is_last:
            del self._keys[0]
            self._sequence = 0

    def update_key(self) -> None:
        """Replace the key after a KeyUpdate message."""
        if (updated_key := self._keys[0].updated()) is not None:
            self._keys[0] = updated_key
            self._sequence = 0
