"""End-to-end encryption as in clients, written from the specifications: RFC 8017 for the data key, SP 800-38D for the payload."""

from __future__ import annotations

import hashlib
from functools import cache
from random import Random
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

DIGEST_BYTES = 20
"""Size of a SHA-1 digest."""

KEY_FORMS = {
    "pkcs1-pem": (Encoding.PEM, PrivateFormat.TraditionalOpenSSL),
    "pkcs8-pem": (Encoding.PEM, PrivateFormat.PKCS8),
    "pkcs1-der": (Encoding.DER, PrivateFormat.TraditionalOpenSSL),
    "pkcs8-der": (Encoding.DER, PrivateFormat.PKCS8),
}
"""Forms in which a file can contain a private key."""


@cache
def rsa_key(bits: int = 1024, number: int = 0) -> RSAPrivateKey:
    """A throw-away key, different for each number."""
    del number
    return generate_private_key(65_537, bits)


def key_file(key: RSAPrivateKey, form: str = "pkcs8-pem") -> bytes:
    """The content of a file with the key in this form."""
    encoding, layout = KEY_FORMS[form]
    return key.private_bytes(encoding, layout, NoEncryption())


def wrap(data_key: bytes, public: RSAPublicKey, random: Random) -> bytes:
    """RSAES-OAEP (RFC 8017, 7.1.1) with SHA-1, MGF1 of SHA-1 and an empty label."""
    size = (public.key_size + 7) // 8
    padding = bytes(size - len(data_key) - 2 * DIGEST_BYTES - 2)
    block = hashlib.sha1(b"").digest() + padding + b"\x01" + data_key  # noqa: S324 - as the clients
    seed = random.randbytes(DIGEST_BYTES)
    masked_block = _xor(block, _mask(seed, len(block)))
    masked_seed = _xor(seed, _mask(masked_block, DIGEST_BYTES))
    numbers = public.public_numbers()
    number = int.from_bytes(b"\x00" + masked_seed + masked_block, "big")
    return pow(number, numbers.e, numbers.n).to_bytes(size, "big")


class Encrypted(NamedTuple):
    """An encrypted payload and its metadata, as on the wire."""

    payload: bytes
    metadata: dict[str, Any]


class Encryptor:
    """The encryption of a producer: one data key for all messages, a new nonce for each."""

    def __init__(self, keys: dict[str, RSAPublicKey], seed: int = 0, data_key_bytes: int = 32) -> None:
        self._random = Random(seed)  # noqa: S311 - equal calls give equal bytes
        self._data_key = self._random.randbytes(data_key_bytes)
        self._keys = [{"key": name, "value": wrap(self._data_key, public, self._random)} for name, public in keys.items()]

    def encrypt(self, payload: bytes) -> Encrypted:
        """AES-GCM without additional data; the tag of 16 bytes follows the ciphertext."""
        nonce = self._random.randbytes(12)
        cipher = Cipher(AES(self._data_key), GCM(nonce)).encryptor()
        ciphertext = cipher.update(payload) + cipher.finalize()
        return Encrypted(ciphertext + cipher.tag, {"encryption_keys": self._keys, "encryption_param": nonce})


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1 (RFC 8017, B.2.1) with SHA-1."""
    blocks = [hashlib.sha1(seed + count.to_bytes(4, "big")).digest() for count in range(-(-size // DIGEST_BYTES))]  # noqa: S324
    return b"".join(blocks)[:size]
