"""The transport of a connection: plain, or TLS with the conversation inside, from the start or after a request for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pulsarscope.dissect.framing.foreign import proxy_header
from pulsarscope.dissect.plugins.isolation import contained, of_type
from pulsarscope.tcp.pieces import Data, Item, at_moment

if TYPE_CHECKING:
    from pulsarscope.dissect.contract.dissector import Dissector
    from pulsarscope.inputs.key_logs import Secrets
    from pulsarscope.tls.connection import TlsConnection

HEAD_MAX_BYTES = 1024
"""Bytes of a stream that are held to recognise TLS: a PROXY protocol header and the header of a record."""

_NOT_PLAIN = frozenset(b"\x14\x15\x16\x17P\r")
"""First bytes of TLS records, and of PROXY protocol headers, after which TLS may begin."""

_RECORD_HEADER_BYTES = 5


Upgrade = Callable[[bytes], int | None]
"""See `Dissector.upgrade`."""


def upgrades_of(dissectors: Iterable[Dissector]) -> list[Upgrade]:
    """Return the functions of dissectors that recognise requests to switch to TLS; one that fails recognises none."""
    having = [(dissector, upgrade) for dissector in dissectors if (upgrade := dissector.upgrade) is not None]
    return [partial(contained, dissector, "upgrade", of_type, None, (int, type(None)), upgrade) for dissector, upgrade in having]


def is_plain(items: Sequence[Sequence[Item]], upgrades: Sequence[Upgrade] = ()) -> bool:
    """Return True when the first items of the streams show at a glance that they are not TLS, and do not request it."""
    plain = False
    for some in items:
        if some:
            item = some[0]
            if not isinstance(item, Data) or item.pieces[0][0][0] in _NOT_PLAIN:
                return False
            if any(upgrade(item.pieces[0][0]) is not None for upgrade in upgrades):
                return False
            plain = True
    return plain


class Transport:
    """Items of both streams in, those of the conversation out. The first bytes decide between plain and TLS."""

    def __init__(self, secrets: Secrets, *, spans: bool, upgrades: Sequence[Upgrade] = ()) -> None:
        """Begin like `TlsConnection`; `upgrades` recognise the frames after which TLS begins."""
        self.decided = False
        self.tls: TlsConnection | None = None
        self._secrets = secrets
        self._spans = spans
        self._upgrades = upgrades
        self._held: tuple[list[Item], list[Item]] = ([], [])
        self._file = 0

    def feed(self, items: Sequence[Sequence[Item]], file: int) -> Sequence[Sequence[Item]]:
        """Take the next items, whose moments are packets of `file`; return those of the conversation."""
        if not self.decided:
            self._hold(items, file)
            self.decided = self._decide()
            if not self.decided:
                return ((), ())
            items, self._held = self._held, ([], [])
        return items if self.tls is None else self.tls.feed(items, file)

    def finish(self, moment: int, file: int) -> Sequence[Sequence[Item]]:
        """Return the remaining items: the streams ended with packet `moment` of `file`."""
        return self._held if self.tls is None else self.tls.finish(moment, file)

    def _hold(self, items: Sequence[Sequence[Item]], file: int) -> None:
        for held, some in zip(self._held, items, strict=True):
            if file != self._file:
                # All packets of this file are later.
                held[:] = [at_moment(item, 0) for item in held]
            held.extend(some)
        self._file = file

    def _decide(self) -> bool:
        """Decide by the stream whose first bytes came first; return False if more are needed."""
        firsts = [next((item.pieces[0][3] for item in held if isinstance(item, Data)), None) for held in self._held]
        moments = [moment for moment in firsts if moment is not None]
        if not moments:
            return False
        for upgrade in self._upgrades:
            if (decided := self._upgraded(upgrade)) is not None:
                return decided
        stream = firsts.index(min(moments))
        head, whole = _head(self._held[stream])
        header = proxy_header(head)
        start = 0 if header is None else header.size
        # While one side has not yet shown its protocol, no more bytes of the other side are held.
        whole = whole or _head(self._held[1 - stream])[1]
        record = head[start : start + _RECORD_HEADER_BYTES]
        if not record or (header is not None and not start):
            return whole
        from pulsarscope.tls.record_layer import begins_record  # noqa: PLC0415 - most connections are plain

        if not begins_record(record):
            return True
        if len(record) < _RECORD_HEADER_BYTES:
            return whole
        from pulsarscope.tls.connection import TlsConnection  # noqa: PLC0415 - as above

        self.tls = TlsConnection(self._secrets, (start, 0) if stream == 0 else (0, start), spans=self._spans)
        return True

    def _upgraded(self, upgrade: Upgrade) -> bool | None:
        """Decide once a side requests TLS, and the other agrees; None if neither requests it."""
        heads = [_head(held) for held in self._held]
        sizes = [upgrade(head) for head, _ in heads]
        if sizes == [None, None]:
            return None
        ended = any(whole for _, whole in heads)
        if 0 in sizes or any(not head for head, _ in heads):
            return ended
        if None in sizes:
            return True  # refused
        first = next((behind for size, (head, _) in zip(sizes, heads, strict=True) if (behind := head[size or 0 :])), b"")
        if not first:
            return ended
        from pulsarscope.tls.record_layer import begins_record  # noqa: PLC0415 - as below

        if begins_record(first[:_RECORD_HEADER_BYTES]):
            from pulsarscope.tls.connection import TlsConnection  # noqa: PLC0415 - as below

            self.tls = TlsConnection(self._secrets, (sizes[0] or 0, sizes[1] or 0), spans=self._spans)
        return True


def _head(items: Sequence[Item]) -> tuple[bytes, bool]:
    """Return the first bytes of a stream, and True if no more are needed: there are enough, or a gap follows."""
    parts: list[bytes] = []
    for item in items:
        if isinstance(item, Data):
            parts += [piece[0] for piece in item.pieces[:HEAD_MAX_BYTES]]
        elif parts:
            return b"".join(parts)[:HEAD_MAX_BYTES], True
    head = b"".join(parts)
    return head[:HEAD_MAX_BYTES], len(head) >= HEAD_MAX_BYTES
