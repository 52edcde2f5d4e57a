"""The forms in which message rows give application bytes."""

from __future__ import annotations

from base64 import b64encode


def payload_text(payload: bytes, form: str) -> str:
    """Return the payload in one of the forms base64, hex, text."""
    if form == "base64":
        return b64encode(payload).decode()
    return payload.hex() if form == "hex" else payload.decode(errors="backslashreplace")
