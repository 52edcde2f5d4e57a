"""Private keys that open end-to-end encrypted payloads: RSA, in PEM (PKCS#1 or PKCS#8) or DER."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import PRIVATE_KEY_MAX_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


class KeyFile(msgspec.Struct, frozen=True):
    """A private key as it stands in its file."""

    name: str
    content: bytes

    def __repr__(self) -> str:
        """Without the key: what is printed by mistake must not give it away."""
        return f"KeyFile({self.name!r})"


def read_key_files(paths: Iterable[str]) -> tuple[KeyFile, ...]:
    """The files, each read once: a pipe will do.

    Raises:
        UsageError: one cannot be read, or is too large for a key.
    """
    files = []
    for path in map(str, paths):
        try:
            with Path(path).open("rb") as file:
                content = file.read(PRIVATE_KEY_MAX_BYTES + 1)
        except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
            message = f"the private key {path} cannot be read: {getattr(error, 'strerror', None) or error}"
            raise UsageError(message) from None
        if len(content) > PRIVATE_KEY_MAX_BYTES:
            raise _unusable(path, f"is too large: it has more than {PRIVATE_KEY_MAX_BYTES:,} bytes")
        files.append(KeyFile(path, content))
    return tuple(files)


def rsa_keys(files: Sequence[KeyFile]) -> tuple[RSAPrivateKey, ...]:
    """The keys in these files.

    Raises:
        UsageError: a file holds no private key, one behind a passphrase, or one of another kind.
    """
    if not files:
        return ()
    from cryptography.exceptions import UnsupportedAlgorithm  # 60 ms, only when a key is given
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key

    keys = []
    for file in files:
        load = load_pem_private_key if b"-----BEGIN" in file.content else load_der_private_key
        try:
            key = load(file.content, None)
        except TypeError:
            why = f"is protected by a passphrase: give a copy without one (openssl pkey -in {file.name} -out PLAIN.pem)"
            raise _unusable(file.name, why) from None
        except UnsupportedAlgorithm as error:
            raise _unusable(file.name, f"is not supported: {error}") from None
        except ValueError:
            public = b"PUBLIC KEY-----" in file.content or b"BEGIN CERTIFICATE" in file.content
            why = "is a public key: only the private one opens messages" if public else "is no private key in PEM or DER"
            raise _unusable(file.name, why) from None
        if not isinstance(key, RSAPrivateKey):
            kind = type(key).__name__.removesuffix("PrivateKey")
            raise _unusable(file.name, f"is a key of kind {kind}, which is not supported: only RSA keys open messages")
        keys.append(key)
    return tuple(keys)


def _unusable(name: str, why: str) -> UsageError:
    return UsageError(f"the private key {name} {why}")
