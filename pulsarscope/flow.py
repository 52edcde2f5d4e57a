"""Endpoints and directions: how two ends of a TCP connection are named everywhere."""

from __future__ import annotations

from ipaddress import IPv6Address

CLIENT = "client"
SERVER = "server"

IPV4_KEY_BYTES = 12
"""Length of an IPv4 flow key: source, destination address, source, destination port, as they stand in the packet."""

IPV6_KEY_BYTES = 36
"""Length of an IPv6 flow key, same order."""


def reverse_key(key: bytes) -> bytes:
    """The flow key of the other direction."""
    if len(key) == IPV4_KEY_BYTES:
        return key[4:8] + key[:4] + key[10:12] + key[8:10]
    return key[16:32] + key[:16] + key[34:36] + key[32:34]


def source_port(key: bytes) -> int:
    """TCP source port of a flow key."""
    return int.from_bytes(key[-4:-2], "big")


def source_endpoint(key: bytes) -> str:
    """The sender of a flow key as "ip:port" or "[v6]:port"."""
    if len(key) == IPV4_KEY_BYTES:
        return f"{key[0]}.{key[1]}.{key[2]}.{key[3]}:{source_port(key)}"
    return f"[{IPv6Address(key[:16])}]:{source_port(key)}"
