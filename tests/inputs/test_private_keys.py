"""Private keys from files: every common format is read, others are refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.inputs.private_keys import KeyFile, read_key_files, rsa_keys
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import PRIVATE_KEY_MAX_BYTES
from tests.scenarios.encryption import KEY_FORMS, key_file, rsa_key

PEM = key_file(rsa_key())
PKCS8_PEM = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
PASSPHRASE = BestAvailableEncryption(b"secret")

REFUSED = {
    "ec": (ec.generate_private_key(ec.SECP256R1()).private_bytes(*PKCS8_PEM), "is a key of kind EC, which is not supported"),
    "ed25519": (ed25519.Ed25519PrivateKey.generate().private_bytes(*PKCS8_PEM), "is a key of kind Ed25519"),
    "x25519": (x25519.X25519PrivateKey.generate().private_bytes(*PKCS8_PEM), "is a key of kind X25519"),
    "passphrase": (rsa_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, PASSPHRASE), "is protected by a passphrase"),
    "passphrase, PKCS#1": (rsa_key().private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, PASSPHRASE), "by a passphrase"),
    "passphrase, DER": (rsa_key().private_bytes(Encoding.DER, PrivateFormat.PKCS8, PASSPHRASE), "is protected by a passphrase"),
    "public": (rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), "is a public key"),
    "OpenSSH": (rsa_key().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()), "is not a private key"),
    "empty": (b"", "is not a private key in PEM or DER"),
    "text": (b"hello", "is not a private key in PEM or DER"),
    "cut off": (PEM[: len(PEM) // 2], "is not a private key in PEM or DER"),
    "UTF-16": (PEM.decode().encode("utf-16"), "is not a private key in PEM or DER"),
}


@pytest.mark.parametrize("form", KEY_FORMS)
@pytest.mark.parametrize("bits", [1024, 2048, *(pytest.param(bits, marks=pytest.mark.slow) for bits in (3072, 4096))])
def test_rsa_keys_of_all_forms_and_sizes_are_read(form: str, bits: int) -> None:
    key = rsa_key(bits)
    (read,) = rsa_keys([KeyFile("k", key_file(key, form))])
    assert read.private_numbers() == key.private_numbers()


@pytest.mark.parametrize("content", [PEM.replace(b"\n", b"\r\n"), b"Bag Attributes: none\n" + PEM, PEM + b"\n\n"])
def test_what_may_stand_around_a_key_does_not_matter(content: bytes) -> None:
    (read,) = rsa_keys([KeyFile("k", content)])
    assert read.private_numbers() == rsa_key().private_numbers()


@pytest.mark.parametrize("name", REFUSED)
def test_what_opens_nothing_is_refused_in_one_line(name: str) -> None:
    content, why = REFUSED[name]
    with pytest.raises(UsageError) as refused:
        rsa_keys([KeyFile("one.pem", PEM), KeyFile("folder/two.pem", content)])
    text = str(refused.value)
    assert text.startswith("the private key folder/two.pem ")
    assert why in text
    assert "\n" not in text


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_a_key_or_refused(content: bytes, begins: bool) -> None:
    with pytest.raises(UsageError):
        rsa_keys([KeyFile("k", b"-----BEGIN PRIVATE KEY-----\n" + content if begins else content)])


def test_files_are_read_once_each_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.pem"
    path.write_bytes(PEM)
    assert read_key_files([str(path)]) == (KeyFile(str(path), PEM),)
    path.write_bytes(bytes(PRIVATE_KEY_MAX_BYTES + 1))
    for bad, why in (
        (path, "is too large: it has more than 1,048,576 bytes"),
        (tmp_path, "cannot be read"),
        (tmp_path / "x", "cannot be read"),
        ("a\0b", "cannot be read"),
    ):
        with pytest.raises(UsageError, match=why):
            read_key_files([str(bad)])


def test_a_key_that_is_printed_by_mistake_does_not_show() -> None:
    file = KeyFile("a.pem", PEM)
    assert repr(file) == str(file) == "KeyFile('a.pem')"
