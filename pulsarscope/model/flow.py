"""Endpoints and flow keys, which name the two directions of a TCP connection; places of packets."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address
from struct import Struct

CLIENT = "client"
SERVER = "server"

FILE_SHIFT = 40
"""Shift of the file in the place of a packet: file and number in one integer, which sorts twice as fast as a pair; no file has 2^40
packets."""

BEHIND_ALL = 1 << 62
"""A place after all packets."""

IPV4, IPV6 = 4, 6

IPV4_KEY_BYTES = 12
"""Size of an IPv4 flow key: source and destination address, source and destination port, as in the packet."""

IPV6_KEY_BYTES = 36
"""Size of an IPv6 flow key, in the same order."""


def family(key: bytes) -> int:
    """Return the address family of a flow key, IPV4 or IPV6."""
    if len(key) > IPV6_KEY_BYTES:
        return key[-1]
    return IPV4 if len(key) == IPV4_KEY_BYTES else IPV6


def reverse_key(key: bytes) -> bytes:
    """Return the flow key of the other direction."""
    if len(key) == IPV4_KEY_BYTES or family(key) == IPV4:
        return key[4:8] + key[:4] + key[10:12] + key[8:10] + key[12:]
    return key[16:32] + key[:16] + key[34:36] + key[32:34] + key[36:]


def with_source(key: bytes, source: str) -> bytes:
    """Return a flow key with a vantage point (whose name has no NUL) and the family appended; it is longer than any key without one."""
    name = source.encode("utf-8", "surrogateescape")
    return key + name.ljust(IPV6_KEY_BYTES - len(key), b"\0") + bytes((family(key),))


def without_source(key: bytes) -> bytes:
    """Return the flow key without its vantage point."""
    return key[: IPV4_KEY_BYTES if family(key) == IPV4 else IPV6_KEY_BYTES]


def source_of_key(key: bytes) -> str | None:
    """Return the vantage point in a flow key, None if it has none."""
    if len(key) <= IPV6_KEY_BYTES:
        return None
    return key[len(without_source(key)) : -1].rstrip(b"\0").decode("utf-8", "surrogateescape")


def source_port(key: bytes) -> int:
    """Return the TCP source port of a flow key."""
    start = IPV4_KEY_BYTES - 4 if family(key) == IPV4 else IPV6_KEY_BYTES - 4
    return int.from_bytes(key[start : start + 2], "big")


_IPV4_KEY = Struct(">8B2H")


def endpoints_of(key: bytes) -> tuple[str, str]:
    """Return sender and receiver of a flow key, each formatted as by `source_endpoint`; not cached, for keys that occur only once."""
    if len(key) == IPV4_KEY_BYTES:
        a, b, c, d, e, f, g, h, source, destination = _IPV4_KEY.unpack(key)
        return f"{a}.{b}.{c}.{d}:{source}", f"{e}.{f}.{g}.{h}:{destination}"
    return source_endpoint(key), source_endpoint(reverse_key(key))


@lru_cache(256)
def source_endpoint(key: bytes) -> str:
    """Return the sender of a flow key as "ip:port" or "[v6]:port"."""
    if family(key) == IPV4:
        return f"{key[0]}.{key[1]}.{key[2]}.{key[3]}:{source_port(key)}"
    return f"[{IPv6Address(key[:16])}]:{source_port(key)}"
