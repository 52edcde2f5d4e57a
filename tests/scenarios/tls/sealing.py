"""A TLS writer for what OpenSSL does not do on demand: every suite, padding, key updates, early data, unusual orders."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from tests.scenarios.tls.peers import CLIENT

ALERT, HANDSHAKE, APPLICATION_DATA = 21, 22, 23
CLIENT_RANDOM, SERVER_RANDOM = b"\xc1" * 32, b"\x5e" * 32
RETRY_RANDOM = sha256(b"HelloRetryRequest").digest()
CHANGE_CIPHER_SPEC = bytes.fromhex("140303000101")
FINISHED = bytes((20, 0, 0, 4)) + b"done"
END_OF_EARLY_DATA = bytes((5, 0, 0, 0))
KEY_UPDATE = bytes((24, 0, 0, 1, 0))
TICKET = bytes((4, 0, 0, 6)) + b"ticket"
ENCRYPTED_EXTENSIONS = bytes.fromhex("080000020000")

SUITES: dict[int, tuple[Callable[[bytes], AESGCM | AESCCM | ChaCha20Poly1305], int, hashes.HashAlgorithm]] = {
    0x1301: (AESGCM, 16, hashes.SHA256()),
    0x1302: (AESGCM, 32, hashes.SHA384()),
    0x1303: (ChaCha20Poly1305, 32, hashes.SHA256()),
    0x1304: (AESCCM, 16, hashes.SHA256()),
    0x1305: (lambda key: AESCCM(key, tag_length=8), 16, hashes.SHA256()),
}


def vector(data: bytes, length_bytes: int) -> bytes:
    return len(data).to_bytes(length_bytes, "big") + data


def message(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + vector(body, 3)


def clear(kind: int, content: bytes) -> bytes:
    """Return a cleartext record."""
    return bytes((kind, 3, 3)) + vector(content, 2)


def client_hello(random: bytes = CLIENT_RANDOM, extensions: bytes = b"") -> bytes:
    body = b"\x03\x03" + random + vector(b"s" * 32, 1) + vector(b"\x13\x01", 2) + vector(b"\0", 1) + vector(extensions, 2)
    return message(1, body)


def server_hello(suite: int = 0x1301, random: bytes = SERVER_RANDOM, version: int = 0x0304) -> bytes:
    versions = b"\x00\x2b" + vector(version.to_bytes(2, "big"), 2)
    return message(2, b"\x03\x03" + random + vector(b"s" * 32, 1) + suite.to_bytes(2, "big") + b"\0" + vector(versions, 2))


def secret_of(label: str, suite: int = 0x1301) -> bytes:
    """Return a secret for each label."""
    return (sha256(label.encode()).digest() * 2)[: SUITES[suite][2].digest_size]


def key_log(*labels: str, suite: int = 0x1301, random: bytes = CLIENT_RANDOM) -> bytes:
    return b"".join(f"{label} {random.hex()} {secret_of(label, suite).hex()}\n".encode() for label in labels)


EARLY = "CLIENT_EARLY_TRAFFIC_SECRET"
HANDSHAKES = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")
TRAFFIC = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")


class Sealer:
    """A writer of the TLS 1.3 records of one direction."""

    def __init__(self, label: str, suite: int = 0x1301) -> None:
        self._tag_bytes = 8 if suite == 0x1305 else 16
        self._make, self._key_bytes, self._hash = SUITES[suite]
        self._use(secret_of(label, suite))

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._aead = self._make(self._expand(b"key", self._key_bytes))
        self._iv = int.from_bytes(self._expand(b"iv", 12), "big")
        self._sequence = 0

    def _expand(self, label: bytes, size: int) -> bytes:
        info = size.to_bytes(2, "big") + vector(b"tls13 " + label, 1) + b"\0"
        return HKDFExpand(self._hash, size, info).derive(self._secret)

    def seal(self, content: bytes, kind: int = APPLICATION_DATA, padding: int = 0) -> bytes:
        """Return a protected record."""
        inside = content + bytes((kind,)) + bytes(padding)
        header = b"\x17\x03\x03" + (len(inside) + self._tag_bytes).to_bytes(2, "big")
        nonce = (self._iv ^ self._sequence).to_bytes(12, "big")
        self._sequence += 1
        return header + self._aead.encrypt(nonce, inside, header)

    def update(self) -> bytes:
        """Return a key update, and switch to the new keys."""
        message = self.seal(KEY_UPDATE, HANDSHAKE)
        self._use(self._expand(b"traffic upd", self._hash.digest_size))
        return message


def handshake(suite: int = 0x1301) -> list[tuple[int, bytes]]:
    """Return the flights up to the end of the handshake."""
    client, server = (Sealer(label, suite) for label in HANDSHAKES)
    return [
        (CLIENT, clear(HANDSHAKE, client_hello())),
        (1, clear(HANDSHAKE, server_hello(suite)) + CHANGE_CIPHER_SPEC + server.seal(ENCRYPTED_EXTENSIONS + FINISHED, HANDSHAKE)),
        (CLIENT, CHANGE_CIPHER_SPEC + client.seal(FINISHED, HANDSHAKE)),
    ]


class Sealer12:
    """A writer of the TLS 1.2 records of one direction with AES-128-GCM, with the keys of consecutive handshakes."""

    def __init__(self, side: int) -> None:
        self._side = side
        self._aead: AESGCM | None = None

    def record(self, content: bytes, kind: int = APPLICATION_DATA) -> bytes:
        """Return a record, in cleartext before the first handshake."""
        if self._aead is None:
            return clear(kind, content)
        number = self._sequence.to_bytes(8, "big")
        self._sequence += 1
        sealed = self._aead.encrypt(self._salt + number, content, number + bytes((kind, 3, 3)) + len(content).to_bytes(2, "big"))
        return clear(kind, number + sealed)

    def change(self, master_secret: bytes, client_random: bytes, server_random: bytes) -> bytes:
        """Return a ChangeCipherSpec, and switch to the keys of the handshake."""
        message = self.record(b"\1", 20)
        step = seed = b"key expansion" + server_random + client_random
        block = b""
        while len(block) < 40:
            step = hmac.digest(master_secret, step, "sha256")
            block += hmac.digest(master_secret, step + seed, "sha256")
        self._aead = AESGCM(block[16 * self._side :][:16])
        self._salt = block[32 + 4 * self._side :][:4]
        self._sequence = 0
        return message


def server_hello_12(suite: int = 0xC02F, random: bytes = SERVER_RANDOM) -> bytes:
    return message(2, b"\x03\x03" + random + vector(b"s" * 32, 1) + suite.to_bytes(2, "big") + b"\0" + vector(b"", 2))
