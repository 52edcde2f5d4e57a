"""Live packets from the kernel's ring buffer: AF_PACKET with TPACKET_V3 (linux/if_packet.h, packet_mmap.rst).

The kernel fills blocks of many packets. Each block is converted to pcapng blocks, which are written to files and decoded like a capture.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import select
import socket
import threading
import time
from struct import Struct

from pulsarscope.live.bpf import Program, packed, without_outgoing
from pulsarscope.live.interfaces import NetworkInterface, all_interfaces
from pulsarscope.live.packet_source import CapturedPackets
from pulsarscope.model.limits import PCAPNG_INTERFACES_MAX
from pulsarscope.model.live_limits import LIVE_RING_BLOCK_BYTES
from pulsarscope.model.platform import load_native

ETHERNET, COOKED = 1, 276
"""Link types of a ring: Ethernet; Linux cooked v2 for interfaces without an Ethernet header, and for several interfaces together."""

_SOL_PACKET = 263
_PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION, _PACKET_IGNORE_OUTGOING = 5, 6, 10, 23
_TPACKET_V3 = 2
_ALL_PROTOCOLS = 3
_SO_ATTACH_FILTER = 26

_FRAME_BYTES = 2_048
"""Frame size, which TPACKET_V3 checks but does not use."""
_COUNT_MAX = 0xFFFF_FFFF
_RETIRE_MILLISECONDS = 100
"""Time after which the kernel releases a block that is not full: the delay on a quiet interface."""

_STATUS_KERNEL, _STATUS_USER = 0, 1
_STATUS_AT = 8
_WORD_BYTES = 4
_VLAN_VALID = 0x10
_TAG_AT = 32
"""Offset of the VLAN tag and its protocol in struct tpacket3_hdr."""
_ADDRESS_AT = 48
"""Offset of struct sockaddr_ll, aligned after struct tpacket3_hdr."""

_GET_FLAGS, _UP = 0x8913, 1
"""SIOCGIFFLAGS (linux/sockios.h) and IFF_UP (linux/if.h)."""

_interface_request = Struct("=16sH22x").pack
_interface_flags = Struct("=16sH22x").unpack
_ring_request = Struct("=IIIIIII").pack
_int = Struct("=i").pack
_link_address = Struct("=HHiHBB8x").pack
_statistics = Struct("=III")
_block_status = Struct("=IIII").unpack_from
_packet_head = Struct("=IIIIIIH").unpack_from
_packet_tag = Struct("=IH").unpack_from
_socket_address = Struct("=H2siHBB8s").unpack_from
_enhanced_packet = Struct("<IIIIIII").pack
_length = Struct("<I").pack
_cooked = Struct(">2sHIHBB8s").pack
_tag = Struct(">HH").pack
_COOKED_BYTES, _TAG_BYTES, _VLAN, _PACKET_BLOCK_BYTES = 20, 4, 0x8100, 32


def _ending(captured: int) -> tuple[int, bytes]:
    padding = -captured & 3
    size = captured + padding + _PACKET_BLOCK_BYTES
    return size, bytes(padding) + _length(size)


class PacketRing:
    """A packet source on the ring of one or all interfaces (see `PacketSource`)."""

    reports_drops = True
    forks = True

    def __init__(self, interface: NetworkInterface, program: Program, ring_bytes: int, *, waits: bool = False) -> None:
        """Start capturing into a ring of `ring_bytes`. Raises PermissionError without CAP_NET_RAW, OSError without the interface.

        Wait for an interface that is down. With `waits`, also wait for one that is gone, until an interface of its name exists.
        """
        self.down = False
        self._waits = waits
        self._index = interface.index
        self.link_type = ETHERNET if interface.is_ethernet else COOKED
        self.received = 0
        """Packets that passed the filter, including dropped ones."""
        self.dropped = 0
        """Packets dropped because the ring was full."""
        self.name = interface.name
        others = [] if interface.index else all_interfaces()[: PCAPNG_INTERFACES_MAX - 1]
        self.interfaces = (interface.name, *(each.name for each in others))
        self._numbers = {each.index: number for number, each in enumerate(others, 1)}
        """Positions of interfaces in `interfaces`, by index; an interface that appears later has the position of the source."""
        self._interface = interface
        self._blocks = max(ring_bytes // LIVE_RING_BLOCK_BYTES, 2)
        self._next = 0
        self._error = 0
        """Error number of the interface."""
        self._endings: dict[int, tuple[int, bytes]] = {}
        """By length of a packet: the size of its pcapng block, and the bytes after the packet in the block."""
        native, _ = load_native()
        self._compiled = native and native.ring_packets
        """Function that converts plain packets, or None."""
        self._counting = threading.Lock()
        if not interface.index:  # PACKET_IGNORE_OUTGOING would apply to all interfaces
            program = without_outgoing(program, [each_interface.index for each_interface in all_interfaces() if each_interface.is_loopback])
        # With protocol 0, no packets arrive until the filter is attached.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW if interface.is_ethernet else socket.SOCK_DGRAM, 0)
        try:
            self._open(program)
        except BaseException:
            self._socket.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN | select.POLLERR)

    def _open(self, program: Program) -> None:
        self._attach(program)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _int(_TPACKET_V3))
        size = LIVE_RING_BLOCK_BYTES * self._blocks
        if size // _FRAME_BYTES > _COUNT_MAX:
            self._raise(errno.ENOMEM)
        request = _ring_request(LIVE_RING_BLOCK_BYTES, self._blocks, _FRAME_BYTES, size // _FRAME_BYTES, _RETIRE_MILLISECONDS, 0, 0)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
        if self._interface.is_loopback:
            self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, _int(1))  # on a loopback interface, each packet is also incoming
        self._ring = mmap.mmap(self._socket.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self._words = memoryview(self._ring).cast("I")
        self._bind()

    def _bind(self) -> None:
        address = _link_address(socket.AF_PACKET, socket.htons(_ALL_PROTOCOLS), self._index, 0, 0, 0)
        if ctypes.CDLL(None, use_errno=True).bind(self._socket.fileno(), address, len(address)):  # socket.bind has no "all interfaces"
            self._raise(ctypes.get_errno())

    def _attach(self, program: Program) -> None:
        code = ctypes.create_string_buffer(packed(program))
        attached = Struct("@HP").pack(len(program), ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)

    def read(self, seconds: float, packets_max: int | None = None) -> CapturedPackets | None:
        """Return the packets of the next block, see `PacketSource`."""
        block_start = self._next * LIVE_RING_BLOCK_BYTES
        if not self._is_ready(block_start):
            if self.down and not self._is_up_again():
                time.sleep(seconds)
                return None
            self._raise(self._error)
            ready = self._poll.poll(seconds * 1_000)
            if not self._is_ready(block_start):
                if not any(event & select.POLLERR for _, event in ready):
                    return None
                self._error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # reading the error clears it
                self._poll.poll(2 * _RETIRE_MILLISECONDS)  # the last packets are in a block that has not been released yet
                if not self._is_ready(block_start):
                    if self._error == errno.ENETDOWN:
                        self.down, self._error = True, 0
                    self._raise(self._error)
                    return None
                self.down = self._error == errno.ENETDOWN
                self._error = 0 if self.down else self._error
        captured = self._captured(block_start, packets_max)
        # Store the whole word at once: struct clears the word before it packs, and a block that the kernel fills in between would be lost.
        self._words[(block_start + _STATUS_AT) // _WORD_BYTES] = _STATUS_KERNEL
        self._next = (self._next + 1) % self._blocks
        return captured

    def _is_up_again(self) -> bool:
        """Return True once the interface is up. Raises OSError when it is gone and the source does not wait for it."""
        try:
            index = socket.if_nametoindex(self.name)
            request = fcntl.ioctl(self._socket, _GET_FLAGS, _interface_request(self.name.encode(), 0))
        except OSError:
            if not self._waits:
                raise
            return False
        if not _interface_flags(request)[1] & _UP:
            return False
        if index != self._index:  # another interface of the same name; binding needs no privilege
            self._index = index
            self._bind()
        self.down = False
        return True

    def _is_ready(self, block: int) -> bool:
        return bool(self._words[(block + _STATUS_AT) // _WORD_BYTES] & _STATUS_USER)

    def _captured(self, block: int, packets_max: int | None) -> CapturedPackets:
        """Convert a block. For each packet, header, data, and padding with the length are collected; all are joined once."""
        # Hot loop: hundreds of thousands of small packets may come each second.
        ring, cooked, endings, head, packet_head = self._ring, self.link_type == COOKED, self._endings, _enhanced_packet, _packet_head
        _, count, first, used = _block_status(ring, block + _STATUS_AT)
        packets = count if packets_max is None else min(count, packets_max)
        if self._compiled is not None and not cooked and (made := self._compiled(ring[block : block + used], first, packets)) is not None:
            return CapturedPackets(made[0], packets, made[1])
        position = block + first
        pieces: list[bytes] = []
        last_time = number = 0
        for _ in range(packets):
            following, seconds, fraction, captured, wire_bytes, status, start = packet_head(ring, position)
            last_time = seconds * 1_000_000_000 + fraction
            start += position
            data = ring[start : start + captured]
            if cooked:
                _, ethertype, index, hardware, kind, length, address = _socket_address(ring, position + _ADDRESS_AT)
                number = self._numbers.get(index, 0)
                data = _cooked(ethertype, 0, index, hardware, kind, length, address) + data
                captured, wire_bytes = captured + _COOKED_BYTES, wire_bytes + _COOKED_BYTES
            elif status & _VLAN_VALID:  # the interface has removed the tag
                tag, protocol = _packet_tag(ring, position + _TAG_AT)
                data = data[:12] + _tag(protocol or _VLAN, tag) + data[12:]
                captured, wire_bytes = captured + _TAG_BYTES, wire_bytes + _TAG_BYTES
            if (ending := endings.get(captured)) is None:
                ending = endings[captured] = _ending(captured)
            size, tail = ending
            pieces += head(6, size, number, last_time >> 32, last_time & 0xFFFF_FFFF, captured, wire_bytes), data, tail
            position += following
        return CapturedPackets(b"".join(pieces), packets, last_time)

    def count(self) -> None:
        """Add the kernel's counts; reading resets them."""
        with self._counting:
            received, dropped, _ = _statistics.unpack(self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _statistics.size))
            self.received += received
            self.dropped += dropped

    def fullness(self) -> float:
        """Return the used fraction of the ring, 0 to 1."""
        return sum(self._is_ready(number * LIVE_RING_BLOCK_BYTES) for number in range(self._blocks)) / self._blocks

    def close(self) -> None:
        """Stop capturing."""
        self._words.release()
        self._ring.close()
        self._socket.close()

    def _raise(self, error: int) -> None:
        if error:
            raise OSError(error, os.strerror(error))
