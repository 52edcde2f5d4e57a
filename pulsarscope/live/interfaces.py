"""Network interfaces of this host, as listed by Linux in /sys."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

ANY = "any"
"""Name of all interfaces together."""

_SYSTEM = Path("/sys/class/net")
_ETHERNET_HARDWARE = {1, 772}
"""ARPHRD_ETHER, and ARPHRD_LOOPBACK, which also has an Ethernet header (linux/if_arp.h)."""
_LOOPBACK = 772


class NetworkInterface(msgspec.Struct, frozen=True):
    """A network interface."""

    name: str
    index: int
    """Index, 0 for all interfaces."""
    state: str
    """State as named by the kernel: up, down, unknown and others."""
    mtu: int
    """Largest packet in bytes; 0 if unknown."""
    is_ethernet: bool
    """True when its packets begin with an Ethernet header."""
    is_loopback: bool


def all_interfaces() -> list[NetworkInterface]:
    """Return all interfaces in the order of their indexes."""
    return [_interface(name, index) for index, name in sorted(socket.if_nameindex())]


def find_interface(name: str) -> NetworkInterface:
    """Return the interface with a name, or `any`. Raises OSError when there is no interface of that name."""
    if name == ANY:
        return NetworkInterface(ANY, 0, "up", 0, is_ethernet=False, is_loopback=False)
    return _interface(name, socket.if_nametoindex(name))


def _interface(name: str, index: int) -> NetworkInterface:
    hardware = _number(name, "type")
    return NetworkInterface(
        name,
        index,
        _attribute(name, "operstate") or "unknown",
        _number(name, "mtu"),
        is_ethernet=hardware in _ETHERNET_HARDWARE,
        is_loopback=hardware == _LOOPBACK,
    )


def _attribute(name: str, attribute: str) -> str:
    try:
        return (_SYSTEM / name / attribute).read_text().strip()
    except OSError:
        return ""


def _number(name: str, attribute: str) -> int:
    text = _attribute(name, attribute)
    return int(text) if text.isdigit() else 0
