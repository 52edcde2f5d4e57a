from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pulsarscope.tls.certificate import certificate_names
from tests.scenarios.tls.peers import certificate_of

KEY = ec.generate_private_key(ec.SECP256R1())


def der(name: str, *, names: bool) -> bytes:
    return certificate_of(KEY, name, names=names).public_bytes(serialization.Encoding.DER)


def test_the_holder_and_its_names_are_reported() -> None:
    assert certificate_names(der("broker", names=True)) == (
        "CN=broker",
        ["broker.example", "localhost", "127.0.0.1"],
        "2035-12-30T00:00:00Z",
    )
    assert certificate_names(der("b\x1b[31m", names=False)) == ("CN=b\x1b[31m", [], "2035-12-30T00:00:00Z")


@pytest.mark.parametrize("data", [b"", b"junk", der("broker", names=True)[:-9], b"\x30\x82" + bytes(500)])
def test_what_is_none_is_none(data: bytes) -> None:
    assert certificate_names(data) is None


def test_damage_anywhere_is_borne() -> None:
    certificate = der("broker", names=True)
    for position in range(len(certificate)):
        names = certificate_names(certificate[:position] + bytes((certificate[position] ^ 0xFF,)) + certificate[position + 1 :])
        assert names is None or isinstance(names[0], str)


@pytest.mark.parametrize(
    ("certificate", "damaged"),
    [(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07"), (b"\x0c\x06broker", b"\x03\x06broker"), (b"\x87\x04", b"\x87\x05")],
    ids=["version", "kind-of-name", "address"],
)
def test_what_no_certificate_says_is_borne(certificate: bytes, damaged: bytes) -> None:
    good = der("broker", names=True)
    assert certificate in good
    names = certificate_names(good.replace(certificate, damaged))
    assert names is None or names == ("CN=broker", [], "2035-12-30T00:00:00Z")
