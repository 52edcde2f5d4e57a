"""Opens the records of one direction, one key after the other, and finds the count of the records again where some are lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pulsarscope.model.limits import TLS_LOST_RECORDS_MAX, TLS_SEARCH_BYTES, TLS_SEARCH_FACTOR

if TYPE_CHECKING:
    from pulsarscope.tls.keys import Content, Key
    from pulsarscope.tls.record_layer import TlsRecord

_TRIAL_BYTES = 1024
"""What a trial costs beside its bytes."""

_LEAST_RECORD_BYTES = 5 + 16
"""No record that is encrypted is shorter, one of a suite with a short tag excepted."""


class Opener:
    """Give it each record; tell it when the key changes."""

    def __init__(self, keys: Sequence[Key], *, early: bool = False) -> None:
        """`keys`: one after the other, as the handshake goes on; `early`: the first is that of early data."""
        self.skipped = 0
        """Records that were lost before the one opened last."""
        self.renewed = False
        """The key that opened it came after a key update that was lost, so it is not known how many records were."""
        self._keys = list(keys)
        self._early = self._keys[0] if early else None
        self._sequence = 0
        self._opened_bytes = 0
        self._searched = 0

    @property
    def overhead(self) -> int | None:
        """Of the present key."""
        return self._keys[0].overhead

    @property
    def exhausted(self) -> bool:
        """So much was searched in vain that nothing more is."""
        return self._searched > TLS_SEARCH_BYTES + TLS_SEARCH_FACTOR * self._opened_bytes

    @property
    def is_early(self) -> bool:
        """Whether the present key is that of early data."""
        return self._keys[0] is self._early

    @property
    def is_last(self) -> bool:
        """No further key is known but by update."""
        return len(self._keys) == 1

    def open(self, record: TlsRecord, lost: int) -> Content | None:
        """What is in a record, `lost` bytes behind the one before; None when no key opens it."""
        self.skipped, self.renewed = 0, False
        content = self._keys[0].open(self._sequence, record.header, record.body)
        if content is not None:
            self._sequence += 1
            self._opened_bytes += len(record.body)
            return content
        # What ends the use of a key may be lost, or not have been read.
        for index in range(1, len(self._keys)):
            content = self._keys[index].open(0, record.header, record.body)
            if content is not None:
                del self._keys[:index]
                self._sequence = 1
                return content
        return self._search(record, lost) if lost else None

    def _search(self, record: TlsRecord, lost: int) -> Content | None:
        most = min(lost // _LEAST_RECORD_BYTES + 1, TLS_LOST_RECORDS_MAX)
        renewed = self._keys[-1].following()
        for index, key in enumerate([*self._keys, *([] if renewed is None else [renewed])]):
            first = self._sequence if index == 0 else 0
            for skipped in range(most + 1):
                if self.exhausted:
                    return None
                self._searched += len(record.body) + _TRIAL_BYTES
                content = key.open(first + skipped, record.header, record.body)
                if content is not None:
                    self.skipped = skipped
                    self.renewed = index == len(self._keys)
                    self._keys = [key] if self.renewed else self._keys[index:]
                    self._sequence = first + skipped + 1
                    return content
        return None

    def go_on(self) -> None:
        """The key has done its part of the handshake."""
        if not self.is_last:
            del self._keys[0]
            self._sequence = 0

    def renew(self) -> None:
        """The key was updated."""
        following = self._keys[0].following()
        if following is not None:
            self._keys[0] = following
            self._sequence = 0
