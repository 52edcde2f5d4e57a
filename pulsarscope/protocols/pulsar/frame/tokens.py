"""JSON web tokens: when they expire, which is not secret."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime, timezone

from pulsarscope.model.utc import utc_seconds

TOKEN_MAX_BYTES = 16_384
"""Larger than any header or command line that a token fits into."""

YEAR_10000 = 253_402_300_800
"""In seconds since the epoch: dates from there on cannot be written."""

UNSIGNED = urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=")
"""Header of a token without a signature (RFC 7519, 6)."""

_TOKEN = re.compile(rb"[\w-]+\.([\w-]+)\.[\w-]*")
_EXPIRES = re.compile(r"expires (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")


def expiry(token: bytes) -> int | None:
    """Return when a token expires, in seconds since the epoch; None if it is not a token, or does not say."""
    match = _TOKEN.fullmatch(token) if len(token) <= TOKEN_MAX_BYTES else None
    if match is None:
        return None
    from json import loads  # noqa: PLC0415 - most captures hold no token

    try:
        claims = loads(urlsafe_b64decode(match[1] + b"=" * (-len(match[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    seconds = claims.get("exp") if isinstance(claims, dict) else None
    return int(seconds) if isinstance(seconds, int | float) and 0 <= seconds < YEAR_10000 else None


def bare_token(token: bytes) -> bytes | None:
    """Return a token of the same length that only says when this one expires; None if this one does not say, or is too short."""
    seconds = expiry(token)
    if seconds is None:
        return None
    claims = urlsafe_b64encode(b'{"exp":%d}' % seconds).rstrip(b"=")
    bare = b".".join((UNSIGNED, claims, b""))
    return bare.ljust(len(token), b"x") if len(bare) <= len(token) else None


def expiry_text(token: bytes) -> str:
    """Return when a token expires, in words that follow its size; empty if it does not say."""
    seconds = expiry(token)
    return "" if seconds is None else f", expires {datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def shown_expiry(data: object) -> int | None:
    """Return when the token in a field, shown or redacted, expires; None if it does not say."""
    if isinstance(data, bytes):
        return expiry(data)
    match = _EXPIRES.search(data) if isinstance(data, str) else None
    return None if match is None else utc_seconds(match[1])
