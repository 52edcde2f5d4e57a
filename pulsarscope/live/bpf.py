"""Socket filters: classic Berkeley packet filter programs, which the kernel runs on each packet before it is copied.

The default program is built here without a compiler. It addresses the network header directly (SKF_NET_OFF of linux/filter.h), so that
it fits every kind of interface. User expressions are compiled by libpcap, through tcpdump or scapy.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from struct import Struct

from pulsarscope.model.errors import UsageError

Instruction = tuple[int, int, int, int]
"""(code, jump if true, jump if false, operand); a jump is the number of instructions to skip."""

Program = tuple[Instruction, ...]

_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE, _LOAD_HALF_INDEXED = 0x20, 0x28, 0x30, 0x48
_AND, _SHIFT_LEFT, _TO_INDEX, _RETURN = 0x54, 0x64, 0x07, 0x06
_IF_EQUAL, _IF_ANY_BIT = 0x15, 0x45

_PROTOCOL = 0xFFFF_F000
"""SKF_AD_OFF + SKF_AD_PROTOCOL: the ethertype."""
_DIRECTION, _INTERFACE = 0xFFFF_F004, 0xFFFF_F008
"""SKF_AD_OFF + SKF_AD_PKTTYPE and SKF_AD_IFINDEX: direction and interface of a packet."""
_OUTGOING = 4
_NETWORK = 0xFFF0_0000
"""SKF_NET_OFF: the network header."""

_IPV4, _IPV6 = 0x0800, 0x86DD
_TAGS = (0x8100, 0x88A8, 0x8847, 0x8864)
"""VLAN tags, MPLS and PPPoE; their content is left to the decoder."""
_TCP, _UDP, _FRAGMENT = 6, 17, 44
_CARRIERS = (4, 41, 47)
"""IP protocols of tunnels: IPv4, IPv6, GRE."""
_CARRIER_PORTS = (4789, 6081, 8472)
"""UDP ports of tunnels: VXLAN, Geneve, VXLAN of older Linux."""
_EXTENSIONS = (0, 43, 60)
"""IPv6 extension headers before TCP; their content is left to the decoder."""
_IPV6_BYTES = 40

_WHOLE_PACKET = 262_144

PORTS_MAX = 50
"""Most ports in a program: a jump spans at most 255 instructions, and a port takes four."""

_ETHERNET = 1
_TCPDUMP_LINKS: Mapping[int, str] = {_ETHERNET: "EN10MB", 101: "RAW"}
"""Names of the link types of `ring` for tcpdump."""

_COMPILE_SECONDS = 10.0

_VLAN = re.compile(r"\bvlan\b")
"""Use of VLAN tags. The kernel removes them before the filter, and libpcap compiles a test for removed tags only for a live interface."""

_instruction = Struct("=HBBI")


def packed(program: Program) -> bytes:
    """Encode a program as an array of struct sock_filter."""
    return b"".join([_instruction.pack(*instruction) for instruction in program])


_Line = tuple[int, int, str] | str
"""(code, operand, label to jump to if the test holds), or a label; all jumps go forward."""

_DROP: _Line = (_RETURN, 0, "")


def tcp_program(ports: Collection[int]) -> Program:
    """Build a program for TCP from or to the ports (none: any), and for packets that may carry it. Raises UsageError above PORTS_MAX."""
    if len(ports) > PORTS_MAX:
        raise UsageError(f"{len(ports)} ports are more than a filter in the kernel takes ({PORTS_MAX}): use --any-port, or -f with a range")
    return _assemble(
        [
            (_LOAD_WORD, _PROTOCOL, ""),
            (_IF_EQUAL, _IPV4, "ipv4"),
            (_IF_EQUAL, _IPV6, "ipv6"),
            *_any_of(_TAGS),
            _DROP,
            "ipv4",
            (_LOAD_HALF, _NETWORK + 6, ""),
            (_IF_ANY_BIT, 0x1FFF, "accept"),  # a fragment without ports
            (_LOAD_BYTE, _NETWORK, ""),
            (_AND, 0x0F, ""),
            (_SHIFT_LEFT, 2, ""),
            (_TO_INDEX, 0, ""),
            (_LOAD_BYTE, _NETWORK + 9, ""),
            *_by_protocol("in ipv4", ports, _LOAD_HALF_INDEXED, _NETWORK),
            "ipv6",
            (_LOAD_BYTE, _NETWORK + 6, ""),
            *_any_of((*_EXTENSIONS, _FRAGMENT)),
            *_by_protocol("in ipv6", ports, _LOAD_HALF, _NETWORK + _IPV6_BYTES),
            "accept",
            (_RETURN, _WHOLE_PACKET, ""),
        ]
    )


def without_outgoing(program: Program, loopbacks: Collection[int]) -> Program:
    """Extend a program to drop outgoing packets of loopback interfaces, given by index: each of these packets is also incoming."""
    for index in loopbacks:
        program = (
            (_LOAD_WORD, 0, 0, _DIRECTION),
            (_IF_EQUAL, 0, 3, _OUTGOING),
            (_LOAD_WORD, 0, 0, _INTERFACE),
            (_IF_EQUAL, 0, 1, index),
            (_RETURN, 0, 0, 0),
            *program,
        )
    return program


def _any_of(values: Iterable[int]) -> list[_Line]:
    return [(_IF_EQUAL, value, "accept") for value in values]


def _by_protocol(place: str, ports: Collection[int], load: int, header: int) -> list[_Line]:
    """Test the loaded IP protocol, with its ports at `header`, source first."""
    if ports:
        tests = _any_of(sorted(ports))
        return [(_IF_EQUAL, _TCP, place), _DROP, place, (load, header, ""), *tests, (load, header + 2, ""), *tests, _DROP]
    others = _any_of((_TCP, *_CARRIERS))
    return [*others, (_IF_EQUAL, _UDP, place), _DROP, place, (load, header + 2, ""), *_any_of(_CARRIER_PORTS), _DROP]


def _assemble(lines: Sequence[_Line]) -> Program:
    places: dict[str, int] = {}
    instructions: list[tuple[int, int, str]] = []
    for line in lines:
        if isinstance(line, str):
            places[line] = len(instructions)
        else:
            instructions.append(line)
    return tuple((code, places[target] - at - 1 if target else 0, 0, operand) for at, (code, operand, target) in enumerate(instructions))


def compile_filter(expression: str, link_type: int, interface: str) -> Program:
    """Compile an expression of tcpdump's language for an interface.

    Raises:
        UsageError: it is invalid, or nothing can compile it.
        PermissionError: it is about VLANs, and the user may not capture on the interface.
    """
    if tcpdump := shutil.which("tcpdump"):
        return _by_tcpdump(tcpdump, expression, link_type, interface)
    if _VLAN.search(expression):
        raise UsageError("-f with vlan needs tcpdump to compile it: install it, or leave vlan out: without it tagged packets match, too")
    return _by_scapy(expression, link_type)


def _by_tcpdump(tcpdump: str, expression: str, link_type: int, interface: str) -> Program:
    interface_options = ["-i", interface] if link_type == _ETHERNET and _VLAN.search(expression) else []  # needs the capability to capture
    command = [tcpdump, "-ddd", *interface_options, "-y", _TCPDUMP_LINKS[link_type], "--", expression]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)  # noqa: S603 - as found
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"-f cannot be compiled: {error}") from error
    if result.returncode:
        if interface_options and "permi" in result.stderr.lower():  # libpcap queries the interface for its kind of tagging
            raise PermissionError(result.stderr)
        reason = (result.stderr.strip().splitlines() or ["tcpdump does not say why"])[-1].removeprefix("tcpdump: ")
        raise UsageError(f'-f "{expression}" is not a valid packet filter: {reason}')
    rows = (map(int, line.split()) for line in result.stdout.splitlines()[1:])
    return tuple((code, true, false, operand) for code, true, false, operand in rows)


def _by_scapy(expression: str, link_type: int) -> Program:
    try:
        from scapy.arch.common import compile_filter
        from scapy.error import Scapy_Exception

        try:
            program = compile_filter(expression, linktype=link_type)
        except Scapy_Exception as error:
            raise UsageError(f'-f "{expression}" is not a valid packet filter: {error}') from error
    except (ImportError, OSError) as error:
        message = "-f needs libpcap to compile the filter: install tcpdump, or libpcap and scapy; without -f none is needed"
        raise UsageError(message) from error
    return tuple(
        (instruction.code, instruction.jt, instruction.jf, instruction.k)
        for instruction in (program.bf_insns[index] for index in range(program.bf_len))
    )
