"""Packet filters: the default program, run by an interpreter of classic BPF, and programs of libpcap."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.live.bpf import PORTS_MAX, Program, compile_filter, packed, tcp_program
from pulsarscope.model.errors import UsageError
from tests.scenarios.loopback import needs_capturing

IPV4, IPV6, ARP, VLAN, MPLS = 0x0800, 0x86DD, 0x0806, 0x8100, 0x8847
ICMP, IP_IN_IP, TCP, UDP, GRE = 1, 4, 6, 17, 47


def accepts(program: Program, protocol: int, network: bytes) -> bool:
    """Run a program as specified in the kernel's filter.rst, on a packet with this ethertype and network-layer bytes."""
    accumulator = index = at = 0
    while True:
        code, true, false, operand = program[at]
        at += 1
        if code == 0x06:
            return operand > 0
        if code in {0x20, 0x28, 0x30, 0x48}:
            if operand == 0xFFFF_F000:
                accumulator = protocol
                continue
            size = {0x20: 4, 0x28: 2, 0x30: 1, 0x48: 2}[code]
            place = operand - 0xFFF0_0000 + (index if code == 0x48 else 0)
            if place + size > len(network):
                return False
            accumulator = int.from_bytes(network[place : place + size], "big")
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x64:
            accumulator <<= operand
        elif code == 0x07:
            index = accumulator
        elif code == 0x15:
            at += true if accumulator == operand else false
        elif code == 0x45:
            at += true if accumulator & operand else false
        else:
            raise AssertionError(hex(code))


def ipv4(protocol: int, ports: tuple[int, int] = (0, 0), *, options: int = 0, fragment: int = 0) -> bytes:
    head = struct.pack(">BBHHHBBH8x", 0x45 + options, 0, 0, 0, fragment, 64, protocol, 0)
    return head + bytes(4 * options) + struct.pack(">HH16x", *ports)


def ipv6(following: int, ports: tuple[int, int] = (0, 0)) -> bytes:
    return struct.pack(">IHBB32x", 6 << 28, 20, following, 64) + struct.pack(">HH16x", *ports)


CASES = {
    "to the port": (IPV4, ipv4(TCP, (50_000, 6650)), True, True),
    "from the port": (IPV4, ipv4(TCP, (6651, 50_000)), True, True),
    "other ports": (IPV4, ipv4(TCP, (50_000, 80)), False, True),
    "options before the ports": (IPV4, ipv4(TCP, (50_000, 6650), options=10), True, True),
    "a first fragment": (IPV4, ipv4(TCP, (50_000, 6650), fragment=0x2000), True, True),
    "a later fragment": (IPV4, ipv4(TCP, (1, 2), fragment=0x2001), True, True),
    "UDP on the port": (IPV4, ipv4(UDP, (50_000, 6650)), False, False),
    "ICMP": (IPV4, ipv4(ICMP), False, False),
    "VXLAN": (IPV4, ipv4(UDP, (50_000, 4789)), False, True),
    "GRE": (IPV4, ipv4(GRE), False, True),
    "IP in IP": (IPV4, ipv4(IP_IN_IP), False, True),
    "version 6": (IPV6, ipv6(TCP, (50_000, 6650)), True, True),
    "version 6, other ports": (IPV6, ipv6(TCP, (50_000, 80)), False, True),
    "version 6, Geneve": (IPV6, ipv6(UDP, (50_000, 6081)), False, True),
    "version 6, a fragment": (IPV6, ipv6(44), True, True),
    "version 6, an extension": (IPV6, ipv6(0), True, True),
    "version 6, ICMP": (IPV6, ipv6(58), False, False),
    "a tag": (VLAN, b"", True, True),
    "labels": (MPLS, b"", True, True),
    "ARP": (ARP, bytes(28), False, False),
    "a header that is cut": (IPV4, ipv4(TCP)[:18], False, True),
}


@pytest.mark.parametrize(("protocol", "network", "on_ports", "anywhere"), CASES.values(), ids=CASES)
def test_the_usual_program_lets_through(protocol: int, network: bytes, on_ports: bool, anywhere: bool) -> None:
    assert accepts(tcp_program({6650, 6651}), protocol, network) == on_ports
    assert accepts(tcp_program(()), protocol, network) == anywhere


@given(st.sets(st.integers(1, 65_535), min_size=1, max_size=PORTS_MAX), st.data())
def test_any_of_the_ports_is_enough(ports: set[int], data: st.DataObject) -> None:
    program = tcp_program(ports)
    pair = (data.draw(st.integers(1, 65_535)), data.draw(st.sampled_from(sorted(ports)) | st.integers(1, 65_535)))
    accepted = not ports.isdisjoint(pair)
    for protocol, network in ((IPV4, ipv4(TCP, pair)), (IPV4, ipv4(TCP, pair[::-1], options=3)), (IPV6, ipv6(TCP, pair))):
        assert accepts(program, protocol, network) == accepted


def test_its_jumps_fit_into_their_bytes() -> None:
    program = tcp_program(range(1, PORTS_MAX + 1))
    assert len(packed(program)) == 8 * len(program)
    assert max(true for _, true, _, _ in program) < 256


def test_more_ports_than_jumps_reach_are_refused() -> None:
    with pytest.raises(UsageError, match="--any-port"):
        tcp_program(range(1, PORTS_MAX + 2))


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is not installed")
def test_what_a_user_writes_is_compiled() -> None:
    program = compile_filter("tcp port 6650", 101, "any")
    assert program[-1][0] == 0x06
    with pytest.raises(UsageError, match="not a valid packet filter"):
        compile_filter("tcp prt 6650", 1, "lo")


@needs_capturing
@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is not installed")
def test_tags_that_the_kernel_has_taken_off_are_asked_after() -> None:
    has_tag = (0x30, 0, 0, 0xFFFF_F000 + 48)  # SKF_AD_VLAN_TAG_PRESENT
    assert has_tag in compile_filter("vlan and tcp port 6650", 1, "lo")
    with pytest.raises(UsageError, match="no VLAN support"):
        compile_filter("vlan", 101, "any")


@pytest.mark.parametrize("said", ["You don't have permission to perform this capture on that device", "socket: Operation not permitted"])
def test_a_vlan_filter_without_the_right_to_capture_lacks_that_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str) -> None:
    tcpdump = tmp_path / "tcpdump"
    tcpdump.write_text(f'#!/bin/sh\necho "tcpdump: eth0: {said}" >&2\nexit 1\n')
    tcpdump.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _name: str(tcpdump))
    with pytest.raises(PermissionError):
        compile_filter("vlan and tcp", 1, "eth0")
    with pytest.raises(UsageError, match="not a valid packet filter"):
        compile_filter("tcp prt 1", 1, "eth0")


def test_without_libpcap_there_is_one_line_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setitem(__import__("sys").modules, "scapy.arch.common", None)
    with pytest.raises(UsageError, match="install tcpdump"):
        compile_filter("tcp", 1, "lo")
    with pytest.raises(UsageError, match="leave vlan out"):
        compile_filter("vlan and tcp", 1, "lo")
