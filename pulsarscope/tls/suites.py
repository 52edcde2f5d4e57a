"""Supported cipher suites by their numbers (IANA TLS Cipher Suites)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pulsarscope.tls.handshake import TLS_1_2, TLS_1_3

_SUITES_OF_1_3 = 0x13
"""First byte of the numbers of TLS 1.3 suites."""

Scheme = Literal["GCM", "CCM", "CHACHA20", "CBC"]


class Suite(NamedTuple):
    """Parameters of a cipher suite for the decryption of records."""

    name: str
    scheme: Scheme
    key_bytes: int
    tag_bytes: int
    """Size of the AEAD tag, or of the MAC with CBC, bytes."""
    hash: str
    """Hash function of the key schedule, by its name in hashlib."""
    mac: str | None
    """Hash function of the CBC MAC, by its name in hashlib."""


_MAC_BYTES = {"sha1": 20, "sha256": 32, "sha384": 48}

_NAMES = {
    0x1301: "TLS_AES_128_GCM_SHA256",
    0x1302: "TLS_AES_256_GCM_SHA384",
    0x1303: "TLS_CHACHA20_POLY1305_SHA256",
    0x1304: "TLS_AES_128_CCM_SHA256",
    0x1305: "TLS_AES_128_CCM_8_SHA256",
    0x002F: "TLS_RSA_WITH_AES_128_CBC_SHA",
    0x0033: "TLS_DHE_RSA_WITH_AES_128_CBC_SHA",
    0x0035: "TLS_RSA_WITH_AES_256_CBC_SHA",
    0x0039: "TLS_DHE_RSA_WITH_AES_256_CBC_SHA",
    0x003C: "TLS_RSA_WITH_AES_128_CBC_SHA256",
    0x003D: "TLS_RSA_WITH_AES_256_CBC_SHA256",
    0x0067: "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256",
    0x006B: "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256",
    0x009C: "TLS_RSA_WITH_AES_128_GCM_SHA256",
    0x009D: "TLS_RSA_WITH_AES_256_GCM_SHA384",
    0x009E: "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
    0x009F: "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384",
    0xC009: "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    0xC00A: "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    0xC013: "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    0xC014: "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    0xC023: "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    0xC024: "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
    0xC027: "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    0xC028: "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
    0xC02B: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    0xC02C: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    0xC02F: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    0xC030: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    0xC09C: "TLS_RSA_WITH_AES_128_CCM",
    0xC09D: "TLS_RSA_WITH_AES_256_CCM",
    0xC09E: "TLS_DHE_RSA_WITH_AES_128_CCM",
    0xC09F: "TLS_DHE_RSA_WITH_AES_256_CCM",
    0xC0A0: "TLS_RSA_WITH_AES_128_CCM_8",
    0xC0A1: "TLS_RSA_WITH_AES_256_CCM_8",
    0xC0A2: "TLS_DHE_RSA_WITH_AES_128_CCM_8",
    0xC0A3: "TLS_DHE_RSA_WITH_AES_256_CCM_8",
    0xC0AC: "TLS_ECDHE_ECDSA_WITH_AES_128_CCM",
    0xC0AD: "TLS_ECDHE_ECDSA_WITH_AES_256_CCM",
    0xC0AE: "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8",
    0xC0AF: "TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8",
    0xCCA8: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    0xCCA9: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    0xCCAA: "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}


def _suite(name: str) -> Suite:
    key_bytes = 16 if "AES_128" in name else 32
    digest = "sha384" if name.endswith("SHA384") else "sha256"
    if "CBC" in name:
        mac = "sha1" if name.endswith("SHA") else digest
        return Suite(name, "CBC", key_bytes, _MAC_BYTES[mac], digest, mac)
    scheme: Scheme = "CHACHA20" if "CHACHA20" in name else "GCM" if "GCM" in name else "CCM"
    return Suite(name, scheme, key_bytes, 8 if "CCM_8" in name else 16, digest, None)


SUITES = {number: _suite(name) for number, name in _NAMES.items()}


def is_supported(number: int, version: int) -> bool:
    """Return True when a suite is supported in a TLS version; 1.3 has its own suites (RFC 8446 appendix B.4)."""
    return number in SUITES and version == (TLS_1_3 if number >> 8 == _SUITES_OF_1_3 else TLS_1_2)
