"""The network interfaces of this host, as Linux tells of them in /sys."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

ANY = "any"
"""Names all interfaces at once."""

_SYSTEM = Path("/sys/class/net")
_ETHERNET_HARDWARE = {1, 772}
"""ARPHRD_ETHER, and ARPHRD_LOOPBACK, which has an Ethernet header, too (linux/if_arp.h)."""
_LOOPBACK = 772


class NetworkInterface(msgspec.Struct, frozen=True):
    """One interface."""

    name: str
    index: int
    """0 for all of them."""
    state: str
    """up, down, unknown …, as the kernel calls it."""
    mtu: int
    is_ethernet: bool
    """Its packets begin with an Ethernet header."""
    is_loopback: bool


def interfaces() -> list[NetworkInterface]:
    """All of them, in the order of their indexes."""
    return [_described(name, index) for index, name in sorted(socket.if_nameindex())]


def interface(name: str) -> NetworkInterface:
    """One by name, or `any`.

    Raises:
        OSError: there is none of that name.
    """
    if name == ANY:
        return NetworkInterface(ANY, 0, "up", 0, is_ethernet=False, is_loopback=False)
    return _described(name, socket.if_nametoindex(name))


def _described(name: str, index: int) -> NetworkInterface:
    hardware = _number(name, "type")
    return NetworkInterface(
        name,
        index,
        _told(name, "operstate") or "unknown",
        _number(name, "mtu"),
        is_ethernet=hardware in _ETHERNET_HARDWARE,
        is_loopback=hardware == _LOOPBACK,
    )


def _told(name: str, what: str) -> str:
    try:
        return (_SYSTEM / name / what).read_text().strip()
    except OSError:
        return ""


def _number(name: str, what: str) -> int:
    told = _told(name, what)
    return int(told) if told.isdigit() else 0
