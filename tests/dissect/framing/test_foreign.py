"""Bytes at the start of a stream that are not the protocol itself."""

from __future__ import annotations

import struct
from ipaddress import IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.dissect.framing.foreign import (
    FOREIGN_HEAD_BYTES,
    PROXY_V1_MAX_BYTES,
    ProxyHeader,
    foreign_name,
    masked_proxy_header,
    proxy_header,
)
from pulsarscope.model.masked_names import MaskedNames

V2 = b"\r\n\r\n\x00\r\nQUIT\n"


def v2(family: int, addresses: bytes, extra: bytes = b"", command: int = 0x21) -> bytes:
    return V2 + struct.pack(">BBH", command, family, len(addresses) + len(extra)) + addresses + extra


IPV4 = bytes([192, 0, 2, 1, 198, 51, 100, 2]) + struct.pack(">HH", 56324, 6650)
IPV6 = IPv6Address("2001:db8::1").packed + IPv6Address("2001:db8::2").packed + struct.pack(">HH", 56324, 6650)

HEADERS = {
    "v1 TCP4": (b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 6650\r\n", "192.0.2.1:56324"),
    "v1 TCP6": (b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 6650\r\n", "[2001:db8::1]:56324"),
    "v1 unknown": (b"PROXY UNKNOWN\r\n", None),
    "v1 unknown with addresses": (b"PROXY UNKNOWN a b c d e\r\n", None),
    "v1 longest": (b"PROXY UNKNOWN " + b"f" * (PROXY_V1_MAX_BYTES - 16) + b"\r\n", None),
    "v2 TCP4": (v2(0x11, IPV4), "192.0.2.1:56324"),
    "v2 TCP6": (v2(0x21, IPV6), "[2001:db8::1]:56324"),
    "v2 with more behind the addresses": (v2(0x11, IPV4, b"\x03\x00\x04abcd"), "192.0.2.1:56324"),
    "v2 local": (v2(0x00, b"", command=0x20), None),
    "v2 of another family": (v2(0x31, bytes(216)), None),
    "v2 whose addresses are cut": (v2(0x11, IPV4[:7]), None),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_measured_and_its_source_read(name: str) -> None:
    header, source = HEADERS[name]
    for behind in (b"", b"\x00", b"\x00\x00\x00\x09 and more", b"\r\n"):
        assert proxy_header(header + behind) == ProxyHeader(len(header), source)


@pytest.mark.parametrize("name", HEADERS)
def test_as_long_as_it_is_not_all_there_more_is_needed(name: str) -> None:
    header, _ = HEADERS[name]
    for end in range(len(header)):
        assert proxy_header(header[:end]) == ProxyHeader(0, None), end


@pytest.mark.parametrize(
    "head",
    [
        b"PROXX TCP4",
        b"proxy TCP4",
        b"\x00\x00\x00\x09",
        b"\r\n\r\n\x00\r\nQUIX",
        b"\r\n\r\nabc",
        b"GET / HTTP/1.1",
        b"PROXY " + b"x" * PROXY_V1_MAX_BYTES,
    ],
)
def test_anything_else_is_none(head: bytes) -> None:
    assert proxy_header(head) is None


def test_a_line_longer_than_a_header_can_be_is_none() -> None:
    line = b"PROXY " + b"x" * (PROXY_V1_MAX_BYTES - 7)
    assert proxy_header(line + b"\r\n") is None
    assert proxy_header(line[:-1] + b"\r\n") == ProxyHeader(PROXY_V1_MAX_BYTES, None)


def test_addresses_are_taken_as_text_whatever_they_are() -> None:
    line = b"PROXY TCP4 \xff\x1b[2J b 1 2\r\n"
    assert proxy_header(line) == ProxyHeader(len(line), "\\xff\x1b[2J:1")


@pytest.mark.slow
@given(st.sampled_from([b"", b"PROXY ", V2]), st.binary(max_size=300))
@settings(max_examples=200)
def test_any_bytes_give_an_answer(start: bytes, rest: bytes) -> None:
    found = proxy_header(start + rest)
    assert found is None or 0 <= found.size <= len(start + rest)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00", "TLS"),
        (b"\x16\x03\x03\x00\xa5\x02\x00\x00", "TLS"),
        (b"\x16\x03\x04", "TLS"),
        (b"\x16\x03\x05\x00\x00", None),
        (b"\x16\x02\x00\x00\x00", None),
        (b"\x16\x03", None),
        (b"GET / HTTP", "HTTP"),
        (b"POST /x ", "HTTP"),
        (b"HTTP/1.1 ", "HTTP"),
        (b"CONNECT ", "HTTP"),
        (b"PRI * HT", "HTTP"),
        (b"GETX", None),
        (b"SSH-2.0-OpenSSH", "SSH"),
        (b"SSH", None),
        (b"\x00\x00\x00\x1a\x00\x00\x00\x16", None),
        (b"", None),
    ],
)
def test_a_protocol_is_named_by_its_first_bytes(head: bytes, name: str | None) -> None:
    assert foreign_name(head) == name
    assert foreign_name(head[:FOREIGN_HEAD_BYTES]) == name


MASKS = MaskedNames(b"k" * 32)


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 10.1.2.3 192.168.7.8 51000 6650\r\n",
        b"PROXY TCP6 2001:db8::17 fd00:1::2 51000 6650\r\n",
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes([10, 1, 2, 3, 192, 168, 7, 8]) + b"\xc7\x38\x19\xfa",
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x14" + bytes([10, 1, 2, 3, 192, 168, 7, 8]) + b"\xc7\x38\x19\xfa" + b"\x02\x00\x05acme!",
    ],
)
def test_a_masked_header_has_the_same_size_and_ports_and_other_addresses(header: bytes) -> None:
    masked = masked_proxy_header(header + b"rest", MASKS)
    before, after = proxy_header(header), proxy_header(masked)
    assert before is not None
    assert after is not None
    assert (after.size, len(masked)) == (before.size, len(header))
    assert str(after.source).rpartition(":")[2] == str(before.source).rpartition(":")[2]
    assert after.source != before.source
    assert b"acme" not in masked
    assert b"10.1.2.3" not in masked
    assert bytes([10, 1, 2, 3]) not in masked


@pytest.mark.parametrize(
    "head",
    [b"GET / HTTP/1.1\r\n", b"PROXY acme 1.2.3.4 5.6.7.8 1 2\r\n", b"PROXY TCP4 a b acme 2\r\n", b"PROXY UNKNOWN\r\n", b"PROXY TCP4 1.2"],
)
def test_what_is_no_whole_known_header_is_not_kept(head: bytes) -> None:
    assert masked_proxy_header(head, MASKS) == b""
