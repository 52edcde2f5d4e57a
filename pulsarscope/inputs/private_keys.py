"""Files with the user's secrets: private keys for end-to-end encrypted payloads (RSA in PEM, PKCS#1 or PKCS#8, or DER), and passwords."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from pulsarscope.inputs.given_files import read_start
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import PRIVATE_KEY_MAX_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


PARSED_KEYS_MAX = 64
"""Maximum number of parsed keys that are cached: each decoder of a process requests them, and OpenSSL examines each for 50 ms."""


class KeyFile(msgspec.Struct, frozen=True):
    """File of a private key, or of a password."""

    name: str
    content: bytes

    def __repr__(self) -> str:
        """Return a representation without the key, so that it is never printed by mistake."""
        return f"KeyFile({self.name!r})"


def read_key_files(paths: Iterable[str], noun: str = "private key") -> tuple[KeyFile, ...]:
    """Read the files, each only once, since they may be pipes. Raises UsageError when a file cannot be read, or is too large for a key."""
    files = []
    for path in map(str, paths):
        content = read_start(path, f"the {noun} {path}", PRIVATE_KEY_MAX_BYTES + 1)
        if len(content) > PRIVATE_KEY_MAX_BYTES:
            raise UsageError(f"the {noun} {path} is too large: it has more than {PRIVATE_KEY_MAX_BYTES:,} bytes")
        files.append(KeyFile(path, content))
    return tuple(files)


def passwords(files: Iterable[KeyFile]) -> tuple[bytes, ...]:
    """Return the passwords in the files, each without its line ending."""
    return tuple(file.content.removesuffix(b"\n").removesuffix(b"\r") for file in files)


def rsa_keys(files: Iterable[KeyFile]) -> tuple[RSAPrivateKey, ...]:
    """Parse the keys in the files. Raises UsageError when a file has no private key, or an encrypted or unsupported one."""
    return tuple(map(_rsa_key, files))


@lru_cache(PARSED_KEYS_MAX)
def _rsa_key(file: KeyFile) -> RSAPrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm  # 60 ms, only when a key is given
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key

    load = load_pem_private_key if b"-----BEGIN" in file.content else load_der_private_key
    try:
        key = load(file.content, None)
    except TypeError:
        reason = f"is protected by a passphrase: give a copy without one (openssl pkey -in {file.name} -out PLAIN.pem)"
        raise _unusable(file.name, reason) from None
    except UnsupportedAlgorithm as error:
        raise _unusable(file.name, f"is not supported: {error}") from None
    except ValueError:
        public = b"PUBLIC KEY-----" in file.content or b"BEGIN CERTIFICATE" in file.content
        reason = "is a public key: only the private key decrypts messages" if public else "is not a private key in PEM or DER"
        raise _unusable(file.name, reason) from None
    if not isinstance(key, RSAPrivateKey):
        kind = type(key).__name__.removesuffix("PrivateKey")
        raise _unusable(file.name, f"is a key of kind {kind}, which is not supported: only RSA keys decrypt messages")
    return key


def _unusable(name: str, reason: str) -> UsageError:
    return UsageError(f"the private key {name} {reason}")
