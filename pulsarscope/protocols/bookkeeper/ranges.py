"""Named byte ranges of one frame, for the hex view."""

from __future__ import annotations

from collections.abc import Sequence

from pulsarscope.dissect.contract.capabilities import SECRET_RANGE, Ranges
from pulsarscope.protocols.bookkeeper.frame import PROTOBUF_TAG, read_body
from pulsarscope.protocols.bookkeeper.framing import BODY, LENGTH_BYTES
from pulsarscope.protocols.bookkeeper.ledger_entry import DIGESTS, HEAD, Digest, read_entry

_HEAD_FIELDS = ("ledger", "entry", "last add confirmed", "length")


def ranges(data: bytes, *, show_secrets: bool, digests: Sequence[Digest] = DIGESTS) -> Ranges:
    """Return the frame with its secrets masked, and all ranges that can be read, outer before inner. It accepts any bytes."""
    end = len(data)
    if end < BODY:
        return data, [(0, min(LENGTH_BYTES, end), "length", 0)]
    out = [(0, LENGTH_BYTES, "length", 0)]
    body = read_body(data, 0, end, end)
    if data[LENGTH_BYTES] == PROTOBUF_TAG:
        out.append((LENGTH_BYTES, end, "message of version 3", 0))
    else:
        out += [(LENGTH_BYTES, BODY, "version, operation, flags", 0), (BODY, end, "body", 0)]
    first, last = body.secret[0], min(body.secret[1], end)
    if first < last and not show_secrets:
        data = data[:first] + bytes(last - first) + data[last:]
    if first < last:
        out.append((first, last, "credentials" if show_secrets else SECRET_RANGE, 1))
    for start, stop in body.entries:
        if stop > end or (entry := read_entry(data, start, stop, digests)) is None:
            continue
        out.append((start, stop, "ledger entry", 1))
        out += [(start + 8 * place, start + 8 * place + 8, name, 2) for place, name in enumerate(_HEAD_FIELDS)]
        at = start + HEAD.size
        behind = at if entry.data_at is None else entry.data_at
        if behind > at:
            out.append((at, behind, f"{entry.digest} digest", 2))
        out.append((behind, stop, "data" if entry.data_at is not None else "digest and data", 2))
    return data, out
