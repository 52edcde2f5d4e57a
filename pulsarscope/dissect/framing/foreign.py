"""Starts of streams that do not belong to the protocol: PROXY protocol headers, and other protocols by name."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pulsarscope.model.masked_names import MaskedNames

PROXY_V1_START = b"PROXY "
PROXY_V1_MAX_BYTES = 107
"""Longest v1 line, its CRLF included (PROXY protocol specification, 2.1)."""
PROXY_V2_START = b"\r\n\r\n\x00\r\nQUIT\n"
PROXY_V2_FIXED_BYTES = 16

FOREIGN_HEAD_BYTES = 8
"""Bytes that `foreign_name` examines."""

_HTTP_ANSWER = b"HTTP"
_HTTP_STARTS = (_HTTP_ANSWER, b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"PRI ")


class ProxyHeader(NamedTuple):
    """A PROXY protocol header: its length in bytes, and the source endpoint that it names."""

    size: int
    source: str | None


def proxy_header(head: bytes) -> ProxyHeader | None:
    """Return the header at the start of `head`; None if there is none. Its size is 0 when more bytes are needed to decide."""
    if head[:6] == PROXY_V1_START[: len(head)]:
        end = head.find(b"\r\n", 0, PROXY_V1_MAX_BYTES)
        if end < 0:
            return ProxyHeader(0, None) if len(head) < PROXY_V1_MAX_BYTES else None
        words = head[:end].split(b" ")
        if len(words) != 6:
            return ProxyHeader(end + 2, None)
        address, port = words[2].decode("ascii", "backslashreplace"), words[4].decode("ascii", "backslashreplace")
        return ProxyHeader(end + 2, f"[{address}]:{port}" if words[1] == b"TCP6" else f"{address}:{port}")
    if head[:12] == PROXY_V2_START[: len(head)]:
        if len(head) < PROXY_V2_FIXED_BYTES:
            return ProxyHeader(0, None)
        size = PROXY_V2_FIXED_BYTES + int.from_bytes(head[14:16], "big")
        return ProxyHeader(size, _v2_source(head[13], head[16:size])) if len(head) >= size else ProxyHeader(0, None)
    return None


def masked_proxy_header(head: bytes, names: MaskedNames) -> bytes:
    """Return the whole header at the start of `head` with its addresses masked and nothing else; b"" if there is none."""
    header = proxy_header(head)
    if header is None or not header.size:
        return b""
    if head[:6] == PROXY_V1_START:
        words = head[: header.size - 2].split(b" ")
        if len(words) != 6 or words[1] not in {b"TCP4", b"TCP6"} or not (words[4] + words[5]).isdigit():
            return b""
        return b" ".join([*words[:2], *(_masked_text(word, names) for word in words[2:4]), *words[4:]]) + b"\r\n"
    width = {0x11: 4, 0x21: 16}.get(head[13], 0)
    if header.size < PROXY_V2_FIXED_BYTES + 2 * width + 4:
        width = 0
    source, target = (head[start : start + width] for start in (PROXY_V2_FIXED_BYTES, PROXY_V2_FIXED_BYTES + width))
    ports = head[PROXY_V2_FIXED_BYTES + 2 * width :][: 4 if width else 0]
    masked = names.address(source) + names.address(target) if width else b""
    return (head[:PROXY_V2_FIXED_BYTES] + masked + ports).ljust(header.size, b"\0")


def _masked_text(address: bytes, names: MaskedNames) -> bytes:
    return names.name(b"[" + address + b"]")[1:-1] if b":" in address else names.name(address)


def _v2_source(family: int, addresses: bytes) -> str | None:
    if family == 0x11 and len(addresses) >= 12:
        return f"{addresses[0]}.{addresses[1]}.{addresses[2]}.{addresses[3]}:{int.from_bytes(addresses[8:10], 'big')}"
    if family == 0x21 and len(addresses) >= 36:
        return f"[{IPv6Address(addresses[:16])}]:{int.from_bytes(addresses[32:34], 'big')}"
    return None


def foreign_name(head: bytes) -> str | None:
    """Return the protocol that the first bytes of a stream show (TLS, HTTP, SSH), None for any other."""
    if len(head) >= 3 and head[0] == 0x16 and head[1] == 3 and head[2] <= 4:
        return "TLS"
    if head.startswith(_HTTP_STARTS):
        return "HTTP"
    return "SSH" if head.startswith(b"SSH-") else None


def lost_framing(head: bytes, size: int, largest: int) -> tuple[str, str]:
    """Return code and text about a frame of an impossible size (0: its bytes are no frame); `head`, its first bytes, may be foreign."""
    if size > largest:
        return "frame-too-large", f"a frame of {size:,} bytes is announced, the limit is {largest:,}{_named(head)}"
    text = f"a frame of {size:,} bytes is impossible" if size else f"no frame begins with these bytes{_named(head)}"
    return "frame-malformed", text


def _named(head: bytes) -> str:
    if head.startswith(_HTTP_ANSWER):
        return ": these are the first bytes of an answer in HTTP, so this is the port of a web service"
    name = foreign_name(head)
    return f": these are the first bytes of {name}" if name else ""
