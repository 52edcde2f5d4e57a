"""End-to-end encryption: a payload under AES-GCM, with its nonce and its data key in the metadata.

The data key is present once for each public key of the producer, encrypted with that key (RSA, OAEP with SHA-1). An entry is encrypted as a
whole, after compression; each chunk of a chunked message is encrypted separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pulsarscope.model.limits import DATA_KEYS_FAILED_MAX, DATA_KEYS_MAX
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.entry.compression import Opened
from pulsarscope.protocols.pulsar.text.formatting import clipped

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

TAG_BYTES = 16
"""Bytes that encryption adds to a payload."""

NAMES_MAX = 5
"""Key names in one finding; a message has one or two."""


class Decryption:
    """The decryption of the payloads of one connection. It caches their data keys, also those that no private key opens."""

    def __init__(self, private_keys: Sequence[RSAPrivateKey]) -> None:
        self._private_keys = private_keys
        self._data_keys: dict[bytes, bytes | None] = {}  # by the encrypted key in the metadata; least recently used first
        self._failed = 0

    def open(self, metadata: dict[str, Any], payload: bytes) -> Opened:
        """Return the decrypted payload, or None and the reason."""
        keys = metadata["encryption_keys"]
        key = next((key for pair in keys if (key := self._data_key(pair.get("value", b""))) is not None), None)
        if key is None:
            return Opened(None, ("encrypted-payload", self._closed(len(payload), keys)))
        from cryptography.exceptions import InvalidTag  # 60 ms, only when there is something to open
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return Opened(AESGCM(key).decrypt(metadata.get("encryption_param", b""), payload, None), None)
        except InvalidTag:
            reason = "ciphertext, nonce and tag do not fit together"
        except ValueError as error:  # sizes that AES or GCM do not allow
            reason = str(error)
        text = f"{len(payload):,} bytes do not decrypt, though a private key opens their data key: {reason}"
        return Opened(None, ("decrypt-failed", text))

    def _data_key(self, encrypted: bytes) -> bytes | None:
        if encrypted in self._data_keys:
            key = self._data_keys[encrypted] = self._data_keys.pop(encrypted)
            return key
        fitting = [private for private in self._private_keys if (private.key_size + 7) // 8 == len(encrypted)]
        if not fitting or self._failed >= DATA_KEYS_FAILED_MAX:
            return None
        key = next((key for private in fitting if (key := _decrypted(private, encrypted)) is not None), None)
        self._failed += key is None
        self._data_keys[encrypted] = key
        if len(self._data_keys) > DATA_KEYS_MAX:
            del self._data_keys[next(iter(self._data_keys))]
        return key

    def _closed(self, size: int, keys: Sequence[dict[str, Any]]) -> str:
        names = ", ".join([clipped(pair.get("key", "")) for pair in keys[:NAMES_MAX]])
        more = f" and {len(keys) - NAMES_MAX} more" if len(keys) > NAMES_MAX else ""
        which = "the private key" if len(keys) == 1 else "any of their private keys"
        keys_tried = len(self._private_keys)
        tried = "" if not keys_tried else ", the one given does not" if keys_tried == 1 else f", none of the {keys_tried} given does"
        return f"{plural(size, 'byte')} {'is' if size == 1 else 'are'} encrypted for {names}{more}: {which} opens them{tried}"


def _decrypted(private: RSAPrivateKey, encrypted: bytes) -> bytes | None:
    from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP  # as above
    from cryptography.hazmat.primitives.hashes import SHA1

    try:
        return private.decrypt(encrypted, OAEP(MGF1(SHA1()), SHA1(), None))  # noqa: S303 - it is what all clients use
    except ValueError:
        return None
