from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pulsarscope.tls.certificate import holder
from tests.tls.peers import certificate_of

KEY = ec.generate_private_key(ec.SECP256R1())


def der(name: str, *, names: bool) -> bytes:
    return certificate_of(KEY, name, names=names).public_bytes(serialization.Encoding.DER)


def test_the_holder_and_its_names_are_told() -> None:
    assert holder(der("broker", names=True)) == ("CN=broker", ["broker.example", "localhost", "127.0.0.1"])
    assert holder(der("b\x1b[31m", names=False)) == ("CN=b\x1b[31m", [])


@pytest.mark.parametrize("data", [b"", b"junk", der("broker", names=True)[:-9], b"\x30\x82" + bytes(500)])
def test_what_is_none_is_none(data: bytes) -> None:
    assert holder(data) is None


def test_damage_anywhere_is_borne() -> None:
    whole = der("broker", names=True)
    for position in range(len(whole)):
        found = holder(whole[:position] + bytes((whole[position] ^ 0xFF,)) + whole[position + 1 :])
        assert found is None or isinstance(found[0], str)
