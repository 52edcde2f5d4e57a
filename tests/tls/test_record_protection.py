"""Keys compared with published test vectors; complete connections are in test_connection."""

from __future__ import annotations

import pytest

from pulsarscope.tls.record_protection import expand_label, key_13, keys_12
from pulsarscope.tls.suites import SUITES
from tests.scenarios.tls import sealing
from tests.scenarios.tls.sealing import Sealer

# RFC 8448 section 3: the server's handshake traffic secret and its keys.
SECRET = bytes.fromhex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38")


def test_labels_expand_as_in_rfc_8448() -> None:
    assert expand_label("sha256", SECRET, b"key", 16).hex() == "3fce516009c21727d0f2e4e86ee403bc"
    assert expand_label("sha256", SECRET, b"iv", 12).hex() == "5d313eb2671276ee13000b30"


@pytest.mark.parametrize("suite", sealing.SUITES)
def test_a_record_opens_with_its_own_number_only(suite: int) -> None:
    sealer = Sealer(sealing.TRAFFIC[0], suite)
    record = [sealer.seal(b"one"), sealer.seal(b"two", padding=9)][1]
    key = key_13(SUITES[suite], sealing.secret_of(sealing.TRAFFIC[0], suite))
    assert key.open(1, record[:5], record[5:]) == (23, b"two")
    assert key.open(0, record[:5], record[5:]) is None
    assert key.open(1, b"\x17\x03\x03\x00\x01", record[5:]) is None
    assert key.open(1, record[:5], record[5:15]) is None
    assert key.overhead == len(record) - 3 - 9


def test_a_record_of_zeros_has_no_content() -> None:
    key = key_13(SUITES[0x1301], sealing.secret_of(sealing.TRAFFIC[0]))
    record = Sealer(sealing.TRAFFIC[0]).seal(b"", kind=0, padding=5)
    assert key.open(0, record[:5], record[5:]) == (0, b"")


@pytest.mark.parametrize("suite", [0xC02B, 0xCCA9, 0xC0AE, 0xC023], ids=["GCM", "ChaCha20", "CCM_8", "CBC"])
@pytest.mark.parametrize("encrypt_then_mac", [False, True])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 15, 16, 24, 31, 32, 48, 64, 80, 200])
def test_bytes_that_nobody_sealed_open_nothing(suite: int, encrypt_then_mac: bool, size: int) -> None:
    client, server = keys_12(SUITES[suite], b"m" * 48, b"c" * 32, b"s" * 32, encrypt_then_mac=encrypt_then_mac)
    for key in (client, server):
        assert key.open(0, b"\x17\x03\x03\0\0", bytes(range(size))) is None
        assert key.updated() is None
