"""Fields that hold credentials: they are only shown on request."""

from __future__ import annotations

import re

SECRET_FIELDS = frozenset({"auth_data", "original_auth_data"})
"""Credentials; unknown fields beside them may also be credentials."""

SECRET_URLS = frozenset({"proxy_to_broker_url"})
"""URLs and addresses that may have credentials before the host."""

URL_CREDENTIALS = re.compile(rb"(?:^|(?<=://))[^/?#]+(?=@)")
"""Credentials in such a URL."""

_SECRET_NAME = re.compile(r"passw|passphrase|secret|token|credential|api.?key|private.?key|access.?key|authorization", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return True when a property of this name holds a credential."""
    return _SECRET_NAME.search(name) is not None


def redacted(size: int, more: str = "") -> str:
    """Return the text shown instead of a secret, with facts about it that are not secret."""
    return f"redacted ({size} bytes{more})"
