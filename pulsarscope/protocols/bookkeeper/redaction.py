"""Frames without the parts that must not be shared: master keys, credentials, stored data. No byte moves; digests are computed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from struct import Struct

from pulsarscope.dissect.contract.capabilities import RedactStored
from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES
from pulsarscope.model.masked_names import MaskedNames
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.bookkeeper.binary import ANSWER, BATCH, BATCH_ANSWER, IDS, SIZE, batch_entries
from pulsarscope.protocols.bookkeeper.commands import ADD, AUTH, BATCH_READ, READ, RESPONSE
from pulsarscope.protocols.bookkeeper.frame import PROTOBUF_TAG, read_body
from pulsarscope.protocols.bookkeeper.framing import BODY, LENGTH_BYTES
from pulsarscope.protocols.bookkeeper.ledger_entry import HEAD, Digest, fitting, read_entry
from pulsarscope.protocols.bookkeeper.protobuf import (
    HEADER,
    HEADER_NAMES,
    LENGTH,
    REQUESTS,
    RESPONSES,
    ProtobufError,
    fields_of,
)

BLANK, UNREADABLE = b"x", b"\xff"
"""Replacements for secrets, and for data that no protocol reads."""

_NUMBER = Struct(">q")

_AUTH_BODY = 102
_LAC_BYTES = 16
"""Ledger and last add confirmed in the body of a WRITE_LAC, before a digest."""

_NUMBERS = {
    READ: IDS.size,
    BATCH_READ: BATCH.size,
    ADD + RESPONSE: ANSWER.size,
    READ + RESPONSE: ANSWER.size,
    BATCH_READ + RESPONSE: BATCH_ANSWER.size,
}
"""Bytes of ids and statuses at the beginning of the body of a binary frame."""

_PLUGINS = frozenset({b"AuthDisabledPlugin", b"TLS", b"sasl"})
_LETTERS = bytes.maketrans(b"0123456789", b"abcdefghij")
"""Translates digits to letters, because plug-in names are recognised by letters."""


_ID_MAX = 1 << 40
"""Ids are assigned one by one from 0: no cluster has larger ones, and eight bytes of text are larger."""


def _believable_bytes(head: bytes) -> int:
    """Return the number of bytes of a (perhaps cut) ledger entry's head up to the first number that a client could not have written.

    Without a digest that fits, the head may be any bytes.
    """
    numbers: list[int] = [value for (value,) in _NUMBER.iter_unpack(head[: len(head) // _NUMBER.size * _NUMBER.size])]
    entry = numbers[1] if len(numbers) > 1 else 0
    bounds = ((0, _ID_MAX), (0, _ID_MAX), (-1, entry), (0, (entry + 1) * FRAME_HARD_MAX_BYTES))
    within = (least <= value <= most for value, (least, most) in zip(numbers, bounds, strict=False))
    return _NUMBER.size * len([*takewhile(bool, within)])


class BookkeeperRedaction:
    """The redaction of frames under a key."""

    def __init__(self, names: MaskedNames, digests: Sequence[Digest], stored: Sequence[RedactStored]) -> None:
        """Prepare; `stored`: redaction of the data of entries, by the protocols that store them."""
        self._names = names
        self._digests = digests
        self._stored = stored

    def redact(self, row: FrameRow, data: bytes) -> tuple[bytes, bool]:
        """See `dissect.contract.capabilities.Redact`."""
        out = bytearray(UNREADABLE * len(data))
        out[:BODY] = data[:BODY]
        if len(data) <= BODY:
            return bytes(out), True
        command = row.command or ""
        if data[LENGTH_BYTES] == PROTOBUF_TAG:
            names = RESPONSES if command.endswith(RESPONSE) else REQUESTS
            self._protobuf(data, LENGTH_BYTES, len(data), {HEADER: HEADER_NAMES, **names}, out)
        elif command.removesuffix(RESPONSE) == AUTH:
            self._protobuf(data, BODY, len(data), REQUESTS[_AUTH_BODY], out)
        else:
            size = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
            body = read_body(data, 0, len(data), size)
            until = BODY + _NUMBERS.get(command, 0)
            out[BODY:until] = data[BODY:until]
            first, last = body.secret[0], min(body.secret[1], len(data))
            out[first:last] = BLANK * (last - first)
            entries = body.entries
            if command == BATCH_READ + RESPONSE:  # the body lists only the first ones
                entries = [*batch_entries(data, until, len(data), size)]
                for start, _ in entries:
                    out[start - SIZE.size : start] = data[start - SIZE.size : start]
            for start, end in entries:
                if start <= end <= size:
                    self._entry(data, start, end, out)
        return bytes(out), True

    def _protobuf(self, data: bytes, start: int, end: int, names: Mapping[int, str | Mapping[int, str]], out: bytearray) -> None:
        """Redact the message data[start:end] by the names of its fields, as far as possible."""
        behind = start
        try:
            for number, _, first, last in fields_of(data, start, end):
                out[behind:first] = data[behind:first]
                name = names.get(number)
                if isinstance(name, Mapping):
                    self._protobuf(data, first, last, name, out)
                else:
                    self._value(data, name, data[behind] & 7 == LENGTH, first, last, out)
                behind = last
        except ProtobufError:
            return

    def _value(self, data: bytes, name: str | None, sized: bool, first: int, last: int, out: bytearray) -> None:
        value = data[first:last]
        if name == "body":
            self._entry(data, first, last, out)
        elif name == "plugin":
            out[first:last] = value if value in _PLUGINS else self._names.name(value).translate(_LETTERS)
        elif not sized or name == "availability":
            out[first:last] = value
        elif name == "lac_body":
            out[first:last] = value[:_LAC_BYTES] + bytes(max(len(value) - _LAC_BYTES, 0))
        else:
            out[first:last] = BLANK * len(value)

    def _entry(self, data: bytes, start: int, end: int, out: bytearray) -> None:
        """Redact the ledger entry data[start:end], whose end may be missing."""
        at = start + HEAD.size
        entry = read_entry(data, start, end, self._digests) if end <= len(data) else None
        known = at if entry is not None and entry.checksum.status == "good" else start + _believable_bytes(data[start : min(at, end)])
        out[start:known] = data[start:known]
        if entry is None or entry.data_at is None or known < at:
            return
        content = data[entry.data_at : end]
        for redact in self._stored:
            if (redacted := redact(self._names, content)) is not None:
                out[entry.data_at : end] = redacted
                break
        if entry.data_at == at:
            return
        right = fitting(data, start, end, self._digests)
        digest = right or next(each for each in self._digests if each.kind == entry.digest)
        value = digest.of(bytes(out[start:at] + out[entry.data_at : end]))
        out[at : entry.data_at] = value if right is not None else bytes([value[0] ^ 1]) + value[1:]
