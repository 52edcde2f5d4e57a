"""Fields that hold credentials: they are shown only when asked for."""

from __future__ import annotations

import re

SECRET_FIELDS = frozenset({"auth_data", "original_auth_data"})
"""Credentials; unknown fields beside them may be some, too."""

SECRET_URLS = frozenset({"proxy_to_broker_url"})
"""URLs and addresses that may have credentials before the host."""

URL_CREDENTIALS = re.compile(rb"(?:^|(?<=://))[^/?#]+(?=@)")
"""Credentials in such a URL."""

_SECRET_NAME = re.compile(r"passw|passphrase|secret|token|credential|api.?key|private.?key|access.?key|authorization", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return True when a property of this name holds a credential."""
    return _SECRET_NAME.search(name) is not None


def redacted(size: int, more: str = "") -> str:
    """Return what is shown in the place of a secret, with what is known of it and no secret."""
    return f"redacted ({size} bytes{more})"
