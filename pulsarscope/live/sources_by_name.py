"""Sources of live packets by name: interfaces and pipes."""

from __future__ import annotations

import errno
import os
import socket
import stat
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from pulsarscope.live.bpf import compile_filter, tcp_program
from pulsarscope.live.capture_loop import WAIT_SECONDS
from pulsarscope.live.interfaces import ANY, NetworkInterface, all_interfaces, find_interface
from pulsarscope.live.packet_source import PacketSource
from pulsarscope.live.ring import ETHERNET, PacketRing
from pulsarscope.live.sniff import expression, open_sniffer
from pulsarscope.model.errors import UsageError, system_reason
from pulsarscope.model.live_limits import LIVE_RING_BYTES
from pulsarscope.model.text import STANDARD_INPUT
from pulsarscope.model.users import current_user

NO_RING = frozenset({errno.ENOPROTOOPT, errno.EAFNOSUPPORT, errno.EINVAL})
"""Errors of a kernel that does not know packet rings."""

RAW_IP = 101
"""Link type for which a filter is compiled if packets have no link header."""


def is_pipe(name: str) -> bool:
    """Return True when the name of the interface is - for standard input, or the path of a pipe."""
    if name == STANDARD_INPUT:
        return True
    with suppress(OSError, ValueError):
        return stat.S_ISFIFO(Path(name).stat().st_mode)
    return False


def open_source(
    name: str,
    ports: Collection[int],
    *,
    capture_filter: str | None = None,
    ring_bytes: int = LIVE_RING_BYTES,
    waits: bool = False,
    notify: Callable[[str], object] = str,
) -> PacketSource:
    """Open an interface for packets of TCP ports (none: all ports), or for packets that a tcpdump filter passes.

    With `waits`, the interface may appear later, and `notify` gets a line about that. Raises UsageError when it cannot be opened.
    """
    try:
        interface = _awaited(name, notify) if waits else find_interface(name)
    except OSError as error:
        if os.path.isfile(name):  # noqa: PTH113 - Path.is_file raises for names that no file can have
            raise UsageError(f"{name} is a file: use pulsarscope decode") from error
        shown = name or '""'
        names = ", ".join(known.name for known in all_interfaces())
        raise UsageError(f"unknown interface {shown}; known: {names}, {ANY}; or - for standard input, or the path of a pipe") from error
    try:
        if not hasattr(socket, "AF_PACKET"):
            return open_sniffer(name, capture_filter or expression(ports))
        if capture_filter is not None:
            program = compile_filter(capture_filter, ETHERNET if interface.is_ethernet else RAW_IP, name)
        else:
            program = tcp_program(ports)
        return PacketRing(interface, program, ring_bytes, waits=waits)
    except PermissionError as error:
        message = (
            f"{current_user()} may not capture on {name}, which needs CAP_NET_RAW: run it with sudo,"
            f" or let tcpdump capture: sudo tcpdump -i {name} -U -w - port 6650 | pulsarscope live -i -"
        )
        raise UsageError(message) from error
    except OSError as error:
        if error.errno in NO_RING:
            return open_sniffer(name, capture_filter or expression(ports))
        raise UsageError(f"cannot capture on {name}: {system_reason(error)}") from error


def _awaited(name: str, notify: Callable[[str], object]) -> NetworkInterface:
    """Return the interface as soon as it exists."""
    notified = False
    while True:
        with suppress(OSError):
            return find_interface(name)
        if not notified:
            notify(f"waiting for interface {name}")
        notified = True
        time.sleep(WAIT_SECONDS)
