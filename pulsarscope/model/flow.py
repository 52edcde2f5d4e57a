"""Endpoints and directions: how two ends of a TCP connection are named everywhere."""

from __future__ import annotations

from ipaddress import IPv6Address

CLIENT = "client"
SERVER = "server"

IPV4_KEY_BYTES = 12
"""Length of an IPv4 flow key: source, destination address, source, destination port, as they stand in the packet."""

IPV6_KEY_BYTES = 36
"""Length of an IPv6 flow key, same order."""

# What was captured at a place of its own may have its name behind the key (`key_at`). The length still tells the address family: behind
# IPv4 it makes the key odd, behind IPv6 it leaves it even. So the rest of the program groups by it without knowing of it.


def reverse_key(key: bytes) -> bytes:
    """The flow key of the other direction."""
    if len(key) == IPV4_KEY_BYTES:
        return key[4:8] + key[:4] + key[10:12] + key[8:10]
    if len(key) & 1:
        return key[4:8] + key[:4] + key[10:12] + key[8:10] + key[12:]
    return key[16:32] + key[:16] + key[34:36] + key[32:34] + key[36:]


def key_at(key: bytes, source: str) -> bytes:
    """The flow key of endpoints as they were seen at one vantage point, whose name holds no NUL."""
    name = source.encode("utf-8", "surrogateescape")
    if len(key) == IPV4_KEY_BYTES:
        return key + name + bytes(~len(name) & 1)
    return key + name + bytes(len(name) & 1 if name else 2)


def without_source(key: bytes) -> bytes:
    """The flow key of the endpoints alone."""
    return key[:IPV4_KEY_BYTES] if len(key) == IPV4_KEY_BYTES or len(key) & 1 else key[:IPV6_KEY_BYTES]


def source_in(key: bytes) -> str | None:
    """The vantage point that `key_at` put behind a flow key."""
    if len(key) in {IPV4_KEY_BYTES, IPV6_KEY_BYTES}:
        return None
    return key[len(without_source(key)) :].rstrip(b"\0").decode("utf-8", "surrogateescape")


def source_port(key: bytes) -> int:
    """TCP source port of a flow key."""
    start = IPV4_KEY_BYTES - 4 if len(key) == IPV4_KEY_BYTES or len(key) & 1 else IPV6_KEY_BYTES - 4
    return int.from_bytes(key[start : start + 2], "big")


def source_endpoint(key: bytes) -> str:
    """The sender of a flow key as "ip:port" or "[v6]:port"."""
    if len(key) == IPV4_KEY_BYTES or len(key) & 1:
        return f"{key[0]}.{key[1]}.{key[2]}.{key[3]}:{source_port(key)}"
    return f"[{IPv6Address(key[:16])}]:{source_port(key)}"
