from __future__ import annotations

import ssl

import pytest

from pulsarscope.tls.suites import SUITES, is_supported

OPENSSL = {cipher["id"] & 0xFFFF: cipher for cipher in ssl.create_default_context().get_ciphers()}


@pytest.mark.parametrize("number", [number for number in SUITES if number in OPENSSL], ids=lambda number: SUITES[number].name)
def test_a_suite_is_what_openssl_says(number: int) -> None:
    suite, cipher = SUITES[number], OPENSSL[number]
    assert cipher["strength_bits"] == suite.key_bytes * 8
    assert cipher["aead"] == (suite.mac is None)
    assert {"GCM": "AESGCM", "CCM": "AESCCM", "CHACHA20": "CHACHA20/POLY1305", "CBC": "AES"}[suite.scheme] in cipher["description"]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0x1305, ("CCM", 16, 8, "sha256", None)),
        (0xC02C, ("GCM", 32, 16, "sha384", None)),
        (0x0035, ("CBC", 32, 20, "sha256", "sha1")),
        (0xC024, ("CBC", 32, 48, "sha384", "sha384")),
        (0xC09D, ("CCM", 32, 16, "sha256", None)),
        (0xCCA8, ("CHACHA20", 32, 16, "sha256", None)),
    ],
)
def test_a_name_says_it_all(number: int, said: tuple[object, ...]) -> None:
    assert SUITES[number][1:] == said


@pytest.mark.parametrize("number", SUITES, ids=lambda number: SUITES[number].name)
def test_1_3_has_suites_of_its_own(number: int) -> None:
    of_1_3 = 0x1301 <= number <= 0x1305
    assert [is_supported(number, version) for version in (0x0302, 0x0303, 0x0304)] == [False, not of_1_3, of_1_3]


def test_no_other_suite_is_opened() -> None:
    assert not any(is_supported(0x000A, version) for version in (0x0303, 0x0304))
