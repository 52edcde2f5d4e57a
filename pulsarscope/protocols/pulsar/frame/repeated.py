"""Memo of control frames: on many short connections clients and brokers exchange the same bytes again and again.

Looking a frame up costs less than reading it: `decode` of bulk-shortconn (docs/measurements.md) takes 6 % less with the memo.
"""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.frames import OK, Decoded

REPEATED_COMMANDS = frozenset(
    {
        "CONNECT",
        "CONNECTED",
        "PARTITIONED_METADATA",
        "PARTITIONED_METADATA_RESPONSE",
        "LOOKUP",
        "LOOKUP_RESPONSE",
        "SUBSCRIBE",
        "SUCCESS",
        "FLOW",
        "CLOSE_PRODUCER",
        "CLOSE_CONSUMER",
    }
)
"""Commands worth a look: those of the beginning and the end of a connection."""

REPEATED_MAX_BYTES = 256
"""Longest frame that is kept."""

REPEATED_MAX = 4096
"""Number of frames kept; all are dropped when there are more."""


class RepeatedFrames:
    """Contents of frames without a payload, by their bytes."""

    __slots__ = ("_contents",)

    def __init__(self) -> None:
        self._contents: dict[bytes, tuple[str, dict[str, Any], tuple[str, ...]]] = {}
        """Command, fields, and names of the messages among the fields."""

    def read(self, data: bytes, start: int, end: int) -> Decoded | None:
        """Return the contents of the frame data[start:end] if it is kept: a copy, for rows are handed over and may be changed."""
        if (contents := self._contents.get(data[start:end])) is None:
            return None
        command, fields, messages = contents
        fields = fields.copy()
        for name in messages:
            fields[name] = fields[name].copy()
        return command, fields, None, None, None, None, OK, None

    def keep(self, frame: bytes, command: str, fields: dict[str, Any]) -> None:
        """Keep a frame that was read without a finding, unless it is long or has fields that a shallow copy shares."""
        if len(frame) <= REPEATED_MAX_BYTES and all(map(_is_flat, fields.values())):
            if len(self._contents) >= REPEATED_MAX:
                self._contents.clear()
            messages = tuple(name for name, value in fields.items() if isinstance(value, dict))
            self._contents[frame] = command, {name: value.copy() if name in messages else value for name, value in fields.items()}, messages


def _is_flat(value: object) -> bool:
    """Return True when copying the value, if it is a dict, copies all that can be changed."""
    return not isinstance(value, list) and not (isinstance(value, dict) and any(isinstance(part, (dict, list)) for part in value.values()))
