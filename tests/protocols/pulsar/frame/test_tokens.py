"""A token in a shared capture shows when the real one expires, and nothing else."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from pulsarscope.protocols.pulsar.frame.tokens import bare_token, expiry


def token(claims: bytes, signature: bytes = b"s" * 43) -> bytes:
    return b".".join((b"eyJhbGciOiJIUzI1NiJ9", urlsafe_b64encode(claims).rstrip(b"="), signature))


@pytest.mark.parametrize("claims", [b'{"sub":"alice","exp":1600000000}', b'{"exp":1600000000.75,"iat":1,"roles":["a","b"]}', b'{"exp":0}'])
def test_only_the_expiry_is_left_in_as_many_bytes(claims: bytes) -> None:
    real = token(claims)
    bare = bare_token(real)
    assert bare is not None
    assert (len(bare), expiry(bare)) == (len(real), expiry(real))
    header, said, signature = bare.split(b".")
    assert urlsafe_b64decode(header + b"==") == b'{"alg":"none"}'
    assert urlsafe_b64decode(said + b"=" * (-len(said) % 4)) == b'{"exp":%d}' % (expiry(real) or 0)
    assert not signature.strip(b"x")


@pytest.mark.parametrize("secret", [b"password", token(b'{"sub":"alice"}'), token(b"no claims"), b"a.eyJleHAiOjF9."])
def test_what_does_not_say_when_it_expires_is_left_to_be_blank(secret: bytes) -> None:
    assert bare_token(secret) is None
